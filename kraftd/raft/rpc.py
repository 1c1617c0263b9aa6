"""Shapes of the quorum's messages: builds them, and reads what peers sent into parameters.

Reading checks the shape only: cluster id, then exactly one topic and partition; the numbers of a fetch are
checked by `is_sane`. What a message means in the current epoch is not decided here. A message that fails is
an `ErrorCode`, never an exception (D-14).

It is long because the shapes of four requests and their responses are built and read side by side; those of
FetchSnapshot are in `snapshot_rpc`.

Follows: VOTE-22, FREQ-01 to FREQ-04, EQE-04.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft.request_manager import RequestKind
from kraftd.types import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    NO_NODE,
    ZERO_UUID,
    Endpoint,
    Epoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
    ReplicaKey,
)

ENDPOINTS_SINCE = 1
"""The version of Vote, BeginQuorumEpoch and EndQuorumEpoch from which a response has node endpoints."""

FETCH_ENDPOINTS_SINCE = 17
"""The version of Fetch from which a response has node endpoints."""

REPLICA_STATE_SINCE = 15
"""The version of Fetch from which the replica id stands in a struct of its own (KIP-903)."""


NO_REPLICA = ReplicaKey(NO_NODE, ZERO_UUID)
"""In the place of a receiver: whoever gets the request."""


class VoteParams(msgspec.Struct, frozen=True):
    """A request for a vote or a pre-vote."""

    epoch: Epoch
    candidate: ReplicaKey
    position: OffsetAndEpoch
    receiver: ReplicaKey
    pre_vote: bool


class BeginParams(msgspec.Struct, frozen=True):
    """A BeginQuorumEpoch request: a leader announces itself."""

    epoch: Epoch
    leader_id: NodeId
    receiver: ReplicaKey
    endpoint: Endpoint | None


class EndParams(msgspec.Struct, frozen=True):
    """An EndQuorumEpoch request: a leader has resigned."""

    epoch: Epoch
    leader_id: NodeId
    successors: tuple[ReplicaKey, ...]


class FetchParams(msgspec.Struct, frozen=True, gc=False):
    """A fetch of a replica, from a position on."""

    replica: ReplicaKey
    epoch: Epoch
    position: OffsetAndEpoch
    high_watermark: Offset
    max_wait_ms: int


class LeaderAndEpoch(msgspec.Struct, frozen=True, gc=False):
    """The leader of an epoch, as every response carries it."""

    epoch: Epoch
    leader_id: NodeId
    endpoint: Endpoint | None = None


class CommonResponse(msgspec.Struct, frozen=True, gc=False):
    """What all responses have in common: the errors, and the leader and epoch that the sender knows."""

    top_error: int
    error: int
    leader_and_epoch: LeaderAndEpoch


def cluster_error(theirs: str | None, ours: str) -> ErrorCode | None:
    """Return the error of a request that names another cluster (VOTE-22)."""
    return ErrorCode.INCONSISTENT_CLUSTER_ID if theirs is not None and theirs != ours else None


# --- vote ---------------------------------------------------------------------------------------------------


def vote_request(cluster_id: str, params: VoteParams) -> m.VoteRequest:
    """Build a request for a vote or pre-vote."""
    partition = m.VoteRequestPartitionData(
        replica_epoch=params.epoch,
        replica_id=params.candidate.id,
        replica_directory_id=params.candidate.directory_id,
        voter_directory_id=params.receiver.directory_id,
        last_offset_epoch=params.position.epoch,
        last_offset=params.position.offset,
        pre_vote=params.pre_vote,
    )
    topic = m.VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return m.VoteRequest(cluster_id=cluster_id, voter_id=params.receiver.id, topics=(topic,))


def read_vote(request: m.VoteRequest, cluster_id: str) -> VoteParams | ErrorCode:
    """Check the shape of a vote request; the error is one of the whole request."""
    if error := cluster_error(request.cluster_id, cluster_id):
        return error
    partition = _only_partition(request.topics)
    if partition is None:
        return ErrorCode.INVALID_REQUEST
    return VoteParams(
        partition.replica_epoch,
        ReplicaKey(partition.replica_id, partition.replica_directory_id),
        OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch),
        ReplicaKey(request.voter_id, partition.voter_directory_id),
        partition.pre_vote,
    )


def vote_response(
    error: ErrorCode, leader_and_epoch: LeaderAndEpoch, *, granted: bool = False
) -> m.VoteResponse:
    """Build a vote response about the one partition."""
    partition = m.VoteResponsePartitionData(
        error_code=error,
        leader_id=leader_and_epoch.leader_id,
        leader_epoch=leader_and_epoch.epoch,
        vote_granted=granted,
    )
    topic = m.VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    endpoints = tuple(m.VoteResponseNodeEndpoint(*entry) for entry in endpoint_entry(leader_and_epoch))
    return m.VoteResponse(topics=(topic,), node_endpoints=endpoints)


# --- begin and end of an epoch ------------------------------------------------------------------------------


def begin_request(
    cluster_id: str, receiver: ReplicaKey, epoch: Epoch, leader_id: NodeId, endpoint: Endpoint
) -> m.BeginQuorumEpochRequest:
    """Build the leader's announcement, which is its heartbeat and the round of a linearizable read, too."""
    partition = m.BeginQuorumEpochRequestPartitionData(
        voter_directory_id=receiver.directory_id, leader_id=leader_id, leader_epoch=epoch
    )
    topic = m.BeginQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    own = m.BeginQuorumEpochRequestLeaderEndpoint(
        name=endpoint.listener, host=endpoint.host, port=endpoint.port
    )
    return m.BeginQuorumEpochRequest(
        cluster_id=cluster_id, voter_id=receiver.id, topics=(topic,), leader_endpoints=(own,)
    )


