"""What the active controller does by itself: it fences silent brokers, finishes and repeats."""

import pytest
from msgspec.structs import replace

from kraftd.controller import timers
from kraftd.controller.brokers import staged_plan
from kraftd.controller.partitions.broker_changes import PartitionChanges
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import (
    AlterPartitionRequest,
    AlterPartitionRequestBrokerState,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerHeartbeatRequest,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
    UnregisterBrokerRequest,
)
from kraftd.records.messages import BrokerRegistrationChangeRecord, PartitionChangeRecord, PartitionRecord
from kraftd.types import NEVER_MS
from tests.unit.controller.broker_world import SESSION_MS, BrokerWorld, registration

LOOK_MS = SESSION_MS // 8


@pytest.fixture
def world():
    return BrokerWorld()


def test_a_silent_broker_is_fenced_after_its_session_and_the_line_says_how_long_it_was_silent(world):
    world.up(5, 6)
    topic = world.topic(1, (5, 6))
    world.wait(SESSION_MS - 500, 6)
    assert not world.broker(5).fenced
    world.wait(LOOK_MS + 500, 6)
    assert (world.broker(5).fenced, world.broker(6).fenced) == (True, False)
    assert (world.partition(topic).leader, tuple(world.partition(topic).isr)) == (6, (6,))
    line = world.line("broker_fenced")
    assert line["reason"] == "no heartbeat"
    assert SESSION_MS <= line["silent_ms"] <= SESSION_MS + LOOK_MS + 500
    assert line["partitions"] == 1


def test_a_broker_whose_unregistration_the_log_refused_is_fenced_when_it_falls_silent(world):
    world.up(5, 6)
    world.send(UnregisterBrokerRequest(5), version=0)
    world.refuse()
    assert not world.broker(5).fenced
    world.wait(SESSION_MS + 2 * LOOK_MS, 6)
    assert (world.broker(5).fenced, world.broker(6).fenced) == (True, False)


def test_one_broker_is_fenced_a_look_the_one_that_was_silent_longest_first(world):
    """KAFKA-13173: a controller that was paused itself fences nobody more before it has read what waits."""
    world.up(5)
    world.wait(100)
    world.up(6)
    world.wait(100)
    world.up(7)
    world.now_ms += 10 * SESSION_MS
    world.settle()
    assert [world.broker(broker_id).fenced for broker_id in (5, 6, 7)] == [True, False, False]
    world.beat(7)
    world.wait(LOOK_MS, 7)
    assert [world.broker(broker_id).fenced for broker_id in (5, 6, 7)] == [True, True, False]
    world.wait(3 * LOOK_MS, 7)
    assert not world.broker(7).fenced


def test_a_new_active_controller_starts_every_clock_anew(world):
    """KAFKA-18138: it has never heard of them, and that is not their fault."""
    world.up(5)
    world.controller.leader_changed(world.epoch, -1, is_self=False)
    world.now_ms += 10 * SESSION_MS
    world.lead(world.epoch + 1)
    world.wait(SESSION_MS - 500)
    assert not world.broker(5).fenced
    world.wait(LOOK_MS + 500)
    assert world.broker(5).fenced


def test_a_fenced_broker_that_is_heard_of_again_is_unfenced(world):
    world.up(5)
    world.wait(SESSION_MS + LOOK_MS)
    assert world.broker(5).fenced
    assert not world.beat(5).is_fenced


def test_without_brokers_nothing_is_due(world):
    assert world.controller._active.timers.wake_at_ms == NEVER_MS


def test_a_fencing_that_the_log_refuses_is_done_at_a_later_look(world):
    world.up(5)
    world.now_ms += SESSION_MS + LOOK_MS
    write = world.controller.poll(world.now)
    assert write.kind == timers.FENCE_BROKER
    world.waiting.append((write, None))
    world.refuse()
    world.settle()
    assert not world.broker(5).fenced
    world.wait(2 * LOOK_MS)
    assert world.broker(5).fenced
    assert world.controller.alarms == []


