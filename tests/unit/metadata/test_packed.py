"""What lies packed is what was put there: numbers, blocks, partitions in bulk and those of a broker."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kraftd.errors import MalformedError, UnencodableError
from kraftd.metadata.entity_hash import HASH_MASK, hash_of_bytes
from kraftd.metadata.image import EMPTY, to_records
from kraftd.metadata.image_builder import ImageBuilder, apply, apply_all
from kraftd.metadata.image_diff import diff
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.parts.topics import TOPICS, broker_index, packed_int_set, partitions
from kraftd.metadata.parts.topics import builder as topics_builder
from kraftd.metadata.parts.topics.packed_int_set import PackedIntSet
from kraftd.metadata.parts.topics.partition_block import BLOCK_MASK, packed_block, row_at, rows_of, with_rows
from kraftd.records.frame import decode_record, encode_record
from kraftd.records.messages import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.unit.metadata.legal_records import logs

some = settings(max_examples=40)

A, B = bytes([1]) * 16, bytes([2]) * 16
D1, D2, D3 = (bytes([n]) * 16 for n in (7, 8, 9))


# -- numbers

numbers = st.lists(st.integers(0, 60) | st.integers(0, 1 << 40), max_size=40, unique=True)


@given(st.lists(st.tuples(numbers, numbers), max_size=8))
def test_a_set_of_numbers_is_a_set_whatever_the_size_of_its_blocks(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_int_set, "_BLOCK", 4)
        patch.setattr(packed_int_set, "_FEW", 2)
        numbers, model = PackedIntSet(), set()
        for added, dropped in steps:
            before, shown = numbers, list(numbers)
            numbers = numbers.changed(added, dropped)
            model = (model | set(added)) - set(dropped)
            assert list(numbers) == sorted(model)
            assert (len(numbers), bool(numbers)) == (len(model), bool(model))
            assert list(before) == shown


def test_a_large_set_of_numbers_grows_and_shrinks_one_by_one():
    rng = random.Random(4)
    members = rng.sample(range(1 << 34), 20_000)
    numbers = PackedIntSet().changed(members)
    for number in members[:5_000]:
        numbers = numbers.changed([], [number])
    for number in members[:2_500]:
        numbers = numbers.changed([number])
    assert list(numbers) == sorted(members[:2_500] + members[5_000:])
    assert list(numbers.changed([], members)) == []


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 15)), max_size=60),
    st.sets(st.integers(0, 12), min_size=1),
    st.sampled_from([0, 2, 16]),
)
@example([(0, 0), *((1, low) for low in range(8))], {1}, 2)  # from behind others in a block into the next
def test_a_set_of_numbers_loses_all_that_begin_alike(members, prefixes, cut_max):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_int_set, "_CUT_MAX", cut_max)
        patch.setattr(packed_int_set, "_BLOCK", 4)
        patch.setattr(packed_int_set, "_FEW", 2)
        every = {prefix << 4 | low for prefix, low in members}
        numbers = PackedIntSet().changed(every)
        left = numbers.without(prefixes, sorted(prefixes), 4)
        assert list(left) == sorted(number for number in every if number >> 4 not in prefixes)
        assert (left is numbers) == (len(left) == len(every))
        assert list(numbers) == sorted(every)
        assert list(left.changed(every)) == sorted(every)


def test_what_lies_between_the_numbers_that_go_is_not_looked_at():
    """Three topics of a cluster go, the first one, the last one and one between: a few blocks of hundreds."""
    looks = []

    class Blocks(tuple):
        def __getitem__(self, at):
            looks.append(at)
            return super().__getitem__(at)

    every = PackedIntSet().changed(range(160_000))
    numbers = PackedIntSet(Blocks(every._blocks), every._firsts)
    left = numbers.without({0, 5_000, 9_999}, [0, 5_000, 9_999], 4)
    assert len(looks) <= 6 < len(every._blocks) // 50
    assert set(every) - set(left) == {n for n in range(160_000) if n >> 4 in (0, 5_000, 9_999)}


# -- blocks

blocks = st.dictionaries(st.integers(0, BLOCK_MASK), st.binary(min_size=1, max_size=9), min_size=1)


@given(blocks, st.none() | blocks)
@example({0: b"a", 1: b"b", 3: b"d"}, {1: b"longer"})
@example({0: b"a", 1: b"b", 3: b"d"}, {2: b"new"})
@example({0: b"a"}, {31: b"new"})
def test_a_span_gives_back_each_partition(rows, changed):
    block = packed_block(rows)
    if changed is not None:
        block = with_rows(block, changed)
        rows = rows | changed
        assert with_rows(b"", changed) == packed_block(changed)
    assert block == packed_block(rows)
    assert list(rows_of(block)) == sorted(rows.items())
    assert {at: row_at(block, at) for at in range(BLOCK_MASK + 1)} == {
        at: rows.get(at) for at in range(BLOCK_MASK + 1)
    }


# -- the partitions of a broker


def listed(image, brokers=range(-1, 6)):
    found = {
        broker: tuple(
            sorted(listing(broker))
            for listing in (
                image[TOPICS].partitions_led_by,
                image[TOPICS].partitions_in_sync_on,
                image[TOPICS].partitions_on,
                lambda one: image[TOPICS].broker_index.partitions(one, broker_index.ELIGIBLE),
            )
        )
        for broker in brokers
    } | {
        "without leader": sorted(image[TOPICS].partitions_without_leader()),
        "reassigning": sorted(image[TOPICS].partitions_reassigning()),
        "not preferred": sorted(image[TOPICS].partitions_not_preferred()),
        "with an ELR": sorted(image[TOPICS].broker_index.partitions_in(broker_index.WITH_ELR)),
    }
    for broker in brokers:
        roles = (broker_index.LEADER, broker_index.IN_SYNC, broker_index.REPLICA, broker_index.ELIGIBLE)
        counts = [image[TOPICS].broker_index.count(broker, role) for role in roles]
        assert counts == list(map(len, found[broker]))
    return found


def looked_up(image, brokers=range(-1, 6)):
    """The same, by looking at every partition."""
    every = [
        ((topic.topic_id, partition.partition_id), partition)
        for topic in image[TOPICS].topics()
        for partition in image[TOPICS].partitions(topic.topic_id)
    ]
    assert image[TOPICS].partition_count == len(every)
    for topic in image[TOPICS].topics():
        check_sums(image, topic.topic_id)
    return {
        broker: (
            sorted(which for which, p in every if p.leader == broker and broker >= 0),
            sorted(which for which, p in every if broker in p.isr),
            sorted(which for which, p in every if broker in p.replicas),
            sorted(which for which, p in every if broker in (p.eligible_leader_replicas or ())),
        )
        for broker in brokers
    } | {
        "without leader": sorted(which for which, p in every if p.leader < 0 and p.replicas),
        "reassigning": sorted(which for which, p in every if p.adding_replicas or p.removing_replicas),
        "not preferred": sorted(
            which for which, p in every if p.replicas and p.leader >= 0 and p.leader != p.replicas[0]
        ),
        "with an ELR": sorted(
            which
            for which, p in every
            if p.eligible_leader_replicas is not None or p.last_known_elr is not None
        ),
    }


def check_sums(image, topic_id):
    """What is kept of a topic's partitions together is what they amount to, each looked at."""
    topic = image[TOPICS]._topics[topic_id]
    rows = [packed for _, packed in topic.rows()]
    assert topic.sum == sum(map(hash_of_bytes, rows)) & HASH_MASK
    assert image[TOPICS].partition_count_of(topic_id) == len(rows)


