"""The model against a real file system: the same calls give the same bytes and the same errno.

A script is a few dozen calls drawn from a seed, with names that exist and names that do not, handles of every
kind, and positions around the ends of files and pages. What a power cut does cannot be compared, only what
programs see.
"""

import errno
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from kraftd.storage import Access, FileSystem, OsFileSystem
from tests.sim.filesystem import SimFileSystem

NAMES = ("a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "missing/a", "a/b")
POSITIONS = (0, 1, 7, 511, 512, 513, 4_095, 4_096, 4_097, 9_000, 20_000, -2)
"""Not -1, which Python hands to a call for which that is "where the last write ended"."""
SIZES = (0, 1, 5, 512, 4_096, 5_000, -1)
NO_HANDLE = 1_000_000
CALLS_A_SCRIPT = 40
BATCH = 500


class Program:
    """Runs calls on one file system, under one directory, and says what came of each."""

    def __init__(self, fs: FileSystem, home: Path) -> None:
        self.fs = fs
        self.home = home
        self.handles: list[int] = [NO_HANDLE]

    def do(self, call: str, slot: int, other: int, position: int, size: int, access: Access) -> object:
        """The response of a call, or its errno."""
        path, target = self.home / NAMES[slot % len(NAMES)], self.home / NAMES[other % len(NAMES)]
        place = slot % len(self.handles)
        handle = self.handles[place]
        data = bytes([slot % 251]) * max(size, 0)
        calls: dict[str, Callable[[], object]] = {
            "open": lambda: self._open(path, access),
            "close": lambda: self._close(place),
            "size": lambda: self.fs.size(handle),
            "pread": lambda: self.fs.pread(handle, size, position),
            "pwrite": lambda: self.fs.pwrite(handle, data, position),
            "pwritev": lambda: self.fs.pwritev(handle, [data, b"", b"tail"][: other % 4], position),
            "fsync": lambda: self.fs.fsync(handle),
            "fdatasync": lambda: self.fs.fdatasync(handle),
            "ftruncate": lambda: self.fs.ftruncate(handle, position),
            "drop_cache": lambda: self.fs.drop_cache(handle),
            "lock": lambda: self.fs.lock(handle),
            "exists": lambda: self.fs.exists(path),
            "is_directory": lambda: self.fs.is_directory(path),
            "names": lambda: self.fs.names(path),
            "make_directory": lambda: self.fs.make_directory(path),
            "rename": lambda: self.fs.rename(path, target),
            "unlink": lambda: self.fs.unlink(path),
            "sync_directory": lambda: self.fs.sync_directory(path),
        }
        try:
            return calls[call]()
        except OSError as error:
            return errno.errorcode[error.errno or 0]

    def _open(self, path: Path, access: Access) -> str:
        self.handles.append(self.fs.open(path, access))
        return "open"

    def _close(self, place: int) -> None:
        """A closed number may be another's the next moment, so it is not used again."""
        if place > 0:
            self.fs.close(self.handles.pop(place))
        else:
            self.fs.close(NO_HANDLE)

    def end(self) -> dict[str, bytes]:
        """Close all, and say what is there."""
        for handle in self.handles[1:]:
            self.fs.close(handle)
        return dict(self._contents(self.home))

    def _contents(self, directory: Path) -> Iterator[tuple[str, bytes]]:
        for name in self.fs.names(directory):
            path = directory / name
            if self.fs.is_directory(path):
                yield str(path.relative_to(self.home)), b"<directory>"
                yield from self._contents(path)
            else:
                handle = self.fs.open(path, Access.READ)
                yield str(path.relative_to(self.home)), self.fs.pread(handle, 1 << 20, 0)
                self.fs.close(handle)


CALLS = (
    ["open"] * 6 + ["pwrite"] * 5 + ["pread"] * 4 + ["ftruncate", "pwritev", "rename", "make_directory"] * 2
)
CALLS += ["close", "size", "fsync", "fdatasync", "drop_cache", "lock", "exists", "is_directory"]
CALLS += ["names", "unlink", "sync_directory"]


def run_script(seed: int, home: Path) -> None:
    """Run one script on both; raises with the first call that tells them apart."""
    random = Random(seed)
    model = SimFileSystem()
    model.make_directory(Path("/home"))
    real, simulated = Program(OsFileSystem(), home), Program(model, Path("/home"))
    for number in range(CALLS_A_SCRIPT):
        call = random.choice(CALLS)
        slot, other = random.randrange(1_000), random.randrange(1_000)
        position, size = random.choice(POSITIONS), random.choice(SIZES)
        access = random.choice([*Access, Access.CREATE])
        arguments = (call, slot, other, position, size, access)
        expected, found = real.do(*arguments), simulated.do(*arguments)
        assert found == expected, f"seed {seed}, call {number}: {arguments}"
    assert simulated.end() == real.end(), f"seed {seed}"


def run_scripts(seeds: range, directory: Path | None) -> None:
    """Run many, each in an empty directory."""
    for seed in seeds:
        with tempfile.TemporaryDirectory(dir=directory) as home:
            run_script(seed, Path(home))


@pytest.fixture(params=["disk", "memory"])
def scratch(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory on the disk, and one where the system keeps files in memory: syncs cost nothing there."""
    if request.param == "disk":
        return tmp_path
    if not Path("/dev/shm").is_dir():
        pytest.skip("no file system in memory here")
    return Path("/dev/shm")


def test_both_answer_alike(scratch: Path) -> None:
    run_scripts(range(300), scratch)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 10_000, BATCH))
def test_ten_thousand_scripts_answer_alike(first: int, tmp_path: Path) -> None:
    """On files in memory if there are any: on a disk it would wait for syncs most of the time."""
    memory = Path("/dev/shm")
    run_scripts(range(first, first + BATCH), memory if memory.is_dir() else tmp_path)
