"""How a leader serves its log: what a fetch is answered, when it waits, what it moves, what is told of it."""

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc
from kraftd.raft.epoch_states import Leader, Resigned, Unattached
from kraftd.raft.purgatory import PARKED_OBSERVERS_MAX
from kraftd.raft.rpc import FetchParams
from kraftd.records.batch import scan
from kraftd.types import METADATA_TOPIC, METADATA_TOPIC_ID, Election, OffsetAndEpoch, ReplicaKey
from tests.conformance import covers
from tests.unit.raft.lone import CLUSTER_ID, Lone, every, identity_of, key_of

NEVER_TOLD = 1 << 62
HANDLE = 77


def leader(*epochs: int, **options: object) -> Lone:
    """It leads, and its first record is committed."""
    election = Election(epochs[-1]) if epochs else None
    return Lone(epochs=epochs, election=election, **options).become_leader().establish()  # type: ignore[arg-type]


def fetch_of(
    lone: Lone, offset: int, last_epoch: int, *, replica: int = 2, wait_ms: int = 0, known: int = NEVER_TOLD
) -> m.FetchRequest:
    key = key_of(replica) if replica >= 0 else ReplicaKey(replica)
    ask = FetchParams(key, lone.epoch, OffsetAndEpoch(offset, last_epoch), known, wait_ms)
    return rpc.fetch_request(CLUSTER_ID, ask, 1)


def reply_to(lone: Lone, request: m.FetchRequest, version: int = 18, sender: int | None = 2) -> fx.Reply:
    """The response to a request that is not to be parked."""
    peer = None if sender is None else identity_of(sender)
    effects = lone.feed(ev.RequestReceived(HANDLE, request, version, peer))
    (reply,) = [reply for reply in every(effects, fx.Reply) if reply.handle == HANDLE]
    return reply


def told(reply: fx.Reply) -> m.FetchResponsePartitionData:
    assert isinstance(reply.response, m.FetchResponse)
    assert reply.response.error_code == 0
    return reply.response.responses[0].partitions[0]


def values_in(records: Sequence[bytes]) -> list[bytes]:
    return [value for batch in scan(b"".join(records)) for value in batch.values()]


# --- which fetches are good ---------------------------------------------------------------------------------


@covers("FREQ-01", "FREQ-23")
def test_a_refusal_says_who_leads_and_brings_nothing() -> None:
    lone = leader()
    for request in (
        fetch_of(lone, -1, 0),
        fetch_of(lone, 0, -1),
        fetch_of(lone, 0, lone.epoch + 1),
        fetch_of(lone, 0, 0, wait_ms=-1),
    ):
        reply = reply_to(lone, request)
        data = told(reply)
        assert data.error_code == ErrorCode.INVALID_REQUEST
        assert data.current_leader == m.FetchResponseLeaderIdAndEpoch(1, lone.epoch)
        assert (data.high_watermark, data.log_start_offset) == (-1, 0)
        assert not b"".join(reply.records)


@covers("FREQ-03")
def test_a_fetch_names_our_cluster_or_none() -> None:
    lone = leader()
    good = fetch_of(lone, 0, 0)
    for cluster_id, error in ((CLUSTER_ID, 0), (None, 0), ("another", ErrorCode.INCONSISTENT_CLUSTER_ID)):
        response = lone.ask(replace(good, cluster_id=cluster_id))
        assert response is not None
        assert response.error_code == error, cluster_id


def _topics(*topics: m.FetchRequestFetchTopic) -> Callable[[m.FetchRequest], m.FetchRequest]:
    return lambda request: replace(request, topics=topics)


PARTITION = m.FetchRequestFetchPartition(current_leader_epoch=1)
WRONG_SHAPES = {
    "another topic": _topics(m.FetchRequestFetchTopic(topic_id=b"x" * 16, partitions=(PARTITION,))),
    "the topic twice": _topics(
        *[m.FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(PARTITION,))] * 2
    ),
    "two partitions": _topics(
        m.FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(PARTITION,) * 2)
    ),
    "another partition": _topics(
        m.FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(replace(PARTITION, partition=1),))
    ),
    "no partition": _topics(m.FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID)),
    "no topic": _topics(),
}


