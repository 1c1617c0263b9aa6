"""How a node that does not vote finds its leader, and what the leader knows of it (OBS)."""

from random import Random

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc
from kraftd.raft.epoch_states import Follower, Unattached
from kraftd.raft.rpc import LeaderAndEpoch, VoteParams
from kraftd.types import METADATA_TOPIC, NO_NODE, Election, Endpoint
from tests.conformance import covers
from tests.stories.cluster import SeededRandom
from tests.unit.raft.lone import CLUSTER_ID, Lone, every, key_of

SERVERS = (Endpoint("seed-a", 1), Endpoint("seed-b", 2))


def observing(seed: int = 0, **options: object) -> Lone:
    return Lone(
        voters=(2, 3, 4),
        connected=(2, 3, 4),
        election=Election(5),
        epochs=(1, 4),
        random=SeededRandom(Random(seed)),
        **options,  # type: ignore[arg-type]
    )


def followed() -> Lone:
    lone = observing()
    (asked,) = lone.open_requests()
    lone.answer(asked, rpc.fetch_response(ErrorCode.NONE, LeaderAndEpoch(5, 2)))
    assert isinstance(lone.raft_node.state, Follower)
    return lone


@covers("OBS-01", "REQ-04")
def test_without_a_leader_one_of_all_who_may_know_is_asked_at_random_and_one_at_a_time() -> None:
    asked = set()
    for seed in range(60):
        lone = observing(seed, bootstrap=SERVERS)
        (send,) = lone.open_requests()
        assert isinstance(send.request, m.FetchRequest)
        lone.run(400)
        assert lone.open_requests() == [send]
        asked.add(send.to)
    assert asked == {2, 3, 4, -2, -3}


@covers("OBS-02", "REQ-07")
def test_bootstrap_servers_have_ids_of_their_own_and_voters_keep_theirs() -> None:
    told = {e.node_id: e.endpoint for e in every(observing(bootstrap=SERVERS).started, fx.LearnEndpoint)}
    assert told[-2] == SERVERS[0]
    assert told[-3] == SERVERS[1]
    assert told[3] == Endpoint("host3", 9_003)
    same = observing(bootstrap=(Endpoint("host3", 9_003),))
    assert {3, -2} <= {e.node_id for e in every(same.started, fx.LearnEndpoint)}


@covers("OBS-03")
def test_who_fails_rests_and_another_is_asked_at_once() -> None:
    lone = observing()
    tried = []
    for _ in range(3):
        (send,) = lone.open_requests()
        tried.append(send.to)
        lone.feed(ev.RequestFailed(send.to, send.correlation_id, "connection refused"))
    assert sorted(tried) == [2, 3, 4]
    assert lone.open_requests() == [], "all of them rest"
    lone.run(20)
    assert len(lone.open_requests()) == 1


@covers("OBS-04", "FRSP-13")
def test_a_leader_that_is_known_is_fetched_from() -> None:
    lone = observing()
    (asked,) = lone.open_requests()
    lone.answer(asked, rpc.fetch_response(ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderAndEpoch(6, 4)))
    assert lone.raft_node.leader_id == 4
    assert lone.fetching() == [4]


@covers("OBS-05")
def test_a_leader_that_fails_sends_the_observer_around_with_one_fetch_at_a_time() -> None:
    lone = Lone(voters=(2, 3, 4), connected=(2, 3, 4), election=Election(5, 2), epochs=(1, 4))
    (send,) = lone.open_requests()
    assert send.to == 2
    lone.feed(ev.RequestFailed(2, send.correlation_id, "connection reset"))
    lone.feed(ev.Applied(0))  # another turn, and still one fetch
    (other,) = lone.open_requests()
    assert other.to in (3, 4)
    lone.answer(other, rpc.fetch_response(ErrorCode.FENCED_LEADER_EPOCH, LeaderAndEpoch(6, 3)))
    assert lone.fetching() == [3]


@covers("OBS-06", "OBS-07")
def test_after_the_fetch_timeout_it_still_follows_and_asks_around() -> None:
    lone = followed()
    asked = set()
    for _ in range(20):
        lone.run(2_001)
        asked |= set(lone.fetching())
        assert len(lone.open_requests()) <= 1
    assert isinstance(lone.raft_node.state, Follower)
    assert lone.epoch == 5
    assert asked >= {3, 4}


@covers("OBS-07", "QS-27")
def test_an_observer_without_a_leader_waits_for_ever() -> None:
    lone = observing()
    lone.run(100_000)
    assert isinstance(lone.raft_node.state, Unattached)
    assert (lone.epoch, lone.stored) == (5, Election(5))


@covers("VOTE-23", "D-37")
@pytest.mark.parametrize("epoch", [5, 6, 1 << 30])
def test_an_observer_believes_nobody_who_comes_under_a_voters_id(epoch: int) -> None:
    """Nobody confirms a voter's id there, and no voter has a reason to come: in an epoch that was only said,
    the observer would wait for ever for somebody to lead it.
    """
    lone = observing()
    before = lone.raft_node.state
    me, position = rpc.NO_REPLICA, lone.raft_node.log.position
    said = (
        rpc.vote_request(CLUSTER_ID, VoteParams(epoch, key_of(2), position, me, False)),
        rpc.begin_request(CLUSTER_ID, me, epoch, 2, Endpoint("elsewhere", 1)),
        rpc.end_request(CLUSTER_ID, epoch, 2, (key_of(3),)),
    )
    for request in said:
        response = rpc.read_response(lone.ask(request, sender=2))  # type: ignore[arg-type]
        assert response is not None
        assert response.error == ErrorCode.INVALID_REQUEST
    asked = lone.ask_fetch(position.offset, position.epoch, epoch=epoch, sender=2)
    assert asked is not None
    assert asked.error_code != ErrorCode.NONE
    assert lone.raft_node.state == before
    for kind in (fx.PersistElection, fx.RememberPeer):
        assert every(lone.effects, kind) == []


# --- on the leader ------------------------------------------------------------------------------------------


def described(lone: Lone) -> set[int]:
    topic = m.DescribeQuorumRequestTopicData(METADATA_TOPIC, (m.DescribeQuorumRequestPartitionData(0),))
    response = lone.ask(m.DescribeQuorumRequest(topics=(topic,)), sender=None)
    assert isinstance(response, m.DescribeQuorumResponse)
    return {state.replica_id for state in response.topics[0].partitions[0].observers}


@covers("OBS-09", "DQ-02")
def test_observers_are_known_from_their_first_good_fetch_until_five_minutes_of_silence() -> None:
    lone = Lone(election=Election(4), epochs=(1, 4)).become_leader().establish()
    lone.ask_fetch(99, 5, replica=8)
    assert described(lone) == set(), "what diverges is no good fetch"
    lone.ask_fetch(3, 5, replica=8)
    assert described(lone) == {8}
    for minute in range(1, 6):
        lone.ask_fetch(3, 5, replica=9)
        for _ in range(60):
            lone.establish()
            lone.run(1_000)
        assert described(lone) == ({8, 9} if minute < 5 else {9})


@covers("OBS-08", "FREQ-24")
def test_who_fetches_without_an_id_is_served_and_not_tracked() -> None:
    lone = Lone(election=Election(4), epochs=(1, 4)).become_leader().establish()
    data = lone.ask_fetch(0, 0, replica=NO_NODE, sender=9)
    assert data is not None
    assert data.error_code == 0
    assert described(lone) == set()
