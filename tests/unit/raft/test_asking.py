"""Whom a node asks, how often, and which answers it takes."""

import pytest

from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft.request_manager import RequestKind, RequestManager
from kraftd.raft.rpc import LeaderAndEpoch
from kraftd.raft.timing import Timing
from kraftd.types import NEVER_MS, NO_NODE, Election, Endpoint
from tests.conformance import covers
from tests.stories.cluster import FixedRandom
from tests.unit.raft.lone import Lone, every, requests_to

TIMING = Timing(request_timeout_ms=300, retry_backoff_ms=20)
SERVERS = (Endpoint("host2", 9_002), Endpoint("other", 9_093))


@covers("REQ-01", "REQ-06")
def test_a_peer_is_ready_or_awaited_or_resting_and_each_says_until_when() -> None:
    requests = RequestManager(timeout_ms=100, backoff_ms=20)
    assert requests.is_ready(2, RequestKind.FETCH, 0)
    assert (requests.next_ready_ms((2,), RequestKind.FETCH), requests.next_timeout_ms()) == (0, NEVER_MS)
    first = requests.send(2, RequestKind.FETCH, 1, 10)
    assert (requests.next_ready_ms((2,), RequestKind.FETCH), requests.next_timeout_ms()) == (NEVER_MS, 110)
    requests.take(2, first)
    requests.back_off(2, RequestKind.FETCH, 50)
    assert not requests.is_ready(2, RequestKind.FETCH, 69)
    assert (requests.next_ready_ms((2, 3), RequestKind.FETCH), requests.next_timeout_ms()) == (0, NEVER_MS)
    requests.back_off(3, RequestKind.FETCH, 55)
    assert requests.next_ready_ms((2, 3), RequestKind.FETCH) == 70, "whoever has rested first"
    assert requests.is_ready(2, RequestKind.FETCH, 70)
    requests.send(2, RequestKind.FETCH, 1, 70)
    requests.expire(170)
    assert requests.is_ready(2, RequestKind.FETCH, 170), "no backoff after a timeout"


@covers("REQ-05", "REQ-02", "REQ-03")
def test_what_was_given_up_is_forgotten() -> None:
    requests = RequestManager(timeout_ms=100, backoff_ms=20)
    first, other = requests.send(2, RequestKind.FETCH, 1, 0), requests.send(3, RequestKind.FETCH, 1, 50)
    assert [sent.correlation_id for sent in requests.expire(100)] == [first]
    assert requests.take(2, first) is None
    assert requests.any_waiting(RequestKind.FETCH)
    assert requests.take(2, other) is None, "the right number from the wrong peer"
    assert requests.take(3, other) is not None
    assert not requests.any_waiting(RequestKind.FETCH)
    third = requests.send(3, RequestKind.FETCH, 1, 100)
    requests.back_off(2, RequestKind.FETCH, 100)
    requests.reset()
    assert requests.take(3, third) is None
    assert requests.is_ready(2, RequestKind.FETCH, 100)
    assert requests.is_ready(3, RequestKind.FETCH, 100)


@covers("REQ-02")
def test_a_response_under_another_number_is_dropped() -> None:
    lone = Lone()
    lone.ask_begin(5, 2)
    send = lone.asked(2, m.FetchRequest)
    assert send is not None
    for sender, number in ((2, send.correlation_id + 1), (3, send.correlation_id)):
        response = m.FetchResponse(error_code=31)
        assert lone.feed(ev.ResponseReceived(sender, number, response)) == []
    assert lone.asked(2, m.FetchRequest) == send


@covers("REQ-01")
def test_a_failure_rests_the_peer_and_a_timeout_does_not() -> None:
    lone = Lone(timing=TIMING)
    lone.ask_begin(5, 2)
    send = lone.asked(2, m.FetchRequest)
    assert send is not None
    failed = lone.feed(ev.RequestFailed(2, send.correlation_id, "gone"))
    assert 2 not in requests_to(failed + lone.run(19), m.FetchRequest)
    assert 2 in requests_to(lone.run(1), m.FetchRequest)
    assert 2 not in requests_to(lone.run(299), m.FetchRequest)
    assert 2 in requests_to(lone.run(1), m.FetchRequest)


@covers("REQ-04", "OBS-03")
@pytest.mark.parametrize(("part", "first"), [(0.0, 2), (0.4, 3), (0.6, -2), (0.9, -3)])
def test_one_who_looks_for_the_leader_asks_one_at_a_time_and_chance_says_whom(
    part: float, first: int
) -> None:
    lone = Lone(
        voters=(2, 3), bootstrap=SERVERS, random=FixedRandom(part), timing=TIMING, election=Election(4)
    )
    assert requests_to(lone.started, m.FetchRequest) == [first]
    idle = lone.feed(ev.Applied(0)) + lone.run(299)
    assert requests_to(idle, m.FetchRequest) == [], "somebody is being asked"
    send = lone.open_requests()[0]
    failed = lone.feed(ev.RequestFailed(first, send.correlation_id, "gone"))
    (second,) = requests_to(failed, m.FetchRequest)
    assert second != first, "who failed rests"


@covers("REQ-07", "OBS-02")
def test_a_bootstrap_server_and_the_voter_at_its_address_are_two() -> None:
    lone = Lone(
        voters=(2, 3), bootstrap=SERVERS, random=FixedRandom(0.6), timing=TIMING, election=Election(4)
    )
    learnt = {news.node_id: news.endpoint for news in every(lone.started, fx.LearnEndpoint)}
    assert (learnt[-2].host, learnt[-2].port) == (learnt[2].host, learnt[2].port)
    (send,) = lone.open_requests()
    assert send.to == -2
    effects = lone.fetch_response(of=-2, leader_and_epoch=LeaderAndEpoch(4, 2, Endpoint("host2", 9_002)))
    assert lone.raft_node.leader_id == 2
    assert requests_to(effects, m.FetchRequest) == [2]


@covers("REQ-08")
def test_a_connection_that_fails_is_a_request_that_failed() -> None:
    """Kafka makes up a response with an error; here it is an event, and an election does not wait for it."""
    lone = Lone()
    lone.run_to_deadline()
    lone.vote_response(2, granted=True)
    for voter in (2, 3):
        send = lone.asked(voter, m.VoteRequest)
        assert send is not None
        lone.feed(ev.RequestFailed(voter, send.correlation_id, "connection refused"))
    (ended,) = [e for e in every(lone.effects, fx.ElectionEnded) if not e.pre_vote]
    assert (ended.won, list(ended.outstanding)) == (False, [2, 3])
    assert lone.raft_node.leader_id == NO_NODE
