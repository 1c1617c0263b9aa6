"""What users and clients may use, and what they log in with: by Kafka's own tools, through brokers."""

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.brokers.clients import admin, error_of, outcome, wait_until
from tests.brokers.cluster import BrokerCluster
from tests.brokers.complaints import judged
from tests.interop.peer import Kafka

CONFIGS = "kafka.admin.ConfigCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"


class Configs:
    """`kafka-configs` about one entity."""

    def __init__(self, kafka: Kafka, cluster: BrokerCluster, **entity: str) -> None:
        self._kafka = kafka
        self._command = (CONFIGS, "--bootstrap-server", cluster.bootstrap)
        self._entity = [
            word for kind, name in entity.items() for word in ("--entity-type", kind, "--entity-name", name)
        ]

    def alter(self, *change: str) -> None:
        self._kafka.run(*self._command, "--alter", *self._entity, *change)

    def described(self) -> str:
        return self._kafka.run(*self._command, "--describe", *self._entity)

    def wait_described(self, *parts: str) -> None:
        """A broker may not have heard of it yet."""
        wait_until(lambda: all(part in self.described() for part in parts), self.described)

    def wait_undescribed(self, part: str) -> None:
        wait_until(lambda: part not in self.described(), self.described)


def test_a_user_with_a_client_id_has_quotas(kafka: Kafka, cluster: BrokerCluster) -> None:
    configs = Configs(kafka, cluster, users="alice", clients="app")
    with judged(cluster):
        configs.alter("--add-config", "producer_byte_rate=1048576,controller_mutation_rate=0.5")
        configs.wait_described(
            "Quota configs for user-principal 'alice', client-id 'app'",
            "producer_byte_rate=1048576.0",
            "controller_mutation_rate=0.5",
        )
        configs.alter("--delete-config", "producer_byte_rate", "--add-config", "consumer_byte_rate=5")
        configs.wait_described("consumer_byte_rate=5.0", "controller_mutation_rate=0.5")
        configs.wait_undescribed("producer_byte_rate")
        with pytest.raises(AssertionError, match="InvalidRequestException"):
            configs.alter("--add-config", "request_percentage=-1")
        assert "request_percentage" not in configs.described()


def test_a_client_makes_partitions_no_faster_than_its_quota(
    kafka: Kafka, cluster: BrokerCluster, tmp_path: Path
) -> None:
    hasty, other = tmp_path / "hasty.properties", tmp_path / "other.properties"
    hasty.write_text("client.id=hasty\n")
    other.write_text("client.id=other\n")

    def make(topic: str, partitions: int, config: Path) -> str:
        how = ("--partitions", str(partitions), "--replication-factor", "1")
        to = ("--bootstrap-server", cluster.bootstrap, "--command-config", config)
        return kafka.run(TOPICS, *to, "--create", "--topic", topic, *how)

    with judged(cluster):
        Configs(kafka, cluster, clients="hasty").alter("--add-config", "controller_mutation_rate=0.05")
        make("hasty-1", 40, hasty)
        with pytest.raises(AssertionError, match="throttling quota has been exceeded"):
            make("hasty-2", 1, hasty)
        make("hasty-2", 1, other)
        Configs(kafka, cluster, clients="hasty").alter("--delete-config", "controller_mutation_rate")
        make("hasty-3", 1, hasty)


def test_an_address_has_a_quota(kafka: Kafka, cluster: BrokerCluster) -> None:
    configs = Configs(kafka, cluster, ips="127.0.0.9")
    with judged(cluster):
        configs.alter("--add-config", "connection_creation_rate=7")
        configs.wait_described("Quota configs for ip '127.0.0.9'", "connection_creation_rate=7.0")
        configs.alter("--delete-config", "connection_creation_rate")
        configs.wait_undescribed("connection_creation_rate")


def test_a_user_gets_a_scram_credential_and_loses_it(kafka: Kafka, cluster: BrokerCluster) -> None:
    configs = Configs(kafka, cluster, users="bob")
    with judged(cluster):
        configs.alter("--add-config", "SCRAM-SHA-512=[iterations=8192,password=nobody-knows]")
        configs.wait_described(
            "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-512=iterations=8192"
        )
        configs.alter("--delete-config", "SCRAM-SHA-512")
        configs.wait_undescribed("SCRAM-SHA-512")
        with pytest.raises(AssertionError, match="ResourceNotFoundException"):
            configs.alter("--delete-config", "SCRAM-SHA-512")


def test_librdkafka_sets_and_removes_credentials(cluster: BrokerCluster) -> None:
    client = admin(cluster)
    sha_256 = ScramMechanism.SCRAM_SHA_256
    info = ScramCredentialInfo(sha_256, 4096)

    def alter(change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> str:
        return error_of(client.alter_user_scram_credentials([change])["carol"])

    def told() -> str:
        return error_of(client.describe_user_scram_credentials(["carol"])["carol"])

    with judged(cluster):
        assert alter(UserScramCredentialUpsertion("carol", info, b"nobody-knows")) == "NO_ERROR"
        wait_until(lambda: told() == "NO_ERROR", told)
        (found,) = outcome(client.describe_user_scram_credentials(["carol"])["carol"]).scram_credential_infos
        assert (found.mechanism, found.iterations) == (sha_256, 4096)
        few = UserScramCredentialUpsertion("carol", ScramCredentialInfo(sha_256, 100), b"nobody-knows")
        assert alter(few) == "UNACCEPTABLE_CREDENTIAL"
        assert alter(UserScramCredentialDeletion("carol", sha_256)) == "NO_ERROR"
        assert alter(UserScramCredentialDeletion("carol", sha_256)) == "RESOURCE_NOT_FOUND"
