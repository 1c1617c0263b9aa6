"""A broker loses a directory slice by slice, and nobody gives it back there meanwhile."""

import pytest

from kraftd.controller import timers
from kraftd.controller.brokers import staged_plan
from kraftd.controller.partitions.broker_changes import PartitionChanges
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.partitions import UNASSIGNED
from kraftd.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestReassignablePartition,
    AlterPartitionReassignmentsRequestReassignableTopic,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    BrokerHeartbeatRequest,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
    ElectLeadersRequest,
)
from kraftd.records.messages import BrokerRegistrationChangeRecord, PartitionChangeRecord
from kraftd.types import uuid_text
from tests.unit.controller.broker_world import SESSION_MS, BrokerWorld, directory

PARTITIONS = 40
SLICE_RECORDS = 6
LOST, KEPT = directory(4), directory(4, 1)
UNCLEAN = 1
INTERVAL_MS = 300_000
"""Between two looks for partitions that somebody could lead by now."""


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(staged_plan, "SLICE_RECORDS", SLICE_RECORDS)


@pytest.fixture
def world():
    """Broker 4 has two directories, and alone has what is in the first; broker 5 is fenced, 6 is there."""
    made = BrokerWorld()
    made.register(4, log_dirs=(LOST, KEPT))
    made.beat(4)
    made.up(5, 6)
    made.beat(5, want_fence=True)
    made.topic(9, *[(4,)] * PARTITIONS)
    return made


def heartbeat(world, broker_id, **fields):
    epoch, offset = world.broker(broker_id).broker_epoch, world.controller.applied_offset - 1
    return world.send(BrokerHeartbeatRequest(broker_id, epoch, offset, **fields), version=2)


def loses_one(world, offline_log_dirs=(LOST,)):
    """Broker 4 tells of it, and a few slices of what that means are committed. Who waits for the response."""
    caller = heartbeat(world, 4, offline_log_dirs=offline_log_dirs)
    world.commit()
    for _ in range(3):
        world.slice()
        world.commit()
    assert world.broker(4).log_dirs == (LOST, KEPT)
    return caller


def another_is_unfenced(world):
    heartbeat(world, 5)


def the_interval_is_over(world):
    world.now_ms += INTERVAL_MS
    heartbeat(world, 4)
    heartbeat(world, 6)
    begins(world, timers.ELECT_UNCLEAN)


def somebody_asks_for_leaders(world):
    world.send(ElectLeadersRequest(UNCLEAN, topic_partitions=None), version=2)


def another_leads(world):
    """It finishes what it finds, and only then hears again what broker 4 has lost."""
    world.controller.leader_changed(world.epoch, -1, is_self=False)
    world.elected(world.epoch + 1)
    begins(world, timers.FINISH)
    heartbeat(world, 4, offline_log_dirs=(LOST,))


def begins(world, kind):
    """What is due comes to this task, whose first slice is committed."""
    while all(run.kind != kind for run in world.controller.running_plans):
        world.poll()
        world.commit()


@pytest.mark.covers("D-35")
@pytest.mark.parametrize(
    ("happens", "in_vain"),
    [
        (another_is_unfenced, 0),
        (the_interval_is_over, 0),
        (somebody_asks_for_leaders, 0),
        (another_leads, SLICE_RECORDS - 1),
    ],
)
def test_who_looks_for_leaders_finds_none_in_a_directory_that_is_being_lost(world, happens, in_vain):
    """What a slice took away such a search gave back, as the directory was listed still: neither ended."""
    loses_one(world)
    happens(world)
    world.settle()
    assert world.broker(4).log_dirs == (KEPT,)
    assert len(world.image[TOPICS].partitions_without_leader()) == PARTITIONS
    assert len(world.records(PartitionChangeRecord)) == PARTITIONS + 2 * in_vain
    assert not list(world.controller.running_plans)


# -- all that a broker has


def test_a_broker_that_loses_all_it_has_leads_nothing_in_it_any_more(world):
    """The registration keeps them: to Kafka a change without directories says nothing of them."""
    topic = world.topic(7, (4, 6), (6, 4), (4,), directories={4: KEPT})
    untold = world.topic(8, (4, 6), directories={4: UNASSIGNED})
    at = len(world.log)
    assert world.beat(4, offline_log_dirs=(LOST, KEPT)).error_code == ErrorCode.NONE
    (*changes, registration) = world.log[at:]
    assert registration == BrokerRegistrationChangeRecord(4, world.broker(4).broker_epoch)
    assert len(changes) == PARTITIONS + 3
    led = [(world.partition(topic, number).leader, world.partition(topic, number).isr) for number in range(3)]
    assert led == [(6, (6,)), (6, (6,)), (-1, ())]
    assert leaderless(world) == PARTITIONS + 1
    assert world.partition(untold).leader == 4
    assert world.broker(4).log_dirs == (LOST, KEPT)
    assert not world.broker(4).fenced
    assert set(world.line("directory_lost")["directories"]) == {uuid_text(LOST), uuid_text(KEPT)}


