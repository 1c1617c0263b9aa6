"""The listening socket and the inbound connections: who may connect, and in which order requests are
served.

The first byte behind a connection's first length chooses its codec (D-36): msgpack, for nodes and kraftctl,
or Kafka's own wire, for brokers and Kafka's tools, which greet nobody (`kafka_session`). What follows is
about msgpack.

Entered through `Server.start`; every connection then is an `InboundConnection`. Until its handshake is
done, a connection gets only a greeting and one ApiVersions answered; one that greets as a voter may then
show a nonce, and all else that it sends waits until the raft node confirms it (D-37). Requests of confirmed
voters go to the handler as they arrive; those of all others wait, undecoded, until all sockets of the turn
have been read, when `Budgets.serve` is called: so voters are always served first, and a turn does a bounded
amount of work for each class (`budgets`).

Bounds (`protocol.limits`): slots (`slots`), requests in flight and unsent responses of a connection, unsent
responses in all, bytes that wait, time and bytes for the handshake, time without a request. Replies may come
in any order; the correlation id tells them apart.

It is long because a connection from its first byte to its end is told in one place: what is unproved must not
slip through between two.
"""

import asyncio
import itertools
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Protocol

from kraftd.controller.context import Client
from kraftd.errors import ErrorCode, InvariantError
from kraftd.net.budgeted import BudgetedConnection, RequestHandler
from kraftd.net.budgets import Budgets, PeerClass
from kraftd.net.connection import Outbox
from kraftd.net.handshake import Identity, Refusal, refusal_of
from kraftd.net.kafka_session import KafkaSession
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.net.slots import Slots
from kraftd.protocol import limits
from kraftd.protocol.codec import Buffer, Codec, MalformedRequestError, UnsupportedVersion
from kraftd.protocol.framing import CODECS
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    HandshakeRequest,
    ShowNonceRequest,
    ShowNonceResponse,
)
from kraftd.protocol.opening import KAFKA_API_KEYS
from kraftd.protocol.principal import ANONYMOUS
from kraftd.types import NEVER_MS, NO_NODE, Endpoint, NodeId, Now

_BACKLOG = 1024

_CODECS: Mapping[int, Codec] = {**CODECS, KAFKA_API_KEYS: KAFKA}
"""What may be spoken here, by the first byte of a connection's first frame."""

_NO_ROOM = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many connections; the last slots are for voters")


def _read_all(_api_key: int) -> None:
    """For those who refuse nothing unread."""


class ServerHandler(Protocol):
    """What is told of inbound connections and their requests."""

    def must_prove(self, node_id: NodeId) -> bool:
        """Whether a peer that greets with this id must show a nonce (D-37)."""

    def node_greeted(self, connection: "InboundConnection", greeting: HandshakeRequest) -> None:
        """A greeting says that the other end is a voter or an observer; the handler may call
        `connection.refuse` before it returns. A voter's requests come only after `connection.confirm` (D-37).
        """

    def nonce_shown(self, connection: "InboundConnection", request: ShowNonceRequest) -> None:
        """A nonce was shown: call `connection.confirm` or `connection.reject_nonce`."""

    def connection_ended(self, connection: "InboundConnection") -> None:
        """A connection whose greeting was accepted is closed."""


