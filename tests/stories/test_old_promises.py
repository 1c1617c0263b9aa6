"""Stories in which two rare things meet: a slow disk and an election, a backup and a campaign.

Each of them once loses or shows what it must not if one condition is left out; in none of them does anything
go wrong in a single step.
"""

import copy
from collections.abc import Callable

import pytest

from kraftd.errors import ErrorCode
from kraftd.raft.epoch_states import Candidate, Leader
from kraftd.raft.events import LogDamaged
from kraftd.raft.rejoin import StateHealth
from kraftd.types import Election, NodeId, ReplicaKey
from tests.stories.cluster import Cluster, Disk
from tests.stories.test_replication import with_logs


def cut(cluster: Cluster, *pairs: tuple[NodeId, NodeId]) -> None:
    """Only these cannot reach each other from now on."""
    cluster.cut = {pair for a, b in pairs for pair in ((a, b), (b, a))}


def put_back(cluster: Cluster, node_id: NodeId, backup: Disk) -> None:
    """An operator overwrites the directory of a node that is down with a copy of it."""
    node = cluster.nodes[node_id]
    cluster.auditor.forget(cluster.view(node))
    node.disk = copy.deepcopy(backup)
    node.remark()


def happens(cluster: Cluster, condition: Callable[[], bool], limit_ms: int) -> bool:
    """Whether it comes to that within so much time."""
    try:
        cluster.run_until(condition, limit_ms)
    except AssertionError:
        return False
    return True


def acknowledge(cluster: Cluster, leader: NodeId) -> None:
    """A record is committed that must never be lost."""
    token = cluster.append(leader, b"precious")
    cluster.run(600)
    assert cluster.outcome(leader, token) == ErrorCode.NONE


def nobody_leads(cluster: Cluster, for_ms: int = 30_000) -> bool:
    """Whether no node leads in all that time."""
    return not happens(cluster, lambda: cluster.leader is not None, for_ms)


# --- slow disks meet elections ------------------------------------------------------------------------------


@pytest.mark.covers("D-02", "VOTE-12")
def test_a_candidate_claims_no_epoch_that_only_its_unflushed_end_has() -> None:
    """It crashes after it was given a vote, and campaigns again in the same epoch with what it flushed."""
    cluster = with_logs({1: [2, 2, 2], 2: [2, 2, 2], 3: [2]}, epoch=2)
    for n in (1, 2):
        cluster.start(n)
    assert cluster.elect() == 1
    acknowledge(cluster, 1)

    # A leader of a later epoch brings its first record to node 3 alone, whose disk does not flush it.
    cluster.hold_flushes(3)
    cluster.isolate(1, 2)
    cluster.start(3)
    cluster.restart(1)
    cluster.run_until(lambda: cluster.leader in (1, 2) and cluster.raft_node(cluster.leader).epoch > 3)
    leader = cluster.leader
    assert leader is not None
    other = 3 - leader
    cut(cluster, (leader, other), (3, other))
    cluster.run_until(
        lambda: cluster.raft_node(3).log.end_offset == cluster.raft_node(leader).log.end_offset, 2_000
    )
    assert cluster.raft_node(3).log.flushed_offset < cluster.raft_node(3).log.end_offset

    # It campaigns, loses its power after the other one has judged it, and comes back with a shorter log.
    cluster.crash(leader, silently=True)
    cluster.heal()
    if happens(cluster, lambda: isinstance(cluster.raft_node(3).state, Candidate), 10_000):
        epoch = cluster.raft_node(3).epoch
        cluster.run_until(lambda: cluster.raft_node(other).epoch >= epoch)
    cluster.holding_flushes.clear()
    cluster.restart(3)
    cluster.run_until(cluster.has_leader)
    assert cluster.leader == other, "the one that holds what was acknowledged"
    assert cluster.values(other)[-1] == b"precious"


