"""Whether the directory is still there, and still ours, while the node runs.

On Linux a file can be removed, moved or replaced while a process has it open, and that process writes on,
into a file that no name leads to: all of it is lost when the process ends. A lock on a file that was removed
locks out no other process: the next one makes a new file, and opens the same log.

Entered through `NodeDirectory.presence_check` about once a second; the check runs in a thread, because a dead
mount may block for ever. `lost_log` is for the next start.
"""

from pathlib import Path

import msgspec

from kraftd.records import names
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import FileSystem
from kraftd.storage.sidecar import SidecarState
from kraftd.types import Offset, OffsetAndEpoch


class Loss(msgspec.Struct, frozen=True):
    """A file that is gone, or is not ours any more."""

    text: str
    """Which file, what that means, and what to do."""
    is_shared: bool
    """Whether another process may use the directory: then nothing more may be written."""


class PresenceCheck(msgspec.Struct, frozen=True):
    """A check that names still lead to the files that are open. A value for a thread."""

    fs: FileSystem
    lock: tuple[int, Path]
    log: tuple[tuple[int, Path], ...]
    """The active segment and the sidecar: all that is acknowledged is written to them."""
    generation: int
    """The generation of the log. A truncation or a snapshot removes segments: after one, this value is out of
    date.
    """
    start_offset: Offset
    """Where the log begins. After a cut this value is out of date as well: what was then the active segment
    may be gone.
    """

    def run(self) -> Loss | None:
        """Return what is lost, or None.

        A name that cannot be read is passed over: the next write or read will fail.
        """
        for handle, path in self.log:
            if not self._leads(path, handle):
                return Loss(
                    f"{path}: is gone, or is another file now: its directory was removed, replaced or "
                    "unmounted under the running node, and nothing that it writes is kept: bring the "
                    "directory back, then start again",
                    is_shared=False,
                )
        handle, path = self.lock
        if not self._leads(path, handle):
            return Loss(
                f"{path}: is not the file any more that this node locked, so another process may use the "
                "directory: never remove a lock file; see that one process runs here, then start again",
                is_shared=True,
            )
        return None

    def _leads(self, path: Path, handle: int) -> bool:
        try:
            return self.fs.is_at(path, handle)
        except OSError:
            return True


def lost_log(disk: Disk, path: Path, state: SidecarState | None, newest: OffsetAndEpoch | None = None) -> str:
    """Return why there is no log although there was one; empty if there is one, or never was.

    Nor is it lost if the newest whole snapshot holds all that was flushed: between two steps of an
    installation there is no segment.
    """
    if state is None or state.recovery_point is None or state.recovery_point.offset == 0:
        return ""
    if newest is not None and newest.offset >= state.recovery_point.offset:
        return ""
    log_path, last_offset = path / names.LOG_DIRECTORY, state.recovery_point.offset - 1
    if any(name.endswith(names.LOG) for name in disk.names(log_path)):
        return ""
    return (
        f"{log_path}: the log is gone: {names.SIDECAR} knows that it held records up to offset "
        f"{last_offset}: mount its disk if it is not mounted; if it is lost, empty {path} and run "
        "`kraftctl format`, and the node fetches everything from the others"
    )
