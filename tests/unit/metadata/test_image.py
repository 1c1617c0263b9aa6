"""The fold, the hash and the way back to records."""

import random
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftd.metadata.configs_image import ConfigEntry
from kraftd.metadata.image import EMPTY, to_records
from kraftd.metadata.image_builder import ImageBuilder, apply, apply_all
from kraftd.metadata.image_diff import diff
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.part import EntityChange
from kraftd.metadata.parts.configs import CONFIGS, ConfigChange
from kraftd.metadata.parts.controllers import CONTROLLERS, ControllerChange, ControllerRegistration
from kraftd.metadata.parts.features import FEATURES, FeatureChange
from kraftd.records import messages
from kraftd.records.frame import RawRecord, decode_record, encode_record
from kraftd.records.messages import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RegisterControllerRecordControllerEndpoint,
    RegisterControllerRecordControllerFeature,
    TopicRecord,
    UserScramCredentialRecord,
)

GOLDEN_HASH = "0e30b1badc610e4ab74b1b3d525782a0"

names = st.sampled_from(["a", "b", "metadata.version", "log.retention.ms", "ключ", ""])
text = st.text(max_size=6)
tags = st.just(()) | st.just(((9, b"later"),)) | st.just(((9, b""), (10, b"later")))
"""Tags that nothing here knows: a newer Kafka may have added a field to any kind of record."""

features = st.builds(FeatureLevelRecord, name=names, feature_level=st.integers(0, 3), unknown_tags=tags)
configs = st.builds(
    ConfigRecord,
    resource_type=st.sampled_from([2, 4, 32, 99]),
    resource_name=st.sampled_from(["", "1", "t"]),
    name=names,
    value=st.none() | text,
    unknown_tags=tags,
)
controllers = st.builds(
    RegisterControllerRecord,
    controller_id=st.integers(0, 3),
    incarnation_id=st.binary(min_size=16, max_size=16),
    zk_migration_ready=st.booleans(),
    end_points=st.lists(
        st.builds(
            RegisterControllerRecordControllerEndpoint,
            name=text,
            host=text,
            port=st.integers(0, 65535),
            security_protocol=st.integers(0, 3),
            unknown_tags=tags,
        ),
        max_size=2,
    ).map(tuple),
    features=st.lists(
        st.builds(
            RegisterControllerRecordControllerFeature,
            name=text,
            min_supported_version=st.integers(0, 3),
            max_supported_version=st.integers(0, 9),
        ),
        max_size=2,
    ).map(tuple),
)
entities = st.one_of(features, configs, controllers, st.just(NoOpRecord()))
logs = st.lists(entities, max_size=12)


def known(record):
    """A record without the tags that nothing here knows."""
    inside = {
        name: tuple(msgspec.structs.replace(part, unknown_tags=()) for part in getattr(record, name))
        for name in ("end_points", "features")
        if hasattr(record, name)
    }
    return msgspec.structs.replace(record, unknown_tags=(), **inside)


def config(name, value, broker=""):
    return ConfigRecord(resource_type=4, resource_name=broker, name=name, value=value)


def feature(name, level):
    return FeatureLevelRecord(name=name, feature_level=level)


# -- the fold


def test_an_empty_image_shows_nothing():
    assert not list(to_records(EMPTY))
    assert not EMPTY.is_partial
    assert EMPTY.hash() == "0" * 32
    assert list(to_records(EMPTY)) == []


def test_a_config_is_set_replaced_and_removed_by_null():
    image = apply_all(EMPTY, [config("k", "1"), config("k", "2"), config("l", "", "7")], 0)
    assert image[CONFIGS].get(4, "", "k") == "2"
    assert list(image[CONFIGS].entries()) == [ConfigEntry(4, "", "k", "2"), ConfigEntry(4, "7", "l", "")]
    image = apply(image, config("k", None), 3)
    assert image[CONFIGS].get(4, "", "k") is None
    assert list(image[CONFIGS].resources()) == [(4, "7")]
    assert apply(image, config("never set", None), 4) == image


def test_a_feature_at_level_zero_is_off():
    image = apply(EMPTY, feature("group.version", 1), 0)
    assert image[FEATURES].level("group.version") == 1
    assert apply(image, feature("group.version", 0), 1) == EMPTY


