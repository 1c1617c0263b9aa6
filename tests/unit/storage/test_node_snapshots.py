"""A node's directory and its snapshots: installed, cut at, found at a start, damaged."""

from pathlib import Path

import pytest

from kraftd.errors import InvariantError, StorageError
from kraftd.logtools.inspection import inspect_directory
from kraftd.records import names
from kraftd.records.snapshot import encode_snapshot
from kraftd.storage import FileSystem, LogConfig, NodeDirectory, OsFileSystem, format_directory
from kraftd.types import Election, HealthKind, OffsetAndEpoch, ReplicaKey
from tests.unit.storage.batches import batch, run_of
from tests.unit.storage.test_node_directory import log_path, random_uuid

SMALL = LogConfig(segment_bytes=4 * len(batch(0)))


def open_at(path: Path, fs: FileSystem | None = None) -> NodeDirectory:
    return NodeDirectory.open(
        fs or OsFileSystem(), path, node_id=1, random_uuid=random_uuid, voter_ids=(1, 2, 3), config=SMALL
    )


def used(path: Path, end: int = 14, epoch: int = 3) -> NodeDirectory:
    """A node that counts, and has flushed some records of one epoch."""
    format_directory(
        OsFileSystem(),
        path,
        cluster_id="c",
        node_id=1,
        directory_id=b"d" * 16,
        now_ms=1,
        ignore_formatted=True,
    )
    node = open_at(path)
    node.write_election(Election(epoch, 2, ReplicaKey(1)))
    node.remember_state_health(HealthKind.WHOLE)
    if end:
        node.log.append(run_of(0, end, epoch), 0, end)
        node.log.flush()
    return node


def freeze(node: NodeDirectory, offset: int, epoch: int = 3) -> OffsetAndEpoch:
    """Write a snapshot, and let it count."""
    snapshot_id = OffsetAndEpoch(offset, epoch)
    writer = node.snapshots.writer(snapshot_id)
    for piece in encode_snapshot([b"record"] * 2_000, epoch, offset, last_contained_timestamp_ms=offset):
        writer.append(piece)
    node.snapshots.add(writer.freeze())
    return snapshot_id


def offsets_of(node: NodeDirectory) -> list[int]:
    return [info.id.offset for info in node.snapshots.infos]


def spoil(node: NodeDirectory, snapshot_id: OffsetAndEpoch) -> Path:
    path = log_path(node.path) / names.snapshot_name(snapshot_id)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(bytes(data))
    return path


def checkpoints(path: Path) -> list[str]:
    return sorted(file.name for file in log_path(path).glob("*.checkpoint*"))


@pytest.mark.covers("SNAP-21", "D-21")
@pytest.mark.parametrize("end", [0, 9, 14, 40])
def test_an_installed_snapshot_is_the_log(tmp_path: Path, end: int) -> None:
    node = used(tmp_path, end)
    if end > 5:
        freeze(node, 5)
    installed = freeze(node, 30, 4)
    node.install_snapshot(installed, 1)
    assert (node.log.start_offset, node.log.end_offset, node.log.last_epoch) == (30, 30, 4)
    assert offsets_of(node) == [30]
    assert node.take_removal().run() == ()
    assert checkpoints(tmp_path) == [names.snapshot_name(installed)]
    node.write_election(Election(4, 2))
    node.log.append(run_of(30, 33, 4), 30, 33)
    node.log.flush()
    node.close()
    node = open_at(tmp_path)
    assert (node.damage, node.amnesia, node.warnings) == ((), (), ())
    assert (node.log.start_offset, node.log.end_offset, offsets_of(node)) == (30, 33, [30])
    assert node.high_watermark == 30
    node.close()


@pytest.mark.covers("D-21")
def test_only_what_counts_is_installed_or_cut_at(tmp_path: Path) -> None:
    node = used(tmp_path)
    with pytest.raises(InvariantError, match="cannot be installed"):
        node.install_snapshot(OffsetAndEpoch(30, 4), 1)
    with pytest.raises(InvariantError, match="cannot begin at"):
        node.cut_front(OffsetAndEpoch(10, 3))
    node.close()


