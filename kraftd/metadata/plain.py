"""PartitionRecords of the usual form, read from their bytes without making a record of them.

A plain one has no tags, and nobody to remove or to add. Nearly every partition of a snapshot is plain. So the
layout of a version with so many replicas, members of the ISR and directories is worked out once, as a `Form`,
and all records of that form are read by one compiled `Struct` and a few comparisons, which prove as much as
decoding does. Whatever is not plain is decoded.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from kraftd.metadata.placement import Parts, parts_of
from kraftd.records.frame import encode_record
from kraftd.records.messages import PartitionRecord

OPENING_BYTES: Final = 3
COUNT_AT: Final = 23
"""Where the count of the replicas is: after the opening, the partition's id and the topic's."""

PARTITION: Final = encode_record(PartitionRecord())[: OPENING_BYTES - 1]
"""How every PartitionRecord begins, whatever its version."""

NOBODY: Final = 0x0101
"""Two empty lists: nobody to remove and nobody to add."""

_OPENINGS: Final = {
    encode_record(PartitionRecord(), version)[:OPENING_BYTES]: version for version in (0, 1, 2)
}
_DIRECTORIES_SINCE: Final = 1
_CANONICAL: Final = encode_record(PartitionRecord())[:OPENING_BYTES]
_COUNT_MAX: Final = 0x7F
"""A count is one more than there are, and one byte up to here."""
_UUID_BYTES: Final = 16


class Form(NamedTuple):
    """What a record of one form gives when it is unpacked, and what must be there.

    First come the opening, the ids of partition and topic, and the count of replicas; then the replicas.
    """

    unpack: Callable[[bytes], tuple[Any, ...]]
    replicas_end: int
    """Where the count of the ISR is; its members follow."""
    isr_count: int
    isr_end: int
    """Where `NOBODY` must be; the leader follows."""
    directories_at: int
    """Where their count is; where that of the replicas is, in a version that does not list them."""
    directory_count: int
    canonical: Callable[[bytes], bytes] | None
    """Makes of the record what the image keeps; None if it is that."""

    def fits(self, fields: tuple[Any, ...]) -> bool:
        """Whether what was unpacked is a plain record. The last field is the number of tags."""
        return not (
            fields[-1]
            or fields[self.isr_end] != NOBODY
            or fields[self.replicas_end] != self.isr_count
            or fields[self.directories_at] != self.directory_count
        )


@lru_cache(maxsize=1024)
def form_of(opening: bytes, count: int, size_bytes: int) -> Form | None:
    """The form with this opening, count of replicas and size; None if no plain record has all of them."""
    version, replicas = _OPENINGS.get(opening), count - 1
    if version is None or not 0 < count <= _COUNT_MAX:
        return None
    lists_directories = version >= _DIRECTORIES_SINCE
    for directories in (replicas, 0) if lists_directories else (0,):
        tail = f"B{_UUID_BYTES * directories}xB" if lists_directories else "B"
        isr, rest = divmod(size_bytes - Struct(_layout(replicas, 0, tail)).size, 4)
        if rest or not 0 <= isr <= replicas:
            continue
        isr_end = 5 + replicas + isr
        return Form(
            Struct(_layout(replicas, isr, tail)).unpack,
            4 + replicas,
            isr + 1,
            isr_end,
            isr_end + 2 if lists_directories else 3,
            directories + 1 if lists_directories else count,
            _canonical(opening, count, listed=directories, tail_bytes=1 + lists_directories),
        )
    return None


def parts_in(packed: bytes) -> Parts | None:
    """What each broker is for a partition as the image keeps it, None if it is not plain."""
    form = form_of(packed[:OPENING_BYTES], packed[COUNT_AT], len(packed))
    if form is None or form.canonical is not None:
        return None
    fields = form.unpack(packed)
    if not form.fits(fields):
        return None
    isr = fields[form.replicas_end + 1 : form.isr_end]
    return parts_of(fields[4 : form.replicas_end], isr, fields[form.isr_end + 1])


def _layout(replicas: int, isr: int, tail: str) -> str:
    return f">{OPENING_BYTES}si{_UUID_BYTES}sB{replicas}iB{isr}iHi8x{tail}"


def _canonical(
    opening: bytes, count: int, *, listed: int, tail_bytes: int
) -> Callable[[bytes], bytes] | None:
    if listed == count - 1 and tail_bytes == 2:
        if opening == _CANONICAL:
            return None
        return lambda value: _CANONICAL + value[OPENING_BYTES:]
    migrating = bytes((count, *bytes(_UUID_BYTES * (count - 1)), 0))
    return lambda value: _CANONICAL + value[OPENING_BYTES:-tail_bytes] + migrating
