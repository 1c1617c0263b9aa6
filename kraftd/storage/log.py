"""The replicated log on disk: appended to, flushed, truncated, and read by offset.

What is on disk
---------------
`<directory>` is `__cluster_metadata-0`, with for each segment, named by its base offset in 20 digits:

- `….log`: record batches, one after the other, nothing else. The only truth.
- `….index`, `….timeindex`: where batches are, for Kafka's sake. They are made anew from the batches; of a
  segment that was not read yet, `….index` is a hint (`unread_segments`).

and besides them

- `leader-epoch-checkpoint`: which epoch begins where. An entry is durable before its epoch's first batch
  counts as flushed.
- `partition.metadata`, `quorum-state`, `*.checkpoint`: not touched here.

The segments form a chain: each begins at the offset where the one before it ends. Only the last one, the
active segment, is written to. Three offsets matter: the log *start* (0, or the end of a snapshot, which may
lie inside the first segment), its *end* (where the next batch goes), and the *flushed* offset, below which
everything survives a power cut. None of them is in Kafka's files. The flushed offset is kept by a
`RecoveryPointStore` (kraftd's sidecar); the start is found again by the snapshots that are there
(`log_start`).

What a crash can leave
----------------------
*While appending.* Any part of what lies above the flushed offset may be missing, zero, or garbage, in
any order. The next opening finds a bad batch at or above the recovery point and cuts there.

*While rolling.* The sealed segment may lack its unflushed end, while the new file exists (its name was made
durable at once). Then there is a gap above the recovery point: the new segment is removed. Or the new file
does not exist yet. Index files may be of any size and content; they are made anew.

*While truncating.* First the recovery point is lowered and synced. From then on the opening would cut
whatever is bad, and would keep what is good: a longer log than wanted, of which nothing is forgotten that
had to stay. Then later segments are removed, newest first, each removal made durable before the next, so
what is left is always a prefix. Then the segment is truncated and synced, then the epochs. A crash between
any two of these leaves a log that the leader will have truncated again. Nothing is appended before all is
durable, so old and new batches never stand side by side.

*While the front is cut.* Segments before the new start lose their names, oldest first, with one sync for all.
A file system that keeps no order may leave a gap there. All was flushed, and a whole snapshot holds it: the
opening begins at that (`log_start`).

*While a snapshot takes the log's place.* First the recovery point moves to the snapshot's end, synced: the
opening knows then that the log lacks something. The segments lose their names, newest first, the epochs go,
the new segment gets its name. Until then a front of the old log is left, and the opening ends the work
(`log_start`); an old log that continues the snapshot stays.

*While flushing.* The recovery point is written after the sync that it speaks of, so it is never too high.
It may be too low, by what was flushed since it was itself synced: then a little more is read again.

*While an epoch is noted.* `leader-epoch-checkpoint.tmp` may remain; it is never read. The file may name an
epoch whose first batch was lost; the opening drops it. Or it does not name the epoch of batches that no flush
had covered: those are torn, as if they had been lost.

*While opening.* An opening that is cut short leaves one of the states above; the next one starts over.

A disk can do worse than a crash and lose what was flushed. That shows as a bad byte *below* the recovery
point, and is never cut (`log_scan`); the log then goes on at its end, with a hole. But a front that holds
one goes, up to a snapshot's end.

How it is used
--------------
One class, because appending, rolling, flushing and truncating change the same segments, ends and generation.
All methods are called from the one loop. Four values leave it: a `FlushJob` runs in a flush thread, a
`ReaderView` or `SegmentCheck` in a reader thread, a `Removal` in any. The first two carry the generation,
which a truncation and an installed snapshot raise (D-03, D-15). A cut of the front does not: readers pin
files, and a flush covers only what lies above the flushed offset, where nothing is cut.

Not here: the files of the chain (`segment_chain`), snapshots, when to cut (`kraftd.raft.retention`).
Follows: LOG-01 to LOG-18, CLN-05 to CLN-08.
Differs: a gap between the log and an appended batch is refused (Q-07). A bad batch in the middle is kept
as damage and does not silently shorten the log (Q-16). A group of batches may be split over two segments.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kraftd.errors import InvariantError, StorageError
from kraftd.records import names
from kraftd.storage.disk import Disk
from kraftd.storage.epoch_checkpoint import EpochCheckpoint, epochs_beyond, load_epochs
from kraftd.storage.flush import FlushJob, RecoveryPointStore
from kraftd.storage.log_reader import DamagedReadError, ReaderView
from kraftd.storage.log_scan import Recovered
from kraftd.storage.log_start import OpenReport, judge_start
from kraftd.storage.recovery import recover, tidy
from kraftd.storage.removal import Removal
from kraftd.storage.segment import LogConfig, heads_of
from kraftd.storage.segment_chain import SegmentChain
from kraftd.storage.unread_segments import UnreadSegments
from kraftd.types import Epoch, EpochEntry, Offset, OffsetAndEpoch


class Opened(NamedTuple):
    """An open log, and what its opening found."""

    log: "Log"
    report: OpenReport


class Log:
    """A chain of segments. Made by `Log.open` only."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        recovered: Recovered,
        epochs: EpochCheckpoint,
        start: OffsetAndEpoch,
        config: LogConfig,
        recovery_points: RecoveryPointStore | None,
        *,
        read_only: bool,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._recovery_points = recovery_points
        self._read_only = read_only
        self._chain = SegmentChain(disk, directory, recovered.segments, config)
        self._segments = self._chain.segments
        self.unread = UnreadSegments(disk, self._chain, epochs)
        self._epochs = epochs
        self._start = start
        self._job: FlushJob | None = None
        self.generation = 0
        self.end_offset: Offset = recovered.end_offset
        self.flushed_offset: Offset = recovered.end_offset

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: Path,
        *,
        recovery_point: OffsetAndEpoch | None = None,
        recovery_points: RecoveryPointStore | None = None,
        config: LogConfig | None = None,
        snapshots: Sequence[OffsetAndEpoch] = (),
        read_only: bool = False,
    ) -> Opened:
        """Open a log: on return all in it is durable (D-04, D-05), or reported as lost, or `unread` (D-23).

        Args:
            disk: Where it is.
            directory: `__cluster_metadata-0`; must exist.
            recovery_point: The flushed offset and its epoch, where there is no store of it.
            recovery_points: Keeps the flushed offset from now on; its recovery point is used.
            config: When to roll.
            snapshots: The snapshots beside it, oldest first; the newest one is whole. One that goes further
                than the log takes its place (D-23).
            read_only: Change nothing and create nothing: for tools, and for Kafka's own directories.

        Raises:
            StorageFailure: The disk refused a change.
            StorageError: The directory holds something that is no log.
        """
        if not disk.fs.is_directory(directory):
            raise StorageError(f"{directory}: is not a directory: name the one that holds the .log files")
        if recovery_points is not None:
            recovery_point = recovery_points.recovery_point
        if not read_only:
            tidy(disk, directory)
        checkpoint = directory / names.EPOCH_CHECKPOINT
        checkpoint_epochs, notes = load_epochs(disk, checkpoint)
        flushed = checkpoint_epochs, recovery_point
        recovered = recover(disk, directory, *flushed, snapshots, read_only=read_only)
        start = judge_start(recovered, snapshots, *flushed)
        epochs = EpochCheckpoint(disk, checkpoint, start.epochs)
        config = config or LogConfig()
        log = cls(disk, directory, recovered, epochs, start.at, config, recovery_points, read_only=read_only)
        if start.is_replaced:
            log._empty_at(start.at)
        elif not read_only:
            log._prepare_for_appends(checkpoint_epochs)
        incomplete = epochs_beyond(checkpoint_epochs, log.end_offset, checkpoint)
        notes = (*notes, *recovered.notes, *start.notes)
        report = OpenReport(start.damage, recovered.torn, incomplete, notes, start.snapshots)
        return Opened(log, report)

    # -- what it is ----------------------------------------------------------------------------

    @property
    def start_offset(self) -> Offset:
        """Where the log begins: at 0, or at the end of a snapshot."""
        return self._start.offset

    @property
    def start_epoch(self) -> Epoch:
        """The epoch of the record before the start, which a snapshot holds; 0 for none."""
        return self._start.epoch

    @property
    def last_epoch(self) -> Epoch:
        """The newest epoch known to the log, with or without a record; that of the snapshot that it begins at
        if it knows none, 0 without one (LOG-11, LOG-12).
        """
        return self._epochs.last_epoch or self._start.epoch

    @property
    def last_record_epoch(self) -> Epoch:
        """The epoch of the newest record, be it in the log or in the snapshot before it; 0 for none."""
        if self.end_offset == self._start.offset:
            return self._start.epoch
        return self._epochs.epoch_of(self.end_offset - 1)

    @property
    def epochs(self) -> tuple[EpochEntry, ...]:
        """The epochs with their start offsets."""
        return self._epochs.entries

    @property
    def size_bytes(self) -> int:
        """The size of all segments together, in bytes."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segment_files(self) -> tuple[tuple[Offset, Path, int], ...]:
        """Base offset, file and size of each segment, oldest first."""
        return tuple((s.base_offset, s.path, s.size_bytes) for s in self._segments)

    @property
    def active_file(self) -> tuple[int, Path]:
        """The file that batches are appended to."""
        active = self._segments[-1]
        return active.handle, active.path

    # -- appending -----------------------------------------------------------------------------

    def append(self, batches: Sequence[bytes], base_offset: Offset, end_offset: Offset) -> None:
        """Write whole batches, checked by the core, into the page cache at the end of the log.

        Nothing is durable before `flush_done` of a job that was begun later.

        Raises:
            InvariantError: The batches do not continue the log.
            StorageFailure: The disk refused, or took only a part.
        """
        heads = heads_of(batches)
        if base_offset != self.end_offset or not heads or heads[0].base_offset != base_offset:
            raise InvariantError(f"append at {base_offset}, but the log ends at {self.end_offset}")
        last = heads[-1]
        if last.last_offset + 1 != end_offset:
            raise InvariantError(f"batches end at {last.last_offset + 1}, not at {end_offset}")
        size_bytes = len(batches[0]) if len(batches) == 1 else sum(map(len, batches))
        active = self._segments[-1]
        newest_ms = last.max_timestamp_ms if len(heads) == 1 else max(h.max_timestamp_ms for h in heads)
        if active.must_roll(len(heads), size_bytes, newest_ms, last.last_offset, self._config):
            if len(batches) > 1:
                self._append_one_by_one(batches)
                return
            self._roll()
            active = self._segments[-1]
        if len(batches) > 1 and not active.takes_together(batches, size_bytes, self._config):
            self._append_one_by_one(batches)
            return
        # Only once it is clear that the group fits as a whole: each epoch is recorded once, in order.
        if last.epoch != self._epochs.last_epoch:
            for head in heads:
                self._epochs.assign(head.epoch, head.base_offset)
        if len(batches) == 1:
            self._disk.write(active.handle, batches[0], active.size_bytes, active.path)
        else:
            self._disk.write_all(active.handle, batches, size_bytes, active.size_bytes, active.path)
        indexed = active.index.last_position
        for head in heads:
            active.add_batch(head)
        if active.index.last_position != indexed and active.files is not None:
            active.files.extend(active.index)
        self.end_offset = end_offset

    def _append_one_by_one(self, batches: Sequence[bytes]) -> None:
        """Append a group that does not fit into the active segment as a whole."""
        for data in batches:
            heads = heads_of((data,))
            self.append((data,), heads[0].base_offset, heads[-1].last_offset + 1)

    def assign_epoch(self, epoch: Epoch, start_offset: Offset) -> None:
        """Note where an epoch begins, before it has a record; durable with a flush (LOG-09, LOG-11)."""
        self._epochs.assign(epoch, start_offset)

    def roll_at(self, size_bytes: int, snapshot_offset: Offset) -> bool:
        """Begin a new segment if the active one holds so many bytes or more, some of them in this snapshot.
        Returns whether one was begun.

        Then the segments before it can go with the next snapshot.
        """
        active = self._segments[-1]
        if active.size_bytes < size_bytes or active.base_offset >= snapshot_offset:
            return False
        self._roll()
        return True

    def _roll(self) -> None:
        self._chain.roll(self.end_offset)
        if self._recovery_points is not None:
            self._recovery_points.sync()

    # -- flushing ------------------------------------------------------------------------------

    def begin_flush(self, *, sync_recovery_point: bool = False, saves_epochs: bool = True) -> FlushJob:
        """Return the job that makes the log durable as it is now (D-03).

        Run the job in any thread, then pass it to `flush_done`. One runs at a time. `sync_recovery_point`
        makes the sidecar's recovery point durable too: at least once a second while flushing, and when going
        idle. Without `saves_epochs` the caller does `save_epochs` before `flush_done`.
        """
        if saves_epochs:
            self.save_epochs()
        if self._job is not None and not self._job.finished:
            raise InvariantError("a flush was begun while another one runs")
        dirty: list[tuple[int, Path]] = []
        for segment in reversed(self._segments):
            if segment.end_offset <= self.flushed_offset:
                break
            dirty.append((segment.handle, segment.path))
        dirty.reverse()  # the oldest is synced first, so that no crash leaves a later one after a gap
        recovery_points = self._recovery_points if sync_recovery_point else None
        sequence = recovery_points.unsynced_sequence if recovery_points is not None else 0
        self._job = FlushJob(
            self._disk,
            self.generation,
            self.end_offset,
            self.last_record_epoch,
            dirty,
            self._directory if self._chain.names_dirty else None,
            recovery_points.file if recovery_points is not None and sequence else None,
            sequence,
        )
        self._chain.names_dirty = False
        return self._job

    def save_epochs(self) -> None:
        """Make durable where the newest epoch begins, unless it is."""
        self._epochs.save_new()

    def flush_done(self, job: FlushJob) -> tuple[int, Offset]:
        """Record a job that has run. Returns generation and end offset for `LogFlushed`.

        A job from before a truncation changes nothing (D-03). The recovery point is written, not synced.
        """
        if not job.finished:
            raise InvariantError("a flush was reported done that has not run")
        recovery_points = self._recovery_points
        if recovery_points is not None and job.recovery_point_sequence:
            recovery_points.synced(job.recovery_point_sequence)
        if job.generation == self.generation and job.end_offset > self.flushed_offset:
            self.flushed_offset = job.end_offset
            if recovery_points is not None:
                recovery_points.raise_recovery_point(OffsetAndEpoch(job.end_offset, job.end_epoch))
        return job.generation, job.end_offset

    def flush(self) -> None:
        """Flush at once, in this thread: at a clean stop, and in tools."""
        job = self.begin_flush(sync_recovery_point=True)
        job.run()
        self.flush_done(job)

    # -- truncating ----------------------------------------------------------------------------

    def truncate(self, end_offset: Offset, generation: int) -> Offset:
        """Truncate the log to a batch boundary at or before `end_offset`; durable on return.

        Returns the new end. At or above the end this removes nothing but epochs without a record; below the
        start it empties the log, which then begins at `end_offset` (LOG-07, LOG-08).

        Raises:
            InvariantError: A flush still runs, or the generation did not rise.
        """
        self._check_barrier("a truncation", generation)
        new_end = self._boundary_before(end_offset)
        flushed = min(self.flushed_offset, new_end)
        # Node 2 has flushed up to 20 and truncates to 12; its power fails halfway. If the recovery point
        # still said 20, the next opening would take the records that are gone for lost ones, and node 2
        # would not count.
        if self._recovery_points is not None and flushed < self.flushed_offset:
            at = OffsetAndEpoch(flushed, self._epochs.epoch_of(flushed - 1))
            self._recovery_points.move_recovery_point(at)
        self.generation = generation
        self.flushed_offset = flushed
        if new_end < self.end_offset:
            self._chain.truncate(new_end, self.reader_view())
            self.end_offset = new_end
        if new_end < self.start_offset:
            self._start = OffsetAndEpoch(new_end, 0)
        self._epochs.truncate(new_end)
        return new_end

    def _check_barrier(self, what: str, generation: int) -> None:
        if self._job is not None and not self._job.finished:
            raise InvariantError(f"{what} came while a flush runs")
        if generation <= self.generation:
            raise InvariantError(f"{what} must raise the generation, not {self.generation} -> {generation}")

    def _boundary_before(self, offset: Offset) -> Offset:
        """Return the last batch boundary at or before `offset`; outside all batches `offset` itself."""
        if offset >= self.end_offset:
            return self.end_offset
        if offset <= self.start_offset:
            return offset
        try:
            return self.reader_view().base_of(offset)
        except DamagedReadError:
            return offset

    # -- snapshots in the place of records ---------------------------------------------------------------

    def replace(self, snapshot: OffsetAndEpoch, generation: int) -> None:
        """Empty the log, which then begins and ends at the end of a snapshot, all of it flushed; durable on
        return (D-21).

        Raises:
            InvariantError: A flush still runs, or the generation did not rise.
        """
        self._check_barrier("a snapshot in the log's place", generation)
        self.generation = generation
        self._empty_at(snapshot)

    def _empty_at(self, snapshot: OffsetAndEpoch) -> None:
        # Node 3 holds 0 to 80, all flushed, and loads a snapshot at 50 of a leader that never had 40 to 80.
        # If its power fails when the newest segments are gone and the recovery point still says 80, the next
        # opening takes them for lost.
        if not self._read_only and self._recovery_points is not None:
            self._recovery_points.move_recovery_point(snapshot)
        self._start = snapshot
        self.end_offset = self.flushed_offset = snapshot.offset
        if self._read_only:
            self._chain.close()
            return
        self._chain.retire_all()
        self._epochs.clear()
        self._chain.add(snapshot.offset)

    def cut_front(self, start: OffsetAndEpoch) -> None:
        """Let the log begin at the end of a snapshot, and retire the segments before it; durable on return.

        Raises:
            InvariantError: The log begins later already, or is not flushed up to there.
        """
        if not self.start_offset < start.offset <= self.flushed_offset:
            raise InvariantError(
                f"a cut at {start.offset} of a log that begins at {self.start_offset} and is flushed up to "
                f"{self.flushed_offset}"
            )
        if self._recovery_points is not None:
            self._recovery_points.sync()
        self._epochs.cut_front(start.offset)
        self._start = start
        self._chain.retire_front(start.offset)

    def take_removal(self) -> Removal:
        """Return the files that left the log and that nobody reads any more: the caller removes them."""
        return self._chain.take_removal()

    # -- reading -------------------------------------------------------------------------------

    def reader_view(self) -> ReaderView:
        """Return the log as it is now, for a reader thread (D-15)."""
        return ReaderView(
            self._disk, self._segments, self.start_offset, self.end_offset, self.generation, self.epochs
        )

    def read(self, offset: Offset, max_bytes: int) -> bytes:
        """Read whole batches from the one that holds `offset`; see `ReaderView.read`."""
        return self.reader_view().read(offset, max_bytes)

    def tail(self, max_bytes: int) -> list[bytes]:
        """Return the newest batches, each by itself, together about `max_bytes`."""
        return self.reader_view().tail(max_bytes)

    # -- closing -------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush, cut the index files to size, and close. After a failure of the disk only close."""
        if not self._read_only and self._disk.failure is None:
            self.flush()
            if self._recovery_points is not None:
                self._recovery_points.sync()
            self._segments[-1].seal()
        self.abandon()

    def abandon(self) -> None:
        """Close all handles, and change nothing."""
        self._chain.close()

    # -- opening -------------------------------------------------------------------------------

    def _prepare_for_appends(self, checkpoint_epochs: tuple[EpochEntry, ...]) -> None:
        """Prepare an opened directory for appends: its segments, indexes and `leader-epoch-checkpoint`."""
        if self._epochs.entries != checkpoint_epochs:
            self._epochs.save()
        self._chain.prepare(self.end_offset)
        self._chain.retire_front(self.start_offset)
        if self._recovery_points is not None:
            self._recovery_points.raise_recovery_point(
                OffsetAndEpoch(self.end_offset, self.last_record_epoch)
            )
