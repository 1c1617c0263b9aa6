"""A partition, whole: it comes to be, or a snapshot says what it is. Generated from
`proto/records/PartitionRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


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
