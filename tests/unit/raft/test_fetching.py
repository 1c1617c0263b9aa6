"""How a follower takes in what its leader sends: what it appends, cuts, commits and ignores."""

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc
from kraftd.raft.epoch_states import Candidate, Follower, Leader, Prospective
from kraftd.raft.rpc import LeaderAndEpoch
from kraftd.raft.timing import Timing
from kraftd.records.batch import encode_batch
from kraftd.types import METADATA_TOPIC_ID, Election, Endpoint, EpochEntry, OffsetAndEpoch
from tests.conformance import covers
from tests.unit.raft.lone import CLUSTER_ID, Lone, every, key_of, requests_to


def follower(epoch: int = 5, epochs: Sequence[int] = (), **options: object) -> Lone:
    """It follows 2, which has just announced itself, and has sent its first fetch."""
    election = Election(epochs[-1]) if epochs else None
    lone = Lone(epochs=epochs, election=election, **options)  # type: ignore[arg-type]
    lone.ask_begin(epoch, 2)
    del lone.effects[: lone.effects.index(lone.asked(2, m.FetchRequest))]  # type: ignore[arg-type]
    return lone


def record(offset: int, epoch: int = 5, value: bytes = b"new") -> bytes:
    return encode_batch(offset, epoch, 0, [value])


def asked_for(effects: Sequence[fx.Effect]) -> list[tuple[int, int, int]]:
    """To whom fetches went, with offset and last epoch."""
    found = []
    for send in every(effects, fx.Send):
        if isinstance(send.request, m.FetchRequest):
            data = send.request.topics[0].partitions[0]
            found.append((send.to, data.fetch_offset, data.last_fetched_epoch))
    return found


# --- records ------------------------------------------------------------------------------------------------


@covers("FRSP-01", "FRSP-02", "D-02")
def test_records_are_appended_committed_flushed_and_only_then_asked_beyond() -> None:
    lone = follower(flushes=False)
    lone.now_ms += 500
    effects = lone.fetch_response(record(0) + record(1), high_watermark=1)
    assert [type(effect) for effect in effects] == [fx.Append, fx.Commit, fx.Flush]
    append, commit, flush = effects
    assert (append.base_offset, append.end_offset) == (0, 2)  # type: ignore[union-attr]
    assert commit == fx.Commit(1)
    assert flush == fx.Flush(0, 2)
    state = lone.raft_node.state
    assert isinstance(state, Follower)
    assert state.deadline_ms == lone.now_ms + Timing().fetch_timeout_ms
    assert asked_for(lone.feed(ev.LogFlushed(0, 2))) == [(2, 2, 5)]


@covers("FRSP-17")
def test_each_batch_enters_its_epoch_and_no_size_is_too_large() -> None:
    lone = follower(epoch=7)
    large = record(2, 7, b"x" * (9 << 20))
    assert asked_for(lone.fetch_response(record(0, 3) + record(1, 6) + large)) == [(2, 3, 7)]
    entries = lone.raft_node.log.epochs.entries
    assert entries == (EpochEntry(3, 0), EpochEntry(6, 1), EpochEntry(7, 2))


@covers("FRSP-17", "Q-07")
@pytest.mark.parametrize(
    "second",
    [
        pytest.param(record(0), id="the same offset again"),
        pytest.param(record(2), id="a gap"),
        pytest.param(record(1, 4), id="an older epoch"),
        pytest.param(record(1, 6), id="an epoch to come"),
        pytest.param(record(1)[:-3] + b"!!!", id="a wrong checksum"),
    ],
)
def test_one_bad_batch_and_nothing_of_the_response_is_taken(second: bytes) -> None:
    lone = follower()
    effects = lone.fetch_response(record(0) + second)
    assert not every(effects, fx.Append)
    assert [warning.name for warning in every(effects, fx.Warned)] == ["bad_batch"]
    assert lone.raft_node.log.end_offset == 0
    assert asked_for(lone.run(20)) == [(2, 0, 0)], "it asks again after the backoff"


