"""Every request and response, as frozen values. Generated from `proto/rpc/` by `make proto`."""

from typing import ClassVar, TypeAlias

from msgspec import Struct

from kraftd.types import ZERO_UUID, Uuid

UnknownTags: TypeAlias = tuple[tuple[int, bytes], ...]
"""Tagged fields that this program does not know, still encoded, by ascending tag."""


class FetchRequestReplicaState(Struct, frozen=True, gc=False):
    """In `FetchRequest.replica_state`. Who fetches, since version 15."""

    replica_id: int = -1
    """The follower's id; -1 does not count as a member. (int32, since version 15)"""
    replica_epoch: int = -1
    """A broker's epoch; -1 for members of the quorum. (int64, since version 15)"""
    unknown_tags: UnknownTags = ()


class FetchRequestFetchPartition(Struct, frozen=True, gc=False):
    """In `FetchRequestFetchTopic.partitions`. Exactly one."""

    partition: int = 0
    """Always 0: the metadata log has one partition. (int32)"""
    current_leader_epoch: int = -1
    """The follower's epoch; it must be the leader's too. (int32)"""
    fetch_offset: int = 0
    """End offset of the follower's durable log: everything before it is acknowledged. (int64)"""
    last_fetched_epoch: int = -1
    """Epoch of the record before that offset, to find where the logs part. (int32)"""
    log_start_offset: int = -1
    """First offset of the follower's log; unused by the leader. (int64)"""
    partition_max_bytes: int = 0
    """Bytes of records wanted at most for this partition. (int32)"""
    replica_directory_id: Uuid = ZERO_UUID
    """The follower's metadata directory. (uuid, tag 0, since version 17)"""
    high_watermark: int = 9223372036854775807
    """The high watermark the follower knows: a lower one than the leader's is answered at once. Absent
    means that the follower never wants to be told. (int64, tag 1, since version 18)
    """
    unknown_tags: UnknownTags = ()


class FetchRequestFetchTopic(Struct, frozen=True, gc=False):
    """In `FetchRequest.topics`. Exactly one: the metadata topic."""

    topic_id: Uuid = ZERO_UUID
    """The metadata topic's fixed id. (uuid)"""
    partitions: tuple[FetchRequestFetchPartition, ...] = ()
    """Exactly one. ([]FetchRequestFetchPartition)"""
    unknown_tags: UnknownTags = ()


class FetchRequestForgottenTopic(Struct, frozen=True, gc=False):
    """In `FetchRequest.forgotten_topics_data`. Topics leaving the fetch session; unused by the quorum."""

    topic_id: Uuid = ZERO_UUID
    """The metadata topic's fixed id. (uuid)"""
    partitions: tuple[int, ...] = ()
    """Its partitions. ([]int32)"""
    unknown_tags: UnknownTags = ()


class FetchRequest(Struct, frozen=True, gc=False):
    """A follower pulls records; the position it asks for acknowledges everything before it. Asks for
    records from a position on, and waits a while if there are none.
    """

    API_KEY: ClassVar[int] = 1
    NAME: ClassVar[str] = "FetchRequest"
    MIN_VERSION: ClassVar[int] = 13
    MAX_VERSION: ClassVar[int] = 18

    cluster_id: str | None = None
    """The sender's cluster; null skips the check. (string, tag 0)"""
    replica_id: int = -1
    """The follower's id up to version 14; -1 does not count as a member. (int32, versions 13 to 14)"""
    replica_state: FetchRequestReplicaState = FetchRequestReplicaState()
    """Who fetches, since version 15. (FetchRequestReplicaState, tag 1, since version 15)"""
    max_wait_ms: int = 0
    """How long the answer may wait for records. (int32)"""
    min_bytes: int = 0
    """How many bytes are worth an answer before that. (int32)"""
    max_bytes: int = 2147483647
    """Bytes of records wanted at most; the first batch comes whole anyway. (int32)"""
    isolation_level: int = 0
    """Unused by the quorum. (int8)"""
    session_id: int = 0
    """Incremental fetch session; unused by the quorum. (int32)"""
    session_epoch: int = -1
    """Turn of the fetch session; unused by the quorum. (int32)"""
    topics: tuple[FetchRequestFetchTopic, ...] = ()
    """Exactly one: the metadata topic. ([]FetchRequestFetchTopic)"""
    forgotten_topics_data: tuple[FetchRequestForgottenTopic, ...] = ()
    """Topics leaving the fetch session; unused by the quorum. ([]FetchRequestForgottenTopic)"""
    rack_id: str = ""
    """Where the follower stands; unused by the quorum. (string)"""
    unknown_tags: UnknownTags = ()


