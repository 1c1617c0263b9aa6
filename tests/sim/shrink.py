"""Which of the faults of a failing seed are needed for it to fail?

Delta debugging over the entries of the fault schedule (`fault_schedule`): halves, then quarters, are left out
for as long as the seed still fails by the same promise. Every entry has its own chance, so what is left does
what it did. Bounded by time, because a smaller schedule is a convenience and no proof.
"""

import time
from collections.abc import Callable, Sequence

import msgspec

from tests.sim.world import Options, World

BUDGET_S = 90.0
SLACK = 1.1
"""How much longer than the first run a smaller one may take to fail by itself."""


def promise_of(violation: str) -> str:
    """The name of the promise that was broken."""
    return violation.partition(":")[0]


def shrink(seed: int, options: Options, world: World, *, budget_s: float = BUDGET_S) -> Options:
    """Options with which the seed breaks the same promise with as few faults as could be found."""
    assert world.violation is not None
    promise = promise_of(str(world.violation))
    until = time.monotonic() + budget_s
    # Fewer faults make more events a second: what is repeated is the time that the run took, not its events.
    over_us = world.troubled_us if world.troubled_us is not None else int(world.now_us * SLACK)
    options = msgspec.structs.replace(options, until_us=over_us)

    def fails(names: Sequence[str]) -> bool:
        smaller = World(seed, msgspec.structs.replace(options, keep=frozenset(names)))
        violation = smaller.attempt()
        smaller.close()
        return violation is not None and promise_of(str(violation)) == promise

    names = minimal(
        [entry.name for entry in world.schedule if entry.fired], fails, lambda: time.monotonic() >= until
    )
    return msgspec.structs.replace(options, keep=frozenset(names))


def minimal(
    names: Sequence[str], fails: Callable[[Sequence[str]], bool], is_late: Callable[[], bool]
) -> list[str]:
    """The smallest part of `names` found that still `fails`; all of them if none smaller does."""
    left = list(names)
    if fails([]):
        return []
    parts = 2
    while len(left) > 1 and not is_late():
        size = -(-len(left) // parts)
        for start in range(0, len(left), size):
            without = left[:start] + left[start + size :]
            if is_late():
                return left
            if fails(without):
                left, parts = without, max(2, parts - 1)
                break
        else:
            if size == 1:
                return left
            parts = min(len(left), 2 * parts)
    return left
