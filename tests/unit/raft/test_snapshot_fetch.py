"""A follower downloads a snapshot and puts it in the place of its log: one node, response by response."""

import crc32c
import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc, snapshot_rpc
from kraftd.raft.epoch_states import Candidate, Follower, Prospective
from kraftd.raft.rejoin import StateHealth
from kraftd.raft.rpc import LeaderAndEpoch
from kraftd.raft.timing import Timing
from kraftd.records.batch import encode_batch
from kraftd.types import Election, HealthKind, OffsetAndEpoch, PeerIdentity
from tests.conformance import covers
from tests.unit.raft.lone import FixedRandom, Lone, every, identity_of, requests_to

AT_100 = OffsetAndEpoch(100, 4)
AT_200 = OffsetAndEpoch(200, 5)


def follower(**options: object) -> Lone:
    """It follows 2 in epoch 5, its fetch is on its way, and its log holds three records of epoch 1."""
    options = {"epochs": (1, 1, 1)} | options
    return Lone(election=Election(5, 2), **options)  # type: ignore[arg-type]


def downloading(**options: object) -> Lone:
    """It was offered the snapshot that ends at 100, and asks for its first piece."""
    lone = follower(**options)
    lone.fetch_response(snapshot_id=AT_100)
    return lone


def interrupted() -> Lone:
    """It has seven of ten bytes of that snapshot, lost its leader, and fetches of it again."""
    lone = downloading()
    lone.piece(b"0123456")
    lone.written(AT_100, 7)
    lone.run(2_200)
    lone.ask_begin(5)
    return lone


def asked_piece(lone: Lone, of: int = 2) -> m.FetchSnapshotRequestPartitionSnapshot | None:
    send = lone.asked(of, m.FetchSnapshotRequest)
    return None if send is None else send.request.topics[0].partitions[0]  # type: ignore[union-attr]


def installed(effects: list[fx.Effect]) -> list[OffsetAndEpoch]:
    return [effect.id for effect in every(effects, fx.InstallSnapshot)]


# --- what starts it -----------------------------------------------------------------------------------------


@covers("FRSP-08", "SF-08")
def test_a_snapshot_id_in_the_response_is_fetched_instead_of_records() -> None:
    lone = follower()
    before_ms = lone.raft_node.state.deadline_ms  # type: ignore[union-attr]
    lone.run(500)
    effects = lone.fetch_response(snapshot_id=AT_100)
    (request,) = [send.request for send in every(effects, fx.Send)]
    assert isinstance(request, m.FetchSnapshotRequest)
    assert (request.replica_id, request.max_bytes) == (1, 1 << 20)
    piece = request.topics[0].partitions[0]
    assert (piece.snapshot_id.end_offset, piece.snapshot_id.epoch) == (100, 4)
    assert (piece.position, piece.current_leader_epoch, piece.prefix_checksum) == (0, 5, -1)
    assert lone.raft_node.state.deadline_ms == before_ms + 500, "the leader is well"  # type: ignore[union-attr]
    assert lone.fetching() == [], "one thing at a time"


@covers("FRSP-10")
@pytest.mark.parametrize("half", [OffsetAndEpoch(100, -1), OffsetAndEpoch(-1, 4), OffsetAndEpoch(100, 6)])
def test_half_an_id_and_one_of_the_future_make_no_sense(half: OffsetAndEpoch) -> None:
    lone = follower()
    before_ms = lone.raft_node.state.deadline_ms  # type: ignore[union-attr]
    lone.run(500)
    effects = lone.fetch_response(snapshot_id=half)
    assert [warning.name for warning in every(effects, fx.Warned)] == ["bad_response"]
    assert lone.raft_node.state.deadline_ms == before_ms, "nonsense does not feed the timer"  # type: ignore[union-attr]
    assert requests_to(effects, m.FetchSnapshotRequest) == []
    assert lone.fetching() == []
    lone.run(100)
    assert lone.fetching() == [2]


@covers("D-14", "D-21")
def test_a_snapshot_of_less_than_is_committed_here_is_refused() -> None:
    lone = follower(epochs=(3, 3, 3))
    lone.fetch_response(high_watermark=3)
    effects = lone.fetch_response(snapshot_id=OffsetAndEpoch(3, 4))
    assert [alarm.name for alarm in every(effects, fx.Alarmed)] == ["diverged_below_high_watermark"]
    lone.run(1_500)
    assert requests_to(lone.effects, m.FetchSnapshotRequest) == []
    assert lone.raft_node.log.end_offset == 3


@covers("FRSP-09")
def test_a_snapshot_that_is_here_already_is_not_fetched_again() -> None:
    lone = downloading()
    lone.piece(b"0123456789")
    lone.run(2_200)
    assert isinstance(lone.raft_node.state, Prospective), "the leader is lost while the last piece is written"
    effects = lone.written(AT_100, 10, is_whole=True)
    assert not installed(effects), "the others compare its log with theirs now"
    lone.ask_begin(5)
    assert lone.fetching() == [2]
    effects = lone.fetch_response(snapshot_id=AT_100)
    assert installed(effects) == [AT_100]
    assert requests_to(effects, m.FetchSnapshotRequest) == []


def whole_and_not_installed(**options: object) -> Lone:
    """It has all of the snapshot that ends at 100, but its leader was lost while that was proved."""
    lone = downloading(**options)
    lone.piece(b"0123456789")
    lone.run(2_200)
    assert not installed(lone.written(AT_100, 10, is_whole=True))
    lone.ask_begin(5)
    return lone


