"""kraftd itself under measurement: three daemons with the default configuration, one process each.

Driven through `kraftd.protocol`, with requests encoded once before the run.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from kraftd.protocol.messages import (
    DescribeNodeRequest,
    DescribeNodeResponse,
    HandshakeRequest,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    ResignLeaderRequest,
    ResignLeaderResponse,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from peers.cluster import (
    CLUSTER_ID,
    NODES,
    VALUE_BYTES,
    Cluster,
    Load,
    Node,
    Work,
    free_ports,
    write_configs,
)
from peers.frames import CONFIG_NAMES, VALUES, Sockets, run_load

KRAFTCTL = str(Path(sys.executable).with_name("kraftctl"))
BROKER, SET = 4, 0
RESOURCES = ("1", "2", "3", "4")

Response = TypeVar("Response", bound=msgspec.Struct)


class Kraftd(Cluster):
    """Three controllers; every key that is not needed is left at its default."""

    name = "kraftd"
    counts: ClassVar[Mapping[str, str]] = {
        "turns": "kraftd_loop_turns_total",
        "messages": "kraftd_messages_sent_total",
        "fsyncs": "kraftd_log_flushes_total",
    }

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._sockets = Sockets(HELLO)
        self._request = alter_configs(0, batch=False)
        self._describe = framed(DescribeNodeRequest())

    def prepare(self) -> None:
        controllers = list(write_configs(self.directory, self.name, self.properties))
        for (number, directory, config, port), page in zip(controllers, free_ports(NODES), strict=True):
            with config.open("a") as more:
                more.write(f"kraftd.http.listener=127.0.0.1:{page}\n")
            form = [sys.executable, "-m", "kraftd.cli.main", "format", "-t", CLUSTER_ID, "-c", str(config)]
            subprocess.run(form, check=True, capture_output=True)
            command = [sys.executable, "-m", "kraftd", "start", str(config)]
            self.nodes.append(Node(number, directory, command, port, page))

    async def write(self, node: Node) -> int | None:
        response = alterations(await self._sockets.exchange(node, self._request))
        return node.index if all(one.error_code == 0 for one in response.responses) else None

    async def leader(self) -> Node | None:
        """The node that calls itself leader in the highest epoch and whose writes commit."""
        for node in self.nodes:
            status = await self._status(node)
            if status.role == "leader" and await self.write(node) is not None:
                return node
        return None

    async def load(self, work: Work) -> Load:
        leader = await self.wait_leader()
        requests = [alter_configs(value, batch=work.batch) for value in range(VALUES)]
        good = await self._sockets.exchange(leader, requests[0])
        refused = [one.error_message for one in alterations(good).responses if one.error_code]
        if refused:
            raise RuntimeError(f"the load would be refused: {refused[0]}")
        before = (await self._status(leader)).high_watermark
        began = time.perf_counter()
        load = await run_load(leader.port, work, hello=HELLO, requests=requests, good=good)
        committed = (await self._status(leader)).high_watermark - before
        if committed < load.changes:
            took_s = time.perf_counter() - began
            raise RuntimeError(f"{committed} records committed in {took_s:.1f} s, fewer than were answered")
        return load

    async def resign(self, leader: Node) -> None:
        own = Sockets(HELLO)  # the probe is using the others
        frame = await own.exchange(leader, framed(ResignLeaderRequest(to=-1, timeout_ms=5_000)))
        await own.close()
        response = decoded(frame, ResignLeaderRequest, ResignLeaderResponse)
        if response.error_code:
            raise RuntimeError(f"resign: {response.error_message}")

    async def status_s(self) -> float | None:
        """The fastest of five: what `kraftctl status` costs, not what else ran meanwhile."""
        took_s = []
        for _ in range(5):
            began = time.perf_counter()
            server = f"127.0.0.1:{self.nodes[0].port}"
            command = [KRAFTCTL, "--bootstrap-controller", server, "status"]
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
            if await process.wait():
                raise RuntimeError("kraftctl status failed")
            took_s.append(time.perf_counter() - began)
        return min(took_s)

    async def rejoined(self, node: Node) -> None:
        """All three name one leader, and have and applied its log, as far as it is not on the way.

        `node` is among them. One that has much left to apply could not lead at once, and after a second fault
        there might be no other (docs/operations.md, "Known limits").
        """
        assert node in self.nodes
        async with asyncio.timeout(120):
            while True:
                try:
                    seen = [await self._status(one) for one in self.nodes]
                except (OSError, EOFError):
                    seen = []
                leaders = {one.leader_id for one in seen}
                offsets = [offset for one in seen for offset in (one.log_end_offset, one.applied_offset)]
                if len(leaders) == 1 and -1 not in leaders and max(offsets) - min(offsets) < 10:
                    break
                await asyncio.sleep(0.05)
        await asyncio.sleep(1)

    async def close_clients(self) -> None:
        await self._sockets.close()

    async def _status(self, node: Node) -> DescribeNodeResponse:
        frame = await self._sockets.exchange(node, self._describe)
        return decoded(frame, DescribeNodeRequest, DescribeNodeResponse)


def alter_configs(value: int, *, batch: bool) -> bytes:
    """One request frame that sets one config, or 100 of them, to one of `VALUES` values."""
    text = f"{value:02d}".ljust(VALUE_BYTES, "x")
    configs = tuple(
        IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=SET, value=text)
        for name in (CONFIG_NAMES if batch else CONFIG_NAMES[:1])
    )
    resources = tuple(
        IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=BROKER, resource_name=name, configs=configs
        )
        for name in (RESOURCES if batch else RESOURCES[:1])
    )
    return framed(IncrementalAlterConfigsRequest(resources=resources))


def alterations(frame: bytes) -> IncrementalAlterConfigsResponse:
    return decoded(frame, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse)


def decoded(frame: bytes, kind: Any, response: type[Response]) -> Response:
    message = MSGPACK.read_response(memoryview(frame)[4:]).decode((kind.API_KEY, kind.MAX_VERSION))
    if not isinstance(message, response):
        raise TypeError(f"{message} is no {response.__name__}")
    return message


def framed(message: Any) -> bytes:
    """A whole frame in the newest version, always with the same correlation id."""
    return b"".join(MSGPACK.encode_request(message.MAX_VERSION, 1, "benchmark", message))


HELLO = framed(HandshakeRequest(cluster_id=CLUSTER_ID, software="benchmark"))
