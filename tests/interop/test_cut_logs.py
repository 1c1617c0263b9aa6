"""Logs that begin above offset 0, with the snapshots of what was before, go from Kafka to kraftd and back,
and from kraftd to Kafka and back.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from kraftd.logtools.inspection import inspect_directory
from kraftd.records import names
from kraftd.storage.filesystem import OsFileSystem
from kraftd.storage.node_directory import NodeDirectory
from tests.interop.controllers import WAIT_S, Controllers
from tests.interop.ledger import Ledger
from tests.interop.peer import Kafka
from tests.interop.test_both_ways import OFTEN, Nodes
from tests.interop.test_both_ways_dump import kraftctl
from tests.interop.test_both_ways_shell import configs_in, configs_of, shell
from tests.process.cluster import Cluster

CLUSTER_ID = "Fbt6Zp0VQy2SuNdQ0y0U9g"
CUTTING = OFTEN | {"metadata.max.retention.bytes": "9000", "metadata.max.idle.interval.ms": "50"}
"""Kafka cleans once a minute: by then there is something to clean, whatever is written."""


CLEANED = {
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "metadata.log.segment.bytes": "2000",
    "metadata.log.segment.min.bytes": "1000",
    "metadata.max.retention.bytes": "6000",
}
"""The same for a daemon, whose cleaner looks at each snapshot."""


WRITTEN_BY_KAFKA = {"min.insync.replicas": "1"}
"""Kafka's active controller sets this for a cluster with eligible leader replicas that has none."""


def start_of(directory: Path) -> int:
    """Where the first segment begins."""
    found = (names.parse_segment_name(path.name) for path in directory.rglob("*.log"))
    return min(one.base_offset for one in found if one is not None)