class FetchResponseEpochEndOffset(Struct, frozen=True, gc=False):
    """In `FetchResponsePartitionData.diverging_epoch`. Set if the follower's last epoch ends elsewhere
    in the leader's log: truncate to there.
    """

    epoch: int = -1
    """Largest epoch of the leader's log that is not above the follower's last one. (int32)"""
    end_offset: int = -1
    """Where that epoch ends in the leader's log. (int64)"""
    unknown_tags: UnknownTags = ()


class FetchResponseLeaderIdAndEpoch(Struct, frozen=True, gc=False):
    """In `FetchResponsePartitionData.current_leader`. Who leads, as far as the answering node knows."""

    leader_id: int = -1
    """The leader, or -1 while it is unknown. (int32)"""
    leader_epoch: int = -1
    """The epoch, or -1 while it is unknown. (int32)"""
    unknown_tags: UnknownTags = ()


class FetchResponseSnapshotId(Struct, frozen=True, gc=False):
    """In `FetchResponsePartitionData.snapshot_id`. Set if the follower must load this snapshot first."""

    end_offset: int = -1
    """Offset up to which the snapshot holds everything. (int64)"""
    epoch: int = -1
    """Epoch of the last record in it. (int32)"""
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
    """First offset of the leader's log. (int64)"""
    diverging_epoch: FetchResponseEpochEndOffset = FetchResponseEpochEndOffset()
    """Set if the follower's last epoch ends elsewhere in the leader's log: truncate to there.
    (FetchResponseEpochEndOffset, tag 0)
    """
    current_leader: FetchResponseLeaderIdAndEpoch = FetchResponseLeaderIdAndEpoch()
    """Who leads, as far as the answering node knows. (FetchResponseLeaderIdAndEpoch, tag 1)"""
    snapshot_id: FetchResponseSnapshotId = FetchResponseSnapshotId()
    """Set if the follower must load this snapshot first. (FetchResponseSnapshotId, tag 2)"""
    aborted_transactions: tuple[FetchResponseAbortedTransaction, ...] | None = ()
    """Unused by the quorum. ([]FetchResponseAbortedTransaction)"""
    preferred_read_replica: int = -1
    """Unused by the quorum. (int32)"""
    unknown_tags: UnknownTags = ()


class FetchResponseFetchableTopicResponse(Struct, frozen=True, gc=False):
    """In `FetchResponse.responses`. Exactly one: the metadata topic."""

    topic_id: Uuid = ZERO_UUID
    """The metadata topic's fixed id. (uuid)"""
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
    """Records and the high watermark, or where the logs part ways. The records follow the body in the
    frame.
    """

    API_KEY: ClassVar[int] = 1
    NAME: ClassVar[str] = "FetchResponse"
    MIN_VERSION: ClassVar[int] = 13
    MAX_VERSION: ClassVar[int] = 18

    throttle_time_ms: int = 0
    """How long the answer was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    session_id: int = 0
    """Incremental fetch session; unused by the quorum. (int32)"""
    responses: tuple[FetchResponseFetchableTopicResponse, ...] = ()
    """Exactly one: the metadata topic. ([]FetchResponseFetchableTopicResponse)"""
    node_endpoints: tuple[FetchResponseNodeEndpoint, ...] = ()
    """Where the leader listens, if it is known. ([]FetchResponseNodeEndpoint, tag 0, since version 16)"""
    unknown_tags: UnknownTags = ()


class ApiVersionsRequest(Struct, frozen=True, gc=False):
    """Which APIs a node speaks, and in which versions. Always answerable in version 0. Asks a node what
    it speaks.
    """

    API_KEY: ClassVar[int] = 18
    NAME: ClassVar[str] = "ApiVersionsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    client_software_name: str = ""
    """What the client is. (string, since version 3)"""
    client_software_version: str = ""
    """Which version of it. (string, since version 3)"""
    unknown_tags: UnknownTags = ()


class ApiVersionsResponseApiVersion(Struct, frozen=True, gc=False):
    """In `ApiVersionsResponse.api_keys`. Every API of the node."""

    api_key: int = 0
    """The API's number. (int16)"""
    min_version: int = 0
    """Lowest version spoken. (int16)"""
    max_version: int = 0
    """Highest version spoken. (int16)"""
    unknown_tags: UnknownTags = ()


