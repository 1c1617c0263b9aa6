"""Each request gets exactly one reply, and what is asked of the core for it carries a deadline."""

from typing import Any, ClassVar

import msgspec
import pytest
from msgspec.structs import replace

from kraftd.controller.activation import registration_of
from kraftd.controller.admin_apis import OPERATIONS
from kraftd.controller.brokers.heartbeats import BROKER_HEARTBEAT
from kraftd.controller.context import Client, Context
from kraftd.controller.event_queue import EventClass
from kraftd.controller.operations import Operation, ReadOperation, WriteOperation
from kraftd.controller.quorum_controller import QuorumController
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import bootstrap_records
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.protocol.codec import Request
from kraftd.protocol.limits import CLIENT_ID_MAX, CONFIRMED_ELEMENTS_MAX, RESIGN_TIMEOUT_MS_MAX
from kraftd.protocol.messages import (
    BrokerHeartbeatRequest,
    HandshakeRequest,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ListConfigsRequest,
    ListConfigsResponse,
    ResignLeaderRequest,
)
from kraftd.raft.effects import AppendDone, ReadDone, ResignDone
from kraftd.raft.events import AppendRequested, ReadRequested, ResignRequested
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import decode_record
from kraftd.records.messages import ConfigRecord
from kraftd.runtime.controller_apis import ControllerApis
from kraftd.runtime.request_router import RequestRouter
from kraftd.types import Endpoint, Now

NOW = Now(10_000, 1)
TIMEOUT_MS = 700


class Connection:
    """Whoever asked."""

    number, host, client = 1, "10.0.0.9", None
    session = Client(host=host, listener="CONTROLLER")

    def __init__(self) -> None:
        self.replies: list[tuple[int, int, Any]] = []
        self.rejected: list[str] = []

    def reply(self, version: int, correlation_id: int, message: Any, records: Any = ()) -> None:
        self.replies.append((version, correlation_id, message))

    def reject(self, reason: str) -> None:
        self.rejected.append(reason)


class RaftState:
    """Driver and leadership in one: what was delivered, and who leads."""

    leader_id = 1

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.room_bytes = 1 << 20
        self.now_ms = NOW.mono_ms

    def append_room_bytes(self, _epoch: int, *, is_urgent: bool) -> int:
        return self.room_bytes

    def deliver(self, event: Any) -> None:
        self.events.append(event)

    def now(self) -> Now:
        return Now(self.now_ms, NOW.wall_ms)


def apis(*operations: Operation, active: bool = True) -> tuple[ControllerApis, RaftState, Connection]:
    controller = QuorumController(
        me=registration_of(1, bytes(15) + b"\x01", [Endpoint("h", 1)]),
        bootstrap=bootstrap_records(),
        operations=operations or OPERATIONS,
    )
    core = RaftState()
    made = ControllerApis(
        core,
        controller,
        core,
        request_timeout_ms=TIMEOUT_MS,
        clock_ns=lambda: NOW.mono_ms * 1_000_000,
        on_shutdown_ready=lambda _: None,
    )
    if active:
        controller.leader_changed(3, 1, is_self=True)
        made.run(NOW)
        first = core.events.pop()
        controller.apply(CommittedBatch(0, len(first.records), 3, 1, first.records))
        made.append_done(AppendDone(first.token, ErrorCode.NONE, len(first.records)))
    return made, core, Connection()


def alter(value: str) -> IncrementalAlterConfigsRequest:
    config = IncrementalAlterConfigsRequestAlterableConfig(
        name="ssl.cipher.suites", config_operation=0, value=value
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=4, resource_name="1", configs=(config,)
    )
    return IncrementalAlterConfigsRequest(resources=(resource,))


def request(message: Any, correlation_id: int = 5) -> Request:
    return Request(message.API_KEY, 0, correlation_id, "test", message)


def receive(made: ControllerApis, connection: Any, request: Request) -> None:
    """As the server does it: through the router."""
    router = RequestRouter()
    router.add(made.handlers)
    router.request_received(connection, request)


