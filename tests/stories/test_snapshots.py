"""Stories of snapshots: who loads one instead of records, and what becomes of a disturbed download."""

from collections.abc import Callable

import pytest

from kraftd.errors import ErrorCode
from kraftd.raft.epoch_states import Leader
from kraftd.raft.events import Applied, ApplyStuck, CutRequested
from kraftd.raft.request_manager import RequestKind
from kraftd.types import OffsetAndEpoch
from tests.conformance import covers
from tests.stories.cluster import Cluster


def with_history(
    voters: tuple[int, ...] = (1, 2, 3), **options: object
) -> tuple[Cluster, int, OffsetAndEpoch]:
    """A quorum that has committed fifty records, its leader, and the snapshot that every node has of them."""
    cluster = Cluster(voters, **({"chunk_bytes": 1_000} | options))  # type: ignore[arg-type]
    leader = cluster.elect()
    for n in range(50):
        cluster.append(leader, b"change %d" % n)
    cluster.run_until(cluster.has_converged)
    ids = {cluster.take_snapshot(node_id) for node_id in voters}
    (snapshot_id,) = ids
    return cluster, leader, snapshot_id


def cut(cluster: Cluster, *nodes: int, releases: bool = False) -> OffsetAndEpoch:
    """Ten more records, a snapshot of those too, and the logs of these nodes begin behind it. With `releases`
    each writes other bytes.
    """
    leader = cluster.leader
    assert leader is not None
    for n in range(10):
        cluster.append(leader, b"later change %d" % n)
    cluster.run_until(cluster.has_converged)
    cluster.run(5)
    for node_id in nodes:
        snapshot_id = cluster.take_snapshot(node_id, b"release %d" % node_id if releases else b"")
        cluster.cut_log(node_id, snapshot_id)
        assert cluster.raft_node(node_id).log.start_offset == snapshot_id.offset
    cluster.append(leader, b"the last")
    cluster.run_until(cluster.has_converged)
    return snapshot_id


def others(cluster: Cluster, *known: int) -> int:
    """Some other node."""
    return next(node_id for node_id in cluster.nodes if node_id not in known)


def wiped(cluster: Cluster, node_id: int) -> None:
    """Its machine comes back with an empty disk."""
    cluster.crash(node_id)
    cluster.wipe(node_id)
    cluster.start(node_id)


def stuck(cluster: Cluster, leader: int) -> int:
    """Another node, whose snapshot cannot be read any more when it is to be loaded."""
    node_id = others(cluster, leader)
    cluster.crash(node_id)
    newer = cut(cluster, leader, others(cluster, leader, node_id))
    cluster.nodes[node_id].applies = False
    cluster.start(node_id)
    cluster.run_until(lambda: newer in cluster.nodes[node_id].loaded)
    cluster.run_until(cluster.has_converged)
    cluster.feed(node_id, ApplyStuck())
    return node_id


@covers("D-23")
def test_who_can_apply_nothing_and_is_named_successor_lets_others_lead() -> None:
    """It would never have an active controller, and nobody suspects a leader that answers fetches."""
    cluster, leader, _ = with_history(chunk_bytes=7_000)
    node_id = stuck(cluster, leader)
    cluster.resign(leader, to=node_id)
    cluster.run_until(lambda: cluster.leader not in (None, leader) and cluster.has_leader())
    assert cluster.leader == others(cluster, leader, node_id)


@covers("D-23")
def test_who_could_apply_nothing_for_a_moment_leads_as_before() -> None:
    cluster, leader, _ = with_history(chunk_bytes=7_000)
    node_id = stuck(cluster, leader)
    cluster.nodes[node_id].applies = True
    cluster.feed(node_id, Applied(cluster.raft_node(node_id).high_watermark))
    cluster.resign(leader, to=node_id)
    cluster.run_until(lambda: cluster.leader == node_id and cluster.has_leader())
    cluster.run(10_000)
    assert cluster.leader == node_id