class Server:
    """The listening socket and its connections."""

    def __init__(
        self,
        identity: Identity,
        handler: ServerHandler,
        request_handler: RequestHandler,
        outbox: Outbox,
        numbers: Iterator[int],
        limited_logger: RateLimitedLogger,
        *,
        wake: Callable[[], None],
        long_response_keys: frozenset[int] = frozenset(),
    ) -> None:
        """Make a server without a socket.

        Args:
            wake: Must schedule a call of `run`, for the requests of clients.
            long_response_keys: API keys of requests of few bytes that may have long responses, since they are
                answered from the image or the log; few of them are handled at once.
        """
        self.identity = identity
        self.handler = handler
        self.request_handler = request_handler
        self.long_response_keys = long_response_keys
        self.outbox = outbox
        self.limited_logger = limited_logger
        self.tally = outbox.tally
        self.codecs = _CODECS
        self.kafka_api_keys: frozenset[int] = frozenset()
        """The APIs that are served on Kafka's wire. Set before the server accepts connections."""
        self.listener = ""
        """The name of the listener, in Kafka's sense."""
        self.kafka_request_bytes_max = limits.KAFKA_FRAME_BYTES_MAX
        """The longest request there (`socket.request.max.bytes`), from the first ApiVersions on."""
        self.refusal_unread: Callable[[int], Any] = _read_all
        """The response to every request of an API, if it is one now whatever a request holds; else None."""
        self.connections: dict[int, InboundConnection] = {}
        self.max_idle_ms = 600_000
        """How long a connection but a voter's may send no request (`connections.max.idle.ms`)."""
        self.slots = Slots(self.tally)
        self.budgets = Budgets(self.tally, limited_logger, self.connections, wake)
        self._numbers = numbers
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._all_ended: asyncio.Event | None = None
        """Set with the end of the last connection, once this server stops."""
        self._sweep: asyncio.TimerHandle | None = None

    def bind(self, bind: Endpoint) -> int:
        """Bind the address. Connections that come before `start` wait in the backlog.

        Returns:
            The port, which the kernel chose if `bind` has port 0.

        Raises:
            OSError: The address cannot be bound.
        """
        both = not bind.host and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both or ":" in bind.host else socket.AF_INET
        self._socket = socket.create_server(
            (bind.host, bind.port), family=family, backlog=_BACKLOG, dualstack_ipv6=both
        )
        port: int = self._socket.getsockname()[1]
        return port

    async def start(self) -> None:
        """Accept connections on the bound address."""
        if self._socket is None:
            raise InvariantError("a server is bound before it starts")
        self._server = await asyncio.get_running_loop().create_server(
            self.accept, sock=self._socket, backlog=_BACKLOG
        )

    def accept(self) -> "InboundConnection":
        """Make the protocol object of a new inbound connection."""
        return InboundConnection(self, next(self._numbers))

    async def stop(self) -> None:
        """Stop listening and close all connections, after their responses were written, for which all other
        ends have five seconds. The end of a loop would drop what the system has not taken.
        """
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections.values()):
            connection.close("this node stops")
        if self.connections:
            self._all_ended = asyncio.Event()
            deadline = asyncio.get_running_loop().call_later(limits.STOP_TIMEOUT_MS / 1_000, self._abort_all)
            await self._all_ended.wait()
            deadline.cancel()

    def _abort_all(self) -> None:
        for connection in list(self.connections.values()):
            connection.abort(f"this node has stopped for {limits.STOP_TIMEOUT_MS} ms")

    @property
    def connections_max(self) -> int:
        """The most connections but voters'; fewer where the system allows fewer files."""
        return self.slots.connections_max

    @connections_max.setter
    def connections_max(self, most: int) -> None:
        self.slots.connections_max = most

    def statistics(self) -> Mapping[PeerClass, int]:
        """How many connections there are of each class."""
        return self.slots.counts()

    def admit(self, connection: "InboundConnection") -> str | None:
        """Give a new connection a slot. Returns why it has none, None if it has."""
        why = "this node stops" if self._all_ended is not None else self.slots.admit(connection)
        if why is None:
            self.connections[connection.number] = connection
            if self._sweep is None:
                self._sweep_later()
        return why

    def forget(self, connection: "InboundConnection") -> None:
        """Free the slot of a connection."""
        self.connections.pop(connection.number, None)
        self.slots.forget(connection, connection.peer_class)
        if not self.connections and self._all_ended is not None:
            self._all_ended.set()
        if not self.connections and self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    # Once a turn.

    def run(self, now: Now) -> None:  # noqa: ARG002 - the signature of a turn task
        """Serve what clients and observers sent."""
        if self.budgets.is_waiting:
            self.budgets.serve()

    def wake_at_ms(self) -> int:
        """0 while requests wait, for a turn at once; else NEVER_MS."""
        return 0 if self.budgets.is_waiting else NEVER_MS

    # Idle connections.

    def _sweep_later(self) -> None:
        wait_ms = min(limits.IDLE_SWEEP_MS, max(self.max_idle_ms // 4, 1))
        self._sweep = asyncio.get_running_loop().call_later(wait_ms / 1_000, self._sweep_idle, wait_ms)

    def _sweep_idle(self, waited_ms: int) -> None:
        """Close connections without a request for `max_idle_ms`, or up to one sweep longer."""
        sweeps_max = -(-self.max_idle_ms // waited_ms)
        for connection in list(self.connections.values()):
            if connection.peer_class is PeerClass.VOTER or connection.is_busy:
                continue
            connection.quiet_sweeps += 1
            if connection.quiet_sweeps > sweeps_max:
                self.tally.idle += 1
                connection.close(f"idle for {self.max_idle_ms} ms")
        self._sweep_later()


class InboundConnection(BudgetedConnection):
    """A connection that another process opened to this node."""

    def __init__(self, server: Server, number: int) -> None:
        super().__init__(server, number)
        self._claimed_id: NodeId | None = None
        """All that is kept of the greeting, which may be long: decoded, ten times as long as it came."""
        self.refused = False
        self.client: Client | None = None
        """Who its requests are from; made with the first of them by whoever asks."""
        self._kafka: KafkaSession | None = None
        """Serves the requests if the other end speaks Kafka's wire, without a greeting."""
        self._server = server
        self._greeting_id = 0
        self._asked_versions = False
        self._unconfirmed: list[Buffer] | None = None
        """Frames that wait until the voter of the greeting is confirmed; None if none must wait."""
        self._shown_ids: deque[int] = deque()
        self._is_reported = False
        """Whether the handler was told of this connection, and must be told of its end."""
        self._handshake_timer: asyncio.TimerHandle | None = None

    @property
    def session(self) -> Client:
        """The other end, by a client id that each request says. Nobody can prove who it is yet: that belongs
        before the first request.
        """
        return Client(ANONYMOUS, None, self.host, self._server.listener)

    @property
    def claimed_id(self) -> NodeId | None:
        """The node id of its greeting; None before the greeting."""
        return self._claimed_id

    def refusal_unread(self, api_key: int) -> Any:
        """The response to every request of an API that there is now; None if they have to be read."""
        return self._server.refusal_unread(api_key)

    def opened(self) -> None:
        """Take a slot, and start the time for the handshake."""
        why = self._server.admit(self)
        if why is not None:
            self.tally.refused += 1
            self.limited_logger.warning("connection_refused", key=self.host, address=self.address, reason=why)
            self.abort(why)
            return
        loop = asyncio.get_running_loop()
        self._handshake_timer = loop.call_later(
            limits.HANDSHAKE_TIMEOUT_MS / 1_000, self._handshake_timed_out
        )

    def handle(self, frame: Buffer) -> None:
        """Decode one request and give it to the handler, or keep it until the voter is confirmed."""
        if self._kafka is not None:
            self._kafka.handle(frame)
            return
        if self._claimed_id is None:
            self._handle_before_greeting(frame)
            return
        if self._unconfirmed is not None and self._must_wait(self._unconfirmed, frame):
            return
        try:
            if self._lane.long_responses and self.must_hold_back(frame):
                return
            request = self.codec.decode_request(frame)
        except Exception as error:  # noqa: BLE001 - wire boundary (D-38)
            self._undecodable(error)
            return
        kind = type(request.message)
        if kind is ApiVersionsRequest:
            self._respond_api_versions(request.api_version, request.correlation_id, ErrorCode.NONE)
        elif kind is ShowNonceRequest:
            self._shown_ids.append(request.correlation_id)
            self._server.handler.nonce_shown(self, request.message)
        else:
            self.dispatch(request)

    def confirm(self) -> None:
        """Serve the other end as the voter of its greeting from now on, and tell it so (D-37)."""
        if self._shown_ids:
            self.send_response(0, self._shown_ids.popleft(), self._server.identity.confirmation())
        waiting, self._unconfirmed = self._unconfirmed, None
        if waiting is None or not self.is_open:
            return
        self.become(PeerClass.VOTER)
        for frame in waiting:
            if self.is_open:
                self.handle(frame)

    def reject_nonce(self) -> None:
        """Answer that the nonce shown is not one that this node gave."""
        if self._shown_ids:
            self.send_response(0, self._shown_ids.popleft(), ShowNonceResponse(ErrorCode.INVALID_VOTER_KEY))

    def _must_wait(self, waiting: list[Buffer], frame: Buffer) -> bool:
        """Keep a frame, undecoded, for the confirmation, unless it shows a nonce. Returns if it is kept."""
        try:
            if self.codec.peek_api_key(frame) == ShowNonceRequest.API_KEY:
                return False
        except Exception as error:  # noqa: BLE001 - wire boundary (D-38)
            self.fail("decoding a request", error)
            return True
        waiting.append(frame)
        if len(waiting) > limits.REQUESTS_IN_FLIGHT_MAX:
            self.reject(f"more than {limits.REQUESTS_IN_FLIGHT_MAX} requests before it was confirmed")
        elif sum(map(len, waiting)) > limits.HANDSHAKE_BYTES_MAX:
            self.reject(f"more than {limits.HANDSHAKE_BYTES_MAX} bytes before it was confirmed")
        return True

    # How it ends.

    def refuse(self, error: ErrorCode, reason: str) -> None:
        """Answer the greeting with an error and a reason, and close."""
        if self.refused:
            return
        self.refused = True
        self.tally.refused += 1
        reason = reason[: limits.LOG_TEXT_MAX]
        self.limited_logger.warning(
            "peer_refused", key=(self.host, reason), address=self.address, reason=reason
        )
        if self._claimed_id is None and self.codec is not KAFKA:
            refusal = self._server.identity.refusal(error, reason)
            self.send_response(HandshakeRequest.MAX_VERSION, self._greeting_id, refusal)
        self.close(f"refused: {reason}")

    def ended(self) -> None:
        """Free the slot, and tell the handler."""
        self._end_handshake_timer()
        super().ended()
        self._server.forget(self)
        if self._kafka is not None:
            self._kafka.ended()
            self._kafka = None  # it knows this connection: the two would be garbage for a collector to find
        if self._is_reported:
            self._server.request_handler.connection_closed(self)
            self._server.handler.connection_ended(self)

    # The handshake.

    def _handle_before_greeting(self, frame: Buffer) -> None:
        if self.codec is KAFKA:
            self._begin_kafka(frame)
            return
        try:
            request = self.codec.decode_request(frame)
        except Exception as error:  # noqa: BLE001 - wire boundary (D-38)
            self._undecodable(error)
            return
        if isinstance(request.message, ApiVersionsRequest):
            self._respond_api_versions(request.api_version, request.correlation_id, ErrorCode.NONE)
        elif isinstance(request.message, HandshakeRequest):
            self._greet(request.message, request.correlation_id)
        else:
            self.reject("a request before the handshake")

    def _begin_kafka(self, frame: Buffer) -> None:
        """Serve the other end as a client, from this frame on: Kafka's wire has no greeting."""
        server = self._server
        if not server.slots.has_room_for_client(self.host):
            self.refuse(_NO_ROOM.error, _NO_ROOM.reason)
            return
        self._is_reported = True
        self._end_handshake_timer()
        self._kafka = KafkaSession(self, server.kafka_api_keys, server.kafka_request_bytes_max)
        self._kafka.handle(frame)

    def _greet(self, greeting: HandshakeRequest, correlation_id: int) -> None:
        self._greeting_id = correlation_id
        server, node_id = self._server, greeting.node_id
        is_voters = server.handler.must_prove(node_id)
        try:
            refusal = refusal_of(greeting, server.identity)
            response = server.identity.response(must_show=is_voters and not greeting.challenge)
        except Exception as error:  # noqa: BLE001 - wire boundary (D-38)
            self.fail("judging a greeting", error)
            return
        if refusal is None and greeting.challenge and not is_voters:
            refusal = Refusal(ErrorCode.INVALID_VOTER_KEY, f"a challenge by {node_id}, which is no voter")
        if refusal is None and not is_voters and not server.slots.has_room_for_client(self.host):
            refusal = _NO_ROOM
        if refusal is not None:
            self.refuse(refusal.error, refusal.reason)
            return
        self._is_reported = True
        if node_id != NO_NODE:
            server.handler.node_greeted(self, greeting)
            if self.refused:
                return
        if not greeting.challenge:
            self._end_handshake_timer()
        self._claimed_id = node_id
        if is_voters:
            self._unconfirmed = []
        else:
            self.become(PeerClass.CLIENT if node_id == NO_NODE else PeerClass.OBSERVER)
        self.send_response(HandshakeRequest.MAX_VERSION, correlation_id, response)

    def _undecodable(self, error: Exception) -> None:
        """Close the connection on a request that cannot be decoded (D-38)."""
        if isinstance(error, UnsupportedVersion) and error.api_key == ApiVersionsRequest.API_KEY:
            newest = self.codec.apis[error.api_key].max_version
            self._respond_api_versions(newest, error.correlation_id, ErrorCode.UNSUPPORTED_VERSION)
            return
        if isinstance(error, MalformedRequestError):
            self._respond_malformed(error)
        self.fail("decoding a request", error)

    def _respond_malformed(self, error: MalformedRequestError) -> None:
        """Answer INVALID_REQUEST under the request's correlation id, if the response has a field for it."""
        response = self.codec.apis[error.api_key].response
        if self._claimed_id is not None and "error_code" in response.__struct_fields__:
            refusal = response(error_code=ErrorCode.INVALID_REQUEST)
            self.send_response(error.version, error.correlation_id, refusal)

    def _respond_api_versions(self, version: int, correlation_id: int, error: ErrorCode) -> None:
        if self._claimed_id is None and self._asked_versions:
            self.reject("ApiVersions twice before the handshake")
            return
        self._asked_versions = True
        try:
            frame = self.codec.encode_response_of(_api_versions(self.codec, version, error), correlation_id)
        except Exception as trouble:  # noqa: BLE001 - wire boundary (D-38)
            self.fail("encoding a response", trouble)
        else:
            self.write_response(frame)

    def _end_handshake_timer(self) -> None:
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
            self._handshake_timer = None

    def _handshake_timed_out(self) -> None:
        self._handshake_timer = None
        self.abort(f"no handshake within {limits.HANDSHAKE_TIMEOUT_MS} ms")


@cache
def _api_versions(codec: Codec, version: int, error: ErrorCode) -> Buffer:
    keys = tuple(
        ApiVersionsResponseApiVersion(
            api_key=api.key, min_version=api.min_version, max_version=api.max_version
        )
        for api in codec.apis.values()
    )
    return codec.encode_body(version, ApiVersionsResponse(error_code=error, api_keys=keys))


def connection_numbers() -> Iterator[int]:
    """Unique numbers for the connections of one process, in both directions."""
    return itertools.count(1)
