"""How do frames become events of the core, and effects of the core frames?

Entered from below by the server and the links (handshakes, requests, answers, ends of connections), and
from above by the interpreter (`send`, `reply`, `refuse`, `learn`). A quorum request becomes
`RequestReceived` under a handle that remembers connection and correlation id; every other request goes to
`Requests`, which is the controller's and the operator's side.

Not here: who is welcome on wire level (`net.handshake`) and in the quorum (the core).
"""

from typing import Any, Protocol

from kraftd.errors import ErrorCode
from kraftd.net.budgets import Budgets
from kraftd.net.client import PeerLinks
from kraftd.net.outbound import OutboundConnection
from kraftd.net.server import InboundConnection, Server
from kraftd.protocol.codec import Request
from kraftd.protocol.framing import Buffer
from kraftd.protocol.messages import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    HandshakeRequest,
    HandshakeResponse,
    ShowNonceRequest,
    ShowNonceResponse,
    VoteRequest,
)
from kraftd.raft.effects import (
    ChallengePeer,
    ConfirmPeer,
    LearnEndpoint,
    RefusePeer,
    RejectNonce,
    Reply,
    Send,
    ShowNonce,
)
from kraftd.raft.events import (
    ConnectionClosed,
    LinkAnswered,
    NonceGiven,
    NonceShown,
    PeerClaimed,
    PeerIdentified,
    PeerIdentity,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
)
from kraftd.runtime.driver import NEVER_MS, Driver
from kraftd.types import ZERO_UUID, NodeId, Now, Uuid

QUORUM_REQUESTS = frozenset(
    {VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest, FetchRequest, DescribeQuorumRequest}
)


class Requests(Protocol):
    """Whoever answers what is not for the core."""

    def request_received(self, connection: InboundConnection, request: Request) -> None:
        """Answer it with `connection.reply`, sooner or later."""

    def connection_ended(self, connection: InboundConnection) -> None:
        """Nobody waits there any more."""