@covers("FRSP-18", "FRSP-19")
@pytest.mark.parametrize("records", [b"", record(0)[:-1], record(0)[:9]], ids=["nothing", "cut", "cut early"])
def test_without_a_whole_batch_nothing_is_appended_or_flushed(records: bytes) -> None:
    lone = follower()
    effects = lone.fetch_response(records)
    assert not every(effects, fx.Append)
    assert not every(effects, fx.Flush)
    assert asked_for(effects + lone.run(20)) == [(2, 0, 0)]


@covers("FRSP-18")
def test_the_batch_that_was_cut_comes_again() -> None:
    lone = follower()
    effects = lone.fetch_response(record(0) + record(1)[:-1])
    assert [(append.base_offset, append.end_offset) for append in every(effects, fx.Append)] == [(0, 1)]
    assert asked_for(effects) == [(2, 1, 5)]


# --- the high watermark -------------------------------------------------------------------------------------


@covers("FRSP-03", "FRSP-04", "HWM-11", "HWM-12")
def test_the_high_watermark_rises_to_what_the_leader_says_and_the_log_holds() -> None:
    lone = follower(epoch=5, epochs=(3, 3, 3, 3))
    raft_node = lone.raft_node
    assert raft_node.high_watermark == -1
    for said, known, news in (
        (-1, -1, []),
        (2, 2, [2]),
        (2, 2, []),
        (-1, 2, []),
        (1, 2, []),
        (3, 3, [3]),
        (900, 4, [4]),
    ):
        effects = lone.fetch_response(high_watermark=said)
        assert raft_node.high_watermark == known, f"the leader said {said}"
        assert [commit.high_watermark for commit in every(effects, fx.Commit)] == news


@covers("HWM-14")
def test_after_a_start_nothing_is_known_to_be_committed() -> None:
    lone = follower(epoch=5, epochs=(3, 3, 3))
    assert lone.raft_node.log.end_offset == 3
    assert lone.raft_node.high_watermark == -1
    assert lone.raft_node.committed_batches(0, 1 << 20) == []
    assert not every(lone.effects, fx.Commit)


# --- divergence ---------------------------------------------------------------------------------------------


@covers("FRSP-05")
@pytest.mark.parametrize(
    ("said", "cut_at", "next_fetch"),
    [
        pytest.param((0, 2), 2, (2, 2, 1), id="epoch 0: at the offset"),
        pytest.param((0, 99), None, (2, 6, 4), id="epoch 0: at the log's end at most"),
        pytest.param((2, 4), 4, (2, 4, 2), id="an epoch we have, shorter there"),
        pytest.param((2, 99), 5, (2, 5, 2), id="an epoch we have, longer there"),
        pytest.param((3, 4), 5, (2, 5, 2), id="an epoch we never had, wherever it ended"),
    ],
)
def test_a_divergence_is_cut_to_where_both_may_agree(
    said: tuple[int, int], cut_at: int | None, next_fetch: tuple[int, int, int]
) -> None:
    lone = follower(epochs=(1, 1, 1, 2, 2, 4))
    lone.now_ms += 700
    effects = lone.fetch_response(diverging=OffsetAndEpoch(said[1], said[0]))
    cut = [truncate.end_offset for truncate in every(effects, fx.Truncate)]
    assert cut == ([] if cut_at is None else [cut_at])
    state = lone.raft_node.state
    assert isinstance(state, Follower)
    assert state.deadline_ms == lone.now_ms + Timing().fetch_timeout_ms, "it was a good response"
    if cut_at is None:
        assert not asked_for(effects), "the response to the same fetch would be the same"
        effects = lone.run(100)
    assert asked_for(effects) == [next_fetch]


@covers("FRSP-06")
def test_divergences_go_on_until_the_histories_agree() -> None:
    lone = follower(epoch=9, epochs=(1, 2, 4, 6))
    for said, expected in (((5, 9), (2, 3, 4)), ((3, 9), (2, 2, 2)), ((1, 1), (2, 1, 1))):
        assert asked_for(lone.fetch_response(diverging=OffsetAndEpoch(said[1], said[0]))) == [expected]
    assert asked_for(lone.fetch_response(record(1, 9))) == [(2, 2, 9)]


