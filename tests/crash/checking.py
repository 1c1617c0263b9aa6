"""The check of what a start took unread, to its end: the daemon's own `LogChecker`, without loop and threads.

Everything is applied already, the raft node agrees to each cut, and time passes at once.
"""

from collections.abc import Callable
from typing import Any

from kraftd.raft.events import CutRequested
from kraftd.runtime.log_checker import LogChecker
from kraftd.storage import NodeDirectory
from kraftd.types import NEVER_MS, Now


class _Surroundings:
    """Driver, worker and logger in one."""

    pending = 0

    def __init__(self, node: NodeDirectory) -> None:
        self._node = node
        self.lines: list[str] = []
        self.losses: list[Any] = []

    def deliver(self, event: Any) -> None:
        if isinstance(event, CutRequested):
            self._node.cut_front(event.start)
        else:
            self.losses.append(event)

    def submit(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        done(job())

    def warning(self, _event: str, *, text: str) -> None:
        self.lines.append(text)

    def wake(self) -> None:
        pass

    def now(self) -> Now:
        return Now(0, 0)


def check_unread(node: NodeDirectory) -> tuple[str, ...]:
    """Read what the start took, and cut the log in front of damage. Returns what was told."""
    around = _Surroundings(node)
    checker = LogChecker(
        node,
        driver=around,  # type: ignore[arg-type]
        applied_offset=lambda: 1 << 62,
        is_usable=lambda _: True,
        worker=around,  # type: ignore[arg-type]
        logger=around,  # type: ignore[arg-type]
    )
    while checker.wake_at_ms() != NEVER_MS:
        checker.run(Now(checker.wake_at_ms(), 0))
    assert not around.losses, around.losses
    return tuple(around.lines)
