"""Which records are wanted, by offset, time and type, so that segments and batches without any are not read.

A `RecordFilter` comes from what Spark pushes down (`pushed`) or from a job of ours. It is exact: a row that
passes is wanted, and no other is produced. Segments are left out by their base offsets, pieces of large
segments by the headers of their batches, batches by their headers, records one by one.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from kraftd.replay.source.headers import Headers

FIRST: Final = -(2**62)
LAST: Final = 2**62
"""No offset and no time in microseconds lies beyond these."""


class RecordFilter(msgspec.Struct, frozen=True):
    """Records with an offset and a time in these half-open ranges, and of these types; None is any.

    Times are microseconds, as in the rows. A record without a time is wanted only if no time is asked for.
    """

    from_offset: int = FIRST
    to_offset: int = LAST
    from_us: int = FIRST
    to_us: int = LAST
    types: frozenset[str] | None = None
    is_snapshot: bool | None = None

    @property
    def any_time(self) -> bool:
        """Whether nothing is asked of a record's time."""
        return self.from_us <= FIRST and self.to_us >= LAST

    @property
    def every_row(self) -> bool:
        """Whether no record of a file that is read is left out."""
        return self.any_time and self.types is None and self.from_offset <= FIRST and self.to_offset >= LAST

    def batches(self, headers: Headers) -> npt.NDArray[np.bool_]:
        """The batches that may hold a wanted record."""
        mask: npt.NDArray[np.bool_] = (headers["end_offset"] > self.from_offset) & (
            headers["base_offset"] < self.to_offset
        )
        if not self.any_time:
            first, last = headers["base_timestamp_ms"] * 1000, headers["max_timestamp_ms"] * 1000
            mask &= (np.maximum(first, last) >= self.from_us) & (np.minimum(first, last) < self.to_us)
        mask |= ~headers["whole"]
        return mask

    def offsets(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """The offsets that are wanted."""
        return (offsets >= self.from_offset) & (offsets < self.to_offset)

    def times(self, milliseconds: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """The times that are wanted."""
        return (milliseconds * 1000 >= self.from_us) & (milliseconds * 1000 < self.to_us)


def pushed(filters: Iterable[Filter], wanted: RecordFilter) -> tuple[RecordFilter, list[Filter]]:
    """What is wanted once Spark's filters are in, and the filters that are left to Spark."""
    left = []
    for one in filters:
        narrower = _narrowed(one, wanted)
        if narrower is None:
            left.append(one)
        else:
            wanted = narrower
    return wanted, left


def _narrowed(one: Filter, wanted: RecordFilter) -> RecordFilter | None:
    """What is wanted with one filter more, None if it is none of ours."""
    attribute = getattr(one, "attribute", ())
    if attribute == ("type",):
        return _by_type(one, wanted)
    if attribute == ("is_snapshot",) and isinstance(one, EqualTo) and wanted.is_snapshot is None:
        return msgspec.structs.replace(wanted, is_snapshot=bool(one.value))
    if attribute not in {("offset",), ("timestamp",)}:
        return None
    bounds = (FIRST, LAST) if isinstance(one, IsNotNull) else _bounds(one)
    if bounds is None:
        return None
    low, high = bounds
    if attribute == ("offset",):
        return msgspec.structs.replace(
            wanted, from_offset=max(wanted.from_offset, low), to_offset=min(wanted.to_offset, high)
        )
    return msgspec.structs.replace(
        wanted, from_us=max(wanted.from_us, low, 0), to_us=min(wanted.to_us, high, LAST - 1)
    )


def _by_type(one: Filter, wanted: RecordFilter) -> RecordFilter | None:
    if isinstance(one, EqualTo):
        types = frozenset({one.value})
    elif isinstance(one, In):
        types = frozenset(one.value)
    else:
        return None
    return msgspec.structs.replace(wanted, types=types if wanted.types is None else types & wanted.types)


def _bounds(one: Filter) -> tuple[int, int] | None:
    """The half-open range that a comparison leaves."""
    value = _number(getattr(one, "value", None))
    if value is None:
        return None
    match one:
        case EqualTo():
            return value, value + 1
        case GreaterThan():
            return value + 1, LAST
        case GreaterThanOrEqual():
            return value, LAST
        case LessThan():
            return FIRST, value
        case LessThanOrEqual():
            return FIRST, value + 1
        case _:
            return None


def _number(value: Any) -> int | None:
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.astimezone()
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def ranges(wanted: RecordFilter, base_offsets: Iterable[int]) -> Iterator[bool]:
    """Of each segment, given by base offset in order, whether it may hold a wanted offset."""
    for base, following in pairwise([*base_offsets, LAST]):
        yield following > wanted.from_offset and base < wanted.to_offset
