"""Every behaviour beside the tests that cover it, and what is wrong with that table.

Entered by `collect` (asks pytest for all tests, runs none), then `render` and `faults`. A marker is believed
here; whether its test would really fail without the behaviour is for review and for the sabotage suite.
"""

import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conformance.catalogue import Behaviour, behaviours

TESTS = Path(__file__).parents[1]

COVERED_AT_LEAST = 255
"""How many of Kafka's behaviours are covered, or what kraftd does instead. It only rises."""


@dataclass
class Collector:
    """A pytest plugin that keeps which tests name which behaviours."""

    tests: dict[str, list[str]] = field(default_factory=dict)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Read the markers of all that was collected; the cases of one test count once."""
        for item in session.items:
            name = re.sub(r"\[.*", "", item.nodeid).removeprefix("tests/")
            for marker in item.iter_markers("covers"):
                for id_ in marker.args:
                    names = self.tests.setdefault(id_, [])
                    if name not in names:
                        names.append(name)


def collect() -> Mapping[str, Sequence[str]]:
    """The tests of each behaviour, by id.

    Raises:
        RuntimeError: Not all tests could be collected: an unknown id, or a module that cannot be imported.
    """
    collector = Collector()
    quiet = ["--collect-only", "-qqq", "-p", "no:cacheprovider"]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        outcome = pytest.main([*quiet, f"--rootdir={TESTS.parent}", str(TESTS)], plugins=[collector])
    if outcome is pytest.ExitCode.INTERRUPTED and "KeyboardInterrupt" in said.getvalue():
        raise KeyboardInterrupt
    if outcome is not pytest.ExitCode.OK:
        raise RuntimeError(f"pytest could not collect the tests: {outcome!r}\n{said.getvalue()}")
    return collector.tests


def faults(tests: Mapping[str, Sequence[str]]) -> list[str]:
    """What must not be: a behaviour without a test or a reason, or a test of what is not there yet."""
    found = []
    for behaviour in behaviours().values():
        covered = bool(tests.get(behaviour.id))
        if behaviour.waits and covered:
            found.append(
                f"{behaviour.id} waits for {behaviour.waits}, yet {tests[behaviour.id][0]} covers it"
            )
        elif not covered and not behaviour.waits and not behaviour.differs:
            found.append(f"{behaviour.id} is not covered: {behaviour.what}")
    covered = len(covered_of_kafka(tests))
    if covered < COVERED_AT_LEAST:
        found.append(f"{covered} behaviours are covered, and it were {COVERED_AT_LEAST} before")
    return found


def covered_of_kafka(tests: Mapping[str, Sequence[str]]) -> list[Behaviour]:
    """Kafka's behaviours that a test covers, or what kraftd does instead."""
    return [one for one in behaviours().values() if one.is_kafkas and tests.get(one.id)]


def render(tests: Mapping[str, Sequence[str]]) -> str:
    """The table as text: one behaviour a line, its tests below it, the sums at the end."""
    lines: list[str] = []
    theme = ""
    for behaviour in behaviours().values():
        if behaviour.theme != theme:
            theme = behaviour.theme
            lines += ["", f"{theme}: {behaviour.title}"]
        names = tests.get(behaviour.id, ())
        lines.append(f"  {behaviour.id:<8} {_state(behaviour, names):<10} {behaviour.what}")
        if behaviour.differs:
            lines.append(f"           differs: {behaviour.differs}")
        lines += [f"           - {name}" for name in names]
    return "\n".join([*lines[1:], "", *_sums(tests)])


def _state(behaviour: Behaviour, names: Sequence[str]) -> str:
    if behaviour.waits:
        return "COVERED?" if names else "waits"
    if behaviour.differs:
        return "differs"
    return "covered" if names else "NOT YET"


def _sums(tests: Mapping[str, Sequence[str]]) -> list[str]:
    kafkas = [one for one in behaviours().values() if one.is_kafkas]
    rules = [one for one in behaviours().values() if not one.is_kafkas]
    waiting = [one for one in kafkas if one.waits]
    differing = [one for one in kafkas if one.differs]
    covered = covered_of_kafka(tests)
    instead = [one for one in covered if one.differs]
    missing = len(kafkas) - len(covered) - len(waiting) - (len(differing) - len(instead))
    behaviours_ = (
        f"{len(kafkas)} behaviours: {len(covered)} covered ({len(instead)} by what kraftd does instead)"
    )
    rules_ = f"{len(rules)} rules and oddities: {sum(1 for one in rules if tests.get(one.id))} covered"
    return [
        f"{behaviours_}, {len(differing)} differ by design, {len(waiting)} wait, {missing} missing",
        f"{rules_}, {sum(1 for one in rules if one.waits)} wait",
        f"{len({name for names in tests.values() for name in names})} tests cite them",
    ]