@pytest.mark.covers("D-18")
@some
@given(logs, st.lists(st.integers(0, 30), max_size=3), st.sampled_from([0, 2, 64]))
def test_the_partitions_of_a_broker_are_those_that_name_it(records, cuts, moved_away_max):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker_index, "_MOVED_AWAY_MAX", moved_away_max)
        patch.setattr(broker_index, "_MOVED_AWAY_EACH", 0)
        image = EMPTY
        for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(records)], strict=True):
            image = apply_all(image, records[start:end], start)
            assert listed(image) == looked_up(image)


def test_a_broker_has_what_it_leads_what_it_is_in_sync_for_and_what_it_holds():
    image = apply_all(
        EMPTY,
        [
            TopicRecord("a", A),
            PartitionRecord(0, A, (1, 2, 3), (1, 2), leader=1, directories=(D1, D2, D3)),
            PartitionRecord(40, A, (2, 1), (2, 1), leader=2, directories=(D1, D2)),
            PartitionRecord(-5, A, (4, 4), (5,), leader=3, directories=(D1, D2)),
        ],
        0,
    )
    assert listed(image, [1, 2, 3, 4, 5]) == {
        1: ([(A, 0)], [(A, 0), (A, 40)], [(A, 0), (A, 40)], []),
        2: ([(A, 40)], [(A, 0), (A, 40)], [(A, 0), (A, 40)], []),
        3: ([(A, -5)], [], [(A, 0)], []),
        4: ([], [], [(A, -5)], []),
        5: ([], [(A, -5)], [], []),
        "without leader": [],
        "reassigning": [],
        "not preferred": [(A, -5)],
        "with an ELR": [],
    }
    moved = apply(image, PartitionChangeRecord(0, A, isr=(2,), leader=2), 9)
    assert listed(moved, [1, 2]) == {
        1: ([], [(A, 40)], [(A, 0), (A, 40)], []),
        2: ([(A, 0), (A, 40)], [(A, 0), (A, 40)], [(A, 0), (A, 40)], []),
        "without leader": [],
        "reassigning": [],
        "not preferred": [(A, -5), (A, 0)],
        "with an ELR": [],
    }
    assert listed(image, [1])[1][0] == [(A, 0)], "the image before it stays"
    assert listed(apply(moved, RemoveTopicRecord(A), 10)) == listed(EMPTY)


