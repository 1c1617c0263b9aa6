"""Is this checkout slower than another build of kraftd, measured at the same time on the same machine?

    benchmarks/beside.py --other PATH_OR_REVISION [--rounds 20] [--loads 10] [--connections 16]
                         [--only STEP ...] [--json FILE]

The other build is a folder with its package `kraftd`, or a revision of this repository, which is unpacked
into a temporary folder. Both run with this environment's interpreter and libraries, three nodes of each on
loopback with default settings, and take turns: what else the machine does hits both alike. Each round is

- a cold start: three formatted directories, three processes, to the first commit;
- a voter's return: a killed follower starts while the third voter is paused, to the commit that counts it;
- a failover: `kill -9` of the leader to the next commit;

and after those, so that logs are short until then, rounds of load: CPU of all daemons a change, and
committed changes a second. Medians of differences or ratios of neighbouring rounds, with their quartiles;
`--other .` shows what of that is noise.
"""

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from side import Step

ROOT = Path(__file__).parents[1]
LOAD_S = 5
STEPS = ("cold start", "return", "failover", "load")

Rounds = list[dict[str, float]]


class Row(msgspec.Struct, frozen=True):
    """A figure: how two rounds or all of them are compared, and what is wanted of the result."""

    label: str
    name: str
    kind: str
    """`difference` or `ratio` of neighbouring rounds, or `median` or `worst`: a ratio over all rounds."""
    wanted: float | None = None
    more_is_better: bool = False


ROWS = (
    Row("kill -9 of the leader to the next commit, ms: median", "failover", "median", 1.1),
    Row("  worst", "failover", "worst", 1.1),
    Row("  less the random wait before the election", "failover, no wait", "difference"),
    Row("cold start of three nodes to the first commit, ms", "cold start", "difference"),
    Row("  less the random wait for the first election", "cold start, no wait", "difference", 10),
    Row("  from the first election on", "cold start, election", "difference", 10),
    Row("  CPU of all three until then", "cold start, cpu", "difference"),
    Row("voter's return to its first counted fetch, ms", "return", "difference", 10),
    Row("  from when it takes connections", "return, listening", "difference", 10),
    Row("CPU of all daemons a change, us", "cpu", "ratio", 1.03),
    Row("committed changes/s", "throughput", "ratio", 0.9, more_is_better=True),
)


class Build:
    """A process that drives the daemons of one build."""

    def __init__(self, root: Path, directory: Path) -> None:
        command = [sys.executable, str(Path(__file__).with_name("side.py")), str(directory)]
        self._process = subprocess.Popen(
            command,
            env=environment(root),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if sys.stderr.isatty() else None,
        )
        package = Path(str(self._answer()["kraftd"]))
        if package != (root / "kraftd").resolve():
            raise SystemExit(f"{root} was to be measured, but Python finds kraftd in {package}")

    def do(self, step: Step) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(step) + b"\n")
        self._process.stdin.flush()
        return msgspec.convert(self._answer(), dict[str, float])

    def stop(self) -> None:
        """End its daemons, and it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _answer(self) -> dict[str, object]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the measuring process ended early; its words are above")
        return msgspec.json.decode(line, type=dict[str, object])


def take_turns(builds: list[Build], step: Step, count: int) -> tuple[Rounds, Rounds]:
    """So many pairs of rounds; who begins alternates."""
    found: tuple[Rounds, Rounds] = [], []
    for number in range(count):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            found[side].append(builds[side].do(step))
        said = ", ".join(
            f"{name} {value:,.1f} : {found[1][-1][name]:,.1f}" for name, value in found[0][-1].items()
        )
        print(f"{time.strftime('%H:%M:%S')}  {number + 1} of {count}: {said}", file=sys.stderr, flush=True)
    return found


def table(results: dict[str, tuple[list[float], list[float]]], other: str) -> Table:
    """One row a figure."""
    shown = Table(box=SIMPLE, title=f"This checkout and {other}, three nodes each on loopback, taking turns")
    shown.add_column("")
    for name in ("this", "other", "compared", "quartiles", "wanted", ""):
        shown.add_column(name, justify="right")
    for row in ROWS:
        if row.name in results:
            shown.add_row(row.label, *cells(row, *results[row.name]))
    return shown


def cells(row: Row, ours: list[float], theirs: list[float]) -> list[str]:
    """The two figures, how they compare, how that is spread, what was wanted, and whether it is so."""
    reduce: Callable[[list[float]], float] = max if row.kind == "worst" else statistics.median
    mine, other = reduce(ours), reduce(theirs)
    pairs = list(zip(ours, theirs, strict=True))
    spread: list[float] = []
    if row.kind == "difference":
        spread = [one - two for one, two in pairs]
    elif row.kind == "ratio":
        spread = [one / two for one, two in pairs]
    compared = statistics.median(spread) if spread else mine / other
    unit = "{:+.1f}" if row.kind == "difference" else "{:.3f}x"
    low_high = ""
    if len(spread) > 1:
        low, _, high = statistics.quantiles(spread, n=4, method="inclusive")
        low_high = f"{unit.format(low)} .. {unit.format(high)}"
    wanted = verdict = ""
    if row.wanted is not None:
        wanted = ("at least " if row.more_is_better else "at most ") + unit.format(row.wanted)
        held = compared >= row.wanted if row.more_is_better else compared <= row.wanted
        verdict = "held" if held else "OVER"
    return [f"{mine:,.1f}", f"{other:,.1f}", unit.format(compared), low_high, wanted, verdict]


def environment(root: Path) -> dict[str, str]:
    """In which a build's daemons run: its own package, compiled once."""
    without = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**without, "PYTHONPATH": str(root)}


