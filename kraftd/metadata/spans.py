"""A span: up to 32 partitions of a topic with neighbouring ids, packed into one piece of bytes.

The bytes begin with how many places there are, one byte, and the size of what is in each, four bytes; a
partition that is not there has no bytes. So a partition is found without reading the others, and changing
one copies a few thousand bytes. They never leave the process.
"""

from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from struct import Struct
from typing import Final

SPAN_BITS: Final = 5
SPAN_MASK: Final = (1 << SPAN_BITS) - 1
"""Partition `i` is at `i & SPAN_MASK` in span `i >> SPAN_BITS` of its topic."""

_SIZE: Final = Struct("=I")
_SIZES: Final = tuple(Struct(f"={places}I") for places in range(SPAN_MASK + 2))
_SIZES_AT: Final = 1


def packed_span(rows: Mapping[int, bytes]) -> bytes:
    """Pack partitions, given by their place in the span."""
    values = [rows.get(at, b"") for at in range(max(rows) + 1)]
    places = len(values)
    return b"".join((bytes((places,)), _SIZES[places].pack(*map(len, values)), *values))


def row_at(span: bytes, at: int) -> bytes | None:
    """One partition of a span, None if it is not there."""
    if at >= span[0]:
        return None
    start, end = _bounds(span, at)
    return span[start:end] or None


def with_rows(span: bytes, rows: Mapping[int, bytes]) -> bytes:
    """A span, which may be empty, with other partitions at some of its places."""
    if len(rows) == 1 and span:
        ((at, row),) = rows.items()
        if at < span[0]:
            return _with_row(span, at, row)
    return packed_span({**dict(rows_of(span)), **rows} if span else rows)


def _with_row(span: bytes, at: int, row: bytes) -> bytes:
    start, end = _bounds(span, at)
    size_at = _SIZES_AT + _SIZE.size * at
    parts = (span[:size_at], _SIZE.pack(len(row)), span[size_at + _SIZE.size : start], row, span[end:])
    return b"".join(parts)


def rows_of(span: bytes) -> Iterator[tuple[int, bytes]]:
    """Every partition of a span with its place in it, in order."""
    sizes = _SIZES[span[0]]
    starts = accumulate(sizes.unpack_from(span, _SIZES_AT), initial=_SIZES_AT + sizes.size)
    for at, (start, end) in enumerate(pairwise(starts)):
        if start != end:
            yield at, span[start:end]


def _bounds(span: bytes, at: int) -> tuple[int, int]:
    """Where in a span a place begins and ends."""
    sizes = _SIZES[at + 1].unpack_from(span, _SIZES_AT)
    end = _SIZES_AT + _SIZE.size * span[0] + sum(sizes)
    return end - sizes[at], end
