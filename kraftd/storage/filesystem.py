"""The one interface between kraftd and the disk: every operation on a file, as the operating system has it.

`FileSystem` is raw on purpose. It raises `OSError`, may write fewer bytes than asked, and promises nothing
about what survives a power cut before `fsync`. `Disk` stands on it and decides what a failure means;
everything else in `kraftd.storage` stands on `Disk`. A faulty disk is put in this place, and no module above
can go around it.

Writes name their position, so no file offset is shared between threads. Handles are small integers.

Differs: Kafka locks through `FileChannel`, which is a POSIX record lock; a POSIX lock is lost when the
process closes any handle of that file. We take an open-file-description lock, which does not have that flaw
and still conflicts with Kafka's.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol

from kraftd import regular_file


class Access(Enum):
    """The way in which a file is opened."""

    READ = os.O_RDONLY
    WRITE = os.O_RDWR
    CREATE = os.O_RDWR | os.O_CREAT
    """Create if absent, keep what is there."""
    CREATE_EMPTY = os.O_RDWR | os.O_CREAT | os.O_TRUNC


class FileSystem(Protocol):
    """The operations of a disk. Every method may raise `OSError`."""

    def open(self, path: Path, access: Access, /) -> int:
        """Open a regular file and return its handle; a directory is EISDIR, anything else is refused."""

    def close(self, handle: int, /) -> None:
        """Close a handle. Nothing becomes durable by that."""

    def size(self, handle: int, /) -> int:
        """Return the size of the file in bytes."""

    def pread(self, handle: int, size_bytes: int, position: int, /) -> bytes:
        """Read at a position; fewer bytes than asked only at the end of the file or by a fault."""

    def pwrite(self, handle: int, data: bytes, position: int, /) -> int:
        """Write at a position. Returns how many bytes were written."""

    def pwritev(self, handle: int, buffers: Sequence[bytes], position: int, /) -> int:
        """Write several buffers (1,024 at most) one after the other, as `pwrite` does."""

    def fsync(self, handle: int, /) -> None:
        """Make content and attributes durable."""

    def fdatasync(self, handle: int, /) -> None:
        """Make content, and the size needed to read it back, durable."""

    def ftruncate(self, handle: int, size_bytes: int, /) -> None:
        """Cut the file, or lengthen it with zeros."""

    def make_read_only(self, handle: int, /) -> None:
        """Take from everybody the right to write to the file."""

    def drop_cache(self, handle: int, /) -> None:
        """Drop the clean cached pages of a file, so that the next read comes from the disk (D-04)."""

    def lock(self, handle: int, /) -> bool:
        """Take the exclusive lock of the file; False if another process holds it. Closing frees it."""

    def exists(self, path: Path, /) -> bool:
        """Whether a file or directory has this name."""

    def is_directory(self, path: Path, /) -> bool:
        """Whether this name is a directory."""

    def is_at(self, path: Path, handle: int, /) -> bool:
        """Whether this name leads to this open file; False if it leads to none, or the mount is dead."""

    def names(self, directory: Path, /) -> list[str]:
        """Return the names in a directory, sorted."""

    def make_directory(self, path: Path, /) -> None:
        """Create a directory whose parent exists."""

    def rename(self, source: Path, target: Path, /) -> None:
        """Rename a file, atomically, over a file that had the new name."""

    def unlink(self, path: Path, /) -> None:
        """Remove a name."""

    def sync_directory(self, path: Path, /) -> None:
        """Make the names in a directory durable."""


_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.ENOTCONN})
"""The errors of a name that leads to no file: it does not exist, or the other end of its mount is gone."""


class OsFileSystem:
    """The operating system's own files (Linux)."""

    _WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)

    # The append path calls these for each batch group; no frame of ours stands in between.
    close = staticmethod(os.close)
    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)
    pwritev = staticmethod(os.pwritev)
    fsync = staticmethod(os.fsync)
    fdatasync = staticmethod(os.fdatasync)
    ftruncate = staticmethod(os.ftruncate)

    def open(self, path: Path, access: Access) -> int:
        """Open with `O_CLOEXEC`; new files are readable by all. Never waits for the other end of a FIFO."""
        return regular_file.open_handle(path, access.value)

    def size(self, handle: int) -> int:
        """Ask the file itself."""
        return os.fstat(handle).st_size

    def make_read_only(self, handle: int) -> None:
        """Only programs are kept from it that do not run as root."""
        os.fchmod(handle, 0o444)

    def drop_cache(self, handle: int) -> None:
        """`POSIX_FADV_DONTNEED`: pages that are dirty stay.

        For the whole file: the kernel keeps every page, or group of pages, that is named only in part.
        """
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)

    def lock(self, handle: int) -> bool:
        """`F_OFD_SETLK` over the whole file."""
        try:
            fcntl.fcntl(handle, fcntl.F_OFD_SETLK, self._WHOLE_FILE)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def exists(self, path: Path) -> bool:
        """Follows symbolic links."""
        return path.exists()

    def is_directory(self, path: Path) -> bool:
        """Follows symbolic links."""
        return path.is_dir()

    def is_at(self, path: Path, handle: int) -> bool:
        """By device and inode."""
        try:
            return os.path.samestat(path.stat(), os.fstat(handle))
        except OSError as error:
            if error.errno in _GONE:
                return False
            raise

    def names(self, directory: Path) -> list[str]:
        """One read of the directory."""
        return sorted(entry.name for entry in directory.iterdir())

    def make_directory(self, path: Path) -> None:
        """With the usual mode."""
        path.mkdir()

    def rename(self, source: Path, target: Path) -> None:
        """`rename(2)`."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """`unlink(2)`."""
        path.unlink()

    def sync_directory(self, path: Path) -> None:
        """Open the directory, fsync it, close it."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
