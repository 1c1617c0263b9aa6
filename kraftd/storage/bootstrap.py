"""What a new cluster begins with: `bootstrap.checkpoint`, and the snapshot at offset 0 beside the log.

Both have the form of a snapshot (`kraftd.records.snapshot`) and must be whole like one.
`bootstrap.checkpoint` holds the records that the first active controller writes. The zero checkpoint,
`0…0-0…0.checkpoint`, holds the first voters of a quorum that keeps its voters in the log; a newer Kafka puts
the first records there as well, and then they go before those of the other file (KAFKA-19648). It stays, and
is never sent.

Follows: Kafka's BootstrapDirectory and handleLoadBootstrap.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kraftd.errors import MalformedError, StorageError
from kraftd.records import names
from kraftd.records.control import decode_control
from kraftd.records.frame import encode_record
from kraftd.records.messages import FeatureLevelRecord, KRaftVersionRecord, VotersRecord
from kraftd.records.snapshot import SnapshotDecoder, encode_snapshot
from kraftd.storage.disk import Disk
from kraftd.storage.removal import no_file_text
from kraftd.types import OffsetAndEpoch

ZERO_CHECKPOINT = names.snapshot_name(OffsetAndEpoch(0, 0))


class ZeroCheckpoint(NamedTuple):
    """What the snapshot at offset 0 holds."""

    values: tuple[bytes, ...] = ()
    """Its records, framed."""
    has_voters: bool = False
    """Whether the voters of its cluster are in the log (`kraft.version` 1)."""


def encode_bootstrap(features: Mapping[str, int], now_ms: int) -> bytes:
    """Return the file's bytes for a new cluster with these feature levels; levels of 0 are left out."""
    values = (
        encode_record(FeatureLevelRecord(name=name, feature_level=level))
        for name, level in features.items()
        if level > 0
    )
    return b"".join(encode_snapshot(values, 0, now_ms, last_contained_timestamp_ms=0))


def read_bootstrap(disk: Disk, path: Path) -> tuple[bytes, ...] | None:
    """Return the framed records of the file; None if there is no file.

    Raises:
        StorageError: The file cannot be read, or is not whole.
    """
    data = disk.read_file(path)
    if data is None:
        return None
    decoder = SnapshotDecoder(str(path))
    values: list[bytes] = []
    try:
        for batch in decoder.feed(data):
            values += batch.values()
        decoder.finish()
    except MalformedError as error:
        raise StorageError(f"{error}: format the directory anew, or restore the file") from error
    return tuple(values)


def read_zero_checkpoint(disk: Disk, log_path: Path) -> ZeroCheckpoint | None:
    """Return what the snapshot at offset 0 holds; None if there is none.

    Raises:
        StorageError: It cannot be read, or is not whole.
    """
    path = log_path / ZERO_CHECKPOINT
    if disk.fs.is_directory(path):
        raise StorageError(no_file_text(path))
    data = disk.read_file(path)
    if data is None:
        return None
    decoder = SnapshotDecoder(str(path), 0)
    values: list[bytes] = []
    has_voters = False
    try:
        for batch in decoder.feed(data):
            values += batch.values()
            for record in batch.records() if batch.is_control else ():
                control = decode_control(record.key, record.value)
                is_dynamic = isinstance(control, KRaftVersionRecord) and control.kraft_version > 0
                has_voters |= is_dynamic or isinstance(control, VotersRecord)
        decoder.finish()
    except MalformedError as error:
        raise StorageError(
            f"{error}: it may hold the voters of the cluster: bring the file back, or, if those are the "
            "voters of controller.quorum.voters, remove it"
        ) from error
    return ZeroCheckpoint(tuple(values), has_voters)
