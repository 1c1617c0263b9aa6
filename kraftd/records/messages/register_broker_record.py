"""A broker introduces itself: incarnation, endpoints, directories and what it supports. Generated from
`proto/records/RegisterBrokerRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


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
