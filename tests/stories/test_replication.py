"""Stories of replication: what is acknowledged, what is committed, and what may be cut."""

import struct
from collections.abc import Callable
from itertools import pairwise

import crc32c
import pytest

from kraftd.audit.invariants import Auditor, Violation
from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import rpc
from kraftd.raft.epoch_states import Follower, Leader
from kraftd.raft.events import (
    AppendRequested,
    Applied,
    Event,
    LogFlushed,
    RequestReceived,
    ResponseReceived,
)
from kraftd.raft.rpc import FetchParams, LeaderAndEpoch
from kraftd.records.batch import encode_batch, scan
from kraftd.records.batch_header import HEADER_BYTES
from kraftd.types import Election, OffsetAndEpoch, ReplicaKey
from tests.stories.cluster import Cluster, Node


def with_logs(logs: dict[int, list[int]], *, epoch: int, **options: object) -> Cluster:
    """A cluster whose nodes hold one record of each of these epochs, and know no leader."""
    cluster = Cluster(sorted(logs), start=False, **options)
    for node_id, epochs in logs.items():
        disk = cluster.nodes[node_id].disk
        disk.batches = [encode_batch(n, e, 0, [b"%d of epoch %d" % (n, e)]) for n, e in enumerate(epochs)]
        disk.durable_count = len(epochs)
        disk.election = Election(epoch)
    return cluster


def with_good_checksum(batch: bytes) -> bytes:
    """The batch with its length and its checksum as they would be if it had been written on purpose."""
    body = batch[21:]
    size, crc = struct.pack(">i", len(batch) - 12), struct.pack(">I", crc32c.crc32c(body))
    return batch[:8] + size + batch[12:17] + crc + body


@pytest.mark.covers("D-40", "FREQ-07")
def test_followers_that_fetch_at_other_times_are_answered_after_a_beat_though_an_observer_waits() -> None:
    """The observer's fetch is parked for half a second, each follower's for 150 ms."""
    cluster = Cluster(observers=(9,))
    assert cluster.elect() == 1
    answered: dict[int, list[int]] = {2: [], 3: []}
    take_in = cluster.take_in

    def watch(node: Node, event: Event) -> None:
        if isinstance(event, ResponseReceived) and isinstance(event.response, m.FetchResponse):
            answered.get(node.id, []).append(cluster.now_ms)
        take_in(node, event)

    cluster.take_in = watch  # type: ignore[method-assign]
    for _ in range(4):
        # The sync of node 3 takes 70 ms: its next fetch comes so much later than that of node 2.
        cluster.hold_flushes(3)
        cluster.append(1)
        cluster.run(70)
        cluster.release_flushes(3)
        cluster.run(430)
    for times in answered.values():
        assert max(after - before for before, after in pairwise(times)) <= 150 + 2
    for follower in (2, 3):
        assert cluster.raft_node(follower)._raft.suspicion.span_ms == 3 * 152


@pytest.mark.covers("HWM-02", "D-10")
def test_s1_to_s5_a_record_of_an_older_epoch_on_a_majority_is_not_committed() -> None:
    """The case of Raft 5.4.2: S1 wrote in epoch 2, S5 in epoch 3, and both come back."""
    cluster = with_logs({1: [1, 2], 2: [1, 2], 3: [1], 4: [1], 5: [1, 3]}, epoch=3)

    # c) S1 leads again, in epoch 4; S3 has taken its record of epoch 2, but none of epoch 4 yet.
    for n in (1, 2, 3):
        cluster.start(n)
    cluster.run_until(lambda: cluster.leader == 1)
    leader = cluster.raft_node(1)
    cluster.isolate(1)
    for follower in (2, 3):
        position = OffsetAndEpoch(2, 2)
        ask = FetchParams(
            ReplicaKey(follower, cluster.nodes[follower].disk.directory_id), leader.epoch, position, -1, 500
        )
        request = rpc.fetch_request("story", ask, 1 << 20)
        cluster.feed(1, RequestReceived(10**7 + follower, request, 18, cluster.identity(follower)))
    cluster.run(5)
    assert isinstance(leader.state, Leader)
    assert leader.state.epoch_start_offset == 2
    assert leader.high_watermark == -1, "the record of epoch 2 is on a majority, and still not committed"
    cluster.crash(3)
    disk = cluster.nodes[3].disk
    disk.batches = list(cluster.nodes[1].disk.batches[:2])
    disk.durable_count = 2
    cluster.crash(1)

    # d) S5 wins epoch 5 with its record of epoch 3, and overwrites the record of epoch 2 everywhere.
    cluster.heal()
    cluster.crash(2)
    for n in (3, 4, 5):
        cluster.start(n)
    cluster.run_until(lambda: cluster.leader == 5 and cluster.has_leader())
    for n in (1, 2):
        cluster.start(n)
    cluster.run_until(cluster.has_converged)
    assert all(cluster.values(n)[1] == b"1 of epoch 3" for n in cluster.nodes)


