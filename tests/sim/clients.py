"""Who uses the cluster? Clients that write, read linearizably and ask leaders to resign, over the network.

A client is a process on a machine of its own that speaks the daemon's protocol to one node at a time: it
greets, asks, waits, looks for the leader when it is told to, and gives up on a response after a while. What
it was told becomes the history that `kraftd.audit.linearizability` judges: NOT_CONTROLLER means that nothing
happened, everything else that is no success means that nobody knows (D-13).

A write sets one of a few configs to a value that nobody else writes; a client that does not know what became
of its write may write the same value again. All chance is the client's own.
"""

from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from kraftd.audit.linearizability import Operation
from kraftd.controller.configs import describe_configs
from kraftd.errors import ErrorCode, MalformedError
from kraftd.net.handshake import Identity
from kraftd.protocol import limits
from kraftd.protocol.codec import UndecodedResponse
from kraftd.protocol.framing import FrameReader
from kraftd.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    HandshakeRequest,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ResignLeaderRequest,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.types import NO_NODE, NodeId
from tests.sim.network import End, host_of

if TYPE_CHECKING:
    from tests.sim.world import World

BROKER = 4
KEY = "key."
"""So begins what clients write. Kafka defines no such config, so that nodes would not tell its value; and
what happens in a seed hangs on how long these names are. So nodes are told that they hold no secret."""
QUIET = 4
"""How much longer clients think in quiet times."""

AGAIN_US = 50_000
AGAIN_DOUBLINGS_MAX = 4
"""How soon a client asks again, and how much later when it is sent away again and again."""

WRITE, READ, RESIGN = "write", "read", "resign"

NOT_APPENDED = frozenset(
    {ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.POLICY_VIOLATION}
)
"""Refusals that promise that nothing was appended."""

CLIENT_ID = "simulated"
GREETING = b"".join(
    MSGPACK.encode_request(HandshakeRequest.MAX_VERSION, 0, CLIENT_ID, Identity(None, CLIENT_ID).greeting())
)


_is_secret_config = describe_configs.is_secret_config


def _is_secret(resource_type: int, name: str) -> bool:
    return not name.startswith(KEY) and _is_secret_config(resource_type, name)


describe_configs.is_secret_config = _is_secret


class ClientStep(NamedTuple):
    """What a client is about to do."""

    kind: str
    key: str
    value: object


class Call(msgspec.Struct):
    """An operation that is under way."""

    number: int
    kind: str
    key: str
    value: object
    called_us: int
    timeout: Any = None


class Asker(Protocol):
    """Whoever has connections to nodes."""

    machine: int
    world: "World"

    def answered(self, wire: "Wire", undecoded: UndecodedResponse) -> None:
        """Something came back."""

    def lost(self, wire: "Wire", *, was_asked: bool) -> None:
        """The connection could not be made, or is gone; what was asked on it may have been heard."""