class ApiVersionsResponseSupportedFeatureKey(Struct, frozen=True, gc=False):
    """In `ApiVersionsResponse.supported_features`. Levels of each feature that the node could run at."""

    name: str = ""
    """The feature. (string, since version 3)"""
    min_version: int = 0
    """Lowest level supported. (int16, since version 3)"""
    max_version: int = 0
    """Highest level supported. (int16, since version 3)"""
    unknown_tags: UnknownTags = ()


class ApiVersionsResponseFinalizedFeatureKey(Struct, frozen=True, gc=False):
    """In `ApiVersionsResponse.finalized_features`. Levels that the whole cluster runs at."""

    name: str = ""
    """The feature. (string, since version 3)"""
    max_version_level: int = 0
    """Highest level in force. (int16, since version 3)"""
    min_version_level: int = 0
    """Lowest level in force. (int16, since version 3)"""
    unknown_tags: UnknownTags = ()


class ApiVersionsResponse(Struct, frozen=True, gc=False):
    """What the node speaks."""

    API_KEY: ClassVar[int] = 18
    NAME: ClassVar[str] = "ApiVersionsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    api_keys: tuple[ApiVersionsResponseApiVersion, ...] = ()
    """Every API of the node. ([]ApiVersionsResponseApiVersion)"""
    throttle_time_ms: int = 0
    """How long the answer was held back because of a quota. (int32, since version 1)"""
    supported_features: tuple[ApiVersionsResponseSupportedFeatureKey, ...] = ()
    """Levels of each feature that the node could run at. ([]ApiVersionsResponseSupportedFeatureKey, tag
    0, since version 3)
    """
    finalized_features_epoch: int = -1
    """Offset as of which the finalized levels hold; -1 if unknown. (int64, tag 1, since version 3)"""
    finalized_features: tuple[ApiVersionsResponseFinalizedFeatureKey, ...] = ()
    """Levels that the whole cluster runs at. ([]ApiVersionsResponseFinalizedFeatureKey, tag 2, since
    version 3)
    """
    zk_migration_ready: bool = False
    """Left over from ZooKeeper; always false. (bool, tag 3, since version 3)"""
    unknown_tags: UnknownTags = ()


class DescribeConfigsRequestDescribeConfigsResource(Struct, frozen=True, gc=False):
    """In `DescribeConfigsRequest.resources`. One entry a resource, no resource twice."""

    resource_type: int = 0
    """4 is a broker or, with an empty name, all of them; 2 a topic. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    configuration_keys: tuple[str, ...] | None = ()
    """Names of the configs wanted; null for all. ([]string)"""
    unknown_tags: UnknownTags = ()


class DescribeConfigsRequest(Struct, frozen=True, gc=False):
    """The configs of resources, as of now. Asks for configs of some resources."""

    API_KEY: ClassVar[int] = 32
    NAME: ClassVar[str] = "DescribeConfigsRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 4

    resources: tuple[DescribeConfigsRequestDescribeConfigsResource, ...] = ()
    """One entry a resource, no resource twice. ([]DescribeConfigsRequestDescribeConfigsResource)"""
    include_synonyms: bool = False
    """Also list where else each value could come from. (bool)"""
    include_documentation: bool = False
    """Also say what each config does. (bool, since version 3)"""
    unknown_tags: UnknownTags = ()


class DescribeConfigsResponseDescribeConfigsSynonym(Struct, frozen=True, gc=False):
    """In `DescribeConfigsResponseDescribeConfigsResourceResult.synonyms`. Where the value could come
    from, in order of precedence.
    """

    name: str = ""
    """Name of the config. (string)"""
    value: str | None = ""
    """Its value; null if it has none or must not be shown. (string)"""
    source: int = 0
    """The kind of that place, as in the config source. (int8)"""
    unknown_tags: UnknownTags = ()


class DescribeConfigsResponseDescribeConfigsResourceResult(Struct, frozen=True, gc=False):
    """In `DescribeConfigsResponseDescribeConfigsResult.configs`. The configs of this resource."""

    name: str = ""
    """Name of the config. (string)"""
    value: str | None = ""
    """Its value; null if it has none or must not be shown. (string)"""
    read_only: bool = False
    """Whether it can only be changed with a restart. (bool)"""
    config_source: int = -1
    """Where the value comes from, in Kafka's numbers: 1 topic, 2 broker, 3 all brokers, 4 file, 5
    default. (int8)
    """
    is_sensitive: bool = False
    """Whether the value is a secret. (bool)"""
    synonyms: tuple[DescribeConfigsResponseDescribeConfigsSynonym, ...] = ()
    """Where the value could come from, in order of precedence.
    ([]DescribeConfigsResponseDescribeConfigsSynonym)
    """
    config_type: int = 0
    """The value's type, in Kafka's numbers: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7
    list, 8 class, 9 password. (int8, since version 3)
    """
    documentation: str | None = ""
    """What the config does. (string, since version 3)"""
    unknown_tags: UnknownTags = ()


class DescribeConfigsResponseDescribeConfigsResult(Struct, frozen=True, gc=False):
    """In `DescribeConfigsResponse.results`. One entry a resource, in the order asked."""

    error_code: int = 0
    """0, or why this resource cannot be described; POLICY_VIOLATION (44) where more was asked for than
    one answer holds. (int16)
    """
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    resource_type: int = 0
    """4 is a broker or, with an empty name, all of them; 2 a topic. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    configs: tuple[DescribeConfigsResponseDescribeConfigsResourceResult, ...] = ()
    """The configs of this resource. ([]DescribeConfigsResponseDescribeConfigsResourceResult)"""
    unknown_tags: UnknownTags = ()


