"""Kafka's binary encoding of single values: what the generated codecs are made of.

A `read_x` takes a buffer and a position and gives the value and the position after it. It raises
`MalformedError` on bytes that Kafka's reader would refuse, and checks every claimed length against the
bytes that are left before it believes it. A `write_x` appends to a list of chunks and raises
`UnencodableError` on a value that does not fit.

The generated codecs read short strings and runs of numbers in place, which is most of their speed, and
so may raise any of `READ_ERRORS` and `WRITE_ERRORS`. A string that is cut short there is found out by
the byte that must follow: in a flexible version every struct ends with its tags.

Only what the schemas of `proto/` need is here, those of RPCs among them, which Kafka's clients will speak in
this encoding (`tests/unit/protocol/test_generator.py` writes and uses their codecs). A schema that needs
another primitive generates a module that cannot be imported until the primitive is written.

"Compact" values carry their length plus one as a varint, 0 being null; they belong to flexible
versions. Differs from Kafka: invalid UTF-8, tags out of order and a tagged field that leaves bytes over
are refused.
"""

import binascii
import math
import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from kraftd.errors import MalformedError, UnencodableError
from kraftd.serde.generated import Records
from kraftd.serde.metered import NUMBERS_AN_ELEMENT, MeteredBytes
from kraftd.serde.varint import encode_uvarint, read_uvarint

T = TypeVar("T")
Reader: TypeAlias = Callable[[bytes, int], tuple[T, int]]

READ_ERRORS = (MalformedError, IndexError, struct.error, UnicodeDecodeError)
"""What a generated reader raises on bytes that do not follow the schema."""

WRITE_ERRORS = (UnencodableError, struct.error, UnicodeEncodeError)
"""What a generated writer raises on a value that does not fit the schema."""

Chunks: TypeAlias = list[bytes | bytearray | memoryview]
"""What writers append to; the caller joins it."""

ZERO = b"\0"
"""Null in front of a compact value, or an empty section of tagged fields."""

LENGTHS = tuple(bytes((number,)) for number in range(0x80))
"""Varints of one byte, by their number."""

SHORT_LENGTHS = LENGTHS[1:]
"""What stands before a compact string of fewer than 127 bytes, by its size."""

FEW_ELEMENTS = 1024
ELEMENT_BYTES = 4
"""More elements than a few take this many bytes each on average, which all do that say something: an element
of two bytes is decoded in as much time as one of twenty."""

STRING_BYTES_MAX = 0x7FFF
"""Kafka's limit for a string, in either encoding."""

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


def _fixed_reader(layout: struct.Struct, what: str) -> Reader[int]:
    unpack, size = layout.unpack_from, layout.size

    def read(data: bytes, position: int) -> tuple[int, int]:
        try:
            return unpack(data, position)[0], position + size
        except struct.error:
            raise MalformedError(f"byte {position}: the bytes end inside an {what}") from None

    return read


read_int8 = _fixed_reader(_INT8, "int8")
read_int16 = _fixed_reader(_INT16, "int16")
read_int32 = _fixed_reader(_INT32, "int32")
read_int64 = _fixed_reader(_INT64, "int64")


def read_bool(data: bytes, position: int) -> tuple[bool, int]:
    """Read a byte; anything but 0 is true, as in Kafka."""
    value, position = read_int8(data, position)
    return value != 0, position


def read_uuid(data: bytes, position: int) -> tuple[bytes, int]:
    """Read 16 raw bytes."""
    return _take(data, position, 16, "uuid"), position + 16


def read_compact_string(data: bytes, position: int) -> tuple[str, int]:
    """Read a string of a flexible version; what is wrong with a short one is told by the careful way."""
    try:
        claim = data[position]
        if 0 < claim < 0x80:
            text = data[position + 1 : position + claim]
            if len(text) == claim - 1:
                return text.decode(), position + claim
    except (IndexError, UnicodeDecodeError):
        pass
    claim, start = read_uvarint(data, position)
    if claim == 0:
        raise MalformedError(f"byte {position}: null where a string must be")
    return _text(data, start, claim - 1), start + claim - 1


