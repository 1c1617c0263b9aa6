"""PartitionRecords of the usual layout, read and written faster than by the codec of all records.

The usual layout has replicas, no tags, and none to remove or to add; nearly every partition of a snapshot
has it. How the bytes lie in a version with so many replicas, members of the ISR and directories is worked out
once, as a `Layout`, and all records of that layout are read by one compiled `Struct` and a few comparisons,
which prove as much as decoding does. Any other record is left to the codec of all records.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any, Final, NamedTuple, TypeAlias

from kraftd.metadata.parts.topics.broker_index import Assignment
from kraftd.records.frame import encode_record
from kraftd.records.messages import PartitionRecord

_Fields: TypeAlias = tuple[Any, ...]

_VERSION_AT: Final = 2
_COUNT_AT: Final = 23
"""Where the count of replicas is: after the frame, the partition's id and the topic's."""
HINT: Final = slice(_VERSION_AT, _COUNT_AT + 1, _COUNT_AT - _VERSION_AT)
"""Two bytes of a value, version and count of replicas: with its size they tell which layout it may have."""

PARTITION: Final = encode_record(PartitionRecord())[:_VERSION_AT]
"""How every PartitionRecord begins, whatever its version."""

_VERSIONS: Final = (0, 1, 2)
_CANONICAL: Final = 2
_CANONICAL_OPENING: Final = PARTITION + bytes((_CANONICAL,))
COUNT_MAX: Final = 0x7F
"""A count is one more than there are, and one byte up to here."""
_LAYOUTS_MAX: Final = 4096
NO_REASSIGNMENT: Final = b"\1\1"
"""Two empty lists: no replicas to remove and none to add."""
_UUID_BYTES: Final = 16
REPLICAS_AT: Final = 4
"""Where the replicas begin in what is unpacked: after the opening, the two ids and the count."""


class Layout(NamedTuple):
    """How a record of one layout is read."""

    unpack: Callable[[bytes], _Fields]
    opening: bytes
    """What must be the first field (frame version, kind and version); the last must be 0, for no tags."""
    replica_count: int
    isr_count_at: int
    """Where the replicas end, and the count of the ISR is."""
    isr_count: int
    isr_end: int
    """Where `NO_REASSIGNMENT` must be; the leader is next."""
    directories_at: int
    """Where their count is; that of the replicas, in a version that does not list them."""
    directory_count: int
    canonical: Callable[[bytes], bytes] | None
    """Makes of the record what the image keeps; None if it is that."""
    isr_at: int
    """Where in the bytes the count of the ISR is."""
    epochs_at: int
    """Where in the bytes the leader is, and after it its epoch and the partition's."""

    def fits(self, fields: _Fields) -> bool:
        """Whether what was unpacked is a record of this layout."""
        return (
            fields[0] == self.opening
            and not fields[-1]
            and fields[self.isr_end] == NO_REASSIGNMENT
            and fields[self.isr_count_at] == self.isr_count
            and fields[self.directories_at] == self.directory_count
        )

    def brokers(self, fields: _Fields) -> Assignment:
        """Whom it is on; a record of a usual layout has no ELR and is not being reassigned."""
        isr_end = self.isr_end
        isr_at = self.isr_count_at + 1
        return fields[REPLICAS_AT : isr_at - 1], fields[isr_at:isr_end], fields[isr_end + 1], (), 0


class _Layouts(dict[tuple[int, bytes], Layout | None]):
    """By size and hint, the layout that a value may have, None if it is not a usual one."""

    def __missing__(self, key: tuple[int, bytes]) -> Layout | None:
        if len(self) >= _LAYOUTS_MAX:
            self.clear()
        layout = self[key] = _find_layout(*key)
        return layout


LAYOUTS: Final = _Layouts()


def fast_fields(values: Iterable[bytes]) -> Iterator[tuple[bytes, _Fields, int, int]]:
    """The fields of PartitionRecords of a usual layout, up to the first value that is none.

    Of each: its canonical value, its fields, where in them its replicas end and where its ISR does. The
    layout is looked up only where it changes, and `Layout.fits` is written out: this runs for each of a
    million.
    """
    last: tuple[int, bytes] | None = None
    for value in values:
        key = (len(value), value[HINT])
        if key != last:
            layout = LAYOUTS[key]
            if layout is None:
                return
            last = key
            unpack, opening, _, isr_count_at, isr_count, isr_end, listed_at, listed, canonical = layout[:9]
        fields = unpack(value)
        if (
            fields[-1]
            or fields[0] != opening
            or fields[isr_end] != NO_REASSIGNMENT
            or fields[isr_count_at] != isr_count
            or fields[listed_at] != listed
        ):
            return
        yield value if canonical is None else canonical(value), fields, isr_count_at, isr_end


def fast_layout(packed: bytes) -> tuple[Layout, _Fields] | None:
    """The layout and the fields of a partition as the image keeps it, None if it is not a usual one."""
    layout = LAYOUTS[len(packed), packed[HINT]]
    if layout is None or layout.canonical is not None:
        return None
    fields = layout.unpack(packed)
    return (layout, fields) if layout.fits(fields) else None


def assignment_in(packed: bytes) -> Assignment | None:
    """The brokers of a partition as the image keeps it, None if its layout is not a usual one."""
    found = fast_layout(packed)
    return None if found is None else found[0].brokers(found[1])


