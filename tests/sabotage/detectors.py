"""The detectors of mutants: what each tries, and how often.

A detector tries a mutant again and again, each time with another number, until a try fails or there are no
more tries. `DETECTORS` is the table of them. A try is a seed of a simulation, or one of the tests that a
mutant names; it fails by an exception, and what that says is by whom the mutant was caught.

Not here: processes, time limits and the summary (`run`).
"""

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.crash.crashpoints import BOUNDS, QUICK, Enumerator, tasks
from tests.crash.protocols import PROTOCOLS
from tests.sabotage.mutant import Mutant
from tests.sim.run import main as run_sim
from tests.sim.run import run_seed
from tests.stories.chaos import Chaos

HERE = Path(__file__).parent
REPORTED_SEEDS = 12
"""How many seeds the detector of the simulator's own report asks for."""


class NotSoundError(Exception):
    """A try could not be made at all: a test that is named does not exist."""


class Detector(NamedTuple):
    """One way to look."""

    text: str
    tries: Callable[[Mutant], int]
    """How many tries a mutant gets at most."""
    look: Callable[[Mutant, int], None]
    """Make one try; raises if something is wrong."""
    unit: str
    """What a try is."""
    plants_itself: bool = False
    """Whether the mutant is not for this process, but for those that the detector starts."""


class CaughtError(AssertionError):
    """A seed of the simulator that failed; the text is the promise that was broken."""


def _sim(_: Mutant, number: int) -> None:
    result = run_seed(number)
    if result.violation is not None:
        raise CaughtError(result.violation)


def _chaos(_: Mutant, number: int) -> None:
    Chaos(number).run()


def _crash(_: Mutant, number: int) -> None:
    """One script of a file protocol: first all of them with few outcomes of each crash, then with all."""
    scripts = tasks(list(PROTOCOLS))
    again, script = divmod(number - 1, len(scripts))
    holes = Enumerator(scripts[script], bounds=BOUNDS if again else QUICK).run().holes
    if holes:
        raise CaughtError(f"{holes[0].state}: {holes[0].text}")


class FailedTestError(AssertionError):
    """A test failed; the text is its name and why."""

    def __init__(self, text: str, where: str) -> None:
        super().__init__(text)
        self.where = where
        """That test alone, with its file and parameters: what has to pass without the mutant."""


class _Failures:
    """Remembers which test failed first and how."""

    def __init__(self) -> None:
        self.first = ""
        self.where = ""
        self.passed = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.first:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.first = f"{report.nodeid.rpartition('::')[2]}: {crash.message if crash else report.longrepr}"
            self.where = report.nodeid.partition("::")[2]
        self.passed += report.passed and report.when == "call"


def _tests(mutant: Mutant, number: int) -> None:
    """Run the number-th of the tests that the mutant names, in this process."""
    failures = _Failures()
    with tempfile.TemporaryDirectory() as folder:
        words = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--basetemp", f"{folder}/tests"]
        words.append("--hypothesis-seed=0")  # the same examples each time: caught always, or never
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            pytest.main([*words, mutant.where[number - 1]], plugins=[failures])
    if failures.first:
        file = mutant.where[number - 1].partition("::")[0]
        raise FailedTestError(failures.first, f"{file}::{failures.where}" if failures.where else file)
    if not failures.passed:
        raise NotSoundError(f"{mutant.where[number - 1]}: no such test")


def _process(mutant: Mutant, number: int) -> None:
    """Run a test whose daemons have the mutant in them; the test itself has not."""
    if mutant.edits:
        os.environ["KRAFTD_SABOTAGE"] = mutant.name
        os.environ["PYTHONPATH"] = os.pathsep.join((str(HERE / "inject"), str(HERE.parents[1])))
    _tests(mutant, number)


def _report(mutant: Mutant, number: int) -> None:
    """Run seeds as `make sim` does; caught is only what its exit code and its last line tell."""
    del mutant
    words = ["--seeds", str(REPORTED_SEEDS), "--first", str(number), "--jobs", "1", "--shrink", "0"]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = run_sim(words)
    last = said.getvalue().rstrip().rpartition("\n")[2]
    if code:
        if not re.fullmatch(r"seed \d+", last):
            raise NotSoundError(f"a failing run ends with {last!r}")
        raise CaughtError(f"make sim ends with code {code} and {last!r}")


def _named(mutant: Mutant) -> int:
    return len(mutant.where)


DETECTORS: dict[str, Detector] = {
    "sim": Detector("seeds of the simulator", lambda _: 2_000, _sim, "seed"),
    "chaos": Detector("seeds of the core alone", lambda _: 3_000, _chaos, "seed"),
    "crash": Detector(
        "crash points of the file protocols", lambda _: 2 * len(tasks(list(PROTOCOLS))), _crash, "script"
    ),
    "process": Detector("tests of real processes", _named, _process, "test", plants_itself=True),
    "report": Detector("what the simulator's command line tells", lambda _: 1, _report, "run"),
    "tests": Detector("tests of one behaviour", _named, _tests, "test"),
}


def verdict(error: BaseException) -> str:
    """By what a mutant was caught, in a few words: the invariant, the test, or what broke."""
    text = str(error).partition("\n")[0][:200]
    invariant = re.match(r"([A-Z]\w+): ", text)
    if invariant:
        return invariant[1]
    name = type(error).__name__
    return text if isinstance(error, CaughtError | FailedTestError) else f"{name}: {text}" if text else name
