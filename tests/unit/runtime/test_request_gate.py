"""What the gate refuses, to whom, and what it lets through."""

from types import SimpleNamespace
from typing import Any

import pytest

from kraftd.controller.authorizer import Authorizer
from kraftd.controller.context import Client
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import AclOperation
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.net.budgets import PeerClass
from kraftd.protocol import messages as m
from kraftd.protocol.codec import Request
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.principal import ANONYMOUS, Principal
from kraftd.runtime.envelopes import Envelopes
from kraftd.runtime.request_gate import NOT_READY, gate_of
from kraftd.runtime.request_router import RequestRouter
from tests.principals import encode_principal
from tests.unit.controller.acl_worlds import CLUSTER, acl
from tests.unit.controller.test_acls import EVERYTHING, creation
from tests.unit.runtime.test_controller_apis import apis

ALICE = Principal("User", "alice")
DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
HANDLED = "handled"


class Asking:
    """Whoever asks, and the last response."""

    number = 1
    host = "10.0.0.1"
    client: Client | None = None

    def __init__(self, principal: Principal = ANONYMOUS, peer_class: PeerClass = PeerClass.CLIENT) -> None:
        self.session = Client(principal, host=self.host)
        self.peer_class = peer_class
        self.response: Any = None

    def reply(self, _version: int, _correlation_id: int, message: Any, _records: Any = ()) -> None:
        self.response = message


class World:
    """A router with a gate; its handlers only say that they were asked."""

    def __init__(
        self,
        *acls: Any,
        is_active: bool = True,
        has_caught_up: bool = True,
        authorizer: Authorizer | None = None,
    ) -> None:
        ours = apis()[0]._controller
        controller: Any = SimpleNamespace(
            requests=ours.requests,
            refusal=ours.refusal,
            image=apply_all(EMPTY, acls, 0),
            settings=SimpleNamespace(authorizer=authorizer or Authorizer()),
            is_active=is_active,
        )
        self.lines: list[dict[str, object]] = []
        logger: Any = SimpleNamespace(
            warning=lambda name, **fields: self.lines.append({"name": name, **fields})
        )
        self.router = RequestRouter()
        self.router.gate = gate_of(controller, logger, lambda: has_caught_up)
        served = [api.request for api in KAFKA.apis.values()]
        served += [m.DescribeNodeRequest, m.ResignLeaderRequest, m.ExportManifestRequest, m.ListTopicsRequest]
        served += [m.VoteRequest, m.FetchCommittedRequest, m.DescribeEventsRequest]
        self.router.add(dict.fromkeys(served, self._handle))
        self.router.add(Envelopes(self.router, logger).handlers)

    def _handle(self, requester: Any, request: Request) -> None:
        if requester.session.is_forwarded:
            requester.reply(
                request.api_version, request.correlation_id, KAFKA.apis[request.api_key].response()
            )
        else:
            requester.response = HANDLED

    def ask(self, message: Any, asking: Asking | None = None) -> Any:
        asking = asking or Asking()
        request = Request(message.API_KEY, message.MAX_VERSION, 5, "test", message)
        self.router.request_received(asking, request)  # type: ignore[arg-type]
        return asking.response

    def forward(self, message: Any, principal: Principal = ALICE) -> Any:
        """What an envelope with a request of this principal's gets: its error, or what is inside."""
        frame = b"".join(KAFKA.encode_request(message.MAX_VERSION, 77, "a-client", message))[4:]
        envelope = m.EnvelopeRequest(frame, encode_principal(principal), bytes((10, 0, 0, 2)))
        response = self.ask(envelope)
        if response.error_code:
            return ErrorCode(response.error_code)
        inner = KAFKA.read_response(response.response_data)
        return inner.decode((message.API_KEY, message.MAX_VERSION))


def right(operation: AclOperation, principal: str = "User:ANONYMOUS", number: int = 1) -> Any:
    return acl(number, "kafka-cluster", kind=CLUSTER, principal=principal, operation=operation)


