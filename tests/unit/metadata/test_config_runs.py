"""Runs of config records in bulk: the image is the one that the records make one by one."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftd.errors import MalformedError
from kraftd.metadata import config_runs
from kraftd.metadata.image import EMPTY, MetadataImage, to_records
from kraftd.metadata.image_builder import ImageBuilder, apply
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.records.frame import decode_record, encode_record
from kraftd.records.messages import ConfigRecord, NoOpRecord, Record, TopicRecord

texts = st.sampled_from(["", "a", "b", "retention.ms", "ä", "x" * 126, "x" * 127, "x" * 300])
configs = st.builds(
    ConfigRecord,
    resource_type=st.sampled_from([2, 4, 127, -1]),
    resource_name=texts,
    name=texts,
    value=st.none() | texts,
    unknown_tags=st.sampled_from([(), (), (), ((7, b"tag"),)]),
)
USUAL = ConfigRecord(2, "orders", "retention.ms", "100")


def one_by_one(image: MetadataImage, values: list[bytes]) -> MetadataImage:
    for offset, value in enumerate(values):
        image = apply(image, decode_record(value), offset)
    return image


def in_bulk(image: MetadataImage, values: list[bytes]) -> MetadataImage:
    builder = ImageBuilder(image)
    builder.apply_values(values, 0)
    return builder.image()


def outcome(fold: Callable[[MetadataImage, list[bytes]], MetadataImage], values: list[bytes]) -> object:
    try:
        return fold(EMPTY, values).hash()
    except MalformedError as error:
        return str(error)


@given(st.lists(configs, max_size=20), st.lists(configs | st.just(NoOpRecord()), max_size=40))
def test_any_configs_give_the_same_image_in_bulk(before: list[ConfigRecord], records: list[Record]) -> None:
    image = in_bulk(EMPTY, [encode_record(record) for record in before])
    values = [encode_record(record) for record in records]
    expected, found = one_by_one(image, values), in_bulk(image, values)
    assert found == expected
    assert found.hash() == expected.hash()
    assert list(to_records(found)) == list(to_records(expected))


def test_the_last_of_many_changes_of_a_config_counts_beside_those_of_others() -> None:
    records = [
        ConfigRecord(4, broker, name, f"{n} of {broker} {name}")
        for n in range(300)
        for broker in ("1", "2")
        for name in (f"name{n}", "name")
    ]
    values = [encode_record(record) for record in records]
    last, end = config_runs.last_of_each(values, 0)
    assert (len(last), end) == (602, len(values))
    image = in_bulk(EMPTY, values)
    assert image == one_by_one(EMPTY, values)
    assert image[CONFIGS].get(4, "2", "name") == "299 of 2 name"
    assert list(image[CONFIGS].entries()) == list(one_by_one(EMPTY, values)[CONFIGS].entries())


def test_a_run_ends_before_the_first_record_that_is_not_in_the_usual_form() -> None:
    usual = encode_record(USUAL)
    others = [
        TopicRecord("orders", bytes(16)),
        ConfigRecord(2, "orders", "retention.ms", None),
        ConfigRecord(2, "orders", "retention.ms", "x" * 127),
        ConfigRecord(2, "orders", "retention.ms", "ä"),
        ConfigRecord(2, "orders", "retention.ms", "1", ((3, b"later"),)),
    ]
    for other in others:
        assert config_runs.last_of_each([usual, usual, encode_record(other), usual], 1)[1] == 2, other
    assert config_runs.last_of_each([usual], 1) == ({}, 1)


def test_what_is_cut_is_what_is_decoded() -> None:
    value = encode_record(USUAL)
    assert list(config_runs.last_of_each([value], 0)[0].values()) == [value]
    assert ConfigRecord(*config_runs.decode(value)) == USUAL


@pytest.mark.parametrize("record", [USUAL, ConfigRecord(0, "", "", "")], ids=["usual", "empty"])
def test_whatever_byte_is_wrong_in_bulk_it_is_as_wrong_as_when_decoded(record: ConfigRecord) -> None:
    good = encode_record(record)
    for at in range(len(good)):
        for byte in {*range(10), 0x7F, 0x80, 0xFF, good[at] ^ 1}:
            bad = good[:at] + bytes([byte]) + good[at + 1 :]
            assert outcome(in_bulk, [good, bad, good]) == outcome(one_by_one, [good, bad, good]), (at, byte)
    for bad in (*(good[:end] for end in range(len(good))), good + b"\0", good + good[-4:]):
        assert outcome(in_bulk, [good, bad]) == outcome(one_by_one, [good, bad])
