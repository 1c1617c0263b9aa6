"""What a start takes without reading it, what is read of that meanwhile, and the check afterwards."""

import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from kraftd.records import epoch_checkpoint
from kraftd.storage import Disk, Log, LogConfig, OsFileSystem
from kraftd.storage.damage import Damage
from kraftd.storage.log_reader import DamagedReadError
from kraftd.storage.log_start import OpenReport
from kraftd.types import EpochEntry, OffsetAndEpoch
from tests.unit.storage.batches import batch, index_entries, run_of, time_index_entries
from tests.unit.storage.test_log_front import SMALL, log_of, offsets_in, segments

SIZE = len(batch(0))


class Counting(OsFileSystem):
    """A real disk that counts the bytes which were read of each segment."""

    def __init__(self) -> None:
        self.paths: dict[int, Path] = {}
        self.read_bytes: dict[str, int] = {}

    def open(self, path: Path, access):  # type: ignore[no-untyped-def, override]
        handle = super().open(path, access)
        self.paths[handle] = path
        return handle

    def pread(self, handle: int, size_bytes: int, position: int) -> bytes:  # type: ignore[override]
        data = OsFileSystem.pread(handle, size_bytes, position)
        name = self.paths[handle].name
        self.read_bytes[name] = self.read_bytes.get(name, 0) + len(data)
        return data


def start(
    folder: Path, *snapshots: tuple[int, int], flushed: tuple[int, int] = (14, 1)
) -> tuple[Log, OpenReport]:
    return Log.open(
        Disk(OsFileSystem()),
        folder,
        config=SMALL,
        recovery_point=OffsetAndEpoch(*flushed),
        snapshots=[OffsetAndEpoch(*each) for each in snapshots],
    )


def large_log(folder: Path, segment: int = 1_000, end: int = 2_500) -> None:
    """A log of so many batches a segment."""
    log = Log.open(Disk(OsFileSystem()), folder, config=LogConfig(segment_bytes=segment * SIZE)).log
    log.append(run_of(0, end), 0, end)
    log.close()


def unread(log: Log) -> list[int]:
    return [segment.base_offset for segment in log._segments if segment.is_unread]


def check(log: Log, size_bytes: int = 1) -> list[Damage]:
    """Read all that is unread, a batch at a time; stop at the first damage."""
    while (one := log.unread.next_check()) is not None:
        while not one.advance(size_bytes):
            pass
        damage = log.unread.finish(one)
        if damage is not None:
            return [damage]
    return []


def change(path: Path, how: Callable[[bytearray], object]) -> None:
    data = bytearray(path.read_bytes())
    how(data)
    path.write_bytes(bytes(data))


def log_path(folder: Path, base_offset: int) -> Path:
    return folder / f"{base_offset:020}.log"


def flip(folder: Path, offset: int) -> None:
    """Flip a bit in the value of a record of one-record batches, four to a segment."""

    def at(data: bytearray) -> None:
        data[offset % 4 * SIZE + 70] ^= 1

    change(log_path(folder, offset - offset % 4), at)


@pytest.mark.covers("D-23")
@pytest.mark.parametrize(
    ("snapshots", "flushed", "taken"),
    [
        ([(13, 1)], 14, [0, 4, 8]),
        ([(12, 1)], 14, [0, 4, 8]),
        ([(11, 1)], 14, [0, 4]),
        ([(5, 1), (9, 1)], 14, [0, 4]),
        ([(3, 1)], 14, []),
        ([], 14, []),
        ([(13, 1)], 8, [0, 4]),
        ([(13, 1)], 7, [0]),
    ],
)
def test_what_a_whole_snapshot_and_a_flush_cover_is_taken_as_it_is(
    tmp_path: Path, snapshots: list[tuple[int, int]], flushed: int, taken: list[int]
) -> None:
    log_of(tmp_path, (0, 14, 1)).close()
    log, report = start(tmp_path, *snapshots, flushed=(flushed, 1))
    assert (unread(log), log.start_offset, log.end_offset) == (taken, 0, 14)
    assert report == OpenReport(snapshots=tuple(OffsetAndEpoch(*each) for each in snapshots))
    assert offsets_in(log) == list(range(14))
    assert check(log) == []
    assert (unread(log), offsets_in(log)) == ([], list(range(14)))
    log.close()


