"""The finalized features: the part of the image that FeatureLevelRecords make."""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec
from immutables import Map

from kraftd.metadata.features import METADATA_VERSION
from kraftd.metadata.mark import Mark, mark_of
from kraftd.records.messages import FeatureLevelRecord

_Levels: TypeAlias = Map[str, int]


class FeaturesImage(msgspec.Struct, frozen=True):
    """Every feature that is on, with its level. `sum` is the sum of their marks."""

    _levels: _Levels = Map()
    sum: Mark = 0

    def __bool__(self) -> bool:
        return bool(self._levels)

    def level(self, name: str) -> int:
        """The level of a feature; 0 when it is off."""
        return self._levels.get(name, 0)

    def items(self) -> Iterator[tuple[str, int]]:
        """Every feature that is on: `metadata.version` first, then by name."""
        return iter(sorted(self._levels.items(), key=lambda item: (item[0] != METADATA_VERSION, item)))

    def to_records(self) -> Iterator[FeatureLevelRecord]:
        """The records that make these features."""
        for name, level in self.items():
            yield FeatureLevelRecord(name=name, feature_level=level)

    def put(self, name: str, level: int) -> "FeaturesImage":
        """Put a feature at a level; 0 removes it."""
        levels, marks = self._levels, self.sum
        old = levels.get(name)
        if old is not None:
            marks -= _mark(name, old)
            levels = levels.delete(name)
        if level:
            marks += _mark(name, level)
            levels = levels.set(name, level)
        return FeaturesImage(levels, marks)


def _mark(name: str, level: int) -> Mark:
    return mark_of(f"feature {level} {name}")
