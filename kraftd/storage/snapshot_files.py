"""The snapshots of one directory: which there are, which are read, which go.

`survey_snapshots` looks at them once, at a start: the newest is proved from end to end, and where it is
damaged the one before it, until one is whole; of the older ones the header is read. What is damaged counts
for nothing, neither for the cleaner nor for others, and stays where it is.

From then on `SnapshotFiles` knows them; all its methods are called on the loop. A `SnapshotReader` pins its
file while it is read in another thread. A snapshot that goes is renamed to `….deleted`, durably, and unlinked
later (`removal`). A snapshot at offset 0 holds no state (Kafka's formatter keeps the first voters there); it
is neither listed nor touched.

Follows: Kafka's KafkaMetadataLog, for its snapshots (SNAP-19, SNAP-20, SNAP-24, CLN-06).
Differs: Kafka takes each for whole, and finds out when it loads one.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kraftd.errors import MalformedError, StorageError
from kraftd.records import names
from kraftd.records.snapshot import SnapshotDecoder
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import Access
from kraftd.storage.removal import Hold, Pins, Removal, deleted, no_file_text, retire
from kraftd.storage.snapshots import PIECE_BYTES, SnapshotInfo, SnapshotWriter, prove
from kraftd.types import OffsetAndEpoch

_HEADER_READ_BYTES: Final = 1 << 16
"""More than a header and the voters that may stand in its batch."""

_STRANGE: Final = "it is no snapshot of this log: remove the file"


class SnapshotSurvey(NamedTuple):
    """The snapshots that a start finds."""

    infos: tuple[SnapshotInfo, ...] = ()
    """Those that count, oldest first. The newest was proved, the header of each was read."""
    damaged: tuple[tuple[OffsetAndEpoch, str], ...] = ()
    """Those that cannot be read, oldest first: file, byte and what is wrong, in one line."""
    strange: tuple[str, ...] = ()
    """Of each name that has the form of a snapshot's and cannot be one's: which, and why, in one line."""

    @property
    def ids(self) -> tuple[OffsetAndEpoch, ...]:
        """The ids of those that count, oldest first."""
        return tuple(info.id for info in self.infos)


def survey_snapshots(disk: Disk, directory: Path, without: Collection[OffsetAndEpoch] = ()) -> SnapshotSurvey:
    """Look at the snapshots of a directory, but for those that are passed over, and change nothing.

    All that end where the newest ends are proved: which of them is of the log is decided later (`log_start`).
    """
    found: list[SnapshotInfo] = []
    damaged: list[tuple[OffsetAndEpoch, str]] = []
    ids, strange = _ids_in(disk, directory)
    wanted = (each for each in ids if each not in without)
    for snapshot_id in sorted(wanted, key=lambda each: each.log_order, reverse=True):
        path = directory / names.snapshot_name(snapshot_id)
        is_newest = not found or found[0].id.offset == snapshot_id.offset
        try:
            found.append(_info_of(disk, path, snapshot_id, is_proof=is_newest))
        except (MalformedError, StorageError) as error:
            if disk.fs.exists(path):  # else it went while we looked
                damaged.append((snapshot_id, str(error)))
    return SnapshotSurvey(tuple(reversed(found)), tuple(reversed(damaged)), strange)


def instead_text(used: Sequence[OffsetAndEpoch]) -> str:
    """What a node goes by in place of a snapshot that is damaged, of those that its log goes on from."""
    return (
        f"{f'the snapshot at offset {used[-1].offset}' if used else 'the log from offset 0'} is used instead"
    )


def _ids_in(disk: Disk, directory: Path) -> tuple[list[OffsetAndEpoch], tuple[str, ...]]:
    """The ids of all files with a snapshot's name, and a line for each name that only looks like one."""
    ids, strange = [], []
    for name in disk.names(directory):
        if name.endswith(names.DELETED):
            continue
        try:
            snapshot_id = names.parse_snapshot_name(name)
        except MalformedError as error:
            strange.append(f"{directory / name}: {str(error).removeprefix(f'{name}: ')}: {_STRANGE}")
            continue
        if snapshot_id is not None and snapshot_id.offset > 0:
            ids.append(snapshot_id)
    return ids, tuple(strange)


def damage_of(disk: Disk, directory: Path, snapshot_id: OffsetAndEpoch) -> str:
    """Read a snapshot from end to end. Returns file, byte and what is wrong; empty if it is whole."""
    path = directory / names.snapshot_name(snapshot_id)
    try:
        _info_of(disk, path, snapshot_id, is_proof=True)
    except (MalformedError, StorageError) as error:
        return str(error)
    return ""


def _info_of(disk: Disk, path: Path, snapshot_id: OffsetAndEpoch, *, is_proof: bool) -> SnapshotInfo:
    """Read a snapshot's header, or all of it.

    Raises:
        StorageError: The file cannot be read.
        MalformedError: What is in it is no snapshot.
    """
    if disk.fs.is_directory(path):
        raise StorageError(no_file_text(path))
    handle = disk.open(path, Access.READ)
    try:
        if is_proof:
            size_bytes, timestamp_ms = prove(
                path, snapshot_id, lambda position: disk.read(handle, PIECE_BYTES, position, path)
            )
            return SnapshotInfo(snapshot_id, size_bytes, timestamp_ms)
        decoder = SnapshotDecoder(str(path), snapshot_id.epoch)
        next(decoder.feed(disk.read(handle, _HEADER_READ_BYTES, 0, path)), None)
        if decoder.header is None:
            raise MalformedError(f"{path} at byte 0: has no header, so it is no snapshot")
        timestamp_ms = decoder.header.last_contained_log_timestamp
        return SnapshotInfo(snapshot_id, disk.size(handle, path), timestamp_ms)
    finally:
        disk.close(handle)


