"""What a voter that forgot its promises waits for before it counts again (D-06)."""

from collections.abc import Sequence

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc
from kraftd.raft.peers import Peers
from kraftd.raft.rejoin import Rejoin, StateHealth
from kraftd.raft.rpc import FetchParams, LeaderAndEpoch
from kraftd.raft.voters import Quorum
from kraftd.records.batch import encode_batch
from kraftd.types import NO_NODE, Election, NodeId, Offset, OffsetAndEpoch, PeerIdentity, ReplicaKey
from tests.conformance import covers
from tests.stories.cluster import voter_set
from tests.unit.raft.lone import Lone, every, key_of


def following(health: StateHealth, voters: Sequence[NodeId] = (1, 2, 3)) -> Lone:
    """It holds two records, follows 2 in epoch 5, and has heard of no later epoch from anybody."""
    lone = Lone(
        voters=voters,
        connected=voters[1:],
        election=Election(5, 2),
        epochs=(1, 4),
        health=health,
        flushes=False,
    )
    lead(lone, 2, high_watermark=-1)
    tell_epochs(lone)
    return lone


def forgetful(voters: Sequence[NodeId] = (1, 2, 3)) -> Lone:
    lone = following(StateHealth(amnesia=("the election file is gone",)), voters)
    assert not lone.raft_node.is_whole
    return lone


def unheard() -> Lone:
    """It has forgotten, remembers node 3 from long ago, and has heard all others since."""
    lone = Lone(
        connected=(2,),
        election=Election(5, 2),
        epochs=(1, 4),
        health=StateHealth(amnesia=("the election file is gone",)),
        flushes=False,
    )
    lone.raft_node._raft.peers._remembered[3] = PeerIdentity(3, b"the former disk.", 1, b"its former start")
    lead(lone, 2, high_watermark=-1)
    tell_epochs(lone)
    return lone


def fetches(lone: Lone) -> list[fx.Send]:
    """Its open fetches."""
    return [send for send in lone.open_requests() if isinstance(send.request, m.FetchRequest)]


def asks_for_records(send: fx.Send, leader: NodeId) -> bool:
    """Whether this fetch waits at the leader, and does not only ask for an epoch."""
    return send.to == leader and send.request.max_wait_ms > 0  # type: ignore[union-attr]


def lead(
    lone: Lone,
    leader: NodeId,
    records: bytes = b"",
    *,
    high_watermark: Offset,
    error: ErrorCode = ErrorCode.NONE,
) -> None:
    """The leader answers the fetch that waits for records there."""
    (send,) = [send for send in fetches(lone) if asks_for_records(send, leader)]
    response = rpc.fetch_response(error, LeaderAndEpoch(lone.epoch, leader), high_watermark=high_watermark)
    lone.answer(send, response, records)


def tell_epochs(lone: Lone) -> None:
    """Whomever else it asks is in the same epoch, and says so."""
    leader = lone.raft_node.leader_id
    for send in fetches(lone):
        if not asks_for_records(send, leader):
            error = ErrorCode.NONE if send.to == leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
            lone.answer(send, rpc.fetch_response(error, LeaderAndEpoch(lone.epoch, leader)))
    lone.run(50)


def flush(lone: Lone) -> None:
    """The last flush that was begun ends."""
    last = every(lone.effects, fx.Flush)[-1]
    lone.feed(ev.LogFlushed(last.generation, last.end_offset))


@covers("D-06", "HWM-02")
@pytest.mark.parametrize(("committed", "counts"), [(3, True), (4, False)])
def test_who_forgot_does_not_count_before_it_holds_all_that_its_leader_has_committed(
    committed: Offset, counts: bool
) -> None:
    """Of a long log it is given a first slice; what it lost with its disk may be committed behind that."""
    lone = forgetful()
    lone.ask_begin(6, 2)
    lead(lone, 2, encode_batch(2, 4, 0, [b"first slice"]), high_watermark=committed)
    flush(lone)
    assert lone.raft_node.is_whole is counts
    shorter_than_committed = OffsetAndEpoch(3, 4)
    assert lone.ask_vote(7, candidate=3, position=shorter_than_committed).vote_granted is counts


