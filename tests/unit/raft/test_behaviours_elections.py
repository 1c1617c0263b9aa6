"""How votes are asked for, counted and given (VOTE). What every state says to every request: `reactions`."""

from collections.abc import Callable

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc
from kraftd.raft.epoch_states import Candidate, Follower, Leader, Prospective, Unattached
from kraftd.raft.rejoin import StateHealth
from kraftd.raft.rpc import FetchParams, LeaderAndEpoch, VoteParams
from kraftd.raft.timing import Timing
from kraftd.records.batch import BatchView
from kraftd.records.control import decode_control
from kraftd.records.messages import LeaderChangeMessage
from kraftd.types import NO_NODE, Election, Endpoint, OffsetAndEpoch, PeerIdentity, ReplicaKey
from tests.conformance import covers
from tests.unit.raft.lone import CLUSTER_ID, ME, Lone, every, key_of, requests_to


def waiting(**options: object) -> Lone:
    return Lone(election=Election(5), epochs=(1, 4), **options)  # type: ignore[arg-type]


def following(**options: object) -> Lone:
    lone = Lone(election=Election(5, 2), epochs=(1, 4), **options)  # type: ignore[arg-type]
    lone.fetch_response()
    return lone


# --- asking -------------------------------------------------------------------------------------------------


@covers("VOTE-01", "QS-15")
def test_who_hears_of_no_leader_asks_first_and_campaigns_with_a_majority_behind_it() -> None:
    lone = waiting()
    asked = lone.run_to_deadline()
    assert isinstance(lone.raft_node.state, Prospective)
    assert every(asked, fx.PersistElection) == []
    effects = lone.vote_response(3, granted=True)
    assert isinstance(lone.raft_node.state, Candidate)
    written = next(n for n, e in enumerate(effects) if isinstance(e, fx.PersistElection))
    sent = [n for n, e in enumerate(effects) if isinstance(e, fx.Send)]
    assert effects[written] == fx.PersistElection(Election(6, NO_NODE, key_of(ME)))
    assert written < min(sent)
    for voter in (2, 3):
        send = lone.asked(voter, m.VoteRequest)
        assert send is not None
        ask = rpc.read_vote(send.request, CLUSTER_ID)  # type: ignore[arg-type]
        assert ask == VoteParams(6, key_of(ME), OffsetAndEpoch(2, 4), ReplicaKey(voter), pre_vote=False)


LEADS = LeaderAndEpoch(5, 2)


def refused(lone: Lone, by: dict[int, LeaderAndEpoch], error: ErrorCode = ErrorCode.NONE) -> list[fx.Effect]:
    """Its leader, node 2, is lost, and all three rounds of pre-votes are."""
    effects = lone.run_to_deadline() + lone.run(100)
    for _ in range(3):
        assert isinstance(lone.raft_node.state, Prospective)
        for voter, told in by.items():
            effects += lone.vote_response(voter, granted=False, leader_and_epoch=told, error=error)
        effects += lone.run(60)
    return effects


@covers("D-08", "D-07", "D-37")
def test_a_leader_that_refuses_a_pre_vote_itself_is_followed_again_after_the_fetch_timeout() -> None:
    """A voter whose own disk stood still, and which its leader cannot connect to, finds it all the same."""
    lone = following()
    effects = refused(lone, {2: LEADS, 3: LEADS})
    state = lone.raft_node.state
    assert isinstance(state, Follower)
    assert not state.in_touch, "it grants pre-votes of others until it has fetched"
    assert lone.fetching() == [2]
    assert every(effects, fx.PersistElection) == []
    assert 0 < state.fetch_deadline_ms - lone.now_ms <= 1_500, "no longer than it would wait for a leader"
    lone.fetch_response()
    assert isinstance(lone.raft_node.state, Follower)
    assert lone.raft_node.state.in_touch


