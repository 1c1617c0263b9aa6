"""One of those that are measured beside each other: its three nodes, and what is done to them.

    side.py DIRECTORY kraftd|etcd|kafka [--brokers]

Started by `contenders.py` for `beside.py` and `loads.py`. Imports the `kraftd` that PYTHONPATH names, so that
a build is asked in its own words: their versions of the handshake differ. Says on its standard output, as a
line of JSON, where that is and what interprets it; then takes one `Step` a line from its standard input and
answers with what was measured. The end of the input ends the nodes.
"""

import asyncio
import datetime as dt
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from attached import SNAPSHOTS, attached
from load_round import load_round
from machine import interpreter
from peers.cluster import Cluster, Node, NotThereError, Probe, Work, fault_ms, idle
from peers.etcd import Etcd
from peers.kafka import Kafka
from peers.kraftd import Kraftd

import kraftd

SETTLE_S = 1.0
"""After a voter was killed: long enough for the others to be at their longest back-off."""

IDLE_S = 10


class Step(msgspec.Struct, frozen=True):
    """What to do: a load if there is work, and else what the name says."""

    name: str
    work: Work | None = None
    counted: bool = False
    """Whether the kernel counts system calls meanwhile."""


class Side(Kraftd):
    """A quorum of one build."""

    def prepare(self) -> None:
        super().prepare()
        for node in self.nodes:
            shutil.copytree(node.directory / "data", node.directory / "formatted")

    async def do(self, step: Step) -> dict[str, float]:
        """Do one step; what was measured, under names that `beside.py` knows."""
        match step.name:
            case "cold start":
                return await self.cold_start()
            case "return":
                return await self.voter_returns()
            case "failover":
                return await self.failover()
            case "standstill":
                return {"standstill": await fault_ms(self, "pause")}
            case "idle":
                return await self.idle()
            case "stop":
                return {"stop": await fault_ms(self, "term")}
            case "hand-over":
                return {"hand-over": await fault_ms(self, "resign")}
        raise ValueError(f"no such step: {step.name}")

    async def failover(self) -> dict[str, float]:
        """Milliseconds to the next commit after `kill -9` of the leader.

        A follower that loses its leader waits up to 100 ms by chance, so that not both campaign at once; what
        is left without that wait is told too.
        """
        marks = {node.index: log_size(node) for node in self.nodes}
        took_ms = await fault_ms(self, "kill")
        waits = [wait for node in self.nodes for wait in loss_waits(lines(node, marks[node.index]))]
        _, drawn_s = min(waits, default=(0.0, 0.0))
        return {"failover": took_ms, "failover, no wait": took_ms - 1000 * drawn_s}

    async def idle(self) -> dict[str, float]:
        """Percent of a core that the busiest node uses without a client, once it has settled."""
        await self.close_clients()
        await asyncio.sleep(SETTLE_S)
        percent, _ = await idle(self, IDLE_S)
        return {"idle": percent}

    async def cold_start(self) -> dict[str, float]:
        """Three formatted directories, three processes: milliseconds to the first commit.

        The random election timeout of the first candidate is most of it and differs by hundreds of
        milliseconds, so what is left without that wait is told too; of it, what came after that wait. Most
        of the rest is three interpreters that import: their CPU says more where much else runs.
        """
        await self.close_clients()
        for node in self.nodes:
            node.stop()
            shutil.rmtree(node.directory / "data")
            shutil.copytree(node.directory / "formatted", node.directory / "data")
        marks = {node.index: log_size(node) for node in self.nodes}
        began = time.time()
        for node in self.nodes:
            node.start()
        committed = await self._next_commit(self.nodes)
        cpu_s = sum(node.cpu_s() for node in self.nodes)
        waits = [wait for node in self.nodes for wait in election_waits(list(lines(node, marks[node.index])))]
        first_s, drawn_s = min(waits)
        took_s = committed - began
        return {
            "cold start": 1000 * took_s,
            "cold start, no wait": 1000 * (took_s - drawn_s),
            "cold start, election": 1000 * (committed - first_s),
            "cold start, cpu": 1000 * cpu_s,
        }

    async def voter_returns(self) -> dict[str, float]:
        """A killed follower comes back and is needed: milliseconds to the commit that counts its fetch.

        The third voter is paused meanwhile. Told from the start of the process, and from the moment when it
        takes connections.
        """
        leader = await self.wait_leader()
        await self.rejoined(leader)
        voter, third = (node for node in self.nodes if node is not leader)
        await self.close_clients()
        voter.stop()
        await asyncio.sleep(SETTLE_S)
        mark = log_size(voter)
        third.signal(signal.SIGSTOP)
        try:
            began = time.time()
            voter.start()
            committed = await self._next_commit([leader, voter])
        finally:
            third.signal(signal.SIGCONT)
        listening = next(at for at, line in lines(voter, mark) if line["event"] == "started")
        await self.close_clients()
        await self.rejoined(voter)
        return {"return": 1000 * (committed - began), "return, listening": 1000 * (committed - listening)}

    async def _next_commit(self, nodes: list[Node]) -> float:
        """When, by the clock that stamps the daemons' logs, a change was committed through one of these."""
        probe = Probe(self)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(probe.run(node)) for node in nodes]
            await probe.new_leadership(None)
            now, monotonic = time.time(), time.perf_counter()
            for task in tasks:
                task.cancel()
        await self.close_clients()
        return now - (monotonic - probe.commits[0][0])


