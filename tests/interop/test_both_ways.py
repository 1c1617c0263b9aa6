"""A cluster moves from Kafka to kraftd and back, on the same three directories, and loses nothing.

Real controllers of Kafka and real daemons take turns; after each turn every record that was committed before
is in all three logs, at its offset, with its bytes. Each sees the configs that the other set, and writes on.
"""

import contextlib
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest
from fixtures import klog

from kraftd.records import meta_properties
from tests.interop.controllers import BROKER, WAIT_S, Controllers
from tests.interop.ledger import Ledger
from tests.interop.peer import Kafka
from tests.process.cluster import Client, Cluster, Node

T = TypeVar("T")

OFTEN = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "internal.metadata.log.segment.bytes": "4000",
    "internal.metadata.log.segment.min.bytes": "100",
    "metadata.max.retention.bytes": "-1",
}
"""Settings with which Kafka snapshots and rolls within seconds, and keeps everything."""


class Nodes(Cluster):
    """Three daemons on directories that are there already, started like the controllers before them.

    With properties files of their own, or with those of Kafka.
    """

    def __init__(
        self,
        folder: Path,
        directories: Mapping[int, Path],
        *,
        like: Controllers | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._like = like
        super().__init__(folder, len(directories), directories=directories, settings=settings)

    def configure(self, node: Node, **overrides: str) -> Path:
        """Leave Kafka's file as it is."""
        if self._like is None:
            return super().configure(node, **overrides)
        node.port, node.config_path = self._like.ports[node.node_id], self._like.config(node.node_id)
        return node.config_path

    def format(self, node: Node, *, cluster_id: str | None = None) -> None:
        """Leave it as whoever wrote it left it."""

    def turn(self, settings: Mapping[str, str], *, kill: bool = False) -> tuple[dict[str, str], int]:
        """Elect, look at the configs, set some more under two leaders, stop or be killed.

        Returns:
            The configs that were there, and the high watermark that all three have applied.
        """
        found = self.ask_leader(lambda client: client.get_configs())
        for name, value in settings.items():
            self.commit(name, value, timeout_s=WAIT_S)
        epoch = self.ask_leader(lambda client: client.describe().epoch)
        self.ask_leader(lambda client: client.resign(timeout_ms=20_000))
        while self.ask_leader(lambda client: client.describe().epoch) == epoch:
            pass
        assert self.ask_leader(lambda client: client.get_configs()) == {**found, **settings}
        end_offset = self.ask_leader(lambda client: client.describe().high_watermark)
        self.wait_caught_up(timeout_s=WAIT_S)
        for node in self:
            assert node.describe().whole
        for node in self:
            node.signal(signal.SIGKILL if kill else signal.SIGTERM)
        for node in self:
            node.wait_exit(WAIT_S)
        return found, end_offset

    def ask_leader(self, question: Callable[[Client], T]) -> T:
        """Ask whoever leads, again if it does not lead any more."""
        while True:
            leader = self.wait_leader(timeout_s=WAIT_S)
            with contextlib.suppress(OSError), leader.client() as client:
                return question(client)


def has_rolled(directory: Path) -> bool:
    """Whether there are several segments and a snapshot beside them."""
    return len(list(directory.rglob("*.log"))) > 1 and any(directory.rglob("*-*.checkpoint"))


def cluster_id_of(directory: Path) -> str:
    found = meta_properties.decode((directory / "meta.properties").read_bytes()).cluster_id
    assert found
    return found


def copied(cluster: Path, folder: Path) -> dict[int, Path]:
    """Copies of a cluster's directories that may be written to."""
    found = {}
    for node in (1, 2, 3):
        found[node] = folder / f"data-{node}"
        shutil.copytree(cluster / f"node-{node}", found[node], copy_function=shutil.copyfile)
        for path in found[node].rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        found[node].chmod(0o755)
    return found


@pytest.mark.process
@pytest.mark.timeout(1200)
@pytest.mark.covers("D-05", "QS-17")
def test_a_cluster_of_kafka_3_5_moves_to_kraftd_and_back_and_on_to_kafka_4_3(
    kafka: Kafka, kafka_3_5: Kafka, tmp_path: Path
) -> None:
    """Nodes that end one by one may leave an epoch half elected, and Kafka may elect in that very epoch."""
    directories = copied(klog("kafka-3.5-three-nodes-59-leaders"), tmp_path)
    ledger = Ledger(directories)
    ledger.compare(30_637)  # what node 1 has beyond is its own: the majority never saw it

    with Nodes(tmp_path / "kraftd-1", directories) as nodes:
        found, end_offset = nodes.turn({"log.flush.interval.ms": "5000"})
    ledger.compare(end_offset)

    broker = tmp_path / "data-broker"
    old = Controllers(kafka_3_5, tmp_path / "kafka-3.5", directories, broker=broker)
    old.format(cluster_id_of(directories[1]), [BROKER])
    with old:
        old.wait_leader()
        assert old.configs() == found | {"log.flush.interval.ms": "5000"}
        old.set_configs({"log.retention.ms": "3600000"})
        old.create_topic("made-by-kafka")
        _, end_offset = old.wait_leader()
    ledger.compare(end_offset)

    with Nodes(tmp_path / "kraftd-2", directories) as nodes:
        seen, end_offset = nodes.turn({"log.flush.interval.ms": "6000"})
    assert seen == found | {"log.flush.interval.ms": "5000", "log.retention.ms": "3600000"}
    ledger.compare(end_offset)

    with Controllers(kafka, tmp_path / "kafka-4.3", directories, broker=broker) as new:
        new.wait_leader()
        assert new.configs() == seen | {"log.flush.interval.ms": "6000"}
        new.set_configs({"log.retention.ms": "7200000"})
        _, end_offset = new.wait_leader()
    ledger.compare(end_offset)

    with Nodes(tmp_path / "kraftd-3", directories) as nodes:
        seen, end_offset = nodes.turn({"message.max.bytes": "1000000"})
    assert seen == found | {"log.flush.interval.ms": "6000", "log.retention.ms": "7200000"}
    ledger.compare(end_offset)


@pytest.mark.process
@pytest.mark.timeout(1200)
@pytest.mark.covers("D-05")
def test_a_cluster_of_kafka_4_3_moves_to_kraftd_and_back(kafka: Kafka, tmp_path: Path) -> None:
    """With snapshots and several segments beside each other, as Kafka leaves them. Each is killed once."""
    directories = {node: tmp_path / f"data-{node}" for node in (1, 2, 3)}
    ledger = Ledger(directories)
    first = Controllers(
        kafka, tmp_path / "kafka-1", directories, broker=tmp_path / "data-broker", settings=OFTEN
    )
    first.format("4L6g3nShT-eMCtK--X86sw", [1, 2, 3, BROKER])
    with first:
        first.wait_leader()
        first.set_configs({"log.retention.ms": "3600000"})
        topics = 0
        while not all(map(has_rolled, directories.values())):
            topics += 1
            first.create_topic(f"made-by-kafka-{topics}")
        _, end_offset = first.wait_leader()
    ledger.compare(end_offset)

    with Nodes(tmp_path / "kraftd-1", directories, like=first) as nodes:
        found, end_offset = nodes.turn({"log.flush.interval.ms": "5000"}, kill=True)
    assert found["log.retention.ms"] == "3600000"
    ledger.compare(end_offset)

    with Controllers(kafka, tmp_path / "kafka-2", directories) as second:
        second.wait_leader()
        assert second.configs() == found | {"log.flush.interval.ms": "5000"}
        second.set_configs({"log.retention.ms": "7200000"})
        _, end_offset = second.wait_leader()
        second.stop(kill=True)
    ledger.compare(end_offset)

    with Nodes(tmp_path / "kraftd-2", directories) as nodes:
        seen, end_offset = nodes.turn({"message.max.bytes": "1000000"})
    assert seen == found | {"log.flush.interval.ms": "5000", "log.retention.ms": "7200000"}
    ledger.compare(end_offset)
