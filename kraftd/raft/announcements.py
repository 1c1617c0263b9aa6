"""What a voter does when another one announces that it leads, or that it does not any more.

BeginQuorumEpoch is a new leader's announcement, its heartbeat, and the round of a linearizable read: the
receiver follows. With EndQuorumEpoch a leader resigns and names its successors: the first one becomes a
candidate in the same turn, the others after one another. Only a voter that is confirmed is believed, and only
about itself (D-37).

Entered through `RaftNode.handle`. Not here: sending the two (`leader`, `resignation`). It is a module
of its own, short as it is, because these two are heard in every state, and are neither
an election nor a hand-over.

Follows: BQE-*, EQE-01 to EQE-08.
Differs: after an EndQuorumEpoch without successors, which a leader sends after a restart, nobody waits as one
who was not named (EQE-03): all campaign after the short random delay of a lost leader.
A first successor that has much left to apply waits too: another one can lead sooner (D-18).
"""

from msgspec.structs import replace

from kraftd.errors import ErrorCode
from kraftd.raft import rpc
from kraftd.raft.epoch_states import Follower
from kraftd.raft.events import RequestReceived
from kraftd.raft.rpc import BeginParams, EndParams, LeaderAndEpoch
from kraftd.raft.state import RaftState
from kraftd.raft.state_changes import StateChanges
from kraftd.raft.timing import loss_delay_ms
from kraftd.types import NodeId, Now, ReplicaKey


class Announcements:
    """Handles BeginQuorumEpoch and EndQuorumEpoch requests."""

    def __init__(self, raft: RaftState, changes: StateChanges) -> None:
        self.raft = raft
        self.changes = changes

    def on_begin_request(self, event: RequestReceived, params: BeginParams, now: Now) -> None:
        """Follow the leader that announces itself. A node that may have forgotten a vote for a later leader
        follows too, but answers with an error: it must not confirm that this one still leads (D-06, D-12).
        """
        raft = self.raft
        error = self._check_announcement(event, params.epoch, params.leader_id)
        if error is ErrorCode.NONE:
            leader_and_epoch = LeaderAndEpoch(params.epoch, params.leader_id, params.endpoint)
            self.changes.observe_epoch(leader_and_epoch, now, f"{params.leader_id} leads", from_leader=True)
            if (raft.epoch, raft.leader_id) != (params.epoch, params.leader_id):
                error = ErrorCode.INVALID_REQUEST
            else:
                raft.hear_leader(now.mono_ms, is_response=False)
                if not raft.is_receiver(params.receiver) or not raft.rejoin.can_confirm_leader:
                    error = ErrorCode.INVALID_VOTER_KEY
        raft.reply(event.handle, rpc.begin_response(error, raft.leader_and_epoch(event.version)))

    def on_end_request(self, event: RequestReceived, params: EndParams, now: Now) -> None:
        """Handle EndQuorumEpoch: the first successor campaigns at once, the others later."""
        raft = self.raft
        error = self._check_announcement(event, params.epoch, params.leader_id)
        if error is ErrorCode.NONE:
            leader_and_epoch = LeaderAndEpoch(params.epoch, params.leader_id)
            self.changes.observe_epoch(leader_and_epoch, now, f"{params.leader_id} led", from_leader=True)
            if (raft.epoch, raft.leader_id) != (params.epoch, params.leader_id):
                error = ErrorCode.INVALID_REQUEST
        # Answered before anything comes of it. If the old leader heard of the next epoch here, it would write
        # that to its disk, and once more with its vote when the request for it is there.
        raft.reply(event.handle, rpc.end_response(error, raft.leader_and_epoch(event.version)))
        if error is ErrorCode.NONE and isinstance(raft.state, Follower):
            self._campaign_as_successor(raft.state, params, now)

    def _campaign_as_successor(self, state: Follower, params: EndParams, now: Now) -> None:
        raft = self.raft
        if not raft.may_vote or raft.is_stopping or state.epoch_ended:
            return
        rank = self._rank(params.successors)
        # No pre-vote: node 1 resigned and named node 2, and node 3, which has not heard of it yet, is in
        # touch with a leader and would refuse. It does not refuse a vote: that is of the next epoch.
        if rank == 0 and not raft.is_behind:
            self.changes.become_candidate(now, f"{params.leader_id} named it successor")
            return
        if not rank:  # not named, or named first although it has much left to apply
            patience_ms = raft.timing.election_backoff_max_ms if params.successors else 0
            delay_ms = patience_ms + loss_delay_ms(raft.random_source)
        else:
            delay_ms = raft.timing.successor_delay_ms(rank, len(params.successors))
        campaign_at_ms = now.mono_ms + max(1, delay_ms)
        raft.update_state(
            replace(state, in_touch=False, epoch_ended=True, campaign_at_ms=campaign_at_ms, ballot=None)
        )

    def _rank(self, successors: tuple[ReplicaKey, ...]) -> int | None:
        """Return our rank among the successors, from 0; None if we are not named (EQE-03, EQE-04)."""
        for rank, key in enumerate(successors):
            if key.matches(self.raft.me):
                return rank
        return None

    def _check_announcement(self, event: RequestReceived, epoch: int, leader_id: NodeId) -> ErrorCode:
        """Return the error of an announcement that is not one of a voter to a voter. An observer confirms no
        claims: a stranger with a voter's id could send it to an epoch that never has a leader (D-37).
        """
        if epoch < self.raft.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if not self.raft.quorum.is_voter:
            return ErrorCode.INVALID_REQUEST
        if event.peer is None or event.peer.node_id != leader_id or leader_id not in self.raft.quorum.voters:
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE
