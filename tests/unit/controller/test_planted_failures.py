"""What raises in a decision costs its own request, whatever it is, and nothing else (D-14, KAFKA-14204)."""

from types import MappingProxyType
from typing import get_args, get_origin

import pytest
from msgspec import Struct
from msgspec.structs import fields, replace

from kraftd.controller.admin_apis import OPERATIONS
from kraftd.controller.decisions import ImmediateResponse, NeedsRead
from kraftd.controller.operations import WriteOperation
from kraftd.errors import ErrorCode
from kraftd.records.messages import NoOpRecord
from tests.unit.controller.broker_world import BrokerWorld

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


def test_a_controller_that_is_not_active_answers_every_request():
    world = BrokerWorld()
    world.controller.leader_changed(world.epoch + 1, 2, is_self=False)
    for operation in OPERATIONS:
        assert isinstance(world.controller.handle(operation.request(), world.now), ImmediateResponse)
