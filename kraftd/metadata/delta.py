"""What differs between two images, entity by entity.

`diff` skips whatever the two share, so the cost follows the size of the change where one image came from
the other. Tags that nothing here knows are no difference: nobody could say of what. Used by whoever reacts
to changes: observers of the log, the command line, the replay's history.
"""

from collections.abc import Iterator

import msgspec

from kraftd.metadata.image import ControllerRegistration, MetadataImage
from kraftd.types import NodeId


class FeatureChange(msgspec.Struct, frozen=True):
    """A feature moved; level 0 is off."""

    name: str
    before: int
    after: int


class ConfigChange(msgspec.Struct, frozen=True):
    """A config moved; None is "not set"."""

    resource_type: int
    resource_name: str
    name: str
    before: str | None
    after: str | None


class ControllerChange(msgspec.Struct, frozen=True):
    """A controller registered anew; None is "not registered"."""

    id: NodeId
    before: ControllerRegistration | None
    after: ControllerRegistration | None


class ImageDelta(msgspec.Struct, frozen=True):
    """All that differs, each part sorted by what it is about."""

    features: tuple[FeatureChange, ...] = ()
    configs: tuple[ConfigChange, ...] = ()
    controllers: tuple[ControllerChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.features or self.configs or self.controllers)


def diff(before: MetadataImage, after: MetadataImage) -> ImageDelta:
    """What has to change in `before` to make it show what `after` shows."""
    return ImageDelta(
        tuple(_feature_changes(before, after)),
        tuple(_config_changes(before, after)),
        tuple(_controller_changes(before, after)),
    )


def _feature_changes(before: MetadataImage, after: MetadataImage) -> Iterator[FeatureChange]:
    names = {name for image in (before, after) for name, _ in image.features()}
    for name in sorted(names):
        old, new = before.feature_level(name), after.feature_level(name)
        if old != new:
            yield FeatureChange(name, old, new)


def _config_changes(before: MetadataImage, after: MetadataImage) -> Iterator[ConfigChange]:
    resources = {*before.config_resources(), *after.config_resources()}
    for kind, resource in sorted(resources):
        if before.shares_configs(after, kind, resource):
            continue
        old = dict(before.configs_of(kind, resource))
        new = dict(after.configs_of(kind, resource))
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                yield ConfigChange(kind, resource, name, old.get(name), new.get(name))


def _controller_changes(before: MetadataImage, after: MetadataImage) -> Iterator[ControllerChange]:
    ids = {registration.id for image in (before, after) for registration in image.controllers()}
    for node_id in sorted(ids):
        old, new = before.controller(node_id), after.controller(node_id)
        if old != new:
            yield ControllerChange(node_id, old, new)
