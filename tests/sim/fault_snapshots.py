"""What goes wrong with snapshots: on the disks of nodes that are down, and while one is downloaded.

A damaged snapshot is to cost nothing: the one before it or the log does as well. So one is damaged only where
that is so; and what a snapshot stands for only while that is sound. Who may lose what it acknowledged is for
`fault_disks`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from kraftd.raft import Retention
from kraftd.raft.events import CutRequested
from kraftd.records import names
from kraftd.storage import Access
from tests.sim.fault_base import MS, Fault, S, any_of, down_us, later, may_go_down
from tests.sim.fault_budget import DATA_PATH
from tests.sim.node import CrashedHere

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World

LOG_PATH = DATA_PATH / names.LOG_DIRECTORY
LOOK_US = 20 * MS
NEWEST_PART = 0.7
PATIENCE = 400
"""How often somebody looks whether a download is under way."""
NOTHING_OLD = Retention(0, 0)
RACES = 40
"""How often much is written while a cleaner races with a download."""
SLOW_FLUSH_US = 4 * S
NAMING = ("rename", "sync_directory", "unlink")
"""The calls that give a file its name, or take it."""


@contextmanager
def undisturbed(node: "SimNode") -> Iterator[None]:
    """No fault of the disk is meant for what somebody else does to it."""
    fault, node.disk_fault = node.disk_fault, None
    yield
    node.disk_fault = fault


class SnapshotDamage(Fault):
    """A snapshot changes on the disk of a node that is down for a moment; mostly the newest."""

    mean_s = 12

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.directory is not None and may_go_down(world, node))
        if node is None or node.directory is None or node.id in world.fault_budget.wounds:
            return False
        if world.snapshots.stand_for_damage(node):
            return False
        infos, hurt = node.directory.snapshots.infos, world.snapshots.hurt
        sound = [info.id for info in infos if (node.id, names.snapshot_name(info.id)) not in hurt]
        # The log of one that begins above 0 goes on from one of them, at least.
        may_go = sound[1:] if node.start_offset else sound
        if not may_go:
            return False
        number = -1 if world.random.random() < NEWEST_PART else int(world.random.random() * len(may_go))
        chosen = may_go[number]
        node.crash(down_us=down_us(world))
        path = LOG_PATH / names.snapshot_name(chosen)
        if not node.fs.exists(path):
            return False
        world.snapshots.hurt.add((node.id, path.name))
        self.hurt(world, node, path)
        world.tell(node.id, "damaged", file=path.name, how=self.name)
        return True

    def hurt(self, world: "World", node: "SimNode", path: Path) -> None:
        """Do it."""
        raise NotImplementedError


class _Damaged(SnapshotDamage):
    kind: ClassVar[str]

    def hurt(self, world: "World", node: "SimNode", path: Path) -> None:
        size_bytes = len(node.fs.durable_content(path))
        node.fs.damage(path, self.kind, int(world.random.random() * size_bytes), world.random)


class SnapshotBitRot(_Damaged):
    """A bit of a snapshot flips."""

    name = "bit rot in a snapshot"
    kind = "bit_flip"


class SnapshotCutShort(_Damaged):
    """A snapshot ends earlier than it did, between two batches or inside one."""

    name = "snapshot cut short"
    kind = "truncation"


class SnapshotUnreadable(_Damaged):
    """A part of a snapshot cannot be read any more."""

    name = "unreadable snapshot"
    kind = "unreadable"


class SnapshotLost(SnapshotDamage):
    """A snapshot is gone."""

    name = "lost snapshot"

    def hurt(self, world: "World", node: "SimNode", path: Path) -> None:
        del world
        with undisturbed(node):
            node.fs.unlink(path)
            node.fs.sync_everything()


class PartLeftOver(SnapshotDamage):
    """What was being written, or removed, when a process ended is still there, and is anything."""

    name = "left over parts of snapshots"

    def hurt(self, world: "World", node: "SimNode", path: Path) -> None:
        data = node.fs.content(path)
        keep = int(world.random.random() * len(data))
        with undisturbed(node):
            for ending in (names.PART, names.DELETED):
                handle = node.fs.open(path.with_name(path.name + ending), Access.CREATE_EMPTY)
                node.fs.pwrite(handle, data[:keep], 0)
                node.fs.close(handle)
            node.fs.sync_everything()


class CoveredSegmentDamage(Fault):
    """What is wholly below a snapshot changes on the disk of a node that is down for a moment.

    It costs nothing: no node may take it for a loss, and none may give it to others.
    """

    mean_s = 12
    kind: ClassVar[str]

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.directory is not None and may_go_down(world, node))
        if node is None or node.directory is None or node.id in world.fault_budget.wounds:
            return False
        covered = [path for path in _covered(world, node) if node.fs.durable_content(path)]
        if not covered:
            return False
        path = covered[int(world.random.random() * len(covered))]
        position = int(world.random.random() * len(node.fs.durable_content(path)))
        if node.fs.is_dirty(path, position):
            return False
        node.crash(down_us=down_us(world))
        world.snapshots.hurt.add((node.id, path.name))
        node.fs.damage(path, self.kind, position, world.random)
        world.tell(node.id, "damaged", file=path.name, how=self.name)
        return True


def _covered(world: "World", node: "SimNode") -> list[Path]:
    """The segments that end where a sound snapshot does, or before, and were flushed."""
    assert node.directory is not None
    log, hurt = node.directory.log, world.snapshots.hurt
    sound = [
        info.id.offset
        for info in node.directory.snapshots.infos
        if (node.id, names.snapshot_name(info.id)) not in hurt
    ]
    end_offset = min(max(sound, default=0), log.flushed_offset)
    bases = [base_offset for base_offset, _, _ in log.segment_files[1:]]
    return [path for (_, path, _), end in zip(log.segment_files, bases, strict=False) if end <= end_offset]


class CoveredBitRot(CoveredSegmentDamage):
    """A bit flips."""

    name = "bit rot below a snapshot"
    kind = "bit_flip"


class CoveredBadSector(CoveredSegmentDamage):
    """A sector cannot be read any more."""

    name = "bad sector below a snapshot"
    kind = "unreadable"


class DuringDownload(Fault):
    """Something happens while a replica downloads a snapshot."""

    mean_s = 10

    def apply(self, world: "World") -> bool:
        self._wait(world, PATIENCE)
        return True

    def _wait(self, world: "World", left: int) -> None:
        loading = [
            node for node in world.nodes.values() if node.raft_node is not None and node.raft_node.download
        ]
        if loading:
            world.statistics[f"met: {self.name}"] += 1
            self.meet(world, loading[int(world.random.random() * len(loading))])
        elif left:
            later(world, LOOK_US, lambda: self._wait(world, left - 1))

    def meet(self, world: "World", node: "SimNode") -> None:
        """Do it to this one."""
        raise NotImplementedError


class LeaderChangesDuringDownload(DuringDownload):
    """The leader goes; the download goes on at the next one, or begins anew."""

    name = "leader changes during a download"

    def meet(self, world: "World", node: "SimNode") -> None:
        del node
        leader = any_of(world, lambda node: node.is_leader)
        if leader is not None and may_go_down(world, leader):
            (leader.crash if world.random.random() < 0.5 else leader.cut_power)(down_us=down_us(world))


class SlowSnapshotLink(DuringDownload):
    """What the replica sends and is sent takes longer than the fetch timeout for a while."""

    name = "slow link during a download"

    def meet(self, world: "World", node: "SimNode") -> None:
        slow_us = node.timing.fetch_timeout_ms * MS

        def clog(extra_us: int) -> None:
            for other in world.node_ids:
                if other != node.id:
                    world.network.clog(node.id, other, extra_us)

        clog(slow_us)
        world.at(world.draw_us(1 * S, 5 * S), lambda: clog(0))


class CrashInInstall(DuringDownload):
    """The process, or the power, ends in one of the calls that put a snapshot in the log's place."""

    name = "crash in an install"

    def meet(self, world: "World", node: "SimNode") -> None:
        if node.disk_fault is not None or not may_go_down(world, node):
            return
        _crash_in(world, node, self.name, _names_a_file, calls=int(world.random.random() * 12))


