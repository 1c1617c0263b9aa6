"""How long does a snapshot of a million partitions take to load, and how much memory does the image need?

    benchmarks/image.py [--peer kafka | --other PATH_OR_REVISION] [--partitions N] [--rounds N] [--json FILE]

Makes the snapshot (`big_snapshot`), and loads it in a process of its own, which then reads, lists and changes
partitions; with `--peer kafka`, Kafka's metadata shell loads the same file in turn, and another of one
partition, which tells what of its time is not loading. With `--other`, another build of kraftd (a folder with
its package, or a revision of this repository) loads it in turn, and nothing else is measured. Prints a table;
docs/performance.md explains what was seen.
"""

import argparse
import gc
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from big_snapshot import BROKERS, END, TIMESTAMP_MS, write_snapshot
from contenders import environment, unpacked
from memory import memory_mb
from peers import kafka_shell
from peers.cluster import NotThereError
from peers.kafka import kafka_java
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import ImageBuilder, apply, apply_all
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.snapshot import to_values
from kraftd.records.batch import BatchView
from kraftd.records.batch_header import LENGTH_AT
from kraftd.records.frame import encode_record
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord
from kraftd.records.snapshot import encode_snapshot
from kraftd.types import Offset, Uuid

ROOT = Path(__file__).parents[1]
PARTITIONS = 1_000_000
HEAP_MB = 1024
SAMPLES = 10_000
CHANGES_A_BATCH = 1_000
CHANGES_IN_SLICES = 100_000
OVERHEAD_BYTES = 12


class Times(msgspec.Struct, frozen=True):
    """Of many."""

    median_us: float = 0
    tenth_us: float = 0
    """A tenth of them took no longer."""
    mean_us: float = 0


class Ours(msgspec.Struct):
    """What was measured of kraftd; memory is resident, of the process that did all of it."""

    load_s: float = 0
    process_s: float = 0
    cpu_s: float = 0
    rss_mb: float = 0
    peak_mb: float = 0
    list_us: dict[str, float] = {}
    """For each partition listed."""
    read_us: Times = Times()
    read_big_us: Times = Times()
    encode_us: float = 0
    """CPU for each record of a snapshot of the image."""
    encode_step_ms: float = 0
    """The longest of the steps between which encoding can be left alone, but for one in a hundred."""
    change_us: Times = Times()
    change_big_us: Times = Times()
    change_in_slices_us: float = 0
    """For each change, in batches of neighbours as values of the log."""
    change_all_s: float = 0
    changed_rss_mb: float = 0
    changed_peak_mb: float = 0
    hash: str = ""


class Theirs(msgspec.Struct):
    """What was measured of Kafka's metadata shell."""

    load_s: float
    """How much later it has it than a snapshot of one partition."""
    process_s: float
    """From its start until it has it."""
    cpu_s: float
    peak_mb: float


class Figures(msgspec.Struct):
    """All that was measured in one run."""

    file_mb: float
    kraftd: Ours
    kafka: Theirs | None
    other: Ours | None = None
    """Another build of kraftd; only what loading takes."""


# -- in the process that is measured


def batches(path: Path) -> Iterator[BatchView]:
    """Every batch of a file, one at a time, its checksum proved."""
    with path.open("rb", buffering=1 << 20) as file:
        while head := file.read(OVERHEAD_BYTES):
            size_bytes = int.from_bytes(head[LENGTH_AT:OVERHEAD_BYTES], "big")
            batch = BatchView(head + file.read(size_bytes), path=str(path))
            batch.check()
            yield batch


def load(path: Path) -> MetadataImage:
    builder = ImageBuilder(EMPTY)
    for batch in batches(path):
        builder.apply_values(batch.values(), batch.base_offset)
    return builder.image()


