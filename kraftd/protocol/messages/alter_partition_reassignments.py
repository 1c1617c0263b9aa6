"""Moves replicas of partitions to other brokers, or calls it off. Generated from
`proto/rpc/AlterPartitionReassignments.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class AlterPartitionReassignmentsRequestReassignablePartition(Struct, frozen=True, gc=False):
    """In `AlterPartitionReassignmentsRequestReassignableTopic.partitions`. One entry a partition."""

    partition_index: int = 0
    """The partition's number. (int32)"""
    replicas: tuple[int, ...] | None = None
    """The brokers that shall hold the partition; null calls a move off. ([]int32)"""
    unknown_tags: UnknownTags = ()


class AlterPartitionReassignmentsRequestReassignableTopic(Struct, frozen=True, gc=False):
    """In `AlterPartitionReassignmentsRequest.topics`. One entry a topic."""

    name: str = ""
    """The topic's name. (string)"""
    partitions: tuple[AlterPartitionReassignmentsRequestReassignablePartition, ...] = ()
    """One entry a partition. ([]AlterPartitionReassignmentsRequestReassignablePartition)"""
    unknown_tags: UnknownTags = ()


class AlterPartitionReassignmentsRequest(Struct, frozen=True, gc=False):
    """Moves replicas of partitions to other brokers, or calls it off. The replicas that each partition
    shall have.
    """

    API_KEY: ClassVar[int] = 45
    NAME: ClassVar[str] = "AlterPartitionReassignmentsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    timeout_ms: int = 60000
    """How long the request may take. (int32)"""
    allow_replication_factor_change: bool = True
    """Whether a partition may end with another number of replicas. (bool, since version 1)"""
    topics: tuple[AlterPartitionReassignmentsRequestReassignableTopic, ...] = ()
    """One entry a topic. ([]AlterPartitionReassignmentsRequestReassignableTopic)"""
    unknown_tags: UnknownTags = ()


class AlterPartitionReassignmentsResponseReassignablePartitionResponse(Struct, frozen=True, gc=False):
    """In `AlterPartitionReassignmentsResponseReassignableTopicResponse.partitions`. One entry a
    partition.
    """

    partition_index: int = 0
    """The partition's number. (int32)"""
    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    unknown_tags: UnknownTags = ()


class AlterPartitionReassignmentsResponseReassignableTopicResponse(Struct, frozen=True, gc=False):
    """In `AlterPartitionReassignmentsResponse.responses`. One entry a topic."""

    name: str = ""
    """The topic's name. (string)"""
    partitions: tuple[AlterPartitionReassignmentsResponseReassignablePartitionResponse, ...] = ()
    """One entry a partition. ([]AlterPartitionReassignmentsResponseReassignablePartitionResponse)"""
    unknown_tags: UnknownTags = ()


class AlterPartitionReassignmentsResponse(Struct, frozen=True, gc=False):
    """The outcome for each partition."""

    API_KEY: ClassVar[int] = 45
    NAME: ClassVar[str] = "AlterPartitionReassignmentsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    allow_replication_factor_change: bool = True
    """Whether a partition may end with another number of replicas. (bool, since version 1)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    responses: tuple[AlterPartitionReassignmentsResponseReassignableTopicResponse, ...] = ()
    """One entry a topic. ([]AlterPartitionReassignmentsResponseReassignableTopicResponse)"""
    unknown_tags: UnknownTags = ()
