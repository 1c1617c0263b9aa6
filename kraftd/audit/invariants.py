"""All invariants of a quorum, which must hold after every single event, whatever fails.

An invariant is shown the nodes as they are (`NodeView`) after every event, and every effect as it is carried
out. It raises `Violation` at the first event after which it does not hold. The harnesses of nodes (stories,
property tests, the simulator) call an `Auditor`, which calls each invariant only with the types that it
needs: a handful of dictionary look-ups an event.

The invariants themselves: `elections`, `state_changes`, `liveness`, `peer_confirmation`, `agreement`,
`snapshots`, `suspicions`. What clients saw is checked at the end: `linearizability`.

Follows: Raft figure 3 and SIMX-08 to SIMX-14; D-01, D-02, D-06, D-07, D-10, D-13, D-18, D-37,
D-40.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeAlias

from kraftd.audit.agreement import (
    AcknowledgedIsDurable,
    CommittedStays,
    DurableStays,
    HighWatermarkNeverGoesBack,
    LeadersCommitTheirOwnEpoch,
    LeadersOnlyAppend,
    LogsMatch,
    StateMachinesAgree,
)
from kraftd.audit.elections import (
    ElectionStays,
    EpochIsDurableBeforeUse,
    EpochsNeverGoBack,
    NoBusyLoop,
    OneElectionAnEvent,
    OneLeaderAnEpoch,
    OneOutcomeACall,
    OneVoteAnEpoch,
    OnlyVotersCampaign,
    OnlyWholeNodesCount,
)
from kraftd.audit.invariant import MESSAGE_OF, Invariant, Mark, NodeView, Violation
from kraftd.audit.liveness import (
    EveryCallHasAnOutcome,
    LeadersAreFollowed,
    OnlyLeadersParkRequests,
    PreVotesAreOfOneRound,
    VotersAreAnsweredInTime,
)
from kraftd.audit.peer_confirmation import UnconfirmedPeersChangeNothing
from kraftd.audit.snapshots import InstallsOnlyForward, LeadersLoadNoSnapshot, NothingNeededIsCleaned
from kraftd.audit.state_changes import (
    LeadersAreElected,
    LeadersGrantNoPreVotes,
    OnlyLeadersAreToldToLead,
    TheOnlyVoterLeads,
)
from kraftd.audit.suspicions import HeardLeadersAreNotSuspected, PreVotesWriteNothing
from kraftd.raft.effects import Effect
from kraftd.raft.events import Event
from kraftd.types import NodeId, Offset

__all__ = ["INVARIANTS", "Auditor", "Invariant", "Mark", "NodeView", "Violation"]

INVARIANTS: tuple[type[Invariant], ...] = (
    OneLeaderAnEpoch,
    OneVoteAnEpoch,
    ElectionStays,
    EpochsNeverGoBack,
    EpochIsDurableBeforeUse,
    OneElectionAnEvent,
    OnlyVotersCampaign,
    OnlyWholeNodesCount,
    OneOutcomeACall,
    EveryCallHasAnOutcome,
    OnlyLeadersParkRequests,
    VotersAreAnsweredInTime,
    NoBusyLoop,
    LeadersAreElected,
    LeadersGrantNoPreVotes,
    LeadersAreFollowed,
    PreVotesAreOfOneRound,
    PreVotesWriteNothing,
    HeardLeadersAreNotSuspected,
    OnlyLeadersAreToldToLead,
    TheOnlyVoterLeads,
    HighWatermarkNeverGoesBack,
    LogsMatch,
    CommittedStays,
    LeadersCommitTheirOwnEpoch,
    LeadersOnlyAppend,
    DurableStays,
    AcknowledgedIsDurable,
    StateMachinesAgree,
    LeadersLoadNoSnapshot,
    InstallsOnlyForward,
    NothingNeededIsCleaned,
    UnconfirmedPeersChangeNothing,
)

EffectCheck: TypeAlias = Callable[[NodeView, Effect, Mapping[NodeId, NodeView]], None]
"""An invariant's `on_effect`."""


