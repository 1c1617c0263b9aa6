"""Which partitions a broker has, in which roles, and which of all are in a state that somebody has to end.

They are found without looking at the others. Each topic has a number, and each partition a key: that number
and its id. For each broker, and each combination of roles that it can have for a partition, the keys are a
`PackedIntSet`; a pair of broker and partition is in exactly one of them. The states of partitions (without
leader, being reassigned, not led by the preferred replica, with an ELR) are kept like the roles of one more
broker, which does not exist. A few moves are kept beside the sets, and merged into them once there are some
hundreds. `BrokerIndexBuilder` writes many moves into one new index. Removed topics with many partitions, one
large one or many small ones, go by their numbers from all sets at once, without a look at the partitions.

The numbers of topics depend on the order in which they were created, so the indexes of two equal images may
differ, and so may the order in which partitions are listed. Nothing of it is hashed or written.
"""

from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial
from itertools import chain
from struct import Struct
from typing import Final, TypeAlias

import msgspec
from immutables import Map

from kraftd.metadata.parts.topics.packed_int_set import PackedIntSet
from kraftd.types import NO_NODE, NodeId, Uuid

REPLICA: Final = 1
IN_SYNC: Final = 2
LEADER: Final = 4
ELIGIBLE: Final = 8
"""The roles of a broker for a partition, as bits; an eligible one is in its ELR."""

LEADERLESS: Final = 1
REASSIGNING: Final = 2
NOT_PREFERRED: Final = 4
WITH_ELR: Final = 8
"""The states of a partition, as bits: in `NOT_PREFERRED` another replica leads than the first, in `WITH_ELR`
there are eligible leader replicas, or last known ones.
"""
_STATES: Final = -1 << 40
"""The broker that does not exist, whose roles are the states. Ids of brokers have 32 bits."""

ID_BITS: Final = 32
"""The low bits of a key, which are the partition's id."""
ID_MASK: Final = (1 << ID_BITS) - 1
_KEYS_END: Final = 1 << 64

_ROLE_BITS: Final = 4
_ROLE_MASK: Final = (1 << _ROLE_BITS) - 1
_NO_ROLE: Final = 0
_ROLES: Final = range(1, 1 << _ROLE_BITS)
_PENDING_MAX: Final = 131_072
"""With more moves than this a builder merges some of them: they take more memory than in the sets, and all at
once would take long.
"""
_PENDING_EACH: Final = 256
"""It may have more if they are of so many sets that fewer than these would be merged into each."""
_STEP_MOVES: Final = 1_024
"""How many moves a step of `settling` merges, each of which may be of another block: 1 to 5 ms."""
_MOVED_AWAY_MAX: Final = 64
"""So many partitions of removed topics are moved away one by one; with more, topics go as a whole."""
_MOVED_AWAY_EACH: Final = 1
"""It may be more, if that is so many for each broker: a look at one's sets takes as long as a move."""
_DROP_STEP: Final = 64
"""How many brokers lose what removed topics had in one step of `settling`."""
_FEW_MAX: Final = 64
"""The moves of so many partitions are appended to `waiting`; with more, all are merged into the sets."""
_WAIT_MAX: Final = 256
"""A broker has fewer moves beside its sets than this; listing its partitions merges them first."""
_MOVE: Final = Struct("=QB?")
"""One move of a broker: a partition's key, the roles there, and whether it gained or lost them."""
_ADDED: Final = True
_REMOVED: Final = False

PartitionKey: TypeAlias = int
Roles: TypeAlias = dict[NodeId, int]
"""The roles of each broker for one partition."""
Assignment: TypeAlias = tuple[tuple[NodeId, ...], tuple[NodeId, ...], NodeId, tuple[NodeId, ...], int]
"""The replicas, the ISR, the leader and the ELR of one partition, and of its states those that do not follow
from them: `REASSIGNING` and `WITH_ELR`.
"""
NO_ASSIGNMENT: Final[Assignment] = ((), (), NO_NODE, (), 0)
"""Of a partition that is not there."""
_Moves: TypeAlias = "defaultdict[int, array[int]]"
_ByBroker: TypeAlias = "Map[NodeId, _BrokerPartitions]"