def unpacked(other: str, scratch: Path) -> Path:
    """The folder of the other build: as named, or the revision of that name."""
    if (Path(other) / "kraftd").is_dir():
        return Path(other).resolve()
    folder = scratch / "other"
    folder.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", other, "kraftd"], capture_output=True, check=False
    )
    if archive.returncode:
        raise SystemExit(f"{other} is neither a folder with kraftd in it nor a revision of {ROOT}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def measure(
    other: Path, scratch: Path, plan: list[tuple[Step, int]]
) -> dict[str, tuple[list[float], list[float]]]:
    """Each figure's values of both builds, by name, in order of the rounds."""
    results: dict[str, tuple[list[float], list[float]]] = {}
    builds: list[Build] = []
    try:
        for name, root in (("this", ROOT), ("other", other)):
            # Both with compiled modules, or the first to have run here would start sooner.
            subprocess.run(
                [sys.executable, "-m", "compileall", "-q", "kraftd"],
                cwd=root,
                env=environment(root),
                check=True,
            )
            builds.append(Build(root, scratch / f"nodes-of-{name}"))
        for step, count in plan:
            print(f"{step.name}, this : other", file=sys.stderr)
            ours, theirs = take_turns(builds, step, count)
            for name in ours[0] if ours else ():
                results[name] = [one[name] for one in ours], [one[name] for one in theirs]
    finally:
        for build in builds:
            build.stop()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", required=True, help="a folder with another kraftd, or a revision")
    parser.add_argument("--rounds", type=int, default=20, help="of each start, return and failover")
    parser.add_argument("--loads", type=int, default=10, help=f"rounds of load, {LOAD_S} s each")
    parser.add_argument("--connections", type=int, default=16, help="of each load")
    parser.add_argument("--only", action="append", choices=STEPS, help="leave out the others")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all values there")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the nodes would outlive us
    plan = [
        (Step("load", arguments.connections, LOAD_S), arguments.loads)
        if name == "load"
        else (Step(name), arguments.rounds)
        for name in STEPS
        if name in (arguments.only or STEPS)
    ]
    (ROOT / ".benchmarks").mkdir(exist_ok=True)  # not the temporary directory: fsync costs nothing on a tmpfs
    scratch = Path(tempfile.mkdtemp(dir=ROOT / ".benchmarks", prefix="beside-"))
    try:
        results = measure(unpacked(arguments.other, scratch), scratch, plan)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    Console(width=None if sys.stdout.isatty() else 150).print(table(results, arguments.other))


if __name__ == "__main__":
    main()
