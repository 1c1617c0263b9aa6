"""A snapshot is restored a little a turn, proved on the way, and a damaged one costs nothing but time."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kraftd.errors import StorageError, UnencodableError
from kraftd.raft.events import Event, SnapshotDamaged
from kraftd.records import names
from kraftd.records.batch import scan
from kraftd.records.frame import encode_record
from kraftd.records.messages import NoOpRecord
from kraftd.records.snapshot import encode_snapshot
from kraftd.runtime.snapshot_loader import Collector, SnapshotLoader
from kraftd.storage import StorageFailure
from kraftd.storage.snapshots import PIECE_BYTES, SnapshotInfo
from kraftd.types import NEVER_MS, Now, OffsetAndEpoch

AT = 1_700_000_000_000
OLD, MIDDLE, NEW = (OffsetAndEpoch(offset, 3) for offset in (40, 70, 90))


def values_of(snapshot_id: OffsetAndEpoch, count: int = 3_000) -> list[bytes]:
    return [encode_record(NoOpRecord(), 0) + bytes([snapshot_id.offset]) for _ in range(count)]


def data_of(snapshot_id: OffsetAndEpoch, count: int = 3_000) -> bytes:
    at = AT + snapshot_id.offset
    return b"".join(
        encode_snapshot(values_of(snapshot_id, count), snapshot_id.epoch, at, last_contained_timestamp_ms=at)
    )


class Machine:
    """A state machine whose state is the values of a snapshot."""

    def __init__(self) -> None:
        self.state: tuple[OffsetAndEpoch, list[bytes]] | None = None
        self.refuses = b""
        self.settle_steps = 1
        self.settled: list[bool] = []
        """Of each step of settling of the newest restore, whether there was no state yet."""

    def restore(self, at: OffsetAndEpoch) -> "Restore":
        return Restore(self, at)


class Restore:
    def __init__(self, machine: Machine, at: OffsetAndEpoch) -> None:
        self.machine, self.at = machine, at
        self.values: list[bytes] = []
        machine.settled = []

    def add(self, values: Sequence[bytes], where: str) -> None:
        assert 0 < len(values) <= 512
        if self.machine.refuses in values:
            raise UnencodableError(f"{where}: refused")
        assert not self.machine.settled, "a record is added to what is being settled"
        self.values += values

    def settle(self) -> bool:
        self.machine.settled.append(self.machine.state is None)
        return len(self.machine.settled) < self.machine.settle_steps

    def finish(self) -> None:
        self.machine.state = self.at, self.values


class Reader:
    def __init__(self, world: "World", snapshot_id: OffsetAndEpoch, data: bytes) -> None:
        self.world, self.id, self.data = world, snapshot_id, data
        self.size_bytes = len(data)
        world.open.append(snapshot_id)

    def read(self, position: int, max_bytes: int) -> bytes:
        if self.id in self.world.unreadable:
            raise StorageError(f"{names.snapshot_name(self.id)}: read failed: Input/output error")
        self.world.reads.append((position, max_bytes))
        return self.data[position : position + max_bytes]

    def release(self) -> None:
        self.world.open.remove(self.id)


class RecordedCollector(Collector):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def disable(self) -> None:
        self.calls.append("disable")

    def freeze(self) -> None:
        self.calls.append("freeze")

    def enable(self) -> None:
        self.calls.append("enable")


class World:
    """Directory, thread, driver and log of lines in one."""

    def __init__(self, *ids: OffsetAndEpoch, log_start: int = 0) -> None:
        self.files = {each: data_of(each) for each in ids}
        self.unreadable: set[OffsetAndEpoch] = set()
        self.open: list[OffsetAndEpoch] = []
        self.reads: list[tuple[int, int]] = []
        self.jobs: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.loaded: list[SnapshotInfo] = []
        self.collector = RecordedCollector()
        self.wakes = 0
        self.damaged: list[OffsetAndEpoch] = []
        """What counts no more."""
        self.events: list[Event] = []
        self.now_ms = 1
        self.machine = Machine()
        self.loader = SnapshotLoader(
            self,  # type: ignore[arg-type]
            log_start=lambda: log_start,
            worker=self,  # type: ignore[arg-type]
            driver=self,  # type: ignore[arg-type]
            logger=self,
            collector=self.collector,
        )

    @property
    def infos(self) -> list[SnapshotInfo]:
        return [SnapshotInfo(each, len(data), AT + each.offset) for each, data in self.files.items()]

    def open_reader(self, snapshot_id: OffsetAndEpoch) -> Reader | None:
        data = self.files.get(snapshot_id)
        return None if data is None else Reader(self, snapshot_id, data)

    def mark_damaged(self, snapshot_id: OffsetAndEpoch) -> None:
        self.damaged.append(snapshot_id)

    def deliver(self, event: Event) -> None:
        self.events.append(event)

    def submit(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.jobs.append((job, done))

    def wake(self) -> None:
        self.wakes += 1

    def now(self) -> Now:
        return Now(self.now_ms, AT)

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    error = info

    def load(self, snapshot_id: OffsetAndEpoch, applied_offset: int = 0) -> None:
        self.loader.load(snapshot_id, self.machine, applied_offset, self.loaded.append)

    def read(self) -> None:
        job, done = self.jobs.popleft()
        done(job())

    def finish(self) -> None:
        while self.loader.is_loading:
            if not self.loader.step() and self.jobs:
                before = self.wakes
                self.read()
                assert self.wakes > before, "whoever waits for the thread must be woken"


@pytest.mark.covers("D-23", "LSN-02")
def test_the_state_is_the_snapshots_once_all_of_it_was_proved() -> None:
    world = World(NEW)
    world.load(NEW)
    while world.loader.percent < 100:
        assert world.machine.state is None
        if not world.loader.step():
            world.read()
    world.finish()
    assert world.machine.state == (NEW, values_of(NEW))
    assert world.loaded == world.infos
    assert world.open == []
    assert [event for event, _ in world.lines] == ["snapshot_loading", "snapshot_loaded"]
    size_bytes = len(world.files[NEW])
    assert world.lines[0][1] == {"offset": 90, "epoch": 3, "size_bytes": size_bytes, "percent": 0}
    assert world.loader.loaded_count == 1
    assert world.lines[1][1] == {"offset": 90, "epoch": 3, "size_bytes": len(world.files[NEW]), "took_ms": 0}
    assert world.loader.percent == 100
    assert not world.loader.step()


@pytest.mark.covers("D-23")
def test_no_garbage_is_collected_while_it_loads_and_what_was_loaded_is_never_gone_through() -> None:
    """However a load ends garbage is collected again; of one that failed nothing is kept from that."""
    world = World(MIDDLE, NEW)
    calls = world.collector.calls
    world.load(NEW)
    assert calls == ["disable"]
    world.finish()
    assert calls == ["disable", "freeze", "enable"]

    calls.clear()
    world.load(MIDDLE)
    world.load(NEW)
    assert calls == ["disable", "enable", "disable"]
    world.loader.stop()
    world.loader.stop()
    assert calls[3:] == ["enable"]

    calls.clear()
    world.files[NEW] = _cut(world.files[NEW])
    world.load(NEW)
    world.finish()
    assert calls == ["disable", "enable", "disable", "freeze", "enable"], "the one before it was loaded"


@pytest.mark.covers("D-21", "D-35")
def test_what_is_left_once_all_was_added_is_done_a_little_a_step_too() -> None:
    world = World(NEW)
    world.machine.settle_steps = 5
    world.load(NEW)
    while not world.machine.settled:
        if not world.loader.step():
            world.read()
    for done in range(1, 5):
        assert len(world.machine.settled) == done
        assert world.machine.state is None
        assert world.loader.is_loading
        if done < 4:
            assert world.loader.step(), "more can be done at once"
    world.loader.step()
    assert world.machine.settled == [True] * 5
    assert world.machine.state == (NEW, values_of(NEW))
    assert world.loaded == world.infos


@pytest.mark.covers("D-18")
def test_what_the_state_machine_refuses_ends_the_process_with_file_and_byte() -> None:
    """The last record of the second batch of records, in the second piece that is restored of it."""
    world = World(NEW)
    values = values_of(NEW, 2_048)
    values[-1] += b"!"
    data = b"".join(encode_snapshot(values, NEW.epoch, AT, last_contained_timestamp_ms=AT))
    world.files[NEW] = data
    world.machine.refuses = values[-1]
    world.load(NEW)
    _, _, second, _ = scan(data)
    with pytest.raises(UnencodableError) as raised:
        world.finish()
    assert str(raised.value) == f"{names.snapshot_name(NEW)} at byte {second.position}: refused"


@pytest.mark.covers("D-23")
def test_a_restoring_that_takes_long_tells_every_few_seconds_how_far_it_is() -> None:
    world = World(NEW)
    world.load(NEW)
    while world.loader.is_loading:
        if not world.loader.step() and world.jobs:
            world.read()
        world.now_ms += 2_000
    told = [fields["percent"] for event, fields in world.lines if event == "snapshot_loading"]
    assert told[0] == 0
    assert 1 < len(told) < 8
    assert told == sorted(told)
    assert told[-1] > 0
    assert world.lines[-1][0] == "snapshot_loaded"


def test_it_is_read_in_pieces_a_piece_ahead() -> None:
    world = World(NEW)
    world.files[NEW] = data = data_of(NEW, PIECE_BYTES // 4)
    world.load(NEW)
    world.finish()
    assert len(data) > 2 * PIECE_BYTES
    ends = [*range(PIECE_BYTES, len(data), PIECE_BYTES), len(data)]
    assert [position + size for position, size in world.reads] == ends
    assert world.loaded[0].size_bytes == len(data)


def _cut(data: bytes) -> bytes:
    return data[:-20]


def _flip(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


def _no_footer(data: bytes) -> bytes:
    footer = b"".join(encode_snapshot([], NEW.epoch, AT + NEW.offset, last_contained_timestamp_ms=0))
    return data[: len(data) - len(footer) // 2]


DAMAGES = {"cut short": _cut, "a bit": _flip, "without its footer": _no_footer, "empty": lambda _: b""}


@pytest.mark.covers("D-23")
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_in_place_of_a_damaged_one_the_one_before_it_is_loaded(damage: Callable[[bytes], bytes]) -> None:
    world = World(OLD, MIDDLE, NEW)
    world.files[NEW] = damage(world.files[NEW])
    world.load(NEW)
    world.finish()
    assert world.machine.state == (MIDDLE, values_of(MIDDLE))
    (alarm,) = world.loader.alarms
    name = names.snapshot_name(NEW)
    assert alarm.startswith(f"snapshot_damaged: {name}")
    assert alarm.endswith("; the snapshot at offset 70 is loaded instead")
    assert [event for event, _ in world.lines] == ["snapshot_loading", "snapshot_damaged", "snapshot_loaded"]
    assert world.open == []
    assert (world.damaged, world.events) == ([NEW], [SnapshotDamaged(NEW)]), "or the log would be cut at it"
    world.loader.forget_damage_below(90)
    assert world.loader.alarms
    world.loader.forget_damage_below(91)
    assert world.loader.alarms == ()


@pytest.mark.covers("D-23")
def test_with_no_other_the_log_is_applied_from_where_it_is() -> None:
    for gone in (False, True):
        world = World(NEW)
        if gone:
            world.files.clear()
        world.unreadable.add(NEW)
        world.load(NEW)
        world.finish()
        assert world.machine.state is None
        assert not world.loaded
        assert not world.loader.stuck_reason
        (alarm,) = world.loader.alarms
        assert alarm.endswith("; the log is applied from offset 0 instead")
        assert ("Input/output error" in alarm) is not gone


@pytest.mark.covers("D-23")
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_of_a_damaged_one_nothing_is_taken(damage: Callable[[bytes], bytes]) -> None:
    world = World(NEW)
    world.files[NEW] = damage(world.files[NEW])
    world.load(NEW)
    world.finish()
    assert world.machine.state is None
    assert not world.loaded


@pytest.mark.covers("D-23")
@pytest.mark.parametrize(("log_start", "loads"), [(70, MIDDLE), (71, None)])
def test_a_snapshot_below_the_logs_start_is_no_help(log_start: int, loads: OffsetAndEpoch | None) -> None:
    world = World(OLD, MIDDLE, NEW, log_start=log_start)
    world.unreadable.add(NEW)
    world.load(NEW)
    world.finish()
    assert [info.id for info in world.loaded] == ([] if loads is None else [loads])
    assert bool(world.loader.stuck_reason) is (loads is None)
    if loads is None:
        assert world.loader.stuck_reason.endswith(
            "the log begins at offset 71: nothing here leads to a state"
        )


@pytest.mark.covers("LSN-06")
def test_a_second_load_takes_the_place_of_the_first() -> None:
    world = World(MIDDLE, NEW)
    world.load(MIDDLE)
    world.load(NEW)
    assert world.open == [MIDDLE, NEW], "a file that a thread reads is not closed under it"
    world.finish()
    assert world.machine.state == (NEW, values_of(NEW))
    assert [info.id for info in world.loaded] == [NEW]
    assert world.open == []


def test_no_older_one_than_what_is_applied_is_loaded_in_place_of_a_damaged_one() -> None:
    world = World(OLD, NEW)
    world.unreadable.add(NEW)
    world.load(NEW, applied_offset=60)
    world.finish()
    assert world.machine.state is None
    assert world.loader.alarms[0].endswith("the log is applied from offset 60 instead")


def test_the_only_one_is_tried_again_until_the_disk_gives_it() -> None:
    world = World(NEW, log_start=NEW.offset)
    world.unreadable.add(NEW)
    world.load(NEW)
    world.finish()
    for _ in range(2):
        assert world.loader.stuck_reason
        assert world.loader.retry_at_ms == world.now().mono_ms + 1_000
        world.loader.retry()
        world.finish()
    events = [event for event, _ in world.lines]
    assert events == ["snapshot_loading", "snapshot_damaged"], "one line for one cause"
    assert world.damaged == [], "nothing else leads to a state"

    world.unreadable.clear()
    world.loader.retry()
    world.finish()

    assert world.machine.state == (NEW, values_of(NEW))
    assert not world.loader.stuck_reason
    assert not world.loader.alarms
    assert world.loader.retry_at_ms == NEVER_MS


def test_a_disk_that_failed_ends_the_process() -> None:
    class Broken(World):
        def open_reader(self, snapshot_id: OffsetAndEpoch) -> Reader | None:
            reader = super().open_reader(snapshot_id)
            reader.read = fail  # type: ignore[union-attr, method-assign]
            return reader

    def fail(*_: int) -> bytes:
        raise StorageFailure("the disk is gone")

    world = Broken(NEW)
    world.load(NEW)
    with pytest.raises(StorageFailure):
        world.finish()
