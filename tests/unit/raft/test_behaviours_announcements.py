"""How a leader says that it leads, and that it leads no longer (BQE, EQE)."""

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc
from kraftd.raft.epoch_states import Candidate, Follower, Leader, Prospective, Resigned
from kraftd.raft.rpc import LeaderAndEpoch
from kraftd.raft.timing import Timing
from kraftd.types import Election, Endpoint, ReplicaKey
from tests.conformance import covers
from tests.unit.raft.lone import CLUSTER_ID, ME, Lone, every, key_of, requests_to


def leading(**options: object) -> Lone:
    lone = Lone(election=Election(4), epochs=(1, 4), **options)  # type: ignore[arg-type]
    return lone.become_leader().establish()


def following() -> Lone:
    lone = Lone(election=Election(5, 2), epochs=(1, 4))
    lone.fetch_response()
    return lone


def acknowledge(lone: Lone, *voters: int) -> None:
    """These voters answer the announcements that are open."""
    for send in lone.open_requests():
        if send.to in voters and isinstance(send.request, m.BeginQuorumEpochRequest):
            lone.answer(send, rpc.begin_response(ErrorCode.NONE, LeaderAndEpoch(lone.epoch, ME)))


# --- BeginQuorumEpoch ---------------------------------------------------------------------------------------


@covers("BQE-01")
def test_a_leader_announces_itself_every_half_fetch_timeout_acknowledged_or_not() -> None:
    lone = leading()
    times: dict[int, list[int]] = {2: [], 3: []}
    for _ in range(3):
        for voter in (2, 3):
            send = lone.asked(voter, m.BeginQuorumEpochRequest)
            assert send is not None
            data = send.request.topics[0].partitions[0]  # type: ignore[union-attr]
            assert (data.leader_id, data.leader_epoch, send.request.voter_id) == (ME, 5, voter)  # type: ignore[union-attr]
            assert send.request.leader_endpoints[0].host == "host1"  # type: ignore[union-attr]
            times[voter].append(lone.now_ms)
        acknowledge(lone, 2, 3)
        lone.run(999)
        assert lone.asked(2, m.BeginQuorumEpochRequest) is None
        lone.establish()
        lone.run(1)
    assert [b - a for a, b in zip(times[2], times[2][1:], strict=False)] == [1_000, 1_000]
    assert times[2] == times[3]


@covers("BQE-02", "BQE-12")
def test_a_voter_that_is_being_told_is_not_told_again_and_a_timeout_brings_no_extra_one() -> None:
    slow = leading()
    acknowledge(slow, 2)
    assert requests_to(slow.run(1_000), m.BeginQuorumEpochRequest) == [2], "3 has not answered yet"

    quick = leading(timing=Timing(request_timeout_ms=300))
    assert requests_to(quick.run(990), m.BeginQuorumEpochRequest) == []
    assert requests_to(quick.run(10), m.BeginQuorumEpochRequest) == [2, 3]


@covers("BQE-03", "QS-15")
@pytest.mark.parametrize("state", ["unattached", "voted", "candidate"])
def test_whoever_has_no_leader_in_that_epoch_follows_the_sender_and_says_so(state: str) -> None:
    stored = {
        "unattached": Election(5),
        "voted": Election(5, -1, key_of(3)),
        "candidate": Election(5, -1, key_of(ME)),
    }[state]
    lone = Lone(election=stored, epochs=(1, 4))
    seen = len(lone.effects)
    data = lone.ask_begin(5, 2)
    assert (data.error_code, data.leader_id, data.leader_epoch) == (0, 2, 5)
    assert isinstance(lone.raft_node.state, Follower)
    kinds = [type(effect) for effect in lone.effects[seen:]]
    assert kinds.index(fx.PersistElection) < kinds.index(fx.Reply)
    assert lone.stored == Election(5, 2, stored.voted)
    assert lone.fetching() == [2]


