"""What changes in one partition; what is absent stays. Generated from
`proto/records/PartitionChangeRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


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
