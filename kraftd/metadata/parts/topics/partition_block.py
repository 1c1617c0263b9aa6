"""A block: up to 32 partitions of a topic with neighbouring ids, packed into one piece of bytes.

The bytes begin with how many slots there are, one byte, and where each begins, four bytes, and where the last
one ends; a partition that is not there has no bytes. So a partition is found without reading the others, and
changing one copies a few thousand bytes. They never leave the process.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from struct import Struct
from typing import Final

BLOCK_BITS: Final = 5
BLOCK_MASK: Final = (1 << BLOCK_BITS) - 1
"""Partition `i` is at `i & BLOCK_MASK` in block `i >> BLOCK_BITS` of its topic."""

_STARTS: Final = tuple(Struct(f"={keys + 1}I") for keys in range(BLOCK_MASK + 2))
"""By how many slots there are, where each begins and the last one ends."""
_STARTS_AT: Final = 1
_START_BYTES: Final = _STARTS[0].size
_BOUNDS: Final = _STARTS[1]
"""Of one slot."""


def packed_block(rows: Mapping[int, bytes]) -> bytes:
    """Pack partitions, given by their slot."""
    return packed_rows([rows.get(at, b"") for at in range(max(rows) + 1)])


def packed_rows(values: Sequence[bytes]) -> bytes:
    """Pack what is in the slots, from the first one on, empty where no partition is."""
    keys = len(values)
    starts = accumulate(map(len, values), initial=_STARTS_AT + _STARTS[keys].size)
    return b"".join((bytes((keys,)), _STARTS[keys].pack(*starts), *values))


def row_at(block: bytes, at: int) -> bytes | None:
    """One partition of a block, None if it is not there."""
    if at >= block[0]:
        return None
    start, end = _BOUNDS.unpack_from(block, _STARTS_AT + _START_BYTES * at)
    return block[start:end] or None


def with_rows(block: bytes, rows: Mapping[int, bytes]) -> bytes:
    """A block, which may be empty, with other partitions in some of its slots."""
    if len(rows) == 1 and block:
        ((at, row),) = rows.items()
        if at < block[0]:
            return _with_row(block, at, row)
    return packed_block({**dict(rows_of(block)), **rows} if block else rows)


def _with_row(block: bytes, at: int, row: bytes) -> bytes:
    starts, starts_at = _STARTS[block[0] - at], _STARTS_AT + _START_BYTES * at
    start, end, *later = starts.unpack_from(block, starts_at)
    longer = start + len(row) - end
    moved = starts.pack(start, *[each + longer for each in (end, *later)])
    first = _STARTS_AT + _STARTS[block[0]].size
    return b"".join((block[:starts_at], moved, block[first:start], row, block[end:]))


def rows_of(block: bytes) -> Iterator[tuple[int, bytes]]:
    """Every partition of a block with its slot, in order."""
    for at, (start, end) in enumerate(pairwise(_STARTS[block[0]].unpack_from(block, _STARTS_AT))):
        if start != end:
            yield at, block[start:end]