@pytest.mark.covers("HWM-02")
def test_an_older_record_is_committed_together_with_one_of_the_own_epoch() -> None:
    cluster = with_logs({1: [1, 2], 2: [1], 3: [1]}, epoch=2)
    for n in (1, 2, 3):
        cluster.start(n)
    assert cluster.elect() == 1
    assert cluster.values(1) == [b"0 of epoch 1", b"1 of epoch 2"]
    assert cluster.raft_node(1).high_watermark == 3


@pytest.mark.covers("FRSP-05", "FRSP-06", "FREQ-12", "D-03", "D-14")
def test_a_diverging_tail_is_cut_and_replaced(golden: Callable[[str], None]) -> None:
    cluster = with_logs({1: [1, 1, 4], 2: [1, 1, 4], 3: [1, 1, 2, 3]}, epoch=4)
    for n in (1, 2):
        cluster.start(n)
    cluster.elect()
    cluster.take_trace()
    cluster.start(3)
    cluster.run_until(cluster.has_converged)
    assert cluster.values(3) == cluster.values(1)
    golden(cluster.take_trace())


@pytest.mark.covers("FRSP-05", "D-15")
def test_a_cut_that_the_tail_does_not_hold_asks_the_disk_where_the_batch_ends() -> None:
    cluster = with_logs({1: [1, 1, 4], 2: [1, 1, 4], 3: [1] * 9}, epoch=4, tail_bytes=1)
    for n in (1, 2):
        cluster.start(n)
    cluster.elect()
    cluster.take_trace()
    cluster.start(3)
    cluster.run_until(cluster.has_converged)
    trace = cluster.take_trace()
    assert "3 > ColdRead" in trace
    assert "3 > Truncate end_offset=2 generation=1" in trace


@pytest.mark.covers("D-15")
def test_what_left_memory_is_read_from_the_disk_for_a_late_follower() -> None:
    cluster = Cluster(tail_bytes=300, start=False)
    cluster.start(1)
    cluster.start(2)
    cluster.elect()
    for _ in range(20):
        cluster.append(1)
        cluster.run(5)
    cluster.take_trace()
    cluster.start(3)
    cluster.run_until(cluster.has_converged)
    assert " 1 > ColdRead" in cluster.take_trace()
    assert len(cluster.values(3)) == 20


@pytest.mark.covers("D-14", "FRSP-07", "HWM-13")
def test_a_leader_that_wants_to_cut_what_is_committed_is_not_followed() -> None:
    """Nothing is cut, nobody dies: an alarm, and no more fetches in that epoch."""
    cluster = Cluster()
    cluster.elect()
    cluster.append(1)
    cluster.run(100)
    raft_node = cluster.raft_node(3)
    lie = rpc.fetch_response(
        ErrorCode.NONE, LeaderAndEpoch(raft_node.epoch, 1), high_watermark=2, diverging=OffsetAndEpoch(1, 1)
    )
    before = raft_node.log.end_offset
    asked = cluster.nodes[3].last_send
    cluster.feed(3, ResponseReceived(1, asked.correlation_id, lie))
    assert raft_node.log.end_offset == before
    assert "diverged_below_high_watermark" in cluster.nodes[3].alarms
    cluster.take_trace()
    cluster.run(1_000)
    fetches = [line for line in cluster.take_trace().splitlines() if " 3 > Send" in line and "Fetch" in line]
    assert fetches == []


