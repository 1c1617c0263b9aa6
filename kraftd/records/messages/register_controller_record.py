"""A controller introduces itself: incarnation, endpoints and what it supports. Generated from
`proto/records/RegisterControllerRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


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
