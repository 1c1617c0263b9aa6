"""A log folded in parts has the hash of a log folded in order, and ends where that ends."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftd.errors import MalformedError
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import apply, apply_all
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.part import ImageView
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.registry import TABLES
from kraftd.records import messages as m
from kraftd.records.frame import RawRecord, decode_record, encode_record
from kraftd.replay.image.entity_history import FoldRow
from kraftd.replay.image.shards import (
    Shard,
    fold_non_partition,
    hash_of,
    is_of_partition,
    partitions_sum,
    shard_of,
    topic_of,
    topic_of_non_partition,
)
from tests.unit.metadata.legal_records import ONE, TWO, WORLD, record_lists

transactions = st.sampled_from(
    [m.BeginTransactionRecord("t"), m.EndTransactionRecord(), m.AbortTransactionRecord(None)]
)
reaching = st.sampled_from(
    [
        m.ClearElrRecord(""),
        m.ClearElrRecord("a"),
        m.ClearElrRecord("b"),
        m.FeatureLevelRecord("eligible.leader.replicas.version", 0),
        m.FeatureLevelRecord("eligible.leader.replicas.version", 1),
        m.RemoveTopicRecord(ONE),
        m.TopicRecord("a", TWO),
        m.ConfigRecord(2, "a", "retention.ms", "1"),
        RawRecord(99, 0, b"x"),
        RawRecord(5, 9, b"x" * 40),
    ]
)
rich = st.lists(st.one_of(record_lists.map(tuple), (transactions | reaching).map(lambda one: (one,))))

(PARTITIONS,) = (table for table in TABLES if table.is_of_partitions)


def rows_of(records: Sequence, per_batch: int = 1) -> list[FoldRow]:
    return [
        FoldRow(at - at % per_batch, at, 1, 1000 + at, encode_record(record))
        for at, record in enumerate(records)
    ]


def in_order(rows: Sequence[FoldRow]) -> tuple[MetadataImage, int]:
    """The image as the daemon folds it, whole batches only, and where it ends."""
    image, at = EMPTY, 0
    while at < len(rows):
        base = rows[at].batch_base_offset
        batch = [row for row in rows[at:] if row.batch_base_offset == base]
        try:
            image = apply_all(image, [decode_record(row.value) for row in batch], rows[at].offset)
        except (ImpossibleRecordError, MalformedError):
            return image, base
        at += len(batch)
    return image, len(rows)


def in_parts(rows: Sequence[FoldRow], shards: int) -> tuple[str, int, Counter, list]:
    """The hash of the parts together, where they end, what they do not know, and the partitions' changes."""
    end = len(rows)
    while True:
        rows = [row for row in rows if row.offset < end]
        rest = fold_non_partition(row for row in rows if not is_of_partition(row.value))
        stops = [rest.stopped]
        sums, unknown, changes = [], Counter(dict(rest.image.unknown_kinds())), []
        for number in range(shards):
            shard = Shard("c", number, shards, rest.cross_shard, rest.moments)
            for found in shard.history(row for row in rows if goes_to(row.value, number, shards)):
                changes += found.changes
            stops.append(shard.stopped)
            sums.append(partitions_sum(shard.image()))
            unknown.update(dict(shard.image().unknown_kinds()))
        stopped = [stop for stop in stops if stop is not None]
        if not stopped:
            return hash_of(rest.image.hash(), sums), end, unknown, changes
        end = min(stopped, key=lambda stop: stop.offset).batch_base_offset


def goes_to(value: bytes, number: int, shards: int) -> bool:
    topic_id = topic_of(value) if is_of_partition(value) else topic_of_non_partition(value)
    return topic_id is not None and shard_of(topic_id, shards) == number


