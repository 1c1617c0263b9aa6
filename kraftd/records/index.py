"""Entries of the `.index` and `.timeindex` files beside a segment (LOG-02).

An offset entry maps the last offset of an append to where that append starts in the segment; a time entry
maps a timestamp to an offset. Both store offsets relative to the segment's base. Files that are in use end
in zeros, which are no entries.

Not here: reading them. They are written for Kafka; what we need of them is rebuilt from the segment at every
start (`kraftd.storage.segment_index`).
"""

import struct

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
INDEX_INTERVAL_BYTES = 4096
"""An entry is added once more than this was appended since the last one."""
INDEX_BYTES_MAX = 10_485_760

_OFFSET = struct.Struct(">ii")
_TIME = struct.Struct(">qi")


def encode_offset_entry(relative_offset: int, position: int) -> bytes:
    """The eight bytes of one entry: the last offset of an append, and where the append starts."""
    return _OFFSET.pack(relative_offset, position)


def encode_time_entry(timestamp_ms: int, relative_offset: int) -> bytes:
    """The twelve bytes of one entry: the largest timestamp up to an offset, and that offset."""
    return _TIME.pack(timestamp_ms, relative_offset)
