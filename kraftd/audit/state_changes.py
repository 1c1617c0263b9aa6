"""What must have happened before a node campaigns, leads, or is announced as the leader.

Election safety (`elections`) says that no two lead an epoch. Here is checked why they lead: a majority of
votes that were really given, after a majority of pre-votes that were really given. A bug in the counting
shows here at once, and there only once it has elected two leaders.

Follows: VOTE-02, CQ-05, D-07, D-18, KIP-996.
"""

from collections.abc import Mapping

from kraftd.audit.invariant import Invariant, NodeView, is_majority
from kraftd.raft.effects import Effect, LeaderChanged, StateChanged, VoteAnswered
from kraftd.raft.epoch_states import Leader
from kraftd.types import Epoch, NodeId


class LeadersAreElected(Invariant):
    """A leader was given a majority of the votes of its epoch, and a candidate one of the pre-votes before.

    A successor that its leader named campaigns without being asked (D-09). The vote of a node with amnesia
    does not count: the others know of it (D-06).
    """

    watches = (VoteAnswered, StateChanged)

    def __init__(self) -> None:
        self._granted: dict[tuple[NodeId, Epoch, bool], set[NodeId]] = {}

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Record what is granted, and look it up when a node campaigns or leads."""
        if isinstance(effect, VoteAnswered):
            if effect.granted and node.is_voter and (effect.pre_vote or not node.forgot):
                key = (effect.candidate, effect.epoch, effect.pre_vote)
                self._granted.setdefault(key, set()).add(node.node_id)
        elif isinstance(effect, StateChanged):
            if (effect.source, effect.target) == ("prospective", "candidate"):
                self._need_majority(node, effect.epoch - 1, nodes, pre_vote=True)
            elif effect.target == "leader":
                self._need_majority(node, effect.epoch, nodes, pre_vote=False)

    def _need_majority(
        self, node: NodeView, epoch: Epoch, nodes: Mapping[NodeId, NodeView], *, pre_vote: bool
    ) -> None:
        others = self._granted.get((node.node_id, epoch, pre_vote), set()) - {node.node_id}
        voters = sum(other.is_voter for other in nodes.values())
        if not is_majority(len(others) + 1, voters):
            what = "campaigns after pre-votes" if pre_vote else "leads by votes"
            self.fail(f"{node.node_id} {what} in epoch {epoch} with grants of only {sorted(others)}")


class LeadersGrantNoPreVotes(Invariant):
    """A leader grants no pre-vote, which could depose it (KIP-996)."""

    watches = (VoteAnswered,)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Check each pre-vote that is granted."""
        del nodes
        is_granted = isinstance(effect, VoteAnswered) and effect.pre_vote and effect.granted
        if is_granted and isinstance(node.state, Leader):
            self.fail(f"{node.node_id} leads, and grants a pre-vote: {effect}")


class OnlyLeadersAreToldToLead(Invariant):
    """A state machine is told to lead only while its node leads, with a record of its epoch committed."""

    watches = (LeaderChanged,)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Check each announcement of the node itself."""
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
    """The only voter never resigns, since no other node can lead (CQ-05). One that has lost a part of its log
    does: what it would go on to serve is not what it acknowledged.
    """

    watches = (StateChanged,)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Check each resignation."""
        resigns = isinstance(effect, StateChanged) and effect.target == "resigned"
        if resigns and node.is_whole and sum(other.is_voter for other in nodes.values()) == 1:
            self.fail(f"{node.node_id} resigns, and there is no other voter")
