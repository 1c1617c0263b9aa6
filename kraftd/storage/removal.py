"""Removing files that may still be read: the name goes at once, the bytes when nobody holds the file.

A segment or snapshot that is not needed any more is *retired*: renamed to `….deleted`, durably, so that no
start takes it for one. Whoever reads it in another thread has *pinned* its file and reads on. When the last
pin is gone, a `Removal` unlinks the file and closes it, in a worker: freeing the blocks of a large file takes
tens of milliseconds. What a crash leaves under such a name is removed at the next start.

Follows: Kafka's `.deleted` files (CLN-06, CLN-07).
Differs: Kafka removes them a minute later, whoever reads them.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from kraftd.records import names
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import FileSystem

_LEFTOVER = re.compile(
    r"\d{20}(-\d{10}(-\d+)?\.checkpoint\.(part|deleted)|\.(log|index|timeindex)\.deleted)", re.ASCII
)


class Pins:
    """How many hold a file open, besides its owner. Changed on the loop only."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Hold:
    """Files that are pinned together until `release`; on the loop."""

    __slots__ = ("_pins",)

    def __init__(self, pins: Sequence[Pins]) -> None:
        self._pins = tuple(pins)
        for each in self._pins:
            each.count += 1

    def release(self) -> None:
        """Let go of the files, once."""
        for each in self._pins:
            each.count -= 1


class Removal(msgspec.Struct, frozen=True):
    """Retired files that nobody holds: a value for a thread, run once."""

    fs: FileSystem
    handles: tuple[int, ...] = ()
    paths: tuple[Path, ...] = ()

    def run(self) -> tuple[str, ...]:
        """Unlink and close the files.

        Returns:
            What could not be unlinked, one text each. It promises nothing and stays until the next start.
        """
        problems = []
        for path in self.paths:
            try:
                self.fs.unlink(path)
            except FileNotFoundError:
                pass  # an index file may never have been there, and one name may have been retired twice
            except OSError as error:
                problems.append(f"{path}: unlink failed: {error.strerror or error}")
        for handle in self.handles:
            self.fs.close(handle)
        return tuple(problems)


def deleted(path: Path) -> Path:
    """The name of a retired file."""
    return path.with_name(path.name + names.DELETED)


def retire(disk: Disk, directory: Path, paths: Iterable[Path]) -> None:
    """Take the names of these files away, durably; one that is not there is passed over. Where a directory
    has the name that a file would get, which a start tells of, the file goes at once: its handles stay good,
    and whoever opens it by its name begins anew.
    """
    for path in paths:
        if disk.fs.is_directory(deleted(path)):
            disk.remove(path)
        elif disk.fs.exists(path):
            disk.rename(path, deleted(path))
    disk.sync_directory(directory)


def remove_leftovers(disk: Disk, directory: Path) -> list[str]:
    """Remove what was being written or awaited its deletion when the last process ended.

    Returns:
        What was removed, and what could not be, in lines for the operator.
    """
    found = leftovers(disk, directory)
    removed = [name for name in found if not disk.fs.is_directory(directory / name)]
    for name in removed:
        disk.remove(directory / name)
    told = [no_file_text(directory / name) for name in found if name not in removed]
    if removed:
        told.append(f"{directory}: removed what promised nothing: {', '.join(removed)}")
    return told


def leftovers(disk: Disk, directory: Path) -> list[str]:
    """The names of what was being written or awaits its deletion: it promises nothing, a start removes it."""
    return [name for name in disk.names(directory) if _LEFTOVER.fullmatch(name)]


def no_file_text(path: Path) -> str:
    """What is told of a directory under the name of such a file, which nobody here made."""
    what = "snapshot" if names.CHECKPOINT in path.name else "segment"
    return f"{path}: is a directory, and no {what}: remove it"
