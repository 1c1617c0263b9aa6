"""What differs between two images, part by part, and how that reads.

`diff` skips whatever the two share, so the cost follows the size of the change where one image came from the
other. `changes` tells the difference in the words of an operator: topic created, leader moved, broker fenced.
Values that may be secrets are not told unless asked for; what follows from another change is left out.

Not here: the words for each kind of entity (`parts`), who led the quorum, and where in a log a change stands.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kraftd.metadata.image import MetadataImage
from kraftd.metadata.part import D, EntityChange, ImageComparison, Part
from kraftd.metadata.registry import KINDS, PART_OF, PARTS
from kraftd.metadata.views import UNKNOWN_FIELDS, Change
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import Record


class ImageDiff(msgspec.Struct, frozen=True):
    """All that differs, by part."""

    _parts: Mapping[Part[Any, Any], Any]
    unknown_tags: tuple[EntityChange[Record], ...] = ()
    """Entities with tags that nothing here knows, where the difference of their part does not show them.

    None is "not there, or without such tags".
    """

    def __bool__(self) -> bool:
        return any(self._parts.values()) or bool(self.unknown_tags)

    def __getitem__(self, part: Part[Any, D]) -> D:
        """What differs of one part, sorted by what it is about."""
        differences: D = self._parts[part]
        return differences


def diff(before: MetadataImage, after: MetadataImage) -> ImageDiff:
    """What has to change in `before` to make it show what `after` shows."""
    return ImageDiff(
        {part: part.diff(before[part], after[part]) for part in PARTS},
        tuple(change for part in PARTS for change in _tag_changes(part, before, after)),
    )


def changes(
    before: MetadataImage,
    after: MetadataImage,
    *,
    show_secrets: bool = False,
    with_consequences: bool = False,
) -> Iterator[Change]:
    """Tell everything that differs, part by part.

    Args:
        before: From here.
        after: To here.
        show_secrets: Tell values that may be secrets.
        with_consequences: Tell what only follows from another change, too.
    """
    found = diff(before, after)
    removed = frozenset(one for part in PARTS for one in part.removed_resources(found[part]))
    comparison = ImageComparison(before, after, show_secrets, with_consequences, removed)
    for part in PARTS:
        yield from part.describe(found[part], comparison)
    for tagged in found.unknown_tags:
        record = tagged.record
        yield Change(*PART_OF[type(record)].entity_and_name(record), "unknown_tags", UNKNOWN_FIELDS)


def changes_by(
    record: AnyRecord | None,
    before: MetadataImage,
    after: MetadataImage,
    *,
    show_secrets: bool = False,
    with_consequences: bool = False,
) -> Iterator[Change]:
    """Tell what one record changed, without comparing all where its kind allows; all that differs if None."""
    kind = KINDS.get(type(record))
    if kind is None or kind.describe is None:
        return changes(before, after, show_secrets=show_secrets, with_consequences=with_consequences)
    return kind.describe(record, ImageComparison(before, after, show_secrets, with_consequences))


def _tag_changes(
    part: Part[Any, Any], before: MetadataImage, after: MetadataImage
) -> Iterator[EntityChange[Record]]:
    were = part.records_with_unknown_tags(before[part], after[part])
    are = part.records_with_unknown_tags(after[part], before[part])
    for key in sorted({*were, *are}):
        old, new = were.get(key), are.get(key)
        if old != new:
            yield EntityChange(old, new)
