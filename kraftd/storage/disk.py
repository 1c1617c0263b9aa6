"""The disk with its failures: after the first failed write no further write is attempted.

A failed `fsync` marks dirty pages clean, and a short write leaves half a batch; a second attempt may report
success for data that is lost (Rebello et al., ATC 2020). So the first write, sync, truncate or rename that
fails raises `StorageFailure`, and every later operation that would change the disk raises the same one, from
whatever caller and thread. The process ends and opens its directory anew, by D-04.

Reads may fail without that: they raise `StorageError`, and the caller says what is missing.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from kraftd.errors import StorageError
from kraftd.records import small_files
from kraftd.regular_file import NotAFileError
from kraftd.storage.filesystem import Access, FileSystem

_T = TypeVar("_T")

_PAGE_BYTES = 4_096
_BUFFERS_MAX = 1_024
"""IOV_MAX on Linux."""


class StorageFailure(StorageError):  # noqa: N818 - not an error to handle: the end
    """A change of the disk failed. It is never retried: the process must end (D-03)."""


class Disk:
    """A file system whose first failure is final. All that is open in one directory shares it."""

    def __init__(self, fs: FileSystem) -> None:
        self.fs = fs
        self.failure: StorageFailure | None = None
        self.lost = ""
        """Why nothing that is written here is kept any more (see `presence`): the reason given for later
        failures.
        """

    # -- changes -------------------------------------------------------------------------------

    def write(self, handle: int, data: bytes, position: int, path: Path) -> None:
        """Write all of `data` into the page cache."""
        if self.failure is not None:
            raise self.failure
        try:
            written = self.fs.pwrite(handle, data, position)
        except OSError as error:
            raise self._fail("write", path, error) from error
        if written != len(data):
            raise self._fail_short(path, written, len(data))

    def write_all(
        self, handle: int, buffers: Sequence[bytes], size_bytes: int, position: int, path: Path
    ) -> None:
        """Write buffers of together `size_bytes` one after the other, in one call to the system."""
        if self.failure is not None:
            raise self.failure
        if len(buffers) > _BUFFERS_MAX:
            buffers = (b"".join(buffers),)
        try:
            written = self.fs.pwritev(handle, buffers, position)
        except OSError as error:
            raise self._fail("write", path, error) from error
        if written != size_bytes:
            raise self._fail_short(path, written, size_bytes)

    def sync(self, handle: int, path: Path) -> None:
        """Make what was written to a file durable."""
        self._change("fsync", path, lambda: self.fs.fsync(handle))

    def sync_data(self, handle: int, path: Path) -> None:
        """Make the content of a file durable, and its size; not its times."""
        self._change("fdatasync", path, lambda: self.fs.fdatasync(handle))

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        self._change("fsync of directory", path, lambda: self.fs.sync_directory(path))

    def resize(self, handle: int, size_bytes: int, path: Path) -> None:
        """Cut a file, or lengthen it with zeros. Not durable before a sync."""
        self._change("ftruncate", path, lambda: self.fs.ftruncate(handle, size_bytes))

    def open(self, path: Path, access: Access) -> int:
        """Open a file for changes, or for reading."""
        if access is Access.READ:
            return self._read("open", path, lambda: self.fs.open(path, access))
        return self._change("open", path, lambda: self.fs.open(path, access))

    def remove(self, path: Path) -> None:
        """Remove a name if it is there. Not durable before `sync_directory`."""
        if self.fs.exists(path):
            self._change("unlink", path, lambda: self.fs.unlink(path))

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, over one that has the new name. Not durable before `sync_directory`."""
        self._change("rename", source, lambda: self.fs.rename(source, target))

    def make_directory(self, path: Path) -> None:
        """Create a directory and make its name durable; parents must exist."""
        self._change("mkdir", path, lambda: self.fs.make_directory(path))
        self.sync_directory(path.parent)

    def replace(self, path: Path, data: bytes) -> None:
        """Replace a small file: the new content is whole and durable on return, or the old one stays.

        A stale `.tmp` is removed first; then tmp, fsync, rename, fsync of the directory (QS-19, as for every
        small file of Kafka).
        """
        scratch = path.with_name(path.name + ".tmp")
        self.remove(scratch)
        handle = self.open(scratch, Access.CREATE_EMPTY)
        try:
            self.write(handle, data, 0, scratch)
            self.sync(handle, scratch)
        finally:
            self.fs.close(handle)
        self.rename(scratch, path)
        self.sync_directory(path.parent)

    # -- reads ---------------------------------------------------------------------------------

    def read(self, handle: int, size_bytes: int, position: int, path: Path) -> bytes:
        """Return the bytes at a position: all that were asked for, or fewer at the end of the file."""
        data = self._read("read", path, lambda: self.fs.pread(handle, size_bytes, position))
        while 0 < len(data) < size_bytes:
            start = position + len(data)
            remaining = size_bytes - len(data)
            more = self._read("read", path, lambda: self.fs.pread(handle, remaining, start))  # noqa: B023 - called at once
            if not more:
                break
            data += more
        return data

    def read_around(self, handle: int, size_bytes: int, position: int, path: Path) -> bytes:
        """Read as `read` does, with zeros in the place of pages that the disk cannot read.

        A bad sector is damage like any other: the batches on it fail their checksum, the others stay.
        """
        try:
            return self.read(handle, size_bytes, position, path)
        except StorageError:
            if size_bytes <= _PAGE_BYTES:
                return bytes(size_bytes)
        half = (size_bytes // 2 + _PAGE_BYTES - 1) // _PAGE_BYTES * _PAGE_BYTES
        first = min(half - position % _PAGE_BYTES, size_bytes - 1)
        return self.read_around(handle, first, position, path) + self.read_around(
            handle, size_bytes - first, position + first, path
        )

    def read_file(self, path: Path, *, around: bool = False) -> bytes | None:
        """Return the content of a small file; None if there is none, an error if it is not small.

        With `around` there are zeros for the pages that the disk cannot read (see `read_around`).
        """
        if not self.fs.exists(path):
            return None
        handle = self.open(path, Access.READ)
        try:
            size_bytes = self.size(handle, path)
            if excess := small_files.excess(path.name, size_bytes):
                raise StorageError(f"{path}: {excess}")
            read = self.read_around if around else self.read
            return read(handle, size_bytes, 0, path)
        finally:
            self.fs.close(handle)

    def read_durable(self, path: Path) -> bytes | None:
        """Return the content of a small file as the disk itself has it; None if there is none (D-04).

        A process that was killed may have left what it had not synced yet in the page cache.
        """
        if self.read_file(path) is None:
            return None
        self.drop_cached(path)
        return self.read_file(path)

    def drop_cached(self, path: Path) -> None:
        """Sync a small file and drop it from the page cache, so that the next read is of the disk itself."""
        handle = self.open(path, Access.WRITE)
        try:
            self.sync(handle, path)
            self.drop_cache(handle, path)
        finally:
            self.close(handle)

    def size(self, handle: int, path: Path) -> int:
        """Return the size of a file in bytes."""
        return self._read("fstat", path, lambda: self.fs.size(handle))

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory, sorted; none if it does not exist."""
        if not self.fs.is_directory(directory):
            return []
        return self._read("list", directory, lambda: self.fs.names(directory))

    def drop_cache(self, handle: int, path: Path) -> None:
        """Make the next read of a synced file come from the disk, not from the page cache (D-04)."""
        self._read("posix_fadvise", path, lambda: self.fs.drop_cache(handle))

    def close(self, handle: int) -> None:
        """Close a handle. Nothing becomes durable by that."""
        self.fs.close(handle)

    # -- failures ------------------------------------------------------------------------------

    def _change(self, operation: str, path: Path, call: Callable[[], _T]) -> _T:
        if self.failure is not None:
            raise self.failure
        try:
            return call()
        except OSError as error:
            raise self._fail(operation, path, error) from error

    def _read(self, operation: str, path: Path, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except NotAFileError as error:
            raise StorageError(f"{path}: {error.strerror}") from error
        except OSError as error:
            raise StorageError(f"{path}: {operation} failed: {error.strerror or error}") from error

    def _fail(self, operation: str, path: Path, error: OSError) -> StorageFailure:
        if isinstance(error, NotAFileError):
            self.failure = StorageFailure(self.lost or f"{path}: {error.strerror}")
            return self.failure
        return self._fail_with(f"{path}: {operation} failed: {error.strerror or error}")

    def _fail_short(self, path: Path, written: int, wanted: int) -> StorageFailure:
        return self._fail_with(f"{path}: only {written} of {wanted} bytes were written (disk full?)")

    def _fail_with(self, text: str) -> StorageFailure:
        failure = StorageFailure(
            self.lost
            or f"{text}; nothing was retried: see to the disk and the rights on it, then start again"
        )
        self.failure = failure
        return failure
