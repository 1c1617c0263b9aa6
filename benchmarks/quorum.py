"""How fast does the quorum commit and fail over, here and next to its peers?

    benchmarks/quorum.py [--peer etcd] [--peer kafka] [--json FILE] [--quick]
    benchmarks/quorum.py --brokers [--peer kafka] ...       the same seen through two Kafka brokers

Three nodes of each system on loopback, with real fsync. Faults, idling and memory are measured in one system
after the other; then all are up and take turns with loads (`loads.py`), once with clients in C and once with
one client in Python for all. Prints tables with ratios; absolute figures are this machine's. How each system
is driven is in `peers/`, and docs/performance.md explains what was seen.
"""

import argparse
import asyncio
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from contenders import Who
from load_round import Round
from loads import loads_of
from loads import measure as measure_by_turns
from loads_table import CLIENTS, notes
from loads_table import table as loads_table
from peers.cluster import Cluster, NotThereError, Work, fault_ms, idle
from peers.etcd import Etcd
from peers.kafka import Kafka
from peers.kraftd import Kraftd
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from with_brokers import BrokerFigures, measure_with_brokers

ROOT = Path(__file__).parents[1]
Measured = TypeVar("Measured")
FILLING = 64
"""Connections of the load before memory is looked at."""
FAULTS = {
    "kill": "leader killed (SIGKILL)",
    "pause": "leader paused (SIGSTOP)",
    "term": "leader stopped (SIGTERM)",
    "resign": "leadership handed over",
}
PEERS: dict[str, type[Cluster]] = {"etcd": Etcd, "kafka": Kafka}


class Plan(msgspec.Struct, frozen=True):
    """How long and how often to measure."""

    load_s: float
    load_rounds: int
    filling_s: int
    faults: int
    idle_s: int
    broker_faults: int


FULL = Plan(load_s=2, load_rounds=5, filling_s=30, faults=20, idle_s=20, broker_faults=10)
QUICK = Plan(load_s=0.5, load_rounds=1, filling_s=1, faults=1, idle_s=2, broker_faults=1)


class Figures(msgspec.Struct):
    """What was measured of one system; `loads` has all rounds, by client and load."""

    loads: dict[str, dict[str, list[Round]]] = {}
    failover_ms: dict[str, list[float]] = {}
    idle_cpu_percent: float = 0
    rss_mb: float = 0
    status_s: float | None = None


async def measure(cluster: Cluster, plan: Plan) -> Figures:
    """Everything about one system but its speed, from an empty directory."""
    figures = Figures()
    async with cluster.running():
        say(cluster, "idle")
        await asyncio.sleep(plan.idle_s / 4)
        figures.idle_cpu_percent, _ = await idle(cluster, plan.idle_s)
        say(cluster, f"a load on {FILLING} connections")
        await cluster.load(Work(FILLING, plan.filling_s, client="python"))
        _, figures.rss_mb = await idle(cluster, 1)
        figures.status_s = await cluster.status_s()
        for kind, label in FAULTS.items():
            if kind != "resign" or cluster.can_resign:
                say(cluster, label)
                figures.failover_ms[kind] = [
                    round(await fault_ms(cluster, kind), 1) for _ in range(plan.faults)
                ]
    return figures