@covers("D-08", "D-07", "D-37")
def test_a_leader_that_is_heard_only_at_the_next_pre_vote_is_followed_again_then() -> None:
    lone = following()
    refused(lone, {3: LEADS})
    assert isinstance(lone.raft_node.state, Unattached)
    lone.run_to_deadline()
    for _ in range(3):
        lone.vote_response(2, granted=False, leader_and_epoch=LEADS)
        lone.vote_response(3, granted=False, leader_and_epoch=LEADS)
        lone.run(60)
    assert isinstance(lone.raft_node.state, Follower)
    assert lone.fetching() == [2]


@covers("D-08", "D-37")
def test_only_the_leaders_own_word_is_its_word() -> None:
    """Another voter's word may be old, and nobody believes one who is not the node known as the leader."""
    nobody = LeaderAndEpoch(5, NO_NODE)
    by_another = following()
    refused(by_another, {3: LEADS})
    without_a_leader = following()
    refused(without_a_leader, {2: nobody, 3: LEADS})
    of_an_old_epoch = following()
    refused(of_an_old_epoch, {2: LeaderAndEpoch(4, 2), 3: LEADS})
    with_an_error = following()
    refused(with_an_error, {2: LEADS, 3: LEADS}, ErrorCode.INVALID_VOTER_KEY)
    by_an_impostor = following()
    stranger = PeerIdentity(2, b"another disk 123", 1, b"start of somebody")
    by_an_impostor.feed(ev.PeerIdentified(302, stranger, outbound=True))
    refused(by_an_impostor, {2: LEADS, 3: LEADS})
    for lone in (by_another, without_a_leader, of_an_old_epoch, with_an_error, by_an_impostor):
        assert isinstance(lone.raft_node.state, Unattached)
        assert lone.fetching() == []


@covers("VOTE-28")
def test_a_follower_that_hears_nothing_for_the_fetch_timeout_campaigns_with_its_log_position() -> None:
    lone = following()
    lone.run(1_999)
    assert isinstance(lone.raft_node.state, Follower)
    lone.run(1 + 100)
    assert isinstance(lone.raft_node.state, Prospective)
    lone.vote_response(3, granted=True)
    send = lone.asked(3, m.VoteRequest)
    assert send is not None
    data = send.request.topics[0].partitions[0]  # type: ignore[union-attr]
    assert (data.replica_epoch, data.last_offset, data.last_offset_epoch) == (6, 2, 4)


@covers("VOTE-02", "VOTE-29", "BQE-01")
def test_the_vote_that_makes_the_majority_makes_the_leader_in_the_same_event() -> None:
    lone = waiting().become_candidate()
    assert lone.stored == Election(6, NO_NODE, key_of(ME))
    send = lone.asked(2, m.VoteRequest)
    assert send is not None
    response = rpc.vote_response(ErrorCode.NONE, LeaderAndEpoch(6, NO_NODE), granted=True)
    effects = lone.raft_node.handle(ev.ResponseReceived(2, send.correlation_id, response), lone.now)
    assert isinstance(lone.raft_node.state, Leader)
    assert every(effects, fx.PersistElection) == [fx.PersistElection(Election(6, ME, key_of(ME)))]
    assert every(effects, fx.AssignEpoch) == [fx.AssignEpoch(6, 2)]
    assert every(effects, fx.Append) == []
    turn = lone.poll()
    (append,) = every(turn, fx.Append)
    assert (append.base_offset, append.end_offset) == (2, 3)
    assert requests_to(turn, m.BeginQuorumEpochRequest) == [2, 3]
    assert lone.asked(3, m.VoteRequest) is None, "nobody waits for the other vote any more"


