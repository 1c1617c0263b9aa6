"""A leader offers snapshots, and serves them piece by piece."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import snapshot_rpc
from kraftd.raft.snapshot_rpc import FetchSnapshotParams
from kraftd.types import Election, OffsetAndEpoch
from tests.conformance import covers
from tests.unit.raft.lone import CLUSTER_ID, Lone, every, key_of

AT_100 = OffsetAndEpoch(100, 2)
AT_103 = OffsetAndEpoch(103, 4)


def leader(**options: object) -> Lone:
    """It leads epoch 6. Its log begins at 100, behind epoch 2, with two records of epoch 4 and one of 5."""
    options = {"epochs": (4, 4, 5), "start_offset": 100, "snapshots": [AT_100], "voters": (1, 2, 3)} | options
    return Lone(election=Election(5), **options).become_leader().establish()  # type: ignore[arg-type]


def young_leader(*snapshots: OffsetAndEpoch) -> Lone:
    """It leads epoch 6, and has all records since the first, of epochs 1, 2 and 4."""
    return leader(epochs=(1, 1, 2, 4), start_offset=0, snapshots=snapshots)


def offered(lone: Lone, offset: int, epoch: int, replica: int = 3) -> OffsetAndEpoch | None:
    """The snapshot that a replica at this position is told to load; None if it is told of none."""
    data = lone.ask_fetch(offset, epoch, replica=replica)
    assert data is not None
    assert data.error_code == ErrorCode.NONE
    told = data.snapshot_id
    return None if told.end_offset < 0 else OffsetAndEpoch(told.end_offset, told.epoch)


def diverging(lone: Lone, offset: int, epoch: int) -> tuple[int, int] | None:
    """Where the log of a replica at this position leaves the leader's: an epoch and its end."""
    data = lone.ask_fetch(offset, epoch, replica=3)
    assert data is not None
    told = data.diverging_epoch
    return None if told.end_offset < 0 else (told.epoch, told.end_offset)


def reading(lone: Lone) -> fx.ReadSnapshot:
    return every(lone.effects, fx.ReadSnapshot)[-1]


def sent(
    lone: Lone, data: bytes, size_bytes: int = 10
) -> tuple[m.FetchSnapshotResponsePartitionSnapshot, bytes]:
    """The disk has read what was asked for: what the replica is answered."""
    effects = lone.feed(ev.SnapshotRead(reading(lone).token, data, size_bytes))
    (reply,) = every(effects, fx.Reply)
    assert isinstance(reply.response, m.FetchSnapshotResponse)
    return reply.response.topics[0].partitions[0], b"".join(reply.records)


# --- which position needs a snapshot ------------------------------------------------------------------------


@covers("FREQ-18", "FREQ-08")
def test_an_empty_replica_gets_the_latest_snapshot_though_the_log_is_whole() -> None:
    lone = young_leader(OffsetAndEpoch(2, 1), OffsetAndEpoch(3, 2))
    assert offered(lone, 0, 0) == OffsetAndEpoch(3, 2)
    assert offered(lone, 0, 0, replica=-1) == OffsetAndEpoch(3, 2), "whoever it is"


@covers("FREQ-17", "FREQ-19")
def test_without_a_snapshot_the_whole_log_is_served_from_its_first_record() -> None:
    """The bootstrap snapshot, of offset 0, is none that is offered: opening the log does not tell it."""
    lone = young_leader()
    assert offered(lone, 0, 0) is None
    assert diverging(lone, 0, 0) is None


def test_a_whole_log_serves_every_replica_that_has_a_record() -> None:
    lone = young_leader(OffsetAndEpoch(3, 2))
    assert offered(lone, 1, 1) is None
    assert diverging(lone, 2, 1) is None


@covers("FREQ-20")
@pytest.mark.parametrize(
    ("offset", "epoch"), [(99, 2), (40, 1), (100, 1), (100, 3), (100, 4), (102, 1), (150, 1)]
)
def test_a_position_that_the_log_does_not_reach_back_to_needs_the_latest_snapshot(
    offset: int, epoch: int
) -> None:
    lone = leader()
    lone.feed(ev.SnapshotTaken(AT_103))
    assert offered(lone, offset, epoch) == AT_103


@covers("FREQ-21")
def test_the_end_of_the_oldest_snapshot_is_a_good_position() -> None:
    lone = leader()
    assert offered(lone, 100, 2) is None
    assert diverging(lone, 100, 2) is None
    assert lone.raft_node.describe(lone.now) is not None


