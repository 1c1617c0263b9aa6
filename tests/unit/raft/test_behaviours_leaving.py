"""How a leader finds out that nobody follows, and how nodes resign and stop (CQ, RSG)."""

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc
from kraftd.raft.epoch_states import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from kraftd.raft.rpc import LeaderAndEpoch
from kraftd.raft.timing import Timing
from kraftd.records.batch import encode_batch
from kraftd.types import NO_NODE, Election, Endpoint, PeerIdentity
from tests.conformance import covers
from tests.unit.raft.lone import ME, Lone, every, key_of, requests_to


def leading(voters: tuple[int, ...] = (1, 2, 3), **options: object) -> Lone:
    lone = Lone(voters=voters, connected=voters[1:], election=Election(4), epochs=(1, 4), **options)  # type: ignore[arg-type]
    lone.run_to_deadline()
    for voter in 2 * voters[1 : len(voters) // 2 + 1]:  # pre-votes, then votes
        lone.vote_response(voter, granted=True)
    assert isinstance(lone.raft_node.state, Leader)
    return lone


@covers("D-09", "D-38")
def test_whoever_has_just_come_to_lead_leads_for_a_while_before_it_hands_over() -> None:
    """Any client may ask; asked again and again, nobody would lead for long enough to commit anything."""
    lone = leading(timing=Timing(min_leader_ms=1_000)).establish()
    began_ms = lone.now_ms
    early = lone.resign(2, deadline_ms=300)
    again = lone.resign(2)
    assert lone.outcome(again) == ErrorCode.INVALID_REQUEST, "one at a time"
    token = lone.append()
    lone.establish()
    assert lone.outcome(token) == ErrorCode.NONE, "it takes appends meanwhile"
    lone.run(300)
    assert lone.outcome(early) == ErrorCode.REQUEST_TIMED_OUT
    late = lone.resign(2, deadline_ms=5_000)
    lone.establish()
    lone.run(999 - (lone.now_ms - began_ms))
    assert isinstance(lone.raft_node.state, Leader)
    lone.establish()
    lone.run(1)
    assert isinstance(lone.raft_node.state, Resigned)
    assert lone.outcome(late) == ErrorCode.NONE


@covers("D-09", "D-13", "D-38")
def test_who_asked_for_a_handover_is_answered_although_the_leadership_is_lost_before_it_begins() -> None:
    lone = leading(timing=Timing(min_leader_ms=1_000)).establish()
    early = lone.resign(2)
    lone.ask_begin(9, 3)
    assert isinstance(lone.raft_node.state, Follower)
    assert lone.outcome(early) == ErrorCode.NOT_CONTROLLER


@covers("D-09", "D-13", "D-38")
def test_who_asked_for_a_handover_is_answered_although_the_leader_stops_before_it_begins() -> None:
    lone = leading(timing=Timing(min_leader_ms=1_000)).establish()
    early = lone.resign(2)
    lone.run(100)
    assert lone.outcome(early) is None, "it has not led for long enough"
    lone.establish()
    lone.shut_down()
    assert isinstance(lone.raft_node.state, Resigned)
    assert lone.outcome(early) == ErrorCode.NONE, "another one is to lead, as it was asked for"


def resigned() -> Lone:
    lone = leading().establish()
    lone.resign(2)
    assert isinstance(lone.raft_node.state, Resigned)
    return lone


def runs_until_resigned(lone: Lone, each_100_ms: object = None) -> int:
    """How long a leader leads on, at most ten seconds, while something happens again and again."""
    began = lone.now_ms
    while lone.raft_node.is_leader and lone.now_ms < began + 10_000:
        if callable(each_100_ms):
            each_100_ms()
        lone.run(100)
    return lone.now_ms - began


# --- check-quorum -------------------------------------------------------------------------------------------


@covers("CQ-01", "D-11")
def test_a_leader_that_nobody_fetches_from_resigns_in_its_epoch_after_one_and_a_half_fetch_timeouts() -> None:
    lone = leading()
    assert runs_until_resigned(lone) == 3_000
    assert isinstance(lone.raft_node.state, Resigned)
    assert (lone.epoch, lone.stored) == (5, Election(5, ME, key_of(ME)))


@covers("CQ-02")
def test_a_majority_with_itself_is_enough_and_each_must_be_heard_again() -> None:
    lone = leading((1, 2, 3, 4, 5))
    lone.run(1_000)
    lone.ask_fetch(3, 5, replica=2)
    lone.run(1_000)
    lone.ask_fetch(3, 5, replica=2)
    lone.ask_fetch(3, 5, replica=3)
    alone = runs_until_resigned(lone, lambda: lone.ask_fetch(3, 5, replica=2))
    assert alone == 3_000, "from the moment at which the second of two was heard"

    lone = leading((1, 2, 3, 4, 5))
    assert runs_until_resigned(lone, lambda: lone.ask_fetch(3, 5, replica=2)) == 3_000, "one of two needed"


@covers("CQ-01", "D-01")
def test_a_fetch_that_waited_while_the_leader_stood_still_does_not_keep_it() -> None:
    """Its process was stopped: what came meanwhile is heard first, and comes too late (seed 1472)."""
    lone = leading()
    lone.run(1_000)
    lone.now_ms += 5_000
    lone.ask_fetch(3, 5, replica=2)
    assert isinstance(lone.raft_node.state, Resigned)


@covers("CQ-04", "D-06")
def test_neither_observers_nor_strangers_under_a_voters_id_keep_a_leader() -> None:
    lone = leading()
    lone.connect(9)
    assert runs_until_resigned(lone, lambda: lone.ask_fetch(3, 5, replica=9)) == 3_000

    lone = leading().establish()
    twin = PeerIdentity(2, b"another director", 1, b"another startid!")
    handles = iter(range(10**9, 10**9 + 1_000))

    def fetch_as_twin() -> None:
        ask = rpc.FetchParams(key_of(2), 5, lone.raft_node.log.position, 1 << 62, 0)
        handle = next(handles)
        lone.feed(ev.RequestReceived(handle, rpc.fetch_request("lone", ask, 1), 18, twin))

    assert runs_until_resigned(lone, fetch_as_twin) == 3_000


@covers("CQ-05")
def test_a_lone_voter_leads_on() -> None:
    lone = Lone(voters=(ME,), connected=(), election=Election(4), epochs=(1, 4))
    assert runs_until_resigned(lone) == 10_000
    assert lone.raft_node.is_leader


@covers("CQ-07", "FREQ-22", "D-11")
def test_a_follower_that_only_hears_where_it_diverges_does_not_count() -> None:
    lone = leading()
    assert runs_until_resigned(lone, lambda: lone.ask_fetch(2, 2, replica=2)) == 3_000


# --- resigning ----------------------------------------------------------------------------------------------


@covers("RSG-01", "QS-16")
def test_a_leader_resigns_when_asked_and_its_successor_has_everything() -> None:
    lone = leading().establish()
    seen = len(lone.effects)
    token = lone.resign(2)
    assert lone.outcome(token) == ErrorCode.NONE
    state = lone.raft_node.state
    assert isinstance(state, Resigned)
    assert state.epoch == 5
    assert every(lone.effects[seen:], fx.PersistElection) == []
    assert requests_to(lone.effects[seen:], m.EndQuorumEpochRequest) == [2, 3]


@covers("RSG-02", "RSG-03")
@pytest.mark.parametrize("to", [NO_NODE, 2, 3])
def test_a_request_to_resign_that_comes_after_the_epoch_is_over_ends_no_other(to: int) -> None:
    """Nobody who asks names an epoch: whoever does not lead any more says so, and nothing else happens."""
    lone = resigned()
    before = lone.raft_node.state
    token = lone.resign(to)
    assert lone.outcome(token) == ErrorCode.NOT_CONTROLLER
    assert lone.raft_node.state == before


@covers("RSG-03")
@pytest.mark.parametrize("to", [ME, 9])
def test_a_leader_refuses_a_successor_that_is_no_other_voter(to: int) -> None:
    lone = leading().establish()
    token = lone.resign(to)
    assert lone.outcome(token) == ErrorCode.INVALID_REQUEST
    assert lone.raft_node.is_leader


def refusal_of(lone: Lone, token: int) -> tuple[ErrorCode, str] | None:
    done = [effect for effect in every(lone.effects, fx.ResignDone) if effect.token == token]
    return (done[0].error, done[0].reason) if done else None


@covers("RSG-03", "D-06")
def test_a_leader_refuses_at_once_a_successor_that_does_not_count() -> None:
    """2 has all that was written, and then finds out that its log is damaged."""
    lone = leading().establish()
    lone.ask_fetch(lone.raft_node.log.end_offset, 5, replica=NO_NODE, sender=2)
    told = ErrorCode.INVALID_REQUEST, "2 is not counted: it fetches without its id, since it is not whole"
    assert refusal_of(lone, lone.resign(2)) == told
    assert lone.raft_node.is_leader
    lone.ask_fetch(lone.raft_node.log.end_offset, 5, replica=2)
    assert lone.outcome(lone.resign(2)) == ErrorCode.NONE, "it counts again"


@covers("RSG-03", "D-06")
def test_a_successor_that_stops_to_count_while_it_is_waited_for_ends_the_wait() -> None:
    lone = leading().establish()
    token = lone.resign(3, deadline_ms=60_000)
    assert lone.outcome(token) is None
    lone.ask_fetch(1, 1, replica=NO_NODE, sender=3)
    told = ErrorCode.INVALID_REQUEST, "3 is not counted: it fetches without its id, since it is not whole"
    assert refusal_of(lone, token) == told
    assert lone.raft_node.is_leader


@covers("RSG-03", "D-06")
def test_a_leader_refuses_a_successor_that_comes_with_another_directory_and_says_so() -> None:
    lone = leading().establish()
    lone.feed(ev.PeerIdentified(77, PeerIdentity(2, b"another director", 1, bytes(16)), outbound=True))
    refusal = refusal_of(lone, lone.resign(2))
    assert refusal is not None
    assert refusal[0] == ErrorCode.INVALID_REQUEST
    assert refusal[1].startswith("2 is not counted: node 2 comes with directory ")


@covers("EQE-10", "D-06")
def test_who_does_not_count_is_no_successor_even_if_it_has_everything() -> None:
    lone = leading().establish()
    lone.ask_fetch(lone.raft_node.log.end_offset, 5, replica=NO_NODE, sender=2)
    token = lone.resign()
    assert lone.outcome(token) is None, "3 has not caught up yet"
    lone.ask_fetch(lone.raft_node.log.end_offset, 5, replica=3)
    assert lone.outcome(token) == ErrorCode.NONE
    assert [done.successor for done in every(lone.effects, fx.ResignDone)] == [3]


@covers("RSG-04", "D-13")
def test_a_resigned_leader_answers_all_who_wait_and_all_who_come() -> None:
    lone = leading().establish()
    assert lone.ask_fetch(3, 5, replica=9, wait_ms=500) is None
    lone.read()
    seen = len(lone.effects)
    lone.resign(2)
    purgatory = [e.response for e in every(lone.effects[seen:], fx.Reply)]
    assert [type(response) for response in purgatory] == [m.FetchResponse]
    data = lone.ask_fetch(3, 5, replica=2, wait_ms=500)
    for told in (purgatory[0].responses[0].partitions[0], data):  # type: ignore[union-attr]
        assert told is not None
        assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (told.current_leader.leader_id, told.current_leader.leader_epoch) == (ME, 5)
    assert [done.error for done in every(lone.effects[seen:], fx.ReadDone)] == [ErrorCode.NOT_CONTROLLER]
    assert lone.outcome(lone.append()) == ErrorCode.NOT_CONTROLLER
    assert lone.outcome(lone.read()) == ErrorCode.NOT_CONTROLLER


@covers("RSG-07", "QS-25")
def test_who_resigned_follows_nobody_in_the_epoch_it_led_and_whoever_leads_a_later_one() -> None:
    lone = resigned()
    assert lone.ask_begin(5, 2).error_code == ErrorCode.INVALID_REQUEST
    assert isinstance(lone.raft_node.state, Resigned)
    assert lone.ask_begin(6, 2).error_code == ErrorCode.NONE
    assert isinstance(lone.raft_node.state, Follower)
    lone = resigned()
    assert lone.ask_vote(6).vote_granted
    assert isinstance(lone.raft_node.state, Unattached)


# --- stopping -----------------------------------------------------------------------------------------------


@covers("RSG-08", "D-09")
def test_a_leader_that_stops_votes_for_its_successor_and_follows_it_up_to_its_first_commit() -> None:
    lone = leading().establish()
    effects = lone.shut_down(5_000)
    assert isinstance(lone.raft_node.state, Resigned)
    assert requests_to(effects, m.EndQuorumEpochRequest) == [2, 3]
    assert every(effects, fx.ShutdownReady) == []
    seen = len(lone.effects)
    assert lone.ask_vote(6).vote_granted
    lone.ask_begin(6, 2)
    end = lone.raft_node.log.end_offset
    record = encode_batch(end, 6, 0, [b"leader change"])
    lone.fetch_response(record, high_watermark=end)
    assert every(lone.effects[seen:], fx.ShutdownReady) == [], "what is committed is of the epoch before"
    lone.fetch_response(high_watermark=end + 1)
    assert every(lone.effects[seen:], fx.ShutdownReady) == [fx.ShutdownReady(handed_over=True)]


@covers("RSG-08", "D-09")
@pytest.mark.parametrize(("patience_ms", "waits_ms"), [(20_000, 2_000), (1_000, 1_000)])
def test_a_leader_that_stops_waits_for_its_successor_no_longer_than_a_fetch_timeout_or_its_deadline(
    patience_ms: int, waits_ms: int
) -> None:
    lone = leading().establish()
    lone.shut_down(patience_ms)
    seen = len(lone.effects)
    assert lone.ask_vote(6).vote_granted
    lone.run(waits_ms - 1)
    assert every(lone.effects[seen:], fx.ShutdownReady) == []
    lone.run(1)
    assert every(lone.effects[seen:], fx.ShutdownReady) == [fx.ShutdownReady(handed_over=True)]


@covers("RSG-10")
def test_who_handed_over_long_before_it_stops_waits_for_nobody() -> None:
    lone = resigned()
    lone.ask_begin(6, 2)
    assert every(lone.shut_down(60_000), fx.ShutdownReady) == [fx.ShutdownReady(handed_over=False)]


@covers("RSG-09", "RSG-12")
def test_who_resigned_to_stop_stays_so_until_its_deadline_and_begins_no_election() -> None:
    lone = leading()
    lone.shut_down(20_000)
    lone.run(10_000)
    assert isinstance(lone.raft_node.state, Resigned)
    effects = lone.run(9_999)
    assert isinstance(lone.raft_node.state, Resigned), "many election timeouts long"
    assert lone.epoch == 5
    assert every(effects, fx.ShutdownReady) == []
    assert every(lone.run(1), fx.ShutdownReady) == [fx.ShutdownReady(handed_over=False)]


@covers("RSG-10")
@pytest.mark.parametrize("who", ["observer", "lone voter", "follower"])
def test_nobody_waits_for_who_is_not_needed(who: str) -> None:
    lone = {
        "observer": lambda: Lone(voters=(2, 3, 4), election=Election(5), epochs=(1, 4)),
        "lone voter": lambda: Lone(voters=(ME,), connected=(), election=Election(5), epochs=(1, 4)),
        "follower": lambda: Lone(election=Election(5, 2), epochs=(1, 4)),
    }[who]()
    assert len(every(lone.shut_down(60_000), fx.ShutdownReady)) == 1


@covers("RSG-11")
def test_a_candidate_that_is_stopping_may_still_win_but_starts_no_other_election() -> None:
    lone = Lone(election=Election(4), epochs=(1, 4)).become_candidate()
    lone.shut_down(60_000)
    for voter in (2, 3):
        lone.vote_response(voter, granted=False)
    lone.run(30_000)
    lone.feed(ev.Applied(0))  # whatever wakes it
    assert isinstance(lone.raft_node.state, Candidate)
    assert lone.epoch == 5

    winner = Lone(election=Election(4), epochs=(1, 4)).become_candidate()
    winner.shut_down(60_000)
    winner.vote_response(2, granted=True)
    assert isinstance(winner.raft_node.state, Leader)


@covers("RSG-11")
@pytest.mark.parametrize("stored", [Election(5), Election(5, 2)])
def test_who_waits_or_follows_begins_nothing_while_it_stops(stored: Election) -> None:
    lone = Lone(election=stored, epochs=(1, 4))
    lone.shut_down(60_000)
    lone.run(30_000)
    lone.feed(ev.Applied(0))
    assert isinstance(lone.raft_node.state, Unattached | Follower)
    assert not isinstance(lone.raft_node.state, Prospective)
    assert lone.epoch == 5


@covers("D-09")
def test_who_said_goodbye_is_answered_with_the_successor_it_chose() -> None:
    lone = leading().establish()
    lone.ask_fetch(3, 5, replica=3)
    lone.resign(3)
    (done,) = every(lone.effects, fx.ResignDone)
    assert (done.error, done.successor, done.epoch) == (ErrorCode.NONE, 3, 5)
    sent = lone.asked(3, m.EndQuorumEpochRequest)
    assert sent is not None
    assert sent.request.topics[0].partitions[0].preferred_successors == (3, 2)  # type: ignore[union-attr]
    lone.answer(sent, rpc.end_response(ErrorCode.NONE, LeaderAndEpoch(5, ME, Endpoint("host1", 9_001))))
    assert isinstance(lone.raft_node.state, Resigned)
