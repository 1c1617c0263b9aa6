"""What a node answers to requests: the error tables of section 1.5, in check order."""

from collections.abc import Callable

import pytest

from kraftd.audit.invariants import Auditor
from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import rpc
from kraftd.raft.effects import Reply
from kraftd.raft.epoch_states import Follower, Leader, Prospective, Resigned, Unattached
from kraftd.raft.events import AppendRequested, RequestReceived, ResponseReceived
from kraftd.raft.rpc import FetchParams, LeaderAndEpoch, VoteParams
from kraftd.types import NO_NODE, Election, Endpoint, OffsetAndEpoch, PeerIdentity, ReplicaKey
from tests.stories.cluster import CLUSTER_ID, Cluster

EMPTY = OffsetAndEpoch(0, 0)
TO_ME = ReplicaKey(1)


class Bench:
    """One node of three, and hand-made requests to it."""

    def __init__(self, *, leads: bool = False) -> None:
        self.cluster = Cluster()
        self.handles = iter(range(10**8, 10**9))
        if leads:
            assert self.cluster.elect() == 1
            self.cluster.run(100)
            self.cluster.isolate(1)
        else:
            self.cluster.crash(2)
            self.cluster.crash(3)
        self.raft_node = self.cluster.raft_node(1)

    def ask(
        self, request: m.QuorumRequest, sender: int | None = 2, version: int | None = None
    ) -> m.QuorumResponse:
        handle = next(self.handles)
        peer = None if sender is None else self.identity(sender)
        version = type(request).MAX_VERSION if version is None else version
        self.cluster.feed(1, RequestReceived(handle, request, version, peer))
        return self.cluster.nodes[1].outcomes[handle].response

    def identity(self, node_id: int) -> PeerIdentity:
        if node_id in self.cluster.nodes:
            return self.cluster.identity(node_id)
        return PeerIdentity(node_id, node_id.to_bytes(16, "big"), 1, bytes(16))

    def vote(
        self,
        epoch: int,
        *,
        candidate: int = 2,
        position: OffsetAndEpoch = EMPTY,
        receiver: ReplicaKey = TO_ME,
        pre: bool = False,
        sender: int | None = 2,
    ) -> tuple[int, bool, int]:
        key = ReplicaKey(candidate, candidate.to_bytes(16, "big", signed=True))
        request = rpc.vote_request(CLUSTER_ID, VoteParams(epoch, key, position, receiver, pre))
        response = self.ask(request, sender)
        data = response.topics[0].partitions[0]
        return data.error_code, data.vote_granted, data.leader_epoch

    def fetch(
        self, epoch: int, offset: int, last: int, *, replica: int = 2, wait: int = 0, sender: int | None = 2
    ) -> m.FetchResponsePartitionData:
        key = ReplicaKey(replica, bytes(16) if replica < 0 else replica.to_bytes(16, "big"))
        ask = FetchParams(key, epoch, OffsetAndEpoch(offset, last), 1 << 63, wait)
        response = self.ask(rpc.fetch_request(CLUSTER_ID, ask, 1 << 20), sender)
        assert response.error_code == 0
        return response.responses[0].partitions[0]


@pytest.mark.covers("VOTE-19", "VOTE-18", "D-07")
def test_votes_are_checked_before_the_epoch_moves() -> None:
    bench = Bench()
    for position in (
        OffsetAndEpoch(-1, 0),
        OffsetAndEpoch(0, -1),
        OffsetAndEpoch(0, 5),
        OffsetAndEpoch(0, 6),
    ):
        assert bench.vote(5, position=position)[0] == ErrorCode.INVALID_REQUEST
        assert bench.raft_node.epoch == 0
    assert bench.vote(5, position=OffsetAndEpoch(3, 5), pre=True)[0] == ErrorCode.NONE, "a pre-vote may tie"
    assert bench.vote(5, position=OffsetAndEpoch(3, 6), pre=True)[0] == ErrorCode.INVALID_REQUEST
    assert bench.vote(5) == (ErrorCode.NONE, True, 5)
    assert bench.vote(4) == (ErrorCode.FENCED_LEADER_EPOCH, False, 5)
    assert bench.vote(6, candidate=-1, sender=2)[0] == ErrorCode.INVALID_REQUEST


