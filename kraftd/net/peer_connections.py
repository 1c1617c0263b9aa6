"""Keeps one outbound connection open to each other node.

Between voters, the greeting of a connection brings a nonce to the process at the configured address, and
the connection is ready for requests once it has shown a nonce of the other end (D-37). When the raft node
asks for a *challenge*, a connection in its backoff connects at once; one that is open, or being opened, is
left alone, and another connection brings the nonce.

Entered through `PeerConnections.send`; responses and failures go to the handler, under the correlation id
that the raft node gave. Responses may come in any order, so a fetch that waits at the leader delays
nothing. A `PeerConnection` connects by itself, asks anew each time where the host is (`addresses`), shakes
hands, and after a failure waits 40 to 600 ms; requests made meanwhile wait for the next attempt and fail with
it.

The same outage is logged once, not at every attempt. A failed connect never counts as a closed connection
(D-08): `connection_lost` is only for connections that the handler was told of.
"""

import asyncio
import os
import random
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kraftd.net import addresses
from kraftd.net.addresses import AddressBook, connect
from kraftd.net.connection import Outbox
from kraftd.net.handshake import Identity
from kraftd.net.outbound import CONNECT_MS, Challenge, OutboundConnection, PeerHandler
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.protocol import limits
from kraftd.types import Endpoint, NodeId, Uuid

_BACKOFF_MIN_MS = 50
_BACKOFF_MAX_MS = 500
_TURN_S = 0.001
"""Longer than a turn of the loop, and short beside a backoff."""


class PeerConnections:
    """The connections to all nodes whose address is known."""

    def __init__(
        self,
        identity: Identity,
        handler: PeerHandler,
        outbox: Outbox,
        numbers: Iterator[int],
        tasks: asyncio.TaskGroup,
        limited_logger: RateLimitedLogger,
        *,
        logger: Any,
        jitter: Callable[[float, float], float] = random.uniform,
        nonce: Callable[[], Uuid] = lambda: os.urandom(16),
    ) -> None:
        self.identity = identity
        self.handler = handler
        self.outbox = outbox
        self.numbers = numbers
        self.limited_logger = limited_logger
        self.logger = logger
        self.jitter = jitter
        self.nonce = nonce
        self.tasks = tasks
        self.addresses = AddressBook(tasks)
        self._connections: dict[NodeId, PeerConnection] = {}

    def learn(self, peer: NodeId, endpoint: Endpoint) -> None:
        """Note where a node listens. An open connection to another address of it stays."""
        if peer == self.identity.node_id:
            return
        connection = self._connections.get(peer)
        if connection is None:
            connection = self._connections[peer] = PeerConnection(self, peer, endpoint)
            connection.task = self.tasks.create_task(connection.run(), name=f"connection to {peer}")
        elif connection.endpoint != endpoint:
            connection.endpoint = endpoint
            connection.retry_now()

    def send(self, peer: NodeId, correlation_id: int, message: Any) -> None:
        """Send a request to a node. Fails at once if no address of it is known."""
        connection = self._connections.get(peer)
        if connection is None:
            self.handler.request_failed(peer, correlation_id, f"no address of node {peer} is known")
        else:
            connection.send(correlation_id, message)

    def challenge(self, peer: NodeId) -> None:
        """Connect to a voter's address now, with a nonce (D-37)."""
        connection = self._connections.get(peer)
        if connection is not None:
            connection.challenge()

    def confirmed(self, peer: NodeId) -> None:
        """Note that a voter has proved itself: end its challenge, and connect at once if not connected."""
        connection = self._connections.get(peer)
        if connection is not None:
            connection.confirmed()

    def statistics(self) -> Mapping[NodeId, tuple[Endpoint, bool, str]]:
        """The endpoint of each peer, whether its connection is ready, and what is wrong with it."""
        return {
            peer: (each.endpoint, each.is_ready, "" if each.is_ready else each.trouble)
            for peer, each in self._connections.items()
        }

    def stop(self) -> None:
        """Write what is collected, close every connection and open no more."""
        for connection in self._connections.values():
            connection.stop()
        self.addresses.stop()


