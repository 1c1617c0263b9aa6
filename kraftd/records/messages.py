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


class NoOpRecord(Struct, frozen=True, gc=False):
    """Says nothing. Written while idle, so that committed offsets keep moving."""

    API_KEY: ClassVar[int] = 20
    NAME: ClassVar[str] = "NoOpRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

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


ControlRecord: TypeAlias = (
    LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord
)
"""The control records of the quorum."""

Record: TypeAlias = (
    ConfigRecord
    | FeatureLevelRecord
    | NoOpRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | RegisterControllerRecord
)
"""The metadata records."""
