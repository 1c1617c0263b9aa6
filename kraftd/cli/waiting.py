"""Says what a command waits for, once it has waited for a while: an operator must not take it for hung.

One line on standard error, once, however often a command asks, and whatever the form of the output, which is
on standard output. A wait that is soon over is not worth a line.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from kraftd.cli.output import note

TOLD_AFTER_S = 2.0

_WORTH_MS = 4_000
"""A wait that ends before this is not told."""

_told = threading.Event()
"""Set once the line was said."""

_timers: list[threading.Timer] = []
"""Those of the waits that are under way."""


def begin() -> None:
    """A command begins, which may say its line."""
    _told.clear()


@contextmanager
def patience(what: str, timeout_ms: int) -> Iterator[None]:
    """Say after two seconds what is waited for.

    Args:
        what: In a few words, as "the leader".
        timeout_ms: How long it is waited for; the last attempt may end a little later.
    """
    until = time.time() + timeout_ms / 1_000
    timer = threading.Timer(TOLD_AFTER_S, _tell, (what, until))
    timer.daemon = True
    _timers.append(timer)
    if timeout_ms >= _WORTH_MS:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _timers.remove(timer)


def answered() -> None:
    """What was waited for has begun to come, as the first of many pages: what takes long now is no wait."""
    for timer in _timers:
        timer.cancel()


def _tell(what: str, until: float) -> None:
    if _told.is_set():
        return
    _told.set()
    left_s = round(until - time.time())
    at = datetime.fromtimestamp(until, UTC).strftime("%H:%M:%SZ")
    note(f"waiting for {what}, until about {at} ({left_s} s more)")
