"""The load client: one request in flight on each of N sockets, over any length-prefixed protocol.

Reads an `Order` as JSON from its standard input, writes a `Load` as JSON to its standard output. It runs in
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
from peers.frames import Order


class Meter:
    """What all sockets count in: latencies inside the window, and the first thing that went wrong."""

    def __init__(self) -> None:
        self.latencies_s: list[float] = []
        self.answered = 0
        self.measuring = False
        self._cpu_s = 0.0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def begin(self) -> None:
        self.measuring = True
        self._cpu_s = time.process_time()

    def finish(self) -> None:
        self.measuring = False
        self._cpu_s = time.process_time() - self._cpu_s
        if not self.over.done():
            self.over.set_result(None)

    def count(self, began_s: float) -> None:
        """A good response came to a request that was written then."""
        self.answered += 1
        if self.measuring:
            self.latencies_s.append(time.perf_counter() - began_s)

    def load(self, order: Order) -> Load:
        latencies_s = sorted(self.latencies_s)
        if not latencies_s:
            raise RuntimeError("no request was answered in time")
        changes = len(latencies_s) * order.changes_per_request
        return Load(
            changes=self.answered * order.changes_per_request,
            changes_per_s=changes / order.seconds,
            p50_ms=percentile(latencies_s, 0.5) * 1000,
            p99_ms=percentile(latencies_s, 0.99) * 1000,
            max_ms=latencies_s[-1] * 1000,
            client_us=1e6 * self._cpu_s / changes,
        )

    def fail(self, why: str) -> None:
        if not self.over.done():
            self.over.set_exception(RuntimeError(why))


class Writer(asyncio.Protocol):
    """One socket that writes, waits for the response, and writes again."""

    __slots__ = ("_awaited", "_began", "_good", "_hello", "_meter", "_pending", "_requests", "_transport")

    def __init__(self, order: Order, meter: Meter, first: int) -> None:
        turn = first % len(order.requests)
        self._requests = itertools.cycle(order.requests[turn:] + order.requests[:turn])
        self._good = order.good
        self._hello = order.hello
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
            self._meter.count(self._began)
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
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    loop = asyncio.get_running_loop()
    meter = Meter()
    loop.set_exception_handler(lambda _, context: meter.fail(str(context.get("exception", context))))
    gc.disable()
    for number in range(order.connections):
        await loop.create_connection(partial(Writer, order, meter, number), "127.0.0.1", order.port)
    loop.call_later(order.warm_up_s, meter.begin)
    loop.call_later(order.warm_up_s + order.seconds, meter.finish)
    await meter.over
    sys.stdout.buffer.write(msgspec.json.encode(meter.load(order)))


if __name__ == "__main__":
    uvloop.run(main())