@pytest.mark.covers("SNAP-05", "CLN-06")
@pytest.mark.parametrize(("offset", "counts"), [(8, False), (9, True)])
def test_one_that_gets_its_name_behind_a_cut_counts_if_the_log_begins_there(
    tmp_path: Path, offset: int, counts: bool
) -> None:
    """At the log's start it takes the place of a lost snapshot: nothing else holds the state there."""
    node = used(tmp_path)
    late = freeze(node, offset)
    (info,) = node.snapshots.infos
    first = freeze(node, 9)
    node.cut_front(first)
    node.snapshots.mark_damaged(first)
    assert node.add_snapshot(info) is counts
    assert offsets_of(node) == ([late.offset] if counts else [])
    node.close()


@pytest.mark.covers("CLN-06", "D-21", "D-22")
@pytest.mark.parametrize("taken", ["00000000000000000000.log", "00000000000000000003-0000000003.checkpoint"])
@pytest.mark.parametrize("is_cut", [True, False])
def test_a_directory_with_the_name_of_a_retired_file_ends_neither_a_cut_nor_an_installation(
    tmp_path: Path, taken: str, is_cut: bool
) -> None:
    node = used(tmp_path)
    _, second = freeze(node, 3), freeze(node, 9)
    (log_path(tmp_path) / f"{taken}.deleted").mkdir()
    if is_cut:
        node.cut_front(second)
    else:
        node.install_snapshot(freeze(node, 30, 4), 1)
        node.write_election(Election(4, 2))
    start_offset = node.log.start_offset
    assert [taken in problem for problem in node.take_removal().run()] == [True]
    node.close()
    node = open_at(tmp_path)
    assert (node.log.start_offset, node.damage, node.amnesia) == (start_offset, (), ())
    assert any(taken in warning and "is a directory" in warning for warning in node.warnings)
    node.close()


@pytest.mark.covers("CLN-06", "CLN-07", "D-22")
def test_a_cut_takes_the_snapshots_before_it_and_lasts(tmp_path: Path) -> None:
    node = used(tmp_path)
    _, second, _ = (freeze(node, offset) for offset in (3, 9, 12))
    node.cut_front(second)
    assert (node.log.start_offset, offsets_of(node)) == (9, [9, 12])
    assert checkpoints(tmp_path)[0].endswith(".deleted")
    node.close()
    node = open_at(tmp_path)
    assert (node.log.start_offset, node.log.end_offset, offsets_of(node)) == (9, 14, [9, 12])
    assert (node.damage, node.amnesia) == ((), ())
    node.close()


@pytest.mark.covers("SNAP-24")
def test_snapshots_below_the_log_go_at_a_start(tmp_path: Path) -> None:
    node = used(tmp_path)
    for offset in (3, 12):
        freeze(node, offset)
    node.close()
    (log_path(tmp_path) / f"{0:020}.log").unlink()
    node = open_at(tmp_path)
    assert (node.log.start_offset, offsets_of(node), node.damage) == (12, [12], ())
    node.take_removal().run()
    assert checkpoints(tmp_path) == [f"{12:020}-{3:010}.checkpoint"]
    node.close()


