"""What kraftd writes, looked at with Kafka's own tools; kraftd's tools say the same of the same files.

At the end Kafka's controllers go on with it.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fixtures import klog

from kraftd.records.batch import encode_batch, encode_control_batch
from kraftd.records.control import encode_control
from kraftd.records.frame import encode_record
from kraftd.records.messages import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    LeaderChangeMessage,
    NoOpRecord,
)
from kraftd.storage import NodeDirectory, OsFileSystem
from kraftd.types import Election, HealthKind
from tests.interop.controllers import WAIT_S, Controllers
from tests.interop.ledger import Ledger, records_of
from tests.interop.peer import Kafka
from tests.interop.test_both_ways import Nodes
from tests.interop.test_dumps import printed
from tests.process.cluster import Cluster, Node

SMALL_SEGMENTS = {"metadata.log.segment.bytes": "30000", "metadata.log.segment.min.bytes": "10000"}
OPEN_TRANSACTION = 5
"""Where the log that the daemons begin with leaves a transaction open."""
LAST_INTERVAL = "5002"
ABORTED = {"log.retention.ms": "1"}
"""What was set in it; the first leader aborts it."""


class Begun(Cluster):
    """Three daemons whose log has begun in epoch 1, with one transaction ended and one left open."""

    def format(self, node: Node, *, cluster_id: str | None = None) -> None:
        """And what the leader of epoch 1 wrote before it went."""
        super().format(node, cluster_id=cluster_id)
        directory = NodeDirectory.open(
            OsFileSystem(), node.directory, node_id=node.node_id, random_uuid=lambda: os.urandom(16)
        )
        level = FeatureLevelRecord("metadata.version", 30)
        ((name, value),) = ABORTED.items()
        config = ConfigRecord(4, "", name, value)
        appends = (
            [BeginTransactionRecord(name="first"), level, EndTransactionRecord()],
            [BeginTransactionRecord(name="second"), config],
        )
        change = encode_control(LeaderChangeMessage(leader_id=1))
        batches = [encode_control_batch(0, 1, 1_700_000_000_000, [change])]
        end_offset = 1
        for records in appends:
            values = [encode_record(record) for record in records]
            batches.append(encode_batch(end_offset, 1, 1_700_000_000_000, values))
            end_offset += len(values)
        directory.write_election(Election(1, 1))
        directory.remember_state_health(HealthKind.WHOLE)
        directory.log.append(batches, 0, end_offset)
        directory.close()


def kraftctl(*arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kraftd.cli.main", *arguments], capture_output=True, text=True, check=False
    )
    assert not done.stderr
    return done.stdout


def wait_no_op(cluster: Cluster) -> None:
    """Wait until the leader writes because it is idle: on a quick machine none was for long enough."""
    leader = cluster.wait_leader(timeout_s=WAIT_S)
    cluster.commit("log.flush.interval.ms", LAST_INTERVAL, timeout_s=WAIT_S)
    no_op = encode_record(NoOpRecord())
    deadline = time.monotonic() + WAIT_S
    while not any(each.value == no_op for each in records_of(leader.directory).values()):
        assert time.monotonic() < deadline, leader.last_lines()
        time.sleep(0.1)


def wait_snapshots(cluster: Cluster) -> None:
    """Wait until every node has the snapshot that is due: the records of epoch 1 are years old."""
    deadline = time.monotonic() + WAIT_S
    while not all(any(node.directory.glob("*/*.checkpoint")) for node in cluster):
        assert time.monotonic() < deadline, [node.last_lines() for node in cluster]
        time.sleep(0.01)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The directories of three daemons: four epochs and more, small segments, transactions, a snapshot."""
    folder = tmp_path_factory.mktemp("kraftd")
    with Begun(folder, 3, settings=SMALL_SEGMENTS) as cluster:
        for round_number in range(3):
            leader = cluster.wait_leader(timeout_s=WAIT_S)
            for number in range(40):
                value = f"{number:03}".ljust(900, "é")
                cluster.commit("ssl.cipher.suites", value, broker=str(number % 4), timeout_s=WAIT_S)
            cluster.commit("log.flush.interval.ms", f"{5_000 + round_number}", timeout_s=WAIT_S)
            if round_number:
                leader.kill()
                cluster.wait_leader(but=leader, timeout_s=WAIT_S)
                leader.start()
            else:
                with leader.client() as client:
                    assert client.resign(timeout_ms=20_000).error_code == 0
        wait_no_op(cluster)
        wait_snapshots(cluster)
        cluster.wait_caught_up(timeout_s=WAIT_S)
        for node in cluster:
            node.stop()
        return [node.directory for node in cluster]