class CleanerRaces(DuringDownload):
    """Nothing old may stay for a while, and much is written: what is downloaded is always older than that."""

    name = "cleaner races with a download"

    def meet(self, world: "World", node: "SimNode") -> None:
        del node
        rounds = RACES

        def race() -> None:
            nonlocal rounds
            for each in world.nodes.values():
                if each.parts is not None:
                    each.parts.log_cleaner._retention = NOTHING_OLD
                if each.is_leader:
                    world.loader.burst(each.id)
            rounds -= 1
            if rounds:
                later(world, 200 * MS, race)

        race()


class CrashInFreeze(Fault):
    """The process, or the power, ends in one of the calls after which a snapshot counts."""

    name = "crash in a freeze"

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_up and node.disk_fault is None)
        if node is None or not may_go_down(world, node):
            return False

        _crash_in(world, node, self.name, _freezes(), calls=int(world.random.random() * 4))
        return True


class CrashInCut(Fault):
    """The process, or the power, ends in one of the calls that let a log begin later."""

    name = "crash in a cut"

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.disk_fault is None and _may_be_cut(node))
        if node is None or node.parts is None or node.loop is None or not may_go_down(world, node):
            return False
        assert node.directory is not None
        infos = node.directory.snapshots.infos[1:]
        start = infos[int(world.random.random() * len(infos))].id

        _crash_in(world, node, self.name, _names_a_file, calls=int(world.random.random() * 10))
        node.loop.arrive(node.parts.driver.deliver, CutRequested(start))
        return True


