"""Decisions that are not Kafka's: each changes one record or one error, and the comparison with Kafka notices."""

from tests.sabotage.mutant import Mutant, mutant

_JUDGE = "tests/conformance_kafka/test_slice.py::test_kraftd_and_kafka_do_the_same"


def _other(name: str, text: str, target: str, old: str, new: str) -> Mutant:
    return mutant(name, "Kafka 4.3.1", text, "process", (target, old, new), where=(_JUDGE,))


CONFORMANCE = (
    _other(
        "a-broker-of-another-cluster-registers",
        "A broker of another cluster is told that its registration is wrong, not that the cluster is another.",
        "kraftd.controller.brokers.registration:_other_cluster",
        "Complaint(ErrorCode.INCONSISTENT_CLUSTER_ID, text)",
        "Complaint(ErrorCode.INVALID_REGISTRATION, text)",
    ),
    _other(
        "a-second-start-registers-at-once",
        "A broker can be started a second time while the first start is alive.",
        "kraftd.controller.brokers.registration:_duplicate",
        "if not context.sessions.is_alive(known.broker_id, known.broker_epoch, context.now.mono_ms):",
        "if True:",
    ),
    _other(
        "a-feature-that-is-too-new-is-no-reason",
        "A broker may register that does not support what the cluster runs.",
        "kraftd.controller.brokers.registration:_unsupported",
        "if low <= level <= high:",
        "if low <= level <= high or level == 1:",
    ),
    _other(
        "an-old-heartbeat-is-of-nobody",
        "A heartbeat of an earlier epoch gets the error of a broker that is not registered.",
        "kraftd.controller.brokers.heartbeats:_stale",
        "ErrorCode.STALE_BROKER_EPOCH",
        "ErrorCode.BROKER_ID_NOT_REGISTERED",
    ),
    _other(
        "caught-up-a-record-late",
        "A broker is caught up only beyond its own registration.",
        "kraftd.controller.brokers.heartbeats:is_caught_up",
        "request.current_metadata_offset >= session.registered_offset",
        "request.current_metadata_offset > session.registered_offset",
    ),
    _other(
        "stopping-is-not-written",
        "That a broker stops is not in its record.",
        "kraftd.controller.brokers.heartbeats:change_of",
        "in_controlled_shutdown=int(in_controlled_shutdown)",
        "in_controlled_shutdown=0",
    ),
    _other(
        "unregistered-in-epoch-zero",
        "The record of an unregistration does not tell the epoch.",
        "kraftd.controller.brokers.unregistering:unregister_broker",
        "broker_epoch=broker.broker_epoch",
        "broker_epoch=0",
    ),
    _other(
        "blocks-of-999-producer-ids",
        "A block of producer ids is one too short in the log.",
        "kraftd.controller.producer_ids:allocate_producer_ids",
        "first + BLOCK)",
        "first + BLOCK - 1)",
    ),
    _other(
        "any-epoch-may-be-in-sync",
        "Another start of a broker than the one that caught up enters an ISR.",
        "kraftd.controller.partitions.in_sync:_are_eligible",
        "epoch in (_NO_EPOCH, active[broker_id])",
        "epoch <= 1 << 60",
    ),
    _other(
        "a-move-that-is-none-is-called-off",
        "A move that is not going on cannot be called off, for another reason.",
        "kraftd.controller.partitions.reassignment:_Moves.change",
        "ErrorCode.NO_REASSIGNMENT_IN_PROGRESS",
        "ErrorCode.INVALID_REPLICA_ASSIGNMENT",
    ),
    _other(
        "who-leads-is-elected-again",
        "An election that is not needed has been made.",
        "kraftd.controller.partitions.electing:ElectLeadersPlan.decision",
        "ErrorCode.ELECTION_NOT_NEEDED, election.not_needed",
        "ErrorCode.NONE",
    ),
    _other(
        "a-replica-of-another-broker-is-assigned",
        "A broker is told that it does not know a topic, where it only holds no replica of it.",
        "kraftd.controller.partitions.directory_assignment:AssignReplicasToDirsPlan.decision",
        "Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)",
        "Outcome(ErrorCode.UNKNOWN_TOPIC_ID)",
    ),
    _other(
        "a-topic-grows-to-its-size",
        "A topic may be asked to have as many partitions as it has.",
        "kraftd.controller.topics.adding:_missing",
        "topic.count <= there",
        "topic.count < there",
    ),
    _other(
        "deleted-by-an-id-of-nobody",
        "That there is no topic of an id is told by the error for names.",
        "kraftd.controller.topics.deleting:_find",
        "ErrorCode.UNKNOWN_TOPIC_ID",
        "ErrorCode.UNKNOWN_TOPIC_OR_PARTITION",
    ),
    _other(
        "a-name-of-dots",
        "A topic may be called '..'.",
        "kraftd.controller.topics.names:_complaint",
        "if name in _DIRECTORIES:",
        "if name == '.':",
    ),
    _other(
        "a-level-is-written-as-another",
        "A level of a feature is written one too high.",
        "kraftd.controller.feature_control:_records",
        "FeatureLevelRecord(name=name, feature_level=level)",
        "FeatureLevelRecord(name=name, feature_level=level + 1)",
    ),
    _other(
        "any-number-of-iterations",
        "SCRAM credentials may have fewer iterations than Kafka demands.",
        "kraftd.controller.scram_control:_check_iterations",
        "mechanism.iterations_min <= iterations",
        "-5 <= iterations",
    ),
    _other(
        "quotas-of-nothing",
        "A quota may be zero.",
        "kraftd.controller.client_quota_control:_check_quota",
        "if value <= 0:",
        "if value < 0:",
    ),
    _other(
        "an-entry-for-a-cluster-of-any-name",
        "An ACL may be about a cluster of another name.",
        "kraftd.controller.acls.creating:_mistakes",
        "resource is AclResource.CLUSTER and name != CLUSTER_NAME",
        "resource is AclResource.CLUSTER and not name",
    ),
    _other(
        "appending-what-is-there",
        "An item is appended to a list that has it already.",
        "kraftd.controller.configs.configuration_control:_appended",
        "if item not in known",
        "if item",
    ),
)