@pytest.mark.covers("D-02", "D-10", "Q-11")
def test_the_leader_counts_itself_only_up_to_what_it_has_flushed() -> None:
    cluster = Cluster((1, 2))
    cluster.elect()
    cluster.hold_flushes(1)
    token = cluster.append(1)
    cluster.run(100)
    one, two = cluster.raft_node(1), cluster.raft_node(2)
    assert two.log.flushed_offset == one.log.end_offset, "served before its flush"
    assert cluster.outcome(1, token) is None
    cluster.release_flushes(1)
    assert cluster.outcome(1, token) == 0


@pytest.mark.covers("D-02", "FRSP-02")
def test_a_follower_fetches_on_only_when_its_flush_is_done() -> None:
    cluster = Cluster((1, 2))
    cluster.elect()
    cluster.run(10)
    cluster.hold_flushes(2)
    token = cluster.append(1)
    cluster.run(400)
    assert cluster.raft_node(2).log.end_offset > cluster.raft_node(2).log.flushed_offset
    assert cluster.outcome(1, token) is None
    cluster.release_flushes(2)
    cluster.run(5)
    assert cluster.outcome(1, token) == 0


@pytest.mark.covers("D-03")
def test_a_flush_that_ends_after_a_truncation_is_void() -> None:
    cluster = with_logs({1: [1, 3], 2: [1, 3], 3: [1, 2, 2]}, epoch=3)
    for n in (1, 2, 3):
        cluster.start(n)
    cluster.elect()
    cluster.run_until(cluster.has_converged)
    raft_node = cluster.raft_node(3)
    end = raft_node.log.end_offset
    cluster.hold_flushes(3)
    cluster.append(1)
    cluster.run(50)
    cluster.feed(3, LogFlushed(0, end + 1))
    assert raft_node.log.flushed_offset == end, "generation 0 was cut off"


@pytest.mark.covers("D-10", "Q-10")
def test_followers_hear_of_a_commit_at_once() -> None:
    """KIP-1166: not at the end of a long poll, 500 ms later."""
    cluster = Cluster()
    cluster.elect()
    cluster.run(1_000)
    cluster.append(1)
    cluster.run(10)
    assert {cluster.raft_node(n).high_watermark for n in (1, 2, 3)} == {2}


@pytest.mark.covers("D-11", "CQ-01")
def test_a_leader_that_nobody_follows_resigns() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    cluster.isolate(1)
    cluster.run_until(lambda: not cluster.raft_node(1).is_leader, 4_000)


@pytest.mark.covers("D-11")
def test_followers_that_fetch_but_never_get_on_do_not_keep_a_leader() -> None:
    """KAFKA-15911: they ask for the same offset for ever, because they cannot append."""
    cluster = Cluster((1, 2))
    cluster.elect()
    cluster.append(1)
    cluster.run(20)
    stuck = cluster.identity(2)
    leader = cluster.raft_node(1)
    cluster.isolate(1)
    began, handle = cluster.now_ms, 10**7
    while leader.is_leader and cluster.now_ms < began + 10_000:
        handle += 1
        ask = FetchParams(ReplicaKey(2, stuck.directory_id), leader.epoch, OffsetAndEpoch(1, 1), -1, 0)
        cluster.feed(1, RequestReceived(handle, rpc.fetch_request("story", ask, 1), 18, stuck))
        cluster.run(100)
    assert cluster.now_ms - began <= 3_200


@pytest.mark.covers("D-13", "BQE-04")
def test_when_leadership_ends_every_waiter_and_parked_fetch_is_answered() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(50)
    cluster.isolate(1)
    written = cluster.append(1, b"in the log of 1 only")
    cluster.run(50)
    reading = cluster.read(1, deadline_ms=60_000)
    cluster.run_until(lambda: cluster.leader not in (None, 1) and cluster.has_leader())
    cluster.run_until(lambda: not cluster.raft_node(1).is_leader)
    assert cluster.outcome(1, written) == ErrorCode.REQUEST_TIMED_OUT, "appended, outcome unknown"
    assert cluster.outcome(1, reading) == ErrorCode.NOT_CONTROLLER
    refused = cluster.append(1, b"too late")
    assert cluster.outcome(1, refused) == ErrorCode.NOT_CONTROLLER, "not appended, safe to repeat"
    cluster.heal()
    cluster.run_until(cluster.has_converged)
    assert b"in the log of 1 only" not in cluster.values(1)


