"""What a node tells of itself."""

import pytest

from kraftd.errors import ErrorCode
from kraftd.raft.rpc import LeaderAndEpoch
from kraftd.types import Election
from tests.unit.raft.lone import Lone


def role(lone: Lone) -> str:
    return lone.raft_node.describe(lone.now).role


@pytest.mark.covers("MET-01")
def test_the_state_is_told_by_kafkas_names() -> None:
    lone = Lone()
    assert role(lone) == "unattached"
    lone.run_to_deadline()
    assert role(lone) == "prospective"
    lone.vote_response(2, granted=True)
    assert role(lone) == "candidate"
    lone.vote_response(2, granted=True)
    assert role(lone) == "leader"
    lone.ask_begin(lone.epoch + 1, 2)
    assert role(lone) == "follower"
    lone.run(5_000)
    lone.ask_vote(lone.epoch + 1, candidate=3)
    assert role(lone) == "voted"


def test_who_led_and_was_restarted_is_told_as_unattached_and_who_has_no_vote_as_observer() -> None:
    assert role(Lone(election=Election(5, 1))) == "unattached"
    lone = Lone(voters=(2, 3, 4))
    lone.poll()
    (asked,) = lone.fetching()
    lone.fetch_response(
        of=asked, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_and_epoch=LeaderAndEpoch(6, 2)
    )
    assert role(lone) == "observer"
