"""Where the next batch begins, behind bytes that are none.

A segment has no sync marks: a length that is wrong leads nowhere. What can be looked for is the header of a
batch, 61 bytes whose fields agree with each other. Bytes that are no batch hold such a header once in an age,
so the caller reads and checks the few places that are found.

Entered by `plausible_headers`; all readers of damaged logs do: the recovery, the log tools and the replay.
Not here: whether the batch there is good, and whether it belongs into this log.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kraftd.records.batch_header import (
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    OVERHEAD_BYTES,
    layout,
    why_illegal,
)

WINDOW_BYTES = 1 << 20

_HEADER = layout("base_offset", "length", "epoch", "magic", "attributes", "last_offset_delta", "record_count")
_MAGIC_BYTE = bytes([MAGIC])


class _Header(NamedTuple):
    base_offset: int
    length: int
    epoch: int
    magic: int
    attributes: int
    last_offset_delta: int
    record_count: int


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
        at = window.find(_MAGIC_BYTE, MAGIC_AT) - MAGIC_AT
        while 0 <= at <= last:
            if _is_plausible(window, at, end - position - at):
                yield position + at, window[at : at + HEADER_BYTES]
            at = window.find(_MAGIC_BYTE, at + MAGIC_AT + 1) - MAGIC_AT
        if last < 0:
            return  # the file has become shorter meanwhile
        position += last + 1


def _is_plausible(window: bytes, at: int, room_bytes: int) -> bool:
    fields = _HEADER.unpack_from(window, at)
    if not HEADER_BYTES <= fields[1] + OVERHEAD_BYTES <= room_bytes:  # the length: seldom possible, and quick
        return False
    return why_illegal(_Header._make(fields)) is None
