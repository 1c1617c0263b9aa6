"""One connection of ours to another member: greeting, nonce, requests and their answers.

Made by the links (`kraftd.net.client`), entered by asyncio, and by whoever asks or shows a nonce. What comes
in is first the answer to the greeting, then, between voters, whether the nonce shown was right, and from then
on answers to requests.

A `Challenge` is such a connection that only brings a nonce (D-37).
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Protocol

from kraftd.errors import ErrorCode, UnencodableError
from kraftd.net.connection import CallbackError, FrameConnection, Outbox
from kraftd.net.handshake import Identity, Refusal, common_versions, refusal_of_answer
from kraftd.net.repeats import Repeats
from kraftd.protocol import limits
from kraftd.protocol.codec import UndecodedResponse, encode_request
from kraftd.protocol.framing import Buffer
from kraftd.protocol.messages import (
    HandshakeRequest,
    HandshakeResponse,
    ShowNonceRequest,
    ShowNonceResponse,
)
from kraftd.types import ZERO_UUID, Endpoint, NodeId, Uuid

CONNECT_MS = 2_000
CHALLENGE_MS = 500
"""How long a challenge may take to connect, and how long it stands then. Whoever takes the nonce shows it at
once, and the machine may have lost its power since it took it, so that only another challenge reaches it.
"""
_GREETING_ID = 0
_GREETING = (HandshakeRequest.API_KEY, HandshakeRequest.MAX_VERSION)
_SHOWN = (ShowNonceRequest.API_KEY, ShowNonceRequest.MAX_VERSION)


class LinkHandler(Protocol):
    """What the links' owner does with what comes back."""

    def nonce_given(self, connection: "OutboundConnection", nonce: Uuid) -> None:
        """A nonce is on its way to a voter's address."""

    def link_answered(self, connection: "OutboundConnection") -> None:
        """The greeting was answered, and a nonce is wanted: the handler calls `connection.show` with those it
        knows.
        """

    def peer_identified(
        self, connection: "OutboundConnection", answer: HandshakeResponse, shown: ShowNonceResponse
    ) -> None:
        """The link is good for requests: who answers there, and which start of it. The handler may call
        `connection.refuse` before it returns.
        """

    def response_received(self, peer: NodeId, correlation_id: int, response: Any, records: Buffer) -> None:
        """The answer to a request."""

    def request_failed(self, peer: NodeId, correlation_id: int, reason: str) -> None:
        """A request will not be answered."""

    def connection_lost(self, connection: "OutboundConnection") -> None:
        """A connection that the handler was told of is gone."""


class Links(Protocol):
    """What all connections of a node share."""

    identity: Identity
    handler: LinkHandler
    outbox: Outbox
    numbers: Iterator[int]
    repeats: Repeats
    log: Any
    nonce: Callable[[], Uuid]
    voter_ids: frozenset[NodeId]


class Link(Protocol):
    """Whoever makes connections to one member."""

    peer: NodeId
    endpoint: Endpoint

    @property
    def links(self) -> Links:
        """What it shares with the others."""

    def ready(self, connection: "OutboundConnection") -> None:
        """A connection is good for requests."""


