"""What holds for every image that any log of records leads to, whatever their kinds."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftd.metadata.image import EMPTY, to_records
from kraftd.metadata.image_builder import ImageBuilder, apply, apply_all
from kraftd.metadata.image_diff import diff
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.parts.acls import ACLS
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.client_quotas import CLIENT_QUOTAS
from kraftd.metadata.parts.delegation_tokens import DELEGATION_TOKENS
from kraftd.metadata.parts.producer_ids import PRODUCER_IDS
from kraftd.metadata.parts.scram import SCRAM
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.zk_migration import ZK_MIGRATION
from kraftd.records.frame import decode_record, encode_record
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    ZkMigrationStateRecord,
)
from tests.unit.metadata.legal_records import legal, logs, record_lists

BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()

some = settings(max_examples=40)

SECTIONS = [
    {"FeatureLevelRecord", "ZkMigrationStateRecord"},
    {"RegisterBrokerRecord"},
    {"RegisterControllerRecord"},
    {"TopicRecord", "PartitionRecord"},
    {"ConfigRecord"},
    {"ClientQuotaRecord"},
    {"ProducerIdsRecord"},
    {"AccessControlEntryRecord"},
    {"UserScramCredentialRecord"},
    {"DelegationTokenRecord"},
]
"""The order of Kafka's snapshots."""


def section(record):
    return next(number for number, names in enumerate(SECTIONS) if record.NAME in names)


@pytest.mark.covers("D-18")
@some
@given(logs)
def test_what_an_image_writes_rebuilds_it(records):
    image = apply_all(EMPTY, records, 0)
    rebuilt = apply_all(EMPTY, (decode_record(encode_record(record)) for record in to_records(image)), 0)
    assert rebuilt == image
    assert rebuilt.hash() == image.hash()


@some
@given(logs)
def test_what_an_image_writes_is_in_the_order_of_a_snapshot_of_kafkas(records):
    written = list(to_records(apply_all(EMPTY, records, 0)))
    sections = [section(record) for record in written]
    assert sections == sorted(sections)
    levels = [record.name for record in written if isinstance(record, FeatureLevelRecord)]
    assert levels == sorted(levels, key=lambda name: (name != "metadata.version", name))
    topic = None
    for record in written:
        if isinstance(record, TopicRecord):
            topic = record
        elif isinstance(record, PartitionRecord):
            assert record.topic_id == topic.topic_id
    ids = [(r.topic_id, r.partition_id) for r in written if isinstance(r, PartitionRecord)]
    assert len(ids) == len(set(ids))
    brokers = [record.broker_id for record in written if isinstance(record, RegisterBrokerRecord)]
    assert brokers == sorted(set(brokers))


@pytest.mark.covers("D-18")
@some
@given(logs, st.randoms(use_true_random=False))
def test_the_hash_does_not_depend_on_the_order_of_entities(records, rng):
    image = apply_all(EMPTY, records, 0)
    shuffled = list(to_records(image))
    rng.shuffle(shuffled)
    shuffled.sort(
        key=lambda record: (not isinstance(record, FeatureLevelRecord), isinstance(record, PartitionRecord))
    )
    again = apply_all(EMPTY, shuffled, 0)
    assert again.hash() == image.hash()
    assert list(to_records(again)) == list(to_records(image))


@pytest.mark.covers("D-18")
@some
@given(logs, logs)
def test_equal_hashes_mean_equal_images(one, two):
    left, right = apply_all(EMPTY, one, 0), apply_all(EMPTY, two, 0)
    assert (left.hash() == right.hash()) == (list(to_records(left)) == list(to_records(right)))


@some
@given(logs, st.lists(st.integers(0, 25), max_size=4))
def test_it_does_not_matter_how_a_log_is_cut_into_folds(records, cuts):
    image = EMPTY
    edges = sorted({0, len(records), *(cut for cut in cuts if cut < len(records))})
    for start, end in itertools.pairwise(edges):
        image = apply_all(image, records[start:end], start)
    assert image == apply_all(EMPTY, records, 0)
    builder = ImageBuilder(EMPTY)
    for offset, record in enumerate(records):
        builder.apply(record, offset)
        builder.image()
    assert builder.image() == image


@some
@given(logs, record_lists)
def test_a_batch_is_folded_whole_or_not_at_all_and_the_image_before_it_stays(before, batch):
    image = apply_all(EMPTY, before, 0)
    shown, digest = list(to_records(image)), image.hash()
    possible = legal(batch, image)
    try:
        after = apply_all(image, batch, 100)
    except ImpossibleRecordError as error:
        first = next(n for n, record in enumerate([*possible, None]) if record is not batch[n])
        assert error.offset == 100 + first
    else:
        assert possible == batch
        assert after == apply_all(image, possible, 100)
    assert list(to_records(image)) == shown
    assert image.hash() == digest


