"""Is every bug that we know of caught, by whom, and after how long?

`python -m tests.sabotage.run [NAME ...]` (`make sabotage`): each mutant in a process of its own, tried by its
detector until it is caught. The try that caught it is made once more without the mutant and must pass, or the
detector is wrong. Prints a line a mutant and a summary; exits with 1 unless every mutant was caught.

A mutant that is not caught is a hole in the detector: widen its faults or invariants, never drop the mutant.
One that was caught without having run is an error too, and so is one that does not fit the code any more.

Not here: what a mutant changes (`mutant`), how a try is made (`detectors`), which there are (`corpus`).
"""

import gc
import json
import mmap
import os
import select
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tests import commands
from tests.sabotage.corpus import MUTANTS
from tests.sabotage.detectors import DETECTORS, FailedTestError, verdict
from tests.sabotage.mutant import MisfitError, Mutant, plant

MUTANT_S = 600.0
"""How much CPU time a detector may spend on one mutant."""
TRY_S = 300.0
"""How long one try may take; one that takes longer is caught too: something does not end."""


class Finding(NamedTuple):
    """What became of one mutant."""

    mutant: Mutant
    caught: bool
    by: str
    """By what it was caught, or why not."""
    tries: int
    took_s: float

    def __str__(self) -> str:
        word = "caught" if self.caught else "MISSED"
        unit = DETECTORS[self.mutant.detector].unit + ("" if self.tries == 1 else "s")
        head = f"{word}  {self.mutant.name:<36} {self.mutant.detector:<6} {self.tries:>5} {unit:<6}"
        return f"{head} {self.took_s:>6.1f} s  {self.mutant.source}: {self.by}"


# --- in a process of its own --------------------------------------------------------------------------------


class NoEndError(Exception):
    """A try does not come to its end."""


def _alarm(*_: object) -> None:
    raise NoEndError(f"no end within {TRY_S:.0f} s")


def attempt(mutant: Mutant, numbers: Iterator[int], limit_s: float) -> dict[str, Any]:
    """Try until something is wrong; what it was, and at which try."""
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(max(1, len(mutant.edits)))
        os.environ["KRAFTD_SABOTAGE_RAN"] = file.name
        return _attempt(mutant, numbers, limit_s, mmap.mmap(file.fileno(), 0))


def _attempt(mutant: Mutant, numbers: Iterator[int], limit_s: float, ran: mmap.mmap) -> dict[str, Any]:
    """As `attempt`. Whatever a try starts can note in `ran` that a changed line ran."""
    detector, edits = DETECTORS[mutant.detector], mutant.edits
    try:
        plant(() if detector.plants_itself else edits, ran)
    except MisfitError as error:
        return {"caught": False, "by": f"does not fit: {error}", "tries": 0}
    signal.signal(signal.SIGALRM, _alarm)
    until = time.process_time() + limit_s
    tries = 0
    for number in numbers:
        tries += 1
        signal.setitimer(signal.ITIMER_REAL, TRY_S)
        try:
            detector.look(mutant, number)
        except Exception as error:
            if edits and not any(ran):
                return {"caught": False, "by": f"{verdict(error)}, but it never ran", "tries": tries}
            trace = "".join(traceback.format_exception(error))
            told = {"caught": True, "by": verdict(error), "tries": tries, "number": number, "trace": trace}
            return told | ({"where": error.where} if isinstance(error, FailedTestError) else {})
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if time.process_time() > until:
            break
    idle = [edit.target for n, edit in enumerate(edits) if not ran[n]]
    return {"caught": False, "by": f"{idle[0]} never ran" if idle else "nobody noticed", "tries": tries}


class Child:
    """A forked process that tells one thing."""

    def __init__(self, work: Callable[[], dict[str, Any]]) -> None:
        self.pipe, out = os.pipe()
        self.told = b""
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            gc.freeze()  # what a session of thousands of tests holds is not gone through again and again
            code = 1
            try:
                with os.fdopen(out, "wb") as told:
                    told.write(json.dumps(work()).encode())
                code = 0
            except KeyboardInterrupt:
                code = commands.INTERRUPTED
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(out)

    def read(self) -> dict[str, Any] | None:
        """Take in what it says; the whole once it has ended."""
        part = os.read(self.pipe, 1 << 16)
        self.told += part
        if part:
            return None
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        if status:
            code = os.waitstatus_to_exitcode(status)
            return {"caught": False, "by": f"the detector's process ended with {code}", "tries": 0}
        return dict(json.loads(self.told))


