"""The file-system model itself: what it lets a crash take, and what not."""

import errno
from pathlib import Path
from random import Random

import pytest

from kraftd.storage import Access
from tests.crash.hooks import calm, refuse
from tests.sim.filesystem import DAMAGES, PAGE_BYTES, SECTOR_BYTES, SimFileSystem

FILE = Path("/f")


def with_file(durable: bytes = b"") -> tuple[SimFileSystem, int]:
    fs = SimFileSystem()
    handle = fs.open(FILE, Access.CREATE)
    fs.pwrite(handle, durable, 0)
    fs.fsync(handle)
    fs.sync_directory(Path("/"))
    return fs, handle


def left(fs: SimFileSystem, seeds: int = 300) -> set[bytes | None]:
    """What power cuts leave of the file."""
    found = set()
    for seed in range(seeds):
        other = fs.copy()
        other.cut_power(Random(seed))
        found.add(other.content(FILE) if other.exists(FILE) else None)
    return found


def test_a_power_cut_takes_unsynced_bytes_in_every_manner() -> None:
    fs, handle = with_file(b"old.")
    fs.pwrite(handle, b"AAAA", 4)
    fs.pwrite(handle, b"BBBB", 8)
    found = left(fs)
    none, everything = b"old.", b"old.AAAABBBB"
    reordered, size_alone, torn = b"old.\0\0\0\0BBBB", b"old." + bytes(8), b"old.AAAABB"
    assert {none, everything, reordered, size_alone} <= found
    assert any(data is not None and data.startswith(torn) for data in found)
    assert all(data is not None and data.startswith(b"old.") for data in found)
    enumerated = {disk.content(FILE) for disk in fs.crash_states()}
    assert {none, everything, reordered, size_alone} <= enumerated


def test_a_large_write_is_torn_between_any_two_sectors() -> None:
    fs, handle = with_file(bytes(4 * SECTOR_BYTES))
    fs.pwrite(handle, b"x" * 4 * SECTOR_BYTES, 0)
    shapes = {tuple(data[n * SECTOR_BYTES] for n in range(4)) for data in left(fs) if data}
    assert len(shapes) > 8


def test_what_was_synced_stays_and_what_came_during_the_sync_may_not() -> None:
    fs, handle = with_file()
    fs.pwrite(handle, b"before", 0)
    mark, begun = fs.mark, fs.begin_fsync(handle)
    fs.pwrite(handle, b"AFTER", 0)
    early = fs.copy()
    with fs.as_of(mark):
        fs.fdatasync(handle)
    assert fs.durable_content(FILE) == b"before"
    assert left(fs) >= {b"before", b"AFTERe"}
    assert b"" in left(early)
    fs.end_fsync(begun)
    assert fs.durable_content(FILE) == b"before"
    fs.fsync(handle)
    assert left(fs) == {b"AFTERe"}


def test_pages_of_a_failed_sync_look_clean_until_they_are_dropped() -> None:
    fs, handle = with_file(b"old")
    fs.pwrite(handle, b"newer", 0)
    refuse(fs, "fsync")
    with pytest.raises(OSError, match="Input/output error"):
        fs.fsync(handle)
    calm(fs)
    fs.fsync(handle)
    assert fs.content(FILE) == b"newer"
    assert fs.durable_content(FILE) == b"old\0\0"
    fs.drop_cache(handle)
    assert fs.content(FILE) == b"old\0\0"


def test_a_page_that_is_written_again_takes_along_what_a_failed_sync_lost() -> None:
    fs, handle = with_file(b"old")
    fs.pwrite(handle, b"newer", 0)
    refuse(fs, "fsync")
    with pytest.raises(OSError, match="Input/output error"):
        fs.fsync(handle)
    calm(fs)
    fs.pwrite(handle, b"!", 5)
    fs.fsync(handle)
    assert left(fs) == {b"newer!"}


def test_a_cut_and_what_is_written_after_it_persist_in_that_order() -> None:
    fs, handle = with_file(b"0123456789")
    fs.ftruncate(handle, 4)
    fs.pwrite(handle, b"ab", 4)
    assert all(data in {b"0123456789", b"0123ab6789", b"0123", b"0123ab", b"0123\0\0", b"0123a", b"0123a\0"}
               for data in left(fs))  # fmt: skip