class DescribeConfigsResponse(Struct, frozen=True, gc=False):
    """The configs of each resource asked for."""

    API_KEY: ClassVar[int] = 32
    NAME: ClassVar[str] = "DescribeConfigsResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 4

    throttle_time_ms: int = 0
    """How long the answer was held back because of a quota. (int32)"""
    results: tuple[DescribeConfigsResponseDescribeConfigsResult, ...] = ()
    """One entry a resource, in the order asked. ([]DescribeConfigsResponseDescribeConfigsResult)"""
    unknown_tags: UnknownTags = ()


class IncrementalAlterConfigsRequestAlterableConfig(Struct, frozen=True, gc=False):
    """In `IncrementalAlterConfigsRequestAlterConfigsResource.configs`. The configs of this resource."""

    name: str = ""
    """Name of the config. (string)"""
    config_operation: int = 0
    """0 set, 1 delete, 2 append, 3 subtract. (int8)"""
    value: str | None = ""
    """The value; null when deleting. (string)"""
    unknown_tags: UnknownTags = ()


class IncrementalAlterConfigsRequestAlterConfigsResource(Struct, frozen=True, gc=False):
    """In `IncrementalAlterConfigsRequest.resources`. One entry a resource, no resource twice."""

    resource_type: int = 0
    """4 is a broker or, with an empty name, all of them; 2 a topic. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    configs: tuple[IncrementalAlterConfigsRequestAlterableConfig, ...] = ()
    """The configs of this resource. ([]IncrementalAlterConfigsRequestAlterableConfig)"""
    unknown_tags: UnknownTags = ()


class IncrementalAlterConfigsRequest(Struct, frozen=True, gc=False):
    """Sets, deletes, appends to or subtracts from single configs of resources. The changes; those of one
    resource are applied together or not at all.
    """

    API_KEY: ClassVar[int] = 44
    NAME: ClassVar[str] = "IncrementalAlterConfigsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    resources: tuple[IncrementalAlterConfigsRequestAlterConfigsResource, ...] = ()
    """One entry a resource, no resource twice. ([]IncrementalAlterConfigsRequestAlterConfigsResource)"""
    validate_only: bool = False
    """Check everything, change nothing. (bool)"""
    unknown_tags: UnknownTags = ()


class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(Struct, frozen=True, gc=False):
    """In `IncrementalAlterConfigsResponse.responses`. One entry a resource, in the order asked."""

    error_code: int = 0
    """0, or why this resource was left as it was. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    resource_type: int = 0
    """4 is a broker or, with an empty name, all of them; 2 a topic. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    unknown_tags: UnknownTags = ()


class IncrementalAlterConfigsResponse(Struct, frozen=True, gc=False):
    """The outcome for each resource, once it is committed."""

    API_KEY: ClassVar[int] = 44
    NAME: ClassVar[str] = "IncrementalAlterConfigsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0
    """How long the answer was held back because of a quota. (int32)"""
    responses: tuple[IncrementalAlterConfigsResponseAlterConfigsResourceResponse, ...] = ()
    """One entry a resource, in the order asked.
    ([]IncrementalAlterConfigsResponseAlterConfigsResourceResponse)
    """
    unknown_tags: UnknownTags = ()


class VoteRequestPartitionData(Struct, frozen=True, gc=False):
    """In `VoteRequestTopicData.partitions`. Exactly one."""

    partition_index: int = 0
    """Always 0: the metadata log has one partition. (int32)"""
    replica_epoch: int = 0
    """The epoch the vote is asked for; of a pre-vote, the sender's current one. (int32)"""
    replica_id: int = 0
    """Who asks. (int32)"""
    replica_directory_id: Uuid = ZERO_UUID
    """The asking member's metadata directory. (uuid, since version 1)"""
    voter_directory_id: Uuid = ZERO_UUID
    """The metadata directory that the receiver is believed to have. (uuid, since version 1)"""
    last_offset_epoch: int = 0
    """Epoch of the sender's last record. (int32)"""
    last_offset: int = 0
    """End offset of the sender's log; exclusive, whatever its name says. (int64)"""
    pre_vote: bool = False
    """Only asks whether the vote would be granted: nothing is promised or written. (bool, since version
    2)
    """
    unknown_tags: UnknownTags = ()


