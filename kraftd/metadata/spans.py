"""A span: up to 32 partitions of a topic with neighbouring ids, packed into one piece of bytes.

The bytes begin with where each partition begins and, last, where all end, four bytes each; a partition that
is not there has no bytes. So a partition is found without reading the others, and changing one copies a few
thousand bytes. They never leave the process.
"""

from array import array
from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from struct import Struct
from typing import Final

SPAN_BITS: Final = 5
SPAN_MASK: Final = (1 << SPAN_BITS) - 1
"""Partition `i` is at `i & SPAN_MASK` in span `i >> SPAN_BITS` of its topic."""

_TWO: Final = Struct("=II")
_ENTRY: Final = 4


def packed_span(rows: Mapping[int, bytes]) -> bytes:
    """Pack partitions, given by their place in the span."""
    values = [rows.get(at, b"") for at in range(max(rows) + 1)]
    starts = array("I", accumulate(map(len, values), initial=_ENTRY * (len(values) + 1)))
    return b"".join((starts, *values))


def row_at(span: bytes, at: int) -> bytes | None:
    """One partition of a span, None if it is not there."""
    (heading_bytes,) = array("I", span[:_ENTRY])
    if _ENTRY * at + _TWO.size > heading_bytes:
        return None
    start, end = _TWO.unpack_from(span, _ENTRY * at)
    return span[start:end] or None


def with_rows(span: bytes, rows: Mapping[int, bytes]) -> bytes:
    """A span, which may be empty, with other partitions at some of its places."""
    if len(rows) == 1 and span:
        ((at, row),) = rows.items()
        (heading_bytes,) = array("I", span[:_ENTRY])
        if _ENTRY * at + _TWO.size <= heading_bytes:
            return _with_row(span, heading_bytes, at, row)
    return packed_span({**dict(rows_of(span)), **rows} if span else rows)


def _with_row(span: bytes, heading_bytes: int, at: int, row: bytes) -> bytes:
    starts = array("I", span[:heading_bytes])
    start, end = starts[at], starts[at + 1]
    grown = len(row) - (end - start)
    if grown:
        for later in range(at + 1, len(starts)):
            starts[later] += grown
    return b"".join((starts, span[heading_bytes:start], row, span[end:]))


def rows_of(span: bytes) -> Iterator[tuple[int, bytes]]:
    """Every partition of a span with its place in it, in order."""
    (heading_bytes,) = array("I", span[:_ENTRY])
    starts = array("I", span[:heading_bytes])
    for at, (start, end) in enumerate(pairwise(starts)):
        if start != end:
            yield at, span[start:end]
