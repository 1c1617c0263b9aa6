"""Keeps the log small: at each snapshot, and once a minute, it asks where the log is to begin, and has old
files removed.

A turn task. `kraftd.raft.retention` chooses the snapshot; the raft node agrees or does not (it knows what is
downloaded from here), and its effect cuts the log. The names go at once; the files, when nobody reads them
any more, in a worker, because freeing the blocks of a large one takes tens of milliseconds. What cannot be
removed is told, and promises nothing.

The log rolls where snapshots are due: only whole segments can go, and a start reads no segment that the
newest snapshot holds as a whole (D-23). All nodes count the bytes from one snapshot to the next alike, so a
segment that is full after so many ends where the snapshot does, whatever was appended before that was
written. A snapshot that is due for its time, or after few bytes, ends inside a segment; the log rolls when it
is written, if the segment has become large.

Not here: the files (`kraftd.storage`).
Follows: Kafka's KafkaMetadataLog.maybeClean and the raft client's maybeClean (CLN-01 to CLN-07).
Differs: Kafka looks once a minute alone, and so keeps what came in that minute, too.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from kraftd.raft import KeptSnapshot, LeasedSnapshots, RaftNode, Retention, choose_start
from kraftd.raft.events import CutRequested
from kraftd.runtime.config import LogLimits
from kraftd.runtime.driver import Driver, TimedTurnTask
from kraftd.runtime.observability import Logger
from kraftd.runtime.worker import Worker
from kraftd.storage.node_directory import NodeDirectory
from kraftd.storage.segment import LogConfig
from kraftd.types import Now, Offset, OffsetAndEpoch

INTERVAL_MS: Final = 60_000
ROLL_BYTES: Final = 8 << 20
"""How much the active segment must hold for the log to roll at a snapshot: Kafka's least size of one."""


def rolling_of(limits: LogLimits) -> LogConfig:
    """When the log of a node with these limits rolls."""
    at_snapshots = limits.snapshot_bytes if limits.snapshot_bytes >= ROLL_BYTES else limits.segment_bytes
    return LogConfig(limits.segment_bytes, limits.segment_ms, sealed_at_bytes=at_snapshots)


class _Asked(msgspec.Struct, frozen=True):
    """A cut that the raft node was asked for."""

    start: OffsetAndEpoch
    size_bytes: int
    """How much log and snapshots of the directory held when it was asked."""


class LogCleaner(TimedTurnTask):
    """Cleans one node's directory."""

    def __init__(
        self,
        directory: NodeDirectory,
        retention: Retention,
        *,
        driver: Driver,
        raft_node: RaftNode,
        applied_offset: Callable[[], Offset],
        worker: Worker,
        logger: Logger,
    ) -> None:
        self._directory = directory
        self.cleanings = 0
        """How often the log was cut."""
        self.removed_bytes = 0
        """Log and snapshots that went with it, in bytes."""
        self._retention = retention
        self._driver = driver
        self._raft_node = raft_node
        self._applied_offset = applied_offset
        self._worker = worker
        self._logger = logger
        self._due_ms = 0
        self._asked: _Asked | None = None

    def run(self, now: Now) -> None:
        """Tell of a cut that was carried out, and look for the next one if it is time."""
        if self._asked is not None and self._directory.log.start_offset == self._asked.start.offset:
            self._cut(self._asked)
        if now.mono_ms < self._due_ms:
            return
        self._due_ms = now.mono_ms + INTERVAL_MS
        self._remove()
        leased = self._raft_node.leased_snapshots(now.mono_ms)
        start = self._choose(now, leased)
        self._asked = None if start is None else _Asked(start, self._size_bytes())
        if start is not None:
            ends_leases = any(snapshot_id.offset < start.offset for snapshot_id in leased.observers)
            self._driver.deliver(CutRequested(start, ends_leases))

    def wake_at_ms(self) -> int:
        """When it looks again."""
        return self._due_ms

    def snapshot_written(self, offset: Offset) -> None:
        """Let a new segment begin behind a snapshot, so that the one before can go, and look in this turn."""
        self._directory.log.roll_at(ROLL_BYTES, offset)
        self._due_ms = 0

    def _choose(self, now: Now, leased: LeasedSnapshots) -> OffsetAndEpoch | None:
        log = self._directory.log
        return choose_start(
            [
                KeptSnapshot(info.id, info.size_bytes, info.last_contained_timestamp_ms)
                for info in self._directory.snapshots.infos
            ],
            [(base_offset, size_bytes) for base_offset, _, size_bytes in log.segment_files],
            self._retention,
            now.wall_ms,
            safe_offset=min(log.flushed_offset, self._applied_offset()),
            leased=leased,
        )

    def _cut(self, asked: _Asked) -> None:
        self._asked = None
        size_bytes = self._size_bytes()
        self.cleanings += 1
        self.removed_bytes += (removed_bytes := asked.size_bytes - size_bytes)
        self._logger.info(
            "log_cleaned",
            start_offset=asked.start.offset,
            removed_bytes=removed_bytes,
            size_bytes=size_bytes,
            snapshots=len(self._directory.snapshots.infos),
        )
        self._remove()

    def _size_bytes(self) -> int:
        snapshots = sum(info.size_bytes for info in self._directory.snapshots.infos)
        return self._directory.log.size_bytes + snapshots

    def _remove(self) -> None:
        removal = self._directory.take_removal()
        if removal.handles or removal.paths:
            self._worker.submit(removal.run, self.tell_not_removed)

    def tell_not_removed(self, problems: Sequence[str]) -> None:
        """Tell of files that could not be removed: here, or by a cut or an installation of the store."""
        for text in problems:
            self._logger.warning("file_not_removed", reason=text)
