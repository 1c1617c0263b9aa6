"""The leader's own turn: writing what was appended, announcing itself, proving that it still leads.

A turn writes at most once: whatever was appended since the last turn becomes one group of batches, one
`Append`, one `Flush` (if none is running), and right behind it the responses to the fetches that waited for
records (D-16). The leader serves its unflushed end, but counts itself towards the high watermark only up to
what is flushed (D-02).

Not here: fetches, and the high watermark (`replication`).

Follows: ACC-*, BQE-*, CQ-*, D-09 to D-13.
"""

from itertools import chain

from kraftd.errors import ErrorCode
from kraftd.raft import rpc
from kraftd.raft.accumulator import PendingAppend, QueuedAppend, is_too_large, size_of
from kraftd.raft.effects import AppendDone, ReadDone
from kraftd.raft.epoch_states import Leader
from kraftd.raft.events import AppendRequested, ReadRequested
from kraftd.raft.leader_state import LeaderState
from kraftd.raft.replication import Replication
from kraftd.raft.request_manager import RequestKind, Sent
from kraftd.raft.state import RaftState
from kraftd.raft.state_changes import StateChanges
from kraftd.records.batch import encode_batch, encode_control_batch
from kraftd.records.control import encode_control
from kraftd.records.messages import LeaderChangeMessage, LeaderChangeMessageVoter
from kraftd.types import Epoch, Now

URGENT_ROOM = 2
"""Urgent appends have so many times the room of others: no flood keeps a broker from being fenced."""


