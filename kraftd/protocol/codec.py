"""What a connection needs of an encoding of the wire: frames to messages and back.

A connection keeps the codec that its first frame chose for as long as it stands (`kraftd.protocol.opening`).
There are two: `kraftd.protocol.msgpack_codec` and `kraftd.protocol.kafka_codec`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from kraftd.errors import ErrorCode, KraftdError, MalformedError
from kraftd.protocol.apis import Api

Buffer: TypeAlias = bytes | bytearray | memoryview


class UnsupportedVersion(KraftdError):  # noqa: N818 - named for what a peer is told
    """A well-formed request for an API or version that is not spoken here."""

    code = ErrorCode.UNSUPPORTED_VERSION

    def __init__(self, api_key: int, version: int, correlation_id: int, spoken: Api | None) -> None:
        known = "" if spoken is None else f"; {spoken.name} is spoken here in {spoken.versions}"
        super().__init__(f"API {api_key} version {version} is not supported{known}")
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id


class MalformedRequestError(MalformedError):
    """A request whose head could be read and whose body could not: its sender gets an error in reply."""

    def __init__(self, text: str, api_key: int, version: int, correlation_id: int) -> None:
        super().__init__(text)
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request as it came in. `records` is a view into the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    message: Any
    records: Buffer = b""


class UndecodedResponse(Protocol):
    """A response of which only the head was read: it tells which request it answers, and so its API."""

    correlation_id: int
    records: Buffer

    def decode(self, expected: tuple[int, int]) -> Any:
        """Read the message, which answers a request of the API and version expected.

        Raises:
            MalformedError: The body does not follow its schema.
        """


class Codec(Protocol):
    """One encoding of requests and responses. Frames come in without their length, and go out with it."""

    def __hash__(self) -> int: ...

    @property
    def apis(self) -> Mapping[int, Api]:
        """By key, the APIs and versions that can be encoded and decoded."""

    def encode_request(
        self,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        message: Any,
        records: Sequence[Buffer] = (),
    ) -> list[Buffer]:
        """A request as the buffers of one whole frame.

        Raises:
            UnencodableError: The message has no such version, or does not fit it.
        """

    def encode_response(
        self, api_version: int, correlation_id: int, message: Any, records: Sequence[Buffer] = ()
    ) -> list[Buffer]:
        """A response as the buffers of one whole frame.

        Raises:
            UnencodableError: The message has no such version, does not fit it, or is longer than the encoding
                allows.
        """

    def encode_body(self, api_version: int, message: Any) -> Buffer:
        """The body of a response that is always the same.

        Raises:
            UnencodableError: The message has no such version, or does not fit it.
        """

    def encode_response_of(self, body: Buffer, correlation_id: int) -> list[Buffer]:
        """The response with a body of `encode_body`, as the buffers of one whole frame."""

    def decode_request(self, frame: Buffer) -> Request:
        """Read a request.

        Raises:
            MalformedError: It is no request or too large; or, as a `MalformedRequestError`, its body does not
                follow its schema.
            UnsupportedVersion: That API is not spoken here in that version.
        """

    def read_response(self, frame: Buffer) -> UndecodedResponse:
        """Read the head of a response.

        Raises:
            MalformedError: It is no response, or it is too large.
        """

    def peek_api_key(self, frame: Buffer) -> int:
        """Which API a request is of, without its body being decoded.

        Raises:
            MalformedError: It is no request.
        """
