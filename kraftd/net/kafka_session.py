"""A connection whose other end speaks Kafka's wire: a broker, or one of Kafka's clients and tools.

Entered by `server`, with each frame of a connection whose first byte chose that encoding. There is no
handshake: the other end says what it is only in each request, and is served as a client. Requests are served
one at a time, so that their responses come in the order of the requests, as Kafka's clients expect: while a
Fetch is parked, its connection is. What is not served is not advertised either: whoever sends it
nevertheless loses the connection, as with Kafka.

Not here: what a request means, and what an ApiVersions response holds (`runtime.kafka_apis`).

Follows: Kafka's SocketServer and RequestChannel; ApiVersions in a version that is too new is answered in
version 0, with UNSUPPORTED_VERSION and the versions of that API alone, and the connection stays (KIP-511).
"""

from typing import Protocol

from kraftd.errors import ErrorCode
from kraftd.net.budgets import PeerClass
from kraftd.protocol.codec import Buffer, Request, UnsupportedVersion
from kraftd.protocol.kafka_codec import API_VERSIONS, KAFKA
from kraftd.protocol.messages import ApiVersionsResponse, ApiVersionsResponseApiVersion


class Connection(Protocol):
    """What a session needs of its connection."""

    def become(self, peer_class: PeerClass) -> None:
        """Move to another class."""

    def serve_in_order(self) -> None:
        """Serve no request before the one before it was answered."""

    def must_park(self, frame: Buffer) -> bool:
        """Keep a request undecoded if there is no room for its response now."""

    def dispatch(self, request: Request) -> None:
        """Give a request to its handler."""

    def write_response(self, frame: list[Buffer]) -> None:
        """Write a response."""

    def reject(self, reason: str) -> None:
        """Close the connection because of malformed input."""

    def fail(self, doing: str, error: Exception) -> None:
        """Close the connection after an exception between bytes and message (D-38)."""


class KafkaSession:
    """The requests of one connection."""

    def __init__(self, connection: Connection, served: frozenset[int]) -> None:
        """Begin; `served` are the keys of the APIs that have a handler."""
        self._connection = connection
        self._served = served
        connection.become(PeerClass.CLIENT)
        connection.serve_in_order()

    def handle(self, frame: Buffer) -> None:
        """Decode one request and give it to its handler, or keep it until there is room for its response."""
        connection = self._connection
        try:
            key = KAFKA.peek_api_key(frame)
            if key not in self._served:
                api = KAFKA.apis.get(key)
                name = f" ({api.name})" if api is not None else ""
                connection.reject(f"a request of API {key}{name}, which is not served here")
                return
            if connection.must_park(frame):
                return
            request = KAFKA.decode_request(frame)
        except UnsupportedVersion as error:
            if error.api_key != API_VERSIONS:
                connection.fail("decoding a request", error)
                return
            connection.write_response(KAFKA.encode_response(0, error.correlation_id, _UNSUPPORTED))
        except Exception as error:  # noqa: BLE001 - the boundary (D-38)
            connection.fail("decoding a request", error)
        else:
            connection.dispatch(request)


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
