"""FetchSnapshot at a real daemon, on Kafka's wire, and what reads a log that sends a snapshot first."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cluster import Cluster, KafkaClient, Node

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.records import names
from kraftd.types import METADATA_TOPIC, OffsetAndEpoch
from tests.process.test_kraftctl import kraftctl

Start = Callable[..., Cluster]
OFTEN = {"metadata.log.max.record.bytes.between.snapshots": "20000"}


def with_snapshot(start: Start) -> tuple[Cluster, Node, Path]:
    """A quorum of one that has written a snapshot, and that file."""
    cluster = start(1, settings=OFTEN)
    (node,) = cluster
    for number in range(40):
        cluster.commit("ssl.cipher.suites", f"{number:03}".ljust(900, "x"), broker="1")
    line = node.wait_for("snapshot_written")
    name = names.snapshot_name(OffsetAndEpoch(line["offset"], line["epoch"]))
    return cluster, node, node.directory / names.LOG_DIRECTORY / name


def piece_of(
    snapshot: OffsetAndEpoch, position: int, *, epoch: int, max_bytes: int = 1 << 20, count: int = 1
) -> m.FetchSnapshotRequest:
    """A request, with so many topics."""
    snapshot_id = m.FetchSnapshotRequestSnapshotId(snapshot.offset, snapshot.epoch)
    partition = m.FetchSnapshotRequestPartitionSnapshot(
        current_leader_epoch=epoch, snapshot_id=snapshot_id, position=position
    )
    topic = m.FetchSnapshotRequestTopicSnapshot(METADATA_TOPIC, (partition,))
    return m.FetchSnapshotRequest(max_bytes=max_bytes, topics=(topic,) * count)


@pytest.mark.covers("SF-01", "SF-02", "SF-03", "Q-05")
@pytest.mark.parametrize("version", [0, 1])
def test_what_cannot_be_had_is_refused_by_kafkas_error_and_the_connection_is_kept(
    start: Start, version: int
) -> None:
    cluster, node, file = with_snapshot(start)
    whole = file.read_bytes()
    found = names.parse_snapshot_name(file.name)
    assert found is not None
    epoch = node.describe().epoch
    refusals: Sequence[tuple[OffsetAndEpoch, int, int]] = [
        (found, -1, ErrorCode.POSITION_OUT_OF_RANGE),
        (found, len(whole), ErrorCode.POSITION_OUT_OF_RANGE),
        (found, (1 << 63) - 1, ErrorCode.POSITION_OUT_OF_RANGE),
        (found, -(1 << 63), ErrorCode.POSITION_OUT_OF_RANGE),
        (OffsetAndEpoch(found.offset + 1, found.epoch), 0, ErrorCode.SNAPSHOT_NOT_FOUND),
        (OffsetAndEpoch(found.offset, found.epoch + 1), 0, ErrorCode.SNAPSHOT_NOT_FOUND),
        (OffsetAndEpoch(0, 0), 0, ErrorCode.SNAPSHOT_NOT_FOUND),
        (OffsetAndEpoch(-1, -1), 0, ErrorCode.SNAPSHOT_NOT_FOUND),
        (OffsetAndEpoch((1 << 63) - 1, (1 << 31) - 1), 0, ErrorCode.SNAPSHOT_NOT_FOUND),
    ]
    with KafkaClient(node.port) as client:
        for snapshot, position, error in refusals:
            response = client.ask(piece_of(snapshot, position, epoch=epoch), version)
            assert response.error_code == ErrorCode.NONE
            assert response.topics[0].partitions[0].error_code == error, (snapshot, position)
        for count in (0, 2):
            response = client.ask(piece_of(found, 0, epoch=epoch, count=count), version)
            assert response.error_code == ErrorCode.INVALID_REQUEST
        loaded = b""
        while len(loaded) < len(whole):
            response = client.ask(piece_of(found, len(loaded), epoch=epoch, max_bytes=7_001), version)
            partition = response.topics[0].partitions[0]
            assert (partition.size, partition.position) == (len(whole), len(loaded))
            assert 0 < len(partition.unaligned_records) <= 7_001
            loaded += partition.unaligned_records
        assert loaded == whole
    assert cluster.commit("log.cleaner.threads", "3") < 30


def test_a_log_that_sends_a_snapshot_first_is_read_from_there(start: Start) -> None:
    _, node, file = with_snapshot(start)
    found = kraftctl("", "log", "state", "--from", f"127.0.0.1:{node.port}", "-o", "json")
    assert found.code == 0, found.err
    assert found.data["snapshot"]["offset"] >= int(file.name[:20])
    read = kraftctl("", "log", "state", node.directory, "--at", found.data["offset"], "-o", "json")
    assert found.data["hash"] == read.data["hash"]
