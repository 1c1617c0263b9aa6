"""Where a node begins, what it promised before, and what moves leave alone (QS)."""

from random import Random
from typing import Any

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc
from kraftd.raft.epoch_states import Candidate, Follower, Leader, Resigned, Unattached
from kraftd.raft.rejoin import StateHealth
from kraftd.raft.rpc import LeaderAndEpoch
from kraftd.raft.timing import BEHIND_DELAY_MS
from kraftd.types import NEVER_MS, NO_NODE, Election, HealthKind, OffsetAndEpoch, ReplicaKey
from tests.conformance import covers
from tests.stories.cluster import SeededRandom
from tests.unit.raft.lone import ME, Lone, every, key_of, requests_to
from tests.unit.raft.reactions import STATES

# --- by what the election file says -------------------------------------------------------------------------


@covers("QS-01")
def test_a_new_node_waits_in_epoch_0_and_writes_that_down() -> None:
    lone = Lone()
    assert isinstance(lone.raft_node.state, Unattached)
    assert (lone.epoch, lone.raft_node.voted) == (0, None)
    assert every(lone.started, fx.PersistElection) == [fx.PersistElection(Election())]


@covers("QS-02")
def test_an_epoch_in_which_nobody_is_known_is_waited_in_for_a_random_election_timeout() -> None:
    waits = set()
    for seed in range(200):
        state = Lone(election=Election(5), epochs=(1, 4), random=SeededRandom(Random(seed))).raft_node.state
        assert isinstance(state, Unattached)
        assert state.election == Election(5)
        waits.add(state.deadline_ms - 1_000)
    assert min(waits) >= 1_000
    assert max(waits) < 2_000
    assert len(waits) > 100


@covers("QS-03")
def test_a_leader_that_was_known_is_fetched_from_at_once() -> None:
    lone = Lone(election=Election(5, 2), epochs=(1, 4))
    state = lone.raft_node.state
    assert isinstance(state, Follower)
    assert (state.leader_id, state.fetch_deadline_ms) == (2, 1_000 + 2_000)
    first, *others = every(lone.started, fx.Send)
    assert (first.to, type(first.request)) == (2, m.FetchRequest)
    assert lone.fetching() == [2]
    assert {send.to for send in others} <= {3}, "who else is asked only tells its epoch (D-06)"


@covers("QS-04")
def test_a_leader_that_cannot_be_reached_is_remembered_and_costs_its_epoch_the_vote() -> None:
    lone = Lone(election=Election(5, 9), epochs=(1, 4))
    state = lone.raft_node.state
    assert isinstance(state, Unattached)
    assert state.leader_id == 9
    assert not lone.ask_vote(5).vote_granted
    assert lone.ask_vote(6).vote_granted


@covers("QS-05", "QS-20", "VOTE-14")
@pytest.mark.parametrize(
    ("stored", "candidate", "directory_id", "granted"),
    [
        (key_of(2), 2, key_of(2).directory_id, True),
        (key_of(2), 2, b"another director", False),
        (key_of(2), 3, key_of(3).directory_id, False),
        (ReplicaKey(2), 2, b"another director", True),  # version 0 of the file keeps no directory
        (ReplicaKey(2), 3, key_of(3).directory_id, False),
    ],
)
def test_a_stored_vote_binds(stored: ReplicaKey, candidate: int, directory_id: bytes, granted: bool) -> None:
    lone = Lone(election=Election(5, NO_NODE, stored), epochs=(1, 4))
    state = lone.raft_node.state
    assert isinstance(state, Unattached)
    assert state.voted == stored
    assert 2_000 <= state.deadline_ms < 3_000, "a fresh election timeout"
    assert lone.ask_vote(5, candidate=candidate, directory_id=directory_id).vote_granted is granted
    assert lone.raft_node.voted == stored


@covers("QS-20")
def test_keys_match_by_id_and_by_directory_where_both_have_one() -> None:
    assert ReplicaKey(2).matches(key_of(2))
    assert key_of(2).matches(ReplicaKey(2))
    assert not key_of(2).matches(ReplicaKey(2, b"another director"))
    assert not ReplicaKey(2).matches(ReplicaKey(3))


@covers("QS-06")
@pytest.mark.parametrize("stored", [key_of(ME), ReplicaKey(ME)])
def test_a_candidate_that_restarts_asks_again_in_the_same_epoch(stored: ReplicaKey) -> None:
    lone = Lone(election=Election(5, NO_NODE, stored), epochs=(1, 4))
    state = lone.raft_node.state
    assert isinstance(state, Candidate)
    assert (state.epoch, state.attempt, state.ballot.granted) == (5, 1, {ME})
    assert requests_to(lone.started, m.VoteRequest) == [2, 3]
    assert lone.stored is not None
    assert lone.stored.epoch == 5


