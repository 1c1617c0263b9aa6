"""The table of transitions: by hand, by enumeration, and the guard on what an epoch has promised."""

from collections.abc import Mapping
from itertools import product
from textwrap import dedent
from typing import get_args

import pytest

from kraftd.errors import InvariantError
from kraftd.raft.epoch_states import (
    TRANSITIONS,
    Ballot,
    Candidate,
    EpochState,
    EpochStateType,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Step,
    Unattached,
    check_move,
)
from kraftd.types import ReplicaKey

EPOCH_STATES: tuple[EpochStateType, ...] = get_args(EpochState)
ME = ReplicaKey(1)
BALLOT = Ballot(frozenset({1, 2, 3}), frozenset({1}))


def one_of(state: EpochStateType, epoch: int) -> EpochState:
    """A state of that kind, with nothing promised that another could forget."""
    return {
        Unattached: Unattached(epoch, 0),
        Prospective: Prospective(epoch, BALLOT, 0, 0),
        Candidate: Candidate(epoch, ME, BALLOT, 0, 0),
        Follower: Follower(epoch, 2, 0),
        Leader: Leader(epoch, ME, 0, frozenset({1, 2})),
        Resigned: Resigned(epoch, ME, 0, ME),
    }[state]


def render(transitions: Mapping[tuple[EpochStateType, EpochStateType], Step]) -> str:
    """Draw the table as text: rows are the states before a transition, columns those after it."""
    names = [state.__name__ for state in EPOCH_STATES]
    width = max(len(name) for name in names) + 2
    lines = ["from \\ to".ljust(width + 2) + "".join(name.ljust(width) for name in names)]
    for source in EPOCH_STATES:
        cells = (transitions.get((source, target)) for target in EPOCH_STATES)
        row = "".join((step.value if step else "-").ljust(width) for step in cells)
        lines.append(source.__name__.ljust(width + 2) + row)
    return "\n".join(line.rstrip() for line in lines)


@pytest.mark.covers("D-07", "QS-21", "QS-22", "QS-25")
def test_the_table_is_the_one_we_meant() -> None:
    """Written out by hand: a test that only reads the table cannot find a mistake in it."""
    assert render(TRANSITIONS) == dedent("""\
        from \\ to      Unattached   Prospective  Candidate    Follower     Leader       Resigned
        Unattached     either       same         -            either       -            -
        Prospective    either       -            next         either       -            -
        Candidate      either       same         -            either       same         -
        Follower       higher       same         next         higher       -            -
        Leader         higher       -            -            higher       -            same
        Resigned       higher       -            -            higher       -            -""")


@pytest.mark.covers("QS-21", "QS-22", "QS-25", "D-07")
@pytest.mark.parametrize("epoch", [3, 4, 5, 6], ids=["lower", "same", "next", "higher"])
@pytest.mark.parametrize(("source", "target"), list(product(EPOCH_STATES, EPOCH_STATES)))
def test_moves_follow_the_table(source: EpochStateType, target: EpochStateType, epoch: int) -> None:
    before, after = one_of(source, 4), one_of(target, epoch)
    step = TRANSITIONS.get((source, target))
    promised = before.election
    keeps = epoch != 4 or (
        promised.leader_id in (-1, after.election.leader_id)
        and promised.voted in (None, after.election.voted)
    )
    if step is not None and step.allows(4, epoch) and keeps:
        check_move(before, after, "test")
    else:
        with pytest.raises(InvariantError):
            check_move(before, after, "test")


@pytest.mark.covers("D-07")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Unattached(4, 0, voted=ReplicaKey(2)), Unattached(4, 0, voted=ReplicaKey(3))),
        (Unattached(4, 0, voted=ReplicaKey(2)), Follower(4, 3, 0)),
        (Prospective(4, BALLOT, 0, 0, leader_id=2), Unattached(4, 0)),
        (Prospective(4, BALLOT, 0, 0, leader_id=2), Follower(4, 3, 0)),
        (Candidate(4, ME, BALLOT, 0, 0), Follower(4, 2, 0)),
    ],
)
def test_leader_and_vote_of_an_epoch_pass_through_every_move_within_it(
    before: EpochState, after: EpochState
) -> None:
    with pytest.raises(InvariantError, match="forgets"):
        check_move(before, after, "test")


def test_a_vote_may_be_added_within_an_epoch() -> None:
    check_move(Unattached(4, 0), Unattached(4, 0, voted=ReplicaKey(2)), "vote")
    check_move(Unattached(4, 0, voted=ReplicaKey(2)), Follower(4, 2, 0, ReplicaKey(2)), "it won")