class Auditor:
    """All invariants at once, or a choice of them."""

    def __init__(self, invariants: Sequence[type[Invariant]] = INVARIANTS) -> None:
        self.invariants = tuple(invariant() for invariant in invariants)
        self._on_node = [i.on_node for i in self.invariants if _overrides(i, "on_node")]
        self._on_applied = [i.on_applied for i in self.invariants if _overrides(i, "on_applied")]
        self._on_polled = [i.on_polled for i in self.invariants if _overrides(i, "on_polled")]
        self._effect_checks: dict[tuple[type[Effect], type[object] | None], Sequence[EffectCheck]] = {}

        kinds_heard = {kind for invariant in self.invariants for kind in invariant.listens}
        self.event_checks = {
            kind: [i.on_event for i in self.invariants if kind in i.listens] for kind in kinds_heard
        }
        """What looks at an event of a kind before it is handled, for a harness that asks each time."""

        kinds_handled = {kind for invariant in self.invariants for kind in invariant.handles}
        self.handled_checks = {
            kind: [i.on_handled for i in self.invariants if kind in i.handles] for kind in kinds_handled
        }
        """The same once it was handled."""

        self.effects_checks = [i.on_effects for i in self.invariants if _overrides(i, "on_effects")]
        """What looks at all effects of an event together."""

    @property
    def committed(self) -> tuple[Offset, int]:
        """The highest offset that was ever committed, and the digest of a log up to there."""
        return next((i.committed for i in self.invariants if isinstance(i, CommittedStays)), (0, 0))

    def on_event(self, node: NodeView, event: Event, now_ms: int) -> None:
        """A node is about to handle an event."""
        for check in self.event_checks.get(type(event), ()):
            check(node, event, now_ms)

    def on_handled(self, node: NodeView, event: Event, effects: Sequence[Effect]) -> None:
        """A node handled an event and is about to return its effects."""
        for check in self.handled_checks.get(type(event), ()):
            check(node, event, effects)

    def forget(self, node: NodeView) -> None:
        """A node is about to lose its disk, or part of it. What it promised there cannot be kept any more; it
        only makes the node uncounted.
        """
        for invariant in self.invariants:
            invariant.forget(node)

    def on_state(self, nodes: Mapping[NodeId, NodeView], changed: NodeView | None = None) -> None:
        """An event was handled and its effects were carried out, by `changed`, or by any node if that is
        None.
        """
        for node in nodes.values() if changed is None else (changed,):
            for on_node in self._on_node:
                on_node(node)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """An effect is about to be carried out."""
        kind = type(effect)
        message_of = MESSAGE_OF.get(kind)
        for check in self.checks_of(kind, None if message_of is None else type(message_of(effect))):
            check(node, effect, nodes)

    def checks_of(self, kind: type[Effect], message: type[object] | None = None) -> Sequence[EffectCheck]:
        """What looks at effects of a kind, that carry a message of a type if they carry any; for a harness
        that knows both beforehand.
        """
        checks = self._effect_checks.get((kind, message))
        if checks is None:
            checks = self._effect_checks[kind, message] = [
                invariant.on_effect
                for invariant in self.invariants
                if kind in invariant.watches
                and (message is None or not invariant.carrying or message in invariant.carrying)
            ]
        return checks

    def on_effects(self, node: NodeView, effects: Sequence[Effect]) -> None:
        """A node returned the effects of one event."""
        for on_effects in self.effects_checks:
            on_effects(node, effects)

    def on_applied(self, node: NodeView, offset: Offset, digest: Hashable) -> None:
        """A node's state machine has applied all below `offset`."""
        for on_applied in self._on_applied:
            on_applied(node, offset, digest)

    def on_polled(self, node: NodeView, now_ms: int, wake_at_ms: int) -> None:
        """A node was polled."""
        for on_polled in self._on_polled:
            on_polled(node, now_ms, wake_at_ms)


def _overrides(invariant: Invariant, method: str) -> bool:
    return getattr(type(invariant), method) is not getattr(Invariant, method)
