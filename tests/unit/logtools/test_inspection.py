"""Looking at directories, those of real Kafka controllers included, without changing a byte."""

import os
import shutil
from pathlib import Path

import pytest

from kraftd.errors import StorageError
from kraftd.logtools.inspection import inspect_directory
from kraftd.records import names, quorum_state
from kraftd.records.batch import scan
from kraftd.records.frame import AnyRecord, RawRecord
from kraftd.records.messages import FeatureLevelRecord
from kraftd.records.snapshot import encode_snapshot
from kraftd.storage import Disk, Log, LogConfig, NodeDirectory, OsFileSystem, format_directory
from kraftd.types import Election, HealthKind, OffsetAndEpoch, ReplicaKey
from tests.fixtures import clusters, klog
from tests.unit.logtools.logs import write_snapshot
from tests.unit.storage.batches import batch, run_of

FS = OsFileSystem()
NODES = sorted(path.parent for cluster in clusters() for path in cluster.rglob("meta.properties"))


class NoWrites(OsFileSystem):
    """Real files, of which none may change."""

    def _refuse(self, *_: object) -> None:
        raise AssertionError("an inspection changed something")

    pwrite = pwritev = fsync = fdatasync = ftruncate = _refuse  # type: ignore[assignment]
    make_directory = rename = unlink = sync_directory = lock = _refuse  # type: ignore[assignment]


def state_of(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("node", NODES, ids=lambda path: "-".join(path.parts[-2:]))
def test_a_directory_of_kafkas_is_read_to_its_last_byte_and_not_changed(node: Path) -> None:
    before = state_of(node)
    facts = inspect_directory(NoWrites(), node)
    log, report = Log.open(Disk(NoWrites()), node / "__cluster_metadata-0", read_only=True)
    assert report.damage == report.torn == ()
    assert log.epochs[0].start_offset == log.start_offset
    offset, read_bytes = log.start_offset, 0
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20)
        read_bytes += len(data)
        *_, last = scan(data)
        offset = last.end_offset
    assert read_bytes == log.size_bytes == sum(s.size_bytes for s in facts.segments)
    assert (facts.log_end_offset, facts.epochs) == (log.end_offset, log.epochs)
    log.abandon()
    assert facts.formatted
    incomplete = "incomplete-export" in str(node)
    assert bool(facts.problems) == incomplete
    assert state_of(node) == before


def test_an_incomplete_copy_is_told() -> None:
    facts = inspect_directory(FS, klog("kafka-3.8-three-nodes-incomplete-export") / "node-1")
    (problem,) = facts.problems
    assert "names epoch 5 at offset 16147, but the log ends at offset 13057" in problem
    assert any("quorum-state: knows epoch 5, the last record is of epoch 2" in note for note in facts.notes)


def test_our_own_directory_is_as_it_says(tmp_path: Path) -> None:
    facts = inspect_directory(FS, tmp_path)
    assert (facts.formatted, len(facts.problems)) == (False, 1)
    format_directory(FS, tmp_path, cluster_id="c", node_id=1, directory_id=b"d" * 16, now_ms=1)
    facts = inspect_directory(FS, tmp_path)
    assert (facts.formatted, facts.problems, facts.bootstrap_records) == (True, (), 6)
    assert "never started" in facts.notes[0]
    node = NodeDirectory.open(FS, tmp_path, node_id=1, random_uuid=lambda: os.urandom(16))
    node.write_election(Election(2, -1, ReplicaKey(3)))
    node.remember_state_health(HealthKind.WHOLE)
    node.log.append(run_of(0, 3, epoch=2), 0, 3)
    node.log.flush()
    # Also while the node is running in it.
    facts = inspect_directory(FS, tmp_path)
    assert (facts.problems, facts.log_end_offset, facts.log_end_epoch) == ((), 3, 2)
    assert facts.sidecar is not None
    assert facts.sidecar.local_state.start_counter == 1
    node.close()
    before = state_of(tmp_path)
    assert inspect_directory(NoWrites(), tmp_path).problems == ()
    assert state_of(tmp_path) == before


