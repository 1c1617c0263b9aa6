"""What goes wrong when two rare things meet: a slow disk and an election, a lost disk and a new leader.

Drawn one by one, such pairs hardly ever meet: of 374 elections none was won by a node whose log was not
flushed to its end. Each class here brings two of them together, and leaves the moment to chance.
"""

from typing import TYPE_CHECKING

from kraftd.types import NO_NODE
from tests.sim.fault_base import MS, Fault, S, any_of, any_up, down_us, later, may_go_down
from tests.sim.fault_disks import Backup, LostDisk, restore
from tests.sim.fault_strangers import resign

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World

OFTEN = 0.45
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
    mean_s = 5
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


class LeaderInAMinority(Fault):
    """A leader keeps too few followers, goes on with them, and is asked; the others elect somebody else.

    Five voters: node 1 leads and keeps node 2. What it appends is on two logs and is never committed, and who
    reads from it must not be answered by what node 2 alone says.
    """

    name = "leader in a minority"
    mean_s = 10
    on_part = OFTEN

    def apply(self, world: "World") -> bool:
        leader = _leader(world)
        if leader is None or len(world.voters) < 3:
            return False
        others = [n for n in world.node_ids if n != leader.id]
        world.random.shuffle(others)
        kept = (leader.id, *others[: (len(world.voters) - 1) // 2 - 1])
        for one in kept:
            for other in others:
                if other not in kept:
                    world.network.cut(one, other)
        for stale_reader in world.stale_readers:
            stale_reader.prepare()
        if world.random.random() < 0.3:
            leader.slow_flush = world.draw_us(100 * MS, 4 * S) / max(1, world.shape.fsync_us)
        later(world, world.draw_us(0, 1 * S), lambda: leader.is_leader and world.loader.burst(leader.id))
        fetch_us = leader.timing.fetch_timeout_ms * MS

        def heal() -> None:
            leader.slow_flush = 1.0
            for one in kept:
                world.network.heal(one)

        world.at(world.draw_us(fetch_us, 4 * fetch_us + 2 * S), heal)
        return True


class LogsThatPart(Fault):
    """Several leaders in turn write what nobody else hears, so that logs part in more than one epoch."""

    name = "logs that part"
    mean_s = 15
    on_part = 0.2

    def apply(self, world: "World") -> bool:
        if len(world.voters) < 3 or _leader(world) is None:
            return False
        rounds = 2 + int(world.random.random() * 3)
        until_us = world.now_us + 15 * S

        def part() -> None:
            nonlocal rounds
            leader = _leader(world)
            if world.now_us > until_us or world.is_calm:
                return
            if leader is None:
                later(world, 50 * MS, part)
                return
            rounds -= 1
            for other in world.node_ids:
                if other != leader.id:
                    world.network.cut(leader.id, other, one_way=world.random.random() < 0.3)
            world.loader.burst(leader.id)
            world.at(world.draw_us(1 * S, 8 * S), lambda: world.network.heal(leader.id))
            if rounds:
                later(world, world.draw_us(500 * MS, 3 * S), part)

        part()
        return True


class CandidateDies(Fault):
    """Whoever campaigns next dies while it does; its start finds that it voted for itself.

    At times what it lacks is committed until then, and whom it asks is an old copy of a voter.
    """

    name = "candidate dies"
    mean_s = 12
    on_part = 0.2
    needs = (Backup,)

    def apply(self, world: "World") -> bool:
        leader = _leader(world)
        if leader is None or len(world.voters) < 2:
            return False
        random = world.random

        def die(node: "SimNode") -> None:
            if not node.is_up or not may_go_down(world, node):
                return
            down = world.draw_us(500 * MS, 4 * S)
            (node.crash if random.random() < 0.7 else node.cut_power)(down_us=down)
            if random.random() < 0.6:
                later(world, down - 200 * MS, lambda: _leave_with_an_old_copy(world, node))

        world.on_candidate = die
        _take_away(world, leader)
        return True


def _leave_with_an_old_copy(world: "World", node: "SimNode") -> None:
    """Of a majority that this node is about to be in, one voter is an old copy; the others are down."""
    voters = [world.nodes[n] for n in sorted(world.voters) if n != node.id]
    world.random.shuffle(voters)
    old = next((n for n in voters if n.id in world.backups), None)
    if old is None or not restore(world, old, world.backups[old.id][0]):
        return
    needed = len(world.voters) // 2 + 1 - 2
    for other in [n for n in voters if n is not old][needed:]:
        if other.is_up and may_go_down(world, other):
            other.crash(down_us=world.draw_us(2 * S, 8 * S))


class ImpatientOperators(Fault):
    """Several operators ask a leader to go as soon as it leads, and at times its process is told to stop."""

    name = "impatient operators"
    mean_s = 15

    def apply(self, world: "World") -> bool:
        leader = _leader(world)
        if leader is None:
            return False
        stops = world.random.random() < 0.5 and may_go_down(world, leader)
        for number in range(2 + int(world.random.random() * 2)):
            later(world, number * world.draw_us(0, 300 * MS), lambda: _ask_to_go(world))
        if stops:
            later(world, world.draw_us(0, 1 * S), lambda: _stop_leaders(world))
        return True


def _ask_to_go(world: "World") -> None:
    leader = _leader(world)
    if leader is not None:
        named = world.random.random() < 0.5
        voters = sorted(world.voters)
        to = voters[int(world.random.random() * len(voters))] if named else NO_NODE
        resign(world, leader, to, timeout_ms=100 + int(world.random.random() * 1_900))


def _stop_leaders(world: "World") -> None:
    for node in list(world.nodes.values()):
        if node.is_leader and may_go_down(world, node):
            node.stop(down_us=down_us(world))


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
    needs = (Backup,)

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
            later(world, world.draw_us(1 * S, 14 * S), lambda: _leaders_go(world))
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
    LeaderInAMinority,
    LogsThatPart,
    CandidateDies,
    ImpatientOperators,
    LostDiskAndElections,
    RestoreAndCampaign,
    PowerCutInAFlush,
)
