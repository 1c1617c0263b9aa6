"""The batches of a snapshot, good or bad: a header, records by a running number, and a footer at the end.

`read_snapshot` is what everything reads snapshots by, so that a snapshot is whole for all or for nobody. One
cause is one problem: behind damage neither a gap nor a missing footer is told, since they follow from it.

Not here: the state that the records make (`state`), and whether it is the log's (`verify`).
"""

from collections.abc import Iterator

import msgspec

from kraftd.errors import MalformedError
from kraftd.logtools.batch_reader import Batch, read_batches
from kraftd.logtools.node_files import LogFile
from kraftd.logtools.problem import Problem, ProblemKind, in_file
from kraftd.records import names
from kraftd.records.batch import BatchView
from kraftd.records.control import decode_control
from kraftd.records.messages import ControlRecord, SnapshotFooterRecord, SnapshotHeaderRecord
from kraftd.types import Offset


def read_snapshot(file: LogFile, *, with_records: bool = True) -> Iterator[Batch | Problem]:
    """Every good batch in order, and every problem where it is met; of a whole snapshot there is none.

    Args:
        file: A snapshot, or the bootstrap file.
        with_records: Look whether the records fill their batch; whoever reads them finds out anyway.

    Raises:
        UnanswerableError: The file cannot be opened or read.
    """
    reading = _Reading(file)
    for item in read_batches(file.path, with_records=with_records):
        problem = reading.problem_with(item)
        if problem is not None:
            yield problem
        elif isinstance(item, Batch):
            yield item
    if (missing := reading.missing()) is not None:
        yield missing


class _Reading:
    """What is known of a snapshot up to one of its batches."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._has_name = names.parse_snapshot_name(file.name) is not None
        self._end: Offset = 0
        self._is_told = self._is_epoch_told = self._is_after_damage = False
        self._has_header = self._has_footer = False

    def problem_with(self, item: Batch | Problem) -> Problem | None:
        """What is wrong with the next item of the file, unless it follows from what was told before."""
        if isinstance(item, Problem):
            return self._damaged(item)
        if item.problem is not None:
            return self._damaged(item.problem)
        view = item.view
        gap = "" if self._is_after_damage else self._gap(view)
        self._has_header |= not self._end and _holds(view, SnapshotHeaderRecord)
        self._has_footer = _holds(view, SnapshotFooterRecord)
        self._is_after_damage, self._end = False, view.end_offset
        text = gap or self._other_epoch(view)
        if not text:
            return None
        self._is_told = True
        return item.as_problem(text)

    def missing(self) -> Problem | None:
        """What the file lacks at its end, or at all."""
        if self._is_told or (self._has_header and self._has_footer):
            return None
        lacks = "footer, so it was cut short" if self._has_header else "header, so it is no snapshot"
        text = f"has no {lacks}" if self._file.size_bytes else "is empty, so it is no snapshot"
        return in_file(self._file.path, text)

    def _damaged(self, problem: Problem) -> Problem:
        self._is_told = self._is_after_damage = True
        return msgspec.structs.replace(problem, kind=ProblemKind.DAMAGED, offset=self._end)

    def _gap(self, view: BatchView) -> str:
        if view.base_offset == self._end:
            return ""
        return f"record {view.base_offset} of the snapshot comes where record {self._end} must"

    def _other_epoch(self, view: BatchView) -> str:
        """Why a batch is not of the epoch that the file's name says; said once of a file."""
        if not self._has_name or view.epoch == self._file.epoch or self._is_epoch_told:
            return ""
        self._is_epoch_told = True
        return f"is a snapshot of epoch {view.epoch}, its name says {self._file.epoch}"


def _holds(view: BatchView, kind: type[ControlRecord]) -> bool:
    """Whether a control record of this kind is in a batch."""
    if not view.is_control:
        return False
    try:
        return any(isinstance(decode_control(record.key, record.value), kind) for record in view.records())
    except MalformedError:
        return False
