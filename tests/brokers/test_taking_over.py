"""Kafka's controllers are replaced by kraftd's under running brokers, and come back: nothing acknowledged is
lost, and no broker notices more than a pause.

On a quorum and brokers of its own, which Kafka's controllers have begun: whatever `--controllers` says.
"""

import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.brokers.clients import create_topic, partitions_of, produce, read_all, wait_isr, wait_until
from tests.brokers.cluster import BrokerCluster
from tests.brokers.conftest import CONTROLLER_SETTINGS
from tests.brokers.load import altering, longest_pause, producing
from tests.brokers.quorums import KafkaQuorum, Quorum, Successors, high_watermark, wait_leader
from tests.interop.ledger import Ledger
from tests.interop.peer import HERE, Kafka
from tests.interop.test_cut_logs import CUTTING, start_of

TOPICS = ["under-kafka", "under-kraftd", "under-kafka-again"]


@pytest.fixture(params=[False, True], ids=["whole log", "cut log"])
def is_cut(request: pytest.FixtureRequest) -> bool:
    """Whether the log begins above offset 0 when kraftd takes over."""
    found: bool = request.param
    return found


@pytest.fixture
def kafkas(kafka: Kafka, tmp_path: Path, is_cut: bool) -> Iterator[KafkaQuorum]:
    """Kafka's controllers, formatted by Kafka."""
    settings = CONTROLLER_SETTINGS | (CUTTING if is_cut else {})
    quorum = KafkaQuorum(kafka, tmp_path / "controllers", settings=settings)
    try:
        wait_leader(quorum)
        yield quorum
    finally:
        quorum.close()


def stop(quorum: Quorum, ledger: Ledger) -> float:
    """Stop all controllers at once, and see what they leave; when they were told to."""
    end_offset = high_watermark(quorum)
    began = time.monotonic()
    for node in quorum:
        node.signal(signal.SIGTERM)
    for node in quorum:
        node.wait_exit()
    ledger.compare(end_offset)
    return began


@pytest.mark.covers("D-05")
def test_brokers_stay_up_while_kraftd_takes_over_from_kafka_and_hands_back(
    kafka: Kafka, kafkas: KafkaQuorum, tmp_path: Path, is_cut: bool
) -> None:
    ledger = Ledger(kafkas.directories)
    with BrokerCluster(kafka, tmp_path / "brokers", kafkas) as cluster:
        cluster.wait_unfenced()
        create_topic(cluster, "load")
        create_topic(cluster, "under-kafka", config={"retention.ms": "3600000"})
        produce(cluster, "under-kafka", TOPICS)
        if is_cut:
            starts = partial(map, start_of, kafkas.directories.values())
            wait_until(lambda: all(starts()), lambda: f"the logs begin at {[*starts()]}", 120)
        with (
            producing(cluster, "load") as steady,
            altering(cluster, "load", patience_s=120, repeats=True) as succeeded,
        ):
            began = stop(kafkas, ledger)
            steady.wait_more(100)
            with Successors(kafkas) as ours:
                wait_leader(ours)
                tell("to kraftd", succeeded, began)
                create_topic(cluster, "under-kraftd")
                steady.wait_more(100)
                began = stop(ours, ledger)
            steady.wait_more(100)
            for node in kafkas:
                node.start()
            wait_leader(kafkas)
            tell("to Kafka", succeeded, began)
            create_topic(cluster, "under-kafka-again")
        for topic in TOPICS:
            wait_isr(cluster, topic, 3)
            assert len(partitions_of(cluster, topic)) == 3
        assert sorted(read_all(cluster, "under-kafka")) == sorted(TOPICS)
        assert all(broker.is_running for broker in cluster)
        stop(kafkas, ledger)
    if is_cut:
        assert all(map(start_of, kafkas.directories.values()))
        return
    dumped = kafka.dump(segments_of(kafkas.directories[1]))
    assert dumped.count('"type":"REGISTER_BROKER_RECORD"') == 3, "no broker registered again"
    assert '"fenced":-1' in dumped and '"fenced":1' not in dumped, "each was unfenced, and never fenced"
    assert names_in_shell(kafka, kafkas.directories[1]) >= {"load", *TOPICS}


def segments_of(directory: Path) -> list[Path]:
    return sorted((directory / "__cluster_metadata-0").glob("*.log"))


def names_in_shell(kafka: Kafka, directory: Path) -> set[str]:
    """The topics that Kafka's shell finds in a log."""
    (segment,) = segments_of(directory)
    return set(kafka.run(HERE / "Shell.java", segment, "ls", "/image/topics/byName").split())


def tell(what: str, succeeded: list[float], began: float) -> None:
    """Print how long an admin client waited, once it waits no more."""
    there = time.monotonic()
    wait_until(lambda: succeeded[-1] > there, lambda: "a change at the new controllers", 120)
    print(f"{what}: no change by an admin client succeeded for {longest_pause(succeeded, began):.1f} s")
