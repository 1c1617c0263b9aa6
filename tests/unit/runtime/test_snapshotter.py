"""Snapshots are written beside everything else: when, a little at a time, and what a refusal costs."""

import errno
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftd.metadata.feature_levels import METADATA_VERSION
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import apply_all
from kraftd.raft.snapshot_points import SnapshotPoints
from kraftd.records.committed import CommittedBatch
from kraftd.records.messages import BeginTransactionRecord, FeatureLevelRecord, TopicRecord
from kraftd.records.snapshot import SnapshotDecoder
from kraftd.runtime.snapshotter import Snapshotter
from kraftd.storage import OsFileSystem
from kraftd.storage.disk import Disk
from kraftd.storage.snapshots import SnapshotInfo, SnapshotWriter
from kraftd.types import NEVER_MS, Now, OffsetAndEpoch

AT = 1_700_000_000_000
TOPICS = 3_000
IMAGE = apply_all(
    EMPTY,
    [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=30),
        *(TopicRecord(f"topic-{number}", number.to_bytes(16, "big")) for number in range(TOPICS)),
    ],
    0,
)


class FullDisk(OsFileSystem):
    """No room while `is_full`."""

    is_full = False

    def open(self, path: Path, access: Any) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().open(path, access)


class World:
    """A node's driver, thread, log of lines and directory."""

    def __init__(self, folder: Path, me: int = 1, bytes_max: int = 100) -> None:
        self.folder = folder
        self.fs = FullDisk()
        self.disk = Disk(self.fs)
        self.image: MetadataImage = IMAGE
        self.is_leader = False
        self.lost_from = NEVER_MS
        self.newest: SnapshotInfo | None = None
        self.jobs: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.written: list[SnapshotInfo] = []
        self.now_ms = 10_000
        self.clock_ns = 0
        self.snapshotter = Snapshotter(
            SnapshotPoints(bytes_max, 0),
            lambda: self.newest,
            me=me,
            voter_ids=(1, 2, 3),
            is_leader=lambda: self.is_leader,
            lacks_one=lambda offset: offset >= self.lost_from,
            image=lambda: self.image,
            open_writer=lambda snapshot_id: SnapshotWriter(self.disk, folder, snapshot_id),
            written=self.on_written,
            worker=self,  # type: ignore[arg-type]
            driver=self,  # type: ignore[arg-type]
            clock_ns=self.tick,
            logger=self,
        )

    def tick(self) -> int:
        self.clock_ns += 100_000
        return self.clock_ns

    def submit(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.jobs.append((job, done))

    def on_written(self, info: SnapshotInfo) -> None:
        self.written.append(info)
        self.newest = info
        self.lost_from = NEVER_MS

    def wake(self) -> None:
        """Somebody asks for a turn."""

    def now(self) -> Now:
        return Now(self.now_ms, AT)

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    error = info

    def apply(self, base: int, size: int = 100) -> None:
        self.snapshotter.applied(CommittedBatch(base, base + 1, 4, AT + base, (), size))

    def turn(self, *, threads: bool = True) -> None:
        """A turn at the next deadline, and what the thread does meanwhile."""
        wake_at_ms = self.snapshotter.wake_at_ms()
        if wake_at_ms != NEVER_MS:
            self.now_ms = max(self.now_ms, wake_at_ms)
        self.snapshotter.run(self.now())
        while threads and self.jobs:
            job, done = self.jobs.popleft()
            done(job())

    def turns_to_end(self, count: int = 500) -> int:
        for number in range(count):
            if not self.snapshotter._write and not self.snapshotter._kept:
                return number
            self.turn()
        raise AssertionError("it does not end")

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def name_of(offset: int) -> str:
    return f"{offset:020}-{4:010}.checkpoint"


@pytest.mark.covers("D-19", "D-20")
def test_the_image_of_a_point_is_written_with_one_line(world: World, tmp_path: Path) -> None:
    world.apply(6)
    world.image = apply_all(IMAGE, [TopicRecord("later", b"l" * 16)], 7)
    world.turns_to_end()
    assert world.names() == [name_of(7)]
    data = (tmp_path / name_of(7)).read_bytes()
    decoder = SnapshotDecoder(epoch=4)
    batches = list(decoder.feed(data))
    decoder.finish()
    assert sum(len(batch.values()) for batch in batches) == TOPICS + 1
    assert {batch.max_timestamp for batch in batches} == {AT + 6}
    ((event, fields),) = world.lines
    assert (event, fields["offset"], fields["epoch"], fields["size_bytes"]) == (
        "snapshot_written",
        7,
        4,
        len(data),
    )
    newest = world.snapshotter.newest
    assert newest is not None
    assert (newest.id, newest.size_bytes) == (OffsetAndEpoch(7, 4), len(data))
    assert world.snapshotter.wake_at_ms() == NEVER_MS


@pytest.mark.covers("D-19")
def test_it_is_encoded_in_slices_for_a_tenth_of_the_time(world: World) -> None:
    world.apply(0)
    spent_ns, began_ms = 0, world.now_ms
    while world.snapshotter._write or world.snapshotter._kept:
        before_ns = world.clock_ns
        world.turn()
        spent_ns += world.clock_ns - before_ns
        assert world.clock_ns - before_ns <= 600_000
    assert spent_ns / 1e6 <= (world.now_ms - began_ms) / 10 + 1
    assert not world.snapshotter._write


@pytest.mark.covers("D-19")
def test_not_inside_a_transaction_nor_before_a_level_is_known(world: World) -> None:
    inside = apply_all(IMAGE, [BeginTransactionRecord("t")], 1)
    for image in (EMPTY, inside):
        world.image = image
        world.apply(1)
        assert world.snapshotter.wake_at_ms() == NEVER_MS
    world.image = IMAGE
    world.apply(2, size=1)
    world.turns_to_end()
    assert world.names() == [name_of(3)]


@pytest.mark.covers("D-19")
@pytest.mark.parametrize(
    ("me", "is_leader", "delay_ms"), [(1, False, 0), (2, False, 1_000), (1, True, 3_000)]
)
def test_its_turn_comes_by_its_place_and_a_leaders_last(
    tmp_path: Path, me: int, is_leader: bool, delay_ms: int
) -> None:
    world = World(tmp_path, me)
    world.is_leader = is_leader
    world.apply(1)
    assert world.snapshotter.wake_at_ms() == world.now_ms + delay_ms
    if delay_ms:
        world.now_ms += delay_ms - 1
        world.snapshotter.run(world.now())
        assert not world.snapshotter._write


@pytest.mark.covers("D-19")
def test_a_point_that_waits_is_dropped_for_a_newer_one_and_waits_no_longer_for_it(tmp_path: Path) -> None:
    """A leader under load: each second brings a point, and its turn comes three seconds after the first."""
    world = World(tmp_path)
    world.is_leader = True
    due_ms = world.now_ms + 3_000
    for offset in range(3):
        world.apply(offset)
        world.now_ms += 1_000
        assert world.snapshotter.wake_at_ms() == due_ms
    world.turns_to_end()
    assert world.names() == [name_of(3)]


@pytest.mark.covers("D-19")
def test_a_write_that_has_begun_is_finished(world: World) -> None:
    world.apply(0)
    world.turn()
    assert world.snapshotter._write
    world.apply(1)
    world.turns_to_end()
    assert world.names() == [name_of(1), name_of(2)]


@pytest.mark.covers("D-20")
def test_a_full_disk_is_an_alarm_until_the_next_point(world: World) -> None:
    world.fs.is_full = True
    world.apply(0)
    world.turns_to_end()
    assert world.names() == []
    (alarm,) = world.snapshotter.alarms
    assert alarm.startswith("no snapshot was written at offset 1: ")
    assert alarm.endswith("open failed: No space left on device")
    assert [event for event, _ in world.lines] == ["snapshot_failed"]
    assert world.disk.failure is None
    world.fs.is_full = False
    world.apply(1)
    world.turns_to_end()
    assert world.names() == [name_of(2)]
    assert world.snapshotter.alarms == ()


def test_no_more_than_two_pieces_wait_for_the_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftd.runtime.snapshotter.PIECE_BYTES", 1_000)
    world.apply(0)
    for _ in range(20):
        world.turn(threads=False)
    assert len(world.jobs) == 2
    assert world.snapshotter.wake_at_ms() == NEVER_MS
    world.turns_to_end()
    assert world.names() == [name_of(1)]


def test_what_is_not_finished_when_the_process_stops_leaves_nothing(world: World) -> None:
    world.apply(0)
    world.turn()
    writer = world.snapshotter._write
    assert writer
    writer.writer.append(b"some")
    assert world.names() == [name_of(1) + ".part"]
    world.snapshotter.stop()
    assert world.names() == []


# --- loaded ones --------------------------------------------------------------------------------------------


@pytest.mark.covers("D-19")
def test_behind_a_loaded_snapshot_the_count_begins_anew_and_an_image_of_before_it_is_dropped(
    world: World,
) -> None:
    world.apply(0, size=60)
    world.apply(1, size=60)
    assert world.snapshotter._kept
    world.apply(2, size=60)
    loaded = SnapshotInfo(OffsetAndEpoch(50, 5), 10, AT)
    world.snapshotter.loaded(loaded)
    assert world.snapshotter.wake_at_ms() == NEVER_MS
    world.apply(50, size=60)
    assert world.snapshotter.wake_at_ms() == NEVER_MS
    world.apply(51, size=60)
    world.turns_to_end()
    assert world.names() == [name_of(52)]


@pytest.mark.covers("D-19")
def test_an_older_one_whose_write_had_begun_is_finished(world: World) -> None:
    world.apply(0)
    world.turn()
    assert world.snapshotter._write
    world.snapshotter.loaded(SnapshotInfo(OffsetAndEpoch(50, 5), 10, AT))
    world.turns_to_end()
    assert [info.id.offset for info in world.written] == [1]


# --- in the place of those that went bad --------------------------------------------------------------------


@pytest.mark.covers("D-19")
def test_where_all_went_bad_one_is_made_at_once_and_the_points_of_the_log_stay(world: World) -> None:
    world.apply(0)
    world.turns_to_end()
    world.apply(1, size=40)
    world.lost_from = 1
    world.turn()
    world.apply(2, size=40)
    world.turns_to_end()
    world.apply(3, size=40)
    world.turns_to_end()
    # The one at 2 is extra. The next point is where 100 bytes have come since the first, as on all nodes.
    assert [info.id.offset for info in world.written] == [1, 2, 4]


@pytest.mark.covers("D-19")
def test_where_all_went_bad_no_further_batch_is_waited_for_nor_the_other_voters(tmp_path: Path) -> None:
    """Node 3 needs the snapshot to follow, and without it nothing is committed."""
    world = World(tmp_path, me=2)
    world.is_leader = True
    world.apply(6, size=10)
    world.turn()
    assert world.snapshotter.wake_at_ms() == NEVER_MS
    assert not world.snapshotter._write
    world.lost_from = 7
    assert world.snapshotter.wake_at_ms() <= world.now_ms
    began_ms = world.now_ms
    world.turn()
    assert world.now_ms == began_ms
    # What is applied while it is written is not in it.
    world.image = apply_all(IMAGE, [TopicRecord("later", b"l" * 16)], 7)
    world.apply(7, size=10)
    world.turns_to_end()
    assert world.names() == [name_of(7)]
    decoder = SnapshotDecoder(epoch=4)
    batches = list(decoder.feed((tmp_path / name_of(7)).read_bytes()))
    decoder.finish()
    assert sum(len(batch.values()) for batch in batches) == TOPICS + 1
    assert {batch.max_timestamp for batch in batches} == {AT + 6}
    world.turn()
    assert not world.snapshotter._write, "one is enough"


@pytest.mark.covers("D-19")
def test_where_all_went_bad_a_point_that_waits_for_its_turn_is_written_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, me=3)
    world.apply(0)
    world.apply(1, size=10)
    began_ms = world.now_ms
    assert world.snapshotter.wake_at_ms() > began_ms
    world.lost_from = 1
    world.turn()
    assert world.now_ms == began_ms
    world.turns_to_end()
    assert world.names() == [name_of(1)]


