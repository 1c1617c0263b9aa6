"""What a newcomer does first works: the README's commands, the demo among them, and the benchmark.

Slow, and run one at a time: they start real clusters, the README's on the fixed ports of config/.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOT_A_NEWCOMERS = ("KRAFTD_", "MAKE", "MFLAGS", "ARGS")
"""What the shell of a newcomer has not: settings of kraftd, and what a `make` around the tests was told."""
LOADS = {"1", "16", "64", "256", "batch"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2_400), pytest.mark.xdist_group("fixed ports")]


def run(*words: str, cwd: Path = ROOT) -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith(NOT_A_NEWCOMERS)}
    done = subprocess.run(
        words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


@pytest.mark.spark
def test_the_readme_is_true() -> None:
    if shutil.which("java") is None:
        pytest.skip("the demo's replay needs Java 17: apt-get install openjdk-17-jre-headless")
    shown = run(sys.executable, "scripts/readme.py")
    assert "have one hash" in shown, "the demo ends with Spark and the daemon agreeing"


def test_the_benchmark_gives_the_figures_it_promises(tmp_path: Path) -> None:
    run(sys.executable, "benchmarks/quorum.py", "--quick", "--json", str(tmp_path / "figures.json"))
    figures = json.loads((tmp_path / "figures.json").read_text())["kraftd"]
    assert "python" in figures["loads"], "the client in C needs a compiler, which a newcomer may not have"
    for loads in figures["loads"].values():
        assert set(loads) == LOADS
        assert all(one["changes_per_s"] > 0 for rounds in loads.values() for one in rounds)
    assert set(figures["failover_ms"]) == {"kill", "pause", "term", "resign"}
    assert figures["rss_mb"] > 0
    assert figures["idle_cpu_percent"] >= 0


def test_the_benchmark_of_bounded_logs_says_of_each_figure_whether_it_is_reached() -> None:
    shown = run(sys.executable, "benchmarks/bounded_log.py", "--quick")
    for part in ("wiped", "restart", "single", "month", "observers"):
        assert f"\n{part} " in shown
    wanted = [line for line in shown.splitlines() if "at most" in line]
    assert len(wanted) >= 15
    assert all(line.endswith((": reached", ": MISSED")) for line in wanted)
