"""What must hold of logs, commits and acknowledgements, whatever fails.

Each class is one invariant (see `invariant` for when it is called). Not here: who may lead (`elections`), and
what clients saw of it (`linearizability`).

Follows: Raft figure 3, SIMX-08, SIMX-10, SIMX-14; D-02, D-05, D-06, D-10, D-14, D-18. SIMX-12 and SIMX-13 are
about snapshots, which the simulator judges (`tests/sim/snapshots.py`).
"""

from collections.abc import Hashable, Mapping, Sequence

from kraftd.audit.invariant import Invariant, NodeView, is_majority
from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft.effects import (
    AppendDone,
    AssignEpoch,
    Commit,
    Effect,
    InstallSnapshot,
    Send,
    Truncate,
    WriteSnapshot,
)
from kraftd.raft.epoch_states import Leader
from kraftd.types import Epoch, NodeId, Offset


class HighWatermarkNeverGoesBack(Invariant):
    """The high watermark of a node never decreases, as long as its process lives."""

    def __init__(self) -> None:
        self._known: dict[NodeId, Offset] = {}

    def on_node(self, node: NodeView) -> None:
        """Compare with the last one."""
        if node.state is None:
            self._known.pop(node.node_id, None)
            return
        known = self._known.get(node.node_id, -1)
        if node.high_watermark < known:
            self.fail(f"{node.node_id} went back from {known} to {node.high_watermark}")
        self._known[node.node_id] = node.high_watermark


class LogsMatch(Invariant):
    """If two logs hold a batch of one epoch at one offset, they are the same up to there.

    Epochs rise along a log, and none is above the node's own.
    """

    def __init__(self) -> None:
        self._digests: dict[tuple[Offset, Epoch], int] = {}

    def on_node(self, node: NodeView) -> None:
        """Check the batches that are new since the last call."""
        if not node.log:
            return
        epoch = node.state.epoch if node.state is not None else node.log[-1].epoch
        for mark in reversed(node.log):
            place = (mark.end_offset, mark.epoch)
            known = self._digests.get(place)
            if mark.epoch > epoch:
                self.fail(f"{node.node_id} holds a batch of epoch {mark.epoch} in or before epoch {epoch}")
            if known == mark.digest:
                break  # the digest covers everything before it
            if known is not None:
                self.fail(f"{node.node_id} holds another log up to {mark.end_offset} of {mark.epoch}")
            self._digests[place] = mark.digest
            epoch = mark.epoch