class PeerConnection:
    """Keeps the connection to one node open, with the requests that wait for it."""

    def __init__(self, context: PeerConnections, peer: NodeId, endpoint: Endpoint) -> None:
        self.context = context
        self.peer = peer
        self.endpoint = endpoint
        self.trouble = ""
        self.task: asyncio.Task[None] | None = None
        self._connection: OutboundConnection | None = None
        self._limit: asyncio.Timeout | None = None
        """Ends an attempt to open a connection; nothing does by itself."""
        self._is_in_backoff = False
        self._challenge: Challenge | None = None
        self._waiting: list[tuple[int, Any]] = []
        self._retry = asyncio.Event()
        self._backoff_ms = _BACKOFF_MIN_MS

    @property
    def is_ready(self) -> bool:
        """Whether requests leave at once."""
        return self._connection is not None and self._connection.is_ready

    async def run(self) -> None:
        """Connect again and again until cancelled."""
        while True:
            self._retry.clear()
            connection = OutboundConnection(self)
            if await self._connect(connection):
                self._connection = connection
                self._retry.clear()
                await connection.over.wait()
                self._connection = None
                if not connection.was_ready:
                    self._log_trouble(connection.end_reason)
            elif self._retry.is_set():  # ended for another attempt: no failure
                continue
            self._fail_waiting(self.trouble or connection.end_reason)
            await self._wait_backoff()

    async def _connect(self, connection: "OutboundConnection") -> bool:
        endpoint, step = self.endpoint, f"no address was found within {addresses.LOOKUP_MS} ms"
        try:
            async with asyncio.timeout(None) as self._limit:
                found = await self.context.addresses.of(endpoint.host, addresses.LOOKUP_MS)
                step = f"did not answer within {CONNECT_MS} ms"
                await connect(connection, found, endpoint.port, CONNECT_MS)
        except TimeoutError:
            if not self._retry.is_set():
                self._log_trouble(f"{endpoint}: {step}")
        except (OSError, ValueError, OverflowError) as error:
            # The last two: a host or port that is none. A peer may have told us so; that is not fatal.
            self._log_trouble(f"cannot connect to {endpoint}: {_cause(error)}")
        else:
            return True
        finally:
            self._limit = None
        return False

    def ready(self, connection: "OutboundConnection") -> None:
        """Send what waited for the handshake."""
        self.trouble = ""
        self._backoff_ms = _BACKOFF_MIN_MS
        waiting, self._waiting = self._waiting, []
        for correlation_id, message in waiting:
            connection.send_request(correlation_id, message)

    def send(self, correlation_id: int, message: Any) -> None:
        """Send a request now, or when the connection is ready."""
        connection = self._connection
        if connection is not None and connection.is_ready:
            connection.send_request(correlation_id, message)
            return
        self._waiting.append((correlation_id, message))
        if len(self._waiting) > limits.REQUESTS_IN_FLIGHT_MAX:
            oldest, _ = self._waiting.pop(0)
            self.context.handler.request_failed(
                self.peer, oldest, "too many requests wait for the connection"
            )

    def retry_now(self) -> None:
        """End the backoff, or an attempt that is under way: the address may have changed."""
        self._retry.set()
        limit = self._limit
        if limit is not None and not limit.expired():  # else this attempt ends by itself
            # Not at once: this attempt may have connected, in a callback of this turn that has yet to run.
            limit.reschedule(asyncio.get_running_loop().time() + _TURN_S)

    def challenge(self) -> None:
        """Bring a nonce there now: with this connection in its backoff, else with another one (D-37).

        Machine 2 lost its power and is back. Node 1 has seen no end of its connection to node 2, which looks
        open for eight more seconds; if it was being opened, the lost packets are sent again after seconds.
        Without the other connection node 2 would wait as long for its nonce.
        """
        if self._is_in_backoff:
            self._retry.set()
            return
        if self._challenge is not None and not self._challenge.is_over:
            return
        self._challenge = challenge = Challenge(self)
        challenge.task = self.context.tasks.create_task(challenge.run(), name=f"challenge of {self.peer}")

    def confirmed(self) -> None:
        """Note that the voter has proved itself."""
        if self._challenge is not None:
            self._challenge.stop()
            self._challenge = None
        if self._connection is None or not self._connection.is_open:
            self.retry_now()

    def stop(self) -> None:
        """Close the connection, and open no more."""
        if self._connection is not None:
            self._connection.close("this node stops")
        if self._challenge is not None:
            self._challenge.stop()
        if self.task is not None:
            self.task.cancel()

    async def _wait_backoff(self) -> None:
        self._is_in_backoff = True
        try:
            await self._sleep_or_retry()
        finally:
            self._is_in_backoff = False

    async def _sleep_or_retry(self) -> None:
        delay_ms = self._backoff_ms * self.context.jitter(0.8, 1.2)
        self._backoff_ms = min(2 * self._backoff_ms, _BACKOFF_MAX_MS)
        try:
            async with asyncio.timeout(delay_ms / 1_000):
                await self._retry.wait()
        except TimeoutError:
            return

    def _fail_waiting(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, []
        for correlation_id, _ in waiting:
            self.context.handler.request_failed(self.peer, correlation_id, reason)

    def _log_trouble(self, trouble: str) -> None:
        """Log what is wrong, once for each new kind of trouble."""
        if trouble != self.trouble:
            self.trouble = trouble
            self.context.logger.warning("peer_unreachable", peer=self.peer, reason=trouble)


def _cause(error: Exception) -> str:
    """The system's text of an error; asyncio replaces it by its own."""
    if not isinstance(error, OSError):
        return f"no such address: {error}"
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error) or type(error).__name__
    return os.strerror(error.errno)
