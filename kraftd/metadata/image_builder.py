"""How records change the state of the cluster: one image and a record give another image.

`apply` replays one record, `apply_all` several, all of them or none; an `ImageBuilder` takes many and makes
one image in the end. A record that cannot follow what came before it is an `ImpossibleRecordError`, and
leaves nothing half applied. `is_replayed` tells whether a record has its part in the image; any other makes
it partial. So does a tag that nothing here knows on a record that only changes an entity, since the image
cannot keep it: what the record says is replayed all the same.

Not here: what an image shows (`image`), and what its parts do with a record (their modules).
Follows: the replay rules of Kafka's image.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from kraftd.metadata import clients
from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS
from kraftd.metadata.image import MetadataImage, OpenTransaction
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.parts import brokers
from kraftd.metadata.parts.configs import ConfigsBuilder
from kraftd.metadata.parts.topics.builder import TopicsBuilder
from kraftd.metadata.parts.topics.change_fast_codec import decoded
from kraftd.metadata.parts.topics.partition_fast_codec import PARTITION
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
from kraftd.types import Offset

_TOPIC_CONFIGS: Final = int(ResourceType.TOPIC)


def apply(image: MetadataImage, record: AnyRecord, offset: Offset) -> MetadataImage:
    """Replay one record.

    Raises:
        ImpossibleRecordError: It cannot follow what is in the image.
    """
    builder = ImageBuilder(image)
    builder.replay(record, offset)
    return builder.image()


def apply_all(image: MetadataImage, records: Iterable[AnyRecord], base_offset: Offset) -> MetadataImage:
    """Replay records of consecutive offsets; all of them or, when one is impossible, none."""
    builder = ImageBuilder(image)
    for offset, record in enumerate(records, base_offset):
        builder.replay(record, offset)
    return builder.image()


def is_replayed(record: AnyRecord) -> bool:
    """Whether a record has its part in an image; any other makes the image partial."""
    if isinstance(record, _CHANGES):
        return not record.unknown_tags
    return type(record) is ConfigRecord or _HANDLERS[type(record)] is not ImageBuilder._past


class ImageBuilder:
    """A scratch copy of an image that records are written into, cheaper than one image a record.

    It belongs to whoever made it. When `add` raises, it must be dropped; the image it came from is untouched.
    """

    __slots__ = ("_begin", "_configs", "_outside", "_parts", "_topics", "put_config")

    put_config: Callable[..., None]
    """Replay a ConfigRecord given by its fields: resource's type and name, name, value or None, tags."""

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

    def replay(self, record: AnyRecord, offset: Offset) -> None:
        """Replay one record.

        Raises:
            ImpossibleRecordError: It cannot follow what is here. Drop this builder then.
        """
        if type(record) is ConfigRecord:
            self.put_config(
                record.resource_type, record.resource_name, record.name, record.value, record.unknown_tags
            )
        else:
            _HANDLERS[type(record)](self, record, offset)

    def replay_values(
        self,
        values: Sequence[bytes],
        base_offset: Offset,
        check: Callable[[AnyRecord, Offset], None] | None = None,
    ) -> None:
        """Replay records of consecutive offsets, given by their framed values. Partitions go in bulk.

        Every record is as valid as if it had been decoded. `check`, if given, sees each before it is
        replayed, but for those that an image always takes: configs and partitions.

        Raises:
            MalformedError: A value is no record.
            ImpossibleRecordError: A record cannot follow what is here. Drop this builder then, in both cases.
        """
        at, end = 0, len(values)
        while at < end:
            if values[at].startswith(PARTITION):
                at = self._topics_builder().put_values(values, at)
                if at == end:
                    return
            record = decoded(values[at])
            if check is not None and type(record) not in _ALWAYS_TAKEN:
                check(record, base_offset + at)
            self.replay(record, base_offset + at)
            at += 1

    def image(self) -> MetadataImage:
        """What has been replayed so far, as an image."""
        inside = self._freeze()
        if self._outside is None:
            return inside
        return msgspec.structs.replace(self._outside, _transaction=OpenTransaction(*self._begin, inside))

    def _load(self, image: MetadataImage) -> None:
        self._parts = image._parts
        self._topics: TopicsBuilder | None = None
        self._configs = ConfigsBuilder(image._configs)
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
            self._topics_builder().drop_elr(offset)

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
        self._topics_builder().add_topic(record, offset)

    def _put_partition(self, record: PartitionRecord, offset: Offset) -> None:
        self._topics_builder().put_partition(record, offset)

    def _change_partition(self, record: PartitionChangeRecord, offset: Offset) -> None:
        self._topics_builder().change_partition(record, offset)
        self._note_lost_tags(record, offset)

    def _remove_topic(self, record: RemoveTopicRecord, offset: Offset) -> None:
        name = self._topics_builder().remove_topic(record.topic_id, offset)
        self._configs.remove((_TOPIC_CONFIGS, name))

    def _clear_elr(self, record: ClearElrRecord, offset: Offset) -> None:
        self._topics_builder().clear_elr(record.topic_name, offset)

    def _topics_builder(self) -> TopicsBuilder:
        if self._topics is None:
            self._topics = TopicsBuilder(self._parts.topics)
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
        if not is_replayed(record):
            self._past(record, offset)

    def _past(self, record: AnyRecord, _offset: Offset) -> None:
        kind = record.api_key if isinstance(record, RawRecord) else record.API_KEY
        unknown = self._parts.unknown
        self._set(unknown=unknown.set(kind, unknown.get(kind, 0) + 1))