# --- the runner ---------------------------------------------------------------------------------------------


class Trial:
    """One mutant on its way: first with the bug, then, if it was caught, the same try without it."""

    def __init__(self, mutant: Mutant, first: int, limit_s: float) -> None:
        self.mutant = mutant
        self.began = time.monotonic()
        detector = DETECTORS[mutant.detector]
        start = first if detector.unit == "seed" else 1
        numbers = range(start, start + detector.tries(mutant))
        self.child = Child(lambda: attempt(mutant, iter(numbers), limit_s))
        self.caught: dict[str, Any] | None = None

    def advance(self) -> Finding | None:
        """Take in news of the process; the finding at the end."""
        told = self.child.read()
        if told is None:
            return None
        took_s = time.monotonic() - self.began
        if self.caught is not None:
            if told["by"] != "nobody noticed":
                by = f"without the mutant the same try fails too: {told['by']}"
                return Finding(self.mutant, False, by, self.caught["tries"], took_s)
            return Finding(self.mutant, True, self.caught["by"], self.caught["tries"], took_s)
        if not told["caught"]:
            return Finding(self.mutant, False, told["by"], told["tries"], took_s)
        self.caught = told
        number, sound = told["number"], self.mutant._replace(edits=())
        if "where" in told:  # of a test with many parameters the one that failed: the others say nothing here
            number, sound = 1, sound._replace(where=(told["where"],))
        self.child = Child(lambda: attempt(sound, iter([number]), TRY_S))
        return None


def findings(
    mutants: Sequence[Mutant], *, jobs: int, first: int = 1, limit_s: float = MUTANT_S
) -> Iterator[Finding]:
    """Try all mutants, `jobs` at a time; what became of each, as they end."""
    waiting = list(reversed(mutants))
    running: list[Trial] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(Trial(waiting.pop(), first, limit_s))
        ready, _, _ = select.select([trial.child.pipe for trial in running], [], [])
        for trial in [trial for trial in running if trial.child.pipe in ready]:
            finding = trial.advance()
            if finding is not None:
                running.remove(trial)
                yield finding


def summary(found: Sequence[Finding]) -> str:
    """All findings in a few lines; the ones that were not caught at the end."""
    seeds = [f.tries for f in found if f.caught and DETECTORS[f.mutant.detector].unit == "seed"]
    by_detector = {detector: sum(f.mutant.detector == detector for f in found) for detector in DETECTORS}
    lines = [
        f"{sum(f.caught for f in found)} of {len(found)} mutants caught; "
        + ", ".join(f"{count} by {detector}" for detector, count in by_detector.items() if count)
    ]
    if seeds:
        median = statistics.median(seeds)
        lines.append(f"seeds until caught: median {median:g}, most {max(seeds)}")
    lines += [str(finding) for finding in found if not finding.caught]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the corpus, or the mutants that are named; returns the exit code."""
    parser = commands.Parser(prog="make sabotage", description="Put old bugs back.")
    parser.add_argument("names", nargs="*", help="mutants, by name or detector; all if none is given")
    parser.add_argument("--jobs", type=commands.count, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--limit", type=commands.duration, default=MUTANT_S, help="CPU seconds a mutant")
    options = parser.parse_args(arguments)
    chosen = [m for m in MUTANTS if not options.names or {m.name, m.detector} & set(options.names)]
    if missing := set(options.names) - {word for m in chosen for word in (m.name, m.detector)}:
        parser.error(f"no such mutant: {', '.join(sorted(missing))}")
    found = []
    for finding in findings(chosen, jobs=options.jobs, first=options.first, limit_s=options.limit):
        print(finding, flush=True)
        found.append(finding)
    print(summary(found))
    return 0 if all(finding.caught for finding in found) else 1


if __name__ == "__main__":
    commands.run(main)