@covers("FREQ-04")
@pytest.mark.parametrize("shape", WRONG_SHAPES)
def test_anything_but_the_one_partition_is_refused_whole(shape: str) -> None:
    lone = leader()
    response = lone.ask(WRONG_SHAPES[shape](fetch_of(lone, 0, 0)))
    assert isinstance(response, m.FetchResponse)
    assert (response.error_code, response.responses) == (ErrorCode.INVALID_REQUEST, ())


@covers("FREQ-04", "REQ-09")
@pytest.mark.parametrize("version", [13, 14, 15, 16, 17, 18])
def test_a_fetch_of_any_version_counts_for_the_replica_it_names(version: int) -> None:
    """Before version 15 the replica's id stands in another field."""
    lone = Lone().become_leader()
    request = fetch_of(lone, 1, lone.epoch)
    if version < 15:
        request = replace(request, replica_id=2, replica_state=m.FetchRequestReplicaState(replica_id=-1))
    assert lone.raft_node.high_watermark == -1
    assert told(reply_to(lone, request, version)).error_code == ErrorCode.NONE
    assert lone.raft_node.high_watermark == 1


@covers("FREQ-12", "FREQ-13", "FREQ-14", "FREQ-15")
@pytest.mark.parametrize(
    ("offset", "epoch", "diverging"),
    [
        pytest.param(6, 2, (1, 3), id="an epoch between two known ones"),
        pytest.param(5, 1, (1, 3), id="past the end of its epoch"),
        pytest.param(9, 6, (5, 9), id="an epoch that was skipped"),
        pytest.param(20, 7, (7, 10), id="past the log's end in the leader's own epoch"),
        pytest.param(3, 1, None, id="where an epoch ends"),
        pytest.param(6, 3, None, id="where the next one ends"),
        pytest.param(8, 5, None, id="within an epoch"),
        pytest.param(0, 4, None, id="the log's start, whatever the epoch"),
    ],
)
def test_a_position_outside_the_history_is_answered_with_where_to_look(
    offset: int, epoch: int, diverging: tuple[int, int] | None
) -> None:
    lone = Lone(epochs=(1, 1, 1, 3, 3, 3, 5, 5, 5), election=Election(6)).become_leader()
    reply = reply_to(lone, fetch_of(lone, offset, epoch))
    data = told(reply)
    assert data.error_code == ErrorCode.NONE
    if diverging is None:
        assert data.diverging_epoch == m.FetchResponseEpochEndOffset()
        assert b"".join(reply.records)
    else:
        assert data.diverging_epoch == m.FetchResponseEpochEndOffset(*diverging)
        assert not b"".join(reply.records)


@covers("FREQ-17")
def test_the_start_of_a_whole_log_is_good_with_any_epoch() -> None:
    lone = leader(3, 3)
    for epoch in (0, 1, 3, lone.epoch):
        reply = reply_to(lone, fetch_of(lone, 0, epoch))
        assert len(values_in(reply.records)) == 2


# --- what is answered, and when -----------------------------------------------------------------------------


@covers("FREQ-05")
def test_replicas_get_what_is_not_committed_and_more_than_they_asked_for() -> None:
    """The limits in the request are of no account: one batch at least, and as many as fit ours."""
    lone = leader()
    position = lone.raft_node.log.end_offset
    for value in (b"a" * 1_000, b"b" * 1_000, b"c"):
        lone.append(value)
    assert lone.raft_node.high_watermark == position
    request = fetch_of(lone, position, lone.epoch)
    assert request.max_bytes == 1
    reply = reply_to(lone, replace(request, min_bytes=1 << 20, max_wait_ms=400))
    assert [value[:1] for value in values_in(reply.records)] == [b"a", b"b", b"c"]


@covers("FREQ-05")
def test_one_response_holds_at_most_8_mib_of_several_batches() -> None:
    lone = leader()
    position = lone.raft_node.log.end_offset
    for _ in range(3):
        lone.append(b"x" * 3_000_000)
    reply = reply_to(lone, fetch_of(lone, position, lone.epoch))
    assert len(values_in(reply.records)) == 2


@covers("FREQ-06", "FREQ-07")
def test_a_fetch_at_the_end_is_held_until_its_time_is_up_and_then_answered_empty() -> None:
    lone = leader()
    request = fetch_of(lone, lone.raft_node.log.end_offset, lone.epoch, wait_ms=300)
    held = lone.feed(ev.RequestReceived(HANDLE, request, 18, identity_of(2)))
    assert not every(held, fx.Reply)
    assert not every(lone.run(299), fx.Reply)
    (reply,) = every(lone.run(1), fx.Reply)
    assert told(reply).error_code == ErrorCode.NONE
    assert not b"".join(reply.records)


