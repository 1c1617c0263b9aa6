"""When a node says that it is idle: then the driver leaves the turn out, and must lose nothing by it."""

import pytest

from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft.epoch_states import Resigned
from kraftd.raft.node import RaftNode
from kraftd.types import Now
from tests.conformance import covers
from tests.stories.chaos import Chaos
from tests.unit.raft.test_behaviours_leaving import leading

_poll = RaftNode.poll


@covers("D-01")
def test_who_says_that_it_is_idle_has_nothing_to_do_before_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every time a node is idle in random histories, all its parts are asked all the same."""
    times_idle = 0

    def poll(node: RaftNode, now: Now) -> list[fx.Effect]:
        nonlocal times_idle
        due_ms = node.wake_at_ms
        is_deferred = now.mono_ms < node._not_before_ms  # a process that stood still reads its sockets first
        if not node.is_idle or due_ms <= now.mono_ms or is_deferred:
            return _poll(node, now)
        times_idle += 1
        node._is_idle = False
        assert node.wake_at_ms >= due_ms, "a deadline would be missed"
        effects = _poll(node, now)
        assert effects == []
        return effects

    monkeypatch.setattr(RaftNode, "poll", poll)
    for seed in range(12):
        Chaos(seed).run()
    assert times_idle > 1_000


@covers("D-16")
def test_a_flush_that_commits_nothing_leaves_the_leader_idle() -> None:
    leader = leading().establish()
    leader.flushes = False
    leader.append(b"x")
    leader.poll()
    log = leader.raft_node.log
    due_ms = leader.raft_node.wake_at_ms
    assert leader.raft_node.handle(ev.LogFlushed(log.generation, log.end_offset), leader.now) == []
    assert leader.raft_node.is_idle
    assert leader.raft_node.wake_at_ms == due_ms


@covers("D-09")
def test_a_flush_that_ends_the_wait_of_a_handover_does_not_leave_the_leader_idle() -> None:
    """The successor holds all that the leader has, before the leader's own disk does."""
    leader = leading().establish()
    leader.flushes = False
    leader.append(b"x")
    leader.poll()
    leader.resign(2)
    leader.ask_fetch(leader.raft_node.log.end_offset, leader.epoch)
    assert not isinstance(leader.raft_node.state, Resigned)
    log = leader.raft_node.log
    leader.raft_node.handle(ev.LogFlushed(log.generation, log.end_offset), leader.now)
    assert not leader.raft_node.is_idle
    leader.poll()
    assert isinstance(leader.raft_node.state, Resigned)


@covers("D-10")
def test_an_idle_leader_that_is_to_tell_of_a_commit_wakes_for_it() -> None:
    """Its own flush is the majority's last: its followers are told a millisecond later."""
    leader = leading().establish()
    leader.flushes = False
    leader.append(b"x")
    leader.poll()
    leader.ask_fetch(leader.raft_node.log.end_offset, leader.epoch)
    log = leader.raft_node.log
    effects = leader.raft_node.handle(ev.LogFlushed(log.generation, log.end_offset), leader.now)
    assert fx.Commit in map(type, effects)
    assert leader.raft_node.is_idle
    assert leader.raft_node.wake_at_ms == leader.now_ms + 1


@covers("D-12", "D-18")
def test_what_is_applied_leaves_a_node_idle_unless_somebody_waits_for_it() -> None:
    """A read is confirmed, and answered once the state it is to see has been applied."""
    leader = leading().establish()
    leader.applies = False
    leader.append(b"x")
    leader.poll()
    end_offset = leader.raft_node.log.end_offset
    leader.ask_fetch(end_offset, leader.epoch)
    assert leader.raft_node.high_watermark == end_offset
    leader.poll()
    assert leader.raft_node.handle(ev.Applied(end_offset - 1), leader.now) == []
    assert leader.raft_node.is_idle
    leader_state = leader.raft_node._raft.leader_state
    assert leader_state is not None
    reads = leader_state.reads
    reads.add(77, leader.now_ms + 1_000, end_offset)
    reads.begin_round(leader.now_ms)
    reads.acknowledge(2, reads.round)
    effects = leader.raft_node.handle(ev.Applied(end_offset), leader.now)
    assert [effect.token for effect in effects if isinstance(effect, fx.ReadDone)] == [77]
    assert not leader.raft_node.is_idle
