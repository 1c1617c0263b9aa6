"""Checks once a second that the directory of this node still exists and is still its own.

A turn task. The check itself happens in the reader thread: asking a dead mount may hang, and neither the
loop nor a flush may wait for it. While one check is running no second one begins.

On a loss the process ends with one line (D-17), because it can no longer keep what it promises: at once if
another process may use the directory. If the directory is gone, a leader first resigns, as it does when its
log is damaged, so that the cluster does not wait for an election timeout.
"""

from kraftd.raft import RaftNode
from kraftd.raft.events import LogDamaged
from kraftd.runtime.driver import Driver, TimedTurnTask
from kraftd.runtime.worker import Worker
from kraftd.storage import StorageFailure
from kraftd.storage.node_directory import NodeDirectory
from kraftd.storage.presence import Loss, PresenceCheck
from kraftd.types import NEVER_MS, Now

CHECK_INTERVAL_MS = 900
"""Time between two checks at most: a loss is noticed within a second."""
_EARLY_MS = 200
"""So much earlier a check begins in a turn that comes anyway: a leader answers a fetch every 150 ms, and
nobody is woken for the check alone.
"""
RESIGN_MS = 200
"""How long a leader without a directory waits for its EndQuorumEpoch to leave."""

_RESIGNING = "its files are gone: it resigns, and ends"
"""The reason that a leader gives meanwhile; the last line names the files and what to do."""


class Guard(TimedTurnTask):
    """Watches one node's directory."""

    def __init__(self, directory: NodeDirectory, driver: Driver, raft_node: RaftNode, worker: Worker) -> None:
        self._directory = directory
        self._driver = driver
        self._raft_node = raft_node
        self._worker = worker
        self._check_at_ms = 0
        self._is_checking = False
        self._loss: Loss | None = None
        self._end_at_ms = NEVER_MS

    def run(self, now: Now) -> None:
        """Begin a check if one is due.

        Raises:
            StorageFailure: The directory is lost, and a leader has had its time to resign.
        """
        if self._loss is not None and now.mono_ms >= self._end_at_ms:
            raise StorageFailure(self._loss.text)
        if now.mono_ms < self._check_at_ms - _EARLY_MS:
            return
        self._check_at_ms = now.mono_ms + CHECK_INTERVAL_MS
        if not self._is_checking and self._loss is None:
            self._is_checking = True
            check = self._directory.presence_check()
            self._worker.submit(check.run, lambda loss: self._checked(check, loss))

    def wake_at_ms(self) -> int:
        """When the next check is due, or the end of a leader that has resigned."""
        return self._check_at_ms if self._loss is None else min(self._check_at_ms, self._end_at_ms)

    def _checked(self, check: PresenceCheck, loss: Loss | None) -> None:
        self._is_checking = False
        # A truncation or a cut removed segments while the check looked for them: that is no loss.
        if loss is None or not self._directory.is_current(check):
            return
        if loss.is_shared or not self._raft_node.is_leader:
            raise StorageFailure(loss.text)
        self._loss = loss
        self._directory.disk.lost = loss.text
        self._end_at_ms = self._driver.now().mono_ms + RESIGN_MS
        self._driver.deliver(LogDamaged(check.generation, _RESIGNING))
