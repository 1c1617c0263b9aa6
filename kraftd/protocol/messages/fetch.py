"""A follower pulls records; the position it asks for acknowledges everything before it. Generated from
`proto/rpc/Fetch.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import Records, UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class FetchRequestReplicaState(Struct, frozen=True, gc=False):
    """In `FetchRequest.replica_state`. Who fetches, since version 15."""

    replica_id: int = -1
    """The follower's id; -1 from one that is not counted. (int32, since version 15)"""
    replica_epoch: int = -1
    """A broker's epoch; -1 for nodes of the quorum. (int64, since version 15)"""
    unknown_tags: UnknownTags = ()


class FetchRequestFetchPartition(Struct, frozen=True, gc=False):
    """In `FetchRequestFetchTopic.partitions`. Exactly one."""

    partition: int = 0
    """Always 0: the metadata log has one partition. (int32)"""
    current_leader_epoch: int = -1
    """The follower's epoch; it must be the leader's too. (int32, since version 9)"""
    fetch_offset: int = 0
    """End offset of the follower's durable log: everything before it is acknowledged. (int64)"""
    last_fetched_epoch: int = -1
    """Epoch of the record before that offset, to find where the logs part. (int32, since version 12)"""
    log_start_offset: int = -1
    """First offset of the follower's log; unused by the leader. (int64, since version 5)"""
    partition_max_bytes: int = 0
    """Bytes of records wanted at most for this partition. (int32)"""
    replica_directory_id: Uuid = ZERO_UUID
    """The follower's metadata directory. (uuid, tag 0, since version 17)"""
    high_watermark: int = 9223372036854775807
    """The high watermark the follower knows: a lower one than the leader's gets its response at once.
    Absent means that the follower never wants to be told. (int64, tag 1, since version 18)
    """
    unknown_tags: UnknownTags = ()


class FetchRequestFetchTopic(Struct, frozen=True, gc=False):
    """In `FetchRequest.topics`. Exactly one: the metadata topic."""

    topic: str = ""
    """The topic by name, up to version 12. (string, versions 4 to 12)"""
    topic_id: Uuid = ZERO_UUID
    """The metadata topic's fixed id. (uuid, since version 13)"""
    partitions: tuple[FetchRequestFetchPartition, ...] = ()
    """Exactly one. ([]FetchRequestFetchPartition)"""
    unknown_tags: UnknownTags = ()


class FetchRequestForgottenTopic(Struct, frozen=True, gc=False):
    """In `FetchRequest.forgotten_topics_data`. Topics leaving the fetch session; unused by the quorum."""

    topic: str = ""
    """The topic by name, up to version 12. (string, versions 7 to 12)"""
    topic_id: Uuid = ZERO_UUID
    """The metadata topic's fixed id. (uuid, since version 13)"""
    partitions: tuple[int, ...] = ()
    """Its partitions. ([]int32, since version 7)"""
    unknown_tags: UnknownTags = ()


class FetchRequest(Struct, frozen=True, gc=False):
    """A follower pulls records; the position it asks for acknowledges everything before it. Asks for
    records from a position on, and waits a while if there are none.
    """

    API_KEY: ClassVar[int] = 1
    NAME: ClassVar[str] = "FetchRequest"
    MIN_VERSION: ClassVar[int] = 4
    MAX_VERSION: ClassVar[int] = 18

    cluster_id: str | None = None
    """The sender's cluster; null skips the check. (string, tag 0, since version 12)"""
    replica_id: int = -1
    """The follower's id up to version 14; -1 from one that is not counted. (int32, versions 4 to 14)"""
    replica_state: FetchRequestReplicaState = FetchRequestReplicaState()
    """Who fetches, since version 15. (FetchRequestReplicaState, tag 1, since version 15)"""
    max_wait_ms: int = 0
    """How long the response may wait for records. (int32)"""
    min_bytes: int = 0
    """How many bytes are worth a response before that. (int32)"""
    max_bytes: int = 2147483647
    """Bytes of records wanted at most; the first batch comes whole anyway. (int32)"""
    isolation_level: int = 0
    """Unused by the quorum. (int8)"""
    session_id: int = 0
    """Incremental fetch session; unused by the quorum. (int32, since version 7)"""
    session_epoch: int = -1
    """Turn of the fetch session; unused by the quorum. (int32, since version 7)"""
    topics: tuple[FetchRequestFetchTopic, ...] = ()
    """Exactly one: the metadata topic. ([]FetchRequestFetchTopic)"""
    forgotten_topics_data: tuple[FetchRequestForgottenTopic, ...] = ()
    """Topics leaving the fetch session; unused by the quorum. ([]FetchRequestForgottenTopic, since
    version 7)
    """
    rack_id: str = ""
    """Where the follower stands; unused by the quorum. (string, since version 11)"""
    unknown_tags: UnknownTags = ()


class FetchResponseEpochEndOffset(Struct, frozen=True, gc=False):
    """In `FetchResponsePartitionData.diverging_epoch`. Set if the follower's last epoch ends elsewhere
    in the leader's log: truncate to there.
    """

    epoch: int = -1
    """Largest epoch of the leader's log that is not above the follower's last one. (int32, since version
    12)
    """
    end_offset: int = -1
    """Where that epoch ends in the leader's log. (int64, since version 12)"""
    unknown_tags: UnknownTags = ()