@pytest.mark.parametrize("wait_max", [1, 5, 256])
@pytest.mark.parametrize("few_max", [2, 7, 128])
def test_moves_that_wait_are_seen_at_once(monkeypatch, wait_max, few_max):
    monkeypatch.setattr(broker_index, "_WAIT_MAX", wait_max)
    monkeypatch.setattr(broker_index, "_FEW_MAX", few_max)
    rng = random.Random(wait_max + few_max)
    records = [TopicRecord("a", A)]
    records += [PartitionRecord(n, A, (1, 2, 3), (1, 2, 3), leader=1) for n in range(40)]
    image = apply_all(EMPTY, records, 0)
    for _ in range(150):
        isr = tuple(rng.sample([1, 2, 3, 4], rng.randint(0, 3)))
        changes = [
            PartitionChangeRecord(rng.randrange(40), A, isr=isr, leader=rng.choice([-1, *isr]))
            for _ in range(rng.choice([1, 1, 1, 4, 20]))
        ]
        before, shown = image, listed(image)
        image = apply_all(image, changes, 50)
        assert listed(image) == looked_up(image)
        assert listed(before) == shown
    assert listed(apply(image, RemoveTopicRecord(A), 99)) == listed(EMPTY)


def test_a_topic_that_comes_back_has_only_its_new_partitions():
    records = [TopicRecord("a", A), PartitionRecord(0, A, (1,), (1,), leader=1)]
    image = apply_all(EMPTY, [*records, RemoveTopicRecord(A), *records[:1], TopicRecord("b", B)], 0)
    assert listed(image) == listed(EMPTY)
    assert listed(apply(image, records[1], 9), [1])[1] == (*([(A, 0)],) * 3, [])


