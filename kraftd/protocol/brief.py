"""Texts of others, cut to what has room in an answer: a peer's words, a path, a list of what is damaged."""

from collections.abc import Sequence
from typing import Final

_MORE: Final = "…"


def brief(text: str, bytes_max: int) -> str:
    """A text of at most so many bytes as UTF-8; what is cut off is marked."""
    if len(text) <= bytes_max and (text.isascii() or len(text.encode()) <= bytes_max):
        return text
    room = bytes_max - len(_MORE.encode())
    return text[:room].encode(errors="replace")[:room].decode(errors="ignore") + _MORE


def briefs(texts: Sequence[str], bytes_max: int, count_max: int) -> tuple[str, ...]:
    """At most so many texts, each cut; the last one says how many more there are."""
    if len(texts) <= count_max:
        return tuple(brief(text, bytes_max) for text in texts)
    kept = tuple(brief(text, bytes_max) for text in texts[: count_max - 1])
    return (*kept, f"and {len(texts) - len(kept)} more")
