"""Which versions of a struct have the same layout on the wire, so that each layout is written once."""

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
from generator.text import python_type


class Layouts:
    """The layouts of one message's structs, in one encoding.

    A layout is named by the lowest version that has it: `v0` serves versions 0 to 2 if they do not differ.
    """

    def __init__(self, message: Message, *, by_flexibility: bool) -> None:
        self.message = message
        self._by_flexibility = by_flexibility

    def of(self, struct: StructDef) -> list[int]:
        """Every layout of a struct that some version uses, by the version that names it."""
        return sorted({self.name(struct, version) for version in self._versions_with(struct)})

    def name(self, struct: StructDef, version: int) -> int:
        """The layout of a struct in a version."""
        wanted = self._key(struct, version)
        return next(v for v in self._versions_with(struct) if self._key(struct, v) == wanted)

    def function(self, verb: str, struct: StructDef, version: int) -> str:
        """The name of the function that does something with that layout."""
        return f"_{verb}_{snake_case(struct.class_name)}_v{self.name(struct, version)}"

    def constant(self, struct: StructDef, version: int) -> str:
        """The name of the wire type of that layout."""
        return f"_{struct.class_name}V{self.name(struct, version)}"

    def element(self, field_type: FieldType) -> StructDef | None:
        """The struct that a type is made of, if it is."""
        match field_type:
            case StructType(definition) | ArrayType(StructType(definition)):
                return definition
            case _:
                return None

    def _versions_with(self, struct: StructDef) -> list[int]:
        if struct == self.message.root:
            return list(self.message.versions)
        holders = (*self.message.structs, self.message.root)
        found = {
            version
            for holder in holders
            for field in holder.fields
            if self.element(field.type) == struct
            for version in self._versions_with(holder)
            if version in field.versions
        }
        return sorted(found)

    def _key(self, struct: StructDef, version: int) -> tuple[object, ...]:
        flexible = self._by_flexibility and version in self.message.flexible
        fields = (*struct.plain(version), *struct.tagged(version))
        return (flexible, *(self._field_key(field, version) for field in fields))

    def _field_key(self, field: Field, version: int) -> tuple[object, ...]:
        inner = self.element(field.type)
        return (
            field.attribute,
            python_type(field.type),
            version in field.nullable,
            self._key(inner, version) if inner else None,
        )


def is_unset(field: Field, value: str) -> str:
    """An expression: whether a value is the field's default."""
    match field.type:
        case _ if field.default is None:
            return f"{value} is None"
        case ArrayType():
            return f"{value} == ()"
        case Primitive("bool"):
            return f"not {value}" if field.default is False else value
        case Primitive("uuid"):
            return f"{value} == ZERO_UUID"
        case StructType(definition):
            return f"{value} == {_default_name(definition)}"
        case _:
            return f"{value} == {field.default!r}" if field.default != "" else f'{value} == ""'


def default_constants(message: Message, text: str) -> str:
    """The structs without content that an `is_set` in the text compares with, each made once."""
    return "\n".join(
        f"{_default_name(struct)} = {struct.class_name}()"
        for struct in message.structs
        if f"{_default_name(struct)}:" in text
    )


def _default_name(struct: StructDef) -> str:
    return f"_DEFAULT_{snake_case(struct.class_name).upper()}"


def is_set(field: Field, value: str) -> str:
    """An expression: whether a value differs from the field's default."""
    unset = is_unset(field, value)
    if unset.startswith("not "):
        return unset.removeprefix("not ")
    if " is None" in unset:
        return unset.replace(" is None", " is not None")
    return unset.replace(" == ", " != ") if " == " in unset else f"not {unset}"
