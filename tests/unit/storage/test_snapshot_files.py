"""The snapshots of a directory: which count, which are read, and which go when."""

from pathlib import Path

import pytest

from kraftd.records import names
from kraftd.records.batch import scan
from kraftd.records.snapshot import encode_snapshot
from kraftd.storage import Access, Disk, OsFileSystem
from kraftd.storage.snapshot_files import SnapshotFiles, survey_snapshots
from kraftd.storage.snapshots import SnapshotInfo
from kraftd.types import OffsetAndEpoch

FIRST, SECOND, THIRD = OffsetAndEpoch(300, 2), OffsetAndEpoch(700, 3), OffsetAndEpoch(900, 3)
DISK = Disk(OsFileSystem())


def data_of(snapshot_id: OffsetAndEpoch) -> bytes:
    at = snapshot_id.offset
    return b"".join(
        encode_snapshot([b"record"] * 3_000, snapshot_id.epoch, at, last_contained_timestamp_ms=at)
    )


def write(folder: Path, snapshot_id: OffsetAndEpoch) -> SnapshotInfo:
    writer = SnapshotFiles(DISK, folder, ()).writer(snapshot_id)
    writer.append(data_of(snapshot_id))
    return writer.freeze()


def path_of(folder: Path, snapshot_id: OffsetAndEpoch) -> Path:
    return folder / names.snapshot_name(snapshot_id)


def spoil(path: Path, how: str) -> None:
    """Damage behind the header, so that only a whole reading finds it; or the header."""
    data = bytearray(path.read_bytes())
    if how == "a bit":
        data[len(data) // 2] ^= 1
    elif how == "no footer":
        *_, footer = scan(bytes(data))
        del data[-footer.size_bytes :]
    elif how == "half a batch":
        del data[len(data) // 2 :]
    elif how == "no header":
        first, *_ = scan(bytes(data))
        del data[: first.size_bytes]
    elif how == "nothing":
        data.clear()
    path.chmod(0o644)
    path.write_bytes(bytes(data))


@pytest.mark.covers("SNAP-18", "SNAP-19", "D-23")
def test_those_count_that_can_be_read_and_the_newest_is_the_latest_by_epoch_and_offset(
    tmp_path: Path,
) -> None:
    infos = tuple(write(tmp_path, each) for each in (FIRST, SECOND))
    for name in (
        f"{901:020}-{9:010}.checkpoint.deleted",
        f"{902:020}-{9:010}.checkpoint.part",
        f"{903:020}-{9999999999:010}.checkpoint",
        f"{0:020}-{9:010}.checkpoint",
    ):
        (tmp_path / name).write_bytes(data_of(SECOND))
    (tmp_path / f"{904:020}-{9:010}.checkpoint").mkdir()
    (tmp_path / f"{905:020}-{2:010}.checkpoint").write_bytes(data_of(SECOND))
    survey = survey_snapshots(DISK, tmp_path)
    assert survey.infos == infos
    assert [snapshot_id.offset for snapshot_id, _ in survey.damaged] == [905, 904]
    assert "is a directory" in survey.damaged[1][1]
    assert "is a snapshot of epoch 3, its name says 2" in survey.damaged[0][1]
    assert all("\n" not in text and str(tmp_path) in text for _, text in survey.damaged)


def test_where_there_is_no_directory_there_are_no_snapshots(tmp_path: Path) -> None:
    assert survey_snapshots(DISK, tmp_path / "none").infos == ()


@pytest.mark.covers("D-20", "D-23", "Q-21")
@pytest.mark.parametrize("how", ["a bit", "no footer", "half a batch", "no header", "nothing"])
def test_a_damaged_newest_one_counts_for_nothing_and_the_one_before_it_is_proved(
    tmp_path: Path, how: str
) -> None:
    first, _, _ = (write(tmp_path, each) for each in (FIRST, SECOND, THIRD))
    for each in (SECOND, THIRD):
        spoil(path_of(tmp_path, each), how)
    survey = survey_snapshots(DISK, tmp_path)
    assert survey.infos == (first,)
    assert [snapshot_id for snapshot_id, _ in survey.damaged] == [SECOND, THIRD]
    assert path_of(tmp_path, THIRD).exists()


@pytest.mark.covers("SNAP-15", "SNAP-20")
def test_a_reader_gives_the_bytes_of_any_place(tmp_path: Path) -> None:
    files = SnapshotFiles(DISK, tmp_path, (write(tmp_path, FIRST),))
    reader = files.open_reader(FIRST)
    assert reader is not None
    data = data_of(FIRST)
    assert (reader.id, reader.size_bytes) == (FIRST, len(data))
    assert reader.read(0, 100) + reader.read(100, 1 << 20) == data
    assert reader.read(len(data), 10) == b""
    reader.release()
    assert files.open_reader(SECOND) is None
    path_of(tmp_path, FIRST).unlink()
    assert files.open_reader(FIRST) is None


def test_one_that_was_added_counts_once_and_in_its_place(tmp_path: Path) -> None:
    files = SnapshotFiles(DISK, tmp_path, ())
    assert files.newest is None
    first, second = write(tmp_path, FIRST), write(tmp_path, SECOND)
    for info in (second, first, second, first):
        files.add(info)
    assert files.infos == (first, second)
    assert (files.infos[0], files.newest) == (first, second)
    assert files.get(SECOND) == second
    assert files.get(THIRD) is None


@pytest.mark.covers("CLN-06", "D-22")
def test_one_that_goes_loses_its_name_at_once_and_its_bytes_when_nobody_reads_them(tmp_path: Path) -> None:
    files = SnapshotFiles(DISK, tmp_path, tuple(write(tmp_path, each) for each in (FIRST, SECOND)))
    reader, other = files.open_reader(FIRST), files.open_reader(FIRST)
    assert reader is not None
    assert other is not None
    files.remove((FIRST,))
    assert [info.id for info in files.infos] == [SECOND]
    assert files.open_reader(FIRST) is None
    gone = tmp_path / (names.snapshot_name(FIRST) + ".deleted")
    assert gone.exists()
    other.release()
    assert files.take_removal().run() == ()
    assert gone.exists()
    assert reader.read(0, 1 << 20) == data_of(FIRST)
    reader.release()
    assert files.take_removal().run() == ()
    assert [path.name for path in tmp_path.iterdir()] == [names.snapshot_name(SECOND)]
    assert files.take_removal().paths == ()


class Refusing(OsFileSystem):
    """A disk that removes nothing."""

    def unlink(self, path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))


def test_what_cannot_be_removed_is_said_and_stays_without_its_name(tmp_path: Path) -> None:
    disk = Disk(Refusing())
    files = SnapshotFiles(disk, tmp_path, (write(tmp_path, FIRST),))
    files.remove((FIRST,))
    (problem,) = files.take_removal().run()
    assert (
        problem == f"{tmp_path / names.snapshot_name(FIRST)}.deleted: unlink failed: Operation not permitted"
    )
    assert disk.failure is None
    assert survey_snapshots(disk, tmp_path).infos == ()


def test_one_that_goes_while_a_start_looks_is_no_damage(tmp_path: Path) -> None:
    """A cleaner of the process before renames it between the listing and the opening."""

    class Vanishing(OsFileSystem):
        def open(self, path: Path, access: Access, /) -> int:
            if path == path_of(tmp_path, SECOND):
                path.unlink(missing_ok=True)
            return super().open(path, access)

    infos = tuple(write(tmp_path, each) for each in (FIRST, SECOND))
    survey = survey_snapshots(Disk(Vanishing()), tmp_path)
    assert (survey.infos, survey.damaged) == (infos[:1], ())
