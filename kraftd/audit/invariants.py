"""What must hold in a quorum after every single event, whatever fails: as classes that watch.

A watcher is shown the members as they are (`NodeView`) after every event, and every effect as it is carried
out. It raises `Violation` at the first event after which its promise does not hold. Whoever drives members
(stories, property tests, the simulator) feeds an `Auditor`, which holds them all.

Follows: Raft figure 3 and SIMX-08 to SIMX-14; D-01, D-02, D-06, D-07.
"""

from collections.abc import Mapping, Sequence

import msgspec

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft.effects import AppendDone, Commit, Effect, PersistElection, Reply, Send, Truncate
from kraftd.raft.states import Candidate, EpochState, Leader, Prospective
from kraftd.types import NO_NODE, Election, Epoch, NodeId, Offset, ReplicaKey


class Violation(AssertionError):  # noqa: N818 - the word for it
    """A promise of the quorum was broken; the text says which and by whom."""


class Mark(msgspec.Struct, frozen=True):
    """A batch in a member's log. `digest` covers everything from the log's start to the batch's end."""

    end_offset: Offset
    epoch: Epoch
    digest: int


class NodeView(msgspec.Struct):
    """A member as the driver sees it: its process, and what of it would survive a power cut."""

    node_id: NodeId
    is_voter: bool
    is_whole: bool
    durable_election: Election
    log: Sequence[Mark]
    durable_end_offset: Offset
    state: EpochState | None = None
    """None while the process is down."""
    high_watermark: Offset = -1

    def digest_at(self, offset: Offset) -> int | None:
        """The digest of the log up to a batch boundary; None if the log does not reach or cut there."""
        if offset == 0:
            return 0
        low, high = 0, len(self.log)
        while low < high:
            middle = (low + high) // 2
            if self.log[middle].end_offset < offset:
                low = middle + 1
            else:
                high = middle
        found = self.log[low] if low < len(self.log) else None
        return found.digest if found is not None and found.end_offset == offset else None


class Invariant:
    """A promise that is watched. Override what is needed."""

    def on_state(self, nodes: Mapping[NodeId, NodeView]) -> None:
        """An event was handled and its effects were carried out."""

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """An effect is about to be carried out; what comes before it has been."""

    def on_effects(self, node: NodeView, effects: Sequence[Effect]) -> None:
        """A member handed over the effects of one event."""

    def fail(self, text: str) -> None:
        """Say that the promise was broken."""
        raise Violation(f"{type(self).__name__}: {text}")


class OneLeaderAnEpoch(Invariant):
    """Election safety: no two members lead, or are durably known to lead, the same epoch."""

    def __init__(self) -> None:
        self._leaders: dict[Epoch, NodeId] = {}

    def on_state(self, nodes: Mapping[NodeId, NodeView]) -> None:
        """Compare who leads with who led."""
        for node in nodes.values():
            known = [node.durable_election] + ([node.state.election] if node.state else [])
            for election in known:
                if election.leader_id == NO_NODE:
                    continue
                leader_id = self._leaders.setdefault(election.epoch, election.leader_id)
                if leader_id != election.leader_id:
                    self.fail(f"epoch {election.epoch} is led by {leader_id} and {election.leader_id}")


