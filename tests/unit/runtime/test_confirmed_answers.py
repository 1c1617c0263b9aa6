"""What people are told without a write waits for a confirmed leader, and how much may is bounded."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import pytest

from kraftd.controller.admin_apis import OPERATIONS
from kraftd.controller.context import Context
from kraftd.controller.event_queue import EventClass
from kraftd.controller.operations import WriteOperation
from kraftd.controller.plans import Plan
from kraftd.errors import ErrorCode
from kraftd.protocol.limits import BYTES_AN_ELEMENT, CONFIRMED_ELEMENTS_MAX
from kraftd.raft.effects import AppendDone, ReadDone
from kraftd.raft.events import AppendRequested, ReadRequested
from kraftd.records.messages import ConfigRecord
from tests.unit.runtime.test_controller_apis import (
    NOW,
    TOY_REFUSAL,
    Connection,
    ToyRequest,
    ToyResponse,
    alter,
    apis,
    receive,
    request,
    toy_refusal,
)

HALF = ToyRequest(names=("n",) * (CONFIRMED_ELEMENTS_MAX // 2 - 1))
"""Two of these may wait, and no third one."""


class SlicedPlan(Plan):
    """Writes one record a slice, as often as it is told, and ends with a slice that has none."""

    kind = "Toy"

    def __init__(self, writes: int) -> None:
        self.writes = writes
        self.is_begun = False

    def advance(self, _context: Context) -> tuple[Sequence[ConfigRecord], bool]:
        if not self.is_begun:
            self.is_begun = True
            return [ConfigRecord(4, "1", "toy", str(n)) for n in range(self.writes)], False
        return [], True

    def response(self) -> ToyResponse:
        return ToyResponse(text="done")


def sliced(writes: int) -> WriteOperation[ToyRequest]:
    return WriteOperation(
        ToyRequest, lambda _context, _request: SlicedPlan(writes), toy_refusal, event_class=EventClass.WRITES
    )


def refused(connection: Connection) -> list[int]:
    """The requests for which there was no room."""
    return [
        correlation_id
        for _, correlation_id, response in connection.replies
        if getattr(response, "error", None) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    ]


@pytest.mark.covers("D-16")
def test_what_is_done_in_slices_and_writes_nothing_is_bounded_with_the_rest() -> None:
    made, core, connection = apis(sliced(writes=0))
    for number in range(3):
        receive(made, connection, request(HALF, number))
    while made._controller.has_next_slice:
        made.run(NOW)
    assert refused(connection) == [2]
    for read in core.events:
        made.read_done(ReadDone(read.token, ErrorCode.NONE))
    assert [correlation_id for _, correlation_id, _ in connection.replies] == [2, 0, 1]
    assert made._confirmed_elements == 0


@pytest.mark.covers("D-12", "D-13")
def test_what_has_written_slices_is_confirmed_by_them() -> None:
    """And "not appended", which a read is refused with, would not be true of it."""
    made, core, connection = apis(sliced(writes=1))
    receive(made, connection, request(HALF, 1))
    while made._controller.has_next_slice:
        made.run(NOW)
    (write,) = core.events
    assert isinstance(write, AppendRequested)
    made.append_done(AppendDone(write.token, ErrorCode.NONE, 99))
    assert connection.replies == [(0, 1, ToyResponse(text="done"))]
    assert not any(isinstance(event, ReadRequested) for event in core.events)


@pytest.mark.covers("D-16")
@pytest.mark.parametrize("ended", ["before it comes", "while it waits"])
@pytest.mark.parametrize("outcome", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
def test_what_waits_for_a_write_that_fails_gives_its_room_back(ended: str, outcome: ErrorCode) -> None:
    made, core, connection = apis(TOY_REFUSAL, *OPERATIONS)
    receive(made, connection, request(alter("a"), 1))
    if ended == "while it waits":
        receive(made, connection, request(HALF, 2))
    made.append_done(AppendDone(core.events.pop().token, outcome))
    for number in (3, 4):
        receive(made, connection, request(HALF, number))
    for read in core.events:
        made.read_done(ReadDone(read.token, ErrorCode.NONE))
    assert refused(connection) == []
    assert made._confirmed_elements == 0


class Named(msgspec.Struct, frozen=True):
    """What a request names, and what that has in it."""

    name: str = "n"
    numbers: tuple[int, ...] = ()
    more: "tuple[Named, ...]" = ()


class NestedRequest(msgspec.Struct, frozen=True):
    """A request with lists in lists."""

    API_KEY: ClassVar[int] = 1_235
    NAME: ClassVar[str] = "Nested"

    named: tuple[Named, ...] = ()


MANY = CONFIRMED_ELEMENTS_MAX // 2


@pytest.mark.covers("D-16")
@pytest.mark.parametrize(
    "named",
    [
        Named(numbers=tuple(range(MANY))),
        Named(more=(Named(numbers=tuple(range(MANY))),)),
        Named(name="n" * (MANY * BYTES_AN_ELEMENT)),
    ],
    ids=["in its lists", "in theirs", "in bytes"],
)
def test_all_that_a_request_holds_counts(named: Named) -> None:
    def decide(_context: Context, _request: Any) -> tuple[list[ConfigRecord], ToyResponse]:
        return [], ToyResponse()

    operation = WriteOperation(NestedRequest, decide, toy_refusal, event_class=EventClass.WRITES)
    made, _, connection = apis(operation)
    for number in range(3):
        receive(made, connection, request(NestedRequest((named,)), number))
    assert refused(connection) == [1, 2]
