"""How records get into the log: refused whole or taken whole, in which batches, and when they are written."""

from collections.abc import Callable

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc
from kraftd.raft.accumulator import BATCH_BYTES_MAX
from kraftd.raft.epoch_states import Follower, Leader, Resigned, Unattached
from kraftd.raft.rpc import LeaderAndEpoch
from kraftd.raft.timing import Timing
from kraftd.records import batch_header
from kraftd.records.batch import BatchView, scan
from kraftd.records.control import decode_control
from kraftd.records.messages import LeaderChangeMessage, LeaderChangeMessageVoter
from kraftd.types import NO_NODE, Election, OffsetAndEpoch
from tests.conformance import covers
from tests.unit.raft.lone import WALL_MS, Lone, every

LINGER = Timing(append_linger_ms=25)


def leader(**options: object) -> Lone:
    return Lone(**options).become_leader().establish()  # type: ignore[arg-type]


def written(effects: list[fx.Effect]) -> list[BatchView]:
    """The batches that were written, in order."""
    return [batch for append in every(effects, fx.Append) for batch in scan(b"".join(append.batches))]


def values(batches: list[BatchView]) -> list[list[bytes]]:
    return [batch.values() for batch in batches]


def ask(lone: Lone, token: int, *records: bytes, epoch: int | None = None) -> list[fx.Effect]:
    """An append comes in; the turn is not over yet."""
    epoch = lone.epoch if epoch is None else epoch
    return lone.raft_node.handle(ev.AppendRequested(token, epoch, records, lone.now_ms + 60_000), lone.now)


# --- refused ------------------------------------------------------------------------------------------------


@covers("ACC-02", "D-13")
def test_who_does_not_lead_takes_nothing() -> None:
    lone = Lone()
    for become in (lambda: None, lambda: lone.ask_begin(5, 2), lambda: lone.run(2_500)):
        become()
        token = lone.append()
        assert lone.outcome(token) == ErrorCode.NOT_CONTROLLER, lone.raft_node.state
    assert not every(lone.effects, fx.Append)
    led = leader()
    led.run(3_000)
    assert isinstance(led.raft_node.state, Resigned)
    assert led.outcome(led.append()) == ErrorCode.NOT_CONTROLLER


@covers("ACC-03")
@pytest.mark.parametrize("off_by", [-1, 1])
def test_what_was_meant_for_another_epoch_is_not_taken(off_by: int) -> None:
    lone = leader()
    end = lone.raft_node.log.end_offset
    assert lone.outcome(lone.append(epoch=lone.epoch + off_by)) == ErrorCode.NOT_CONTROLLER
    assert lone.raft_node.log.end_offset == end


