"""Who speaks in a voter's name, or moves epochs without being one; and voters that come back in odd ways.

Nothing here knows what was promised to the real voters: what an impostor shows was guessed, or seen on the
way between others and is of no use where it is shown. What an attacker can do who reads the packets between
two nodes as they pass, or listens at a voter's own address, is not played: that is what TLS is for.

What they may bring about is nothing (D-37, `kraftd.audit.peer_confirmation`); and nobody connects to their
machines.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kraftd.net.handshake import Identity
from kraftd.protocol.messages import (
    ApiVersionsRequest,
    DescribeQuorumRequest,
    HandshakeRequest,
    ShowNonceRequest,
)
from kraftd.raft import rpc
from kraftd.raft.rpc import FetchParams, VoteParams
from kraftd.records import quorum_state
from kraftd.storage.disk import Disk
from kraftd.types import ZERO_UUID, Election, Epoch, OffsetAndEpoch, ReplicaKey, Uuid
from tests.sim.fault_base import MS, Fault, S, any_of, any_up, down_us, is_allowed, later, may_go_down
from tests.sim.fault_budget import Harm
from tests.sim.fault_disks import ELECTION
from tests.sim.fault_strangers import Caller, Listener, call, frame, unknown
from tests.sim.network import endpoint_of
from tests.sim.node import CLUSTER_ID, REQUEST_US

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World

OUTSIDER = 77
"""An id that is nobody's."""
FAR = (1 << 30, (1 << 30) + 65_536)
"""Epochs that a quorum never comes to, but would believe of a voter."""
FAR_COUNTER = (1 << 31) - 1
LIFT = 1 << 20
WRITES = 20
"""In how many pieces a flood comes."""


# --- what they say ------------------------------------------------------------------------------------------


def voter_beside(world: "World", node: "SimNode") -> "SimNode | None":
    """Another voter than this node, whose name to use."""
    voters = [world.nodes[n] for n in sorted(world.voters) if n != node.id]
    return voters[int(world.random.random() * len(voters))] if voters else None


def forged(world: "World", victim: "SimNode") -> Identity:
    """A voter's id with its own directory id, which is no secret, and a start that outdoes all of its."""
    directory_id = victim.directory.directory_id if victim.directory else world.random.randbytes(16)
    random = world.random
    return Identity(CLUSTER_ID, "impostor", victim.id, directory_id, FAR_COUNTER, random.randbytes(16))


def greeting(identity: Identity, nonce: Uuid, *, is_challenge: bool = False) -> bytes:
    """What a voter says first."""
    return frame(HandshakeRequest.MAX_VERSION, 0, identity.greeting(nonce, is_challenge=is_challenge))


def nonces(world: "World", node: "SimNode", victim: "SimNode") -> list[Uuid]:
    """Guesses, and what nodes told each other somewhere else, for another voter, or long ago.

    Who heard a nonce that is good where it is shown is in the network between two voters, against whom there
    is no promise; the name of node 1 may lead to node 3.
    """
    shown_at = world.network.led_to(node.id)
    seen = [given.nonce for given in world.recorder.nonces if not given.is_good(shown_at, victim.id)]
    world.random.shuffle(seen)
    return [ZERO_UUID, world.random.randbytes(16), *seen[: int(world.random.random() * 12)]]


def shows(identity: Identity, shown: list[Uuid]) -> list[bytes]:
    """Nonces, with a start that nobody can outdo."""
    return [
        frame(0, -1 - n, ShowNonceRequest(nonce, FAR_COUNTER, identity.start_id))
        for n, nonce in enumerate(shown)
    ]


def votes(epoch: Epoch, candidate: ReplicaKey, position: OffsetAndEpoch) -> list[bytes]:
    """Requests for a pre-vote and for a vote."""
    asks = [VoteParams(epoch, candidate, position, rpc.NO_REPLICA, pre_vote) for pre_vote in (True, False)]
    return [frame(2, 10 + n, rpc.vote_request(CLUSTER_ID, ask)) for n, ask in enumerate(asks)]


def fetch(epoch: Epoch, replica: ReplicaKey, position: OffsetAndEpoch) -> bytes:
    """A fetch, which acknowledges everything before its position."""
    return frame(
        18, 20, rpc.fetch_request(CLUSTER_ID, FetchParams(replica, epoch, position, 0, 500), 1 << 20)
    )


