"""A partition that raises costs itself, whatever happened to its broker, and is done later (D-14, D-35)."""

from collections import defaultdict
from itertools import pairwise

import pytest

from kraftd.controller import plan_runner, timers
from kraftd.controller.activation import registration_of
from kraftd.controller.brokers import staged_plan
from kraftd.controller.brokers.heartbeats import change_of
from kraftd.controller.partitions import directory_assignment, in_sync
from kraftd.controller.partitions.broker_changes import PartitionChanges
from kraftd.controller.partitions.partition_rules import PartitionRules
from kraftd.controller.plans import Task
from kraftd.controller.token_secret import TokenSecret, TokenSettings
from kraftd.errors import ErrorCode
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.protocol.messages import (
    AlterPartitionRequest,
    AlterPartitionRequestBrokerState,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    UnregisterBrokerRequest,
)
from kraftd.records.messages import ConfigRecord, FeatureLevelRecord, PartitionChangeRecord
from kraftd.types import Endpoint
from tests.unit.controller.broker_world import ME, SESSION_MS, BrokerWorld, directory

BROKEN = 1
PARTITIONS = 7


class Fault:
    """While `on`, one step of the way of a change raises for one partition."""

    def __init__(self, monkeypatch, where):
        self.on = False
        WHERE[where](self, monkeypatch)

    def hurt(self, record):
        if self.on and isinstance(record, PartitionChangeRecord) and record.partition_id == BROKEN:
            raise KeyError("planted")


def decided(fault, monkeypatch):
    change = PartitionRules.change

    def raising(self, partition, *rest):
        fault.hurt(PartitionChangeRecord(partition.partition_id))
        return change(self, partition, *rest)

    monkeypatch.setattr(PartitionRules, "change", raising)


def encoded(fault, monkeypatch):
    encode = plan_runner.encode_allowed

    def raising(record, level):
        fault.hurt(record)
        return encode(record, level)

    monkeypatch.setattr(plan_runner, "encode_allowed", raising)


def applied(fault, monkeypatch):
    apply = ImageBuilder.apply

    def raising(self, record, offset):
        fault.hurt(record)
        apply(self, record, offset)

    monkeypatch.setattr(ImageBuilder, "apply", raising)


WHERE = {"decided": decided, "encoded": encoded, "applied": applied}


@pytest.fixture(params=WHERE)
def fault(request, monkeypatch):
    return Fault(monkeypatch, request.param)


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    for module in (staged_plan, in_sync):
        monkeypatch.setattr(module, "SLICE_RECORDS", 4)
    monkeypatch.setattr(directory_assignment, "_SLICE_PARTITIONS", 4)


def two_brokers(**settings):
    """Broker 5, with two directories, leads all partitions of a topic; broker 6 is in sync."""
    world = BrokerWorld(**settings)
    world.register(5, log_dirs=(directory(5), directory(5, 1)))
    world.beat(5)
    world.up(6)
    topic = world.topic(1, *[(5, 6)] * PARTITIONS)
    return world, topic


def alone():
    """Broker 5 had all partitions for itself, and is fenced: nobody leads them."""
    world = BrokerWorld()
    world.up(5, 6)
    topic = world.topic(1, *[(5,)] * PARTITIONS)
    world.beat(5, want_fence=True)
    return world, topic


def stops_halfway():
    """Broker 5 has begun to shut down, and the controller it asked died before it did anything else."""
    world, topic = two_brokers()
    world.append(change_of(world.broker(5), in_controlled_shutdown=True))
    world.controller.leader_changed(world.epoch, -1, is_self=False)
    return world, topic


def not_preferred():
    """Broker 5 was away, and is in sync again."""
    world, topic = two_brokers()
    world.beat(5, want_fence=True)
    world.beat(5)
    grow = [PartitionChangeRecord(number, topic, isr=(6, 5)) for number in range(PARTITIONS)]
    world.append(*grow)
    return world, topic


