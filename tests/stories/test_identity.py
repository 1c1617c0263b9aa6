"""Stories of nodes that forgot: wiped, restored from a backup, doubled, or brand new (D-06)."""

import re
from collections.abc import Callable
from copy import deepcopy

import pytest
from msgspec.structs import replace

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import rpc
from kraftd.raft.epoch_states import Candidate, Follower, Prospective
from kraftd.raft.events import LogDamaged, PeerClaimed, PeerIdentified, RequestReceived, ResponseReceived
from kraftd.raft.rejoin import Rejoin, StateHealth
from kraftd.raft.rpc import LeaderAndEpoch, VoteParams
from kraftd.raft.voters import Quorum
from kraftd.records.batch import encode_batch
from kraftd.types import (
    FORGET_PEERS,
    NO_NODE,
    Election,
    HealthKind,
    NodeId,
    OffsetAndEpoch,
    PeerIdentity,
    ReplicaKey,
)
from tests.stories.cluster import CLUSTER_ID, Cluster, Disk, Node, voter_set


def written() -> Cluster:
    """Three nodes with a committed record, of which 1 leads."""
    cluster = Cluster()
    assert cluster.elect() == 1
    cluster.append(1, b"committed")
    cluster.run(100)
    cluster.take_trace()
    return cluster


def wiped() -> Cluster:
    """The same, and node 3 has got an empty disk since; it follows."""
    cluster = written()
    cluster.crash(3)
    cluster.wipe(3)
    cluster.run(50)
    cluster.start(3)
    cluster.run(2_000)
    return cluster


@pytest.mark.covers("D-06")
def test_a_wiped_voter_is_uncounted_until_a_leader_was_elected_without_it(
    golden: Callable[[str], None],
) -> None:
    cluster = wiped()
    assert not cluster.raft_node(3).is_whole
    assert "not_whole" in cluster.nodes[3].alarms
    assert cluster.values(3) == [b"committed"], "it follows all the same"

    # It does not count: with 2 gone, nothing is committed.
    cluster.crash(2)
    cluster.run(20)
    token = cluster.append(1, b"held by 1 and the amnesiac", deadline_ms=500)
    cluster.run(501)
    assert cluster.outcome(1, token) == 7
    cluster.start(2)
    cluster.run_until(cluster.has_leader)

    # Once every voter was heard and a later leader stands, it is a node again.
    cluster.run(1_000)
    cluster.take_trace()
    cluster.resign(cluster.leader or 0, to=2 if cluster.leader == 1 else 1)
    cluster.run_until(lambda: cluster.raft_node(3).is_whole)
    cluster.run_until(cluster.has_converged)
    assert cluster.nodes[3].alarms == {}
    golden(cluster.take_trace())

    # And it counts: with one of the others gone, the rest commits.
    leader = cluster.leader or 0
    cluster.crash(3 - leader)
    token = cluster.append(leader, b"held by the leader and the rejoined one")
    cluster.run(200)
    assert cluster.outcome(leader, token) == 0


@pytest.mark.covers("D-06")
@pytest.mark.parametrize("leads", [False, True])
def test_who_was_away_when_a_voter_became_whole_again_is_told_that_it_knew(leads: bool) -> None:
    """Node 1 has seen node 3 fetch without its id, which it keeps in memory; it is restarted, as operators do
    to have another leader elected, and node 3 is whole before it is back.
    """
    cluster = wiped()
    cluster.resign(1, to=2)
    cluster.run_until(lambda: cluster.raft_node(3).is_whole)
    assert cluster.leader == 2
    cluster.crash(1)
    cluster.run(50)
    if leads:
        cluster.resign(2, to=3)
        cluster.run_until(lambda: cluster.leader == 3)
    cluster.take_trace()
    cluster.start(1)
    cluster.run(3_000)
    assert "not_whole" not in cluster.take_trace(), "it does not doubt itself for a second time"
    assert cluster.raft_node(3).is_whole

    # And node 2 is not needed any more: the two elect each other, and write, after another start too.
    cluster.crash(2)
    cluster.restart(3)
    cluster.run_until(lambda: cluster.leader in (1, 3))
    leader = cluster.leader or 0
    token = cluster.append(leader, b"held by who was away and who was wiped")
    cluster.run(200)
    assert cluster.outcome(leader, token) == ErrorCode.NONE


