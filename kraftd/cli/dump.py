"""What is in segments and snapshots, batch by batch, good or bad: the reading half of `kraftctl log dump`.

`Selection` says what is wanted, `read_file` yields it, `follow` goes on with whatever a running node appends.
Batches and problems come from `kraftd.logtools.batch_reader`.

Follows: the names and contents of Kafka's DumpLogSegments with `--cluster-metadata-decoder`.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from kraftd.errors import CorruptBatchError, MalformedError
from kraftd.logtools.batch_reader import Batch, BatchReader, base_offset_of, open_file, read_batches
from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.finding import find_log
from kraftd.logtools.node_files import problem_of_name
from kraftd.logtools.node_log import read_log
from kraftd.logtools.problem import Problem, ProblemKind
from kraftd.metadata.redaction import REDACTED
from kraftd.metadata.secrets import redacted_json
from kraftd.records import names
from kraftd.records.batch import BatchView, RecordView
from kraftd.records.control import RawControl, control_to_json, decode_control
from kraftd.records.frame import decode_record, read_frame, to_json
from kraftd.regular_file import kind_of
from kraftd.types import Epoch, Offset

FOLLOW_PAUSE_S = 0.2

_NO_LIMIT = (1 << 63) - 1


class FileStart(msgspec.Struct, frozen=True):
    """A file begins. `offset` is where a segment starts or a snapshot ends; -1 if the name tells nothing."""

    path: str
    kind: str
    offset: Offset = -1
    epoch: Epoch = -1


class DumpedRecord(msgspec.Struct, frozen=True):
    """A record, decoded. `type`, `version` and `data` are Kafka's; `problem` says why there is no data."""

    batch: Batch
    record: RecordView
    type: str
    version: int
    data: object
    problem: str | None = None

    @property
    def offset(self) -> Offset:
        """Its place in the log; in a snapshot, its running number."""
        return self.batch.view.base_offset + self.record.offset_delta

    @property
    def timestamp_ms(self) -> int:
        """When it was written."""
        return self.batch.view.base_timestamp + self.record.timestamp_delta


Item: TypeAlias = FileStart | Batch | DumpedRecord | Problem


class Selection(msgspec.Struct, frozen=True):
    """Which records are wanted, and whether their secrets are. Offsets and times are from-inclusive,
    to-exclusive; types as `type_key` gives them.
    """

    types: frozenset[str] = frozenset()
    without_types: frozenset[str] = frozenset()
    from_offset: Offset = 0
    to_offset: Offset = _NO_LIMIT
    from_ms: int = -1
    to_ms: int = _NO_LIMIT
    show_secrets: bool = False

    def may_hold(self, batch: BatchView) -> bool:
        """Whether a batch may hold something wanted, by its header alone."""
        return (
            batch.end_offset > self.from_offset
            and batch.base_offset < self.to_offset
            and batch.max_timestamp >= self.from_ms
            and batch.base_timestamp < self.to_ms
        )

    def wants(self, entry: DumpedRecord) -> bool:
        """Whether this record is wanted."""
        key = type_key(entry.type)
        return (
            self.from_offset <= entry.offset < self.to_offset
            and self.from_ms <= entry.timestamp_ms < self.to_ms
            and (not self.types or key in self.types)
            and key not in self.without_types
        )


def type_key(name: str) -> str:
    """One spelling for `ConfigRecord`, `CONFIG_RECORD`, `config` and `KRaftVersion`."""
    return name.replace("_", "").lower().removesuffix("record")


def files_of(path: Path) -> list[Path]:
    """What a FILE or DIR of the command line stands for: itself, or the segments of a node's directory in
    order.

    Raises:
        UnanswerableError: There is nothing of the kind.
    """
    if path.is_file():
        return [path]
    log = find_log(path)
    if not log.segments:
        what = "no segment; name a snapshot as a file" if log.snapshots else "neither segment nor snapshot"
        raise UnanswerableError(f"{log.log_directory} holds {what}")
    return [segment.path for segment in log.segments]


def read_file(path: Path, selection: Selection) -> Iterator[Item]:
    """Everything wanted in one file, in order; problems are always told.

    Raises:
        UnanswerableError: The file cannot be opened or read.
    """
    if what := kind_of(path):
        raise UnanswerableError(f"{path} is {what}, and only files can be dumped: write what it holds to one")
    with open_file(path) as file:
        yield _file_start(path)
        if (problem := problem_of_name(path)) is not None:
            yield problem
        reader = BatchReader(path, file)
        yield from _selected(reader, selection)
        if reader.torn:
            yield reader.torn