def test_a_name_and_its_content_persist_apart() -> None:
    fs, _ = with_file(b"old")
    new = fs.open(Path("/f.tmp"), Access.CREATE)
    fs.pwrite(new, b"new", 0)
    fs.rename(Path("/f.tmp"), FILE)
    assert left(fs) >= {b"old", b"new", b"", b"\0\0\0"}
    fs.fsync(new)
    assert left(fs) == {b"old", b"new"}
    fs.sync_directory(Path("/"))
    assert left(fs) == {b"new"}


def test_a_killed_process_leaves_the_page_cache_and_no_locks() -> None:
    fs, handle = with_file()
    fs.pwrite(handle, b"cached", 0)
    assert fs.lock(handle)
    fs.crash_process()
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        fs.size(handle)
    assert caught.value.errno == errno.EBADF
    again = fs.open(FILE, Access.WRITE)
    assert fs.lock(again)
    assert fs.pread(again, 10, 0) == b"cached"
    assert b"" in left(fs)


def test_a_sync_may_lie() -> None:
    fs, handle = with_file(b"old")
    fs.damage(FILE, "lost_write", 0, Random(0))
    fs.pwrite(handle, b"new", 0)
    fs.fsync(handle)
    assert fs.content(FILE) == b"new"
    assert left(fs) == {b"old"}


@pytest.mark.parametrize("kind", sorted({*DAMAGES} - {"lost_write"}))
@pytest.mark.parametrize("cached", [True, False])
def test_damage_shows_once_the_page_cache_lets_go(kind: str, cached: bool) -> None:
    content = bytes(n // 8 for n in range(4 * SECTOR_BYTES))
    fs, handle = with_file(content)
    assert str(FILE) in fs.damage(FILE, kind, 700, Random(1), cached=cached)
    if cached and kind not in {"truncation", "unreadable"}:
        assert fs.content(FILE) == content
        fs.drop_cache(handle)
    if kind == "unreadable":
        with pytest.raises(OSError, match="Input/output error"):
            fs.pread(handle, 1, 700)
        assert fs.pread(handle, 512, 0) == content[:512]
        fs.pwrite(handle, bytes(SECTOR_BYTES), SECTOR_BYTES)
        assert fs.pread(handle, 1, 700) == b"\0"
    else:
        assert fs.content(FILE) != content
        assert fs.content(FILE)[:SECTOR_BYTES] == content[:SECTOR_BYTES]


def test_a_dirty_page_hides_damage_and_its_sync_mends_it() -> None:
    fs, handle = with_file(b"sound" * 20)
    assert not fs.is_dirty(FILE, 0)
    fs.pwrite(handle, b"new", 100)
    assert fs.is_dirty(FILE, 0)
    assert not fs.is_dirty(FILE, PAGE_BYTES)
    fs.damage(FILE, "zeroed_sector", 0, Random(0))
    assert fs.content(FILE) == b"sound" * 20 + b"new"
    fs.fsync(handle)
    assert fs.durable_content(FILE) == b"sound" * 20 + b"new"


def test_a_copy_goes_its_own_way() -> None:
    fs, handle = with_file(b"same")
    fs.pwrite(handle, b"unsynced", 4)
    other = fs.copy()
    other.forget_unsynced()
    assert other.content(FILE) == b"same"
    fs.fsync(handle)
    assert fs.durable_content(FILE) == b"sameunsynced"
    assert fs.fingerprint() != other.fingerprint()
    assert fs.fingerprint() == fs.copy().fingerprint()


def test_a_bad_sector_is_given_back_with_what_is_cut_off() -> None:
    fs, handle = with_file(bytes(3 * SECTOR_BYTES))
    fs.damage(FILE, "unreadable", SECTOR_BYTES, Random(0))
    fs.damage(FILE, "unreadable", 2 * SECTOR_BYTES, Random(0))
    fs.ftruncate(handle, SECTOR_BYTES + 1)
    fs.pwrite(handle, b"new", 2 * SECTOR_BYTES)
    assert fs.pread(handle, 3, 2 * SECTOR_BYTES) == b"new"
    with pytest.raises(OSError, match="Input/output"):
        fs.pread(handle, 1, SECTOR_BYTES)
