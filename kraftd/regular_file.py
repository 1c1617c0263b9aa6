"""Opens files, and nothing else that may have the name of one.

A FIFO makes who opens it wait for somebody at the other end, a device may have no end, and either may stand,
or be linked to, where a file is expected. So every file of a node's directory is opened here, by the daemon
and by all tools: without waiting, and what is no regular file is closed again and refused.

Not here: files that a person names in a shell, where a pipe is as good.
"""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


class NotAFileError(OSError):
    """What has the name is no file. `strerror` says what it is, and what to do."""

    def __init__(self, path: Path, mode: int) -> None:
        super().__init__(
            errno.EINVAL,
            f"is {_kind(path, mode)}, not a file: move it away, and put the file back",
            str(path),
        )


def open_handle(path: Path, flags: int, mode: int = 0o644) -> int:
    """Open a regular file with `open(2)`'s flags and return its handle.

    Raises:
        NotAFileError: It is a FIFO, a socket or a device.
        IsADirectoryError: It is a directory.
        OSError: As `os.open`.
    """
    try:
        handle = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, mode)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device that nothing drives
            raise NotAFileError(path, path.stat().st_mode) from None
        raise
    found = os.fstat(handle).st_mode
    if stat.S_ISREG(found):
        return handle
    os.close(handle)
    if stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise NotAFileError(path, found)


def opener(path: str, flags: int) -> int:
    """`open_handle` as Python's `open` wants it."""
    return open_handle(Path(path), flags)


def open_to_read(path: Path) -> IO[bytes]:
    """Open a regular file as Python's `open(path, "rb")` does; raises as `open_handle`."""
    return open(path, "rb", opener=opener)


def kind_of(path: Path) -> str:
    """What has this name ("a FIFO"); empty for a file, a directory, or nothing."""
    try:
        return _kind(path, path.stat().st_mode)
    except OSError:
        return ""


def _kind(path: Path, mode: int) -> str:
    kind = next((text for is_kind, text in _KINDS if is_kind(mode)), "")
    return f"{kind}, through a symbolic link" if kind and path.is_symlink() else kind