@covers("BQE-04", "D-13", "Q-08")
def test_a_deposed_leader_follows_and_answers_everyone_who_waited() -> None:
    lone = leading()
    seen = len(lone.effects)
    assert lone.ask_fetch(3, 5, replica=9, wait_ms=500) is None
    lone.flushes = False
    written = lone.append()
    reading = lone.read()
    assert lone.ask_fetch(4, 5, replica=9, wait_ms=500) is None
    lone.ask_begin(7, 3)
    assert isinstance(lone.raft_node.state, Follower)
    assert (lone.epoch, lone.raft_node.leader_id) == (7, 3)
    assert lone.outcome(written) == ErrorCode.REQUEST_TIMED_OUT
    assert lone.outcome(reading) == ErrorCode.NOT_CONTROLLER
    fetched = [
        reply.response.responses[0].partitions[0]
        for reply in every(lone.effects[seen:], fx.Reply)
        if isinstance(reply.response, m.FetchResponse)
    ]
    assert [data.error_code for data in fetched] == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert fetched[-1].current_leader.leader_id == 3


@covers("BQE-05")
def test_an_announcement_of_an_older_epoch_is_fenced() -> None:
    lone = following()
    before = lone.raft_node.state
    data = lone.ask_begin(4, 3)
    assert (data.error_code, data.leader_id, data.leader_epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 2, 5)
    assert lone.raft_node.state == before


@covers("BQE-06")
@pytest.mark.parametrize("receiver", [ReplicaKey(2), ReplicaKey(ME, b"another director")])
def test_an_announcement_meant_for_another_is_followed_and_refused(receiver: ReplicaKey) -> None:
    lone = Lone(election=Election(5), epochs=(1, 4))
    assert lone.ask_begin(6, 2, receiver=receiver).error_code == ErrorCode.INVALID_VOTER_KEY
    assert (lone.epoch, lone.raft_node.leader_id) == (6, 2)


@covers("BQE-07", "QS-25")
def test_a_new_address_of_the_leader_is_learnt_without_a_move_unless_voters_are_configured() -> None:
    lone = Lone(voters=(), connected=(), bootstrap=(Endpoint("any", 3),), election=Election(5), epochs=(1, 4))

    def told(where: Endpoint) -> list[fx.Effect]:
        seen = len(lone.effects)
        (asked,) = lone.open_requests()
        leader_and_epoch = LeaderAndEpoch(6, 8, where)
        lone.answer(asked, rpc.fetch_response(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_and_epoch))
        lone.run(1_000)
        return lone.effects[seen:]

    assert every(told(Endpoint("here", 1)), fx.LearnEndpoint) == [fx.LearnEndpoint(8, Endpoint("here", 1))]
    effects = told(Endpoint("there", 2))
    assert every(effects, fx.LearnEndpoint) == [fx.LearnEndpoint(8, Endpoint("there", 2))]
    assert every(effects, fx.StateChanged) == []

    voter = Lone(election=Election(5), epochs=(1, 4))
    seen = len(voter.effects)
    voter.ask_begin(7, 2, endpoint=Endpoint("elsewhere", 3))
    assert every(voter.effects[seen:], fx.LearnEndpoint) == [], "voters are where the configuration says"


@covers("BQE-08", "Q-04", "D-14")
def test_contradictions_about_who_leads_are_refused_and_end_nothing() -> None:
    lone = following()
    before = lone.raft_node.state
    assert lone.ask_begin(5, 3).error_code == ErrorCode.INVALID_REQUEST
    assert lone.ask_begin(5, ME, sender=ME).error_code == ErrorCode.INVALID_REQUEST
    assert lone.ask_begin(5, 3, sender=2).error_code == ErrorCode.INVALID_REQUEST
    assert lone.raft_node.state == before
    assert "inconsistent_leader" in [warned.name for warned in every(lone.effects, fx.Warned)]


@covers("BQE-09")
def test_a_leader_takes_its_own_announcement_calmly() -> None:
    lone = leading()
    before = lone.raft_node.state
    data = lone.ask_begin(5, ME)
    assert (data.error_code, data.leader_id) == (0, ME)
    assert lone.raft_node.state == before


@covers("BQE-10")
def test_without_an_address_the_configured_one_holds_and_a_stranger_cannot_be_followed() -> None:
    lone = Lone(election=Election(5), epochs=(1, 4))

    def begin(epoch: int, leader: int) -> int:
        partition = m.BeginQuorumEpochRequestPartitionData(leader_id=leader, leader_epoch=epoch)
        topic = m.BeginQuorumEpochRequestTopicData(topic_name="__cluster_metadata", partitions=(partition,))
        response = lone.ask(m.BeginQuorumEpochRequest(cluster_id=CLUSTER_ID, topics=(topic,)), leader, 0)
        assert isinstance(response, m.BeginQuorumEpochResponse)
        return response.topics[0].partitions[0].error_code

    assert begin(6, 2) == 0
    assert lone.fetching() == [2]
    assert begin(7, 8) == ErrorCode.INVALID_REQUEST
    assert (lone.epoch, lone.raft_node.leader_id) == (6, 2)


