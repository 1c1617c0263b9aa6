"""A node's directory: who it is, what it promised, and what it must not be counted for."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftd.errors import StorageError
from kraftd.logtools.inspection import inspect_directory
from kraftd.records import quorum_state
from kraftd.storage import LogConfig, NodeDirectory, OsFileSystem, format_directory
from kraftd.storage.sidecar import SLOT_BYTES
from kraftd.types import Election, HealthKind, OffsetAndEpoch, PeerIdentity, ReplicaKey, uuid_text
from tests.unit.storage.batches import batch, run_of

FS = OsFileSystem()
CLUSTER = "RtwDd1S2QhKo5v5GZcb2Xg"
SMALL = LogConfig(segment_bytes=4 * len(batch(0)))


def random_uuid() -> bytes:
    return os.urandom(16)


def make(path: Path) -> Path:
    format_directory(FS, path, cluster_id=CLUSTER, node_id=1, directory_id=b"d" * 16, now_ms=1)
    return path


def assert_mended(node: NodeDirectory, path: Path) -> None:
    """What says of itself that it is whole is believed at the next start."""
    node.remember_state_health(HealthKind.WHOLE)
    node.abandon()
    node = open_at(path)
    assert node.amnesia == ()
    node.close()


def open_at(path: Path, **kwargs: object) -> NodeDirectory:
    wanted: dict = {"node_id": 1, "random_uuid": random_uuid, "voter_ids": (1, 2, 3), "config": SMALL}
    return NodeDirectory.open(FS, path, **(wanted | kwargs))


def used(path: Path) -> Path:
    """A directory of a node that voted, followed, and flushed ten records of epoch 3."""
    node = open_at(make(path))
    node.write_election(Election(3, 2, ReplicaKey(1)))
    node.remember_state_health(HealthKind.WHOLE)
    node.log.append(run_of(0, 10, epoch=3), 0, 10)
    node.log.flush()
    node.close()
    return path


def log_path(path: Path) -> Path:
    return path / "__cluster_metadata-0"


class TestFirstStart:
    @pytest.mark.covers("LOG-20", "QS-01")
    def test_it_leaves_the_files_that_kafka_would(self, tmp_path: Path) -> None:
        node = open_at(make(tmp_path / "n"))
        assert (node.cluster_id, node.directory_id) == (CLUSTER, b"d" * 16)
        assert (node.election, node.amnesia, node.damage, node.uninitialized) == (Election(), (), (), True)
        assert len(node.bootstrap_records()) == 6
        assert (log_path(node.path) / "partition.metadata").read_text() == (
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
        )
        node.write_election(Election(1, -1, ReplicaKey(1)))
        node.close()
        assert (log_path(node.path) / "quorum-state").read_text() == (
            '{"clusterId":"","leaderId":-1,"leaderEpoch":1,"votedId":1,"appliedOffset":0,'
            '"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
        )

    @pytest.mark.covers("D-05")
    def test_each_start_counts_and_has_an_id_of_its_own(self, tmp_path: Path) -> None:
        make(tmp_path)
        seen = []
        for _ in range(3):
            node = open_at(tmp_path)
            seen.append((node.start_counter, node.start_id))
            node.abandon()
        assert [counter for counter, _ in seen] == [1, 2, 3]
        assert len({start_id for _, start_id in seen}) == 3

    @pytest.mark.covers("D-06")
    def test_it_is_blank_until_the_core_says_otherwise(self, tmp_path: Path) -> None:
        node = open_at(make(tmp_path))
        node.write_election(Election(4, 2))
        node.abandon()
        node = open_at(tmp_path)
        assert node.uninitialized
        node.remember_state_health(HealthKind.WHOLE)
        node.abandon()
        node = open_at(tmp_path)
        assert not node.uninitialized
        node.close()

    @pytest.mark.covers("D-05", "D-06")
    def test_it_is_not_blank_any_more_once_another_program_wrote_it(self, tmp_path: Path) -> None:
        """Formatted and started here in vain, then run by Kafka: what Kafka promised is in its files."""
        open_at(make(tmp_path)).close()
        theirs = quorum_state.encode(Election(2, 1, ReplicaKey(1)), version=0, voter_ids=(1, 2, 3))
        (log_path(tmp_path) / "quorum-state").write_bytes(theirs)
        for path in log_path(tmp_path).glob("*.log"):
            path.write_bytes(b"".join(run_of(0, 4, epoch=2)))
        for _ in range(2):
            node = open_at(tmp_path)
            assert (node.election.epoch, node.log.end_offset, node.amnesia) == (2, 4, ())
            assert not node.uninitialized
            node.abandon()

    @pytest.mark.covers("D-05", "D-07")
    def test_kafka_may_elect_in_the_epoch_that_it_was_stopped_in(self, tmp_path: Path) -> None:
        """Kafka 3.5 drops the vote when it learns the leader; a restart must not forget it."""
        node = open_at(make(tmp_path))
        node.write_election(Election(2, -1, ReplicaKey(3)))
        node.close()
        theirs = quorum_state.encode(Election(2, 1), version=0, voter_ids=(1, 2, 3))
        (log_path(tmp_path) / "quorum-state").write_bytes(theirs)
        for _ in range(2):
            node = open_at(tmp_path)
            assert (node.election, node.amnesia) == (Election(2, 1, ReplicaKey(3)), ())
            node.abandon()

    @pytest.mark.covers("D-06")
    def test_peers_are_remembered(self, tmp_path: Path) -> None:
        node = open_at(make(tmp_path))
        node.remember_peer(PeerIdentity(2, b"a" * 16, 1, b"x" * 16))
        node.remember_peer(PeerIdentity(3, b"b" * 16, 8, b"y" * 16))
        node.remember_peer(PeerIdentity(2, b"a" * 16, 2, b"z" * 16))
        node.abandon()
        node = open_at(tmp_path)
        assert [(p.node_id, p.directory_id, p.start_counter, p.start_id) for p in node.peers] == [
            (2, b"a" * 16, 2, b"z" * 16),
            (3, b"b" * 16, 8, b"y" * 16),
        ]
        node.close()


class TestRefused:
    @pytest.mark.covers("LOG-20")
    def test_what_is_not_a_directory_of_ours(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError, match="no such directory: run `kraftctl format`"):
            open_at(tmp_path / "missing")
        with pytest.raises(StorageError, match="not formatted"):
            open_at(tmp_path)
        make(tmp_path)
        with pytest.raises(StorageError, match="belongs to node 1, not to node 2"):
            open_at(tmp_path, node_id=2)
        with pytest.raises(StorageError, match=f"belongs to cluster {CLUSTER}, not to other"):
            open_at(tmp_path, cluster_id="other")
        (log_path(tmp_path)).mkdir()
        (log_path(tmp_path) / "partition.metadata").write_text(
            "version: 0\ntopic_id: " + uuid_text(b"t" * 16)
        )
        with pytest.raises(StorageError, match="not to the metadata log"):
            open_at(tmp_path)
        (tmp_path / "meta.properties").write_text("version=7\n")
        with pytest.raises(StorageError, match="version 7"):
            open_at(tmp_path)

    def test_a_second_metadata_log_elsewhere(self, tmp_path: Path) -> None:
        log_path(tmp_path / "other").mkdir(parents=True)
        make(tmp_path / "n")
        with pytest.raises(StorageError, match="a second metadata log"):
            open_at(tmp_path / "n", other_log_dirs=(tmp_path / "n", tmp_path / "other"))

    @pytest.mark.covers("LOG-17", "SNAP-25")
    def test_a_log_whose_beginning_is_gone(self, tmp_path: Path) -> None:
        """What came before can only be in a snapshot; state with a hole in it must not be served."""
        used(tmp_path)
        for file in log_path(tmp_path).glob("00000000000000000000.*"):
            file.unlink()
        (log_path(tmp_path) / "00000000000000000004-0000000003.checkpoint.deleted").write_bytes(b"")
        left = {file.name for file in log_path(tmp_path).iterdir()}
        records = {file: file.read_bytes() for file in log_path(tmp_path).glob("*.log")}
        with pytest.raises(StorageError, match="the log begins at offset 4, and no snapshot is there"):
            open_at(tmp_path)
        assert {file.name for file in log_path(tmp_path).iterdir()} == left, "nothing is deleted"
        assert {file: file.read_bytes() for file in log_path(tmp_path).glob("*.log")} == records

    @pytest.mark.covers("LOG-19")
    def test_a_directory_that_is_in_use(self, tmp_path: Path) -> None:
        node = open_at(make(tmp_path))
        with pytest.raises(StorageError, match="another process holds it"):
            open_at(tmp_path)
        # The attempt has not freed the lock, and a POSIX lock, such as Kafka takes, is refused as well.
        script = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        taken = subprocess.run(
            [sys.executable, "-c", script, tmp_path / ".lock"], capture_output=True, check=False
        )
        assert b"BlockingIOError" in taken.stderr
        node.close()
        open_at(tmp_path).close()


class TestAmnesia:
    CASES: tuple[tuple[str, Callable[[Path], object]], ...] = (
        ("gone", lambda path: (log_path(path) / "quorum-state").unlink()),
        ("empty", lambda path: (log_path(path) / "quorum-state").write_bytes(b"")),
        (
            "older",
            lambda path: (log_path(path) / "quorum-state").write_bytes(
                quorum_state.encode(Election(2, 2), version=0, voter_ids=(1, 2, 3))
            ),
        ),
        (
            "another vote",
            lambda path: (log_path(path) / "quorum-state").write_bytes(
                quorum_state.encode(Election(3, 2, ReplicaKey(3)), version=0, voter_ids=(1, 2, 3))
            ),
        ),
    )

    @pytest.mark.covers("D-05", "D-06")
    @pytest.mark.parametrize(("what", "lose"), CASES, ids=[what for what, _ in CASES])
    def test_a_forgotten_election_shows_and_stays_until_the_core_is_satisfied(
        self, tmp_path: Path, what: str, lose: Callable[[Path], object]
    ) -> None:
        lose(used(tmp_path))
        node = open_at(tmp_path)
        assert len(node.amnesia) == 1
        assert "quorum-state" in node.amnesia[0]
        assert node.election == Election(3)
        assert not node.uninitialized
        assert node.log.end_offset == 10
        node.abandon()
        # Another start before anything was written: the file has not become right by that.
        node = open_at(tmp_path)
        assert (node.election, len(node.amnesia)) == (Election(3), 1)
        node.write_election(Election(5, 2))
        node.abandon()
        # The election file is in order again; the promises before it are not.
        node = open_at(tmp_path)
        assert node.amnesia
        assert node.election == Election(5, 2)
        assert_mended(node, tmp_path)

    @pytest.mark.covers("D-05", "D-06")
    @pytest.mark.parametrize("found", [None, Election(4, 3)], ids=["gone", "older"])
    def test_an_epoch_never_comes_back_however_often_it_starts(
        self, tmp_path: Path, found: Election | None
    ) -> None:
        """Without records, which would tell of the epoch."""
        node = open_at(make(tmp_path))
        node.write_election(Election(5, -1, ReplicaKey(1)))
        node.remember_state_health(HealthKind.WHOLE)
        node.close()
        file = log_path(tmp_path) / "quorum-state"
        if found is None:
            file.unlink()
        else:
            file.write_bytes(quorum_state.encode(found, version=0, voter_ids=(1, 2, 3)))
        for _ in range(3):
            node = open_at(tmp_path)
            assert (node.election, bool(node.amnesia)) == (Election(5), True)
            node.close()

    @pytest.mark.covers("D-05", "D-06")
    def test_an_election_file_on_a_bad_sector(self, tmp_path: Path) -> None:
        used(tmp_path)

        class BadSector(OsFileSystem):
            def pread(self, handle: int, size_bytes: int, position: int) -> bytes:  # type: ignore[override]
                if Path(f"/proc/self/fd/{handle}").readlink().name == "quorum-state":
                    raise OSError(5, "Input/output error")
                return os.pread(handle, size_bytes, position)

        node = NodeDirectory.open(BadSector(), tmp_path, node_id=1, random_uuid=random_uuid)
        assert node.amnesia
        assert "quorum-state: read failed: Input/output error" in node.warnings[0]
        node.close()

    @pytest.mark.covers("D-05", "QS-09")
    def test_an_epoch_below_the_logs_last_one(self, tmp_path: Path) -> None:
        used(tmp_path)
        (tmp_path / "kraftd.state").unlink()
        (log_path(tmp_path) / "quorum-state").unlink()
        node = open_at(tmp_path)
        assert "knows epoch 0" in node.amnesia[0]
        assert node.election == Election(3)
        node.close()

    @pytest.mark.covers("D-05", "D-06")
    def test_a_sidecar_that_cannot_be_read(self, tmp_path: Path) -> None:
        used(tmp_path)
        (tmp_path / "kraftd.state").write_bytes(bytes(2 * SLOT_BYTES))
        node = open_at(tmp_path)
        assert "neither of its two slots" in node.amnesia[0]
        assert node.election == Election(3, 2, ReplicaKey(1))
        node.abandon()
        node = open_at(tmp_path)
        assert node.amnesia
        node.close()

    @pytest.mark.covers("D-05", "D-06")
    def test_damage_is_told_and_never_cut(self, tmp_path: Path) -> None:
        used(tmp_path)
        path = log_path(tmp_path) / "00000000000000000004.log"
        raw = bytearray(path.read_bytes())
        raw[100] ^= 1
        path.write_bytes(raw)
        for _ in range(2):
            node = open_at(tmp_path)
            (damage,) = node.damage
            assert f"{path} at byte 0 (offset 4): the checksum is" in damage
            assert node.amnesia == ()
            assert node.log.end_offset == 10
            node.close()
        assert path.read_bytes() == raw


class TestOtherPrograms:
    @pytest.mark.covers("D-05")
    def test_kafka_may_take_over_and_give_back(self, tmp_path: Path) -> None:
        """A higher epoch in the election file is Kafka's; our recovery point is silent about it."""
        used(tmp_path)
        (log_path(tmp_path) / "quorum-state").write_bytes(
            quorum_state.encode(Election(6, 3), version=0, voter_ids=(1, 2, 3))
        )
        last = log_path(tmp_path) / "00000000000000000008.log"
        last.write_bytes(batch(8, epoch=6))
        node = open_at(tmp_path)
        assert (node.election, node.amnesia, node.damage) == (Election(6, 3), (), ())
        assert (node.log.end_offset, node.log.last_epoch) == (9, 6)
        assert any("another program wrote epoch 6" in warning for warning in node.warnings)
        node.close()
        node = open_at(tmp_path)
        assert (node.election, node.amnesia, node.warnings) == (Election(6, 3), (), ())
        node.close()

    def test_a_directory_without_an_id_gets_one(self, tmp_path: Path) -> None:
        make(tmp_path)
        (tmp_path / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=1\n")
        node = open_at(tmp_path)
        given = node.directory_id
        assert len(given) == 16
        node.close()
        node = open_at(tmp_path)
        assert node.directory_id == given
        node.close()


class TestRecoveryPoint:
    @pytest.mark.covers("D-05")
    def test_it_follows_each_flush_and_goes_before_a_cut(self, tmp_path: Path) -> None:
        node = open_at(make(tmp_path))
        node.log.append(run_of(0, 6), 0, 6)
        node.log.flush()
        sidecar = node._sidecar
        assert sidecar.recovery_point is not None
        assert (sidecar.recovery_point.offset, sidecar.recovery_point.epoch) == (6, 1)
        node.log.truncate(3, 1)
        assert sidecar.recovery_point.offset == 3
        assert sidecar.unsynced_sequence == 0
        node.log.append(run_of(3, 5, epoch=2), 3, 5)
        job = node.log.begin_flush(sync_recovery_point=True)
        job.run()
        node.log.flush_done(job)
        assert (sidecar.recovery_point.offset, sidecar.recovery_point.epoch) == (5, 2)
        assert sidecar.unsynced_sequence != 0
        node.log.flush()
        assert sidecar.unsynced_sequence == 0
        node.close()


@pytest.mark.covers("D-05", "SNAP-25")
def test_what_kafka_leaves_beside_a_log_is_no_hindrance(tmp_path: Path) -> None:
    """Snapshots, finished or not, what awaits its deletion, half-written files, marks of other layers."""
    used(tmp_path)
    (tmp_path / "kraftd.state").unlink()
    beside = (
        f"{4:020}-{3:010}.checkpoint",
        f"{4:020}-{3:010}.checkpoint.deleted",
        f"{8:020}-{3:010}-1234567890123.checkpoint.part",
        f"{4:020}.snapshot",
        f"{0:020}.log.deleted",
        f"{0:020}.index.deleted",
        "quorum-state.tmp",
        "leader-epoch-checkpoint.tmp",
    )
    for name in beside:
        (log_path(tmp_path) / name).write_bytes(b"?")
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "meta.properties.tmp"):
        (tmp_path / name).write_bytes(b"?")
    node = open_at(tmp_path)
    assert (node.log.end_offset, node.election.epoch, node.damage, node.amnesia) == (10, 3, (), ())
    assert not node.uninitialized
    node.close()
    facts = inspect_directory(FS, tmp_path)
    assert facts.problems == ()
    assert facts.snapshots == (OffsetAndEpoch(4, 3),)
    left = {file.name for file in log_path(tmp_path).iterdir()}
    assert {name for name in beside if ".checkpoint" in name} & left == {beside[0]}


