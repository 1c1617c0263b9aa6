"""How much fits into one response, known before it is built.

A response that grows with the image, or with the request, must stay within the bounds of a frame and of the
time that it takes to build. `OutcomeRoom` is the room for the outcomes of the resources that a request names:
whether there is room for all of them, and how many of them can have a text. `PageRoom` is the room for
configs.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from kraftd.protocol.limits import (
    ARRAY_LENGTH_MAX,
    KIB,
    OUTCOMES_BYTES_MAX,
    PAGE_BYTES_MAX,
    PAGE_ENTRIES_MAX,
)

ENTRY_OVERHEAD_BYTES: Final = 48
"""At least what msgpack adds to the texts of one entry: its numbers, and the heads of texts and arrays."""

_CHARACTER_BYTES: Final = 4
_ID_BYTES: Final = 5
_ESTIMATED_BYTES_MAX: Final = 64 * KIB
"""Requests with fewer bytes of names, as nearly all, are estimated instead of counted."""

_QUOTED_MAX: Final = 80


class OutcomeRoom:
    """The room in a response for the outcomes of the resources of its request."""

    def __init__(self, names: Sequence[str]) -> None:
        self.count = len(names)
        """The number of outcomes that fit, from the first resource on."""
        most = ENTRY_OVERHEAD_BYTES * self.count + _CHARACTER_BYTES * sum(map(len, names))
        if most > _ESTIMATED_BYTES_MAX:
            ends = list(accumulate(map(entry_bytes, names)))
            self.count = next((n for n, end in enumerate(ends) if end > OUTCOMES_BYTES_MAX), self.count)
            most = ends[self.count - 1] if self.count else 0
        self.holds_all = self.count == len(names)
        self._left = OUTCOMES_BYTES_MAX - most

    def text(self, text: str) -> str | None:
        """The text of one outcome, None if it is empty or has no room beside the error codes of all."""
        size = text_bytes(text)
        if not size or size > self._left:
            return None
        self._left -= size
        return text


class PageRoom:
    """The room for configs that is left in a response. The first config always fits."""

    def __init__(self, *, is_full: bool = False) -> None:
        self.is_full = is_full
        self._bytes = PAGE_BYTES_MAX
        self._entries = PAGE_ENTRIES_MAX
        self._names_left = ARRAY_LENGTH_MAX

    def count_names(self, names: int) -> bool:
        """Count names to be looked up, found or not; False if they are too many."""
        self._names_left -= names
        self.is_full = self.is_full or self._names_left < 0
        return not self.is_full

    def add(self, size_bytes: int) -> bool:
        """Count one more config in; False if it does not fit, after which nothing fits."""
        is_first = self._entries == PAGE_ENTRIES_MAX
        if self.is_full or self._entries == 0 or (size_bytes > self._bytes and not is_first):
            self.is_full = True
            return False
        self._bytes -= size_bytes
        self._entries -= 1
        return True


def entry_bytes(*texts: str | None) -> int:
    """At most what one entry with these texts takes."""
    return ENTRY_OVERHEAD_BYTES + sum(text_bytes(text) for text in texts if text is not None)


def ids_bytes(*lists: Sequence[int] | None) -> int:
    """At most what these lists of brokers' ids take in msgpack."""
    return _ID_BYTES * sum(len(ids) for ids in lists if ids is not None)


def text_bytes(text: str) -> int:
    """What a text takes as UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def quoted(text: str) -> str:
    """A text of a request, for a response: quoted, on one line, and cut."""
    return repr(text) if len(text) <= _QUOTED_MAX else f"{text[:_QUOTED_MAX]!r}…"