@pytest.mark.covers("D-06", "D-23")
def test_nothing_behind_damage_is_known_to_be_committed(tmp_path: Path) -> None:
    """It would be applied before anybody was heard, and what it is of is not there."""
    node = used(tmp_path)
    node.raise_high_watermark(14)
    node.close()
    for segment in sorted(log_path(tmp_path).glob("*.log")):
        data = bytearray(segment.read_bytes())
        data[len(data) // 2] ^= 1
        segment.write_bytes(data)
    node = open_at(tmp_path)
    assert node.damage
    assert node.known_committed <= min(damage.offset for damage in node.report.damage) < 14
    node.close()


@pytest.mark.covers("D-23")
def test_a_damaged_newest_one_is_no_loss_if_the_log_reaches_back(tmp_path: Path) -> None:
    node = used(tmp_path)
    first, second, third = (freeze(node, offset) for offset in (5, 9, 12))
    node.cut_front(first)
    assert node.take_removal().run() == ()
    bad = [spoil(node, each) for each in (second, third)]
    node.close()
    node = open_at(tmp_path)
    assert (node.log.start_offset, node.log.end_offset, offsets_of(node)) == (5, 14, [5])
    assert (node.damage, node.amnesia) == ((), ())
    assert [str(path) in text for path, text in zip(bad, node.warnings, strict=True)] == [True, True]
    assert "byte" in node.warnings[0]
    assert node.warnings[0].endswith("; the snapshot at offset 5 is used instead")
    node.close()


def beside(node: NodeDirectory, offset: int, epoch: int = 3) -> Path:
    return log_path(node.path) / names.snapshot_name(OffsetAndEpoch(offset, epoch))


def hurt(node: NodeDirectory) -> dict[str, Path]:
    """Files with a snapshot's name that do not count, each in another way."""
    found = {
        "no header": beside(node, 1),
        "a foreign epoch": beside(node, 2, epoch=9),
        "not of this log": beside(node, 3, epoch=1),
        "empty": beside(node, 6),
    }
    data = {epoch: b"".join(encode_snapshot([], epoch, 1, last_contained_timestamp_ms=1)) for epoch in (1, 3)}
    for path, content in zip(found.values(), (b"?" * 100, data[3], data[1], b""), strict=True):
        path.write_bytes(content)
    return found


@pytest.mark.covers("CLN-06", "SNAP-24")
@pytest.mark.parametrize("how", ["cut", "installed"])
def test_what_does_not_count_goes_with_what_is_before_the_logs_start(tmp_path: Path, how: str) -> None:
    node = used(tmp_path)
    freeze(node, 12)
    kept = beside(node, 13)
    kept.write_bytes(b"")
    node.close()
    bad = hurt(node)
    node = open_at(tmp_path)
    assert all(path.exists() for path in bad.values()), "the log reaches back to before them"
    assert offsets_of(node) == [12]
    if how == "cut":
        node.cut_front(OffsetAndEpoch(12, 3))
    else:
        node.install_snapshot(freeze(node, 30, 4), 1)
        kept = beside(node, 30, 4)
    assert not any(path.exists() for path in bad.values())
    assert node.take_removal().run() == ()
    assert kept.name in checkpoints(tmp_path)
    assert not [name for name in checkpoints(tmp_path) if name.endswith(".deleted")]
    node.close()


@pytest.mark.covers("SNAP-24")
def test_what_does_not_count_and_lies_before_the_log_goes_at_a_start_in_one_line_each(tmp_path: Path) -> None:
    node = used(tmp_path)
    node.cut_front(freeze(node, 9))
    node.close()
    bad = hurt(node)
    folder = beside(node, 4)
    folder.mkdir()
    node = open_at(tmp_path)
    assert (node.log.start_offset, offsets_of(node)) == (9, [9])
    assert checkpoints(tmp_path) == [
        folder.name,
        names.snapshot_name(OffsetAndEpoch(9, 3)),
    ]
    for name in ("no header", "a foreign epoch", "empty"):
        (line,) = [text for text in node.warnings if str(bad[name]) in text]
        assert "at byte 0: " in line
        assert line.endswith("; removed: it is of no use to a log that begins at offset 9")
    (line,) = [text for text in node.warnings if str(folder) in text]
    assert line == f"{folder}: is a directory, and no snapshot: remove it"
    node.close()
    node = open_at(tmp_path)
    assert node.warnings == (line,)
    node.cut_front(freeze(node, 12))
    assert node.take_removal().run() == ()
    assert folder.exists(), "only files are removed"
    node.close()


@pytest.mark.covers("D-06", "D-23")
def test_a_log_that_only_a_damaged_snapshot_leads_to_is_set_aside_until_another_is_installed(
    tmp_path: Path,
) -> None:
    node = used(tmp_path)
    only = freeze(node, 9)
    node.cut_front(only)
    records = {path.name: path.read_bytes() for path in log_path(tmp_path).glob("*.log")}
    path = spoil(node, only)
    node.close()
    for _ in range(2):
        node = open_at(tmp_path)
        assert (node.log.start_offset, node.log.end_offset, offsets_of(node)) == (0, 0, [])
        (reason,) = node.amnesia
        assert reason.startswith(f"{path} at byte ")
        assert "the log begins at offset 8, and nothing else holds the state before it" in reason
        assert (node.uninitialized, node.damage, node.high_watermark) == (False, (), 0)
        node.abandon()
    aside = {
        path.name.removesuffix(".aside"): path.read_bytes() for path in log_path(tmp_path).glob("*.aside")
    }
    assert aside == records
    node = open_at(tmp_path)
    node.install_snapshot(freeze(node, 40, 3), 1)
    assert node.take_removal().run() == ()
    assert list(log_path(tmp_path).glob("*.aside")) == []
    node.close()


class KilledError(Exception):
    """Where a process ended."""


class KilledOnTheWay(OsFileSystem):
    """Its process ends when it would set another segment aside, or has set all of them aside."""

    def __init__(self, set_aside: int) -> None:
        super().__init__()
        self.renames_left = set_aside

    def rename(self, source: Path, target: Path) -> None:
        if target.name.endswith(names.LOG + names.ASIDE):
            if not self.renames_left:
                raise KilledError
            self.renames_left -= 1
        super().rename(source, target)

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        if path.name == names.LOG_DIRECTORY and self.renames_left == 0 and self.is_last(path):
            raise KilledError

    def is_last(self, log_directory: Path) -> bool:
        return not any(name.endswith(names.LOG) for name in self.names(log_directory))


@pytest.mark.covers("D-06", "D-23")
@pytest.mark.parametrize("older", [False, True], ids=["nothing else", "an older snapshot"])
@pytest.mark.parametrize("set_aside", [0, 1, 2, 3, 4])
def test_a_start_that_is_killed_while_it_sets_a_log_aside_is_ended_by_the_next(
    tmp_path: Path, set_aside: int, *, older: bool
) -> None:
    """With an older snapshot it begins there: that is the newest whole state that this node has."""
    node = used(tmp_path, 22)
    whole = beside(node, freeze(node, 5).offset).read_bytes()
    only = freeze(node, 9)
    node.cut_front(only)
    assert node.take_removal().run() == ()
    spoil(node, only)
    node.close()
    if older:
        beside(node, 5).write_bytes(whole)
    assert len(list(log_path(tmp_path).glob("*.log"))) == 4
    with pytest.raises(KilledError):
        open_at(tmp_path, KilledOnTheWay(set_aside))
    for _ in range(2):
        node = open_at(tmp_path)
        begin = 5 if older else 0
        assert (node.log.start_offset, node.log.end_offset, offsets_of(node)) == (begin, begin, [5] * older)
        assert node.amnesia
        assert len(list(log_path(tmp_path).glob("*.log.aside"))) == 4
        node.abandon()


@pytest.mark.covers("D-23")
def test_a_directory_with_the_name_of_what_was_set_aside_ends_no_start(tmp_path: Path) -> None:
    node = used(tmp_path)
    node.cut_front(freeze(node, 9))
    assert node.take_removal().run() == ()
    node.close()
    folders = (aside(node, 5), log_path(tmp_path) / f"{4:020}.log.aside")
    for folder in folders:
        folder.mkdir()
    node = open_at(tmp_path)
    assert (node.log.start_offset, node.log.end_offset, node.warnings) == (9, 14, ())
    node.install_snapshot(freeze(node, 20, 3), 1)
    assert node.take_removal().run() == ()
    node.close()
    node = open_at(tmp_path)
    assert (node.log.start_offset, node.log.end_offset, node.warnings) == (20, 20, ())
    assert all(folder.is_dir() for folder in folders), "only files are removed"
    node.close()


@pytest.mark.covers("D-23")
def test_what_cannot_be_set_aside_for_a_directory_with_its_new_name_is_told_in_one_line(
    tmp_path: Path,
) -> None:
    node = used(tmp_path)
    needless = freeze(node, 20)
    node.close()
    folder = aside(node, needless.offset)
    folder.mkdir()
    with pytest.raises(
        StorageError, match=r"is a directory, and .* is to get this name: move it away"
    ) as told:
        open_at(tmp_path)
    assert str(told.value).startswith(f"{folder}: ")
    folder.rmdir()
    node = open_at(tmp_path)
    assert (node.log.start_offset, node.log.end_offset) == (0, 14)
    node.close()


@pytest.mark.covers("D-23")
def test_a_snapshot_that_the_log_does_not_reach_leads_to_no_state(tmp_path: Path) -> None:
    """It was downloaded, and is not installed yet: the records between the two are not here."""
    node = used(tmp_path, end=14)
    within, beyond = freeze(node, 9), freeze(node, 20)
    assert offsets_of(node) == [9, 20]
    assert node.usable_snapshots == (within,)
    node.install_snapshot(beyond, 1)
    assert node.usable_snapshots == (beyond,)
    node.close()


@pytest.mark.covers("D-06", "D-23")
def test_a_node_that_had_forgotten_already_keeps_that_reason_when_its_log_is_set_aside(
    tmp_path: Path,
) -> None:
    node = used(tmp_path)
    only = freeze(node, 9)
    node.cut_front(only)
    node.remember_state_health(HealthKind.AMNESIA, ["its vote is lost"])
    path = spoil(node, only)
    node.close()
    node = open_at(tmp_path)
    assert node.amnesia == ("its vote is lost",)
    assert [str(path) in warning for warning in node.warnings].count(True) == 1
    assert (node.log.start_offset, node.log.end_offset) == (0, 0)
    node.close()


@pytest.mark.covers("SNAP-25")
@pytest.mark.parametrize("left", ["none", "older"])
def test_a_log_above_0_without_a_snapshot_is_refused_and_left_alone(tmp_path: Path, left: str) -> None:
    node = used(tmp_path)
    only = freeze(node, 9)
    node.cut_front(only)
    node.close()
    (log_path(tmp_path) / names.snapshot_name(only)).unlink()
    if left == "older":
        node = used(tmp_path / "other")
        older = log_path(node.path) / names.snapshot_name(freeze(node, 5))
        older.rename(log_path(tmp_path) / older.name)
        node.close()
    before = {path.name: path.read_bytes() for path in log_path(tmp_path).iterdir()}
    with pytest.raises(StorageError) as raised:
        open_at(tmp_path)
    text = str(raised.value)
    assert "\n" not in text
    assert "the log begins at offset 8, and no snapshot is there that holds the state before it" in text
    assert {path.name: path.read_bytes() for path in log_path(tmp_path).iterdir()} == before


@pytest.mark.covers("D-23")
def test_the_high_watermark_of_the_last_start_is_known_as_far_as_it_was_flushed(tmp_path: Path) -> None:
    node = used(tmp_path)
    node.raise_high_watermark(11)
    node.log.append(run_of(14, 15, 3), 14, 15)
    node.log.flush()
    node.abandon()
    node = open_at(tmp_path)
    assert node.high_watermark == 11
    node.raise_high_watermark(9)
    node.raise_high_watermark(40)
    node.close()
    node = open_at(tmp_path)
    assert node.high_watermark == 15
    node.log.truncate(13, 1)
    node.log.append(run_of(13, 20, 3), 13, 20)
    node.close()
    node = open_at(tmp_path)
    assert node.high_watermark == 13
    node.close()
    (log_path(tmp_path) / "quorum-state").write_text(
        '{"clusterId":"","leaderId":3,"leaderEpoch":9,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
    )
    node = open_at(tmp_path)
    assert node.high_watermark == 0
    node.close()


@pytest.mark.covers("SNAP-22", "D-23")
def test_one_that_is_not_of_this_log_is_not_used(tmp_path: Path) -> None:
    node = used(tmp_path)
    freeze(node, 5, epoch=2)
    freeze(node, 12)
    node.close()
    node = open_at(tmp_path)
    assert (node.log.end_offset, offsets_of(node)) == (14, [12])
    assert "0000000002.checkpoint: is not of this log, and is not used: remove the file" in node.warnings[0]
    node.close()


def aside(node: NodeDirectory, offset: int, epoch: int = 3) -> Path:
    path = beside(node, offset, epoch)
    return path.with_name(path.name + ".aside")


@pytest.mark.covers("D-05", "D-23")
@pytest.mark.parametrize("snapshot", [(20, 3), (20, 4), (9, 4), (14, 4)], ids=str)
def test_a_log_that_holds_all_it_acknowledged_needs_no_snapshot_of_anybody(
    tmp_path: Path, snapshot: tuple[int, int]
) -> None:
    """It goes further than this node's own flushed log, or says another record: another cluster's file, or
    one of what others had made durable before the power failed here. Nor may it come into effect later.
    """
    node = used(tmp_path)
    freeze(node, 5)
    freeze(node, *snapshot)
    node.abandon()
    node = open_at(tmp_path)
    assert (node.log.start_offset, node.log.end_offset, node.damage, node.amnesia) == (0, 14, (), ())
    assert offsets_of(node) == [5]
    (line,) = node.warnings
    assert line.startswith(f"{beside(node, *snapshot)}: goes further than the log, or another way")
    assert aside(node, *snapshot).exists()
    node.log.append(run_of(14, 30, 3), 14, 30)
    node.log.flush()
    node.close()
    node = open_at(tmp_path)
    assert (node.log.start_offset, node.log.end_offset, node.warnings) == (0, 30, ())
    assert offsets_of(node) == [5]
    node.cut_front(freeze(node, 25))
    node.close()
    open_at(tmp_path).close()
    assert not aside(node, *snapshot).exists(), "it was kept as long as the log might have had a use for it"


@pytest.mark.covers("D-23")
def test_tools_tell_of_a_needless_snapshot_what_a_start_does(tmp_path: Path) -> None:
    node = used(tmp_path)
    freeze(node, 20)
    node.close()
    facts = inspect_directory(OsFileSystem(), tmp_path)
    assert (facts.log_start_offset, facts.log_end_offset, facts.problems) == (0, 14, ())
    node = open_at(tmp_path)
    assert node.warnings[0] in facts.notes
    node.close()


@pytest.mark.covers("D-05", "D-21", "D-23")
@pytest.mark.parametrize("left", [14, 8, 4, 0])
@pytest.mark.parametrize("installed", [(20, 3), (9, 4)], ids=str)
def test_an_installation_that_a_crash_stopped_is_ended(
    tmp_path: Path, left: int, installed: tuple[int, int]
) -> None:
    """The sidecar says the snapshot's end before a segment goes; a front of the old log is left."""
    node = used(tmp_path)
    node.write_election(Election(4, 2))
    snapshot = freeze(node, *installed)
    node._sidecar.move_recovery_point(snapshot)
    node.abandon()
    for path in log_path(tmp_path).glob("*.log"):
        if int(path.stem) >= left:
            path.unlink()
    node = open_at(tmp_path)
    assert (node.log.start_offset, node.log.end_offset, offsets_of(node)) == (snapshot.offset,) * 2 + (
        [snapshot.offset],
    )
    assert (node.damage, node.amnesia) == ((), ())
    node.close()


@pytest.mark.covers("D-05", "D-23")
@pytest.mark.parametrize("lost", ["sidecar", "records", "what leads to it"])
def test_a_snapshot_takes_the_place_of_a_log_that_may_lack_something(tmp_path: Path, lost: str) -> None:
    """Nothing says what was flushed; or it is not here; or nothing else leads to where the log begins."""
    node = used(tmp_path)
    if lost == "what leads to it":
        node.cut_front(freeze(node, 9))
    snapshot = freeze(node, 20)
    node.close()
    if lost == "sidecar":
        (tmp_path / names.SIDECAR).unlink()
    elif lost == "records":
        (log_path(tmp_path) / f"{12:020}.log").unlink()
    else:
        spoil(node, OffsetAndEpoch(9, 3))
    node = open_at(tmp_path)
    assert (node.log.start_offset, node.log.end_offset, offsets_of(node)) == (20, 20, [snapshot.offset])
    assert any("at offset 20 in epoch 3 takes the place of the log" in line for line in node.warnings)
    node.close()


@pytest.mark.covers("D-23")
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut there"])
@pytest.mark.parametrize("foreign", [2, 4], ids=["older epoch", "newer epoch"])
@pytest.mark.parametrize("end", [14, 9], ids=["records follow", "none follow"])
def test_of_two_snapshots_with_one_end_offset_the_logs_own_is_used_at_every_start(
    tmp_path: Path, cut: bool, foreign: int, end: int
) -> None:
    node = used(tmp_path, end=4)
    node.log.roll_at(0, 4)
    node.log.append(run_of(4, 9, 3), 4, 9)
    node.log.flush()
    node.log.roll_at(1, 9)
    if end > 9:
        node.log.append(run_of(9, end, 3), 9, end)
        node.log.flush()
    own = freeze(node, 9)
    if cut:
        node.cut_front(own)
        assert node.take_removal().run() == ()
    freeze(node, 9, foreign)
    node.close()
    for start in range(3):
        node = open_at(tmp_path)
        assert node.snapshots.infos[-1].id == own
        assert (len(node.snapshots.infos), node.log.start_offset) == (1, 9 if cut else 0)
        assert node.log.end_offset == end + start
        assert (node.damage, node.amnesia) == ((), ())
        if not start:
            (line,) = node.warnings
            assert str(beside(node, 9, foreign)) in line
            assert "set aside" in line
        else:
            assert node.warnings == ()
        at = node.log.end_offset
        node.write_election(Election(9, 2))
        node.log.append(run_of(at, at + 1, 9), at, at + 1)
        node.log.flush()
        node.close()


@pytest.mark.covers("D-23")
def test_where_nothing_tells_two_snapshots_apart_one_is_chosen_once(tmp_path: Path) -> None:
    node = used(tmp_path)
    for epoch in (4, 5):
        freeze(node, 20, epoch)
    node.close()
    (tmp_path / names.SIDECAR).unlink()
    for _ in range(2):
        node = open_at(tmp_path)
        assert [info.id for info in node.snapshots.infos] == [OffsetAndEpoch(20, 5)]
        assert node.log.start_offset == 20
        node.close()
    assert aside(node, 20, 4).exists()


@pytest.mark.covers("SNAP-18", "D-23")
@pytest.mark.parametrize("far", [(2**63 - 1, 3), (2**63 - 40, 3), (20, 2**31 - 1)], ids=str)
def test_a_name_so_far_that_no_log_could_go_on_from_it_is_no_snapshots(
    tmp_path: Path, far: tuple[int, int]
) -> None:
    """The file is whole; had it the place of the log, the next record would have an offset of 64 bits."""
    node = used(tmp_path)
    whole = freeze(node, 9)
    path = beside(node, *far)
    path.write_bytes(beside(node, whole.offset).read_bytes())
    node.close()
    for _ in range(2):
        node = open_at(tmp_path)
        assert (node.log.start_offset, node.log.end_offset, offsets_of(node)) == (0, 14, [9])
        (line,) = node.warnings
        assert line.startswith(f"{path}: ")
        assert line.endswith(" is out of range: it is no snapshot of this log: remove the file")
        node.close()
    facts = inspect_directory(OsFileSystem(), tmp_path)
    assert facts.problems == ()
    assert line in facts.notes
    path.rename(path.with_name(path.name + names.ASIDE))
    node = open_at(tmp_path)
    assert (node.warnings, node.log.end_offset) == ((), 14), "whoever sets it aside by hand has peace"
    node.close()


@pytest.mark.covers("D-37", "SNAP-18")
@pytest.mark.parametrize("epoch", [2**30 + 1, 2**31 - 2])
def test_a_log_begins_at_its_snapshot_in_every_epoch_that_a_quorum_can_come_to(
    tmp_path: Path, epoch: int
) -> None:
    """One node whose election says so brings all others up to it."""
    node = used(tmp_path, 14, epoch)
    node.cut_front(freeze(node, 9, epoch))
    assert node.take_removal().run() == ()
    node.close()
    node = open_at(tmp_path)
    assert (node.log.start_offset, node.log.end_offset, offsets_of(node)) == (9, 14, [9])
    assert (node.damage, node.amnesia, node.warnings) == ((), (), ())
    node.close()


@pytest.mark.covers("SNAP-05")
def test_a_snapshot_that_was_written_while_a_later_one_became_the_log_goes(tmp_path: Path) -> None:
    node = used(tmp_path)
    writer = node.snapshots.writer(OffsetAndEpoch(7, 3))
    for piece in encode_snapshot([b"record"], 3, 7, last_contained_timestamp_ms=7):
        writer.append(piece)
    later = freeze(node, 20, 4)
    node.install_snapshot(later, node.log.generation + 1)
    assert not node.add_snapshot(writer.freeze())
    assert offsets_of(node) == [20]
    node.take_removal().run()
    assert checkpoints(tmp_path) == [names.snapshot_name(later)]
    node.close()
