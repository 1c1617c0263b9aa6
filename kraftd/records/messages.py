"""Control and metadata records, as frozen values. Generated from `proto/control/` and `proto/records/`
by `make proto`.
"""

from typing import ClassVar, TypeAlias

from msgspec import Struct

from kraftd.types import ZERO_UUID, Uuid

UnknownTags: TypeAlias = tuple[tuple[int, bytes], ...]
"""Tagged fields that this program does not know, still encoded, by ascending tag."""


class LeaderChangeMessageVoter(Struct, frozen=True, gc=False):
    """One voter."""

    voter_id: int = 0
    """Its id. (int32)"""
    voter_directory_id: Uuid = ZERO_UUID
    """Its metadata directory. (uuid, since version 1)"""
    unknown_tags: UnknownTags = ()


class LeaderChangeMessage(Struct, frozen=True, gc=False):
    """Opens each epoch: who leads it and who elected the leader. The first record a leader writes."""

    CONTROL_TYPE: ClassVar[int] = 2
    NAME: ClassVar[str] = "LeaderChangeMessage"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    version: int = 0
    """The version of this body, once more; readers go by the record's own. (int16)"""
    leader_id: int = 0
    """The leader of this epoch. (int32)"""
    voters: tuple[LeaderChangeMessageVoter, ...] = ()
    """The voters at the time of the election. ([]LeaderChangeMessageVoter)"""
    granting_voters: tuple[LeaderChangeMessageVoter, ...] = ()
    """Those who voted for the leader, itself included. ([]LeaderChangeMessageVoter)"""
    unknown_tags: UnknownTags = ()


class SnapshotHeaderRecord(Struct, frozen=True, gc=False):
    """Opens a snapshot."""

    CONTROL_TYPE: ClassVar[int] = 3
    NAME: ClassVar[str] = "SnapshotHeaderRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0
    """The version of this body, once more; readers go by the record's own. (int16)"""
    last_contained_log_timestamp: int = 0
    """When the last record in the snapshot was appended to the log. (int64)"""
    unknown_tags: UnknownTags = ()


class SnapshotFooterRecord(Struct, frozen=True, gc=False):
    """Closes a snapshot; without it, the snapshot was cut short."""

    CONTROL_TYPE: ClassVar[int] = 4
    NAME: ClassVar[str] = "SnapshotFooterRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0
    """The version of this body, once more; readers go by the record's own. (int16)"""
    unknown_tags: UnknownTags = ()


class KRaftVersionRecord(Struct, frozen=True, gc=False):
    """The level of the quorum protocol itself; 1 allows voters to change."""

    CONTROL_TYPE: ClassVar[int] = 5
    NAME: ClassVar[str] = "KRaftVersionRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0
    """The version of this body, once more; readers go by the record's own. (int16)"""
    kraft_version: int = 0
    """The level: 0 static voters, 1 dynamic ones. (int16)"""
    unknown_tags: UnknownTags = ()


class VotersRecordEndpoint(Struct, frozen=True, gc=False):
    """In `VotersRecordVoter.endpoints`. Where it listens, by listener."""

    name: str = ""
    """Name of the listener. (string)"""
    host: str = ""
    """Host name or address, resolved anew on each connect. (string)"""
    port: int = 0
    """TCP port. (uint16)"""
    unknown_tags: UnknownTags = ()


class VotersRecordKRaftVersionFeature(Struct, frozen=True, gc=False):
    """In `VotersRecordVoter.kraft_version_feature`. Levels of the quorum protocol that it supports."""

    min_supported_version: int = 0
    """Lowest level supported. (int16)"""
    max_supported_version: int = 0
    """Highest level supported. (int16)"""
    unknown_tags: UnknownTags = ()


class VotersRecordVoter(Struct, frozen=True, gc=False):
    """In `VotersRecord.voters`. Every voter."""

    voter_id: int = 0
    """Its id. (int32)"""
    voter_directory_id: Uuid = ZERO_UUID
    """Its metadata directory. (uuid)"""
    endpoints: tuple[VotersRecordEndpoint, ...] = ()
    """Where it listens, by listener. ([]VotersRecordEndpoint)"""
    kraft_version_feature: VotersRecordKRaftVersionFeature = VotersRecordKRaftVersionFeature()
    """Levels of the quorum protocol that it supports. (VotersRecordKRaftVersionFeature)"""
    unknown_tags: UnknownTags = ()