@covers("FREQ-16", "LOG-10")
@pytest.mark.parametrize(("offset", "epoch"), [(101, 3), (150, 3), (101, 2), (150, 2)])
def test_an_epoch_before_the_logs_first_diverges_at_the_oldest_snapshot(offset: int, epoch: int) -> None:
    assert diverging(leader(), offset, epoch) == (2, 100)


@covers("LOG-10", "CLN-08")
def test_an_epoch_that_goes_on_behind_the_snapshot_is_known_from_there() -> None:
    lone = leader(epochs=(2, 2, 5))
    assert diverging(lone, 101, 2) is None
    assert diverging(lone, 150, 2) == (2, 102)


def without_its_snapshot(**options: object) -> Lone:
    """A leader that found, when somebody asked for it, that its only snapshot cannot be read."""
    lone = leader(**options)
    lone.ask_snapshot(AT_100, replica=3, sender=3)
    lone.feed(ev.SnapshotRead(reading(lone).token, b"", -1))
    lone.feed(ev.SnapshotDamaged(AT_100))
    assert lone.raft_node.log.snapshots == ()
    return lone


@covers("SNAP-20", "D-20")
def test_one_that_turned_out_damaged_is_offered_no_more_and_told_of_once() -> None:
    lone = leader()
    lone.feed(ev.SnapshotTaken(AT_103))
    assert offered(lone, 0, 0) == AT_103
    lone.ask_snapshot(AT_103, replica=3, sender=3)
    token = reading(lone).token
    lone.feed(ev.SnapshotDamaged(AT_103))
    assert offered(lone, 0, 0) == AT_100
    assert not lone.raft_node.log.lacks_snapshot_at(103)
    effects = lone.feed(ev.SnapshotRead(token, b"", -1))
    assert every(effects, fx.Reply)
    assert not every(effects, fx.Warned), "who found the damage has told of it"
    lone.feed(ev.SnapshotDamaged(AT_100))
    assert lone.raft_node.log.snapshots == ()
    data = lone.ask_fetch(0, 0, replica=3)
    assert data is not None
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@covers("D-19", "D-20")
def test_one_in_the_place_of_lost_ones_leads_to_where_the_log_begins_or_behind_it() -> None:
    lone = leader()
    log = lone.raft_node.log
    assert not log.lacks_snapshot_at(100)
    lone.feed(ev.SnapshotDamaged(AT_100))
    assert [log.lacks_snapshot_at(offset) for offset in (99, 100, 103)] == [False, True, True]
    young = young_leader(OffsetAndEpoch(2, 1))
    young.feed(ev.SnapshotDamaged(OffsetAndEpoch(2, 1)))
    assert not young.raft_node.log.lacks_snapshot_at(2), "all is in the log"


@covers("D-19", "SNAP-20", "FREQ-20")
def test_who_stands_below_the_logs_start_is_offered_one_that_replaces_the_lost_ones() -> None:
    """Node 2 is dead. Without node 3 nothing is committed, and node 3 needs the snapshot first."""
    lone = without_its_snapshot()
    lone.append(b"noop")
    data = lone.ask_fetch(50, 1, replica=3)
    assert data is not None
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert lone.raft_node.log.lacks_snapshot_at(100)
    lone.feed(ev.SnapshotTaken(AT_100))
    assert offered(lone, 50, 1) == AT_100
    assert lone.ask_snapshot(AT_100, replica=3, sender=3) is None
    assert sent(lone, b"0123456789")[0].error_code == ErrorCode.NONE


@covers("FREQ-20", "FREQ-21", "SNAP-20")
@pytest.mark.parametrize(
    ("offset", "epoch"),
    [(0, 0), (99, 2), (40, 1), (100, 1), (100, 3), (100, 4), (102, 1), (150, 1)],
)
def test_a_position_that_needs_a_snapshot_is_refused_while_there_is_none(offset: int, epoch: int) -> None:
    data = without_its_snapshot().ask_fetch(offset, epoch, replica=3)
    assert data is not None
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@covers("FREQ-16", "LOG-10", "SNAP-20")
def test_where_logs_part_behind_the_start_is_known_without_the_snapshot() -> None:
    lone = without_its_snapshot()
    assert offered(lone, 100, 2) is None
    assert diverging(lone, 100, 2) is None
    for position in ((101, 3), (150, 3), (101, 2), (150, 2)):
        assert diverging(lone, *position) == (2, 100)


