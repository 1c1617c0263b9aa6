"""Frames of Kafka's wire that nobody means well with: what they cost in memory, and that they are refused as
documented, for every API in every version.

A costly frame is made from the schema: one array is filled with as many small elements as fit, since what is
small on the wire is not small as an object. Broken frames are whole ones with some bytes changed, taken out
or put in.
"""

import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from generator.schema import ArrayType, Field, FieldType, Message, Primitive, StructDef, StructType
from strategies import EVERY_KAFKA_RPC, name_of

from kraftd.errors import MalformedError
from kraftd.protocol.codec import Buffer, UnsupportedVersion
from kraftd.protocol.kafka_codec import API_VERSIONS, KAFKA
from kraftd.serde.varint import encode_uvarint
from tests.interop.random_records import random_rpc

FILLED_BYTES = 8_000
MEMORY_PER_BYTE = 32
MEMORY_BESIDE = 10 * 1024
"""What the decoding of any frame may take: some tagged fields of one struct, and the message itself."""

TEXTS = {"empty": b"", "two letters": b"ab", "no letter of Latin": "ā".encode()}
TAGS = {
    "none": b"\0",
    "one": b"\1\x7f\1a",
    "one of a high number": b"\1\x80\x60\1a",
    "as many as may be": b"\x40" + b"".join(bytes((tag, 1, 0)) for tag in range(0x3F, 0x7F)),
}
FIXED = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8}
FIXED |= {"uuid": 16}


class Costly:
    """Bodies in one version, whose strings and unknown tags are all of one kind.

    Known tags are left out but on the way to the array that is filled.
    """

    def __init__(self, message: Message, version: int, text: bytes, tags: bytes) -> None:
        self._version = version
        self._is_flexible = version in message.flexible
        self._text = text
        self._tags = tags if self._is_flexible else b""

    def body(self, struct: StructDef, path: tuple[Field, ...]) -> bytes:
        """A struct with the last array of a path filled."""
        out = b""
        for field in struct.plain(self._version):
            out += self._filled(field, path) if field in path[:1] else self._value(field)
        tags = [
            encode_uvarint(field.tag or 0) + encode_uvarint(len(inside)) + inside
            for field in struct.tagged(self._version)
            if field in path[:1]
            for inside in [self._filled(field, path)]
        ]
        if not self._is_flexible:
            return out
        return out + encode_uvarint(len(tags)) + b"".join(tags)

    def paths(self, struct: StructDef) -> Iterator[tuple[Field, ...]]:
        """The way to each array inside a struct."""
        for field in struct.fields:
            if self._version not in field.versions:
                continue
            if isinstance(field.type, ArrayType):
                yield (field,)
            inner = field.type.element if isinstance(field.type, ArrayType) else field.type
            if isinstance(inner, StructType):
                yield from ((field, *path) for path in self.paths(inner.definition))

    def _filled(self, field: Field, path: tuple[Field, ...]) -> bytes:
        inner = field.type.element if isinstance(field.type, ArrayType) else field.type
        if len(path) == 1:
            element = self._element(inner)
            count = FILLED_BYTES // len(element)
            return self._count(count) + element * count
        assert isinstance(inner, StructType)
        inside = self.body(inner.definition, path[1:])
        return (
            self._count(1) + inside if isinstance(field.type, ArrayType) else self._presence(field) + inside
        )

    def _value(self, field: Field) -> bytes:
        if isinstance(field.type, ArrayType):
            return self._count(0)
        presence = self._presence(field) if isinstance(field.type, StructType) else b""
        return presence + self._element(field.type)

    def _presence(self, field: Field) -> bytes:
        return b"\1" if self._version in field.nullable else b""

    def _element(self, field_type: FieldType) -> bytes:
        match field_type:
            case StructType(definition):
                return b"".join(map(self._value, definition.plain(self._version))) + self._tags
            case Primitive("string"):
                short = len(self._text).to_bytes(2, "big")
                return (encode_uvarint(len(self._text) + 1) if self._is_flexible else short) + self._text
            case Primitive("bytes" | "records"):
                return self._count(len(self._text)) + self._text
            case Primitive(name):
                return b"\x41" * FIXED[name]
        raise AssertionError(field_type)

    def _count(self, count: int) -> bytes:
        return encode_uvarint(count + 1) if self._is_flexible else count.to_bytes(4, "big")