class VotersRecord(Struct, frozen=True, gc=False):
    """The set of voters from this offset on, with their directories and endpoints."""

    CONTROL_TYPE: ClassVar[int] = 6
    NAME: ClassVar[str] = "VotersRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0
    """The version of this body, once more; readers go by the record's own. (int16)"""
    voters: tuple[VotersRecordVoter, ...] = ()
    """Every voter. ([]VotersRecordVoter)"""
    unknown_tags: UnknownTags = ()


class RegisterBrokerRecordBrokerEndpoint(Struct, frozen=True, gc=False):
    """In `RegisterBrokerRecord.end_points`. Where it listens, by listener."""

    name: str = ""
    """Name of the listener. (string)"""
    host: str = ""
    """Host name or address. (string)"""
    port: int = 0
    """TCP port. (uint16)"""
    security_protocol: int = 0
    """How to talk to it: 0 plaintext, 1 TLS, 2 and 3 the same with SASL. (int16)"""
    unknown_tags: UnknownTags = ()


class RegisterBrokerRecordBrokerFeature(Struct, frozen=True, gc=False):
    """In `RegisterBrokerRecord.features`. Levels of each feature that it could run at."""

    name: str = ""
    """The feature. (string)"""
    min_supported_version: int = 0
    """Lowest level supported. (int16)"""
    max_supported_version: int = 0
    """Highest level supported. (int16)"""
    unknown_tags: UnknownTags = ()


class RegisterBrokerRecord(Struct, frozen=True, gc=False):
    """A broker introduces itself: incarnation, endpoints, directories and what it supports."""

    API_KEY: ClassVar[int] = 0
    NAME: ClassVar[str] = "RegisterBrokerRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    broker_id: int = 0
    """The broker. (int32)"""
    is_migrating_zk_broker: bool = False
    """Left over from ZooKeeper: whether it was still moving away from it. (bool, since version 2)"""
    incarnation_id: Uuid = ZERO_UUID
    """Drawn anew each time its process starts. (uuid)"""
    broker_epoch: int = 0
    """Its epoch from here on: the offset of this record, or one close to it. (int64)"""
    end_points: tuple[RegisterBrokerRecordBrokerEndpoint, ...] = ()
    """Where it listens, by listener. ([]RegisterBrokerRecordBrokerEndpoint)"""
    features: tuple[RegisterBrokerRecordBrokerFeature, ...] = ()
    """Levels of each feature that it could run at. ([]RegisterBrokerRecordBrokerFeature)"""
    rack: str | None = ""
    """Where it stands, if it says so. (string)"""
    fenced: bool = True
    """Whether it may not yet lead or be in sync. (bool)"""
    in_controlled_shutdown: bool = False
    """Whether it is handing over its partitions before it stops. (bool, since version 1)"""
    log_dirs: tuple[Uuid, ...] = ()
    """Ids of its log directories that work. ([]uuid, tag 0, since version 3)"""
    cordoned_log_dirs: tuple[Uuid, ...] | None = None
    """Ids of those that get no new replicas; null until its first heartbeat has named them. ([]uuid, tag
    1, since version 4)
    """
    unknown_tags: UnknownTags = ()


class UnregisterBrokerRecord(Struct, frozen=True, gc=False):
    """A broker is gone for good."""

    API_KEY: ClassVar[int] = 1
    NAME: ClassVar[str] = "UnregisterBrokerRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    broker_id: int = 0
    """The broker. (int32)"""
    broker_epoch: int = 0
    """The epoch of the registration that ends. (int64)"""
    unknown_tags: UnknownTags = ()