@covers("CLN-08")
def test_a_log_that_is_cut_at_its_end_goes_on_in_its_epoch() -> None:
    lone = leader()
    lone.ask_fetch(104, 6, replica=2)
    lone.feed(ev.SnapshotTaken(OffsetAndEpoch(104, 6)))
    lone.feed(ev.CutRequested(OffsetAndEpoch(104, 6)))
    log = lone.raft_node.log
    assert (log.start_offset, log.end_offset) == (104, 104)
    assert [(entry.epoch, entry.start_offset) for entry in log.epochs.entries] == [(6, 104)]
    assert offered(lone, 104, 5) == OffsetAndEpoch(104, 6)
    lone.append(b"next")
    assert diverging(lone, 104, 6) is None
    assert diverging(lone, 105, 6) is None


@covers("LOG-12")
def test_a_leader_with_nothing_but_a_snapshot_goes_on_from_it() -> None:
    lone = leader(epochs=())
    assert offered(lone, 100, 2) is None
    assert offered(lone, 99, 2) == AT_100


@covers("FREQ-22", "CQ-07")
def test_being_told_of_a_snapshot_is_no_progress() -> None:
    lone = leader()
    lone.ask_fetch(40, 1, replica=3)
    state = lone.raft_node._raft.leader_state
    assert state is not None
    assert state.follower(3).fetch_offset == -1  # type: ignore[union-attr]


# --- the pieces ---------------------------------------------------------------------------------------------


@covers("SF-01")
def test_a_piece_is_answered_with_its_bytes_and_the_size_of_all() -> None:
    lone = leader()
    assert lone.ask_snapshot(AT_100, 3, max_bytes=4) is None
    assert reading(lone) == fx.ReadSnapshot(reading(lone).token, AT_100, 3, 4, voter_id=2)
    piece, data = sent(lone, b"3456")
    assert (piece.error_code, piece.size, piece.position, data) == (ErrorCode.NONE, 10, 3, b"3456")
    assert (piece.snapshot_id.end_offset, piece.snapshot_id.epoch) == (100, 2)
    assert (piece.current_leader.leader_id, piece.current_leader.leader_epoch) == (1, 6)


@covers("SF-01", "Q-18")
def test_no_position_is_too_large_and_a_piece_is_never_larger_than_configured() -> None:
    lone = leader()
    lone.ask_snapshot(AT_100, 3 << 30, max_bytes=1 << 30)
    assert (reading(lone).position, reading(lone).max_bytes) == (3 << 30, 1 << 20)
    piece, _ = sent(lone, b"x", size_bytes=4 << 30)
    assert (piece.position, piece.size) == (3 << 30, 4 << 30)


@covers("SF-02", "SNAP-20")
def test_a_snapshot_that_is_not_there_is_not_found() -> None:
    lone = leader()
    for unknown in (AT_103, OffsetAndEpoch(0, 0), OffsetAndEpoch(100, 3), OffsetAndEpoch(-1, -1)):
        piece = lone.ask_snapshot(unknown)
        assert piece is not None
        assert piece.error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    lone.ask_snapshot(AT_100)
    piece, _ = sent(lone, b"", size_bytes=-1)
    assert piece.error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    lone.feed(ev.SnapshotDamaged(AT_100))
    again = lone.ask_snapshot(AT_100)
    assert again is not None, "its file is gone: the disk is not asked again"
    assert again.error_code == ErrorCode.SNAPSHOT_NOT_FOUND


def test_bytes_of_another_file_are_not_gone_on_with_and_ours_stays() -> None:
    lone = leader()
    lone.ask_snapshot(AT_100, 3, prefix_checksum=77)
    assert reading(lone).prefix_checksum == 77
    piece, _ = sent(lone, b"", size_bytes=-1)
    assert piece.error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    assert lone.ask_snapshot(AT_100) is None


@covers("D-13", "D-22")
def test_a_request_whose_read_is_given_up_for_a_later_one_is_answered_without_bytes() -> None:
    """A voter did not wait for the comparison, and asks again, maybe on another connection."""
    lone = leader()
    lone.ask_snapshot(AT_100, 3, prefix_checksum=77, connection=1)
    former = reading(lone)
    lone.ask_snapshot(AT_100, 3, prefix_checksum=77, connection=2)
    assert (former.voter_id, reading(lone).voter_id) == (2, 2), "so that the former is given up"
    (reply,) = every(lone.feed(ev.SnapshotRead(former.token, b"", 10)), fx.Reply)
    assert isinstance(reply.response, m.FetchSnapshotResponse)
    assert reply.response.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert reply.records == ()
    assert sent(lone, b"3456")[1] == b"3456"


