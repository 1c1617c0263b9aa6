"""A part of the image whose entities are few and change seldom: each is kept as the record that makes it.

The record is canonical: whoever puts it here has chosen one among those that mean the same, so that equal
states are equal records and have equal hashes. Tags that nothing here knows are in the record, so in its hash
and among what is written again.

The hash is taken of the record's bytes in a version that never changes, whatever newer ones come: it is a
promise across releases.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec
from immutables import Map

from kraftd.metadata.entity_hash import EntityHash, hash_of_bytes
from kraftd.metadata.sorted_keys import Ordered
from kraftd.records.frame import encode_record
from kraftd.records.messages import Record

K = TypeVar("K", bound=Ordered)
R = TypeVar("R", bound=Record)


class Entities(msgspec.Struct, Generic[K, R], frozen=True):
    """Canonical records by key. `sum` is the sum of their hashes."""

    _records: Map[K, R] = Map()
    sum: EntityHash = 0
    hash_version: int = 0
    """The version of the records that their hashes are taken of."""

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: K) -> R | None:
        """The entity with this key, None if there is none."""
        return self._records.get(key)

    def items(self) -> Iterator[tuple[K, R]]:
        """Every entity with its key, in no order."""
        return iter(self._records.items())

    def values(self) -> Iterator[R]:
        """Every entity, by key."""
        return (self._records[key] for key in sorted(self._records))

    def changes(self, after: "Entities[K, R]") -> Iterator[tuple[R | None, R | None]]:
        """What each entity that differs is here and in another image, by key. Cheap if they share all."""
        if self._records is after._records:
            return
        for key in sorted({*self._records, *after._records}):
            old, new = self._records.get(key), after._records.get(key)
            if old is not new and old != new:
                yield old, new

    def put(self, key: K, record: R) -> "Entities[K, R]":
        """Set an entity, in the place of what it was before."""
        hashes = self.sum + hash_of_record(record, self.hash_version)
        if (old := self._records.get(key)) is not None:
            hashes -= hash_of_record(old, self.hash_version)
        return Entities(self._records.set(key, record), hashes, self.hash_version)

    def remove(self, key: K) -> "Entities[K, R]":
        """Remove an entity if it is there."""
        old = self._records.get(key)
        if old is None:
            return self
        hashes = self.sum - hash_of_record(old, self.hash_version)
        return Entities(self._records.delete(key), hashes, self.hash_version)


def hash_of_record(record: Record, version: int = 0) -> EntityHash:
    """The hash of an entity that this canonical record makes, taken of a version of the record."""
    return hash_of_bytes(encode_record(record, version))
