"""Which brokers a partition is on, read from its record or from what the image keeps of it."""

from kraftd.errors import MalformedError
from kraftd.metadata.parts.topics import partitions
from kraftd.metadata.parts.topics.broker_index import REASSIGNING, WITH_ELR, Assignment
from kraftd.metadata.parts.topics.partition_fast_codec import assignment_in
from kraftd.records.frame import decode_record
from kraftd.records.messages import PartitionRecord
from kraftd.types import Offset


def assignment_of(partition: PartitionRecord) -> Assignment:
    """The brokers of a partition."""
    return (
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.eligible_leader_replicas or (),
        (REASSIGNING if partition.removing_replicas or partition.adding_replicas else 0)
        | (WITH_ELR if partitions.has_elr(partition) else 0),
    )


def assignment_of_packed(packed: bytes) -> Assignment:
    """The brokers of a partition as the image keeps it."""
    brokers = assignment_in(packed)
    return assignment_of(partitions.unpack(packed)) if brokers is None else brokers


def read_alone(row: bytes, value: bytes, offset: Offset) -> tuple[bytes, Assignment]:
    """What the image keeps of a partition, and its brokers.

    Args:
        row: The record in the canonical form, if it has one.
        value: The record as it was read.
        offset: Of the record, for errors.

    Raises:
        MalformedError: It is no record.
        ImpossibleRecordError: It contradicts itself.
        UnencodableError: It cannot be written as the image keeps it.
    """
    brokers = assignment_in(row)
    if brokers is not None:
        return row, brokers
    record = decode_record(value)
    if not isinstance(record, PartitionRecord):
        raise MalformedError("not a partition that is known here")
    partition = partitions.made(record, offset)
    return partitions.pack(partition), assignment_of(partition)