def unclean_by_now():
    """Broker 5 is gone, the only one in sync; broker 6 may lead, as the topic says since a moment."""
    world, topic = two_brokers()
    world.append(*[PartitionChangeRecord(number, topic, isr=(5,)) for number in range(PARTITIONS)])
    world.beat(5, want_fence=True)
    world.append(ConfigRecord(2, "t1", "unclean.leader.election.enable", "true"))
    return world, topic


def alter(world, topic):
    partitions = tuple(
        AlterPartitionRequestPartitionData(
            number,
            0,
            new_isr_with_epochs=(AlterPartitionRequestBrokerState(5, world.broker(5).broker_epoch),),
        )
        for number in range(PARTITIONS)
    )
    topics = (AlterPartitionRequestTopicData(topic, partitions),)
    response = world.ask(AlterPartitionRequest(5, world.broker(5).broker_epoch, topics), version=3)
    return [one.error_code for one in response.topics[0].partitions]


def assign(world, topic):
    numbers = tuple(map(AssignReplicasToDirsRequestPartitionData, range(PARTITIONS)))
    topics = (AssignReplicasToDirsRequestTopicData(topic, numbers),)
    where = (AssignReplicasToDirsRequestDirectoryData(directory(5, 1), topics),)
    response = world.ask(AssignReplicasToDirsRequest(5, world.broker(5).broker_epoch, where), version=0)
    return [one.error_code for one in response.directories[0].topics[0].partitions]


def restart(world):
    """Its session is over, and nobody has looked yet."""
    world.now_ms += SESSION_MS
    world.controller.sessions.heard(6, world.broker(6).broker_epoch, 0, world.now_ms)
    world.register(5, start=2)


EVENTS = {
    "fenced as it asked": (two_brokers, lambda world: world.beat(5, want_fence=True)),
    "silent": (two_brokers, lambda world: world.wait(SESSION_MS + 2_000, 6)),
    "shutting down": (two_brokers, lambda world: world.beat(5, stop=True)),
    "a directory lost": (two_brokers, lambda world: world.beat(5, offline_log_dirs=(directory(5),))),
    "restarted": (two_brokers, restart),
    "unregistered": (two_brokers, lambda world: world.ask(UnregisterBrokerRequest(5), version=0)),
    "unfenced": (alone, lambda world: world.beat(5)),
    "preferred": (not_preferred, lambda world: world.wait(300_000, 5, 6)),
    "a predecessor's": (stops_halfway, lambda world: world.lead(world.epoch + 1)),
}
REQUESTS = {"AlterPartition": alter, "AssignReplicasToDirs": assign}


def broker_of(world):
    broker = world.broker(5)
    return broker and (broker.incarnation_id, broker.fenced, broker.in_controlled_shutdown, broker.log_dirs)


def state(world, topic):
    partitions = [world.partition(topic, number) for number in range(PARTITIONS)]
    return [(one.leader, tuple(one.isr), one.directories) for one in partitions]


@pytest.mark.covers("D-35")
@pytest.mark.parametrize("event", EVENTS)
def test_a_partition_that_raises_is_left_out_an_alarm_and_done_later(event, fault):
    begin, happen = EVENTS[event]
    wanted_world, topic = begin()
    happen(wanted_world)
    wanted, wanted_broker = state(wanted_world, topic), broker_of(wanted_world)

    world, topic = begin()
    before = state(world, topic)
    assert before[BROKEN] != wanted[BROKEN]
    fault.on = True
    happen(world)
    left = state(world, topic)
    assert left[BROKEN] == before[BROKEN]
    assert [*left[:BROKEN], *left[BROKEN + 1 :]] == [*wanted[:BROKEN], *wanted[BROKEN + 1 :]]
    assert broker_of(world) == wanted_broker
    assert world.controller.is_active
    assert world.controller.error_count > 0
    lines = [line.fields for line in world.lines if line.name == "decision_failed"]
    assert f"partition {BROKEN} of topic" in lines[0]["left_out"]
    assert lines[0]["others"] == 0
    (alarm,) = world.controller.alarms
    assert f"partition {BROKEN} of topic" in alarm
    assert "planted" in alarm

    world.wait(3_000, 6)
    assert len(world.controller.alarms) == 1
    fault.on = False
    world.wait(5_000, 6)
    assert world.controller.alarms == []
    assert state(world, topic) == wanted