@covers("FRSP-09", "D-22")
def test_one_that_is_whole_is_installed_though_the_leader_offers_a_newer_one_by_now() -> None:
    lone = whole_and_not_installed()
    effects = lone.fetch_response(snapshot_id=AT_200)
    assert installed(effects) == [AT_100]
    assert every(effects, fx.LoadSnapshot) == [fx.LoadSnapshot(AT_100)]
    send = lone.asked(2, m.FetchRequest)
    assert send is not None, "the log behind it, maybe, is there still"
    assert send.request.topics[0].partitions[0].fetch_offset == 100  # type: ignore[union-attr]
    effects = lone.fetch_response(snapshot_id=AT_200)
    assert not installed(effects), "once"
    assert asked_piece(lone).snapshot_id.end_offset == 200  # type: ignore[union-attr]


def test_of_those_that_are_whole_the_newest_is_installed() -> None:
    lone = whole_and_not_installed()
    lone.feed(ev.SnapshotReceived(OffsetAndEpoch(150, 5), 10, is_whole=True))
    lone.feed(ev.SnapshotReceived(OffsetAndEpoch(250, 5), 10, is_whole=True))
    assert installed(lone.fetch_response(snapshot_id=AT_200)) == [OffsetAndEpoch(150, 5)]
    assert installed(lone.fetch_response(snapshot_id=OffsetAndEpoch(300, 5))) == [OffsetAndEpoch(250, 5)]


@covers("D-21")
@pytest.mark.parametrize("offered", [OffsetAndEpoch(99, 5), OffsetAndEpoch(200, 3)])
def test_one_that_does_not_lead_to_what_is_offered_is_not_installed(offered: OffsetAndEpoch) -> None:
    lone = whole_and_not_installed()
    assert not installed(lone.fetch_response(snapshot_id=offered))
    assert asked_piece(lone).snapshot_id.end_offset == offered.offset  # type: ignore[union-attr]


@covers("D-21", "D-02")
@pytest.mark.parametrize(("epoch", "count"), [(4, 98), (5, 10)], ids=["further", "of a later epoch"])
def test_one_that_is_behind_what_is_acknowledged_by_now_is_not_installed(epoch: int, count: int) -> None:
    """Records of this node may be committed that the others do not tell it of yet: it must not vote for who
    has not got them.
    """
    lone = whole_and_not_installed()
    lone.fetch_response(encode_batch(3, epoch, 0, [b"next"] * count), high_watermark=3)
    assert lone.raft_node.log.flushed_offset == 3 + count
    effects = lone.fetch_response(snapshot_id=AT_200)
    assert not installed(effects)
    assert asked_piece(lone).snapshot_id.end_offset == 200  # type: ignore[union-attr]


@covers("D-06")
def test_one_that_has_lost_records_installs_what_is_whole_and_is_not_whole_by_that() -> None:
    lone = follower(health=StateHealth(damage=("batch 2 is rotten",)))
    lone.fetch_response()  # to what only asks for the epoch
    lone.feed(ev.SnapshotReceived(AT_100, 10, is_whole=True))
    effects = lone.fetch_response(snapshot_id=AT_200)
    assert installed(effects) == [AT_100]
    assert [health.health for health in every(effects, fx.RememberStateHealth)] == [HealthKind.AMNESIA]
    assert not lone.raft_node.is_whole


@covers("D-22")
def test_what_is_downloaded_of_a_newer_one_is_gone_on_with_behind_it() -> None:
    """The last piece of the former was on its way to the disk when that was given up."""
    lone = follower()
    lone.fetch_response(snapshot_id=AT_200)
    lone.piece(b"0123456")
    lone.written(AT_200, 7)
    lone.feed(ev.SnapshotReceived(AT_100, 10, is_whole=True))
    lone.run(2_200)
    lone.ask_begin(5)
    assert installed(lone.fetch_response(snapshot_id=AT_200)) == [AT_100]
    effects = lone.fetch_response(snapshot_id=AT_200)
    assert not every(effects, fx.DropSnapshot)
    assert asked_piece(lone).position == 7  # type: ignore[union-attr]


# --- piece by piece -----------------------------------------------------------------------------------------


@covers("SF-08", "SF-09", "D-21", "LSN-05")
def test_the_last_piece_is_written_and_then_the_snapshot_is_the_log() -> None:
    lone = downloading()
    effects = lone.piece(b"0123456")
    assert every(effects, fx.WriteSnapshot) == [fx.WriteSnapshot(AT_100, 0, b"0123456", 10)]
    assert asked_piece(lone) is None, "not before that is written"
    lone.written(AT_100, 7)
    assert asked_piece(lone).position == 7  # type: ignore[union-attr]
    lone.piece(b"789")
    effects = lone.written(AT_100, 10, is_whole=True)
    kinds = [type(effect) for effect in effects]
    assert kinds.index(fx.InstallSnapshot) < kinds.index(fx.LoadSnapshot) < kinds.index(fx.Send)
    assert installed(effects) == [AT_100]
    log = lone.raft_node.log
    assert (log.start_offset, log.flushed_offset, log.end_offset) == (100, 100, 100)
    assert (log.last_epoch, log.epochs.entries, log.snapshots) == (4, (), (AT_100,))
    assert lone.raft_node.high_watermark == 100
    send = lone.asked(2, m.FetchRequest)
    assert send is not None
    fetch = send.request.topics[0].partitions[0]  # type: ignore[union-attr]
    assert (fetch.fetch_offset, fetch.last_fetched_epoch) == (100, 4)


