"""Logs that begin above 0, as Kafka cleans them: segments that a snapshot stands for are gone."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.finding import find_log
from kraftd.logtools.history import history_of
from kraftd.logtools.inspection import inspect_directory
from kraftd.logtools.integrity import examine
from kraftd.logtools.points import Point
from kraftd.logtools.state import State, continued, state_at
from kraftd.logtools.verify import Verdict, verify
from kraftd.metadata.registry import HISTORY_SUBJECTS
from kraftd.records import epoch_checkpoint, names
from kraftd.storage.filesystem import OsFileSystem
from kraftd.types import EpochEntry, OffsetAndEpoch
from tests.fixtures import klog

SNAPSHOT_475 = "00000000000000000475-0000000001.checkpoint"
SNAPSHOT_1503 = "00000000000000001503-0000000004.checkpoint"
Cleaned = Callable[..., Path]


@pytest.fixture
def whole() -> Path:
    """Segments at 0, 375, 736, 1119 and 1503; snapshots at 475 (epoch 1), 1503 (epoch 4) and between."""
    return klog("generated-kafka-4.3-dynamic-voters") / "node-2"


@pytest.fixture
def cleaned(tmp_path: Path, whole: Path) -> Cleaned:
    def clean(oldest_snapshot: int, *, first_segment: int) -> Path:
        """A copy with its oldest snapshot there, cut before a segment; the checkpoint is cut with the log."""
        home = tmp_path / f"from-{first_segment}"
        shutil.copytree(whole, home)
        log = home / names.LOG_DIRECTORY
        for file in log.iterdir():
            is_snapshot = names.parse_snapshot_name(file.name) is not None
            first = oldest_snapshot if is_snapshot else first_segment
            if file.name[:20].isdecimal() and int(file.name[:20]) < first:
                file.unlink()
        checkpoint = log / names.EPOCH_CHECKPOINT
        entries = epoch_checkpoint.decode(checkpoint.read_bytes())
        first = max(index for index, one in enumerate(entries) if one.start_offset <= oldest_snapshot)
        cut = [EpochEntry(entries[first].epoch, oldest_snapshot), *entries[first + 1 :]]
        checkpoint.write_bytes(epoch_checkpoint.encode(cut))
        return home

    return clean


@pytest.fixture
def inside(cleaned: Cleaned) -> Path:
    """The log begins at 375, in the middle of which its oldest snapshot is."""
    return cleaned(475, first_segment=375)


@pytest.fixture
def tight(cleaned: Cleaned) -> Path:
    """The log begins at 1503, where its only snapshot is."""
    return cleaned(1503, first_segment=1503)


@pytest.fixture
def bare(tight: Path) -> Path:
    """A snapshot that was just loaded from a leader: the log is empty, and goes on where it ends."""
    (tight / names.LOG_DIRECTORY / names.segment_name(1503)).write_bytes(b"")
    (tight / names.LOG_DIRECTORY / names.EPOCH_CHECKPOINT).write_bytes(epoch_checkpoint.encode([]))
    return tight


def state(home: Path, offset: int | None = None) -> State:
    return state_at(find_log(home), None if offset is None else Point(str(offset), offset))


def at_time(home: Path, time_ms: int) -> State:
    return state_at(find_log(home), Point("that time", time_ms=time_ms))


def judged(home: Path) -> Verdict:
    verdict = verify([find_log(home)])
    assert verdict.is_whole, verdict.logs[0].problems
    return verdict


def test_its_states_are_those_of_the_whole_log(inside: Path, tight: Path, whole: Path) -> None:
    for home, offset in ((inside, 475), (inside, 736), (inside, None), (tight, 1503), (tight, None)):
        found, wanted = state(home, offset), state(whole, offset)
        assert (found.end_offset, found.image.hash()) == (wanted.end_offset, wanted.image.hash())


def test_what_was_before_its_first_snapshot_is_not_known_and_that_snapshot_is_named(
    inside: Path, tight: Path
) -> None:
    for home, offset, start, first in (
        (inside, 0, 375, 475),
        (inside, 400, 375, 475),
        (tight, 7, 1503, 1503),
    ):
        with pytest.raises(UnanswerableError) as told:
            state(home, offset)
        assert str(told.value) == (
            f"{home}: the log begins at offset {start}, and the first state that can be known is that of the "
            f"snapshot at offset {first}: what was before cannot be known"
        )


def test_a_snapshot_that_is_not_whole_is_named_where_the_log_needs_it(tight: Path) -> None:
    snapshot = tight / names.LOG_DIRECTORY / SNAPSHOT_1503
    snapshot.write_bytes(snapshot.read_bytes()[:-20])
    with pytest.raises(UnanswerableError) as told:
        state(tight)
    assert "begins at offset 1503, and no whole snapshot holds the state there" in str(told.value)
    assert f"{SNAPSHOT_1503} at byte " in str(told.value)
    (problem,) = inspect_directory(OsFileSystem(), tight).problems
    assert f"{SNAPSHOT_1503} at byte " in problem
    assert "the log begins at offset 1503, and nothing else holds the state before it" in problem


def test_a_time_before_its_first_state_has_none(inside: Path, tight: Path) -> None:
    """The snapshot at 1503 holds records of up to its own time: at an earlier one the state was another."""
    (taken_ms, before_ms) = (state(tight, 1503).timestamp_ms, state(inside, 1406).timestamp_ms)
    assert at_time(tight, taken_ms).end_offset == 1503
    assert at_time(inside, before_ms).end_offset <= 1406
    for time_ms in (taken_ms - 1, before_ms):
        with pytest.raises(UnanswerableError, match="begins at offset 1503, after that time"):
            at_time(tight, time_ms)


def test_a_log_with_nothing_behind_its_snapshot_is_that_snapshots(bare: Path, whole: Path) -> None:
    assert (state(bare).end_offset, state(bare).epoch) == (1503, 4)
    assert state(bare).image.hash() == state(whole, 1503).image.hash()
    taken_ms = state(bare).timestamp_ms
    assert at_time(bare, taken_ms).end_offset == 1503
    with pytest.raises(UnanswerableError, match="begins at offset 1503, after that time"):
        at_time(bare, taken_ms - 1)
    found = judged(bare).logs[0]
    assert (found.end_offset, found.end_epoch) == (1503, 4)
    facts = inspect_directory(OsFileSystem(), bare)
    assert facts.problems == ()
    assert (facts.log_end_offset, facts.log_end_epoch) == (1503, 4)
    assert any("knows epoch 6, the last record is of epoch 4" in note for note in facts.notes)


def test_it_is_whole_and_its_first_snapshot_is_where_the_state_begins(inside: Path, tight: Path) -> None:
    found = judged(inside).logs[0]
    assert (found.log.start_offset, found.end_offset, found.snapshot_count) == (375, 1690, 8)
    assert [(Path(note.file).name, note.text) for note in found.notes] == [
        (SNAPSHOT_475, "not compared, the state begins with it")
    ]
    assert judged(tight).logs[0].snapshot_count == 0
    for home in (inside, tight):
        assert inspect_directory(OsFileSystem(), home).problems == ()


@pytest.mark.parametrize(("which", "begin"), [("whole", 0), ("inside", 475), ("tight", 1503), ("bare", 1503)])
def test_all_tools_agree_where_it_begins_and_how_many_snapshots_it_has(
    request: pytest.FixtureRequest, which: str, begin: int
) -> None:
    home: Path = request.getfixturevalue(which)
    told = inspect_directory(OsFileSystem(), home)
    found = judged(home).logs[0]
    assert (found.start_offset, found.end_offset) == (told.log_start_offset, told.log_end_offset)
    assert found.whole_snapshot_count == len(told.snapshots)
    assert {told.log_start_offset, examine(find_log(home)).start_offset} == {begin}


def test_a_snapshot_that_is_not_whole_is_none_that_is_there(inside: Path) -> None:
    before = judged(inside).logs[0]
    snapshot = inside / names.LOG_DIRECTORY / SNAPSHOT_1503
    snapshot.write_bytes(snapshot.read_bytes()[:-20])
    found = verify([find_log(inside)]).logs[0]
    assert (found.whole_snapshot_count, found.snapshot_count) == (
        before.whole_snapshot_count - 1,
        before.snapshot_count - 1,
    )


def test_its_history_begins_with_its_first_snapshot(inside: Path) -> None:
    history = history_of(find_log(inside), HISTORY_SUBJECTS["broker"], "11")
    assert history.notes == (
        "the first state is that of the snapshot at offset 475: what was before is not here",
    )
    assert (history.start_offset, history.end_offset) == (475, 1690)


def test_a_snapshot_that_does_not_reach_the_log_is_never_gone_on_from(
    inside: Path, whole: Path, tmp_path: Path
) -> None:
    """Offsets 365 to 374 are missing: what changed in them is not told to be nothing."""
    name = names.snapshot_name(OffsetAndEpoch(365, 1))
    shutil.copyfile(whole / names.LOG_DIRECTORY / name, inside / names.LOG_DIRECTORY / name)
    before = state(inside, 365)
    assert before.image.hash() == state(whole, 365).image.hash()
    for offset in (375, 400, 736):
        after = continued(before, Point(str(offset), offset))
        assert after.end_offset == 365
        assert "the offsets up to 375 are missing" in str(after.damage)