def measure(path: Path, *, only_load: bool) -> Ours:
    """Load, read, list and change, in this process."""
    ours = Ours()
    began = time.perf_counter()
    image = load(path)
    ours.hash = image.hash()
    ours.load_s = time.perf_counter() - began
    ours.rss_mb, ours.peak_mb = memory_mb()
    if only_load:
        return ours

    ours.encode_us, ours.encode_step_ms = encode(image)
    for name, listing in {
        "as leader": image[TOPICS].partitions_led_by,
        "in the ISR": image[TOPICS].partitions_in_sync_on,
        "as replica": image[TOPICS].partitions_on,
    }.items():
        began = time.perf_counter()
        responses = sum(len(list(listing(broker))) for broker in BROKERS)
        ours.list_us[name] = (time.perf_counter() - began) / responses * 1e6

    rng = random.Random(1)
    sizes = {
        topic.topic_id: sum(1 for _ in image[TOPICS].partitions(topic.topic_id))
        for topic in image[TOPICS].topics()
    }
    ids = [(topic_id, partition_id) for topic_id, size in sizes.items() for partition_id in range(size)]
    some = rng.sample(ids, min(SAMPLES, len(ids)))
    largest = max(sizes, key=lambda topic_id: sizes[topic_id])
    of_largest = [(largest, rng.randrange(sizes[largest])) for _ in some]
    in_order = ids[:CHANGES_IN_SLICES]
    ids = []

    def read(which: tuple[Uuid, int]) -> None:
        partition_of(image, which)

    ours.read_us, ours.read_big_us = times_us(read, some), times_us(read, of_largest)
    changing = Changing(image, rng)
    ours.change_us, ours.change_big_us = times_us(changing, some), times_us(changing, of_largest)
    assert image.hash() == ours.hash != changing.image.hash(), "a change was seen in the frozen copy"
    ours.change_in_slices_us = change_in_slices_us(image, in_order, rng)
    del changing, some, of_largest, in_order
    gc.collect()
    began = time.perf_counter()
    every = (
        change(partition_of(image, (topic_id, partition_id)), rng)
        for topic_id, size in sizes.items()
        for partition_id in range(size)
    )
    while records := list(itertools.islice(every, CHANGES_A_BATCH)):
        image = apply_all(image, records, Offset(0))
    ours.change_all_s = time.perf_counter() - began
    assert image.hash() != ours.hash
    ours.changed_rss_mb, ours.changed_peak_mb = memory_mb()
    return ours


def encode(image: MetadataImage) -> tuple[float, float]:
    """Encode a snapshot of it: CPU of a record in us, and of the longest step in ms."""
    steps_s = []
    pieces = encode_snapshot(
        to_values(image), END.epoch, TIMESTAMP_MS, last_contained_timestamp_ms=TIMESTAMP_MS
    )
    while True:
        began = time.process_time()
        piece = next(pieces, None)
        steps_s.append(time.process_time() - began)
        if piece is None:
            break
    records = sum(1 for _ in to_values(image))
    return sum(steps_s) / records * 1e6, statistics.quantiles(steps_s, n=100)[-1] * 1e3


def change_in_slices_us(image: MetadataImage, whichs: list[tuple[Uuid, int]], rng: random.Random) -> float:
    """Replay a change of each, a batch after the other, from the bytes that the log holds."""
    values = [encode_record(change(partition_of(image, which), rng)) for which in whichs]
    gc.collect()
    began = time.perf_counter()
    for at in range(0, len(values), CHANGES_A_BATCH):
        builder = ImageBuilder(image)
        builder.apply_values(values[at : at + CHANGES_A_BATCH], Offset(at))
        image = builder.image()
    return (time.perf_counter() - began) / len(values) * 1e6


class Changing:
    """An image that goes on from one that stays as it is."""

    def __init__(self, frozen: MetadataImage, rng: random.Random) -> None:
        self.image = frozen
        self._random = rng
        self._next: PartitionChangeRecord | None = None

    def prepare(self, which: tuple[Uuid, int]) -> None:
        self._next = change(partition_of(self.image, which), self._random)

    def __call__(self, _which: tuple[Uuid, int]) -> None:
        assert self._next
        self.image = apply(self.image, self._next, Offset(0))


def partition_of(image: MetadataImage, which: tuple[Uuid, int]) -> PartitionRecord:
    partition = image[TOPICS].partition(*which)
    assert partition is not None, which
    return partition


def change(partition: PartitionRecord, rng: random.Random) -> PartitionChangeRecord:
    """One member of the ISR leaves it, or all come back; another leads, if another can."""
    isr = partition.isr[1:] if len(partition.isr) > 1 else partition.replicas
    return PartitionChangeRecord(
        partition_id=partition.partition_id, topic_id=partition.topic_id, isr=isr, leader=rng.choice(isr)
    )


