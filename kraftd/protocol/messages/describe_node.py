"""One node's own view of itself and the quorum. Needs no leader. Generated from
`proto/rpc/DescribeNode.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class DescribeNodeRequest(Struct, frozen=True, gc=False):
    """One node's own view of itself and the quorum. Needs no leader. Asks a node how it is."""

    API_KEY: ClassVar[int] = 20001
    NAME: ClassVar[str] = "DescribeNodeRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    unknown_tags: UnknownTags = ()


class DescribeNodeResponsePeer(Struct, frozen=True, gc=False):
    """In `DescribeNodeResponse.peers`. The other nodes, as this node sees them."""

    node_id: int = 0
    """The peer's id. (int32)"""
    host: str = ""
    """Where it is believed to listen. (string)"""
    port: int = 0
    """TCP port. (uint16)"""
    connected: bool = False
    """Whether a connection to it stands. (bool)"""
    fetch_offset: int = -1
    """Where its last fetch began (only the leader knows); -1 if unknown. (int64)"""
    last_fetch_ms_ago: int = -1
    """Milliseconds since its last fetch; -1 if unknown. (int64)"""
    note: str = ""
    """What is odd about it; empty if nothing is. (string)"""
    unknown_tags: UnknownTags = ()


class DescribeNodeResponse(Struct, frozen=True, gc=False):
    """What the node knows, leader or not."""

    API_KEY: ClassVar[int] = 20001
    NAME: ClassVar[str] = "DescribeNodeResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    cluster_id: str = ""
    """Its cluster. (string)"""
    node_id: int = -1
    """Its id. (int32)"""
    directory_id: Uuid = ZERO_UUID
    """Its metadata directory. (uuid)"""
    software: str = ""
    """Name and version of its program. (string)"""
    role: str = ""
    """Its epoch state: leader, candidate, follower, … (string)"""
    is_voter: bool = False
    """Whether it is one of the voters. (bool)"""
    epoch: int = 0
    """The highest epoch it knows. (int32)"""
    leader_id: int = -1
    """Whom it follows, or -1. (int32)"""
    voted_id: int = -1
    """Whom it voted for in this epoch, or -1. (int32)"""
    log_start_offset: int = 0
    """First offset of its log. (int64)"""
    log_end_offset: int = 0
    """Where its log ends. (int64)"""
    log_end_epoch: int = 0
    """Epoch of its last record. (int32)"""
    flushed_offset: int = 0
    """Everything before it is durable on its disk. (int64)"""
    high_watermark: int = -1
    """Everything before it is committed; -1 while unknown. (int64)"""
    applied_offset: int = 0
    """Everything before it is in its metadata image. (int64)"""
    image_hash: str = ""
    """Canonical hash of that image. (string)"""
    whole: bool = True
    """Whether its log and election file are all there; only then is it counted. (bool)"""
    alarms: tuple[str, ...] = ()
    """What an operator should look at. ([]string)"""
    why_not_following: str | None = None
    """Why it does not follow a leader well; null if it does, or leads. (string)"""
    election_attempts: int = 0
    """Elections it started since it last knew a leader. (int32)"""
    last_contact_ms: int = -1
    """Milliseconds since it last heard from the leader; -1 if never. (int64)"""
    peers: tuple[DescribeNodeResponsePeer, ...] = ()
    """The other nodes, as this node sees them. ([]DescribeNodeResponsePeer)"""
    started_at_ms: int = 0
    """Wall clock of its start. (int64)"""
    uptime_ms: int = 0
    """How long it has been running. (int64)"""
    metadata_version: str = ""
    """The feature level its image is at. (string)"""
    active_broker_count: int = 0
    """Brokers in its image that are not fenced. (int32)"""
    fenced_broker_count: int = 0
    """Brokers in its image that are fenced. (int32)"""
    fenced_brokers: tuple[int, ...] = ()
    """Their ids, the lowest first; of many not all. ([]int32)"""
    stopping_broker_count: int = 0
    """Active ones of them in controlled shutdown. (int32)"""
    topic_count: int = 0
    """Topics in its image. (int32)"""
    partition_count: int = 0
    """Partitions of all topics. (int32)"""
    offline_partition_count: int = 0
    """Partitions without leader. (int32)"""
    offline_partitions: tuple[str, ...] = ()
    """Their names; of many not all. ([]string)"""
    snapshot_offset: int = -1
    """Its newest snapshot has everything before it; -1 without one. (int64)"""
    snapshot_bytes: int = -1
    """Size of that snapshot; -1 without one. (int64)"""
    snapshot_age_ms: int = -1
    """Milliseconds since its newest record was written; -1 without one. (int64)"""
    snapshot_loaded_percent: int = 100
    """How much of the snapshot that is being loaded is restored; 100 while none is. (int8)"""
    why_no_snapshot: str | None = None
    """Why it has no snapshot, or writes none although one is due; null if neither is so. (string)"""
    why_forgeable: str | None = None
    """How its authorizer can be got around; null if it cannot, or if there is none. (string)"""
    unknown_tags: UnknownTags = ()
