"""The share of time in which something was idle, over the last 30 to 60 seconds.

`IdleRatio` is told the total busy time so far whenever somebody reads it. Several may read, at any intervals:
none of them takes another one's seconds away, as they would if each measured since the last reading.
"""

_WINDOW_MS = 30_000


class IdleRatio:
    """One minus busy time by wall time. Mutable; both times in milliseconds, from any beginning."""

    __slots__ = ("_newer", "_older")

    def __init__(self, now_ms: float, busy_ms: float) -> None:
        self._older = self._newer = (now_ms, busy_ms)

    def read(self, now_ms: float, busy_ms: float) -> float:
        """The ratio, from 0 to 1; 1 before any time has gone by."""
        if now_ms - self._newer[0] >= _WINDOW_MS:
            self._older, self._newer = self._newer, (now_ms, busy_ms)
        since_ms, busy_since_ms = self._older
        if now_ms <= since_ms:
            return 1.0
        return round(min(max(1.0 - (busy_ms - busy_since_ms) / (now_ms - since_ms), 0.0), 1.0), 4)
