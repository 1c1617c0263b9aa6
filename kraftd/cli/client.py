"""The command line's way to one node: a blocking socket, one request at a time, bounded waits.

`Connection` connects to a node of kraftd and shakes hands; `KafkaConnection` speaks Kafka's wire, to nodes of
kraftd and of Kafka. `call` sends a request. `raise_for` turns an error code into the right ending of a
command. Nothing is retried here; who to ask, and whether to ask again, is decided in `kraftd.cli.survey` and
`kraftd.cli.active_controller`.

There is no event loop on purpose: a handful of sockets needs none, and importing asyncio would cost more than
`kraftctl status` takes as a whole.
"""

import itertools
import socket
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Self, TypeVar

import msgspec

from kraftd.cli.failures import NotConnectedError, RefusedError, UnhealthyError, UsageError
from kraftd.errors import ErrorCode, MalformedError
from kraftd.net.handshake import Identity, common_versions, refusal_of_response, versions_apart
from kraftd.protocol.codec import Buffer, Codec
from kraftd.protocol.framing import CODECS, FrameReader
from kraftd.protocol.limits import FRAME_BYTES_MAX, HEAD_BYTES_MAX, KAFKA_FRAME_BYTES_MAX
from kraftd.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    HandshakeRequest,
    HandshakeResponse,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.types import NO_NODE, Endpoint

CLIENT_ID = "kraftctl"

_RECEIVE_BYTES = 1 << 18

_CORRELATION_IDS = 0x00
"""The first byte of a response of Kafka's wire: the high byte of a correlation id, which we count from 1."""

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


