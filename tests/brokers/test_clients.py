"""What runs on a Kafka runs on brokers whose controllers are kraftd: topics, producers, groups, configs.

By librdkafka, kafka-python, aiokafka and Kafka's own tools. Nobody is hurt here; that is `test_faults`.
"""

import re
from typing import Any

import aiokafka
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType

from kraftd.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
)
from tests.brokers.clients import (
    WAIT_S,
    admin,
    consume,
    consumer,
    create_topic,
    error_of,
    outcome,
    partitions_of,
    produce,
    producer,
    read_all,
    wait_isr,
    wait_until,
)
from tests.brokers.cluster import BROKERS, BrokerCluster
from tests.brokers.complaints import DEFECTS, WHILE_ALL_ARE_UP, defects_of, unexplained
from tests.interop.peer import Kafka
from tests.process.cluster import KafkaClient

TEN = [f"value {number}" for number in range(10)]
TOPICS = "org.apache.kafka.tools.TopicCommand"
INVALID_TOPIC_EXCEPTION, INVALID_REQUEST, POLICY_VIOLATION = 17, 42, 44
INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT = 37, 38, 39
"""Kafka's error codes."""

CONFIGS = "kafka.admin.ConfigCommand"


def at(cluster: BrokerCluster) -> tuple[str, str]:
    return "--bootstrap-server", cluster.bootstrap


def test_brokers_register_with_their_racks(cluster: BrokerCluster) -> None:
    described = outcome(admin(cluster).describe_cluster())
    assert {node.id: node.rack for node in described.nodes} == {spec.node_id: spec.rack for spec in BROKERS}
    assert described.cluster_id == cluster.quorum.cluster_id


def test_a_topic_of_three_replicas_keeps_what_all_acknowledged(cluster: BrokerCluster) -> None:
    create_topic(cluster, "three", partitions=6)
    found = partitions_of(cluster, "three")
    assert sorted(found) == list(range(6))
    assert all(sorted(each.replicas) == [11, 12, 13] for each in found.values())
    assert all(each.leader == each.replicas[0] for each in found.values())
    assert len({each.leader for each in found.values()}) == 3, "striped over the racks"
    produce(cluster, "three", TEN)
    assert sorted(read_all(cluster, "three")) == sorted(TEN)


def test_replicas_of_one_rack_each_are_spread(cluster: BrokerCluster) -> None:
    create_topic(cluster, "spread", partitions=9, replicas=2)
    found = partitions_of(cluster, "spread").values()
    assert {len(set(each.replicas)) for each in found} == {2}
    leads = [each.leader for each in found]
    assert {leads.count(broker) for broker in (11, 12, 13)} == {3}


def test_a_topic_by_hand_lies_where_it_was_told_to(cluster: BrokerCluster) -> None:
    create_topic(cluster, "by-hand", assignment=[[12, 11], [13, 12], [11, 13]])
    found = partitions_of(cluster, "by-hand")
    assert [found[number].replicas for number in range(3)] == [[12, 11], [13, 12], [11, 13]]
    assert [found[number].leader for number in range(3)] == [12, 13, 11]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_shares_a_topic_and_keeps_its_offsets(cluster: BrokerCluster, protocol: str) -> None:
    topic = f"group-{protocol}"
    create_topic(cluster, topic, partitions=1)
    produce(cluster, topic, TEN)
    reader = consumer(cluster, topic, group_protocol=protocol, enable_auto_commit=False)
    assert consume(reader, [topic], 10) == TEN
    reader.commit(asynchronous=False)
    reader.close()
    produce(cluster, topic, ["after"])
    again = consumer(cluster, topic, group_protocol=protocol)
    assert consume(again, [topic], 1) == ["after"]
    again.close()


def test_what_a_transaction_aborted_is_not_read(cluster: BrokerCluster) -> None:
    create_topic(cluster, "transactions", partitions=1)
    sender = producer(cluster, transactional_id="sender")
    sender.init_transactions(WAIT_S)
    for value, is_kept in (("kept", True), ("dropped", False), ("kept too", True)):
        sender.begin_transaction()
        sender.produce("transactions", value.encode())
        if is_kept:
            sender.commit_transaction(WAIT_S)
        else:
            sender.flush(WAIT_S)
            sender.abort_transaction(WAIT_S)
    assert read_all(cluster, "transactions") == ["kept", "kept too"]


