"""Ballots and the invariants of states."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftd.errors import InvariantError
from kraftd.raft.epoch_states import Ballot, BallotResult, Candidate
from kraftd.types import ReplicaKey

THREE = Ballot(frozenset({1, 2, 3}), frozenset({1}))


@pytest.mark.covers("VOTE-02", "VOTE-03", "VOTE-04")
def test_a_ballot_is_won_by_a_majority_and_lost_once_none_is_possible() -> None:
    assert Ballot(frozenset({1}), frozenset({1})).result is BallotResult.WON
    assert THREE.result is BallotResult.OPEN
    assert THREE.count(2, granted=True).result is BallotResult.WON
    assert THREE.count(2, granted=False).result is BallotResult.OPEN
    assert THREE.count(2, granted=False).count(3, granted=False).result is BallotResult.LOST


@pytest.mark.covers("VOTE-09", "VOTE-10")
def test_repeats_changes_of_mind_and_strangers_change_nothing() -> None:
    refused = THREE.count(2, granted=False)
    assert refused.count(2, granted=True) == refused
    granted = THREE.count(2, granted=True)
    assert granted.count(2, granted=False) == granted
    assert THREE.count(9, granted=True) == THREE
    assert THREE.count(1, granted=False) == THREE


@pytest.mark.covers("D-08")
def test_the_silent_are_not_waited_for_but_may_still_answer() -> None:
    dead = THREE.mark_unreachable(3)
    assert dead.result is BallotResult.OPEN
    assert dead.count(2, granted=False).result is BallotResult.LOST
    assert dead.count(2, granted=False).count(3, granted=True).result is BallotResult.WON


@pytest.mark.covers("VOTE-11")
def test_a_candidate_votes_for_itself_and_is_a_voter() -> None:
    with pytest.raises(InvariantError):
        Candidate(1, ReplicaKey(2), THREE, 0, 0)
    with pytest.raises(InvariantError):
        Ballot(frozenset({1, 2}), frozenset({1, 9}))
    with pytest.raises(InvariantError):
        Ballot(frozenset({1, 2}), frozenset({1}), frozenset({1}))


@given(st.integers(1, 7), st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=20))
def test_the_result_agrees_with_a_naive_count(size: int, responses: list[tuple[int, bool]]) -> None:
    voters = frozenset(range(1, size + 1))
    ballot = Ballot(voters, frozenset({1}))
    first: dict[int, bool] = {1: True}
    for voter, granted in responses:
        ballot = ballot.count(voter, granted=granted)
        if voter in voters:
            first.setdefault(voter, granted)
    yes, no = sum(first.values()), len(first) - sum(first.values())
    expected = (
        BallotResult.WON
        if 2 * yes > size
        else BallotResult.LOST
        if 2 * (size - no) <= size
        else BallotResult.OPEN
    )
    assert ballot.result is expected