@covers("SF-09")
def test_each_piece_feeds_the_fetch_timer() -> None:
    lone = downloading()
    for position in range(10):
        lone.run(1_500)
        lone.piece(b"x")
        lone.written(AT_100, position + 1)
    assert isinstance(lone.raft_node.state, Follower)
    assert lone.now_ms > 15_000


def test_what_follows_the_snapshot_is_appended_behind_it() -> None:
    lone = downloading()
    lone.piece(b"0123456789")
    lone.written(AT_100, 10, is_whole=True)
    lone.fetch_response(encode_batch(100, 5, 0, [b"next"]), high_watermark=101)
    log = lone.raft_node.log
    assert (log.start_offset, log.flushed_offset, log.end_offset) == (100, 101, 101)
    assert (log.last_epoch, lone.raft_node.high_watermark) == (5, 101)


def test_an_epoch_below_the_snapshots_is_not_appended_behind_it() -> None:
    lone = downloading()
    lone.piece(b"0123456789")
    lone.written(AT_100, 10, is_whole=True)
    effects = lone.fetch_response(encode_batch(100, 3, 0, [b"next"]), high_watermark=101)
    assert not every(effects, fx.Append)
    assert [warning.name for warning in every(effects, fx.Warned)] == ["bad_batch"]


@covers("D-02", "LOG-12")
def test_what_is_not_flushed_behind_the_snapshot_is_claimed_by_nobody() -> None:
    lone = downloading()
    lone.piece(b"0123456789")
    lone.written(AT_100, 10, is_whole=True)
    lone.flushes = False
    lone.fetch_response(encode_batch(100, 5, 0, [b"next"]), high_watermark=100)
    effects = lone.run(2_400)
    votes = [s.request for s in every(effects, fx.Send) if isinstance(s.request, m.VoteRequest)]
    claimed = votes[0].topics[0].partitions[0]
    assert (claimed.last_offset, claimed.last_offset_epoch) == (100, 4)


@covers("D-03", "D-21")
def test_a_flush_of_the_old_log_says_nothing_about_the_new_one() -> None:
    lone = follower()
    lone.flushes = False
    lone.fetch_response(encode_batch(3, 5, 0, [b"%d" % n for n in range(200)]), high_watermark=-1)
    (flush,) = every(lone.effects, fx.Flush)
    assert flush.end_offset == 203
    lone.run(2_200)
    lone.ask_begin(5)
    # It may not fetch before the flush has ended; the snapshot that it is sent came in a response before.
    lone.feed(ev.SnapshotTaken(AT_100))
    lone.raft_node._raft.requests.reset()
    lone.raft_node._follower._snapshot_fetch._install(AT_100)
    lone.feed(ev.LogFlushed(flush.generation, flush.end_offset))
    log = lone.raft_node.log
    assert (log.flushed_offset, log.end_offset) == (100, 100)


@covers("SF-10")
@pytest.mark.parametrize("how", ["not found", "negative"])
def test_a_snapshot_that_is_gone_is_given_up_and_fetching_goes_on(how: str) -> None:
    lone = downloading()
    lone.piece(b"0123456")
    lone.written(AT_100, 7)
    lone.run(500)
    if how == "not found":
        effects = lone.piece(error=ErrorCode.SNAPSHOT_NOT_FOUND, size_bytes=0)
    else:
        effects = lone.piece(snapshot_id=OffsetAndEpoch(-1, -1))
    assert every(effects, fx.DropSnapshot) == [fx.DropSnapshot(AT_100)]
    assert lone.fetching() == [2]
    lone.run(1_800)
    assert isinstance(lone.raft_node.state, Follower), "the leader is well"
    effects = lone.fetch_response(snapshot_id=AT_200)
    assert asked_piece(lone).snapshot_id.end_offset == 200  # type: ignore[union-attr]
    assert asked_piece(lone).position == 0  # type: ignore[union-attr]


@covers("SF-11")
def test_a_higher_epoch_ends_the_download_until_its_leader_offers_the_same() -> None:
    lone = downloading()
    lone.piece(b"0123456")
    lone.written(AT_100, 7)
    lone.piece(error=ErrorCode.FENCED_LEADER_EPOCH, leader_and_epoch=LeaderAndEpoch(6, 3))
    assert lone.epoch == 6
    assert lone.fetching() == [3], "the new leader says what it has"
    lone.fetch_response(of=3, snapshot_id=AT_100)
    piece = asked_piece(lone, of=3)
    assert piece is not None
    assert (piece.position, piece.prefix_checksum) == (7, crc32c.crc32c(b"0123456"))
    lone.piece(b"789", of=3)
    assert installed(lone.written(AT_100, 10, is_whole=True)) == [AT_100]


