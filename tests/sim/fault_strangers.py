"""What arrives that nobody of this cluster meant to send now: garbage, strangers, and what is long over.

A `Caller` is a machine of its own that opens a connection to a node, says what it is given, and listens to
nothing. Old requests and old responses come back on the connection that they came on: who answers the former
must not count them twice, and nobody waits for the latter.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from kraftd.audit.invariant import Violation
from kraftd.errors import MalformedError
from kraftd.net.handshake import Identity
from kraftd.protocol.messages import (
    DescribeNodeRequest,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    HandshakeRequest,
    ResignLeaderRequest,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.raft import rpc
from kraftd.raft.rpc import FetchParams, VoteParams
from kraftd.types import (
    METADATA_TOPIC,
    NO_NODE,
    ZERO_UUID,
    Endpoint,
    NodeId,
    OffsetAndEpoch,
    ReplicaKey,
    Uuid,
)
from tests.sim.fault_base import MS, Fault, S, any_up
from tests.sim.network import End, Machine, host_of
from tests.sim.node import CLUSTER_ID

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World

FIRST_MACHINE = 5_000
_FRAME_BYTES = Struct(">I")
KEPT = 200
"""How many messages are remembered, to come back."""
HANDSHAKE = HandshakeRequest.API_KEY.to_bytes(2, "big")
"""How a greeting is told in the first bytes of a frame."""


def new_machine(world: "World") -> Machine:
    """A machine that nobody knows."""
    machine = FIRST_MACHINE + len(world.network.hosts)
    world.network.add_host(machine)
    return machine


class Listener:
    """A machine of a stranger's that waits for somebody to connect: no node may."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.machine = new_machine(world)
        world.network.listen(self.machine, world.outside, self._accept)

    def _accept(self) -> "Listener":
        self._world.fail(0, Violation(f"NobodyConnectsToStrangers: somebody connects to m{self.machine}"))
        return self

    def connection_made(self, end: End) -> None:
        """It is too late anyway."""


class Caller:
    """A connection from nowhere; asyncio's protocol for its end. Says all at once, or a frame `every_us`."""

    def __init__(
        self, world: "World", to: NodeId, frames: Sequence[bytes], *, hang_up_us: int, every_us: int = 0
    ) -> None:
        self._world, self._frames = world, frames
        self._hang_up_us, self._every_us = hang_up_us, every_us
        self._end: End | None = None
        machine = new_machine(world)
        world.network.open(
            world.outside, machine, self, host_of(to), lambda _: None, lambda _: None, wanted=lambda: True
        )

    # asyncio's callbacks.

    def connection_made(self, end: End) -> None:
        self._end = end
        for number, frame in enumerate(self._frames):
            if self._every_us:
                self._world.at(number * self._every_us, partial(end.write, frame))
            else:
                end.write(frame)
        self._world.at(self._hang_up_us, end.close)

    def data_received(self, data: bytes) -> None:
        """Nobody listens here."""

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """As above."""

    def pause_writing(self) -> None:
        """There is little to write."""

    def resume_writing(self) -> None:
        """As above."""


def call(world: "World", to: "SimNode", frames: Sequence[bytes]) -> bool:
    """Let somebody connect and say this."""
    span_us = world.draw_us(0, 3 * S) if world.random.random() < 0.5 else world.draw_us(0, 20 * MS)
    Caller(world, to.id, frames, hang_up_us=span_us)
    return True


def frame(version: int, number: int, message: Any) -> bytes:
    """One request as bytes."""
    return b"".join(MSGPACK.encode_request(version, number, "stranger", message))


def greeting(identity: Identity) -> bytes:
    """What a node says first."""
    return frame(HandshakeRequest.MAX_VERSION, 0, identity.greeting())


def demands(world: "World", identity: Identity, epoch: int) -> list[bytes]:
    """A vote, a pre-vote, a fetch, a heartbeat and a farewell, in the name of somebody."""
    me = ReplicaKey(identity.node_id, identity.directory_id)
    far = OffsetAndEpoch(int(world.random.random() * 1_000), max(0, epoch - 1))
    endpoint = Endpoint("m1", 1)
    nothing, nobody = OffsetAndEpoch(0, 0), rpc.NO_REPLICA
    return [
        frame(2, 1, rpc.vote_request(CLUSTER_ID, VoteParams(epoch, me, nothing, nobody, True))),
        frame(2, 2, rpc.vote_request(CLUSTER_ID, VoteParams(epoch, me, nothing, nobody, False))),
        frame(18, 3, rpc.fetch_request(CLUSTER_ID, FetchParams(me, epoch, far, 0, 0), 1 << 20)),
        frame(1, 4, rpc.begin_request(CLUSTER_ID, nobody, epoch, me.id, endpoint)),
        frame(1, 5, rpc.end_request(CLUSTER_ID, epoch, me.id, ())),
    ]


