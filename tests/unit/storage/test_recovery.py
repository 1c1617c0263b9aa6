"""Opening a log: what is torn is cut, what is damaged never is, and only the disk itself is believed."""

import os
from pathlib import Path
from random import Random

import pytest

from kraftd.errors import StorageError
from kraftd.records.batch_header import HEADER_BYTES
from kraftd.storage import DamagedReadError, Disk, Log, LogConfig, Opened, OsFileSystem, StorageFailure
from kraftd.types import EpochEntry, OffsetAndEpoch
from tests.crash.hooks import Changes, PowerCutError, calm, cut_power_before, refuse
from tests.sim.filesystem import SimFileSystem
from tests.unit.storage.batches import batch, run_of

SIZE = len(batch(0))
SMALL = LogConfig(segment_bytes=4 * SIZE, index_bytes=96)


def open_at(
    directory: Path, recovery_point: int | None, *, read_only: bool = False, epoch: int = 1
) -> Opened:
    known = None if recovery_point is None else OffsetAndEpoch(recovery_point, epoch)
    return Log.open(Disk(OsFileSystem()), directory, recovery_point=known, config=SMALL, read_only=read_only)


def write(directory: Path, end_offset: int = 10) -> None:
    """A log of three segments: offsets 0-3, 4-7, 8-9."""
    log = open_at(directory, None).log
    log.append(run_of(0, end_offset), 0, end_offset)
    log.close()


def segment(directory: Path, base: int) -> Path:
    return directory / f"{base:020d}.log"


def spoil(path: Path, position: int, data: bytes = b"\xff\xff\xff") -> None:
    raw = bytearray(path.read_bytes())
    raw[position : position + len(data)] = data
    path.write_bytes(raw)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.log")}


class TestTorn:
    @pytest.mark.covers("D-05", "LOG-14")
    @pytest.mark.parametrize("bad_at", [SIZE - 1, SIZE + 70, 0, 17])
    def test_bad_bytes_at_or_above_the_recovery_point_are_cut_with_all_that_follows(
        self, tmp_path: Path, bad_at: int
    ) -> None:
        write(tmp_path)
        spoil(segment(tmp_path, 4), bad_at)
        kept = 4 + bad_at // SIZE
        log, report = open_at(tmp_path, 4)
        assert log.end_offset == kept
        assert report.damage == ()
        assert len(report.torn) == 1
        assert "00000000000000000004.log: torn, dropped from byte" in report.torn[0]
        assert f"(offset {kept})" in report.torn[0]
        assert not segment(tmp_path, 8).exists()
        log.append((batch(kept, epoch=2),), kept, kept + 1)
        log.close()
        assert open_at(tmp_path, kept + 1).log.read(kept, 1) == batch(kept, epoch=2)

    @pytest.mark.covers("D-05")
    def test_a_batch_that_was_written_in_part_is_cut(self, tmp_path: Path) -> None:
        write(tmp_path)
        path = segment(tmp_path, 8)
        path.write_bytes(path.read_bytes()[: SIZE + 30])
        log, report = open_at(tmp_path, 9)
        assert (log.end_offset, report.damage, len(report.torn)) == (9, (), 1)
        assert path.stat().st_size == SIZE
        log.close()

    @pytest.mark.covers("D-05")
    def test_a_file_that_grew_before_its_content_came_is_cut(self, tmp_path: Path) -> None:
        write(tmp_path)
        path = segment(tmp_path, 8)
        path.write_bytes(path.read_bytes()[:SIZE] + bytes(3 * SIZE))
        log, report = open_at(tmp_path, 8)
        assert (log.end_offset, report.damage, len(report.torn)) == (9, (), 1)
        log.close()

    @pytest.mark.covers("D-05")
    def test_segments_that_nothing_leads_to_go_if_they_were_not_flushed(self, tmp_path: Path) -> None:
        write(tmp_path)
        path = segment(tmp_path, 4)
        path.write_bytes(path.read_bytes()[: 2 * SIZE])
        log, report = open_at(tmp_path, 6)
        assert (log.end_offset, report.damage) == (6, ())
        assert "removed" in report.torn[0]
        assert not segment(tmp_path, 8).exists()
        log.close()

    @pytest.mark.covers("D-05")
    def test_a_batch_of_an_older_epoch_or_another_offset_is_no_continuation(self, tmp_path: Path) -> None:
        write(tmp_path)
        path = segment(tmp_path, 8)
        for wrong in (batch(9, epoch=0), batch(10), batch(8)):
            path.write_bytes(batch(8) + wrong)
            log, report = open_at(tmp_path, 9)
            assert (log.end_offset, report.damage, len(report.torn)) == (9, (), 1)
            log.close()


