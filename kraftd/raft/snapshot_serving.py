"""The leader's answers to FetchSnapshot: a replica downloads a snapshot, a piece at a time.

A request is judged as a Fetch is, by epoch, leadership and identity. The bytes are read from the disk, so
every answer comes out of a `SnapshotRead`; if the leadership ends before, it is refused as a Fetch that waits
for the disk is. A piece that a voter takes counts for check-quorum if it brings it further (D-11): a voter
that loads 100 MB acknowledges nothing for a while, and is well. Observers wait for a slot (`snapshot_slots`).

A voter may go on here with what it has from another node, if the bytes are the same up to there: two releases
may write one state in another order (D-19). Who asks says what it has, by a checksum. To compare a large file
may take longer than the voter waits, which asks again then: each request ends what is read for the former one
(`ReadSnapshot.voter_id`), which is answered by a piece without bytes, wherever it came from.

Not here: which follower needs a snapshot (`log_mirror`, `replication`), and how it loads one
(`snapshot_fetch`).

Follows: Kafka's KafkaRaftClient.handleFetchSnapshotRequest (SF-01 to SF-07).
Differs: no position is too large (Q-18). A download may go on at another node; Kafka's begins anew.
"""

from msgspec.structs import replace

from kraftd.errors import ErrorCode
from kraftd.raft import snapshot_rpc
from kraftd.raft.effects import ReadSnapshot, Reply
from kraftd.raft.events import Handle, RequestReceived, SnapshotRead
from kraftd.raft.leader_state import LeaderState
from kraftd.raft.purgatory import PendingSnapshotFetch
from kraftd.raft.replication import Replication, downloading_voter
from kraftd.raft.snapshot_rpc import FetchSnapshotParams
from kraftd.raft.state import RaftState
from kraftd.types import NO_NODE, Now


class SnapshotServing:
    """Answers requests for pieces of snapshots."""

    def __init__(self, raft: RaftState, replication: Replication) -> None:
        self.raft = raft
        self.replication = replication

    def on_request(self, event: RequestReceived, params: FetchSnapshotParams, now: Now) -> None:
        """Begin to read a piece, let it wait for a slot, or refuse it."""
        raft = self.raft
        leader_state = raft.leader_state
        error = self._check(event, params)
        if error is not None or leader_state is None:
            if leader_state is not None:
                leader_state.snapshot_slots.release(event.connection)
            self._refuse(event.handle, event.version, error or ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        voter_id = downloading_voter(leader_state, event, params.replica)
        if voter_id != NO_NODE:
            leader_state.leases.renew_for_voter(voter_id, params.snapshot_id, now.mono_ms)
        else:
            self.replication.lease_for_observers(leader_state, params.snapshot_id, now)
        pending = PendingSnapshotFetch(
            event.handle,
            event.version,
            params.replica.id,
            params.snapshot_id,
            params.position,
            max(0, min(params.max_bytes, raft.snapshot_chunk_bytes)),
            params.prefix_checksum,
            voter_id,
            event.connection,
            now.mono_ms + raft.timing.park_ms,
        )
        if not pending.is_observers:
            self._read(leader_state, pending)
        elif pending.max_bytes == 0:
            self._read_nothing(leader_state, pending)
        else:
            leader_state.snapshot_slots.wait(pending)

    def poll(self, leader_state: LeaderState, now: Now) -> None:
        """Begin the reads of observers that have a slot now; who has waited long enough gets a piece without
        bytes, which keeps it waiting.
        """
        slots = leader_state.snapshot_slots
        for pending in slots.take_waiting():
            is_compared = pending.prefix_checksum >= 0
            longest_ms = leader_state.leases.longest_ms(pending.snapshot_id)
            if is_compared and slots.has_compared(pending.connection, now.mono_ms):
                self._read_nothing(leader_state, pending)
            elif slots.begin_read(pending, now.mono_ms, longest_ms):
                if is_compared:
                    slots.record_comparison(pending.connection, now.mono_ms)
                self._read(leader_state, pending)
            elif pending.deadline_ms <= now.mono_ms:
                self._read_nothing(leader_state, pending)
            else:
                slots.wait(pending)

    def _read(self, leader_state: LeaderState, pending: PendingSnapshotFetch) -> None:
        token = self.raft.new_token()
        leader_state.snapshot_fetches[token] = pending
        read = ReadSnapshot(
            token,
            pending.snapshot_id,
            pending.position,
            pending.max_bytes,
            pending.prefix_checksum,
            pending.voter_id,
        )
        self.raft.out.append(read)

    def _read_nothing(self, leader_state: LeaderState, pending: PendingSnapshotFetch) -> None:
        """Ask for the size of a snapshot alone, which costs the disk nothing."""
        self._read(leader_state, replace(pending, max_bytes=0, prefix_checksum=-1))

    def on_read(self, event: SnapshotRead, now: Now) -> None:
        """Answer the request that a read was for, unless that was done when the leadership ended."""
        raft = self.raft
        leader_state = raft.leader_state
        pending = leader_state.snapshot_fetches.pop(event.token, None) if leader_state is not None else None
        if leader_state is None or pending is None:
            return
        slots = leader_state.snapshot_slots
        if error := _check_read(event, pending):
            slots.release(pending.connection)
            self._refuse(pending.handle, pending.version, error)
            return
        leader_state.leases.record_size(pending.snapshot_id, event.size_bytes)
        follower = leader_state.follower(pending.replica_id)
        if follower is not None and follower.on_snapshot_fetch(pending.snapshot_id, pending.position):
            leader_state.check_quorum.record_fetch(pending.replica_id, now.mono_ms)
        response = snapshot_rpc.response_of(
            ErrorCode.NONE,
            raft.leader_and_epoch(pending.version),
            snapshot_id=pending.snapshot_id,
            size_bytes=event.size_bytes,
            position=pending.position,
        )
        raft.out.append(Reply(pending.handle, response, (event.data,) if event.data else ()))
        end_position = pending.position + len(event.data)
        if end_position >= event.size_bytes:
            slots.release(pending.connection)
        elif pending.max_bytes:
            slots.end_read(pending, now.mono_ms, end_position)

    def _check(self, event: RequestReceived, params: FetchSnapshotParams) -> ErrorCode | None:
        """Return the error of a request before anything is read; None if it has none."""
        raft = self.raft
        if error := self.replication.check_epoch(params.epoch):
            return error
        if not self.replication.is_identified(event, params.replica) or params.replica.id == raft.me.id:
            return ErrorCode.INVALID_VOTER_KEY
        if params.snapshot_id not in raft.log.snapshots:
            return ErrorCode.SNAPSHOT_NOT_FOUND
        if params.position < 0:
            return ErrorCode.POSITION_OUT_OF_RANGE
        return None

    def _refuse(self, handle: Handle, version: int, error: ErrorCode) -> None:
        raft = self.raft
        raft.reply(handle, snapshot_rpc.response_of(error, raft.leader_and_epoch(version)))


def _check_read(event: SnapshotRead, pending: PendingSnapshotFetch) -> ErrorCode | None:
    """Return the error of a request after its read; None if it has none."""
    if event.size_bytes < 0:
        # With bytes of another node it may only be that those begin another file than ours. One that
        # cannot be read at all is told apart (`SnapshotDamaged`).
        return ErrorCode.SNAPSHOT_NOT_FOUND
    return ErrorCode.POSITION_OUT_OF_RANGE if pending.position >= event.size_bytes else None
