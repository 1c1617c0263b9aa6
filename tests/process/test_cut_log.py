"""A real daemon on a log that begins above offset 0: every tool works on it, and says what it knows."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cluster import Cluster, Node

from kraftd.cli import export
from kraftd.cli.client import Connection
from kraftd.records import names
from kraftd.storage.filesystem import OsFileSystem
from kraftd.storage.node_directory import NodeDirectory
from kraftd.types import parse_endpoint
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


class CutSource(export.NodeSource):
    """A running node whose log is cut as soon as the first file of it has been read."""

    def __init__(self, node: Node, cut: Callable[[], None]) -> None:
        super().__init__(Connection(parse_endpoint(f"127.0.0.1:{node.port}"), export.REQUEST_TIMEOUT_MS))
        self._cut = cut
        self.manifests: list[list[str]] = []

    def files(self) -> Sequence[export.ExportFile]:
        found = super().files()
        self.manifests.append([file.name for file in found])
        return found

    def read(self, name: str, position: int, max_bytes: int) -> bytes:
        data = super().read(name, position, max_bytes)
        cut, self._cut = self._cut, lambda: None
        cut()
        return data


@pytest.mark.covers("D-22")
def test_an_export_keeps_its_files_while_the_log_is_cut_and_no_longer(start: Start, tmp_path: Path) -> None:
    cluster = start(1, settings={**CUTTING, "metadata.max.retention.bytes": "1"})
    (node,) = cluster
    folder = node.directory / names.LOG_DIRECTORY

    def write_until_it_is_cut() -> None:
        mark = node.mark()
        while not any(line["event"] == "log_cleaned" for line in node.events[mark:]):
            cluster.commit("ssl.cipher.suites", os.urandom(450).hex(), broker="1")

    write_until_it_is_cut()
    cluster.commit("log.cleaner.threads", "3")
    source = CutSource(node, write_until_it_is_cut)
    report = export.run(source, "the node", tmp_path / "out")
    (names_told,) = source.manifests
    assert report["problems"] == []
    retired = {path.name for path in folder.glob("*.deleted")}
    for name in names_told:
        if name.endswith(".log") and not (node.directory / name).exists():
            assert f"{Path(name).name}.deleted" in retired
    assert any(name.endswith(".log.deleted") for name in retired)
    assert any(name.endswith(".checkpoint.deleted") for name in retired)
    state = kraftctl("", "log", "state", tmp_path / "out", "-o", "json")
    assert state.data["offset"] == report["log_end_offset"]
    source.close()
    while retired & {path.name for path in folder.iterdir()}:
        write_until_it_is_cut()


@pytest.mark.covers("D-15", "D-22", "D-23")
def test_a_byte_that_rots_below_a_snapshot_costs_a_node_the_front_of_its_log_and_nothing_else(
    start: Start,
) -> None:
    cluster = start(1, settings=CUTTING)
    (node,) = cluster
    for number in range(40):
        cluster.commit("ssl.cipher.suites", f"{number:03}".ljust(900, "x"), broker="1")
    snapshot = node.wait_for("snapshot_written")
    node.kill()
    path = node.directory / names.LOG_DIRECTORY / names.segment_name(0)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    before = node.mark()
    node.start()
    line = node.wait_for("damage_below_snapshot", since=before)
    assert str(path) in line["text"]
    assert " at byte " in line["text"]
    assert line["text"].endswith(
        f"no loss: the log begins at the snapshot at offset {snapshot['offset']} now"
    )
    cluster.wait_leader()
    cluster.commit("log.cleaner.threads", "3")
    told = node.describe()
    assert (told.log_start_offset, told.whole, told.alarms) == (snapshot["offset"], True, ())
    assert not path.exists()
    node.stop()
    before = node.mark()
    node.start()
    cluster.wait_leader()
    cluster.commit("log.cleaner.threads", "4")
    assert node.describe().log_start_offset == snapshot["offset"]
    assert not [line for line in node.events[before:] if line["level"] not in {"info", "debug"}]
    node.stop()
    verified = kraftctl("", "log", "verify", node.directory, "-o", "json")
    assert verified.code == 0, verified.out
