"""Delegation tokens by Kafka's own tool, through a broker on which clients log in (SCRAM): made, described,
logged in with, renewed by another leader's decision, and ended.

On controllers and a broker of their own, with one secret.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.brokers.clients import admin, outcome, partitions_of, wait_until
from tests.brokers.cluster import BrokerCluster, BrokerSpec
from tests.brokers.complaints import AFTER_A_FAULT, WHILE_ALL_ARE_UP, judged
from tests.brokers.conftest import CONTROLLER_SETTINGS
from tests.brokers.quorums import wait_leader
from tests.interop.peer import Kafka
from tests.process.cluster import Cluster, free_ports

TOKENS, TOPICS = "org.apache.kafka.tools.DelegationTokenCommand", "org.apache.kafka.tools.TopicCommand"
SECRET = "nobody-knows-this"
WITH_TOKENS = {"delegation.token.secret.key": SECRET}
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
USERS = ("alice", "bob", "carol")


class Token(NamedTuple):
    """What the tool says of a token."""

    token_id: str
    hmac: str
    owner: str
    requester: str
    renewers: str
    issued: str
    expires: str
    ends: str


class World:
    """The broker, its port for clients that log in, and Kafka's tools."""

    def __init__(self, kafka: Kafka, cluster: BrokerCluster, folder: Path, port: int) -> None:
        self._kafka = kafka
        self._folder = folder
        self._server = f"127.0.0.1:{port}"
        self.cluster = cluster

    def run(self, tool: str, login: str, *arguments: str) -> str:
        """Run a tool as whoever logs in so."""
        path = self._folder / "client.properties"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            f"sasl.jaas.config={LOGIN} {login};\n",
            encoding="utf-8",
        )
        return self._kafka.run(tool, "--bootstrap-server", self._server, "--command-config", path, *arguments)

    def tokens(self, user: str, *arguments: str) -> str:
        """`kafka-delegation-tokens` as a user with a password."""
        return self.run(TOKENS, password(user), *arguments)

    def described(self) -> list[Token]:
        """The tokens of alice, by name: without one the tool tells of no token at all."""
        return told(self.tokens("alice", "--describe", "--owner-principal", "User:alice"))


def password(user: str) -> str:
    return f'username="{user}" password="{user}-knows"'


def shown(token: Token) -> str:
    return f'username="{token.token_id}" password="{token.hmac}" tokenauth="true"'


def told(printed: str) -> list[Token]:
    """The tokens in what the tool printed, which has an empty line before each of its lines."""
    lines = [re.split(r"\s{2,}|\t| (?=\d{4}-)", line.strip()) for line in printed.splitlines()]
    return [Token(*_columns(line)) for line in lines if len(line) > 5 and line[0] != "TOKENID"]


def _columns(line: list[str]) -> list[str]:
    """One line; a column that is too wide is followed by one blank only."""
    words = [word for part in line for word in part.split(" ")]
    return [*words[:4], " ".join(words[4:-3]), *words[-3:]]


@pytest.fixture
def world(kafka: Kafka, tmp_path: Path) -> Iterator[World]:
    """One broker on three controllers."""
    plain, sasl = free_ports(2)
    settings = {
        **WITH_TOKENS,
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{sasl},PLAINTEXT://127.0.0.1:{plain}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{LOGIN};",
    }
    with Cluster(tmp_path / "controllers", 3, settings=CONTROLLER_SETTINGS | WITH_TOKENS) as quorum:
        wait_leader(quorum)
        specs = [BrokerSpec(11, "a")]
        with BrokerCluster(kafka, tmp_path / "brokers", quorum, specs, settings=settings) as brokers:
            brokers.wait_unfenced()
            _make_users(brokers)
            yield World(kafka, brokers, tmp_path, sasl)


def _make_users(cluster: BrokerCluster) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    for user in USERS:
        change = UserScramCredentialUpsertion(user, info, f"{user}-knows".encode())
        outcome(admin(cluster).alter_user_scram_credentials([change])[user])


def test_a_token_is_made_logged_in_with_renewed_after_a_failover_and_ended(world: World) -> None:
    cluster = world.cluster
    quorum = cluster.quorum
    with judged(cluster, *WHILE_ALL_ARE_UP, *AFTER_A_FAULT):
        made = world.tokens(
            "alice", "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
        )
        (token,) = told(made)
        assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", "[User:bob]")
        assert world.described() == [token], "the broker makes the same HMAC"

        world.run(TOPICS, shown(token), "--create", "--topic", "of-a-program", "--partitions", "2")
        assert len(partitions_of(cluster, "of-a-program")) == 2
        with pytest.raises(AssertionError, match="requests are not allowed on"):
            world.run(TOKENS, shown(token), "--create", "--max-life-time-period", "-1")

        wait_leader(quorum).kill()
        wait_leader(quorum)
        hmac = ("--hmac", token.hmac)
        with pytest.raises(AssertionError, match="DelegationTokenOwnerMismatchException"):
            world.tokens("carol", "--renew", "--renew-time-period", "-1", *hmac)
        renewed = world.tokens("bob", "--renew", "--renew-time-period", "60000", *hmac)
        assert "Completed renew operation" in renewed
        (now,) = world.described()
        assert now.expires < token.expires, "a minute is less than a day"
        assert now == token._replace(expires=now.expires)

        assert "Completed expire" in world.tokens("alice", "--expire", "--expiry-time-period", "-1", *hmac)
        with pytest.raises(AssertionError, match="DelegationTokenNotFoundException"):
            world.tokens("alice", "--renew", "--renew-time-period", "-1", *hmac)
        wait_until(lambda: world.described() == [], lambda: "the broker knows that it ended")
        with pytest.raises(AssertionError, match="invalid credentials with SASL mechanism"):
            world.run(TOPICS, shown(token), "--list")
    for controller in quorum:
        said = controller.last_lines(100_000)
        assert SECRET not in said
        assert token.hmac not in said