@pytest.mark.covers("D-18")
@pytest.mark.parametrize("level", [0, 1])
def test_a_level_of_kraft_version_is_no_feature_of_the_image(level):
    """The quorum's own level is in control records; a log of Kafka 4.0 may hold this record as well."""
    passed_over = msgspec.structs.replace(feature("kraft.version", level), unknown_tags=((9, b"later"),))
    before = apply(EMPTY, feature("metadata.version", 30), 0)
    after = apply(before, passed_over, 1)
    assert after == before
    assert after.hash() == before.hash()
    assert not after.is_partial
    assert list(to_records(after)) == [feature("metadata.version", 30)]
    assert not diff(before, after)


def test_metadata_version_comes_first_in_every_listing():
    image = apply_all(EMPTY, [feature("a", 1), feature("metadata.version", 30)], 0)
    assert [name for name, _ in image[FEATURES].items()] == ["metadata.version", "a"]
    assert next(iter(to_records(image))) == feature("metadata.version", 30)


def test_the_order_of_what_a_controller_lists_means_nothing():
    one = RegisterControllerRecordControllerFeature(
        name="a", min_supported_version=0, max_supported_version=1
    )
    two = RegisterControllerRecordControllerFeature(
        name="b", min_supported_version=0, max_supported_version=1
    )
    there = apply(EMPTY, RegisterControllerRecord(controller_id=1, features=(one, two)), 0)
    back = apply(EMPTY, RegisterControllerRecord(controller_id=1, features=(two, one)), 0)
    assert there == back
    assert there.hash() == back.hash()


def test_every_kind_of_record_that_can_be_read_can_be_folded():
    makers = [
        RegisterBrokerRecord(),
        TopicRecord(),
        PartitionRecord(),
        AccessControlEntryRecord(),
        UserScramCredentialRecord(),
        BeginTransactionRecord(),
    ]
    image = apply_all(EMPTY, makers, 0)
    for kind in messages.Record.__args__:
        base = apply(EMPTY, TopicRecord(), 0) if kind is PartitionRecord else EMPTY
        apply(base if kind in map(type, makers) else image, kind(), 1)


@given(logs)
def test_folding_one_by_one_and_all_at_once_is_the_same(records):
    image = EMPTY
    for offset, record in enumerate(records):
        image = apply(image, record, offset)
    assert image == apply_all(EMPTY, records, 0)


@given(logs)
def test_a_fold_can_be_looked_at_and_continued(records):
    builder = ImageBuilder(EMPTY)
    for offset, record in enumerate(records):
        builder.apply(record, offset)
        assert builder.image() == apply_all(EMPTY, records[: offset + 1], 0)


@given(logs)
def test_what_an_image_writes_out_rebuilds_it(records):
    image = apply_all(EMPTY, records, 0)
    rebuilt = apply_all(EMPTY, to_records(image), 0)
    assert rebuilt == image
    assert rebuilt.hash() == image.hash()
    decoded = [decode_record(encode_record(record)) for record in to_records(image)]
    assert apply_all(EMPTY, decoded, 0) == image


@given(logs, logs)
def test_an_image_is_not_changed_by_what_is_folded_onto_it(before, after):
    image = apply_all(EMPTY, before, 0)
    shown, digest = list(to_records(image)), image.hash()
    apply_all(image, after, 100)
    assert list(to_records(image)) == shown
    assert image.hash() == digest


# -- the hash


@pytest.mark.covers("D-18")
@given(logs, st.randoms(use_true_random=False))
def test_the_hash_does_not_depend_on_the_order_of_entities(records, rng):
    image = apply_all(EMPTY, records, 0)
    shuffled = list(to_records(image))
    rng.shuffle(shuffled)
    assert apply_all(EMPTY, shuffled, 0).hash() == image.hash()


@pytest.mark.covers("D-18")
@given(logs, logs)
def test_equal_hashes_mean_equal_images(one, two):
    left, right = apply_all(EMPTY, one, 0), apply_all(EMPTY, two, 0)
    assert (left.hash() == right.hash()) == (left == right)


@pytest.mark.covers("D-18")
def test_the_hash_sees_where_one_string_ends_and_the_next_begins():
    hashes = {
        apply(EMPTY, ConfigRecord(4, resource, name, value), 0).hash()
        for resource, name, value in [("1", "23", "4"), ("12", "3", "4"), ("1", "2", "34"), ("1", "234", "")]
    }
    assert len(hashes) == 4