class OneVoteAnEpoch(Invariant):
    """A voter's vote in an epoch is durable before it is told, and never changes."""

    def __init__(self) -> None:
        self._votes: dict[tuple[NodeId, Epoch], NodeId] = {}

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Watch granted votes and candidacies leave."""
        del nodes
        match effect:
            case Reply(response=m.VoteResponse() as response) if response.topics:
                data = response.topics[0].partitions[0]
                if data.vote_granted and node.durable_election.epoch == data.leader_epoch:
                    self._note(node, data.leader_epoch, node.durable_election.voted)
            case Send(request=m.VoteRequest() as request):
                asked = request.topics[0].partitions[0]
                if not asked.pre_vote:
                    durable = node.durable_election
                    if durable.epoch != asked.replica_epoch or durable.voted is None:
                        self.fail(f"{node.node_id} campaigns in {asked.replica_epoch}, durable is {durable}")
                    self._note(node, asked.replica_epoch, durable.voted)
            case _:
                pass

    def _note(self, node: NodeView, epoch: Epoch, voted: ReplicaKey | None) -> None:
        if voted is None:
            return  # a pre-vote granted in the current epoch promises nothing
        before = self._votes.setdefault((node.node_id, epoch), voted.id)
        if before != voted.id:
            self.fail(f"{node.node_id} voted for {before} and {voted.id} in epoch {epoch}")

    def forget(self, node_id: NodeId) -> None:
        """The member lost its disk."""
        self._votes = {key: voted for key, voted in self._votes.items() if key[0] != node_id}


class EpochsNeverGoBack(Invariant):
    """A member's epoch rises only, in memory and on disk, and memory never runs ahead of the disk."""

    def __init__(self) -> None:
        self._epochs: dict[NodeId, Epoch] = {}

    def on_state(self, nodes: Mapping[NodeId, NodeView]) -> None:
        """Compare with the last look."""
        for node in nodes.values():
            durable = node.durable_election.epoch
            if durable < self._epochs.get(node.node_id, 0):
                self.fail(f"{node.node_id} went back from {self._epochs[node.node_id]} to {durable}")
            self._epochs[node.node_id] = durable
            if node.state is not None and node.state.epoch > durable:
                self.fail(f"{node.node_id} acts in epoch {node.state.epoch}, but {durable} is durable")

    def forget(self, node_id: NodeId) -> None:
        """The member lost its disk."""
        self._epochs.pop(node_id, None)


class OnePromiseAnEvent(Invariant):
    """At most one election is persisted an event (D-02)."""

    def on_effects(self, node: NodeView, effects: Sequence[Effect]) -> None:
        """Count."""
        if sum(isinstance(effect, PersistElection) for effect in effects) > 1:
            self.fail(f"{node.node_id} persists its election twice in one event")


class HighWatermarkNeverGoesBack(Invariant):
    """What a member knows to be committed stays committed, as long as its process lives."""

    def __init__(self) -> None:
        self._known: dict[NodeId, Offset] = {}

    def on_state(self, nodes: Mapping[NodeId, NodeView]) -> None:
        """Compare with the last look."""
        for node in nodes.values():
            if node.state is None:
                self._known.pop(node.node_id, None)
                continue
            known = self._known.get(node.node_id, -1)
            if node.high_watermark < known:
                self.fail(f"{node.node_id} went back from {known} to {node.high_watermark}")
            self._known[node.node_id] = node.high_watermark


class LogsMatch(Invariant):
    """If two logs hold a batch of one epoch at one offset, they are the same up to there."""

    def __init__(self) -> None:
        self._digests: dict[tuple[Offset, Epoch], int] = {}

    def on_state(self, nodes: Mapping[NodeId, NodeView]) -> None:
        """Look at the batches that came since the last look."""
        for node in nodes.values():
            for mark in reversed(node.log):
                place = (mark.end_offset, mark.epoch)
                known = self._digests.get(place)
                if known == mark.digest:
                    break  # the digest covers everything before it
                if known is not None:
                    self.fail(f"{node.node_id} holds another log up to {mark.end_offset} of {mark.epoch}")
                self._digests[place] = mark.digest