@pytest.mark.parametrize("pending_max", [5, 1 << 20])
@pytest.mark.parametrize("few_max", [2, 128])
@pytest.mark.parametrize("moved_away_max", [0, 40, 1 << 20])
def test_topics_that_are_removed_leave_nothing_and_the_others_as_they_are(
    monkeypatch, moved_away_max, few_max, pending_max
):
    monkeypatch.setattr(broker_index, "_MOVED_AWAY_MAX", moved_away_max)
    monkeypatch.setattr(broker_index, "_MOVED_AWAY_EACH", 0)
    monkeypatch.setattr(broker_index, "_FEW_MAX", few_max)
    monkeypatch.setattr(broker_index, "_PENDING_MAX", pending_max)
    monkeypatch.setattr(packed_int_set, "_BLOCK", 8)
    monkeypatch.setattr(packed_int_set, "_FEW", 2)
    rng = random.Random(few_max)
    image, there, made = apply(EMPTY, FeatureLevelRecord("metadata.version", 29), 0), {}, 0
    for _ in range(60):
        records = []
        for _ in range(rng.randint(1, 4)):
            draw = rng.random()
            if draw < 0.3 or not there:
                made += 1
                topic_id = made.to_bytes(16, "big")
                there[topic_id] = rng.choice([0, 1, 30, 70])
                records.append(TopicRecord(f"topic {made}", topic_id))
                records += [random_partition(rng, n, topic_id) for n in range(there[topic_id])]
            elif draw < 0.5:
                records.append(RemoveTopicRecord(rng.choice(list(there))))
                del there[records[-1].topic_id]
            elif draw < 0.6:
                records.append(ClearElrRecord(""))
            else:
                topic_id = rng.choice(list(there))
                records += [
                    random_change(rng, n, topic_id) for n in range(there[topic_id]) if rng.random() < 0.2
                ]
        before, shown = image, listed(image)
        image = apply_all(image, records, 50)
        assert listed(image) == looked_up(image)
        assert listed(before) == shown
    assert image.hash() == apply_all(EMPTY, to_records(image), 0).hash()


def random_change(rng, partition_id, topic_id):
    return PartitionChangeRecord(
        partition_id,
        topic_id,
        leader=rng.choice([-2, -1, 1, 3]),
        eligible_leader_replicas=rng.choice([None, None, (), (2,)]),
        last_known_elr=rng.choice([None, None, (), (4,)]),
    )


def test_who_begins_to_settle_a_removal_and_stops_leaves_nothing_either(monkeypatch):
    monkeypatch.setattr(broker_index, "_MOVED_AWAY_MAX", 0)
    monkeypatch.setattr(broker_index, "_MOVED_AWAY_EACH", 0)
    monkeypatch.setattr(broker_index, "_DROP_STEP", 1)
    replicas = tuple(range(6))
    records = [TopicRecord("a", A), *(PartitionRecord(n, A, replicas, replicas, leader=n) for n in range(6))]
    for steps in range(7):
        builder = ImageBuilder(apply_all(EMPTY, records, 0))
        builder.apply(RemoveTopicRecord(A), 9)
        for _ in zip(range(steps), builder.settling(), strict=False):
            pass
        assert listed(builder.image(), replicas) == listed(EMPTY, replicas)


@pytest.fixture
def looks(monkeypatch):
    """How many partitions were read from what the image keeps."""
    counts = {"read": 0}

    def counted(function):
        def call(packed):
            counts["read"] += 1
            return function(packed)

        return call

    for name in ("hash_of_bytes", "assignment_of_packed"):
        monkeypatch.setattr(topics_builder, name, counted(getattr(topics_builder, name)))
    monkeypatch.setattr(partitions, "unpack", counted(partitions.unpack))
    return counts


@pytest.mark.covers("D-35")
def test_a_large_topic_is_removed_without_a_look_at_its_partitions(looks):
    records = [TopicRecord("a", A), TopicRecord("b", B), PartitionRecord(0, B, (1, 2), (1, 2), leader=1)]
    records += [PartitionRecord(n, A, (1, 2, 3), (1, 2, 3), leader=1) for n in range(1_000)]
    image = apply_all(EMPTY, records, 0)
    looks["read"] = 0
    after = apply(image, RemoveTopicRecord(A), 9)
    assert looks["read"] == 0
    assert listed(after) == looked_up(after)
    assert after.hash() == apply_all(EMPTY, records[1:3], 0).hash()


