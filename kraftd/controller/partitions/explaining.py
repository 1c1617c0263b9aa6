"""ExplainPartition: why a partition is as it is, by the rules that its elections follow.

An API of kraftd. Says of each replica what its broker and its directory are like, and of a partition that
nobody leads what becomes of it once a replica can lead, and what an unclean election would do now: each is an
election held on the committed image, whose outcome is told and not written. Whether a broker that is down was
stopped in order shows when it registers again: where that decides, both outcomes are told. Of one whose log
directory failed it is known before: a Kafka broker has the directory back by a start alone, and says that it
was stopped in order only if each of its directories does, which one that failed cannot. Where no ELR is kept
it may lead all the same, and lacks what it had not flushed.

Of the partition and of each replica it tells the state, and of replicas that were taken away how far their
deletion is: of a partition that is deleted, that alone.

How many records an unclean election loses no controller knows: offsets of partitions are the brokers'.
"""

from collections.abc import Callable, Sequence
from typing import Final

from kraftd.controller.context import ReadContext
from kraftd.controller.deletions.removals import Removed
from kraftd.controller.deletions.tracker import Entry, is_old_copy
from kraftd.controller.operations import SessionReadOperation
from kraftd.controller.partitions.broker_changes import lost
from kraftd.controller.partitions.election import Candidates, ElectionKind, elect
from kraftd.controller.partitions.partition_rules import (
    PartitionRules,
    has_elr,
    is_active,
)
from kraftd.errors import ErrorCode
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.partition_conditions import BrokerState, DirectoryState, LeadsThen
from kraftd.metadata.partition_states import PartitionState, state_in, state_of_leader
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.partitions import UNASSIGNED, changed
from kraftd.metadata.replica_states import assigned_state, has_online_directory
from kraftd.protocol.messages import (
    ExplainPartitionRequest,
    ExplainPartitionResponse,
    ExplainPartitionResponseRemoval,
    ExplainPartitionResponseReplica,
)
from kraftd.records.messages import PartitionRecord, RegisterBrokerRecord
from kraftd.types import NO_NODE, ZERO_UUID, NodeId, Uuid

_NO_TOPIC: Final = "there is no such topic"
_NO_PARTITION: Final = "the topic has no such partition"
_NOWHERE: Final = -1
"""What an offset is called in an error, for a record that is in no log."""


def explain_partition(context: ReadContext, request: ExplainPartitionRequest) -> ExplainPartitionResponse:
    """What a partition and its replicas are like, and what an election would do."""
    topics = context.image[TOPICS]
    topic_id = topics.id_of(request.name)
    partition = None if topic_id is None else topics.partition(topic_id, request.partition_index)
    if partition is None:
        return _absent(context, request, _NO_TOPIC if topic_id is None else _NO_PARTITION)
    return _explained(context, partition)


