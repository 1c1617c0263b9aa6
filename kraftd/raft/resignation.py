"""Leaving the lead: handing over to a successor, stopping the process, and the time after (D-09).

A leader that hands over takes no more appends, waits until its successor holds all that is flushed here,
and only then ends its epoch with EndQuorumEpoch, the successor first; if that takes too long it leads on
and says why. A process that stops does the same, but leaves even without a successor at half of its time,
so that the others begin at once. The old leader stays to vote until it sees the new epoch or its time is
up. A leader whose disk turns out to have lost a part of the log sends EndQuorumEpoch at once.

A leader that is asked to hand over early in its epoch leads on for `handover_rest_ms` first: any client may
ask, and with endless requests no leader would have the time to commit anything (D-38).

Follows: EQE-*, RSG-*, D-09.
Differs: on the EndQuorumEpoch of its own leader the first successor becomes a candidate in the same turn. One
without successors, which a leader sends after a restart, delays no voter (EQE-03). A first successor that has
much left to apply waits too: another one can lead sooner (D-18).
"""

from msgspec.structs import replace

from kraftd.errors import ErrorCode
from kraftd.raft import rpc
from kraftd.raft.effects import ResignDone, ShutdownReady
from kraftd.raft.epoch_states import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from kraftd.raft.events import LogDamaged, RequestReceived, ResignRequested, ShutdownRequested
from kraftd.raft.leader_state import Handover, LeaderState
from kraftd.raft.request_manager import Kind, Sent
from kraftd.raft.rpc import BeginParams, EndParams, LeaderAndEpoch
from kraftd.raft.state import RaftState
from kraftd.raft.state_changes import StateChanges
from kraftd.raft.timing import loss_delay_ms
from kraftd.types import NEVER_MS, NO_NODE, ZERO_UUID, NodeId, Now, ReplicaKey


