"""`kraftd.state`: two slots, of which a crash can spoil one."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from kraftd.errors import StorageError
from kraftd.storage import Disk, OsFileSystem, StorageFailure
from kraftd.storage.sidecar import (
    SLOT_BYTES,
    LocalState,
    Sidecar,
    load_durable_sidecar,
    read_sidecar,
    remember_peer,
)
from kraftd.types import HealthKind, OffsetAndEpoch, PeerIdentity
from tests.crash.hooks import Changes, calm, refuse
from tests.sim.filesystem import SECTOR_BYTES, SimFileSystem

HOME = Path("/data")
FILE = HOME / "kraftd.state"


def fresh() -> SimFileSystem:
    fs = SimFileSystem()
    fs.make_directory(HOME)
    fs.sync_directory(Path("/"))
    return fs


def open_sidecar(fs: SimFileSystem) -> Sidecar:
    disk = Disk(fs)
    return Sidecar(disk, FILE, load_durable_sidecar(disk, FILE))


def promises_of(counter: int) -> LocalState:
    return LocalState(start_counter=counter, peers=(PeerIdentity(2, b"d" * 16, counter, b"s" * 16),))


@pytest.mark.covers("D-05")
def test_what_is_promised_comes_back(tmp_path: Path) -> None:
    disk = Disk(OsFileSystem())
    path = tmp_path / "kraftd.state"
    sidecar = Sidecar(disk, path, read_sidecar(disk, path))
    assert path.stat().st_size == 2 * SLOT_BYTES
    wanted = LocalState(
        old_election=1,
        new_election=2**32 - 1,
        election_epoch=7,
        start_counter=3,
        peers=(PeerIdentity(2, b"d" * 16, 9, b"s" * 16),),
        health="amnesia",
        reasons=("the vote is gone",),
    )
    sidecar.save(wanted)
    sidecar.raise_recovery_point(OffsetAndEpoch(100, 6))
    sidecar.close()
    state = read_sidecar(disk, path).state
    assert state is not None
    assert (state.local_state, state.recovery_point) == (wanted, OffsetAndEpoch(100, 6))


def test_a_missing_file_is_no_problem_and_no_state(tmp_path: Path) -> None:
    reading = read_sidecar(Disk(OsFileSystem()), tmp_path / "kraftd.state")
    assert (reading.state, reading.problem) == (None, "")


@pytest.mark.covers("D-05", "D-06")
def test_two_bad_slots_are_a_problem(tmp_path: Path) -> None:
    disk = Disk(OsFileSystem())
    path = tmp_path / "kraftd.state"
    for data in (b"", bytes(2 * SLOT_BYTES), b"\xff" * 100):
        path.write_bytes(data)
        reading = read_sidecar(disk, path)
        assert reading.state is None
        assert "neither of its two slots" in reading.problem


@pytest.mark.covers("D-05")
def test_unsynced_recovery_points_never_endanger_what_was_promised() -> None:
    fs = fresh()
    sidecar = open_sidecar(fs)
    promised = LocalState()
    durable = 0
    for step in range(1, 12):
        if step % 4 == 0:
            promised = promises_of(step)
            sidecar.save(promised)
            durable = step - 1
        sidecar.raise_recovery_point(OffsetAndEpoch(step, 1))
        for disk in fs.crash_states():
            state = read_sidecar(Disk(disk), FILE).state
            assert state is not None
            assert state.local_state == promised
            offset = state.recovery_point.offset if state.recovery_point is not None else 0
            assert durable <= offset <= step


@pytest.mark.covers("D-05", "D-06")
@pytest.mark.parametrize("bad_slot", [0, 1])
def test_one_bad_slot_takes_no_promise_that_was_made_twice(bad_slot: int) -> None:
    fs = fresh()
    sidecar = open_sidecar(fs)
    sidecar.save_twice(promises_of(1))
    sidecar.save_twice(promises_of(2))
    fs.forget_unsynced()
    fs.overwrite(FILE, bad_slot * SLOT_BYTES + 40, b"\xff")
    assert open_sidecar(fs).local_state == promises_of(2)


@pytest.mark.covers("D-05", "D-06")
@pytest.mark.parametrize("position", [0, 5 * SECTOR_BYTES, SLOT_BYTES, 2 * SLOT_BYTES - 1])
def test_a_slot_on_a_bad_sector_costs_no_more_than_itself(position: int) -> None:
    fs = fresh()
    sidecar = open_sidecar(fs)
    sidecar.save_twice(promises_of(1))
    sidecar.save_twice(promises_of(2))
    sidecar.close()
    fs.damage(FILE, "unreadable", position, Random(0))
    sidecar = open_sidecar(fs)
    assert sidecar.local_state == promises_of(2)
    sidecar.save_twice(promises_of(3))
    assert fs.bad_sectors() == []
    assert open_sidecar(fs).local_state == promises_of(3)


def test_a_bad_slot_is_overwritten_as_a_whole_page() -> None:
    """Of a page that is written in part, Linux reads the rest before: on a bad sector that fails."""
    fs = fresh()
    open_sidecar(fs).save_twice(promises_of(1))
    fs.forget_unsynced()
    fs.damage(FILE, "unreadable", SLOT_BYTES, Random(0))
    sidecar = open_sidecar(fs)
    sizes: list[int] = []

    def note(operation: str, _path: Path, size_bytes: int) -> None:
        if operation == "pwrite":
            sizes.append(size_bytes)

    fs.faults = note
    sidecar.save_twice(promises_of(2))
    assert sizes[0] == SLOT_BYTES > sizes[1]


def test_a_file_of_which_no_slot_can_be_read_is_a_problem() -> None:
    fs = fresh()
    open_sidecar(fs).close()
    for position in (0, SLOT_BYTES):
        fs.damage(FILE, "unreadable", position, Random(0))
    assert "neither of its two slots" in read_sidecar(Disk(fs), FILE).problem
    assert open_sidecar(fs).local_state.health == HealthKind.AMNESIA


@pytest.mark.covers("D-05")
def test_a_lowered_recovery_point_is_durable_at_once() -> None:
    fs = fresh()
    sidecar = open_sidecar(fs)
    sidecar.raise_recovery_point(OffsetAndEpoch(100, 1))
    sidecar.sync()
    sidecar.move_recovery_point(OffsetAndEpoch(40, 1))
    for disk in fs.crash_states():
        state = read_sidecar(Disk(disk), FILE).state
        assert state is not None
        assert state.recovery_point == OffsetAndEpoch(40, 1)


@pytest.mark.covers("D-05")
@pytest.mark.parametrize("to", [OffsetAndEpoch(40, 1), None], ids=["lower", "unknown"])
@pytest.mark.parametrize("bad_slot", [0, 1])
def test_a_bad_slot_does_not_bring_a_higher_recovery_point_back(
    to: OffsetAndEpoch | None, bad_slot: int
) -> None:
    fs = fresh()
    sidecar = open_sidecar(fs)
    for step in (90, 100):
        sidecar.raise_recovery_point(OffsetAndEpoch(step, 1))
        sidecar.sync()
    sidecar.move_recovery_point(to)
    fs.forget_unsynced()
    fs.overwrite(FILE, bad_slot * SLOT_BYTES + 40, b"\xff")
    assert open_sidecar(fs).recovery_point == to


@pytest.mark.covers("D-05", "D-21")
@pytest.mark.parametrize("raised", [90, 100])
def test_a_recovery_point_that_is_moved_up_is_in_both_slots(raised: int) -> None:
    """An installation moves it to the snapshot's end, and then empties the log: if one slot went bad, and the
    other one still said 40, a half-emptied log would look whole. A flush may just have written the same end.
    """
    fs = fresh()
    sidecar = open_sidecar(fs)
    sidecar.raise_recovery_point(OffsetAndEpoch(40, 1))
    sidecar.sync()
    sidecar.raise_recovery_point(OffsetAndEpoch(raised, 1))
    changes = Changes(fs)
    sidecar.move_recovery_point(OffsetAndEpoch(100, 1))
    assert changes.calls == [("pwrite", "kraftd.state"), ("fdatasync", "kraftd.state")] * 2
    for bad_slot in (0, 1):
        disk = fs.copy()
        disk.forget_unsynced()
        disk.overwrite(FILE, bad_slot * SLOT_BYTES + 40, b"\xff")
        assert open_sidecar(disk).recovery_point == OffsetAndEpoch(100, 1)


@pytest.mark.covers("D-03", "D-05")
def test_a_sync_counts_only_for_the_state_it_was_captured_with() -> None:
    """A flush thread syncs what it captured; a promise made meanwhile has synced by itself."""
    fs = fresh()
    sidecar = open_sidecar(fs)
    sidecar.raise_recovery_point(OffsetAndEpoch(1, 1))
    sequence = sidecar.unsynced_sequence
    sidecar.raise_recovery_point(OffsetAndEpoch(2, 1))
    sidecar.synced(sequence)
    assert sidecar.unsynced_sequence != 0
    sidecar.save(promises_of(1))
    assert sidecar.unsynced_sequence == 0
    sidecar.raise_recovery_point(OffsetAndEpoch(3, 1))
    sidecar.synced(sequence)
    for disk in fs.crash_states():
        state = read_sidecar(Disk(disk), FILE).state
        assert state is not None
        assert state.local_state == promises_of(1)


@pytest.mark.covers("D-04", "D-05")
def test_a_state_whose_sync_failed_is_not_believed_afterwards() -> None:
    fs = fresh()
    sidecar = open_sidecar(fs)
    sidecar.save(promises_of(1))
    refuse(fs, "fdatasync")
    with pytest.raises(StorageFailure):
        sidecar.save(promises_of(2))
    calm(fs)
    assert open_sidecar(fs).local_state == promises_of(1)


def test_a_peer_replaces_itself_only() -> None:
    local_state = promises_of(1)
    newer = PeerIdentity(2, b"e" * 16, 1, b"s" * 16)
    other = PeerIdentity(1, b"f" * 16, 4, b"s" * 16)
    for peer in (newer, other):
        local_state = remember_peer(local_state, peer)
    assert local_state.peers == (other, newer)


def test_as_many_peers_as_a_quorum_can_have_fit() -> None:
    fs = fresh()
    sidecar = open_sidecar(fs)
    peers = tuple(PeerIdentity(n, bytes([n]) * 16, 2**40, bytes([n]) * 16) for n in range(60))
    sidecar.save(msgspec.structs.replace(LocalState(reasons=("x" * 1_000,)), peers=peers))
    assert open_sidecar(fs).local_state.peers == peers


def test_more_peers_than_a_slot_holds_are_refused_and_change_nothing() -> None:
    fs = fresh()
    sidecar = open_sidecar(fs)
    sidecar.save(promises_of(1))
    peers = tuple(PeerIdentity(n, bytes(16), 2**40, bytes(16)) for n in range(200))
    with pytest.raises(StorageError, match="200 peers do not fit into its slots"):
        sidecar.save(LocalState(peers=peers))
    assert sidecar.local_state == open_sidecar(fs).local_state == promises_of(1)
