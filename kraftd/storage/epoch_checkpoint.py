"""The start offset of each epoch: the leader-epoch cache and its file, `leader-epoch-checkpoint`.

The log asks it for the last epoch and for the epoch of an offset. It is rebuilt from the batches at
every start; the file serves Kafka, tools, and the one thing batches cannot say: that a copy of a
directory ends before its log did.

Follows: LOG-09..12, CLN-08. An entry is on disk before a batch of its epoch is acknowledged. After a crash
the file may hold too much; a batch whose epoch it lacks was not acknowledged, and is cut as torn.
Differs: Kafka writes the file some time after a truncation; we write it at once.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from kraftd.errors import MalformedError, StorageError
from kraftd.records import epoch_checkpoint, names
from kraftd.storage.disk import Disk
from kraftd.storage.segment import NO_END
from kraftd.types import Epoch, EpochEntry, Offset

_EPOCH = attrgetter("epoch")
_START_OFFSET = attrgetter("start_offset")


class EpochCheckpoint:
    """The epochs with their start offsets, both ascending."""

    def __init__(self, disk: Disk, path: Path, entries: Sequence[EpochEntry] = ()) -> None:
        self._disk = disk
        self._path = path
        self.entries = tuple(entries)
        self.last_epoch: Epoch = entries[-1].epoch if entries else 0
        self._has_new = False
        """Whether an entry was added that is not in the file yet."""

    def assign(self, epoch: Epoch, start_offset: Offset) -> None:
        """Add that `epoch` starts here, unless it is known to start no later. `save_new` writes it."""
        entries = with_entry(self.entries, epoch, start_offset)
        if entries is not self.entries:
            self._become(entries)
            self._has_new = True

    def save_new(self) -> None:
        """Write the file if an entry was added, durably: before a flush of the batches of its epoch."""
        if self._has_new:
            self.save()

    def truncate(self, end_offset: Offset) -> None:
        """Remove the epochs that start at or after the end of the log, and write the file."""
        entries = tuple(entry for entry in self.entries if entry.start_offset < end_offset)
        if len(entries) != len(self.entries):
            self._become(entries)
            self.save()

    def cut_front(self, start_offset: Offset) -> None:
        """Move the epoch that covers a log's new start to it, remove those before, and write the file."""
        entries = entries_from(self.entries, start_offset)
        if entries != self.entries:
            self._become(entries)
            self.save()

    def clear(self) -> None:
        """Forget all epochs, and write the file."""
        self._become(())
        self.save()

    def epoch_of(self, offset: Offset) -> Epoch:
        """Return the epoch of the record at this offset; 0 before the first entry."""
        return epoch_checkpoint.epoch_of(self.entries, offset)

    def save(self) -> None:
        """Write the file: tmp, fsync, rename, fsync of the directory."""
        self._disk.replace(self._path, epoch_checkpoint.encode(self.entries))
        self._has_new = False

    def _become(self, entries: tuple[EpochEntry, ...]) -> None:
        self.entries = entries
        self.last_epoch = entries[-1].epoch if entries else 0


class KnownEpochs:
    """The epochs that batches must have by these entries. It is asked with ascending offsets."""

    def __init__(self, entries: Sequence[EpochEntry]) -> None:
        self._entries = tuple(entries)
        self._span: tuple[Epoch, Offset] = (0, 0)

    def agree_to(self, offset: Offset, epoch: Epoch) -> Offset:
        """Return up to where batches from this offset on may have this epoch; 0 if the one here cannot.

        A log that was cut in the middle of a segment holds batches from before its first entry, whose epochs
        it does not tell. But it tells the most that they can have: a bit flip there would else make every
        later batch look older than the log.
        """
        if not self._entries:
            return NO_END
        known = self._epoch_at(offset)
        is_possible = epoch == known if known else epoch <= self._entries[0].epoch
        return self._span[1] if is_possible else 0

    def why(self, offset: Offset, epoch: Epoch) -> str:
        """Say how a batch contradicts them."""
        known = self._epoch_at(offset) or self._entries[0].epoch
        return f"the batch says epoch {epoch} where {names.EPOCH_CHECKPOINT} says {known}"

    def _epoch_at(self, offset: Offset) -> Epoch:
        epoch, end_offset = self._span
        if offset >= end_offset:
            entries = self._entries
            slot = bisect_right(entries, offset, key=_START_OFFSET)
            end_offset = entries[slot].start_offset if slot < len(entries) else NO_END
            self._span = epoch, _ = entries[slot - 1].epoch if slot else 0, end_offset
        return epoch


