"""The snapshots of one directory, and the files of them that are open for reading.

`SnapshotFiles` is asked on the loop; a `SnapshotReader` reads in a thread.
"""

from pathlib import Path

from kraftd.errors import StorageError
from kraftd.records import names
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import Access
from kraftd.storage.snapshots import SnapshotInfo, SnapshotWriter, _id_of, _info_of
from kraftd.types import OffsetAndEpoch


class SnapshotReader:
    """One snapshot that is open for reading."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk, self._path = disk, path
        self._handle = disk.open(path, Access.READ)
        self.size_bytes = disk.size(self._handle, path)

    def read(self, position: int, max_bytes: int) -> bytes:
        """Read some bytes, in a thread; StorageError if the disk refuses."""
        return self._disk.read(self._handle, max_bytes, position, self._path)

    def release(self) -> None:
        """Let go of the file."""
        self._disk.close(self._handle)


class SnapshotFiles:
    """The snapshots of one directory."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk, self._directory = disk, directory
        self.infos: tuple[SnapshotInfo, ...] = _all(disk, directory)
        """Those whose header can be read, oldest first."""

    @property
    def newest(self) -> SnapshotInfo | None:
        """The newest of them."""
        return self.infos[-1] if self.infos else None

    def add(self, info: SnapshotInfo) -> None:
        """Note one that was written."""
        others = (each for each in self.infos if each.id != info.id)
        self.infos = tuple(sorted((*others, info), key=lambda each: each.id.log_order))

    def writer(self, snapshot_id: OffsetAndEpoch) -> SnapshotWriter:
        """What writes a snapshot, in a thread."""
        return SnapshotWriter(self._disk, self._directory, snapshot_id)

    def open_reader(self, snapshot_id: OffsetAndEpoch) -> SnapshotReader | None:
        """Open one; None if it is not there, or cannot be opened."""
        try:
            return SnapshotReader(self._disk, self._directory / names.snapshot_name(snapshot_id))
        except StorageError:
            return None


def _all(disk: Disk, directory: Path) -> tuple[SnapshotInfo, ...]:
    ids = [snapshot_id for name in disk.names(directory) if (snapshot_id := _id_of(name)) is not None]
    infos = [
        _info_of(disk, directory / names.snapshot_name(each), each)
        for each in sorted(ids, key=lambda each: each.log_order)
    ]
    return tuple(info for info in infos if info is not None)
