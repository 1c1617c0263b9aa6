"""Kafka's own wire: messages to Kafka's frames and back, as its brokers, clients and tools speak it.

A request is a header (API key, version, correlation id, client id) and a body; a response is a correlation id
and a body. From an API's first flexible version on, both headers end with tagged fields, but a response to
ApiVersions never has them: who asked does not know yet what the other side speaks. The client id keeps its
2-byte length in every version. What comes in is a frame without its length, as `framing` cuts it; what goes
out are buffers with it, to be written in order, so that long records are never copied.

Decoding raises `MalformedError` or `UnsupportedVersion` and nothing else, whatever the bytes, and says at
which byte of the frame. Every count is checked against the bytes that are left before anything is made of it.
Tagged fields that are unknown here are kept in bodies and skipped in headers.

The records of a message are inside its body here, and so in its `records`; what is given beside a response
goes into its only partition. The inner request of an Envelope is a frame like any other; so is its response.

Not here: which APIs are served, and who is answered. Follows Kafka's protocol guide and the message schemas
of its clients, with which `tests/interop/test_kafka_wire.py` compares every message, byte for byte.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import structs

from kraftd.errors import ErrorCode, MalformedError, UnencodableError
from kraftd.protocol.apis import Api, api_table
from kraftd.protocol.codec import Buffer, MalformedRequestError, Request, UnsupportedVersion
from kraftd.protocol.kafka import API_MODULES
from kraftd.protocol.limits import (
    HEAD_BYTES_MAX,
    KAFKA_ELEMENTS_MAX,
    KAFKA_FRAME_BYTES_MAX,
    KAFKA_LONGEST_ELEMENTS_MAX,
    SHORT_REQUEST_BYTES_MAX,
)
from kraftd.serde.binary import (
    READ_ERRORS,
    WRITE_ERRORS,
    ZERO,
    Chunks,
    read_nullable_string,
    write_string,
)
from kraftd.serde.metered import MeteredBytes
from kraftd.serde.tagged import read_tags

_RESPONSE_OPENING: Final = struct.Struct(">ii")
_REQUEST_OPENING: Final = struct.Struct(">ihhi")
_REQUEST_HEAD: Final = struct.Struct(">hhi")
_CORRELATION_ID: Final = struct.Struct(">i")
_API_KEY: Final = struct.Struct(">h")

API_VERSIONS: Final = 18
_FETCH: Final = 1
_FETCH_SNAPSHOT: Final = 59

_RECORDS_OF: Final[Mapping[int, tuple[str, str]]] = {
    _FETCH: ("responses", "records"),
    _FETCH_SNAPSHOT: ("topics", "unaligned_records"),
}
"""The responses that carry records: where their topics are, and the field of a partition."""

_LONGEST_REQUESTS: Final = frozenset({"AlterPartition", "Envelope"})
"""A broker sends the changes of all partitions that it leads at once. What is inside an envelope is looked at
only once the envelope was opened, and is refused inside it."""

_LONG_REQUESTS: Final = frozenset(
    {
        "AlterClientQuotas",
        "AlterConfigs",
        "AlterPartitionReassignments",
        "AlterUserScramCredentials",
        "AssignReplicasToDirs",
        "CreateAcls",
        "CreatePartitions",
        "CreateTopics",
        "DeleteAcls",
        "DeleteTopics",
        "DescribeConfigs",
        "ElectLeaders",
        "IncrementalAlterConfigs",
        "ListPartitionReassignments",
    }
)
"""Requests about many things at once; those in neither are no longer than `SHORT_REQUEST_BYTES_MAX`."""

_LONG: Final = HEAD_BYTES_MAX, KAFKA_ELEMENTS_MAX
_LONGEST: Final = KAFKA_FRAME_BYTES_MAX, KAFKA_LONGEST_ELEMENTS_MAX
_BOUNDS: Final = dict.fromkeys(_LONG_REQUESTS, _LONG) | dict.fromkeys(_LONGEST_REQUESTS, _LONGEST)
"""How many bytes a request may have, and how many elements it may be, if it is longer than most."""

_JOINED_BYTES_MAX: Final = 256 * 1024
"""A frame up to this size is one buffer: a copy costs less than one more buffer to write."""

_ALONE_BYTES_MIN: Final = 4 * 1024
"""What is a buffer of its own in a longer frame."""

_Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
_Writer: TypeAlias = Callable[[Chunks, Any], None]


class _Side(NamedTuple):
    """How the requests, or the responses, of an API are read and written in one version."""

    read: _Reader
    write: _Writer
    has_tags: bool
    """Whether their header ends with tagged fields."""


class KafkaCodec:
    """Kafka's own wire, as a `Codec`."""

    def __init__(self) -> None:
        self.apis: Mapping[int, Api] = api_table(API_MODULES)
        self._requests: dict[tuple[int, int], _Side] = {}
        self._responses: dict[tuple[int, int], _Side] = {}
        self._fetched: tuple[int, Any, Sequence[Buffer], Buffer] | None = None
        """The last body of a Fetch response, with the version, message and records that it was made of."""

    def load(self, keys: Iterable[int]) -> None:
        """Import the codecs of these APIs, which else are imported when they are needed first."""
        for key in keys:
            self._load(key)

    def encode_request(
        self,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        message: Any,
        records: Sequence[Buffer] = (),
    ) -> list[Buffer]:
        """A request as the buffers of one whole frame; none has records of its own."""
        if records:
            raise UnencodableError(f"{message.NAME} has no records")
        side = self._of_message(self._requests, api_version, message)
        chunks: Chunks = [b""]
        try:
            write_string(chunks, client_id)
            if side.has_tags:
                chunks.append(ZERO)
            side.write(chunks, message)
            size = sum(map(len, chunks)) + _REQUEST_HEAD.size
            chunks[0] = _REQUEST_OPENING.pack(size, message.API_KEY, api_version, correlation_id)
        except WRITE_ERRORS as error:
            raise UnencodableError(f"{message.NAME} version {api_version}: {error}") from None
        return _buffers(chunks, size)

    def encode_response(
        self, api_version: int, correlation_id: int, message: Any, records: Sequence[Buffer] = ()
    ) -> list[Buffer]:
        """A response as the buffers of one whole frame; records go into its only partition.

        Observers that stand at one position get one body: a hundred brokers that follow the log wait at its
        end, and each commit answers all of them with the same message and batches.
        """
        if message.API_KEY == _FETCH:
            made = self._fetched
            if made is not None and made[1] is message and made[0] == api_version and made[2] == records:
                return self.encode_response_of(made[3], correlation_id)
        whole = _with_records(message, records) if records else message
        chunks: Chunks = [b""]
        self._write_response(chunks, api_version, whole)
        size = sum(map(len, chunks)) + _CORRELATION_ID.size
        if message.API_KEY == _FETCH and size <= _JOINED_BYTES_MAX:
            body = b"".join(chunks)
            self._fetched = api_version, message, records, body
            return self.encode_response_of(body, correlation_id)
        chunks[0] = _RESPONSE_OPENING.pack(size, correlation_id)
        return _buffers(chunks, size)

    def encode_body(self, api_version: int, message: Any) -> Buffer:
        """What follows the correlation id of a response that is always the same."""
        chunks: Chunks = []
        self._write_response(chunks, api_version, message)
        return b"".join(chunks)

    def encode_response_of(self, body: Buffer, correlation_id: int) -> list[Buffer]:
        """The response with a body of `encode_body`, as the buffers of one whole frame."""
        size = len(body) + _CORRELATION_ID.size
        return _buffers([_RESPONSE_OPENING.pack(size, correlation_id), body], size)

    def decode_request(self, frame: Buffer) -> Request:
        """Read a request; its records are in its message. A long frame that is a view is released, so that it
        is not kept beside what is made of it.
        """
        try:
            key, version, correlation_id = _REQUEST_HEAD.unpack_from(frame)
        except struct.error:
            raise MalformedError(f"not a request: {len(frame)} bytes are no header") from None
        side = self._requests.get((key, version)) or self._loaded(self._requests, key, version)
        if side is None:
            raise UnsupportedVersion(key, version, correlation_id, self.apis.get(key))
        data = b""
        try:
            if len(frame) > SHORT_REQUEST_BYTES_MAX:
                data = _metered(frame, API_MODULES[key].name)
            else:
                data = frame if isinstance(frame, bytes) else bytes(frame)
            client_id, at = read_nullable_string(data, _REQUEST_HEAD.size)
            if side.has_tags:
                at = read_tags(data, at)[1] if data[at] else at + 1
            message, at = side.read(data, at)
            if at != len(data):
                raise MalformedError(f"byte {at}: {len(data) - at} bytes follow the body")
        except READ_ERRORS as error:
            text = f"{API_MODULES[key].name} request version {version}: {_reason(error, data)}"
            raise MalformedRequestError(text, key, version, correlation_id) from None
        return Request(key, version, correlation_id, client_id, message)

    def read_response(self, frame: Buffer) -> "UndecodedKafka":
        """Read the head of a response."""
        data = frame if isinstance(frame, bytes) else bytes(frame)
        try:
            (correlation_id,) = _CORRELATION_ID.unpack_from(data)
        except struct.error:
            raise MalformedError(f"not a response: {len(data)} bytes are no header") from None
        return UndecodedKafka(correlation_id, data, self.decode_response)

    def decode_response(self, data: bytes, expected: tuple[int, int]) -> Any:
        """Read the message of a response's frame, which answers a request of the API and version expected.

        A version of ApiVersions that is too new is answered in version 0, with UNSUPPORTED_VERSION.

        Raises:
            MalformedError: The body does not follow its schema.
        """
        side = self._responses.get(expected) or self._loaded(self._responses, *expected)
        if side is None:
            raise MalformedError(f"response to {expected[0]} version {expected[1]}: it is not spoken here")
        try:
            _, at = read_tags(data, _CORRELATION_ID.size) if side.has_tags else ((), _CORRELATION_ID.size)
            message, at = side.read(data, at)
            if at != len(data):
                raise MalformedError(f"byte {at}: {len(data) - at} bytes follow the body")
        except READ_ERRORS as error:
            if refusal := self._refusal(data, expected):
                return refusal
            name = API_MODULES[expected[0]].name
            raise MalformedError(f"{name} response version {expected[1]}: {_reason(error, data)}") from None
        return message

    def answer(self, frame: Buffer, response: Any) -> list[Buffer]:
        """The frame of a response to a request of which nothing but the header is read."""
        try:
            _, version, correlation_id = _REQUEST_HEAD.unpack_from(frame)
        except struct.error:
            raise MalformedError(f"not a request: {len(frame)} bytes are no header") from None
        return self.encode_response(version, correlation_id, response)

    def peek_api_key(self, frame: Buffer) -> int:
        """Which API a request is of, without its body being decoded."""
        try:
            key: int = _API_KEY.unpack_from(frame)[0]
        except struct.error:
            raise MalformedError(f"not a request: {len(frame)} bytes are no header") from None
        return key

    def peek_client_id(self, frame: Buffer) -> str | None:
        """What the sender of a request calls itself, None if it does not or the header cannot be read."""
        try:
            client_id: str | None = read_nullable_string(bytes(frame), _REQUEST_HEAD.size)[0]
        except READ_ERRORS:
            return None
        return client_id

    def _refusal(self, data: bytes, expected: tuple[int, int]) -> Any:
        """The response of version 0 that says that the version expected is not spoken; None for any other."""
        key, version = expected
        if key != API_VERSIONS or version == 0:
            return None
        try:
            message = self.decode_response(data, (key, 0))
        except MalformedError:
            return None
        return message if message.error_code == ErrorCode.UNSUPPORTED_VERSION else None

    def _write_response(self, chunks: Chunks, api_version: int, message: Any) -> None:
        side = self._of_message(self._responses, api_version, message)
        if side.has_tags:
            chunks.append(ZERO)
        try:
            side.write(chunks, message)
        except WRITE_ERRORS as error:
            raise UnencodableError(f"{message.NAME} version {api_version}: {error}") from None

    def _of_message(self, sides: dict[tuple[int, int], _Side], version: int, message: Any) -> _Side:
        key = message.API_KEY
        side = sides.get((key, version)) or self._loaded(sides, key, version)
        if side is None:
            raise UnencodableError(f"{message.NAME} has no version {version}")
        return side

    def _loaded(self, sides: dict[tuple[int, int], _Side], key: int, version: int) -> _Side | None:
        """Import the codec of an API and return that of a version; None if it is not spoken here."""
        module = API_MODULES.get(key)
        if module is None or not module.min_version <= version <= module.max_version:
            return None
        self._load(key)
        return sides[key, version]

    def _load(self, key: int) -> None:
        codec = API_MODULES[key].load()
        for version, read in codec.REQUEST_READERS.items():
            is_flexible = version >= codec.FLEXIBLE_SINCE
            self._requests[key, version] = _Side(read, codec.REQUEST_WRITERS[version], is_flexible)
            self._responses[key, version] = _Side(
                codec.RESPONSE_READERS[version],
                codec.RESPONSE_WRITERS[version],
                is_flexible and key != API_VERSIONS,
            )


