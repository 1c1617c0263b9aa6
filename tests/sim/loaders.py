"""Who gives the leader much to do at once? A client that does not wait for one answer before it asks again.

A `Loader` sends bursts: several requests on one connection, each with a group of changes, some of which
delete or append to a list. So batches hold many records, and more is appended while a flush runs. What
becomes of them is counted and is no part of the clients' history; that every node holds the same in the end
is judged for all records alike.
"""

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, TypeVar

from kraftd.errors import ErrorCode
from kraftd.protocol.codec import SealedResponse, encode_request
from kraftd.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kraftd.types import NodeId
from tests.sim.clients import BROKER, CLIENT_ID, Wire

if TYPE_CHECKING:
    from tests.sim.world import World

Drawn = TypeVar("Drawn")

SET, DELETE, APPEND = 0, 1, 2
LIST = "metric.reporters"
"""The config that is appended to."""
GROUPS = (1, 1, 3, 10, 30)
"""How many changes a request has."""
REQUESTS_MAX = 8
BROKERS = ("", "1", "2")
MEAN_S = 6.0
"""The mean time between two bursts."""


class Loader:
    """One client that never waits."""

    def __init__(self, number: int, world: "World", random: Random) -> None:
        self.machine = 1_000 + number
        self.world = world
        self._random = random
        self._wire: Wire | None = None
        self._last_number = 0
        world.network.add_host(self.machine)

    def start(self) -> None:
        """Begin to work."""
        self._rest()

    def burst(self, node_id: NodeId, requests: int | None = None) -> None:
        """Ask a node for several changes at once."""
        if self._wire is None or self._wire.is_over or self._wire.node != node_id:
            if self._wire is not None:
                self._wire.hang_up()
            self._wire = Wire(self, node_id)
        for _ in range(requests or 1 + int(self._random.random() * REQUESTS_MAX)):
            self._last_number += 1
            self.world.count("call", self.machine)
            self._wire.ask(b"".join(encode_request(1, self._last_number, CLIENT_ID, self._request())))

    def answered(self, wire: Wire, sealed: SealedResponse) -> None:
        """Implements `Asker`."""
        del wire
        answer = sealed.open((IncrementalAlterConfigsRequest.API_KEY, 1))
        errors = {one.error_code for one in answer.responses}
        is_done = errors == {ErrorCode.NONE}
        self.world.statistics["load ok" if is_done else "load refused"] += 1
        self.world.acknowledged += is_done

    def lost(self, wire: Wire, *, was_asked: bool) -> None:
        """Implements `Asker`."""
        del was_asked
        if wire is self._wire:
            self._wire = None

    def _rest(self) -> None:
        self.world.at(int(self._random.expovariate(1 / MEAN_S) * 1_000_000), self._next)

    def _next(self) -> None:
        world = self.world
        if world.is_over:
            return
        leaders = [node.id for node in world.nodes.values() if node.is_leader]
        if leaders:
            self.burst(leaders[int(self._random.random() * len(leaders))])
        self._rest()

    def _request(self) -> IncrementalAlterConfigsRequest:
        changes = [self._change(number) for number in range(self._draw(GROUPS))]
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            BROKER, self._draw(BROKERS), tuple(changes)
        )
        return IncrementalAlterConfigsRequest((resource,))

    def _change(self, number: int) -> IncrementalAlterConfigsRequestAlterableConfig:
        draw = self._random.random()
        if number == 0 and draw < 0.3:
            return IncrementalAlterConfigsRequestAlterableConfig(LIST, APPEND, f"r{int(draw * 20)}")
        operation, value = (DELETE, None) if draw < 0.45 else (SET, f"{self._last_number}")
        return IncrementalAlterConfigsRequestAlterableConfig(f"load.{number}", operation, value)

    def _draw(self, choices: Sequence[Drawn]) -> Drawn:
        return choices[int(self._random.random() * len(choices))]
