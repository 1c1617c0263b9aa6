"""An immutable sorted set of integers below 2^64, eight bytes each.

The numbers stand in blocks of a few hundred. A change makes new blocks only where numbers come or go, so
that two sets share the rest, and millions of numbers cost no objects. Most of what a change costs is copying
its blocks: whoever has few numbers to change at a time collects them first (`broker_index` does).
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

_BLOCK: Final = 256
_FEW: Final = _BLOCK // 4
"""A block with fewer joins the one before it."""
_CUT_MAX: Final = 8
"""So many prefixes are cut out of a block one by one; with more, its numbers are gone through."""
_TYPE: Final = "Q"
_BYTES: Final = 8


class PackedIntSet(msgspec.Struct, frozen=True):
    """A set of numbers. Make one with `PackedIntSet().changed(...)`."""

    _blocks: tuple[bytes, ...] = ()
    _firsts: tuple[int, ...] = ()
    """The first number of each block."""

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __len__(self) -> int:
        return sum(map(len, self._blocks)) // _BYTES

    def __iter__(self) -> Iterator[int]:
        for block in self._blocks:
            yield from memoryview(block).cast(_TYPE)

    def within(self, low: int, high: int) -> Iterator[int]:
        """The numbers from `low` on and below `high`, in order."""
        for index in range(max(bisect_right(self._firsts, low) - 1, 0), bisect_left(self._firsts, high)):
            block = memoryview(self._blocks[index]).cast(_TYPE)
            yield from block[bisect_left(block, low) : bisect_left(block, high)]

    def changed(self, added: Collection[int], removed: Collection[int] = ()) -> "PackedIntSet":
        """The set with numbers, each named once, that it may have already, and without others."""
        blocks: dict[int, array[int]] = {}
        new = sorted(added)
        if new and (not self._blocks or new[0] > self._last()):
            end = max(len(self._blocks) - 1, 0)
            blocks[end] = self._block(end)
            blocks[end].extend(array(_TYPE, new))
            new = []
        for number in new:
            block = self._opened(blocks, number)
            at = bisect_left(block, number)
            if at == len(block) or block[at] != number:
                block.insert(at, number)
        for number in removed:
            block = self._opened(blocks, number)
            at = bisect_left(block, number)
            if at < len(block) and block[at] == number:
                del block[at]
        return self._with(blocks)

    def without(self, prefixes: AbstractSet[int], in_order: Sequence[int], low_bits: int) -> "PackedIntSet":
        """The set without the numbers that begin with one of some prefixes, above so many low bits.

        Only blocks are looked at that may hold such numbers, however far apart these are.

        Args:
            prefixes: With which they begin.
            in_order: The same, sorted: whoever asks several sets sorts them once.
            low_bits: What of a number is not its prefix.
        """
        firsts, at, index = self._firsts, 0, 0
        left: dict[int, array[int]] = {}
        while at < len(in_order) and index < len(firsts):
            prefix = in_order[at]
            if firsts[index] >> low_bits < prefix:
                index = max(bisect_right(firsts, prefix << low_bits, index) - 1, index)
            block = memoryview(self._blocks[index]).cast(_TYPE)
            first, last = firsts[index] >> low_bits, block[-1] >> low_bits
            if first == last == prefix:
                left[index] = array(_TYPE)
                index += 1
                continue
            at = bisect_left(in_order, first, at)
            end = bisect_right(in_order, last, at)
            if at < end:
                kept = _without(block, prefixes, in_order[at:end], low_bits)
                if len(kept) < len(block):
                    left[index] = kept
                at = end - (in_order[end - 1] == last)  # whose numbers may go on in the next block
            index += 1
        return self._with(left) if left else self

    def _last(self) -> int:
        return int(memoryview(self._blocks[-1]).cast(_TYPE)[-1])

    def _opened(self, blocks: "dict[int, array[int]]", number: int) -> "array[int]":
        """The block that a number belongs to, to be written into."""
        index = max(bisect_right(self._firsts, number) - 1, 0)
        block = blocks.get(index)
        if block is None:
            block = blocks[index] = self._block(index)
        return block

    def _block(self, index: int) -> "array[int]":
        return array(_TYPE, self._blocks[index] if self._blocks else b"")

    def _with(self, changed: "dict[int, array[int]]") -> "PackedIntSet":
        blocks, firsts = list(self._blocks), list(self._firsts)
        for index in sorted(changed, reverse=True):
            block, start = changed[index], index
            if index and len(block) < _FEW:
                start = index - 1
                if start in changed:
                    changed[start].extend(block)
                    del blocks[index], firsts[index]
                    continue
                block = self._block(start) + block
            size = _BLOCK if len(block) > 2 * _BLOCK else 2 * _BLOCK
            parts = [block[at : at + size] for at in range(0, len(block), size)]
            blocks[start : index + 1] = [part.tobytes() for part in parts]
            firsts[start : index + 1] = [part[0] for part in parts]
        return PackedIntSet(tuple(blocks), tuple(firsts))


def _without(
    block: "memoryview[int]", prefixes: AbstractSet[int], in_order: Sequence[int], low_bits: int
) -> "array[int]":
    """A block without the numbers with some prefixes, which are in order between its first and its last."""
    if len(in_order) > _CUT_MAX:
        return array(_TYPE, [number for number in block if number >> low_bits not in prefixes])
    kept = array(_TYPE, block.tobytes())
    for prefix in in_order:
        low = bisect_left(kept, prefix << low_bits)
        del kept[low : bisect_left(kept, prefix + 1 << low_bits, low)]
    return kept