@covers("D-06", "HWM-02")
def test_what_the_leader_of_an_earlier_epoch_had_committed_makes_nobody_whole_in_the_next() -> None:
    """Until the new leader says what is committed, it may be more than what is here."""
    lone = forgetful((1, 2, 3, 4, 5))
    lead(lone, 2, encode_batch(2, 5, 0, [b"all there was"]), high_watermark=3)
    lone.ask_begin(6, 3)
    flush(lone)
    assert not lone.raft_node.is_whole, "the leader of epoch 6 has said nothing yet"
    lead(lone, 3, encode_batch(3, 5, 0, [b"committed meanwhile"]), high_watermark=4)
    assert not lone.raft_node.is_whole
    flush(lone)
    assert lone.raft_node.is_whole


@covers("D-06")
def test_what_was_heard_before_the_loss_was_known_does_not_help_to_rejoin() -> None:
    """Another copy of its directory ran in epoch 9, and may have voted there; in epoch 5 all were heard."""
    lone = following(StateHealth())
    assert lone.raft_node.is_whole
    lone.ask_begin(9, 2)
    lead(lone, 2, high_watermark=-1, error=ErrorCode.INVALID_VOTER_KEY)
    assert not lone.raft_node.is_whole, "the others know another start of it"
    tell_epochs(lone)
    lead(lone, 2, high_watermark=2)
    assert not lone.raft_node.is_whole, "the leader of epoch 9 may have been elected by that copy"
    lone.ask_begin(10, 3)
    lead(lone, 3, high_watermark=2)
    assert lone.raft_node.is_whole


@covers("D-06")
def test_who_counts_again_asks_a_voter_until_its_id_is_accepted() -> None:
    """Node 3 was away when leader 2 made node 1 whole, and still knows the directory that was lost."""
    lone = forgetful()
    lone.ask_begin(6, 2)
    lead(lone, 2, high_watermark=2)
    assert lone.raft_node.is_whole
    asked = []
    for error in (
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_VOTER_KEY,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ):
        (send,) = [send for send in fetches(lone) if send.to == 3]
        asked.append(send.request.replica_state.replica_id)  # type: ignore[union-attr]
        lone.answer(send, rpc.fetch_response(error, LeaderAndEpoch(6, 2)))
        lone.run(1_000)
    assert asked == [1, 1, NO_NODE, 1], "after the refusal it says once that it knew"
    assert [send for send in fetches(lone) if send.to == 3] == []
    assert lone.raft_node.is_whole


@covers("D-06")
def test_a_voter_that_refused_and_is_gone_is_told_again_once_a_second() -> None:
    lone = forgetful()
    lone.ask_begin(6, 2)
    lead(lone, 2, high_watermark=2)
    (send,) = [send for send in fetches(lone) if send.to == 3]
    lone.answer(send, rpc.fetch_response(ErrorCode.INVALID_VOTER_KEY, LeaderAndEpoch(6, 2)))
    told = 0
    for _ in range(300):
        lone.run(10)
        for send in [send for send in fetches(lone) if send.to == 3]:
            told += 1
            lone.feed(ev.RequestFailed(3, send.correlation_id, "cannot connect"))
    assert 2 <= told <= 4


@covers("D-06")
def test_who_fetched_without_its_id_is_believed_no_older_copy_later() -> None:
    """Node 3 found its election file bad in start 5, was mended, and is start 8 now: its backup is not."""

    def start_of(counter: int, start_id: bytes) -> PeerIdentity:
        return PeerIdentity(3, key_of(3).directory_id, counter, start_id)

    fifth = start_of(5, b"the fifth start!")
    quorum = Quorum(1, voter_set(1, 2, 3))
    peers = Peers(key_of(1), quorum, (fifth,), Rejoin(StateHealth(), quorum, lambda: None))
    peers.record_rejoining(fifth)
    eighth = start_of(8, b"the eighth start")
    assert peers.verify_identity(eighth) == [fx.RememberPeer(eighth)]
    assert peers.verify_identity(start_of(6, b"of a backup of 5")) is None
    assert peers.verify_identity(eighth) == []


