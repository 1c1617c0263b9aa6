"""Early suspicion: when a follower asks whether others hear the leader, and who denies it (D-40)."""

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc
from kraftd.raft.epoch_states import Candidate, Follower, Leader, Prospective
from kraftd.raft.rejoin import StateHealth
from kraftd.raft.rpc import LeaderAndEpoch
from kraftd.raft.suspicion import Suspicion
from kraftd.raft.timing import Timing
from kraftd.types import NEVER_MS, Election, OffsetAndEpoch
from tests.conformance import covers
from tests.unit.raft.lone import Lone, every
from tests.unit.raft.test_fetching import record

EPOCH, LEADER, OTHER = 5, 2, 3
S_MS = 450
JITTER_MS = 50
"""What `FixedRandom(0.5)` draws of 0 to 100."""
AGAIN_MS = 125
"""And of 100 to 150."""
GRANT = rpc.vote_response(ErrorCode.NONE, LeaderAndEpoch(EPOCH, LEADER), granted=True)


def following(**options: object) -> Lone:
    """It follows node 2, which has answered its first fetch at once and its second one after a beat."""
    lone = Lone(election=Election(EPOCH, LEADER), epochs=(1, 4), **options)  # type: ignore[arg-type]
    lone.fetch_response()
    lone.run(150)
    lone.fetch_response()
    return lone


def suspicious() -> Lone:
    lone = following()
    lone.run(S_MS + JITTER_MS)
    return lone


def asked(effects: list[fx.Effect]) -> list[int]:
    """Who was asked for a vote or a pre-vote."""
    return [send.to for send in every(effects, fx.Send) if isinstance(send.request, m.VoteRequest)]


def warned(lone: Lone) -> list[str]:
    return [warning.name for warning in every(lone.effects, fx.Warned)]


# --- asking -------------------------------------------------------------------------------------------------


@covers("D-40")
def test_a_voter_asks_its_leader_for_a_beat_and_an_observer_for_its_longest_wait() -> None:
    waits = []
    for voters in ((1, 2, 3), (2, 3, 4)):
        lone = Lone(voters=voters, election=Election(EPOCH, LEADER), epochs=(1, 4))
        fetch = lone.asked(LEADER, m.FetchRequest)
        assert fetch is not None
        waits.append(fetch.request.max_wait_ms)  # type: ignore[union-attr]
    assert waits == [150, 500]
    assert Timing(fetch_timeout_ms=200).beat_ms == 100
    assert Timing(fetch_max_wait_ms=20).beat_ms == 20


@covers("D-40", "D-07")
def test_a_silent_leader_is_asked_about_and_followed_on() -> None:
    lone = following()
    persisted = len(every(lone.effects, fx.PersistElection))
    assert asked(lone.run(S_MS + JITTER_MS - 1)) == []
    effects = lone.run(1)
    assert asked(effects) == [LEADER, OTHER]
    requests = [send.request for send in every(effects, fx.Send) if isinstance(send.request, m.VoteRequest)]
    votes = [request.topics[0].partitions[0] for request in requests]
    assert all(vote.pre_vote and vote.replica_epoch == EPOCH for vote in votes)
    assert isinstance(lone.raft_node.state, Follower)
    assert lone.fetching() == [LEADER], "its fetch still waits"
    assert warned(lone) == ["leader_suspected"]
    assert every(effects, fx.Warned)[0].text == (
        "leader 2 was silent for 500 ms, and 450 are allowed: asking the voters whether they hear it"
    )
    assert len(every(lone.effects, fx.PersistElection)) == persisted, "a pre-vote writes nothing"
    assert not every(effects, fx.StateChanged)