class LeaderRole:
    """Acts while this node leads."""

    def __init__(self, raft: RaftState, changes: StateChanges, replication: Replication) -> None:
        self.raft = raft
        self.changes = changes
        self.replication = replication

    # --- what others ask --------------------------------------------------------------------------------

    def on_append(self, event: AppendRequested, now: Now) -> None:
        """Queue records for the next drain, or refuse all of them."""
        leader_state = self._taking_appends(event.epoch)
        if leader_state is None:
            self.raft.out.append(AppendDone(event.token, ErrorCode.NOT_CONTROLLER))
            return
        size_bytes = size_of(event.records)
        if not event.records or is_too_large(event.records, size_bytes):
            self.raft.out.append(AppendDone(event.token, ErrorCode.POLICY_VIOLATION))
        elif (
            size_bytes > self._uncommitted_room_bytes(leader_state, is_urgent=event.is_urgent)
            and leader_state.uncommitted_bytes
        ):
            self.raft.out.append(AppendDone(event.token, ErrorCode.THROTTLING_QUOTA_EXCEEDED))
        else:
            leader_state.accumulator.add(
                QueuedAppend(event.token, event.records, size_bytes, event.deadline_ms), now.mono_ms
            )

    def append_room_bytes(self, epoch: Epoch, *, is_urgent: bool) -> int:
        """How much of this epoch would be taken now, into the batch that the newest append is in (D-39)."""
        leader_state = self._taking_appends(epoch)
        if leader_state is None:
            return 0
        return min(
            leader_state.accumulator.batch_room_bytes,
            self._uncommitted_room_bytes(leader_state, is_urgent=is_urgent),
        )

    def _taking_appends(self, epoch: Epoch) -> LeaderState | None:
        """The state of the leader of this epoch; None if there is none, or it takes no more appends."""
        leader_state = self.raft.leader_state
        if leader_state is None or epoch != leader_state.epoch or leader_state.handover is not None:
            return None
        return leader_state

    def _uncommitted_room_bytes(self, leader_state: LeaderState, *, is_urgent: bool) -> int:
        most = self.raft.uncommitted_bytes_max * (URGENT_ROOM if is_urgent else 1)
        return most - leader_state.uncommitted_bytes

    def on_read(self, event: ReadRequested) -> None:
        """Queue a read until this node has proved that it still leads (D-12)."""
        leader_state = self.raft.leader_state
        if leader_state is None:
            self.raft.out.append(ReadDone(event.token, ErrorCode.NOT_CONTROLLER))
            return
        required_offset = leader_state.high_watermark if leader_state.high_watermark >= 0 else None
        if leader_state.reads.add(event.token, event.deadline_ms, required_offset):
            self.complete_reads(leader_state)

    def on_begin_response(self, sent: Sent, error: int) -> None:
        """Count a voter's acknowledgement of the leadership for the read round it belongs to (D-12)."""
        raft = self.raft
        leader_state = raft.leader_state
        if (
            leader_state is None
            or sent.kind is not RequestKind.CONFIRM
            or error != ErrorCode.NONE
            or sent.epoch != leader_state.epoch
        ):
            return
        if raft.peers.is_trusted(raft.peers.outbound_identity(sent.to)):
            leader_state.reads.acknowledge(sent.to, sent.round)
            self.complete_reads(leader_state)

    def on_applied(self) -> None:
        """Announce the leadership to the state machine once it may lead; answer the reads whose state is
        applied.
        """
        raft = self.raft
        leader_state = raft.leader_state
        if leader_state is None:
            return
        # Node 2 wins epoch 3 with records 8 and 9 of epoch 2 in its log, not applied yet. If it decided now,
        # it would decide on a state without them. Its own first record stands behind them: once that is
        # applied, the state is complete (D-18).
        if not leader_state.is_notified and raft.applied_offset > leader_state.epoch_start_offset:
            leader_state.is_notified = True
            raft.notify_leader_change(raft.me.id)
        self.complete_reads(leader_state)

    def complete_reads(self, leader_state: LeaderState) -> None:
        """Answer the reads that are confirmed and whose state is applied."""
        for token in leader_state.reads.take_ready(self.raft.applied_offset):
            self.raft.out.append(ReadDone(token, ErrorCode.NONE))

    # --- the leader's turn ------------------------------------------------------------------------------

    def poll(self, now: Now) -> None:
        """Do what is due: check-quorum, appends, heartbeats, read rounds, and the deadlines of callers."""
        raft = self.raft
        leader_state = raft.leader_state
        if leader_state is None:
            return
        now_ms = now.mono_ms
        if leader_state.check_quorum.is_over(now_ms):
            successors = tuple(
                follower.key for follower in leader_state.best_followers(raft.peers.is_connected)
            )
            self.changes.become_resigned(now, "a majority of the voters stopped fetching", successors)
            return
        if not leader_state.has_leader_change or leader_state.accumulator.drain_at_ms <= now_ms:
            self._drain(leader_state, now)
        if leader_state.hw_push_at_ms <= now_ms:
            self.replication.push_high_watermark(leader_state)
        if leader_state.purgatory.observers_at_ms <= now_ms:
            self.replication.serve_observers(leader_state, now)
        self._expire(leader_state, now_ms)
        if leader_state.heartbeat_at_ms <= now_ms:
            leader_state.heartbeat_at_ms = now_ms + raft.timing.heartbeat_interval_ms
            self._begin(leader_state, RequestKind.BEGIN, now_ms)
        reads = leader_state.reads
        if reads.wants_round:
            raft.requests.forget(RequestKind.CONFIRM)
            self._begin(leader_state, RequestKind.CONFIRM, now_ms, round_=reads.begin_round(now_ms))
        elif reads.retry_at_ms <= now_ms:
            self._begin(leader_state, RequestKind.CONFIRM, now_ms, round_=reads.repeat_round(now_ms))

    def _drain(self, leader_state: LeaderState, now: Now) -> None:
        """Write everything appended since the last turn, at once."""
        raft = self.raft
        base_offset = end_offset = raft.log.end_offset
        batches: list[bytes] = []
        if not leader_state.has_leader_change:
            leader_state.has_leader_change = True
            batches.append(self._leader_change(end_offset, now))
            end_offset += 1
        for batch in leader_state.accumulator.drain():
            appends = batch.appends
            values = [*chain.from_iterable([append.records for append in appends])]
            batches.append(encode_batch(end_offset, leader_state.epoch, now.wall_ms, values))
            raft.log.keep_values(end_offset, values)
            pending_appends = []
            for append in appends:
                end_offset += len(append.records)
                pending_appends.append(PendingAppend(end_offset, append.token, append.deadline_ms))
            leader_state.pending_appends.add(pending_appends)
            leader_state.record_uncommitted(end_offset, batch.size_bytes)
        if batches:
            raft.out.append(raft.log.append(base_offset, end_offset, batches))
            raft.flush()
            self.replication.serve_parked(leader_state, now)

    def _leader_change(self, offset: int, now: Now) -> bytes:
        """Return the control batch that opens the epoch (VOTE-30)."""
        state = self.raft.state
        granted = sorted(state.granted) if isinstance(state, Leader) else ()
        record = LeaderChangeMessage(
            leader_id=self.raft.me.id,
            voters=tuple(LeaderChangeMessageVoter(voter.id) for voter in self.raft.quorum.voters),
            granting_voters=tuple(map(LeaderChangeMessageVoter, granted)),
        )
        return encode_control_batch(offset, self.raft.epoch, now.wall_ms, [encode_control(record)])

    def _expire(self, leader_state: LeaderState, now_ms: int) -> None:
        out = self.raft.out
        for pending in leader_state.pending_appends.take_expired(now_ms):
            out.append(AppendDone(pending.token, ErrorCode.REQUEST_TIMED_OUT))
        if leader_state.reads.next_deadline_ms <= now_ms:
            for token in leader_state.reads.take_expired(now_ms):
                out.append(ReadDone(token, ErrorCode.REQUEST_TIMED_OUT))
        self.replication.expire_parked(leader_state, now_ms)

    def _begin(self, leader_state: LeaderState, kind: RequestKind, now_ms: int, *, round_: int = 0) -> None:
        """Send BeginQuorumEpoch to every other voter that has no such request under way (BQE-02)."""
        raft = self.raft
        for follower in leader_state.followers:
            voter = follower.key.id
            if raft.requests.is_ready(voter, kind, now_ms):
                request = rpc.begin_request(
                    raft.cluster_id, follower.key, leader_state.epoch, raft.me.id, raft.advertised
                )
                raft.send(voter, kind, request, now_ms, round_=round_)

    def wake_at_ms(self, leader_state: LeaderState) -> int:
        """Return the monotonic time at which the leader must act next."""
        return leader_state.next_deadline_ms() if leader_state.has_leader_change else 0
