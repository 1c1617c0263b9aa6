"""ListPartitions: the partitions in a condition that operators look for, in pages, from a committed image.

An API of kraftd: Kafka's controllers have none, and its brokers tell nothing while they are all down. The
partitions without leader, those being reassigned, those not led by the preferred replica and those of one
broker are found by the image's index; of the others every partition is looked at.

No page grows with the image, neither in what it holds nor in what it looks at.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from kraftd.controller.context import ReadContext
from kraftd.controller.operations import SessionReadOperation
from kraftd.controller.partitions.partition_change_builder import Target
from kraftd.controller.partitions.partition_rules import PartitionRules
from kraftd.controller.response_room import PageRoom, entry_bytes, ids_bytes
from kraftd.errors import ErrorCode
from kraftd.metadata.partition_conditions import PartitionCondition, is_under_replicated
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.broker_index import PartitionList
from kraftd.metadata.parts.topics.image import TopicsImage
from kraftd.protocol.messages import (
    ListPartitionsRequest,
    ListPartitionsRequestCursor,
    ListPartitionsResponse,
    ListPartitionsResponseNextCursor,
    ListPartitionsResponsePartition,
    ListPartitionsResponseTopic,
)
from kraftd.records.messages import PartitionRecord, TopicRecord
from kraftd.types import NO_NODE, NodeId

LOOKS_PER_PAGE: Final = 2_048
"""So many topics and partitions does a page look at: some 10 ms."""

_Lookup: TypeAlias = Callable[[TopicsImage, NodeId], PartitionList]
_Test: TypeAlias = Callable[[PartitionRecord, int], bool]
"""Whether a partition is in the condition, with so many that must be in sync."""

_INDEXED: Final[Mapping[int, _Lookup]] = {
    PartitionCondition.OFFLINE: lambda topics, _: topics.partitions_without_leader(),
    PartitionCondition.NOT_PREFERRED: lambda topics, _: topics.partitions_not_preferred(),
    PartitionCondition.REASSIGNING: lambda topics, _: topics.partitions_reassigning(),
    PartitionCondition.NEEDS_BROKER: lambda topics, broker_id: topics.partitions_in_sync_on(broker_id),
}
"""The conditions that the index knows; of the last one it knows which partitions have to be looked at."""

_TESTS: Final[Mapping[int, _Test]] = {
    PartitionCondition.UNDER_REPLICATED: lambda partition, _: is_under_replicated(partition),
    PartitionCondition.UNDER_MIN_ISR: lambda partition, min_isr: len(partition.isr) < min_isr,
    PartitionCondition.AT_MIN_ISR: lambda partition, min_isr: len(partition.isr) == min_isr,
}
"""The others, of which every partition is looked at."""


class _Search(NamedTuple):
    """What is looked for, and where."""

    topics: TopicsImage
    indexed: PartitionList | None
    """The partitions to look at; None for all."""
    is_found: _Test
    is_left_alone: Callable[[PartitionRecord], bool]
    """Whether nobody leads a partition without the broker that is asked about."""


class _Page:
    """A page that is being made: what there is room for, and for how many looks."""

    def __init__(self) -> None:
        self.room = PageRoom()
        self.looks = LOOKS_PER_PAGE
        self.topics: list[ListPartitionsResponseTopic] = []
        self.next_cursor: ListPartitionsResponseNextCursor | None = None

    def add_topic(
        self, topic: TopicRecord, min_isr: int, partitions: Iterable[PartitionRecord], search: _Search
    ) -> None:
        """Add those of a topic's partitions that are found; stop where there is no room for another."""
        found: list[ListPartitionsResponsePartition] = []
        for partition in partitions:
            self.looks -= 1
            if not search.is_found(partition, min_isr):
                if self.looks <= 0:
                    self.end_at(topic, partition.partition_id + 1)
                    break
                continue
            size_bytes = _bytes_of(partition) + (0 if found else entry_bytes(topic.name))
            if self.looks < 0 or not self.room.add(size_bytes):
                self.end_at(topic, partition.partition_id)
                break
            found.append(_entry(partition, is_left_alone=search.is_left_alone(partition)))
        if found:
            entry = ListPartitionsResponseTopic(topic.name, topic.topic_id, min_isr, tuple(found))
            self.topics.append(entry)

    def end_at(self, topic: TopicRecord, partition_index: int) -> None:
        """The next page begins there."""
        self.next_cursor = ListPartitionsResponseNextCursor(topic.name, topic.topic_id, partition_index)