@pytest.mark.covers("VOTE-29", "D-02")
def test_the_epoch_of_a_leader_with_an_unflushed_end_begins_at_the_end_of_its_log() -> None:
    """Otherwise its end is of no epoch, and a follower that has it is told to cut what is committed."""
    cluster = with_logs({1: [2], 2: [2], 3: [2]}, epoch=2)
    for n in (1, 2, 3):
        cluster.start(n)
    old = cluster.elect()
    cluster.run(600)
    slow, behind = (n for n in (1, 2, 3) if n != old)
    cluster.hold_flushes(slow)
    cluster.isolate(behind)
    for value in (b"one", b"two"):
        cluster.append(old, value)
        cluster.run(5)  # the second one reaches nobody
    assert cluster.raft_node(slow).log.end_offset > cluster.raft_node(slow).log.flushed_offset
    cluster.crash(old, silently=True)
    cluster.heal()
    cluster.run_until(lambda: isinstance(cluster.raft_node(slow).state, Leader))
    raft_node = cluster.raft_node(slow)
    assert isinstance(raft_node.state, Leader)
    assert raft_node.log.flushed_offset < raft_node.state.epoch_start_offset
    assert raft_node.log.epochs.entries[-1].start_offset == raft_node.state.epoch_start_offset
    cluster.release_flushes(slow)
    cluster.run_until(cluster.has_leader)
    cluster.run(600)
    cluster.take_trace()
    cluster.start(old)
    cluster.run_until(cluster.has_converged)
    assert all(cluster.values(n)[-1] == b"one" for n in cluster.nodes)
    cuts = [line for line in cluster.take_trace().splitlines() if "Truncate" in line]
    assert cuts
    assert all(f"end_offset={raft_node.state.epoch_start_offset} " in line for line in cuts)


@pytest.mark.covers("D-02", "D-03")
def test_a_deposed_leader_flushes_what_it_wrote_during_a_slow_flush_and_is_of_use_again() -> None:
    """It writes twice, the first flush ends under the next leader, and that one has nobody else."""
    cluster = Cluster()
    assert cluster.elect() == 1
    cluster.run(600)
    cluster.hold_flushes(1)
    for value in (b"being flushed", b"written meanwhile"):
        cluster.append(1, value)
        cluster.run(20)
    cluster.isolate(1)
    cluster.run_until(lambda: cluster.leader in (2, 3) and cluster.has_leader())
    new = cluster.elect()
    cluster.heal()
    cluster.run_until(lambda: cluster.raft_node(1).leader_id == new)
    raft_node = cluster.raft_node(1)
    assert raft_node.log.flushed_offset < raft_node.log.end_offset

    cluster.crash(5 - new)
    cluster.release_flushes(1)
    acknowledge(cluster, new)
    assert cluster.values(1) == [b"being flushed", b"written meanwhile", b"precious"]


# --- backups and wipes meet campaigns -----------------------------------------------------------------------


def backed_up() -> tuple[Cluster, Disk]:
    """Three nodes led by 1, and a copy of the directory of 2 from before two starts of it."""
    cluster = Cluster()
    assert cluster.elect() == 1
    cluster.run(1_000)
    cluster.crash(2)
    backup = copy.deepcopy(cluster.nodes[2].disk)
    cluster.start(2)
    cluster.run(1_500)
    cluster.restart(2)
    cluster.run(1_500)
    return cluster, backup


@pytest.mark.covers("D-06")
def test_a_vote_of_an_old_copy_does_not_count() -> None:
    """Node 3, which was down and lacks a record, campaigns; the copy of node 2 lacks it, too."""
    cluster, backup = backed_up()
    cluster.elect()
    cluster.crash(3)
    leader = cluster.elect()
    acknowledge(cluster, leader)
    cluster.crash(2)
    cluster.crash(1)
    put_back(cluster, 2, backup)
    disk = cluster.nodes[3].disk
    disk.election = Election(2, -1, ReplicaKey(3, disk.directory_id))  # it had begun when it went down
    cluster.start(2)
    cluster.run(50)
    cluster.start(3)
    assert nobody_leads(cluster)
    cluster.start(1)
    cluster.run_until(cluster.has_converged)
    assert cluster.values(cluster.elect())[-1] == b"precious"


