"""A real daemon on a log that begins above offset 0: every tool works on it, and says what it knows."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Cluster, Node

from kraftd.records import names
from kraftd.storage.filesystem import OsFileSystem
from kraftd.storage.node_directory import NodeDirectory
from tests.process.test_kraftctl import kraftctl
from tests.process.test_watch import Watcher, sets

Start = Callable[..., Cluster]
CUTTING = {
    "metadata.log.max.record.bytes.between.snapshots": "20000",
    "metadata.log.segment.bytes": "8000",
    "metadata.log.segment.min.bytes": "1000",
}


def cut_cluster(start: Start) -> tuple[Cluster, Node, int]:
    """A quorum of one whose log begins where its newest snapshot ends, running again; that offset."""
    cluster = start(1, settings=CUTTING)
    (node,) = cluster
    for number in range(40):
        cluster.commit("ssl.cipher.suites", f"{number:03}".ljust(900, "x"), broker="1")
    node.wait_for("snapshot_written")
    node.stop()
    directory = NodeDirectory.open(
        OsFileSystem(), node.directory, node_id=1, random_uuid=lambda: os.urandom(16)
    )
    newest = directory.snapshots.newest
    assert newest is not None
    directory.cut_front(newest.id)
    directory.close()
    node.start()
    cluster.wait_leader()
    return cluster, node, newest.id.offset


@pytest.mark.covers("D-22", "D-23", "D-24")
def test_who_watches_from_before_it_gets_its_snapshot_first(start: Start) -> None:
    cluster, _, offset = cut_cluster(start)
    cluster.commit("log.cleaner.threads", "3")
    with Watcher(cluster.bootstrap, "--from", 0) as watcher:
        told = watcher.until(sets("3"))
    assert (told[0]["kind"], told[0]["offset"]) == ("snapshot", offset)
    of_snapshot = [line for line in told[1:] if line["offset"] == -1]
    behind = [line["offset"] for line in told[1 + len(of_snapshot) :]]
    assert any(line["type"] == "CONFIG_RECORD" for line in of_snapshot)
    assert behind == list(range(offset, offset + len(behind)))
    with Watcher(cluster.bootstrap, "--changes", "--from", 0) as watcher:
        changes = watcher.until(lambda line: line.get("after") == "3")
    assert changes[0] == told[0]
    suites = [line for line in changes if "ssl.cipher.suites" in line.get("name", "")]
    assert suites[0]["offset"] == -1
    with Watcher(cluster.bootstrap, "--changes", "--from", changes[-1]["offset"]) as watcher:
        assert watcher.until(lambda line: line["after"] == "3") == [changes[-1]]


def test_every_question_to_its_directory_is_answered(start: Start, tmp_path: Path) -> None:
    cluster, node, offset = cut_cluster(start)
    cluster.commit("log.cleaner.threads", "3")
    for source, out in ((f"127.0.0.1:{node.port}", "by-node"), (node.directory, "by-directory")):
        exported = kraftctl("", "export", source, tmp_path / out, "-o", "json")
        assert exported.code == 0, exported.err
        assert exported.data["problems"] == []
    node.stop()
    hashes = set()
    for directory in (node.directory, tmp_path / "by-node", tmp_path / "by-directory"):
        verified = kraftctl("", "log", "verify", directory, "-o", "json")
        assert verified.code == 0, verified.out
        at_cut = kraftctl("", "log", "state", directory, "--at", offset, "-o", "json")
        assert at_cut.data["snapshot"]["offset"] == offset
        hashes.add(at_cut.data["hash"])
        before = kraftctl("", "log", "state", directory, "--at", offset - 1)
        assert (before.code, before.err.count("\n")) == (1, 1)
        assert f"the snapshot at offset {offset}" in before.err
        history = kraftctl("", "log", "history", directory, "config", "log.cleaner.threads", "-o", "json")
        assert history.data["changes"][-1]["after"] == "3"
        assert kraftctl("", "log", "diff", directory, offset, offset + 1).code == 0
        assert kraftctl("", "log", "dump", directory).code == 0
    assert len(hashes) == 1
    info = kraftctl("", "info", node.directory, "-o", "json")
    assert (info.code, info.data["problems"]) == (0, [])
    assert names.segment_name(0) not in str(info.data["log"]["segments"])
