"""What raises in a decision costs its own request, whatever it is, and nothing else (D-14, KAFKA-14204)."""

from types import MappingProxyType
from typing import get_args, get_origin

import pytest
from msgspec import Struct
from msgspec.structs import astuple, fields, replace

from kraftd.controller import plan_runner
from kraftd.controller.admin_apis import OPERATIONS
from kraftd.controller.brokers.registration import RegistrationPlan
from kraftd.controller.brokers.staged_plan import StagedPlan
from kraftd.controller.brokers.unregistering import UNREGISTER_BROKER
from kraftd.controller.decisions import ImmediateResponse, NeedsRead
from kraftd.controller.operations import WriteOperation
from kraftd.controller.plan_runner import PlanRunner
from kraftd.controller.plans import SLICE_RECORDS
from kraftd.controller.sessions import BrokerSessions
from kraftd.controller.timers import Timers
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.protocol.messages import (
    BrokerHeartbeatRequest,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from kraftd.records.messages import NoOpRecord
from tests.unit.controller.broker_world import SESSION_MS, BrokerWorld

WRITES = [each for each in OPERATIONS if isinstance(each, WriteOperation)]
READS = [each for each in OPERATIONS if not isinstance(each, WriteOperation)]
NOTED = [each for each in WRITES if each.arrived is not None]


def planted(*_):
    raise KeyError("planted")


def planted_once(function):
    """A function that raises when it is called first."""
    calls = iter([planted])

    def raising_once(*arguments):
        return next(calls, function)(*arguments)

    return raising_once


def one_of_each(message):
    """A message of this type with one element in each of its lists, so that a response has one, too."""
    values = {}
    for field in fields(message):
        if get_origin(field.type) is tuple and is_struct(element := get_args(field.type)[0]):
            values[field.name] = (one_of_each(element),)
        elif field.name == "timeout_ms":
            values[field.name] = 1_000
    return message(**values)


def is_struct(kind):
    return isinstance(kind, type) and issubclass(kind, Struct)


def errors(message):
    """All error codes of a response, but for "none"."""
    found = set()
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name == "error_code":
            found.add(value)
        for each in value if isinstance(value, tuple) else ():
            found |= errors(each) if isinstance(each, Struct) else set()
    return found - {ErrorCode.NONE}


def name(operation):
    return operation.request.NAME


def world_with(operation):
    """A cluster with a broker, in which one operation is broken."""
    others = [operation if each.request is operation.request else each for each in OPERATIONS]
    return BrokerWorld(operations=others)


def goes_on(world):
    assert world.controller.error_count == 1
    assert world.line("decision_failed")["error"] == "KeyError: 'planted'"
    assert world.controller.is_active
    world.append(NoOpRecord())
    assert world.controller.in_flight == 0


@pytest.mark.covers("D-14")
@pytest.mark.parametrize("operation", WRITES, ids=name)
def test_a_decision_that_raises_is_answered_and_nothing_is_appended(operation):
    world = world_with(replace(operation, decide=planted_once(operation.decide)))
    at, request = len(world.log), one_of_each(operation.request)
    response = world.ask(request)
    assert errors(response) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert world.log[at:] == []
    goes_on(world)
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in errors(world.ask(request))
    assert world.controller.error_count == 1


@pytest.mark.covers("D-14")
@pytest.mark.parametrize("operation", READS, ids=name)
def test_a_read_that_raises_is_answered(operation):
    world = world_with(replace(operation, read=planted_once(operation.read)))
    request = one_of_each(operation.request)
    decision = world.controller.handle(request, world.now)
    assert isinstance(decision, NeedsRead)
    assert errors(decision.respond()) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    world.settle()
    goes_on(world)
    again = world.controller.handle(request, world.now)
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in errors(again.respond())
    assert world.controller.error_count == 1


@pytest.mark.covers("D-14")
@pytest.mark.parametrize("operation", NOTED, ids=name)
def test_what_cannot_be_noted_is_decided_all_the_same(operation):
    world = world_with(replace(operation, arrived=planted))
    response = world.ask(operation.request())
    assert response.error_code != ErrorCode.UNKNOWN_SERVER_ERROR
    failed = [MappingProxyType(dict(line.fields)) for line in world.lines if line.name == "decision_failed"]
    assert [line["kind"] for line in failed] == [operation.request.NAME]


@pytest.mark.covers("D-14")
def test_a_line_of_the_log_that_cannot_be_made_costs_that_line(monkeypatch):
    """KAFKA-14259: the text of a log line raised, and the controller with it."""
    world = BrokerWorld()
    monkeypatch.setattr("kraftd.controller.brokers.staged_plan.Stage.line", planted)
    world.up(5)
    assert not world.broker(5).fenced
    goes_on(world)


def stops(world):
    return world.beat(5, stop=True)


def is_fenced(world):
    return world.beat(5, want_fence=True)


def registers(world):
    return world.register(8)


def is_unregistered(world):
    return world.ask(UnregisterBrokerRequest(5), version=0)


BESIDE_THE_RECORDS = {
    "sessions-registered": (BrokerSessions, "registered", registers),
    "sessions-unregistered": (BrokerSessions, "unregistered", is_unregistered),
    "sessions-shutting-down": (BrokerSessions, "shutting_down", stops),
    "plan-appended": (StagedPlan, "appended", is_fenced),
    "plan-failures": (StagedPlan, "failures", stops),
    "plan-response": (StagedPlan, "response", is_fenced),
    "registration-appended": (RegistrationPlan, "appended", registers),
    "registration-response": (RegistrationPlan, "response", registers),
    "timers-brokers-changed": (Timers, "brokers_changed", registers),
    "timers-brokers-changed-after-unregistering": (Timers, "brokers_changed", is_unregistered),
    "runner-begin": (PlanRunner, "begin", stops),
}
"""What a last slice calls besides deciding and applying its records, and a request that comes by there."""


def sessions_of(world):
    """What the controller knows of brokers beside the log."""
    return {broker_id: astuple(session) for broker_id, session in world.controller.sessions.items()}


def up_to_its_offset(sessions):
    """Without what each heartbeat changes."""
    return {
        broker_id: (epoch, registered, shutdown)
        for broker_id, (epoch, registered, _, _, shutdown, _) in sessions.items()
    }


def raise_once(monkeypatch, place, name):
    """Let the next call of this raise."""
    monkeypatch.setattr(place, name, planted_once(getattr(place, name)))


@pytest.mark.covers("D-14")
@pytest.mark.parametrize(("place", "name", "asks"), BESIDE_THE_RECORDS.values(), ids=BESIDE_THE_RECORDS)
def test_what_raises_beside_the_records_costs_the_request_and_nothing_is_appended(
    place, name, asks, monkeypatch
):
    """The write counted as appended and never came to the log: the next commit ended the controller."""
    world = BrokerWorld()
    world.up(5, 6)
    world.topic(1, *[(5, 6)] * (SLICE_RECORDS + 10 if place is PlanRunner else 1))
    before, at = up_to_its_offset(sessions_of(world)), len(world.log)
    raise_once(monkeypatch, place, name)
    response = asks(world)
    assert errors(response) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert world.log[at:] == []
    assert up_to_its_offset(sessions_of(world)) == before
    goes_on(world)
    assert errors(asks(world)) == set()
    assert len(world.log) > at
    assert world.controller.error_count == 1


@pytest.mark.covers("D-35")
@pytest.mark.parametrize(
    ("place", "name"),
    [
        (BrokerSessions, "over"),
        (StagedPlan, "appended"),
        (StagedPlan, "failures"),
        (Timers, "brokers_changed"),
    ],
)
def test_what_raises_beside_the_records_of_a_timer_is_an_alarm_and_repeated(place, name, monkeypatch):
    """Broker 5 is silent, and its fencing raises behind its last record: it is fenced a second later."""
    world = BrokerWorld()
    world.up(5, 6)
    topic = world.topic(1, (5, 6))
    world.now_ms += SESSION_MS - 500
    world.beat(6)
    world.now_ms += 1_200
    raise_once(monkeypatch, place, name)
    world.settle()
    assert not world.broker(5).fenced
    (alarm,) = world.controller.alarms
    assert "failed once, is repeated: KeyError: 'planted'" in alarm
    goes_on(world)
    world.wait(2_000, 6)
    assert world.broker(5).fenced
    assert world.partition(topic).leader == 6
    assert world.controller.alarms == []
    assert world.controller.error_count == 1


@pytest.mark.covers("D-35")
def test_a_no_op_that_cannot_be_written_is_an_alarm_and_repeated(monkeypatch):
    world = BrokerWorld()
    with monkeypatch.context() as patches:
        patches.setattr(plan_runner, "encode_allowed", planted)
        world.wait(2_600)
    (alarm,) = world.controller.alarms
    assert alarm.startswith("NoOp: failed 2 times, is repeated: KeyError: 'planted'")
    world.wait(2_000)
    assert world.controller.alarms == []
    assert world.records(NoOpRecord)


@pytest.mark.covers("D-13")
def test_a_write_that_had_to_wait_for_a_plan_is_withdrawn_if_the_log_refuses_it():
    """What is appended then is the very write that counts as appended, and no copy of it."""

    def decide(context, request):
        if not context.image[BROKERS].get(5).fenced:
            return UNREGISTER_BROKER.decide(context, request)
        return (NoOpRecord(),), UnregisterBrokerResponse()

    world = world_with(replace(UNREGISTER_BROKER, decide=decide))
    world.up(5, 6)
    world.topic(1, *[(5, 6)] * (SLICE_RECORDS + 10))
    fenced = world.send(BrokerHeartbeatRequest(5, world.broker(5).broker_epoch, 1 << 40, want_fence=True), 2)
    waiting = world.send(UnregisterBrokerRequest(5), version=0)
    while waiting not in world.answers:
        world.commit()
        if world.slice().slice_of.request == UnregisterBrokerRequest(5):
            world.refuse()
    assert errors(world.answers.pop(waiting)) == {ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert errors(world.answers.pop(fenced)) == set()
    assert world.controller.in_flight == 0
    world.append(NoOpRecord())
    assert world.controller.in_flight == 0


def test_a_controller_that_is_not_active_answers_every_request():
    world = BrokerWorld()
    world.controller.leader_changed(world.epoch + 1, 2, is_self=False)
    for operation in OPERATIONS:
        assert isinstance(world.controller.handle(operation.request(), world.now), ImmediateResponse)