@covers("D-20")
def test_another_leaders_file_is_not_joined_to_what_is_here() -> None:
    """It may be of another release, which writes the same state in another order."""
    lone = downloading()
    lone.piece(b"0123456")
    lone.written(AT_100, 7)
    lone.ask_begin(6, 3)
    lone.fetch_response(of=3, snapshot_id=AT_100)
    lone.piece(of=3, error=ErrorCode.SNAPSHOT_NOT_FOUND, size_bytes=0)
    lone.fetch_response(of=3, snapshot_id=AT_100)
    assert asked_piece(lone, of=3).position == 0  # type: ignore[union-attr]
    effects = lone.piece(b"abcdefghij", of=3)
    assert every(effects, fx.WriteSnapshot) == [fx.WriteSnapshot(AT_100, 0, b"abcdefghij", 10)]


@covers("SF-12")
def test_an_answer_from_an_older_epoch_is_ignored_and_the_piece_asked_for_again() -> None:
    lone = downloading()
    effects = lone.piece(b"0123456", leader_and_epoch=LeaderAndEpoch(4, 2))
    assert not every(effects, fx.WriteSnapshot)
    lone.run(100)
    assert asked_piece(lone).position == 0  # type: ignore[union-attr]
    lone.piece(error=ErrorCode.UNKNOWN_LEADER_EPOCH)
    lone.run(100)
    assert asked_piece(lone).position == 0  # type: ignore[union-attr]


@covers("SF-13")
def test_an_answer_to_one_that_campaigns_is_ignored() -> None:
    lone = downloading()
    send = lone.asked(2, m.FetchSnapshotRequest)
    assert send is not None
    lone.run(2_200)
    lone.vote_response(3, granted=True)
    assert isinstance(lone.raft_node.state, Candidate)
    lone.effects.append(send)
    response = m.FetchSnapshotResponse()
    effects = lone.feed(ev.ResponseReceived(2, send.correlation_id, response, b"0123456"))
    assert not every(effects, fx.WriteSnapshot)


@covers("SF-14", "SF-15", "D-14")
@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"0123456", {"snapshot_id": AT_200}),
        (b"0123456", {"position": 3}),
        (b"0123456789a", {"size_bytes": 10}),
        (b"", {"size_bytes": 0}),
        (b"", {"error": ErrorCode.POSITION_OUT_OF_RANGE}),
    ],
    ids=["another id", "another position", "more than there is", "an empty one", "out of range"],
)
def test_an_answer_that_makes_no_sense_ends_the_download_and_no_process(
    data: bytes, answer: dict[str, object]
) -> None:
    lone = downloading()
    effects = lone.piece(data, **answer)  # type: ignore[arg-type]
    assert not every(effects, fx.WriteSnapshot)
    assert every(effects, fx.DropSnapshot) == [fx.DropSnapshot(AT_100)]
    lone.run(100)
    assert lone.fetching() == [2], "it asks again what there is"


def test_a_snapshot_that_changes_its_size_is_not_the_one_that_was_begun() -> None:
    lone = downloading()
    lone.piece(b"0123456", size_bytes=10)
    lone.written(AT_100, 7)
    effects = lone.piece(b"789a", size_bytes=11)
    assert every(effects, fx.DropSnapshot) == [fx.DropSnapshot(AT_100)]


def test_a_leader_without_room_for_another_download_is_asked_again_a_little_later() -> None:
    lone = downloading()
    lone.run(1_500)
    effects = lone.piece(b"", size_bytes=10)
    assert not every(effects, fx.WriteSnapshot)
    assert asked_piece(lone) is None
    lone.run(1_000)
    assert asked_piece(lone).position == 0  # type: ignore[union-attr]
    assert isinstance(lone.raft_node.state, Follower), "it is alive"


# --- slow, broken, full -------------------------------------------------------------------------------------


def test_a_piece_that_does_not_come_is_asked_for_again_by_half() -> None:
    lone = downloading()
    for _ in range(6):
        lone.run(2_200)
        lone.ask_begin(5)
        lone.fetch_response(snapshot_id=AT_100)
    sends = [send.request for send in every(lone.effects, fx.Send)]
    sizes = [request.max_bytes for request in sends if isinstance(request, m.FetchSnapshotRequest)]
    assert len(sizes) > 9
    assert sizes == [max(4 << 10, 1 << 20 >> n) for n in range(len(sizes))]
    for position in range(16):
        lone.piece(b"x", size_bytes=100)
        lone.written(AT_100, position + 1)
    assert lone.asked(2, m.FetchSnapshotRequest).request.max_bytes == 8 << 10  # type: ignore[union-attr]


def test_of_a_newer_one_that_is_offered_meanwhile_no_larger_piece_is_asked_for() -> None:
    """Else nothing ever comes over a slow link of a leader that writes a snapshot each few seconds."""
    lone = downloading()
    for n in range(1, 4):
        lone.run(2_200)
        lone.ask_begin(5)
        lone.fetch_response(snapshot_id=OffsetAndEpoch(100 + n, 4))
    sends = [send.request for send in every(lone.effects, fx.Send)]
    sizes = [request.max_bytes for request in sends if isinstance(request, m.FetchSnapshotRequest)]
    assert sizes == [max(4 << 10, 1 << 20 >> n) for n in range(len(sizes))]
    assert len(sizes) > 3


