"""The steps of opening a node's directory: each looks at one file, and says what is wrong with it.

Entered by `NodeDirectory.open`, which has their order. Not here: the log (`log`), and what is concluded from
all of them (`node_directory`).
"""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from kraftd.errors import MalformedError, StorageError
from kraftd.records import meta_properties, names, partition_metadata
from kraftd.records.meta_properties import MetaProperties
from kraftd.storage.disk import Disk, StorageFailure
from kraftd.storage.election_store import ElectionFinding, judge_election
from kraftd.storage.epoch_checkpoint import load_epochs
from kraftd.storage.filesystem import Access, FileSystem
from kraftd.storage.log import Log
from kraftd.storage.log_start import OpenReport, may_be_needless, needless_snapshots
from kraftd.storage.recovery import recover
from kraftd.storage.sidecar import Sidecar, bounded, load_durable_sidecar
from kraftd.storage.snapshot_files import SnapshotFiles, SnapshotSurvey, instead_text, survey_snapshots
from kraftd.types import METADATA_TOPIC_ID, HealthKind, NodeId, Offset, OffsetAndEpoch, Uuid, uuid_text

FORMAT_OR_MOUNT = (
    "run `kraftctl format` for a new node; if one ran here, its disk is not mounted, or what was here is lost"
)


