"""Bytes that went bad while the log was open: they are never given, and the damage is told (D-06)."""

import struct
from pathlib import Path

import pytest

from kraftd.records.batch_header import BATCH_BYTES_MAX
from kraftd.records.index import INDEX_INTERVAL_BYTES
from kraftd.storage import DamagedReadError, Disk, Log, OsFileSystem
from kraftd.types import OffsetAndEpoch
from tests.unit.storage.batches import batch, run_of

pytestmark = pytest.mark.covers("D-06", "D-14", "D-15")

SIZE = len(batch(0))
EPOCH_AT, LENGTH_AT, LAST_OFFSET_DELTA_AT = 12, 8, 23


def written(directory: Path, count: int = 200) -> Log:
    log = Log.open(Disk(OsFileSystem()), directory).log
    for offset, data in enumerate(run_of(0, count)):
        log.append((data,), offset, offset + 1)
    return log


def flip(log: Log, position: int, bit: int = 0) -> Path:
    path = log.segment_files[0][1]
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 1 << bit]))
    return path


@pytest.mark.parametrize(
    ("byte", "reason"),
    [
        (SIZE - 3, "the checksum is"),
        (EPOCH_AT + 3, "epoch 0 where"),
        (7, "offset 151 where 150 must come"),
        (0, "must come"),
        (LENGTH_AT + 3, ""),
        (LENGTH_AT, ""),
    ],
)
def test_a_batch_of_which_one_bit_flipped_is_not_given(tmp_path: Path, byte: int, reason: str) -> None:
    log = written(tmp_path)
    path = flip(log, 150 * SIZE + byte)
    with pytest.raises(DamagedReadError) as caught:
        log.read(150, 1 << 20)
    damage = caught.value.damage
    assert damage is not None
    assert (damage.file, damage.position_bytes, damage.offset) == (str(path), 150 * SIZE, 150)
    assert reason in damage.text
    assert "stopped, emptied, formatted and started again, as docs/operations.md (Trouble)" in str(damage)
    log.close()


class Counting(OsFileSystem):
    """Remembers how much was read at once."""

    most = 0

    def pread(self, handle: int, size_bytes: int, position: int) -> bytes:
        self.most = max(self.most, size_bytes)
        return super().pread(handle, size_bytes, position)


MIB = 1 << 20
LARGE = run_of(0, 12, size_bytes=MIB)
FLIPPED = 5 * len(LARGE[0]) + LENGTH_AT + 1
"""Of a length of one mebibyte, the byte in which a bit more makes it nine."""


def large(fs: OsFileSystem, directory: Path) -> Log:
    log = Log.open(Disk(fs), directory).log
    log.append(LARGE, 0, len(LARGE))
    return log


def test_a_length_that_no_batch_can_have_is_not_read_to_its_end(tmp_path: Path) -> None:
    """Kafka's segments are a gibibyte: so much was read at once, for each read that came here."""
    fs = Counting()
    log = large(fs, tmp_path)
    flip(log, FLIPPED, bit=7)
    with pytest.raises(DamagedReadError, match="more than one can have") as caught:
        log.read(5, MIB)
    assert caught.value.damage is not None
    assert log.read(4, 1) == LARGE[4]
    assert fs.most <= 2 * MIB
    log.truncate(5, 1)
    assert (log.end_offset, log.read(4, 9 * MIB)) == (5, LARGE[4])
    log.close()


@pytest.mark.covers("D-05")
def test_a_start_does_not_read_such_a_length_either(tmp_path: Path) -> None:
    log = large(OsFileSystem(), tmp_path)
    flip(log, FLIPPED, bit=7)
    log.close()
    fs = Counting()
    log, report = Log.open(Disk(fs), tmp_path, recovery_point=OffsetAndEpoch(12, 1))
    (damage,) = report.damage
    assert (damage.offset, damage.end_offset, log.end_offset) == (5, 6, 12)
    assert "more than one can have" in damage.text
    assert fs.most <= 2 * MIB
    log.close()


