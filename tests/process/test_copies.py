"""Logs larger than memory: exported while they grow, fetched from the start, applied from disk."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Cluster, Node, alter_request
from test_kraftctl import kraftctl

from kraftd.cli.export import DirectorySource
from kraftd.errors import ErrorCode
from kraftd.logtools.finding import find_log
from kraftd.logtools.state import state_at
from kraftd.metadata.image import to_records
from kraftd.protocol.messages import ExportChunkRequest, ExportManifestRequest
from kraftd.records.batch import scan
from kraftd.types import OffsetAndEpoch
from tests.unit.logtools.logs import write_snapshot

NAME = "ssl.cipher.suites"
SEGMENT = "__cluster_metadata-0/00000000000000000000.log"
Start = Callable[..., Cluster]


def fill(cluster: Cluster, mebibytes: int) -> None:
    """Commit large values until the log has grown by about so much."""
    value = "v" * 30_000
    with cluster.wait_leader().client() as client:
        for number in range(mebibytes * 1024 * 1024 // 30_000 // 8 + 1):
            pairs = alter_request([(NAME, value)], broker=str(number % 7))
            for _ in range(8):
                assert client.ask(pairs).responses[0].error_code == 0


def test_an_export_is_one_moment_of_a_log_that_grows(start: Start) -> None:
    cluster = start(1)
    node = cluster.wait_leader()
    for number in range(20):
        cluster.commit(NAME, f"value-{number}", broker=str(number))
    with node.client() as client:
        manifest = client.ask(ExportManifestRequest())
        cluster.commit(NAME, "after the manifest", broker="1")
        sizes = {file.name: file.size_bytes for file in manifest.files}
        kinds = {file.name: file.kind for file in manifest.files}
        assert set(kinds.values()) == {"meta", "bootstrap", "election", "epochs", "partition", "segment"}
        assert kinds["bootstrap.checkpoint"] == "bootstrap"
        copied = {file.name: file.kind for file in DirectorySource(node.directory).files()}
        assert copied == kinds, "a copy of the directory tells each file as the running node does"
        files = {}
        for name, size_bytes in sizes.items():
            data = b""
            while len(data) < size_bytes:
                response, part = client.ask_with_records(
                    ExportChunkRequest(name=name, position=len(data), max_bytes=700)
                )
                assert response.error_code == 0, response.error_message
                assert response.total_bytes == size_bytes
                assert 0 < len(part) <= 700
                data += part
            files[name] = data
    assert files[SEGMENT] == (node.directory / SEGMENT).read_bytes()[: sizes[SEGMENT]]
    *_, last = scan(files[SEGMENT])
    assert last.end_offset == manifest.end_offset
    assert 0 < manifest.high_watermark <= manifest.end_offset


def with_snapshot(start: Start) -> tuple[Node, Path]:
    """A node with a snapshot of its log in its directory, as one that came from Kafka has; that file."""
    cluster = start(1)
    node = cluster.wait_leader()
    cluster.commit(NAME, "in the snapshot", broker="1")
    node.stop()
    state = state_at(find_log(node.directory))
    snapshot_id = OffsetAndEpoch(state.end_offset, state.epoch)
    folder = node.directory / "__cluster_metadata-0"
    path = write_snapshot(folder, snapshot_id, [*to_records(state.image)], state.timestamp_ms)
    path.with_name(f"{path.name}.deleted").write_bytes(b"about to go")
    node.start()
    cluster.wait_leader()
    cluster.commit(NAME, "after it", broker="2")
    return node, path


def test_an_export_has_the_snapshots_and_reads_as_the_nodes_directory(start: Start, tmp_path: Path) -> None:
    node, snapshot = with_snapshot(start)
    out = tmp_path / "out"
    assert kraftctl(node.cluster.bootstrap, "export", "1", out).code == 0
    name = f"__cluster_metadata-0/{snapshot.name}"
    assert (out / name).read_bytes() == snapshot.read_bytes()
    listed = {file["name"] for file in json.loads((out / "manifest.json").read_text())["files"]}
    assert name in listed
    assert not any(file.endswith(".deleted") for file in listed)
    assert {file.name for file in DirectorySource(node.directory).files()} == listed
    verified = kraftctl("", "log", "verify", out, "-o", "json")
    assert (verified.code, json.loads(verified.out)["logs"][0]["snapshots"]) == (0, 1)
    state = json.loads(kraftctl("", "log", "state", out, "-o", "json").out)
    assert state["snapshot"]["offset"] < state["offset"]


def test_a_snapshot_that_goes_during_an_export_voids_it(start: Start) -> None:
    """Nothing is said of the disk: the client starts again, and its next manifest is without the file."""
    node, snapshot = with_snapshot(start)
    name = f"__cluster_metadata-0/{snapshot.name}"
    with node.client() as client:
        assert name in [file.name for file in client.ask(ExportManifestRequest()).files]
        snapshot.unlink()
        response = client.ask(ExportChunkRequest(name=name))
        assert response.error_code == ErrorCode.SNAPSHOT_NOT_FOUND
        assert response.error_message == "it was removed meanwhile; start again"
        assert name not in [file.name for file in client.ask(ExportManifestRequest()).files]


def test_a_snapshot_that_cannot_be_opened_is_named(start: Start, tmp_path: Path) -> None:
    node, snapshot = with_snapshot(start)
    snapshot.unlink()
    snapshot.symlink_to(snapshot.name)
    done = kraftctl(node.cluster.bootstrap, "export", "1", tmp_path / "out")
    assert done.code == 1
    assert done.err.count("\n") == 1
    name = snapshot.relative_to(node.directory)
    assert f"{name} at byte 0: cannot be read: Too many levels of symbolic links; nothing is" in done.err
    assert not (tmp_path / "out").exists()


def test_an_export_needs_a_manifest_and_a_file_that_is_in_it(start: Start) -> None:
    node = start(1).wait_leader()
    with node.client() as client:
        assert client.ask(ExportChunkRequest(name=SEGMENT)).error_code == ErrorCode.INVALID_REQUEST
        client.ask(ExportManifestRequest())
        for name in ("../../../etc/passwd", "/etc/passwd", "kraftd.state", "nothing"):
            response = client.ask(ExportChunkRequest(name=name))
            assert response.error_code == ErrorCode.SNAPSHOT_NOT_FOUND
        response, data = client.ask_with_records(ExportChunkRequest(name=SEGMENT, position=1 << 40))
        assert (response.error_code, data) == (0, b"")


@pytest.mark.covers("D-15")
def test_a_node_that_begins_with_nothing_fetches_more_than_the_leader_has_in_memory(start: Start) -> None:
    cluster = start()
    leader = cluster.wait_leader()
    cluster.wait_caught_up()
    late = next(node for node in cluster if node is not leader)
    late.kill()
    fill(cluster, 24)
    shutil.rmtree(late.directory)
    cluster.format(late)
    late.start()
    assert len(cluster.image_hashes(late, cluster.wait_leader(), timeout_s=60)) == 1


@pytest.mark.covers("D-04", "D-15")
def test_a_node_that_starts_with_a_long_log_applies_it_from_disk(start: Start) -> None:
    cluster = start(1)
    node = cluster.wait_leader()
    fill(cluster, 24)
    with node.client() as client:
        before = client.list_configs().entries
    node.kill()
    mark = node.mark()
    node.start()
    node.wait_for("leader_changed", since=mark, where=lambda line: line["leader"] == 1)
    cluster.wait_caught_up()
    with node.client() as client:
        assert client.list_configs().entries == before
    assert not [line for line in node.events[mark:] if line["event"] == "stall"]


def test_what_a_running_node_writes_is_no_damage_and_what_a_stopped_one_lost_is(
    start: Start, tmp_path: Path
) -> None:
    cluster = start(1)
    node = cluster.wait_leader()
    done = threading.Event()

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            cluster.commit(NAME, f"value-{number}", broker=str(number % 7))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            verified = kraftctl("", "log", "verify", node.directory, "-o", "json")
            assert verified.code == 0, verified.out
            exported = kraftctl("", "export", node.directory, tmp_path / str(number))
            assert exported.code == 0, exported.out
    finally:
        done.set()
        writer.join()
    node.stop()
    assert kraftctl("", "log", "verify", node.directory).code == 0
    segment = node.directory / SEGMENT
    os.truncate(segment, segment.stat().st_size - 30)
    assert kraftctl("", "info", node.directory).code == 1
    for command in (("log", "verify", node.directory), ("export", node.directory, tmp_path / "lost")):
        told = kraftctl("", *command)
        assert (told.code, "flushed up to offset" in told.out) == (1, True), told.out
