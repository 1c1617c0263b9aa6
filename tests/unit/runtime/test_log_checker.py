"""The check of a real directory after its start: when it reads, and what becomes of damage."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftd.raft.events import CutRequested, LogDamaged
from kraftd.records.snapshot import encode_snapshot
from kraftd.runtime.log_checker import ASK_INTERVAL_MS, PAUSE_MS, LogChecker
from kraftd.storage import LogConfig, NodeDirectory, OsFileSystem, format_directory
from kraftd.storage.log_reader import DamagedReadError
from kraftd.types import NEVER_MS, Election, Now, OffsetAndEpoch
from tests.unit.storage.batches import batch, run_of

SIZE = len(batch(0))
SMALL = LogConfig(segment_bytes=4 * SIZE)


class World:
    """A started node; driver, raft node, worker and logger in one."""

    def __init__(self, folder: Path, *snapshots: int, damaged: tuple[int, ...] = ()) -> None:
        self.log_path = folder / "__cluster_metadata-0"
        self.folder = folder
        format_directory(OsFileSystem(), folder, cluster_id="c", node_id=1, directory_id=b"d" * 16, now_ms=1)
        directory = self.open()
        directory.write_election(Election(1))
        directory.log.append(run_of(0, 14), 0, 14)
        directory.log.flush()
        for offset in snapshots:
            writer = directory.snapshots.writer(OffsetAndEpoch(offset, 1))
            for piece in encode_snapshot([b"record"], 1, offset, last_contained_timestamp_ms=offset):
                writer.append(piece)
            writer.freeze()
        directory.close()
        for offset in damaged:
            self.damage(offset)
        self.events: list[Any] = []
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.applied = max(snapshots, default=0)
        self.pending = 0
        self.bad_snapshots: set[int] = set()
        self.agrees = True
        self.now_ms = 0
        self.directory = self.open()
        self.checker = LogChecker(
            self.directory,
            driver=self,  # type: ignore[arg-type]
            applied_offset=lambda: self.applied,
            is_usable=lambda snapshot_id: snapshot_id.offset not in self.bad_snapshots,
            worker=self,  # type: ignore[arg-type]
            logger=self,  # type: ignore[arg-type]
        )

    def open(self) -> NodeDirectory:
        return NodeDirectory.open(
            OsFileSystem(), self.folder, node_id=1, random_uuid=lambda: os.urandom(16), config=SMALL
        )

    def damage(self, offset: int) -> None:
        path = self.log_path / f"{offset - offset % 4:020}.log"
        data = bytearray(path.read_bytes())
        data[offset % 4 * SIZE + 70] ^= 1
        path.write_bytes(bytes(data))

    def deliver(self, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, CutRequested) and self.agrees:
            self.directory.cut_front(event.start)

    def submit(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.jobs.append((job, done))

    def warning(self, event: str, **values: Any) -> None:
        self.lines.append((event, values))

    def wake(self) -> None:
        pass

    def now(self) -> Now:
        return Now(self.now_ms, 0)

    def turn(self) -> None:
        self.checker.run(self.now())
        while self.jobs:
            job, done = self.jobs.pop(0)
            done(job())

    def run(self) -> None:
        """Let the time pass until nothing more is due."""
        self.turn()
        for _ in range(30):
            if self.checker.wake_at_ms() == NEVER_MS:
                break
            self.now_ms = max(self.now_ms, self.checker.wake_at_ms())
            self.turn()

    @property
    def is_read(self) -> bool:
        return self.directory.log.unread.next_check() is None

    def read(self, offset: int) -> None:
        """A cold read, which meets the damage there."""
        log = self.directory.log
        with pytest.raises(DamagedReadError) as raised:
            log.read(offset, 1)
        assert raised.value.damage is not None
        self.checker.damaged(log.generation, raised.value.damage)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., World]]:
    worlds = []

    def of(*snapshots: int, damaged: tuple[int, ...] = ()) -> World:
        worlds.append(World(tmp_path, *snapshots, damaged=damaged))
        return worlds[0]

    yield of
    for world in worlds:
        world.directory.close()


@pytest.mark.covers("D-23")
def test_all_that_was_taken_is_read_once_the_snapshot_is_applied(make: Callable[..., World]) -> None:
    world = make(9)
    world.applied = 3
    assert world.checker.wake_at_ms() == NEVER_MS
    world.run()
    assert (world.is_read, world.now_ms) == (False, 0)
    world.applied = 9
    world.run()
    assert world.is_read
    assert (world.events, world.lines, world.checker.wake_at_ms()) == ([], [], NEVER_MS)
    assert world.directory.log.start_offset == 0


@pytest.mark.covers("D-23", "D-24")
def test_it_waits_for_the_reads_of_others_and_pauses(make: Callable[..., World]) -> None:
    world = make(9)
    world.pending = 1
    world.checker.run(world.now())
    assert (world.jobs, world.checker.wake_at_ms()) == ([], PAUSE_MS)
    world.pending = 0
    world.now_ms = PAUSE_MS
    world.checker.run(world.now())
    assert (len(world.jobs), world.checker.wake_at_ms()) == (1, NEVER_MS)
    world.checker.run(world.now())
    assert len(world.jobs) == 1
    job, done = world.jobs.pop()
    done(job())
    assert world.checker.wake_at_ms() == 2 * PAUSE_MS


@pytest.mark.covers("D-22", "D-23")
@pytest.mark.parametrize(("damaged", "start", "left"), [((2,), 5, [4, 8, 12]), ((6,), 9, [8, 12])])
def test_damage_is_no_loss_and_one_line(
    make: Callable[..., World], damaged: tuple[int, ...], start: int, left: list[int]
) -> None:
    """The oldest snapshot that holds all of the damaged segment is enough."""
    world = make(5, 9, 13, damaged=damaged)
    world.run()
    log = world.directory.log
    assert world.events == [CutRequested(OffsetAndEpoch(start, 1))]
    assert (log.start_offset, log.end_offset, world.is_read) == (start, 14, True)
    assert [base for base, _, _ in log.segment_files] == left
    ((name, values),) = world.lines
    at = damaged[0] % 4 * SIZE
    assert name == "damage_below_snapshot"
    assert f".log at byte {at} (offset {damaged[0]}): the checksum is" in values["text"]
    assert values["text"].endswith(f"no loss: the log begins at the snapshot at offset {start} now")


@pytest.mark.covers("D-22", "D-23")
def test_each_damaged_segment_goes(make: Callable[..., World]) -> None:
    world = make(5, 9, 13, damaged=(1, 10))
    world.run()
    assert [event.start.offset for event in world.events] == [5, 13]
    assert (world.directory.log.start_offset, world.is_read, len(world.lines)) == (13, True, 2)


@pytest.mark.covers("D-22", "D-23")
def test_it_asks_until_the_raft_node_agrees(make: Callable[..., World]) -> None:
    """Somebody downloads an older snapshot, and needs the log behind it."""
    world = make(9, damaged=(2,))
    world.agrees = False
    for _ in range(8):
        world.turn()
        world.now_ms = min(world.checker.wake_at_ms(), world.now_ms + PAUSE_MS)
    assert (len(world.events), len(world.lines)) == (1, 1)
    world.agrees = True
    world.now_ms += ASK_INTERVAL_MS
    world.run()
    assert world.events == [CutRequested(OffsetAndEpoch(9, 1))] * 2
    assert (world.directory.log.start_offset, world.is_read, len(world.lines)) == (9, True, 1)


@pytest.mark.covers("D-22", "D-23")
def test_a_snapshot_that_is_gone_meanwhile_is_not_asked_for(make: Callable[..., World]) -> None:
    world = make(5, 9, damaged=(2,))
    world.agrees = False
    world.run()
    world.bad_snapshots, world.agrees = {5}, True
    world.now_ms += ASK_INTERVAL_MS
    world.run()
    assert world.events[-1] == CutRequested(OffsetAndEpoch(9, 1))
    assert (world.directory.log.start_offset, world.is_read, len(world.lines)) == (9, True, 1)


@pytest.mark.covers("D-06", "D-15", "D-23")
def test_a_read_that_meets_it_first_is_treated_alike(make: Callable[..., World]) -> None:
    world = make(9, 13, damaged=(2,))
    for _ in range(2):
        world.read(2)
    world.run()
    assert (world.events, len(world.lines)) == ([CutRequested(OffsetAndEpoch(9, 1))], 1)
    world.damage(12)
    world.read(12)
    loss = world.events.pop()
    assert isinstance(loss, LogDamaged)
    assert loss.generation == 0
    assert "at byte 0 (offset 12): the checksum is" in loss.damage


@pytest.mark.covers("D-22", "D-23")
def test_a_segment_that_goes_while_it_is_read_is_let_go_of_and_read_no_further(
    make: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraftd.storage.unread_segments.SegmentCheck.advance.__defaults__", (1,))
    world = make(5, 13)
    world.turn()
    assert world.checker.wake_at_ms() == PAUSE_MS, "one batch of four is read"
    world.directory.cut_front(OffsetAndEpoch(5, 1))
    assert world.directory.take_removal().handles == (), "it is still read"
    world.applied = 7
    world.now_ms = PAUSE_MS
    world.turn()
    assert len(world.directory.take_removal().handles) == 1
    assert world.checker.wake_at_ms() == NEVER_MS, "what the next one holds is not applied"
    world.applied = 13
    world.run()
    assert world.is_read


@pytest.mark.covers("D-15", "D-22")
def test_what_was_cut_meanwhile_is_no_damage(make: Callable[..., World]) -> None:
    """A read holds the file of a segment that is not the log's any more."""
    world = make(9, damaged=(2,))
    view = world.directory.log.reader_view().pin()
    world.directory.cut_front(OffsetAndEpoch(9, 1))
    with pytest.raises(DamagedReadError) as raised:
        view.read(2, 1)
    view.release()
    assert raised.value.damage is not None
    world.checker.damaged(0, raised.value.damage)
    assert (world.events, world.lines) == ([], [])


@pytest.mark.covers("D-03", "D-15")
def test_damage_of_a_log_that_was_truncated_meanwhile_is_told_as_such(make: Callable[..., World]) -> None:
    world = make(9, damaged=(2,))
    with pytest.raises(DamagedReadError) as raised:
        world.directory.log.read(2, 1)
    world.directory.log.truncate(13, 1)
    assert raised.value.damage is not None
    world.checker.damaged(0, raised.value.damage)
    assert world.events == [LogDamaged(0, str(raised.value.damage))]


@pytest.mark.covers("D-06", "D-23")
def test_a_snapshot_that_turned_out_bad_holds_nothing(make: Callable[..., World]) -> None:
    world = make(9, damaged=(2,))
    world.bad_snapshots = {9}
    world.run()
    assert [type(event) for event in world.events] == [LogDamaged]
    assert (world.directory.log.start_offset, world.lines, world.checker.wake_at_ms()) == (0, [], NEVER_MS)
