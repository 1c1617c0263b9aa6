"""A log without metadata.version, and one of dynamic voters, is for tools only: `start` refuses it in a line
and leaves it as it is.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kraftd.errors import StorageError
from kraftd.records import meta_properties
from kraftd.records.batch import encode_batch, encode_control_batch
from kraftd.records.control import encode_control
from kraftd.records.frame import RawRecord, encode_record
from kraftd.records.messages import (
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
    KRaftVersionRecord,
    LeaderChangeMessage,
    NoOpRecord,
    RegisterBrokerRecord,
)
from kraftd.records.snapshot import encode_snapshot
from kraftd.runtime.admission import refuse_dynamic_voters, refuse_old_log
from kraftd.storage.filesystem import OsFileSystem
from kraftd.storage.formatting import format_directory
from kraftd.storage.node_directory import NodeDirectory
from kraftd.types import Election, OffsetAndEpoch
from tests.fixtures import clusters, klog
from tests.unit.logtools.logs import dynamic, write_snapshot

LEADER = [encode_control(LeaderChangeMessage(leader_id=1))]
LEVEL = FeatureLevelRecord("metadata.version", 7)
OTHER_FEATURE = FeatureLevelRecord("group.version", 1)
CONFIG = ConfigRecord(4, "", "k", "v")


def opened(path: Path, *appends: list) -> NodeDirectory:
    """A formatted directory with a log of one batch an append, after a LeaderChange."""
    format_directory(OsFileSystem(), path, cluster_id="c", node_id=1, directory_id=b"d" * 16, now_ms=0)
    directory = NodeDirectory.open(OsFileSystem(), path, node_id=1, random_uuid=lambda: os.urandom(16))
    directory.log.append([encode_control_batch(0, 1, 0, LEADER)], 0, 1)
    for records in appends:
        base = directory.log.end_offset
        batch = encode_batch(base, 1, 0, [encode_record(record) for record in records])
        directory.log.append([batch], base, base + len(records))
    directory.log.flush()
    return directory


@pytest.mark.parametrize(
    "appends",
    [
        [],
        [[LEVEL]],
        [[BeginTransactionRecord(), LEVEL]],
        [[BeginTransactionRecord()], [OTHER_FEATURE, LEVEL]],
        [[CONFIG], [NoOpRecord()] * 30_000, [LEVEL]],
        [[BeginTransactionRecord()], [NoOpRecord()]],
        [[RawRecord(99, 0, b"x")]],
        [[RawRecord(12, 99, b"x")], [CONFIG]],
    ],
    ids=[
        "empty",
        "first",
        "in-transaction",
        "second-batch",
        "late",
        "no-state-yet",
        "unknown",
        "newer-level",
    ],
)
def test_a_log_that_may_be_new_enough_is_let_in(tmp_path, appends):
    directory = opened(tmp_path, *appends)
    refuse_old_log(directory)
    directory.close()


@pytest.mark.parametrize(
    "appends",
    [[[RegisterBrokerRecord()]], [[OTHER_FEATURE]], [[NoOpRecord()] * 30_000, [CONFIG]]],
    ids=["broker", "another-feature", "late"],
)
def test_a_log_with_state_and_no_metadata_version_is_refused(tmp_path, appends):
    directory = opened(tmp_path, *appends)
    with pytest.raises(StorageError, match=r"no metadata\.version"):
        refuse_old_log(directory)
    directory.close()


def test_a_damaged_log_is_not_called_old(tmp_path):
    directory = opened(tmp_path, [CONFIG], [LEVEL])
    directory.close()
    segment = tmp_path / "__cluster_metadata-0" / f"{0:020}.log"
    data = bytearray(segment.read_bytes())
    data[-3] ^= 1
    segment.write_bytes(data)
    directory = NodeDirectory.open(OsFileSystem(), tmp_path, node_id=1, random_uuid=lambda: os.urandom(16))
    assert directory.damage
    refuse_old_log(directory)
    directory.close()


@pytest.mark.parametrize(("records", "is_old"), [([LEVEL, CONFIG], False), ([CONFIG], True)])
def test_a_log_that_was_cut_is_as_old_as_its_snapshot(tmp_path, records, is_old):
    """Kafka's own log, whose first batch is gone: the level stands in the snapshot that it begins with."""
    directory = opened(tmp_path, [CONFIG])
    snapshot_id = OffsetAndEpoch(directory.log.end_offset, 1)
    write_snapshot(tmp_path / "__cluster_metadata-0", snapshot_id, records, 0)
    directory.close()
    directory = NodeDirectory.open(OsFileSystem(), tmp_path, node_id=1, random_uuid=lambda: os.urandom(16))
    directory.cut_front(snapshot_id)
    with pytest.raises(StorageError, match=r"metadata\.version") if is_old else contextlib.nullcontext():
        refuse_old_log(directory)
    directory.close()


@pytest.mark.parametrize("cluster", clusters(), ids=lambda path: path.name)
def test_only_the_oldest_of_the_real_logs_is_refused(cluster, tmp_path):
    source = next(path.parent for path in sorted(cluster.rglob("meta.properties")))
    node = tmp_path / "node"
    shutil.copytree(source, node, copy_function=shutil.copyfile)
    properties = meta_properties.decode((node / "meta.properties").read_bytes())
    directory = NodeDirectory.open(
        OsFileSystem(), node, node_id=properties.node_id, random_uuid=lambda: os.urandom(16)
    )
    is_old = cluster.name == "kafka-before-3.3-three-nodes"
    with pytest.raises(StorageError) if is_old else contextlib.nullcontext():
        refuse_old_log(directory)
    directory.close()