@pytest.mark.covers("D-13")
def test_what_another_leader_put_at_the_same_offset_completes_no_waiter() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(50)
    cluster.isolate(1)
    token = cluster.append(1, b"mine", deadline_ms=60_000)
    cluster.run_until(lambda: cluster.leader not in (None, 1) and cluster.has_leader())
    new = cluster.leader or 0
    cluster.append(new, b"theirs")
    cluster.run(50)
    cluster.heal()
    cluster.run_until(cluster.has_converged)
    assert cluster.values(1) == [b"theirs"]
    assert cluster.outcome(1, token) == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.covers("D-13")
def test_every_append_has_a_deadline() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(50)
    cluster.isolate(1)
    token = cluster.append(1, deadline_ms=300)
    cluster.run(301)
    assert cluster.outcome(1, token) == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.covers("D-16", "ACC-20", "ACC-08")
def test_what_comes_in_one_turn_is_one_write_and_one_flush() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(50)
    raft_node, now = cluster.raft_node(1), cluster.now(cluster.nodes[1])
    for token in range(256):
        assert raft_node.handle(AppendRequested(token, 1, [b"r%d" % token], now.mono_ms + 1_000), now) == []
    effects = raft_node.poll(now)
    kinds = [type(effect).__name__ for effect in effects]
    assert kinds == ["Append", "Flush", "Reply", "Reply"]
    assert len(effects[0].batches) == 1
    assert effects[0].end_offset - effects[0].base_offset == 256


@pytest.mark.covers("ACC-06")
def test_a_full_accumulator_says_so_and_takes_appends_again_later() -> None:
    cluster = Cluster(uncommitted_bytes_max=10_000)
    cluster.elect()
    cluster.run(50)
    cluster.isolate(1)
    tokens = [cluster.append(1, b"x" * 3_000) for _ in range(5)]
    assert [cluster.outcome(1, token) for token in tokens][-2:] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 2
    assert cluster.raft_node(1).uncommitted_bytes <= 10_000
    cluster.heal()
    cluster.run(1_000)
    again = cluster.append(cluster.leader or 0, b"x" * 3_000)
    cluster.run(100)
    assert cluster.outcome(cluster.leader or 0, again) == 0


@pytest.mark.covers("ACC-04")
def test_an_append_that_no_batch_can_hold_is_refused_alone() -> None:
    cluster = Cluster()
    cluster.elect()
    large = cluster.append(1, b"x" * (8 << 20))
    small = cluster.append(1, b"x")
    cluster.run(50)
    assert cluster.outcome(1, large) == ErrorCode.POLICY_VIOLATION
    assert cluster.outcome(1, small) == 0


@pytest.mark.covers("D-14", "Q-07", "FRSP-17")
@pytest.mark.parametrize(
    "damage", ["gap", "overlap", "old epoch", "future epoch", "flipped bit", "no records"]
)
def test_records_that_do_not_continue_the_log_are_refused_whole(damage: str) -> None:
    cluster = with_logs({1: [2, 2], 2: [2, 2]}, epoch=2)
    cluster.start(1)
    cluster.start(2)
    cluster.elect()
    cluster.run(50)
    raft_node = cluster.raft_node(2)
    end, epoch = raft_node.log.end_offset, raft_node.epoch
    batch = {
        "gap": encode_batch(end + 1, epoch, 0, [b"x"]),
        "overlap": encode_batch(end - 1, epoch, 0, [b"x"]),
        "old epoch": encode_batch(end, epoch - 1, 0, [b"x"]),
        "future epoch": encode_batch(end, epoch + 1, 0, [b"x"]),
        "flipped bit": encode_batch(end, epoch, 0, [b"x"])[:-2] + b"\xff\x00",
        "no records": with_good_checksum(encode_batch(end, epoch, 0, [b"x"])[:HEADER_BYTES] + b"\xff" * 9),
    }[damage]
    sent = cluster.nodes[2].last_send
    response = rpc.fetch_response(ErrorCode.NONE, LeaderAndEpoch(raft_node.epoch, 1), high_watermark=end)
    cluster.take_trace()
    cluster.feed(2, ResponseReceived(1, sent.correlation_id, response, batch))
    assert raft_node.log.end_offset == end
    assert "bad_batch" in cluster.take_trace()
    assert isinstance(raft_node.state, Follower)