@covers("VOTE-30", "DV-13")
def test_the_first_record_of_an_epoch_names_leader_voters_and_who_granted_and_is_the_only_one() -> None:
    lone = waiting(voters=(1, 2, 3, 4, 5), connected=(2, 3, 4, 5))
    lone.run_to_deadline()
    for voter in (4, 2):
        lone.vote_response(voter, granted=True)
    for voter in (2, 4):
        lone.vote_response(voter, granted=True)
    (append,) = every(lone.effects, fx.Append)
    (raw,) = append.batches
    batch = BatchView(raw)
    assert (batch.base_offset, batch.end_offset, batch.epoch, batch.is_control) == (2, 3, 6, True)
    (record,) = batch.records()
    change = decode_control(record.key, record.value)
    assert isinstance(change, LeaderChangeMessage)
    assert change.leader_id == ME
    assert [voter.voter_id for voter in change.voters] == [1, 2, 3, 4, 5]
    assert [voter.voter_id for voter in change.granting_voters] == [1, 2, 4]
    assert batch.max_timestamp == lone.now.wall_ms


@covers("VOTE-04", "VOTE-07", "VOTE-06")
def test_a_lost_election_ends_at_once_and_keeps_the_vote_until_the_next() -> None:
    lone = waiting(voters=(1, 2, 3, 4, 5), connected=(2, 3, 4, 5))
    lone.run_to_deadline()
    for voter in (2, 3):
        lone.vote_response(voter, granted=True)
    for voter in (2, 3):
        lone.vote_response(voter, granted=False)
    assert lone.asked(5, m.VoteRequest) is not None
    before = lone.now_ms
    quiet = lone.vote_response(4, granted=False)
    state = lone.raft_node.state
    assert isinstance(state, Candidate)
    assert before <= state.retry_at_ms <= before + 100, "long before the election timeout"
    quiet += lone.run(state.retry_at_ms - lone.now_ms - 1)
    assert requests_to(quiet, m.VoteRequest) == [], "not even to 5, who has not answered"
    assert lone.stored == Election(6, NO_NODE, key_of(ME))
    lone.run(1)
    for voter in (2, 3):
        lone.vote_response(voter, granted=True)
    again = lone.raft_node.state
    assert isinstance(again, Candidate)
    assert (again.epoch, again.attempt) == (7, 2)


@covers("VOTE-06")
def test_an_election_without_result_backs_off_when_its_time_is_up() -> None:
    lone = waiting(voters=(1, 2, 3, 4, 5), connected=(2, 3, 4, 5), timing=Timing(request_timeout_ms=60_000))
    lone.run_to_deadline()
    for voter in (2, 3):
        lone.vote_response(voter, granted=True)
    state = lone.raft_node.state
    assert isinstance(state, Candidate)
    lone.run_to_deadline()
    after = lone.raft_node.state
    assert isinstance(after, Candidate)
    assert after.epoch == 6
    assert lone.now_ms <= after.retry_at_ms <= lone.now_ms + 100
    assert lone.open_requests() == []
    lone.run(after.retry_at_ms - lone.now_ms)
    assert isinstance(lone.raft_node.state, Prospective)


@covers("VOTE-08", "REQ-02", "D-08")
def test_a_request_that_failed_is_sent_again_and_a_late_response_to_the_first_means_nothing() -> None:
    lone = waiting(voters=(1, 2, 3, 4, 5), connected=(2, 3, 4, 5))
    lone.run_to_deadline()
    for voter in (2, 3):
        lone.vote_response(voter, granted=True)
    lone.vote_response(2, granted=True)
    first = lone.asked(5, m.VoteRequest)
    assert first is not None
    lone.feed(ev.RequestFailed(5, first.correlation_id, "connection refused"))
    lone.run(20)
    second = lone.asked(5, m.VoteRequest)
    assert second is not None
    assert second.correlation_id != first.correlation_id
    assert second.request == first.request, "in the same epoch"
    lone.answer(first, rpc.vote_response(ErrorCode.NONE, LeaderAndEpoch(6, NO_NODE), granted=True))
    assert isinstance(lone.raft_node.state, Candidate)
    lone.vote_response(5, granted=True)
    assert isinstance(lone.raft_node.state, Leader)