def test_of_a_long_client_id_a_connection_keeps_nothing_and_the_decision_is_told_all() -> None:
    """On Kafka's wire it may have 32,767 bytes, and a quota may name it."""
    made, _, connection = apis()
    told: list[str | None] = []
    handle = made._controller.handle
    made._controller.handle = lambda message, now, version, client: (  # type: ignore[method-assign]
        told.append(client.client_id) or handle(message, now, version, client)  # type: ignore[func-returns-value]
    )
    for length in (1, CLIENT_ID_MAX, CLIENT_ID_MAX + 1, 32_767):
        receive(made, connection, replace(request(alter("x")), client_id="c" * length))
        kept = connection.client
        assert (kept is not None and kept.client_id == "c" * length) == (length <= CLIENT_ID_MAX)
    assert [len(client_id or "") for client_id in told] == [1, CLIENT_ID_MAX, CLIENT_ID_MAX + 1, 32_767]


@pytest.mark.covers("D-13")
def test_a_write_is_appended_with_a_deadline_and_answered_once_it_is_committed() -> None:
    made, core, connection = apis()
    receive(made, connection, request(alter("x"), 77))
    (append,) = core.events
    assert isinstance(append, AppendRequested)
    assert (append.epoch, append.deadline_ms) == (3, NOW.mono_ms + TIMEOUT_MS)
    assert connection.replies == []
    made.append_done(AppendDone(append.token, ErrorCode.NONE, 99))
    ((version, correlation_id, response),) = connection.replies
    assert (version, correlation_id) == (0, 77)
    assert response.responses[0].error_code == ErrorCode.NONE


@pytest.mark.covers("D-13")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ErrorCode.NOT_CONTROLLER, "Not appended"),
        (ErrorCode.REQUEST_TIMED_OUT, "outcome unknown"),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, "Not appended"),
        (ErrorCode.POLICY_VIOLATION, "Not appended"),
    ],
)
def test_a_write_that_failed_is_answered_with_what_that_means(error: ErrorCode, text: str) -> None:
    made, core, connection = apis()
    receive(made, connection, request(alter("x")))
    made.append_done(AppendDone(core.events[0].token, error))
    (result,) = connection.replies[0][2].responses
    assert result.error_code == error
    assert text in result.error_message


def test_a_node_that_does_not_lead_answers_at_once() -> None:
    made, core, connection = apis(active=False)
    receive(made, connection, request(alter("x"), 1))
    receive(made, connection, request(ListConfigsRequest(), 2))
    assert core.events == []
    assert [correlation_id for _, correlation_id, _ in connection.replies] == [1, 2]
    assert connection.replies[1][2].error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.covers("D-12")
def test_a_read_waits_for_a_confirmed_leader() -> None:
    made, core, connection = apis()
    receive(made, connection, request(ListConfigsRequest()))
    (read,) = core.events
    assert read == ReadRequested(read.token, NOW.mono_ms + TIMEOUT_MS)
    assert connection.replies == []
    made.read_done(ReadDone(read.token, ErrorCode.NONE))
    response = connection.replies[0][2]
    assert isinstance(response, ListConfigsResponse)
    assert response.error_code == ErrorCode.NONE
    assert response.applied_offset > 0


def test_a_resignation_is_answered_with_where_leadership_went() -> None:
    made, core, connection = apis()
    receive(made, connection, request(ResignLeaderRequest(to=3, timeout_ms=50)))
    (resign,) = core.events
    assert resign == ResignRequested(resign.token, 3, NOW.mono_ms + 50)
    made.resign_done(ResignDone(resign.token, ErrorCode.NONE, 3, 3))
    response = connection.replies[0][2]
    assert (response.error_code, response.epoch, response.successor) == (0, 3, 3)


def test_nobody_says_for_how_many_days_a_leader_waits_for_its_successor() -> None:
    made, core, connection = apis()
    receive(made, connection, request(ResignLeaderRequest(to=3, timeout_ms=(1 << 31) - 1)))
    (resign,) = core.events
    assert resign == ResignRequested(resign.token, 3, NOW.mono_ms + RESIGN_TIMEOUT_MS_MAX)


