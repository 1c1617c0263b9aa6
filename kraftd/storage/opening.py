"""The steps of opening a node's directory: each looks at one file, and says what is wrong with it.

Entered by `NodeDirectory.open`, which has their order. Not here: the log (`log`), and what is concluded from
all of them (`node_directory`).
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from kraftd.errors import MalformedError, StorageError
from kraftd.records import meta_properties, names, partition_metadata
from kraftd.records.meta_properties import MetaProperties
from kraftd.storage.disk import Disk
from kraftd.storage.election_store import ElectionFinding, judge_election
from kraftd.storage.filesystem import Access
from kraftd.storage.log import Log
from kraftd.storage.sidecar import Sidecar, bounded, load_durable_sidecar
from kraftd.types import METADATA_TOPIC_ID, HealthKind, NodeId, Uuid, uuid_text

FORMAT_OR_MOUNT = (
    "run `kraftctl format` for a new node; if one ran here, its disk is not mounted, or what was here is lost"
)


def take_lock(disk: Disk, path: Path) -> int:
    """Lock a directory against all other processes (LOG-19). Returns the lock's handle.

    Raises:
        StorageError: Another process holds it.
    """
    lock_path = path / names.LOCK
    handle = disk.open(lock_path, Access.CREATE)
    if not disk.fs.lock(handle):
        disk.close(handle)
        raise StorageError(
            f"{lock_path}: another process holds it: stop that one, or give this one a directory of its own"
        )
    return handle


def identify(
    disk: Disk, path: Path, node_id: NodeId, cluster_id: str | None, random_uuid: Callable[[], Uuid]
) -> MetaProperties:
    """Read the ids of this directory; give it a directory id if it has none."""
    file = path / names.META_PROPERTIES
    data = disk.read_file(file)
    if data is None:
        raise StorageError(f"{path}: is not formatted (no {file.name}): {FORMAT_OR_MOUNT}")
    try:
        properties = meta_properties.decode(data)
    except MalformedError as error:
        raise StorageError(f"{file}: {error}: restore the file, or format the directory anew") from error
    if properties.node_id != node_id:
        raise StorageError(
            f"{file}: belongs to node {properties.node_id}, not to node {node_id}: "
            "correct node.id or metadata.log.dir"
        )
    if cluster_id is not None and properties.cluster_id != cluster_id:
        raise StorageError(
            f"{file}: belongs to cluster {properties.cluster_id}, not to {cluster_id}: "
            "correct metadata.log.dir"
        )
    if properties.directory_id is None:
        properties = MetaProperties(properties.cluster_id, node_id, random_uuid())
        disk.replace(file, meta_properties.encode(properties))
    return properties


def prepare_log_directory(disk: Disk, log_path: Path) -> None:
    """Create the log's directory with the topic id that it belongs to, or check that id (LOG-20)."""
    if not disk.fs.is_directory(log_path):
        disk.make_directory(log_path)
    file = log_path / names.PARTITION_METADATA
    data = disk.read_file(file)
    if data is None:
        disk.replace(file, partition_metadata.encode(METADATA_TOPIC_ID))
        return
    try:
        topic_id = partition_metadata.decode(data)
    except MalformedError as error:
        raise StorageError(f"{file}: {error}: remove the file if this is a metadata log") from error
    if topic_id != METADATA_TOPIC_ID:
        raise StorageError(
            f"{file}: belongs to topic {uuid_text(topic_id)}, not to the metadata log: "
            "correct metadata.log.dir"
        )


def open_sidecar(disk: Disk, path: Path) -> tuple[ElectionFinding, Sidecar, list[str]]:
    """Compare the election file with the sidecar, and open the sidecar for writing.

    If another program has written since, the recovery point is dropped, durably, before the log is opened.
    """
    file = path / names.LOG_DIRECTORY / names.QUORUM_STATE
    reading = load_durable_sidecar(disk, path / names.SIDECAR)
    local_state = reading.state.local_state if reading.state is not None else None
    warnings = []
    try:
        data = disk.read_file(file)
    except StorageError as error:
        # An unreadable file may have held a vote, as an empty one may have.
        data = b""
        warnings.append(str(error))
    finding = judge_election(file, data, local_state)
    sidecar = Sidecar(disk, path / names.SIDECAR, reading)
    if local_state is None and finding.written_elsewhere and not reading.problem:
        warnings.append(
            f"{path / names.SIDECAR}: is not there: written by another program, or the file is lost; "
            "its election is taken over, and what had been flushed is not known"
        )
    if local_state is not None and finding.written_elsewhere:
        sidecar.lower_recovery_point(None)
        warnings.append(
            f"{file}: another program wrote epoch {finding.election.epoch}; its election is taken over, "
            "and what had been flushed is not known any more"
        )
    return finding, sidecar, warnings


def record_incomplete_copy(disk: Disk, log_path: Path, sidecar: Sidecar) -> None:
    """Write durably that the end of a log from another program is missing, if its epochs say so.

    Without a flushed offset nothing else can tell. Opening the log makes `leader-epoch-checkpoint` anew, so
    this comes first.
    """
    log, report = Log.open(disk, log_path, read_only=True)
    log.abandon()
    if report.incomplete and sidecar.local_state.health != HealthKind.AMNESIA:
        text = "; ".join(report.incomplete)
        reason = f"{text}: what it acknowledged is forgotten: copy the directory again, from a stopped node"
        sidecar.save_twice(
            msgspec.structs.replace(
                sidecar.local_state, health=HealthKind.AMNESIA, reasons=bounded((reason,))
            )
        )
