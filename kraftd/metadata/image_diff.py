"""What differs between two images, entity by entity.

`diff` skips whatever the two share, so the cost follows the size of the change where one image came from
the other; for that it is the one other module that knows the parts of an image. Used by whoever reacts to
changes: observers of the log, the command line, the replay's history.
"""

from collections.abc import Iterator
from typing import Generic, TypeAlias, TypeVar

import msgspec

from kraftd.metadata.entities import Entities, Ordered
from kraftd.metadata.image import ControllerRegistration, MetadataImage
from kraftd.metadata.parts.topics.image import TopicsImage
from kraftd.records.messages import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
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


R = TypeVar("R", bound=Record)


class Change(msgspec.Struct, Generic[R], frozen=True):
    """An entity, as the record that makes it, moved; None is "not there". Both say which entity it is."""

    before: R | None
    after: R | None


_Tagged: TypeAlias = FeatureLevelRecord | RegisterControllerRecord | ConfigRecord


class ImageDiff(msgspec.Struct, frozen=True):
    """All that differs, each part sorted by what it is about."""

    features: tuple[FeatureChange, ...] = ()
    configs: tuple[ConfigChange, ...] = ()
    controllers: tuple[ControllerChange, ...] = ()
    brokers: tuple[Change[RegisterBrokerRecord], ...] = ()
    topics: tuple[Change[TopicRecord], ...] = ()
    """Topics that came or went. A change inside a topic is in `partitions`."""
    partitions: tuple[Change[PartitionRecord], ...] = ()
    """By the name of the topic, those of a topic that came or went among them."""
    client_quotas: tuple[Change[ClientQuotaRecord], ...] = ()
    producer_ids: tuple[Change[ProducerIdsRecord], ...] = ()
    acls: tuple[Change[AccessControlEntryRecord], ...] = ()
    scram_credentials: tuple[Change[UserScramCredentialRecord], ...] = ()
    delegation_tokens: tuple[Change[DelegationTokenRecord], ...] = ()
    zk_migration: tuple[Change[ZkMigrationStateRecord], ...] = ()
    unknown_tags: tuple[Change[_Tagged], ...] = ()
    """Features, controllers and configs with tags that nothing here knows, which the parts above do not show.

    None is "not there, or without such tags". The records of all other entities have their tags in them.
    """

    def __bool__(self) -> bool:
        return any(msgspec.structs.astuple(self))


def diff(before: MetadataImage, after: MetadataImage) -> ImageDiff:
    """What has to change in `before` to make it show what `after` shows."""
    old, new = before._parts, after._parts
    return ImageDiff(
        tuple(_feature_changes(before, after)),
        tuple(_config_changes(before, after)),
        tuple(_controller_changes(before, after)),
        brokers=_changes(old.brokers, new.brokers),
        topics=tuple(_topic_changes(old.topics, new.topics)),
        partitions=tuple(_partition_changes(old.topics, new.topics)),
        client_quotas=_changes(old.quotas, new.quotas),
        producer_ids=_changes(old.producer_ids, new.producer_ids),
        acls=_changes(old.acls, new.acls),
        scram_credentials=_changes(old.scram, new.scram),
        delegation_tokens=_changes(old.tokens, new.tokens),
        zk_migration=_changes(old.zk_migration, new.zk_migration),
        unknown_tags=tuple(_tag_changes(before, after)),
    )


K = TypeVar("K", bound=Ordered)


def _changes(before: Entities[K, R], after: Entities[K, R]) -> tuple[Change[R], ...]:
    return tuple(Change(old, new) for old, new in before.changes(after))


def _topic_changes(before: TopicsImage, after: TopicsImage) -> Iterator[Change[TopicRecord]]:
    for topic_id in before.changed_topics(after):
        old, new = before.get(topic_id), after.get(topic_id)
        if old != new:
            yield Change(old, new)


def _partition_changes(before: TopicsImage, after: TopicsImage) -> Iterator[Change[PartitionRecord]]:
    for topic_id in before.changed_topics(after):
        for old, new in before.partition_changes(after, topic_id):
            yield Change(old, new)


def _feature_changes(before: MetadataImage, after: MetadataImage) -> Iterator[FeatureChange]:
    names = {name for image in (before, after) for name, _ in image.features()}
    for name in sorted(names):
        old, new = before.feature_level(name), after.feature_level(name)
        if old != new:
            yield FeatureChange(name, old, new)


def _config_changes(before: MetadataImage, after: MetadataImage) -> Iterator[ConfigChange]:
    if before._configs is after._configs:
        return
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


def _tag_changes(before: MetadataImage, after: MetadataImage) -> Iterator[Change[_Tagged]]:
    were, are = _tagged(before, after), _tagged(after, before)
    for key in sorted({*were, *are}):
        old, new = were.get(key), are.get(key)
        if old != new:
            yield Change(old, new)


def _tagged(image: MetadataImage, other: MetadataImage) -> dict[tuple[int | str, ...], _Tagged]:
    """What has tags that nothing here knows; of the configs, what the other image does not share."""
    parts = image._parts
    found: dict[tuple[int | str, ...], _Tagged] = {}
    for feature in parts.features.to_records():
        if feature.unknown_tags:
            found[0, feature.name] = feature
    for controller in parts.controllers.tagged():
        found[1, "", controller.controller_id] = controller
    for config in image._configs.tagged(other._configs):
        found[2, config.resource_name, config.resource_type, config.name] = config
    return found