class QuorumNetwork:
    """Translates between `net` and the core, for both."""

    def __init__(self) -> None:
        self.server: Server
        self.links: PeerLinks
        self._driver: Driver
        self._requests: Requests
        self._budgets: Budgets
        self._told: dict[int, NodeId] = {}
        """The connections of members that the core knows of, and whose they are or say they are."""
        self._members: dict[int, PeerIdentity] = {}
        """Whose requests an inbound connection brings: a confirmed voter's, or an observer's."""
        self._outbound: dict[int, OutboundConnection] = {}
        self._held: dict[int, tuple[InboundConnection, int, int]] = {}
        self._last_handle = 0

    def attach(self, driver: Driver, requests: Requests, server: Server, links: PeerLinks) -> None:
        """Get to know those who, in turn, were given this object. Before the server accepts anybody."""
        self._driver, self._requests = driver, requests
        self.server, self.links = server, links
        self._budgets = server.budgets

    def wake(self) -> None:
        """There is something to write: have a turn."""
        self._driver.wake_to_write()

    def run(self, now: Now) -> None:  # noqa: ARG002 - a chore's signature
        """Implements `Chore`: let the clients of this turn in."""
        if self._budgets.is_waiting:
            self._budgets.serve()

    def wake_at_ms(self) -> int:
        """Implements `TimedChore`."""
        return 0 if self._budgets.is_waiting else NEVER_MS

    # From the server.

    def member_greeted(self, connection: InboundConnection, greeting: HandshakeRequest) -> None:
        """Implements `ServerHandler`: a voter has to be confirmed by the core (D-37), an observer has not."""
        number, node_id = connection.number, greeting.node_id
        self._told[number] = node_id
        if node_id in self.server.voter_ids:
            directory_id, nonce = greeting.directory_id, greeting.nonce
            self._driver.deliver(PeerClaimed(number, node_id, directory_id, nonce, greeting.challenge))
        else:
            peer = self._members[number] = PeerIdentity(node_id, greeting.directory_id, 0, ZERO_UUID)
            self._driver.deliver(PeerIdentified(number, peer, outbound=False))

    def nonce_shown(self, connection: InboundConnection, shown: ShowNonceRequest) -> None:
        """Implements `ServerHandler`."""
        self._driver.deliver(NonceShown(connection.number, shown.nonce, shown.start_counter, shown.start_id))

    def request_received(self, connection: InboundConnection, request: Request) -> None:
        """Implements `ServerHandler`."""
        message = request.message
        if type(message) in QUORUM_REQUESTS:
            self._last_handle = handle = self._last_handle + 1
            self._held[handle] = (connection, request.correlation_id, request.api_version)
            peer = self._members.get(connection.number)
            self._driver.deliver(RequestReceived(handle, message, request.api_version, peer))
        else:
            self._requests.request_received(connection, request)

    def connection_ended(self, connection: InboundConnection) -> None:
        """Implements `ServerHandler`."""
        self._requests.connection_ended(connection)
        self._ended(connection.number, outbound=False)

    def clients_wait(self) -> None:
        """Implements `ServerHandler`."""
        self._driver.wake()

    # From the links.

    def nonce_given(self, connection: OutboundConnection, nonce: Uuid) -> None:
        """Implements `LinkHandler`."""
        self._know(connection)
        self._driver.deliver(NonceGiven(connection.number, connection.peer, nonce))

    def link_answered(self, connection: OutboundConnection) -> None:
        """Implements `LinkHandler`."""
        self._know(connection)
        self._driver.deliver(LinkAnswered(connection.number, connection.peer))

    def peer_identified(
        self, connection: OutboundConnection, answer: HandshakeResponse, shown: ShowNonceResponse
    ) -> None:
        """Implements `LinkHandler`: the core may refuse it before this returns (D-06)."""
        self._know(connection)
        peer = PeerIdentity(answer.node_id, answer.directory_id, shown.start_counter, shown.start_id)
        self._driver.deliver(PeerIdentified(connection.number, peer, outbound=True))

    def _know(self, connection: OutboundConnection) -> None:
        self._told[connection.number] = connection.peer
        self._outbound[connection.number] = connection

    def response_received(self, peer: NodeId, correlation_id: int, response: Any, records: Buffer) -> None:
        """Implements `LinkHandler`."""
        self._driver.deliver(ResponseReceived(peer, correlation_id, response, bytes(records)))

    def request_failed(self, peer: NodeId, correlation_id: int, reason: str) -> None:
        """Implements `LinkHandler`."""
        self._driver.deliver(RequestFailed(peer, correlation_id, reason))

    def connection_lost(self, connection: OutboundConnection) -> None:
        """Implements `LinkHandler`."""
        self._outbound.pop(connection.number, None)
        self._ended(connection.number, outbound=True)

    # From the core.

    def send(self, send: Send) -> None:
        """Implements `Network`."""
        self.links.send(send.to, send.correlation_id, send.request)

    def reply(self, reply: Reply) -> None:
        """Implements `Network`."""
        connection, correlation_id, version = self._held.pop(reply.handle)
        connection.reply(version, correlation_id, reply.response, reply.records)

    def show_nonce(self, show: ShowNonce) -> None:
        """Implements `Network`."""
        if (outbound := self._outbound.get(show.connection)) is not None:
            outbound.show(show.nonce)

    def confirm(self, confirmation: ConfirmPeer) -> None:
        """Implements `Network`."""
        number, peer = confirmation.connection, confirmation.peer
        if (inbound := self.server.connections.get(number)) is not None:
            self._members[number] = peer
            inbound.confirm()
            self.links.confirmed(peer.node_id)

    def reject_nonce(self, rejection: RejectNonce) -> None:
        """Implements `Network`."""
        if (inbound := self.server.connections.get(rejection.connection)) is not None:
            inbound.reject_nonce()

    def challenge(self, challenge: ChallengePeer) -> None:
        """Implements `Network`."""
        self.links.challenge(challenge.peer)

    def refuse(self, refusal: RefusePeer) -> None:
        """Implements `Network`."""
        number = refusal.connection
        if (outbound := self._outbound.get(number)) is not None:
            outbound.refuse(refusal.reason)
        elif (inbound := self.server.connections.get(number)) is not None:
            inbound.refuse(ErrorCode.INVALID_VOTER_KEY, refusal.reason)

    def learn(self, news: LearnEndpoint) -> None:
        """Implements `Network`."""
        self.links.learn(news.node_id, news.endpoint)

    def _ended(self, number: int, *, outbound: bool) -> None:
        self._members.pop(number, None)
        node_id = self._told.pop(number, None)
        if node_id is not None:
            self._driver.deliver(ConnectionClosed(number, node_id, outbound))