class Resignation:
    """Hands over and resigns, and handles what leaders announce: BeginQuorumEpoch and EndQuorumEpoch."""

    def __init__(self, raft: RaftState, changes: StateChanges) -> None:
        self.raft = raft
        self.changes = changes

    # --- leaving ----------------------------------------------------------------------------------------

    def on_resign(self, event: ResignRequested, now: Now) -> None:
        """Plan a hand-over that an operator asks for, or refuse it with a reason."""
        raft = self.raft
        led = raft.leader_state
        refusal = ""
        if led is None:
            refusal = "this member does not lead"
        elif (other := led.handover or led.requested_handover) is not None:
            refusal = f"a handover to {other.to} is under way already"
        elif not led.followers:
            refusal = "there is no other voter"
        elif event.to != NO_NODE and led.follower(event.to) is None:
            refusal = f"{event.to} is not another voter"
        elif event.to != NO_NODE and not raft.peers.is_connected(event.to):
            refusal = f"{event.to} is not connected"
        elif event.to != NO_NODE:
            refusal = self._why_not(led, event.to)
        if led is None or refusal:
            error = ErrorCode.NOT_CONTROLLER if led is None else ErrorCode.INVALID_REQUEST
            raft.out.append(ResignDone(event.token, error, raft.epoch, NO_NODE, refusal))
            return
        begins_ms = max(now.mono_ms, led.began_ms + raft.timing.min_leader_ms)
        led.requested_handover = Handover(event.to, event.deadline_ms, begins_ms, event.token)
        self._begin_handover(led, now)

    def _begin_handover(self, led: LeaderState, now: Now) -> None:
        """Begin the planned hand-over once the leader is old enough; refuse it if its deadline is earlier."""
        asked = led.requested_handover
        if asked is None:
            return
        if now.mono_ms >= asked.begins_ms:
            led.handover, led.requested_handover = asked, None
        elif now.mono_ms >= asked.deadline_ms and asked.token is not None:
            led.requested_handover = None
            rest_ms = self.raft.timing.min_leader_ms
            why = f"it began to lead less than {rest_ms} ms ago, and hands over to nobody before"
            error = ErrorCode.REQUEST_TIMED_OUT
            self.raft.out.append(ResignDone(asked.token, error, self.raft.epoch, NO_NODE, why))

    def _why_not(self, led: LeaderState, to: NodeId) -> str:
        """Return why a voter cannot be the successor, however far it has fetched; empty if it can."""
        peer = self.raft.peers.outbound_identity(to)
        identity_conflict = self.raft.peers.identity_conflict(peer) if peer is not None else ""
        follower = led.follower(to)
        if not identity_conflict and follower is not None and follower.is_uncounted:
            identity_conflict = "it fetches without its id, since it is not whole"
        return f"{to} is not counted: {identity_conflict}" if identity_conflict else ""

    def on_shutdown(self, event: ShutdownRequested, now: Now) -> None:
        """Prepare the end of the process: a leader hands over for at most half of the time left."""
        raft = self.raft
        raft.is_stopping = True
        raft.stop_at_ms = event.deadline_ms
        led = raft.leader_state
        if led is not None and led.followers:
            patience_ms = max(0, event.deadline_ms - now.mono_ms) // 2
            asked = led.handover or led.requested_handover
            if asked is not None and asked.token is not None:
                why = "the leader is stopping"
                raft.out.append(ResignDone(asked.token, ErrorCode.NONE, raft.epoch, NO_NODE, why))
            led.requested_handover = None
            led.handover = Handover(NO_NODE, now.mono_ms + patience_ms, now.mono_ms)

    def on_damaged(self, event: LogDamaged, now: Now) -> None:
        """Stop counting because a read found a lost part of the log, as if the opening had found it (D-06).

        What a truncation has cut meanwhile is no damage (D-15). A leader resigns: it cannot serve what it has
        lost.
        """
        raft = self.raft
        if event.generation != raft.log.generation or not raft.rejoin.damage(event.damage):
            return
        raft.alarm("not_whole", raft.rejoin.text)
        why = "it lost a part of its log"
        led = raft.leader_state
        if led is not None:
            successors = tuple(progress.key for progress in led.best_followers(raft.peers.is_connected))
            self.changes.become_resigned(now, why, successors)
        elif raft.is_voter and isinstance(raft.state, Unattached | Prospective | Candidate):
            self.changes.end_election(now, won=False)
            self.changes.become_unattached(raft.epoch, now, why)

    def poll_handover(self, led: LeaderState, now: Now) -> bool:
        """Resign once a successor has caught up, or time is up. Returns whether this node resigned."""
        raft = self.raft
        self._begin_handover(led, now)
        handover = led.handover
        if handover is None:
            return False
        log = raft.log
        is_near = raft.peers.is_connected
        # Node 1 hands over to node 2, which has fetched up to 18 of 20. If node 1 resigned now, node 2 could
        # win with the vote of node 3, which has no more, and records 18 and 19 would be cut, although their
        # callers wait.
        can_leave = led.has_leader_change and log.is_flushed
        successor = led.find_caught_up(handover.to, log.end_offset, is_near) if can_leave else None
        if successor is None:
            identity_conflict = "" if handover.to == NO_NODE else self._why_not(led, handover.to)
            is_over = bool(identity_conflict) or now.mono_ms >= handover.deadline_ms
            if not is_over and not self._is_silent(led, handover, now):
                return False
            if handover.token is not None:
                who = "no voter has" if handover.to == NO_NODE else f"node {handover.to} has not"
                reason = identity_conflict or f"{who} caught up to {log.end_offset} in time"
                error = ErrorCode.INVALID_REQUEST if identity_conflict else ErrorCode.REQUEST_TIMED_OUT
                raft.out.append(ResignDone(handover.token, error, raft.epoch, NO_NODE, reason))
                led.handover = None
                return False
        rest = tuple(p.key for p in led.best_followers(is_near) if p is not successor)
        successors = rest if successor is None else (successor.key, *rest)
        chosen = NO_NODE if successor is None else successor.key.id
        raft.was_handed_over = successor is not None
        led.handover = None
        why = "stopping" if handover.token is None else "handing over"
        self.changes.become_resigned(now, f"{why}, {chosen} is to follow", successors)
        if handover.token is not None:
            raft.out.append(ResignDone(handover.token, ErrorCode.NONE, raft.epoch, chosen))
        return True

    def _is_silent(self, led: LeaderState, handover: Handover, now: Now) -> bool:
        """Whether the named successor has not fetched for a fetch timeout. The leader then stops waiting
        before the deadline, since it takes no appends meanwhile and the deadline may be far away.
        """
        if handover.token is None or handover.to == NO_NODE:
            return False
        follower = led.follower(handover.to)
        heard_ms = handover.begins_ms if follower is None else max(follower.fetch_at_ms, handover.begins_ms)
        return now.mono_ms >= heard_ms + self.raft.timing.fetch_timeout_ms

    def poll_resigned(self, state: Resigned, now: Now, *, timeouts_deferred: bool) -> None:
        """Send EndQuorumEpoch to the voters that have not acknowledged it; then become unattached."""
        raft = self.raft
        if not raft.is_stopping and not timeouts_deferred and now.mono_ms >= state.deadline_ms:
            self.changes.become_unattached(state.epoch + 1, now, "nobody took over")
            return
        for voter in raft.others:
            if voter not in state.acknowledged and raft.requests.is_ready(voter, Kind.END, now.mono_ms):
                request = rpc.end_request(raft.cluster_id, state.epoch, raft.me.id, state.successors)
                raft.send(voter, Kind.END, request, now.mono_ms)

    def poll_stopping(self, now: Now) -> None:
        """Emit `ShutdownReady` once no duty is left, or at the deadline."""
        raft = self.raft
        if raft.stop_at_ms == NEVER_MS:
            return
        state = raft.state
        holds = isinstance(state, Resigned) or (isinstance(state, Leader) and bool(raft.others))
        if not holds or now.mono_ms >= raft.stop_at_ms:
            raft.stop_at_ms = NEVER_MS
            raft.out.append(ShutdownReady(handed_over=raft.was_handed_over and not holds))

    def wake_at_ms(self) -> int:
        """Return the monotonic time at which this part must act next."""
        raft = self.raft
        state = raft.state
        wake_at_ms = raft.stop_at_ms
        if isinstance(state, Resigned):
            if not raft.is_stopping:
                wake_at_ms = min(wake_at_ms, state.deadline_ms)
            untold = [voter for voter in raft.others if voter not in state.acknowledged]
            wake_at_ms = min(wake_at_ms, raft.requests.next_ready_ms(untold, Kind.END))
        return wake_at_ms

    def on_end_response(self, sent: Sent, error: int, now: Now) -> None:
        """Record that a voter knows of the resignation (EQE-08); after an error it is asked again later."""
        state = self.raft.state
        if error != ErrorCode.NONE:
            self.raft.requests.rest(sent.to, sent.kind, now.mono_ms)
        elif isinstance(state, Resigned) and sent.epoch == state.epoch:
            self.raft.update_state(replace(state, acknowledged=state.acknowledged | {sent.to}))

    # --- what leaders announce --------------------------------------------------------------------------

    def on_begin_request(self, event: RequestReceived, ask: BeginParams, now: Now) -> None:
        """Follow the leader that announces itself. A node that may have forgotten a vote for a later leader
        follows too, but answers with an error: it must not confirm that this one still leads (D-06, D-12).
        """
        raft = self.raft
        error = self._check_announcement(event, ask.epoch, ask.leader_id)
        if error is ErrorCode.NONE:
            leader_and_epoch = LeaderAndEpoch(ask.epoch, ask.leader_id, ask.endpoint)
            self.changes.observe_epoch(leader_and_epoch, now, f"{ask.leader_id} leads", from_leader=True)
            if (raft.epoch, raft.leader_id) != (ask.epoch, ask.leader_id):
                error = ErrorCode.INVALID_REQUEST
            elif not self._is_me(ask.receiver) or not raft.rejoin.can_confirm:
                error = ErrorCode.INVALID_VOTER_KEY
        raft.reply(
            event.handle,
            rpc.begin_response(
                error, raft.leader_and_epoch(with_endpoint=event.version >= rpc.ENDPOINTS_SINCE)
            ),
        )

    def on_end_request(self, event: RequestReceived, ask: EndParams, now: Now) -> None:
        """Handle EndQuorumEpoch: the first successor campaigns at once, the others one after another."""
        raft = self.raft
        error = self._check_announcement(event, ask.epoch, ask.leader_id)
        if error is ErrorCode.NONE:
            leader_and_epoch = LeaderAndEpoch(ask.epoch, ask.leader_id)
            self.changes.observe_epoch(leader_and_epoch, now, f"{ask.leader_id} led", from_leader=True)
            if (raft.epoch, raft.leader_id) != (ask.epoch, ask.leader_id):
                error = ErrorCode.INVALID_REQUEST
            elif isinstance(raft.state, Follower):
                self._succeed(raft.state, ask, now)
        raft.reply(
            event.handle,
            rpc.end_response(
                error, raft.leader_and_epoch(with_endpoint=event.version >= rpc.ENDPOINTS_SINCE)
            ),
        )

    def _succeed(self, state: Follower, ask: EndParams, now: Now) -> None:
        raft = self.raft
        if not raft.may_vote or raft.is_stopping or state.epoch_ended:
            return
        position = self._position(ask.successors)
        if position == 0 and not raft.is_behind:
            self.changes.become_candidate(now, f"{ask.leader_id} named it successor")
            return
        if not position:  # not named, or named although it has much left to apply
            patience_ms = raft.timing.election_backoff_max_ms if ask.successors else 0
            delay_ms = patience_ms + loss_delay_ms(raft.random_source)
        else:
            delay_ms = raft.timing.successor_delay_ms(position, len(ask.successors))
        campaign_at_ms = now.mono_ms + max(1, delay_ms)
        raft.update_state(replace(state, in_touch=False, epoch_ended=True, campaign_at_ms=campaign_at_ms))

    def _position(self, successors: tuple[ReplicaKey, ...]) -> int | None:
        """Return our position among the successors; None if we are not named (EQE-03, EQE-04)."""
        for position, key in enumerate(successors):
            if key.matches(self.raft.me):
                return position
        return None

    def _check_announcement(self, event: RequestReceived, epoch: int, leader_id: NodeId) -> ErrorCode:
        """Return the error of an announcement that is not one of a voter to a voter. An observer confirms no
        claims: a stranger with a voter's id could send it to an epoch that never has a leader (D-37).
        """
        if epoch < self.raft.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if not self.raft.is_voter:
            return ErrorCode.INVALID_REQUEST
        if event.peer is None or event.peer.node_id != leader_id or leader_id not in self.raft.voters:
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def _is_me(self, receiver: ReplicaKey) -> bool:
        me = self.raft.me
        return receiver.id == NO_NODE or (
            receiver.id == me.id and receiver.directory_id in (ZERO_UUID, me.directory_id)
        )