@pytest.mark.covers("D-35")
def test_small_topics_that_are_removed_together_are_not_looked_at_either(looks, monkeypatch):
    """Nor are their numbers sorted for each broker: of 5,000 topics and 1,000 brokers that took 0.2 s."""
    topics = [bytes([n]) * 16 for n in range(1, 101)]
    records = [TopicRecord(f"t{n}", topic_id) for n, topic_id in enumerate(topics)]
    for n, topic_id in enumerate(topics):
        brokers = (n % 40, n % 40 + 1)
        records += [PartitionRecord(at, topic_id, brokers, brokers, leader=brokers[0]) for at in range(6)]
    image = apply_all(EMPTY, records, 0)
    sortings = []

    def counted(numbers):
        sortings.append(numbers)
        return sorted(numbers)

    monkeypatch.setattr(broker_index, "sorted", counted, raising=False)
    looks["read"] = 0
    after = apply_all(image, [RemoveTopicRecord(topic_id) for topic_id in topics[::8]], 900)
    assert looks["read"] == 0
    assert len(sortings) == 1
    monkeypatch.undo()
    assert listed(after, range(42)) == looked_up(after, range(42))


@pytest.mark.covers("D-35")
@pytest.mark.parametrize("name", ["", "a"])
def test_eligible_replicas_are_cleared_without_a_look_at_partitions_that_have_none(looks, name):
    records = [TopicRecord("a", A)]
    records += [
        PartitionRecord(n, A, (1, 2), (1,), leader=1, eligible_leader_replicas=(2,) if n == 500 else None)
        for n in range(1_000)
    ]
    image = apply_all(EMPTY, records, 0)
    looks["read"] = 0
    after = apply(image, ClearElrRecord(name), 9)
    assert looks["read"] <= 3, "it is read, and its hash is taken from the sum and put back"
    assert after[TOPICS].partition(A, 500).eligible_leader_replicas is None
    assert listed(after) == looked_up(after)


@pytest.mark.covers("D-35")
def test_what_waits_is_merged_once_however_many_topics_lose_their_eligible_replicas(monkeypatch):
    """One request may be about 5,000 topics: to merge 255 moves for each took 0.4 s of the loop."""
    topics = [bytes([n]) * 16 for n in range(1, 41)]
    records = [TopicRecord(f"t{n}", topic_id) for n, topic_id in enumerate(topics)]
    records += [PartitionRecord(0, topic_id, (1, 2), (1, 2), leader=1) for topic_id in topics]
    image = apply_all(EMPTY, records, 0)
    for topic_id in topics[:20]:
        image = apply(image, PartitionChangeRecord(0, topic_id, leader=2), 90)
    merges, changed = [], PackedIntSet.changed

    def counted(numbers, *moves):
        merges.append(moves)
        return changed(numbers, *moves)

    monkeypatch.setattr(PackedIntSet, "changed", counted)
    after = apply_all(image, [ClearElrRecord(f"t{n}") for n in range(40)], 120)
    assert len(merges) == 1
    assert listed(after) == looked_up(after)


@pytest.mark.parametrize("few_max", [0, 100], ids=["many", "few"])
def test_moves_back_and_forth_in_one_fold_are_no_move(monkeypatch, few_max):
    monkeypatch.setattr(broker_index, "_FEW_MAX", few_max)
    base = apply_all(EMPTY, [TopicRecord("a", A), PartitionRecord(0, A, (1, 2), (1, 2), leader=1)], 0)
    back_and_forth = [PartitionChangeRecord(0, A, leader=leader) for leader in (2, 1, 2, 1)]
    image = apply_all(base, back_and_forth, 5)
    assert listed(image) == looked_up(image) == listed(base)
    assert listed(apply_all(base, back_and_forth[:3], 5), [2])[2][0] == [(A, 0)]