def resign(world: "World", leader: "SimNode", to: NodeId = NO_NODE, *, timeout_ms: int = 1_000) -> None:
    """An operator asks a leader to go, perhaps in favour of another voter."""
    tool = greeting(Identity(None, "operator"))
    Caller(world, leader.id, [tool, frame(0, 1, ResignLeaderRequest(to, timeout_ms))], hang_up_us=2 * S)


class StatusAsked(Fault):
    """An operator looks at the quorum, and at one node. Nothing goes wrong by that."""

    name = "status asked"
    mean_s = 5
    on_part = 0.3

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        partition = DescribeQuorumRequestPartitionData(0)
        quorum = DescribeQuorumRequest((DescribeQuorumRequestTopicData(METADATA_TOPIC, (partition,)),))
        said = [greeting(Identity(None, "operator")), frame(2, 1, quorum), frame(0, 2, DescribeNodeRequest())]
        return node is not None and call(world, node, said)


def unknown(world: "World", software: str, node_id: NodeId) -> Identity:
    """A node of this cluster with a disk that nobody has met."""
    random = world.random
    return Identity(CLUSTER_ID, software, node_id, random.randbytes(16), 1, random.randbytes(16))


class Garbage(Fault):
    """Random bytes."""

    name = "garbage"
    mean_s = 12

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        return node is not None and call(
            world, node, [world.random.randbytes(1 + int(world.random.random() * 300))]
        )


class GarbageInAFrame(Fault):
    """A whole frame whose content is random, or nearly right."""

    name = "garbage in a frame"
    mean_s = 12

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None:
            return False
        stranger = Identity(CLUSTER_ID, "stranger")
        good = bytearray(frame(2, 1, rpc.vote_request(CLUSTER_ID, _some_vote(world))))
        for _ in range(1 + int(world.random.random() * 4)):
            at = 4 + int(world.random.random() * (len(good) - 4))
            good[at] = int(world.random.random() * 256)
        body = world.random.randbytes(int(world.random.random() * 64))
        first = greeting(stranger) if world.random.random() < 0.5 else b""
        return call(world, node, [first, bytes(good), len(body).to_bytes(4, "big") + body])


def _some_vote(world: "World") -> VoteParams:
    epoch = int(world.random.random() * 100)
    return VoteParams(epoch, ReplicaKey(1), OffsetAndEpoch(0, 0), ReplicaKey(2), False)


class TruncatedFrame(Fault):
    """The beginning of a frame, and then nothing."""

    name = "truncated frame"
    mean_s = 15

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None:
            return False
        whole = greeting(Identity(CLUSTER_ID, "stranger"))
        return call(world, node, [whole[: 1 + int(world.random.random() * (len(whole) - 1))]])


class HugeFrame(Fault):
    """A frame that says it is longer than anything."""

    name = "huge frame"
    mean_s = 20

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        size = int(2 ** (world.random.random() * 32))
        return node is not None and call(world, node, [size.to_bytes(5, "big")[-4:] + bytes(100)])


class NestedFrame(Fault):
    """A request whose body, or another part, is lists in lists, deeper than anybody decodes."""

    name = "nested frame"
    mean_s = 15

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None:
            return False
        random = world.random
        nest = b"\x91" * int(10 ** (1 + random.random() * 3)) + b"\xc0"
        parts = [random.choice((b"\x12", b"\x00", b"\x01", b"\x34")), b"\x00", b"\x01", b"\xc0", b"\xc0"]
        parts[int(random.random() * 5)] = nest
        body = b"\x95" + b"".join(parts)
        first = [greeting(Identity(CLUSTER_ID, "stranger"))] if random.random() < 0.5 else []
        return call(world, node, [*first, len(body).to_bytes(4, "big") + body])


class WrongCluster(Fault):
    """A node of another cluster connects, and asks for everything."""

    name = "wrong cluster id"
    mean_s = 15

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None or node.raft_node is None:
            return False
        node_id = world.node_ids[int(world.random.random() * len(world.node_ids))]
        other = Identity("b3RoZXJjbHVzdGVy", "stranger", node_id, world.random.randbytes(16), 1, b"x" * 16)
        return call(world, node, [greeting(other), *demands(world, other, node.raft_node.epoch + 5)])


class Stranger(Fault):
    """A node that is no voter asks for votes, or says that it leads."""

    name = "stranger campaigns"
    mean_s = 20

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None or node.raft_node is None:
            return False
        other = unknown(world, "stranger", 77)
        epoch = node.raft_node.epoch + int(world.random.random() * 3)
        wanted = [ask for ask in demands(world, other, epoch) if world.random.random() < 0.5]
        return call(world, node, [greeting(other), *wanted])