@pytest.mark.covers("SNAP-24", "LOG-15", "CLN-06")
def test_what_is_left_over_is_removed_at_the_start_and_said_in_one_line(tmp_path: Path) -> None:
    used(tmp_path)
    leftovers = (
        f"{0:020}.index.deleted",
        f"{0:020}.log.deleted",
        f"{4:020}-{3:010}.checkpoint.deleted",
        f"{8:020}-{3:010}-1234567890123.checkpoint.part",
        f"{9:020}-{3:010}.checkpoint.part",
    )
    kept = (f"{4:020}-{3:010}.checkpoint", "notes.checkpoint.part", f"{4:020}.part")
    for name in (*leftovers, *kept):
        (log_path(tmp_path) / name).write_bytes(b"?")
    folder = log_path(tmp_path) / f"{5:020}-{3:010}.checkpoint.part"
    segment = log_path(tmp_path) / f"{6:020}.log.deleted"
    told = [
        f"{folder}: is a directory, and no snapshot: remove it",
        f"{segment}: is a directory, and no segment: remove it",
    ]
    for each in (folder, segment):
        each.mkdir()
    assert set(told) <= set(inspect_directory(FS, tmp_path).notes)
    node = open_at(tmp_path)
    assert set(told) <= set(node.warnings)
    (line,) = [text for text in node.warnings if "promised nothing" in text]
    assert line == f"{log_path(tmp_path)}: removed what promised nothing: {', '.join(sorted(leftovers))}"
    node.close()
    left = {file.name for file in log_path(tmp_path).iterdir()}
    assert not left & set(leftovers)
    assert set(kept) <= left