# -- in bulk


def random_partition(rng, partition_id, topic_id):
    replicas = tuple(rng.sample(range(6), rng.randint(0, 4)))
    isr = replicas if rng.random() < 0.7 else tuple(rng.sample(range(6), rng.randint(0, 3)))
    odd = rng.random() < 0.1
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=replicas * 2 if rng.random() < 0.05 else replicas,
        isr=isr,
        adding_replicas=(1,) if odd and rng.random() < 0.3 else (),
        removing_replicas=(2,) if odd and rng.random() < 0.3 else (),
        leader=rng.choice([*replicas[:1] * 8, -1, 3, -2]),
        leader_recovery_state=int(odd and rng.random() < 0.3),
        leader_epoch=rng.randrange(9),
        partition_epoch=rng.randrange(9),
        unknown_tags=((99, b"later"),) if odd and rng.random() < 0.3 else (),
    )


def random_value(rng, record):
    """A record in a version that it fits, with directories or a list of others if the version has them."""
    version = rng.choice([0, 1, 2, 2])
    if version and rng.random() < 0.8:
        record = replace(record, directories=tuple(rng.choice([D1, D2, D3]) for _ in record.replicas))
    if version == 2 and rng.random() < 0.1:
        record = replace(record, eligible_leader_replicas=(3,), last_known_elr=rng.choice([None, (), (4,)]))
    return encode_record(record, version)


def random_log(rng, sizes):
    values = [encode_record(FeatureLevelRecord("metadata.version", 29), 0)]
    for number, size in enumerate(sizes):
        topic_id = rng.randbytes(16)
        values.append(encode_record(TopicRecord(f"topic {number}", topic_id)))
        ids = list(range(size))
        if rng.random() < 0.3:
            rng.shuffle(ids)
        if rng.random() < 0.2:
            ids += rng.sample(ids, len(ids) // 2)  # made anew
        values += [random_value(rng, random_partition(rng, at, topic_id)) for at in ids]
        values.append(encode_record(ConfigRecord(2, f"topic {number}", "k", "v")))
        if rng.random() < 0.1:
            values.append(encode_record(RemoveTopicRecord(topic_id)))
    return values


def one_by_one(values):
    return apply_all(EMPTY, map(decode_record, values), 0)


@pytest.mark.covers("D-18")
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("open_max", "pending_max"), [(512, 2_000_000), (2, 5)], ids=["roomy", "tight"])
def test_in_bulk_or_one_by_one_makes_no_difference(monkeypatch, seed, open_max, pending_max):
    monkeypatch.setattr(topics_builder, "_OPEN_MAX", open_max)
    monkeypatch.setattr(broker_index, "_PENDING_MAX", pending_max)
    rng = random.Random(seed)
    values = random_log(rng, [rng.choice([0, 1, 3, 31, 33, 70, 150]) for _ in range(12)])
    expected = one_by_one(values)

    builder, image, at = ImageBuilder(EMPTY), EMPTY, 0
    while at < len(values):
        end = at + rng.choice([1, 7, 100])
        builder.apply_values(values[at:end], at)
        if rng.random() < 0.1:
            image = builder.image()
            builder = rng.choice([builder, ImageBuilder(image)])
        at = end
    image = builder.image()

    assert image == expected
    assert image.hash() == expected.hash()
    assert list(to_records(image)) == list(to_records(expected))
    assert not diff(image, expected)
    assert not diff(expected, image)
    assert listed(image) == listed(expected) == looked_up(expected)


@some
@given(logs, st.randoms(use_true_random=False))
def test_any_log_gives_the_same_image_in_bulk(records, rng):
    values = []
    for record in records:
        try:
            values.append(encode_record(record, rng.randint(record.MIN_VERSION, record.MAX_VERSION)))
        except UnencodableError:
            values.append(encode_record(record))
    builder = ImageBuilder(EMPTY)
    builder.apply_values(values, 0)
    assert builder.image() == one_by_one(values)
    assert builder.image().hash() == one_by_one(values).hash()


