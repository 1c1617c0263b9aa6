"""Who waits for what the leader appended to be committed.

A waiter is keyed by (epoch, end offset): a `Waiters` belongs to one leadership, so the epoch is its own, and
what another leader later puts at the same offset can never complete it (D-13). Every waiter has a deadline.

Follows: REQ-12. Differs: deadlines are honoured (ACC-22 says that Kafka's never pass).
"""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from kraftd.raft.events import Token
from kraftd.raft.timing import NEVER_MS
from kraftd.types import Offset


class Waiter(msgspec.Struct, frozen=True, gc=False):
    """An append that stands in the log."""

    end_offset: Offset
    token: Token
    deadline_ms: int


class Waiters:
    """The appends of one leadership that are not committed yet, by offset. Mutable, owned by it."""

    __slots__ = ("_queue", "check_at_ms")

    def __init__(self) -> None:
        self._queue: deque[Waiter] = deque()
        self.check_at_ms = NEVER_MS
        """No deadline passes before this moment."""

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, waiters: Iterable[Waiter]) -> None:
        """Take waiters whose offsets follow those taken before."""
        earliest = self.check_at_ms
        for waiter in waiters:
            self._queue.append(waiter)
            earliest = min(earliest, waiter.deadline_ms)
        self.check_at_ms = earliest

    def committed(self, high_watermark: Offset) -> Iterator[Waiter]:
        """Let go of the waiters that the high watermark has passed."""
        queue = self._queue
        while queue and queue[0].end_offset <= high_watermark:
            yield queue.popleft()
        if not queue:
            self.check_at_ms = NEVER_MS

    def expired(self, now_ms: int) -> list[Waiter]:
        """Let go of the waiters whose time is up; their records stay in the log."""
        if now_ms < self.check_at_ms:
            return []
        late = [waiter for waiter in self._queue if waiter.deadline_ms <= now_ms]
        if late:
            self._queue = deque(waiter for waiter in self._queue if waiter.deadline_ms > now_ms)
        self.check_at_ms = min((waiter.deadline_ms for waiter in self._queue), default=NEVER_MS)
        return late

    def drop(self) -> list[Waiter]:
        """Let go of everyone: the leadership is over."""
        left = list(self._queue)
        self._queue.clear()
        self.check_at_ms = NEVER_MS
        return left
