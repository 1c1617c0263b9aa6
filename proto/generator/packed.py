"""Writes the msgpack codec: for every layout of every struct its wire type, and the functions to and
from it.

On this wire a struct is an array of its version's fields in schema order, with a map of tagged fields
at its end, in every version. Fields of type `records` are left out: the frame carries them.
"""

from collections.abc import Iterable

from generator.classes import kept_fields
from generator.layouts import Layouts, is_set
from generator.schema import ArrayType, Field, FieldType, Message, Primitive, StructDef, StructType
from generator.text import literal

_WIRE_TYPES = {
    "bool": "bool",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "uuid": "Uuid16",
}


class PackedWriter:
    """Writes the types and functions of one message."""

    def __init__(self, message: Message) -> None:
        self.kind = message.kind
        self._message = message
        self._layouts = Layouts(message, by_flexibility=False)

    def functions(self) -> Iterable[str]:
        """Every type and function, each after those it needs."""
        for struct in (*self._message.structs, self._message.root):
            for version in self._layouts.of(struct):
                yield self._wire_type(struct, version)
                yield from self._tag_decoders(struct, version)
                yield self._builder(struct, version)
                yield self._packer(struct, version)

    def rows(self) -> Iterable[str]:
        """The message's rows in the table from key and version to codec."""
        root = self._message.root
        for version in self._message.versions:
            build = self._layouts.function("build", root, version)
            pack = self._layouts.function("pack", root, version)
            wire = self._layouts.constant(root, version)
            yield f"({self._message.key}, {version}): VersionCodec({wire}, {build}, {pack}),"

    def _plain(self, struct: StructDef, version: int) -> list[Field]:
        kept = kept_fields(struct, records_inside=False)
        return [field for field in struct.plain(version) if field in kept]

    def _wire_type(self, struct: StructDef, version: int) -> str:
        fields = [
            self._type(field.type, version, nullable=version in field.nullable)
            for field in self._plain(struct, version)
        ]
        name = self._layouts.constant(struct, version)
        return f"{name}: TypeAlias = tuple[{', '.join([*fields, 'Tags'])}]"

    def _type(self, field_type: FieldType, version: int, *, nullable: bool) -> str:
        null = " | None" if nullable else ""
        match field_type:
            case Primitive(name):
                return _WIRE_TYPES[name] + null
            case StructType(definition):
                return self._layouts.constant(definition, version) + null
            case ArrayType(element):
                return f"Array[{self._type(element, version, nullable=False)}]" + null

    # From the wire

    def _tag_decoders(self, struct: StructDef, version: int) -> Iterable[str]:
        for field in struct.tagged(version):
            wire = self._type(field.type, version, nullable=version in field.nullable)
            yield f"{self._tag_decoder(struct, field, version)}: Decoder[{wire}] = Decoder({wire})"

    def _tag_decoder(self, struct: StructDef, field: Field, version: int) -> str:
        return f"{self._layouts.constant(struct, version)}_{field.attribute}"

    def _builder(self, struct: StructDef, version: int) -> str:
        name = self._layouts.function("build", struct, version)
        wire = self._layouts.constant(struct, version)
        plain, tagged = self._plain(struct, version), struct.tagged(version)
        lines = [f"def {name}(wire: {wire}) -> {struct.class_name}:"]
        targets = ", ".join([*(field.attribute for field in plain), "tags"])
        lines.append(f"    {targets}{'' if plain else ','} = wire")
        values = [f"{f.attribute}={self._built(f.type, version, f, f.attribute)}" for f in plain]
        if tagged:
            values += [f"{field.attribute}={self._from_tag(struct, field, version)}" for field in tagged]
        values.append("unknown_tags=kept(tags) if tags else ()")
        lines.append(f"    return {struct.class_name}({', '.join(values)})")
        return "\n".join(lines)

    def _from_tag(self, struct: StructDef, field: Field, version: int) -> str:
        decoded = f"{self._tag_decoder(struct, field, version)}.decode(tags.pop({field.tag}))"
        return (
            f"{self._built(field.type, version, field, decoded)} if {field.tag} in tags else {literal(field)}"
        )

    def _built(self, field_type: FieldType, version: int, field: Field, value: str) -> str:
        null = version in field.nullable
        match field_type:
            case ArrayType(StructType(definition)):
                build = self._layouts.function("build", definition, version)
                if null:
                    return f"build_array({build}, {value})"
                return f"tuple([{build}(element) for element in {value}])"
            case StructType(definition):
                build = self._layouts.function("build", definition, version)
                return f"build_struct({build}, {value})" if null else f"{build}({value})"
            case _:
                return value

    # To the wire

    def _packer(self, struct: StructDef, version: int) -> str:
        name = self._layouts.function("pack", struct, version)
        lines = [f"def {name}(value: {struct.class_name}) -> tuple[object, ...]:"]
        kept = kept_fields(struct, records_inside=False)
        for field in struct.absent(version):
            if field in kept and not field.ignorable:
                lines.append(f"    if {is_set(field, f'value.{field.attribute}')}:")
                lines.append(f'        raise lacking("{struct.class_name}", "{field.attribute}", {version})')
        for field in (*self._plain(struct, version), *struct.tagged(version)):
            lines += self._null_check(struct, field, version)
        values = [self._packed(f, version) for f in self._plain(struct, version)]
        tagged = struct.tagged(version)
        if tagged:
            lines.append("    tags: dict[int, object] = {}")
            for field in tagged:
                lines.append(f"    if {is_set(field, f'value.{field.attribute}')}:")
                lines.append(f"        tags[{field.tag}] = {self._packed(field, version)}")
            lines += ["    if value.unknown_tags:", "        tags |= raw_tags(value.unknown_tags)"]
            values.append("tags")
        else:
            values.append("raw_tags(value.unknown_tags) if value.unknown_tags else NO_TAGS")
        lines.append(f"    return ({', '.join(values)},)")
        return "\n".join(lines)

    def _null_check(self, struct: StructDef, field: Field, version: int) -> list[str]:
        if field.nullable.high < field.nullable.low or version in field.nullable:
            return []
        return [
            f"    if value.{field.attribute} is None:",
            f'        raise lacking("{struct.class_name}", "null for {field.attribute}", {version})',
        ]

    def _packed(self, field: Field, version: int) -> str:
        value = f"value.{field.attribute}"
        null = f"None if {value} is None else " if version in field.nullable else ""
        match field.type:
            case ArrayType(StructType(definition)):
                pack = self._layouts.function("pack", definition, version)
                return f"{null}[{pack}(element) for element in {value}]"
            case StructType(definition):
                return f"{null}{self._layouts.function('pack', definition, version)}({value})"
            case _:
                return value
