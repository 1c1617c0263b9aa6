"""The state of the cluster at one offset of the metadata log, as an immutable value.

`apply` folds one record, `Fold` many, `to_records` writes the state out again, as a snapshot holds it. What a
`MetadataImage` is made of is private: readers use its lookups and iterators, so that the representation can
change. Two images share all that they have in common.

Between BeginTransaction and EndTransaction the image shows what it showed before Begin; the pending side is
part of the state, not of the hash. A record of a kind or version that has no part here makes the image
partial: it is counted, and everything else stays true (`is_folded` tells). A record that cannot follow what
came before it is an `ImpossibleRecordError`, and leaves nothing half applied.

Tags that nothing here knows stay with what their record made, are in its mark, and are written again. Those
of a record that only changes an entity have no place to stay: what it says is folded, and the image partial.

The hash is the sum, modulo 2^128, of a mark of each entity (D-18): it does not depend on the order in which
entities came to be, and every fold keeps it up to date. Equal hashes on two nodes, or on a node and the Spark
job, mean equal images.

An entity is shown as the record that would make it as it is now. Each part of the state has a module
(`features_image`, `brokers`, `controllers_image`, `topics_image`, `configs_image`, `clients`); a new kind of
record adds a part, its lookups here and a row to the table of handlers.

Not here: what a request may change (`kraftd.controller`), and what differs between two images (`delta`).
Follows: the replay rules of Kafka's image, and the order of sections in its snapshots.
Differs: the content of an unfinished transaction is kept aside as an image, not as a list of deltas. What old
logs say of the migration from ZooKeeper is kept and written again, as Kafka did before 4.0.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import msgspec
from immutables import Map

from kraftd.metadata import brokers, clients
from kraftd.metadata.brokers import Brokers
from kraftd.metadata.configs import ResourceType
from kraftd.metadata.configs_image import ConfigEntry, ConfigsFold, ConfigsImage, Resource
from kraftd.metadata.controllers_image import ControllerRegistration, ControllersImage
from kraftd.metadata.entities import Entities
from kraftd.metadata.features import DIRECTORIES_SINCE, ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION
from kraftd.metadata.features_image import FeaturesImage
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.mark import MARK_MASK
from kraftd.metadata.topics_image import TopicsFold, TopicsImage
from kraftd.records.frame import AnyRecord, RawRecord
from kraftd.records.messages import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from kraftd.types import NodeId, Offset, Uuid

__all__ = [
    "EMPTY",
    "ConfigEntry",
    "ControllerRegistration",
    "Fold",
    "ImpossibleRecordError",
    "MetadataImage",
    "OpenTransaction",
    "apply",
    "apply_all",
    "is_folded",
    "to_records",
]


_Unknown: TypeAlias = Map[int, int]

_TOPIC_CONFIGS: Final = int(ResourceType.TOPIC)


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
        """The configs of one resource (name, value), sorted."""
        return self._configs.of((resource_type, resource_name))

    def configs(self, resource_type: int | None = None) -> Iterator[ConfigEntry]:
        """Every config, sorted; of one type of resource only, if given."""
        return self._configs.entries(resource_type)

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
        return f"{total & MARK_MASK:032x}"

    def shares_configs(self, other: "MetadataImage", resource_type: int, resource_name: str) -> bool:
        """Whether two images hold the very same configs of one resource, which is cheap to see."""
        return self._configs.shares(other._configs, (resource_type, resource_name))

    def shares_topic(self, other: "MetadataImage", topic_id: Uuid) -> bool:
        """Whether two images hold the very same topic with its partitions, which is cheap to see."""
        return self._parts.topics.shares(other._parts.topics, topic_id)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has ever been folded that left a trace."""
        return not self._configs and self._parts == _Parts()

    @property
    def is_partial(self) -> bool:
        """Whether records were folded past that have no part in the image."""
        return bool(self._parts.unknown)

    def unknown_kinds(self) -> Iterator[tuple[int, int]]:
        """The kinds (record type numbers) folded past, each with how many records, by number."""
        return iter(sorted(self._parts.unknown.items()))

    @property
    def transaction(self) -> OpenTransaction | None:
        """The transaction that has begun and not ended here."""
        return self._transaction


EMPTY: Final = MetadataImage()
"""The image before the first record."""


def apply(image: MetadataImage, record: AnyRecord, offset: Offset) -> MetadataImage:
    """Fold one record.

    Raises:
        ImpossibleRecordError: It cannot follow what is in the image.
    """
    fold = Fold(image)
    fold.add(record, offset)
    return fold.image()


def apply_all(image: MetadataImage, records: Iterable[AnyRecord], base_offset: Offset) -> MetadataImage:
    """Fold records of consecutive offsets; all of them or, when one is impossible, none."""
    fold = Fold(image)
    for offset, record in enumerate(records, base_offset):
        fold.add(record, offset)
    return fold.image()


