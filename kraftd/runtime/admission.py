"""Refuses directories that a daemon cannot run on: logs of old releases, and dynamic quorums.

Entered once, between opening the directory and the first message. A log of a Kafka older than 3.3 has no
`metadata.version`: nothing in it says which records its nodes may write, so it is for tools only. The
first batch of any newer log sets it, and where that was cut, a snapshot begins with it; a log that holds
nothing yet is a new cluster's. A quorum with dynamic
voters (`kraft.version` 1) has its voters in the log, where nothing here reads them yet: those of the
configuration could be others, and two majorities would not have to meet.

Not here: what the log holds beyond that. A record that cannot be applied stops the daemon before it, when it
comes (`kraftd.controller`).
"""

from collections.abc import Iterator

from kraftd.errors import MalformedError, StorageError
from kraftd.metadata.feature_levels import METADATA_VERSION
from kraftd.records import names, quorum_state
from kraftd.records.batch import scan
from kraftd.records.frame import RawRecord, decode_record
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from kraftd.records.snapshot import SnapshotDecoder
from kraftd.storage.bootstrap import ZERO_CHECKPOINT, read_zero_checkpoint
from kraftd.storage.log_reader import ReaderView
from kraftd.storage.node_directory import NodeDirectory

_READ_BYTES = 1 << 20
_WITHOUT_STATE = (
    NoOpRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    AbortTransactionRecord,
)
"""Records that any release may have written first."""


def refuse_old_log(directory: NodeDirectory) -> None:
    """Refuse a log that has records but no `metadata.version`.

    Raises:
        StorageError: It is such a log.
    """
    is_cut = directory.log.start_offset > 0
    if not _is_old(_snapshot_values(directory) if is_cut else _values(directory.log.reader_view())):
        return
    raise StorageError(
        f"{directory.path}: its log has no metadata.version, as those of Kafka before 3.3, and only kraftctl "
        "reads it: set one with `kafka-features upgrade` of Kafka 3.3 to 3.9 first"
    )


def refuse_dynamic_voters(directory: NodeDirectory) -> None:
    """Refuse the directory of a quorum that keeps its voters in the log.

    Kafka's formatter puts the first voters into the zero checkpoint, and Kafka writes `quorum-state` in
    version 1 for such a quorum, and for no other.

    Raises:
        StorageError: It is such a directory, or its zero checkpoint is damaged and may say so.
    """
    log_path = directory.path / names.LOG_DIRECTORY
    zero = None
    is_dynamic = _election_version(directory) > 0
    try:
        zero = read_zero_checkpoint(directory.disk, log_path)
    except StorageError:
        if not is_dynamic:
            raise
    if zero is not None and zero.has_voters:
        file = ZERO_CHECKPOINT
    elif is_dynamic:
        file = names.QUORUM_STATE
    else:
        return
    raise StorageError(
        f"{log_path / file}: belongs to a quorum with dynamic voters (kraft.version 1), and kraftd knows "
        "only those of controller.quorum.voters yet: leave this directory to Kafka"
    )


def _election_version(directory: NodeDirectory) -> int:
    data = directory.disk.read_file(directory.path / names.LOG_DIRECTORY / names.QUORUM_STATE)
    try:
        return quorum_state.decode(data)[1] if data is not None else 0
    except MalformedError:
        return 0  # opening the directory has reported it already


def _is_old(values: Iterator[bytes]) -> bool:
    has_state = False
    try:
        for value in values:
            record = decode_record(value)
            if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
                return False
            # Of a newer program, perhaps its metadata.version: whoever applies it says what it is.
            if isinstance(record, RawRecord):
                return False
            has_state = has_state or not isinstance(record, _WITHOUT_STATE)
    except (StorageError, MalformedError):
        return False  # the damage is reported elsewhere, and the damaged part may have held it
    return has_state


def _values(log: ReaderView) -> Iterator[bytes]:
    offset = log.start_offset
    while offset < log.end_offset:
        for batch in scan(log.read(offset, _READ_BYTES)):
            yield from batch.values()
            offset = batch.end_offset


def _snapshot_values(directory: NodeDirectory) -> Iterator[bytes]:
    """The records of the newest snapshot; none without one."""
    newest = directory.snapshots.newest
    reader = directory.snapshots.open_reader(newest.id) if newest is not None else None
    if reader is None:
        return
    decoder, position = SnapshotDecoder(epoch=reader.id.epoch), 0
    try:
        while piece := reader.read(position, _READ_BYTES):
            for batch in decoder.feed(piece):
                yield from () if batch.is_control else batch.values()
            position += len(piece)
    finally:
        reader.release()
