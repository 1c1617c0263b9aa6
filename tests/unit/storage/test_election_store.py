"""`quorum-state`: written by the protocol, and not believed when nobody vouches for it."""

from pathlib import Path

import pytest
from crc32c import crc32c
from msgspec import structs

from kraftd.errors import MalformedError
from kraftd.records import quorum_state
from kraftd.storage import Disk, StorageFailure
from kraftd.storage.election_store import ElectionStore, checksum_of, judge_election
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
    def test_the_old_and_the_new_file_are_both_good_beside_a_sidecar_without_the_election(
        self, data: bytes, election: Election
    ) -> None:
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

    @pytest.mark.covers("D-05", "D-06")
    @pytest.mark.parametrize("data", [None, OLD, SAME], ids=["missing", "older", "another vote"])
    def test_what_was_not_believed_once_is_not_believed_at_the_next_start(self, data: bytes | None) -> None:
        checksum = checksum_of(data)
        noted = structs.replace(
            KNOWN, old_election=checksum, new_election=checksum, election=Election(5), health="amnesia"
        )
        assert judge_election(FILE, data, noted).election == Election(5)

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


REPLACED = [
    ("create", "quorum-state.tmp"),
    ("pwrite", "quorum-state.tmp"),
    ("fsync", "quorum-state.tmp"),
    ("rename", "quorum-state"),
    ("sync_directory", "log"),
]


def store_of(fs: SimFileSystem, found: bytes | None = None, **options: int) -> tuple[Sidecar, ElectionStore]:
    """The writer of a file, which has this content."""
    fs.make_directory(HOME)
    disk = Disk(fs)
    if found is not None:
        disk.replace(FILE, found)
    sidecar = Sidecar(disk, HOME / "kraftd.state", read_sidecar(disk, HOME / "kraftd.state"))
    store = ElectionStore(disk, HOME, sidecar, checksum_of(found), voter_ids=(1, 2, 3), **options)
    return sidecar, store


@pytest.mark.covers("D-05", "D-41", "QS-15", "QS-19")
def test_the_first_write_replaces_the_file_and_the_next_ones_overwrite_it_after_the_sidecar() -> None:
    fs = SimFileSystem()
    sidecar, store = store_of(fs)
    changes = Changes(fs)
    store.write(Election(5, -1, ReplicaKey(3)))
    assert fs.content(FILE) == NEW.ljust(512)
    slot = [("pwrite", "kraftd.state"), ("fdatasync", "kraftd.state")]
    assert changes.calls == [*slot, *REPLACED, ("pwrite", "kraftd.state")]
    assert (sidecar.local_state.old_election, sidecar.local_state.new_election) == (crc32c(NEW), crc32c(NEW))

    in_place = [("pwrite", "quorum-state"), ("fdatasync", "quorum-state"), ("pwrite", "kraftd.state")]
    for election, place in ((Election(6, -1, ReplicaKey(3)), 1), (Election(6, 3, ReplicaKey(3)), 0)):
        del changes.calls[:]
        store.write(election)
        assert changes.calls == [*slot, *in_place]
        assert fs.content(FILE) == (b" " * 256 * place + encoded(election)).ljust(512)

    store.write(Election(6, 3, ReplicaKey(3)))
    assert fs.content(FILE).startswith(b"{"), "the same line again goes over itself: torn, it is the same"

    refuse(fs, "fdatasync")
    with pytest.raises(StorageFailure):
        store.write(Election(7, 3))
    assert sidecar.local_state.old_election == crc32c(encoded(Election(6, 3, ReplicaKey(3))))


@pytest.mark.covers("D-41")
def test_a_clean_stop_leaves_kafkas_bytes_and_a_start_makes_room() -> None:
    fs = SimFileSystem()
    _, store = store_of(fs)
    store.write(VOTED)
    store.close()
    assert fs.content(FILE) == NEW
    fs = SimFileSystem()
    _, store = store_of(fs, NEW)
    changes = Changes(fs)
    store.prepare(judge_election(FILE, NEW, None))
    assert changes.calls == REPLACED, "the line is the same, and so is its checksum"
    assert fs.content(FILE) == NEW.ljust(512)