def outcome(fold_values, values):
    """What becomes of a log: the hash and the partitions of the brokers, or what is said of it."""
    try:
        image = fold_values(values)
    except (MalformedError, ImpossibleRecordError) as error:
        return type(error), str(error)
    return image.hash(), listed(image, range(-1, 4)), list(image.unknown_kinds())


def in_bulk(values):
    builder = ImageBuilder(EMPTY)
    builder.apply_values(values, 0)
    return builder.image()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_whatever_byte_is_wrong_in_bulk_it_is_as_wrong_as_when_decoded(version):
    """Every record is validated: no byte of one can be another and go unnoticed in bulk alone."""
    topic, other = encode_record(TopicRecord("a", A)), encode_record(TopicRecord("b", B))
    record = PartitionRecord(3, A, (1, 2, 3), (2, 3), leader=2, leader_epoch=4, partition_epoch=5)
    listing = replace(record, directories=(D1, D2, D3) if version else ())
    for good in {encode_record(listing, version), encode_record(record, version)}:
        assert outcome(in_bulk, [topic, good])[0] == one_by_one([topic, good]).hash()
        for at in range(len(good)):
            for byte in {0, 1, 2, 3, 4, 5, 0x7F, 0x80, 0xFF, good[at] ^ 1}:
                bad = good[:at] + bytes([byte]) + good[at + 1 :]
                values = [topic, other, good[:6] + b"\x09" + good[7:], bad]
                assert outcome(in_bulk, values) == outcome(one_by_one, values), (at, byte)
        for bad in (*(good[:end] for end in range(len(good))), good + b"\0", good + good[-4:]):
            assert outcome(in_bulk, [topic, bad]) == outcome(one_by_one, [topic, bad])


@pytest.mark.parametrize(("replicas", "leader"), [((-1, 2), -1), ((1, -7), -7)])
def test_a_leader_that_is_no_broker_leads_nothing_in_bulk_either(replicas, leader):
    partition = PartitionRecord(0, A, replicas, replicas, leader=leader, directories=(D1, D2))
    image = in_bulk([encode_record(TopicRecord("a", A)), encode_record(partition)])
    assert listed(image, [leader]) == looked_up(image, [leader])
    assert listed(apply(image, RemoveTopicRecord(A), 2), [leader]) == listed(EMPTY, [leader])


@pytest.mark.parametrize("chunk", [10, 100, 1000])
def test_places_in_bulk_are_written_down_before_they_are_too_many(monkeypatch, chunk):
    monkeypatch.setattr(broker_index, "_PENDING_MAX", 2_000)
    before, after = [], []

    def make_room(builder, make_room=broker_index.BrokerIndexBuilder.make_room):
        before.append(sum(map(len, builder._added.values())))
        make_room(builder)
        after.append(sum(map(len, builder._added.values())))

    monkeypatch.setattr(broker_index.BrokerIndexBuilder, "make_room", make_room)
    values = [
        encode_record(PartitionRecord(n, A, (1, 2), (1, 2), leader=1, directories=(D1, D2)))
        for n in range(9_000)
    ]
    builder = ImageBuilder(EMPTY)
    builder.apply_values([encode_record(TopicRecord("a", A))], 0)
    for at in range(0, len(values), chunk):
        builder.apply_values(values[at : at + chunk], at + 1)
    assert 2_000 < max(before) <= 2_000 + 2 * chunk
    assert 0 < max(after) <= 2_000
    assert list(builder.image()[TOPICS].partitions_on(2)) == [(A, n) for n in range(9_000)]


