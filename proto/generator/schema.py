"""The schemas of `proto/`, read and checked.

A schema is one JSON object. An RPC has `request` and `response`, each with `fields`; a record has `fields`
itself. `versions` and `flexible` are ranges ("0+", "1-3", "2"); from the first flexible version on, Kafka's
encoding is the compact one with tagged fields.

A field says `name` (Kafka's), `type` and `meaning`, and where it differs from the usual:

    versions   in which versions it exists (all)
    nullable   in which versions it may be null (none)
    default    its value where it is absent (0, "", false, empty, all zero)
    tag        its number among the tagged fields (it is not tagged)
    ignorable  whether a version that lacks it may silently drop it (it must then be the default)
    secret     whether a value of it must not be shown: the class leaves it out where it shows itself
    fields     the fields of its struct, if its type names one that `structs` does not define

An RPC also says its `encodings`: "msgpack" if it is spoken on kraftd's own wire, "binary" if on Kafka's.

Types are bool, int8, int16, int32, int64, uint16, uint32, float64, string, bytes, uuid, records, the name
of a struct, and `[]` before any of these.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

PRIMITIVES = frozenset(
    {
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint16",
        "uint32",
        "float64",
        "string",
        "bytes",
        "uuid",
        "records",
    }
)

_TAKEN_NAMES = frozenset(
    {"at", "claim", "data", "end", "start", "stop", "tag", "tags", "unknown", "unknown_tags", "wire"}
    | {"bool", "bytes", "float", "int", "str", "tuple"}
)

_FIELD_KEYS = ("name", "type", "versions", "nullable", "default", "tag", "ignorable", "secret") + (
    "meaning",
    "fields",
)

Kind: TypeAlias = Literal["request", "response", "record", "control"]


class SchemaError(Exception):
    """A schema contradicts itself or the format."""


class Versions(Struct, frozen=True):
    """An inclusive range of versions; empty if `low` is above `high`."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def covers(self, other: "Versions") -> bool:
        """Whether every version of the other is one of these."""
        return self.low <= other.low and other.high <= self.high


NO_VERSIONS = Versions(0, -1)

OWN_TAGS = 10_000
"""From this tag on, a field of one of Kafka's messages is ours: only kraftd's own wire carries it."""


class Primitive(Struct, frozen=True):
    """A type without parts."""

    name: str


class StructType(Struct, frozen=True):
    """A struct, by the name of its class."""

    definition: "StructDef"


class ArrayType(Struct, frozen=True):
    """Any number of one type, primitive or struct."""

    element: Primitive | StructType


FieldType: TypeAlias = Primitive | StructType | ArrayType


class Field(Struct, frozen=True):
    """One field of a message or struct."""

    name: str
    type: FieldType
    versions: Versions
    nullable: Versions
    default: Any
    tag: int | None
    ignorable: bool
    meaning: str
    is_secret: bool = False

    @property
    def attribute(self) -> str:
        """Its name as an attribute: snake case, `KRaft` being one word."""
        return snake_case(self.name)


class StructDef(Struct, frozen=True):
    """A message, or a struct inside one; each becomes a class."""

    class_name: str
    meaning: str
    fields: tuple[Field, ...]

    def plain(self, version: int) -> list[Field]:
        """The untagged fields of a version, in schema order."""
        return [field for field in self.fields if version in field.versions and field.tag is None]

    def tagged(self, version: int) -> list[Field]:
        """The tagged fields of a version, by tag."""
        found = [field for field in self.fields if version in field.versions and field.tag is not None]
        return sorted(found, key=lambda field: field.tag or 0)

    def absent(self, version: int) -> list[Field]:
        """The fields that a version lacks."""
        return [field for field in self.fields if version not in field.versions]


class Message(Struct, frozen=True):
    """A request, a response or a record, with every struct inside it, innermost first."""

    name: str
    kind: Kind
    key: int
    versions: Versions
    flexible: Versions
    root: StructDef
    structs: tuple[StructDef, ...]


