"""Does one machine replay a fleet, in a driver of 1 GB?

    benchmarks/fleet.py [--clusters 100] [--records 1000000] [--json FILE]

Makes so many clusters of one controller each, of so many records (`metadata_log`, shape `small`; ten
different logs, taken in turn), lets `kraftctl replay` do all it does with them (survey, tables, images, page
of plots), and watches the memory of its processes. Spark runs in the driver's Java process, which gets the
heap that `kraftctl replay` always gives it.

docs/performance.md explains what was seen.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
from memory import memory_mb
from metadata_log import make_log

from kraftd.records import meta_properties, names
from kraftd.replay.session import DRIVER_MEMORY

DIFFERENT = 10
WATCH_S = 0.5


class Peak(msgspec.Struct):
    """The most memory a process had, and what it was."""

    name: str
    rss_mb: float


class Figures(msgspec.Struct):
    """All that was measured."""

    clusters: int
    records: int
    mb: float
    seconds: float
    driver_memory: str
    peaks: list[Peak]
    tables: dict[str, int]


def main() -> None:
    parser = argparse.ArgumentParser(description="Replay a fleet of clusters on this machine.")
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--records", type=int, default=1_000_000, help="of each cluster")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as scratch:
        fleet = Path(scratch) / "fleet"
        size = _make_fleet(fleet, options.clusters, options.records)
        print(f"{options.clusters} clusters, {size / 1e6:,.0f} MB; replaying", file=sys.stderr, flush=True)
        figures = _replay(fleet, Path(scratch), options.clusters, size)
    print(_told(figures))
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))


def _make_fleet(fleet: Path, clusters: int, records: int) -> int:
    """Write the clusters' directories; how many bytes of log they hold."""
    numbers = range(min(DIFFERENT, clusters))
    with ProcessPoolExecutor() as pool:
        made = list(pool.map(_make_one, [fleet] * len(numbers), numbers, [records] * len(numbers)))
    for number in range(len(numbers), clusters):
        home = _home(fleet, number)
        shutil.copytree(_home(fleet, number % DIFFERENT), home)
        _identify(home, number)
    return sum(made[number % DIFFERENT] for number in range(clusters))


def _make_one(fleet: Path, number: int, records: int) -> int:
    home = _home(fleet, number)
    segment = make_log(home, "small", records=records, seed=number)
    _identify(home, number)
    return segment.stat().st_size


def _home(fleet: Path, number: int) -> Path:
    return fleet / f"cluster-{number:04d}" / "node-1"


def _identify(home: Path, number: int) -> None:
    """Make a directory that of a cluster of its own."""
    properties = meta_properties.MetaProperties(f"cluster-{number:04d}", 1, (1).to_bytes(16, "big"))
    (home / names.META_PROPERTIES).write_bytes(meta_properties.encode(properties))


def _replay(fleet: Path, scratch: Path, clusters: int, size: int) -> Figures:
    out, page = scratch / "tables", scratch / "report.html"
    command = [sys.executable, "-m", "kraftd.cli.main", "replay", str(fleet), "--out", str(out)]
    command += ["--report", str(page), "-o", "json"]
    peaks: dict[int, Peak] = {}
    started = time.monotonic()
    with (scratch / "replay.json").open("wb") as told, subprocess.Popen(command, stdout=told) as process:
        while process.poll() is None:
            _watch(process.pid, peaks)
            time.sleep(WATCH_S)
    seconds = time.monotonic() - started
    if process.returncode:
        raise SystemExit(f"kraftctl replay ended with {process.returncode}")
    report = json.loads((out / "summary.json").read_bytes())
    return Figures(
        clusters=clusters,
        records=report["tables"]["records"],
        mb=size / 1e6,
        seconds=seconds,
        driver_memory=DRIVER_MEMORY,
        peaks=sorted(peaks.values(), key=lambda peak: -peak.rss_mb),
        tables=report["tables"],
    )


def _watch(pid: int, peaks: dict[int, Peak]) -> None:
    """Note the peak of a process and of all below it."""
    for one in (pid, *_below(pid)):
        with contextlib.suppress(OSError):  # it has ended
            peaks[one] = Peak(Path(f"/proc/{one}/comm").read_text().strip(), memory_mb(one)[1])


def _below(pid: int) -> Iterator[int]:
    try:
        children = [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return
    for child in children:
        yield child
        yield from _below(child)


def _told(figures: Figures) -> str:
    peaks = ", ".join(f"{peak.name} {peak.rss_mb:,.0f} MB" for peak in figures.peaks)
    rows = ", ".join(f"{name} {count:,}" for name, count in figures.tables.items())
    return (
        f"{figures.clusters} clusters, {figures.records:,} records, {figures.mb:,.0f} MB of logs: "
        f"{figures.seconds:,.0f} s, {figures.records / figures.seconds:,.0f} records a second\n"
        f"spark.driver.memory={figures.driver_memory}; peaks of resident memory: {peaks}\n"
        f"rows: {rows}"
    )


if __name__ == "__main__":
    main()
