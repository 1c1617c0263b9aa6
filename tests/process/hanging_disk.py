"""A daemon whose disk hangs: the real `kraftd`, in which one call does not return, whatever signal comes.

`python hanging_disk.py PLACE start CONFIG`. PLACE is where it hangs: `flush`, in a job of the flush thread,
for which the loop waits when the daemon stops; `close`, on the loop itself, as the directory is closed then;
`barrier`, on the loop, while the daemon runs. What hangs says so first: a line `disk_hangs`.
"""

import asyncio
import ctypes
import sys
from typing import Any, NoReturn

from kraftd.runtime.daemon import Daemon
from kraftd.runtime.main import main
from kraftd.storage.node_directory import NodeDirectory

_MUTEX_BYTES = 64
"""Enough for a mutex of any libc; one of zeros is a plain one, and open."""


def hang() -> NoReturn:
    """Wait for ever, as for a disk: outside of Python, and no handler of a signal ends it."""
    sys.stderr.write('{"event":"disk_hangs"}\n')
    sys.stderr.flush()
    libc = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(_MUTEX_BYTES)
    while True:
        libc.pthread_mutex_lock(mutex)


def install(place: str) -> None:
    start, stop, close = Daemon.start, Daemon.stop, NodeDirectory.close

    async def started(process: Daemon) -> None:
        await start(process)
        if place == "barrier":
            asyncio.get_running_loop().call_soon(hang)

    async def stopped(process: Daemon) -> None:
        internals: Any = process
        if place == "flush":
            internals._server.workers[0].submit(hang, lambda _: None)
        await stop(process)

    def closed(directory: NodeDirectory) -> None:
        if place == "close":
            hang()
        close(directory)

    patched: Any = Daemon
    patched.start, patched.stop, NodeDirectory.close = started, stopped, closed  # type: ignore[method-assign]


if __name__ == "__main__":
    install(sys.argv[1])
    main(sys.argv[2:])