@covers("D-06", "D-22")
def test_a_voter_that_is_not_whole_is_known_by_its_connection() -> None:
    lone = leader()
    lone.ask_snapshot(AT_100, replica=-1, sender=3)
    assert reading(lone).voter_id == 3


@covers("SF-03")
@pytest.mark.parametrize("position", [-1, 10, 11, 2**63 - 1])
def test_a_position_outside_the_snapshot_is_out_of_range(position: int) -> None:
    lone = leader()
    piece = lone.ask_snapshot(AT_100, position)
    if piece is None:
        piece, _ = sent(lone, b"", size_bytes=10)
    assert piece.error_code == ErrorCode.POSITION_OUT_OF_RANGE


def _request(change: Callable[[m.FetchSnapshotRequest], m.FetchSnapshotRequest]) -> m.FetchSnapshotRequest:
    ask = FetchSnapshotParams(key_of(2), 6, AT_100, 0, 100)
    return change(snapshot_rpc.request_of(CLUSTER_ID, ask))


def _partitions(request: m.FetchSnapshotRequest, count: int) -> m.FetchSnapshotRequest:
    topic = request.topics[0]
    return replace(request, topics=(replace(topic, partitions=topic.partitions * count),))


@covers("Q-05")
@pytest.mark.parametrize(
    "change",
    [
        lambda request: replace(request, topics=()),
        lambda request: replace(request, topics=request.topics * 2),
        lambda request: _partitions(request, 0),
        lambda request: _partitions(request, 2),
    ],
    ids=["no topic", "two topics", "no partition", "two partitions"],
)
def test_a_request_for_anything_but_one_partition_is_refused_as_a_whole(
    change: Callable[[m.FetchSnapshotRequest], m.FetchSnapshotRequest],
) -> None:
    response = leader().ask(_request(change))
    assert response == m.FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)


