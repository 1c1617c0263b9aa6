"""A small disk for each node, which can be full: a tmpfs, and a file that takes what is left of it.

Entered by `small_disks`, which mounts one disk a node below a folder and unmounts them all at its end; where
this machine does not let us mount, it yields none and says why. What is on a disk can be kept: it is copied
into the folder before the disk goes.

A tmpfs forgets nothing when a process is killed, so what a power cut takes is not tried here.
"""

import contextlib
import errno
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PAGE_BYTES = 4096
NOTICE_S = 5.0
"""How long after there is room again a node may still end because there was none."""


class Disk:
    """One mounted tmpfs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"
        self._freed_at_s = -NOTICE_S

    @property
    def home(self) -> Path:
        """Where the node's directory is: the filler is no file of the node's."""
        return self.path / "data"

    @property
    def was_full_lately(self) -> bool:
        """Whether a node may find, or have just found, no room here."""
        return self._filler.exists() or time.monotonic() - self._freed_at_s < NOTICE_S

    def fill(self, pages_left: int) -> None:
        """Leave so many pages: a write may still succeed, succeed in part, or fail.

        The node may take some of what was free between the question and the answer: then it is asked again.
        """
        with self._filler.open("wb") as file:
            is_full = False
            while not is_full:
                free_bytes = os.statvfs(self.path).f_bavail * PAGE_BYTES
                taken_bytes = free_bytes - pages_left * PAGE_BYTES
                is_full = taken_bytes <= 0 or _takes(file.fileno(), taken_bytes)

    def free(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)
        self._freed_at_s = time.monotonic()


def _takes(descriptor: int, count_bytes: int) -> bool:
    """Give so many bytes to an empty file; whether there were so many."""
    try:
        os.posix_fallocate(descriptor, 0, count_bytes)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


@contextlib.contextmanager
def small_disks(
    folder: Path, node_ids: Sequence[int], mebibytes: int, is_kept: Callable[[], bool]
) -> Iterator[tuple[dict[int, Disk], str]]:
    """Disks by node id, and why there are none if there are none. `is_kept` is asked at the end."""
    disks: dict[int, Disk] = {}
    with contextlib.ExitStack() as stack:
        why = ""
        for node_id in node_ids:
            path = folder / f"disk-{node_id}"
            path.mkdir(parents=True)
            why = _mount(path, mebibytes)
            if why:
                path.rmdir()
                break
            stack.callback(_unmount, path, is_kept)
            disks[node_id] = Disk(path)
        yield ({}, why) if why else (disks, "")


def _mount(path: Path, mebibytes: int) -> str:
    """Mount a tmpfs; why not, if it cannot be."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=700", "kraftd-chaos", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[0]


def _unmount(path: Path, is_kept: Callable[[], bool]) -> None:
    copy = path.with_name(path.name + "-copy")
    if is_kept():
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns("filler"))
    subprocess.run(["umount", str(path)], check=True, capture_output=True)
    path.rmdir()
    if copy.exists():
        copy.rename(path)
