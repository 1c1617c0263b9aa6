"""Turns frames into events of the raft node, and its effects into frames.

Entered from below by the server and the peer connections (handshakes, requests, responses, ends of
connections), and from above by the effect executor, with the effects that go to other nodes. A quorum request
becomes `RequestReceived` under a handle that stands for connection and correlation id.

Not here: other requests (`request_router`), and which connections are accepted on the level of the wire
(`net.handshake`) and in the quorum (raft).
"""

from collections.abc import Mapping
from typing import Any, get_args

from kraftd.errors import ErrorCode
from kraftd.net.budgets import PeerClass
from kraftd.net.outbound import OutboundConnection, PeerHandler
from kraftd.net.peer_connections import PeerConnections
from kraftd.net.server import InboundConnection, Server, ServerHandler
from kraftd.protocol.codec import Buffer, Request
from kraftd.protocol.messages import (
    FetchRequest,
    FetchResponse,
    HandshakeRequest,
    HandshakeResponse,
    QuorumRequest,
    ShowNonceRequest,
    ShowNonceResponse,
)
from kraftd.raft import RaftNode
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
    RequestFailed,
    RequestReceived,
    ResponseReceived,
)
from kraftd.runtime.driver import Driver
from kraftd.runtime.effect_executor import Network
from kraftd.runtime.request_router import ApiHandler, Requester
from kraftd.runtime.unregistered_brokers import ADVICE, UnregisteredBrokers
from kraftd.types import NO_NODE, ZERO_UUID, NodeId, PeerIdentity, Uuid


