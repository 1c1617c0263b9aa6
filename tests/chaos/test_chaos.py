"""A minute with real daemons, a run that is interrupted, and daemons that lie and must be found out."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.interruption import interrupt
from tests.chaos.nemesis import FAULTS, NEEDS_DISKS
from tests.chaos.run import RATE_MIN, ROUNDS, chaos
from tests.fixtures import ROOT

TRIES = 6
"""What is found depends on what was under way: of five runs at most one finds nothing."""
KINDS_FOR_BROKEN_DAEMONS = ("two leaders",)
"""Where a lie shows: a node leads on that no majority follows any more."""


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.covers("D-12", "D-13")
def test_a_minute_of_chaos(capsys: pytest.CaptureFixture[str]) -> None:
    report, folder = chaos(60, seed=1)
    with capsys.disabled():
        print(f"\n{report}\n{folder or ''}")
    assert report.problems == []
    assert folder is None
    assert report.operations / report.seconds >= RATE_MIN
    told = capsys.readouterr().out
    kinds = set(FAULTS) - ({NEEDS_DISKS} if "no disk will be full" in told else set())
    assert {kind: count for kind, count in report.faults.items() if count < ROUNDS} == {}
    assert set(report.faults) == kinds
    assert report.leader_changes > ROUNDS


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    interrupt(number, tmp_path, after=r"partition|delay|garbage")  # not where all nodes are down


def test_brokers_without_java_are_refused_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.chaos.run", "--brokers", "3"]
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("make chaos: java is missing: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(
    ("defect", "found"),
    [
        ("stale reads", "not linearizable"),
        ("acknowledged at once", "acknowledged and lost"),
        ("refused but written", "refused as not appended, and in the log"),
    ],
)
def test_daemons_that_lie_are_found_out(defect: str, found: str) -> None:
    command = (sys.executable, str(Path(__file__).with_name("broken_daemon.py")), defect)
    for seed in range(1, TRIES + 1):
        report, folder = chaos(12, seed, command=command, kinds=KINDS_FOR_BROKEN_DAEMONS)
        if any(problem.startswith(found) for problem in report.problems):
            break
        if folder is not None:
            shutil.rmtree(folder)
    else:
        pytest.fail(f"{TRIES} runs did not find out {defect}; the last: {report}")
    assert folder is not None
    kept = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert kept >= {"history.jsonl", "node-1.log", "node-1.properties"}
    assert any(name.endswith("__cluster_metadata-0/00000000000000000000.log") for name in kept)
    shutil.rmtree(folder)