@pytest.mark.covers("D-23")
def test_a_start_reads_no_more_than_a_few_batches_of_it(tmp_path: Path) -> None:
    large_log(tmp_path)
    disk = Counting()
    log = Log.open(
        Disk(disk), tmp_path, recovery_point=OffsetAndEpoch(2_500, 1), snapshots=[OffsetAndEpoch(2_100, 1)]
    ).log
    assert disk.read_bytes[f"{2_000:020}.log"] >= 500 * SIZE
    for base in (0, 1_000):
        assert disk.read_bytes.get(f"{base:020}.log", 0) < 20_000
    log.close()


@pytest.mark.covers("D-23")
def test_a_log_that_another_program_wrote_is_read_as_a_whole(tmp_path: Path) -> None:
    log_of(tmp_path, (0, 14, 1)).close()
    snapshots = [OffsetAndEpoch(13, 1)]
    log = Log.open(Disk(OsFileSystem()), tmp_path, config=SMALL, snapshots=snapshots).log
    assert unread(log) == []
    log.close()


def wrong_epochs(*entries: tuple[int, int]) -> bytes:
    return epoch_checkpoint.encode([EpochEntry(*each) for each in entries])


@pytest.mark.covers("D-23", "CLN-08", "LOG-09")
@pytest.mark.parametrize(
    "entries",
    [
        [(1, 0), (2, 8), (3, 13)],
        [(1, 0), (2, 4), (3, 13)],
        [(1, 0), (3, 13)],
        [(1, 0)],
        [(2, 0), (3, 13)],
        [],
    ],
)
def test_epochs_that_the_batches_contradict_are_made_anew_from_all_of_them(
    tmp_path: Path, entries: list[tuple[int, int]]
) -> None:
    """A leader with wrong epochs would tell a follower to truncate what is committed."""
    log_of(tmp_path, (0, 6, 1), (6, 13, 2), (13, 14, 3)).close()
    (tmp_path / "leader-epoch-checkpoint").write_bytes(wrong_epochs(*entries))
    log, report = start(tmp_path, (13, 2), flushed=(14, 3))
    assert log.epochs == (EpochEntry(1, 0), EpochEntry(2, 6), EpochEntry(3, 13))
    assert (report.damage, offsets_in(log)) == ((), list(range(14)))
    log.close()


@pytest.mark.covers("D-23", "CLN-08")
def test_the_epochs_of_what_is_taken_are_those_of_the_file(tmp_path: Path) -> None:
    log_of(tmp_path, (0, 6, 1), (6, 13, 2), (13, 14, 3)).close()
    log, _ = start(tmp_path, (13, 2), flushed=(14, 3))
    assert unread(log) == [0, 4, 8]
    assert log.epochs == (EpochEntry(1, 0), EpochEntry(2, 6), EpochEntry(3, 13))
    assert check(log) == []
    log.close()


@pytest.mark.covers("D-23", "CLN-08")
def test_a_log_whose_start_lies_in_a_segment_is_taken_with_that(tmp_path: Path) -> None:
    log = log_of(tmp_path, (0, 6, 1), (6, 14, 2))
    log.cut_front(OffsetAndEpoch(6, 1))
    log.close()
    log, report = start(tmp_path, (6, 1), (13, 2), flushed=(14, 2))
    assert (unread(log), log.start_offset, log.epochs) == ([4, 8], 6, (EpochEntry(2, 6),))
    assert report.snapshots == (OffsetAndEpoch(6, 1), OffsetAndEpoch(13, 2))
    assert (check(log), offsets_in(log)) == ([], list(range(6, 14)))
    log.close()


def cut(data: bytearray) -> None:
    del data[-SIZE:]


HURT = 500 * SIZE


def zero(data: bytearray) -> None:
    data[HURT : HURT + SIZE] = bytes(SIZE)


def flip_value(data: bytearray) -> None:
    data[HURT + 70] ^= 1


def later_epoch(data: bytearray) -> None:
    data[HURT + 15] ^= 2  # no checksum covers it


def another_offset(data: bytearray) -> None:
    data[HURT + 7] ^= 64  # nor this


