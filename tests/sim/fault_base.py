"""What a fault is, and how it picks its victims.

A fault is a class with a name, a mean time between two of it (on a seed that has it at all) and `apply`,
which does it now and says whether it could. All chance is `world.random`; whatever ends a fault is put on
the world's queue. Nothing here judges what a fault may cost (`fault_budget`).
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, ClassVar

from tests.sim.fault_budget import Harm, Judgement

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World

MS = 1_000
S = 1_000_000

ON_PART = 0.12
"""How many seeds have a class of fault, and so how many classes a seed has."""


class Fault:
    """One way in which things go wrong."""

    name: ClassVar[str]
    mean_s: ClassVar[float] = 10.0
    on_part: ClassVar[float] = ON_PART
    needs: "ClassVar[tuple[type[Fault], ...]]" = ()
    """What a seed that has this one has as well: there is nothing to harm else."""

    def apply(self, world: "World") -> bool:
        """Let it go wrong now; whether it could."""
        raise NotImplementedError


def any_of(world: "World", wanted: "Callable[[SimNode], bool]" = lambda _: True) -> "SimNode | None":
    """One of the nodes that are wanted; leaders are wanted twice as often."""
    nodes = [node for node in world.nodes.values() if wanted(node)]
    nodes += [node for node in nodes if node.is_leader]
    return nodes[int(world.random.random() * len(nodes))] if nodes else None


def any_up(world: "World") -> "SimNode | None":
    """A node with a process."""
    return any_of(world, lambda node: node.is_up and node.parts is not None)


def pair_of(world: "World") -> "tuple[SimNode, SimNode] | None":
    """Two different nodes; the first is often a leader."""
    one = any_of(world)
    other = any_of(world, lambda node: node is not one)
    return (one, other) if one is not None and other is not None else None


def some_of(world: "World") -> "list[SimNode]":
    """A random part of the nodes, at least one and not all."""
    nodes = list(world.nodes.values())
    if len(nodes) < 2:
        return []
    world.random.shuffle(nodes)
    return nodes[: 1 + int(world.random.random() * (len(nodes) - 1))]


def down_us(world: "World") -> int:
    """For how long a machine stays away: mostly short, at times long."""
    if world.random.random() < 0.2:
        return world.draw_us(5 * S, 30 * S)
    return world.draw_us(50 * MS, 4 * S)


def may_go_down(world: "World", node: "SimNode") -> bool:
    """Whether this node may be started once more: an old copy that nobody has met yet may not (D-06)."""
    return world.fault_budget.may_start_again(node)


def later(world: "World", delay_us: int, action: "Callable[[], object]") -> None:
    """Do it after a while, with a chance of its own: what else happens changes nothing about it.

    Not if nothing is to go wrong any more by then.
    """
    own = Random(world.random.random())

    def act() -> None:
        if world.is_calm:
            return
        before, world.random = world.random, own
        action()
        world.random = before

    world.at(delay_us, act)


def is_allowed(world: "World", node: "SimNode", harm: Harm) -> bool:
    """Whether a disk may be harmed like this; a cluster that cannot go on is allowed to few seeds."""
    judgement = world.fault_budget.judge(node, harm)
    if judgement is Judgement.HALTS:
        return world.fault_budget.halts_are_allowed
    return judgement is Judgement.SURVIVES
