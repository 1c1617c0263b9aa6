"""The loop of a node: uvloop's, but each lookup of a host's addresses has a thread of its own.

libuv looks hosts up in threads of its own, two at a time and in order, none can be called off, and a loop is
not closed before the last one has ended. With name servers that are gone a third name would wait for two
others, for ten seconds each, and a node that has stopped would go on until they are told; Docker would kill
it. A thread of ours stands before nobody, and is no reason for the process to stay.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import uvloop

_Infos: TypeAlias = Sequence[tuple[Any, Any, int, str, Any]]


class NodeLoop(uvloop.Loop):
    """uvloop's loop with lookups that hold nobody up."""

    async def getaddrinfo(self, host: Any, port: Any, **hints: Any) -> Any:
        """As `socket.getaddrinfo`, of which this raises the errors."""
        result: asyncio.Future[_Infos] = self.create_future()
        look_up = partial(socket.getaddrinfo, host, port, **hints)
        threading.Thread(target=self._run, args=(look_up, result), name="lookup", daemon=True).start()
        return await result

    def _run(self, look_up: "partial[_Infos]", result: "asyncio.Future[_Infos]") -> None:
        """Look up, in the thread."""
        try:
            done = partial(result.set_result, look_up())
        except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
            done = partial(result.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.call_soon_threadsafe(lambda: result.done() or done())