def test_producers_get_ids_of_their_own(cluster: BrokerCluster) -> None:
    create_topic(cluster, "idempotent", partitions=1)
    for number in range(3):
        produce(cluster, "idempotent", [f"{number}"], enable_idempotence=True)
    assert read_all(cluster, "idempotent") == ["0", "1", "2"]


def test_a_topic_is_created_by_its_first_producer(cluster: BrokerCluster) -> None:
    produce(cluster, "by-librdkafka", TEN)
    assert sorted(read_all(cluster, "by-librdkafka")) == sorted(TEN)


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
def test_kafka_python_produces_and_consumes(cluster: BrokerCluster) -> None:
    import kafka as kafka_python  # its import is what warns

    sender = kafka_python.KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    sent = [sender.send("by-kafka-python", value.encode()) for value in TEN]
    assert sorted(each.get(WAIT_S).offset for each in sent) == list(range(10))
    sender.close()
    reader = kafka_python.KafkaConsumer(
        "by-kafka-python",
        bootstrap_servers=cluster.bootstrap,
        group_id="by-kafka-python",
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(WAIT_S * 1000),
    )
    assert [next(reader).value.decode() for _ in TEN] == TEN
    reader.close()


async def test_aiokafka_produces_and_consumes(cluster: BrokerCluster) -> None:
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as sender:
        for value in TEN:
            await sender.send_and_wait("by-aiokafka", value.encode())
    reader = aiokafka.AIOKafkaConsumer(
        "by-aiokafka",
        bootstrap_servers=cluster.bootstrap,
        group_id="by-aiokafka",
        auto_offset_reset="earliest",
    )
    async with reader:
        assert [(await reader.getone()).value.decode() for _ in TEN] == TEN


def test_a_topics_configs_are_set_and_told(cluster: BrokerCluster) -> None:
    create_topic(cluster, "configs", partitions=1, config={"retention.ms": "3600000"})
    client = admin(cluster)

    def alter(operation: AlterConfigOpType, name: str, value: str | None) -> None:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, "configs", incremental_configs=[entry])
        outcome(client.incremental_alter_configs([resource])[resource])

    def told() -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, "configs")
        entries = outcome(client.describe_configs([resource])[resource])
        return {name: entry.value for name, entry in entries.items()}

    assert told()["retention.ms"] == "3600000"
    alter(AlterConfigOpType.SET, "max.message.bytes", "123456")
    alter(AlterConfigOpType.SET, "cleanup.policy", "delete")
    alter(AlterConfigOpType.APPEND, "cleanup.policy", "compact")
    alter(AlterConfigOpType.DELETE, "retention.ms", None)
    expected = {
        "max.message.bytes": "123456",
        "cleanup.policy": "delete,compact",
        "retention.ms": "604800000",
    }
    wait_until(lambda: expected.items() <= told().items(), lambda: str(told()))
    resource = ConfigResource(ResourceType.TOPIC, "configs")
    resource.add_incremental_config(
        ConfigEntry("no.such.config", "1", incremental_operation=AlterConfigOpType.SET)
    )
    assert error_of(client.incremental_alter_configs([resource])[resource]) == "INVALID_CONFIG"


def test_partitions_are_added(cluster: BrokerCluster) -> None:
    create_topic(cluster, "grows", partitions=1)
    client = admin(cluster)
    outcome(client.create_partitions([NewPartitions("grows", 4)])["grows"])
    wait_until(
        lambda: len(partitions_of(cluster, "grows")) == 4, lambda: str(partitions_of(cluster, "grows"))
    )
    wait_isr(cluster, "grows", 3)
    assert error_of(client.create_partitions([NewPartitions("grows", 2)])["grows"]) == "INVALID_PARTITIONS"


def test_a_deleted_topic_is_gone_and_its_name_is_free(cluster: BrokerCluster) -> None:
    create_topic(cluster, "deleted", partitions=2)
    produce(cluster, "deleted", TEN)
    client = admin(cluster)
    outcome(client.delete_topics(["deleted"])["deleted"])
    assert error_of(client.delete_topics(["deleted"])["deleted"]) == "UNKNOWN_TOPIC_OR_PART"
    create_topic(cluster, "deleted", partitions=1)
    produce(cluster, "deleted", ["new"])
    assert read_all(cluster, "deleted") == ["new"]