@covers("VOTE-08", "D-08")
def test_when_nobody_has_answered_in_time_the_election_is_over() -> None:
    lone = waiting(voters=(1, 2, 3, 4, 5), connected=(2, 3, 4, 5), timing=Timing(request_timeout_ms=300))
    lone.run_to_deadline()
    for voter in (2, 3):
        lone.vote_response(voter, granted=True)
    lone.vote_response(2, granted=True)
    lone.run(300)
    state = lone.raft_node.state
    assert isinstance(state, Candidate)
    assert state.retry_at_ms <= lone.now_ms + 100


@covers("VOTE-09", "VOTE-10")
def test_a_response_from_somebody_who_was_not_asked_is_never_counted() -> None:
    lone = waiting(voters=(1, 2, 3, 4, 5), connected=(2, 3, 4, 5, 8)).become_candidate()
    for voter in (3, 2):
        lone.vote_response(voter, granted=True)
    assert isinstance(lone.raft_node.state, Candidate), "one more is needed"
    send = lone.asked(4, m.VoteRequest)
    assert send is not None
    yes = rpc.vote_response(ErrorCode.NONE, LeaderAndEpoch(6, NO_NODE), granted=True)
    for sender in (2, 3, 8):
        lone.feed(ev.ResponseReceived(sender, send.correlation_id, yes))
        lone.feed(ev.ResponseReceived(sender, send.correlation_id, yes))
    assert isinstance(lone.raft_node.state, Candidate)


@covers("VOTE-25", "VOTE-31")
def test_a_candidate_that_found_its_leader_counts_no_more_votes() -> None:
    lone = waiting().become_candidate()
    send = lone.asked(3, m.VoteRequest)
    assert send is not None
    lone.ask_begin(6, 2)
    assert isinstance(lone.raft_node.state, Follower)
    lone.answer(send, rpc.vote_response(ErrorCode.NONE, LeaderAndEpoch(6, NO_NODE), granted=True))
    assert isinstance(lone.raft_node.state, Follower)
    assert (lone.epoch, lone.raft_node.leader_id) == (6, 2)


@covers("VOTE-26")
def test_grants_after_the_victory_change_nothing() -> None:
    lone = waiting().become_candidate()
    late = lone.asked(3, m.VoteRequest)
    assert late is not None
    lone.vote_response(2, granted=True)
    state, end_offset = lone.raft_node.state, lone.raft_node.log.end_offset
    lone.answer(late, rpc.vote_response(ErrorCode.NONE, LeaderAndEpoch(6, NO_NODE), granted=True))
    assert lone.raft_node.state == state
    assert lone.raft_node.log.end_offset == end_offset
    assert isinstance(state, Leader)
    assert state.granted == {1, 2}


@covers("VOTE-27")
@pytest.mark.parametrize(("leader", "role"), [(NO_NODE, Unattached), (3, Follower), (9, Unattached)])
def test_a_response_of_a_higher_epoch_is_adopted(leader: int, role: type) -> None:
    lone = waiting().become_candidate()
    lone.vote_response(2, granted=True, leader_and_epoch=LeaderAndEpoch(8, leader))
    assert isinstance(lone.raft_node.state, role)
    assert lone.epoch == 8
    assert lone.stored == Election(8, leader if role is Follower else NO_NODE)


@covers("VOTE-31", "FRSP-12")
def test_what_was_asked_in_an_older_role_expects_no_response() -> None:
    lone = following()
    fetch = lone.asked(2, m.FetchRequest)
    assert fetch is not None
    lone.ask_begin(6, 3)
    lone.answer(fetch, rpc.fetch_response(ErrorCode.NONE, LeaderAndEpoch(9, 2)))
    assert (lone.epoch, lone.raft_node.leader_id) == (6, 3)


@covers("VOTE-31")
def test_waiting_on_in_the_epoch_at_hand_forgets_nothing() -> None:
    lone = Lone(election=Election(5), epochs=(1, 4), health=StateHealth(amnesia=("a vote",)))
    asked = next(send for send in lone.open_requests() if send.request.max_wait_ms > 0)  # type: ignore[union-attr]
    lone.feed(ev.LogDamaged(lone.raft_node.log.generation, "a hole"))
    lone.answer(asked, rpc.fetch_response(ErrorCode.NONE, LeaderAndEpoch(5, 3)))
    assert isinstance(lone.raft_node.state, Follower)