def log_size(node: Node) -> int:
    log = node.directory / "output.log"
    return log.stat().st_size if log.exists() else 0


def lines(node: Node, mark: int) -> Iterator[tuple[float, dict[str, Any]]]:
    """What the node said from there on, with the time of each line in seconds."""
    with (node.directory / "output.log").open("rb") as log:
        log.seek(mark)
        for text in log:
            line = msgspec.json.decode(text)
            yield dt.datetime.fromisoformat(line["timestamp"]).timestamp(), line


def election_waits(said: list[tuple[float, dict[str, Any]]]) -> Iterator[tuple[float, float]]:
    """When the node first asked for votes, and how long after its start; nothing if it never did."""
    started = None
    for at, line in said:
        if line["event"] == "started":
            started = at
        elif started is not None and line["event"] == "transition" and line["to"] == "prospective":
            yield at, at - started
            return


def loss_waits(said: Iterator[tuple[float, dict[str, Any]]]) -> Iterator[tuple[float, float]]:
    """When the node asked for votes after it had lost a peer, and how long after that; nothing if never."""
    lost = None
    for at, line in said:
        if line["event"] == "peer_lost":
            lost = at
        elif lost is not None and line["event"] == "transition" and line["to"] == "prospective":
            yield at, at - lost
            return


SYSTEMS: dict[str, type[Cluster]] = {"kraftd": Side, "etcd": Etcd, "kafka": Kafka}


async def main() -> None:
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    cluster = SYSTEMS[sys.argv[2]](Path(sys.argv[1]))
    with_brokers = "--brokers" in sys.argv
    cluster.properties = SNAPSHOTS if with_brokers else ""
    async with attached(cluster) if with_brokers else cluster.running():
        while order := await orders.readline():
            step = msgspec.json.decode(order, type=Step)
            async with asyncio.timeout(180):
                if step.work is not None:
                    say(msgspec.to_builtins(await load_round(cluster, step.work, counted=step.counted)))
                elif step.name == "pause":
                    cluster.pause()
                    say({})
                elif isinstance(cluster, Side):
                    say(await cluster.do(step))


def say(what: dict[str, Any]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the nodes would outlive us
    say({"kraftd": str(Path(kraftd.__file__).resolve().parent), "interpreter": interpreter()})
    try:
        asyncio.run(main())
    except NotThereError as error:
        say({"missing": str(error)})
