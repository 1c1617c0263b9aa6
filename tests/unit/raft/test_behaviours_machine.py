"""What the state machine is given, and when it is told who leads (LSN)."""

from collections.abc import Callable

import pytest

from kraftd.raft import effects as fx
from kraftd.raft.epoch_states import Candidate, Leader, Prospective, Resigned, Unattached
from kraftd.raft.events import Applied
from kraftd.records.batch import encode_batch
from kraftd.types import NO_NODE, Election, OffsetAndEpoch
from tests.conformance import covers
from tests.unit.raft.lone import ME, Lone, every, key_of


def told(effects: list[fx.Effect]) -> list[tuple[int, int]]:
    return [(change.epoch, change.leader_id) for change in every(effects, fx.LeaderChanged)]


@covers("LSN-04", "HWM-14")
def test_nothing_is_committed_before_a_leader_has_told_its_high_watermark() -> None:
    lone = Lone(election=Election(5, 2), epochs=(1, 4))
    lone.fetch_response(high_watermark=-1)
    assert every(lone.effects, fx.Commit) == []
    assert lone.raft_node.high_watermark == -1
    lone.fetch_response(high_watermark=1)
    assert every(lone.effects, fx.Commit) == [fx.Commit(1)]

    leader = Lone(election=Election(4), epochs=(1, 4)).become_leader()
    assert every(leader.effects, fx.Commit) == [], "what it had is committed only with a record of its own"
    leader.establish()
    assert every(leader.effects, fx.Commit) == [fx.Commit(3)]


@covers("LSN-09")
def test_a_leaders_own_records_are_at_hand_without_reading_the_batch() -> None:
    lone = Lone(election=Election(4), epochs=(1, 4)).become_leader().establish()
    end = lone.raft_node.log.end_offset
    lone.append(b"one", b"two")
    assert lone.raft_node.take_values(end) == [b"one", b"two"]
    assert lone.raft_node.committed_batches(end, 1 << 20) == [], "not before it is committed"
    lone.establish()
    batches = lone.raft_node.committed_batches(end, 1 << 20)
    assert batches is not None
    assert len(batches) == 1


@covers("LSN-10", "QS-29")
def test_what_is_committed_is_still_to_be_had_while_there_is_no_leader() -> None:
    lone = Lone(election=Election(5, 2), epochs=(1, 4), applies=False)
    lone.fetch_response(encode_batch(2, 5, 0, [b"not committed"]), high_watermark=2)
    moves: list[tuple[Callable[[], object], type]] = [
        (lambda: lone.ask_vote(6, position=OffsetAndEpoch(9, 5)), Unattached),
        (lone.run_to_deadline, Prospective),
        (lambda: lone.vote_response(2, granted=True), Candidate),
    ]
    for move, role in moves:
        move()
        assert isinstance(lone.raft_node.state, role)
        batches = lone.raft_node.committed_batches(0, 1 << 20)
        assert batches is not None
        assert len(batches) == 2, "whole batches below the high watermark, and nothing at it"


@covers("LSN-11")
def test_the_machine_hears_of_each_epoch_first_without_and_then_with_a_leader() -> None:
    lone = Lone(election=Election(5), epochs=(1, 4))
    lone.ask_begin(5, 2)
    lone.ask_begin(5, 2)
    lone.ask_vote(7, position=OffsetAndEpoch(0, 0))
    lone.ask_vote(7)
    lone.ask_begin(7, 3)
    lone.ask_vote(6)
    lone.ask_begin(9, 2)
    assert told(lone.effects) == [(5, NO_NODE), (5, 2), (7, NO_NODE), (7, 3), (9, 2)]


@covers("LSN-12", "D-18")
def test_a_new_leader_tells_its_machine_to_lead_once_that_has_applied_the_first_record() -> None:
    lone = Lone(election=Election(4), epochs=(1, 4), applies=False).become_leader().establish()
    assert told(lone.effects)[-1] == (5, NO_NODE)
    lone.feed(Applied(2))
    assert told(lone.effects)[-1] == (5, NO_NODE), "everything before its epoch is not enough"
    lone.feed(Applied(3))
    assert told(lone.effects)[-1] == (5, ME)
    lone.feed(Applied(3))
    assert told(lone.effects).count((5, ME)) == 1


@covers("LSN-13")
@pytest.mark.parametrize("stored", [Election(5), Election(5, 2)])
def test_a_machine_that_starts_is_told_who_leads(stored: Election) -> None:
    lone = Lone(election=stored, epochs=(1, 4))
    assert told(lone.started) == [(5, stored.leader_id)]


@covers("LSN-14")
def test_a_leader_that_resigned_tells_nothing_even_when_its_machine_gets_on() -> None:
    lone = Lone(election=Election(4), epochs=(1, 4), applies=False).become_leader().establish()
    lone.resign(2)
    assert isinstance(lone.raft_node.state, Resigned)
    seen = len(lone.effects)
    lone.feed(Applied(3))
    lone.run(100)
    assert told(lone.effects[seen:]) == []
    restarted = Lone(election=Election(5, ME, key_of(ME)), epochs=(1, 5))
    assert told(restarted.started) == []


@covers("LSN-15")
@pytest.mark.parametrize("successor", [NO_NODE, 3])
def test_a_leader_that_lost_its_epoch_tells_its_machine_in_the_same_event(successor: int) -> None:
    lone = Lone(election=Election(4), epochs=(1, 4)).become_leader().establish()
    assert isinstance(lone.raft_node.state, Leader)
    seen = len(lone.effects)
    if successor == NO_NODE:
        lone.ask_vote(7)
    else:
        lone.ask_begin(7, successor)
    assert told(lone.effects[seen:]) == [(7, successor)]
