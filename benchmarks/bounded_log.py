"""What snapshots, cleaning and starts cost.

    .venv/bin/python benchmarks/bounded_log.py [PART ...] [--peer kafka] [--quick]

Three controllers on loopback with real fsync, everything on this machine; `month` has one directory, and no
process but its own. Rows with a wanted figure say whether it is reached.

    snapshot   commits with one and with sixteen connections while all nodes write a snapshot of a million
               partitions, one after the other, beside quiet ones of that run; the longest turn of a loop;
               what one snapshot costs a node in CPU, time and memory
    wiped      a node without its directory, until its image of a million partitions is up to date again;
               with `--peer kafka` one of Kafka's as well
    restart    with 3.3 million records written before, a hundred a request: SIGKILL and start until all is
               applied again; failover right after a failover, twenty times; the disk after that
    single     the same with 3.3 million batches of one record
    month      5.2 million NoOps, one each half second of a month, through log, snapshots and cleaner
    observers  a hundred observers (`observers.py`)

Not here: the load of an image alone (`image.py`).
"""

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
import observers
import uvloop
from aged_directory import BEGINNING, NO_OP, AgedDirectory
from bounded_cluster import (
    WAIT_S,
    Aged,
    Bounded,
    KafkaWithSnapshot,
    WithSnapshot,
    follower,
    kill,
    log_of,
    wipe,
)
from memory import memory_mb
from peers.cluster import CLUSTER_ID, Node, NotThereError, Probe, Work
from peers.kafka import kafka_java
from peers.kraftd import KRAFTCTL
from rows import note, row
from timed_daemon import TURNS_FILE, Turns

from kraftd.records import names
from kraftd.storage import OsFileSystem, format_directory

ROOT = Path(__file__).parents[1]
BEGAN_MS = 1_800_000_000_000
NO_OP_MS = 500
DAY_NO_OPS = 24 * 3_600_000 // NO_OP_MS
MIB = 1 << 20


class Plan(msgspec.Struct, frozen=True):
    """How much there is of everything."""

    partitions: int
    snapshot_interval_ms: int
    """How long after a snapshot the next one is due: three are written in less than half of it."""
    records: int
    no_ops: int
    window_s: float
    starts: int
    failovers: int
    observers: int


FULL = Plan(
    partitions=1_000_000,
    snapshot_interval_ms=90_000,
    records=3_300_000,
    no_ops=30 * DAY_NO_OPS,
    window_s=4,
    starts=5,
    failovers=20,
    observers=100,
)
QUICK = Plan(
    partitions=5_000,
    snapshot_interval_ms=8_000,
    records=20_000,
    no_ops=3 * DAY_NO_OPS // 10,
    window_s=1,
    starts=1,
    failovers=2,
    observers=10,
)


def main() -> None:
    parser = argparse.ArgumentParser(description="What snapshots, cleaning and starts cost.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--peer", choices=["kafka"], help="wipe a node of Kafka's, too")
    parser.add_argument(
        "--quick", action="store_true", help="with little of everything: only whether it runs"
    )
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the nodes would outlive us
    for part in options.parts or PARTS:
        note(part, time.strftime("%H:%M:%S"))
        _run(PARTS[part], QUICK if options.quick else FULL)
        if part == "wiped" and options.peer:
            _run(wiped_kafka, QUICK if options.quick else FULL)
    row("load of this machine, 1 minute", os.getloadavg()[0])


Part = Callable[[Path, Plan], Coroutine[None, None, None]]


def _run(part: Part, plan: Plan) -> None:
    home = ROOT / ".benchmarks"
    home.mkdir(exist_ok=True)  # not the temporary directory: fsync costs nothing on a tmpfs
    with tempfile.TemporaryDirectory(dir=home, prefix="bounded-") as folder:
        uvloop.run(part(Path(folder), plan))


# --- snapshots beside commits -------------------------------------------------------------------------------


class Write(msgspec.Struct, frozen=True):
    """A snapshot that a node wrote, in seconds since the epoch."""

    began_s: float
    ended_s: float


class _Line(msgspec.Struct):
    event: str
    timestamp: datetime
    took_ms: float = 0


def writes_of(node: Node) -> list[Write]:
    """The snapshots that a node has written, by its log lines."""
    lines = (node.directory / "output.log").read_text().splitlines()
    told = (msgspec.json.decode(line, type=_Line) for line in lines if '"snapshot_written"' in line)
    return [
        Write(each.timestamp.timestamp() - each.took_ms / 1_000, each.timestamp.timestamp()) for each in told
    ]


class Window(msgspec.Struct, frozen=True):
    """A while of load."""

    began_s: float
    ended_s: float
    p99_ms: float

    def is_beside(self, write: Write) -> bool:
        """Whether a snapshot was being written in some of it."""
        return write.began_s < self.ended_s and self.began_s < write.ended_s

    def is_within(self, write: Write) -> bool:
        """Whether a snapshot was being written in all of it."""
        return write.began_s <= self.began_s and self.ended_s <= write.ended_s


