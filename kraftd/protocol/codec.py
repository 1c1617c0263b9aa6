"""Messages to frames and back.

A frame is a 4-byte big-endian length, then one msgpack array: `[api_key, api_version, correlation_id,
client_id, body]` or `[correlation_id, body]`, with the raw bytes of records as one more element if
there are any. What comes in is a frame without its length, as `framing` cuts it; what goes out are
buffers with it, to be written in order, so that records are never copied.

Decoding raises `MalformedError` or `UnsupportedVersion` and nothing else, whatever the bytes. A
request's body is looked at only after its API and version are known, so that even an unknown request
has a correlation id to answer to.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from kraftd.errors import ErrorCode, KraftdError, MalformedError, UnencodableError
from kraftd.protocol.limits import (
    HEAD_BYTES_MAX,
    NESTED_ELEMENTS_MAX,
    RECORDS_BYTES_MAX,
    SHORT_REQUEST_BYTES_MAX,
)
from kraftd.protocol.messages import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kraftd.protocol.msgpack import API_MODULES
from kraftd.serde.msgpack_types import Array, Int16, Int32, VersionCodec

Buffer: TypeAlias = bytes | bytearray | memoryview

_LENGTH = struct.Struct(">I")
_ENCODE = msgspec.msgpack.Encoder().encode
_BAD_BYTES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_LONG_REQUESTS = frozenset({DescribeConfigsRequest.API_KEY, IncrementalAlterConfigsRequest.API_KEY})
"""What an operator may ask about many things at once: in both, an array of resources comes first, and in each
of them the third field is an array."""
_FIXARRAY, _ARRAY16, _ARRAY32 = 0x90, 0xDC, 0xDD
_REQUEST_ELEMENTS = 5
_RESPONSE_ELEMENTS = 2


class UnsupportedVersion(KraftdError):  # noqa: N818 - named for what a peer is told
    """A well-formed request for an API or version that is not spoken here."""

    code = ErrorCode.UNSUPPORTED_VERSION

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        super().__init__(f"API {api_key} version {version} is not supported")
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


class _RequestHead(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    api_key: Int16
    api_version: Int16
    correlation_id: Int32
    client_id: str | None
    body: msgspec.Raw
    records: memoryview | None = None


class _ResponseHead(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    correlation_id: Int32
    body: msgspec.Raw
    records: memoryview | None = None


class _ManyResources(msgspec.Struct, array_like=True, gc=False):
    """A long request's body, as far as it takes to count what it nests."""

    resources: Array["_Resource"]


class _Resource(msgspec.Struct, array_like=True, gc=False):
    kind: msgspec.Raw
    name: msgspec.Raw
    elements: msgspec.Raw


_decode_resources = msgspec.msgpack.Decoder(_ManyResources).decode
_decode_request_head = msgspec.msgpack.Decoder(_RequestHead).decode
_decode_response_head = msgspec.msgpack.Decoder(_ResponseHead).decode