class TwoNodesOneId(Fault):
    """A second node with a voter's id, and a directory of its own, asks for everything."""

    name = "two nodes with one id"
    mean_s = 20

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None or node.raft_node is None:
            return False
        victims = [n for n in world.nodes.values() if n.is_voter and world.fault_budget.is_known_to_all(n)]
        if not victims:
            return False
        victim = victims[int(world.random.random() * len(victims))]
        twin = unknown(world, "twin", victim.id)
        epoch = node.raft_node.epoch + int(world.random.random() * 3)
        wanted = [ask for ask in demands(world, twin, epoch) if world.random.random() < 0.7]
        return call(world, node, [greeting(twin), *wanted])


class Tool(Fault):
    """A client sends what only nodes of the quorum may."""

    name = "tool that campaigns"
    mean_s = 20

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None or node.raft_node is None:
            return False
        tool = Identity(None, "tool")
        voter = sorted(world.voters)[int(world.random.random() * len(world.voters))]
        name = Identity(CLUSTER_ID, "tool", voter, b"y" * 16, 1, b"z" * 16)
        return call(world, node, [greeting(tool), *demands(world, name, node.raft_node.epoch + 1)])


class GivenNonce(NamedTuple):
    """What one node told another when it connected to it."""

    nonce: Uuid
    giver: End
    """The end of the one that connected."""

    def is_good(self, node_id: NodeId, voter: NodeId) -> bool:
        """Whether it would be right to show it to this node in the name of that voter."""
        giver = self.giver
        return giver.machine == node_id and giver.other.machine == voter and not giver.is_dead


class Recorder:
    """The newest messages between nodes, and on which connection they came."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.requests: deque[tuple[End, bytes]] = deque(maxlen=KEPT)
        self.responses: deque[tuple[End, bytes]] = deque(maxlen=KEPT)
        self.nonces: deque[GivenNonce] = deque(maxlen=KEPT)

    def note(self, end: End, data: bytes) -> None:
        """These bytes are arriving at this end."""
        nodes = self._world.nodes
        size_bytes = len(data)
        if not 5 <= size_bytes <= 4_096 or end.machine not in nodes or end.other.machine not in nodes:
            return
        (frame_bytes,) = _FRAME_BYTES.unpack_from(data)
        if frame_bytes + 4 > size_bytes:
            return
        fields = data[4] & 0xF
        if fields >= 5:
            self.requests.append((end, data))
            if HANDSHAKE in data[:8]:
                self._note_nonce(end, data)
        elif fields <= 3:
            self.responses.append((end, data))

    def _note_nonce(self, end: End, data: bytes) -> None:
        try:
            greeting = MSGPACK.decode_request(data[4 : 4 + int.from_bytes(data[:4], "big")]).message
        except MalformedError:
            return
        if isinstance(greeting, HandshakeRequest) and greeting.nonce != ZERO_UUID:
            self.nonces.append(GivenNonce(greeting.nonce, end.other))


class StaleRequests(Fault):
    """What a process asked some time ago arrives once more, in another order perhaps."""

    name = "stale requests"
    mean_s = 8

    def apply(self, world: "World") -> bool:
        old = [(end, data) for end, data in world.recorder.requests if _stands(end)]
        if not old:
            return False
        end = old[int(world.random.random() * len(old))][0]
        datas = [data for other, data in old if other is end]
        begin = int(world.random.random() * len(datas))
        some = datas[begin : begin + 1 + int(world.random.random() * 5)]
        if world.random.random() < 0.3:
            world.random.shuffle(some)
        for data in some:
            world.network.inject(end.other, data)
        return True


def _stands(end: End) -> bool:
    return not end.is_dead and not end.other.is_dead


class StaleResponses(Fault):
    """Responses that came arrive once more, on the connection that they came on."""

    name = "stale responses"
    mean_s = 8

    def apply(self, world: "World") -> bool:
        old = [(end, data) for end, data in world.recorder.responses if _stands(end)]
        if not old:
            return False
        begin = int(world.random.random() * len(old))
        for end, data in old[begin : begin + 1 + int(world.random.random() * 5)]:
            world.network.inject(end.other, data)
        return True


class Flood(Fault):
    """Many connections that say nothing."""

    name = "silent connections"
    mean_s = 25

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None:
            return False
        for _ in range(5 + int(world.random.random() * 40)):
            Caller(world, node.id, [], hang_up_us=world.draw_us(100 * MS, 8 * S))
        return True


STRANGER_FAULTS: tuple[type[Fault], ...] = (
    StatusAsked,
    Garbage,
    GarbageInAFrame,
    TruncatedFrame,
    HugeFrame,
    NestedFrame,
    WrongCluster,
    Stranger,
    TwoNodesOneId,
    Tool,
    StaleRequests,
    StaleResponses,
    Flood,
)
