"""Only the true beginning of the batch that must come next was being written; everything else is damage."""

import struct

import pytest

from kraftd.errors import CorruptBatchError
from kraftd.logtools.batch_reader import declared_size
from kraftd.logtools.torn import begins_batch
from kraftd.records.batch import encode_batch
from kraftd.records.batch_header import BATCH_BYTES_MAX
from kraftd.records.frame import encode_record
from kraftd.records.messages import ConfigRecord

BATCH = encode_batch(
    2308,
    7,
    1,
    [encode_record(ConfigRecord(resource_type=2, resource_name="t", name=f"key-{n}")) for n in range(3)],
)


def test_every_true_prefix_was_being_written() -> None:
    assert [size for size in range(1, len(BATCH)) if not begins_batch(BATCH[:size], 2308, 7)] == []
    assert begins_batch(BATCH[:70], 2308, 3), "a newer epoch may begin"


def test_a_batch_that_is_all_there_is_not_torn() -> None:
    assert not begins_batch(BATCH, 2308, 7)


@pytest.mark.parametrize(
    ("start", "form", "value"),
    [
        (0, ">q", 2307),
        (0, ">q", 2309),
        (8, ">i", 1 << 30),
        (8, ">i", 3),
        (8, ">i", -5),
        (12, ">i", 6),
        (16, ">b", 1),
        (21, ">h", 1),
        (23, ">i", -1),
        (57, ">i", 4),
    ],
)
def test_a_field_that_cannot_be_makes_it_damage(start: int, form: str, value: int) -> None:
    data = bytearray(BATCH[:-2])
    struct.pack_into(form, data, start, value)
    assert not begins_batch(bytes(data), 2308, 7)


def test_records_that_are_all_there_under_a_length_that_claims_more_are_damage() -> None:
    data = bytearray(BATCH)
    struct.pack_into(">i", data, 8, len(BATCH) - 12 + 40)
    assert not begins_batch(bytes(data), 2308, 7)


def test_a_length_that_no_batch_can_have_is_not_believed_however_long_the_file_is() -> None:
    """As a node does not: both would read the rest of a segment of a gibibyte."""
    head = bytearray(BATCH[:61])
    struct.pack_into(">i", head, 8, BATCH_BYTES_MAX - 12)
    assert declared_size(bytes(head), 0, 1 << 30) == BATCH_BYTES_MAX
    struct.pack_into(">i", head, 8, BATCH_BYTES_MAX - 11)
    with pytest.raises(CorruptBatchError, match="more than one can have"):
        declared_size(bytes(head), 0, 1 << 30)


@pytest.mark.parametrize("data", [b"hello", b"\xff", bytes(20), bytes(4096)])
def test_what_is_no_beginning_at_all_is_damage(data: bytes) -> None:
    assert not begins_batch(data, 2308, 7)
