"""Which partitions a broker has, as leader, in sync and as replica: found without looking at the others.

Each topic has a number, and each partition a place: that number and its id. For each broker, and each
combination of what it is for a partition, the places are a `NumberSet`; a pair of broker and partition is in
exactly one of them. `PlacementFold` writes many moves into one new placement.

The numbers of topics depend on the order in which they came to be, so two placements of equal images may
differ, and so may the order in which partitions are listed. Nothing of it is hashed or written.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import msgspec
from immutables import Map, MapMutation

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
_PARTS: Final = range(1, 1 << _PART_BITS)
_PENDING_MAX: Final = 2_000_000
"""After so many moves a fold writes them down: they would take more memory than the sets."""

Place: TypeAlias = int
Parts: TypeAlias = dict[NodeId, int]
"""What each broker is for one partition."""
_Moves: TypeAlias = "defaultdict[int, array[int]]"


class Placement(msgspec.Struct, frozen=True):
    """The places of each broker's partitions, and which topic each number stands for."""

    _places: Map[int, NumberSet] = Map()
    """By broker and part."""
    _topics: Map[int, Uuid] = Map()
    _next: int = 0
    """The number of the next topic. None is taken twice."""

    def partitions(self, broker: NodeId, role: int) -> Iterator[tuple[Uuid, int]]:
        """The partitions (topic id, partition id) for which a broker has a role, in no order."""
        for part in _PARTS:
            if part & role:
                for place in self._places.get(_key(broker, part), ()):
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

    __slots__ = ("_base", "_come", "_go", "_next", "_topics", "expected", "followers", "laggards", "leaders")

    _base: Placement
    _topics: Map[int, Uuid]
    _next: int
    _come: _Moves
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
        for broker, part in before.items():
            if after.get(broker) != part:
                self._go[_key(broker, part)].append(place)
        for broker, part in after.items():
            if before.get(broker) != part:
                self._come[_key(broker, part)].append(place)

    def make_room(self) -> None:
        """Write down what is pending if it is much."""
        if sum(map(len, self._come.values())) + sum(map(len, self._go.values())) > _PENDING_MAX:
            self._begin(self.image())

    def image(self) -> Placement:
        """What was written, as a placement. This fold ends with it."""
        places = self._base._places
        if self._come or self._go:
            mutation = places.mutate()
            for key, come in self._come.items():
                _write_down(mutation, key, come, self._go.pop(key, _NONE))
                del come[:]  # at once: a million moves take room
            for key, go in self._go.items():
                _write_down(mutation, key, _NONE, go)
            places = mutation.finish()
        return Placement(places, self._topics, self._next)

    def _begin(self, base: Placement) -> None:
        self._base = base
        self._topics = base._topics
        self._next = base._next
        self._come = defaultdict(_numbers)
        self._go = defaultdict(_numbers)
        self.expected = set()
        self.leaders, self.followers, self.laggards = {}, {}, {}


_NOWHERE: Final = NumberSet()


def _numbers() -> "array[int]":
    return array("Q")


_NONE: Final = _numbers()


def _write_down(
    places: "MapMutation[int, NumberSet]", key: int, come: "array[int]", go: "array[int]"
) -> None:
    """Write the moves of one set of places: a place that came and went in turn may do neither."""
    numbers = places.get(key, _NOWHERE)
    if len(come) + len(go) == 1:
        is_there = bool(come)
        places[key] = numbers.with_one(come[0] if is_there else go[0], is_there=is_there)
        return
    if come and go:
        came, went = Counter(come), Counter(go)
        numbers = numbers.changed(came - went, went - came)
    else:
        numbers = numbers.changed(come, go)
    if numbers:
        places[key] = numbers
    else:
        places.pop(key, None)


def _key(broker: NodeId, part: int) -> int:
    return broker << _PART_BITS | part


def _partition_id(place: Place) -> int:
    """The id, which is a signed number."""
    half = 1 << (ID_BITS - 1)
    return ((place & ID_MASK) ^ half) - half
