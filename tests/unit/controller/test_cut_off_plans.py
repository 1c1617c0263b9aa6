"""A plan of which the log refuses a slice, or a slice raises, is half done; nobody may ask for it again."""

from itertools import pairwise

import pytest

from kraftd.controller import timers
from kraftd.controller.brokers import registration as registrations
from kraftd.controller.brokers import staged_plan
from kraftd.controller.partitions.broker_changes import PartitionChanges
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol.messages import BrokerHeartbeatRequest, UnregisterBrokerRequest
from kraftd.records.messages import NoOpRecord, PartitionChangeRecord
from tests.unit.controller.broker_world import SESSION_MS, BrokerWorld, registration

PARTITIONS = 40
SLICE_RECORDS = 6


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(staged_plan, "SLICE_RECORDS", SLICE_RECORDS)
    monkeypatch.setattr(registrations, "SLICE_RECORDS", SLICE_RECORDS)


@pytest.fixture
def world():
    made = BrokerWorld()
    made.up(4, 5)
    return made


@pytest.fixture(params=["NOT_CONTROLLER", "THROTTLING_QUOTA_EXCEEDED", "it raises"])
def cut_off(request, monkeypatch):
    """Commits a slice of what has begun, and ends it with the second one."""

    def raising(_self, _context, _limit):
        raise KeyError("planted")

    def cut(world):
        world.commit()
        if request.param == "it raises":
            with monkeypatch.context() as patch:
                patch.setattr(PartitionChanges, "next", raising)
                world.slice()
        else:
            world.slice()
            world.refuse(ErrorCode[request.param])
        while world.controller.has_next_slice:
            world.slice()
        assert not list(world.controller.running_plans)

    return cut


def heartbeat(world, broker_id, **fields):
    epoch, offset = world.broker(broker_id).broker_epoch, world.controller.applied_offset - 1
    return world.send(BrokerHeartbeatRequest(broker_id, epoch, offset, **fields), version=2)


def led_by(world, broker_id):
    return len(world.image[TOPICS].partitions_led_by(broker_id))


@pytest.mark.covers("D-35")
def test_who_is_unfenced_leads_all_that_waits_for_it(world, cut_off):
    """It is unfenced by the first slice, and says nothing more that would lead to the rest."""
    world.topic(9, *[(4,)] * PARTITIONS)
    world.beat(4, want_fence=True)
    heartbeat(world, 4)
    cut_off(world)
    assert not world.broker(4).fenced
    assert 0 < led_by(world, 4) < PARTITIONS
    world.wait(2_000, 4, 5)
    assert led_by(world, 4) == PARTITIONS
    assert world.controller.alarms == []


@pytest.mark.covers("D-35")
def test_who_shuts_down_leads_nothing_more_and_is_told_to_stop(world, cut_off):
    world.topic(9, *[(4, 5)] * PARTITIONS)
    heartbeat(world, 4, want_shut_down=True)
    cut_off(world)
    assert world.broker(4).in_controlled_shutdown
    assert 0 < led_by(world, 4) < PARTITIONS
    assert not world.beat(4, stop=True).should_shut_down
    world.wait(2_000, 5)
    assert led_by(world, 5) == PARTITIONS
    assert world.beat(4, stop=True).should_shut_down
    assert world.controller.alarms == []


def silent_and_back(world):
    world.wait(SESSION_MS - 100, 5)
    world.now_ms += SESSION_MS // 4
    heartbeat(world, 5)
    while all(run.kind != timers.FENCE_BROKER for run in world.controller.running_plans):
        world.poll()
    return lambda: None


def unregistered(world):
    world.send(UnregisterBrokerRequest(4), version=0)


def to_be_fenced(world):
    heartbeat(world, 4, want_fence=True)


@pytest.mark.parametrize("begin", [silent_and_back, unregistered, to_be_fenced])
def test_who_is_to_go_and_stays_leads_again_what_was_taken_away(world, cut_off, begin):
    """It is heard again, or nobody asks for it any more."""
    world.topic(9, *[(4,)] * PARTITIONS)
    begin(world)
    cut_off(world)
    assert not world.broker(4).fenced
    assert 0 < led_by(world, 4) < PARTITIONS
    world.wait(3_000, 4, 5)
    assert led_by(world, 4) == PARTITIONS
    assert not world.broker(4).fenced
    assert world.controller.alarms == []


def test_a_silent_broker_is_fenced_all_the_same_and_elected_no_more(world, cut_off):
    world.topic(9, *[(4,)] * PARTITIONS)
    silent_and_back(world)
    cut_off(world)
    world.wait(3_000, 5)
    assert world.broker(4).fenced
    assert len(world.records(PartitionChangeRecord)) == PARTITIONS
    assert world.controller.alarms == []