NEEDS = [
    (m.CreateAclsRequest((creation(),)), AclOperation.ALTER),
    (m.DeleteAclsRequest((EVERYTHING,)), AclOperation.ALTER),
    (m.DescribeAclsRequest(), AclOperation.DESCRIBE),
    (m.DescribeClusterRequest(), AclOperation.ALTER),
    (m.UnregisterBrokerRequest(), AclOperation.ALTER),
    (m.ListPartitionReassignmentsRequest(), AclOperation.DESCRIBE),
    (m.BrokerHeartbeatRequest(), AclOperation.CLUSTER_ACTION),
    (m.AlterPartitionRequest(), AclOperation.CLUSTER_ACTION),
    (m.AllocateProducerIdsRequest(), AclOperation.CLUSTER_ACTION),
    (m.FetchRequest(), AclOperation.CLUSTER_ACTION),
    (m.FetchSnapshotRequest(), AclOperation.CLUSTER_ACTION),
    (m.DescribeQuorumRequest(), AclOperation.DESCRIBE),
    (m.DescribeNodeRequest(), AclOperation.DESCRIBE),
    (m.ListTopicsRequest(), AclOperation.DESCRIBE),
    (m.ResignLeaderRequest(), AclOperation.ALTER),
    (m.ExportManifestRequest(), AclOperation.CLUSTER_ACTION),
]


@pytest.mark.parametrize(("message", "operation"), NEEDS, ids=lambda each: getattr(each, "NAME", None))
def test_a_right_on_the_cluster_is_needed_and_told_if_it_is_missing(
    message: Any, operation: AclOperation
) -> None:
    others = [right(each, number=each) for each in (AclOperation.CREATE, AclOperation.ALTER_CONFIGS)]
    world = World(*others)
    response = world.ask(message)
    told = response
    for field in ("results", "filter_results"):
        told = getattr(told, field, (told,))[0]
    assert told.error_code == DENIED
    ((line),) = world.lines
    assert (line["name"], line["api"], line["host"]) == ("request_denied", message.NAME, "10.0.0.1")
    assert f"'User:ANONYMOUS' may not {operation.name} cluster 'kafka-cluster'" in str(line["reason"])
    assert World(right(operation)).ask(message) == HANDLED
    assert World(right(operation, "User:alice")).ask(message, Asking(ALICE)) == HANDLED
    assert World(authorizer=Authorizer(frozenset({"User:ANONYMOUS"}))).ask(message) == HANDLED


@pytest.mark.parametrize(
    "message", [m.ApiVersionsRequest(), m.CreateTopicsRequest(), m.DescribeConfigsRequest()]
)
def test_what_needs_nothing_and_what_is_asked_about_each_resource_is_let_through(message: Any) -> None:
    assert World().ask(message) == HANDLED


@pytest.mark.parametrize("message", [m.FetchRequest(), m.VoteRequest(), m.FetchSnapshotRequest()])
def test_the_quorums_own_requests_of_voters_are_let_through_and_all_where_nobody_leads(message: Any) -> None:
    assert World().ask(message, Asking(peer_class=PeerClass.VOTER)) == HANDLED
    assert World(is_active=False).ask(message) == HANDLED
    for peer_class in (PeerClass.CLIENT, PeerClass.OBSERVER, PeerClass.STRANGER):
        assert World().ask(message, Asking(peer_class=peer_class)).error_code == DENIED


def test_a_voter_needs_the_right_to_what_is_not_the_quorums_own() -> None:
    response = World(is_active=False).ask(m.DescribeNodeRequest(), Asking(peer_class=PeerClass.VOTER))
    assert response.error_code == DENIED