@covers("D-40")
@pytest.mark.parametrize(("apart_ms", "together"), [(20, True), (21, False)])
def test_one_turn_answers_followers_that_have_waited_almost_as_long(apart_ms: int, together: bool) -> None:
    lone = leader()
    request = fetch_of(lone, lone.raft_node.log.end_offset, lone.epoch, wait_ms=150)
    lone.feed(ev.RequestReceived(HANDLE, request, 18, identity_of(2)))
    lone.run(apart_ms)
    assert lone.ask_fetch(lone.raft_node.log.end_offset, lone.epoch, replica=3, wait_ms=150) is None
    assert len(every(lone.run(150 - apart_ms), fx.Reply)) == 1 + together
    assert len(every(lone.run(apart_ms), fx.Reply)) == 1 - together


@covers("FREQ-08")
def test_only_a_good_fetch_with_nothing_to_give_waits() -> None:
    lone = leader(3)
    end = lone.raft_node.log.end_offset
    for what, request in {
        "no wait": fetch_of(lone, end, lone.epoch),
        "an error": fetch_of(lone, -1, 0, wait_ms=400),
        "records": fetch_of(lone, 1, 3, wait_ms=400),
        "a divergence": fetch_of(lone, end + 1, lone.epoch, wait_ms=400),
    }.items():
        assert reply_to(lone, request), what
    held = lone.feed(
        ev.RequestReceived(HANDLE, fetch_of(lone, end, lone.epoch, wait_ms=400), 18, identity_of(2))
    )
    assert not every(held, fx.Reply)


def _by_a_leader(lone: Lone) -> None:
    lone.ask_begin(lone.epoch + 1, 2)


def _by_a_vote(lone: Lone) -> None:
    lone.ask_vote(lone.epoch + 1)


def _by_an_epoch(lone: Lone) -> None:
    lone.ask_vote(lone.epoch + 1, position=OffsetAndEpoch(0, 0))


def _by_resigning(lone: Lone) -> None:
    lone.run(3_000)


WAYS_OUT = {
    "follower": _by_a_leader,
    "voted": _by_a_vote,
    "unattached": _by_an_epoch,
    "resigned": _by_resigning,
}


@covers("FREQ-09", "Q-08", "D-13")
@pytest.mark.parametrize("way", WAYS_OUT)
def test_whatever_a_leader_becomes_parked_fetches_are_refused(way: str) -> None:
    lone = leader()
    epoch = lone.epoch
    # It waits longer than a leader lasts that nobody fetches from any more.
    lone.raft_node._raft.timing = replace(lone.raft_node._raft.timing, fetch_max_wait_ms=9_000)
    lone.now_ms += 2_500
    request = fetch_of(lone, lone.raft_node.log.end_offset, epoch, replica=-1, wait_ms=1_000)
    assert not every(lone.feed(ev.RequestReceived(HANDLE, request, 18, None)), fx.Reply)
    del lone.effects[:]
    WAYS_OUT[way](lone)
    assert not isinstance(lone.raft_node.state, Leader)
    (reply,) = [reply for reply in every(lone.effects, fx.Reply) if reply.handle == HANDLE]
    assert told(reply).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert told(reply).current_leader.leader_epoch >= epoch


@covers("FREQ-10")
def test_what_a_held_fetch_is_answered_is_what_is_true_when_it_leaves() -> None:
    lone = leader()
    end = lone.raft_node.log.end_offset
    lone.feed(ev.RequestReceived(HANDLE, fetch_of(lone, end, lone.epoch, wait_ms=400), 18, identity_of(2)))
    raft_node, now = lone.raft_node, lone.now
    raft_node.handle(ev.AppendRequested(1, lone.epoch, (b"new",), now.mono_ms + 9_000), now)
    (reply,) = every(raft_node.poll(now), fx.Reply)
    assert values_in(reply.records) == [b"new"]
    # The next one waits while the other voter acknowledges that, so it is told of a higher watermark.
    lone.feed(
        ev.RequestReceived(HANDLE, fetch_of(lone, end + 1, lone.epoch, wait_ms=400), 18, identity_of(2))
    )
    lone.feed(ev.LogFlushed(0, end + 1))
    assert lone.raft_node.high_watermark == end + 1
    (late,) = every(lone.run(400), fx.Reply)
    assert told(late).high_watermark == end + 1
    assert not b"".join(late.records)