# -- slices


@pytest.fixture
def small_slices(monkeypatch):
    monkeypatch.setattr(staged_plan, "SLICE_RECORDS", 4)


def many(world, count=10):
    return world.topic(1, *[(5, 6)] * count)


@pytest.mark.usefixtures("small_slices")
@pytest.mark.covers("D-35")
def test_fencing_goes_slice_by_slice_and_the_brokers_own_record_is_the_last(world):
    world.up(5, 6)
    many(world)
    at = len(world.log)
    caller = world.send(BrokerHeartbeatRequest(5, world.broker(5).broker_epoch, 1 << 40, want_fence=True), 2)
    sizes = []
    while caller not in world.answers:
        sizes.append(len(world.waiting[-1][0].records) if world.waiting else 0)
        world.commit()
        world.slice()
    *changes, last = world.log[at:]
    assert {type(change) for change in changes} == {PartitionChangeRecord}
    assert isinstance(last, BrokerRegistrationChangeRecord)
    assert len(changes) == 10
    assert max(sizes) <= 4
    assert world.answers[caller].is_fenced


def back_in_sync(world, topic, leader, member):
    """The leader of ten partitions proposes a member for the ISR of each where it is missing."""

    def state(broker_id):
        return AlterPartitionRequestBrokerState(broker_id, world.broker(broker_id).broker_epoch)

    missing = [
        partition
        for partition in (world.partition(topic, number) for number in range(10))
        if member not in partition.isr
    ]
    proposals = tuple(
        AlterPartitionRequestPartitionData(
            partition_index=partition.partition_id,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=(state(leader), state(member)),
            partition_epoch=partition.partition_epoch,
        )
        for partition in missing
    )
    topics = (AlterPartitionRequestTopicData(topic, proposals),)
    return AlterPartitionRequest(leader, world.broker(leader).broker_epoch, topics)


@pytest.mark.usefixtures("small_slices")
def test_who_is_being_fenced_is_taken_back_into_no_isr_meanwhile(world):
    """Broker 5 was silent, since the controller itself stood still, and fetches from broker 6 all the time.
    Until its own record it is active: 6 would bring it back into every ISR that a slice has just taken it out
    of, and neither would end.
    """
    world.up(5, 6)
    topic = world.topic(1, *[(6, 5)] * 10)
    epoch = world.broker(5).broker_epoch
    fence = world.send(BrokerHeartbeatRequest(5, epoch, 1 << 40, want_fence=True), 2)
    for _ in range(20):
        world.commit()
        asked = world.send(back_in_sync(world, topic, leader=6, member=5), 3)
        world.slice()
        world.commit()
        told = {one.error_code for one in world.answers[asked].topics[0].partitions}
        assert told <= {ErrorCode.INELIGIBLE_REPLICA}
    assert world.answers[fence].is_fenced
    assert {tuple(world.partition(topic, number).isr) for number in range(10)} == {(6,)}
    assert len(world.records(PartitionChangeRecord)) == 10
    assert not world.beat(5).is_fenced
    world.ask(back_in_sync(world, topic, leader=6, member=5), 3)
    assert {tuple(world.partition(topic, number).isr) for number in range(10)} == {(6, 5)}


