"""The load client in Python: one request in flight on each of N sockets, length-prefixed or over gRPC.

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
from peers import http2
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


class Caller(asyncio.Protocol):
    """One socket that makes one gRPC call after the other.

    A server that fails a call sends no message. So the first answer with a message is a good one; of each
    later one the headers, the trailers, and the ids at the beginning of the message must be the same.
    """

    __slots__ = (
        "_answer",
        "_began",
        "_bodies",
        "_good",
        "_headers",
        "_meter",
        "_pending",
        "_stream",
        "_transport",
    )

    def __init__(self, order: Order, meter: Meter, first: int) -> None:
        turn = first % len(order.requests)
        self._bodies = itertools.cycle(order.requests[turn:] + order.requests[:turn])
        self._headers = http2.header_block(order.path)
        self._meter = meter
        self._stream = -1
        self._pending = b""
        self._answer: list[bytes] = []
        self._good: list[bytes] = []
        self._began = 0.0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(http2.preface())
        self._call()

    def connection_lost(self, exc: Exception | None) -> None:
        self._meter.fail(f"the server closed the connection: {exc}")

    def data_received(self, data: bytes) -> None:
        frames, self._pending = http2.frames(self._pending + data)
        for frame in frames:
            if frame.stream == 0:
                self._transport.write(http2.acknowledged(frame))
            elif frame.kind not in (http2.HEADERS, http2.DATA):
                self._meter.fail(f"not the good answer: {frame}")
            else:
                self._answer.append(frame.payload)
                if frame.flags & http2.END_STREAM:
                    self._answered()

    def _answered(self) -> None:
        answer, self._answer = self._answer, []
        if len(answer) == 3:
            answer[0] = answer[0].removeprefix(http2.RESIZED)
            answer[1] = etcd_ids(answer[1])
            if not self._good:
                self._good = answer
        if answer != self._good or not self._good:
            self._meter.fail(f"not the good answer: {answer}")
        else:
            self._meter.count(self._began)
            self._call()

    def _call(self) -> None:
        self._stream += 2
        self._began = time.perf_counter()
        self._transport.write(http2.call(self._stream, self._headers, next(self._bodies)))


def etcd_ids(message: bytes) -> bytes:
    """Of etcd's answer in its gRPC frame the ids of cluster and member, with which its header begins."""
    at = begin = 5 + 2  # the frame's head, then tag and length of the response's header
    for _ in range(2):
        at += 1
        while message[at] & 128:
            at += 1
        at += 1
    return message[begin:at]


async def main() -> None:
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    loop = asyncio.get_running_loop()
    meter = Meter()
    loop.set_exception_handler(lambda _, context: meter.fail(str(context.get("exception", context))))
    gc.disable()
    for number in range(order.connections):
        made = partial(Caller if order.path else Writer, order, meter, number)
        await loop.create_connection(made, "127.0.0.1", order.port)
    loop.call_later(order.warm_up_s, meter.begin)
    loop.call_later(order.warm_up_s + order.seconds, meter.finish)
    await meter.over
    sys.stdout.buffer.write(msgspec.json.encode(meter.load(order)))


if __name__ == "__main__":
    uvloop.run(main())
