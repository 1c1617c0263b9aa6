"""What the controllers say of deleted data is what lies in the brokers' own directories."""

import json
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tests.brokers.clients import WAIT_S, create_topic, produce, wait_isr, wait_until
from tests.brokers.cluster import STARTED, BrokerCluster
from tests.fixtures import ROOT
from tests.process.cluster import Cluster

TOPIC = "removed"
SUCCESSFUL, INELIGIBLE = "ReplicaDeletionSuccessful", "ReplicaDeletionIneligible"


def kraftctl(quorum: Cluster, *arguments: object) -> str:
    """What the command prints, asked of the controllers alone."""
    command = [sys.executable, "-m", "kraftd.cli.main", "--bootstrap-controller", quorum.bootstrap]
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=WAIT_S, cwd=ROOT, check=True
    )
    return done.stdout


def lying(cluster: BrokerCluster, broker_id: int) -> set[str]:
    """What is left of the topic in a broker's directories: `plain`, `delete` and `stray`."""
    names = [path.name for each in cluster.directories(broker_id) for path in each.glob(f"{TOPIC}-*")]
    endings = [name.rpartition("-")[2] for name in names]
    return {ending if ending in ("delete", "stray") else "plain" for ending in endings}


def told(quorum: Cluster) -> dict[int, dict[str, Any]]:
    """By broker, what the active controller says of the topic's deletion."""
    data = json.loads(kraftctl(quorum, "topics", "deletions", "--all", "-o", "json"))
    return {row["broker_id"]: row for row in data["removals"] if row["topic"] == TOPIC}


def states(quorum: Cluster) -> dict[int, str]:
    return {broker_id: row["state"] for broker_id, row in told(quorum).items()}


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


def wait_states(quorum: Cluster, expected: dict[int, str]) -> None:
    """Wait until the controllers say so."""
    wait_until(lambda: states(quorum) == expected, lambda: f"{states(quorum)}")
