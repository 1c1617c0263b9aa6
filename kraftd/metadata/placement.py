"""Which partitions a broker has, as leader, in sync and as replica: found without looking at the others.

Each topic has a number, and each partition a place: that number and its id. For each broker, and each
combination of what it is for a partition, the places are a `NumberSet`; a pair of broker and partition is in
exactly one of them. A few moves wait beside the sets, and are put in place when they are some hundreds.
`PlacementFold` writes many moves into one new placement.

The numbers of topics depend on the order in which they came to be, so two placements of equal images may
differ, and so may the order in which partitions are listed. Nothing of it is hashed or written.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from struct import Struct
from typing import Final, TypeAlias

import msgspec
from immutables import Map

from kraftd.metadata.number_set import NumberSet
from kraftd.types import NodeId, Uuid

REPLICA: Final = 1
IN_SYNC: Final = 2
LEADER: Final = 4
"""What a broker can be for a partition; its part is the sum of all that it is."""

ID_BITS: Final = 32
"""How much of a place is the partition's id."""
ID_MASK: Final = (1 << ID_BITS) - 1

_PART_BITS: Final = 3
_NO_PART: Final = 0
_PARTS: Final = range(1, 1 << _PART_BITS)
_PENDING_MAX: Final = 2_000_000
"""After so many moves a fold writes them down: they would take more memory than the sets."""
_FEW_MAX: Final = 64
"""The moves of so many partitions in a fold may wait beside the sets; more go there."""
_WAIT_MAX: Final = 256
"""So many moves of a broker wait beside its sets; whoever lists it has to put them in place."""
_MOVE: Final = Struct("=QB?")
"""Of a broker: a place, the part that it has there, and whether that came or went."""
_CAME: Final = True
_WENT: Final = False

Place: TypeAlias = int
Parts: TypeAlias = dict[NodeId, int]
"""What each broker is for one partition."""
Brokers: TypeAlias = tuple[tuple[NodeId, ...], tuple[NodeId, ...], NodeId]
"""The replicas, the ISR and the leader of one partition."""
_Moves: TypeAlias = "defaultdict[int, array[int]]"
_Places: TypeAlias = "Map[NodeId, _OfBroker]"


class _OfBroker(msgspec.Struct, frozen=True):
    """The places of one broker."""

    sets: tuple[NumberSet, ...] = (NumberSet(),) * (1 << _PART_BITS)
    """By part."""
    waiting: bytes = b""
    """Moves that are not in the sets yet, oldest first."""

    def later(self, moves: bytes) -> "_OfBroker":
        """The same after moves, which may wait."""
        after = _OfBroker(self.sets, self.waiting + moves)
        return after if len(after.waiting) < _WAIT_MAX * _MOVE.size else after.settled()

    def settled(self) -> "_OfBroker":
        """The same with every place in its set."""
        if not self.waiting:
            return self
        last = {(place, part): came for place, part, came in _MOVE.iter_unpack(self.waiting)}
        sets = list(self.sets)
        for each in {part for _, part in last}:
            come = [place for (place, part), came in last.items() if part == each and came]
            go = [place for (place, part), came in last.items() if part == each and not came]
            sets[each] = sets[each].changed(come, go)
        return _OfBroker(tuple(sets))


class Placement(msgspec.Struct, frozen=True):
    """The places of each broker's partitions, and which topic each number stands for."""

    _brokers: Map[NodeId, _OfBroker] = Map()
    _topics: Map[int, Uuid] = Map()
    _next: int = 0
    """The number of the next topic. None is taken twice."""

    def partitions(self, broker: NodeId, role: int) -> Iterator[tuple[Uuid, int]]:
        """The partitions (topic id, partition id) for which a broker has a role, in no order."""
        sets = self._brokers.get(broker, _NOWHERE).settled().sets
        for part in _PARTS:
            if part & role:
                for place in sets[part]:
                    yield self._topics[place >> ID_BITS], _partition_id(place)


def parts_of(replicas: tuple[NodeId, ...], isr: tuple[NodeId, ...], leader: NodeId) -> Parts:
    """What each broker is for a partition with these replicas, ISR and leader."""
    parts = dict.fromkeys(replicas, REPLICA)
    for broker in isr:
        parts[broker] = parts.get(broker, 0) | IN_SYNC
    if leader >= 0:
        parts[leader] = parts.get(leader, 0) | LEADER
    return parts