def read_begin(request: m.BeginQuorumEpochRequest, cluster_id: str) -> BeginParams | ErrorCode:
    """Check the shape of an announcement."""
    if error := cluster_error(request.cluster_id, cluster_id):
        return error
    partition = _only_partition(request.topics)
    if partition is None:
        return ErrorCode.INVALID_REQUEST
    endpoint = None
    if request.leader_endpoints:
        first = request.leader_endpoints[0]
        endpoint = Endpoint(first.host, first.port, first.name)
    receiver = ReplicaKey(request.voter_id, partition.voter_directory_id)
    return BeginParams(partition.leader_epoch, partition.leader_id, receiver, endpoint)


def begin_response(error: ErrorCode, leader_and_epoch: LeaderAndEpoch) -> m.BeginQuorumEpochResponse:
    """Build a BeginQuorumEpoch response about the one partition."""
    partition = m.BeginQuorumEpochResponsePartitionData(
        error_code=error, leader_id=leader_and_epoch.leader_id, leader_epoch=leader_and_epoch.epoch
    )
    topic = m.BeginQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    endpoints = tuple(
        m.BeginQuorumEpochResponseNodeEndpoint(*entry) for entry in endpoint_entry(leader_and_epoch)
    )
    return m.BeginQuorumEpochResponse(topics=(topic,), node_endpoints=endpoints)


def end_request(
    cluster_id: str, epoch: Epoch, leader_id: NodeId, successors: tuple[ReplicaKey, ...]
) -> m.EndQuorumEpochRequest:
    """Build an EndQuorumEpoch request, with the preferred successors in order."""
    partition = m.EndQuorumEpochRequestPartitionData(
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_successors=tuple(key.id for key in successors),
        preferred_candidates=tuple(
            m.EndQuorumEpochRequestReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in successors
        ),
    )
    topic = m.EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return m.EndQuorumEpochRequest(cluster_id=cluster_id, topics=(topic,))


def read_end(request: m.EndQuorumEpochRequest, cluster_id: str) -> EndParams | ErrorCode:
    """Check the shape of EndQuorumEpoch; version 0 names successors without directories (EQE-04)."""
    if error := cluster_error(request.cluster_id, cluster_id):
        return error
    partition = _only_partition(request.topics)
    if partition is None:
        return ErrorCode.INVALID_REQUEST
    keys = tuple(ReplicaKey(c.candidate_id, c.candidate_directory_id) for c in partition.preferred_candidates)
    successors = keys or tuple(ReplicaKey(node) for node in partition.preferred_successors)
    return EndParams(partition.leader_epoch, partition.leader_id, successors)


def end_response(error: ErrorCode, leader_and_epoch: LeaderAndEpoch) -> m.EndQuorumEpochResponse:
    """Build an EndQuorumEpoch response about the one partition."""
    partition = m.EndQuorumEpochResponsePartitionData(
        error_code=error, leader_id=leader_and_epoch.leader_id, leader_epoch=leader_and_epoch.epoch
    )
    topic = m.EndQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    endpoints = tuple(
        m.EndQuorumEpochResponseNodeEndpoint(*entry) for entry in endpoint_entry(leader_and_epoch)
    )
    return m.EndQuorumEpochResponse(topics=(topic,), node_endpoints=endpoints)


