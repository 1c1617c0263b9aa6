"""How does a broker talk to the controllers? Channels of Kafka's wire, each with one request in flight.

A `Channel` is one of the up to five connections of a broker: it connects to one controller, asks ApiVersions,
and then sends what is queued, one request after the other, in the newest version that both sides know. What
comes back goes to whoever asked. A connection that ends, a request that takes too long and an answer of
NOT_CONTROLLER make it connect to the leader anew and send the same request again, until the request's own
deadline: that is what Kafka's NodeToControllerChannelManager does, and its raft client.

A response that does not belong to the request in flight is a violation: Kafka's clients match by order.

Not here: what is asked (`broker_process`).
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from kraftd.audit.invariant import Violation
from kraftd.errors import ErrorCode, MalformedError
from kraftd.protocol import messages as m
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.types import NodeId
from tests.sim.loop import SimLoop
from tests.sim.network import End, Machine, host_of

if TYPE_CHECKING:
    from tests.sim.world import World

SOFTWARE = "apache-kafka-java"
RECONNECT_US = (50_000, 500_000)


class Ask(msgspec.Struct):
    """A request, and who waits for its response."""

    request: Any
    done: Callable[[Any], None]
    """Called with the response."""
    until_us: int | None = None
    """When it is given up, on the world's clock; None for never."""
    failed: Callable[[], None] | None = None
    """Called if it is given up."""


