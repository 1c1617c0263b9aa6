"""Entries of the `.index` and `.timeindex` files beside a segment (LOG-02).

An offset entry maps the last offset of an append to where that append starts in the segment; a time entry
maps a timestamp to an offset. Both store offsets relative to the segment's base. Files that are in use end
in zeros, which are no entries. Nothing here is checksummed: an index that looks wrong is rebuilt.
"""

import struct
from collections.abc import Sequence

import msgspec

from kraftd.errors import MalformedError
from kraftd.types import Offset

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
INDEX_INTERVAL_BYTES = 4096
"""An entry is added once more than this was appended since the last one."""
INDEX_BYTES_MAX = 10_485_760

_OFFSET = struct.Struct(">ii")
_TIME = struct.Struct(">qi")


class OffsetEntry(msgspec.Struct, frozen=True, gc=False):
    """The last offset of an append, and where in the segment that append starts."""

    offset: Offset
    position: int


class TimeEntry(msgspec.Struct, frozen=True, gc=False):
    """The largest timestamp up to an offset."""

    timestamp_ms: int
    offset: Offset


def encode_offset_entry(entry: OffsetEntry, base_offset: Offset) -> bytes:
    """The eight bytes of one entry."""
    return _OFFSET.pack(entry.offset - base_offset, entry.position)


def encode_time_entry(entry: TimeEntry, base_offset: Offset) -> bytes:
    """The twelve bytes of one entry."""
    return _TIME.pack(entry.timestamp_ms, entry.offset - base_offset)


def decode_offset_index(data: bytes, base_offset: Offset) -> tuple[OffsetEntry, ...]:
    """Every entry before the zeros.

    Raises:
        MalformedError: The file is no whole number of entries, or offsets or positions do not rise.
    """
    _whole(data, OFFSET_ENTRY_BYTES, "index")
    entries = []
    for relative, position in _OFFSET.iter_unpack(data):
        if not relative and not position:
            break
        entries.append(OffsetEntry(base_offset + relative, position))
    _rising("index", [(entry.offset, entry.position) for entry in entries], base_offset)
    return tuple(entries)


def decode_time_index(data: bytes, base_offset: Offset) -> tuple[TimeEntry, ...]:
    """Every entry before the zeros.

    Raises:
        MalformedError: The file is no whole number of entries, or timestamps or offsets do not rise.
    """
    _whole(data, TIME_ENTRY_BYTES, "timeindex")
    entries = []
    for timestamp_ms, relative in _TIME.iter_unpack(data):
        if not timestamp_ms and not relative:
            break
        entries.append(TimeEntry(timestamp_ms, base_offset + relative))
    _rising("timeindex", [(entry.offset, entry.timestamp_ms) for entry in entries], base_offset)
    return tuple(entries)


def _whole(data: bytes, entry_bytes: int, what: str) -> None:
    if len(data) % entry_bytes:
        raise MalformedError(f"{what}: {len(data)} bytes are no whole number of {entry_bytes}-byte entries")


def _rising(what: str, entries: Sequence[tuple[int, int]], base_offset: Offset) -> None:
    before = (base_offset - 1, -1)
    for number, entry in enumerate(entries):
        if entry[0] <= before[0] or entry[1] < before[1]:
            raise MalformedError(f"{what} entry {number}: {entry} comes after {before}")
        before = entry