@pytest.mark.covers("D-06")
def test_a_node_in_doubt_is_not_asked_over_and_over() -> None:
    cluster = written()
    cluster.crash(3)
    cluster.wipe(3)
    cluster.restart(2)
    cluster.run(50)
    cluster.start(3)
    cluster.run(3_000)
    assert not cluster.raft_node(3).is_whole
    cluster.take_trace()
    cluster.run(5_000)
    probes = [line for line in cluster.take_trace().splitlines() if " 2 > Send to=3" in line]
    assert len(probes) <= 6


@pytest.mark.covers("D-06")
def test_amnesia_survives_a_restart() -> None:
    """Following has given it an election file by then, which must not make it look whole."""
    cluster = wiped()
    cluster.restart(3)
    assert not cluster.raft_node(3).is_whole
    cluster.crash(1)
    cluster.run(10_000)
    assert cluster.leader is None, "2 alone is no majority, and 3 neither votes nor campaigns"
    assert not isinstance(cluster.raft_node(3).state, Prospective | Candidate)


@pytest.mark.covers("D-06", "D-07")
def test_a_node_that_forgot_does_not_even_repeat_a_vote() -> None:
    """There is a vote in its election file, but nothing vouches for the file any more."""
    cluster = Cluster(start=False)
    candidate = ReplicaKey(2, cluster.nodes[2].disk.directory_id)
    cluster.nodes[1].disk.election = Election(5, NO_NODE, candidate)
    cluster.start(1, health=StateHealth(amnesia=("kraftd.state is gone",)))
    ask = VoteParams(5, candidate, OffsetAndEpoch(0, 0), ReplicaKey(1), pre_vote=False)
    asked = RequestReceived(10**8, rpc.vote_request(CLUSTER_ID, ask), 2, cluster.identity(2))
    cluster.feed(1, asked)
    data = cluster.nodes[1].outcomes[asked.handle].response.topics[0].partitions[0]
    assert (data.vote_granted, data.leader_epoch) == (False, 5)


@pytest.mark.covers("D-06", "Q-31")
def test_a_wiped_voter_cannot_elect_a_stale_one() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(50)
    cluster.isolate(3)
    token = cluster.append(1, b"on 1 and 2 only")
    cluster.run(50)
    assert cluster.outcome(1, token) == 0
    cluster.crash(1)
    cluster.crash(2)
    cluster.wipe(2)
    cluster.heal()
    cluster.start(2)
    cluster.run(20_000)
    assert cluster.leader is None
    cluster.start(1)
    cluster.run_until(cluster.has_leader)
    cluster.run(1_000)
    assert cluster.values(cluster.leader or 0) == [b"on 1 and 2 only"]


@pytest.mark.covers("D-06")
def test_a_blank_voter_judges_no_log_with_records() -> None:
    """Even where nobody remembers that it was another: it may have acknowledged what the candidate lacks."""
    cluster = Cluster(start=False)
    stale = cluster.nodes[3].disk
    stale.batches, stale.durable_count, stale.election = [encode_batch(0, 1, 0, [b"old"])], 1, Election(1)
    cluster.start(2)
    cluster.start(3)
    cluster.run(20_000)
    assert cluster.leader is None


@pytest.mark.covers("D-06")
def test_a_blank_voter_stays_blank_across_restarts_until_it_has_promised_something() -> None:
    cluster = Cluster(start=False)
    cluster.start(1)
    assert cluster.nodes[1].disk.health == "blank"
    cluster.restart(1)
    assert cluster.nodes[1].disk.health == "blank"
    cluster.start(2)
    cluster.run_until(cluster.has_leader)
    cluster.run(50)
    assert cluster.nodes[1].disk.health == "whole"


