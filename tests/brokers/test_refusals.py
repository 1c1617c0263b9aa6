"""Brokers that do not belong here: one line on our side says who and why, and nobody else is disturbed.

What the broker says itself is Kafka's. Each of them gives up early here, which it does after a minute else.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.clients import create_topic, produce
from tests.brokers.cluster import BrokerCluster, BrokerSpec, format_for_broker
from tests.brokers.kafka_process import KafkaProcess
from tests.brokers.kraftctl import kraftctl
from tests.brokers.quorums import Quorum, wait_leader
from tests.interop.peer import Kafka, kafka_of
from tests.process.cluster import Cluster, Event, Node

STRANGER = BrokerSpec(14, "a")
GIVES_UP = {"initial.broker.registration.timeout.ms": "15000"}
OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture
def leader(quorum: Quorum) -> Node:
    """The active controller, whose log lines are looked at."""
    if not isinstance(quorum, Cluster):
        pytest.skip("what Kafka's controllers say of these is Kafka's")
    found = wait_leader(quorum)
    assert isinstance(found, Node)
    return found


def stranger(
    kafka: Kafka, folder: Path, quorum: Quorum, spec: BrokerSpec = STRANGER, **settings: str
) -> BrokerCluster:
    """A broker that is ready to start; keys of `settings` have `_` for `.`."""
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    return BrokerCluster(kafka, folder / "stranger", quorum, [spec], settings=GIVES_UP | dotted, start=False)


def bootstrap(broker: KafkaProcess, quorum: Quorum) -> KafkaProcess:
    """Let a broker have `controller.quorum.bootstrap.servers` in place of `controller.quorum.voters`."""
    servers = ",".join(f"127.0.0.1:{controller.port}" for controller in quorum)
    named = {**broker.properties, "controller.quorum.bootstrap.servers": servers}
    del named["controller.quorum.voters"]
    broker.configure(named)
    return broker


def refusal(leader: Node, broker: KafkaProcess, since: int, **fields: object) -> Event:
    """The line that says so, which comes before the broker ends."""
    line = leader.wait_for(
        "broker_refused",
        since=since,
        timeout_s=120,
        where=lambda line: line["broker"] == broker.node_id,
    )
    assert {name: line[name] for name in fields} == fields
    assert line["host"] == "127.0.0.1"
    assert broker.wait_exit() != 0
    return line


def test_a_broker_of_another_cluster(kafka: Kafka, leader: Node, quorum: Quorum, tmp_path: Path) -> None:
    with stranger(kafka, tmp_path, quorum) as brokers:
        broker, since = brokers[14], leader.mark()
        (directory,) = brokers.directories(14)
        (directory / "meta.properties").unlink()
        format_for_broker(directory, OTHER_CLUSTER, 14)
        broker.start()
        line = leader.wait_for("fetch_refused", since=since, timeout_s=120)
        assert "another cluster" in line["reason"]
        assert broker.wait_exit() != 0


def test_a_broker_with_the_directory_of_another(
    kafka: Kafka, leader: Node, cluster: BrokerCluster, tmp_path: Path
) -> None:
    with stranger(kafka, tmp_path, cluster.quorum) as brokers:
        broker, since = brokers[14], leader.mark()
        (theirs,), (ours,) = cluster.directories(11), brokers.directories(14)
        text = (theirs / "meta.properties").read_text()
        (ours / "meta.properties").write_text(text.replace("node.id=11", "node.id=14"))
        broker.start()
        line = refusal(leader, broker, since, error="INVALID_REGISTRATION")
        assert "11" in line["reason"]
    assert all(each.is_running for each in cluster)


def test_a_second_broker_of_one_id(
    kafka: Kafka, leader: Node, cluster: BrokerCluster, tmp_path: Path
) -> None:
    """It finds its id among the replicas, and tells in which directory of its own it has made their logs."""
    assert isinstance(cluster.quorum, Cluster)
    create_topic(cluster, "alone", assignment=[[12]] * 2)
    create_topic(cluster, "shared", assignment=[[12, 11]] * 2)
    before = partitions(cluster.quorum)
    with stranger(kafka, tmp_path, cluster.quorum, BrokerSpec(12, "z")) as brokers:
        since = leader.mark()
        broker = brokers[12].start()
        line = leader.wait_for("assignment_refused", since=since, timeout_s=120)
        assert (line["broker"], line["host"]) == (12, "127.0.0.1")
        assert "another process has its node.id" in line["reason"]
        refusal(leader, broker, since, error="DUPLICATE_BROKER_REGISTRATION")
    assert cluster[12].is_running
    assert partitions(cluster.quorum) == before, (
        "none has moved or changed meanwhile, not even back and forth"
    )
    produce(cluster, "alone", ["one"])


def partitions(quorum: Cluster) -> dict[str, Any]:
    """All that the controllers know of the two topics, epochs too."""
    names = ("alone", "shared")
    return {name: json.loads(kraftctl(quorum, "topics", "describe", name, "-o", "json")) for name in names}


def test_a_broker_that_knows_no_address_of_the_active_controller(
    kafka: Kafka, leader: Node, quorum: Quorum, tmp_path: Path
) -> None:
    """It follows, and would for ever, or until it gives up without a word about it."""
    with stranger(kafka, tmp_path, quorum, initial_broker_registration_timeout_ms="45000") as brokers:
        broker, since = brokers[14], leader.mark()
        bootstrap(broker, quorum).start()
        line = leader.wait_for("broker_not_registering", since=since, timeout_s=120)
        assert line["broker"] == 14
        assert "a broker needs controller.quorum.voters" in line["reason"]
        assert broker.wait_exit() != 0


def test_a_broker_under_the_id_of_a_controller(
    kafka: Kafka, leader: Node, quorum: Quorum, tmp_path: Path
) -> None:
    """With `controller.quorum.voters`, or the leader's id, a broker sees by itself that this is wrong."""
    spec = BrokerSpec(next(each.node_id for each in quorum if each is not leader), "a")
    with stranger(kafka, tmp_path, quorum, spec) as brokers:
        broker, since = brokers[spec.node_id], leader.mark()
        bootstrap(broker, quorum).start()
        line = leader.wait_for("fetch_refused", since=since, timeout_s=120)
        assert line["broker"] == spec.node_id
        assert "give the broker another one" in line["reason"]
        assert broker.wait_exit() != 0


def test_a_broker_of_an_older_release(tmp_path: Path) -> None:
    """On a quorum of its own: once a broker of 4.3 is registered, one of 4.1 cannot read that record, and
    mostly ends by that, before it has asked to be registered.
    """
    with (
        Cluster(tmp_path / "quorum") as quorum,
        stranger(kafka_of("4.1.1"), tmp_path, quorum) as brokers,
    ):
        leader, broker = quorum.wait_leader(), brokers[14]
        since = leader.mark()
        broker.start()
        line = refusal(leader, broker, since, error="UNSUPPORTED_VERSION")
        assert "metadata.version 4.3" in line["reason"]