def times_us(what: Callable[[tuple[Uuid, int]], None], whichs: list[tuple[Uuid, int]]) -> Times:
    """How long each takes: the fastest tenth tells most where others use the machine."""
    times = []
    for which in whichs:
        if isinstance(what, Changing):
            what.prepare(which)
        began = time.perf_counter_ns()
        what(which)
        times.append(time.perf_counter_ns() - began)
    return Times(
        median_us=statistics.median(times) / 1e3,
        tenth_us=statistics.quantiles(times, n=10)[0] / 1e3,
        mean_us=statistics.fmean(times) / 1e3,
    )


# -- around it


class Process(msgspec.Struct):
    """How a process ended."""

    output: bytes
    seconds: float
    cpu_s: float
    peak_mb: float


def run(command: list[str], build: Path = ROOT) -> Process:
    """In a process of its own, for clean figures of memory."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(build)
    )
    assert process.stdout and process.stderr
    with process.stdout, process.stderr:
        output, complaint = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise RuntimeError(f"{command[0]} ended with status {status}: {complaint.decode()}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return Process(output, time.perf_counter() - began, cpu_s, usage.ru_maxrss * 1024 / 1e6)


def run_ours(path: Path, *, only_load: bool, build: Path = ROOT) -> tuple[Ours, Process]:
    process = run([sys.executable, __file__, "--only-load" if only_load else "--measure", str(path)], build)
    return msgspec.json.decode(process.output, type=Ours), process


def median_load(loads: list[tuple[Ours, Process]]) -> Ours:
    """What loading took, each figure the median of the rounds."""
    return Ours(
        load_s=statistics.median(load.load_s for load, _ in loads),
        process_s=statistics.median(process.seconds for _, process in loads),
        cpu_s=statistics.median(process.cpu_s for _, process in loads),
        rss_mb=statistics.median(load.rss_mb for load, _ in loads),
        peak_mb=statistics.median(load.peak_mb for load, _ in loads),
        hash=loads[0][0].hash,
    )


def compare_builds(path: Path, rounds: int, other: Path) -> Figures:
    """What loading takes here and in another build, which take turns."""
    here, there = [], []
    for number in range(1, rounds + 1):
        say(f"round {number} of {rounds}")
        here.append(run_ours(path, only_load=True))
        there.append(run_ours(path, only_load=True, build=other))
    figures = Figures(path.stat().st_size / 1e6, median_load(here), None, median_load(there))
    if figures.other and figures.other.hash != figures.kraftd.hash:
        raise RuntimeError("the two builds make different images of the snapshot")
    return figures


def compare(path: Path, small: Path, partitions: int, rounds: int, java: list[str] | None) -> Figures:
    """All figures, each the median of the rounds, in which kraftd and Kafka take turns."""
    loads, shells, starts = [], [], []
    for number in range(1, rounds + 1):
        say(f"round {number} of {rounds}")
        loads.append(run_ours(path, only_load=True))
        if java:
            shells.append(kafka_shell.load(java, path, count=number == 1))
            starts.append(kafka_shell.load(java, small))
    say("reads and changes")
    ours, _ = run_ours(path, only_load=False)
    loaded = median_load(loads)
    ours.load_s, ours.process_s, ours.cpu_s = loaded.load_s, loaded.process_s, loaded.cpu_s
    theirs = None
    if shells:
        if shells[0].partitions != partitions:
            raise RuntimeError(f"Kafka's shell shows {shells[0].partitions} partitions, not {partitions}")
        process_s = statistics.median(shell.seconds for shell in shells)
        theirs = Theirs(
            load_s=process_s - statistics.median(start.seconds for start in starts),
            process_s=process_s,
            cpu_s=statistics.median(shell.cpu_s for shell in shells),
            peak_mb=statistics.median(shell.peak_mb for shell in shells),
        )
    return Figures(path.stat().st_size / 1e6, ours, theirs)


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {what}", file=sys.stderr, flush=True)


def table(figures: Figures, partitions: int) -> Table:
    """One row a figure; a ratio above 1 says that kraftd is better."""
    ours, theirs = figures.kraftd, figures.kafka
    shown = Table(
        box=SIMPLE,
        title=f"A snapshot of {partitions:,} partitions, {figures.file_mb:.0f} MB",
        title_justify="left",
    )
    shown.add_column("")
    for name in ("kraftd", "kafka", "kraftd : kafka"):
        shown.add_column(name, justify="right")

    def row(label: str, mine: float, other: float | None = None) -> None:
        cells = (number(other), f"{other / mine:.2f}x") if other else ("-", "-")
        shown.add_row(label, number(mine), *cells)

    row("load, s", ours.load_s, theirs.load_s if theirs else None)
    row("  whole process, s", ours.process_s, theirs.process_s if theirs else None)
    row("  whole process, s of CPU", ours.cpu_s, theirs.cpu_s if theirs else None)
    row("resident memory after the load, MB", ours.rss_mb)
    row("  the most until then, MB", ours.peak_mb, theirs.peak_mb if theirs else None)
    for role, us in ours.list_us.items():
        row(f"partitions of a broker {role}, us for each", us)
    row("a record encoded into a snapshot, us of CPU", ours.encode_us)
    row("  the longest step of that, but for one in a hundred, ms", ours.encode_step_ms)
    for label, times in {
        "partition read": ours.read_us,
        "partition of the largest topic read": ours.read_big_us,
        "partition changed": ours.change_us,
        "partition of the largest topic changed": ours.change_big_us,
    }.items():
        row(f"{label}, us", times.median_us)
        row("  the fastest tenth, us", times.tenth_us)
        row("  mean, us", times.mean_us)
    row(f"changes in image order, in slices of {CHANGES_A_BATCH:,}, us for each", ours.change_in_slices_us)
    row(f"every partition changed once, in batches of {CHANGES_A_BATCH:,}, s", ours.change_all_s)
    row("resident memory after that, MB", ours.changed_rss_mb)
    row("  the most until then, MB", ours.changed_peak_mb)
    return shown


def table_of_builds(figures: Figures, partitions: int) -> Table:
    """One row a figure; a ratio below 1 says that this build is better."""
    ours, other = figures.kraftd, figures.other or Ours()
    shown = Table(box=SIMPLE, title=f"A snapshot of {partitions:,} partitions, two builds taking turns")
    for name in ("", "this", "other", "this : other"):
        shown.add_column(name, justify="right" if name else "left")
    for label, mine, theirs in (
        ("load, s", ours.load_s, other.load_s),
        ("  whole process, s", ours.process_s, other.process_s),
        ("  whole process, s of CPU", ours.cpu_s, other.cpu_s),
        ("resident memory after the load, MB", ours.rss_mb, other.rss_mb),
        ("  the most until then, MB", ours.peak_mb, other.peak_mb),
    ):
        shown.add_row(label, number(mine), number(theirs), f"{mine / theirs:.2f}x")
    return shown


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", choices=["kafka"], help="measure Kafka's metadata shell, too")
    parser.add_argument("--other", metavar="PATH_OR_REVISION", help="only compare loading with that build")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of loading; the median counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--only-load", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if inside := arguments.only_load or arguments.measure:
        print(msgspec.json.encode(measure(inside, only_load=bool(arguments.only_load))).decode())
        return
    try:
        java = kafka_java(heap_mb=HEAP_MB) if arguments.peer else None
    except NotThereError as error:
        sys.exit(str(error))
    (ROOT / ".benchmarks").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / ".benchmarks", prefix="image-") as directory:
        say(f"writing a snapshot of {arguments.partitions:,} partitions")
        large, small = Path(directory, "large"), Path(directory, "small")
        large.mkdir()
        small.mkdir()
        path = write_snapshot(large, arguments.partitions)
        if arguments.other:
            build = unpacked(arguments.other, Path(directory))
            figures = compare_builds(path, arguments.rounds, build)
        else:
            figures = compare(path, write_snapshot(small, 1), arguments.partitions, arguments.rounds, java)
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")
    shown = table if figures.other is None else table_of_builds
    Console(width=None if sys.stdout.isatty() else 110).print(shown(figures, arguments.partitions))


if __name__ == "__main__":
    main()
