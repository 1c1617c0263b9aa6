"""kraftd's own wire: messages to msgpack frames and back.

A frame is a 4-byte big-endian length, then one msgpack array: `[api_key, api_version, correlation_id,
client_id, body]` or `[correlation_id, body]`, with the raw bytes of records as one more element if
there are any. What comes in is a frame without its length, as `framing` cuts it; what goes out are
buffers with it, to be written in order, so that records are never copied.

Decoding raises `MalformedError` or `UnsupportedVersion` and nothing else, whatever the bytes. A
request's body is decoded only after its API and version are known, so that even an unknown request
has a correlation id to answer to.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from kraftd.errors import MalformedError, UnencodableError
from kraftd.protocol.apis import Api, api_table
from kraftd.protocol.codec import Buffer, MalformedRequestError, Request, UnsupportedVersion
from kraftd.protocol.limits import (
    CLIENT_ID_MAX,
    HEAD_BYTES_MAX,
    NESTED_ELEMENTS_MAX,
    RECORDS_BYTES_MAX,
    SHORT_REQUEST_BYTES_MAX,
)
from kraftd.protocol.messages import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kraftd.protocol.msgpack import API_MODULES
from kraftd.serde.msgpack_types import Array, Int16, Int32, VersionCodec

_LENGTH = struct.Struct(">I")
_ENCODE = msgspec.msgpack.Encoder().encode
_BAD_BYTES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_LONG_REQUESTS = frozenset({DescribeConfigsRequest.API_KEY, IncrementalAlterConfigsRequest.API_KEY})
"""What an operator may ask about many things at once: in both, an array of resources comes first, and in each
of them the third field is an array."""
_FIXARRAY, _ARRAY16, _ARRAY32 = 0x90, 0xDC, 0xDD


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


_Codecs: TypeAlias = dict[tuple[int, int], VersionCodec]
_Body: TypeAlias = tuple[Callable[[msgspec.Raw], Any], Callable[[Any], Any]]


class _Side:
    """The codecs of all requests, or of all responses."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._codecs: _Codecs = {}
        self.bodies: dict[tuple[int, int], _Body] = {}
        """The bodies that were asked for already."""

    def packed(self, version: int, message: Any) -> tuple[object, ...]:
        """A message as msgpack takes it.

        Raises:
            UnencodableError: The message has no such version, or does not fit it.
        """
        codec = self._codecs.get((message.API_KEY, version)) or self._loaded(message.API_KEY, version)
        if codec is None:
            raise UnencodableError(f"{message.NAME} has no version {version}")
        return codec.pack(message)

    def body(self, key: int, version: int) -> _Body | None:
        """How a body is decoded and built; None if that API is not spoken here in that version."""
        body = self.bodies.get((key, version))
        if body is None:
            codec = self._codecs.get((key, version)) or self._loaded(key, version)
            if codec is None:
                return None
            body = self.bodies[key, version] = msgspec.msgpack.Decoder(codec.wire).decode, codec.build
        return body

    def load(self, key: int) -> None:
        """Import the codec of an API."""
        codecs = getattr(API_MODULES[key].load(), self._table)
        self._codecs |= {(key, version): codec for version, codec in codecs.items()}

    def _loaded(self, key: int, version: int) -> VersionCodec | None:
        """Import the codec of an API and return that of a version; None if it is not spoken here."""
        module = API_MODULES.get(key)
        if module is None or not module.min_version <= version <= module.max_version:
            return None
        self.load(key)
        return self._codecs[key, version]