@pytest.mark.covers("VOTE-14", "VOTE-17", "D-02")
def test_a_vote_in_a_higher_epoch_is_one_write_and_never_given_twice() -> None:
    bench = Bench()
    bench.cluster.take_trace()
    assert bench.vote(5) == (ErrorCode.NONE, True, 5)
    lines = bench.cluster.take_trace().splitlines()
    assert sum("PersistElection" in line for line in lines) == 1
    wrote = next(i for i, line in enumerate(lines) if "PersistElection" in line)
    said = next(i for i, line in enumerate(lines) if "> Reply" in line)
    assert wrote < said, "the promise is durable before it is told"
    assert bench.vote(5, candidate=3, sender=3) == (ErrorCode.NONE, False, 5)
    assert bench.vote(5) == (ErrorCode.NONE, True, 5), "again for the same one"


@pytest.mark.covers("D-07")
def test_a_candidate_that_restarts_has_voted_for_itself() -> None:
    """Its own vote may have elected it, or another: either way it has none left in that epoch."""
    cluster = Cluster(start=False)
    disk = cluster.nodes[1].disk
    disk.election = Election(5, NO_NODE, ReplicaKey(1, disk.directory_id))
    cluster.start(1)
    raft_node = cluster.raft_node(1)
    ask = VoteParams(5, ReplicaKey(2, cluster.nodes[2].disk.directory_id), EMPTY, ReplicaKey(1), False)
    for handle in range(10**8, 10**8 + 3):
        request = rpc.vote_request(CLUSTER_ID, ask)
        cluster.feed(1, RequestReceived(handle, request, 2, cluster.identity(2)))
        data = cluster.nodes[1].outcomes[handle].response.topics[0].partitions[0]
        assert (data.vote_granted, data.leader_epoch) == (False, 5)
        assert raft_node.voted is not None and raft_node.voted.id == 1
        cluster.restart(1)
        raft_node = cluster.raft_node(1)


@pytest.mark.covers("QS-04", "D-07")
def test_nobody_gets_a_vote_in_an_epoch_that_has_a_leader() -> None:
    """Also not once that leader is lost and nobody is followed any more."""
    bench = Bench()
    announcement = rpc.begin_request(CLUSTER_ID, TO_ME, 5, 2, Endpoint("h", 1))
    bench.ask(announcement)
    assert (bench.raft_node.epoch, bench.raft_node.leader_id, bench.raft_node.voted) == (5, 2, None)
    seen = set()
    for _ in range(100):
        seen.add(type(bench.raft_node.state))
        assert bench.vote(5, candidate=3, sender=3) == (ErrorCode.NONE, False, 5)
        bench.cluster.run(97)
    assert {Follower, Prospective, Unattached} <= seen
    assert bench.raft_node.voted is None


@pytest.mark.covers("VOTE-20", "VOTE-21")
def test_a_vote_meant_for_another_voter_is_not_given_but_its_epoch_counts() -> None:
    bench = Bench()
    assert bench.vote(5, receiver=ReplicaKey(3)) == (ErrorCode.INVALID_VOTER_KEY, False, 5)
    assert bench.raft_node.epoch == 5
    wrong = ReplicaKey(1, b"another director")
    assert bench.vote(5, receiver=wrong)[0] == ErrorCode.INVALID_VOTER_KEY
    assert bench.vote(5, receiver=ReplicaKey(-1)) == (ErrorCode.NONE, True, 5)