@pytest.mark.parametrize("what", ["nothing", "a file"])
def test_votes_are_missed_where_a_log_without_records_is_gone(tmp_path: Path, what: str) -> None:
    """What a start finds: it was told as never started, since the sidecar knew of no record."""
    format_directory(FS, tmp_path, cluster_id="c", node_id=1, directory_id=b"d" * 16, now_ms=1)
    node = NodeDirectory.open(FS, tmp_path, node_id=1, random_uuid=lambda: os.urandom(16))
    node.write_election(Election(2, -1, ReplicaKey(3)))
    node.remember_state_health(HealthKind.WHOLE)
    node.close()
    log_path = tmp_path / names.LOG_DIRECTORY
    shutil.rmtree(log_path)
    if what == "a file":
        log_path.write_bytes(b"")
    facts = inspect_directory(FS, tmp_path)
    if what == "a file":
        with pytest.raises(StorageError) as refused:
            NodeDirectory.open(FS, tmp_path, node_id=1, random_uuid=lambda: os.urandom(16))
        found: tuple[str, ...] = (str(refused.value),)
        assert "__cluster_metadata-0: is no directory: move it away, and put" in found[0]
    else:
        node = NodeDirectory.open(FS, tmp_path, node_id=1, random_uuid=lambda: os.urandom(16))
        found = node.amnesia
        assert "quorum-state: is gone; epoch 2 was written last: a vote may be forgotten" in found[0]
        node.close()
    assert (facts.problems, facts.notes) == (found, ())


def test_what_is_wrong_is_said_with_what_to_do(tmp_path: Path) -> None:
    format_directory(FS, tmp_path, cluster_id="c", node_id=1, directory_id=b"d" * 16, now_ms=1)
    node = NodeDirectory.open(FS, tmp_path, node_id=1, random_uuid=lambda: os.urandom(16))
    node.write_election(Election(2))
    node.log.append(run_of(0, 3, epoch=2), 0, 3)
    node.close()
    path = tmp_path / "__cluster_metadata-0"
    (path / "quorum-state").unlink()
    (path / "00000000000000000000.log").write_bytes(run_of(0, 1, epoch=2)[0])
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"")
    problems = "\n".join(inspect_directory(FS, tmp_path).problems)
    assert "quorum-state: is gone; epoch 2 was written last" in problems
    assert "the log ends here, but it had been flushed up to offset 3" in problems
    assert "bootstrap.checkpoint at byte 0: is empty, so it is no snapshot" in problems


@pytest.mark.parametrize(
    ("file", "data", "text"),
    [
        (
            "meta.properties",
            b"version=1\x0bcluster.id=c\nnode.id=1\n",
            "version='1\\x0bcluster.id=c' is not a number: restore the file, or format the directory anew",
        ),
        (
            "meta.properties",
            b"version=0\n",
            (
                "does not say which cluster and which node this is: "
                "restore the file, or format the directory anew"
            ),
        ),
        (
            "__cluster_metadata-0/partition.metadata",
            b"version: 0\n",
            "not a version line and a topic id line: remove the file if this is a metadata log",
        ),
    ],
)
def test_a_small_file_that_keeps_a_node_from_its_start_is_told_in_the_words_of_the_start(
    tmp_path: Path, file: str, data: bytes, text: str
) -> None:
    format_directory(FS, tmp_path, cluster_id="c", node_id=1, directory_id=b"d" * 16, now_ms=1)
    NodeDirectory.open(FS, tmp_path, node_id=1, random_uuid=lambda: os.urandom(16)).close()
    (tmp_path / file).write_bytes(data)
    assert inspect_directory(FS, tmp_path).problems == (f"{tmp_path / file}: {text}",)
    with pytest.raises(StorageError) as refused:
        NodeDirectory.open(FS, tmp_path, node_id=1, random_uuid=lambda: os.urandom(16))
    assert str(refused.value) == f"{tmp_path / file}: {text}"


@pytest.mark.covers("SNAP-25")
def test_a_log_without_its_beginning_needs_a_snapshot(tmp_path: Path) -> None:
    format_directory(FS, tmp_path, cluster_id="c", node_id=1, directory_id=b"d" * 16, now_ms=1)
    path = tmp_path / "__cluster_metadata-0"
    path.mkdir()
    (path / "00000000000000000005.log").write_bytes(b"".join(run_of(5, 8, epoch=0)))
    (problem,) = inspect_directory(FS, tmp_path).problems
    assert "the log begins at offset 5, and no snapshot is there that holds the state before it" in problem
    snapshot = write_snapshot(path, OffsetAndEpoch(6, 0), [], 1)
    assert inspect_directory(FS, tmp_path).problems == ()
    newer = path / "00000000000000000007-0000000000.checkpoint"
    newer.write_bytes(b"")
    facts = inspect_directory(FS, tmp_path)
    assert facts.problems == ()
    empty = f"{newer} at byte 0: is empty, so it is no snapshot"
    assert f"{empty}; the snapshot at offset 6 is used instead" in facts.notes
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    cut, lost = inspect_directory(FS, tmp_path).problems
    assert cut.startswith(f"{snapshot} at byte ")
    assert "bytes into a batch" in cut
    assert lost.startswith(f"{empty}: the log begins at offset 5, and nothing else holds the state before it")


