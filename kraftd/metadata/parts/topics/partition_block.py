"""A block: up to 32 partitions of a topic with neighbouring ids, packed into one piece of bytes.

The bytes begin with how many slots there are, one byte, and the size of what is in each, four bytes; a
partition that is not there has no bytes. So a partition is found without reading the others, and changing
one copies a few thousand bytes. They never leave the process.
"""

from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from struct import Struct
from typing import Final

BLOCK_BITS: Final = 5
BLOCK_MASK: Final = (1 << BLOCK_BITS) - 1
"""Partition `i` is at `i & BLOCK_MASK` in block `i >> BLOCK_BITS` of its topic."""

_SIZE: Final = Struct("=I")
_SIZES: Final = tuple(Struct(f"={keys}I") for keys in range(BLOCK_MASK + 2))
_SIZES_AT: Final = 1


def packed_block(rows: Mapping[int, bytes]) -> bytes:
    """Pack partitions, given by their slot."""
    values = [rows.get(at, b"") for at in range(max(rows) + 1)]
    keys = len(values)
    return b"".join((bytes((keys,)), _SIZES[keys].pack(*map(len, values)), *values))


def row_at(block: bytes, at: int) -> bytes | None:
    """One partition of a block, None if it is not there."""
    if at >= block[0]:
        return None
    start, end = _bounds(block, at)
    return block[start:end] or None


def with_rows(block: bytes, rows: Mapping[int, bytes]) -> bytes:
    """A block, which may be empty, with other partitions in some of its slots."""
    if len(rows) == 1 and block:
        ((at, row),) = rows.items()
        if at < block[0]:
            return _with_row(block, at, row)
    return packed_block({**dict(rows_of(block)), **rows} if block else rows)


def _with_row(block: bytes, at: int, row: bytes) -> bytes:
    start, end = _bounds(block, at)
    size_at = _SIZES_AT + _SIZE.size * at
    parts = (block[:size_at], _SIZE.pack(len(row)), block[size_at + _SIZE.size : start], row, block[end:])
    return b"".join(parts)


def rows_of(block: bytes) -> Iterator[tuple[int, bytes]]:
    """Every partition of a block with its slot, in order."""
    sizes = _SIZES[block[0]]
    starts = accumulate(sizes.unpack_from(block, _SIZES_AT), initial=_SIZES_AT + sizes.size)
    for at, (start, end) in enumerate(pairwise(starts)):
        if start != end:
            yield at, block[start:end]


def _bounds(block: bytes, at: int) -> tuple[int, int]:
    """Where in a block a slot begins and ends."""
    sizes = _SIZES[at + 1].unpack_from(block, _SIZES_AT)
    end = _SIZES_AT + _SIZE.size * block[0] + sum(sizes)
    return end - sizes[at], end
