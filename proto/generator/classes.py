"""Writes the public classes: one a message or struct, holding the fields of all its versions."""

from collections.abc import Iterable

from generator.schema import Field, Message, Schema, StructDef
from generator.text import annotation, docstring, literal, schema_type, version_note


def class_texts(schema: Schema) -> Iterable[str]:
    """The classes of a schema, each after those it refers to."""
    for message in schema.messages:
        for struct in message.structs:
            yield _class_text(message, struct, None)
        intro = f"{schema.meaning} " if message.kind == "request" else ""
        yield _class_text(message, message.root, intro)


def _class_text(message: Message, struct: StructDef, intro: str | None) -> str:
    lines = [f"class {struct.class_name}(Struct, frozen=True, gc=False):"]
    lines.append(docstring((intro or "") + struct.meaning, indent=4))
    lines.append("")
    if intro is not None:
        key = "CONTROL_TYPE" if message.kind == "control" else "API_KEY"
        lines += [
            f"    {key}: ClassVar[int] = {message.key}",
            f'    NAME: ClassVar[str] = "{message.name}"',
            f"    MIN_VERSION: ClassVar[int] = {message.versions.low}",
            f"    MAX_VERSION: ClassVar[int] = {message.versions.high}",
            "",
        ]
    for field in struct.fields:
        lines += _field_lines(message, field)
    lines += ["    unknown_tags: UnknownTags = ()", ""]
    if secrets := ", ".join(f'"{field.attribute}"' for field in struct.fields if field.is_secret):
        lines += ["    def __repr__(self) -> str:", f"        return shown_without(self, {secrets})", ""]
    return "\n".join(lines)


def _field_lines(message: Message, field: Field) -> list[str]:
    note = version_note(field.versions, message.versions)
    tag = f", tag {field.tag}" if field.tag is not None else ""
    text = f"{field.meaning} ({schema_type(field.type)}{tag}{note})"
    return [
        f"    {field.attribute}: {annotation(field)} = {literal(field)}",
        docstring(text, indent=4),
    ]
