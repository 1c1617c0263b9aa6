"""The state of the cluster at one offset of the metadata log, as an immutable value.

`to_records` writes the state out, as a snapshot holds it; `image_builder` makes one image of another. What a
`MetadataImage` is made of is private to these two: readers use its lookups and iterators, so that the
representation can change. Two images share all that they have in common.

Between BeginTransaction and EndTransaction the image shows what it showed before Begin; the pending side is
part of the state, not of the hash. A record of a kind or version that has no part here makes the image
partial: it is counted, and everything else stays true. Tags that nothing here knows stay with what their
record made, are in its hash, and are written again.

The hash is the sum, modulo 2^128, of a hash of each entity (D-18): it does not depend on the order in which
entities came to be, and every change keeps it up to date. Equal hashes on two nodes, or on a node and the
Spark job, mean equal images.

An entity is shown as the record that would make it as it is now. Each part of the state has a module in
`parts`.

Not here: what a request may change (`kraftd.controller`), and what differs between two images (`image_diff`).
Follows: the replay rules of Kafka's image, and the order of sections in its snapshots.
Differs: the content of an unfinished transaction is kept aside as an image, not as a list of deltas. What old
logs say of the migration from ZooKeeper is kept and written again, as Kafka did before 4.0.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec
from immutables import Map

from kraftd.metadata import clients
from kraftd.metadata.entities import Entities
from kraftd.metadata.entity_hash import HASH_MASK
from kraftd.metadata.feature_levels import DIRECTORIES_SINCE, METADATA_VERSION
from kraftd.metadata.parts.brokers import Brokers
from kraftd.metadata.parts.configs import ConfigEntry, ConfigPlace, ConfigsImage, Resource
from kraftd.metadata.parts.controllers import ControllerRegistration, ControllersImage
from kraftd.metadata.parts.features import FeaturesImage
from kraftd.metadata.parts.topics.broker_index import IN_SYNC, LEADER, REPLICA
from kraftd.metadata.parts.topics.image import TopicsImage
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from kraftd.types import NodeId, Offset, Uuid

__all__ = [
    "EMPTY",
    "ConfigEntry",
    "ControllerRegistration",
    "MetadataImage",
    "OpenTransaction",
    "to_records",
]


_Unknown: TypeAlias = Map[int, int]


class OpenTransaction(msgspec.Struct, frozen=True):
    """A BeginTransaction without its end. `pending` is what the image becomes if it ends well."""

    begin_offset: Offset
    name: str | None
    pending: "MetadataImage"


class _Parts(msgspec.Struct, frozen=True):
    """All but the configs, in one value: the many changes of configs do not have to look inside."""

    features: FeaturesImage = FeaturesImage()
    brokers: Brokers = Entities()
    controllers: ControllersImage = ControllersImage()
    topics: TopicsImage = TopicsImage()
    quotas: clients.Quotas = Entities()
    producer_ids: clients.ProducerIds = Entities()
    acls: clients.Acls = Entities()
    scram: clients.Scram = Entities()
    tokens: clients.Tokens = Entities()
    zk_migration: Entities[int, ZkMigrationStateRecord] = Entities()
    unknown: _Unknown = Map()


class MetadataImage(msgspec.Struct, frozen=True):
    """The state of a cluster at one point of the log. Make one with `EMPTY` and `apply`."""

    _configs: ConfigsImage = ConfigsImage()
    _parts: _Parts = _Parts()
    _transaction: OpenTransaction | None = None

    # -- lookups

    def feature_level(self, name: str) -> int:
        """The finalized level of a feature; 0 when it is off."""
        return self._parts.features.level(name)

    def config(self, resource_type: int, resource_name: str, name: str) -> str | None:
        """The dynamic value of one config, None if there is none."""
        return self._configs.get((resource_type, resource_name), name)

    def controller(self, node_id: NodeId) -> ControllerRegistration | None:
        """What a controller said of itself, None if it never registered."""
        return self._parts.controllers.get(node_id)

    def broker(self, node_id: NodeId) -> RegisterBrokerRecord | None:
        """The record that would register a broker as it is now, None if it is not registered."""
        return self._parts.brokers.get(node_id)

    def topic(self, topic_id: Uuid) -> TopicRecord | None:
        """A topic, None if there is none with this id."""
        return self._parts.topics.get(topic_id)

    def topic_id(self, name: str) -> Uuid | None:
        """The id of the topic of this name, None if there is none."""
        return self._parts.topics.id_of(name)

    def partition(self, topic_id: Uuid, partition_id: int) -> PartitionRecord | None:
        """The record that would make a partition as it is now, None if there is none."""
        return self._parts.topics.partition(topic_id, partition_id)

    def next_producer_id(self) -> int | None:
        """The first producer id that no broker has been given, None if none ever was."""
        record = self._parts.producer_ids.get(clients.THE_ONLY)
        return None if record is None else record.next_producer_id

    def acl(self, acl_id: Uuid) -> AccessControlEntryRecord | None:
        """An access control entry, None if there is none with this id."""
        return self._parts.acls.get(acl_id)

    def scram_credential(self, mechanism: int, user: str) -> UserScramCredentialRecord | None:
        """What a user logs in with by one mechanism, None if nothing."""
        return self._parts.scram.get((mechanism, user))

    def delegation_token(self, token_id: str) -> DelegationTokenRecord | None:
        """A delegation token, None if there is none with this id."""
        return self._parts.tokens.get(token_id)

    # -- iterators, in an order that does not depend on history

    def features(self) -> Iterator[tuple[str, int]]:
        """Every feature that is on, with its level: `metadata.version` first, then by name."""
        return self._parts.features.items()

    def config_resources(self, resource_type: int | None = None) -> Iterator[Resource]:
        """Every resource (type, name) that has configs, sorted; of one type only, if given."""
        return self._configs.resources(resource_type)

    def configs_of(self, resource_type: int, resource_name: str) -> Iterator[tuple[str, str]]:
        """The configs of one resource (name, value), sorted; made as they are taken."""
        return self._configs.of((resource_type, resource_name))

    def configs(
        self, resource_type: int | None = None, after: ConfigPlace | None = None
    ) -> Iterator[ConfigEntry]:
        """Every config, sorted, made as they are taken; of one type of resource, and after a place only, if
        given.
        """
        return self._configs.entries(resource_type, after)

    def controllers(self) -> Iterator[ControllerRegistration]:
        """Every registered controller, by id."""
        return self._parts.controllers.values()

    def brokers(self) -> Iterator[RegisterBrokerRecord]:
        """Every registered broker, by id."""
        return self._parts.brokers.values()

    def topics(self) -> Iterator[TopicRecord]:
        """Every topic, by name."""
        return self._parts.topics.topics()

    def partitions(self, topic_id: Uuid) -> Iterator[PartitionRecord]:
        """The partitions of a topic, by id."""
        return self._parts.topics.partitions(topic_id)

    def client_quotas(self) -> Iterator[ClientQuotaRecord]:
        """Every quota, by entity and name of the quota."""
        return self._parts.quotas.values()

    def acls(self) -> Iterator[AccessControlEntryRecord]:
        """Every access control entry, by id."""
        return self._parts.acls.values()

    def scram_credentials(self) -> Iterator[UserScramCredentialRecord]:
        """Every SCRAM credential, by mechanism and user."""
        return self._parts.scram.values()

    def delegation_tokens(self) -> Iterator[DelegationTokenRecord]:
        """Every delegation token, by id."""
        return self._parts.tokens.values()

    # -- the partitions of a broker (topic id, partition id), in no order, in time proportional to how many

    def partitions_led_by(self, broker_id: NodeId) -> Iterator[tuple[Uuid, int]]:
        """The partitions that a broker leads."""
        return self._parts.topics.partitions_of(broker_id, LEADER)

    def partitions_in_sync_on(self, broker_id: NodeId) -> Iterator[tuple[Uuid, int]]:
        """The partitions whose ISR a broker is in."""
        return self._parts.topics.partitions_of(broker_id, IN_SYNC)

    def partitions_on(self, broker_id: NodeId) -> Iterator[tuple[Uuid, int]]:
        """The partitions that a broker holds a replica of."""
        return self._parts.topics.partitions_of(broker_id, REPLICA)

    # -- about the image itself

    def hash(self) -> str:
        """The canonical hash (D-18), 32 hexadecimal digits. What is unknown or pending is not in it."""
        parts = self._parts
        summed = (
            self._configs,
            parts.features,
            parts.zk_migration,
            parts.brokers,
            parts.controllers,
            parts.topics,
            parts.quotas,
            parts.producer_ids,
            parts.acls,
            parts.scram,
            parts.tokens,
        )
        total = sum(part.sum for part in summed)
        return f"{total & HASH_MASK:032x}"

    def shares_configs(self, other: "MetadataImage", resource_type: int, resource_name: str) -> bool:
        """Whether two images hold the very same configs of one resource, which is cheap to see."""
        return self._configs.shares(other._configs, (resource_type, resource_name))

    def shares_topic(self, other: "MetadataImage", topic_id: Uuid) -> bool:
        """Whether two images hold the very same topic with its partitions, which is cheap to see."""
        return self._parts.topics.shares(other._parts.topics, topic_id)

    @property
    def is_empty(self) -> bool:
        """Whether no record has left anything here."""
        return not self._configs and self._parts == _Parts()

    @property
    def is_partial(self) -> bool:
        """Whether records were replayed that have no part in the image."""
        return bool(self._parts.unknown)

    def unknown_kinds(self) -> Iterator[tuple[int, int]]:
        """The kinds (record type numbers) without a part, each with how many records, by number."""
        return iter(sorted(self._parts.unknown.items()))

    @property
    def transaction(self) -> OpenTransaction | None:
        """The transaction that has begun and not ended here."""
        return self._transaction


EMPTY: Final = MetadataImage()
"""The image before the first record."""


def to_records(image: MetadataImage) -> Iterator[AnyRecord]:
    """The records that rebuild the image from nothing, in the order of a snapshot of Kafka's.

    An open transaction is not among them: a snapshot stands for what is visible.
    """
    parts = image._parts
    yield from parts.features.to_records()
    yield from parts.zk_migration.values()
    yield from parts.brokers.values()
    yield from parts.controllers.to_records()
    has_directories = image.feature_level(METADATA_VERSION) >= DIRECTORIES_SINCE
    yield from parts.topics.to_records(has_directories=has_directories)
    yield from image._configs.to_records()
    yield from parts.quotas.values()
    yield from parts.producer_ids.values()
    yield from parts.acls.values()
    yield from parts.scram.values()
    yield from parts.tokens.values()