class TestDamaged:
    @pytest.mark.covers("D-05", "D-06", "Q-16")
    @pytest.mark.parametrize("bad_at", [0, SIZE + 8, 2 * SIZE + 70, 4 * SIZE - 1])
    def test_bad_bytes_below_the_recovery_point_are_never_cut(self, tmp_path: Path, bad_at: int) -> None:
        write(tmp_path)
        spoil(segment(tmp_path, 4), bad_at)
        before = contents(tmp_path)
        bad = 4 + bad_at // SIZE
        log, report = open_at(tmp_path, 10)
        assert contents(tmp_path) == before
        assert (log.end_offset, report.torn) == (10, ())
        (damage,) = report.damage
        assert (damage.offset, damage.end_offset) == (bad, bad + 1)
        assert damage.position_bytes == bad_at // SIZE * SIZE
        assert damage.file == str(segment(tmp_path, 4))
        assert "stopped, emptied, formatted and started again, as docs/operations.md (Trouble)" in str(damage)
        with pytest.raises(DamagedReadError, match=f"offset {bad} "):
            log.read(bad, 100)
        for offset in range(10):
            if offset != bad:
                assert log.read(offset, 1) == batch(offset)
        # What follows is appended where the log ends, and is there at the next opening, as is the damage.
        log.append((batch(10),), 10, 11)
        log.close()
        log, report = open_at(tmp_path, 11)
        assert (log.end_offset, len(report.damage)) == (11, 1)
        assert log.read(10, 1) == batch(10)
        log.close()

    @pytest.mark.covers("D-05")
    @pytest.mark.parametrize("wrong", [0, 4, 6, 9, 10, 11, 1 << 40])
    def test_an_offset_that_no_checksum_covers_is_not_believed(self, tmp_path: Path, wrong: int) -> None:
        write(tmp_path)
        path = segment(tmp_path, 4)
        spoil(path, SIZE, wrong.to_bytes(8, "big"))
        before = contents(tmp_path)
        log, report = open_at(tmp_path, 10)
        assert [(d.offset, d.end_offset) for d in report.damage] == [(5, 6)]
        assert (log.end_offset, report.torn, contents(tmp_path)) == (10, (), before)
        log.close()

    @pytest.mark.covers("D-05")
    def test_a_batch_after_damage_is_not_taken_for_the_one_that_was_lost(self, tmp_path: Path) -> None:
        write(tmp_path, 4)
        spoil(segment(tmp_path, 0), 0, bytes(SIZE + 8))
        log, report = open_at(tmp_path, 4)
        assert [(d.offset, d.end_offset) for d in report.damage] == [(0, 2)]
        assert log.read(2, 1) == batch(2)
        log.close()

    @pytest.mark.covers("D-05")
    def test_a_read_stops_before_the_damage(self, tmp_path: Path) -> None:
        write(tmp_path)
        spoil(segment(tmp_path, 4), 2 * SIZE + 70)
        log = open_at(tmp_path, 10).log
        assert log.read(4, 1 << 20) == batch(4) + batch(5)
        assert log.read(7, 1 << 20) == batch(7)
        assert log.tail(1 << 20) == [batch(7), batch(8), batch(9)]
        log.close()

    @pytest.mark.covers("D-05")
    @pytest.mark.parametrize("lost", ["cut", "zeros", "removed"])
    def test_a_flushed_end_that_is_gone_is_a_hole_and_not_a_shorter_log(
        self, tmp_path: Path, lost: str
    ) -> None:
        write(tmp_path)
        path = segment(tmp_path, 8)
        if lost == "removed":
            path.unlink()
        else:
            path.write_bytes(batch(8) + (bytes(SIZE) if lost == "zeros" else b""))
        before = contents(tmp_path)
        log, report = open_at(tmp_path, 10, epoch=3)
        start = 8 if lost == "removed" else 9
        assert log.end_offset == 10
        assert [(d.offset, d.end_offset) for d in report.damage] == [(start, 10)]
        assert log.epochs == (EpochEntry(1, 0), EpochEntry(3, start))
        assert {name: data for name, data in contents(tmp_path).items() if name in before} == before
        log.append((batch(10, epoch=4),), 10, 11)
        log.close()
        log, report = open_at(tmp_path, 11)
        assert log.read(10, 1) == batch(10, epoch=4)
        assert [(d.offset, d.end_offset) for d in report.damage] == [(start, 10)]
        log.close()

    @pytest.mark.covers("D-05")
    def test_a_missing_segment_in_the_middle_is_a_hole(self, tmp_path: Path) -> None:
        write(tmp_path)
        segment(tmp_path, 4).unlink()
        log, report = open_at(tmp_path, 10)
        assert [(d.offset, d.end_offset) for d in report.damage] == [(4, 8)]
        with pytest.raises(DamagedReadError):
            log.read(5, 100)
        assert log.read(8, 1) == batch(8)
        log.close()

    @pytest.mark.covers("D-05")
    def test_all_segments_gone_is_damage_too(self, tmp_path: Path) -> None:
        log, report = open_at(tmp_path, 7, epoch=2)
        assert (log.end_offset, log.last_epoch) == (7, 2)
        assert [(d.offset, d.end_offset) for d in report.damage] == [(0, 7)]
        log.close()

    @pytest.mark.covers("D-05")
    def test_torn_and_damaged_at_once(self, tmp_path: Path) -> None:
        write(tmp_path)
        spoil(segment(tmp_path, 0), SIZE + 70)
        spoil(segment(tmp_path, 4), 3 * SIZE + 70)
        log, report = open_at(tmp_path, 6)
        assert [(d.offset, d.end_offset) for d in report.damage] == [(1, 2)]
        assert (log.end_offset, len(report.torn)) == (7, 1)
        log.close()

    @pytest.mark.covers("D-05")
    def test_what_was_flushed_and_lost_is_not_replaced_by_what_was_not_flushed(self, tmp_path: Path) -> None:
        """Offsets 5 and 6 are bad, 6 was never flushed: 7 and later cannot be kept behind a hole of ours."""
        write(tmp_path)
        spoil(segment(tmp_path, 4), SIZE, b"\0" * 2 * SIZE)
        log, report = open_at(tmp_path, 6)
        assert [(d.offset, d.end_offset) for d in report.damage] == [(5, 6)]
        assert log.end_offset == 6
        log.append((batch(6, epoch=2),), 6, 7)
        log.close()
        log, report = open_at(tmp_path, 7)
        assert [(d.offset, d.end_offset) for d in report.damage] == [(5, 6)]
        assert log.read(6, 1) == batch(6, epoch=2)
        log.close()

    @pytest.mark.covers("D-05")
    @pytest.mark.parametrize("cut_at", [5, 6, 7, 4, 2])
    def test_a_truncation_keeps_the_damage_below_it(self, tmp_path: Path, cut_at: int) -> None:
        """A log that forgets its hole would count as whole again, without the records that were in it."""
        write(tmp_path)
        spoil(segment(tmp_path, 4), SIZE, b"\0" * 2 * SIZE)
        log = open_at(tmp_path, 10).log
        before = segment(tmp_path, 4).read_bytes()
        assert log.truncate(cut_at, 1) == cut_at
        if cut_at > 5:
            assert segment(tmp_path, 4).read_bytes() == before[: 3 * SIZE]
        log.append((batch(cut_at, epoch=2),), cut_at, cut_at + 1)
        log.close()
        log, report = open_at(tmp_path, cut_at + 1)
        assert log.end_offset == cut_at + 1
        assert log.read(cut_at, 1) == batch(cut_at, epoch=2)
        holes = [(d.offset, d.end_offset) for d in report.damage]
        assert holes == {7: [(5, 7)], 6: [(5, 6)]}.get(cut_at, [])
        log.close()

    @pytest.mark.covers("D-05")
    def test_epochs_that_began_in_a_hole_are_taken_from_their_file(self, tmp_path: Path) -> None:
        log = open_at(tmp_path, None).log
        log.append([batch(0), batch(1, epoch=2), batch(2, epoch=3), batch(3, epoch=3)], 0, 4)
        log.close()
        spoil(segment(tmp_path, 0), SIZE + 70)
        spoil(segment(tmp_path, 0), 2 * SIZE + 70)
        log = open_at(tmp_path, 4).log
        assert log.epochs == (EpochEntry(1, 0), EpochEntry(2, 1), EpochEntry(3, 2))
        log.close()