def is_folded(record: AnyRecord) -> bool:
    """Whether a record has its part in an image; any other makes the image partial."""
    if isinstance(record, _CHANGES):
        return not record.unknown_tags
    return type(record) is ConfigRecord or _HANDLERS[type(record)] is not Fold._past


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


class Fold:
    """A scratch copy of an image that records are folded into, cheaper than one image a record.

    It belongs to whoever made it. When `add` raises, it must be dropped; the image it came from is untouched.
    """

    __slots__ = ("_begin", "_configs", "_outside", "_parts", "_topics", "put_config")

    put_config: Callable[..., None]
    """Fold a ConfigRecord given by its fields: resource's type and name, name, value or None, tags if any."""

    def __init__(self, image: MetadataImage) -> None:
        self._outside: MetadataImage | None = None
        self._begin: tuple[Offset, str | None] = (0, None)
        transaction = image._transaction
        if transaction is None:
            self._load(image)
        else:
            self._outside = image
            self._begin = (transaction.begin_offset, transaction.name)
            self._load(transaction.pending)

    def add(self, record: AnyRecord, offset: Offset) -> None:
        """Fold one record.

        Raises:
            ImpossibleRecordError: It cannot follow what is here. Drop this fold then.
        """
        if type(record) is ConfigRecord:
            self.put_config(
                record.resource_type, record.resource_name, record.name, record.value, record.unknown_tags
            )
        else:
            _HANDLERS[type(record)](self, record, offset)

    def image(self) -> MetadataImage:
        """What has been folded so far, as an image."""
        inside = self._freeze()
        if self._outside is None:
            return inside
        return msgspec.structs.replace(self._outside, _transaction=OpenTransaction(*self._begin, inside))

    def _load(self, image: MetadataImage) -> None:
        self._parts = image._parts
        self._topics: TopicsFold | None = None
        self._configs = ConfigsFold(image._configs)
        self.put_config = self._configs.put

    def _freeze(self) -> MetadataImage:
        if self._topics is not None:
            self._set(topics=self._topics.image())
            self._topics = None
        return MetadataImage(self._configs.image(), self._parts)

    def _set(self, **parts: object) -> None:
        self._parts = msgspec.structs.replace(self._parts, **parts)

    # -- one handler a kind of record; the rest of the program finds them in _HANDLERS

    def _no_op(self, _record: NoOpRecord, _offset: Offset) -> None:
        pass

    def _feature_level(self, record: FeatureLevelRecord, offset: Offset) -> None:
        if record.feature_level < 0:
            reason = f"feature {record.name} cannot be at level {record.feature_level}"
            raise ImpossibleRecordError(offset, reason)
        features = self._parts.features.put(record.name, record.feature_level, record.unknown_tags)
        self._set(features=features)
        if record.name == ELIGIBLE_LEADER_REPLICAS and record.feature_level == 0:
            self._topics_fold().drop_elr()

    def _register_controller(self, record: RegisterControllerRecord, _offset: Offset) -> None:
        self._set(controllers=self._parts.controllers.put(record))

    def _register_broker(self, record: RegisterBrokerRecord, _offset: Offset) -> None:
        self._put_broker(brokers.registered(record))

    def _unregister_broker(self, record: UnregisterBrokerRecord, offset: Offset) -> None:
        registered = self._parts.brokers
        brokers.in_epoch(registered, record.broker_id, record.broker_epoch, offset)
        self._set(brokers=registered.remove(record.broker_id))

    def _fence_broker(self, record: FenceBrokerRecord | UnfenceBrokerRecord, offset: Offset) -> None:
        broker = brokers.in_epoch(self._parts.brokers, record.id, record.epoch, offset)
        self._put_broker(brokers.fenced(broker, now=isinstance(record, FenceBrokerRecord)))

    def _change_broker(self, record: BrokerRegistrationChangeRecord, offset: Offset) -> None:
        broker = brokers.in_epoch(self._parts.brokers, record.broker_id, record.broker_epoch, offset)
        self._put_broker(brokers.changed(broker, record, offset))
        self._note_lost_tags(record, offset)

    def _put_broker(self, broker: RegisterBrokerRecord) -> None:
        self._set(brokers=self._parts.brokers.put(broker.broker_id, broker))

    def _add_topic(self, record: TopicRecord, offset: Offset) -> None:
        self._topics_fold().add_topic(record, offset)

    def _put_partition(self, record: PartitionRecord, offset: Offset) -> None:
        self._topics_fold().put_partition(record, offset)

    def _change_partition(self, record: PartitionChangeRecord, offset: Offset) -> None:
        self._topics_fold().change_partition(record, offset)
        self._note_lost_tags(record, offset)

    def _remove_topic(self, record: RemoveTopicRecord, offset: Offset) -> None:
        name = self._topics_fold().remove_topic(record.topic_id, offset)
        self._configs.remove((_TOPIC_CONFIGS, name))

    def _clear_elr(self, record: ClearElrRecord, offset: Offset) -> None:
        self._topics_fold().clear_elr(record.topic_name, offset)

    def _topics_fold(self) -> TopicsFold:
        if self._topics is None:
            self._topics = TopicsFold(self._parts.topics)
        return self._topics

    def _client_quota(self, record: ClientQuotaRecord, _offset: Offset) -> None:
        self._set(quotas=clients.with_quota(self._parts.quotas, record))

    def _producer_ids(self, record: ProducerIdsRecord, _offset: Offset) -> None:
        self._set(producer_ids=clients.with_producer_ids(self._parts.producer_ids, record))

    def _put_acl(self, record: AccessControlEntryRecord, _offset: Offset) -> None:
        self._set(acls=self._parts.acls.put(record.id, record))

    def _remove_acl(self, record: RemoveAccessControlEntryRecord, offset: Offset) -> None:
        self._set(acls=clients.without_acl(self._parts.acls, record, offset))

    def _put_scram(self, record: UserScramCredentialRecord, _offset: Offset) -> None:
        self._set(scram=clients.with_scram(self._parts.scram, record))

    def _remove_scram(self, record: RemoveUserScramCredentialRecord, offset: Offset) -> None:
        self._set(scram=clients.without_scram(self._parts.scram, record, offset))

    def _put_token(self, record: DelegationTokenRecord, _offset: Offset) -> None:
        self._set(tokens=self._parts.tokens.put(record.token_id, record))

    def _remove_token(self, record: RemoveDelegationTokenRecord, _offset: Offset) -> None:
        self._set(tokens=self._parts.tokens.remove(record.token_id))

    def _zk_migration(self, record: ZkMigrationStateRecord, _offset: Offset) -> None:
        self._set(zk_migration=self._parts.zk_migration.put(clients.THE_ONLY, record))

    def _begin_transaction(self, record: BeginTransactionRecord, offset: Offset) -> None:
        if self._outside is not None:
            raise ImpossibleRecordError(
                offset, f"a transaction begins inside the one that began at {self._begin[0]}"
            )
        self._outside = self._freeze()
        self._begin = (offset, record.name)

    def _end_transaction(self, _record: EndTransactionRecord, offset: Offset) -> None:
        if self._outside is None:
            raise ImpossibleRecordError(offset, "a transaction ends that never began")
        self._outside = None

    def _abort_transaction(self, _record: AbortTransactionRecord, offset: Offset) -> None:
        if self._outside is None:
            raise ImpossibleRecordError(offset, "a transaction is aborted that never began")
        before = self._outside
        self._outside = None
        self._load(before)

    def _note_lost_tags(self, record: AnyRecord, offset: Offset) -> None:
        if not is_folded(record):
            self._past(record, offset)

    def _past(self, record: AnyRecord, _offset: Offset) -> None:
        kind = record.api_key if isinstance(record, RawRecord) else record.API_KEY
        unknown = self._parts.unknown
        self._set(unknown=unknown.set(kind, unknown.get(kind, 0) + 1))


