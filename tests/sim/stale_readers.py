"""Clients that ask where a response may be old: they know more than a client can, and wait for that moment.

A `StaleReader` rests until a new leader comes. If another node still believes that it leads, it writes
through the new one and then reads from the old one, again and again while both lead: an old leader that
answers is seen at once. If nobody else does, it reads from the new leader, of what was acknowledged last,
before that leader can have committed anything. What it is told goes into the history of all clients, so
nothing here checks a response.

Other clients are honest: they follow refusals, and come to an old leader by accident (`clients`).
"""

from collections import deque
from random import Random
from typing import TYPE_CHECKING

from kraftd.types import NodeId
from tests.sim.clients import READ, WRITE, Client, ClientStep

if TYPE_CHECKING:
    from tests.sim.world import World

ROUNDS = 6
"""How often an old leader is tried while a new one leads."""
PAUSE_US = 20_000
"""The longest time between two steps."""
PATIENCE_US = 600_000
"""How long a response is waited for, at least; at most twice that."""


class StaleReader(Client):
    """A client that asks only where it might be told something old."""

    def __init__(self, number: int, world: "World", random: Random) -> None:
        super().__init__(number, world, random)
        self._steps: deque[tuple[str, NodeId]] = deque()
        self._key = ""
        self._is_resting = False

    def start(self) -> None:
        """Connect to everybody, and wait to be told."""
        self.prepare()

    def prepare(self) -> None:
        """Be connected to every node, so that a question is there without delay."""
        for node_id in self._world.node_ids:
            self._wire_to(node_id)

    def on_leader(self, leader: NodeId) -> None:
        """A node came to lead."""
        nodes = self._world.nodes
        old = [n for n in self._world.node_ids if n != leader and nodes[n].is_leader]
        if old:
            self._key = self._any_key()
            self._do([(WRITE, leader), *((READ, n) for n in old)] * ROUNDS)
        else:
            self._key = self._world.newest_key or self._any_key()
            self._do([(READ, leader)])

    def read(self, node_id: NodeId) -> None:
        """Ask this node now."""
        self._do([(READ, node_id)])

    def write(self, node_id: NodeId) -> None:
        """Write through this node now."""
        self._key = self._any_key()
        self._do([(WRITE, node_id)])

    def is_reading(self, node_id: NodeId) -> bool:
        """Whether it waits for this node to answer a read."""
        return self._call is not None and self._call.kind == READ and self._leader == node_id

    def _do(self, steps: list[tuple[str, NodeId]]) -> None:
        self._steps = deque(steps)
        if self._call is None and not self._is_resting:
            self._next()

    def _choose(self) -> ClientStep | None:
        self._is_resting = False
        nodes = self._world.nodes
        while self._steps:
            kind, node_id = self._steps.popleft()
            if nodes[node_id].is_leader:
                self._leader = node_id
                return ClientStep(kind, self._key, self._new_value() if kind == WRITE else None)
        return None

    def _patience_us(self) -> int:
        return PATIENCE_US + int(self._random.random() * PATIENCE_US)

    def _rest(self, duration_us: int) -> None:
        self._is_resting = True
        super()._rest(min(duration_us, int(self._random.random() * PAUSE_US)))

    def _follow(self, leader: NodeId) -> None:
        """It goes where it wants."""

    def _try_another(self) -> None:
        """As above."""
