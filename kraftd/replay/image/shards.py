"""One log folded by many: its partitions by topic, all else in order, the image's hash from all of them.

What a record of a partition does depends on its topic alone, so the partitions of different topics can be
folded apart. Everything else (features, brokers, configs, topics without their partitions) is the
*non-partition state*, folded in order by one task; it is a small part of a large log. Some of its records
reach into partitions. They are *cross-shard records*, handed to every shard and applied there by offset:

* FeatureLevel, which may switch the eligible leader replicas off for all;
* ClearElr, of all topics, or of the one that had the name at that offset;
* Begin, End and AbortTransaction: each shard shows what it showed before Begin until it ends.

What becomes of brokers changes no partition by itself, but says why leaders changed and which state a replica
is in: the *moments* of brokers, read off their records by the task of the non-partition state, go to every
shard as well.

A config is set by a topic's name, and goes with the topic, which is removed by its id: both are in the
non-partition state, where the name is known.

A shard's topics are in it too, so that its rules can be the daemon's own. The hash of an image is a sum over
entities (D-18): that of the whole is that of the non-partition state
and, of each shard, what its partitions add.

An impossible record in any part ends the whole fold before its batch: `Stopped` says where, and whoever runs
the parts runs them again up to there.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from kraftd.errors import MalformedError
from kraftd.metadata.broker_moments import Moment, MomentsReader
from kraftd.metadata.entity_hash import HASH_MASK
from kraftd.metadata.image import EMPTY, MetadataImage, to_records
from kraftd.metadata.image_builder import ImageBuilder, apply_all
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.registry import decode
from kraftd.records import messages as m
from kraftd.records.frame import RECORD_CODECS, AnyRecord, decode_record
from kraftd.replay.image.entity_history import (
    FoldRow,
    PartitionChange,
    PartitionSteps,
    Registration,
    Registrations,
    change_row,
)
from kraftd.replay.image.state_history import StateHistory, StateRows
from kraftd.replay.source.contents import ENDING_AT, PARTITION_KINDS, TOPIC_ID_AT
from kraftd.types import Offset, Uuid

_CROSS_SHARD: Final = (
    m.FeatureLevelRecord,
    m.BeginTransactionRecord,
    m.EndTransactionRecord,
    m.AbortTransactionRecord,
)
"""What every shard has to see."""

PARTITION_FRAMES: Final = frozenset(
    bytes((1, kind, version)) for kind, version in RECORD_CODECS.known if kind in PARTITION_KINDS
)
"""How the value of a record of a partition begins."""


class Stopped(msgspec.Struct, frozen=True):
    """A record that ends the fold, and the batch before which it ends."""

    offset: Offset
    batch_base_offset: Offset
    reason: str


class CrossShardRecord(msgspec.Struct, frozen=True):
    """A record that shards have to see though it is of no partition; of one topic, if that is named."""

    batch_base_offset: Offset
    offset: Offset
    value: bytes
    topic_id: Uuid | None = None


class NonPartitionState(msgspec.Struct, frozen=True):
    """The image without partitions, what reaches into them, and what happened to brokers."""

    image: MetadataImage
    record_count: int
    last_timestamp_ms: int
    cross_shard: tuple[CrossShardRecord, ...]
    registrations: tuple[Registration, ...]
    moments: tuple[Moment, ...]
    """What became of brokers: shards see no record about one."""
    stopped: Stopped | None = None


class ShardRows(NamedTuple):
    """What happened to the partitions of a shard, by table."""

    changes: list[PartitionChange]
    states: StateRows


def is_of_partition(value: bytes) -> bool:
    """Whether a record is left to the shard of its topic."""
    return value[:3] in PARTITION_FRAMES and len(value) > ENDING_AT


def topic_of(value: bytes) -> Uuid:
    """The topic of a record of a partition."""
    return value[TOPIC_ID_AT:ENDING_AT]


def shard_of(topic_id: Uuid, shards: int) -> int:
    """The shard of a topic: its id was drawn at random, or else its end counts up."""
    return int.from_bytes(topic_id[-4:], "big") % shards


def topic_of_non_partition(value: bytes) -> Uuid | None:
    """The topic of a record that is in the non-partition state and in its topic's shard as well."""
    if value[:2] not in {b"\x01\x02", b"\x01\x09"}:
        return None
    try:
        record = decode_record(value)
    except MalformedError:
        return None
    return record.topic_id if isinstance(record, m.TopicRecord | m.RemoveTopicRecord) else None


