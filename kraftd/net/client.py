"""How does this node reach the other members? One outbound connection each, kept up without being asked.

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
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from kraftd.errors import UnencodableError
from kraftd.net.connection import CallbackError, FrameConnection, Outbox
from kraftd.net.handshake import Identity, Refusal, common_versions, refusal_of_answer
from kraftd.net.repeats import Repeats
from kraftd.protocol import limits
from kraftd.protocol.codec import SealedResponse, encode_request
from kraftd.protocol.framing import Buffer
from kraftd.protocol.messages import HandshakeRequest, HandshakeResponse
from kraftd.types import Endpoint, NodeId

_CONNECT_MS = 2_000
_BACKOFF_MIN_MS = 50
_BACKOFF_MAX_MS = 500
_GREETING_ID = 0
_GREETING = (HandshakeRequest.API_KEY, 0)


class LinkHandler(Protocol):
    """What the links' owner does with what comes back."""

    def peer_answered_greeting(self, connection: "OutboundConnection", answer: HandshakeResponse) -> None:
        """A member said who it is; the handler may call `connection.refuse` before it returns."""

    def response_received(self, peer: NodeId, correlation_id: int, response: Any, records: Buffer) -> None:
        """The answer to a request."""

    def request_failed(self, peer: NodeId, correlation_id: int, reason: str) -> None:
        """A request will not be answered."""

    def connection_lost(self, connection: "OutboundConnection") -> None:
        """A connection whose handshake was done is gone."""


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
    ) -> None:
        self.identity = identity
        self.handler = handler
        self.outbox = outbox
        self.numbers = numbers
        self.repeats = repeats
        self.log = log
        self.spread = spread
        self._tasks = tasks
        self._links: dict[NodeId, PeerLink] = {}

    def learn(self, peer: NodeId, endpoint: Endpoint) -> None:
        """Where a member listens. A standing connection to another address of it stays."""
        if peer == self.identity.node_id:
            return
        link = self._links.get(peer)
        if link is None:
            link = self._links[peer] = PeerLink(self, peer, endpoint)
            link.task = self._tasks.create_task(link.run(), name=f"link to {peer}")
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

    def retry_now(self, peer: NodeId) -> None:
        """The member was just heard of: do not wait for the end of the backoff."""
        link = self._links.get(peer)
        if link is not None:
            link.retry_now()

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
        self._waiting: list[tuple[int, Any]] = []
        self._nudge = asyncio.Event()
        self._backoff_ms = _BACKOFF_MIN_MS

    @property
    def is_ready(self) -> bool:
        """Whether requests leave at once."""
        return self._connection is not None and self._connection.is_ready

    async def run(self) -> None:
        """Keep the link up until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            connection = OutboundConnection(self)
            endpoint = self.endpoint
            try:
                async with asyncio.timeout(_CONNECT_MS / 1_000):
                    await loop.create_connection(lambda: connection, endpoint.host, endpoint.port)  # noqa: B023 - called at once
            except TimeoutError:
                self._say(f"{endpoint} did not answer within {_CONNECT_MS} ms")
            except (OSError, ValueError, OverflowError) as error:
                # The last two: a host or port that is none. A peer may have told us so; that is not fatal.
                self._say(f"cannot connect to {endpoint}: {_cause(error)}")
            else:
                self._connection = connection
                await connection.over.wait()
                self._connection = None
                if not connection.was_ready:
                    self._say(connection.end_reason)
            self._fail_waiting(self.trouble or connection.end_reason)
            await self._wait_backoff()

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
        """Cut the backoff short."""
        self._nudge.set()

    def stop(self) -> None:
        """Close, and connect no more."""
        if self._connection is not None:
            self._connection.close("this node stops")
        if self.task is not None:
            self.task.cancel()

    async def _wait_backoff(self) -> None:
        self._nudge.clear()
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


class OutboundConnection(FrameConnection, asyncio.Protocol):
    """One attempt to talk to a member."""

    def __init__(self, link: PeerLink) -> None:
        super().__init__(link.links.outbox, link.links.repeats)
        self.link = link
        self.number = next(link.links.numbers)
        self.is_ready = False
        self.was_ready = False
        self.over = asyncio.Event()
        self._versions: Mapping[int, int] = {}
        self._in_flight: dict[int, tuple[int, int]] = {}
        self._patience: asyncio.TimerHandle | None = None
        self._client_id = f"kraftd-{link.links.identity.node_id}"

    @property
    def peer(self) -> NodeId:
        """The member at the other end."""
        return self.link.peer

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
        """Close it: we do not want to talk to who is there."""
        self.close(f"refused: {reason}")

    def opened(self) -> None:
        """Implements `FrameConnection`: greet."""
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(limits.HANDSHAKE_TIMEOUT_MS / 1_000, self._lose_patience)
        self.write(encode_request(0, _GREETING_ID, self._client_id, self.link.links.identity.greeting()))
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
            handler.connection_lost(self)
        in_flight, self._in_flight = self._in_flight, {}
        for correlation_id in in_flight:
            handler.request_failed(self.peer, correlation_id, self.end_reason)

    def _take(self, frame: Buffer) -> None:
        try:
            sealed = SealedResponse(frame)
            greeted = self.was_ready
            expected = self._in_flight.get(sealed.correlation_id) if greeted else _GREETING
            if expected is None:
                return
            response = sealed.open(expected)
            refusal = None if greeted else self._refusal_of(response)
        except Exception as error:  # noqa: BLE001 - the boundary (D-38)
            self.fail("reading an answer", error)
            return
        if greeted:
            del self._in_flight[sealed.correlation_id]
            handler = self.link.links.handler
            handler.response_received(self.peer, sealed.correlation_id, response, sealed.records)
        elif refusal is not None:
            self.close(f"refused: {refusal.reason}")
        else:
            self._welcome(response)

    def _refusal_of(self, answer: HandshakeResponse) -> Refusal | None:
        """Judge the answer to the greeting, and remember which versions both ends speak."""
        refusal = refusal_of_answer(answer, self.link.links.identity, self.peer)
        if refusal is None:
            self._versions = common_versions(answer)
        return refusal

    def _welcome(self, answer: HandshakeResponse) -> None:
        links = self.link.links
        links.handler.peer_answered_greeting(self, answer)
        if not self.is_open:
            return
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self.allow_frames(limits.FRAME_BYTES_MAX)
        self.is_ready = self.was_ready = True
        links.log.info("peer_connected", peer=self.peer, address=self.address)
        self.link.ready(self)

    def _lose_patience(self) -> None:
        self._patience = None
        self.abort(f"no answer to the handshake within {limits.HANDSHAKE_TIMEOUT_MS} ms")


def _cause(error: Exception) -> str:
    """The system's words for it: asyncio puts its own in their place."""
    if not isinstance(error, OSError):
        return f"no such address: {error}"
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error) or type(error).__name__
    return os.strerror(error.errno)
