"""Is this checkout slower than another build of kraftd, measured at the same time on the same machine?

    benchmarks/beside.py --other PATH_OR_REVISION [--rounds 20] [--loads 10] [--connections 16]
                         [--only STEP ...] [--json FILE]

The other build is a folder with its package `kraftd`, or a revision of this repository, which is unpacked
into a temporary folder. Both run with this environment's interpreter and libraries, three nodes of each on
loopback with default settings, and take turns: what else the machine does hits both alike. Each round is

- a cold start: three formatted directories, three processes, to the first commit;
- a voter's return: a killed follower starts while the third voter is paused, to the commit that counts it;
- a failover: `kill -9` of the leader to the next commit;
- a leader that stands still: SIGSTOP to the next commit;
- ten seconds without a client: CPU of the node that uses most;
- a stop: SIGTERM of the leader to the next commit of another; and a hand-over that is asked for;

and after those, so that logs are short until then, rounds of load: CPU of all daemons a change, and
committed changes a second (`loads.py --beside` tells more of loads). Medians of differences or ratios of
neighbouring rounds, with their quartiles; `--other .` shows what of that is noise.
"""

import argparse
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from alternation import by_turns
from contenders import ROOT, Contender, Who, contenders, unpacked
from peers.cluster import Work
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from side import Step

LOAD_S = 5
STEPS = ("cold start", "return", "failover", "standstill", "stop", "hand-over", "idle", "load")

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
    Row("SIGSTOP of the leader to the next commit, ms: median", "standstill", "median", 1.1),
    Row("  worst", "standstill", "worst", 1.1),
    Row("idle CPU of the busiest node, % of a core", "idle", "difference"),
    Row("SIGTERM of the leader to the next commit, ms", "stop", "ratio", 1.1),
    Row("leadership handed over, ms", "hand-over", "ratio", 1.1),
    Row("cold start of three nodes to the first commit, ms", "cold start", "difference"),
    Row("  less the random wait for the first election", "cold start, no wait", "difference", 10),
    Row("  from the first election on", "cold start, election", "difference", 10),
    Row("  CPU of all three until then", "cold start, cpu", "difference"),
    Row("voter's return to its first counted fetch, ms", "return", "difference", 10),
    Row("  from when it takes connections", "return, listening", "difference", 10),
    Row("CPU of all daemons a change, us", "cpu", "ratio", 1.03),
    Row("committed changes/s", "throughput", "ratio", 0.9, more_is_better=True),
)


def take_turns(builds: list[Contender], step: Step, count: int) -> tuple[Rounds, Rounds]:
    """So many pairs of rounds; who begins alternates."""

    def do(build: Contender) -> dict[str, float]:
        seen = build.do(step)
        if step.work is not None:
            seen = {"cpu": seen["leader_us"] + 2 * seen["follower_us"], "throughput": seen["changes_per_s"]}
        said = ", ".join(f"{name} {value:,.1f}" for name, value in seen.items())
        print(f"{time.strftime('%H:%M:%S')}  {build.name}: {said}", file=sys.stderr, flush=True)
        return seen

    found = by_turns(builds, count, do)
    return found[builds[0]], found[builds[1]]


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


def measure(
    other: Who, scratch: Path, plan: list[tuple[Step, int]]
) -> dict[str, tuple[list[float], list[float]]]:
    """Each figure's values of both builds, by name, in order of the rounds."""
    results: dict[str, tuple[list[float], list[float]]] = {}
    with contenders([Who("this"), other], scratch) as builds:
        for step, count in plan:
            print(f"{step.name}, this : other", file=sys.stderr)
            ours, theirs = take_turns(builds, step, count)
            for name in ours[0] if ours else ():
                results[name] = [one[name] for one in ours], [one[name] for one in theirs]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", required=True, help="a folder with another kraftd, or a revision")
    parser.add_argument("--rounds", type=int, default=20, help="of each step but load")
    parser.add_argument("--loads", type=int, default=10, help=f"rounds of load, {LOAD_S} s each")
    parser.add_argument("--connections", type=int, default=16, help="of each load")
    parser.add_argument("--only", action="append", choices=STEPS, help="leave out the others")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all values there")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the nodes would outlive us
    plan = [
        (Step("load", Work(arguments.connections, LOAD_S, client="python")), arguments.loads)
        if name == "load"
        else (Step(name), arguments.rounds)
        for name in STEPS
        if name in (arguments.only or STEPS)
    ]
    (ROOT / ".benchmarks").mkdir(exist_ok=True)  # not the temporary directory: fsync costs nothing on a tmpfs
    scratch = Path(tempfile.mkdtemp(dir=ROOT / ".benchmarks", prefix="beside-"))
    try:
        results = measure(Who("other", root=unpacked(arguments.other, scratch)), scratch, plan)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    Console(width=None if sys.stdout.isatty() else 150).print(table(results, arguments.other))


if __name__ == "__main__":
    main()