@pytest.mark.covers("D-06")
def test_who_is_killed_in_its_first_candidacy_leads_after_it_and_is_blank_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its vote for itself is durable, and the sidecar still says that it never promised anything. Taken for
    blank, it would judge no log with records: not even one that holds more than its own.
    """
    cluster = Cluster(start=False)
    carry_out_one = cluster.carry_out_one

    def killed(node: Node, effect: fx.Effect) -> None:
        if node.id == 1 and effect == fx.RememberStateHealth(HealthKind.WHOLE):
            cluster.crash(1)
        else:
            carry_out_one(node, effect)

    monkeypatch.setattr(cluster, "carry_out_one", killed)
    for n in (1, 2, 3):
        cluster.start(n)
    cluster.run_until(lambda: not cluster.nodes[1].is_up)
    assert cluster.nodes[1].disk.health == "blank"
    assert cluster.nodes[1].disk.election == Election(
        1, NO_NODE, ReplicaKey(1, cluster.nodes[1].disk.directory_id)
    )
    monkeypatch.undo()
    cluster.start(1)
    assert cluster.elect() == 1
    cluster.append(1, b"committed")
    cluster.run(100)

    # Node 3 is sent one record more than node 1 gets to its disk, and node 2 is gone.
    cluster.crash(2)
    cluster.hold_flushes(1)
    cluster.append(1, b"only on 3")
    cluster.run(100)
    cluster.restart(1)
    cluster.holding_flushes.clear()
    assert cluster.elect() == 3
    assert cluster.nodes[1].disk.health == "whole"


@pytest.mark.covers("D-06")
def test_a_node_restored_from_a_backup_is_an_amnesiac() -> None:
    """The same directory, but a start that was seen before, under another random id."""
    cluster = written()
    cluster.crash(3)
    cluster.nodes[3].disk.start_counter = 0
    cluster.run(50)
    cluster.start(3)
    cluster.run(2_500)
    assert not cluster.raft_node(3).is_whole


@pytest.mark.covers("D-06")
def test_an_old_copy_of_a_directory_makes_nobody_else_doubt_itself() -> None:
    """It remembers who the others were when it was made; one of them has another disk since, and is whole."""
    cluster = written()
    old = cluster.nodes[3].disk
    before = dict(old.peers), old.start_counter
    cluster.restart(3)
    cluster.run(2_500)
    cluster.crash(2)
    cluster.wipe(2)
    cluster.start(2)
    cluster.run(3_000)
    cluster.resign(1, to=3)
    cluster.run_until(lambda: cluster.raft_node(2).is_whole, 20_000)
    cluster.run(3_000)
    assert old.peers[2].directory_id == cluster.nodes[2].disk.directory_id
    cluster.crash(3)
    old.peers, old.start_counter = before[0], before[1] - 1
    cluster.run(50)
    cluster.start(3)
    cluster.run(5_000)
    assert not cluster.raft_node(3).is_whole
    assert cluster.raft_node(2).is_whole
    cluster.resign(cluster.leader or 0)
    cluster.run_until(lambda: cluster.raft_node(3).is_whole, 20_000)
    assert all(cluster.raft_node(n).is_whole for n in (1, 2, 3))


@pytest.mark.covers("D-06")
def test_a_second_backup_that_is_newer_than_the_first_is_not_believed_for_it() -> None:
    """Node 3 runs on a backup of start 2 and knows that it forgot; then a backup of start 4 takes its place.

    The write that only nodes 1 and 3 hold is not on it. Node 2 has seen node 3 fetch without its id: were the
    newer backup taken for a later start of that one, nodes 2 and 3 would elect a leader without the write.
    """
    cluster = written()
    node, backups = cluster.nodes[3], {}
    for _ in range(5):
        cluster.crash(3)
        backups[node.disk.start_counter] = deepcopy(node.disk)
        cluster.run(50)
        cluster.start(3)
        cluster.run(3_000)

    def restore(start_counter: int) -> None:
        cluster.auditor.forget(cluster.view(node))
        node.disk = deepcopy(backups[start_counter])
        node.remark()
        cluster.look(node)
        cluster.run(50)
        cluster.start(3)

    cluster.crash(2)
    token = cluster.append(1)
    cluster.run(2_000)
    assert cluster.outcome(1, token) == ErrorCode.NONE
    cluster.crash(3)
    cluster.cut |= {(1, 2), (2, 1)}
    cluster.start(2)
    restore(2)
    cluster.run(4_000)
    assert not cluster.raft_node(3).is_whole
    cluster.crash(3)
    cluster.crash(1)
    restore(4)
    cluster.run(15_000)
    assert not cluster.raft_node(3).is_whole
    assert cluster.leader is None
    cluster.cut.clear()
    cluster.start(1)
    cluster.run_until(lambda: cluster.leader == 1, 20_000)


@pytest.mark.covers("D-06")
def test_nodes_that_take_each_other_for_old_copies_say_so_and_what_to_do() -> None:
    """What forged greetings left in an older release: starts of the others that never were."""
    cluster = written()
    for node_id in (1, 2, 3):
        cluster.crash(node_id)
    for node in cluster.nodes.values():
        node.disk.peers = {
            peer.node_id: replace(peer, start_counter=2**31 - 1) for peer in node.disk.peers.values()
        }
    cluster.run(50)
    cluster.take_trace()
    for node_id in (1, 2, 3):
        cluster.start(node_id)
    for _ in range(100):
        cluster.run(100)
        views = [cluster.raft_node(n).describe(cluster.now(cluster.nodes[n])) for n in (1, 2, 3)]
        assert all(FORGET_PEERS in view.why_not_following for view in views), views
    assert cluster.leader is None
    warned = [line for line in cluster.take_trace().splitlines() if "doubtful_voter" in line]
    assert {line.split()[1] for line in warned} == {"1", "2", "3"}
    assert all("an old copy of the directory; it does not count" in line for line in warned)
    assert all(FORGET_PEERS in line for line in warned)


@pytest.mark.covers("D-06")
def test_a_second_process_under_one_id_is_refused_while_the_first_is_connected() -> None:
    cluster = written()
    known = cluster.nodes[1].disk.peers[3]
    cluster.feed(1, PeerClaimed(10**6, 3, b"another director", b"nonce of another"))
    cluster.take_trace()
    cluster.run(2_001)
    assert "node 3 at host3:9003 did not confirm that it is its own" in cluster.take_trace()
    assert cluster.nodes[1].disk.peers[3] == known
    assert cluster.has_converged()


@pytest.mark.covers("D-06", "D-37")
def test_another_disk_behind_a_voters_address_is_known_for_what_it_is() -> None:
    """It proved to be where node 3 is, and takes the place of the connections that nobody closed."""
    cluster = written()
    known = cluster.nodes[1].disk.peers[3]
    cluster.take_trace()
    cluster.confirm(1, 10**6, PeerIdentity(3, b"another director", 1, b"another startid!"))
    assert "node 3 has connected anew since" in cluster.take_trace()
    assert cluster.nodes[1].disk.peers[3] == known, "and is not counted"


@pytest.mark.covers("D-06", "D-12", "D-37")
def test_who_answers_on_our_connection_is_known_although_its_own_to_us_ended() -> None:
    """Node 3 is down. The connection of node 2 to node 1 breaks, that of node 1 to node 2 stands."""
    cluster = written()
    cluster.crash(3)
    cluster.run(10)
    cluster.close((2, 1), by=2)
    cluster.run(5)
    reading = cluster.read(1)
    cluster.run(100)
    assert cluster.outcome(1, reading) == 0, "node 2 confirms that node 1 leads"

    cluster.run_until(lambda: (2, 1) in cluster.connections)
    assert (1, 2) in cluster.connections, "the new one takes the place of the broken one only"
    reading = cluster.read(1)
    cluster.run(100)
    assert cluster.outcome(1, reading) == 0


@pytest.mark.covers("D-06")
def test_a_process_that_claims_our_own_id_is_refused() -> None:
    cluster = written()
    cluster.feed(
        1, PeerIdentified(10**6, PeerIdentity(1, b"another director", 1, b"another startid!"), outbound=False)
    )
    assert "two nodes share one id" in cluster.take_trace()


@pytest.mark.covers("D-06")
def test_a_damaged_log_is_not_mended_by_time() -> None:
    cluster = written()
    cluster.crash(3)
    cluster.run(50)
    cluster.start(3, health=StateHealth(damage=("segment 0 at byte 17, offset 1: bad checksum",)))
    cluster.run(1_000)
    cluster.resign(1, to=2)
    cluster.run(5_000)
    assert not cluster.raft_node(3).is_whole
    assert "byte 17" in cluster.raft_node(3).describe(cluster.now(cluster.nodes[3])).why_not_following
    assert isinstance(cluster.raft_node(3).state, Follower)


def with_cold_log() -> Cluster:
    """1 leads, and has what it wrote on its disk only; 3 was never there."""
    cluster = Cluster(tail_bytes=300, start=False)
    cluster.start(1)
    cluster.start(2)
    assert cluster.elect() == 1
    for _ in range(20):
        cluster.append(1)
        cluster.run(5)
    cluster.run(100)
    cluster.take_trace()
    return cluster


@pytest.mark.covers("D-06", "D-14", "D-15")
def test_a_leader_whose_log_rots_says_so_and_lets_a_whole_one_lead(golden: Callable[[str], None]) -> None:
    cluster = with_cold_log()
    cluster.nodes[1].disk.rotten.add(4)
    cluster.start(3)
    cluster.run_until(lambda: cluster.leader == 2, 5_000)
    golden(cluster.take_trace())
    cluster.run_until(cluster.has_converged)
    assert cluster.values(3) == cluster.values(2), "the late one has it all, from a whole disk"
    assert not cluster.raft_node(1).is_whole
    assert cluster.raft_node(1).damage == ("batch 4 is rotten",)
    assert "rotten" in cluster.nodes[1].alarms["not_whole"]

    # It does not count: with one of the two others gone, nothing is committed, and it never leads.
    cluster.crash(3)
    token = cluster.append(2, b"held by 2 and the damaged one", deadline_ms=500)
    cluster.run(501)
    assert cluster.outcome(2, token) == 7
    cluster.crash(2)
    cluster.run(20_000)
    assert cluster.leader is None
    assert not isinstance(cluster.raft_node(1).state, Prospective | Candidate)


@pytest.mark.covers("D-06", "D-14")
def test_a_fetch_that_waits_for_rotten_bytes_is_answered() -> None:
    cluster = with_cold_log()
    cluster.nodes[1].disk.rotten.add(0)
    cluster.start(3)
    cluster.run_until(lambda: not cluster.raft_node(1).is_whole, 5_000)
    assert not cluster.raft_node(1).is_leader
    assert not cluster.nodes[1].handles, "nobody is left waiting"


@pytest.mark.covers("D-06")
@pytest.mark.parametrize("others_are_up", [True, False], ids=["following", "campaigning"])
def test_a_voter_whose_log_rots_neither_votes_nor_campaigns(others_are_up: bool) -> None:
    cluster = written()
    if not others_are_up:
        cluster.crash(1)
        cluster.crash(2)
        cluster.run_until(lambda: isinstance(cluster.raft_node(3).state, Prospective), 10_000)
    cluster.feed(3, LogDamaged(0, "segment 0 at byte 17, offset 1: bad checksum"))
    assert not cluster.raft_node(3).is_whole
    cluster.take_trace()
    cluster.run(20_000)
    assert not isinstance(cluster.raft_node(3).state, Prospective | Candidate)
    if others_are_up:
        fetches = [
            line for line in cluster.take_trace().splitlines() if " 3 > Send to=1 message=Fetch" in line
        ]
        assert fetches[1:]
        assert all("replica=-1" in line for line in fetches[1:])


@pytest.mark.covers("D-06", "D-15")
def test_what_looked_damaged_because_the_log_was_cut_meanwhile_is_no_damage() -> None:
    cluster = written()
    cluster.feed(1, LogDamaged(7, "segment 0 at byte 17, offset 1: bad checksum"))
    assert cluster.raft_node(1).is_whole
    assert cluster.raft_node(1).is_leader


@pytest.mark.covers("D-06")
def test_what_a_disk_acknowledged_does_not_count_after_it_was_replaced() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(50)
    cluster.hold_flushes(1)
    cluster.isolate(2)
    token = cluster.append(1, b"flushed by 3, not by the leader", deadline_ms=60_000)
    cluster.run(50)
    assert cluster.outcome(1, token) is None
    cluster.crash(3)
    cluster.wipe(3)
    cluster.run(20)
    cluster.start(3)
    cluster.run(1_200)
    cluster.release_flushes(1)
    cluster.run(20)
    assert cluster.outcome(1, token) is None, "3 does not hold it any more"


@pytest.mark.covers("D-06", "D-12")
def test_a_node_that_may_have_forgotten_confirms_no_leader() -> None:
    """It may have promised itself to a later one, so its word would make a stale read look current."""
    cluster = written()
    cluster.crash(3)
    cluster.run(50)
    cluster.start(3, health=StateHealth(amnesia=("the election file fails its checksum",)))
    cluster.run(2_000)
    assert cluster.raft_node(3).leader_id == 1
    cluster.crash(2)
    cluster.run(10)
    token = cluster.read(1, deadline_ms=900)
    cluster.run(901)
    assert cluster.outcome(1, token) == 7, "1 and the amnesiac are no majority"


@pytest.mark.covers("QS-09", "D-05")
def test_an_election_file_behind_the_log_is_amnesia() -> None:
    cluster = written()
    cluster.crash(3)
    cluster.nodes[3].disk.election = None
    cluster.auditor.forget(cluster.view(cluster.nodes[3]))
    cluster.start(3, health=StateHealth())
    assert not cluster.raft_node(3).is_whole
    assert cluster.raft_node(3).epoch == 1


@pytest.mark.covers("D-06")
def test_a_node_that_forgot_waits_for_every_voters_epoch_and_for_a_leader_after_the_highest() -> None:
    """The last one to answer may know of the epoch in which the forgotten vote was given."""
    rejoin = Rejoin(StateHealth(amnesia=("lost",)), Quorum(1, voter_set(1, 2, 3)), lambda: None)
    rejoin.record_response(2, 5)
    assert not rejoin.try_complete(6, 0, 0), "3 was not heard"
    rejoin.record_response(3, 9)
    assert not rejoin.try_complete(6, 0, 0)
    assert not rejoin.try_complete(9, 0, 0), "it may have voted in epoch 9"
    assert not rejoin.try_complete(10, 7, 6), "not all that is committed is here"
    assert rejoin.try_complete(10, 7, 7)
    assert rejoin.is_whole


@pytest.mark.covers("D-06")
def test_an_observer_that_forgot_waits_for_the_log_alone() -> None:
    """Nobody counts it, and no voter answers for it."""
    rejoin = Rejoin(StateHealth(amnesia=("lost",)), Quorum(4, voter_set(1, 2, 3)), lambda: None)
    assert not rejoin.try_complete(6, -1, 0), "it does not know what is committed"
    assert not rejoin.try_complete(6, 7, 6), "not all that is committed is here"
    assert rejoin.try_complete(6, 7, 7)
    assert rejoin.is_whole
    holed = Rejoin(StateHealth(damage=("a batch",)), Quorum(4, voter_set(1, 2, 3)), lambda: None)
    assert not holed.try_complete(6, 7, 7)


@pytest.mark.covers("D-06", "D-12")
def test_an_old_copy_of_a_directory_confirms_no_leader() -> None:
    """It does not know what it has forgotten; the leader, who saw the later start, does."""
    cluster = written()
    cluster.crash(3)
    cluster.crash(2)
    cluster.nodes[2].disk.start_counter -= 1
    cluster.start(2)
    assert cluster.raft_node(2).is_whole, "nobody has told it yet"
    token = cluster.read(1, deadline_ms=900)
    cluster.run(901)
    assert cluster.outcome(1, token) == 7


def with_a_second_candidate() -> tuple[Cluster, Disk]:
    """Node 1 leads with the vote of node 3, and both hold a record; node 2 is down, and has voted for itself
    in that epoch. Beside it the disk that node 3 had before two starts of its.
    """
    cluster = written()
    cluster.crash(3)
    backup = deepcopy(cluster.nodes[3].disk)
    for _ in range(2):
        cluster.start(3)
        cluster.run(3_000)
        cluster.crash(3)
        cluster.run(50)
    cluster.start(3)
    cluster.run(3_000)
    cluster.crash(2)
    cluster.restart(1)
    cluster.run_until(lambda: cluster.leader in (1, 3) and cluster.has_leader())
    if cluster.leader == 3:
        cluster.resign(3, to=1)
        cluster.run_until(lambda: cluster.leader == 1 and cluster.has_leader())
    candidate = cluster.nodes[2].disk
    candidate.election = Election(cluster.raft_node(1).epoch, NO_NODE, ReplicaKey(2, candidate.directory_id))
    token = cluster.append(1, b"acknowledged")
    cluster.run(200)
    assert cluster.outcome(1, token) == ErrorCode.NONE
    return cluster, backup


@pytest.mark.covers("D-06")
def test_a_vote_that_an_old_copy_gave_before_it_knew_is_not_counted_when_it_knows() -> None:
    """Node 3 is restored from a backup, and votes for node 2 in the epoch in which it had voted for node 1.

    The response is slow. Meanwhile node 1 tells node 3 that it has forgotten, and node 3 fetches from node 2
    without its id, on a connection of its own. Were the vote counted then, 1 and 2 would lead one epoch.
    """
    cluster, backup = with_a_second_candidate()
    epoch = cluster.raft_node(1).epoch
    node, candidate = cluster.nodes[3], cluster.nodes[2]
    cluster.crash(3)
    cluster.auditor.forget(cluster.view(node))
    node.disk = backup
    node.remark()
    cluster.look(node)
    cluster.isolate(1)
    cluster.start(3)
    cluster.start(2)

    def asks_for_a_vote() -> bool:
        sent = candidate.last_send
        return sent is not None and isinstance(sent.request, m.VoteRequest) and sent.to == 3

    cluster.run_until(asks_for_a_vote)
    assert candidate.last_send is not None
    asked = candidate.last_send
    cluster.cut |= {(3, 2)}
    cluster.run_until(lambda: node.disk.election is not None and node.disk.election.epoch == epoch)
    assert node.disk.election is not None
    assert node.disk.election.voted == ReplicaKey(2, candidate.disk.directory_id)
    granted = rpc.vote_response(ErrorCode.NONE, LeaderAndEpoch(epoch, NO_NODE), granted=True)
    cluster.run(10)

    cluster.cut = {(1, 2), (2, 1)}
    cluster.run_until(lambda: not cluster.raft_node(3).is_whole)
    cluster.run_until(lambda: fetched_without_id(cluster, 3, 2))
    assert isinstance(cluster.raft_node(2).state, Candidate)
    cluster.feed(2, ResponseReceived(3, asked.correlation_id, granted))
    assert isinstance(cluster.raft_node(2).state, Candidate)
    cluster.heal()
    cluster.run_until(cluster.has_converged)
    assert b"acknowledged" in cluster.values(2)


def fetched_without_id(cluster: Cluster, node_id: NodeId, other: NodeId) -> bool:
    """Whether a node has told another one that it is not whole."""
    without_id = re.compile(rf" {other} < RequestReceived message=Fetch .*replica=-1 .*peer={node_id}")
    return bool(without_id.search(cluster.take_trace()))


@pytest.mark.covers("D-06")
@pytest.mark.parametrize("resigns_first", [False, True])
def test_who_takes_our_announcements_has_not_said_whom_it_takes_us_for(resigns_first: bool) -> None:
    """Node 3, which counts again, leads and is restarted before node 1 is back, which remembers the disk that
    was wiped. It announces that it leads, or does not any more, and node 1 takes that from anyone.
    """
    cluster = wiped()
    cluster.resign(1, to=2)
    cluster.run_until(lambda: cluster.raft_node(3).is_whole)
    cluster.crash(1)
    cluster.run(50)
    cluster.resign(2, to=3)
    cluster.run_until(lambda: cluster.leader == 3 and cluster.has_leader())
    cluster.run(200)
    cluster.crash(3)
    if resigns_first:
        cluster.start(1)
        cluster.run(50)
        cluster.start(3)
    else:
        cluster.start(3)
        cluster.crash(2)
        cluster.run(10)
        cluster.start(2)
        cluster.start(1)
    cluster.run(6_000)
    for _ in range(2):
        assert cluster.leader is not None
        successor = 2 if cluster.leader != 2 else 3 if cluster.raft_node(3).is_whole else 1
        cluster.resign(cluster.leader, to=successor)
        cluster.run(4_000)
    assert cluster.leader == 2
    assert cluster.raft_node(3).is_whole
    cluster.crash(2)
    cluster.run_until(lambda: cluster.leader in (1, 3) and cluster.has_leader())
