"""Whom a suspicion may cost the lead: a leader that was silent lately, and nobody else.

The judge keeps by itself when each follower last heard its leader, by the good fetch responses that reached
it, and knows S only by the least that it may be: longer is never wrong.

Follows: D-07, D-40, KIP-996.
"""

from collections.abc import Mapping, Sequence

from kraftd.audit.invariant import Invariant, NodeView
from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft.effects import Effect, PersistElection, Send, StateChanged, VoteAnswered
from kraftd.raft.epoch_states import Follower, Prospective
from kraftd.raft.events import Event, RequestReceived, ResponseReceived
from kraftd.types import Epoch, NodeId

SILENT_MS = 450
"""For how long a leader must be silent at least before it is suspected."""

COUNTS_MS = 450
"""For how long what others say of it counts at most, from when they were asked."""


class HeardLeadersAreNotSuspected(Invariant):
    """A follower in touch asks for pre-votes, and grants one, only once its leader was silent for 450 ms; and
    it campaigns by none that it asked for 450 ms ago or longer.

    A candidate needs a majority of them. So nobody is deposed unless each of a majority had heard nothing of
    it for 450 ms, at some moment of the last 450, or a follower lost touch: a connection closed, a fetch
    timeout ended, the epoch was ended.
    """

    watches = (VoteAnswered, Send, StateChanged)
    carrying = (m.VoteRequest, m.FetchRequest)
    listens = (RequestReceived, ResponseReceived)

    def __init__(self) -> None:
        self._now_ms: dict[NodeId, int] = {}
        self._fetches: dict[NodeId, int] = {}
        """The correlation id of the fetch that each waits for: after a change of state it waits for none, and
        does not hear what comes.
        """
        self._heard: dict[NodeId, tuple[Epoch, int]] = {}
        self._asked: dict[NodeId, tuple[int, int]] = {}
        """The last round of pre-votes that each asked for as a follower, and when it first did; none once it
        has asked as one that lost its leader.
        """

    def on_event(self, node: NodeView, event: Event, now_ms: int) -> None:
        """Record when the leader is heard."""
        self._now_ms[node.node_id] = now_ms
        if type(event) is not ResponseReceived or type(event.response) is not m.FetchResponse:
            return
        state = node.state
        if (
            isinstance(state, Follower)
            and event.sender == state.leader_id
            and event.correlation_id == self._fetches.get(node.node_id)
            and event.response.error_code == ErrorCode.NONE
            and event.response.responses
            and event.response.responses[0].partitions[0].error_code == ErrorCode.NONE
        ):
            self._heard[node.node_id] = (state.epoch, now_ms)

    def on_polled(self, node: NodeView, now_ms: int, wake_at_ms: int) -> None:
        """Keep the time for what the poll led to."""
        del wake_at_ms
        self._now_ms[node.node_id] = now_ms

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Check each pre-vote that a follower in touch asks for or grants."""
        del nodes
        state = node.state
        if type(effect) is Send and type(effect.request) is m.FetchRequest:  # nearly always
            if type(state) is Follower and effect.to == state.leader_id:
                self._fetches[node.node_id] = effect.correlation_id
        elif isinstance(effect, StateChanged):
            self._fetches.pop(node.node_id, None)
            if (effect.source, effect.target) == ("prospective", "candidate"):
                self._need_fresh_grants(node)
        elif isinstance(effect, Send) and isinstance(state, Prospective):
            self._asked.pop(node.node_id, None)
        elif isinstance(state, Follower) and state.in_touch:
            if isinstance(effect, Send):
                self._need_silence(node, state, "asks for a pre-vote")
                if self._asked.get(node.node_id, (0, 0))[0] != state.round:
                    self._asked[node.node_id] = (state.round, self._now_ms.get(node.node_id, 0))
            elif isinstance(effect, VoteAnswered) and effect.pre_vote and effect.granted:
                self._need_silence(node, state, "grants a pre-vote")

    def _need_fresh_grants(self, node: NodeView) -> None:
        round_, asked_ms = self._asked.pop(node.node_id, (0, 0))
        ago_ms = self._now_ms.get(node.node_id, 0) - asked_ms
        if round_ and ago_ms >= COUNTS_MS:
            self.fail(
                f"{node.node_id} campaigns by pre-votes that it asked for {ago_ms} ms ago, as a follower"
            )

    def _need_silence(self, node: NodeView, state: Follower, what: str) -> None:
        epoch, heard_ms = self._heard.get(node.node_id, (-1, 0))
        silent_ms = self._now_ms.get(node.node_id, 0) - heard_ms
        if epoch == state.epoch and silent_ms < SILENT_MS:
            self.fail(
                f"{node.node_id} {what}, and heard leader {state.leader_id} of epoch {epoch} "
                f"{silent_ms} ms ago"
            )

    def on_node(self, node: NodeView) -> None:
        """Forget a process that ended: a new one has another clock."""
        if node.state is None:
            self._heard.pop(node.node_id, None)
            self._asked.pop(node.node_id, None)
            self._fetches.pop(node.node_id, None)
            self._now_ms.pop(node.node_id, None)


class PreVotesWriteNothing(Invariant):
    """Whoever is asked for a pre-vote writes no election, whatever it answers (D-07)."""

    handles = (RequestReceived,)

    def on_handled(self, node: NodeView, event: Event, effects: Sequence[Effect]) -> None:
        """Check what a request for a pre-vote led to."""
        if type(event) is not RequestReceived or type(event.request) is not m.VoteRequest:
            return
        request = event.request
        if not request.topics:
            return
        if request.topics[0].partitions[0].pre_vote and any(isinstance(e, PersistElection) for e in effects):
            self.fail(f"{node.node_id} was asked for a pre-vote, and writes an election")
