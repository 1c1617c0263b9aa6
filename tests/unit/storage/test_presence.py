"""What somebody does to a directory while a node has it open, and what the next start says of it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftd.errors import StorageError
from kraftd.logtools.inspection import inspect_directory
from kraftd.storage import Access, FileSystem, NodeDirectory, OsFileSystem
from tests.sim.filesystem import SimFileSystem
from tests.unit.storage.batches import run_of
from tests.unit.storage.test_node_directory import log_path, make, open_at


@pytest.fixture
def node(tmp_path: Path) -> NodeDirectory:
    node = open_at(make(tmp_path / "n"))
    node.log.append(run_of(0, 10, epoch=3), 0, 10)
    node.log.flush()
    return node


@pytest.mark.parametrize("place", ["system", "memory"])
def test_a_name_leads_to_the_file_that_was_opened_by_it_until_it_is_given_away(
    place: str, tmp_path: Path
) -> None:
    fs: FileSystem = OsFileSystem()
    home = tmp_path
    if place == "memory":
        fs, home = SimFileSystem(), Path("/home")
        fs.make_directory(home)
    fs.make_directory(home / "d")
    handle = fs.open(home / "d" / "a", Access.CREATE)
    assert fs.is_at(home / "d" / "a", handle)
    fs.rename(home / "d", home / "e")
    assert not fs.is_at(home / "d" / "a", handle)
    assert fs.is_at(home / "e" / "a", handle)
    fs.unlink(home / "e" / "a")
    assert not fs.is_at(home / "e" / "a", handle)
    other = fs.open(home / "e" / "a", Access.CREATE)
    assert not fs.is_at(home / "e" / "a", handle), "the same name, but another file"
    assert not fs.is_at(home / "e" / "a" / "b", other), "below a file there is nothing"
    fs.close(handle)
    fs.close(other)


def test_a_directory_in_order_is_in_order_also_when_the_log_rolls(node: NodeDirectory) -> None:
    before = node.presence_check()
    assert before.run() is None
    for base in range(10, 30):
        node.log.append(run_of(base, base + 1, epoch=3), base, base + 1)
    assert len(node.log.segment_files) > 1
    assert before.run() is None
    assert node.presence_check().run() is None
    node.close()


def test_a_cut_is_no_loss_and_is_told_by_its_generation(node: NodeDirectory) -> None:
    before = node.presence_check()
    node.log.truncate(0, 1)
    assert before.generation != node.log.generation
    assert node.presence_check().run() is None
    node.close()


def rm_log(path: Path) -> None:
    shutil.rmtree(log_path(path))


def rm_all(path: Path) -> None:
    shutil.rmtree(path)


def rm_segment(path: Path) -> None:
    max(log_path(path).glob("*.log")).unlink()


def rm_sidecar(path: Path) -> None:
    (path / "kraftd.state").unlink()


def move_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace_by_a_copy(path: Path) -> None:
    move_away(path)
    shutil.copytree(path.with_name("elsewhere"), path)


@pytest.mark.parametrize(
    "removal",
    [rm_log, rm_all, rm_segment, rm_sidecar, move_away, replace_by_a_copy],
    ids=lambda each: each.__name__,
)
def test_whatever_takes_the_log_away_is_seen(node: NodeDirectory, removal: Callable[[Path], None]) -> None:
    removal(node.path)
    loss = node.presence_check().run()
    assert loss is not None
    assert not loss.is_shared
    assert "nothing that it writes is kept" in loss.text
    assert "\n" not in loss.text
    node.abandon()


def test_a_lock_file_that_was_removed_may_be_anothers(node: NodeDirectory) -> None:
    (node.path / ".lock").unlink()
    for _ in ("no file", "another one"):
        loss = node.presence_check().run()
        assert loss is not None
        assert loss.is_shared
        assert f"{node.path / '.lock'}: is not the file any more that this node locked" in loss.text
        (node.path / ".lock").touch()
    node.abandon()


def test_what_cannot_be_looked_at_is_not_lost(node: NodeDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(OsFileSystem, "is_at", refuse)
    assert node.presence_check().run() is None
    node.abandon()


class TestTheStartAfterIt:
    @pytest.mark.parametrize("removal", [rm_log, rm_segment], ids=lambda each: each.__name__)
    def test_it_says_that_the_log_is_gone_each_time(
        self, tmp_path: Path, removal: Callable[[Path], None]
    ) -> None:
        path = make(tmp_path / "n")
        node = open_at(path, config=None)
        node.log.append(run_of(0, 10, epoch=3), 0, 10)
        node.close()
        removal(path)
        for _ in range(2):
            with pytest.raises(StorageError, match=r"the log is gone: .* records up to offset 9: mount"):
                open_at(path)
        problems = inspect_directory(OsFileSystem(), path).problems
        assert any("the log is gone" in problem for problem in problems)

    def test_a_directory_that_is_empty_or_not_there_may_be_a_disk_that_is_not_mounted(
        self, node: NodeDirectory
    ) -> None:
        node.close()
        shutil.rmtree(node.path)
        with pytest.raises(StorageError, match=r"no such directory: .* its disk is not mounted"):
            open_at(node.path)
        node.path.mkdir()
        with pytest.raises(StorageError, match=r"not formatted .* its disk is not mounted"):
            open_at(node.path)

    def test_a_log_that_was_cut_to_nothing_is_not_gone(self, node: NodeDirectory) -> None:
        node.log.truncate(0, 1)
        node.close()
        again = open_at(node.path)
        assert again.log.end_offset == 0
        again.close()
