"""Brokers of a real Kafka on a quorum, kraftd's or Kafka's own.

    with BrokerCluster(kafka, folder, quorum, BROKERS) as cluster:
        cluster.wait_unfenced()
        producer = confluent_kafka.Producer(cluster.client_config)

Each broker has a rack and directories of its own, formatted as `kafka-storage format` does, a port that the
kernel had free, and its whole log (`KafkaProcess.lines`). A broker says "Kafka Server started" once the
active controller has unfenced it.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kraftd.records import meta_properties
from kraftd.records.meta_properties import MetaProperties
from tests.brokers.kafka_process import KafkaProcess
from tests.brokers.quorums import Quorum
from tests.interop.peer import Kafka
from tests.process.cluster import free_ports

STARTED = "Kafka Server started"

_SETTINGS = {
    "process.roles": "broker",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "broker.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": "5000",
    "controller.socket.timeout.ms": "5000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
}
"""Small and quick; what a broker says about its controllers does not depend on these."""


class BrokerSpec(NamedTuple):
    """What one broker is to be."""

    node_id: int
    rack: str
    directories: int = 1


BROKERS = (BrokerSpec(11, "a"), BrokerSpec(12, "b"), BrokerSpec(13, "c", directories=2))


class BrokerCluster:
    """Brokers, started. Ends every broker when it is left; the quorum stays."""

    def __init__(
        self,
        kafka: Kafka,
        folder: Path,
        quorum: Quorum,
        specs: Sequence[BrokerSpec] = BROKERS,
        *,
        settings: Mapping[str, str] | None = None,
        start: bool = True,
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.quorum = quorum
        self._kafka = kafka
        self._settings = dict(settings or {})
        self._size = len(specs)
        self._brokers: dict[int, KafkaProcess] = {}
        for spec, port in zip(specs, free_ports(len(specs)), strict=True):
            self.add(spec, port)
        if start:
            for broker in self:
                broker.start()

    def __enter__(self) -> "BrokerCluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[KafkaProcess]:
        return iter(self._brokers.values())

    def __getitem__(self, node_id: int) -> KafkaProcess:
        return self._brokers[node_id]

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers`."""
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self)

    def directories(self, node_id: int) -> list[Path]:
        """A broker's log.dirs."""
        return [Path(each) for each in self[node_id].properties["log.dirs"].split(",")]

    def add(self, spec: BrokerSpec, port: int, **overrides: str) -> KafkaProcess:
        """Make a broker ready to start; keys of `overrides` have `_` for `.`."""
        directories = [self.folder / f"broker-{spec.node_id}-{n}" for n in range(1, spec.directories + 1)]
        for directory in directories:
            format_for_broker(directory, self.quorum.cluster_id, spec.node_id)
        replicas = str(min(3, self._size))
        properties = {
            "node.id": str(spec.node_id),
            "broker.rack": spec.rack,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": ",".join(map(str, directories)),
            "controller.quorum.voters": self.quorum.voters,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": "1",
            **_SETTINGS,
            **self._settings,
            **{key.replace("_", "."): value for key, value in overrides.items()},
        }
        broker = KafkaProcess(self._kafka, self.folder, spec.node_id, properties)
        self._brokers[spec.node_id] = broker
        return broker

    def wait_unfenced(self) -> None:
        """Wait until every broker has been unfenced since it was last started."""
        for broker in self:
            broker.wait_for(STARTED, since=broker.began)

    def close(self) -> None:
        """Kill whatever still runs."""
        for broker in self:
            if broker.is_running:
                broker.resume()
                broker.kill()


def format_for_broker(directory: Path, cluster_id: str, node_id: int) -> None:
    """Make a directory a broker's; one that is formatted already stays as it is."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "meta.properties"
    if not path.exists():
        path.write_bytes(meta_properties.encode(MetaProperties(cluster_id, node_id, os.urandom(16))))
