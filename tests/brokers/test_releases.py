"""Brokers of older releases on a cluster that was formatted for them, and their change to the newest one by
one: nothing acknowledged is lost. Then the cluster's features are raised. On a quorum and brokers of its own.

`--releases` says which: 4.1.1 alone unless told otherwise, whose jars `test_refusals` needs too; `all` for
one of each line since 3.9. Each takes half a minute, and before its first run 100 jars (60 MB).
"""

from pathlib import Path

import pytest

from kraftd.metadata.feature_levels import METADATA_VERSION, NEW_CLUSTER_LEVELS, metadata_version_name
from kraftd.metadata.new_cluster import new_cluster_levels
from tests.brokers.clients import consume, consumer, create_topic, produce, read_all, wait_isr, wait_until
from tests.brokers.cluster import BROKERS, STARTED, BrokerCluster
from tests.brokers.conftest import CONTROLLER_SETTINGS
from tests.brokers.load import producing
from tests.brokers.quorums import wait_leader
from tests.interop.peer import Kafka, kafka_of
from tests.process.cluster import Cluster

RELEASES = ("3.9.1", "4.0.2", "4.1.1", "4.2.0")
FEATURES = "org.apache.kafka.tools.FeatureCommand"
NEWEST = NEW_CLUSTER_LEVELS[METADATA_VERSION]
TEN = [f"value {number}" for number in range(10)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = metafunc.config.getoption("--releases")
    metafunc.parametrize("release", RELEASES if chosen == "all" else chosen.split(","))


def test_brokers_of_a_release_and_their_change_to_the_newest(
    kafka: Kafka, release: str, tmp_path: Path
) -> None:
    levels = new_cluster_levels({}, release)
    with Cluster(tmp_path / "quorum", settings=CONTROLLER_SETTINGS, features=levels) as quorum:
        wait_leader(quorum)
        with BrokerCluster(kafka_of(release), tmp_path / "brokers", quorum, BROKERS[1:]) as cluster:
            cluster.wait_unfenced()
            create_topic(cluster, "words", replicas=2)
            produce(cluster, "words", TEN)
            reader = consumer(cluster, "readers")
            assert sorted(consume(reader, ["words"], 10)) == sorted(TEN)
            reader.close()
            create_topic(cluster, "load", replicas=2)
            with producing(cluster, "load"):
                for broker in cluster:
                    broker.stop()
                    broker.kafka = kafka
                    broker.start()
                    broker.wait_for(STARTED, since=broker.began)
                    wait_isr(cluster, "load", 2)
            create_topic(cluster, "after", replicas=2)
            produce(cluster, "after", TEN)
            assert sorted(read_all(cluster, "after")) == sorted(TEN)
            assert sorted(read_all(cluster, "words")) == sorted(TEN)
            raise_features(kafka, cluster)
            create_topic(cluster, "newest", replicas=2)
            produce(cluster, "newest", TEN)
            assert sorted(read_all(cluster, "newest")) == sorted(TEN)
        assert not any(node.count("broker_refused") + node.count("unserved_api") for node in quorum)


def raise_features(kafka: Kafka, cluster: BrokerCluster) -> None:
    """Let the cluster run at the newest levels, which its brokers and controllers support by now."""

    def features(*what: str) -> str:
        return kafka.run(FEATURES, "--bootstrap-server", cluster.bootstrap, *what)

    levels = [f"metadata.version={NEWEST}", "eligible.leader.replicas.version=1", "transaction.version=2"]
    upgrade = ("upgrade", *(word for each in levels for word in ("--feature", each)))
    name = f"FinalizedVersionLevel: {metadata_version_name(NEWEST)}"
    with pytest.raises(AssertionError, match="raise the other features by their names"):
        features("upgrade", "--release-version", "4.3")
    assert f"metadata.version can be upgraded to {NEWEST}" in features(*upgrade, "--dry-run")
    assert name not in features("describe")
    features(*upgrade)
    wait_until(lambda: name in features("describe"), lambda: features("describe"))