def read_compact_nullable_string(data: bytes, position: int) -> tuple[str | None, int]:
    """Read a string or null of a flexible version."""
    claim, start = read_uvarint(data, position)
    if claim == 0:
        return None, start
    return _text(data, start, claim - 1), start + claim - 1


def read_string(data: bytes, position: int) -> tuple[str, int]:
    """Read a string of a version that is not flexible."""
    value, end = read_nullable_string(data, position)
    if value is None:
        raise MalformedError(f"byte {position}: null where a string must be")
    return value, end


def read_nullable_string(data: bytes, position: int) -> tuple[str | None, int]:
    """Read a string or null of a version that is not flexible."""
    size, start = read_int16(data, position)
    if size < 0:
        return None, start
    return _text(data, start, size), start + size


def read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """Read bytes of a version that is not flexible."""
    size, start = read_int32(data, position)
    if size < 0:
        raise MalformedError(f"byte {position}: null where bytes must be")
    return _take(data, start, size, "bytes"), start + size


def read_compact_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """Read bytes of a flexible version."""
    value, end = read_compact_nullable_bytes(data, position)
    if value is None:
        raise MalformedError(f"byte {position}: null where bytes must be")
    return value, end


def read_compact_nullable_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    """Read bytes or null of a flexible version."""
    claim, start = read_uvarint(data, position)
    if claim == 0:
        return None, start
    return _take(data, start, claim - 1, "bytes"), start + claim - 1


def read_compact_records(data: bytes, position: int) -> tuple[memoryview, int]:
    """Read records of a flexible version, as a view."""
    value, end = read_compact_nullable_records(data, position)
    if value is None:
        raise MalformedError(f"byte {position}: null where records must be")
    return value, end


def read_compact_nullable_records(data: bytes, position: int) -> tuple[memoryview | None, int]:
    """Read records or null of a flexible version, as a view."""
    claim, start = read_uvarint(data, position)
    return (None, start) if claim == 0 else (_view(data, start, claim - 1), start + claim - 1)


def read_nullable_records(data: bytes, position: int) -> tuple[memoryview | None, int]:
    """Read records or null of a version that is not flexible, as a view."""
    size, start = read_int32(data, position)
    return (None, start) if size < 0 else (_view(data, start, size), start + size)


def read_compact_array(
    data: bytes, position: int, element: Reader[T], smallest_bytes: int
) -> tuple[tuple[T, ...], int]:
    """Read an array of a flexible version, whose elements take at least `smallest_bytes` each."""
    claim, start = read_uvarint(data, position)
    if claim == 1:
        return (), start
    if claim == 0:
        raise MalformedError(f"byte {position}: null where an array must be")
    return _elements(data, start, claim - 1, element, smallest_bytes)


def read_compact_nullable_array(
    data: bytes, position: int, element: Reader[T], smallest_bytes: int
) -> tuple[tuple[T, ...] | None, int]:
    """Read an array or null of a flexible version."""
    claim, start = read_uvarint(data, position)
    if claim <= 1:
        return (() if claim else None), start
    return _elements(data, start, claim - 1, element, smallest_bytes)


def read_array(
    data: bytes, position: int, element: Reader[T], smallest_bytes: int
) -> tuple[tuple[T, ...], int]:
    """Read an array of a version that is not flexible."""
    value, end = read_nullable_array(data, position, element, smallest_bytes)
    if value is None:
        raise MalformedError(f"byte {position}: null where an array must be")
    return value, end


def read_nullable_array(
    data: bytes, position: int, element: Reader[T], smallest_bytes: int
) -> tuple[tuple[T, ...] | None, int]:
    """Read an array or null of a version that is not flexible."""
    count, start = read_int32(data, position)
    if count < 0:
        return None, start
    return _elements(data, start, count, element, smallest_bytes)


