"""What Kafka calls the APIs of its wire, those too that no controller serves: for the log.

Who asks a controller for one of them most often meant a broker. Follows the message schemas of Kafka 4.3.1.
"""

from typing import Final

_NAMES = """
    Produce Fetch ListOffsets Metadata LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown
    OffsetCommit OffsetFetch FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup DescribeGroups
    ListGroups SaslHandshake ApiVersions CreateTopics DeleteTopics DeleteRecords InitProducerId
    OffsetForLeaderEpoch AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers TxnOffsetCommit
    DescribeAcls CreateAcls DeleteAcls DescribeConfigs AlterConfigs AlterReplicaLogDirs
    DescribeLogDirs SaslAuthenticate CreatePartitions CreateDelegationToken RenewDelegationToken
    ExpireDelegationToken DescribeDelegationToken DeleteGroups ElectLeaders IncrementalAlterConfigs
    AlterPartitionReassignments ListPartitionReassignments OffsetDelete DescribeClientQuotas
    AlterClientQuotas DescribeUserScramCredentials AlterUserScramCredentials Vote BeginQuorumEpoch
    EndQuorumEpoch DescribeQuorum AlterPartition UpdateFeatures Envelope FetchSnapshot
    DescribeCluster DescribeProducers BrokerRegistration BrokerHeartbeat UnregisterBroker
    DescribeTransactions ListTransactions AllocateProducerIds ConsumerGroupHeartbeat
    ConsumerGroupDescribe ControllerRegistration GetTelemetrySubscriptions PushTelemetry
    AssignReplicasToDirs ListConfigResources DescribeTopicPartitions ShareGroupHeartbeat
    ShareGroupDescribe ShareFetch ShareAcknowledge AddRaftVoter RemoveRaftVoter UpdateRaftVoter
    InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState
    ReadShareGroupStateSummary StreamsGroupHeartbeat StreamsGroupDescribe DescribeShareGroupOffsets
    AlterShareGroupOffsets DeleteShareGroupOffsets
"""

KAFKA_APIS: Final = tuple(_NAMES.split())
"""By key."""


def api_name(key: int) -> str:
    """Kafka's name of an API; its key, if Kafka has none of that key."""
    return KAFKA_APIS[key] if 0 <= key < len(KAFKA_APIS) else f"API {key}"