# --- giving -------------------------------------------------------------------------------------------------


@covers("VOTE-12")
@pytest.mark.parametrize("position", [OffsetAndEpoch(2, 4), OffsetAndEpoch(7, 4), OffsetAndEpoch(1, 5)])
def test_a_log_at_least_as_good_gets_the_vote_and_it_is_written_before_it_is_told(
    position: OffsetAndEpoch,
) -> None:
    lone = waiting()
    seen = len(lone.effects)
    data = lone.ask_vote(6, position=position)
    assert (data.vote_granted, data.leader_id, data.leader_epoch) == (True, NO_NODE, 6)
    effects = lone.effects[seen:]
    written = next(n for n, e in enumerate(effects) if isinstance(e, fx.PersistElection))
    assert effects[written] == fx.PersistElection(Election(6, NO_NODE, key_of(2)))
    assert written < next(n for n, e in enumerate(effects) if isinstance(e, fx.Reply))


@covers("VOTE-13", "QS-24")
@pytest.mark.parametrize("position", [OffsetAndEpoch(1, 4), OffsetAndEpoch(9, 3), OffsetAndEpoch(0, 0)])
def test_a_log_that_is_behind_is_refused_and_the_vote_is_still_to_be_had(position: OffsetAndEpoch) -> None:
    lone = waiting()
    assert not lone.ask_vote(5, candidate=3, position=position).vote_granted
    assert lone.raft_node.voted is None
    assert lone.ask_vote(5, candidate=2).vote_granted


@covers("VOTE-14")
def test_who_has_the_vote_gets_it_again_even_with_a_shorter_log() -> None:
    lone = waiting()
    assert lone.ask_vote(6).vote_granted
    assert lone.ask_vote(6, position=OffsetAndEpoch(0, 0)).vote_granted
    assert not lone.ask_vote(6, directory_id=b"another director").vote_granted
    assert not lone.ask_vote(6, candidate=3, position=OffsetAndEpoch(99, 5)).vote_granted


@covers("VOTE-15")
def test_a_follower_refuses_and_says_whom_it_follows_and_where_to_find_it() -> None:
    lone = following()
    ask = VoteParams(5, key_of(3), OffsetAndEpoch(9, 4), ReplicaKey(ME), pre_vote=False)
    for version, endpoints in ((1, [(2, "host2", 9_002)]), (0, [])):
        response = lone.ask(rpc.vote_request(CLUSTER_ID, ask), sender=3, version=version)
        assert isinstance(response, m.VoteResponse)
        data = response.topics[0].partitions[0]
        assert (data.error_code, data.vote_granted, data.leader_id, data.leader_epoch) == (0, False, 2, 5)
        assert [(e.node_id, e.host, e.port) for e in response.node_endpoints] == endpoints


@covers("VOTE-18")
def test_an_older_epoch_is_fenced_with_what_is_known_of_the_current_one() -> None:
    lone = following()
    before = lone.raft_node.state
    data = lone.ask_vote(4, candidate=3, position=OffsetAndEpoch(9, 3))
    assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (data.vote_granted, data.leader_id, data.leader_epoch) == (False, 2, 5)
    assert lone.raft_node.state == before


@covers("VOTE-17", "VOTE-24", "Q-08")
def test_a_leader_that_is_shutting_down_yields_to_a_higher_epoch_and_may_vote_in_it() -> None:
    lone = Lone(election=Election(4), epochs=(1, 4)).become_leader().establish()
    written = lone.append()
    purgatory = lone.ask_fetch(lone.raft_node.log.end_offset, 5, replica=9, wait_ms=500)
    assert purgatory is None
    lone.shut_down(60_000)
    assert lone.raft_node.is_leader
    seen = len(lone.effects)
    assert lone.ask_vote(7, position=OffsetAndEpoch(9, 5)).vote_granted
    assert lone.stored == Election(7, NO_NODE, key_of(2))
    assert lone.outcome(written) == ErrorCode.REQUEST_TIMED_OUT
    fetches = [
        e.response for e in every(lone.effects[seen:], fx.Reply) if isinstance(e.response, m.FetchResponse)
    ]
    assert [f.responses[0].partitions[0].error_code for f in fetches] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@covers("VOTE-17")
