"""Ctrl-C while a program's modules are imported: then nothing of its own can catch it yet.

The imports take tenths of a second, and what they hold has changed nothing: an interrupt ends the process at
once and silently, with the code that it has later.
"""

import os
import signal
from collections.abc import Callable
from typing import NoReturn

EXIT_INTERRUPTED = 128 + signal.SIGINT


def run(load: Callable[[], Callable[[], object]]) -> None:
    """Import a program by `load`, and run what that returns.

    A process that was started deaf to SIGINT stays deaf.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    program = load()
    try:
        signal.signal(signal.SIGINT, before)
        program()
    except KeyboardInterrupt:
        _end()


def _end(*_: object) -> NoReturn:
    """End the process: no exception, which an import could swallow or tell in its own words."""
    os._exit(EXIT_INTERRUPTED)
