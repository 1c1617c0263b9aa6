"""Batches of a segment file, one after the other: each is checked as a whole before it is yielded.

Not here: what one that is not sound means (`log_scan`).
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from crc32c import crc32c

from kraftd.errors import CorruptBatchError
from kraftd.records.batch import BatchView
from kraftd.records.batch_header import (
    BATCH_BYTES_MAX,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    OVERHEAD_BYTES,
    UNSUPPORTED,
)
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
            for found in _heads(window, str(path)):
                walked += found[0].size_bytes
                yield found
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


def _heads(window: bytes, path: str) -> Iterator[tuple[Head, int]]:
    """Check the batches of a window, one after the other.

    What `BatchView` says of each, without one for each: a start may have a million to check.

    Raises:
        CorruptBatchError: The next one is not sound, or the window ends in it.
    """
    view, unpack, end, position = memoryview(window), HEADER.unpack_from, len(window), 0
    while position + HEADER_BYTES <= end:
        base, length, epoch, magic, crc, attributes, delta, _, newest, _, _, _, count = unpack(view, position)
        size_bytes = length + OVERHEAD_BYTES
        after = position + size_bytes
        if (
            HEADER_BYTES <= size_bytes <= end - position
            and magic == MAGIC
            and not attributes & UNSUPPORTED
            and 1 <= count == delta + 1
            and base >= 0 <= epoch
            and crc32c(view[position + CRC_FROM : after]) == crc
        ):
            yield Head(base, base + delta, size_bytes, epoch, newest), crc
            position = after
        else:
            break
    if position < end:
        BatchView(view, position, path).check()  # says what is wrong
        raise CorruptBatchError("the batch is not sound", position_bytes=position, path=path)


def _stated_bytes(window: bytes) -> int:
    """Return the length that the first batch of a whole header states; 0 if it is an impossible one."""
    size_bytes = head_at(window, 0).size_bytes
    # One bit of a length that flips makes megabytes of it: read, they are a start that runs out of memory.
    return size_bytes if HEADER_BYTES <= size_bytes <= BATCH_BYTES_MAX else 0


def fingerprint(head: Head, checksum: int, before: int) -> int:
    """Return a checksum over batches and their order, and over their epochs, which their own checksums do not
    cover.
    """
    return crc32c(_FINGERPRINT.pack(head.base_offset, head.epoch, checksum), before)