class TestWithoutRecoveryPoint:
    @pytest.mark.covers("D-05")
    def test_the_end_of_the_last_segment_may_be_cut(self, tmp_path: Path) -> None:
        write(tmp_path)
        spoil(segment(tmp_path, 8), SIZE + 70)
        log, report = open_at(tmp_path, None)
        assert (log.end_offset, report.damage, len(report.torn)) == (9, (), 1)
        log.close()

    @pytest.mark.covers("D-05")
    @pytest.mark.parametrize("base", [0, 4, 8])
    def test_nothing_else_may(self, tmp_path: Path, base: int) -> None:
        write(tmp_path)
        spoil(segment(tmp_path, base), 70)
        before = contents(tmp_path)
        log, report = open_at(tmp_path, None)
        assert contents(tmp_path) == before
        assert [(d.offset, d.end_offset) for d in report.damage] == [(base, base + 1)]
        assert (log.end_offset, report.torn) == (10, ())
        log.close()

    @pytest.mark.covers("D-05")
    def test_empty_segments_after_a_torn_one_hold_nothing(self, tmp_path: Path) -> None:
        write(tmp_path, 8)
        segment(tmp_path, 8).write_bytes(b"")
        path = segment(tmp_path, 4)
        path.write_bytes(path.read_bytes()[:-5])
        log, report = open_at(tmp_path, None)
        assert (log.end_offset, report.damage) == (7, ())
        log.close()

    def test_two_histories_in_one_directory_are_refused(self, tmp_path: Path) -> None:
        write(tmp_path)
        segment(tmp_path, 7).write_bytes(batch(7))
        with pytest.raises(StorageError, match="two histories"):
            open_at(tmp_path, None)

    def test_a_file_that_only_looks_like_a_segment_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "backup.log").write_bytes(b"")
        with pytest.raises(StorageError, match=r"backup\.log: not the name of a segment"):
            open_at(tmp_path, None)