class _BrokerPartitions(msgspec.Struct, frozen=True):
    """The partitions of one broker."""

    sets: tuple[PackedIntSet, ...] = (PackedIntSet(),) * (1 << _ROLE_BITS)
    """The keys of its partitions, by roles."""
    waiting: bytes = b""
    """Moves that are not in the sets yet, oldest first."""

    def with_moves(self, moves: bytes) -> "_BrokerPartitions":
        """This after moves, which may stay beside the sets."""
        after = _BrokerPartitions(self.sets, self.waiting + moves)
        return after if len(after.waiting) < _WAIT_MAX * _MOVE.size else after.compacted()

    def compacted(self) -> "_BrokerPartitions":
        """This with all moves merged into the sets."""
        if not self.waiting:
            return self
        last = {(key, roles): is_added for key, roles, is_added in _MOVE.iter_unpack(self.waiting)}
        sets = list(self.sets)
        for each in {roles for _, roles in last}:
            added = [key for (key, roles), is_added in last.items() if roles == each and is_added]
            removed = [key for (key, roles), is_added in last.items() if roles == each and not is_added]
            sets[each] = sets[each].changed(added, removed)
        return _BrokerPartitions(tuple(sets))

    def without(self, topics: AbstractSet[int], in_order: Sequence[int]) -> "_BrokerPartitions":
        """This without the partitions of topics with some numbers, which are given in order, too."""
        moves = [move for move in _MOVE.iter_unpack(self.waiting) if move[0] >> ID_BITS not in topics]
        sets = tuple([each.without(topics, in_order, ID_BITS) if each else each for each in self.sets])
        return _BrokerPartitions(sets, b"".join([_MOVE.pack(*move) for move in moves]))

    def counts(self) -> list[int]:
        """How many partitions there are by roles, without moves being merged."""
        counts = list(map(len, self.sets))
        for _, roles, is_added in _MOVE.iter_unpack(self.waiting):
            counts[roles] += 1 if is_added else -1
        return counts


class PartitionList(msgspec.Struct, frozen=True):
    """Some partitions of an image, by topic."""

    _sets: tuple[PackedIntSet, ...]
    _topics: Map[int, Uuid]

    def __iter__(self) -> Iterator[tuple[Uuid, int]]:
        """Every one (topic id, partition id), in no order."""
        for keys in self._sets:
            for key in keys:
                yield self._topics[key >> ID_BITS], _partition_id(key)

    def __bool__(self) -> bool:
        return any(self._sets)

    def __len__(self) -> int:
        return sum(map(len, self._sets))

    def topic_ids(self) -> set[Uuid]:
        """The topics that they are of."""
        return {self._topics[number] for number in {key >> ID_BITS for keys in self._sets for key in keys}}

    def of_topic(self, number: int, start: int = 0) -> list[int]:
        """Those of the topic with this number, from a partition id on, in order."""
        low, high = number << ID_BITS | start & ID_MASK, (number + 1) << ID_BITS
        return [key & ID_MASK for key in sorted(chain.from_iterable(s.within(low, high) for s in self._sets))]


class BrokerIndex(msgspec.Struct, frozen=True):
    """The partitions of each broker, and the topic of each number."""

    _brokers: Map[NodeId, _BrokerPartitions] = Map()
    _topics: Map[int, Uuid] = Map()
    _next: int = 0
    """The number of the next topic. No number is used twice."""

    def partitions(self, broker: NodeId, role: int) -> PartitionList:
        """The partitions for which a broker has a role, or one of several."""
        sets = self._brokers.get(broker, _NO_PARTITIONS).compacted().sets
        chosen = tuple(sets[roles] for roles in _ROLES if roles & role and sets[roles])
        return PartitionList(chosen, self._topics)

    def partitions_in(self, state: int) -> PartitionList:
        """The partitions in a state."""
        return self.partitions(_STATES, state)

    def count(self, broker: NodeId, role: int) -> int:
        """For how many partitions a broker has a role, without a look at any of them."""
        counts = self._brokers.get(broker, _NO_PARTITIONS).counts()
        return sum(counts[roles] for roles in _ROLES if roles & role)