@pytest.mark.covers("D-23", "D-05")
@pytest.mark.parametrize(
    ("how", "text"),
    [
        (zero, "the batch claims 12 bytes, fewer than its header"),
        (flip_value, "the checksum is"),
        (later_epoch, "the batch says epoch 3 where leader-epoch-checkpoint says 1"),
        (another_offset, "the batch says offset 1436 where 1500 must come"),
    ],
)
def test_damage_in_it_is_found_by_the_check(
    tmp_path: Path, how: Callable[[bytearray], object], text: str
) -> None:
    large_log(tmp_path)
    change(log_path(tmp_path, 1_000), how)
    log, report = start(tmp_path, (2_050, 1), (2_100, 1), flushed=(2_500, 1))
    assert (report.damage, unread(log), log.start_offset) == ((), [0, 1_000], 0)
    (damage,) = check(log)
    assert (damage.file, damage.position_bytes) == (str(log_path(tmp_path, 1_000)), HURT)
    assert (damage.offset, damage.end_offset) == (1_500, 2_000)
    assert text in damage.text
    assert unread(log) == [1_000], "the one before it is sound"
    log.cut_front(OffsetAndEpoch(2_050, 1))
    assert (check(log), offsets_in(log), segments(tmp_path)) == ([], list(range(2_050, 2_500)), [2_000])
    log.close()


@pytest.mark.covers("D-23", "D-05")
def test_a_segment_that_ends_too_early_is_read_at_the_start(tmp_path: Path) -> None:
    """Its end is where the next one begins; the batch before that is not there."""
    log_of(tmp_path, (0, 14, 1)).close()
    change(log_path(tmp_path, 4), cut)
    log, report = start(tmp_path, (3, 1), (9, 1), (13, 1))
    assert (report.damage, unread(log), log.start_offset) == ((), [], 9)
    assert f"byte {3 * SIZE} (offset 7)" in report.notes[0]
    assert "no loss: the log begins at the snapshot at offset 9 now" in report.notes[0]
    log.close()


@pytest.mark.covers("D-23", "D-05")
def test_damage_behind_it_has_everything_read_at_the_start(tmp_path: Path) -> None:
    log_of(tmp_path, (0, 14, 1)).close()
    flip(tmp_path, 5)
    flip(tmp_path, 13)
    log, report = start(tmp_path, (3, 1), (9, 1), (12, 1))
    assert [(each.offset, each.end_offset) for each in report.damage] == [(13, 14)]
    assert (unread(log), log.start_offset) == ([], 9)
    log.close()


@pytest.mark.covers("D-15", "D-23")
def test_what_is_read_of_it_meanwhile_is_proved(tmp_path: Path) -> None:
    log_of(tmp_path, (0, 14, 1)).close()
    flip(tmp_path, 6)
    log, _ = start(tmp_path, (13, 1))
    assert log.read(5, 1 << 20) == batch(5), "up to the bad one"
    with pytest.raises(
        DamagedReadError, match=rf"0004\.log at byte {2 * SIZE} \(offset 6\): the checksum is"
    ):
        log.read(6, 1 << 20)
    assert b"".join(log.tail(1 << 20)) == b"".join(run_of(12, 14)), "memory is filled with what was read"
    log.close()


@pytest.mark.covers("D-15", "D-23")
def test_a_read_of_it_begins_where_the_index_file_leads(tmp_path: Path) -> None:
    large_log(tmp_path, 4_000, 5_000)
    disk = Counting()
    log = Log.open(
        Disk(disk), tmp_path, recovery_point=OffsetAndEpoch(5_000, 1), snapshots=[OffsetAndEpoch(4_500, 1)]
    ).log
    disk.read_bytes.clear()
    assert log.read(3_500, 1) == batch(3_500)
    assert disk.read_bytes[f"{0:020}.log"] < 30_000
    log.close()