class QuorumNetwork(ServerHandler, PeerHandler, Network):
    """Translates between `net` and the raft node, in both directions."""

    def __init__(self, driver: Driver, unregistered_brokers: UnregisteredBrokers) -> None:
        self.server: Server
        self.peer_connections: PeerConnections
        self._raft_node: RaftNode
        self._driver = driver
        self._unregistered_brokers = unregistered_brokers
        self._reported: dict[int, NodeId] = {}
        """Connections that the raft node was told of, with the node id that the other end has or claims."""
        self._peers: dict[int, PeerIdentity] = {}
        """The confirmed voter or the observer at the other end of an inbound connection."""
        self._outbound: dict[int, OutboundConnection] = {}
        self._pending: dict[int, tuple[Requester, int, int, NodeId]] = {}
        """The requests without a response, by handle: connection, correlation id, version, and who fetches,
        NO_NODE if nobody says so.
        """
        self._last_handle = 0

    def attach(self, server: Server, peer_connections: PeerConnections, raft_node: RaftNode) -> None:
        """Set the parts that are made after this one. Call it before the server accepts connections."""
        self.server, self.peer_connections = server, peer_connections
        self._raft_node = raft_node

    @property
    def handlers(self) -> Mapping[type[Any], ApiHandler]:
        """The handler of each type of request that is for the raft node."""
        return dict.fromkeys(get_args(QuorumRequest), self.request_received)

    # From the server and the peer connections.

    def must_prove(self, node_id: NodeId) -> bool:
        """Whether a peer of this id must show a nonce (D-37): asked each time, since voters may change."""
        return self._raft_node.must_prove(node_id)

    # From the server.

    def node_greeted(self, connection: InboundConnection, greeting: HandshakeRequest) -> None:
        """Announce a voter's claim, which the raft node must confirm (D-37), or an observer."""
        number, node_id = connection.number, greeting.node_id
        self._reported[number] = node_id
        if self.must_prove(node_id):
            directory_id, nonce = greeting.directory_id, greeting.nonce
            self._driver.deliver(PeerClaimed(number, node_id, directory_id, nonce, greeting.challenge))
        else:
            peer = self._peers[number] = PeerIdentity(node_id, greeting.directory_id, 0, ZERO_UUID)
            self._driver.deliver(PeerIdentified(number, peer, outbound=False))

    def nonce_shown(self, connection: InboundConnection, request: ShowNonceRequest) -> None:
        """Let the raft node check a nonce that was shown."""
        self._driver.deliver(
            NonceShown(connection.number, request.nonce, request.start_counter, request.start_id)
        )

    def request_received(self, connection: Requester, request: Request) -> None:
        """Give a request to the raft node, under a handle for its reply."""
        self._last_handle = handle = self._last_handle + 1
        fetcher = _fetcher(request.message) if type(request.message) is FetchRequest else NO_NODE
        self._pending[handle] = (connection, request.correlation_id, request.api_version, fetcher)
        number = connection.number
        peer = self._peers.get(number)
        self._driver.deliver(RequestReceived(handle, request.message, request.api_version, peer, number))

    def connection_ended(self, connection: InboundConnection) -> None:
        """Tell the raft node that a connection is closed."""
        self._ended(connection.number)

    # From the peer connections.

    def nonce_given(self, connection: OutboundConnection, nonce: Uuid) -> None:
        """Tell the raft node that a nonce is on its way to a peer."""
        self._report(connection)
        self._driver.deliver(NonceGiven(connection.number, connection.peer, nonce))

    def link_answered(self, connection: OutboundConnection) -> None:
        """Tell the raft node that a peer has answered the greeting."""
        self._report(connection)
        self._driver.deliver(LinkAnswered(connection.number, connection.peer))

    def peer_identified(
        self, connection: OutboundConnection, response: HandshakeResponse, confirmation: ShowNonceResponse
    ) -> None:
        """Tell the raft node who is at the other end; it may refuse the peer before this returns (D-06)."""
        self._report(connection)
        peer = PeerIdentity(
            response.node_id, response.directory_id, confirmation.start_counter, confirmation.start_id
        )
        self._driver.deliver(PeerIdentified(connection.number, peer, outbound=True))

    def _report(self, connection: OutboundConnection) -> None:
        self._reported[connection.number] = connection.peer
        self._outbound[connection.number] = connection

    def response_received(self, peer: NodeId, correlation_id: int, response: Any, records: Buffer) -> None:
        """Give a response to the raft node."""
        self._driver.deliver(ResponseReceived(peer, correlation_id, response, bytes(records)))

    def request_failed(self, peer: NodeId, correlation_id: int, reason: str) -> None:
        """Tell the raft node that a request has no response."""
        self._driver.deliver(RequestFailed(peer, correlation_id, reason))

    def connection_lost(self, connection: OutboundConnection) -> None:
        """Tell the raft node that a connection of ours is closed."""
        self._outbound.pop(connection.number, None)
        self._ended(connection.number)

    # From the effect executor.

    def send(self, send: Send) -> None:
        """Send a request to a peer."""
        self.peer_connections.send(send.to, send.correlation_id, send.request)

    def reply(self, reply: Reply) -> None:
        """Answer the request of this handle."""
        connection, correlation_id, version, fetcher = self._pending.pop(reply.handle)
        connection.reply(version, correlation_id, reply.response, reply.records)
        if type(reply.response) is FetchResponse:
            self._judge_fetcher(connection, fetcher, reply.response)

    def _judge_fetcher(self, connection: Requester, fetcher: NodeId, response: FetchResponse) -> None:
        """One line now and then about a broker that gets nowhere; our own nodes learn it by a handshake."""
        if not isinstance(connection, InboundConnection) or connection.peer_class is not PeerClass.CLIENT:
            return
        error = _error_of(response)
        if error == ErrorCode.NONE:
            is_lost = fetcher != NO_NODE and self._unregistered_brokers.fetched(fetcher)
            event, reason = "broker_not_registering", ADVICE if is_lost else None
        else:
            event, reason = "fetch_refused", _REFUSALS.get(error)
        if reason is not None:
            connection.limited_logger.warning(
                event,
                key=(connection.host, fetcher, reason),
                broker=fetcher,
                address=connection.address,
                reason=reason,
            )

    def show_nonce(self, show: ShowNonce) -> None:
        """Send a nonce back on our connection to a peer."""
        if (outbound := self._outbound.get(show.connection)) is not None:
            outbound.show(show.nonce)

    def confirm(self, confirmation: ConfirmPeer) -> None:
        """Serve the requests of a voter from now on."""
        number, peer = confirmation.connection, confirmation.peer
        if (inbound := self.server.connections.get(number)) is not None:
            self._peers[number] = peer
            inbound.confirm()
            self.peer_connections.confirmed(peer.node_id)

    def reject_nonce(self, rejection: RejectNonce) -> None:
        """Answer that a nonce is not one that this node gave."""
        if (inbound := self.server.connections.get(rejection.connection)) is not None:
            inbound.reject_nonce()

    def challenge(self, challenge: ChallengePeer) -> None:
        """Connect to a voter's address now, with a nonce."""
        self.peer_connections.challenge(challenge.peer_id)

    def refuse(self, refusal: RefusePeer) -> None:
        """Close a connection, with a reason for its log."""
        number = refusal.connection
        if (outbound := self._outbound.get(number)) is not None:
            outbound.refuse(refusal.reason)
        elif (inbound := self.server.connections.get(number)) is not None:
            inbound.refuse(ErrorCode.INVALID_VOTER_KEY, refusal.reason)

    def learn(self, learned: LearnEndpoint) -> None:
        """Connect to a peer at this endpoint from now on."""
        self.peer_connections.learn(learned.node_id, learned.endpoint)

    def _ended(self, number: int) -> None:
        self._peers.pop(number, None)
        node_id = self._reported.pop(number, None)
        if node_id is not None:  # 0 is a node id, too
            self._driver.deliver(ConnectionClosed(number, node_id))


_REFUSALS: Mapping[int, str] = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "it belongs to another cluster: check its controller.quorum.voters",
    ErrorCode.INVALID_VOTER_KEY: "its node.id is that of a controller: give the broker another one",
}
"""Errors of a fetch that its sender meets for ever: a broker asks every controller again and again."""


def _error_of(response: FetchResponse) -> int:
    """What is wrong with a fetch, NONE if nothing is."""
    if response.error_code or not response.responses:
        return response.error_code
    return response.responses[0].partitions[0].error_code


def _fetcher(request: FetchRequest) -> NodeId:
    """Who fetches: each version has one of the two, and NO_NODE in the other."""
    return max(request.replica_id, request.replica_state.replica_id)