@covers("FRSP-05", "D-15")
def test_a_disk_that_is_slower_than_the_network_does_not_keep_a_follower_from_cutting() -> None:
    """Each response that comes before the disk has told where to cut would make it begin anew."""
    lone = Lone(election=Election(5, 2), epochs=(1, 4, 4), in_memory=False)
    lone.fetch_response(diverging=OffsetAndEpoch(2, 4))
    for _ in range(3):
        lone.run(100)
        if lone.fetching():
            lone.fetch_response(diverging=OffsetAndEpoch(2, 4))
    read = every(lone.effects, fx.ColdRead)[0]
    effects = lone.feed(ev.BatchesRead(read.token, 0, encode_batch(1, 4, 0, [b"old"])))
    assert [cut.end_offset for cut in every(effects, fx.Truncate)] == [2]
    assert asked_for(effects) == [(2, 2, 4)], "and asks on from there"


@covers("FRSP-07", "HWM-13", "D-14")
def test_what_is_committed_is_not_cut_for_any_leader() -> None:
    lone = follower(epochs=(3, 3, 3))
    lone.fetch_response(high_watermark=2)
    effects = lone.fetch_response(diverging=OffsetAndEpoch(1, 3))
    assert not every(effects, fx.Truncate)
    assert [alarm.name for alarm in every(effects, fx.Alarmed)] == ["diverged_below_high_watermark"]
    assert (lone.raft_node.log.end_offset, lone.raft_node.high_watermark) == (3, 2)
    assert asked_for(effects) == []


@covers("FRSP-11")
@pytest.mark.parametrize("what", ["divergence", "snapshot"])
def test_a_divergence_goes_before_a_snapshot_and_that_before_records(what: str) -> None:
    lone = follower(epochs=(3, 3, 3))
    send = lone.asked(2, m.FetchRequest)
    assert send is not None
    response = rpc.fetch_response(
        ErrorCode.NONE,
        LeaderAndEpoch(5, 2),
        high_watermark=3,
        diverging=OffsetAndEpoch(2, 3) if what == "divergence" else None,
    )
    data = replace(response.responses[0].partitions[0], snapshot_id=m.FetchResponseSnapshotId(9, 4))
    topic = m.FetchResponseFetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(data,))
    effects = lone.answer(send, replace(response, responses=(topic,)), record(3))
    assert not every(effects, fx.Append)
    assert not every(effects, fx.Commit), "its high watermark does not count"
    assert len(every(effects, fx.Truncate)) == (what == "divergence")
    assert requests_to(effects, m.FetchSnapshotRequest) == ([2] if what == "snapshot" else [])


# --- responses that are not for now -------------------------------------------------------------------------


def _campaigns(lone: Lone) -> None:
    lone.run(2_200)
    assert isinstance(lone.raft_node.state, Prospective)


def _stands(lone: Lone) -> None:
    _campaigns(lone)
    lone.vote_response(3, granted=True)
    assert isinstance(lone.raft_node.state, Candidate)


def _leads(lone: Lone) -> None:
    _stands(lone)
    lone.vote_response(3, granted=True)
    assert isinstance(lone.raft_node.state, Leader)


def _follows_another(lone: Lone) -> None:
    lone.ask_begin(6, 3)
    assert lone.raft_node.leader_id == 3


def _gives_a_vote(lone: Lone) -> None:
    lone.ask_vote(6, candidate=3)
    assert lone.raft_node.leader_id == -1


@covers("FRSP-12", "FRSP-15", "VOTE-31")
@pytest.mark.parametrize("moves", [_campaigns, _stands, _leads, _follows_another, _gives_a_vote])
def test_a_response_that_comes_after_the_move_changes_nothing(moves: Callable[[Lone], None]) -> None:
    lone = follower()
    send = lone.asked(2, m.FetchRequest)
    assert send is not None
    moves(lone)
    before, end = lone.raft_node.state, lone.raft_node.log.end_offset
    response = rpc.fetch_response(ErrorCode.NONE, LeaderAndEpoch(5, 2), high_watermark=1)
    effects = lone.answer(send, response, record(0))
    assert not every(effects, fx.Append)
    assert (lone.raft_node.state, lone.raft_node.log.end_offset) == (before, end)
    assert lone.raft_node.high_watermark == -1