def fold_non_partition(rows: Iterable[FoldRow], cluster_id: str = "") -> NonPartitionState:
    """Fold all but the records of partitions, in the order of their offsets."""
    builder, cross_shard = ImageBuilder(EMPTY), []
    history, moments = Registrations(cluster_id), MomentsReader()
    count, last_ms = 0, -1
    stopped = None
    for row in rows:
        try:
            record = decode_record(row.value)
            builder.apply(record, row.offset)
            history.add(record, row)
            moments.add(record, row.offset, row.batch_base_offset, row.epoch, row.timestamp_ms)
        except (ImpossibleRecordError, MalformedError) as error:
            stopped = Stopped(row.offset, row.batch_base_offset, str(error))
            break
        count += 1
        last_ms = row.timestamp_ms
        if isinstance(record, m.ClearElrRecord) and record.topic_name:
            image = builder.image()
            builder = ImageBuilder(image)
            inside = image if image.transaction is None else image.transaction.pending
            topic_id = inside[TOPICS].id_of(record.topic_name)
            cross_shard.append(CrossShardRecord(row.batch_base_offset, row.offset, row.value, topic_id))
        elif isinstance(record, (*_CROSS_SHARD, m.ClearElrRecord)):
            cross_shard.append(CrossShardRecord(row.batch_base_offset, row.offset, row.value))
    return NonPartitionState(
        builder.image(),
        count,
        last_ms,
        tuple(cross_shard),
        tuple(history.take()),
        tuple(moments.moments),
        stopped,
    )


class Shard:
    """The partitions of some topics. Feed it their records in the order of their offsets, then ask."""

    def __init__(
        self,
        cluster_id: str,
        shard: int,
        shards: int,
        cross_shard: Sequence[CrossShardRecord],
        moments: Sequence[Moment] = (),
    ) -> None:
        """`moments` are all that became of brokers in the log."""
        self._cluster_id = cluster_id
        self._cross_shard = [
            FoldRow(one.batch_base_offset, one.offset, 0, -1, one.value)
            for one in cross_shard
            if one.topic_id is None or shard_of(one.topic_id, shards) == shard
        ]
        self._builder = ImageBuilder(EMPTY)
        self._steps = PartitionSteps(cluster_id)
        self._states = StateHistory(cluster_id, moments)
        self.record_count = 0
        self.stopped: Stopped | None = None

    def history(self, rows: Iterable[FoldRow], at_once: int = 1) -> Iterator[ShardRows]:
        """Fold the records of these topics; what happened, in so many steps at once but for the last.

        Ends early if `stopped`.
        """
        steps = self._steps
        for row in merge(rows, self._cross_shard, key=attrgetter("offset")):
            try:
                record = decode(row.value)
                self._builder.apply(record, row.offset)
                steps.add(record, row)
            except (ImpossibleRecordError, MalformedError) as error:
                self.stopped = Stopped(row.offset, row.batch_base_offset, str(error))
                return
            self.record_count += isinstance(record, m.PartitionRecord | m.PartitionChangeRecord)
            if len(steps) >= at_once:
                yield self._rows()
        yield self._rows(is_end=True)

    @property
    def illegal_moves(self) -> int:
        """How many moves from state to state were met that no table allows."""
        return self._states.illegal_moves

    def _rows(self, *, is_end: bool = False) -> ShardRows:
        found = self._steps.take()
        self._states.add(found)
        if is_end:
            self._states.end()
        changes = [change_row(self._cluster_id, step) for step in found if step.is_shown]
        return ShardRows(changes, self._states.take())

    def image(self) -> MetadataImage:
        """The image of these topics, with the features that the cross-shard records set."""
        return self._builder.image()


def partitions_sum(image: MetadataImage) -> int:
    """What the partitions of an image add to its hash."""
    others: list[AnyRecord] = [one for one in to_records(image) if not isinstance(one, m.PartitionRecord)]
    return (_number(image) - _number(apply_all(EMPTY, others, 0))) & HASH_MASK


def hash_of(non_partition_hash: str, partition_sums: Iterable[int]) -> str:
    """The hash of the image that the non-partition state and the shards make together."""
    return f"{(int(non_partition_hash, 16) + sum(partition_sums)) & HASH_MASK:032x}"


def _number(image: MetadataImage) -> int:
    return int(image.hash(), 16)
