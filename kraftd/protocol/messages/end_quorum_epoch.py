"""A leader gives up its epoch and names who should follow it. Generated from
`proto/rpc/EndQuorumEpoch.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class EndQuorumEpochRequestReplicaInfo(Struct, frozen=True, gc=False):
    """In `EndQuorumEpochRequestPartitionData.preferred_candidates`. Voters, the best successor first."""

    candidate_id: int = 0
    """A voter's id. (int32, since version 1)"""
    candidate_directory_id: Uuid = ZERO_UUID
    """Its metadata directory. (uuid, since version 1)"""
    unknown_tags: UnknownTags = ()


class EndQuorumEpochRequestPartitionData(Struct, frozen=True, gc=False):
    """In `EndQuorumEpochRequestTopicData.partitions`. Exactly one."""

    partition_index: int = 0
    """Always 0: the metadata log has one partition. (int32)"""
    leader_id: int = 0
    """The resigning leader, who sends this. (int32)"""
    leader_epoch: int = 0
    """The epoch that ends. (int32)"""
    preferred_successors: tuple[int, ...] = ()
    """Voter ids, the best successor first. ([]int32, only in version 0)"""
    preferred_candidates: tuple[EndQuorumEpochRequestReplicaInfo, ...] = ()
    """Voters, the best successor first. ([]EndQuorumEpochRequestReplicaInfo, since version 1)"""
    unknown_tags: UnknownTags = ()


class EndQuorumEpochRequestTopicData(Struct, frozen=True, gc=False):
    """In `EndQuorumEpochRequest.topics`. Exactly one: the metadata topic."""

    topic_name: str = ""
    """Always `__cluster_metadata`. (string)"""
    partitions: tuple[EndQuorumEpochRequestPartitionData, ...] = ()
    """Exactly one. ([]EndQuorumEpochRequestPartitionData)"""
    unknown_tags: UnknownTags = ()


class EndQuorumEpochRequestLeaderEndpoint(Struct, frozen=True, gc=False):
    """In `EndQuorumEpochRequest.leader_endpoints`. Where the leader listens, by listener."""

    name: str = ""
    """Name of the listener. (string, since version 1)"""
    host: str = ""
    """Host name or address, resolved anew on each connect. (string, since version 1)"""
    port: int = 0
    """TCP port. (uint16, since version 1)"""
    unknown_tags: UnknownTags = ()


class EndQuorumEpochRequest(Struct, frozen=True, gc=False):
    """A leader gives up its epoch and names who should follow it. Ends the sender's epoch; the receivers
    elect without waiting for a timeout.
    """

    API_KEY: ClassVar[int] = 54
    NAME: ClassVar[str] = "EndQuorumEpochRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    cluster_id: str | None = None
    """The sender's cluster; null skips the check. (string)"""
    topics: tuple[EndQuorumEpochRequestTopicData, ...] = ()
    """Exactly one: the metadata topic. ([]EndQuorumEpochRequestTopicData)"""
    leader_endpoints: tuple[EndQuorumEpochRequestLeaderEndpoint, ...] = ()
    """Where the leader listens, by listener. ([]EndQuorumEpochRequestLeaderEndpoint, since version 1)"""
    unknown_tags: UnknownTags = ()


class EndQuorumEpochResponsePartitionData(Struct, frozen=True, gc=False):
    """In `EndQuorumEpochResponseTopicData.partitions`. Exactly one."""

    partition_index: int = 0
    """Always 0: the metadata log has one partition. (int32)"""
    error_code: int = 0
    """0, or why the end was not accepted. (int16)"""
    leader_id: int = 0
    """The leader, or -1 while it is unknown. (int32)"""
    leader_epoch: int = 0
    """The highest epoch the sender knows. (int32)"""
    unknown_tags: UnknownTags = ()


class EndQuorumEpochResponseTopicData(Struct, frozen=True, gc=False):
    """In `EndQuorumEpochResponse.topics`. Exactly one: the metadata topic."""

    topic_name: str = ""
    """Always `__cluster_metadata`. (string)"""
    partitions: tuple[EndQuorumEpochResponsePartitionData, ...] = ()
    """Exactly one. ([]EndQuorumEpochResponsePartitionData)"""
    unknown_tags: UnknownTags = ()


class EndQuorumEpochResponseNodeEndpoint(Struct, frozen=True, gc=False):
    """In `EndQuorumEpochResponse.node_endpoints`. Where the leader listens, if it is known."""

    node_id: int = 0
    """Whose endpoint this is. (int32, since version 1)"""
    host: str = ""
    """Host name or address, resolved anew on each connect. (string, since version 1)"""
    port: int = 0
    """TCP port. (uint16, since version 1)"""
    unknown_tags: UnknownTags = ()


class EndQuorumEpochResponse(Struct, frozen=True, gc=False):
    """Acknowledges the end, or tells of a newer epoch."""

    API_KEY: ClassVar[int] = 54
    NAME: ClassVar[str] = "EndQuorumEpochResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    topics: tuple[EndQuorumEpochResponseTopicData, ...] = ()
    """Exactly one: the metadata topic. ([]EndQuorumEpochResponseTopicData)"""
    node_endpoints: tuple[EndQuorumEpochResponseNodeEndpoint, ...] = ()
    """Where the leader listens, if it is known. ([]EndQuorumEpochResponseNodeEndpoint, tag 0, since
    version 1)
    """
    unknown_tags: UnknownTags = ()
