"""A logger that repeated events, such as those that a stranger causes, cannot flood.

Entered through `RateLimitedLogger.warning` and `info`: the first line of an event and key is logged,
repeats within a minute are only counted, and the next line that is logged tells how many were left out.
With `lines_max`, one event has no more lines than that in a minute, however many keys it has: an attacker
with many addresses has many keys. Long texts are cut.
"""

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from kraftd.protocol import limits

_INTERVAL_S = 60.0
_KINDS_MAX = 1_000


class _Kind(msgspec.Struct):
    logged_at_s: float
    suppressed: int = 0


class _Lines(msgspec.Struct):
    since_s: float
    count: int = 0
    suppressed: int = 0


class RateLimitedLogger:
    """Logs each event and key once in `interval_s`."""

    def __init__(
        self,
        log: Any,
        clock_s: Callable[[], float],
        *,
        interval_s: float = _INTERVAL_S,
        lines_max: int = limits.LOG_LINES_PER_EVENT_MAX,
    ) -> None:
        self._lines_max = lines_max
        self._lines: dict[str, _Lines] = {}
        self._log = log
        self._clock_s = clock_s
        self._interval_s = interval_s
        self._kinds: dict[Hashable, _Kind] = {}

    def warning(self, event: str, *, key: Hashable, **fields: object) -> None:
        """Log a warning, unless one of the same event and key was logged in this interval."""
        self._log_once(self._log.warning, event, key, fields)

    def info(self, event: str, *, key: Hashable, **fields: object) -> None:
        """The same on level info."""
        self._log_once(self._log.info, event, key, fields)

    def _log_once(
        self, write: Callable[..., object], event: str, key: Hashable, fields: dict[str, object]
    ) -> None:
        now_s = self._clock_s()
        kind = self._kinds.get((event, key))
        if kind is not None and now_s - kind.logged_at_s < self._interval_s:
            kind.suppressed += 1
            return
        lines = self._lines.get(event)
        if lines is None or now_s - lines.since_s >= self._interval_s:
            if lines is not None and lines.suppressed:
                fields["others_not_logged"] = lines.suppressed
            lines = self._lines[event] = _Lines(now_s)
        lines.count += 1
        if lines.count > self._lines_max:
            lines.suppressed += 1
            return
        if kind is not None and kind.suppressed:
            fields["repeated"] = kind.suppressed
        for name, value in fields.items():
            if isinstance(value, str) and len(value) > limits.LOG_TEXT_MAX:
                fields[name] = value[: limits.LOG_TEXT_MAX] + "…"
        if len(self._kinds) >= _KINDS_MAX:
            self._kinds.clear()
        self._kinds[(event, key)] = _Kind(now_s)
        write(event, **fields)
