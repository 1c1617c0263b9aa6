"""Two clocks, and a sleep that always ends later than it begins (D-01)."""

import pytest

from kraftd.errors import InvariantError
from kraftd.raft import effects as fx
from kraftd.raft.elections import Elections
from kraftd.raft.epoch_states import Follower
from kraftd.records.batch import BatchView
from kraftd.types import Election, Now
from tests.conformance import covers
from tests.unit.raft.lone import WALL_MS, Lone, every


@covers("D-01")
def test_records_are_stamped_by_the_wall_clock() -> None:
    lone = Lone(election=Election(4), epochs=(1, 4)).become_leader().establish()
    lone.append(b"value")
    stamps = [BatchView(append.batches[0]).max_timestamp for append in every(lone.effects, fx.Append)]
    assert stamps == [WALL_MS + lone.now_ms] * 2, "the leader change and the value"


@covers("D-01")
@pytest.mark.parametrize("jump_ms", [-(10**10), 10**10])
def test_no_deadline_heeds_a_wall_clock_that_jumps(jump_ms: int) -> None:
    leader = Lone(election=Election(4), epochs=(1, 4)).become_leader().establish()
    follower = Lone(election=Election(5, 2), epochs=(1, 4))
    for lone in (leader, follower):
        before = lone.raft_node.state
        for turn in range(1, 100):
            lone.raft_node.poll(Now(lone.now_ms + turn, WALL_MS + jump_ms))
        assert lone.raft_node.state == before
    assert isinstance(follower.raft_node.state, Follower)


@covers("D-01")
def test_a_node_that_would_be_polled_for_ever_ends_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    lone = Lone(election=Election(5), epochs=(1, 4))
    monkeypatch.setattr(Elections, "wake_at_ms", lambda _: lone.now_ms)
    lone.connect(9)
    with pytest.raises(InvariantError, match="polled for ever"):
        lone.poll()
