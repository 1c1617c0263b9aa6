"""AlterPartition: the leaders of partitions propose who is in sync, and the controller says yes or why not.

Each partition of a request is checked by itself, in the order of `CHECKS`; what passes becomes the change
that `partition_change_builder` makes of it (`request_plan`). Between the slices of a long request others are
decided.

Two checks keep what is lost from coming back. A broker that is fenced or shutting down, or about to be, does
not enter an ISR (KIP-841), nor does another incarnation than the one that the leader has seen catching up: it
may have lost its records (KIP-903). And a leader that is ahead of this controller is not told that it is
wrong: this controller is not the active one any more, whatever it believes (KAFKA-14154).

Follows: Kafka's alterPartition and validateAlterPartitionData.
Differs: a recovery state without a meaning is INVALID_REQUEST for its partition; in Kafka the request fails.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from kraftd.controller.context import Context
from kraftd.controller.event_queue import EventClass
from kraftd.controller.operations import Decided, WriteOperation
from kraftd.controller.partitions.partition_change_builder import RECOVERED, RECOVERING, Target
from kraftd.controller.partitions.partition_rules import PartitionRules, active_brokers
from kraftd.controller.partitions.request_plan import Asked, Decide, Outcome, RequestPlan
from kraftd.controller.plans import SLICE_RECORDS
from kraftd.errors import ErrorCode
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.partitions import changed
from kraftd.protocol.messages import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord
from kraftd.types import NodeId

_EPOCHS_SINCE: Final = 3
"""The first version in which each member of an ISR comes with its broker epoch."""
_NO_EPOCH: Final = -1
_NO_LEADER_CHANGE: Final = PartitionChangeRecord().leader
_NOWHERE: Final = -1
"""What an offset is called in an error, for a record that is in no log yet."""

_Member: TypeAlias = tuple[NodeId, int]
"""A broker, and its epoch as the leader knows it; -1 if it does not."""
_Told: TypeAlias = AlterPartitionResponsePartitionData


class _Proposal(NamedTuple):
    """What a leader proposes for a partition, and what is known of it here."""

    sender: NodeId
    partition: PartitionRecord
    data: AlterPartitionRequestPartitionData
    members: tuple[_Member, ...]
    isr: tuple[NodeId, ...]
    active: Mapping[NodeId, int]
    """The epoch of each broker that may be in sync."""


CHECKS: Final[tuple[tuple[Callable[[_Proposal], bool], ErrorCode], ...]] = (
    (lambda p: p.data.leader_epoch > p.partition.leader_epoch, ErrorCode.NOT_CONTROLLER),
    (lambda p: p.data.partition_epoch > p.partition.partition_epoch, ErrorCode.NOT_CONTROLLER),
    (lambda p: p.data.leader_epoch < p.partition.leader_epoch, ErrorCode.FENCED_LEADER_EPOCH),
    (lambda p: p.sender != p.partition.leader, ErrorCode.INVALID_REQUEST),
    (lambda p: p.data.partition_epoch < p.partition.partition_epoch, ErrorCode.INVALID_UPDATE_VERSION),
    (lambda p: not _is_isr_of(p.isr, p.partition.replicas), ErrorCode.INVALID_REQUEST),
    (lambda p: p.partition.leader not in p.isr, ErrorCode.INVALID_REQUEST),
    (lambda p: p.data.leader_recovery_state not in (RECOVERED, RECOVERING), ErrorCode.INVALID_REQUEST),
    (
        lambda p: p.data.leader_recovery_state == RECOVERING and len(p.isr) > 1,
        ErrorCode.INVALID_REQUEST,
    ),
    (
        lambda p: p.data.leader_recovery_state > p.partition.leader_recovery_state,
        ErrorCode.INVALID_REQUEST,
    ),
    (lambda p: not _are_eligible(p.members, p.active), ErrorCode.INELIGIBLE_REPLICA),
)
"""What is wrong with a proposal, and what that is called; the first that is true counts."""


def alter_partition(_context: Context, request: AlterPartitionRequest) -> Decided:
    """The changes that a request leads to. Who asks about nothing is not asked for its epoch."""
    return AlterPartitionPlan(request) if request.topics else ([], AlterPartitionResponse())


def refuse(_request: AlterPartitionRequest, error: ErrorCode, _text: str) -> AlterPartitionResponse:
    """The response to a request of which nothing was done, or may not have been."""
    return AlterPartitionResponse(error_code=error)


class AlterPartitionPlan(RequestPlan[AlterPartitionRequestPartitionData, _Told]):
    """A request, decided in slices."""

    kind = AlterPartitionRequest.NAME

    def __init__(self, request: AlterPartitionRequest) -> None:
        asked = [
            Asked(topic.topic_id, data.partition_index, data)
            for topic in request.topics
            for data in topic.partitions
        ]
        super().__init__(asked, SLICE_RECORDS)
        self._request = request

    def complaint(self, context: Context) -> ErrorCode:
        """Whether another incarnation of the sender is registered."""
        is_ours = is_current(context.image, self._request.broker_id, self._request.broker_epoch)
        return ErrorCode.NONE if is_ours else ErrorCode.STALE_BROKER_EPOCH

    def decision(self, context: Context) -> Decide[AlterPartitionRequestPartitionData, _Told]:
        """Whether a proposal is taken, and what becomes of the partition."""
        return _Decision(context, self._request.broker_id).of

    def failed(self, asked: Asked[AlterPartitionRequestPartitionData]) -> _Told:
        """The error of a partition that no decision could be made about."""
        return _failed(asked.what, ErrorCode.UNKNOWN_SERVER_ERROR)

    def response(self) -> AlterPartitionResponse:
        """The state of each partition after its change, or why it was left as it was."""
        if self.error is not ErrorCode.NONE:
            return AlterPartitionResponse(error_code=self.error)
        told = iter(self.told)
        return AlterPartitionResponse(
            topics=tuple(
                AlterPartitionResponseTopicData(topic.topic_id, tuple(next(told) for _ in topic.partitions))
                for topic in self._request.topics
            )
        )


class _Decision:
    """Decides about the partitions of one sender on one image."""

    def __init__(self, context: Context, sender: NodeId) -> None:
        self._sender = sender
        self._has_epochs = context.version >= _EPOCHS_SINCE
        self._topics = context.image[TOPICS]
        self._rules = PartitionRules(context)
        self._active = active_brokers(context)

    def of(self, asked: Asked[AlterPartitionRequestPartitionData]) -> Outcome[_Told]:
        """What the leader of a partition is told, and the change if there is one."""
        data, partition = asked.what, self._topics.partition(asked.topic_id, asked.partition_id)
        if partition is None:
            is_known = self._topics.get(asked.topic_id) is not None
            return Outcome(
                _failed(
                    data, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_known else ErrorCode.UNKNOWN_TOPIC_ID
                )
            )
        proposal = self._proposal(partition, data)
        for is_wrong, error in CHECKS:
            if is_wrong(proposal):
                return Outcome(_failed(data, error))
        change = self._rules.change(partition, Target(isr=proposal.isr, recovery=data.leader_recovery_state))
        if change is None:
            return Outcome(_state_of(partition))
        if change.leader not in (_NO_LEADER_CHANGE, self._sender):
            # The ISR completed a reassignment that leaves its leader out. It is done, and who asked for it
            # must not believe that it still leads.
            return Outcome(_failed(data, ErrorCode.NEW_LEADER_ELECTED), change)
        return Outcome(_state_of(changed(partition, change, _NOWHERE)), change)

    def _proposal(self, partition: PartitionRecord, data: AlterPartitionRequestPartitionData) -> _Proposal:
        if self._has_epochs:
            members = tuple([(one.broker_id, one.broker_epoch) for one in data.new_isr_with_epochs])
            isr = tuple([one.broker_id for one in data.new_isr_with_epochs])
        else:
            members, isr = tuple([(one, _NO_EPOCH) for one in data.new_isr]), data.new_isr
        return _Proposal(self._sender, partition, data, members, isr, self._active)


def is_current(image: MetadataImage, broker_id: NodeId, broker_epoch: int) -> bool:
    """Whether this is the epoch in which a broker is registered."""
    broker = image[BROKERS].get(broker_id)
    return broker is not None and broker.broker_epoch == broker_epoch


def _is_isr_of(isr: tuple[NodeId, ...], replicas: tuple[NodeId, ...]) -> bool:
    """Whether these can be an ISR of a partition: some of its replicas, each once. A broker with a negative
    id, which may register and hold replicas, cannot be in sync (Kafka's Replicas.validateIsr).
    """
    members = set(isr)
    return bool(isr) and len(members) == len(isr) and min(isr) >= 0 and members.issubset(replicas)


def _are_eligible(members: tuple[_Member, ...], active: Mapping[NodeId, int]) -> bool:
    """Whether all may be in sync: active, and of the epoch that the leader knows."""
    return all(
        broker_id in active and epoch in (_NO_EPOCH, active[broker_id]) for broker_id, epoch in members
    )


def _failed(
    data: AlterPartitionRequestPartitionData, error: ErrorCode
) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(partition_index=data.partition_index, error_code=error)


def _state_of(partition: PartitionRecord) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        partition_index=partition.partition_id,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


ALTER_PARTITION = WriteOperation(
    AlterPartitionRequest, alter_partition, refuse, event_class=EventClass.REPLICAS, refuses_unread=True
)
