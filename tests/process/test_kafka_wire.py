"""Kafka's wire, spoken by a client to the processes of a quorum."""

from collections.abc import Callable

import confluent_kafka
import msgspec
import pytest
from cluster import Cluster, KafkaClient, alter_request

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.records.batch import scan
from kraftd.types import METADATA_TOPIC, METADATA_TOPIC_ID

NOT_SERVED_YET = {"AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter"}
"""What is known of Kafka's wire and has no handler: it must not be advertised."""

STATIC_BROKER = 4
"""Where a config comes from that a broker's own file sets."""


def kafka_client(cluster: Cluster, node_id: int) -> KafkaClient:
    return KafkaClient(cluster[node_id].port)


def fetch(
    offset: int, *, replica_id: int = -1, epoch: int = 0, last_epoch: int = 0, wait_ms: int = 0
) -> m.FetchRequest:
    """What a broker's raft client sends: an observer's fetch."""
    partition = m.FetchRequestFetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        replica_directory_id=b"d" * 16,
    )
    return m.FetchRequest(
        replica_state=m.FetchRequestReplicaState(replica_id=replica_id),
        max_wait_ms=wait_ms,
        max_bytes=1 << 20,
        topics=(m.FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )


def data_of(response: m.FetchResponse) -> m.FetchResponsePartitionData:
    return response.responses[0].partitions[0]


def test_only_what_is_served_is_advertised_with_the_features_of_the_cluster(
    start: Callable[..., Cluster],
) -> None:
    with start(1) as cluster:
        cluster.wait_leader()
        cluster.commit(
            "log.cleaner.threads", "2"
        )  # then its first records are applied: the features are known
        with kafka_client(cluster, 1) as client:
            said = client.api_versions
            assert {(api.api_key, api.min_version, api.max_version) for api in said.api_keys} == {
                (api.key, api.min_version, api.max_version)
                for api in KAFKA.apis.values()
                if api.name not in NOT_SERVED_YET
            }
            finalized = {each.name: each.max_version_level for each in said.finalized_features}
            assert finalized["metadata.version"] == 30
            assert "kraft.version" not in finalized
            assert said.finalized_features_epoch >= 0
            assert {each.name for each in said.supported_features} > finalized.keys()
            old = client.ask(m.ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
            assert {each.name for each in old.supported_features} == {"metadata.version"}
            bad = client.ask(m.ApiVersionsRequest(client_software_name="-", client_software_version="1"))
            assert bad.error_code == ErrorCode.INVALID_REQUEST


def test_every_version_that_is_advertised_is_answered(start: Callable[..., Cluster]) -> None:
    """By a leader and by followers: no response lacks a field's place in an old version."""
    with start(3) as cluster:
        leader = cluster.wait_leader()
        follower = cluster.wait_follower(leader)
        for node in (leader, follower):
            with kafka_client(cluster, node.node_id) as client:
                for api in client.api_versions.api_keys:
                    request = KAFKA.apis[api.api_key].request
                    for version in range(api.min_version, api.max_version + 1):
                        assert api.api_key == client.ask(request(), version).API_KEY
            assert not node.count("unencodable_reply")


def test_an_observer_reads_the_log_by_kafkas_wire(start: Callable[..., Cluster]) -> None:
    """As a broker does: it learns the leader and its epoch from a refusal, then reads batch by batch."""
    with start(3) as cluster:
        leader = cluster.wait_leader()
        with leader.client() as kraft:
            assert kraft.set_config("log.retention.ms", "1000") == 0
            end_offset = kraft.describe().log_end_offset
        with kafka_client(cluster, leader.node_id) as client:
            learned = data_of(client.ask(fetch(0)))
            assert learned.error_code == ErrorCode.FENCED_LEADER_EPOCH
            assert learned.current_leader.leader_id == leader.node_id
            epoch, offset, last_epoch = learned.current_leader.leader_epoch, 0, 0
            values: list[bytes] = []
            while offset < end_offset:
                data = data_of(client.ask(fetch(offset, epoch=epoch, last_epoch=last_epoch, wait_ms=500)))
                assert data.error_code == 0
                for batch in scan(data.records or b""):
                    batch.check()
                    assert batch.base_offset == offset
                    offset, last_epoch = batch.end_offset, batch.epoch
                    values += batch.values()
            assert any(b"log.retention.ms" in value for value in values)


def test_a_follower_and_a_stranger_under_a_voters_id_are_refused(start: Callable[..., Cluster]) -> None:
    with start(3) as cluster:
        leader = cluster.wait_leader()
        follower = cluster.wait_follower(leader)
        epoch = leader.describe().epoch
        with kafka_client(cluster, follower.node_id) as client:
            refused = client.ask(fetch(0, epoch=epoch))
            assert data_of(refused).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert data_of(refused).current_leader.leader_id == leader.node_id
            (endpoint,) = refused.node_endpoints
            assert endpoint.port == leader.port
        with kafka_client(cluster, leader.node_id) as client:
            named = data_of(client.ask(fetch(0, epoch=epoch, replica_id=follower.node_id)))
            assert named.error_code == ErrorCode.INVALID_VOTER_KEY
        assert "that of a controller" in leader.wait_for("fetch_refused")["reason"]


def test_a_broker_under_the_leaders_own_id_is_named_in_one_line(start: Callable[..., Cluster]) -> None:
    with start(1) as cluster:
        leader = cluster.wait_leader()
        with kafka_client(cluster, leader.node_id) as client:
            for _ in range(2):
                request = fetch(0, epoch=leader.describe().epoch, replica_id=leader.node_id)
                assert data_of(client.ask(request)).error_code == ErrorCode.INVALID_VOTER_KEY
        line = leader.wait_for("fetch_refused")
        assert line["address"].startswith("127.0.0.1:")
        assert line["reason"] == "its node.id is that of a controller: give the broker another one"
        assert leader.count("fetch_refused") == 1


def test_a_broker_that_can_never_follow_is_named_in_one_line(start: Callable[..., Cluster]) -> None:
    """It asks again and again; a Kafka broker says little more than the number of the error."""
    with start(1) as cluster:
        node = cluster.wait_leader()
        with kafka_client(cluster, 1) as client:
            for _ in range(2):
                response = client.ask(msgspec.structs.replace(fetch(0), cluster_id="another"))
                assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert "another cluster" in node.wait_for("fetch_refused")["reason"]
        assert node.count("fetch_refused") == 1


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_described_by_kafkas_wire(start: Callable[..., Cluster], version: int) -> None:
    with start(3) as cluster:
        leader = cluster.wait_leader()
        topic = m.DescribeQuorumRequestTopicData(
            topic_name=METADATA_TOPIC, partitions=(m.DescribeQuorumRequestPartitionData(partition_index=0),)
        )
        with kafka_client(cluster, leader.node_id) as client:
            response = client.ask(m.DescribeQuorumRequest(topics=(topic,)), version)
        partition = response.topics[0].partitions[0]
        assert partition.leader_id == leader.node_id
        assert {voter.replica_id for voter in partition.current_voters} == {1, 2, 3}


def test_configs_are_written_and_read_by_kafkas_wire(start: Callable[..., Cluster]) -> None:
    with start(1) as cluster:
        node = cluster.wait_leader()
        with kafka_client(cluster, 1) as client:
            for version in (0, 1):
                response = client.ask(alter_request([("log.retention.ms", f"100{version}")]), version)
                assert response.responses[0].error_code == 0
            assert client.get_configs()["log.retention.ms"] == "1001"
        with node.client() as kraft:
            assert kraft.get_configs()["log.retention.ms"] == "1001"


@pytest.mark.parametrize("version", [1, 2])
def test_every_node_tells_where_the_controllers_are(start: Callable[..., Cluster], version: int) -> None:
    with start(3) as cluster:
        leader = cluster.wait_leader()
        for node in cluster:
            node.wait_for("leader_changed", where=lambda line: line["leader"] == leader.node_id)
            with kafka_client(cluster, node.node_id) as client:
                response = client.ask(m.DescribeClusterRequest(endpoint_type=2), version)
            assert (response.error_code, response.endpoint_type) == (0, 2)
            assert response.cluster_id == leader.describe().cluster_id
            assert {(each.broker_id, each.port) for each in response.brokers} == {
                (each.node_id, each.port) for each in cluster
            }
        assert response.controller_id == leader.node_id


@pytest.mark.parametrize(
    ("version", "endpoint_type", "error"),
    [
        (0, 1, ErrorCode.INVALID_REQUEST),
        (1, 1, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (2, 7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_a_controller_does_not_describe_brokers(
    start: Callable[..., Cluster], version: int, endpoint_type: int, error: ErrorCode
) -> None:
    with start(1) as cluster:
        cluster.wait_leader()
        with kafka_client(cluster, 1) as client:
            request = m.DescribeClusterRequest(endpoint_type=endpoint_type)
            assert client.ask(request, version).error_code == error


def test_a_listener_that_others_can_reach_is_told_at_the_start(start: Callable[..., Cluster]) -> None:
    """Nobody is authenticated: whoever reaches it may change the cluster."""
    node = next(iter(start(1, settings={"listeners": "CONTROLLER://0.0.0.0:0"})))
    assert "private network" in node.wait_for("open_listener")["text"]
    node = start(1).wait_leader()
    assert not node.count("open_listener")


def test_a_client_that_means_a_broker_is_named_in_one_line(start: Callable[..., Cluster]) -> None:
    """A producer pointed at a controller: it asks for topics, and is told nothing."""
    metadata = b"\0\x03\0\x0c\0\0\0\x07\0\x08producer\0\0\1\0\0"
    node = start(1).wait_leader()
    with KafkaClient(node.port) as client:
        # In one piece: the node closes behind the first, and would reset a connection with more to read.
        client.socket.sendall(2 * (len(metadata).to_bytes(4, "big") + metadata))
        assert not client.socket.recv(1)
    line = node.wait_for("unserved_api")
    assert (line["api"], line["client_id"]) == ("Metadata", "producer")
    assert "needs a broker there" in line["reason"]
    with KafkaClient(node.port) as client:
        assert client.api_versions.error_code == 0
    assert node.count("unserved_api") == 1


def test_a_producer_pointed_at_a_controller_is_told_of(start: Callable[..., Cluster]) -> None:
    """Its library sees that no Metadata is served, and its user learns that a message timed out."""
    node = start(1).wait_leader()
    config = {"bootstrap.servers": f"127.0.0.1:{node.port}", "client.id": "shop", "log_level": 2}
    producer = confluent_kafka.Producer({**config, "message.timeout.ms": 500})
    producer.produce("orders", b"1")
    producer.flush(30)
    del producer  # it keeps its connection until then
    line = node.wait_for("no_request")
    assert (line["client_id"], line["software"]) == ("shop", "confluent-kafka-python")
    assert "need a broker there" in line["reason"]


def test_a_topic_has_the_values_and_counts_that_the_controllers_file_gives(
    start: Callable[..., Cluster],
) -> None:
    node = start(1, settings={"log.retention.ms": "1234", "num.partitions": "3"}).wait_leader()
    assert not node.count("unknown_keys")
    with KafkaClient(node.port) as client:
        resource = m.DescribeConfigsRequestDescribeConfigsResource(
            resource_type=4, resource_name="1", configuration_keys=("log.retention.ms", "num.partitions")
        )
        (result,) = client.ask(m.DescribeConfigsRequest(resources=(resource,))).results
        assert {(each.name, each.value, each.config_source) for each in result.configs} == {
            ("log.retention.ms", "1234", STATIC_BROKER),
            ("num.partitions", "3", STATIC_BROKER),
        }
