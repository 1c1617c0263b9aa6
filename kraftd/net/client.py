"""How does this node reach the other members? One outbound connection each, kept up without being asked.

Between voters, the greeting of a link brings a nonce to whoever listens at the configured address, and the
link is ready for requests once it has shown a nonce of the other end (D-37). When the owner asks for a
*challenge*, a link that rests connects at once; one that seems to stand, or to be about to, is left alone,
and another connection brings the nonce.

Entered through `PeerLinks.send`; answers and failures go to the handler, under the correlation id that the
core gave. Answers may come in any order, so a fetch that waits at the leader delays nothing. A link
connects by itself, resolves the host anew each time, shakes hands, and after a failure waits 50 to 500 ms;
requests made meanwhile wait for the next attempt and fail with it.

The same outage is logged once, not at every attempt. That a connect failed is never a closed connection
(D-08): `connection_ended` is only for connections whose handshake was done.
"""

import asyncio
import os
import random
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from kraftd.errors import ErrorCode, MalformedError, UnencodableError
from kraftd.net.connection import FrameConnection, Outbox
from kraftd.net.handshake import Identity, common_versions, refusal_of_answer
from kraftd.net.repeats import Repeats
from kraftd.protocol import limits
from kraftd.protocol.codec import SealedResponse, encode_request
from kraftd.protocol.framing import Buffer
from kraftd.protocol.messages import (
    HandshakeRequest,
    HandshakeResponse,
    ShowNonceRequest,
    ShowNonceResponse,
)
from kraftd.types import ZERO_UUID, Endpoint, NodeId, Uuid

_CONNECT_MS = 2_000
_BACKOFF_MIN_MS = 50
_BACKOFF_MAX_MS = 500
_GREETING_ID = 0


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


class PeerLinks:
    """The links to all members that we know an address of."""

    def __init__(
        self,
        identity: Identity,
        handler: LinkHandler,
        outbox: Outbox,
        numbers: Iterator[int],
        tasks: asyncio.TaskGroup,
        repeats: Repeats,
        *,
        log: Any,
        spread: Callable[[float, float], float] = random.uniform,
        nonce: Callable[[], Uuid] = lambda: os.urandom(16),
    ) -> None:
        self.identity = identity
        self.handler = handler
        self.outbox = outbox
        self.numbers = numbers
        self.repeats = repeats
        self.log = log
        self.spread = spread
        self.nonce = nonce
        self.voter_ids: frozenset[NodeId] = frozenset()
        """Whom to give a nonce, and from whom to take one; empty if this node is no voter."""
        self.tasks = tasks
        self._links: dict[NodeId, PeerLink] = {}

    def learn(self, peer: NodeId, endpoint: Endpoint) -> None:
        """Where a member listens. A standing connection to another address of it stays."""
        if peer == self.identity.node_id:
            return
        link = self._links.get(peer)
        if link is None:
            link = self._links[peer] = PeerLink(self, peer, endpoint)
            link.task = self.tasks.create_task(link.run(), name=f"link to {peer}")
        elif link.endpoint != endpoint:
            link.endpoint = endpoint
            link.retry_now()

    def send(self, peer: NodeId, correlation_id: int, message: Any) -> None:
        """Ask a member. Fails at once if no address of it is known."""
        link = self._links.get(peer)
        if link is None:
            self.handler.request_failed(peer, correlation_id, f"no address of node {peer} is known")
        else:
            link.send(correlation_id, message)

    def challenge(self, peer: NodeId) -> None:
        """Bring a nonce to a voter's address now (D-37)."""
        link = self._links.get(peer)
        if link is not None:
            link.challenge()

    def confirmed(self, peer: NodeId) -> None:
        """The voter is there: a challenge has done its work, and a link that is down is tried at once."""
        link = self._links.get(peer)
        if link is not None:
            link.confirmed()

    def statistics(self) -> Mapping[NodeId, tuple[Endpoint, bool, str]]:
        """Where each peer is thought to be, whether its link stands, and what is wrong with it."""
        return {
            peer: (link.endpoint, link.is_ready, "" if link.is_ready else link.trouble)
            for peer, link in self._links.items()
        }

    def stop(self) -> None:
        """Write what is collected, close every link and connect no more."""
        for link in self._links.values():
            link.stop()


