"""The load client: one request in flight on each of N sockets, over any length-prefixed protocol.

Reads a `Work` as JSON from its standard input, writes a `Load` as JSON to its standard output. It runs in
a process of its own, so that what it costs is not hidden in the process that it drives. Every response must
equal the good one; the first that does not ends the run with what it was.
"""

import asyncio
import gc
import itertools
import sys
import time
from functools import partial
from typing import Any

import msgspec
import uvloop
from peers.cluster import Load, percentile
from peers.frames import Work


class Meter:
    """What all sockets count in: latencies inside the window, and the first thing that went wrong."""

    def __init__(self) -> None:
        self.latencies_s: list[float] = []
        self.measuring = False
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def finish(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def fail(self, why: str) -> None:
        if not self.over.done():
            self.over.set_exception(RuntimeError(why))


class Writer(asyncio.Protocol):
    """One socket that writes, waits for the response, and writes again."""

    __slots__ = ("_awaited", "_began", "_good", "_hello", "_meter", "_pending", "_requests", "_transport")

    def __init__(self, work: Work, meter: Meter, first: int) -> None:
        turn = first % len(work.requests)
        self._requests = itertools.cycle(work.requests[turn:] + work.requests[:turn])
        self._good = work.good
        self._hello = work.hello
        self._meter = meter
        self._pending = b""
        self._began = 0.0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if self._hello is None:
            self._write()
        else:
            transport.write(self._hello)

    def connection_lost(self, exc: Exception | None) -> None:
        self._meter.fail(f"the server closed the connection: {exc}")

    def data_received(self, data: bytes) -> None:
        if self._pending:
            data = self._pending + data
        if data == self._good:
            if self._meter.measuring:
                self._meter.latencies_s.append(time.perf_counter() - self._began)
            self._pending = b""
            self._write()
        elif len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            self._pending = data
        elif self._hello is not None:
            self._hello = None
            self._pending = b""
            self._write()
        else:
            self._meter.fail(f"not the good response: {data.hex()}")

    def _write(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(next(self._requests))


async def main() -> None:
    work = msgspec.json.decode(sys.stdin.buffer.read(), type=Work)
    loop = asyncio.get_running_loop()
    meter = Meter()
    loop.set_exception_handler(lambda _, context: meter.fail(str(context.get("exception", context))))
    gc.disable()
    for number in range(work.connections):
        await loop.create_connection(partial(Writer, work, meter, number), "127.0.0.1", work.port)
    loop.call_later(work.warm_up_s, setattr, meter, "measuring", True)
    loop.call_later(work.warm_up_s + work.seconds, meter.finish)
    await meter.over
    meter.measuring = False
    latencies_s = sorted(meter.latencies_s)
    if not latencies_s:
        raise RuntimeError("no request was answered in time")
    load = Load(
        changes_per_s=len(latencies_s) * work.changes_per_request / work.seconds,
        p50_ms=percentile(latencies_s, 0.5) * 1000,
        p99_ms=percentile(latencies_s, 0.99) * 1000,
    )
    sys.stdout.buffer.write(msgspec.json.encode(load))


if __name__ == "__main__":
    uvloop.run(main())
