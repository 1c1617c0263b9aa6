"""What nodes must do in time: leaders that are not followed resign, and each request is answered.

The other invariants check what nodes hold and send. These also check what reached a node, and when by its own
clock: a leader without a majority resigns, a candidate counts the responses of one round only, a voter's
fetch is not parked for too long, and each caller gets its outcome in time.

A node may be late, since a process can stand still: what is due at a poll is required at the next one.

Follows: CQ-02 to CQ-05, DQ-04, FREQ-07, KIP-996; D-07, D-11, D-13, D-40; KAFKA-15489, KAFKA-15911.
"""

from collections import defaultdict
from collections.abc import Mapping

from kraftd.audit.invariant import Invariant, NodeView, is_majority
from kraftd.protocol import messages as m
from kraftd.raft.effects import (
    AppendDone,
    ColdRead,
    Effect,
    ReadDone,
    Reply,
    ResignDone,
    Send,
    StateChanged,
)
from kraftd.raft.epoch_states import Follower, Leader, Prospective
from kraftd.raft.events import (
    AppendRequested,
    Event,
    Handle,
    ReadRequested,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    Token,
)
from kraftd.types import Epoch, NodeId, Offset

CHECK_QUORUM_SPANS = 2
"""After how many spans of check-quorum a leader without a majority must have resigned.

One is the rule. The fetch that began the last span may have been the first of its majority, so that the
others made progress up to one span earlier.
"""


class LeadersAreFollowed(Invariant):
    """A leader resigns once no majority makes fetch progress for two check-quorum spans.

    A replica that only repeats its fetch position makes no progress, unless it had reached the leader's end.
    One that downloads a snapshot makes it by asking for a later piece.
    """

    listens = (RequestReceived,)

    def __init__(self) -> None:
        self._leaders: dict[NodeId, _FetchProgress] = {}

    def on_event(self, node: NodeView, event: Event, now_ms: int) -> None:
        """Record fetches."""
        state = node.state
        if not isinstance(state, Leader) or not isinstance(event, RequestReceived):
            return
        request = event.request
        if isinstance(request, m.FetchRequest) and request.topics:
            voter, fetch = request.replica_state.replica_id, request.topics[0].partitions[0]
            if voter != node.node_id and fetch.current_leader_epoch == state.epoch:
                end_offset = node.log[-1].end_offset if node.log else 0
                progress = self._of(node, state.epoch, now_ms)
                progress.record_fetch(voter, fetch.fetch_offset, end_offset, now_ms)
        elif isinstance(request, m.FetchSnapshotRequest) and request.topics:
            piece = request.topics[0].partitions[0]
            if piece.current_leader_epoch == state.epoch:
                place = piece.snapshot_id.end_offset, piece.position
                self._of(node, state.epoch, now_ms).record_piece(request.replica_id, place, now_ms)

    def on_polled(self, node: NodeView, now_ms: int, wake_at_ms: int) -> None:
        """Count the voters that made progress lately."""
        del wake_at_ms
        state = node.state
        if not isinstance(state, Leader) or not node.check_quorum_ms:
            return
        progress = self._of(node, state.epoch, now_ms)
        since_ms = now_ms - CHECK_QUORUM_SPANS * node.check_quorum_ms
        if progress.began_ms > since_ms:
            return
        fetched = sum(
            at_ms > since_ms for voter, at_ms in progress.progressed_at_ms.items() if voter in node.voters
        )
        if is_majority(fetched + 1, len(node.voters)):
            progress.is_due = False
        elif not progress.is_due:
            progress.is_due = True
        else:
            self.fail(
                f"{node.node_id} leads epoch {state.epoch}, and for {now_ms - since_ms} ms "
                f"only {fetched} of {len(node.voters) - 1} other voters made fetch progress"
            )

    def _of(self, node: NodeView, epoch: Epoch, now_ms: int) -> "_FetchProgress":
        progress = self._leaders.get(node.node_id)
        if progress is None or progress.epoch != epoch or now_ms < progress.began_ms:
            progress = self._leaders[node.node_id] = _FetchProgress(epoch, now_ms)
        return progress

    def on_node(self, node: NodeView) -> None:
        """Forget a process that ended: a new one has another clock."""
        if node.state is None:
            self._leaders.pop(node.node_id, None)


