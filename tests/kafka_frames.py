"""Frames of Kafka's wire, made from the schemas alone and not by kraftd's codec: costly ones, and plain ones.

A costly frame has one array filled with as many small elements as fit, since what is small on the wire is not
small as an object.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

_PROTO = Path(__file__).parents[1] / "proto"
sys.path.append(str(_PROTO))  # pytest has it there, `python -m tests.hostile.run` has not

from generator.schema import (  # noqa: E402
    OWN_TAGS,
    ArrayType,
    Field,
    FieldType,
    Message,
    Primitive,
    StructDef,
    StructType,
    read_schemas,
)

API_VERSIONS = 18


def kafka_requests() -> Iterator[tuple[Message, int]]:
    """Every request of Kafka's wire that has a schema, in every version; msgpack's own too."""
    for schema in read_schemas(_PROTO / "rpc"):
        for message in schema.messages:
            if message.kind == "request":
                yield from ((message, version) for version in message.versions)


def tagged(struct: StructDef, version: int) -> list[Field]:
    """The tagged fields of a version that Kafka's wire has; those of kraftd's own are on msgpack alone."""
    return [field for field in struct.tagged(version) if (field.tag or 0) < OWN_TAGS]


FIXED = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8}
FIXED |= {"uuid": 16}


def uvarint(number: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


class Frames:
    """Bodies in one version, whose strings and unknown tags are all of one kind.

    Known tags are left out but on the way to the array that is filled.
    """

    def __init__(
        self,
        message: Message,
        version: int,
        *,
        text: bytes = b"",
        tags: bytes = b"\0",
        filled_bytes: int,
        elements_max: int = 1 << 30,
    ) -> None:
        self._message = message
        self._version = version
        self._is_flexible = version in message.flexible
        self._text = text
        self._tags = tags if self._is_flexible else b""
        self._filled_bytes = filled_bytes
        self._elements_max = elements_max

    def costly(self) -> Iterator[tuple[str, bytes]]:
        """A frame without its length for each array of the message, with the array's name."""
        for path in self._paths(self._message.root):
            yield ".".join(field.name for field in path), self._framed(self._body(self._message.root, path))

    def plain(self) -> bytes:
        """The frame without its length of a message that says nothing."""
        return self._framed(self._body(self._message.root, ()))

    def head(self) -> bytes:
        """What comes before the body."""
        message = self._message
        if message.kind == "request":
            known = message.key.to_bytes(2, "big") + self._version.to_bytes(2, "big")
            return known + b"\0\0\0\1\xff\xff" + b"\0" * self._is_flexible
        return b"\0\0\0\1" + b"\0" * (self._is_flexible and message.key != API_VERSIONS)

    def _framed(self, body: bytes) -> bytes:
        return self.head() + body

    def _body(self, struct: StructDef, path: tuple[Field, ...]) -> bytes:
        """A struct with the last array of a path filled."""
        out = b""
        for field in struct.plain(self._version):
            out += self._filled(field, path) if field in path[:1] else self._value(field)
        tags = [
            uvarint(field.tag or 0) + uvarint(len(inside)) + inside
            for field in tagged(struct, self._version)
            if field in path[:1]
            for inside in [self._filled(field, path)]
        ]
        if not self._is_flexible:
            return out
        return out + uvarint(len(tags)) + b"".join(tags)

    def _paths(self, struct: StructDef) -> Iterator[tuple[Field, ...]]:
        """The way to each array inside a struct."""
        for field in struct.fields:
            if self._version not in field.versions:
                continue
            if isinstance(field.type, ArrayType):
                yield (field,)
            inner = field.type.element if isinstance(field.type, ArrayType) else field.type
            if isinstance(inner, StructType):
                yield from ((field, *path) for path in self._paths(inner.definition))

    def _filled(self, field: Field, path: tuple[Field, ...]) -> bytes:
        inner = field.type.element if isinstance(field.type, ArrayType) else field.type
        if len(path) == 1:
            element = self._element(inner)
            count = min(self._filled_bytes // len(element), self._elements_max)
            return self._count(count) + element * count
        assert isinstance(inner, StructType)
        inside = self._body(inner.definition, path[1:])
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
                return (uvarint(len(self._text) + 1) if self._is_flexible else short) + self._text
            case Primitive("bytes" | "records"):
                return self._count(len(self._text)) + self._text
            case Primitive(name):
                return b"\x41" * FIXED[name]
        raise AssertionError(field_type)

    def _count(self, count: int) -> bytes:
        return uvarint(count + 1) if self._is_flexible else count.to_bytes(4, "big")
