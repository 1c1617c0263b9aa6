"""Who may talk to this node, in what order is it heard, and how much may it ask at once?

Entered through `Server.start`; every connection then is an `InboundConnection`. Until its handshake is
done, a connection gets only a greeting or ApiVersions answered; one that greets as a voter may then show a
nonce, and all else that it sends waits until the owner confirms it (D-37). Requests of members go to the
handler as they arrive; requests of clients wait for the end of the turn, when the owner of the loop calls
`Server.serve_clients`: so members are always served first, and a turn takes in a bounded number of bytes.

Bounds (design 5): connections in total and per address with slots kept for members, requests in flight per
connection, time for the handshake. Replies may come in any order; the correlation id tells them apart.
"""

import asyncio
import itertools
import socket
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec

from kraftd.errors import ErrorCode, InvariantError, MalformedError, UnencodableError
from kraftd.net.connection import FrameConnection, Outbox
from kraftd.net.handshake import Identity, Refusal, refusal_of, supported
from kraftd.net.repeats import Repeats
from kraftd.protocol import limits
from kraftd.protocol.apis import APIS, is_supported
from kraftd.protocol.codec import (
    Request,
    RequestDecoder,
    UnsupportedVersion,
    encode_response,
    peek_api_key,
)
from kraftd.protocol.framing import Buffer
from kraftd.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    HandshakeRequest,
    ShowNonceRequest,
    ShowNonceResponse,
)
from kraftd.types import NO_NODE, Endpoint, NodeId

_BACKLOG = 1024
_decode_head = msgspec.msgpack.Decoder(tuple[int, int, int, msgspec.Raw, msgspec.Raw]).decode


class ServerHandler(Protocol):
    """What the server's owner does with what comes in."""

    def member_greeted(self, connection: "InboundConnection", greeting: HandshakeRequest) -> None:
        """Somebody says that it is a voter or an observer; the handler may call `connection.refuse` before it
        returns. A voter's requests come only after `connection.confirm` was called (D-37).
        """

    def nonce_shown(self, connection: "InboundConnection", shown: ShowNonceRequest) -> None:
        """Somebody shows a nonce; the handler calls `connection.confirm` or `connection.reject_nonce`."""

    def request_received(self, connection: "InboundConnection", request: Request) -> None:
        """A request to be answered with `connection.reply`, sooner or later."""

    def connection_ended(self, connection: "InboundConnection") -> None:
        """A connection whose greeting was welcome is gone."""

    def clients_wait(self) -> None:
        """Client requests wait: call `serve_clients` at the end of this turn."""


class Server:
    """The listening socket and everybody connected to it."""

    def __init__(
        self,
        identity: Identity,
        handler: ServerHandler,
        outbox: Outbox,
        numbers: Iterator[int],
        repeats: Repeats,
    ) -> None:
        self.identity = identity
        self.handler = handler
        self.outbox = outbox
        self.repeats = repeats
        self.decoder = RequestDecoder()
        self.voter_ids: frozenset[NodeId] = frozenset()
        """Under which ids a greeting must be confirmed; empty if this node is no voter."""
        self.connections: dict[int, InboundConnection] = {}
        self.connections_max = limits.CONNECTIONS_MAX
        """Connections in all, beside those reserved for members; less where the system allows fewer files."""
        self._numbers = numbers
        self._per_address: Counter[str] = Counter()
        self._clients: deque[tuple[InboundConnection, Buffer]] = deque()
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None

    def bind(self, bind: Endpoint) -> int:
        """Take the address, and return the port, which the kernel chose if `bind` has port 0.

        Who connects before `start` waits in the backlog.

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
        """The protocol of a connection that somebody opens to us."""
        return InboundConnection(self, next(self._numbers))

    async def stop(self) -> None:
        """Stop listening and close everybody, after what they are owed was written."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections.values()):
            connection.close("this node stops")
        if self._server is not None:
            await self._server.wait_closed()

    def serve_clients(self) -> None:
        """Handle client requests in the order of arrival, up to the bytes of a turn."""
        budget = limits.TURN_BYTES_MAX
        clients = self._clients
        while clients and budget > 0:
            connection, frame = clients.popleft()
            budget -= len(frame)
            if connection.is_open:
                connection.dispatch(frame)

    @property
    def clients_are_waiting(self) -> bool:
        """Whether `serve_clients` has something to do."""
        return bool(self._clients)

    def queue_client(self, connection: "InboundConnection", frames: Sequence[Buffer]) -> None:
        """Keep a client's frames for the end of the turn."""
        if not self._clients:
            self.handler.clients_wait()
        for frame in frames:
            self._clients.append((connection, frame))

    def admit(self, connection: "InboundConnection") -> str | None:
        """Count a new connection in; or say why it must go."""
        host = connection.host
        here, total = self._per_address[host], len(self.connections)
        if here >= limits.CONNECTIONS_PER_ADDRESS_MAX + limits.PEER_CONNECTIONS_RESERVED:
            return f"{here} connections from {host} are the most"
        if total >= self.connections_max + limits.PEER_CONNECTIONS_RESERVED:
            return f"{total} connections are the most"
        connection.members_only = total >= self.connections_max or here >= limits.CONNECTIONS_PER_ADDRESS_MAX
        self._per_address[host] += 1
        self.connections[connection.number] = connection
        return None

    def forget(self, connection: "InboundConnection") -> None:
        """Count a connection out."""
        if self.connections.pop(connection.number, None) is not None:
            self._per_address[connection.host] -= 1
            if not self._per_address[connection.host]:
                del self._per_address[connection.host]