@covers("D-23", "D-40")
def test_who_leads_and_can_apply_nothing_hands_over_once_somebody_else_can_lead() -> None:
    """Nobody else was there to be elected."""
    cluster, leader, _ = with_history(chunk_bytes=7_000)
    node_id = stuck(cluster, leader)
    third = others(cluster, leader, node_id)
    cluster.crash(third)
    cluster.append(leader, b"third lacks this")
    cluster.run_until(
        lambda: cluster.raft_node(node_id).log.end_offset == cluster.raft_node(leader).log.end_offset
    )
    cluster.run(50)
    cluster.crash(leader)
    cluster.start(third)
    cluster.run_until(lambda: cluster.leader == node_id)
    cluster.start(leader)
    cluster.run_until(lambda: cluster.leader not in (None, node_id) and cluster.has_leader(), 20_000)
    cluster.run(20_000)
    assert cluster.leader not in (None, node_id)


def pieces_asked(cluster: Cluster, node_id: int) -> list[int]:
    """The positions that a node asked for."""
    sends = [line.fields for line in cluster.lines if (line.node_id, line.name) == (node_id, "Send")]
    return [int(fields["position"]) for fields in sends if fields["message"] == "FetchSnapshot"]


def is_downloading(cluster: Cluster, node_id: int, at_least: int = 1) -> Callable[[], bool]:
    def reached() -> bool:
        download = cluster.raft_node(node_id).download
        return download is not None and download[1] >= at_least

    return reached


# --- who loads one ------------------------------------------------------------------------------------------


@covers("FREQ-18", "SF-09", "D-21", "LSN-05")
def test_an_empty_follower_loads_the_snapshot_and_the_rest_of_the_log() -> None:
    cluster, leader, snapshot_id = with_history()
    cluster.append(leader, b"the last")
    cluster.run_until(cluster.has_converged)
    empty = others(cluster, leader)
    wiped(cluster, empty)
    cluster.run_until(cluster.has_converged)
    log = cluster.raft_node(empty).log
    assert (log.start_offset, log.snapshots) == (snapshot_id.offset, (snapshot_id,))
    assert cluster.nodes[empty].loaded == [snapshot_id]
    assert cluster.values(empty) == cluster.values(leader)


@covers("FREQ-20", "D-21")
def test_a_follower_behind_the_leaders_start_loads_the_snapshot_in_pieces(
    golden: Callable[[str], None],
) -> None:
    cluster, leader, _ = with_history(chunk_bytes=7_000)
    away = others(cluster, leader)
    cluster.crash(away)
    newer = cut(cluster, *(set(cluster.nodes) - {away}))
    cluster.run_until(lambda: not cluster.raft_node(leader)._raft.requests.any_waiting(RequestKind.BEGIN))
    cluster.take_trace()
    cluster.start(away)
    cluster.run_until(lambda: newer in cluster.nodes[away].loaded)
    positions = pieces_asked(cluster, away)
    golden(cluster.take_trace())
    cluster.run_until(cluster.has_converged)
    assert len(positions) > 3
    assert positions == sorted(set(positions)), "each piece once"
    assert cluster.raft_node(away).log.start_offset == newer.offset
    assert cluster.values(away) == cluster.values(leader)


def test_what_a_follower_holds_that_was_never_committed_goes_with_its_old_log() -> None:
    """Node 2 led alone and wrote what nobody else has; its tail reaches beyond the snapshot's end."""
    cluster, leader, _ = with_history()
    cluster.isolate(leader)
    for n in range(100):
        cluster.append(leader, b"never committed %d" % n)
    cluster.run(50)
    cluster.crash(leader)
    survivor = cluster.elect()
    newer = cut(cluster, *(set(cluster.nodes) - {leader}))
    assert cluster.nodes[leader].disk.durable_end() > newer.offset
    cluster.heal()
    cluster.start(leader)
    cluster.run_until(cluster.has_converged)
    assert cluster.values(leader) == cluster.values(survivor)
    assert b"never committed 0" not in cluster.values(leader)