class Client:
    """One client, one operation at a time."""

    def __init__(self, number: int, world: "World", random: Random) -> None:
        self.number = number
        self.machine = 1_000 + number
        self.acknowledged = 0
        self.world = self._world = world
        self._random = random
        self._loop = world.outside
        self._leader: NodeId = NO_NODE
        self._wires: dict[NodeId, Wire] = {}
        self._asked: Wire | None = None
        """Where the response to the current call would come from."""
        self._call: Call | None = None
        self._last_number = 0
        self._refusals = 0
        self._written = 0
        self._repeat: tuple[str, object] | None = None
        world.network.add_host(self.machine)

    def start(self) -> None:
        """Begin to work."""
        self._rest(self._think_us())

    # -- the life of a client

    def _rest(self, duration_us: int) -> None:
        self._world.at(duration_us, self._next)

    def _think_us(self) -> int:
        shape, part = self._world.shape, self._random.random()
        quiet = shape.quiet_every_us and self._world.now_us // shape.quiet_every_us % 2
        return int(part * 2 * (shape.think_us * QUIET if quiet else shape.think_us))

    def _next(self) -> None:
        """Take up the next operation."""
        world = self._world
        if world.is_over:
            return
        step = self._choose()
        if step is None:
            return
        self._last_number += 1
        self._call = call = Call(self._last_number, *step, world.now_us)
        world.count("call", self.machine)
        if world.sink is not None:
            world.tell(self.machine, "calls", kind=call.kind, key=call.key, value=call.value or "-")
        call.timeout = self._loop.call_later(self._patience_us() / 1_000_000, self._time_out, call)
        self._ask(call)

    def _choose(self) -> ClientStep | None:
        """What to do next, if there is something to do."""
        shape = self._world.shape
        draw = self._random.random()
        key = self._any_key()
        if self._repeat is not None:
            again, self._repeat = self._repeat, None
            return ClientStep(WRITE, *again)
        if draw < shape.resign_part and not self._world.is_undisturbed:
            return ClientStep(RESIGN, key, None)
        if draw < shape.resign_part + shape.write_part:
            return ClientStep(WRITE, key, self._new_value())
        return ClientStep(READ, key, None)

    def _any_key(self) -> str:
        return f"{KEY}{int(self._random.random() * self._world.shape.keys)}"

    def _new_value(self) -> str:
        self._written += 1
        return f"{self.number}.{self._written}" + "x" * int(
            self._random.random() * self._world.shape.value_bytes
        )

    def _patience_us(self) -> int:
        patience_us = self._world.shape.patience_us
        return patience_us // 2 + int(self._random.random() * patience_us)

    def _ask(self, call: Call) -> None:
        if self._leader == NO_NODE:
            self._leader = self._any_node()
        self._asked = wire = self._wire_to(self._leader)
        wire.ask(_frames(call))

    def _wire_to(self, node_id: NodeId) -> "Wire":
        wire = self._wires.get(node_id)
        if wire is None or wire.is_over:
            wire = self._wires[node_id] = Wire(self, node_id)
        return wire

    def _any_node(self) -> NodeId:
        nodes = self._world.node_ids
        return nodes[int(self._random.random() * len(nodes))]

    def _time_out(self, call: Call) -> None:
        """No answer in time: the connection may be dead, and nobody would say so."""
        if call is not self._call:
            return
        wire, self._asked = self._asked, None
        if wire is not None:
            self._wires.pop(wire.node, None)
            wire.hang_up()
        self._ended(call, "unknown", None)
        self._try_another()

    def give_up(self) -> None:
        """Wait for nothing any more."""
        if self._call is not None:
            self._ended(self._call, "unknown", None)

    def lost(self, wire: "Wire", *, was_asked: bool) -> None:
        """The connection could not be made, or is gone; what was asked on it may have been heard."""
        if self._wires.get(wire.node) is wire:
            del self._wires[wire.node]
        if wire is not self._asked:
            return
        self._asked = None
        call = self._call
        self._try_another()
        if call is not None:
            self._ended(call, "unknown" if was_asked else "failed", None)

    def answered(self, wire: "Wire", undecoded: UndecodedResponse) -> None:
        """Something came back."""
        call = self._call
        if wire is not self._asked or call is None or undecoded.correlation_id != call.number:
            return
        if call.kind == RESIGN:
            response = undecoded.decode((ResignLeaderRequest.API_KEY, 0))
            if response.error_code == ErrorCode.NONE and response.successor >= 0:
                self._leader = response.successor
            elif response.error_code:
                self._follow(response.leader_id)
            self._ended(call, "ok" if not response.error_code else "failed", None)
            return
        request = IncrementalAlterConfigsRequest if call.kind == WRITE else DescribeConfigsRequest
        response = undecoded.decode((request.API_KEY, request.MAX_VERSION))
        result = response.responses[0] if call.kind == WRITE else response.results[0]
        if result.error_code == ErrorCode.NONE:
            value = call.value
            if call.kind == READ:
                value = next((c.value for c in result.configs if c.name == call.key), None)
            self._ended(call, "ok", value)
            return
        if result.error_code == ErrorCode.NOT_CONTROLLER:
            self._follow(_leader_in(result.error_message or ""))
        elif self._world.is_undisturbed:
            who = f"{call.kind} of m{self.machine}"
            self._world.refused.append((who, result.error_code, result.error_message))
        safe = call.kind == READ or result.error_code in NOT_APPENDED
        self._ended(call, "failed" if safe else "unknown", None)

    def _follow(self, leader: NodeId) -> None:
        if leader >= 0 and leader != self._leader and leader in self._world.node_ids:
            self._leader = leader
        else:
            self._try_another()

    def _try_another(self) -> None:
        self._leader = self._any_node()

    def _ended(self, call: Call, outcome: str, value: object) -> None:
        world = self._world
        self._call = None
        call.timeout.cancel()
        if call.kind == WRITE or (call.kind == READ and outcome == "ok"):
            written = call.value if call.kind == WRITE else value
            # Where the outcome is unknown nobody returned: it may take effect at any time from now on.
            returned = world.now_us if outcome != "unknown" else None
            world.history.append(
                Operation(self.number, call.key, call.kind, written, call.called_us, returned, outcome)  # type: ignore[arg-type]
            )
        world.statistics[f"{call.kind} {outcome}"] += 1
        if call.kind == WRITE and outcome == "ok":
            self.acknowledged += 1
            world.acknowledged += 1
            world.newest_key = call.key
        if call.kind == WRITE and outcome == "unknown" and self._random.random() < world.shape.repeat_part:
            self._repeat = call.key, call.value
        if world.sink is not None:
            world.tell(
                self.machine, "ended", kind=call.kind, key=call.key, value=value or "-", outcome=outcome
            )
        # Whoever was sent away asks again soon; whoever was served thinks first.
        if outcome == "ok":
            self._refusals = 0
            self._rest(self._think_us())
        else:
            longest_us = AGAIN_US << min(self._refusals, AGAIN_DOUBLINGS_MAX)
            self._refusals += 1
            self._rest(longest_us // 2 + int(self._random.random() * longest_us))


class Wire:
    """A connection of a client; asyncio's protocol for its end."""

    def __init__(self, client: "Asker", node: NodeId) -> None:
        self.node = node
        self.is_over = False
        self._client = client
        self._end: End | None = None
        self._reader = FrameReader(limits.FRAME_BYTES_MAX)
        self._waiting: list[bytes] = []
        self._is_greeted = False
        self._was_asked = False
        world = client.world
        world.network.open(
            world.outside,
            client.machine,
            self,
            host_of(node),
            on_end=lambda _: None,
            on_error=self._failed,
            wanted=lambda: not self.is_over,
        )

    def ask(self, frame: bytes) -> None:
        """Send it as soon as the greeting is answered."""
        if self._is_greeted and self._end is not None:
            self._was_asked = True
            self._end.write(frame)
        else:
            self._waiting.append(frame)

    def hang_up(self) -> None:
        """Nobody listens here any more."""
        self.is_over = True
        if self._end is not None:
            self._end.close()

    def _failed(self, _: OSError) -> None:
        if not self.is_over:
            self.is_over = True
            self._client.lost(self, was_asked=False)

    # asyncio's callbacks.

    def connection_made(self, end: End) -> None:
        self._end = end
        end.write(GREETING)

    def data_received(self, data: bytes) -> None:
        if self.is_over:
            return
        try:
            for frame in self._reader.feed(data):
                self._take(MSGPACK.read_response(frame))
        except MalformedError:
            self.hang_up()
            self._client.lost(self, was_asked=self._was_asked)

    def _take(self, undecoded: UndecodedResponse) -> None:
        if self._is_greeted:
            self._client.answered(self, undecoded)
            return
        response = undecoded.decode((HandshakeRequest.API_KEY, HandshakeRequest.MAX_VERSION))
        if response.error_code:
            raise MalformedError(response.error_message or "refused")
        self._is_greeted = True
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            self.ask(frame)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, _: Exception | None) -> None:
        if not self.is_over:
            self.is_over = True
            self._client.lost(self, was_asked=self._was_asked)

    def pause_writing(self) -> None:
        """A client's requests are small."""

    def resume_writing(self) -> None:
        """As above."""


def _frames(call: Call) -> bytes:
    if call.kind == RESIGN:
        return b"".join(MSGPACK.encode_request(0, call.number, CLIENT_ID, ResignLeaderRequest(-1, 1_000)))
    request: Any
    if call.kind == WRITE:
        change = IncrementalAlterConfigsRequestAlterableConfig(call.key, 0, str(call.value))
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(BROKER, "", (change,))
        request = IncrementalAlterConfigsRequest((resource,))
    else:
        asked = DescribeConfigsRequestDescribeConfigsResource(BROKER, "", (call.key,))
        request = DescribeConfigsRequest((asked,))
    return b"".join(MSGPACK.encode_request(request.MAX_VERSION, call.number, CLIENT_ID, request))


def _leader_in(text: str) -> NodeId:
    """The leader that a refusal names, -1 if it names none."""
    _, found, rest = text.partition("is node ")
    digits = rest.rstrip(".")
    return int(digits) if found and digits.isdigit() else -1
