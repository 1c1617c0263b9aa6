"""Stories of elections: who leads, when, and what the others promise for it."""

from collections.abc import Callable

import pytest

from kraftd.raft.effects import Send, StateChanged
from kraftd.raft.epoch_states import Candidate, Follower, Leader, Prospective, Unattached
from kraftd.raft.events import RequestFailed
from kraftd.raft.timing import Timing
from kraftd.types import Election, Now, ReplicaKey
from tests.stories.cluster import Cluster, Node


@pytest.mark.covers(
    "VOTE-01", "VOTE-02", "VOTE-12", "VOTE-29", "VOTE-30", "BQE-01", "BQE-03", "QS-01", "D-02", "D-10"
)
def test_three_new_nodes_elect_a_leader_and_commit(golden: Callable[[str], None]) -> None:
    cluster = Cluster()
    assert cluster.elect() == 1
    token = cluster.append(1, b"the first value")
    cluster.run(15)
    assert cluster.outcome(1, token) == 0
    assert cluster.values(1) == cluster.values(2) == cluster.values(3) == [b"the first value"]
    golden(cluster.take_trace())


@pytest.mark.covers("D-08", "D-07")
def test_a_killed_leader_is_replaced_before_any_timeout(golden: Callable[[str], None]) -> None:
    """The closing connection starts a pre-vote; the dead node's response is not awaited."""
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    cluster.take_trace()

    cluster.crash(1)
    assert cluster.run_until(cluster.has_leader) < 150
    assert cluster.leader == 2
    golden(cluster.take_trace())


@pytest.mark.covers("D-08", "D-18")
def test_a_node_with_much_left_to_apply_lets_the_others_lead() -> None:
    """It would win at once, and lead only when it has applied all of it."""
    cluster = Cluster()
    cluster.elect()
    cluster.nodes[2].applies = False
    cluster.append(1, *[b"x"] * 9_999)
    cluster.append(1, *[b"x"] * 9_999)
    cluster.run(500)
    cluster.crash(1)
    assert cluster.run_until(cluster.has_leader) < 150
    assert cluster.leader == 3

    # Alone with a majority that needs it, it campaigns all the same.
    cluster.crash(3)
    cluster.nodes[1].applies = cluster.nodes[3].applies = True
    cluster.start(1)
    cluster.run_until(cluster.has_leader)


@pytest.mark.covers("D-08")
def test_a_voter_that_is_being_started_is_asked_again_before_the_fetch_timeout() -> None:
    """The pre-votes find nobody; the fetch timeout of 2 s is not awaited once somebody is there."""
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    cluster.crash(3)
    cluster.run(100)
    cluster.crash(1)
    cluster.run(600)
    assert cluster.leader is None
    cluster.start(3)
    assert cluster.run_until(cluster.has_leader) < 500
    assert cluster.leader == 2


@pytest.mark.covers("D-08")
def test_a_leader_that_lives_is_followed_again_though_nobody_else_is_there() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    cluster.crash(3)
    cluster.take_trace()
    cluster.close((2, 1), by=1)
    cluster.run(3_000)
    assert cluster.leader == 1
    assert cluster.raft_node(1).epoch == 1
    assert cluster.take_trace().count('why="leader lost"') == 1


@pytest.mark.covers("D-08")
@pytest.mark.parametrize("one_way", [False, True], ids=["both ways", "the leader cannot connect"])
def test_a_voter_whose_disk_stood_still_goes_on_with_its_leader(one_way: bool) -> None:
    """It has fetched nothing for longer than the fetch timeout, and its leader leads on."""
    cluster = Cluster()
    assert cluster.elect() == 1
    cluster.run(1_000)
    send = cluster.send

    def send_one_way(node: Node, effect: Send) -> None:
        if one_way and (node.id, effect.to) == (1, 3):
            failed = RequestFailed(3, effect.correlation_id, "no route")
            cluster.at(1, lambda: cluster.feed(1, failed))
        else:
            send(node, effect)

    cluster.send = send_one_way  # type: ignore[method-assign]
    cluster.hold_flushes(3)
    cluster.append(1)
    cluster.run(1_000)
    cluster.append(1)
    cluster.run(2_500)
    cluster.release_flushes(3)
    follower, leader = cluster.raft_node(3), cluster.raft_node(1)
    cluster.run_until(lambda: follower.log.end_offset == leader.log.end_offset, limit_ms=100)
    cluster.run(10_000)
    cluster.append(1)
    cluster.run(100)
    assert isinstance(follower.state, Follower)
    assert follower.log.end_offset == follower.high_watermark == leader.log.end_offset
    assert (cluster.leader, follower.epoch) == (1, 1)