@pytest.mark.covers("D-06")
def test_a_backup_that_is_put_back_twice_is_an_old_copy_both_times() -> None:
    cluster, backup = backed_up()
    cluster.crash(3)
    cluster.run(50)
    leader = cluster.elect()
    acknowledge(cluster, leader)
    cluster.crash(2)
    cluster.crash(1)
    put_back(cluster, 2, backup)
    cluster.start(3)
    cluster.start(2)
    cluster.run(8_000)
    assert not cluster.raft_node(2).is_whole, "node 3 knows that it forgot, and so does it itself by now"
    cluster.crash(2)
    put_back(cluster, 2, backup)
    cluster.start(2)
    assert nobody_leads(cluster)
    cluster.start(1)
    cluster.run_until(cluster.has_converged)
    assert cluster.values(cluster.elect())[-1] == b"precious"


@pytest.mark.covers("D-06")
def test_an_old_copy_that_takes_the_leader_for_one_is_told_by_the_others() -> None:
    """Node 1 was put back once, is whole again and leads. Then node 3 is put back, and knows a later start of
    node 1: it does not believe node 1's refusals. It campaigns in its old epoch, so that node 2 could refuse
    it for that alone, and would never be asked again.
    """
    cluster = Cluster()
    assert cluster.elect() == 1
    cluster.run(1_000)
    cluster.crash(1)
    backup = copy.deepcopy(cluster.nodes[1].disk)
    for n in (1, 1, 1, 3):
        if cluster.nodes[n].is_up:
            cluster.crash(n)
        knows_start_of_1 = copy.deepcopy(cluster.nodes[3].disk)
        cluster.start(n)
        cluster.run(3_000)
    cluster.restart(3)
    cluster.run(1_500)

    cluster.crash(1)
    put_back(cluster, 1, backup)
    cluster.start(1)
    cluster.run_until(lambda: not cluster.raft_node(1).is_whole)
    while not cluster.raft_node(1).is_whole:
        cluster.resign(cluster.elect())
        cluster.run(3_000)
    while cluster.elect() != 1:
        cluster.resign(cluster.elect(), to=1)
        cluster.run(3_000)

    cluster.crash(3)
    put_back(cluster, 3, knows_start_of_1)
    disk = cluster.nodes[3].disk
    disk.election = Election(disk.election.epoch + 1, -1, ReplicaKey(3, disk.directory_id))
    assert disk.election.epoch < cluster.raft_node(1).epoch
    cut(cluster, (1, 3))
    cluster.start(3)
    cluster.run(100)
    cluster.cut.clear()
    cluster.run_until(lambda: not cluster.raft_node(3).is_whole, 20_000)
    cluster.run(3_000)
    cluster.resign(cluster.elect())
    cluster.run_until(lambda: cluster.raft_node(3).is_whole, 20_000)
    cluster.run_until(cluster.has_converged)


@pytest.mark.covers("D-06")
def test_an_old_copy_makes_nobody_doubt_itself() -> None:
    """It knows another voter by the directory that was there before; two of three would not be whole then."""
    cluster, backup = backed_up()
    cluster.crash(3)
    cluster.wipe(3)
    cluster.start(3)
    cluster.run(3_000)
    cluster.resign(cluster.elect())  # a later leader makes it whole again
    cluster.run_until(lambda: cluster.raft_node(3).is_whole)
    cluster.run(1_500)
    cluster.restart(2)
    cluster.run(1_500)
    if cluster.elect() != 2:
        cluster.resign(cluster.elect(), to=2)
        cluster.run_until(lambda: cluster.leader == 2)
        cluster.run(600)

    # Its leader is gone, and what comes back in its place knows the disk that node 3 had before.
    for n in (1, 2, 3):
        cluster.crash(n)
    put_back(cluster, 2, backup)
    cluster.start(2)
    cluster.run(50)
    cluster.start(3)
    cluster.run(3_000)
    assert cluster.raft_node(3).is_whole
    cluster.start(1)
    cluster.run_until(lambda: not cluster.raft_node(2).is_whole)
    acknowledge(cluster, cluster.elect())