async def snapshot(folder: Path, plan: Plan) -> None:
    cluster = WithSnapshot(folder, plan.partitions, plan.snapshot_interval_ms)
    async with cluster.running():
        await cluster.wait_applied(*cluster.nodes)
        # The first one replaces what was loaded, and is like all others.
        await _load_until_written(cluster, plan, 16, 1)
        for connections in (1, 16):
            for node in cluster.nodes:
                (node.directory / TURNS_FILE).unlink(missing_ok=True)
            windows = await _load_until_written(cluster, plan, connections, 2)
            _show_windows(cluster, windows, connections)
        took_s = [write.ended_s - write.began_s for node in cluster.nodes for write in writes_of(node)]
        row("a snapshot of a node beside these commits: time, s, the longest", max(took_s), at_most=30)
        await _alone(cluster)


async def _load_until_written(cluster: Bounded, plan: Plan, connections: int, times: int) -> list[Window]:
    """Load until each node has written so many more snapshots, and none is being written."""
    before = [len(writes_of(node)) for node in cluster.nodes]
    windows = []
    async with asyncio.timeout(2 * WAIT_S):
        while not all(
            len(writes_of(node)) >= count + times for node, count in zip(cluster.nodes, before, strict=True)
        ):
            began_s = time.time() + min(1.0, plan.window_s / 2)  # the load's own warm-up
            load = await cluster.load(Work(connections, plan.window_s, client="python"))
            windows.append(Window(began_s, began_s + plan.window_s, load.p99_ms))
    return windows


def _show_windows(cluster: Bounded, windows: Sequence[Window], connections: int) -> None:
    writes = [write for node in cluster.nodes for write in writes_of(node)]
    quiet = [each.p99_ms for each in windows if not any(each.is_beside(write) for write in writes)]
    beside = [each.p99_ms for each in windows if any(each.is_within(write) for write in writes)]
    if not quiet or not beside:
        note(
            f"{connections} connections: windows without a write, and within one",
            f"{len(quiet)}, {len(beside)}",
        )
        return
    quiet_ms, beside_ms = statistics.median(quiet), statistics.median(beside)
    label = f"p99 of commits, {connections} connections, ms: quiet ({len(quiet)} windows)"
    row(label, quiet_ms, digits=2)
    row(f"  while a snapshot is written ({len(beside)} windows)", beside_ms, digits=2)
    row("  times the quiet one", beside_ms / quiet_ms, at_most=2, digits=2)
    turns = [
        msgspec.json.decode((node.directory / TURNS_FILE).read_bytes(), type=Turns) for node in cluster.nodes
    ]
    row("  longest turn, ms of CPU", max(each.longest_ms for each in turns), at_most=10)
    row("  longest turn, ms by the clock", max(each.longest_clock_ms for each in turns))
    long, count = sum(each.long for each in turns), sum(each.count for each in turns)
    note("  turns of more than 10 ms of CPU, of all", f"{long:,} / {count:,}")


async def _alone(cluster: Bounded) -> None:
    """What a snapshot costs a node while nothing else happens."""
    node = await follower(cluster)
    while not _is_writing(node):  # noqa: ASYNC110 - another process sets no event
        await asyncio.sleep(0.01)  # idle NoOps carry the time to the next point
    cpu_s, began_mb, began_s = node.cpu_s(), memory_mb(node.pid)[0], time.monotonic()
    most_mb = began_mb
    while _is_writing(node):
        await asyncio.sleep(0.02)
        most_mb = max(most_mb, memory_mb(node.pid)[0])
    row("a snapshot of a follower without load: CPU, s", node.cpu_s() - cpu_s, at_most=3)
    row("  time, s", time.monotonic() - began_s, at_most=30)
    row("  more resident memory, MB", most_mb - began_mb, at_most=60)


def _is_writing(node: Node) -> bool:
    return any(log_of(node).glob(f"*{names.PART}"))


# --- a wiped node -------------------------------------------------------------------------------------------


async def wiped(folder: Path, plan: Plan) -> None:
    cluster = WithSnapshot(folder, plan.partitions, plan.snapshot_interval_ms)
    async with cluster.running():
        await cluster.wait_applied(*cluster.nodes)
        await cluster.load(Work(16, plan.window_s, client="python"))
        node = await follower(cluster)
        await wipe(node, [KRAFTCTL])
        began_s = time.monotonic()
        node.start()
        await cluster.wait_applied(node)
        row("a wiped node until its image is up to date, s", time.monotonic() - began_s, at_most=15)
        row("  CPU of that, s", node.cpu_s())


LOADED = ("Successfully loaded snapshot", "initializing KRaftMetadataCachePublisher")
"""What Kafka's controller and its metadata loader say when each has the image."""


async def wiped_kafka(folder: Path, plan: Plan) -> None:
    cluster = KafkaWithSnapshot(folder, plan.partitions)
    try:
        async with cluster.running():
            node = await follower(cluster)
            await wipe(node, [*kafka_java(heap_mb=400), "kafka.tools.StorageTool"])
            began_s = time.monotonic()
            node.start()
            async with asyncio.timeout(WAIT_S):
                while not _has_said(node, LOADED):  # noqa: ASYNC110 - another process sets no event
                    await asyncio.sleep(0.1)
            row("one of Kafka's, s", time.monotonic() - began_s)
            row("  CPU of that, s", node.cpu_s())
    except NotThereError as error:
        print(error, file=sys.stderr)


