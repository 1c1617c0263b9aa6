"""What holds of partitions while a cluster runs: in sync is who has everything, nobody waits, gone is gone.

A `PartitionJudge` is told of each partition that a committed record changed (`changed`), of each batch that
removed topics (`removed`), of machines that lost what was not flushed (`lost_tail`), and looks once a second
(`look`) for partitions that nobody leads though somebody could.

Such a partition may wait while nobody commits anything, while leaders of the quorum change, and while the
active controller works off a plan, which may be the one that is about it. The time that is left is that of a
controller that has forgotten it.

Not here: the rules for the records themselves (`kraftd.audit.placements`), and who leads with what
(`broker_data`).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kraftd.audit.invariant import Violation
from kraftd.audit.placements import Partition, PartitionKey, PlacementAuditor
from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.types import NodeId, Offset, Uuid
from tests.sim.broker_data import Acknowledged

if TYPE_CHECKING:
    from tests.sim.broker_process import SimBroker
    from tests.sim.world import World

LOOK_US = 1_000_000
LOOKS_MAX = 5
"""How many looks may find a partition without a leader, each after something was committed by one and the
same active controller that has no plan.
"""
LOOKS_IN_A_PLAN_MAX = 40
"""The same, whether it has a plan or not."""


class PartitionJudge:
    """The judge of one world."""

    def __init__(self, world: "World", auditor: PlacementAuditor, acknowledged: Acknowledged) -> None:
        self._world = world
        self._auditor = auditor
        self._acknowledged = acknowledged
        self._lost_in: dict[NodeId, int] = {}
        """The newest epoch of each broker's in which its disk lost something."""
        self.names: dict[Uuid, str] = {}
        """Of all topics that ever were."""
        self._gone: set[Uuid] = set()
        self._waiting: dict[PartitionKey, tuple[int, int]] = {}
        """In how many looks each partition had no leader: without a plan under way, and in all."""
        self._seen: tuple[int, Offset] = (-1, 0)
        """The newest epoch of the quorum at the last look, and what was committed."""
        self.longest = (0, 0)

    # -- who is in sync

    def lost_tail(self, broker_id: NodeId, epoch: int) -> None:
        """A disk lost what was not flushed, or all, while a broker's process of this epoch was its newest."""
        self._lost_in[broker_id] = max(epoch, self._lost_in.get(broker_id, -1))

    def changed(
        self, key: PartitionKey, before: Partition, after: Partition, brokers: "Mapping[NodeId, SimBroker]"
    ) -> None:
        """A record changed a partition.

        Raises:
            Violation: Somebody entered the ISR who lacks what was acknowledged, and no disk has lost it since
                it was registered.
        """
        leader = brokers.get(after.leader)
        if after.leader != before.leader or leader is None or not leader.names_epochs:
            return  # who proposes without broker epochs may name a start that is over (KIP-903)
        for member in after.isr:
            if member in before.isr or member == after.leader:
                continue
            registered = self._auditor.brokers[member]
            if self._lost_in.get(member, -1) >= registered.epoch:
                continue  # it will be told
            lacking = self._acknowledged.lacks(key, brokers[member].disk.data, after.leader_epoch)
            if lacking:
                text = f"broker {member} enters that of {key[0].hex()[-8:]}-{key[1]}, which becomes {after}"
                raise Violation(f"WhoIsInAnIsrHasEverything: {text}: {lacking} acknowledged are missing")

    # -- who has no leader

    def look(self) -> None:
        """Look for partitions without a leader.

        Raises:
            Violation: One has waited for longer than the rules explain.
        """
        world = self._world
        epoch, offset = max((epoch for epoch, _ in world.leaders), default=-1), world.auditor.committed[0]
        seen, self._seen = self._seen, (epoch, offset)
        if seen[0] != epoch:
            self._waiting.clear()
        if offset == seen[1]:
            return
        has_plan = any(node.is_leader and node.works_off() for node in world.nodes.values())
        waiting: dict[PartitionKey, tuple[int, int]] = {}
        for key in self._auditor.leaderless():
            idle, looks = self._waiting.get(key, (0, 0))
            idle, looks = idle + (not has_plan), looks + 1
            self.longest = max(self.longest[0], idle), max(self.longest[1], looks)
            if idle > LOOKS_MAX or looks > LOOKS_IN_A_PLAN_MAX:
                text = f"{key[0].hex()[-8:]}-{key[1]} has had no leader in {looks} looks"
                raise Violation(f"NobodyWaitsForALeader: {text}, and is {self._auditor.partitions[key]}")
            waiting[key] = idle, looks
        self._waiting = waiting

    # -- what is gone

    def removed(self, topic_ids: Iterable[Uuid], image: MetadataImage) -> None:
        """A batch has removed topics; the image is that after it.

        Raises:
            Violation: Something of them is still there.
        """
        for topic_id in topic_ids:
            self._gone.add(topic_id)
            self._expect_gone(topic_id, image, "the controllers")

    def expect_gone(self, brokers: "Iterable[SimBroker]") -> None:
        """At the end: nobody holds anything of what was removed.

        Raises:
            Violation: Somebody does.
        """
        for broker in brokers:
            for topic_id in sorted(self._gone):
                self._expect_gone(topic_id, broker.disk.log.image, f"broker {broker.id}")
            strays = self._gone.intersection(topic_id for topic_id, _ in broker.disk.replicas)
            if strays and broker.is_unfenced:
                raise _still_there(self.names[min(strays)], f"broker {broker.id} keeps replicas of it")

    def _expect_gone(self, topic_id: Uuid, image: MetadataImage, who: str) -> None:
        name, topics = self.names[topic_id], image[TOPICS]
        if topics.get(topic_id) is not None or topics.id_of(name) == topic_id:
            raise _still_there(name, f"{who} know its id")
        if topics.id_of(name) is None and any(image[CONFIGS].of(ResourceType.TOPIC, name)):
            raise _still_there(name, f"{who} know configs of it")


def _still_there(name: str, what: str) -> Violation:
    return Violation(f"WhatIsDeletedStaysDeleted: topic {name} was removed, and {what}")
