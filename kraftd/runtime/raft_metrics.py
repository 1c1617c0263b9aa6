"""Kafka's raft metrics that must be measured, under Kafka's names.

Entered through `RaftMetrics`, which is told of appends, commits, flushes and state changes, and read by the
`metrics` line and the Prometheus page. Averages and rates cover the last 30 to 60 seconds, as Kafka's do: two
windows of 30 s, of which the older one is dropped as a whole.

Not here: what can be read off the raft node. `node_status` puts both together, for the `metrics` line and the
Prometheus page.
"""

from collections import deque
from collections.abc import Mapping

from kraftd.raft.effects import StateChanged
from kraftd.runtime.sample import Number
from kraftd.types import Offset

_WINDOW_MS = 30_000


class Window:
    """Sum, count and maximum of what was seen in the last 30 to 60 seconds."""

    __slots__ = ("_current", "_previous", "_started_at_ms", "_turned_at_ms")

    def __init__(self, now_ms: int) -> None:
        self._started_at_ms = now_ms
        self._turned_at_ms = now_ms
        self._current = (0, 0.0, 0.0)
        self._previous = (0, 0.0, 0.0)

    def add(self, value: float, now_ms: int) -> None:
        """Add one value."""
        self._turn(now_ms)
        count, total, highest = self._current
        self._current = (count + 1, total + value, max(highest, value))

    def average(self, now_ms: int) -> float:
        """The mean value; 0 if nothing was seen."""
        self._turn(now_ms)
        count = self._current[0] + self._previous[0]
        return (self._current[1] + self._previous[1]) / count if count else 0.0

    def maximum(self, now_ms: int) -> float:
        """The highest value; 0 if nothing was seen."""
        self._turn(now_ms)
        return max(self._current[2], self._previous[2])

    def per_second(self, now_ms: int) -> float:
        """The sum of the values by the time they were seen in."""
        self._turn(now_ms)
        since_ms = max(self._started_at_ms, self._turned_at_ms - _WINDOW_MS)
        return 1_000 * (self._current[1] + self._previous[1]) / max(now_ms - since_ms, 1_000)

    def _turn(self, now_ms: int) -> None:
        age_ms = now_ms - self._turned_at_ms
        if age_ms < _WINDOW_MS:
            return
        self._previous = self._current if age_ms < 2 * _WINDOW_MS else (0, 0.0, 0.0)
        self._current = (0, 0.0, 0.0)
        self._turned_at_ms = now_ms - age_ms % _WINDOW_MS


class RaftMetrics:
    """Metrics that must be recorded when events occur."""

    def __init__(self, now_ms: int) -> None:
        self.commit_latency_ms = Window(now_ms)
        self.election_latency_ms = Window(now_ms)
        self.appended_records = Window(now_ms)
        self.fetched_records = Window(now_ms)
        self.elections = 0
        self.leader_changes = 0
        self.flushes = 0
        self.flush_total_ms = 0
        self.flush_max_ms = 0
        self._uncommitted: deque[tuple[Offset, int]] = deque()
        self._electing_since_ms: int | None = None

    def appended(self, base_offset: Offset, end_offset: Offset, now_ms: int, *, as_leader: bool) -> None:
        """Count records that were appended, as leader or from a fetch."""
        if as_leader:
            self.appended_records.add(end_offset - base_offset, now_ms)
            self._uncommitted.append((end_offset, now_ms))
        else:
            self.fetched_records.add(end_offset - base_offset, now_ms)

    def committed(self, high_watermark: Offset, now_ms: int) -> None:
        """The high watermark moved."""
        uncommitted = self._uncommitted
        while uncommitted and uncommitted[0][0] <= high_watermark:
            _, since_ms = uncommitted.popleft()
            self.commit_latency_ms.add(now_ms - since_ms, now_ms)

    def flushed(self, took_ms: int) -> None:
        """A flush of the log ended."""
        self.flushes += 1
        self.flush_total_ms += took_ms
        self.flush_max_ms = max(self.flush_max_ms, took_ms)

    def state_changed(self, change: StateChanged, now_ms: int) -> None:
        """Count elections and measure their time; forget appends of a lost leadership."""
        if change.source == "leader" or change.target == "leader":
            self._uncommitted.clear()
        if change.target in ("prospective", "candidate"):
            if change.target == "candidate":
                self.elections += 1
            if self._electing_since_ms is None:
                self._electing_since_ms = now_ms
        elif change.target in ("leader", "follower"):
            self.leader_changes += 1
            if self._electing_since_ms is not None:
                self.election_latency_ms.add(now_ms - self._electing_since_ms, now_ms)
                self._electing_since_ms = None

    def readings(self, now_ms: int) -> Mapping[str, Number]:
        """The part of the raft metrics that is measured, by Kafka's names."""
        return {
            "commit-latency-avg": round(self.commit_latency_ms.average(now_ms), 3),
            "commit-latency-max": self.commit_latency_ms.maximum(now_ms),
            "election-latency-avg": round(self.election_latency_ms.average(now_ms), 3),
            "election-latency-max": self.election_latency_ms.maximum(now_ms),
            "fetch-records-rate": round(self.fetched_records.per_second(now_ms), 3),
            "append-records-rate": round(self.appended_records.per_second(now_ms), 3),
        }
