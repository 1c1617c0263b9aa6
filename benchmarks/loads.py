"""How fast are changes committed, here and next to peers or to another build of kraftd, by turns?

    benchmarks/loads.py [--peer etcd] [--peer kafka] [--rounds 5] [--seconds 2] [--load 1 ...] [--json FILE]
    benchmarks/loads.py --beside FOLDER_OR_REVISION [--python PYTHON] [--beside-python PYTHON] ...

Three nodes of each on loopback, default settings, real fsync, one request in flight on each connection. The
systems take turns, a few seconds each, while the nodes of the others are paused (SIGSTOP), and who begins
alternates. A ratio is the median of the ratios of neighbouring rounds, with their quartiles; above 1 the
first system is faster, or spends less CPU in all nodes. One client in C drives kraftd and Kafka, h2load
drives etcd; with `--client python` one client in Python drives all three. What a change costs is a mean,
warm-up included: CPU of the leader, of a follower and of the client, all else of the three nodes together.
System calls and fsyncs are counted in one more round, whose speed does not count.

`--beside .` compares this build with itself: what it shows is noise. `--beside . --beside-python PYTHON`
compares two interpreters, each with the libraries of requirements/runtime.lock.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
from alternation import by_turns, ratios, spread
from contenders import ROOT, Contender, Who, contenders, unpacked
from counters import why_not_counted
from load_round import Round
from machine import Ticks, state
from peers.cluster import NODES, VALUE_BYTES, NotThereError, Work
from peers.driver import driver
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from side import Step

LOADS = {
    "1": Work(1, 1),
    "16": Work(16, 1),
    "64": Work(64, 1),
    "256": Work(256, 1),
    "batch": Work(16, 1, batch=True),
}
"""By the names of `--load`; `batch` is 16 connections with 100 changes a request."""
WARM_UP = Work(64, 2, client="python")
COUNTED_S = 1

COLUMNS = (
    "connections",
    "system",
    "changes/s",
    "ratio (quartiles)",
    "CPU ratio (quartiles)",
    "p50 ms",
    "p99 ms",
    "leader µs",
    "follower µs",
    "client µs",
    "turns",
    "messages",
    "syscalls",
    "fsyncs",
)
WHY_EMPTY = {
    "etcd": "etcd has no loop whose turns, and no counter of its messages to members",
    "kafka": "Kafka tells its counters over JMX alone, which is not on here",
}

Rounds = dict[str, dict[str, list[Round]]]
"""By load and system; the round in which the kernel counted is the last."""


def loads_of(client: str, seconds: float) -> dict[str, Work]:
    """All loads, from that client and of that length."""
    return {
        name: msgspec.structs.replace(work, seconds=seconds, client=client) for name, work in LOADS.items()
    }


def measure(who: Sequence[Who], loads: dict[str, Work], rounds: int, *, counts: bool) -> Rounds:
    """All rounds of all loads.

    Raises:
        NotThereError: The client in C is wanted, and cannot be built.
    """
    if any(work.client == "c" for work in loads.values()):
        driver()
    found: Rounds = {}
    scratch = Path(tempfile.mkdtemp(dir=work_folder(), prefix="loads-"))
    try:
        with contenders(who, scratch) as systems:
            for system in systems:
                say(f"{system.name}: {system.interpreter}" if "kraftd" in system.system else system.name)
                system.do(Step("pause"))
            for system in systems:
                system.do(Step("load", WARM_UP))
            for name, work in loads.items():
                seen = by_turns(systems, rounds, partial(one_round, name, work))
                if counts:
                    counted = msgspec.structs.replace(work, seconds=COUNTED_S)
                    for system in systems:
                        seen[system].append(one_round(name, counted, system, counted=True))
                found[name] = {system.name: of_it for system, of_it in seen.items()}
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return found


def work_folder() -> Path:
    """Where nodes keep their logs: not the temporary directory, fsync costs nothing on a tmpfs."""
    folder = ROOT / ".benchmarks"
    folder.mkdir(exist_ok=True)
    return folder


def one_round(name: str, work: Work, system: Contender, *, counted: bool = False) -> Round:
    """Do it and say what was seen."""
    seen = msgspec.convert(system.do(Step("load", work, counted)), Round)
    speed = f"{seen.changes_per_s:,.0f}/s, p50 {seen.p50_ms:.2f}, p99 {seen.p99_ms:.2f} ms"
    spent = f"leader {seen.leader_us:.1f}, follower {seen.follower_us:.1f} us"
    say(f"{name}, {system.name}: {speed}, {spent}" + (" (counted)" if counted else ""))
    return seen


def say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {words}", file=sys.stderr, flush=True)


def table(found: Rounds, client: str, *, counts: bool) -> Table:
    """A row for each load and system."""
    title = f"{NODES} nodes each on loopback, values of {VALUE_BYTES} bytes; {client}"
    shown = Table(box=MARKDOWN, title=title)
    for number, name in enumerate(COLUMNS):
        shown.add_column(name, justify="left" if number < 2 else "right", no_wrap=True)
    for load, systems in found.items():
        first = next(iter(systems))
        for name, rounds in systems.items():
            timed = rounds[:-1] if counts else rounds
            ours = systems[first][: len(timed)]
            compared = None if name == first else (ours, timed)
            shown.add_row(load, name, *cells(timed, compared, rounds[-1]))
    return shown


def cells(timed: list[Round], compared: tuple[list[Round], list[Round]] | None, last: Round) -> Iterator[str]:
    """The figures of one load on one system: medians of the timed rounds, counts of the last."""
    yield f"{middle(timed, 'changes_per_s'):,.0f}"
    yield "" if compared is None else ratio(*compared, of=lambda one: one.changes_per_s)
    yield "" if compared is None else ratio(*compared, of=lambda one: 1 / nodes_us(one))
    for name, digits in (
        ("p50_ms", 2),
        ("p99_ms", 2),
        ("leader_us", 0),
        ("follower_us", 0),
        ("client_us", 1),
    ):
        yield f"{middle(timed, name):,.{digits}f}"
    for name in ("turns", "messages"):
        yield "" if getattr(timed[0], name) is None else f"{middle(timed, name):.3g}"
    for name in ("syscalls", "fsyncs"):
        value = getattr(last, name)
        yield "" if value is None else f"{value:.3g}"


def middle(rounds: Sequence[Round], name: str) -> float:
    return spread([getattr(one, name) for one in rounds]).median


def nodes_us(one: Round) -> float:
    """CPU of all nodes a change."""
    return one.leader_us + (NODES - 1) * one.follower_us


def ratio(ours: list[Round], theirs: list[Round], *, of: Callable[[Round], float]) -> str:
    """Of neighbouring rounds, in something of which more is better."""
    found = ratios([of(one) for one in ours], [of(one) for one in theirs])
    return f"{found.median:.2f}x ({found.low:.2f}-{found.high:.2f})"


def notes(systems: Sequence[Who], why_no_syscalls: str | None) -> Iterator[str]:
    """What cells are empty, and why."""
    for who in systems:
        if who.system in WHY_EMPTY:
            yield f"No turns and messages: {WHY_EMPTY[who.system]}."
    if why_no_syscalls:
        yield f"No syscalls: {why_no_syscalls}. Fsyncs are then those that a system counts."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peer", action="append", default=[], choices=["etcd", "kafka"], help="take turns with it"
    )
    parser.add_argument(
        "--beside", metavar="OTHER", help="and with this build: a folder with a kraftd, or a revision"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter of this build, and of the client in Python"
    )
    parser.add_argument("--beside-python", metavar="PYTHON", help="that of the other; the same if not given")
    parser.add_argument("--rounds", type=int, default=5, help="of each load and system")
    parser.add_argument(
        "--seconds", type=float, default=2, help="of each round, after a warm-up of half of it"
    )
    parser.add_argument("--load", action="append", choices=list(LOADS), help="leave out the others")
    parser.add_argument(
        "--client", choices=["c", "python"], default="c", help="python: one client for all systems"
    )
    parser.add_argument("--quick", action="store_true", help="one short round each: does it run at all?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds there")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the nodes would outlive us
    rounds, seconds = (1, 0.5) if options.quick else (options.rounds, options.seconds)
    loads = {
        name: work
        for name, work in loads_of(options.client, seconds).items()
        if name in (options.load or LOADS)
    }
    why_not = why_not_counted()
    scratch = Path(tempfile.mkdtemp(dir=work_folder(), prefix="other-"))
    before, began = Ticks.now(), state()
    try:
        systems = [Who("kraftd", python=options.python)]
        if options.beside:
            python = options.beside_python or options.python
            systems.append(Who("other", root=unpacked(options.beside, scratch), python=python))
        systems += [Who(name, system=name, python=options.python) for name in options.peer]
        found = measure(systems, loads, rounds, counts=why_not is None)
    except NotThereError as error:
        raise SystemExit(str(error)) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table(found, f"client: {options.client}", counts=why_not is None))
    print(
        f"{began} at first; "
        f"{before.stolen_percent(Ticks.now()):.1f} % of it went to other virtual machines meanwhile"
    )
    for note in notes(systems, why_not):
        print(note)


if __name__ == "__main__":
    main()
