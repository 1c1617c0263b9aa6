"""Stories of leaders that leave: by order, by signal, and by accident."""

from collections.abc import Callable

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft.epoch_states import Follower, Leader, Resigned
from kraftd.raft.events import ShutdownRequested
from kraftd.raft.reads import Reads
from kraftd.raft.voters import Quorum
from tests.stories.cluster import Cluster, Node, voter_set


def settled(voters: tuple[int, ...] = (1, 2, 3)) -> Cluster:
    cluster = Cluster(voters)
    assert cluster.elect() == 1
    cluster.run(100)
    cluster.take_trace()
    return cluster


@pytest.mark.covers("D-09", "EQE-01", "EQE-08", "EQE-10", "RSG-01", "Q-28")
def test_leadership_goes_to_whom_the_operator_names(golden: Callable[[str], None]) -> None:
    cluster = settled()
    token = cluster.resign(1, to=3)
    took_ms = cluster.run_until(lambda: cluster.leader == 3 and cluster.has_leader())
    assert took_ms < 50
    done = cluster.nodes[1].outcomes[token]
    assert (done.error, done.successor, done.epoch) == (ErrorCode.NONE, 3, 1)
    golden(cluster.take_trace())


@pytest.mark.covers("D-09")
def test_the_successor_is_waited_for_and_nothing_is_appended_meanwhile() -> None:
    cluster = settled()
    cluster.hold_flushes(3)
    written = cluster.append(1)
    cluster.run(10)
    token = cluster.resign(1, to=3)
    refused = cluster.append(1)
    cluster.run(100)
    assert cluster.outcome(1, written) == 0
    assert cluster.outcome(1, refused) == ErrorCode.NOT_CONTROLLER
    assert cluster.outcome(1, token) is None
    assert cluster.raft_node(1).is_leader
    cluster.release_flushes(3)
    cluster.run_until(lambda: cluster.leader == 3 and cluster.has_leader())
    assert cluster.outcome(1, token) == 0


@pytest.mark.covers("D-09")
@pytest.mark.parametrize(("to", "told"), [(3, "node 3"), (-1, "the best voter")])
def test_a_second_hand_over_is_told_of_the_first(to: int, told: str) -> None:
    cluster = settled()
    cluster.hold_flushes(2)
    cluster.hold_flushes(3)
    cluster.append(1)
    cluster.run(10)
    cluster.resign(1, to=to)
    second = cluster.resign(1, to=2)
    assert cluster.nodes[1].outcomes[second].reason == f"a hand-over to {told} is under way already"


@pytest.mark.covers("D-09")
def test_a_leader_that_stops_without_a_successor_says_that_nobody_follows() -> None:
    cluster = settled()
    cluster.hold_flushes(2)
    cluster.hold_flushes(3)
    cluster.append(1)
    cluster.run(10)
    cluster.take_trace()
    cluster.feed(1, ShutdownRequested(cluster.now_ms + 1_000))
    cluster.run_until(lambda: isinstance(cluster.raft_node(1).state, Resigned))
    assert 'why="stopping, nobody is to follow"' in cluster.take_trace()


@pytest.mark.covers("D-09")
def test_a_leader_whose_successor_does_not_catch_up_leads_on_and_says_so() -> None:
    cluster = settled()
    cluster.hold_flushes(3)
    cluster.append(1)
    cluster.run(10)
    token = cluster.resign(1, to=3, deadline_ms=300)
    cluster.run(301)
    done = cluster.nodes[1].outcomes[token]
    assert done.error == ErrorCode.REQUEST_TIMED_OUT
    assert done.reason.startswith("node 3 has not caught up to ")
    assert cluster.raft_node(1).epoch == 1
    assert cluster.raft_node(1).is_leader
    written = cluster.append(1)
    cluster.run(20)
    assert cluster.outcome(1, written) == 0


@pytest.mark.covers("D-09")
def test_a_successor_that_is_not_connected_is_not_waited_for_at_all() -> None:
    cluster = settled()
    cluster.crash(3)
    cluster.run(10)
    token = cluster.resign(1, to=3)
    written = cluster.append(1)
    cluster.run(20)
    done = cluster.nodes[1].outcomes[token]
    assert (done.error, done.reason) == (ErrorCode.INVALID_REQUEST, "3 is not connected")
    assert cluster.outcome(1, written) == 0