_ALWAYS_TAKEN: Final = (ConfigRecord, PartitionRecord)

_CHANGES: Final = (BrokerRegistrationChangeRecord, PartitionChangeRecord)
"""Kinds that change an entity and are not kept: a tag of theirs that nothing here knows would be lost."""

_HANDLERS: Final[dict[type, Callable[..., None]]] = {
    NoOpRecord: ImageBuilder._no_op,
    FeatureLevelRecord: ImageBuilder._feature_level,
    RegisterControllerRecord: ImageBuilder._register_controller,
    RegisterBrokerRecord: ImageBuilder._register_broker,
    UnregisterBrokerRecord: ImageBuilder._unregister_broker,
    FenceBrokerRecord: ImageBuilder._fence_broker,
    UnfenceBrokerRecord: ImageBuilder._fence_broker,
    BrokerRegistrationChangeRecord: ImageBuilder._change_broker,
    TopicRecord: ImageBuilder._add_topic,
    PartitionRecord: ImageBuilder._put_partition,
    PartitionChangeRecord: ImageBuilder._change_partition,
    RemoveTopicRecord: ImageBuilder._remove_topic,
    ClearElrRecord: ImageBuilder._clear_elr,
    ClientQuotaRecord: ImageBuilder._client_quota,
    ProducerIdsRecord: ImageBuilder._producer_ids,
    AccessControlEntryRecord: ImageBuilder._put_acl,
    RemoveAccessControlEntryRecord: ImageBuilder._remove_acl,
    UserScramCredentialRecord: ImageBuilder._put_scram,
    RemoveUserScramCredentialRecord: ImageBuilder._remove_scram,
    DelegationTokenRecord: ImageBuilder._put_token,
    RemoveDelegationTokenRecord: ImageBuilder._remove_token,
    ZkMigrationStateRecord: ImageBuilder._zk_migration,
    BeginTransactionRecord: ImageBuilder._begin_transaction,
    EndTransactionRecord: ImageBuilder._end_transaction,
    AbortTransactionRecord: ImageBuilder._abort_transaction,
    RawRecord: ImageBuilder._past,
}
"""What folds a record of each class but ConfigRecord, which `add` folds itself."""
