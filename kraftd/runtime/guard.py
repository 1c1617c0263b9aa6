"""Does the directory that this node writes to still exist, and is it still its own? Looked at once a second.

Entered as a chore of the driver. The look itself happens in the reader thread: asking a dead mount may hang,
and neither the loop nor a flush may wait for it. While one look is under way there is no second.

What follows from a loss: the process ends with one line (D-17), because nothing that it promises is kept any
more. At once if another process may use the directory. If it is gone, a leader says goodbye first, as it does
when its log is damaged, so that nobody has to wait for an election timeout.
"""

from typing import Protocol

from kraftd.raft.events import LogDamaged
from kraftd.runtime.driver import NEVER_MS, Driver
from kraftd.runtime.flusher import Worker
from kraftd.storage import StorageFailure
from kraftd.storage.node_directory import NodeDirectory
from kraftd.storage.presence import Loss
from kraftd.types import Now

LOOK_INTERVAL_MS = 900
"""How far apart the looks are: what happens is noticed within a second."""
FAREWELL_MS = 200
"""How long a leader without a directory may take to tell the others."""

_HANDING_OVER = "its files are gone: it hands over, and ends"
"""What a leader says meanwhile; the last line says which files, and what to do."""


class Role(Protocol):
    """What the guard must know of the member."""

    @property
    def is_leader(self) -> bool:
        """Whether there is a lead to hand over."""


class Guard:
    """Watches one node's directory."""

    def __init__(self, directory: NodeDirectory, driver: Driver, member: Role, worker: Worker) -> None:
        self._directory = directory
        self._driver = driver
        self._member = member
        self._worker = worker
        self._look_at_ms = 0
        self._is_looking = False
        self._loss: Loss | None = None
        self._end_at_ms = NEVER_MS

    def run(self, now: Now) -> None:
        """Implements `Chore`: look if it is time to.

        Raises:
            StorageFailure: The directory is lost, and the others know it.
        """
        if self._loss is not None and now.mono_ms >= self._end_at_ms:
            raise StorageFailure(self._loss.text)
        if now.mono_ms < self._look_at_ms:
            return
        self._look_at_ms = now.mono_ms + LOOK_INTERVAL_MS
        if not self._is_looking and self._loss is None:
            self._is_looking = True
            names = self._directory.names()
            self._worker.submit(names.look, lambda loss: self._looked(names.generation, loss))

    def wake_at_ms(self) -> int:
        """Implements `TimedChore`."""
        return min(self._look_at_ms, self._end_at_ms)

    def _looked(self, generation: int, loss: Loss | None) -> None:
        self._is_looking = False
        if loss is None or generation != self._directory.log.generation:
            return
        if loss.is_shared or not self._member.is_leader:
            raise StorageFailure(loss.text)
        self._loss = loss
        self._directory.disk.lost = loss.text
        self._end_at_ms = self._driver.now().mono_ms + FAREWELL_MS
        self._driver.deliver(LogDamaged(generation, _HANDING_OVER))