class CommittedStays(Invariant):
    """State machine safety and leader completeness.

    What one node learned to be committed, every other learns to be the same; every later leader has it; and
    no node that holds it ever truncates it, whether it knows it to be committed or not.
    """

    watches = (Truncate, InstallSnapshot, Commit)

    def __init__(self) -> None:
        self._committed: dict[Offset, int] = {0: 0}
        """The digest at the end of every committed batch, also of those within one commit."""
        self._newest: tuple[Offset, Epoch] = (0, 0)
        self._leaders: set[tuple[NodeId, Epoch]] = set()

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Check commits, truncations, and snapshots in the place of the log."""
        del nodes
        if isinstance(effect, Truncate):
            self._on_truncate(node, effect.end_offset)
        elif isinstance(effect, InstallSnapshot):
            if effect.id.offset not in self._committed:
                self.fail(f"{node.node_id} installs {effect.id}, which was never committed")
            self._on_truncate(node, effect.id.offset)
        elif isinstance(effect, Commit):
            self._on_commit(node, effect.high_watermark)

    @property
    def committed(self) -> tuple[Offset, int]:
        """The highest offset that was ever committed, and the digest of a log up to there."""
        offset = self._newest[0]
        return offset, self._committed[offset]

    def _on_truncate(self, node: NodeView, end_offset: Offset) -> None:
        if end_offset < node.high_watermark:
            self.fail(f"{node.node_id} cuts at {end_offset} below {node.high_watermark}")
        for mark in reversed(node.log):
            if mark.end_offset <= end_offset:
                break
            if self._committed.get(mark.end_offset) == mark.digest:
                self.fail(f"{node.node_id} cuts at {end_offset}, and held what is committed below {mark}")

    def _on_commit(self, node: NodeView, offset: Offset) -> None:
        digest = node.digest_at(offset)
        if digest is None:
            self.fail(f"{node.node_id} commits up to {offset}, where its log has no boundary")
            return
        for mark in reversed(node.log):
            if mark.end_offset > offset:
                continue
            known = self._committed.setdefault(mark.end_offset, mark.digest)
            if known != mark.digest:
                self.fail(f"{node.node_id} commits another log up to {mark.end_offset}")
            if mark.end_offset <= self._newest[0]:
                break  # the digest covers everything before it, and that is known
        if offset > self._newest[0] and node.state is not None:
            self._newest = (offset, node.state.epoch)

    def on_node(self, node: NodeView) -> None:
        """Check every new leader once."""
        state = node.state
        if not isinstance(state, Leader) or (node.node_id, state.epoch) in self._leaders:
            return
        offset, epoch = self._newest
        if state.epoch < epoch:
            return
        self._leaders.add((node.node_id, state.epoch))
        if node.digest_at(offset) != self._committed[offset]:
            self.fail(f"leader {node.node_id} of epoch {state.epoch} lacks what is committed at {offset}")


class LeadersCommitTheirOwnEpoch(Invariant):
    """A leader commits only with a record of its own epoch, and never less than a leader before it (D-10).

    All other nodes commit only what some leader committed, and so does a process that starts: the only voter
    may lead by the end of its first event, and its snapshot was committed before.

    A commit counts when it is decided. Node 1 is the only voter, decides one, and its disk fails at the
    election file before the commit is carried out, with the high watermark already in there: its next process
    starts with that commit.
    """

    def __init__(self) -> None:
        self._committed: tuple[Epoch, Offset] = (-1, -1)
        self._started: set[NodeId] = set()

    def on_node(self, node: NodeView) -> None:
        """Record which processes are past their first event."""
        (self._started.discard if node.state is None else self._started.add)(node.node_id)

    def on_effects(self, node: NodeView, effects: Sequence[Effect]) -> None:
        """Check commits."""
        for effect in effects:
            if isinstance(effect, Commit):
                self._look(node, effect.high_watermark)

    def _look(self, node: NodeView, offset: Offset) -> None:
        state, (epoch, highest) = node.state, self._committed
        if not isinstance(state, Leader) or node.node_id not in self._started:
            if offset > highest:
                self.fail(f"{node.node_id} commits up to {offset}, leaders only up to {highest}")
            return
        if offset <= state.epoch_start_offset:
            start = f"its epoch {state.epoch} starts at {state.epoch_start_offset}"
            self.fail(f"{node.node_id} commits up to {offset}, but {start}")
        if state.epoch > epoch and offset < highest:
            self.fail(f"{node.node_id} commits up to {offset}, the leader of {epoch} up to {highest}")
        self._committed = (max(epoch, state.epoch), max(highest, offset))


class LeadersOnlyAppend(Invariant):
    """A leader never truncates its own log."""

    watches = (Truncate,)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Check truncations."""
        del nodes
        if isinstance(node.state, Leader):
            self.fail(f"leader {node.node_id} asks for {effect}")


