"""Where a log begins: cut at a snapshot, replaced by one, and what is read meanwhile."""

from itertools import combinations
from pathlib import Path

import pytest

from kraftd.errors import InvariantError
from kraftd.records import epoch_checkpoint
from kraftd.records.batch import scan
from kraftd.storage import Disk, Log, LogConfig, OffsetOutOfRangeError, OsFileSystem
from kraftd.storage.epoch_checkpoint import entries_from
from kraftd.types import EpochEntry, OffsetAndEpoch
from tests.unit.storage.batches import batch, run_of

SMALL = LogConfig(segment_bytes=4 * len(batch(0)))
"""Four batches a segment: 0, 4, 8, …"""
DISK = Disk(OsFileSystem())


def log_of(folder: Path, *spans: tuple[int, int, int]) -> Log:
    """A flushed log of spans: first offset, end offset, epoch."""
    log = Log.open(DISK, folder, config=SMALL).log
    for first, end, epoch in spans:
        log.append(run_of(first, end, epoch), first, end)
    log.flush()
    return log


def offsets_in(log: Log) -> list[int]:
    found, offset = [], log.start_offset
    while offset < log.end_offset:
        for view in scan(log.read(offset, 1 << 20)):
            found.append(view.base_offset)
            offset = view.end_offset
    return found


def segments(folder: Path) -> list[int]:
    return [int(path.stem) for path in sorted(folder.glob("*.log"))]


@pytest.mark.covers("CLN-07", "D-22")
def test_a_cut_takes_whole_segments_only_and_hides_the_rest(tmp_path: Path) -> None:
    log = log_of(tmp_path, (0, 14, 1))
    log.cut_front(OffsetAndEpoch(10, 1))
    assert (log.start_offset, log.end_offset, log.flushed_offset, log.generation) == (10, 14, 14, 0)
    assert segments(tmp_path) == [8, 12]
    assert offsets_in(log) == [10, 11, 12, 13]
    assert [next(scan(data)).base_offset for data in log.tail(1 << 20)] == [10, 11, 12, 13]
    with pytest.raises(OffsetOutOfRangeError, match="offset 9 is not in the log, which goes from 10 to 14"):
        log.read(9, 1)
    log.close()


class NamesSyncedCounter(OsFileSystem):
    """Real files; counts how often the names in a directory were synced."""

    count = 0

    def sync_directory(self, path: Path) -> None:
        self.count += 1
        super().sync_directory(path)


@pytest.mark.covers("CLN-07", "D-22")
def test_a_cut_waits_for_the_disk_once_for_its_names_and_once_for_its_epochs(tmp_path: Path) -> None:
    fs = NamesSyncedCounter()
    log = Log.open(Disk(fs), tmp_path, config=SMALL).log
    log.append(run_of(0, 90, 1), 0, 90)
    log.flush()
    fs.count = 0
    log.cut_front(OffsetAndEpoch(82, 1))
    assert segments(tmp_path) == [80, 84, 88]
    assert fs.count == 2
    log.close()


@pytest.mark.covers("CLN-07", "D-22", "D-23")
@pytest.mark.parametrize("lost", [each for n in range(4) for each in combinations((0, 4, 8), n)])
def test_any_names_that_a_crash_left_of_a_cut_cost_nothing(tmp_path: Path, lost: tuple[int, ...]) -> None:
    log_of(tmp_path, (0, 14, 1)).close()
    for base_offset in lost:
        for path in tmp_path.glob(f"{base_offset:020}.*"):
            path.rename(f"{path}.deleted")
    snapshots = [OffsetAndEpoch(6, 1), OffsetAndEpoch(13, 1)]
    opened = Log.open(DISK, tmp_path, recovery_point=OffsetAndEpoch(14, 1), snapshots=snapshots, config=SMALL)
    log = opened.log
    assert opened.report.damage == opened.report.torn == ()
    assert (log.start_offset, log.end_offset) == (0 if not lost else 6 if lost == (0,) else 13, 14)
    assert offsets_in(log)[-1] == 13
    log.append(run_of(14, 16, 1), 14, 16)
    log.flush()
    log.cut_front(OffsetAndEpoch(15, 1))
    assert segments(tmp_path) == [12]
    log.close()


