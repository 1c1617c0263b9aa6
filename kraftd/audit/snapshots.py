"""What must hold of snapshots that take the place of a log, and of logs that are cut at one, whatever fails.

What a snapshot holds is judged where files can be read: in the simulator (`tests/sim/snapshots.py`).

Follows: SIMX-13, LSN-16, CLN-05; D-21, D-22, D-23.
"""

from collections.abc import Hashable, Mapping

from kraftd.audit.invariant import Invariant, NodeView
from kraftd.raft.effects import CutLog, Effect, InstallSnapshot, LoadSnapshot
from kraftd.raft.epoch_states import Leader
from kraftd.types import NodeId, Offset


class LeadersLoadNoSnapshot(Invariant):
    """Who leads neither installs a snapshot nor has its state machine load one."""

    watches = (InstallSnapshot, LoadSnapshot)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Check the state."""
        del nodes
        if isinstance(node.state, Leader):
            self.fail(f"leader {node.node_id} asks for {effect}")


class InstallsOnlyForward(Invariant):
    """A snapshot is installed only if it stands for more than what was known to be committed there."""

    watches = (InstallSnapshot,)

    def __init__(self) -> None:
        self._known: dict[NodeId, Offset] = {}

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Compare with what was known before this event."""
        del nodes
        known = self._known.get(node.node_id, -1)
        if isinstance(effect, InstallSnapshot) and effect.id.offset <= known:
            self.fail(f"{node.node_id} installs {effect.id}, and knew {known} to be committed")

    def on_node(self, node: NodeView) -> None:
        """Record what is known now."""
        self._known[node.node_id] = node.high_watermark if node.state is not None else -1


class NothingNeededIsCleaned(Invariant):
    """A log is cut only below what is durable, committed and applied there, as far as that is known."""

    watches = (CutLog,)

    def __init__(self) -> None:
        self._applied: dict[NodeId, Offset] = {}

    def on_applied(self, node: NodeView, offset: Offset, digest: Hashable) -> None:
        """Record what a state machine has applied."""
        del digest
        self._applied[node.node_id] = offset

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Compare with it."""
        del nodes
        if not isinstance(effect, CutLog):
            return
        kept = min(node.durable_end_offset, node.high_watermark)
        kept = min(kept, self._applied.get(node.node_id, kept))
        if effect.start.offset > kept:
            self.fail(f"{node.node_id} cuts its log at {effect.start}, and needs what is behind {kept}")

    def on_node(self, node: NodeView) -> None:
        """Forget a process that ended."""
        if node.state is None:
            self._applied.pop(node.node_id, None)