@pytest.mark.covers("D-08", "VOTE-28")
def test_a_leader_that_hangs_is_replaced_after_a_fetch_timeout_that_is_below_s() -> None:
    cluster = Cluster(timing=Timing(fetch_timeout_ms=300))
    cluster.elect()
    cluster.run(400)
    cluster.nodes[1].frozen_until_ms = cluster.now_ms + 10_000
    cluster.take_trace()
    assert 100 < cluster.run_until(lambda: cluster.leader != 1 and cluster.has_leader()) < 500
    assert "leader_suspected" not in cluster.take_trace()


@pytest.mark.covers("D-40")
def test_a_leader_that_hangs_is_replaced_once_it_was_silent_for_s() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(400)
    cluster.nodes[1].frozen_until_ms = cluster.now_ms + 10_000
    assert 250 < cluster.run_until(lambda: cluster.leader != 1 and cluster.has_leader()) < 650

    # The old leader wakes up, finds out what it missed, and has nothing acknowledged meanwhile.
    cluster.run(12_000)
    assert isinstance(cluster.raft_node(1).state, Follower)


@pytest.mark.covers("D-40", "D-01")
def test_a_follower_that_hangs_or_is_deaf_deposes_nobody() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(400)
    cluster.nodes[2].frozen_until_ms = cluster.now_ms + 1_500
    cluster.run(2_000)
    cluster.cut |= {(1, 3)}  # node 3 suspects the leader, which node 2 hears
    cluster.take_trace()
    cluster.run(1_900)
    assert "leader_suspected" in (trace := cluster.take_trace())
    assert "StateChanged" not in trace
    cluster.cut.clear()
    cluster.run(3_000)
    assert (cluster.leader, cluster.raft_node(2).epoch) == (1, 1)


@pytest.mark.covers("D-08")
def test_a_failed_connect_or_an_idle_connection_is_no_loss() -> None:
    """Only the connection that carried a good fetch in this epoch counts, once an epoch."""
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    pair = (1, 2)  # the leader's own connection to 2: 2 fetches on the other one
    cluster.take_trace()
    cluster.close(pair, by=1)
    cluster.run(300)
    assert "ConnectionClosed" in (trace := cluster.take_trace())
    assert "prospective" not in trace
    assert cluster.leader == 1
    assert cluster.raft_node(2).epoch == 1
    assert isinstance(cluster.raft_node(2).state, Follower)


@pytest.mark.covers("D-08")
def test_a_restarted_connection_costs_no_leader() -> None:
    """The followers' connections close, but the leader lives: pre-votes, if any, change nothing for long."""
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    cluster.close((2, 1), by=1)
    cluster.run(1_000)
    assert cluster.leader == 1
    assert cluster.raft_node(1).epoch == 1
    assert all(isinstance(cluster.raft_node(n).state, Follower) for n in (2, 3))


@pytest.mark.covers("D-08")
def test_a_connection_that_flaps_is_a_loss_once_an_epoch() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    losses = []
    for _ in range(3):
        cluster.take_trace()
        cluster.close((2, 1), by=1)
        cluster.run(1_500)
        losses.append(cluster.take_trace().count('why="leader lost"'))
        assert isinstance(cluster.raft_node(2).state, Follower)
    assert cluster.raft_node(2).epoch == 1
    assert losses == [1, 0, 0]


@pytest.mark.covers("D-07", "Q-15")
def test_a_node_that_was_cut_off_does_not_depose_the_leader_when_it_returns() -> None:
    """KIP-996: it asks first, and the others are in touch with their leader (Q-15)."""
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    cluster.isolate(3)
    cluster.run(20_000)
    assert cluster.raft_node(3).epoch == 1, "without a majority of pre-votes no epoch begins"
    cluster.heal()
    cluster.run(3_000)
    assert cluster.leader == 1
    assert cluster.raft_node(1).epoch == 1
    assert isinstance(cluster.raft_node(3).state, Follower)


