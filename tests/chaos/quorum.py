"""Three daemons that are kept running whatever ends them, and what there is to break.

Entered by `Quorum.run`: each node gets a supervisor that starts it again, unless somebody holds it down. An
end that nobody asked for is a fault of kraftd, and kept in `problems`; on a full disk it is what was
promised. `Quorum.leader` and `leaders` are what the nodes themselves logged.

Processes and files are those of `tests.process.cluster`; what that one does not have is supervision.
"""

import asyncio
import contextlib
import math
import random
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kraftd.protocol.messages import DescribeNodeRequest, DescribeNodeResponse
from kraftd.types import NodeId
from tests.chaos.clients import ask_once
from tests.chaos.disks import Disk
from tests.chaos.links import Network
from tests.process.cluster import Cluster, Node, TimeoutWaitingError

SETTINGS = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "controller.quorum.request.timeout.ms": "600",
    "kraftd.shutdown.timeout.ms": "2000",
    "request.timeout.ms": "1000",
    "metadata.log.segment.bytes": "262144",
    "metadata.log.segment.min.bytes": "262144",
    "metadata.log.max.record.bytes.between.snapshots": "300000",
    "metadata.max.retention.bytes": "1048576",
    "controller.quorum.fetch.snapshot.max.bytes": "65536",
}
"""Short timeouts, so that much happens; a snapshot every few seconds, and small segments, so that the log is
cut as often; small pieces of snapshots, so that a download is met.
"""

SLOW_TO_NOTICE = {3: {"controller_quorum_fetch_timeout_ms": "1200"}}
"""This node takes longer to see that it leads nobody any more, so that there are two leaders for a while:
what clients are told must not hang on how the timeouts fit together."""

NODES = (1, 2, 3)
BACKOFF_S = 0.3
"""Before a node that ended by itself is started again."""

START_S = 60.0
"""Longest time that a start may take; the machine may be busy."""

STOP_S = 20.0
"""Longest time that SIGTERM may take: the hand-over has two seconds, the machine may be busy."""

NOT_WHOLE = "not_whole"
NO_SPACE = ("No space left on device", "disk full?")
PORT_TAKEN = "Address already in use"
"""While a node is down the kernel may lend its port to a client's socket: a supervisor tries again."""