class TestDiskIsBelieved:
    HOME = Path("/log")

    def open(self, fs: SimFileSystem, recovery_point: int | None) -> Opened:
        known = None if recovery_point is None else OffsetAndEpoch(recovery_point, 1)
        return Log.open(Disk(fs), self.HOME, recovery_point=known, config=SMALL)

    def fresh(self) -> SimFileSystem:
        fs = SimFileSystem()
        fs.make_directory(self.HOME)
        fs.sync_directory(Path("/"))
        return fs

    @pytest.mark.covers("LOG-15")
    @pytest.mark.parametrize("snapshots", [(), (OffsetAndEpoch(9, 1),)], ids=["read", "read later"])
    def test_an_index_file_that_cannot_be_read_is_made_anew(
        self, snapshots: tuple[OffsetAndEpoch, ...]
    ) -> None:
        """It holds nothing that the log does not: no reason to refuse a start."""
        fs, config = self.fresh(), LogConfig(segment_bytes=4 * len(batch(0, size_bytes=2_500)))
        log = Log.open(Disk(fs), self.HOME, config=config).log
        for offset in range(10):
            log.append((batch(offset, size_bytes=2_500),), offset, offset + 1)
        log.close()
        fs.sync_everything()
        right = {path: fs.content(path) for path in fs.paths() if path.suffix in {".index", ".timeindex"}}
        hurt = [path for path in sorted(right) if path.stem == f"{4:020}"]
        for path in hurt:
            fs.damage(path, "unreadable", 0, Random(0))
        assert len(fs.bad_sectors()) == 2
        log = Log.open(
            Disk(fs), self.HOME, recovery_point=OffsetAndEpoch(10, 1), snapshots=snapshots, config=config
        ).log
        while (check := log.unread.next_check()) is not None:
            while not check.advance():
                pass
            assert log.unread.finish(check) is None
        log.close()
        assert fs.bad_sectors() == []
        assert {path: fs.content(path) for path in right} == right

    @pytest.mark.covers("D-04")
    def test_what_survived_a_kill_in_the_page_cache_is_durable_once_opened(self) -> None:
        fs = self.fresh()
        log = self.open(fs, None).log
        log.append(run_of(0, 6), 0, 6)
        # The process is gone; the machine is not.
        log = self.open(fs, 0).log
        assert log.end_offset == 6
        for disk in fs.crash_states():
            again, report = self.open(disk, 6)
            assert again.end_offset == 6
            assert report.damage == ()

    @pytest.mark.covers("D-04")
    def test_so_is_what_began_in_the_middle_of_one_segment_and_ends_in_the_next(self) -> None:
        fs = self.fresh()
        log = self.open(fs, None).log
        log.append(run_of(0, 2), 0, 2)
        log.flush()
        log.append(run_of(2, 6), 2, 6)
        log, report = self.open(fs, 2)
        assert (log.end_offset, report.damage, report.torn) == (6, (), ())
        for disk in fs.crash_states():
            again, report = self.open(disk, 6)
            assert (again.end_offset, report.damage) == (6, ())

    @pytest.mark.covers("D-02", "D-04")
    def test_so_is_a_segment_whose_name_was_not_synced_yet(self) -> None:
        fs = self.fresh()
        log = self.open(fs, None).log
        log.append(run_of(0, 4), 0, 4)
        log.flush()

        def kill(operation: str, _name: str, _count: int) -> None:
            if operation == "sync_directory":
                raise PowerCutError

        Changes(fs, kill)
        with pytest.raises(PowerCutError):
            log.append((batch(4),), 4, 5)
        calm(fs)
        log = self.open(fs, 4).log
        log.append((batch(4),), 4, 5)
        log.flush()
        for disk in fs.crash_states():
            again, report = self.open(disk, 5)
            assert (again.end_offset, report.damage) == (5, ())

    @pytest.mark.covers("D-03")
    def test_a_truncation_that_is_interrupted_leaves_a_chain(self) -> None:
        """Without our recovery point, too, a log is found that only ends too late, not one with a gap."""
        for number in range(100):
            fs = self.fresh()
            log = self.open(fs, None).log
            log.append(run_of(0, 14), 0, 14)
            log.close()
            log = self.open(fs, None).log
            cut_power_before(fs, number)
            try:
                log.truncate(2, 1)
            except PowerCutError:
                for disk in fs.crash_states():
                    again, report = self.open(disk, None)
                    assert report.damage == ()
                    assert again.end_offset >= 2
            else:
                return

    @pytest.mark.covers("D-04")
    @pytest.mark.parametrize("recovery_point", [0, 2, None])
    def test_pages_of_a_failed_sync_look_clean_and_are_not_believed(self, recovery_point: int | None) -> None:
        fs = self.fresh()
        log = self.open(fs, None).log
        log.append(run_of(0, 2), 0, 2)
        log.flush()
        log.append((batch(2),), 2, 3)
        refuse(fs, "fdatasync")
        with pytest.raises(StorageFailure):
            log.flush()
        calm(fs)
        assert batch(2) in fs.content(self.HOME / "00000000000000000000.log")
        log, report = self.open(fs, recovery_point)
        assert log.end_offset == 2
        assert report.damage == ()

    @pytest.mark.covers("D-04")
    def test_other_batches_on_the_disk_than_in_the_cache_are_the_ones_that_count(self) -> None:
        fs = self.fresh()
        log = self.open(fs, None).log
        log.append(run_of(0, 2), 0, 2)
        log.flush()
        path = self.HOME / "00000000000000000000.log"
        fs.overwrite(path, 0, batch(0) + batch(1, timestamp_ms=2_000), cached=True)
        assert fs.content(path) == batch(0) + batch(1)
        log, report = self.open(fs, 1)
        assert (log.end_offset, report.damage) == (2, ())
        assert log.read(1, 1) == batch(1, timestamp_ms=2_000)

    @pytest.mark.covers("D-04")
    def test_a_disk_that_answers_differently_each_time_is_not_used(self) -> None:
        fs = self.fresh()
        log = self.open(fs, None).log
        log.append(run_of(0, 2), 0, 2)
        log.flush()
        path = self.HOME / "00000000000000000000.log"
        good = fs.content(path)

        def lie(_handle: int) -> None:
            fs.overwrite(path, SIZE, good[SIZE:] if fs.content(path) != good else bytes(SIZE))

        fs.drop_cache = lie  # type: ignore[method-assign]
        with pytest.raises(StorageError, match="replace the disk"):
            self.open(fs, 1)