def test_a_directory_with_nothing_but_snapshots_ends_with_the_newest(tmp_path: Path) -> None:
    format_directory(FS, tmp_path, cluster_id="c", node_id=1, directory_id=b"d" * 16, now_ms=1)
    path = tmp_path / "__cluster_metadata-0"
    path.mkdir()
    for snapshot_id in (OffsetAndEpoch(6, 1), OffsetAndEpoch(9, 2)):
        write_snapshot(path, snapshot_id, [], 1)
    (path / "leader-epoch-checkpoint").write_bytes(b"0\n1\n2 8\n")
    (path / "quorum-state").write_bytes(quorum_state.encode(Election(2, 3), version=0))
    facts = inspect_directory(FS, tmp_path)
    assert facts.problems == ()
    assert (facts.log_start_offset, facts.log_end_offset, facts.log_end_epoch) == (9, 9, 2)
    (path / "leader-epoch-checkpoint").write_bytes(b"0\n1\n2 10\n")
    (problem,) = inspect_directory(FS, tmp_path).problems
    assert "names epoch 2 at offset 10, but the log ends at offset 9" in problem


def cut_log(path: Path) -> Path:
    """A node that counts: a log of 14 records in four segments, and snapshots at 5 and 9. Returns its log."""
    format_directory(FS, path, cluster_id="c", node_id=1, directory_id=b"d" * 16, now_ms=1)
    config = LogConfig(segment_bytes=4 * len(batch(0)))
    node = NodeDirectory.open(FS, path, node_id=1, random_uuid=lambda: os.urandom(16), config=config)
    node.write_election(Election(3, 2))
    node.remember_state_health(HealthKind.WHOLE)
    node.log.append(run_of(0, 14, 3), 0, 14)
    node.close()
    log_path = path / "__cluster_metadata-0"
    for offset in (5, 9):
        write_snapshot(log_path, OffsetAndEpoch(offset, 3), [FeatureLevelRecord("metadata.version", 25)], 1)
    return log_path


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(bytes(data))


def start_of(path: Path) -> NodeDirectory:
    """What a start makes of it."""
    node = NodeDirectory.open(FS, path, node_id=1, random_uuid=lambda: os.urandom(16))
    node.close()
    return node


@pytest.mark.covers("D-23")
def test_damage_below_a_whole_snapshot_is_no_loss_for_info_or_for_a_start(tmp_path: Path) -> None:
    log_path = cut_log(tmp_path)
    flip(log_path / f"{0:020}.log", 100)
    facts = inspect_directory(NoWrites(), tmp_path)
    assert facts.problems == ()
    (note,) = [text for text in facts.notes if "no loss" in text]
    assert note.startswith(f"{log_path / f'{0:020}.log'} at byte ")
    assert note.endswith("no loss: the log begins at the snapshot at offset 5 now")
    assert (facts.log_start_offset, facts.log_end_offset) == (5, 14)
    started = start_of(tmp_path)  # which reads those bytes later
    assert (started.damage, started.amnesia) == ((), ())


@pytest.mark.covers("D-23")
def test_damage_behind_every_snapshot_is_a_loss(tmp_path: Path) -> None:
    log_path = cut_log(tmp_path)
    flip(log_path / f"{12:020}.log", 20)
    (problem,) = inspect_directory(NoWrites(), tmp_path).problems
    assert problem.startswith(f"{log_path / f'{12:020}.log'} at byte 0 (offset 12)")
    assert start_of(tmp_path).damage == (problem,)


@pytest.mark.covers("D-23")
def test_a_snapshot_beyond_the_logs_end_is_told_to_take_its_place(tmp_path: Path) -> None:
    """Where no sidecar says that the log holds all that was flushed."""
    log_path = cut_log(tmp_path)
    write_snapshot(log_path, OffsetAndEpoch(20, 3), [], 1)
    with_sidecar = inspect_directory(NoWrites(), tmp_path)
    assert any("goes further than the log, or another way" in note for note in with_sidecar.notes)
    assert (with_sidecar.log_start_offset, with_sidecar.log_end_offset) == (0, 14)
    (tmp_path / "kraftd.state").unlink()
    facts = inspect_directory(NoWrites(), tmp_path)
    assert facts.problems == ()
    assert any(
        "the snapshot at offset 20 in epoch 3 takes the place of the log" in note for note in facts.notes
    )
    assert (facts.log_start_offset, facts.log_end_offset, facts.log_end_epoch) == (20, 20, 3)
    assert [segment.base_offset for segment in facts.segments] == [0, 4, 8, 12], "as they still lie there"