@covers("FREQ-20", "FREQ-21", "SNAP-20")
@pytest.mark.parametrize("behind", [0, 3])
def test_a_leader_that_lost_its_snapshot_lets_nobody_in_whose_log_differs_before_its_start(
    behind: int,
) -> None:
    """Node 1 led alone, and its tail reaches beyond the start of node 2's log. Which of its records node 2
    has nobody can say without the snapshot: node 1 waits for the next one.
    """
    cluster = Cluster((1, 2, 3))
    former = cluster.elect()
    cluster.append(former, b"common")
    cluster.run_until(cluster.has_converged)
    cluster.isolate(former)
    for n in range(60):
        cluster.append(former, b"never committed %d" % n)
    cluster.run_until(lambda: cluster.leader not in {None, former} and cluster.has_leader())
    leader = cluster.leader
    assert leader is not None
    for n in range(30):
        cluster.append(leader, b"committed %d" % n)
    cluster.run(50)
    snapshot_id = cluster.take_snapshot(leader)
    for n in range(behind):
        cluster.append(leader, b"behind the snapshot %d" % n)
    cluster.run(50)
    cluster.cut_log(leader, snapshot_id)
    del cluster.nodes[leader].disk.snapshots[snapshot_id]
    cluster.heal()
    cluster.run(3_000)
    assert not [line for line in cluster.lines if (line.node_id, line.name) == (former, "Truncate")]

    cluster.append(leader, b"the last")
    cluster.run(50)
    cluster.take_snapshot(leader)
    cluster.run_until(cluster.has_converged)
    assert cluster.values(former) == cluster.values(leader)
    assert b"never committed 0" not in cluster.values(former)


def test_an_observer_loads_one_too() -> None:
    cluster = Cluster((1, 2, 3), observers=(9,), start=False, chunk_bytes=500)
    for node_id in (1, 2, 3):
        cluster.start(node_id)
    leader = cluster.elect()
    for n in range(50):
        cluster.append(leader, b"change %d" % n)
    cluster.run(500)
    snapshot_id = cluster.take_snapshot(leader)
    cluster.start(9)
    cluster.run_until(lambda: cluster.raft_node(9).high_watermark > snapshot_id.offset - 1)
    cluster.run_until(cluster.has_converged)
    assert cluster.nodes[9].loaded == [snapshot_id]
    assert cluster.values(9) == cluster.values(leader)


# --- who still reads what is cut ----------------------------------------------------------------------------


def begins_a_cold_read(cluster: Cluster, node_id: int) -> Callable[[], bool]:
    return lambda: any((line.node_id, line.name) == (node_id, "ColdRead") for line in cluster.lines)


@covers("D-15", "D-22", "FREQ-20")
def test_a_log_that_is_cut_during_a_cold_read(golden: Callable[[str], None]) -> None:
    """Node 2 asks for what node 1 has to read from its disk, and that is cut before it was read: the files
    are held, so node 2 gets the batches, and needs no snapshot.
    """
    cluster, leader, _ = with_history(tail_bytes=200, chunk_bytes=64 << 10)
    away = others(cluster, leader)
    cluster.crash(away)
    for n in range(10):
        cluster.append(leader, b"later change %d" % n)
    cluster.run(20)
    newer = cluster.take_snapshot(leader)
    cluster.append(leader, b"the last")
    cluster.run_until(lambda: not cluster.raft_node(leader)._raft.requests.any_waiting(RequestKind.BEGIN))
    cluster.take_trace()
    cluster.start(away)
    cluster.run_until(begins_a_cold_read(cluster, leader))
    cluster.cut_log(leader, newer)
    assert cluster.raft_node(leader).log.start_offset == newer.offset
    cluster.run_until(lambda: cluster.values(away) == cluster.values(leader))
    golden(cluster.take_trace())
    cluster.run_until(cluster.has_converged)
    assert cluster.values(away)[-1] == b"the last"
    assert pieces_asked(cluster, away) == []


# --- disturbed downloads ------------------------------------------------------------------------------------


