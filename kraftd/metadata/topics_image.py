"""The topics and their partitions: the part of the image that grows.

Each topic keeps its partitions packed (`partitions`), so that an image of a million is small, and the ones
that two images share are shared. `TopicsFold` writes many changes into one new image; changes of a topic that
has been touched cost no new map of topics.

Follows: Kafka's TopicsDelta and TopicDelta.
Differs: a second topic of a name or id is impossible; Kafka's controller refuses it too, its image does not
look. Kafka's image keeps the eligible leader replicas when their feature is switched off, and leaves them out
of what it writes; here they are gone at once, as from its snapshots.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import msgspec
from immutables import Map, MapMutation

from kraftd.metadata import partitions
from kraftd.metadata.entities import mark_of_record
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.mark import MARK_MASK, Mark, mark_of_bytes
from kraftd.records.messages import (
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from kraftd.types import Offset, Uuid

_Packed: TypeAlias = Map[int, bytes]

_NO_PARTITIONS: Final[_Packed] = Map()


class _Topic(msgspec.Struct, frozen=True):
    record: TopicRecord
    partitions: _Packed = Map()


_Topics: TypeAlias = Map[Uuid, _Topic]
_Ids: TypeAlias = Map[str, Uuid]


class TopicsImage(msgspec.Struct, frozen=True):
    """Every topic with its partitions. `sum` is the sum of their marks."""

    _topics: _Topics = Map()
    _ids: _Ids = Map()
    sum: Mark = 0

    def __bool__(self) -> bool:
        return bool(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    def id_of(self, name: str) -> Uuid | None:
        """The id of a topic, None if there is none of that name."""
        return self._ids.get(name)

    def get(self, topic_id: Uuid) -> TopicRecord | None:
        """A topic, None if there is none."""
        topic = self._topics.get(topic_id)
        return None if topic is None else topic.record

    def topics(self) -> Iterator[TopicRecord]:
        """Every topic, by name."""
        return (self._topics[self._ids[name]].record for name in sorted(self._ids))

    def partition(self, topic_id: Uuid, partition_id: int) -> PartitionRecord | None:
        """A partition, None if there is none."""
        packed = self._packed(topic_id).get(partition_id)
        return None if packed is None else partitions.unpack(packed)

    def partitions(self, topic_id: Uuid) -> Iterator[PartitionRecord]:
        """The partitions of a topic, by id."""
        packed = self._packed(topic_id)
        for partition_id in sorted(packed):
            yield partitions.unpack(packed[partition_id])

    def partition_count(self) -> int:
        """How many partitions all topics have together."""
        return sum(len(topic.partitions) for topic in self._topics.values())

    def to_records(self, *, has_directories: bool) -> Iterator[TopicRecord | PartitionRecord]:
        """The records that make these topics, each before its partitions."""
        for topic in self.topics():
            yield topic
            for partition in self.partitions(topic.topic_id):
                yield partitions.for_level(partition, has_directories=has_directories)

    def shares(self, other: "TopicsImage", topic_id: Uuid) -> bool:
        """Whether both hold the very same topic, which is cheap to see."""
        return self._topics.get(topic_id) is other._topics.get(topic_id)

    def changed_topics(self, after: "TopicsImage") -> Iterator[Uuid]:
        """The topics that are not the very same here and in another image, by name."""
        if self._topics is after._topics:
            return
        ids = [topic_id for topic_id in {*self._topics, *after._topics} if not self.shares(after, topic_id)]
        yield from sorted(
            ids, key=lambda topic_id: (_name(self.get(topic_id) or after.get(topic_id)), topic_id)
        )

    def partition_changes(
        self, after: "TopicsImage", topic_id: Uuid
    ) -> Iterator[tuple[PartitionRecord | None, PartitionRecord | None]]:
        """What each partition of a topic that differs is here and in another image, by id."""
        before = self._packed(topic_id)
        now = after._packed(topic_id)
        for partition_id in sorted({*before, *now}):
            if before.get(partition_id) != now.get(partition_id):
                yield self.partition(topic_id, partition_id), after.partition(topic_id, partition_id)

    def _packed(self, topic_id: Uuid) -> _Packed:
        topic = self._topics.get(topic_id)
        return _NO_PARTITIONS if topic is None else topic.partitions


def _name(topic: TopicRecord | None) -> str:
    return "" if topic is None else topic.name


class TopicsFold:
    """A scratch copy that changes are written into. One owner, mutable."""

    __slots__ = ("_ids", "_sum", "_topics", "_touched")

    def __init__(self, base: TopicsImage) -> None:
        self._topics = base._topics
        self._ids = base._ids
        self._sum = base.sum
        self._touched: dict[Uuid, tuple[TopicRecord, MapMutation[int, bytes]]] = {}

    def add_topic(self, record: TopicRecord, offset: Offset) -> None:
        """Add a topic without partitions."""
        name, topic_id = record.name, record.topic_id
        if name in self._ids:
            raise ImpossibleRecordError(offset, f"there is a topic {name} already, {self._ids[name].hex()}")
        if topic_id in self._topics:
            raise ImpossibleRecordError(offset, f"there is a topic with the id {topic_id.hex()} already")
        self._topics = self._topics.set(topic_id, _Topic(record))
        self._ids = self._ids.set(name, topic_id)
        self._sum += mark_of_record(record)

    def put_partition(self, record: PartitionRecord, offset: Offset) -> None:
        """Make a partition, or make it anew."""
        entries = self._known(record.topic_id, offset)
        self._put(entries, partitions.made(record, offset), entries.get(record.partition_id))

    def change_partition(self, change: PartitionChangeRecord, offset: Offset) -> None:
        """Change a partition that is there."""
        entries = self._known(change.topic_id, offset)
        old = entries.get(change.partition_id)
        if old is None:
            which = f"{change.partition_id} of topic {change.topic_id.hex()}"
            raise ImpossibleRecordError(offset, f"there is no partition {which}")
        self._put(entries, partitions.changed(partitions.unpack(old), change, offset), old)

    def remove_topic(self, topic_id: Uuid, offset: Offset) -> str:
        """Remove a topic with its partitions; its name."""
        entries = self._known(topic_id, offset).finish()
        topic, _ = self._touched.pop(topic_id)
        self._sum -= mark_of_record(topic) + sum(map(mark_of_bytes, entries.values()))
        self._topics = self._topics.delete(topic_id)
        self._ids = self._ids.delete(topic.name)
        return topic.name

    def clear_elr(self, name: str, offset: Offset) -> None:
        """Make nobody eligible outside the ISR, in one topic, or in all if the name is empty.

        The epoch of each partition where somebody was rises.
        """
        if not name:
            self._each_with_elr(self._topics, partitions.cleared)
            return
        topic_id = self._ids.get(name)
        if topic_id is None:
            raise ImpossibleRecordError(offset, f"there is no topic {name}")
        self._each_with_elr((topic_id,), partitions.cleared)

    def drop_elr(self) -> None:
        """Forget who is eligible outside the ISR: the feature is off. No epoch rises."""
        self._each_with_elr(self._topics, partitions.without_elr)

    def image(self) -> TopicsImage:
        """What has been written so far, as an image."""
        topics = self._topics
        for topic_id, (record, mutation) in self._touched.items():
            topics = topics.set(topic_id, _Topic(record, mutation.finish()))
        self._topics = topics
        self._touched = {}
        return TopicsImage(topics, self._ids, self._sum & MARK_MASK)

    def _known(self, topic_id: Uuid, offset: Offset) -> "MapMutation[int, bytes]":
        if topic_id not in self._topics:
            raise ImpossibleRecordError(offset, f"there is no topic with the id {topic_id.hex()}")
        return self._entries(topic_id)

    def _entries(self, topic_id: Uuid) -> "MapMutation[int, bytes]":
        touched = self._touched.get(topic_id)
        if touched is None:
            topic = self._topics[topic_id]
            touched = self._touched[topic_id] = (topic.record, topic.partitions.mutate())
        return touched[1]

    def _put(self, entries: "MapMutation[int, bytes]", new: PartitionRecord, old: bytes | None) -> None:
        packed = partitions.pack(new)
        if old is not None:
            self._sum -= mark_of_bytes(old)
        self._sum += mark_of_bytes(packed)
        entries[new.partition_id] = packed

    def _each_with_elr(
        self, topic_ids: Iterable[Uuid], change: Callable[[PartitionRecord], PartitionRecord]
    ) -> None:
        topics = self.image()
        for topic_id in topic_ids:
            for partition in filter(partitions.has_elr, topics.partitions(topic_id)):
                entries = self._entries(topic_id)
                self._put(entries, change(partition), entries.get(partition.partition_id))
