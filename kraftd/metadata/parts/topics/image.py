"""The topics and their partitions: the part of the image that grows.

Each topic keeps its partitions packed (`partitions`), a few neighbours together (`partition_block`), so that
an image of a million is small, and what two images share is shared. `broker_index` knows which of them a
broker has.

Not here: how records change it (`builder`).
Follows: Kafka's TopicsImage.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec
from immutables import Map

from kraftd.metadata.entity_hash import EntityHash
from kraftd.metadata.parts.topics import partition_fast_codec, partitions
from kraftd.metadata.parts.topics.broker_index import (
    ELIGIBLE,
    IN_SYNC,
    LEADER,
    LEADERLESS,
    NOT_PREFERRED,
    REASSIGNING,
    REPLICA,
    BrokerIndex,
    PartitionList,
)
from kraftd.metadata.parts.topics.leader_elections import NO_ELECTIONS, ElectionCounts
from kraftd.metadata.parts.topics.partition_block import BLOCK_BITS, BLOCK_MASK, row_at, rows_of
from kraftd.metadata.parts.topics.partitions import PACKED_VERSION
from kraftd.metadata.sorted_keys import SortedKeys
from kraftd.records.messages import PartitionRecord, TopicRecord
from kraftd.types import NodeId, Uuid

Blocks: TypeAlias = Map[int, bytes]

NamesAlike: TypeAlias = Map[str, tuple[str, ...]]
"""Names that hold a `.` or `_`, sorted, by `alike_form`."""

_NO_PARTITIONS: Final[Blocks] = Map()


class Topic(msgspec.Struct, frozen=True, eq=False):  # noqa: PLW1641 - compared, and never a key
    """A topic and its blocks of partitions. Its number is one of the broker index, and is not compared."""

    record: TopicRecord
    number: int
    blocks: Blocks = Map()
    sum: EntityHash = 0
    """Of the hashes of its partitions, so that they need not be read when it goes."""
    count: int = 0
    """How many partitions it has."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topic) and self.record == other.record and self.blocks == other.blocks

    def rows(self, since: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Every partition's id and packed form, by id; those from an id on only, if given."""
        for block in sorted(self.blocks):
            if since is not None and block < since >> BLOCK_BITS:
                continue
            for at, packed in rows_of(self.blocks[block]):
                if since is None or block << BLOCK_BITS | at >= since:
                    yield block << BLOCK_BITS | at, packed


class TopicsImage(msgspec.Struct, frozen=True, eq=False):  # noqa: PLW1641 - compared, and never a key
    """Every topic with its partitions. `sum` is the sum of their hashes."""

    _topics: Map[Uuid, Topic] = Map()
    _ids: Map[str, Uuid] = Map()
    sum: EntityHash = 0
    broker_index: BrokerIndex = BrokerIndex()
    _alike: NamesAlike = Map()
    _names: SortedKeys[str] = SortedKeys()
    partition_count: int = 0
    """Partitions of all topics."""
    leader_elections: ElectionCounts = NO_ELECTIONS
    """The elections that led here. Not compared: they are no state."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicsImage) and self.sum == other.sum and self._topics == other._topics

    def __len__(self) -> int:
        return len(self._topics)

    def id_of(self, name: str) -> Uuid | None:
        """The id of a topic, None if there is none of that name."""
        return self._ids.get(name)

    def names_alike(self, name: str) -> tuple[str, ...]:
        """The topics whose names are this one or differ in nothing but `.` and `_`; none if it has neither.

        The metrics of two such topics have one name, so that a new one is not made. Old logs may hold some.
        """
        return self._alike.get(alike_form(name), ())

    def get(self, topic_id: Uuid) -> TopicRecord | None:
        """A topic, None if there is none."""
        topic = self._topics.get(topic_id)
        return None if topic is None else topic.record

    def topics(self) -> Iterator[TopicRecord]:
        """Every topic, by name."""
        return (self._topics[self._ids[name]].record for name in self._names)

    def topics_since(self, name: str) -> Iterator[TopicRecord]:
        """The topics from a name on, by name. The first costs no more than finding the name."""
        return (self._topics[self._ids[each]].record for each in self._names.since(name))

    def partition(self, topic_id: Uuid, partition_id: int) -> PartitionRecord | None:
        """A partition, None if there is none."""
        block = self._blocks(topic_id).get(partition_id >> BLOCK_BITS)
        packed = None if block is None else row_at(block, partition_id & BLOCK_MASK)
        return None if packed is None else partitions.unpack(packed)

    def partitions(self, topic_id: Uuid, since: int | None = None) -> Iterator[PartitionRecord]:
        """The partitions of a topic, by id; those from an id on only, if given."""
        topic = self._topics.get(topic_id)
        if topic is not None:
            for _, packed in topic.rows(since):
                yield partitions.unpack(packed)

    def partition_count_of(self, topic_id: Uuid) -> int:
        """How many partitions a topic has."""
        topic = self._topics.get(topic_id)
        return 0 if topic is None else topic.count

    # Lists of partitions (topic id, partition id), in no order, in time proportional to how many there are.

    def partitions_led_by(self, broker_id: NodeId) -> PartitionList:
        """The partitions that a broker leads."""
        return self.broker_index.partitions(broker_id, LEADER)

    def partitions_in_sync_on(self, broker_id: NodeId) -> PartitionList:
        """The partitions whose ISR a broker is in."""
        return self.broker_index.partitions(broker_id, IN_SYNC)

    def partitions_in_sync_or_eligible_on(self, broker_id: NodeId) -> PartitionList:
        """The partitions whose ISR or ELR a broker is in."""
        return self.broker_index.partitions(broker_id, IN_SYNC | ELIGIBLE)

    def partitions_on(self, broker_id: NodeId) -> PartitionList:
        """The partitions that a broker holds a replica of."""
        return self.broker_index.partitions(broker_id, REPLICA)

    def partitions_without_leader(self) -> PartitionList:
        """The partitions that nobody leads."""
        return self.broker_index.partitions_in(LEADERLESS)

    def partitions_reassigning(self) -> PartitionList:
        """The partitions whose replicas are being moved."""
        return self.broker_index.partitions_in(REASSIGNING)

    def partitions_not_preferred(self) -> PartitionList:
        """The partitions that another replica leads than the first."""
        return self.broker_index.partitions_in(NOT_PREFERRED)

    def ids_in(self, partitions: PartitionList, topic_id: Uuid, start: int = 0) -> list[int]:
        """The ids of those of a list that are of one topic, from one on, in order."""
        topic = self._topics.get(topic_id)
        return [] if topic is None else partitions.of_topic(topic.number, start)

    def to_records(self, *, has_directories: bool) -> Iterator[TopicRecord | PartitionRecord]:
        """The records that make these topics, each before its partitions."""
        for topic in self.topics():
            yield topic
            for partition in self.partitions(topic.topic_id):
                yield partitions.for_level(partition, has_directories=has_directories)

    def to_values(
        self, version: int, encode: Callable[[TopicRecord | PartitionRecord], bytes]
    ) -> Iterator[bytes]:
        """The same records as bytes, those of partitions in a version; `encode` is for those not copied."""
        for name in self._names:
            topic = self._topics[self._ids[name]]
            yield encode(topic.record)
            for block in sorted(topic.blocks):
                if version == PACKED_VERSION:
                    for _, packed in rows_of(topic.blocks[block]):
                        yield packed
                    continue
                for _, packed in rows_of(topic.blocks[block]):
                    copied = partition_fast_codec.with_version(packed, version)
                    yield encode(_for_version(packed, version)) if copied is None else copied

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
        before, now = self._blocks(topic_id), after._blocks(topic_id)
        for number in sorted({*before, *now}):
            old, new = before.get(number), now.get(number)
            if old is new:
                continue
            were, are = _rows(old), _rows(new)
            for at in sorted({*were, *are}):
                if were.get(at) != are.get(at):
                    yield _unpacked(were.get(at)), _unpacked(are.get(at))

    def _blocks(self, topic_id: Uuid) -> Blocks:
        topic = self._topics.get(topic_id)
        return _NO_PARTITIONS if topic is None else topic.blocks


def alike_form(name: str) -> str:
    """What a name becomes in the name of a metric. Names of one such form are alike."""
    return name.replace(".", "_")


def _rows(block: bytes | None) -> dict[int, bytes]:
    return {} if block is None else dict(rows_of(block))


def _for_version(packed: bytes, version: int) -> PartitionRecord:
    return partitions.for_level(partitions.unpack(packed), has_directories=version > 0)


def _unpacked(packed: bytes | None) -> PartitionRecord | None:
    return None if packed is None else partitions.unpack(packed)


def _name(topic: TopicRecord | None) -> str:
    return "" if topic is None else topic.name