class Schema(Struct, frozen=True):
    """One file of `proto/`."""

    name: str
    path: Path
    meaning: str
    messages: tuple[Message, ...]
    encodings: tuple[str, ...]
    """Of an RPC, those that it is spoken in; empty for a record."""


def read_schemas(folder: Path) -> list[Schema]:
    """Every schema of a folder, ordered by key.

    Raises:
        SchemaError: One does not follow the format, or two have the same key.
    """
    by_key: dict[int, Schema] = {}
    for path in sorted(folder.glob("*.json")):
        schema = read_schema(path)
        other = by_key.setdefault(schema.messages[0].key, schema)
        if other is not schema:
            raise SchemaError(f"{path}: its key {schema.messages[0].key} is that of {other.name}")
    return [by_key[key] for key in sorted(by_key)]


def read_schema(path: Path) -> Schema:
    """Read one file.

    Raises:
        SchemaError: It does not follow the format.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return _schema(data, path)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from error
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise SchemaError(f"{path}: {type(error).__name__}: {error}") from error


def on_kafkas_wire(message: Message) -> Message:
    """A message without the fields of ours, which Kafka's nodes do not know."""
    return structs.replace(
        message,
        root=_kafkas_part(message.root),
        structs=tuple(_kafkas_part(definition) for definition in message.structs),
    )


def _kafkas_part(definition: StructDef) -> StructDef:
    fields = [field for field in definition.fields if field.tag is None or field.tag < OWN_TAGS]
    return structs.replace(
        definition,
        fields=tuple(structs.replace(field, type=_kafkas_type(field.type)) for field in fields),
    )


def _kafkas_type(field_type: FieldType) -> FieldType:
    match field_type:
        case StructType(definition):
            return StructType(_kafkas_part(definition))
        case ArrayType(StructType(definition)):
            return ArrayType(StructType(_kafkas_part(definition)))
        case _:
            return field_type


