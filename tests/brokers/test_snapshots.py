"""A broker that lacks what the log no longer has loads the controllers' snapshot, by FetchSnapshot.

On a controller and a broker of their own: the log is cut while the broker is away.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftd.records import names
from tests.brokers.clients import create_topic, partitions_of, produce, read_all, wait_isr
from tests.brokers.cluster import STARTED, BrokerCluster, BrokerSpec
from tests.brokers.conftest import CONTROLLER_SETTINGS
from tests.brokers.quorums import wait_leader
from tests.interop.peer import Kafka
from tests.interop.test_cut_logs import cut
from tests.process.cluster import Cluster, Node

BROKER = BrokerSpec(11, "a")
OFTEN = {
    "metadata.log.max.record.bytes.between.snapshots": "4000",
    "metadata.log.segment.bytes": "3000",
    "metadata.log.segment.min.bytes": "1000",
}


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Cluster]:
    """One controller, which writes snapshots and begins segments often."""
    with Cluster(tmp_path / "controller", 1, settings=CONTROLLER_SETTINGS | OFTEN) as made:
        wait_leader(made)
        yield made


def snapshots_in(directory: Path) -> set[int]:
    """The offsets at which the snapshots of a directory end."""
    found = (names.parse_snapshot_name(path.name) for path in directory.rglob("*-*.checkpoint"))
    return {one.offset for one in found if one is not None and one.offset > 0}


def first_segment(directory: Path) -> int:
    found = (names.parse_segment_name(path.name) for path in (directory / names.LOG_DIRECTORY).glob("*.log"))
    return min(one.base_offset for one in found if one is not None)


def write(quorum: Cluster, node: Node) -> int:
    """Commit until a snapshot is there that ends past all that was committed before; where it ends.

    The next snapshot to be written may have been decided long ago: it does not have to hold anything new.
    """
    committed = node.describe().high_watermark
    for number in range(100):
        quorum.commit("log.retention.ms", f"{number + 1}")
    return int(node.wait_for("snapshot_written", where=lambda line: line["offset"] > committed)["offset"])


@pytest.mark.covers("SF-01", "FREQ-16", "D-22")
def test_a_new_broker_gets_a_snapshot_first_and_one_that_was_away_while_the_log_was_cut_another(
    kafka: Kafka, quorum: Cluster, tmp_path: Path
) -> None:
    (node,) = quorum
    written = write(quorum, node)
    with BrokerCluster(kafka, tmp_path / "brokers", quorum, [BROKER]) as cluster:
        cluster.wait_unfenced()
        (directory,) = cluster.directories(BROKER.node_id)
        assert max(snapshots_in(directory)) >= written
        assert first_segment(directory) >= written
        create_topic(cluster, "before", replicas=1)
        values = [f"{number}" for number in range(100)]
        produce(cluster, "before", values)
        broker = cluster[BROKER.node_id]
        broker.stop()

        write(quorum, node)
        node.stop()
        start = cut(node.directory, node.node_id)
        assert start > max(snapshots_in(directory))
        node.start()
        wait_leader(quorum)

        broker.start()
        broker.wait_for(STARTED, since=broker.began)
        assert max(snapshots_in(directory)) >= start
        wait_isr(cluster, "before", 1)
        create_topic(cluster, "after", replicas=1)
        assert len(partitions_of(cluster, "after")) == 3
        assert sorted(read_all(cluster, "before")) == sorted(values)