# --- fetch --------------------------------------------------------------------------------------------------


def fetch_request(cluster_id: str, params: FetchParams, max_bytes: int) -> m.FetchRequest:
    """Build a fetch from a position on."""
    partition = m.FetchRequestFetchPartition(
        current_leader_epoch=params.epoch,
        fetch_offset=params.position.offset,
        last_fetched_epoch=params.position.epoch,
        partition_max_bytes=max_bytes,
        replica_directory_id=params.replica.directory_id,
        high_watermark=params.high_watermark,
    )
    return m.FetchRequest(
        cluster_id=cluster_id,
        replica_state=m.FetchRequestReplicaState(replica_id=params.replica.id),
        max_wait_ms=params.max_wait_ms,
        max_bytes=max_bytes,
        topics=(m.FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )


def read_fetch(request: m.FetchRequest, version: int, cluster_id: str) -> FetchParams | ErrorCode:
    """Check the shape of a fetch; the error is one of the whole request."""
    if error := cluster_error(request.cluster_id, cluster_id):
        return error
    topics = request.topics
    if len(topics) != 1 or topics[0].topic_id != METADATA_TOPIC_ID or len(topics[0].partitions) != 1:
        return ErrorCode.INVALID_REQUEST
    partition = topics[0].partitions[0]
    if partition.partition != 0:
        return ErrorCode.INVALID_REQUEST
    replica_id = request.replica_state.replica_id if version >= REPLICA_STATE_SINCE else request.replica_id
    return FetchParams(
        ReplicaKey(replica_id, partition.replica_directory_id),
        partition.current_leader_epoch,
        OffsetAndEpoch(partition.fetch_offset, partition.last_fetched_epoch),
        partition.high_watermark,
        request.max_wait_ms,
    )


def is_sane(params: FetchParams) -> bool:
    """Whether the numbers of a fetch are possible ones (FREQ-01)."""
    position = params.position
    return params.max_wait_ms >= 0 <= position.offset and 0 <= position.epoch <= params.epoch


def fetch_response(
    error: ErrorCode,
    leader_and_epoch: LeaderAndEpoch,
    *,
    high_watermark: Offset = -1,
    log_start_offset: Offset = -1,
    diverging: OffsetAndEpoch | None = None,
    snapshot_id: OffsetAndEpoch | None = None,
) -> m.FetchResponse:
    """Build a fetch response about the one partition; the records travel beside it."""
    where = (
        m.FetchResponseEpochEndOffset()
        if diverging is None
        else m.FetchResponseEpochEndOffset(diverging.epoch, diverging.offset)
    )
    offered = (
        m.FetchResponseSnapshotId()
        if snapshot_id is None
        else m.FetchResponseSnapshotId(snapshot_id.offset, snapshot_id.epoch)
    )
    partition = m.FetchResponsePartitionData(
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        diverging_epoch=where,
        snapshot_id=offered,
        current_leader=m.FetchResponseLeaderIdAndEpoch(leader_and_epoch.leader_id, leader_and_epoch.epoch),
    )
    topic = m.FetchResponseFetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    endpoints = tuple(m.FetchResponseNodeEndpoint(*entry) for entry in endpoint_entry(leader_and_epoch))
    return m.FetchResponse(responses=(topic,), node_endpoints=endpoints)


# --- what all of them share ---------------------------------------------------------------------------------


class _Partition(Protocol):
    @property
    def partition_index(self) -> int: ...


_AnyPartition_co = TypeVar("_AnyPartition_co", bound=_Partition, covariant=True)


class _Topic(Protocol[_AnyPartition_co]):
    @property
    def topic_name(self) -> str: ...
    @property
    def partitions(self) -> tuple[_AnyPartition_co, ...]: ...


class _PartitionResponse(_Partition, Protocol):
    @property
    def error_code(self) -> int: ...
    @property
    def leader_id(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...


class _Endpoint(Protocol):
    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


def refusal(request: m.QuorumRequest, error: ErrorCode) -> m.QuorumResponse:
    """Build the response that refuses a request as a whole."""
    match request:
        case m.VoteRequest():
            return m.VoteResponse(error_code=error)
        case m.BeginQuorumEpochRequest():
            return m.BeginQuorumEpochResponse(error_code=error)
        case m.EndQuorumEpochRequest():
            return m.EndQuorumEpochResponse(error_code=error)
        case m.FetchRequest():
            return m.FetchResponse(error_code=error)
        case m.FetchSnapshotRequest():
            return m.FetchSnapshotResponse(error_code=error)
        case m.DescribeQuorumRequest():
            return m.DescribeQuorumResponse(error_code=error)


def read_response(response: m.QuorumResponse) -> CommonResponse | None:
    """Return what a response has in common with all others; None if its shape is wrong."""
    match response:
        case m.FetchResponse(error_code=error) if error:
            return CommonResponse(error, error, LeaderAndEpoch(-1, NO_NODE))
        case m.FetchResponse():
            topics = response.responses
            if len(topics) != 1 or topics[0].topic_id != METADATA_TOPIC_ID or len(topics[0].partitions) != 1:
                return None
            data = topics[0].partitions[0]
            if data.partition_index != 0:
                return None
            current = data.current_leader
            endpoint = _find_endpoint(response.node_endpoints, current.leader_id)
            return CommonResponse(
                0, data.error_code, LeaderAndEpoch(current.leader_epoch, current.leader_id, endpoint)
            )
        case m.FetchSnapshotResponse(error_code=error) if error:
            return CommonResponse(error, error, LeaderAndEpoch(-1, NO_NODE))
        case m.FetchSnapshotResponse():
            return _read_snapshot_response(response)
        case m.DescribeQuorumResponse():
            return None
        case _:
            if response.error_code:
                return CommonResponse(response.error_code, response.error_code, LeaderAndEpoch(-1, NO_NODE))
            topics_told: Sequence[_Topic[_PartitionResponse]] = response.topics
            partition = _only_partition(topics_told)
            if partition is None:
                return None
            endpoint = _find_endpoint(response.node_endpoints, partition.leader_id)
            leader_and_epoch = LeaderAndEpoch(partition.leader_epoch, partition.leader_id, endpoint)
            return CommonResponse(0, partition.error_code, leader_and_epoch)


def _read_snapshot_response(response: m.FetchSnapshotResponse) -> CommonResponse | None:
    topics = response.topics
    if len(topics) != 1 or topics[0].name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return None
    data = topics[0].partitions[0]
    if data.index != 0:
        return None
    current = data.current_leader
    endpoint = _find_endpoint(response.node_endpoints, current.leader_id)
    return CommonResponse(
        0, data.error_code, LeaderAndEpoch(current.leader_epoch, current.leader_id, endpoint)
    )


_RESPONSE_OF: dict[RequestKind, type[m.QuorumResponse]] = {
    RequestKind.FETCH: m.FetchResponse,
    RequestKind.FETCH_SNAPSHOT: m.FetchSnapshotResponse,
    RequestKind.PROBE: m.FetchResponse,
    RequestKind.INTRODUCTION: m.FetchResponse,
    RequestKind.PRE_VOTE: m.VoteResponse,
    RequestKind.VOTE: m.VoteResponse,
    RequestKind.BEGIN: m.BeginQuorumEpochResponse,
    RequestKind.CONFIRM: m.BeginQuorumEpochResponse,
    RequestKind.END: m.EndQuorumEpochResponse,
}


def matches_request(kind: RequestKind, response: m.QuorumResponse) -> bool:
    """Whether a request of this kind is answered by this type of response."""
    return isinstance(response, _RESPONSE_OF[kind])


def _only_partition(topics: Sequence[_Topic[_AnyPartition_co]]) -> _AnyPartition_co | None:
    if len(topics) != 1 or topics[0].topic_name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if partition.partition_index == 0 else None


def _find_endpoint(endpoints: Sequence[_Endpoint], leader_id: NodeId) -> Endpoint | None:
    for entry in endpoints:
        if entry.node_id == leader_id and entry.host and 0 < entry.port < 65_536:
            return Endpoint(entry.host, entry.port)
    return None


def endpoint_entry(leader_and_epoch: LeaderAndEpoch) -> tuple[tuple[NodeId, str, int], ...]:
    """Return id, host and port of the leader, as responses tell them; nothing if they are unknown."""
    if leader_and_epoch.endpoint is None or leader_and_epoch.leader_id == NO_NODE:
        return ()
    return ((leader_and_epoch.leader_id, leader_and_epoch.endpoint.host, leader_and_epoch.endpoint.port),)
