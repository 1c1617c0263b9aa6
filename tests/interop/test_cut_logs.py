"""Logs that begin above offset 0, with the snapshots of what was before, go from Kafka to kraftd and back."""

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

CLUSTER_ID = "Fbt6Zp0VQy2SuNdQ0y0U9g"
CUTTING = OFTEN | {"metadata.max.retention.bytes": "9000", "metadata.max.idle.interval.ms": "50"}
"""Kafka cleans once a minute: by then there is something to clean, whatever is written."""


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