@pytest.mark.covers("FRSP-18", "FRSP-19")
def test_a_cut_end_of_a_response_is_left_out() -> None:
    cluster = Cluster((1, 2))
    cluster.elect()
    cluster.run(50)
    raft_node = cluster.raft_node(2)
    end = raft_node.log.end_offset
    sent = cluster.nodes[2].last_send
    response = rpc.fetch_response(ErrorCode.NONE, LeaderAndEpoch(raft_node.epoch, 1), high_watermark=end)
    whole, cut = encode_batch(end, 1, 0, [b"x"]), encode_batch(end + 1, 1, 0, [b"y"])[:-3]
    effects = raft_node.handle(
        ResponseReceived(1, sent.correlation_id, response, whole + cut), cluster.now(cluster.nodes[2])
    )
    assert [type(effect) for effect in effects] == [fx.Append, fx.Flush], (
        "the list ends with the flush (D-02)"
    )
    assert raft_node.log.end_offset == end + 1


@pytest.mark.covers("D-18", "LSN-12", "LSN-14")
def test_the_state_machine_leads_only_after_it_applied_its_own_leader_change() -> None:
    cluster = Cluster()
    cluster.run_until(lambda: cluster.leader == 1)
    assert cluster.nodes[1].announced[-1] == (1, -1)
    cluster.elect()
    cluster.run(5)
    assert cluster.nodes[1].announced[-1] == (1, 1)
    told = len(cluster.nodes[1].announced)
    cluster.resign(1)
    cluster.run(1)
    assert len(cluster.nodes[1].announced) == told, "Resigned notifies nobody (KAFKA-17333)"


@pytest.mark.covers("D-18", "LSN-12")
def test_having_applied_everything_before_the_epoch_is_not_enough_to_lead() -> None:
    """KAFKA-15345: the machine would decide on a state that may still miss records."""
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    cluster.hold_flushes(1, 2, 3)
    cluster.resign(1, to=2)
    cluster.run_until(lambda: cluster.leader == 2)
    state = cluster.raft_node(2).state
    assert isinstance(state, Leader)
    cluster.feed(2, Applied(state.epoch_start_offset))
    assert (state.epoch, 2) not in cluster.nodes[2].announced
    for n in (1, 2, 3):
        cluster.release_flushes(n)
    cluster.run(50)
    assert cluster.nodes[2].announced[-1] == (state.epoch, 2)


def test_the_auditor_would_have_seen_it() -> None:
    """A leader that counts unflushed records is caught by the invariants that every story runs under."""
    cluster = Cluster((1, 2))
    cluster.elect()
    cluster.hold_flushes(1)
    log = cluster.raft_node(1).log
    with pytest.raises(Violation, match="only"):
        cluster.append(1)
        log.flushed_offset = log.end_offset
        cluster.run(100)


@pytest.mark.covers("D-14", "OBS-01")
def test_an_observer_that_gave_up_on_its_leader_lives_and_finds_the_next_one() -> None:
    """Nobody announces an epoch to an observer: it asks the others now and then, until there is one."""
    cluster = Cluster(observers=(9,), bootstrap_observers=True)
    cluster.elect()
    cluster.append(1)
    cluster.run(2_000)
    observer = cluster.raft_node(9)
    lie = rpc.fetch_response(
        ErrorCode.NONE, LeaderAndEpoch(observer.epoch, 1), high_watermark=2, diverging=OffsetAndEpoch(1, 1)
    )
    asked = cluster.nodes[9].last_send
    cluster.feed(9, ResponseReceived(1, asked.correlation_id, lie))
    assert "diverged_below_high_watermark" in cluster.nodes[9].alarms
    cluster.take_trace()
    cluster.run(10_000)
    sends = [line for line in cluster.take_trace().splitlines() if " 9 > Send" in line]
    assert 0 < len(sends) < 100
    assert not [line for line in sends if "to=1 " in line]
    cluster.resign(1, to=2)
    cluster.run(5_000)
    assert observer.leader_id == 2
    token = cluster.append(2, b"from the next leader")
    cluster.run(100)
    assert cluster.outcome(2, token) == 0
    assert cluster.values(9)[-1] == b"from the next leader"


