"""The trace reads back what it wrote, and every invariant sees its own violation."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftd.audit.invariants import INVARIANTS, Auditor, Mark, NodeView, Violation
from kraftd.audit.trace import Line, parse
from kraftd.errors import ErrorCode, MalformedError
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc, snapshot_rpc
from kraftd.raft.epoch_states import Ballot, Follower, Leader, Prospective, Resigned, Unattached
from kraftd.raft.rpc import FetchParams, LeaderAndEpoch, VoteParams
from kraftd.raft.snapshot_rpc import FetchSnapshotParams
from kraftd.types import Election, Endpoint, OffsetAndEpoch, PeerIdentity, ReplicaKey
from tests.stories.cluster import Cluster


@given(
    st.integers(0, 10**6),
    st.integers(-1, 99),
    st.sampled_from("<>!"),
    st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(max_size=20), max_size=4),
)
def test_a_line_reads_back(at_ms: int, node: int, direction: str, fields: dict[str, str]) -> None:
    line = Line(at_ms, node, direction, "Event", fields)
    assert parse(str(line)) == line


def test_every_line_of_a_story_reads_back() -> None:
    cluster = Cluster()
    cluster.elect()
    cluster.append(1)
    cluster.run(3_000)
    cluster.resign(1)
    cluster.run(1_000)
    lines = cluster.take_trace().splitlines()
    assert len(lines) > 100
    assert [str(parse(line)) for line in lines] == lines


@pytest.mark.parametrize("text", ["", "1 2", "x 1 > Name", "1 1 ? Name", "1 1 > Name key"])
def test_what_is_no_trace_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        parse(text)


def node(node_id: int, **known: object) -> NodeView:
    view = NodeView(node_id, True, True, Election(3), [Mark(5, 1, 77)], 5, Unattached(3, 0), 5)
    for name, value in known.items():
        setattr(view, name, value)
    return view


ME = ReplicaKey(1)
LEADER = Leader(3, ME, 0, frozenset({1, 2}))
Step = Callable[[Auditor, dict[int, NodeView]], None]


def effect(sender: int, value: fx.Effect) -> Step:
    return lambda auditor, nodes: auditor.on_effect(nodes[sender], value, nodes)


def decided(sender: int, *values: fx.Effect) -> Step:
    """All effects of one event, before any of them is carried out."""
    return lambda auditor, nodes: auditor.on_effects(nodes[sender], values)


def state(**changes: object) -> Step:
    def step(auditor: Auditor, nodes: dict[int, NodeView]) -> None:
        for name, value in changes.items():
            setattr(nodes[1], name, value)
        auditor.on_state(nodes)

    return step


CONNECTION = 40
HANDLE = 7


def opened_by(machine: int) -> Step:
    """The network knows who opened the connection to node 1 on which everything comes."""

    def step(auditor: Auditor, nodes: dict[int, NodeView]) -> None:
        nodes[1].voters = frozenset({1, 2, 3})
        nodes[1].opener_of = lambda number: machine if number == CONNECTION else None
        nodes[1].origin_of = lambda handle: (CONNECTION, machine) if handle == HANDLE else None

    return step


def cast(candidate: int, *, pre_vote: bool = False) -> fx.VoteAnswered:
    return fx.VoteAnswered(candidate, 3, pre_vote, True, "")


def vote_reply() -> fx.Reply:
    return fx.Reply(1, rpc.vote_response(ErrorCode.NONE, LeaderAndEpoch(3, -1), granted=True))


def fetch(offset: int, *, last_epoch: int = 1) -> fx.Send:
    ask = FetchParams(ME, 3, OffsetAndEpoch(offset, last_epoch), 0, 0)
    return fx.Send(2, 1, rpc.fetch_request("c", ask, 1))


def vote(epoch: int) -> fx.Send:
    ask = VoteParams(epoch, ME, OffsetAndEpoch(5, 1), ReplicaKey(2), False)
    return fx.Send(2, 1, rpc.vote_request("c", ask))


def fetch_of_epoch(epoch: int) -> fx.Send:
    return fx.Send(2, 1, rpc.fetch_request("c", FetchParams(ME, epoch, OffsetAndEpoch(5, 1), 0, 0), 1))


def lead(**changes: object) -> Step:
    return state(state=LEADER, durable_election=LEADER.election, **changes)


def applied(sender: int, offset: int, digest: int) -> Step:
    return lambda auditor, nodes: auditor.on_applied(nodes[sender], offset, digest)


def event(receiver: int, value: ev.Event, now_ms: int = 0) -> Step:
    return lambda auditor, nodes: auditor.on_event(nodes[receiver], value, now_ms)


def polled(now_ms: int) -> Step:
    return lambda auditor, nodes: auditor.on_polled(nodes[1], now_ms, now_ms + 1)


ANSWERED = fx.Reply(HANDLE, rpc.fetch_response(ErrorCode.NONE, LeaderAndEpoch(3, 1)))


def fetched(now_ms: int, *, offset: int) -> Step:
    """Node 2 fetches, and is answered at once."""

    def step(auditor: Auditor, nodes: dict[int, NodeView]) -> None:
        parked(now_ms, 0, offset=offset)(auditor, nodes)
        effect(1, ANSWERED)(auditor, nodes)

    return step


def parked(now_ms: int, wait_ms: int, *, offset: int = 5) -> Step:
    """Node 2 fetches, and may be answered after a while."""
    ask = FetchParams(ReplicaKey(2), 3, OffsetAndEpoch(offset, 1), 0, wait_ms)
    return event(1, ev.RequestReceived(HANDLE, rpc.fetch_request("c", ask, 1), 18, None), now_ms)


def polled_until(now_ms: int, wake_at_ms: int) -> Step:
    return lambda auditor, nodes: auditor.on_polled(nodes[1], now_ms, wake_at_ms)


def asked_for_piece(now_ms: int, *, position: int) -> Step:
    params = FetchSnapshotParams(ReplicaKey(2), 3, OffsetAndEpoch(9, 2), position, 1)
    return event(1, ev.RequestReceived(7, snapshot_rpc.request_of("c", params), 1, None), now_ms)


def leads_for_long(*fetches: Step) -> list[Step]:
    """A leader with a span of 100 ms, and what it is asked meanwhile."""
    return [
        lead(voters=frozenset({1, 2, 3}), check_quorum_ms=100),
        polled(0),
        *fetches,
        polled(200),
        polled(201),
    ]


def pre_vote(number: int, round_: int) -> list[Step]:
    ballot = Ballot(frozenset({1, 2, 3}), frozenset({1}))
    ask = VoteParams(3, ME, OffsetAndEpoch(5, 1), ReplicaKey(2), pre_vote=True)
    return [
        state(state=Prospective(3, ballot, 0, 0, round=round_)),
        effect(1, fx.Send(2, number, rpc.vote_request("c", ask))),
    ]


def pre_vote_granted(number: int) -> Step:
    response = rpc.vote_response(ErrorCode.NONE, LeaderAndEpoch(3, -1), granted=True)
    return event(1, ev.ResponseReceived(2, number, response))


def peer(node_id: int) -> PeerIdentity:
    return PeerIdentity(node_id, bytes(16), 1, bytes(16))


def handled(value: ev.Event, *effects: fx.Effect) -> Step:
    return lambda auditor, nodes: auditor.on_handled(nodes[1], value, effects)


def asked(said: int, replica: int = 2, *effects: fx.Effect) -> Step:
    ask = FetchParams(ReplicaKey(replica), 3, OffsetAndEpoch(5, 1), 0, 0)
    return handled(ev.RequestReceived(HANDLE, rpc.fetch_request("c", ask, 1), 18, peer(said)), *effects)


def follow(**changes: object) -> Step:
    return state(state=Follower(3, 2, 9_000, in_touch=True), durable_election=Election(3, 2), **changes)


def heard(now_ms: int) -> Step:
    """The leader answers a fetch."""
    response = rpc.fetch_response(ErrorCode.NONE, LeaderAndEpoch(3, 2))
    return event(1, ev.ResponseReceived(2, 1, response), now_ms)


def suspects(number: int, round_: int, asks_at_ms: int) -> list[Step]:
    """A follower asks for a pre-vote, and follows on."""
    ballot = Ballot(frozenset({1, 2, 3}), frozenset({1}))
    ask = VoteParams(3, ME, OffsetAndEpoch(5, 1), ReplicaKey(3), pre_vote=True)
    follower = Follower(3, 2, 9_000, in_touch=True, ballot=ballot, round=round_)
    return [
        state(state=follower, durable_election=Election(3, 2)),
        polled(asks_at_ms),
        effect(1, fx.Send(3, number, rpc.vote_request("c", ask))),
    ]


ASKED_FOR_PRE_VOTE = ev.RequestReceived(
    HANDLE,
    rpc.vote_request("c", VoteParams(3, ReplicaKey(2), OffsetAndEpoch(5, 1), ME, pre_vote=True)),
    2,
    peer(2),
)
CONFIRMED = effect(1, fx.ConfirmPeer(CONNECTION, peer(2)))
CLAIMED = ev.PeerClaimed(41, 2, bytes(16), bytes(16))
REFUSED = fx.Reply(HANDLE, rpc.fetch_response(ErrorCode.INVALID_VOTER_KEY, LeaderAndEpoch(3, 1)))
CAMPAIGNS = fx.StateChanged("prospective", "candidate", 4, "")
CASES: dict[str, tuple[str, list[Step]]] = {
    "two leaders of an epoch": (
        "OneLeaderAnEpoch",
        [
            state(durable_election=Election(3, 1)),
            lambda auditor, nodes: setattr(nodes[2], "durable_election", Election(3, 2)),
            state(),
        ],
    ),
    "two votes in an epoch": (
        "OneVoteAnEpoch",
        [
            state(durable_election=Election(3, -1, ReplicaKey(2))),
            effect(1, cast(2)),
            effect(1, vote_reply()),
            state(durable_election=Election(3, -1, ReplicaKey(3))),
            effect(1, cast(3)),
            effect(1, vote_reply()),
        ],
    ),
    "a vote that is told before it is durable": (
        "OneVoteAnEpoch",
        [state(durable_election=Election(3)), effect(1, cast(2)), effect(1, vote_reply())],
    ),
    "a vote in an epoch that is not durable": (
        "OneVoteAnEpoch",
        [
            state(durable_election=Election(2), state=Unattached(2, 0)),
            effect(1, cast(2)),
            effect(1, vote_reply()),
        ],
    ),
    "a campaign that is not durable": ("OneVoteAnEpoch", [effect(1, vote(4))]),
    "a vote that is dropped": (
        "ElectionStays",
        [state(durable_election=Election(3, -1, ReplicaKey(2))), state(durable_election=Election(3))],
    ),
    "a leader that is forgotten": (
        "ElectionStays",
        [state(durable_election=Election(3, 2)), state(durable_election=Election(3))],
    ),
    "a message of an epoch that is not durable": ("EpochIsDurableBeforeUse", [effect(1, fetch_of_epoch(4))]),
    "a response of an epoch that is not durable": (
        "EpochIsDurableBeforeUse",
        [effect(1, fx.Reply(1, rpc.end_response(ErrorCode.NONE, LeaderAndEpoch(4, -1))))],
    ),
    "an epoch in memory behind the disk": ("EpochsNeverGoBack", [state(durable_election=Election(4))]),
    "an epoch that goes back": ("EpochsNeverGoBack", [state(), state(durable_election=Election(2))]),
    "an epoch that is not durable": ("EpochsNeverGoBack", [state(state=Unattached(4, 0))]),
    "a leader by fewer votes than a majority": (
        "LeadersAreElected",
        [
            effect(2, fx.VoteAnswered(1, 2, False, True, "")),
            effect(1, fx.StateChanged("candidate", "leader", 3, "")),
        ],
    ),
    "a leader by the vote of a node that forgot": (
        "LeadersAreElected",
        [
            lambda _, nodes: setattr(nodes[2], "forgot", True),
            effect(2, fx.VoteAnswered(1, 3, False, True, "")),
            effect(1, fx.StateChanged("candidate", "leader", 3, "")),
        ],
    ),
    "a leader that would have another": (
        "LeadersGrantNoPreVotes",
        [lead(), effect(1, fx.VoteAnswered(2, 3, True, True, ""))],
    ),
    "a candidate that nobody would elect": (
        "LeadersAreElected",
        [effect(1, fx.StateChanged("prospective", "candidate", 4, ""))],
    ),
    "a state machine that leads without its node": (
        "OnlyLeadersAreToldToLead",
        [effect(1, fx.LeaderChanged(3, 1))],
    ),
    "a state machine that leads before its epoch has a record": (
        "OnlyLeadersAreToldToLead",
        [lead(high_watermark=0), effect(1, fx.LeaderChanged(3, 1))],
    ),
    "the only voter that resigns": (
        "TheOnlyVoterLeads",
        [
            lambda _, nodes: [setattr(nodes[n], "is_voter", False) for n in (2, 3)],
            effect(1, fx.StateChanged("leader", "resigned", 3, "")),
        ],
    ),
    "a request that is left behind": (
        "OnlyLeadersParkRequests",
        [
            opened_by(2),
            lead(),
            event(1, ev.RequestReceived(HANDLE, fetch(5).request, 18, None)),
            state(state=Unattached(3, 0)),
        ],
    ),
    "a position of another epoch": ("AcknowledgedIsDurable", [effect(1, fetch(5, last_epoch=2))]),
    "an epoch that began in another log": (
        "AcknowledgedIsDurable",
        [effect(1, fx.AssignEpoch(2, 5)), state(log=[Mark(5, 1, 78)]), effect(1, fetch(5, last_epoch=2))],
    ),
    "two promises in an event": (
        "OneElectionAnEvent",
        [decided(1, *[fx.PersistElection(Election(1))] * 2)],
    ),
    "a high watermark that goes back": ("HighWatermarkNeverGoesBack", [state(), state(high_watermark=4)]),
    "two logs of one epoch": ("LogsMatch", [state(), state(log=[Mark(5, 1, 78)])]),
    "epochs that fall along a log": (
        "LogsMatch",
        [state(log=[Mark(3, 2, 70), Mark(5, 1, 71)])],
    ),
    "a batch of an epoch to come": ("LogsMatch", [state(log=[Mark(5, 1, 77), Mark(6, 4, 78)])]),
    "a cut below what others know to be committed": (
        "CommittedStays",
        [
            lead(),
            effect(1, fx.Commit(5)),
            lambda auditor, nodes: setattr(nodes[2], "high_watermark", -1),
            effect(2, fx.Truncate(4, 1)),
        ],
    ),
    "a leader that cuts": ("LeadersOnlyAppend", [lead(), effect(1, fx.Truncate(5, 1))]),
    "a commit that no leader made": ("LeadersCommitTheirOwnEpoch", [decided(1, fx.Commit(5))]),
    "a commit without a record of the own epoch": (
        "LeadersCommitTheirOwnEpoch",
        [
            state(state=Leader(3, ME, 5, frozenset({1, 2})), durable_election=Election(3, 1, ME)),
            decided(1, fx.Commit(5)),
        ],
    ),
    "a leader that commits less than one before": (
        "LeadersCommitTheirOwnEpoch",
        [
            lead(log=[Mark(4, 1, 76), Mark(5, 1, 77)]),
            decided(1, fx.Commit(5)),
            state(state=Leader(4, ME, 0, frozenset({1, 2})), durable_election=Election(4, 1, ME)),
            decided(1, fx.Commit(4)),
        ],
    ),
    "durable bytes that a crash takes": ("DurableStays", [state(), state(durable_end_offset=4)]),
    "durable bytes that a download takes which is not whole": (
        "DurableStays",
        [
            state(),
            effect(1, fx.WriteSnapshot(OffsetAndEpoch(4, 2), 0, b"123", 4)),
            state(log=[], durable_end_offset=4, state=None),
        ],
    ),
    "machines that differ": ("StateMachinesAgree", [applied(1, 5, 1), applied(2, 5, 2)]),
    "a machine that applies what is not committed": ("StateMachinesAgree", [applied(1, 6, 1)]),
    "an outcome that is told twice": (
        "OneOutcomeACall",
        [lead(), effect(1, fx.ReadDone(7, ErrorCode.NONE)), effect(1, fx.ReadDone(7, ErrorCode.NONE))],
    ),
    "a leader that nobody follows": ("LeadersAreFollowed", leads_for_long()),
    "a leader that is asked for the same again and again": (
        "LeadersAreFollowed",
        leads_for_long(fetched(0, offset=4), fetched(150, offset=4), fetched(199, offset=4)),
    ),
    "a leader that is asked for the same piece of a snapshot again and again": (
        "LeadersAreFollowed",
        leads_for_long(*(asked_for_piece(at_ms, position=4) for at_ms in (0, 150, 199))),
    ),
    "a pre-vote of an earlier round that counts": (
        "PreVotesAreOfOneRound",
        [
            effect(2, cast(1, pre_vote=True)),
            *pre_vote(1, 1),
            *pre_vote(2, 2),
            pre_vote_granted(1),
            effect(1, CAMPAIGNS),
        ],
    ),
    "a pre-vote of an earlier suspicion that counts": (
        "PreVotesAreOfOneRound",
        [
            effect(3, cast(1, pre_vote=True)),
            *suspects(1, 1, 500),
            *suspects(2, 2, 700),
            pre_vote_granted(1),
            effect(1, fx.StateChanged("follower", "prospective", 3, "")),
            effect(1, CAMPAIGNS),
        ],
    ),
    "an election that is written for a pre-vote": (
        "PreVotesWriteNothing",
        [handled(ASKED_FOR_PRE_VOTE, fx.PersistElection(Election(3, -1, ReplicaKey(2))))],
    ),
    "a leader that is heard and suspected": (
        "HeardLeadersAreNotSuspected",
        [follow(), effect(1, fetch(5)), heard(100), *suspects(1, 1, 549)],
    ),
    "a leader that is heard by who grants a pre-vote": (
        "HeardLeadersAreNotSuspected",
        [
            follow(),
            effect(1, fetch(5)),
            heard(100),
            event(1, ASKED_FOR_PRE_VOTE, 549),
            effect(1, cast(2, pre_vote=True)),
        ],
    ),
    "a leader that is deposed by a grant of too long ago": (
        "HeardLeadersAreNotSuspected",
        [
            effect(3, cast(1, pre_vote=True)),
            *suspects(1, 1, 550),
            *suspects(2, 1, 990),
            pre_vote_granted(1),
            polled(1_000),
            effect(1, fx.StateChanged("follower", "prospective", 3, "")),
            effect(1, CAMPAIGNS),
        ],
    ),
    "a voter whose fetch is parked for longer than it asked": (
        "VotersAreAnsweredInTime",
        [
            lead(voters=frozenset({1, 2, 3})),
            parked(100, 150),
            polled_until(100, 251),
            polled_until(140, 250),
        ],
    ),
    "a voter whose fetch is left waiting though its time is over": (
        "VotersAreAnsweredInTime",
        [
            lead(voters=frozenset({1, 2, 3})),
            parked(100, 150),
            polled_until(100, 250),
            polled_until(250, 251),
            polled_until(251, 252),
        ],
    ),
    "a caller who is never told": (
        "EveryCallHasAnOutcome",
        [event(1, ev.ReadRequested(7, 100)), polled(100), polled(101)],
    ),
    "a deadline that is later than it was configured": (
        "EveryCallHasAnOutcome",
        [
            lambda _, nodes: setattr(nodes[1], "request_timeout_ms", 50),
            event(1, ev.ReadRequested(7, 100), now_ms=10),
            polled(60),
            polled(61),
        ],
    ),
    "a poll that wants another at once": (
        "NoBusyLoop",
        [lambda auditor, nodes: auditor.on_polled(nodes[1], 10, 10)],
    ),
    "a vote of a node that is not whole": (
        "OnlyWholeNodesCount",
        [state(is_whole=False), effect(1, vote_reply())],
    ),
    "a fetch that claims to be whole": (
        "OnlyWholeNodesCount",
        [state(is_whole=False), effect(1, fetch(5))],
    ),
    "a candidate that claims more than is durable": (
        "AcknowledgedIsDurable",
        [
            state(durable_election=Election(3, -1, ME)),
            lambda auditor, nodes: setattr(nodes[1], "durable_end_offset", 4),
            effect(1, vote(3)),
        ],
    ),
    "a leader that loads a snapshot": (
        "LeadersLoadNoSnapshot",
        [lead(), effect(1, fx.LoadSnapshot(OffsetAndEpoch(5, 1)))],
    ),
    "a leader that installs one": (
        "LeadersLoadNoSnapshot",
        [
            lead(),
            effect(2, fx.Commit(5)),
            state(high_watermark=-1, state=None),
            state(state=LEADER),
            effect(1, fx.InstallSnapshot(OffsetAndEpoch(5, 1), 2)),
        ],
    ),
    "a snapshot of less than is known to be committed": (
        "InstallsOnlyForward",
        [
            lead(),
            effect(1, fx.Commit(5)),
            lambda _, nodes: setattr(nodes[2], "high_watermark", 5),
            effect(2, fx.InstallSnapshot(OffsetAndEpoch(5, 1), 2)),
        ],
    ),
    "a snapshot of what was never committed": (
        "CommittedStays",
        [state(high_watermark=-1), effect(1, fx.InstallSnapshot(OffsetAndEpoch(9, 1), 2))],
    ),
    "a snapshot in the place of more than it stands for": (
        "CommittedStays",
        [
            state(log=[Mark(3, 1, 33), Mark(5, 1, 77)]),
            effect(1, fx.Commit(5)),
            lambda _, nodes: setattr(nodes[2], "high_watermark", -1),
            effect(2, fx.InstallSnapshot(OffsetAndEpoch(3, 1), 2)),
        ],
    ),
    "a log that is cut above what is applied": (
        "NothingNeededIsCleaned",
        [applied(1, 3, 1), effect(1, fx.CutLog(OffsetAndEpoch(5, 1)))],
    ),
    "a log that is cut above what is durable": (
        "NothingNeededIsCleaned",
        [state(durable_end_offset=3), effect(1, fx.CutLog(OffsetAndEpoch(5, 1)))],
    ),
    "a cut below the high watermark": ("CommittedStays", [effect(1, fx.Truncate(4, 1))]),
    "a commit within a batch": ("CommittedStays", [effect(1, fx.Commit(4))]),
    "a cut of a batch that was committed together with later ones": (
        "CommittedStays",
        [
            state(log=[Mark(3, 1, 33), Mark(5, 1, 77)], high_watermark=5),
            effect(1, fx.Commit(5)),
            lambda _, nodes: setattr(nodes[2], "log", [Mark(3, 1, 33), Mark(4, 2, 44)]),
            lambda _, nodes: setattr(nodes[2], "high_watermark", -1),
            effect(2, fx.Truncate(0, 1)),
        ],
    ),
    "two committed logs": (
        "CommittedStays",
        [effect(2, fx.Commit(5)), state(log=[Mark(5, 1, 78)]), effect(1, fx.Commit(5))],
    ),
    "a leader without what is committed": (
        "CommittedStays",
        [effect(2, fx.Commit(5)), state(log=[], state=LEADER, durable_election=Election(3, 1, ME))],
    ),
    "an acknowledgement without a majority": (
        "AcknowledgedIsDurable",
        [
            lambda auditor, nodes: [setattr(nodes[n], "durable_end_offset", 0) for n in (2, 3)] and None,
            effect(1, fx.AppendDone(1, ErrorCode.NONE, 5)),
        ],
    ),
    "a fetch ahead of the disk": ("AcknowledgedIsDurable", [effect(1, fetch(6))]),
    "a stranger that is confirmed": ("UnconfirmedPeersChangeNothing", [opened_by(5_001), CONFIRMED]),
    "a greeting that is written down": (
        "UnconfirmedPeersChangeNothing",
        [opened_by(2), handled(CLAIMED, fx.RememberPeer(peer(2)))],
    ),
    "a greeting that closes a confirmed connection": (
        "UnconfirmedPeersChangeNothing",
        [opened_by(2), CONFIRMED, handled(CLAIMED, fx.RefusePeer(CONNECTION, "it connected anew"))],
    ),
    "a wrong nonce that moves the epoch": (
        "UnconfirmedPeersChangeNothing",
        [
            opened_by(2),
            handled(
                ev.NonceShown(CONNECTION, bytes(16), 1, bytes(16)),
                fx.StateChanged("leader", "unattached", 9, ""),
            ),
        ],
    ),
    "an observer that changes what a follower waits for": (
        "UnconfirmedPeersChangeNothing",
        [
            opened_by(77),
            event(1, ev.RequestReceived(HANDLE, rpc.end_request("c", 3, 2, ()), 1, peer(77))),
            state(state=Unattached(3, 999)),
            asked(77, 77, REFUSED),
        ],
    ),
    "a voter that is served before it is confirmed": (
        "UnconfirmedPeersChangeNothing",
        [opened_by(2), asked(2, 2, REFUSED)],
    ),
    "an observer whose endpoint is learnt": (
        "UnconfirmedPeersChangeNothing",
        [opened_by(77), asked(77, 77, fx.LearnEndpoint(77, Endpoint("m1", 1)))],
    ),
    "an observer that gets a vote": (
        "UnconfirmedPeersChangeNothing",
        [opened_by(77), asked(77, 77, fx.VoteAnswered(77, 3, True, True, ""))],
    ),
    "an observer that acknowledges for a voter": (
        "UnconfirmedPeersChangeNothing",
        [
            opened_by(77),
            asked(77, 2, fx.Reply(HANDLE, rpc.fetch_response(ErrorCode.NONE, LeaderAndEpoch(3, 1)))),
        ],
    ),
    "an observer whose fetch in a voter's name waits": (
        "UnconfirmedPeersChangeNothing",
        [opened_by(77), asked(77, 2)],
    ),
    "an observer that campaigns": (
        "OnlyVotersCampaign",
        [state(is_voter=False, state=Prospective(3, Ballot(frozenset({1}), frozenset({1})), 0, 0))],
    ),
}


@pytest.mark.covers("SIMX-08", "SIMX-09", "SIMX-10", "SIMX-11", "SIMX-14")
@pytest.mark.parametrize("case", CASES)
def test_every_invariant_sees_its_violation(case: str) -> None:
    name, steps = CASES[case]
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    for step in steps[:-1]:
        with suppress(Violation):  # another promise may be broken on the way
            step(auditor, nodes)
    with pytest.raises(Violation, match=name):
        steps[-1](auditor, nodes)


def test_a_sound_quorum_is_left_alone() -> None:
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    auditor.on_state(nodes)
    lead()(auditor, nodes)
    for sender, done in ((1, [fx.Commit(5), fx.AppendDone(1, ErrorCode.NONE, 5)]), (2, [fx.Commit(5)])):
        auditor.on_effects(nodes[sender], done)
        for each in done:
            auditor.on_effect(nodes[sender], each, nodes)
    auditor.on_effect(nodes[2], fetch(5), nodes)
    auditor.on_effect(nodes[2], cast(1, pre_vote=True), nodes)
    auditor.on_effect(nodes[2], vote_reply(), nodes)
    for view in nodes.values():
        auditor.on_applied(view, 5, 1)
        auditor.on_polled(view, 10, 11)
        auditor.on_state(nodes, view)


def test_a_leader_that_is_followed_and_a_candidate_that_was_granted_are_left_alone() -> None:
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    steps = [
        *leads_for_long(fetched(1, offset=4), fetched(150, offset=5)),
        event(1, ev.ReadRequested(7, 100)),
        polled(202),
        effect(1, fx.ReadDone(7, ErrorCode.REQUEST_TIMED_OUT)),
        polled(203),
    ]
    for step in steps:
        step(auditor, nodes)
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    for step in leads_for_long(asked_for_piece(1, position=0), asked_for_piece(150, position=4)):
        step(auditor, nodes)
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    effect(2, cast(1, pre_vote=True))(auditor, nodes)
    for step in [*pre_vote(1, 1), *pre_vote(2, 2), pre_vote_granted(2), effect(1, CAMPAIGNS)]:
        step(auditor, nodes)


def test_a_voter_that_is_answered_in_time_or_waits_for_the_disk_is_left_alone() -> None:
    for end in (ANSWERED, fx.ColdRead(9, 1, 5, 1)):
        auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
        steps = [
            lead(voters=frozenset({1, 2, 3})),
            parked(100, 150),
            polled_until(100, 250),
            polled_until(700, 900),  # it stood still, and answers now
            effect(1, end),
            polled_until(900, 1_000),
        ]
        for step in steps:
            step(auditor, nodes)


def test_a_suspicion_of_a_silent_leader_is_left_alone() -> None:
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    steps = [
        follow(),
        effect(1, fetch(5)),
        heard(100),
        event(1, ASKED_FOR_PRE_VOTE, 550),
        handled(ASKED_FOR_PRE_VOTE),
        effect(1, cast(2, pre_vote=True)),
        effect(3, cast(1, pre_vote=True)),
        *suspects(1, 1, 550),
        *suspects(2, 2, 1_200),
        pre_vote_granted(2),
        polled(1_649),
        effect(1, fx.StateChanged("follower", "prospective", 3, "")),
        effect(1, CAMPAIGNS),
    ]
    for step in steps:
        step(auditor, nodes)


def test_who_lost_its_leader_may_count_what_comes_late_though_it_had_suspected_it() -> None:
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    steps = [
        effect(3, cast(1, pre_vote=True)),
        *suspects(1, 1, 550),
        polled(2_000),
        effect(1, fx.StateChanged("follower", "prospective", 3, "")),
        *pre_vote(2, 1),
        pre_vote_granted(2),
        polled(2_900),
        effect(1, CAMPAIGNS),
    ]
    for step in steps:
        step(auditor, nodes)


def test_an_epoch_that_ended_before_its_first_record_may_be_claimed_where_it_began() -> None:
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    effect(1, fx.AssignEpoch(2, 5))(auditor, nodes)
    effect(1, fetch(5, last_epoch=2))(auditor, nodes)


def test_a_process_may_start_with_a_commit_that_its_last_one_decided_and_did_not_carry_out() -> None:
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    for step in (lead(), decided(1, fx.Commit(5)), state(state=None), decided(1, fx.Commit(5))):
        step(auditor, nodes)


def test_the_only_voter_resigns_if_it_has_lost_a_part_of_its_log() -> None:
    """Seed 272012: a file was cut short under a voter that led alone, and a broker asked for what it held."""
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    for number in (2, 3):
        nodes[number].is_voter = False
    for step in (
        lead(),
        lambda _, nodes: setattr(nodes[1], "is_whole", False),
        effect(1, fx.StateChanged("leader", "resigned", 3, "")),
        state(state=Resigned(3, ME, 1_000)),
    ):
        step(auditor, nodes)


def test_a_start_may_put_what_was_downloaded_in_the_place_of_another_log() -> None:
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    for step in (
        state(),
        effect(1, fx.WriteSnapshot(OffsetAndEpoch(4, 2), 3, b"4", 4)),
        state(state=None),
        state(log=[], durable_end_offset=4, state=None),
    ):
        step(auditor, nodes)


def test_a_caller_who_is_told_a_moment_late_is_told() -> None:
    """A process that stood still may be polled for each event that waited, at the same moment."""
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    for step in (event(1, ev.ReadRequested(7, 100)), polled(130), polled(130)):
        step(auditor, nodes)
    with pytest.raises(Violation, match="EveryCallHasAnOutcome"):
        polled(131)(auditor, nodes)


def test_a_voter_that_is_confirmed_may_do_what_voters_do() -> None:
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    invariant, cut = fx.PersistElection(Election(4)), fx.RefusePeer(CONNECTION, "it connected anew")
    shown = ev.NonceShown(CONNECTION, bytes(16), 1, bytes(16))
    observer = fx.Reply(HANDLE, rpc.fetch_response(ErrorCode.NONE, LeaderAndEpoch(3, 1)))
    for step in (
        opened_by(2),
        handled(shown, fx.RememberPeer(peer(2)), fx.ConfirmPeer(CONNECTION, peer(2))),
        CONFIRMED,
        asked(2, 2, invariant),
        opened_by(77),
        asked(77, 77, observer),
        asked(77, 2, REFUSED),
        state(state=None),
        handled(CLAIMED, cut),
    ):
        step(auditor, nodes)


def test_what_a_disk_lost_binds_nobody_any_more() -> None:
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    state(durable_election=Election(3, 2, ReplicaKey(2)))(auditor, nodes)
    effect(1, cast(2))(auditor, nodes)
    effect(1, vote_reply())(auditor, nodes)
    auditor.forget(nodes[1])
    state(durable_election=Election(), log=[], durable_end_offset=0, state=None)(auditor, nodes)
    state(durable_election=Election(3, -1, ReplicaKey(3)), state=Unattached(3, 0))(auditor, nodes)
    effect(1, cast(3))(auditor, nodes)
    effect(1, vote_reply())(auditor, nodes)
    leader = nodes[2]
    leader.state = Leader(3, ReplicaKey(2), 0, frozenset({1, 2}))
    auditor.on_state(nodes, leader)
    nodes[3].durable_end_offset = 0
    auditor.on_effect(leader, fx.AppendDone(1, ErrorCode.NONE, 5), nodes)


def test_every_promise_has_its_violation() -> None:
    assert {invariant.__name__ for invariant in INVARIANTS} == {name for name, _ in CASES.values()}
