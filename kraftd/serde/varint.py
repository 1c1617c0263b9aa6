"""Kafka's variable-length integers: seven bits a byte, low group first, 0x80 meaning that more follow.

Lengths, counts and tags are plain ("unsigned"); the fields of a record inside a batch are zig-zag, so that
small negative numbers stay short. A reader takes a buffer and a position and gives the value and the position
after it.

Differs from Kafka: it refuses what Kafka never writes, which is more bits than the type has, or more bytes
than the value needs. So every number has one encoding, and what was read is written the same again.
"""

from functools import lru_cache

from kraftd.errors import MalformedError

Buffer = bytes | bytearray | memoryview

_UINT32_MAX = 0xFFFF_FFFF
_UINT64_MAX = 0xFFFF_FFFF_FFFF_FFFF


def encode_uvarint(value: int) -> bytes:
    """Encode a number >= 0."""
    if value < 0x80:
        return _SHORT[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(maxsize=4096)
def encode_zigzag(value: int) -> bytes:
    """Encode a signed number of up to 64 bits."""
    return encode_uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """Read a number of up to 32 bits.

    Raises:
        MalformedError: The buffer ends, or the number has more than 32 bits.
    """
    try:
        value = data[position]
        if value < 0x80:
            return value, position + 1
        second = data[position + 1]
        if 0 < second < 0x80:
            return value & 0x7F | second << 7, position + 2
        return _read_rest(data, position, value, _UINT32_MAX)
    except IndexError:
        raise MalformedError(f"byte {position}: the bytes end inside a varint") from None


def read_zigzag(data: Buffer, position: int) -> tuple[int, int]:
    """Read a signed number of up to 32 bits.

    Raises:
        MalformedError: The buffer ends, or the number has more than 32 bits.
    """
    value, position = read_uvarint(data, position)
    return (value >> 1) ^ -(value & 1), position


def read_zigzag_long(data: Buffer, position: int) -> tuple[int, int]:
    """Read a signed number of up to 64 bits.

    Raises:
        MalformedError: The buffer ends, or the number has more than 64 bits.
    """
    try:
        value, position = _read_rest(data, position, data[position], _UINT64_MAX)
    except IndexError:
        raise MalformedError(f"byte {position}: the bytes end inside a varint") from None
    return (value >> 1) ^ -(value & 1), position


def _read_rest(data: Buffer, position: int, first: int, limit: int) -> tuple[int, int]:
    start = position
    value = first & 0x7F
    byte = first
    shift = 7
    while byte & 0x80:
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        shift += 7
        if value > limit or shift > 70:
            raise MalformedError(f"byte {start}: a varint of more than {limit.bit_length()} bits")
    if not byte and position > start:
        raise MalformedError(f"byte {start}: a varint longer than its value needs")
    return value, position + 1


_SHORT = tuple(bytes((value,)) for value in range(0x80))
