"""Clients that write and read at a steady rate, and the history of what they were told.

Entered by `Crowd.run`, which keeps its clients at work until `Crowd.stop`. A key is one dynamic config of one
broker, a value is written once and never again, reads are linearizable. Each client has one request in
flight, and stays with a node until it is refused, then asks the one that last answered anybody; now and then
it asks any node, a deposed leader perhaps, which must not answer.

How a request ended is written down as the protocol tells it (D-13): `failed` is surely not in the log,
`unknown` may be, now or later. A client that hears nothing gives up, drops the connection and does not know.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kraftd.audit.linearizability import Kind, Operation, Outcome
from kraftd.errors import ErrorCode, MalformedError
from kraftd.net.handshake import Identity
from kraftd.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.types import NodeId
from tests.process.cluster import BROKER, DYNAMIC_BROKER, alter_request

CONFIG = "ssl.cipher.suites"
"""A config that takes any text."""

KEYS = tuple(str(broker) for broker in range(1, 9))
"""The brokers whose config is written: few, so that clients meet."""

FILLER = "sasl.kerberos.principal.to.local.rules"
"""Another one, of which nobody asks."""

FILLED = range(100_000, 103_000)
"""The brokers that have it."""

FILLER_BYTES, FILLED_AT_ONCE, FILL_S = 280, 500, 10.0

CLIENTS = 32
WRITES = (0.5, 0.5, 0.0, 1.0)
"""The share of writes, for each fourth client: who only reads stays with a deposed leader that answers."""

ANYBODY = 0.05
"""The share of requests that go to any node."""

PATIENCE_S = 0.5, 3.0
"""How long a client waits for a response: every other one gives up soon and asks elsewhere, the others may
hear what a paused or deposed leader says in the end."""

PAUSE_S = 0.02, 0.1
"""After a refusal: who leads next is not known at once, and asking costs the nodes that have to find out."""

OUTCOMES: Mapping[int, Outcome] = {
    ErrorCode.NONE: "ok",
    ErrorCode.NOT_CONTROLLER: "failed",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "failed",
    ErrorCode.REQUEST_TIMED_OUT: "unknown",
}
"""What an error code says about a write. Any other code has no business in this history."""


class History:
    """Every operation of every client, and what they were told that no client should be told."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.surprises: Counter[str] = Counter()
        self.last_write_at_s = time.monotonic()
        self.longest_silence_s = 0.0
        self.commits = 0
        self.committed = asyncio.Event()
        """Set at each committed write."""

    def add(self, operation: Operation) -> None:
        """Write an operation down."""
        self.operations.append(operation)
        if operation.kind == "write" and operation.outcome == "ok":
            now_s = time.monotonic()
            self.longest_silence_s = max(self.longest_silence_s, now_s - self.last_write_at_s)
            self.last_write_at_s = now_s
            self.commits += 1
            self.committed.set()

    def count(self, kind: Kind | None = None, outcome: Outcome | None = None) -> int:
        """How many operations of a kind, or of any, ended so."""
        return sum(
            kind in (None, operation.kind) and outcome in (None, operation.outcome)
            for operation in self.operations
        )


class Crowd:
    """The clients, and what they tell each other: who answered last."""

    def __init__(
        self, ports: Mapping[NodeId, int], history: History, rate: float, rng: random.Random
    ) -> None:
        self.ports = ports
        self.history = history
        self.leader = min(ports)
        self.period_s = CLIENTS / rate
        self.is_over = False
        self._clients = [Client(self, number, random.Random(rng.random())) for number in range(CLIENTS)]

    async def run(self) -> None:
        """Work until told to stop."""
        async with asyncio.TaskGroup() as tasks:
            for client in self._clients:
                tasks.create_task(client.run(), name=f"client {client.number}")

    def stop(self) -> None:
        """Let each client finish what it does, so that no request is left that nobody wrote down."""
        self.is_over = True

    def other_than(self, node_id: NodeId) -> NodeId:
        """Whom to ask instead: who answered last, or if that was this node, the next."""
        if self.leader == node_id:
            others = sorted(self.ports)
            self.leader = others[(others.index(node_id) + 1) % len(others)]
        return self.leader


class Response(NamedTuple):
    """When a request was sent, how it ended, and what was read."""

    called: int
    outcome: Outcome
    value: str | None = None


