"""A benchmark that plays a part of the daemon by itself follows the daemon."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_a_month_of_idle_no_ops_can_be_made_and_is_judged() -> None:
    command = (sys.executable, "benchmarks/bounded_log.py", "month", "--quick")
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    judged = [line for line in done.stdout.splitlines() if "at most" in line]
    assert len(judged) == 2
    assert all(line.endswith(": reached") for line in judged), done.stdout
