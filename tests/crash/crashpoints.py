"""Every state a crash can leave, for every file protocol: does the recovery keep what was promised?

    python -m tests.crash.crashpoints                     all of it, on all cores
    python -m tests.crash.crashpoints --protocol roll     one protocol
    python -m tests.crash.crashpoints --state 'roll/3/17/power/5'    one state again, with all it says

A run goes through a script (`protocols`) once, and stops the time before each call that changes the disk,
and after the last one. At each stop it judges (`promises`) the disk as a killed process leaves it, with its
page cache, and as power cuts may leave it. Bounds: `BOUNDS` for what a power cut keeps of the unsynced
changes. Some of the disks are judged while the power is cut *again* in their recovery, before each of its
calls. In further runs each sync in turn is refused, which ends the process, and what is left is judged:
pages that look clean and are not.

A state is a disk that recovery can tell apart (index files, made anew by every start, do not count) with what
had been promised; it is judged once. Its name is the protocol, the variant, the call before which the crash
comes, its manner and number: names are stable, and the state can be had again by it.
"""

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from kraftd.errors import KraftdError
from tests import commands
from tests.crash.promises import Ids, Promised, judge, open_home
from tests.crash.protocols import PROTOCOLS, ScriptedNode, Variant
from tests.sim.filesystem import CHANGES, SimFileSystem

ROW = "{:<28}{:>9}{:>9}{:>10}{:>10}{:>12}{:>7}"
INDEXES = (".index", ".timeindex")
SYNCS = ("fsync", "fdatasync", "sync_directory")


class Bounds(NamedTuple):
    """How many outcomes of a power cut are tried at one call."""

    subsets_max: int
    tears: tuple[float, ...]
    product_max: int
    states_max: int | None


BOUNDS = Bounds(subsets_max=3, tears=(0.1, 0.5, 0.98), product_max=64, states_max=100)
QUICK = Bounds(subsets_max=1, tears=(0.5,), product_max=0, states_max=8)
"""For a slice."""
AGAIN = Bounds(subsets_max=2, tears=(0.5,), product_max=0, states_max=8)
"""While recovering: of each call fewer, since there are so many of them."""
THOROUGH_EVERY = 4
"""Of so many states, one is looked at by tools and goes on after its recovery."""
AGAIN_EVERY = 25
"""Of so many states, the recovery of one is interrupted."""


class Task(NamedTuple):
    """One script of a protocol."""

    protocol: str
    number: int

    @property
    def variant(self) -> Variant:
        return PROTOCOLS[self.protocol][self.number]

    def __str__(self) -> str:
        return f"{self.protocol}/{self.number}"


class Hole(NamedTuple):
    """A promise that recovery does not keep."""

    state: str
    text: str


class Counted(NamedTuple):
    """What a run found."""

    task: Task
    disks: set[bytes]
    """Different disks, by fingerprint."""
    states: int
    """Disks with what had been promised, all different: so many were judged."""
    again: int
    """Of them: so many after a crash in a recovery."""
    crashes: int
    """Calls before which the crash came."""
    holes: list[Hole]


class Enumerator:
    """Judges every state that a run through a script can be stopped in."""

    def __init__(self, task: Task, only: str = "", bounds: Bounds = BOUNDS) -> None:
        """Judge all states, or only the one of this name."""
        self.task = task
        self.disks: set[bytes] = set()
        self.holes: list[Hole] = []
        self.again = 0
        self.crashes = 0
        self._judged: set[tuple[bytes, Promised]] = set()
        self._only = only
        self._bounds = bounds
        self._config = task.variant.config

    def run(self, refusals: Sequence[int] | None = None) -> Counted:
        """Go through the script once, and once more for each sync that is refused: by default for all."""
        fs, scripted = self._prepared()
        stops = _Stops(lambda number: self._stop(fs, scripted.promised, f"{self.task}/{number}"))
        fs.faults = stops
        scripted.do(self.task.variant.script)
        fs.faults = None
        self._stop(fs, scripted.promised, f"{self.task}/{stops.number}")
        for refused in range(stops.syncs) if refusals is None else refusals:
            self._refuse(refused)
        return Counted(self.task, self.disks, len(self._judged), self.again, self.crashes, self.holes)

    def _refuse(self, refused: int) -> None:
        """Go through the script until the disk refuses a sync, and judge what is left."""
        fs, scripted = self._prepared()
        fs.faults = _Refusal(refused)
        scripted.do(self.task.variant.script)
        fs.faults = None
        self._stop(fs, scripted.promised, f"{self.task}/refused-{refused}")

    def _prepared(self) -> tuple[SimFileSystem, ScriptedNode]:
        fs = SimFileSystem()
        scripted = ScriptedNode(fs, self.task.variant)
        scripted.do(self.task.variant.prepared)
        fs.sync_everything()
        return fs, scripted

    def _stop(self, fs: SimFileSystem, promised: Promised, name: str) -> None:
        self.crashes += 1
        if self._only and not self._only.startswith(f"{name}/"):
            return
        killed = fs.copy()
        self._judge(killed, promised, f"{name}/killed", b"killed")
        for number, disk in enumerate(_states(fs, self._bounds)):
            self._judge(disk, promised, f"{name}/power/{number}")

    def _judge(self, disk: SimFileSystem, promised: Promised, name: str, mark: bytes = b"") -> None:
        """Judge a state unless it was judged before; also while its recovery is interrupted."""
        print_ = mark + disk.fingerprint(INDEXES)
        if (print_, promised) in self._judged:
            return
        self._judged.add((print_, promised))
        self.disks.add(print_)
        interrupted = disk.copy() if len(self._judged) % AGAIN_EVERY == 1 or "/again/" in self._only else None
        if not self._only or self._only == name:
            self._note(name, judge(disk, promised, self._config, thorough=self._thorough))
        if interrupted is not None and (not self._only or self._only.startswith(f"{name}/again/")):
            self._interrupt(interrupted, promised, f"{name}/again")

    def _interrupt(self, disk: SimFileSystem, promised: Promised, name: str) -> None:
        """Cut the power before each call of a recovery."""

        def stop(call: int) -> None:
            for number, again in enumerate(_states(disk, AGAIN)):
                state = f"{name}/{call}/{number}"
                print_ = again.fingerprint(INDEXES)
                if (print_, promised) in self._judged or self._only not in {"", state}:
                    continue
                self._judged.add((print_, promised))
                self.disks.add(print_)
                self.again += 1
                self._note(state, judge(again, promised, self._config, thorough=self._thorough))

        disk.faults = _Stops(stop)
        try:
            open_home(disk, self._config, Ids(6))
        except KraftdError:
            return

    @property
    def _thorough(self) -> bool:
        """Whether this state is judged with all that could follow."""
        return bool(self._only) or len(self._judged) % THOROUGH_EVERY == 0

    def _note(self, name: str, hole: str | None) -> None:
        if hole is not None:
            self.holes.append(Hole(name, hole))


