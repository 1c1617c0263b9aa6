"""What the records of one side's log amount to, and what its own numbers are called on both.

Topic ids, ACL ids, broker epochs and offsets differ between two controllers that did the same. An `Account`
folds one side's records, so that an operation can name them (`operations`), and gives each a number by the
order in which it came, so that answers and records can be compared (`normal`).

A fold of its own, of the few fields that operations name: kraftd's image is not asked, since kraftd is what
is judged.
"""

from dataclasses import dataclass, field
from typing import Any

from kraftd.records import messages as m
from tests.conformance_kafka.hmacs import hmac_of

NO_LEADER_CHANGE = -2
NO_CHANGE, SET_FALSE, SET_TRUE = 0, -1, 1


@dataclass
class Partition:
    """Where a partition is."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        """Whether its replicas are being moved."""
        return bool(self.adding or self.removing)


@dataclass
class Topic:
    """A topic that is there."""

    name: str
    topic_id: bytes
    partitions: dict[int, Partition] = field(default_factory=dict)


@dataclass
class Broker:
    """A broker that is registered."""

    epoch: int
    offset: int
    """Of its registration's record."""
    incarnation_id: bytes
    log_dirs: tuple[bytes, ...]
    is_fenced: bool
    is_stopping: bool = False
    cordoned: tuple[bytes, ...] | None = None


class Account:
    """One side's log so far."""

    def __init__(self) -> None:
        self.end_offset = 0
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.ids: dict[str, bytes] = {}
        """The newest id of each name, also of topics that are gone."""
        self.brokers: dict[int, Broker] = {}
        self.epochs: dict[int, int] = {}
        """The newest epoch of each broker, also of those that are gone."""
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}
        self.scram: set[tuple[str, int]] = set()
        self.acls: dict[bytes, m.AccessControlEntryRecord] = {}
        self.is_registered = False
        """Whether the controller itself is in its log."""
        self.topic_names: dict[bytes, str] = {}
        self.acl_names: dict[bytes, str] = {}
        self.epoch_names: dict[int, str] = {}
        self.tokens: dict[str, m.DelegationTokenRecord] = {}
        """The delegation tokens that are there, by id."""
        self.token_names: dict[str, str] = {}
        """By id, in the order in which they were made, also of those that are gone."""
        self.hmac_names: dict[bytes, str] = {}

        self.next_producer_id = 0
        self.life = 0
        """How often it began anew: ids that a script chooses are others then."""

    def forget_names(self) -> None:
        """Begin to count anew. Nothing that was named may be left."""
        self.life += 1
        self.topic_names.clear()
        self.acl_names.clear()
        self.epoch_names.clear()
        self.token_names.clear()
        self.hmac_names.clear()
        self.ids.clear()
        self.epochs.clear()

    def partition(self, topic: str, index: int) -> Partition | None:
        """A partition by name, if it is there."""
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(index)

    def apply(self, record: Any, offset: int) -> None:
        """Fold one record."""
        match record:
            case m.TopicRecord(name=name, topic_id=topic_id):
                self.topics[name] = self.by_id[topic_id] = Topic(name, topic_id)
                self.ids[name] = topic_id
                self.topic_names[topic_id] = f"topic {len(self.topic_names) + 1}"
            case m.RemoveTopicRecord(topic_id=topic_id):
                name = self.by_id.pop(topic_id).name
                self.topics.pop(name, None)
                self.configs.pop((2, name), None)
            case m.PartitionRecord():
                self.by_id[record.topic_id].partitions[record.partition_id] = Partition(
                    record.replicas,
                    record.isr,
                    record.leader,
                    record.leader_epoch,
                    record.partition_epoch,
                    record.eligible_leader_replicas or (),
                    record.adding_replicas,
                    record.removing_replicas,
                )
            case m.PartitionChangeRecord():
                self._change(self.by_id[record.topic_id].partitions[record.partition_id], record)
            case m.AccessControlEntryRecord():
                self.acls[record.id] = record
                self.acl_names[record.id] = f"acl {len(self.acl_names) + 1}"
            case m.RemoveAccessControlEntryRecord():
                self.acls.pop(record.id, None)
            case m.RegisterControllerRecord():
                self.is_registered = True
            case m.FeatureLevelRecord():
                self.features[record.name] = record.feature_level
            case _:
                self._apply_broker(record, offset)

    def _apply_broker(self, record: Any, offset: int) -> None:
        match record:
            case m.RegisterBrokerRecord():
                self.brokers[record.broker_id] = Broker(
                    record.broker_epoch,
                    offset,
                    record.incarnation_id,
                    record.log_dirs,
                    record.fenced,
                    record.in_controlled_shutdown,
                    record.cordoned_log_dirs,
                )
                self.epochs[record.broker_id] = record.broker_epoch
                self.epoch_names.setdefault(record.broker_epoch, f"epoch {len(self.epoch_names) + 1}")
            case m.UnregisterBrokerRecord():
                self.brokers.pop(record.broker_id)
            case m.FenceBrokerRecord() | m.UnfenceBrokerRecord():
                self.brokers[record.id].is_fenced = isinstance(record, m.FenceBrokerRecord)
            case m.BrokerRegistrationChangeRecord():
                broker = self.brokers[record.broker_id]
                if record.fenced != NO_CHANGE:
                    broker.is_fenced = record.fenced == SET_TRUE
                if record.in_controlled_shutdown != NO_CHANGE:
                    broker.is_stopping = True
                if record.log_dirs:
                    broker.log_dirs = record.log_dirs
                if record.cordoned_log_dirs is not None:
                    broker.cordoned = record.cordoned_log_dirs
            case _:
                self._apply_setting(record)

    def _apply_setting(self, record: Any) -> None:
        match record:
            case m.ConfigRecord():
                of_resource = self.configs.setdefault((record.resource_type, record.resource_name), {})
                if record.value is None:
                    of_resource.pop(record.name, None)
                else:
                    of_resource[record.name] = record.value
            case m.ClientQuotaRecord():
                entity = tuple((each.entity_type, each.entity_name) for each in record.entity)
                of_entity = self.quotas.setdefault(entity, {})
                if record.remove:
                    of_entity.pop(record.key, None)
                else:
                    of_entity[record.key] = record.value
            case m.UserScramCredentialRecord():
                self.scram.add((record.name, record.mechanism))
            case m.RemoveUserScramCredentialRecord():
                self.scram.discard((record.name, record.mechanism))
            case m.ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
            case m.DelegationTokenRecord(token_id=token_id):
                self.tokens[token_id] = record
                if token_id not in self.token_names:
                    number = len(self.token_names)
                    self.token_names[token_id] = f"token {number}"
                    self.hmac_names[hmac_of(token_id)] = f"HMAC {number}"
            case m.RemoveDelegationTokenRecord(token_id=token_id):
                self.tokens.pop(token_id, None)
            case _:
                pass

    @staticmethod
    def _change(partition: Partition, record: m.PartitionChangeRecord) -> None:
        partition.partition_epoch += 1
        if record.leader != NO_LEADER_CHANGE:
            partition.leader = record.leader
            partition.leader_epoch += 1
        if record.isr is not None:
            partition.isr = record.isr
        if record.replicas is not None:
            partition.replicas = record.replicas
        if record.eligible_leader_replicas is not None:
            partition.elr = record.eligible_leader_replicas
        if record.adding_replicas is not None:
            partition.adding = record.adding_replicas
        if record.removing_replicas is not None:
            partition.removing = record.removing_replicas
