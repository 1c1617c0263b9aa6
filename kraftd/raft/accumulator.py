"""What the leader was asked to append: not written yet, or not committed yet.

A client's append only joins the queue; the leader drains it once a turn, so that whatever arrived in one turn
of the loop is written and flushed together (D-16): that is the group commit. Linger lets few appends wait for
more; it is 0 by default, because the group commit already batches. All records of one append land in one
batch, and an append that does not fit is refused as a whole (ACC-07, ACC-24). Many appends share a batch
until it is full.

Once written, an append waits for its commit, in the order of end offsets. Both queues belong to one
leadership and end with it, so what another leader later puts at the same offset can never complete an append
(D-13). Every append has a deadline.

Follows: ACC-04, ACC-07 to ACC-10, ACC-13, ACC-16, REQ-12.
Differs: no buffers, no thread, no prepared appends: offsets are known only when a batch is built, because
only the leader's own turn builds batches. Deadlines are honoured (ACC-22 says that Kafka's never pass).
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kraftd.protocol.limits import OPERATION_BYTES_MAX, OPERATION_RECORDS_MAX
from kraftd.raft.events import Token
from kraftd.types import NEVER_MS, Offset

BATCH_BYTES_MAX = OPERATION_BYTES_MAX
"""The most bytes of a batch; the largest operation fits, and is never split."""
_BATCH_OVERHEAD_BYTES = 61
_RECORD_OVERHEAD_BYTES = 24


class QueuedAppend(msgspec.Struct, frozen=True, gc=False):
    """An append that waits for its batch."""

    token: Token
    records: Sequence[bytes]
    size_bytes: int
    deadline_ms: int


class BatchAppends(msgspec.Struct, frozen=True):
    """Appends that share a batch, in the order they came."""

    appends: Sequence[QueuedAppend]
    size_bytes: int


class Accumulator:
    """The queue of appends. Mutable; the `LeaderState` is its only owner."""

    __slots__ = ("_batch_bytes", "_drain_at_ms", "_linger_ms", "_waiting", "size_bytes")

    def __init__(self, *, linger_ms: int) -> None:
        self._linger_ms = linger_ms
        self._waiting: list[QueuedAppend] = []
        self._drain_at_ms = NEVER_MS
        self._batch_bytes = _BATCH_OVERHEAD_BYTES
        """What the last batch of the next drain would take so far."""
        self.size_bytes = 0

    @property
    def drain_at_ms(self) -> int:
        """The monotonic time at which the queue must be drained (ACC-10)."""
        return self._drain_at_ms

    @property
    def batch_room_bytes(self) -> int:
        """How much more fits into the batch that the newest append is in."""
        return BATCH_BYTES_MAX - self._batch_bytes

    def add(self, waiting: QueuedAppend, now_ms: int) -> None:
        """Queue an append. The first one starts the linger (ACC-09), which ends no later than the earliest
        deadline in the queue: an append is written before it times out, so that a timeout always means "in
        the log, outcome unknown" (D-13).
        """
        if not self._waiting:
            self._drain_at_ms = now_ms + self._linger_ms
        self._waiting.append(waiting)
        if waiting.size_bytes > self.batch_room_bytes:
            self._batch_bytes = _BATCH_OVERHEAD_BYTES
        self._batch_bytes += waiting.size_bytes
        self.size_bytes += waiting.size_bytes
        if self.size_bytes >= BATCH_BYTES_MAX:
            self._drain_at_ms = now_ms
        elif waiting.deadline_ms < self._drain_at_ms:
            self._drain_at_ms = max(now_ms, waiting.deadline_ms)

    def drain(self) -> Iterator[BatchAppends]:
        """Empty the queue; yield what each batch is to hold."""
        waiting, self._waiting = self._waiting, []
        self.size_bytes, self._batch_bytes, self._drain_at_ms = 0, _BATCH_OVERHEAD_BYTES, NEVER_MS
        appends: list[QueuedAppend] = []
        size_bytes = _BATCH_OVERHEAD_BYTES
        for append in waiting:
            if appends and size_bytes + append.size_bytes > BATCH_BYTES_MAX:
                yield BatchAppends(appends, size_bytes)
                appends, size_bytes = [], _BATCH_OVERHEAD_BYTES
            appends.append(append)
            size_bytes += append.size_bytes
        if appends:
            yield BatchAppends(appends, size_bytes)


def size_of(records: Sequence[bytes]) -> int:
    """Return the most bytes that the records can take in a batch."""
    if len(records) == 1:
        return len(records[0]) + _RECORD_OVERHEAD_BYTES
    return sum(map(len, records)) + len(records) * _RECORD_OVERHEAD_BYTES


def is_too_large(records: Sequence[bytes], size_bytes: int) -> bool:
    """Whether an append can never fit a batch (ACC-04)."""
    return size_bytes + _BATCH_OVERHEAD_BYTES > BATCH_BYTES_MAX or len(records) > OPERATION_RECORDS_MAX


class PendingAppend(msgspec.Struct, frozen=True, gc=False):
    """An append that stands in the log."""

    end_offset: Offset
    token: Token
    deadline_ms: int


class PendingAppends:
    """The appends of one leadership that are not committed yet, by offset. Mutable, owned by it."""

    __slots__ = ("_queue", "check_at_ms")

    def __init__(self) -> None:
        self._queue: deque[PendingAppend] = deque()
        self.check_at_ms = NEVER_MS
        """No deadline passes before this monotonic time."""

    def add(self, pending_appends: Iterable[PendingAppend]) -> None:
        """Add appends whose offsets follow those added before."""
        earliest = self.check_at_ms
        for pending in pending_appends:
            self._queue.append(pending)
            earliest = min(earliest, pending.deadline_ms)
        self.check_at_ms = earliest

    def take_committed(self, high_watermark: Offset) -> Iterator[PendingAppend]:
        """Remove and yield the appends that the high watermark has passed."""
        queue = self._queue
        while queue and queue[0].end_offset <= high_watermark:
            yield queue.popleft()
        if not queue:
            self.check_at_ms = NEVER_MS

    def take_expired(self, now_ms: int) -> list[PendingAppend]:
        """Remove and return the appends whose deadline has passed; their records stay in the log."""
        if now_ms < self.check_at_ms:
            return []
        late = [pending for pending in self._queue if pending.deadline_ms <= now_ms]
        if late:
            self._queue = deque(pending for pending in self._queue if pending.deadline_ms > now_ms)
        self.check_at_ms = min((pending.deadline_ms for pending in self._queue), default=NEVER_MS)
        return late

    def take_all(self) -> list[PendingAppend]:
        """Remove and return every append, because the leadership has ended."""
        left = list(self._queue)
        self._queue.clear()
        self.check_at_ms = NEVER_MS
        return left
