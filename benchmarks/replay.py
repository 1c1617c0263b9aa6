"""How fast does a replay read logs, and how does Kafka's own dump of the same files compare?

    benchmarks/replay.py [--mb N] [--shape small] [--cores 1 --cores 2] [--peer kafka] [--rounds N]
        [--json FILE]

Makes a log of each shape (`metadata_log`), reads it with Spark and writes Parquet: envelope, type, version
and raw value (`RAW`) once from within the tasks (`write_rows`), once from the `kraft` data source by Spark
itself; then as `kraftctl replay` does, whose tasks write the tables of records, decoded JSON among them, and
of batches. Each run is a process of its own, pinned to so many cores, and is timed after Spark has read a few
records. With `--peer kafka`, DumpLogSegments dumps the same file on as many cores, its whole process timed,
since that is how it is run.

docs/performance.md explains what was seen.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from metadata_log import SHAPES, make_log
from peers.cluster import NotThereError
from peers.kafka import kafka_java
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from kraftd.replay.source.columns import RAW
from kraftd.replay.source.headers import mapped, read_headers

DUMP = "org.apache.kafka.tools.DumpLogSegments"
HEAP_MB = 1024
RAW_BY_TASKS = "raw, written by the tasks"
RAW_BY_SPARK = "raw, written by Spark"
TABLES = "JSON, tables of kraftctl replay"
OURS = (RAW_BY_TASKS, RAW_BY_SPARK, TABLES)
KAFKAS = {
    "kafka: raw, --print-data-log": ["--print-data-log"],
    "kafka: JSON, --skip-record-metadata": ["--cluster-metadata-decoder", "--skip-record-metadata"],
}


class Run(msgspec.Struct):
    """One measurement."""

    shape: str
    what: str
    cores: int
    records: int
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description="Read metadata logs with Spark, and with Kafka's dump.")
    parser.add_argument("--mb", type=int, default=1000, help="how large each log is")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="of these shapes only")
    parser.add_argument("--cores", action="append", type=int, help="on so many cores (default: 1 and 2)")
    parser.add_argument("--peer", action="append", choices=["kafka"], default=[])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _measure(**json.loads(options.one))
        return
    dump = kafka_java(heap_mb=HEAP_MB) if options.peer else None
    with tempfile.TemporaryDirectory(dir=".") as scratch:
        runs = []
        for run in _runs(Path(scratch), options, dump):
            runs.append(run)
            said = f"{run.shape}, {run.what}, {run.cores} cores: {run.seconds:.1f} s"
            print(said, file=sys.stderr, flush=True)
    _show(runs, options.mb)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(runs)))


def _runs(scratch: Path, options: argparse.Namespace, dump: list[str] | None) -> Iterator[Run]:
    for shape in options.shape or SHAPES:
        home = scratch / shape
        segment = make_log(home, shape, size_bytes=options.mb * 1_000_000)
        with mapped(str(segment)) as data:
            records = int(read_headers(data)[0]["record_count"].sum())
        for _ in range(options.rounds):
            for cores in options.cores or (1, 2):
                for what in OURS:
                    yield _ours(shape, home, what, cores, records)
                if dump is not None:
                    for what, flags in KAFKAS.items():
                        command = [*dump, DUMP, *flags, "--files", str(segment)]
                        yield Run(shape, what, cores, records, _kafka(command, cores))
        shutil.rmtree(home)


def _ours(shape: str, home: Path, what: str, cores: int, records: int) -> Run:
    asked = json.dumps({"home": str(home), "what": what, "cores": cores})
    command = [sys.executable, __file__, "--one", asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return Run(shape, what, cores, records, float(done.stdout.splitlines()[-1]))


def _measure(home: str, what: str, cores: int) -> None:
    """The process that is measured: read a log with Spark, write it as Parquet."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    from functools import partial

    from kraftd.logtools.finding import find_fleet
    from kraftd.replay.data_source import write_rows
    from kraftd.replay.session import session
    from kraftd.replay.source.pieces import UNJUDGED, plan_node, shares
    from kraftd.replay.table_parts import make_directories
    from kraftd.replay.writing import Share, write_share

    out = Path(home) / "out"
    with session() as spark:
        frame = spark.read.format("kraft").option("columns", ",".join(RAW)).load(home)
        frame.where("offset < 100").write.mode("overwrite").parquet(f"{out}-warm")
        started = time.monotonic()
        if what == RAW_BY_SPARK:
            frame.write.parquet(str(out))
        elif what == RAW_BY_TASKS:
            write_rows(spark, [home], out, columns=RAW)
        else:
            make_directories(out)
            (node,) = find_fleet([home])[0]
            pieces = list(plan_node(node, UNJUDGED))
            divided = shares(pieces, spark.sparkContext.defaultParallelism)
            tasks = [Share(str(number), tuple(share)) for number, share in enumerate(divided)]
            work = partial(write_share, out=out, show_secrets=False)
            spark.sparkContext.parallelize(tasks, len(tasks)).map(work).count()
        print(time.monotonic() - started)
    shutil.rmtree(out)


def _kafka(command: list[str], cores: int) -> float:
    """Dump a file to nowhere: the seconds of the whole process."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),  # noqa: PLW1509 - nothing else runs here
    )
    if process.wait():
        raise SystemExit(f"kafka: {' '.join(command)} failed")
    return time.monotonic() - started


def _show(runs: list[Run], mb: int) -> None:
    table = Table(title=f"{mb:,} MB a log; load of the machine {os.getloadavg()[0]:.1f}", box=SIMPLE)
    for head in ("shape", "what", "cores", "records", "s", "M records/s"):
        table.add_column(head, justify="left" if head in {"shape", "what"} else "right")
    for run in runs:
        table.add_row(
            run.shape,
            run.what,
            str(run.cores),
            f"{run.records:,}",
            f"{run.seconds:.1f}",
            f"{run.records / run.seconds / 1e6:.2f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    try:
        main()
    except NotThereError as error:
        raise SystemExit(str(error)) from None
