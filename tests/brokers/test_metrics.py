"""What a controller counts of elections, with real brokers and Kafka's own tool: each kind once."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.brokers.clients import create_topic, wait_until
from tests.brokers.cluster import STARTED, BrokerCluster, BrokerSpec
from tests.brokers.conftest import CONTROLLER_SETTINGS
from tests.brokers.quorums import wait_leader
from tests.interop.peer import Kafka
from tests.process.cluster import Cluster

ELECTIONS = "kraftd_leader_elections_total"
UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections_total"
OFFLINE = "kafka_controller_kafkacontroller_offlinepartitionscount"


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Cluster]:
    """One controller, with its pages."""
    with Cluster(tmp_path / "controller", 1, settings=CONTROLLER_SETTINGS, http=True) as quorum:
        wait_leader(quorum)
        yield quorum


@pytest.fixture
def cluster(kafka: Kafka, tmp_path: Path, quorum: Cluster) -> Iterator[BrokerCluster]:
    """Two brokers on it."""
    specs = [BrokerSpec(11, "a"), BrokerSpec(12, "b")]
    with BrokerCluster(kafka, tmp_path / "brokers", quorum, specs) as brokers:
        brokers.wait_unfenced()
        yield brokers


def test_elections_are_counted_by_kind_and_reason(
    kafka: Kafka, quorum: Cluster, cluster: BrokerCluster
) -> None:
    (controller,) = quorum

    def told() -> dict[tuple[str, ...], float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{controller.http_port}/metrics", timeout=30) as page:
            families = list(text_string_to_metric_families(page.read().decode()))
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }

    def elections() -> dict[tuple[str, ...], float]:
        return {name[1:]: value for name, value in told().items() if name[0] == ELECTIONS and value}

    create_topic(cluster, "counted", assignment=[[11, 12]])
    assert elections() == {}
    seen: set[tuple[str, ...]] = set()
    for broker_id, election in ((11, ("in_sync", "leader_left")), (12, ("none", "leader_left"))):
        cluster[broker_id].kill()
        seen.add(election)
        wait_until(lambda: set(elections()) == seen, lambda: f"{elections()}, not {seen}")
    offline = told()[OFFLINE,]
    assert offline >= 1

    cluster[11].start()
    cluster[11].wait_for(STARTED, since=cluster[11].began)
    assert set(elections()) == seen, "11 lacks what 12 may have written alone"
    at = ("--bootstrap-server", f"127.0.0.1:{cluster[11].port}", "--election-type", "unclean")
    kafka.run("org.apache.kafka.tools.LeaderElectionCommand", *at, "--topic", "counted", "--partition", "0")
    wait_until(lambda: ("unclean", "no_leader") in elections(), lambda: f"unclean in {elections()}")
    assert elections()[("unclean", "no_leader")] == told()[UNCLEAN,] == 1
    assert told()[OFFLINE,] == offline - 1
