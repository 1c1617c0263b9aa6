"""Reading batches back: by offset, whole, from any thread.

`ReaderView` is what a log was at one moment: its segments, their sizes, its generation. It is captured
on the loop and read in another thread. What is appended meanwhile is past its end. A truncation
meanwhile may put other bytes under it, which is why the one who asked compares generation, epoch and
role again when the answer arrives (D-15); handles of removed segments stay open until the log closes,
so it never reads another file by mistake.

Follows: LOG-05, LOG-06. The first batch is whole even if it is larger than asked.
"""

from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from kraftd.errors import ErrorCode, StorageError
from kraftd.records.index import INDEX_INTERVAL_BYTES
from kraftd.storage.disk import Disk
from kraftd.storage.segment import HEAD_BYTES, Head, Hole, Segment, head_at
from kraftd.storage.segment_index import SegmentIndex
from kraftd.types import Offset

_WINDOW_BYTES = 2 * INDEX_INTERVAL_BYTES
"""From an index entry, the batch that is looked for is seldom further away."""


class OffsetOutOfRangeError(StorageError):
    """The log does not hold this offset: it is below its start or above its end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class DamagedReadError(StorageError):
    """The bytes that held this offset are damaged; another member has them."""

    code = ErrorCode.CORRUPT_MESSAGE


class _Slice(NamedTuple):
    """A segment as it was when the view was captured."""

    base_offset: Offset
    end_offset: Offset
    size_bytes: int
    handle: int
    path: Path
    entries: SegmentIndex
    holes: tuple[Hole, ...]


class ReaderView:
    """A log at one moment, for reading only."""

    __slots__ = ("_bases", "_disk", "_slices", "end_offset", "generation", "start_offset")

    def __init__(
        self, disk: Disk, segments: list[Segment], start_offset: Offset, end_offset: Offset, generation: int
    ) -> None:
        self._disk = disk
        self._slices = [
            _Slice(s.base_offset, s.end_offset, s.size_bytes, s.handle, s.path, s.index, tuple(s.holes))
            for s in segments
        ]
        self._bases = [part.base_offset for part in self._slices]
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.generation = generation

    def read(self, offset: Offset, max_bytes: int) -> bytes:
        """Read whole batches, from the one that holds `offset`, up to `max_bytes` or the segment's end.

        Raises:
            OffsetOutOfRangeError: The log ends before the offset or begins after it.
            DamagedReadError: The offset lies in a damaged part of the log.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} is not in the log, which goes from {self.start_offset} to {self.end_offset}"
            )
        if offset == self.end_offset:
            return b""
        part, position, first = self._locate(offset)
        end = self._end_of(part, position, first.size_bytes, max_bytes)
        return self._disk.read(part.handle, end - position, position, part.path)

    def tail(self, max_bytes: int) -> list[bytes]:
        """The newest batches, oldest first, each by itself: about `max_bytes`, never across damage."""
        newest: list[bytes] = []
        end_offset = self.end_offset
        for part in reversed(self._slices):
            if part.end_offset != end_offset or max_bytes <= 0:
                break
            run_start = part.holes[-1].end_position if part.holes else 0
            start = max(part.entries.boundary_before(max(part.size_bytes - max_bytes, 0)), run_start)
            data = self._disk.read(part.handle, part.size_bytes - start, start, part.path)
            newest[:0] = _split(data)
            if start > 0:
                break
            max_bytes -= len(data)
            end_offset = part.base_offset
        return newest

    def base_of(self, offset: Offset) -> Offset:
        """The base offset of the batch that holds `offset`."""
        return self._locate(offset)[2].base_offset

    def position_of(self, offset: Offset) -> int:
        """Where in its segment the batch that holds `offset` begins."""
        return self._locate(offset)[1]

    def _locate(self, offset: Offset) -> tuple[_Slice, int, Head]:
        part = self._slices[max(bisect_right(self._bases, offset) - 1, 0)]
        if not part.base_offset <= offset < part.end_offset:
            raise self._damaged(part, offset)
        return (part, *self._find(part, offset))

    def _find(self, part: _Slice, offset: Offset) -> tuple[int, Head]:
        """Where the batch that holds `offset` begins, and its head."""
        position = part.entries.position_before(offset - part.base_offset)
        limit = self._run_end(part, position)
        window, start = b"", position
        while position + HEAD_BYTES <= limit:
            if position - start + HEAD_BYTES > len(window):
                start = position
                window = self._disk.read(part.handle, min(_WINDOW_BYTES, limit - start), start, part.path)
                if len(window) < HEAD_BYTES:
                    break
            head = head_at(window, position - start)
            if head.size_bytes < HEAD_BYTES or head.base_offset > offset:
                break
            if head.last_offset >= offset:
                return position, head
            position += head.size_bytes
        raise self._damaged(part, offset)

    def _end_of(self, part: _Slice, position: int, first_bytes: int, max_bytes: int) -> int:
        """The last batch boundary at or before `position + max_bytes`, after one batch at least."""
        run_end = self._run_end(part, position)
        limit = min(position + max_bytes, run_end)
        if limit == run_end:
            return limit
        end = max(position + first_bytes, part.entries.boundary_before(limit))
        window = self._disk.read(part.handle, max(limit - end, 0), end, part.path)
        walked = 0
        while walked + HEAD_BYTES <= len(window):
            size_bytes = head_at(window, walked).size_bytes
            if size_bytes < HEAD_BYTES or walked + size_bytes > len(window):
                break
            walked += size_bytes
        return end + walked

    def _run_end(self, part: _Slice, position: int) -> int:
        """Where the sound bytes that hold `position` end."""
        return next((h.position for h in part.holes if h.position >= position), part.size_bytes)

    def _damaged(self, part: _Slice, offset: Offset) -> DamagedReadError:
        return DamagedReadError(
            f"{part.path}: the batch that held offset {offset} cannot be read; fetch it from another voter"
        )


def _split(data: bytes) -> list[bytes]:
    """Cut bytes into the batches they consist of."""
    batches, position = [], 0
    while position < len(data):
        end = position + head_at(data, position).size_bytes
        batches.append(data[position:end])
        position = end
    return batches