def test_a_start_that_is_refused_halfway_takes_nothing_from_the_one_that_lives(world):
    """The former start was silent when the new one came, and is heard between two slices."""
    world.topic(9, *[(4,)] * PARTITIONS)
    world.now_ms += SESSION_MS
    heartbeat(world, 5)
    caller = world.send(registration(4, start=2))
    world.commit()
    heartbeat(world, 4)
    world.settle()
    assert world.answers[caller].error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    world.wait(2_000, 4, 5)
    assert led_by(world, 4) == PARTITIONS


def test_of_what_was_refused_at_once_nothing_is_to_be_done(world):
    """Its sender is told so and asks again; nothing has changed."""
    world.topic(9, *[(4, 5)] * PARTITIONS)
    heartbeat(world, 4, want_shut_down=True)
    world.refuse()
    world.settle()
    assert world.controller.alarms == []
    assert led_by(world, 4) == PARTITIONS
    heartbeat(world, 4, want_shut_down=True)
    world.settle()
    assert led_by(world, 5) == PARTITIONS


def test_what_the_log_goes_on_to_refuse_is_an_alarm_and_repeated_later_each_time(world):
    world.topic(9, *[(4, 5)] * PARTITIONS)
    heartbeat(world, 4, want_shut_down=True)
    world.commit()
    world.slice()
    world.refuse()
    times, end_ms = [], world.now_ms + 40_000
    while world.now_ms < end_ms:
        world.now_ms += 100
        for broker_id in (4, 5):
            heartbeat(world, broker_id)
        while world.controller.has_next_slice:
            world.slice()
        world.poll()
        if any(write.kind == timers.FINISH for write, _ in world.waiting):
            times.append(world.now_ms)
            (alarm,) = [alarm for alarm in world.controller.alarms if timers.FINISH in alarm]
            assert "the log refused it: THROTTLING_QUOTA_EXCEEDED" in alarm
            assert "(broker 4)" in alarm
        world.refuse()
    assert [(then - now) // 1_000 for now, then in pairwise(times)] == [1, 2, 4, 8, 16]
    world.wait(40_000, 4, 5)
    assert led_by(world, 5) == PARTITIONS
    assert world.controller.alarms == []


def test_what_is_to_be_finished_is_an_alarm_that_says_what_was_cut_off(world):
    """It was not tried yet, so it did not fail; that counts from its first try on."""
    world.topic(9, *[(4, 5)] * PARTITIONS)
    heartbeat(world, 4, want_shut_down=True)
    world.commit()
    world.slice()
    world.refuse()
    (alarm,) = world.controller.alarms
    cut_off = "BrokerHeartbeatRequest: the log refused it: THROTTLING_QUOTA_EXCEEDED"
    assert alarm == f"FinishCutOffPlans: is due: {cut_off} (broker 4)"
    while not world.waiting:
        world.now_ms += 100
        world.poll()
    world.refuse(ErrorCode.NOT_CONTROLLER)
    (alarm,) = world.controller.alarms
    assert alarm.startswith("FinishCutOffPlans: failed once, is repeated: the log refused it: NOT_CONTROLLER")


def test_what_takes_long_to_finish_is_not_begun_a_second_time(world):
    """A new active controller's first try was refused; the slices of the next one wait for a majority."""
    world.topic(9, *[(4,)] * PARTITIONS)
    world.beat(4, want_fence=True)
    heartbeat(world, 4)
    world.commit()
    world.controller.leader_changed(world.epoch, -1, is_self=False)
    world.elected(world.epoch + 1)
    while all(write.kind != timers.FINISH for write, _ in world.waiting):
        world.commit()
        world.poll()
    world.refuse()
    for _ in range(50):
        world.now_ms += 100
        for broker_id in (4, 5):
            heartbeat(world, broker_id)
        world.slice()
        world.poll()
        assert len([run for run in world.controller.running_plans if run.kind == timers.FINISH]) <= 1
    assert world.waiting
    world.settle()
    assert led_by(world, 4) == PARTITIONS
    assert len(world.records(PartitionChangeRecord)) == 2 * PARTITIONS


def test_who_stops_does_not_wait_for_records_that_the_log_refused(world):
    """KAFKA-14292: the last slice was refused, and what came in its place others have not read yet."""
    topic = world.topic(9, *[(4, 5)] * 8)
    heartbeat(world, 4, want_shut_down=True)
    world.commit()
    while len(list(world.controller.running_plans)):
        world.commit()
        world.slice()
    world.refuse()
    left = [number for number in range(8) if world.partition(topic, number).leader == 4]
    assert left
    world.append(*[NoOpRecord()] * 8)
    heartbeat(world, 5)
    world.append(*[PartitionChangeRecord(number, topic, isr=(5,), leader=5) for number in left])
    assert not led_by(world, 4)
    assert not world.beat(4, stop=True).should_shut_down
    world.wait(2_000, 5)
    assert world.beat(4, stop=True).should_shut_down