@pytest.mark.covers("D-09")
def test_a_successor_that_is_silent_is_waited_for_no_longer_than_for_a_fetch() -> None:
    """Whoever asks for it must not stop the quorum for as long as it likes, naming a voter that is dead."""
    cluster = settled()
    cluster.crash(3, silently=True)
    cluster.append(1)
    cluster.run(10)
    token = cluster.resign(1, to=3, deadline_ms=1 << 31)
    took_ms = cluster.run_until(lambda: cluster.outcome(1, token) is not None)
    assert took_ms <= 3_000
    assert cluster.outcome(1, token) == ErrorCode.REQUEST_TIMED_OUT
    assert cluster.raft_node(1).epoch == 1
    written = cluster.append(1)
    cluster.run(20)
    assert cluster.outcome(1, written) == 0


@pytest.mark.covers("RSG-03")
@pytest.mark.parametrize(("node", "to"), [(2, 3), (1, 1), (1, 9)])
def test_a_resignation_that_cannot_be_is_refused_with_its_reason(node: int, to: int) -> None:
    cluster = settled()
    token = cluster.resign(node, to=to)
    done = cluster.nodes[node].outcomes[token]
    assert done.error in (ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REQUEST)
    assert done.reason


@pytest.mark.covers("D-09", "RSG-08", "RSG-10")
def test_a_stopping_leader_hands_over_and_votes_before_it_goes(golden: Callable[[str], None]) -> None:
    cluster = settled()
    cluster.feed(1, ShutdownRequested(cluster.now_ms + 5_000))
    cluster.run_until(lambda: cluster.nodes[1].ready_to_stop)
    assert cluster.run_until(cluster.has_leader) < 50
    assert cluster.leader in (2, 3)
    golden(cluster.take_trace())


@pytest.mark.covers("D-09", "EQE-10")
def test_a_follower_that_just_went_away_is_not_chosen() -> None:
    """Two nodes are stopped one after the other: the second must not hand over to the first."""
    cluster = settled((1, 2, 3, 4))
    cluster.crash(2)
    cluster.run(5)
    cluster.feed(1, ShutdownRequested(cluster.now_ms + 5_000))
    took_ms = cluster.run_until(lambda: cluster.leader in (3, 4) and cluster.has_leader())
    assert took_ms < 50


@pytest.mark.covers("RSG-09")
def test_a_stopping_leader_without_successor_goes_at_its_deadline() -> None:
    cluster = settled()
    cluster.isolate(1)
    cluster.feed(1, ShutdownRequested(cluster.now_ms + 1_000))
    took_ms = cluster.run_until(lambda: cluster.nodes[1].ready_to_stop)
    assert took_ms <= 1_000


@pytest.mark.covers("RSG-10", "RSG-11")
def test_a_follower_stops_at_once_and_campaigns_no_more() -> None:
    cluster = settled()
    cluster.feed(2, ShutdownRequested(cluster.now_ms + 60_000))
    assert cluster.nodes[2].ready_to_stop
    cluster.crash(1)
    cluster.crash(3)
    cluster.run(10_000)
    assert isinstance(cluster.raft_node(2).state, Follower)


@pytest.mark.covers("D-09", "EQE-02", "EQE-07")
def test_the_other_followers_wait_for_the_successor_and_ignore_the_closing_connection() -> None:
    cluster = settled()
    cluster.cut |= {(1, 2), (2, 1)}  # the farewell does not reach the first successor
    cluster.resign(1, to=-1)
    cluster.run(5)
    assert isinstance(cluster.raft_node(1).state, Resigned)
    assert isinstance(cluster.raft_node(3).state, Follower)
    before = cluster.raft_node(3).state
    assert isinstance(before, Follower)
    assert before.epoch_ended
    cluster.crash(1)
    cluster.run(5)
    assert cluster.raft_node(3).state == before, "the closing connection is no news"
    cluster.run_until(cluster.has_leader, 3_000)


@pytest.mark.covers("QS-07", "RSG-05")
def test_a_resigned_leader_that_nobody_replaces_waits_like_everybody_else() -> None:
    cluster = settled()
    for n in (1, 2, 3):
        cluster.crash(n)
    cluster.start(1)
    assert isinstance(cluster.raft_node(1).state, Resigned)
    cluster.run(2_500)
    assert not isinstance(cluster.raft_node(1).state, Resigned)
    assert cluster.raft_node(1).epoch == 2, "so that it stops advertising itself"


@pytest.mark.covers("D-09")
def test_a_handover_that_loses_the_leadership_is_answered() -> None:
    cluster = settled()
    cluster.hold_flushes(3)
    cluster.append(1)
    cluster.run(10)
    token = cluster.resign(1, to=3, deadline_ms=60_000)
    cluster.isolate(1)
    cluster.run_until(lambda: cluster.outcome(1, token) is not None)
    cluster.release_flushes(3)
    cluster.heal()
    cluster.run_until(cluster.has_converged)


