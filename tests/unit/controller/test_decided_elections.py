"""Why leaders changed: as the active controller counts it, and as its log tells. Both must say the same."""

from collections import Counter

import pytest
from msgspec.structs import replace

from kraftd.controller.brokers import staged_plan
from kraftd.controller.decided_elections import DecidedElection, elections_in
from kraftd.errors import ErrorCode
from kraftd.metadata.broker_moments import BrokerMoments, MomentsReader, Place
from kraftd.metadata.election_log import ElectionLog
from kraftd.metadata.election_reasons import Reason, Rule, leadership_of
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol import messages as q
from kraftd.records.frame import decode_record
from kraftd.records.messages import ConfigRecord, PartitionChangeRecord
from tests.unit.controller.broker_world import BrokerWorld, directory

CHECK_MS = 300_000
TOPIC = 2


class Logged(BrokerWorld):
    """A world that remembers in which batch each record was, and in which epoch."""

    def _apply(self, values, epoch):
        base = self.controller.applied_offset
        logged = self.__dict__.setdefault("logged", [])
        logged += [(Place(base + at, base, epoch), decode_record(value)) for at, value in enumerate(values)]
        super()._apply(values, epoch)

    def decided(self):
        return dict(self.controller.decided_elections)

    def inferred(self):
        """What the log tells: how many elections of each reason and rule."""
        reader, image, found = MomentsReader(), EMPTY, []
        for at, record in self.logged:
            reader.add(record, *at)
        log = ElectionLog(BrokerMoments(reader.moments))
        for at, record in self.logged:
            before, image = image, apply(image, record, at.offset)
            if isinstance(record, PartitionChangeRecord):
                key = record.topic_id, record.partition_id
                was, now = (leadership_of(each[TOPICS].partition(*key)) for each in (before, image))
                found += log.changed(key, was, now, at, record)
        found += log.end()
        return dict(Counter((election.reason, election.rule) for _, election in found))

    def agree(self, **expected):
        """What the controller counted, the log tells, and that is this."""
        assert self.decided() == self.inferred()
        assert self.decided() == {tuple(key.split("__")): count for key, count in expected.items()}


def isr(world, topic, leader, *isr, number=0):
    """The leader of a partition proposes who is in sync."""
    partition = world.partition(topic, number)
    data = q.AlterPartitionRequestPartitionData(
        number,
        partition.leader_epoch,
        new_isr_with_epochs=tuple(
            q.AlterPartitionRequestBrokerState(one, world.broker(one).broker_epoch) for one in isr
        ),
        partition_epoch=partition.partition_epoch,
    )
    topics = (q.AlterPartitionRequestTopicData(topic, (data,)),)
    world.ask(q.AlterPartitionRequest(leader, world.broker(leader).broker_epoch, topics), version=3)


def move(world, *replicas):
    partition = q.AlterPartitionReassignmentsRequestReassignablePartition(0, replicas)
    topics = (q.AlterPartitionReassignmentsRequestReassignableTopic("t1", (partition,)),)
    world.ask(q.AlterPartitionReassignmentsRequest(topics=topics), version=1)


def start_anew(world):
    """Broker 5 was killed, and is back before anybody looked for it."""
    world.wait(8_500, 6, 7)
    world.now_ms += 501
    assert world.register(5, start=2).error_code == ErrorCode.NONE


@pytest.fixture
def world():
    world = Logged()
    world.up(5, 6, 7)
    return world


def test_all_four_reasons(world):
    topic = world.topic(1, (5, 6), (5, 6), (6, 5))
    world.beat(5, want_fence=True)
    world.beat(5)
    for number in range(3):
        isr(world, topic, 6, 6, 5, number=number)
    world.wait(CHECK_MS, 5, 6, 7)
    assert [world.partition(topic, number).leader for number in range(3)] == [5, 5, 6]
    move(world, 6, 7)
    isr(world, topic, 5, 5, 6, 7)
    assert world.partition(topic).replicas == (6, 7)
    world.beat(6, stop=True)
    assert [world.partition(topic, number).leader for number in range(3)] == [7, 5, 5]
    world.agree(
        offline__in_sync=2,
        preferred__preferred_replica=2,
        reassignment__in_sync=1,
        controlled_shutdown__in_sync=2,
    )


def test_nobody_the_last_known_leader_and_whoever_is_there(world):
    topic = world.topic(1, (5, 6))
    isr(world, topic, 5, 5)
    world.beat(5, want_fence=True)
    assert world.partition(topic).leader == -1
    world.append(ConfigRecord(TOPIC, "t1", "unclean.leader.election.enable", "true"))
    world.wait(CHECK_MS, 6)
    assert world.partition(topic).leader == 6
    world.agree(offline__nobody=1, offline__unclean=1)


