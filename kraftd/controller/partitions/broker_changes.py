"""What it means for partitions that a broker comes, goes or loses a directory: their changes, slice by slice.

`fenced`, `unfenced`, `shutting_down`, `restarted`, `unregistered`, `directories_lost`, `leaderless` and
`preferred` each make a `PartitionChanges`. Its `next` decides the next slice on the newest image, topic by
topic in the order of their ids, and says when it is through: then, with nothing in between, the broker's own
record may follow.

Between two slices the image changes. Say broker 1 loses a directory: until the record that says so is there,
a leader may take it back into an ISR that a slice has just taken it out of. So a broker is not done with when
its partitions were gone through once, but when a look at what it has now finds nothing that a decision would
change.

Nor does one plan undo what another does. Say broker 1 alone has 1,000 partitions, and is being fenced. Who
looks for leaders meanwhile finds it active and would elect it, and neither would ever end. So from the first
slice on it is elected nowhere, and enters no ISR (`partition_rules`).

What fails in one partition leaves out that one: it is told in `failures`, and the rest goes on.

Not here: the broker's own record, and whose turn it is (the plans of brokers).
Follows: Kafka's handleBrokerFenced and its kin, generateLeaderAndIsrUpdates; its maybeBalancePartitionLeaders
and maybeElectUncleanLeaders.
Differs: slices; Kafka decides all of them at once. A broker that is unregistered leaves the ELRs, too: in
Kafka it stays in them, and one that is registered later under its id, without its records, could be elected.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

import msgspec

from kraftd.controller.context import Context
from kraftd.controller.partitions.election import ElectionKind
from kraftd.controller.partitions.partition_change_builder import Target
from kraftd.controller.partitions.partition_rules import PartitionRules
from kraftd.metadata.election_reasons import Fate
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.broker_index import PartitionList
from kraftd.metadata.parts.topics.image import TopicsImage
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord
from kraftd.types import NO_NODE, NodeId, Uuid

LOOKED_AT_A_RECORD: Final = 2
"""A slice ends when it has looked at so many partitions for each record that it may have: reading one costs
about as much as changing it."""


class FailedPartition(NamedTuple):
    """A partition that no decision could be made about, and why."""

    topic_id: Uuid
    partition_id: int
    error: Exception


class Counts(msgspec.Struct):
    """What the changes so far amount to, for one line of a log. Mutable."""

    changed: int = 0
    """Partitions."""
    moved: int = 0
    """Those that another broker leads now."""
    offline: int = 0
    """Those that nobody leads any more."""


class _Event(msgspec.Struct, frozen=True):
    """What happened, as far as partitions have to do with it."""

    list: Callable[[TopicsImage], PartitionList]
    """Which of them it is about."""
    target: Callable[[PartitionRecord], Target]
    """What it makes of one."""
    without: Collection[NodeId] = ()
    """Who cannot lead from now on."""
    fate: Fate = Fate.LOST
    """What becomes of those."""
    also: Collection[NodeId] = ()
    """Who can lead from now on."""
    concerns: Callable[[PartitionRecord], bool] = lambda _: True
    """Which of the list it is really about."""
    election: ElectionKind | None = None
    """How a leader is looked for, if not as the topic allows."""


class PartitionChanges:
    """The changes that an event entails. Mutable; holds nothing of an image but where it stands in it."""

    def __init__(self, event: _Event, *then: _Event) -> None:
        """Begin with an event; each of `then` comes once nothing is left of what was before it."""
        self.counts = Counts()
        self.failures: list[FailedPartition] = []
        self._events = event, *then
        self._event = event
        self._then = list(then)
        self._settled: defaultdict[Uuid, set[int]] = defaultdict(set)
        """Those that stay in the list, and of which nothing more is to be said."""
        self._topics: list[Uuid] = []
        """The topics that are left of this pass, last one first."""
        self._start = 0
        """The first partition that is left of the topic whose turn it is."""

    def next(self, context: Context, limit: int) -> tuple[list[PartitionChangeRecord], bool]:
        """The next records, at most `limit`, and whether there will be none after them."""
        topics, event = context.image[TOPICS], self._event
        rules = PartitionRules(context, without=event.without, also=event.also, fate=event.fate)
        records: list[PartitionChangeRecord] = []
        looks = LOOKED_AT_A_RECORD * limit
        for topic_id, partition_id in self._passes(topics, event.list(topics)):
            change = self._change(rules, topics, topic_id, partition_id)
            if change is None:
                self._settled[topic_id].add(partition_id)
            else:
                records.append(change)
            looks -= 1
            if len(records) == limit or looks == 0:
                return records, False
        if not self._then:
            return records, True
        self._event = self._then.pop(0)
        self._settled.clear()
        for failed in self.failures:
            self._settled[failed.topic_id].add(failed.partition_id)
        return records, False

    def leave_out(self, topic_id: Uuid, partition_id: int, error: Exception) -> bool:
        """Change nothing in a partition any more: deciding about it, or applying its change, failed.

        Returns whether that is new: if not, it was not this partition that failed.
        """
        settled = self._settled[topic_id]
        if partition_id in settled:
            return False
        settled.add(partition_id)
        self.failures.append(FailedPartition(topic_id, partition_id, error))
        return True

    def of_left_out(self) -> "PartitionChanges":
        """The changes of what was left out, for later: what happened may be long over.

        Say a partition was left out when broker 1 was fenced, and broker 1 is back: it leaves the ISR all the
        same, since it may have missed records, and leads again only where nobody else can.
        """
        left_out = {(failed.topic_id, failed.partition_id) for failed in self.failures}

        def restricted(event: _Event) -> _Event:
            def concerns(partition: PartitionRecord) -> bool:
                is_left_out = (partition.topic_id, partition.partition_id) in left_out
                return is_left_out and event.concerns(partition)

            return msgspec.structs.replace(event, also=(), concerns=concerns)

        return PartitionChanges(*map(restricted, (*self._events, _Event(_leaderless, _as_it_is))))

    def _passes(self, topics: TopicsImage, listed: PartitionList) -> Iterator[tuple[Uuid, int]]:
        """Partitions from where the last slice ended, pass after pass, until a whole pass finds none.

        Say the list holds partitions 0 to 3 of one topic, and a slice takes three. The first slice takes 0, 1
        and 2; the second goes on at 3 and then begins a pass, since a leader may have brought 0 back into an
        ISR between the two: then 0 is in the list again, and is taken again. What this slice has taken is
        still in the list, since its records are not applied yet, and is passed over. A pass that began at
        its first partition and found nothing is the end.
        """
        seen_this_slice: defaultdict[Uuid, set[int]] = defaultdict(set)
        while True:
            is_whole_pass, has_found = self._start == 0, False
            if not self._topics:
                self._topics = sorted(listed.topic_ids(), reverse=True)
            while self._topics:
                topic_id = self._topics[-1]
                settled, seen = self._settled.get(topic_id, _NONE), seen_this_slice[topic_id]
                for partition_id in topics.ids_in(listed, topic_id, self._start):
                    self._start = partition_id + 1
                    if partition_id not in settled and partition_id not in seen:
                        has_found = True
                        seen.add(partition_id)
                        yield topic_id, partition_id
                self._topics.pop()
                self._start = 0
            if is_whole_pass and not has_found:
                return

    def _change(
        self, rules: PartitionRules, topics: TopicsImage, topic_id: Uuid, partition_id: int
    ) -> PartitionChangeRecord | None:
        """What the event makes of one partition; None if nothing, or if that fails."""
        try:
            partition = topics.partition(topic_id, partition_id)
            if partition is None or not self._event.concerns(partition):
                return None
            change = rules.change(partition, self._event.target(partition), self._event.election)
        except Exception as error:  # noqa: BLE001 - it costs one partition (D-35)
            self.leave_out(topic_id, partition_id, error)
            return None
        if change is not None:
            self._count(partition, change)
        return change

    def _count(self, before: PartitionRecord, change: PartitionChangeRecord) -> None:
        self.counts.changed += 1
        if change.leader == NO_NODE:
            self.counts.offline += 1
        elif change.leader >= 0 and change.leader != before.leader:
            self.counts.moved += 1


_NONE: Final[set[int]] = set()


def fenced(broker_id: NodeId) -> PartitionChanges:
    """A broker is about to be fenced: it leaves every ISR that has another member, and leads nothing."""
    return PartitionChanges(_leaving(broker_id))


def shutting_down(broker_id: NodeId) -> PartitionChanges:
    """A broker has begun a controlled shutdown: as when it is fenced."""
    return PartitionChanges(msgspec.structs.replace(_leaving(broker_id), fate=Fate.SHUTTING_DOWN))


def unfenced(broker_id: NodeId) -> PartitionChanges:
    """A broker is unfenced, or about to be: it leads what nobody leads and it can."""
    return PartitionChanges(_Event(_leaderless, _as_it_is, also=(broker_id,)))


def restarted(broker_id: NodeId, *, clean: bool) -> PartitionChanges:
    """A broker is about to be registered in a new incarnation: its old one is gone.

    After an unclean stop it may have lost records, so it is not eligible anywhere.
    """
    event = _leaving(broker_id) if clean else _lost(broker_id)
    return PartitionChanges(event)


def unregistered(broker_id: NodeId) -> PartitionChanges:
    """A broker is about to be unregistered: it leaves the ISRs and the ELRs."""
    return PartitionChanges(_lost(broker_id))


def directories_lost(broker_id: NodeId, directory_ids: Collection[Uuid]) -> PartitionChanges:
    """A broker is about to lose directories: it leaves the ISRs of the partitions that it has there."""
    lost = frozenset(directory_ids)

    def is_in_one(partition: PartitionRecord) -> bool:
        return partition.directories[partition.replicas.index(broker_id)] in lost

    event = _Event(
        lambda topics: topics.partitions_on(broker_id),
        lambda partition: Target(isr=without_broker(partition.isr, broker_id)),
        without=(broker_id,),
        concerns=is_in_one,
    )
    # Partitions stay in this list, and are looked at once. A leader that has not heard of the directory yet
    # may bring the replica back between two slices: who is in sync is looked at until nobody is.
    back = msgspec.structs.replace(event, list=lambda topics: topics.partitions_in_sync_on(broker_id))
    return PartitionChanges(event, back)


def leaderless() -> PartitionChanges:
    """Whoever can leads what nobody leads: what a controller begins with, as its predecessor may not have
    ended, and what it does now and then, since configs may allow what they did not.
    """
    return PartitionChanges(_Event(_leaderless, _as_it_is))


def preferred() -> PartitionChanges:
    """The first replica leads where it is in sync and another one leads."""
    return PartitionChanges(
        _Event(
            lambda topics: topics.partitions_not_preferred(),
            _as_it_is,
            concerns=lambda partition: partition.replicas[0] in partition.isr,
            election=ElectionKind.PREFERRED,
        )
    )


def leads_anything(image: MetadataImage, broker_id: NodeId) -> bool:
    """Whether a broker leads any partition."""
    return bool(image[TOPICS].partitions_led_by(broker_id))


def _leaving(broker_id: NodeId) -> _Event:
    """A broker that leaves the ISRs, and keeps its records."""
    return _Event(
        lambda topics: topics.partitions_in_sync_on(broker_id),
        lambda partition: Target(isr=without_broker(partition.isr, broker_id)),
        without=(broker_id,),
    )


def _lost(broker_id: NodeId) -> _Event:
    """A broker that leaves the ISRs and the ELRs, since it may not have all records any more."""
    return _Event(
        lambda topics: topics.partitions_in_sync_or_eligible_on(broker_id),
        lambda partition: lost(partition, broker_id),
        without=(broker_id,),
    )


def _leaderless(topics: TopicsImage) -> PartitionList:
    return topics.partitions_without_leader()


def _as_it_is(_partition: PartitionRecord) -> Target:
    return Target()


def lost(partition: PartitionRecord, broker_id: NodeId) -> Target:
    """What a partition becomes as a broker is started anew after an unclean stop, or unregistered."""
    return Target(isr=without_broker(partition.isr, broker_id), unclean=(broker_id,))


def without_broker(isr: tuple[NodeId, ...], broker_id: NodeId) -> tuple[NodeId, ...]:
    """The ISR that a broker has left."""
    return tuple([one for one in isr if one != broker_id])