class TopicRecord(Struct, frozen=True, gc=False):
    """A topic comes to be; its partitions follow."""

    API_KEY: ClassVar[int] = 2
    NAME: ClassVar[str] = "TopicRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    name: str = ""
    """Its name. (string)"""
    topic_id: Uuid = ZERO_UUID
    """Its id, which no other topic ever gets. (uuid)"""
    unknown_tags: UnknownTags = ()


class PartitionRecord(Struct, frozen=True, gc=False):
    """A partition, whole: it comes to be, or a snapshot says what it is."""

    API_KEY: ClassVar[int] = 3
    NAME: ClassVar[str] = "PartitionRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    partition_id: int = -1
    """Its number in the topic. (int32)"""
    topic_id: Uuid = ZERO_UUID
    """Its topic. (uuid)"""
    replicas: tuple[int, ...] = ()
    """The brokers that hold it, the preferred leader first. ([]int32)"""
    isr: tuple[int, ...] = ()
    """Those of them that are in sync. ([]int32)"""
    removing_replicas: tuple[int, ...] = ()
    """Those that a reassignment takes away. ([]int32)"""
    adding_replicas: tuple[int, ...] = ()
    """Those that a reassignment adds. ([]int32)"""
    leader: int = -1
    """The broker that leads; -1 is none. (int32)"""
    leader_recovery_state: int = 0
    """1 while a leader that was not in sync makes up for it, 0 otherwise. (int8, tag 0)"""
    leader_epoch: int = -1
    """Rises with each change of the leader. (int32)"""
    partition_epoch: int = -1
    """Rises with each change of anything here. (int32)"""
    directories: tuple[Uuid, ...] = ()
    """The log directory of each replica, in the order of `Replicas`. ([]uuid, since version 1)"""
    eligible_leader_replicas: tuple[int, ...] | None = None
    """Out of sync, but known to lack nothing committed: these may lead as well. ([]int32, tag 1, since
    version 2)
    """
    last_known_elr: tuple[int, ...] | None = None
    """Eligible once, and lost since by an unclean stop. ([]int32, tag 2, since version 2)"""
    unknown_tags: UnknownTags = ()


