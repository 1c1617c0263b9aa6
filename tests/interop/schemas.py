"""Schemas in one form, ours and Kafka's, so that they can be compared field by field.

Kafka's are JSON files inside its jars, with comments on lines of their own. A field is told by its path,
such as `RegisterBrokerRecord.EndPoints.Port`, and what makes its bytes: type, versions, nullable versions,
default, tag, and whether a version that lacks it may drop it.

Not here: names of entities and keys of maps, which say how Kafka's own classes use a field.
"""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from generator.schema import ArrayType, Field, FieldType, Message, Primitive, StructDef, StructType

Fields: TypeAlias = dict[str, "FieldFacts"]

_NUMBERS = {"int8", "int16", "uint16", "int32", "uint32", "int64"}


class FieldFacts(NamedTuple):
    """What makes a field's bytes."""

    type: str
    versions: frozenset[int]
    nullable: frozenset[int]
    default: Any
    tag: int | None
    tagged: frozenset[int]
    ignorable: bool


class MessageFacts(NamedTuple):
    """What makes a message's bytes. `fields` are in the order of the schema."""

    key: int | None
    versions: frozenset[int]
    flexible: frozenset[int]
    fields: Fields


def schemas_in(jar: Path, folder: str) -> dict[str, dict[str, Any]]:
    """The schemas in a folder of a jar, by the name that each gives itself."""
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith(f"{folder}/") and name.endswith(".json"):
                schema = _parsed(archive.read(name).decode())
                found[schema["name"]] = schema
    return found


def ours(message: Message) -> MessageFacts:
    """The facts of a schema of `proto/`."""
    return MessageFacts(
        key=message.key,
        versions=frozenset(message.versions),
        flexible=frozenset(message.flexible),
        fields=dict(_our_fields(message.root, message.name, frozenset(message.versions))),
    )


def kafkas(schema: Mapping[str, Any], within: frozenset[int]) -> MessageFacts:
    """The facts of a schema of Kafka's, in the versions that are `within`."""
    valid = _range(schema["validVersions"], range(1 << 10))
    shared = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}
    reader = _KafkaReader(shared, valid & within)
    return MessageFacts(
        key=schema.get("apiKey"),
        versions=valid,
        flexible=_range(schema.get("flexibleVersions", "none"), valid & within),
        fields=dict(reader.fields(schema["fields"], schema["name"], valid & within)),
    )


def differences(mine: MessageFacts, theirs: MessageFacts) -> list[str]:
    """What differs between two, a line each; none if they agree, in the order of the fields too."""
    out = [
        f"{name}: {facts} here, {theirs.fields.get(name, 'nothing')} there"
        for name, facts in mine.fields.items()
        if theirs.fields.get(name) != facts
    ]
    out += [f"{name}: not here" for name in theirs.fields if name not in mine.fields]
    if not out and list(mine.fields) != list(theirs.fields):
        out.append(f"in another order: {list(mine.fields)} here, {list(theirs.fields)} there")
    if mine.flexible != theirs.flexible:
        out.append(f"flexible in {sorted(mine.flexible)} here, {sorted(theirs.flexible)} there")
    return out


def _our_fields(struct: StructDef, path: str, within: frozenset[int]) -> Iterator[tuple[str, FieldFacts]]:
    for field in struct.fields:
        versions = frozenset(field.versions) & within
        name = f"{path}.{field.name}"
        tagged = field.tag is not None
        yield (
            name,
            FieldFacts(
                type=_our_type(field.type),
                versions=versions,
                nullable=frozenset(field.nullable) & versions,
                default=_our_default(field),
                tag=field.tag,
                tagged=versions if tagged else frozenset(),
                ignorable=field.ignorable,
            ),
        )
        inner = field.type.element if isinstance(field.type, ArrayType) else field.type
        if isinstance(inner, StructType):
            yield from _our_fields(inner.definition, name, versions)


def _our_type(field_type: FieldType) -> str:
    """The type's name; structs are told by their fields."""
    match field_type:
        case ArrayType(element):
            return f"[]{_our_type(element)}"
        case Primitive(name):
            return name
        case StructType():
            return "struct"


def _our_default(field: Field) -> Any:
    return "empty" if isinstance(field.type, StructType) and field.default is not None else field.default


class _KafkaReader:
    """Reads the fields of one schema of Kafka's."""

    def __init__(self, shared: Mapping[str, list[dict[str, Any]]], within: frozenset[int]) -> None:
        self._shared = shared
        self._within = within

    def fields(
        self, fields: list[dict[str, Any]], path: str, within: frozenset[int]
    ) -> Iterator[tuple[str, FieldFacts]]:
        """Every field that some version has, a struct before what is in it."""
        for field in fields:
            versions = _range(field["versions"], within)
            if not versions:
                continue
            name = f"{path}.{field['name']}"
            element = field["type"].removeprefix("[]")
            inside = field.get("fields") or self._shared.get(element)
            kind = field["type"] if inside is None else field["type"].replace(element, "struct")
            yield (
                name,
                FieldFacts(
                    type=kind,
                    versions=versions,
                    nullable=_range(field.get("nullableVersions", "none"), versions),
                    default=_kafka_default(kind, field.get("default", "")),
                    tag=field.get("tag"),
                    tagged=_range(field.get("taggedVersions", "none"), versions),
                    ignorable=field.get("ignorable", False),
                ),
            )
            if inside is not None:
                yield from self.fields(inside, name, versions)


def _kafka_default(kind: str, text: Any) -> Any:
    """A default as a value: the text means something else for each type."""
    if text == "null":
        return None
    if kind.startswith("[]"):
        return ()
    match kind:
        case "bool":
            return str(text).lower() == "true"
        case "string":
            return text
        case "bytes" | "records":
            return b""
        case "uuid":
            return bytes(16)
        case "float64":
            return float(text or 0)
        case "struct":
            return "empty"
        case _ if kind in _NUMBERS:
            return int(str(text) or "0", 0)
    raise ValueError(f"Kafka has a type {kind} that nothing here knows")


def _range(text: str, within: range | frozenset[int]) -> frozenset[int]:
    if text == "none":
        return frozenset()
    match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    if match is None:
        raise ValueError(f"{text!r} is not a range of versions")
    low = int(match[1])
    high = max(within, default=-1) if match[2] else int(match[3] or low)
    return frozenset(range(low, high + 1)) & frozenset(within)


def _parsed(text: str) -> dict[str, Any]:
    """The JSON without the comments, which stand on lines of their own or behind a comma."""
    lines = (re.sub(r"(^|[,\s])//.*$", r"\1", line) for line in text.splitlines())
    parsed: dict[str, Any] = json.loads("\n".join(lines))
    return parsed
