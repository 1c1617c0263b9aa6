"""Real daemons write snapshots: the same on every node, told in one line, and in the way of nothing."""

import urllib.request
from collections.abc import Callable

from cluster import Cluster, Node

from kraftd.records import names
from kraftd.records.snapshot import SnapshotDecoder

Start = Callable[..., Cluster]
OFTEN = {"metadata.log.max.record.bytes.between.snapshots": "20000"}


def snapshots_of(node: Node) -> dict[str, bytes]:
    folder = node.directory / names.LOG_DIRECTORY
    return {path.name: path.read_bytes() for path in folder.glob("*.checkpoint")}


def test_all_nodes_write_the_same_snapshots(start: Start) -> None:
    with start(3, settings=OFTEN, http=True) as cluster:
        for number in range(120):
            cluster.commit("ssl.cipher.suites", f"{number:03}".ljust(900, "x"), broker=str(number % 4))
        for node in cluster:
            line = node.wait_for("snapshot_written")
            assert line["size_bytes"] > 0
        newest = cluster.wait_leader().wait_for("snapshot_written")
        page = (
            urllib.request.urlopen(f"http://127.0.0.1:{cluster.wait_leader().http_port}/metrics")
            .read()
            .decode()
        )
        assert "kafka_server_snapshotemitter_latestsnapshotgeneratedbytes" in page
        assert newest["offset"] > 0
        cluster.wait_caught_up()
        for node in cluster:
            node.stop()
        found = [snapshots_of(node) for node in cluster]
    shared = set.intersection(*(set(each) for each in found))
    assert shared
    for name in shared:
        assert len({each[name] for each in found}) == 1
        snapshot_id = names.parse_snapshot_name(name)
        assert snapshot_id is not None
        decoder = SnapshotDecoder(name, snapshot_id.epoch)
        assert list(decoder.feed(found[0][name]))
        decoder.finish()
