"""One contract, two disks: the operating system's, and the one that the crash tests believe in."""

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from kraftd.storage import Access, Disk, FileSystem, OsFileSystem, StorageFailure
from tests.sim.filesystem import SimFileSystem


@pytest.fixture(params=["system", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, Path]:
    if request.param == "system":
        return OsFileSystem(), tmp_path
    fs = SimFileSystem()
    fs.make_directory(Path("/home"))
    return fs, Path("/home")


Place = tuple[FileSystem, Path]


def test_reads_and_writes_name_their_position(place: Place) -> None:
    fs, home = place
    handle = fs.open(home / "a", Access.CREATE)
    assert fs.pwrite(handle, b"hello", 3) == 5
    assert fs.pwritev(handle, [b"AB", b"", b"C"], 0) == 3
    assert fs.pread(handle, 100, 0) == b"ABChello"
    assert fs.pread(handle, 2, 4) == b"el"
    assert fs.pread(handle, 2, 100) == b""
    assert fs.size(handle) == 8
    fs.ftruncate(handle, 4)
    fs.ftruncate(handle, 6)
    assert fs.pread(handle, 100, 0) == b"ABCh\0\0"
    fs.fsync(handle)
    fs.fdatasync(handle)
    fs.drop_cache(handle)
    assert fs.pread(handle, 100, 0) == b"ABCh\0\0"
    fs.close(handle)


def test_opening_says_what_happens_to_what_is_there(place: Place) -> None:
    fs, home = place
    for access in (Access.READ, Access.WRITE):
        with pytest.raises(FileNotFoundError):
            fs.open(home / "a", access)
    handle = fs.open(home / "a", Access.CREATE_EMPTY)
    fs.pwrite(handle, b"x", 0)
    for access, size in ((Access.CREATE, 1), (Access.WRITE, 1), (Access.READ, 1), (Access.CREATE_EMPTY, 0)):
        again = fs.open(home / "a", access)
        assert fs.size(again) == size
        fs.close(again)
    fs.close(handle)


def test_names_come_and_go(place: Place) -> None:
    fs, home = place
    fs.make_directory(home / "d")
    for name in ("b", "a"):
        fs.close(fs.open(home / "d" / name, Access.CREATE))
    assert fs.names(home / "d") == ["a", "b"]
    assert fs.is_directory(home / "d")
    assert not fs.is_directory(home / "d" / "a")
    assert fs.exists(home / "d" / "a")
    handle = fs.open(home / "d" / "a", Access.WRITE)
    fs.pwrite(handle, b"a", 0)
    fs.rename(home / "d" / "a", home / "d" / "b")
    assert fs.names(home / "d") == ["b"]
    fs.unlink(home / "d" / "b")
    assert not fs.exists(home / "d" / "b")
    assert fs.pread(handle, 1, 0) == b"a"
    fs.close(handle)
    fs.sync_directory(home / "d")
    for wrong in (lambda: fs.unlink(home / "d" / "b"), lambda: fs.names(home / "e")):
        with pytest.raises(OSError, match=r".*"):
            wrong()


def resident_pages(path: Path) -> int:
    """How many pages of a file are in the page cache."""
    pages = -(-path.stat().st_size // mmap.PAGESIZE)
    found = (ctypes.c_ubyte * pages)()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        address = ctypes.c_char.from_buffer(mapped)
        ctypes.CDLL(None).mincore(ctypes.byref(address), ctypes.c_size_t(len(mapped)), found)
        del address
    return sum(flags & 1 for flags in found)


@pytest.mark.covers("D-04")
def test_no_page_of_a_file_is_kept_in_the_cache(tmp_path: Path) -> None:
    """Asked to let go from a byte on, the kernel keeps the page of that byte, or a whole group of pages."""
    path = tmp_path / "a"
    path.write_bytes(bytes(20 * mmap.PAGESIZE))
    handle = os.open(path, os.O_RDWR)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    if resident_pages(path) > 0:
        pytest.skip("this file system lives in the page cache")
    os.pread(handle, 20 * mmap.PAGESIZE, 0)
    assert resident_pages(path) > 0
    OsFileSystem().drop_cache(handle)
    assert resident_pages(path) == 0
    os.close(handle)


@pytest.mark.covers("LOG-19")
def test_one_lock_a_file(place: Place) -> None:
    fs, home = place
    first = fs.open(home / ".lock", Access.CREATE)
    second = fs.open(home / ".lock", Access.CREATE)
    assert fs.lock(first)
    assert not fs.lock(second)
    fs.close(second)
    third = fs.open(home / ".lock", Access.CREATE)
    assert not fs.lock(third)
    fs.close(first)
    assert fs.lock(third)
    fs.close(third)


def test_a_replaced_file_is_the_old_one_or_the_new_one(place: Place) -> None:
    fs, home = place
    disk = Disk(fs)
    disk.replace(home / "f", b"old")
    fs.close(fs.open(home / "f.tmp", Access.CREATE))
    disk.replace(home / "f", b"newer")
    assert disk.read_file(home / "f") == b"newer"
    assert disk.read_file(home / "f.tmp") is None
    with pytest.raises(StorageFailure, match="missing"):
        disk.replace(home / "missing" / "f", b"")
