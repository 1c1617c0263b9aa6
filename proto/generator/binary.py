"""Writes the codec in Kafka's binary encoding: a reader, a writer and a JSON view for every layout of
every struct.
"""

import struct
from collections.abc import Container, Iterable

from generator.layouts import Layouts, is_set
from generator.schema import (
    ArrayType,
    Field,
    FieldType,
    Message,
    Primitive,
    StructDef,
    StructType,
    snake_case,
)
from generator.text import annotation, literal

_CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
_SIZES = {name: struct.calcsize(f">{code}") for name, code in _CODES.items()}
_NUMBERS = ("int8", "int16", "uint16", "int32", "uint32", "int64")
_WRITTEN_TOGETHER = {name: code for name, code in _CODES.items() if name != "uuid"}
"""What one pack checks and writes; it would silently cut or pad a UUID of the wrong length."""
_SIZED = ("string", "bytes", "records")


class BinaryWriter:
    """Writes the functions of one message."""

    def __init__(self, message: Message) -> None:
        self.kind = message.kind
        self.layouts: dict[str, str] = {}
        """Runs of fields of fixed size that the functions read or write at once, by constant."""
        self._message = message
        self._layouts = Layouts(message, by_flexibility=True)

    def functions(self) -> Iterable[str]:
        """Every function, each after those it calls."""
        for definition in (*self._message.structs, self._message.root):
            for version in self._layouts.of(definition):
                yield self._reader(definition, version)
                yield self._writer(definition, version)
                yield self._json(definition, version)

    def rows(self, verb: str) -> Iterable[str]:
        """The message's rows in the table from key and version to function."""
        root = self._message.root
        for version in self._message.versions:
            yield f"({self._message.key}, {version}): {self._layouts.function(verb, root, version)},"

    # Readers

    def _reader(self, struct: StructDef, version: int) -> str:
        name = self._layouts.function("read", struct, version)
        lines = [f"def {name}(data: bytes, at: int) -> tuple[{struct.class_name}, int]:"]
        plain, tagged = struct.plain(version), struct.tagged(version)
        for run in _runs(plain, _CODES):
            lines += self._read_run(run) if _is_fixed(run[0], _CODES) else self._read_one(run[0], version)
        values = [f"{field.attribute}={field.attribute}" for field in (*plain, *tagged)]
        if version in self._message.flexible:
            lines.append("    tags, at = read_tags(data, at) if data[at] else ((), at + 1)")
            lines += self._tag_readers(tagged, version)
            values.append(
                f"unknown_tags={'tuple(unknown)' if tagged else 'unread(data, tags) if tags else ()'}"
            )
        lines.append(f"    return {struct.class_name}({', '.join(values)}), at")
        return "\n".join(lines)

    def _read_run(self, run: list[Field]) -> list[str]:
        targets = ", ".join(field.attribute for field in run) + ("," if len(run) == 1 else "")
        size = sum(_SIZES[_type_name(field)] for field in run)
        return [f"    {targets} = {self._layout(run)}.unpack_from(data, at)", f"    at += {size}"]

    def _read_one(self, field: Field, version: int) -> list[str]:
        nullable = version in field.nullable
        name = field.attribute
        careful = f"{name}, at = {self._read(field.type, version, 'at', nullable=nullable)}"
        if field.type != Primitive("string") or version not in self._message.flexible:
            return [f"    {careful}"]
        return [
            "    claim = data[at]",
            "    if 0 < claim < 0x80:",
            f"        {name}{': str | None' if nullable else ''} = data[at + 1 : at + claim].decode()",
            "        at += claim",
            "    else:",
            f"        {careful}",
        ]

    def _layout(self, run: list[Field]) -> str:
        name = "_" + "_".join(_type_name(field).upper() for field in run)
        self.layouts[name] = ">" + "".join(_CODES[_type_name(field)] for field in run)
        return name

    def _tag_readers(self, tagged: list[Field], version: int) -> list[str]:
        if not tagged:
            return []
        lines = [f"    {field.attribute}: {annotation(field)} = {literal(field)}" for field in tagged]
        lines += ["    unknown: list[tuple[int, bytes]] = []", "    for tag, start, end in tags:"]
        word = "if"
        for field in tagged:
            nullable = version in field.nullable
            lines.append(f"        {word} tag == {field.tag}:")
            read = self._read(field.type, version, "start", nullable=nullable)
            lines.append(f"            {field.attribute}, stop = {read}")
            lines.append("            end_of_tag(tag, stop, end)")
            word = "elif"
        return [*lines, "        else:", "            unknown.append((tag, data[start:end]))"]

    def _read(self, field_type: FieldType, version: int, at: str, *, nullable: bool) -> str:
        compact = "compact_" if version in self._message.flexible else ""
        null = "nullable_" if nullable else ""
        match field_type:
            case Primitive(name) if name in _SIZED:
                kind = "bytes" if name == "records" else name
                return f"read_{compact}{null}{kind}(data, {at})"
            case Primitive(name):
                return f"read_{name}(data, {at})"
            case StructType(definition):
                reader = self._layouts.function("read", definition, version)
                return f"read_nullable_struct(data, {at}, {reader})" if nullable else f"{reader}(data, {at})"
            case ArrayType(Primitive(name)) if name in _NUMBERS:
                return f'read_{compact}{null}numbers(data, {at}, "{_CODES[name]}", {_SIZES[name]})'
            case ArrayType(element):
                reader = self._element("read", element, version)
                return f"read_{compact}{null}array(data, {at}, {reader}, {self._smallest(element, version)})"

    def _element(self, verb: str, element: Primitive | StructType, version: int) -> str:
        if isinstance(element, StructType):
            return self._layouts.function(verb, element.definition, version)
        compact = "compact_" if version in self._message.flexible and element.name in _SIZED else ""
        return f"{verb}_{compact}{element.name}"

    def _smallest(self, field_type: FieldType, version: int) -> int:
        flexible = version in self._message.flexible
        match field_type:
            case Primitive("string"):
                return 1 if flexible else 2
            case Primitive(name):
                return _SIZES.get(name, 1 if flexible else 4)
            case ArrayType():
                return 1 if flexible else 4
            case StructType(definition):
                fields = definition.plain(version)
                inside = sum(
                    1
                    if version in f.nullable and isinstance(f.type, StructType)
                    else self._smallest(f.type, version)
                    for f in fields
                )
                return max(inside + flexible, 1)

    # Writers

    def _writer(self, struct: StructDef, version: int) -> str:
        name = self._layouts.function("write", struct, version)
        lines = [f"def {name}(out: Chunks, value: {struct.class_name}) -> None:"]
        flexible = version in self._message.flexible
        for field in struct.absent(version):
            if not field.ignorable:
                lines.append(f"    if {is_set(field, f'value.{field.attribute}')}:")
                lines.append(f'        raise lacking("{struct.class_name}", "{field.attribute}", {version})')
        for run in _runs(struct.plain(version), _WRITTEN_TOGETHER):
            if _is_fixed(run[0], _WRITTEN_TOGETHER):
                values = ", ".join(f"value.{field.attribute}" for field in run)
                lines.append(f"    out.append({self._layout(run)}.pack({values}))")
                continue
            lines += self._null_check(struct, run[0], version)
            lines += self._write_one(run[0], version)
        if flexible:
            lines += self._tag_writers(struct, version)
        elif len(lines) == 1:
            lines.append("    pass")
        if not flexible:
            lines += [
                "    if value.unknown_tags:",
                f'        raise lacking("{struct.class_name}", "tags", {version})',
            ]
        return "\n".join(lines)

    def _write_one(self, field: Field, version: int) -> list[str]:
        value = f"value.{field.attribute}"
        careful = self._write(field, field.type, version, value, "out", "    ")
        if field.type != Primitive("string") or version not in self._message.flexible:
            return careful
        short = [
            "    if len(raw) < 0x7F:",
            "        out.append(SHORT_LENGTHS[len(raw)])",
            "        out.append(raw)",
            "    else:",
        ]
        lines = [f"    raw = {value}.encode()", *short, *("    " + line for line in careful)]
        if version not in field.nullable:
            return lines
        return [
            f"    if {value} is None:",
            "        out.append(ZERO)",
            "    else:",
            *("    " + line for line in lines),
        ]

    def _null_check(self, struct: StructDef, field: Field, version: int) -> list[str]:
        if field.nullable.high < field.nullable.low or version in field.nullable:
            return []
        return [
            f"    if value.{field.attribute} is None:",
            f'        raise lacking("{struct.class_name}", "null for {field.attribute}", {version})',
        ]

    def _tag_writers(self, struct: StructDef, version: int) -> list[str]:
        tagged = struct.tagged(version)
        if not tagged:
            return [
                "    if value.unknown_tags:",
                "        write_tags(out, (), value.unknown_tags)",
                "    else:",
                "        out.append(ZERO)",
            ]
        lines = ["    tags: list[tuple[int, bytes]] = []"]
        for field in tagged:
            value = f"value.{field.attribute}"
            lines += [f"    if {is_set(field, value)}:"]
            lines += ["    " + line for line in self._null_check(struct, field, version)]
            lines += [
                f"        tag{': Chunks' if field is tagged[0] else ''} = []",
                *self._write(field, field.type, version, value, "tag", " " * 8),
            ]
            lines += [f'        tags.append(({field.tag}, b"".join(tag)))']
        return [*lines, "    write_tags(out, tags, value.unknown_tags)"]

    def _write(
        self, field: Field, field_type: FieldType, version: int, value: str, out: str, pad: str
    ) -> list[str]:
        compact = "compact_" if version in self._message.flexible else ""
        match field_type:
            case Primitive(name) if name in _SIZED:
                kind = "bytes" if name == "records" else name
                return [f"{pad}write_{compact}{kind}({out}, {value})"]
            case Primitive(name):
                return [f"{pad}write_{name}({out}, {value})"]
            case StructType(definition):
                writer = self._layouts.function("write", definition, version)
                if version not in field.nullable:
                    return [f"{pad}{writer}({out}, {value})"]
                return [
                    f"{pad}write_int8({out}, -1 if {value} is None else 1)",
                    f"{pad}if {value} is not None:",
                    f"{pad}    {writer}({out}, {value})",
                ]
            case ArrayType(element):
                writer = self._element("write", element, version)
                source = f"{value} or ()" if version in field.nullable else value
                return [
                    f"{pad}write_{compact}count({out}, {value})",
                    f"{pad}for {snake_case(field.name)}_element in {source}:",
                    f"{pad}    {writer}({out}, {snake_case(field.name)}_element)",
                ]

    # JSON

    def _json(self, struct: StructDef, version: int) -> str:
        name = self._layouts.function("json", struct, version)
        lines = [f"def {name}(value: {struct.class_name}) -> dict[str, object]:"]
        plain, tagged = struct.plain(version), struct.tagged(version)
        if not plain and not tagged:
            return "\n".join(
                [f"def {name}(_value: {struct.class_name}) -> dict[str, object]:", "    return {}"]
            )
        entries = [
            f'"{_camel(field.name)}": {self._json_value(field, version, f"value.{field.attribute}")}'
            for field in plain
        ]
        if not tagged:
            return "\n".join([*lines, f"    return {{{', '.join(entries)}}}"])
        lines.append(f"    out: dict[str, object] = {{{', '.join(entries)}}}")
        for field in tagged:
            value = f"value.{field.attribute}"
            lines.append(f"    if {is_set(field, value)}:")
            lines.append(f'        out["{_camel(field.name)}"] = {self._json_value(field, version, value)}')
        return "\n".join([*lines, "    return out"])

    def _json_value(self, field: Field, version: int, value: str) -> str:
        text = self._json_of(field.type, version, value)
        is_left_out_when_null = field.tag is not None and field.default is None
        if version not in field.nullable or is_left_out_when_null or text == value:
            return text
        return f"None if {value} is None else {text}"

    def _json_of(self, field_type: FieldType, version: int, value: str) -> str:
        match field_type:
            case Primitive("uuid"):
                return f"uuid_text({value})"
            case Primitive("bytes" | "records"):
                return f"base64_text({value})"
            case Primitive("float64"):
                return f"float_or_text({value})"
            case Primitive():
                return value
            case StructType(definition):
                return f"{self._layouts.function('json', definition, version)}({value})"
            case ArrayType(element):
                inner = self._json_of(element, version, "element")
                return f"list({value})" if inner == "element" else f"[{inner} for element in {value}]"


def _runs(fields: list[Field], fixed: Container[str]) -> list[list[Field]]:
    """Fields in order, neighbours of fixed size together."""
    runs: list[list[Field]] = []
    for field in fields:
        if _is_fixed(field, fixed) and runs and _is_fixed(runs[-1][-1], fixed):
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs


def _is_fixed(field: Field, fixed: Container[str]) -> bool:
    return isinstance(field.type, Primitive) and field.type.name in fixed


def _type_name(field: Field) -> str:
    return field.type.name if isinstance(field.type, Primitive) else ""


def _camel(name: str) -> str:
    return name[0].lower() + name[1:]
