"""The follower's side of replication: fetch, check, append, flush, fetch again.

The position of a fetch is the acknowledgement of everything before it. So the next fetch is sent only when
the whole log is durable: after the flush, not after the append (D-02). What a leader sends is checked to the
last byte before anything of it is appended (Q-07), and nothing that a leader sends can end this process or
truncate what is committed (D-14).

Observers, and voters that are not whole, fetch in the same way, without being counted, and look for a leader
among all the nodes they know; at most one fetch of theirs is on its way (OBS-01 to OBS-06).

Follows: FRSP-*, OBS-*, D-02, D-06, D-08, D-14.
Differs: once the leader has ended its epoch no late response of it stops the successor's timer (EQE-07).
Voters that wait for an election do not look for a leader: its heartbeat or its answer to a pre-vote finds it.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from kraftd.errors import CorruptBatchError, ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft.effects import RememberStateHealth
from kraftd.raft.epoch_states import Follower, Unattached
from kraftd.raft.events import BatchesRead, ConnectionClosed, SnapshotReceived
from kraftd.raft.request_manager import RequestKind, Sent
from kraftd.raft.snapshot_fetch import SnapshotFetch
from kraftd.raft.state import RaftState
from kraftd.raft.state_changes import StateChanges
from kraftd.raft.timing import BEHIND_DELAY_MS, LONG_BACKOFF_MS, loss_delay_ms
from kraftd.raft.truncation import Truncation
from kraftd.records.batch import BatchView, scan
from kraftd.types import (
    FORGET_PEERS,
    NEVER_MS,
    NO_NODE,
    REPORTED_BY_OTHERS,
    Epoch,
    HealthKind,
    NodeId,
    Now,
    OffsetAndEpoch,
    is_bootstrap,
)

_NO_SIGN_OF_A_LEADER = (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE)
"""Not errors of a node that leads: it has resigned, and its farewell was lost; or it stops, as Kafka's."""


