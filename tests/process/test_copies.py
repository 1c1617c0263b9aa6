"""Logs larger than memory: exported while they grow, fetched from the start, applied from disk."""

import shutil
from collections.abc import Callable

import pytest
from cluster import Cluster, alter_request

from kraftd.cli.export import DirectorySource
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import ExportChunkRequest, ExportManifestRequest
from kraftd.records.batch import scan

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
