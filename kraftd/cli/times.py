"""Offsets and times on the command line, and times in what is printed."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from kraftd.cli.failures import UsageError
from kraftd.logtools import points
from kraftd.logtools.points import NotAPointError, Point

_AGES: Final[Sequence[tuple[str, int]]] = (("d", 86_400), ("h", 3_600), ("min", 60))
"""Units and their seconds; an age is told in the largest of which it has two."""


def parse_time(text: str) -> int:
    """Milliseconds since 1970, from a time on the command line.

    Raises:
        UsageError: It is no time.
    """
    try:
        return points.parse_time(text)
    except NotAPointError as error:
        raise UsageError(str(error)) from None


def parse_point(text: str) -> Point:
    """A point of a log, from the command line.

    Raises:
        UsageError: It is neither an offset nor a time.
    """
    try:
        return points.parse_point(text)
    except NotAPointError as error:
        raise UsageError(str(error)) from None


def time_text(ms: int, unknown: str = "-") -> str:
    """A time as ISO 8601 in UTC."""
    if ms < 0:
        return unknown
    try:
        moment = datetime.fromtimestamp(ms / 1_000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1_000:03d}Z"


def age_text(ms: int) -> str:
    """How old something is, as `90 s` or `5 h`."""
    seconds = ms // 1_000
    unit, size = next(((unit, size) for unit, size in _AGES if seconds >= 2 * size), ("s", 1))
    return f"{seconds // size} {unit}"


def second_text(ms: int) -> str:
    """As `time_text`, without the milliseconds, for tables that have little room."""
    whole, dot, _ = time_text(ms).partition(".")
    return f"{whole}Z" if dot else whole