class PeerLink:
    """The outbound connection to one member, and the requests that wait for it."""

    def __init__(self, links: PeerLinks, peer: NodeId, endpoint: Endpoint) -> None:
        self.links = links
        self.peer = peer
        self.endpoint = endpoint
        self.trouble = ""
        self.task: asyncio.Task[None] | None = None
        self._connection: OutboundConnection | None = None
        self._limit: asyncio.Timeout | None = None
        """How long a connection that is being opened may take."""
        self._is_resting = False
        self._challenge: Challenge | None = None
        self._waiting: list[tuple[int, Any]] = []
        self._nudge = asyncio.Event()
        self._backoff_ms = _BACKOFF_MIN_MS

    @property
    def is_ready(self) -> bool:
        """Whether requests leave at once."""
        return self._connection is not None and self._connection.is_ready

    async def run(self) -> None:
        """Keep the link up until cancelled."""
        while True:
            self._nudge.clear()
            connection = OutboundConnection(self)
            if await self._connect(connection):
                self._connection = connection
                self._nudge.clear()
                await connection.over.wait()
                self._connection = None
                if not connection.was_ready:
                    self._say(connection.end_reason)
            self._fail_waiting(self.trouble or connection.end_reason)
            await self._wait_backoff()

    async def _connect(self, connection: "OutboundConnection") -> bool:
        loop, endpoint = asyncio.get_running_loop(), self.endpoint
        try:
            async with asyncio.timeout(_CONNECT_MS / 1_000) as self._limit:
                await loop.create_connection(lambda: connection, endpoint.host, endpoint.port)
        except TimeoutError:
            if not self._nudge.is_set():
                self._say(f"{endpoint} did not answer within {_CONNECT_MS} ms")
        except (OSError, ValueError, OverflowError) as error:
            # The last two: a host or port that is none. A peer may have told us so; that is not fatal.
            self._say(f"cannot connect to {endpoint}: {_cause(error)}")
        else:
            return True
        finally:
            self._limit = None
        return False

    def ready(self, connection: "OutboundConnection") -> None:
        """The handshake is done: what waited leaves now."""
        self.trouble = ""
        self._backoff_ms = _BACKOFF_MIN_MS
        waiting, self._waiting = self._waiting, []
        for correlation_id, message in waiting:
            connection.ask(correlation_id, message)

    def send(self, correlation_id: int, message: Any) -> None:
        """Ask now, or as soon as the link stands."""
        connection = self._connection
        if connection is not None and connection.is_ready:
            connection.ask(correlation_id, message)
            return
        self._waiting.append((correlation_id, message))
        if len(self._waiting) > limits.REQUESTS_IN_FLIGHT_MAX:
            oldest, _ = self._waiting.pop(0)
            self.links.handler.request_failed(self.peer, oldest, "too many requests wait for the connection")

    def retry_now(self) -> None:
        """Connect at once if the link rests, and anew if that is under way: to whom, may have changed."""
        self._nudge.set()
        if self._connection is None and not self._is_resting and self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    def challenge(self) -> None:
        """Bring a nonce there now: with the link itself if it rests, else beside it (D-37).

        The other machine lost its power, and is back: a link that stood looks open still, and one that is
        being opened waits for seconds before it tries again.
        """
        if self._is_resting:
            self._nudge.set()
            return
        if self._challenge is not None:
            if self._challenge.is_answered:
                return
            self._challenge.stop()
        self._challenge = challenge = Challenge(self)
        challenge.task = self.links.tasks.create_task(challenge.run(), name=f"challenge of {self.peer}")

    def confirmed(self) -> None:
        """The voter is there."""
        if self._challenge is not None:
            self._challenge.stop()
            self._challenge = None
        if self._connection is None or not self._connection.is_open:
            self.retry_now()

    def stop(self) -> None:
        """Close, and connect no more."""
        if self._connection is not None:
            self._connection.close("this node stops")
        if self._challenge is not None:
            self._challenge.stop()
        if self.task is not None:
            self.task.cancel()

    async def _wait_backoff(self) -> None:
        self._is_resting = True
        try:
            await self._rest()
        finally:
            self._is_resting = False

    async def _rest(self) -> None:
        delay_ms = self._backoff_ms * self.links.spread(0.8, 1.2)
        self._backoff_ms = min(2 * self._backoff_ms, _BACKOFF_MAX_MS)
        try:
            async with asyncio.timeout(delay_ms / 1_000):
                await self._nudge.wait()
        except TimeoutError:
            return

    def _fail_waiting(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, []
        for correlation_id, _ in waiting:
            self.links.handler.request_failed(self.peer, correlation_id, reason)

    def _say(self, trouble: str) -> None:
        """Log what is wrong, once for each new kind of trouble."""
        if trouble != self.trouble:
            self.trouble = trouble
            self.links.log.warning("peer_unreachable", peer=self.peer, reason=trouble)


class OutboundConnection(FrameConnection):
    """One attempt to talk to a member."""

    is_challenge = False

    def __init__(self, link: PeerLink) -> None:
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
        self._patience = loop.call_later(limits.HANDSHAKE_TIMEOUT_MS / 1_000, self._lose_patience)
        nonce = ZERO_UUID
        if self.peer in links.voter_ids:
            nonce = links.nonce()
            self._is_told_of = True
            links.handler.nonce_given(self, nonce)
        greeting = links.identity.greeting(nonce, is_challenge=self.is_challenge)
        self.write(encode_request(HandshakeRequest.MAX_VERSION, _GREETING_ID, self._client_id, greeting))
        self.flush()

    def frames_received(self, frames: Sequence[Buffer]) -> None:
        """Implements `FrameConnection`: first the answer to the greeting, then answers to requests."""
        for frame in frames:
            try:
                self._take(frame)
            except MalformedError as error:
                self.reject(str(error))
            if not self.is_open:
                return

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
        sealed = SealedResponse(frame)
        correlation_id = sealed.correlation_id
        if self._answer is None:
            self._take_answer(sealed.open((HandshakeRequest.API_KEY, HandshakeRequest.MAX_VERSION)))
        elif correlation_id < 0:
            self._take_confirmation(self._answer, sealed.open((ShowNonceRequest.API_KEY, 0)))
        else:
            expected = self._in_flight.pop(correlation_id, None)
            if expected is None:
                return
            response = sealed.open(expected)
            self.link.links.handler.response_received(self.peer, correlation_id, response, sealed.records)

    def _take_answer(self, answer: HandshakeResponse) -> None:
        links = self.link.links
        refusal = refusal_of_answer(answer, links.identity, self.peer)
        if refusal is not None:
            self.close(f"refused: {refusal.reason}")
            return
        self._answer = answer
        if self.is_challenge:
            return
        if not answer.must_show:
            self._become_ready(answer, ShowNonceResponse())
            return
        self._cancel_patience()  # from here on the other end decides how long it waits for a nonce
        self._is_told_of = True
        links.handler.link_answered(self)

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
        self._versions = common_versions(answer)
        self.allow_large_frames()
        self.is_ready = self.was_ready = True
        links.log.info("peer_connected", peer=self.peer, address=self.address)
        self.link.ready(self)

    def _cancel_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lose_patience(self) -> None:
        self._patience = None
        self.abort(f"no answer to the handshake within {limits.HANDSHAKE_TIMEOUT_MS} ms")


class Challenge(OutboundConnection):
    """A connection beside the link that brings a nonce, claims nothing, and ends by itself (D-37)."""

    is_challenge = True

    def __init__(self, link: PeerLink) -> None:
        super().__init__(link)
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Connect and wait for the end. That nobody is there is not news: the link says so."""
        endpoint = self.link.endpoint
        with suppress(OSError, ValueError, OverflowError):
            async with asyncio.timeout(_CONNECT_MS / 1_000):
                await asyncio.get_running_loop().create_connection(lambda: self, endpoint.host, endpoint.port)
            await self.over.wait()

    def stop(self) -> None:
        """End it, however far it came."""
        self.abort("the challenge is over")
        if self.task is not None:
            self.task.cancel()


def _cause(error: Exception) -> str:
    """The system's words for it: asyncio puts its own in their place."""
    if not isinstance(error, OSError):
        return f"no such address: {error}"
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error) or type(error).__name__
    return os.strerror(error.errno)