@pytest.mark.covers("D-12")
def test_a_read_is_proved_by_a_round_of_its_own() -> None:
    cluster = settled()
    token = cluster.read(1)
    cluster.run(5)
    assert cluster.outcome(1, token) == 0
    rounds = [
        line for line in cluster.take_trace().splitlines() if "1 > Send" in line and "BeginQuorum" in line
    ]
    assert len(rounds) == 2


@pytest.mark.covers("D-12")
def test_a_leader_that_was_replaced_answers_no_read() -> None:
    """Fetches that arrive prove nothing, nor does a heartbeat that was sent before the read arrived."""
    cluster = settled()
    cluster.isolate(1)
    token = cluster.read(1, deadline_ms=60_000)
    cluster.run_until(lambda: cluster.leader in (2, 3) and cluster.has_leader())
    cluster.append(cluster.leader or 0, b"newer")
    cluster.run(20)
    cluster.heal()
    cluster.run(3_000)
    assert cluster.outcome(1, token) == ErrorCode.NOT_CONTROLLER


@pytest.mark.covers("D-12")
def test_a_new_leader_answers_reads_only_after_a_commit_of_its_own_epoch() -> None:
    cluster = Cluster()
    cluster.run_until(lambda: cluster.leader == 1)
    assert cluster.raft_node(1).high_watermark == -1
    cluster.hold_flushes(1, 2, 3)
    token = cluster.read(1)
    cluster.run(400)
    assert cluster.outcome(1, token) is None
    for n in (1, 2, 3):
        cluster.release_flushes(n)
    cluster.run(20)
    assert cluster.outcome(1, token) == 0
    assert isinstance(cluster.raft_node(1).state, Leader)


@pytest.mark.covers("D-12")
def test_reads_share_a_round_that_is_not_sent_yet_and_no_other() -> None:
    cluster = settled()
    first = cluster.read(1)
    second = cluster.read(1)
    third = cluster.read(1)
    cluster.run(10)
    assert [cluster.outcome(1, token) for token in (first, second, third)] == [0, 0, 0]
    sends = [
        line for line in cluster.take_trace().splitlines() if "1 > Send" in line and "BeginQuorum" in line
    ]
    assert len(sends) == 4, "one round for the first, one for those that came while it was on its way"


@pytest.mark.covers("D-12")
def test_a_response_to_an_older_round_proves_nothing() -> None:
    """Etcd 20418: an acknowledgement that was sent before the read arrived, and comes after."""
    reads = Reads(Quorum(1, voter_set(1, 2, 3)), retry_ms=100)
    reads.add(1, 1_000, 0)
    first = reads.begin_round(0)
    assert reads.take_expired(1_000) == [1]
    reads.add(2, 2_000, 0)
    assert reads.wants_round
    second = reads.begin_round(1_000)
    reads.acknowledge(2, first)
    assert reads.take_ready(0) == []
    reads.acknowledge(2, second)
    assert reads.take_ready(0) == [2]


@pytest.mark.covers("D-12")
def test_a_read_waits_until_its_high_watermark_is_applied() -> None:
    reads = Reads(Quorum(1, voter_set(1)), retry_ms=100)
    reads.add(1, 1_000, 7)
    assert reads.take_ready(6) == []
    assert reads.take_ready(7) == [1]
    reads.add(2, 1_000, None)
    assert reads.take_ready(99) == [], "before a commit of the own epoch nobody knows what to wait for"
    reads.set_required_offset(100)
    assert reads.take_ready(99) == []
    assert reads.take_ready(100) == [2]


@pytest.mark.covers("D-12")
def test_every_read_has_a_deadline() -> None:
    cluster = settled()
    cluster.isolate(1)
    token = cluster.read(1, deadline_ms=200)
    cluster.run(201)
    assert cluster.outcome(1, token) == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.covers("D-12")
def test_fetches_that_arrive_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have been on their way since before another leader was elected."""
    cluster = Cluster()
    leader = cluster.elect()
    cluster.run(100)
    send = Cluster.send

    def without_announcements(self: Cluster, node: Node, effect: fx.Send) -> None:
        if not isinstance(effect.request, m.BeginQuorumEpochRequest):
            send(self, node, effect)

    monkeypatch.setattr(Cluster, "send", without_announcements)
    reading = cluster.read(leader, deadline_ms=60_000)
    written = cluster.append(leader)
    cluster.run(900)
    assert cluster.outcome(leader, written) == ErrorCode.NONE, "the others fetch"
    assert cluster.outcome(leader, reading) is None
    monkeypatch.undo()
    cluster.run_until(lambda: cluster.outcome(leader, reading) == ErrorCode.NONE)