def snake_case(name: str) -> str:
    """Kafka's name of a field as a Python attribute."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name.replace("KRaft", "Kraft"))
    return words.lower()


def _schema(data: dict[str, Any], path: Path) -> Schema:
    _known(
        data,
        "name",
        "api_key",
        "control_type",
        "versions",
        "flexible",
        "encodings",
        "meaning",
        "request",
        "response",
        "fields",
        "structs",
    )
    if data["name"] != path.stem:
        raise SchemaError(f"names itself {data['name']}")
    if "request" in data:
        sides: list[tuple[str, Kind, dict[str, Any]]] = [
            (data["name"] + "Request", "request", data["request"]),
            (data["name"] + "Response", "response", data["response"]),
        ]
    else:
        sides = [(data["name"], "control" if "control_type" in data else "record", data)]
    versions = _versions(data["versions"], within=None)
    flexible = _versions(data["flexible"], within=versions)
    key = data["control_type"] if "control_type" in data else data["api_key"]
    messages = tuple(
        _message(name, kind, side, key=key, versions=versions, flexible=flexible)
        for name, kind, side in sides
    )
    return Schema(
        name=data["name"],
        path=path,
        meaning=data["meaning"],
        messages=messages,
        encodings=_encodings(data),
    )


def _encodings(data: dict[str, Any]) -> tuple[str, ...]:
    if ("request" in data) != ("encodings" in data):
        raise SchemaError("has encodings if it is an RPC, and only then")
    encodings = tuple(data.get("encodings", ()))
    if unknown := set(encodings) - {"msgpack", "binary"}:
        raise SchemaError(f"knows no encoding {min(unknown)!r}")
    return encodings


def _message(
    name: str, kind: Kind, data: dict[str, Any], *, key: int, versions: Versions, flexible: Versions
) -> Message:
    reader = _StructReader(name, versions)
    for shared in data.get("structs", []):
        _known(shared, "name", "meaning", "fields")
        reader.define(shared["name"], shared["meaning"], shared["fields"], versions)
    root = StructDef(
        class_name=name, meaning=data["meaning"], fields=reader.fields(data["fields"], versions, name)
    )
    _check_tags(root, flexible)
    for struct in reader.defined.values():
        _check_tags(struct, flexible)
    return Message(
        name=name,
        kind=kind,
        key=key,
        versions=versions,
        flexible=flexible,
        root=root,
        structs=tuple(reader.defined.values()),
    )


class _StructReader:
    """Collects the structs of one message, innermost first, so that each can refer to those before it."""

    def __init__(self, message: str, versions: Versions) -> None:
        self._message = message
        self._versions = versions
        self.defined: dict[str, StructDef] = {}

    def define(self, name: str, meaning: str, fields: list[dict[str, Any]], versions: Versions) -> None:
        if name in self.defined:
            raise SchemaError(f"defines {name} twice")
        class_name = self._message + name
        definition = StructDef(class_name, meaning, self.fields(fields, versions, class_name))
        self.defined[name] = definition

    def fields(self, fields: list[dict[str, Any]], versions: Versions, where: str) -> tuple[Field, ...]:
        read = tuple(self._field(field, versions, where) for field in fields)
        names = [field.attribute for field in read]
        if taken := _TAKEN_NAMES.intersection(names):
            raise SchemaError(f"{where}.{min(taken)} is a name that the generated code needs for itself")
        if len(set(names)) != len(names):
            raise SchemaError(f"{where} has two fields of one name")
        return read

    def _field(self, data: dict[str, Any], within: Versions, where: str) -> Field:
        _known(data, *_FIELD_KEYS)
        versions = _versions(data["versions"], within=self._versions) if "versions" in data else within
        if "fields" in data:
            meaning = f"In `{where}.{snake_case(data['name'])}`. {data['meaning']}"
            self.define(data["type"].removeprefix("[]"), meaning, data["fields"], versions)
        field_type = self._type(data["type"])
        nullable = _versions(data["nullable"], within=versions) if "nullable" in data else NO_VERSIONS
        return Field(
            name=data["name"],
            type=field_type,
            versions=versions,
            nullable=nullable,
            default=data["default"] if "default" in data else _usual_default(field_type),
            tag=data.get("tag"),
            ignorable=data.get("ignorable", False),
            meaning=data["meaning"],
            is_secret=data.get("secret", False),
        )

    def _type(self, text: str) -> FieldType:
        if text.startswith("[]"):
            element = self._type(text[2:])
            if isinstance(element, ArrayType):
                raise SchemaError(f"an array of arrays: {text}")
            return ArrayType(element)
        if text in PRIMITIVES:
            return Primitive(text)
        if text not in self.defined:
            raise SchemaError(f"unknown type {text}")
        return StructType(self.defined[text])


def _usual_default(field_type: FieldType) -> Any:
    match field_type:
        case ArrayType():
            return ()
        case StructType():
            return ...
        case Primitive("bool"):
            return False
        case Primitive("string"):
            return ""
        case Primitive("bytes" | "records"):
            return b""
        case Primitive("uuid"):
            return bytes(16)
        case Primitive("float64"):
            return 0.0
        case Primitive():
            return 0


def _versions(text: str, *, within: Versions | None) -> Versions:
    match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    if text == "none" and within is not None:
        return NO_VERSIONS
    if match is None:
        raise SchemaError(f"{text!r} is not a range of versions")
    low = int(match[1])
    if match[2]:
        if within is None:
            raise SchemaError(f"{text!r} is open, but a message ends somewhere")
        found = Versions(low, within.high)
    else:
        found = Versions(low, int(match[3]) if match[3] else low)
    if within is not None and not within.covers(found):
        raise SchemaError(f"versions {text} are not all among {within.low}-{within.high}")
    return found


def _check_tags(struct: StructDef, flexible: Versions) -> None:
    tagged = [field for field in struct.fields if field.tag is not None]
    if len({field.tag for field in tagged}) != len(tagged):
        raise SchemaError(f"{struct.class_name} gives a tag twice")
    for field in tagged:
        if not flexible.covers(field.versions):
            raise SchemaError(f"{struct.class_name}.{field.name} is tagged in a version without tags")


def _known(data: dict[str, Any], *keys: str) -> None:
    unknown = set(data) - set(keys)
    if unknown:
        raise SchemaError(f"unknown key {min(unknown)!r} in {data.get('name', 'a field')}")
