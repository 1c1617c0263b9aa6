"""Every state by every event: what a real node makes of it, as a table of text.

`STATES` drives a node into each state, all in epoch 5; `rows` are the events, one for each relation of
their epoch to the node's: lower, same, higher. What came of it is the states and epochs it moved to, if it
moved, then what it answered. `test_reactions` compares all of it with `reactions.txt`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft import rpc
from kraftd.raft.epoch_states import EpochState, Follower, state_name
from kraftd.raft.rejoin import StateHealth
from kraftd.raft.rpc import LeaderAndEpoch
from kraftd.types import METADATA_TOPIC, NO_NODE, Election, Endpoint, OffsetAndEpoch
from tests.unit.raft.lone import ME, Lone, every, key_of

EPOCH = 5
RELATIONS: Mapping[str, int] = {"lower": 4, "same": 5, "higher": 7}

# --- the columns: one node in each state ------------------------------------------------------------------


def _at(election: Election, **options: object) -> Lone:
    return Lone(election=election, epochs=(1, 4), **options)  # type: ignore[arg-type]


def _prospective() -> Lone:
    lone = _at(Election(EPOCH))
    lone.run_to_deadline()
    return lone


def _asking() -> Lone:
    lone = _follower()
    lone.run(2_200)
    return lone


def _candidate() -> Lone:
    return _at(Election(EPOCH - 1)).become_candidate()


def _beaten() -> Lone:
    lone = _candidate()
    for voter in (2, 3):
        lone.vote_response(voter, granted=False)
    return lone


def _follower(**options: object) -> Lone:
    lone = _at(Election(EPOCH, 2), **options)
    lone.fetch_response()
    return lone


def _dismissed() -> Lone:
    lone = _follower()
    lone.ask_end(EPOCH, 2, (key_of(3), key_of(ME)))
    return lone


def _leader() -> Lone:
    return _at(Election(EPOCH - 1)).become_leader().establish()


def _new_leader() -> Lone:
    return _at(Election(EPOCH - 1)).become_leader()


def _handing_over() -> Lone:
    lone = _leader()
    lone.append()
    lone.resign(2, deadline_ms=60_000)
    return lone


def _resigned() -> Lone:
    lone = _leader()
    lone.resign(2)
    return lone


def _lost_votes() -> Lone:
    return _at(Election(EPOCH), health=StateHealth(amnesia=("a vote may be forgotten",)))


STATES: Mapping[str, Callable[[], Lone]] = {
    "unattached": lambda: _at(Election(EPOCH)),
    "voted for 2": lambda: _at(Election(EPOCH, NO_NODE, key_of(2))),
    "9 leads": lambda: _at(Election(EPOCH, 9)),
    "prospective": _prospective,
    "lost 2": _asking,
    "candidate": _candidate,
    "beaten": _beaten,
    "follows 2": _follower,
    "2 said bye": _dismissed,
    "new leader": _new_leader,
    "leader": _leader,
    "handing over": _handing_over,
    "resigned": _resigned,
    "observes": lambda: _at(Election(EPOCH), voters=(2, 3, 4)),
    "obs. follows": lambda: _follower(voters=(2, 3, 4)),
    "not whole": _lost_votes,
}

# --- the rows: what happens ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Happening:
    """One kind of event. `make` returns what the node answered, if anything."""

    name: str
    make: Callable[[Lone, int], str]
    by_epoch: bool = True


def _error(code: int) -> str:
    return "ok" if code == 0 else ErrorCode(code).name.lower()


def _voting(candidate: int, *, pre: bool = False, short: bool = False) -> Callable[[Lone, int], str]:
    def happen(lone: Lone, epoch: int) -> str:
        position = OffsetAndEpoch(0, 0) if short else lone.raft_node.log.position
        most = epoch if pre else epoch - 1
        position = OffsetAndEpoch(position.offset, min(position.epoch, most))
        data = lone.ask_vote(epoch, candidate=candidate, position=position, pre=pre)
        return _error(data.error_code) if data.error_code else ("yes" if data.vote_granted else "no")

    return happen


def _begin(leader: int, sender: int | None = None) -> Callable[[Lone, int], str]:
    return lambda lone, epoch: _error(lone.ask_begin(epoch, leader, sender=sender).error_code)


def _end(leader: int, *successors: int) -> Callable[[Lone, int], str]:
    return lambda lone, epoch: _error(lone.ask_end(epoch, leader, [*map(key_of, successors)]).error_code)


def _fetch(lone: Lone, epoch: int) -> str:
    end = lone.raft_node.log.end_offset
    data = lone.ask_fetch(end, min(epoch, lone.raft_node.log.last_epoch), epoch=epoch, replica=3)
    assert data is not None
    return _error(data.error_code)


def _fetch_snapshot(lone: Lone, epoch: int) -> str:
    data = lone.ask_snapshot(OffsetAndEpoch(1, 1), epoch=epoch, replica=3, sender=3)
    assert data is not None
    return _error(data.error_code)


def _offered(lone: Lone, epoch: int) -> str:
    """A snapshot's id comes in the place of records, to whoever fetches."""
    for send in lone.open_requests():
        if isinstance(send.request, m.FetchRequest) and send.request.max_wait_ms:
            leader_and_epoch = LeaderAndEpoch(epoch, 2)
            snapshot_id = OffsetAndEpoch(100, 4)
            response = rpc.fetch_response(ErrorCode.NONE, leader_and_epoch, snapshot_id=snapshot_id)
            lone.answer(send, response)
    download = lone.raft_node.download
    return "" if download is None else "asks for it"