class TestAnIncompleteCopy:
    """The epochs that Kafka noted go on after the end of its log: records it acknowledged are missing."""

    def incomplete(self, path: Path) -> Path:
        used(path)
        (path / "kraftd.state").unlink()
        later = "".join(f"{epoch} {10 + epoch}\n" for epoch in range(7, 107))
        (log_path(path) / "leader-epoch-checkpoint").write_text(f"0\n101\n3 0\n{later}")
        return path

    @pytest.mark.covers("D-05", "D-06")
    def test_it_has_forgotten_what_it_acknowledged(self, tmp_path: Path) -> None:
        node = open_at(self.incomplete(tmp_path))
        (reason,) = node.amnesia
        assert (
            "leader-epoch-checkpoint: names epoch 7 at offset 17 and 99 more up to epoch 106, but" in reason
        )
        assert "copy the directory again" in reason
        node.abandon()
        # The epochs were made anew from the log by now; what they said is not forgotten.
        node = open_at(tmp_path)
        assert node.amnesia == (reason,)
        assert_mended(node, tmp_path)

    @pytest.mark.covers("D-05", "D-06")
    def test_a_start_that_died_on_the_way_does_not_hide_it(self, tmp_path: Path) -> None:
        self.incomplete(tmp_path)

        class Dies(OsFileSystem):
            """Lets `leader-epoch-checkpoint` be made anew, and nothing after it."""

            gone = False

            def rename(self, source: Path, target: Path) -> None:
                super().rename(source, target)
                self.gone = self.gone or target.name == "leader-epoch-checkpoint"

            def sync_directory(self, path: Path) -> None:
                if self.gone:
                    raise OSError(5, "Input/output error")
                super().sync_directory(path)

        with pytest.raises(StorageError):
            NodeDirectory.open(Dies(), tmp_path, node_id=1, random_uuid=random_uuid)
        assert "7 17" not in (log_path(tmp_path) / "leader-epoch-checkpoint").read_text()
        node = open_at(tmp_path)
        assert node.amnesia
        node.close()

    @pytest.mark.covers("D-05")
    def test_epochs_of_our_own_are_judged_by_what_was_flushed(self, tmp_path: Path) -> None:
        """A cut may leave too much in the file for a moment."""
        used(tmp_path)
        (log_path(tmp_path) / "leader-epoch-checkpoint").write_text("0\n2\n3 0\n5 17\n")
        node = open_at(tmp_path)
        assert node.amnesia == ()
        node.close()
