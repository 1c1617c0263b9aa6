"""Leaving the lead: handing over to a successor, stopping the process, and the time after (D-09).

A leader that hands over takes no more appends, waits until its successor holds all that is flushed here,
and only then ends its epoch with EndQuorumEpoch, the successor first; if that takes too long it leads on
and says why. A process that stops does the same, but leaves even without a successor at half of its time,
so that the others begin at once. The old leader stays to vote, and to follow until it knows that its
successor has committed a record, or its time is up: to close its files would slow a disk that they share,
and of two voters it is the one that the first commit needs. A leader whose disk turns out to have lost a part
of the log sends EndQuorumEpoch at once; one whose state machine can apply nothing leaves like a process that
stops.

A leader that is asked to hand over early in its epoch leads on until `Timing.min_leader_ms` is over: any
client may ask, and with endless requests no leader would have the time to commit anything (D-38).

Not here: what the receivers of EndQuorumEpoch do (`announcements`).

Follows: EQE-08 to EQE-10, RSG-*, D-09.
"""

from msgspec.structs import replace

from kraftd.errors import ErrorCode
from kraftd.raft import rpc
from kraftd.raft.effects import ResignDone, ShutdownReady
from kraftd.raft.epoch_states import Candidate, Leader, Prospective, Resigned, Unattached
from kraftd.raft.events import ApplyStuck, LogDamaged, ResignRequested, ShutdownRequested
from kraftd.raft.leader_state import Handover, LeaderState
from kraftd.raft.request_manager import RequestKind, Sent
from kraftd.raft.state import RaftState
from kraftd.raft.state_changes import StateChanges
from kraftd.types import NEVER_MS, NO_NODE, NodeId, Now