def _whole(lone: Lone, _: int) -> str:
    """A snapshot got its name that was downloaded before."""
    effects = lone.written(OffsetAndEpoch(100, 4), 10, is_whole=True)
    return "installed" if every(effects, fx.InstallSnapshot) else ""


def _describe(lone: Lone, _: int) -> str:
    topic = m.DescribeQuorumRequestTopicData(METADATA_TOPIC, (m.DescribeQuorumRequestPartitionData(0),))
    response = lone.ask(m.DescribeQuorumRequest(topics=(topic,)), sender=None)
    assert isinstance(response, m.DescribeQuorumResponse)
    return _error(response.topics[0].partitions[0].error_code)


def _response(
    leader: int = NO_NODE, *, granted: bool = False, error: ErrorCode = ErrorCode.NONE
) -> Callable[[Lone, int], str]:
    """Who was asked last answers; whoever asks nobody gets a response that it does not expect."""

    def happen(lone: Lone, epoch: int) -> str:
        leader_and_epoch = LeaderAndEpoch(epoch, leader, Endpoint("host", 9_000) if leader == 8 else None)
        open_ = [send for send in lone.open_requests() if send.to in (2, 3)]
        if not open_:
            lone.feed(
                ev.ResponseReceived(2, 10**6, rpc.vote_response(error, leader_and_epoch, granted=granted))
            )
            return ""
        response: m.QuorumResponse
        match open_[-1].request:
            case m.VoteRequest():
                response = rpc.vote_response(error, leader_and_epoch, granted=granted)
            case m.FetchRequest():
                response = rpc.fetch_response(error, leader_and_epoch)
            case m.BeginQuorumEpochRequest():
                response = rpc.begin_response(error, leader_and_epoch)
            case _:
                response = rpc.end_response(error, leader_and_epoch)
        lone.answer(open_[-1], response)
        return ""

    return happen