def announcements(world: "World", epoch: Epoch, leader_id: int) -> list[bytes]:
    """That somebody leads, at a machine of ours; and that it does no more."""
    trap = endpoint_of(Listener(world).machine)
    successors = tuple(ReplicaKey(n) for n in sorted(world.voters))
    return [
        frame(1, 30, rpc.begin_request(CLUSTER_ID, rpc.NO_REPLICA, epoch, leader_id, trap)),
        frame(1, 31, rpc.end_request(CLUSTER_ID, epoch, leader_id, successors)),
    ]


def end_of(node: "SimNode") -> OffsetAndEpoch:
    """Where a node's log ends."""
    return node.raft_node.log.position if node.raft_node is not None else OffsetAndEpoch(0, 0)


def lies(world: "World", node: "SimNode", key: ReplicaKey) -> list[bytes]:
    """Everything that a voter may say, in some epoch."""
    random = world.random
    assert node.raft_node is not None
    epoch: Epoch = random.choice((node.raft_node.epoch, node.raft_node.epoch + 1, *FAR))
    position = end_of(node)
    said = [
        *votes(epoch, key, OffsetAndEpoch(position.offset + 1_000, max(0, epoch - 1))),
        fetch(random.choice((node.raft_node.epoch, epoch)), key, position),
        *announcements(world, epoch, key.id),
    ]
    random.shuffle(said)
    return said[: 1 + int(random.random() * len(said))]


def several_times(
    world: "World", action: Callable[[], object], *, least: int, spread: int, span_us: int
) -> bool:
    """Plan an action at some moments of a span: `least` of them and fewer than `spread` more."""
    for _ in range(least + int(world.random.random() * spread)):
        later(world, world.draw_us(0, span_us), action)
    return True


def say(world: "World", to: "SimNode", frames: list[bytes]) -> bool:
    """Connect and say this, mostly in one breath."""
    return call(world, to, frames if world.random.random() < 0.2 else [b"".join(frames)])


# --- who say it ---------------------------------------------------------------------------------------------


class ForgedGreeting(Fault):
    """Somebody greets as a voter that may well be connected, shows wrong nonces, and asks for everything."""

    name = "forged greeting"
    mean_s = 8

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        victim = voter_beside(world, node) if node is not None else None
        if node is None or victim is None or node.raft_node is None:
            return False
        return impersonate(world, node, victim)


def impersonate(world: "World", node: "SimNode", victim: "SimNode") -> bool:
    """Tell this node to be that voter, and all that follows."""
    random = world.random
    identity = forged(world, victim)
    said = [
        *shows(identity, nonces(world, node, victim)),
        *lies(world, node, ReplicaKey(victim.id, identity.directory_id)),
    ]
    random.shuffle(said)
    is_challenge = random.random() < 0.2
    seen = [given.nonce for given in world.recorder.nonces]
    theirs = random.choice(seen) if seen and random.random() < 0.3 else random.randbytes(16)
    return say(world, node, [greeting(identity, theirs, is_challenge=is_challenge), *said])


class StepOfEpochs(Fault):
    """Who is no voter speaks of epochs far above, as an observer or a tool, in its own name or a voter's."""

    name = "step of epochs"
    mean_s = 10

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None or node.raft_node is None:
            return False
        random = world.random
        speaker = unknown(world, "outsider", OUTSIDER) if random.random() < 0.7 else Identity(None, "tool")
        victim = voter_beside(world, node)
        names = [ReplicaKey(OUTSIDER, speaker.directory_id)]
        if victim is not None:
            names.append(ReplicaKey(victim.id, forged(world, victim).directory_id))
        said = [words for name in names for _ in range(2) for words in lies(world, node, name)]
        return say(world, node, [greeting(speaker, ZERO_UUID), *said])


class FalseFarewell(Fault):
    """Somebody says goodbye in the leader's name, to everybody."""

    name = "false farewell"
    mean_s = 15

    def apply(self, world: "World") -> bool:
        leader = any_of(world, lambda node: node.is_leader)
        if leader is None or leader.raft_node is None:
            return False
        identity = forged(world, leader)
        others = [node for node in world.nodes.values() if node is not leader and node.is_up]
        for node in others:
            speaker = identity if world.random.random() < 0.5 else unknown(world, "outsider", OUTSIDER)
            said = announcements(world, leader.raft_node.epoch, leader.id)
            say(world, node, [greeting(speaker, world.random.randbytes(16)), *said])
        return bool(others)