def refuse_second_log(fs: FileSystem, path: Path, other_log_dirs: Sequence[Path]) -> None:
    """Refuse a metadata log in another of the node's directories.

    Raises:
        StorageError: There is one.
    """
    for other in other_log_dirs:
        if other != path and fs.is_directory(other / names.LOG_DIRECTORY):
            raise StorageError(
                f"{other / names.LOG_DIRECTORY}: a second metadata log besides that of {path}: "
                "set metadata.log.dir to the one that is right and move the other away"
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
    properties = read_properties(disk, file)
    if properties is None:
        raise StorageError(f"{path}: is not formatted (no {file.name}): {FORMAT_OR_MOUNT}")
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


def read_properties(disk: Disk, file: Path) -> MetaProperties | None:
    """Read a `meta.properties`; None if there is none.

    Raises:
        StorageError: It cannot be read, or does not say which cluster and which node this is.
    """
    data = disk.read_file(file)
    if data is None:
        return None
    try:
        properties = meta_properties.decode(data)
        problem = properties.problem
    except MalformedError as error:
        problem = str(error)
    if problem:
        raise StorageError(f"{file}: {problem}: restore the file, or format the directory anew")
    return properties


def no_directory(disk: Disk, log_path: Path) -> str:
    """What is told of something in the place of the log's directory that is none; empty if nothing is."""
    if disk.fs.is_directory(log_path) or not disk.fs.exists(log_path):
        return ""
    return f"{log_path}: is no directory: move it away, and put the directory of the log back"


def prepare_log_directory(disk: Disk, log_path: Path) -> None:
    """Create the log's directory with the topic id that it belongs to, or check that id (LOG-20)."""
    if not disk.fs.is_directory(log_path):
        if problem := no_directory(disk, log_path):
            raise StorageError(problem)
        disk.make_directory(log_path)
    file = log_path / names.PARTITION_METADATA
    if not has_partition_metadata(disk, file):
        disk.replace(file, partition_metadata.encode(METADATA_TOPIC_ID))


def has_partition_metadata(disk: Disk, file: Path) -> bool:
    """Whether the file is there that says which topic's log this is.

    Raises:
        StorageError: It cannot be read, or names another topic.
    """
    data = disk.read_file(file)
    if data is None:
        return False
    try:
        topic_id = partition_metadata.decode(data)
    except MalformedError as error:
        raise StorageError(f"{file}: {error}: remove the file if this is a metadata log") from error
    if topic_id != METADATA_TOPIC_ID:
        raise StorageError(
            f"{file}: belongs to topic {uuid_text(topic_id)}, not to the metadata log: "
            "correct metadata.log.dir"
        )
    return True


def open_sidecar(disk: Disk, path: Path) -> tuple[ElectionFinding, Sidecar, list[str]]:
    """Compare the election file with the sidecar, and open the sidecar for writing.

    If another program has written since, the recovery point is dropped, durably, before the log is opened.
    """
    file = path / names.LOG_DIRECTORY / names.QUORUM_STATE
    reading = load_durable_sidecar(disk, path / names.SIDECAR)
    local_state = reading.state.local_state if reading.state is not None else None
    warnings = []
    try:
        data = disk.read_durable(file)
    except StorageFailure:
        raise
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
        sidecar.move_recovery_point(None)
        warnings.append(
            f"{file}: another program wrote epoch {finding.election.epoch}; its election is taken over, "
            "and what had been flushed is not known any more"
        )
    return finding, sidecar, warnings


def record_incomplete_copy(
    disk: Disk, log_path: Path, sidecar: Sidecar, snapshots: Sequence[OffsetAndEpoch]
) -> None:
    """Write durably that the end of a log from another program is missing, if its epochs say so.

    Without a flushed offset nothing else can tell. Opening the log makes `leader-epoch-checkpoint` anew, so
    this comes first.
    """
    log, report = Log.open(disk, log_path, snapshots=snapshots, read_only=True)
    log.abandon()
    if report.incomplete:
        text = "; ".join(report.incomplete)
        _record_amnesia(
            sidecar,
            f"{text}: what it acknowledged is forgotten: copy the directory again, from a stopped node",
        )


def needless_of(
    disk: Disk, log_path: Path, recovery_point: OffsetAndEpoch | None, survey: SnapshotSurvey
) -> tuple[OffsetAndEpoch, ...]:
    """The snapshots that would take the place of a log which holds all that this node acknowledged, oldest
    first (`log_start`). Changes nothing, and reads the log only if small files leave it open.

    Args:
        disk: Where they are.
        log_path: `__cluster_metadata-0`.
        recovery_point: What the sidecar knows as flushed; None if there is none that can be relied on.
        survey: The snapshots that are there.

    Raises:
        StorageError: The log cannot be opened.
    """
    if recovery_point is None or not survey.ids:
        return ()
    epochs, _ = load_epochs(disk, log_path / names.EPOCH_CHECKPOINT)
    if not may_be_needless(survey.ids[-1], recovery_point, epochs):
        return ()
    recovered = recover(disk, log_path, epochs, recovery_point, read_only=True)
    for segment in recovered.segments:
        disk.close(segment.handle)
    found = needless_snapshots(recovered, survey.ids, recovery_point)
    # What takes its place was not proved yet to be whole, and may be all that leads to the log.
    rest = survey_snapshots(disk, log_path, without=found) if found else survey
    return found if needless_snapshots(recovered, (*rest.ids, *found), recovery_point) == found else ()


def set_needless_aside(
    disk: Disk, log_path: Path, recovery_point: OffsetAndEpoch | None, survey: SnapshotSurvey
) -> tuple[SnapshotSurvey, list[str]]:
    """Take their names from the snapshots that the log has no need of, durably, before it is opened.

    Else one would come into effect once the log has grown past its end. Its bytes stay: they may be of use to
    the cluster that they are of. A crash before the new name leaves it all to the next start.

    Returns:
        The snapshots that are left, and one line for each that was set aside.
    """
    needless = needless_of(disk, log_path, recovery_point, survey)
    if not needless:
        return survey, []
    for snapshot_id in needless:
        _set_aside(disk, log_path / names.snapshot_name(snapshot_id))
    return survey_snapshots(disk, log_path), [needless_text(log_path, one) for one in needless]


def needless_text(log_path: Path, snapshot_id: OffsetAndEpoch) -> str:
    """What is told of a snapshot that the log has no need of."""
    return (
        f"{log_path / names.snapshot_name(snapshot_id)}: goes further than the log, or another way, and the "
        f"log holds all that {names.SIDECAR} knows as flushed: it is not used, but set aside "
        f"({names.ASIDE}); what is committed is fetched from the leader"
    )


def keep_only_usable_log(disk: Disk, log_path: Path, sidecar: Sidecar, survey: SnapshotSurvey) -> list[str]:
    """Set a log aside that begins above every whole snapshot, if there was one and its bytes are bad (D-23).

    Nothing leads to the records of such a log, so what they acknowledged is lost with the snapshot (D-06).
    The node begins anew, loads the leader's, and counts again when it has learned what it may have promised.
    Its segments stay, under another name, until then: if all voters are hit they are what is left.

    Returns:
        That it was set aside, in a line; nothing if the log can be used. A node that had forgotten before
        keeps that as its reason, so this is told in any case.

    Raises:
        StorageError: There is no snapshot that it could begin at: rather put it back (SNAP-25).
    """
    text = unusable_log(disk, log_path, survey)
    if not text:
        return []
    _record_amnesia(sidecar, text)
    sidecar.move_recovery_point(OffsetAndEpoch(0, 0))
    # The last one first: what a crash leaves still begins where the damaged snapshot ends, so that the next
    # start finds the same, and ends this.
    for base_offset in sorted(_segment_bases(disk, log_path), reverse=True):
        _set_aside(disk, log_path / names.segment_name(base_offset))
    return [text]


def _set_aside(disk: Disk, path: Path) -> None:
    """Take a file's name away and keep its bytes; durable on return.

    Raises:
        StorageError: A directory has the name that it would get.
    """
    aside = path.with_name(path.name + names.ASIDE)
    if disk.fs.is_directory(aside):
        raise StorageError(f"{aside}: is a directory, and {path.name} is to get this name: move it away")
    disk.rename(path, aside)
    disk.sync_directory(path.parent)


def unusable_log(disk: Disk, log_path: Path, survey: SnapshotSurvey) -> str:
    """Return why nothing leads to the records of a log, as one line; empty if something does.

    Raises:
        StorageError: There is no snapshot that it could begin at (SNAP-25).
    """
    start_offset = min(_segment_bases(disk, log_path), default=0)
    if start_offset == 0 or any(one.offset >= start_offset for one in survey.ids):
        return ""
    damaged = [text for snapshot_id, text in survey.damaged if snapshot_id.offset >= start_offset]
    if not damaged:
        raise StorageError(
            f"{log_path}: the log begins at offset {start_offset}, and no snapshot is there that holds the "
            "state before it: bring the newest .checkpoint file of this node back, or format the directory "
            "anew, and it fetches everything from the others"
        )
    return (
        f"{damaged[-1]}: the log begins at offset {start_offset}, and nothing else holds the state before "
        f"it, so what this node acknowledged is lost: its segments are set aside ({names.ASIDE}), and it "
        "does not count until it has loaded the leader's snapshot"
    )


def sort_snapshots(
    disk: Disk, log_path: Path, survey: SnapshotSurvey, log: Log, report: OpenReport
) -> tuple[SnapshotFiles, list[str]]:
    """Tell the snapshots that an opened log goes on from from all others, and remove those that are of no use
    any more (SNAP-24). One that the log contradicts stays, and so does a damaged one that the log reaches
    back to: a disk may give tomorrow what it refuses today.

    Returns:
        The snapshots, and what an operator should know of them, in lines.
    """
    first_offset = min((base_offset for base_offset, *_ in log.segment_files), default=log.start_offset)
    others: list[OffsetAndEpoch] = []
    told = list(survey.strange)
    for snapshot_id in survey.ids:
        path = log_path / names.snapshot_name(snapshot_id)
        if snapshot_id in report.snapshots:
            continue
        same = [one for one in report.snapshots if one.offset == snapshot_id.offset]
        if snapshot_id.offset < log.start_offset:
            disk.remove(path)
        elif same:
            # Node 3 knows by its sidecar that 384-1 is the one, and the log is empty there. Once it holds
            # records of epoch 5, a next start would know no more which of the two it goes on from.
            _set_aside(disk, path)
            told.append(
                f"{path}: ends where the snapshot of epoch {same[0].epoch} ends, which fits better what is "
                f"known of the log: only one of them can be of it: this one is set aside ({names.ASIDE})"
            )
        else:
            others.append(snapshot_id)
            told.append(f"{path}: is not of this log, and is not used: remove the file")
    for snapshot_id, text in survey.damaged:
        path = log_path / names.snapshot_name(snapshot_id)
        if disk.fs.is_directory(path):
            told.append(text)
        elif snapshot_id.offset < first_offset:
            disk.remove(path)
            told.append(f"{text}; removed: it is of no use to a log that begins at offset {log.start_offset}")
        else:
            others.append(snapshot_id)
            told.append(f"{text}; {instead_text(report.snapshots)}")
    for snapshot_id, path in _snapshots_aside(disk, log_path):
        if snapshot_id.offset < log.start_offset and not disk.fs.is_directory(path):
            disk.remove(path)
    infos = tuple(info for info in survey.infos if info.id in report.snapshots)
    return SnapshotFiles(disk, log_path, infos, others), told


def segments_aside(disk: Disk, log_path: Path) -> tuple[Path, ...]:
    """The segments that were set aside."""
    found = (log_path / name for name in disk.names(log_path) if name.endswith(names.LOG + names.ASIDE))
    return tuple(path for path in found if not disk.fs.is_directory(path))


def _snapshots_aside(disk: Disk, log_path: Path) -> list[tuple[OffsetAndEpoch, Path]]:
    found = []
    for name in disk.names(log_path):
        if name.endswith(names.CHECKPOINT + names.ASIDE):
            with contextlib.suppress(MalformedError):  # somebody else's name
                snapshot_id = names.parse_snapshot_name(name.removesuffix(names.ASIDE))
                found += [(snapshot_id, log_path / name)] if snapshot_id is not None else []
    return found


def _segment_bases(disk: Disk, log_path: Path) -> list[Offset]:
    found = []
    for name in disk.names(log_path):
        try:
            parsed = names.parse_segment_name(name)
        except MalformedError:
            continue  # opening the log tells of it
        if parsed is not None and name.endswith(names.LOG):
            found.append(parsed.base_offset)
    return found


def _record_amnesia(sidecar: Sidecar, reason: str) -> None:
    """Write durably that promises may be forgotten, unless that is known already."""
    local_state = sidecar.local_state
    if local_state.health != HealthKind.AMNESIA:
        sidecar.save_twice(
            msgspec.structs.replace(local_state, health=HealthKind.AMNESIA, reasons=bounded((reason,)))
        )
