"""The data records of a batch: what stands around their values, written, read, and proved.

A data record of the metadata log has no key, no headers, and the timestamp of its batch, so what stands
between two values follows from the place of the second one and its size.

`usual_values` reads all of a batch at once and believes nothing but how long each record says it is: what it
found is right if it makes the same bytes when it is written again. `data_values` reads record by record,
takes lengths that are written in more bytes than they need, and says what is wrong where. Of fewer records
than `USUAL_FROM` it is the faster one.

Not here: the header, and the checksum (`batch`).
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from kraftd.errors import MalformedError
from kraftd.records.batch_header import HEADER_BYTES
from kraftd.serde.varint import encode_zigzag, read_uvarint

USUAL_FROM: Final = 8
"""Reading all at once takes 5 us, and 0.4 a record; one by one a record takes 0.9 (CPython 3.11)."""
_RECORDS_MAX: Final = 1_024
"""With more records, a batch is read one by one: no snapshot of Kafka's has such batches."""
_SIZE_MAX: Final = 4_096
"""With a larger value, too."""
_SHORT_MAX: Final = 0x3F
"""The largest number that is one byte when it is written; what is up to `_SIZE_MAX` takes two at most."""


@lru_cache(maxsize=16384)
def _prefix(delta: int, value_bytes: int) -> bytes:
    """What stands before a value: the end of the record before it, then this record up to its value."""
    middle = b"\0\0" + encode_zigzag(delta) + b"\x01" + encode_zigzag(value_bytes)
    before = b"\0" if delta else b""
    return before + encode_zigzag(len(middle) + value_bytes + 1) + middle


def data_parts(values: Sequence[bytes], first_delta: int) -> list[bytes]:
    """The values of data records, each behind what stands before it."""
    parts = [b""] * (2 * len(values))
    at = 0
    for delta, value in enumerate(values, first_delta):
        parts[at] = _prefix(delta, len(value))
        parts[at + 1] = value
        at += 2
    return parts


class _Openings(dict[int, bytes]):
    """By the size of a value, what stands before the delta of a record, from the end of the one before it on,
    where the delta takes so many bytes.
    """

    def __init__(self, delta_bytes: int) -> None:
        super().__init__()
        self._around_bytes = len(b"\0\0") + delta_bytes + len(b"\1") + len(b"\0")

    def __missing__(self, value_bytes: int) -> bytes:
        length = self._around_bytes + len(encode_zigzag(value_bytes)) + value_bytes
        self[value_bytes] = opening = b"\0" + encode_zigzag(length) + b"\0\0"
        return opening


class _Sizes(dict[int, bytes]):
    """The size of a value as it is written."""

    def __missing__(self, value_bytes: int) -> bytes:
        self[value_bytes] = written = encode_zigzag(value_bytes)
        return written


class _Bounds(dict[bytes, tuple[int, int, int]]):
    """By its first two bytes, of a record whose delta takes so many: where its value begins and ends, and
    where the next record begins, all from its own beginning on.
    """

    def __init__(self, delta_bytes: int) -> None:
        super().__init__()
        self._delta_bytes = delta_bytes

    def __missing__(self, head: bytes) -> tuple[int, int, int]:
        first, second = head
        length, length_bytes = (first, 1) if first < 0x80 else (first & 0x7F | second << 7, 2)
        end = length_bytes + (length >> 1)
        start = length_bytes + len(b"\0\0") + self._delta_bytes + len(b"\1") + 1
        start += end - start - 1 > _SHORT_MAX
        self[head] = bounds = (start, end - 1, end)
        return bounds


_SHORT_DELTAS: Final = 0x40
"""So many deltas take one byte, and all others of a usual batch two."""
_BOUNDS: Final = (_Bounds(1), _Bounds(2))
_OPENINGS: Final = (_Openings(1), _Openings(2))
_SIZES: Final = _Sizes()
_DELTAS: Final = [encode_zigzag(delta) + b"\1" for delta in range(_RECORDS_MAX)]
"""The delta of each record, with what says that there is no key."""


def usual_values(data: bytes, count: int) -> list[bytes] | None:
    """The values of the data records of a batch, None if they have to be read one by one.

    Args:
        data: All of the batch, with its header.
        count: How many records it has.
    """
    if count > _RECORDS_MAX:
        return None
    values: list[bytes] = []
    append, at = values.append, HEADER_BYTES
    short = min(count, _SHORT_DELTAS)
    try:
        for bounds, deltas in zip(_BOUNDS, (short, count - short), strict=True):
            for _ in range(deltas):
                start, stop, end = bounds[data[at : at + 2]]
                append(data[at + start : at + stop])
                at += end
    except ValueError:  # fewer than two bytes are left
        return None
    sizes = list(map(len, values))
    if not 0 < min(sizes, default=0) <= max(sizes) <= _SIZE_MAX:
        return None
    parts = [b""] * (4 * count)
    openings, long_openings = _OPENINGS
    parts[: 4 * short : 4] = map(openings.__getitem__, sizes[:short])
    parts[4 * short :: 4] = map(long_openings.__getitem__, sizes[short:])
    parts[1::4] = _DELTAS[:count]
    parts[2::4] = map(_SIZES.__getitem__, sizes)
    parts[3::4] = values
    parts[0] = parts[0][1:]  # no record ends before the first one
    parts.append(b"\0")
    return values if b"".join(parts) == data[HEADER_BYTES:] else None


@lru_cache(maxsize=16384)
def _opening(delta: int) -> bytes:
    """What stands between the length of a data record and that of its value."""
    return b"\0\0" + encode_zigzag(delta) + b"\x01"


def data_values(data: bytes, count: int) -> Iterator[bytes]:
    """The values of data records, which have no key, no headers, and the timestamp of their batch."""
    at = HEADER_BYTES
    for delta in range(count):
        # Varints of one byte and of two are read in place: hardly any record is longer.
        length, start = data[at], at + 1
        if length >= 0x80:
            if 0 < (high := data[start]) < 0x80:
                length, start = length & 0x7F | high << 7, start + 1
            else:
                length, start = read_uvarint(data, at)
        opening = _opening(delta)
        value_at = start + len(opening)
        size = data[value_at]
        if size < 0x80:
            value_at += 1
        elif 0 < (high := data[value_at + 1]) < 0x80:
            size, value_at = size & 0x7F | high << 7, value_at + 2
        else:
            size, value_at = read_uvarint(data, value_at)
        stop = value_at + (size >> 1)
        at = start + (length >> 1)
        odd = (length | size) & 1
        if odd or not size or at != stop + 1 or data[stop] or data[start : start + len(opening)] != opening:
            raise MalformedError(f"byte {start}: not a data record of the metadata log")
        yield data[value_at:stop]
    if at != len(data):
        raise MalformedError(f"{len(data) - at} bytes follow the last record")