@covers("ACC-04", "ACC-21", "ACC-24")
def test_what_no_batch_can_hold_is_refused_whole_and_what_fills_one_is_taken() -> None:
    lone = leader()
    end = lone.raft_node.log.end_offset
    for records in ((b"x" * BATCH_BYTES_MAX,), (b"x" * (BATCH_BYTES_MAX // 2),) * 2, (b"x",) * 10_001):
        assert lone.outcome(lone.append(*records)) == ErrorCode.POLICY_VIOLATION
    assert lone.raft_node.log.end_offset == end
    del lone.effects[:]
    lone.append(b"x" * (BATCH_BYTES_MAX - 100))
    (batch,) = written(lone.effects)
    assert BATCH_BYTES_MAX - 100 < batch.size_bytes <= BATCH_BYTES_MAX
    assert BATCH_BYTES_MAX <= batch_header.BATCH_BYTES_MAX, "else nobody would read it back"
    assert (batch.epoch, batch.base_offset) == (lone.epoch, end)


@covers("ACC-05", "ACC-06")
def test_what_waits_for_its_commit_is_bounded() -> None:
    """Kafka counts buffers and batches; we count bytes, written or not, until they are committed."""
    lone = leader()
    lone.raft_node._raft.uncommitted_bytes_max = 10_000
    tokens = [lone.append(b"x" * 3_000) for _ in range(4)]
    assert [lone.outcome(token) for token in tokens] == [None] * 3 + [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    lone.ask_fetch(lone.raft_node.log.end_offset, lone.epoch)
    assert [lone.outcome(token) for token in tokens[:3]] == [ErrorCode.NONE] * 3
    assert lone.outcome(lone.append(b"x" * 3_000)) is None


def test_no_flood_of_changes_keeps_a_broker_from_being_fenced() -> None:
    lone = leader()
    lone.raft_node._raft.uncommitted_bytes_max = 10_000
    while lone.outcome(lone.append(b"x" * 3_000)) is None:
        pass
    urgent = ev.AppendRequested(77, lone.epoch, (b"x" * 3_000,), lone.now_ms + 60_000, is_urgent=True)
    lone.feed(urgent)
    assert lone.outcome(77) is None


# --- into which batch, and when -----------------------------------------------------------------------------


@covers("ACC-01", "ACC-12")
def test_an_offset_is_known_when_the_batch_is_cut_and_nothing_waits_prepared() -> None:
    """Kafka tells it first and writes later; here both are one step of the leader's own turn."""
    lone = leader(timing=LINGER)
    assert ask(lone, 1, b"a", b"b") == []
    assert ask(lone, 2, b"c") == []
    assert lone.poll() == []
    assert [batch.base_offset for batch in written(lone.run(25))] == [1]
    lone.ask_fetch(4, lone.epoch)
    assert [(done.token, done.end_offset) for done in every(lone.effects, fx.AppendDone)] == [(1, 3), (2, 4)]


@covers("ACC-07", "ACC-24", "ACC-20")
def test_the_records_of_one_append_stay_together_and_the_batch_before_is_closed_for_them() -> None:
    lone = leader()
    first, rest = b"x" * 5_000_000, (b"y" * 2_000_000, b"z" * 2_000_000)
    ask(lone, 1, first)
    ask(lone, 2, *rest)
    effects = lone.poll()
    assert values(written(effects)) == [[first], [*rest]]
    assert [type(effect) for effect in effects] == [fx.Append, fx.Flush], "one write and one flush for both"


@covers("ACC-08", "ACC-09", "ACC-10", "ACC-11")
def test_small_appends_share_a_batch_until_the_linger_of_the_first_is_over() -> None:
    lone = leader(timing=LINGER)
    lone.run(400)
    began_ms = lone.now_ms
    ask(lone, 1, b"a")
    assert lone.raft_node.wake_at_ms == began_ms + 25, "the first append wakes it earlier than it meant to"
    assert not written(lone.poll())
    lone.now_ms += 10
    ask(lone, 2, b"b")
    lone.poll()
    assert lone.raft_node.wake_at_ms == began_ms + 25, "the second one prolongs nothing"
    (batch,) = written(lone.run(15))
    assert batch.values() == [b"a", b"b"]
    assert batch.base_timestamp == WALL_MS + began_ms + 25, "stamped when it is cut"
    assert lone.raft_node.wake_at_ms > lone.now_ms + 25, "nothing is left to write"


@covers("ACC-22", "D-13")
@pytest.mark.parametrize("left_ms", [10, 0, -500], ids=["before the linger", "now", "in a freeze"])
def test_an_append_is_answered_at_its_deadline_though_the_linger_is_not_over(left_ms: int) -> None:
    """A process that was frozen takes in appends whose time is up: nobody waits for the linger as well."""
    lone = leader(timing=LINGER)
    token = lone.append(deadline_ms=left_ms)
    lone.run(max(left_ms, 0))
    assert lone.outcome(token) == ErrorCode.REQUEST_TIMED_OUT
    assert len(written(lone.effects)) == 2, "it was written all the same: its outcome is open"


@covers("ACC-11", "ACC-16")
def test_an_append_that_fills_the_batch_ends_the_linger() -> None:
    lone = leader(timing=LINGER)
    ask(lone, 1, b"x" * 5_000_000)
    assert not written(lone.poll())
    ask(lone, 2, b"x" * 5_000_000)
    assert lone.raft_node.wake_at_ms == lone.now_ms
    assert len(written(lone.poll())) == 2


@covers("ACC-16", "D-13")
def test_whoever_appended_in_one_turn_is_answered_though_it_takes_two_batches() -> None:
    lone = leader()
    tokens = (1, 2)
    for token in tokens:
        ask(lone, token, b"x" * 5_000_000)
    lone.poll()
    lone.establish()
    assert [lone.outcome(token) for token in tokens] == [ErrorCode.NONE, ErrorCode.NONE]


@covers("ACC-07", "D-13")
def test_a_group_that_was_committed_weighs_nothing() -> None:
    lone = leader()
    lone.raft_node._raft.uncommitted_bytes_max = 1_000_000
    token = lone.append(b"x" * 2_000_000)
    lone.establish()
    assert lone.outcome(token) == ErrorCode.NONE
    assert lone.raft_node.uncommitted_bytes == 0
    token = lone.append(b"small")
    lone.establish()
    assert lone.outcome(token) == ErrorCode.NONE


@covers("ACC-11")
def test_an_append_that_finds_the_linger_over_is_written_in_its_own_turn() -> None:
    lone = leader(timing=LINGER)
    ask(lone, 1, b"a")
    lone.poll()
    lone.now_ms += 30
    ask(lone, 2, b"b")
    assert values(written(lone.poll())) == [[b"a", b"b"]]


@covers("ACC-13", "ACC-14", "ACC-16", "VOTE-30")
def test_the_leaders_first_batch_goes_out_at_once_and_takes_what_waits_along() -> None:
    lone = Lone(epochs=(1, 1), election=Election(4), timing=LINGER).become_candidate()
    send = lone.asked(2, m.VoteRequest)
    assert send is not None
    granted = rpc.vote_response(ErrorCode.NONE, LeaderAndEpoch(lone.epoch, NO_NODE), granted=True)
    lone.raft_node.handle(ev.ResponseReceived(2, send.correlation_id, granted), lone.now)
    assert isinstance(lone.raft_node.state, Leader)
    ask(lone, 1, b"data")
    effects = lone.poll()
    assert len(every(effects, fx.Append)) == 1
    control, data = written(effects)
    assert (control.is_control, control.base_offset, control.epoch, control.record_count) == (True, 2, 5, 1)
    (record,) = control.records()
    one, two, three = map(LeaderChangeMessageVoter, (1, 2, 3))
    wanted = LeaderChangeMessage(leader_id=1, voters=(one, two, three), granting_voters=(one, two))
    assert decode_control(record.key, record.value) == wanted
    assert (data.is_control, data.base_offset, data.values()) == (False, 3, [b"data"])


@covers("ACC-15")
def test_what_came_in_is_written_in_its_turn_whatever_comes_next() -> None:
    """One thread takes appends and writes them, so that neither can hold up the other."""
    lone = leader()
    for number in range(100):
        ask(lone, number, b"%d" % number)
    (batch,) = written(lone.poll())
    assert batch.values() == [b"%d" % number for number in range(100)]
    assert lone.poll() == []


# --- the end ------------------------------------------------------------------------------------------------


def _by_a_leader(lone: Lone) -> None:
    lone.ask_begin(lone.epoch + 1, 2)
    assert isinstance(lone.raft_node.state, Follower)


def _by_a_vote(lone: Lone) -> None:
    lone.ask_vote(lone.epoch + 1)
    assert lone.raft_node.voted is not None


def _by_an_epoch(lone: Lone) -> None:
    lone.ask_vote(lone.epoch + 1, position=OffsetAndEpoch(0, 0))
    assert isinstance(lone.raft_node.state, Unattached)


def _by_check_quorum(lone: Lone) -> None:
    lone.run(2_000)
    assert isinstance(lone.raft_node.state, Resigned)


@covers("ACC-18", "ACC-22", "D-13")
@pytest.mark.parametrize("lose", [_by_a_leader, _by_a_vote, _by_an_epoch, _by_check_quorum])
def test_what_was_not_written_when_the_leadership_ends_never_is(lose: Callable[[Lone], None]) -> None:
    lone = leader(timing=Timing(append_linger_ms=9_000))
    lone.now_ms += 1_500
    end = lone.raft_node.log.end_offset
    ask(lone, 1, b"never written")
    lone.poll()
    lose(lone)
    assert lone.outcome(1) == ErrorCode.NOT_CONTROLLER, "safe to repeat"
    lone.run(10_000)
    assert lone.raft_node.log.end_offset == end
    assert not [batch for batch in written(lone.effects) if batch.values() == [b"never written"]]


@covers("ACC-22", "D-13")
def test_what_was_written_and_is_not_committed_in_time_is_told_so() -> None:
    """Kafka's waiters have a deadline in name only."""
    lone = leader()
    token = lone.append(deadline_ms=300)
    lone.run(299)
    assert lone.outcome(token) is None
    lone.run(1)
    assert lone.outcome(token) == ErrorCode.REQUEST_TIMED_OUT
