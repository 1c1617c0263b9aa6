"""Why a partition is as it is: what each of its replicas is like, and what an election would do.
Linearizable. Generated from `proto/rpc/ExplainPartition.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class ExplainPartitionRequest(Struct, frozen=True, gc=False):
    """Why a partition is as it is: what each of its replicas is like, and what an election would do.
    Linearizable. Asks about a partition.
    """

    API_KEY: ClassVar[int] = 20014
    NAME: ClassVar[str] = "ExplainPartitionRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    name: str = ""
    """Its topic's name. (string)"""
    partition_index: int = 0
    """Its index. (int32)"""
    unknown_tags: UnknownTags = ()


class ExplainPartitionResponseReplica(Struct, frozen=True, gc=False):
    """In `ExplainPartitionResponse.replicas`. Its replicas, the preferred leader first."""

    broker_id: int = 0
    """The broker that holds it. (int32)"""
    state: int = 0
    """1 new: the broker has not told its directory yet, 2 online, 3 offline. (int8)"""
    broker_state: int = 0
    """0 active, 1 fenced, 2 shutting down, 3 not registered. (int8)"""
    directory_state: int = 0
    """0 online, 1 not told yet, 2 not one of the broker's any more. (int8)"""
    directory: Uuid = ZERO_UUID
    """The log directory. (uuid)"""
    is_in_sync: bool = False
    """Whether it is in the ISR. (bool)"""
    is_eligible: bool = False
    """Whether it may lead without loss although it is not in the ISR. (bool)"""
    is_adding: bool = False
    """Whether a reassignment adds it. (bool)"""
    is_removing: bool = False
    """Whether a reassignment removes it. (bool)"""
    leads: int = 0
    """Of a partition without leader, what becomes of it once this replica can lead: 0 nothing, 1 it
    leads, 2 it leads and may lack records, 3 it leads, and may lack records if its broker crashed. (int8)
    """
    unknown_tags: UnknownTags = ()


class ExplainPartitionResponseRemoval(Struct, frozen=True, gc=False):
    """In `ExplainPartitionResponse.removals`. The replicas that were taken away, the newest of each
    broker, as far as the active controller knows; of brokers that hold one now only an old copy in a log
    directory that is offline.
    """

    broker_id: int = 0
    """The broker that held it. (int32)"""
    state: int = 0
    """As in ListDeletions. (int8)"""
    broker_state: int = 0
    """As of a replica. (int8)"""
    offset: int = 0
    """The record that took it away. (int64)"""
    reason: int = 0
    """0 the topic was deleted, 1 a reassignment. (int8)"""
    is_set_aside: bool = False
    """As in ListDeletions. (bool)"""
    is_heard: bool = False
    """As in ListDeletions. (bool)"""
    is_directory_offline: bool = False
    """As in ListDeletions. (bool)"""
    unknown_tags: UnknownTags = ()


class ExplainPartitionResponse(Struct, frozen=True, gc=False):
    """The partition, by the rules that elections follow."""

    API_KEY: ClassVar[int] = 20014
    NAME: ClassVar[str] = "ExplainPartitionResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    applied_offset: int = 0
    """The image holds everything before it. (int64)"""
    topic_id: Uuid = ZERO_UUID
    """The topic's id. (uuid)"""
    state: str = ""
    """NonExistent, New (decided, and not committed yet), Online or Offline. Of the first two only the
    removals are told. (string)
    """
    leader_id: int = -1
    """The broker that leads it, or -1. (int32)"""
    leader_epoch: int = 0
    """How often its leader was set. (int32)"""
    partition_epoch: int = 0
    """How often it was changed. (int32)"""
    min_isr: int = 0
    """How many replicas must be in sync for acks=all. (int32)"""
    is_unclean_allowed: bool = False
    """Whether a replica that may lack records leads it where no other can. (bool)"""
    is_leader_recovering: bool = False
    """Whether its leader was elected uncleanly and has not recovered. (bool)"""
    unclean_leader_id: int = -1
    """Who would lead it after an unclean election now, or -1; of a partition that has a leader always
    -1. (int32)
    """
    replicas: tuple[ExplainPartitionResponseReplica, ...] = ()
    """Its replicas, the preferred leader first. ([]ExplainPartitionResponseReplica)"""
    removals: tuple[ExplainPartitionResponseRemoval, ...] = ()
    """The replicas that were taken away, the newest of each broker, as far as the active controller
    knows; of brokers that hold one now only an old copy in a log directory that is offline.
    ([]ExplainPartitionResponseRemoval)
    """
    unknown_tags: UnknownTags = ()
