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
(D-08): `connection_lost` is only for connections that the handler was told of.
"""

import asyncio
import os
import random
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kraftd.net.connection import Outbox
from kraftd.net.handshake import Identity
from kraftd.net.outbound import CONNECT_MS, Challenge, LinkHandler, OutboundConnection
from kraftd.net.repeats import Repeats
from kraftd.protocol import limits
from kraftd.types import Endpoint, NodeId, Uuid

_BACKOFF_MIN_MS = 50
_BACKOFF_MAX_MS = 500
_MOMENT_S = 0.001
"""Longer than a turn, and nothing beside a backoff."""


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
            async with asyncio.timeout(CONNECT_MS / 1_000) as self._limit:
                await loop.create_connection(lambda: connection, endpoint.host, endpoint.port)
        except TimeoutError:
            if not self._nudge.is_set():
                self._say(f"{endpoint} did not answer within {CONNECT_MS} ms")
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
        limit = self._limit
        if limit is not None and not limit.expired():  # else the time of this attempt is up anyway
            # Not at once: what is ready to be read in this turn may be the connection that is waited for.
            limit.reschedule(asyncio.get_running_loop().time() + _MOMENT_S)

    def challenge(self) -> None:
        """Bring a nonce there now: with the link itself if it rests, else beside it (D-37).

        The other machine lost its power, and is back: a link that stood looks open still, and one that is
        being opened waits for seconds before it tries again.
        """
        if self._is_resting:
            self._nudge.set()
            return
        if self._challenge is not None and not self._challenge.is_over:
            return
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


def _cause(error: Exception) -> str:
    """The system's words for it: asyncio puts its own in their place."""
    if not isinstance(error, OSError):
        return f"no such address: {error}"
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error) or type(error).__name__
    return os.strerror(error.errno)
