"""A connection whose other end speaks Kafka's wire: a broker, or one of Kafka's clients and tools.

Entered by `server`, with each frame of a connection whose first frame chose that codec (D-36). There is no
handshake: the other end says what it is only in each request, and is served as a client. Requests are served
one at a time, so that their responses come in the order of the requests, as Kafka's clients expect: while a
Fetch is parked, its connection waits. A long request that is refused whatever it holds is not decoded.
What is not served is not advertised either: whoever sends it nevertheless loses the connection, as with
Kafka.

A connection has one state yet, and two more have their places. TLS comes before the first byte of a frame:
it is the transport's. SASL comes before the first request but ApiVersions: until it is done `handle` takes
nothing else but its own two APIs, and its end sets who the requests are from (`InboundConnection.session`).

Not here: what a request means, and what an ApiVersions response holds (`runtime.kafka_apis`).

Follows: Kafka's SocketServer and RequestChannel; ApiVersions in a version that is too new is answered in
version 0, with UNSUPPORTED_VERSION and the versions of that API alone, and the connection stays (KIP-511).
"""

import re
from typing import Any, Final, Protocol

from kraftd.errors import ErrorCode
from kraftd.net.budgets import PeerClass
from kraftd.protocol.api_names import api_name
from kraftd.protocol.brief import brief
from kraftd.protocol.codec import Buffer, Request, UnsupportedVersion
from kraftd.protocol.kafka_codec import API_VERSIONS, KAFKA
from kraftd.protocol.limits import (
    HEAD_BYTES_MAX_BEFORE_HANDSHAKE,
    SHORT_REQUEST_BYTES_MAX,
    WORDS_BYTES_MAX,
)
from kraftd.protocol.messages import ApiVersionsResponse, ApiVersionsResponseApiVersion


class Connection(Protocol):
    """What a session needs of its connection."""

    def become(self, peer_class: PeerClass) -> None:
        """Move to another class."""

    def allow_frames(self, limit_bytes: int) -> None:
        """Accept frames up to this size."""

    def serve_in_order(self) -> None:
        """Serve no request before the one before it was answered."""

    def must_hold_back(self, frame: Buffer) -> bool:
        """Keep a request undecoded if there is no room for its response now."""

    def refusal_unread(self, api_key: int) -> Any:
        """The response to every request of an API that there is now; None if they have to be read."""

    def dispatch(self, request: Request) -> None:
        """Give a request to its handler."""

    def write_response(self, frame: list[Buffer]) -> None:
        """Write a response."""

    def refuse_api(self, name: str, client_id: str | None, reason: str) -> None:
        """Close the connection because of a request that is not served here."""

    def fail(self, doing: str, error: Exception) -> None:
        """Close the connection after an exception between bytes and message (D-38)."""

    def asked_nothing(self, client_id: str | None, software: str, reason: str) -> None:
        """Log that the connection ended without a request."""


class KafkaSession:
    """The requests of one connection."""

    def __init__(self, connection: Connection, served: frozenset[int], request_bytes_max: int) -> None:
        """Begin.

        Args:
            connection: The connection, on which nothing was served yet.
            served: The keys of the APIs that have a handler.
            request_bytes_max: The longest request, once the other end has asked for ApiVersions, as every
                client of Kafka's does first.
        """
        self._connection = connection
        self._served = served
        self._request_bytes_max = request_bytes_max
        connection.become(PeerClass.CLIENT)
        connection.allow_frames(min(request_bytes_max, HEAD_BYTES_MAX_BEFORE_HANDSHAKE))
        connection.serve_in_order()
        self._requests = 0
        self._only: tuple[str | None, str] | None = None
        """How the client called itself and its library in its only request, if that was ApiVersions."""

    def handle(self, frame: Buffer) -> None:
        """Decode one request and give it to its handler, or keep it until there is room for its response."""
        connection = self._connection
        try:
            key = KAFKA.peek_api_key(frame)
            if key not in self._served:
                connection.refuse_api(api_name(key), KAFKA.peek_client_id(frame), _why_unserved(key))
                return
            if key == API_VERSIONS:
                connection.allow_frames(self._request_bytes_max)
            if connection.must_hold_back(frame):
                return
            if len(frame) > SHORT_REQUEST_BYTES_MAX and (refusal := connection.refusal_unread(key)):
                self._requests, self._only = self._requests + 1, None
                connection.write_response(KAFKA.answer(frame, refusal))
                return
            request = KAFKA.decode_request(frame)
        except UnsupportedVersion as error:
            if error.api_key != API_VERSIONS:
                connection.fail("decoding a request", error)
                return
            connection.write_response(KAFKA.encode_response(0, error.correlation_id, _UNSUPPORTED))
        except Exception as error:  # noqa: BLE001 - wire boundary (D-38)
            connection.fail("decoding a request", error)
        else:
            self._requests += 1
            self._only = _names_in(request) if key == API_VERSIONS and self._requests == 1 else None
            connection.dispatch(request)

    def ended(self) -> None:
        """Tell of a client that asked what is served here, and then nothing: its library found no Metadata.

        Kafka's admin client begins each connection so, too, and then asks; `kafka-features describe` asks
        that very question once more. Some libraries tell their user little: librdkafka's producer says that
        its messages timed out. A connection of a broker may end so too, when another controller leads then.
        """
        if self._only is None:
            return
        client_id, software = self._only
        if client_id is None or not _BROKERS_CLIENT_ID.fullmatch(client_id):
            self._connection.asked_nothing(client_id, software, _NEEDS_A_BROKER)


_BROKERS_CLIENT_ID: Final = re.compile(r"(raft-client-)?\d+")
"""What brokers, and Kafka's controllers, call themselves on their connections to controllers."""

_NEEDS_A_BROKER: Final = (
    "it asked which APIs are served and nothing else: producers, consumers and whoever has bootstrap.servers "
    "need a broker there, and this is a controller"
)

_OF_VOTERS: Final = frozenset({"Vote", "BeginQuorumEpoch", "EndQuorumEpoch"})
"""What Kafka's controllers ask each other."""


def _names_in(request: Request) -> tuple[str | None, str]:
    """How the sender of an ApiVersions calls itself and its library, as far as it is kept."""
    client_id = None if request.client_id is None else brief(request.client_id, WORDS_BYTES_MAX)
    return client_id, brief(request.message.client_software_name, WORDS_BYTES_MAX)


def _why_unserved(key: int) -> str:
    """What whoever sent such a request should know."""
    name = api_name(key)
    if name in _OF_VOTERS:
        return "a controller of Kafka's cannot be a node of this quorum: see controller.quorum.voters there"
    if key in KAFKA.apis:
        return "not served yet"
    return "brokers serve it: whoever has bootstrap.servers needs a broker there, and this is a controller"


_API = KAFKA.apis[API_VERSIONS]

_UNSUPPORTED = ApiVersionsResponse(
    error_code=ErrorCode.UNSUPPORTED_VERSION,
    api_keys=(
        ApiVersionsResponseApiVersion(
            api_key=_API.key, min_version=_API.min_version, max_version=_API.max_version
        ),
    ),
)
"""The response to an ApiVersions of a version that is too new: which versions there are."""
