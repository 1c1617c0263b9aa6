"""What must hold in a quorum after every single event, whatever fails: all promises at once.

A watcher is shown the members as they are (`NodeView`) after every event, and every effect as it is carried
out. It raises `Violation` at the first event after which its promise does not hold. Whoever drives members
(stories, property tests, the simulator) feeds an `Auditor`, which holds them all and asks each only about
what it watches: a handful of dictionary look-ups an event.

The promises themselves: `elections`, `conduct`, `hearing`, `speaking`, `agreement`. What clients saw is
judged at the end: `linearizability`.

Follows: Raft figure 3 and SIMX-08 to SIMX-14; D-01, D-02, D-06, D-07, D-10, D-13, D-18, D-37.
"""

from collections.abc import Hashable, Mapping, Sequence

from kraftd.audit.agreement import (
    AcknowledgedIsDurable,
    CommittedStays,
    DurableStays,
    HighWatermarkNeverGoesBack,
    LeadersCommitTheirOwn,
    LeadersOnlyAppend,
    LogsMatch,
    MachinesAgree,
)
from kraftd.audit.conduct import (
    LeadersAreElected,
    LeadersGrantNoPreVotes,
    OnlyLeadersAreTold,
    TheOnlyVoterLeads,
)
from kraftd.audit.elections import (
    AnsweredOnce,
    ElectionStays,
    EpochIsDurableBeforeUse,
    EpochsNeverGoBack,
    NoBusyLoop,
    OneLeaderAnEpoch,
    OnePromiseAnEvent,
    OneVoteAnEpoch,
    OnlyVotersCampaign,
    OnlyWholeMembersCount,
)
from kraftd.audit.hearing import (
    EveryoneIsAnswered,
    LeadersAreFollowed,
    OnlyLeadersKeepWaiting,
    PreVotesAreOfOneRound,
)
from kraftd.audit.speaking import NothingByTheUnconfirmed
from kraftd.audit.watching import Invariant, Mark, NodeView, Violation
from kraftd.raft.effects import Effect
from kraftd.raft.events import Event
from kraftd.types import NodeId, Offset

__all__ = ["PROMISES", "Auditor", "Invariant", "Mark", "NodeView", "Violation"]

PROMISES: tuple[type[Invariant], ...] = (
    OneLeaderAnEpoch,
    OneVoteAnEpoch,
    ElectionStays,
    EpochsNeverGoBack,
    EpochIsDurableBeforeUse,
    OnePromiseAnEvent,
    OnlyVotersCampaign,
    OnlyWholeMembersCount,
    AnsweredOnce,
    EveryoneIsAnswered,
    OnlyLeadersKeepWaiting,
    NoBusyLoop,
    LeadersAreElected,
    LeadersGrantNoPreVotes,
    LeadersAreFollowed,
    PreVotesAreOfOneRound,
    OnlyLeadersAreTold,
    TheOnlyVoterLeads,
    HighWatermarkNeverGoesBack,
    LogsMatch,
    CommittedStays,
    LeadersCommitTheirOwn,
    LeadersOnlyAppend,
    DurableStays,
    AcknowledgedIsDurable,
    MachinesAgree,
    NothingByTheUnconfirmed,
)


class Auditor:
    """All invariants at once, or those that are asked for."""

    def __init__(self, promises: Sequence[type[Invariant]] = PROMISES) -> None:
        self.invariants = tuple(promise() for promise in promises)
        self._on_node = [i.on_node for i in self.invariants if _overrides(i, "on_node")]
        self._on_effects = [i.on_effects for i in self.invariants if _overrides(i, "on_effects")]
        self._on_applied = [i.on_applied for i in self.invariants if _overrides(i, "on_applied")]
        self._on_polled = [i.on_polled for i in self.invariants if _overrides(i, "on_polled")]
        kinds = {kind for invariant in self.invariants for kind in invariant.watches}
        self._on_effect = {
            kind: [i.on_effect for i in self.invariants if kind in i.watches] for kind in kinds
        }

        kinds_heard = {kind for invariant in self.invariants for kind in invariant.listens}
        self._on_event = {
            kind: [i.on_event for i in self.invariants if kind in i.listens] for kind in kinds_heard
        }

        kinds_handled = {kind for invariant in self.invariants for kind in invariant.handles}
        self._on_handled = {
            kind: [i.on_handled for i in self.invariants if kind in i.handles] for kind in kinds_handled
        }

    @property
    def committed(self) -> tuple[Offset, int]:
        """The highest offset that was ever committed, and the digest of a log up to there."""
        return next((i.committed for i in self.invariants if isinstance(i, CommittedStays)), (0, 0))

    def on_event(self, node: NodeView, event: Event, now_ms: int) -> None:
        """A member is about to handle an event."""
        for on_event in self._on_event.get(type(event), ()):
            on_event(node, event, now_ms)

    def on_handled(self, node: NodeView, event: Event, effects: Sequence[Effect]) -> None:
        """A member handled an event and is about to hand over its effects."""
        for on_handled in self._on_handled.get(type(event), ()):
            on_handled(node, event, effects)

    def forget(self, node: NodeView) -> None:
        """A member is about to lose its disk, or part of what it holds. What it promised there cannot bind
        it any more; it only keeps it from being counted.
        """
        for invariant in self.invariants:
            invariant.forget(node)

    def on_state(self, nodes: Mapping[NodeId, NodeView], changed: NodeView | None = None) -> None:
        """An event was handled and its effects were carried out, by `changed` or by nobody knows whom."""
        for node in nodes.values() if changed is None else (changed,):
            for on_node in self._on_node:
                on_node(node)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """An effect is about to be carried out."""
        for on_effect in self._on_effect.get(type(effect), ()):
            on_effect(node, effect, nodes)

    def on_effects(self, node: NodeView, effects: Sequence[Effect]) -> None:
        """A member handed over the effects of one event."""
        for on_effects in self._on_effects:
            on_effects(node, effects)

    def on_applied(self, node: NodeView, offset: Offset, digest: Hashable) -> None:
        """A member's state machine has applied all below `offset`."""
        for on_applied in self._on_applied:
            on_applied(node, offset, digest)

    def on_polled(self, node: NodeView, now_ms: int, wake_at_ms: int) -> None:
        """A member was polled."""
        for on_polled in self._on_polled:
            on_polled(node, now_ms, wake_at_ms)


def _overrides(invariant: Invariant, method: str) -> bool:
    return getattr(type(invariant), method) is not getattr(Invariant, method)