def test_a_refused_request_of_a_higher_epoch_deposes_a_leader_all_the_same() -> None:
    lone = Lone(election=Election(4), epochs=(1, 4)).become_leader().establish()
    written = lone.append()
    assert not lone.ask_vote(7, position=OffsetAndEpoch(0, 0)).vote_granted
    assert isinstance(lone.raft_node.state, Unattached)
    assert lone.stored == Election(7)
    assert lone.outcome(written) == ErrorCode.REQUEST_TIMED_OUT


REQUESTS = [
    lambda cluster_id: rpc.vote_request(
        cluster_id, VoteParams(6, key_of(2), OffsetAndEpoch(2, 4), ReplicaKey(ME), pre_vote=False)
    ),
    lambda cluster_id: rpc.begin_request(cluster_id, ReplicaKey(ME), 6, 2, Endpoint("host2", 9_002)),
    lambda cluster_id: rpc.end_request(cluster_id, 6, 2, (key_of(3),)),
    lambda cluster_id: rpc.fetch_request(
        cluster_id, FetchParams(key_of(2), 5, OffsetAndEpoch(2, 4), 0, 0), 1
    ),
]


@covers("VOTE-22", "BQE-13", "EQE-12", "FREQ-03")
@pytest.mark.parametrize("make", REQUESTS, ids=["vote", "begin", "end", "fetch"])
def test_only_a_cluster_id_that_is_another_is_refused(make: Callable[[str], m.QuorumRequest]) -> None:
    for cluster_id, error in ((None, 0), (CLUSTER_ID, 0), ("", 104), ("another", 104)):
        response = waiting().ask(make(cluster_id))  # type: ignore[arg-type]
        assert response is not None
        assert response.error_code == error


# --- pre-votes ----------------------------------------------------------------------------------------------


@covers("D-07", "Q-15")
def test_a_pre_vote_counts_only_in_the_round_it_was_asked_in() -> None:
    lone = waiting(voters=(1, 2, 3, 4, 5), connected=(2, 3, 4, 5))
    lone.run_to_deadline()
    late = lone.asked(5, m.VoteRequest)
    assert late is not None
    for voter in (2, 3, 4):
        lone.vote_response(voter, granted=False)
    state = lone.raft_node.state
    assert isinstance(state, Prospective)
    lone.run(state.ask_at_ms - lone.now_ms)
    again = lone.raft_node.state
    assert isinstance(again, Prospective)
    assert again.round == 2
    lone.vote_response(2, granted=True)
    lone.answer(late, rpc.vote_response(ErrorCode.NONE, LeaderAndEpoch(5, NO_NODE), granted=True))
    assert isinstance(lone.raft_node.state, Prospective), "one grant of this round, one of the last"
    lone.vote_response(3, granted=True)
    assert isinstance(lone.raft_node.state, Candidate)


@covers("D-08", "D-07")
def test_a_refused_pre_vote_is_asked_three_times_and_then_let_be() -> None:
    lone = following(timing=Timing(fetch_timeout_ms=20_000))
    lone.close(2)
    lone.run(100)
    rounds = []
    while isinstance(state := lone.raft_node.state, Prospective):
        rounds.append(state.round)
        for send in [s for s in lone.open_requests() if isinstance(s.request, m.VoteRequest)]:
            lone.vote_response(send.to, granted=False)
        lone.run(50)
    assert rounds == [1, 2, 3]
    state = lone.raft_node.state
    assert isinstance(state, Follower), "back to the leader, whose time is not up"
    assert state.fetch_deadline_ms == 1_000 + 20_000
    assert state.deadline_ms == state.fetch_deadline_ms, "and not before"
