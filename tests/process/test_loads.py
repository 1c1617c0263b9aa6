"""The benchmark of loads drives real nodes with the client in C, by turns, and reads what they count."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: apt-get install gcc libc6-dev")
def test_two_builds_take_turns_and_tell_what_a_change_costs(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, "benchmarks/loads.py", "--beside", ".", "--load", "16", "--quick"]
    done = subprocess.run(
        [*command, "--json", str(figures)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(figures.read_text())
    measured = told["rounds"]["16"]
    assert list(measured) == ["kraftd", "other"]
    for rounds in measured.values():
        one = rounds[0]
        assert one["changes_per_s"] > 0
        assert 0 < one["p50_ms"] <= one["p99_ms"] <= one["max_ms"] * 1.01
        assert one["leader_us"] > one["follower_us"] > 0
        assert one["turns"] > 0
        assert one["messages"] > 1, "each change has an answer, and the followers ask and are told"
    rows = [line for line in done.stdout.splitlines() if line.startswith("| 16 ")]
    assert [row.split("|")[2].strip() for row in rows] == ["kraftd", "other"]
    assert "PGO" in told["interpreters"]["kraftd"]
    assert f"kraftd: {told['interpreters']['kraftd']}" in done.stdout.splitlines()
