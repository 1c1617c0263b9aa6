"""Strangers who speak in voters' names get nothing, and the simulator notices where they would."""

from collections.abc import Callable

import pytest

from kraftd.audit.invariants import Violation
from kraftd.net.handshake import Identity
from kraftd.net.peer_connections import OutboundConnection
from kraftd.net.server import InboundConnection
from kraftd.protocol.codec import Buffer
from kraftd.raft.epoch_states import Follower, Leader
from kraftd.records import quorum_state
from kraftd.runtime.config import QuorumTiming
from kraftd.runtime.controller_server import incarnation_of
from kraftd.types import ZERO_UUID
from tests.sim.fault_base import MS, Fault, S
from tests.sim.fault_disks import ELECTION
from tests.sim.fault_impostors import IMPOSTOR_FAULTS, LIFT, LiftedVoter, greeting, lift
from tests.sim.fault_strangers import Listener, call
from tests.sim.network import endpoint_of
from tests.sim.node import SimNode
from tests.sim.world import Options, World

SHAPE = {
    "voters": 3,
    "observers": 1,
    "bootstrap": False,
    "latency_us": (100, 300),
    "jitter_us": 50,
    "tail_part": 0.0,
    "cut_part": 0.0,
    "fsync_us": 1_000,
    "quiet_every_us": 0,
    "resign_part": 0.0,
    "turn_us": 100,
    "apply_us": 0,
    "timing": QuorumTiming(500, 1_000, 300, 0, 1_000, 20),
}


@pytest.fixture
def world() -> World:
    """A cluster that works, and in which nothing goes wrong by itself."""
    world = World(7, Options(faults=False, judged=False, until_us=15 * S, changes=tuple(SHAPE.items())))
    world.run()
    assert world.acknowledged
    return world


def leaders(world: World) -> list[int]:
    return [node.id for node in world.nodes.values() if node.is_leader]


def counts(node: SimNode) -> bool:
    """Whether a leader answers its fetches, or it leads."""
    state = node.view().state
    return isinstance(state, Leader) or (isinstance(state, Follower) and state.in_touch)


@pytest.mark.parametrize("fault", [f for f in IMPOSTOR_FAULTS if f is not LiftedVoter], ids=lambda f: f.name)
def test_a_cluster_bears_each_of_them_many_times_and_writes_on(world: World, fault: type[Fault]) -> None:
    for _ in range(12):
        fault().apply(world)
        world.run_for(700 * MS)
    written = world.acknowledged
    world.run_for(20 * S)
    assert world.acknowledged > written
    assert max(node.view().durable_election.epoch for node in world.nodes.values()) < 1_000


def test_a_voter_far_above_the_others_brings_them_up(world: World) -> None:
    assert LiftedVoter().apply(world)
    world.run_for(60 * S)
    written = world.acknowledged
    world.run_for(20 * S)
    assert world.acknowledged > written
    assert min(node.view().durable_election.epoch for node in world.nodes.values()) > LIFT


def test_a_voter_whose_election_file_is_torn_is_put_above_the_others_too(world: World) -> None:
    node = next(node for node in world.nodes.values() if node.is_voter)
    node.crash()
    node.fs.damage(ELECTION, "truncation", 0, world.random)
    lift(node)
    assert quorum_state.decode(node.fs.content(ELECTION))[0].epoch > LIFT


@pytest.mark.parametrize("was_leader", [False, True])
@pytest.mark.parametrize("down_ms", [300, 1_000, 4_000])
def test_a_machine_that_was_without_power_for_a_moment_counts_again_at_once(
    world: World, was_leader: bool, down_ms: int
) -> None:
    """Nobody closed its connections, which look open at the others until they hear of it, seconds later."""
    (leader,) = leaders(world)
    voters = [node for node in world.nodes.values() if node.is_voter]
    node = next(node for node in voters if (node.id == leader) == was_leader)
    node.cut_power(down_us=down_ms * MS)
    assert world.run_until(lambda: node.is_up, 5 * S)
    assert world.run_until(lambda: counts(node), 250 * MS)


def test_a_confirmed_voter_that_can_be_reached_one_way_only_stays_counted(world: World) -> None:
    """Nobody can connect to it any more, and what others had opened is gone; its own connections stand."""
    (leader,) = leaders(world)
    node = next(node for node in world.nodes.values() if node.is_voter and node.id != leader)
    world.network.hosts[node.id].listener = None
    for voter in sorted(world.voters - {node.id}):
        for end in world.network.ends_between(voter, node.id):
            if isinstance(end.protocol, OutboundConnection):
                end.protocol.abort("the way there is closed")
    third = next(n for n in sorted(world.voters) if n not in (leader, node.id))
    world.nodes[third].crash()
    written, epoch = world.acknowledged, world.nodes[leader].view().durable_election.epoch
    world.run_for(20 * S)
    assert world.acknowledged > written, "the leader needs it: there is nobody else"
    assert leaders(world) == [leader]
    assert world.nodes[leader].view().durable_election.epoch == epoch


def test_who_is_told_which_start_a_voter_is_was_confirmed(world: World) -> None:
    node = world.nodes[1]
    assert node.directory is not None
    start_id = node.directory.start_id
    observer = next(world.network.ends_between(1, 4))
    observer.write(incarnation_of(start_id))
    voter = next(world.network.ends_between(1, 2))
    voter.write(start_id)
    world.run_for(100 * MS)
    observer = next(world.network.ends_between(1, 4))
    observer.write(b"..." + start_id)
    with pytest.raises(Violation, match="StartsAreToldToVoters: node 1 tells m4 "):
        world.run_for(100 * MS)


def test_nobody_may_connect_to_a_strangers_machine(world: World) -> None:
    trap = Listener(world).machine
    node = world.nodes[2]
    assert node.parts is not None
    node.parts.peer_connections.learn(99, endpoint_of(trap))
    with pytest.raises(Violation, match=f"NobodyConnectsToStrangers: .* m{trap}"):
        world.run_for(1 * S)


def test_an_exception_that_a_stranger_causes_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sound: Callable[[InboundConnection, Buffer], None] = InboundConnection.handle

    def fragile(connection: InboundConnection, frame: Buffer) -> None:
        if b"trouble" in bytes(frame):
            raise RecursionError("too deep")
        sound(connection, frame)

    monkeypatch.setattr(InboundConnection, "handle", fragile)
    call(world, world.nodes[3], [greeting(Identity(None, "trouble"), ZERO_UUID)])
    with pytest.raises(Violation, match=r"NoExceptionLeavesAConnection: after bytes of m5\d+ node 3 died"):
        world.run_for(4 * S)
