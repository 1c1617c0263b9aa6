"""What a snapshot's partitions become by columns is what they become one by one, and so is what is said of
those that are wrong.
"""

import random

import pytest

from kraftd.metadata.image import EMPTY, to_records
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.metadata.parts.topics import TOPICS, partition_columns
from kraftd.metadata.parts.topics import builder as topics_builder
from kraftd.records.frame import encode_record
from kraftd.records.messages import (
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.unit.metadata.test_packed import (
    listed,
    looked_up,
    one_by_one,
    outcome,
    random_partition,
    random_value,
)

A, B = bytes([1]) * 16, bytes([2]) * 16
D1, D2, D3 = (bytes([n]) * 16 for n in (7, 8, 9))
IDS = (*range(5), 255, 256, 257, 300, 513, 1 << 24, (1 << 31) - 1)
"""Brokers whose ids differ in any of their bytes."""


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch):
    monkeypatch.setattr(partition_columns, "RUNS_MIN", 8)
    monkeypatch.setattr(partition_columns, "_ALIKE_MIN", 2)


@pytest.fixture
def taken(monkeypatch):
    """How many records went by columns, one entry a call."""
    counts = []

    def put_runs(builder, values, start, put_runs=topics_builder.TopicsBuilder.put_runs):
        end = put_runs(builder, values, start)
        counts.append(end - start)
        return end

    monkeypatch.setattr(topics_builder.TopicsBuilder, "put_runs", put_runs)
    return counts


def in_bulk(values, chunk=1 << 30):
    builder = ImageBuilder(EMPTY)
    for at in range(0, len(values), chunk):
        builder.apply_values(values[at : at + chunk], at)
    return builder.image()


def usual_partition(rng, partition_id, topic_id):
    """A partition in order, as nearly all of a snapshot are."""
    replicas = tuple(rng.sample(IDS, rng.randint(1, 5)))
    isr = replicas[: rng.choice([len(replicas)] * 3 + [rng.randint(1, len(replicas))])]
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=rng.randrange(1 << 20),
        partition_epoch=rng.randrange(1 << 20),
    )


def partition_value(rng, partition_id, topic_id, odd):
    make = random_partition if rng.random() < odd else usual_partition
    return random_value(rng, make(rng, partition_id, topic_id))


def snapshot_values(rng, sizes, odd=0.1):
    """The records of a snapshot, in the order of Kafka's."""
    values = [encode_record(FeatureLevelRecord("metadata.version", 29), 0)]
    values += [encode_record(RegisterBrokerRecord(broker_id=broker)) for broker in range(3)]
    for number, size in enumerate(sizes):
        topic_id = rng.randbytes(16)
        values.append(encode_record(TopicRecord(f"topic {number}", topic_id)))
        values += [partition_value(rng, at, topic_id, odd) for at in range(size)]
    values += [encode_record(ConfigRecord(2, f"topic {number}", "k", "v")) for number in range(len(sizes))]
    return values


def check_same(image, expected):
    assert image == expected
    assert image.hash() == expected.hash()
    assert list(to_records(image)) == list(to_records(expected))
    brokers = [*range(-2, 6), *IDS]
    assert listed(image, brokers) == listed(expected, brokers) == looked_up(image, brokers)


@pytest.mark.covers("D-18")
@pytest.mark.parametrize("seed", range(20))
def test_a_snapshot_by_columns_is_the_same_as_record_by_record(taken, seed):
    rng = random.Random(seed)
    sizes = [rng.choice([0, 1, 2, 12, 31, 32, 33, 64, 150]) for _ in range(12)]
    values = snapshot_values(rng, sizes, odd=rng.choice([0, 0.1, 1]))
    expected = one_by_one(values)
    for chunk in (1 << 30, 100, rng.randint(10, 60)):
        taken.clear()
        check_same(in_bulk(values, chunk), expected)
        assert sum(taken) > 0.5 * sum(sizes)


def damaged(rng, values):
    """The values with something wrong, or at least unusual, in one place."""
    values = list(values)
    at, other = rng.randrange(len(values)), rng.randrange(len(values))
    value = values[at]
    match rng.randrange(9):
        case 0 | 1 | 2:
            where = rng.randrange(len(value))
            byte = rng.choice([0, 1, 2, 3, 4, 5, 0x7F, 0x80, 0xFF, value[where] ^ 1 << rng.randrange(8)])
            values[at] = value[:where] + bytes([byte]) + value[where + 1 :]
        case 3:
            values[at] = value[: rng.randrange(len(value))]
        case 4:
            values[at] = value + rng.choice([b"\0", value[-4:], rng.randbytes(3)])
        case 5:
            values[at], values[other] = values[other], values[at]
        case 6:
            values.insert(other, value)
        case 7:
            del values[at]
        case 8:
            topic_ids = [each[7:23] for each in values if each[1] == PartitionRecord.API_KEY]
            topic_id = rng.choice(topic_ids)
            strangers = [
                NoOpRecord(),
                RemoveTopicRecord(topic_id),
                PartitionChangeRecord(rng.randrange(9), topic_id, isr=(1,), leader=1),
                PartitionRecord(rng.randrange(40), topic_id, (1, 2), (1, 2), leader=1),
                PartitionRecord(-1, topic_id, (1,), (1,), leader=1),
                PartitionRecord((1 << 31) - 1, topic_id, (1,), (1,), leader=1),
                TopicRecord("topic 1", bytes(16)),
                TopicRecord("t", topic_id),
                TopicRecord("new", bytes([5]) * 16, unknown_tags=((7, b"x"),)),
            ]
            values.insert(at, encode_record(rng.choice(strangers)))
    return values


