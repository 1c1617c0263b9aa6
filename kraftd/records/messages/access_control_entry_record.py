"""An access rule comes to be. Generated from `proto/records/AccessControlEntryRecord.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


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
