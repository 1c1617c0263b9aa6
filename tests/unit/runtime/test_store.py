"""The store behind the effects: group commit, generations, truncation behind a flush. A real disk."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kraftd.raft.effects import Append, ColdRead, Flush
from kraftd.raft.events import BatchesRead, LogDamaged, LogFlushed
from kraftd.records.batch import encode_batch
from kraftd.records.snapshot import encode_snapshot
from kraftd.runtime.driver import read_clocks
from kraftd.runtime.raft_metrics import RaftMetrics
from kraftd.runtime.store import RECOVERY_POINT_INTERVAL_MS, DirectoryStore, StoreFindings
from kraftd.runtime.worker import Worker
from kraftd.storage import Disk, NodeDirectory, OsFileSystem, format_directory
from kraftd.storage.sidecar import read_sidecar
from kraftd.types import Now, OffsetAndEpoch, uuid_text


class SlowDisk(OsFileSystem):
    """A real disk whose syncs wait until the test lets them go."""

    def __init__(self) -> None:
        super().__init__()
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.syncs = 0

    def fdatasync(self, handle: int) -> None:
        self.may_sync.wait(10)
        self.syncs += 1
        super().fdatasync(handle)


class World:
    """Driver and raft node in one."""

    is_leader = True
    high_watermark = 0
    at_ms: int | None = None
    """What a test's clock shows; None for the machine's."""

    def __init__(self, folder: Path) -> None:
        loop = asyncio.get_running_loop()
        self.events: list[Any] = []
        self.happened = asyncio.Event()
        self.disk = SlowDisk()
        format_directory(
            self.disk,
            folder,
            cluster_id=uuid_text(os.urandom(16)),
            node_id=1,
            directory_id=os.urandom(16),
            now_ms=1,
        )
        self.directory = NodeDirectory.open(self.disk, folder, node_id=1, random_uuid=lambda: os.urandom(16))
        self.workers = Worker(loop, "flush"), Worker(loop, "read")
        self.store = DirectoryStore(
            self.directory,
            self,
            self,
            RaftMetrics(0),
            StoreFindings(
                lambda generation, damage: self.deliver(LogDamaged(generation, str(damage))),
                lambda problems: self.deliver(tuple(problems)),
            ),
            flush_worker=self.workers[0],
            read_worker=self.workers[1],
        )

    def now(self) -> Now:
        return read_clocks() if self.at_ms is None else Now(self.at_ms, self.at_ms)

    def deliver(self, event: Any) -> None:
        self.events.append(event)
        self.happened.set()

    def wake(self) -> None:
        self.happened.set()

    def append(self, base: int) -> None:
        self.store.append(Append(base, base + 1, [encode_batch(base, 1, 1, [b"value"])]))

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.events) < count:
                self.happened.clear()
                self.store.submit_flush()
                await self.happened.wait()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "node")
    yield world
    world.disk.may_sync.set()
    for worker in world.workers:
        worker.drain()
        worker.stop()
    world.directory.close()


@pytest.mark.covers("D-03")
async def test_whatever_is_appended_while_a_flush_runs_goes_with_the_next_one(world: World) -> None:
    world.disk.may_sync.clear()
    world.append(0)
    world.store.start_flush(Flush(0, 1))
    world.store.submit_flush()
    for base in (1, 2, 3):
        world.append(base)
        world.store.start_flush(Flush(0, base + 1))
    assert world.events == []
    world.disk.may_sync.set()
    await world.until(2)
    assert world.events == [LogFlushed(0, 1), LogFlushed(0, 4)], "three appends, one flush"


@pytest.mark.covers("D-05")
async def test_who_writes_every_half_second_needs_no_flush_for_the_recovery_point_alone(world: World) -> None:
    for base in range(4):
        world.at_ms = 10_000 + 500 * base
        world.append(base)
        world.store.start_flush(Flush(0, base + 1))
        await world.until(base + 1)
        assert world.at_ms + 500 < world.store.wake_at_ms() <= world.at_ms + RECOVERY_POINT_INTERVAL_MS


@pytest.mark.covers("D-05")
async def test_who_writes_all_the_time_syncs_the_recovery_point_once_a_second(world: World) -> None:
    """One more sync in many a flush would be one more that a client waits for."""
    due_ms = []
    for number in range(25):
        world.at_ms = 10_000 + 100 * number
        world.append(number)
        world.store.start_flush(Flush(0, number + 1))
        await world.until(number + 1)
        due_ms.append(world.store.wake_at_ms())
    assert due_ms == [11_000] * 10 + [12_000] * 10 + [13_000] * 5


@pytest.mark.covers("D-05", "LOG-11")
async def test_where_an_epoch_begins_is_on_disk_before_its_flush_counts_and_after_the_sockets(
    world: World,
) -> None:
    checkpoint = world.directory.path / "__cluster_metadata-0" / "leader-epoch-checkpoint"
    world.disk.may_sync.clear()
    world.store.assign_epoch(1, 0)
    world.append(0)
    world.store.start_flush(Flush(0, 1))
    assert not checkpoint.exists(), "what the turn has to send goes first"
    world.store.submit_flush()
    assert checkpoint.read_text() == "0\n1\n1 0\n"
    assert world.events == []
    world.disk.may_sync.set()
    await world.until(1)


@pytest.mark.covers("D-03")
async def test_a_truncation_waits_for_the_running_flush_and_voids_it(world: World) -> None:
    for base in range(3):
        world.append(base)
    world.disk.may_sync.clear()
    world.store.start_flush(Flush(0, 3))
    world.store.submit_flush()
    threading.Timer(0.05, world.disk.may_sync.set).start()
    world.store.truncate(1, 1)
    assert world.directory.log.end_offset == 1
    assert world.directory.log.flushed_offset == 1
    assert world.events == [LogFlushed(0, 3)], "its generation tells the core that it is void"
    world.store.start_flush(Flush(1, 1))
    await world.until(2)
    assert world.events[1] == LogFlushed(1, 1)


@pytest.mark.covers("D-15")
async def test_a_cold_read_comes_back_with_its_generation(world: World) -> None:
    for base in range(4):
        world.append(base)
    world.store.start_read(ColdRead(7, 0, 2, 1 << 20))
    await world.until(1)
    read = world.events[0]
    assert isinstance(read, BatchesRead)
    assert (read.token, read.generation) == (7, 0)
    assert read.records == encode_batch(2, 1, 1, [b"value"]) + encode_batch(3, 1, 1, [b"value"])


@pytest.mark.covers("D-14", "D-15")
async def test_a_cold_read_that_raced_with_a_truncation_is_empty_not_fatal(world: World) -> None:
    world.append(0)
    world.store.start_read(ColdRead(7, 0, 5, 1 << 20))
    await world.until(1)
    assert world.events == [BatchesRead(7, 0, b"")]


@pytest.mark.covers("D-06", "D-14")
async def test_a_cold_read_of_rotten_bytes_gives_none_of_them_and_tells_of_the_damage(world: World) -> None:
    for base in range(4):
        world.append(base)
    path, size = rot(world)
    world.store.start_read(ColdRead(7, 0, 2, 1 << 20))
    await world.until(2)
    damaged, read = world.events
    assert isinstance(damaged, LogDamaged)
    assert f"{path} at byte {2 * size} (offset 2): the checksum is" in damaged.damage
    assert (damaged.generation, read) == (0, BatchesRead(7, 0, b""))


@pytest.mark.covers("D-03", "D-06")
async def test_damage_is_told_of_the_log_in_which_it_was_read(world: World) -> None:
    """What was cut meanwhile is not damage of the log as it is now: its voter would be out for nothing."""
    for base in range(4):
        world.append(base)
    rot(world)
    was_read = threading.Event()
    world.store.start_read(ColdRead(7, 0, 2, 1 << 20))
    world.workers[1].submit(was_read.set, lambda _: None)
    assert was_read.wait(10)
    world.store.truncate(2, 1)
    await world.until(2)
    damaged, _ = world.events
    assert isinstance(damaged, LogDamaged)
    assert damaged.generation == 0


@pytest.mark.covers("D-06", "D-18")
async def test_the_state_machine_meets_damage_in_the_same_way(world: World) -> None:
    for base in range(4):
        world.append(base)
    rot(world)
    given: list[bytes] = []
    world.store.read_cold(2, 1 << 20, given.append)
    await world.until(1)
    assert isinstance(world.events[0], LogDamaged)
    assert given == [b""]


def rot(world: World) -> tuple[Path, int]:
    """Flip a bit in the third of the batches; says where they are, and how long each is."""
    path = world.directory.log.segment_files[0][1]
    size = len(encode_batch(0, 1, 1, [b"value"]))
    with path.open("r+b") as file:
        file.seek(3 * size - 3)
        byte = file.read(1)
        file.seek(3 * size - 3)
        file.write(bytes([byte[0] ^ 1]))
    return path, size


@pytest.mark.covers("D-05")
async def test_at_idle_the_flushed_offset_is_made_durable_where_it_is_kept(world: World) -> None:
    world.append(0)
    world.store.start_flush(Flush(0, 1))
    await world.until(1)
    world.append(1)
    world.store.start_flush(Flush(0, 2))
    await world.until(2)
    due_ms = world.store.wake_at_ms()
    assert due_ms < 1 << 62
    world.happened.clear()
    syncs = world.disk.syncs
    world.store.run(Now(due_ms, due_ms))
    world.store.submit_flush()
    await world.happened.wait()
    assert world.disk.syncs > syncs
    assert world.store.wake_at_ms() == 1 << 62, "once, and then it is quiet"


@pytest.mark.covers("D-02", "D-05")
async def test_a_flush_that_is_wanted_while_the_store_syncs_for_itself_is_reported(world: World) -> None:
    """The core waits for it: a follower fetches no more, and a lone voter commits nothing, before it ends."""
    for base in range(2):
        world.append(base)
        world.store.start_flush(Flush(0, base + 1))
        await world.until(base + 1)
    world.disk.may_sync.clear()
    due_ms = world.store.wake_at_ms()
    world.store.run(Now(due_ms, due_ms))
    world.store.submit_flush()
    world.append(2)
    world.store.start_flush(Flush(0, 3))
    world.disk.may_sync.set()
    await world.until(3)
    assert world.events == [LogFlushed(0, 1), LogFlushed(0, 2), LogFlushed(0, 3)]


@pytest.mark.covers("D-03")
async def test_at_the_end_no_flush_is_left_begun(world: World) -> None:
    world.append(0)
    world.store.start_flush(Flush(0, 1))
    world.append(1)
    world.store.start_flush(Flush(0, 2))
    world.store.drain()
    world.directory.log.flush()
    assert world.directory.log.flushed_offset == 2


@pytest.mark.covers("D-23")
async def test_what_is_committed_is_written_down_with_the_flushes(world: World) -> None:
    """Also the end of it, which is known only after its own flush, with the recovery point."""
    world.append(0)
    world.store.start_flush(Flush(0, 1))
    world.store.submit_flush()
    await world.until(1)
    world.high_watermark = 1
    world.store.run(Now(world.now().mono_ms + RECOVERY_POINT_INTERVAL_MS, 0))
    world.store.drain()
    state = read_sidecar(Disk(world.disk), world.directory.path / "kraftd.state").state
    assert state is not None
    assert state.high_watermark == 1


@pytest.mark.covers("D-22")
async def test_a_cold_read_holds_its_files_until_it_has_ended(world: World) -> None:
    """The log is cut meanwhile, and what was cut is removed: the read has it all the same."""
    log = world.directory.log
    for base in range(4):
        world.append(base)
        log.roll_at(1, log.end_offset)
    log.flush()
    reads: list[bytes] = []
    world.store.read_cold(0, 1 << 20, reads.append)
    log.cut_front(OffsetAndEpoch(3, 1))
    assert world.directory.take_removal().handles == ()
    world.workers[1].drain()
    assert reads == [encode_batch(0, 1, 1, [b"value"])]
    removal = world.directory.take_removal()
    assert len(removal.handles) == 3
    assert removal.run() == ()


@pytest.mark.covers("CLN-01")
async def test_what_a_cut_cannot_remove_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    for base in range(3):
        world.append(base)
        world.directory.log.roll_at(1, world.directory.log.end_offset)
    world.directory.log.flush()
    snapshot_id = OffsetAndEpoch(2, 1)
    writer = world.directory.snapshots.writer(snapshot_id)
    for piece in encode_snapshot([b"record"], 1, 1, last_contained_timestamp_ms=1):
        writer.append(piece)
    world.directory.add_snapshot(writer.freeze())
    monkeypatch.setattr(world.disk, "unlink", refuse, raising=False)
    world.store.cut_log(snapshot_id)
    await world.happened.wait()
    (problems,) = world.events
    assert problems
    assert all(text.endswith("unlink failed: Operation not permitted") for text in problems)