@pytest.mark.covers("D-15")
def test_a_client_is_given_nothing_uncommitted_from_the_disk_either() -> None:
    """What is read in a thread goes to the end of the log; who has no replica id gets the committed part."""
    cluster = Cluster(tail_bytes=300)
    leader = cluster.elect()
    for n in range(20):
        cluster.append(leader, b"committed %d" % n)
        cluster.run(50)
    for other in (2, 3):
        cluster.hold_flushes(other)
    cluster.append(leader, b"not committed")
    cluster.run(50)
    raft_node = cluster.raft_node(leader)
    assert raft_node.high_watermark < raft_node.log.end_offset
    handle = 10**8
    for offset in (0, raft_node.high_watermark):
        position = OffsetAndEpoch(offset, 0 if offset == 0 else raft_node.epoch)
        ask = FetchParams(ReplicaKey(-1), raft_node.epoch, position, 1 << 62, 0)
        handle += 1
        cluster.feed(leader, RequestReceived(handle, rpc.fetch_request("story", ask, 1 << 20), 18, None))
        cluster.run(20)
        reply = cluster.nodes[leader].outcomes[handle]
        given = [value for batch in scan(b"".join(reply.records)) for value in batch.values()]
        assert given == ([b"committed %d" % n for n in range(20)] if offset == 0 else [])


@pytest.mark.covers("FREQ-12", "LOG-10")
def test_a_follower_whose_last_epoch_the_leader_never_had_cuts_it_although_its_offset_fits() -> None:
    """Both logs hold offset 1, but not the same record: only its epoch tells."""
    cluster = with_logs({1: [1, 1, 3], 2: [1, 2], 3: [1, 1, 3]}, epoch=3)
    for n in (1, 2, 3):
        cluster.start(n)
    cluster.elect()
    cluster.run_until(cluster.has_converged)
    held = [[batch.raw.tobytes() for batch in scan(b"".join(n.disk.batches))] for n in cluster.nodes.values()]
    assert held[0] == held[1] == held[2]
    assert b"1 of epoch 1" in cluster.values(2)


@pytest.mark.covers("HWM-12", "D-02")
def test_a_follower_commits_no_further_than_its_log_goes() -> None:
    """A leader far ahead tells its high watermark with a first part of its log."""
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    raft_node = cluster.raft_node(3)
    cluster.auditor = Auditor(())  # it would see that no leader committed what this one tells
    end_offset, asked = raft_node.log.end_offset, cluster.nodes[3].last_send
    some = encode_batch(end_offset, raft_node.epoch, 0, [b"first part"])
    ahead = rpc.fetch_response(
        ErrorCode.NONE, LeaderAndEpoch(raft_node.epoch, 1), high_watermark=end_offset + 500
    )
    cluster.isolate(3)
    cluster.feed(3, ResponseReceived(1, asked.correlation_id, ahead, some))
    assert raft_node.log.end_offset == end_offset + 1
    assert raft_node.high_watermark == end_offset + 1


@pytest.mark.covers("OBS-01", "D-06")
def test_only_voters_are_remembered() -> None:
    """There is room for a few of them, and observers come and go."""
    cluster = Cluster(observers=(9,))
    leader = cluster.elect()
    cluster.run(2_000)
    assert cluster.raft_node(9).log.end_offset == cluster.raft_node(leader).log.end_offset
    assert 9 not in cluster.nodes[leader].disk.peers
    assert set(cluster.nodes[9].disk.peers) <= {1, 2, 3}