class SnapshotReader:
    """One snapshot, pinned: its file stays until `release`."""

    __slots__ = ("_disk", "_handle", "_path", "_pins", "id", "info", "size_bytes")

    def __init__(self, disk: Disk, path: Path, info: SnapshotInfo, pins: Pins) -> None:
        self._disk = disk
        self._path = path
        self._handle = disk.open(path, Access.READ)
        self._pins = pins
        pins.count += 1
        self.info = info
        """The file that is read: another one may take its name meanwhile."""
        self.id = info.id
        self.size_bytes = info.size_bytes

    def read(self, position: int, max_bytes: int) -> bytes:
        """Return bytes from a position on, fewer at the end; in any thread.

        Raises:
            StorageError: The disk cannot read them.
        """
        return self._disk.read(self._handle, max_bytes, position, self._path)

    def release(self) -> None:
        """Let go of the file; on the loop, once."""
        self._pins.count -= 1
        self._disk.close(self._handle)


class SnapshotFiles:
    """The snapshots that count, and those that are going."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        infos: tuple[SnapshotInfo, ...],
        others: Sequence[OffsetAndEpoch] = (),
    ) -> None:
        """Begin with what a start found; `others` have a snapshot's name and do not count."""
        self._disk = disk
        self._directory = directory
        self.infos = infos
        """Oldest first."""
        self._others = tuple(others)
        self._pins: dict[OffsetAndEpoch, Pins] = {}
        self._retired: list[OffsetAndEpoch] = []

    @property
    def newest(self) -> SnapshotInfo | None:
        """The newest, None if there is none."""
        return self.infos[-1] if self.infos else None

    def get(self, snapshot_id: OffsetAndEpoch) -> SnapshotInfo | None:
        """Return the one with this id, None if it does not count."""
        return next((info for info in self.infos if info.id == snapshot_id), None)

    def add(self, info: SnapshotInfo) -> None:
        """Count one that has just got its name."""
        before = [each for each in self.infos if each.id != info.id]
        self.infos = tuple(sorted([*before, info], key=lambda each: each.id.log_order))
        self._others = tuple(one for one in self._others if one != info.id)

    def mark_damaged(self, snapshot_id: OffsetAndEpoch) -> None:
        """Count one no more that turned out damaged or cannot be read; it goes with the log before it."""
        if self.get(snapshot_id) is None:
            return
        self.infos = tuple(info for info in self.infos if info.id != snapshot_id)
        self._others += (snapshot_id,)

    def still_counts(self, info: SnapshotInfo) -> bool:
        """Whether this file counts, and not one that has taken its name since.

        Two followers download the only snapshot, at 300, and both reads meet a bad sector. The first ends:
        the snapshot counts no more, and another one is written, at 300, since nothing came meanwhile. What
        the second read tells is of the former file.
        """
        return self.get(info.id) is info

    def path_of(self, snapshot_id: OffsetAndEpoch) -> Path:
        """Return where a snapshot is."""
        return self._directory / names.snapshot_name(snapshot_id)

    def writer(self, snapshot_id: OffsetAndEpoch) -> SnapshotWriter:
        """Return what writes a snapshot, in a thread; it counts once it was added."""
        return SnapshotWriter(self._disk, self._directory, snapshot_id)

    def open_reader(self, snapshot_id: OffsetAndEpoch) -> SnapshotReader | None:
        """Return a reader of a snapshot; None if it does not count, or cannot be opened (SNAP-20)."""
        info = self.get(snapshot_id)
        if info is None:
            return None
        try:
            return SnapshotReader(self._disk, self.path_of(snapshot_id), info, self._pins_of(snapshot_id))
        except StorageError:
            return None

    def hold(self) -> Hold:
        """Keep the files of all that count until they are released, whatever becomes of their names."""
        return Hold([self._pins_of(info.id) for info in self.infos])

    def _pins_of(self, snapshot_id: OffsetAndEpoch) -> Pins:
        return self._pins.setdefault(snapshot_id, Pins())

    def remove(self, snapshot_ids: Sequence[OffsetAndEpoch]) -> None:
        """Take the names of snapshots away, durably; the files go with a later `take_removal`."""
        self.infos = tuple(info for info in self.infos if info.id not in snapshot_ids)
        retire(self._disk, self._directory, map(self.path_of, snapshot_ids))
        self._retired += snapshot_ids

    def remove_before(self, start: OffsetAndEpoch) -> None:
        """Let go what is of no use to a log that begins at the end of this snapshot (CLN-06): those before
        it, and what only has such a name. A directory with such a name is not ours to remove.
        """
        gone = [info.id for info in self.infos if info.id.log_order < start.log_order]
        for snapshot_id in self._others:
            is_file = not self._disk.fs.is_directory(self.path_of(snapshot_id))
            if snapshot_id.offset < start.offset and is_file:
                gone.append(snapshot_id)
        self._others = tuple(one for one in self._others if one not in gone)
        if gone:
            self.remove(gone)

    def take_removal(self) -> Removal:
        """Return the files that nobody reads any more: the caller removes them."""
        free = [one for one in self._retired if one not in self._pins or not self._pins[one].count]
        self._retired = [one for one in self._retired if one not in free]
        paths = (deleted(self.path_of(one)) for one in free)
        return Removal(self._disk.fs, paths=tuple(paths))
