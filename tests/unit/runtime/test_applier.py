"""Committed batches reach the state machine once, in order, in slices, from memory or from the store."""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest

from kraftd.raft.effects import LeaderChanged
from kraftd.raft.events import Applied, ApplyStuck
from kraftd.records.batch import encode_batch, encode_control_batch
from kraftd.records.committed import CommittedBatch
from kraftd.runtime.applier import Applier
from kraftd.runtime.committed_log import CommittedLog
from kraftd.storage.snapshots import SnapshotInfo
from kraftd.types import NEVER_MS, Now, OffsetAndEpoch

NOW = Now(1, 1)


class Machine:
    def __init__(self) -> None:
        self.applied: list[CommittedBatch] = []
        self.leaders: list[tuple[int, int, bool]] = []
        self.restored: list[OffsetAndEpoch] = []

    def apply(self, batch: CommittedBatch) -> None:
        self.applied.append(batch)

    def leader_changed(self, epoch: int, leader_id: int, *, is_self: bool) -> None:
        self.leaders.append((epoch, leader_id, is_self))

    def restore(self, at: OffsetAndEpoch) -> Any:
        raise NotImplementedError


class Loader:
    """Loads a snapshot in so many steps."""

    stuck_reason = ""
    alarms = ()
    percent = 0
    retry_at_ms = NEVER_MS

    def __init__(self, steps: int = 0) -> None:
        self.steps = steps
        self.is_loading = False
        self.loaded: Callable[[SnapshotInfo], None]

    def load(self, snapshot_id: OffsetAndEpoch, machine: Machine, offset: int, loaded: Any) -> None:
        self.is_loading, self.loaded = True, partial(loaded, SnapshotInfo(snapshot_id, 1, 1_234))
        self.machine, self.id = machine, snapshot_id

    def retry(self) -> None:
        self.is_loading, self.stuck_reason, self.retry_at_ms = True, "", NEVER_MS

    def get_stuck(self, retry_at_ms: int) -> None:
        """Nothing that is there leads to a state."""
        self.is_loading, self.stuck_reason, self.retry_at_ms = False, "no snapshot can be read", retry_at_ms

    def step(self) -> bool:
        self.steps -= 1
        if self.steps > 0:
            return True
        self.is_loading = False
        self.machine.restored.append(self.id)
        self.loaded()  # type: ignore[call-arg]
        return False


class World:
    """Log and driver in one: memory holds the batches from `memory_from` on."""

    def __init__(self, size: int, *, memory_from: int = 0, records: int = 1) -> None:
        """A log of so many batches, each of so many records."""
        self.records = records
        self.batches = [
            encode_batch(number * records, 1, 1_000 + number, [b"v%d" % number] * records)
            for number in range(size)
        ]
        self.memory_from = memory_from
        self.portion = 2
        """So many batches come together from memory, and one more from the disk."""
        self.high_watermark = size * records
        self.events: list[Any] = []
        self.wakes = 0
        self.turns = 0
        self.waiting: list[Callable[[], None]] = []
        self.done: list[Callable[[bytes], None]] = []
        """Who is told of what was read, for tests that say what that is."""

    def take_values(self, base_offset: int) -> None:
        """Nothing is at hand: every batch is read."""

    def committed_batches(self, from_offset: int, max_bytes: int) -> list[bytes] | None:
        at = from_offset // self.records
        return self.batches[at : at + self.portion] if from_offset >= self.memory_from else None

    def read_cold(self, offset: int, max_bytes: int, done: Callable[[bytes], None]) -> None:
        self.done.append(done)
        at = offset // self.records
        self.waiting.append(lambda: done(b"".join(self.batches[at : at + self.portion + 1])))

    def deliver(self, event: Any) -> None:
        self.events.append(event)

    def wake(self) -> None:
        self.wakes += 1


def applier(
    world: World, machine: Machine, loader: Loader | None = None, clock_ns: Callable[[], int] = lambda: 0
) -> Applier:
    log = CommittedLog(world, world)
    return Applier(1, machine, log, loader or Loader(), world, lambda *_: None, clock_ns=clock_ns)


@pytest.mark.covers("D-18", "LSN-07")
def test_batches_are_applied_up_to_the_high_watermark_and_no_further() -> None:
    world, machine = World(9), Machine()
    feeder = applier(world, machine)
    feeder.commit(5)
    feeder.run(NOW)
    assert [batch.base_offset for batch in machine.applied] == [0, 1, 2, 3, 4]
    assert machine.applied[3] == CommittedBatch(3, 4, 1, 1_003, [b"v3"], len(world.batches[3]))
    assert world.events == [Applied(5)]
    feeder.commit(3)
    feeder.run(NOW)
    assert len(machine.applied) == 5, "the high watermark never goes back"