def test_an_envelope_needs_the_right_of_a_node_and_what_is_inside_that_of_its_principal() -> None:
    asked = m.CreateAclsRequest((creation(),))
    node, alters = right(AclOperation.CLUSTER_ACTION), right(AclOperation.ALTER, "User:alice", 2)
    assert World(alters).forward(asked) is DENIED
    assert World(node).forward(asked).results[0].error_code == DENIED
    assert World(node, alters).forward(asked) == m.CreateAclsResponse()
    anonymous_alters = right(AclOperation.ALTER, number=3)
    assert World(node, anonymous_alters).forward(asked).results[0].error_code == DENIED
    assert World(node, anonymous_alters).forward(asked, ANONYMOUS) == m.CreateAclsResponse()


def test_the_host_inside_an_envelope_is_that_of_the_client() -> None:
    asked = m.CreateAclsRequest((creation(),))
    node = right(AclOperation.CLUSTER_ACTION)
    for host, expected in (("10.0.0.2", m.CreateAclsResponse()), ("10.0.0.1", None)):
        alters = acl(2, "kafka-cluster", kind=CLUSTER, operation=AclOperation.ALTER, host=host)
        response = World(node, alters).forward(asked)
        assert response == expected or response.results[0].error_code == DENIED
        assert (response == m.CreateAclsResponse()) is (expected is not None)


def test_without_an_authorizer_there_is_no_gate() -> None:
    controller: Any = SimpleNamespace(settings=SimpleNamespace(authorizer=None))
    assert gate_of(controller, SimpleNamespace(), lambda: True) is None  # type: ignore[arg-type]


def starting(*acls: Any, authorizer: Authorizer | None = None) -> World:
    """A node that has not applied yet what it knows to be committed; such a one does not lead."""
    return World(*acls, is_active=False, has_caught_up=False, authorizer=authorizer)


ELSEWHERE, LATER = ErrorCode.NOT_CONTROLLER, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (m.CreateAclsRequest((creation(),)), ELSEWHERE),
        (m.DescribeAclsRequest(), ELSEWHERE),
        (m.UnregisterBrokerRequest(), ELSEWHERE),
        (m.BrokerHeartbeatRequest(), ELSEWHERE),
        (m.BrokerRegistrationRequest(), ELSEWHERE),
        (m.ListTopicsRequest(), ELSEWHERE),
        (m.ResignLeaderRequest(), ELSEWHERE),
        (m.DescribeClusterRequest(), LATER),
        (m.DescribeNodeRequest(), LATER),
        (m.DescribeEventsRequest(), LATER),
        (m.ExportManifestRequest(), LATER),
        (m.FetchCommittedRequest(), LATER),
    ],
    ids=lambda each: getattr(each, "NAME", None),
)
def test_a_node_that_does_not_know_all_entries_yet_refuses_nobody_for_good(
    message: Any, error: ErrorCode
) -> None:
    world = starting()
    told = world.ask(message)
    for field in ("results", "filter_results"):
        told = getattr(told, field, (told,))[0]
    assert told.error_code == error
    assert error.retriable
    assert getattr(told, "error_message", NOT_READY) == NOT_READY
    assert not world.lines


def test_on_such_a_node_super_users_alone_may_do_anything() -> None:
    """What it has read so far says nothing: the entry may have been removed, or the first one follow."""
    message = m.DescribeNodeRequest()
    assert starting(authorizer=Authorizer(frozenset({"User:ANONYMOUS"}))).ask(message) == HANDLED
    assert starting(right(AclOperation.DESCRIBE)).ask(message).error_code == LATER
    assert starting(authorizer=Authorizer(allow_everyone=True)).ask(message).error_code == LATER


def test_a_broker_looks_elsewhere_for_what_such_a_node_got_in_an_envelope() -> None:
    asked = m.CreateAclsRequest((creation(),))
    assert starting().forward(asked) is ELSEWHERE
    assert starting(right(AclOperation.CLUSTER_ACTION)).forward(asked) is ELSEWHERE
