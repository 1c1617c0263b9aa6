"""Whether the other voters answer this node, and take it for the voter that it is (D-06).

Every voter is asked once after each start: only the others can tell a disk that was wiped or restored. A node
that is not whole hears their epochs so. Once it is whole again it asks each of them by its id, in any state,
until they have accepted this start. One that refuses has forgotten since that this start knew of its loss,
which is kept in memory: it is told again, by a fetch without id, and then asked again.

Not here: how a node becomes whole (`kraftd.raft.rejoin`), and what a voter remembers of the others
(`kraftd.raft.peers`).

Follows: D-06.
"""

from kraftd.errors import ErrorCode
from kraftd.raft.epoch_states import Follower
from kraftd.raft.request_manager import TELL_WHO_WE_ARE, RequestKind, Sent
from kraftd.raft.rpc import CommonResponse
from kraftd.raft.state import RaftState
from kraftd.types import NEVER_MS, NodeId, Now

_ACCEPTED = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""What a voter says to a fetch under an id once it has made sure whose it is."""


class Probing:
    """Asks the voters whose word on this node is missing. The `RaftNode` is its only owner."""

    def __init__(self, raft: RaftState) -> None:
        self.raft = raft

    def poll(self, now: Now) -> None:
        """Ask each of those voters that may be asked now."""
        if not self.is_due:
            return
        requests = self.raft.requests
        for kind, voters in self._targets():
            for voter in voters:
                if requests.is_ready(voter, kind, now.mono_ms):
                    self.raft.send_fetch(voter, kind, now, max_wait_ms=0)

    def wake_at_ms(self) -> int:
        """Return the monotonic time at which a voter may be asked next."""
        if not self.is_due:
            return NEVER_MS
        requests = self.raft.requests
        return min(requests.next_ready_ms(voters, kind) for kind, voters in self._targets())

    @property
    def is_due(self) -> bool:
        """Whether the word of any voter is missing. An observer asks for none."""
        rejoin = self.raft.rejoin
        return self.raft.quorum.is_voter and bool(rejoin.unheard or rejoin.not_accepted_by)

    def on_response(self, sent: Sent, header: CommonResponse) -> None:
        """Note what a response says of its sender's epoch, and of whom it takes this node for."""
        raft = self.raft
        rejoin, voter = raft.rejoin, sent.to
        if (
            voter in rejoin.unheard
            and sent.kind in TELL_WHO_WE_ARE
            and header.error != ErrorCode.INVALID_VOTER_KEY
            and raft.peers.is_trusted(raft.peers.outbound_identity(voter))
        ):
            rejoin.record_response(voter, max(raft.epoch, header.leader_and_epoch.epoch))
        if voter not in rejoin.not_accepted_by:
            return
        if sent.kind is RequestKind.INTRODUCTION:
            rejoin.record_introduction(voter)
        elif sent.kind in (RequestKind.FETCH, RequestKind.PROBE):
            if header.error == ErrorCode.INVALID_VOTER_KEY:
                rejoin.record_refusal(voter)
            elif header.error in _ACCEPTED:
                rejoin.record_acceptance(voter)

    def _targets(self) -> tuple[tuple[RequestKind, list[NodeId]], ...]:
        """Return whom to ask what. A node that may vote asks after a start once it follows, and its leader
        by its ordinary fetches.
        """
        raft, rejoin = self.raft, self.raft.rejoin
        if not rejoin.is_whole:
            return ((RequestKind.PROBE, sorted(rejoin.unheard)),)
        is_follower = isinstance(raft.state, Follower)
        to_probe = rejoin.not_accepted_by | (rejoin.unheard if is_follower else frozenset())
        fetched = {raft.leader_id} if is_follower else set()
        return (
            (RequestKind.INTRODUCTION, sorted(rejoin.refused_by)),
            (RequestKind.PROBE, sorted(to_probe - rejoin.refused_by - fetched)),
        )