@covers("BQE-11", "D-12")
def test_a_response_to_a_heartbeat_is_no_proof_of_leadership_and_one_to_a_reads_own_round_is() -> None:
    lone = leading()
    heartbeat = lone.asked(2, m.BeginQuorumEpochRequest)
    assert heartbeat is not None
    token = lone.read()
    response = rpc.begin_response(ErrorCode.NONE, LeaderAndEpoch(5, ME))
    lone.answer(heartbeat, response)
    assert lone.outcome(token) is None
    confirmation = lone.asked(2, m.BeginQuorumEpochRequest)
    assert confirmation is not None
    lone.answer(confirmation, response)
    assert lone.outcome(token) == ErrorCode.NONE


@covers("D-12")
def test_a_response_that_takes_longer_than_a_round_is_repeated_confirms_it() -> None:
    """Seed 241256: a round trip of 133 ms, and each 125 ms a round that expected no older response."""
    lone = leading()
    early = lone.read()
    sent = lone.asked(2, m.BeginQuorumEpochRequest)
    assert sent is not None
    lone.run(100)
    late = lone.read()  # while that round is under way, and before it is repeated
    lone.run(1_100)
    lone.answer(sent, rpc.begin_response(ErrorCode.NONE, LeaderAndEpoch(5, ME)))
    assert (lone.outcome(early), lone.outcome(late)) == (ErrorCode.NONE, None)
    acknowledge(lone, 2)
    assert lone.outcome(late) == ErrorCode.NONE


@covers("D-12")
def test_each_round_is_confirmed_by_a_majority_of_its_own() -> None:
    lone = Lone(voters=range(1, 6), connected=range(2, 6), election=Election(4), epochs=(1, 4))
    lone.run_to_deadline()
    for _pre_vote_then_vote in range(2):
        for voter in (2, 3):
            lone.vote_response(voter, granted=True)
    position = lone.raft_node.log.position
    for voter in (2, 3):
        lone.ask_fetch(position.offset, position.epoch, replica=voter)
    acknowledge(lone, 2, 3, 4, 5)
    early = lone.read()
    acknowledge(lone, 2)
    acknowledge(lone, 3)
    late = lone.read()
    acknowledge(lone, 4)
    assert (lone.outcome(early), lone.outcome(late)) == (ErrorCode.NONE, None)
    acknowledge(lone, 5)
    assert lone.outcome(late) == ErrorCode.NONE


@covers("D-12")
def test_nobody_is_asked_to_confirm_for_reads_that_are_gone() -> None:
    lone = leading()
    acknowledge(lone, 2, 3)
    token = lone.read(deadline_ms=200)
    lone.run(201)
    assert lone.outcome(token) == ErrorCode.REQUEST_TIMED_OUT
    acknowledge(lone, 2, 3)
    lone.run(700)  # until just before the next announcement
    assert lone.asked(2, m.BeginQuorumEpochRequest) is None


@covers("D-12")
def test_a_round_that_was_not_heard_is_sent_again() -> None:
    lone = leading()
    token = lone.read()
    for node_id in (2, 3):
        sent = lone.asked(node_id, m.BeginQuorumEpochRequest)
        assert sent is not None
        lone.feed(ev.RequestFailed(node_id, sent.correlation_id, "reset"))
    acknowledge(lone, 2)
    assert lone.outcome(token) is None
    lone.run(1_000)
    acknowledge(lone, 2)
    assert lone.outcome(token) == ErrorCode.NONE


@covers("BQE-14", "EQE-12", "D-14")
def test_a_peer_that_denies_us_ends_nothing_and_is_asked_again_later() -> None:
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    lone = leading()
    heartbeat = lone.asked(2, m.BeginQuorumEpochRequest)
    assert heartbeat is not None
    effects = lone.answer(heartbeat, m.BeginQuorumEpochResponse(error_code=denied))
    assert isinstance(lone.raft_node.state, Leader)
    assert [warned.name for warned in every(effects, fx.Warned)] == ["bad_response"]
    assert 2 in requests_to(lone.run(1_000), m.BeginQuorumEpochRequest)

    lone.establish()
    lone.resign(2)
    farewell = lone.asked(2, m.EndQuorumEpochRequest)
    assert farewell is not None
    lone.answer(farewell, m.EndQuorumEpochResponse(error_code=denied))
    assert isinstance(lone.raft_node.state, Resigned)
    assert 2 in requests_to(lone.run(20), m.EndQuorumEpochRequest)


