"""How fast are changes committed, here and next to peers or to another build of kraftd, by turns?

    benchmarks/loads.py [--peer etcd] [--peer kafka] [--rounds 5] [--seconds 2] [--load 1 ...] [--json FILE]
    benchmarks/loads.py --beside FOLDER_OR_REVISION [--python PYTHON] [--beside-python PYTHON] ...
    benchmarks/loads.py --brokers [--peer etcd] [--peer kafka] ...

Three nodes of each on loopback, default settings, real fsync, one request in flight on each connection. The
systems take turns, a few seconds each, while the nodes of the others are paused (SIGSTOP), and who begins
alternates. A ratio is the median of the ratios of neighbouring rounds, with their quartiles; above 1 the
first system is faster, or spends less CPU in all nodes. One client in C drives kraftd and Kafka, h2load
drives etcd; with `--client python` one client in Python drives all three. What a change costs is a mean,
warm-up included: CPU of the leader, of a follower and of the client, all else of the three nodes together.
System calls and fsyncs are counted in one more round, whose speed does not count.

`--beside .` compares this build with itself: what it shows is noise. `--beside . --beside-python PYTHON`
compares two interpreters, each with the libraries of requirements/runtime.lock.

With `--brokers` kraftd and Kafka have three real Kafka brokers attached and a thousand partitions, and all
their nodes write snapshots, one each half second at most (`attached.py`); etcd takes its turns as it is.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
from alternation import by_turns
from contenders import ROOT, Contender, Who, contenders, unpacked
from counters import why_not_counted
from load_round import Round
from loads_table import Measured, Rounds, notes, table
from machine import Ticks, state
from peers.cluster import NotThereError, Work
from peers.driver import driver
from rich.console import Console
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
BROKERS_WARM_UP = Work(64, 15, client="python")
"""Until Java has compiled what brokers do with a commit: before, they take more than a core."""
COUNTED_S = 1


def loads_of(client: str, seconds: float) -> dict[str, Work]:
    """All loads, from that client and of that length."""
    return {
        name: msgspec.structs.replace(work, seconds=seconds, client=client) for name, work in LOADS.items()
    }


def measure(who: Sequence[Who], loads: dict[str, Work], rounds: int) -> Measured:
    """All rounds of all loads.

    Raises:
        NotThereError: The client in C is wanted, and cannot be built.
    """
    if any(work.client == "c" for work in loads.values()):
        driver()
    why_not = why_not_counted()
    before, began = Ticks.now(), state()
    found: Rounds = {}
    scratch = Path(tempfile.mkdtemp(dir=work_folder(), prefix="loads-"))
    try:
        with contenders(who, scratch) as systems:
            interpreters = {system.name: system.interpreter for system in systems if system.is_python}
            for system in systems:
                say(f"{system.name}: {interpreters.get(system.name, 'starts')}")
                system.do(Step("pause"))
            for system, one in zip(systems, who, strict=True):
                system.do(Step("load", BROKERS_WARM_UP if one.brokers else WARM_UP))
            for name, work in loads.items():
                seen = by_turns(systems, rounds, partial(one_round, name, work))
                if why_not is None:
                    counted = msgspec.structs.replace(work, seconds=COUNTED_S)
                    for system in systems:
                        seen[system].append(one_round(name, counted, system, counted=True))
                found[name] = {system.name: of_it for system, of_it in seen.items()}
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    machine = f"{began} at first; other virtual machines took {before.stolen_percent(Ticks.now()):.1f} %"
    return Measured(machine, interpreters, why_not, found)


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


def program(word: str) -> str:
    """The whole path of a program; of a link, not of what it names, or an environment would be lost."""
    found = shutil.which(word)
    if found is None:
        raise argparse.ArgumentTypeError(f"there is no program {word}")
    return str(Path(found).absolute())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peer", action="append", default=[], choices=["etcd", "kafka"], help="take turns with it"
    )
    parser.add_argument(
        "--beside", metavar="OTHER", help="and with this build: a folder with a kraftd, or a revision"
    )
    parser.add_argument(
        "--python",
        type=program,
        default=sys.executable,
        help="the interpreter of this build, and of the client in Python",
    )
    parser.add_argument(
        "--beside-python", type=program, metavar="PYTHON", help="that of the other; the same if not given"
    )
    parser.add_argument("--rounds", type=int, default=5, help="of each load and system")
    parser.add_argument(
        "--seconds", type=float, default=2, help="of each round, after a warm-up of half of it"
    )
    parser.add_argument("--load", action="append", choices=list(LOADS), help="leave out the others")
    parser.add_argument(
        "--client", choices=["c", "python"], default="c", help="python: one client for all systems"
    )
    parser.add_argument(
        "--brokers", action="store_true", help="with three Kafka brokers, 1,000 partitions and snapshots"
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
    scratch = Path(tempfile.mkdtemp(dir=work_folder(), prefix="other-"))
    try:
        systems = [Who("kraftd", python=options.python, brokers=options.brokers)]
        if options.beside:
            python = options.beside_python or options.python
            root = unpacked(options.beside, scratch)
            systems.append(Who("other", root=root, python=python, brokers=options.brokers))
        for name in options.peer:
            with_brokers = options.brokers and name != "etcd"
            systems.append(Who(name, system=name, python=options.python, brokers=with_brokers))
        measured = measure(systems, loads, rounds)
    except NotThereError as error:
        raise SystemExit(str(error)) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(measured)) + b"\n")
    console = Console(width=None if sys.stdout.isatty() else 240)
    console.print(table(measured, options.client))
    for note in notes(measured):
        print(note)


if __name__ == "__main__":
    main()
