"""What a leader keeps while it leads: queues, progress and timers, born and gone with the epoch.

This is the mutable half of the `Leader` state. When the leadership ends, by whatever way, everyone who waits
on it is answered here, so that nobody is left hanging (D-13, Q-08).
"""

from collections import deque
from collections.abc import Callable

import msgspec

from kraftd.raft.accumulator import Accumulator
from kraftd.raft.events import Token
from kraftd.raft.parked import Fetch, ParkedFetches
from kraftd.raft.progress import UNKNOWN, CheckQuorum, Progress
from kraftd.raft.reads import Reads
from kraftd.raft.timing import NEVER_MS, OBSERVER_SESSION_MS, OBSERVERS_MAX, Timing
from kraftd.raft.voters import VoterSet
from kraftd.raft.waiters import Waiters
from kraftd.types import NO_NODE, Epoch, NodeId, Offset, ReplicaKey


class Handover(msgspec.Struct, frozen=True):
    """A leader on its way out: it takes no more appends and waits for its successor to catch up (D-09)."""

    to: NodeId
    deadline_ms: int
    begins_ms: int
    """From when on it takes no more appends."""
    token: Token | None = None
    """Who asked; None if the process is stopping."""


class Leadership:
    """The mutable half of one leadership. Owned by the core, gone when another state begins."""

    __slots__ = (
        "_uncommitted",
        "accumulator",
        "asked_to_leave",
        "began_ms",
        "begin_at_ms",
        "check_quorum",
        "cold",
        "epoch",
        "epoch_start_offset",
        "followers",
        "handover",
        "high_watermark",
        "is_announced",
        "is_opened",
        "news_at_ms",
        "observers",
        "parked",
        "reads",
        "uncommitted_bytes",
        "waiters",
    )

    def __init__(
        self,
        *,
        epoch: Epoch,
        epoch_start_offset: Offset,
        me: NodeId,
        voters: VoterSet,
        timing: Timing,
        now_ms: int,
    ) -> None:
        others = voters.others(me)
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self.high_watermark: Offset = UNKNOWN
        """Unknown until a record of this epoch stands on a majority (HWM-02)."""
        self.followers: dict[NodeId, Progress] = {
            voter.id: Progress(voter.key) for voter in voters if voter.id != me
        }
        self.observers: dict[ReplicaKey, Progress] = {}
        self.accumulator = Accumulator(linger_ms=timing.append_linger_ms)
        self.waiters = Waiters()
        self.parked = ParkedFetches()
        self.cold: dict[Token, Fetch] = {}
        """Fetches that wait for the disk (D-15)."""
        needed = voters.majority - 1
        self.reads = Reads(others_needed=needed, retry_ms=timing.begin_quorum_ms // 2)
        self.check_quorum = CheckQuorum(
            needed=needed if others else 0, span_ms=timing.check_quorum_ms, now_ms=now_ms
        )
        self.began_ms = now_ms
        self.begin_at_ms = now_ms
        self.asked_to_leave: Handover | None = None
        """A handover that begins once this leadership is old enough; until then it takes appends."""
        self.handover: Handover | None = None
        self.is_opened = False
        """Whether the LeaderChange record is in the log."""
        self.is_announced = False
        """Whether the state machine was told to lead."""
        self.news_at_ms = NEVER_MS
        """When parked fetches are told of the high watermark, unless records take it along before."""
        self._uncommitted: deque[tuple[Offset, int]] = deque()
        self.uncommitted_bytes = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes of records that are taken but not committed, which backpressure limits."""
        return self.accumulator.size_bytes + self.uncommitted_bytes

    def note_uncommitted(self, end_offset: Offset, size_bytes: int) -> None:
        """A batch was written; it weighs on the limit until it is committed."""
        self._uncommitted.append((end_offset, size_bytes))
        self.uncommitted_bytes += size_bytes

    def note_committed(self, high_watermark: Offset) -> None:
        """The high watermark rose."""
        queue = self._uncommitted
        while queue and queue[0][0] <= high_watermark:
            self.uncommitted_bytes -= queue.popleft()[1]

    def disown(self, node_id: NodeId) -> None:
        """What this voter acknowledged is not to be relied on any more: its disk is another one (D-06)."""
        if node_id in self.followers:
            self.followers[node_id] = Progress(ReplicaKey(node_id))

    def note_uncounted(self, node_id: NodeId) -> None:
        """A voter fetched without its id: it cannot take over before it counts again (D-06)."""
        if node_id in self.followers:
            self.followers[node_id].is_uncounted = True

    def observer(self, key: ReplicaKey, now_ms: int) -> Progress:
        """The progress of an observer; the silent ones are forgotten (OBS-09)."""
        progress = self.observers.get(key)
        if progress is None:
            self.observers = {heard.key: heard for heard in self.heard_observers(now_ms)}
            if len(self.observers) >= OBSERVERS_MAX:
                del self.observers[next(iter(self.observers))]
            progress = self.observers[key] = Progress(key)
        return progress

    def heard_observers(self, now_ms: int) -> list[Progress]:
        """The observers that have fetched within their session's length (OBS-09)."""
        horizon = now_ms - OBSERVER_SESSION_MS
        return [progress for progress in self.observers.values() if progress.fetch_at_ms > horizon]

    def majority_offset(self, me: NodeId, own_flushed_offset: Offset, voters: VoterSet) -> Offset:
        """The largest offset that a majority of the voters holds durably, this member included (D-10)."""
        return voters.majority_reached(
            own_flushed_offset if voter == me else self.followers[voter].fetch_offset for voter in voters.ids
        )

    def best_followers(self, is_connected: Callable[[NodeId], bool]) -> tuple[Progress, ...]:
        """The other voters: those that count first, then those within reach, the furthest first, those never
        heard last (EQE-10).
        """
        return tuple(
            sorted(
                self.followers.values(),
                key=lambda p: (
                    p.is_uncounted,
                    not is_connected(p.key.id),
                    -p.fetch_offset,
                    p.key.id,
                    p.key.directory_id,
                ),
            )
        )

    def caught_up(
        self, to: NodeId, offset: Offset, is_connected: Callable[[NodeId], bool]
    ) -> Progress | None:
        """A follower within reach that counts and has got to `offset`: that one, or the best one if `to` is
        NO_NODE.
        """
        chosen = self.best_followers(is_connected) if to == NO_NODE else (self.followers[to],)
        able = (p for p in chosen if not p.is_uncounted)
        return next((p for p in able if p.fetch_offset >= offset and is_connected(p.key.id)), None)

    def next_deadline_ms(self) -> int:
        """When the leader must act next, retries of requests aside."""
        deadlines = (
            self.begin_at_ms,
            self.accumulator.drain_at_ms,
            self.parked.next_deadline_ms,
            self.waiters.check_at_ms,
            self.reads.next_deadline_ms,
            self.reads.retry_at_ms,
            self.news_at_ms,
        )
        earliest = min(deadlines)
        if self.followers:
            earliest = min(earliest, self.check_quorum.deadline_ms)
        if self.handover is not None:
            earliest = min(earliest, self.handover.deadline_ms)
        if self.asked_to_leave is not None:
            earliest = min(earliest, self.asked_to_leave.begins_ms, self.asked_to_leave.deadline_ms)
        return earliest