def _has_said(node: Node, sayings: Sequence[str]) -> bool:
    text = (node.directory / "output.log").read_text(errors="replace")
    return all(saying in text for saying in sayings)


# --- starts -------------------------------------------------------------------------------------------------


async def restart(folder: Path, plan: Plan) -> None:
    cluster = Bounded(folder)
    async with cluster.running():
        while await cluster.committed() < plan.records:
            await cluster.load(Work(16, plan.window_s, batch=True, client="python"))
        row("records written before, several a batch", await cluster.committed(), digits=0)
        await _measure_starts(cluster, plan, wanted_s=1.5)


async def single(folder: Path, plan: Plan) -> None:
    cluster = Aged(folder, plan.records)
    async with cluster.running():
        row("records written before, one a batch", await cluster.committed(), digits=0)
        await _measure_starts(cluster, plan, wanted_s=3)


async def _measure_starts(cluster: Bounded, plan: Plan, wanted_s: float) -> None:
    await cluster.wait_applied(*cluster.nodes)
    starts = [await _start(cluster) for _ in range(plan.starts)]
    starts_s = [each.took_s for each in starts]
    row("SIGKILL and start to applied, s, median", statistics.median(starts_s), at_most=wanted_s, digits=2)
    row("  worst", max(starts_s), digits=2)
    row("  CPU of that, s, median", statistics.median(each.cpu_s for each in starts), digits=2)
    pauses_s = await _failovers_in_a_row(cluster, plan.failovers)
    row("failover right after a failover, s, median", statistics.median(pauses_s), at_most=1, digits=2)
    row("  worst", max(pauses_s), at_most=2.5, digits=2)
    await cluster.wait_applied(*cluster.nodes)
    sizes = [sum(path.stat().st_size for path in log_of(node).iterdir()) for node in cluster.nodes]
    row("log and snapshots after that, the largest of three, MiB", max(sizes) / MIB, at_most=160)


class Start(msgspec.Struct, frozen=True):
    """What it took until a node had applied everything."""

    took_s: float
    cpu_s: float
    """Of its process alone: other work on this machine does not count."""


async def _start(cluster: Bounded) -> Start:
    node = await follower(cluster)
    await kill(node)
    began_s = time.monotonic()
    node.start()
    await cluster.wait_applied(node)
    return Start(time.monotonic() - began_s, node.cpu_s())


async def _failovers_in_a_row(cluster: Bounded, times: int) -> list[float]:
    """Kill one leader after the other, each as soon as it has committed; each is started again at once.

    So one of the two that are left has just been started, and the next commit waits for it.
    """
    probe = Probe(cluster)
    pauses_s = []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(probe.run(node)) for node in cluster.nodes]
        leadership = await probe.new_leadership(None)
        for _ in range(times):
            leader = next(node for node in cluster.nodes if node.index == leadership)
            began_s = time.perf_counter()
            await kill(leader)
            leadership = await probe.new_leadership(leadership)
            pauses_s.append(probe.commits[-1][0] - began_s)
            leader.start()
        for task in tasks:
            task.cancel()
    await cluster.close_clients()
    return pauses_s


# --- a month ------------------------------------------------------------------------------------------------


async def month(folder: Path, plan: Plan) -> None:
    path = folder / "data"
    directory_id = (1).to_bytes(16, "big")
    format_directory(
        OsFileSystem(), path, cluster_id=CLUSTER_ID, node_id=1, directory_id=directory_id, now_ms=BEGAN_MS
    )
    peaks_mib = list(_peaks_mib(AgedDirectory(path, 1, began_ms=BEGAN_MS), plan.no_ops))
    row(f"{plan.no_ops:,} idle NoOps: the most on the disk, MiB", max(peaks_mib), at_most=300)
    last = peaks_mib[-7:]
    row("  by how much the peaks of the last seven days differ, MiB", max(last) - min(last), at_most=1)


def _peaks_mib(aged: AgedDirectory, no_ops: int) -> Iterator[float]:
    """Of each day: the most that was on the disk."""
    for number in range(1, no_ops + 1):
        aged.append(NO_OP, BEGINNING, BEGAN_MS + number * NO_OP_MS)
        if number % DAY_NO_OPS == 0 or number == no_ops:
            yield aged.take_peak_bytes() / MIB
    aged.close()


async def with_observers(folder: Path, plan: Plan) -> None:
    await observers.measure(folder, plan.observers, rate=1_000, seconds=max(1, round(2.5 * plan.window_s)))


PARTS: dict[str, Part] = {
    "snapshot": snapshot,
    "wiped": wiped,
    "restart": restart,
    "single": single,
    "month": month,
    "observers": with_observers,
}


if __name__ == "__main__":
    main()