class UndecodedKafka:
    """A response of Kafka's wire of which only the head was read, as an `UndecodedResponse`."""

    __slots__ = ("_data", "_decode", "correlation_id", "records")

    def __init__(
        self, correlation_id: int, data: bytes, decode: Callable[[bytes, tuple[int, int]], Any]
    ) -> None:
        self.correlation_id = correlation_id
        self.records: Buffer = b""
        """Empty: they are in the message."""
        self._data = data
        self._decode = decode

    def decode(self, expected: tuple[int, int]) -> Any:
        """Read the message, which answers a request of the API and version expected."""
        return self._decode(self._data, expected)


KAFKA: Final = KafkaCodec()
"""The codec of every connection of Kafka's."""


def _metered(frame: Buffer, name: str) -> MeteredBytes:
    """A long request, which may be as many elements as its kind may.

    Raises:
        MalformedError: It is longer than that.
    """
    bytes_max, elements_max = _BOUNDS.get(name, (SHORT_REQUEST_BYTES_MAX, 0))
    if len(frame) > bytes_max:
        raise MalformedError(f"{len(frame)} bytes are more than {bytes_max}")
    data = MeteredBytes(frame, elements_max)
    if isinstance(frame, memoryview):
        frame.release()
    return data


def _with_records(message: Any, records: Sequence[Buffer]) -> Any:
    """A response with records in its only partition."""
    topics_at, records_at = _RECORDS_OF.get(message.API_KEY, ("", ""))
    topics: tuple[Any, ...] = getattr(message, topics_at, ())
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise UnencodableError(f"{message.NAME} has no single partition for records")
    partition = structs.replace(topics[0].partitions[0], **{records_at: tuple(records)})
    topic = structs.replace(topics[0], partitions=(partition,))
    return structs.replace(message, **{topics_at: (topic,)})


