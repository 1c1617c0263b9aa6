"""ListPartitionReassignments: the partitions whose replicas are being moved, from a committed image.

Asked for all, it looks only at those (the image keeps a list); asked for some, it looks at these. A topic or
partition that does not exist is not being moved.

Follows: Kafka's listPartitionReassignments. Differs: topics come by name, where Kafka has no order.
"""

from collections.abc import Iterable

from kraftd.controller.operations import ReadOperation
from kraftd.controller.partitions.partition_change_builder import is_reassigning
from kraftd.controller.response_room import OutcomeRoom
from kraftd.errors import ErrorCode
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.image import TopicsImage
from kraftd.protocol.messages import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponseOngoingPartitionReassignment,
    ListPartitionReassignmentsResponseOngoingTopicReassignment,
)
from kraftd.types import Uuid

_Topic = ListPartitionReassignmentsResponseOngoingTopicReassignment
_Partition = ListPartitionReassignmentsResponseOngoingPartitionReassignment


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """What is being moved of what a request asks about."""
    topics = image[TOPICS]
    found = (_topic(topics, *asked) for asked in _asked(topics, request))
    return ListPartitionReassignmentsResponse(
        error_message=None, topics=tuple(topic for topic in found if topic.partitions)
    )


def refuse(
    request: ListPartitionReassignmentsRequest, error: ErrorCode, text: str
) -> ListPartitionReassignmentsResponse:
    """The response to a request that could not be read. As in Kafka it names what was asked about."""
    entries = ((topic.name, *("" for _ in topic.partition_indexes)) for topic in request.topics or ())
    left = OutcomeRoom([name for names in entries for name in names]).count
    topics = []
    for topic in request.topics or ():
        if left <= 0:
            break
        told = tuple(_Partition(index) for index in topic.partition_indexes[: left - 1])
        topics.append(_Topic(topic.name, told))
        left -= 1 + len(told)
    return ListPartitionReassignmentsResponse(error_code=error, error_message=text, topics=tuple(topics))


def _asked(
    topics: TopicsImage, request: ListPartitionReassignmentsRequest
) -> Iterable[tuple[str, Uuid, Iterable[int]]]:
    """The partitions to look at: by name and id of their topic."""
    if request.topics is not None:
        for asked in request.topics:
            topic_id = topics.id_of(asked.name)
            if topic_id is not None:
                yield asked.name, topic_id, asked.partition_indexes
        return
    moving = topics.partitions_reassigning()
    named = ((topics.get(topic_id), topic_id) for topic_id in moving.topic_ids())
    for name, topic_id in sorted((topic.name, topic_id) for topic, topic_id in named if topic is not None):
        yield name, topic_id, topics.ids_in(moving, topic_id)


def _topic(topics: TopicsImage, name: str, topic_id: Uuid, partition_ids: Iterable[int]) -> _Topic:
    partitions = (topics.partition(topic_id, partition_id) for partition_id in partition_ids)
    return _Topic(
        name,
        tuple(
            _Partition(
                partition_index=partition.partition_id,
                replicas=partition.replicas,
                adding_replicas=partition.adding_replicas,
                removing_replicas=partition.removing_replicas,
            )
            for partition in partitions
            if partition is not None and is_reassigning(partition)
        ),
    )


LIST_PARTITION_REASSIGNMENTS = ReadOperation(
    ListPartitionReassignmentsRequest,
    lambda image, _applied_offset, request: list_partition_reassignments(image, request),
    refuse,
)
