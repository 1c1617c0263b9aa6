"""Restores the state machine from a snapshot, a little a turn.

The applier asks for it (`load`) and then calls `step` in its turns, until `is_loading` is false. The file is
read in the reader thread, a piece ahead of what is being restored; everything is proved on the way, and the
state machine takes the new state as a whole, behind the last batch. Until then it is what it was. No garbage
is collected meanwhile.

*A damaged snapshot.* The one before it is loaded, if the log reaches back to that; else what the log holds is
applied from where the state machine is. Where neither works, `stuck_reason` says so, and it is tried again
each second: a disk may refuse a read and give it later. Each damaged file is an alarm with the place, until a
newer snapshot was written or loaded.

A snapshot of an unknown kind of record ends the process, as such a log does: another state machine would take
it, and go on to another state.

Not here: what a snapshot's bytes are (`kraftd.records.snapshot`), which one to load (whoever calls `load`).
Follows: Kafka's handleLoadSnapshot (LSN-02, LSN-05, LSN-06).
Differs: Kafka reads the whole snapshot in one go, and ends the process at a damaged one.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from kraftd.errors import MalformedError, StorageError
from kraftd.raft.events import SnapshotDamaged
from kraftd.records import names
from kraftd.records.batch import BatchView
from kraftd.records.snapshot import SnapshotDecoder
from kraftd.runtime.driver import Driver
from kraftd.runtime.observability import Logger
from kraftd.runtime.worker import Worker
from kraftd.storage import StorageFailure
from kraftd.storage.snapshots import PIECE_BYTES, SnapshotInfo
from kraftd.types import NEVER_MS, Offset, OffsetAndEpoch

_STEP_RECORDS: Final = 512
"""How many records a step restores: 1 to 5 ms."""
_PIECES_AHEAD: Final = 2
_RETRY_MS: Final = 1_000
_TELL_MS: Final = 5_000
"""How often it is told how much is restored."""


Loaded: TypeAlias = Callable[[SnapshotInfo], None]
"""Told of what was loaded."""


class SnapshotRestore(Protocol):
    """A state that is being rebuilt beside the one that is shown."""

    def add(self, values: Sequence[bytes], where: str) -> None:
        """Take some more records of the snapshot, in their frames; MalformedError if they are none. `where`
        names file and byte, for errors.
        """

    def settle(self) -> bool:
        """Do some of what is left once all records were added, some ms at most. Returns whether there is more
        before `finish`.
        """

    def finish(self) -> None:
        """Take its state for the machine's own: nothing of the former one is left."""


class Restorable(Protocol):
    """What a snapshot can be loaded into."""

    def restore(self, at: OffsetAndEpoch) -> SnapshotRestore:
        """Begin to replace the state by that of a snapshot of this id. Nothing changes before its `finish`;
        the next batch after that begins at `at.offset`. Not called while the machine leads.
        """


class SnapshotReader(Protocol):
    """One file, kept from being deleted until it is released."""

    size_bytes: int

    def read(self, position: int, max_bytes: int) -> bytes:
        """Read some bytes, in a thread; StorageError if the disk refuses."""

    def release(self) -> None:
        """Let go of the file."""


class Snapshots(Protocol):
    """The snapshots of a node's directory."""

    @property
    def infos(self) -> Sequence[SnapshotInfo]:
        """Those that have their name, oldest first."""

    def open_reader(self, snapshot_id: OffsetAndEpoch) -> SnapshotReader | None:
        """Open one; None if it is not there."""

    def mark_damaged(self, snapshot_id: OffsetAndEpoch) -> None:
        """Count one no more."""


class Collector(Protocol):
    """The collector of garbage, `gc`. It does nothing while a snapshot is loaded: the containers of a million
    entities are new then, none is garbage, and a pass through them takes 10 ms.
    """

    def disable(self) -> None:
        """Collect nothing from now on."""

    def freeze(self) -> None:
        """Never go through what is there now."""

    def enable(self) -> None:
        """Collect again."""


class NoCollector:
    """For several nodes in one process: none decides when garbage is collected."""

    def disable(self) -> None:
        """Do nothing."""

    def freeze(self) -> None:
        """Do nothing."""

    def enable(self) -> None:
        """Do nothing."""