@covers("FRSP-15", "REQ-05")
def test_the_late_response_to_a_fetch_that_was_given_up_writes_nothing_twice() -> None:
    timing = Timing(request_timeout_ms=300)
    lone = follower(timing=timing)
    first = lone.asked(2, m.FetchRequest)
    assert first is not None
    assert (2, 0, 0) in asked_for(lone.run(300)), "asked again, at once"
    lone.fetch_response(record(0))
    assert lone.raft_node.log.end_offset == 1
    response = rpc.fetch_response(ErrorCode.NONE, LeaderAndEpoch(5, 2), high_watermark=1)
    assert lone.answer(first, response, record(0)) == []
    assert (lone.raft_node.log.end_offset, lone.raft_node.high_watermark) == (1, -1)


@covers("FRSP-14")
def test_fenced_it_follows_the_leader_it_is_told_of() -> None:
    lone = follower()
    effects = lone.fetch_response(
        error=ErrorCode.FENCED_LEADER_EPOCH, leader_and_epoch=LeaderAndEpoch(8, 3, Endpoint("host3", 9_003))
    )
    assert (lone.epoch, lone.raft_node.leader_id) == (8, 3)
    assert asked_for(effects) == [(3, 0, 0)]


@covers("FRSP-13", "OBS-01")
def test_one_response_may_name_the_leader_and_bring_records() -> None:
    lone = Lone(voters=(2, 3), connected=(2, 3), election=Election(5))
    assert lone.raft_node.leader_id == -1
    (asked,) = asked_for(lone.started)
    leader_and_epoch = LeaderAndEpoch(5, asked[0], Endpoint("somewhere", 9_000))
    effects = lone.fetch_response(record(0), of=asked[0], leader_and_epoch=leader_and_epoch, high_watermark=1)
    assert lone.raft_node.leader_id == asked[0]
    assert [append.end_offset for append in every(effects, fx.Append)] == [1]
    assert lone.raft_node.high_watermark == 1


@covers("FRSP-16", "D-14")
def test_a_peer_that_denies_us_is_left_alone_for_a_while() -> None:
    """Kafka's process ends (Q-04)."""
    lone = follower()
    send = lone.asked(2, m.FetchRequest)
    assert send is not None
    effects = lone.answer(send, m.FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert [warning.name for warning in every(effects, fx.Warned)] == ["bad_response"]
    assert asked_for(effects) == []
    assert asked_for(lone.run(20)) == [(2, 0, 0)]


# --- what a fetch says --------------------------------------------------------------------------------------


@covers("FRSP-20")
@pytest.mark.parametrize(("epochs", "last_epoch"), [((), 0), ((2, 3, 3), 3)])
def test_a_fetch_tells_where_the_log_ends_and_who_asks(epochs: tuple[int, ...], last_epoch: int) -> None:
    lone = follower(epochs=epochs)
    send = lone.asked(2, m.FetchRequest)
    assert send is not None
    request = send.request
    assert isinstance(request, m.FetchRequest)
    assert (request.cluster_id, request.replica_state.replica_id) == (CLUSTER_ID, 1)
    assert (request.max_wait_ms, request.max_bytes) == (150, 8 << 20)
    (topic,) = request.topics
    (data,) = topic.partitions
    assert (topic.topic_id, data.partition) == (METADATA_TOPIC_ID, 0)
    assert (data.current_leader_epoch, data.fetch_offset) == (5, len(epochs))
    assert data.last_fetched_epoch == last_epoch
    assert data.replica_directory_id == key_of(1).directory_id
    assert data.high_watermark == -1
    lone.fetch_response(record(len(epochs)), high_watermark=1)
    again = lone.asked(2, m.FetchRequest)
    assert again is not None
    assert again.request.topics[0].partitions[0].high_watermark == 1  # type: ignore[union-attr]


@covers("FRSP-02")
def test_an_observer_flushes_too_before_it_fetches_on() -> None:
    """Every node here is a controller: what it has applied must be there after a power cut."""
    lone = Lone(voters=(2, 3), election=Election(5), flushes=False)
    (asked,) = requests_to(lone.started, m.FetchRequest)
    leader_and_epoch = LeaderAndEpoch(5, asked, Endpoint("somewhere", 9_000))
    effects = lone.fetch_response(record(0), of=asked, leader_and_epoch=leader_and_epoch)
    assert every(effects, fx.Flush)
    assert asked_for(effects) == []
    assert asked_for(lone.feed(ev.LogFlushed(0, 1))) == [(asked, 1, 5)]
