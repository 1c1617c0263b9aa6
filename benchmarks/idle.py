"""What does a node cost that has nothing to do?

    benchmarks/idle.py [--peer etcd] [--peer kafka] [--brokers] [--seconds 20]

Three nodes of each system on loopback, one system after the other, no client. Told are the CPU of the leader
and of the follower that uses more, to the nanosecond, and how often a thread of theirs fell asleep: each time
something had woken it. With `--brokers` kraftd and Kafka are measured once more, with three real brokers of
Kafka and a thousand partitions (`attached.py`), whose heartbeats and fetches they answer.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from attached import attached
from counters import cpu_s
from loads import work_folder
from machine import interpreter, state
from peers.cluster import Cluster, Node, NotThereError
from peers.etcd import Etcd
from peers.kafka import Kafka
from peers.kraftd import Kraftd
from rows import row

PEERS: dict[str, type[Cluster]] = {"etcd": Etcd, "kafka": Kafka}
CALM_S = 10
"""After a start, until it is over."""


async def measure(cluster: Cluster, up: AbstractAsyncContextManager[None], what: str, seconds: float) -> None:
    """Print what its nodes cost."""
    async with up:
        await asyncio.sleep(CALM_S)
        leader = await cluster.wait_leader()
        await cluster.close_clients()
        guests = [] if cluster.guests is None else cluster.guests.nodes
        guests_s = sum(cpu_s(node.pid) for node in guests)
        before = [(cpu_s(node.pid), asleep(node)) for node in cluster.nodes]
        await asyncio.sleep(seconds)
        spent = {
            node.index: (100 * (cpu_s(node.pid) - cpu) / seconds, (asleep(node) - times) / seconds)
            for node, (cpu, times) in zip(cluster.nodes, before, strict=True)
        }
        guests_s = sum(cpu_s(node.pid) for node in guests) - guests_s
    leads = spent.pop(leader.index)
    for role, (percent, times) in (("leader", leads), ("follower", max(spent.values()))):
        row(f"{what}, {role}: CPU, % of a core", percent, digits=2)
        row(f"{what}, {role}: threads that fell asleep, a second", times)
    if guests:
        row(f"{what}: CPU of all brokers, % of a core", 100 * guests_s / seconds)


def asleep(node: Node) -> int:
    """How often the threads that a process has now have waited for something so far."""
    tasks = Path(f"/proc/{node.pid}/task").iterdir()
    return sum(
        int((task / "status").read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])
        for task in tasks
    )


def runs(peers: list[str], *, brokers: bool) -> Iterator[tuple[type[Cluster], bool]]:
    """Which systems, and whether with brokers."""
    systems: list[type[Cluster]] = [Kraftd, *(PEERS[name] for name in peers)]
    for system in systems:
        yield system, False
        if brokers and system is not Etcd:
            yield system, True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", action="append", default=[], choices=list(PEERS), help="measure it too")
    parser.add_argument("--brokers", action="store_true", help="and once more with three Kafka brokers")
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the nodes would outlive us
    for system, with_brokers in runs(options.peer, brokers=options.brokers):
        with tempfile.TemporaryDirectory(dir=work_folder(), prefix="idle-") as folder:
            cluster = system(Path(folder))
            up = attached(cluster) if with_brokers else cluster.running()
            what = f"{system.name} with brokers" if with_brokers else system.name
            try:
                asyncio.run(measure(cluster, up, what, options.seconds))
            except NotThereError as error:
                print(error, file=sys.stderr)
    print(f"kraftd: {interpreter()}\n{state()}")


if __name__ == "__main__":
    main()