class Quorum:
    """The nodes, their disks and what is between them."""

    def __init__(
        self,
        folder: Path,
        disks: Mapping[NodeId, Disk],
        rng: random.Random,
        *,
        command: Sequence[str] = (sys.executable, "-m", "kraftd"),
        brokers: Sequence[NodeId] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`brokers` get links to the nodes; `settings` are the nodes', beside those that all runs have."""
        homes = {node_id: disk.home for node_id, disk in disks.items()}
        self.cluster = Cluster(
            folder,
            len(NODES),
            settings={**SETTINGS, **(settings or {})},
            command=command,
            directories=homes,
            start=False,
        )
        self.disks = disks
        self.problems: list[str] = []
        self.network = Network(self.ports, rng, brokers)
        for node in self.cluster:
            voters = self.network.voters(node.node_id)
            own = SLOW_TO_NOTICE.get(node.node_id, {})
            self.cluster.configure(node, controller_quorum_voters=voters, **own)
        self.held = {node_id: asyncio.Lock() for node_id in NODES}
        """Whoever does something to a node's process has its lock."""
        self.loading = asyncio.Lock()
        """Whoever takes a node's directory away has this, until the node counts again."""
        self.wiped: NodeId | None = None
        """Who was wiped, until it counts again: it says that it does not."""
        self._started = {node_id: asyncio.Event() for node_id in NODES}
        self._up = {node_id: asyncio.Event() for node_id in NODES}
        self._down = {node_id: asyncio.Event() for node_id in NODES}
        self._may_run = {node_id: asyncio.Event() for node_id in NODES}
        self._asked: dict[NodeId, signal.Signals] = {}
        self._read = dict.fromkeys(NODES, 0)
        self._leaders: dict[int, NodeId] = {}
        self._threads = ThreadPoolExecutor(2 * len(NODES), thread_name_prefix="chaos-wait")

    @property
    def ports(self) -> dict[NodeId, int]:
        """Where the nodes themselves listen: clients are not cut off."""
        return {node.node_id: node.port for node in self.cluster}

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Keep the nodes running; end every one of them at the end."""
        try:
            async with asyncio.TaskGroup() as tasks:
                await self.network.open(tasks)
                supervisors = [tasks.create_task(self._supervise(node)) for node in self.cluster]
                for event in self._may_run.values():
                    event.set()
                try:
                    yield
                finally:
                    self.network.stop_listening()
                    for supervisor in supervisors:
                        supervisor.cancel()
        finally:
            self.cluster.close()
            self.network.close()
            self._threads.shutdown()
            self._read_events()

    # What can be done to a node; the caller holds its lock.

    async def end(self, node_id: NodeId, number: signal.Signals) -> None:
        """Send SIGKILL or SIGTERM, and wait for the end; it stays down until `let_run`."""
        await self._up[node_id].wait()
        self._may_run[node_id].clear()
        self._asked[node_id] = number
        self.cluster[node_id].signal(number)
        try:
            async with asyncio.timeout(STOP_S):
                await self._down[node_id].wait()
        except TimeoutError:
            self.problems.append(f"node {node_id} still runs {STOP_S:.0f} s after {number.name}")
            self._asked[node_id] = signal.SIGKILL
            self.cluster[node_id].signal(signal.SIGKILL)
            await self._down[node_id].wait()

    def let_run(self, node_id: NodeId) -> None:
        """The supervisor may start it again."""
        self._may_run[node_id].set()

    async def started(self, node_id: NodeId) -> None:
        """Wait until a node that may run has said that it has started."""
        try:
            async with asyncio.timeout(START_S):
                await self._started[node_id].wait()
        except TimeoutError:
            last = self.cluster[node_id].last_lines(1).strip()
            self.problems.append(f"node {node_id} did not start within {START_S:.0f} s: {last}")

    def counts_again(self) -> None:
        """Whoever was wiped counts; what it said until now was to be expected."""
        self._read_events()
        self.wiped = None

    @contextlib.asynccontextmanager
    async def paused(self, node_id: NodeId) -> AsyncIterator[None]:
        """SIGSTOP, and SIGCONT at the end."""
        await self._up[node_id].wait()
        self.cluster[node_id].pause()
        try:
            yield
        finally:
            if self.cluster[node_id].is_running:
                self.cluster[node_id].resume()

    # What they say.

    @property
    def leaders(self) -> Mapping[int, NodeId]:
        """Who led in which epoch, as those said who led."""
        self._read_events()
        return self._leaders

    @property
    def leader(self) -> NodeId | None:
        """Who said so last."""
        leaders = self.leaders
        return leaders[max(leaders)] if leaders else None

    async def describe(self, node_id: NodeId) -> DescribeNodeResponse:
        """A node's own view.

        Raises:
            OSError, EOFError, TimeoutError: It does not answer.
        """
        response: DescribeNodeResponse = await ask_once(self.ports[node_id], DescribeNodeRequest())
        return response

    def _read_events(self) -> None:
        """Take in the lines that are new."""
        for node in self.cluster:
            lines = node.events[self._read[node.node_id] :]
            self._read[node.node_id] += len(lines)
            for line in lines:
                self._take_event(node.node_id, line)

    def _take_event(self, node_id: NodeId, line: Mapping[str, Any]) -> None:
        if line.get("event") == "leader_changed" and line["leader"] == node_id:
            other = self._leaders.setdefault(line["epoch"], node_id)
            if other != node_id:
                self.problems.append(f"epoch {line['epoch']} has two leaders, {other} and {node_id}")
        elif line.get("event") == "alarm" and self._is_expected(node_id, line):
            return
        elif line.get("event") in ("alarm", "loop"):
            self.problems.append(f"node {node_id} says {dict(line)}")

    # The supervisors.

    async def _supervise(self, node: Node) -> None:
        """Start a node whenever it may run, and judge how it ended."""
        loop = asyncio.get_running_loop()
        node_id = node.node_id
        while True:
            await self._may_run[node_id].wait()
            mark = node.mark()
            node.start()
            self._down[node_id].clear()
            self._up[node_id].set()
            code = await loop.run_in_executor(self._threads, self._accompany, node, mark, loop)
            asked = self._asked.pop(node_id, None)
            self._up[node_id].clear()
            self._started[node_id].clear()
            self._down[node_id].set()
            complaint = self._judge(node, mark, code, asked)
            if complaint is not None and complaint not in self.problems:
                self.problems.append(complaint)
            if asked is None:
                await asyncio.sleep(BACKOFF_S)

    def _accompany(self, node: Node, mark: int, loop: asyncio.AbstractEventLoop) -> int:
        """In a thread: see a process start, and end; its exit code."""
        with contextlib.suppress(TimeoutWaitingError):  # it may end first
            node.wait_for("started", since=mark, timeout_s=math.inf)
            loop.call_soon_threadsafe(self._started[node.node_id].set)
        return node.wait_exit(None)

    def _judge(self, node: Node, mark: int, code: int, asked: signal.Signals | None) -> str | None:
        """What is wrong with an end, if anything is."""
        lines = node.events[mark:]
        is_early = all(line.get("event") != "started" for line in lines)
        if asked is not None and code in (-asked if asked is signal.SIGKILL or is_early else 0, 0):
            return None
        last_words = [line for line in lines if line.get("event") == "fatal"]
        reason = last_words[-1]["reason"] if last_words else "without a word"
        if self._lacks_space(node.node_id, reason):
            return None
        if PORT_TAKEN in reason:
            return None
        wanted = f" after {asked.name}" if asked is not None else ", which nobody asked for"
        return f"node {node.node_id} ended with {code}{wanted}: {reason}"

    def _is_expected(self, node_id: NodeId, alarm: Mapping[str, Any]) -> bool:
        """Whether an alarm tells no more than what was done to the node."""
        is_wiped = node_id == self.wiped and alarm["alarm"] == NOT_WHOLE
        return is_wiped or self._lacks_space(node_id, alarm["text"])

    def _lacks_space(self, node_id: NodeId, reason: str) -> bool:
        """Whether this is what a node has to say of its full disk."""
        disk = self.disks.get(node_id)
        return disk is not None and disk.was_full_lately and any(text in reason for text in NO_SPACE)