@pytest.mark.covers("D-07", "D-08", "Q-15")
def test_a_node_that_reaches_only_the_other_follower_does_not_depose_the_leader_either() -> None:
    """The other one is in touch with the leader, and says so by refusing."""
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    cluster.cut |= {(1, 3), (3, 1)}
    cluster.run(20_000)
    assert cluster.leader == 1
    assert {cluster.raft_node(n).epoch for n in (1, 2, 3)} == {1}
    token = cluster.append(1)
    cluster.run(100)
    assert cluster.outcome(1, token) == 0


@pytest.mark.covers("D-08")
def test_two_followers_of_a_dead_leader_do_not_hold_each_other_back() -> None:
    """KAFKA-17642: each would refuse the other, because it still "knows" the leader."""
    cluster = Cluster((1, 2, 3))
    cluster.elect()
    cluster.run(100)
    for other in (2, 3):
        cluster.cut |= {(1, other), (other, 1)}
    cluster.crash(1, silently=True)
    assert cluster.run_until(lambda: cluster.leader in (2, 3) and cluster.has_leader()) < 3_000


@pytest.mark.covers("D-07")
def test_a_pre_vote_writes_nothing_and_resets_no_timer() -> None:
    cluster = Cluster(start=False)
    for n in (2, 3):
        cluster.start(n)
    cluster.run(100)
    before, state = cluster.nodes[3].disk.election, cluster.raft_node(3).state
    cluster.crash(2)
    cluster.start(2)
    cluster.run_until(lambda: isinstance(cluster.raft_node(2).state, Prospective | Candidate))
    while not isinstance(cluster.raft_node(2).state, Candidate):
        assert cluster.nodes[3].disk.election == before
        assert cluster.raft_node(3).state == state
        cluster.step()


@pytest.mark.covers("D-07", "QS-05")
def test_a_vote_survives_a_restart_and_the_epoch_of_its_winner() -> None:
    """A real Kafka 4.3 holds leader and vote at once; dropping the vote would allow a second one."""
    cluster = Cluster()
    cluster.elect()
    cluster.run(50)
    key = ReplicaKey(1, cluster.nodes[1].disk.directory_id)
    for n in (1, 2, 3):
        assert cluster.nodes[n].disk.election == Election(1, 1, key)
    cluster.restart(2)
    assert cluster.raft_node(2).voted == key


@pytest.mark.covers("VOTE-14")
def test_a_candidate_claims_only_what_is_durable() -> None:
    """It could crash, lose the rest, and be granted the same vote again although its log is shorter now."""
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    cluster.hold_flushes(2)
    token = cluster.append(1, b"held by 1 and 3, in the page cache of 2")
    cluster.run(50)
    assert cluster.outcome(1, token) == 0
    assert cluster.raft_node(2).log.end_offset > cluster.raft_node(2).log.flushed_offset
    cluster.crash(1)
    cluster.crash(3)
    cluster.take_trace()
    cluster.run(2_500)
    votes = [
        line for line in cluster.take_trace().splitlines() if "message=Vote" in line and " 2 > Send" in line
    ]
    assert votes
    assert all("log=1:1" in line for line in votes)


@pytest.mark.covers("QS-07", "QS-08", "QS-16")
def test_a_leader_that_restarts_does_not_resume_its_epoch() -> None:
    """KAFKA-10527: it may have lost records that it sent, so (epoch, offset) would name two records."""
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    for n in (1, 2, 3):
        cluster.crash(n)
    cluster.start(1)
    assert cluster.raft_node(1).leader_id == -1
    assert not cluster.raft_node(1).is_leader
    cluster.start(2)
    cluster.start(3)
    cluster.elect()
    assert cluster.raft_node(cluster.leader or 0).epoch > 1


@pytest.mark.covers("EQE-03", "QS-07")
def test_after_a_power_cut_the_old_leaders_farewell_starts_the_next_election() -> None:
    """It names no successor, so there is nobody to wait for."""
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    for n in (1, 2, 3):
        cluster.crash(n)
    for n in (1, 2, 3):
        cluster.start(n)
    assert cluster.run_until(cluster.has_leader) < 200


@pytest.mark.covers("D-07", "Q-15")
def test_without_a_majority_nobody_leads_and_no_epoch_is_spent() -> None:
    cluster = Cluster(start=False)
    cluster.start(1)
    cluster.run(60_000)
    assert cluster.raft_node(1).epoch == 0
    assert isinstance(cluster.raft_node(1).state, Unattached | Prospective)
    assert "needed" in cluster.raft_node(1).describe(cluster.now(cluster.nodes[1])).why_not_following or (
        "waiting" in cluster.raft_node(1).describe(cluster.now(cluster.nodes[1])).why_not_following
    )