class Channel:
    """One connection to whoever leads, and what waits for it."""

    def __init__(
        self,
        world: "World",
        loop: SimLoop,
        machine: Machine,
        client_id: str,
        *,
        target: Callable[[], NodeId | None],
        draw: Callable[[], float],
        timeout_us: int,
        api_versions_max: dict[int, int],
    ) -> None:
        """Begin without a connection.

        Args:
            target: Says which controller to connect to now; None for nobody yet.
            api_versions_max: The newest version of some APIs that this broker's release has.
        """
        self._world, self._loop, self._machine = world, loop, machine
        self._client_id, self._target, self._draw = client_id, target, draw
        self._timeout_us = timeout_us
        self._versions_max = api_versions_max
        self._queue: deque[Ask] = deque()
        self._asked: Ask | None = None
        """Whose response is waited for."""
        self._asked_version = 0
        self._correlation_id = 0
        self._wire: _Wire | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        """Of the controller at the other end: lowest and newest version by API; empty before it said so."""
        self._timer: Any = None
        self._retry: Any = None
        self._failures = 0
        self.is_closed = False

    # -- from the broker

    def ask(self, ask: Ask, *, first: bool = False) -> None:
        """Send a request, after those that wait."""
        if first:
            self._queue.appendleft(ask)
        else:
            self._queue.append(ask)
        self._proceed()

    def retarget(self) -> None:
        """Another controller leads: what is under way is sent to it."""
        if self._wire is not None and self._wire.node != self._target():
            self._lose()
            self._proceed()

    def close(self) -> None:
        """The process ends."""
        self.is_closed = True
        self._queue.clear()
        self._asked = None
        if self._wire is not None:
            self._wire.hang_up()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked."""
        return self._asked is None and not self._queue

    @property
    def node(self) -> NodeId | None:
        """The controller at the other end."""
        return self._wire.node if self._wire is not None else None

    # -- inside

    def _proceed(self) -> None:
        if self.is_closed or self._asked is not None or self._retry is not None:
            return
        self._drop_late()
        if not self._queue:
            return
        wire = self._wire
        if wire is None:
            node = self._target()
            if node is None:
                self._again_later()
                return
            self._versions = {}
            self._wire = wire = _Wire(self, self._world, self._loop, self._machine, node)
            request = m.ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version="4.3.1")
            self._send(wire, Ask(request, self._learn_versions), 4)
            return
        ask = self._queue.popleft()
        version = self._version_of(ask.request)
        if version is None:
            # A controller that does not serve it: a broker of Kafka's asks the next one, or gives up.
            self._queue.appendleft(ask)
            self._lose()
            self._again_later()
            return
        self._send(wire, ask, version)

    def _drop_late(self) -> None:
        now_us = self._world.now_us
        late = [ask for ask in self._queue if ask.until_us is not None and ask.until_us <= now_us]
        if late:
            self._queue = deque(ask for ask in self._queue if ask not in late)
            for ask in late:
                if ask.failed is not None:
                    ask.failed()

    def _version_of(self, request: Any) -> int | None:
        served = self._versions.get(request.API_KEY)
        if served is None:
            return None
        newest = min(served[1], self._versions_max.get(request.API_KEY, request.MAX_VERSION))
        return newest if newest >= max(served[0], request.MIN_VERSION) else None

    def _send(self, wire: "_Wire", ask: Ask, version: int) -> None:
        self._asked, self._asked_version = ask, version
        self._correlation_id += 1
        world = self._world
        world.count("call", self._machine)
        frame = KAFKA.encode_request(version, self._correlation_id, self._client_id, ask.request)
        wire.write(b"".join(frame))
        self._timer = self._loop.call_later(self._timeout_us / 1_000_000, self._time_out, ask)

    def _learn_versions(self, response: Any) -> None:
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    def _time_out(self, ask: Ask) -> None:
        if ask is self._asked:
            self._lose()
            self._again_later()

    def answered(self, wire: "_Wire", frame: Any) -> None:
        """A frame came back."""
        if wire is not self._wire or self.is_closed:
            return
        ask, self._asked = self._asked, None
        if ask is None:
            self._fail(f"a response that nobody asked for, from node {wire.node}")
            return
        undecoded = KAFKA.read_response(frame)
        if undecoded.correlation_id != self._correlation_id:
            self._fail(f"correlation {undecoded.correlation_id} instead of {self._correlation_id}")
            return
        self._timer.cancel()
        response = undecoded.decode((ask.request.API_KEY, self._asked_version))
        if names_another_controller(response):
            self._asked = ask
            self._lose()
            self._again_later()
            return
        self._failures = 0
        ask.done(response)
        self._proceed()

    def lost(self, wire: "_Wire") -> None:
        """The connection could not be made, or is gone."""
        if wire is self._wire and not self.is_closed:
            self._lose()
            self._again_later()

    def _lose(self) -> None:
        """Let go of the connection; what was asked on it is asked again on the next."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.hang_up()
        ask, self._asked = self._asked, None
        if self._timer is not None:
            self._timer.cancel()
        if ask is not None and type(ask.request) is not m.ApiVersionsRequest:
            self._queue.appendleft(ask)

    def _again_later(self) -> None:
        if self._retry is not None or self.is_closed:
            return
        low_us, high_us = RECONNECT_US
        wait_us = min(low_us << self._failures, high_us) * (0.8 + 0.4 * self._draw())
        self._failures = min(self._failures + 1, 5)
        self._retry = self._loop.call_later(wait_us / 1_000_000, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self._proceed()

    def _fail(self, what: str) -> None:
        text = f"ResponsesComeInOrder: {self._client_id} of m{self._machine} got {what}"
        self._world.fail(self._machine, Violation(text))


def names_another_controller(response: Any) -> bool:
    """Whether NOT_CONTROLLER stands anywhere in a response: a broker then looks for the leader."""
    if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    for name in ("topics", "results", "responses", "directories", "partitions"):
        for part in getattr(response, name, None) or ():
            if not isinstance(part, int) and names_another_controller(part):
                return True
    return False


class _Wire:
    """A connection; asyncio's protocol for its end."""

    def __init__(
        self, channel: Channel, world: "World", loop: SimLoop, machine: Machine, node: NodeId
    ) -> None:
        self.node = node
        self.is_over = False
        self._channel = channel
        self._world = world
        self._end: End | None = None
        self._waiting: list[bytes] = []
        self._frames = KafkaFrames()
        world.network.open(
            loop,
            machine,
            self,
            host_of(node),
            on_end=lambda _: None,
            on_error=self._failed,
            wanted=lambda: not self.is_over,
        )

    def write(self, frame: bytes) -> None:
        """Send it as soon as there is a connection."""
        if self._end is not None:
            self._end.write(frame)
        else:
            self._waiting.append(frame)

    def hang_up(self) -> None:
        """Nobody listens here any more."""
        self.is_over = True
        if self._end is not None:
            self._end.close()

    def _failed(self, _: OSError) -> None:
        self._over()

    def _over(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._channel.lost(self)

    # asyncio's callbacks.

    def connection_made(self, end: End) -> None:
        self._end = end
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            end.write(frame)

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            if self.is_over:
                return
            try:
                self._channel.answered(self, frame)
            except MalformedError as error:
                text = f"ResponsesAreKafkas: node {self.node} answers m{self._channel._machine}: {error}"
                self._world.fail(self.node, Violation(text))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, _: Exception | None) -> None:
        self._over()

    def pause_writing(self) -> None:
        """A broker's requests are small."""

    def resume_writing(self) -> None:
        """As above."""


class KafkaFrames:
    """Cuts a stream of responses into frames: they begin with a length and a correlation id, no API key."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take in bytes; every frame that is now whole, without its length."""
        data = self._data + data
        frames = []
        at = 0
        while len(data) - at >= 4:
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if len(data) < end:
                break
            frames.append(data[at + 4 : end])
            at = end
        self._data = data[at:]
        return frames
