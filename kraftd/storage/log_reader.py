"""Reading batches back: by offset, whole, from any thread.

`ReaderView` is what a log was at one moment: its segments, their sizes, its generation. It is captured on the
loop and read in another thread. What is appended meanwhile is past its end. A truncation meanwhile may put
other bytes under it, which is why the caller compares generation, epoch and state again when the result
arrives (D-15). Whoever takes it to another thread pins its files before, and releases them on the loop
afterwards: the handle of a removed segment stays open so long, and no read meets another file by mistake
(D-22).

A disk may lose what it had at the opening. So every batch returned here was checked: its checksum, and what
no checksum covers, its offset and its epoch. The batches before a bad one are returned; a read that begins
with one raises, with the damage in the same words as an opening (D-06). What the opening found is not
reported again.

Follows: LOG-05, LOG-06. The first batch is whole even if it is larger than asked.
"""

from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from kraftd.errors import CorruptBatchError, ErrorCode, StorageError
from kraftd.records import names
from kraftd.records.batch import scan
from kraftd.records.batch_header import BATCH_BYTES_MAX
from kraftd.records.epoch_checkpoint import epoch_of
from kraftd.records.index import INDEX_INTERVAL_BYTES
from kraftd.storage.batch_scanner import sound_batches
from kraftd.storage.damage import REMEDY, Damage
from kraftd.storage.disk import Disk
from kraftd.storage.removal import Pins
from kraftd.storage.segment import HEAD_BYTES, Head, Hole, Segment, head_at
from kraftd.storage.segment_index import SegmentIndex
from kraftd.types import Epoch, EpochEntry, Offset

_WINDOW_BYTES = 2 * INDEX_INTERVAL_BYTES
"""How much is read from an index entry on: the batch that holds an offset is seldom further away."""