@pytest.mark.covers("CLN-07", "LOG-12")
def test_a_cut_at_the_end_leaves_a_segment_and_the_epoch(tmp_path: Path) -> None:
    log = log_of(tmp_path, (0, 8, 3))
    log.cut_front(OffsetAndEpoch(8, 3))
    assert (log.start_offset, log.end_offset, log.last_epoch, log.last_record_epoch) == (8, 8, 3, 3)
    assert segments(tmp_path) == [4]
    log.truncate(8, 1)
    assert (log.end_offset, log.last_epoch, log.start_epoch) == (8, 3, 3)
    log.append((batch(8, 3),), 8, 9)
    assert offsets_in(log) == [8]
    log.close()


@pytest.mark.covers("CLN-05", "D-22")
@pytest.mark.parametrize("at", [0, 6, 11])
def test_a_cut_goes_forward_and_not_past_what_is_flushed(tmp_path: Path, at: int) -> None:
    log = log_of(tmp_path, (0, 10, 1))
    log.append(run_of(10, 12), 10, 12)
    log.cut_front(OffsetAndEpoch(6, 1))
    with pytest.raises(
        InvariantError, match=f"a cut at {at} of a log that begins at 6 and is flushed up to 10"
    ):
        log.cut_front(OffsetAndEpoch(at, 1))
    log.close()


@pytest.mark.covers("CLN-08")
def test_the_epoch_that_covers_the_start_begins_there(tmp_path: Path) -> None:
    log = log_of(tmp_path, (0, 3, 1), (3, 9, 4), (9, 12, 6))
    log.cut_front(OffsetAndEpoch(7, 4))
    wanted = (EpochEntry(4, 7), EpochEntry(6, 9))
    assert log.epochs == wanted
    file = tmp_path / "leader-epoch-checkpoint"
    assert epoch_checkpoint.decode(file.read_bytes()) == wanted
    assert (log.start_epoch, log.last_epoch) == (4, 6)
    log.close()


@pytest.mark.covers("CLN-08")
def test_epochs_are_cut_like_those_of_kafka() -> None:
    entries = (EpochEntry(1, 0), EpochEntry(4, 3), EpochEntry(6, 9))
    assert entries_from(entries, 0) == entries
    assert entries_from(entries, 3) == (EpochEntry(4, 3), EpochEntry(6, 9))
    assert entries_from(entries, 8) == (EpochEntry(4, 8), EpochEntry(6, 9))
    assert entries_from(entries, 20) == (EpochEntry(6, 20),)
    assert entries_from((EpochEntry(4, 9),), 5) == (EpochEntry(4, 9),)
    assert entries_from((), 5) == ()


@pytest.mark.covers("D-15", "D-22")
def test_a_reader_reads_on_while_the_log_is_cut_and_its_files_stay_until_it_lets_go(tmp_path: Path) -> None:
    log = log_of(tmp_path, (0, 14, 1))
    view, other = log.reader_view().pin(), log.reader_view().pin()
    log.cut_front(OffsetAndEpoch(12, 1))
    other.release()
    assert log.take_removal().run() == ()
    assert len(list(tmp_path.glob("*.log.deleted"))) == 3
    assert view.read(0, 1 << 20) == b"".join(run_of(0, 4))
    assert view.read(5, 1) == batch(5)
    view.release()
    assert log.take_removal().run() == ()
    assert sorted(path.name for path in tmp_path.glob("*.deleted")) == []
    assert log.take_removal().handles == ()
    log.close()


@pytest.mark.covers("D-15", "D-22")
def test_a_truncation_leaves_open_what_is_read(tmp_path: Path) -> None:
    log = log_of(tmp_path, (0, 14, 1))
    view = log.reader_view().pin()
    log.truncate(3, 1)
    log.take_removal().run()
    assert view.read(12, 1 << 20) == b"".join(run_of(12, 14))
    view.release()
    removal = log.take_removal()
    assert len(removal.handles) == 3
    assert removal.run() == ()
    log.close()


