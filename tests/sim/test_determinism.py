"""A seed is a whole run: the same alone, among others, in another process or Python, watched or not."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.sim.run import Result, run_seed
from tests.sim.world import Options, World

ROOT = Path(__file__).parents[2]
SEEDS = (3, 7, 25)
EVENTS = 1_500
SHORT = Options(events=EVENTS)
_HASHES = re.compile(r"trace ([0-9a-f]{32}), state ([0-9a-f]{32})")


def hashes(result: Result) -> tuple[str, str]:
    assert result.violation is None
    return result.trace_hash, result.state_hash


def in_a_process(python: str, seed: int, **environment: str) -> tuple[str, str]:
    """Replay a seed as `make sim SEED=n` does."""
    done = subprocess.run(
        [python, "-m", "tests.sim.run", "--seed", str(seed), "--events", str(EVENTS)],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = _HASHES.search(done.stdout)
    assert found is not None, done.stdout + done.stderr
    return found[1], found[2]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_repeats_itself(seed: int) -> None:
    first, again = run_seed(seed, options=SHORT), run_seed(seed, options=SHORT)
    assert hashes(first) == hashes(again)
    assert first.statistics == again.statistics
    assert first.events >= EVENTS


def test_seeds_differ() -> None:
    assert len({run_seed(seed, options=SHORT).trace_hash for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_reads_the_trace_changes_nothing(seed: int) -> None:
    lines: list[str] = []
    watched = World(seed, SHORT, sink=lines.append)
    watched.run()
    assert (watched.trace_hash, watched.state_hash()) == hashes(run_seed(seed, options=SHORT))
    assert len(lines) > EVENTS // 2
    watched.close()


def test_strings_may_hash_as_they_like() -> None:
    seen = {in_a_process(sys.executable, SEEDS[0], PYTHONHASHSEED=value) for value in ("1", "4711")}
    assert seen == {hashes(run_seed(SEEDS[0], options=SHORT))}


@pytest.mark.slow
def test_the_five_hundredth_seed_of_a_process_is_what_it_is_alone() -> None:
    tiny = Options(events=40, judged=False)
    for seed in range(1_000, 1_499):
        run_seed(seed, options=tiny)
    assert hashes(run_seed(SEEDS[1], options=SHORT)) == in_a_process(sys.executable, SEEDS[1])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_another_python_does_the_same(tmp_path: Path) -> None:
    other = another_python()
    if other is None:
        pytest.skip("there is no other Python from 3.11 on")
    subprocess.run([other, "-m", "venv", tmp_path / "venv"], check=True, capture_output=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    locked = ["--require-hashes", "-r", str(ROOT / "requirements" / "runtime.lock")]
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *locked], check=False, capture_output=True, text=True
    )
    assert installed.returncode == 0, installed.stderr
    (site,) = (tmp_path / "venv").glob("lib/python3.*/site-packages")
    (known,) = Path(sysconfig.get_path("purelib")).glob("kraftd-*.dist-info")
    shutil.copytree(known, site / known.name)  # the code comes from the tree; this says which version it is
    for seed in SEEDS:
        assert in_a_process(python, seed) == hashes(run_seed(seed, options=SHORT))


def another_python() -> str | None:
    """An interpreter of another version than this one that kraftd runs on."""
    places = [Path(place) for place in os.environ.get("PATH", "").split(os.pathsep)]
    places += sorted((Path.home() / ".pyenv" / "versions").glob("3.1*/bin"), reverse=True)
    for place in places:
        for minor in range(11, 20):
            python = place / f"python3.{minor}"
            if minor == sys.version_info.minor or not python.exists():
                continue
            asked = [python, "-c", "import sys, venv, ensurepip; print(sys.version_info.minor)"]
            told = subprocess.run(asked, capture_output=True, text=True, check=False)
            if told.returncode == 0 and told.stdout.strip() == str(minor):
                return str(python)
    return None