class ConfigRecord(Struct, frozen=True, gc=False):
    """The value of one dynamic config of one resource."""

    API_KEY: ClassVar[int] = 4
    NAME: ClassVar[str] = "ConfigRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    resource_type: int = 0
    """4 is a broker or, with an empty name, all of them; 2 a topic. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    name: str = ""
    """Name of the config. (string)"""
    value: str | None = ""
    """Its value from here on; null removes it. (string)"""
    unknown_tags: UnknownTags = ()


class PartitionChangeRecord(Struct, frozen=True, gc=False):
    """What changes in one partition; what is absent stays."""

    API_KEY: ClassVar[int] = 5
    NAME: ClassVar[str] = "PartitionChangeRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    partition_id: int = -1
    """Its number in the topic. (int32)"""
    topic_id: Uuid = ZERO_UUID
    """Its topic. (uuid)"""
    isr: tuple[int, ...] | None = None
    """The replicas in sync from here on. ([]int32, tag 0)"""
    leader: int = -2
    """The leader from here on; -1 is none, -2 is no change. (int32, tag 1)"""
    replicas: tuple[int, ...] | None = None
    """The brokers that hold it from here on. ([]int32, tag 2)"""
    removing_replicas: tuple[int, ...] | None = None
    """Those that a reassignment takes away. ([]int32, tag 3)"""
    adding_replicas: tuple[int, ...] | None = None
    """Those that a reassignment adds. ([]int32, tag 4)"""
    leader_recovery_state: int = -1
    """1 recovering from an unclean election, 0 not, -1 no change. (int8, tag 5)"""
    directories: tuple[Uuid, ...] | None = None
    """The log directory of each replica from here on. ([]uuid, tag 8, since version 1)"""
    eligible_leader_replicas: tuple[int, ...] | None = None
    """Those out of sync that may lead as well. ([]int32, tag 6, since version 2)"""
    last_known_elr: tuple[int, ...] | None = None
    """Those that could once, before an unclean stop. ([]int32, tag 7, since version 2)"""
    unknown_tags: UnknownTags = ()


class FenceBrokerRecord(Struct, frozen=True, gc=False):
    """A broker is fenced: it may not lead or be in sync. Not written since 3.3: BrokerRegistrationChange
    says it.
    """

    API_KEY: ClassVar[int] = 7
    NAME: ClassVar[str] = "FenceBrokerRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    id: int = 0
    """The broker. (int32)"""
    epoch: int = 0
    """The epoch of its registration. (int64)"""
    unknown_tags: UnknownTags = ()


class UnfenceBrokerRecord(Struct, frozen=True, gc=False):
    """A broker is free again to lead and to be in sync. Not written since 3.3: BrokerRegistrationChange
    says it.
    """

    API_KEY: ClassVar[int] = 8
    NAME: ClassVar[str] = "UnfenceBrokerRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    id: int = 0
    """The broker. (int32)"""
    epoch: int = 0
    """The epoch of its registration. (int64)"""
    unknown_tags: UnknownTags = ()


class RemoveTopicRecord(Struct, frozen=True, gc=False):
    """A topic is gone, with its partitions and its configs."""

    API_KEY: ClassVar[int] = 9
    NAME: ClassVar[str] = "RemoveTopicRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    topic_id: Uuid = ZERO_UUID
    """The topic. (uuid)"""
    unknown_tags: UnknownTags = ()


class DelegationTokenRecord(Struct, frozen=True, gc=False):
    """A delegation token is given out or renewed. Its HMAC is not here: each node works it out from the
    id and its secret.
    """

    API_KEY: ClassVar[int] = 10
    NAME: ClassVar[str] = "DelegationTokenRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    owner: str = ""
    """Who it speaks for. (string)"""
    requester: str = ""
    """Who asked for it. (string)"""
    renewers: tuple[str, ...] = ()
    """Who else may renew it. ([]string)"""
    issue_timestamp: int = 0
    """When it was given out, in ms since 1970. (int64)"""
    max_timestamp: int = 0
    """After when it cannot be renewed. (int64)"""
    expiration_timestamp: int = 0
    """When it ends unless it is renewed. (int64)"""
    token_id: str = ""
    """Its id. (string)"""
    unknown_tags: UnknownTags = ()


class UserScramCredentialRecord(Struct, frozen=True, gc=False):
    """What proves that a user knows a password, for one SCRAM mechanism. A secret."""

    API_KEY: ClassVar[int] = 11
    NAME: ClassVar[str] = "UserScramCredentialRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    name: str = ""
    """The user. (string)"""
    mechanism: int = 0
    """1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512. (int8)"""
    salt: bytes = b""
    """What the password was salted with. (bytes)"""
    stored_key: bytes = b""
    """What the server checks the client by. (bytes)"""
    server_key: bytes = b""
    """What the client checks the server by. (bytes)"""
    iterations: int = 0
    """How often it was hashed. (int32)"""
    unknown_tags: UnknownTags = ()


class FeatureLevelRecord(Struct, frozen=True, gc=False):
    """The finalized level of one feature; the first of a log sets `metadata.version`."""

    API_KEY: ClassVar[int] = 12
    NAME: ClassVar[str] = "FeatureLevelRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    name: str = ""
    """The feature. (string)"""
    feature_level: int = 0
    """Its level from here on; 0 removes the feature. (int16)"""
    unknown_tags: UnknownTags = ()


class ClientQuotaRecordEntityData(Struct, frozen=True, gc=False):
    """In `ClientQuotaRecord.entity`. Whom it is for: all of these together."""

    entity_type: str = ""
    """`user`, `client-id` or `ip`. (string)"""
    entity_name: str | None = ""
    """Its name; null is everyone without a quota of their own. (string)"""
    unknown_tags: UnknownTags = ()


class ClientQuotaRecord(Struct, frozen=True, gc=False):
    """One quota of one kind of client."""

    API_KEY: ClassVar[int] = 14
    NAME: ClassVar[str] = "ClientQuotaRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    entity: tuple[ClientQuotaRecordEntityData, ...] = ()
    """Whom it is for: all of these together. ([]ClientQuotaRecordEntityData)"""
    key: str = ""
    """Which quota, such as `producer_byte_rate`. (string)"""
    value: float = 0.0
    """The limit from here on; without meaning when it is removed. (float64)"""
    remove: bool = False
    """Whether the quota is taken away. (bool)"""
    unknown_tags: UnknownTags = ()


class ProducerIdsRecord(Struct, frozen=True, gc=False):
    """A block of producer ids is given to a broker."""

    API_KEY: ClassVar[int] = 15
    NAME: ClassVar[str] = "ProducerIdsRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    broker_id: int = 0
    """Who asked for it. (int32)"""
    broker_epoch: int = -1
    """The epoch of its registration. (int64)"""
    next_producer_id: int = 0
    """The first id that is not given out yet. (int64)"""
    unknown_tags: UnknownTags = ()


class BrokerRegistrationChangeRecord(Struct, frozen=True, gc=False):
    """What changes in one broker's registration; what is absent stays."""

    API_KEY: ClassVar[int] = 17
    NAME: ClassVar[str] = "BrokerRegistrationChangeRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3

    broker_id: int = 0
    """The broker. (int32)"""
    broker_epoch: int = 0
    """The epoch of its registration. (int64)"""
    fenced: int = 0
    """1 fenced, -1 no longer, 0 no change. (int8, tag 0)"""
    in_controlled_shutdown: int = 0
    """1 it hands over before it stops, 0 no change. (int8, tag 1, since version 1)"""
    log_dirs: tuple[Uuid, ...] = ()
    """Ids of its log directories that work; empty is no change. ([]uuid, tag 2, since version 2)"""
    cordoned_log_dirs: tuple[Uuid, ...] | None = None
    """Ids of those that get no new replicas; null is no change. ([]uuid, tag 3, since version 3)"""
    unknown_tags: UnknownTags = ()