@covers("LSN-11", "D-06")
def test_who_led_and_does_not_count_since_is_never_told_that_it_leads() -> None:
    health = StateHealth(amnesia=("a batch",))
    lone = Lone(election=Election(5, ME, key_of(ME)), epochs=(1, 4), health=health)
    lone.feed(ev.LogDamaged(lone.raft_node.log.generation, "another batch"))
    assert isinstance(lone.raft_node.state, Unattached)
    assert {told.leader_id for told in every(lone.effects, fx.LeaderChanged)} == {NO_NODE}


@covers("QS-06", "D-06")
@pytest.mark.parametrize(
    "health",
    [
        pytest.param(StateHealth(damage=("segment 0 at byte 17, offset 1: bad checksum",)), id="damaged"),
        pytest.param(StateHealth(amnesia=("the election file fails its checksum",)), id="forgetful"),
    ],
)
def test_a_candidate_that_is_not_whole_at_its_next_start_asks_for_no_vote(health: StateHealth) -> None:
    """What it lost may be committed: led by it, the others would be told to cut that."""
    lone = Lone(election=Election(5, NO_NODE, key_of(ME)), epochs=(1, 4), health=health)
    lone.run(20_000)
    assert requests_to(lone.effects, m.VoteRequest) == []
    assert (lone.epoch, lone.raft_node.is_leader) == (5, False)


@covers("D-06")
@pytest.mark.parametrize(
    "kept",
    [
        pytest.param({"election": Election(1, NO_NODE, key_of(ME))}, id="a candidacy"),
        pytest.param({"election": Election(1, NO_NODE, ReplicaKey(ME))}, id="a candidacy as Kafka writes it"),
        pytest.param({"election": Election(1, 2, key_of(3))}, id="a vote, and who won without it"),
        pytest.param({"election": Election(1, 2), "epochs": (1,)}, id="records"),
        pytest.param({"election": Election(1, 2), "start_offset": 4}, id="a snapshot alone"),
        pytest.param(
            {"election": Election(1, 2), "epochs": (1,), "voters": (2, 3, 4)}, id="an observer's records"
        ),
    ],
)
def test_who_promised_something_and_crashed_before_it_said_so_is_new_no_more(kept: dict[str, Any]) -> None:
    """Killed after its vote or its flush was durable, and before the sidecar was."""
    lone = Lone(health=StateHealth(uninitialized=True), **kept)
    assert every(lone.started, fx.RememberStateHealth) == [fx.RememberStateHealth(HealthKind.WHOLE)]
    assert lone.raft_node._raft.rejoin.can_confirm_leader
    if not isinstance(lone.raft_node.state, Candidate) and "voters" not in kept:
        assert lone.ask_vote(2, candidate=3, position=OffsetAndEpoch(9, 1)).vote_granted


@covers("D-06", "QS-01")
@pytest.mark.parametrize("stored", [Election(), Election(3), Election(3, 2)])
def test_who_only_knows_of_an_epoch_is_still_new_at_its_next_start(stored: Election) -> None:
    lone = Lone(health=StateHealth(uninitialized=True), election=stored)
    assert every(lone.started, fx.RememberStateHealth) == [fx.RememberStateHealth(HealthKind.UNINITIALIZED)]
    assert not lone.ask_vote(4, candidate=3, position=OffsetAndEpoch(9, 1)).vote_granted


@covers("D-06")
@pytest.mark.parametrize(
    ("election", "epochs"),
    [(Election(1, NO_NODE, key_of(ME)), (1,)), (Election(1, NO_NODE, key_of(ME)), (2,))],
)
@pytest.mark.parametrize("forgot", ["amnesia", "damage"])
def test_who_forgot_is_not_made_whole_by_what_it_still_holds(
    election: Election, epochs: tuple[int, ...], forgot: str
) -> None:
    health = StateHealth(**{forgot: ("lost",)}, uninitialized=forgot == "damage")
    lone = Lone(health=health, election=election, epochs=epochs)
    assert fx.RememberStateHealth(HealthKind.WHOLE) not in every(lone.started, fx.RememberStateHealth)
    assert not lone.raft_node.is_whole
    assert not lone.ask_vote(4, candidate=3, position=OffsetAndEpoch(9, 2)).vote_granted