def test_a_late_piece_of_one_that_is_not_wanted_any_more_is_not_expected() -> None:
    """An observer fetches after its fetch timeout, and its leader has a newer one by then."""
    timing = Timing(fetch_timeout_ms=500)
    lone = downloading(voters=(2, 3, 4), connected=(2, 3, 4), random=FixedRandom(0.0), timing=timing)
    first = lone.asked(2, m.FetchSnapshotRequest)
    assert first is not None
    while lone.asked(2, m.FetchRequest) is None:
        lone.run(100)
    lone.fetch_response(snapshot_id=AT_200)
    response = snapshot_rpc.response_of(
        ErrorCode.NONE, LeaderAndEpoch(5, 2), snapshot_id=AT_100, size_bytes=10, position=0
    )
    assert lone.answer(first, response, b"0123456789") == []
    piece = asked_piece(lone)
    assert piece is not None
    assert piece.snapshot_id.end_offset == 200


def test_a_broken_connection_costs_one_piece() -> None:
    lone = downloading()
    lone.piece(b"0123456")
    lone.written(AT_100, 7)
    send = lone.asked(2, m.FetchSnapshotRequest)
    assert send is not None
    lone.feed(ev.RequestFailed(2, send.correlation_id, "no connection"))
    lone.run(100)
    again = lone.asked(2, m.FetchSnapshotRequest)
    assert again is not None
    assert again.request == send.request, "the same piece, of the same size"


def test_a_disk_that_refuses_is_an_alarm_until_a_snapshot_is_there() -> None:
    lone = downloading()
    lone.piece(b"0123456")
    effects = lone.written(AT_100, 7, problem="no space left on device")
    (alarm,) = every(effects, fx.Alarmed)
    assert alarm.name == "snapshot_not_received"
    assert "no space left" in alarm.text
    lone.run(1_500)
    lone.fetch_response(snapshot_id=AT_100)
    lone.piece(b"0123456789")
    effects = lone.written(AT_100, 10, is_whole=True)
    assert installed(effects) == [AT_100]
    assert [cleared.name for cleared in every(effects, fx.AlarmCleared)] == ["snapshot_not_received"]


@covers("D-22")
def test_a_download_goes_on_though_the_leader_offers_a_newer_snapshot() -> None:
    lone = interrupted()
    effects = lone.fetch_response(snapshot_id=AT_200)
    assert not every(effects, fx.DropSnapshot)
    piece = asked_piece(lone)
    assert piece is not None
    assert (piece.snapshot_id.end_offset, piece.position) == (100, 7)
    assert piece.prefix_checksum == -1, "in one epoch it is one process, and one file"
    lone.piece(b"789")
    assert installed(lone.written(AT_100, 10, is_whole=True)) == [AT_100]


def test_what_is_here_is_compared_by_each_other_leader_and_in_each_other_epoch() -> None:
    lone = interrupted()
    lone.fetch_response(snapshot_id=AT_100)
    for epoch, leader in ((6, 3), (7, 3), (8, 2)):
        lone.ask_begin(epoch, leader)
        lone.fetch_response(of=leader, snapshot_id=AT_100)
        assert asked_piece(lone, of=leader).prefix_checksum == crc32c.crc32c(b"0123456")  # type: ignore[union-attr]
    lone.piece(b"78")
    lone.written(AT_100, 9)
    assert asked_piece(lone).prefix_checksum == -1  # type: ignore[union-attr]


# --- what another leader has to compare ---------------------------------------------------------------------


def compared(**options: object) -> Lone:
    """It has seven of ten bytes of leader 2, and leader 3 compares them with its own."""
    lone = downloading(**options)
    lone.piece(b"0123456")
    lone.written(AT_100, 7)
    lone.ask_begin(6, 3)
    lone.fetch_response(of=3, snapshot_id=AT_100)
    return lone


def lose_and_find(lone: Lone, lost_ms: int = 2_200, offered: OffsetAndEpoch = AT_200) -> list[fx.Effect]:
    """Nothing comes for so long; then leader 3 is found again, and offers this snapshot."""
    effects = lone.run(lost_ms)
    lone.ask_begin(6, 3)
    return effects + lone.fetch_response(of=3, snapshot_id=offered)


@covers("D-22")
@pytest.mark.parametrize(
    "timing",
    [Timing(), Timing(request_timeout_ms=9_000), Timing(request_timeout_ms=1_500)],
    ids=["by default", "a long request timeout", "a short request timeout"],
)
def test_after_two_comparisons_that_took_too_long_the_newest_is_begun(timing: Timing) -> None:
    lone = compared(timing=timing)
    first = lone.asked(3, m.FetchSnapshotRequest)
    assert not every(lose_and_find(lone), fx.DropSnapshot)
    again = lone.asked(3, m.FetchSnapshotRequest)
    assert first is not None
    assert again is not None
    assert asked_piece(lone, of=3).prefix_checksum >= 0, "once more"  # type: ignore[union-attr]
    assert again.request == first.request, "half of a piece would take as long"
    effects = lose_and_find(lone)
    assert every(effects, fx.DropSnapshot) == [fx.DropSnapshot(AT_100)]
    piece = asked_piece(lone, of=3)
    assert piece is not None
    assert (piece.snapshot_id.end_offset, piece.position, piece.prefix_checksum) == (200, 0, -1)
    lone.piece(b"0123456789", of=3)
    assert installed(lone.written(AT_200, 10, is_whole=True)) == [AT_200]