def roles_of(
    replicas: tuple[NodeId, ...],
    isr: tuple[NodeId, ...],
    leader: NodeId,
    elr: tuple[NodeId, ...] = (),
    own_states: int = 0,
) -> Roles:
    """The roles of each broker for a partition, and its states."""
    roles_by_broker = dict.fromkeys(replicas, REPLICA)
    for broker in isr:
        roles_by_broker[broker] = roles_by_broker.get(broker, 0) | IN_SYNC
    for broker in elr:
        roles_by_broker[broker] = roles_by_broker.get(broker, 0) | ELIGIBLE
    if leader >= 0:
        roles_by_broker[leader] = roles_by_broker.get(leader, 0) | LEADER
    states = states_of(replicas, leader) | own_states
    if states:
        roles_by_broker[_STATES] = states
    return roles_by_broker


@lru_cache(maxsize=1_024)
def _moves_between(before: Assignment, after: Assignment) -> tuple[tuple[NodeId, int, int], ...]:
    """Each broker whose roles change, and which roles it loses and gains, 0 for none.

    What happens to a broker happens to hundreds of partitions alike: it is worked out once.
    """
    were, are = roles_of(*before), roles_of(*after)
    pairs = [(broker, were.get(broker, _NO_ROLE), are.get(broker, _NO_ROLE)) for broker in {**were, **are}]
    return tuple([(broker, lost, gained) for broker, lost, gained in pairs if lost != gained])


def states_of(replicas: tuple[NodeId, ...], leader: NodeId) -> int:
    """The states of a partition that follow from these. One without replicas is in none of them."""
    if not replicas:
        return 0
    if leader < 0:
        return LEADERLESS
    return 0 if leader == replicas[0] else NOT_PREFERRED


class _Puts(dict[NodeId, "array[int]"]):
    """By broker, the added keys of new partitions for which it has some roles."""

    __slots__ = ("_added", "_roles")

    def __init__(self, added: _Moves, roles: int) -> None:
        super().__init__()
        self._added, self._roles = added, roles

    def __missing__(self, broker: NodeId) -> "array[int]":
        keys = self[broker] = self._added[_move_key(broker, self._roles)]
        return keys


