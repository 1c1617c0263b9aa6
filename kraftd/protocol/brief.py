"""Cuts foreign text to what has room in a response, and writes it on one line.

Foreign text is a peer's reason, an argument, a name in a request, a list of what is damaged.
"""

import re
from collections.abc import Sequence
from typing import Final

_MORE: Final = "…"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def has_control_characters(text: str) -> bool:
    """Whether a text would break the line that it is shown in."""
    return _CONTROL.search(text) is not None


def on_one_line(text: str) -> str:
    """Return a text with line breaks and other control characters written as escapes, safe for a terminal."""
    return text if text.isprintable() else _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def brief(text: str, bytes_max: int) -> str:
    """Cut a text to so many bytes of UTF-8; a cut one ends with `…`, and what is no UTF-8 becomes `?`."""
    if len(text) <= bytes_max:
        if text.isascii():
            return text
        encoded = text.encode(errors="replace")
        if len(encoded) <= bytes_max:
            return encoded.decode()
    room = bytes_max - len(_MORE.encode())
    return text[:room].encode(errors="replace")[:room].decode(errors="ignore") + _MORE


def briefs(texts: Sequence[str], bytes_max: int, count_max: int) -> tuple[str, ...]:
    """Cut each text, and keep at most so many; the last one says how many more there are."""
    if len(texts) <= count_max:
        return tuple(brief(text, bytes_max) for text in texts)
    kept = tuple(brief(text, bytes_max) for text in texts[: count_max - 1])
    return (*kept, f"and {len(texts) - len(kept)} more")