class CommittedStays(Invariant):
    """State machine safety and leader completeness.

    What one member learned to be committed, every other learns to be the same; every later leader has it; and
    no member cuts below what it knows to be committed.
    """

    def __init__(self) -> None:
        self._committed: dict[Offset, int] = {0: 0}
        self._newest: tuple[Offset, Epoch] = (0, 0)
        self._leaders: set[tuple[NodeId, Epoch]] = set()

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Watch commits and truncations."""
        del nodes
        if isinstance(effect, Truncate) and effect.end_offset < node.high_watermark:
            self.fail(f"{node.node_id} cuts at {effect.end_offset} below {node.high_watermark}")
        if isinstance(effect, Commit):
            offset = effect.high_watermark
            digest = node.digest_at(offset)
            if digest is None:
                self.fail(f"{node.node_id} commits up to {offset}, where its log has no boundary")
                return
            if self._committed.setdefault(offset, digest) != digest:
                self.fail(f"{node.node_id} commits another log up to {offset}")
            if offset > self._newest[0] and node.state is not None:
                self._newest = (offset, node.state.epoch)

    def on_state(self, nodes: Mapping[NodeId, NodeView]) -> None:
        """Look at every new leader once."""
        offset, epoch = self._newest
        for node in nodes.values():
            state = node.state
            if not isinstance(state, Leader) or state.epoch < epoch:
                continue
            if (node.node_id, state.epoch) in self._leaders:
                continue
            self._leaders.add((node.node_id, state.epoch))
            if node.digest_at(offset) != self._committed[offset]:
                self.fail(f"leader {node.node_id} of epoch {state.epoch} lacks what is committed at {offset}")


class AcknowledgedIsDurable(Invariant):
    """Nothing is acknowledged that a majority of the voters has not made durable; nor is a position.

    What a voter had made durable before its disk was lost counts: a leader cannot know yet, and losing one
    disk is what the others are there for.
    """

    def __init__(self) -> None:
        self._lost: dict[NodeId, tuple[Offset, frozenset[tuple[Offset, int]]]] = {}

    def forget(self, node: NodeView) -> None:
        """The member is about to lose its disk."""
        marks = frozenset((mark.end_offset, mark.digest) for mark in node.log)
        self._lost[node.node_id] = (node.durable_end_offset, marks)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Watch acknowledgements, commits of leaders, and fetches leave."""
        match effect:
            case AppendDone(error=ErrorCode.NONE, end_offset=end_offset):
                self._need_majority(node, self._boundary(node, end_offset), nodes)
            case Commit(high_watermark=high_watermark) if isinstance(node.state, Leader):
                self._need_majority(node, high_watermark, nodes)
            case Send(request=m.FetchRequest() as request):
                position = request.topics[0].partitions[0].fetch_offset
                if position > node.durable_end_offset:
                    self.fail(f"{node.node_id} fetches at {position}, durable is {node.durable_end_offset}")
            case _:
                pass

    def _boundary(self, node: NodeView, offset: Offset) -> Offset:
        return next(mark.end_offset for mark in node.log if mark.end_offset >= offset)

    def _need_majority(self, leader: NodeView, offset: Offset, nodes: Mapping[NodeId, NodeView]) -> None:
        voters = [node for node in nodes.values() if node.is_voter]
        digest = leader.digest_at(offset)
        holders = [
            node.node_id
            for node in voters
            if (node.durable_end_offset >= offset and node.digest_at(offset) == digest)
            or self._held_once(node.node_id, offset, digest)
        ]
        if len(holders) <= len(voters) // 2:
            self.fail(f"{leader.node_id} calls {offset} committed, only {holders} hold it durably")

    def _held_once(self, node_id: NodeId, offset: Offset, digest: int | None) -> bool:
        durable_end_offset, marks = self._lost.get(node_id, (-1, frozenset()))
        return durable_end_offset >= offset and (offset, digest) in marks


class OnlyVotersCampaign(Invariant):
    """Observers, and voters whose promises are in doubt, neither campaign nor lead (D-06)."""

    def on_state(self, nodes: Mapping[NodeId, NodeView]) -> None:
        """Look at the roles."""
        for node in nodes.values():
            campaigns = isinstance(node.state, Prospective | Candidate | Leader)
            if campaigns and not (node.is_voter and node.is_whole):
                self.fail(f"{node.node_id} is {node.state}")


class Auditor:
    """All invariants at once."""

    def __init__(self) -> None:
        self._votes = OneVoteAnEpoch()
        self._epochs = EpochsNeverGoBack()
        self._durable = AcknowledgedIsDurable()
        self.invariants: tuple[Invariant, ...] = (
            OneLeaderAnEpoch(),
            self._votes,
            self._epochs,
            OnePromiseAnEvent(),
            HighWatermarkNeverGoesBack(),
            LogsMatch(),
            CommittedStays(),
            self._durable,
            OnlyVotersCampaign(),
        )

    def forget(self, node: NodeView) -> None:
        """A member is about to lose its disk. What it promised there cannot bind it any more; it only keeps
        it from being counted.
        """
        self._votes.forget(node.node_id)
        self._epochs.forget(node.node_id)
        self._durable.forget(node)

    def on_state(self, nodes: Mapping[NodeId, NodeView]) -> None:
        """An event was handled and its effects were carried out."""
        for invariant in self.invariants:
            invariant.on_state(nodes)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """An effect is about to be carried out."""
        for invariant in self.invariants:
            invariant.on_effect(node, effect, nodes)

    def on_effects(self, node: NodeView, effects: Sequence[Effect]) -> None:
        """A member handed over the effects of one event."""
        for invariant in self.invariants:
            invariant.on_effects(node, effects)
