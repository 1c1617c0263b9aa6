"""Writes over a length-prefixed protocol, for kraftd and for Kafka alike: both are driven by the same client.

`Sockets` keeps one connection a node for single writes; `run_load` starts `load.c` or `load.py` in a process
of its own. All requests carry one correlation id, so that a good response is always the same bytes, and
comparing them is all that the client does with it: it costs the same for every system that it drives.
"""

import asyncio
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from peers.cluster import Load, Node, Work
from peers.driver import drive
from peers.driver import work as driver_work

LOAD = Path(__file__).parents[1] / "load.py"

CONFIG_NAMES = [
    *("sasl.kerberos.service.name", "sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.kerberos.kinit.cmd"),
    *("sasl.kerberos.principal.to.local.rules", "sasl.mechanism.inter.broker.protocol", "ssl.cipher.suites"),
    *("ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.engine.factory.class"),
    *("ssl.keymanager.algorithm", "ssl.protocol", "ssl.provider", "ssl.secure.random.implementation"),
    *("ssl.trustmanager.algorithm", "config.providers", "listener.security.protocol.map", "listeners"),
    *("max.connections.per.ip.overrides", "metric.reporters", "principal.builder.class"),
    *("listener.name.internal.ssl.keystore.location", "listener.name.internal.ssl.keystore.password"),
    *("listener.name.internal.ssl.truststore.location", "listener.name.internal.ssl.truststore.password"),
]
"""Kafka's broker configs that take any text: 25 for each of four resources make 100 keys."""

VALUES = 16
"""How many values a key takes in turn, so that no write repeats the last."""


class Order(msgspec.Struct, frozen=True):
    """What `load.py` reads from its standard input, as JSON."""

    port: int
    connections: int
    warm_up_s: float
    seconds: float
    changes_per_request: int
    hello: bytes | None
    requests: list[bytes]
    good: bytes
    path: str = ""
    """If given, requests are bodies of gRPC calls of this method, and a good answer is like the first one."""


class Sockets:
    """One connection a node, opened when it is first needed and again after a failure."""

    def __init__(self, hello: bytes | None) -> None:
        self._hello = hello
        self._open: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def exchange(self, node: Node, request: bytes) -> bytes:
        """Send a frame and return the frame that comes back, the length included.

        Any failure, a cancellation too, closes the connection: a response must never meet the next request.
        """
        try:
            if node.port not in self._open:
                self._open[node.port] = await asyncio.open_connection("127.0.0.1", node.port)
                if self._hello is not None:
                    await self._send(node, self._hello)
            return await self._send(node, request)
        except BaseException:
            self._drop(node.port)
            raise

    async def _send(self, node: Node, request: bytes) -> bytes:
        reader, writer = self._open[node.port]
        writer.write(request)
        length = await reader.readexactly(4)
        return length + await reader.readexactly(struct.unpack(">I", length)[0])

    def _drop(self, port: int) -> None:
        entry = self._open.pop(port, None)
        if entry is not None:
            entry[1].transport.abort()

    async def close(self) -> None:
        for port in list(self._open):
            self._drop(port)
        await asyncio.sleep(0)


async def run_load(
    port: int,
    work: Work,
    *,
    hello: bytes | None,
    requests: Sequence[bytes],
    good: bytes,
    free: range = range(0),
) -> Load:
    """Drive the node with the wanted client; the bytes of a response in `free` may differ from `good`."""
    if work.client == "c":
        return await drive(
            port,
            work.connections,
            work.seconds,
            warm_up_s=work.warm_up_s,
            changes=work.changes,
            given=driver_work(hello, good, free, requests),
        )
    return await run_python(port, work, hello=hello, requests=requests, good=good)


async def run_python(
    port: int,
    work: Work,
    *,
    hello: bytes | None,
    requests: Sequence[bytes],
    good: bytes,
    path: str = "",
) -> Load:
    """Drive it with `load.py`."""
    order = Order(
        port=port,
        connections=work.connections,
        warm_up_s=work.warm_up_s,
        seconds=work.seconds,
        changes_per_request=work.changes,
        hello=hello,
        requests=list(requests),
        good=good,
        path=path,
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(LOAD), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate(msgspec.json.encode(order))
    if process.returncode:
        raise RuntimeError(f"the load client ended with {process.returncode}")
    return msgspec.json.decode(output, type=Load)