@pytest.mark.covers("D-18", "LSN-07", "HWM-15")
def test_of_what_was_read_from_the_disk_only_the_committed_is_applied() -> None:
    """A read gives whole batches, three of them here, and one is committed."""
    world, machine = World(9, memory_from=9), Machine()
    feeder = applier(world, machine)
    feeder.commit(1)
    feeder.run(NOW)
    world.waiting.pop()()
    world.turns += 1
    feeder.run(NOW)
    assert [batch.base_offset for batch in machine.applied] == [0]
    assert feeder.applied_offset == 1


@pytest.mark.covers("D-15", "D-18")
def test_what_was_committed_only_while_the_disk_was_read_is_read_again() -> None:
    """What was read above it may have been truncated meanwhile, and what is committed there be another."""
    world, machine = World(3, memory_from=9), Machine()
    feeder = applier(world, machine)
    world.high_watermark = 1
    feeder.commit(1)
    feeder.run(NOW)
    read_before = b"".join(world.batches)
    world.batches[1:] = [encode_batch(offset, 2, 5, [b"other"]) for offset in (1, 2)]
    world.high_watermark = 3
    feeder.commit(3)
    world.done.pop()(read_before)
    world.waiting.clear()
    for _ in range(3):
        world.turns += 1
        feeder.run(NOW)
        if world.waiting:
            world.waiting.pop()()
    assert [(batch.base_offset, batch.epoch) for batch in machine.applied] == [(0, 1), (1, 2), (2, 2)]
    assert not feeder.stuck_reason


@pytest.mark.covers("D-18", "HWM-15")
def test_a_batch_of_the_disk_that_is_committed_in_part_waits_and_is_no_damage() -> None:
    world, machine = World(0, memory_from=9), Machine()
    world.batches = [encode_batch(0, 1, 5, [b"a", b"b", b"c"])]
    feeder = applier(world, machine)
    for committed in (2, 3):
        world.high_watermark = committed
        feeder.commit(committed)
        for _ in range(2):
            world.turns += 1
            feeder.run(NOW)
            while world.waiting:
                world.waiting.pop()()
    assert not feeder.stuck_reason
    assert [batch.end_offset for batch in machine.applied] == [3]


@pytest.mark.covers("D-18", "LSN-07", "HWM-15")
def test_a_batch_that_is_not_committed_to_its_end_waits() -> None:
    world, machine = World(0), Machine()
    world.batches = [encode_batch(0, 1, 5, [b"a", b"b", b"c"])]
    feeder = applier(world, machine)
    feeder.commit(2)
    feeder.run(NOW)
    assert machine.applied == []
    feeder.commit(3)
    feeder.run(NOW)
    assert [batch.end_offset for batch in machine.applied] == [3]


@pytest.mark.covers("D-18", "LSN-07")
def test_a_control_batch_is_a_batch_without_records() -> None:
    world, machine = World(0), Machine()
    world.batches = [encode_control_batch(0, 1, 5, [(2, b"\x00\x00")])]
    feeder = applier(world, machine)
    feeder.commit(1)
    feeder.run(NOW)
    assert machine.applied[0].records == ()


@pytest.mark.covers("D-16")
def test_a_long_log_is_applied_over_many_turns_also_if_a_turn_comes_back_to_it() -> None:
    """The core reacts to `Applied` within the turn, and the turn then asks each task again."""
    world, machine = World(7), Machine()
    ticks_ns = count(0, 20_000_000)
    feeder = applier(world, machine, clock_ns=lambda: next(ticks_ns))
    feeder.commit(7)
    for applied in range(1, 7):
        world.turns += 1
        for _ in range(3):
            feeder.run(NOW)
        assert world.events[-1] == Applied(applied)
        assert [batch.base_offset for batch in machine.applied] == list(range(applied))
        assert world.wakes == applied, "one more turn, after the sockets were read"
    world.turns += 1
    feeder.run(NOW)
    assert world.events[-1] == Applied(7)
    assert world.wakes == 6


@pytest.mark.covers("D-16")
@pytest.mark.parametrize("memory_from", [0, 1_000_000], ids=["from memory", "from the disk"])
@pytest.mark.parametrize(("records", "record_us"), [(1, 3), (1, 3_000), (100, 30), (256, 30)])
def test_a_turn_ends_between_two_batches_that_came_together(
    memory_from: int, records: int, record_us: int
) -> None:
    """What came with it is kept for the next turn, and is not read again. One record may remove a topic."""
    world = World(300, memory_from=memory_from, records=records)
    world.portion = 100
    now_ns = longest_ns = reads = 0

    class Slow(Machine):
        def apply(self, batch: CommittedBatch) -> None:
            nonlocal now_ns
            now_ns += 1_000 * record_us * len(batch.records)
            super().apply(batch)

    machine = Slow()
    feeder = applier(world, machine, clock_ns=lambda: now_ns)
    feeder.commit(300 * records)
    while feeder.applied_offset < 300 * records:
        while world.waiting:
            world.waiting.pop()()
            reads += 1
        world.turns += 1
        began_ns = now_ns
        feeder.run(NOW)
        longest_ns = max(longest_ns, now_ns - began_ns)
    assert [batch.base_offset for batch in machine.applied] == [records * number for number in range(300)]
    assert longest_ns <= 10_000_000
    assert reads == (3 if memory_from else 0), "101 batches a read"


