"""What goes wrong when two rare things meet: a slow disk and an election, a lost disk and a new leader.

Drawn one by one, such pairs hardly ever meet: of 374 elections none was won by a member whose log was not
flushed to its end. Each class here brings two of them together, and leaves the moment to chance.
"""

from typing import TYPE_CHECKING

from tests.sim.fault_base import MS, Fault, S, any_of, any_up, down_us, later, may_go_down
from tests.sim.fault_disks import LostDisk, restore

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World

OFTEN = 0.35
"""How many seeds have a fault that everything else should meet."""


def _leader(world: "World") -> "SimNode | None":
    return any_of(world, lambda node: node.is_leader)


def _take_away(world: "World", node: "SimNode") -> None:
    """A leader ends, or loses its power, or nobody hears it any more."""
    draw = world.random.random()
    if draw < 0.3:
        for other in world.node_ids:
            if other != node.id:
                world.network.cut(node.id, other)
        world.at(world.draw_us(1 * S, 6 * S), lambda: world.network.heal(node.id))
    elif node.is_up and may_go_down(world, node):
        (node.crash if draw < 0.7 else node.cut_power)(down_us=down_us(world))


class SlowFlushesAndElection(Fault):
    """One follower takes much in and flushes slowly, the others hear nothing of it; the leader goes.

    Whoever has a longer log than it claims, since it claims what it has flushed, is elected only by voters
    that have less.
    """

    name = "slow flushes and an election"
    mean_s = 8
    on_part = OFTEN

    def apply(self, world: "World") -> bool:
        leader = _leader(world)
        others = [node for node in world.nodes.values() if node is not leader and node.is_voter]
        if leader is None or not others:
            return False
        slow = others[int(world.random.random() * len(others))]
        flush_us = world.draw_us(500 * MS, 4 * S)
        slow.slow_flush = max(1.0, flush_us / max(1, world.shape.fsync_us))
        for node in others:
            if node is not slow and world.random.random() < 0.9:
                world.network.cut(leader.id, node.id)
        world.loader.burst(leader.id)
        later(world, world.draw_us(20 * MS, 300 * MS), lambda: _take_away(world, leader))

        def recover() -> None:
            slow.slow_flush = 1.0
            for node in others:
                world.network.heal(leader.id, node.id)

        later(world, world.draw_us(1 * S, 6 * S), recover)
        return True


class LostDiskAndElections(Fault):
    """A disk is replaced, and while its node catches up the lead changes hands."""

    name = "lost disk and elections"
    mean_s = 25

    def apply(self, world: "World") -> bool:
        if not LostDisk().apply(world):
            return False
        for _ in range(1 + int(world.random.random() * 3)):
            later(world, world.draw_us(0, 6 * S), lambda: _leaders_go(world))
        return True


class RestoreAndCampaign(Fault):
    """A backup comes back, perhaps twice, and there are elections while the copy finds out what it is."""

    name = "restored backup and campaigns"
    mean_s = 20

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.id in world.backups and node.is_on)
        if node is None:
            return False
        copies = world.backups[node.id]
        copy = copies[int(world.random.random() * len(copies))]
        if not restore(world, node, copy):
            return False
        later(world, world.draw_us(0, 5 * S), lambda: _leaders_go(world))
        if world.random.random() < 0.5:
            later(world, world.draw_us(1 * S, 12 * S), lambda: restore(world, node, copy))
        return True


class PowerCutInAFlush(Fault):
    """A machine loses its power while its log is being flushed."""

    name = "power cut in a flush"
    mean_s = 10

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None or not may_go_down(world, node):
            return False
        node.cuts_in_flush = True
        if node.is_leader:
            world.loader.burst(node.id)
        return True


def _leaders_go(world: "World") -> None:
    for node in list(world.nodes.values()):
        if node.is_leader:
            _take_away(world, node)


MEETINGS: tuple[type[Fault], ...] = (
    SlowFlushesAndElection,
    LostDiskAndElections,
    RestoreAndCampaign,
    PowerCutInAFlush,
)