class VoteRequestTopicData(Struct, frozen=True, gc=False):
    """In `VoteRequest.topics`. Exactly one: the metadata topic."""

    topic_name: str = ""
    """Always `__cluster_metadata`. (string)"""
    partitions: tuple[VoteRequestPartitionData, ...] = ()
    """Exactly one. ([]VoteRequestPartitionData)"""
    unknown_tags: UnknownTags = ()


class VoteRequest(Struct, frozen=True, gc=False):
    """A member asks a voter for its vote, or whether it would get it (pre-vote). Asks for a vote in an
    epoch; granted only if the sender's log is as complete as the receiver's.
    """

    API_KEY: ClassVar[int] = 52
    NAME: ClassVar[str] = "VoteRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    cluster_id: str | None = None
    """The sender's cluster; null skips the check. (string)"""
    voter_id: int = -1
    """Who the sender believes it is talking to; -1 skips the check. (int32, since version 1)"""
    topics: tuple[VoteRequestTopicData, ...] = ()
    """Exactly one: the metadata topic. ([]VoteRequestTopicData)"""
    unknown_tags: UnknownTags = ()


class VoteResponsePartitionData(Struct, frozen=True, gc=False):
    """In `VoteResponseTopicData.partitions`. Exactly one."""

    partition_index: int = 0
    """Always 0: the metadata log has one partition. (int32)"""
    error_code: int = 0
    """0, or why the vote was not considered. (int16)"""
    leader_id: int = 0
    """The leader, or -1 while it is unknown. (int32)"""
    leader_epoch: int = 0
    """The highest epoch the sender knows. (int32)"""
    vote_granted: bool = False
    """Whether the receiver votes for the sender. (bool)"""
    unknown_tags: UnknownTags = ()


class VoteResponseTopicData(Struct, frozen=True, gc=False):
    """In `VoteResponse.topics`. Exactly one: the metadata topic."""

    topic_name: str = ""
    """Always `__cluster_metadata`. (string)"""
    partitions: tuple[VoteResponsePartitionData, ...] = ()
    """Exactly one. ([]VoteResponsePartitionData)"""
    unknown_tags: UnknownTags = ()


class VoteResponseNodeEndpoint(Struct, frozen=True, gc=False):
    """In `VoteResponse.node_endpoints`. Where the leader listens, if it is known."""

    node_id: int = 0
    """Whose endpoint this is. (int32, since version 1)"""
    host: str = ""
    """Host name or address, resolved anew on each connect. (string, since version 1)"""
    port: int = 0
    """TCP port. (uint16, since version 1)"""
    unknown_tags: UnknownTags = ()


