"""ACLs by Kafka's own tool, through a broker with Kafka's authorizer: made, listed, kept to and removed. The
broker keeps to them where it serves a client itself, the controller where the broker forwards.

On a controller and a broker of their own, with an authorizer each. Nobody is authenticated here, so everybody
is User:ANONYMOUS, and may do what no ACL speaks of.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions

from tests.brokers.clients import admin, create_topic, error_of, produce, producer, wait_until
from tests.brokers.cluster import BrokerCluster, BrokerSpec
from tests.brokers.conftest import CONTROLLER_SETTINGS
from tests.brokers.quorums import wait_leader
from tests.interop.peer import Kafka
from tests.process.cluster import Cluster

TOOL = "org.apache.kafka.tools.AclCommand"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
TOPIC_AUTHORIZATION_FAILED = 29


@pytest.fixture
def cluster(kafka: Kafka, tmp_path: Path) -> Iterator[BrokerCluster]:
    """One broker on one controller."""
    with Cluster(tmp_path / "controller", 1, settings=CONTROLLER_SETTINGS | AUTHORIZER) as quorum:
        wait_leader(quorum)
        specs = [BrokerSpec(11, "a")]
        with BrokerCluster(kafka, tmp_path / "brokers", quorum, specs, settings=AUTHORIZER) as brokers:
            brokers.wait_unfenced()
            yield brokers


def error_of_producing(cluster: BrokerCluster, topic: str) -> int:
    """The error of a value that is sent to a topic; 0 if it was acknowledged."""
    errors: list[int] = []
    sender = producer(cluster, message_timeout_ms=30_000)
    sender.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error.code() if error else 0))
    assert sender.flush(60) == 0
    return errors[0]


def test_acls_are_made_listed_kept_to_and_removed_by_kafkas_tool(
    kafka: Kafka, cluster: BrokerCluster
) -> None:
    def acls(*arguments: str, at: tuple[str, str] = ("--bootstrap-server", cluster.bootstrap)) -> str:
        return kafka.run(TOOL, *at, *arguments)

    for topic in ("orders", "free"):
        create_topic(cluster, topic, partitions=1, replicas=1)
        produce(cluster, topic, ["before"])

    denies = ("--deny-principal", "User:ANONYMOUS", "--operation", "Write", "--topic", "orders")
    acls("--add", *denies)
    wait_until(
        lambda: error_of_producing(cluster, "orders") == TOPIC_AUTHORIZATION_FAILED,
        lambda: "the broker keeps to the ACL",
    )
    assert error_of_producing(cluster, "free") == 0
    allows = ("--allow-principal", "User:alice", "--allow-host", "10.0.0.1", "--operation", "Read")
    acls("--add", *allows, "--group", "g-", "--resource-pattern-type", "prefixed")

    listed = acls("--list")
    assert "principal=User:ANONYMOUS, host=*, operation=WRITE, permissionType=DENY" in listed
    assert "ResourcePattern(resourceType=GROUP, name=g-, patternType=PREFIXED)" in listed
    controller = f"127.0.0.1:{next(iter(cluster.quorum)).port}"
    asked_directly = acls("--list", at=("--bootstrap-controller", controller))
    assert sorted(asked_directly.split()) == sorted(listed.split())

    acls("--add", "--deny-principal", "User:ANONYMOUS", "--operation", "Alter", "--topic", "free")
    grown = admin(cluster).create_partitions([NewPartitions("free", 2)])["free"]
    assert error_of(grown) == "TOPIC_AUTHORIZATION_FAILED", "the controller refuses what a broker forwards"

    acls("--remove", "--force", *denies)
    wait_until(
        lambda: error_of_producing(cluster, "orders") == 0, lambda: "the broker knows that the ACL is gone"
    )
    assert "orders" not in acls("--list")
    assert "User:alice" in acls("--list", "--group", "g-1", "--resource-pattern-type", "match")