def _senseless(lone: Lone, _: int) -> str:
    for send in lone.open_requests()[-1:]:
        lone.answer(send, m.FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    return ""


def _failing(lone: Lone, _: int) -> str:
    for send in lone.open_requests()[-1:]:
        lone.feed(ev.RequestFailed(send.to, send.correlation_id, "no route"))
    return ""


def _append(lone: Lone, epoch: int) -> str:
    outcome = lone.outcome(lone.append(epoch=epoch))
    return "taken" if outcome is None else _error(outcome)


def _read(lone: Lone, _: int) -> str:
    outcome = lone.outcome(lone.read())
    return "taken" if outcome is None else _error(outcome)


def _resign(lone: Lone, _: int) -> str:
    outcome = lone.outcome(lone.resign(2))
    return "taken" if outcome is None else _error(outcome)


def _shut_down(lone: Lone, _: int) -> str:
    return "ready" if every(lone.shut_down(), fx.ShutdownReady) else ""


def _fed(event: ev.Event) -> Callable[[Lone, int], str]:
    def happen(lone: Lone, _: int) -> str:
        lone.feed(event)
        return ""

    return happen


def _identified(lone: Lone, _: int) -> str:
    lone.connect(8)
    return ""


def _closing(node_id: int) -> Callable[[Lone, int], str]:
    def happen(lone: Lone, _: int) -> str:
        lone.close(node_id)
        if isinstance(lone.raft_node.state, Follower):
            lone.run(100)  # the pause between losing the leader and asking for pre-votes
        return ""

    return happen


def _waiting(lone: Lone, _: int) -> str:
    state = lone.raft_node.state
    deadline_ms = getattr(state, "retry_at_ms", 1 << 62)
    if deadline_ms == 1 << 62:
        deadline_ms = getattr(state, "deadline_ms", 1 << 62)
    if deadline_ms == 1 << 62:
        deadline_ms = lone.now_ms + 3_000  # check-quorum of a leader; others wait for nothing
    lone.run(deadline_ms - lone.now_ms + (100 if isinstance(state, Follower) else 0))
    return ""


HAPPENINGS = (
    Happening("vote for 2", _voting(2)),
    Happening("vote for 3", _voting(3)),
    Happening("vote for 3, short log", _voting(3, short=True)),
    Happening("vote for stranger 8", _voting(8)),
    Happening("pre-vote for 3", _voting(3, pre=True)),
    Happening("pre-vote, short log", _voting(3, pre=True, short=True)),
    Happening("begin of 2", _begin(2)),
    Happening("begin of 3", _begin(3)),
    Happening("begin of stranger 8", _begin(8)),
    Happening("2 says that we lead", _begin(ME, sender=2)),
    Happening("end of 2, for us", _end(2, ME, 3)),
    Happening("end of 2, for 3", _end(2, 3, ME)),
    Happening("end of 3, for us", _end(3, ME)),
    Happening("fetch", _fetch),
    Happening("fetch of a snapshot", _fetch_snapshot),
    Happening("response: a snapshot", _offered),
    Happening("late piece written", _whole, by_epoch=False),
    Happening("stray piece read", _fed(ev.SnapshotRead(10**6, b"x", 10)), by_epoch=False),
    Happening("snapshot taken", _fed(ev.SnapshotTaken(OffsetAndEpoch(1, 1))), by_epoch=False),
    Happening("snapshot damaged", _fed(ev.SnapshotDamaged(OffsetAndEpoch(1, 1))), by_epoch=False),
    Happening("cut where no snapshot is", _fed(ev.CutRequested(OffsetAndEpoch(1, 1))), by_epoch=False),
    Happening("describe", _describe, by_epoch=False),
    Happening("response: nobody leads", _response()),
    Happening("response: granted", _response(granted=True)),
    Happening("response: 2 leads", _response(2)),
    Happening("response: 3 leads", _response(3)),
    Happening("response: 8 leads", _response(8)),
    Happening("response: 9 leads, no address", _response(9)),
    Happening("response: we lead", _response(ME)),
    Happening("response: fenced by 3", _response(3, error=ErrorCode.FENCED_LEADER_EPOCH)),
    Happening("response: unknown epoch", _response(3, error=ErrorCode.UNKNOWN_LEADER_EPOCH)),
    Happening("response: no leader here", _response(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)),
    Happening("response: invalid", _response(error=ErrorCode.INVALID_REQUEST)),
    Happening("response: no sense", _senseless, by_epoch=False),
    Happening("request failed", _failing, by_epoch=False),
    Happening("connection to 2 closed", _closing(2), by_epoch=False),
    Happening("connection to 3 closed", _closing(3), by_epoch=False),
    Happening("peer identified", _identified, by_epoch=False),
    Happening("stale flush ended", _fed(ev.LogFlushed(-1, 1)), by_epoch=False),
    Happening("stray read ended", _fed(ev.BatchesRead(10**6, 0, b"")), by_epoch=False),
    Happening("log damaged", _fed(ev.LogDamaged(0, "bad")), by_epoch=False),
    Happening("log damaged, but cut meanwhile", _fed(ev.LogDamaged(-1, "bad")), by_epoch=False),
    Happening("applied", _fed(ev.Applied(1)), by_epoch=False),
    Happening("append", _append),
    Happening("read", _read, by_epoch=False),
    Happening("resign", _resign, by_epoch=False),
    Happening("shutdown", _shut_down, by_epoch=False),
    Happening("its time is up", _waiting, by_epoch=False),
)


def rows() -> Iterator[tuple[str, Happening, int]]:
    """Every event in every relation of its epoch to the node's."""
    for happening in HAPPENINGS:
        if happening.by_epoch:
            for relation, epoch in RELATIONS.items():
                yield f"{happening.name}, {relation}", happening, epoch
        else:
            yield happening.name, happening, EPOCH


# --- the cells ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reaction:
    """What came of one event in one state."""

    before: EpochState
    after: EpochState
    path: tuple[tuple[str, int], ...]
    """Every state and epoch that it went through, the first included."""
    response: str
    effects: tuple[fx.Effect, ...]

    @property
    def cell(self) -> str:
        """The way it went, then what it said; a dot for neither."""
        way = ">".join(f"{name} {epoch}" for name, epoch in self.path[1:])
        return ", ".join(filter(None, (way, self.response))) or "."


def react(state: str, happening: Happening, epoch: int) -> Reaction:
    """Drive a node into the state, and let it happen."""
    lone = STATES[state]()
    assert lone.epoch == EPOCH
    before, seen = lone.raft_node.state, len(lone.effects)
    response = happening.make(lone, epoch)
    effects = tuple(lone.effects[seen:])
    path = ((state_name(before), EPOCH), *((e.target, e.epoch) for e in every(effects, fx.StateChanged)))
    for (source, _), moved in zip(pairwise(path), every(effects, fx.StateChanged), strict=False):
        assert moved.source == source[0]
    return Reaction(before, lone.raft_node.state, path, response, effects)


def render() -> str:
    """All reactions: the event, then each outcome with the states in which it comes about."""
    lines: list[str] = []
    for name, happening, epoch in rows():
        outcomes: dict[str, list[str]] = {}
        for state in STATES:
            outcomes.setdefault(react(state, happening, epoch).cell, []).append(state)
        usual = max(outcomes, key=lambda cell: len(outcomes[cell]))
        lines.append(name)
        for cell, states in sorted(outcomes.items(), key=lambda item: item[0] != usual):
            who = "all" if len(outcomes) == 1 else "others" if cell == usual else "; ".join(states)
            lines.append(f"    {cell:<28} {who}")
    return "\n".join(lines) + "\n"
