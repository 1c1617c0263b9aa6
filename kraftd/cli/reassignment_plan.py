"""Which brokers shall hold which partitions of some topics, with as little copied as may be.

A plan goes through the steps of `spread`. What a step has reached the later ones keep: first that no other
brokers hold a replica and each partition has as many as it shall, then that racks share each partition, then
that brokers share all of them, last that each leads as many. Who leads is the order of replicas: nothing is
copied for it.

Say brokers 1 and 2 hold six partitions, two replicas each, and 3 is new: four of the twelve replicas go to
3, and no other is copied. Broker 1 leads two of them, 2 and 3 as many.

Pure. Follows: what Kafka's placement (`kraftd.controller.topics.placement`) spreads; a rack gets no second
replica before every rack has one, and brokers of no rack are a rack. Differs from Kafka's
`kafka-reassign-partitions --generate`, which places all replicas anew, wherever they are.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

from kraftd.cli.reassignment_file import Assignment, Key, Replicas
from kraftd.types import NO_NODE, NodeId


def spread(present: Assignment, racks: Mapping[NodeId, str | None], factor: int | None = None) -> Assignment:
    """The partitions that change, and their replicas then.

    Args:
        present: The replicas of every partition that is to be on these brokers; each has some.
        racks: The brokers, and their racks.
        factor: How many replicas each partition shall have, at most the number of brokers; None: as many as
            it has.
    """
    spreading = _Spreading(present, racks, factor)
    spreading.fill()
    spreading.mend_racks()
    spreading.share_replicas()
    spreading.share_leaders()
    return {key: after for key, after in spreading.result().items() if after != present[key]}


class _Spreading:
    """A plan in the making. Mutable."""

    def __init__(self, present: Assignment, racks: Mapping[NodeId, str | None], factor: int | None) -> None:
        self._racks = racks
        self._brokers = sorted(racks)
        self._factors = {
            key: min(len(replicas) if factor is None else factor, len(racks))
            for key, replicas in present.items()
        }
        self._after = {key: [one for one in replicas if one in racks] for key, replicas in present.items()}
        self._load = Counter(dict.fromkeys(racks, 0))
        self._load.update(one for replicas in self._after.values() for one in replicas)

    def result(self) -> dict[Key, Replicas]:
        """The replicas of each partition."""
        return {key: tuple(replicas) for key, replicas in self._after.items()}

    def fill(self) -> None:
        """Give each partition as many replicas as it shall have."""
        for key, replicas in self._after.items():
            while len(replicas) > self._factors[key]:
                goes = max(replicas[1:], key=lambda one: (self._alike(replicas, one), self._load[one], one))
                replicas.remove(goes)
                self._load[goes] -= 1
        for key, replicas in self._after.items():
            while len(replicas) < self._factors[key]:
                comes = self._best(replicas, self._brokers)
                replicas.append(comes)
                self._load[comes] += 1

    def mend_racks(self) -> None:
        """Let no rack have two replicas of a partition of which another rack has none."""
        for replicas in self._after.values():
            while unused := self._unused(replicas):
                twice = [one for one in replicas if self._alike(replicas, one) > 1]
                if not twice:
                    break
                leader = replicas[0]
                goes = max(twice, key=lambda one: (one != leader, self._load[one], one))
                self._replace(replicas, goes, self._best(replicas, unused))

    def share_replicas(self) -> None:
        """Take replicas from who has two more than another, as far as racks allow it."""
        while self._share_once():
            pass

    def share_leaders(self) -> None:
        """Let no broker lead two more than another, as far as replicas allow it."""
        leads = Counter(dict.fromkeys(self._brokers, 0))
        leads.update(replicas[0] for replicas in self._after.values())
        while self._lead_once(leads):
            pass
        while chain := self._chain_of_leaders(leads):
            for replicas, broker in chain:
                _lead(replicas, broker, leads)

    # -- replicas

    def _share_once(self) -> bool:
        """Go through all pairs of brokers once. Whether anything was moved."""
        is_moved = False
        for most in sorted(self._brokers, key=lambda one: (-self._load[one], one)):
            for least in sorted(self._brokers, key=lambda one: (self._load[one], one)):
                if self._load[most] - self._load[least] > 1:
                    is_moved = self._share(most, least) or is_moved
        return is_moved

    def _share(self, most: NodeId, least: NodeId) -> bool:
        """Move replicas from one broker to another, first those that it does not lead."""
        is_moved = False
        for may_lead in (False, True):
            for replicas in self._after.values():
                if self._load[most] - self._load[least] < 2:
                    return is_moved
                if most not in replicas or least in replicas or (replicas[0] == most) != may_lead:
                    continue
                others = [one for one in replicas if one != most]
                if len(self._racks_of([*others, least])) >= len(self._racks_of(replicas)):
                    self._replace(replicas, most, least)
                    is_moved = True
        return is_moved

    def _replace(self, replicas: list[NodeId], goes: NodeId, comes: NodeId) -> None:
        replicas[replicas.index(goes)] = comes
        self._load[goes] -= 1
        self._load[comes] += 1

    def _best(self, replicas: Sequence[NodeId], brokers: Iterable[NodeId]) -> NodeId:
        """The broker for one more replica: of the rack that has fewest, with the fewest replicas."""
        free = (one for one in brokers if one not in replicas)
        return min(free, key=lambda one: (self._alike(replicas, one), self._load[one], one))

    def _alike(self, replicas: Iterable[NodeId], broker: NodeId) -> int:
        """How many of the replicas are in the rack of a broker."""
        return sum(self._racks[one] == self._racks[broker] for one in replicas)

    def _unused(self, replicas: Sequence[NodeId]) -> list[NodeId]:
        """The brokers of racks that have none of the replicas."""
        used = self._racks_of(replicas)
        return [one for one in self._brokers if self._racks[one] not in used]

    def _racks_of(self, replicas: Iterable[NodeId]) -> set[str | None]:
        return {self._racks[one] for one in replicas}

    # -- leaders

    def _lead_once(self, leads: Counter[NodeId]) -> bool:
        """Let who leads least lead, where the leader leads two more. Whether anything changed."""
        is_changed = False
        for replicas in self._after.values():
            least = min(replicas, key=lambda one: (leads[one], one))
            if leads[replicas[0]] - leads[least] > 1:
                _lead(replicas, least, leads)
                is_changed = True
        return is_changed

    def _chain_of_leaders(self, leads: Counter[NodeId]) -> list[tuple[list[NodeId], NodeId]]:
        """Partitions and who shall lead them, so that one broker leads one less and one that leads two fewer
        leads one more; none if there is no such chain.

        Say 1 leads four, 2 three and 3 two, and 1 shares no partition with 3: 2 leads one of 1's, and 3 one
        of 2's.
        """
        led: dict[NodeId, list[list[NodeId]]] = {broker: [] for broker in self._brokers}
        for replicas in self._after.values():
            led[replicas[0]].append(replicas)
        for start in sorted(self._brokers, key=lambda one: (-leads[one], one)):
            came: dict[NodeId, tuple[NodeId, list[NodeId]]] = {start: (NO_NODE, [])}
            waiting = deque([start])
            while waiting:
                at = waiting.popleft()
                if leads[start] - leads[at] > 1:
                    return _way(came, at)
                for replicas in led[at]:
                    for other in replicas[1:]:
                        if other not in came:
                            came[other] = at, replicas
                            waiting.append(other)
        return []


def _lead(replicas: list[NodeId], broker: NodeId, leads: Counter[NodeId]) -> None:
    """Let another replica lead a partition."""
    leads[replicas[0]] -= 1
    leads[broker] += 1
    replicas.remove(broker)
    replicas.insert(0, broker)


def _way(
    came: Mapping[NodeId, tuple[NodeId, list[NodeId]]], end: NodeId
) -> list[tuple[list[NodeId], NodeId]]:
    """The steps of a chain that ends at a broker: each partition with its new leader."""
    chain = []
    at = end
    while came[at][0] != NO_NODE:
        before, replicas = came[at]
        chain.append((replicas, at))
        at = before
    return chain
