"""What do the tools among the tests have in common on their command lines?

A word that makes no sense is one line and exit code 2, an interruption is one line and exit code 130:
`Parser`, the types of its arguments, and `run`. Not here: what any of them does.
"""

import argparse
import math
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import InvalidStateError
from typing import NoReturn

INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """One that complains in one line; `--help` has the rest."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def count(text: str) -> int:
    """A whole number above 0."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


def duration(text: str) -> float:
    """How long something takes: a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def spent(began: float) -> str:
    """How long it took since then (monotonic), and what this process and its ended children cost so far."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_s = sum(each.ru_utime + each.ru_stime for each in usage)
    return f"{time.monotonic() - began:.0f} s, {cpu_s:.0f} s of CPU"


def run(main: Callable[[], int]) -> NoReturn:
    """Exit with what it returns."""
    threading.excepthook = _thread_ended
    try:
        code = main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def end_when_interrupted() -> None:
    """For the processes of a pool: the one that started them says what there is to say."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _thread_ended(told: threading.ExceptHookArgs) -> None:
    """Python's pools (3.11) stumble over what was cancelled when their processes are interrupted."""
    if told.exc_type is not InvalidStateError:
        threading.__excepthook__(told)