@covers("D-06")
@pytest.mark.parametrize(
    ("has_heard", "error"),
    [(False, ErrorCode.NOT_LEADER_OR_FOLLOWER), (True, ErrorCode.INVALID_VOTER_KEY)],
)
def test_who_forgot_tells_another_that_it_is_not_who_it_says_by_what_it_has_heard_alone(
    has_heard: bool, error: ErrorCode
) -> None:
    """Node 3 has had a new disk since the backup that we run on. It would take itself for forgetful, too."""
    lone = forgetful() if has_heard else unheard()
    new = PeerIdentity(3, b"a newer disk dir", 1, b"a newer start id")
    ask = FetchParams(ReplicaKey(3, new.directory_id), lone.epoch, OffsetAndEpoch(2, 4), -1, 0)
    request = rpc.fetch_request("lone", ask, 1 << 20)
    effects = lone.feed(ev.RequestReceived(77, request, type(request).MAX_VERSION, new))
    response = lone.reply_to(77, effects)
    assert isinstance(response, m.FetchResponse)
    assert response.responses[0].partitions[0].error_code == error


@covers("D-06")
@pytest.mark.parametrize("has_heard", [False, True])
def test_who_forgot_remembers_one_that_knows_of_its_own_loss_by_what_it_has_heard_or_not(
    has_heard: bool,
) -> None:
    """It counts again, and forgets that it knew: this node has to know its disk when it counts again, too."""
    lone = forgetful() if has_heard else unheard()
    new = PeerIdentity(3, b"a newer disk dir", 1, b"a newer start id")
    for replica in (ReplicaKey(NO_NODE, new.directory_id), ReplicaKey(3, new.directory_id)):
        ask = FetchParams(replica, lone.epoch, OffsetAndEpoch(2, 4), -1, 0)
        request = rpc.fetch_request("lone", ask, 1 << 20)
        effects = lone.feed(ev.RequestReceived(77, request, type(request).MAX_VERSION, new))
    assert every(effects, fx.RememberPeer) == [fx.RememberPeer(new)]


@covers("D-06")
def test_who_finds_another_disk_behind_an_address_hears_everybody_anew() -> None:
    """What that disk forgot may count in an epoch that the others had not reached when they were heard."""
    lone = unheard()
    rejoin = lone.raft_node._raft.rejoin
    assert rejoin.unheard == {3}
    peer = PeerIdentity(3, b"a newer disk dir", 1, b"a newer start id")
    lone.feed(ev.PeerIdentified(9, peer, outbound=True))
    assert rejoin.unheard == {2, 3}


@covers("D-06")
def test_what_was_answered_before_another_disk_was_found_does_not_count() -> None:
    """It was on its way meanwhile, and says in which epoch a voter was, not in which it is."""
    lone = unheard()
    rejoin = lone.raft_node._raft.rejoin
    lone.connect(2)
    rejoin.unheard = frozenset({2, 3})
    lone.run(1_000)
    (before,) = [send for send in fetches(lone) if send.to == 2 and not asks_for_records(send, 2)]
    peer = PeerIdentity(3, b"a newer disk dir", 1, b"a newer start id")
    lone.feed(ev.PeerIdentified(9, peer, outbound=True))
    lone.answer(before, rpc.fetch_response(ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderAndEpoch(5, 2)))
    assert rejoin.unheard == {2, 3}
    lone.run(50)
    tell_epochs(lone)
    assert 2 not in rejoin.unheard


@covers("D-06")
def test_who_hears_everybody_anew_takes_each_as_it_answers_now() -> None:
    """Node 3 was heard, and got another disk. It was doubted until another one had to be heard as well."""
    lone = forgetful(voters=(1, 2, 3, 4))
    peers, rejoin = lone.raft_node._raft.peers, lone.raft_node._raft.rejoin
    third = PeerIdentity(3, b"a newer disk dir", 1, b"a newer start id")
    peers.identify(9, third, outbound=True)
    assert not peers.is_trusted(third)
    rejoin.unheard = frozenset({4})
    fourth = PeerIdentity(4, b"newer disk of 4.", 1, b"another start id")
    assert peers.identify(10, fourth, outbound=True)[:2] == [fx.RememberPeer(fourth), fx.RememberPeer(third)]
    assert peers.is_trusted(third)
