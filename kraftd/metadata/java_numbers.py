"""Numbers in texts, as Java reads them: `Integer.parseInt`, `Long.parseLong` and `Double.parseDouble`.

What a config's value may be is what Kafka's brokers can read. A client chooses the text, of up to 32,767
bytes, so that each pattern takes time in proportion to it: no part of one can be matched in two ways.

Differs: a whole number of more than 20 digits, leading zeros not counted, is none, and so never too large.
"""

import re
from typing import Final

_WHOLE: Final = re.compile(r"([+-]?)(?=\d)(?>0*)(\d{0,20})")
"""Digits of any script, as in Java."""
_LAST_CHAR: Final = "\uffff"
"""Java looks at a text char by char, and takes half a character above this for no digit."""
_DOUBLE: Final = re.compile(
    r"([+-]?)(?:(NaN|Infinity)"
    r"|(0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
    r"|((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)"
)
_INFINITY: Final = float("inf")


def whole_number_in(text: str) -> int | None:
    """The whole number that a text without blanks is, None if it is none."""
    found = _WHOLE.fullmatch(text)
    if found is None or (not text.isascii() and max(text) > _LAST_CHAR):
        return None
    return int(found[1] + (found[2] or "0"))


def double_in(text: str) -> float | None:
    """The number that a text without blanks is, None if it is none; not-a-number is one."""
    found = _DOUBLE.fullmatch(text)
    if found is None:
        return None
    sign, word, in_hex, decimal = found.groups()
    size = _hex_in(in_hex) if in_hex is not None else float(word or decimal)
    return -size if sign == "-" else size


def _hex_in(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return _INFINITY
