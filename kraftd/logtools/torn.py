"""Is the end of a file the beginning of the batch that must come next, or something else?

A node that is copied while it writes, or that lost its power, leaves the first bytes of a batch. They follow
from what came before: the next offset, an epoch that is not older, a length that a batch can have, and
records that are cut where the file ends. Anything else was not being written: it is damage.

Only judges, and knows no flushed offset. A node at its start does: it takes all that is wrong from there on
for torn, and cuts it (`kraftd.storage.recovery`); below, it is damage (`own_state` says so of a directory).
"""

from typing import Final

from kraftd.errors import MalformedError
from kraftd.records.batch_header import (
    BATCH_BYTES_MAX,
    FIELDS,
    HEADER_BYTES,
    MAGIC,
    OVERHEAD_BYTES,
    UNSUPPORTED,
    layout,
)
from kraftd.serde.varint import read_zigzag
from kraftd.types import Epoch, Offset

_RECORD_BYTES_MIN: Final = 6
_FIELDS: Final = {name: layout(name) for name, _ in FIELDS}
_OFFSET: Final = _FIELDS["base_offset"]


def begins_batch(data: bytes, offset: Offset, epoch: Epoch) -> bool:
    """Whether bytes at the end of a file begin the batch of this offset, and do not complete it.

    Args:
        data: All bytes that are left; not empty.
        offset: The end of the batch before.
        epoch: Of the batch before, or the lowest that there can be.
    """
    if not _OFFSET.pack(offset).startswith(data[: _OFFSET.size]):
        return False
    return _header_fits(data, epoch) and (len(data) <= HEADER_BYTES or _records_are_cut(data))


def _header_fits(data: bytes, epoch: Epoch) -> bool:
    """Whether the fields that are there can be those of a batch; nothing is said of those that are cut."""
    length = _field(data, "length")
    last_delta, count = _field(data, "last_offset_delta"), _field(data, "record_count")
    found_epoch, magic, attributes = _field(data, "epoch"), _field(data, "magic"), _field(data, "attributes")
    size = None if length is None else length + OVERHEAD_BYTES
    return not (
        (size is not None and not max(HEADER_BYTES, len(data) + 1) <= size <= BATCH_BYTES_MAX)
        or (found_epoch is not None and found_epoch < epoch)
        or (magic is not None and magic != MAGIC)
        or (attributes is not None and attributes & UNSUPPORTED)
        or (last_delta is not None and last_delta < 0)
        or (count is not None and last_delta is not None and count != last_delta + 1)
    )


def _records_are_cut(data: bytes) -> bool:
    """Whether the records go on to the end of the bytes, and further."""
    count = _field(data, "record_count") or 0
    position = HEADER_BYTES
    try:
        for _ in range(count):
            size, position = read_zigzag(data, position)
            if size < _RECORD_BYTES_MIN:
                return False
            position += size
            if position > len(data):
                return True
    except MalformedError:
        return len(data) - position < 5  # the bytes end inside a length
    return False


def _field(data: bytes, name: str) -> int | None:
    """A field of the header; None where the bytes end before it does."""
    field = _FIELDS[name]
    return int(field.unpack_from(data)[0]) if len(data) >= field.size else None
