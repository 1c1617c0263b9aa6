"""Elects the leaders of partitions anew. Generated from `proto/rpc/ElectLeaders.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class ElectLeadersRequestTopicPartitions(Struct, frozen=True, gc=False):
    """In `ElectLeadersRequest.topic_partitions`. One entry a topic; null for all partitions."""

    topic: str = ""
    """The topic's name. (string)"""
    partitions: tuple[int, ...] = ()
    """The partitions' numbers. ([]int32)"""
    unknown_tags: UnknownTags = ()


class ElectLeadersRequest(Struct, frozen=True, gc=False):
    """Elects the leaders of partitions anew. The partitions to elect for."""

    API_KEY: ClassVar[int] = 43
    NAME: ClassVar[str] = "ElectLeadersRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    election_type: int = 0
    """0 elects the preferred replica, 1 any live one if it must be. (int8, since version 1)"""
    topic_partitions: tuple[ElectLeadersRequestTopicPartitions, ...] | None = ()
    """One entry a topic; null for all partitions. ([]ElectLeadersRequestTopicPartitions)"""
    timeout_ms: int = 60000
    """How long the request may take. (int32)"""
    unknown_tags: UnknownTags = ()


class ElectLeadersResponsePartitionResult(Struct, frozen=True, gc=False):
    """In `ElectLeadersResponseReplicaElectionResult.partition_result`. One entry a partition."""

    partition_id: int = 0
    """The partition's number. (int32)"""
    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    unknown_tags: UnknownTags = ()


class ElectLeadersResponseReplicaElectionResult(Struct, frozen=True, gc=False):
    """In `ElectLeadersResponse.replica_election_results`. One entry a topic."""

    topic: str = ""
    """The topic's name. (string)"""
    partition_result: tuple[ElectLeadersResponsePartitionResult, ...] = ()
    """One entry a partition. ([]ElectLeadersResponsePartitionResult)"""
    unknown_tags: UnknownTags = ()


class ElectLeadersResponse(Struct, frozen=True, gc=False):
    """The outcome for each partition."""

    API_KEY: ClassVar[int] = 43
    NAME: ClassVar[str] = "ElectLeadersResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16, since version 1)"""
    replica_election_results: tuple[ElectLeadersResponseReplicaElectionResult, ...] = ()
    """One entry a topic. ([]ElectLeadersResponseReplicaElectionResult)"""
    unknown_tags: UnknownTags = ()