class Resignation:
    """Hands over, resigns, and prepares the end of the process."""

    def __init__(self, raft: RaftState, changes: StateChanges) -> None:
        self.raft = raft
        self.changes = changes
        self._stop_at_ms = NEVER_MS
        """When a process that is stopping ends even while it leads; NEVER_MS unless it is stopping."""
        self._was_handed_over = False
        self._follows_until_ms = NEVER_MS
        """When a process that has handed over ends without a commit of its successor; NEVER_MS before it sees
        the next epoch.
        """

    # --- leaving ----------------------------------------------------------------------------------------

    def on_event(
        self, event: ResignRequested | ShutdownRequested | LogDamaged | ApplyStuck, now: Now
    ) -> None:
        """Take in why this node should not lead."""
        match event:
            case ResignRequested():
                self._on_resign(event, now)
            case ShutdownRequested():
                self._on_shutdown(event, now)
            case LogDamaged():
                self._on_damaged(event, now)
            case ApplyStuck():
                self.raft.is_stuck = True

    def _on_resign(self, event: ResignRequested, now: Now) -> None:
        """Plan a hand-over that an operator asks for, or refuse it with a reason."""
        raft = self.raft
        leader_state = raft.leader_state
        refusal = ""
        if leader_state is None:
            refusal = "this node does not lead"
        elif (other := leader_state.handover or leader_state.requested_handover) is not None:
            refusal = f"a hand-over to {_successor_text(other.to)} is under way already"
        elif not leader_state.followers:
            refusal = "there is no other voter"
        elif event.to != NO_NODE and leader_state.follower(event.to) is None:
            refusal = f"{event.to} is not another voter"
        elif event.to != NO_NODE and not raft.peers.is_connected(event.to):
            refusal = f"{event.to} is not connected"
        elif event.to != NO_NODE:
            refusal = self._why_no_successor(leader_state, event.to)
        if leader_state is None or refusal:
            error = ErrorCode.NOT_CONTROLLER if leader_state is None else ErrorCode.INVALID_REQUEST
            raft.out.append(ResignDone(event.token, error, raft.epoch, NO_NODE, refusal))
            return
        begins_ms = max(now.mono_ms, leader_state.began_ms + raft.timing.min_leader_ms)
        leader_state.requested_handover = Handover(event.to, event.deadline_ms, begins_ms, event.token)
        self._begin_handover(leader_state, now)

    def _begin_handover(self, leader_state: LeaderState, now: Now) -> None:
        """Begin the planned hand-over once the leader is old enough; refuse it if its deadline is earlier."""
        asked = leader_state.requested_handover
        if asked is None:
            return
        if now.mono_ms >= asked.begins_ms:
            leader_state.handover, leader_state.requested_handover = asked, None
        elif now.mono_ms >= asked.deadline_ms and asked.token is not None:
            leader_state.requested_handover = None
            min_ms = self.raft.timing.min_leader_ms
            why = f"it began to lead less than {min_ms} ms ago, and hands over to nobody before"
            error = ErrorCode.REQUEST_TIMED_OUT
            self.raft.out.append(ResignDone(asked.token, error, self.raft.epoch, NO_NODE, why))

    def _why_no_successor(self, leader_state: LeaderState, to: NodeId) -> str:
        """Return why a voter cannot be the successor, however far it has fetched; empty if it can."""
        peer = self.raft.peers.outbound_identity(to)
        identity_conflict = self.raft.peers.identity_conflict(peer) if peer is not None else ""
        follower = leader_state.follower(to)
        if not identity_conflict and follower is not None and follower.is_uncounted:
            identity_conflict = "it fetches without its id, since it is not whole"
        return f"{to} is not counted: {identity_conflict}" if identity_conflict else ""

    def _on_shutdown(self, event: ShutdownRequested, now: Now) -> None:
        """Prepare the end of the process: a leader hands over for at most half of the time left."""
        raft = self.raft
        raft.is_stopping = True
        self._stop_at_ms = event.deadline_ms
        self._was_handed_over = self._was_handed_over and isinstance(raft.state, Resigned)
        leader_state = raft.leader_state
        if leader_state is not None and leader_state.followers:
            patience_ms = max(0, event.deadline_ms - now.mono_ms) // 2
            asked = leader_state.handover or leader_state.requested_handover
            if asked is not None and asked.token is not None:
                why = "the leader is stopping"
                raft.out.append(ResignDone(asked.token, ErrorCode.NONE, raft.epoch, NO_NODE, why))
            leader_state.requested_handover = None
            leader_state.handover = Handover(NO_NODE, now.mono_ms + patience_ms, now.mono_ms)

    def _on_damaged(self, event: LogDamaged, now: Now) -> None:
        """Stop counting because a read found a lost part of the log, as if the opening had found it (D-06).

        What a truncation has removed meanwhile is no damage (D-15). A leader resigns: it cannot serve what it
        has lost.
        """
        raft = self.raft
        if event.generation != raft.log.generation or not raft.rejoin.record_damage(event.damage):
            return
        raft.alarm("not_whole", raft.rejoin.text)
        why = "it lost a part of its log"
        leader_state = raft.leader_state
        if leader_state is not None:
            successors = tuple(
                follower.key for follower in leader_state.best_followers(raft.peers.is_connected)
            )
            self.changes.become_resigned(now, why, successors)
        elif raft.quorum.is_voter and isinstance(raft.state, Unattached | Prospective | Candidate):
            self.changes.end_election(now, won=False)
            self.changes.become_unattached(raft.epoch, now, why)

    def _leave_if_stuck(self, leader_state: LeaderState, now: Now) -> None:
        """Plan a hand-over if the state machine can apply nothing.

        Node 2 starts, and a sector of the snapshot that its log begins with turns bad before it is loaded. It
        is named successor, and leads: followers fetch from it and hear it, so that nobody suspects it. But it
        would never have an active controller, since it cannot apply its own first record.
        """
        if not self.raft.is_stuck or not leader_state.followers:
            return
        if leader_state.handover is None and leader_state.requested_handover is None:
            begins_ms = max(now.mono_ms, leader_state.began_ms + self.raft.timing.min_leader_ms)
            deadline_ms = begins_ms + self.raft.timing.fetch_timeout_ms
            leader_state.requested_handover = Handover(NO_NODE, deadline_ms, begins_ms)

    def poll_handover(self, leader_state: LeaderState, now: Now) -> None:
        """Resign once a successor has caught up, or time is up."""
        raft = self.raft
        self._leave_if_stuck(leader_state, now)
        self._begin_handover(leader_state, now)
        handover = leader_state.handover
        if handover is None:
            return
        log = raft.log
        is_connected = raft.peers.is_connected
        # Node 1 hands over to node 2, which has fetched up to 18 of 20. If node 1 resigned now, node 2 could
        # win with the vote of node 3, which has no more, and records 18 and 19 would be lost, although their
        # callers wait.
        can_leave = leader_state.has_leader_change and log.is_flushed
        successor = (
            leader_state.find_caught_up(handover.to, log.end_offset, is_connected) if can_leave else None
        )
        if successor is None:
            identity_conflict = (
                "" if handover.to == NO_NODE else self._why_no_successor(leader_state, handover.to)
            )
            is_over = bool(identity_conflict) or now.mono_ms >= handover.deadline_ms
            if not is_over and not self._has_stopped_fetching(leader_state, handover, now):
                return
            if handover.token is not None:
                who = "no voter has" if handover.to == NO_NODE else f"node {handover.to} has not"
                reason = identity_conflict or f"{who} caught up to {log.end_offset} in time"
                error = ErrorCode.INVALID_REQUEST if identity_conflict else ErrorCode.REQUEST_TIMED_OUT
                raft.out.append(ResignDone(handover.token, error, raft.epoch, NO_NODE, reason))
                leader_state.handover = None
                return
        others = tuple(p.key for p in leader_state.best_followers(is_connected) if p is not successor)
        successors = others if successor is None else (successor.key, *others)
        chosen = NO_NODE if successor is None else successor.key.id
        self._was_handed_over = successor is not None
        leader_state.handover = None
        leaves = "stopping" if raft.is_stopping else "nothing can be applied here"
        why = leaves if handover.token is None else "handing over"
        follows = "nobody" if successor is None else chosen
        self.changes.become_resigned(now, f"{why}, {follows} is to follow", successors)
        if handover.token is not None:
            raft.out.append(ResignDone(handover.token, ErrorCode.NONE, raft.epoch, chosen))

    def _has_stopped_fetching(self, leader_state: LeaderState, handover: Handover, now: Now) -> bool:
        """Whether the named successor has not fetched for a fetch timeout. The leader then stops waiting
        before the deadline, since it takes no appends meanwhile and the deadline may be far away.
        """
        if handover.token is None or handover.to == NO_NODE:
            return False
        follower = leader_state.follower(handover.to)
        waiting_since_ms = (
            handover.begins_ms if follower is None else max(follower.fetch_at_ms, handover.begins_ms)
        )
        return now.mono_ms >= waiting_since_ms + self.raft.timing.fetch_timeout_ms

    def poll_resigned(self, state: Resigned, now: Now, *, timeouts_deferred: bool) -> None:
        """Send EndQuorumEpoch to the voters that have not acknowledged it; then become unattached."""
        raft = self.raft
        if not raft.is_stopping and not timeouts_deferred and now.mono_ms >= state.deadline_ms:
            self.changes.become_unattached(state.epoch + 1, now, "nobody took over")
            return
        for voter in raft.quorum.others:
            if voter not in state.acknowledged and raft.requests.is_ready(
                voter, RequestKind.END, now.mono_ms
            ):
                request = rpc.end_request(raft.cluster_id, state.epoch, raft.me.id, state.successors)
                raft.send(voter, RequestKind.END, request, now.mono_ms)

    def poll_stopping(self, now: Now) -> None:
        """Emit `ShutdownReady` once no duty is left, or at the deadline."""
        raft = self.raft
        if self._stop_at_ms == NEVER_MS:
            return
        state = raft.state
        has_duty = isinstance(state, Resigned) or (isinstance(state, Leader) and bool(raft.quorum.others))
        if (has_duty or self._awaits_successor(now)) and now.mono_ms < self._stop_at_ms:
            return
        self._stop_at_ms = self._follows_until_ms = NEVER_MS
        raft.out.append(ShutdownReady(handed_over=self._was_handed_over and not has_duty))

    def _awaits_successor(self, now: Now) -> bool:
        """Whether the leadership was handed over and the successor has, as far as is known here, not yet
        committed a record of its epoch. Nobody waits for that longer than a fetch timeout.
        """
        raft = self.raft
        if not self._was_handed_over or raft.is_epoch_committed:
            return False
        if self._follows_until_ms == NEVER_MS:
            self._follows_until_ms = now.mono_ms + raft.timing.fetch_timeout_ms
        return now.mono_ms < self._follows_until_ms

    def wake_at_ms(self) -> int:
        """Return the monotonic time at which this part must act next."""
        raft = self.raft
        state = raft.state
        wake_at_ms = min(self._stop_at_ms, self._follows_until_ms)
        if isinstance(state, Resigned):
            if not raft.is_stopping:
                wake_at_ms = min(wake_at_ms, state.deadline_ms)
            untold = [voter for voter in raft.quorum.others if voter not in state.acknowledged]
            wake_at_ms = min(wake_at_ms, raft.requests.next_ready_ms(untold, RequestKind.END))
        return wake_at_ms

    def on_end_response(self, sent: Sent, error: int, now: Now) -> None:
        """Record that a voter knows of the resignation (EQE-08); after an error it is asked again later."""
        state = self.raft.state
        if error != ErrorCode.NONE:
            self.raft.requests.back_off(sent.to, sent.kind, now.mono_ms)
        elif isinstance(state, Resigned) and sent.epoch == state.epoch:
            self.raft.update_state(replace(state, acknowledged=state.acknowledged | {sent.to}))


def _successor_text(to: NodeId) -> str:
    return "the best voter" if to == NO_NODE else f"node {to}"