@pytest.mark.parametrize(("more_bytes", "damaged"), [(0, 0), (1, 1)])
def test_the_largest_batch_that_kafka_writes_is_read_and_no_larger_one(
    tmp_path: Path, more_bytes: int, damaged: int
) -> None:
    data = batch(0, size_bytes=BATCH_BYTES_MAX - (len(LARGE[0]) - MIB) + more_bytes)
    assert len(data) == BATCH_BYTES_MAX + more_bytes
    log = Log.open(Disk(OsFileSystem()), tmp_path).log
    log.append((data,), 0, 1)
    log.close()
    log, report = Log.open(Disk(OsFileSystem()), tmp_path, recovery_point=OffsetAndEpoch(1, 1))
    assert len(report.damage) == damaged
    if not damaged:
        assert log.read(0, 1) == data
    log.close()


def test_what_stands_before_the_damage_is_given(tmp_path: Path) -> None:
    log = written(tmp_path)
    flip(log, 150 * SIZE + SIZE - 3)
    assert log.read(100, 1 << 20) == b"".join(run_of(100, 150))
    assert log.read(151, 1 << 20) == b"".join(run_of(151, 200))
    log.close()


def test_damage_on_the_way_to_a_batch_is_told_where_it_is(tmp_path: Path) -> None:
    """A batch is found by the lengths of those before it."""
    log = written(tmp_path)
    flip(log, 140 * SIZE + LENGTH_AT + 3)
    with pytest.raises(DamagedReadError) as caught:
        log.read(142, 1 << 20)
    assert caught.value.damage is not None
    assert caught.value.damage.position_bytes == 140 * SIZE
    log.close()


def test_a_file_that_lost_its_end_is_damaged(tmp_path: Path) -> None:
    log = written(tmp_path)
    path = log.segment_files[0][1]
    with path.open("r+b") as file:
        file.truncate(150 * SIZE + 7)
    with pytest.raises(DamagedReadError) as caught:
        log.read(150, 1 << 20)
    assert caught.value.damage is not None
    assert caught.value.damage.position_bytes == 150 * SIZE
    with pytest.raises(DamagedReadError, match="fewer than a batch"):
        log.read(151, 1 << 20)
    assert log.read(149, 1 << 20) == batch(149)
    log.close()


def test_a_file_that_ends_between_two_batches_is_damaged(tmp_path: Path) -> None:
    log = written(tmp_path)
    with log.segment_files[0][1].open("r+b") as file:
        file.truncate(150 * SIZE)
    with pytest.raises(DamagedReadError, match="the file ends too early"):
        log.read(150, 1 << 20)
    log.close()


@pytest.mark.parametrize("last_offset_delta", [1, 4, 150, 10_000_000])
def test_a_truncation_believes_no_head_that_went_bad(tmp_path: Path, last_offset_delta: int) -> None:
    """Its batch seems to hold the offset that is truncated to: to cut before it would cost good batches."""
    log = written(tmp_path)
    path = log.segment_files[0][1]
    with path.open("r+b") as file:
        file.seek(2 * SIZE + LENGTH_AT)
        file.write(struct.pack(">i", (last_offset_delta + 1) * SIZE - 12))
        file.seek(2 * SIZE + LAST_OFFSET_DELTA_AT)
        file.write(struct.pack(">i", last_offset_delta))
    with pytest.raises(DamagedReadError) as caught:
        log.truncate(5, 1)
    damage = caught.value.damage
    assert damage is not None
    assert (damage.file, damage.position_bytes, damage.offset) == (str(path), 2 * SIZE, 2)
    assert path.stat().st_size == 200 * SIZE
    assert log.end_offset == 200
    log.close()


def test_a_cut_above_bytes_that_went_bad_says_so_and_cuts_nothing(tmp_path: Path) -> None:
    """An index entry leads straight to the place of the cut. The newest timestamp below it comes from the
    batches before: out of bad bytes it would be any number.
    """
    log = written(tmp_path)
    indexed = INDEX_INTERVAL_BYTES // SIZE + 1
    path = log.segment_files[0][1]
    with path.open("r+b") as file:
        file.seek((indexed - 5) * SIZE)
        file.write(b"x" * (5 * SIZE))
    with pytest.raises(DamagedReadError) as caught:
        log.truncate(indexed, 1)
    damage = caught.value.damage
    assert damage is not None
    assert (damage.file, damage.position_bytes, damage.offset) == (
        str(path),
        (indexed - 5) * SIZE,
        indexed - 5,
    )
    assert path.stat().st_size == 200 * SIZE
    log.close()
