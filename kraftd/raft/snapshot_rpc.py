"""Shapes of FetchSnapshot: builds requests and responses, and reads what peers sent into parameters.

What all responses have in common is read with those of the other requests (`rpc`). The bytes of a snapshot
travel beside the response. It is apart from `rpc`, short as it is, because that is long with the other four.

Follows: SF-04, SF-06.
Differs: a request without exactly one topic and partition is refused as a Fetch is (Q-05).
"""

import msgspec

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft.rpc import LeaderAndEpoch, cluster_error, endpoint_entry
from kraftd.types import METADATA_TOPIC, Epoch, OffsetAndEpoch, ReplicaKey


class FetchSnapshotParams(msgspec.Struct, frozen=True):
    """A request for a piece of a snapshot, from a position in it on."""

    replica: ReplicaKey
    epoch: Epoch
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int
    prefix_checksum: int = -1
    """CRC-32C of all before the position, if that came from another node; -1 if not."""


def request_of(cluster_id: str, params: FetchSnapshotParams) -> m.FetchSnapshotRequest:
    """Build a request for a piece of a snapshot."""
    partition = m.FetchSnapshotRequestPartitionSnapshot(
        current_leader_epoch=params.epoch,
        snapshot_id=m.FetchSnapshotRequestSnapshotId(params.snapshot_id.offset, params.snapshot_id.epoch),
        position=params.position,
        replica_directory_id=params.replica.directory_id,
        prefix_checksum=params.prefix_checksum,
    )
    return m.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=params.replica.id,
        max_bytes=params.max_bytes,
        topics=(m.FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=(partition,)),),
    )


def read_request(request: m.FetchSnapshotRequest, cluster_id: str) -> FetchSnapshotParams | ErrorCode:
    """Check the shape of such a request. UNKNOWN_TOPIC_OR_PARTITION is an error of the partition, any other
    one of the whole request.
    """
    if error := cluster_error(request.cluster_id, cluster_id):
        return error
    topics = request.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return ErrorCode.INVALID_REQUEST
    partition = topics[0].partitions[0]
    if topics[0].name != METADATA_TOPIC or partition.partition != 0:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return FetchSnapshotParams(
        ReplicaKey(request.replica_id, partition.replica_directory_id),
        partition.current_leader_epoch,
        OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        partition.position,
        request.max_bytes,
        partition.prefix_checksum,
    )


def response_of(
    error: ErrorCode,
    leader_and_epoch: LeaderAndEpoch,
    *,
    snapshot_id: OffsetAndEpoch | None = None,
    size_bytes: int = 0,
    position: int = 0,
) -> m.FetchSnapshotResponse:
    """Build a response about the one partition; the bytes of the snapshot travel beside it."""
    told = (
        m.FetchSnapshotResponseSnapshotId()
        if snapshot_id is None
        else m.FetchSnapshotResponseSnapshotId(snapshot_id.offset, snapshot_id.epoch)
    )
    partition = m.FetchSnapshotResponsePartitionSnapshot(
        error_code=error,
        snapshot_id=told,
        current_leader=m.FetchSnapshotResponseLeaderIdAndEpoch(
            leader_and_epoch.leader_id, leader_and_epoch.epoch
        ),
        size=size_bytes,
        position=position,
    )
    topic = m.FetchSnapshotResponseTopicSnapshot(name=METADATA_TOPIC, partitions=(partition,))
    endpoints = tuple(
        m.FetchSnapshotResponseNodeEndpoint(*entry) for entry in endpoint_entry(leader_and_epoch)
    )
    return m.FetchSnapshotResponse(topics=(topic,), node_endpoints=endpoints)


def refusal(request: m.FetchSnapshotRequest, error: ErrorCode) -> m.FetchSnapshotResponse:
    """Build the response that refuses a request for its shape."""
    if error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return m.FetchSnapshotResponse(error_code=error)
    asked = request.topics[0]
    partition = m.FetchSnapshotResponsePartitionSnapshot(
        index=asked.partitions[0].partition, error_code=error
    )
    topic = m.FetchSnapshotResponseTopicSnapshot(name=asked.name, partitions=(partition,))
    return m.FetchSnapshotResponse(topics=(topic,))