def test_start_refuses_the_log_of_a_kafka_before_3_3_in_one_line(tmp_path):
    assert "its log has no metadata.version" in refusal(
        klog("kafka-before-3.3-three-nodes") / "node-1", tmp_path / "node-1"
    )


@pytest.mark.parametrize(
    ("node", "file"), [("node-1", f"{0:020}-{0:010}.checkpoint"), ("node-2", "quorum-state")]
)
def test_start_refuses_a_quorum_with_dynamic_voters_in_one_line(tmp_path, node, file):
    """Node 1 was formatted with the first voters; the others show only by their election."""
    reason = refusal(klog("generated-kafka-4.3-dynamic-voters") / node, tmp_path / node)
    assert f"__cluster_metadata-0/{file}: belongs to a quorum with dynamic voters (kraft.version 1)" in reason


def test_an_election_of_static_voters_is_let_in(tmp_path):
    directory = opened(tmp_path, [LEVEL])
    directory.write_election(Election(1, 1))
    refuse_dynamic_voters(directory)
    (tmp_path / "__cluster_metadata-0" / "quorum-state").write_bytes(b"{")
    refuse_dynamic_voters(directory)  # what cannot be read is told elsewhere
    directory.close()


ZERO = f"__cluster_metadata-0/{0:020}-{0:010}.checkpoint"


def zero_checkpoint(values=(), quorum=()):
    return b"".join(encode_snapshot(values, 0, 1, last_contained_timestamp_ms=0, quorum=quorum))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"garbage", "at byte 0: the file ends 7 bytes into a batch"),
        (b"", "at byte 0: is empty, so it is no snapshot"),
        (zero_checkpoint([b"x"])[:152], "has no footer, so it was cut short"),
    ],
    ids=["garbage", "empty", "no footer"],
)
def test_a_damaged_zero_checkpoint_is_told_with_its_byte(tmp_path, data, words):
    directory = opened(tmp_path, [LEVEL])
    (tmp_path / ZERO).write_bytes(data)
    with pytest.raises(StorageError) as raised:
        refuse_dynamic_voters(directory)
    text = str(raised.value)
    assert text.startswith(f"{tmp_path / ZERO} at byte ")
    assert words in text
    assert text.endswith(
        ": it may hold the voters of the cluster: bring the file back, or, if those are the voters of "
        "controller.quorum.voters, remove it"
    )
    directory.close()


def test_a_directory_in_place_of_the_zero_checkpoint_is_told(tmp_path):
    directory = opened(tmp_path, [LEVEL])
    (tmp_path / ZERO).mkdir()
    with pytest.raises(StorageError, match="is a directory, and no snapshot: remove it"):
        refuse_dynamic_voters(directory)
    directory.close()


@pytest.mark.parametrize("voters", [dynamic(1, 2, 3), dynamic(1)[:1], dynamic(1)[1:]])
def test_a_zero_checkpoint_with_voters_is_refused_for_them(tmp_path, voters):
    directory = opened(tmp_path, [LEVEL])
    (tmp_path / ZERO).write_bytes(zero_checkpoint(quorum=voters))
    with pytest.raises(StorageError, match=r"belongs to a quorum with dynamic voters \(kraft.version 1\)"):
        refuse_dynamic_voters(directory)
    directory.close()


@pytest.mark.parametrize("quorum", [(), [KRaftVersionRecord(kraft_version=0)]])
@pytest.mark.parametrize("records", [(), [LEVEL, CONFIG]])
def test_a_zero_checkpoint_without_voters_is_read_kept_and_never_sent(tmp_path, quorum, records):
    """Its records are what a new cluster begins with, before those of bootstrap.checkpoint."""
    directory = opened(tmp_path, [LEVEL])
    before = directory.bootstrap_records()
    values = tuple(map(encode_record, records))
    data = zero_checkpoint(values, quorum)
    (tmp_path / ZERO).write_bytes(data)
    directory.log.append([encode_batch(2, 1, 0, [encode_record(LEVEL)])], 2, 3)
    write_snapshot(tmp_path / "__cluster_metadata-0", OffsetAndEpoch(2, 1), [LEVEL], 0)
    directory.close()
    directory = NodeDirectory.open(OsFileSystem(), tmp_path, node_id=1, random_uuid=lambda: os.urandom(16))
    refuse_dynamic_voters(directory)
    assert directory.bootstrap_records() == (values or before)
    assert [info.id.offset for info in directory.snapshots.infos] == [2]
    assert directory.snapshots.open_reader(OffsetAndEpoch(0, 0)) is None
    directory.cut_front(OffsetAndEpoch(2, 1))
    assert directory.take_removal().run() == ()
    assert (tmp_path / ZERO).read_bytes() == data
    assert directory.warnings == ()
    directory.close()


def refusal(source, node):
    """Why `kraftd start` does not start on a copy of a directory; the records are as before."""
    shutil.copytree(source, node, copy_function=shutil.copyfile)
    config = node.with_suffix(".properties")
    config.write_text(
        f"process.roles=controller\nnode.id={node.name[-1]}\nlog.dirs={node}\n"
        "controller.quorum.voters=1@127.0.0.1:1,2@127.0.0.1:2,3@127.0.0.1:3\n"
        "listeners=CONTROLLER://127.0.0.1:0\ncontroller.listener.names=CONTROLLER\n"
    )
    command = [sys.executable, "-m", "kraftd", "start", config]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    (line,) = (done.stdout + done.stderr).splitlines()
    for segment in (source / "__cluster_metadata-0").glob("*.log"):
        assert (node / "__cluster_metadata-0" / segment.name).read_bytes() == segment.read_bytes()
    return json.loads(line)["reason"]