class FetchResponseLeaderIdAndEpoch(Struct, frozen=True, gc=False):
    """In `FetchResponsePartitionData.current_leader`. Who leads, as far as the answering node knows."""

    leader_id: int = -1
    """The leader, or -1 while it is unknown. (int32, since version 12)"""
    leader_epoch: int = -1
    """The epoch, or -1 while it is unknown. (int32, since version 12)"""
    unknown_tags: UnknownTags = ()


class FetchResponseSnapshotId(Struct, frozen=True, gc=False):
    """In `FetchResponsePartitionData.snapshot_id`. Set if the follower must load this snapshot first."""

    end_offset: int = -1
    """Offset up to which the snapshot holds everything. (int64, since version 12)"""
    epoch: int = -1
    """Epoch of the last record in it. (int32, since version 12)"""
    unknown_tags: UnknownTags = ()


class FetchResponseAbortedTransaction(Struct, frozen=True, gc=False):
    """In `FetchResponsePartitionData.aborted_transactions`. Unused by the quorum."""

    producer_id: int = 0
    """Unused by the quorum. (int64)"""
    first_offset: int = 0
    """Unused by the quorum. (int64)"""
    unknown_tags: UnknownTags = ()


class FetchResponsePartitionData(Struct, frozen=True, gc=False):
    """In `FetchResponseFetchableTopicResponse.partitions`. Exactly one."""

    partition_index: int = 0
    """Always 0: the metadata log has one partition. (int32)"""
    error_code: int = 0
    """0, or why there are no records. (int16)"""
    high_watermark: int = 0
    """Everything before this offset is committed; -1 while unknown. (int64)"""
    last_stable_offset: int = -1
    """Unused by the quorum. (int64)"""
    log_start_offset: int = -1
    """First offset of the leader's log. (int64, since version 5)"""
    diverging_epoch: FetchResponseEpochEndOffset = FetchResponseEpochEndOffset()
    """Set if the follower's last epoch ends elsewhere in the leader's log: truncate to there.
    (FetchResponseEpochEndOffset, tag 0, since version 12)
    """
    current_leader: FetchResponseLeaderIdAndEpoch = FetchResponseLeaderIdAndEpoch()
    """Who leads, as far as the answering node knows. (FetchResponseLeaderIdAndEpoch, tag 1, since
    version 12)
    """
    snapshot_id: FetchResponseSnapshotId = FetchResponseSnapshotId()
    """Set if the follower must load this snapshot first. (FetchResponseSnapshotId, tag 2, since version
    12)
    """
    aborted_transactions: tuple[FetchResponseAbortedTransaction, ...] | None = ()
    """Unused by the quorum. ([]FetchResponseAbortedTransaction)"""
    preferred_read_replica: int = -1
    """Unused by the quorum. (int32, since version 11)"""
    records: Records | None = b""
    """Whole record batches from the one that holds the wanted offset. (records)"""
    unknown_tags: UnknownTags = ()


class FetchResponseFetchableTopicResponse(Struct, frozen=True, gc=False):
    """In `FetchResponse.responses`. Exactly one: the metadata topic."""

    topic: str = ""
    """The topic by name, up to version 12. (string, versions 4 to 12)"""
    topic_id: Uuid = ZERO_UUID
    """The metadata topic's fixed id. (uuid, since version 13)"""
    partitions: tuple[FetchResponsePartitionData, ...] = ()
    """Exactly one. ([]FetchResponsePartitionData)"""
    unknown_tags: UnknownTags = ()


class FetchResponseNodeEndpoint(Struct, frozen=True, gc=False):
    """In `FetchResponse.node_endpoints`. Where the leader listens, if it is known."""

    node_id: int = 0
    """Whose endpoint this is. (int32, since version 16)"""
    host: str = ""
    """Host name or address, resolved anew on each connect. (string, since version 16)"""
    port: int = 0
    """TCP port. (int32, since version 16)"""
    rack: str | None = None
    """Where the node stands; unused by the quorum. (string, since version 16)"""
    unknown_tags: UnknownTags = ()


class FetchResponse(Struct, frozen=True, gc=False):
    """Records and the high watermark, or where the logs part ways. On kraftd's own wire the records
    follow the body in the frame.
    """

    API_KEY: ClassVar[int] = 1
    NAME: ClassVar[str] = "FetchResponse"
    MIN_VERSION: ClassVar[int] = 4
    MAX_VERSION: ClassVar[int] = 18

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16, since version 7)"""
    session_id: int = 0
    """Incremental fetch session; unused by the quorum. (int32, since version 7)"""
    responses: tuple[FetchResponseFetchableTopicResponse, ...] = ()
    """Exactly one: the metadata topic. ([]FetchResponseFetchableTopicResponse)"""
    node_endpoints: tuple[FetchResponseNodeEndpoint, ...] = ()
    """Where the leader listens, if it is known. ([]FetchResponseNodeEndpoint, tag 0, since version 16)"""
    unknown_tags: UnknownTags = ()
