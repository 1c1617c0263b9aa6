"""A new leader announces itself, and later proves that it still leads. Generated from
`proto/rpc/BeginQuorumEpoch.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class BeginQuorumEpochRequestPartitionData(Struct, frozen=True, gc=False):
    """In `BeginQuorumEpochRequestTopicData.partitions`. Exactly one."""

    partition_index: int = 0
    """Always 0: the metadata log has one partition. (int32)"""
    voter_directory_id: Uuid = ZERO_UUID
    """The metadata directory that the receiver is believed to have. (uuid, since version 1)"""
    leader_id: int = 0
    """The new leader, who sends this. (int32)"""
    leader_epoch: int = 0
    """The epoch it leads. (int32)"""
    unknown_tags: UnknownTags = ()


class BeginQuorumEpochRequestTopicData(Struct, frozen=True, gc=False):
    """In `BeginQuorumEpochRequest.topics`. Exactly one: the metadata topic."""

    topic_name: str = ""
    """Always `__cluster_metadata`. (string)"""
    partitions: tuple[BeginQuorumEpochRequestPartitionData, ...] = ()
    """Exactly one. ([]BeginQuorumEpochRequestPartitionData)"""
    unknown_tags: UnknownTags = ()


class BeginQuorumEpochRequestLeaderEndpoint(Struct, frozen=True, gc=False):
    """In `BeginQuorumEpochRequest.leader_endpoints`. Where the leader listens, by listener."""

    name: str = ""
    """Name of the listener. (string, since version 1)"""
    host: str = ""
    """Host name or address, resolved anew on each connect. (string, since version 1)"""
    port: int = 0
    """TCP port. (uint16, since version 1)"""
    unknown_tags: UnknownTags = ()


class BeginQuorumEpochRequest(Struct, frozen=True, gc=False):
    """A new leader announces itself, and later proves that it still leads. Says who leads the epoch and
    where it listens.
    """

    API_KEY: ClassVar[int] = 53
    NAME: ClassVar[str] = "BeginQuorumEpochRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    cluster_id: str | None = None
    """The sender's cluster; null skips the check. (string)"""
    voter_id: int = -1
    """Who the sender believes it is talking to; -1 skips the check. (int32, since version 1)"""
    topics: tuple[BeginQuorumEpochRequestTopicData, ...] = ()
    """Exactly one: the metadata topic. ([]BeginQuorumEpochRequestTopicData)"""
    leader_endpoints: tuple[BeginQuorumEpochRequestLeaderEndpoint, ...] = ()
    """Where the leader listens, by listener. ([]BeginQuorumEpochRequestLeaderEndpoint, since version 1)"""
    unknown_tags: UnknownTags = ()


class BeginQuorumEpochResponsePartitionData(Struct, frozen=True, gc=False):
    """In `BeginQuorumEpochResponseTopicData.partitions`. Exactly one."""

    partition_index: int = 0
    """Always 0: the metadata log has one partition. (int32)"""
    error_code: int = 0
    """0, or why the leader was not accepted. (int16)"""
    leader_id: int = 0
    """The leader, or -1 while it is unknown. (int32)"""
    leader_epoch: int = 0
    """The highest epoch the sender knows. (int32)"""
    unknown_tags: UnknownTags = ()


class BeginQuorumEpochResponseTopicData(Struct, frozen=True, gc=False):
    """In `BeginQuorumEpochResponse.topics`. Exactly one: the metadata topic."""

    topic_name: str = ""
    """Always `__cluster_metadata`. (string)"""
    partitions: tuple[BeginQuorumEpochResponsePartitionData, ...] = ()
    """Exactly one. ([]BeginQuorumEpochResponsePartitionData)"""
    unknown_tags: UnknownTags = ()


class BeginQuorumEpochResponseNodeEndpoint(Struct, frozen=True, gc=False):
    """In `BeginQuorumEpochResponse.node_endpoints`. Where the leader listens, if it is known."""

    node_id: int = 0
    """Whose endpoint this is. (int32, since version 1)"""
    host: str = ""
    """Host name or address, resolved anew on each connect. (string, since version 1)"""
    port: int = 0
    """TCP port. (uint16, since version 1)"""
    unknown_tags: UnknownTags = ()


class BeginQuorumEpochResponse(Struct, frozen=True, gc=False):
    """Acknowledges the leader, or names a newer one."""

    API_KEY: ClassVar[int] = 53
    NAME: ClassVar[str] = "BeginQuorumEpochResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    topics: tuple[BeginQuorumEpochResponseTopicData, ...] = ()
    """Exactly one: the metadata topic. ([]BeginQuorumEpochResponseTopicData)"""
    node_endpoints: tuple[BeginQuorumEpochResponseNodeEndpoint, ...] = ()
    """Where the leader listens, if it is known. ([]BeginQuorumEpochResponseNodeEndpoint, tag 0, since
    version 1)
    """
    unknown_tags: UnknownTags = ()
