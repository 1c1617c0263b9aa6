"""Rounds of several contenders by turns, and what is computed of them: ratios of neighbours, their spread.

The first contender is the one that the others are compared with. Each does its round next to one of that, and
what else the machine does hits neighbours alike; so their ratio says more than the ratio of two medians.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

Name = TypeVar("Name")
Seen = TypeVar("Seen")


def by_turns(names: Sequence[Name], count: int, do: Callable[[Name], Seen]) -> dict[Name, list[Seen]]:
    """So many rounds of each; who begins alternates, so that nobody is always the one after the other."""
    found: dict[Name, list[Seen]] = {name: [] for name in names}
    for number in range(count):
        for name in names if number % 2 == 0 else reversed(names):
            found[name].append(do(name))
    return found


class Spread(NamedTuple):
    """A median with the quartiles around it."""

    low: float
    median: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Of at least one value."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    return Spread(*statistics.quantiles(values, n=4, method="inclusive"))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Of neighbouring rounds: how often theirs goes into ours."""
    return spread([one / two for one, two in zip(ours, theirs, strict=True)])
