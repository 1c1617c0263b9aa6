"""Forgetting the other voters: what goes, what stays, and what a power cut may leave of it."""

from pathlib import Path

import msgspec
import pytest

from kraftd.errors import StorageError
from kraftd.storage import Disk, NodeDirectory, OsFileSystem, StorageFailure, format_directory
from kraftd.storage.forgetting import forget_peers
from kraftd.storage.sidecar import SidecarState, read_sidecar
from kraftd.types import FORGET_PEERS, REPORTED_BY_OTHERS, Election, HealthKind, PeerIdentity, ReplicaKey
from tests.crash.hooks import PowerCutError, calm, cut_power_before, refuse
from tests.sim.filesystem import SimFileSystem
from tests.unit.storage.batches import run_of

HOME = Path("/data")
FORGED = 2**31 - 1


def peer(node_id: int) -> PeerIdentity:
    return PeerIdentity(node_id, bytes([node_id]) * 16, FORGED, b"f" * 16)


def open_on(fs: SimFileSystem, path: Path = HOME) -> NodeDirectory:
    return NodeDirectory.open(fs, path, node_id=1, random_uuid=lambda: b"s" * 16, voter_ids=(1, 2, 3))


def poisoned(path: Path = HOME, reason: str = "", fs: SimFileSystem | None = None) -> SimFileSystem:
    """A disk of a node that voted, followed and flushed, and then believed two forged greetings."""
    fs = fs or SimFileSystem()
    format_directory(fs, path, cluster_id="c" * 22, node_id=1, directory_id=b"d" * 16, now_ms=1)
    node = open_on(fs, path)
    node.write_election(Election(3, 2, ReplicaKey(1)))
    node.remember_state_health(HealthKind.WHOLE)
    node.log.append(run_of(0, 10, epoch=3), 0, 10)
    for node_id in (2, 3):
        node.remember_peer(peer(node_id))
    if reason:
        node.remember_state_health(HealthKind.AMNESIA, [reason])
    node.close()
    return fs


def state_on(fs: SimFileSystem, path: Path = HOME) -> SidecarState:
    state = read_sidecar(Disk(fs), path / "kraftd.state").state
    assert state is not None
    return state


@pytest.mark.covers("D-06")
def test_what_earlier_versions_wrote_is_understood() -> None:
    """The words are on disks, and on the wire to a kraftctl of another release: they are not changed."""
    others = "the quorum knows another directory, or a later start, as node 1: this directory was replaced"
    assert others.startswith(REPORTED_BY_OTHERS)
    for reason, counts_again in ((others, True), (f"{others}; the election file is gone", False)):
        (done,) = forget_peers(poisoned(reason=reason), [HOME])
        assert done.counts_again is counts_again
    advice = "if nothing was restored or replaced, see kraftctl forget-peers in docs/operations.md (Trouble)"
    assert advice == FORGET_PEERS


@pytest.mark.covers("D-05", "D-06")
def test_the_others_are_forgotten_and_nothing_else() -> None:
    fs = poisoned()
    before = state_on(fs)
    (done,) = forget_peers(fs, [HOME])
    assert done.peers == (peer(2), peer(3))
    assert (done.node_id, done.directory, done.counts_again) == (1, str(HOME), False)
    assert state_on(fs) == SidecarState(
        before.recovery_point, msgspec.structs.replace(before.local_state, peers=())
    ), "flushed offset, checksums of the election, own start counter"
    node = open_on(fs)
    assert (node.peers, node.amnesia, node.damage, node.uninitialized) == ((), (), (), False)
    assert node.election == Election(3, 2, ReplicaKey(1))
    assert node.log.end_offset == 10
    node.close()


@pytest.mark.covers("D-05")
def test_it_is_in_both_slots_and_doing_it_again_changes_nothing() -> None:
    fs = poisoned()
    forget_peers(fs, [HOME])
    data = fs.durable_content(HOME / "kraftd.state")
    for slot in (0, 1):
        fs_one = fs.copy()
        fs_one.overwrite(HOME / "kraftd.state", slot * 4096, bytes(4096))
        assert state_on(fs_one).local_state.peers == ()
    (again,) = forget_peers(fs, [HOME, HOME])
    assert again.peers == ()
    assert fs.durable_content(HOME / "kraftd.state") == data


@pytest.mark.covers("D-06")
@pytest.mark.parametrize(
    ("reason", "stays"),
    [
        (f"{REPORTED_BY_OTHERS}1: this directory was replaced", False),
        (f"{REPORTED_BY_OTHERS}1: this directory was replaced; quorum-state: is empty", True),
        ("quorum-state: is empty", True),
    ],
)
def test_a_doubt_that_others_raised_goes_and_one_of_its_own_disk_stays(reason: str, *, stays: bool) -> None:
    fs = poisoned(reason=reason)
    (done,) = forget_peers(fs, [HOME])
    assert done.counts_again is not stays
    node = open_on(fs)
    assert node.amnesia == ((reason,) if stays else ())
    node.close()


@pytest.mark.covers("D-05")
def test_a_power_cut_leaves_the_old_memory_or_none() -> None:
    fs = poisoned()
    fs.sync_everything()
    seen = set()
    is_cut, number = True, 0
    while is_cut:
        tried = fs.copy()
        cut_power_before(tried, number)
        try:
            forget_peers(tried, [HOME])
            is_cut = False
        except PowerCutError:
            number += 1
        calm(tried)
        for left in tried.crash_states():
            seen.add(state_on(left).local_state.peers)
            node = open_on(left)
            assert (node.amnesia, node.election.epoch) == ((), 3)
            node.abandon()
    assert number > 3
    assert seen == {(), (peer(2), peer(3))}


def test_a_directory_in_use_is_refused_and_none_is_changed() -> None:
    fs = poisoned()
    other = Path("/other")
    poisoned(other, fs=fs)
    running = open_on(fs, other)
    with pytest.raises(StorageError, match=r"/other/.lock: another process holds it: stop that one"):
        forget_peers(fs, [HOME, other])
    assert state_on(fs).local_state.peers == (peer(2), peer(3))
    running.close()
    assert len(forget_peers(fs, [HOME, other])) == 2


def test_what_is_no_directory_of_a_node_is_refused_in_one_line(tmp_path: Path) -> None:
    fs = OsFileSystem()
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(StorageError, match=r"is no node's directory \(no meta.properties\)"):
            forget_peers(fs, [path])
    node = tmp_path / "node"
    format_directory(fs, node, cluster_id="c" * 22, node_id=1, directory_id=b"d" * 16, now_ms=1)
    with pytest.raises(StorageError, match="nobody is remembered"):
        forget_peers(fs, [node])
    (node / "kraftd.state").write_bytes(bytes(8192))
    with pytest.raises(StorageError, match="it remembers nobody"):
        forget_peers(fs, [node])
    assert not list(tmp_path.glob(".lock"))


def test_a_disk_that_refuses_says_so() -> None:
    fs = poisoned()
    refuse(fs, "fdatasync")
    with pytest.raises(StorageFailure):
        forget_peers(fs, [HOME])
