"""What a committed batch takes away from brokers: the replicas of topics that are deleted, and those that a
reassignment moves elsewhere or that one which is called off does not need any more; and in which log
directory each of them is, as the metadata says.

A topic that the same batch made is left out: brokers apply a batch as a whole, and never had it. So is what a
metadata transaction holds: nobody deletes or moves in one.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kraftd.metadata.parts.topics.change_fast_codec import is_usual
from kraftd.metadata.parts.topics.image import TopicsImage
from kraftd.metadata.parts.topics.partitions import MIGRATING
from kraftd.metadata.registry import KIND_PREFIX_BYTES, decode
from kraftd.metadata.replica_states import RemovalReason
from kraftd.records.frame import encode_record
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord
from kraftd.types import NodeId, Offset, Uuid

_REMOVES_TOPIC: Final = encode_record(RemoveTopicRecord())[:KIND_PREFIX_BYTES]
_CHANGES_PARTITION: Final = encode_record(PartitionChangeRecord())[:KIND_PREFIX_BYTES]


class Removed(NamedTuple):
    """The replicas of a topic that one record takes away from one log directory of a broker."""

    offset: Offset
    topic: str
    topic_id: Uuid
    broker_id: NodeId
    partitions: tuple[int, ...]
    reason: RemovalReason
    directory: Uuid


class Added(NamedTuple):
    """A replica that a record assigns to a broker: if it was taken away, it is back."""

    topic_id: Uuid
    partition: int
    broker_id: NodeId
    directory: Uuid


class Found(NamedTuple):
    """What a batch does to replicas, in the order of its records."""

    moves: Sequence[Removed | Added]
    left_out: int
    """The partitions of deleted topics that were not looked at, since it would have taken too long."""


def found_in(values: Sequence[bytes], base_offset: Offset, before: TopicsImage, looks: int) -> Found:
    """What the records of a batch do, which follow an image; at how many replicas to look."""
    search = _Search(before, looks)
    for offset, value in enumerate(values, base_offset):
        kind = value[:KIND_PREFIX_BYTES]
        if kind == _CHANGES_PARTITION and not is_usual(value):
            record = decode(value)
            if isinstance(record, PartitionChangeRecord):
                if record.replicas is not None:
                    search.moves += search.reassigned(record, record.replicas, offset)
                if record.directories is not None:
                    search.placed(record, record.directories)
        elif kind == _REMOVES_TOPIC:
            record = decode(value)
            if isinstance(record, RemoveTopicRecord):
                search.moves += search.deleted(record.topic_id, offset)
    return Found(search.moves, search.left_out)


class _Search:
    def __init__(self, before: TopicsImage, looks: int) -> None:
        self._before = before
        self._looks = looks
        self._replicas: dict[tuple[Uuid, int], tuple[NodeId, ...]] = {}
        """Those that this batch has changed."""
        self._directories: dict[tuple[Uuid, int], tuple[Uuid, ...]] = {}
        """Those that this batch has told."""
        self.moves: list[Removed | Added] = []
        self.left_out = 0

    def placed(self, record: PartitionChangeRecord, directories: tuple[Uuid, ...]) -> None:
        """Note where the replicas of a partition are from now on."""
        self._directories[record.topic_id, record.partition_id] = directories

    def reassigned(
        self, record: PartitionChangeRecord, replicas: tuple[NodeId, ...], offset: Offset
    ) -> Iterator[Removed | Added]:
        """What a change of a partition's replicas takes away and adds."""
        topic_id, partition_id = record.topic_id, record.partition_id
        topic = self._before.get(topic_id)
        partition = self._before.partition(topic_id, partition_id)
        if topic is None or partition is None:
            return
        before = self._held(partition)
        self._replicas[topic_id, partition_id] = replicas
        for broker_id in sorted(before.keys() - {*replicas}):
            reason, directory = RemovalReason.REASSIGNED, before[broker_id]
            yield Removed(offset, topic.name, topic_id, broker_id, (partition_id,), reason, directory)
        told = dict(zip(replicas, record.directories or (), strict=False))  # none, at an old level
        for broker_id in sorted({*replicas} - before.keys()):
            yield Added(topic_id, partition_id, broker_id, told.get(broker_id, MIGRATING))

    def deleted(self, topic_id: Uuid, offset: Offset) -> Iterator[Removed]:
        """What the deletion of a topic takes away, by broker and directory."""
        topic = self._before.get(topic_id)
        if topic is None:
            return
        held: dict[tuple[NodeId, Uuid], list[int]] = {}
        for seen, partition in enumerate(self._before.partitions(topic_id)):
            if self._looks <= 0:
                self.left_out += self._before.partition_count_of(topic_id) - seen
                break
            directories = self._held(partition)
            self._looks -= len(directories)
            for place in directories.items():
                held.setdefault(place, []).append(partition.partition_id)
        for (broker_id, directory), partitions in sorted(held.items()):
            reason = RemovalReason.TOPIC_DELETED
            yield Removed(offset, topic.name, topic_id, broker_id, tuple(partitions), reason, directory)

    def _held(self, partition: PartitionRecord) -> dict[NodeId, Uuid]:
        """Who holds a partition by now, and in which directory."""
        key = partition.topic_id, partition.partition_id
        replicas = self._replicas.get(key, partition.replicas)
        directories = self._directories.get(key, partition.directories)
        if len(directories) != len(replicas):  # none are told, at an old level of metadata.version
            return dict.fromkeys(replicas, MIGRATING)
        return dict(zip(replicas, directories, strict=True))
