"""A snapshot file: whole under its name, or not there; and a disk that refuses costs only the snapshot."""

import errno
import os
from pathlib import Path

import pytest

from kraftd.records.batch import scan
from kraftd.records.snapshot import encode_snapshot
from kraftd.storage import OsFileSystem
from kraftd.storage.disk import Disk, StorageFailure
from kraftd.storage.snapshot_files import survey_snapshots
from kraftd.storage.snapshots import GivenDamagedError, SnapshotError, SnapshotInfo, SnapshotWriter
from kraftd.types import OffsetAndEpoch

ID = OffsetAndEpoch(700, 3)
AT = 1_700_000_000_000
DATA = b"".join(encode_snapshot([b"record"] * 5_000, 3, AT, last_contained_timestamp_ms=AT))
NAME = f"{700:020}-{3:010}.checkpoint"


class Faulty(OsFileSystem):
    """A disk that refuses one kind of call, or takes less than it was given."""

    def __init__(self, operation: str = "", number: int = errno.ENOSPC) -> None:
        self.operation, self.number = operation, number
        self.calls: list[str] = []
        for name in (
            "pwrite",
            "fdatasync",
            "make_read_only",
            "fsync",
            "rename",
            "unlink",
            "drop_cache",
            "pread",
        ):
            setattr(self, name, self._guarded(name))

    def _guarded(self, name: str):
        real = getattr(OsFileSystem(), name)

        def call(*arguments: object) -> object:
            self.calls.append(name)
            if name == self.operation:
                raise OSError(self.number, os.strerror(self.number))
            return real(*arguments)

        return call

    def open(self, path, access):
        self.calls.append("open")
        if self.operation == "open":
            raise OSError(self.number, os.strerror(self.number))
        return super().open(path, access)

    def sync_directory(self, path: Path) -> None:
        self.calls.append("sync_directory")
        if self.operation == "sync_directory":
            raise OSError(self.number, os.strerror(self.number))
        super().sync_directory(path)


def write(writer: SnapshotWriter, piece_bytes: int = 10_000) -> SnapshotInfo:
    for at in range(0, len(DATA), piece_bytes):
        writer.append(DATA[at : at + piece_bytes])
    return writer.freeze()


@pytest.mark.covers("SNAP-10", "SNAP-18", "D-20")
def test_it_is_written_in_synced_pieces_and_has_its_name_when_all_is_proved(tmp_path: Path) -> None:
    fs = Faulty()
    info = write(SnapshotWriter(Disk(fs), tmp_path, ID))
    assert info == SnapshotInfo(ID, len(DATA), AT)
    assert (tmp_path / NAME).read_bytes() == DATA
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert (tmp_path / NAME).stat().st_mode & 0o222 == 0
    pieces = -(-len(DATA) // 10_000)
    proof = fs.calls[1 + 2 * pieces :]
    assert fs.calls[: 1 + 2 * pieces] == ["open", *["pwrite", "fdatasync"] * pieces]
    assert [call for call in proof if call != "pread"] == [
        "drop_cache",
        "make_read_only",
        "fsync",
        "rename",
        "sync_directory",
    ]
    assert survey_snapshots(Disk(fs), tmp_path).infos == (info,)


@pytest.mark.covers("SNAP-11", "SNAP-12", "D-20")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize(
    "operation", ["open", "pwrite", "fdatasync", "drop_cache", "pread", "make_read_only", "fsync", "rename"]
)
def test_a_refusal_costs_the_snapshot_and_nothing_else(tmp_path: Path, operation: str, number: int) -> None:
    disk = Disk(Faulty(operation, number))
    writer = SnapshotWriter(disk, tmp_path, ID)
    with pytest.raises(SnapshotError, match=os.strerror(number)):
        write(writer)
    writer.drop()
    assert list(tmp_path.iterdir()) == []
    assert disk.failure is None
    assert write(SnapshotWriter(Disk(OsFileSystem()), tmp_path, ID)).id == ID


@pytest.mark.covers("SNAP-11", "D-20")
def test_a_piece_that_waited_behind_one_that_failed_begins_no_file(tmp_path: Path) -> None:
    """Dropping the first one has made room, so the second one would fit: and nobody would drop it."""
    fs = Faulty("pwrite")
    writer = SnapshotWriter(Disk(fs), tmp_path, ID)
    with pytest.raises(SnapshotError):
        writer.append(DATA[:10_000])
    writer.drop()
    fs.operation, fs.calls = "", []
    with pytest.raises(SnapshotError, match="given up"):
        writer.append(DATA[10_000:])
    assert fs.calls == []
    another = SnapshotWriter(Disk(fs), tmp_path, ID)
    another.append(DATA[:10_000])
    writer.drop()
    assert len(list(tmp_path.iterdir())) == 1, "the file is another writer's by now"
    another.drop()


@pytest.mark.covers("D-03")
def test_a_directory_that_cannot_be_synced_ends_the_process(tmp_path: Path) -> None:
    """It holds names of files that promised something."""
    with pytest.raises(StorageFailure):
        write(SnapshotWriter(Disk(Faulty("sync_directory", errno.EIO)), tmp_path, ID))


@pytest.mark.covers("Q-21", "D-20")
@pytest.mark.parametrize("loss", ["a bit", "the footer", "a page of zeros", "the end"])
def test_a_disk_that_holds_something_else_is_found_out(tmp_path: Path, loss: str) -> None:
    def spoil() -> None:
        (part,) = tmp_path.iterdir()
        data = bytearray(DATA)
        if loss == "a bit":
            data[40_000] ^= 1
        elif loss == "the footer":
            *_, footer = scan(DATA)
            del data[-footer.size_bytes :]
        elif loss == "a page of zeros":
            data[8_192:12_288] = bytes(4_096)
        else:
            del data[50_000:]
        part.write_bytes(data)

    fs = Faulty()
    fs.drop_cache = lambda _: spoil()  # type: ignore[method-assign]
    writer = SnapshotWriter(Disk(fs), tmp_path, ID)
    with pytest.raises(SnapshotError, match="the disk does not hold what was written") as caught:
        write(writer)
    assert not isinstance(caught.value, GivenDamagedError)
    writer.drop()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.covers("D-20")
@pytest.mark.parametrize("data", [DATA[:-1], DATA[:40_000] + b"\x55" + DATA[40_001:]])
def test_a_disk_that_holds_what_it_was_given_is_not_blamed(tmp_path: Path, data: bytes) -> None:
    writer = SnapshotWriter(Disk(OsFileSystem()), tmp_path, ID)
    for at in range(0, len(data), 10_000):
        writer.append(data[at : at + 10_000])
    with pytest.raises(GivenDamagedError, match="it was given like this, the disk is well"):
        writer.freeze()


def test_what_cannot_be_removed_is_left_for_the_next_start(tmp_path: Path) -> None:
    writer = SnapshotWriter(Disk(Faulty("unlink", errno.EIO)), tmp_path, ID)
    writer.append(DATA[:100])
    writer.drop()
    assert [path.name for path in tmp_path.iterdir()] == [NAME + ".part"]


def test_nothing_is_written_to_a_disk_that_has_failed(tmp_path: Path) -> None:
    fs = Faulty()
    disk = Disk(fs)
    disk.failure = StorageFailure("the log could not be synced")
    with pytest.raises(StorageFailure, match="could not be synced"):
        SnapshotWriter(disk, tmp_path, ID).append(DATA)
    assert fs.calls == []