@pytest.mark.covers("D-18")
def test_the_hash_is_a_promise_across_processes_and_releases():
    image = apply_all(
        EMPTY,
        [
            feature("metadata.version", 30),
            config("log.retention.ms", "1"),
            RegisterControllerRecord(
                controller_id=1,
                incarnation_id=bytes(range(16)),
                end_points=(
                    RegisterControllerRecordControllerEndpoint(name="CONTROLLER", host="h", port=9093),
                ),
            ),
        ],
        0,
    )
    assert image.hash() == GOLDEN_HASH


def test_the_hash_does_not_depend_on_the_hash_seed_of_python():
    program = (
        "from kraftd.metadata.image_builder import apply_all; from kraftd.metadata.image import EMPTY;"
        "from kraftd.records.messages import ConfigRecord;"
        "print(apply_all(EMPTY, [ConfigRecord(4, '', k, k) for k in 'abc'], 0).hash())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


# -- transactions


@given(logs, logs)
def test_a_transaction_shows_nothing_until_it_ends_and_everything_then(before, inside):
    image = apply_all(EMPTY, before, 0)
    opened = apply_all(image, [BeginTransactionRecord(name="t"), *inside], 50)
    assert list(to_records(opened)) == list(to_records(image))
    assert opened.hash() == image.hash()
    assert opened.transaction.begin_offset == 50
    assert opened.transaction.name == "t"
    ended = apply(opened, EndTransactionRecord(), 99)
    assert ended == apply_all(image, inside, 51)
    assert ended.transaction is None
    assert apply(opened, AbortTransactionRecord(), 99) == image


@given(logs, st.data())
def test_a_transaction_may_be_cut_anywhere_between_folds(inside, data):
    records = [config("k", "0"), BeginTransactionRecord(), *inside, EndTransactionRecord(), config("l", "1")]
    cut = data.draw(st.integers(0, len(records)))
    image = apply_all(apply_all(EMPTY, records[:cut], 0), records[cut:], cut)
    assert image == apply_all(EMPTY, records, 0)


def test_pending_records_are_part_of_the_state():
    begin = BeginTransactionRecord()
    assert apply_all(EMPTY, [begin, config("k", "1")], 0) != apply_all(EMPTY, [begin, config("k", "2")], 0)


@pytest.mark.parametrize(
    ("records", "offset"),
    [
        ([EndTransactionRecord()], 10),
        ([AbortTransactionRecord()], 10),
        ([BeginTransactionRecord(), NoOpRecord(), BeginTransactionRecord()], 12),
        ([config("k", "2"), feature("x", -1)], 11),
    ],
)
def test_an_impossible_record_is_one_error_with_its_offset_and_changes_nothing(records, offset):
    image = apply(EMPTY, config("k", "1"), 0)
    with pytest.raises(ImpossibleRecordError, match=f"offset {offset} ") as raised:
        apply_all(image, records, 10)
    assert raised.value.offset == offset
    assert list(image[CONFIGS].entries()) == [ConfigEntry(4, "", "k", "1")]


# -- what is unknown


def test_an_unknown_kind_makes_the_image_partial_and_nothing_else():
    known = apply(EMPTY, config("k", "1"), 0)
    image = apply_all(known, [RawRecord(2, 0, b"x"), RawRecord(2, 0, b"y"), RawRecord(4, 9, b"z")], 1)
    assert image.is_partial
    assert list(image.unknown_kinds()) == [(2, 2), (4, 1)]
    assert image.hash() == known.hash()
    assert list(to_records(image)) == list(to_records(known))
    assert not EMPTY.is_partial


def test_unknown_records_of_an_aborted_transaction_leave_no_trace():
    records = [BeginTransactionRecord(), RawRecord(2, 0, b""), AbortTransactionRecord()]
    assert apply_all(EMPTY, records, 0) == EMPTY


TAGS = ((9, b"later"),)
TAGGED = {
    "feature": FeatureLevelRecord("x", 1, TAGS),
    "config": ConfigRecord(4, "", "k", "v", TAGS),
    "controller": RegisterControllerRecord(3, unknown_tags=TAGS),
    "inside a controller": RegisterControllerRecord(
        3, features=(RegisterControllerRecordControllerFeature("f", 0, 1, TAGS),)
    ),
}


@pytest.mark.parametrize("name", TAGGED)
def test_unknown_tags_are_kept_and_written_again_and_go_with_what_they_tell_of(name):
    record = TAGGED[name]
    image = apply(EMPTY, record, 0)
    assert list(to_records(image)) == [record]
    assert not image.is_partial
    cleared = known(record)
    plain = apply(EMPTY, cleared, 0)
    assert image.hash() != plain.hash()
    after = apply(image, cleared, 1)
    assert (list(to_records(after)), after.hash()) == ([cleared], plain.hash())
    again = apply(after, record, 2)
    assert (list(to_records(again)), again.hash()) == ([record], image.hash())


def test_a_removal_takes_the_tags_along():
    records = [
        TAGGED["feature"],
        TAGGED["config"],
        FeatureLevelRecord("x", 0),
        ConfigRecord(4, "", "k", None),
    ]
    gone = apply_all(EMPTY, records, 0)
    assert (gone.hash(), list(to_records(gone))) == (EMPTY.hash(), [])


# -- differences


@given(logs, logs)
def test_a_difference_names_exactly_what_moved(before, more):
    old = apply_all(EMPTY, before, 0)
    new = apply_all(old, more, 50)
    delta = diff(old, new)
    assert bool(delta) == (list(to_records(old)) != list(to_records(new)))
    repaired = [known(change.before) for change in delta.unknown_tags if change.after is None]
    repaired += [feature(change.name, change.after) for change in delta[FEATURES]]
    repaired += [ConfigRecord(c.resource_type, c.resource_name, c.name, c.after) for c in delta[CONFIGS]]
    repaired += [change.after.to_record() for change in delta[CONTROLLERS]]
    repaired += [change.after for change in delta.unknown_tags if change.after is not None]
    assert list(to_records(apply_all(old, repaired, 0))) == list(to_records(new))


def test_a_difference_tells_before_and_after():
    old = apply_all(EMPTY, [config("gone", "1"), config("kept", "1"), feature("f", 1)], 0)
    new = apply_all(
        old, [config("gone", None), config("new", "2"), feature("f", 2), RegisterControllerRecord()], 3
    )
    delta = diff(old, new)
    assert delta[FEATURES] == (FeatureChange("f", 1, 2),)
    assert delta[CONFIGS] == (
        ConfigChange(4, "", "gone", "1", None),
        ConfigChange(4, "", "new", None, "2"),
    )
    registration = ControllerRegistration.of(RegisterControllerRecord())
    assert delta[CONTROLLERS] == (ControllerChange(0, None, registration),)


@pytest.mark.parametrize(
    "plain",
    [feature("f", 1), config("k", "v"), RegisterControllerRecord(3)],
    ids=lambda record: record.NAME,
)
def test_tags_that_nothing_here_knows_are_a_difference(plain):
    tagged = msgspec.structs.replace(plain, unknown_tags=((9, b"later"),))
    newer = msgspec.structs.replace(plain, unknown_tags=((9, b"newer"),))
    images = [apply(EMPTY, record, 0) for record in (plain, tagged, newer)]
    assert diff(images[0], images[1]).unknown_tags == (EntityChange(None, tagged),)
    assert diff(images[1], images[2]).unknown_tags == (EntityChange(tagged, newer),)
    assert diff(images[2], images[0]).unknown_tags == (EntityChange(newer, None),)
    assert not diff(images[1], apply(EMPTY, tagged, 7))


def test_the_names_of_a_resource_that_had_many_configs_are_those_that_it_has():
    names = [f"k{number:03}" for number in range(258)]
    image = apply_all(EMPTY, [config(name, "1") for name in names], 0)
    for gone in (names[:1], names[1:3], names[3:257]):
        image = apply_all(image, [config(name, None) for name in gone], 0)
        names = [name for name in names if name not in gone]
        assert [entry.name for entry in image[CONFIGS].entries()] == names
    image = apply_all(image, [config("later", "2")], 0)
    assert [entry.name for entry in image[CONFIGS].entries()] == [*names, "later"]


@settings(max_examples=10)
@given(st.integers(0, 1000))
def test_a_large_image_survives_random_edits(seed):
    rng = random.Random(seed)
    image, model = EMPTY, {}
    for offset in range(300):
        broker, name = str(rng.randrange(5)), f"k{rng.randrange(20)}"
        value = None if rng.random() < 0.3 else str(offset)
        image = apply(image, config(name, value, broker), offset)
        model[broker, name] = value
    wanted = sorted((4, broker, name, value) for (broker, name), value in model.items() if value is not None)
    assert [tuple(entry) for entry in image[CONFIGS].entries()] == wanted
    assert image.hash() == apply_all(EMPTY, to_records(image), 0).hash()
