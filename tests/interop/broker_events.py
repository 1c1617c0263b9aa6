"""Random lives of clusters: brokers come, go, stop and lose directories, leaders propose ISRs or are elected.

A `Life` decides each event with our own code, applies what comes out, and notes it beside the command for
`BrokerEvents.java`, which has the same life with Kafka's own classes.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec

from kraftd.controller.context import Context
from kraftd.controller.partitions import broker_changes
from kraftd.controller.partitions.broker_changes import PartitionChanges
from kraftd.controller.partitions.directory_assignment import assign_replicas_to_dirs
from kraftd.controller.partitions.electing import elect_leaders
from kraftd.controller.partitions.in_sync import alter_partition
from kraftd.metadata.config_schema import (
    CLUSTER_DEFAULT,
    MIN_IN_SYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION,
    ResourceType,
)
from kraftd.metadata.feature_levels import (
    DIRECTORIES_SINCE,
    ELIGIBLE_LEADER_REPLICAS,
    ELIGIBLE_LEADER_REPLICAS_SINCE,
    METADATA_VERSION,
    SUPPORTED,
)
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.partitions import LOST, UNASSIGNED
from kraftd.metadata.record_versions import encode_allowed
from kraftd.protocol import messages as m
from kraftd.protocol.kafka import alter_partition as alter_partition_codec
from kraftd.protocol.kafka import assign_replicas_to_dirs as assign_codec
from kraftd.protocol.kafka import elect_leaders as elect_leaders_codec
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterBrokerRecordBrokerFeature,
    TopicRecord,
    UnregisterBrokerRecord,
)
from kraftd.serde.binary import Chunks
from kraftd.types import NodeId, Uuid
from tests.unit.controller.cluster import FENCE, STOP, UNFENCE, Cluster, decided

BROKERS_OF_ALL = range(1, 6)
LEVELS = (7, 11, 12, 16, 17, 22, 23, 30, 30, 30)
NEW_CLUSTER = "cluster"
"""Begins a life."""
ANY = range(3)


class Told(NamedTuple):
    """What an event leads to: its changes of partitions, and its response in bytes, empty if it has none."""

    changes: Sequence[PartitionChangeRecord] = ()
    response: bytes = b""


class Life:
    """A cluster, and what has happened to it.

    Where Kafka keeps brokers eligible that are not registered or hold no replica any more, or elects one that
    is shutting down, and we do not, a life that Kafka shall have too leaves that out.
    """

    def __init__(self, rng: Random, *, is_kafkas_too: bool = True) -> None:
        self.rng = rng
        self.is_kafkas_too = is_kafkas_too
        self.level = rng.choice(LEVELS)
        self.has_elr = self.level >= ELIGIBLE_LEADER_REPLICAS_SINCE and rng.random() < 0.7
        self.cluster = Cluster(brokers=(), level=self.level, elr=self.has_elr)
        self.commands = [NEW_CLUSTER]
        self.told = [Told()]
        self._next = 0
        self.command(f"replay {self.hex(FeatureLevelRecord(METADATA_VERSION, self.level))}")
        if self.has_elr:
            self.command(f"replay {self.hex(FeatureLevelRecord(ELIGIBLE_LEADER_REPLICAS, 1))}")
        for broker in BROKERS_OF_ALL:
            self.register(broker, fenced=rng.random() < 0.3)
        for _ in range(3):
            self.create_topic()

    # -- what happens

    def go_on(self) -> None:
        """One more event."""
        broker = self.rng.choice(BROKERS_OF_ALL)
        self.rng.choice(EVENTS)(self, broker)

    def fence(self, broker: NodeId) -> None:
        if not self.broker(broker).fenced:
            changes = self.work_off(broker_changes.fenced(broker))
            self.own_record(broker, fenced=FENCE)
            self.command(f"fence {broker}", changes)

    def unfence(self, broker: NodeId) -> None:
        is_stopping = self.broker(broker).in_controlled_shutdown
        if self.broker(broker).fenced and not (is_stopping and self.is_kafkas_too):
            self.own_record(broker, fenced=UNFENCE)
            changes = self.work_off(broker_changes.unfenced(broker))
            self.command(f"unfence {broker} {self.broker(broker).broker_epoch}", changes)

    def stop(self, broker: NodeId) -> None:
        if not self.broker(broker).fenced:
            self.own_record(broker, in_controlled_shutdown=STOP)
            changes = self.work_off(broker_changes.shutting_down(broker))
            self.command(f"stop {broker} {self.broker(broker).broker_epoch}", changes)

    def restart(self, broker: NodeId) -> None:
        is_clean = self.rng.random() < 0.5
        changes = self.work_off(broker_changes.restarted(broker, clean=is_clean))
        self.command(f"restart {broker} {int(is_clean)}", changes)
        self.register(broker, fenced=True)

    def unregister(self, broker: NodeId) -> None:
        if self.has_elr and self.is_kafkas_too:
            return
        epoch = self.broker(broker).broker_epoch
        changes = self.work_off(broker_changes.unregistered(broker))
        self.cluster.apply(UnregisterBrokerRecord(broker, epoch))
        self.command(f"unregister {broker} {epoch}", changes)
        self.register(broker, fenced=True)

    def lose_directories(self, broker: NodeId) -> None:
        known = self.broker(broker).log_dirs
        if len(known) > 1:
            lost = self.rng.sample(known, self.rng.randint(1, len(known) - 1))
            changes = self.work_off(broker_changes.directories_lost(broker, lost))
            self.own_record(broker, log_dirs=tuple(one for one in known if one not in lost))
            ids = ",".join(one.hex() for one in lost)
            self.command(f"offline {broker} {self.broker(broker).broker_epoch} {ids}", changes)

    def configure(self, _broker: NodeId) -> None:
        name, value = self.rng.choice(
            ((MIN_IN_SYNC_REPLICAS, str(self.rng.randint(1, 3))), (UNCLEAN_LEADER_ELECTION, "true"))
        )
        if name == UNCLEAN_LEADER_ELECTION and self.rng.random() < 0.7:
            value = "false"
        topic = self.rng.choice([*self.cluster.image[TOPICS].topics()]).name
        where = self.rng.choice(
            ((int(ResourceType.TOPIC), topic), (int(ResourceType.BROKER), CLUSTER_DEFAULT))
        )
        self.replay(ConfigRecord(*where, name, value))

    def create_topic(self, _broker: NodeId = 0) -> None:
        self._next += 1
        name = f"topic-{self._next}"
        topic_id = bytes((self._next,)) * 16
        self.replay(TopicRecord(name, topic_id))
        for number in range(self.rng.randint(1, 5)):
            self.replay(self.new_partition(topic_id, number))

    def alter(self, broker: NodeId) -> None:
        """The leader of most partitions proposes ISRs, of some of them wrong ones."""
        version = self.rng.choice((2, 3))
        partitions = self.some_partitions(lambda one: one.leader == broker)
        request = m.AlterPartitionRequest(
            broker,
            self.broker(broker).broker_epoch,
            tuple(
                m.AlterPartitionRequestTopicData(topic_id, tuple(self.proposal(one, version) for one in some))
                for topic_id, some in partitions
            ),
        )
        told = self.decided(alter_partition, self.cluster.context(version), request)
        asked = written(alter_partition_codec.REQUEST_WRITERS[version], request)
        answer = written(alter_partition_codec.RESPONSE_WRITERS[version], told[1])
        self.command(f"alter {version} {asked.hex()}", told[0], answer)

    def assign(self, broker: NodeId) -> None:
        if self.level < DIRECTORIES_SINCE:
            return
        partitions = self.some_partitions(lambda one: broker in one.replicas)
        known = (*self.broker(broker).log_dirs, LOST, UNASSIGNED)
        request = m.AssignReplicasToDirsRequest(
            broker,
            self.broker(broker).broker_epoch,
            tuple(
                m.AssignReplicasToDirsRequestDirectoryData(
                    self.rng.choice(known),
                    (
                        m.AssignReplicasToDirsRequestTopicData(
                            topic_id,
                            tuple(
                                m.AssignReplicasToDirsRequestPartitionData(one.partition_id) for one in some
                            ),
                        ),
                    ),
                )
                for topic_id, some in partitions
            ),
        )
        told = self.decided(assign_replicas_to_dirs, self.cluster.context(0), request)
        asked = written(assign_codec.REQUEST_WRITERS[0], request)
        self.command(f"assign {asked.hex()}", told[0], written(assign_codec.RESPONSE_WRITERS[0], told[1]))

    def elect(self, _broker: NodeId) -> None:
        """Somebody asks for elections: of all partitions, or of some, now and then of some twice."""
        version = self.rng.choice((0, 1, 2))
        names = {topic.topic_id: topic.name for topic in self.cluster.image[TOPICS].topics()}
        topics = [
            m.ElectLeadersRequestTopicPartitions(
                names.get(topic_id, "nothing"), tuple(one.partition_id for one in some)
            )
            for topic_id, some in self.some_partitions(lambda _: True)
        ]
        if topics and self.rng.random() < 0.1:
            topics.append(topics[0])
        request = m.ElectLeadersRequest(
            self.rng.choice((0, 1)) if version else 0,
            tuple(topics) if topics and self.rng.random() < 0.7 else None,
        )
        told = self.decided(elect_leaders, self.cluster.context(version), request)
        asked = written(elect_leaders_codec.REQUEST_WRITERS[version], request)
        answer = written(elect_leaders_codec.RESPONSE_WRITERS[version], told[1])
        self.command(f"by-hand {version} {asked.hex()}", told[0], answer)

    # -- of what it is made

    def register(self, broker: NodeId, *, fenced: bool) -> None:
        """A new incarnation; with directories, most of them those of the one before."""
        self._next += 1
        known = self.cluster.image[BROKERS].get(broker)
        log_dirs: tuple[Uuid, ...] = ()
        if self.level >= DIRECTORIES_SINCE:
            log_dirs = known.log_dirs if known and self.rng.random() < 0.7 else ()
            log_dirs = log_dirs or tuple(new_uuid(self.rng) for _ in range(self.rng.randint(1, 3)))
        self.replay(
            RegisterBrokerRecord(
                broker_id=broker,
                incarnation_id=new_uuid(self.rng),
                broker_epoch=1_000 * broker + self._next,
                fenced=fenced,
                log_dirs=tuple(sorted(log_dirs)),
                features=tuple(
                    RegisterBrokerRecordBrokerFeature(one.name, one.min_level, one.max_level)
                    for one in SUPPORTED
                ),
            )
        )

    def new_partition(self, topic_id: Uuid, number: int) -> PartitionRecord:
        """As a controller makes it, or as a reassignment left it."""
        rng = self.rng
        replicas = tuple(rng.sample(BROKERS_OF_ALL, rng.randint(1, 4)))
        isr = tuple(one for one in replicas if self.is_active(one)) or replicas[:1]
        moving = rng.choices(("no", "adding", "removing", "both"), (8, 1, 1, 1))[0]
        if self.has_elr and self.is_kafkas_too and moving != "no":
            moving = "adding"
        return PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=replicas,
            isr=isr,
            leader=isr[0] if self.is_active(isr[0]) else -1,
            adding_replicas=replicas[-1:] if moving in ("adding", "both") else (),
            removing_replicas=replicas[:1] if moving in ("removing", "both") and len(replicas) > 1 else (),
            directories=tuple(self.rng.choice(self.directories(one)) for one in replicas)
            if self.level >= DIRECTORIES_SINCE
            else (),
        )

    def directories(self, broker: NodeId) -> tuple[Uuid, ...]:
        return (*self.broker(broker).log_dirs, UNASSIGNED)

    def some_partitions(self, usual: Any) -> list[tuple[Uuid, list[PartitionRecord]]]:
        """Some of each topic, most of the usual kind, and now and then one that is not there."""
        chosen: list[tuple[Uuid, list[PartitionRecord]]] = []
        for topic in self.cluster.image[TOPICS].topics():
            partitions = list(self.cluster.image[TOPICS].partitions(topic.topic_id))
            some = [one for one in partitions if self.rng.random() < (0.6 if usual(one) else 0.02)]
            if self.rng.random() < 0.03:
                some.append(PartitionRecord(partition_id=77, topic_id=topic.topic_id))
            if some:
                chosen.append((topic.topic_id, some))
        if self.rng.random() < 0.05:
            chosen.append((bytes(16), [PartitionRecord()]))
        return chosen

    def proposal(self, partition: PartitionRecord, version: int) -> m.AlterPartitionRequestPartitionData:
        """What its leader may propose; now and then what it may not."""
        rng = self.rng
        others = [one for one in partition.replicas if one != partition.leader]
        isr = [partition.leader, *rng.sample(others, rng.randint(0, len(others)))]
        if rng.random() < 0.7:
            isr = [one for one in isr if one == partition.leader or self.is_active(one)]
        if rng.random() < 0.04:
            isr = rng.choice(([], [*isr, 9], [*isr, isr[0]], isr[1:]))
        members = tuple(
            m.AlterPartitionRequestBrokerState(one, rng.choices((self.epoch(one), -1, 5), (20, 2, 1))[0])
            for one in isr
        )
        return m.AlterPartitionRequestPartitionData(
            partition_index=partition.partition_id,
            leader_epoch=partition.leader_epoch + rng.choices((0, 1, -1), (30, 1, 1))[0],
            new_isr=tuple(isr) if version < 3 else (),
            new_isr_with_epochs=members if version >= 3 else (),
            leader_recovery_state=rng.choices((0, 1), (9, 1))[0],
            partition_epoch=partition.partition_epoch + rng.choices((0, 1, -1), (30, 1, 1))[0],
        )

    # -- how it is noted

    def work_off(self, changes: PartitionChanges) -> list[PartitionChangeRecord]:
        """All changes of an event, in slices of random lengths; none may come twice."""
        found = [one for some in self.cluster.work_off(changes, self.rng.choice((1, 3, 512))) for one in some]
        assert len({(one.topic_id, one.partition_id) for one in found}) == len(found)
        assert changes.failures == []
        return found

    def decided(self, decide: Any, context: Context, request: Any) -> tuple[list[PartitionChangeRecord], Any]:
        records, response = decided(decide(context, request), context)
        self.cluster.apply(*records)
        return records, response

    def replay(self, record: AnyRecord) -> None:
        self.cluster.apply(record)
        self.command(f"replay {self.hex(record)}")

    def own_record(self, broker: NodeId, **what: Any) -> None:
        epoch = self.broker(broker).broker_epoch
        self.cluster.apply(BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=epoch, **what))

    def command(
        self, line: str, changes: Iterable[PartitionChangeRecord] = (), response: bytes = b""
    ) -> None:
        self.commands.append(line)
        self.told.append(Told(tuple(changes), response))

    def hex(self, record: AnyRecord) -> str:
        return encode_allowed(record, self.level).hex()

    def broker(self, broker: NodeId) -> RegisterBrokerRecord:
        registered = self.cluster.image[BROKERS].get(broker)
        assert registered is not None
        return registered

    def is_active(self, broker: NodeId) -> bool:
        registered = self.broker(broker)
        return not (registered.fenced or registered.in_controlled_shutdown)

    def epoch(self, broker: NodeId) -> int:
        registered = self.cluster.image[BROKERS].get(broker)
        return 0 if registered is None else registered.broker_epoch


EVENTS = (
    *(Life.alter,) * 8,
    *(Life.fence,) * 4,
    *(Life.unfence,) * 6,
    *(Life.assign,) * 2,
    Life.stop,
    Life.restart,
    Life.unregister,
    Life.lose_directories,
    Life.configure,
    Life.create_topic,
    *(Life.elect,) * 3,
)


def written(write: Any, message: Any) -> bytes:
    out: Chunks = []
    write(out, message)
    return b"".join(out)


def new_uuid(rng: Random) -> Uuid:
    return b"\x01" + rng.randbytes(15)


def comparable(changes: Iterable[PartitionChangeRecord]) -> list[PartitionChangeRecord]:
    """Changes without the order that Kafka's have from hash maps: among partitions, and within an ELR."""
    return sorted(
        (
            msgspec.structs.replace(
                one,
                eligible_leader_replicas=None
                if one.eligible_leader_replicas is None
                else tuple(sorted(one.eligible_leader_replicas)),
            )
            for one in changes
        ),
        key=lambda one: (one.topic_id, one.partition_id, one.directories is None),
    )


def outcomes(response: bytes, version: int) -> list[tuple[str, list[tuple[int, int]]]]:
    """What a response of ElectLeaders tells, without its words and the order of topics, and without topics of
    which it tells nothing.
    """
    told, at = elect_leaders_codec.RESPONSE_READERS[version](response, 0)
    assert at == len(response)
    assert told.error_code == 0
    return sorted(
        (topic.topic, sorted((one.partition_id, one.error_code) for one in topic.partition_result))
        for topic in told.replica_election_results
        if topic.partition_result
    )
