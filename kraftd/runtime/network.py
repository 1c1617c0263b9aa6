"""How do frames become events of the core, and effects of the core frames?

Entered from below by the server and the links (handshakes, requests, answers, ends of connections), and
from above by the interpreter (`send`, `reply`, `refuse`, `learn`). A quorum request becomes
`RequestReceived` under a handle that remembers connection and correlation id; every other request goes to
`Requests`, which is the controller's and the operator's side.

Not here: who is welcome on wire level (`net.handshake`) and in the quorum (the core).
"""

from typing import Any, Protocol

from kraftd.errors import ErrorCode
from kraftd.net.client import OutboundConnection, PeerLinks
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
    VoteRequest,
)
from kraftd.raft.effects import LearnEndpoint, RefusePeer, Reply, Send
from kraftd.raft.events import (
    ConnectionClosed,
    PeerIdentified,
    PeerIdentity,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
)
from kraftd.runtime.driver import NEVER_MS, Driver
from kraftd.types import NodeId, Now

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
        self._members: dict[int, PeerIdentity] = {}
        self._outbound: dict[int, OutboundConnection] = {}
        self._held: dict[int, tuple[InboundConnection, int, int]] = {}
        self._last_handle = 0

    def attach(self, driver: Driver, requests: Requests, server: Server, links: PeerLinks) -> None:
        """Get to know those who, in turn, were given this object. Before the server accepts anybody."""
        self._driver, self._requests = driver, requests
        self.server, self.links = server, links

    def wake(self) -> None:
        """There is something to write: have a turn."""
        self._driver.wake_to_write()

    def run(self, now: Now) -> None:  # noqa: ARG002 - a chore's signature
        """Implements `Chore`: let the clients of this turn in."""
        if self.server.clients_are_waiting:
            self.server.serve_clients()

    def wake_at_ms(self) -> int:
        """Implements `Chore`."""
        return 0 if self.server.clients_are_waiting else NEVER_MS

    # From the server.

    def member_greeted(self, connection: InboundConnection, greeting: HandshakeRequest) -> None:
        """Implements `ServerHandler`: the core may refuse it before this returns (D-06)."""
        self._identified(connection.number, greeting, outbound=False)
        if not connection.refused:
            self.links.retry_now(greeting.node_id)

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

    def peer_answered_greeting(self, connection: OutboundConnection, answer: HandshakeResponse) -> None:
        """Implements `LinkHandler`: the core may refuse it before this returns (D-06)."""
        self._outbound[connection.number] = connection
        self._identified(connection.number, answer, outbound=True)
        if not connection.is_open:
            self._outbound.pop(connection.number, None)

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

    def refuse(self, refusal: RefusePeer) -> None:
        """Implements `Network`."""
        number = refusal.connection
        self._members.pop(number, None)
        if (outbound := self._outbound.pop(number, None)) is not None:
            outbound.refuse(refusal.reason)
        elif (inbound := self.server.connections.get(number)) is not None:
            inbound.refuse(ErrorCode.INVALID_VOTER_KEY, refusal.reason)

    def learn(self, news: LearnEndpoint) -> None:
        """Implements `Network`."""
        self.links.learn(news.node_id, news.endpoint)

    def _identified(
        self, number: int, hello: HandshakeRequest | HandshakeResponse, *, outbound: bool
    ) -> None:
        peer = PeerIdentity(hello.node_id, hello.directory_id, hello.start_counter, hello.start_id)
        self._members[number] = peer
        self._driver.deliver(PeerIdentified(number, peer, outbound))

    def _ended(self, number: int, *, outbound: bool) -> None:
        peer = self._members.pop(number, None)
        if peer is not None:
            self._driver.deliver(ConnectionClosed(number, peer.node_id, outbound))
