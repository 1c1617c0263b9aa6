"""Changes of a partition's ISR and leader alone, read and made faster than field by field.

Nearly every change in a log is one. `read` knows its record by its layout, and `changed` writes it into the
bytes that the image keeps of a usual partition (`partition_fast_codec`). Both leave to the codec and to
`partitions` whatever has another layout, and give what those give.
"""

from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final, NamedTuple

from kraftd.metadata.parts.topics.broker_index import Assignment
from kraftd.metadata.parts.topics.partition_fast_codec import COUNT_MAX, NO_REASSIGNMENT, fast_layout
from kraftd.records.frame import encode_record
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord

_OPENINGS: Final = frozenset(
    encode_record(PartitionChangeRecord(), version)[:3]
    for version in range(PartitionChangeRecord.MIN_VERSION, PartitionChangeRecord.MAX_VERSION + 1)
)
_FIELDS: Final = ">3si16s"
"""The frame and the ids of partition and topic; after them come the count of tags, and each with its size."""
_HINT: Final = slice(23, 26)
"""The count of tags, the first tag, and its size."""
_ISR_AT: Final = 4
"""Where the ISR begins in what is unpacked: after the opening, the two ids and the count."""
_ISR: Final = 0
_LEADER: Final = 1
_LEADER_TAG: Final = bytes((_LEADER, 4))
_ISR_MAX: Final = 31
"""So many have a size and a count of one byte each."""
_NO_LEADER_CHANGE: Final = PartitionChangeRecord().leader
_NO_RECOVERY_CHANGE: Final = PartitionChangeRecord().leader_recovery_state
_RECOVERED: Final = PartitionRecord().leader_recovery_state
_EPOCHS: Final = Struct(">3i")
"""The leader, its epoch, and the partition's."""


class _Layout(NamedTuple):
    """How a change of one layout is read; None where the ISR or the leader is not in it."""

    struct: Struct
    isr_count: int | None
    has_leader: bool


def _layouts() -> dict[tuple[int, bytes], _Layout]:
    """Each layout by the size and the hint of its values."""
    layouts = [(bytes((1, *_LEADER_TAG)), _Layout(Struct(_FIELDS + "3xi"), None, has_leader=True))]
    for count in range(_ISR_MAX + 1):
        isr = f"{_FIELDS}3xB{count}i"
        isr_bytes = 1 + 4 * count
        layouts.append((bytes((1, _ISR, isr_bytes)), _Layout(Struct(isr), count, has_leader=False)))
        layouts.append((bytes((2, _ISR, isr_bytes)), _Layout(Struct(f"{isr}2si"), count, has_leader=True)))
    return {(layout.struct.size, hint): layout for hint, layout in layouts}


_LAYOUTS: Final = _layouts()


def is_usual(value: bytes) -> bool:
    """Whether a framed value, which is a change of a partition, is one of its ISR, leader or both, and of no
    more. If not, it may be one all the same.
    """
    return (len(value), value[_HINT]) in _LAYOUTS and (value[_HINT][0] == 1 or read(value) is not None)


def read(value: bytes) -> PartitionChangeRecord | None:
    """The record of a framed value if it is a change of ISR, leader or both, and of no more."""
    layout = _LAYOUTS.get((len(value), value[_HINT]))
    if layout is None:
        return None
    fields = layout.struct.unpack(value)
    if fields[0] not in _OPENINGS:
        return None
    if layout.isr_count is None:
        return PartitionChangeRecord(fields[1], fields[2], leader=fields[-1])
    isr_end = _ISR_AT + layout.isr_count
    if fields[_ISR_AT - 1] != layout.isr_count + 1:
        return None
    isr = fields[_ISR_AT:isr_end]
    if not layout.has_leader:
        return PartitionChangeRecord(fields[1], fields[2], isr)
    if fields[isr_end] != _LEADER_TAG:
        return None
    return PartitionChangeRecord(fields[1], fields[2], isr, fields[-1])


def changed(packed: bytes, change: PartitionChangeRecord) -> tuple[bytes, Assignment, Assignment] | None:
    """The packed partition after a change, and whom it was on and is.

    None if either has another layout.
    """
    if (
        change.replicas is not None
        or change.directories is not None
        or change.removing_replicas
        or change.adding_replicas
        or change.eligible_leader_replicas
        or change.last_known_elr
        or change.leader_recovery_state not in {_NO_RECOVERY_CHANGE, _RECOVERED}
    ):
        return None
    found = fast_layout(packed)
    if found is None:
        return None
    layout, fields = found
    brokers = layout.brokers(fields)
    replicas, old_isr, old_leader, elr, is_reassigning = brokers
    isr_at, epochs_at = layout.isr_at, layout.epochs_at
    isr = old_isr if change.isr is None else change.isr
    if len(isr) >= COUNT_MAX:
        return None
    is_same_leader = change.leader == _NO_LEADER_CHANGE
    leader = old_leader if is_same_leader else change.leader
    _, leader_epoch, partition_epoch = _EPOCHS.unpack_from(packed, epochs_at)
    try:
        after = b"".join(
            (
                packed[:isr_at],
                _list(len(isr)).pack(len(isr) + 1, *isr, NO_REASSIGNMENT),
                _EPOCHS.pack(leader, leader_epoch + (not is_same_leader), partition_epoch + 1),
                packed[epochs_at + _EPOCHS.size :],
            )
        )
    except StructError:
        return None
    return after, brokers, (replicas, isr, leader, elr, is_reassigning)


@lru_cache(maxsize=256)
def _list(count: int) -> Struct:
    """An ISR of so many, and `NO_REASSIGNMENT` after it; its count is one byte."""
    return Struct(f">B{count}i{len(NO_REASSIGNMENT)}s")