class VoteResponse(Struct, frozen=True, gc=False):
    """Whether the vote was granted, and what the voter knows of the leader."""

    API_KEY: ClassVar[int] = 52
    NAME: ClassVar[str] = "VoteResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    topics: tuple[VoteResponseTopicData, ...] = ()
    """Exactly one: the metadata topic. ([]VoteResponseTopicData)"""
    node_endpoints: tuple[VoteResponseNodeEndpoint, ...] = ()
    """Where the leader listens, if it is known. ([]VoteResponseNodeEndpoint, tag 0, since version 1)"""
    unknown_tags: UnknownTags = ()


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
    """Acknowledges the leader, or tells of a newer one."""

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
    """The leader's view of the quorum. Asks the leader about the members."""

    API_KEY: ClassVar[int] = 55
    NAME: ClassVar[str] = "DescribeQuorumRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    topics: tuple[DescribeQuorumRequestTopicData, ...] = ()
    """Exactly one: the metadata topic. ([]DescribeQuorumRequestTopicData)"""
    unknown_tags: UnknownTags = ()


class DescribeQuorumResponseReplicaState(Struct, frozen=True, gc=False):
    """How far one member has come."""

    replica_id: int = 0
    """The member's id. (int32)"""
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
    """Members that follow without a vote. ([]DescribeQuorumResponseReplicaState)"""
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
    """Leader, epoch, high watermark and how far each member has come."""

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


class HandshakeRequestSupportedApi(Struct, frozen=True, gc=False):
    """In `HandshakeRequest.api_keys`. Every API that the sender answers."""

    api_key: int = 0
    """The API's number. (int16)"""
    min_version: int = 0
    """Lowest version spoken. (int16)"""
    max_version: int = 0
    """Highest version spoken. (int16)"""
    unknown_tags: UnknownTags = ()


class HandshakeRequest(Struct, frozen=True, gc=False):
    """The first exchange on every connection: both ends say who they are before anything else is
    dispatched. Who connects, or claims to. A client or tool has node id -1 and no directory.
    """

    API_KEY: ClassVar[int] = 20000
    NAME: ClassVar[str] = "HandshakeRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    cluster_id: str | None = None
    """The sender's cluster; null if it does not know (a tool). (string)"""
    node_id: int = -1
    """The member's id; -1 for a client or tool. (int32)"""
    directory_id: Uuid = ZERO_UUID
    """The member's metadata directory. (uuid)"""
    nonce: Uuid = ZERO_UUID
    """16 random bytes of this connection, for the voter that listens here: it shows them on the
    connection that it opens itself. Zero from clients and observers. (uuid)
    """
    challenge: bool = False
    """This connection only brings the nonce: its opener claims nothing and sends no requests on it.
    (bool)
    """
    software: str = ""
    """Name and version of the program. (string)"""
    api_keys: tuple[HandshakeRequestSupportedApi, ...] = ()
    """Every API that the sender answers. ([]HandshakeRequestSupportedApi)"""
    unknown_tags: UnknownTags = ()


class HandshakeResponseSupportedApi(Struct, frozen=True, gc=False):
    """In `HandshakeResponse.api_keys`. Every API that the sender answers."""

    api_key: int = 0
    """The API's number. (int16)"""
    min_version: int = 0
    """Lowest version spoken. (int16)"""
    max_version: int = 0
    """Highest version spoken. (int16)"""
    unknown_tags: UnknownTags = ()


class HandshakeResponse(Struct, frozen=True, gc=False):
    """Who was reached, or one clear reason why the connection is refused."""

    API_KEY: ClassVar[int] = 20000
    NAME: ClassVar[str] = "HandshakeResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    cluster_id: str = ""
    """The answering node's cluster. (string)"""
    node_id: int = -1
    """Its id. (int32)"""
    directory_id: Uuid = ZERO_UUID
    """Its metadata directory. (uuid)"""
    must_show: bool = False
    """Whether requests of this connection wait until it has shown a nonce of the answering node
    (ShowNonce). (bool)
    """
    software: str = ""
    """Name and version of its program. (string)"""
    api_keys: tuple[HandshakeResponseSupportedApi, ...] = ()
    """Every API that the sender answers. ([]HandshakeResponseSupportedApi)"""
    unknown_tags: UnknownTags = ()


class DescribeNodeRequest(Struct, frozen=True, gc=False):
    """One node's own view of itself and the quorum. Needs no leader. Asks a node how it is."""

    API_KEY: ClassVar[int] = 20001
    NAME: ClassVar[str] = "DescribeNodeRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    unknown_tags: UnknownTags = ()