class _Claim(msgspec.Struct):
    """What somebody asked who says that it is a voter, and is not confirmed yet."""

    frames: list[Buffer] = msgspec.field(default_factory=list)
    size_bytes: int = 0
    is_held: bool = False


class InboundConnection(FrameConnection):
    """Someone who connected to us."""

    def __init__(self, server: Server, number: int) -> None:
        super().__init__(server.outbox, server.repeats)
        self.number = number
        self.greeting: HandshakeRequest | None = None
        """Who it is, once the handshake is done."""
        self.members_only = False
        self.refused = False
        self._server = server
        self._in_flight = 0
        self._is_held = False
        self._greeting_id = 0
        self._claim: _Claim | None = None
        """What waits until the voter of the greeting is confirmed; None if nothing needs to."""
        self._shown_ids: deque[int] = deque()
        self._is_told_of = False
        """Whether the handler knows this connection, and is to hear of its end."""
        self._patience: asyncio.TimerHandle | None = None

    @property
    def is_member(self) -> bool:
        """Whether a member of the quorum is at the other end, not a client."""
        return self.greeting is not None and self.greeting.node_id != NO_NODE

    def opened(self) -> None:
        """Implements `FrameConnection`: count it in, and give it a few seconds to greet."""
        why = self._server.admit(self)
        if why is not None:
            self.repeats.warning("connection_refused", key=self.host, address=self.address, reason=why)
            self.abort(why)
            return
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(limits.HANDSHAKE_TIMEOUT_MS / 1_000, self._lose_patience)

    def frames_received(self, frames: Sequence[Buffer]) -> None:
        """Implements `FrameConnection`: members now, clients at the end of the turn, strangers greet."""
        index = 0
        while self.greeting is None and index < len(frames) and self.is_open:
            self._meet(frames[index])
            index += 1
        if not self.is_open or index == len(frames):
            return
        rest = frames[index:] if index else frames
        if self._claim is not None:
            for frame in rest:
                self._wait_or_show(frame)
        elif self.is_member:
            for frame in rest:
                self.dispatch(frame)
        else:
            self._server.queue_client(self, rest)

    def dispatch(self, frame: Buffer) -> None:
        """Decode one request and hand it on."""
        request = self._decode(frame)
        if request is None:
            return
        if type(request.message) is ApiVersionsRequest:
            self._answer_api_versions(request.api_version, request.correlation_id, ErrorCode.NONE)
            return
        if type(request.message) is ShowNonceRequest:
            self._show(request)
            return
        self._in_flight += 1
        if self._in_flight >= limits.REQUESTS_IN_FLIGHT_MAX and not self._is_held:
            self._is_held = True
            self.hold_reading()
        self._server.handler.request_received(self, request)

    def reply(
        self, api_version: int, correlation_id: int, message: Any, records: Sequence[Buffer] = ()
    ) -> None:
        """Answer one request. Nothing happens if the other end has gone."""
        self._in_flight -= 1
        if self._is_held and self._in_flight <= limits.REQUESTS_IN_FLIGHT_MAX // 2:
            self._is_held = False
            self.release_reading()
        if not self.is_open:
            return
        try:
            self.write(encode_response(api_version, correlation_id, message, records))
        except UnencodableError as error:
            # The version that a stranger asked in has no place for our answer: its connection ends, not we.
            self.repeats.warning(
                "unencodable_reply", key=message.NAME, address=self.address, reason=str(error)
            )
            self.close(f"no answer in version {api_version}")

    def refuse(self, error: ErrorCode, reason: str) -> None:
        """Answer the greeting with one clear line, and close."""
        if self.refused:
            return
        self.refused = True
        self.repeats.warning("peer_refused", key=(self.host, reason), address=self.address, reason=reason)
        if self.greeting is None:
            refusal = self._server.identity.refusal(error, reason)
            self.write(encode_response(HandshakeRequest.MAX_VERSION, self._greeting_id, refusal))
        self.close(f"refused: {reason}")

    def confirm(self) -> None:
        """The voter of the greeting is at the other end: tell it so, and let in what waited (D-37)."""
        if self._shown_ids:
            confirmation = self._server.identity.confirmation()
            self.write(encode_response(0, self._shown_ids.popleft(), confirmation))
        claim, self._claim = self._claim, None
        if claim is None:
            return
        self.allow_large_frames()
        if claim.is_held:
            self.release_reading()
        for frame in claim.frames:
            if self.is_open:
                self.dispatch(frame)

    def reject_nonce(self) -> None:
        """The nonce that was shown is none of ours."""
        if self._shown_ids:
            rejection = ShowNonceResponse(ErrorCode.INVALID_VOTER_KEY)
            self.write(encode_response(0, self._shown_ids.popleft(), rejection))

    def ended(self) -> None:
        """Implements `FrameConnection`."""
        if self._patience is not None:
            self._patience.cancel()
        self._server.forget(self)
        if self._is_told_of:
            self._server.handler.connection_ended(self)

    def _meet(self, frame: Buffer) -> None:
        request = self._decode(frame)
        if request is None:
            return
        if isinstance(request.message, ApiVersionsRequest):
            self._answer_api_versions(request.api_version, request.correlation_id, ErrorCode.NONE)
        elif isinstance(request.message, HandshakeRequest):
            self._greet(request.message, request.correlation_id)
        else:
            self.reject("a request before the handshake")

    def _greet(self, greeting: HandshakeRequest, correlation_id: int) -> None:
        self._greeting_id = correlation_id
        refusal = refusal_of(greeting, self._server.identity)
        if refusal is None and self.members_only and greeting.node_id == NO_NODE:
            refusal = Refusal(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many connections; the last slots are for members"
            )
        if refusal is not None:
            self.refuse(refusal.error, refusal.reason)
            return
        claims = greeting.node_id in self._server.voter_ids
        if greeting.challenge and not claims:
            self.refuse(ErrorCode.INVALID_VOTER_KEY, f"a challenge by {greeting.node_id}, which is no voter")
            return
        self._is_told_of = True
        if greeting.node_id != NO_NODE:
            self._server.handler.member_greeted(self, greeting)
            if self.refused:
                return
        self.greeting = greeting
        if not greeting.challenge:
            self._cancel_patience()
        if claims:
            self._claim = _Claim()
        else:
            self.allow_large_frames()
        answer = self._server.identity.answer(must_show=claims and not greeting.challenge)
        self.write(encode_response(HandshakeRequest.MAX_VERSION, correlation_id, answer))

    def _wait_or_show(self, frame: Buffer) -> None:
        """Before the confirmation only a nonce is looked at; the rest waits, or is not read any more."""
        claim = self._claim
        if claim is None:  # confirmed by a frame before this one
            self.dispatch(frame)
            return
        try:
            shows = peek_api_key(frame) == ShowNonceRequest.API_KEY
        except MalformedError as error:
            self.reject(str(error))
            return
        if shows:
            request = self._decode(frame)
            if request is not None:
                self._show(request)
            return
        claim.frames.append(frame)
        claim.size_bytes += len(frame)
        is_full = (
            len(claim.frames) >= limits.REQUESTS_IN_FLIGHT_MAX or claim.size_bytes >= limits.CLAIM_BYTES_MAX
        )
        if is_full and not claim.is_held:
            claim.is_held = True
            self.hold_reading()

    def _show(self, request: Request) -> None:
        self._shown_ids.append(request.correlation_id)
        self._server.handler.nonce_shown(self, request.message)

    def _decode(self, frame: Buffer) -> Request | None:
        try:
            return self._server.decoder.decode(frame)
        except UnsupportedVersion as unsupported:
            if unsupported.api_key == ApiVersionsRequest.API_KEY:
                self._answer_api_versions(0, unsupported.correlation_id, ErrorCode.UNSUPPORTED_VERSION)
                return None
            why = str(unsupported)
        except MalformedError as error:
            why = str(error)
            self._answer_malformed(frame)
        self.reject(why)
        return None

    def _answer_malformed(self, frame: Buffer) -> None:
        """Say INVALID_REQUEST under the request's correlation id, if there is one, and a place for it."""
        try:
            key, version, correlation_id, _, _ = _decode_head(frame)
        except msgspec.MsgspecError:
            return
        if self.greeting is None or not is_supported(key, version):
            return
        response = APIS[key].response
        if "error_code" in response.__struct_fields__:
            refusal = response(error_code=ErrorCode.INVALID_REQUEST)
            self.write(encode_response(version, correlation_id, refusal))

    def _answer_api_versions(self, version: int, correlation_id: int, error: ErrorCode) -> None:
        keys = tuple(
            ApiVersionsResponseApiVersion(api_key=key, min_version=low, max_version=high)
            for key, low, high in supported()
        )
        self.write(
            encode_response(version, correlation_id, ApiVersionsResponse(error_code=error, api_keys=keys))
        )

    def _cancel_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lose_patience(self) -> None:
        self._patience = None
        self.abort(f"no handshake within {limits.HANDSHAKE_TIMEOUT_MS} ms")


def connection_numbers() -> Iterator[int]:
    """Numbers for connections of both directions: never two alike in one process."""
    return itertools.count(1)
