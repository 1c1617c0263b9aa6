"""A request whose handler raises is answered so, once, whatever it was; the quorum's own end the process."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from kraftd.controller.admin_apis import OPERATIONS
from kraftd.errors import ErrorCode, StorageError, UnencodableError
from kraftd.protocol import messages as m
from kraftd.protocol.codec import Request
from kraftd.protocol.error_codes import has_error
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.protocol.principal import ANONYMOUS
from kraftd.runtime.envelopes import Envelopes
from kraftd.runtime.request_failures import RequestFailures
from kraftd.runtime.request_router import RequestRouter
from tests.principals import encode_principal
from tests.unit.controller.test_planted_failures import one_of_each, planted
from tests.unit.runtime.test_controller_apis import Connection, apis

QUORUM = get_args(m.QuorumRequest)
OTHERS = [
    *(operation.request for operation in OPERATIONS),
    m.ApiVersionsRequest,
    m.DescribeClusterRequest,
    m.DescribeEventsRequest,
    m.DescribeNodeRequest,
    m.EnvelopeRequest,
    m.ExportChunkRequest,
    m.ExportManifestRequest,
    m.FetchCommittedRequest,
    m.ResignLeaderRequest,
]


class Asking(Connection):
    """Whoever asked, and how its requests ended."""

    def give_up(self, version: int, correlation_id: int, response: Any) -> None:
        self.reply(version, correlation_id, response)


class World:
    """A router whose handlers raise, and what becomes of that."""

    def __init__(self) -> None:
        self.driver: Any = SimpleNamespace(has_failed=False)
        self.controller = apis()[0]._controller
        self.lines: list[Any] = []
        self.failures = RequestFailures(self.driver, self.controller, self.lines.append)
        self.router = RequestRouter()
        self.router.failed = self.failures.settle
        self.router.add(dict.fromkeys((*OTHERS, *QUORUM), planted))
        self.asking = Asking()

    def ask(self, message: Any, version: int = 0) -> Any:
        request = Request(message.API_KEY, version, 5, "test", message)
        self.router.request_received(self.asking, request)  # type: ignore[arg-type]
        (answer,) = self.asking.replies
        assert answer[:2] == (version, 5)
        return answer[2]


def in_each_version(request: Any, response: Any) -> Iterator[bytes]:
    """A response, as it goes out in each version of each wire that has such a request."""
    for codec in (KAFKA, MSGPACK):
        api = codec.apis.get(request.API_KEY)
        for version in range(api.min_version, api.max_version + 1) if api is not None else ():
            try:
                codec.encode_request(version, 5, "test", request)
            except UnencodableError:
                continue
            yield b"".join(codec.encode_response(version, 5, response))


@pytest.mark.covers("D-14")
@pytest.mark.parametrize("api", OTHERS, ids=lambda api: api.NAME)
def test_a_request_whose_handler_raises_is_answered_logged_and_counted(api: Any) -> None:
    world = World()
    request = one_of_each(api)
    response = world.ask(request)
    assert has_error(response, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert api.NAME.replace("Request", "Response") == response.NAME
    assert all(in_each_version(request, response))
    (line,) = world.lines
    assert (line.name, line.fields["kind"]) == ("decision_failed", api.NAME)
    assert world.controller.error_count == 1


@pytest.mark.covers("D-17")
@pytest.mark.parametrize("api", QUORUM, ids=lambda api: api.NAME)
def test_a_request_of_the_quorums_own_ends_the_process(api: Any) -> None:
    world = World()
    with pytest.raises(KeyError, match="planted"):
        world.ask(api())
    assert not world.asking.replies


@pytest.mark.covers("D-17")
def test_what_the_raft_node_raises_ends_the_process_whoever_asked() -> None:
    world = World()
    world.driver.has_failed = True
    with pytest.raises(KeyError, match="planted"):
        world.ask(m.DescribeClusterRequest())


@pytest.mark.covers("D-03", "D-17")
def test_what_the_disk_refuses_ends_the_process_whoever_asked() -> None:
    world = World()

    def refuse(*_: object) -> None:
        raise StorageError("the disk is gone")

    world.router.add({m.FetchCommittedRequest: refuse})
    with pytest.raises(StorageError):
        world.ask(m.FetchCommittedRequest())


def envelope(inner: Any) -> m.EnvelopeRequest:
    version = KAFKA.apis[inner.API_KEY].max_version
    return m.EnvelopeRequest(
        request_data=b"".join(KAFKA.encode_request(version, 77, "a-client", inner))[4:],
        request_principal=encode_principal(ANONYMOUS),
        client_host_address=bytes((127, 0, 0, 1)),
    )


@pytest.mark.covers("D-14")
def test_what_raises_inside_an_envelope_is_answered_inside_its_response() -> None:
    world = World()
    world.router.add(Envelopes(world.router, SimpleNamespace()).handlers)  # type: ignore[arg-type]
    response = world.ask(envelope(one_of_each(m.CreateTopicsRequest)))
    assert response.error_code == ErrorCode.NONE
    inner = KAFKA.read_response(response.response_data)
    key = m.CreateTopicsRequest.API_KEY
    decoded = inner.decode((key, KAFKA.apis[key].max_version))
    assert has_error(decoded, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert world.controller.error_count == 1


@pytest.mark.covers("D-17")
def test_a_request_of_the_quorums_own_ends_the_process_from_inside_an_envelope_too() -> None:
    world = World()
    world.router.add(Envelopes(world.router, SimpleNamespace()).handlers)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="planted"):
        world.ask(envelope(m.DescribeQuorumRequest()))
    assert world.controller.error_count == 0


@pytest.mark.covers("D-14")
def test_a_refusal_that_raises_too_costs_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(world.controller, "refusal", planted)
    assert world.ask(m.CreateTopicsRequest()) is None
    assert [line.fields["kind"] for line in world.lines] == ["CreateTopicsRequest"] * 2


@pytest.mark.covers("D-14")
def test_a_request_that_waited_for_its_turn_is_answered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    settled: list[Any] = []
    made, core, connection = apis()
    monkeypatch.setattr(made, "_failed", lambda *failed: settled.append(failed))
    monkeypatch.setattr(made._controller, "handle", planted)
    request = Request(m.ListConfigsRequest.API_KEY, 0, 5, "test", m.ListConfigsRequest())
    made._let_wait(made._controller.event_classes[m.ListConfigsRequest], connection, request)  # type: ignore[arg-type]
    made.run(core.now())
    ((to, about, error),) = settled
    assert (to, about, str(error)) == (connection, request, "'planted'")
