"""The finalized features: what the cluster has agreed to use, and at which level.

Not here: the level of `kraft.version`, which is the quorum's and in its control records. Kafka 4.0 wrote a
record of it as well; it is passed over, so that it is in no image, hash or snapshot (KAFKA-18979).

Follows: Kafka's FeaturesDelta.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from immutables import Map

from kraftd.metadata.entity_hash import EntityHash, hash_of_text, text_with_tags
from kraftd.metadata.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS,
    KRAFT_VERSION,
    METADATA_VERSION,
    metadata_version_name,
)
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.part import Builder, Image, ImageComparison, ImageTable, ImageView, Part, RecordKind
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.views import Change, ColumnType, Row, TextTable, TreeNode, files
from kraftd.records.messages import FeatureLevelRecord, Record, UnknownTags
from kraftd.types import Offset

_Level: TypeAlias = tuple[int, UnknownTags]
"""The level, and the tags of the record that set it and that nothing here knows."""

_Levels: TypeAlias = Map[str, _Level]
_OFF: Final[_Level] = (0, ())


class FeaturesImage(msgspec.Struct, frozen=True):
    """Every feature that is on, with its level. `sum` is the sum of their hashes."""

    _levels: _Levels = Map()
    sum: EntityHash = 0

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
    return hash_of_text(text_with_tags(f"feature {level[0]} {name}", level[1]))


class FeatureChange(msgspec.Struct, frozen=True):
    """A feature changed its level; level 0 is off."""

    name: str
    before: int
    after: int


def apply_feature(builder: Builder, record: FeatureLevelRecord, offset: Offset) -> None:
    """Put a feature at a level. Without the eligible leader replicas' feature no partition has any."""
    if record.feature_level < 0:
        reason = f"feature {record.name} cannot be at level {record.feature_level}"
        raise ImpossibleRecordError(offset, reason)
    if record.name == KRAFT_VERSION:
        return
    features = builder.state(FEATURES)
    builder.put(FEATURES, features.put(record.name, record.feature_level, record.unknown_tags))
    if record.name == ELIGIBLE_LEADER_REPLICAS and record.feature_level == 0:
        builder.builder_of(TOPICS).drop_elr(offset)


def level_text(name: str, level: int) -> str:
    """A level as Kafka calls it."""
    return metadata_version_name(level) if name == METADATA_VERSION and level else str(level)


def _rows(view: ImageView) -> Iterator[Row]:
    return ({"name": name, "level": level} for name, level in view.image[FEATURES].items())


class Features(Part[FeaturesImage, tuple[FeatureChange, ...]]):
    """Features by name."""

    empty = FeaturesImage()
    kinds = (RecordKind(FeatureLevelRecord, apply_feature, levels=(0,)),)
    snapshot_order = 0
    tables = (
        ImageTable(
            "features",
            "a finalized feature of the image",
            (("name", ColumnType.TEXT), ("level", ColumnType.INT32)),
            _rows,
        ),
    )

    def to_records(self, image: Image) -> Iterator[FeatureLevelRecord]:
        return image[self].to_records()

    def diff(self, before: FeaturesImage, after: FeaturesImage) -> tuple[FeatureChange, ...]:
        names = {name for features in (before, after) for name, _ in features.items()}
        levels = ((name, before.level(name), after.level(name)) for name in sorted(names))
        return tuple(FeatureChange(name, old, new) for name, old, new in levels if old != new)

    def describe(self, differences: tuple[FeatureChange, ...], _: ImageComparison) -> Iterator[Change]:
        for change in differences:
            old, new = (level_text(change.name, level) for level in (change.before, change.after))
            if not change.before:
                text = f"switched on at {new}"
            elif not change.after:
                text = f"switched off (was {old})"
            else:
                text = f"{'raised' if change.after > change.before else 'lowered'} {old} -> {new}"
            yield Change("feature", change.name, "level", text, change.before, change.after)

    def records_with_unknown_tags(
        self, state: FeaturesImage, _other: FeaturesImage
    ) -> Mapping[str, FeatureLevelRecord]:
        return {record.name: record for record in state.to_records() if record.unknown_tags}

    def entity_and_name(self, record: Record) -> tuple[str, str]:
        return "feature", record.name if isinstance(record, FeatureLevelRecord) else ""

    def sections(self, view: ImageView) -> Mapping[str, Callable[[], TreeNode]]:
        return {"features": lambda: files(dict(view.image[self].items()))}

    def overview(self, image: Image) -> TextTable:
        rows = [(name, level_text(name, level)) for name, level in image[self].items()]
        return TextTable(("Feature", "FinalizedVersionLevel"), rows)

    def text_table(self, view: ImageView, path: Sequence[str]) -> TextTable | None:
        return self.overview(view.image) if len(path) == 1 else None


FEATURES: Final = Features()
