"""Opens the segments at a start: cuts what is torn, and makes the rest durable (D-04, D-05).

What is torn, and what is damage and stays, is decided by `log_scan`, which reads every batch but those that a
snapshot stands for (`unread_segments`); and these as well, if it finds anything but a torn end. Here it is
cut.

Bytes that a `kill -9` left in the page cache look durable and are not, and pages of a failed fsync look
clean. So what lies above the recovery point is synced, dropped from the page cache and read again; only what
then comes from the disk counts.

A batch's checksum does not cover its epoch, and a wrong one would make this log look newer than it is. So
the epochs are compared with `leader-epoch-checkpoint`, which had each of them before its first batch counted
as flushed. One batch that disagrees is a bad one; if several do, the checkpoint is wrong, and is made anew.

Entered by `tidy` and `recover`. Not here: creating the first segment, index files,
`leader-epoch-checkpoint` (`log`).
"""

from collections.abc import Sequence
from pathlib import Path

from kraftd.errors import CorruptBatchError, MalformedError, StorageError
from kraftd.records import names
from kraftd.storage.batch_scanner import fingerprint, sound_batches
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import Access
from kraftd.storage.log_scan import LogScan, Recovered
from kraftd.storage.segment import Segment, remove_segments
from kraftd.storage.unread_segments import take_covered
from kraftd.types import EpochEntry, OffsetAndEpoch

_PASSES_MAX = 3
_INDEXES = (".index", ".timeindex")


def recover(
    disk: Disk,
    directory: Path,
    checkpoint_epochs: tuple[EpochEntry, ...],
    recovery_point: OffsetAndEpoch | None,
    snapshots: Sequence[OffsetAndEpoch] = (),
    *,
    read_only: bool,
) -> Recovered:
    """Open and check the segments, cut what is torn, and make the rest durable.

    Args:
        disk: Where it is.
        directory: `__cluster_metadata-0`.
        checkpoint_epochs: The entries of `leader-epoch-checkpoint`; used only together with a recovery point,
            since then both files are ours.
        recovery_point: The flushed offset and its epoch; None if unknown.
        snapshots: Those beside it, oldest first; the newest one is whole.
        read_only: Change nothing, and read everything.

    Raises:
        StorageFailure: The disk refused a cut or a sync.
        StorageError: Two segments claim the same offsets, or each read returns other bytes.
    """
    for _ in range(_PASSES_MAX):
        segments = _open_segments(disk, directory, read_only=read_only)
        if read_only:
            return _scan_log(disk, directory, segments, recovery_point, checkpoint_epochs).result()
        unread = take_covered(disk, segments, snapshots, recovery_point, checkpoint_epochs)
        scan = _scan_end(disk, directory, segments, recovery_point, checkpoint_epochs, unread)
        if scan is None:
            segments = _fresh(segments)
            scan = _scan_log(disk, directory, segments, recovery_point, checkpoint_epochs)
        _apply_cut(disk, directory, scan)
        if _disk_agrees(disk, directory, scan):
            return scan.result()
        for segment in segments[: scan.kept]:
            disk.close(segment.handle)
    raise StorageError(
        f"{directory}: reading the same bytes again gave other bytes, {_PASSES_MAX} times: replace the disk"
    )


def _scan_end(
    disk: Disk,
    directory: Path,
    segments: list[Segment],
    recovery_point: OffsetAndEpoch | None,
    checkpoint_epochs: tuple[EpochEntry, ...],
    unread: int,
) -> LogScan | None:
    """Check the batches behind the segments that were taken; None if all must be read.

    Damage there, or an epoch that is not as expected, throws doubt on what the others were taken for.
    """
    if not unread:
        return None
    scan = LogScan(disk, directory, segments, recovery_point, checkpoint_epochs, unread=unread)
    try:
        scan.run()
    except StorageError:
        return None
    return scan if scan.is_clean else None