@pytest.mark.covers("D-41")
def test_a_file_that_a_killed_process_left_is_overwritten_in_the_other_place() -> None:
    for place in (0, 1):
        fs = SimFileSystem()
        found = quorum_state.in_place(NEW, place)
        _, store = store_of(fs, found)
        store.prepare(judge_election(FILE, found, None))
        assert fs.content(FILE) == found
        store.write(Election(6))
        assert fs.content(FILE) == quorum_state.in_place(encoded(Election(6)), 1 - place)


@pytest.mark.covers("D-41")
@pytest.mark.parametrize("found", [encoded(Election(4, 2)), None], ids=["of Kafka", "gone"])
def test_what_is_no_longer_the_file_that_was_left_is_replaced(found: bytes | None) -> None:
    fs = SimFileSystem()
    _, store = store_of(fs)
    store.write(VOTED)
    fs.unlink(FILE)
    if found is not None:
        Disk(fs).replace(FILE, found)
    changes = Changes(fs)
    store.write(Election(6))
    assert [call for call in changes.calls if call[0] == "rename"] == [("rename", "quorum-state")]
    assert fs.content(FILE) == encoded(Election(6)).ljust(512)


@pytest.mark.covers("D-41")
def test_a_line_that_is_too_long_is_replaced_each_time() -> None:
    fs = SimFileSystem()
    fs.make_directory(HOME)
    disk = Disk(fs)
    sidecar = Sidecar(disk, HOME / "kraftd.state", read_sidecar(disk, HOME / "kraftd.state"))
    voters = tuple(range(1, 21))
    store = ElectionStore(disk, HOME, sidecar, ABSENT, voter_ids=voters)
    for epoch in (5, 6):
        store.write(Election(epoch))
        assert fs.content(FILE) == quorum_state.encode(Election(epoch), version=0, voter_ids=voters)


class TestUnfinished:
    """A write was cut short between the sidecar and the file, or in the midst of the file."""

    @pytest.mark.covers("D-41")
    @pytest.mark.parametrize("place", [0, 1])
    @pytest.mark.parametrize("written", [0, 1, 30, 150, 256, 300, 400, 511, 512])
    def test_the_newer_of_sidecar_and_file_is_believed_and_written(self, place: int, written: int) -> None:
        old, new = quorum_state.in_place(OLD, place), quorum_state.in_place(NEW, 1 - place)
        found = new[:written] + old[written:]
        finding = judge_election(FILE, found, promised(VOTED))
        assert (finding.election, finding.amnesia, finding.written_elsewhere) == (VOTED, "", False)
        fs = SimFileSystem()
        _, store = store_of(fs, found)
        store.prepare(finding)
        assert quorum_state.decode(fs.content(FILE)) == (VOTED, 0)
        assert store.checksum == crc32c(NEW)

    @pytest.mark.covers("D-41")
    @pytest.mark.parametrize("written", range(0, 513, 3))
    def test_no_tear_reads_as_an_election_that_was_neither(self, written: int) -> None:
        for place in (0, 1):
            old, new = quorum_state.in_place(OLD, place), quorum_state.in_place(NEW, 1 - place)
            try:
                election, _ = quorum_state.decode(new[:written] + old[written:])
            except MalformedError:
                continue
            assert election in (Election(4, 2), VOTED)

    @pytest.mark.covers("D-05", "D-41")
    @pytest.mark.parametrize(
        ("found", "remembered"),
        [
            (b"{" + NEW[2:], promised(VOTED)),
            (quorum_state.in_place(NEW[:-4], 1), structs.replace(promised(VOTED), old_election=crc32c(NEW))),
            (quorum_state.in_place(SAME, 1), promised(VOTED)),
            (None, promised(VOTED)),
        ],
        ids=["not of our size", "after it was written", "another vote", "gone"],
    )
    def test_what_is_not_torn_is_amnesia_as_ever(self, found: bytes | None, remembered: LocalState) -> None:
        finding = judge_election(FILE, found, remembered)
        assert finding.election == Election(5)
        assert "a vote may be forgotten" in finding.amnesia


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
