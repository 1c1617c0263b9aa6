"""What every measured system has in common: three processes on loopback, one leader, a client that writes.

A system brings the commands that start its nodes, one committed write through a given node, and a load of
writes with one request in flight on each connection. Faults, probing and the reading of /proc are the
same for all and are here. How figures become a table is in `quorum.py`.

Not `tests/process/cluster.py`: the systems are Kafka and etcd, too, and `beside.py` runs builds of kraftd
whose log lines and messages are others, so nothing here reads a node's log or imports anything of the tests;
clients wait in one event loop, because threads would be measured with them.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

import msgspec

NODES = 3
VALUE_BYTES = 100
BATCH_CHANGES = 100
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
RETRY_S = 0.002
SETTLE_S = 0.5


class Load(msgspec.Struct, frozen=True):
    """What one load run saw: committed changes, the latencies of its requests, and what the client cost."""

    changes: int
    """All that were answered, those of the warm-up too; what the nodes spent is for these."""
    changes_per_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    client_us: float
    """CPU of the client a change, in microseconds."""


class Work(msgspec.Struct, frozen=True):
    """Which load: so many connections with one request in flight on each, from which client."""

    connections: int
    seconds: float
    batch: bool = False
    """`BATCH_CHANGES` changes to as many keys in each request, instead of one."""
    client: str = "c"
    """`c`: written in C (`load.c`, h2load), or `python`: `load.py` for every system."""

    @property
    def warm_up_s(self) -> float:
        """How long it runs before it counts."""
        return min(1.0, self.seconds / 2)

    @property
    def changes(self) -> int:
        """In each request."""
        return BATCH_CHANGES if self.batch else 1


class NotThereError(Exception):
    """A tool that the system needs is missing; the text is one line that says what to install."""


class Node:
    """One process of a cluster; it can be killed, stopped, paused and started again on the same directory."""

    def __init__(
        self, index: int, directory: Path, command: Sequence[str], port: int, page_port: int | None = None
    ) -> None:
        self.index = index
        self.directory = directory
        self.command = list(command)
        self.port = port
        self.page_port = page_port
        """Where it serves `/metrics`, if it does."""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.directory / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                self.command, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    async def wait_gone(self, limit_s: float = 30) -> None:
        async with asyncio.timeout(limit_s):
            while self.running:  # noqa: ASYNC110 - another process sets no event
                await asyncio.sleep(0.01)

    def stop(self) -> None:
        if self._process is not None and self.running:
            self.signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()

    def cpu_s(self) -> float:
        """CPU seconds used so far, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def tail(self, lines: int = 15) -> str:
        text = (self.directory / "output.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])


class Guests(Protocol):
    """Processes that stop and go on with the nodes of a cluster, and are no part of it."""

    nodes: list[Node]

    async def settled(self) -> None:
        """Wait until they are again what they were before they stopped."""


class Cluster:
    """Three nodes of one system. Subclasses fill in what differs."""

    name: ClassVar[str]
    patience_s: ClassVar[float] = 1.0
    can_resign: ClassVar[bool] = True
    counts: ClassVar[Mapping[str, str]] = {}
    """Which counter on a node's page `/metrics` tells its `turns`, `messages` and `fsyncs`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.nodes: list[Node] = []
        self.properties = ""
        """More lines of the configuration of each node, where that is Kafka's properties."""
        self.guests: Guests | None = None

    def prepare(self) -> None:
        """Make `nodes`, formatted and ready to start; raises `NotThereError` when a tool is missing."""
        raise NotImplementedError

    async def write(self, node: Node) -> int | None:
        """Commit one change through `node`: which leadership committed it, or None when the node refuses.

        The number only tells one leadership from the next. May raise OSError or hang; callers bound it.
        """
        raise NotImplementedError

    async def leader(self) -> Node | None:
        """The node that leads now, or None."""
        raise NotImplementedError

    async def load(self, work: Work) -> Load:
        """Write to the leader for a while, one request in flight on each connection.

        Raises:
            RuntimeError: A response was not the good one, or less was committed than answered.
        """
        raise NotImplementedError

    async def resign(self, leader: Node) -> None:
        """Hand the leadership to another node."""
        raise NotImplementedError

    async def rejoined(self, node: Node) -> None:
        """Wait until a node that was started again takes part like the others."""
        raise NotImplementedError

    async def status_s(self) -> float | None:
        """Seconds that the system's status command takes as a whole process, or None."""
        return None

    async def close_clients(self) -> None:
        """Drop the connections that `write` keeps."""

    async def wait_leader(self, limit_s: float = 60) -> Node:
        last = ""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while True:
                    dead = [node for node in self.nodes if not node.running]
                    if dead:
                        raise RuntimeError(f"{self.name} node {dead[0].index} ended:\n{dead[0].tail()}")
                    try:
                        async with asyncio.timeout(2):
                            found = await self.leader()
                    except (OSError, EOFError, TimeoutError) as error:
                        found, last = None, repr(error)
                    if found is not None:
                        return found
                    await asyncio.sleep(0.05)
        raise RuntimeError(f"{self.name} has no leader after {limit_s} s {last}\n{self.nodes[0].tail()}")

    def pause(self) -> None:
        """Stop all nodes where they are."""
        self._signal(signal.SIGSTOP)

    async def wake(self) -> Node:
        """Let them go on; their leader, once it has stayed the same for a moment.

        Those that wake find that they have not heard of each other for long, and may elect again.
        """
        self._signal(signal.SIGCONT)
        leader = None
        while leader is not (found := await self.wait_leader()):
            leader = found
            if self.guests is not None:
                await self.guests.settled()
            await asyncio.sleep(SETTLE_S)
        return found

    def _signal(self, number: int) -> None:
        for node in (*self.nodes, *(self.guests.nodes if self.guests else ())):
            node.signal(number)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All nodes up with a leader, and none left behind."""
        self.prepare()
        try:
            for node in self.nodes:
                node.start()
            await self.wait_leader()
            yield
        finally:
            await self.close_clients()
            for node in self.nodes:
                node.stop()


class Probe:
    """A client that keeps writing through every node, and notes when writes commit and under which leader."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._committed = asyncio.Event()
        self.commits: list[tuple[float, int]] = []

    async def run(self, node: Node) -> None:
        """Write through one node until cancelled."""
        while True:
            leadership = None
            with contextlib.suppress(OSError, TimeoutError, EOFError):
                async with asyncio.timeout(self._cluster.patience_s):
                    leadership = await self._cluster.write(node)
            if leadership is not None:
                self.commits.append((time.perf_counter(), leadership))
                self._committed.set()
            await asyncio.sleep(RETRY_S)

    async def new_leadership(self, old: int | None) -> int:
        """Wait for the next commit that is not of the leadership `old`."""
        async with asyncio.timeout(60):
            while not self.commits or self.commits[-1][1] == old:
                self._committed.clear()
                await self._committed.wait()
        return self.commits[-1][1]


async def fault_ms(cluster: Cluster, kind: str) -> float:
    """Do one fault to the leader and measure how long nothing was committed; then bring all nodes back.

    A leader that is asked to go may commit for a moment longer, so "the next commit" is the end of the
    longest pause between the fault and the first commit of another leader. After a kill that is the time
    to the next commit.
    """
    leader = await cluster.wait_leader()
    probe = Probe(cluster)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(probe.run(node)) for node in cluster.nodes]
        old = await probe.new_leadership(None)
        began = time.perf_counter()
        match kind:
            case "kill":
                leader.signal(signal.SIGKILL)
            case "pause":
                leader.signal(signal.SIGSTOP)
            case "term":
                leader.signal(signal.SIGTERM)
            case "resign":
                await cluster.resign(leader)
        await probe.new_leadership(old)
        for task in tasks:
            task.cancel()
    times = [began, *(at for at, _ in probe.commits if at > began)]
    took_ms = max(later - earlier for earlier, later in pairwise(times)) * 1000
    await cluster.close_clients()
    if kind == "pause":
        leader.signal(signal.SIGCONT)
    elif kind != "resign":
        await leader.wait_gone()
        leader.start()
    await cluster.rejoined(leader)
    return took_ms


async def idle(cluster: Cluster, seconds: float) -> tuple[float, float]:
    """CPU percent of one core and resident megabytes, of the node that uses most, with no client."""
    before = [node.cpu_s() for node in cluster.nodes]
    await asyncio.sleep(seconds)
    used = [node.cpu_s() - start for node, start in zip(cluster.nodes, before, strict=True)]
    return 100 * max(used) / seconds, max(node.rss_mb() for node in cluster.nodes)


class Controller(NamedTuple):
    """What a controller that Kafka's properties describe is started with."""

    number: int
    directory: Path
    config: Path
    port: int


def write_configs(home: Path, name: str, more: str) -> Iterator[Controller]:
    """Write the configuration of each controller of a quorum, the smallest and more; make its directory."""
    ports = free_ports(NODES)
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(ports, 1))
    for number, port in enumerate(ports, 1):
        directory = home / f"{name}-{number}"
        directory.mkdir(parents=True)
        config = directory / "server.properties"
        config.write_text(
            f"process.roles=controller\nnode.id={number}\ncontroller.quorum.voters={voters}\n"
            f"listeners=CONTROLLER://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n"
            f"log.dirs={directory}/data\n{more}"
        )
        yield Controller(number, directory, config, port)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
