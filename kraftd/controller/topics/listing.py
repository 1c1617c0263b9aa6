"""ListTopics and DescribeTopics: topics and their partitions, in pages, from a committed image.

APIs of kraftd: Kafka's controllers have none that tells of topics, only its brokers do. `list_topics` counts
what is in trouble in each topic; a topic of many partitions is counted in several pages, whose numbers the
caller adds up. `describe_topics` tells all that is known of each partition of some topics.

No page grows with the image, neither in what it holds nor in what it looks at.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from kraftd.controller.operations import ReadOperation
from kraftd.controller.response_room import PageRoom, entry_bytes, ids_bytes
from kraftd.errors import ErrorCode
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.partition_conditions import is_under_replicated
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.image import TopicsImage
from kraftd.protocol.messages import (
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    DescribeTopicsResponseNextCursor,
    DescribeTopicsResponsePartition,
    DescribeTopicsResponseTopic,
    ListTopicsRequest,
    ListTopicsResponse,
    ListTopicsResponseNextCursor,
    ListTopicsResponseTopic,
)
from kraftd.records.messages import PartitionRecord, TopicRecord
from kraftd.types import ZERO_UUID, Offset, Uuid

PARTITIONS_PER_PAGE: Final = 2_048
"""So many partitions does a page of ListTopics look at: some 10 ms, whatever their topics."""

_UUID_BYTES: Final = 18
"""At most what a directory's id takes in msgpack."""


def list_topics(
    image: MetadataImage, request: ListTopicsRequest, applied_offset: Offset
) -> ListTopicsResponse:
    """A page of topics by name, each with what its partitions that the page looked at are like."""
    topics, begin = image[TOPICS], request.cursor
    room, left = PageRoom(), PARTITIONS_PER_PAGE
    page: list[ListTopicsResponseTopic] = []
    next_cursor = None
    for topic in topics.topics_since("" if begin is None else begin.name):
        is_begun = begin is not None and begin.topic_id == topic.topic_id
        since = begin.partition_index if begin is not None and is_begun else 0
        if left == 0 or not room.add(entry_bytes(topic.name)):
            next_cursor = ListTopicsResponseNextCursor(topic.name, topic.topic_id, since)
            break
        found = list(islice(topics.partitions(topic.topic_id, since), left + 1))
        page.append(_counted(topic, found[:left]))
        if len(found) > left:
            next_index = found[left].partition_id
            next_cursor = ListTopicsResponseNextCursor(topic.name, topic.topic_id, next_index)
            break
        left -= len(found)
    return ListTopicsResponse(applied_offset=applied_offset, topics=tuple(page), next_cursor=next_cursor)


def _counted(topic: TopicRecord, partitions: Sequence[PartitionRecord]) -> ListTopicsResponseTopic:
    replicas = [len(partition.replicas) for partition in partitions]
    return ListTopicsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=len(partitions),
        least_replicas=min(replicas, default=0),
        most_replicas=max(replicas, default=0),
        leaderless=sum(partition.leader < 0 for partition in partitions),
        under_replicated=sum(map(is_under_replicated, partitions)),
    )


def describe_topics(
    image: MetadataImage, request: DescribeTopicsRequest, applied_offset: Offset
) -> DescribeTopicsResponse:
    """A page of the partitions of the topics named, in the order of the names."""
    topics, room = image[TOPICS], PageRoom()
    page: list[DescribeTopicsResponseTopic] = []
    next_cursor = None
    for name in request.names:
        topic_id = topics.id_of(name) or ZERO_UUID
        is_begun = name == request.names[0] and topic_id == request.topic_id
        since = request.partition_index if is_begun else 0
        entry, next_index = _described(topics, name, topic_id, since, room)
        if entry is not None:
            page.append(entry)
        if next_index is not None:
            next_cursor = DescribeTopicsResponseNextCursor(name, topic_id, next_index)
            break
    return DescribeTopicsResponse(applied_offset=applied_offset, topics=tuple(page), next_cursor=next_cursor)


def _described(
    topics: TopicsImage, name: str, topic_id: Uuid, since: int, room: PageRoom
) -> tuple[DescribeTopicsResponseTopic | None, int | None]:
    """The partitions of a topic that fit, and the index of the first that does not; None if all fit.

    The name is counted with the first partition: one partition always fits into a page, and with it its
    topic, so that every page is a step forward.
    """
    found: list[DescribeTopicsResponsePartition] = []
    for partition in topics.partitions(topic_id, since):
        if not room.add(_bytes_of(partition) + (0 if found else entry_bytes(name))):
            entry = DescribeTopicsResponseTopic(ErrorCode.NONE, name, topic_id, tuple(found))
            return (entry if found else None), partition.partition_id
        found.append(_partition(partition))
    if not found and not room.add(entry_bytes(name)):
        return None, since
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic_id == ZERO_UUID else ErrorCode.NONE
    return DescribeTopicsResponseTopic(error, name, topic_id, tuple(found)), None


def _partition(partition: PartitionRecord) -> DescribeTopicsResponsePartition:
    return DescribeTopicsResponsePartition(
        partition_index=partition.partition_id,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        replicas=partition.replicas,
        isr=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas or (),
        last_known_elr=partition.last_known_elr or (),
        adding_replicas=partition.adding_replicas,
        removing_replicas=partition.removing_replicas,
        directories=partition.directories,
        is_leader_recovering=bool(partition.leader_recovery_state),
    )


def _bytes_of(partition: PartitionRecord) -> int:
    ids = ids_bytes(
        partition.replicas,
        partition.isr,
        partition.eligible_leader_replicas,
        partition.last_known_elr,
        partition.adding_replicas,
        partition.removing_replicas,
    )
    return entry_bytes() + ids + _UUID_BYTES * len(partition.directories)


def refuse_list(_request: ListTopicsRequest, error: ErrorCode, text: str) -> ListTopicsResponse:
    """The response to a list that could not be read."""
    return ListTopicsResponse(error_code=error, error_message=text, applied_offset=-1)


def refuse_describe(_request: DescribeTopicsRequest, error: ErrorCode, text: str) -> DescribeTopicsResponse:
    """The response to a describe that could not be read."""
    return DescribeTopicsResponse(error_code=error, error_message=text, applied_offset=-1)


LIST_TOPICS = ReadOperation(
    ListTopicsRequest,
    lambda image, applied_offset, request: list_topics(image, request, applied_offset),
    refuse_list,
)

DESCRIBE_TOPICS = ReadOperation(
    DescribeTopicsRequest,
    lambda image, applied_offset, request: describe_topics(image, request, applied_offset),
    refuse_describe,
)
