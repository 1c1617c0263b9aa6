"""Three controllers that brokers can stand on: kraftd's, or Kafka's own to compare with.

`Quorum` is what a test may ask of either. kraftd's is `tests.process.cluster.Cluster` as it is; `KafkaQuorum`
here starts Kafka's controllers, and `Successors` are kraftd's daemons on directories, addresses and
properties files of those. Who leads is asked of both with the same request, DescribeQuorum on Kafka's wire.

Not `tests.interop.controllers`: that one has no brokers that stay up, and asks with Kafka's own commands.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from kraftd.errors import ErrorCode
from kraftd.protocol.messages import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponsePartitionData,
)
from kraftd.types import uuid_text
from tests.brokers.kafka_process import KafkaProcess
from tests.interop.peer import Kafka
from tests.process.cluster import Cluster, KafkaClient, Node, TimeoutWaitingError, free_ports

WAIT_S = 120.0


class Controller(Protocol):
    """One controller's process."""

    node_id: int
    port: int

    @property
    def is_running(self) -> bool: ...
    @property
    def pid(self) -> int: ...
    def start(self) -> object: ...
    def kill(self) -> None: ...
    def stop(self) -> int: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def signal(self, number: int) -> None: ...
    def wait_exit(self) -> int: ...
    def last_lines(self, count: int = 15) -> str: ...


class Quorum(Protocol):
    """Controllers 1..3, started."""

    cluster_id: str

    @property
    def voters(self) -> str: ...
    def __iter__(self) -> Iterator[Controller]: ...
    def close(self) -> None: ...


class KafkaQuorum:
    """Kafka's controllers on directories of their own. Ends every process it started when it is closed."""

    def __init__(self, kafka: Kafka, folder: Path, *, settings: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True)
        self.cluster_id = uuid_text(os.urandom(16))
        self._ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
        self._nodes = {
            node_id: KafkaProcess(kafka, folder, node_id, self._properties(folder, node_id, settings or {}))
            for node_id in self._ports
        }
        for node in self:
            kafka.run("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", node.config_path)
            node.start()

    def __iter__(self) -> Iterator[KafkaProcess]:
        return iter(self._nodes.values())

    @property
    def directories(self) -> dict[int, Path]:
        """Each node's log.dirs."""
        return {node.node_id: Path(node.properties["log.dirs"]) for node in self}

    @property
    def voters(self) -> str:
        """`controller.quorum.voters`."""
        return ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in self._ports.items())

    def close(self) -> None:
        """Kill whatever still runs."""
        for node in self:
            if node.is_running:
                node.resume()
                node.kill()

    def _properties(self, folder: Path, node_id: int, settings: Mapping[str, str]) -> dict[str, str]:
        return {
            "process.roles": "controller",
            "node.id": str(node_id),
            "controller.quorum.voters": self.voters,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "listeners": f"CONTROLLER://127.0.0.1:{self._ports[node_id]}",
            "log.dirs": str(folder / f"controller-{node_id}"),
            **settings,
        }


class Successors(Cluster):
    """kraftd's daemons in the place of Kafka's controllers, which are stopped: nothing is written anew, not
    even the properties files.
    """

    def __init__(self, before: KafkaQuorum) -> None:
        self._before = {node.node_id: node for node in before}
        folder = before.directories[1].parent
        super().__init__(folder, cluster_id=before.cluster_id, directories=before.directories)

    def configure(self, node: Node, **overrides: str) -> Path:
        """Take the file that Kafka was started with."""
        assert not overrides
        before = self._before[node.node_id]
        node.port, node.config_path = before.port, before.config_path
        return node.config_path

    def format(self, node: Node, *, cluster_id: str | None = None) -> None:
        """Leave the directory as Kafka left it."""


def wait_leader(quorum: Quorum, *, but: Controller | None = None, timeout_s: float = WAIT_S) -> Controller:
    """Wait until a controller says that it leads, other than `but`."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for node in quorum:
            if node is not but and node.is_running and _leads(node):
                return node
        time.sleep(0.02)
    said = "\n".join(f"--- controller {node.node_id}\n{node.last_lines(8)}" for node in quorum)
    raise TimeoutWaitingError(f"no leader within {timeout_s} s\n{said}")


def high_watermark(quorum: Quorum) -> int:
    """Up to where the leader has committed."""
    partition = _described(wait_leader(quorum))
    assert partition is not None
    return partition.high_watermark


def _leads(node: Controller) -> bool:
    partition = _described(node)
    return partition is not None and partition.leader_id == node.node_id


def _described(node: Controller) -> DescribeQuorumResponsePartitionData | None:
    """The quorum as its leader tells it; None from anybody else."""
    request = DescribeQuorumRequest(
        topics=(
            DescribeQuorumRequestTopicData(
                topic_name="__cluster_metadata",
                partitions=(DescribeQuorumRequestPartitionData(partition_index=0),),
            ),
        )
    )
    with contextlib.suppress(OSError, IndexError), KafkaClient(node.port, timeout_s=2.0) as client:
        response = client.ask(request, 0)
        partition: DescribeQuorumResponsePartitionData = response.topics[0].partitions[0]
        if response.error_code == partition.error_code == ErrorCode.NONE:
            return partition
    return None
