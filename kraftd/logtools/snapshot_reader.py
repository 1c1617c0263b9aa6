"""The batches of a snapshot, good or bad: a header, records by a running number, and a footer at the end.

`read_snapshot` is what everything reads snapshots by, so that a snapshot is whole for all or for nobody. One
cause is one problem: behind damage neither a gap nor a missing footer is told, since they follow from it.
Bytes that are no batch end the reading, however many follow: a sparse file may have a terabyte of them.

Not here: what makes a snapshot whole (`kraftd.records.snapshot`), the state that the records make (`state`),
and whether it is the log's (`verify`).
"""

from collections.abc import Iterator

import msgspec

from kraftd.logtools.batch_reader import Batch, read_batches
from kraftd.logtools.node_files import LogFile
from kraftd.logtools.problem import Problem, ProblemKind, in_file
from kraftd.records import names
from kraftd.records.frame import RawRecord, decode_record, record_name
from kraftd.records.snapshot import SnapshotCheck


def read_snapshot(file: LogFile, *, with_records: bool = True) -> Iterator[Batch | Problem]:
    """Every good batch in order, and every problem where it is met; of a whole snapshot there is none.

    Args:
        file: A snapshot, or the bootstrap file.
        with_records: Look whether the records fill their batch; whoever reads them finds out anyway.

    Raises:
        UnanswerableError: The file cannot be opened or read.
    """
    reading = _Reading(file)
    for item in read_batches(file.path, with_records=with_records, with_rest=False):
        problem = reading.problem_with(item)
        if problem is not None:
            yield problem
        elif isinstance(item, Batch):
            yield item
    if (missing := reading.missing()) is not None:
        yield missing


def unknown_record(file: LogFile) -> Problem | None:
    """The first record of a kind or version that is unknown here; None if a snapshot has none.

    Raises:
        UnanswerableError: The file cannot be opened or read.
        MalformedError: A value is no record.
    """
    for item in read_snapshot(file, with_records=False):
        if isinstance(item, Problem):
            continue
        for number, value in enumerate(item.view.values()):
            record = decode_record(value)
            if isinstance(record, RawRecord):
                kind = f"{record_name(record.api_key)}, version {record.version}"
                text = f"the record is of kind {kind}, which this version of kraftd cannot apply"
                return item.as_problem(text, item.view.base_offset + number)
    return None


class _Reading:
    """What was told of a snapshot up to one of its batches."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._check = SnapshotCheck(file.epoch if names.parse_snapshot_name(file.name) else None)
        self._is_told = False

    def problem_with(self, item: Batch | Problem) -> Problem | None:
        """What is wrong with the next item of the file, unless it follows from what was told before."""
        if isinstance(item, Problem):
            return self._damaged(item)
        if item.problem is not None:
            return self._damaged(item.problem)
        text = self._check.problem_with(item.view)
        if not text:
            return None
        self._is_told = True
        return item.as_problem(text)

    def missing(self) -> Problem | None:
        """What the file lacks at its end, or at all."""
        text = "" if self._is_told else self._check.missing()
        position = 0 if self._check.header is None else self._file.size_bytes
        return in_file(self._file.path, text, position_bytes=position) if text else None

    def _damaged(self, problem: Problem) -> Problem:
        self._is_told = True
        self._check.pass_over()
        return msgspec.structs.replace(problem, kind=ProblemKind.DAMAGED, offset=self._check.end)