@covers("FREQ-11")
def test_a_higher_watermark_alone_answers_who_asked_to_be_told() -> None:
    """Kafka's parked fetches sleep on (Q-10); ours do so only for a replica of a version without KIP-1166."""
    lone = leader()
    end = lone.raft_node.log.end_offset
    lone.append(b"one")
    for handle, replica, known in ((1, 2, end), (2, 3, NEVER_TOLD)):
        request = fetch_of(lone, end + 1, lone.epoch, replica=replica, wait_ms=400, known=known)
        lone.feed(ev.RequestReceived(handle, request, 18, identity_of(replica)))
    assert lone.raft_node.high_watermark == end + 1
    assert [reply.handle for reply in every(lone.run(5), fx.Reply)] == [1]


def test_observers_under_however_many_ids_keep_no_follower_from_waiting() -> None:
    """One connection may ask under any number of ids, and each record appended answers all who wait."""
    lone = leader()
    end = lone.raft_node.log.end_offset
    for replica in range(100, 100 + PARKED_OBSERVERS_MAX):
        assert lone.ask_fetch(end, lone.epoch, replica=replica, wait_ms=500) is None
    assert lone.ask_fetch(end, lone.epoch, replica=99, wait_ms=500) is not None
    assert lone.ask_fetch(end, lone.epoch, replica=2, wait_ms=500) is None


@covers("FREQ-22", "CQ-07")
def test_a_diverging_fetch_is_no_sign_of_life() -> None:
    lone = leader(3)
    known = lone.raft_node.high_watermark
    elected_ms = lone.now_ms
    while isinstance(lone.raft_node.state, Leader) and lone.now_ms < elected_ms + 9_000:
        lone.ask_fetch(50, lone.epoch)
        lone.run(100)
    assert isinstance(lone.raft_node.state, Resigned)
    assert lone.now_ms - elected_ms <= 3_100
    assert lone.raft_node.high_watermark == known


@covers("FREQ-23")
def test_every_response_says_who_leads_and_where_the_log_is() -> None:
    lone = leader(3)
    end = lone.raft_node.log.end_offset
    good, diverging = fetch_of(lone, end, lone.epoch), fetch_of(lone, end + 7, lone.epoch)
    for request in (good, diverging):
        reply = reply_to(lone, request)
        data = told(reply)
        assert data.current_leader == m.FetchResponseLeaderIdAndEpoch(1, lone.epoch)
        assert (data.log_start_offset, data.high_watermark) == (0, end)
        assert isinstance(reply.response, m.FetchResponse)
        assert reply.response.node_endpoints == (m.FetchResponseNodeEndpoint(1, "host1", 9_001),)
    for request in (good, diverging, fetch_of(lone, -1, 0)):
        reply = reply_to(lone, request, version=16)
        assert isinstance(reply.response, m.FetchResponse)
        assert reply.response.node_endpoints == (), "version 16 has no place for them"


@covers("FREQ-24")
def test_a_reader_without_an_id_leaves_no_trace() -> None:
    lone = leader()
    reply = reply_to(lone, fetch_of(lone, 0, 0, replica=-1), sender=None)
    assert len(list(scan(b"".join(reply.records)))) == 1
    assert [peer.node_id for peer in lone.raft_node.describe(lone.now).peers] == [2, 3]
    assert lone.ask_fetch(0, 0, replica=9) is not None
    assert [peer.node_id for peer in lone.raft_node.describe(lone.now).peers] == [2, 3, 9]


@covers("FREQ-26", "D-09")
def test_a_leader_that_is_stopping_serves_on_so_that_its_successor_catches_up() -> None:
    """Kafka refuses with BROKER_NOT_AVAILABLE from then on."""
    lone = leader()
    position = lone.raft_node.log.end_offset
    lone.append(b"the last one")
    lone.shut_down()
    assert lone.raft_node.is_leader
    reply = reply_to(lone, fetch_of(lone, position, lone.epoch))
    assert values_in(reply.records) == [b"the last one"]
    lone.ask_fetch(position + 1, lone.epoch)
    assert isinstance(lone.raft_node.state, Resigned)


