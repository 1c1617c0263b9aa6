"""Who a request inside an Envelope is from, and which way its response goes."""

from typing import Any

import pytest

from kraftd.controller.context import Client
from kraftd.controller.operations import WriteOperation
from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.protocol.codec import Request
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.principal import ANONYMOUS, Principal
from kraftd.raft.effects import ReadDone
from kraftd.runtime.envelopes import Envelopes, ForwardedClient
from kraftd.runtime.request_router import RequestRouter
from tests.principals import encode_principal
from tests.unit.runtime.test_controller_apis import Connection, apis

ALICE = Principal("User", "alice", token_authenticated=True)
V6 = bytes.fromhex("20010db8000000000000000000000001")


class Quiet:
    """A log in which nobody reads."""

    def warning(self, _event: str, *, key: object, **_fields: object) -> None:
        pass


def envelope(
    message: Any, version: int = 1, *, address: bytes = bytes((192, 0, 2, 7)), broker: str | None = "12"
) -> Request:
    frame = b"".join(KAFKA.encode_request(version, 77, "a-client", message))[4:]
    inner = m.EnvelopeRequest(
        request_data=frame, request_principal=encode_principal(ALICE), client_host_address=address
    )
    return Request(m.EnvelopeRequest.API_KEY, 0, 5, broker, inner)


def router_of(handlers: Any) -> RequestRouter:
    router = RequestRouter()
    router.add(handlers)
    router.add(Envelopes(router, Quiet()).handlers)  # type: ignore[arg-type]
    return router


@pytest.mark.parametrize(("address", "host"), [(bytes((192, 0, 2, 7)), "192.0.2.7"), (V6, "2001:db8::1")])
def test_a_decision_sees_the_client_and_not_the_broker_that_forwarded_for_it(
    address: bytes, host: str
) -> None:
    seen = []

    def decide(context: Any, request: Any) -> Any:
        seen.append((context.client, context.version))
        return (), m.IncrementalAlterConfigsResponse()

    operation = WriteOperation(m.IncrementalAlterConfigsRequest, decide, lambda *_: None)
    made, core, broker = apis(operation)
    router = router_of(made.handlers)
    router.request_received(broker, envelope(m.IncrementalAlterConfigsRequest(), 1, address=address))
    router.request_received(broker, Request(44, 0, 6, "broker-1", m.IncrementalAlterConfigsRequest()))
    for read in core.events[:]:
        made.read_done(ReadDone(read.token, ErrorCode.NONE))
    assert seen == [
        (Client(ALICE, "a-client", host, "CONTROLLER", is_forwarded=True, forwarded_by=12), 1),
        (Client(ANONYMOUS, "broker-1", broker.host, "CONTROLLER"), 0),
    ]
    (_, correlation_id, response), _ = broker.replies
    assert (correlation_id, response.error_code) == (5, ErrorCode.NONE)
    inner = KAFKA.read_response(response.response_data)
    assert inner.correlation_id == 77
    assert inner.decode((44, 1)) == m.IncrementalAlterConfigsResponse()


@pytest.mark.parametrize(
    ("client_id", "broker_id"),
    [
        ("0", 0),
        ("2147483647", 2_147_483_647),
        ("kafka-7", -1),
        ("-5", -1),
        ("", -1),
        (None, -1),
        ("9" * 99, -1),
    ],
)
def test_who_forwards_under_a_name_that_is_no_id_is_nobody(client_id: str | None, broker_id: int) -> None:
    _, _, broker = apis()
    forwarded = envelope(m.IncrementalAlterConfigsRequest(), broker=client_id)
    assert ForwardedClient(broker, forwarded, Quiet()).session.forwarded_by == broker_id  # type: ignore[arg-type]


def test_of_a_principal_and_an_address_that_cannot_be_read_the_principal_is_told() -> None:
    broker = Connection()
    bad = m.EnvelopeRequest(request_data=b"", request_principal=b"\0\7", client_host_address=b"12345")
    router_of({}).request_received(broker, Request(m.EnvelopeRequest.API_KEY, 0, 5, "12", bad))  # type: ignore[arg-type]
    ((_, _, answered),) = broker.replies
    assert answered.error_code == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


def response_of(code: int) -> m.IncrementalAlterConfigsResponse:
    entries = [
        m.IncrementalAlterConfigsResponseAlterConfigsResourceResponse(error_code=each) for each in (0, code)
    ]
    return m.IncrementalAlterConfigsResponse(responses=tuple(entries))


@pytest.mark.parametrize(
    ("request_", "response", "error"),
    [
        (m.IncrementalAlterConfigsRequest(), response_of(ErrorCode.NOT_CONTROLLER), ErrorCode.NOT_CONTROLLER),
        (m.IncrementalAlterConfigsRequest(), response_of(ErrorCode.NOT_LEADER_OR_FOLLOWER), ErrorCode.NONE),
        (
            m.DescribeQuorumRequest(),
            m.DescribeQuorumResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ErrorCode.NOT_CONTROLLER,
        ),
    ],
)
def test_what_another_controller_has_to_serve_is_an_error_of_the_envelope(
    request_: Any, response: Any, error: ErrorCode
) -> None:
    broker = Connection()
    router = router_of({type(request_): lambda client, request: client.reply(1, 77, response)})
    router.request_received(broker, envelope(request_))  # type: ignore[arg-type]
    ((_, _, answered),) = broker.replies
    assert answered.error_code == error
    assert (answered.response_data is None) is (error is not ErrorCode.NONE)


def test_a_response_that_has_no_place_in_the_version_is_an_error_of_the_envelope() -> None:
    """It must not close the connection, on which a broker forwards for all its clients."""
    broker = Connection()
    unencodable = m.IncrementalAlterConfigsResponse(throttle_time_ms=1 << 40)
    router = router_of(
        {m.IncrementalAlterConfigsRequest: lambda client, request: client.reply(1, 7, unencodable)}
    )
    router.request_received(broker, envelope(m.IncrementalAlterConfigsRequest()))  # type: ignore[arg-type]
    ((_, _, answered),) = broker.replies
    assert (answered.error_code, answered.response_data) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


def test_who_answers_nothing_of_what_is_inside_says_so() -> None:
    broker = Connection()
    router = router_of({m.DescribeQuorumRequest: lambda client, request: None})
    router.request_received(broker, envelope(m.IncrementalAlterConfigsRequest()))  # type: ignore[arg-type]
    ((_, _, answered),) = broker.replies
    assert answered.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_what_only_brokers_send_is_not_served_inside_an_envelope() -> None:
    broker = Connection()
    router = router_of({m.BrokerHeartbeatRequest: lambda client, request: client.reply(2, 77, None)})
    router.request_received(broker, envelope(m.BrokerHeartbeatRequest()))  # type: ignore[arg-type]
    ((_, _, answered),) = broker.replies
    assert (answered.error_code, answered.response_data) == (ErrorCode.INVALID_REQUEST, None)