class OffsetOutOfRangeError(StorageError):
    """The log does not hold this offset: it is below its start or above its end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class DamagedReadError(StorageError):
    """The bytes that held this offset are damaged; another node has them."""

    code = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, text: str, damage: Damage | None = None) -> None:
        super().__init__(text)
        self.damage = damage
        """The damage; None if the opening has reported it already."""


class _CapturedSegment(NamedTuple):
    """A segment as it was when the view was captured."""

    base_offset: Offset
    end_offset: Offset
    size_bytes: int
    handle: int
    path: Path
    entries: SegmentIndex
    holes: tuple[Hole, ...]
    pins: Pins
    is_unread: bool


class ReaderView:
    """A log at one moment, for reading only."""

    __slots__ = ("_bases", "_disk", "_epochs", "_segments", "end_offset", "generation", "start_offset")

    def __init__(
        self,
        disk: Disk,
        segments: list[Segment],
        start_offset: Offset,
        end_offset: Offset,
        generation: int,
        epochs: tuple[EpochEntry, ...],
    ) -> None:
        self._disk = disk
        self._segments = [
            _CapturedSegment(
                s.base_offset,
                s.end_offset,
                s.size_bytes,
                s.handle,
                s.path,
                s.index,
                tuple(s.holes),
                s.pins,
                s.is_unread,
            )
            for s in segments
        ]
        self._bases = [segment.base_offset for segment in self._segments]
        # The epochs of a log with holes are partly inferred.
        self._epochs = () if any(segment.holes for segment in self._segments) else epochs
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.generation = generation

    def pin(self) -> "ReaderView":
        """Keep the files open until `release`; on the loop. Returns itself."""
        for segment in self._segments:
            segment.pins.count += 1
        return self

    def release(self) -> None:
        """Let go of the files, once for each `pin`; on the loop."""
        for segment in self._segments:
            segment.pins.count -= 1

    def read(self, offset: Offset, max_bytes: int) -> bytes:
        """Read whole batches, from the one that holds `offset`, up to `max_bytes` or the segment's end.

        All of them are sound. They may be fewer, if a bad one comes after them.

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
        try:
            return self._read_sound(offset, max_bytes)
        except DamagedReadError as error:
            if error.damage is None:
                raise
        # Once more: a disk may fail once to read a page that is there. What is bad twice is damage.
        return self._read_sound(offset, max_bytes)

    def tail(self, max_bytes: int) -> list[bytes]:
        """Return the newest batches, oldest first, each by itself: about `max_bytes`, never across damage or
        from a segment that was not read yet.
        """
        newest: list[bytes] = []
        end_offset = self.end_offset
        for segment in reversed(self._segments):
            if segment.end_offset != end_offset or max_bytes <= 0 or segment.is_unread:
                break
            sound_start = segment.holes[-1].end_position if segment.holes else 0
            start = max(segment.entries.boundary_before(max(segment.size_bytes - max_bytes, 0)), sound_start)
            data = self._disk.read(segment.handle, segment.size_bytes - start, start, segment.path)
            newest[:0] = [
                batch for batch in _split(data) if head_at(batch, 0).base_offset >= self.start_offset
            ]
            if start > 0:
                break
            max_bytes -= len(data)
            end_offset = segment.base_offset
        return newest

    def base_of(self, offset: Offset) -> Offset:
        """Return the base offset of the batch that holds `offset`.

        Raises:
            DamagedReadError: That batch is not sound.
        """
        return self._locate_sound(offset)[1].base_offset

    def epoch_at(self, offset: Offset) -> Epoch:
        """Return the epoch that the batch with this offset says it has.

        Raises:
            DamagedReadError: There is no such batch.
        """
        return self._locate(offset)[2].epoch

    def position_of(self, offset: Offset) -> int:
        """Return the byte of its segment at which the batch that holds `offset` begins.

        Raises:
            DamagedReadError: That batch is not sound.
        """
        return self._locate_sound(offset)[0]

    def heads_before(self, end_offset: Offset, start: int, end: int) -> list[Head]:
        """Return the heads of the batches between two bytes of the segment that ends, or is truncated, at
        `end_offset`.

        Raises:
            DamagedReadError: One of them is not sound.
        """
        segment = self._segments[max(bisect_right(self._bases, end_offset - 1) - 1, 0)]
        try:
            return [head for head, _ in sound_batches(self._disk, segment.handle, segment.path, start, end)]
        except CorruptBatchError:
            raise self._damaged(segment, end_offset - 1) from None

    def _read_sound(self, offset: Offset, max_bytes: int) -> bytes:
        segment, position, first = self._locate(offset)
        if first.size_bytes > BATCH_BYTES_MAX:
            raise self._damaged(segment, offset)
        end = self._end_of(segment, position, first.size_bytes, max_bytes)
        data = self._disk.read_around(segment.handle, end - position, position, segment.path)
        sound, next_offset = 0, first.base_offset
        try:
            for batch in scan(data):
                if self._misfit(batch.base_offset, batch.epoch, next_offset):
                    break
                sound += batch.size_bytes
                next_offset = batch.end_offset
        except CorruptBatchError:
            pass  # the sound batches before it are returned; a read that begins here raises
        if not sound:
            raise self._damaged(segment, offset)
        return data[:sound]

    def _misfit(self, base_offset: Offset, epoch: Epoch, next_offset: Offset) -> str:
        """Return why a batch with a good checksum cannot be the one written here; empty if it can."""
        if base_offset != next_offset:
            return f"the batch says offset {base_offset} where {next_offset} must come"
        known = epoch_of(self._epochs, base_offset)
        if known not in {0, epoch}:
            return f"the batch says epoch {epoch} where {names.EPOCH_CHECKPOINT} says {known}"
        return ""

    def _locate(self, offset: Offset) -> tuple[_CapturedSegment, int, Head]:
        segment = self._segments[max(bisect_right(self._bases, offset) - 1, 0)]
        if not segment.base_offset <= offset < segment.end_offset:
            raise self._damaged(segment, offset)
        return (segment, *self._find(segment, offset))

    def _locate_sound(self, offset: Offset) -> tuple[int, Head]:
        """As `_locate`, for a truncation, which goes back before no offset on the word of a head without its
        checksum. A batch that begins at the offset goes whole, be it sound or not.

        Node 1 truncates to 704, which is a boundary. The head at 698 has gone bad and says that its batch
        goes on for thousands of offsets: believed, it would cost node 1 the committed records from 698 on.
        """
        segment, position, head = self._locate(offset)
        if head.base_offset == offset:
            return position, head
        try:
            next(
                sound_batches(self._disk, segment.handle, segment.path, position, position + head.size_bytes)
            )
        except CorruptBatchError:
            raise self._damaged(segment, offset) from None
        return position, head

    def _find(self, segment: _CapturedSegment, offset: Offset) -> tuple[int, Head]:
        """Return the position of the batch that holds `offset`, and its head."""
        next_offset, position = self._start_before(segment, offset)
        limit = self._sound_end(segment, position)
        window, start = b"", position
        while position + HEAD_BYTES <= limit:
            if position - start + HEAD_BYTES > len(window):
                start = position
                window = self._disk.read_around(
                    segment.handle, min(_WINDOW_BYTES, limit - start), start, segment.path
                )
                if len(window) < HEAD_BYTES:
                    break
            head = head_at(window, position - start)
            if head.size_bytes < HEAD_BYTES or head.base_offset != next_offset:
                break
            if head.last_offset >= offset:
                return position, head
            position += head.size_bytes
            next_offset = head.last_offset + 1
        raise self._damaged(segment, offset)

    def _start_before(self, segment: _CapturedSegment, offset: Offset) -> tuple[Offset, int]:
        """Return base offset and position of a batch at or before this offset, as near as is known."""
        relative_offset = offset - segment.base_offset
        if not segment.is_unread:
            base, position = segment.entries.entry_before(relative_offset)
            return segment.base_offset + base, position
        # An index file may be stale after a crash: what it says is believed if a batch there says so, too.
        last, position = segment.entries.hint_before(relative_offset)
        data = self._disk.read_around(segment.handle, HEAD_BYTES, position, segment.path)
        if len(data) == HEAD_BYTES:
            head = head_at(data, 0)
            if segment.base_offset <= head.base_offset <= head.last_offset == segment.base_offset + last:
                return head.base_offset, position
        return segment.base_offset, 0

    def _end_of(self, segment: _CapturedSegment, position: int, first_bytes: int, max_bytes: int) -> int:
        """Return the last batch boundary at or before `position + max_bytes`, at least one batch further."""
        sound_end = self._sound_end(segment, position)
        limit = min(position + max_bytes, sound_end)
        if limit == sound_end:
            return limit
        end = min(max(position + first_bytes, segment.entries.boundary_before(limit)), sound_end)
        window = self._disk.read_around(segment.handle, max(limit - end, 0), end, segment.path)
        walked = 0
        while walked + HEAD_BYTES <= len(window):
            size_bytes = head_at(window, walked).size_bytes
            if size_bytes < HEAD_BYTES or walked + size_bytes > len(window):
                break
            walked += size_bytes
        return end + walked

    def _sound_end(self, segment: _CapturedSegment, position: int) -> int:
        """Return where the sound bytes that hold `position` end."""
        return next((h.position for h in segment.holes if h.position >= position), segment.size_bytes)

    def _damaged(self, segment: _CapturedSegment, offset: Offset) -> DamagedReadError:
        damage = self._diagnose(segment, offset)
        if damage is not None:
            return DamagedReadError(str(damage), damage)
        return DamagedReadError(
            f"{segment.path}: the batch that held offset {offset} cannot be read; fetch it from another voter"
        )

    def _diagnose(self, segment: _CapturedSegment, offset: Offset) -> Damage | None:
        """Return the first damage on the way to an offset; None if the opening has reported it."""
        is_here = segment.base_offset <= offset < segment.end_offset
        if not is_here or any(hole.offset <= offset < hole.end_offset for hole in segment.holes):
            return None
        next_offset, position = self._start_before(segment, offset)
        end = self._sound_end(segment, position)
        reason = ""
        try:
            for head, _ in sound_batches(self._disk, segment.handle, segment.path, position, end):
                reason = self._misfit(head.base_offset, head.epoch, next_offset)
                if reason or head.last_offset >= offset:
                    break
                position += head.size_bytes
                next_offset = head.last_offset + 1
            if not reason and position == end:
                reason = f"the offsets up to {segment.end_offset} are missing"
        except CorruptBatchError as error:
            reason = error.reason
        return Damage(
            file=str(segment.path),
            position_bytes=position,
            offset=next_offset,
            end_offset=next_offset,
            text=reason or "reading the same bytes again gave other bytes",
            action=REMEDY,
        )


def _split(data: bytes) -> list[bytes]:
    """Cut bytes into the batches they consist of."""
    batches, position = [], 0
    while position < len(data):
        end = position + head_at(data, position).size_bytes
        batches.append(data[position:end])
        position = end
    return batches