def test_a_refused_resignation_says_why() -> None:
    made, core, connection = apis()
    receive(made, connection, request(ResignLeaderRequest(to=9)))
    made.resign_done(ResignDone(core.events[0].token, ErrorCode.INVALID_REQUEST, 3, -1, "9 is no voter"))
    response = connection.replies[0][2]
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, "9 is no voter")


def test_a_second_greeting_is_no_request() -> None:
    made, _, connection = apis()
    receive(made, connection, request(HandshakeRequest()))
    assert connection.rejected == ["HandshakeRequest after the handshake"]


def test_requests_that_wait_are_counted() -> None:
    made, _, connection = apis()
    receive(made, connection, request(alter("x")))
    receive(made, connection, request(ListConfigsRequest()))
    assert made.statistics() == {"appends": 1, "plans": 0, "reads": 1, "resignations": 0}


class ToyRequest(msgspec.Struct, frozen=True):
    """A request of an API that no other module knows."""

    API_KEY: ClassVar[int] = 1_234
    NAME: ClassVar[str] = "Toy"

    value: str = "1"
    names: tuple[str, ...] = ()


class ToyResponse(msgspec.Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    text: str = ""


def toy_records(context: Context, request: ToyRequest) -> tuple[list[ConfigRecord], ToyResponse]:
    before = context.image[CONFIGS].get(4, "1", "toy") or ""
    return [ConfigRecord(4, "1", "toy", before + request.value)], ToyResponse(text=before + request.value)


def toy_read(image: MetadataImage, applied_offset: int, _request: ToyRequest) -> ToyResponse:
    return ToyResponse(text=f"{image[CONFIGS].get(4, '1', 'toy')} before {applied_offset}")


def toy_refusal(_request: ToyRequest, error: ErrorCode, text: str) -> ToyResponse:
    return ToyResponse(error, text)


TOY_WRITE = WriteOperation(ToyRequest, toy_records, toy_refusal)
TOY_READ = ReadOperation(ToyRequest, toy_read, toy_refusal)


def test_an_api_of_its_own_is_decided_and_answered_once_it_is_committed() -> None:
    made, core, connection = apis(TOY_WRITE)
    receive(made, connection, request(ToyRequest("a"), 1))
    receive(made, connection, request(ToyRequest("b"), 2))
    first, second = core.events
    assert [decode_record(value) for value in first.records + second.records] == [
        ConfigRecord(4, "1", "toy", "a"),
        ConfigRecord(4, "1", "toy", "ab"),
    ]
    assert connection.replies == []
    made.append_done(AppendDone(first.token, ErrorCode.NONE, 99))
    made.append_done(AppendDone(second.token, ErrorCode.NONE, 100))
    assert connection.replies == [(0, 1, ToyResponse(text="a")), (0, 2, ToyResponse(text="ab"))]


@pytest.mark.parametrize("operation", [TOY_WRITE, TOY_READ])
def test_an_api_of_its_own_is_refused_by_a_node_that_does_not_lead(operation: Operation) -> None:
    made, core, connection = apis(operation, active=False)
    receive(made, connection, request(ToyRequest()))
    assert core.events == []
    ((_, _, response),) = connection.replies
    assert response.error == ErrorCode.NOT_CONTROLLER
    assert "his node is not the active controller" in response.text


def test_an_api_of_its_own_is_refused_when_its_time_is_up() -> None:
    made, core, connection = apis(TOY_WRITE)
    receive(made, connection, request(ToyRequest()))
    made.append_done(AppendDone(core.events[0].token, ErrorCode.REQUEST_TIMED_OUT))
    ((_, _, response),) = connection.replies
    assert response.error == ErrorCode.REQUEST_TIMED_OUT
    assert "outcome unknown" in response.text


def nothing_to_write(_context: Context, request: ToyRequest) -> tuple[list[ConfigRecord], ToyResponse]:
    return [], ToyResponse(text=request.value)


TOY_HEARTBEAT = WriteOperation(ToyRequest, nothing_to_write, toy_refusal, event_class=EventClass.SESSIONS)
TOY_REFUSAL = replace(TOY_HEARTBEAT, event_class=EventClass.WRITES)


@pytest.mark.covers("D-13")
@pytest.mark.parametrize("outcome", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])
def test_a_response_without_records_waits_for_no_write_that_has_ended(outcome: ErrorCode) -> None:
    """Between the commit of a write and its application, which comes at the end of the turn."""
    made, core, connection = apis(TOY_HEARTBEAT, *OPERATIONS)
    receive(made, connection, request(alter("a"), 1))
    made.append_done(AppendDone(core.events[0].token, outcome, 99))
    receive(made, connection, request(ToyRequest("at once"), 2))
    _, (_, correlation_id, response) = connection.replies
    assert (correlation_id, response.error) == (2, outcome)


