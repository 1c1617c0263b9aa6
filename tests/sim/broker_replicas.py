"""What does a broker do with its partitions? It leads some, follows others, and says where replicas are.

`Replicas` is told each image that its broker publishes. For what it leads it notes who fetches, and proposes
an ISR without whoever fell behind and with whoever caught up (AlterPartition); for what it follows it fetches
from the leader as it knows it (what is fetched is in `broker_data`). A fetch counts if both processes run,
their machines hear each other, and leader and leader epoch are the same on both sides, as Kafka's brokers
check. So a leader that was replaced and does not know it goes on and proposes, which the controller must
refuse.

A replica is put in one of the broker's directories that work, and the controller is told if it believes
another (AssignReplicasToDirs).

Differs: a leader checks who may be in an ISR (fenced, shutting down, its broker epoch) only on some seeds;
brokers of before KIP-841 and KIP-903 do not.
Not here: connections and sessions (`broker_process`).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from kraftd.audit.placements import PartitionKey
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol import messages as m
from kraftd.records.messages import PartitionRecord
from kraftd.types import NodeId, Uuid

if TYPE_CHECKING:
    from tests.sim.broker_process import SimBroker

CUT = "a replica was cut"
MIN_ISR = "min.insync.replicas"
BELIEVED_GONE_US = 3_000_000
"""How long a follower may not fetch before it is out of sync (Kafka's `replica.lag.time.max.ms`, shorter)."""
FETCHES_TO_CATCH_UP = 2
"""How many fetches in one leader epoch make a follower one that has caught up."""
ASSIGNMENTS_MAX = 20
"""How many replicas one AssignReplicasToDirs names, at most; Kafka's 2,250 are never met here."""

State: TypeAlias = tuple[NodeId, int, tuple[NodeId, ...], int]
"""Leader, leader epoch, ISR and partition epoch."""


class Follower(msgspec.Struct):
    """Another replica of a partition that is led here."""

    fetched_us: int
    fetches: int
    broker_epoch: int
    end: int = 0
    """How many messages it has, as its fetches say."""


class Led(msgspec.Struct):
    """A partition that is led here, as the leader knows it."""

    leader_epoch: int
    since_us: int
    isr: tuple[NodeId, ...]
    replicas: tuple[NodeId, ...]
    partition_epoch: int
    recovery: int
    followers: dict[NodeId, Follower] = {}
    pending: bool = False
    """Whether it was proposed, or proposals wait for news of the partition."""
    proposed: tuple[NodeId, ...] = ()
    """The ISR that may be by now, while that is pending."""
    min_isr: int = 1
    joins_at: int = 0
    """How many messages a follower must have to be in sync: all of before this leader epoch, and all below
    the high watermark.
    """
    high_watermark: int = 0
    """How many messages are acknowledged."""


class Replicas:
    """The partitions of one process of a broker."""

    def __init__(self, broker: "SimBroker") -> None:
        self._broker = broker
        self._image: MetadataImage | None = None
        self.led: dict[PartitionKey, Led] = {}
        self.followed: dict[PartitionKey, tuple[NodeId, int]] = {}
        """Leader and leader epoch of each partition that is followed here."""
        self._unassigned: dict[PartitionKey, Uuid] = {}
        """Replicas that the controller believes in another directory."""

    # -- what the metadata says

    def publish(self, image: MetadataImage) -> None:
        """Become leader or follower as an image says."""
        before, self._image = self._image, image
        if before is not None and before[TOPICS] is image[TOPICS]:
            return
        mine = sorted(image[TOPICS].partitions_on(self._broker.id))
        gone = (self.led.keys() | self.followed.keys()) - set(mine)
        for key in sorted(gone):
            self.led.pop(key, None)
            self.followed.pop(key, None)
        disk = self._broker.disk
        deleted = disk.replicas.keys() - set(mine)
        disk.data.forget(deleted)
        disk.left |= {key: disk.replicas[key] for key in deleted}
        for key in deleted:
            del disk.replicas[key]
            self._unassigned.pop(key, None)
        # In a directory that failed nothing is removed: a process finds it that is started with it.
        removed = {key for key, where in disk.left.items() if where not in disk.failed}
        for key in removed:
            del disk.left[key]
        if before is None:
            # What a process finds that the metadata does not know it sets aside, and nobody removes that.
            disk.strays.update(dict.fromkeys(removed.difference(mine), disk.log.published_offset))
        for key in mine:
            partition = image[TOPICS].partition(*key)
            assert partition is not None
            self._place(key, partition)
            self._take_role(key, partition)

    def _take_role(self, key: PartitionKey, partition: PartitionRecord) -> None:
        disk = self._broker.disk
        if disk.replicas.get(key) not in disk.working:
            self.led.pop(key, None)
            self.followed.pop(key, None)
        elif partition.leader != self._broker.id:
            self.led.pop(key, None)
            self.followed[key] = partition.leader, partition.leader_epoch
        else:
            self._lead(key, partition)

    def _lead(self, key: PartitionKey, partition: PartitionRecord) -> None:
        self.followed.pop(key, None)
        led = self.led.get(key)
        if led is None or led.leader_epoch != partition.leader_epoch:
            self.led[key] = led = _led(partition, self._broker.world.now_us)
            led.min_isr = self._min_isr(key, partition)
            data = self._broker.disk.data
            led.joins_at = len(data.of(key))
            led.high_watermark = data.high_watermarks.get(key, (0, 0))[0]
            self._broker.world.brokers.acknowledged.led(
                key,
                self._broker.id,
                self._broker.disk.data,
                partition.leader_epoch,
                is_clean=not partition.leader_recovery_state,
            )
        elif led.partition_epoch < partition.partition_epoch:
            self._adopt(led, partition.isr, partition.partition_epoch, partition.leader_recovery_state)
            led.replicas = partition.replicas
            led.min_isr = self._min_isr(key, partition)

    def _min_isr(self, key: PartitionKey, partition: PartitionRecord) -> int:
        """How many of the ISR a producer's message needs."""
        assert self._image is not None
        topic = self._image[TOPICS].get(key[0])
        assert topic is not None
        value = self._image[CONFIGS].get(ResourceType.TOPIC, topic.name, MIN_ISR)
        return min(int(value or 1), len(partition.replicas))

    def _adopt(self, led: Led, isr: tuple[NodeId, ...], epoch: int, recovery: int) -> None:
        led.isr, led.partition_epoch, led.recovery, led.pending = isr, epoch, recovery, False
        led.proposed = ()

    # -- directories

    def _place(self, key: PartitionKey, partition: PartitionRecord) -> None:
        """Put a new replica somewhere; note if the controller believes it elsewhere."""
        disk = self._broker.disk
        believed = partition.directories[partition.replicas.index(self._broker.id)]
        where = disk.replicas.get(key)
        if where is None:
            working = disk.working
            if not working:
                return
            where = believed if believed in working else working[int(self._broker.draw() * len(working))]
            disk.replicas[key] = where
        if where != believed and where in disk.working:
            self._unassigned[key] = where
        else:
            self._unassigned.pop(key, None)

    def lose(self, directory: Uuid) -> None:
        """A directory fails: what is in it is led and followed no more."""
        for key, where in self._broker.disk.replicas.items():
            if where == directory:
                self.led.pop(key, None)
                self.followed.pop(key, None)
                self._unassigned.pop(key, None)

    def assignments(self) -> m.AssignReplicasToDirsRequest | None:
        """What the controllers are to be told of where replicas are; None if they know."""
        chosen = sorted(self._unassigned.items())[:ASSIGNMENTS_MAX]
        self._unassigned = {}  # what is told is told again once an image says something else
        by_directory: dict[Uuid, dict[Uuid, list[int]]] = {}
        for (topic_id, partition), directory in chosen:
            by_directory.setdefault(directory, {}).setdefault(topic_id, []).append(partition)
        if not by_directory:
            return None
        return m.AssignReplicasToDirsRequest(
            broker_id=self._broker.id,
            broker_epoch=self._broker.epoch,
            directories=tuple(
                m.AssignReplicasToDirsRequestDirectoryData(
                    id=directory,
                    topics=tuple(
                        m.AssignReplicasToDirsRequestTopicData(
                            topic_id=topic_id,
                            partitions=tuple(
                                m.AssignReplicasToDirsRequestPartitionData(partition_index=partition)
                                for partition in partitions
                            ),
                        )
                        for topic_id, partitions in topics.items()
                    ),
                )
                for directory, topics in by_directory.items()
            ),
        )

    # -- replication

    def write(self) -> None:
        """A message comes to each partition that is led here, and what is everywhere is acknowledged."""
        broker = self._broker
        for key, led in self.led.items():
            if len(led.isr) >= led.min_isr:
                broker.disk.data.write(key, led.leader_epoch)
            self._acknowledge(key, led)

    def _acknowledge(self, key: PartitionKey, led: Led) -> None:
        """What all have that are, or may be, in the ISR, is acknowledged to producers."""
        if len(led.isr) < led.min_isr:
            return
        broker = self._broker
        end = len(broker.disk.data.of(key))
        for member in {*led.isr, *led.proposed} - {broker.id}:
            known = led.followers.get(member)
            end = min(end, known.end if known is not None else 0)
        if end > led.high_watermark:
            led.high_watermark = end
            broker.disk.data.learn(key, end, led.leader_epoch)
        led.joins_at = max(led.joins_at, end)
        broker.world.brokers.acknowledged.promise(key, broker.disk.data, end, led.leader_epoch)

    def fetch(self) -> None:
        """Fetch what is followed, from whoever leads it, as far as this broker knows."""
        broker = self._broker
        others = broker.world.brokers.brokers
        for key, (leader_id, leader_epoch) in self.followed.items():
            leader = others.get(leader_id)
            if leader is not None and leader.is_reachable_from(broker):
                leader.replicas.fetched(key, leader_epoch, broker)

    def fetched(self, key: PartitionKey, leader_epoch: int, follower: "SimBroker") -> None:
        """A follower fetches from here."""
        led = self.led.get(key)
        if led is None or led.leader_epoch != leader_epoch or follower.id not in led.replicas:
            return
        now_us = self._broker.world.now_us
        known = led.followers.get(follower.id)
        if known is None or known.broker_epoch != follower.epoch:
            led.followers[follower.id] = known = Follower(now_us, 1, follower.epoch)
        else:
            known.fetched_us, known.fetches = now_us, known.fetches + 1
        data = follower.disk.data
        kept = data.copy(key, self._broker.disk.data)
        if kept is not None:
            self._broker.world.brokers.acknowledged.cut(key, follower.id, data, kept)
            self._broker.world.statistics[CUT] += 1
        data.learn(key, led.high_watermark, leader_epoch)
        known.end = len(data.of(key))

    # -- proposals

    def proposals(self, *, checks: bool) -> m.AlterPartitionRequest | None:
        """The changes of ISRs that are wanted now; None if there is none. `checks` says whether this broker
        looks who may be in an ISR.
        """
        topics: dict[Uuid, list[m.AlterPartitionRequestPartitionData]] = {}
        for key, led in sorted(self.led.items()):
            if led.pending:
                continue
            isr = self._wanted_isr(led, checks=checks)
            if isr == led.isr and not led.recovery:
                continue
            led.pending, led.proposed = True, (*led.proposed, *isr)
            topics.setdefault(key[0], []).append(self._proposal(key[1], led, isr))
        if not topics:
            return None
        return m.AlterPartitionRequest(
            broker_id=self._broker.id,
            broker_epoch=self._broker.epoch,
            topics=tuple(
                m.AlterPartitionRequestTopicData(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
        )

    def _wanted_isr(self, led: Led, *, checks: bool) -> tuple[NodeId, ...]:
        now_us = self._broker.world.now_us
        me = self._broker.id
        stays = []
        for member in led.isr:
            known = led.followers.get(member)
            seen_us = known.fetched_us if known is not None else led.since_us
            if member == me or now_us - seen_us <= BELIEVED_GONE_US:
                stays.append(member)
        if len(stays) < len(led.isr):
            return tuple(stays)  # Kafka's leaders shrink or expand, never both at once
        joins = [
            member
            for member, known in sorted(led.followers.items())
            if member not in led.isr
            and known.fetches >= FETCHES_TO_CATCH_UP
            and known.end >= led.joins_at
            and now_us - known.fetched_us <= BELIEVED_GONE_US
            and (not checks or self._is_eligible(member, known))
        ]
        return (*led.isr, *joins[:1])

    def _is_eligible(self, member: NodeId, known: Follower) -> bool:
        assert self._image is not None
        broker = self._image[BROKERS].get(member)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return False
        return broker.broker_epoch == known.broker_epoch

    def _proposal(
        self, partition: int, led: Led, isr: tuple[NodeId, ...]
    ) -> m.AlterPartitionRequestPartitionData:
        """In the form of every version: the codec leaves out what a version does not have."""
        if not self._broker.names_epochs:
            return m.AlterPartitionRequestPartitionData(
                partition_index=partition,
                leader_epoch=led.leader_epoch,
                new_isr=isr,
                leader_recovery_state=0,
                partition_epoch=led.partition_epoch,
            )
        return m.AlterPartitionRequestPartitionData(
            partition_index=partition,
            leader_epoch=led.leader_epoch,
            new_isr_with_epochs=tuple(
                m.AlterPartitionRequestBrokerState(broker_id=member, broker_epoch=self._epoch_of(led, member))
                for member in isr
            ),
            leader_recovery_state=0,
            partition_epoch=led.partition_epoch,
        )

    def _epoch_of(self, led: Led, member: NodeId) -> int:
        if member == self._broker.id:
            return self._broker.epoch
        known = led.followers.get(member)
        return known.broker_epoch if known is not None else -1

    def answered(self, response: m.AlterPartitionResponse) -> Iterator[tuple[PartitionKey, State]]:
        """What became of the proposals; gives each partition's state as it was told."""
        for topic in response.topics:
            for partition in topic.partitions:
                key = topic.topic_id, partition.partition_index
                if partition.error_code == ErrorCode.NONE:
                    state = (
                        partition.leader_id, partition.leader_epoch, partition.isr, partition.partition_epoch,
                    )  # fmt: skip
                    yield key, state
                    led = self.led.get(key)
                    is_news = led is not None and led.partition_epoch < partition.partition_epoch
                    if led is not None and is_news and led.leader_epoch == partition.leader_epoch:
                        recovery = partition.leader_recovery_state
                        self._adopt(led, partition.isr, partition.partition_epoch, recovery)

    def assign_again(self) -> None:
        """Where replicas are was not taken, or nobody knows: look at all of them again."""
        if self._image is not None:
            for key in self._broker.disk.replicas.keys() & (self.led.keys() | self.followed.keys()):
                partition = self._image[TOPICS].partition(*key)
                if partition is not None:
                    self._place(key, partition)

    def release(self) -> None:
        """The proposals were refused, or nobody knows: what is still wanted is proposed again."""
        for led in self.led.values():
            led.pending = False


def _led(partition: PartitionRecord, now_us: int) -> Led:
    return Led(
        partition.leader_epoch,
        now_us,
        partition.isr,
        partition.replicas,
        partition.partition_epoch,
        partition.leader_recovery_state,
        {},
    )
