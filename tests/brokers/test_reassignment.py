"""Replicas are moved between real brokers by Kafka's own tool, and no value is lost on the way."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.brokers.clients import (
    WAIT_S,
    create_topic,
    partitions_of,
    produce,
    producer,
    read_all,
    wait_isr,
    wait_until,
)
from tests.brokers.cluster import BrokerCluster
from tests.brokers.complaints import WHILE_ALL_ARE_UP, judged
from tests.interop.peer import Kafka

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
MOVED = "Reassignment of partition {}-{} is completed."
UNDER_WAY = "Reassignment of partition {}-{} is still in progress."


def plan_file(path: Path, topic: str, replicas: Mapping[int, Sequence[int]]) -> Path:
    """What the tool shall do, in its own format."""
    partitions = [{"topic": topic, "partition": each, "replicas": to} for each, to in replicas.items()]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}), encoding="utf-8")
    return path


def tool(kafka: Kafka, cluster: BrokerCluster, *arguments: str | Path) -> str:
    """What the tool says."""
    return kafka.run(REASSIGN, "--bootstrap-server", cluster.bootstrap, *arguments)


def test_replicas_are_moved_under_a_producer(kafka: Kafka, cluster: BrokerCluster, tmp_path: Path) -> None:
    create_topic(cluster, "moved", assignment=[[11, 12], [12, 11], [11, 12], [12, 11]])
    before = [f"before {number}" for number in range(2_000)]
    produce(cluster, "moved", before)
    wanted = {0: [13, 11], 1: [12, 13], 2: [13, 12], 3: [13, 11, 12]}
    file = plan_file(tmp_path / "plan.json", "moved", wanted)
    meanwhile: list[str] = []
    sender = producer(cluster, enable_idempotence=True)
    acknowledged: list[object] = []

    def is_done() -> bool:
        for _ in range(100):
            meanwhile.append(f"meanwhile {len(meanwhile)}")
            sender.produce("moved", meanwhile[-1].encode(), on_delivery=lambda e, _: acknowledged.append(e))
        said = tool(kafka, cluster, "--reassignment-json-file", file, "--verify")
        return all(MOVED.format("moved", number) in said for number in wanted)

    with judged(cluster, *WHILE_ALL_ARE_UP):
        said = tool(kafka, cluster, "--reassignment-json-file", file, "--execute")
        assert "Successfully started partition reassignments for moved-0,moved-1,moved-2,moved-3" in said
        wait_until(is_done, lambda: f"moved: {partitions_of(cluster, 'moved')}")
        assert sender.flush(WAIT_S) == 0
        assert acknowledged == [None] * len(meanwhile)
        found = partitions_of(cluster, "moved")
        assert {number: each.replicas for number, each in found.items()} == wanted
        assert all(sorted(each.isr) == sorted(each.replicas) for each in found.values())
        assert all(each.leader in each.replicas for each in found.values())
        assert sorted(read_all(cluster, "moved")) == sorted([*before, *meanwhile])


def test_a_move_that_takes_long_is_listed_and_called_off(
    kafka: Kafka, cluster: BrokerCluster, tmp_path: Path
) -> None:
    """It is throttled to less than what one fetch brings."""
    create_topic(cluster, "slow", assignment=[[11, 12]])
    values = [f"{number}".ljust(100_000, ".") for number in range(60)]
    produce(cluster, "slow", values)
    file = plan_file(tmp_path / "plan.json", "slow", {0: [13, 11]})
    with judged(cluster, *WHILE_ALL_ARE_UP):
        tool(kafka, cluster, "--reassignment-json-file", file, "--execute", "--throttle", "1000")
        said = tool(kafka, cluster, "--reassignment-json-file", file, "--verify")
        assert UNDER_WAY.format("slow", 0) in said
        assert "slow-0: replicas: 13,11,12. adding: 13. removing: 12." in tool(kafka, cluster, "--list")
        said = tool(kafka, cluster, "--reassignment-json-file", file, "--cancel")
        assert "Successfully cancelled partition reassignment for: slow-0" in said
        assert "No partition reassignments found." in tool(kafka, cluster, "--list")
        wait_isr(cluster, "slow", 2)
        assert partitions_of(cluster, "slow")[0].replicas == [11, 12]
        assert sorted(read_all(cluster, "slow")) == sorted(values)