@pytest.mark.covers("D-21", "LOG-12")
@pytest.mark.parametrize("at", [5, 9, 30])
def test_a_snapshot_takes_the_place_of_any_log(tmp_path: Path, at: int) -> None:
    log = log_of(tmp_path, (0, 9, 2))
    log.replace(OffsetAndEpoch(at, 5), 1)
    assert (log.start_offset, log.end_offset, log.flushed_offset, log.generation) == (at, at, at, 1)
    assert (log.epochs, log.last_epoch, log.last_record_epoch, log.start_epoch) == ((), 5, 5, 5)
    assert segments(tmp_path) == [at]
    assert epoch_checkpoint.decode((tmp_path / "leader-epoch-checkpoint").read_bytes()) == ()
    log.append(run_of(at, at + 6, 5), at, at + 6)
    assert log.epochs == (EpochEntry(5, at),)
    assert offsets_in(log) == list(range(at, at + 6))
    assert log.take_removal().run() == ()
    assert list(tmp_path.glob("*.deleted")) == []
    log.close()
    snapshots = [OffsetAndEpoch(at, 5)]
    again = Log.open(DISK, tmp_path, recovery_point=OffsetAndEpoch(at + 6, 5), snapshots=snapshots)
    assert (again.log.start_offset, again.log.end_offset, again.report.damage) == (at, at + 6, ())
    again.log.close()


@pytest.mark.covers("D-03", "D-21")
def test_a_snapshot_waits_for_the_flush_and_raises_the_generation(tmp_path: Path) -> None:
    log = log_of(tmp_path, (0, 9, 2))
    log.append(run_of(9, 11, 2), 9, 11)
    job = log.begin_flush()
    with pytest.raises(InvariantError, match="came while a flush runs"):
        log.replace(OffsetAndEpoch(30, 3), 1)
    job.run()
    with pytest.raises(InvariantError, match="must raise the generation, not 0 -> 0"):
        log.replace(OffsetAndEpoch(30, 3), 0)
    log.replace(OffsetAndEpoch(30, 3), 1)
    assert log.flush_done(job) == (0, 11)
    assert (log.flushed_offset, log.end_offset) == (30, 30)
    log.close()


def test_it_rolls_at_a_snapshot_once_the_active_segment_holds_enough(tmp_path: Path) -> None:
    log = log_of(tmp_path, (0, 3, 1))
    size = 3 * len(batch(0))
    assert not log.roll_at(size + 1, 3)
    assert log.roll_at(size, 3)
    assert segments(tmp_path) == [0, 3]
    assert not log.roll_at(1, 3)
    log.append(run_of(3, 5), 3, 5)
    assert not log.roll_at(1, 3), "nothing of this segment is in the snapshot"
    log.cut_front(OffsetAndEpoch(3, 1))
    assert segments(tmp_path) == [3]
    log.close()