def test_moves_are_merged_in_the_order_in_which_they_came(monkeypatch):
    """Few moves wait beside those that are many; when some of these are merged, all that came before are."""
    monkeypatch.setattr(broker_index, "_PENDING_MAX", 0)
    monkeypatch.setattr(broker_index, "_PENDING_EACH", 0)
    monkeypatch.setattr(topics_builder, "_OPEN_MAX", 1)

    def put(builder, *ids):
        usual = [
            PartitionRecord(n, A, (1, 2), (1, 2), leader=1, directories=(D1, D2), leader_epoch=1) for n in ids
        ]
        builder.apply_values(list(map(encode_record, usual)), 9)

    records = [TopicRecord("a", A), PartitionRecord(0, A, (1, 2), (1, 2), leader=2)]
    builder = ImageBuilder(apply_all(EMPTY, records, 0))
    builder.apply(PartitionChangeRecord(0, A, leader=1), 2)
    put(builder, 40, 41)
    builder.apply(PartitionChangeRecord(0, A, leader=2), 5)
    put(builder, 42)
    put(builder, 43)
    image = builder.image()
    assert listed(image) == looked_up(image)


def test_an_impossible_partition_in_bulk_is_named_by_its_offset():
    values = [
        encode_record(TopicRecord("a", A)),
        *(encode_record(PartitionRecord(n, A, (1,), (1,), leader=1, directories=(D1,))) for n in range(5)),
        encode_record(PartitionRecord(0, B, (1,), (1,), leader=1, directories=(D1,))),
    ]
    with pytest.raises(ImpossibleRecordError, match="offset 106"):
        ImageBuilder(EMPTY).apply_values(values, 100)


def test_whoever_checks_sees_every_record_but_configs_topics_and_partitions():
    seen = []
    values = [
        encode_record(TopicRecord("a", A)),
        encode_record(PartitionRecord(0, A, (1,), (1,), leader=1)),
        encode_record(PartitionRecord(1, A, (1,), (1,), leader=1, unknown_tags=((99, b"later"),))),
        encode_record(ConfigRecord(2, "a", "k", "v")),
        encode_record(ClearElrRecord("a")),
    ]
    ImageBuilder(EMPTY).apply_values(
        values, 7, check=lambda record, offset: seen.append((record.NAME, offset))
    )
    assert seen == [("ClearElrRecord", 11)]


# -- changes


def test_a_frozen_image_does_not_see_what_changes_after_it():
    records = [TopicRecord("a", A)]
    records += [PartitionRecord(n, A, (1, 2), (1, 2), leader=1) for n in range(200)]
    frozen = apply_all(EMPTY, records, 0)
    shown, digest, brokers = list(to_records(frozen)), frozen.hash(), listed(frozen)
    image = frozen
    for number in range(200):
        image = apply(image, PartitionChangeRecord(number, A, isr=(2,), leader=2), 300)
    assert (list(to_records(frozen)), frozen.hash(), listed(frozen)) == (shown, digest, brokers)
    assert listed(image) == looked_up(image)
    changes = diff(frozen, image)[TOPICS].partitions
    assert [change.after.partition_id for change in changes] == list(range(200))


def test_eligible_leaders_are_cleared_wherever_they_are_and_nothing_else_moves():
    rng = random.Random(3)
    image = in_bulk(random_log(rng, [150, 33, 70]))
    with_elr = [r for r in to_records(image) if isinstance(r, PartitionRecord) and r.eligible_leader_replicas]
    assert with_elr
    cleared = apply(image, ClearElrRecord(""), 1)
    moved = {change.before: change.after for change in diff(image, cleared)[TOPICS].partitions}
    assert set(with_elr) <= set(moved)
    for before, after in moved.items():
        assert after == replace(
            before,
            eligible_leader_replicas=None,
            last_known_elr=None,
            partition_epoch=before.partition_epoch + 1,
        )
    assert listed(cleared) == looked_up(cleared)
    brokers = range(-1, 6)
    assert [listed(cleared)[broker][:3] for broker in brokers] == [
        listed(image)[broker][:3] for broker in brokers
    ]
    assert not any(listed(cleared)[broker][3] for broker in brokers)