def list_partitions(context: ReadContext, request: ListPartitionsRequest) -> ListPartitionsResponse:
    """A page of the partitions in a condition, by topic and index."""
    begin = request.cursor
    search = _search(context, request)
    if search is None:
        text = f"there is no condition {request.condition}; kraftd of another version may know it"
        return refuse(request, ErrorCode.INVALID_REQUEST, text)
    rules, page = PartitionRules(context), _Page()
    for topic in search.topics.topics_since("" if begin is None else begin.name):
        if page.next_cursor is not None:
            break
        since = _since(topic, begin)
        if page.looks <= 0:
            page.end_at(topic, since)
            break
        page.looks -= 1
        partitions = _partitions(search, topic, since)
        page.add_topic(topic, rules.of_topic(topic.topic_id).min_isr, partitions, search)
    return ListPartitionsResponse(
        applied_offset=context.applied_offset, topics=tuple(page.topics), next_cursor=page.next_cursor
    )


def _search(context: ReadContext, request: ListPartitionsRequest) -> _Search | None:
    """What to look for, None if nobody knows such a condition."""
    topics, condition = context.image[TOPICS], request.condition
    if condition in _TESTS:
        return _Search(topics, None, _TESTS[condition], _never)
    if condition not in _INDEXED:
        return None
    indexed = _INDEXED[condition](topics, request.broker_id)
    if condition != PartitionCondition.NEEDS_BROKER:
        return _Search(topics, indexed, lambda _partition, _min_isr: True, _never)
    without = _Without(context, request.broker_id)
    return _Search(topics, indexed, without.lacks, without.is_left_alone)


def _never(_partition: PartitionRecord) -> bool:
    return False


class _Without:
    """What a partition is like without a broker: by the change that its controlled shutdown would make."""

    def __init__(self, context: ReadContext, broker_id: NodeId) -> None:
        self._broker_id = broker_id
        self._rules = PartitionRules(context, without=(broker_id,))

    def lacks(self, partition: PartitionRecord, min_isr: int) -> bool:
        """Whether nobody leads it, or too few are in sync for acks=all."""
        return len(self._isr(partition)) < min_isr or self.is_left_alone(partition)

    def is_left_alone(self, partition: PartitionRecord) -> bool:
        """Whether nobody leads it."""
        change = self._rules.change(partition, Target(isr=self._isr(partition)))
        return change is not None and change.leader == NO_NODE

    def _isr(self, partition: PartitionRecord) -> tuple[NodeId, ...]:
        return tuple(one for one in partition.isr if one != self._broker_id)


def _since(topic: TopicRecord, begin: ListPartitionsRequestCursor | None) -> int:
    is_begun = begin is not None and begin.topic_id == topic.topic_id
    return begin.partition_index if begin is not None and is_begun else 0


def _partitions(search: _Search, topic: TopicRecord, since: int) -> Iterable[PartitionRecord]:
    """Those partitions of a topic that have to be looked at, by index."""
    topics, topic_id = search.topics, topic.topic_id
    if search.indexed is None:
        return topics.partitions(topic_id, since)
    ids = topics.ids_in(search.indexed, topic_id, since)
    found = (topics.partition(topic_id, partition_id) for partition_id in ids)
    return (partition for partition in found if partition is not None)


def _entry(partition: PartitionRecord, *, is_left_alone: bool) -> ListPartitionsResponsePartition:
    return ListPartitionsResponsePartition(
        partition_index=partition.partition_id,
        leader_id=partition.leader,
        replicas=partition.replicas,
        isr=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas or (),
        adding_replicas=partition.adding_replicas,
        removing_replicas=partition.removing_replicas,
        is_left_alone=is_left_alone,
    )


def _bytes_of(partition: PartitionRecord) -> int:
    return entry_bytes() + ids_bytes(
        partition.replicas,
        partition.isr,
        partition.eligible_leader_replicas,
        partition.adding_replicas,
        partition.removing_replicas,
    )


def refuse(_request: ListPartitionsRequest, error: ErrorCode, text: str) -> ListPartitionsResponse:
    """The response to a list that could not be read."""
    return ListPartitionsResponse(error_code=error, error_message=text, applied_offset=-1)


LIST_PARTITIONS = SessionReadOperation(ListPartitionsRequest, list_partitions, refuse)