class MsgpackCodec:
    """kraftd's own wire, as a `Codec`."""

    def __init__(self) -> None:
        self.apis: Mapping[int, Api] = api_table(API_MODULES)
        self._requests = _Side("REQUEST_CODECS")
        self._responses = _Side("RESPONSE_CODECS")

    def load(self) -> None:
        """Import the codec of every API, which else is imported when it is needed first."""
        for key in self.apis:
            self._requests.load(key)
            self._responses.load(key)

    def encode_request(
        self,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        message: Any,
        records: Sequence[Buffer] = (),
    ) -> list[Buffer]:
        """A request as the buffers of one whole frame."""
        body = self._requests.packed(api_version, message)
        return _frame((message.API_KEY, api_version, correlation_id, client_id, body), records)

    def encode_response(
        self, api_version: int, correlation_id: int, message: Any, records: Sequence[Buffer] = ()
    ) -> list[Buffer]:
        """A response as the buffers of one whole frame."""
        buffers = _frame((correlation_id, self._responses.packed(api_version, message)), records)
        if len(buffers[0]) > HEAD_BYTES_MAX:
            raise UnencodableError(
                f"{message.NAME} of {len(buffers[0])} bytes is longer than {HEAD_BYTES_MAX}"
            )
        return buffers

    def encode_body(self, api_version: int, message: Any) -> Buffer:
        """The body of a response that is always the same."""
        return _ENCODE(self._responses.packed(api_version, message))

    def encode_response_of(self, body: Buffer, correlation_id: int) -> list[Buffer]:
        """The response with a body of `encode_body`, as the buffers of one whole frame."""
        return _frame((correlation_id, msgspec.Raw(body)), ())

    def decode_request(self, frame: Buffer) -> Request:
        """Read a request."""
        try:
            head = _decode_request_head(frame)
        except _BAD_BYTES as error:
            raise MalformedError(f"not a request: {error}") from None
        records: Buffer = b""
        if head.records is not None or len(frame) > HEAD_BYTES_MAX:
            records = _checked_records(frame, head.records)
        key, version = head.api_key, head.api_version
        body = self._requests.bodies.get((key, version)) or self._requests.body(key, version)
        if body is None:
            raise UnsupportedVersion(key, version, head.correlation_id, self.apis.get(key))
        if head.client_id is not None and len(head.client_id) > CLIENT_ID_MAX:
            text = f"a client id of {len(head.client_id)} characters; {CLIENT_ID_MAX} are accepted"
            raise MalformedRequestError(text, key, version, head.correlation_id)
        decode, build = body
        try:
            if len(frame) > SHORT_REQUEST_BYTES_MAX:
                _check_long(head)
            message = build(decode(head.body))
        except _BAD_BYTES as error:
            text = f"request {key} version {version}: {error}"
            raise MalformedRequestError(text, key, version, head.correlation_id) from None
        return Request(key, version, head.correlation_id, head.client_id, message, records)

    def read_response(self, frame: Buffer) -> "UndecodedMsgpack":
        """Read the head of a response."""
        try:
            head = _decode_response_head(frame)
        except _BAD_BYTES as error:
            raise MalformedError(f"not a response: {error}") from None
        records = _checked_records(frame, head.records)
        return UndecodedMsgpack(head.correlation_id, records, head.body, self._responses)

    def peek_api_key(self, frame: Buffer) -> int:
        """Which API a request is of, without its body being decoded."""
        try:
            return _decode_request_head(frame).api_key
        except _BAD_BYTES as error:
            raise MalformedError(f"not a request: {error}") from None


class UndecodedMsgpack:
    """A response in msgpack of which only the head was read, as an `UndecodedResponse`."""

    __slots__ = ("_body", "_responses", "correlation_id", "records")

    def __init__(self, correlation_id: int, records: Buffer, body: msgspec.Raw, responses: _Side) -> None:
        self.correlation_id = correlation_id
        self.records = records
        self._body = body
        self._responses = responses

    def decode(self, expected: tuple[int, int]) -> Any:
        """Read the message, which answers a request of the API and version expected."""
        body = self._responses.body(*expected)
        if body is None:
            raise MalformedError(f"response to {expected[0]} version {expected[1]}: it is not spoken here")
        decode, build = body
        try:
            return build(decode(self._body))
        except _BAD_BYTES as error:
            raise MalformedError(f"response to {expected[0]} version {expected[1]}: {error}") from None


MSGPACK: Final = MsgpackCodec()
"""The codec of every connection of msgpack."""


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


def _checked_records(frame: Buffer, records: memoryview | None) -> Buffer:
    size = 0 if records is None else len(records)
    if size > RECORDS_BYTES_MAX:
        raise MalformedError(f"{size} bytes of records are more than {RECORDS_BYTES_MAX}")
    if len(frame) - size > HEAD_BYTES_MAX:
        raise MalformedError(f"a head of {len(frame) - size} bytes is longer than {HEAD_BYTES_MAX}")
    return b"" if records is None else records