@pytest.mark.covers("D-23")
def test_every_snapshot_is_read_to_its_end_and_a_damaged_one_names_what_is_used_instead(
    tmp_path: Path,
) -> None:
    log_path = cut_log(tmp_path)
    older, newest = (log_path / f"{offset:020}-{3:010}.checkpoint" for offset in (5, 9))
    flip(older, older.stat().st_size - 3)
    facts = inspect_directory(NoWrites(), tmp_path)
    assert facts.problems == ()
    (note,) = facts.notes
    assert note.startswith(f"{older} at byte ")
    assert note.endswith("; the snapshot at offset 9 is used instead")
    flip(newest, newest.stat().st_size - 3)
    notes = inspect_directory(NoWrites(), tmp_path).notes
    assert [text.rpartition("; ")[2] for text in notes] == ["the log from offset 0 is used instead"] * 2


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (RawRecord(200, 1, b""), "of kind UnknownRecord200, version 1"),
        (RawRecord(12, 9, b""), "of kind FeatureLevelRecord, version 9"),
        (FeatureLevelRecord("metadata.version", 99), "level 99 of feature metadata.version"),
    ],
)
def test_a_record_that_the_node_would_stop_before_is_named_with_its_byte(
    tmp_path: Path, record: AnyRecord, what: str
) -> None:
    log_path = cut_log(tmp_path)
    snapshot = write_snapshot(log_path, OffsetAndEpoch(9, 3), [record], 1)
    (problem,) = inspect_directory(NoWrites(), tmp_path).problems
    begins = next(scan(snapshot.read_bytes())).size_bytes
    assert problem == (
        f"{snapshot} at byte {begins}: a record of the snapshot at offset 9 is {what}, which this version of "
        "kraftd cannot apply; it stops before it. Run a newer kraftd."
    )


def test_a_snapshot_whose_records_are_none_is_a_problem_only_if_nothing_else_leads_to_a_state(
    tmp_path: Path,
) -> None:
    log_path = cut_log(tmp_path)
    newest = log_path / f"{9:020}-{3:010}.checkpoint"
    newest.write_bytes(b"".join(encode_snapshot([b"none"], 3, 1, last_contained_timestamp_ms=1)))
    facts = inspect_directory(NoWrites(), tmp_path)
    assert facts.problems == ()
    (note,) = facts.notes
    assert note.startswith(f"{newest} at byte 83: ")
    assert note.endswith("; the snapshot at offset 5 is used instead")
    node = NodeDirectory.open(FS, tmp_path, node_id=1, random_uuid=lambda: os.urandom(16))
    node.cut_front(OffsetAndEpoch(9, 3))
    node.close()
    (problem,) = inspect_directory(NoWrites(), tmp_path).problems
    assert problem.endswith("; nothing else leads to the state before the log")


def test_what_was_being_written_or_deleted_promises_nothing_and_is_no_problem(tmp_path: Path) -> None:
    format_directory(FS, tmp_path, cluster_id="c", node_id=1, directory_id=b"d" * 16, now_ms=1)
    NodeDirectory.open(FS, tmp_path, node_id=1, random_uuid=lambda: os.urandom(16)).close()
    path = tmp_path / "__cluster_metadata-0"
    name = "00000000000000000003-0000000002.checkpoint"
    (path / f"{name}.part").write_bytes(b"half of i")
    (path / f"{name}.deleted").write_bytes(b"")
    (path / "00000000000000000009-0000000002.checkpoint.part").mkdir()
    facts = inspect_directory(NoWrites(), tmp_path)
    assert facts.problems == ()
    told = dict(note.removeprefix(f"{path}/").split(": ", 1) for note in facts.notes if "checkpoint." in note)
    assert told == {
        f"{name}.part": "promises nothing: the next start removes it",
        f"{name}.deleted": "promises nothing: the next start removes it",
        "00000000000000000009-0000000002.checkpoint.part": "is a directory, and no snapshot: remove it",
    }


def test_a_damaged_zero_checkpoint_is_a_problem_and_one_with_voters_a_note(tmp_path: Path) -> None:
    log_path = cut_log(tmp_path)
    zero = log_path / f"{0:020}-{0:010}.checkpoint"
    zero.write_bytes(b"garbage")
    (problem,) = inspect_directory(NoWrites(), tmp_path).problems
    assert problem.startswith(f"{zero} at byte 0: the file ends 7 bytes into a batch: ")
    write_snapshot(log_path, OffsetAndEpoch(0, 0), [], 1, voters=(1, 2, 3))
    facts = inspect_directory(NoWrites(), tmp_path)
    assert facts.problems == ()
    (note,) = facts.notes
    assert note.startswith(f"{zero}: holds the first voters of a quorum with dynamic voters")


def test_a_folder_of_nodes_is_not_taken_for_a_member_that_never_started(tmp_path: Path) -> None:
    """To format it would be the wrong advice: real logs may lie below."""
    facts = inspect_directory(FS, tmp_path)
    (problem,) = facts.problems
    assert problem.startswith(f"{tmp_path}: holds no meta.properties: name a node's directory, or ")
    assert not facts.notes


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    assert inspect_directory(FS, tmp_path / "nothing").problems == (
        f"{tmp_path / 'nothing'}: is not a directory",
    )