class AcknowledgementForTheDead(Fault):
    """A voter is killed, and somebody fetches from the leader in its name, from where the log ends."""

    name = "acknowledgement for the dead"
    mean_s = 25

    def apply(self, world: "World") -> bool:
        leader = any_of(world, lambda node: node.is_leader)
        victim = voter_beside(world, leader) if leader is not None else None
        if leader is None or victim is None:
            return False
        if victim.is_up and may_go_down(world, victim):
            victim.crash(down_us=down_us(world))
        key = ReplicaKey(victim.id, forged(world, victim).directory_id)

        def acknowledge() -> None:
            raft_node = leader.raft_node
            if raft_node is None:
                return
            random = world.random
            speakers = (forged(world, victim), unknown(world, "outsider", OUTSIDER), Identity(None, "tool"))
            position = end_of(leader)
            ahead = OffsetAndEpoch(position.offset + 1 + int(random.random() * 9), position.epoch)
            said = [fetch(raft_node.epoch, key, at) for at in (position, ahead)]
            say(world, leader, [greeting(random.choice(speakers), random.randbytes(16)), *said])

        return several_times(world, acknowledge, least=1, spread=6, span_us=2 * S)


class ChurnOfClaims(Fault):
    """A voter restarts while others claim to be it, everywhere, one after the other."""

    name = "churn of claims"
    mean_s = 40

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        victim = voter_beside(world, node) if node is not None else None
        if victim is None:
            return False
        if victim.is_up and may_go_down(world, victim):
            (victim.cut_power if world.random.random() < 0.5 else victim.crash)(
                down_us=world.draw_us(50 * MS, 2 * S)
            )

        def claim() -> None:
            others = [n for n in world.nodes.values() if n is not victim and n.raft_node is not None]
            if others:
                impersonate(world, others[int(world.random.random() * len(others))], victim)

        return several_times(world, claim, least=10, spread=40, span_us=4 * S)


class FrameFlood(Fault):
    """Many small requests, as anybody: up to three times as much work as the process has time for."""

    name = "flood of requests"
    mean_s = 40

    def apply(self, world: "World") -> bool:
        node = any_up(world)
        if node is None:
            return False
        random = world.random
        victim = voter_beside(world, node)
        speakers: list[Identity | None] = [None, Identity(None, "tool"), unknown(world, "outsider", OUTSIDER)]
        if victim is not None:
            speakers.append(forged(world, victim))
        speaker = random.choice(speakers)
        request: Any = ApiVersionsRequest()
        if speaker is not None and random.random() < 0.5:
            request = DescribeQuorumRequest()
        first = [] if speaker is None else [greeting(speaker, random.randbytes(16))]
        span_us, callers = world.draw_us(100 * MS, 1 * S), 1 + int(random.random() * 4)
        every_us = span_us // WRITES
        load = 10 ** (random.random() * 1.5 - 1)
        many = frame(request.MAX_VERSION, 7, request) * (1 + int(load * every_us / REQUEST_US / callers))
        for _ in range(callers):
            Caller(world, node.id, [*first, *[many] * WRITES], hang_up_us=span_us, every_us=every_us)
        return True


# --- voters that come back in odd ways ----------------------------------------------------------------------


class ShortPowerCut(Fault):
    """A machine is back before anybody finds out that its connections are gone."""

    name = "short power cut"
    mean_s = 20

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_on)
        if node is None or not may_go_down(world, node):
            return False
        node.cut_power(down_us=world.draw_us(300 * MS, 4 * S))
        return True


class LiftedVoter(Fault):
    """A voter comes back with an election file of an epoch far above all others: it must bring them up."""

    name = "lifted voter"
    mean_s = 60

    def apply(self, world: "World") -> bool:
        node = any_of(world, lambda node: node.is_voter and node.is_on)
        if node is None or world.fault_budget.wounds or not may_go_down(world, node):
            return False
        # Another program wrote the file, and the log may end before the epochs that were noted last.
        harm = Harm(perhaps=True)
        if not is_allowed(world, node, harm):
            return False
        node.cut_power(down_us=down_us(world))
        world.fault_budget.note(node, harm)
        lift(node)
        return True


def lift(node: "SimNode") -> None:
    """Put a higher epoch, without leader or vote, into the election file of a machine that is off. What is in
    there may be torn: the sidecar has the election then.
    """
    fault, node.disk_fault = node.disk_fault, None
    lifted = Election(node.view().durable_election.epoch + LIFT)
    data = quorum_state.encode(lifted, version=0, voter_ids=sorted(node.world.voters))
    disk = Disk(node.fs)
    disk.replace(ELECTION, data)
    node.disk_fault = fault


IMPOSTOR_FAULTS: tuple[type[Fault], ...] = (
    ForgedGreeting,
    StepOfEpochs,
    FalseFarewell,
    AcknowledgementForTheDead,
    ChurnOfClaims,
    FrameFlood,
    ShortPowerCut,
    LiftedVoter,
)
