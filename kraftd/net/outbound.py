"""One outbound connection to another node: greeting, nonce, requests and their responses.

Made by `PeerConnection` (`kraftd.net.peer_connections`), entered by asyncio, and to send a request or show a
nonce. It receives first the response to the greeting, then, between voters, whether the nonce shown was
right, and from then on responses to requests.

A `Challenge` is such a connection that only brings a nonce (D-37).
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Protocol

from kraftd.errors import ErrorCode, UnencodableError
from kraftd.net.addresses import AddressBook, connect
from kraftd.net.connection import CallbackError, FrameConnection, Outbox
from kraftd.net.handshake import Identity, Refusal, common_versions, refusal_of_response
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.protocol import limits
from kraftd.protocol.codec import Buffer
from kraftd.protocol.messages import (
    HandshakeRequest,
    HandshakeResponse,
    ShowNonceRequest,
    ShowNonceResponse,
)
from kraftd.types import ZERO_UUID, Endpoint, NodeId, Uuid

CONNECT_MS = 2_000
CHALLENGE_MS = 500
"""How long a challenge may take to find an address, to connect to it, and how long it stays open then. A node
that takes the nonce shows it at once; if its machine loses power before that, only another challenge can
reach it.
"""
_GREETING_ID = 0
_GREETING = (HandshakeRequest.API_KEY, HandshakeRequest.MAX_VERSION)
_SHOWN = (ShowNonceRequest.API_KEY, ShowNonceRequest.MAX_VERSION)


class PeerHandler(Protocol):
    """What is told of the connections to peers."""

    def must_prove(self, node_id: NodeId) -> bool:
        """Whether a peer and this node must show each other a nonce (D-37)."""

    def nonce_given(self, connection: "OutboundConnection", nonce: Uuid) -> None:
        """A nonce is on its way to a voter's address."""

    def link_answered(self, connection: "OutboundConnection") -> None:
        """The greeting was answered, and the peer wants a nonce: call `connection.show` with those that are
        known.
        """

    def peer_identified(
        self, connection: "OutboundConnection", response: HandshakeResponse, confirmation: ShowNonceResponse
    ) -> None:
        """The connection is ready for requests: which node, and which start of it, is at the other end. The
        handler may call `connection.refuse` before it returns.
        """

    def response_received(self, peer: NodeId, correlation_id: int, response: Any, records: Buffer) -> None:
        """The response to a request."""

    def request_failed(self, peer: NodeId, correlation_id: int, reason: str) -> None:
        """A request will have no response."""

    def connection_lost(self, connection: "OutboundConnection") -> None:
        """A connection that the handler was told of is closed."""


class ConnectionContext(Protocol):
    """What all outbound connections of a node share."""

    identity: Identity
    handler: PeerHandler
    outbox: Outbox
    addresses: AddressBook
    numbers: Iterator[int]
    limited_logger: RateLimitedLogger
    logger: Any
    nonce: Callable[[], Uuid]


class ConnectionOwner(Protocol):
    """The object that opens the connections to one node."""

    peer: NodeId
    endpoint: Endpoint

    @property
    def context(self) -> ConnectionContext:
        """What all outbound connections share."""

    def ready(self, connection: "OutboundConnection") -> None:
        """A connection is ready for requests."""


