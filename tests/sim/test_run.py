"""What `make sim` prints and returns, and what is left of a failing seed's faults."""

import gc
import re
import weakref
from collections.abc import Sequence

import pytest

from kraftd.audit.invariants import Violation
from tests.sim import run, world
from tests.sim.run import explain, main, run_seed
from tests.sim.shrink import minimal
from tests.sim.world import Options, World

EVENTS = 900
SHORT = Options(events=EVENTS)


@pytest.mark.parametrize("needed", [(), ("c",), ("a", "h"), ("b", "c", "g")])
def test_what_is_not_needed_is_left_out(needed: Sequence[str]) -> None:
    tried = []

    def fails(names: Sequence[str]) -> bool:
        tried.append(list(names))
        return set(needed) <= set(names)

    assert minimal("abcdefgh", fails, lambda: False) == list(needed)
    assert len(tried) < 60


def test_shrinking_ends_in_time() -> None:
    left = minimal("abcdefgh", lambda names: {"a", "h"} <= set(names), lambda: True)
    assert left == list("abcdefgh")


def test_a_good_run_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--first", "11", "--events", str(EVENTS), "--jobs", "2"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^seeds +2$", told, re.MULTILINE)
    assert re.search(r"^  message +\d+$", told, re.MULTILINE)
    assert re.search(r"^faults fired: \d+ kinds$", told, re.MULTILINE)


def test_a_cluster_is_gone_when_its_run_has_ended() -> None:
    """Ten thousand of them are run in one process, many with callers that were never answered."""
    gone = []
    for seed in range(1, 9):
        cluster = World(seed, SHORT)
        assert cluster.attempt() is None
        cluster.close()
        gone.append(weakref.ref(cluster))
        del cluster
    gc.collect()
    assert [reference() for reference in gone] == [None] * len(gone)


def test_a_failing_seed_is_explained_and_named_on_the_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A promise that one fault of the seed breaks: the schedule shrinks to it, by the same promise."""
    seed, culprit = next(
        (seed, fired[len(fired) // 2].name) for seed in range(1, 50) if len(fired := fired_in(seed)) >= 3
    )

    def judge(judged: World) -> None:
        if any(entry.name == culprit for entry in judged.schedule):
            raise Violation(f"Canary: {culprit} happened")

    monkeypatch.setattr(world, "judge", judge)
    assert main(["--seed", str(seed), "--events", str(EVENTS), "--shrink", "60"]) == 1
    told = capsys.readouterr().out
    assert told.splitlines()[-1] == f"seed {seed}"
    assert f"Canary: {culprit} happened" in told
    assert "broken with these 1:" in told
    assert re.search(r"^ +\d+ +\d+ < RequestReceived ", told, re.MULTILINE)

    # Among many it is found, too, by whatever process ran it.
    assert main(["--seeds", "1", "--first", str(seed), "--events", str(EVENTS), "--shrink", "0"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"seed {seed}"


def test_a_simulator_that_breaks_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(_: World) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world, "judge", judge)
    result = run_seed(1, options=SHORT)
    assert result.violation is not None
    assert result.violation.startswith("Simulator: ZeroDivisionError")
    assert "ZeroDivisionError" in explain(1, SHORT, budget_s=0)


def test_a_seed_that_is_decided_by_something_else_says_so() -> None:
    assert run.explain(1, SHORT, budget_s=0) == "it does not fail here: something outside the seed decides"


def fired_in(seed: int) -> list[world.Entry]:
    tried = World(seed, Options(events=EVENTS, judged=False))
    tried.run()
    tried.close()
    return [entry for entry in tried.schedule if entry.fired]
