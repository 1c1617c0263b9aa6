"""The partitions whose replicas are being moved. Generated from
`proto/rpc/ListPartitionReassignments.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class ListPartitionReassignmentsRequestListPartitionReassignmentsTopics(Struct, frozen=True, gc=False):
    """In `ListPartitionReassignmentsRequest.topics`. One entry a topic; null for all that are being
    moved.
    """

    name: str = ""
    """The topic's name. (string)"""
    partition_indexes: tuple[int, ...] = ()
    """The partitions asked for. ([]int32)"""
    unknown_tags: UnknownTags = ()


class ListPartitionReassignmentsRequest(Struct, frozen=True, gc=False):
    """The partitions whose replicas are being moved. Asks about some partitions, or about all."""

    API_KEY: ClassVar[int] = 46
    NAME: ClassVar[str] = "ListPartitionReassignmentsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    timeout_ms: int = 60000
    """How long the request may take. (int32)"""
    topics: tuple[ListPartitionReassignmentsRequestListPartitionReassignmentsTopics, ...] | None = None
    """One entry a topic; null for all that are being moved.
    ([]ListPartitionReassignmentsRequestListPartitionReassignmentsTopics)
    """
    unknown_tags: UnknownTags = ()


class ListPartitionReassignmentsResponseOngoingPartitionReassignment(Struct, frozen=True, gc=False):
    """In `ListPartitionReassignmentsResponseOngoingTopicReassignment.partitions`. One entry a partition."""

    partition_index: int = 0
    """The partition's number. (int32)"""
    replicas: tuple[int, ...] = ()
    """The brokers that hold the partition. ([]int32)"""
    adding_replicas: tuple[int, ...] = ()
    """Those that are being added. ([]int32)"""
    removing_replicas: tuple[int, ...] = ()
    """Those that are being removed. ([]int32)"""
    unknown_tags: UnknownTags = ()


class ListPartitionReassignmentsResponseOngoingTopicReassignment(Struct, frozen=True, gc=False):
    """In `ListPartitionReassignmentsResponse.topics`. One entry a topic."""

    name: str = ""
    """The topic's name. (string)"""
    partitions: tuple[ListPartitionReassignmentsResponseOngoingPartitionReassignment, ...] = ()
    """One entry a partition. ([]ListPartitionReassignmentsResponseOngoingPartitionReassignment)"""
    unknown_tags: UnknownTags = ()


class ListPartitionReassignmentsResponse(Struct, frozen=True, gc=False):
    """Every partition asked for that is being moved."""

    API_KEY: ClassVar[int] = 46
    NAME: ClassVar[str] = "ListPartitionReassignmentsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    topics: tuple[ListPartitionReassignmentsResponseOngoingTopicReassignment, ...] = ()
    """One entry a topic. ([]ListPartitionReassignmentsResponseOngoingTopicReassignment)"""
    unknown_tags: UnknownTags = ()
