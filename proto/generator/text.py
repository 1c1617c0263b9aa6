"""What both codecs and the classes need to write Python."""

import textwrap
from typing import Any

from generator.schema import ArrayType, Field, FieldType, Primitive, StructType, Versions

WIDTH = 108

_PYTHON = {
    "bool": "bool",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
    "uuid": "Uuid",
    "float64": "float",
}


def python_type(field_type: FieldType) -> str:
    """The annotation of a value that is not null."""
    match field_type:
        case ArrayType(element):
            return f"tuple[{python_type(element)}, ...]"
        case StructType(definition):
            return definition.class_name
        case Primitive(name):
            return _PYTHON.get(name, "int")


def annotation(field: Field) -> str:
    """The annotation of a field, over all its versions."""
    return python_type(field.type) + (" | None" if field.nullable.low <= field.nullable.high else "")


def schema_type(field_type: FieldType) -> str:
    """The type as the schema writes it, for a docstring."""
    match field_type:
        case ArrayType(element):
            return f"[]{schema_type(element)}"
        case StructType(definition):
            return definition.class_name
        case Primitive(name):
            return name


def literal(field: Field) -> str:
    """The field's default, as an expression."""
    return literal_of(field.type, field.default)


def literal_of(field_type: FieldType, value: Any) -> str:
    """A default of a type, as an expression."""
    match field_type:
        case _ if value is None:
            return "None"
        case StructType(definition):
            return f"{definition.class_name}()"
        case Primitive("uuid"):
            return "ZERO_UUID"
        case Primitive("string"):
            return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
        case Primitive("float64"):
            return repr(float(value))
        case _:
            return repr(value)


def version_note(versions: Versions, whole: Versions) -> str:
    """When a field exists, in words; empty if always."""
    if versions == whole:
        return ""
    if versions.high == whole.high:
        return f", since version {versions.low}"
    if versions.low == versions.high:
        return f", only in version {versions.low}"
    return f", versions {versions.low} to {versions.high}"


def docstring(text: str, *, indent: int) -> str:
    """A docstring of one or several lines."""
    pad = " " * indent
    lines = textwrap.wrap(text, WIDTH - indent - 6) or [""]
    if len(lines) == 1:
        return f'{pad}"""{lines[0]}"""'
    rest = "\n".join(pad + line for line in textwrap.wrap(" ".join(lines[1:]), WIDTH - indent))
    return f'{pad}"""{lines[0]}\n{rest}\n{pad}"""'