@pytest.mark.covers("D-15", "D-23", "LOG-15")
@pytest.mark.parametrize("kind", ["missing", "zeros", "garbage", "part of an entry", "shifted"])
def test_a_stale_index_file_leads_no_read_astray_and_is_made_anew(tmp_path: Path, kind: str) -> None:
    large_log(tmp_path)
    offsets, times = (tmp_path / f"{0:020}{suffix}" for suffix in (".index", ".timeindex"))
    right = offsets.read_bytes(), times.read_bytes()
    wrong = {
        "missing": None,
        "zeros": bytes(len(right[0])),
        "garbage": bytes(range(8)) * 20,
        "part of an entry": right[0][:-3],
        "shifted": b"".join(
            struct.pack(">ii", last, position)
            for (last, _), (_, position) in pairwise(index_entries(right[0]))
        ),
    }[kind]
    for path in (offsets, times):
        path.unlink()
        if wrong is not None:
            path.write_bytes(wrong)
    log = Log.open(
        Disk(OsFileSystem()),
        tmp_path,
        recovery_point=OffsetAndEpoch(2_500, 1),
        snapshots=[OffsetAndEpoch(2_100, 1)],
    ).log
    assert unread(log) == [0, 1_000]
    assert offsets_in(log) == list(range(2_500))
    assert [log.read(offset, 1) for offset in (0, 57, 500, 999)] == [batch(n) for n in (0, 57, 500, 999)]
    assert check(log, 1 << 16) == []
    assert (offsets.read_bytes(), times.read_bytes()) == right
    assert index_entries(right[0]) and time_index_entries(right[1])
    log.close()


@pytest.mark.covers("D-22", "D-23")
def test_the_check_holds_its_file_and_counts_nothing_once_that_is_gone(tmp_path: Path) -> None:
    log_of(tmp_path, (0, 14, 1)).close()
    flip(tmp_path, 2)
    log, _ = start(tmp_path, (9, 1), (13, 1))
    one = log.unread.next_check()
    assert one is not None
    assert not one.advance(1)
    log.cut_front(OffsetAndEpoch(9, 1))
    assert log_path(tmp_path, 0).with_name(f"{0:020}.log.deleted") not in log.take_removal().paths
    while not one.advance(1):
        pass
    assert one.damage is not None
    assert log.unread.finish(one) is None
    assert log_path(tmp_path, 0).with_name(f"{0:020}.log.deleted") in log.take_removal().paths
    log.close()


@pytest.mark.covers("D-23")
@pytest.mark.parametrize("end", [0, 4, 6, 8, 12])
def test_a_truncation_within_it_leaves_a_log_that_can_be_appended_to(tmp_path: Path, end: int) -> None:
    log_of(tmp_path, (0, 14, 1)).close()
    log, _ = start(tmp_path, (13, 1))
    one = log.unread.next_check()
    assert one is not None
    log.truncate(end, 1)
    while not one.advance():
        pass
    log.unread.finish(one)
    log.append(run_of(end, end + 6, 2), end, end + 6)
    log.flush()
    assert offsets_in(log) == list(range(end + 6))
    assert check(log) == []
    log.close()
    again = Log.open(Disk(OsFileSystem()), tmp_path, recovery_point=OffsetAndEpoch(end + 6, 2)).log
    assert (again.end_offset, offsets_in(again)) == (end + 6, list(range(end + 6)))
    again.close()


class Flaky(OsFileSystem):
    """A disk that gives one wrong bit, once."""

    is_wrong = True

    def pread(self, handle: int, size_bytes: int, position: int) -> bytes:  # type: ignore[override]
        data = bytearray(OsFileSystem.pread(handle, size_bytes, position))
        if self.is_wrong and len(data) == 4 * SIZE:
            self.is_wrong = False
            data[SIZE + 70] ^= 1
        return bytes(data)


@pytest.mark.covers("D-23")
def test_what_is_bad_once_is_read_again(tmp_path: Path) -> None:
    log_of(tmp_path, (0, 14, 1)).close()
    disk = Flaky()
    log = Log.open(
        Disk(disk), tmp_path, recovery_point=OffsetAndEpoch(14, 1), snapshots=[OffsetAndEpoch(12, 1)]
    ).log
    disk.is_wrong = True
    assert check(log) == []
    assert not disk.is_wrong
    log.close()


@pytest.mark.covers("D-23")
def test_a_start_writes_nothing_of_what_it_took(tmp_path: Path) -> None:
    """Until the check ends, the next start finds what this one found."""
    log_of(tmp_path, (0, 14, 1)).close()
    flip(tmp_path, 1)
    before = {
        path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.startswith(f"{12:020}")
    }
    for _ in range(2):
        log, report = start(tmp_path, (13, 1))
        assert (report.damage, report.notes, unread(log)) == ((), (), [0, 4, 8])
        log.abandon()
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
