"""Without Java `make interop` says so in one line that counts what it skips; in CI that is a failure."""

import os
import subprocess
import sys
from pathlib import Path

from fixtures import ROOT

WAY_OUT = "java is missing: a real Kafka needs Java 17 with its compiler, Maven, and Maven Central"


def interop(empty: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Some of the comparisons, where no program is to be found."""
    unset = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/interop/test_configs.py"],
        env={**unset, "PATH": str(empty), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_java_there_is_one_line_with_how_many_are_skipped(tmp_path: Path) -> None:
    done = interop(tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if "java" in line] == [
        f"SKIPPED [5] tests/interop/peer.py: {WAY_OUT}"
    ]
    assert "5 skipped" in done.stdout


def test_in_ci_a_skip_is_a_failure(tmp_path: Path) -> None:
    done = interop(tmp_path, CI="1")
    assert done.returncode == 1
    assert WAY_OUT in done.stdout
    assert "skipped" not in done.stdout.splitlines()[-1]
