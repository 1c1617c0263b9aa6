"""Segments that a start takes without reading them, and reading them afterwards (D-23).

A start is to last as long as what is new takes, not as long as the log has become. What a whole snapshot
stands for is needed by nobody here: it is kept for others, who may still fetch it. So the segments that end
at or before the newest snapshot's end, and that were flushed, are taken as they are (`take_covered`), if
names, sizes and `leader-epoch-checkpoint` fit together; whoever reads a batch of them proves it, as ever.
After the start a `SegmentCheck` reads each of them as a whole, a piece at a time in a thread.

Example: node 2 starts with segments that begin at 0, 100 and 200, and a snapshot at 240. It reads the third
alone. Later the check meets a bad byte in the second. Nothing is lost: the snapshot has all that was there.
The log begins at 240 from then on, and a replica that fetches from below loads the snapshot.

What a batch's checksum does not cover is its epoch, and a log whose epochs are wrong would tell followers to
truncate at the wrong offsets. Epochs never descend along a log, so `leader-epoch-checkpoint` is right about
all batches if it is right about the two around each place where it says that an epoch begins: those are read
at the start.

The start writes nothing of its decision. If the process ends before the check does, the next start decides
anew, and takes the same segments, or more.

Entered by `recovery`, and by the log for the check. Not here: when a check runs, and cutting the log in
front of damage (`kraftd.runtime.log_checker`).
Differs: Kafka never reads a segment below its recovery point again.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

from kraftd.errors import CorruptBatchError, StorageError
from kraftd.records.epoch_checkpoint import epoch_of
from kraftd.storage.batch_scanner import sound_batches
from kraftd.storage.damage import REMEDY, Damage
from kraftd.storage.disk import Disk
from kraftd.storage.epoch_checkpoint import EpochCheckpoint, KnownEpochs
from kraftd.storage.log_reader import DamagedReadError, ReaderView
from kraftd.storage.segment import Head, Segment
from kraftd.storage.segment_chain import SegmentChain
from kraftd.storage.segment_index import SegmentIndex, index_paths, stale_index_files, write_index_files
from kraftd.types import EpochEntry, Offset, OffsetAndEpoch

PIECE_BYTES: Final = 1 << 16
"""How much a check reads in one go: a millisecond with one record a batch."""


def take_covered(
    disk: Disk,
    segments: Sequence[Segment],
    snapshots: Sequence[OffsetAndEpoch],
    recovery_point: OffsetAndEpoch | None,
    epochs: Sequence[EpochEntry],
) -> int:
    """Take the segments that need not be read now.

    Args:
        disk: Where they are.
        segments: Oldest first, just opened.
        snapshots: Oldest first; the newest one was proved to be whole.
        recovery_point: The flushed offset and its epoch; None if unknown.
        epochs: The entries of `leader-epoch-checkpoint`.

    Returns:
        How many were taken, from the first on; none unless all fits together.
    """
    if recovery_point is None or not snapshots or not epochs or not segments:
        return 0
    newest, base_offset = snapshots[-1], segments[0].base_offset
    start_offset = next((each.offset for each in snapshots if each.offset >= base_offset), base_offset)
    if epochs[0].start_offset > (start_offset if base_offset else 0):
        return 0
    covered = [
        (segment, later.base_offset)
        for segment, later in pairwise(segments)
        if later.base_offset <= min(newest.offset, recovery_point.offset)
    ]
    if not all(_take(disk, segment, end_offset) for segment, end_offset in covered) or (
        covered and not _epochs_agree(disk, [segment for segment, _ in covered], newest, epochs)
    ):
        for segment, _ in covered:
            _give_back(segment)
        return 0
    return len(covered)


def _take(disk: Disk, segment: Segment, end_offset: Offset) -> bool:
    """Take a segment up to the base offset of the next one. Returns whether its bytes can hold that."""
    segment.is_unread = True
    segment.size_bytes = disk.size(segment.handle, segment.path)
    segment.end_offset = end_offset
    with suppress(StorageError):  # a hint only
        segment.index = SegmentIndex.from_file(disk.read_file(index_paths(segment.path)[0]) or b"")
    return 0 < end_offset - segment.base_offset <= segment.size_bytes


def _give_back(segment: Segment) -> None:
    segment.is_unread = False
    segment.size_bytes = 0
    segment.end_offset = segment.base_offset
    segment.index = SegmentIndex()


def _epochs_agree(
    disk: Disk, segments: list[Segment], newest: OffsetAndEpoch, epochs: Sequence[EpochEntry]
) -> bool:
    """Whether the batches around each beginning of an epoch and of a segment, and the snapshot, say what the
    entries say.
    """
    start_offset, end_offset = segments[0].base_offset, segments[-1].end_offset
    view = ReaderView(disk, segments, start_offset, end_offset, 0, ())
    asked = {each.base_offset for each in segments} | {each.end_offset - 1 for each in segments}
    asked |= {offset for each in epochs for offset in (each.start_offset - 1, each.start_offset)}
    known = KnownEpochs(epochs)
    try:
        return epoch_of(epochs, newest.offset - 1) == newest.epoch and not any(
            not known.agree_to(offset, view.epoch_at(offset))
            for offset in sorted(asked)
            if start_offset <= offset < end_offset
        )
    except DamagedReadError:
        return False


class SegmentCheck:
    """The check of one segment that was taken: made and finished on the loop, `advance` runs in a thread."""

    def __init__(self, disk: Disk, segment: Segment, epochs: Sequence[EpochEntry]) -> None:
        self._disk = disk
        self._epochs = KnownEpochs(epochs)
        self._last_epoch = 0
        self._size_bytes = segment.size_bytes
        self._read = Segment(segment.base_offset, segment.path, segment.handle)
        self._retried_at = -1
        self._batches = self._from_here()
        self._stale: list[tuple[Path, bytes]] = []
        self.segment = segment
        self.end_offset = segment.end_offset
        """The base offset of the next segment."""
        self.damage: Damage | None = None
        """What is wrong with it, once `advance` has returned True; None if it is sound."""
        segment.pins.count += 1

    def advance(self, size_bytes: int = PIECE_BYTES) -> bool:
        """Read on, at least so many bytes. Returns whether that was the last of it."""
        position = self._read.size_bytes
        try:
            for head, _ in self._batches:
                self._accept(head)
                if self._read.size_bytes - position >= size_bytes:
                    break
        except CorruptBatchError as error:
            # Once more: a disk may fail once to read a page that is there. What is bad twice is damage.
            if self._retried_at == self._read.size_bytes:
                self._found(error.reason)
                return True
            self._retried_at = self._read.size_bytes
            self._batches = self._from_here()
            return False
        if self._read.size_bytes < self._size_bytes:
            return False
        if self._read.end_offset != self.end_offset:
            self._found(f"the offsets up to {self.end_offset} are missing")
        else:
            self._compare_index()
        return True

    def finish(self, *, is_needed: bool) -> None:
        """End the check, and let go of the file. A segment that is sound and still needed counts as read.

        Raises:
            StorageFailure: Its index files were wrong, and the disk refused to have them written.
        """
        segment, read = self.segment, self._read
        segment.pins.count -= 1
        if not is_needed or self.damage is not None:
            return
        write_index_files(self._disk, self._stale)
        segment.index, segment.is_unread = read.index, False
        segment.first_timestamp_ms, segment.max_timestamp_ms = read.first_timestamp_ms, read.max_timestamp_ms
        segment.max_timestamp_offset = read.max_timestamp_offset

    def _from_here(self) -> Iterator[tuple[Head, int]]:
        read = self._read
        return sound_batches(self._disk, read.handle, read.path, read.size_bytes, self._size_bytes)

    def _accept(self, head: Head) -> None:
        read, wrong = self._read, ""
        if head.base_offset != read.end_offset:
            wrong = f"the batch says offset {head.base_offset} where {read.end_offset} must come"
        elif not self._epochs.agree_to(head.base_offset, head.epoch):
            wrong = self._epochs.why(head.base_offset, head.epoch)
        elif head.epoch < self._last_epoch:
            wrong = f"the batch says epoch {head.epoch} after epoch {self._last_epoch}"
        if wrong:
            raise CorruptBatchError(wrong, position_bytes=read.size_bytes, path=str(read.path))
        self._last_epoch = head.epoch
        read.add_batch(head)

    def _found(self, reason: str) -> None:
        read = self._read
        self.damage = Damage(
            file=str(read.path),
            position_bytes=read.size_bytes,
            offset=read.end_offset,
            end_offset=self.end_offset,
            text=reason,
            action=REMEDY,
        )

    def _compare_index(self) -> None:
        try:
            self._stale = stale_index_files(self._disk, self._read.path, self._read.sealed_index())
        except StorageError:
            self._stale = []


class UnreadSegments:
    """The segments of a log that were taken and not read since. On the loop."""

    def __init__(self, disk: Disk, chain: SegmentChain, epochs: EpochCheckpoint) -> None:
        self._disk = disk
        self._chain = chain
        self._epochs = epochs

    def next_check(self) -> SegmentCheck | None:
        """Return the check of the oldest of them, which is to be run and then given to `finish`; None if all
        were read.
        """
        segment = next((each for each in self._chain.segments if each.is_unread), None)
        return None if segment is None else SegmentCheck(self._disk, segment, self._epochs.entries)

    def is_needed(self, check: SegmentCheck) -> bool:
        """Whether the segment that is checked is still one of the log, which may have been cut or truncated
        meanwhile: then what is read is not the log any more.
        """
        return any(each is check.segment for each in self._chain.segments)

    def finish(self, check: SegmentCheck) -> Damage | None:
        """Note what a check has found, if anything. Returns the damage, if the segment is needed."""
        is_needed = self.is_needed(check)
        check.finish(is_needed=is_needed)
        return check.damage if is_needed else None