def test_it_says_so_in_each_heartbeat_and_each_is_written(world):
    world.beat(4, offline_log_dirs=(LOST, KEPT))
    at = len(world.log)
    world.beat(4, offline_log_dirs=(LOST, KEPT))
    assert world.log[at:] == [BrokerRegistrationChangeRecord(4, world.broker(4).broker_epoch)]


@pytest.mark.covers("D-35")
@pytest.mark.parametrize("happens", [another_is_unfenced, the_interval_is_over, somebody_asks_for_leaders])
def test_nobody_gives_back_what_it_is_losing(world, happens):
    caller = loses_one(world, (LOST, KEPT))
    happens(world)
    for _ in range(2 * PARTITIONS):
        if caller in world.answers:
            break
        world.slice()
        world.commit()
    assert world.answers[caller].error_code == ErrorCode.NONE
    assert len(world.records(PartitionChangeRecord)) == PARTITIONS


def test_who_is_moved_where_all_is_being_lost_is_out_of_sync(world):
    caller = loses_one(world, (LOST, KEPT))
    topic = world.topic(7, (6, 4), directories={4: UNASSIGNED})
    where = AssignReplicasToDirsRequestDirectoryData(
        KEPT,
        (AssignReplicasToDirsRequestTopicData(topic, (AssignReplicasToDirsRequestPartitionData(0),)),),
    )
    world.send(AssignReplicasToDirsRequest(4, world.broker(4).broker_epoch, (where,)), version=0)
    world.commit()
    assert caller not in world.answers
    assert (world.partition(topic).directories[1], world.partition(topic).isr) == (KEPT, (6,))


def test_a_new_replica_is_where_it_would_be_had_it_lost_nothing(world):
    """It may be placed there: to Kafka the broker has its directories still."""
    loses_one(world, (LOST, KEPT))
    by_hand = (CreateTopicsRequestCreatableReplicaAssignment(0, (6, 4)),)
    request = CreateTopicsRequest((CreateTopicsRequestCreatableTopic("new", -1, -1, assignments=by_hand),))
    created = world.send(request, version=7)
    world.commit()
    new = world.partition(world.answers[created].topics[0].topic_id)
    assert new.directories == (directory(6), UNASSIGNED)


# -- a loss of one, whatever else happens


def test_the_heartbeat_is_answered_and_the_broker_can_be_fenced(world):
    caller = loses_one(world)
    another_is_unfenced(world)
    world.settle()
    assert world.answers[caller].error_code == ErrorCode.NONE
    assert not world.answers[caller].is_fenced
    assert world.beat(4, want_fence=True).is_fenced


def test_what_is_in_its_other_directory_it_leads_all_the_while(world):
    loses_one(world)
    topic = world.topic(7, (4, 6), directories={4: KEPT})
    world.append(PartitionChangeRecord(0, topic, leader=6))
    asked = world.send(ElectLeadersRequest(0, topic_partitions=None), version=2)
    world.settle()
    assert world.answers[asked].error_code == ErrorCode.NONE
    assert world.partition(topic).leader == 4


def test_a_directory_that_comes_back_with_a_new_start_can_be_led_in_again(world):
    """The new start waits for the end of the loss, and then has the directory."""
    loses_one(world)
    world.now_ms += SESSION_MS + 1
    start = world.register(4, 2, log_dirs=(LOST, KEPT), previous_broker_epoch=world.broker(4).broker_epoch)
    assert start.error_code == ErrorCode.NONE
    world.beat(4)
    assert world.broker(4).log_dirs == (LOST, KEPT)
    assert not len(world.image[TOPICS].partitions_without_leader())


def test_who_is_moved_into_it_meanwhile_is_out_of_sync(world):
    """The broker had chosen the directory before that failed."""
    caller = loses_one(world)
    topic = world.topic(7, (6, 4), directories={4: KEPT})
    where = AssignReplicasToDirsRequestDirectoryData(
        LOST,
        (AssignReplicasToDirsRequestTopicData(topic, (AssignReplicasToDirsRequestPartitionData(0),)),),
    )
    world.send(AssignReplicasToDirsRequest(4, world.broker(4).broker_epoch, (where,)), version=0)
    world.commit()
    assert caller not in world.answers
    assert (world.partition(topic).directories[1], world.partition(topic).isr) == (LOST, (6,))


def test_a_new_controller_waits_for_the_broker_to_say_what_has_failed(world):
    """Until then it would take the broker for another process; the broker asks again by itself."""
    world.beat(4, offline_log_dirs=(LOST,))
    topic = world.topic(7, (6, 4), directories={4: KEPT})
    where = AssignReplicasToDirsRequestDirectoryData(
        LOST,
        (AssignReplicasToDirsRequestTopicData(topic, (AssignReplicasToDirsRequestPartitionData(0),)),),
    )
    request = AssignReplicasToDirsRequest(4, world.broker(4).broker_epoch, (where,))
    world.lead(3)
    assert world.ask(request, version=0).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert world.partition(topic).directories[1] == KEPT
    world.beat(4, offline_log_dirs=(LOST,))
    assert world.ask(request, version=0).error_code == ErrorCode.NONE
    assert (world.partition(topic).directories[1], world.partition(topic).isr) == (LOST, (6,))