@pytest.mark.process
@pytest.mark.timeout(1200)
def test_kafka_prints_what_kraftd_wrote_without_a_complaint(kafka: Kafka, written: list[Path]) -> None:
    """Ours prints the same text: offsets, epochs, positions, checksums, every field of every record."""
    for directory in written:
        segments = sorted(directory.rglob("*.log"))
        assert len(segments) >= 3
        theirs = kafka.dump(segments)
        assert kraftctl("log", "dump", "--show-secrets", *segments) == theirs
        lines = theirs.splitlines()
        batches = [line for line in lines if line.startswith("baseOffset: ")]
        assert all(line.endswith("isvalid: true") for line in batches)
        records = [record for found in printed(theirs).values() for record in found]
        assert [record.offset for record in records] == list(range(len(records)))
        assert len({line.split("partitionLeaderEpoch: ")[1].split()[0] for line in batches}) >= 4
        kinds = [record.data.get("type", record.kind) for record in records]
        assert {
            *(
                "BEGIN_TRANSACTION_RECORD",
                "END_TRANSACTION_RECORD",
                "ABORT_TRANSACTION_RECORD",
                "LeaderChange",
            ),
            *("CONFIG_RECORD", "FEATURE_LEVEL_RECORD", "NO_OP_RECORD", "REGISTER_CONTROLLER_RECORD"),
        } <= set(kinds)
        assert kinds.index("ABORT_TRANSACTION_RECORD") > OPEN_TRANSACTION


@pytest.mark.process
def test_kafka_finds_its_way_by_our_indexes(kafka: Kafka, written: list[Path]) -> None:
    indexes = [path for path in sorted(written[0].rglob("*index")) if path.stat().st_size]
    assert len(indexes) >= 4
    said = kafka.run(
        *("org.apache.kafka.tools.DumpLogSegments", "--verify-index-only"),
        *("--files", ",".join(map(str, indexes))),
    )
    assert said.splitlines() == [f"Dumping {path}" for path in indexes]


@pytest.mark.process
def test_kafka_storage_info_says_what_kraftctl_info_says(
    kafka: Kafka, written: list[Path], tmp_path: Path
) -> None:
    config = tmp_path / "node.properties"
    own, kafkas = written[1], klog("generated-kafka-4.3-dynamic-voters") / "node-1"
    for node, directory in ((2, own), (1, kafkas)):
        config.write_text(
            f"process.roles=controller\nnode.id={node}\ncontroller.quorum.voters={node}@127.0.0.1:9093\n"
            f"controller.listener.names=CONTROLLER\nlisteners=CONTROLLER://127.0.0.1:9093\nlog.dirs={directory}\n"
        )
        theirs = kafka.run("kafka.tools.StorageTool", "info", "-c", config).rstrip("\n")
        assert "Found metadata: {" in theirs
        assert "Found problem" not in theirs
        assert kraftctl("info", directory).startswith(theirs + "\n")


@pytest.mark.process
@pytest.mark.timeout(1200)
def test_kafka_goes_on_with_a_cluster_that_kraftd_began(
    kafka: Kafka, written: list[Path], tmp_path: Path
) -> None:
    """The last test here: it writes to the directories.

    What the aborted transaction set is not there for kraftd. Kafka's loader publishes it all the same if more
    records come in the same read, as at a start: a defect, see `test_fold`. Here it is not there for Kafka
    either, which shows that it begins with our snapshot, and not with the log.
    """
    directories = dict(enumerate(written, 1))
    ledger = Ledger(directories)
    ledger.compare(min(len(records_of(directory)) for directory in written))
    with Controllers(kafka, tmp_path / "kafka", directories) as controllers:
        controllers.wait_leader()
        assert controllers.configs() == {"log.flush.interval.ms": LAST_INTERVAL}
        controllers.set_configs({"message.max.bytes": "1000000"})
        _, end_offset = controllers.wait_leader()
    ledger.compare(end_offset)
    with Nodes(tmp_path / "kraftd", directories, like=controllers) as nodes:
        seen, end_offset = nodes.turn({"log.retention.ms": "3600000"})
    assert seen == {"log.flush.interval.ms": LAST_INTERVAL, "message.max.bytes": "1000000"}
    ledger.compare(end_offset)