class BadSector(OsFileSystem):
    """Real files, with a page that the disk cannot read any more."""

    def __init__(self, path: Path, page: int) -> None:
        self._path = str(path)
        self._bad = range(page * 4_096, (page + 1) * 4_096)

    def pread(self, handle: int, size_bytes: int, position: int) -> bytes:  # type: ignore[override]
        asked = range(max(position, self._bad.start), min(position + size_bytes, self._bad.stop))
        if asked and str(Path(f"/proc/self/fd/{handle}").readlink()) == self._path:
            raise OSError(5, "Input/output error")
        return os.pread(handle, size_bytes, position)


class TestBadSector:
    @pytest.mark.covers("D-05", "D-06")
    @pytest.mark.parametrize("page", [0, 1, 3, 9])
    def test_it_is_damage_of_the_batches_on_it(self, tmp_path: Path, page: int) -> None:
        batches = run_of(0, 60, size_bytes=700)
        size = len(batches[0])
        log = Log.open(Disk(OsFileSystem()), tmp_path).log
        log.append(batches, 0, 60)
        log.close()
        lost = [n for n in range(60) if n * size < (page + 1) * 4_096 and (n + 1) * size > page * 4_096]
        fs = BadSector(segment(tmp_path, 0), page)
        log, report = Log.open(Disk(fs), tmp_path, recovery_point=OffsetAndEpoch(60, 1))
        assert [(d.offset, d.end_offset) for d in report.damage] == [(lost[0], lost[-1] + 1)]
        assert log.end_offset == 60
        assert log.read(lost[-1] + 1, 1) == batches[lost[-1] + 1]
        with pytest.raises(StorageError):
            log.read(lost[0], 1)
        log.append(run_of(60, 61), 60, 61)
        log.close()


