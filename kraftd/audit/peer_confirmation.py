"""What peers that were not confirmed as voters must not bring about (D-37), whatever they claim to be.

Which machine really opened a connection is known from the harness (`NodeView.opener_of`,
`NodeView.origin_of`), never from the code under test. Without these nothing here is checked.

Follows: D-37.
"""

from collections.abc import Callable, Mapping, Sequence

from kraftd.audit.invariant import Invariant, NodeView
from kraftd.protocol import messages as m
from kraftd.raft.effects import (
    Append,
    AssignEpoch,
    Commit,
    ConfirmPeer,
    CutLog,
    Effect,
    InstallSnapshot,
    LeaderChanged,
    LearnEndpoint,
    PersistElection,
    RefusePeer,
    RememberPeer,
    RememberStateHealth,
    Reply,
    StateChanged,
    Truncate,
    VoteAnswered,
    WriteSnapshot,
)
from kraftd.raft.epoch_states import EpochState
from kraftd.raft.events import Event, NonceShown, PeerClaimed, PeerIdentified, RequestReceived
from kraftd.types import NodeId

_CHANGES: frozenset[type[Effect]] = frozenset(
    (
        Append,
        AssignEpoch,
        Commit,
        CutLog,
        InstallSnapshot,
        LeaderChanged,
        LearnEndpoint,
        StateChanged,
        PersistElection,
        RememberPeer,
        RememberStateHealth,
        Truncate,
        WriteSnapshot,
    )
)
"""The effects that only a confirmed voter may bring about."""


class UnconfirmedPeersChangeNothing(Invariant):
    """A peer that was not confirmed as a voter changes nothing and is not counted: no durable byte, no epoch,
    no leader, no address, no vote, no acknowledgement, and no connection of the voter itself. Confirmed is
    only what that voter's own machine opened.
    """

    watches = (ConfirmPeer,)
    listens = (PeerClaimed, NonceShown, PeerIdentified, RequestReceived)
    handles = listens

    def __init__(self) -> None:
        self._confirmed: dict[NodeId, set[int]] = {}
        self._before: dict[NodeId, EpochState | None] = {}
        """The state of each node before its current event."""

    def on_event(self, node: NodeView, event: Event, now_ms: int) -> None:
        """Record the state before a message or greeting is handled."""
        del event, now_ms
        self._before[node.node_id] = node.state

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Check that a connection is confirmed as the machine's that opened it."""
        del nodes
        if not isinstance(effect, ConfirmPeer) or node.opener_of is None:
            return
        opener = node.opener_of(effect.connection)
        if opener is not None and opener != effect.peer.node_id:
            self.fail(
                f"{node.node_id} confirms connection {effect.connection} as voter {effect.peer.node_id}, "
                f"but machine {opener} opened it"
            )
        self._confirmed.setdefault(node.node_id, set()).add(effect.connection)

    def on_handled(self, node: NodeView, event: Event, effects: Sequence[Effect]) -> None:
        """Check the effects of a message or greeting."""
        if node.opener_of is None or node.origin_of is None:
            return
        match event:
            case RequestReceived():
                self._check_request(node, event, effects)
            case PeerClaimed():
                self._check_effects(node, lambda: f"a greeting as voter {event.peer_id}", effects)
            case NonceShown():
                if not any(isinstance(effect, ConfirmPeer) for effect in effects):
                    self._check_effects(node, lambda: "a nonce that confirmed nobody", effects)
            case PeerIdentified(outbound=False):
                what = f"a greeting as observer {event.peer.node_id}"
                self._check_effects(node, lambda: what, effects)

    def _check_request(self, node: NodeView, event: RequestReceived, effects: Sequence[Effect]) -> None:
        origin = node.origin_of(event.handle) if node.origin_of is not None else None
        if origin is None:
            return
        connection, opener = origin
        stated_id = event.peer.node_id if event.peer is not None else None
        if stated_id in node.voters and node.is_voter:
            if connection not in self._confirmed.get(node.node_id, ()):
                self.fail(
                    f"{node.node_id} serves {type(event.request).NAME} in the name of voter {stated_id} on "
                    f"connection {connection}, which was never confirmed"
                )
            if opener == stated_id:
                return

        def what() -> str:
            return f"{type(event.request).NAME} of machine {opener}, which says that it is {stated_id}"

        self._check_effects(node, what, effects)
        if any(isinstance(effect, VoteAnswered) and effect.granted for effect in effects):
            self.fail(f"{node.node_id} grants a vote after {what()}")
        request = event.request
        if isinstance(request, m.FetchRequest) and request.replica_state.replica_id in node.voters:
            reply = next((e for e in effects if isinstance(e, Reply) and e.handle == event.handle), None)
            if reply is None or not _is_refusal(reply.response):
                self.fail(
                    f"{node.node_id} counts a fetch as voter {request.replica_state.replica_id}'s: {what()}"
                )

    def _check_effects(self, node: NodeView, what: Callable[[], str], effects: Sequence[Effect]) -> None:
        state = node.state
        before = self._before.get(node.node_id, state)
        if state is not before and state != before:
            self.fail(f"{node.node_id} goes from {before} to {state} after {what()}")
        for effect in effects:
            if type(effect) in _CHANGES:
                self.fail(f"{node.node_id} does {effect} after {what()}")
            if isinstance(effect, RefusePeer):
                confirmed = self._confirmed.get(node.node_id, ())
                if effect.connection in confirmed:
                    text = f"closes a confirmed connection after {what()}: {effect.reason}"
                    self.fail(f"{node.node_id} {text}")

    def on_node(self, node: NodeView) -> None:
        """Forget the connections of a process that ended: a new one numbers its own anew."""
        if node.state is None:
            self._confirmed.pop(node.node_id, None)


def _is_refusal(response: object) -> bool:
    if not isinstance(response, m.FetchResponse):
        return False
    return bool(response.error_code or any(p.error_code for t in response.responses for p in t.partitions))
