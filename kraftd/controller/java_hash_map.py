"""The order in which Java's `HashMap` goes through its keys, where Kafka's records and responses follow it.

Kafka decides about quotas and credentials entry by entry of such maps. That order is no promise, but it can
be told from the keys alone. So our log holds the same records in the same order, and of several mistakes in
one entry the same one is told.

Follows: java.util.HashMap, and `String.hashCode`, which Java's API specifies.
Differs: buckets of eight keys and more, which become trees in Java, stay in the order in which the keys came;
so does a map whose keys have too many characters to hash them beside other requests.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from operator import mul
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_USUAL_CAPACITY: Final = 16
_MASK: Final = (1 << 32) - 1
_BLOCK: Final = 64
_POWERS: Final = tuple(pow(31, _BLOCK - 1 - at, 1 << 32) for at in range(_BLOCK))
_CHARACTERS_MAX: Final = 1 << 16
"""Some milliseconds of hashing."""


class JavaHashMap(Generic[K, V]):
    """A map that goes through its entries as Java's does. Mutable; it only ever makes more room."""

    def __init__(
        self,
        length_of: Callable[[K], int],
        hash_of: Callable[[K], int],
        capacity: int = _USUAL_CAPACITY,
    ) -> None:
        """Make an empty one, with room for so many; of a key its characters and Java's hash can be told."""
        self._length_of = length_of
        self._hash_of = hash_of
        self._buckets = 1 << max(0, capacity - 1).bit_length()
        self._entries: dict[K, V] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __setitem__(self, key: K, value: V) -> None:
        self._entries[key] = value
        while len(self._entries) > self._buckets * 3 // 4:
            self._buckets *= 2

    def remove(self, key: K) -> bool:
        """Remove a key; whether it was there."""
        if key not in self._entries:
            return False
        del self._entries[key]
        return True

    def items(self) -> Iterator[tuple[K, V]]:
        """The entries: bucket by bucket, and in a bucket as they came."""
        entries = self._entries
        if len(entries) < 2 or sum(map(self._length_of, entries)) > _CHARACTERS_MAX:
            return iter(entries.items())
        return iter(sorted(entries.items(), key=lambda entry: self._bucket(entry[0])))

    def _bucket(self, key: K) -> int:
        number = self._hash_of(key)
        return (number ^ number >> 16) & (self._buckets - 1)


def string_map(entries: Iterable[tuple[str, V]], capacity: int = _USUAL_CAPACITY) -> JavaHashMap[str, V]:
    """A map with strings as keys, which begins with these entries."""
    made: JavaHashMap[str, V] = JavaHashMap(len, string_hash, capacity)
    for key, value in entries:
        made[key] = value
    return made


def string_hash(text: str) -> int:
    """Java's hash of a string, from 0 to 2^32 - 1."""
    raw = text.encode("utf-16-le")
    units = struct.unpack(f"<{len(raw) // 2}H", raw)
    found = 0
    for start in range(0, len(units), _BLOCK):
        block = units[start : start + _BLOCK]
        powers = _POWERS[_BLOCK - len(block) :]
        found = (found * pow(31, len(block), 1 << 32) + sum(map(mul, block, powers))) & _MASK
    return found