@pytest.mark.covers("QS-12", "HWM-03", "CQ-05", "VOTE-03")
def test_the_only_voter_leads_at_once_and_commits_after_its_own_flush() -> None:
    cluster = Cluster((1,), start=False)
    cluster.hold_flushes(1)
    cluster.start(1)
    assert isinstance(cluster.raft_node(1).state, Leader)
    token = cluster.append(1, b"not durable yet")
    cluster.run(10_000)
    assert cluster.outcome(1, token) is None or cluster.raft_node(1).high_watermark == -1
    cluster.release_flushes(1)
    cluster.run(10)
    assert cluster.raft_node(1).is_leader, "nobody fetches, and nobody needs to"
    token = cluster.append(1, b"durable")
    cluster.run(10)
    assert cluster.outcome(1, token) == 0
    cluster.restart(1)
    cluster.run(10)
    assert b"durable" in cluster.values(1)
    assert cluster.raft_node(1).epoch == 2


@pytest.mark.covers("D-01")
def test_a_follower_that_stood_still_looks_at_its_mail_before_it_campaigns() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    cluster.take_trace()
    cluster.nodes[3].frozen_until_ms = cluster.now_ms + 2_700
    cluster.run(6_000)
    trace = cluster.take_trace()
    assert "name=stall" in trace
    assert "prospective" not in trace
    assert cluster.raft_node(1).is_leader


@pytest.mark.covers("D-01")
def test_a_process_that_stutters_without_end_campaigns_all_the_same() -> None:
    """The mail gets one more turn, not one after another: else a busy machine never elects anybody."""
    cluster = Cluster(start=False)
    cluster.start(1)
    raft_node = cluster.raft_node(1)
    effects = [effect for turn in range(1, 20) for effect in raft_node.poll(Now(turn * 450, turn * 450))]
    assert "prospective" in {effect.target for effect in effects if isinstance(effect, StateChanged)}


@pytest.mark.covers("OBS-01", "OBS-04", "OBS-06", "OBS-07", "QS-28")
def test_an_observer_finds_the_leader_and_never_campaigns() -> None:
    cluster = Cluster(observers=(9,), bootstrap_observers=True)
    leader = cluster.elect()
    token = cluster.append(leader, b"seen by all")
    cluster.run(2_000)
    assert cluster.outcome(leader, token) == 0
    assert cluster.values(9) == [b"seen by all"]
    assert cluster.raft_node(9).describe(cluster.now(cluster.nodes[9])).role == "observer"
    for n in (1, 2, 3):
        cluster.crash(n)
    cluster.run(20_000)
    assert isinstance(cluster.raft_node(9).state, Follower | Unattached)
    for n in (1, 2, 3):
        cluster.start(n)
    leader = cluster.elect()
    cluster.append(leader, b"and after a restart")
    cluster.run(3_000)
    assert cluster.values(9)[-1] == b"and after a restart"


@pytest.mark.covers("OBS-05")
def test_an_observer_whose_leader_is_cut_off_asks_around() -> None:
    cluster = Cluster(observers=(9,))
    leader = cluster.elect()
    cluster.run(100)
    cluster.isolate(leader)
    cluster.run_until(lambda: cluster.leader not in (None, leader) and cluster.has_leader())
    cluster.run(5_000)
    assert cluster.raft_node(9).leader_id == cluster.leader


@pytest.mark.covers("OBS-05")
def test_an_observer_that_asked_around_comes_back_to_its_leader() -> None:
    cluster = Cluster(observers=(9,))
    leader = cluster.elect()
    cluster.run(100)
    cluster.take_trace()
    cluster.cut |= {(leader, 9), (9, leader)}
    cluster.run(5_000)
    assert asked_by_9(cluster.take_trace()) == {1, 2, 3}
    cluster.heal()
    cluster.run(4_000)
    cluster.take_trace()
    cluster.run(4_000)
    assert asked_by_9(cluster.take_trace()) == {leader}


def asked_by_9(trace: str) -> set[int]:
    return {int(line.split("to=")[1].split()[0]) for line in trace.splitlines() if " 9 > Send" in line}