@pytest.mark.covers("D-06", "D-37")
def test_a_candidate_that_is_not_the_known_one_gets_no_vote_and_moves_no_epoch() -> None:
    """An old copy of node 2's directory asks for votes of a later epoch: the leader leads on."""
    bench = Bench(leads=True)
    epoch = bench.raft_node.epoch
    known = bench.cluster.identity(2)
    copy = PeerIdentity(2, known.directory_id, known.start_counter - 1, b"of an older copy")
    key = ReplicaKey(2, known.directory_id)
    ask = VoteParams(epoch + 3, key, OffsetAndEpoch(9, epoch), TO_ME, False)
    handle = next(bench.handles)
    request = rpc.vote_request(CLUSTER_ID, ask)
    bench.cluster.feed(1, RequestReceived(handle, request, type(request).MAX_VERSION, copy))
    data = bench.cluster.nodes[1].outcomes[handle].response.topics[0].partitions[0]
    assert (data.error_code, data.vote_granted) == (ErrorCode.INVALID_VOTER_KEY, False)
    assert (bench.raft_node.epoch, bench.raft_node.is_leader) == (epoch, True)


@pytest.mark.covers("VOTE-13", "VOTE-12")
def test_a_log_that_is_behind_gets_no_vote_and_costs_none() -> None:
    bench = Bench(leads=True)
    assert bench.vote(7) == (ErrorCode.NONE, False, 7)
    assert isinstance(bench.raft_node.state, Unattached)
    assert bench.raft_node.voted is None
    assert bench.vote(7, candidate=3, sender=3, position=OffsetAndEpoch(1, 1)) == (ErrorCode.NONE, True, 7)


@pytest.mark.covers("VOTE-15", "VOTE-16", "D-07")
def test_a_leader_refuses_its_own_epoch_and_pre_votes_but_steps_down_for_a_higher_one() -> None:
    bench = Bench(leads=True)
    epoch = bench.raft_node.epoch
    assert bench.vote(epoch, position=OffsetAndEpoch(9, 0)) == (ErrorCode.NONE, False, epoch)
    assert bench.vote(epoch, position=OffsetAndEpoch(9, epoch), pre=True) == (ErrorCode.NONE, False, epoch)
    assert bench.vote(epoch + 3, position=OffsetAndEpoch(9, epoch), pre=True)[:2] == (ErrorCode.NONE, False)
    assert isinstance(bench.raft_node.state, Leader)
    bench.vote(epoch + 1)
    assert not bench.raft_node.is_leader


@pytest.mark.covers("D-07")
def test_the_response_to_a_pre_vote_speaks_of_the_epoch_that_was_asked_about() -> None:
    """One that spoke of an older epoch would look like a late response: a voter behind could elect nobody."""
    bench = Bench()
    behind = bench.raft_node.epoch
    assert bench.vote(behind + 3, pre=True) == (ErrorCode.NONE, True, behind + 3)
    assert bench.raft_node.epoch == behind, "a pre-vote moves no epoch"


@pytest.mark.covers("D-08", "Q-15")
def test_a_follower_in_touch_refuses_pre_votes_until_it_loses_its_leader() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    raft_node = cluster.raft_node(3)
    assert isinstance(raft_node.state, Follower)
    ask = VoteParams(
        1, ReplicaKey(2, cluster.nodes[2].disk.directory_id), OffsetAndEpoch(9, 1), ReplicaKey(3), True
    )
    request = rpc.vote_request(CLUSTER_ID, ask)
    cluster.feed(3, RequestReceived(10**8, request, 2, cluster.identity(2)))
    assert not cluster.nodes[3].outcomes[10**8].response.topics[0].partitions[0].vote_granted
    cluster.crash(1)
    cluster.run(2)
    cluster.feed(3, RequestReceived(10**8 + 1, request, 2, cluster.identity(2)))
    assert cluster.nodes[3].outcomes[10**8 + 1].response.topics[0].partitions[0].vote_granted


