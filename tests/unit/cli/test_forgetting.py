"""`forget-peers`: what it prints, and what it refuses."""

import os
from pathlib import Path

import pytest

from kraftd.storage import NodeDirectory, OsFileSystem, format_directory
from kraftd.types import HealthKind, PeerIdentity
from tests.unit.cli.kraftctl import Kraftctl

HEARSAY = (
    "the quorum knows another directory, or a later start, as node 1: this directory was replaced or "
    "restored. It is counted again once every voter was heard and a new leader elected"
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    fs, path = OsFileSystem(), tmp_path / "node-1"
    format_directory(fs, path, cluster_id="c" * 22, node_id=1, directory_id=b"d" * 16, now_ms=1)
    node = NodeDirectory.open(fs, path, node_id=1, random_uuid=lambda: os.urandom(16))
    node.remember_peer(PeerIdentity(2, b"2" * 16, 2**31 - 1, b"s" * 16))
    node.remember_peer(PeerIdentity(3, b"3" * 16, 7, b"s" * 16))
    node.close()
    return path


def test_each_voter_that_is_forgotten_is_a_row(kraftctl: Kraftctl, directory: Path) -> None:
    outcome = kraftctl("forget-peers", directory)
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        "Node  Forgot  DirectoryId             Start       Directory",
        f"1     2       MjIyMjIyMjIyMjIyMjIyMg  2147483647  {directory}",
        f"1     3       MzMzMzMzMzMzMzMzMzMzMw  7           {directory}",
    ]
    again = kraftctl("forget-peers", directory / "__cluster_metadata-0", "-o", "json")
    assert again.data == {
        "directories": [{"directory": str(directory), "node_id": 1, "forgotten": [], "counts_again": False}]
    }


def test_a_node_that_counts_again_is_told(kraftctl: Kraftctl, directory: Path) -> None:
    node = NodeDirectory.open(OsFileSystem(), directory, node_id=1, random_uuid=lambda: os.urandom(16))
    node.remember_state_health(HealthKind.AMNESIA, [HEARSAY])
    node.close()
    outcome = kraftctl("forget-peers", directory)
    assert outcome.out.endswith("\n\nNode 1 does not take itself for an old copy any more.\n")
    assert kraftctl("info", directory).code == 0, "no problem is left"


def test_nothing_is_left_in_a_copy_that_remembers_nobody(
    kraftctl: Kraftctl, directory: Path, tmp_path: Path
) -> None:
    assert kraftctl("export", directory, tmp_path / "copy").code == 0
    before = sorted((tmp_path / "copy").rglob("*"))
    outcome = kraftctl("forget-peers", directory, tmp_path / "copy")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "copy/kraftd.state: is not there: nobody is remembered; leave it out" in outcome.err
    assert sorted((tmp_path / "copy").rglob("*")) == before
    assert "2147483647" in kraftctl("forget-peers", directory).out, "nothing was changed"


def test_what_is_no_directory_is_one_line(kraftctl: Kraftctl, tmp_path: Path) -> None:
    outcome = kraftctl("forget-peers", tmp_path)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert "is no node's directory" in outcome.err
    assert kraftctl("forget-peers").code == 64