class DescribeNodeResponsePeer(Struct, frozen=True, gc=False):
    """In `DescribeNodeResponse.peers`. The other members, as this node sees them."""

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
    """Whether its log and election file are all there; only then does it count as a member. (bool)"""
    alarms: tuple[str, ...] = ()
    """What an operator should look at. ([]string)"""
    no_leader_reason: str | None = None
    """Why it knows no leader; null if it does. (string)"""
    election_attempts: int = 0
    """Elections it started since it last knew a leader. (int32)"""
    last_contact_ms: int = -1
    """Milliseconds since it last heard from the leader; -1 if never. (int64)"""
    peers: tuple[DescribeNodeResponsePeer, ...] = ()
    """The other members, as this node sees them. ([]DescribeNodeResponsePeer)"""
    started_at_ms: int = 0
    """Wall clock of its start. (int64)"""
    uptime_ms: int = 0
    """How long it has been running. (int64)"""
    metadata_version: str = ""
    """The feature level its image is at. (string)"""
    unknown_tags: UnknownTags = ()


class ResignLeaderRequest(Struct, frozen=True, gc=False):
    """Hands leadership over, to one voter or to the best one. Asks the leader to resign."""

    API_KEY: ClassVar[int] = 20002
    NAME: ClassVar[str] = "ResignLeaderRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    to: int = -1
    """The voter that should lead; -1 lets the leader choose. (int32)"""
    timeout_ms: int = 0
    """How long to wait for it to catch up. (int32)"""
    unknown_tags: UnknownTags = ()


class ResignLeaderResponse(Struct, frozen=True, gc=False):
    """Where leadership went, or why it did not."""

    API_KEY: ClassVar[int] = 20002
    NAME: ClassVar[str] = "ResignLeaderResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    epoch: int = 0
    """The epoch that ended. (int32)"""
    leader_id: int = -1
    """Who led it, or who leads if the node asked does not. (int32)"""
    successor: int = -1
    """Who was asked to take over, or -1. (int32)"""
    unknown_tags: UnknownTags = ()


class ExportManifestRequest(Struct, frozen=True, gc=False):
    """What a consistent copy of a node's metadata log consists of. Asks for the list of files."""

    API_KEY: ClassVar[int] = 20003
    NAME: ClassVar[str] = "ExportManifestRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    unknown_tags: UnknownTags = ()


class ExportManifestResponseFile(Struct, frozen=True, gc=False):
    """In `ExportManifestResponse.files`. Every file of the export."""

    name: str = ""
    """Path below the node's metadata directory. (string)"""
    size_bytes: int = 0
    """How many bytes of it belong to the export. (int64)"""
    kind: str = ""
    """segment, snapshot, election, epochs, partition or meta. (string)"""
    unknown_tags: UnknownTags = ()


class ExportManifestResponse(Struct, frozen=True, gc=False):
    """The files and the position they stand for."""

    API_KEY: ClassVar[int] = 20003
    NAME: ClassVar[str] = "ExportManifestResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    epoch: int = 0
    """The node's epoch. (int32)"""
    leader_id: int = -1
    """Whom it follows, or -1. (int32)"""
    high_watermark: int = -1
    """Everything before it is committed; -1 while unknown. (int64)"""
    start_offset: int = 0
    """First offset of the export. (int64)"""
    end_offset: int = 0
    """Where the export ends: later bytes of the files do not belong to it. (int64)"""
    files: tuple[ExportManifestResponseFile, ...] = ()
    """Every file of the export. ([]ExportManifestResponseFile)"""
    unknown_tags: UnknownTags = ()


class ExportChunkRequest(Struct, frozen=True, gc=False):
    """A piece of a file of an export. The bytes follow the response's body in the frame. Asks for bytes
    of one file.
    """

    API_KEY: ClassVar[int] = 20004
    NAME: ClassVar[str] = "ExportChunkRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    name: str = ""
    """The file, as in the manifest. (string)"""
    position: int = 0
    """Where to begin. (int64)"""
    max_bytes: int = 0
    """Bytes wanted at most. (int32)"""
    unknown_tags: UnknownTags = ()


class ExportChunkResponse(Struct, frozen=True, gc=False):
    """Which bytes these are."""

    API_KEY: ClassVar[int] = 20004
    NAME: ClassVar[str] = "ExportChunkResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    name: str = ""
    """The file. (string)"""
    position: int = 0
    """Where these bytes begin. (int64)"""
    total_bytes: int = 0
    """How long the file is in all. (int64)"""
    unknown_tags: UnknownTags = ()