@covers("SF-11", "D-20")
def test_a_download_goes_on_at_the_next_leader() -> None:
    cluster, leader, snapshot_id = with_history()
    empty = others(cluster, leader)
    wiped(cluster, empty)
    cluster.run_until(is_downloading(cluster, empty, 1_000))
    cluster.crash(leader)
    cluster.start(leader)
    cluster.run_until(cluster.has_converged)
    positions = pieces_asked(cluster, empty)
    assert positions.count(0) == 1, "not from the beginning again"
    assert cluster.nodes[empty].loaded == [snapshot_id]
    assert cluster.values(empty) == cluster.values(leader)


@covers("D-20")
def test_a_download_begins_anew_at_a_leader_whose_file_has_other_bytes() -> None:
    """A rolling upgrade: the releases write the same state in another order."""
    cluster, leader, _ = with_history()
    behind = others(cluster, leader)
    cluster.crash(behind)
    newer = cut(cluster, *(set(cluster.nodes) - {behind}), releases=True)
    cluster.start(behind)
    cluster.run_until(is_downloading(cluster, behind, 1_000))
    cluster.crash(leader)
    cluster.run_until(lambda: cluster.leader not in (None, leader))
    cluster.run_until(cluster.has_converged)
    assert pieces_asked(cluster, behind).count(0) == 2
    assert cluster.nodes[behind].loaded[-1] == newer
    alarms = [line for line in cluster.lines if (line.node_id, line.name) == (behind, "Alarmed")]
    assert alarms == [], "what is here is compared before the rest is fetched"


def test_a_broken_connection_costs_no_piece_that_was_written() -> None:
    cluster, leader, snapshot_id = with_history()
    empty = others(cluster, leader)
    wiped(cluster, empty)
    cluster.run_until(is_downloading(cluster, empty, 1_000))
    cluster.close((empty, leader), by=leader)
    cluster.isolate(empty)
    cluster.run(300)
    cluster.heal()
    cluster.run_until(cluster.has_converged)
    assert pieces_asked(cluster, empty).count(0) == 1
    assert cluster.nodes[empty].loaded == [snapshot_id]


@covers("SF-10")
def test_a_snapshot_that_is_gone_is_followed_by_what_the_leader_has_then() -> None:
    cluster, leader, old = with_history(chunk_bytes=100)
    empty = others(cluster, leader)
    wiped(cluster, empty)
    cluster.run_until(is_downloading(cluster, empty, 1_000))
    cluster.append(leader, b"one more")
    cluster.run(10)
    newer = cluster.take_snapshot(leader)
    del cluster.nodes[leader].disk.snapshots[old]
    cluster.run_until(cluster.has_converged)
    assert cluster.nodes[empty].loaded == [newer]


@covers("D-22")
def test_what_is_downloaded_is_not_cut_away_however_long_it_takes() -> None:
    """The cleaner comes again and again, and the follower is slow."""
    cluster, leader, old = with_history(chunk_bytes=100)
    empty = others(cluster, leader)
    wiped(cluster, empty)
    cluster.run_until(is_downloading(cluster, empty))
    cluster.append(leader, b"one more")
    cluster.run(10)
    newer = cluster.take_snapshot(leader)
    while cluster.raft_node(empty).download is not None:
        cluster.feed(leader, CutRequested(newer))
        assert cluster.raft_node(leader).log.start_offset == 0
        cluster.run(200)
    cluster.run_until(cluster.has_converged)
    assert cluster.nodes[empty].loaded == [old], "and the log behind it is there, too"
    cluster.run(3_000)
    cluster.feed(leader, CutRequested(newer))
    assert cluster.raft_node(leader).log.start_offset == newer.offset


def test_a_leader_of_three_stays_while_one_is_down_and_the_other_downloads() -> None:
    """Check-quorum: the pieces that node 3 takes are its progress (D-11)."""
    cluster, leader, _ = with_history(chunk_bytes=20)
    behind = others(cluster, leader)
    down = others(cluster, leader, behind)
    cluster.crash(behind)
    newer = cut(cluster, leader, down)
    cluster.start(behind)
    cluster.run_until(is_downloading(cluster, behind))
    cluster.crash(down)
    epoch = cluster.raft_node(leader).epoch
    began_ms = cluster.now_ms
    cluster.run_until(lambda: newer in cluster.nodes[behind].loaded)
    assert cluster.now_ms - began_ms > 4_000
    assert cluster.raft_node(leader).epoch == epoch
    assert isinstance(cluster.raft_node(leader).state, Leader)


