"""The guard of a directory: when it looks, what it waits for, and what it does about a loss. A real disk."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kraftd.raft.events import LogDamaged
from kraftd.records.batch import encode_batch
from kraftd.runtime.guard import CHECK_INTERVAL_MS, RESIGN_MS, Guard
from kraftd.runtime.worker import Worker
from kraftd.storage import NodeDirectory, OsFileSystem, StorageFailure, format_directory
from kraftd.types import Now, OffsetAndEpoch, uuid_text


class Mount(OsFileSystem):
    """A real disk that may hang when it is asked for a name."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()
        self.answers.set()
        self.asked = 0

    def is_at(self, path: Path, handle: int) -> bool:
        self.asked += 1
        self.answers.wait(10)
        return super().is_at(path, handle)


class World:
    """Driver and raft node in one, and a clock that the test sets."""

    def __init__(self, folder: Path) -> None:
        self.is_leader = False
        self.at_ms = 5_000
        self.events: list[Any] = []
        self.mount = Mount()
        format_directory(
            self.mount,
            folder,
            cluster_id=uuid_text(os.urandom(16)),
            node_id=1,
            directory_id=os.urandom(16),
            now_ms=1,
        )
        self.directory = NodeDirectory.open(self.mount, folder, node_id=1, random_uuid=lambda: os.urandom(16))
        self.worker = Worker(asyncio.get_running_loop(), "read")
        self.guard = Guard(self.directory, self, self, self.worker)

    def now(self) -> Now:
        return Now(self.at_ms, self.at_ms)

    def deliver(self, event: Any) -> None:
        self.events.append(event)

    def look(self) -> None:
        """Let the time of a look come, and take what it found."""
        self.at_ms = max(self.at_ms, self.guard.wake_at_ms())
        self.guard.run(self.now())
        self.worker.drain()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "node")
    yield world
    world.mount.answers.set()
    world.worker.stop()
    world.directory.abandon()


async def test_it_looks_less_than_a_second_apart_and_not_more_often(world: World) -> None:
    world.look()
    asked = world.mount.asked
    assert asked > 0
    assert world.guard.wake_at_ms() == world.at_ms + CHECK_INTERVAL_MS
    world.guard.run(world.now())
    assert world.mount.asked == asked
    world.look()
    assert world.mount.asked == 2 * asked
    assert CHECK_INTERVAL_MS < 1_000


async def test_from_seven_tenths_of_a_second_on_it_looks_in_a_turn_that_comes_anyway(world: World) -> None:
    world.look()
    asked = world.mount.asked
    for later_ms, looks in ((600, 1), (99, 1), (1, 2), (699, 2), (1, 3)):
        world.at_ms += later_ms
        world.guard.run(world.now())
        world.worker.drain()
        assert world.mount.asked == looks * asked


async def test_a_mount_that_hangs_hangs_the_look_alone_and_is_asked_once(world: World) -> None:
    world.mount.answers.clear()
    for _ in range(5):
        world.at_ms = max(world.at_ms, world.guard.wake_at_ms())
        world.guard.run(world.now())
    assert world.worker.pending == 1
    assert world.guard.wake_at_ms() > world.at_ms, "the loop does not spin meanwhile"
    world.mount.answers.set()
    world.worker.drain()
    world.look()
    assert world.events == []


async def test_a_lock_that_is_lost_ends_the_process_even_of_a_leader_at_once(world: World) -> None:
    world.is_leader = True
    (world.directory.path / ".lock").unlink()
    with pytest.raises(StorageFailure, match="another process may use the directory"):
        world.look()
    assert world.events == []


async def test_a_leader_whose_log_is_gone_says_goodbye_and_ends(world: World) -> None:
    world.is_leader = True
    world.directory.path.rename(world.directory.path.with_name("elsewhere"))
    world.look()
    (event,) = world.events
    assert isinstance(event, LogDamaged)
    assert event.generation == world.directory.log.generation
    assert world.guard.wake_at_ms() == world.at_ms + RESIGN_MS
    world.guard.run(world.now())
    world.at_ms += RESIGN_MS
    with pytest.raises(StorageFailure, match="nothing that it writes is kept"):
        world.guard.run(world.now())


async def test_who_has_nothing_to_hand_over_ends_at_once(world: World) -> None:
    world.directory.path.rename(world.directory.path.with_name("elsewhere"))
    with pytest.raises(StorageFailure, match="nothing that it writes is kept"):
        world.look()
    assert world.events == []


async def test_a_cut_while_it_looks_is_no_loss(world: World) -> None:
    """The look was begun before the cut and its response comes after: the segment is gone in all order."""
    world.mount.answers.clear()
    world.guard.run(world.now())
    world.directory.log.truncate(0, world.directory.log.generation + 1)
    for segment in (world.directory.path / "__cluster_metadata-0").glob("*.log"):
        segment.rename(segment.with_suffix(".kept"))
    world.mount.answers.set()
    world.worker.drain()
    assert world.events == []


@pytest.mark.covers("D-22")
async def test_nor_is_a_segment_that_was_active_when_it_began_to_look(world: World) -> None:
    """Meanwhile the log has rolled, and was cut behind it."""
    log = world.directory.log
    log.append([encode_batch(0, 1, 1, [b"value"])], 0, 1)
    world.mount.answers.clear()
    world.guard.run(world.now())
    log.roll_at(1, log.end_offset)
    log.flush()
    log.cut_front(OffsetAndEpoch(1, 1))
    log.take_removal().run()
    world.mount.answers.set()
    world.worker.drain()
    assert world.events == []