@pytest.mark.usefixtures("small_slices")
def test_who_is_being_fenced_leads_no_new_partition_meanwhile(world):
    world.up(5, 6)
    many(world)
    epoch = world.broker(5).broker_epoch
    fence = world.send(BrokerHeartbeatRequest(5, epoch, 1 << 40, want_fence=True), 2)
    by_hand = tuple(
        CreateTopicsRequestCreatableReplicaAssignment(number, replicas)
        for number, replicas in enumerate(((5, 6), (6, 5)))
    )
    new = [
        CreateTopicsRequestCreatableTopic("chosen", -1, -1, assignments=by_hand),
        CreateTopicsRequestCreatableTopic("placed", 5, 2),
        CreateTopicsRequestCreatableTopic(
            "only", -1, -1, assignments=(CreateTopicsRequestCreatableReplicaAssignment(0, (5,)),)
        ),
    ]
    at = len(world.log)
    created = world.send(CreateTopicsRequest(tuple(new)), 7)
    world.commit()
    assert fence not in world.answers
    codes = {topic.name: topic.error_code for topic in world.answers[created].topics}
    assert codes == {"chosen": 0, "placed": 0, "only": ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    made = [record for record in world.log[at:] if isinstance(record, PartitionRecord)]
    assert {(record.leader, tuple(record.isr)) for record in made} == {(6, (6,))}


@pytest.mark.usefixtures("small_slices")
def test_between_slices_others_are_answered_at_once_and_no_more_than_two_slices_wait(world):
    world.up(5, 6, 7)
    many(world, 40)
    world.send(BrokerHeartbeatRequest(5, world.broker(5).broker_epoch, 1 << 40, want_fence=True), 2)
    for _ in range(10):
        world.slice()
    assert len(world.waiting) == 2
    beat = world.send(BrokerHeartbeatRequest(7, world.broker(7).broker_epoch, 1 << 40), 2)
    assert not world.answers[beat].is_fenced
    world.settle()
    assert world.broker(5).fenced


@pytest.mark.usefixtures("small_slices")
def test_what_is_about_a_broker_waits_for_the_plan_about_it_and_is_decided_anew(world):
    world.up(5, 6)
    topic = many(world)
    epoch = world.broker(5).broker_epoch
    fence = world.send(BrokerHeartbeatRequest(5, epoch, 1 << 40, want_fence=True), 2)
    stop = world.send(BrokerHeartbeatRequest(5, epoch, 1 << 40, want_shut_down=True), 2)
    back = world.send(BrokerHeartbeatRequest(5, epoch, 1 << 40), 2)
    world.settle()
    assert world.answers[fence].is_fenced
    assert world.answers[stop].should_shut_down
    assert not world.answers[back].is_fenced
    assert world.partition(topic, 9).leader == 6


@pytest.mark.usefixtures("small_slices")
def test_who_asked_for_a_plan_is_told_when_the_leadership_ends_in_the_middle_of_it(world):
    world.up(5, 6)
    many(world)
    epoch = world.broker(5).broker_epoch
    first = world.send(BrokerHeartbeatRequest(5, epoch, 1 << 40, want_fence=True), 2)
    held = world.send(BrokerHeartbeatRequest(5, epoch, 1 << 40, want_fence=True), 2)
    world.commit()
    world.controller.leader_changed(world.epoch, -1, is_self=False)
    while world.controller.has_next_slice:
        world.slice()
    assert [world.answers[caller].error_code for caller in (first, held)] == [ErrorCode.NOT_CONTROLLER] * 2


@pytest.mark.usefixtures("small_slices")
def test_a_new_active_controller_finishes_what_was_left_and_fences_nobody(world):
    """Broker 5 stops; the leader dies after the first slice, and 5 still leads half of its partitions."""
    world.up(5, 6)
    topic = many(world)
    epoch = world.broker(5).broker_epoch
    world.send(BrokerHeartbeatRequest(5, epoch, 1 << 40, want_shut_down=True), 2)
    world.commit()
    assert {world.partition(topic, number).leader for number in range(10)} == {5, 6}
    world.controller.leader_changed(world.epoch, -1, is_self=False)
    world.lead(world.epoch + 1)
    assert {world.partition(topic, number).leader for number in range(10)} == {6}
    assert not world.broker(5).fenced
    assert not world.broker(6).fenced


# -- what raises


def raising(monkeypatch, partition_id):
    """Deciding about this partition fails."""
    decide = PartitionChanges._change

    def fail(self, rules, topics, topic_id, number):
        if number == partition_id[0]:
            self.leave_out(topic_id, number, KeyError("planted"))
            return None
        return decide(self, rules, topics, topic_id, number)

    monkeypatch.setattr(PartitionChanges, "_change", fail)


@pytest.mark.covers("D-35")
def test_a_partition_that_cannot_be_decided_is_left_out_alarmed_and_done_later(world, monkeypatch):
    world.up(5, 6)
    topic = many(world, 3)
    broken = [1]
    raising(monkeypatch, broken)
    world.beat(5, want_fence=True)
    assert world.broker(5).fenced
    assert [world.partition(topic, number).leader for number in range(3)] == [6, 5, 6]
    (alarm,) = world.controller.alarms
    assert "planted" in alarm
    assert "partition 1" in alarm
    world.wait(4_000, 6)
    assert "failed 3 times" in world.controller.alarms[0]
    broken[0] = None
    world.wait(5_000, 6)
    assert world.controller.alarms == []
    assert world.partition(topic, 1).leader == 6


@pytest.mark.covers("D-35")
def test_a_broker_that_cannot_be_fenced_costs_nobody_else_anything(world, monkeypatch):
    world.up(5, 6, 7)
    fence = timers.fence

    def fail(context, task):
        if task.about == 5:
            raise KeyError("planted")
        return fence(context, task)

    monkeypatch.setattr(timers, "PLANS", {**timers.PLANS, timers.FENCE_BROKER: fail})
    world.wait(SESSION_MS + 3 * LOOK_MS, 7)
    assert [world.broker(broker_id).fenced for broker_id in (5, 6, 7)] == [False, True, False]
    (alarm,) = world.controller.alarms
    assert "FenceBroker" in alarm
    assert "broker 5" in alarm
    errors = world.controller.error_count
    assert errors > 0
    assert "decision_failed" in world.events()
    monkeypatch.undo()
    world.wait(10_000, 7)
    assert world.broker(5).fenced
    assert world.controller.alarms == []


@pytest.mark.covers("D-14")
def test_a_request_whose_decision_raises_is_answered_and_costs_nothing_else(world, monkeypatch):
    world.up(5)
    monkeypatch.setattr("kraftd.controller.brokers.registration.record_of", None)
    at = len(world.log)
    response = world.ask(registration(6))
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.log[at:] == []
    assert world.controller.error_count == 1
    line = world.line("decision_failed")
    assert line["kind"] == "BrokerRegistrationRequest"
    assert "registration.py" in line["at"]
    assert world.beat(5).error_code == ErrorCode.NONE


@pytest.mark.covers("D-14")
def test_records_that_cannot_be_applied_are_refused_before_they_are_appended(world, monkeypatch):
    world.up(5)
    monkeypatch.setattr(
        "kraftd.controller.brokers.heartbeats.change_of",
        lambda broker, **_: BrokerRegistrationChangeRecord(broker.broker_id, 1, fenced=1),
    )
    at = len(world.log)
    assert world.beat(5, want_fence=True).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.log[at:] == []
    assert not world.broker(5).fenced


def test_a_change_that_cannot_be_applied_costs_its_partition_only(world, monkeypatch):
    """Deciding about partition 1 goes well, and its record is one that no image can take."""
    world.up(5, 6)
    topic = many(world, 3)
    decide, broken = PartitionChanges._change, [1]

    def bad_record(self, rules, topics, topic_id, number):
        change = decide(self, rules, topics, topic_id, number)
        if change is None or number != broken[0]:
            return change
        return replace(change, topic_id=bytes(16))

    monkeypatch.setattr(PartitionChanges, "_change", bad_record)
    leave_out = PartitionChanges.leave_out
    monkeypatch.setattr(
        PartitionChanges,
        "leave_out",
        lambda self, _topic_id, number, error: leave_out(self, topic, number, error),
    )
    world.beat(5, want_fence=True)
    assert world.broker(5).fenced
    assert [world.partition(topic, number).leader for number in range(3)] == [6, 5, 6]
    assert world.controller.alarms
    broken[0] = None
    world.wait(3_000, 6)
    assert world.controller.alarms == []
    assert world.partition(topic, 1).leader == 6