def test_a_new_replica_is_in_the_directory_that_is_left(world):
    """New or moved there: of one that is left it need not tell."""
    caller = loses_one(world)
    by_hand = (CreateTopicsRequestCreatableReplicaAssignment(0, (4, 6)),)
    request = CreateTopicsRequest((CreateTopicsRequestCreatableTopic("new", -1, -1, assignments=by_hand),))
    created = world.send(request, version=7)
    topic = world.topic(7, (6,))
    moved = AlterPartitionReassignmentsRequestReassignableTopic(
        "t7", (AlterPartitionReassignmentsRequestReassignablePartition(0, (6, 4)),)
    )
    world.send(AlterPartitionReassignmentsRequest(topics=(moved,)), version=1)
    world.commit()
    assert caller not in world.answers
    new = world.partition(world.answers[created].topics[0].topic_id)
    assert (new.leader, new.directories) == (4, (KEPT, directory(6)))
    assert world.partition(topic).directories == (directory(6), KEPT)


@pytest.fixture(params=["NOT_CONTROLLER", "THROTTLING_QUOTA_EXCEEDED", "it raises"])
def cut_off(request, monkeypatch):
    """Ends what has begun with its next slice."""

    def cut(world):
        if request.param == "it raises":
            with monkeypatch.context() as patch:
                patch.setattr(PartitionChanges, "next", lambda *_: 1 // 0)
                world.slice()
        else:
            world.slice()
            world.refuse(ErrorCode[request.param])
        assert not list(world.controller.running_plans)

    return cut


def leaderless(world):
    return len(world.image[TOPICS].partitions_without_leader())


@pytest.mark.covers("D-35")
def test_a_loss_that_is_cut_off_waits_for_the_next_heartbeat_which_tells_of_it_again(world, cut_off):
    """The directory is listed still: who looked for leaders would find broker 4 there, in vain."""
    loses_one(world)
    cut_off(world)
    taken = leaderless(world)
    assert 0 < taken < PARTITIONS
    assert world.controller.alarms == []
    world.wait(3_000, 6, step_ms=100)
    assert leaderless(world) == taken
    world.beat(4, offline_log_dirs=(LOST,))
    assert world.broker(4).log_dirs == (KEPT,)
    assert leaderless(world) == len(world.records(PartitionChangeRecord)) == PARTITIONS
    assert world.controller.alarms == []


@pytest.mark.covers("D-35")
@pytest.mark.parametrize("error", ["NOT_CONTROLLER", "THROTTLING_QUOTA_EXCEEDED"])
def test_so_does_one_whose_last_slice_is_refused(world, error):
    """That one holds the registration without the directory."""
    loses_one(world)
    while not (write := world.slice()) or not write.is_last:
        world.commit()
    world.refuse(ErrorCode[error])
    assert world.broker(4).log_dirs == (LOST, KEPT)
    assert world.controller.alarms == []
    taken = leaderless(world)
    world.wait(3_000, 6, step_ms=100)
    assert leaderless(world) == taken
    world.beat(4, offline_log_dirs=(LOST,))
    assert world.broker(4).log_dirs == (KEPT,)
    assert leaderless(world) == len(world.records(PartitionChangeRecord)) == PARTITIONS


@pytest.mark.parametrize(("log_dirs", "left"), [((KEPT,), PARTITIONS), ((LOST, KEPT), 0)])
def test_a_loss_that_is_cut_off_may_end_with_a_new_start(world, cut_off, log_dirs, left):
    """Its directories are those of that start, and what was in them it leads again."""
    loses_one(world)
    cut_off(world)
    world.now_ms += SESSION_MS
    heartbeat(world, 6)
    world.register(4, start=2, log_dirs=log_dirs)
    world.beat(4)
    assert not world.broker(4).fenced
    assert leaderless(world) == left


@pytest.mark.covers("D-35")
def test_what_comes_after_a_loss_is_finished_if_it_is_cut_off(world, cut_off):
    """Broker 4 is unfenced by the heartbeat that told of the loss; the directory is not listed by then."""
    topic = world.topic(7, *[(4,)] * PARTITIONS, directories={4: KEPT})
    world.beat(4, want_fence=True)
    heartbeat(world, 4, offline_log_dirs=(LOST,))
    world.commit()
    while world.broker(4).fenced:
        world.slice()
        world.commit()
    cut_off(world)
    assert world.broker(4).log_dirs == (KEPT,)
    assert any(world.partition(topic, number).leader < 0 for number in range(PARTITIONS))
    world.wait(2_000, 4, 6)
    assert all(world.partition(topic, number).leader == 4 for number in range(PARTITIONS))