@covers("D-40")
def test_a_majority_that_does_not_hear_the_leader_lets_it_campaign() -> None:
    lone = suspicious()
    effects = lone.vote_response(OTHER, granted=True)
    assert [change.target for change in every(effects, fx.StateChanged)] == ["prospective", "candidate"]
    assert isinstance(lone.raft_node.state, Candidate)
    assert (lone.epoch, asked(effects)) == (EPOCH + 1, [LEADER, OTHER])
    assert lone.stored is not None and lone.stored.epoch == EPOCH + 1
    ended = every(effects, fx.ElectionEnded)
    assert [(e.epoch, e.pre_vote, e.won, e.granted) for e in ended] == [(EPOCH, True, True, [1, OTHER])]


@covers("D-40", "D-08")
def test_a_suspicion_that_nobody_shares_is_put_again_and_the_fetch_timeout_stays() -> None:
    lone = suspicious()
    effects = lone.vote_response(OTHER, granted=False, leader_and_epoch=LeaderAndEpoch(EPOCH, LEADER))
    assert isinstance(lone.raft_node.state, Follower)
    assert asked(effects + lone.run(AGAIN_MS - 1)) == []
    assert asked(lone.run(1)) == [LEADER, OTHER]
    assert warned(lone) == ["leader_suspected"], "told once a silence"
    lone.vote_response(OTHER, granted=False, leader_and_epoch=LeaderAndEpoch(EPOCH, LEADER))
    lone.run(2_000 - S_MS - JITTER_MS - AGAIN_MS + JITTER_MS - 1)
    assert isinstance(lone.raft_node.state, Follower)
    lone.run(1)
    assert isinstance(lone.raft_node.state, Prospective)


@covers("D-40")
def test_who_cannot_be_asked_is_as_one_who_refuses_and_may_grant_later() -> None:
    lone = suspicious()
    send = lone.asked(OTHER, m.VoteRequest)
    assert send is not None
    lone.feed(ev.RequestFailed(OTHER, send.correlation_id, "no route"))
    assert isinstance(lone.raft_node.state, Follower)
    assert asked(lone.run(AGAIN_MS)) == [LEADER, OTHER]
    lone.vote_response(OTHER, granted=True)
    assert isinstance(lone.raft_node.state, Candidate)


@covers("D-40")
def test_what_is_heard_ends_the_suspicion_and_late_grants_count_nothing() -> None:
    def answered(lone: Lone) -> None:
        lone.fetch_response()

    def announced(lone: Lone) -> None:
        lone.ask_begin(EPOCH, LEADER)

    def refused(lone: Lone) -> None:
        lone.vote_response(LEADER, granted=False, leader_and_epoch=LeaderAndEpoch(EPOCH, LEADER))

    for hear in (answered, announced, refused):
        lone = suspicious()
        late = lone.asked(OTHER, m.VoteRequest)
        assert late is not None
        lone.run(20)
        hear(lone)
        lone.answer(late, GRANT)
        assert isinstance(lone.raft_node.state, Follower)
        assert lone.raft_node.state.ballot is None
        assert warned(lone) == ["leader_suspected", "suspicion_wrong"]


@covers("D-40")
@pytest.mark.parametrize(("after_ms", "becomes"), [(S_MS - 1, Candidate), (S_MS, Follower)])
def test_a_grant_counts_no_longer_than_a_silence_that_makes_suspect(after_ms: int, becomes: type) -> None:
    """It was on its way for so long that its voter may have heard the leader several times since."""
    lone = suspicious()
    send = lone.asked(OTHER, m.VoteRequest)
    assert send is not None
    lone.run(after_ms)
    effects = lone.answer(send, GRANT)
    assert isinstance(lone.raft_node.state, becomes)
    assert bool(every(effects, fx.StateChanged)) is (becomes is Candidate)


@covers("D-40")
def test_a_turn_that_is_late_itself_counts_no_grant_of_too_long_ago() -> None:
    """Nothing has ended the round when the grant comes, and by its number it would count."""
    lone = suspicious()
    send = lone.asked(OTHER, m.VoteRequest)
    assert send is not None
    lone.run(S_MS - 1)
    lone.now_ms += 150
    lone.answer(send, GRANT)
    assert isinstance(lone.raft_node.state, Follower)


