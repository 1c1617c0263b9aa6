"""The file protocols of storage against what a power cut may leave.

Each scenario runs until the power fails before its n-th change of the disk, for every n. Each disk that may
be left is opened again, as a node would, and must show what the scenario had been promised by then.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count

import pytest

from kraftd.storage import Access, LogConfig, NodeDirectory, format_directory
from kraftd.storage.disk import StorageFailure
from kraftd.storage.sidecar import SLOT_BYTES
from kraftd.types import Election, HealthKind, OffsetAndEpoch, PeerIdentity, ReplicaKey
from tests.crash.hooks import Changes, PowerCutError, calm, cut_power_before
from tests.crash.promises import HOME, Ids, batches_in, open_home, snapshot_of
from tests.sim.filesystem import SimFileSystem
from tests.unit.storage.batches import batch, run_of

SMALL = LogConfig(segment_bytes=600, index_bytes=96)

ids = Ids(1)


def opened(fs: SimFileSystem) -> NodeDirectory:
    return open_home(fs, SMALL, ids)


def formatted() -> SimFileSystem:
    fs = SimFileSystem()
    format_directory(fs, HOME, cluster_id="cluster", node_id=1, directory_id=ids(), now_ms=5)
    return fs


def after_every_cut(
    start: SimFileSystem, scenario: Callable[[SimFileSystem, list], None]
) -> Iterator[tuple[list, SimFileSystem]]:
    """What the scenario had noted when the power failed, with each disk that may be left."""
    for number in count():
        fs = next(start.crash_states())
        noted: list = []
        cut_power_before(fs, number)
        try:
            scenario(fs, noted)
        except PowerCutError:
            for disk in fs.crash_states():
                yield noted, disk
            continue
        calm(fs)
        for disk in fs.crash_states():
            yield noted, disk
        return


def assert_sound(node: NodeDirectory) -> None:
    assert node.damage == ()
    assert node.amnesia == ()


@pytest.mark.covers("D-02", "D-03", "D-04", "D-05", "LOG-18")
def test_what_was_flushed_survives_appends_and_rolls() -> None:
    batches = run_of(0, 14)
    fs = formatted()
    node = opened(fs)
    node.write_election(Election(1, 1, ReplicaKey(1)))
    node.log.assign_epoch(1, 0)
    node.close()

    def scenario(fs: SimFileSystem, noted: list) -> None:
        node = opened(fs)
        for offset, data in enumerate(batches):
            node.log.append((data,), offset, offset + 1)
            if offset % 3 == 2:
                job = node.log.begin_flush(sync_recovery_point=offset % 2 == 0)
                job.run()
                noted.append(node.log.flush_done(job)[1])

    checked = 0
    for noted, disk in after_every_cut(fs, scenario):
        node = opened(disk)
        assert_sound(node)
        found = [*batches_in(node)]
        assert found == batches[: len(found)]
        assert len(found) >= (noted[-1] if noted else 0)
        assert node.election == Election(1, 1, ReplicaKey(1))
        more = batch(len(found))
        node.log.append((more,), len(found), len(found) + 1)
        node.close()
        node = opened(disk)
        assert batches_in(node) == (*found, more)
        node.abandon()
        checked += 1
    assert checked > 300


@pytest.mark.covers("D-03", "D-05", "LOG-07")
@pytest.mark.parametrize("cut_at", [0, 5, 13])
def test_a_truncation_never_mixes_two_histories(cut_at: int) -> None:
    old, new = run_of(0, 14), run_of(cut_at, cut_at + 4, epoch=2)
    fs = formatted()
    node = opened(fs)
    node.write_election(Election(2, 2))
    for offset, data in enumerate(old):
        node.log.append((data,), offset, offset + 1)
    node.close()

    def scenario(fs: SimFileSystem, noted: list) -> None:
        node = opened(fs)
        node.log.truncate(cut_at, 1)
        noted.append("cut")
        node.log.append(new[:2], cut_at, cut_at + 2)
        node.log.append(new[2:], cut_at + 2, cut_at + 4)
        node.log.flush()
        noted.append("flushed")

    for noted, disk in after_every_cut(fs, scenario):
        node = opened(disk)
        assert_sound(node)
        found = [*batches_in(node)]
        if not noted:
            assert len(found) >= cut_at
            assert found == old[: len(found)]
        elif noted == ["cut"]:
            assert found[:cut_at] == old[:cut_at]
            assert found[cut_at:] == new[: len(found) - cut_at]
        else:
            assert found == old[:cut_at] + new
        assert all(entry.start_offset < max(node.log.end_offset, 1) for entry in node.log.epochs)
        node.abandon()


@pytest.mark.covers("D-21", "D-23", "SNAP-23")
@pytest.mark.parametrize("at", [5, 30])
def test_an_installation_leaves_the_old_log_or_the_new_one(at: int) -> None:
    """Over a log that holds other records behind the snapshot, and over one that it goes further than."""
    old, snapshot_id = run_of(0, 14), OffsetAndEpoch(at, 2)
    fs = formatted()
    node = opened(fs)
    node.write_election(Election(2, 2))
    for offset, data in enumerate(old):
        node.log.append((data,), offset, offset + 1)
    node.close()

    def scenario(fs: SimFileSystem, noted: list) -> None:
        node = opened(fs)
        writer = node.snapshots.writer(snapshot_id)
        writer.append(snapshot_of(snapshot_id))
        node.snapshots.add(writer.freeze())
        node.install_snapshot(snapshot_id, 1)
        noted.append("installed")

    for noted, disk in after_every_cut(fs, scenario):
        node = opened(disk)
        assert_sound(node)
        log = node.log
        if noted or log.start_offset:
            assert (log.start_offset, log.end_offset, log.last_epoch) == (at, at, 2)
            assert [info.id for info in node.snapshots.infos] == [snapshot_id]
        else:
            assert [*batches_in(node)] == old
        node.abandon()


@pytest.mark.covers("D-05", "D-06", "QS-15")
def test_an_election_is_the_old_one_or_the_new_one_and_always_believed() -> None:
    elections = [
        Election(1, -1, ReplicaKey(1)),
        Election(1, 1, ReplicaKey(1)),
        Election(4, 3),
    ]
    fs = formatted()
    first = opened(fs)
    first.write_election(Election())
    first.close()

    def scenario(fs: SimFileSystem, noted: list) -> None:
        node = opened(fs)
        for number, election in enumerate(elections):
            node.write_election(election)
            noted.append(election)
            node.remember_peer(PeerIdentity(2, bytes(15) + b"\x02", number, bytes(16)))

    for noted, disk in after_every_cut(fs, scenario):
        node = opened(disk)
        assert_sound(node)
        last = len(noted)
        assert node.election in [Election(), *elections][last : last + 2]
        counters = [peer.start_counter for peer in node.peers]
        assert counters == [] if last == 0 else counters in ([last - 1], [last - 2] if last > 1 else [])
        node.abandon()


@pytest.mark.covers("D-05", "D-06")
def test_no_two_starts_share_a_counter() -> None:
    def scenario(fs: SimFileSystem, noted: list) -> None:
        for _ in range(3):
            node = opened(fs)
            noted.append(node.start_counter)
            node.abandon()

    for noted, disk in after_every_cut(formatted(), scenario):
        node = opened(disk)
        assert_sound(node)
        assert node.uninitialized
        assert node.start_counter > max(noted, default=0)
        node.abandon()


def test_a_directory_is_formatted_wholly_or_not_at_all() -> None:
    def scenario(fs: SimFileSystem, noted: list) -> None:
        format_directory(fs, HOME / "a", cluster_id="c", node_id=1, directory_id=ids(), now_ms=5)
        noted.append("formatted")

    for noted, disk in after_every_cut(SimFileSystem(), scenario):
        again = format_directory(
            disk, HOME / "a", cluster_id="c", node_id=1, directory_id=ids(), now_ms=5, ignore_formatted=True
        )
        assert again.already or not noted
        node = NodeDirectory.open(disk, HOME / "a", node_id=1, random_uuid=ids)
        assert len(node.bootstrap_records()) == 6
        node.abandon()


def killed_before(
    start: SimFileSystem, scenario: Callable[[SimFileSystem], object]
) -> Iterator[SimFileSystem]:
    """Disk and page cache as a process leaves them that is killed before its n-th change, for every n."""
    for number in count():
        fs = start.copy()
        cut_power_before(fs, number)
        try:
            scenario(fs)
        except PowerCutError:
            fs.crash_process()
            calm(fs)
            yield fs
            continue
        return


@pytest.mark.covers("D-04", "D-05", "D-06")
def test_names_that_a_killed_start_left_are_durable_once_opened() -> None:
    """Else a power cut takes the sidecar, or the whole log, with all that was promised since."""
    for fs in killed_before(formatted(), opened):
        node = opened(fs)
        node.write_election(Election(1, 1, ReplicaKey(1)))
        fs.forget_unsynced()
        again = opened(fs)
        assert_sound(again)
        assert again.start_counter > node.start_counter
        assert again.election == Election(1, 1, ReplicaKey(1))


def test_names_that_a_killed_format_left_are_durable_once_it_says_so() -> None:
    def scenario(fs: SimFileSystem) -> bool:
        return format_directory(
            fs, HOME / "a", cluster_id="c", node_id=1, directory_id=ids(), now_ms=5, ignore_formatted=True
        ).already

    for fs in killed_before(SimFileSystem(), scenario):
        scenario(fs)
        fs.forget_unsynced()
        assert scenario(fs)


OPERATIONS = ("pwrite", "pwritev", "fsync", "fdatasync", "ftruncate", "rename", "unlink", "sync_directory")


def busy(fs: SimFileSystem) -> None:
    """Every kind of change to a disk, at least once."""
    node = opened(fs)
    node.write_election(Election(1, 1))
    node.log.append(run_of(0, 4), 0, 4)
    node.log.append(run_of(4, 9), 4, 9)
    node.log.flush()
    node.log.truncate(2, 1)
    node.close()


@pytest.mark.covers("D-03")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_first_failure_is_final_wherever_it_happens(operation: str) -> None:
    """After it nothing reaches the disk any more, not even if the caller tries again."""
    dry = formatted()
    changes = Changes(dry)
    busy(dry)
    places = [number for number, call in enumerate(changes.calls) if call[0] == operation]
    assert places
    for place in places:
        fs = formatted()

        def fault(_operation: str, _name: str, number: int, place: int = place) -> None:
            if number == place:
                raise OSError(5, "Input/output error")

        changes = Changes(fs, fault)
        with pytest.raises(StorageFailure, match="Input/output error"):
            busy(fs)
        assert len(changes.calls) == place


@pytest.mark.covers("D-03")
def test_a_short_write_is_a_failure() -> None:
    fs = formatted()
    node = opened(fs)
    Changes(
        fs,
        lambda operation, name, _: 10 if operation.startswith("pwrite") and name.endswith(".log") else None,
    )
    with pytest.raises(StorageFailure, match="only 10 of"):
        node.log.append((batch(0),), 0, 1)
    changes = Changes(fs)
    for attempt in (
        lambda: node.log.append((batch(0),), 0, 1),
        node.log.flush,
        lambda: node.write_election(Election(9)),
    ):
        with pytest.raises(StorageFailure, match="only 10 of"):
            attempt()
    node.close()
    assert changes.calls == []
    survivors: Sequence[SimFileSystem] = list(fs.crash_states())
    assert all(opened(disk).log.end_offset == 0 for disk in survivors)


@pytest.mark.covers("D-05", "D-06")
def test_a_start_that_dies_does_not_hide_that_promises_were_forgotten() -> None:
    fs = formatted()
    node = opened(fs)
    node.remember_state_health(HealthKind.WHOLE)
    node.write_election(Election(4, -1, ReplicaKey(1)))
    node.log.append(run_of(0, 3, epoch=4), 0, 3)
    node.log.flush()
    node.close()
    handle = fs.open(HOME / "kraftd.state", Access.WRITE)
    fs.pwrite(handle, bytes(2 * SLOT_BYTES), 0)
    fs.fsync(handle)
    fs.close(handle)

    def start(fs: SimFileSystem, _noted: list) -> None:
        opened(fs).close()

    disks = 0
    for _, disk in after_every_cut(fs, start):
        node = opened(disk)
        assert "neither of its two slots" in str(node.amnesia)
        node.close()
        disks += 1
    assert disks > 10