@covers("D-22")
def test_one_that_is_the_newest_still_is_begun_anew_after_two_comparisons() -> None:
    lone = compared()
    lose_and_find(lone, offered=AT_100)
    lose_and_find(lone, offered=AT_100)
    piece = asked_piece(lone, of=3)
    assert piece is not None
    assert (piece.snapshot_id.end_offset, piece.position, piece.prefix_checksum) == (100, 0, -1)
    assert every(lone.piece(b"abc", of=3), fx.WriteSnapshot) == [fx.WriteSnapshot(AT_100, 0, b"abc", 10)]


@covers("D-22")
@pytest.mark.parametrize("how", ["broken", "cut short", "a piece", "at a late write"])
def test_a_comparison_counts_only_if_it_was_waited_for(how: str) -> None:
    """A loss of the leader asks for one once more, 100 ms before nobody listens to its answer."""
    lone = compared()
    if how == "at a late write":
        lone = interrupted()
        lone.raft_node._raft.download.writing_to = 7  # type: ignore[union-attr]
        lone.ask_begin(6, 3)
        lone.fetch_response(of=3, snapshot_id=AT_100)
        lone.run(1_900)
        lone.written(AT_100, 7)
    lose_and_find(lone)
    if how == "broken":
        for _ in range(90):
            send = lone.asked(3, m.FetchSnapshotRequest)
            assert send is not None
            lone.feed(ev.RequestFailed(3, send.correlation_id, "no connection"))
            lone.run(20)
        lone.run(400)
    elif how == "cut short":
        lone.run(1_000)
        lone.ask_begin(7, 2)
        lone.run(5_000)
        lone.ask_begin(8, 3)
        lone.fetch_response(of=3, snapshot_id=AT_200)
    elif how == "a piece":
        lone.piece(b"7", of=3)
        lone.written(AT_100, 8)
        lone.ask_begin(7, 2)
        lone.fetch_response(snapshot_id=AT_200)
        lone.run(2_200)
        lone.ask_begin(7, 2)
        lone.fetch_response(snapshot_id=AT_200)
    else:
        lone.run(2_200)
        lone.ask_begin(6, 3)
        lone.fetch_response(of=3, snapshot_id=AT_200)
    assert not every(lone.effects, fx.DropSnapshot)


@covers("D-22")
def test_comparisons_that_are_broken_off_each_time_count_together() -> None:
    """The network ends every connection after 900 ms, and node 3 reads for longer than that."""
    lone = compared()
    while (send := lone.asked(3, m.FetchSnapshotRequest)) is not None and lone.now_ms < 60_000:
        lone.run(900)
        lone.feed(ev.RequestFailed(3, send.correlation_id, "connection closed"))
        lone.run(100)
        if not isinstance(lone.raft_node.state, Follower):
            lone.ask_begin(lone.raft_node.epoch, 3)
        if lone.asked(3, m.FetchRequest) is not None:
            lone.fetch_response(of=3, snapshot_id=AT_200)
        if every(lone.effects, fx.DropSnapshot):
            break
    piece = asked_piece(lone, of=3)
    assert piece is not None
    assert (piece.snapshot_id.end_offset, piece.position, piece.prefix_checksum) == (200, 0, -1)


@covers("D-22")
def test_the_time_of_a_comparison_begins_anew_at_another_leader() -> None:
    """Node 3 led, was asked, and led no more; long after that it leads again, and its connection breaks."""
    lone = compared()
    lone.run(1_000)
    lone.ask_begin(7, 2)
    lone.run(5_000)
    lone.ask_begin(8, 3)
    lone.fetch_response(of=3, snapshot_id=AT_200)
    asked = lone.asked(3, m.FetchSnapshotRequest)
    assert asked is not None
    lone.feed(ev.RequestFailed(3, asked.correlation_id, "connection closed"))
    lone.run(2_200)
    lone.ask_begin(lone.raft_node.epoch, 3)
    lone.fetch_response(of=3, snapshot_id=AT_200)
    assert not every(lone.effects, fx.DropSnapshot), "one comparison was late, not two"


@covers("D-24")
def test_an_observers_comparison_that_is_kept_waiting_is_not_answered_by_that() -> None:
    """While the leader reads, it says so by pieces without bytes; the answer comes too late each time."""
    lone = downloading(voters=(2, 3, 4), epochs=())
    lone.piece(b"0123456")
    lone.written(AT_100, 7)
    lone.piece(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_and_epoch=LeaderAndEpoch(6, 3))
    lone.fetch_response(of=3, snapshot_id=AT_100)
    for _ in range(2):
        assert asked_piece(lone, of=3).prefix_checksum >= 0  # type: ignore[union-attr]
        lone.run(2_100)
        lone.fetch_response(of=3, snapshot_id=AT_200)
        lone.piece(of=3)
        lone.run(100)
    assert asked_piece(lone, of=3).snapshot_id.end_offset == 200  # type: ignore[union-attr]


def test_a_newer_snapshot_takes_the_place_of_one_that_the_leader_does_not_have_any_more() -> None:
    """KAFKA-13078: the former one is what must be closed."""
    lone = interrupted()
    lone.fetch_response(snapshot_id=AT_200)
    effects = lone.piece(error=ErrorCode.SNAPSHOT_NOT_FOUND, size_bytes=0)
    assert every(effects, fx.DropSnapshot) == [fx.DropSnapshot(AT_100)]
    lone.fetch_response(snapshot_id=AT_200)
    assert asked_piece(lone).snapshot_id.end_offset == 200  # type: ignore[union-attr]
    effects = lone.written(AT_100, 10)
    assert not installed(effects), "a late word of the former one"
    lone.piece(b"0123456789")
    assert installed(lone.written(AT_200, 10, is_whole=True)) == [AT_200]


