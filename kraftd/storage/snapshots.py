"""Snapshot files: written beside the log, proved, and only then given their name (D-20).

What is on disk
---------------
`<offset>-<epoch>.checkpoint` is a snapshot. It has that name only after its bytes were read back from the
disk and proved, so whatever a crash leaves under such a name is whole. `….checkpoint.part` is one that is
being written or received, and promises nothing; `….checkpoint.deleted` awaits its deletion.
The next start removes both (`removal`).

What a crash can leave
----------------------
*While writing.* A `.part` of any size and content, or none.

*While freezing.* The file is synced before it is renamed: the `.part` or the snapshot, whole under either
name. A start that finds the name makes it durable when it opens the log.

How it fails
------------
A snapshot that cannot be written costs nothing but itself: the log still holds everything. So a failed write,
sync or rename of this file is a `SnapshotError`, and the process goes on, where any other file's ends it
(D-03). Only the sync of the directory is shared with files that promised something, and fails as theirs does.

It is written in pieces that are each synced, so that the log's own flush never waits for a hundred dirty
megabytes of this file.

Not here: which snapshots there are, and reading them for others (`snapshot_files`).
Follows: Kafka's FileRawSnapshotWriter and Snapshots (SNAP-10, SNAP-12, SNAP-18, SNAP-24).
Differs: Kafka does not read a snapshot back, and takes a file for whole that lacks its footer (Q-21).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from crc32c import crc32c

from kraftd.errors import MalformedError, StorageError
from kraftd.records import names
from kraftd.records.snapshot import SnapshotDecoder
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import Access
from kraftd.types import OffsetAndEpoch

PIECE_BYTES: Final = 1 << 20
"""How much is written between two syncs, and read at once."""

_T = TypeVar("_T")


class SnapshotError(StorageError):
    """A snapshot could not be written. Nothing was promised, so nothing is lost."""


class GivenDamagedError(SnapshotError):
    """What was to be written is no whole snapshot. The disk is well: it holds what it was given."""


class SnapshotInfo(msgspec.Struct, frozen=True):
    """A snapshot that has its name."""

    id: OffsetAndEpoch
    size_bytes: int
    last_contained_timestamp_ms: int


class SnapshotWriter:
    """One snapshot that is being written, in a thread of its own. It is ended by `freeze` or `drop`.

    Every method raises `SnapshotError` for a failure of this file; then only `drop` may be called. Pieces
    that wait behind one that failed, or behind the end of a download, are refused: they would begin anew a
    file that nobody gives up any more.
    """

    def __init__(self, disk: Disk, directory: Path, snapshot_id: OffsetAndEpoch) -> None:
        self._disk = disk
        self._directory = directory
        self._id = snapshot_id
        self.path = directory / names.snapshot_name(snapshot_id)
        """The name that it will have."""
        self._part = self.path.with_name(self.path.name + names.PART)
        self._handle = -1
        self._is_dropped = False
        self._checksum = 0
        """CRC-32C of what was given."""
        self.size_bytes = 0
        """What was written so far."""

    def append(self, piece: bytes) -> None:
        """Write the next bytes, durably."""
        fs = self._disk.fs
        if self._is_dropped:
            raise SnapshotError(f"{self._part}: was given up before")
        if self._handle < 0:
            self._handle = self._own("open", lambda: fs.open(self._part, Access.CREATE_EMPTY))
        written = self._own("write", lambda: fs.pwrite(self._handle, piece, self.size_bytes))
        if written != len(piece):
            raise SnapshotError(
                f"{self._part}: only {written} of {len(piece)} bytes were written (disk full?)"
            )
        self.size_bytes += written
        self._checksum = crc32c(piece, self._checksum)
        self._own("fdatasync", lambda: fs.fdatasync(self._handle))

    def freeze(self) -> SnapshotInfo:
        """Prove what is on the disk, and give it its name, durably.

        Raises:
            GivenDamagedError: What was written is no whole snapshot.
            SnapshotError: The disk refused, or does not hold what was written.
            StorageFailure: The directory cannot be synced, which ends the process.
        """
        fs, handle = self._disk.fs, self._handle
        timestamp_ms = self._prove()
        self._own("fchmod", lambda: fs.make_read_only(handle))
        self._own("fsync", lambda: fs.fsync(handle))
        self._own("rename", lambda: fs.rename(self._part, self.path))
        self._close()
        self._disk.sync_directory(self._directory)
        return SnapshotInfo(self._id, self.size_bytes, timestamp_ms)

    def drop(self) -> None:
        """Give it up, once. What cannot be removed now is removed at the next start."""
        if self._is_dropped:
            return
        self._is_dropped = True
        self._close()
        try:
            if self._disk.fs.exists(self._part):
                self._disk.fs.unlink(self._part)
        except OSError:
            return

    def _prove(self) -> int:
        """Read all of it from the disk, past the page cache. Returns the timestamp that it begins with."""
        fs, handle = self._disk.fs, self._handle
        self._own("posix_fadvise", lambda: fs.drop_cache(handle))
        try:
            size_bytes, timestamp_ms = prove(self._part, self._id, self._read)
        except MalformedError as error:
            if self._holds_what_was_given():
                raise GivenDamagedError(f"{error}: it was given like this, the disk is well") from error
            raise SnapshotError(f"{error}: the disk does not hold what was written") from error
        if size_bytes != self.size_bytes:
            raise SnapshotError(f"{self._part}: {size_bytes} bytes of {self.size_bytes} can be read back")
        return timestamp_ms

    def _holds_what_was_given(self) -> bool:
        """Whether the bytes on the disk are those that were written, whatever they are."""
        position = checksum = 0
        while piece := self._read(position):
            position, checksum = position + len(piece), crc32c(piece, checksum)
        return (position, checksum) == (self.size_bytes, self._checksum)

    def _read(self, position: int) -> bytes:
        return self._own("read", lambda: self._disk.fs.pread(self._handle, PIECE_BYTES, position))

    def _own(self, operation: str, call: Callable[[], _T]) -> _T:
        """Do something to this file alone, which is no failure of the disk."""
        if self._disk.failure is not None:
            raise self._disk.failure
        try:
            return call()
        except OSError as error:
            raise SnapshotError(f"{self._part}: {operation} failed: {error.strerror or error}") from error

    def _close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            self._disk.close(handle)


def prove(path: Path, snapshot_id: OffsetAndEpoch, read: Callable[[int], bytes]) -> tuple[int, int]:
    """Read a snapshot from end to end.

    Args:
        path: The file, for errors.
        snapshot_id: What its name says.
        read: Returns up to `PIECE_BYTES` from a position on; none behind the end.

    Returns:
        Its size in bytes, and the last contained timestamp that it begins with.

    Raises:
        MalformedError: It is not whole: where, and why.
    """
    decoder = SnapshotDecoder(str(path), snapshot_id.epoch)
    size_bytes = 0
    while piece := read(size_bytes):
        for _ in decoder.feed(piece):
            pass
        size_bytes += len(piece)
    decoder.finish()
    header = decoder.header
    if header is None:
        raise MalformedError(f"{path} at byte 0: has no header, so it is no snapshot")
    return size_bytes, header.last_contained_log_timestamp