class TestOpening:
    """What an opening makes of the snapshots that it is told of."""

    def reopen(self, folder: Path, *snapshots: tuple[int, int], flushed: tuple[int, int] | None = None):
        return Log.open(
            Disk(OsFileSystem()),
            folder,
            config=SMALL,
            recovery_point=OffsetAndEpoch(*flushed) if flushed else None,
            snapshots=[OffsetAndEpoch(*each) for each in snapshots],
        )

    @pytest.mark.covers("SNAP-22", "SNAP-23", "D-23")
    def test_a_log_that_goes_on_from_a_snapshot_stays(self, tmp_path: Path) -> None:
        log_of(tmp_path, (0, 6, 1), (6, 14, 2)).close()
        for snapshots in ([(6, 1)], [(3, 1), (9, 2)], [(14, 2)], []):
            log, report = self.reopen(tmp_path, *snapshots, flushed=(14, 2))
            assert (log.start_offset, log.end_offset, report.notes) == (0, 14, ())
            assert report.snapshots == tuple(OffsetAndEpoch(*each) for each in snapshots)
            log.close()

    @pytest.mark.covers("SNAP-21", "SNAP-23", "D-23")
    @pytest.mark.parametrize(
        "snapshot",
        [(15, 2), (30, 7), (14, 3), (9, 3), (6, 2)],
        ids=["further", "much further", "another end", "another record in the middle", "in an older epoch"],
    )
    def test_a_snapshot_that_goes_further_or_another_way_takes_its_place(
        self, tmp_path: Path, snapshot: tuple[int, int]
    ) -> None:
        log_of(tmp_path, (0, 6, 1), (6, 14, 2)).close()
        for flushed in ((14, 2), snapshot):
            log, report = self.reopen(tmp_path, (3, 1), snapshot, flushed=flushed)
            assert (log.start_offset, log.end_offset, log.flushed_offset) == (snapshot[0],) * 3
            assert (log.last_epoch, log.epochs) == (snapshot[1], ())
            assert report.snapshots == (OffsetAndEpoch(*snapshot),)
            assert segments(tmp_path) == [snapshot[0]]
            log.abandon()

    @pytest.mark.covers("SNAP-21")
    def test_to_look_at_it_changes_nothing(self, tmp_path: Path) -> None:
        log_of(tmp_path, (0, 6, 1)).close()
        opened = Log.open(DISK, tmp_path, snapshots=[OffsetAndEpoch(9, 2)], read_only=True)
        assert (opened.log.start_offset, opened.log.end_offset, opened.log.last_epoch) == (9, 9, 2)
        opened.log.abandon()
        assert segments(tmp_path) == [0, 4]

    @pytest.mark.covers("D-05", "D-23")
    def test_what_was_flushed_above_the_snapshot_and_is_lost_is_damage(self, tmp_path: Path) -> None:
        log_of(tmp_path, (0, 14, 1)).close()
        for path in tmp_path.glob("*[48].log"):
            path.unlink()
        (tmp_path / f"{12:020}.log").unlink()
        log, report = self.reopen(tmp_path, (9, 1), flushed=(14, 1))
        assert (log.start_offset, log.end_offset) == (0, 14)
        assert [(each.offset, each.end_offset) for each in report.damage] == [(4, 14)]
        log.close()

    @pytest.mark.covers("CLN-07", "D-22", "D-23")
    def test_a_cut_that_a_crash_stopped_is_ended(self, tmp_path: Path) -> None:
        log_of(tmp_path, (0, 14, 1)).close()
        (tmp_path / f"{0:020}.log").unlink()
        log, report = self.reopen(tmp_path, (3, 1), (10, 1), (13, 1), flushed=(14, 1))
        assert (log.start_offset, log.start_epoch, log.end_offset) == (10, 1, 14)
        assert report.snapshots == (OffsetAndEpoch(10, 1), OffsetAndEpoch(13, 1))
        assert log.epochs == (EpochEntry(1, 10),)
        assert segments(tmp_path) == [8, 12]
        log.close()

    @pytest.mark.covers("D-23")
    @pytest.mark.parametrize("hurt", [0, 4])
    def test_damage_below_a_snapshot_is_no_loss_and_goes_with_its_segment(
        self, tmp_path: Path, hurt: int
    ) -> None:
        """Which a start meets only if it has to read everything: here because an epoch is not as expected."""
        log_of(tmp_path, (0, 14, 1)).close()
        path = tmp_path / f"{hurt:020}.log"
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(bytes(data))
        (tmp_path / "leader-epoch-checkpoint").unlink()
        log, report = self.reopen(tmp_path, (3, 1), (9, 1), (13, 1), flushed=(14, 1))
        start = 3 if hurt == 0 else 9
        assert (report.damage, log.start_offset) == ((), start)
        assert f"no loss: the log begins at the snapshot at offset {start} now" in report.notes[0]
        assert offsets_in(log) == list(range(start, 14))
        log.close()

    @pytest.mark.covers("D-05", "D-23")
    def test_damage_that_no_snapshot_covers_stays_damage(self, tmp_path: Path) -> None:
        log_of(tmp_path, (0, 14, 1)).close()
        path = tmp_path / f"{8:020}.log"
        data = bytearray(path.read_bytes())
        data[200] ^= 1
        path.write_bytes(bytes(data))
        log, report = self.reopen(tmp_path, (9, 1), flushed=(14, 1))
        assert [(each.offset, each.end_offset) for each in report.damage] == [(9, 10)]
        assert log.start_offset == 0
        log.close()