def frame_of(message: Message, version: int, body: bytes) -> bytes:
    is_flexible = version in message.flexible
    if message.kind == "request":
        head = message.key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\xff\xff"
        return head + b"\0" * is_flexible + body
    return b"\0\0\0\1" + b"\0" * (is_flexible and message.key != API_VERSIONS) + body


def decoder_of(message: Message, version: int) -> Callable[[bytes], Any]:
    if message.kind == "request":
        return lambda frame: KAFKA.decode_request(frame).message
    return lambda frame: KAFKA.read_response(frame).decode((message.key, version))


def encoder_of(message: Message, version: int) -> Callable[[Any], list[Buffer]]:
    if message.kind == "request":
        return lambda value: KAFKA.encode_request(version, 1, None, value)
    return lambda value: KAFKA.encode_response(version, 1, value)


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    KAFKA.load(KAFKA.apis)


@pytest.mark.covers("D-14", "D-38")
@pytest.mark.parametrize(("message", "version"), EVERY_KAFKA_RPC, ids=name_of)
def test_a_frame_takes_at_most_32_times_its_size(message: Message, version: int) -> None:
    decode = decoder_of(message, version)
    random = Random(f"{message.name} {version}")
    for path in Costly(message, version, b"", b"\0").paths(message.root):
        for tags in random.sample(sorted(TAGS), 2):
            text = TEXTS[random.choice(sorted(TEXTS))]
            frame = frame_of(
                message, version, Costly(message, version, text, TAGS[tags]).body(message.root, path)
            )
            tracemalloc.start()
            try:
                decoded = decode(frame)
            except MalformedError as error:
                decoded = str(error)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            names = ".".join(field.name for field in path)
            assert peak <= MEMORY_PER_BYTE * len(frame) + MEMORY_BESIDE, f"{names}, tags {tags}, {text!r}"
            assert not isinstance(decoded, str) or "elements cannot be" in decoded, decoded


@pytest.mark.covers("D-14", "D-38")
@pytest.mark.parametrize(("message", "version"), EVERY_KAFKA_RPC, ids=name_of)
def test_broken_frames_are_refused_as_documented(message: Message, version: int) -> None:
    """What can be read all the same is written and read again as it is."""
    decode = decoder_of(message, version)
    encode = encoder_of(message, version)
    random = Random(f"{version} {message.name}")
    for _ in range(40):
        value = random_rpc(random, message, version, has_unknown_tags=True)
        whole = b"".join(encode(value))[4:]
        broken = bytes_changed(random, whole, head=4 if message.kind == "request" else 0)
        try:
            found = decode(broken)
        except (MalformedError, UnsupportedVersion):
            continue
        again = b"".join(encode(found))[4:]
        assert b"".join(encode(decode(again)))[4:] == again


def bytes_changed(random: Random, whole: bytes, *, head: int) -> bytes:
    """A frame with one to three changes behind its head; mostly small ones, since lengths are."""
    out = bytearray(whole)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(head, len(out)) if len(out) > head else head
        match random.randrange(4):
            case 0:
                out[at : at + 1] = bytes((random.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)),))
            case 1:
                del out[at : at + random.choice((1, 2, 4, len(out)))]
            case 2:
                out[at:at] = random.randbytes(random.choice((1, 2, 4)))
            case _:
                out[at : at + 4] = random.choice((b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\x7f\xff\xff\xff"))
    return bytes(out)
