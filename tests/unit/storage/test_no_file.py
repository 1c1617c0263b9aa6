"""What has the name of a file and is none, or is larger than it can be: one line, and nobody waits."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftd import regular_file
from kraftd.errors import KraftdError, MalformedError, StorageError
from kraftd.logtools.batch_reader import open_file
from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.inspection import inspect_directory
from kraftd.logtools.node_files import describe
from kraftd.logtools.small_reading import read_small
from kraftd.records import names, small_files
from kraftd.runtime.log_export import _read_file
from kraftd.storage import Access, Disk, OsFileSystem, StorageFailure
from kraftd.storage.segment_index import SegmentIndex, index_paths, stale_index_files, write_sealed
from tests.unit.runtime.test_imports import ROOT

pytestmark = pytest.mark.timeout(20)
"""Who opens a FIFO as a file waits for ever."""


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_link_to_a_fifo(path: Path) -> None:
    os.mkfifo(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


MADE: tuple[tuple[Callable[[Path], None], str], ...] = (
    (a_fifo, "a FIFO"),
    (a_link_to_zeros, "a character device, through a symbolic link"),
    (a_link_to_a_fifo, "a FIFO, through a symbolic link"),
    (a_socket, "a socket"),
)
kinds = pytest.mark.parametrize(("make", "kind"), MADE)


@kinds
@pytest.mark.parametrize("access", Access)
def test_a_disk_opens_files_only(
    make: Callable[[Path], None], kind: str, access: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    path = Path("f")
    make(path)
    disk = Disk(OsFileSystem())
    handles = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(StorageError) as told:
        disk.open(path, access)
    assert str(told.value) == f"f: is {kind}, not a file: move it away, and put the file back"
    assert isinstance(told.value, StorageFailure) is (access is not Access.READ)
    assert disk.failure is (None if access is Access.READ else told.value)
    assert len(list(Path("/proc/self/fd").iterdir())) == handles


def test_a_directory_is_no_file_either(tmp_path: Path) -> None:
    disk = Disk(OsFileSystem())
    with pytest.raises(StorageError, match="open failed: Is a directory"):
        disk.open(tmp_path, Access.READ)


def test_a_link_to_a_file_is_as_good_as_the_file(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"content")
    (tmp_path / "f").symlink_to("there")
    assert Disk(OsFileSystem()).read_file(tmp_path / "f") == b"content"
    assert read_small(tmp_path / "f") == b"content"
    assert regular_file.kind_of(tmp_path / "f") == regular_file.kind_of(tmp_path) == ""
    assert regular_file.kind_of(tmp_path / "missing") == ""


@kinds
def test_tools_without_a_disk_open_files_only(
    make: Callable[[Path], None], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make(Path("f"))
    with (
        pytest.raises(UnanswerableError, match=f"f cannot be read: is {kind}, not a file"),
        open_file(Path("f")),
    ):
        pass
    with pytest.raises(OSError, match=f"is {kind}, not a file"):
        read_small(Path("f"))
    with pytest.raises(OSError, match=f"is {kind}, not a file"):
        asyncio.run(_read_file(Path("f"), 0, 1))


NODE_FILES = (
    names.META_PROPERTIES,
    names.BOOTSTRAP_CHECKPOINT,
    names.SIDECAR,
    f"{names.LOG_DIRECTORY}/{names.PARTITION_METADATA}",
    f"{names.LOG_DIRECTORY}/{names.QUORUM_STATE}",
    f"{names.LOG_DIRECTORY}/{names.EPOCH_CHECKPOINT}",
    f"{names.LOG_DIRECTORY}/{names.segment_name(0)}",
    f"{names.LOG_DIRECTORY}/00000000000000000010-0000000001.checkpoint",
    f"{names.LOG_DIRECTORY}/00000000000000000000-0000000000.checkpoint",
)


@pytest.mark.parametrize("name", NODE_FILES)
def test_those_who_look_at_a_directory_name_the_file(name: str, tmp_path: Path) -> None:
    (tmp_path / names.LOG_DIRECTORY).mkdir()
    os.mkfifo(tmp_path / name)
    facts = inspect_directory(OsFileSystem(), tmp_path)
    said = [line for line in (*facts.problems, *facts.notes) if str(tmp_path / name) in line]
    assert any("is a FIFO, not a file" in line for line in said), (facts.problems, facts.notes)
    if name == names.SIDECAR:
        return  # only kraftd's own state: the log tools do not read it
    told = [str(problem) for problem in describe(tmp_path / names.LOG_DIRECTORY).problems]
    assert any(Path(name).name in line and "is a FIFO, not a file" in line for line in told), told


# -- larger than it can be


@pytest.mark.parametrize("name", [*small_files.BYTES_MAX, f"{0:020d}-{0:010d}.checkpoint"])
def test_a_small_file_that_claims_terabytes_is_not_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(1 << 43)
    disk = Disk(OsFileSystem())
    for read, error in ((disk.read_file, StorageError), (read_small, MalformedError)):
        with pytest.raises(
            error, match="has 8,796,093,022,208 bytes, and no such file has more than"
        ) as told:
            read(path)
        assert name in str(told.value)
        assert "\n" not in str(told.value)


def test_a_file_of_its_largest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / names.SIDECAR
    largest = small_files.BYTES_MAX[names.SIDECAR]
    path.write_bytes(bytes(largest))
    assert len(Disk(OsFileSystem()).read_file(path) or b"") == len(read_small(path)) == largest
    path.write_bytes(bytes(largest + 1))
    with pytest.raises(KraftdError):
        read_small(path)


@pytest.mark.parametrize("kind", ["fifo", "hole"])
@pytest.mark.parametrize("command", [("info",), ("log", "verify"), ("log", "state")])
def test_a_command_ends_with_a_line(command: tuple[str, ...], kind: str, tmp_path: Path) -> None:
    path = tmp_path / names.LOG_DIRECTORY / names.EPOCH_CHECKPOINT
    path.parent.mkdir()
    (tmp_path / names.META_PROPERTIES).write_text("version=1\ncluster.id=c\nnode.id=1\n")
    (path.parent / names.segment_name(0)).touch()
    if kind == "fifo":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(1 << 43)
    done = subprocess.run(
        [sys.executable, "-m", "kraftd.cli", *command, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )
    is_fault = command == ("log", "verify")  # the node makes that file anew, and a state needs none
    assert done.returncode == is_fault
    assert (names.EPOCH_CHECKPOINT in done.stdout) is (command != ("log", "state"))
    assert "Traceback" not in done.stderr + done.stdout
    assert "MemoryError" not in done.stderr + done.stdout


def test_an_index_of_any_size_is_made_anew(tmp_path: Path) -> None:
    """Nothing in it is needed, so its size is no reason to stop."""
    log_path = tmp_path / names.segment_name(0)
    disk, index = Disk(OsFileSystem()), SegmentIndex()
    for path in index_paths(log_path):
        with path.open("wb") as file:
            file.truncate(1 << 43)
    write_sealed(disk, log_path, index)
    assert [path.read_bytes() for path in index_paths(log_path)] == [
        index.encode_offsets(),
        index.encode_times(),
    ]
    assert stale_index_files(disk, log_path, index) == []


def test_the_log_tools_read_no_bootstrap_checkpoint_of_terabytes(tmp_path: Path) -> None:
    (tmp_path / names.LOG_DIRECTORY).mkdir()
    with (tmp_path / names.BOOTSTRAP_CHECKPOINT).open("wb") as file:
        file.truncate(1 << 43)
    found = describe(tmp_path / names.LOG_DIRECTORY)
    assert [file.path.name for file in found.files] == []
    assert [problem.file for problem in found.problems if "no such file has more" in problem.text] == [
        names.BOOTSTRAP_CHECKPOINT
    ]
