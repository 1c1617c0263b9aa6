"""`quorum-state`: written by the protocol, and not believed when nobody vouches for it."""

from pathlib import Path

import pytest
from crc32c import crc32c
from msgspec import structs

from kraftd.records import quorum_state
from kraftd.storage import Disk, StorageFailure
from kraftd.storage.election_store import ElectionStore, judge_election
from kraftd.storage.sidecar import ABSENT, LocalState, Sidecar, read_sidecar
from kraftd.types import Election, ReplicaKey
from tests.crash.hooks import Changes, refuse
from tests.sim.filesystem import SimFileSystem

HOME = Path("/log")
FILE = HOME / "quorum-state"

OLD = quorum_state.encode(Election(4, 2), version=0, voter_ids=(1, 2, 3))
NEW = quorum_state.encode(Election(5, -1, ReplicaKey(3)), version=0, voter_ids=(1, 2, 3))
HIGHER = quorum_state.encode(Election(9, 3, ReplicaKey(3)), version=0, voter_ids=(1, 2, 3))
SAME = quorum_state.encode(Election(5, -1, ReplicaKey(1)), version=0, voter_ids=(1, 2, 3))
KNOWN = LocalState(old_election=crc32c(OLD), new_election=crc32c(NEW), election_epoch=5)
VOTED = Election(5, -1, ReplicaKey(3))


def encoded(election: Election) -> bytes:
    """The file of a static quorum of three."""
    return quorum_state.encode(election, version=0, voter_ids=(1, 2, 3))


def promised(election: Election | None) -> LocalState:
    """What the sidecar holds when the election of epoch 5 was the last one written."""
    return structs.replace(KNOWN, election=election)


class TestExamine:
    @pytest.mark.covers("D-05")
    @pytest.mark.parametrize(
        ("data", "election"), [(OLD, Election(4, 2)), (NEW, Election(5, -1, ReplicaKey(3)))]
    )
    def test_the_old_and_the_new_file_are_both_good(self, data: bytes, election: Election) -> None:
        finding = judge_election(FILE, data, KNOWN)
        assert (finding.election, finding.amnesia, finding.written_elsewhere) == (election, "", False)

    @pytest.mark.covers("D-05")
    def test_a_higher_epoch_that_nobody_vouches_for_is_kafkas(self) -> None:
        finding = judge_election(FILE, HIGHER, KNOWN)
        assert (finding.election.epoch, finding.amnesia, finding.written_elsewhere) == (9, "", True)

    @pytest.mark.covers("D-05", "D-06", "Q-20")
    @pytest.mark.parametrize(
        "data",
        [None, b"", b"{}", SAME, OLD.replace(b"4", b"3"), NEW[:-3], b"\0" * len(NEW)],
        ids=["missing", "empty", "no fields", "another vote", "older epoch", "cut", "zeros"],
    )
    def test_anything_else_is_amnesia_and_keeps_only_the_epoch(self, data: bytes | None) -> None:
        finding = judge_election(FILE, data, KNOWN)
        assert finding.election == Election(5)
        assert str(FILE) in finding.amnesia
        assert "a vote may be forgotten" in finding.amnesia

    @pytest.mark.covers("D-05", "D-07")
    @pytest.mark.parametrize(
        ("known", "found", "believed"),
        [
            (Election(5), Election(5, 2), Election(5, 2)),
            (Election(5), Election(5, -1, ReplicaKey(2)), Election(5, -1, ReplicaKey(2))),
            (VOTED, Election(5, 1, ReplicaKey(3)), Election(5, 1, ReplicaKey(3))),
            (VOTED, Election(5, 1), Election(5, 1, ReplicaKey(3))),
            (Election(5, 3, ReplicaKey(3)), Election(5, 3), Election(5, 3, ReplicaKey(3))),
        ],
        ids=["leader", "vote", "leader of another", "leader for a vote", "vote dropped beside its leader"],
    )
    def test_an_epoch_that_somebody_else_went_on_in_is_kafkas(
        self, known: Election, found: Election, believed: Election
    ) -> None:
        """A quorum stopped while it elects leaves an epoch without a leader; Kafka may elect in that one."""
        data = encoded(found)
        remembered = promised(known)
        finding = judge_election(FILE, data, remembered)
        assert (finding.election, finding.amnesia, finding.written_elsewhere) == (believed, "", True)

        taken_over = structs.replace(
            remembered, old_election=crc32c(data), new_election=crc32c(data), election=believed
        )
        assert judge_election(FILE, data, taken_over).election == believed

    @pytest.mark.covers("D-05", "D-06", "Q-20")
    @pytest.mark.parametrize(
        ("known", "data"),
        [
            (VOTED, encoded(Election(5))),
            (VOTED, encoded(Election(5, 1, ReplicaKey(1)))),
            (Election(5, 1, ReplicaKey(1)), encoded(Election(5, -1, ReplicaKey(1)))),
            (Election(5, 3), encoded(Election(5, 2))),
            (VOTED, encoded(VOTED).replace(b'voterId":2', b'voterId":3')),
            (VOTED, encoded(VOTED).replace(b'leaderId":-1', b'leaderId":\r1')),
            (None, encoded(Election(5, 1, ReplicaKey(3)))),
        ],
        ids=[
            "vote gone",
            "vote changed",
            "leader gone",
            "leader changed",
            "nothing new",
            "rot",
            "no election noted",
        ],
    )
    def test_an_epoch_that_lost_something_is_amnesia(self, known: Election | None, data: bytes) -> None:
        finding = judge_election(FILE, data, promised(known))
        assert finding.election == Election(5)
        assert "a vote may be forgotten" in finding.amnesia

    @pytest.mark.covers("D-05", "QS-01")
    def test_without_a_sidecar_what_parses_is_believed(self) -> None:
        assert judge_election(FILE, None, None).election == Election()
        assert judge_election(FILE, None, None).amnesia == ""
        assert judge_election(FILE, NEW, None).election == Election(5, -1, ReplicaKey(3))
        assert judge_election(FILE, b"", None).amnesia

    def test_a_file_that_was_never_written_may_be_missing(self) -> None:
        assert judge_election(FILE, None, LocalState()).amnesia == ""
        assert judge_election(FILE, None, LocalState(old_election=ABSENT, new_election=7)).amnesia == ""

    @pytest.mark.covers("QS-18")
    def test_an_unknown_version_is_not_read_as_another(self) -> None:
        finding = judge_election(FILE, NEW.replace(b'data_version":0', b'data_version":2'), None)
        assert "data_version 2" in finding.amnesia


