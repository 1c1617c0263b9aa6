"""The states of a raft node within an epoch, and which may follow which.

One frozen class a state, with only what the state needs. Leader and vote of an epoch are fields of every
state in which they may be known, because they pass through each change of state within the epoch (D-07);
`election` is what must be durable before the state may act. What changes faster than the epoch is mutable
and lives elsewhere: a leader's in `leader_state`, a follower's in
`follower_state`. Observer is not a state
but a lookup in the voter set.

`TRANSITIONS` is the one table of the moves and of how far the epoch goes with each. `check_move`, through
which every transition passes, reads it, and so do the tests that draw it and that try every pair at every
epoch. A move that is not in it is a bug in this program, never an error of a peer (that is checked before):
it raises `InvariantError`, and nothing has changed yet when it does.

Follows: QuorumState of Kafka (QS-01 to QS-24), with Prospective from KIP-996; D-07, D-08, D-09.
Differs: a resigned leader keeps its vote, and never follows within the epoch that it led; a follower knows
whether it is in touch with its leader, which decides about pre-votes (D-08); more endpoints for the same
leader are not a change of state.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from kraftd.errors import InvariantError
from kraftd.types import NEVER_MS, NO_NODE, Election, Epoch, NodeId, Offset, ReplicaKey, majority_of


class BallotResult(Enum):
    """The result of a ballot so far."""

    OPEN = "open"
    WON = "won"
    LOST = "lost"


class Ballot(msgspec.Struct, frozen=True):
    """The voters asked for a vote or a pre-vote, and their responses.

    Invariants, checked on construction:
        No voter both granted and refused.
        Only voters are counted.
    """

    voters: frozenset[NodeId]
    granted: frozenset[NodeId]
    refused: frozenset[NodeId] = frozenset()
    unreachable: frozenset[NodeId] = frozenset()
    """Voters that could not be reached: the ballot does not wait for them, but counts their responses (D-08).
    """

    def __post_init__(self) -> None:
        if self.granted & self.refused or not (self.granted | self.refused) <= self.voters:
            raise InvariantError(f"{self} counts a vote twice, or a stranger's")

    @property
    def result(self) -> BallotResult:
        """WON with a majority of the voters; LOST once those still expected to answer cannot make one."""
        majority = majority_of(len(self.voters))
        if len(self.granted) >= majority:
            return BallotResult.WON
        if len(self.voters - self.refused - self.unreachable) < majority:
            return BallotResult.LOST
        return BallotResult.OPEN

    @property
    def outstanding(self) -> frozenset[NodeId]:
        """The voters that have not answered."""
        return self.voters - self.granted - self.refused

    def count(self, voter: NodeId, *, granted: bool) -> "Ballot":
        """Return the ballot with one more response. A second response of a voter, and any of another node,
        changes nothing (VOTE-09, VOTE-10).
        """
        if voter not in self.outstanding:
            return self
        unreachable = self.unreachable - {voter}
        if granted:
            return Ballot(self.voters, self.granted | {voter}, self.refused, unreachable)
        return Ballot(self.voters, self.granted, self.refused | {voter}, unreachable)

    def mark_unreachable(self, voter: NodeId) -> "Ballot":
        """Return the ballot without waiting for a voter that cannot be reached."""
        if voter not in self.outstanding:
            return self
        return Ballot(self.voters, self.granted, self.refused, self.unreachable | {voter})


class Unattached(msgspec.Struct, frozen=True):
    """Waits for a leader, for a request for its vote, or for its election timeout."""

    epoch: Epoch
    deadline_ms: int
    leader_id: NodeId = NO_NODE
    """The leader of the epoch if it is known and not followed: it has no endpoint, it was this node before a
    restart, or its fetch timeout is over and the pre-votes ended without a word of it. No vote is given then
    (QS-04).
    """
    voted: ReplicaKey | None = None

    @property
    def election(self) -> Election:
        """What must be durable before this state may act."""
        return Election(self.epoch, self.leader_id, self.voted)


class Prospective(msgspec.Struct, frozen=True):
    """Asks the voters whether they would vote for it, before it opens a new epoch (KIP-996)."""

    epoch: Epoch
    ballot: Ballot
    started_at_ms: int
    deadline_ms: int
    fetch_deadline_ms: int = 0
    """The fetch deadline of the leader that it followed before; 0 if there was none (D-08)."""
    leader_id: NodeId = NO_NODE
    voted: ReplicaKey | None = None
    round: int = 1
    """The number of the round; only responses to it count."""
    ask_at_ms: int = 0
    """When the next round begins, after the ballot of the last one was lost; else 0."""
    leader_lives: bool = False
    """Whether the leader of this epoch refused a pre-vote itself: then it is followed again once they end."""

    @property
    def election(self) -> Election:
        """What must be durable before this state may act: nothing new, a pre-vote promises nothing."""
        return Election(self.epoch, self.leader_id, self.voted)


class Candidate(msgspec.Struct, frozen=True):
    """Asks every voter for its vote in `epoch`, having voted for itself."""

    epoch: Epoch
    me: ReplicaKey
    ballot: Ballot
    started_at_ms: int
    deadline_ms: int
    attempt: int = 1
    retry_at_ms: int = NEVER_MS
    """Set once the election is lost: when the next one begins. The vote stays until then (VOTE-07)."""

    def __post_init__(self) -> None:
        if self.me.id not in self.ballot.voters & self.ballot.granted:
            raise InvariantError(f"{self} does not vote for itself")

    @property
    def leader_id(self) -> NodeId:
        """Nobody leads this epoch yet."""
        return NO_NODE

    @property
    def election(self) -> Election:
        """What must be durable before this state may act."""
        return Election(self.epoch, self.leader_id, self.me)


class Follower(msgspec.Struct, frozen=True):
    """Fetches from the leader of its epoch."""

    epoch: Epoch
    leader_id: NodeId
    fetch_deadline_ms: int
    voted: ReplicaKey | None = None
    in_touch: bool = False
    """Whether a good fetch came since the leader was found or last lost: no pre-votes then (D-08)."""
    campaign_at_ms: int = NEVER_MS
    """When to ask for pre-votes, after the leader is lost or has ended its epoch."""
    epoch_ended: bool = False
    """Whether the leader sent EndQuorumEpoch: its connection is expected to close (D-09)."""
    ballot: Ballot | None = None
    """The pre-votes asked for because the leader is suspected; a good fetch response ends them (D-40)."""
    round: int = 0
    """The number of their round; only responses to it count."""
    started_at_ms: int = 0
    """When it began."""

    @property
    def election(self) -> Election:
        """What must be durable before this state may act."""
        return Election(self.epoch, self.leader_id, self.voted)

    @property
    def deadline_ms(self) -> int:
        """When the leader is missed, or, once it was lost or ended its epoch, when to ask for pre-votes.

        A good fetch response puts both off, but for one that comes after the epoch was ended. An observer
        only begins to look for another leader then.
        """
        return self.fetch_deadline_ms if self.campaign_at_ms == NEVER_MS else self.campaign_at_ms


class Leader(msgspec.Struct, frozen=True):
    """Leads `epoch`, whose first record stands at `epoch_start_offset`."""

    epoch: Epoch
    me: ReplicaKey
    epoch_start_offset: Offset
    granted: frozenset[NodeId]

    @property
    def leader_id(self) -> NodeId:
        """This node."""
        return self.me.id

    @property
    def election(self) -> Election:
        """What must be durable before this state may act: it leads, and it has voted for itself."""
        return Election(self.epoch, self.leader_id, self.me)


class Resigned(msgspec.Struct, frozen=True):
    """Led `epoch` and resigned: sends EndQuorumEpoch, and gives no vote in that epoch (QS-07)."""

    epoch: Epoch
    me: ReplicaKey
    deadline_ms: int
    voted: ReplicaKey | None = None
    successors: tuple[ReplicaKey, ...] = ()
    """The preferred successors, the best first (EQE-10)."""
    acknowledged: frozenset[NodeId] = frozenset()
    """The voters that have acknowledged EndQuorumEpoch (EQE-08)."""

    @property
    def leader_id(self) -> NodeId:
        """This node: it led this epoch."""
        return self.me.id

    @property
    def election(self) -> Election:
        """What is durable already: a leader that restarts begins as resigned (QS-16)."""
        return Election(self.epoch, self.leader_id, self.voted)


EpochState: TypeAlias = Unattached | Prospective | Candidate | Follower | Leader | Resigned


def state_name(state: EpochState | type[EpochState]) -> str:
    """Return the state's name, as logs and traces print it."""
    return (state if isinstance(state, type) else type(state)).__name__.lower()


