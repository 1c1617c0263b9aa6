"""Something happens to a broker while a plan about it is worked off, slice by slice."""

import pytest

from kraftd.controller import timers
from kraftd.controller.brokers import staged_plan
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol.messages import (
    AlterPartitionRequest,
    AlterPartitionRequestBrokerState,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerHeartbeatRequest,
)
from tests.unit.controller.broker_world import SESSION_MS, BrokerWorld, directory, registration

PARTITIONS = 40
LEADERLESS = 400


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(staged_plan, "SLICE_RECORDS", 6)


@pytest.fixture
def world():
    made = BrokerWorld()
    made.register(4, log_dirs=(directory(4, 0), directory(4, 1)))
    made.beat(4)
    made.up(5)
    return made


def heartbeat(world, broker_id, **fields):
    epoch, offset = world.broker(broker_id).broker_epoch, world.controller.applied_offset - 1
    return world.send(BrokerHeartbeatRequest(broker_id, epoch, offset, **fields), version=2)


def begins(world, kind):
    while all(run.kind != kind for run in world.controller.running_plans):
        world.poll()
        world.commit()


def being_fenced(world):
    """Broker 4 was silent for too long, and the first slice of its fencing is in the log."""
    world.topic(1, *[(4, 5)] * PARTITIONS)
    world.now_ms += SESSION_MS + 500
    heartbeat(world, 5)
    begins(world, timers.FENCE_BROKER)
    assert 0 < len(world.image[TOPICS].partitions_led_by(5)) < PARTITIONS
    world.now_ms += 100


def heard_with_news(world):
    """Its heartbeat changes something, and waits for the end of its fencing, which it undoes."""
    caller = heartbeat(world, 4, offline_log_dirs=(directory(4, 1),))
    world.settle()
    assert not world.answers[caller].is_fenced


def heard(world):
    """Its heartbeat changes nothing: it is not fenced yet. Its next one unfences it."""
    heartbeat(world, 4)
    world.settle()
    assert world.broker(4).fenced


@pytest.mark.covers("D-35")
@pytest.mark.parametrize("comes_back", [heard_with_news, heard])
def test_who_is_heard_while_it_is_fenced_is_alive(world, comes_back):
    being_fenced(world)
    comes_back(world)
    world.now_ms += 5
    assert world.register(4, start=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    world.wait(1_500, 5)
    world.beat(4)
    assert not world.broker(4).fenced
    world.wait(SESSION_MS - 500, 5)
    assert not world.broker(4).fenced, "it was heard less than a session ago"
    world.wait(SESSION_MS // 4, 5)
    assert world.broker(4).fenced


@pytest.mark.covers("D-35")
def test_who_is_heard_with_news_while_it_is_fenced_is_not_fenced_again(world):
    being_fenced(world)
    heard_with_news(world)
    world.wait(SESSION_MS - 500, 5)
    assert not world.broker(4).fenced


def test_who_is_silent_until_it_is_fenced_may_start_again_at_once(world):
    being_fenced(world)
    world.settle()
    assert world.broker(4).fenced
    assert world.register(4, start=2).error_code == ErrorCode.NONE


def brought_back(world, topic):
    """Broker 5 leads everything, and takes broker 4 back into each ISR that lacks it."""
    leader, epochs = world.broker(5), {each: world.broker(each).broker_epoch for each in (4, 5)}
    members = tuple(AlterPartitionRequestBrokerState(each, epoch) for each, epoch in epochs.items())
    lacking = tuple(
        AlterPartitionRequestPartitionData(
            number, partition.leader_epoch, (), members, partition_epoch=partition.partition_epoch
        )
        for number in range(PARTITIONS)
        if 4 not in (partition := world.partition(topic, number)).isr
    )
    topics = (AlterPartitionRequestTopicData(topic, lacking),)
    world.send(AlterPartitionRequest(5, leader.broker_epoch, topics), version=3)
    world.commit()


@pytest.mark.covers("D-35")
def test_a_new_active_controller_takes_nothing_from_a_broker_that_stopped_and_is_back(world):
    """It looks for leaders of what broker 6 leaves; broker 4, which was stopping, starts anew meanwhile."""
    topic = world.topic(1, *[(5, 4)] * PARTITIONS)
    world.topic(3, (4, 5))
    world.up(6)
    world.topic(2, *[(6,)] * LEADERLESS)
    world.beat(6, want_fence=True)
    heartbeat(world, 6)
    world.commit()
    heartbeat(world, 4, want_shut_down=True)
    world.commit()
    assert world.broker(4).in_controlled_shutdown
    former = world.broker(4).broker_epoch
    world.controller.leader_changed(world.epoch, -1, is_self=False)
    world.waiting.clear()
    world.elected(world.epoch + 1)
    begins(world, timers.FINISH)

    def goes_on(request, version=2):
        caller = world.send(request, version)
        for _ in range(100):
            if caller in world.answers:
                break
            world.commit()
            world.slice()
            world.poll()
        return world.answers[caller]

    def beat(broker_id, **fields):
        epoch, offset = world.broker(broker_id).broker_epoch, world.controller.applied_offset - 1
        return goes_on(BrokerHeartbeatRequest(broker_id, epoch, offset, **fields))

    beat(4, want_shut_down=True)
    beat(5)
    beat(6)
    assert beat(4, want_shut_down=True).should_shut_down
    started = registration(4, start=2, log_dirs=world.broker(4).log_dirs, previous_broker_epoch=former)
    assert goes_on(started, 4).error_code == ErrorCode.NONE
    heartbeat(world, 4)
    world.commit()
    assert not world.broker(4).fenced
    brought_back(world, topic)
    assert {tuple(sorted(world.partition(topic, number).isr)) for number in range(PARTITIONS)} == {(4, 5)}
    assert any(run.kind == timers.FINISH for run in world.controller.running_plans)
    for _ in range(LEADERLESS):
        world.slice()
        world.poll()
        world.commit()
        brought_back(world, topic)
    assert not list(world.controller.running_plans)
    changes = [world.partition(topic, number).partition_epoch for number in range(PARTITIONS)]
    assert changes == [2] * PARTITIONS, "out once, as it stopped, and back once"


@pytest.mark.covers("D-35")
def test_what_a_broker_that_stops_has_begun_by_itself_a_new_active_controller_does_not_begin_too(world):
    """Its heartbeat is the first thing that node 1 hears as it begins to lead."""
    world.topic(1, *[(4, 5)] * PARTITIONS)
    heartbeat(world, 4, want_shut_down=True)
    world.commit()
    world.controller.leader_changed(world.epoch, -1, is_self=False)
    world.waiting.clear()
    world.elected(world.epoch + 1)
    world.poll()
    heartbeat(world, 4, want_shut_down=True)
    assert [run.kind for run in world.controller.running_plans] == ["BrokerHeartbeatRequest"]
    for _ in range(3):
        world.poll()
    world.settle()
    assert len(world.image[TOPICS].partitions_led_by(5)) == PARTITIONS
    world.beat(5)
    assert world.beat(4, stop=True).should_shut_down
    world.wait(2_000, 5)
    assert world.controller.alarms == []
    assert world.controller.error_count == 0