@covers("QS-07", "EQE-08")
def test_a_leader_that_restarts_says_goodbye_and_neither_writes_nor_votes() -> None:
    lone = Lone(election=Election(5, ME, key_of(ME)), epochs=(1, 5))
    assert isinstance(lone.raft_node.state, Resigned)
    assert every(lone.started, fx.PersistElection) == []
    assert requests_to(lone.started, m.EndQuorumEpochRequest) == [2, 3]
    assert not lone.ask_vote(5, position=OffsetAndEpoch(9, 4)).vote_granted
    token = lone.append()
    assert lone.outcome(token) is not None
    assert lone.raft_node.log.end_offset == 2


@covers("QS-08", "RSG-05")
def test_if_nobody_takes_over_it_goes_on_to_the_next_epoch_and_campaigns_from_there() -> None:
    lone = Lone(election=Election(5, ME, key_of(ME)), epochs=(1, 5))
    lone.run_to_deadline()
    assert isinstance(lone.raft_node.state, Unattached)
    assert (lone.epoch, lone.stored) == (6, Election(6))
    lone.become_candidate()
    assert isinstance(lone.raft_node.state, Candidate)
    assert lone.epoch == 7


@covers("QS-09")
def test_an_election_file_that_the_log_is_ahead_of_is_void() -> None:
    lone = Lone(election=Election(3, 2, key_of(3)), epochs=(1, 4))
    assert isinstance(lone.raft_node.state, Unattached)
    assert lone.raft_node.state.election == Election(4)
    assert lone.stored == Election(4)
    assert "stored_epoch_behind_log" in [warned.name for warned in every(lone.started, fx.Warned)]


@covers("QS-12", "VOTE-03")
@pytest.mark.parametrize(
    ("stored", "epoch"),
    [
        (Election(5), 6),
        (Election(5, ME, key_of(ME)), 6),
        (Election(5, 9), 6),
        (Election(5, NO_NODE, key_of(9)), 6),
        (Election(5, NO_NODE, key_of(ME)), 5),
    ],
)
def test_the_only_voter_leads_before_its_first_turn(stored: Election, epoch: int) -> None:
    lone = Lone(voters=(ME,), election=stored, epochs=(1, 4), connected=())
    assert isinstance(lone.raft_node.state, Leader)
    assert lone.epoch == epoch
    assert every(lone.started, fx.Send) == []


@covers("Q-14", "QS-27")
def test_a_vote_for_itself_by_a_node_that_is_no_voter_now_stops_nobody() -> None:
    lone = Lone(voters=(2, 3, 4), election=Election(5, NO_NODE, key_of(ME)), epochs=(1, 4))
    assert isinstance(lone.raft_node.state, Unattached)
    assert lone.raft_node.voted == key_of(ME)
    assert not lone.ask_vote(5).vote_granted


# --- timers -------------------------------------------------------------------------------------------------


@covers("QS-23")
@pytest.mark.parametrize("voted", [None, key_of(2)])
def test_a_higher_epoch_leaves_the_election_deadline_where_it_was(voted: ReplicaKey | None) -> None:
    lone = Lone(election=Election(5, NO_NODE, voted), epochs=(1, 4), random=SeededRandom(Random(1)))
    before = lone.raft_node.state
    assert isinstance(before, Unattached)
    lone.run(300)
    assert not lone.ask_vote(7, candidate=3, position=OffsetAndEpoch(0, 0)).vote_granted
    after = lone.raft_node.state
    assert isinstance(after, Unattached)
    assert (after.epoch, after.deadline_ms) == (7, before.deadline_ms)


@covers("QS-24")
@pytest.mark.parametrize("epoch", [5, 7])
def test_giving_a_vote_draws_a_new_election_timeout(epoch: int) -> None:
    lone = Lone(election=Election(5), epochs=(1, 4))
    before = lone.raft_node.state
    assert isinstance(before, Unattached)
    lone.run(300)
    assert lone.ask_vote(epoch).vote_granted
    after = lone.raft_node.state
    assert isinstance(after, Unattached)
    assert after.deadline_ms == before.deadline_ms + 300


@covers("QS-28", "Q-13", "OBS-07")
def test_an_observer_has_no_election_deadline_and_sleeps_between_its_questions() -> None:
    lone = Lone(voters=(2, 3, 4), election=Election(5, 2), epochs=(1, 4))
    (asked,) = lone.open_requests()
    lone.answer(asked, rpc.fetch_response(ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderAndEpoch(7, NO_NODE)))
    state = lone.raft_node.state
    assert isinstance(state, Unattached)
    assert state.deadline_ms == NEVER_MS
    seen = len(lone.effects)
    lone.run(60_000)
    assert isinstance(lone.raft_node.state, Unattached)
    assert lone.epoch == 7
    assert len(every(lone.effects[seen:], fx.Send)) < 100


