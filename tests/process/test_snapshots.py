"""Real daemons write snapshots: the same on every node, told in one line, and in the way of nothing."""

import shutil
import urllib.request
from collections.abc import Callable

from cluster import Cluster, KafkaClient, Node
from test_kafka_wire import fetch

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.records import names
from kraftd.records.snapshot import SnapshotDecoder
from kraftd.types import METADATA_TOPIC, OffsetAndEpoch
from tests.conformance import covers

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


@covers("FREQ-18", "SF-09", "D-21")
def test_a_wiped_node_loads_the_leaders_snapshot_in_pieces_and_then_the_log(start: Start) -> None:
    settings = OFTEN | {"controller.quorum.fetch.snapshot.max.bytes": "500"}
    with start(3, settings=settings) as cluster:
        for number in range(60):
            cluster.commit("ssl.cipher.suites", f"{number:03}".ljust(900, "x"), broker=str(number % 4))
        leader = cluster.wait_leader()
        written = leader.wait_for("snapshot_written")
        wiped = next(node for node in cluster if node is not leader)
        wiped.stop()
        shutil.rmtree(wiped.directory)
        cluster.format(wiped)
        wiped.start()
        received = wiped.wait_for("snapshot_received")
        assert received["offset"] >= written["offset"]
        assert received["bytes"] > 4_000
        cluster.wait_caught_up()
        segments = sorted(path.name for path in (wiped.directory / names.LOG_DIRECTORY).glob("*.log"))
        assert segments[0] == f"{received['offset']:020}.log", "nothing from before the snapshot"
        cluster.commit("log.cleaner.threads", "3")
        cluster.wait_caught_up()


@covers("SF-01", "SF-02", "SF-03", "Q-05")
def test_an_observer_downloads_a_snapshot_by_kafkas_wire(start: Start) -> None:
    """As a broker does. What it asks wrongly is answered with Kafka's error, and the connection stays."""
    with start(1, settings=OFTEN) as cluster:
        for number in range(40):
            cluster.commit("ssl.cipher.suites", f"{number:03}".ljust(900, "x"), broker=str(number % 4))
        leader = cluster.wait_leader()
        leader.wait_for("snapshot_written")
        epoch = leader.describe().epoch
        with KafkaClient(leader.port) as client:
            fetched = client.ask(fetch(0, epoch=epoch)).responses[0].partitions[0]
            assert not fetched.records
            told = OffsetAndEpoch(fetched.snapshot_id.end_offset, fetched.snapshot_id.epoch)
            data = b""
            while True:
                piece = snapshot_piece(client, told, len(data), epoch)
                assert piece.error_code == ErrorCode.NONE
                data += bytes(piece.unaligned_records)
                if len(data) == piece.size:
                    break
            assert data == snapshots_of(leader)[names.snapshot_name(told)]
            for position in (-1, len(data), 2**63 - 1):
                wrong = snapshot_piece(client, told, position, epoch)
                assert wrong.error_code == ErrorCode.POSITION_OUT_OF_RANGE
            unknown = snapshot_piece(client, OffsetAndEpoch(told.offset, told.epoch + 9), 0, epoch)
            assert unknown.error_code == ErrorCode.SNAPSHOT_NOT_FOUND
            for topics in ((), request_of(told, 0, epoch).topics * 2):
                assert (
                    client.ask(m.FetchSnapshotRequest(topics=topics)).error_code == ErrorCode.INVALID_REQUEST
                )
            cluster.commit("log.cleaner.threads", "3")  # else the snapshot may be the log's end
            after = (
                client.ask(fetch(told.offset, epoch=epoch, last_epoch=told.epoch)).responses[0].partitions[0]
            )
            assert after.error_code == ErrorCode.NONE
            assert after.records


def request_of(snapshot_id: OffsetAndEpoch, position: int, epoch: int) -> m.FetchSnapshotRequest:
    partition = m.FetchSnapshotRequestPartitionSnapshot(
        current_leader_epoch=epoch,
        snapshot_id=m.FetchSnapshotRequestSnapshotId(snapshot_id.offset, snapshot_id.epoch),
        position=position,
    )
    topic = m.FetchSnapshotRequestTopicSnapshot(METADATA_TOPIC, (partition,))
    return m.FetchSnapshotRequest(max_bytes=3_000, topics=(topic,))


def snapshot_piece(
    client: KafkaClient, snapshot_id: OffsetAndEpoch, position: int, epoch: int
) -> m.FetchSnapshotResponsePartitionSnapshot:
    response = client.ask(request_of(snapshot_id, position, epoch))
    return response.topics[0].partitions[0]  # type: ignore[no-any-return]
