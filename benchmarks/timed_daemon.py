"""kraftd, with the CPU of each turn of its loop measured: `timed_daemon.py start CONFIG`.

What `python -m kraftd` is, but that each second the longest turn since the start is written into the file
`turns.json` of the working directory, in milliseconds, with how many were longer than ten. Deleting the file
begins anew. A turn is measured in CPU of the loop's thread, since other processes that want a core are no
part of it; and by the clock, which tells too what it waited for the disk and for the interpreter.
"""

import time
from pathlib import Path

import msgspec

from kraftd.runtime.driver import Driver
from kraftd.runtime.main import main

TURNS_FILE = "turns.json"
LONG_MS = 10.0


class Turns(msgspec.Struct):
    """What was seen since the file was deleted."""

    count: int = 0
    long: int = 0
    longest_ms: float = 0.0
    longest_clock_ms: float = 0.0


def measure_turns() -> None:
    """Let each turn of this process be measured."""
    turn, seen, path, told_s = Driver._turn, Turns(), Path(TURNS_FILE), 0.0

    def timed(self: Driver) -> None:
        nonlocal told_s, seen
        began_s, began_ns = time.perf_counter(), time.thread_time_ns()
        turn(self)
        took_ms, clock_ms = (time.thread_time_ns() - began_ns) / 1e6, 1e3 * (time.perf_counter() - began_s)
        seen.count += 1
        seen.long += took_ms > LONG_MS
        seen.longest_ms = max(seen.longest_ms, took_ms)
        seen.longest_clock_ms = max(seen.longest_clock_ms, clock_ms)
        now_s = time.monotonic()
        if now_s - told_s > 1:
            if told_s and not path.exists():
                seen = Turns()
            path.write_bytes(msgspec.json.encode(seen))
            told_s = now_s

    Driver._turn = timed  # type: ignore[method-assign]


if __name__ == "__main__":
    measure_turns()
    main()