@pytest.mark.covers("D-06")
def test_an_old_copy_gets_no_leader_elected_by_one_whose_rotten_log_was_replaced() -> None:
    """That one counts as soon as it has the snapshot, by the leader that it followed before."""
    cluster = Cluster(chunk_bytes=1_000_000)
    assert cluster.elect() == 1
    for number in range(10):
        cluster.append(1, b"%d" % number)
    cluster.run(3_000)
    backup = copy.deepcopy(cluster.nodes[3].disk)
    backup.election = Election(backup.election.epoch, voted=backup.election.voted)  # before it heard of 1
    for _ in range(2):
        cluster.restart(3)
        cluster.run(3_000)
    for successor in (2, 1):
        assert cluster.leader is not None
        cluster.resign(cluster.leader, to=successor)
        cluster.run(3_000)
    assert cluster.leader == 1

    # A batch of node 2 is rotten, and it is cut off from the leader, whose log does not reach back any more.
    cluster.feed(2, LogDamaged(cluster.nodes[2].disk.generation, "batch 4 is rotten"))
    cluster.run(500)
    cut(cluster, (1, 2))
    cluster.raft_node(2)._raft.random_source.part = 0.9  # it asks node 3 first who leads
    cluster.run(6_000)
    for number in range(10):
        cluster.append(1, b"more %d" % number)
    cluster.run(500)
    snapshot_id = cluster.take_snapshot(1)
    cluster.cut_log(1, snapshot_id)
    cluster.run(200)
    acknowledge(cluster, 1)

    # Node 3 has an old copy of its directory, and hears node 2 only.
    cluster.crash(3)
    put_back(cluster, 3, backup)
    peers = cluster.raft_node(2)._raft.peers
    cluster.cut |= {(1, 3), (3, 1)}
    cluster.start(3)
    cluster.run_until(lambda: peers.conflicting_voters() == [3])
    cluster.raft_node(2)._raft.random_source.part = 0.33
    cluster.cut -= {(1, 2), (2, 1)}
    cluster.run_until(lambda: snapshot_id in cluster.nodes[2].loaded)
    cluster.crash(1)
    assert nobody_leads(cluster)
    cluster.cut.clear()
    cluster.start(1)
    cluster.run_until(cluster.has_converged)
    assert cluster.values(cluster.elect())[-1] == b"precious"


def forgets(cluster: Cluster, node_id: NodeId) -> None:
    """A node is started, and finds that its election file is damaged."""
    cluster.auditor.forget(cluster.view(cluster.nodes[node_id]))
    cluster.start(node_id, health=StateHealth(amnesia=("the election file fails its checksum",)))


