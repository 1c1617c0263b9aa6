"""Every kind of change of Kafka's admin client, at random, through three brokers with Kafka's authorizer on
three controllers with ours: by a super user, who gets only the errors that the change itself explains, and by
somebody to whom the ACLs give nothing.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers.cluster import BROKERS, BrokerCluster, free_ports
from tests.brokers.complaints import AFTER_A_FAULT, WHILE_ALL_ARE_UP, judged
from tests.brokers.conftest import CONTROLLER_SETTINGS
from tests.brokers.quorums import wait_leader
from tests.interop.peer import Kafka
from tests.process.cluster import Cluster

PROGRAM = Path(__file__).with_name("AdminOperations.java")
CHANGES = 150
SECRET = "of-all-brokers-and-controllers"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
}
TOKENS = {"delegation.token.secret.key": SECRET}
PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
EXPLAINED = {
    "create-topic": {"TOPIC_ALREADY_EXISTS"},
    "delete-topic": {"UNKNOWN_TOPIC_OR_PARTITION"},
    "create-partitions": {"UNKNOWN_TOPIC_OR_PARTITION", "INVALID_PARTITIONS"},
    "topic-config": {"UNKNOWN_TOPIC_OR_PARTITION"},
    "scram": {"RESOURCE_NOT_FOUND"},
    "renew-token": {"DELEGATION_TOKEN_NOT_FOUND"},
    "expire-token": {"DELEGATION_TOKEN_NOT_FOUND"},
    "reassign": {"UNKNOWN_TOPIC_OR_PARTITION"},
    "cancel-reassignment": {"UNKNOWN_TOPIC_OR_PARTITION", "NO_REASSIGNMENT_IN_PROGRESS"},
    "elect": {"UNKNOWN_TOPIC_OR_PARTITION", "ELECTION_NOT_NEEDED", "PREFERRED_LEADER_NOT_AVAILABLE"},
}
"""What a change may be refused with: it is drawn without a look at what is there."""
MADE = {
    "broker-config",
    "client-metrics",
    "create-acl",
    "create-partitions",
    "create-token",
    "create-topic",
    "delete-acls",
    "delete-topic",
    "expire-token",
    "quota",
    "reassign",
    "renew-token",
    "scram",
    "topic-config",
}
"""All but what has nothing to do most of the time: an election, or a reassignment that is called off."""
HER_OWN = {"create-token", "renew-token", "expire-token"}
"""What everybody may do: a token is made for oneself."""
DENIED = {
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "TOPIC_ALREADY_EXISTS",
}


class Secured(BrokerCluster):
    """Brokers that also serve clients who say who they are."""

    def __init__(self, kafka: Kafka, folder: Path, quorum: Cluster) -> None:
        super().__init__(kafka, folder, quorum, settings=AUTHORIZER | TOKENS, start=False)
        self.ports = dict(zip((spec.node_id for spec in BROKERS), free_ports(len(BROKERS)), strict=True))
        for broker in self:
            plain = f"PLAINTEXT://127.0.0.1:{broker.port}"
            users = 'username="admin" password="pw" user_admin="pw" user_carol="pw"'
            broker.configure(
                broker.properties
                | {
                    "listeners": f"SASL_PLAINTEXT://127.0.0.1:{self.ports[broker.node_id]},{plain}",
                    "listener.security.protocol.map": PROTOCOLS,
                    "sasl.enabled.mechanisms": "PLAIN",
                    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{LOGIN} {users};",
                }
            )
            broker.start()

    @property
    def secured(self) -> str:
        """`bootstrap.servers` of those who log in."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())


@pytest.fixture
def cluster(kafka: Kafka, tmp_path: Path) -> Iterator[Secured]:
    settings = CONTROLLER_SETTINGS | AUTHORIZER | TOKENS
    with Cluster(tmp_path / "controllers", 3, settings=settings) as quorum:
        wait_leader(quorum)
        with Secured(kafka, tmp_path / "brokers", quorum) as brokers:
            brokers.wait_unfenced()
            yield brokers


def changes(kafka: Kafka, cluster: Secured, *, seed: int, count: int, user: str) -> Counter[tuple[str, str]]:
    """How often a kind of change ended in an error, NONE among them."""
    shown = kafka.run(PROGRAM, str(seed), str(count), cluster.secured, user, "pw")
    outcomes = Counter(tuple(line.split()) for line in shown.splitlines())
    assert outcomes.total() == count
    return Counter({(kind, error): times for (kind, error), times in outcomes.items()})


def test_each_change_is_made_or_refused_for_what_is_there(kafka: Kafka, cluster: Secured) -> None:
    with judged(cluster, *WHILE_ALL_ARE_UP, *AFTER_A_FAULT):
        seen = changes(kafka, cluster, seed=1, count=CHANGES, user="admin")
    errors = {(kind, error) for kind, error in seen if error != "NONE"}
    assert {f"{kind}: {error}" for kind, error in errors if error not in EXPLAINED.get(kind, ())} == set()
    assert {kind for kind, error in seen if error == "NONE"} >= MADE

    denied = changes(kafka, cluster, seed=2, count=60, user="carol")
    errors = {(kind, error) for kind, error in denied if kind not in HER_OWN}
    assert {f"{kind}: {error}" for kind, error in errors if error not in DENIED} == set()