def encode_request(
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
    key = message.API_KEY
    version_codec = _version_codec(_request_codecs, key, api_version)
    if version_codec is None:
        raise UnencodableError(f"{message.NAME} has no version {api_version}")
    return _frame((key, api_version, correlation_id, client_id, version_codec.pack(message)), records)


def encode_response(
    api_version: int, correlation_id: int, message: Any, records: Sequence[Buffer] = ()
) -> list[Buffer]:
    """A response as the buffers of one whole frame.

    Raises:
        UnencodableError: The message has no such version, does not fit it, or exceeds `HEAD_BYTES_MAX`.
    """
    version_codec = _version_codec(_response_codecs, message.API_KEY, api_version)
    if version_codec is None:
        raise UnencodableError(f"{message.NAME} has no version {api_version}")
    buffers = _frame((correlation_id, version_codec.pack(message)), records)
    if len(buffers[0]) > HEAD_BYTES_MAX:
        raise UnencodableError(f"{message.NAME} of {len(buffers[0])} bytes is longer than {HEAD_BYTES_MAX}")
    return buffers


def encode_body(api_version: int, message: Any) -> msgspec.Raw:
    """The body of a response, for an answer that is always the same.

    Raises:
        UnencodableError: The message has no such version, or does not fit it.
    """
    version_codec = _version_codec(_response_codecs, message.API_KEY, api_version)
    if version_codec is None:
        raise UnencodableError(f"{message.NAME} has no version {api_version}")
    return msgspec.Raw(_ENCODE(version_codec.pack(message)))


def encode_response_of(body: msgspec.Raw, correlation_id: int) -> list[Buffer]:
    """The response with this body, as the buffers of one whole frame."""
    return _frame((correlation_id, body), ())


class RequestDecoder:
    """Reads the requests of one connection; `head_bytes_max` may be raised once its handshake is done."""

    __slots__ = ("head_bytes_max",)

    def __init__(self, head_bytes_max: int = HEAD_BYTES_MAX) -> None:
        self.head_bytes_max = head_bytes_max

    def decode(self, frame: Buffer) -> Request:
        """Read one frame, given without its length.

        Raises:
            MalformedError: It is no request or too large; or, as a `MalformedRequestError`, its body does not
                follow its schema.
            UnsupportedVersion: That API is not spoken here in that version.
        """
        try:
            head = _decode_request_head(frame)
        except _BAD_BYTES as error:
            raise MalformedError(f"not a request: {error}") from None
        records = _checked_records(frame, head.records, self.head_bytes_max)
        key, version = head.api_key, head.api_version
        body = _body(_request_bodies, _request_codecs, key, version)
        if body is None:
            raise UnsupportedVersion(key, version, head.correlation_id)
        decode, build = body
        try:
            if len(frame) > SHORT_REQUEST_BYTES_MAX:
                _check_long(head)
            message = build(decode(head.body))
        except _BAD_BYTES as error:
            text = f"request {key} version {version}: {error}"
            raise MalformedRequestError(text, key, version, head.correlation_id) from None
        return Request(key, version, head.correlation_id, head.client_id, message, records)


class UndecodedResponse:
    """A response of which only the head was read: it tells which request it answers, and so its API.

    Raises:
        MalformedError: It is no response, or it is too large.
    """

    __slots__ = ("_body", "correlation_id", "records")

    def __init__(self, frame: Buffer) -> None:
        try:
            head = _decode_response_head(frame)
        except _BAD_BYTES as error:
            raise MalformedError(f"not a response: {error}") from None
        self.correlation_id = head.correlation_id
        self.records = _checked_records(frame, head.records, HEAD_BYTES_MAX)
        self._body = head.body

    def decode(self, expected: tuple[int, int]) -> Any:
        """Read the message, which answers a request of the API and version expected.

        Raises:
            MalformedError: The body does not follow its schema.
        """
        body = _body(_response_bodies, _response_codecs, *expected)
        if body is None:
            raise MalformedError(f"response to {expected[0]} version {expected[1]}: that version is unknown")
        decode, build = body
        try:
            return build(decode(self._body))
        except _BAD_BYTES as error:
            raise MalformedError(f"response to {expected[0]} version {expected[1]}: {error}") from None


def decode_response(frame: Buffer, expected: tuple[int, int]) -> tuple[Any, Buffer]:
    """Read the response to a request of the API and version expected: the message and its records.

    Raises:
        MalformedError: It is no response, its body does not follow its schema, or it is too large.
    """
    undecoded = UndecodedResponse(frame)
    return undecoded.decode(expected), undecoded.records


def peek_api_key(frame: Buffer) -> int:
    """Which API a request is of, without looking at its body.

    Raises:
        MalformedError: It is no request.
    """
    try:
        return _decode_request_head(frame).api_key
    except _BAD_BYTES as error:
        raise MalformedError(f"not a request: {error}") from None


def peek_correlation_id(frame: Buffer) -> int:
    """The correlation id of the request that a response answers.

    Raises:
        MalformedError: It is no response.
    """
    return UndecodedResponse(frame).correlation_id


_Codecs: TypeAlias = dict[tuple[int, int], VersionCodec]
_Bodies: TypeAlias = dict[tuple[int, int], tuple[Callable[[msgspec.Raw], Any], Callable[[Any], Any]]]
_request_codecs: _Codecs = {}
_response_codecs: _Codecs = {}
_request_bodies: _Bodies = {}
_response_bodies: _Bodies = {}


def load_codecs() -> None:
    """Import the codec of every API, which else is imported when it is needed first."""
    for key in API_MODULES:
        _load(key)


def _load(key: int) -> None:
    codec = API_MODULES[key].load()
    for table, codecs in (
        (_request_codecs, codec.REQUEST_CODECS),
        (_response_codecs, codec.RESPONSE_CODECS),
    ):
        table |= {(key, version): version_codec for version, version_codec in codecs.items()}


def _version_codec(table: _Codecs, key: int, version: int) -> VersionCodec | None:
    """The codec of an API and version; None if that API is not spoken here in that version."""
    found = table.get((key, version))
    if found is None:
        module = API_MODULES.get(key)
        if module is None or not module.min_version <= version <= module.max_version:
            return None
        _load(key)
        found = table[key, version]
    return found


def _body(
    bodies: _Bodies, codecs: _Codecs, key: int, version: int
) -> tuple[Callable[[msgspec.Raw], Any], Callable[[Any], Any]] | None:
    """How a body is decoded; None if that API is not spoken here in that version."""
    body = bodies.get((key, version))
    if body is None:
        version_codec = _version_codec(codecs, key, version)
        if version_codec is None:
            return None
        body = msgspec.msgpack.Decoder(version_codec.wire).decode, version_codec.build
        bodies[key, version] = body
    return body


def _frame(elements: tuple[object, ...], records: Sequence[Buffer]) -> list[Buffer]:
    head = _ENCODE(elements)
    if not records:
        return [_LENGTH.pack(len(head)) + head]
    size = sum(map(len, records))
    opening = bytes((head[0] + 1,)) + head[1:] + _bin_header(size)
    return [_LENGTH.pack(len(opening) + size) + opening, *records]


def _bin_header(size: int) -> bytes:
    if size < 1 << 8:
        return b"\xc4" + size.to_bytes(1, "big")
    if size < 1 << 16:
        return b"\xc5" + size.to_bytes(2, "big")
    return b"\xc6" + size.to_bytes(4, "big")


def _check_long(head: _RequestHead) -> None:
    """Refuse a body that is long or nests too much, before objects are made of all that it nests."""
    size = len(head.body)
    if size <= SHORT_REQUEST_BYTES_MAX:
        return
    text = f"request {head.api_key} version {head.api_version}: "
    if head.api_key not in _LONG_REQUESTS:
        text += f"{size} bytes are more than {SHORT_REQUEST_BYTES_MAX}"
    else:
        nested = sum(
            [_array_length(resource.elements) for resource in _decode_resources(head.body).resources]
        )
        if nested <= NESTED_ELEMENTS_MAX:
            return
        text += f"{nested} elements are more than {NESTED_ELEMENTS_MAX}"
    raise MalformedRequestError(text, head.api_key, head.api_version, head.correlation_id)


def _array_length(packed: msgspec.Raw) -> int:
    """How many elements a packed array has; 0 for anything else."""
    view = memoryview(packed)
    first = view[0]
    if _FIXARRAY <= first < _FIXARRAY + 16:
        return first - _FIXARRAY
    size = {_ARRAY16: 2, _ARRAY32: 4}.get(first, 0)
    return int.from_bytes(view[1 : 1 + size], "big")


def _checked_records(frame: Buffer, records: memoryview | None, head_bytes_max: int) -> Buffer:
    size = 0 if records is None else len(records)
    if size > RECORDS_BYTES_MAX:
        raise MalformedError(f"{size} bytes of records are more than {RECORDS_BYTES_MAX}")
    if len(frame) - size > head_bytes_max:
        raise MalformedError(f"a head of {len(frame) - size} bytes is longer than {head_bytes_max}")
    return b"" if records is None else records