def say(cluster: Cluster, what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {cluster.name}: {what}", file=sys.stderr, flush=True)


def table(results: dict[str, Figures]) -> Table:
    """One row a figure; a ratio above 1 says that kraftd is better, whichever way better is."""
    peers = [name for name in results if name != "kraftd"]
    shown = Table(box=SIMPLE, title="Three nodes on loopback")
    shown.add_column("")
    shown.add_column("kraftd", justify="right")
    for name in peers:
        shown.add_column(name, justify="right")
        shown.add_column(f"kraftd : {name}", justify="right")
    for label, values in rows(results):
        cells = [label, number(values["kraftd"])]
        for name in peers:
            cells += [number(values[name]), ratio(values["kraftd"], values[name])]
        shown.add_row(*cells)
    return shown


def rows(results: dict[str, Figures]) -> list[tuple[str, dict[str, float | None]]]:
    """Label, and the value of each system; less is better in each."""
    found: list[tuple[str, dict[str, float | None]]] = []

    def row(label: str, value: Callable[[Figures], float | None]) -> None:
        found.append((label, {name: value(figures) for name, figures in results.items()}))

    for kind, label in FAULTS.items():
        row(f"{label}: ms to next commit, median", partial(failover, kind=kind, reduce=statistics.median))
        row("  worst", partial(failover, kind=kind, reduce=max))
    row("idle CPU of a node, % of a core", lambda figures: figures.idle_cpu_percent)
    row("memory of a node after the load, MB", lambda figures: figures.rss_mb)
    row("status command, whole process, s", lambda figures: figures.status_s)
    return found


def failover(figures: Figures, kind: str, reduce: Callable[[list[float]], float]) -> float | None:
    spans = figures.failover_ms.get(kind)
    return reduce(spans) if spans else None


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


def ratio(ours: float | None, theirs: float | None) -> str:
    return f"{theirs / ours:.2f}x" if ours and theirs else "-"


def broker_table(results: dict[str, BrokerFigures]) -> Table:
    """One row a figure, less is better in each; a ratio above 1 says that kraftd is better."""
    peers = [name for name in results if name != "kraftd"]
    shown = Table(box=SIMPLE, title="Two Kafka brokers on three controllers, changes through the brokers")
    for heading in ("", "kraftd", *(each for name in peers for each in (name, f"kraftd : {name}"))):
        shown.add_column(heading, justify="right" if heading else "left")

    def row(label: str, value: Callable[[BrokerFigures], float]) -> None:
        ours = value(results["kraftd"])
        cells = [label, number(ours)]
        for name in peers:
            theirs = value(results[name])
            cells += [number(theirs), ratio(ours, theirs)]
        shown.add_row(*cells)

    row("active controller killed: ms to next change, median", lambda f: statistics.median(f.failover_ms))
    row("  worst", lambda f: max(f.failover_ms))
    row("broker start to unfenced, s, median", lambda f: statistics.median(f.broker_start_s))
    row("idle CPU of a controller, % of a core", lambda f: f.idle_cpu_percent)
    row("memory of a controller, 1,000 partitions, MB", lambda f: f.rss_mb)
    return shown


def measure_loads(results: dict[str, Figures], plan: Plan) -> list[Table | str]:
    """Add the loads of all systems that are there, by turns; a table for each client, with notes."""
    shown: list[Table | str] = []
    systems = [Who(name, system=name) for name in results]
    for client in CLIENTS:
        try:
            measured = measure_by_turns(systems, loads_of(client, plan.load_s), plan.load_rounds)
        except NotThereError as error:
            print(error, file=sys.stderr)
            continue
        shown += [loads_table(measured, client), *notes(measured)]
        for name, figures in results.items():
            figures.loads[client] = {load: seen[name] for load, seen in measured.rounds.items()}
    return shown


async def run(peers: list[str], measured: Callable[[Cluster], Awaitable[Measured]]) -> dict[str, Measured]:
    results = {}
    systems: list[type[Cluster]] = [Kraftd, *(PEERS[name] for name in peers)]
    for kind in systems:
        (ROOT / ".benchmarks").mkdir(
            exist_ok=True
        )  # not the temporary directory: fsync costs nothing on a tmpfs
        directory = Path(tempfile.mkdtemp(dir=ROOT / ".benchmarks", prefix=f"{kind.name}-"))
        try:
            results[kind.name] = await measured(kind(directory))
        except NotThereError as error:
            print(error, file=sys.stderr)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peer", action="append", default=[], choices=list(PEERS), help="measure this system too"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument(
        "--quick", action="store_true", help="two minutes instead of half an hour: does it run at all?"
    )
    parser.add_argument("--brokers", action="store_true", help="measure through two Kafka brokers instead")
    arguments = parser.parse_args()
    if arguments.brokers and "etcd" in arguments.peer:
        parser.error("--brokers: no broker runs on etcd")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the nodes would outlive us
    plan = QUICK if arguments.quick else FULL
    results: dict[str, Figures] | dict[str, BrokerFigures]
    shown: list[Table | str]
    if arguments.brokers:
        with_brokers = partial(measure_with_brokers, faults=plan.broker_faults, idle_s=plan.idle_s)
        results = asyncio.run(run(arguments.peer, with_brokers))
        shown = [broker_table(results)]
    else:
        results = asyncio.run(run(arguments.peer, partial(measure, plan=plan)))
        shown = [table(results), *measure_loads(results, plan)]
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    console = Console(width=None if sys.stdout.isatty() else 200)
    for each in shown:
        console.print(each, highlight=False, markup=False)


if __name__ == "__main__":
    main()