@pytest.mark.parametrize("earlier", [AT_100, OffsetAndEpoch(300, 5), OffsetAndEpoch(150, 6)])
def test_a_download_of_which_nothing_is_here_or_that_is_not_older_gives_way_at_once(
    earlier: OffsetAndEpoch,
) -> None:
    """Of a leader that has a shorter log, or is of an older epoch, the rest cannot be had."""
    lone = Lone(election=Election(6, 2), epochs=(1, 1, 1))
    lone.fetch_response(snapshot_id=earlier)
    if earlier != AT_100:
        lone.piece(b"0123456")
        lone.written(earlier, 7)
    lone.run(2_200)
    lone.ask_begin(6)
    effects = lone.fetch_response(snapshot_id=AT_200)
    assert every(effects, fx.DropSnapshot) == [fx.DropSnapshot(earlier)]
    piece = asked_piece(lone)
    assert piece is not None
    assert (piece.snapshot_id.end_offset, piece.position) == (200, 0)


def test_a_download_of_what_is_committed_here_by_now_is_not_gone_on_with() -> None:
    lone = interrupted()
    lone.feed(ev.SnapshotReceived(AT_200, 10, is_whole=True))
    assert installed(lone.fetch_response(snapshot_id=AT_200)) == [AT_200]
    lone.fetch_response(snapshot_id=OffsetAndEpoch(300, 5))
    piece = asked_piece(lone)
    assert piece is not None
    assert (piece.snapshot_id.end_offset, piece.position) == (300, 0)


def test_a_leader_that_has_the_log_after_all_ends_the_download() -> None:
    lone = interrupted()
    effects = lone.fetch_response(encode_batch(3, 5, 0, [b"next"]), high_watermark=-1)
    assert every(effects, fx.DropSnapshot) == [fx.DropSnapshot(AT_100)]
    assert every(effects, fx.Append)


@covers("LSN-16", "SIMX-13")
def test_one_that_leads_loads_nothing() -> None:
    lone = downloading()
    lone.piece(b"0123456789")
    lone.run(2_200)
    lone.vote_response(3, granted=True)
    lone.vote_response(3, granted=True)
    assert lone.raft_node.is_leader
    assert every(lone.effects, fx.DropSnapshot) == [fx.DropSnapshot(AT_100)]
    effects = lone.written(AT_100, 10, is_whole=True)
    assert not installed(effects)
    assert not every(effects, fx.LoadSnapshot)
    assert lone.raft_node.log.end_offset == 4


# --- who loads ----------------------------------------------------------------------------------------------


@covers("D-06")
def test_one_with_lost_records_loads_a_snapshot_and_has_still_forgotten_what_it_promised() -> None:
    lone = follower(health=StateHealth(damage=("batch 2 is rotten",)))
    lone.fetch_response()  # to what only asks for the epoch
    lone.fetch_response(snapshot_id=AT_100)
    send = lone.asked(2, m.FetchSnapshotRequest)
    assert send is not None
    assert send.request.replica_id == -1, "not counted"  # type: ignore[union-attr]
    lone.piece(b"0123456789")
    effects = lone.written(AT_100, 10, is_whole=True)
    assert installed(effects) == [AT_100]
    (health,) = every(effects, fx.RememberStateHealth)
    assert (health.health, list(health.reasons)) == (HealthKind.AMNESIA, ["batch 2 is rotten"])
    assert not lone.raft_node.is_whole
    assert lone.raft_node.damage == ()


def test_an_observer_loads_one_too() -> None:
    lone = downloading(voters=(2, 3, 4), epochs=())
    assert lone.asked(2, m.FetchSnapshotRequest).request.replica_id == 1  # type: ignore[union-attr]
    lone.piece(b"0123456789")
    assert installed(lone.written(AT_100, 10, is_whole=True)) == [AT_100]


@covers("D-06")
def test_an_observer_that_loads_one_in_place_of_a_damaged_log_remembers_no_voter() -> None:
    lone = downloading(voters=(2, 3, 4), epochs=(), health=StateHealth(damage=("batch 2 is rotten",)))
    lone.piece(b"0123456789")
    effects = lone.written(AT_100, 10, is_whole=True)
    assert installed(effects) == [AT_100]
    assert not every(effects, fx.RememberPeer)


def test_an_observer_whose_leader_falls_silent_looks_for_another_and_goes_on_there() -> None:
    lone = downloading(voters=(2, 3, 4), epochs=())
    lone.piece(b"0123456")
    lone.written(AT_100, 7)
    lone.run(4_100)
    (asked,) = lone.fetching()
    lone.fetch_response(of=asked, error=ErrorCode.FENCED_LEADER_EPOCH, leader_and_epoch=LeaderAndEpoch(6, 4))
    lone.fetch_response(of=4, snapshot_id=AT_100)
    assert asked_piece(lone, of=4).position == 7  # type: ignore[union-attr]