def _scan_log(
    disk: Disk,
    directory: Path,
    segments: list[Segment],
    recovery_point: OffsetAndEpoch | None,
    checkpoint_epochs: tuple[EpochEntry, ...],
) -> LogScan:
    """Check every batch; once more if their epochs are not those of `leader-epoch-checkpoint`.

    A fault of the disk changes the epoch of one batch. If several differ, `leader-epoch-checkpoint` is wrong.
    """
    first = LogScan(
        disk, directory, segments, recovery_point, checkpoint_epochs if recovery_point is not None else ()
    )
    try:
        first.run()
    except StorageError:
        if not first.disagreeing:
            raise
        # A batch with a wrong epoch may have led to this: the second pass rejects it.
    if not first.disagreeing:
        return first
    fresh = _fresh(segments)
    if len(first.disagreeing) == 1:
        second = LogScan(
            disk, directory, fresh, recovery_point, checkpoint_epochs, wrong_epoch_at=first.disagreeing[0]
        )
    else:
        second = LogScan(disk, directory, fresh, recovery_point, ())
        path = directory / names.EPOCH_CHECKPOINT
        second.notes = (f"{path}: disagrees with the epochs of the batches and is made anew from them",)
    second.run()
    return second


def _fresh(segments: list[Segment]) -> list[Segment]:
    return [Segment(segment.base_offset, segment.path, segment.handle) for segment in segments]


def _open_segments(disk: Disk, directory: Path, *, read_only: bool) -> list[Segment]:
    access = Access.READ if read_only else Access.WRITE
    segments = []
    for name in disk.names(directory):
        if not name.endswith(".log"):
            continue
        path = directory / name
        try:
            parsed = names.parse_segment_name(name)
        except MalformedError:
            parsed = None
        if parsed is None:
            raise StorageError(f"{path}: not the name of a segment: move the file out of the directory")
        segments.append(Segment(parsed.base_offset, path, disk.open(path, access)))
    return sorted(segments, key=lambda segment: segment.base_offset)


def _apply_cut(disk: Disk, directory: Path, scan: LogScan) -> None:
    """Remove what is torn: later segments newest first, so that a crash on the way leaves a prefix."""
    removed = scan.segments[scan.kept :]
    remove_segments(disk, directory, removed)
    for segment in removed:
        disk.close(segment.handle)
    if scan.resized is not None:
        disk.resize(scan.resized.handle, scan.resized.size_bytes, scan.resized.path)


def _disk_agrees(disk: Disk, directory: Path, scan: LogScan) -> bool:
    """Sync what may never have been flushed, drop it from the page cache, and read it again (D-04). Returns
    whether the disk has the same batches.

    A process is killed before its fsync: its newest records are whole in the page cache only. If the next
    start took them for durable, its first fetch would acknowledge them, and a power failure would lose them.
    """
    kept = scan.segments[: scan.kept]
    number, position = scan.unflushed_from if scan.unflushed_from is not None else (len(kept), 0)
    unflushed = kept[number:]
    for segment in unflushed:
        disk.sync(segment.handle, segment.path)
    disk.sync_directory(directory)
    found = 0
    for segment in unflushed:
        disk.drop_cache(segment.handle, segment.path)
        again = _read_again(disk, segment, position, found)
        if again is None:
            return False
        found = again
        position = 0
    return found == scan.fingerprint


def _read_again(disk: Disk, segment: Segment, position: int, before: int) -> int | None:
    """Return the fingerprint after the batches from `position` on; None if not all of them are sound."""
    bounds = [(hole.position, hole.end_position) for hole in segment.holes]
    bounds.append((segment.size_bytes, segment.size_bytes))
    if disk.size(segment.handle, segment.path) != segment.size_bytes:
        return None
    for hole_start, hole_end in bounds:
        if position < hole_start:
            try:
                for head, checksum in sound_batches(disk, segment.handle, segment.path, position, hole_start):
                    before = fingerprint(head, checksum, before)
            except CorruptBatchError:
                return None
        position = max(position, hole_end)
    return before


def tidy(disk: Disk, directory: Path) -> None:
    """Remove index files without a segment (LOG-15)."""
    files = disk.names(directory)
    segments = {name.removesuffix(".log") for name in files if name.endswith(".log")}
    for name in files:
        stem, dot, suffix = name.partition(".")
        if dot + suffix in _INDEXES and stem not in segments:
            disk.remove(directory / name)