@pytest.mark.covers("VOTE-22", "BQE-13", "EQE-12", "FREQ-03")
@pytest.mark.parametrize("cluster_id", ["", "another"])
def test_another_clusters_requests_are_refused_whole(cluster_id: str) -> None:
    bench = Bench()
    key, position = ReplicaKey(2), EMPTY
    requests = [
        rpc.vote_request(cluster_id, VoteParams(1, key, position, ReplicaKey(1), False)),
        rpc.begin_request(cluster_id, ReplicaKey(1), 1, 2, Endpoint("h", 1)),
        rpc.end_request(cluster_id, 1, 2, ()),
        rpc.fetch_request(cluster_id, FetchParams(key, 1, position, 0, 0), 1),
    ]
    for request in requests:
        assert bench.ask(request).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert bench.raft_node.epoch == 0


@pytest.mark.parametrize(
    "request_", [m.VoteRequest(), m.BeginQuorumEpochRequest(), m.EndQuorumEpochRequest(), m.FetchRequest()]
)
def test_requests_without_exactly_one_partition_are_invalid(request_: m.QuorumRequest) -> None:
    assert Bench().ask(request_).error_code == ErrorCode.INVALID_REQUEST


def test_only_nodes_of_the_quorum_elect() -> None:
    bench = Bench()
    for request in (m.VoteRequest(), m.BeginQuorumEpochRequest(), m.EndQuorumEpochRequest()):
        assert bench.ask(request, sender=None).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.covers("D-14")
def test_an_epoch_after_which_no_other_fits_is_not_believed() -> None:
    """Once persisted, it would spread to every node, and no election could ever be held again."""
    bench = Bench()
    last = 2**31 - 1
    for epoch in (last, last - 1):
        assert bench.vote(epoch) == (ErrorCode.INVALID_REQUEST, False, 0)
        assert not bench.vote(epoch, pre=True)[1]
        for request in (
            rpc.begin_request(CLUSTER_ID, TO_ME, epoch, 2, Endpoint("h", 1)),
            rpc.end_request(CLUSTER_ID, epoch, 2, ()),
        ):
            assert bench.ask(request).topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    assert bench.raft_node.epoch == 0
    assert bench.vote(1 << 30) == (ErrorCode.NONE, True, 1 << 30)
    assert bench.vote((1 << 30) + 9) == (ErrorCode.NONE, True, (1 << 30) + 9), "elections go on from there"


@pytest.mark.covers("D-14")
def test_a_response_that_speaks_of_an_impossible_epoch_is_not_believed() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    raft_node = cluster.raft_node(3)
    epoch = raft_node.epoch
    lie = rpc.fetch_response(ErrorCode.FENCED_LEADER_EPOCH, LeaderAndEpoch(2**31 - 1, 2))
    cluster.feed(3, ResponseReceived(1, cluster.nodes[3].last_send.correlation_id, lie))
    assert (raft_node.epoch, raft_node.leader_id) == (epoch, 1)
    token = cluster.append(1)
    cluster.run(2_000)
    assert cluster.outcome(1, token) == ErrorCode.NONE
    assert raft_node.log.end_offset == cluster.raft_node(1).log.end_offset


@pytest.mark.covers("BQE-03", "BQE-05", "BQE-06", "BQE-08", "D-14")
def test_announcements_of_leaders() -> None:
    bench = Bench()

    def begin(epoch: int, leader: int, receiver: ReplicaKey = TO_ME, sender: int | None = None) -> int:
        request = rpc.begin_request(CLUSTER_ID, receiver, epoch, leader, Endpoint("h", 1))
        return bench.ask(request, sender or leader).topics[0].partitions[0].error_code

    assert bench.vote(5) == (ErrorCode.NONE, True, 5)
    assert begin(5, 2) == ErrorCode.NONE
    assert (bench.raft_node.epoch, bench.raft_node.leader_id) == (5, 2)
    assert begin(5, 3) == ErrorCode.INVALID_REQUEST, "another leader of the same epoch is a lie, not a crash"
    assert begin(5, 1, sender=2) == ErrorCode.INVALID_REQUEST
    assert begin(4, 3) == ErrorCode.FENCED_LEADER_EPOCH
    assert begin(6, 3, ReplicaKey(2)) == ErrorCode.INVALID_VOTER_KEY
    assert (bench.raft_node.epoch, bench.raft_node.leader_id) == (6, 3), "followed all the same"
    assert begin(7, 99) == ErrorCode.INVALID_REQUEST
    assert (bench.raft_node.epoch, bench.raft_node.leader_id) == (6, 3), "only voters lead, and move epochs"