@covers("FREQ-27", "HWM-04")
def test_a_follower_that_went_back_is_served_from_there_and_nothing_is_uncommitted() -> None:
    lone = leader()
    lone.append(b"one")
    lone.append(b"two")
    end = lone.raft_node.log.end_offset
    lone.ask_fetch(end, lone.epoch)
    assert lone.raft_node.high_watermark == end
    del lone.effects[:]
    reply = reply_to(lone, fetch_of(lone, 1, lone.epoch))
    assert values_in(reply.records) == [b"one", b"two"]
    assert told(reply).high_watermark == end
    assert not every(lone.effects, fx.Commit)
    assert [peer.fetch_offset for peer in lone.raft_node.describe(lone.now).peers if peer.node_id == 2] == [1]


# --- the high watermark -------------------------------------------------------------------------------------


@covers("HWM-01")
def test_the_high_watermark_is_what_a_majority_of_all_voters_has() -> None:
    lone = Lone(voters=(1, 2, 3, 4, 5), connected=(2, 3, 4, 5))
    lone.run_to_deadline()
    for _ in ("pre-votes", "votes"):
        for voter in (2, 3):
            lone.vote_response(voter, granted=True)
    assert lone.raft_node.is_leader
    for _ in range(4):
        lone.append()
    end = lone.raft_node.log.end_offset
    for replica, offset, committed in ((2, 3, -1), (3, 2, 2), (4, end, 3), (9, end, 3), (5, end, end)):
        lone.ask_fetch(offset, lone.epoch, replica=replica)
        assert lone.raft_node.high_watermark == committed, f"with {replica}, whose log ends at {offset}"


@covers("HWM-02")
def test_what_older_epochs_left_is_committed_only_with_a_record_of_the_own_one() -> None:
    lone = Lone(epochs=(1, 1, 3), election=Election(3)).become_leader()
    lone.ask_fetch(3, 3)
    assert lone.raft_node.high_watermark == -1, "the older records are on a majority"
    lone.ask_fetch(4, lone.epoch)
    assert lone.raft_node.high_watermark == 4


@covers("HWM-03", "Q-11")
def test_a_lone_voter_commits_its_own_log_once_that_is_on_disk() -> None:
    lone = Lone(voters=(1,), connected=(), flushes=False)
    assert lone.raft_node.is_leader
    lone.append()
    assert (lone.raft_node.log.end_offset, lone.raft_node.high_watermark) == (2, -1)
    lone.feed(ev.LogFlushed(0, 2))
    assert lone.raft_node.high_watermark == 2


@covers("D-12")
def test_a_lone_voter_answers_a_read_at_once_and_one_that_has_to_wait_when_that_is_applied() -> None:
    lone = Lone(voters=(1,), connected=(), applies=False)
    early = lone.read()
    assert lone.outcome(early) is None
    lone.feed(ev.Applied(lone.raft_node.high_watermark))
    assert lone.outcome(early) is ErrorCode.NONE
    idle = lone.read()
    assert lone.outcome(idle) is ErrorCode.NONE, "nothing will be applied that it could wait for"


@covers("HWM-08")
def test_a_leaders_own_end_counts_up_and_never_down() -> None:
    lone = leader(flushes=False)
    lone.feed(ev.LogFlushed(0, 1))
    lone.ask_fetch(1, lone.epoch)
    lone.append()
    lone.append()
    lone.ask_fetch(3, lone.epoch)
    lone.feed(ev.LogFlushed(0, 3))
    assert lone.raft_node.high_watermark == 3
    del lone.effects[:]
    for again in (3, 2):
        lone.feed(ev.LogFlushed(0, again))
        assert lone.raft_node.log.flushed_offset == 3
    assert not every(lone.effects, fx.Commit)
    assert lone.raft_node.high_watermark == 3


@covers("HWM-10")
def test_a_commit_reaches_the_state_machine_then_those_who_wait_then_the_followers() -> None:
    lone = leader(applies=False)
    token = lone.append()
    end = lone.raft_node.log.end_offset
    request = fetch_of(lone, end, lone.epoch, known=1, wait_ms=400)
    effects = lone.feed(ev.RequestReceived(HANDLE, request, 18, identity_of(2))) + lone.run(2)
    order = [e for e in effects if isinstance(e, fx.Commit | fx.AppendDone | fx.Reply)]
    assert order[:2] == [fx.Commit(end), fx.AppendDone(token, ErrorCode.NONE, end)]
    assert isinstance(order[2], fx.Reply)
    assert told(order[2]).high_watermark == end


