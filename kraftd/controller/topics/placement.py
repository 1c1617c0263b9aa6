"""Which brokers the replicas of new partitions go to: striped over racks and brokers, from a random start.

Say there are brokers 1 and 2 in rack a, 3 and 4 in rack b. The replicas of one partition go to one rack after
the other, and within a rack to one broker after the other; the next partition begins at the next rack, and
each rack at its next broker. So leaders are spread over all brokers, and no rack gets a second replica before
every rack has one. When each broker has had its turn as a leader, all is shuffled: or else the brokers of a
small rack would always follow the same leaders.

A fenced broker comes after all others of its rack, and is never first: it cannot lead. A broker that is
shutting down, or all of whose directories are cordoned, gets nothing.

Follows: Kafka's StripedReplicaPlacer; with the same random numbers it places the same.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from kraftd.controller.context import Leaving
from kraftd.controller.refused import RefusedError
from kraftd.controller.topics.java_random import JavaRandom
from kraftd.errors import ErrorCode
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.records.messages import RegisterBrokerRecord
from kraftd.types import NO_NODE, NodeId

_NO_BROKER: Final = (
    "there is no broker that can take a replica: none is registered, or each is shutting down or has all its "
    "log directories cordoned."
)
_ALL_FENCED: Final = "every broker that could take a replica is fenced."
_NOT_POSITIVE: Final = "a replication factor is at least 1, not {}."
_TOO_FEW: Final = (
    "a replication factor of {} needs as many brokers, and {} can take a replica; those that are shutting "
    "down, or have all their log directories cordoned, cannot."
)


class UsableBroker(msgspec.Struct, frozen=True):
    """A broker that can take replicas."""

    id: NodeId
    rack: str | None
    is_fenced: bool


def usable_brokers(image: MetadataImage, leaving: Leaving) -> list[UsableBroker]:
    """The brokers that can take replicas, by id. Who is leaving counts as fenced, its directories as gone."""
    return [
        UsableBroker(broker.broker_id, broker.rack, broker.fenced or broker.broker_id in leaving.brokers)
        for broker in map(leaving.rest_of, image[BROKERS].values())
        if not _is_shutting_down(broker) and _has_uncordoned_directory(broker)
    ]


class StripedReplicaPlacer:
    """Places one partition after the other. Mutable: it knows whose turn is next."""

    def __init__(self, random: JavaRandom, brokers: Iterable[UsableBroker]) -> None:
        self._random = random
        self._racks: dict[str | None, _Rack] = {}
        for broker in brokers:
            self._racks.setdefault(broker.rack, _Rack()).add(broker)
        self._order = sorted(self._racks, key=_rack_order)
        for rack in self._order:
            self._racks[rack].begin(random)
        self._total = sum(len(rack.unfenced) + len(rack.fenced) for rack in self._racks.values())
        self._unfenced = sum(len(rack.unfenced) for rack in self._racks.values())
        self._start = random.below(len(self._order)) if self._order else 0
        self._round = 0

    def check(self, replicas: int) -> None:
        """Refuse a replication factor that cannot be had, by INVALID_REPLICATION_FACTOR."""
        complaint = None
        if replicas <= 0:
            complaint = _NOT_POSITIVE.format(replicas)
        elif self._total == 0:
            complaint = _NO_BROKER
        elif self._unfenced == 0:
            complaint = _ALL_FENCED
        elif replicas > self._total:
            complaint = _TOO_FEW.format(replicas, self._total)
        if complaint is not None:
            raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR, f"Cannot place replicas: {complaint}")

    def place(self, replicas: int) -> tuple[NodeId, ...]:
        """The brokers of the next partition, the leader first. `check` has let the number pass."""
        if self._round == self._unfenced and self._unfenced > 1:
            self._shuffle()
        racks = len(self._order)
        self._start %= racks
        leads = self._start
        leader = self._rack_at(leads).next_unfenced(self._round)
        while leader == NO_NODE:
            leads = (leads + 1) % racks
            leader = self._rack_at(leads).next_unfenced(self._round)
        placed = [leader]
        at = self._start
        is_leader_passed = False
        while len(placed) < replicas:
            if at == leads and not is_leader_passed:
                is_leader_passed = True  # this rack has its replica of this round: the leader
            elif (follower := self._rack_at(at).next(self._round)) != NO_NODE:
                placed.append(follower)
            at = (at + 1) % racks
        self._round += 1
        self._start += 1
        return tuple(placed)

    def _rack_at(self, at: int) -> "_Rack":
        return self._racks[self._order[at]]

    def _shuffle(self) -> None:
        in_order = sorted(self._racks, key=_rack_order)
        self._random.shuffle(self._order)
        for rack in in_order:
            self._racks[rack].shuffle(self._random)
        self._round = 0


class _Rack:
    """The brokers of one rack."""

    def __init__(self) -> None:
        self.fenced = _Brokers()
        self.unfenced = _Brokers()

    def add(self, broker: UsableBroker) -> None:
        (self.fenced if broker.is_fenced else self.unfenced).append(broker.id)

    def begin(self, random: JavaRandom) -> None:
        self.fenced.begin(random)
        self.unfenced.begin(random)

    def shuffle(self, random: JavaRandom) -> None:
        random.shuffle(self.fenced)
        random.shuffle(self.unfenced)

    def next_unfenced(self, round_: int) -> NodeId:
        return self.unfenced.next(round_)

    def next(self, round_: int) -> NodeId:
        broker = self.unfenced.next(round_)
        return self.fenced.next(round_) if broker == NO_NODE else broker


class _Brokers(list[NodeId]):
    """Brokers that take turns: each partition begins one further than the one before."""

    def __init__(self) -> None:
        super().__init__()
        self._given = 0
        self._first = 0
        self._round = 0

    def begin(self, random: JavaRandom) -> None:
        if self:
            self.sort()
            self._first = random.below(len(self))

    def next(self, round_: int) -> NodeId:
        """The next broker for a partition, -1 if it has all of them."""
        if not self:
            return NO_NODE
        if self._round != round_:
            self._round = round_
            self._given = 0
            self._first = (self._first + 1) % len(self)
        if self._given >= len(self):
            return NO_NODE
        broker = self[(self._given + self._first) % len(self)]
        self._given += 1
        return broker


def _rack_order(rack: str | None) -> tuple[bool, str]:
    """Brokers of no rack come first."""
    return rack is not None, rack or ""


def _is_shutting_down(broker: RegisterBrokerRecord) -> bool:
    """Whether it is handing over its partitions. Once it is fenced it has stopped, and may come back."""
    return broker.in_controlled_shutdown and not broker.fenced


def _has_uncordoned_directory(broker: RegisterBrokerRecord) -> bool:
    if not broker.log_dirs or broker.cordoned_log_dirs is None:
        return True
    return not set(broker.log_dirs) <= set(broker.cordoned_log_dirs)