@pytest.mark.covers("EQE-03", "EQE-05", "EQE-06")
def test_farewells_of_leaders() -> None:
    bench = Bench()

    def end(epoch: int, leader: int, *successors: int) -> int:
        request = rpc.end_request(CLUSTER_ID, epoch, leader, tuple(map(ReplicaKey, successors)))
        return bench.ask(request, leader).topics[0].partitions[0].error_code

    assert end(5, 2, 3) == ErrorCode.NONE
    state = bench.raft_node.state
    assert isinstance(state, Follower)
    assert state.epoch_ended
    assert state.campaign_at_ms - bench.cluster.now_ms >= 1_000, "not named: the longest wait"
    assert end(4, 2, 1) == ErrorCode.FENCED_LEADER_EPOCH
    assert end(6, 3, 1) == ErrorCode.NONE
    assert bench.raft_node.epoch == 7, "the first successor campaigns at once"


@pytest.mark.covers("FREQ-01", "FREQ-02", "FREQ-25")
def test_fetches_are_checked_in_order() -> None:
    bench = Bench(leads=True)
    epoch = bench.raft_node.epoch
    invalid = ErrorCode.INVALID_REQUEST
    assert bench.fetch(epoch, -1, 0).error_code == invalid
    assert bench.fetch(epoch, 0, -1).error_code == invalid
    assert bench.fetch(epoch, 0, epoch + 1).error_code == invalid
    assert bench.fetch(epoch, 0, 0, wait=-1).error_code == invalid
    assert bench.fetch(epoch - 1, 0, 0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert bench.fetch(epoch + 1, 0, 0).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert bench.fetch(epoch, 0, 0, replica=1, sender=1).error_code == ErrorCode.INVALID_VOTER_KEY
    bench.cluster.run(5_000)
    assert bench.fetch(bench.raft_node.epoch, 0, 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.covers("FREQ-22", "FREQ-24", "D-06")
def test_only_a_valid_fetch_of_the_node_itself_counts() -> None:
    bench = Bench(leads=True)
    bench.cluster.hold_flushes(1)
    token = bench.cluster.append(1)
    end, epoch = bench.raft_node.log.end_offset, bench.raft_node.epoch
    bench.fetch(epoch, end, epoch, replica=-1, sender=None)
    bench.fetch(epoch, end + 5, epoch)
    assert bench.fetch(epoch, end, epoch, replica=3, sender=2).error_code == ErrorCode.INVALID_VOTER_KEY
    assert bench.fetch(epoch, end, epoch, replica=3, sender=None).error_code == ErrorCode.INVALID_VOTER_KEY
    assert bench.fetch(epoch, end, epoch, replica=9, sender=9).error_code == ErrorCode.NONE
    assert bench.cluster.outcome(1, token) is None, "a tool, a diverging one, impostors, and an observer"
    bench.cluster.auditor = Auditor(())  # it would see that the next two lie about their disks
    bench.fetch(epoch, end, epoch, replica=2)
    bench.fetch(epoch, end, epoch, replica=3, sender=3)
    assert bench.cluster.outcome(1, token) == 0


@pytest.mark.covers("FREQ-24")
def test_a_tool_sees_only_what_is_committed() -> None:
    bench = Bench(leads=True)
    end, epoch = bench.raft_node.log.end_offset, bench.raft_node.epoch
    bench.cluster.append(1)
    handle = 10**8 - 1
    ask = FetchParams(ReplicaKey(-1), epoch, OffsetAndEpoch(end, epoch), 1 << 63, 0)
    request = rpc.fetch_request(CLUSTER_ID, ask, 1 << 20)
    bench.cluster.feed(1, RequestReceived(handle, request, 18, None))
    reply = bench.cluster.nodes[1].outcomes[handle]
    assert b"".join(reply.records) == b""


@pytest.mark.covers("FREQ-06", "FREQ-07", "D-10")
def test_a_fetch_at_the_end_waits_for_records_or_its_time() -> None:
    bench = Bench(leads=True)
    end, epoch = bench.raft_node.log.end_offset, bench.raft_node.epoch
    outcomes = bench.cluster.nodes[1].outcomes

    def park(handle: int, known: int) -> None:
        ask = FetchParams(
            ReplicaKey(2, bench.identity(2).directory_id), epoch, OffsetAndEpoch(end, epoch), known, 400
        )
        request = rpc.fetch_request(CLUSTER_ID, ask, 1 << 20)
        bench.cluster.feed(1, RequestReceived(handle, request, 18, bench.identity(2)))

    park(1, known=end - 1)
    bench.cluster.run(1)
    assert 1 in outcomes, "it does not know the high watermark: told within a millisecond"
    park(2, known=1 << 63)
    assert 2 not in outcomes
    bench.cluster.run(401)
    assert outcomes[2].records == ()
    park(3, known=end)
    bench.cluster.append(1)
    assert outcomes[3].records


@pytest.mark.covers("D-10", "D-16")
def test_news_of_the_high_watermark_and_records_that_come_at_once_are_one_response() -> None:
    bench = Bench(leads=True)
    now = bench.cluster.now(bench.cluster.nodes[1])
    end, epoch = bench.raft_node.log.end_offset, bench.raft_node.epoch
    ask = FetchParams(
        ReplicaKey(2, bench.identity(2).directory_id), epoch, OffsetAndEpoch(end, epoch), end - 1, 400
    )
    request = rpc.fetch_request(CLUSTER_ID, ask, 1 << 20)
    early = bench.raft_node.handle(RequestReceived(1, request, 18, bench.identity(2)), now)
    assert bench.raft_node.wake_at_ms <= now.mono_ms + 1, "it must be told within a millisecond"
    early += bench.raft_node.handle(AppendRequested(1, epoch, (b"record",), now.mono_ms + 1_000), now)
    assert not [effect for effect in early if isinstance(effect, Reply) and effect.handle == 1]
    replies = [effect for effect in bench.raft_node.poll(now) if isinstance(effect, Reply)]
    (reply,) = [reply for reply in replies if reply.handle == 1]
    assert reply.records
    assert reply.response.responses[0].partitions[0].high_watermark == end


@pytest.mark.covers("DQ-01", "DQ-02")
def test_the_leader_describes_the_quorum() -> None:
    bench = Bench(leads=True)
    topic = m.DescribeQuorumRequestTopicData("__cluster_metadata", (m.DescribeQuorumRequestPartitionData(0),))
    response = bench.ask(m.DescribeQuorumRequest(topics=(topic,)), sender=None)
    data = response.topics[0].partitions[0]
    assert (data.error_code, data.leader_id, data.high_watermark) == (0, 1, bench.raft_node.high_watermark)
    assert [state.replica_id for state in data.current_voters] == [1, 2, 3]
    assert {state.log_end_offset for state in data.current_voters} == {1}
    assert all(state.last_caught_up_timestamp > 1_700_000_000_000 for state in data.current_voters)
    assert [node.node_id for node in response.nodes] == [1, 2, 3]
    bench.cluster.run(5_000)
    lost = bench.ask(m.DescribeQuorumRequest(topics=(topic,)), sender=None).topics[0].partitions[0]
    assert lost.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    wrong = m.DescribeQuorumRequestTopicData("other", (m.DescribeQuorumRequestPartitionData(4),))
    data = bench.ask(m.DescribeQuorumRequest(topics=(wrong,)), sender=None).topics[0].partitions[0]
    assert (data.partition_index, data.error_code) == (4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert (data.leader_id, data.leader_epoch, data.high_watermark) == (0, 0, 0), "as Kafka leaves them"


RESPONSES: list[tuple[str, Callable[[int], m.QuorumResponse]]] = [
    ("top-level error", lambda _: m.FetchResponse(error_code=31)),
    ("no topics", lambda _: m.FetchResponse()),
    ("wrong kind", lambda _: m.VoteResponse()),
    ("older epoch", lambda e: rpc.fetch_response(ErrorCode.NONE, rpc.LeaderAndEpoch(e - 1, 1))),
    ("unknown epoch", lambda e: rpc.fetch_response(ErrorCode.UNKNOWN_LEADER_EPOCH, rpc.LeaderAndEpoch(e, 1))),
    ("invalid request", lambda e: rpc.fetch_response(ErrorCode.INVALID_REQUEST, rpc.LeaderAndEpoch(e, 1))),
    ("server error", lambda e: rpc.fetch_response(ErrorCode.UNKNOWN_SERVER_ERROR, rpc.LeaderAndEpoch(e, 1))),
    ("another leader", lambda e: rpc.fetch_response(ErrorCode.NONE, rpc.LeaderAndEpoch(e, 3))),
    ("ourselves", lambda e: rpc.fetch_response(ErrorCode.NONE, rpc.LeaderAndEpoch(e + 1, 2))),
]


@pytest.mark.covers("D-14", "Q-04")
@pytest.mark.parametrize(("what", "make"), RESPONSES, ids=[what for what, _ in RESPONSES])
def test_no_response_of_a_peer_is_fatal(what: str, make: Callable[[int], m.QuorumResponse]) -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.run(100)
    sent = cluster.nodes[2].last_send
    assert sent is not None
    response = ResponseReceived(1, sent.correlation_id, make(1))
    cluster.feed(2, response)
    cluster.feed(2, response)
    cluster.run_until(cluster.has_converged)


@pytest.mark.covers("QS-07", "D-07")
def test_who_led_an_epoch_gives_no_vote_in_it_also_after_losing_its_first_record() -> None:
    """It has voted for itself there: a second vote could make a second leader (KAFKA-10661)."""
    cluster = Cluster(start=False)
    disk = cluster.nodes[1].disk
    disk.election = Election(5, 1, ReplicaKey(1, disk.directory_id))
    cluster.start(1)
    assert isinstance(cluster.raft_node(1).state, Resigned)
    key = ReplicaKey(2, cluster.nodes[2].disk.directory_id)
    request = rpc.vote_request(CLUSTER_ID, VoteParams(5, key, EMPTY, ReplicaKey(1), False))
    cluster.feed(1, RequestReceived(10**8, request, 2, cluster.identity(2)))
    data = cluster.nodes[1].outcomes[10**8].response.topics[0].partitions[0]
    assert (data.vote_granted, data.leader_epoch) == (False, 5)


@pytest.mark.covers("ACC-03", "D-13")
def test_what_was_decided_in_an_older_epoch_is_not_appended_in_this_one() -> None:
    """The decision rests on what the older leadership saw; between the two another one may have written."""
    bench = Bench(leads=True)
    before = bench.raft_node.log.end_offset
    for token, epoch in ((1, bench.raft_node.epoch - 1), (2, bench.raft_node.epoch + 1)):
        bench.cluster.feed(1, AppendRequested(token, epoch, (b"stale",), bench.cluster.now_ms + 1_000))
        assert bench.cluster.outcome(1, token) == ErrorCode.NOT_CONTROLLER
    assert bench.raft_node.log.end_offset == before