class _Conversation:
    """A connection on which one request after the other is sent and answered."""

    def __init__(
        self,
        endpoint: Endpoint,
        timeout_ms: int,
        codec: Codec,
        codecs: Mapping[int, Codec],
        request_bytes_max: int,
    ) -> None:
        """Connect, to speak with one codec, which `codecs` has by the first byte of a frame.

        Raises:
            NotConnectedError: Nothing listens there, or nothing answered in time.
        """
        self.endpoint = endpoint
        self._codec = codec
        self._request_bytes_max = request_bytes_max
        self._wait(timeout_ms)
        self._correlation_ids = itertools.count(1)
        self._reader = FrameReader(FRAME_BYTES_MAX, codecs)
        self._frames: deque[Buffer] = deque()
        try:
            self._socket = socket.create_connection((endpoint.host, endpoint.port), timeout_ms / 1_000)
        except (OSError, UnicodeError) as error:
            raise NotConnectedError(f"{endpoint}: {_reason(error, timeout_ms)}") from error

    def close(self) -> None:
        """Close the connection; wakes a thread that waits for a response."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, timeout_ms: int) -> None:
        """Let everything from now on take so long."""
        self._deadline = time.monotonic() + timeout_ms / 1_000
        self._timeout_ms = timeout_ms

    def _exchange(
        self, request: msgspec.Struct, version: int, expect: type[Response]
    ) -> tuple[Response, bytes]:
        correlation_id = next(self._correlation_ids)
        api_key = _api_key(request)
        frame = b"".join(self._codec.encode_request(version, correlation_id, CLIENT_ID, request))
        if len(frame) > self._request_bytes_max:
            raise UsageError(
                f"this makes a request of {len(frame)} bytes, and a node takes {self._request_bytes_max} at "
                "most; nothing was sent: do it in parts"
            )
        try:
            self._socket.settimeout(self._remaining_s())
            self._socket.sendall(frame)
            while True:
                undecoded = self._codec.read_response(self._receive())
                if undecoded.correlation_id == correlation_id:
                    break
            response = undecoded.decode((api_key, version))
        except MalformedError as error:
            raise LostError(f"{self.endpoint}: it does not speak {self._protocol}: {error}") from error
        except OSError as error:
            raise LostError(f"{self.endpoint}: {_reason(error, self._timeout_ms)}") from error
        if not isinstance(response, expect):
            raise LostError(f"{self.endpoint} answered with {type(response).__name__}, not {expect.__name__}")
        return response, bytes(undecoded.records)

    @property
    def _protocol(self) -> str:
        return "kraftd's protocol" if self._codec is MSGPACK else "Kafka's protocol"

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


class Connection(_Conversation):
    """One conversation with one node of kraftd, after the handshake.

    `peer` is how the node introduced itself. Not for use by several threads at once.
    """

    def __init__(self, endpoint: Endpoint, timeout_ms: int) -> None:
        """Connect and shake hands.

        Raises:
            NotConnectedError: Nothing listens there, or nothing answered in time.
            RefusedError: The node does not want to talk to us; its reason is in the text.
            UnhealthyError: It does not now, as one that has no room for another connection.
        """
        super().__init__(endpoint, timeout_ms, MSGPACK, CODECS, HEAD_BYTES_MAX)
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
        self._wait(timeout_ms)
        api_key = _api_key(request)
        version = self._versions.get(api_key)
        if version is None:
            raise RefusedError(f"{self.endpoint}: {self._unspoken(request, api_key)}")
        return self._exchange(request, version, expect)

    def _unspoken(self, request: msgspec.Struct, api_key: int) -> str:
        for offered in self.peer.api_keys:
            if offered.api_key == api_key and (apart := versions_apart(offered)) is not None:
                theirs, ours = apart
                return f"{self.peer.software} speaks {theirs}, this kraftctl {ours}: use one of its release"
        return f"{self.peer.software} does not know {_name(request)} (API {api_key})"

    def _shake_hands(self) -> HandshakeResponse:
        me = Identity(cluster_id=None, software=CLIENT_ID)
        response, _ = self._exchange(me.greeting(), HandshakeRequest.MAX_VERSION, HandshakeResponse)
        refusal = refusal_of_response(response, me, NO_NODE)
        if refusal is not None:
            kind = UnhealthyError if refusal.error.retriable else RefusedError
            raise kind(f"{self.endpoint}: connection refused by the node: {refusal.reason}")
        return response


class KafkaConnection(_Conversation):
    """One conversation in Kafka's protocol, with a node of kraftd, or with a controller or broker of Kafka.

    Not for use by several threads at once.
    """

    def __init__(self, endpoint: Endpoint, timeout_ms: int) -> None:
        """Connect, and learn which APIs are served there.

        Raises:
            NotConnectedError: Nothing listens there, nothing answered in time, or not in this protocol.
            RefusedError: The node tells no versions.
        """
        from kraftd.protocol.kafka_codec import KAFKA

        super().__init__(endpoint, timeout_ms, KAFKA, {_CORRELATION_IDS: KAFKA}, KAFKA_FRAME_BYTES_MAX)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._offered: frozenset[int] = frozenset()
            self._versions = self._ask_versions()
        except BaseException:
            self.close()
            raise

    def serves(self, api_key: int) -> bool:
        """Whether the node serves an API, spoken here or not."""
        return api_key in self._offered

    def version_of(self, request: type[msgspec.Struct]) -> int | None:
        """The highest version of a request's API that both speak; None if it is not served there."""
        api_key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
        return self._versions.get(api_key)

    def call(self, request: msgspec.Struct, expect: type[Response], timeout_ms: int) -> Response:
        """Send a request and wait for its response.

        Raises:
            LostError: The node closed the connection, or did not answer in time.
            RefusedError: The node does not serve this API.
            UsageError: The request is longer than a node takes; nothing was sent.
        """
        self._wait(timeout_ms)
        version = self.version_of(type(request))
        if version is None:
            raise RefusedError(
                f"{self.endpoint}: it does not serve {_name(request)} (API {_api_key(request)})"
            )
        return self._exchange(request, version, expect)[0]

    def _ask_versions(self) -> Mapping[int, int]:
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
        ours = self._codec.apis[ApiVersionsRequest.API_KEY]
        response, _ = self._exchange(request, ours.max_version, ApiVersionsResponse)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            theirs = {api.api_key: api.max_version for api in response.api_keys}
            version = min(theirs.get(ours.key, 0), ours.max_version)
            response, _ = self._exchange(request, version, ApiVersionsResponse)
        raise_for(response.error_code, None, str(self.endpoint))
        self._offered = frozenset(each.api_key for each in response.api_keys)
        offers = [(self._codec.apis.get(each.api_key), each) for each in response.api_keys]
        spoken = {
            api.key: api.common_version(offered.min_version, offered.max_version)
            for api, offered in offers
            if api is not None
        }
        return {key: version for key, version in spoken.items() if version is not None}


def _api_key(request: msgspec.Struct) -> int:
    key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
    return key


def _name(request: msgspec.Struct) -> str:
    return type(request).__name__.removesuffix("Request")


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
