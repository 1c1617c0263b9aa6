"""Reads all segments of a log once, and decides whether a bad byte is torn or damaged (D-04, D-05).

A crash can only take what no flush had covered. So a bad or missing byte at or above the recovery point is
*torn*: it and whatever follows is to be cut, with a warning. Below the recovery point it is *damage*: the
disk lost what it had flushed. Damage is never cut; the sound batches after it stay, the hole is remembered,
and other nodes have the bytes.

Example: node 2 has flushed up to 20 when its power fails. A bad byte in record 22 was never acknowledged: the
log is cut at 22. A bad byte in record 12 was: node 1 may count on node 2 for it. If node 2 cut its log at 12,
it could vote for a node without records 12 to 19, which are committed. So it keeps those it has, and does not
count.

Without a recovery point (another program wrote the directory) only the end of the last segment can be
torn, and only if no sound batch follows; everything else is damage.

A batch's checksum does not cover its epoch, so the epochs are compared with those of
`leader-epoch-checkpoint`, if they are given.

Entered by `LogScan.run`, which changes nothing. Not here: cutting what is torn, and reading it again
(`recovery`).
"""

from pathlib import Path
from typing import NamedTuple

from kraftd.errors import CorruptBatchError, StorageError
from kraftd.records.batch_header import HEADER_BYTES
from kraftd.records.batch_search import plausible_headers
from kraftd.storage.batch_scanner import fingerprint, sound_batches
from kraftd.storage.damage import REMEDY, Damage
from kraftd.storage.disk import Disk
from kraftd.storage.epoch_checkpoint import KnownEpochs, with_entry
from kraftd.storage.segment import Head, Segment, head_at
from kraftd.types import Epoch, EpochEntry, Offset, OffsetAndEpoch


class Recovered(NamedTuple):
    """The content of the segments."""

    segments: list[Segment]
    end_offset: Offset
    """The offset of the next batch. Above the last segment's own end if that is damaged."""
    epochs: tuple[EpochEntry, ...]
    damage: tuple[Damage, ...]
    torn: tuple[str, ...]
    """What was cut, or would have been by an opening that may write: one line each."""
    notes: tuple[str, ...] = ()
    """What was repaired and is no loss: one line each."""