def by_hand(*brokers: int) -> tuple[CreateTopicsRequestCreatableReplicaAssignment, ...]:
    return (CreateTopicsRequestCreatableReplicaAssignment(partition_index=0, broker_ids=brokers),)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        ({"num_partitions": 0}, INVALID_PARTITIONS),
        ({"num_partitions": -2}, INVALID_PARTITIONS),
        ({"num_partitions": 100_001}, POLICY_VIOLATION),
        ({"replication_factor": 4}, INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 0}, INVALID_REPLICATION_FACTOR),
        ({"assignments": by_hand(11, 11)}, INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": by_hand(11, 99)}, INVALID_REPLICA_ASSIGNMENT),
        ({"name": "not/a/name"}, INVALID_TOPIC_EXCEPTION),
        ({"name": ""}, INVALID_TOPIC_EXCEPTION),
        ({"name": "__cluster_metadata"}, INVALID_REQUEST),
    ],
    ids=str,
)
def test_a_bad_topic_is_refused(cluster: BrokerCluster, topic: dict[str, Any], error: int) -> None:
    """Straight to a broker, since librdkafka refuses some of these itself."""
    count = -1 if "assignments" in topic else 1
    asked = CreateTopicsRequestCreatableTopic(
        **{"name": "bad", "num_partitions": count, "replication_factor": count, **topic}
    )
    with KafkaClient(cluster[11].port) as client:
        response = client.ask(CreateTopicsRequest(topics=(asked,), timeout_ms=30_000), 5)
    (result,) = response.topics
    assert (result.error_code, bool(result.error_message)) == (error, True), result


def test_kafkas_tools_see_the_topic(kafka: Kafka, cluster: BrokerCluster) -> None:
    kafka.run(
        TOPICS,
        *at(cluster),
        "--create",
        "--topic",
        "by-tool",
        "--partitions",
        "2",
        "--replication-factor",
        "3",
    )
    shown = kafka.run(TOPICS, *at(cluster), "--describe", "--topic", "by-tool")
    assert re.search(r"Topic: by-tool\s+TopicId: \S+\s+PartitionCount: 2\s+ReplicationFactor: 3", shown)
    kafka.run(CONFIGS, *at(cluster), "--alter", "--topic", "by-tool", "--add-config", "segment.bytes=1048576")
    wait_until(
        lambda: (
            "segment.bytes=1048576" in kafka.run(CONFIGS, *at(cluster), "--describe", "--topic", "by-tool")
        ),
        lambda: "segment.bytes is not shown",
    )
    kafka.run(
        *("org.apache.kafka.tools.ProducerPerformance", "--topic", "by-tool", "--num-records", "1000"),
        *("--record-size", "100", "--throughput", "-1"),
        *("--bootstrap-server", cluster.bootstrap),
    )
    read = kafka.run(
        *("org.apache.kafka.tools.consumer.ConsoleConsumer", *at(cluster), "--topic", "by-tool"),
        *("--from-beginning", "--max-messages", "1000"),
    )
    assert len(read.splitlines()) == 1000
    kafka.run(TOPICS, *at(cluster), "--delete", "--topic", "by-tool")


def test_kafkas_tools_see_the_quorum_through_a_broker(kafka: Kafka, cluster: BrokerCluster) -> None:
    status = kafka.run("org.apache.kafka.tools.MetadataQuorumCommand", *at(cluster), "describe", "--status")
    assert re.search(r"LeaderId:\s+[123]\n", status)
    replication = kafka.run(
        "org.apache.kafka.tools.MetadataQuorumCommand", *at(cluster), "describe", "--replication"
    )
    roles = {int(line.split()[0]): line.split()[-1] for line in replication.splitlines()[1:]}
    assert sorted(roles) == [1, 2, 3, 11, 12, 13]
    assert {roles[broker] for broker in (11, 12, 13)} == {"Observer"}
    features = kafka.run("org.apache.kafka.tools.FeatureCommand", *at(cluster), "describe")
    assert "Feature: metadata.version" in features


def test_nobody_has_anything_to_complain_about(cluster: BrokerCluster) -> None:
    """After all of the above, and since the start."""
    assert unexplained(cluster, {}, WHILE_ALL_ARE_UP) == []
    assert defects_of(cluster) == dict.fromkeys(DEFECTS, 0)
