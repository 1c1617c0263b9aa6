"""DeleteTopics: topics are removed, named by their name or by their id, with their partitions and configs.

Up to version 5 a request names topics by name; since 6 each by either. One that is named twice is not
removed, whichever way it is named. All topics of a request are removed together.

Who may not delete a topic is told its name only if he named it, or may describe it: what is named by its id
and may not be described comes back without a name. An unknown name is told to be unknown to none but those
who might describe it.

With `delete.topic.enable` off nobody deletes anything: the whole request is refused, before it is looked at.

Follows: deleteTopics of Kafka's ControllerApis and ReplicationControlManager.
Differs: outcomes come in the order of the request, and topics take from the client's quota in that order;
Kafka shuffles the outcomes, lest their places tell which topics somebody may not see, and takes in the order
of a map. Of more than 10,000 topics that would go, none does (POLICY_VIOLATION); Kafka removes as many, and
says of the others UNKNOWN_SERVER_ERROR. Nor does any if the request has more names, of whatever topics, than
the outcomes of one response can tell of: some 10,000 short ones.
"""

from collections import Counter
from typing import Final, TypeAlias

from kraftd.controller.context import Context
from kraftd.controller.mutation_quotas import UNLIMITED
from kraftd.controller.operations import WriteOperation
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import OutcomeRoom, quoted
from kraftd.controller.rights import Rights
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import AclOperation, AclResource
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.image import TopicsImage
from kraftd.protocol.limits import OPERATION_RECORDS_MAX
from kraftd.protocol.messages import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResponseDeletableTopicResult,
)
from kraftd.records.messages import RemoveTopicRecord, TopicRecord
from kraftd.types import ZERO_UUID, Uuid, uuid_text

_Named: TypeAlias = tuple[str | None, Uuid]
"""How a request names a topic: by its name and no id, or by None and its id."""

_DISABLED: Final = "Not deleted: delete.topic.enable is false in the controllers' configuration."
_DISABLED_SINCE: Final = 3
"""The version since which a client knows that error."""
_MAY_NOT: Final = "No ACL allows to delete it."
_TOO_MANY_TOPICS: Final = (
    f"Not appended: more than {OPERATION_RECORDS_MAX} topics in one request, or more names than one response "
    "can tell of. Split it."
)


def delete_topics(
    context: Context, request: DeleteTopicsRequest
) -> tuple[list[RemoveTopicRecord], DeleteTopicsResponse]:
    """The records that a request leads to, and its response for when they are committed."""
    if not context.settings.delete_topic:
        return [], refuse(request, _disabled(context.version), _DISABLED)
    named = Counter(_named(request))
    outcomes = _outcomes(named)
    if not outcomes.holds_all:
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_TOPICS)
    topics = context.image[TOPICS]
    rights = context.rights
    may_delete_all = rights.has(AclOperation.DELETE, AclResource.CLUSTER)
    records: list[RemoveTopicRecord] = []
    results = []
    for each in _told_of(named):
        denied = None if may_delete_all or named[each] > 1 else _denied(rights, topics, each)
        if denied is not None:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            results.append(_result(denied, error, outcomes.text(_MAY_NOT)))
            continue
        if _is_told_by_its_name(topics, each, named):
            continue
        try:
            topic = _find(topics, each, named)
        except RefusedError as refused:
            told = _with_its_id(topics, each, named)
            results.append(_result(told, refused.code, outcomes.text(str(refused))))
            continue
        both = (topic.name, topic.topic_id)
        try:
            _take(context, topics, topic)
        except RefusedError as refused:
            results.append(_result(both, refused.code, outcomes.text(str(refused))))
            continue
        if len(records) == OPERATION_RECORDS_MAX:
            return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_TOPICS)
        records.append(RemoveTopicRecord(topic.topic_id))
        results.append(_result(both, ErrorCode.NONE, None))
    throttle_ms = context.mutation_quota.throttle_ms
    return records, DeleteTopicsResponse(throttle_time_ms=throttle_ms, responses=tuple(results))


def refuse(request: DeleteTopicsRequest, error: ErrorCode, text: str) -> DeleteTopicsResponse:
    """The response to topics that were not removed, or may not have been, with the error for each."""
    named = Counter(_named(request))
    outcomes = _outcomes(named)
    told = _told_of(named)[: outcomes.count]
    return DeleteTopicsResponse(responses=tuple(_result(each, error, outcomes.text(text)) for each in told))


