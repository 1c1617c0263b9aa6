"""A broker tells in which of its log directories replicas are. Generated from
`proto/rpc/AssignReplicasToDirs.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class AssignReplicasToDirsRequestPartitionData(Struct, frozen=True, gc=False):
    """In `AssignReplicasToDirsRequestTopicData.partitions`. One entry a partition."""

    partition_index: int = 0
    """The partition's number. (int32)"""
    unknown_tags: UnknownTags = ()


class AssignReplicasToDirsRequestTopicData(Struct, frozen=True, gc=False):
    """In `AssignReplicasToDirsRequestDirectoryData.topics`. One entry a topic."""

    topic_id: Uuid = ZERO_UUID
    """The topic's id. (uuid)"""
    partitions: tuple[AssignReplicasToDirsRequestPartitionData, ...] = ()
    """One entry a partition. ([]AssignReplicasToDirsRequestPartitionData)"""
    unknown_tags: UnknownTags = ()


class AssignReplicasToDirsRequestDirectoryData(Struct, frozen=True, gc=False):
    """In `AssignReplicasToDirsRequest.directories`. One entry a log directory."""

    id: Uuid = ZERO_UUID
    """The directory's id. (uuid)"""
    topics: tuple[AssignReplicasToDirsRequestTopicData, ...] = ()
    """One entry a topic. ([]AssignReplicasToDirsRequestTopicData)"""
    unknown_tags: UnknownTags = ()


class AssignReplicasToDirsRequest(Struct, frozen=True, gc=False):
    """A broker tells in which of its log directories replicas are. The replicas of one broker, by
    directory and topic.
    """

    API_KEY: ClassVar[int] = 73
    NAME: ClassVar[str] = "AssignReplicasToDirsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    broker_id: int = 0
    """Which broker this is. (int32)"""
    broker_epoch: int = -1
    """The epoch of the broker's registration. (int64)"""
    directories: tuple[AssignReplicasToDirsRequestDirectoryData, ...] = ()
    """One entry a log directory. ([]AssignReplicasToDirsRequestDirectoryData)"""
    unknown_tags: UnknownTags = ()


class AssignReplicasToDirsResponsePartitionData(Struct, frozen=True, gc=False):
    """In `AssignReplicasToDirsResponseTopicData.partitions`. One entry a partition."""

    partition_index: int = 0
    """The partition's number. (int32)"""
    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    unknown_tags: UnknownTags = ()


class AssignReplicasToDirsResponseTopicData(Struct, frozen=True, gc=False):
    """In `AssignReplicasToDirsResponseDirectoryData.topics`. One entry a topic."""

    topic_id: Uuid = ZERO_UUID
    """The topic's id. (uuid)"""
    partitions: tuple[AssignReplicasToDirsResponsePartitionData, ...] = ()
    """One entry a partition. ([]AssignReplicasToDirsResponsePartitionData)"""
    unknown_tags: UnknownTags = ()


class AssignReplicasToDirsResponseDirectoryData(Struct, frozen=True, gc=False):
    """In `AssignReplicasToDirsResponse.directories`. One entry a log directory."""

    id: Uuid = ZERO_UUID
    """The directory's id. (uuid)"""
    topics: tuple[AssignReplicasToDirsResponseTopicData, ...] = ()
    """One entry a topic. ([]AssignReplicasToDirsResponseTopicData)"""
    unknown_tags: UnknownTags = ()


class AssignReplicasToDirsResponse(Struct, frozen=True, gc=False):
    """The outcome for each replica."""

    API_KEY: ClassVar[int] = 73
    NAME: ClassVar[str] = "AssignReplicasToDirsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    directories: tuple[AssignReplicasToDirsResponseDirectoryData, ...] = ()
    """One entry a log directory. ([]AssignReplicasToDirsResponseDirectoryData)"""
    unknown_tags: UnknownTags = ()
