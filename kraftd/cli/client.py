"""The command line's way to one node: a blocking socket, one request at a time, bounded waits.

`Connection` connects and shakes hands; `call` sends a request. `raise_for` turns an error code into the
right ending of a command. Nothing is retried here; who to ask, and whether to ask again, is decided in
`kraftd.cli.survey`.

There is no event loop on purpose: a handful of sockets needs none, and importing asyncio would cost more than
`kraftctl status` takes as a whole.
"""

import itertools
import socket
import time
from collections import deque
from contextlib import suppress
from typing import TypeVar

import msgspec

from kraftd.cli.failures import NotConnectedError, RefusedError, UnhealthyError, UsageError
from kraftd.errors import ErrorCode, MalformedError
from kraftd.net.handshake import Identity, common_versions, refusal_of_response, versions_apart
from kraftd.protocol.codec import Buffer
from kraftd.protocol.framing import FrameReader
from kraftd.protocol.limits import FRAME_BYTES_MAX, HEAD_BYTES_MAX
from kraftd.protocol.messages import HandshakeRequest, HandshakeResponse
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.types import NO_NODE, Endpoint

CLIENT_ID = "kraftctl"

_RECEIVE_BYTES = 1 << 18

Response = TypeVar("Response", bound=msgspec.Struct)


class LostError(NotConnectedError):
    """The connection ended between a request and its response: what became of the request is unknown."""


def error_name(code: int) -> str:
    """Kafka's name of an error code, for a person."""
    try:
        return f"{ErrorCode(code).name} ({code})"
    except ValueError:
        return f"error {code}"


def raise_for(code: int, message: str | None, who: str) -> None:
    """End as the error code of a response demands; return if there is none.

    Raises:
        UnhealthyError: Not now, but perhaps in a moment or at another node.
        RefusedError: No, and asking again would not help.
    """
    if code == ErrorCode.NONE:
        return
    text = f"{who}: {message or error_name(code)}"
    if code in ErrorCode.__members__.values() and ErrorCode(code).retriable:
        raise UnhealthyError(text)
    raise RefusedError(text)


class Connection:
    """One conversation with one node, after the handshake.

    `peer` is how the node introduced itself. Not for use by several threads at once.
    """

    def __init__(self, endpoint: Endpoint, timeout_ms: int) -> None:
        """Connect and shake hands.

        Raises:
            NotConnectedError: Nothing listens there, or nothing answered in time.
            RefusedError: The node does not want to talk to us; its reason is in the text.
        """
        self.endpoint = endpoint
        self._deadline = time.monotonic() + timeout_ms / 1_000
        self._timeout_ms = timeout_ms
        self._correlation_ids = itertools.count(1)
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._frames: deque[Buffer] = deque()
        try:
            self._socket = socket.create_connection((endpoint.host, endpoint.port), timeout_ms / 1_000)
        except (OSError, UnicodeError) as error:
            raise NotConnectedError(f"{endpoint}: {_reason(error, timeout_ms)}") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.peer = self._shake_hands()
            self._versions = common_versions(self.peer)
        except BaseException:
            self.close()
            raise

    def call(self, request: msgspec.Struct, expect: type[Response], timeout_ms: int) -> Response:
        """Send a request and wait for its response."""
        return self.call_with_records(request, expect, timeout_ms)[0]

    def call_with_records(
        self, request: msgspec.Struct, expect: type[Response], timeout_ms: int
    ) -> tuple[Response, bytes]:
        """Send a request; its response comes with the raw bytes that follow it in its frame.

        Raises:
            LostError: The node closed the connection, or did not answer in time.
            RefusedError: The node does not know this API.
            UsageError: The request is longer than any node takes; nothing was sent.
        """
        self._deadline = time.monotonic() + timeout_ms / 1_000
        self._timeout_ms = timeout_ms
        api_key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
        version = self._versions.get(api_key)
        if version is None:
            raise RefusedError(f"{self.endpoint}: {self._unspoken(request, api_key)}")
        return self._exchange(request, version, expect)

    def _unspoken(self, request: msgspec.Struct, api_key: int) -> str:
        for offered in self.peer.api_keys:
            if offered.api_key == api_key and (apart := versions_apart(offered)) is not None:
                theirs, ours = apart
                return f"{self.peer.software} speaks {theirs}, this kraftctl {ours}: use one of its release"
        name = type(request).__name__.removesuffix("Request")
        return f"{self.peer.software} does not know {name} (API {api_key})"

    def close(self) -> None:
        """Close the connection; wakes a thread that waits for a response."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _shake_hands(self) -> HandshakeResponse:
        me = Identity(cluster_id=None, software=CLIENT_ID)
        response, _ = self._exchange(me.greeting(), HandshakeRequest.MAX_VERSION, HandshakeResponse)
        refusal = refusal_of_response(response, me, NO_NODE)
        if refusal is not None:
            raise RefusedError(f"{self.endpoint}: connection refused by the node: {refusal.reason}")
        return response

    def _exchange(
        self, request: msgspec.Struct, version: int, expect: type[Response]
    ) -> tuple[Response, bytes]:
        correlation_id = next(self._correlation_ids)
        api_key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
        frame = b"".join(MSGPACK.encode_request(version, correlation_id, CLIENT_ID, request))
        if len(frame) > HEAD_BYTES_MAX:
            raise UsageError(
                f"this makes a request of {len(frame)} bytes, and a node takes {HEAD_BYTES_MAX} at most; "
                "nothing was sent: do it in parts"
            )
        try:
            self._socket.settimeout(self._remaining_s())
            self._socket.sendall(frame)
            while True:
                undecoded = MSGPACK.read_response(self._receive())
                if undecoded.correlation_id == correlation_id:
                    break
            response = undecoded.decode((api_key, version))
        except MalformedError as error:
            raise LostError(f"{self.endpoint}: it does not speak kraftd's protocol: {error}") from error
        except OSError as error:
            raise LostError(f"{self.endpoint}: {_reason(error, self._timeout_ms)}") from error
        if not isinstance(response, expect):
            raise LostError(f"{self.endpoint} answered with {type(response).__name__}, not {expect.__name__}")
        return response, bytes(undecoded.records)

    def _receive(self) -> Buffer:
        while not self._frames:
            self._socket.settimeout(self._remaining_s())
            data = self._socket.recv(_RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError("the node closed the connection without a response")
            self._frames.extend(self._reader.feed(data))
        return self._frames.popleft()

    def _remaining_s(self) -> float:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s


def _reason(error: Exception, timeout_ms: int) -> str:
    if isinstance(error, TimeoutError):
        return f"no response within {timeout_ms} ms"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused, nothing listens there"
    if isinstance(error, socket.gaierror):
        return "the name cannot be resolved"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "not a host name"
