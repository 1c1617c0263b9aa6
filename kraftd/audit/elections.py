"""What must hold of epochs, votes and leaders, whatever fails.

Each class is one invariant (see `invariant` for when it is called). Not here: what the logs hold
(`agreement`).

Follows: Raft figure 3, SIMX-09, SIMX-11; D-01, D-02, D-06, D-07, D-13.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from kraftd.audit.invariant import MESSAGE_OF, Invariant, NodeView
from kraftd.protocol import messages as m
from kraftd.raft.effects import (
    AppendDone,
    Effect,
    PersistElection,
    ReadDone,
    Reply,
    ResignDone,
    Send,
    VoteAnswered,
)
from kraftd.raft.epoch_states import Candidate, Leader, Prospective
from kraftd.raft.events import Token
from kraftd.types import NO_NODE, Election, Epoch, NodeId, ReplicaKey


class OneLeaderAnEpoch(Invariant):
    """Election safety: no two nodes lead, or are durably known to lead, the same epoch."""

    def __init__(self) -> None:
        self._leaders: dict[Epoch, NodeId] = {}

    def on_node(self, node: NodeView) -> None:
        """Compare the leader of each epoch with those seen before."""
        self._record(node.durable_election)
        if node.state is not None:
            self._record(node.state.election)

    def _record(self, election: Election) -> None:
        if election.leader_id == NO_NODE:
            return
        leader_id = self._leaders.setdefault(election.epoch, election.leader_id)
        if leader_id != election.leader_id:
            self.fail(f"epoch {election.epoch} is led by {leader_id} and {election.leader_id}")


class OneVoteAnEpoch(Invariant):
    """A voter's vote in an epoch is durable before it is sent, and never changes."""

    watches = (VoteAnswered, Reply, Send)
    carrying = (m.VoteRequest, m.VoteResponse)

    def __init__(self) -> None:
        self._votes: dict[tuple[NodeId, Epoch], NodeId] = {}
        self._cast: dict[NodeId, VoteAnswered] = {}
        """The decision about the next vote response, which itself does not say if it is of a pre-vote."""

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Check granted votes and vote requests."""
        del nodes
        match effect:
            case VoteAnswered():
                self._cast[node.node_id] = effect
            case Reply(response=m.VoteResponse() as response) if response.topics:
                data = response.topics[0].partitions[0]
                durable = node.durable_election
                cast = self._cast.pop(node.node_id, None)
                if cast is not None and not cast.pre_vote and data.leader_epoch > durable.epoch:
                    self.fail(f"{node.node_id} answers in epoch {data.leader_epoch}, durable is {durable}")
                if data.vote_granted and cast is not None and not cast.pre_vote:
                    if durable.voted is None or durable.voted.id != cast.candidate:
                        self.fail(f"{node.node_id} votes for {cast.candidate}, durable is {durable}")
                    self._record(node, data.leader_epoch, durable.voted)
            case Send(request=m.VoteRequest() as request):
                asked = request.topics[0].partitions[0]
                if not asked.pre_vote:
                    durable = node.durable_election
                    if durable.epoch != asked.replica_epoch or durable.voted is None:
                        self.fail(f"{node.node_id} campaigns in {asked.replica_epoch}, durable is {durable}")
                    self._record(node, asked.replica_epoch, durable.voted)
            case _:
                pass

    def _record(self, node: NodeView, epoch: Epoch, voted: ReplicaKey | None) -> None:
        if voted is None:
            return
        before = self._votes.setdefault((node.node_id, epoch), voted.id)
        if before != voted.id:
            self.fail(f"{node.node_id} voted for {before} and {voted.id} in epoch {epoch}")

    def forget(self, node: NodeView) -> None:
        """Forget the votes of a lost disk: the node is not counted before it rejoins."""
        self._votes = {key: voted for key, voted in self._votes.items() if key[0] != node.node_id}


class ElectionStays(Invariant):
    """Within an epoch, the leader and vote that a node has durably are never changed or dropped (D-07)."""

    def __init__(self) -> None:
        self._known: dict[NodeId, Election] = {}

    def on_node(self, node: NodeView) -> None:
        """Compare with the last election."""
        election = node.durable_election
        known = self._known.get(node.node_id)
        if known is election:
            return
        if known is not None and known.epoch == election.epoch:
            voted_for = known.voted.id if known.voted else None
            votes_for = election.voted.id if election.voted else None
            if voted_for not in (None, votes_for):
                self.fail(f"{node.node_id} changed its vote of {known} to {election}")
            if known.leader_id not in (NO_NODE, election.leader_id):
                self.fail(f"{node.node_id} changed the leader of {known} to {election}")
        self._known[node.node_id] = election

    def forget(self, node: NodeView) -> None:
        """Forget what the disk has lost."""
        self._known.pop(node.node_id, None)


class EpochsNeverGoBack(Invariant):
    """A node's epoch only rises, in memory and on disk, and the two are the same after each event."""

    def __init__(self) -> None:
        self._epochs: dict[NodeId, Epoch] = {}

    def on_node(self, node: NodeView) -> None:
        """Compare with the last epoch."""
        durable = node.durable_election.epoch
        if durable < self._epochs.get(node.node_id, 0):
            self.fail(f"{node.node_id} went back from {self._epochs[node.node_id]} to {durable}")
        self._epochs[node.node_id] = durable
        if node.state is not None and node.state.epoch != durable:
            self.fail(f"{node.node_id} acts in epoch {node.state.epoch}, but {durable} is durable")

    def forget(self, node: NodeView) -> None:
        """Forget what the disk has lost."""
        self._epochs.pop(node.node_id, None)