@covers("D-40")
def test_a_round_that_is_too_old_is_put_again_and_its_grants_count_nothing_in_the_next() -> None:
    lone = suspicious()
    late = lone.asked(OTHER, m.VoteRequest)
    assert late is not None
    assert asked(lone.run(S_MS + AGAIN_MS - 1)) == []
    assert asked(lone.run(1)) == [LEADER, OTHER]
    assert warned(lone) == ["leader_suspected"], "told once a silence"
    lone.answer(late, GRANT)
    assert isinstance(lone.raft_node.state, Follower)
    lone.vote_response(OTHER, granted=True)
    assert isinstance(lone.raft_node.state, Candidate)


@covers("D-40")
def test_a_leader_that_refuses_late_was_alive_all_the_same() -> None:
    lone = suspicious()
    lone.run(S_MS + 1)
    lone.vote_response(LEADER, granted=False, leader_and_epoch=LeaderAndEpoch(EPOCH, LEADER))
    assert warned(lone) == ["leader_suspected", "suspicion_wrong"]


@covers("D-40", "D-08")
def test_where_every_grant_is_late_the_fetch_timeout_goes_on_as_ever() -> None:
    lone = suspicious()
    for _ in range(2):
        late = lone.asked(OTHER, m.VoteRequest)
        assert late is not None
        lone.run(S_MS + 10)
        lone.answer(late, GRANT)
        assert isinstance(lone.raft_node.state, Follower)
        assert asked(lone.run(AGAIN_MS - 10)) == [LEADER, OTHER]
    lone.run(2_000 - S_MS - JITTER_MS - 2 * (S_MS + AGAIN_MS) + JITTER_MS - 1)
    assert isinstance(lone.raft_node.state, Follower)
    lone.run(1)
    assert isinstance(lone.raft_node.state, Prospective)
    late = lone.asked(OTHER, m.VoteRequest)
    assert late is not None
    lone.run(S_MS + 10)
    lone.answer(late, GRANT)
    assert isinstance(lone.raft_node.state, Candidate), "who lost its leader counts what comes"


@covers("D-40")
def test_who_was_wrong_waits_three_gaps_and_twice_as_long() -> None:
    lone = suspicious()
    effects = lone.fetch_response()
    assert every(effects, fx.Warned)[0].text == (
        "leader 2 was heard after 500 ms of silence: for 10 minutes S is doubled, and 2000 ms now"
    ), "three times 500 ms, doubled, but never above the fetch timeout"
    assert asked(lone.run(1_999)) == []


@covers("D-40", "D-01")
def test_a_node_that_stood_still_suspects_nobody_before_it_has_listened() -> None:
    lone = following()
    lone.now_ms += S_MS + 300
    assert not lone.ask_vote(EPOCH, candidate=OTHER, pre=True).vote_granted, "nor grants"
    assert asked(lone.run(S_MS + JITTER_MS - 1)) == []
    assert asked(lone.run(1)) == [LEADER, OTHER], "from then on it was silent again"


@covers("D-40", "D-01")
@pytest.mark.parametrize("heard_by", ["response", "heartbeat"])
def test_what_waited_in_the_socket_while_a_node_stood_still_is_no_gap_of_its_leader(heard_by: str) -> None:
    """It is handled before the poll that finds that the turn is late."""
    lone = following()
    lone.now_ms += S_MS + 250
    if heard_by == "response":
        lone.fetch_response()
    else:
        lone.ask_begin(EPOCH, LEADER)
    assert lone.raft_node._raft.suspicion.span_ms == S_MS


@covers("D-40", "D-01")
def test_a_leader_that_was_asked_about_before_a_stall_is_not_taken_for_slow_after_it() -> None:
    lone = suspicious()
    lone.now_ms += 1_000
    lone.fetch_response()
    assert lone.raft_node._raft.suspicion.span_ms == S_MS
    assert "suspicion_wrong" not in warned(lone)


