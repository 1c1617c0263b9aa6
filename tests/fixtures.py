"""Data that a real Kafka wrote, and tools that may be missing.

`tests/data/klogs` holds two clusters, so that a clean clone tests itself. More of them, where a machine
has them, are found by `KRAFTD_KLOGS` or beside the repository; a test that needs one of those by name
is skipped without it.
"""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OWN_KLOGS = ROOT / "tests" / "data" / "klogs"


def klogs() -> Path:
    """A folder of clusters, each with `node-N` directories: the largest collection at hand."""
    named = os.environ.get("KRAFTD_KLOGS")
    if named and not Path(named).is_dir():
        raise pytest.UsageError(f"KRAFTD_KLOGS names {named}, which is no directory")
    if named:
        return Path(named)
    beside = ROOT.parent / "shared" / "klogs"
    return beside if beside.is_dir() else OWN_KLOGS


def klog(cluster: str) -> Path:
    """One cluster by name; skips the test where it is missing."""
    for folder in (klogs(), OWN_KLOGS):
        if (folder / cluster).is_dir():
            return folder / cluster
    pytest.skip(f"the metadata logs of {cluster} are not here (set KRAFTD_KLOGS to a folder that has them)")


def clusters() -> list[Path]:
    """Every cluster at hand."""
    return sorted(path for path in klogs().iterdir() if path.is_dir())


def klog_files(pattern: str) -> list[Path]:
    """Every file of every cluster whose name fits the pattern, such as `*.log`."""
    return sorted(path for cluster in clusters() for path in cluster.rglob(pattern))


def require(tool: str) -> str:
    """The path of a program; skips the test where it is missing."""
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    return found
