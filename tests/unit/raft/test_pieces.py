"""The pieces that a node is made of, one by one."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftd.errors import InvariantError
from kraftd.raft.accumulator import (
    BATCH_BYTES_MAX,
    Accumulator,
    PendingAppend,
    PendingAppends,
    QueuedAppend,
    is_too_large,
    size_of,
)
from kraftd.raft.leader_state import CheckQuorum, ReplicaState
from kraftd.raft.log_mirror import EpochCache, LogMirror, OpenedLog
from kraftd.raft.purgatory import PARKED_ANONYMOUS_MAX, PARKED_OBSERVERS_MAX, FetchPurgatory, PendingFetch
from kraftd.raft.request_manager import RequestKind, RequestManager
from kraftd.raft.timing import Timing
from kraftd.raft.voters import Quorum
from kraftd.records.batch import encode_batch
from kraftd.types import NEVER_MS, EpochEntry, Now, OffsetAndEpoch, ReplicaKey
from tests.stories.cluster import FixedRandom, SeededRandom, voter_set

# --- timing -------------------------------------------------------------------------------------------------


@pytest.mark.covers("VOTE-05")
def test_the_first_backoff_is_nothing_or_one_step_and_later_ones_grow_to_the_maximum() -> None:
    random_source, timing = SeededRandom(Random(1)), Timing()
    assert {timing.backoff_ms(1, random_source) for _ in range(100)} == {0, 100}
    assert {timing.backoff_ms(3, random_source) for _ in range(500)} == {0, 100, 200, 300, 400, 500, 600, 700}
    late = [timing.backoff_ms(30, random_source) for _ in range(500)]
    assert max(late) <= 1_000
    assert len(set(late)) > 100, "candidates that saturate must not retry in step (KAFKA-18345)"


@pytest.mark.covers("EQE-02")
def test_successors_wait_twice_as_long_from_one_to_the_next() -> None:
    assert [Timing().successor_delay_ms(p, 4) for p in range(4)] == [0, 125, 250, 500]
    assert Timing().successor_delay_ms(0, 1) == 0


@pytest.mark.covers("CQ-01", "BQE-01")
def test_spans_derive_from_the_fetch_timeout() -> None:
    assert (Timing().check_quorum_ms, Timing().heartbeat_interval_ms, Timing().park_ms) == (3_000, 1_000, 500)
    assert Timing(fetch_timeout_ms=400).park_ms == 200
    assert Timing(request_timeout_ms=500).park_ms == 250
    assert 1_000 <= Timing().election_ms(FixedRandom(0.999)) < 2_000
    assert Timing(election_timeout_ms=0).election_ms(FixedRandom(0.5)) == 1


# --- voters -------------------------------------------------------------------------------------------------


@pytest.mark.covers("HWM-01")
def test_a_voter_set_knows_its_majority_and_is_listed_by_id() -> None:
    voters = voter_set(3, 1, 2)
    assert [voter.id for voter in voters] == [1, 2, 3]
    assert voters.others(2) == (1, 3)
    assert voters.majority == 2
    assert voters.majority_reached([7, 3, 5]) == 5


@given(st.lists(st.integers(0, 20), min_size=1, max_size=7))
def test_the_majority_offset_is_held_by_a_majority_and_no_higher_one_is(offsets: list[int]) -> None:
    voters = voter_set(*range(len(offsets)))
    reached = voters.majority_reached(offsets)
    assert sum(offset >= reached for offset in offsets) * 2 > len(offsets)
    assert sum(offset > reached for offset in offsets) * 2 <= len(offsets)


# --- epochs -------------------------------------------------------------------------------------------------


@pytest.mark.covers("FREQ-12", "FREQ-13", "FREQ-14", "FREQ-15", "LOG-10")
def test_where_an_epoch_ends() -> None:
    cache = EpochCache([EpochEntry(1, 0), EpochEntry(3, 3), EpochEntry(5, 6)])
    assert cache.end_of(2, 9) == OffsetAndEpoch(3, 1)
    assert cache.end_of(3, 9) == OffsetAndEpoch(6, 3)
    assert cache.end_of(5, 9) == OffsetAndEpoch(9, 5)
    assert cache.end_of(8, 9) == OffsetAndEpoch(9, 5)
    assert cache.end_of(0, 9) == OffsetAndEpoch(0, 0)


@pytest.mark.covers("LOG-09", "LOG-07")
def test_the_cache_forgets_what_contradicts_a_new_epoch() -> None:
    cache = EpochCache([EpochEntry(1, 0), EpochEntry(3, 3)])
    cache.assign(3, 4)
    assert cache.entries == (EpochEntry(1, 0), EpochEntry(3, 3))
    cache.assign(5, 3)
    assert cache.entries == (EpochEntry(1, 0), EpochEntry(5, 3))
    cache.truncate(3)
    assert cache.entries == (EpochEntry(1, 0),)
    assert cache.last_epoch == 1
    cache.truncate(0)
    assert (cache.last_epoch, cache.entries) == (0, ())


# --- the tail -----------------------------------------------------------------------------------------------


def batch(base: int, count: int = 1, epoch: int = 1) -> bytes:
    return encode_batch(base, epoch, 0, [b"x" * 40] * count)


@pytest.mark.covers("D-03")
def test_a_flush_of_an_older_generation_says_nothing() -> None:
    log = LogMirror(OpenedLog())
    log.append(0, 1, [batch(0)])
    log.append(1, 2, [batch(1)])
    flush = log.flush()
    assert flush is not None
    assert (flush.generation, flush.end_offset) == (0, 2)
    assert log.flush() is None, "one flush runs at a time"
    assert log.truncate(1).generation == 1
    log.append(1, 2, [batch(1, epoch=2)])
    assert not log.on_flushed(0, 2)
    assert log.flushed_offset == 0, "the record at 1 is another one now"
    again = log.flush()
    assert again is not None
    assert log.on_flushed(again.generation, again.end_offset)
    assert log.is_flushed


@pytest.mark.covers("D-03")
def test_a_flush_cannot_have_covered_more_than_there_is() -> None:
    log = LogMirror(OpenedLog())
    with pytest.raises(InvariantError):
        log.on_flushed(0, 5)


@pytest.mark.covers("D-15", "FREQ-05", "LOG-05")
def test_the_tail_serves_whole_batches_and_sheds_the_oldest() -> None:
    log = LogMirror(OpenedLog(), bytes_max=1_000)
    for base in range(0, 40, 2):
        log.append(base, base + 2, [batch(base, 2)])
    assert log.read(0, 1 << 20) is None
    last = batch(38, 2)
    assert log.read(39, 1 << 20) == [last], "from the batch that holds the offset"
    assert log.read(40, 1 << 20) == []
    assert log.read(36, 1) == [batch(36, 2)], "the first one comes whole"
    assert log.read(36, 1 << 20, limit=38) == [batch(36, 2)]
    assert log.boundary_at_most(39) == 38
    assert log.boundary_at_most(1) is None


@pytest.mark.covers("D-15", "D-16")
def test_a_large_tail_sheds_a_mebibyte_at_once_and_no_half() -> None:
    """Half of 16 MiB are fifty thousand batches of one change: to free them takes a turn of 10 ms."""
    log = LogMirror(OpenedLog(), bytes_max=16 << 20)
    a_batch = batch(0, 1) + bytes(64 * 1_024)
    appended = 0
    while log.read(0, 1) is not None:
        log.append(appended, appended + 1, [a_batch])
        appended += 1
    held = next(offset for offset in range(appended) if log.read(offset, 1) is not None)
    assert held * len(a_batch) <= (1 << 20) + 2 * len(a_batch)


@pytest.mark.covers("FREQ-13", "FREQ-17")
def test_a_position_lies_on_the_log_or_the_log_says_where_they_part() -> None:
    log = LogMirror(OpenedLog(end_offset=9, epochs=(EpochEntry(1, 0), EpochEntry(3, 3), EpochEntry(5, 6))))
    assert log.diverges_at(OffsetAndEpoch(0, 7)) is None
    assert log.diverges_at(OffsetAndEpoch(6, 3)) is None
    assert log.diverges_at(OffsetAndEpoch(7, 3)) == OffsetAndEpoch(6, 3)
    assert log.diverges_at(OffsetAndEpoch(6, 2)) == OffsetAndEpoch(3, 1)
    assert log.diverges_at(OffsetAndEpoch(10, 5)) == OffsetAndEpoch(9, 5)


# --- requests -----------------------------------------------------------------------------------------------


@pytest.mark.covers("REQ-01", "REQ-02", "REQ-03", "VOTE-31")
def test_a_response_counts_once_and_only_under_its_own_id() -> None:
    requests = RequestManager(timeout_ms=100, backoff_ms=20)
    first = requests.send(2, RequestKind.VOTE, 1, 0)
    assert not requests.is_ready(2, RequestKind.VOTE, 0)
    assert requests.is_ready(2, RequestKind.FETCH, 0)
    assert requests.take(3, first) is None
    assert requests.take(2, first) is not None
    assert requests.take(2, first) is None
    requests.back_off(2, RequestKind.VOTE, 0)
    assert not requests.is_ready(2, RequestKind.VOTE, 19)
    assert requests.next_ready_ms([2], RequestKind.VOTE) == 20
    second = requests.send(2, RequestKind.VOTE, 1, 20)
    assert [sent.correlation_id for sent in requests.expire(120)] == [second]
    assert requests.is_ready(2, RequestKind.VOTE, 120), "a request that timed out is repeated at once"
    third = requests.send(2, RequestKind.VOTE, 1, 120)
    requests.reset()
    assert requests.take(2, third) is None
    assert requests.next_timeout_ms() == NEVER_MS


# --- accumulator and waiters --------------------------------------------------------------------------------


@pytest.mark.covers("ACC-07", "ACC-24")
def test_the_records_of_one_append_share_one_batch() -> None:
    accumulator = Accumulator(linger_ms=0)
    half = (b"x" * (BATCH_BYTES_MAX // 2 + 1),)
    accumulator.add(QueuedAppend(1, (b"a", b"b"), size_of((b"a", b"b")), 9), 0)
    accumulator.add(QueuedAppend(2, half, size_of(half), 9), 0)
    accumulator.add(QueuedAppend(3, half, size_of(half), 9), 0)
    groups = [[append.token for append in group.appends] for group in accumulator.drain()]
    assert groups == [[1, 2], [3]]
    assert accumulator.size_bytes == 0
    assert list(accumulator.drain()) == []


@pytest.mark.covers("ACC-09", "ACC-10")
def test_linger_begins_with_the_first_append() -> None:
    accumulator = Accumulator(linger_ms=25)
    assert accumulator.drain_at_ms == NEVER_MS
    accumulator.add(QueuedAppend(1, (b"a",), 1, 999), 100)
    accumulator.add(QueuedAppend(2, (b"a",), 1, 999), 110)
    assert accumulator.drain_at_ms == 125


@pytest.mark.covers("ACC-04")
def test_what_never_fits_is_told_apart() -> None:
    assert is_too_large((b"x",) * 10_001, 10)
    large = (b"x" * BATCH_BYTES_MAX,)
    assert is_too_large(large, size_of(large))
    assert not is_too_large((b"x",) * 10_000, size_of((b"x",) * 10_000))


@pytest.mark.covers("D-13", "REQ-12")
def test_waiters_leave_by_offset_or_by_deadline() -> None:
    pending_appends = PendingAppends()
    pending_appends.add([PendingAppend(1, 11, 50), PendingAppend(2, 12, 10), PendingAppend(3, 13, 90)])
    assert [waiter.token for waiter in pending_appends.take_committed(1)] == [11]
    assert pending_appends.take_expired(9) == []
    assert [waiter.token for waiter in pending_appends.take_expired(10)] == [12]
    assert pending_appends.check_at_ms == 90
    assert [waiter.token for waiter in pending_appends.take_all()] == [13]
    assert pending_appends.check_at_ms == NEVER_MS


# --- progress -----------------------------------------------------------------------------------------------


def at(ms: int) -> Now:
    return Now(ms, 1_000_000 + ms)


@pytest.mark.covers("D-11", "FREQ-27")
def test_asking_again_for_what_was_given_is_no_progress() -> None:
    progress = ReplicaState(ReplicaKey(2))
    assert progress.on_fetch(5, 10, at(0))
    assert not progress.on_fetch(5, 10, at(1)), "KAFKA-15911: it fetches, but never gets on"
    assert progress.on_fetch(6, 10, at(2))
    assert progress.on_fetch(10, 12, at(3)), "it reached what the leader had at its previous fetch"
    assert progress.on_fetch(12, 12, at(4))
    assert progress.on_fetch(12, 12, at(5)), "an idle quorum is alive"
    assert not progress.on_fetch(3, 12, at(6)), "a regression is none"
    assert progress.fetch_offset == 3
    assert progress.on_fetch(4, 12, at(7)), "and starts the comparison anew"


@pytest.mark.covers("DQ-04")
def test_caught_up_means_level_now_or_level_with_the_previous_look() -> None:
    progress = ReplicaState(ReplicaKey(2))
    progress.on_fetch(5, 10, at(0))
    assert progress.caught_up_ms == -1
    progress.on_fetch(10, 20, at(7))
    assert progress.caught_up_ms == 1_000_000, "the time of the previous fetch"
    progress.on_fetch(20, 20, at(9))
    assert progress.caught_up_ms == 1_000_009


def quorum_of(voters: int) -> Quorum:
    return Quorum(1, voter_set(*range(1, voters + 1)))


@pytest.mark.covers("CQ-02", "CQ-05")
def test_check_quorum_starts_again_for_all_once_enough_were_heard() -> None:
    quorum = CheckQuorum(quorum_of(5), span_ms=100, now_ms=0)
    quorum.record_fetch(2, 50)
    quorum.record_fetch(2, 60)
    assert quorum.deadline_ms == 100
    quorum.record_fetch(3, 70)
    assert quorum.deadline_ms == 170
    assert not quorum.is_over(169)
    assert quorum.is_over(170)
    quorum.record_fetch(2, 170)
    quorum.record_fetch(3, 170)
    assert quorum.is_over(170), "too late"
    assert not CheckQuorum(quorum_of(1), span_ms=100, now_ms=0).is_over(1_000)


# --- parked fetches -----------------------------------------------------------------------------------------


def fetch(handle: int, replica: int = 2, offset: int = 5, known: int = 5, deadline: int = 9) -> PendingFetch:
    return PendingFetch(handle, replica, offset, known, 1, 18, deadline, is_follower=replica in (2, 3))


@pytest.mark.covers("D-10", "FREQ-07")
def test_a_parked_fetch_leaves_for_a_high_watermark_it_does_not_know() -> None:
    purgatory = FetchPurgatory()
    purgatory.park(fetch(1, replica=2, offset=5, known=3))
    purgatory.park(fetch(2, replica=3, offset=5, known=1 << 63))
    purgatory.park(fetch(3, replica=-1, offset=4))
    assert [f.handle for f in purgatory.take_below_high_watermark(3)] == []
    assert [f.handle for f in purgatory.take_below_high_watermark(5)] == [1]
    assert [f.handle for f in purgatory.take_group(5, 0)] == [3]
    assert [f.handle for f in purgatory.take_expired(9)] == [2]
    assert purgatory.next_deadline_ms == NEVER_MS


@pytest.mark.covers("D-40", "FREQ-07")
def test_a_followers_wait_ends_in_time_though_an_observer_waits_longer() -> None:
    purgatory = FetchPurgatory()
    purgatory.park(fetch(1, replica=2, deadline=150))
    purgatory.park(fetch(2, replica=3, deadline=180))
    purgatory.park(fetch(3, replica=101, deadline=500))
    assert [f.handle for f in purgatory.take_expired(150)] == [1]
    assert purgatory.next_deadline_ms == 180
    assert [f.handle for f in purgatory.take_expired(180)] == [2]
    assert purgatory.next_deadline_ms == 500
    assert [f.handle for f in purgatory.take_expired(500)] == [3]
    assert purgatory.next_deadline_ms == NEVER_MS


def test_one_parked_fetch_a_replica() -> None:
    purgatory = FetchPurgatory()
    purgatory.park(fetch(1))
    replaced = purgatory.take_replaced(fetch(2))
    assert replaced is not None
    assert replaced.handle == 1
    purgatory.park(fetch(3, replica=-1))
    assert purgatory.take_replaced(fetch(4, replica=-1)) is None


def test_whoever_is_no_follower_parks_as_many_as_there_is_room_for_whatever_ids_it_says() -> None:
    purgatory = FetchPurgatory()
    for handle in range(PARKED_ANONYMOUS_MAX):
        assert not purgatory.is_full_for(-1)
        purgatory.park(fetch(handle, replica=-1))
    assert purgatory.is_full_for(-1)
    for handle in range(PARKED_ANONYMOUS_MAX, PARKED_OBSERVERS_MAX):
        assert not purgatory.is_full_for(handle)
        purgatory.park(fetch(handle, replica=handle))
    assert purgatory.is_full_for(PARKED_OBSERVERS_MAX)


def test_values_kept_for_the_state_machine_go_with_their_batch() -> None:
    """What was appended twice under one offset, with a cut between, is never mixed up."""
    tail = LogMirror(OpenedLog())
    tail.append(0, 1, [encode_batch(0, 1, 0, [b"a"])])
    tail.keep_values(0, [b"a"])
    assert tail.take_values(0) == [b"a"]
    assert tail.take_values(0) is None
    tail.keep_values(0, [b"a"])
    tail.truncate(0)
    tail.append(0, 1, [encode_batch(0, 2, 0, [b"b"])])
    assert tail.take_values(0) is None
