"""An immutable sorted set of keys that can be read from any place in it.

The keys stand in blocks of a few hundred. A change copies the blocks where keys come or go, and the list of
blocks; two sets share the rest. Finding a place is a search by halves. So a page of a long list costs what
the page is long, whatever the list is.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

_BLOCK: Final = 256
"""The most keys of a block; what grows beyond is halved."""


_STEP: Final = 2_048
"""How many keys a step of `sorted_in_steps` sorts or puts into blocks: 1 to 5 ms."""


class Ordered(Protocol):
    """What can be a key: what has an order."""

    def __lt__(self, other: Any, /) -> bool: ...
    def __hash__(self) -> int: ...


K = TypeVar("K", bound=Ordered)


class SortedKeys(msgspec.Struct, Generic[K], frozen=True, eq=False):
    """A set of keys in order. Make one with `SortedKeys().changed(...)`."""

    _blocks: tuple[tuple[K, ...], ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SortedKeys) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __iter__(self) -> Iterator[K]:
        for block in self._blocks:
            yield from block

    def since(self, key: K) -> Iterator[K]:
        """The keys from this one on, which need not be there itself."""
        start = self._block_of(key)
        for at in range(start, len(self._blocks)):
            block = self._blocks[at]
            yield from block[bisect_left(block, key) :] if at == start else block

    def changed(self, added: Iterable[K], dropped: Iterable[K] = ()) -> "SortedKeys[K]":
        """The set with keys that it may have already, and without others, which it may lack."""
        if not self._blocks:
            return SortedKeys(tuple(_cut(sorted(set(added).difference(dropped)))))
        touched: dict[int, list[K]] = {}
        for key in added:
            block, at = self._place(touched, key)
            if at == len(block) or block[at] != key:
                block.insert(at, key)
        for key in dropped:
            block, at = self._place(touched, key)
            if at < len(block) and block[at] == key:
                del block[at]
        blocks = list(self._blocks)
        for number in sorted(touched, reverse=True):
            blocks[number : number + 1] = _cut(touched[number])
        return SortedKeys(tuple(blocks))

    def _place(self, touched: dict[int, list[K]], key: K) -> tuple[list[K], int]:
        """The block that a key belongs to, as a list to change, and where in it."""
        number = self._block_of(key)
        block = touched.get(number)
        if block is None:
            block = touched[number] = list(self._blocks[number])
        return block, bisect_left(block, key)

    def _block_of(self, key: K) -> int:
        return max(bisect_right(self._blocks, key, key=_first) - 1, 0)


def sorted_in_steps(keys: Iterable[K]) -> Generator[None, None, SortedKeys[K]]:
    """Make the set of these keys, each named once, in steps between which a loop can do other things."""
    left, runs = iter(keys), list[list[K]]()
    while run := sorted(islice(left, _STEP)):
        runs.append(run)
        yield
    merged, blocks = merge(*runs), list[tuple[K, ...]]()
    while part := list(islice(merged, _STEP)):
        blocks.extend(_cut(part))
        yield
    return SortedKeys(tuple(blocks))


def _first(block: tuple[K, ...]) -> K:
    return block[0]


def _cut(keys: list[K]) -> Iterator[tuple[K, ...]]:
    """Blocks of sorted keys, half full where one would be too long, so that there is room for more."""
    if len(keys) <= _BLOCK:
        if keys:
            yield tuple(keys)
        return
    half = _BLOCK // 2
    for start in range(0, len(keys), half):
        yield tuple(keys[start : start + half])
