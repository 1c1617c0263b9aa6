"""How are seeds run? One that is replayed, or many on all cores, with a table of what they did.

    python -m tests.sim.run --seed 17              replay; prints the trace if it fails
    python -m tests.sim.run --seeds 500            that many, from --first on
    python -m tests.sim.run --hours 2              for so long, from a seed that the clock gives

A failure prints the promise that was broken, the smallest fault schedule that could be found, and the trace
of a run with it, ends with the seed on the last line, and exits with 1. `run_seed` is the same for programs.
"""

import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

import msgspec

from tests import commands
from tests.sim.brokers import GOES_AND_COMES
from tests.sim.node import (
    CLEANED,
    INSIDE_A_PLAN,
    INSTALLED,
    MANY_RECORDS,
    WHILE_FLUSHING,
    WITH_UNFLUSHED_END,
    WRITTEN,
)
from tests.sim.shrink import shrink
from tests.sim.snapshots import STARTED
from tests.sim.world import BROKERS, Options, World, no_collection

REPORT_S = 60.0

SHARES = (
    WITH_UNFLUSHED_END,
    MANY_RECORDS,
    WHILE_FLUSHING,
    GOES_AND_COMES,
    INSIDE_A_PLAN,
    WRITTEN,
    STARTED,
    INSTALLED,
    CLEANED,
)
"""What a good part of all seeds should see."""

LINES = 400
"""How much of a trace is printed; the end is what matters."""


class Result(msgspec.Struct, frozen=True):
    """How a seed went."""

    seed: int
    violation: str | None
    events: int
    acknowledged: int
    leader_changes: int
    simulated_us: int
    took_s: float
    statistics: dict[str, int]
    covered: dict[tuple[str, str], int]
    trace_hash: str
    state_hash: str
    counts: bool
    """Whether enough happened for it to mean something."""

    @property
    def halted(self) -> bool:
        """Whether too much was lost for the cluster to go on, as the fault budget said."""
        return bool(self.statistics.get("halt expected"))


def run_seed(seed: int, *, options: Options | None = None) -> Result:
    """Run one seed from start to judgement."""
    with no_collection():
        return _run(World(seed, options))[1]


def _run(world: World) -> tuple[World, Result]:
    started_s = time.process_time()
    violation = world.attempt()
    result = Result(
        seed=world.seed,
        violation=None if violation is None else str(violation),
        events=world.events,
        acknowledged=world.acknowledged,
        leader_changes=world.leader_changes,
        simulated_us=world.now_us,
        took_s=time.process_time() - started_s,
        statistics=dict(world.statistics),
        covered={(state.__name__, event.__name__): times for (state, event), times in world.covered.items()},
        trace_hash=world.trace_hash,
        state_hash=world.state_hash(),
        counts=world.counts,
    )
    world.close()
    return world, result


def _begin_worker() -> None:
    commands.end_when_interrupted()
    # Only between seeds. Enabled again at the end of one, it would go through the whole world once more.
    gc.disable()


def _worker(seed: int, options: Options) -> Result:
    result = run_seed(seed, options=options)
    gc.collect()
    return result


def run_many(seeds: Iterator[int], options: Options, jobs: int, *, hours: float = 0) -> "Table":
    """Run seeds in as many processes as there are cores, until one fails or time is up."""
    table = Table()
    until_s = time.monotonic() + hours * 3_600 if hours else float("inf")
    gc.collect()
    gc.freeze()
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), initializer=_begin_worker) as pool:
        running: set[Future[Result]] = set()
        while table.failed is None:
            while len(running) < 2 * jobs and time.monotonic() < until_s:
                seed = next(seeds, None)
                if seed is None:
                    break
                running.add(pool.submit(_worker, seed, options))
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                table.add(future.result())
            table.report()
        for future in running:
            future.cancel()
    return table


