"""Records, requests and responses at random, from the schemas: values at the edges of their types, nulls,
unknown tags, all from one seed.

Used to ask Kafka how it reads what we write; `strategies` are their kin for questions that need no Kafka.
"""

import math
from collections.abc import Sequence
from random import Random
from types import ModuleType
from typing import Any

from generator.schema import ArrayType, Field, FieldType, Message, Primitive, StructDef, StructType

from kraftd.protocol import messages as rpc_messages
from kraftd.records import messages as record_messages

_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_UNSIGNED_BITS = {"uint16": 16, "uint32": 32}
_TEXTS = ("", "a", "x" * 126, "y" * 127, "é\u2028ß\x00\n", "\U0001f600" * 40, 'a "quoted" \\ one', "z" * 3000)
_DOUBLES = (0.0, -0.0, 1.5, 1e300, 5e-324, 0.1, float("inf"), float("-inf"), float("nan"), 123456789.0)

MANY = 200
"""Elements of a long array: their count takes two bytes in a flexible version."""


def random_record(random: Random, message: Message, version: int) -> Any:
    """A record as one of its versions can say it."""
    return _Drawn(random, record_messages, version, _DOUBLES, has_tags=True, inner_structs=MANY).struct(
        message.root, MANY
    )


def random_rpc(random: Random, message: Message, version: int, *, has_unknown_tags: bool) -> Any:
    """A request or response as one of its versions can say it. Only its outermost array of structs may be
    long, and doubles are finite: JSON has no others.
    """
    finite = [number for number in _DOUBLES if math.isfinite(number)]
    has_tags = has_unknown_tags and version in message.flexible
    drawn = _Drawn(random, rpc_messages, version, finite, has_tags=has_tags, inner_structs=2)
    return drawn.struct(message.root, MANY if random.random() < 0.1 else 2)


class _Drawn:
    """Values of one version, from one source of chance."""

    def __init__(
        self,
        random: Random,
        classes: ModuleType,
        version: int,
        doubles: Sequence[float],
        *,
        has_tags: bool,
        inner_structs: int,
    ) -> None:
        self._random = random
        self._classes = classes
        self._version = version
        self._doubles = doubles
        self._has_tags = has_tags
        self._inner_structs = inner_structs

    def struct(self, struct: StructDef, many: int) -> Any:
        """A struct whose own arrays of structs have up to so many elements."""
        random = self._random
        values = {
            field.attribute: self._value(field, many)
            for field in struct.fields
            if self._version in field.versions and random.random() < 0.8
        }
        if self._has_tags and random.random() < 0.2:
            tags = sorted(random.sample(range(100, 300), 2))
            values["unknown_tags"] = tuple((tag, random.randbytes(random.randrange(1, 4))) for tag in tags)
        return getattr(self._classes, struct.class_name)(**values)

    def _value(self, field: Field, many: int) -> Any:
        if self._version in field.nullable and self._random.random() < 0.3:
            return None
        return self._of_type(field.type, many)

    def _of_type(self, field_type: FieldType, many: int = 0) -> Any:
        random = self._random
        match field_type:
            case ArrayType(element):
                longest = many if isinstance(element, StructType) else MANY
                return tuple(self._of_type(element) for _ in range(random.choice((0, 1, 2, longest))))
            case StructType(definition):
                return self.struct(definition, self._inner_structs)
            case Primitive("bool"):
                return random.random() < 0.5
            case Primitive("string"):
                return random.choice(_TEXTS)
            case Primitive("bytes" | "records"):
                return random.randbytes(random.choice((0, 1, 16, 300)))
            case Primitive("uuid"):
                return random.choice((bytes(16), random.randbytes(16)))
            case Primitive("float64"):
                return random.choice((*self._doubles, random.uniform(-1e9, 1e9)))
            case Primitive(name) if name in _BITS:
                top = 1 << _BITS[name]
                return random.choice((0, 1, -1, -2, top - 1, -top, random.randrange(-top, top)))
            case Primitive(name):
                return random.choice((0, 1, (1 << _UNSIGNED_BITS[name]) - 1))
