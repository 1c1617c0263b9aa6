"""What the image keeps of a partition, how a record changes it, and its packed form.

A partition is the PartitionRecord that would make it as it is now. In a canonical one `directories` has one
entry a replica, and an empty list of eligible or last known leader replicas is None. The image keeps it
packed, as that record's bytes, and reads it again for whoever asks: a million of them fit.

Follows: Kafka's PartitionRegistration and DirectoryId.
"""

from typing import Final, TypeAlias

import msgspec

from kraftd.errors import InvariantError
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.parts.topics import partition_fast_codec
from kraftd.records.frame import decode_record, encode_record
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord
from kraftd.types import NodeId, Offset, Uuid

MIGRATING: Final[Uuid] = bytes(16)
"""The directory of a replica from before directories were named."""
UNASSIGNED: Final[Uuid] = bytes(15) + b"\1"
"""The directory of a replica whose broker has several, and has not told yet which one it chose."""
LOST: Final[Uuid] = bytes(15) + b"\2"
"""The directory of a replica that was in one that the broker does not have any more."""

_NO_LEADER_CHANGE: Final = -2
_NO_RECOVERY_CHANGE: Final = -1
_RECOVERY_STATES: Final = (0, 1)
"""Recovered, recovering."""

_About: TypeAlias = PartitionRecord | PartitionChangeRecord

_TAGS_OF_PACKED: Final = frozenset((1, 2))
"""The tags that `PACKED_VERSION` knows and older versions do not. In those Kafka's image drops them."""

PACKED_VERSION: Final = 2
"""Of the record. Hashes are taken of it, so it never changes, whatever newer versions come."""


def made(record: PartitionRecord, offset: Offset) -> PartitionRecord:
    """The canonical record of the partition that a record makes.

    Raises:
        ImpossibleRecordError: It contradicts itself.
    """
    _check_recovery(record, _RECOVERY_STATES, offset)
    if record.unknown_tags:
        # Node 1 reads version 1 with a tag 1, which has no meaning there. Packed, that would be the ELR.
        kept = tuple((tag, data) for tag, data in record.unknown_tags if tag not in _TAGS_OF_PACKED)
        record = msgspec.structs.replace(record, unknown_tags=kept)
    directories = record.directories or (MIGRATING,) * len(record.replicas)
    _check_directories(record, directories, record.replicas, offset)
    if (
        directories is record.directories
        and record.eligible_leader_replicas != ()
        and record.last_known_elr != ()
    ):
        return record
    return msgspec.structs.replace(
        record,
        directories=directories,
        eligible_leader_replicas=record.eligible_leader_replicas or None,
        last_known_elr=record.last_known_elr or None,
    )


def changed(before: PartitionRecord, change: PartitionChangeRecord, offset: Offset) -> PartitionRecord:
    """The partition after a change, which names only what is new; the epoch of the partition rises.

    Raises:
        ImpossibleRecordError: What would come out contradicts itself.
    """
    recovery = change.leader_recovery_state
    _check_recovery(change, (_NO_RECOVERY_CHANGE, *_RECOVERY_STATES), offset)
    replicas = _new(change.replicas, before.replicas)
    directories = _directories(
        before.directories if change.directories is None else change.directories, replicas
    )
    _check_directories(change, directories, replicas, offset)
    is_same_leader = change.leader == _NO_LEADER_CHANGE
    return PartitionRecord(
        partition_id=before.partition_id,
        topic_id=before.topic_id,
        replicas=replicas,
        isr=_new(change.isr, before.isr),
        removing_replicas=_new(change.removing_replicas, before.removing_replicas),
        adding_replicas=_new(change.adding_replicas, before.adding_replicas),
        leader=before.leader if is_same_leader else change.leader,
        leader_recovery_state=before.leader_recovery_state if recovery == _NO_RECOVERY_CHANGE else recovery,
        leader_epoch=before.leader_epoch if is_same_leader else before.leader_epoch + 1,
        partition_epoch=before.partition_epoch + 1,
        directories=directories,
        eligible_leader_replicas=_elr(change.eligible_leader_replicas, before.eligible_leader_replicas),
        last_known_elr=_elr(change.last_known_elr, before.last_known_elr),
        unknown_tags=before.unknown_tags,
    )


def has_elr(partition: PartitionRecord) -> bool:
    """Whether any replica outside the ISR is eligible, or was last known to be."""
    return partition.eligible_leader_replicas is not None or partition.last_known_elr is not None


def without_elr(partition: PartitionRecord) -> PartitionRecord:
    """The partition without eligible leader replicas."""
    return msgspec.structs.replace(partition, eligible_leader_replicas=None, last_known_elr=None)


def cleared(partition: PartitionRecord) -> PartitionRecord:
    """The partition after its eligible leader replicas were cleared, which is a change."""
    return msgspec.structs.replace(without_elr(partition), partition_epoch=partition.partition_epoch + 1)


def pack(partition: PartitionRecord) -> bytes:
    """A canonical record as the image keeps it."""
    packed = partition_fast_codec.pack(partition)
    return encode_record(partition, PACKED_VERSION) if packed is None else packed


def unpack(packed: bytes) -> PartitionRecord:
    """The record that was packed."""
    partition = partition_fast_codec.unpack(packed)
    if partition is not None:
        return partition
    record = decode_record(packed)
    if not isinstance(record, PartitionRecord):
        raise InvariantError(f"a packed partition holds a {type(record).__name__}")
    return record


def for_level(partition: PartitionRecord, *, has_directories: bool) -> PartitionRecord:
    """The record to write: where directories have no names yet, none are listed."""
    if has_directories or any(directory != MIGRATING for directory in partition.directories):
        return partition
    return msgspec.structs.replace(partition, directories=())


def _directories(listed: tuple[Uuid, ...], replicas: tuple[NodeId, ...]) -> tuple[Uuid, ...]:
    """Where the replicas are: as listed; if nothing is said of any, all are migrating."""
    if all(directory == MIGRATING for directory in listed):
        return (MIGRATING,) * len(replicas)
    return listed


def _new(after: tuple[NodeId, ...] | None, before: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    return before if after is None else after


def _elr(after: tuple[NodeId, ...] | None, before: tuple[NodeId, ...] | None) -> tuple[NodeId, ...] | None:
    return before if after is None else (after or None)


def _check_recovery(record: _About, states: tuple[int, ...], offset: Offset) -> None:
    if record.leader_recovery_state not in states:
        raise _impossible(record, f"cannot be in recovery state {record.leader_recovery_state}", offset)


def _check_directories(
    record: _About, directories: tuple[Uuid, ...], replicas: tuple[NodeId, ...], offset: Offset
) -> None:
    if len(directories) != len(replicas):
        raise _impossible(record, f"has {len(replicas)} replicas in {len(directories)} directories", offset)


def _impossible(record: _About, reason: str, offset: Offset) -> ImpossibleRecordError:
    which = f"partition {record.partition_id} of topic {record.topic_id.hex()}"
    return ImpossibleRecordError(offset, f"{which} {reason}")