class _FetchProgress:
    """The fetch progress of a leader's followers."""

    def __init__(self, epoch: Epoch, now_ms: int) -> None:
        self.epoch, self.began_ms = epoch, now_ms
        self.progressed_at_ms: dict[NodeId, int] = {}
        self.is_due = False
        self._asked: dict[NodeId, tuple[Offset, Offset]] = {}
        self._places: dict[NodeId, tuple[Offset, int]] = {}
        """The end offset of the snapshot, and the position in it, that each asked for last."""

    def record_fetch(self, voter: NodeId, offset: Offset, end_offset: Offset, now_ms: int) -> None:
        """Record a fetch: progress is another position than before, or the end of the log."""
        before_offset, before_end = self._asked.get(voter, (-1, end_offset + 1))
        if offset != before_offset or offset >= before_end:
            self.progressed_at_ms[voter] = now_ms
        self._asked[voter] = offset, end_offset

    def record_piece(self, voter: NodeId, place: tuple[Offset, int], now_ms: int) -> None:
        """Record a request for a piece of a snapshot: progress is a later one than before."""
        if place > self._places.get(voter, (-1, -1)):
            self.progressed_at_ms[voter] = now_ms
        self._places[voter] = place


class PreVotesAreOfOneRound(Invariant):
    """A candidate was granted a majority of pre-votes in response to what it asked in its last round; as one
    who had lost its leader, or as a follower that suspected it.
    """

    watches = (Send, StateChanged)
    carrying = (m.VoteRequest,)
    listens = (ResponseReceived,)

    def __init__(self) -> None:
        self._rounds: dict[NodeId, _Round] = {}

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Record which request belongs to which round; count the responses when they are used."""
        if isinstance(effect, StateChanged):
            if (effect.source, effect.target) == ("prospective", "candidate"):
                self._need_majority(node, nodes)
            elif effect.target == "prospective" and effect.source != "follower":
                self._rounds[node.node_id] = _Round(0)
        elif isinstance(effect, Send) and isinstance(effect.request, m.VoteRequest):
            state = node.state
            if isinstance(state, Prospective | Follower) and effect.request.topics[0].partitions[0].pre_vote:
                asking = self._rounds.get(node.node_id)
                # Followers and prospectives count their rounds apart, from 1 on: negative are a follower's.
                number = state.round if isinstance(state, Prospective) else -state.round
                if asking is None or asking.number != number:
                    asking = self._rounds[node.node_id] = _Round(number)
                asking.asked.add(effect.correlation_id)

    def on_event(self, node: NodeView, event: Event, now_ms: int) -> None:
        """Record granted pre-votes."""
        del now_ms
        if isinstance(event, ResponseReceived) and isinstance(event.response, m.VoteResponse):
            asking, topics = self._rounds.get(node.node_id), event.response.topics
            if asking is None or event.correlation_id not in asking.asked or not topics:
                return
            if topics[0].partitions[0].vote_granted:
                asking.granted.add(event.sender)

    def _need_majority(self, node: NodeView, nodes: Mapping[NodeId, NodeView]) -> None:
        asking = self._rounds.get(node.node_id)
        granted = asking.granted if asking is not None else set()
        voters = sum(other.is_voter for other in nodes.values())
        if not is_majority(len(granted) + 1, voters):
            number = asking.number if asking is not None else 0
            self.fail(f"{node.node_id} campaigns, and was granted by {sorted(granted)} in round {number}")

    def on_node(self, node: NodeView) -> None:
        """Forget a process that ended: a new one counts its requests anew."""
        if node.state is None:
            self._rounds.pop(node.node_id, None)


class _Round:
    """One round of pre-votes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked: set[int] = set()
        self.granted: set[NodeId] = set()


