"""Changes of a partition's ISR and leader alone, read and made faster than field by field.

Nearly every change in a log is one. `read` knows its record by its form, and `changed` writes it into the
bytes that the image keeps of a plain partition (`plain`). Both leave to the codec and to `partitions` what is
not of that form, and give what those give.
"""

from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final, NamedTuple

from kraftd.metadata.placement import Brokers
from kraftd.metadata.plain import COUNT_MAX, NOBODY, plain_form
from kraftd.records.frame import AnyRecord, decode_record, encode_record
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


class _Form(NamedTuple):
    """How a change of one form is read; None where the ISR or the leader is not in it."""

    struct: Struct
    isr_count: int | None
    has_leader: bool


def _forms() -> dict[tuple[int, bytes], _Form]:
    """Each form by the size and the hint of its values."""
    forms = [(bytes((1, *_LEADER_TAG)), _Form(Struct(_FIELDS + "3xi"), None, has_leader=True))]
    for count in range(_ISR_MAX + 1):
        isr = f"{_FIELDS}3xB{count}i"
        isr_bytes = 1 + 4 * count
        forms.append((bytes((1, _ISR, isr_bytes)), _Form(Struct(isr), count, has_leader=False)))
        forms.append((bytes((2, _ISR, isr_bytes)), _Form(Struct(f"{isr}2si"), count, has_leader=True)))
    return {(form.struct.size, hint): form for hint, form in forms}


_FORMS: Final = _forms()


def decoded(value: bytes) -> AnyRecord:
    """The record of a framed value, as `decode_record` gives it.

    Raises:
        MalformedError: It is no record.
    """
    change = read(value)
    return decode_record(value) if change is None else change


def read(value: bytes) -> PartitionChangeRecord | None:
    """The record of a framed value if it is a change of ISR, leader or both, and of no more."""
    form = _FORMS.get((len(value), value[_HINT]))
    if form is None:
        return None
    fields = form.struct.unpack(value)
    if fields[0] not in _OPENINGS:
        return None
    if form.isr_count is None:
        return PartitionChangeRecord(fields[1], fields[2], leader=fields[-1])
    isr_end = _ISR_AT + form.isr_count
    if fields[_ISR_AT - 1] != form.isr_count + 1:
        return None
    isr = fields[_ISR_AT:isr_end]
    if not form.has_leader:
        return PartitionChangeRecord(fields[1], fields[2], isr)
    if fields[isr_end] != _LEADER_TAG:
        return None
    return PartitionChangeRecord(fields[1], fields[2], isr, fields[-1])


def changed(packed: bytes, change: PartitionChangeRecord) -> tuple[bytes, Brokers, Brokers] | None:
    """The packed partition after a change, and whom it was on and is.

    None if either is not plain.
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
    found = plain_form(packed)
    if found is None:
        return None
    form, fields = found
    brokers = form.brokers(fields)
    replicas, old_isr, old_leader = brokers
    isr_at, epochs_at = form.isr_at, form.epochs_at
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
                _list(len(isr)).pack(len(isr) + 1, *isr, NOBODY),
                _EPOCHS.pack(leader, leader_epoch + (not is_same_leader), partition_epoch + 1),
                packed[epochs_at + _EPOCHS.size :],
            )
        )
    except StructError:
        return None
    return after, brokers, (replicas, isr, leader)


@lru_cache(maxsize=256)
def _list(count: int) -> Struct:
    """An ISR of so many, and `NOBODY` after it; its count is one byte."""
    return Struct(f">B{count}i{len(NOBODY)}s")
