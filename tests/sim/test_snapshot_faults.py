"""Each fault of snapshots happens, and costs nothing that was promised."""

from typing import Any

import pytest

from kraftd.raft.events import ResignRequested
from kraftd.records import names
from kraftd.runtime.controller_apis import ControllerApis
from kraftd.storage.node_directory import NodeDirectory
from kraftd.storage.snapshot_files import SnapshotFiles
from kraftd.types import OffsetAndEpoch
from tests.sim.fault_base import MS, Fault, S
from tests.sim.fault_disks import FailingSnapshots, LostDisk
from tests.sim.fault_snapshots import (
    LOG_PATH,
    SNAPSHOT_FAULTS,
    CoveredBadSector,
    CoveredBitRot,
    CoveredSegmentDamage,
    CrashInCut,
    CrashInFreeze,
    CrashInInstall,
    DuringDownload,
    PowerCutBehindASnapshot,
    SlowSnapshotLink,
    SnapshotDamage,
)
from tests.sim.network import Machine
from tests.sim.node import SimNode
from tests.sim.world import Options, World

SHAPE = (
    ("voters", 3),
    ("observers", 0),
    ("snapshot_bytes", 2_000),
    ("snapshot_interval_ms", 0),
    ("snapshot_chunk_bytes", 200),
    ("retention_bytes", 100 << 20),
    ("events_max", 1 << 30),
)
HAPPENED = "happened"


def world_of(seed: int, *changes: tuple[str, int]) -> World:
    return World(seed, Options(faults=False, changes=(*SHAPE, *changes), events=5_000))


def repeat(world: World, fault: Fault, pause_us: int) -> None:
    """Let it happen as soon as it can."""
    if fault.apply(world):
        world.statistics[HAPPENED] += 1
    elif not world.is_calm:
        world.at(pause_us, lambda: repeat(world, fault, pause_us))


@pytest.mark.covers("D-23")
@pytest.mark.parametrize("kind", [kind for kind in SNAPSHOT_FAULTS if issubclass(kind, SnapshotDamage)])
def test_a_snapshot_that_is_damaged_costs_nothing(kind: type[SnapshotDamage]) -> None:
    world = world_of(4)
    world.at(10 * S, lambda: repeat(world, kind(), 500 * MS))
    world.run()
    assert world.statistics[HAPPENED] == 1


@pytest.mark.covers("D-22", "D-23")
@pytest.mark.parametrize("kind", [CoveredBitRot, CoveredBadSector])
@pytest.mark.parametrize("seed", [4, 5])
def test_what_is_damaged_below_a_snapshot_costs_nothing_and_goes(
    kind: type[CoveredSegmentDamage], seed: int
) -> None:
    world = world_of(seed, ("segment_bytes", 2_000))
    world.at(10 * S, lambda: repeat(world, kind(), 500 * MS))
    world.run()
    assert world.statistics[HAPPENED] == 1
    ((node_id, name),) = world.snapshots.hurt
    assert not world.nodes[node_id].fs.exists(LOG_PATH / name)
    assert world.nodes[node_id].start_offset > 0


@pytest.mark.covers("D-21", "SNAP-08")
@pytest.mark.parametrize("kind", [kind for kind in SNAPSHOT_FAULTS if issubclass(kind, DuringDownload)])
def test_what_happens_to_a_download_only_delays_it(kind: type[DuringDownload]) -> None:
    world = world_of(4)
    world.at(10 * S, lambda: repeat(world, LostDisk(), 500 * MS))
    world.at(10 * S, lambda: repeat(world, kind(), 500 * MS))
    world.run()
    assert world.statistics[f"met: {kind.name}"] == 1
    assert world.statistics[f"crashed: {kind.name}"] == (kind is CrashInInstall)
    assert any(node.start_offset for node in world.nodes.values()), "who lost its log has a snapshot for it"