# -- transactions


@some
@given(logs, record_lists)
def test_a_transaction_shows_nothing_until_it_ends_and_everything_then(before, inside):
    image = apply_all(EMPTY, before, 0)
    inside = legal(inside, image)
    opened = apply_all(image, [BEGIN, *inside], 50)
    assert list(to_records(opened)) == list(to_records(image))
    assert opened.hash() == image.hash()
    assert not diff(image, opened)
    assert opened.transaction.begin_offset == 50
    assert apply(opened, END, 99) == apply_all(image, inside, 51)
    assert apply(opened, ABORT, 99) == image


@some
@given(logs, record_lists, st.data())
def test_a_transaction_may_be_cut_anywhere_between_batches(before, inside, data):
    inside = legal(inside, apply_all(EMPTY, before, 0))
    records = [*before, BEGIN, *inside, data.draw(st.sampled_from([END, ABORT])), NoOpRecord()]
    cut = data.draw(st.integers(0, len(records)))
    image = apply_all(apply_all(EMPTY, records[:cut], 0), records[cut:], cut)
    assert image == apply_all(EMPTY, records, 0)


@some
@given(logs, record_lists)
def test_an_impossible_record_inside_a_transaction_leaves_it_open_as_it_was(before, inside):
    image = apply_all(EMPTY, before, 0)
    inside = legal(inside, image)
    opened = apply_all(image, [BEGIN, *inside], 50)
    with pytest.raises(ImpossibleRecordError, match="offset 91 is impossible: a transaction begins inside"):
        apply_all(opened, [RegisterControllerRecord(9), BEGIN], 90)
    assert apply(opened, END, 99) == apply_all(image, inside, 51)


# -- differences


@some
@given(logs, record_lists)
def test_a_difference_names_exactly_what_moved(before, more):
    old = apply_all(EMPTY, before, 0)
    new = apply_all(old, legal(more, old), 50)
    delta = diff(old, new)
    entities = {
        BROKERS: (lambda r: r.broker_id, list(old[BROKERS].values()), list(new[BROKERS].values())),
        "topics": (lambda r: r.topic_id, list(old[TOPICS].topics()), list(new[TOPICS].topics())),
        "partitions": (lambda r: (r.topic_id, r.partition_id), all_partitions(old), all_partitions(new)),
        CLIENT_QUOTAS: (
            lambda r: (frozenset((part.entity_type, part.entity_name) for part in r.entity), r.key),
            list(old[CLIENT_QUOTAS].values()),
            list(new[CLIENT_QUOTAS].values()),
        ),
        ACLS: (lambda r: r.id, list(old[ACLS].values()), list(new[ACLS].values())),
        SCRAM: (
            lambda r: (r.mechanism, r.name),
            list(old[SCRAM].values()),
            list(new[SCRAM].values()),
        ),
        DELEGATION_TOKENS: (
            lambda r: r.token_id,
            list(old[DELEGATION_TOKENS].values()),
            list(new[DELEGATION_TOKENS].values()),
        ),
    }
    for which, (key, were, are) in entities.items():
        found = getattr(delta[TOPICS], which) if isinstance(which, str) else delta[which]
        moved = {key(change.record): change for change in found}
        assert len(moved) == len(found)
        assert all(change.before != change.after for change in moved.values())
        expected = {key(record): record for record in were}
        for entity, change in moved.items():
            assert expected.pop(entity, None) == change.before
            if change.after is not None:
                expected[entity] = change.after
        assert expected == {key(record): record for record in are}, which
    if PRODUCER_IDS.next_id(old) != PRODUCER_IDS.next_id(new):
        (change,) = delta[PRODUCER_IDS]
        assert change.after.next_producer_id == PRODUCER_IDS.next_id(new)


def all_partitions(image):
    return [
        partition
        for topic in image[TOPICS].topics()
        for partition in image[TOPICS].partitions(topic.topic_id)
    ]


@some
@given(logs)
def test_nothing_differs_between_an_image_and_its_copy(records):
    image = apply_all(EMPTY, records, 0)
    assert not diff(image, image)
    assert not diff(image, apply_all(EMPTY, to_records(image), 0))
    assert bool(diff(EMPTY, image)) == bool(list(to_records(image)))
    assert diff(EMPTY, apply(EMPTY, ZkMigrationStateRecord(1), 0))[ZK_MIGRATION]
