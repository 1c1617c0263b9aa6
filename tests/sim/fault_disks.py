"""What goes wrong with disks: slow, full, failing, lying, forgetful, replaced.

A call that fails ends the process by its own choice, and takes nothing that was promised; so the budget is
asked only where bytes that were durable go, or look gone. Where bytes are damaged is drawn, but always below
the flushed offset that the disk itself remembers, or where a majority of the others holds the records.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from kraftd.records import names
from kraftd.records.batch_header import HEADER_BYTES
from kraftd.records.quorum_state import line_of
from kraftd.storage.segment import head_at
from kraftd.storage.sidecar import SLOT_BYTES, SidecarState
from kraftd.types import Offset
from tests.sim.fault_base import MS, Fault, S, any_of, any_up, down_us, is_allowed, may_go_down, some_of
from tests.sim.fault_budget import DATA_PATH, WIPED, Harm, holds_torn_election, sidecar_of, slots_of
from tests.sim.filesystem import CHANGES, SECTOR_BYTES, SimFileSystem

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World

LOG_PATH = DATA_PATH / names.LOG_DIRECTORY
ELECTION = LOG_PATH / names.QUORUM_STATE
SIDECAR = DATA_PATH / names.SIDECAR
HEAD_BYTES = 30
"""So many bytes of a slot are never padding."""


# --- slow and full ------------------------------------------------------------------------------------------


class SlowDisk(Fault):
    """Syncs take much longer on some machines, for a while."""

    name = "slow disk"

    def apply(self, world: "World") -> bool:
        nodes = some_of(world) or list(world.nodes.values())
        for node in nodes:
            node.slow_disk = 2 + world.random.random() * 60
        world.at(world.draw_us(500 * MS, 15 * S), lambda: _at_full_speed(nodes))
        return True


class HungDisk(Fault):
    """A sync that begins now takes seconds."""

    name = "hung disk"
    mean_s = 15

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None:
            return False
        node.slow_disk = world.draw_us(1 * S, 8 * S) / max(1, world.shape.fsync_us)
        world.at(world.draw_us(50 * MS, 500 * MS), lambda: _at_full_speed([node]))
        return True


def _at_full_speed(nodes: "list[SimNode]") -> None:
    for node in nodes:
        node.slow_disk = 1.0


class DiskFull(Fault):
    """For a while nothing can be written on a machine: ENOSPC."""

    name = "disk full"
    mean_s = 20

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.disk_fault is None)
        if node is None:
            return False

        def refuse(operation: str, path: Path, size_bytes: int) -> int | None:
            if operation in ("pwrite", "pwritev", "make_directory"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            return None

        node.disk_fault = refuse
        world.at(world.draw_us(100 * MS, 5 * S), lambda: _release(node, refuse))
        return True


class FailingSnapshots(Fault):
    """For a while a machine has no room for a snapshot, or its disk refuses one. Nothing else fails."""

    name = "failing snapshots"
    mean_s = 10

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.disk_fault is None)
        if node is None:
            return False
        number = errno.ENOSPC if world.random.random() < 0.7 else errno.EIO

        def refuse(operation: str, path: Path, size_bytes: int) -> int | None:
            if operation in CHANGES and path.name.endswith(names.PART) and operation != "unlink":
                world.statistics[f"failed: {self.name}"] += 1
                raise OSError(number, os.strerror(number), str(path))
            return None

        node.disk_fault = refuse
        world.at(world.draw_us(500 * MS, 8 * S), lambda: _release(node, refuse))
        return True


def _release(node: "SimNode", hook: Callable[[str, Path, int], int | None]) -> None:
    if node.disk_fault is hook:
        node.disk_fault = None


# --- calls that fail ----------------------------------------------------------------------------------------


class FailingCall(Fault):
    """The next call of some kinds fails once."""

    calls: ClassVar[tuple[str, ...]]
    error: ClassVar[int] = errno.EIO
    mean_s = 15

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.disk_fault is None)
        if node is None or not may_go_down(world, node):
            return False
        skip = int(world.random.random() ** 2 * 8)

        def refuse(operation: str, path: Path, size_bytes: int) -> int | None:
            nonlocal skip
            if operation not in self.calls or not self.concerns(world, node, path):
                return None
            skip -= 1
            if skip >= 0:
                return None
            node.disk_fault = None
            return self.fail(world, path, size_bytes)

        node.disk_fault = refuse
        world.at(20 * S, lambda: _release(node, refuse))
        return True

    def concerns(self, world: "World", node: "SimNode", path: Path) -> bool:
        """Whether a call about this file may fail."""
        return True

    def fail(self, world: "World", path: Path, size_bytes: int) -> int | None:
        """Let it fail."""
        world.statistics[f"failed: {self.name}"] += 1
        raise OSError(self.error, os.strerror(self.error), str(path))


class FailedSync(FailingCall):
    """An fsync fails; the pages look clean, and the bytes may be gone."""

    name = "failed fsync"
    calls = ("fsync", "fdatasync")
    mean_s = 8


class FailedSyncFull(FailingCall):
    """An fsync finds no room: ENOSPC, as with delayed allocation."""

    name = "fsync without room"
    calls = ("fsync", "fdatasync")
    error = errno.ENOSPC


class FailedDirectorySync(FailingCall):
    """The sync of a directory fails."""

    name = "failed directory sync"
    calls = ("sync_directory",)


class FailedWrite(FailingCall):
    """A write fails with EIO."""

    name = "failed write"
    calls = ("pwrite", "pwritev")


class WriteWithoutRoom(FailingCall):
    """A write finds no room."""

    name = "write without room"
    calls = ("pwrite", "pwritev")
    error = errno.ENOSPC


class ShortWrite(FailingCall):
    """A write takes only a part of the bytes."""

    name = "short write"
    calls = ("pwrite", "pwritev")

    def fail(self, world: "World", path: Path, size_bytes: int) -> int | None:
        world.statistics[f"failed: {self.name}"] += 1
        return size_bytes // 2


class FailedTruncate(FailingCall):
    """A file cannot be cut."""

    name = "failed ftruncate"
    calls = ("ftruncate",)


class FailedRename(FailingCall):
    """A file cannot be renamed."""

    name = "failed rename"
    calls = ("rename",)


class FailedOpen(FailingCall):
    """A file cannot be opened or created."""

    name = "failed open"
    calls = ("open",)

    def concerns(self, world: "World", node: "SimNode", path: Path) -> bool:
        return _reads_safely(world, node, path)


class FailedUnlink(FailingCall):
    """A file cannot be removed."""

    name = "failed unlink"
    calls = ("unlink",)


class FailedRead(FailingCall):
    """A read fails with EIO, once."""

    name = "failed read"
    calls = ("pread",)
    mean_s = 12

    def concerns(self, world: "World", node: "SimNode", path: Path) -> bool:
        return _reads_safely(world, node, path)


def _reads_safely(world: "World", node: "SimNode", path: Path) -> bool:
    """Whether a promise may look forgotten on this disk: a start believes what it reads."""
    # A log that begins above 0 is nothing without its snapshot. Neither is a damaged segment below it, nor a
    # log whose place it was about to take: the flushed offset is the snapshot's already.
    is_needed = path.suffix == ".checkpoint" and (
        node.start_offset > 0 or world.snapshots.stand_for_damage(node) or _is_being_replaced(node)
    )
    if path not in (ELECTION, SIDECAR) and path.suffix != ".log" and not is_needed:
        return True
    return _is_doubtful(world, node)


def _is_being_replaced(node: "SimNode") -> bool:
    """Whether a process ended between the two parts of an installation: the sidecar's, and the log's."""
    state = sidecar_of(node)
    recovery_point = state.recovery_point if state is not None else None
    return recovery_point is not None and recovery_point.offset > node.view().durable_end_offset


def _is_doubtful(world: "World", node: "SimNode") -> bool:
    """Whether a start of this node may find out that something does not fit; from here on it may."""
    harm = Harm(perhaps=True)
    if not is_allowed(world, node, harm):
        return False
    world.fault_budget.note(node, harm)
    return True


# --- bytes that change --------------------------------------------------------------------------------------


def durable_bytes(node: "SimNode", below: Offset) -> list[tuple[Path, int]]:
    """The segments of a disk, and up to which byte each holds batches that end at or below an offset."""
    found = []
    for path in node.fs.paths():
        if path.parent != LOG_PATH or path.suffix != ".log":
            continue
        try:
            data = node.fs.durable_content(path)
        except OSError:
            continue
        position = 0
        while position + HEADER_BYTES <= len(data):
            head = head_at(data, position)
            if head.size_bytes < HEADER_BYTES or head.last_offset + 1 > below:
                break
            position += head.size_bytes
        if 0 < position <= len(data):
            found.append((path, position))
    return found


_SEEN_IN_DIRTY_PAGES = ("truncation", "unreadable")
"""What happens to a file, not to bytes that a page of the cache hides."""


class LogDamage(Fault):
    """Durable bytes of the log change below the offset that the disk remembers as flushed."""

    kind: ClassVar[str]
    mean_s = 25

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_voter)
        harm = Harm(noticed=True)
        if node is None or not is_allowed(world, node, harm):
            return False
        state, wound = sidecar_of(node), world.fault_budget.wounds.get(node.id)
        if state is None or state.recovery_point is None:
            return False
        # Another program wrote the election file, so that the next start drops the recovery point (D-05).
        # Bad bytes at the end are torn then: a write that nobody has promised looks the same.
        if wound is not None and wound.harm.perhaps:
            return False
        places = durable_bytes(node, state.recovery_point.offset)
        if not places:
            return False
        path, end = places[int(world.random.random() * len(places))]
        position = int(world.random.random() * end)
        if self.kind != "bit_flip" and position - position % SECTOR_BYTES + SECTOR_BYTES > end:
            position = max(0, position - SECTOR_BYTES)
        # A write fell short, and the process ended of it. The page of the cache is sound, dirty, and what the
        # next start reads; its sync writes the page back over what the disk holds. Nobody can notice that.
        if self.kind not in _SEEN_IN_DIRTY_PAGES and node.fs.is_dirty(path, position):
            return False
        before = node.fs.durable_content(path)
        world.fault_budget.note(node, harm)
        said = node.fs.damage(path, self.kind, position, world.random)
        world.tell(node.id, "damaged", how=said)
        changed = self.kind == "unreadable" or node.fs.durable_content(path)[:end] != before[:end]
        if not changed:
            world.fault_budget.forgive(node)
        return changed


class LogBitRot(LogDamage):
    """A bit of the log flips."""

    name = "bit rot in the log"
    kind = "bit_flip"


class LogZeroedSector(LogDamage):
    """A sector of the log reads as zeros."""

    name = "zeroed sector in the log"
    kind = "zeroed_sector"


class LogMisdirectedWrite(LogDamage):
    """A sector of the log holds what was meant for another."""

    name = "misdirected write in the log"
    kind = "misdirected"


class LogBadSector(LogDamage):
    """A sector of the log cannot be read any more."""

    name = "bad sector in the log"
    kind = "unreadable"


class LogCutShort(LogDamage):
    """A segment ends earlier than it did."""

    name = "log cut short"
    kind = "truncation"


class ElectionBitRot(Fault):
    """The election file is damaged."""

    name = "damaged election file"
    mean_s = 30

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_voter)
        harm = Harm(noticed=True)
        if node is None or not node.fs.exists(ELECTION) or not is_allowed(world, node, harm):
            return False
        world.fault_budget.note(node, harm)
        before = node.fs.durable_content(ELECTION)
        if not before:
            return False
        kind = ("bit_flip", "zeroed_sector", "truncation")[int(world.random.random() * 3)]
        node.fs.damage(ELECTION, kind, int(world.random.random() * len(before)), world.random)
        # Most of the file are spaces around its line (D-41): without some of them nothing is lost.
        is_intact = line_of(node.fs.durable_content(ELECTION)) == line_of(before)
        if is_intact or holds_torn_election(node):
            world.fault_budget.may_stay_unnoticed(node)
        return True


class EpochFileDamage(Fault):
    """The epoch cache or an index is damaged or lost: it must be made anew from the log.

    A damaged epoch cache may still be one that disagrees with the batches; nobody can tell which is right.
    """

    name = "damaged epoch cache or index"
    mean_s = 25

    def apply(self, world: "World") -> bool:
        node = any_of(world)
        assert node is not None
        wanted = (".index", ".timeindex")
        files = [
            path
            for path in node.fs.paths()
            if path.parent == LOG_PATH and (path.suffix in wanted or path.name == names.EPOCH_CHECKPOINT)
        ]
        if not files:
            return False
        path = files[int(world.random.random() * len(files))]
        size_bytes = len(node.fs.durable_content(path))
        if size_bytes and world.random.random() < 0.7:
            if path.name == names.EPOCH_CHECKPOINT and not _is_doubtful(world, node):
                return False
            node.fs.damage(path, "bit_flip", int(world.random.random() * size_bytes), world.random)
        elif not node.is_up:
            _remove(node, path)
        else:
            return False
        return True


class SidecarDamage(Fault):
    """Both slots of the sidecar are damaged: the disk shows that it forgot."""

    name = "damaged sidecar"
    mean_s = 30

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_voter and node.is_on)
        harm = Harm(noticed=True, identity=True, peers=True)
        if node is None or not node.fs.exists(SIDECAR) or not _may_lose_its_past(world, node, harm):
            return False
        _power_off(world, node)
        world.fault_budget.note(node, harm)
        for slot in (0, 1):
            node.fs.damage(
                SIDECAR, "bit_flip", slot * SLOT_BYTES + int(world.random.random() * HEAD_BYTES), world.random
            )
        return True


class SidecarSlotDamage(Fault):
    """The newest slot of the sidecar is damaged: what it says is what it said before."""

    name = "damaged sidecar slot"
    mean_s = 30

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_voter and node.is_on)
        if node is None:
            return False
        slots = slots_of(node)
        if len(slots) < 2:
            return False
        if not _may_lose_its_past(world, node, _without_newest(slots)[1]):
            return False
        _power_off(world, node)
        # The power cut may have taken what was not synced: only the slot that counts now is damaged.
        slots = slots_of(node)
        if len(slots) < 2:
            return False
        new, harm = _without_newest(slots)
        if not is_allowed(world, node, harm):
            return False
        world.fault_budget.note(node, harm)
        node.fs.damage(
            SIDECAR, "bit_flip", new * SLOT_BYTES + int(world.random.random() * HEAD_BYTES), world.random
        )
        return True


def _without_newest(slots: dict[int, tuple[int, SidecarState]]) -> tuple[int, Harm]:
    """Which slot is the newest, and what the disk forgets without it: the start, or what it noted since."""
    old, new = sorted(slots, key=lambda slot: slots[slot][0])
    counter = slots[old][1].local_state.start_counter
    if counter < slots[new][1].local_state.start_counter:
        return new, Harm(identity=True, peers=True, start_counter=counter)
    return new, Harm(perhaps=True, peers=True)


# --- what is lost -------------------------------------------------------------------------------------------


def _may_lose_its_past(world: "World", node: "SimNode", harm: Harm) -> bool:
    return is_allowed(world, node, harm) and may_go_down(world, node)


def _remove(node: "SimNode", path: Path) -> None:
    """A file is gone, durably; nothing goes wrong with that."""
    fault, node.disk_fault = node.disk_fault, None
    node.fs.unlink(path)
    node.fs.sync_everything()
    node.disk_fault = fault


def _power_off(world: "World", node: "SimNode") -> None:
    """Off, and back after a while: time enough to do something to the disk."""
    if node.is_on:
        node.cut_power(down_us=down_us(world))


class LostElection(Fault):
    """The election file is gone. Of a directory that is new it says what the next start writes anyway."""

    name = "lost quorum-state"
    mean_s = 25

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_voter and node.is_on)
        if node is None:
            return False
        harm = Harm(perhaps=True) if _knows_no_epoch(node) else Harm(noticed=True)
        if not _may_lose_its_past(world, node, harm):
            return False
        _power_off(world, node)
        if not node.fs.exists(ELECTION):
            return False
        world.fault_budget.note(node, harm)
        _remove(node, ELECTION)
        return True


def _knows_no_epoch(node: "SimNode") -> bool:
    """Whether a voter knows epoch 0 alone: nothing was promised in it."""
    return node.raft_node is not None and node.raft_node.epoch == 0


class LostSidecar(Fault):
    """The sidecar is gone; only the other voters can tell."""

    name = "lost sidecar"
    mean_s = 25

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_voter and node.is_on)
        harm = Harm(identity=True, peers=True, start_counter=0)
        if node is None or not _may_lose_its_past(world, node, harm):
            return False
        _power_off(world, node)
        if not node.fs.exists(SIDECAR):
            return False
        world.fault_budget.note(node, harm)
        _remove(node, SIDECAR)
        return True


class LostDisk(Fault):
    """A disk is replaced by an empty one, which the operator formats."""

    name = "lost disk"
    mean_s = 25

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_on)
        harm = Harm(identity=True, peers=True, start_counter=WIPED)
        if node is None or not _may_lose_its_past(world, node, harm):
            return False
        _power_off(world, node)
        world.fault_budget.note(node, harm)
        node.disk_fault = None
        node.wipe()
        return True


class Backup(Fault):
    """Somebody copies a directory, which nobody should."""

    name = "backup taken"
    mean_s = 8

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_voter)
        if node is None:
            return False
        world.backups.setdefault(node.id, []).append(node.fs.copy())
        del world.backups[node.id][:-3]
        return True


class RestoredBackup(Fault):
    """An old copy of a directory comes back in the place of the disk."""

    name = "restored backup"
    needs = (Backup,)
    mean_s = 20

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.id in world.backups and node.is_on)
        if node is None:
            return False
        copies = world.backups[node.id]
        return restore(world, node, copies[int(world.random.random() * len(copies))])


def restore(world: "World", node: "SimNode", backup: SimFileSystem) -> bool:
    """Put a copy of a backup in the place of the disk, if this cluster may come to that; whether it was."""
    copy = backup.copy()
    copy.cut_power(world.random)
    now, node.fs = node.fs, copy  # only to read what the copy says
    state = sidecar_of(node)
    node.fs = now
    if state is None:
        return False
    harm = Harm(identity=True, peers=True, start_counter=state.local_state.start_counter)
    if not _may_lose_its_past(world, node, harm):
        return False
    _power_off(world, node)
    world.fault_budget.note(node, harm)
    node.use(copy)
    node.look_at_disk([])
    return True


class LostTail(Fault):
    """A disk said that it had synced, and had not: after a power cut the log's end is gone."""

    name = "lost write"
    mean_s = 12

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_on and node.is_voter)
        if node is None or not may_go_down(world, node):
            return False
        harm = Harm(records_from=0)
        if not is_allowed(world, node, harm):
            return False
        places = durable_bytes(node, 1 << 62)
        state = sidecar_of(node)
        if not places or state is None:
            return False
        path, end = places[-1]
        flushed = dict(
            durable_bytes(node, state.recovery_point.offset if state.recovery_point is not None else 0)
        )
        start = flushed.get(path, 0)
        if start >= end:
            return False
        _power_off(world, node)
        world.fault_budget.note(node, harm)
        position = start + int(world.random.random() * (end - start))
        kind = ("truncation", "zeroed_sector", "bit_flip")[int(world.random.random() * 3)]
        if position - position % SECTOR_BYTES < start:
            kind = "truncation" if kind == "zeroed_sector" else kind
        node.fs.damage(path, kind, position, world.random)
        return True


DISK_FAULTS: tuple[type[Fault], ...] = (
    SlowDisk,
    HungDisk,
    DiskFull,
    FailingSnapshots,
    FailedSync,
    FailedSyncFull,
    FailedDirectorySync,
    FailedWrite,
    WriteWithoutRoom,
    ShortWrite,
    FailedTruncate,
    FailedRename,
    FailedOpen,
    FailedUnlink,
    FailedRead,
    LogBitRot,
    LogZeroedSector,
    LogMisdirectedWrite,
    LogBadSector,
    LogCutShort,
    ElectionBitRot,
    EpochFileDamage,
    SidecarDamage,
    SidecarSlotDamage,
    LostElection,
    LostSidecar,
    LostDisk,
    Backup,
    RestoredBackup,
    LostTail,
)