class AccessControlEntryRecord(Struct, frozen=True, gc=False):
    """An access rule comes to be."""

    API_KEY: ClassVar[int] = 18
    NAME: ClassVar[str] = "AccessControlEntryRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    id: Uuid = ZERO_UUID
    """Its id, by which it is removed. (uuid)"""
    resource_type: int = 0
    """2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user. (int8)"""
    resource_name: str = ""
    """Which resource. (string)"""
    pattern_type: int = 0
    """3 the name is meant as it is, 4 it is a prefix. (int8)"""
    principal: str = ""
    """Whom it is about, such as `User:alice`. (string)"""
    host: str = ""
    """From where; `*` is anywhere. (string)"""
    operation: int = 0
    """Kafka's number of what is done. (int8)"""
    permission_type: int = 0
    """2 forbids, 3 allows. (int8)"""
    unknown_tags: UnknownTags = ()


class RemoveAccessControlEntryRecord(Struct, frozen=True, gc=False):
    """An access rule is gone."""

    API_KEY: ClassVar[int] = 19
    NAME: ClassVar[str] = "RemoveAccessControlEntryRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    id: Uuid = ZERO_UUID
    """The rule. (uuid)"""
    unknown_tags: UnknownTags = ()


class NoOpRecord(Struct, frozen=True, gc=False):
    """Says nothing. Written while idle, so that committed offsets keep moving."""

    API_KEY: ClassVar[int] = 20
    NAME: ClassVar[str] = "NoOpRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    unknown_tags: UnknownTags = ()


class ZkMigrationStateRecord(Struct, frozen=True, gc=False):
    """How far the cluster had moved away from ZooKeeper. Only read: nothing has written it since 4.0."""

    API_KEY: ClassVar[int] = 21
    NAME: ClassVar[str] = "ZkMigrationStateRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    zk_migration_state: int = 0
    """0 never had it, 1 moving, 2 about to, 3 done. (int8)"""
    unknown_tags: UnknownTags = ()


class RemoveUserScramCredentialRecord(Struct, frozen=True, gc=False):
    """A user's credential for one SCRAM mechanism is gone."""

    API_KEY: ClassVar[int] = 22
    NAME: ClassVar[str] = "RemoveUserScramCredentialRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    name: str = ""
    """The user. (string)"""
    mechanism: int = 0
    """1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512. (int8)"""
    unknown_tags: UnknownTags = ()