class LogScan:
    """One pass over all segments, oldest first, with the offset that must come next."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        segments: list[Segment],
        recovery_point: OffsetAndEpoch | None,
        checkpoint_epochs: tuple[EpochEntry, ...],
        wrong_epoch_at: Offset = -1,
        unread: int = 0,
    ) -> None:
        self._disk = disk
        self._known_epochs = KnownEpochs(checkpoint_epochs)
        self._sure_to: Offset = 0
        self._unread = unread
        """So many segments, from the first on, are taken as they are: the scan begins behind them."""
        self._wrong_epoch_at = wrong_epoch_at
        """The batch whose epoch is known to be wrong."""
        self.disagreeing: list[Offset] = []
        """The batches whose epoch is not that of `leader-epoch-checkpoint`."""
        self.notes: tuple[str, ...] = ()
        self._directory = directory
        self._recovery_point = recovery_point
        self.segments = segments
        self._next: Offset = segments[unread].base_offset if segments else 0
        self._epochs = tuple(
            entry for entry in checkpoint_epochs if unread and entry.start_offset < self._next
        )
        self._epoch: Epoch = self._epochs[-1].epoch if self._epochs else 0
        self._damage: list[Damage] = []
        self._torn: list[str] = []
        self._unreadable_end: tuple[Path, int, str] | None = None
        """A damaged part up to the end of its segment: the next segment shows which offsets it held."""
        self.kept = len(segments)
        """How many segments stay; the later ones are cut off."""
        self.resized: Segment | None = None
        """The segment whose end is cut off."""
        self.unflushed_from: tuple[int, int] | None = None if recovery_point is not None else (0, 0)
        """Where the bytes begin that may never have been flushed: number of the segment, and position in it.
        None while all that was scanned had been flushed.
        """
        self.fingerprint = 0
        """The fingerprint of the batches from there on."""

    def run(self) -> None:
        """Check every batch."""
        for number, segment in enumerate(self.segments):
            if number < self._unread:
                continue
            if segment.base_offset != self._next and not self._check_gap(number, segment):
                return
            self._report_unreadable_end(self._next)
            if not self._scan_segment(number, segment):
                return
        self._report_missing_end("the log ends here, but it had been flushed up to offset")

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found but perhaps a torn end."""
        return not self._damage and not self.disagreeing

    def result(self) -> Recovered:
        """Return what was found."""
        return Recovered(
            self.segments[: self.kept],
            self._next,
            self._epochs,
            tuple(self._damage),
            tuple(self._torn),
            self.notes,
        )

    # -- one segment ---------------------------------------------------------------------------

    def _scan_segment(self, number: int, segment: Segment) -> bool:
        """Check one segment; return False if the log is cut in it."""
        end = self._disk.size(segment.handle, segment.path)
        while segment.size_bytes < end:
            self._record_unflushed(number, segment)
            try:
                for head, checksum in sound_batches(
                    self._disk, segment.handle, segment.path, segment.size_bytes, end
                ):
                    if (
                        head.base_offset != self._next
                        or head.epoch != self._epoch
                        or self._next >= self._sure_to
                    ):
                        self._check_order(head, segment)
                    self._accept(number, segment, head, checksum)
            except CorruptBatchError as error:
                if not self._handle_bad_bytes(number, segment, end, error.reason):
                    return False
        self._record_unflushed(number, segment)
        return True

    def _check_order(self, head: Head, segment: Segment) -> None:
        """Refuse a batch that cannot be the next one; note up to where batches of its epoch need no look."""
        wrong, sure_to = None, 0
        if head.base_offset != self._next:
            wrong = f"the batch says offset {head.base_offset} where {self._next} must come"
        elif not (sure_to := self._known_epochs.agree_to(head.base_offset, head.epoch)):
            if head.base_offset == self._wrong_epoch_at:
                wrong = self._known_epochs.why(head.base_offset, head.epoch)
            self.disagreeing.append(head.base_offset)
        elif head.epoch < self._epoch:
            wrong = f"the batch says epoch {head.epoch} after epoch {self._epoch}"
        self._sure_to = sure_to
        if wrong is not None:
            raise CorruptBatchError(wrong, position_bytes=segment.size_bytes, path=str(segment.path))

    def _accept(self, number: int, segment: Segment, head: Head, checksum: int) -> None:
        if self.unflushed_from is not None:
            self.fingerprint = fingerprint(head, checksum, self.fingerprint)
        if head.epoch > self._epoch or not self._epochs:
            self._epochs = with_entry(self._epochs, head.epoch, head.base_offset)
            self._epoch = head.epoch
        segment.add_batch(head)
        self._next = head.last_offset + 1
        if self.unflushed_from is None:
            self._record_unflushed(number, segment)

    def _record_unflushed(self, number: int, segment: Segment) -> None:
        if (
            self.unflushed_from is None
            and self._recovery_point is not None
            and self._next >= self._recovery_point.offset
        ):
            self.unflushed_from = (number, segment.size_bytes)

    # -- torn or damaged -----------------------------------------------------------------------

    def _handle_bad_bytes(self, number: int, segment: Segment, end: int, reason: str) -> bool:
        """Decide whether the bytes after the accepted batches are torn or damaged; return False if the log is
        cut there.
        """
        position = segment.size_bytes
        if self._recovery_point is not None and self._next >= self._recovery_point.offset:
            self._mark_torn(number, segment, position, reason)
            return False
        found = self._next_sound(segment, position + 1, end)
        if self._recovery_point is None and found is None and self._nothing_after(number):
            self._mark_torn(number, segment, position, reason)
            return False
        if found is None:
            self._unreadable_end = (segment.path, position, reason)
            segment.skip_damage(position, end, None)
            return True
        resume_position, resume = found
        # Offsets up to 18 were flushed. The batches from 10 on are bad, and the next sound one begins at 22:
        # offsets 10 to 17 are lost, which is damage. Those from 18 on may never have been written, so the log
        # ends at 18.
        if self._recovery_point is not None and resume.base_offset > self._recovery_point.offset:
            self._report(segment.path, position, self._recovery_point.offset, reason)
            segment.skip_damage(position, resume_position, None)
            self._next = self._recovery_point.offset
            self._mark_torn(number, segment, resume_position, "unflushed batches follow a damaged part")
            return False
        self._report(segment.path, position, resume.base_offset, reason)
        segment.skip_damage(position, resume_position, resume)
        self._next = segment.end_offset = resume.base_offset
        return True

    def _check_gap(self, number: int, segment: Segment) -> bool:
        """Decide about a segment that does not begin where the one before ends; return False if it is cut
        off.
        """
        if segment.base_offset < self._next:
            raise StorageError(
                f"{segment.path}: begins at offset {segment.base_offset}, but the segment before it ends at "
                f"{self._next}: two histories are mixed in one directory; restore it from a backup or "
                "format it anew"
            )
        before = self.segments[number - 1]
        recovery_point = self._recovery_point
        # The log rolled at offset 20 while records 15 to 19 were not flushed, and the power failed: the first
        # file ends at 15, and the next begins at 20. Nothing above the recovery point was acknowledged: the
        # later file is removed.
        torn = self._next >= recovery_point.offset if recovery_point is not None else self._empty_from(number)
        if not torn and recovery_point is not None and segment.base_offset > recovery_point.offset:
            self._report_missing_end("the log has a gap here, but it had been flushed up to offset")
            torn = True
        if torn:
            self._torn.append(
                f"{segment.path}: removed with all later segments: "
                f"nothing leads from offset {self._next} to its base"
            )
            self.kept = number
            return False
        if not self._report_unreadable_end(segment.base_offset):
            reason = f"the offsets up to {segment.base_offset} are missing"
            self._report(before.path, before.size_bytes, segment.base_offset, reason)
        self._next = segment.base_offset
        return True

    def _report_missing_end(self, reason: str) -> None:
        """Report the offsets between here and the recovery point as damage."""
        recovery_point = self._recovery_point
        if recovery_point is None or self._next >= recovery_point.offset:
            return
        if not self._report_unreadable_end(recovery_point.offset):
            last = self.segments[self.kept - 1] if self.segments else None
            path, position = (last.path, last.size_bytes) if last is not None else (self._directory, 0)
            self._report(path, position, recovery_point.offset, f"{reason} {recovery_point.offset}")
        self._next = recovery_point.offset

    def _report_unreadable_end(self, end_offset: Offset) -> bool:
        """Report the damaged end of a segment, now that the next offset is known."""
        if self._unreadable_end is None:
            return False
        path, position, reason = self._unreadable_end
        self._report(path, position, end_offset, reason)
        self._unreadable_end = None
        return True

    def _mark_torn(self, number: int, segment: Segment, position: int, reason: str) -> None:
        self._torn.append(
            f"{segment.path}: torn, dropped from byte {position} (offset {self._next}) on: {reason}"
        )
        self.kept = number + 1
        segment.size_bytes = position
        self.resized = segment
        if self.unflushed_from is None:
            self.unflushed_from = (number, position)

    def _report(self, path: Path, position: int, end_offset: Offset, reason: str) -> None:
        self._damage.append(
            Damage(
                file=str(path),
                position_bytes=position,
                offset=self._next,
                end_offset=end_offset,
                text=reason,
                action=REMEDY,
            )
        )

    def _nothing_after(self, number: int) -> bool:
        return self._empty_from(number + 1)

    def _empty_from(self, number: int) -> bool:
        return all(self._disk.size(s.handle, s.path) == 0 for s in self.segments[number:])

    def _next_sound(self, segment: Segment, position: int, end: int) -> tuple[int, Head] | None:
        """Return the first sound batch from `position` on that can belong to this log; None if there is none.

        The checksum does not cover the base offset. It is accepted only if the skipped bytes could have held
        the offsets in between: at least one, and each took more than one byte.
        """
        bad_position = segment.size_bytes

        def read(size_bytes: int, at: int) -> bytes:
            return self._disk.read_around(segment.handle, size_bytes, at, segment.path)

        for start, header in plausible_headers(read, position, end):
            head = head_at(header, 0)
            if self._plausible(head, start - bad_position, end - start) and self._sound(segment, start, head):
                return start, head
        return None

    def _plausible(self, head: Head, skipped_bytes: int, room_bytes: int) -> bool:
        return (
            HEADER_BYTES <= head.size_bytes <= room_bytes
            and 0 < head.base_offset - self._next <= skipped_bytes
            and head.base_offset <= head.last_offset
            and head.epoch >= self._epoch
        )

    def _sound(self, segment: Segment, position: int, head: Head) -> bool:
        end = position + head.size_bytes
        try:
            return len(list(sound_batches(self._disk, segment.handle, segment.path, position, end))) == 1
        except CorruptBatchError:
            return False