def with_entry(entries: tuple[EpochEntry, ...], epoch: Epoch, start_offset: Offset) -> tuple[EpochEntry, ...]:
    """Return the entries with one more, by LOG-09; the same object if nothing changes.

    The raft node does the same to its `EpochCache`; a test holds the two to each other.
    """
    if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
        return entries
    kept = min(bisect_left(entries, epoch, key=_EPOCH), bisect_left(entries, start_offset, key=_START_OFFSET))
    return (*entries[:kept], EpochEntry(epoch, start_offset))


def entries_from(entries: tuple[EpochEntry, ...], start_offset: Offset) -> tuple[EpochEntry, ...]:
    """Return the entries of a log that begins at an offset, by CLN-08: that of the epoch which covers it is
    moved there.
    """
    slots = sum(entry.start_offset <= start_offset for entry in entries)
    if slots == 0:
        return entries
    return (EpochEntry(entries[slots - 1].epoch, start_offset), *entries[slots:])


def with_lost_epochs(
    found: tuple[EpochEntry, ...],
    checkpoint_epochs: tuple[EpochEntry, ...],
    lost: Sequence[tuple[Offset, Offset]],
    end: EpochEntry | None,
) -> tuple[EpochEntry, ...]:
    """Return the epochs of a damaged log: those of its batches, and for its lost parts those known from
    elsewhere.

    Args:
        found: From the batches that can be read.
        checkpoint_epochs: From `leader-epoch-checkpoint`.
        lost: The ranges of offsets, begin and end, whose batches cannot be read.
        end: The epoch that was flushed last and the end of the log, if its last part is lost.
    """
    wanted = [e for e in checkpoint_epochs if any(start <= e.start_offset < stop for start, stop in lost)]
    merged: tuple[EpochEntry, ...] = ()
    for entry in sorted([*found, *wanted], key=lambda e: (e.start_offset, e.epoch)):
        if not merged or entry.epoch > merged[-1].epoch:
            merged = with_entry(merged, entry.epoch, entry.start_offset)
    if end is not None and (not merged or end.epoch > merged[-1].epoch):
        merged = (*merged, EpochEntry(end.epoch, end.start_offset))
    return merged


def load_epochs(disk: Disk, path: Path) -> tuple[tuple[EpochEntry, ...], tuple[str, ...]]:
    """Return the entries of the file, and a note if it cannot be read: the epochs then come from the batches
    alone.
    """
    try:
        data = disk.read_file(path)
        return (epoch_checkpoint.decode(data) if data else ()), ()
    except (MalformedError, StorageError) as error:
        return (), (f"{path}: cannot be read and is made anew from the batches: {error}",)


def epochs_beyond(
    checkpoint_epochs: tuple[EpochEntry, ...], end_offset: Offset, path: Path
) -> tuple[str, ...]:
    """Return a text if epochs began after the log's end: it was copied too early, or its end was lost."""
    beyond = [entry for entry in checkpoint_epochs if entry.start_offset > end_offset]
    if not beyond:
        return ()
    first, *others = beyond
    listed = f"epoch {first.epoch} at offset {first.start_offset}"
    listed += f" and {len(others)} more up to epoch {others[-1].epoch}" if others else ""
    text = f"{path}: names {listed}, but the log ends at offset {end_offset}: its end is missing here"
    return (text,)
