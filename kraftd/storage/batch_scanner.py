"""Batches of a segment file, one after the other: each is checked as a whole before it is yielded.

Not here: what one that is not sound means (`log_scan`).
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from crc32c import crc32c

from kraftd.errors import CorruptBatchError
from kraftd.records.batch import scan
from kraftd.records.batch_header import HEADER_BYTES
from kraftd.storage.disk import Disk
from kraftd.storage.segment import Head, head_at

WINDOW_BYTES = 1 << 20
_FINGERPRINT = struct.Struct(">qiI")


def sound_batches(disk: Disk, handle: int, path: Path, position: int, end: int) -> Iterator[tuple[Head, int]]:
    """Yield the batches from `position` on, each whole and with a good checksum, which comes with it.

    Raises:
        CorruptBatchError: The bytes at its position are no sound batch; all before were yielded.
    """
    window_bytes = WINDOW_BYTES
    while position < end:
        wanted = min(window_bytes, end - position)
        window = disk.read_around(handle, wanted, position, path)
        walked = 0
        try:
            for view in scan(window, path=str(path)):
                walked += view.size_bytes
                head = Head(
                    view.base_offset, view.last_offset, view.size_bytes, view.epoch, view.max_timestamp
                )
                yield head, view.crc
        except CorruptBatchError as error:
            whole = len(window) == end - position or len(window) < wanted  # the file may end before
            if walked == 0 and (whole or _stated_bytes(window) <= len(window)):
                raise CorruptBatchError(error.reason, position_bytes=position, path=str(path)) from error
            # The window ended inside a batch, or this batch is bad: read it again from its own beginning.
            window_bytes = min(_stated_bytes(window), end - position) if walked == 0 else WINDOW_BYTES
        else:
            window_bytes = WINDOW_BYTES
        if not window:
            raise CorruptBatchError("the file ends too early", position_bytes=position, path=str(path))
        position += walked


def _stated_bytes(window: bytes) -> int:
    """Return the length that the first batch states; 0 if it states none, or an impossible one."""
    if len(window) < HEADER_BYTES:
        return HEADER_BYTES
    size_bytes = head_at(window, 0).size_bytes
    return size_bytes if size_bytes >= HEADER_BYTES else 0


def fingerprint(head: Head, checksum: int, before: int) -> int:
    """Return a checksum over batches and their order, and over their epochs, which their own checksums do not
    cover.
    """
    return crc32c(_FINGERPRINT.pack(head.base_offset, head.epoch, checksum), before)
