"""The log on real files: appending, rolling, flushing, cutting, reading."""

import os
import threading
from pathlib import Path

import pytest

from kraftd.errors import InvariantError
from kraftd.storage import Disk, Log, LogConfig, OffsetOutOfRangeError, OsFileSystem, StorageFailure
from kraftd.storage.sidecar import Sidecar, read_sidecar
from kraftd.types import EpochEntry, OffsetAndEpoch
from tests.unit.storage.batches import batch, index_entries, run_of, time_index_entries

DEFAULT = LogConfig()


def log_at(directory: Path, config: LogConfig = DEFAULT, recovery_point: OffsetAndEpoch | None = None) -> Log:
    return Log.open(Disk(OsFileSystem()), directory, config=config, recovery_point=recovery_point).log


def fill(log: Log, batches: list[bytes], at: int = 0) -> None:
    for offset, data in enumerate(batches, start=at):
        log.append((data,), offset, offset + 1)


def files(directory: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in directory.glob(f"*{suffix}"))


class TestAppend:
    @pytest.mark.covers("LOG-16")
    def test_an_empty_directory_becomes_an_empty_log(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        assert (log.start_offset, log.end_offset, log.flushed_offset, log.last_epoch) == (0, 0, 0, 0)
        assert files(tmp_path, ".log") == ["00000000000000000000.log"]
        log.close()

    def test_the_file_is_the_batches_one_after_the_other(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        first, second, third = batch(0), batch(1, count=3), batch(4)
        log.append((first,), 0, 1)
        log.append((second, third), 1, 5)
        log.append((batch(5) + batch(6),), 5, 7)
        assert (tmp_path / "00000000000000000000.log").read_bytes() == (
            first + second + third + batch(5) + batch(6)
        )
        assert log.end_offset == 7
        log.close()

    @pytest.mark.covers("LOG-01")
    def test_batches_that_do_not_continue_the_log_are_refused(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        fill(log, run_of(0, 3))
        for data, base, end in [(batch(4), 4, 5), (batch(2), 2, 3), (batch(3), 3, 5), (batch(9), 3, 4)]:
            with pytest.raises(InvariantError):
                log.append((data,), base, end)
        with pytest.raises(InvariantError):
            log.append((), 3, 3)
        assert log.end_offset == 3
        assert log.read(0, 10_000) == b"".join(run_of(0, 3))
        log.close()

    def test_more_buffers_than_one_call_takes_are_written_whole(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        batches = run_of(0, 3_000)
        log.append(batches, 0, 3_000)
        assert (tmp_path / "00000000000000000000.log").read_bytes() == b"".join(batches)
        log.close()


class TestRoll:
    @pytest.mark.covers("LOG-02")
    def test_a_segment_is_never_larger_than_its_limit(self, tmp_path: Path) -> None:
        size = len(batch(0))
        log = log_at(tmp_path, LogConfig(segment_bytes=3 * size))
        fill(log, run_of(0, 7))
        assert files(tmp_path, ".log") == [f"{base:020d}.log" for base in (0, 3, 6)]
        assert log.read(0, 1 << 20) == b"".join(run_of(0, 3))
        assert log.read(4, 1 << 20) == b"".join(run_of(4, 6))
        log.close()

    def test_a_group_is_split_where_the_segment_is_full(self, tmp_path: Path) -> None:
        size = len(batch(0))
        log = log_at(tmp_path, LogConfig(segment_bytes=3 * size))
        log.append(run_of(0, 8), 0, 8)
        assert files(tmp_path, ".log") == [f"{base:020d}.log" for base in (0, 3, 6)]
        log.close()
        assert log_at(tmp_path).end_offset == 8

    @pytest.mark.parametrize("group", [1, 3, 8])
    def test_a_segment_that_is_full_gets_no_more_batches(self, tmp_path: Path, group: int) -> None:
        sealed_at_bytes = 2 * len(batch(0)) + 1
        log = log_at(tmp_path, LogConfig(sealed_at_bytes=sealed_at_bytes))
        for base in range(0, 8, group):
            end = min(base + group, 8)
            log.append(run_of(base, end), base, end)
        assert files(tmp_path, ".log") == [f"{base:020d}.log" for base in (0, 3, 6)]
        log.close()

    @pytest.mark.covers("LOG-02")
    def test_time_rolls_against_the_first_batch_of_the_segment(self, tmp_path: Path) -> None:
        log = log_at(tmp_path, LogConfig(segment_ms=100))
        for offset, now_ms in enumerate([1_000, 1_100, 1_101, 1_201, 1_202]):
            log.append((batch(offset, timestamp_ms=now_ms),), offset, offset + 1)
        assert files(tmp_path, ".log") == [f"{base:020d}.log" for base in (0, 2, 4)]
        log.close()

    @pytest.mark.covers("LOG-02")
    def test_a_full_index_rolls(self, tmp_path: Path) -> None:
        log = log_at(tmp_path, LogConfig(index_bytes=48))
        batches = [batch(offset, size_bytes=5_000, timestamp_ms=offset) for offset in range(20)]
        fill(log, batches)
        assert len(files(tmp_path, ".log")) > 1
        log.close()
        assert max(path.stat().st_size for path in tmp_path.glob("*index")) <= 48

    @pytest.mark.covers("LOG-03")
    def test_index_files_hold_what_kafka_would_write(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        batches = [batch(offset, size_bytes=1_500, timestamp_ms=1_000 + offset) for offset in range(12)]
        fill(log, batches)
        active = tmp_path / "00000000000000000000.index"
        assert active.stat().st_size == 10_485_760
        assert active.with_suffix(".timeindex").stat().st_size == 10_485_756
        size = len(batches[0])
        # An entry for each batch that begins more than 4,096 bytes after the last entry's.
        wanted = [(3, 3 * size), (6, 6 * size), (9, 9 * size)]
        assert index_entries(active.read_bytes()) == wanted
        log.close()
        assert active.stat().st_size == 3 * 8
        assert time_index_entries(active.with_suffix(".timeindex").read_bytes()) == [
            (1_003, 3),
            (1_006, 6),
            (1_009, 9),
            (1_011, 11),
        ]
        before = {path.name: path.read_bytes() for path in tmp_path.glob("*index")}
        log_at(tmp_path).close()
        assert {path.name: path.read_bytes() for path in tmp_path.glob("*index")} == before

    @pytest.mark.covers("LOG-15")
    def test_orphans_go_at_the_opening(self, tmp_path: Path) -> None:
        for name in ("00000000000000000007.index", "00000000000000000008.timeindex", "keep.me"):
            (tmp_path / name).write_bytes(b"x")
        log_at(tmp_path).close()
        left = {path.name for path in tmp_path.iterdir() if not path.name.startswith("0" * 20 + ".")}
        assert left == {"keep.me"}


class SyncRecorder(OsFileSystem):
    """Real files; notes what was synced."""

    def __init__(self) -> None:
        self.synced: list[str] = []

    def fdatasync(self, handle: int) -> None:  # type: ignore[override]
        self.synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        os.fdatasync(handle)

    def sync_directory(self, path: Path) -> None:
        self.synced.append(path.name + "/")
        super().sync_directory(path)


class TestFlush:
    @pytest.mark.covers("D-03", "LOG-04")
    def test_unflushed_batches_of_an_epoch_that_was_not_noted_are_cut_and_nothing_before_them(
        self, tmp_path: Path
    ) -> None:
        log = Log.open(Disk(OsFileSystem()), tmp_path).log
        fill(log, run_of(0, 2, epoch=1))
        log.flush()
        fill(log, run_of(2, 2, epoch=2))
        log.abandon()
        opened = Log.open(Disk(OsFileSystem()), tmp_path)
        assert (opened.report.damage, opened.log.end_offset) == ((), 2)
        opened.log.close()

    def test_a_flush_covers_every_dirty_segment_then_the_directory(self, tmp_path: Path) -> None:
        fs = SyncRecorder()
        size = len(batch(0))
        log = Log.open(Disk(fs), tmp_path, config=LogConfig(segment_bytes=3 * size)).log
        log.flush()
        fill(log, run_of(0, 8))
        log.save_epochs()
        fs.synced.clear()
        log.flush()
        assert fs.synced == [f"{base:020d}.log" for base in (0, 3, 6)] + [f"{tmp_path.name}/"]
        log.append((batch(8),), 8, 9)
        fs.synced.clear()
        log.flush()
        assert fs.synced == ["00000000000000000006.log"]
        fs.synced.clear()
        log.begin_flush().run()
        assert fs.synced == []
        log.close()

    @pytest.mark.covers("D-02")
    def test_the_name_of_a_new_segment_is_durable_before_the_append_returns(self, tmp_path: Path) -> None:
        fs = SyncRecorder()
        log = Log.open(Disk(fs), tmp_path, config=LogConfig(segment_bytes=len(batch(0)))).log
        log.append((batch(0),), 0, 1)
        fs.synced.clear()
        log.append((batch(1),), 1, 2)
        assert fs.synced == [f"{tmp_path.name}/"]
        log.close()

    @pytest.mark.covers("RSG-13")
    def test_closing_flushes_the_active_segment_too(self, tmp_path: Path) -> None:
        fs = SyncRecorder()
        log = Log.open(Disk(fs), tmp_path, config=LogConfig(segment_bytes=2 * len(batch(0)))).log
        fill(log, run_of(0, 3))
        fs.synced.clear()
        log.close()
        assert {f"{base:020d}.log" for base in (0, 2)} <= set(fs.synced)

    @pytest.mark.covers("D-03")
    def test_one_job_covers_what_came_before_it_and_no_more(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        fill(log, run_of(0, 3))
        job = log.begin_flush()
        fill(log, run_of(3, 5), at=3)
        thread = threading.Thread(target=job.run)
        thread.start()
        thread.join()
        assert log.flush_done(job) == (0, 3)
        assert log.flushed_offset == 3
        assert log.end_offset == 5
        log.close()

    @pytest.mark.covers("D-05")
    def test_the_recovery_point_is_what_the_job_covered_and_a_roll_makes_it_durable(
        self, tmp_path: Path
    ) -> None:
        """A recovery point too high turns what a power cut tears into damage, on every node at once."""
        disk, path = Disk(OsFileSystem()), tmp_path / "kraftd.state"
        sidecar = Sidecar(disk, path, read_sidecar(disk, path))
        (tmp_path / "log").mkdir()
        config = LogConfig(segment_bytes=6 * len(batch(0)))
        log = Log.open(disk, tmp_path / "log", config=config, recovery_points=sidecar).log
        fill(log, run_of(0, 3))
        job = log.begin_flush()
        fill(log, run_of(3, 5), at=3)
        job.run()
        log.flush_done(job)
        assert sidecar.recovery_point is not None
        assert sidecar.recovery_point.offset == 3
        assert sidecar.unsynced_sequence, "written, not synced"
        fill(log, run_of(5, 7), at=5)
        assert not sidecar.unsynced_sequence, "a segment was begun"
        assert sidecar.recovery_point.offset == 3
        log.close()
        sidecar.close()

    @pytest.mark.covers("D-03")
    def test_a_flush_from_before_a_truncation_counts_for_nothing(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        fill(log, run_of(0, 10))
        job = log.begin_flush()
        job.run()
        log.truncate(4, 1)
        fill(log, run_of(4, 12, epoch=2), at=4)
        assert log.flush_done(job) == (0, 10)
        assert log.flushed_offset == 0
        log.flush()
        assert log.flushed_offset == 12
        log.close()

    @pytest.mark.covers("D-03")
    def test_flushes_run_one_at_a_time_and_a_truncation_waits_for_them(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        fill(log, run_of(0, 3))
        job = log.begin_flush()
        with pytest.raises(InvariantError):
            log.begin_flush()
        with pytest.raises(InvariantError):
            log.truncate(1, 1)
        with pytest.raises(InvariantError):
            log.flush_done(job)
        job.run()
        log.flush_done(job)
        log.truncate(1, 1)
        log.close()


class TestTruncate:
    @pytest.mark.covers("LOG-07", "LOG-08")
    def test_it_cuts_at_the_beginning_of_the_batch(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        log.append((batch(0, count=5), batch(5, count=5)), 0, 10)
        assert log.truncate(7, 1) == 5
        assert log.end_offset == 5
        assert log.read(0, 1 << 20) == batch(0, count=5)
        log.append((batch(5, epoch=2),), 5, 6)
        log.close()
        assert log_at(tmp_path).read(5, 1 << 20) == batch(5, epoch=2)

    @pytest.mark.covers("LOG-07")
    def test_at_the_end_it_only_drops_epochs_without_a_record(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        fill(log, run_of(0, 3))
        log.assign_epoch(2, 3)
        assert log.last_epoch == 2
        assert log.truncate(9, 1) == 3
        assert log.epochs == (EpochEntry(1, 0),)
        assert (log.end_offset, log.generation) == (3, 1)
        log.close()

    @pytest.mark.covers("LOG-07")
    def test_below_the_start_the_log_begins_anew(self, tmp_path: Path) -> None:
        log = log_at(tmp_path, LogConfig(segment_bytes=len(batch(0)) * 2))
        fill(log, run_of(0, 6))
        log.close()
        for name in ("00000000000000000000", "00000000000000000002"):
            for path in tmp_path.glob(name + ".*"):
                path.unlink()
        log = log_at(tmp_path)
        assert log.start_offset == 4
        log.truncate(1, 1)
        assert (log.start_offset, log.end_offset, log.epochs) == (1, 1, ())
        log.append((batch(1),), 1, 2)
        log.close()
        assert files(tmp_path, ".log") == ["00000000000000000001.log"]

    @pytest.mark.covers("D-03")
    def test_the_cut_is_synced_before_anything_is_appended(self, tmp_path: Path) -> None:
        fs = SyncRecorder()
        fs.fsync = lambda handle: (fs.synced.append(f"fsync {handle}"), os.fsync(handle))  # type: ignore[assignment,method-assign]
        size = len(batch(0))
        log = Log.open(Disk(fs), tmp_path, config=LogConfig(segment_bytes=3 * size)).log
        fill(log, run_of(0, 8))
        fs.synced.clear()
        log.truncate(1, 1)
        # Two segments go, newest first; the cut file; the directory; the epochs stay as they are.
        directory = f"{tmp_path.name}/"
        assert [name.partition(" ")[0] for name in fs.synced] == [directory, directory, "fsync", directory]
        log.close()

    def test_the_generation_must_rise(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        log.truncate(0, 3)
        with pytest.raises(InvariantError):
            log.truncate(0, 3)
        log.close()

    @pytest.mark.covers("LOG-03")
    def test_index_files_after_a_cut_are_those_of_what_is_left(self, tmp_path: Path) -> None:
        batches = [batch(offset, size_bytes=1_500, timestamp_ms=1_000 + offset) for offset in range(12)]
        for name, cut in (("cut", True), ("short", False)):
            (tmp_path / name).mkdir()
            log = log_at(tmp_path / name)
            fill(log, batches if cut else batches[:8])
            if cut:
                log.truncate(8, 1)
            log.close()
        for suffix in (".index", ".timeindex", ".log"):
            names = [tmp_path / name / f"{0:020d}{suffix}" for name in ("cut", "short")]
            assert names[0].read_bytes() == names[1].read_bytes()


class TestEpochs:
    @pytest.mark.covers("LOG-09", "LOG-11")
    def test_an_epoch_is_on_disk_before_its_first_batch_is_flushed(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        log.assign_epoch(3, 0)
        log.flush()
        assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n1\n3 0\n"
        fill(log, run_of(0, 2, epoch=3))
        log.append((batch(2, epoch=3), batch(3, epoch=5), batch(4, epoch=7)), 2, 5)
        assert log.epochs == (EpochEntry(3, 0), EpochEntry(5, 3), EpochEntry(7, 4))
        log.save_epochs()
        assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n3 0\n5 3\n7 4\n"
        log.close()

    @pytest.mark.covers("LOG-09")
    def test_a_new_entry_removes_those_it_contradicts(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        fill(log, run_of(0, 5))
        log.assign_epoch(4, 5)
        log.assign_epoch(4, 7)
        assert log.epochs == (EpochEntry(1, 0), EpochEntry(4, 5))
        log.assign_epoch(6, 5)
        assert log.epochs == (EpochEntry(1, 0), EpochEntry(6, 5))
        assert log.last_record_epoch == 1
        log.close()

    @pytest.mark.covers("LOG-11", "LOG-13")
    def test_the_opening_rebuilds_them_from_the_batches(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        log.append((batch(0, epoch=2), batch(1, epoch=4)), 0, 2)
        log.assign_epoch(9, 2)
        log.close()
        for content in ("0\n1\n2 0\n", "nonsense", None):
            path = tmp_path / "leader-epoch-checkpoint"
            path.unlink()
            if content is not None:
                path.write_text(content)
            log = log_at(tmp_path)
            assert log.epochs == (EpochEntry(2, 0), EpochEntry(4, 1))
            assert path.read_text() == "0\n2\n2 0\n4 1\n"
            log.close()


class TestRead:
    @pytest.mark.covers("LOG-05")
    def test_reading_begins_with_the_batch_that_holds_the_offset(self, tmp_path: Path) -> None:
        log = log_at(tmp_path)
        batches = [batch(n * 10, count=10, size_bytes=100) for n in range(50)]
        for n, data in enumerate(batches):
            log.append((data,), n * 10, n * 10 + 10)
        for offset in range(0, 500, 7):
            whole = b"".join(batches[offset // 10 :])
            assert log.read(offset, 1 << 20) == whole
            assert log.read(offset, 1) == batches[offset // 10]
            part = log.read(offset, 3_000)
            assert part == whole[: len(part)]
            assert len(part) == sum(len(b) for b in batches[offset // 10 : offset // 10 + 2])
        assert log.read(500, 1 << 20) == b""
        for outside in (-1, 501):
            with pytest.raises(OffsetOutOfRangeError):
                log.read(outside, 100)
        log.close()

    @pytest.mark.covers("D-15")
    def test_a_view_keeps_reading_what_it_was_captured_with(self, tmp_path: Path) -> None:
        size = len(batch(0))
        log = log_at(tmp_path, LogConfig(segment_bytes=3 * size))
        fill(log, run_of(0, 8))
        view = log.reader_view()
        fill(log, run_of(8, 20), at=8)
        assert (view.end_offset, view.generation) == (8, 0)
        assert view.read(7, 1 << 20) == batch(7)
        log.truncate(5, 1)
        assert view.generation != log.generation
        # A removed segment is still there for whoever holds it; a cut one is shorter.
        assert view.read(6, 1 << 20) == batch(6) + batch(7)
        log.close()

    def test_the_tail_is_the_newest_batches_each_by_itself(self, tmp_path: Path) -> None:
        size = len(batch(0))
        log = log_at(tmp_path, LogConfig(segment_bytes=3 * size))
        batches = run_of(0, 9)
        fill(log, batches)
        assert log.tail(1 << 20) == batches
        few = log.tail(2 * size)
        assert few == batches[-len(few) :]
        assert 2 <= len(few) <= 3
        assert log.tail(0) == []
        log.close()


class TestFailure:
    @pytest.mark.covers("D-03")
    def test_a_full_disk_is_said_once_and_clearly(self, tmp_path: Path) -> None:
        class Full(OsFileSystem):
            def pwrite(self, handle: int, data: bytes, position: int) -> int:  # type: ignore[override]
                raise OSError(28, "No space left on device")

        log = log_at(tmp_path)
        log.append((batch(0),), 0, 1)
        log._disk.fs = Full()
        with pytest.raises(StorageFailure, match=r"0\.log: write failed: No space left on device; .*start"):
            log.append((batch(1),), 1, 2)
        log.close()


@pytest.mark.covers("LOG-09")
def test_a_group_over_several_epochs_that_rolls_a_segment_notes_each_epoch_where_it_begins(
    tmp_path: Path,
) -> None:
    config = LogConfig(segment_bytes=4 * len(batch(0)), index_bytes=96)
    log = log_at(tmp_path, config)
    fill(log, [*run_of(0, 2, epoch=2), *run_of(2, 3, epoch=3)])
    log.append([batch(3, epoch=3), batch(4, epoch=5)], 3, 5)
    assert len(files(tmp_path, ".log")) == 2
    assert log.epochs == (EpochEntry(2, 0), EpochEntry(3, 2), EpochEntry(5, 4))
    log.close()