class OutboundConnection(FrameConnection, asyncio.Protocol):
    """One attempt to talk to a member."""

    is_challenge = False
    PATIENCE_MS = limits.HANDSHAKE_TIMEOUT_MS
    """How long the handshake may take."""

    def __init__(self, link: Link) -> None:
        super().__init__(link.links.outbox, link.links.repeats)
        self.link = link
        self.number = next(link.links.numbers)
        self.is_ready = False
        self.was_ready = False
        self.over = asyncio.Event()
        self._is_told_of = False
        """Whether the handler knows this connection, and is to hear of its end."""
        self._answer: HandshakeResponse | None = None
        self._versions: Mapping[int, int] = {}
        self._in_flight: dict[int, tuple[int, int]] = {}
        self._last_show_id = 0
        self._patience: asyncio.TimerHandle | None = None
        self._client_id = f"kraftd-{link.links.identity.node_id}"

    @property
    def peer(self) -> NodeId:
        """The member at the other end."""
        return self.link.peer

    @property
    def is_answered(self) -> bool:
        """Whether the other end has read our greeting, and the nonce in it."""
        return self._answer is not None

    def show(self, nonce: Uuid) -> None:
        """Show a nonce that came to us under the id of who is at the other end (D-37)."""
        self._last_show_id -= 1
        self.write(
            encode_request(0, self._last_show_id, self._client_id, self.link.links.identity.show(nonce))
        )

    def ask(self, correlation_id: int, message: Any) -> None:
        """Send a request in the highest version that both ends speak."""
        api_key = message.API_KEY
        version = self._versions.get(api_key)
        handler = self.link.links.handler
        if version is None:
            handler.request_failed(
                self.peer, correlation_id, f"node {self.peer} does not know {message.NAME}"
            )
            return
        try:
            frame = encode_request(version, correlation_id, self._client_id, message)
        except UnencodableError as error:
            # A peer may say that it knows only versions without room for what we ask: that is not fatal.
            handler.request_failed(self.peer, correlation_id, str(error))
            return
        self._in_flight[correlation_id] = (api_key, version)
        if len(self._in_flight) > limits.REQUESTS_IN_FLIGHT_MAX:
            # The core gave up on the oldest long ago; its answer, should it come, is nobody's.
            del self._in_flight[next(iter(self._in_flight))]
        self.write(frame)

    def refuse(self, reason: str) -> None:
        """End it at once: we do not want to talk to who is there, or nobody is there any more."""
        self.abort(f"refused: {reason}")

    def opened(self) -> None:
        """Implements `FrameConnection`: greet, with a nonce if both ends are voters."""
        links = self.link.links
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(self.PATIENCE_MS / 1_000, self._lose_patience)
        nonce = ZERO_UUID
        if self.peer in links.voter_ids:
            nonce = links.nonce()
            self._is_told_of = True
            links.handler.nonce_given(self, nonce)
        greeting = links.identity.greeting(nonce, is_challenge=self.is_challenge)
        self.write(encode_request(HandshakeRequest.MAX_VERSION, _GREETING_ID, self._client_id, greeting))
        self.flush()

    def data_received(self, data: bytes) -> None:
        """Implements `asyncio.Protocol`: first the answer to the greeting, then answers to requests."""
        if not self.is_open:
            return
        try:
            frames = self._reader.feed(data)
        except Exception as error:  # noqa: BLE001 - the boundary (D-38)
            self.fail("cutting frames", error)
            return
        try:
            for frame in frames:
                if self.is_open:
                    self._take(frame)
        except OSError as error:
            raise CallbackError(f"{type(error).__name__}: {error}") from error

    def ended(self) -> None:
        """Implements `FrameConnection`."""
        if self._patience is not None:
            self._patience.cancel()
        self.is_ready = False
        self.over.set()
        handler = self.link.links.handler
        if self.was_ready:
            self.link.links.log.info("peer_lost", peer=self.peer, reason=self.end_reason)
        elif self.is_answered and not self.is_challenge:
            self.end_reason += (
                f": node {self.peer} did not confirm this node; it must be able to reach the address that "
                f"its controller.quorum.voters has for node {self.link.links.identity.node_id}"
            )
        if self._is_told_of:
            handler.connection_lost(self)
        in_flight, self._in_flight = self._in_flight, {}
        for correlation_id in in_flight:
            handler.request_failed(self.peer, correlation_id, self.end_reason)

    def _take(self, frame: Buffer) -> None:
        try:
            undecoded = UndecodedResponse(frame)
            expected = self._expected(undecoded.correlation_id)
            if expected is None:
                return
            response = undecoded.decode(expected)
            refusal = self._refusal_of(response) if self._answer is None else None
        except Exception as error:  # noqa: BLE001 - the boundary (D-38)
            self.fail("reading an answer", error)
            return
        correlation_id = undecoded.correlation_id
        if refusal is not None:
            self.close(f"refused: {refusal.reason}")
        elif self._answer is None:
            self._take_answer(response)
        elif correlation_id < 0:
            self._take_confirmation(self._answer, response)
        else:
            del self._in_flight[correlation_id]
            self.link.links.handler.response_received(self.peer, correlation_id, response, undecoded.records)

    def _expected(self, correlation_id: int) -> tuple[int, int] | None:
        """Which API and version an answer is of; None if nobody waits for it."""
        if self._answer is None:
            return _GREETING
        return _SHOWN if correlation_id < 0 else self._in_flight.get(correlation_id)

    def _refusal_of(self, answer: HandshakeResponse) -> Refusal | None:
        """Judge the answer to the greeting, and remember which versions both ends speak."""
        refusal = refusal_of_answer(answer, self.link.links.identity, self.peer)
        if refusal is None:
            self._versions = common_versions(answer)
        return refusal

    def _take_answer(self, answer: HandshakeResponse) -> None:
        self._answer = answer
        if self.is_challenge:
            return
        if not answer.must_show:
            self._become_ready(answer, ShowNonceResponse())
            return
        self._cancel_patience()  # from here on the other end decides how long it waits for a nonce
        self._is_told_of = True
        self.link.links.handler.link_answered(self)

    def _take_confirmation(self, answer: HandshakeResponse, shown: ShowNonceResponse) -> None:
        if shown.error_code == ErrorCode.NONE and not self.was_ready:
            self._become_ready(answer, shown)

    def _become_ready(self, answer: HandshakeResponse, shown: ShowNonceResponse) -> None:
        links = self.link.links
        self._is_told_of = True
        links.handler.peer_identified(self, answer, shown)
        if not self.is_open:
            return
        self._cancel_patience()
        self.allow_frames(limits.FRAME_BYTES_MAX)
        self.is_ready = self.was_ready = True
        links.log.info("peer_connected", peer=self.peer, address=self.address)
        self.link.ready(self)

    def _cancel_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lose_patience(self) -> None:
        self._patience = None
        self.abort(f"no answer to the handshake within {self.PATIENCE_MS} ms")


class Challenge(OutboundConnection):
    """A connection beside the link that brings a nonce, claims nothing, and ends by itself (D-37)."""

    is_challenge = True
    PATIENCE_MS = CHALLENGE_MS

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self.task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether it came to its end, or could not connect."""
        return self.task is not None and self.task.done()

    async def run(self) -> None:
        """Connect and wait for the end. That nobody is there is not news: the link says so."""
        endpoint = self.link.endpoint
        with suppress(OSError, ValueError, OverflowError):
            async with asyncio.timeout(CHALLENGE_MS / 1_000):
                await asyncio.get_running_loop().create_connection(lambda: self, endpoint.host, endpoint.port)
            await self.over.wait()

    def stop(self) -> None:
        """End it, however far it came."""
        self.abort("the challenge is over")
        if self.task is not None:
            self.task.cancel()
