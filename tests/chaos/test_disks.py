"""Disks that can be full: they are, they have room again, and they leave nothing behind but what is kept."""

import errno
import os
from pathlib import Path

import pytest

from tests.chaos.disks import PAGE_BYTES, small_disks


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_disk_is_full_and_has_room_again(tmp_path: Path, is_kept: bool) -> None:
    with small_disks(tmp_path, (1, 2), 1, lambda: is_kept) as (disks, why):
        if why:
            assert disks == {}, "it takes root to mount: chaos goes on without"
            return
        disk = disks[1]
        disk.home.mkdir()
        log = disk.home / "log"
        disk.fill(pages_left=2)
        assert disk.was_full_lately
        with log.open("wb", buffering=0) as file:
            assert file.write(bytes(9 * PAGE_BYTES)) < 9 * PAGE_BYTES, "what does not fit is not written"
            with pytest.raises(OSError, match="No space left") as caught:
                file.write(bytes(PAGE_BYTES))
            assert caught.value.errno == errno.ENOSPC
            disk.free()
            assert file.write(bytes(9 * PAGE_BYTES)) == 9 * PAGE_BYTES
        assert disk.was_full_lately, "a node may just be noticing"
        assert not disks[2].was_full_lately
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    kept = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
    assert kept == (["disk-1", "disk-1/data", "disk-1/data/log", "disk-2"] if is_kept else [])


def test_a_disk_is_filled_though_its_node_writes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disks(tmp_path, (1,), 1, lambda: False) as (disks, why):
        if why:
            return
        statvfs, log = os.statvfs, disks[1].path / "log"

        def stale(path: Path) -> os.statvfs_result:
            told = statvfs(path)
            if not log.exists():
                log.write_bytes(bytes(PAGE_BYTES))
            return told

        monkeypatch.setattr(os, "statvfs", stale)
        disks[1].fill(pages_left=0)
        assert statvfs(disks[1].path).f_bavail == 0


def test_where_nothing_can_be_mounted_there_is_a_reason_and_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with small_disks(tmp_path, (1, 2), 1, lambda: True) as (disks, why):
        assert disks == {}
        assert "No such file or directory: 'mount'" in why
    assert list(tmp_path.iterdir()) == []