@pytest.mark.covers("D-19")
def test_where_all_went_bad_inside_a_transaction_the_state_before_it_is_written(world: World) -> None:
    world.apply(3, size=10)
    world.image = apply_all(IMAGE, [BeginTransactionRecord("t")], 4)
    world.apply(4, size=10)
    world.lost_from = 2
    world.turn()
    world.turns_to_end()
    assert world.names() == [name_of(4)]


@pytest.mark.covers("D-19")
def test_one_that_was_loaded_and_went_bad_is_written_once_more(world: World, tmp_path: Path) -> None:
    world.snapshotter.loaded(SnapshotInfo(OffsetAndEpoch(50, 4), 10, AT + 49))
    world.lost_from = 50
    world.turn()
    world.turns_to_end()
    assert world.names() == [name_of(50)]
    decoder = SnapshotDecoder(epoch=4)
    deque(decoder.feed((tmp_path / name_of(50)).read_bytes()), maxlen=0)
    decoder.finish()
    assert decoder.header is not None
    assert decoder.header.last_contained_log_timestamp == AT + 49


@pytest.mark.covers("D-19", "D-23")
def test_where_all_went_bad_nothing_is_made_of_a_state_that_the_log_does_not_go_on_from(
    world: World,
) -> None:
    world.lost_from = 0
    world.turn()
    assert not world.snapshotter._write, "nothing is applied, nor loaded"
    world.image = EMPTY
    world.apply(0, size=10)
    world.turn()
    assert not world.snapshotter._write, "nothing says in which versions records may be written"
    # The log begins at 90, at a snapshot that went bad before it was loaded.
    world.image = IMAGE
    world.apply(1, size=10)
    world.lost_from = 90
    world.turn()
    assert world.snapshotter.wake_at_ms() == NEVER_MS
    assert world.names() == []


