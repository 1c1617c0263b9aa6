"""A node of the quorum, or an observer, loads a snapshot in pieces. Generated from
`proto/rpc/FetchSnapshot.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import Records, UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class FetchSnapshotRequestSnapshotId(Struct, frozen=True, gc=False):
    """In `FetchSnapshotRequestPartitionSnapshot.snapshot_id`. Which snapshot."""

    end_offset: int = 0
    """Offset up to which it holds everything. (int64)"""
    epoch: int = 0
    """Epoch of the last record in it. (int32)"""
    unknown_tags: UnknownTags = ()


class FetchSnapshotRequestPartitionSnapshot(Struct, frozen=True, gc=False):
    """In `FetchSnapshotRequestTopicSnapshot.partitions`. One entry a partition."""

    partition: int = 0
    """The partition's number. (int32)"""
    current_leader_epoch: int = 0
    """The sender's epoch. (int32)"""
    snapshot_id: FetchSnapshotRequestSnapshotId = FetchSnapshotRequestSnapshotId()
    """Which snapshot. (FetchSnapshotRequestSnapshotId)"""
    position: int = 0
    """Where in the snapshot the piece begins, in bytes. (int64)"""
    replica_directory_id: Uuid = ZERO_UUID
    """The sender's metadata directory. (uuid, tag 0, since version 1)"""
    prefix_checksum: int = -1
    """CRC-32C of all before the position, from one that began the download at another node; -1 if none.
    A field of ours, on kraftd's own wire only. (int64, tag 10000)
    """
    unknown_tags: UnknownTags = ()


class FetchSnapshotRequestTopicSnapshot(Struct, frozen=True, gc=False):
    """In `FetchSnapshotRequest.topics`. One entry a topic."""

    name: str = ""
    """The topic's name. (string)"""
    partitions: tuple[FetchSnapshotRequestPartitionSnapshot, ...] = ()
    """One entry a partition. ([]FetchSnapshotRequestPartitionSnapshot)"""
    unknown_tags: UnknownTags = ()


class FetchSnapshotRequest(Struct, frozen=True, gc=False):
    """A node of the quorum, or an observer, loads a snapshot in pieces. Asks for a piece of a snapshot."""

    API_KEY: ClassVar[int] = 59
    NAME: ClassVar[str] = "FetchSnapshotRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    cluster_id: str | None = None
    """The cluster's id; null skips the check. (string, tag 0)"""
    replica_id: int = -1
    """Who loads it; -1 from one that is not counted. (int32)"""
    max_bytes: int = 2147483647
    """Bytes wanted at most. (int32)"""
    topics: tuple[FetchSnapshotRequestTopicSnapshot, ...] = ()
    """One entry a topic. ([]FetchSnapshotRequestTopicSnapshot)"""
    unknown_tags: UnknownTags = ()


class FetchSnapshotResponseSnapshotId(Struct, frozen=True, gc=False):
    """In `FetchSnapshotResponsePartitionSnapshot.snapshot_id`. Which snapshot."""

    end_offset: int = 0
    """Offset up to which it holds everything. (int64)"""
    epoch: int = 0
    """Epoch of the last record in it. (int32)"""
    unknown_tags: UnknownTags = ()


class FetchSnapshotResponseLeaderIdAndEpoch(Struct, frozen=True, gc=False):
    """In `FetchSnapshotResponsePartitionSnapshot.current_leader`. Who leads, as far as the answering
    node knows.
    """

    leader_id: int = 0
    """The broker that leads, or -1. (int32)"""
    leader_epoch: int = 0
    """The leader's epoch. (int32)"""
    unknown_tags: UnknownTags = ()


class FetchSnapshotResponsePartitionSnapshot(Struct, frozen=True, gc=False):
    """In `FetchSnapshotResponseTopicSnapshot.partitions`. One entry a partition."""

    index: int = 0
    """The partition's number. (int32)"""
    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    snapshot_id: FetchSnapshotResponseSnapshotId = FetchSnapshotResponseSnapshotId()
    """Which snapshot. (FetchSnapshotResponseSnapshotId)"""
    current_leader: FetchSnapshotResponseLeaderIdAndEpoch = FetchSnapshotResponseLeaderIdAndEpoch()
    """Who leads, as far as the answering node knows. (FetchSnapshotResponseLeaderIdAndEpoch, tag 0)"""
    size: int = 0
    """How long the whole snapshot is, in bytes. (int64)"""
    position: int = 0
    """Where in the snapshot the piece begins, in bytes. (int64)"""
    unaligned_records: Records = b""
    """The piece; it may begin and end in the middle of a batch. On kraftd's own wire it follows the body
    in the frame. (records)
    """
    unknown_tags: UnknownTags = ()


class FetchSnapshotResponseTopicSnapshot(Struct, frozen=True, gc=False):
    """In `FetchSnapshotResponse.topics`. One entry a topic."""

    name: str = ""
    """The topic's name. (string)"""
    partitions: tuple[FetchSnapshotResponsePartitionSnapshot, ...] = ()
    """One entry a partition. ([]FetchSnapshotResponsePartitionSnapshot)"""
    unknown_tags: UnknownTags = ()


class FetchSnapshotResponseNodeEndpoint(Struct, frozen=True, gc=False):
    """In `FetchSnapshotResponse.node_endpoints`. Where the leader listens, if it is known."""

    node_id: int = 0
    """Whose endpoint this is. (int32, since version 1)"""
    host: str = ""
    """Host name or address. (string, since version 1)"""
    port: int = 0
    """TCP port. (uint16, since version 1)"""
    unknown_tags: UnknownTags = ()


class FetchSnapshotResponse(Struct, frozen=True, gc=False):
    """A piece of the snapshot."""

    API_KEY: ClassVar[int] = 59
    NAME: ClassVar[str] = "FetchSnapshotResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    topics: tuple[FetchSnapshotResponseTopicSnapshot, ...] = ()
    """One entry a topic. ([]FetchSnapshotResponseTopicSnapshot)"""
    node_endpoints: tuple[FetchSnapshotResponseNodeEndpoint, ...] = ()
    """Where the leader listens, if it is known. ([]FetchSnapshotResponseNodeEndpoint, tag 0, since
    version 1)
    """
    unknown_tags: UnknownTags = ()