@pytest.mark.covers("D-06")
def test_who_forgot_counts_by_no_leader_at_which_a_disk_that_was_replaced_since_counts() -> None:
    """Node 4 acknowledges a record, and an old copy of it is all that node 2 finds at its address."""
    cluster = Cluster((1, 2, 3, 4, 5))
    assert cluster.elect() == 1
    cluster.append(1, b"x")
    cluster.run(2_000)
    cluster.crash(4)
    backup = copy.deepcopy(cluster.nodes[4].disk)
    cluster.run(50)
    for _ in range(2):
        cluster.restart(4)
        cluster.run(4_000)

    # Node 2 has forgotten, and hears all but node 4 in epoch 1; then it hears nobody until epoch 3.
    cluster.crash(2)
    cluster.run(50)
    cut(cluster, (2, 4))
    forgets(cluster, 2)
    cluster.run(1_500)
    rejoin = cluster.raft_node(2)._raft.rejoin
    assert rejoin.unheard == {4}
    cluster.isolate(2)
    for leader, successor in ((1, 3), (3, 1)):
        cluster.resign(leader, to=successor)
        cluster.run_until(lambda successor=successor: cluster.leader == successor and cluster.has_leader())
        cluster.run(500)
    cluster.append(1, b"long" * 1_000_000)
    cluster.run(500)

    # A record is on 1 and 4, and node 3 flushes it for long; then node 4 has its old copy, and hears 2 only.
    cluster.hold_flushes(3)
    cluster.cut |= {(1, 5)}
    token = cluster.append(1, b"precious", b"." * 5_000_000, deadline_ms=20_000)
    cluster.run(20)
    assert cluster.outcome(1, token) is None
    cluster.crash(4)
    put_back(cluster, 4, backup)
    cluster.cut.clear()
    cluster.isolate(2, 4)
    cluster.start(4)
    cluster.run(1_000)
    cluster.cut.clear()
    cluster.isolate(4)
    cluster.cut -= {(2, 4), (4, 2)}
    cluster.cut |= {(1, 5)}
    happens(cluster, lambda: cluster.raft_node(2).is_whole, 1_000)
    cluster.hold_flushes(2)
    cluster.run(5)
    cluster.release_flushes(3)
    cluster.run(30)
    assert cluster.outcome(1, token) == ErrorCode.NONE

    for node_id in (1, 3, 2):
        cluster.crash(node_id)
    cluster.holding_flushes.clear()
    cut(cluster, (4, 5))
    cluster.run(20)
    cluster.start(2)
    assert nobody_leads(cluster)
    cluster.start(1)
    cluster.start(3)
    cluster.cut.clear()
    cluster.elect()
    assert b"precious" in cluster.values(cluster.leader or 0)


@pytest.mark.covers("D-06")
@pytest.mark.parametrize("restarted", [2, 3])
def test_a_voter_with_a_new_disk_is_known_to_one_that_forgot_and_had_heard_its_former_one(
    restarted: NodeId,
) -> None:
    """Both count again. That it knew of its loss is forgotten with a restart, of the one or the other."""
    cluster = Cluster((1, 2, 3, 4, 5))
    assert cluster.elect() == 1
    cluster.append(1, b"x")
    cluster.run(3_000)
    cluster.crash(2)
    cluster.run(50)
    cut(cluster, (2, 5))
    forgets(cluster, 2)
    cluster.run(2_000)
    assert cluster.raft_node(2)._raft.rejoin.unheard == {5}
    cluster.crash(3)
    cluster.wipe(3)
    cluster.run(50)
    cluster.start(3)
    cluster.run_until(lambda: not cluster.raft_node(3)._raft.rejoin.unheard)
    if restarted == 3:
        cut(cluster, (2, 5), (2, 3))
    cluster.run(3_000)
    cluster.resign(1, to=4)
    cluster.run_until(lambda: cluster.raft_node(3).is_whole)
    if restarted == 3:
        cluster.restart(3)
        cluster.run(3_000)
        cut(cluster, (2, 5))
    cluster.run(4_000)
    cluster.cut.clear()
    cluster.run(3_000)
    for successor in (1, 4, 1):
        if not all(cluster.raft_node(node_id).is_whole for node_id in (2, 3)):
            cluster.resign(cluster.leader or 0, to=successor)
            cluster.run(4_000)
    if restarted == 2:
        cluster.restart(2)
        cluster.run(6_000)
    assert all(cluster.raft_node(node_id).is_whole for node_id in cluster.nodes)
    directory_id = cluster.nodes[3].disk.directory_id
    assert {cluster.nodes[n].disk.peers[3].directory_id for n in (1, 2, 4, 5)} == {directory_id}
    for node_id in (1, 4):
        cluster.crash(node_id)
    for node_id in (2, 3, 5):
        cluster.restart(node_id)
    cluster.run_until(cluster.has_leader)


