"""Bytes of which only so many elements are made.

A few bytes on the wire may become a struct, a string or a tagged field that takes some hundred bytes of
memory. How many there are of them all together, in arrays inside arrays, no count tells by itself; so whoever
decodes a long frame wraps it, and the readers of arrays and of tagged fields take from what is left, before
anything is made. A reader that only skips or cuts takes nothing.
"""

from typing import Final, Self

from kraftd.errors import MalformedError

NUMBERS_AN_ELEMENT: Final = 4
"""How many numbers of an array count as one element: each takes 40 bytes, where a struct takes some 180."""


class MeteredBytes(bytes):
    """A frame, and how many elements may still be made of it. What is cut out of it is plain bytes."""

    elements_left: int

    def __new__(cls, data: bytes | bytearray | memoryview, elements_max: int) -> Self:
        """Copy the bytes; of them `elements_max` elements may be made."""
        made = super().__new__(cls, data)
        made.elements_left = elements_max
        return made

    def take(self, count: int, position: int) -> None:
        """Count so many elements that stand at a position.

        Raises:
            MalformedError: They are more than are left.
        """
        self.elements_left -= count
        if self.elements_left < 0:
            raise MalformedError(f"byte {position}: {count} more elements cannot be in one message")
