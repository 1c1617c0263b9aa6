"""Pieces of snapshots are read for others and written for us, each by a thread, with real files."""

import errno
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crc32c
import pytest

from kraftd.raft.effects import DropSnapshot, ReadSnapshot, WriteSnapshot
from kraftd.raft.events import Event, SnapshotDamaged, SnapshotRead, SnapshotReceived
from kraftd.records import names
from kraftd.records.snapshot import encode_snapshot
from kraftd.runtime.snapshot_transfer import SnapshotTransfer
from kraftd.storage import Disk, OsFileSystem
from kraftd.storage.snapshot_files import SnapshotFiles
from kraftd.storage.snapshots import SnapshotInfo
from kraftd.types import OffsetAndEpoch
from tests.conformance import covers

MIB = 1 << 20
HERE, THERE = OffsetAndEpoch(300, 2), OffsetAndEpoch(700, 3)


def data_of(snapshot_id: OffsetAndEpoch, records: int = 3_000) -> bytes:
    at = snapshot_id.offset
    return b"".join(
        encode_snapshot([b"record"] * records, snapshot_id.epoch, at, last_contained_timestamp_ms=at)
    )


class BadSector(OsFileSystem):
    """Nothing can be read any more once it `refuses`."""

    refuses = False

    def pread(self, handle: int, size_bytes: int, position: int, /) -> bytes:
        if self.refuses:
            raise OSError(errno.EIO, "Input/output error")
        return super().pread(handle, size_bytes, position)