class BeginTransactionRecord(Struct, frozen=True, gc=False):
    """Opens a metadata transaction: what follows counts only once it ends."""

    API_KEY: ClassVar[int] = 23
    NAME: ClassVar[str] = "BeginTransactionRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    name: str | None = None
    """What the transaction is for, for a person to read. (string, tag 0)"""
    unknown_tags: UnknownTags = ()


class EndTransactionRecord(Struct, frozen=True, gc=False):
    """Makes everything since the transaction's begin count."""

    API_KEY: ClassVar[int] = 24
    NAME: ClassVar[str] = "EndTransactionRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    unknown_tags: UnknownTags = ()


class AbortTransactionRecord(Struct, frozen=True, gc=False):
    """Discards everything since the transaction's begin."""

    API_KEY: ClassVar[int] = 25
    NAME: ClassVar[str] = "AbortTransactionRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    reason: str | None = None
    """Why it was given up, for a person to read. (string, tag 0)"""
    unknown_tags: UnknownTags = ()


class RemoveDelegationTokenRecord(Struct, frozen=True, gc=False):
    """A delegation token has ended."""

    API_KEY: ClassVar[int] = 26
    NAME: ClassVar[str] = "RemoveDelegationTokenRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    token_id: str = ""
    """The token. (string)"""
    unknown_tags: UnknownTags = ()


class RegisterControllerRecordControllerEndpoint(Struct, frozen=True, gc=False):
    """In `RegisterControllerRecord.end_points`. Where it listens, by listener."""

    name: str = ""
    """Name of the listener. (string)"""
    host: str = ""
    """Host name or address, resolved anew on each connect. (string)"""
    port: int = 0
    """TCP port. (uint16)"""
    security_protocol: int = 0
    """How to talk to it: 0 plaintext, 1 TLS. (int16)"""
    unknown_tags: UnknownTags = ()


class RegisterControllerRecordControllerFeature(Struct, frozen=True, gc=False):
    """In `RegisterControllerRecord.features`. Levels of each feature that it could run at."""

    name: str = ""
    """The feature. (string)"""
    min_supported_version: int = 0
    """Lowest level supported. (int16)"""
    max_supported_version: int = 0
    """Highest level supported. (int16)"""
    unknown_tags: UnknownTags = ()


class RegisterControllerRecord(Struct, frozen=True, gc=False):
    """A controller introduces itself: incarnation, endpoints and what it supports."""

    API_KEY: ClassVar[int] = 27
    NAME: ClassVar[str] = "RegisterControllerRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    controller_id: int = 0
    """The controller's id. (int32)"""
    incarnation_id: Uuid = ZERO_UUID
    """Drawn anew each time its process starts. (uuid)"""
    zk_migration_ready: bool = False
    """Left over from ZooKeeper. (bool)"""
    end_points: tuple[RegisterControllerRecordControllerEndpoint, ...] = ()
    """Where it listens, by listener. ([]RegisterControllerRecordControllerEndpoint)"""
    features: tuple[RegisterControllerRecordControllerFeature, ...] = ()
    """Levels of each feature that it could run at. ([]RegisterControllerRecordControllerFeature)"""
    unknown_tags: UnknownTags = ()


class ClearElrRecord(Struct, frozen=True, gc=False):
    """Partitions forget their eligible and last known eligible leader replicas."""

    API_KEY: ClassVar[int] = 28
    NAME: ClassVar[str] = "ClearElrRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    topic_name: str = ""
    """Of which topic; empty is all of them. (string)"""
    unknown_tags: UnknownTags = ()


ControlRecord: TypeAlias = (
    LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord
)
"""The control records of the quorum."""

Record: TypeAlias = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | RemoveTopicRecord
    | DelegationTokenRecord
    | UserScramCredentialRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | NoOpRecord
    | ZkMigrationStateRecord
    | RemoveUserScramCredentialRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | RemoveDelegationTokenRecord
    | RegisterControllerRecord
    | ClearElrRecord
)
"""The metadata records."""