@pytest.mark.covers("D-15", "LSN-08")
def test_what_is_no_longer_in_memory_is_read_from_the_store_one_slice_at_a_time() -> None:
    world, machine = World(8, memory_from=6), Machine()
    feeder = applier(world, machine)
    feeder.commit(8)
    feeder.run(NOW)
    assert machine.applied == []
    feeder.run(NOW)
    assert len(world.waiting) == 1, "one read at a time"
    for _ in range(4):
        if world.waiting:
            world.waiting.pop()()
        feeder.run(NOW)
    assert [batch.base_offset for batch in machine.applied] == list(range(8))
    assert world.events[-1] == Applied(8)


def test_a_committed_offset_that_cannot_be_read_stops_the_image_and_says_so() -> None:
    world, machine = World(8, memory_from=6), Machine()
    feeder = applier(world, machine)
    feeder.commit(8)
    feeder.run(NOW)
    world.batches = []
    world.waiting.pop()()
    feeder.run(NOW)
    assert "offset 0" in feeder.stuck_reason
    assert world.waiting == []


@pytest.mark.covers("D-18")
def test_an_exception_of_the_machine_is_not_caught() -> None:
    class Broken(Machine):
        def apply(self, batch: CommittedBatch) -> None:
            raise ValueError("this record makes no sense")

    feeder = applier(World(1), Broken())
    feeder.commit(1)
    with pytest.raises(ValueError, match="no sense"):
        feeder.run(NOW)


@pytest.mark.covers("LSN-11")
def test_the_machine_hears_whether_it_is_the_leader() -> None:
    machine = Machine()
    feeder = applier(World(0), machine)
    feeder.leader_changed(LeaderChanged(4, 2))
    feeder.leader_changed(LeaderChanged(5, 1))
    assert machine.leaders == [(4, 2, False), (5, 1, True)]


# --- snapshots ----------------------------------------------------------------------------------------------


@pytest.mark.covers("D-23", "LSN-02", "LSN-03")
def test_the_log_goes_on_where_the_snapshot_ends_though_all_of_it_is_there() -> None:
    world, machine = World(9), Machine()
    feeder = applier(world, machine, Loader(3))
    feeder.load_snapshot(OffsetAndEpoch(6, 1))
    feeder.commit(8)
    feeder.run(NOW)
    assert machine.restored == [OffsetAndEpoch(6, 1)]
    assert world.events == [Applied(6)]
    assert (feeder.applied_offset, feeder.applied_timestamp_ms) == (6, 1_234)
    feeder.run(NOW)
    assert [batch.base_offset for batch in machine.applied] == [6, 7]
    assert world.events[-1] == Applied(8)


@pytest.mark.covers("D-16", "D-23")
def test_while_a_snapshot_is_restored_nothing_is_applied_and_nobody_is_told_anything() -> None:
    world, machine = World(9), Machine()
    ticks_ns = count(0, 3_000_000)
    feeder = applier(world, machine, Loader(5), clock_ns=lambda: next(ticks_ns))
    feeder.commit(8)
    feeder.load_snapshot(OffsetAndEpoch(6, 1))
    for _ in range(2):
        world.turns += 1
        for _ in range(3):
            feeder.run(NOW)
        assert (world.events, machine.applied, feeder.applied_offset) == ([], [], 0)
    world.turns += 1
    feeder.run(NOW)
    assert world.events == [Applied(6)]


@pytest.mark.covers("D-18", "D-23")
def test_a_read_that_began_before_a_load_wakes_whoever_waited_for_it() -> None:
    """A snapshot is loaded meanwhile. No reader is asked twice, so the log behind it waits for this one."""
    world, machine = World(9, memory_from=9), Machine()
    feeder = applier(world, machine, Loader(1))
    feeder.commit(9)
    feeder.run(NOW)
    feeder.load_snapshot(OffsetAndEpoch(6, 1))
    world.turns += 1
    feeder.run(NOW)
    world.turns += 1
    feeder.run(NOW)
    assert len(world.waiting) == 1
    wakes = world.wakes
    world.waiting.pop()()
    assert world.wakes > wakes
    world.turns += 1
    feeder.run(NOW)
    world.waiting.pop()()
    world.turns += 1
    feeder.run(NOW)
    assert [batch.base_offset for batch in machine.applied] == [6, 7, 8]


