"""Where the values of many data batches lie, found by numpy: record i of all batches at once.

A metadata log holds mostly batches of one record, or of a few thousand alike; either way Python's own loop
over records is what costs. Here a step reads one record of every batch that still has one. Only batches as
controllers write them are read (no keys, no headers, one timestamp, checksum known to be good); any other is
left to `kraftd.records.batch`, which is slow and knows everything. Both find the same records.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kraftd.records.batch_header import HEADER_BYTES
from kraftd.replay.source.headers import Headers

Longs: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

RECORD_BYTES_MIN = 8
LANES_MIN = 24
"""A step costs the same for one batch and for hundreds; for fewer than these, one by one is faster."""
SHORT_RECORDS = 16
"""Batches of so few records are read in step, however few batches there are."""
PADDING = bytes(32)
"""Must follow the batches: records that lie about their length are read past the end, and found out after."""

VARINT_BYTES_MAX = 3
"""Enough for a megabyte, zig-zag; a longer record is left to the slow reader."""
NO_KEY = 1
"""The zig-zag varint of -1."""


class Values(NamedTuple):
    """`regular` says which batches were read; the spans are those of their records, batch after batch."""

    regular: Flags
    starts: Longs
    ends: Longs


def find_values(data: bytes, batches: Headers) -> Values:
    """Find the value of every record of these data batches, whose positions are inside `data`.

    Args:
        data: The bytes of the batches, and `PADDING` after them.
        batches: Headers of whole data batches.
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    counts = batches["record_count"].astype(np.int64)
    ends = batches["position"] + batches["size_bytes"]
    regular: Flags = counts * RECORD_BYTES_MIN <= batches["size_bytes"] - HEADER_BYTES
    counts = np.where(regular, counts, 0)
    rows = np.concatenate(([0], np.cumsum(counts)))
    value_starts = np.zeros(int(rows[-1]), dtype=np.int64)
    value_ends = np.zeros(int(rows[-1]), dtype=np.int64)
    at = batches["position"] + HEADER_BYTES
    for index in range(int(counts.max(initial=0))):
        active = np.flatnonzero(counts > index)
        start, end, following, good = _record(raw, at[active], index, ends[active])
        value_starts[rows[active] + index] = start
        value_ends[rows[active] + index] = end
        at[active] = following
        counts[active[~good]] = 0
        regular[active[~good]] = False
    regular &= at == ends
    kept = np.repeat(regular, np.diff(rows))
    return Values(regular, value_starts[kept], value_ends[kept])


def worth_a_step(counts: Longs) -> Flags:
    """Of batches with these numbers of records, those never among the last few that still have some."""
    longest = SHORT_RECORDS
    if len(counts) >= LANES_MIN:
        longest = max(longest, int(np.partition(counts, -LANES_MIN)[-LANES_MIN]))
    worth: Flags = counts <= longest
    return worth


def _record(
    raw: npt.NDArray[np.uint8], at: Longs, index: int, limits: Longs
) -> tuple[Longs, Longs, Longs, Flags]:
    """One record each at these places: where its value is, what follows, and whether it is regular."""
    length, start, good = _zigzag(raw, at)
    end = start + length
    good &= (length > 0) & (end <= limits)
    start, end = np.where(good, start, 0), np.where(good, end, 0)
    offset_delta, key_at, fits = _zigzag(raw, start + 2)
    size, value_at, sized = _zigzag(raw, key_at + 1)
    good &= (
        fits
        & sized
        & (raw[start] == 0)
        & (raw[start + 1] == 0)
        & (offset_delta == index)
        & (raw[key_at] == NO_KEY)
        & (size >= 1)
        & (value_at + size + 1 == end)
        & (raw[end - 1] == 0)
    )
    return value_at, value_at + size, end, good


def _zigzag(raw: npt.NDArray[np.uint8], at: Longs) -> tuple[Longs, Longs, Flags]:
    """Zig-zag varints at these places: their values, what follows, and whether they are short enough."""
    byte = raw[at].astype(np.int64)
    value = byte & 0x7F
    more: Flags = byte >= 0x80
    following = at + 1
    for position in range(1, VARINT_BYTES_MAX):
        if not more.any():
            break
        byte = np.where(more, raw[following], 0).astype(np.int64)
        value |= (byte & 0x7F) << (7 * position)
        following = following + more
        more = byte >= 0x80
    return (value >> 1) ^ -(value & 1), following, ~more