def _absent(context: ReadContext, request: ExplainPartitionRequest, why: str) -> ExplainPartitionResponse:
    """A partition that is not committed: it may be decided, and may have been there before."""
    name, index = request.name, request.partition_index
    entries = _removed(context, lambda one: one.topic == name and index in one.partitions)
    newest = None if context.newest is None else context.newest.image
    topic_id = None if newest is None else newest[TOPICS].id_of(name)
    state = PartitionState.NON_EXISTENT
    if topic_id is not None:
        state = state_in(context.image, topic_id, index, newest)
    if state is PartitionState.NON_EXISTENT:
        if not entries:
            return refuse(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
        topic_id = entries[-1].removed.topic_id
    return ExplainPartitionResponse(
        applied_offset=context.applied_offset,
        topic_id=ZERO_UUID if topic_id is None else topic_id,
        state=state,
        removals=_removals(context.image, entries),
    )


def _explained(context: ReadContext, partition: PartitionRecord) -> ExplainPartitionResponse:
    rules = PartitionRules(context)
    topic = rules.of_topic(partition.topic_id)
    elections = _Elections(context, partition, rules, topic.election)
    topic_id, index = partition.topic_id, partition.partition_id
    gone = _removed(
        context, lambda one: one.topic_id == topic_id and index in one.partitions, partition.replicas
    )
    return ExplainPartitionResponse(
        applied_offset=context.applied_offset,
        topic_id=topic_id,
        state=state_of_leader(partition.leader),
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        min_isr=topic.min_isr,
        is_unclean_allowed=topic.is_unclean_allowed,
        is_leader_recovering=bool(partition.leader_recovery_state),
        unclean_leader_id=elections.unclean_leader(),
        replicas=tuple(
            _replica(context.image, partition, at, elections.leads_then(at))
            for at in range(len(partition.replicas))
        ),
        removals=_removals(context.image, gone),
    )


def _removed(
    context: ReadContext, is_wanted: Callable[[Removed], bool], replicas: Sequence[NodeId] = ()
) -> list[Entry]:
    """What is known of replicas that were taken away, of each broker the newest; the newest of all last. Of
    brokers that have a replica, only old copies.

    It looks at all that the tracker keeps: `tracker.REPLICAS_MAX` at most, in a millisecond.
    """
    if context.deletions is None:
        return []
    newest: dict[NodeId, Entry] = {}
    for entry in context.deletions.entries():
        broker_id = entry.removed.broker_id
        if is_wanted(entry.removed) and (broker_id not in replicas or is_old_copy(entry, context.image)):
            newest.pop(broker_id, None)
            newest[broker_id] = entry
    return list(newest.values())


def _removals(image: MetadataImage, entries: list[Entry]) -> tuple[ExplainPartitionResponseRemoval, ...]:
    brokers = image[BROKERS]
    return tuple(
        ExplainPartitionResponseRemoval(
            broker_id=entry.removed.broker_id,
            state=entry.state,
            broker_state=_broker_state(brokers.get(entry.removed.broker_id)),
            offset=entry.removed.offset,
            reason=entry.removed.reason,
            is_set_aside=entry.is_set_aside or is_old_copy(entry, image),
            is_heard=entry.is_certain,
            is_directory_offline=entry.is_directory_offline,
        )
        for entry in sorted(entries, key=lambda one: one.removed.broker_id)
    )


def _replica(
    image: MetadataImage, partition: PartitionRecord, at: int, leads: LeadsThen
) -> ExplainPartitionResponseReplica:
    broker_id, directory = partition.replicas[at], partition.directories[at]
    broker = image[BROKERS].get(broker_id)
    return ExplainPartitionResponseReplica(
        broker_id=broker_id,
        state=assigned_state(broker, directory),
        broker_state=_broker_state(broker),
        directory_state=_directory_state(broker, directory),
        directory=directory,
        is_in_sync=broker_id in partition.isr,
        is_eligible=broker_id in (partition.eligible_leader_replicas or ()),
        is_adding=broker_id in partition.adding_replicas,
        is_removing=broker_id in partition.removing_replicas,
        leads=leads,
    )


def _broker_state(broker: RegisterBrokerRecord | None) -> BrokerState:
    if broker is None:
        return BrokerState.UNREGISTERED
    if is_active(broker):
        return BrokerState.ACTIVE
    return BrokerState.FENCED if broker.fenced else BrokerState.SHUTTING_DOWN


def _directory_state(broker: RegisterBrokerRecord | None, directory: Uuid) -> DirectoryState:
    if directory == UNASSIGNED:
        return DirectoryState.NOT_TOLD
    is_online = broker is None or has_online_directory(broker, directory)
    return DirectoryState.ONLINE if is_online else DirectoryState.GONE


class _Elections:
    """Elections of one partition that are held to be told of."""

    def __init__(
        self, context: ReadContext, partition: PartitionRecord, rules: PartitionRules, kind: ElectionKind
    ) -> None:
        self._image = context.image
        self._partition = partition
        self._kind = kind
        self._has_elr = has_elr(context.image)
        self._accepts_now = lambda broker_id: rules.accepts(partition, broker_id)
        self._of_nobody = PartitionRules(context, without=partition.replicas)
        """By which nobody can lead."""

    def leads_then(self, at: int) -> LeadsThen:
        """What becomes of a partition without leader once the replica there, and no other, can lead."""
        if self._partition.leader != NO_NODE:
            return LeadsThen.NOTHING
        broker_id = self._partition.replicas[at]
        broker = self._image[BROKERS].get(broker_id)
        directory = self._partition.directories[at]
        # Either way it has to be started, and nothing will show that it was stopped in order.
        has_failed = _directory_state(broker, directory) is DirectoryState.GONE
        must_start = broker is None or has_failed
        partition = self._after_unclean_start(broker_id) if must_start else self._partition
        elected = elect(self._kind, self._candidates(partition, lambda one: one == broker_id))
        if elected.leader == NO_NODE:
            return LeadsThen.NOTHING
        if elected.is_unclean or has_failed:  # what was not flushed when the directory failed is lost
            return LeadsThen.MAY_LACK_RECORDS
        is_running = broker is not None and is_active(broker)
        return LeadsThen.WITHOUT_LOSS if is_running or not self._has_elr else LeadsThen.UNLESS_IT_CRASHED

    def unclean_leader(self) -> NodeId:
        """Who would lead a partition without leader after an unclean election now, -1 if nobody."""
        if self._partition.leader != NO_NODE:
            return NO_NODE
        return elect(ElectionKind.UNCLEAN, self._candidates(self._partition, self._accepts_now)).leader

    def _after_unclean_start(self, broker_id: NodeId) -> PartitionRecord:
        """The partition once a broker is registered anew that cannot tell of an orderly stop."""
        partition = self._partition
        change = self._of_nobody.change(partition, lost(partition, broker_id), self._kind)
        return partition if change is None else changed(partition, change, _NOWHERE)

    def _candidates(self, partition: PartitionRecord, is_acceptable: Callable[[NodeId], bool]) -> Candidates:
        return Candidates(
            partition.leader,
            partition.replicas,
            partition.isr,
            partition.eligible_leader_replicas or (),
            partition.last_known_elr or (),
            self._has_elr,
            is_acceptable,
        )


def refuse(_request: ExplainPartitionRequest, error: ErrorCode, text: str) -> ExplainPartitionResponse:
    """The response where there is nothing to tell of."""
    return ExplainPartitionResponse(error_code=error, error_message=text, applied_offset=-1)


EXPLAIN_PARTITION = SessionReadOperation(ExplainPartitionRequest, explain_partition, refuse)