class Table:
    """What many seeds did."""

    def __init__(self) -> None:
        self.started_s = self._reported_s = time.monotonic()
        self.seeds = self.counting = self.halted = self.events = self.simulated_us = 0
        self.cpu_s = 0.0
        self.statistics: Counter[str] = Counter()
        self.covered: Counter[tuple[str, str]] = Counter()
        self.seen: Counter[str] = Counter()
        """How many seeds saw each of `SHARES`."""
        self.failed: Result | None = None

    def add(self, result: Result) -> None:
        """Take one in."""
        self.seeds += 1
        self.counting += result.counts
        self.halted += result.halted
        self.events += result.events
        self.simulated_us += result.simulated_us
        self.cpu_s += result.took_s
        self.statistics.update(result.statistics)
        self.covered.update(result.covered)
        self.seen.update(what for what in SHARES if result.statistics.get(what))
        if result.violation is not None and self.failed is None:
            self.failed = result

    def report(self) -> None:
        """Say now and then, to whoever waits, how far it is."""
        now_s = time.monotonic()
        if now_s - self._reported_s >= REPORT_S:
            self._reported_s = now_s
            print(
                f"{self.seeds} seeds, {self.events} events, {now_s - self.started_s:.0f} s", file=sys.stderr
            )

    def __str__(self) -> str:
        wall_s = time.monotonic() - self.started_s
        seeds, events, cpu_s = max(1, self.seeds), max(1, self.events), max(1e-9, self.cpu_s)
        simulated_s = self.simulated_us / 1e6
        per_day = 86_400 * self.seeds / wall_s
        lines = [
            f"seeds              {self.seeds:>12}",
            f"  that count       {self.counting:>12}  {100 * self.counting / seeds:.1f} %",
            f"  halt expected    {self.halted:>12}  {100 * self.halted / seeds:.1f} %",
            f"events             {self.events:>12}  {self.events / seeds:.0f} a seed",
            f"simulated seconds  {simulated_s:>12.0f}  {simulated_s / cpu_s:.0f} a CPU second",
            f"microseconds       {1e6 * cpu_s / events:>12.1f}  of CPU an event",
            f"wall seconds       {wall_s:>12.1f}  {self.events / wall_s:.0f} events a second",
            f"seeds a day        {per_day:>12.0f}  at this rate",
            f"states x events    {len(self.covered):>12}",
            "of the seeds, with",
            *(
                f"  {what:<40} {self.seen[what]:>10}  {100 * self.seen[what] / seeds:.1f} %"
                for what in SHARES
            ),
        ]
        lines += _block("events by kind", self.statistics, _is_event)
        lines += _block("faults fired", self.statistics, lambda name: name.startswith("fault: "))
        lines += _block("other", self.statistics, lambda name: not _is_event(name) and name[:7] != "fault: ")
        return "\n".join(lines)


def _is_event(name: str) -> bool:
    return name in ("message", "completion", "call", "timer", "fault")


def _block(title: str, statistics: Counter[str], wanted: object) -> list[str]:
    rows = sorted((name, times) for name, times in statistics.items() if wanted(name))  # type: ignore[operator]
    return [f"{title}: {len(rows)} kinds", *(f"  {name:<32} {times:>10}" for name, times in rows)]


def explain(seed: int, options: Options, *, budget_s: float) -> str:
    """Why a seed fails: the promise, the smallest schedule of faults, the trace."""
    world, first = _run(World(seed, options))
    if first.violation is None:
        return "it does not fail here: something outside the seed decides"
    smaller = shrink(seed, options, world, budget_s=budget_s)
    lines: list[str] = []
    world, result = _run(World(seed, smaller, sink=lines.append))
    if result.violation is None:  # cannot be, unless a run is not decided by its seed
        world, result = _run(World(seed, options, sink=lines.append))
    fired = [entry for entry in world.schedule if entry.fired]
    return "\n".join(
        [
            *(["", f"… {len(lines) - LINES} lines before"] if len(lines) > LINES else []),
            *lines[-LINES:],
            "",
            f"broken with all faults:  {first.violation}",
            f"broken with these {len(fired)}:     {result.violation}",
            *(f"  {entry}" for entry in fired),
            f"{world.shape}",
            f"{result.events} events, {result.simulated_us / 1e6:.3f} s",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = commands.Parser(prog="make sim", description="Simulated clusters from seeds.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, help="replay this one")
    what.add_argument("--seeds", type=commands.count, help="run so many")
    what.add_argument("--hours", type=commands.duration, help="run for so long")
    parser.add_argument("--first", type=int, help="the first of many; default 1, with --hours the time")
    parser.add_argument("--events", type=commands.count, help="events a seed")
    parser.add_argument("--jobs", type=commands.count, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--brokers", action="store_true", help="clusters with brokers and their clients")
    parser.add_argument("--trace", action="store_true", help="with --seed: print the trace in any case")
    parser.add_argument("--shrink", type=float, default=90.0, metavar="SECONDS", help="how long to shrink")
    asked = parser.parse_args(arguments)
    events = asked.events or (BROKERS if asked.brokers else Options()).events
    options = Options(events=events, brokers=asked.brokers)
    if asked.seed is not None:
        return _replay(asked.seed, options, trace=asked.trace, budget_s=asked.shrink)
    first = asked.first if asked.first is not None else int(time.time()) if asked.hours else 1
    last = first + asked.seeds if asked.seeds else 1 << 62
    print(f"seeds from {first}, {asked.jobs} processes", flush=True)
    table = run_many(iter(range(first, last)), options, asked.jobs, hours=asked.hours or 0)
    print(table, flush=True)
    if table.failed is None:
        return 0
    return _fail(table.failed.seed, options, asked.shrink)


def _replay(seed: int, options: Options, *, trace: bool, budget_s: float) -> int:
    table = Table()
    _, result = _run(World(seed, options, sink=print if trace else None))
    table.add(result)
    print(table)
    print(f"trace {result.trace_hash}, state {result.state_hash}")
    return 0 if result.violation is None else _fail(seed, options, budget_s)


def _fail(seed: int, options: Options, budget_s: float) -> int:
    print(explain(seed, options, budget_s=budget_s))
    words = ["--brokers"] * options.brokers
    if options.events != (BROKERS if options.brokers else Options()).events:
        words += ["--events", str(options.events)]
    more = f' ARGS="{" ".join(words)}"' if words else ""
    print(f"again: make sim SEED={seed}{more}")
    print(f"seed {seed}")
    return 1


if __name__ == "__main__":
    commands.run(main)