class _Stops:
    """Stands before each change of the disk."""

    def __init__(self, stop: Callable[[int], None]) -> None:
        self.number = 0
        self.syncs = 0
        self._stop = stop

    def __call__(self, operation: str, _path: Path, _size_bytes: int) -> None:
        if operation in CHANGES:
            self._stop(self.number)
            self.number += 1
            self.syncs += operation in SYNCS


class _Refusal:
    """Refuses one sync."""

    def __init__(self, refused: int) -> None:
        self._left = refused

    def __call__(self, operation: str, _path: Path, _size_bytes: int) -> None:
        if operation in SYNCS:
            self._left -= 1
            if self._left == -1:
                raise OSError(errno.EIO, os.strerror(errno.EIO))


def _states(fs: SimFileSystem, bounds: Bounds) -> Iterator[SimFileSystem]:
    return fs.crash_states(
        subsets_max=bounds.subsets_max,
        tears=bounds.tears,
        product_max=bounds.product_max,
        states_max=bounds.states_max,
        aside=INDEXES,
    )


def tasks(protocols: Sequence[str]) -> list[Task]:
    """All scripts."""
    return [Task(protocol, number) for protocol in protocols for number in range(len(PROTOCOLS[protocol]))]


def run_task(task: Task) -> Counted:
    """One script, in whatever process."""
    return Enumerator(task).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; returns the exit code."""
    parser = commands.Parser(prog="make crashpoints", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--protocol", choices=list(PROTOCOLS), help="only this one")
    parser.add_argument("--state", default="", help="only the state of this name")
    parser.add_argument("--jobs", type=commands.count, default=os.cpu_count() or 1, help="processes at once")
    options = parser.parse_args(arguments)
    if options.state:
        task = _task_of(options.state)
        return _one(task, options.state) if task else parser.error(f"no such state: {options.state}")
    begin = time.monotonic()
    chosen = [options.protocol] if options.protocol else list(PROTOCOLS)
    counted: list[Counted] = []
    print(ROW.format("PROTOCOL", "SCRIPTS", "CRASHES", "STATES", "DISKS", "IN RECOVERY", "HOLES"))
    with ProcessPoolExecutor(options.jobs, initializer=commands.end_when_interrupted) as pool:
        for protocol, found in groupby(
            pool.map(run_task, tasks(chosen)), key=lambda found: found.task.protocol
        ):
            mine = list(found)
            counted += mine
            _print_row(protocol, mine)
    _print_row("all", counted)
    print(commands.spent(begin))
    holes = [hole for found in counted for hole in found.holes]
    for hole in holes[:20]:
        print(f"HOLE {hole.state}: {hole.text}")
    if holes:
        print(f"{len(holes)} holes; one again: make crashpoints ARGS=\"--state '{holes[0].state}'\"")
    return 1 if holes else 0


def _task_of(state: str) -> Task | None:
    protocol, _, rest = state.partition("/")
    number = rest.partition("/")[0]
    variants = len(PROTOCOLS.get(protocol, ()))
    return Task(protocol, int(number)) if number.isdecimal() and int(number) < variants else None


def _one(task: Task, state: str) -> int:
    found = Enumerator(task, state).run()
    for hole in found.holes:
        print(f"HOLE {hole.state}: {hole.text}")
    if not found.states:
        print(f"{state}: there is no such state")
    elif not found.holes:
        print(f"{state}: no hole")
    return 0 if found.states and not found.holes else 1


def _print_row(name: str, counted: Sequence[Counted]) -> None:
    disks = set().union(*(found.disks for found in counted))
    crashes, states, again, holes = (
        sum(figures)
        for figures in zip(*((c.crashes, c.states, c.again, len(c.holes)) for c in counted), strict=True)
    )
    print(ROW.format(name, len(counted), crashes, states, len(disks), again, holes), flush=True)


if __name__ == "__main__":
    commands.run(main)
