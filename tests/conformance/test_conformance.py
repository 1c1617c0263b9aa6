"""The catalogue is whole, its markers are checked, and it is covered as far as we say."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import covers
from tests.conformance.catalogue import behaviours
from tests.conformance.table import faults, render

ROOT = Path(__file__).parents[2]

SIZES = {
    "QS": 30, "VOTE": 31, "BQE": 14, "EQE": 12, "FREQ": 27, "FRSP": 20, "HWM": 16, "ACC": 24, "SNAP": 25,
    "SF": 15, "CLN": 10, "DV": 38, "OBS": 10, "CQ": 7, "RSG": 14, "LSN": 17, "REQ": 13, "LOG": 20, "REC": 6,
    "DQ": 5, "MET": 1, "SIMX": 14,
}  # fmt: skip


def test_no_behaviour_is_left_out_of_the_catalogue() -> None:
    for theme, size in SIZES.items():
        wanted = [f"{theme}-{number:02}" for number in range(1, size + 1)]
        assert [one for one in behaviours() if behaviours()[one].theme == theme] == wanted
    rules = [f"D-{number:02}" for number in (*range(1, 25), *range(35, 42))]
    assert [one for one in behaviours() if behaviours()[one].theme == "D"] == rules
    assert sum(1 for one in behaviours().values() if one.is_kafkas) == 369


def test_an_unknown_id_cannot_be_cited() -> None:
    with pytest.raises(LookupError, match="VOTE-99"):
        covers("VOTE-01", "VOTE-99")
    with pytest.raises(LookupError, match="nothing"):
        covers()


@pytest.mark.parametrize("mark", ['@covers("D-99")', '@pytest.mark.covers("D-99")'])
def test_an_unknown_id_fails_the_collection(tmp_path: Path, mark: str) -> None:
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests/conftest.py").read_bytes())
    (tmp_path / "test_one.py").write_text(
        f"import pytest\nfrom tests.conformance import covers\n\n\n{mark}\ndef test_it() -> None: ...\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        f"--rootdir={ROOT}",
        "-c",
        "pyproject.toml",
    ]
    run = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode != 0
    assert "D-99" in run.stdout + run.stderr


def test_every_behaviour_is_covered_or_waits_or_differs_for_a_reason() -> None:
    """All tests are collected, by another process: this one may hold only some of them."""
    command = [sys.executable, "-m", "tests.conformance"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stdout[-3_000:] + run.stderr[-3_000:]
    assert " 0 missing" in run.stdout


def test_the_table_shows_what_is_missing_and_what_is_claimed_too_early() -> None:
    tests = {one.id: ["a_test"] for one in behaviours().values() if not one.waits}
    assert faults(tests) == []
    assert "VOTE-01  covered" in render(tests)
    del tests["VOTE-01"]
    tests["HWM-05"] = ["hasty"]
    assert [fault.split()[0] for fault in faults(tests)] == ["VOTE-01", "HWM-05"]
    assert "VOTE-01  NOT YET" in render(tests)
    assert "HWM-05   COVERED?" in render(tests)
    assert "before" in faults({"VOTE-01": ["a_test"]})[-1]
