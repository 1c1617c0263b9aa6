"""A script that shows a difference, made shorter while it shows one of the same kind."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tests.conformance_kafka.normal import Difference
from tests.conformance_kafka.operations import Operation

Try: TypeAlias = Callable[[Sequence[Operation]], Difference | None]
"""Runs a script from the beginning; the difference that it shows."""

Script: TypeAlias = Sequence[Operation]


def shrink(script: Script, found: Difference, attempt: Try, tries_max: int) -> tuple[Script, Difference]:
    """The shortest script that was found by leaving out operations, and what it shows.

    What comes after the difference goes first; then halves, quarters and so on down to single operations.

    Args:
        script: It shows `found` at its end.
        found: What has to stay, in its kind.
        attempt: Runs a script.
        tries_max: How often it may.
    """
    size = max(len(script) // 2, 1)
    while tries_max > 0 and size > 0:
        at, was = 0, len(script)
        while at < len(script) - 1 and tries_max > 0:
            fewer = [*script[:at], *script[min(at + size, len(script) - 1) :]]
            tries_max -= 1
            shown = attempt(fewer)
            if shown is not None and shown.kind == found.kind:
                script, found = fewer[: shown.index + 1], shown
            else:
                at += size
        if size == 1 and len(script) == was:
            break
        size = size // 2 if size > 1 else 1
    return script, found
