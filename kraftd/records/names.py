"""Names of the files in a log's directory, and what they say (SNAP-18)."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, TypeAlias

import msgspec

from kraftd.errors import MalformedError
from kraftd.types import Offset, OffsetAndEpoch

Suffix: TypeAlias = Literal["log", "index", "timeindex", "snapshot"]

_SEGMENT = re.compile(r"(\d{20})\.(log|index|timeindex|snapshot)", re.ASCII)
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint(\.deleted)?", re.ASCII)
_OFFSET_MAX = 2**63 - 1
_SNAPSHOT_OFFSET_MAX = 2**62
_SNAPSHOT_EPOCH_MAX = 2**31 - 2
"""A log goes on from a snapshot: one at 2^63 - 1 would leave no offset for the next record, and no log comes
near to half of that; one of epoch 2^31 - 1 leaves no epoch for the next election. Any other epoch can be that
of a quorum: one node whose `quorum-state` says 2^30 + 1 brings all others up to it (D-37), and they write
snapshots there, and cut their logs.
"""

QUORUM_STATE = "quorum-state"
EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
LOCK = ".lock"
SIDECAR = "kraftd.state"
LOG_DIRECTORY = "__cluster_metadata-0"
LOG = ".log"
CHECKPOINT = ".checkpoint"
DELETED = ".deleted"
ASIDE = ".aside"
"""Behind the name of a segment that nothing leads to any more, and that is kept until its records are here
again. Kafka passes such a file over.
"""
PART = ".part"


class ExportKind(StrEnum):
    """What a file of an export is, as the manifest of a running node tells it."""

    META = "meta"
    BOOTSTRAP = "bootstrap"
    PARTITION = "partition"
    EPOCHS = "epochs"
    ELECTION = "election"
    SEGMENT = "segment"
    SNAPSHOT = "snapshot"


SMALL_FILES: Mapping[str, ExportKind] = {
    META_PROPERTIES: ExportKind.META,
    BOOTSTRAP_CHECKPOINT: ExportKind.BOOTSTRAP,
    f"{LOG_DIRECTORY}/{QUORUM_STATE}": ExportKind.ELECTION,
    f"{LOG_DIRECTORY}/{EPOCH_CHECKPOINT}": ExportKind.EPOCHS,
    f"{LOG_DIRECTORY}/{PARTITION_METADATA}": ExportKind.PARTITION,
}
"""The files of an export that are replaced as a whole, by their path in a node's directory."""


class SegmentFile(msgspec.Struct, frozen=True):
    """A segment or one of the files that go with it."""

    base_offset: Offset
    suffix: str


def segment_name(base_offset: Offset, suffix: Suffix = "log") -> str:
    """The name of a segment's file."""
    return f"{base_offset:020d}.{suffix}"


def snapshot_name(snapshot_id: OffsetAndEpoch) -> str:
    """The name of a frozen snapshot."""
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}.checkpoint"


def parse_segment_name(name: str) -> SegmentFile | None:
    """What a name says, or None if it is no segment's.

    Raises:
        MalformedError: It has the form of one, but the offset is out of range.
    """
    match = _SEGMENT.fullmatch(name)
    return None if match is None else SegmentFile(_offset(match[1], name, _OFFSET_MAX), match[2])


def parse_snapshot_name(name: str) -> OffsetAndEpoch | None:
    """The id of a frozen snapshot or of one that awaits deletion, or None if the name is no snapshot's.

    Raises:
        MalformedError: It has the form of one, but no log could go on from there: offset or epoch are out of
            range. Kafka's `Snapshots.parse` takes all that a long and an int hold.
    """
    match = _SNAPSHOT.fullmatch(name)
    if match is None:
        return None
    offset, epoch = _offset(match[1], name, _SNAPSHOT_OFFSET_MAX), int(match[2])
    if epoch > _SNAPSHOT_EPOCH_MAX:
        raise MalformedError(f"{name}: epoch {epoch} is out of range")
    return OffsetAndEpoch(offset, epoch)


def _offset(digits: str, name: str, offset_max: Offset) -> Offset:
    offset = int(digits)
    if offset > offset_max:
        raise MalformedError(f"{name}: offset {offset} is out of range")
    return offset
