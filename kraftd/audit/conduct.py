"""How members may come to a role: what must have happened before somebody campaigns, leads, or is told so.

Election safety (`elections`) says that no two lead an epoch. Here is why they lead: a majority of votes that
were really given, after a majority of pre-votes that were really given. A bug in the counting shows here at
once, and there only once two of its victims meet.

Follows: VOTE-02, CQ-05, D-07, D-18, KIP-996.
"""

from collections.abc import Mapping

from kraftd.audit.watching import Invariant, NodeView
from kraftd.raft.effects import Effect, LeaderChanged, StateChanged, VoteCast
from kraftd.raft.epoch_states import Leader
from kraftd.types import Epoch, NodeId


class LeadersAreElected(Invariant):
    """Whoever leads was given a majority of the votes of its epoch, and whoever campaigns of the pre-votes.

    A successor that its leader named campaigns without being asked (D-09). The vote of a member that forgot
    what it promised elects nobody: the others know that it did (D-06).
    """

    watches = (VoteCast, StateChanged)

    def __init__(self) -> None:
        self._granted: dict[tuple[NodeId, Epoch, bool], set[NodeId]] = {}

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Note what is granted, and look it up when it is used."""
        if isinstance(effect, VoteCast):
            if effect.granted and node.is_voter and (effect.pre_vote or not node.forgot):
                key = (effect.candidate, effect.epoch, effect.pre_vote)
                self._granted.setdefault(key, set()).add(node.node_id)
        elif isinstance(effect, StateChanged):
            if (effect.source, effect.target) == ("prospective", "candidate"):
                self._need(node, effect.epoch - 1, nodes, pre_vote=True)
            elif effect.target == "leader":
                self._need(node, effect.epoch, nodes, pre_vote=False)

    def _need(
        self, node: NodeView, epoch: Epoch, nodes: Mapping[NodeId, NodeView], *, pre_vote: bool
    ) -> None:
        others = self._granted.get((node.node_id, epoch, pre_vote), set()) - {node.node_id}
        voters = sum(other.is_voter for other in nodes.values())
        if (len(others) + 1) * 2 <= voters:
            what = "campaigns after pre-votes" if pre_vote else "leads by votes"
            self.fail(f"{node.node_id} {what} in epoch {epoch} of nobody but {sorted(others)}")


class LeadersGrantNoPreVotes(Invariant):
    """Whoever leads helps nobody to depose it (KIP-996)."""

    watches = (VoteCast,)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Look at what is granted."""
        del nodes
        is_granted = isinstance(effect, VoteCast) and effect.pre_vote and effect.granted
        if is_granted and isinstance(node.state, Leader):
            self.fail(f"{node.node_id} leads, and helps somebody else to an election: {effect}")


class OnlyLeadersAreTold(Invariant):
    """A state machine is told to lead only while its member leads, with a record of its epoch committed."""

    watches = (LeaderChanged,)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Look at who is told, and when."""
        del nodes
        if not isinstance(effect, LeaderChanged) or effect.leader_id != node.node_id:
            return
        state = node.state
        if not isinstance(state, Leader) or state.epoch != effect.epoch:
            self.fail(f"{node.node_id} is told to lead epoch {effect.epoch}, and is {state}")
        elif node.high_watermark <= state.epoch_start_offset:
            start = f"its epoch starts at {state.epoch_start_offset}"
            self.fail(f"{node.node_id} is told to lead, {start}, but {node.high_watermark} is committed")


class TheOnlyVoterLeads(Invariant):
    """Nobody else can lead, so the only voter never resigns (CQ-05)."""

    watches = (StateChanged,)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Watch it go."""
        resigns = isinstance(effect, StateChanged) and effect.target == "resigned"
        if resigns and sum(other.is_voter for other in nodes.values()) == 1:
            self.fail(f"{node.node_id} resigns, and there is no other voter")