# --- what moves leave alone ---------------------------------------------------------------------------------


@covers("QS-26", "VOTE-23", "D-37")
def test_who_is_no_voter_gets_no_vote_is_not_followed_and_moves_no_epoch() -> None:
    lone = Lone(election=Election(5), epochs=(1, 4))
    before = lone.raft_node.state
    assert lone.ask_vote(6, candidate=8).error_code == ErrorCode.INVALID_REQUEST
    assert lone.ask_begin(6, 8).error_code == ErrorCode.INVALID_REQUEST
    assert lone.ask_end(6, 8).error_code == ErrorCode.INVALID_REQUEST
    assert (lone.raft_node.state, lone.stored) == (before, Election(5))
    assert every(lone.effects, fx.LearnEndpoint)[2:] == [], "nobody connects to where it says it is"


@covers("QS-29", "Q-09", "HWM-02")
def test_the_high_watermark_survives_every_move_and_a_new_leader_tells_none_of_its_own_yet() -> None:
    lone = Lone(election=Election(5, 2), epochs=(1, 4))
    lone.fetch_response(high_watermark=2)
    seen = []
    for move in (
        lambda: lone.ask_vote(6, position=OffsetAndEpoch(0, 0)),
        lambda: lone.ask_vote(6),
        lone.run_to_deadline,
        lambda: lone.vote_response(2, granted=True),
        lambda: lone.vote_response(2, granted=True),
    ):
        move()
        seen.append((type(lone.raft_node.state).__name__, lone.raft_node.high_watermark))
    names = ["Unattached", "Unattached", "Prospective", "Candidate", "Leader"]
    assert seen == [(name, 2) for name in names]
    told = lone.ask_fetch(2, 4, replica=9)
    assert told is not None
    assert told.high_watermark == -1, "not before a record of its own epoch stands on a majority"
    lone.establish()
    lone.resign(2)
    assert isinstance(lone.raft_node.state, Resigned)
    assert lone.raft_node.high_watermark == 3


@covers("QS-30")
@pytest.mark.parametrize("state", STATES)
def test_only_a_leader_that_is_somebody_else_is_fetched_from(state: str) -> None:
    lone = STATES[state]()
    lone.run(50)
    if state in ("observes", "not whole"):
        (asked,) = lone.fetching()
        assert asked in (2, 3, 4)
    else:
        assert lone.fetching() == ([2] if state in ("follows 2", "2 said bye", "obs. follows") else [])


# --- by what is known to be committed -----------------------------------------------------------------------


@covers("D-23")
def test_what_a_snapshot_stands_for_is_committed_from_the_start_and_stays() -> None:
    lone = Lone(election=Election(5, 2), epochs=(1, 1, 4), high_watermark=2)
    assert every(lone.started, fx.Commit) == [fx.Commit(2)]
    fetch = lone.asked(2, m.FetchRequest)
    assert fetch is not None
    assert fetch.request.topics[0].partitions[0].high_watermark == 2  # type: ignore[union-attr]
    lone.fetch_response(high_watermark=3, diverging=OffsetAndEpoch(1, 1))
    assert every(lone.effects, fx.Truncate) == []
    assert lone.raft_node.high_watermark == 2


@covers("D-23")
@pytest.mark.parametrize("applies", [True, False])
def test_who_has_much_left_to_apply_from_the_start_lets_the_others_campaign_first(applies: bool) -> None:
    """Node 1 restores a snapshot of 20,000 records: it could win, and could not lead for a while."""
    delay_ms = 0 if applies else BEHIND_DELAY_MS
    for stored in (Election(5), Election(5, ME, key_of(ME))):
        lone = Lone(election=stored, epochs=(1,) * 20_000, in_memory=False, high_watermark=20_000)
        assert lone.raft_node.state.deadline_ms == 1_000 + 1_500 + BEHIND_DELAY_MS  # type: ignore[union-attr]
    lone = Lone(
        election=Election(5, 2),
        epochs=(1,) * 20_000,
        in_memory=False,
        applies=applies,
        high_watermark=20_000,
    )
    lone.fetch_response(high_watermark=20_000)
    lone.close(2)
    state = lone.raft_node.state
    assert isinstance(state, Follower)
    assert state.campaign_at_ms == lone.now_ms + 50 + delay_ms