@pytest.mark.covers("D-14")
@pytest.mark.parametrize("name", REQUESTS)
def test_a_partition_that_raises_in_a_request_is_told_so_and_the_others_are_done(name, fault):
    ask, (wanted_world, topic) = REQUESTS[name], two_brokers()
    assert ask(wanted_world, topic) == [ErrorCode.NONE] * PARTITIONS
    wanted = state(wanted_world, topic)

    world, topic = two_brokers()
    before = state(world, topic)
    fault.on = True
    told = ask(world, topic)
    assert told.pop(BROKEN) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert told == [ErrorCode.NONE] * (PARTITIONS - 1)
    left = state(world, topic)
    assert left[BROKEN] == before[BROKEN]
    assert [*left[:BROKEN], *left[BROKEN + 1 :]] == [*wanted[:BROKEN], *wanted[BROKEN + 1 :]]
    assert world.controller.is_active
    assert world.controller.error_count == 1
    assert f"partition {BROKEN} of topic" in world.line("decision_failed")["left_out"]
    assert not world.controller.alarms, "its leader asks again"


@pytest.mark.covers("D-35")
def test_what_was_left_out_is_repeated_though_the_broker_is_another_by_then(monkeypatch):
    """It lost a directory, is unfenced all the time, and has not the records of partition 1 any more."""
    fault = Fault(monkeypatch, "decided")
    world, topic = two_brokers()
    fault.on = True
    world.beat(5, offline_log_dirs=(directory(5),))
    fault.on = False
    world.wait(2_000, 5, 6)
    assert not world.broker(5).fenced
    assert state(world, topic)[BROKEN][:2] == (6, (6,))


def is_not_registered():
    """Another start stands in this controller's place, and a level has changed since."""
    world, topic = two_brokers()
    other = registration_of(ME, bytes([9]) * 16, [Endpoint("host", 9093)])
    world.append(other.to_record(), FeatureLevelRecord("transaction.version", 1))
    return world, topic


STAYS = defaultdict(tuple, {timers.ELECT_PREFERRED: (5,)})
"""Who goes on with its heartbeats besides broker 6."""


def some_due(kind):
    """A world in which a task of this kind will be due, and its topic."""
    if kind in (timers.FENCE_BROKER, timers.NO_OP):
        return two_brokers()
    if kind == timers.ELECT_PREFERRED:
        return not_preferred()
    if kind == timers.ELECT_UNCLEAN:
        return unclean_by_now()
    if kind == timers.REMOVE_ENDED_TOKENS:
        return two_brokers(tokens=TokenSettings(TokenSecret("s"), expiry_check_interval_ms=1_000))
    if kind == timers.REGISTER:
        return is_not_registered()
    assert kind == timers.FINISH, f"{kind} is a new one: say when it is due"
    world, topic = stops_halfway()
    world.epoch += 1
    return world, topic


