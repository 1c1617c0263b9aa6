"""What is wrong with a node, in its own words: each thing once, and long lists shortened for people.

A node tells what is damaged in its alarm, and again as the reason why it knows no leader; and a damaged log
has many places. Scripts get every word; tables get the first few.
"""

from collections.abc import Iterable

from kraftd.protocol.messages import DescribeNodeResponse
from kraftd.types import NO_NODE

_SHOWN = 3
_BETWEEN = "; "


def troubles(answer: DescribeNodeResponse) -> list[str]:
    """Its alarms, that it is not whole, and why it follows nobody, as far as one does not say the other."""
    found = list(dict.fromkeys(answer.alarms))
    if not answer.whole and not found:
        found.append("not whole: neither votes nor counts")
    reason = answer.no_leader_reason if answer.leader_id == NO_NODE else None
    if reason and not any(_cause(reason) in text for text in found):
        found.append(reason)
    return found


def in_short(texts: Iterable[str]) -> str:
    """Texts on one line, each place of a list once: the first ones, and how many more there are."""
    parts = list(dict.fromkeys(part for text in texts for part in text.split(_BETWEEN)))
    more = len(parts) - _SHOWN
    if more <= 0:
        return _BETWEEN.join(parts)
    return _BETWEEN.join([*parts[:_SHOWN], f"and {more} more"])


def _cause(reason: str) -> str:
    return reason.removeprefix("not counted: ")