class Step(Enum):
    """How far a transition may raise the epoch."""

    SAME = "same"
    NEXT = "next"
    HIGHER = "higher"
    EITHER = "either"

    def allows(self, source: Epoch, target: Epoch) -> bool:
        """Whether the epoch may go from `source` to `target`."""
        match self:
            case Step.SAME:
                return target == source
            case Step.NEXT:
                return target == source + 1
            case Step.HIGHER:
                return target > source
            case Step.EITHER:
                return target >= source


EpochStateType: TypeAlias = type[EpochState]

TRANSITIONS: Mapping[tuple[EpochStateType, EpochStateType], Step] = MappingProxyType(
    {
        (Unattached, Unattached): Step.EITHER,  # higher epoch seen; vote given; or log damaged
        (Unattached, Prospective): Step.SAME,  # election timeout
        (Unattached, Follower): Step.EITHER,  # leader found
        (Prospective, Unattached): Step.EITHER,  # higher epoch; pre-votes end; vote given; damage
        (Prospective, Candidate): Step.NEXT,  # a majority would elect it
        (Prospective, Follower): Step.EITHER,  # leader found, or found to be still there
        (Candidate, Unattached): Step.EITHER,  # higher epoch seen; or log damaged
        # Node 1 stands in epoch 4, and node 2 does not answer. It keeps its vote for itself and asks whether
        # a majority would elect it before it opens epoch 5: alone it would raise the epoch with each timeout,
        # and depose the next leader when it is reached again (KIP-996).
        (Candidate, Prospective): Step.SAME,  # no majority in time
        (Candidate, Follower): Step.EITHER,  # another candidate won
        (Candidate, Leader): Step.SAME,  # majority granted
        (Follower, Unattached): Step.HIGHER,  # higher epoch seen
        (Follower, Prospective): Step.SAME,  # leader lost
        (Follower, Candidate): Step.NEXT,  # named successor by its leader
        (Follower, Follower): Step.HIGHER,  # leader found in a higher epoch
        (Leader, Unattached): Step.HIGHER,  # higher epoch seen
        (Leader, Follower): Step.HIGHER,  # leader found in a higher epoch
        (Leader, Resigned): Step.SAME,  # hands over, stops, is damaged, or the majority stopped fetching
        (Resigned, Unattached): Step.HIGHER,  # higher epoch seen, or no successor took over
        (Resigned, Follower): Step.HIGHER,  # successor found
    }
)


def check_move(source: EpochState, target: EpochState, why: str) -> None:
    """Check that `target` may follow `source`.

    Within an epoch a leader once known and a vote once given never change: they may be added while unknown
    (D-07).

    Raises:
        InvariantError: The table has no such move, or an election would be rewritten.
    """
    step = TRANSITIONS.get((type(source), type(target)))
    if step is None or not step.allows(source.epoch, target.epoch):
        raise InvariantError(f"no way from {source} to {target} ({why})")
    if source.epoch == target.epoch:
        before, after = source.election, target.election
        # Node 3 voted for node 1 in epoch 4; then its election timeout passes, and it becomes prospective. If
        # that dropped the vote, it could vote for node 2 in epoch 4 as well, and both could win it (D-07).
        if before.leader_id not in (NO_NODE, after.leader_id) or before.voted not in (None, after.voted):
            raise InvariantError(f"{target} forgets who led or got the vote in {source} ({why})")
