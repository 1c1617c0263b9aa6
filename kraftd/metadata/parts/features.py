"""The finalized features: the part of the image that FeatureLevelRecords make."""

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec
from immutables import Map

from kraftd.metadata.entity_hash import EntityHash, hash_of_text, tagged
from kraftd.metadata.feature_levels import METADATA_VERSION
from kraftd.records.messages import FeatureLevelRecord, UnknownTags

_Level: TypeAlias = tuple[int, UnknownTags]
"""The level, and the tags of the record that set it and that nothing here knows."""

_Levels: TypeAlias = Map[str, _Level]
_OFF: Final[_Level] = (0, ())


class FeaturesImage(msgspec.Struct, frozen=True):
    """Every feature that is on, with its level. `sum` is the sum of their hashes."""

    _levels: _Levels = Map()
    sum: EntityHash = 0

    def __bool__(self) -> bool:
        return bool(self._levels)

    def level(self, name: str) -> int:
        """The level of a feature; 0 when it is off."""
        return self._levels.get(name, _OFF)[0]

    def items(self) -> Iterator[tuple[str, int]]:
        """Every feature that is on: `metadata.version` first, then by name."""
        return ((name, level) for name, (level, _) in self._sorted())

    def to_records(self) -> Iterator[FeatureLevelRecord]:
        """The records that make these features."""
        for name, (level, tags) in self._sorted():
            yield FeatureLevelRecord(name=name, feature_level=level, unknown_tags=tags)

    def put(self, name: str, level: int, tags: UnknownTags = ()) -> "FeaturesImage":
        """Put a feature at a level; 0 removes it."""
        levels, hashes = self._levels, self.sum
        old = levels.get(name)
        if old is not None:
            hashes -= _hash_of(name, old)
            levels = levels.delete(name)
        if level:
            hashes += _hash_of(name, (level, tags))
            levels = levels.set(name, (level, tags))
        return FeaturesImage(levels, hashes)

    def _sorted(self) -> Iterator[tuple[str, _Level]]:
        return iter(sorted(self._levels.items(), key=lambda item: (item[0] != METADATA_VERSION, item)))


def _hash_of(name: str, level: _Level) -> EntityHash:
    return hash_of_text(tagged(f"feature {level[0]} {name}", level[1]))
