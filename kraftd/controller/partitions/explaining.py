"""ExplainPartition: why a partition is as it is, by the rules that its elections follow.

An API of kraftd. Says of each replica what its broker and its directory are like, and of a partition that
nobody leads what becomes of it once a replica can lead, and what an unclean election would do now: each is an
election held on the committed image, whose outcome is told and not written. Whether a broker that is down was
stopped in order shows when it registers again: where that decides, both outcomes are told.

How many records an unclean election loses no controller knows: offsets of partitions are the brokers'.
"""

from typing import Final

from kraftd.controller.context import ReadContext
from kraftd.controller.operations import SessionReadOperation
from kraftd.controller.partitions.election import Candidates, ElectionKind, elect
from kraftd.controller.partitions.partition_rules import (
    PartitionRules,
    has_elr,
    is_active,
)
from kraftd.errors import ErrorCode
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.partition_conditions import BrokerState, DirectoryState, LeadsThen
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.partitions import UNASSIGNED
from kraftd.metadata.replica_states import has_online_directory
from kraftd.protocol.messages import (
    ExplainPartitionRequest,
    ExplainPartitionResponse,
    ExplainPartitionResponseReplica,
)
from kraftd.records.messages import PartitionRecord, RegisterBrokerRecord
from kraftd.types import NO_NODE, NodeId, Uuid

_NO_TOPIC: Final = "there is no such topic"
_NO_PARTITION: Final = "the topic has no such partition"


def explain_partition(context: ReadContext, request: ExplainPartitionRequest) -> ExplainPartitionResponse:
    """What a partition and its replicas are like, and what an election would do."""
    topics = context.image[TOPICS]
    topic_id = topics.id_of(request.name)
    if topic_id is None:
        return refuse(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NO_TOPIC)
    partition = topics.partition(topic_id, request.partition_index)
    if partition is None:
        return refuse(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NO_PARTITION)
    return _explained(context, partition)


def _explained(context: ReadContext, partition: PartitionRecord) -> ExplainPartitionResponse:
    rules = PartitionRules(context)
    topic = rules.of_topic(partition.topic_id)
    elections = _Elections(context.image, partition, rules, topic.election)
    return ExplainPartitionResponse(
        applied_offset=context.applied_offset,
        topic_id=partition.topic_id,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        min_isr=topic.min_isr,
        is_unclean_allowed=topic.is_unclean_allowed,
        is_leader_recovering=bool(partition.leader_recovery_state),
        unclean_leader_id=elections.unclean_leader(),
        replicas=tuple(
            _replica(context.image, partition, at, elections.leads_then(broker_id))
            for at, broker_id in enumerate(partition.replicas)
        ),
    )


def _replica(
    image: MetadataImage, partition: PartitionRecord, at: int, leads: LeadsThen
) -> ExplainPartitionResponseReplica:
    broker_id, directory = partition.replicas[at], partition.directories[at]
    broker = image[BROKERS].get(broker_id)
    return ExplainPartitionResponseReplica(
        broker_id=broker_id,
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
        self, image: MetadataImage, partition: PartitionRecord, rules: PartitionRules, kind: ElectionKind
    ) -> None:
        self._image = image
        self._partition = partition
        self._kind = kind
        self._now = Candidates(
            partition.leader,
            partition.replicas,
            partition.isr,
            partition.eligible_leader_replicas or (),
            partition.last_known_elr or (),
            has_elr(image),
            lambda broker_id: rules.accepts(partition, broker_id),
        )

    def leads_then(self, broker_id: NodeId) -> LeadsThen:
        """What becomes of a partition without leader once this replica, and no other, can lead."""
        if self._partition.leader != NO_NODE:
            return LeadsThen.NOTHING
        elected = elect(self._kind, self._now._replace(is_acceptable=lambda one: one == broker_id))
        if elected.leader == NO_NODE:
            return LeadsThen.NOTHING
        if elected.is_unclean:
            return LeadsThen.MAY_LACK_RECORDS
        broker = self._image[BROKERS].get(broker_id)
        is_running = broker is not None and is_active(broker)
        return (
            LeadsThen.WITHOUT_LOSS if is_running or not has_elr(self._image) else LeadsThen.UNLESS_IT_CRASHED
        )

    def unclean_leader(self) -> NodeId:
        """Who would lead a partition without leader after an unclean election now, -1 if nobody."""
        if self._partition.leader != NO_NODE:
            return NO_NODE
        return elect(ElectionKind.UNCLEAN, self._now).leader


def refuse(_request: ExplainPartitionRequest, error: ErrorCode, text: str) -> ExplainPartitionResponse:
    """The response where there is nothing to tell of."""
    return ExplainPartitionResponse(error_code=error, error_message=text, applied_offset=-1)


EXPLAIN_PARTITION = SessionReadOperation(ExplainPartitionRequest, explain_partition, refuse)
