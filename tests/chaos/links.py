"""The network between the nodes, in our hands: every byte from one node to another passes a proxy.

Entered by `Network.open`, which listens on one port for each ordered pair of nodes: node 1 knows node 2 only
by the port of the link 1->2, so who sends is known without reading what is sent. A `Way` is one direction
between two nodes, whoever of them connected: bytes of both their connections go over it. A way can be cut
(bytes wait, as in a partition, and the end of a connection waits with them), slow, or have its connections
reset.

Who only connects, as a broker does, has links to the nodes and none to itself. A node tells it of another by
the address that it knows itself: so a broker that fetches may go over a link between two nodes.

As in TCP nothing is lost, doubled or reordered within a connection: when a way is mended, what waited
arrives, unless the connection was reset.
"""

import asyncio
import random
import socket
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import cast

from kraftd.types import NodeId

Pair = tuple[NodeId, NodeId]
"""From, to."""

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER without patience: closing sends RST, not FIN."""


class Way:
    """One direction between two nodes."""

    def __init__(self, rng: random.Random) -> None:
        self.flows: set[Flow] = set()
        self._random = rng
        self._cuts = 0
        self._slownesses: list[tuple[float, float]] = []

    @property
    def is_cut(self) -> bool:
        """Whether nothing arrives. Several may have cut it; each has to mend it."""
        return self._cuts > 0

    def cut(self) -> None:
        """Let nothing through any more."""
        self._cuts += 1

    def mend(self) -> None:
        """Undo one `cut`; what waited leaves now if it was the last."""
        self._cuts -= 1
        for flow in list(self.flows):
            flow.drain()

    def slow(self, low_s: float, high_s: float) -> tuple[float, float]:
        """Delay all that is sent from now on by a time between the two; returns what `hasten` takes."""
        slowness = low_s, high_s
        self._slownesses.append(slowness)
        return slowness

    def hasten(self, slowness: tuple[float, float]) -> None:
        """Undo one `slow`."""
        self._slownesses.remove(slowness)

    def draw_delay_s(self) -> float:
        """How long the next piece takes."""
        return sum(self._random.uniform(*slowness) for slowness in self._slownesses)


class Flow:
    """One direction of one connection: what came in and has not gone out yet."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.target: asyncio.Transport | None = None
        self._waiting: deque[tuple[float, bytes | None]] = deque()
        self._last_due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        way.flows.add(self)

    def put(self, data: bytes | None) -> None:
        """Take a piece in; None is the end of the connection."""
        loop = asyncio.get_running_loop()
        due_s = max(self._last_due_s, loop.time() + self.way.draw_delay_s())
        self._last_due_s = due_s
        self._waiting.append((due_s, data))
        self.drain()

    def drain(self) -> None:
        """Send what is due, unless the way is cut."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.way.is_cut or self.target is None:
            return
        loop = asyncio.get_running_loop()
        waiting = self._waiting
        while waiting:
            due_s, data = waiting[0]
            if due_s > loop.time():
                self._timer = loop.call_at(due_s, self.drain)
                return
            waiting.popleft()
            if data is None:
                self.target.close()
            elif not self.target.is_closing():
                self.target.write(data)

    def forget(self) -> None:
        """Nothing goes this way any more."""
        self.way.flows.discard(self)
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()


class End(asyncio.Protocol):
    """One of the two sockets of a proxied connection."""

    def __init__(self, pipe: "Pipe", outgoing: Flow, incoming: Flow) -> None:
        self._pipe, self._outgoing, self._incoming = pipe, outgoing, incoming

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe.transports.append(cast("asyncio.Transport", transport))
        self._incoming.target = cast("asyncio.Transport", transport)
        self._incoming.drain()

    def data_received(self, data: bytes) -> None:
        self._outgoing.put(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._outgoing.put(None)
        self._incoming.forget()
        self._pipe.lost()


class Pipe:
    """One proxied connection, from the node that connected to the other."""

    def __init__(self, network: "Network", source: NodeId, target: NodeId) -> None:
        self.source, self.target = source, target
        self.transports: list[asyncio.Transport] = []
        self._network = network
        self._there = Flow(network.ways[source, target])
        self._back = Flow(network.ways[target, source])
        self._ends_lost = 0
        network.pipes.add(self)
        network.used.set()

    def accept(self) -> End:
        """The end towards the node that connects; connects to the other node by itself."""
        task = self._network.tasks.create_task(self._connect())
        task.set_name(f"link {self.source}->{self.target}")
        return End(self, self._there, self._back)

    def reset(self, *, gently: bool = False) -> None:
        """Close both ends at once, with RST, or gently with FIN. What was on its way is lost."""
        for flow in (self._there, self._back):
            flow.forget()
        for transport in self.transports:
            if transport.is_closing():
                continue
            if not gently:
                sock = cast("socket.socket | None", transport.get_extra_info("socket"))
                if sock is not None:  # it has just been closed by the other side
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            transport.abort()
        self._network.forget(self)

    def lost(self) -> None:
        """An end is gone; the other follows when the news has arrived there."""
        self._ends_lost += 1
        if self._ends_lost == 2:
            self._network.forget(self)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(
                lambda: End(self, self._back, self._there), "127.0.0.1", self._network.ports[self.target]
            )
        except OSError:
            self.reset()


class Network:
    """All links between the nodes, and those of whoever else connects to them."""

    tasks: asyncio.TaskGroup
    """Owns the connecting, once open."""

    def __init__(
        self, ports: Mapping[NodeId, int], rng: random.Random, brokers: Sequence[NodeId] = ()
    ) -> None:
        self.ports = ports
        self.pipes: set[Pipe] = set()
        self.used = asyncio.Event()
        """Set while there are connections."""
        links = [(a, b) for a in (*ports, *brokers) for b in ports if a != b]
        back = [(b, a) for a in brokers for b in ports]
        self.ways: dict[Pair, Way] = {pair: Way(random.Random(rng.random())) for pair in (*links, *back)}
        self._servers: list[asyncio.Server] = []
        self._listening: dict[Pair, socket.socket] = {
            link: socket.create_server(("127.0.0.1", 0)) for link in links
        }

    def voters(self, node_id: NodeId) -> str:
        """`controller.quorum.voters` as this node, or broker, has to have it."""
        own = {(each, each): port for each, port in self.ports.items()}
        links = {pair: sock.getsockname()[1] for pair, sock in self._listening.items()} | own
        return ",".join(f"{peer}@127.0.0.1:{links[node_id, peer]}" for peer in self.ports)

    async def open(self, tasks: asyncio.TaskGroup) -> None:
        """Let the nodes connect."""
        self.tasks = tasks
        loop = asyncio.get_running_loop()
        for (source, target), sock in self._listening.items():
            server = await loop.create_server(partial(self._accept, source, target), sock=sock)
            self._servers.append(server)

    def _accept(self, source: NodeId, target: NodeId) -> End:
        return Pipe(self, source, target).accept()

    def stop_listening(self) -> None:
        """Accept no more connections: whoever connected later would find no owner of the connecting."""
        for server in self._servers:
            server.close()
        for sock in self._listening.values():
            sock.close()

    def close(self) -> None:
        """Close everything."""
        self.stop_listening()
        for pipe in list(self.pipes):
            pipe.reset()

    def forget(self, pipe: Pipe) -> None:
        """A connection is over."""
        self.pipes.discard(pipe)
        if not self.pipes:
            self.used.clear()

    def between(self, group: Iterable[NodeId], others: Iterable[NodeId]) -> Iterator[Pair]:
        """The pairs from one group to the other."""
        return ((a, b) for a in group for b in others if a != b)

    def connections(self, pairs: Sequence[Pair]) -> list[Pipe]:
        """The connections that use any of these ways."""
        return [p for p in self.pipes if (p.source, p.target) in pairs or (p.target, p.source) in pairs]
