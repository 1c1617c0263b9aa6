"""What is wrong with a node, in its own words: each thing once, and long lists shortened for people.

A node tells what is damaged in its alarm, and again as the reason why it knows no leader; and a damaged log
has many places. Scripts get every word; tables get the first few places, and all that is no place.
"""

from collections import Counter
from collections.abc import Iterable

from kraftd.protocol.messages import DescribeNodeResponse
from kraftd.types import NO_NODE

_PLACES_MAX = 3
_ALL_PERCENT = 100
_BETWEEN = "; "
_NOT_WHOLE = "not_whole: "
_NOT_COUNTED = "not counted: "


def troubles(response: DescribeNodeResponse) -> list[str]:
    """Its alarms, that it is not whole, and why it follows nobody, as far as one does not say the other."""
    found = list(dict.fromkeys(response.alarms))
    if response.snapshot_loaded_percent < _ALL_PERCENT:
        found.append(f"loads a snapshot, {response.snapshot_loaded_percent} % of which are restored")
    if not response.whole and not found:
        found.append("not whole: neither votes nor counts")
    reason = response.why_not_following if response.leader_id == NO_NODE else None
    if reason and not any(_says(alarm, reason) for alarm in found):
        found.append(reason)
    return found


def in_short(texts: Iterable[str]) -> str:
    """Texts on one line, each once: of damage the first places, and how many more there are."""
    return _BETWEEN.join(dict.fromkeys(map(_shortened, texts)))


def _shortened(text: str) -> str:
    """A list of damage with its first places; every other text as it is.

    Each place may be followed by what to do, in the same words: what is told again is no place, and comes
    once, behind them.
    """
    if not text.startswith((_NOT_WHOLE, _NOT_COUNTED)):
        return text
    told = Counter(text.split(_BETWEEN))
    places = [part for part, times in told.items() if times == 1]
    advice = [part for part, times in told.items() if times > 1]
    more = len(places) - _PLACES_MAX
    rest = [f"and {more} more"] if more > 0 else []
    return _BETWEEN.join([*places[:_PLACES_MAX], *rest, *advice])


def _says(alarm: str, reason: str) -> bool:
    """Whether an alarm tells a reason already. Of the same damage, each may be cut at another place."""
    if alarm.startswith(_NOT_WHOLE) and reason.startswith(_NOT_COUNTED):
        return True
    return reason.removeprefix(_NOT_COUNTED) in alarm
