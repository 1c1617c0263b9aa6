"""The cleaner on a real directory: what it asks for and when, and which files go."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kraftd.raft import LeasedSnapshots, Retention, SnapshotPoints
from kraftd.raft.events import CutRequested
from kraftd.records.committed import CommittedBatch
from kraftd.records.snapshot import encode_snapshot
from kraftd.runtime.config import LogLimits
from kraftd.runtime.log_cleaner import INTERVAL_MS, ROLL_BYTES, LogCleaner, rolling_of
from kraftd.storage import LogConfig, NodeDirectory, OsFileSystem, format_directory
from kraftd.types import Now, OffsetAndEpoch
from tests.unit.storage.batches import batch, run_of

SMALL = LogConfig(segment_bytes=4 * len(batch(0)))


class World:
    """Driver, raft node, worker and logger in one: what is asked for is done at once."""

    def __init__(self, folder: Path, retention: Retention, config: LogConfig = SMALL) -> None:
        self.fs = OsFileSystem()
        format_directory(
            self.fs,
            folder,
            cluster_id="c",
            node_id=1,
            directory_id=b"d" * 16,
            now_ms=1,
            ignore_formatted=True,
        )
        self.directory = NodeDirectory.open(
            self.fs, folder, node_id=1, random_uuid=lambda: os.urandom(16), config=config
        )
        self.log_path = folder / "__cluster_metadata-0"
        self.applied = 1 << 62
        self.leased = LeasedSnapshots()
        self.agrees = True
        self.events: list[Any] = []
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.now_ms = 0
        self.cleaner = LogCleaner(
            self.directory,
            retention,
            driver=self,
            raft_node=self,
            applied_offset=lambda: self.applied,
            worker=self,
            logger=self,
        )

    def deliver(self, event: CutRequested) -> None:
        self.events.append(event)
        if self.agrees:
            self.directory.cut_front(event.start)

    def leased_snapshots(self, now_ms: int) -> LeasedSnapshots:
        assert now_ms == self.now_ms
        return self.leased

    def submit(self, job: Any, done: Any) -> None:
        done(job())

    def info(self, event: str, **values: Any) -> None:
        self.lines.append((event, values))

    warning = info

    def freeze(self, offset: int) -> None:
        writer = self.directory.snapshots.writer(OffsetAndEpoch(offset, 1))
        for piece in encode_snapshot([b"record"], 1, offset, last_contained_timestamp_ms=offset):
            writer.append(piece)
        self.directory.snapshots.add(writer.freeze())

    def minute(self) -> None:
        """Let the next minute come, and a turn after it."""
        self.now_ms = max(self.now_ms, self.cleaner.wake_at_ms())
        for _ in range(2):
            self.cleaner.run(Now(self.now_ms, 1_000_000))

    def names(self, suffix: str) -> list[int]:
        return [int(path.name[:20]) for path in sorted(self.log_path.glob(f"*{suffix}"))]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, Retention(0, -1))
    world.directory.log.append(run_of(0, 14), 0, 14)
    world.directory.log.flush()
    yield world
    world.directory.close()


@pytest.mark.covers("CLN-01", "CLN-02", "CLN-03", "CLN-06", "D-22")
def test_once_a_minute_the_log_is_cut_to_the_bounds_and_the_files_go(world: World) -> None:
    world.freeze(5)
    world.minute()
    assert world.events == []
    world.freeze(9)
    world.cleaner.run(Now(world.now_ms + INTERVAL_MS - 1, 1_000_000))
    assert world.events == []
    before = world.directory.log.size_bytes
    world.minute()
    assert world.events == [CutRequested(OffsetAndEpoch(9, 1))]
    assert (world.names(".log"), world.names(".checkpoint"), world.names(".deleted")) == ([8, 12], [9], [])
    (name, values), *others = world.lines
    assert (name, others) == ("log_cleaned", [])
    assert (values["start_offset"], values["snapshots"]) == (9, 1)
    assert values["removed_bytes"] > before - world.directory.log.size_bytes > 0
    assert (world.cleaner.cleanings, world.cleaner.removed_bytes) == (1, values["removed_bytes"])
    world.minute()
    assert len(world.events) == 1


@pytest.mark.covers("CLN-02", "CLN-03", "CLN-04")
@pytest.mark.parametrize("retention", [Retention(0, -1), Retention(-1, 0), Retention(0, 0)])
def test_a_retention_of_nothing_keeps_the_newest_snapshot_and_what_is_behind_it(
    tmp_path: Path, retention: Retention
) -> None:
    world = World(tmp_path, retention)
    world.directory.log.append(run_of(0, 14), 0, 14)
    world.directory.log.flush()
    for offset in (5, 9, 12):
        world.freeze(offset)
        world.minute()
        world.minute()
        assert world.names(".checkpoint") == [offset]
    assert (world.directory.log.start_offset, world.directory.log.end_offset) == (12, 14)
    world.directory.close()


@pytest.mark.covers("CLN-03")
def test_it_looks_at_each_snapshot(world: World) -> None:
    world.minute()
    for offset in (5, 9):
        world.freeze(offset)
    world.cleaner.run(Now(world.now_ms, 1_000_000))
    assert world.events == []
    world.cleaner.snapshot_written(9)
    world.cleaner.run(Now(world.now_ms, 1_000_000))
    assert [event.start.offset for event in world.events] == [9]


@pytest.mark.covers("CLN-05", "D-22")
def test_what_is_not_applied_or_not_flushed_or_downloaded_stays(world: World) -> None:
    for offset in (5, 9, 14):
        world.freeze(offset)
    world.directory.log.append(run_of(14, 18), 14, 18)
    world.freeze(17)
    world.leased = LeasedSnapshots(voters=frozenset({OffsetAndEpoch(5, 1)}))
    world.minute()
    assert world.events == []
    world.leased = LeasedSnapshots()
    world.applied = 10
    world.minute()
    world.applied = 18
    world.minute()
    assert [event.start.offset for event in world.events] == [9, 14]


@pytest.mark.covers("D-22", "D-24")
def test_what_observers_download_beyond_one_retention_is_cut_and_the_raft_node_is_told_so(
    world: World,
) -> None:
    for offset in (5, 9, 14):
        world.freeze(offset)
    world.leased = LeasedSnapshots(observers=frozenset({OffsetAndEpoch(9, 1)}))
    world.cleaner._retention = Retention(world.directory.log.size_bytes, 0)
    world.minute()
    world.cleaner._retention = Retention(0, 0)
    world.minute()
    assert world.events == [
        CutRequested(OffsetAndEpoch(9, 1)),
        CutRequested(OffsetAndEpoch(14, 1), ends_observers_leases=True),
    ]


@pytest.mark.covers("CLN-01")
def test_a_raft_node_that_does_not_agree_is_asked_again_a_minute_later(world: World) -> None:
    for offset in (5, 9):
        world.freeze(offset)
    world.agrees = False
    world.minute()
    world.minute()
    assert len(world.events) == 2
    assert world.lines == []
    assert world.names(".checkpoint") == [5, 9]


@pytest.mark.covers("CLN-06", "D-22")
def test_what_is_being_read_goes_a_minute_after_it_was_let_go(world: World) -> None:
    for offset in (5, 9):
        world.freeze(offset)
    view = world.directory.log.reader_view().pin()
    reader = world.directory.snapshots.open_reader(OffsetAndEpoch(5, 1))
    assert reader is not None
    world.minute()
    assert world.names(".log.deleted") == [0, 4]
    assert world.names(".checkpoint.deleted") == [5]
    view.release()
    reader.release()
    world.minute()
    assert world.names(".deleted") == []


@pytest.mark.covers("CLN-01")
def test_what_cannot_be_removed_is_told_and_ends_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    for offset in (5, 9):
        world.freeze(offset)
    monkeypatch.setattr(world.fs, "unlink", refuse, raising=False)
    world.minute()
    assert world.lines[0][0] == "log_cleaned"
    assert {name for name, _ in world.lines[1:]} == {"file_not_removed"}
    assert world.lines[1][1]["reason"].endswith("unlink failed: Operation not permitted")
    assert world.directory.log.start_offset == 9


def test_the_log_rolls_at_a_snapshot_once_the_active_segment_is_large(tmp_path: Path) -> None:
    world = World(tmp_path, Retention(-1, -1), LogConfig())
    log = world.directory.log
    size = ROLL_BYTES // 3
    for offset in range(4):
        world.cleaner.snapshot_written(offset)
        log.append((batch(offset, size_bytes=size),), offset, offset + 1)
    assert world.names(".log") == [0, 3]
    world.directory.close()


@given(
    sizes=st.lists(st.integers(100, 3_000_000), min_size=5, max_size=40),
    group=st.integers(1, 5),
    snapshot_bytes=st.integers(ROLL_BYTES, 2 * ROLL_BYTES),
)
@example(sizes=[3_000_000] * 8, group=5, snapshot_bytes=ROLL_BYTES)
@settings(max_examples=20, deadline=None)
def test_segments_end_where_snapshots_are_due_that_are_not_written_yet(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], group: int, snapshot_bytes: int
) -> None:
    limits = LogLimits(segment_bytes=1 << 30, segment_ms=1 << 40, snapshot_bytes=snapshot_bytes)
    world = World(tmp_path_factory.mktemp("log"), Retention(-1, -1), rolling_of(limits))
    batches = [batch(offset, size_bytes=size) for offset, size in enumerate(sizes)]
    for base in range(0, len(batches), group):
        several = batches[base : base + group]
        world.directory.log.append(several, base, base + len(several))
    points = SnapshotPoints(limits.snapshot_bytes, 0)
    due = [0]
    for offset, data in enumerate(batches[:-1]):
        applied = CommittedBatch(offset, offset + 1, 1, 0, (), len(data))
        if points.is_due(applied):
            due.append(points.take(applied).id.offset)
    assert world.names(".log") == due
    world.directory.close()


def test_few_bytes_between_snapshots_make_no_small_segments() -> None:
    limits = LogLimits(segment_bytes=1 << 30, segment_ms=1, snapshot_bytes=ROLL_BYTES - 1)
    assert rolling_of(limits).sealed_at_bytes == 1 << 30
