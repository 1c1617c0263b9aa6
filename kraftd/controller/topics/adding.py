"""CreatePartitions: more partitions for topics that are there, placed by the controller or by hand.

A topic gets as many as are missing to the count that is asked for, with as many replicas as its first
partition has. All topics of a request are written together.

Follows: createPartitions of Kafka's ReplicationControlManager and ControllerApis; what is missing counts for
the client's quota before it is placed, also where a request only validates. Of more than 10,000 topics that
are named once, by somebody who may alter them, none is decided, whether or not they are there.
Differs: with more than 10,000 new partitions nothing is written (POLICY_VIOLATION); Kafka writes those of a
topic up to there.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from kraftd.controller.context import Context
from kraftd.controller.operations import WriteOperation
from kraftd.controller.partitions.by_hand import check_by_hand
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import OutcomeRoom, quoted
from kraftd.controller.topics.new_partitions import (
    TOO_MANY_PARTITIONS,
    NewPartitions,
    Replicas,
    none_active,
)
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import AclOperation, AclResource
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol.limits import OPERATION_RECORDS_MAX
from kraftd.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseCreatePartitionsTopicResult,
)
from kraftd.records.messages import PartitionRecord

_TOO_MANY_TOPICS: Final = (
    "Not appended: one response cannot tell what became of so many topics. Split the request."
)


def create_partitions(
    context: Context, request: CreatePartitionsRequest
) -> tuple[list[PartitionRecord], CreatePartitionsResponse]:
    """The records that a request leads to, and its response for when they are committed."""
    times = Counter(topic.name for topic in request.topics)
    outcomes = OutcomeRoom(list(times))
    if not outcomes.holds_all:
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_TOPICS)
    partitions = NewPartitions(context)
    records: list[PartitionRecord] = []
    results = []
    decided = 0
    for topic in {each.name: each for each in request.topics}.values():
        code, text = ErrorCode.NONE, None
        try:
            if times[topic.name] > 1:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "Each topic may appear only once.")
            context.rights.check(AclOperation.ALTER, AclResource.TOPIC, topic.name)
            decided += 1
            if decided > OPERATION_RECORDS_MAX:
                return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_TOPICS)
            missing = _missing(context, topic)
            if len(records) + missing > OPERATION_RECORDS_MAX:
                return [], refuse(request, ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
            context.mutation_quota.take(missing)
            records += _new_partitions(context, partitions, topic, missing)
        except RefusedError as refused:
            code, text = refused.code, outcomes.text(str(refused))
        results.append(_result(topic.name, code, text))
    response = CreatePartitionsResponse(
        throttle_time_ms=context.mutation_quota.throttle_ms, results=tuple(results)
    )
    return [] if request.validate_only else records, response


def refuse(request: CreatePartitionsRequest, error: ErrorCode, text: str) -> CreatePartitionsResponse:
    """The response to partitions that were not added, or may not have been, with the error for each topic."""
    names = list(dict.fromkeys(topic.name for topic in request.topics))
    outcomes = OutcomeRoom(names)
    return CreatePartitionsResponse(
        results=tuple(_result(name, error, outcomes.text(text)) for name in names[: outcomes.count])
    )


def _missing(context: Context, topic: CreatePartitionsRequestCreatePartitionsTopic) -> int:
    """How many partitions a topic shall get. Refuses what is no growth."""
    topics = context.image[TOPICS]
    topic_id = topics.id_of(topic.name)
    if topic_id is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {quoted(topic.name)}.")
    there = topics.partition_count_of(topic_id)
    if topic.count <= there:
        text = f"Topic {topic.name} has {there} partitions, and can only get more, not {topic.count}."
        raise RefusedError(ErrorCode.INVALID_PARTITIONS, text)
    missing = topic.count - there
    if topic.assignments is not None and len(topic.assignments) != missing:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{missing} partitions are missing, and replicas are given for {len(topic.assignments)}.",
        )
    return missing


def _new_partitions(
    context: Context,
    partitions: NewPartitions,
    topic: CreatePartitionsRequestCreatePartitionsTopic,
    missing: int,
) -> list[PartitionRecord]:
    topics = context.image[TOPICS]
    topic_id = topics.id_of(topic.name) or b""
    start = topic.count - missing
    first = next(topics.partitions(topic_id))
    factor = len(first.replicas)
    assignments: Sequence[Replicas]
    if topic.assignments is None:
        assignments = partitions.placed(missing, factor)
    else:
        assignments = [assignment.broker_ids for assignment in topic.assignments]
        for number, replicas in enumerate(assignments, start):
            check_by_hand(context.image, replicas, factor)
            if not partitions.in_sync(replicas):
                raise none_active(number)
    return [
        partitions.record(topic_id, number, replicas) for number, replicas in enumerate(assignments, start)
    ]


def _result(
    name: str, error: ErrorCode, text: str | None
) -> CreatePartitionsResponseCreatePartitionsTopicResult:
    return CreatePartitionsResponseCreatePartitionsTopicResult(
        name=name, error_code=error, error_message=text
    )


CREATE_PARTITIONS = WriteOperation(
    CreatePartitionsRequest, create_partitions, refuse, has_timeout=True, strict_quota_since=3
)