@covers("HWM-15")
def test_committed_reads_end_at_the_high_watermark() -> None:
    lone = leader()
    for value in (b"one", b"two"):
        lone.append(value)
    lone.ask_fetch(2, lone.epoch)
    raft_node = lone.raft_node
    assert (raft_node.high_watermark, raft_node.log.end_offset) == (2, 3)
    assert values_in(raft_node.committed_batches(0, 1 << 20) or ()) == [b"one"]
    assert raft_node.committed_batches(2, 1 << 20) == []
    lone.ask_fetch(3, lone.epoch)
    assert values_in(raft_node.committed_batches(2, 1 << 20) or ()) == [b"two"]


# --- DescribeQuorum -----------------------------------------------------------------------------------------


def describe(lone: Lone) -> tuple[m.DescribeQuorumResponsePartitionData, m.DescribeQuorumResponse]:
    partition = m.DescribeQuorumRequestPartitionData(0)
    topic = m.DescribeQuorumRequestTopicData(METADATA_TOPIC, (partition,))
    response = lone.ask(m.DescribeQuorumRequest(topics=(topic,)), sender=None)
    assert isinstance(response, m.DescribeQuorumResponse)
    assert response.error_code == ErrorCode.NONE
    return response.topics[0].partitions[0], response


@covers("DQ-01", "DQ-05")
def test_who_leads_no_more_does_not_describe() -> None:
    lone = leader()
    assert describe(lone)[0].leader_id == 1
    lone.run(3_000)
    assert isinstance(lone.raft_node.state, Resigned)
    data, _ = describe(lone)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert "does not lead" in (data.error_message or "")
    assert data.current_voters == ()


@covers("DQ-02")
def test_a_leader_describes_what_it_knows_and_minus_one_for_what_it_does_not() -> None:
    lone = Lone().become_leader()
    data, _ = describe(lone)
    assert (data.leader_id, data.leader_epoch, data.high_watermark) == (1, lone.epoch, -1)
    own, second, third = data.current_voters
    wall_ms = lone.now.wall_ms
    assert (own.log_end_offset, own.last_fetch_timestamp, own.last_caught_up_timestamp) == (
        1,
        wall_ms,
        wall_ms,
    )
    for silent in (second, third):
        assert (silent.log_end_offset, silent.last_fetch_timestamp) == (-1, -1)
        assert silent.last_caught_up_timestamp == -1
    lone.ask_fetch(1, lone.epoch)
    lone.ask_fetch(0, 0, replica=9)
    data, _ = describe(lone)
    assert data.high_watermark == 1
    assert [(o.replica_id, o.log_end_offset, o.last_fetch_timestamp) for o in data.observers] == [
        (9, 0, wall_ms)
    ]


@covers("DQ-03")
def test_directory_ids_are_told_once_they_are_known_and_where_voters_listen() -> None:
    lone = Lone().become_leader()
    lone.ask_fetch(1, lone.epoch)
    data, response = describe(lone)
    assert [state.replica_directory_id for state in data.current_voters] == [
        key_of(1).directory_id,
        key_of(2).directory_id,
        bytes(16),
    ]
    listeners = {node.node_id: (node.listeners[0].host, node.listeners[0].port) for node in response.nodes}
    assert listeners == {1: ("host1", 9_001), 2: ("host2", 9_002), 3: ("host3", 9_003)}


@covers("DQ-04")
def test_level_means_level_with_the_end_now_or_with_the_end_at_the_fetch_before() -> None:
    lone = leader()

    def caught_up_ms() -> int:
        return describe(lone)[0].current_voters[1].last_caught_up_timestamp

    first_ms = caught_up_ms()
    assert first_ms == lone.now.wall_ms
    lone.run(10)
    lone.append()
    lone.ask_fetch(1, lone.epoch)
    assert caught_up_ms() == first_ms, "the end of the log is one further"
    behind_ms = lone.now.wall_ms
    lone.run(10)
    lone.append()
    lone.ask_fetch(2, lone.epoch)
    assert caught_up_ms() == behind_ms, "that is where the log ended when it asked before"
    lone.ask_fetch(0, 0)
    assert caught_up_ms() == behind_ms, "it never goes back"
    assert isinstance(lone.raft_node.state, Leader)
    assert not isinstance(lone.raft_node.state, Unattached)