@covers("D-03", "D-21")
def test_a_flush_of_the_old_log_that_ends_late_acknowledges_nothing() -> None:
    cluster, leader, _ = with_history()
    away = others(cluster, leader)
    cluster.isolate(away)
    cluster.crash(away)
    newer = cut(cluster, *(set(cluster.nodes) - {away}))
    cluster.heal()
    cluster.start(away)
    cluster.run_until(is_downloading(cluster, away, 1_000))
    old = cluster.raft_node(away).log
    generation, end_offset = old.generation, old.end_offset
    cluster.hold_flushes(away)
    cluster.flush(cluster.nodes[away], generation)
    cluster.run_until(lambda: newer in cluster.nodes[away].loaded)
    assert cluster.raft_node(away).log.end_offset >= newer.offset > end_offset
    cluster.append(leader, b"behind the snapshot")
    cluster.run(20)
    flushed = cluster.raft_node(away).log.flushed_offset
    held = cluster.nodes[away].held_flushes
    held[0]()
    assert cluster.raft_node(away).log.flushed_offset == flushed
    cluster.release_flushes(away)
    cluster.run_until(cluster.has_converged)


def test_a_disk_without_room_for_the_snapshot_is_an_alarm_and_no_end() -> None:
    cluster, leader, snapshot_id = with_history()
    empty = others(cluster, leader)
    cluster.nodes[empty].writes_snapshots = False
    wiped(cluster, empty)
    cluster.run_until(lambda: "snapshot_not_received" in cluster.nodes[empty].alarms)
    cluster.run(3_000)
    cluster.nodes[empty].writes_snapshots = True
    cluster.run_until(cluster.has_converged)
    assert cluster.nodes[empty].loaded == [snapshot_id]
    assert "snapshot_not_received" not in cluster.nodes[empty].alarms


# --- starts -------------------------------------------------------------------------------------------------


@covers("LOG-12", "D-23")
def test_nodes_that_have_nothing_but_a_snapshot_elect_one_that_goes_on_from_it() -> None:
    cluster, _, _ = with_history()
    cut(cluster, 1, 2, 3)
    newest = {cluster.take_snapshot(node_id) for node_id in (1, 2, 3)}.pop()
    for node_id in (1, 2, 3):
        cluster.crash(node_id)
        cluster.nodes[node_id].disk.install(newest)
    for node_id in (1, 2, 3):
        cluster.start(node_id)
    leader = cluster.elect()
    state = cluster.raft_node(leader).state
    assert isinstance(state, Leader)
    assert state.epoch_start_offset == newest.offset
    token = cluster.append(leader, b"goes on")
    cluster.run_until(cluster.has_converged)
    assert cluster.outcome(leader, token) == ErrorCode.NONE
    assert cluster.values(1)[-1] == b"goes on"


@covers("SNAP-23", "SF-09")
@pytest.mark.parametrize("snapshot_is_named", [False, True])
def test_a_crash_in_a_download_ends_in_the_old_log_or_in_the_new_one(snapshot_is_named: bool) -> None:
    cluster, leader, _ = with_history()
    away = others(cluster, leader)
    cluster.crash(away)
    newer = cut(cluster, *(set(cluster.nodes) - {away}))
    cluster.start(away)
    cluster.run_until(is_downloading(cluster, away, 2_000))
    cluster.crash(away)
    if snapshot_is_named:
        cluster.nodes[away].disk.snapshots[newer] = cluster.nodes[leader].disk.snapshots[newer]
    cluster.lines.clear()
    cluster.start(away)
    assert cluster.raft_node(away).log.start_offset == (newer.offset if snapshot_is_named else 0)
    cluster.run_until(cluster.has_converged)
    assert bool(pieces_asked(cluster, away)) != snapshot_is_named
    assert cluster.values(away) == cluster.values(leader)
