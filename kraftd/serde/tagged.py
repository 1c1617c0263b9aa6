"""Tagged fields at the end of a struct in Kafka's encoding: a count, then tag, size and bytes of each.

What `binary` is to other values. Those that a schema does not know are kept as they are. Tags ascend.
"""

from collections.abc import Sequence

from kraftd.errors import MalformedError, UnencodableError
from kraftd.serde.binary import LENGTHS, ZERO, Chunks
from kraftd.serde.generated import UnknownTags
from kraftd.serde.metered import MeteredBytes
from kraftd.serde.varint import encode_uvarint, read_uvarint

TAGS_MAX = 64
"""Tagged fields of one struct of a message. A record may have any number: it is in the log already."""


def read_tags(
    data: bytes, position: int, count_max: int = TAGS_MAX, size_min: int = 1
) -> tuple[Sequence[tuple[int, int, int]], int]:
    """Read a section of tagged fields: tag, start and end of each.

    In a message there are at most `TAGS_MAX`, and none is empty: no type of Kafka's takes less than a byte.
    """
    count, position = read_uvarint(data, position)
    if not count:
        return (), position
    if count > count_max or count * 2 > len(data) - position:
        raise MalformedError(f"byte {position}: {count} tagged fields cannot be in the bytes left")
    if type(data) is MeteredBytes:
        data.take(count, position)
    found = []
    before = -1
    bytes_end = len(data)
    for _ in range(count):
        tag = data[position]
        if tag < 0x80:
            position += 1
        else:
            tag, position = read_uvarint(data, position)
        size, start = data[position], position + 1
        if size >= 0x80:
            size, start = read_uvarint(data, position)
        position = start + size
        if tag <= before or position > bytes_end or size < size_min:
            raise MalformedError(f"byte {start}: tagged field {tag} is out of order, empty or cut short")
        found.append((tag, start, position))
        before = tag
    return found, position


def read_unknown_tags(data: bytes, position: int) -> tuple[UnknownTags, int]:
    """Read the tagged fields of a struct that knows none. Mostly it is one, of a newer version of the API."""
    if position + 3 < len(data):
        count, tag, size = data[position : position + 3]
        end = position + 3 + size
        if count == 1 and tag < 0x80 and 0 < size < 0x80 and end <= len(data):
            if type(data) is MeteredBytes:
                data.take(1, position)
            return ((tag, data[position + 3 : end]),), end
    tags, end = read_tags(data, position)
    return unread(data, tags), end


def unread(data: bytes, tags: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, bytes], ...]:
    """Keep tagged fields as they are."""
    return tuple([(tag, data[start:end]) for tag, start, end in tags]) if tags else ()


def wrong_end(tag: int, position: int, end: int) -> MalformedError:
    """Return the error for a tagged field that does not fill its place."""
    return MalformedError(f"byte {position}: tagged field {tag} ends at byte {end}")


def write_tags(out: Chunks, known: Sequence[tuple[int, bytes]], unknown: Sequence[tuple[int, bytes]]) -> None:
    """Append a section of tagged fields, by ascending tag; the known ones come in that order."""
    if not known and not unknown:
        out.append(ZERO)
        return
    tags = known
    if unknown:
        tags = sorted((*known, *unknown))
        if len({tag for tag, _ in tags}) != len(tags):
            raise UnencodableError("a tag is given twice")
    out.append(encode_uvarint(len(tags)))
    for tag, value in tags:
        size = len(value)
        out.append(LENGTHS[tag] if tag < 0x80 else encode_uvarint(tag))
        out.append(LENGTHS[size] if size < 0x80 else encode_uvarint(size))
        out.append(value)
