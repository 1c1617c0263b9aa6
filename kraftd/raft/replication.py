"""The leader's side of replication: fetches, held back or answered, and what they acknowledge.

A fetch position is an acknowledgement: its sender holds everything before it durably. So only a position that
lies on this log counts, and only from the node known under that id (D-06). The high watermark moves when a
majority has acknowledged a record of the leader's own epoch, never before (Raft, figure 8: a record of an
older epoch on a majority can still be overwritten), and followers that wait here are told within a
millisecond, with the next records if there are any (D-10).

Observers come after the followers, in groups (D-24): when something new is committed, at once, and after that
at most every `kraftd.observer.linger.ms`, less often the more they are. The disk is read for one of them at a
time.

Follows: FREQ-*, HWM-*, D-10, D-11, D-15, D-24.
Differs: an observer is given committed records only, so it truncates nothing, and is answered once for a
record, not for its append and for its commit. While handing over the leader goes on serving fetches
(FREQ-26), because that is what it waits for (D-09). A new high watermark waits a millisecond for records to
carry it (D-10): that saves a sixth of the work for a single writer.
"""

from collections.abc import Sequence

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import rpc
from kraftd.raft.effects import AppendDone, ColdRead, Reply
from kraftd.raft.events import BatchesRead, RequestReceived
from kraftd.raft.leader_state import LeaderState
from kraftd.raft.purgatory import PendingFetch
from kraftd.raft.rpc import FetchParams
from kraftd.raft.state import RaftState
from kraftd.records.batch import ending_by
from kraftd.types import NEVER_MS, NO_NODE, Epoch, NodeId, Now, OffsetAndEpoch, ReplicaKey

_HW_PUSH_DELAY_MS = 1


