"""The leader of a partition proposes which replicas are in sync. Generated from
`proto/rpc/AlterPartition.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class AlterPartitionRequestBrokerState(Struct, frozen=True, gc=False):
    """In `AlterPartitionRequestPartitionData.new_isr_with_epochs`. The replicas that shall be in sync."""

    broker_id: int = 0
    """The replica's broker. (int32, since version 3)"""
    broker_epoch: int = -1
    """The broker's epoch as the leader knows it; -1 if it does not. (int64, since version 3)"""
    unknown_tags: UnknownTags = ()


class AlterPartitionRequestPartitionData(Struct, frozen=True, gc=False):
    """In `AlterPartitionRequestTopicData.partitions`. One entry a partition."""

    partition_index: int = 0
    """The partition's number. (int32)"""
    leader_epoch: int = 0
    """The leader's epoch. (int32)"""
    new_isr: tuple[int, ...] = ()
    """The replicas that shall be in sync, in versions without epochs. ([]int32, only in version 2)"""
    new_isr_with_epochs: tuple[AlterPartitionRequestBrokerState, ...] = ()
    """The replicas that shall be in sync. ([]AlterPartitionRequestBrokerState, since version 3)"""
    leader_recovery_state: int = 0
    """0 recovered; 1 if the leader still recovers from an unclean election. (int8)"""
    partition_epoch: int = 0
    """How often the partition has changed. (int32)"""
    unknown_tags: UnknownTags = ()


class AlterPartitionRequestTopicData(Struct, frozen=True, gc=False):
    """In `AlterPartitionRequest.topics`. One entry a topic."""

    topic_id: Uuid = ZERO_UUID
    """The topic's id. (uuid)"""
    partitions: tuple[AlterPartitionRequestPartitionData, ...] = ()
    """One entry a partition. ([]AlterPartitionRequestPartitionData)"""
    unknown_tags: UnknownTags = ()


class AlterPartitionRequest(Struct, frozen=True, gc=False):
    """The leader of a partition proposes which replicas are in sync. The changes that one broker wants,
    of all partitions that wait for one.
    """

    API_KEY: ClassVar[int] = 56
    NAME: ClassVar[str] = "AlterPartitionRequest"
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 3

    broker_id: int = 0
    """Which broker this is. (int32)"""
    broker_epoch: int = -1
    """The epoch of the broker's registration. (int64)"""
    topics: tuple[AlterPartitionRequestTopicData, ...] = ()
    """One entry a topic. ([]AlterPartitionRequestTopicData)"""
    unknown_tags: UnknownTags = ()


class AlterPartitionResponsePartitionData(Struct, frozen=True, gc=False):
    """In `AlterPartitionResponseTopicData.partitions`. One entry a partition."""

    partition_index: int = 0
    """The partition's number. (int32)"""
    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    leader_id: int = 0
    """The broker that leads, or -1. (int32)"""
    leader_epoch: int = 0
    """The leader's epoch. (int32)"""
    isr: tuple[int, ...] = ()
    """The replicas that are in sync. ([]int32)"""
    leader_recovery_state: int = 0
    """0 recovered; 1 if the leader still recovers from an unclean election. (int8)"""
    partition_epoch: int = 0
    """How often the partition has changed. (int32)"""
    unknown_tags: UnknownTags = ()


class AlterPartitionResponseTopicData(Struct, frozen=True, gc=False):
    """In `AlterPartitionResponse.topics`. One entry a topic."""

    topic_id: Uuid = ZERO_UUID
    """The topic's id. (uuid)"""
    partitions: tuple[AlterPartitionResponsePartitionData, ...] = ()
    """One entry a partition. ([]AlterPartitionResponsePartitionData)"""
    unknown_tags: UnknownTags = ()


class AlterPartitionResponse(Struct, frozen=True, gc=False):
    """The state of each partition after the change, or why it stayed."""

    API_KEY: ClassVar[int] = 56
    NAME: ClassVar[str] = "AlterPartitionResponse"
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 3

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    topics: tuple[AlterPartitionResponseTopicData, ...] = ()
    """One entry a topic. ([]AlterPartitionResponseTopicData)"""
    unknown_tags: UnknownTags = ()
