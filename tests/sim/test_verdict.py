"""The last judgement sees a cluster that is not healthy, not whole, or has lost a change; and knows that one
may be late where its network alone can be.
"""

from contextlib import nullcontext
from random import Random

import msgspec
import pytest

from kraftd.net.outbound import OutboundConnection
from kraftd.raft.leader_state import LeaderState
from kraftd.raft.rejoin import Rejoin
from kraftd.records.messages import ConfigRecord
from tests.firing import fires
from tests.sim import verdict
from tests.sim.fault_base import S
from tests.sim.fault_budget import WIPED, Harm, Wound
from tests.sim.fault_snapshots import LOG_PATH
from tests.sim.loaders import LIST, LIST_DEFAULT, LONG_VALUE
from tests.sim.verdict import may_be_late
from tests.sim.world import Options, World, draw_shape

FAR_AWAY, NEAR = (100, 80_000), (100, 5_000)


@pytest.mark.parametrize(
    ("latency_us", "tail_part", "timeout_ms", "expected"),
    [
        pytest.param(FAR_AWAY, 0.05, 1_000, True, id="two late messages in a row outlast a second"),
        pytest.param(FAR_AWAY, 0.05, 10_000, False, id="four late messages do not outlast ten"),
        pytest.param(FAR_AWAY, 0.0, 1_000, False, id="far away, but no message is late"),
        pytest.param(NEAR, 0.05, 1_000, False, id="near, though some messages are late"),
    ],
)
def test_a_client_may_be_told_of_a_timeout_on_a_slow_network_only(
    latency_us: tuple[int, int], tail_part: float, timeout_ms: int, expected: bool
) -> None:
    shape = msgspec.structs.replace(
        draw_shape(Random(1), Random(2)),
        latency_us=latency_us,
        jitter_us=500,
        tail_part=tail_part,
        controller_timeout_ms=timeout_ms,
    )
    assert may_be_late(shape) is expected


def test_a_leader_that_goes_without_a_reason_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "WRITES", 0)
    leader = next(node for node in world.nodes.values() if node.is_leader)
    world.at(verdict.SETTLED_US + 50_000, lambda: leader.crash(down_us=1 * S))
    with fires("Health", r"nothing happened, and yet \(\d+, \d\) was elected"):
        verdict._stay_healthy(world)


def test_a_leader_that_finds_its_disk_damaged_goes_for_a_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault is old, and was noticed only now: by a read for a broker that begins anew."""
    monkeypatch.setattr(verdict, "WRITES", 0)
    leader = next(node for node in world.nodes.values() if node.is_leader)
    world.fault_budget.wounds[leader.id] = Wound(Harm(noticed=True), leader.incarnation, certain=False)
    monkeypatch.setattr(verdict, "_counts", lambda node: node is not leader or node.is_leader)
    world.at(verdict.SETTLED_US + 50_000, lambda: leader.crash(down_us=60 * S))
    leaders = len(world.leaders)
    verdict._stay_healthy(world)
    assert len(world.leaders) > leaders


def test_a_node_that_finds_its_disk_damaged_while_the_logs_become_equal_is_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault is old: it comes to that place only now, as it applies its log."""
    follower = next(node for node in world.nodes.values() if not node.is_leader)
    follower.crash(down_us=3_600 * S)
    found = []
    monkeypatch.setattr(verdict, "_needs_wiping", lambda node: node in found)
    with fires("Convergence", "the logs are not equal"):
        verdict._converge(world)
    world.at(1 * S, lambda: found.append(follower))
    verdict._converge(world)


def test_where_nothing_happens_no_disk_takes_long(world: World) -> None:
    """Node 1 led with a fetch timeout of 500 ms, and cut its log: two of the five syncs took 224 ms each."""
    leader = next(node for node in world.nodes.values() if node.is_leader)
    slowest_us = 1.5 * world.shape.fsync_us
    assert any(leader._fsync_us() > slowest_us for _ in range(2_000))
    with verdict._undisturbed(world):
        assert all(leader._fsync_us() <= slowest_us for _ in range(2_000))