@pytest.mark.covers("D-06", "HWM-02")
def test_a_wiped_voter_is_not_whole_by_a_leader_that_knows_no_high_watermark_yet() -> None:
    cluster = Cluster()
    assert cluster.elect() == 1
    cluster.run(600)
    for number in range(4):  # more than one fetch gives
        cluster.append(1, bytes([number]) * 5_000_000)
        cluster.run(50)
    cluster.run(600)
    cluster.crash(3)
    acknowledge(cluster, 1)

    # Node 2 loses its disk, hears everybody, and has to catch up; 1 has to be elected anew by 3 meanwhile.
    cluster.crash(2)
    cluster.wipe(2)
    cut(cluster, (1, 3))
    cluster.start(3)
    cluster.start(2)
    cluster.run_until(lambda: not cluster.raft_node(2)._raft.rejoin.unheard, 5_000)
    cut(cluster, (1, 3), (1, 2))
    cluster.run_until(lambda: not cluster.raft_node(1).is_leader)
    cut(cluster, (1, 2))
    cluster.run_until(lambda: cluster.raft_node(1).is_leader)
    cut(cluster, (1, 3))  # before 3 has fetched: 1 does not know what is committed in its epoch
    happens(cluster, lambda: cluster.raft_node(2).log.end_offset >= 6, 2_500)
    assert not cluster.raft_node(2).is_whole

    # Nor can it elect 3, which lacks the record, after one more start.
    cluster.crash(1)
    cluster.restart(2)
    cluster.cut.clear()
    assert nobody_leads(cluster)
    cluster.start(1)
    cluster.run_until(cluster.has_converged)
    assert cluster.values(cluster.elect())[-1] == b"precious"


# --- cuts meet rounds and terms of the same leader ----------------------------------------------------------


@pytest.mark.covers("D-12")
def test_a_response_to_an_earlier_round_confirms_no_later_read() -> None:
    """Five voters: a deposed leader is still heard by one of those who confirmed its last read."""
    cluster = Cluster((1, 2, 3, 4, 5))
    old = cluster.elect()
    cluster.run(600)
    read = cluster.read(old)
    cluster.run(100)
    assert cluster.outcome(old, read) == ErrorCode.NONE
    friend = next(n for n in cluster.nodes if n != old)
    cluster.isolate(old, friend)
    others = [n for n in cluster.nodes if n not in (old, friend)]

    def leads_elsewhere() -> bool:
        raft_node = next((cluster.raft_node(n) for n in others if cluster.raft_node(n).is_leader), None)
        return (
            raft_node is not None
            and isinstance(raft_node.state, Leader)
            and raft_node.high_watermark > raft_node.state.epoch_start_offset
        )

    cluster.run_until(leads_elsewhere)
    new = next(n for n in others if cluster.raft_node(n).is_leader)
    token = cluster.append(new, b"new")
    cluster.run(20)
    assert cluster.outcome(new, token) == ErrorCode.NONE
    assert cluster.raft_node(old).is_leader, "it cannot know yet"
    read = cluster.read(old)
    cluster.run(100)
    assert cluster.outcome(old, read) is not ErrorCode.NONE


@pytest.mark.covers("HWM-02", "FREQ-06")
def test_a_leader_that_leads_again_answers_in_its_new_epoch() -> None:
    """The only one that can lead is cut off after its first response, and elected again with nothing new."""
    cluster = with_logs({1: [2, 2], 2: [2], 3: [2]}, epoch=2)
    for n in (1, 2):
        cluster.start(n)
    cluster.run_until(lambda: isinstance(cluster.raft_node(1).state, Leader))
    leader = cluster.raft_node(1)
    while leader._replication._cached_response is None:  # it answers one fetch, and the response is held up
        cluster.step()
    cluster.isolate(1)
    cluster.run(12_000)
    cluster.heal()
    cluster.run_until(cluster.has_leader)
    assert cluster.leader == 1