@pytest.mark.covers("D-12")
@pytest.mark.parametrize("outcome", [ErrorCode.NONE, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
def test_what_people_are_told_waits_for_the_write_before_it_and_then_for_a_confirmed_leader(
    outcome: ErrorCode,
) -> None:
    made, core, connection = apis(TOY_REFUSAL, *OPERATIONS)
    receive(made, connection, request(alter("a"), 1))
    (write,) = core.events
    receive(made, connection, request(ToyRequest("later"), 2))
    assert core.events == [write]
    made.append_done(AppendDone(write.token, ErrorCode.NONE, 99))
    _, read = core.events
    assert [correlation_id for _, correlation_id, _ in connection.replies] == [1]
    made.read_done(ReadDone(read.token, outcome))
    _, (_, correlation_id, response) = connection.replies
    assert (correlation_id, response.error) == (2, outcome)


@pytest.mark.covers("D-12")
def test_what_people_are_told_between_a_commit_and_its_application_is_confirmed() -> None:
    made, core, connection = apis(TOY_REFUSAL, *OPERATIONS)
    receive(made, connection, request(alter("a"), 1))
    made.append_done(AppendDone(core.events[0].token, ErrorCode.NONE, 99))
    receive(made, connection, request(ToyRequest("at once"), 2))
    assert [correlation_id for _, correlation_id, _ in connection.replies] == [1]
    assert type(core.events[-1]) is ReadRequested


@pytest.mark.covers("D-13")
def test_a_request_that_waits_twice_waits_no_longer_than_one_that_waits_once() -> None:
    made, core, connection = apis(TOY_REFUSAL, *OPERATIONS)
    receive(made, connection, request(alter("a"), 1))
    receive(made, connection, request(ToyRequest("twice"), 2))
    core.now_ms += TIMEOUT_MS - 1
    made.append_done(AppendDone(core.events[0].token, ErrorCode.NONE, 99))
    assert core.events[-1].deadline_ms == core.now_ms + 1


@pytest.mark.covers("D-16")
@pytest.mark.parametrize("outcome", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])
def test_what_waits_for_a_confirmed_leader_is_bounded_by_what_it_names(outcome: ErrorCode) -> None:
    """Else a leader that is cut off keeps, and then refuses in one turn, whatever it is asked."""
    made, core, connection = apis(TOY_REFUSAL, *OPERATIONS)
    large = ToyRequest(names=("n",) * (CONFIRMED_ELEMENTS_MAX // 2 - 1))
    for number in range(3):
        receive(made, connection, request(large, number))
    ((_, correlation_id, refused),) = connection.replies
    assert (correlation_id, refused.error) == (2, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert "safe to repeat later" in refused.text
    for read in core.events[:]:
        made.read_done(ReadDone(read.token, outcome))
    core.events.clear()
    receive(made, connection, request(ToyRequest(names=("n",) * (2 * CONFIRMED_ELEMENTS_MAX)), 3))
    assert len(core.events) == 1, "one alone may be larger"
    receive(made, connection, request(ToyRequest(), 4))
    assert connection.replies[-1][2].error == ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.covers("D-16")
def test_brokers_are_not_refused_for_what_waits_for_a_confirmed_leader() -> None:
    made, core, connection = apis(TOY_REFUSAL, *OPERATIONS)
    receive(made, connection, request(alter("a"), 1))
    receive(made, connection, request(ToyRequest(names=("n",) * (2 * CONFIRMED_ELEMENTS_MAX)), 2))
    beat = BrokerHeartbeatRequest(broker_id=7, broker_epoch=1)
    receive(made, connection, request(beat, 3))
    made.append_done(AppendDone(core.events[0].token, ErrorCode.NONE, 99))
    errors = [
        response.error_code for _, correlation_id, response in connection.replies if correlation_id == 3
    ]
    assert ErrorCode.THROTTLING_QUOTA_EXCEEDED not in errors


def test_an_api_of_its_own_is_read_once_the_leader_is_confirmed() -> None:
    made, core, connection = apis(TOY_READ)
    for error in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
        receive(made, connection, request(ToyRequest()))
        made.read_done(ReadDone(core.events.pop().token, error))
    (_, _, response), (_, _, refused) = connection.replies
    assert response.text.startswith("None before")
    assert refused.error == ErrorCode.REQUEST_TIMED_OUT
    assert "did not confirm the leader" in refused.text


def test_an_api_that_is_not_registered_is_rejected() -> None:
    made, _, connection = apis()
    receive(made, connection, request(ToyRequest()))
    assert connection.rejected == ["Toy after the handshake"]


class SlowClock:
    """Handling anything takes as long as it is told."""

    def __init__(self) -> None:
        self.took_ms = 0
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += self.took_ms * 1_000_000
        return self.now_ns


def test_in_a_turn_that_was_long_requests_wait_for_the_next_and_late_ones_are_refused() -> None:
    made, core, connection = apis(TOY_WRITE)
    clock = SlowClock()
    made._clock_ns = clock
    clock.took_ms = 20
    receive(made, connection, request(ToyRequest("a"), 1))
    assert len(core.events) == 1
    for number in (2, 3):
        receive(made, connection, request(ToyRequest("b"), number))
    assert len(core.events) == 1
    assert made.wake_at_ms() == 0
    clock.took_ms = 0
    made.run(Now(NOW.mono_ms + TIMEOUT_MS, 1))
    assert len(core.events) == 1
    assert [(number, response.error) for _, number, response in connection.replies] == [
        (2, ErrorCode.REQUEST_TIMED_OUT),
        (3, ErrorCode.REQUEST_TIMED_OUT),
    ]
    receive(made, connection, request(ToyRequest("c"), 4))
    assert len(core.events) == 2


def test_a_read_that_raises_is_answered_and_ends_nothing() -> None:
    def fail(_image: MetadataImage, _offset: int, _request: ToyRequest) -> ToyResponse:
        raise KeyError("planted")

    made, core, connection = apis(ReadOperation(ToyRequest, fail, toy_refusal))
    receive(made, connection, request(ToyRequest()))
    made.read_done(ReadDone(core.events.pop().token, ErrorCode.NONE))
    assert connection.replies[0][2].error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_heartbeat_that_waits_keeps_the_session_alive_and_a_late_one_does_nothing_more() -> None:
    """KAFKA-17793: while the controller is busy, nobody is fenced for what waits in its queue."""
    made, _, connection = apis(BROKER_HEARTBEAT, TOY_WRITE)
    sessions, clock = made._controller.sessions, SlowClock()
    sessions.registered(5, 40, 40)
    sessions.heard(5, 40, -1, 0)
    made._clock_ns = clock
    clock.took_ms = 20
    heartbeat = BrokerHeartbeatRequest(broker_id=5, broker_epoch=40, current_metadata_offset=41)
    for number in (1, 2):
        receive(made, connection, Request(63, 2, number, "5", heartbeat))
    assert made.queue.waiting()["sessions"] == 1
    assert sessions.is_alive(5, 40, NOW.mono_ms + sessions.timeout_ms - 1)
    made.run(Now(NOW.mono_ms + 1_000, 1))
    assert connection.replies[-1][2].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert made.timed_out_heartbeats == 1
