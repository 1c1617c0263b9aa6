"""One small cluster a story: three controllers and three brokers, of which nothing is broken but what the
story breaks.

The fixtures `story` and `ids` of this folder's tests give one that is at work, and its brokers' ids.
"""

from collections.abc import Callable
from typing import Any

from kraftd.controller.plans import SLICE_RECORDS
from kraftd.protocol import messages as m
from kraftd.runtime.config import QuorumTiming
from kraftd.types import NodeId, Uuid
from tests.sim.broker_process import SimBroker
from tests.sim.fault_base import S
from tests.sim.node import SimNode
from tests.sim.world import Options, World

SHAPE = {
    "voters": 3,
    "observers": 0,
    "first_id": 1,
    "bootstrap": False,
    "clients": 2,
    "stale_readers": 0,
    "is_long": False,
    "latency_us": (100, 300),
    "jitter_us": 50,
    "tail_part": 0.0,
    "cut_part": 0.0,
    "fsync_us": 1_000,
    "apply_us": 0,
    "quiet_every_us": 0,
    "resign_part": 0.0,
    "turn_us": 100,
    "think_us": 2_000_000,
    "fetch_bytes": 8 << 20,
    "accumulator_bytes": 32 << 20,
    "controller_timeout_ms": 2_000,
    "timing": QuorumTiming(500, 1_000, 300, 0, 1_000, 20),
}
BROKERS_SHAPE = {
    "brokers": 3,
    "directories": 2,
    "racks": 0,
    "admins": 0,
    "movers": 0,
    "think_us": 4 * S,
    "authorized": False,
    "token_clients": 0,
    "session_ms": 3_000,
    "heartbeat_ms": 500,
    "old_part": 0.0,
    "unchecked_part": 0.0,
    "slice_records": SLICE_RECORDS,
    "rebalance_s": 0,
    "unclean_ms": 300_000,
}
SESSION_US = 3 * S


class Story:
    """A cluster whose brokers are unfenced."""

    def __init__(self, **broker_shape: object) -> None:
        changes = tuple((BROKERS_SHAPE | broker_shape).items())
        options = Options(
            faults=False, judged=False, brokers=True, changes=tuple(SHAPE.items()), broker_changes=changes
        )
        self.world = world = World(1, options)
        self.cluster = world.brokers
        for node in world.nodes.values():
            world.at(0, node.start)
        self.cluster.start()
        self.until(lambda: len(self.cluster.auditor.brokers) == len(self.brokers) and self.cluster.is_well)

    @property
    def brokers(self) -> list[SimBroker]:
        return list(self.cluster.brokers.values())

    @property
    def leader(self) -> SimNode:
        """The active controller."""
        self.until(lambda: any(node.is_leader for node in self.world.nodes.values()))
        return next(node for node in self.world.nodes.values() if node.is_leader)

    def until(self, condition: Callable[[], bool], limit_us: int = 30 * S) -> None:
        assert self.world.run_until(condition, limit_us)

    def run(self, duration_us: int) -> None:
        self.world.run_for(duration_us)

    def ask(self, request: Any, broker: SimBroker | None = None) -> Any:
        """What the active controller answers to a request of a broker's."""
        heard: list[Any] = []
        asker = broker or self.brokers[0]
        assert asker.forward(request, heard.append, lambda: heard.append(None))
        self.until(lambda: bool(heard), 70 * S)
        return heard[0]

    def create(self, name: str, partitions: int = 1, factor: int = 3, **configs: str) -> int:
        """Create a topic; the error."""
        topic = m.CreateTopicsRequestCreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            configs=tuple(
                m.CreateTopicsRequestCreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ),
        )
        response = self.ask(m.CreateTopicsRequest(topics=(topic,), timeout_ms=30_000))
        return int(response.topics[0].error_code)

    def place(self, name: str, *assignments: tuple[NodeId, ...], **configs: str) -> Uuid:
        """Create a topic with replicas placed by hand; its id."""
        topic = m.CreateTopicsRequestCreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=tuple(
                m.CreateTopicsRequestCreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                for index, replicas in enumerate(assignments)
            ),
            configs=tuple(
                m.CreateTopicsRequestCreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ),
        )
        (made,) = self.ask(m.CreateTopicsRequest(topics=(topic,), timeout_ms=30_000)).topics
        assert made.error_code == 0, made
        self.until(lambda: (made.topic_id, 0) in self.cluster.auditor.partitions)
        return bytes(made.topic_id)

    def partition(self, topic_id: Uuid, number: int = 0) -> Any:
        return self.cluster.auditor.partitions[topic_id, number]

    def alter(
        self,
        broker: SimBroker,
        topic_id: Uuid,
        isr: dict[NodeId, int],
        *,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        broker_epoch: int | None = None,
    ) -> Any:
        """Propose an ISR in the name of a broker."""
        now = self.partition(topic_id)
        proposal = m.AlterPartitionRequestPartitionData(
            partition_index=0,
            leader_epoch=now.leader_epoch if leader_epoch is None else leader_epoch,
            new_isr_with_epochs=tuple(
                m.AlterPartitionRequestBrokerState(broker_id=member, broker_epoch=epoch)
                for member, epoch in isr.items()
            ),
            partition_epoch=now.epoch if partition_epoch is None else partition_epoch,
        )
        request = m.AlterPartitionRequest(
            broker_id=broker.id,
            broker_epoch=broker.epoch if broker_epoch is None else broker_epoch,
            topics=(m.AlterPartitionRequestTopicData(topic_id=topic_id, partitions=(proposal,)),),
        )
        return self.ask(request, broker)


def delete(story: Story, name: str) -> None:
    """Delete a topic."""
    topics = (m.DeleteTopicsRequestDeleteTopicState(name=name),)
    assert story.ask(m.DeleteTopicsRequest(topics=topics, timeout_ms=30_000)).responses[0].error_code == 0


def error_of(response: Any) -> int:
    """The error of the only partition of an AlterPartition response."""
    return int(response.topics[0].partitions[0].error_code)