@covers("D-40")
def test_a_gap_counts_when_only_the_leader_was_silent() -> None:
    lone = following()
    lone.run(S_MS - 50)
    lone.fetch_response()
    assert lone.raft_node._raft.suspicion.span_ms == 3 * (S_MS - 50)


@covers("D-40", "D-01")
def test_grants_from_before_a_stall_elect_nobody() -> None:
    lone = suspicious()
    send = lone.asked(OTHER, m.VoteRequest)
    assert send is not None
    lone.now_ms += 1_800
    lone.answer(send, GRANT)
    assert isinstance(lone.raft_node.state, Follower)
    lone.fetch_response()
    lone.run(5)
    assert isinstance(lone.raft_node.state, Follower)


@covers("D-40", "D-01")
def test_grants_from_before_a_stall_count_nothing_after_another_silence() -> None:
    lone = following(timing=Timing(fetch_timeout_ms=20_000))
    lone.run(S_MS + JITTER_MS)
    send = lone.asked(OTHER, m.VoteRequest)
    assert send is not None
    lone.now_ms += 2_500
    lone.answer(send, GRANT)
    assert asked(lone.run(S_MS + JITTER_MS + 10)) == [LEADER, OTHER]
    assert isinstance(lone.raft_node.state, Follower)


@covers("D-40")
def test_no_silence_counts_while_nothing_was_asked_for() -> None:
    lone = following(flushes=False)
    lone.fetch_response(record(2))
    assert lone.fetching() == [], "it flushes"
    assert asked(lone.run(1_900)) == []
    assert not lone.ask_vote(EPOCH, candidate=OTHER, pre=True).vote_granted


@covers("D-40")
@pytest.mark.parametrize("state", ["not whole", "stopping", "unheard", "its first response"])
def test_who_does_not_count_or_does_not_know_its_leader_suspects_nobody(state: str) -> None:
    health = StateHealth(amnesia=("lost",)) if state == "not whole" else None
    lone = Lone(election=Election(EPOCH, LEADER), epochs=(1, 4), health=health)
    if state != "unheard":
        lone.fetch_response()
    if state in ("not whole", "stopping"):
        lone.run(150)
        lone.fetch_response()
    if state == "stopping":
        lone.shut_down(60_000)
    assert asked(lone.run(1_800)) == []


@covers("D-40", "D-14")
def test_a_leader_that_sends_nonsense_is_heard_and_lasts_no_longer_than_the_fetch_timeout() -> None:
    lone = following()
    for _ in range(4):
        lone.run(400)
        lone.fetch_response(record(7))
    assert warned(lone) == ["bad_batch"] * 4
    lone.run(400 + JITTER_MS)
    assert isinstance(lone.raft_node.state, Prospective)