def _buffers(chunks: Chunks, size: int) -> list[Buffer]:
    """A frame of so many bytes in as few buffers as it takes without copying what is long."""
    if size <= _JOINED_BYTES_MAX:
        return [b"".join(chunks)]
    buffers: list[Buffer] = []
    short: Chunks = []
    for chunk in chunks:
        if len(chunk) < _ALONE_BYTES_MIN:
            short.append(chunk)
            continue
        if short:
            buffers.append(b"".join(short))
            short = []
        buffers.append(chunk)
    if short:
        buffers.append(b"".join(short))
    return buffers


def _reason(error: Exception, data: bytes) -> str:
    """What a reader met, and at which byte of the frame.

    The readers read numbers and short strings in place, without looking whether the bytes suffice: then the
    bytes end, or a string is not UTF-8 where the innermost reader stood.
    """
    match error:
        case MalformedError():
            return str(error)
        case UnicodeDecodeError():
            return f"byte {_position(error)}: a string that is not UTF-8: {error.reason}"
        case _:
            return f"byte {len(data)}: the bytes end inside the body"


def _position(error: Exception) -> int:
    """Where the reader stood that raised: its variable `at`."""
    trace = error.__traceback__
    position = 0
    while trace is not None:
        position = trace.tb_frame.f_locals.get("at", position)
        trace = trace.tb_next
    return position
