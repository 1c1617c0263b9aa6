"""Records at random, from the schemas: values at the edges of their types, nulls, unknown tags, all from
one seed.

Used to ask Kafka how it reads what we write; `strategies` are their kin for questions that need no Kafka.
"""

from random import Random
from typing import Any

from generator.schema import ArrayType, Field, FieldType, Message, Primitive, StructDef, StructType

from kraftd.records import messages

_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_UNSIGNED_BITS = {"uint16": 16, "uint32": 32}
_TEXTS = ("", "a", "x" * 126, "y" * 127, "é\u2028ß\x00\n", "\U0001f600" * 40, 'a "quoted" \\ one', "z" * 3000)
_DOUBLES = (0.0, -0.0, 1.5, 1e300, 5e-324, 0.1, float("inf"), float("-inf"), float("nan"), 123456789.0)


def random_record(random: Random, message: Message, version: int) -> Any:
    """A record as one of its versions can say it."""
    return _struct(random, message.root, version)


def _struct(random: Random, struct: StructDef, version: int) -> Any:
    values = {
        field.attribute: _value(random, field, version)
        for field in struct.fields
        if version in field.versions and random.random() < 0.8
    }
    if random.random() < 0.2:
        tags = sorted(random.sample(range(100, 300), 2))
        values["unknown_tags"] = tuple((tag, random.randbytes(random.randrange(4))) for tag in tags)
    return getattr(messages, struct.class_name)(**values)


def _value(random: Random, field: Field, version: int) -> Any:
    if version in field.nullable and random.random() < 0.3:
        return None
    return _of_type(random, field.type, version)


def _of_type(random: Random, field_type: FieldType, version: int) -> Any:
    match field_type:
        case ArrayType(element):
            return tuple(_of_type(random, element, version) for _ in range(random.choice((0, 1, 2, 200))))
        case StructType(definition):
            return _struct(random, definition, version)
        case Primitive("bool"):
            return random.random() < 0.5
        case Primitive("string"):
            return random.choice(_TEXTS)
        case Primitive("bytes" | "records"):
            return random.randbytes(random.choice((0, 1, 16, 300)))
        case Primitive("uuid"):
            return random.choice((bytes(16), random.randbytes(16)))
        case Primitive("float64"):
            return random.choice((*_DOUBLES, random.uniform(-1e9, 1e9)))
        case Primitive(name) if name in _BITS:
            top = 1 << _BITS[name]
            return random.choice((0, 1, -1, -2, top - 1, -top, random.randrange(-top, top)))
        case Primitive(name):
            return random.choice((0, 1, (1 << _UNSIGNED_BITS[name]) - 1))