def read_compact_numbers(data: bytes, position: int, code: str, size: int) -> tuple[tuple[int, ...], int]:
    """Read an array of numbers of a flexible version, given their `struct` code and size."""
    claim, start = read_uvarint(data, position)
    if claim == 1:
        return (), start
    if claim == 0:
        raise MalformedError(f"byte {position}: null where an array must be")
    return _numbers(data, start, claim - 1, code, size)


def read_compact_nullable_numbers(
    data: bytes, position: int, code: str, size: int
) -> tuple[tuple[int, ...] | None, int]:
    """Read an array of numbers or null of a flexible version."""
    claim, start = read_uvarint(data, position)
    if claim == 0:
        return None, start
    return _numbers(data, start, claim - 1, code, size)


def read_numbers(data: bytes, position: int, code: str, size: int) -> tuple[tuple[int, ...], int]:
    """Read an array of numbers of a version that is not flexible."""
    value, end = read_nullable_numbers(data, position, code, size)
    if value is None:
        raise MalformedError(f"byte {position}: null where an array must be")
    return value, end


def read_nullable_numbers(
    data: bytes, position: int, code: str, size: int
) -> tuple[tuple[int, ...] | None, int]:
    """Read an array of numbers or null of a version that is not flexible."""
    count, start = read_int32(data, position)
    if count < 0:
        return None, start
    return _numbers(data, start, count, code, size)


def read_nullable_struct(data: bytes, position: int, element: Reader[T]) -> tuple[T | None, int]:
    """Read a struct behind its presence byte. What the generator writes for a nullable struct calls it; no
    schema in `proto/` that is spoken on Kafka's wire has one now.
    """
    present, start = read_int8(data, position)
    return (None, start) if present < 0 else element(data, start)


def write_int8(out: Chunks, value: int) -> None:
    """Append an int8."""
    _write_fixed(out, _INT8, value)


def write_int16(out: Chunks, value: int) -> None:
    """Append an int16."""
    _write_fixed(out, _INT16, value)


def write_int32(out: Chunks, value: int) -> None:
    """Append an int32."""
    _write_fixed(out, _INT32, value)


def write_int64(out: Chunks, value: int) -> None:
    """Append an int64."""
    _write_fixed(out, _INT64, value)


def write_bool(out: Chunks, value: bool) -> None:  # noqa: FBT001 - a value
    """Append 0 or 1."""
    out.append(b"\1" if value else ZERO)


def write_uuid(out: Chunks, value: bytes) -> None:
    """Append 16 raw bytes."""
    if len(value) != 16:
        raise UnencodableError(f"a UUID has 16 bytes, not {len(value)}")
    out.append(value)


def write_compact_string(out: Chunks, value: str | None) -> None:
    """Append a string or null in a flexible version."""
    if value is None:
        out.append(ZERO)
        return
    raw = _raw_text(value)
    out.append(encode_uvarint(len(raw) + 1))
    out.append(raw)


def write_string(out: Chunks, value: str | None) -> None:
    """Append a string or null in a version that is not flexible."""
    if value is None:
        write_int16(out, -1)
        return
    raw = _raw_text(value)
    write_int16(out, len(raw))
    out.append(raw)


def write_bytes(out: Chunks, value: bytes) -> None:
    """Append bytes in a version that is not flexible."""
    write_int32(out, len(value))
    out.append(value)


def write_compact_bytes(out: Chunks, value: bytes | None) -> None:
    """Append bytes or null in a flexible version."""
    if value is None:
        out.append(ZERO)
        return
    out.append(encode_uvarint(len(value) + 1))
    out.append(value)


def write_compact_records(out: Chunks, value: Records | None) -> None:
    """Append records or null in a flexible version."""
    buffers = value if isinstance(value, tuple) else () if value is None else (value,)
    out.append(ZERO if value is None else encode_uvarint(sum(map(len, buffers)) + 1))
    out += buffers