@pytest.mark.covers("D-23")
def test_a_snapshot_that_could_not_be_read_is_tried_again_when_its_time_has_come() -> None:
    world, machine, loader = World(10), Machine(), Loader(steps=2)
    one = applier(world, machine, loader)
    one.load_snapshot(OffsetAndEpoch(4, 1))
    one.commit(10)
    loader.get_stuck(retry_at_ms=1_001)
    assert one.wake_at_ms() == 1_001

    one.run(Now(1_000, 1))
    assert not machine.restored
    one.run(Now(1_001, 1))

    assert machine.restored == [OffsetAndEpoch(4, 1)]
    assert one.wake_at_ms() == NEVER_MS


@pytest.mark.covers("D-23")
def test_the_raft_node_is_told_each_time_that_nothing_leads_to_a_state() -> None:
    world, machine, loader = World(10), Machine(), Loader(steps=2)
    one = applier(world, machine, loader)
    one.load_snapshot(OffsetAndEpoch(4, 1))
    one.commit(10)
    for time_ms in (1_001, 2_001):
        world.events.clear()
        loader.get_stuck(retry_at_ms=time_ms)
        for now_ms in (time_ms - 2, time_ms - 1):
            one.run(Now(now_ms, 1))
        assert world.events == [ApplyStuck()]
        one.run(Now(time_ms, 1))  # it is tried again


@pytest.mark.covers("LSN-06")
@pytest.mark.parametrize("when", ["while it is restored", "behind it"])
def test_what_was_read_of_the_log_before_a_snapshot_counts_nothing_after_it(when: str) -> None:
    """What node 3 had above 4 was another leader's, and went when the snapshot was installed."""
    world, machine = World(8, memory_from=8), Machine()
    feeder = applier(world, machine, Loader(1))
    feeder.commit(7)
    feeder.run(NOW)
    (read,) = world.waiting
    world.waiting.clear()
    world.batches = [encode_batch(offset, 2, 5, [b"other"]) for offset in range(8)]
    feeder.load_snapshot(OffsetAndEpoch(1, 2))
    if when == "behind it":
        feeder.run(NOW)
    feeder._cold_read(0, [CommittedBatch(offset, offset + 1, 1, 5, [b"old"]) for offset in range(8)])
    del read
    for _ in range(9):
        world.turns += 1
        feeder.run(NOW)
        if world.waiting:
            world.waiting.pop()()
    assert [batch.base_offset for batch in machine.applied] == [1, 2, 3, 4, 5, 6]
    assert {batch.epoch for batch in machine.applied} == {2}
    assert not feeder.stuck_reason


@pytest.mark.covers("SNAP-01", "SNAP-02")
def test_who_makes_snapshots_is_shown_what_is_committed_behind_the_one_that_was_loaded_and_no_more() -> None:
    world, machine, shown = World(9), Machine(), []  # type: ignore[var-annotated]
    log = CommittedLog(world, world)
    feeder = Applier(
        1, machine, log, Loader(1), world, lambda *_: None, clock_ns=lambda: 0, applied=shown.append
    )
    feeder.load_snapshot(OffsetAndEpoch(3, 1))
    feeder.commit(6)
    for _ in range(3):
        world.turns += 1
        feeder.run(NOW)
    assert [batch.end_offset for batch in shown] == [4, 5, 6]


def restored(world: World, machine: Machine) -> tuple[Applier, list[int]]:
    """A feeder that has loaded a snapshot at offset 3, and at which offsets it said that it has caught up."""
    told: list[int] = []
    feeder = Applier(
        1,
        machine,
        CommittedLog(world, world),
        Loader(1),
        world,
        lambda *_: None,
        clock_ns=lambda: 0,
        caught_up=lambda: told.append(feeder.applied_offset),
    )
    feeder.load_snapshot(OffsetAndEpoch(3, 1))
    return feeder, told


def test_a_node_has_caught_up_once_when_all_that_is_known_to_be_committed_is_applied() -> None:
    world = World(9)
    feeder, told = restored(world, Machine())
    seen = []
    for turn, committed in enumerate((0, 0, 6, 6, 9)):
        world.turns = turn + 1
        feeder.commit(committed)
        seen.append(feeder.has_caught_up)
        feeder.run(NOW)
    assert feeder.applied_offset == 9
    assert (seen, feeder.has_caught_up) == ([False, False, False, True, True], True)
    assert told == [6], "not at the snapshot, before anything is known to be committed, and not again"


def test_a_node_whose_snapshot_ends_where_the_log_does_has_caught_up_without_applying_anything() -> None:
    world, machine = World(3), Machine()
    feeder, told = restored(world, machine)
    feeder.commit(3)
    for _ in range(3):
        world.turns += 1
        feeder.run(NOW)
    assert (machine.applied, told) == ([], [3])
