"""The log where Kafka's tests watch theirs: rolls, reads where they meet, what a restart forgets."""

import os
from pathlib import Path

import pytest

from kraftd.storage import Disk, Log, LogConfig, Opened, OsFileSystem
from kraftd.storage.segment import OFFSETS_PER_SEGMENT_MAX, Segment
from kraftd.types import EpochEntry, OffsetAndEpoch
from tests.conformance import covers
from tests.sim.filesystem import SimFileSystem
from tests.unit.storage.batches import batch, index_entries, run_of

SIZE = len(batch(0))
SMALL = LogConfig(segment_bytes=3 * SIZE)
HOME = Path("/log")


def opened(
    directory: Path, recovery_point: OffsetAndEpoch | None = None, config: LogConfig = SMALL
) -> Opened:
    return Log.open(Disk(OsFileSystem()), directory, config=config, recovery_point=recovery_point)


def written(directory: Path, batches: list[bytes], config: LogConfig = SMALL) -> None:
    """A log with these batches, of one record each, closed in good order."""
    log = opened(directory, config=config).log
    for offset, data in enumerate(batches):
        log.append((data,), offset, offset + 1)
    log.close()


def segments(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.log"))


# --- rolling ------------------------------------------------------------------------------------------------


@covers("LOG-02")
def test_a_segment_ends_before_its_offsets_do_not_fit_the_index() -> None:
    segment = Segment(1_000, Path("x.log"), 0)
    config = LogConfig(segment_ms=1 << 60, index_bytes=1 << 20)
    last = 1_000 + OFFSETS_PER_SEGMENT_MAX
    assert OFFSETS_PER_SEGMENT_MAX == 2**31 - 1
    assert not segment.must_roll(1, 100, 0, last + 1, config), "an empty one takes what comes"
    segment.size_bytes = 500
    assert not segment.must_roll(1, 100, 0, last, config)
    assert segment.must_roll(1, 100, 0, last + 1, config)


@covers("LOG-03")
def test_a_batch_larger_than_a_segment_gets_one_of_its_own(tmp_path: Path) -> None:
    """Kafka refuses it; but a batch is bounded elsewhere, and refusing it here would end the process."""
    written(tmp_path, [batch(0), batch(1, size_bytes=5 * SIZE), batch(2)])
    assert segments(tmp_path) == [0, 1, 2]
    assert opened(tmp_path).log.read(1, 1) == batch(1, size_bytes=5 * SIZE)


@covers("LOG-15")
def test_what_lies_where_a_segment_is_begun_goes_first(tmp_path: Path) -> None:
    log = opened(tmp_path).log
    for offset in range(3):
        log.append((batch(offset),), offset, offset + 1)
    for suffix in (".log", ".index", ".timeindex"):
        (tmp_path / f"{3:020d}{suffix}").write_bytes(b"stale" * 50)
    log.append((batch(3),), 3, 4)
    assert log.read(3, 1 << 20) == batch(3)
    log.close()
    assert (tmp_path / f"{3:020d}.log").read_bytes() == batch(3)
    assert not index_entries((tmp_path / f"{3:020d}.index").read_bytes())


@covers("LOG-06", "HWM-09", "LOG-05")
def test_a_read_ends_with_its_segment_and_the_next_one_begins_in_the_next(tmp_path: Path) -> None:
    """An offset is all that is kept of a high watermark: where its batch is, is looked up at each read."""
    log = opened(tmp_path).log
    for offset in range(3):
        log.append((batch(offset),), offset, offset + 1)
    assert log.read(3, 1 << 20) == b"", "the end of the log, in the first segment"
    log.append((batch(3),), 3, 4)
    assert segments(tmp_path) == [0, 3]
    assert log.read(0, 1 << 20) == b"".join(run_of(0, 3))
    assert log.read(2, 1 << 20) == batch(2)
    assert log.read(3, 1 << 20) == batch(3)
    log.close()


@covers("REC-01")
def test_batches_of_any_size_are_found_in_the_file_as_they_were_written(tmp_path: Path) -> None:
    """A file is read through a window of 1 MiB; a batch may begin at its end, or be longer than it."""
    config = LogConfig()
    sizes = [40, 1 << 20, 40, 3 << 20, (1 << 20) - 300, 200, 40, 7 << 20, 40]
    batches = [batch(offset, size_bytes=size) for offset, size in enumerate(sizes)]
    written(tmp_path, batches, config)
    log, report = opened(tmp_path, OffsetAndEpoch(len(sizes), 1), config)
    assert (log.end_offset, report.damage, report.torn) == (len(sizes), (), ())
    for offset, data in enumerate(batches):
        assert log.read(offset, 1) == data
    assert log.tail(64 << 20) == batches
    log.close()


# --- what a start finds -------------------------------------------------------------------------------------


@covers("LOG-12", "LOG-16")
def test_an_empty_log_is_in_epoch_0(tmp_path: Path) -> None:
    log = opened(tmp_path).log
    assert (log.last_epoch, log.last_record_epoch, log.epochs) == (0, 0, ())
    log.append((batch(0, epoch=4),), 0, 1)
    assert log.last_epoch == 4
    log.truncate(0, 1)
    assert (log.last_epoch, log.last_record_epoch) == (0, 0)
    log.close()


@covers("LOG-11")
def test_an_epoch_that_left_no_record_is_forgotten_by_a_restart(tmp_path: Path) -> None:
    written(tmp_path, run_of(0, 2, epoch=3))
    log = opened(tmp_path).log
    log.assign_epoch(7, 2)
    assert log.last_epoch == 7
    log.save_epochs()
    log.abandon()
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n3 0\n7 2\n"
    log = opened(tmp_path).log
    assert (log.last_epoch, log.epochs) == (3, (EpochEntry(3, 0),))
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n1\n3 0\n"
    log.close()


@covers("LOG-13", "LOG-15")
@pytest.mark.parametrize("spoil", ["garbage", "missing", "cut", "too long"])
def test_index_files_are_made_anew_whatever_they_were(tmp_path: Path, spoil: str) -> None:
    config = LogConfig(segment_bytes=20_000)
    written(tmp_path, [batch(n, size_bytes=1_500, timestamp_ms=1_000 + n) for n in range(30)], config)
    paths = sorted(tmp_path.glob("*index"))
    good = {path.name: path.read_bytes() for path in paths}
    assert len(good) > 4
    assert all(good[path.name] for path in paths)
    for path in paths:
        match spoil:
            case "garbage":
                path.write_bytes(os.urandom(len(good[path.name])))
            case "missing":
                path.unlink()
            case "cut":
                path.write_bytes(good[path.name][:-3])
            case "too long":
                path.write_bytes(good[path.name] * 2)
    log = opened(tmp_path, config=config).log
    assert log.read(17, 1) == batch(17, size_bytes=1_500, timestamp_ms=1_017)
    log.close()
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*index")} == good


@covers("LOG-13", "LOG-14", "Q-16")
@pytest.mark.parametrize("bad", [0, 4, 7])
def test_every_segment_is_checked_at_each_start_and_none_is_cut_for_damage(tmp_path: Path, bad: int) -> None:
    """Kafka cuts at the first bad batch, and with it forgets the committed ones behind it."""
    written(tmp_path, run_of(0, 9))
    path = tmp_path / f"{bad - bad % 3:020d}.log"
    raw = bytearray(path.read_bytes())
    raw[(bad % 3) * SIZE + 70] ^= 1
    path.write_bytes(raw)
    log, report = opened(tmp_path, OffsetAndEpoch(9, 1))
    assert [damage.offset for damage in report.damage] == [bad]
    assert log.end_offset == 9
    assert log.read(8, 1) == batch(8)
    assert path.read_bytes() == raw
    log.close()
    log, report = opened(tmp_path, OffsetAndEpoch(bad, 1))
    assert (log.end_offset, report.damage, len(report.torn)) == (bad, (), 1)
    log.close()


@covers("LOG-17")
def test_a_log_begins_where_its_first_segment_does(tmp_path: Path) -> None:
    written(tmp_path, run_of(0, 8))
    for path in tmp_path.glob(f"{0:020d}.*"):
        path.unlink()
    log = opened(tmp_path).log
    assert (log.start_offset, log.end_offset) == (3, 8)
    assert log.read(3, 1) == batch(3)
    log.close()


@covers("LOG-18")
@pytest.mark.parametrize("is_noted", [False, True])
def test_a_power_cut_takes_what_was_not_flushed_and_the_last_record_left_tells_the_epoch(
    is_noted: bool,
) -> None:
    fs = SimFileSystem()
    fs.make_directory(HOME)
    log = Log.open(Disk(fs), HOME).log
    fs.sync_everything()
    log.append((batch(0, epoch=2),), 0, 1)
    log.flush()
    log.append((batch(1, epoch=2), batch(2, epoch=5)), 1, 3)
    assert (log.last_record_epoch, log.flushed_offset) == (5, 1)
    if is_noted:
        log.save_epochs()
    ends = set()
    for survivor in fs.crash_states():
        again = Log.open(Disk(survivor), HOME, recovery_point=OffsetAndEpoch(1, 2)).log
        ends.add((again.end_offset, again.last_record_epoch, again.last_epoch))
        again.abandon()
    assert ends == {(1, 2, 2), (2, 2, 2)} | ({(3, 5, 5)} if is_noted else set())
    log.abandon()
