"""Every state by every event, in every relation of their epochs: the table, and the rules of each cell.

The table is read by people; `make rewrite` accepts a new one, and its diff is the review. The rules below it
are checked without it: a mistake that was accepted into the table still breaks a rule.
"""

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft.epoch_states import (
    TRANSITIONS,
    Candidate,
    EpochState,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
    state_name,
)
from kraftd.types import Election
from tests.conformance import covers
from tests.unit.raft.lone import every
from tests.unit.raft.reactions import EPOCH, STATES, Happening, Reaction, react, render, rows

TABLE = Path(__file__).with_name("reactions.txt")
STATE_OF = {state_name(state): state for state in get_args(EpochState)}

states = pytest.mark.parametrize("state", STATES)


@cache
def column(state: str) -> list[tuple[str, int, Reaction]]:
    return [(name, epoch, react(state, happening, epoch)) for name, happening, epoch in rows()]


def test_every_state_answers_every_event_as_written(rewrite: bool) -> None:
    seen = render()
    if rewrite:
        TABLE.write_text(seen, encoding="utf-8")
    assert seen == TABLE.read_text(encoding="utf-8")


def test_every_state_is_there_and_every_legal_move_is_made_by_some_event() -> None:
    reactions = [reaction for state in STATES for _, _, reaction in column(state)]
    assert {type(reaction.before) for reaction in reactions} == set(get_args(EpochState))
    moves = {
        (STATE_OF[source], STATE_OF[target])
        for reaction in reactions
        for (source, _), (target, _) in pairwise(reaction.path)
    }
    assert moves == set(TRANSITIONS)


@covers("QS-21", "QS-22", "QS-25", "D-07")
@states
def test_every_move_is_legal_and_its_epoch_is_one_that_was_heard_of(state: str) -> None:
    for name, epoch, reaction in column(state):
        for (source, before), (target, after) in pairwise(reaction.path):
            assert TRANSITIONS[STATE_OF[source], STATE_OF[target]].allows(before, after), name
            assert after in (before, epoch) or (
                target in ("candidate", "unattached") and after == before + 1
            ), name


@covers("VOTE-18", "BQE-05", "EQE-06")
@states
def test_news_of_an_older_epoch_moves_nobody(state: str) -> None:
    for name, epoch, reaction in column(state):
        if epoch < EPOCH and name != "response: granted, lower":  # a pre-vote of a node that is behind
            assert len(reaction.path) == 1, name
            assert not every(reaction.effects, fx.PersistElection), name


@covers("QS-15", "D-02", "VOTE-12", "VOTE-17")
@states
def test_what_is_promised_is_written_before_anyone_hears_of_it_and_at_most_once(state: str) -> None:
    for name, _, reaction in column(state):
        if reaction.before.election == reaction.after.election:
            continue
        writes = [n for n, effect in enumerate(reaction.effects) if isinstance(effect, fx.PersistElection)]
        told = [n for n, effect in enumerate(reaction.effects) if _tells_of(effect, reaction.after.election)]
        assert writes, name
        assert writes[0] < min(told, default=len(reaction.effects)), name
        assert reaction.effects[writes[-1]] == fx.PersistElection(reaction.after.election), name


def _tells_of(effect: fx.Effect, election: Election) -> bool:
    """Whether somebody hears of an election by this. Who ended its epoch is answered in it, and then only its
    successor campaigns.
    """
    if isinstance(effect, fx.Reply) and isinstance(effect.response, m.EndQuorumEpochResponse):
        return effect.response.topics[0].partitions[0].leader_epoch == election.epoch
    return isinstance(effect, fx.Reply | fx.Send)


@covers("D-07", "VOTE-14", "VOTE-16")
@states
def test_leader_and_vote_of_an_epoch_never_change(state: str) -> None:
    for name, _, reaction in column(state):
        before, after = reaction.before.election, reaction.after.election
        if before.epoch == after.epoch:
            assert before.leader_id in (-1, after.leader_id), name
            assert before.voted in (None, after.voted), name


@covers("QS-16")
def test_resigning_writes_nothing() -> None:
    leaders = [reaction for state in ("leader", "new leader") for _, _, reaction in column(state)]
    resigned = [reaction for reaction in leaders if isinstance(reaction.after, Resigned)]
    assert resigned
    assert not any(every(reaction.effects, fx.PersistElection) for reaction in resigned)


@covers("QS-27", "OBS-07", "D-06")
@pytest.mark.parametrize("state", ["observes", "obs. follows", "not whole"])
def test_who_does_not_count_never_campaigns(state: str) -> None:
    for name, _, reaction in column(state):
        assert isinstance(reaction.after, Follower | Unattached), name


@covers("VOTE-16", "D-07")
@pytest.mark.parametrize("state", ["candidate", "beaten", "new leader", "leader", "handing over", "resigned"])
def test_who_has_voted_for_itself_grants_nobody_a_vote_in_that_epoch(state: str) -> None:
    kinds: dict[type[EpochState], set[str]] = {
        Candidate: set(),
        Leader: set(),
        Resigned: set(),
        Prospective: set(),
    }
    for name, epoch, reaction in column(state):
        if name.startswith("vote") and "stranger" not in name and epoch == EPOCH:
            kinds[type(reaction.before)].add(reaction.response)
            assert reaction.before == reaction.after, name
    assert [responses for responses in kinds.values() if responses] == [{"no"}]


@covers("QS-21", "D-07", "D-14", "SIMX-09", "LSN-11")
@settings(max_examples=150)
@given(st.sampled_from(sorted(STATES)), st.lists(st.sampled_from(list(rows())), max_size=8))
def test_no_sequence_of_events_breaks_the_rules(state: str, events: list[tuple[str, Happening, int]]) -> None:
    """The node itself raises on an illegal move and on a sleep without end."""
    lone = STATES[state]()
    for _, happening, epoch in events:
        before = lone.raft_node.state.election
        happening.make(lone, epoch)
        after = lone.raft_node.state.election
        assert after.epoch >= before.epoch
        assert lone.stored == after, "what is true is what is written"
        if after.epoch == before.epoch:
            assert before.leader_id in (-1, after.leader_id)
            assert before.voted in (None, after.voted)
    heard = [(change.epoch, change.leader_id) for change in every(lone.effects, fx.LeaderChanged)]
    for (epoch, leader_id), (later, _) in pairwise(heard):
        assert later > epoch or (later == epoch and leader_id == -1), "each epoch without, then with a leader"