_STATED_EPOCHS: Mapping[type[object], tuple[Callable[[Any], Sequence[Any]], Callable[[Any], Epoch]]] = {
    m.FetchRequest: (attrgetter("topics"), attrgetter("current_leader_epoch")),
    m.FetchResponse: (attrgetter("responses"), attrgetter("current_leader.leader_epoch")),
    m.FetchSnapshotRequest: (attrgetter("topics"), attrgetter("current_leader_epoch")),
    m.FetchSnapshotResponse: (attrgetter("topics"), attrgetter("current_leader.leader_epoch")),
    m.VoteRequest: (attrgetter("topics"), attrgetter("replica_epoch")),
    m.BeginQuorumEpochRequest: (attrgetter("topics"), attrgetter("leader_epoch")),
    m.EndQuorumEpochRequest: (attrgetter("topics"), attrgetter("leader_epoch")),
    m.BeginQuorumEpochResponse: (attrgetter("topics"), attrgetter("leader_epoch")),
    m.EndQuorumEpochResponse: (attrgetter("topics"), attrgetter("leader_epoch")),
}
"""The topics of each message whose sender claims to be in an epoch, and that epoch as a partition has it."""


class EpochIsDurableBeforeUse(Invariant):
    """No message carries an epoch as its sender's own before that epoch is durable (D-02)."""

    watches = (Reply, Send)
    carrying = tuple(_STATED_EPOCHS)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Check messages that are sent."""
        del nodes
        message = MESSAGE_OF[type(effect)](effect)
        epoch = stated_epoch(message)
        if epoch > node.durable_election.epoch:
            durable = node.durable_election
            self.fail(
                f"{node.node_id} speaks of epoch {epoch} in {type(message).__name__}, but has {durable}"
            )


def stated_epoch(message: object) -> Epoch:
    """Return the epoch that a message's sender claims to be in; -1 if it claims none.

    A response to a pre-vote carries the requester's epoch; responses to votes are checked by
    `OneVoteAnEpoch`.
    """
    stated = _STATED_EPOCHS.get(type(message))
    if stated is None:
        return -1
    topics_of, epoch_of = stated
    topics = topics_of(message)
    return epoch_of(topics[0].partitions[0]) if len(topics) == 1 else -1


class OneElectionAnEvent(Invariant):
    """At most one election is persisted an event (D-02)."""

    def on_effects(self, node: NodeView, effects: Sequence[Effect]) -> None:
        """Count the elections that are persisted."""
        if len(effects) > 1 and [type(effect) for effect in effects].count(PersistElection) > 1:
            self.fail(f"{node.node_id} persists its election twice in one event")


class OnlyVotersCampaign(Invariant):
    """Observers, and voters that are not whole, neither campaign nor lead (D-06)."""

    def on_node(self, node: NodeView) -> None:
        """Check the state."""
        if node.is_voter and node.is_whole:
            return
        if isinstance(node.state, Prospective | Candidate | Leader):
            self.fail(f"{node.node_id} is {node.state}")


class OnlyWholeNodesCount(Invariant):
    """A voter that is not whole neither votes nor acknowledges: it fetches without its id (D-06)."""

    watches = (Reply, Send)
    carrying = (m.VoteResponse, m.FetchRequest, m.FetchSnapshotRequest)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Check votes and fetches."""
        del nodes
        if node.is_whole or not node.is_voter:
            return
        match effect:
            case Reply(response=m.VoteResponse() as response) if response.topics:
                if response.topics[0].partitions[0].vote_granted:
                    self.fail(f"{node.node_id} is not whole, and votes")
            case Send(request=m.FetchRequest() as request) if request.replica_state.replica_id >= 0:
                self.fail(f"{node.node_id} is not whole, and fetches as {request.replica_state.replica_id}")
            case Send(request=m.FetchSnapshotRequest() as request) if request.replica_id >= 0:
                self.fail(f"{node.node_id} is not whole, and loads a snapshot as {request.replica_id}")
            case _:
                pass


class OneOutcomeACall(Invariant):
    """No caller that waits for an outcome is given two (D-13)."""

    watches = (AppendDone, ReadDone, ResignDone)

    def __init__(self) -> None:
        self._answered: dict[NodeId, set[tuple[type[Effect], Token]]] = {}

    def on_node(self, node: NodeView) -> None:
        """Forget a process that ended: a new one gives out new tokens."""
        if node.state is None:
            self._answered.pop(node.node_id, None)

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """Check outcomes."""
        del nodes
        answered = self._answered.setdefault(node.node_id, set())
        key = (type(effect), effect.token)  # type: ignore[union-attr]  # all that it watches have one
        if key in answered:
            self.fail(f"{node.node_id} answers twice: {effect}")
        answered.add(key)


class NoBusyLoop(Invariant):
    """After a poll there is time until the next one (D-01)."""

    def on_polled(self, node: NodeView, now_ms: int, wake_at_ms: int) -> None:
        """Compare the two times."""
        if wake_at_ms <= now_ms:
            self.fail(f"{node.node_id} wants to be polled at {wake_at_ms}, and it is {now_ms}")
