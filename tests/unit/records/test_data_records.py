"""The values of data records are the same whether all of a batch are read at once or one by one."""

import random

import pytest

from kraftd.errors import MalformedError
from kraftd.records.batch import encode_batch
from kraftd.records.batch_header import HEADER_BYTES
from kraftd.records.data_records import data_values, usual_values


def at_once(data, count):
    """What all at once gives; where it gives nothing, one by one has to."""
    values = usual_values(data, count)
    return one_by_one(data, count) if values is None else values


def one_by_one(data, count):
    try:
        return list(data_values(data, count))
    except (MalformedError, IndexError) as error:
        return type(error), str(error)


def batch_of(rng, count, sizes=(1, 2, 20, 57, 58, 59, 60, 61, 62, 63, 64, 65, 113, 120, 4_000)):
    values = [rng.randbytes(rng.choice(sizes)) for _ in range(count)]
    return values, encode_batch(5, 7, 1_000, values)


@pytest.mark.covers("REC-04")
@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 130, 1_024])
def test_all_at_once_are_those_that_were_written(count):
    values, data = batch_of(random.Random(count), count)
    assert usual_values(data, count) == values == one_by_one(data, count)


@pytest.mark.parametrize(("count", "size"), [(1_025, 9), (3, 4_097)])
def test_more_records_or_larger_values_are_read_one_by_one(count, size):
    values, data = batch_of(random.Random(1), count, [size])
    assert usual_values(data, count) is None
    assert one_by_one(data, count) == values


@pytest.mark.covers("REC-04")
@pytest.mark.parametrize("count", [3, 70])
def test_no_byte_around_a_value_can_be_another(count):
    """Whatever is wrong, the same is said of the same record."""
    rng = random.Random(count)
    _, data = batch_of(rng, count, [30, 70])
    for at in range(HEADER_BYTES, len(data)):
        for byte in {0, 1, 2, 0x3C, 0x7F, 0x80, 0xFF, data[at] ^ 1} if count < 10 else {0x80, data[at] ^ 2}:
            bad = data[:at] + bytes([byte]) + data[at + 1 :]
            assert at_once(bad, count) == one_by_one(bad, count)
    for end in range(HEADER_BYTES, len(data)):
        assert at_once(data[:end], count) == one_by_one(data[:end], count)
    for bad in (data + b"\0", data + data[HEADER_BYTES:]):
        assert at_once(bad, count) == one_by_one(bad, count)
    for wrong in (0, count - 1, count + 1, 2 * count):
        assert at_once(data, wrong) == one_by_one(data, wrong)


def test_a_length_in_more_bytes_than_it_needs_is_still_one():
    data = bytearray(encode_batch(0, 0, 0, [b"abc"]))
    data[HEADER_BYTES : HEADER_BYTES + 1] = bytes((data[HEADER_BYTES] | 0x80, 0x80, 0))
    assert at_once(bytes(data), 1) == one_by_one(bytes(data), 1)