class ListConfigsRequestCursor(Struct, frozen=True, gc=False):
    """In `ListConfigsRequest.cursor`. After which config to begin; null for the first page. It need not
    exist.
    """

    resource_type: int = 0
    """The type of resource. (int8, since version 1)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string, since version 1)"""
    name: str = ""
    """Name of the config; empty to begin with the resource's first. (string, since version 1)"""
    unknown_tags: UnknownTags = ()


class ListConfigsRequest(Struct, frozen=True, gc=False):
    """The dynamic configs that are set, a page at a time. Each page is linearizable, like
    DescribeConfigs; the pages are of different moments. A config that is there all the while is in exactly
    one of them. Version 0 has no pages: the connection of who asks in it is closed when not everything
    fits. Asks for the configs of one type of resource, or of all.
    """

    API_KEY: ClassVar[int] = 20005
    NAME: ClassVar[str] = "ListConfigsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    resource_type: int = 0
    """4 brokers, 2 topics, 0 all. (int8)"""
    cursor: ListConfigsRequestCursor | None = None
    """After which config to begin; null for the first page. It need not exist.
    (ListConfigsRequestCursor, since version 1)
    """
    unknown_tags: UnknownTags = ()


class ListConfigsResponseEntry(Struct, frozen=True, gc=False):
    """In `ListConfigsResponse.entries`. One entry a config."""

    resource_type: int = 0
    """The type of resource. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    name: str = ""
    """Name of the config. (string)"""
    value: str | None = ""
    """Its value. (string)"""
    unknown_tags: UnknownTags = ()


class ListConfigsResponseNextCursor(Struct, frozen=True, gc=False):
    """In `ListConfigsResponse.next_cursor`. After which config the next page begins: this page's last;
    null if there is no next page.
    """

    resource_type: int = 0
    """The type of resource. (int8, since version 1)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string, since version 1)"""
    name: str = ""
    """Name of the config. (string, since version 1)"""
    unknown_tags: UnknownTags = ()


class ListConfigsResponse(Struct, frozen=True, gc=False):
    """A page of configs, ordered by resource and name."""

    API_KEY: ClassVar[int] = 20005
    NAME: ClassVar[str] = "ListConfigsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    applied_offset: int = 0
    """The image holds everything before it. (int64)"""
    entries: tuple[ListConfigsResponseEntry, ...] = ()
    """One entry a config. ([]ListConfigsResponseEntry)"""
    next_cursor: ListConfigsResponseNextCursor | None = None
    """After which config the next page begins: this page's last; null if there is no next page.
    (ListConfigsResponseNextCursor, since version 1)
    """
    unknown_tags: UnknownTags = ()


class ShowNonceRequest(Struct, frozen=True, gc=False):
    """Confirms that the voter of the greeting opened this connection: only who listens at that voter's
    configured address was told the nonce. A nonce that the receiver gave on a connection of its own, and
    which start of the sender this is.
    """

    API_KEY: ClassVar[int] = 20007
    NAME: ClassVar[str] = "ShowNonceRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    nonce: Uuid = ZERO_UUID
    """As it stood in the receiver's greeting. (uuid)"""
    start_counter: int = 0
    """How many times the sender's directory was started; never falls. (int64)"""
    start_id: Uuid = ZERO_UUID
    """Drawn at the sender's start: tells a restored backup from the original. (uuid)"""
    unknown_tags: UnknownTags = ()


class ShowNonceResponse(Struct, frozen=True, gc=False):
    """Whether the nonce is one that the answering node gave to that voter, and if so, which start of the
    answering node this is.
    """

    API_KEY: ClassVar[int] = 20007
    NAME: ClassVar[str] = "ShowNonceResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or INVALID_VOTER_KEY: it gave no such nonce to that voter, or its connection has ended since.
    (int16)
    """
    start_counter: int = 0
    """How many times the answering node's directory was started; 0 with an error. (int64)"""
    start_id: Uuid = ZERO_UUID
    """Drawn at its start; zero with an error. (uuid)"""
    unknown_tags: UnknownTags = ()


QuorumRequest: TypeAlias = (
    VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest | FetchRequest | DescribeQuorumRequest
)
"""The requests that the core itself handles."""

QuorumResponse: TypeAlias = (
    VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse | FetchResponse | DescribeQuorumResponse
)
"""The responses that the core itself handles."""