class Replication:
    """Answers fetches, and moves the high watermark."""

    def __init__(self, raft: RaftState) -> None:
        self.raft = raft
        self._cached_response: tuple[tuple[int, int, int, int], m.FetchResponse] | None = None

    # --- requests ---------------------------------------------------------------------------------------

    def on_fetch(self, event: RequestReceived, params: FetchParams, now: Now) -> None:
        """Answer a fetch, or park it."""
        raft = self.raft
        leader_state = raft.leader_state
        if params.replica.id < 0 and event.peer is not None:
            if raft.peers.record_rejoining(event.peer):
                # Node 3, an old copy, voted for node 2 before it was told what it is. Its response comes on
                # another connection than this fetch: counted after it, it would pass for one of a node that
                # has forgotten nothing. Node 3 is asked again.
                raft.requests.forget_votes_of(event.peer.node_id)
            if leader_state is not None:
                leader_state.record_uncounted(event.peer.node_id)
        error = self._check(params)
        if error is not ErrorCode.INVALID_REQUEST and not self.is_identified(event, params.replica):
            error = ErrorCode.INVALID_VOTER_KEY
        if error is not None or leader_state is None:
            raft.refuse_fetch(event.handle, event.version, error or ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if not raft.log.is_in_last_epoch(params.position) and self._redirect(
            leader_state, event, params, now
        ):
            return
        if params.replica.id >= 0:
            self._acknowledge(leader_state, params, now)
        wait_ms = min(params.max_wait_ms, raft.timing.park_ms)
        fetch = PendingFetch(
            event.handle,
            params.replica.id,
            params.position.offset,
            params.high_watermark,
            raft.log.fetch_bytes_max,
            event.version,
            now.mono_ms + wait_ms,
            leader_state.follower(params.replica.id) is not None,
        )
        if not fetch.is_follower and wait_ms > 0 and leader_state.purgatory.joins_group(fetch, now.mono_ms):
            self._park(leader_state, fetch, now.mono_ms)
        else:
            self._serve(leader_state, fetch, wait_ms)

    def _redirect(
        self, leader_state: LeaderState, event: RequestReceived, params: FetchParams, now: Now
    ) -> bool:
        """Answer a fetch whose position this log cannot serve with what to do: load a snapshot, or truncate.
        Returns False if it can be served.
        """
        raft = self.raft
        snapshot_id = raft.log.snapshot_for(params.position)
        if snapshot_id is None and not raft.log.serves(params.position):
            raft.refuse_fetch(event.handle, event.version, ErrorCode.OFFSET_OUT_OF_RANGE)
            return True
        diverging = raft.log.diverges_at(params.position) if snapshot_id is None else None
        if snapshot_id is None and diverging is None:
            return False
        if snapshot_id is not None:
            voter_id = downloading_voter(leader_state, event, params.replica)
            if voter_id != NO_NODE:
                leader_state.leases.offer_to_voter(voter_id, snapshot_id, now.mono_ms)
            else:
                self.lease_for_observers(leader_state, snapshot_id, now)
        response = rpc.fetch_response(
            ErrorCode.NONE,
            raft.fetch_leader_and_epoch(event.version),
            high_watermark=leader_state.high_watermark,
            log_start_offset=raft.log.start_offset,
            diverging=diverging,
            snapshot_id=snapshot_id,
        )
        raft.reply(event.handle, response)
        return True

    def lease_for_observers(self, leader_state: LeaderState, snapshot_id: OffsetAndEpoch, now: Now) -> None:
        """Keep a snapshot for observers that are told of it, or load it (D-22, D-24)."""
        is_newest = snapshot_id == self.raft.log.snapshots[-1]
        leader_state.leases.renew_for_observers(snapshot_id, now.mono_ms, is_newest=is_newest)

    def _check(self, params: FetchParams) -> ErrorCode | None:
        """Return the error of a fetch before its position is compared (FREQ-01, FREQ-02); None if it has
        none.
        """
        if not rpc.is_sane(params):
            return ErrorCode.INVALID_REQUEST
        if error := self.check_epoch(params.epoch):
            return error
        if params.replica.id == self.raft.me.id:
            return ErrorCode.INVALID_VOTER_KEY  # a broker that was given our id
        return None

    def check_epoch(self, epoch: Epoch) -> ErrorCode | None:
        """Return why this node does not serve a replica of that epoch as its leader; None if it does."""
        raft = self.raft
        if epoch < raft.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > raft.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if raft.leader_state is None else None

    def is_identified(self, event: RequestReceived, replica: ReplicaKey) -> bool:
        """Whether a fetch comes from the node that it names, and may be counted for it (D-06).

        Followers check this, too: a node whose disk was replaced must learn it from any voter that knows.
        """
        raft = self.raft
        if replica.id == raft.me.id or replica.id not in raft.quorum.voters or not raft.quorum.is_voter:
            return True  # an observer is never counted, and counts no other
        if event.peer is None or event.peer.node_id != replica.id:
            return False
        barriers = raft.peers.verify_identity(event.peer)
        if barriers is None:
            return not raft.peers.refuses(event.peer)
        raft.out.extend(barriers)
        return True

    def _acknowledge(self, leader_state: LeaderState, params: FetchParams, now: Now) -> None:
        """Record the progress of a replica; a voter's may restart check-quorum and commit records."""
        raft = self.raft
        offset = params.position.offset
        follower = leader_state.follower(params.replica.id)
        if follower is None:
            key = ReplicaKey(params.replica.id, params.replica.directory_id)
            leader_state.observer(key, now.mono_ms).on_fetch(offset, raft.log.end_offset, now)
            return
        if follower.key.directory_id != params.replica.directory_id:
            follower.key = params.replica
        if follower.on_fetch(offset, raft.log.end_offset, now):
            leader_state.check_quorum.record_fetch(params.replica.id, now.mono_ms)
        self.advance(leader_state, now)

    # --- the high watermark -----------------------------------------------------------------------------

    def advance(self, leader_state: LeaderState, now: Now) -> None:
        """Move the high watermark to what a majority holds durably, if that is past the epoch's start."""
        raft = self.raft
        offset = leader_state.majority_offset(raft.log.flushed_offset)
        # A majority is not enough before the leader's own first record (Raft, figure 8). Node 1 wrote record
        # 9 in epoch 2 and lost the lead; node 3 won epoch 3 with node 2's vote and wrote another record 9.
        # Node 1 leads epoch 4 and brings its record 9 to node 2. Were it committed now, node 3 could still
        # win epoch 5, its log ends in epoch 3, and overwrite it. Once a record of epoch 4 is on nodes 1 and
        # 2, node 3 cannot win.
        if offset <= leader_state.epoch_start_offset or offset <= leader_state.high_watermark:
            return
        is_first = leader_state.high_watermark < 0
        leader_state.high_watermark = offset
        raft.commit(offset)
        if is_first:
            leader_state.reads.set_required_offset(offset)
        leader_state.record_committed(offset)
        out = raft.out
        for pending in leader_state.pending_appends.take_committed(offset):
            out.append(AppendDone(pending.token, ErrorCode.NONE, pending.end_offset))
        leader_state.hw_push_at_ms = min(leader_state.hw_push_at_ms, now.mono_ms + _HW_PUSH_DELAY_MS)
        leader_state.purgatory.plan_group(now.mono_ms)

    # --- responses --------------------------------------------------------------------------------------

    def serve_parked(self, leader_state: LeaderState, now: Now) -> None:
        """Answer the parked fetches of followers after an append."""
        leader_state.hw_push_at_ms = NEVER_MS
        for fetch in leader_state.purgatory.take_followers():
            self._serve(leader_state, fetch, fetch.deadline_ms - now.mono_ms)

    def push_high_watermark(self, leader_state: LeaderState) -> None:
        """Answer the parked fetches of followers that do not know the high watermark (D-10).

        It waits for a millisecond, in which records may carry it: a writer that has its response sends its
        next change well within that time. Without the wait each group would cost two responses and two
        fetches of every follower instead of one.
        """
        leader_state.hw_push_at_ms = NEVER_MS
        for fetch in leader_state.purgatory.take_below_high_watermark(leader_state.high_watermark):
            self._serve(leader_state, fetch, 0)

    def serve_observers(self, leader_state: LeaderState, now: Now) -> None:
        """Answer the parked fetches of observers that do not know what is committed."""
        for fetch in leader_state.purgatory.take_group(leader_state.high_watermark, now.mono_ms):
            self._serve(leader_state, fetch, 0)

    def expire_parked(self, leader_state: LeaderState, now_ms: int) -> None:
        """Answer the fetches whose wait is over, without records (FREQ-07)."""
        for fetch in leader_state.purgatory.take_expired(now_ms):
            self._reply(leader_state, fetch, ())

    def on_batches_read(self, event: BatchesRead) -> bool:
        """Answer the fetch that a cold read was for; state and generation are checked again (D-15). Returns
        False if it was for no fetch.
        """
        leader_state = self.raft.leader_state
        fetch = leader_state.cold_reads.pop(event.token, None) if leader_state is not None else None
        if leader_state is None or fetch is None:
            return False
        if event.records and event.generation == self.raft.log.generation:
            may_have_all = fetch.is_follower or leader_state.high_watermark >= self.raft.log.end_offset
            records = event.records if may_have_all else ending_by(event.records, leader_state.high_watermark)
            self._reply(leader_state, fetch, (records,) if records else ())
        elif fetch.offset < self.raft.log.start_offset:
            # The log was cut there before it was read: the next fetch is told of a snapshot.
            self._reply(leader_state, fetch, ())
        else:
            self.raft.refuse_fetch(fetch.handle, fetch.version, ErrorCode.UNKNOWN_SERVER_ERROR)
        while not leader_state.is_reading_for_observer:
            waiting = leader_state.purgatory.take_next_for_disk()
            if waiting is None:
                break
            self._serve(leader_state, waiting, 0)
        return True

    def _serve(self, leader_state: LeaderState, fetch: PendingFetch, wait_ms: int) -> None:
        raft = self.raft
        limit = None if fetch.is_follower else max(leader_state.high_watermark, raft.log.start_offset)
        batches = raft.log.read(fetch.offset, fetch.max_bytes, limit)
        if batches is None:
            self._read_from_disk(leader_state, fetch)
        elif batches or wait_ms <= 0:
            self._reply(leader_state, fetch, batches)
        else:
            self._park(leader_state, fetch, fetch.deadline_ms - wait_ms)

    def _read_from_disk(self, leader_state: LeaderState, fetch: PendingFetch) -> None:
        """Begin a cold read; for one observer at a time, so that a follower's waits for one at most."""
        raft = self.raft
        if not fetch.is_follower and leader_state.is_reading_for_observer:
            leader_state.purgatory.queue_for_disk(fetch)
            return
        token = raft.new_token()
        leader_state.cold_reads[token] = fetch
        raft.out.append(ColdRead(token, raft.log.generation, fetch.offset, fetch.max_bytes))

    def _park(self, leader_state: LeaderState, fetch: PendingFetch, now_ms: int) -> None:
        purgatory = leader_state.purgatory
        if not fetch.is_follower and purgatory.is_full_for(fetch.replica_id):
            self._reply(leader_state, fetch, ())
            return
        replaced = purgatory.take_replaced(fetch)
        if replaced is not None:
            self._reply(leader_state, replaced, ())
        purgatory.park(fetch)
        if not fetch.wants_high_watermark(leader_state.high_watermark):
            return
        if fetch.is_follower:
            leader_state.hw_push_at_ms = min(leader_state.hw_push_at_ms, now_ms + _HW_PUSH_DELAY_MS)
        else:
            purgatory.plan_group(now_ms)

    def _reply(self, leader_state: LeaderState, fetch: PendingFetch, batches: Sequence[bytes]) -> None:
        response = self._good_response(leader_state, fetch.version)
        self.raft.out.append(Reply(fetch.handle, response, batches))

    def _good_response(self, leader_state: LeaderState, version: int) -> m.FetchResponse:
        """Return the body of a response without error: the same for all until the high watermark moves."""
        key = (leader_state.epoch, leader_state.high_watermark, version, self.raft.log.start_offset)
        if self._cached_response is None or self._cached_response[0] != key:
            response = rpc.fetch_response(
                ErrorCode.NONE,
                self.raft.fetch_leader_and_epoch(version),
                high_watermark=leader_state.high_watermark,
                log_start_offset=key[3],
            )
            self._cached_response = (key, response)
        return self._cached_response[1]


def downloading_voter(leader_state: LeaderState, event: RequestReceived, replica: ReplicaKey) -> NodeId:
    """Return the voter that loads a snapshot: by its id; by its connection if it has none to give, since it
    is not whole. NO_NODE if it is an observer.
    """
    node_id = replica.id if replica.id >= 0 or event.peer is None else event.peer.node_id
    return node_id if leader_state.follower(node_id) is not None else NO_NODE