@pytest.mark.covers("D-20", "SNAP-20")
@pytest.mark.parametrize("seed", [4, 6])
def test_a_snapshot_that_rots_while_its_node_runs_is_found_by_whoever_downloads_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[OffsetAndEpoch] = []
    hurt: set[str] = set()
    mark_damaged = SnapshotFiles.mark_damaged

    def mark(files: SnapshotFiles, snapshot_id: OffsetAndEpoch) -> None:
        found.append(snapshot_id)
        mark_damaged(files, snapshot_id)

    class Rot(LostDisk):
        """One node has to begin anew, and what the others would give it is bad."""

        def apply(self, world: World) -> bool:
            if not super().apply(world):
                return False
            for node in world.nodes.values():
                info = node.directory.snapshots.newest if node.is_up and node.directory is not None else None
                if info is not None:
                    path = LOG_PATH / names.snapshot_name(info.id)
                    hurt.add(path.name)
                    world.snapshots.hurt.add((node.id, path.name))
                    node.fs.damage(path, "bit_flip", info.size_bytes // 2, world.random)
            return True

    monkeypatch.setattr(SnapshotFiles, "mark_damaged", mark)
    world = world_of(seed)
    world.at(10 * S, lambda: repeat(world, Rot(), 500 * MS))
    world.run()
    assert world.statistics[HAPPENED] == 1
    assert {names.snapshot_name(each) for each in found} == hurt


@pytest.mark.covers("D-19", "D-20")
@pytest.mark.parametrize("seed", [4, 5])
def test_where_the_last_snapshots_rot_another_is_made_though_nothing_can_be_committed_without_it(
    seed: int,
) -> None:
    """One voter is down, the other one needs what went bad: it comes back by itself all the same."""
    world = world_of(seed, ("retention_bytes", 4_000), ("segment_bytes", 2_000))
    for each in world.nodes.values():
        world.at(0, each.start)
    for client in world.clients:
        client.start()
    world.loader.start()
    assert world.run_until(lambda: any(node.is_leader for node in world.nodes.values()), 60 * S)
    behind, *others = sorted(world.nodes.values(), key=lambda node: node.is_leader)
    assert behind.raft_node is not None
    end_offset = behind.raft_node.log.end_offset
    behind.stop()
    assert world.run_until(lambda: all(each.start_offset > end_offset for each in others), 300 * S)
    other, leader = sorted(others, key=lambda node: node.is_leader)
    assert leader.is_leader
    assert leader.directory is not None
    raft_node = leader.raft_node
    assert raft_node is not None
    other.crash()
    for info in leader.directory.snapshots.infos:
        path = LOG_PATH / names.snapshot_name(info.id)
        world.snapshots.hurt.add((leader.id, path.name))
        leader.fs.damage(path, "bit_flip", info.size_bytes // 2, world.random)
    before = raft_node.high_watermark
    behind.start()
    assert world.run_until(lambda: raft_node.high_watermark > before + 10, 60 * S)
    assert behind.start_offset > end_offset, "its log begins at a snapshot now"
    assert leader.parts is not None
    assert leader.parts.snapshotter.newest == leader.directory.snapshots.newest is not None
    world.close()


def test_a_link_is_slow_during_a_download_only_while_that_fault_lasts() -> None:
    world = world_of(4)
    slowest: dict[tuple[Machine, Machine], int] = {}

    class Watched(SlowSnapshotLink):
        def meet(self, world: World, node: SimNode) -> None:
            super().meet(world, node)
            others = [other for other in world.node_ids if other != node.id]
            slowest.update({(node.id, other): extra_us(node.id, other) for other in others})

    def extra_us(one: Machine, other: Machine) -> int:
        return world.network.link(one, other).extra_us

    world.at(10 * S, lambda: repeat(world, LostDisk(), 500 * MS))
    world.at(10 * S, lambda: repeat(world, Watched(), 500 * MS))
    world.run()
    assert set(slowest.values()) == {world.shape.timing.fetch_timeout_ms * MS}
    assert {extra_us(*pair) for pair in slowest} == {0}
    fastest_us, slowest_us = world.shape.latency_us
    assert all(fastest_us <= world.network.link(*pair).base_us <= slowest_us for pair in slowest)


@pytest.mark.covers("D-20", "D-22", "SNAP-24")
@pytest.mark.parametrize("kind", [CrashInFreeze, CrashInCut])
@pytest.mark.parametrize("seed", [4, 5, 6, 8])
def test_a_crash_while_a_snapshot_comes_to_count_or_a_log_is_cut_costs_nothing(
    kind: type[Fault], seed: int
) -> None:
    """In these seeds the call that the fault draws is one of the cut; in others the cut has fewer."""
    world = world_of(seed)
    world.at(10 * S, lambda: repeat(world, kind(), 500 * MS))
    world.run()
    assert world.statistics[f"crashed: {kind.name}"] == 1


@pytest.mark.covers("D-23")
@pytest.mark.parametrize("seed", [1, 9, 10])
def test_a_snapshot_that_a_power_cut_left_beyond_its_log_is_set_aside(seed: int) -> None:
    world = world_of(seed)
    for number in range(5, 60, 10):
        world.at(number * S, lambda: PowerCutBehindASnapshot().apply(world))
    world.run()
    assert world.statistics[f"met: {PowerCutBehindASnapshot.name}"] >= 1
    assert [
        name
        for node in world.nodes.values()
        for name in node.fs.names(LOG_PATH)
        if name.endswith(names.CHECKPOINT + names.ASIDE)
    ]


@pytest.mark.covers("D-23")
def test_a_leader_whose_snapshot_cannot_be_read_any_more_hands_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sector of it turns bad between the start that proved it and the moment in which it is loaded."""
    options = Options(faults=False, changes=(*SHAPE, ("retention_bytes", 1)), events=30_000, judged=False)
    world = World(4, options)
    opened = NodeDirectory.open
    damaged: list[SimNode] = []
    led: list[int] = []

    def open_and_damage(fs: Any, *args: Any, **options: Any) -> NodeDirectory:
        directory = opened(fs, *args, **options)
        newest = directory.snapshots.newest
        if damaged and fs is damaged[0].fs and newest is not None:
            fs.damage(LOG_PATH / names.snapshot_name(newest.id), "unreadable", 0, world.random)
        return directory

    def restart() -> None:
        node = next((n for n in world.nodes.values() if n.is_up and not n.is_leader and n.start_offset), None)
        if node is None:
            world.at(500 * MS, restart)
            return
        damaged.append(node)
        node.crash(down_us=200 * MS)
        world.at(3 * S, hand_over)

    def hand_over() -> None:
        leader = next((n for n in world.nodes.values() if n.parts is not None and n.is_leader), None)
        if leader is None:
            world.at(500 * MS, hand_over)
            return
        driver = leader.parts.driver
        leader.loop.arrive(
            driver.deliver, ResignRequested(1 << 40, damaged[0].id, driver.now().mono_ms + 3_000)
        )
        world.at(4 * S, look)

    def look() -> None:
        led.extend(n.id for n in world.nodes.values() if n.parts is not None and n.parts.controller.is_active)

    monkeypatch.setattr(NodeDirectory, "open", open_and_damage)
    monkeypatch.setattr(ControllerApis, "resign_done", lambda *_: None)
    world.at(10 * S, restart)
    world.run()
    assert damaged
    assert led
    assert led != [damaged[0].id]


@pytest.mark.covers("D-20")
def test_a_disk_without_room_for_snapshots_costs_those_alone() -> None:
    world = world_of(4)
    for number in range(5, 40):
        world.at(number * S, lambda: FailingSnapshots().apply(world))
    world.run()
    assert world.statistics[f"failed: {FailingSnapshots.name}"] >= 1
