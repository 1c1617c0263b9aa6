"""A running node's cleaner removes files between their listing and their reading: no problem of a log."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftd.cli import log_diff
from kraftd.logtools import batch_reader, node_files, own_state, state
from kraftd.logtools.errors import FileGoneError, UnanswerableError
from kraftd.logtools.finding import find_log
from kraftd.logtools.history import history_of
from kraftd.logtools.inspection import inspect_directory
from kraftd.logtools.own_state import with_own_states
from kraftd.logtools.points import Point
from kraftd.logtools.state import State, state_at
from kraftd.logtools.verify import _LogCheck, verify
from kraftd.metadata.registry import HISTORY_SUBJECTS
from kraftd.storage.filesystem import Access, OsFileSystem
from kraftd.types import OffsetAndEpoch
from tests.unit.logtools.logs import LogMaker, config, orders

LARGE = (".log", ".checkpoint")


@pytest.fixture
def cleaned(tmp_path: Path) -> LogMaker:
    """A log of two segments with a snapshot at the end of the first, and one within the second."""
    log = orders(tmp_path / "n1")
    log.snapshot()
    log.roll().batch(config("1")).snapshot()
    return log.batch(config("2"))


def clean(log: LogMaker, *, snapshots_only: bool = False) -> None:
    """What `LogCleaner` does, or the first half of it: all below the newest snapshot's segment goes."""
    with os.scandir(log.log) as entries:
        there = sorted(Path(entry.path) for entry in entries)
    segments, snapshots = ([path for path in there if path.name.endswith(end)] for end in LARGE)
    for path in [*snapshots[:-1], *(() if snapshots_only else segments[:-1])]:
        path.unlink()


def once(monkeypatch: pytest.MonkeyPatch, log: LogMaker, *, snapshots_only: bool = False) -> None:
    """Let the cleaner run just before the first large file is opened."""
    opened = batch_reader.open_to_read
    waits: list[Callable[[], None]] = [lambda: clean(log, snapshots_only=snapshots_only)]

    def open_to_read(path: Path) -> object:
        while waits:
            waits.pop()()
        return opened(path)

    monkeypatch.setattr(batch_reader, "open_to_read", open_to_read)


def test_what_went_since_it_was_listed_is_no_problem(cleaned: LogMaker, monkeypatch: pytest.MonkeyPatch):
    found = find_log(cleaned.home)
    once(monkeypatch, cleaned)
    verdict = verify([found])
    assert verdict.is_whole, verdict.logs[0].problems
    assert (verdict.logs[0].log.start_offset, verdict.logs[0].snapshot_count) > (0, 0)


def test_a_snapshot_that_goes_after_the_bytes_were_examined_is_no_problem(
    cleaned: LogMaker, monkeypatch: pytest.MonkeyPatch
):
    begin = _LogCheck._begin

    def begin_late(check: _LogCheck) -> None:
        begin(check)
        clean(cleaned, snapshots_only=True)

    monkeypatch.setattr(_LogCheck, "_begin", begin_late)
    assert verify([find_log(cleaned.home)]).is_whole


def test_a_state_is_made_of_what_is_there(cleaned: LogMaker, monkeypatch: pytest.MonkeyPatch):
    """The newest snapshot that was listed is gone: a newer one took its place, and is as good."""
    found = find_log(cleaned.home)
    cleaned.roll().batch(config("3")).snapshot()
    now = state_at(find_log(cleaned.home))
    once(monkeypatch, cleaned, snapshots_only=True)
    found_now = state_at(found)
    assert (found_now.image.hash(), found_now.notes) == (now.image.hash(), ())


def test_a_history_begins_where_the_log_begins_now(cleaned: LogMaker, monkeypatch: pytest.MonkeyPatch):
    found = find_log(cleaned.home)
    once(monkeypatch, cleaned)
    assert history_of(found, HISTORY_SUBJECTS["topic"], "orders").start_offset > 0


def test_two_points_of_a_log_are_asked_again(cleaned: LogMaker, monkeypatch: pytest.MonkeyPatch):
    end, gone = cleaned.end, [FileGoneError(cleaned.segment)]

    def continued(start: State, at: Point | None) -> State:
        if gone:
            raise gone.pop()
        return state.continued(start, at)

    monkeypatch.setattr(log_diff, "continued", continued)
    before, after = log_diff._sides([str(cleaned.home), str(end - 1), str(end)], None)
    assert (before.end_offset, after.end_offset) == (end - 1, end)


def test_a_log_whose_files_always_go_is_told_of_in_a_line_and_the_others_are_judged(
    cleaned: LogMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other = orders(tmp_path / "n2")
    opened, attempts = batch_reader.open_to_read, list[Path]()

    def open_to_read(path: Path) -> object:
        if "n1" in path.parts:
            attempts.append(path)
            raise FileNotFoundError(path)
        return opened(path)

    monkeypatch.setattr(batch_reader, "open_to_read", open_to_read)
    verdict = verify([find_log(cleaned.home), find_log(other.home)])
    assert [len(log.problems) for log in verdict.logs] == [1, 0]
    assert "was removed while it was read" in str(verdict.logs[0].problems[0])
    assert len(attempts) < 10
    with pytest.raises(UnanswerableError, match="was removed while it was read"):
        state_at(find_log(cleaned.home))


def test_a_log_that_is_looked_at_once_more_for_its_end_may_go_as_well(
    cleaned: LogMaker, monkeypatch: pytest.MonkeyPatch
):
    """`own_state` says 99; whoever finds an end too early looks again, and a segment goes meanwhile."""
    clean_first = verify([find_log(cleaned.home)])
    monkeypatch.setattr(own_state, "own_state", lambda _: own_state.OwnState(flushed_offset=cleaned.end))
    once(monkeypatch, cleaned)
    told = own_state.OwnState(flushed_offset=99)
    assert with_own_states(clean_first, [told]).is_whole


def test_a_name_that_is_gone_when_its_size_is_asked_for_is_not_listed(
    cleaned: LogMaker, monkeypatch: pytest.MonkeyPatch
):
    scandir = node_files.os.scandir

    def scandir_then_clean(path: Path) -> list[os.DirEntry[str]]:
        entries = list(scandir(path))
        monkeypatch.undo()
        clean(cleaned)
        return entries

    monkeypatch.setattr(node_files.os, "scandir", scandir_then_clean)
    found = node_files.describe(cleaned.log)
    assert [len(found.segments), len(found.snapshots), found.problems] == [1, 1, ()]


def test_the_look_at_a_directory_is_repeated_where_files_went(cleaned: LogMaker):
    class Cleaning(OsFileSystem):
        """Runs the cleaner when the first segment is opened."""

        def open(self, path: Path, access: Access) -> int:
            if path.name.endswith(LARGE[0]):
                clean(cleaned)
            return super().open(path, access)

    facts = inspect_directory(Cleaning(), cleaned.home)
    assert [text for text in facts.problems if "open failed" in text] == []
    assert facts.snapshots == (OffsetAndEpoch(cleaned.end - 1, cleaned.epoch),)
