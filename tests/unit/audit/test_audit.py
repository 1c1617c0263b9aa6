"""The trace reads back what it wrote, and every invariant sees its own violation."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftd.audit.invariants import Auditor, Mark, NodeView, Violation
from kraftd.audit.trace import Line, parse
from kraftd.errors import ErrorCode, MalformedError
from kraftd.raft import effects as fx
from kraftd.raft import wire
from kraftd.raft.states import Ballot, Leader, Prospective, Unattached
from kraftd.raft.wire import FetchAsk, Standing, VoteAsk
from kraftd.types import Election, OffsetAndEpoch, ReplicaKey
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
LEADER = Leader(3, ME, 0, frozenset({1, 2}), 0)
Step = Callable[[Auditor, dict[int, NodeView]], None]


def effect(sender: int, value: fx.Effect) -> Step:
    return lambda auditor, nodes: auditor.on_effect(nodes[sender], value, nodes)


def state(**changes: object) -> Step:
    def step(auditor: Auditor, nodes: dict[int, NodeView]) -> None:
        for name, value in changes.items():
            setattr(nodes[1], name, value)
        auditor.on_state(nodes)

    return step


def vote_reply() -> fx.Reply:
    return fx.Reply(1, wire.vote_response(ErrorCode.NONE, Standing(3, -1), granted=True))


def fetch(offset: int) -> fx.Send:
    ask = FetchAsk(ME, 3, OffsetAndEpoch(offset, 1), 0, 0)
    return fx.Send(2, 1, wire.fetch_request("c", ask, 1))


def vote(epoch: int) -> fx.Send:
    ask = VoteAsk(epoch, ME, OffsetAndEpoch(5, 1), ReplicaKey(2), False)
    return fx.Send(2, 1, wire.vote_request("c", ask))


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
            effect(1, vote_reply()),
            state(durable_election=Election(3, -1, ReplicaKey(3))),
            effect(1, vote_reply()),
        ],
    ),
    "a campaign that is not durable": ("OneVoteAnEpoch", [effect(1, vote(4))]),
    "an epoch that goes back": ("EpochsNeverGoBack", [state(), state(durable_election=Election(2))]),
    "an epoch that is not durable": ("EpochsNeverGoBack", [state(state=Unattached(4, 0))]),
    "two promises in an event": (
        "OnePromiseAnEvent",
        [lambda auditor, nodes: auditor.on_effects(nodes[1], [fx.PersistElection(Election(1))] * 2)],
    ),
    "a high watermark that goes back": ("HighWatermarkNeverGoesBack", [state(), state(high_watermark=4)]),
    "two logs of one epoch": ("LogsMatch", [state(), state(log=[Mark(5, 1, 78)])]),
    "a cut below the high watermark": ("CommittedStays", [effect(1, fx.Truncate(4, 1))]),
    "a commit within a batch": ("CommittedStays", [effect(1, fx.Commit(4))]),
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
    "an observer that campaigns": (
        "OnlyVotersCampaign",
        [state(is_voter=False, state=Prospective(3, Ballot(frozenset({1}), frozenset({1})), 0, 0))],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_invariant_sees_its_violation(case: str) -> None:
    name, steps = CASES[case]
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    for step in steps[:-1]:
        try:
            step(auditor, nodes)
        except Violation as early:
            assert name != "LogsMatch", early
    with pytest.raises(Violation, match=name):
        steps[-1](auditor, nodes)


def test_a_sound_quorum_is_left_alone() -> None:
    auditor, nodes = Auditor(), {n: node(n) for n in (1, 2, 3)}
    auditor.on_state(nodes)
    auditor.on_effect(nodes[1], fx.Commit(5), nodes)
    auditor.on_effect(nodes[1], fetch(5), nodes)
    auditor.on_state(nodes)
