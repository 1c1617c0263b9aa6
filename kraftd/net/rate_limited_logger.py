"""A logger that repeated lines, such as those that a stranger causes, cannot flood.

Entered through `RateLimitedLogger.warning` and `info`: the first line of a name and key is logged,
repeats within a minute are only counted, and the next line that is logged tells how many were left out.
With `lines_max`, one name has no more lines than that in a minute, however many keys it has: an attacker
with many addresses has many keys. Long texts are cut, in keys too.
"""

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from kraftd.protocol import limits

_INTERVAL_S = 60.0
_KEYS_MAX = 1_000


class _Repeated(msgspec.Struct):
    logged_at_s: float
    suppressed: int = 0


class _LinesOfName(msgspec.Struct):
    since_s: float
    count: int = 0
    suppressed: int = 0


class RateLimitedLogger:
    """Logs each name and key of a line once in `interval_s`."""

    def __init__(
        self,
        logger: Any,
        clock_s: Callable[[], float],
        *,
        interval_s: float = _INTERVAL_S,
        lines_max: int = limits.LOG_LINES_PER_EVENT_MAX,
    ) -> None:
        self._lines_max = lines_max
        self._lines: dict[str, _LinesOfName] = {}
        self._logger = logger
        self._clock_s = clock_s
        self._interval_s = interval_s
        self._repeated: dict[Hashable, _Repeated] = {}

    def warning(self, line_name: str, *, key: Hashable, **fields: object) -> None:
        """Log a warning, unless one of the same name and key was logged in this interval."""
        self._log_once(self._logger.warning, line_name, key, fields)

    def info(self, line_name: str, *, key: Hashable, **fields: object) -> None:
        """The same on level info."""
        self._log_once(self._logger.info, line_name, key, fields)

    def _log_once(
        self, write: Callable[..., object], line_name: str, key: Hashable, fields: dict[str, object]
    ) -> None:
        now_s, key = self._clock_s(), _brief(key)
        repeated = self._repeated.get((line_name, key))
        if repeated is not None and now_s - repeated.logged_at_s < self._interval_s:
            repeated.suppressed += 1
            return
        lines = self._lines.get(line_name)
        if lines is None or now_s - lines.since_s >= self._interval_s:
            if lines is not None and lines.suppressed:
                fields["others_not_logged"] = lines.suppressed
            lines = self._lines[line_name] = _LinesOfName(now_s)
        lines.count += 1
        if lines.count > self._lines_max:
            lines.suppressed += 1
            return
        if repeated is not None and repeated.suppressed:
            fields["repeated"] = repeated.suppressed
        for name, value in fields.items():
            if isinstance(value, str) and len(value) > limits.LOG_TEXT_MAX:
                fields[name] = value[: limits.LOG_TEXT_MAX] + "…"
        if len(self._repeated) >= _KEYS_MAX:
            self._repeated.clear()
        self._repeated[(line_name, key)] = _Repeated(now_s)
        write(line_name, **fields)


def _brief(key: Hashable) -> Hashable:
    """What is kept of a key: of its texts, which a peer may have chosen, the beginning."""
    if isinstance(key, str):
        return key[: limits.LOG_TEXT_MAX]
    return tuple(map(_brief, key)) if isinstance(key, tuple) else key