@pytest.mark.covers("D-19", "D-20")
def test_where_all_went_bad_and_the_disk_refuses_it_is_tried_again_each_second(world: World) -> None:
    world.apply(0, size=10)
    world.lost_from = 1
    world.fs.is_full = True
    world.turn()
    world.turns_to_end()
    failed_ms = world.now_ms
    assert world.snapshotter.alarms
    assert world.snapshotter.wake_at_ms() == failed_ms + 1_000
    world.snapshotter.run(world.now())
    assert not world.snapshotter._write
    world.fs.is_full = False
    world.turn()
    world.turns_to_end()
    assert world.names() == [name_of(1)]
    assert world.snapshotter.alarms == ()


# --- why none is written ------------------------------------------------------------------------------------


@pytest.mark.covers("D-19")
def test_it_says_why_there_is_no_snapshot(tmp_path: Path) -> None:
    world = World(tmp_path, me=2)
    world.apply(0, size=40)
    snapshotter = world.snapshotter
    assert snapshotter.why_none == "none is due yet: 40 of 100 bytes of log"
    world.image = apply_all(IMAGE, [BeginTransactionRecord("t")], 7)
    world.apply(1)
    assert snapshotter.why_none == "one is due, and a metadata transaction is open since offset 7"
    world.image = EMPTY
    world.apply(2)
    assert snapshotter.why_none == "one is due, and the log does not say which metadata.version"
    world.image = IMAGE
    world.apply(3)
    assert snapshotter.why_none == "the first one waits for its turn behind the other voters"
    world.fs.is_full = True
    world.turns_to_end()
    assert snapshotter.why_none.endswith("No space left on device")
    world.fs.is_full = False
    world.apply(4)
    world.turns_to_end()
    assert snapshotter.why_none == ""