@covers("D-40")
def test_a_leader_that_answers_with_errors_is_not_silent_and_lasts_no_longer_than_the_fetch_timeout() -> None:
    lone = following()
    for _ in range(4):
        lone.run(400)
        lone.fetch_response(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert "leader_suspected" not in warned(lone)
    assert "suspicion_wrong" not in warned(lone)
    lone.run(400 + JITTER_MS)
    assert isinstance(lone.raft_node.state, Prospective)


@covers("D-40")
def test_who_says_that_it_does_not_lead_is_no_leader_that_was_heard() -> None:
    """Leader 2 has resigned, and its farewell was lost: nobody waits for the fetch timeout."""
    lone = following()
    lone.run(400)
    lone.fetch_response(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert asked(lone.run(S_MS - 400 + JITTER_MS)) != []


@covers("D-40")
def test_a_fetch_timeout_below_s_goes_first() -> None:
    lone = following(timing=Timing(fetch_timeout_ms=400))
    assert asked(lone.run(400 + JITTER_MS - 1)) == []
    lone.run(1)
    assert isinstance(lone.raft_node.state, Prospective)


@covers("D-40", "D-23")
def test_who_has_much_left_to_apply_lets_others_ask_first() -> None:
    lone = following()
    lone.raft_node._raft.high_watermark = 20_000
    assert asked(lone.run(S_MS + JITTER_MS + 299)) == []
    assert asked(lone.run(1)) == [LEADER, OTHER]


# --- granting -----------------------------------------------------------------------------------------------


@covers("D-40", "Q-15")
def test_a_pre_vote_is_granted_only_by_who_was_told_nothing_for_s() -> None:
    lone = following()
    lone.run(S_MS - 1)
    assert not lone.ask_vote(EPOCH, candidate=OTHER, pre=True).vote_granted
    lone.run(1)
    assert lone.ask_vote(EPOCH, candidate=OTHER, pre=True).vote_granted
    assert isinstance(lone.raft_node.state, Follower)
    behind = lone.ask_vote(EPOCH, candidate=OTHER, pre=True, position=OffsetAndEpoch(0, 0))
    assert not behind.vote_granted, "its log counts as ever"
    lone.fetch_response()
    assert not lone.ask_vote(EPOCH, candidate=OTHER, pre=True).vote_granted
    assert warned(lone) == [], "it has not asked anybody"


@covers("D-40", "D-01")
def test_who_stood_still_since_it_found_its_leader_silent_listens_before_it_grants() -> None:
    lone = following()
    lone.run(S_MS)
    lone.now_ms += 201
    assert not lone.ask_vote(EPOCH, candidate=OTHER, pre=True).vote_granted
    assert lone.ask_vote(EPOCH, candidate=OTHER, pre=True).vote_granted, "a turn has found nothing"
    lone.run(1_000)
    assert isinstance(lone.raft_node.state, Follower)
    assert lone.ask_vote(EPOCH, candidate=OTHER, pre=True).vote_granted, "it has turns while it waits"


@covers("D-40")
def test_the_vote_itself_is_given_as_before() -> None:
    lone = following()
    lone.run(S_MS)
    assert not lone.ask_vote(EPOCH, candidate=OTHER).vote_granted, "node 2 leads this epoch"
    assert lone.ask_vote(EPOCH + 1, candidate=OTHER).vote_granted


# --- the deposed leader -------------------------------------------------------------------------------------


@covers("D-40")
def test_a_suspected_leader_that_answers_its_successor_was_alive() -> None:
    lone = suspicious()
    lone.vote_response(OTHER, granted=True)
    lone.vote_response(LEADER, granted=False)
    assert warned(lone) == ["leader_suspected", "suspicion_wrong"]
    lone.vote_response(OTHER, granted=True)
    assert isinstance(lone.raft_node.state, Leader)
    assert warned(lone) == ["leader_suspected", "suspicion_wrong"]


@covers("D-40")
def test_a_suspected_leader_that_stood_still_and_wakes_up_was_rightly_suspected() -> None:
    lone = suspicious()
    lone.vote_response(OTHER, granted=True)
    late = lone.asked(LEADER, m.VoteRequest)
    assert late is not None
    lone.vote_response(OTHER, granted=True)
    lone.answer(late, rpc.vote_response(ErrorCode.NONE, LeaderAndEpoch(lone.epoch, 1), granted=False))
    begin = lone.asked(LEADER, m.BeginQuorumEpochRequest)
    assert begin is not None
    lone.answer(begin, rpc.begin_response(ErrorCode.NONE, LeaderAndEpoch(lone.epoch, 1)))
    assert warned(lone) == ["leader_suspected"]


# --- how long is too long -----------------------------------------------------------------------------------


def beats(suspicion: Suspicion, at_ms: int, *gaps_ms: int) -> int:
    """The leader answers after each of these times; returns the time then."""
    for gap_ms in gaps_ms:
        suspicion.on_asked(at_ms)
        at_ms += gap_ms
        suspicion.on_heard(EPOCH, LEADER, at_ms, is_response=True)
    return at_ms


@covers("D-40")
def test_s_is_three_of_the_longest_gaps_and_never_above_the_fetch_timeout() -> None:
    suspicion = Suspicion(fetch_timeout_ms=2_000)
    assert suspicion.span_ms == 2_000, "no gap is known"
    at_ms = beats(suspicion, 1_000, 10)
    assert suspicion.span_ms == 2_000, "the first response ends the wait for a leader"
    at_ms = beats(suspicion, at_ms, 20)
    assert suspicion.span_ms == 450
    at_ms = beats(suspicion, at_ms, 151)
    assert suspicion.span_ms == 453
    at_ms = beats(suspicion, at_ms, 300, 150)
    assert suspicion.span_ms == 900
    at_ms = beats(suspicion, at_ms, 900)
    assert suspicion.span_ms == 2_000
    assert Suspicion(fetch_timeout_ms=300).span_ms == 300


@covers("D-40")
def test_a_gap_is_forgotten_after_half_a_minute_to_a_minute() -> None:
    suspicion = Suspicion(fetch_timeout_ms=2_000)
    at_ms = beats(suspicion, 0, 0, 300)
    at_ms = beats(suspicion, at_ms, *[150] * (30_000 // 150))
    assert suspicion.span_ms == 900
    beats(suspicion, at_ms, *[150] * (30_000 // 150))
    assert suspicion.span_ms == 450


@covers("D-40")
def test_another_leader_or_epoch_has_a_rhythm_of_its_own() -> None:
    suspicion = Suspicion(fetch_timeout_ms=2_000)
    at_ms = beats(suspicion, 0, 0, 300)
    suspicion.on_asked(at_ms)
    suspicion.on_silent(at_ms, at_ms + 900)
    suspicion.begin_round()
    assert suspicion.on_heard(EPOCH + 1, OTHER, at_ms + 990, is_response=False) == 0, "it was not this one"
    assert (suspicion.span_ms, suspicion.is_silent, suspicion.look_at_ms) == (2_000, False, NEVER_MS)


@covers("D-40")
def test_s_doubles_with_each_wrong_suspicion_for_ten_minutes() -> None:
    suspicion = Suspicion(fetch_timeout_ms=60_000)
    at_ms = beats(suspicion, 0, 0, 150)

    def be_wrong() -> None:
        nonlocal at_ms
        suspicion.on_asked(at_ms)
        suspicion.on_silent(at_ms, at_ms)
        suspicion.begin_round()
        at_ms = beats(suspicion, at_ms, 150)

    be_wrong()
    assert suspicion.span_ms == 900
    be_wrong()
    assert suspicion.span_ms == 1_800
    at_ms = beats(suspicion, at_ms, *[150] * (600_000 // 150 - 1))
    assert suspicion.span_ms == 1_800
    at_ms = beats(suspicion, at_ms, 150)
    assert suspicion.span_ms == 450
    be_wrong()
    assert suspicion.span_ms == 900, "it begins anew"


@covers("D-40")
def test_a_failed_fetch_ends_no_silence_and_a_sign_of_life_begins_another() -> None:
    suspicion = Suspicion(fetch_timeout_ms=2_000)
    at_ms = beats(suspicion, 0, 0, 150)
    suspicion.on_asked(at_ms)
    suspicion.on_asked(at_ms + 100)
    assert (suspicion.look_at_ms, suspicion.silent_ms(at_ms + 120)) == (at_ms + 450, 120)
    suspicion.on_heard(EPOCH, LEADER, at_ms + 150, is_response=False)
    assert suspicion.look_at_ms == at_ms + 150 + 450
    suspicion.on_heard(EPOCH, LEADER, at_ms + 200, is_response=True)
    assert suspicion.look_at_ms == NEVER_MS
    assert suspicion.silent_ms(at_ms + 900) == 0
    suspicion.on_stalled(at_ms + 1_000)
    assert suspicion.look_at_ms == NEVER_MS, "nothing is asked"