class _Load(msgspec.Struct):
    """A snapshot that is being loaded."""

    id: OffsetAndEpoch
    reader: SnapshotReader
    decoder: SnapshotDecoder
    restore: SnapshotRestore
    began_ms: int
    pieces: deque[bytes] = msgspec.field(default_factory=deque)
    batches: Iterator[BatchView] = iter(())
    """The rest of the piece that is being restored."""
    values: Sequence[bytes] = ()
    """The rest of its batch."""
    position: int = 0
    """Up to where the file was read."""
    restored_bytes: int = 0
    is_reading: bool = False


class SnapshotLoader:
    """Loads one snapshot after another into a state machine."""

    def __init__(
        self,
        snapshots: Snapshots,
        *,
        log_start: Callable[[], Offset],
        worker: Worker,
        driver: Driver,
        logger: Logger,
        collector: Collector,
    ) -> None:
        self.stuck_reason = ""
        """Why neither a snapshot nor the log leads to a state; empty if one does."""
        self.retry_at_ms = NEVER_MS
        """When to call `retry`; NEVER_MS unless there is a `stuck_reason`."""
        self.loaded_count = 0
        """How many were loaded since the start."""
        self._snapshots = snapshots
        self._log_start = log_start
        self._worker = worker
        self._driver = driver
        self._logger = logger
        self._collector = collector
        self._load: _Load | None = None
        self._state_machine: Restorable
        self._applied_offset: Offset
        self._loaded: Loaded
        self._wanted: OffsetAndEpoch
        self._damaged: dict[OffsetAndEpoch, str] = {}
        self._tell_at_ms = NEVER_MS

    @property
    def is_loading(self) -> bool:
        """Whether `step` has something to do, now or when the thread has read more."""
        return self._load is not None

    @property
    def percent(self) -> int:
        """How much of the snapshot is restored; 100 while none is being loaded."""
        load = self._load
        return 100 if load is None else 100 * load.restored_bytes // max(1, load.reader.size_bytes)

    @property
    def alarms(self) -> Sequence[str]:
        """The damaged snapshots, each with what is done instead."""
        return tuple(self._damaged.values())

    def is_damaged(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether this snapshot was found to be damaged."""
        return snapshot_id in self._damaged

    def forget_damage_below(self, offset: Offset) -> None:
        """End the alarms of what a newer snapshot stands for as well."""
        self._damaged = {each: text for each, text in self._damaged.items() if each.offset >= offset}

    def load(
        self,
        snapshot_id: OffsetAndEpoch,
        state_machine: Restorable,
        applied_offset: Offset,
        loaded: Loaded,
    ) -> None:
        """Begin to load a snapshot, in place of one that is being loaded.

        Args:
            snapshot_id: Which one.
            state_machine: Whose state it becomes.
            applied_offset: What that has applied.
            loaded: Told of what was loaded, which may be an older one, if something was.
        """
        self.stop()
        self._state_machine, self._applied_offset, self._loaded = state_machine, applied_offset, loaded
        self._wanted = snapshot_id
        self._tell_at_ms = 0
        self.retry()

    def retry(self) -> None:
        """Begin once more with the snapshot that was asked for."""
        self.stuck_reason, self.retry_at_ms = "", NEVER_MS
        self._begin(self._wanted)

    def step(self) -> bool:
        """Restore some records of what was read. Returns whether more can be done at once."""
        load = self._load
        if load is None:
            return False
        try:
            return self._step(load)
        except MalformedError as error:
            self._replace_damaged(load.id, str(error))
            return False

    def stop(self) -> None:
        """Load no more."""
        load, self._load = self._load, None
        if load is None:
            return
        if not load.is_reading:
            load.reader.release()
        self._collector.enable()

    def _begin(self, snapshot_id: OffsetAndEpoch) -> None:
        name = names.snapshot_name(snapshot_id)
        reader = self._snapshots.open_reader(snapshot_id)
        if reader is None:
            self._replace_damaged(snapshot_id, f"{name}: is not there, or cannot be opened")
            return
        self._collector.disable()
        decoder = SnapshotDecoder(name, snapshot_id.epoch)
        restore, began_ms = self._state_machine.restore(snapshot_id), self._driver.now().mono_ms
        self._load = load = _Load(snapshot_id, reader, decoder, restore, began_ms)
        self._tell_progress(load)
        self._read_ahead(load)

    def _step(self, load: _Load) -> bool:
        if load.values:
            where = f"{names.snapshot_name(load.id)} at byte {load.decoder.batch_position}"
            load.restore.add(load.values[:_STEP_RECORDS], where)
            load.values = load.values[_STEP_RECORDS:]
            return True
        batch = next(load.batches, None)
        if batch is not None:
            load.values = batch.values()
            load.restored_bytes += batch.size_bytes
            self._tell_progress(load)
            return True
        if load.pieces:
            load.batches = load.decoder.feed(load.pieces.popleft())
            self._read_ahead(load)
            return True
        if load.is_reading:
            return False
        if load.restore.settle():
            return True
        self._finish(load)
        return False

    def _tell_progress(self, load: _Load) -> None:
        """Log how much is restored: when it begins, and every few seconds."""
        now_ms = self._driver.now().mono_ms
        if now_ms < self._tell_at_ms:
            return
        self._tell_at_ms = now_ms + _TELL_MS
        self._logger.info(
            "snapshot_loading",
            offset=load.id.offset,
            epoch=load.id.epoch,
            size_bytes=load.reader.size_bytes,
            percent=self.percent,
        )

    def _finish(self, load: _Load) -> None:
        load.decoder.finish()
        header = load.decoder.header
        load.restore.finish()
        self._collector.freeze()
        self.stop()
        self.loaded_count += 1
        self.forget_damage_below(load.id.offset + 1)
        self._logger.info(
            "snapshot_loaded",
            offset=load.id.offset,
            epoch=load.id.epoch,
            size_bytes=load.reader.size_bytes,
            took_ms=self._driver.now().mono_ms - load.began_ms,
        )
        timestamp_ms = -1 if header is None else header.last_contained_log_timestamp
        self._loaded(SnapshotInfo(load.id, load.reader.size_bytes, timestamp_ms))

    def _read_ahead(self, load: _Load) -> None:
        """Have the next piece read, unless enough is at hand, or nothing is left."""
        left = load.reader.size_bytes - load.position
        if load.is_reading or left <= 0 or len(load.pieces) >= _PIECES_AHEAD:
            return
        load.is_reading = True
        reader, position, size = load.reader, load.position, min(left, PIECE_BYTES)
        self._worker.submit(lambda: _read(reader, position, size), lambda read: self._on_read(load, *read))

    def _on_read(self, load: _Load, piece: bytes, problem: str) -> None:
        load.is_reading = False
        if load is not self._load:
            load.reader.release()
        elif problem or not piece:
            self._replace_damaged(
                load.id, problem or f"{names.snapshot_name(load.id)}: ends at byte {load.position}"
            )
        else:
            load.position += len(piece)
            load.pieces.append(piece)
            self._read_ahead(load)
        self._driver.wake()

    def _replace_damaged(self, snapshot_id: OffsetAndEpoch, reason: str) -> None:
        """Name a damaged snapshot, and load what can be loaded instead."""
        self.stop()
        self._driver.wake()
        start = self._log_start()
        older = [
            info.id
            for info in self._snapshots.infos
            if max(start, self._applied_offset) <= info.id.offset < snapshot_id.offset
        ]
        if older:
            instead = f"the snapshot at offset {older[-1].offset} is loaded instead"
        elif start <= self._applied_offset:
            instead = f"the log is applied from offset {self._applied_offset} instead"
        else:
            instead = f"and the log begins at offset {start}: nothing here leads to a state"
            self.stuck_reason = f"{reason}; {instead}"
            self.retry_at_ms = self._driver.now().mono_ms + _RETRY_MS
        alarm = f"snapshot_damaged: {reason}; {instead}"
        if self._damaged.get(snapshot_id) != alarm:
            self._damaged[snapshot_id] = alarm
            self._logger.error(
                "snapshot_damaged",
                offset=snapshot_id.offset,
                epoch=snapshot_id.epoch,
                reason=reason,
                instead=instead,
            )
        if not self.stuck_reason:
            # Else the cleaner, which knows only what counts, has the log begin at it: the snapshot that was
            # loaded instead goes, and the next start finds nothing that leads to a state. Where it is the
            # only one it is tried again.
            self._snapshots.mark_damaged(snapshot_id)
            self._driver.deliver(SnapshotDamaged(snapshot_id))
        if older:
            self._begin(older[-1])


def _read(reader: SnapshotReader, position: int, size: int) -> tuple[bytes, str]:
    """Read a piece, in the thread. Returns it, and why not if it cannot be read."""
    try:
        return reader.read(position, size), ""
    except StorageFailure:
        raise
    except StorageError as error:
        return b"", str(error)