@pytest.mark.covers("D-35")
@pytest.mark.parametrize("kind", timers.PLANS)
def test_a_timer_that_raises_is_an_alarm_and_repeated_after_1_to_60_s(kind, monkeypatch):
    world, topic = some_due(kind)
    make, times = timers.PLANS[kind], []

    def raising(context, task):
        if task == Task(timers.FINISH):  # it looks for leaders; another one sees to the broker that stops
            return make(context, task)
        times.append(world.now_ms)
        raise KeyError("planted")

    monkeypatch.setattr(timers, "PLANS", {**timers.PLANS, kind: raising})
    if not world.controller.is_active:
        world.lead(world.epoch)
    world.settle()
    world.wait(520_000, 6, *STAYS[kind])
    waits = [(then - now) // 1_000 for now, then in pairwise(times)]
    assert waits[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert world.controller.error_count == len(times)
    assert world.controller.is_active
    (alarm,) = world.controller.alarms
    assert kind in alarm
    assert "planted" in alarm
    assert not world.beat(6).is_fenced
    monkeypatch.setattr(timers, "PLANS", {**timers.PLANS, kind: make})
    world.wait(60_000, 6, *STAYS[kind])
    assert world.controller.alarms == []
    assert {leader for leader, *_ in state(world, topic)} == {5 if kind == timers.ELECT_PREFERRED else 6}


@pytest.mark.covers("D-35")
def test_finding_out_what_is_due_may_raise_and_costs_nothing_else(monkeypatch):
    world, topic = two_brokers()
    silent = timers.Timers._silent

    def raising(_self, _context):
        raise KeyError("planted")

    monkeypatch.setattr(timers.Timers, "_silent", raising)
    world.wait(SESSION_MS // 8 + 500, 6)
    for count in range(1, 30):
        (alarm,) = world.controller.alarms
        assert "planted" in alarm
        assert count <= world.controller.error_count <= 2 * count
        world.wait(SESSION_MS // 8 + 100, 6)
    assert not world.beat(6).is_fenced
    monkeypatch.setattr(timers.Timers, "_silent", silent)
    world.wait(SESSION_MS, 6)
    assert world.controller.alarms == []
    assert {leader for leader, *_ in state(world, topic)} == {6}


@pytest.mark.covers("D-35")
@pytest.mark.parametrize("nth", [1, 2])
def test_a_slice_that_raises_ends_its_plan_which_is_done_anew(nth, monkeypatch):
    """Fencing broker 5 raises in its first or second slice, for a reason that is in no partition."""
    world, topic = two_brokers()
    advance, count = staged_plan.StagedPlan.advance, [0]

    def raising(self, context):
        count[0] += 1
        if count[0] == nth:
            raise KeyError("planted")
        return advance(self, context)

    monkeypatch.setattr(staged_plan.StagedPlan, "advance", raising)
    world.wait(SESSION_MS + 1_000, 6, step_ms=100)
    world.now_ms += 500
    world.settle()
    assert "decision_failed" in world.events()
    assert world.controller.error_count == 1
    world.wait(4_000, 6)
    assert world.controller.alarms == []
    assert world.broker(5).fenced
    assert {leader for leader, *_ in state(world, topic)} == {6}


@pytest.mark.covers("D-14")
@pytest.mark.parametrize("nth", [1, 2])
def test_a_slice_of_a_request_that_raises_is_answered_and_costs_nothing_else(nth, monkeypatch):
    world, topic = two_brokers()
    advance, count = staged_plan.StagedPlan.advance, [0]

    def raising(self, context):
        count[0] += 1
        if count[0] == nth:
            raise KeyError("planted")
        return advance(self, context)

    monkeypatch.setattr(staged_plan.StagedPlan, "advance", raising)
    assert world.beat(5, want_fence=True).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.controller.is_active
    assert world.controller.error_count == 1
    assert not world.broker(5).fenced
    assert world.beat(5, want_fence=True).is_fenced
    assert {leader for leader, *_ in state(world, topic)} == {6}


@pytest.mark.covers("D-35")
def test_a_repetition_whose_last_slice_the_log_refuses_is_repeated(monkeypatch):
    """Which partition it was is known still, though the task was done when that slice was decided."""
    world, topic = two_brokers()
    next_changes = PartitionChanges.next

    def all_at_once(self, context, limit):
        records, is_done = [], False
        while not is_done:
            more, is_done = next_changes(self, context, limit)
            records += more
        return records, True

    fault = Fault(monkeypatch, "decided")
    fault.on = True
    world.beat(5, want_fence=True)
    fault.on = False
    monkeypatch.setattr(PartitionChanges, "next", all_at_once)
    refused, end_ms = [], world.now_ms + 5_000
    while len(refused) < 2:
        assert world.now_ms < end_ms
        world.now_ms += 100
        world.poll()
        refused += [write for write, _ in world.waiting if write.kind == timers.RETRY and write.is_last]
        world.refuse()
    assert world.partition(topic, BROKEN).leader == 5
    (alarm,) = [alarm for alarm in world.controller.alarms if timers.RETRY in alarm]
    assert "is repeated: the log refused it" in alarm
    world.wait(5_000, 6)
    assert world.partition(topic, BROKEN).leader == 6
    assert world.controller.alarms == []