@covers("Q-06", "BQE-11")
def test_a_response_from_a_node_that_was_not_asked_harms_nothing() -> None:
    lone = leading()
    heartbeat = lone.asked(2, m.BeginQuorumEpochRequest)
    assert heartbeat is not None
    response = rpc.begin_response(ErrorCode.NONE, LeaderAndEpoch(5, ME))
    lone.feed(ev.ResponseReceived(9, heartbeat.correlation_id, response))
    lone.feed(ev.ResponseReceived(9, 10**6, response))
    assert isinstance(lone.raft_node.state, Leader)
    assert lone.asked(2, m.BeginQuorumEpochRequest) == heartbeat


# --- EndQuorumEpoch -----------------------------------------------------------------------------------------


@covers("EQE-01", "D-09")
def test_the_first_successor_campaigns_in_the_same_event() -> None:
    lone = following()
    seen = len(lone.effects)
    assert lone.ask_end(5, 2, (key_of(ME), key_of(3))).error_code == 0
    assert isinstance(lone.raft_node.state, Candidate)
    assert (lone.epoch, lone.stored) == (6, Election(6, -1, key_of(ME)))
    assert requests_to(lone.effects[seen:], m.VoteRequest) == [2, 3]


@covers("EQE-01", "D-09")
def test_the_old_leader_is_answered_before_the_next_epoch_begins() -> None:
    """Else it would write the epoch to its disk, and then once more with its vote."""
    lone = following()
    seen = len(lone.effects)
    assert lone.ask_end(5, 2, (key_of(ME), key_of(3))).leader_epoch == 5
    kinds = [type(effect) for effect in lone.effects[seen:]]
    assert kinds.index(fx.Reply) < kinds.index(fx.PersistElection)


@covers("EQE-02")
@pytest.mark.parametrize(("position", "delay_ms"), [(1, 125), (2, 250), (3, 500)])
def test_later_successors_wait_twice_as_long_from_one_to_the_next(position: int, delay_ms: int) -> None:
    lone = following()
    order = [key_of(2), key_of(3), key_of(4)]
    order.insert(position, key_of(ME))
    lone.ask_end(5, 2, order)
    state = lone.raft_node.state
    assert isinstance(state, Follower)
    assert state.campaign_at_ms == lone.now_ms + delay_ms


@covers("EQE-03")
def test_who_is_not_named_waits_longest() -> None:
    lone = following()
    lone.ask_end(5, 2, (key_of(3), key_of(4)))
    state = lone.raft_node.state
    assert isinstance(state, Follower)
    assert 1_000 <= state.campaign_at_ms - lone.now_ms <= 1_100


@covers("EQE-04")
@pytest.mark.parametrize(
    ("name", "is_me"),
    [(key_of(ME), True), (ReplicaKey(ME), True), (ReplicaKey(ME, b"another director"), False)],
)
def test_a_name_is_ours_by_id_and_by_directory_where_one_is_given(name: ReplicaKey, is_me: bool) -> None:
    lone = following()
    lone.ask_end(5, 2, (name,))
    assert isinstance(lone.raft_node.state, Candidate) is is_me


@covers("EQE-04")
def test_the_oldest_version_names_successors_by_id_alone() -> None:
    lone = following()
    partition = m.EndQuorumEpochRequestPartitionData(
        leader_id=2, leader_epoch=5, preferred_successors=(ME, 3), preferred_candidates=()
    )
    topic = m.EndQuorumEpochRequestTopicData(topic_name="__cluster_metadata", partitions=(partition,))
    lone.ask(m.EndQuorumEpochRequest(cluster_id=CLUSTER_ID, topics=(topic,)), sender=2, version=0)
    assert isinstance(lone.raft_node.state, Candidate)


@covers("EQE-05")
def test_a_farewell_may_be_the_first_that_is_heard_of_a_leader() -> None:
    lone = Lone(election=Election(5), epochs=(1, 4))
    data = lone.ask_end(5, 2, (key_of(3), key_of(ME)))
    assert (data.error_code, data.leader_id) == (0, 2)
    state = lone.raft_node.state
    assert isinstance(state, Follower)
    assert state.epoch_ended


