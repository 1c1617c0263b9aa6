"""The leader's view of the quorum. Generated from `proto/rpc/DescribeQuorum.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class DescribeQuorumRequestPartitionData(Struct, frozen=True, gc=False):
    """In `DescribeQuorumRequestTopicData.partitions`. Exactly one."""

    partition_index: int = 0
    """Always 0: the metadata log has one partition. (int32)"""
    unknown_tags: UnknownTags = ()


class DescribeQuorumRequestTopicData(Struct, frozen=True, gc=False):
    """In `DescribeQuorumRequest.topics`. Exactly one: the metadata topic."""

    topic_name: str = ""
    """Always `__cluster_metadata`. (string)"""
    partitions: tuple[DescribeQuorumRequestPartitionData, ...] = ()
    """Exactly one. ([]DescribeQuorumRequestPartitionData)"""
    unknown_tags: UnknownTags = ()


class DescribeQuorumRequest(Struct, frozen=True, gc=False):
    """The leader's view of the quorum. Asks the leader about the voters and observers."""

    API_KEY: ClassVar[int] = 55
    NAME: ClassVar[str] = "DescribeQuorumRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    topics: tuple[DescribeQuorumRequestTopicData, ...] = ()
    """Exactly one: the metadata topic. ([]DescribeQuorumRequestTopicData)"""
    unknown_tags: UnknownTags = ()


class DescribeQuorumResponseReplicaState(Struct, frozen=True, gc=False):
    """How far one replica has come."""

    replica_id: int = 0
    """The replica's id. (int32)"""
    replica_directory_id: Uuid = ZERO_UUID
    """Its metadata directory. (uuid, since version 2)"""
    log_end_offset: int = 0
    """Where its next fetch begins; -1 if it never fetched. (int64)"""
    last_fetch_timestamp: int = -1
    """Wall clock of its last fetch; -1 if it never fetched. (int64, since version 1)"""
    last_caught_up_timestamp: int = -1
    """Wall clock when it last held all that the leader had; -1 if never. (int64, since version 1)"""
    unknown_tags: UnknownTags = ()


class DescribeQuorumResponsePartitionData(Struct, frozen=True, gc=False):
    """In `DescribeQuorumResponseTopicData.partitions`. Exactly one."""

    partition_index: int = 0
    """Always 0: the metadata log has one partition. (int32)"""
    error_code: int = 0
    """0, or why the quorum cannot be described here. (int16)"""
    error_message: str | None = ""
    """Where to ask instead, for a person to read. (string, since version 2)"""
    leader_id: int = 0
    """The leader, or -1 while it is unknown. (int32)"""
    leader_epoch: int = 0
    """The highest epoch the sender knows. (int32)"""
    high_watermark: int = 0
    """Everything before this offset is committed; -1 while unknown. (int64)"""
    current_voters: tuple[DescribeQuorumResponseReplicaState, ...] = ()
    """Every voter, the leader included. ([]DescribeQuorumResponseReplicaState)"""
    observers: tuple[DescribeQuorumResponseReplicaState, ...] = ()
    """Nodes that follow without a vote. ([]DescribeQuorumResponseReplicaState)"""
    unknown_tags: UnknownTags = ()


class DescribeQuorumResponseTopicData(Struct, frozen=True, gc=False):
    """In `DescribeQuorumResponse.topics`. Exactly one: the metadata topic."""

    topic_name: str = ""
    """Always `__cluster_metadata`. (string)"""
    partitions: tuple[DescribeQuorumResponsePartitionData, ...] = ()
    """Exactly one. ([]DescribeQuorumResponsePartitionData)"""
    unknown_tags: UnknownTags = ()


class DescribeQuorumResponseListener(Struct, frozen=True, gc=False):
    """In `DescribeQuorumResponseNode.listeners`. Where the node listens."""

    name: str = ""
    """Name of the listener. (string, since version 2)"""
    host: str = ""
    """Host name or address, resolved anew on each connect. (string, since version 2)"""
    port: int = 0
    """TCP port. (uint16, since version 2)"""
    unknown_tags: UnknownTags = ()


class DescribeQuorumResponseNode(Struct, frozen=True, gc=False):
    """In `DescribeQuorumResponse.nodes`. Endpoints of the voters."""

    node_id: int = 0
    """Whose endpoint this is. (int32, since version 2)"""
    listeners: tuple[DescribeQuorumResponseListener, ...] = ()
    """Where the node listens. ([]DescribeQuorumResponseListener, since version 2)"""
    unknown_tags: UnknownTags = ()


class DescribeQuorumResponse(Struct, frozen=True, gc=False):
    """Leader, epoch, high watermark and how far each replica has come."""

    API_KEY: ClassVar[int] = 55
    NAME: ClassVar[str] = "DescribeQuorumResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string, since version 2)"""
    topics: tuple[DescribeQuorumResponseTopicData, ...] = ()
    """Exactly one: the metadata topic. ([]DescribeQuorumResponseTopicData)"""
    nodes: tuple[DescribeQuorumResponseNode, ...] = ()
    """Endpoints of the voters. ([]DescribeQuorumResponseNode, since version 2)"""
    unknown_tags: UnknownTags = ()
