"""A daemon with a bomb in it: the real `kraftd`, in which something raises at a chosen place.

`python bomb.py PLACE start CONFIG`. PLACE is where the unexpected happens once the node has started:
`callback` (in a Protocol's `data_received`), `oserror` (the same, with an error that event loops like to
swallow), `timer`, `soon`, `thread` (in a job of the flush thread), `plain-thread` (in a thread nobody waits
for), `task`, `fsync` (the disk refuses).
"""

import asyncio
import errno
import os
import sys
import threading
from typing import Any

from kraftd.net.server import InboundConnection
from kraftd.runtime import daemon
from kraftd.runtime.main import main


class BombError(RuntimeError):
    """Nobody expects this."""


def explode(*_: object) -> None:
    raise BombError("boom")


def arm(node: daemon.Node, place: str) -> None:
    loop = asyncio.get_running_loop()
    internals: Any = node
    match place:
        case "callback":
            InboundConnection.frames_received = explode
        case "oserror":

            def refuse(*_: object) -> None:
                raise BrokenPipeError(errno.EPIPE, "boom")

            InboundConnection.frames_received = refuse
        case "timer":
            loop.call_later(0.1, explode)
        case "soon":
            loop.call_soon(explode)
        case "thread":
            internals._parts.workers[0].submit(explode, lambda _: None)
        case "plain-thread":
            threading.Thread(target=explode).start()
        case "task":

            async def fail() -> None:
                explode()

            internals._tasks.create_task(fail())
        case "fsync":

            def refuse_sync(_handle: int) -> None:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

            os.fsync = os.fdatasync = refuse_sync
            import kraftd.storage.filesystem as filesystem

            filesystem.os = os


def install(place: str) -> None:
    start = daemon.Node.start

    async def start_and_arm(node: daemon.Node) -> None:
        await start(node)
        arm(node, place)

    daemon.Node.start = start_and_arm


if __name__ == "__main__":
    install(sys.argv[1])
    main(sys.argv[2:])
