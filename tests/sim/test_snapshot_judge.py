"""The judge of snapshots sees what it is there for."""

from types import SimpleNamespace
from typing import Any

import pytest

from kraftd.audit.invariants import Violation
from kraftd.raft.retention import LeasedSnapshots
from kraftd.records import names
from kraftd.storage import Access
from kraftd.storage.snapshots import SnapshotInfo
from kraftd.types import Offset, OffsetAndEpoch
from tests.sim.ledger import Ledger
from tests.sim.node import SimNode
from tests.sim.snapshots import LOG_PATH, SnapshotJudge
from tests.sim.world import Options, World


def node(start_offset: int, *offsets: int, end_offset: int = 99, wounds: Any = ()) -> Any:
    infos = tuple(SnapshotInfo(OffsetAndEpoch(offset, 1), 10, 5) for offset in offsets)
    directory = SimpleNamespace(
        log=SimpleNamespace(start_offset=start_offset, end_offset=end_offset),
        snapshots=SimpleNamespace(infos=infos),
    )
    world = SimpleNamespace(
        fault_budget=SimpleNamespace(wounds=wounds), statistics={"starts from a snapshot": 0}
    )
    return SimpleNamespace(id=1, directory=directory, world=world)


@pytest.mark.covers("SIMX-12")
@pytest.mark.parametrize(
    ("start_offset", "offsets", "is_covered"),
    [(0, (), True), (40, (40,), True), (40, (30, 50), True), (40, (30,), False), (40, (), False)],
)
def test_a_log_stands_on_a_snapshot_or_begins_at_0(
    start_offset: int, offsets: tuple[int, ...], is_covered: bool
) -> None:
    judge, judged = SnapshotJudge(Ledger()), node(start_offset, *offsets)
    if is_covered:
        judge.on_start(judged)
    else:
        with pytest.raises(Violation, match="StartIsCovered: node 1 begins at 40"):
            judge.on_start(judged)


@pytest.mark.covers("D-23")
def test_a_start_applies_nothing_that_a_snapshot_stands_for() -> None:
    judge = SnapshotJudge(Ledger())

    def begin(begun: Any, applied_offset: Offset) -> None:
        judge.note_opened(begun)
        judge.on_applied_first(begun, applied_offset)

    begin(node(0, 40, 120), 40)
    begin(node(0), 3)
    begin(node(0, 40, wounds=(1,)), 3)
    with pytest.raises(Violation, match="RestartIsBounded: node 1 applies up to 39, and has 40"):
        begin(node(0, 40), 39)


@pytest.mark.covers("D-23")
def test_a_snapshot_that_was_downloaded_since_a_start_is_applied_next() -> None:
    judge = SnapshotJudge(Ledger())
    judge.note_opened(node(0, 40))
    judge.on_applied_first(node(0, 40, 60), 40)


SHAPE = (
    ("voters", 3),
    ("observers", 0),
    ("snapshot_bytes", 2_000),
    ("retention_bytes", -1),
    ("retention_ms", -1),
)


@pytest.fixture(scope="module")
def world() -> World:
    """A cluster in which nothing went wrong, with snapshots on each disk."""
    world = World(
        4, Options(faults=False, judged=False, changes=(*SHAPE, ("events_max", 1 << 30)), events=4_000)
    )
    world.run()
    return world


@pytest.fixture
def one(world: World) -> SimNode:
    """A node of it."""
    return world.nodes[world.node_ids[0]]


def put(one: SimNode, name: str, data: bytes) -> None:
    """Write a file into its log directory."""
    handle = one.fs.open(LOG_PATH / name, Access.CREATE_EMPTY)
    one.fs.pwrite(handle, data, 0)
    one.fs.close(handle)


def infos_of(one: SimNode) -> tuple[SnapshotInfo, ...]:
    assert one.directory is not None
    return one.directory.snapshots.infos


def bytes_of(one: SimNode, info: SnapshotInfo) -> bytes:
    return one.fs.content(LOG_PATH / names.snapshot_name(info.id))


def test_a_snapshot_of_another_state_than_the_logs_is_seen(world: World, one: SimNode) -> None:
    first, second, *_ = infos_of(one)
    judge = SnapshotJudge(world.ledger)
    judge.on_named(one, first)
    later = OffsetAndEpoch(second.id.offset, first.id.epoch)
    put(one, names.snapshot_name(later), bytes_of(one, first))
    with pytest.raises(Violation, match="SnapshotsTellTheLog: node 1 has another state at"):
        SnapshotJudge(world.ledger).on_named(one, SnapshotInfo(later, 1, 1))
    put(one, names.snapshot_name(second.id), bytes_of(one, second))


def test_a_snapshot_between_two_batches_only(world: World, one: SimNode) -> None:
    first, *_ = infos_of(one)
    between = OffsetAndEpoch(world.ledger.end_offset + 1, first.id.epoch)
    put(one, names.snapshot_name(between), bytes_of(one, first))
    with pytest.raises(Violation, match=r"SnapshotsTellTheLog: .* is not between two committed batches"):
        SnapshotJudge(world.ledger).on_named(one, SnapshotInfo(between, 1, 1))
    one.fs.unlink(LOG_PATH / names.snapshot_name(between))


def test_other_bytes_at_the_same_id_are_seen(world: World, one: SimNode) -> None:
    first, second, *_ = infos_of(one)
    judge = SnapshotJudge(world.ledger)
    judge.on_named(one, first)
    before = bytes_of(one, first)
    put(one, names.snapshot_name(first.id), bytes_of(one, second))
    with pytest.raises(Violation, match="SnapshotsAgree: node 1 has other bytes at"):
        judge.on_named(one, first)
    put(one, names.snapshot_name(first.id), before)


def test_a_start_with_a_part_or_with_half_a_snapshot_is_seen(world: World, one: SimNode) -> None:
    first, *_ = infos_of(one)
    SnapshotJudge(world.ledger).on_opened(one)
    name, before = names.snapshot_name(first.id), bytes_of(one, first)
    put(one, name + names.PART, before)
    with pytest.raises(Violation, match=r"PartsPromiseNothing: node 1 starts with 0.*part"):
        SnapshotJudge(world.ledger).on_opened(one)
    one.fs.unlink(LOG_PATH / (name + names.PART))
    put(one, name, before[: len(before) // 2])
    with pytest.raises(Violation, match="PartsPromiseNothing: node 1 starts with a bad one"):
        SnapshotJudge(world.ledger).on_opened(one)
    put(one, name, before)


def test_a_cut_behind_what_is_downloaded_is_seen() -> None:
    judged = node(40, 40)
    judged.start_offset = 40
    leased = LeasedSnapshots(voters=frozenset({OffsetAndEpoch(30, 1)}))
    judged.clock = SimpleNamespace(now=lambda: SimpleNamespace(mono_ms=7))
    judged.parts = SimpleNamespace(raft_node=SimpleNamespace(leased_snapshots=lambda _: leased))
    with pytest.raises(Violation, match="NothingNeededIsCleaned: node 1 begins at 40, leased"):
        SnapshotJudge(Ledger()).on_cut(judged)