_CHANGES: Final = (BrokerRegistrationChangeRecord, PartitionChangeRecord)
"""Kinds that change an entity and are not kept: a tag of theirs that nothing here knows would be lost."""

_HANDLERS: Final[dict[type, Callable[..., None]]] = {
    NoOpRecord: Fold._no_op,
    FeatureLevelRecord: Fold._feature_level,
    RegisterControllerRecord: Fold._register_controller,
    RegisterBrokerRecord: Fold._register_broker,
    UnregisterBrokerRecord: Fold._unregister_broker,
    FenceBrokerRecord: Fold._fence_broker,
    UnfenceBrokerRecord: Fold._fence_broker,
    BrokerRegistrationChangeRecord: Fold._change_broker,
    TopicRecord: Fold._add_topic,
    PartitionRecord: Fold._put_partition,
    PartitionChangeRecord: Fold._change_partition,
    RemoveTopicRecord: Fold._remove_topic,
    ClearElrRecord: Fold._clear_elr,
    ClientQuotaRecord: Fold._client_quota,
    ProducerIdsRecord: Fold._producer_ids,
    AccessControlEntryRecord: Fold._put_acl,
    RemoveAccessControlEntryRecord: Fold._remove_acl,
    UserScramCredentialRecord: Fold._put_scram,
    RemoveUserScramCredentialRecord: Fold._remove_scram,
    DelegationTokenRecord: Fold._put_token,
    RemoveDelegationTokenRecord: Fold._remove_token,
    ZkMigrationStateRecord: Fold._zk_migration,
    BeginTransactionRecord: Fold._begin_transaction,
    EndTransactionRecord: Fold._end_transaction,
    AbortTransactionRecord: Fold._abort_transaction,
    RawRecord: Fold._past,
}
"""What folds a record of each class but ConfigRecord, which `add` folds itself."""