def test_a_write_that_is_refused_though_there_is_room_is_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that forgets to give back the room of what it has committed."""
    monkeypatch.setattr(verdict, "WRITES", 0)
    full = property(lambda _: 1 << 40)
    world.at(verdict.SETTLED_US, lambda: monkeypatch.setattr(LeaderState, "uncommitted_bytes", full))
    with fires("Health", r"nothing happened, and yet refused: write of m\d+"):
        verdict._stay_healthy(world)


def test_a_lost_connection_that_a_node_keeps_is_seen(world: World) -> None:
    end = next(world.network.ends_between(1, 2))
    if not isinstance(end.protocol, OutboundConnection):
        end = end.other
    verdict._expect_lost_are_forgotten(world)
    world.network.drop(end)
    with fires("LostConnectionsAreForgotten", rf"node {end.machine} keeps those to \['m{end.other.machine}:"):
        verdict._expect_lost_are_forgotten(world)


def test_a_segment_that_is_never_read_is_seen(world: World) -> None:
    """Seed 284574: it was looked for as soon as a node had applied its log, before it could read anything."""
    node = next(iter(world.nodes.values()))
    assert node.directory is not None
    segment = node.directory.log._segments[0]
    segment.is_unread = True
    world.at(1 * S, lambda: setattr(segment, "is_unread", False))
    verdict._expect_all_is_read(world)
    segment.is_unread = True
    with fires("AllIsRead", f"node {node.id} has never read \\['0{{20}}.log'\\]"):
        verdict._expect_all_is_read(world)


def test_a_voter_that_is_never_whole_again_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rejoin, "try_complete", lambda *_: False)
    monkeypatch.setattr(verdict, "ROUNDS", 3)
    node = next(node for node in world.nodes.values() if not node.is_leader)
    assert world.run_until(lambda: world.fault_budget.is_known_to_all(node), 30 * S)
    node.crash()
    world.fault_budget.note(node, Harm(identity=True, peers=True, start_counter=WIPED))
    node.wipe()
    node.start()
    with fires("Rejoining", rf"not whole: {{{node.id}"):
        verdict.judge(world)


@pytest.mark.covers("D-06")
@pytest.mark.parametrize("is_mended", [True, False])
def test_an_observer_whose_last_snapshot_rotted_is_whole_once_it_has_everything(
    monkeypatch: pytest.MonkeyPatch, *, is_mended: bool
) -> None:
    shape = {
        "voters": 3, "observers": 1, "bootstrap": False, "snapshot_bytes": 2_000, "snapshot_interval_ms": 0,
        "retention_bytes": 1, "segment_bytes": 2_000, "events_max": 1 << 30,
    }  # fmt: skip
    world = World(7, Options(faults=False, judged=False, events=1 << 30, changes=tuple(shape.items())))
    for node in world.nodes.values():
        world.at(0, node.start)
    for client in world.clients:
        client.start()
    world.loader.start()
    observer = next(node for node in world.nodes.values() if not node.is_voter)

    def begins_at_its_only_snapshot() -> bool:
        directory = observer.directory
        return directory is not None and observer.start_offset > 0 and len(directory.snapshots.infos) == 1

    assert world.run_until(begins_at_its_only_snapshot, 300 * S)
    observer.crash(down_us=1 * S)
    for path in [each for each in observer.fs.paths() if each.match(f"{LOG_PATH}/*.checkpoint")]:
        world.snapshots.hurt.add((observer.id, path.name))
        observer.fs.damage(path, "bit_flip", 60, Random(1))
    world.auditor.forget(observer.view())
    if not is_mended:
        monkeypatch.setattr(Rejoin, "try_complete", lambda *_: False)
    world.run_for(5 * S)
    assert world.statistics["snapshots installed"] == 1
    with nullcontext() if is_mended else fires("Convergence", "the logs are not equal"):
        verdict._converge(world)
    world.close()


@pytest.mark.parametrize(
    ("values", "is_right"),
    [
        pytest.param(
            (LIST_DEFAULT + ",b", LIST_DEFAULT, None, LIST_DEFAULT + ",c", "", "a", "a,b", "b", LONG_VALUE),
            True,
            id="one change each",
        ),
        pytest.param(("", "a", "a,b", "a,c"), False, id="two appended to the same, and one change is lost"),
        pytest.param(("", "a", "a,b", "b,a"), False, id="put in another order"),
        pytest.param(("", "a", "a,b", "a,b,b,c"), False, id="two changes at once"),
        pytest.param(("", "a", "a,b", None, "a,b,c"), False, id="deleted, and there again"),
    ],
)
def test_a_change_of_a_list_that_is_lost_is_seen(values: tuple[str | None, ...], is_right: bool) -> None:
    records = [ConfigRecord(4, "1", name, value) for value in values for name in (LIST, "x")]
    others = [ConfigRecord(4, "2", LIST, LIST_DEFAULT + ",z")]
    with nullcontext() if is_right else fires("ListsAreChanged", f"became {values[-1]!r} in the log"):
        verdict._compare_lists([*records[:2], *others, *records[2:]])
