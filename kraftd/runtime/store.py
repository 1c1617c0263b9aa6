"""Carries out the effects that touch the disk: barriers at once, flushes and cold reads in threads.

Entered by the effect executor, as its `Store`. A barrier blocks the loop until it is durable; that is rare
(an election, a truncation), and nothing may happen before it anyway. A flush runs in the flush thread, one at
a time. Group commit follows from it: while one runs, the raft node asks for no other, and once it has ended
it asks for one of all that was appended meanwhile. Any failure of the disk is raised on the loop and ends the
process: it is never retried (D-03).

Not here: files (`kraftd.storage`) and the order of effects (`effect_executor`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kraftd.errors import StorageError
from kraftd.raft import RaftNode
from kraftd.raft.effects import Append, ColdRead, Flush, RememberStateHealth
from kraftd.raft.events import BatchesRead, LogFlushed
from kraftd.runtime.driver import Driver, TimedTurnTask
from kraftd.runtime.effect_executor import Store
from kraftd.runtime.raft_metrics import RaftMetrics
from kraftd.runtime.worker import Done, Job, Worker
from kraftd.storage import StorageFailure
from kraftd.storage.damage import Damage
from kraftd.storage.flush import FlushJob
from kraftd.storage.log_reader import DamagedReadError, ReaderView
from kraftd.storage.node_directory import NodeDirectory
from kraftd.types import NEVER_MS, Election, Epoch, Now, Offset, OffsetAndEpoch, PeerIdentity

RECOVERY_POINT_INTERVAL_MS = 1_000
"""How long the recovery point of a flush may stay in the page cache only (D-05)."""
_IDLE_MS = 450
"""A flush that comes so long after the one before syncs the recovery point along with the log. An idle leader
writes a NoOp every 500 ms: so nobody needs a flush, and two wake-ups, for the recovery point alone.
"""


class StoreFindings(NamedTuple):
    """Who is told of what the store meets beside its work."""

    damaged: Callable[[int, Damage], None]
    """Of new damage that a read found, and in which generation of the log."""
    not_removed: Callable[[Sequence[str]], None]
    """Of files that a cut or an installation could not remove, a text each."""


class DirectoryStore(Store, TimedTurnTask):
    """Reads and writes one node's directory for its raft node."""

    def __init__(
        self,
        directory: NodeDirectory,
        driver: Driver,
        raft_node: RaftNode,
        metrics: RaftMetrics,
        findings: StoreFindings,
        *,
        flush_worker: Worker,
        read_worker: Worker,
    ) -> None:
        self._directory = directory
        self._log = directory.log
        self._driver = driver
        self._raft_node = raft_node
        self._metrics = metrics
        self._flush_worker = flush_worker
        self._read_worker = read_worker
        self._findings = findings
        self._flushing_since_ms = -1
        self._begun_flush: tuple[Job, Done] | None = None
        self._flush_wanted = False
        self._recovery_point_synced_at_ms = 0
        self._flush_began_ms = 0
        self._recovery_point_is_dirty = False

    # Barriers.

    def persist_election(self, election: Election) -> None:
        """Write the quorum-state file, durably."""
        self._directory.write_election(election)

    def remember_peer(self, peer: PeerIdentity) -> None:
        """Write to the sidecar which directory and start a voter id belongs to, durably."""
        self._directory.remember_peer(peer)

    def remember_state_health(self, effect: RememberStateHealth) -> None:
        """Write to the sidecar whether this node may vote, durably."""
        self._directory.remember_state_health(effect.health, effect.reasons)

    def truncate(self, end_offset: Offset, generation: int) -> None:
        """Truncate the log, durably, after the running flush has ended (D-03)."""
        # The flush thread may be syncing the very files that are cut and removed now: `Log.truncate` raises
        # if it still is.
        self.drain()
        self._log.truncate(end_offset, generation)

    def install_snapshot(self, snapshot_id: OffsetAndEpoch, generation: int) -> None:
        """Put a snapshot in the place of the log, durably, after the running flush has ended (D-03)."""
        self.drain()
        self._directory.install_snapshot(snapshot_id, generation)
        self._remove_retired()

    def cut_log(self, start: OffsetAndEpoch) -> None:
        """Begin the log at the end of a snapshot, durably. A flush goes on: it holds its files (D-22)."""
        self._directory.cut_front(start)
        self._remove_retired()

    def _remove_retired(self) -> None:
        """Unlink what nobody reads, in the reader thread: behind the reads that were asked for before."""
        self._read_worker.submit(self._directory.take_removal().run, self._findings.not_removed)

    # The log.

    def append(self, append: Append) -> None:
        """Append batches to the log, not durably."""
        self._log.append(append.batches, append.base_offset, append.end_offset)
        self._metrics.appended(
            append.base_offset,
            append.end_offset,
            self._driver.now().mono_ms,
            as_leader=self._raft_node.is_leader,
        )

    def assign_epoch(self, epoch: Epoch, start_offset: Offset) -> None:
        """Note the start of an epoch that has no record yet."""
        self._log.assign_epoch(epoch, start_offset)

    def start_flush(self, flush: Flush) -> None:  # noqa: ARG002 - a flush takes all that is appended
        """Begin a flush, or remember to begin one when the running one has ended."""
        if self._flushing_since_ms >= 0:
            # Only the recovery point is being flushed (`run`), of which the raft node knows nothing: it
            # appended records meanwhile, and no other flush would take them.
            self._flush_wanted = True
        else:
            self._begin_flush(self._driver.now().mono_ms, report=True)

    def start_read(self, read: ColdRead) -> None:
        """Begin to read old batches in the reader thread."""
        generation = self._log.generation
        self.read_cold(
            read.offset,
            read.max_bytes,
            lambda records: self._driver.deliver(BatchesRead(read.token, generation, records)),
        )

    def read_cold(self, offset: Offset, max_bytes: int, done: Callable[[bytes], None]) -> None:
        """Read batches of the log in the reader thread. New damage is told (D-06)."""
        view = self._log.reader_view().pin()

        def ended(read: tuple[bytes, Damage | None]) -> None:
            view.release()
            records, damage = read
            if damage is not None:
                self._findings.damaged(view.generation, damage)
            done(records)

        self._read_worker.submit(lambda: _read(view, offset, max_bytes), ended)

    # Turn task, end of turn, health.

    def run(self, now: Now) -> None:
        """Make the recovery point durable, a second after it last was; not while a flush runs, which may."""
        # Asked first, since this runs each turn and it is hardly ever dirty for long.
        if self._recovery_point_is_dirty and now.mono_ms >= self.wake_at_ms():
            self._begin_flush(now.mono_ms, report=False)

    def wake_at_ms(self) -> int:
        """When the recovery point must be made durable; NEVER_MS if it is."""
        if not self._recovery_point_is_dirty or self._flushing_since_ms >= 0:
            return NEVER_MS
        return self._recovery_point_synced_at_ms + RECOVERY_POINT_INTERVAL_MS

    def submit_flush(self) -> None:
        """Submit the flush that was begun to its thread. Call it at the end of a turn.

        Before, the thread would wake only to wait for the GIL, which the loop still holds. And a new leader
        has told the others of its epoch by now, and writes where that begins while they answer.
        """
        if self._begun_flush is not None:
            job, done = self._begun_flush
            self._begun_flush = None
            self._flush_worker.submit(job, done)
            # While the flush runs. What it has made durable is told on this loop, and so after this.
            self._log.save_epochs()

    def drain(self) -> None:
        """Wait until no flush runs and none will begin by itself: for a truncation, and at the end."""
        self._flush_wanted = False
        self.submit_flush()
        self._flush_worker.drain()

    def flush_running_ms(self, now: Now) -> int:
        """Milliseconds since the running flush began; 0 if none runs."""
        return now.mono_ms - self._flushing_since_ms if self._flushing_since_ms >= 0 else 0

    def _begin_flush(self, now_ms: int, *, report: bool) -> None:
        since_synced_ms = now_ms - self._recovery_point_synced_at_ms
        since_flush_ms = now_ms - self._flush_began_ms
        sync_recovery_point = since_synced_ms >= RECOVERY_POINT_INTERVAL_MS or since_flush_ms >= _IDLE_MS
        self._flush_began_ms = now_ms
        self._directory.raise_high_watermark(self._raft_node.high_watermark)
        if sync_recovery_point:
            self._recovery_point_synced_at_ms = now_ms
            self._recovery_point_is_dirty = False
            self._directory.write_high_watermark()
        job = self._log.begin_flush(sync_recovery_point=sync_recovery_point, saves_epochs=False)
        self._flushing_since_ms = now_ms
        self._begun_flush = job.run, lambda _: self._flushed(job, report=report)

    def _flushed(self, job: FlushJob, *, report: bool) -> None:
        self._metrics.flushed(self._driver.now().mono_ms - self._flushing_since_ms)
        self._flushing_since_ms = -1
        generation, end_offset = self._log.flush_done(job)
        self._recovery_point_is_dirty = self._recovery_point_is_dirty or report
        if self._flush_wanted:
            self._flush_wanted = False
            self._begin_flush(self._driver.now().mono_ms, report=True)
        if report:
            self._driver.deliver(LogFlushed(generation, end_offset))
        else:
            self._driver.wake()


def _read(view: ReaderView, offset: Offset, max_bytes: int) -> tuple[bytes, Damage | None]:
    """Read batches, in the thread.

    Returns:
        The bytes, empty if the log was truncated meanwhile or is damaged, which is not fatal (D-14); and the
        damage, if it was not known before.
    """
    try:
        return view.read(offset, max_bytes), None
    except StorageFailure:
        raise
    except DamagedReadError as error:
        return b"", error.damage
    except StorageError:
        return b"", None
