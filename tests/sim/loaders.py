"""Who gives the leader much to do at once? A client that does not wait for one response before it asks again.

A `Loader` sends bursts: several requests on one connection, each with a group of changes, some of which
delete or append to a list. So batches hold many records, and more is appended while a flush runs. What
becomes of them is counted and is no part of the clients' history; that every node holds the same in the end
is judged for all records alike.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, TypeVar

from kraftd.audit.linearizability import Operation
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import ConfigOperation
from kraftd.protocol.codec import UndecodedResponse
from kraftd.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.types import NodeId
from tests.sim.clients import BROKER, CLIENT_ID, KEY, Wire

if TYPE_CHECKING:
    from tests.sim.world import World

Drawn = TypeVar("Drawn")

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
LIST = "metric.reporters"
"""The config that is appended to."""
LIST_DEFAULT = "org.apache.kafka.common.metrics.JmxReporter"
GROUPS = (1, 1, 3, 10, 30)
"""How many changes a request has for a resource."""
REQUESTS_MAX = 8
BROKERS = ("", "1", "2")
LIST_PART, DELETE_PART = 0.4, 0.2
LIST_ITEMS = 12
ITEM = "item"
_LIST_CHANGES = ((0.6, APPEND, ITEM), (0.75, SUBTRACT, ITEM), (0.9, SET, ""), (1.0, DELETE, None))
MEAN_S = 10.0
LONG_MEAN_S = 3.0
READ_PART = 0.4
"""The mean time between two bursts."""

RECORDS = 600
"""How many records a log gets from this client; then each request has one change. A long log gets more."""
LONG_RECORDS = 50_000
LONG_GROUP = 2_000
"""How many records a long log gets, and by how many at a time."""
LONG_LISTS = 300
LONG_VALUE = "x" * 32_000
"""How many lists it gets that are as long as a value may be: an append to all of them is above 8 MiB."""
LISTS_A_REQUEST = 30


class Loader:
    """One client that never waits."""

    def __init__(self, number: int, world: "World", random: Random) -> None:
        self.number = number
        self.machine = 1_000 + number
        self.world = world
        self._random = random
        self._wire: Wire | None = None
        self._last_number = 0
        self._reads: dict[int, tuple[str, int]] = {}
        """By correlation: what is being read, and since when."""
        self._records_left = RECORDS
        self._long = self._long_requests() if world.shape.is_long else iter(())
        world.network.add_host(self.machine)

    def start(self) -> None:
        """Begin to work."""
        self._rest()

    def burst(self, node_id: NodeId, requests: int | None = None) -> None:
        """Ask a node for several changes at once."""
        for _ in range(requests or 1 + int(self._random.random() * REQUESTS_MAX)):
            self._ask(node_id, self._request())

    def read(self, node_id: NodeId) -> None:
        """Ask a node for what clients wrote, several times at once."""
        for _ in range(1 + int(self._random.random() * REQUESTS_MAX)):
            key = f"{KEY}{int(self._random.random() * self.world.shape.keys)}"
            asked = DescribeConfigsRequestDescribeConfigsResource(BROKER, "", (key,))
            self._ask(node_id, DescribeConfigsRequest((asked,)))
            self._reads[self._last_number] = key, self.world.now_us

    def _ask(self, node_id: NodeId, request: object) -> None:
        wire = self._wire
        if wire is None or wire.is_over or wire.node != node_id:
            if wire is not None:
                wire.hang_up()
            self._reads.clear()
            wire = self._wire = Wire(self, node_id)
        self._last_number += 1
        self.world.count("call", self.machine)
        wire.ask(b"".join(MSGPACK.encode_request(request.MAX_VERSION, self._last_number, CLIENT_ID, request)))

    def answered(self, wire: Wire, undecoded: UndecodedResponse) -> None:
        """Implements `Asker`."""
        read = self._reads.pop(undecoded.correlation_id, None)
        if read is not None:
            if wire is self._wire:
                self._take_read(*read, undecoded)
            return
        response = undecoded.decode((IncrementalAlterConfigsRequest.API_KEY, 1))
        errors = {one.error_code for one in response.responses}
        is_done = errors == {ErrorCode.NONE}
        self.world.statistics["load ok" if is_done else "load refused"] += 1
        self.world.acknowledged += is_done

    def _take_read(self, key: str, called_us: int, undecoded: UndecodedResponse) -> None:
        """A read that was answered is a part of the clients' history."""
        expected = (DescribeConfigsRequest.API_KEY, DescribeConfigsRequest.MAX_VERSION)
        result = undecoded.decode(expected).results[0]
        is_done = result.error_code == ErrorCode.NONE
        self.world.statistics["load read ok" if is_done else "load read refused"] += 1
        if result.error_code not in (ErrorCode.NONE, ErrorCode.NOT_CONTROLLER) and self.world.is_undisturbed:
            self.world.refused.append((f"read of m{self.machine}", result.error_code, result.error_message))
        if is_done:
            value = next((config.value for config in result.configs if config.name == key), None)
            self.world.history.append(
                Operation(self.number, key, "read", value, called_us, self.world.now_us, "ok")
            )

    def lost(self, wire: Wire, *, was_asked: bool) -> None:
        """Implements `Asker`."""
        del was_asked
        if wire is self._wire:
            self._wire = None

    def _rest(self) -> None:
        mean_s = LONG_MEAN_S if self.world.shape.is_long else MEAN_S
        self.world.at(int(self._random.expovariate(1 / mean_s) * 1_000_000), self._next)

    def _next(self) -> None:
        world = self.world
        if world.is_over:
            return
        leaders = [node.id for node in world.nodes.values() if node.is_leader]
        if leaders and not world.is_undisturbed:
            work = self.read if self._random.random() < READ_PART else self.burst
            work(leaders[int(self._random.random() * len(leaders))])
        self._rest()

    def _request(self) -> IncrementalAlterConfigsRequest:
        long = next(self._long, None)
        if long is not None:
            return long
        names = self._random.sample(BROKERS, self._draw((1, 1, 2, 3)) if self._records_left > 0 else 1)
        return IncrementalAlterConfigsRequest(tuple(_resource(name, self._changes()) for name in names))

    def _changes(self) -> list[IncrementalAlterConfigsRequestAlterableConfig]:
        """What becomes of one resource."""
        found = [self._change_of_list()] if self._random.random() < LIST_PART else []
        size = self._draw(GROUPS) if self._records_left > 0 else 1
        self._records_left -= size
        for number in range(size):
            delete = self._random.random() < DELETE_PART
            operation, value = (DELETE, None) if delete else (SET, f"{self._last_number}")
            found.append(IncrementalAlterConfigsRequestAlterableConfig(f"load.{number}", operation, value))
        return found

    def _change_of_list(self) -> IncrementalAlterConfigsRequestAlterableConfig:
        draw, item = self._random.random(), f"r{int(self._random.random() * LIST_ITEMS)}"
        operation, value = next((done, text) for below, done, text in _LIST_CHANGES if draw < below)
        value = item if value == ITEM else value
        return IncrementalAlterConfigsRequestAlterableConfig(LIST, operation, value)

    def _long_requests(self) -> Iterator[IncrementalAlterConfigsRequest]:
        """Many small records; lists as long as a value may be; then appends to many of them at once, so that
        two operations make more than a batch may hold, and one is too large as a whole (KAFKA-14204).
        """
        nodes = self.world.nodes.values()
        while max((node.marks[-1].end_offset for node in nodes if node.marks), default=0) < LONG_RECORDS:
            value = str(self._last_number)
            changes = [_set(f"load.{name}", value) for name in range(LONG_GROUP // len(BROKERS))]
            yield IncrementalAlterConfigsRequest(tuple(_resource(name, changes) for name in BROKERS))
        lists = [str(number) for number in range(10, 10 + LONG_LISTS)]
        for first in range(0, LONG_LISTS, LISTS_A_REQUEST):
            names = lists[first : first + LISTS_A_REQUEST]
            filled = [_resource(name, [_set(LIST, LONG_VALUE)]) for name in names]
            yield IncrementalAlterConfigsRequest(tuple(filled))
        more = IncrementalAlterConfigsRequestAlterableConfig(LIST, APPEND, "y")
        for count in (LONG_LISTS * 2 // 3, LONG_LISTS * 2 // 3, LONG_LISTS):
            yield IncrementalAlterConfigsRequest(tuple(_resource(name, [more]) for name in lists[:count]))

    def _draw(self, choices: Sequence[Drawn]) -> Drawn:
        return choices[int(self._random.random() * len(choices))]


def _resource(
    name: str, changes: Sequence[IncrementalAlterConfigsRequestAlterableConfig]
) -> IncrementalAlterConfigsRequestAlterConfigsResource:
    return IncrementalAlterConfigsRequestAlterConfigsResource(BROKER, name, tuple(changes))


def _set(name: str, value: str) -> IncrementalAlterConfigsRequestAlterableConfig:
    return IncrementalAlterConfigsRequestAlterableConfig(name, SET, value)