class Client:
    """One client: one request at a time."""

    def __init__(self, crowd: Crowd, number: int, rng: random.Random) -> None:
        self.number = number
        self._crowd = crowd
        self._leader = crowd.leader
        self._patience_s = PATIENCE_S[number % len(PATIENCE_S)]
        self._writes = WRITES[number // len(PATIENCE_S) % len(WRITES)]
        self._random = rng
        self._wires: dict[NodeId, Wire] = {}
        self._written = 0

    async def run(self) -> None:
        """Do one operation each period; what was missed in an outage is not made up for."""
        period_s = self._crowd.period_s
        await asyncio.sleep(self._random.uniform(0, period_s))
        due_s = time.monotonic()
        try:
            while not self._crowd.is_over:
                if not await self._operate():
                    await asyncio.sleep(self._random.uniform(*PAUSE_S))
                due_s = max(due_s + period_s, time.monotonic() - 3 * period_s)
                await asyncio.sleep(due_s - time.monotonic())
        finally:
            for wire in self._wires.values():
                wire.close()

    async def _operate(self) -> bool:
        """Write or read some key; whether it was answered."""
        key = self._random.choice(KEYS)
        if self._random.random() < self._writes:
            self._written += 1
            return await self._write(key, f"{self.number}-{self._written}")
        return await self._read(key)

    async def _write(self, key: str, value: str) -> bool:
        request = alter_request([(CONFIG, value)], broker=key)
        response = await self._ask(request, lambda response: (response.responses[0].error_code, None))
        self._note(key, "write", value, response.called, response.outcome)
        return response.outcome == "ok"

    async def _read(self, key: str) -> bool:
        resource = DescribeConfigsRequestDescribeConfigsResource(
            resource_type=BROKER, resource_name=key, configuration_keys=(CONFIG,)
        )
        response = await self._ask(DescribeConfigsRequest(resources=(resource,)), _value_in)
        outcome: Outcome = "ok" if response.outcome == "ok" else "failed"
        self._note(key, "read", response.value, response.called, outcome)
        return outcome == "ok"

    def _note(self, key: str, kind: Kind, value: str | None, called: int, outcome: Outcome) -> None:
        returned = time.monotonic_ns() if outcome == "ok" else None
        operation = Operation(self.number, key, kind, value, called, returned, outcome)
        self._crowd.history.add(operation)

    async def _ask(self, request: Any, judge: Callable[[Any], tuple[int, str | None]]) -> "Response":
        """Ask the leader, or somebody."""
        crowd = self._crowd
        anybody = self._random.random() < ANYBODY
        node_id = self._random.choice(sorted(crowd.ports)) if anybody else self._leader
        called, sent = time.monotonic_ns(), False
        try:
            async with asyncio.timeout(self._patience_s):
                wire = await self._wire(node_id)
                called, sent = time.monotonic_ns(), True
                code, value = judge(await wire.ask(request))
        except (OSError, EOFError, TimeoutError):
            self._drop(node_id)
            self._leader = crowd.other_than(node_id)
            return Response(called, "unknown" if sent else "failed")
        except BaseException:
            self._drop(node_id)
            raise
        outcome = OUTCOMES.get(code)
        if outcome is None:
            crowd.history.surprises[f"error {code} for {request.NAME}"] += 1
            return Response(called, "unknown")
        if outcome == "ok":
            self._leader = crowd.leader = node_id
        else:
            self._leader = crowd.other_than(node_id)
        return Response(called, outcome, value)

    async def _wire(self, node_id: NodeId) -> "Wire":
        wire = self._wires.get(node_id)
        if wire is None:
            wire = await Wire.connect(self._crowd.ports[node_id])
            self._wires[node_id] = wire
        return wire

    def _drop(self, node_id: NodeId) -> None:
        """Never meet a late response again."""
        wire = self._wires.pop(node_id, None)
        if wire is not None:
            wire.close()


class Wire:
    """A connection to one node that has greeted it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._last_id = 0

    @classmethod
    async def connect(cls, port: int) -> "Wire":
        """Connect and greet."""
        wire = cls(*await asyncio.open_connection("127.0.0.1", port))
        try:
            await wire.ask(Identity(None, "chaos client").greeting())
        except BaseException:
            wire.close()
            raise
        return wire

    async def ask(self, message: Any) -> Any:
        """Send one request and wait for its response."""
        return (await self.ask_with_records(message))[0]

    async def ask_with_records(self, message: Any) -> tuple[Any, bytes]:
        """As `ask`, with the raw bytes that followed the body."""
        if self._writer.transport.is_closing():
            raise ConnectionResetError("the node closed the connection")
        self._last_id += 1
        self._writer.writelines(MSGPACK.encode_request(message.MAX_VERSION, self._last_id, "chaos", message))
        length = int.from_bytes(await self._reader.readexactly(4), "big")
        frame = await self._reader.readexactly(length)
        undecoded = MSGPACK.read_response(frame)
        if undecoded.correlation_id != self._last_id:
            raise MalformedError(f"answer {undecoded.correlation_id} to request {self._last_id}")
        return undecoded.decode((message.API_KEY, message.MAX_VERSION)), bytes(undecoded.records)

    def close(self) -> None:
        """Drop the connection."""
        self._writer.transport.abort()


async def fill(port: int) -> None:
    """Give the image so many configs that a snapshot takes its time; again until it is done.

    Raises:
        OSError, EOFError, TimeoutError: The node does not answer, or does not lead.
    """
    alterations = [alter_request([(FILLER, "x" * FILLER_BYTES)], broker=str(each)) for each in FILLED]
    for at in range(0, len(alterations), FILLED_AT_ONCE):
        resources = [each.resources[0] for each in alterations[at : at + FILLED_AT_ONCE]]
        request = IncrementalAlterConfigsRequest(resources=tuple(resources))
        response = await ask_once(port, request, FILL_S)
        if any(each.error_code for each in response.responses):
            raise ConnectionError(f"not filled: {response.responses[0]}")


async def ask_once(port: int, message: Any, patience_s: float = PATIENCE_S[1]) -> Any:
    """Ask one node one thing, over a connection of its own.

    Raises:
        OSError, EOFError, TimeoutError: It does not answer.
    """
    async with asyncio.timeout(patience_s):
        wire = await Wire.connect(port)
        try:
            return await wire.ask(message)
        finally:
            wire.close()


def _value_in(response: Any) -> tuple[int, str | None]:
    """The error and the value of a read; a config that nobody wrote has none."""
    result = response.results[0]
    values = [config.value for config in result.configs if config.config_source == DYNAMIC_BROKER]
    return result.error_code, values[0] if values else None
