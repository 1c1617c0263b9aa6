"""Reading records in step finds what reading them one by one finds, and leaves alone what it cannot read."""

import struct

import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kraftd.errors import CorruptBatchError
from kraftd.records.batch import BatchView, encode_batch, scan
from kraftd.records.batch_header import HEADER_BYTES
from kraftd.replay.source.headers import read_headers
from kraftd.replay.source.lockstep import PADDING, find_values

VALUES = st.lists(
    st.one_of(st.binary(min_size=1, max_size=12), st.binary(min_size=60, max_size=300)), min_size=1
)


def sealed(batch: bytes) -> bytes:
    """The batch with a checksum that is right for whatever it holds."""
    return batch[:17] + struct.pack(">I", crc32c.crc32c(batch[21:])) + batch[21:]


def log_of(groups: list[list[bytes]]) -> bytes:
    out, offset = [], 0
    for values in groups:
        out.append(encode_batch(offset, 1, 1_700_000_000_000, values))
        offset += len(values)
    return b"".join(out)


def in_step(log: bytes) -> tuple[list[bool], list[bytes]]:
    headers, _ = read_headers(log + PADDING, end=len(log))
    found = find_values(log + PADDING, headers)
    spans = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    return found.regular.tolist(), [log[start:end] for start, end in spans]


@given(st.lists(VALUES, max_size=8))
def test_the_same_values_as_one_by_one(groups: list[list[bytes]]) -> None:
    log = log_of(groups)
    regular, values = in_step(log)
    assert all(regular)
    assert values == [value for batch in scan(log) for value in batch.values()]


@given(groups=st.lists(VALUES, min_size=1, max_size=5), data=st.data())
def test_only_batches_that_read_well_one_by_one_are_taken(
    groups: list[list[bytes]], data: st.DataObject
) -> None:
    log = bytearray(log_of(groups))
    positions = [batch.position for batch in scan(bytes(log))]
    start = data.draw(st.sampled_from(positions))
    batch = BatchView(bytes(log), start)
    at = data.draw(st.integers(start + HEADER_BYTES, start + batch.size_bytes - 1))
    log[at] ^= data.draw(st.integers(1, 255))
    log[start : start + batch.size_bytes] = sealed(bytes(log[start : start + batch.size_bytes]))
    regular, values = in_step(bytes(log))
    expected: list[bytes] = []
    for taken, view in zip(regular, scan(bytes(log)), strict=True):
        try:
            read = view.values()
        except CorruptBatchError:
            assert not taken
        else:
            expected += read if taken else []
    assert values == expected


def test_a_record_too_long_for_a_short_varint_is_left_alone() -> None:
    regular, values = in_step(log_of([[b"x"], [bytes([1]) * (1 << 21)], [b"y"]]))
    assert regular == [True, False, True]
    assert values == [b"x", b"y"]


def test_no_batches_are_no_values() -> None:
    assert in_step(b"") == ([], [])