class TestEpochs:
    """The checksum of a batch does not cover its epoch; `leader-epoch-checkpoint` says what it must be."""

    EPOCH_AT = 12

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        """Epoch 1 at offset 0, epoch 2 at 5, epoch 4 at 9; segments of four batches."""
        log = open_at(tmp_path, None).log
        for epoch, start, end in ((1, 0, 5), (2, 5, 9), (4, 9, 11)):
            log.append(run_of(start, end, epoch), start, end)
        log.close()
        return tmp_path

    def turn(self, home: Path, offset: int, epoch: int) -> None:
        path = segment(home, offset // 4 * 4)
        spoil(path, offset % 4 * SIZE + self.EPOCH_AT, epoch.to_bytes(4, "big"))

    @pytest.mark.covers("D-05", "D-06")
    @pytest.mark.parametrize(
        ("offset", "epoch"), [(0, 0), (2, 2), (4, 2), (5, 1), (6, 4), (7, 1 << 20), (10, 5)]
    )
    def test_a_wrong_epoch_below_the_recovery_point_is_damage_of_that_batch(
        self, home: Path, offset: int, epoch: int
    ) -> None:
        self.turn(home, offset, epoch)
        for _ in range(2):
            log, report = open_at(home, 11, epoch=4)
            assert [(d.offset, d.end_offset) for d in report.damage] == [(offset, offset + 1)]
            assert f"says epoch {epoch} where leader-epoch-checkpoint says" in report.damage[0].text
            assert [entry.epoch for entry in log.epochs] == [1, 2, 4]
            assert log.end_offset == 11
            log.close()

    @pytest.mark.covers("D-05")
    def test_above_the_recovery_point_it_is_torn(self, home: Path) -> None:
        self.turn(home, 10, 7)
        log, report = open_at(home, 10, epoch=4)
        assert (log.end_offset, log.last_epoch, report.damage, len(report.torn)) == (10, 4, (), 1)
        log.close()

    @pytest.mark.covers("D-05")
    def test_an_epoch_file_that_disagrees_with_several_batches_is_the_wrong_one(self, home: Path) -> None:
        file = home / "leader-epoch-checkpoint"
        good = file.read_bytes()
        file.write_bytes(good.replace(b"2 5", b"3 5"))
        log, report = open_at(home, 11, epoch=4)
        assert (report.damage, report.torn, log.end_offset) == ((), (), 11)
        assert "disagrees with the epochs of the batches" in report.notes[0]
        assert file.read_bytes() == good
        log.close()

    @pytest.mark.covers("D-05")
    def test_of_a_directory_without_a_recovery_point_the_epoch_file_proves_nothing(self, home: Path) -> None:
        (home / "leader-epoch-checkpoint").write_bytes(b"0\n1\n1 0\n")
        log, report = open_at(home, None)
        assert (report.damage, report.torn, log.end_offset, log.last_epoch) == ((), (), 11, 4)
        log.close()

    @pytest.mark.covers("D-05")
    def test_what_is_sound_behind_bad_bytes_is_found_wherever_a_window_ends(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The head of the next sound batch may lie across the end of what is read at once."""
        spoil(segment(home, 8), 70)
        found = set()
        for window_bytes in range(HEADER_BYTES + 1, HEADER_BYTES + 2 * SIZE):
            monkeypatch.setattr("kraftd.records.batch_search.WINDOW_BYTES", window_bytes)
            log, report = open_at(home, None, read_only=True)
            found.add((report.damage, report.torn, log.end_offset))
            log.close()
        assert len(found) == 1
        assert not report.torn
        assert report.damage


class TestReadOnly:
    def test_a_directory_that_is_not_there_is_no_empty_log(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError, match="is not a directory"):
            open_at(tmp_path / "missing", None, read_only=True)

    @pytest.mark.covers("D-05")
    def test_nothing_is_changed_whatever_is_found(self, tmp_path: Path) -> None:
        write(tmp_path)
        spoil(segment(tmp_path, 8), SIZE + 70)
        for path in tmp_path.glob("*index"):
            path.unlink()
        before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
        log, report = open_at(tmp_path, 8, read_only=True)
        assert (log.end_offset, len(report.torn)) == (9, 1)
        assert log.read(8, 1) == batch(8)
        log.close()
        after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
        assert after == before
