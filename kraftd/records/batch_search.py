"""Where the next batch begins, behind bytes that are none.

A segment has no sync marks: a length that is wrong leads nowhere. What can be looked for is the header of a
batch, 61 bytes whose fields agree with each other. Bytes that are no batch hold such a header once in an age,
so the caller reads and checks the few places that are found.

Entered by `plausible_headers`; all readers of damaged logs do: the recovery, the log tools and the replay.
Not here: whether the batch there is good, and whether it belongs into this log.
"""

import struct
from collections.abc import Callable, Iterator

from kraftd.records.batch import HEADER_BYTES, LENGTH_AT

WINDOW_BYTES = 1 << 20

_HEADER = struct.Struct(">qiibIhi30xi")
_OVERHEAD_BYTES = LENGTH_AT + 4
_MAGIC = 2
_MAGIC_BYTE = bytes([_MAGIC])
_MAGIC_AT = 16
_FOREIGN_BITS = 0x0F
"""Compression and log-append time, which a metadata log does not have."""


def plausible_headers(
    read: Callable[[int, int], bytes], position: int, end: int
) -> Iterator[tuple[int, bytes]]:
    """Every place in a file where a batch may begin that ends inside the file.

    Args:
        read: Gives bytes of the file, by their number and position.
        position: Where to begin.
        end: Where the file ends.

    Yields:
        A position, and the 61 bytes there.
    """
    while position + HEADER_BYTES <= end:
        window = read(min(WINDOW_BYTES, end - position), position)
        last = len(window) - HEADER_BYTES
        at = window.find(_MAGIC_BYTE, _MAGIC_AT) - _MAGIC_AT
        while 0 <= at <= last:
            if _is_plausible(window, at, end - position - at):
                yield position + at, window[at : at + HEADER_BYTES]
            at = window.find(_MAGIC_BYTE, at + _MAGIC_AT + 1) - _MAGIC_AT
        if last < 0:
            return  # the file has become shorter meanwhile
        position += last + 1


def _is_plausible(window: bytes, at: int, room_bytes: int) -> bool:
    base_offset, length, epoch, magic, _, attributes, last_delta, record_count = _HEADER.unpack_from(
        window, at
    )
    return (
        magic == _MAGIC
        and HEADER_BYTES <= length + _OVERHEAD_BYTES <= room_bytes
        and base_offset >= 0
        and epoch >= 0
        and not attributes & _FOREIGN_BITS
        and 0 < record_count == last_delta + 1
    )