def look_at(directories: Mapping[int, Path]) -> None:
    """What looks at logs finds no fault in these."""
    for directory in directories.values():
        assert inspect_directory(OsFileSystem(), directory).problems == ()
        for question in ("verify", "state"):
            command = [sys.executable, "-m", "kraftd.cli.main", "log", question, str(directory)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr


def cut(directory: Path, node_id: int) -> int:
    """Let a log that kraftd wrote begin at its newest snapshot, as its cleaner does; where it begins now."""
    opened = NodeDirectory.open(
        OsFileSystem(), directory, node_id=node_id, random_uuid=lambda: os.urandom(16)
    )
    newest = opened.snapshots.newest
    assert newest is not None
    opened.cut_front(newest.id)
    opened.close()
    return newest.id.offset


@pytest.mark.process
@pytest.mark.timeout(1200)
@pytest.mark.covers("CLN-03", "CLN-08", "D-22", "D-23")
def test_a_log_that_kafka_cut_goes_on_with_kraftd_and_one_that_kraftd_cut_with_kafka(
    kafka: Kafka, tmp_path: Path
) -> None:
    directories = {node: tmp_path / f"data-{node}" for node in (1, 2)}
    ledger = Ledger(directories)
    first = Controllers(kafka, tmp_path / "kafka-1", directories, settings=CUTTING)
    first.format(CLUSTER_ID, [*directories])
    with first:
        first.wait_leader()
        first.set_configs({"log.retention.ms": "3600000"})
        deadline = time.monotonic() + WAIT_S
        while not all(map(start_of, directories.values())):
            assert time.monotonic() < deadline, "Kafka cleans nothing"
            time.sleep(0.5)
        _, end_offset = first.wait_leader()
    ledger.compare(end_offset)
    look_at(directories)

    settings = {"metadata.log.max.record.bytes.between.snapshots": "500"}
    with Nodes(tmp_path / "kraftd", directories, settings=settings) as nodes:
        found, end_offset = nodes.turn({"log.flush.interval.ms": "5000"})
    assert found["log.retention.ms"] == "3600000"
    ledger.compare(end_offset)
    before = {node: start_of(directory) for node, directory in directories.items()}
    starts = {node: cut(directory, node) for node, directory in directories.items()}
    assert all(starts[node] > before[node] for node in directories)
    look_at(directories)

    with Controllers(kafka, tmp_path / "kafka-2", directories) as second:
        second.wait_leader()
        assert second.configs() == found | {"log.flush.interval.ms": "5000"}
        second.set_configs({"log.retention.ms": "7200000"})
        _, end_offset = second.wait_leader()
    ledger.compare(end_offset)
    look_at(directories)


def newest_snapshot(directory: Path) -> Path:
    """The newest one of a node."""
    return max(path for path in directory.rglob("*-*.checkpoint") if not path.name.startswith("0" * 20))


def written_by(settings: Mapping[str, str], nodes: Cluster) -> int:
    """Set these and many more, until the cleaner of each node has cut its log; the high watermark then."""
    count = 0
    for name, value in settings.items():
        nodes.commit(name, value, timeout_s=WAIT_S)
    marks = {node.node_id: node.mark() for node in nodes}
    while not all(
        any(line["event"] == "log_cleaned" for line in node.events[marks[node.node_id] :]) for node in nodes
    ):
        nodes.commit("ssl.cipher.suites", f"{count:0200}", broker=f"{count % 5}", timeout_s=WAIT_S)
        count += 1
    nodes.wait_caught_up(timeout_s=WAIT_S)
    end_offset = nodes.wait_leader(timeout_s=WAIT_S).describe().high_watermark
    for node in nodes:
        assert node.stop() == 0
    return end_offset


def compare_with_kafka(kafka: Kafka, snapshot: Path) -> None:
    """Kafka's dump tool and its shell see in a snapshot what kraftd's do."""
    said = kafka.dump([snapshot])
    assert kraftctl("log", "dump", "--show-secrets", snapshot) == said
    batches = [line for line in said.splitlines() if line.startswith("baseOffset: ")]
    assert batches
    assert all(line.endswith("isvalid: true") for line in batches)
    tree = shell(kafka, snapshot)
    image = json.loads(kraftctl("log", "state", "-o", "json", "--show-secrets", snapshot))["image"]
    assert configs_in(tree) == configs_of(image) != {}
    assert set(tree["cluster"]["controllers"]) == set(image["controllers"]) != set()


@pytest.mark.process
@pytest.mark.timeout(1200)
@pytest.mark.covers("SNAP-09", "CLN-03", "CLN-08", "D-20", "D-22", "D-23")
def test_a_log_that_kraftds_cleaner_cut_goes_on_with_kafka_and_back(kafka: Kafka, tmp_path: Path) -> None:
    directories = {node: tmp_path / f"data-{node}" for node in (1, 2)}
    ledger = Ledger(directories)
    with Cluster(tmp_path / "kraftd-1", 2, directories=directories, settings=CLEANED) as first:
        end_offset = written_by({"log.retention.ms": "3600000"}, first)
    assert all(map(start_of, directories.values()))
    ledger.compare(end_offset)
    look_at(directories)
    snapshots = {newest_snapshot(directory) for directory in directories.values()}
    for snapshot in snapshots:
        compare_with_kafka(kafka, snapshot)

    with Controllers(kafka, tmp_path / "kafka", directories, settings=CUTTING) as theirs:
        theirs.wait_leader()
        assert theirs.configs() == {"log.retention.ms": "3600000"} | WRITTEN_BY_KAFKA
        theirs.set_configs({"log.flush.interval.ms": "5000"})
        _, end_offset = theirs.wait_leader()
    ledger.compare(end_offset)
    look_at(directories)

    before = {node: start_of(directory) for node, directory in directories.items()}
    with Nodes(tmp_path / "kraftd-2", directories, settings=CLEANED) as again:
        leader = again.wait_leader(timeout_s=WAIT_S)
        with leader.client() as client:
            found = client.get_configs()
        end_offset = written_by({"message.max.bytes": "1000000"}, again)
    assert found == {"log.retention.ms": "3600000", "log.flush.interval.ms": "5000"} | WRITTEN_BY_KAFKA
    assert all(start_of(directories[node]) > before[node] for node in directories)
    ledger.compare(end_offset)
    look_at(directories)
    compare_with_kafka(kafka, newest_snapshot(directories[1]))
