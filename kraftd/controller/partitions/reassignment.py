"""AlterPartitionReassignments: replicas of partitions are moved to other brokers, or a move is called off.

Each partition of a request says which brokers shall hold it in the end. From then on it has those, and after
them the ones that are to go; it is named which replicas are added and which removed. The new ones copy what
there is. Once they are in sync, whatever the leader proposes next ends the move, and the others go
(`partition_change_builder`); where nobody has to copy anything, it ends in the record that begins it.

    wanted       replicas         adding  removing
                 1 2 3
    1 2 4        1 2 4 3          4       3
    4 is in sync: 1 2 4

What calls a move off takes out what it added. If nobody else is in sync, also if nobody at all is, that may
lose records: it is refused, unless the topic allows unclean elections.

Follows: alterPartitionReassignments of Kafka's ReplicationControlManager, PartitionReassignmentReplicas and
PartitionReassignmentRevert.
Differs: a move that is changed is what the newest request says. In Kafka, a request that adds nothing leaves
`adding` as it was, one that adds something names that alone, and one that removes nothing leaves `removing`:
who goes back from 4 5 6 to 1 2 3 waits for ever, and who wants 1 2 3 in the place of 1 3 gets 1 3. A
partition that a request names twice is refused (INVALID_REQUEST). Of more than 10,000 changes none is made
(POLICY_VIOLATION); Kafka makes those up to there.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from kraftd.controller.context import Context
from kraftd.controller.operations import WriteOperation
from kraftd.controller.partitions.by_hand import bad_assignment, check_by_hand
from kraftd.controller.partitions.election import ElectionKind
from kraftd.controller.partitions.partition_change_builder import Target, is_reassigning
from kraftd.controller.partitions.partition_rules import PartitionRules
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import OutcomeRoom, quoted
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponseReassignablePartitionResponse,
    AlterPartitionReassignmentsResponseReassignableTopicResponse,
)
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord
from kraftd.types import NodeId

_Partition = AlterPartitionReassignmentsResponseReassignablePartitionResponse
_Topic = AlterPartitionReassignmentsResponseReassignableTopicResponse

_TOO_MANY: Final = (
    "Not appended: one response cannot tell what became of so many partitions. Split the request."
)


def alter_partition_reassignments(
    context: Context, request: AlterPartitionReassignmentsRequest
) -> tuple[list[PartitionChangeRecord], AlterPartitionReassignmentsResponse]:
    """The records that a request leads to, and its response for when they are committed."""
    if not request.topics:  # as in Kafka: the response says nothing of the request
        return [], AlterPartitionReassignmentsResponse(error_message=None)
    outcomes = OutcomeRoom(_entries(request))
    if not outcomes.holds_all:
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY)
    times = Counter((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    moves = _Moves(context, may_change_factor=request.allow_replication_factor_change)
    records: list[PartitionChangeRecord] = []
    topics = []
    for topic in request.topics:
        told = []
        for one in topic.partitions:
            code, text = ErrorCode.NONE, None
            try:
                if times[topic.name, one.partition_index] > 1:
                    raise RefusedError(ErrorCode.INVALID_REQUEST, "Each partition may appear only once.")
                change = moves.change(topic.name, one.partition_index, one.replicas)
                if change is not None:
                    records.append(change)
            except RefusedError as refused:
                code, text = refused.code, outcomes.text(str(refused))
            told.append(_Partition(one.partition_index, code, text))
        topics.append(_Topic(topic.name, tuple(told)))
    return records, AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=tuple(topics),
    )


def refuse(
    request: AlterPartitionReassignmentsRequest, error: ErrorCode, text: str
) -> AlterPartitionReassignmentsResponse:
    """The response to moves that were not begun, or may not have been.

    The error is the request's and each partition's: a client takes the text from the one, and looks for its
    partitions among the others. As in Kafka, the response does not say what the request allowed.
    """
    left = OutcomeRoom(_entries(request)).count
    topics = []
    for topic in request.topics:
        if left <= 0:
            break
        told = tuple(_Partition(one.partition_index, error, None) for one in topic.partitions[: left - 1])
        topics.append(_Topic(topic.name, told))
        left -= 1 + len(told)
    return AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=text,
        responses=tuple(topics),
    )


class _Moves:
    """What becomes of the partitions of one request."""

    def __init__(self, context: Context, *, may_change_factor: bool) -> None:
        self._image = context.image
        self._rules = PartitionRules(context)
        self._may_change_factor = may_change_factor

    def change(
        self, name: str, partition_id: int, wanted: tuple[NodeId, ...] | None
    ) -> PartitionChangeRecord | None:
        """The change that moves a partition, or calls its move off; None if it is where it shall be.

        Raises:
            RefusedError: It cannot be moved so.
        """
        topics = self._image[TOPICS]
        topic_id = topics.id_of(name)
        if topic_id is None:
            raise _unknown(f"There is no topic {quoted(name)}.")
        partition = topics.partition(topic_id, partition_id)
        if partition is None:
            raise _unknown(f"Topic {name} has no partition {partition_id}.")
        if wanted is not None:
            self._check(partition, wanted)
            # Nobody who may lack records is elected for a move, whatever the topic allows.
            return self._rules.change(partition, moved_to(partition, wanted), ElectionKind.ONLINE)
        if not is_reassigning(partition):
            raise RefusedError(
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                f"Partition {partition_id} of {name} is not being moved.",
            )
        target, is_unclean = called_off(partition)
        if is_unclean and not self._rules.of_topic(topic_id).is_unclean_allowed:
            raise bad_assignment(_loses_records(partition, name))
        return self._rules.change(partition, target)

    def _check(self, partition: PartitionRecord, wanted: tuple[NodeId, ...]) -> None:
        """Refuse replicas that cannot be, and another number of them if the request forbids it."""
        check_by_hand(self._image, wanted)
        factor = _factor(partition)
        if not self._may_change_factor and factor != len(wanted):
            raise RefusedError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The partition has {factor} replica(s), not {len(wanted)}, and the request forbids to "
                "change their number.",
            )


class CalledOff(NamedTuple):
    """What a partition becomes when its move is called off."""

    target: Target
    is_unclean: bool
    """Whether nobody who stays is in sync."""


def moved_to(partition: PartitionRecord, wanted: tuple[NodeId, ...]) -> Target:
    """What a partition becomes that is to be held by these brokers: they come first, then who is to go.

    What an earlier request adds and this one wants goes on being added: the move still waits for it, and
    calling it off takes it out. So the same request once more changes nothing.
    """
    before, after = set(partition.replicas), set(wanted)
    removing = tuple(sorted(before - after))
    adding = tuple(sorted(after - before.difference(partition.adding_replicas)))
    return Target(replicas=(*wanted, *removing), removing=removing, adding=adding)


def called_off(partition: PartitionRecord) -> CalledOff:
    """What a partition that is being moved becomes without what the move has added.

    What a request added that the newest one wants no more is among those that are to go: like them it stays.

    Raises:
        RefusedError: It would have no replicas.
    """
    adding = partition.adding_replicas
    replicas = tuple(one for one in partition.replicas if one not in adding)
    isr = tuple(one for one in partition.isr if one not in adding)
    if not isr and not replicas:
        raise bad_assignment("All replicas of the partition were added by the move.")
    return CalledOff(
        Target(isr=isr or replicas[:1], replicas=replicas, removing=(), adding=()), is_unclean=not isr
    )


def _loses_records(partition: PartitionRecord, name: str) -> str:
    """Why a move cannot be called off after which nobody is in sync, and what has to happen before."""
    which = f"partition {partition.partition_id} of {name}"
    unclean = "and the topic does not allow unclean elections"
    if partition.isr:
        staying = _either(partition, partition.replicas)
        return (
            f"Only replicas that the move has added are in sync for {which}: without them records are lost, "
            f"{unclean}. First {staying} must be in sync."
        )
    told = f"No replica of {which} is in sync: who leads without the move may lack records, {unclean}."
    heirs = _either(partition, partition.eligible_leader_replicas or partition.last_known_elr or ())
    return f"{told} Once {heirs} is up and leads, the move can be called off." if heirs else told


def _either(partition: PartitionRecord, replicas: Sequence[NodeId]) -> str:
    """One of these brokers, as `broker 1, 2 or 3`, without those that the move has added; empty for none."""
    staying = [str(one) for one in replicas if one not in partition.adding_replicas]
    *others, last = staying or [""]
    return f"broker {', '.join(others)} or {last}" if others else f"broker {last}" if last else ""


def _factor(partition: PartitionRecord) -> int:
    """How many replicas a partition has once it is not being moved any more."""
    if not is_reassigning(partition):
        return len(partition.replicas)
    return len({*partition.replicas, *partition.adding_replicas}.difference(partition.removing_replicas))


def _entries(request: AlterPartitionReassignmentsRequest) -> list[str]:
    """The names of what a response lists: each topic, and its partitions, which have none."""
    return [name for topic in request.topics for name in (topic.name, *("" for _ in topic.partitions))]


def _unknown(text: str) -> RefusedError:
    return RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)


ALTER_PARTITION_REASSIGNMENTS = WriteOperation(
    AlterPartitionReassignmentsRequest,
    alter_partition_reassignments,
    refuse,
    has_timeout=True,
    is_empty=lambda request: not request.topics,
)
