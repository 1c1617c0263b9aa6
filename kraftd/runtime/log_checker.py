"""Reads what the start has taken unread, a piece at a time, and decides what becomes of damage in the log.

A turn task. Once the node has applied what the newest snapshot stands for, the segments below it are read in
the reader thread: small pieces with pauses, and none while a read for others waits, so that neither a voter's
fetch nor a turn of the loop is held up. One segment after the other is pinned meanwhile (D-22, D-23).

*Damage*, found by this or by any other read. If a whole snapshot holds all that its segment held, nothing is
lost: the raft node is asked to begin the log at the oldest such snapshot, once a second until it agrees
(somebody may be downloading an older one), and one line tells of it. Anything else is a loss, and the node
does not count (D-06).

Example: node 2 has segments that begin at 0, 100 and 200, and snapshots at 120 and 240. A bad byte at offset
70 is in a segment that ends at 100: the log begins at 120 from then on. With one at 130 it begins at 240, for
that segment ends at 200. One at 210 is a loss: the last segment goes on behind every snapshot.

Not here: how a segment is read (`kraftd.storage.unread_segments`), the cut (`kraftd.runtime.store`).
Differs: Kafka ends the process, or never notices.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from kraftd.raft.events import CutRequested, LogDamaged
from kraftd.runtime.driver import Driver, TimedTurnTask
from kraftd.runtime.observability import Logger
from kraftd.runtime.worker import Worker
from kraftd.storage.damage import Damage
from kraftd.storage.log_start import covered_text
from kraftd.storage.node_directory import NodeDirectory
from kraftd.storage.segment import NO_END
from kraftd.storage.unread_segments import SegmentCheck
from kraftd.types import NEVER_MS, Now, Offset, OffsetAndEpoch

PAUSE_MS: Final = 10
"""Between two pieces: some 6 MB are read a second, which takes a tenth of one thread."""
ASK_INTERVAL_MS: Final = 1_000


class LogChecker(TimedTurnTask):
    """Checks one node's log."""

    def __init__(
        self,
        directory: NodeDirectory,
        *,
        driver: Driver,
        applied_offset: Callable[[], Offset],
        is_usable: Callable[[OffsetAndEpoch], bool],
        worker: Worker,
        logger: Logger,
    ) -> None:
        """`is_usable` says of a snapshot whether the raft node counts it and nobody has found it bad."""
        self._directory = directory
        self._driver = driver
        self._applied_offset = applied_offset
        self._is_usable = is_usable
        self._worker = worker
        self._logger = logger
        self._check = directory.log.unread.next_check()
        self._is_running = False
        self._due_ms = 0
        self._cut_to: Offset = 0
        """Up to where the log has damage that costs nothing: it is to begin there or behind it."""
        self._ask_at_ms = 0

    def run(self, now: Now) -> None:
        """Ask for the cut, or read the next piece, if it is time."""
        if self._cut_to:
            self._ask(now)
        elif not self._is_running and now.mono_ms >= self._due_ms:
            self._drop_what_is_gone()
            self._read_on(now)

    def wake_at_ms(self) -> int:
        """When the next piece or question is due; NEVER_MS if none is."""
        if self._cut_to:
            return self._ask_at_ms
        # What is not applied yet comes with turns of its own.
        waits = self._check is None or self._is_running or self._applied_offset() < self._check.end_offset
        return NEVER_MS if waits else self._due_ms

    def damaged(self, generation: int, damage: Damage) -> None:
        """Decide about damage that was found in the log as it was in this generation."""
        log = self._directory.log
        if generation == log.generation:
            files = [(str(path), base_offset) for base_offset, path, _ in log.segment_files]
            if damage.file not in [file for file, _ in files]:
                return  # the log was cut meanwhile, and does not need it
            ends = {file: end_offset for (file, _), (_, end_offset) in pairwise(files)}
            end_offset = ends.get(damage.file, NO_END)
            start = self._snapshot_over(end_offset)
            if start is not None:
                self._cut(end_offset, start, damage)
                return
        # Of the generation that was read. The log may have been truncated meanwhile, and what was read
        # replaced: node 2 would be damaged for bytes that it no longer has.
        self._driver.deliver(LogDamaged(generation, str(damage)))

    def _snapshot_over(self, end_offset: Offset) -> OffsetAndEpoch | None:
        """The oldest snapshot that holds all that is before an offset."""
        ids = (info.id for info in self._directory.snapshots.infos)
        return next((one for one in ids if one.offset >= end_offset and self._is_usable(one)), None)

    def _cut(self, end_offset: Offset, start: OffsetAndEpoch, damage: Damage) -> None:
        if self._cut_to >= end_offset:
            return  # told already, or gone with what was
        self._cut_to, self._ask_at_ms = end_offset, 0
        self._logger.warning("damage_below_snapshot", text=covered_text(damage, start.offset))
        self._driver.wake()

    def _ask(self, now: Now) -> None:
        if self._directory.log.start_offset >= self._cut_to:
            self._cut_to = 0
            self._next()
        elif now.mono_ms >= self._ask_at_ms:
            self._ask_at_ms = now.mono_ms + ASK_INTERVAL_MS
            # Not the one of the last time: it may have gone bad since, and another one may be there.
            start = self._snapshot_over(self._cut_to)
            if start is not None:
                self._driver.deliver(CutRequested(start))

    def _drop_what_is_gone(self) -> None:
        """Let go of the segment if the log goes on without it: its file stays until nobody reads it."""
        check, unread = self._check, self._directory.log.unread
        if check is not None and not unread.is_needed(check):
            unread.finish(check)
            self._check = unread.next_check()

    def _read_on(self, now: Now) -> None:
        """Read the next piece, once what the segment holds is applied and nobody else wants the thread."""
        check = self._check
        if check is None or self._applied_offset() < check.end_offset:
            return
        if self._worker.pending:
            self._due_ms = now.mono_ms + PAUSE_MS
        else:
            self._is_running = True
            self._worker.submit(check.advance, lambda is_over: self._advanced(check, is_over=is_over))

    def _advanced(self, check: SegmentCheck, *, is_over: bool) -> None:
        self._is_running = False
        self._due_ms = self._driver.now().mono_ms + PAUSE_MS
        self._driver.wake()
        if not is_over:
            return
        log = self._directory.log
        damage = log.unread.finish(check)
        self._check = None
        if damage is None:
            self._next()
        else:
            self.damaged(log.generation, damage)

    def _next(self) -> None:
        """Go on with the next segment, unless one is being read."""
        if self._check is None:
            self._check = self._directory.log.unread.next_check()
