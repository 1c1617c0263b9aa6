"""Adds partitions to topics. Generated from `proto/rpc/CreatePartitions.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class CreatePartitionsRequestCreatePartitionsAssignment(Struct, frozen=True, gc=False):
    """In `CreatePartitionsRequestCreatePartitionsTopic.assignments`. The replicas of each new partition,
    placed by hand; null if the controller shall place them.
    """

    broker_ids: tuple[int, ...] = ()
    """The brokers of its replicas; the first is the preferred leader. ([]int32)"""
    unknown_tags: UnknownTags = ()


class CreatePartitionsRequestCreatePartitionsTopic(Struct, frozen=True, gc=False):
    """In `CreatePartitionsRequest.topics`. One entry a topic."""

    name: str = ""
    """The topic's name. (string)"""
    count: int = 0
    """How many partitions the topic shall have. (int32)"""
    assignments: tuple[CreatePartitionsRequestCreatePartitionsAssignment, ...] | None = ()
    """The replicas of each new partition, placed by hand; null if the controller shall place them.
    ([]CreatePartitionsRequestCreatePartitionsAssignment)
    """
    unknown_tags: UnknownTags = ()


class CreatePartitionsRequest(Struct, frozen=True, gc=False):
    """Adds partitions to topics. How many partitions each topic shall have."""

    API_KEY: ClassVar[int] = 37
    NAME: ClassVar[str] = "CreatePartitionsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3

    topics: tuple[CreatePartitionsRequestCreatePartitionsTopic, ...] = ()
    """One entry a topic. ([]CreatePartitionsRequestCreatePartitionsTopic)"""
    timeout_ms: int = 0
    """How long the request may take. (int32)"""
    validate_only: bool = False
    """Check everything, change nothing. (bool)"""
    unknown_tags: UnknownTags = ()


class CreatePartitionsResponseCreatePartitionsTopicResult(Struct, frozen=True, gc=False):
    """In `CreatePartitionsResponse.results`. One entry a topic."""

    name: str = ""
    """The topic's name. (string)"""
    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    unknown_tags: UnknownTags = ()


class CreatePartitionsResponse(Struct, frozen=True, gc=False):
    """The outcome for each topic, once it is committed."""

    API_KEY: ClassVar[int] = 37
    NAME: ClassVar[str] = "CreatePartitionsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    results: tuple[CreatePartitionsResponseCreatePartitionsTopicResult, ...] = ()
    """One entry a topic. ([]CreatePartitionsResponseCreatePartitionsTopicResult)"""
    unknown_tags: UnknownTags = ()
