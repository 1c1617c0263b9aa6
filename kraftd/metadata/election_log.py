"""The elections of a log: changes of partitions in their order, and for each that was an election, why.

`BrokerMoments` say why a leader changed, now and then by what stands in a later batch: then the broker that
led must not be back before that, in the ISR or as the leader, or the reason is unknown.
"""

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from kraftd.metadata.broker_moments import BrokerMoments, Place, refuted
from kraftd.metadata.election_reasons import Election, Leadership
from kraftd.types import NodeId, Offset, Uuid

AboutT = TypeVar("AboutT")


class _Waiting(NamedTuple, Generic[AboutT]):
    """An election whose reason stands in a later batch."""

    about: AboutT
    election: Election
    leader: NodeId
    """Who led before."""
    is_in_isr: bool
    """Whether that stayed in the ISR, as the last one in sync does where no ELR is kept."""
    until: Offset


class ElectionLog(Generic[AboutT]):
    """Tells elections. Mutable. What `about` is, whoever asks decides: it comes back with the election."""

    def __init__(self, moments: BrokerMoments) -> None:
        self._moments = moments
        self._waiting: dict[tuple[Uuid, int], list[_Waiting[AboutT]]] = {}

    def changed(
        self, key: tuple[Uuid, int], before: Leadership, after: Leadership, at: Place, about: AboutT
    ) -> Iterator[tuple[AboutT, Election]]:
        """The elections that are certain after a change of a partition, that one or those before it."""
        if key in self._waiting:
            yield from self._looked_at(key, after, at.offset)
        found = self._moments.infer(before, after, at)
        if found is None:
            return
        if found.until is None:
            yield about, found.election
        else:
            old = before.leader
            waiting = _Waiting(about, found.election, old, old in after.isr, found.until)
            self._waiting.setdefault(key, []).append(waiting)

    def end(self) -> Iterator[tuple[AboutT, Election]]:
        """Those that are left at the end of the log: nothing spoke against them."""
        for waiting in self._waiting.values():
            yield from ((one.about, one.election) for one in waiting)
        self._waiting = {}

    def _looked_at(
        self, key: tuple[Uuid, int], after: Leadership, offset: Offset
    ) -> Iterator[tuple[AboutT, Election]]:
        left = []
        for one in self._waiting.pop(key):
            if one.until < offset:
                yield one.about, one.election
            elif one.leader == after.leader or (one.leader in after.isr and not one.is_in_isr):
                yield one.about, refuted(one.election, one.leader, offset)
            else:
                left.append(one)
        if left:
            self._waiting[key] = left