class PlacementFold:
    """A scratch copy that moves are written into. One owner, mutable."""

    __slots__ = (
        "_base",
        "_come",
        "_few",
        "_go",
        "_next",
        "_topics",
        "_waiting",
        "expected",
        "followers",
        "laggards",
        "leaders",
    )

    _base: Placement
    _topics: Map[int, Uuid]
    _next: int
    _waiting: dict[NodeId, bytes]
    """By broker, moves that are not among the many yet."""
    _few: int
    """Of how many partitions those are."""
    _come: _Moves
    """By broker and part, where moves are many."""
    _go: _Moves
    expected: set[NodeId]
    """Whom partitions in bulk can come to, by `leaders`, `followers` and `laggards`, until room is made."""
    leaders: dict[NodeId, Callable[[Place], None]]
    """Takes the places of new partitions that a broker leads, in sync; plain dictionaries, for speed."""
    followers: dict[NodeId, Callable[[Place], None]]
    laggards: dict[NodeId, Callable[[Place], None]]

    def __init__(self, base: Placement) -> None:
        self._begin(base)

    def take(self, topic_id: Uuid) -> int:
        """A number for a new topic."""
        number = self._next
        self._topics = self._topics.set(number, topic_id)
        self._next += 1
        return number

    def release(self, number: int) -> None:
        """Forget a topic that is gone; its partitions have left."""
        self._topics = self._topics.delete(number)

    def expect(self, brokers: Iterable[NodeId]) -> None:
        """Have places in `leaders`, `followers` and `laggards` for these brokers."""
        for broker in brokers:
            for puts, part in (
                (self.leaders, REPLICA | IN_SYNC | LEADER),
                (self.followers, REPLICA | IN_SYNC),
                (self.laggards, REPLICA),
            ):
                puts[broker] = self._come[_key(broker, part)].append
        self.expected.update(brokers)

    def move(self, place: Place, before: Parts, after: Parts) -> None:
        """Write down what the brokers of a partition were and are."""
        waiting = self._waiting
        for broker, part in before.items():
            now = after.get(broker, _NO_PART)
            if now != part:
                moves = _MOVE.pack(place, part, _WENT)
                if now != _NO_PART:
                    moves += _MOVE.pack(place, now, _CAME)
                waiting[broker] = waiting.get(broker, b"") + moves
        for broker, part in after.items():
            if broker not in before:
                waiting[broker] = waiting.get(broker, b"") + _MOVE.pack(place, part, _CAME)
        self._few += 1
        if self._few > _FEW_MAX:
            self._spill()

    def make_room(self) -> None:
        """Write down what is pending if it is much."""
        if sum(map(len, self._come.values())) + sum(map(len, self._go.values())) > _PENDING_MAX:
            self._begin(self.image())

    def image(self) -> Placement:
        """What was written, as a placement. This fold ends with it."""
        brokers = self._base._brokers
        if self._come or self._go:
            self._spill()
            brokers = self._with_many(brokers)
        else:
            for broker, moves in self._waiting.items():
                brokers = brokers.set(broker, brokers.get(broker, _NOWHERE).later(moves))
        return Placement(brokers, self._topics, self._next)

    def _spill(self) -> None:
        """Count what were few moves among the many."""
        for broker, moves in self._waiting.items():
            for place, part, came in _MOVE.iter_unpack(moves):
                (self._come if came else self._go)[_key(broker, part)].append(place)
        self._waiting.clear()
        self._few = 0

    def _with_many(self, brokers: _Places) -> _Places:
        """The brokers after many moves."""
        mutation = brokers.mutate()
        for broker in {key >> _PART_BITS for key in (*self._come, *self._go)}:
            sets = list(mutation.get(broker, _NOWHERE).settled().sets)
            for part in _PARTS:
                come = self._come.pop(_key(broker, part), _NONE)
                go = self._go.pop(_key(broker, part), _NONE)
                sets[part] = _changed(sets[part], come, go)
            if any(sets):
                mutation[broker] = _OfBroker(tuple(sets))
            else:
                mutation.pop(broker, None)
        return mutation.finish()

    def _begin(self, base: Placement) -> None:
        self._base = base
        self._topics = base._topics
        self._next = base._next
        self._waiting = {}
        self._few = 0
        self._come = defaultdict(_numbers)
        self._go = defaultdict(_numbers)
        self.expected = set()
        self.leaders, self.followers, self.laggards = {}, {}, {}


_NOWHERE: Final = _OfBroker()
_numbers: Final = partial(array, "Q")
_NONE: Final = _numbers()


def _changed(numbers: NumberSet, come: "array[int]", go: "array[int]") -> NumberSet:
    """A set after many moves: a place that came and went in turn may do neither."""
    if come and go:
        came, went = Counter(come), Counter(go)
        return numbers.changed(came - went, went - came)
    return numbers.changed(come, go) if come or go else numbers


def _key(broker: NodeId, part: int) -> int:
    return broker << _PART_BITS | part


def _partition_id(place: Place) -> int:
    """The id, which is a signed number."""
    half = 1 << (ID_BITS - 1)
    return ((place & ID_MASK) ^ half) - half