@settings(max_examples=300, deadline=None)
@given(chunks=rich, shards=st.integers(1, 3), per_batch=st.integers(1, 4), legal_only=st.booleans())
def test_parts_make_the_image_of_a_fold_in_order(
    chunks: list, shards: int, per_batch: int, legal_only: bool
) -> None:
    records = [*WORLD, *(record for chunk in chunks for record in chunk)]
    if legal_only:
        records, image = [], EMPTY
        for record in [*WORLD, *(record for chunk in chunks for record in chunk)]:
            try:
                image = apply(image, record, len(records))
            except ImpossibleRecordError:
                continue
            records.append(record)
    rows = rows_of(records, per_batch)
    image, end = in_order(rows)
    found, found_end, unknown, changes = in_parts(rows, shards)
    assert (found, found_end) == (image.hash(), end)
    assert unknown == Counter(dict(image.unknown_kinds()))
    assert shown_by(changes) == {
        (row["topic_id"], row["partition_id"]): (row["leader"], row["isr"], row["replicas"])
        for row in PARTITIONS.rows(ImageView(image))
    }


def shown_by(changes: list) -> dict:
    """The partitions as the table of changes leaves them."""
    left: dict = {}
    for row in sorted(changes, key=lambda row: row.offset):
        key = (row.topic_id, row.partition_id)
        if row.event == "removed":
            del left[key]
        else:
            left[key] = (row.leader, row.isr, row.replicas)
    return left


@pytest.mark.parametrize("shards", [1, 2])
def test_a_cross_shard_record_takes_its_place_between_the_records_of_a_topic(shards: int) -> None:
    change = m.PartitionChangeRecord(0, ONE, eligible_leader_replicas=(1,))
    records = [*WORLD, m.ClearElrRecord("a"), change, m.ClearElrRecord(""), change]
    image, end = in_order(rows_of(records))
    assert image[TOPICS].partition(ONE, 0).eligible_leader_replicas == (1,)
    assert in_parts(rows_of(records), shards)[:2] == (image.hash(), end)
    assert image.hash() != in_order(rows_of([*WORLD, change]))[0].hash(), "the epoch rose twice"


def test_a_change_says_who_left_and_who_came() -> None:
    records = [*WORLD, m.PartitionChangeRecord(1, ONE, isr=(0,), leader=0), m.RemoveTopicRecord(ONE)]
    _, _, _, changes = in_parts(rows_of(records), 2)
    changed, *gone = [row for row in changes if row.offset >= len(WORLD)]
    assert (changed.leader_before, changed.leader) == (1, 0)
    assert (changed.isr_removed, changed.isr_added) == ([1], [])
    assert (changed.topic, changed.event) == ("a", "changed")
    assert [(row.event, row.partition_id, row.leader) for row in gone] == [
        ("removed", 0, None),
        ("removed", 1, None),
    ]
    records = [*WORLD, m.PartitionChangeRecord(1, ONE, isr=(0,)), m.PartitionChangeRecord(1, ONE, isr=(0, 1))]
    assert [row.isr_added for row in in_parts(rows_of(records), 1)[3]][-1] == [1]


def test_what_a_transaction_took_back_never_happened() -> None:
    change = m.PartitionChangeRecord(0, TWO, leader=1)
    fence = m.BrokerRegistrationChangeRecord(1, 0, 1)
    begin, abort = m.BeginTransactionRecord("t"), m.AbortTransactionRecord(None)
    rows = rows_of([*WORLD, begin, change, fence, m.RemoveTopicRecord(ONE), abort, change])
    changes = [row for row in in_parts(rows, 2)[3] if row.offset >= len(WORLD)]
    assert [(row.offset, row.leader) for row in changes] == [(len(WORLD) + 5, 1)]
    registrations = fold_non_partition(row for row in rows if not is_of_partition(row.value)).registrations
    assert [row.event for row in registrations] == ["registered", "registered"]
    kept = rows_of([*WORLD, begin, fence, m.EndTransactionRecord()])
    registrations = fold_non_partition(row for row in kept if not is_of_partition(row.value)).registrations
    assert (registrations[-1].event, registrations[-1].fenced) == ("fenced", True)