@pytest.mark.covers("D-18")
@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_wrong_with_a_snapshot_the_same_is_said_of_the_same_record(taken, seed):
    rng = random.Random(seed)
    values = snapshot_values(rng, [9, 3, 0, 14, 34], odd=0.05)
    outcomes = set()
    for _ in range(120):
        wrong = damaged(rng, values)
        expected = outcome(one_by_one, wrong)
        assert outcome(in_bulk, wrong) == expected
        assert outcome(lambda values: in_bulk(values, 23), wrong) == expected
        outcomes.add(str(expected[0]))
    assert len(outcomes) > 20
    assert sum(taken) > 1_000


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("isr", [(1, 2, 3), (1, 2)], ids=["all", "some"])
def test_no_byte_of_a_record_among_its_like_can_be_another(taken, version, isr):
    """The same as alone, whatever the byte: the columns prove as much as decoding does."""
    directories = (D1, D2, D3) if version else ()
    good = [
        encode_record(PartitionRecord(at, A, (1, 2, 3), isr, leader=1, directories=directories), version)
        for at in range(10)
    ]
    topic = encode_record(TopicRecord("ab", A))
    assert outcome(in_bulk, [topic, *good]) == outcome(one_by_one, [topic, *good])
    assert taken == [11]
    for at in range(len(good[4])):
        for byte in {0, 1, 2, 3, 4, 5, 0x7F, 0x80, 0xFF, good[4][at] ^ 1} - {good[4][at]}:
            bad = good[4][:at] + bytes([byte]) + good[4][at + 1 :]
            values = [topic, *good[:4], bad, *good[5:]]
            assert outcome(in_bulk, values) == outcome(one_by_one, values), (at, byte)


@pytest.mark.parametrize(
    ("replicas", "isr"), [((1, 2, -7), (1, 2)), ((-7, 1, 2), (-7, 1)), ((1, -7), (1, -7))]
)
def test_what_is_no_broker_is_none_by_columns_either(taken, replicas, isr):
    values = [encode_record(TopicRecord("ab", A))]
    directories = (D1, D2, D3)[: len(replicas)]
    values += [
        encode_record(PartitionRecord(at, A, replicas, isr, leader=isr[0], directories=directories))
        for at in range(10)
    ]
    image = in_bulk(values)
    assert taken == [11]
    assert listed(image, [-7, 1, 2]) == listed(one_by_one(values), [-7, 1, 2]) == looked_up(image, [-7, 1, 2])


def test_records_of_equal_length_need_not_be_of_equal_layout(taken):
    """One more replica to add takes as much room as one more member of the ISR."""
    values = [encode_record(TopicRecord("ab", A))]
    values += [
        encode_record(PartitionRecord(at, A, (1, 2, 3), (1, 2, 3), leader=1, directories=(D1, D2, D3)))
        if at % 3
        else encode_record(
            PartitionRecord(
                at, A, (1, 2, 3), (1, 2), adding_replicas=(3,), leader=1, directories=(D1, D2, D3)
            )
        )
        for at in range(40)
    ]
    assert len({*map(len, values[1:])}) == 1
    check_same(in_bulk(values), one_by_one(values))
    assert taken == [41]


def test_a_topic_goes_on_in_the_next_records_and_its_partitions_are_not_made_twice(taken):
    values = [encode_record(TopicRecord("ab", A))]
    values += [
        encode_record(PartitionRecord(at, A, (1, 2), (1, 2), leader=1, directories=(D1, D2)))
        for at in range(100)
    ]
    check_same(in_bulk(values, 37), one_by_one(values))
    assert taken == [37, 37, 27]
    again = [*values, *(encode_record(PartitionRecord(at, A, (2,), (2,), leader=2)) for at in range(90, 99))]
    check_same(in_bulk(again, 101), one_by_one(again))


def test_what_was_refused_once_is_not_read_again_and_again(monkeypatch):
    """Each topic of a batch would have all that follow it read in vain."""
    reads = []

    def read_runs(values, start, read_runs=partition_columns.read_runs):
        reads.append(start)
        return read_runs(values, start)

    monkeypatch.setattr(topics_builder, "read_runs", read_runs)
    values = []
    for number in range(50):
        topic_id = bytes([number]) * 16
        values.append(encode_record(TopicRecord(f"topic {number}", topic_id)))
        values += [
            encode_record(PartitionRecord(at, topic_id, (1,), (1,), leader=1)) for at in (0, 1, 5, 2, 3)
        ]
    check_same(in_bulk(values), one_by_one(values))
    assert reads == [0]
    assert in_bulk(values)[TOPICS].partition_count == 250