class BrokerIndexBuilder:
    """A scratch copy that moves are written into. One owner, mutable."""

    __slots__ = (
        "_added",
        "_brokers",
        "_few",
        "_gone",
        "_gone_count",
        "_next",
        "_removed",
        "_to_merge",
        "_topics",
        "_waiting",
        "followers",
        "leaders",
        "out_of_sync",
    )

    _brokers: _ByBroker
    _topics: Map[int, Uuid]
    _next: int
    _waiting: dict[NodeId, bytes]
    """By broker, moves that are not in `_added` and `_removed` yet."""
    _few: int
    """How many partitions those are of."""
    _added: _Moves
    """By broker and roles, where moves are many."""
    _removed: _Moves
    _to_merge: list[int]
    """The brokers and roles whose turn to be merged has not come yet."""
    _gone: dict[int, Iterator[tuple[int, Assignment]]]
    """By number, removed topics whose partitions, these, are still in the sets and among the moves."""
    _gone_count: int
    """How many partitions these topics had."""
    leaders: "_Puts"
    """Where the key of a new partition goes that a broker leads, in sync."""
    followers: "_Puts"
    out_of_sync: "_Puts"

    def __init__(self, base: BrokerIndex) -> None:
        self._brokers = base._brokers
        self._topics = base._topics
        self._next = base._next
        self._waiting = {}
        self._few = 0
        self._added = defaultdict(_numbers)
        self._removed = defaultdict(_numbers)
        self._to_merge = []
        self._gone = {}
        self._gone_count = 0
        self.leaders = _Puts(self._added, REPLICA | IN_SYNC | LEADER)
        self.followers = _Puts(self._added, REPLICA | IN_SYNC)
        self.out_of_sync = _Puts(self._added, REPLICA)

    def add_topic(self, topic_id: Uuid) -> int:
        """Add a topic. Returns its number."""
        number = self._next
        self._topics = self._topics.set(number, topic_id)
        self._next += 1
        return number

    def remove_topic(self, number: int, rows: Iterator[tuple[int, Assignment]], count: int) -> None:
        """Remove a topic with so many partitions; their ids and brokers are read only if they are few."""
        self._topics = self._topics.delete(number)
        self._gone[number] = rows
        self._gone_count += count

    @property
    def next_number(self) -> int:
        """The number of the next topic."""
        return self._next

    def add_in_order(
        self, keys: Sequence[PartitionKey], replicas: Sequence[Sequence[NodeId]], isr_count: int
    ) -> None:
        """Note the roles for new partitions whose ISR is the first of their replicas, led by the first.

        Args:
            keys: Which partitions.
            replicas: The first replica of each, then the second one of each, and so on.
            isr_count: How many of them are the ISR, at least one.
        """
        for place, brokers in enumerate(replicas):
            puts = self.followers if 0 < place < isr_count else self.out_of_sync if place else self.leaders
            deque(map(array.append, map(puts.__getitem__, brokers), keys), maxlen=0)

    def add(self, key: PartitionKey, assignment: Assignment) -> None:
        """Note the roles for a new partition."""
        for broker, roles in roles_of(*assignment).items():
            self._added[_move_key(broker, roles)].append(key)

    def move(self, key: PartitionKey, before: Assignment, after: Assignment) -> None:
        """Note the roles that brokers had and have for a partition."""
        if self._added or self._removed:
            for broker, lost, gained in _moves_between(before, after):
                if lost:
                    self._removed[_move_key(broker, lost)].append(key)
                if gained:
                    self._added[_move_key(broker, gained)].append(key)
            return
        waiting = self._waiting
        for broker, lost, gained in _moves_between(before, after):
            moves = waiting.get(broker, b"")
            if lost:
                moves += _MOVE.pack(key, lost, _REMOVED)
            if gained:
                moves += _MOVE.pack(key, gained, _ADDED)
            waiting[broker] = moves
        self._few += 1
        if self._few > _FEW_MAX:
            self._spill()

    def add_states(self, key: PartitionKey, states: int) -> None:
        """Note the states of a new partition."""
        self._added[_move_key(_STATES, states)].append(key)

    def partitions_in(self, state: int, number: int | None = None) -> list[tuple[Uuid, int]]:
        """The partitions (topic id, partition id) in a state after all moves, of one topic or of all."""
        deque(self._drop(), maxlen=0)
        chosen = [roles for roles in _ROLES if roles & state]
        if self._waiting or self._added or self._removed:
            self._spill()
            for roles in chosen:
                self._merge(_move_key(_STATES, roles))
        partitions = self._brokers.get(_STATES, _NO_PARTITIONS)
        if partitions.waiting:  # kept merged, since one fold may ask for each of 5,000 topics
            partitions = partitions.compacted()
            self._brokers = self._brokers.set(_STATES, partitions)
        sets = [partitions.sets[roles] for roles in chosen if partitions.sets[roles]]
        low, high = (0, _KEYS_END) if number is None else (number << ID_BITS, number + 1 << ID_BITS)
        keys = sorted(chain.from_iterable([each.within(low, high) for each in sets]))
        return [(self._topics[key >> ID_BITS], _partition_id(key)) for key in keys]

    def make_room(self) -> None:
        """Merge some of the moves noted so far if they are many: as many as came in since the last time."""
        pending = sum(map(len, chain(self._added.values(), self._removed.values())))
        excess = pending - max(_PENDING_MAX, _PENDING_EACH * len(self._added))
        if excess > 0:
            self._spill()
        while excess > 0:
            if not self._to_merge:
                self._to_merge = [*{*self._added, *self._removed}]
            excess -= self._merge(self._to_merge.pop())

    def settling(self) -> Iterator[None]:
        """Merge moves ahead that `image` would have to merge, in steps. None is noted after the first one."""
        yield from self._drop()
        if not self._added and not self._removed:
            return
        self._spill()
        yield
        for move_key in {*self._added, *self._removed}:
            while self._merge(move_key, _STEP_MOVES):
                yield

    def image(self) -> BrokerIndex:
        """The index after all moves. Do not use this builder any more."""
        deque(self._drop(), maxlen=0)
        if self._added or self._removed:
            self._spill()
            for move_key in {*self._added, *self._removed}:
                self._merge(move_key)
        else:
            for broker, moves in self._waiting.items():
                partitions = self._brokers.get(broker, _NO_PARTITIONS)
                self._brokers = self._brokers.set(broker, partitions.with_moves(moves))
        return BrokerIndex(self._brokers, self._topics, self._next)

    def _drop(self) -> Iterator[None]:
        """Drop what removed topics had, in steps. Who stops in between begins anew."""
        gone = self._gone.keys()
        if not gone:
            return
        if self._gone_count <= max(_MOVED_AWAY_MAX, _MOVED_AWAY_EACH * len(self._brokers)):
            for number, rows in self._gone.items():
                for partition_id, assignment in rows:
                    self.move(number << ID_BITS | partition_id & ID_MASK, assignment, NO_ASSIGNMENT)
            self._gone, self._gone_count = {}, 0
            return
        self._spill()
        for keys in chain(self._added.values(), self._removed.values()):
            keys[:] = array("Q", [key for key in keys if key >> ID_BITS not in gone])  # stays, as in `_merge`
        in_order = sorted(gone)
        for at, (broker, partitions) in enumerate(self._brokers.items(), 1):
            left = partitions.without(gone, in_order)
            if any(left.sets) or left.waiting:
                self._brokers = self._brokers.set(broker, left)
            else:
                self._brokers = self._brokers.delete(broker)
            if at % _DROP_STEP == 0:
                yield
        self._gone, self._gone_count = {}, 0

    def _spill(self) -> None:
        """Put the few moves to the many."""
        for broker, moves in self._waiting.items():
            for key, roles, is_added in _MOVE.iter_unpack(moves):
                (self._added if is_added else self._removed)[_move_key(broker, roles)].append(key)
        self._waiting.clear()
        self._few = 0

    def _merge(self, move_key: int, max_added: int | None = None) -> int:
        """Merge the moves of one broker with one combination of roles: some of them, if it only gained
        partitions and there is a limit. Returns how many.
        """
        added, removed = self._added.get(move_key, _NONE), self._removed.get(move_key, _NONE)
        now = added if removed else added[:max_added]
        moves = len(now) + len(removed)
        if not moves:
            return 0
        broker, roles = move_key >> _ROLE_BITS, move_key & _ROLE_MASK
        sets = self._brokers.get(broker, _NO_PARTITIONS).compacted().sets
        sets = (*sets[:roles], _changed(sets[roles], now, removed), *sets[roles + 1 :])
        if any(sets):
            self._brokers = self._brokers.set(broker, _BrokerPartitions(sets))
        elif broker in self._brokers:
            self._brokers = self._brokers.delete(broker)
        del added[: len(now)], removed[:]  # the same arrays stay: there are references to them in `_Puts`
        return moves


_NO_PARTITIONS: Final = _BrokerPartitions()
_numbers: Final = partial(array, "Q")
_NONE: Final = _numbers()


def _changed(numbers: PackedIntSet, added: "array[int]", removed: "array[int]") -> PackedIntSet:
    """A set after many moves: a key that was added and removed in turn may have stayed what it was."""
    if added and removed:
        gained, lost = Counter(added), Counter(removed)
        return numbers.changed(gained - lost, lost - gained)
    return numbers.changed(added.tolist(), removed)


def _move_key(broker: NodeId, roles: int) -> int:
    return broker << _ROLE_BITS | roles


def _partition_id(key: PartitionKey) -> int:
    """The id, which is a signed number."""
    half = 1 << (ID_BITS - 1)
    return ((key & ID_MASK) ^ half) - half