class PowerCutBehindASnapshot(Fault):
    """A machine flushes slowly, and loses its power when a snapshot is durable of which its log is not.

    Node 3 has in memory what the others have committed, writes the snapshot that is due, and ends before its
    flush does. Its log lacks nothing that it acknowledged: its next start has no need of the snapshot.
    """

    name = "power cut behind a snapshot"
    mean_s = 6
    on_part = 0.25

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_up and node.directory is not None and not node.is_leader)
        leader = any_of(world, lambda node: node.is_leader)
        if node is None or leader is None or not may_go_down(world, node):
            return False
        node.slow_flush = SLOW_FLUSH_US / max(1, world.shape.fsync_us)
        world.loader.burst(leader.id)
        self._wait(world, node, PATIENCE)
        return True

    def _wait(self, world: "World", node: "SimNode", left: int) -> None:
        if node.directory is None or not left:
            node.slow_flush = 1.0
            return
        newest, log = node.directory.snapshots.newest, node.directory.log
        if newest is None or newest.id.offset <= log.flushed_offset:
            later(world, LOOK_US, lambda: self._wait(world, node, left - 1))
            return
        node.slow_flush = 1.0
        if may_go_down(world, node):
            world.statistics[f"met: {self.name}"] += 1
            node.cut_power(down_us=down_us(world))


def _may_be_cut(node: "SimNode") -> bool:
    return node.parts is not None and node.directory is not None and len(node.directory.snapshots.infos) > 1


def _names_a_file(operation: str, path: Path) -> bool:
    return operation in NAMING and path.name != names.QUORUM_STATE


def _freezes() -> Callable[[str, Path], bool]:
    """What tells the calls that make a snapshot count from all others."""
    is_named = False

    def freezes(operation: str, path: Path) -> bool:
        nonlocal is_named
        was_named = is_named
        is_named = operation == "rename" and names.parse_snapshot_name(path.name) is not None
        if operation == "sync_directory":
            return was_named
        return is_named or (operation in ("fchmod", "fsync") and path.suffix == names.PART)

    return freezes


def _crash_in(
    world: "World", node: "SimNode", name: str, is_meant: Callable[[str, Path], bool], *, calls: int
) -> None:
    """Let the process, or the power, end in one of the calls that are meant, after so many of them."""
    power = world.random.random() < 0.5

    def crash(operation: str, path: Path, size_bytes: int) -> int | None:
        nonlocal calls
        del size_bytes
        if is_meant(operation, path):
            calls -= 1
            if calls < 0:
                node.disk_fault = None
                world.statistics[f"crashed: {name}"] += 1
                raise CrashedHere(power=power)
        return None

    def release() -> None:
        if node.disk_fault is crash:
            node.disk_fault = None

    node.disk_fault = crash
    world.at(10 * S, release)


SNAPSHOT_FAULTS: tuple[type[Fault], ...] = (
    SnapshotBitRot,
    SnapshotCutShort,
    SnapshotUnreadable,
    SnapshotLost,
    PartLeftOver,
    CoveredBitRot,
    CoveredBadSector,
    LeaderChangesDuringDownload,
    SlowSnapshotLink,
    CrashInInstall,
    CleanerRaces,
    CrashInFreeze,
    CrashInCut,
    PowerCutBehindASnapshot,
)