def _disabled(version: int) -> ErrorCode:
    return ErrorCode.TOPIC_DELETION_DISABLED if version >= _DISABLED_SINCE else ErrorCode.INVALID_REQUEST


def _named(request: DeleteTopicsRequest) -> list[_Named]:
    by_name: list[_Named] = [(name, ZERO_UUID) for name in request.topic_names]
    return by_name + [(topic.name, topic.topic_id) for topic in request.topics]


def _told_of(named: Counter[_Named]) -> list[_Named]:
    """What has outcomes: each topic one, and as in Kafka what names none, or one in both ways, each time."""
    return [each for each, count in named.items() for _ in range(1 if _is_one_way(each) else count)]


def _is_one_way(each: _Named) -> bool:
    """Whether a topic is named either by its name or by its id."""
    name, topic_id = each
    return (name is None) != (topic_id == ZERO_UUID)


def _outcomes(named: Counter[_Named]) -> OutcomeRoom:
    return OutcomeRoom([name or "" for name, _ in _told_of(named)])


def _denied(rights: Rights, topics: TopicsImage, each: _Named) -> _Named | None:
    """How a topic is named to a client that may not delete it; None if it may, or if there is none."""
    name, topic_id = each
    if not _is_one_way(each):
        return None
    if name is not None:
        if not rights.has(AclOperation.DESCRIBE, AclResource.TOPIC, name):
            return each
        is_there = topics.id_of(name) is not None
        may_delete = not is_there or rights.has(AclOperation.DELETE, AclResource.TOPIC, name)
        return None if may_delete else each
    topic = topics.get(topic_id)
    if topic is None or rights.has(AclOperation.DELETE, AclResource.TOPIC, topic.name):
        return None
    may_describe = rights.has(AclOperation.DESCRIBE, AclResource.TOPIC, topic.name)
    return (topic.name if may_describe else None), topic_id


def _find(topics: TopicsImage, each: _Named, named: Counter[_Named]) -> TopicRecord:
    """The topic to remove."""
    name, topic_id = each
    if not _is_one_way(each):
        text = "A topic is named either by its name or by its id."
        raise RefusedError(ErrorCode.INVALID_REQUEST, text)
    if named[each] > 1:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "Each topic may appear only once.")
    if name is None:
        topic = topics.get(topic_id)
        if topic is None:
            raise RefusedError(ErrorCode.UNKNOWN_TOPIC_ID, f"No topic has the id {uuid_text(topic_id)}.")
        return topic
    found = topics.get(topics.id_of(name) or ZERO_UUID)
    if found is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {quoted(name)}.")
    if (None, found.topic_id) in named:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"Topic {name} is named by its id, too.")
    return found


def _take(context: Context, topics: TopicsImage, topic: TopicRecord) -> None:
    """Take the partitions of a topic from the client's quota, if it has one: to count them takes a while."""
    if context.mutation_quota is not UNLIMITED:
        context.mutation_quota.take(topics.partition_count_of(topic.topic_id))


def _is_told_by_its_name(topics: TopicsImage, each: _Named, named: Counter[_Named]) -> bool:
    """Whether a topic that is named by its id is named once by its name, too, where its outcome is told."""
    name, topic_id = each
    topic = topics.get(topic_id) if name is None and named[each] == 1 else None
    return topic is not None and named[(topic.name, ZERO_UUID)] == 1


def _with_its_id(topics: TopicsImage, each: _Named, named: Counter[_Named]) -> _Named:
    """What the outcome of a topic names: both, if the request does. A name named twice is not looked up."""
    topic_id = topics.id_of(each[0]) if each[0] is not None and named[each] == 1 else None
    return (each[0], topic_id) if topic_id is not None and (None, topic_id) in named else each


def _result(named: _Named, error: ErrorCode, text: str | None) -> DeleteTopicsResponseDeletableTopicResult:
    name, topic_id = named
    return DeleteTopicsResponseDeletableTopicResult(
        name=name, topic_id=topic_id, error_code=error, error_message=text
    )


DELETE_TOPICS = WriteOperation(
    DeleteTopicsRequest, delete_topics, refuse, has_timeout=True, strict_quota_since=5
)