@pytest.mark.covers("D-05", "QS-15", "QS-19")
def test_a_write_is_the_protocol_step_by_step() -> None:
    fs = SimFileSystem()
    fs.make_directory(HOME)
    disk = Disk(fs)
    sidecar = Sidecar(disk, HOME / "kraftd.state", read_sidecar(disk, HOME / "kraftd.state"))
    store = ElectionStore(disk, HOME, sidecar, ABSENT, voter_ids=(1, 2, 3))
    changes = Changes(fs)
    store.write(Election(5, -1, ReplicaKey(3)))
    assert fs.content(FILE) == NEW
    assert changes.calls == [
        ("pwrite", "kraftd.state"),
        ("fdatasync", "kraftd.state"),
        ("create", "quorum-state.tmp"),
        ("pwrite", "quorum-state.tmp"),
        ("fsync", "quorum-state.tmp"),
        ("rename", "quorum-state"),
        ("sync_directory", "log"),
        ("pwrite", "kraftd.state"),
    ]
    assert (sidecar.local_state.old_election, sidecar.local_state.new_election) == (crc32c(NEW), crc32c(NEW))
    refuse(fs, "rename")
    with pytest.raises(StorageFailure):
        store.write(Election(6, 3))
    assert sidecar.local_state.old_election == crc32c(NEW)
    assert sidecar.local_state.new_election != crc32c(NEW)


@pytest.mark.covers("D-07")
def test_leader_and_vote_of_an_epoch_are_both_written() -> None:
    fs = SimFileSystem()
    fs.make_directory(HOME)
    disk = Disk(fs)
    sidecar = Sidecar(disk, HOME / "kraftd.state", read_sidecar(disk, HOME / "kraftd.state"))
    store = ElectionStore(disk, HOME, sidecar, ABSENT, voter_ids=(1, 2, 3))
    store.write(Election(5, 3, ReplicaKey(3)))
    assert b'"leaderId":3,"leaderEpoch":5,"votedId":3' in fs.content(FILE)


@pytest.mark.covers("QS-17")
@pytest.mark.parametrize("version", [0, 1])
def test_the_version_follows_the_kind_of_voters(version: int) -> None:
    fs = SimFileSystem()
    fs.make_directory(HOME)
    disk = Disk(fs)
    sidecar = Sidecar(disk, HOME / "kraftd.state", read_sidecar(disk, HOME / "kraftd.state"))
    store = ElectionStore(disk, HOME, sidecar, ABSENT, version=version, voter_ids=(1, 2))
    store.write(Election(3, -1, ReplicaKey(2, b"v" * 16)))
    election, found = quorum_state.decode(fs.content(FILE))
    assert found == version
    assert election.voted == ReplicaKey(2, b"v" * 16 if version else bytes(16))