class DurableStays(Invariant):
    """What was durable once is there after any crash, unless the node truncated it or put a snapshot in its
    place, or its disk lost it.

    A start puts one there, too: node 1 has 895 offsets, which are not those of its leader, downloads a
    snapshot at 812, and dies once that has its name, before it installs it. Its next start does.
    """

    watches = (InstallSnapshot, Truncate, WriteSnapshot)

    def __init__(self) -> None:
        self._ends: dict[NodeId, Offset] = {}
        self._downloaded: dict[NodeId, Offset] = {}
        """The end of the last snapshot that a node has downloaded as a whole."""

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Record truncations, and snapshots in the place of the log."""
        del nodes
        before = self._ends.get(node.node_id, 0)
        if isinstance(effect, WriteSnapshot):
            if effect.position + len(effect.data) == effect.size_bytes:
                self._downloaded[node.node_id] = effect.id.offset
        elif isinstance(effect, Truncate):
            self._ends[node.node_id] = min(before, effect.end_offset)
        elif isinstance(effect, InstallSnapshot):
            self._ends[node.node_id] = min(before, effect.id.offset)  # a crash may leave the old log

    def on_node(self, node: NodeView) -> None:
        """Compare with the last end."""
        before, end_offset = self._ends.get(node.node_id, 0), node.durable_end_offset
        if end_offset < before and end_offset != self._downloaded.get(node.node_id):
            self.fail(f"{node.node_id} had {before} offsets durable, and has {end_offset}")
        self._ends[node.node_id] = node.durable_end_offset

    def forget(self, node: NodeView) -> None:
        """Forget what the disk has lost."""
        self._ends.pop(node.node_id, None)


class AcknowledgedIsDurable(Invariant):
    """Only what a majority of the voters has made durable is acknowledged, and only a durable position is
    claimed.

    What a voter had made durable before its disk was lost counts: a leader cannot know yet, and losing one
    disk is what the others are there for.

    An epoch may be claimed before its first record is there: node 3 is elected in epoch 2 at offset 12 and is
    deposed within the same turn, by votes that waited while it stood still. From then on its log ends "in
    epoch 2 at 12" (as Kafka's does), and only its log up to there may say so.
    """

    watches = (AppendDone, AssignEpoch, Commit, Send)
    carrying = (m.FetchRequest, m.VoteRequest)

    def __init__(self) -> None:
        self._lost: dict[NodeId, set[tuple[Offset, int]]] = {}
        self._proved: tuple[NodeId, Epoch, Offset] = (-1, -1, -1)
        """The offset up to which the newest leader's log is known to stand on a majority."""
        self._assigned: dict[tuple[NodeId, Epoch], tuple[Offset, int | None]] = {}
        """The offsets at which the epochs of leaders began, and the digest of the log up to there."""

    def forget(self, node: NodeView) -> None:
        """Keep what a disk holds durably that is about to be lost."""
        marks = self._lost.setdefault(node.node_id, set())
        marks |= {(m.end_offset, m.digest) for m in node.log if m.end_offset <= node.durable_end_offset}

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Check acknowledgements, commits of leaders, fetches and vote requests."""
        match effect:
            case AssignEpoch(epoch=epoch, start_offset=start_offset):
                self._assigned[node.node_id, epoch] = (start_offset, node.digest_at(start_offset))
            case AppendDone(error=ErrorCode.NONE, end_offset=end_offset):
                self._need_majority(node, self._boundary(node, end_offset), nodes)
            case Commit(high_watermark=high_watermark) if isinstance(node.state, Leader):
                self._need_majority(node, high_watermark, nodes)
            case Send(request=m.FetchRequest() as request):
                asked = request.topics[0].partitions[0]
                self._need_own(node, "fetches at", asked.fetch_offset, asked.last_fetched_epoch)
            case Send(request=m.VoteRequest() as request):
                claimed = request.topics[0].partitions[0]
                self._need_own(node, "campaigns with", claimed.last_offset, claimed.last_offset_epoch)
            case _:
                pass

    def _need_own(self, node: NodeView, action: str, offset: Offset, epoch: Epoch) -> None:
        """Check that a position which a node claims is durable, and is of the claimed epoch."""
        if offset > node.durable_end_offset:
            self.fail(f"{node.node_id} {action} {offset}, durable is {node.durable_end_offset}")
        mark = node.mark_from(offset) if offset else None
        if mark is None or mark.end_offset != offset or mark.epoch == epoch:
            return
        if self._assigned.get((node.node_id, epoch)) != (offset, mark.digest):
            self.fail(f"{node.node_id} {action} {offset} of epoch {epoch}, its log says {mark.epoch}")

    def _boundary(self, node: NodeView, offset: Offset) -> Offset:
        mark = node.mark_from(offset)
        if mark is None:
            self.fail(f"{node.node_id} acknowledges {offset}, which its log does not reach")
            return offset
        return mark.end_offset

    def _need_majority(self, leader: NodeView, offset: Offset, nodes: Mapping[NodeId, NodeView]) -> None:
        epoch = leader.state.epoch if leader.state is not None else -1
        who, when, proved = self._proved
        if (who, when) == (leader.node_id, epoch) and offset <= proved:
            return
        digest = leader.digest_at(offset)
        voters = holders = 0
        for node in nodes.values():
            if node.is_voter:
                voters += 1
                holders += self._holds(node, offset, digest)
        if not is_majority(holders, voters):
            self.fail(
                f"{leader.node_id} calls {offset} committed, only {holders} of {voters} hold it durably"
            )
        self._proved = (leader.node_id, epoch, offset)

    def _holds(self, node: NodeView, offset: Offset, digest: int | None) -> bool:
        if node.holds(offset, digest):
            return True
        return (offset, digest) in self._lost.get(node.node_id, ())


class StateMachinesAgree(Invariant):
    """State machines that applied the same offsets hold the same, and none applies what is not committed."""

    def __init__(self) -> None:
        self._digests: dict[Offset, Hashable] = {}

    def on_applied(self, node: NodeView, offset: Offset, digest: Hashable) -> None:
        """Compare with the node that was first at this offset."""
        if offset > node.high_watermark:
            self.fail(f"{node.node_id} applies up to {offset}, {node.high_watermark} is committed")
        if self._digests.setdefault(offset, digest) != digest:
            self.fail(f"{node.node_id} holds another state than others at offset {offset}")
