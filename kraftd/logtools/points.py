"""Points of a log, as operators write them: an offset, or a time."""

import re
from datetime import UTC, datetime

import msgspec

from kraftd.errors import ErrorCode, KraftdError
from kraftd.types import Offset

_OFFSET = re.compile("[0-9]{1,19}")
_TIME_MS = re.compile("[0-9]{9,19}")
"""As many digits as 64 bits have."""


class NotAPointError(KraftdError):
    """A text that is neither an offset nor a time; says how both are written."""

    code = ErrorCode.INVALID_REQUEST


class Point(msgspec.Struct, frozen=True):
    """A point that was asked for, by offset (exclusive) or by time, and the words for it.

    The state at an offset is that of the records below it, as in a snapshot's name. The state at a time is
    that of all batches before the first one that is newer. Batches are never cut.
    """

    text: str
    offset: Offset | None = None
    time_ms: int | None = None


def parse_point(text: str) -> Point:
    """A point of a log: digits are an offset, anything else is an ISO 8601 time.

    Raises:
        NotAPointError: It is neither.
    """
    if _OFFSET.fullmatch(text):
        return Point(text, offset=int(text))
    try:
        return Point(text, time_ms=parse_time(text))
    except NotAPointError:
        raise NotAPointError(
            f"{text!r} is neither an offset (1234) nor a time (2026-01-31T12:00:00, UTC by default)"
        ) from None


def parse_time(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time (UTC unless it says otherwise), or of such a number.

    Raises:
        NotAPointError: It is neither.
    """
    if _TIME_MS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise NotAPointError(
            f"{text!r} is no time; write 2026-01-31T12:00:00 (UTC) or ms since 1970"
        ) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000)