def test_a_fetch_that_is_answered_behind_the_snapshot_was_about_the_old_log() -> None:
    """A piece takes longer than the fetch timeout, so the observer looks for the leader by a fetch, and the
    leader answers that one behind the last piece: it still offers the snapshot.
    """
    lone = downloading(voters=(2,), epochs=(), timing=Timing(fetch_timeout_ms=500))
    lone.run(600)
    late = lone.asked(2, m.FetchRequest)
    assert late is not None
    lone.piece(b"0123456789")
    assert installed(lone.written(AT_100, 10, is_whole=True)) == [AT_100]
    fetch = lone.asked(2, m.FetchRequest).request.topics[0].partitions[0]  # type: ignore[union-attr]
    assert fetch.fetch_offset == 100, "it is not waited for"
    offer = rpc.fetch_response(ErrorCode.NONE, LeaderAndEpoch(5, 2), snapshot_id=AT_100)
    assert lone.answer(late, offer) == []


@covers("LOG-10", "FREQ-16")
def test_a_log_that_differs_from_its_snapshot_on_is_cut_to_there_and_no_further() -> None:
    """The log begins at 100, behind epoch 4; its records are of epoch 6, and the leader knows no epoch 6."""
    lone = Lone(
        election=Election(7, 2), epochs=(6, 6, 6), start_offset=100, snapshots=[AT_100], connected=(2, 3)
    )
    effects = lone.fetch_response(diverging=OffsetAndEpoch(120, 5))
    assert [effect.end_offset for effect in every(effects, fx.Truncate)] == [100]
    send = lone.asked(2, m.FetchRequest)
    assert send is not None
    fetch = send.request.topics[0].partitions[0]  # type: ignore[union-attr]
    assert (fetch.fetch_offset, fetch.last_fetched_epoch) == (100, 4)
    effects = lone.fetch_response(diverging=OffsetAndEpoch(100, 3))
    assert [alarm.name for alarm in every(effects, fx.Alarmed)] == ["diverged_below_high_watermark"]


@covers("SF-09", "D-21")
def test_a_piece_of_a_download_that_was_dropped_counts_nothing_in_the_next_one_of_that_snapshot() -> None:
    lone = follower()
    lone.fetch_response(snapshot_id=AT_100)
    lone.piece(b"0123456")  # it is being written, up to 7
    lone.run(2_200)  # the leader was lost,
    lone.ask_begin(5)  # and is heard again
    lone.fetch_response()  # its log serves after all: the download is dropped
    lone.fetch_response(snapshot_id=AT_100)  # and begun anew
    lone.piece(b"012")
    lone.written(AT_100, 7)
    download = lone.raft_node._raft.download
    assert download is not None
    assert (download.position, download.writing_to) == (0, 3)


@covers("D-06")
def test_one_with_lost_records_that_loads_a_snapshot_hears_a_voter_that_it_doubted() -> None:
    """3 got another disk, and connected while this node knew the former one, and only had lost records."""
    lone = follower(health=StateHealth(damage=("batch 2 is rotten",)), connected=(2,))
    peers = lone.raft_node._raft.peers
    peers._remembered[3] = PeerIdentity(3, b"the former disk.", 1, b"its former start")
    lone.connect(3)
    assert not peers.is_trusted(peers.outbound_identity(3))
    lone.fetch_response()  # to what only asks for the epoch
    lone.fetch_response(snapshot_id=AT_100)
    lone.piece(b"0123456789")
    effects = lone.written(AT_100, 10, is_whole=True)
    kept = [effect for effect in effects if isinstance(effect, fx.RememberStateHealth | fx.RememberPeer)]
    assert kept == [
        fx.RememberStateHealth(HealthKind.AMNESIA, ("batch 2 is rotten",)),
        fx.RememberPeer(identity_of(3)),
    ]
    assert peers.is_trusted(peers.outbound_identity(3))


@covers("D-06")
@pytest.mark.parametrize("connects", ["before", "after"])
def test_one_with_lost_records_that_loads_a_snapshot_knows_whom_it_has_heard(connects: str) -> None:
    """It counts by the leader of before: who only then is another must not be counted together with it."""
    lone = follower(health=StateHealth(damage=("batch 2 is rotten",)), connected=(2, 3))
    lone.fetch_response()
    lone.run(100)
    lone.answer(lone.asked(3, m.FetchRequest), rpc.fetch_response(ErrorCode.NONE, LeaderAndEpoch(5, 2)))
    raft = lone.raft_node._raft
    assert 3 not in raft.rejoin.unheard
    raft.peers._remembered[3] = PeerIdentity(3, b"the former disk.", 1, b"its former start")
    lone.fetch_response(snapshot_id=AT_100)
    if connects == "before":
        lone.connect(3)
    lone.piece(b"0123456789")
    effects = lone.written(AT_100, 10, is_whole=True)
    if connects == "after":
        effects += lone.connect(3)
    assert raft.rejoin.has_forgotten
    assert not every(effects, fx.RememberPeer)
    assert raft.peers.conflicting_voters() == [3]


@covers("D-06")
def test_a_whole_node_that_loads_a_snapshot_goes_on_doubting() -> None:
    lone = follower(connected=(2,))
    peers = lone.raft_node._raft.peers
    peers._remembered[3] = PeerIdentity(3, b"the former disk.", 1, b"its former start")
    lone.connect(3)
    lone.fetch_response(snapshot_id=AT_100)
    lone.piece(b"0123456789")
    effects = lone.written(AT_100, 10, is_whole=True)
    assert every(effects, fx.InstallSnapshot)
    assert not every(effects, fx.RememberPeer)
    assert not peers.is_trusted(peers.outbound_identity(3))
