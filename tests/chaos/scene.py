"""What a fault of the controllers has at hand, and whom it hits.

All faults under way share whom they hurt: two hurt nodes of three are no quorum, and often one node is hurt
in two ways.
"""

import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from kraftd.protocol.messages import ResignLeaderRequest
from kraftd.types import NodeId
from tests.chaos.clients import ask_once
from tests.chaos.quorum import NODES, Quorum

SAME = 0.5
"""How often a second fault hits the node that suffers already: two hurt nodes of three are no quorum."""

LEADER = 0.7
"""How often else it hits the leader."""

SHORT_S, LONG_S = (0.1, 0.7), (1.0, 2.5)
"""Less than the others are patient, or so much more that a new leader is there when it is over."""

LONG = 0.6
"""How often it is long."""


class Scene:
    """What a fault has at hand. `hurt` counts, over all faults under way, what each node suffers."""

    def __init__(
        self, quorum: Quorum, rng: random.Random, say: Callable[[str], None], hurt: Counter[NodeId]
    ) -> None:
        self.quorum = quorum
        self.rng = rng
        self.say = say
        self._hurt = hurt
        self._victims: list[NodeId] = []

    def victim(self) -> NodeId:
        """Who it is: mostly who suffers already; else the leader, half of the time; else anybody."""
        leader, suffering = self.quorum.leader, sorted(self._hurt.elements())
        if suffering and self.rng.random() < SAME:
            chosen = self.rng.choice(suffering)
        elif leader is not None and self.rng.random() < LEADER:
            chosen = leader
        else:
            chosen = self.rng.choice(NODES)
        self.hurts(chosen)
        return chosen

    def hurts(self, node_id: NodeId) -> None:
        """A fault begins on this node."""
        self._victims.append(node_id)
        self._hurt[node_id] += 1

    def relieve(self) -> None:
        """A fault on this node is undone."""
        self._hurt.subtract(self._victims)
        self._victims.clear()

    def length_s(self) -> float:
        """How long nothing is heard of the victim."""
        return self.rng.uniform(*(LONG_S if self.rng.random() < LONG else SHORT_S))

    def called(self, node_id: NodeId) -> str:
        """How a node is named in a line."""
        return f"node {node_id}" + (" (leader)" if node_id == self.quorum.leader else "")


Fault: TypeAlias = Callable[[Scene], Awaitable[None]]


async def hand_over(quorum: Quorum, to: NodeId) -> None:
    """Ask the leader to resign in favour of a node, or of anybody (-1); it may not be able to."""
    with contextlib.suppress(OSError, EOFError, TimeoutError):
        await ask_once(quorum.ports[quorum.leader or NODES[0]], ResignLeaderRequest(to=to, timeout_ms=2_000))
