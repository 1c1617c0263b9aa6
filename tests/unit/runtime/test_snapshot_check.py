"""The snapshots that a start did not prove are read behind it; a damaged one is told and counts no more."""

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kraftd.raft.events import SnapshotDamaged
from kraftd.records import names
from kraftd.records.snapshot import encode_snapshot
from kraftd.runtime.controller_server import ControllerServer
from kraftd.runtime.snapshot_check import CHECK_INTERVAL_MS, SnapshotCheck
from kraftd.runtime.worker import Worker
from kraftd.storage import Disk, OsFileSystem, StorageFailure
from kraftd.storage.snapshot_files import SnapshotFiles, SnapshotReader, survey_snapshots
from kraftd.storage.snapshots import PIECE_BYTES
from kraftd.types import Now, OffsetAndEpoch

IDS = OLD, MIDDLE, NEW = tuple(OffsetAndEpoch(offset, 3) for offset in (40, 70, 90))


class World:
    """A folder with three snapshots, the thread and the log of lines."""

    def __init__(self, folder: Path, size: int = 10) -> None:
        self.folder = folder
        for each in IDS:
            pieces = encode_snapshot([b"x" * 100] * size, 3, 1, last_contained_timestamp_ms=1)
            self.path_of(each).write_bytes(b"".join(pieces))
        self.jobs: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.events: list[SnapshotDamaged] = []
        self.now_ms = 5

    def path_of(self, snapshot_id: OffsetAndEpoch) -> Path:
        return self.folder / names.snapshot_name(snapshot_id)

    def spoil(self, snapshot_id: OffsetAndEpoch) -> None:
        data = bytearray(self.path_of(snapshot_id).read_bytes())
        data[-3] ^= 1
        self.path_of(snapshot_id).write_bytes(bytes(data))

    def now(self) -> Now:
        return Now(self.now_ms, 0)

    def deliver(self, event: SnapshotDamaged) -> None:
        assert event.id not in self.counted, "who hears of it finds the newest that is good"
        self.events.append(event)

    def start(self, fs: OsFileSystem | None = None, *, begins: bool = True) -> None:
        disk = Disk(fs or OsFileSystem())
        self.files = SnapshotFiles(disk, self.folder, survey_snapshots(disk, self.folder).infos)
        self.check = SnapshotCheck(self.files, self, self, self)  # type: ignore[arg-type]
        if begins:
            self.check.begin()

    def submit(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.jobs.append((job, done))

    def run_job(self) -> None:
        job, done = self.jobs.popleft()
        done(job())

    def finish(self) -> None:
        while self.jobs:
            assert len(self.jobs) == 1, "others want the thread, too"
            self.run_job()

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    @property
    def counted(self) -> list[OffsetAndEpoch]:
        return [info.id for info in self.files.infos]


@pytest.mark.covers("D-23")
def test_whole_ones_are_not_spoken_of(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.start()
    world.finish()
    assert (world.lines, world.counted, world.events) == ([], list(IDS), [])
    world.check.begin()
    assert not world.jobs, "once a start"


@pytest.mark.covers("D-23")
def test_a_damaged_older_one_is_told_counts_no_more_and_goes_with_the_log_before_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.spoil(MIDDLE)
    world.start()
    assert world.counted == list(IDS), "its header is sound"
    world.finish()
    ((event, fields),) = world.lines
    assert (event, fields["offset"], fields["epoch"]) == ("snapshot_damaged", 70, 3)
    assert fields["reason"].startswith(f"{world.path_of(MIDDLE)} at byte ")
    assert fields["instead"] == "the snapshot at offset 90 is used instead"
    assert world.counted == [OLD, NEW]
    assert world.events == [SnapshotDamaged(MIDDLE)]
    assert world.files.open_reader(MIDDLE) is None
    assert world.path_of(MIDDLE).exists()
    world.files.remove_before(NEW)
    assert not world.path_of(MIDDLE).exists()


def test_it_is_read_piece_by_piece_and_one_that_goes_meanwhile_is_passed_over(tmp_path: Path) -> None:
    world = World(tmp_path, size=25_000)
    assert world.path_of(OLD).stat().st_size > 2 * PIECE_BYTES
    world.spoil(OLD)
    world.spoil(MIDDLE)
    world.start()
    world.run_job()
    world.run_job()
    assert world.lines == []
    world.files.remove_before(NEW)
    assert world.files.take_removal().run() == ()
    assert list(tmp_path.glob("*.deleted")), "it is still read"
    world.finish()
    assert (world.lines, world.counted, world.events) == ([], [NEW], [])
    assert world.files.take_removal().run() == ()
    assert not list(tmp_path.glob("*.deleted"))


def test_one_that_is_being_proved_is_not_proved_once_more_for_each_who_asks(tmp_path: Path) -> None:
    """Nobody is to make the disk be read for asking."""
    world = World(tmp_path)
    world.start(begins=False)
    for _ in range(3):
        world.check.check(NEW)
    reads = 0
    while world.jobs:
        world.run_job()
        reads += 1
    once = reads
    world.now_ms += CHECK_INTERVAL_MS
    world.check.check(NEW)
    while world.jobs:
        world.run_job()
        reads += 1
    assert reads == 2 * once


@pytest.mark.covers("D-20")
def test_one_that_rots_while_its_node_runs_counts_no_more_once_somebody_downloads_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.start()
    world.finish()
    world.spoil(NEW)
    world.check.check(NEW)
    world.finish()
    ((event, fields),) = world.lines
    assert (event, fields["offset"]) == ("snapshot_damaged", 90)
    assert fields["instead"] == "the snapshot at offset 70 is used instead"
    assert world.counted == [OLD, MIDDLE]
    assert world.files.open_reader(NEW) is None
    world.now_ms += CHECK_INTERVAL_MS
    for each in (OLD, MIDDLE):
        world.spoil(each)
        world.check.check(each)
    world.finish()
    assert world.lines[-1][1]["instead"] == "no other one is here: the next one takes its place"
    assert world.counted == []
    assert world.events == [SnapshotDamaged(each) for each in (NEW, OLD, MIDDLE)]


@pytest.mark.covers("D-24")
def test_it_is_read_once_for_all_who_download_it_and_not_for_asking(tmp_path: Path) -> None:
    world = World(tmp_path, size=25_000)
    world.start(begins=False)
    world.check.check(NEW)
    world.run_job()
    world.check.check(NEW)
    world.now_ms += CHECK_INTERVAL_MS
    world.finish()
    world.check.check(NEW)
    world.now_ms += CHECK_INTERVAL_MS - 1
    world.check.check(NEW)
    assert not world.jobs
    world.now_ms += 1
    world.check.check(NEW)
    assert len(world.jobs) == 1
    world.now_ms += CHECK_INTERVAL_MS
    world.check.check(NEW)
    assert len(world.jobs) == 1, "it is being read"


@pytest.mark.covers("D-24")
def test_one_that_waits_for_its_check_or_was_just_proved_behind_a_start_is_read_once(tmp_path: Path) -> None:
    world = World(tmp_path, size=25_000)
    reads: list[OffsetAndEpoch] = []
    world.start()
    open_reader = world.files.open_reader

    def opened(snapshot_id: OffsetAndEpoch) -> SnapshotReader | None:
        reads.append(snapshot_id)
        return open_reader(snapshot_id)

    world.files.open_reader = opened  # type: ignore[method-assign]
    for _ in range(3):
        world.check.check(NEW)
    world.finish()
    for each in IDS:
        world.check.check(each)
    assert reads == [NEW, MIDDLE], "the oldest was being read"
    assert not world.jobs


@pytest.mark.covers("D-20")
def test_one_that_was_bad_is_proved_again_once_another_has_its_name(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.start(begins=False)
    info = world.files.newest
    assert info is not None
    for _ in range(2):
        world.spoil(NEW)
        world.check.check(NEW)
        world.finish()
        world.files.add(info)
        world.spoil(NEW)
    assert [fields["offset"] for _, fields in world.lines] == [90, 90]
    world.check.check(NEW)
    world.finish()
    assert len(world.lines) == 2


@pytest.mark.covers("D-20")
def test_one_that_got_the_name_of_a_bad_one_while_that_was_read_counts(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.start(begins=False)
    info = world.files.newest
    assert info is not None
    world.spoil(NEW)
    world.check.check(NEW)
    world.files.mark_damaged(NEW)
    world.files.add(msgspec.structs.replace(info))
    world.finish()
    assert world.lines == []
    assert world.files.newest == info


@pytest.mark.covers("D-20", "D-23")
def test_one_that_is_downloaded_comes_before_those_that_a_start_left(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.start()
    for each in IDS:
        world.spoil(each)
    world.check.check(NEW)
    world.finish()
    assert [fields["offset"] for _, fields in world.lines] == [40, 90, 70]


async def test_a_clean_stop_does_not_wait_until_all_is_read(tmp_path: Path) -> None:
    """Where snapshots are kept for ever there are many, and the loop stands still meanwhile."""
    world = World(tmp_path, size=25_000)
    pieces: list[int] = []

    class Slow(OsFileSystem):
        def pread(self, handle: int, size: int, position: int) -> bytes:
            pieces.append(position)
            return super().pread(handle, size, position)

    disk = Disk(Slow())
    files = SnapshotFiles(disk, tmp_path, survey_snapshots(disk, tmp_path).infos)
    worker = Worker(asyncio.get_running_loop(), "read")
    del pieces[:]
    SnapshotCheck(files, worker, world, world).begin()  # type: ignore[arg-type]
    stopped: list[str] = []
    node: Any = SimpleNamespace(
        workers=(worker,),
        store=SimpleNamespace(drain=lambda: None),
        snapshotter=SimpleNamespace(stop=lambda: stopped.append("snapshotter")),
        snapshot_transfer=SimpleNamespace(stop=lambda: stopped.append("transfer")),
    )
    ControllerServer.stop_workers(node)
    assert pieces == [0]
    assert stopped == ["snapshotter", "transfer"]


def test_what_the_disk_refuses_is_told_and_a_disk_that_failed_ends_the_process(tmp_path: Path) -> None:
    class Refusing(OsFileSystem):
        error: Exception | None = None

        def pread(self, handle: int, size: int, position: int) -> bytes:
            if self.error is not None:
                raise self.error
            return super().pread(handle, size, position)

    fs = Refusing()
    world = World(tmp_path)
    world.start(fs)
    fs.error = OSError(5, "Input/output error")
    world.run_job()
    assert "Input/output error" in world.lines[0][1]["reason"]
    fs.error = StorageFailure("the disk is gone")
    with pytest.raises(StorageFailure):
        world.run_job()
