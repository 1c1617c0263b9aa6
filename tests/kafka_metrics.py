"""The names of the metrics of Kafka 4.3.1's controllers, for tests of nodes and of the jars."""

from collections.abc import Mapping, Sequence

KAFKAS: Mapping[str, Sequence[str]] = {
    "kafka_controller_kafkacontroller": (
        "ActiveControllerCount",
        "LastAppliedRecordOffset",
        "LastCommittedRecordOffset",
        "LastAppliedRecordTimestamp",
        "LastAppliedRecordLagMs",
        "TimedOutBrokerHeartbeatCount",
        "EventQueueOperationsStartedCount",
        "EventQueueOperationsTimedOutCount",
        "NewActiveControllersCount",
        "TimeSinceLastHeartbeatReceivedMs",
        "FencedBrokerCount",
        "ActiveBrokerCount",
        "ControlledShutdownBrokerCount",
        "BrokerRegistrationState",
        "GlobalTopicCount",
        "GlobalPartitionCount",
        "OfflinePartitionsCount",
        "PreferredReplicaImbalanceCount",
        "MetadataErrorCount",
        "IgnoredStaticVoters",
    ),
    "kafka_controller_controllereventmanager": (
        "EventQueueTimeMs",
        "EventQueueProcessingTimeMs",
        "AvgIdleRatio",
    ),
    "kafka_controller_controllerstats": (
        "UncleanLeaderElectionsPerSec",
        "ElectionFromEligibleLeaderReplicasPerSec",
    ),
    "kafka_server_metadataloader": (
        "CurrentMetadataVersion",
        "HandleLoadSnapshotCount",
        "CurrentControllerId",
        "FinalizedLevel",
        "AvgIdleRatio",
    ),
    "kafka_server_snapshotemitter": ("LatestSnapshotGeneratedBytes", "LatestSnapshotGeneratedAgeMs"),
}
"""The names of Kafka 4.3.1: QuorumControllerMetrics, ControllerMetadataMetrics, MetadataLoaderMetrics and
SnapshotEmitterMetrics, by the beginning that Prometheus' exporter for JMX gives them."""