class EveryCallHasAnOutcome(Invariant):
    """Each append, read and request for another leader gets an outcome by its deadline (D-13).

    The deadline of an append or a read follows from the configuration, if that is known, and not from the
    event.
    """

    watches = (AppendDone, ReadDone, ResignDone)
    listens = (AppendRequested, ReadRequested, ResignRequested)

    def __init__(self) -> None:
        self._waiting: dict[NodeId, dict[tuple[type[Effect], Token], int]] = {}
        self._due: dict[NodeId, tuple[type[Effect], Token, int]] = {}
        """The call whose deadline was found to be over, and when: a poll of the same moment may change
        nothing.
        """

    def on_event(self, node: NodeView, event: Event, now_ms: int) -> None:
        """Record a call and its deadline."""
        outcome = _OUTCOMES.get(type(event))
        if outcome is not None:
            deadline_ms: int = event.deadline_ms  # type: ignore[union-attr]  # all of _OUTCOMES have one
            if node.request_timeout_ms and outcome is not ResignDone:
                deadline_ms = now_ms + node.request_timeout_ms
            waiting = self._waiting.setdefault(node.node_id, {})
            waiting[outcome, event.token] = deadline_ms  # type: ignore[union-attr]  # and one of these

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Record an outcome."""
        del nodes
        waiting = self._waiting.get(node.node_id)
        if waiting:
            waiting.pop((type(effect), effect.token), None)  # type: ignore[union-attr]  # all that it watches have one

    def on_polled(self, node: NodeView, now_ms: int, wake_at_ms: int) -> None:
        """Check the call that has waited longest."""
        del wake_at_ms
        waiting = self._waiting.get(node.node_id)
        if not waiting:
            return
        key, deadline_ms = next(iter(waiting.items()))
        if now_ms < deadline_ms:
            return
        due = self._due.get(node.node_id)
        if due is None or due[:2] != key:
            self._due[node.node_id] = (*key, now_ms)
            return
        if now_ms <= due[2]:
            return
        self.fail(
            f"{node.node_id} owes {key[0].__name__} to {key[1]} since {deadline_ms}, and it is {now_ms}"
        )

    def on_node(self, node: NodeView) -> None:
        """Forget the calls of a process that ended."""
        if node.state is None:
            self._waiting.pop(node.node_id, None)
            self._due.pop(node.node_id, None)


class OnlyLeadersParkRequests(Invariant):
    """A request is answered at once, unless its receiver leads: then a fetch may be parked for a while.

    A node that leads no longer has answered all. Nothing is checked if the harness cannot tell which requests
    wait.
    """

    watches = (Reply,)
    listens = (RequestReceived,)

    def __init__(self) -> None:
        self._waiting: defaultdict[NodeId, set[Handle]] = defaultdict(set)

    def on_event(self, node: NodeView, event: Event, now_ms: int) -> None:
        """Record a request."""
        del now_ms
        if isinstance(event, RequestReceived):
            self._waiting[node.node_id].add(event.handle)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Record a response."""
        del nodes
        if isinstance(effect, Reply):
            self._waiting[node.node_id].discard(effect.handle)

    def on_node(self, node: NodeView) -> None:
        """Check which requests are left. One whose connection is gone waits for nothing."""
        waiting = self._waiting.get(node.node_id)
        if not waiting or isinstance(node.state, Leader):
            return
        if node.state is not None and node.origin_of is not None:
            left = [handle for handle in waiting if node.origin_of(handle) is not None]
            if left:
                self.fail(f"{node.node_id} is {node.state}, and has not answered {len(left)} requests")
        waiting.clear()


class VotersAreAnsweredInTime(Invariant):
    """A leader answers a voter's fetch once it has waited for as long as it asked to: by that a follower
    hears that its leader is alive (D-40). One that waits for the disk may wait longer.

    What has waited long enough while the process stood still is answered at its first poll: so a poll that
    leaves a fetch waiting must plan the next one for the end of its wait.
    """

    watches = (Reply, ColdRead)
    carrying = (m.FetchResponse,)
    listens = (RequestReceived,)

    def __init__(self) -> None:
        self._parked: defaultdict[NodeId, dict[Handle, _ParkedFetch]] = defaultdict(dict)

    def on_event(self, node: NodeView, event: Event, now_ms: int) -> None:
        """Record a fetch of another voter under its id."""
        request = event.request if isinstance(event, RequestReceived) else None
        if not isinstance(event, RequestReceived) or not isinstance(request, m.FetchRequest):
            return
        voter = request.replica_state.replica_id
        if isinstance(node.state, Leader) and voter in node.voters and voter != node.node_id:
            offset = request.topics[0].partitions[0].fetch_offset if request.topics else -1
            ends_ms = now_ms + max(0, request.max_wait_ms)
            self._parked[node.node_id][event.handle] = _ParkedFetch(voter, offset, ends_ms)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Forget what is answered, and whose records are read from the disk."""
        del nodes
        parked = self._parked.get(node.node_id)
        if parked and isinstance(effect, Reply):
            parked.pop(effect.handle, None)
        elif parked and isinstance(effect, ColdRead):
            for handle in [handle for handle, fetch in parked.items() if fetch.offset == effect.offset]:
                del parked[handle]

    def on_polled(self, node: NodeView, now_ms: int, wake_at_ms: int) -> None:
        """Check what the poll before has left waiting: its effects are carried out by now."""
        parked = self._parked.get(node.node_id)
        if not parked:
            return
        for fetch in parked.values():
            if fetch.planned_ms > fetch.ends_ms:
                self.fail(
                    f"{node.node_id} lets a fetch of voter {fetch.voter} wait until {fetch.planned_ms}, but "
                    f"it asked to wait until {fetch.ends_ms}, and now it is {now_ms}"
                )
            fetch.planned_ms = wake_at_ms

    def on_node(self, node: NodeView) -> None:
        """Forget the fetches of a process that ended, or leads no more: it has answered them
        (`OnlyLeadersParkRequests`).
        """
        if not isinstance(node.state, Leader):
            self._parked.pop(node.node_id, None)


class _ParkedFetch:
    """A voter's fetch that waits."""

    def __init__(self, voter: NodeId, offset: Offset, ends_ms: int) -> None:
        self.voter, self.offset, self.ends_ms = voter, offset, ends_ms
        self.planned_ms = ends_ms
        """When the last poll that has left it waiting wanted the next one."""


_OUTCOMES: Mapping[type[Event], type[Effect]] = {
    AppendRequested: AppendDone,
    ReadRequested: ReadDone,
    ResignRequested: ResignDone,
}