def test_who_leads_alone_leaves_nobody_and_leads_again_though_it_may_lack_records(world):
    topic = world.topic(1, (5, 6))
    isr(world, topic, 5, 5)
    world.beat(5, stop=True)
    start_anew(world)
    assert world.beat(5).error_code == ErrorCode.NONE
    assert world.partition(topic).leader == 5
    world.agree(controlled_shutdown__nobody=1, offline__last_known_leader=1)


@pytest.mark.parametrize(
    "lose",
    [
        start_anew,
        lambda world: world.ask(q.UnregisterBrokerRequest(5), version=0),
        lambda world: world.wait(2 * 9_000, 6, 7),
    ],
)
def test_however_the_leader_is_lost(world, lose):
    topic = world.topic(1, (5, 6))
    lose(world)
    assert world.partition(topic).leader == 6
    world.agree(offline__in_sync=1)


def test_whose_directory_is_lost():
    world = Logged()
    one, other = directory(5), directory(5, 1)
    world.register(5, log_dirs=(one, other))
    world.beat(5)
    world.up(6)
    topic = world.topic(1, (5, 6), directories={5: other})
    world.beat(5, offline_log_dirs=(other,))
    assert world.partition(topic).leader == 6
    world.agree(offline__in_sync=1)


@pytest.mark.parametrize(
    ("how", "reason"), [({"want_fence": True}, "offline"), ({"stop": True}, "controlled_shutdown")]
)
def test_in_slices(world, monkeypatch, how, reason):
    monkeypatch.setattr(staged_plan, "SLICE_RECORDS", 4)
    world.topic(1, *[(5, 6)] * 10)
    world.beat(5, **how)
    world.agree(**{f"{reason}__in_sync": 10})


def test_an_election_by_hand_of_who_can_lead_nothing_else(world):
    """A preferred election of a partition that nobody leads is held because nobody leads it."""
    topic = world.topic(1, (5, 6), (6, 5))
    world.append(*[PartitionChangeRecord(number, topic, isr=(5, 6), leader=-1) for number in range(2)])
    before = world.inferred()
    topics = (q.ElectLeadersRequestTopicPartitions("t1", (0, 1)),)
    world.ask(q.ElectLeadersRequest(0, topics), version=2)
    assert [world.partition(topic, number).leader for number in range(2)] == [5, 6]
    assert world.decided() == {("offline", "in_sync"): 2}
    assert world.inferred()["offline", "in_sync"] == 2
    assert sum(before.values()) == 2, "those that no decision of the controller was"


def test_the_active_one_knows_of_a_directory_that_the_log_does_not_tell_of(world):
    """AssignReplicasToDirs names a directory of which a heartbeat said before that it has failed, and that no
    registration had: its replica leaves the ISR, and no record about the broker says why.
    """
    topic = world.topic(1, (5, 6))
    lost = bytes([3]) * 16
    world.beat(5, offline_log_dirs=(lost,))
    of_topic = q.AssignReplicasToDirsRequestTopicData(topic, (q.AssignReplicasToDirsRequestPartitionData(0),))
    request = q.AssignReplicasToDirsRequest(
        5, world.broker(5).broker_epoch, (q.AssignReplicasToDirsRequestDirectoryData(lost, (of_topic,)),)
    )
    world.ask(request, version=0)
    assert world.partition(topic).leader == 6
    assert world.decided() == {("offline", "in_sync"): 1}
    assert world.inferred() == {("unknown", "in_sync"): 1}


def test_what_the_log_refuses_does_not_count(world):
    topic = world.topic(1, (5, 6))
    world.send(q.BrokerHeartbeatRequest(5, world.broker(5).broker_epoch, 1 << 40, want_fence=True), 2)
    world.refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert world.partition(topic).leader == 5
    world.agree()


def test_counts_outlive_a_leadership(world):
    world.topic(1, (5, 6))
    world.beat(5, want_fence=True)
    world.lead(3)
    assert world.decided() == {("offline", "in_sync"): 1}


def test_a_decision_that_is_not_written_does_not_count():
    change = PartitionChangeRecord(0, bytes(16), leader=2)
    decided = [DecidedElection(change, Reason.OFFLINE, Rule.IN_SYNC)]
    assert elections_in(decided, [change]) == ((Reason.OFFLINE, Rule.IN_SYNC),)
    assert elections_in(decided, [replace(change)]) == ()


def test_a_partition_is_new_until_it_is_committed(world):
    """Decided, its record appended, and not committed yet: the active controller counts it, nobody else."""
    topic = q.CreateTopicsRequestCreatableTopic(name="new", num_partitions=2, replication_factor=3)
    world.send(q.CreateTopicsRequest(topics=(topic,)), version=7)
    assert dict(world.controller.partition_states()) == {"New": 2, "Online": 0, "Offline": 0}
    world.settle()
    assert dict(world.controller.partition_states()) == {"New": 0, "Online": 2, "Offline": 0}
