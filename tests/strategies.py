"""Hypothesis strategies made from the schemas: a value of any message in any of its versions."""

from pathlib import Path
from typing import Any

import msgpack
from generator.schema import (
    ArrayType,
    Field,
    FieldType,
    Message,
    Primitive,
    StructDef,
    StructType,
    on_kafkas_wire,
    read_schemas,
)
from hypothesis import strategies as st

from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.types import ZERO_UUID

PROTO = Path(__file__).parents[1] / "proto"
MESSAGES = {
    kind: [message for schema in read_schemas(PROTO / kind) for message in schema.messages]
    for kind in ("rpc", "control", "records")
}
EVERY_RPC = [(message, version) for message in MESSAGES["rpc"] for version in message.versions]
EVERY_MSGPACK_RPC = [
    (message, version)
    for message, version in EVERY_RPC
    if (api := MSGPACK.apis.get(message.key)) and api.min_version <= version <= api.max_version
]
EVERY_KAFKA_RPC = [
    (on_kafkas_wire(message), version) for message, version in EVERY_RPC if message.key in KAFKA.apis
]
EVERY_RECORD = [(message, version) for message in MESSAGES["records"] for version in message.versions]
EVERY_CONTROL = [(message, version) for message in MESSAGES["control"] for version in message.versions]


def name_of(case: Any) -> str:
    """A readable test id for a (message, version) pair."""
    return case.name if isinstance(case, Message) else f"v{case}"


_INTEGERS = {"int8": (7, True), "int16": (15, True), "int32": (31, True), "int64": (63, True)}
_INTEGERS |= {"uint16": (16, False), "uint32": (32, False)}
TEXT = st.text(max_size=12) | st.sampled_from(["x" * 126, "y" * 127, "z" * 200])
UNKNOWN_TAGS_FROM = 1000


def values_of(struct: StructDef, version: int, classes: Any, *, packed: bool) -> st.SearchStrategy[Any]:
    """Values of a class as one version can say them.

    Args:
        struct: The schema.
        version: Which of its versions.
        classes: The module with the generated classes.
        packed: Whether unknown tags must hold msgpack.
    """
    cls = getattr(classes, struct.class_name)
    parts = {
        field.attribute: _field(field, version, classes, packed)
        for field in struct.fields
        if version in field.versions and not (packed and field.type == Primitive("records"))
    }
    if packed:
        raw = (
            st.integers(-5, 2**33).map(msgpack.packb)
            | TEXT.map(msgpack.packb)
            | st.just(b"\x93\x01\xa1a\xc0")
        )
    else:
        raw = st.binary(min_size=1, max_size=5)
    tags = st.dictionaries(st.integers(UNKNOWN_TAGS_FROM, 2**31 - 1), raw, max_size=2)
    parts["unknown_tags"] = st.just(()) | tags.map(lambda found: tuple(sorted(found.items())))
    return st.builds(cls, **parts)


def flexible_only(message: Message, version: int, value: Any) -> Any:
    """Drop unknown tags where a version has none; there is nothing to carry them in Kafka's encoding."""
    return value if version in message.flexible else _without_tags(value)


def oracle_body(struct: StructDef, version: int, value: Any) -> list[Any]:
    """The body that msgpack must hold, written from the schema alone."""
    plain = [
        _plain(field.type, version, getattr(value, field.attribute))
        for field in struct.plain(version)
        if field.type != Primitive("records")
    ]
    tags: dict[int, Any] = {}
    for field in struct.tagged(version):
        found = getattr(value, field.attribute)
        if found != _default(field, found):
            tags[field.tag or 0] = _plain(field.type, version, found)
    for tag, raw in value.unknown_tags:
        tags[tag] = msgpack.unpackb(raw, strict_map_key=False)
    return [*plain, tags]


def _plain(field_type: FieldType, version: int, value: Any) -> Any:
    match field_type:
        case _ if value is None:
            return None
        case StructType(definition):
            return oracle_body(definition, version, value)
        case ArrayType(element):
            return [_plain(element, version, item) for item in value]
        case _:
            return value


def _default(field: Field, like: Any) -> Any:
    return type(like)() if isinstance(field.type, StructType) else field.default


def _field(field: Field, version: int, classes: Any, packed: bool) -> st.SearchStrategy[Any]:
    found = _type(field.type, version, classes, packed)
    return st.none() | found if version in field.nullable else found


def _type(field_type: FieldType, version: int, classes: Any, packed: bool) -> st.SearchStrategy[Any]:
    match field_type:
        case ArrayType(element):
            return st.lists(_type(element, version, classes, packed), max_size=3).map(tuple)
        case StructType(definition):
            return values_of(definition, version, classes, packed=packed)
        case Primitive("bool"):
            return st.booleans()
        case Primitive("string"):
            return TEXT
        case Primitive("bytes" | "records"):
            return st.binary(max_size=20)
        case Primitive("uuid"):
            return st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16)
        case Primitive("float64"):
            return st.floats(allow_nan=False)
        case Primitive(name):
            bits, signed = _INTEGERS[name]
            return st.integers(-(2**bits) if signed else 0, 2**bits - 1)


def _without_tags(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_without_tags(item) for item in value)
    if not hasattr(value, "unknown_tags"):
        return value
    kept = {name: _without_tags(getattr(value, name)) for name in value.__struct_fields__}
    return type(value)(**(kept | {"unknown_tags": ()}))
