"""`kraftctl log state --from`: the log of a running quorum of Kafka, which sends a snapshot first."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.interop.controllers import BROKER, WAIT_S, Controllers
from tests.interop.peer import Kafka
from tests.interop.test_both_ways import OFTEN

CLUSTER_ID = "Fbt6Zp0VQy2SuNdQ0y0U9g"


def kraftctl(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kraftd.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def state(*arguments: object) -> Any:
    done = kraftctl("log", "state", *arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.process
@pytest.mark.timeout(600)
def test_the_log_of_kafkas_controllers_is_read_from_either_snapshot_first(
    kafka: Kafka, tmp_path: Path
) -> None:
    directories = {1: tmp_path / "data-1", 2: tmp_path / "data-2"}
    settings = OFTEN | {"metadata.max.idle.interval.ms": "50"}
    quorum = Controllers(
        kafka, tmp_path / "kafka", directories, settings=settings, broker=tmp_path / "data-b"
    )
    quorum.format(CLUSTER_ID, [1, 2, BROKER])
    with quorum:
        leader, _ = quorum.wait_leader()
        quorum.set_configs({"log.retention.ms": "1234567"})
        deadline = time.monotonic() + WAIT_S
        while not list(directories[leader].rglob("*-*.checkpoint")):
            assert time.monotonic() < deadline, "Kafka writes no snapshot"
            time.sleep(0.2)
        for node in directories:
            fetched = state("--from", f"127.0.0.1:{quorum.ports[node]}")
            assert fetched["snapshot"]["offset"] > 0
            assert fetched["known_committed_offset"] == fetched["offset"]
            assert (fetched["cluster_id"], fetched["node_id"]) == (CLUSTER_ID, leader)
            assert fetched["leader_id"] == leader
            read = state(directories[leader], "--at", fetched["offset"])
            assert (read["hash"], read["leader_epoch"]) == (fetched["hash"], fetched["epoch"])
        refused = kraftctl(
            "log", "state", "--from", f"127.0.0.1:{quorum.ports[BROKER]}", "--timeout-ms", 5_000
        )
        assert refused.returncode == 4
        assert refused.stderr.count("\n") == 1, refused.stderr
