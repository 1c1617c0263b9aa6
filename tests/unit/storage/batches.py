"""Batches for tests: small, checked by the real codec, and told apart by what they hold."""

import struct
from itertools import takewhile

from kraftd.records.batch import encode_batch


def batch(
    base_offset: int, epoch: int = 1, count: int = 1, size_bytes: int = 40, timestamp_ms: int = 1_000
) -> bytes:
    """One batch of `count` records."""
    values = [f"{base_offset + n}@{epoch} ".encode().ljust(size_bytes, b".") for n in range(count)]
    return encode_batch(base_offset, epoch, timestamp_ms, values)


def run_of(base_offset: int, end_offset: int, epoch: int = 1, **kwargs: int) -> list[bytes]:
    """Batches of one record each, from one offset to another."""
    return [batch(offset, epoch, **kwargs) for offset in range(base_offset, end_offset)]


def index_entries(raw: bytes) -> list[tuple[int, ...]]:
    """The entries of an `.index`, up to the zeros: relative offset and position."""
    return list(takewhile(any, struct.iter_unpack(">ii", raw)))


def time_index_entries(raw: bytes) -> list[tuple[int, ...]]:
    """The entries of a `.timeindex`, up to the zeros: timestamp and relative offset."""
    return list(takewhile(any, struct.iter_unpack(">qi", raw)))
