"""What a raft node knows of its log: its ends, its epochs, its snapshots, and the newest batches in memory.

The node never reads the disk. The tail serves followers inline (D-15); what is older is a `ColdRead`. The
mirror moves together with the effects that it hands out: an `Append` has happened as soon as it is asked
for, a `Truncate` too, while a `Flush` has happened only once its `LogFlushed` came back (D-02, D-03).

Invariants:
    start_offset <= flushed_offset <= end_offset.
    The generation rises with every truncation and every snapshot that is installed; a completion of an older
    one says nothing (D-03).
    One flush runs at a time, and each covers everything appended before it began: that is the group commit.

Differs: a log that begins at 0 serves every follower that has a record. Kafka's leader offers a snapshot to
those whose epoch is below that of its oldest snapshot even then.

`EpochCache` mirrors `leader-epoch-checkpoint`. It answers the leader's question on every fetch, whether a
follower's position lies on its own log, and the follower's, where to truncate when it does not (LOG-07,
LOG-09, LOG-10, LOG-12).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from kraftd.errors import InvariantError
from kraftd.raft.effects import Append, CutLog, Flush, InstallSnapshot, Truncate
from kraftd.records.batch import BatchView
from kraftd.types import Epoch, EpochEntry, Offset, OffsetAndEpoch

TAIL_BYTES_MAX = 16 * 1024 * 1024
"""If the tail holds more, its older half is dropped (D-15), but no more than `DROPPED_BYTES`."""

DROPPED_BYTES = 1 * 1024 * 1024
"""The most that is dropped at once. 8 MiB of batches of one change each are 50,000: a turn of over 10 ms."""

FETCH_BYTES_MAX = 8 * 1024 * 1024
"""The most bytes of one fetch response; a larger first batch is sent whole."""

SNAPSHOT_CHUNK_BYTES = 1 * 1024 * 1024
"""The most bytes of a snapshot in one response, by default."""


class OpenedLog(msgspec.Struct, frozen=True):
    """The log as opened: everything before `end_offset` is durable (D-04)."""

    start_offset: Offset = 0
    end_offset: Offset = 0
    epochs: tuple[EpochEntry, ...] = ()
    generation: int = 0
    tail: Sequence[bytes] = ()
    """The newest batches, whole and in order; may be empty."""
    high_watermark: Offset = -1
    """Everything before this offset is committed, by the newest snapshot or more; -1 if that is unknown."""
    snapshots: tuple[OffsetAndEpoch, ...] = ()
    """The whole snapshots that are here, but for one of offset 0; in the order of logs, the oldest first."""


class LogMirror:
    """What a raft node knows of its log. Mutable; the `RaftState` is its only owner."""

    __slots__ = (
        "_bases",
        "_batches",
        "_bytes",
        "_bytes_max",
        "_flushing",
        "_values",
        "end_offset",
        "epochs",
        "fetch_bytes_max",
        "flushed_offset",
        "generation",
        "snapshots",
        "start_epoch",
        "start_offset",
    )

    def __init__(
        self, start: OpenedLog, bytes_max: int = TAIL_BYTES_MAX, fetch_bytes_max: int = FETCH_BYTES_MAX
    ) -> None:
        self._bytes_max = bytes_max
        self.fetch_bytes_max = fetch_bytes_max
        self.start_offset = start.start_offset
        self.end_offset = start.end_offset
        self.flushed_offset = start.end_offset
        self.generation = start.generation
        self.epochs = EpochCache(start.epochs)
        self.snapshots = start.snapshots
        """The snapshots that are here, the oldest first."""
        at_start = (each.epoch for each in start.snapshots if each.offset == start.start_offset)
        self.start_epoch: Epoch = next(at_start, 0)
        """The epoch of the last record before the log's start, which its snapshot told; 0 if none did."""
        self._bases: list[Offset] = [BatchView(batch).base_offset for batch in start.tail]
        self._batches: list[bytes] = list(start.tail)
        self._bytes = sum(map(len, self._batches))
        self._flushing = False
        self._values: dict[Offset, Sequence[bytes]] = {}
        if start.tail and BatchView(start.tail[-1]).end_offset != start.end_offset:
            raise InvariantError("the tail handed over is not the log's end")

    @property
    def last_epoch(self) -> Epoch:
        """The newest epoch in the log; while it is empty, that of the snapshot it begins with, or 0
        (LOG-12).
        """
        return self.epochs.last_epoch or self.start_epoch

    @property
    def position(self) -> OffsetAndEpoch:
        """Where the log ends, for the comparison of logs in elections."""
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    @property
    def is_flushed(self) -> bool:
        """Whether the whole log is durable, so that its end may be acknowledged."""
        return self.flushed_offset == self.end_offset

    def append(self, base_offset: Offset, end_offset: Offset, batches: Sequence[bytes]) -> Append:
        """Add whole batches at the end; the caller has assigned their epochs. Returns the effect."""
        if base_offset != self.end_offset or end_offset <= base_offset:
            raise InvariantError(
                f"append of [{base_offset}, {end_offset}) to a log ending at {self.end_offset}"
            )
        self.end_offset = end_offset
        if len(batches) == 1:
            self._bases.append(base_offset)
            self._batches.append(batches[0])
            self._bytes += len(batches[0])
        else:
            self._bases.extend(BatchView(batch).base_offset for batch in batches)
            self._batches.extend(batches)
            self._bytes += sum(map(len, batches))
        if self._bytes > self._bytes_max:
            self._drop_oldest()
        return Append(base_offset, end_offset, batches)

    def _drop_oldest(self) -> None:
        kept_bytes = max(self._bytes_max // 2, self._bytes_max - DROPPED_BYTES)
        dropped = 0
        while self._bytes > kept_bytes and dropped < len(self._batches) - 1:
            self._bytes -= len(self._batches[dropped])
            dropped += 1
        for base_offset in self._bases[:dropped]:
            self._values.pop(base_offset, None)
        del self._bases[:dropped], self._batches[:dropped]

    def keep_values(self, base_offset: Offset, values: Sequence[bytes]) -> None:
        """Keep the record values of the batch at `base_offset`, so that the applier need not decode it."""
        self._values[base_offset] = values

    def take_values(self, base_offset: Offset) -> Sequence[bytes] | None:
        """Remove and return the record values of a batch; None if they must be read out of it."""
        return self._values.pop(base_offset, None)

    def flush(self) -> Flush | None:
        """Return a flush of everything appended; None if one is running or nothing needs it."""
        if self._flushing or self.is_flushed:
            return None
        self._flushing = True
        return Flush(self.generation, self.end_offset)

    def on_flushed(self, generation: int, end_offset: Offset) -> bool:
        """Record the end of a flush. Returns False if it belongs to an older generation (D-03)."""
        # A flush up to 20 runs while a new leader makes node 2 truncate to 12 and append new records up to
        # 20. The flush ends: it covered the old records. If it counted, node 2 would acknowledge records that
        # are only in its page cache.
        if generation != self.generation:
            return False
        self._flushing = False
        if end_offset > self.end_offset:
            raise InvariantError(f"flushed up to {end_offset}, but the log ends at {self.end_offset}")
        self.flushed_offset = max(self.flushed_offset, end_offset)
        return True

    def boundary_at_most(self, offset: Offset) -> Offset | None:
        """Return the last batch boundary at or before `offset`; None if only the disk knows it."""
        if offset >= self.end_offset:
            return self.end_offset
        if offset <= self.start_offset or self.epochs.begins_at(offset):
            return offset
        index = bisect_right(self._bases, offset) - 1
        return self._bases[index] if index >= 0 else None

    def truncate(self, end_offset: Offset) -> Truncate:
        """Truncate at a batch boundary. A running flush becomes void (D-03). Returns the effect."""
        self.generation += 1
        self._flushing = False
        index = bisect_left(self._bases, end_offset)
        for base_offset in self._bases[index:]:
            self._values.pop(base_offset, None)
        self._bytes -= sum(map(len, self._batches[index:]))
        del self._bases[index:], self._batches[index:]
        self.end_offset = end_offset
        self.flushed_offset = min(self.flushed_offset, end_offset)
        self.epochs.truncate(end_offset)
        return Truncate(end_offset, self.generation)

    # --- snapshots --------------------------------------------------------------------------------------

    def add_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Count a snapshot that has its name now, unless the log begins behind it already (SNAP-05)."""
        if snapshot_id not in self.snapshots and snapshot_id.offset >= self.start_offset:
            self.snapshots = tuple(sorted((*self.snapshots, snapshot_id), key=lambda each: each.log_order))

    def lacks_snapshot_at(self, offset: Offset) -> bool:
        """Whether no snapshot is here that leads to where the log begins, or behind it, so that nobody can be
        given what is before: its files went bad. And whether one at this offset would do.
        """
        return not self.snapshots and 0 < self.start_offset <= offset

    def forget_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Count a snapshot no more whose file is gone, or turned out damaged (SNAP-20)."""
        self.snapshots = tuple(each for each in self.snapshots if each != snapshot_id)

    def install(self, snapshot_id: OffsetAndEpoch) -> InstallSnapshot:
        """Begin and end where a snapshot ends (D-21). A running flush becomes void (D-03). Returns the
        effect.
        """
        self.generation += 1
        self._flushing = False
        self._bases, self._batches, self._bytes = [], [], 0
        self._values.clear()
        self.start_offset = self.end_offset = self.flushed_offset = snapshot_id.offset
        self.epochs = EpochCache()
        self._begin_at(snapshot_id)
        return InstallSnapshot(snapshot_id, self.generation)

    def cut_front(self, start: OffsetAndEpoch) -> CutLog:
        """Begin where a snapshot ends, which is within this log (D-22). Reads and flushes go on. Returns the
        effect.
        """
        self.start_offset = start.offset
        self.epochs.cut_front(start.offset)
        self._begin_at(start)
        return CutLog(start)

    def _begin_at(self, start: OffsetAndEpoch) -> None:
        self.snapshots = tuple(each for each in self.snapshots if each.log_order >= start.log_order)
        self.start_epoch = start.epoch

    # --- where a follower stands ------------------------------------------------------------------------

    def is_in_last_epoch(self, position: OffsetAndEpoch) -> bool:
        """Whether a follower's log ends behind a record of the newest epoch, as nearly all do: then it is a
        beginning of this one.
        """
        return position.offset <= self.end_offset and self.epochs.is_in_last(position.epoch, position.offset)

    def snapshot_for(self, position: OffsetAndEpoch) -> OffsetAndEpoch | None:
        """Return the snapshot that a follower must load whose log ends at `position`; None if the log itself
        serves it (FREQ-18, FREQ-20, FREQ-21).
        """
        if not self.snapshots:
            return None
        # Node 3 is new, and all 3 million records since the beginning are still here: it loads a snapshot of
        # ten thousand, and applies what came after.
        if position.offset > 0 and self.serves(position):
            return None
        return self.snapshots[-1]

    def serves(self, position: OffsetAndEpoch) -> bool:
        """Whether this log brings a follower up to date whose log ends at `position`, or tells where the two
        part. Else it takes a snapshot, whether there is one or not.
        """
        if self.start_offset == 0:
            return True
        # The log begins at 100 with epoch 4, its snapshot ends in epoch 2. Node 3 stands at 100 with a record
        # of epoch 3, or at 150 with one of epoch 1: either is a log that was never this one, and where they
        # part nobody knows any more. If it were let in at 100, since the snapshot cannot be read, it would
        # keep records below that which nobody else has.
        if position.offset <= self.start_offset:
            return position == OffsetAndEpoch(self.start_offset, self.start_epoch)
        return position.epoch >= (self.start_epoch or self.epochs.first_epoch)

    def diverges_at(self, position: OffsetAndEpoch) -> OffsetAndEpoch | None:
        """Return the diverging epoch for a follower whose log ends at `position`; None if that lies on this
        log (FREQ-12 to FREQ-17). Asked only of what the log serves.
        """
        if position.offset == 0 == self.start_offset:
            return None
        end = self.end_of(position.epoch)
        if end.epoch != position.epoch or position.offset > end.offset:
            return end
        return None

    def end_of(self, epoch: Epoch) -> OffsetAndEpoch:
        """Find where the records of an epoch end in this log, or in the snapshot that it begins with
        (LOG-10). See `EpochCache.end_of`.
        """
        end = self.epochs.end_of(epoch, self.end_offset)
        # The log begins at 100 with epoch 4, behind a snapshot of epoch 2. Of epoch 3 it has nothing: the
        # last that is older ends with the snapshot, in epoch 2.
        if self.start_epoch and end == OffsetAndEpoch(self.start_offset, epoch):
            return OffsetAndEpoch(self.start_offset, self.start_epoch)
        return end

    def epoch_before(self, end_offset: Offset) -> Epoch:
        """Return the epoch of the record just before `end_offset`, in the log or in the snapshot that it
        begins with; 0 if there is none.
        """
        return self.epochs.epoch_before(end_offset) or self.start_epoch

    def read(self, offset: Offset, max_bytes: int, limit: Offset | None = None) -> list[bytes] | None:
        """Whole batches from the one that holds `offset`; the first comes even if it is too large (FREQ-05).

        Args:
            offset: Where to begin, at most the end of the log.
            max_bytes: Stop before passing this many bytes.
            limit: Stop at this offset, which is a boundary; the end of the log if None.

        Returns:
            The batches, none at the limit; None if `offset` is no longer in memory.
        """
        limit = self.end_offset if limit is None else limit
        if offset >= limit:
            return []
        bases = self._bases
        if not bases or offset < bases[0]:
            return None
        first = bisect_right(bases, offset) - 1
        last = len(bases) if limit >= self.end_offset else bisect_left(bases, limit)
        batches = self._batches[first:last]
        total = 0
        for count, batch in enumerate(batches):
            total += len(batch)
            if total > max_bytes and count:
                return batches[:count]
        return batches


class EpochCache:
    """Ascending epochs with the offset where each begins.

    The numbers lie in two lists instead of the entries of `kraftd.records.epoch_checkpoint`: it is asked for
    each fetch and each append, and compares numbers without calling a function for each.
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._epochs: list[Epoch] = []
        self._starts: list[Offset] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """The epochs with their start offsets, ascending."""
        return tuple(map(EpochEntry, self._epochs, self._starts))

    @property
    def last_epoch(self) -> Epoch:
        """The newest epoch, 0 while there is none."""
        return self._epochs[-1] if self._epochs else 0

    @property
    def first_epoch(self) -> Epoch:
        """The oldest epoch, 0 while there is none."""
        return self._epochs[0] if self._epochs else 0

    def assign(self, epoch: Epoch, start_offset: Offset) -> None:
        """Add that `epoch` begins at `start_offset`; entries that contradict it are removed (LOG-09).

        `kraftd.storage.epoch_checkpoint` does the same to the file, for a core that knows no files; a test
        holds the two to each other.
        """
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start_offset:
            return
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)

    def cut_front(self, start_offset: Offset) -> None:
        """Drop the epochs that end at the log's new start or before it; the one that covers it begins there
        (CLN-08), though none of its records be left. The file keeps the same.
        """
        first = max(0, bisect_right(self._starts, start_offset) - 1)
        del self._epochs[:first], self._starts[:first]
        if self._starts:
            self._starts[0] = max(self._starts[0], start_offset)

    def truncate(self, end_offset: Offset) -> None:
        """Drop the epochs that would begin at the log's new end or behind it (LOG-07)."""
        keep = bisect_left(self._starts, end_offset)
        del self._epochs[keep:], self._starts[keep:]

    def end_of(self, epoch: Epoch, log_end_offset: Offset) -> OffsetAndEpoch:
        """Find where the records of `epoch` end in this log.

        If a follower has read past the response, the two logs have diverged: it truncates to there and
        fetches again. Every round but the last drops at least one epoch, so the rounds are bounded by the
        epochs it holds.

        Returns:
            The latest epoch held that is not after `epoch`, and the offset (exclusive) where it ends. Before
            the first epoch that is `epoch` itself, ending where the log's first one begins.

        Source:
            LOG-10, KIP-101 for the rule, KIP-595 for its use on every fetch.
        """
        if not self._epochs:
            return OffsetAndEpoch(log_end_offset, epoch)
        floor = bisect_right(self._epochs, epoch) - 1
        if floor < 0:
            return OffsetAndEpoch(self._starts[0], epoch)
        if floor == len(self._epochs) - 1:
            return OffsetAndEpoch(log_end_offset, self._epochs[-1])
        return OffsetAndEpoch(self._starts[floor + 1], self._epochs[floor])

    def is_in_last(self, epoch: Epoch, end_offset: Offset) -> bool:
        """Whether `epoch` is the newest one, and begins before `end_offset`."""
        epochs = self._epochs
        return bool(epochs) and epochs[-1] == epoch and self._starts[-1] < end_offset

    def begins_at(self, offset: Offset) -> bool:
        """Whether an epoch begins at `offset`, which makes it a boundary between batches."""
        index = bisect_left(self._starts, offset)
        return index < len(self._starts) and self._starts[index] == offset

    def epoch_before(self, end_offset: Offset) -> Epoch:
        """Return the epoch of the record just before `end_offset`, 0 if there is none."""
        index = bisect_left(self._starts, end_offset) - 1
        return self._epochs[index] if index >= 0 else 0
