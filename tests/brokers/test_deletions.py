"""What the controllers say of deleted data is what lies in the brokers' own directories."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.clients import create_topic, produce, read_all, wait_isr, wait_until
from tests.brokers.cluster import STARTED, BrokerCluster
from tests.brokers.kraftctl import kraftctl
from tests.process.cluster import Cluster

TOPIC, MOVED = "removed", "shifted"
SUCCESSFUL, INELIGIBLE = "ReplicaDeletionSuccessful", "ReplicaDeletionIneligible"


def lying(cluster: BrokerCluster, broker_id: int, topic: str = TOPIC) -> set[str]:
    """What is left of a topic in a broker's directories: `plain`, `delete` and `stray`."""
    names = [path.name for each in cluster.directories(broker_id) for path in each.glob(f"{topic}-*")]
    endings = [name.rpartition("-")[2] for name in names]
    return {ending if ending in ("delete", "stray") else "plain" for ending in endings}


def told(quorum: Cluster, topic: str = TOPIC) -> dict[int, dict[str, Any]]:
    """By broker, what the active controller says of what was taken away of a topic."""
    data = json.loads(kraftctl(quorum, "topics", "deletions", "--all", "-o", "json"))
    return {row["broker_id"]: row for row in data["removals"] if row["topic"] == topic}


def states(quorum: Cluster, topic: str = TOPIC) -> dict[int, str]:
    return {broker_id: row["state"] for broker_id, row in told(quorum, topic).items()}


def test_deleted_data_is_followed_on_live_paused_and_dead_brokers(cluster: BrokerCluster) -> None:
    """Broker 12 is killed, 13 is paused; 11 deletes at once, 13 when it goes on, 12 never."""
    quorum = cluster.quorum
    if not isinstance(quorum, Cluster):
        pytest.skip("Kafka's controllers do not tell")
    create_topic(cluster, TOPIC, partitions=3)
    produce(cluster, TOPIC, [f"{number}" for number in range(300)])
    wait_isr(cluster, TOPIC, 3)
    cluster[12].kill()
    cluster[13].pause()
    kraftctl(quorum, "topics", "delete", TOPIC)
    wait_states(quorum, {11: SUCCESSFUL, 12: INELIGIBLE, 13: INELIGIBLE})
    assert lying(cluster, 11) <= {"delete"}
    assert lying(cluster, 12) == lying(cluster, 13) == {"plain"}
    assert all(row["partitions"] == [0, 1, 2] and row["heard"] for row in told(quorum).values())

    for broker_id in (12, 13):
        pending = json.loads(kraftctl(quorum, "brokers", "pending", broker_id, "-o", "json"))
        (row,) = [each for each in pending["topics"] if each["topic"] == TOPIC]
        assert (row["change"], pending["is_complete"]) == ("deleted", True)

    cluster[13].resume()
    wait_states(quorum, {11: SUCCESSFUL, 12: INELIGIBLE, 13: SUCCESSFUL})
    assert lying(cluster, 13) <= {"delete"}

    broker = cluster[12].start()
    broker.wait_for(STARTED, since=broker.began)
    wait_states(quorum, {11: SUCCESSFUL, 12: SUCCESSFUL, 13: SUCCESSFUL})
    assert lying(cluster, 12) == {"stray"}
    assert {broker_id: row["set_aside"] for broker_id, row in told(quorum).items()} == {
        11: False,
        12: True,
        13: False,
    }
    broker.stop()
    for directory in cluster.directories(12):
        for path in directory.glob(f"{TOPIC}-*-stray"):
            shutil.rmtree(path)


def wait_states(quorum: Cluster, expected: dict[int, str], topic: str = TOPIC) -> None:
    """Wait until the controllers say so."""
    wait_until(lambda: states(quorum, topic) == expected, lambda: f"{states(quorum, topic)}")


def test_a_replica_that_is_moved_away_and_back_is_followed(cluster: BrokerCluster, tmp_path: Path) -> None:
    """It is moved away while its broker is down, and back before that has read so: nothing is deleted."""
    quorum = cluster.quorum
    if not isinstance(quorum, Cluster):
        pytest.skip("Kafka's controllers do not tell")
    create_topic(cluster, MOVED, assignment=[[11, 12]])
    values = [f"{number}" for number in range(300)]
    produce(cluster, MOVED, values)
    cluster[12].kill()
    wait_isr(cluster, MOVED, 1)
    move(quorum, tmp_path, [11, 13])
    wait_states(quorum, {12: INELIGIBLE}, MOVED)
    assert lying(cluster, 12, MOVED) == {"plain"}
    assert told(quorum, MOVED)[12]["reason"] == "reassigned"
    move(quorum, tmp_path, [11, 12])
    wait_states(quorum, {12: "OfflineReplica"}, MOVED)
    cluster[12].start()
    wait_states(quorum, {12: "OfflineReplica", 13: SUCCESSFUL}, MOVED)
    assert lying(cluster, 13, MOVED) <= {"delete"}
    assert "plain" in lying(cluster, 12, MOVED)
    assert sorted(read_all(cluster, MOVED)) == sorted(values)


def move(quorum: Cluster, folder: Path, replicas: list[int]) -> None:
    """Begin to move the topic's partition."""
    plan = folder / f"to-{'-'.join(map(str, replicas))}.json"
    partition = {"topic": MOVED, "partition": 0, "replicas": replicas}
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}), encoding="utf-8")
    kraftctl(quorum, "reassign", "execute", "--file", plan)
