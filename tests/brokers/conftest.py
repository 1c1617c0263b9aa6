"""One quorum and three brokers for all tests of a run; `--controllers kafka` puts them on Kafka's own.

A test gets them whole (`cluster`): what an earlier one ended is started again, and is waited for. All of this
is slow, and needs Java and Maven as `make interop` does: `make brokers` runs it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers.cluster import BrokerCluster
from tests.brokers.quorums import KafkaQuorum, Quorum, wait_leader
from tests.interop.peer import RELEASE, Kafka, kafka_of
from tests.process.cluster import Cluster

HERE = Path(__file__).parent

CONTROLLER_SETTINGS = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "1000"}
"""A session that ends soon, and is still long beside the pauses of a machine that is full."""

WIDTH = 200
"""How much of each line is shown when a test fails; the whole is in the files."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.process)


@pytest.fixture(scope="session")
def kafka() -> Kafka:
    """The release whose bytes we write."""
    return kafka_of(RELEASE)


@pytest.fixture(scope="session")
def quorum(
    kafka: Kafka, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Quorum]:
    """Three controllers, one of which leads."""
    folder = tmp_path_factory.mktemp("quorum") / "controllers"
    made: Quorum
    if request.config.getoption("--controllers") == "kafka":
        made = KafkaQuorum(kafka, folder, settings=CONTROLLER_SETTINGS)
    else:
        made = Cluster(folder, 3, settings=CONTROLLER_SETTINGS)
    try:
        wait_leader(made)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session")
def brokers(
    kafka: Kafka, quorum: Quorum, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerCluster]:
    """Three brokers on it; a test takes `cluster`."""
    with BrokerCluster(kafka, tmp_path_factory.mktemp("brokers") / "brokers", quorum) as cluster:
        cluster.wait_unfenced()
        yield cluster


@pytest.fixture
def cluster(brokers: BrokerCluster) -> BrokerCluster:
    """Brokers and controllers, all of them up."""
    for node in [*brokers.quorum, *brokers]:
        if node.is_running:
            node.resume()
        else:
            node.start()
    wait_leader(brokers.quorum)
    brokers.wait_unfenced()
    return brokers


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that fails shows what brokers and controllers said last."""
    report = yield
    brokers = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(brokers, BrokerCluster):
        for node in [*brokers.quorum, *brokers]:
            lines = [line[:WIDTH] for line in node.last_lines(8).splitlines()]
            report.sections.append((f"{node.node_id} said last", "\n".join(lines)))
    return report