class World:
    """Threads that run when they are told to, and a raft node that only listens."""

    def __init__(self, folder: Path, records: int = 3_000) -> None:
        self.folder = folder
        self.content = data_of(HERE, records)
        self.fs = BadSector()
        disk = Disk(self.fs)
        writer = SnapshotFiles(disk, folder, ()).writer(HERE)
        writer.append(self.content)
        self.snapshots = SnapshotFiles(disk, folder, (writer.freeze(),))
        self.jobs: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self.events: list[Event] = []
        self.damaged: list[OffsetAndEpoch] = []
        """The snapshots that are told to be bad, behind the answer to who asked for a piece."""
        self.warnings: list[tuple[str, int, int]] = []
        self.begun: list[tuple[OffsetAndEpoch, int]] = []
        """Which downloads began, and how many jobs the thread had to do then."""
        self.transfer = SnapshotTransfer(
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            self,
            read_worker=self,  # type: ignore[arg-type]
            write_worker=self,  # type: ignore[arg-type]
            begun=lambda snapshot_id: self.begun.append((snapshot_id, len(self.jobs))),
        )

    def add_snapshot(self, info: SnapshotInfo) -> None:
        self.snapshots.add(info)

    def submit(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.jobs.append((job, done))

    def deliver(self, event: Event) -> None:
        self.events.append(event)

    def info(self, event: str, **fields: Any) -> None:
        pass

    def warning(self, event: str, **fields: Any) -> None:
        self.warnings.append((event, fields["offset"], fields["epoch"]))

    def step(self) -> None:
        """Let the threads end one job."""
        job, done = self.jobs.popleft()
        done(job())

    def run(self) -> list[Event]:
        """Let the threads end their jobs. Returns what the raft node was told."""
        while self.jobs:
            self.step()
        events, self.events = self.events, []
        return events

    def read(self, position: int, max_bytes: int, **options: Any) -> SnapshotRead:
        self.transfer.start_read(ReadSnapshot(7, HERE, position, max_bytes, **options))
        event, *more = self.run()
        self.damaged += [each.id for each in more if isinstance(each, SnapshotDamaged)]
        assert isinstance(event, SnapshotRead)
        assert event.token == 7
        return event

    def write(self, data: bytes, begin: int, end: int) -> list[Event]:
        self.transfer.start_write(WriteSnapshot(THERE, begin, data[begin:end], len(data)))
        return self.run()

    def files(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} - {names.snapshot_name(HERE)}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def large(tmp_path: Path) -> World:
    """One with a snapshot of more than three mebibytes."""
    return World(tmp_path, 300_000)


@covers("SF-01", "SNAP-15")
def test_any_pieces_of_a_snapshot_are_its_bytes(world: World) -> None:
    data = data_of(HERE)
    pieces = [world.read(position, 777) for position in range(0, len(data), 777)]
    assert b"".join(piece.data for piece in pieces) == data
    assert {piece.size_bytes for piece in pieces} == {len(data)}


@covers("D-20", "D-24")
def test_a_download_that_begins_is_told_behind_its_first_piece(world: World) -> None:
    """What proves the file for it then does not hold that piece up."""
    world.read(0, 0)
    assert world.begun == []
    for position in (0, 777, 1_554):
        world.read(position, 777)
    assert world.begun == [(HERE, 1)]
    world.read(777, 777, prefix_checksum=crc32c.crc32c(data_of(HERE)[:777]))
    assert world.begun == [(HERE, 1)] * 2, "it goes on here with what it has from another node"


@covers("D-20")
def test_one_that_was_sent_damaged_is_the_senders_fault(world: World) -> None:
    data = bytearray(data_of(THERE))
    data[len(data) // 2] ^= 1
    (event,) = world.write(bytes(data), 0, len(data))
    assert isinstance(event, SnapshotReceived)
    assert event.problem.endswith("the disk is well; the leader that sent it has it damaged")
    assert world.files() == set()


@covers("SF-03")
@pytest.mark.parametrize("behind", [0, 1, 2**63 - 1])
def test_behind_the_end_there_are_no_bytes(world: World, behind: int) -> None:
    size = len(data_of(HERE))
    found = world.read(min(size + behind, 2**63 - 1), 10)
    assert (found.data, found.size_bytes) == (b"", size)


@covers("SNAP-20")
@pytest.mark.parametrize("how", ["never was", "deleted by hand"])
def test_one_that_is_not_there_is_told_as_such(world: World, how: str) -> None:
    if how == "deleted by hand":
        (world.folder / names.snapshot_name(HERE)).unlink()
        assert world.read(0, 10).size_bytes == -1
    else:
        world.transfer.start_read(ReadSnapshot(7, THERE, 0, 10))
        assert world.run() == [SnapshotRead(7, b"", -1)]


@covers("SNAP-20", "CLN-06")
@pytest.mark.parametrize("how", ["deleted by hand", "bad sector"])
def test_one_that_cannot_be_read_counts_no_more_and_goes_with_the_next_cut(world: World, how: str) -> None:
    """Seed 272505: the raft node counted it no more, and refused each cut that the cleaner asked for."""
    if how == "deleted by hand":
        (world.folder / names.snapshot_name(HERE)).unlink()
    world.fs.refuses = True
    assert world.read(0, 10) == SnapshotRead(7, b"", -1)
    assert world.read(0, 10) == SnapshotRead(7, b"", -1)
    assert world.snapshots.infos == ()
    assert world.damaged == [HERE], "told apart from the answer, which nobody waits for once the lead is lost"
    assert world.warnings == [("snapshot_gone", HERE.offset, HERE.epoch)]
    world.snapshots.remove_before(THERE)
    world.snapshots.take_removal().run()
    assert list(world.folder.iterdir()) == []


@covers("SNAP-20", "D-20")
def test_what_a_late_read_finds_is_of_the_file_that_it_read(world: World) -> None:
    """Two followers met one bad sector, and between the ends of their reads another file got the name."""
    world.fs.refuses = True
    for voter in (2, 3):
        world.transfer.start_read(ReadSnapshot(voter, HERE, 0, 100, voter_id=voter))
    world.step()
    assert world.snapshots.infos == ()
    world.fs.refuses = False
    writer = world.snapshots.writer(HERE)
    writer.append(data_of(HERE))
    world.snapshots.add(writer.freeze())
    world.fs.refuses = True
    events = world.run()
    assert [each.id for each in events if isinstance(each, SnapshotDamaged)] == [HERE]
    assert [info.id for info in world.snapshots.infos] == [HERE]


@covers("SNAP-20", "D-22", "D-24")
def test_one_that_is_cut_short_under_its_leader_counts_no_more(world: World) -> None:
    """A piece without bytes would keep a voter waiting, and what it waits for is never cut: both for ever."""
    os.truncate(world.folder / names.snapshot_name(HERE), 1_000)
    assert world.read(0, 777).size_bytes == len(world.content)
    assert len(world.read(777, 777).data) == 223
    assert world.read(1_000, 777) == SnapshotRead(7, b"", -1)
    assert world.snapshots.infos == ()


@covers("D-22")
def test_one_that_is_cleaned_while_it_is_read_is_read_to_its_end(world: World) -> None:
    world.transfer.start_read(ReadSnapshot(7, HERE, 0, 100))
    world.snapshots.remove((HERE,))
    world.snapshots.take_removal().run()
    assert world.run() == [SnapshotRead(7, data_of(HERE)[:100], len(data_of(HERE)))]
    world.snapshots.take_removal().run()
    assert list(world.folder.iterdir()) == []


def test_a_download_goes_on_only_where_the_bytes_before_are_the_same(world: World) -> None:
    data = data_of(HERE)
    same, other = crc32c.crc32c(data[:5_000]), crc32c.crc32c(b"x" + data[1:5_000])
    assert world.read(5_000, 10, prefix_checksum=same).data == data[5_000:5_010]
    assert world.read(5_000, 10, prefix_checksum=other) == SnapshotRead(7, b"", -1)
    assert [info.id for info in world.snapshots.infos] == [HERE], "it is the other one's file that differs"


@covers("D-20", "D-24")
def test_what_is_before_a_piece_is_compared_a_mebibyte_at_a_time(large: World) -> None:
    """Whatever else is to be read comes in between."""
    data = large.content
    end = 5 * MIB // 2
    same, other = crc32c.crc32c(data[:end]), crc32c.crc32c(b"x" + data[1:end])
    for checksum, found in ((same, data[end : end + 10]), (other, b"")):
        large.transfer.start_read(ReadSnapshot(1, HERE, end, 10, checksum, voter_id=2))
        large.transfer.start_read(ReadSnapshot(2, HERE, 0, 5, voter_id=3))
        for _ in range(4):
            assert len(large.jobs) in (1, 2), "the next step is there when the last one was done"
            large.step()
        assert large.events == [SnapshotRead(2, data[:5], len(data))]
        assert large.run()[1:] == [SnapshotRead(1, found, len(data) if found else -1)]


@covers("D-24")
def test_a_voters_read_waits_for_one_step_for_observers_at_most(large: World) -> None:
    """However many they are, and whatever is to be compared for them."""
    end = 3 * MIB
    checksum = crc32c.crc32c(large.content[:end])
    for token in range(10, 20):
        large.transfer.start_read(ReadSnapshot(token, HERE, end, 10, checksum))
    for token in range(4):
        assert len(large.jobs) == 1
        large.transfer.start_read(ReadSnapshot(token, HERE, 0, 5, voter_id=2))
        large.step()
        large.step()
        assert [event.token for event in large.events] == [token]  # type: ignore[union-attr]
        large.events.clear()
    events = large.run()
    assert [event.token for event in events] == list(range(10, 20)), "each in its turn"  # type: ignore[union-attr]
    assert {len(event.data) for event in events} == {10}  # type: ignore[union-attr]


@covers("D-22")
@pytest.mark.parametrize("what", ["the same", "a piece", "the size", "one that is not here"])
def test_a_voter_that_asks_again_ends_what_is_compared_for_it(large: World, what: str) -> None:
    """It did not wait for the answer. Else all would be read for each of its requests, beside the others."""
    data, end = large.content, 3 * MIB
    checksum = crc32c.crc32c(data[:end])
    again = {
        "the same": ReadSnapshot(20, HERE, end, 10, checksum, voter_id=2),
        "a piece": ReadSnapshot(20, HERE, end, 10, voter_id=2),
        "the size": ReadSnapshot(20, HERE, 0, 0, voter_id=2),
        "one that is not here": ReadSnapshot(20, THERE, 0, 10, voter_id=2),
    }[what]
    for token in range(10):
        large.transfer.start_read(ReadSnapshot(token, HERE, end, 10, checksum, voter_id=2))
        large.transfer.start_read(ReadSnapshot(30 + token, HERE, end, 10, checksum, voter_id=3 + token))
    large.transfer.start_read(again)
    told = {event.token: event for event in large.run() if isinstance(event, SnapshotRead)}
    size, piece = len(data), data[end : end + 10]
    for token in range(10):
        assert told[token] == SnapshotRead(token, b"", size), "its requests may wait on several connections"
        assert told[30 + token] == SnapshotRead(30 + token, piece, size), "another voter's goes on"
    if what in ("the same", "a piece"):
        assert told[20] == SnapshotRead(20, piece, size)
    elif what == "the size":
        assert told[20] == SnapshotRead(20, b"", size)
    else:
        assert told[20] == SnapshotRead(20, b"", -1)
    assert len(told) == 21
    large.snapshots.remove((HERE,))
    large.snapshots.take_removal().run()
    assert list(large.folder.iterdir()) == [], "nobody reads it any more"


def test_what_is_given_up_for_a_voter_is_given_up_behind_its_next_step(large: World) -> None:
    data, end = large.content, 3 * MIB
    checksum = crc32c.crc32c(data[:end])
    for token in range(10):
        large.transfer.start_read(ReadSnapshot(token, HERE, end, 10, checksum, voter_id=2))
        large.step()
        assert len(large.jobs) == 1
    assert large.run()[-1] == SnapshotRead(9, data[end : end + 10], len(data))
    large.transfer.start_read(ReadSnapshot(10, HERE, 0, 5, voter_id=2))
    large.transfer.start_read(ReadSnapshot(11, HERE, 5, 5, voter_id=2))
    assert large.run() == [SnapshotRead(10, data[:5], len(data)), SnapshotRead(11, data[5:10], len(data))]


@covers("D-24")
def test_the_size_alone_costs_the_disk_nothing(world: World) -> None:
    size = len(data_of(HERE))
    for position, max_bytes in ((0, 0), (size, 10), (2**62, 10)):
        world.transfer.start_read(ReadSnapshot(7, HERE, position, max_bytes))
    assert not world.jobs
    assert world.run() == [SnapshotRead(7, b"", size)] * 3


@covers("D-20", "SF-09")
def test_a_download_counts_once_its_last_piece_was_written_and_proved(world: World) -> None:
    data = data_of(THERE)
    middle = len(data) // 2
    assert world.write(data, 0, middle) == [SnapshotReceived(THERE, middle)]
    assert world.files() == {names.snapshot_name(THERE) + names.PART}
    assert world.snapshots.get(THERE) is None
    assert world.write(data, middle, len(data)) == [SnapshotReceived(THERE, len(data), is_whole=True)]
    assert world.files() == {names.snapshot_name(THERE)}
    info = world.snapshots.get(THERE)
    assert info is not None
    assert (info.size_bytes, info.last_contained_timestamp_ms) == (len(data), 700)


@covers("D-20")
@pytest.mark.parametrize(
    "spoil",
    [lambda data: data[:500] + b"!" + data[501:], lambda data: data[:-80], lambda data: data[:-1]],
    ids=["a byte", "no footer", "cut short"],
)
def test_what_a_leader_sends_is_no_snapshot_before_it_is_proved(
    world: World, spoil: Callable[[bytes], bytes]
) -> None:
    data = spoil(data_of(THERE))
    world.write(data, 0, 1_000)
    (event,) = world.write(data, 1_000, len(data))
    assert isinstance(event, SnapshotReceived)
    assert (event.is_whole, bool(event.problem)) == (False, True)
    assert world.files() == set()
    assert world.snapshots.get(THERE) is None


def test_a_download_that_begins_anew_has_nothing_of_the_former_one(world: World) -> None:
    data = data_of(THERE)
    world.transfer.start_write(WriteSnapshot(THERE, 0, b"of another leader", len(data)))
    world.transfer.start_write(WriteSnapshot(THERE, 0, data, len(data)))
    assert world.run()[-1] == SnapshotReceived(THERE, len(data), is_whole=True)
    assert (world.folder / names.snapshot_name(THERE)).read_bytes() == data


def test_a_download_that_is_given_up_leaves_nothing(world: World) -> None:
    data = data_of(THERE)
    world.transfer.start_write(WriteSnapshot(THERE, 0, data[:100], len(data)))
    world.transfer.drop(DropSnapshot(OffsetAndEpoch(1, 1)))
    world.run()
    assert world.files() == {names.snapshot_name(THERE) + names.PART}, "another one was meant"
    world.transfer.drop(DropSnapshot(THERE))
    world.run()
    assert world.files() == set()


def test_one_that_is_given_up_while_its_last_piece_is_written_counts_nevertheless(world: World) -> None:
    data = data_of(THERE)
    world.transfer.start_write(WriteSnapshot(THERE, 0, data, len(data)))
    world.transfer.drop(DropSnapshot(THERE))
    assert world.run() == [SnapshotReceived(THERE, len(data), is_whole=True)]
    assert world.files() == {names.snapshot_name(THERE)}


def test_the_end_of_the_process_leaves_no_part(world: World) -> None:
    data = data_of(THERE)
    world.write(data, 0, 100)
    world.transfer.stop()
    assert world.files() == set()