class FollowerRole:
    """Acts while this node follows a leader or looks for one."""

    def __init__(self, raft: RaftState, changes: StateChanges) -> None:
        self.raft = raft
        self.changes = changes
        self._truncation = Truncation(raft)
        self._snapshot_fetch = SnapshotFetch(raft, self._truncation)
        self._connection_loss_epoch: Epoch = -1
        """The epoch in which a closed connection has started a pre-vote already (D-08)."""

    # --- the follower's turn ----------------------------------------------------------------------------

    def poll_follower(self, state: Follower, now: Now, *, timeouts_deferred: bool) -> None:
        """Fetch from the leader; once its fetch timeout is over, prepare a pre-vote."""
        raft = self.raft
        if timeouts_deferred:
            raft.suspicion.on_stalled(now.mono_ms)
            raft.update_state(replace(state, ballot=None))
        elif now.mono_ms >= state.deadline_ms:
            if state.campaign_at_ms == NEVER_MS:
                self._snapshot_fetch.on_late(now)
            if not raft.may_vote or raft.is_stopping:
                raft.follower_state.is_seeking_leader = True
                deadline_ms = now.mono_ms + max(1, raft.timing.fetch_timeout_ms)
                raft.update_state(replace(state, fetch_deadline_ms=deadline_ms, campaign_at_ms=NEVER_MS))
            elif state.campaign_at_ms == NEVER_MS:
                self._lose_leader(state, now)
            else:
                why = "leader ended its epoch" if state.epoch_ended else "leader lost"
                self.changes.become_prospective(now, why)
                return
        self.fetch(now)

    def poll_unattached(self, now: Now) -> None:
        """Look for a leader, if this node is an observer or a voter that is not whole."""
        if not self.raft.may_vote:
            self.fetch(now)

    def on_flushed(self, now: Now) -> None:
        """Send the next fetch, which acknowledges what a flush has made durable."""
        raft = self.raft
        if raft.log.is_flushed and raft.log.end_offset > 0 and raft.rejoin.health.uninitialized:
            raft.mark_initialized()
        self._poll_rejoin()
        if isinstance(raft.state, Follower | Unattached):
            self.fetch(now)

    def fetch(self, now: Now) -> None:
        """Send the next fetch, if everything appended is durable and no other fetch is on its way."""
        raft = self.raft
        if self._is_fetching_snapshot:
            self._snapshot_fetch.fetch(now)
            return
        # The position of a fetch acknowledges all before it. Node 2 has appended up to 20 and flushed up to
        # 15: if it fetched from 20, leader 1 would commit up to 20. Then node 2 loses its power, comes back
        # with 15 and leads with the vote of node 3 while node 1 is away: committed records are lost (D-02).
        if not raft.log.is_flushed or raft.follower_state.pending_truncation is not None:
            return
        if raft.requests.any_waiting(RequestKind.FETCH):
            return
        target = self._fetch_target(now)
        if target != NO_NODE:
            wait_ms = raft.timing.beat_ms if raft.may_vote else raft.timing.park_ms
            raft.send_fetch(target, RequestKind.FETCH, now, max_wait_ms=wait_ms)
            if target == raft.leader_id:
                raft.suspicion.on_asked(now.mono_ms)

    def _fetch_target(self, now: Now) -> NodeId:
        """Return the node to fetch from; NO_NODE if none is ready."""
        raft = self.raft
        leader_id = raft.leader_id if isinstance(raft.state, Follower) else NO_NODE
        if leader_id != NO_NODE and not self._is_leader_rejected:
            ready = raft.requests.is_ready(leader_id, RequestKind.FETCH, now.mono_ms)
            if ready and not raft.follower_state.is_seeking_leader:
                return leader_id
        if raft.may_vote:
            return NO_NODE
        candidates = [n for n in self._sources() if raft.requests.is_ready(n, RequestKind.FETCH, now.mono_ms)]
        return candidates[raft.random_source.next_int(len(candidates))] if candidates else NO_NODE

    @property
    def _is_fetching_snapshot(self) -> bool:
        """Whether the leader is asked for pieces of a snapshot, and for nothing else."""
        follower_state = self.raft.follower_state
        return follower_state.is_fetching_snapshot and not follower_state.is_seeking_leader

    @property
    def _is_leader_rejected(self) -> bool:
        """Whether this node has stopped following the leader of this epoch (D-14)."""
        return (self.raft.epoch, self.raft.leader_id) == self.raft.rejected_leader

    def _sources(self) -> tuple[NodeId, ...]:
        """Return the nodes that may know the leader: the other voters without a rejected leader and, for an
        observer, the bootstrap servers. A voter accepts responses of voters only (D-37).
        """
        raft = self.raft
        rejected = raft.leader_id if self._is_leader_rejected else NO_NODE
        others = tuple(node for node in raft.quorum.others if node != rejected)
        return others if raft.quorum.is_voter else (*others, *filter(is_bootstrap, raft.learned))

    def wake_at_ms(self) -> int:
        """Return the monotonic time at which this part must act next."""
        raft = self.raft
        wake_at_ms = NEVER_MS
        if isinstance(raft.state, Follower):
            wake_at_ms = raft.state.deadline_ms
        if self._is_fetching_snapshot:
            wake_at_ms = min(wake_at_ms, self._snapshot_fetch.wake_at_ms())
        elif (
            raft.log.is_flushed
            and raft.follower_state.pending_truncation is None
            and not raft.requests.any_waiting(RequestKind.FETCH)
        ):
            follows = isinstance(raft.state, Follower) and not self._is_leader_rejected
            if follows and not raft.follower_state.is_seeking_leader:
                wake_at_ms = min(
                    wake_at_ms, raft.requests.next_ready_ms((raft.leader_id,), RequestKind.FETCH)
                )
            if not raft.may_vote and isinstance(raft.state, Follower | Unattached):
                wake_at_ms = min(wake_at_ms, raft.requests.next_ready_ms(self._sources(), RequestKind.FETCH))
        return wake_at_ms

    # --- losing the leader ------------------------------------------------------------------------------

    def on_connection_closed(self, event: ConnectionClosed, now: Now) -> None:
        """Prepare a pre-vote if the connection of the last good fetch closed (D-08)."""
        raft = self.raft
        if event.connection != raft.follower_state.good_connection:
            return
        raft.follower_state.good_connection = None
        state = raft.state
        if (
            isinstance(state, Follower)
            and event.peer_id == state.leader_id
            and state.in_touch
            and not state.epoch_ended
            and self._connection_loss_epoch != state.epoch
            and raft.may_vote
            and not raft.is_stopping
        ):
            # Once an epoch. Behind a network that ends each connection after a second, node 2 would ask for
            # pre-votes, find the leader alive, and begin anew with the next connection.
            self._connection_loss_epoch = state.epoch
            self._lose_leader(state, now)

    def _lose_leader(self, state: Follower, now: Now) -> None:
        """Schedule a pre-vote after a short random delay; until then and after, grant those of others."""
        raft = self.raft
        campaign_at_ms = now.mono_ms + max(1, loss_delay_ms(raft.random_source))
        if raft.is_behind:
            campaign_at_ms += BEHIND_DELAY_MS
        raft.update_state(replace(state, in_touch=False, campaign_at_ms=campaign_at_ms, ballot=None))

    # --- responses --------------------------------------------------------------------------------------

    def on_fetch_response(
        self, sent: Sent, error: int, response: m.FetchResponse, records: bytes, now: Now
    ) -> None:
        """Handle a fetch response that passed the common checks: append, truncate, or wait and retry."""
        raft = self.raft
        if error == ErrorCode.INVALID_VOTER_KEY:
            is_outdated = raft.peers.is_outdated(raft.peers.outbound_identity(sent.to))
            if not is_outdated and sent.to not in raft.rejoin.not_accepted_by:
                self._record_amnesia()
            raft.requests.back_off(sent.to, sent.kind, now.mono_ms)
            return
        if error != ErrorCode.NONE or sent.kind is not RequestKind.FETCH:
            if error not in _NO_SIGN_OF_A_LEADER and raft.leader_id == sent.to:
                # It answers, so it is not silent, though it serves nothing: that ends with the fetch timeout.
                raft.hear_leader(now.mono_ms, is_response=True)
            raft.requests.back_off(sent.to, sent.kind, now.mono_ms, self.failure_backoff_ms(sent))
            return
        state = raft.state
        if not isinstance(state, Follower) or state.leader_id != sent.to or self._is_leader_rejected:
            raft.requests.back_off(sent.to, sent.kind, now.mono_ms, LONG_BACKOFF_MS)
            return
        raft.follower_state.is_seeking_leader = False
        raft.hear_leader(now.mono_ms, is_response=True)
        data = response.responses[0].partitions[0]
        if data.diverging_epoch.epoch >= 0 and data.diverging_epoch.end_offset >= 0:
            self._snapshot_fetch.abandon()
            self._record_good_fetch(state, now)
            theirs = OffsetAndEpoch(data.diverging_epoch.end_offset, data.diverging_epoch.epoch)
            if self._truncation.on_diverging(theirs, now):
                self.fetch(now)
            return
        if data.snapshot_id.epoch >= 0 or data.snapshot_id.end_offset >= 0:
            offered = OffsetAndEpoch(data.snapshot_id.end_offset, data.snapshot_id.epoch)
            if self._snapshot_fetch.on_offered(sent, offered, now):
                self._record_good_fetch(state, now)
                self._fetch_behind_snapshot(now)
            return
        self._snapshot_fetch.abandon()
        if records and not self._append(records, sent.to):
            raft.requests.back_off(sent.to, sent.kind, now.mono_ms)
            return
        self._record_good_fetch(state, now)
        raft.follower_state.leader_high_watermark = data.high_watermark
        raft.commit(min(raft.log.end_offset, data.high_watermark))
        raft.flush()
        self._poll_rejoin()
        self.fetch(now)

    def on_snapshot_response(
        self, sent: Sent, error: int, response: m.FetchSnapshotResponse, records: bytes, now: Now
    ) -> None:
        """Handle a piece of a snapshot: it feeds the fetch timer as records do (SF-09)."""
        state = self.raft.state
        if not isinstance(state, Follower) or state.leader_id != sent.to or self._is_leader_rejected:
            return
        if self._snapshot_fetch.on_response(sent, error, response, records, now):
            self._record_good_fetch(state, now)
        self.fetch(now)

    def on_snapshot_received(self, event: SnapshotReceived, now: Now) -> None:
        """Go on once a piece of a snapshot is written: with the next one, or behind the snapshot."""
        self._snapshot_fetch.on_received(event, now)
        self._fetch_behind_snapshot(now)

    def on_snapshot_failed(self, now: Now) -> None:
        """Ask for a piece again, whose connection broke."""
        self._snapshot_fetch.on_failed(now)

    def _fetch_behind_snapshot(self, now: Now) -> None:
        self._poll_rejoin()
        if isinstance(self.raft.state, Follower | Unattached):
            self.fetch(now)

    def on_batches_read(self, event: BatchesRead, now: Now) -> None:
        """Fetch on once a cold read has found where to truncate, and the log was truncated there (D-15)."""
        if self._truncation.on_batches_read(event, now):
            self.fetch(now)

    def _record_good_fetch(self, state: Follower, now: Now) -> None:
        raft = self.raft
        raft.last_contact_at_ms = now.mono_ms
        raft.follower_state.good_connection = raft.peers.connection_to(state.leader_id)
        if not state.epoch_ended:
            deadline_ms = now.mono_ms + raft.timing.fetch_timeout_ms
            good = Follower(state.epoch, state.leader_id, deadline_ms, state.voted, in_touch=True)
            raft.update_state(good)

    def _append(self, records: bytes, leader_id: NodeId) -> bool:
        """Append whole batches that continue the log; all of them or nothing (Q-07)."""
        raft = self.raft
        try:
            batches = self._check(records)
        except CorruptBatchError as error:
            raft.warn("bad_batch", f"leader {leader_id} sent records that do not continue the log: {error}")
            return False
        if batches:
            base_offset = raft.log.end_offset
            for batch, values in batches:
                raft.log.epochs.assign(batch.epoch, batch.base_offset)
                raft.log.keep_values(batch.base_offset, values)
            raw = [bytes(batch.raw) for batch, _ in batches]
            raft.out.append(raft.log.append(base_offset, batches[-1][0].end_offset, raw))
        return True

    def _check(self, records: bytes) -> list[tuple[BatchView, Sequence[bytes]]]:
        """Return the whole batches of a response with their values, checked down to the records. A batch that
        is cut off at the end is left out: the next fetch brings it (FRSP-18).

        Raises:
            CorruptBatchError: A batch is damaged, leaves a gap or an overlap, or has an impossible epoch.
        """
        raft = self.raft
        batches: list[tuple[BatchView, Sequence[bytes]]] = []
        end_offset, last_epoch = raft.log.end_offset, raft.log.last_epoch
        try:
            for batch in scan(records):
                if batch.base_offset != end_offset:
                    reason = f"it starts at {batch.base_offset}, but {end_offset} is next"
                    raise CorruptBatchError(reason, position_bytes=batch.position)
                if not last_epoch <= batch.epoch <= raft.epoch:
                    reason = f"epoch {batch.epoch} is not within {last_epoch} and {raft.epoch}"
                    raise CorruptBatchError(reason, position_bytes=batch.position)
                # A checksum proves that these are the bytes sent, not that they are records. If they were
                # appended, applying them would end the process of each node.
                if batch.is_control:
                    batch.records()
                batches.append((batch, batch.values()))
                end_offset, last_epoch = batch.end_offset, batch.epoch
        except CorruptBatchError as error:
            if not (batches and getattr(error, "torn", False)):
                raise
        return batches

    def failure_backoff_ms(self, sent: Sent) -> int:
        """How many ms to wait before a peer whose response failed is asked again; longer for probes."""
        is_probe = sent.kind in (RequestKind.PROBE, RequestKind.INTRODUCTION)
        return LONG_BACKOFF_MS if is_probe or self._is_leader_rejected else 0

    # --- our own promises -------------------------------------------------------------------------------

    def _record_amnesia(self) -> None:
        """Stop counting, because a voter remembers another directory under our id: what that one promised is
        unknown here (D-06).
        """
        raft = self.raft
        reason = (
            f"{REPORTED_BY_OTHERS}{raft.me.id}: this directory was replaced or restored. It is counted again "
            f"once every voter was heard and a new leader elected, but {FORGET_PEERS}"
        )
        if raft.quorum.is_voter and raft.rejoin.record_amnesia(reason):
            raft.out.append(RememberStateHealth(HealthKind.AMNESIA, raft.rejoin.health.amnesia))
            raft.out.extend(raft.peers.accept_current_peers())
            raft.alarm("not_whole", raft.rejoin.text)

    def _poll_rejoin(self) -> None:
        raft = self.raft
        if isinstance(raft.state, Follower) and raft.rejoin.try_complete(
            raft.epoch, raft.follower_state.leader_high_watermark, raft.log.flushed_offset
        ):
            raft.requests.forget(RequestKind.PROBE)  # those had no id, or were to wait
            raft.out.append(RememberStateHealth(HealthKind.WHOLE))
            raft.clear_alarm("not_whole")