@covers("SF-04")
@pytest.mark.parametrize(("name", "index"), [("orders", 0), ("__cluster_metadata", 1)])
def test_another_partition_is_unknown(name: str, index: int) -> None:
    request = _request(lambda request: request)
    partition = replace(request.topics[0].partitions[0], partition=index)
    request = replace(request, topics=(replace(request.topics[0], name=name, partitions=(partition,)),))
    response = leader().ask(request)
    assert isinstance(response, m.FetchSnapshotResponse)
    (topic,) = response.topics
    assert (topic.name, topic.partitions[0].index) == (name, index)
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@covers("SF-05")
@pytest.mark.parametrize(
    ("epoch", "error"),
    [(5, ErrorCode.FENCED_LEADER_EPOCH), (7, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_the_epoch_is_judged_as_for_a_fetch(epoch: int, error: ErrorCode) -> None:
    piece = leader().ask_snapshot(AT_100, epoch=epoch)
    assert piece is not None
    assert (piece.error_code, piece.current_leader.leader_id) == (error, 1)


@covers("SF-05")
def test_a_follower_names_the_leader() -> None:
    lone = Lone(election=Election(6, 2), epochs=(4,), start_offset=100, snapshots=[AT_100])
    piece = lone.ask_snapshot(AT_100, replica=3, sender=3)
    assert piece is not None
    assert (piece.error_code, piece.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)


@covers("SF-06")
def test_another_clusters_replica_is_refused_as_a_whole() -> None:
    ask = FetchSnapshotParams(key_of(2), 6, AT_100, 0, 100)
    response = leader().ask(snapshot_rpc.request_of("another", ask))
    assert response == m.FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    lone = leader()
    lone.ask(replace(snapshot_rpc.request_of("", ask), cluster_id=None))
    assert every(lone.effects, fx.ReadSnapshot), "none is no other"


@covers("D-37", "D-06")
def test_nobody_loads_in_the_name_of_a_voter() -> None:
    lone = leader()
    for sender in (None, 9, 3):
        piece = lone.ask_snapshot(AT_100, replica=2, sender=sender)
        assert piece is not None
        assert piece.error_code == ErrorCode.INVALID_VOTER_KEY
    piece = lone.ask_snapshot(AT_100, replica=1, sender=None)
    assert piece is not None
    assert piece.error_code == ErrorCode.INVALID_VOTER_KEY
    assert not every(lone.effects, fx.ReadSnapshot)


def test_an_observer_loads_without_a_handshake_as_kafkas_brokers_do() -> None:
    lone = leader()
    assert lone.ask_snapshot(AT_100, replica=9, sender=None) is None
    assert sent(lone, b"0123456789")[0].error_code == ErrorCode.NONE


# --- what it counts for -------------------------------------------------------------------------------------


@covers("SF-07", "D-11")
def test_pieces_count_for_check_quorum_as_long_as_they_bring_a_voter_further() -> None:
    lone = leader()
    for position in range(10):
        lone.run(1_500)
        lone.ask_snapshot(AT_100, position, max_bytes=1)
        sent(lone, b"x")
    assert lone.raft_node.is_leader
    for _ in range(3):
        lone.run(1_500)
        lone.ask_snapshot(AT_100, 9, max_bytes=1)
        if lone.raft_node.is_leader:
            sent(lone, b"x")
    assert not lone.raft_node.is_leader, "the same piece again and again"


@covers("SF-07")
def test_an_observers_pieces_do_not_count_for_check_quorum() -> None:
    lone = leader()
    for position in range(3):
        lone.run(1_500)
        lone.ask_snapshot(AT_100, position, replica=9, sender=None)
        if lone.raft_node.is_leader:
            sent(lone, b"x")
    assert not lone.raft_node.is_leader


@covers("D-13", "D-15")
def test_who_waits_for_the_disk_is_answered_when_the_leadership_ends() -> None:
    lone = leader()
    lone.ask_snapshot(AT_100)
    token = reading(lone).token
    lone.ask_begin(7, 3)
    (reply,) = [r for r in every(lone.effects, fx.Reply) if isinstance(r.response, m.FetchSnapshotResponse)]
    assert reply.response.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER  # type: ignore[union-attr]
    effects = lone.feed(ev.SnapshotRead(token, b"x", 10))
    assert not every(effects, fx.Reply), "nobody is answered twice"


# --- what the cleaner asks ----------------------------------------------------------------------------------


@covers("D-22", "CLN-05", "CLN-08")
def test_the_log_is_cut_at_a_snapshots_end_unless_a_replica_needs_what_is_before() -> None:
    lone = leader()
    lone.feed(ev.SnapshotTaken(OffsetAndEpoch(101, 4)))
    lone.feed(ev.SnapshotTaken(OffsetAndEpoch(102, 4)))
    start = OffsetAndEpoch(101, 4)
    lone.ask_snapshot(AT_100, replica=3, sender=3)
    assert not every(lone.feed(ev.CutRequested(start)), fx.CutLog)
    for _ in range(2):
        lone.ask_fetch(104, 6, replica=2)
        lone.run(1_600)
    assert every(lone.feed(ev.CutRequested(start)), fx.CutLog) == [fx.CutLog(start)]
    log = lone.raft_node.log
    assert (log.start_offset, log.start_epoch, log.snapshots) == (101, 4, (start, OffsetAndEpoch(102, 4)))
    assert [(entry.epoch, entry.start_offset) for entry in log.epochs.entries][:2] == [(4, 101), (5, 102)]
    assert offered(lone, 100, 2) == OffsetAndEpoch(102, 4)
    assert diverging(lone, 101, 4) is None


@covers("CLN-05", "D-22")
@pytest.mark.parametrize(
    "start", [AT_100, OffsetAndEpoch(101, 5), OffsetAndEpoch(50, 1), OffsetAndEpoch(150, 6)]
)
def test_the_log_is_cut_nowhere_else(start: OffsetAndEpoch) -> None:
    lone = leader()
    lone.feed(ev.SnapshotTaken(OffsetAndEpoch(101, 4)))
    assert not every(lone.feed(ev.CutRequested(start)), fx.CutLog)


@covers("D-22")
def test_the_log_is_not_cut_past_what_is_applied() -> None:
    lone = Lone(election=Election(5, 2), epochs=(4, 4), start_offset=100, snapshots=[AT_100], applies=False)
    lone.feed(ev.Applied(100))
    at_101 = OffsetAndEpoch(101, 4)
    lone.feed(ev.SnapshotTaken(at_101))
    assert not every(lone.feed(ev.CutRequested(at_101)), fx.CutLog)
    lone.feed(ev.Applied(101))
    assert every(lone.feed(ev.CutRequested(at_101)), fx.CutLog)


@covers("SNAP-05", "SNAP-06")
def test_a_snapshot_from_before_the_logs_start_or_one_that_is_known_is_not_counted() -> None:
    """It was being written when a later one took the place of the log."""
    lone = leader()
    for snapshot_id in (OffsetAndEpoch(60, 1), AT_100):
        lone.feed(ev.SnapshotTaken(snapshot_id))
    assert lone.raft_node.log.snapshots == (AT_100,)