@covers("EQE-06")
def test_a_farewell_of_an_older_epoch_is_fenced() -> None:
    for lone in (leading(), Lone(election=Election(5, -1, key_of(ME)), epochs=(1, 4))):
        before = lone.raft_node.state
        assert lone.ask_end(4, 2, (key_of(ME),)).error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert lone.raft_node.state == before


@covers("EQE-07", "D-09")
def test_who_waits_for_its_turn_fetches_on_but_no_late_response_puts_it_off() -> None:
    lone = following()
    lone.ask_end(5, 2, (key_of(3), key_of(ME)))
    before = lone.raft_node.state
    assert isinstance(before, Follower)
    assert lone.fetching() == [2]
    lone.fetch_response(high_watermark=2)
    assert lone.raft_node.state == before
    assert lone.raft_node.high_watermark == 2
    assert lone.fetching() == [2]


@covers("EQE-03", "EQE-09")
def test_a_farewell_that_comes_again_does_not_put_off_who_waits_for_its_turn() -> None:
    """The answer to the first got lost. Each repetition would put the election off by the whole delay."""
    lone = following()
    lone.ask_end(5, 2, (key_of(3), key_of(ME)))
    before = lone.raft_node.state
    assert isinstance(before, Follower)
    lone.run(100)
    assert lone.ask_end(5, 2, (key_of(3), key_of(ME))).error_code == 0
    assert lone.raft_node.state == before
    lone.run(before.campaign_at_ms - lone.now_ms)
    assert isinstance(lone.raft_node.state, Candidate | Prospective)


@covers("EQE-08", "EQE-09")
def test_a_farewell_is_repeated_to_each_voter_until_that_one_has_answered() -> None:
    lone = leading(timing=Timing(request_timeout_ms=300))
    lone.resign(2)
    two, three = (lone.asked(voter, m.EndQuorumEpochRequest) for voter in (2, 3))
    assert two is not None
    assert three is not None
    good = rpc.end_response(ErrorCode.NONE, LeaderAndEpoch(5, ME))
    lone.feed(ev.ResponseReceived(9, two.correlation_id, good))
    lone.feed(ev.ResponseReceived(3, two.correlation_id, good))
    state = lone.raft_node.state
    assert isinstance(state, Resigned)
    assert state.acknowledged == frozenset(), "nobody's response but that of who was asked"
    lone.answer(two, good)
    assert requests_to(lone.run(300), m.EndQuorumEpochRequest) == [3]
    again = lone.asked(3, m.EndQuorumEpochRequest)
    assert again is not None
    lone.answer(again, rpc.end_response(ErrorCode.UNKNOWN_SERVER_ERROR, LeaderAndEpoch(5, ME)))
    assert requests_to(lone.run(20), m.EndQuorumEpochRequest) == [3]
    last = lone.asked(3, m.EndQuorumEpochRequest)
    assert last is not None
    lone.answer(last, good)
    assert requests_to(lone.run(500), m.EndQuorumEpochRequest) == []


@covers("EQE-10")
def test_successors_are_named_by_how_far_they_came_and_who_never_fetched_comes_last() -> None:
    lone = Lone(voters=(1, 2, 3, 4, 5), connected=(2, 3, 4, 5), election=Election(4), epochs=(1, 4))
    lone.run_to_deadline()
    for voter in (2, 3, 2, 3):
        lone.vote_response(voter, granted=True)
    assert isinstance(lone.raft_node.state, Leader)
    lone.ask_fetch(1, 1, replica=2)
    lone.ask_fetch(3, 5, replica=5)
    lone.ask_fetch(2, 4, replica=4)
    lone.resign()
    state = lone.raft_node.state
    assert isinstance(state, Resigned)
    assert [key.id for key in state.successors] == [5, 4, 2, 3]
    farewell = lone.asked(4, m.EndQuorumEpochRequest)
    assert farewell is not None
    data = farewell.request.topics[0].partitions[0]  # type: ignore[union-attr]
    assert data.preferred_successors == (5, 4, 2, 3)


@covers("EQE-11")
def test_a_resigned_leader_takes_its_own_farewell_calmly() -> None:
    lone = leading()
    lone.resign(2)
    before = lone.raft_node.state
    assert lone.ask_end(5, ME, ()).error_code == 0
    assert lone.raft_node.state == before