def _find_layout(size_bytes: int, hint: bytes) -> Layout | None:
    if len(hint) != len((_VERSION_AT, _COUNT_AT)):
        return None
    version, count = hint
    replicas = count - 1
    if version not in _VERSIONS or not 0 < replicas < COUNT_MAX:
        return None
    for directories in (None,) if version == 0 else (replicas, 0):
        isr, rest = divmod(size_bytes - Struct(_struct_format(replicas, 0, directories)).size, 4)
        if not rest and 0 <= isr <= replicas:
            return _layout_of(version, replicas, isr, directories)
    return None


def pack(partition: PartitionRecord) -> bytes | None:
    """A canonical record as the image keeps it, None if it has no usual layout or cannot be written."""
    replicas, isr, directories = partition.replicas, partition.isr, partition.directories
    if (
        partition.removing_replicas
        or partition.adding_replicas
        or partition.leader_recovery_state
        or partition.eligible_leader_replicas is not None
        or partition.last_known_elr is not None
        or partition.unknown_tags
        or len(directories) != len(replicas)
        or {*map(len, directories), len(partition.topic_id)} != {_UUID_BYTES}
        or max(len(replicas), len(isr)) >= COUNT_MAX
    ):
        return None
    try:
        return _whole(len(replicas), len(isr)).pack(
            _CANONICAL_OPENING,
            partition.partition_id,
            partition.topic_id,
            len(replicas) + 1,
            *replicas,
            len(isr) + 1,
            *isr,
            NO_REASSIGNMENT,
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            len(directories) + 1,
            *directories,
            0,
        )
    except StructError:
        return None


def with_version(packed: bytes, version: int) -> bytes | None:
    """What the image keeps of a partition, as the record of an older version.

    None if its layout is not a usual one, or if the version cannot say in which directories it is.
    """
    found = fast_layout(packed)
    if found is None or version not in _VERSIONS:
        return None
    opening, body_at = PARTITION + bytes((version,)), len(_CANONICAL_OPENING)
    if version:
        return opening + packed[body_at:]
    replicas = found[0].replica_count
    no_names = bytes((replicas + 1, *bytes(_UUID_BYTES * replicas), 0))
    return opening + packed[body_at : -len(no_names)] + b"\0" if packed.endswith(no_names) else None


def unpack(packed: bytes) -> PartitionRecord | None:
    """The record of a partition as the image keeps it, None if its layout is not a usual one."""
    layout = LAYOUTS[len(packed), packed[HINT]]
    if layout is None or layout.canonical is not None:
        return None
    fields = _whole(layout.replica_count, layout.isr_count - 1).unpack(packed)
    replicas_end, isr_end = layout.isr_count_at, layout.isr_end
    if (
        fields[0] != _CANONICAL_OPENING
        or fields[replicas_end] != layout.isr_count
        or fields[isr_end] != NO_REASSIGNMENT
        or fields[isr_end + 4] != layout.directory_count
        or fields[-1]
    ):
        return None
    leader, leader_epoch, partition_epoch = fields[isr_end + 1 : isr_end + 4]
    return PartitionRecord(
        partition_id=fields[1],
        topic_id=fields[2],
        replicas=fields[REPLICAS_AT:replicas_end],
        isr=fields[replicas_end + 1 : isr_end],
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        directories=fields[isr_end + 5 : -1],
    )


@lru_cache(maxsize=_LAYOUTS_MAX)
def _whole(replicas: int, isr: int) -> Struct:
    """All of a canonical record, where a `Layout` skips what an index does not need."""
    ids = f">{_VERSION_AT + 1}si{_UUID_BYTES}s"
    return Struct(f"{ids}B{replicas}iB{isr}i{len(NO_REASSIGNMENT)}s3iB{f'{_UUID_BYTES}s' * replicas}B")


def _struct_format(replicas: int, isr: int, directories: int | None) -> str:
    """The frame, the ids, and the lists with their counts, each but the first a constant of the layout."""
    listed = "" if directories is None else f"B{_UUID_BYTES * directories}x"
    return f">3si{_UUID_BYTES}sB{replicas}iB{isr}i{len(NO_REASSIGNMENT)}si8x{listed}B"


def _layout_of(version: int, replicas: int, isr: int, directories: int | None) -> Layout:
    isr_end = REPLICAS_AT + replicas + 1 + isr
    isr_at = _COUNT_AT + 1 + 4 * replicas
    return Layout(
        Struct(_struct_format(replicas, isr, directories)).unpack,
        PARTITION + bytes((version,)),
        replicas,
        REPLICAS_AT + replicas,
        isr + 1,
        isr_end,
        REPLICAS_AT - 1 if directories is None else isr_end + 2,
        replicas + 1 if directories is None else directories + 1,
        None if (version, directories) == (_CANONICAL, replicas) else _canonical(replicas, directories),
        isr_at,
        isr_at + 1 + 4 * isr + len(NO_REASSIGNMENT),
    )


def _canonical(replicas: int, directories: int | None) -> Callable[[bytes], bytes]:
    """Makes a record one of the canonical version; directories that it does not list have no name."""
    opening, body_at = _CANONICAL_OPENING, len(_CANONICAL_OPENING)
    if directories == replicas:
        return lambda value: opening + value[body_at:]
    tail = bytes((replicas + 1, *bytes(_UUID_BYTES * replicas), 0))
    tail_bytes = 1 if directories is None else len((directories, 0))
    return lambda value: opening + value[body_at:-tail_bytes] + tail
