"""How do the effects that touch the disk happen? Barriers at once, flushes and cold reads in threads.

Entered through the interpreter's `Store` port, and by the applier for batches that are no longer in memory.
A barrier blocks the loop until it is durable; that is rare (an election, a truncation), and nothing may
happen before it anyway. A flush runs in the flush thread, one at a time; whatever is appended meanwhile
goes with the next one. Any failure of the disk is raised on the loop and ends the process: it is never
retried (D-03).

Not here: files (`kraftd.storage`) and the order of effects (`interpreter`).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from kraftd.errors import StorageError
from kraftd.raft.effects import Append, ColdRead, Flush, RememberWholeness
from kraftd.raft.events import BatchesRead, LogDamaged, LogFlushed, PeerIdentity
from kraftd.runtime.driver import NEVER_MS, Driver
from kraftd.runtime.flusher import Done, Job, Worker
from kraftd.runtime.metrics import RaftMeters
from kraftd.storage import StorageFailure
from kraftd.storage.flush import FlushJob
from kraftd.storage.node_directory import NodeDirectory
from kraftd.storage.reading import DamagedReadError, ReaderView
from kraftd.types import Election, Epoch, Now, Offset

HINT_INTERVAL_MS = 1_000
"""How long a flushed offset may be known only to the page cache (D-05)."""


class Roles(Protocol):
    """What the store must know of the member, for its meters."""

    @property
    def is_leader(self) -> bool:
        """Whether what is appended is our own."""

    def committed_batches(self, from_offset: Offset, max_bytes: int) -> list[bytes] | None:
        """Committed batches that are still in memory; None if they are not."""

    def take_values(self, base_offset: Offset) -> Sequence[bytes] | None:
        """What such a batch holds, if that is at hand."""


class DirectoryStore:
    """Carries out what the core wants of one node's directory."""

    def __init__(
        self,
        directory: NodeDirectory,
        driver: Driver,
        member: Roles,
        meters: RaftMeters,
        *,
        flush_worker: Worker,
        read_worker: Worker,
    ) -> None:
        self._directory = directory
        self._log = directory.log
        self._driver = driver
        self._member = member
        self._meters = meters
        self._flush_worker = flush_worker
        self._read_worker = read_worker
        self._flushing_since_ms = -1
        self._handed_over: tuple[Job, Done] | None = None
        self._flush_wanted = False
        self._hint_synced_at_ms = 0
        self._hint_is_dirty = False

    # Barriers.

    def persist_election(self, election: Election) -> None:
        """Implements `Store`."""
        self._directory.write_election(election)

    def remember_peer(self, peer: PeerIdentity) -> None:
        """Implements `Store`."""
        self._directory.remember_peer(peer.node_id, peer.directory_id, peer.start_counter, peer.start_id)

    def remember_wholeness(self, wholeness: RememberWholeness) -> None:
        """Implements `Store`."""
        self._directory.remember_wholeness(wholeness.state, wholeness.reasons)

    def truncate(self, end_offset: Offset, generation: int) -> None:
        """Implements `Store`: first the running flush must end (D-03)."""
        self.settle()
        self._log.truncate(end_offset, generation)

    # The log.

    def append(self, append: Append) -> None:
        """Implements `Store`."""
        self._log.append(append.batches, append.base_offset, append.end_offset)
        self._meters.appended(
            append.base_offset,
            append.end_offset,
            self._driver.now().mono_ms,
            as_leader=self._member.is_leader,
        )

    def assign_epoch(self, epoch: Epoch, start_offset: Offset) -> None:
        """Implements `Store`."""
        self._log.assign_epoch(epoch, start_offset)

    def start_flush(self, flush: Flush) -> None:  # noqa: ARG002 - whatever is appended by now rides along
        """Implements `Store`: one at a time; a flush that is asked for meanwhile comes next."""
        if self._flushing_since_ms >= 0:
            self._flush_wanted = True
        else:
            self._begin_flush(self._driver.now().mono_ms, report=True)

    def start_read(self, read: ColdRead) -> None:
        """Implements `Store`."""
        generation = self._log.generation
        self.read_cold(
            read.offset,
            read.max_bytes,
            lambda records: self._driver.deliver(BatchesRead(read.token, generation, records)),
        )

    # For the applier.

    def committed_batches(self, from_offset: Offset, max_bytes: int) -> list[bytes] | None:
        """Implements `CommittedLog`."""
        return self._member.committed_batches(from_offset, max_bytes)

    def take_values(self, base_offset: Offset) -> Sequence[bytes] | None:
        """Implements `CommittedLog`."""
        return self._member.take_values(base_offset)

    def read_cold(self, offset: Offset, max_bytes: int, done: Callable[[bytes], None]) -> None:
        """Implements `CommittedLog`. Damage is told to the core, whoever met it (D-06)."""
        view = self._log.reader_view()

        def ended(read: tuple[bytes, str]) -> None:
            records, damage = read
            if damage:
                self._driver.deliver(LogDamaged(view.generation, damage))
            done(records)

        self._read_worker.submit(lambda: _read(view, offset, max_bytes), ended)

    # For the driver and for health.

    def run(self, now: Now) -> None:
        """Implements `Chore`: make the flushed offset durable where it is kept, once nothing is flushed."""
        if now.mono_ms >= self.wake_at_ms():
            self._begin_flush(now.mono_ms, report=False)

    def wake_at_ms(self) -> int:
        """Implements `TimedChore`."""
        if not self._hint_is_dirty or self._flushing_since_ms >= 0:
            return NEVER_MS
        return self._hint_synced_at_ms + HINT_INTERVAL_MS

    def hand_over(self) -> None:
        """Give the flush that was begun to its thread: at the end of a turn, when the loop goes to sleep.

        Earlier, the thread would wake only to wait for the interpreter that the loop still holds.
        """
        if self._handed_over is not None:
            job, done = self._handed_over
            self._handed_over = None
            self._flush_worker.submit(job, done)

    def settle(self) -> None:
        """Wait until no flush runs and none will begin by itself: before a truncation, and at the end."""
        self._flush_wanted = False
        self.hand_over()
        self._flush_worker.settle()

    def flush_running_ms(self, now: Now) -> int:
        """For how long the current flush has been running; 0 if none is."""
        return now.mono_ms - self._flushing_since_ms if self._flushing_since_ms >= 0 else 0

    def _begin_flush(self, now_ms: int, *, report: bool) -> None:
        sync_hint = now_ms - self._hint_synced_at_ms >= HINT_INTERVAL_MS
        if sync_hint:
            self._hint_synced_at_ms = now_ms
            self._hint_is_dirty = False
        job = self._log.begin_flush(sync_hint=sync_hint)
        self._flushing_since_ms = now_ms
        self._handed_over = job.run, lambda _: self._flushed(job, report=report)

    def _flushed(self, job: FlushJob, *, report: bool) -> None:
        self._meters.flushed(self._driver.now().mono_ms - self._flushing_since_ms)
        self._flushing_since_ms = -1
        generation, end_offset = self._log.flush_done(job)
        self._hint_is_dirty = self._hint_is_dirty or report
        if self._flush_wanted:
            self._flush_wanted = False
            self._begin_flush(self._driver.now().mono_ms, report=True)
        if report:
            self._driver.deliver(LogFlushed(generation, end_offset))
        else:
            self._driver.wake()


def _read(view: ReaderView, offset: Offset, max_bytes: int) -> tuple[bytes, str]:
    """Read in the thread; nothing where the log was cut meanwhile or is damaged: not fatal (D-14).

    Returns:
        What was read, and which damage was found that was not known.
    """
    try:
        return view.read(offset, max_bytes), ""
    except StorageFailure:
        raise
    except DamagedReadError as error:
        return b"", str(error.damage) if error.damage is not None else ""
    except StorageError:
        return b"", ""
