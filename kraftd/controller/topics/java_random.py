"""The numbers that Java's `Random` draws from a seed: for placement, never for secrets.

With the same seed Kafka's placer and ours put replicas on the same brokers, so that `make interop` can
compare them draw by draw.

Follows: java.util.Random and Collections.shuffle, both specified in Java's API to the last bit.
"""

from collections.abc import MutableSequence
from typing import Any, Final

_MULTIPLIER: Final = 0x5DEECE66D
_INCREMENT: Final = 0xB
_MASK: Final = (1 << 48) - 1
_DRAWN_BITS: Final = 31


class JavaRandom:
    """A source of numbers. Mutable; of a seed only the low 48 bits count."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _MASK

    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1; the bound is from 1 to 2^31 - 1."""
        drawn = self._draw()
        if bound & (bound - 1) == 0:
            return (bound * drawn) >> _DRAWN_BITS
        # The last, incomplete run of `bound` numbers would make small ones more likely: it is drawn anew.
        while drawn - drawn % bound + bound > 1 << _DRAWN_BITS:
            drawn = self._draw()
        return drawn % bound

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Put items into a random order."""
        for end in range(len(items), 1, -1):
            at = self.below(end)
            items[end - 1], items[at] = items[at], items[end - 1]

    def _draw(self) -> int:
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
        return self._state >> (48 - _DRAWN_BITS)