class OutboundConnection(FrameConnection, asyncio.Protocol):
    """One TCP connection to another node."""

    is_challenge = False
    HANDSHAKE_MS = limits.HANDSHAKE_TIMEOUT_MS
    """How long the handshake may take."""

    def __init__(self, owner: ConnectionOwner) -> None:
        super().__init__(owner.context.outbox, owner.context.limited_logger)
        self.owner = owner
        self.number = next(owner.context.numbers)
        self.is_ready = False
        self.was_ready = False
        self.over = asyncio.Event()
        self._is_reported = False
        """Whether the handler was told of this connection, and must be told of its end."""
        self._handshake_response: HandshakeResponse | None = None
        self._versions: Mapping[int, int] = {}
        self._in_flight: dict[int, tuple[int, int]] = {}
        self._last_show_id = 0
        self._handshake_timer: asyncio.TimerHandle | None = None
        self._client_id = f"kraftd-{owner.context.identity.node_id}"

    @property
    def peer(self) -> NodeId:
        """The node at the other end."""
        return self.owner.peer

    @property
    def is_greeted(self) -> bool:
        """Whether the other end has answered our greeting, and so read the nonce in it."""
        return self._handshake_response is not None

    def show(self, nonce: Uuid) -> None:
        """Send back a nonce that came to us under the node id of the other end (D-37)."""
        self._last_show_id -= 1
        self.write(
            self.codec.encode_request(
                0, self._last_show_id, self._client_id, self.owner.context.identity.show(nonce)
            )
        )

    def send_request(self, correlation_id: int, message: Any) -> None:
        """Send a request in the highest version that both ends speak."""
        api_key = message.API_KEY
        version = self._versions.get(api_key)
        handler = self.owner.context.handler
        if version is None:
            handler.request_failed(
                self.peer, correlation_id, f"node {self.peer} does not know {message.NAME}"
            )
            return
        try:
            frame = self.codec.encode_request(version, correlation_id, self._client_id, message)
        except UnencodableError as error:
            # A peer may speak only versions that lack a field which this request needs: not fatal.
            handler.request_failed(self.peer, correlation_id, str(error))
            return
        self._in_flight[correlation_id] = (api_key, version)
        if len(self._in_flight) > limits.REQUESTS_IN_FLIGHT_MAX:
            # The raft node gave up on the oldest long ago; a response to it would be dropped.
            del self._in_flight[next(iter(self._in_flight))]
        self.write(frame)

    def refuse(self, reason: str) -> None:
        """Close it at once: the raft node refuses the peer at the other end."""
        self.abort(f"refused: {reason}")

    def opened(self) -> None:
        """Send the greeting, with a nonce if both ends are voters."""
        context = self.owner.context
        loop = asyncio.get_running_loop()
        self._handshake_timer = loop.call_later(self.HANDSHAKE_MS / 1_000, self._handshake_timed_out)
        nonce = ZERO_UUID
        if context.handler.must_prove(self.peer):
            nonce = context.nonce()
            self._is_reported = True
            context.handler.nonce_given(self, nonce)
        greeting = context.identity.greeting(nonce, is_challenge=self.is_challenge)
        self.write(
            self.codec.encode_request(HandshakeRequest.MAX_VERSION, _GREETING_ID, self._client_id, greeting)
        )
        self.flush()

    def data_received(self, data: bytes) -> None:
        """Take the frames that came in: first the response to the greeting, then responses."""
        if not self.is_open:
            return
        try:
            frames = self._reader.feed(data)
        except Exception as error:  # noqa: BLE001 - wire boundary (D-38)
            self.fail("cutting frames", error)
            return
        try:
            for frame in frames:
                if self.is_open:
                    self._handle_frame(frame)
        except OSError as error:
            raise CallbackError(f"{type(error).__name__}: {error}") from error

    def ended(self) -> None:
        """Tell the handler that the connection is closed and that its requests have failed."""
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        self.is_ready = False
        self.over.set()
        handler = self.owner.context.handler
        if self.was_ready:
            self.owner.context.logger.info("peer_lost", peer=self.peer, reason=self.end_reason)
        elif self.is_greeted and not self.is_challenge:
            self.end_reason += (
                f": node {self.peer} did not confirm this node; it must be able to reach the address that "
                f"its controller.quorum.voters has for node {self.owner.context.identity.node_id}"
            )
        if self._is_reported:
            handler.connection_lost(self)
        in_flight, self._in_flight = self._in_flight, {}
        for correlation_id in in_flight:
            handler.request_failed(self.peer, correlation_id, self.end_reason)

    def _handle_frame(self, frame: Buffer) -> None:
        try:
            undecoded = self.codec.read_response(frame)
            expected = self._expected(undecoded.correlation_id)
            if expected is None:
                return
            response = undecoded.decode(expected)
            refusal = self._refusal_of(response) if self._handshake_response is None else None
        except Exception as error:  # noqa: BLE001 - wire boundary (D-38)
            self.fail("reading a response", error)
            return
        correlation_id = undecoded.correlation_id
        if refusal is not None:
            self.close(f"refused: {refusal.reason}")
        elif self._handshake_response is None:
            self._on_handshake_response(response)
        elif correlation_id < 0:
            self._on_confirmation(self._handshake_response, response)
        else:
            del self._in_flight[correlation_id]
            self.owner.context.handler.response_received(
                self.peer, correlation_id, response, undecoded.records
            )

    def _expected(self, correlation_id: int) -> tuple[int, int] | None:
        """The API key and version of a response; None if no request waits for it."""
        if self._handshake_response is None:
            return _GREETING
        return _SHOWN if correlation_id < 0 else self._in_flight.get(correlation_id)

    def _refusal_of(self, response: HandshakeResponse) -> Refusal | None:
        """Check the response to the greeting, and note the versions that both ends speak."""
        refusal = refusal_of_response(response, self.owner.context.identity, self.peer)
        if refusal is None:
            self._versions = common_versions(response)
        return refusal

    def _on_handshake_response(self, response: HandshakeResponse) -> None:
        self._handshake_response = response
        if self.is_challenge:
            return
        if not response.must_show:
            self._become_ready(response, ShowNonceResponse())
            return
        self._cancel_handshake_timer()  # from here on the other end limits how long it waits for a nonce
        self._is_reported = True
        self.owner.context.handler.link_answered(self)

    def _on_confirmation(self, response: HandshakeResponse, confirmation: ShowNonceResponse) -> None:
        if confirmation.error_code == ErrorCode.NONE and not self.was_ready:
            self._become_ready(response, confirmation)

    def _become_ready(self, response: HandshakeResponse, confirmation: ShowNonceResponse) -> None:
        context = self.owner.context
        self._is_reported = True
        context.handler.peer_identified(self, response, confirmation)
        if not self.is_open:
            return
        self._cancel_handshake_timer()
        self.allow_frames(limits.FRAME_BYTES_MAX)
        self.is_ready = self.was_ready = True
        context.logger.info("peer_connected", peer=self.peer, address=self.address)
        self.owner.ready(self)

    def _cancel_handshake_timer(self) -> None:
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
            self._handshake_timer = None

    def _handshake_timed_out(self) -> None:
        self._handshake_timer = None
        self.abort(f"no response to the handshake within {self.HANDSHAKE_MS} ms")


class Challenge(OutboundConnection):
    """A second connection to a peer that brings a nonce, claims nothing, and ends by itself (D-37)."""

    is_challenge = True
    HANDSHAKE_MS = CHALLENGE_MS

    def __init__(self, owner: ConnectionOwner) -> None:
        super().__init__(owner)
        self.task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether it is closed or could not connect."""
        return self.task is not None and self.task.done()

    async def run(self) -> None:
        """Connect and wait for the end. A failure is not logged: `PeerConnection` logs it."""
        endpoint = self.owner.endpoint
        with suppress(OSError, ValueError, OverflowError):
            found = await self.owner.context.addresses.of(endpoint.host, CHALLENGE_MS)
            await connect(self, found, endpoint.port, CHALLENGE_MS)
            await self.over.wait()

    def stop(self) -> None:
        """Close it, in whatever state it is."""
        self.abort("the challenge is over")
        if self.task is not None:
            self.task.cancel()