def write_records(out: Chunks, value: Records | None) -> None:
    """Append records or null in a version that is not flexible."""
    buffers = value if isinstance(value, tuple) else () if value is None else (value,)
    write_int32(out, -1 if value is None else sum(map(len, buffers)))
    out += buffers


def write_compact_count(out: Chunks, elements: Sequence[object] | None) -> None:
    """Append how many elements follow, or null, in a flexible version."""
    size = 0 if elements is None else len(elements) + 1
    out.append(LENGTHS[size] if size < 0x80 else encode_uvarint(size))


def write_compact_numbers(out: Chunks, values: Sequence[int] | None, code: str) -> None:
    """Append an array of numbers or null in a flexible version, given their `struct` code."""
    write_compact_count(out, values)
    if values:
        out.append(struct.pack(f">{len(values)}{code}", *values))


def write_numbers(out: Chunks, values: Sequence[int] | None, code: str) -> None:
    """Append an array of numbers or null in a version that is not flexible."""
    write_count(out, values)
    if values:
        out.append(struct.pack(f">{len(values)}{code}", *values))


def write_count(out: Chunks, elements: Sequence[object] | None) -> None:
    """Append how many elements follow, or null, in a version that is not flexible."""
    write_int32(out, -1 if elements is None else len(elements))


def base64_text(value: bytes) -> str:
    """Bytes as Kafka's JSON shows them."""
    return binascii.b2a_base64(value, newline=False).decode("ascii")


def float_or_text(value: float) -> float | str:
    """A double as Kafka's JSON shows it, which has no numbers for what is not finite."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _take(data: bytes, position: int, size: int, what: str) -> bytes:
    value = data[position : position + size]
    if len(value) != size:
        raise MalformedError(
            f"byte {position}: {what} of {size} bytes, but {max(len(data) - position, 0)} are left"
        )
    return value


def _view(data: bytes, position: int, size: int) -> memoryview:
    if size > len(data) - position:
        raise MalformedError(
            f"byte {position}: records of {size} bytes, but {max(len(data) - position, 0)} are left"
        )
    return memoryview(data)[position : position + size]


def _text(data: bytes, position: int, size: int) -> str:
    if size > STRING_BYTES_MAX:
        raise MalformedError(f"byte {position}: a string of {size} bytes is longer than {STRING_BYTES_MAX}")
    try:
        return _take(data, position, size, "string").decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"byte {position}: a string that is not UTF-8: {error.reason}") from None


def _raw_text(value: str) -> bytes:
    try:
        raw = value.encode()
    except UnicodeEncodeError as error:
        raise UnencodableError(f"a string that cannot be UTF-8: {error.reason}") from None
    if len(raw) > STRING_BYTES_MAX:
        raise UnencodableError(f"a string of {len(raw)} bytes is longer than {STRING_BYTES_MAX}")
    return raw


def _numbers(data: bytes, position: int, count: int, code: str, size: int) -> tuple[tuple[int, ...], int]:
    if count * size > len(data) - position:
        raise MalformedError(f"byte {position}: {count} elements cannot be in the bytes left")
    if type(data) is MeteredBytes:
        data.take(count // NUMBERS_AN_ELEMENT, position)
    return struct.unpack_from(f">{count}{code}", data, position), position + count * size


def _elements(
    data: bytes, position: int, count: int, element: Reader[T], smallest_bytes: int
) -> tuple[tuple[T, ...], int]:
    left = len(data) - position
    if count * smallest_bytes > left or (count > FEW_ELEMENTS and count * ELEMENT_BYTES > left):
        raise MalformedError(f"byte {position}: {count} elements cannot be in the bytes left")
    if type(data) is MeteredBytes:
        data.take(count, position)
    if count == 1:
        value, position = element(data, position)
        return (value,), position
    values = []
    for _ in range(count):
        value, position = element(data, position)
        values.append(value)
    return tuple(values), position


def _write_fixed(out: Chunks, layout: struct.Struct, value: float) -> None:
    try:
        out.append(layout.pack(value))
    except struct.error as error:
        raise UnencodableError(f"{value} does not fit: {error}") from None
