"""The mutable state of a leader: queues, the replicas, held fetches and timers.

A `LeaderState` is made when an epoch is won and dropped with it. When the leadership ends, in whatever way,
every append, read and fetch that waits on it is answered (D-13, Q-08).

A fetch position is an acknowledgement: everything before it is durable at the follower (D-02).
`ReplicaState` keeps it, for the high watermark, check-quorum and `DescribeQuorum`.

The purgatory holds at most one fetch a replica: a new one answers the old, and only followers always find
room. Each is answered by the first of: records to send, a high watermark that the replica does not know
(D-10), the end of its wait, the end of the leadership.

Follows: HWM-01 to HWM-05, DQ-04, CQ-02 to CQ-05, FREQ-06 to FREQ-10, FREQ-27, KIP-1166; D-10, D-11.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from kraftd.raft.accumulator import Accumulator, PendingAppends
from kraftd.raft.events import Token
from kraftd.raft.purgatory import FetchPurgatory, PendingFetch, PendingSnapshotFetch
from kraftd.raft.reads import Reads
from kraftd.raft.snapshot_leases import SnapshotLeases
from kraftd.raft.snapshot_slots import SnapshotSlots
from kraftd.raft.timing import OBSERVER_SESSION_MS, OBSERVERS_MAX, Timing
from kraftd.raft.voters import Quorum
from kraftd.types import NEVER_MS, NO_NODE, Epoch, NodeId, Now, Offset, OffsetAndEpoch, ReplicaKey

UNKNOWN: Offset = -1


class ReplicaState:
    """What a leader knows of one replica, a follower or an observer; Kafka's ReplicaState. Mutable; the
    `LeaderState` is its only owner.
    """

    __slots__ = (
        "_leader_end_seen",
        "_snapshot_position",
        "caught_up_ms",
        "fetch_at_ms",
        "fetch_offset",
        "is_uncounted",
        "key",
        "last_fetch_ms",
    )

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.fetch_offset: Offset = UNKNOWN
        self.is_uncounted = False
        """Whether its last fetch had no replica id, because it knows that it is not whole (D-06)."""
        self.last_fetch_ms = -1
        """Wall clock of the last fetch, for `DescribeQuorum`."""
        self.fetch_at_ms = -1
        """Monotonic moment of the last fetch."""
        self.caught_up_ms = -1
        """Wall clock when it last held all records that the leader had."""
        self._leader_end_seen: Offset = UNKNOWN
        self._snapshot_position: tuple[OffsetAndEpoch, int] | None = None
        """Which piece of which snapshot it took last."""

    def on_fetch(self, offset: Offset, leader_end_offset: Offset, now: Now) -> bool:
        """Record a valid fetch. Returns whether the replica made progress (D-11).

        A fetch that only repeats its position is no progress, unless it reached what was the leader's end at
        its last fetch: it has all there was. Node 2's disk is full: it fetches from 10 of 20 again and again
        and appends nothing. If that counted, node 1 would lead for ever and commit nothing (KAFKA-15911).
        After a regression the comparison starts anew from the lower offset.
        """
        reached = self._leader_end_seen != UNKNOWN and offset >= self._leader_end_seen
        progressed = offset > self.fetch_offset or reached
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now.wall_ms)
        elif reached:
            self.caught_up_ms = max(self.caught_up_ms, self.last_fetch_ms)
        self.fetch_offset = offset
        self.is_uncounted = False
        self.last_fetch_ms = now.wall_ms
        self.fetch_at_ms = now.mono_ms
        self._leader_end_seen = leader_end_offset
        return progressed

    def on_snapshot_fetch(self, snapshot_id: OffsetAndEpoch, position: int) -> bool:
        """Record a piece of a snapshot. Returns whether the replica made progress (D-11): one that asks for
        the same piece again and again makes none.
        """
        before, self._snapshot_position = self._snapshot_position, (snapshot_id, position)
        return before is None or before[0] != snapshot_id or before[1] < position


class CheckQuorum:
    """The timer of check-quorum: runs out unless a majority makes fetch progress. Mutable, owned by the
    `LeaderState`.
    """

    __slots__ = ("_progressed", "_quorum", "_span_ms", "deadline_ms")

    def __init__(self, quorum: Quorum, *, span_ms: int, now_ms: int) -> None:
        self._quorum = quorum
        self._span_ms = span_ms
        self._progressed: set[int] = set()
        self.deadline_ms = now_ms + span_ms

    def record_fetch(self, voter: int, now_ms: int) -> None:
        """Record progress of a voter. Once a majority has made some, the timer starts again (CQ-02).

        Progress after the deadline does not count: after a stall of this process, the fetches that waited
        meanwhile are handled before the deadline is checked (D-01).
        """
        if now_ms >= self.deadline_ms:
            return
        self._progressed.add(voter)
        if len(self._progressed) >= self._quorum.followers_needed:
            self._progressed.clear()
            self.deadline_ms = now_ms + self._span_ms

    def is_over(self, now_ms: int) -> bool:
        """Whether too few voters made progress in time; never in a quorum of one (CQ-05)."""
        return self._quorum.followers_needed > 0 and now_ms >= self.deadline_ms


class Handover(msgspec.Struct, frozen=True):
    """A hand-over of leadership: the leader takes no more appends and waits for its successor to catch up
    (D-09).
    """

    to: NodeId
    deadline_ms: int
    begins_ms: int
    """When it begins to refuse appends."""
    token: Token | None = None
    """The caller that asked; None if the process is stopping, or the state machine can apply nothing."""


class LeaderState:
    """The mutable state of a leader. Owned by the `RaftState`, dropped when another state begins."""

    __slots__ = (
        "_followers",
        "_quorum",
        "_uncommitted",
        "_written_bytes",
        "accumulator",
        "began_ms",
        "check_quorum",
        "cold_reads",
        "epoch",
        "epoch_start_offset",
        "handover",
        "has_leader_change",
        "heartbeat_at_ms",
        "high_watermark",
        "hw_push_at_ms",
        "is_notified",
        "leases",
        "observers",
        "pending_appends",
        "purgatory",
        "reads",
        "requested_handover",
        "snapshot_fetches",
        "snapshot_slots",
    )

    def __init__(
        self,
        *,
        epoch: Epoch,
        epoch_start_offset: Offset,
        quorum: Quorum,
        timing: Timing,
        now_ms: int,
    ) -> None:
        self._quorum = quorum
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self.high_watermark: Offset = UNKNOWN
        """Unknown until a record of this epoch stands on a majority (HWM-02)."""
        self._followers: dict[NodeId, ReplicaState] = {}
        self.observers: dict[ReplicaKey, ReplicaState] = {}
        self.accumulator = Accumulator(linger_ms=timing.append_linger_ms)
        self.pending_appends = PendingAppends()
        self.purgatory = FetchPurgatory(timing.observer_linger_ms)
        self.cold_reads: dict[Token, PendingFetch] = {}
        """Fetches that wait for a cold read (D-15)."""
        self.snapshot_fetches: dict[Token, PendingSnapshotFetch] = {}
        """Requests for pieces of snapshots that wait for the disk."""
        self.snapshot_slots = SnapshotSlots()
        self.leases = SnapshotLeases(
            span_ms=timing.fetch_timeout_ms,
            voters_span_ms=timing.fetch_timeout_ms + timing.election_timeout_ms,
        )
        self.reads = Reads(quorum, retry_ms=timing.heartbeat_interval_ms // 2)
        self.check_quorum = CheckQuorum(quorum, span_ms=timing.check_quorum_ms, now_ms=now_ms)
        self.began_ms = now_ms
        self.heartbeat_at_ms = now_ms
        self.requested_handover: Handover | None = None
        """A hand-over that begins once this leadership is old enough; until then it takes appends."""
        self.handover: Handover | None = None
        self.has_leader_change = False
        """Whether the LeaderChange record is in the log."""
        self.is_notified = False
        """Whether the state machine was told to lead."""
        self.hw_push_at_ms = NEVER_MS
        """When parked fetches are answered with the high watermark, unless records carry it before."""
        self._uncommitted: deque[tuple[Offset, int]] = deque()
        self._written_bytes = 0
        """Of the batches in `_uncommitted`."""

    @property
    def uncommitted_bytes(self) -> int:
        """Bytes of records that were accepted and are not committed, written or queued: they are limited."""
        return self.accumulator.size_bytes + self._written_bytes

    @property
    def is_reading_for_observer(self) -> bool:
        """Whether a cold read for an observer is under way."""
        return any(not fetch.is_follower for fetch in self.cold_reads.values())

    def record_uncommitted(self, end_offset: Offset, size_bytes: int) -> None:
        """Count a batch that was written towards the limit until it is committed."""
        self._uncommitted.append((end_offset, size_bytes))
        self._written_bytes += size_bytes

    def record_committed(self, high_watermark: Offset) -> None:
        """Release the bytes of the batches below the high watermark."""
        queue = self._uncommitted
        while queue and queue[0][0] <= high_watermark:
            self._written_bytes -= queue.popleft()[1]

    @property
    def followers(self) -> list[ReplicaState]:
        """The state of each other voter's replica, by id."""
        known = self._followers
        return [known.get(voter) or self._admit(voter) for voter in self._quorum.others]

    def follower(self, node_id: NodeId) -> ReplicaState | None:
        """Return the state of another voter's replica; None if `node_id` is none."""
        if node_id not in self._quorum.others:
            return None
        return self._followers.get(node_id) or self._admit(node_id)

    def _admit(self, node_id: NodeId) -> ReplicaState:
        key = next(voter.key for voter in self._quorum.voters if voter.id == node_id)
        follower = self._followers[node_id] = ReplicaState(key)
        return follower

    def reset_follower(self, node_id: NodeId) -> None:
        """Discard what this voter acknowledged: its disk was replaced (D-06)."""
        if self.follower(node_id) is not None:
            self._followers[node_id] = ReplicaState(ReplicaKey(node_id))

    def record_uncounted(self, node_id: NodeId) -> None:
        """Mark a voter that fetched without its id: no successor before it counts again (D-06)."""
        if (follower := self.follower(node_id)) is not None:
            follower.is_uncounted = True

    def observer(self, key: ReplicaKey, now_ms: int) -> ReplicaState:
        """Return the state of an observer, added if it is new; silent observers are dropped (OBS-09)."""
        replica = self.observers.get(key)
        if replica is None:
            self.observers = {observer.key: observer for observer in self.active_observers(now_ms)}
            if len(self.observers) >= OBSERVERS_MAX:
                del self.observers[next(iter(self.observers))]
            replica = self.observers[key] = ReplicaState(key)
        return replica

    def active_observers(self, now_ms: int) -> list[ReplicaState]:
        """Return the observers that have fetched within their session's length (OBS-09)."""
        horizon = now_ms - OBSERVER_SESSION_MS
        return [replica for replica in self.observers.values() if replica.fetch_at_ms > horizon]

    def majority_offset(self, own_flushed_offset: Offset) -> Offset:
        """Return the largest offset that a majority holds durably, this node included (D-10).

        It may be lower than before: node 2 acknowledged 20, lost its disk and fetches from 0. What is
        committed stays committed, so `Replication.advance` never lowers the high watermark.
        """
        reached = [follower.fetch_offset for follower in self.followers]
        return self._quorum.voters.majority_reached((*reached, own_flushed_offset))

    def best_followers(self, is_connected: Callable[[NodeId], bool]) -> tuple[ReplicaState, ...]:
        """Return the other voters, the best successor first: counted before uncounted, then connected before
        unconnected, then by fetch offset (EQE-10).
        """
        return tuple(
            sorted(
                self.followers,
                key=lambda p: (
                    p.is_uncounted,
                    not is_connected(p.key.id),
                    -p.fetch_offset,
                    p.key.id,
                    p.key.directory_id,
                ),
            )
        )

    def find_caught_up(
        self, to: NodeId, offset: Offset, is_connected: Callable[[NodeId], bool]
    ) -> ReplicaState | None:
        """Return a follower that can take over, `to` or the best one if `to` is NO_NODE: it counts, is
        connected, and has fetched up to `offset`. None if there is none.
        """
        chosen = self.best_followers(is_connected) if to == NO_NODE else (self.follower(to),)
        able = (p for p in chosen if p is not None and not p.is_uncounted)
        return next((p for p in able if p.fetch_offset >= offset and is_connected(p.key.id)), None)

    def next_response_ms(self) -> int:
        """Return when a parked fetch must be answered next."""
        purgatory = self.purgatory
        return min(purgatory.next_deadline_ms, purgatory.observers_at_ms, self.hw_push_at_ms)

    def next_deadline_ms(self) -> int:
        """Return when the leader must act next, retries of requests aside."""
        deadlines = (
            self.heartbeat_at_ms,
            self.accumulator.drain_at_ms,
            self.pending_appends.check_at_ms,
            self.reads.next_deadline_ms,
            self.reads.retry_at_ms,
            self.next_response_ms(),
        )
        earliest = min(deadlines)
        if self._quorum.followers_needed:
            earliest = min(earliest, self.check_quorum.deadline_ms)
        if self.snapshot_slots.is_waiting:
            earliest = min(earliest, self.snapshot_slots.next_deadline_ms)
        if self.handover is not None:
            earliest = min(earliest, self.handover.deadline_ms)
        if self.requested_handover is not None:
            earliest = min(earliest, self.requested_handover.begins_ms, self.requested_handover.deadline_ms)
        return earliest