def read_directory(path: Path, selection: Selection) -> Iterator[Item]:
    """Everything wanted in a directory's segments, and at the end what is wrong with them as one log.

    Raises:
        UnanswerableError: There is no segment, or one cannot be read.
    """
    told = set[tuple[str, int]]()
    files = files_of(path)
    for file in files:
        for item in read_file(file, selection):
            problem = item.problem if isinstance(item, Batch) else item
            if isinstance(problem, Problem):
                told.add((problem.file, problem.position_bytes))
            is_cut = isinstance(item, Problem) and file != files[-1]  # only the last is being written
            yield msgspec.structs.replace(item, kind=ProblemKind.DAMAGED) if is_cut else item
    log = find_log(path)
    of_names = [problem for problem in log.problems if problem.file.endswith(names.LOG)]
    for item in (*of_names, *(one for one in read_log(log) if isinstance(one, Problem))):
        if item.is_fault and (item.file, item.position_bytes) not in told:
            told.add((item.file, item.position_bytes))
            yield msgspec.structs.replace(item, size_bytes=0)  # its bytes are dumped above


def end_of(path: Path) -> Offset:
    """Where the last batch of a file, or of a directory's last segment, ends; 0 without one.

    Raises:
        UnanswerableError: It cannot be read.
    """
    last = files_of(path)[-1]
    ends = (
        item.view.end_offset for item in read_batches(last, with_records=False) if isinstance(item, Batch)
    )
    return max(ends, default=max(base_offset_of(last), 0))


def follow(path: Path, selection: Selection, *, wait: Callable[[], None] | None = None) -> Iterator[Item]:
    """Everything wanted in a segment, or in a directory's segments, and then whatever is appended, for ever.

    A batch that the file only holds the beginning of is waited for. Where a node truncates its log, what it
    writes there afterwards is told again.

    Args:
        path: A segment or a node's directory; later segments are found beside it.
        selection: What is wanted.
        wait: Lets time pass between two looks at the end of the log.
    """
    pause = wait or (lambda: time.sleep(FOLLOW_PAUSE_S))
    current = _first_segment(path, selection.from_offset)
    while True:
        with open_file(current) as file:
            yield _file_start(current)
            reader = BatchReader(current, file)
            successor: Path | None = None
            while successor is None:
                successor = _successor(current)  # looked up first: nothing is appended here once there is one
                yield from _selected(reader, selection)
                if successor is None:
                    pause()
                    reader.step_back()
            if reader.torn:
                yield reader.torn
        current = successor


def _selected(reader: BatchReader, selection: Selection) -> Iterator[Item]:
    for item in reader.read():
        if isinstance(item, Problem):
            yield item
        else:
            yield from _select(item, selection)


def _select(batch: Batch, selection: Selection) -> Iterator[Item]:
    """The batch with those of its records that are wanted; nothing if none is. A bad batch is always told."""
    if batch.problem is None and not selection.may_hold(batch.view):
        return
    try:
        entries = [
            _entry(batch, record, show_secrets=selection.show_secrets) for record in batch.view.records()
        ]
    except CorruptBatchError as error:
        yield msgspec.structs.replace(batch, problem=batch.problem or batch.as_problem(error.reason))
        return
    wanted = [entry for entry in entries if selection.wants(entry)]
    if wanted or batch.problem is not None:
        yield batch
        yield from wanted


def _entry(batch: Batch, record: RecordView, *, show_secrets: bool) -> DumpedRecord:
    try:
        told = content_of(record, is_control=batch.view.is_control, show_secrets=show_secrets)
    except MalformedError as error:
        return DumpedRecord(batch, record, "UNREADABLE", -1, None, str(error))
    return DumpedRecord(batch, record, told["type"], told["version"], told["data"])


def content_of(record: RecordView, *, is_control: bool, show_secrets: bool) -> dict[str, Any]:
    """Kind, version and content of a record, as `type`, `version` and `data`.

    Raises:
        MalformedError: It does not follow its schema.
    """
    if is_control:
        control = decode_control(record.key, record.value)
        told = control_to_json(control)
        hidden = isinstance(control, RawControl) and not show_secrets
        return told | {"data": {"raw": REDACTED}} if hidden else told
    value = record.value or b""
    _, version, _ = read_frame(value)
    return (to_json if show_secrets else redacted_json)(decode_record(value), version)


def _file_start(path: Path) -> FileStart:
    if path.name == names.BOOTSTRAP_CHECKPOINT:
        return FileStart(str(path), "bootstrap")
    if problem_of_name(path) is not None:
        return FileStart(str(path), "segment" if path.suffix == names.LOG else "snapshot")
    snapshot = names.parse_snapshot_name(path.name)
    if snapshot is not None:
        return FileStart(str(path), "snapshot", snapshot.offset, snapshot.epoch)
    return FileStart(str(path), "segment", base_offset_of(path))


def _first_segment(path: Path, from_offset: Offset) -> Path:
    """Where following begins: the last segment that does not start after the offset wanted."""
    files = files_of(path)
    before = [file for file in files if base_offset_of(file) <= from_offset]
    return before[-1] if before else files[0]


def _successor(path: Path) -> Path | None:
    """The segment after this one, once a node has begun it."""
    base = base_offset_of(path)
    later = [file for file in path.parent.iterdir() if base_offset_of(file) > base]
    return min(later) if later and base >= 0 else None
