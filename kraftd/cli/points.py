"""Offsets and times on the command line, and times in answers."""

import re
from datetime import UTC, datetime

from kraftd.cli.failures import UsageError
from kraftd.logtools.state import At

_OFFSET = re.compile("[0-9]{1,19}")
_TIME_MS = re.compile("[0-9]{9,19}")
"""As many digits as 64 bits have."""


def parse_time(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time (UTC unless it says otherwise), or of such a number.

    Raises:
        UsageError: It is neither.
    """
    if _TIME_MS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time; write 2026-01-31T12:00:00 (UTC) or ms since 1970") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000)


def parse_at(text: str) -> At:
    """A point of a log: digits are an offset, anything else is an ISO 8601 time.

    Raises:
        UsageError: It is neither.
    """
    if _OFFSET.fullmatch(text):
        return At(text, offset=int(text))
    try:
        return At(text, time_ms=parse_time(text))
    except UsageError:
        raise UsageError(
            f"{text!r} is neither an offset (1234) nor a time (2026-01-31T12:00:00, UTC by default)"
        ) from None


def time_text(ms: int, unknown: str = "-") -> str:
    """A time as ISO 8601 in UTC."""
    if ms < 0:
        return unknown
    try:
        moment = datetime.fromtimestamp(ms / 1_000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1_000:03d}Z"
