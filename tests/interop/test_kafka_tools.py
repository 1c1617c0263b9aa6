"""Kafka's own admin tools, pointed at the controllers of a kraftd quorum."""

import re
from collections.abc import Iterator

import pytest

from tests.interop.peer import Kafka
from tests.process.cluster import Cluster, Node

QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
CONFIGS = "kafka.admin.ConfigCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
DEFAULT = ("--entity-type", "brokers", "--entity-default")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), 3) as cluster:
        leader = cluster.wait_leader()
        for node in cluster:
            node.wait_for("leader_changed", where=lambda line: line["leader"] == leader.node_id)
        yield cluster


def at(node: Node) -> tuple[str, str]:
    return "--bootstrap-controller", f"127.0.0.1:{node.port}"


def follower_of(cluster: Cluster) -> Node:
    leader = cluster.wait_leader()
    return next(node for node in cluster if node is not leader)


def test_the_quorum_is_described_at_the_leader_and_at_a_follower(kafka: Kafka, cluster: Cluster) -> None:
    leader = cluster.wait_leader()
    for node in (leader, follower_of(cluster)):
        printed = kafka.run(QUORUM, *at(node), "describe", "--status")
        said = {label: value.strip() for label, _, value in (x.partition(":") for x in printed.splitlines())}
        assert said["ClusterId"] == leader.describe().cluster_id
        assert int(said["LeaderId"]) == leader.node_id
        assert int(said["HighWatermark"]) > 0
        assert {int(each) for each in re.findall(r'"id": (\d+)', said["CurrentVoters"])} == {1, 2, 3}
        assert f"CONTROLLER://127.0.0.1:{leader.port}" in said["CurrentVoters"]


def test_the_replicas_are_described(kafka: Kafka, cluster: Cluster) -> None:
    leader = cluster.wait_leader()
    printed = kafka.run(QUORUM, *at(follower_of(cluster)), "describe", "--replication")
    rows = [line.split() for line in printed.splitlines()[1:] if line.strip()]
    assert {int(row[0]): row[-1] for row in rows} == {
        node.node_id: "Leader" if node is leader else "Follower" for node in cluster
    }


def test_configs_are_changed_and_described(kafka: Kafka, cluster: Cluster) -> None:
    added = ("--add-config", "log.retention.ms=1234")
    kafka.run(CONFIGS, *at(follower_of(cluster)), "--alter", *DEFAULT, *added)
    assert "log.retention.ms=1234 sensitive=false" in kafka.run(
        CONFIGS, *at(cluster.wait_leader()), "--describe", *DEFAULT
    )
    deleted = ("--delete-config", "log.retention.ms")
    kafka.run(CONFIGS, *at(cluster.wait_leader()), "--alter", *DEFAULT, *deleted)
    with cluster.wait_leader().client() as client:
        assert "log.retention.ms" not in client.get_configs()


def test_features_the_cluster_id_and_the_controllers_are_listed(kafka: Kafka, cluster: Cluster) -> None:
    node = follower_of(cluster)
    features = kafka.run(FEATURES, *at(node), "describe")
    assert re.search(r"metadata\.version\s.*FinalizedVersionLevel: 4\.3-IV0", features)
    assert re.search(r"kraft\.version\s.*FinalizedVersionLevel: 0", features)
    assert kafka.run(CLUSTER, "cluster-id", *at(node)).strip() == f"Cluster ID: {node.describe().cluster_id}"
    listed = kafka.run(CLUSTER, "list-endpoints", *at(node))
    assert {tuple(line.split()[:3]) for line in listed.splitlines()[1:] if line.strip()} == {
        (f"{each.node_id}", "127.0.0.1", f"{each.port}") for each in cluster
    }


def test_a_tool_that_takes_a_controller_for_a_broker_is_told(kafka: Kafka, cluster: Cluster) -> None:
    leader = cluster.wait_leader()
    since, server = leader.mark(), ("--bootstrap-server", f"127.0.0.1:{leader.port}")
    with pytest.raises(AssertionError, match="The node does not support METADATA"):
        kafka.run(CONFIGS, *server, "--describe", *DEFAULT)
    line = leader.wait_for("no_request", since=since)
    assert line["software"] == "apache-kafka-java"
