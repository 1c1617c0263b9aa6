"""What is in segments and snapshots, batch by batch, good or bad: the reading half of `kraftctl log dump`.

Files are only read, with no lock, so a live node's directory can be looked at. Batches are read one at a
time: a segment of 1 GiB costs no more memory than its largest batch. A fault does not end the dump: it goes
on at the next byte where a whole batch with a good checksum begins, and says how many bytes it had to leave
out.

`Selection` says what is wanted, `read_file` yields it, `follow` goes on with whatever a running node appends.

Follows: the names and contents of Kafka's DumpLogSegments with `--cluster-metadata-decoder`.
Differs: that one trusts every size field, and ends at the first wrong one.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

import msgspec

from kraftd.cli.failures import CommandError
from kraftd.errors import CorruptBatchError, MalformedError
from kraftd.metadata.secrets import shown
from kraftd.records import names
from kraftd.records.batch import HEADER_BYTES, BatchView, RecordView
from kraftd.records.control import control_to_json, decode_control
from kraftd.records.frame import decode_record, read_frame, to_json
from kraftd.types import Epoch, Offset

FOLLOW_PAUSE_S = 0.2

_OVERHEAD_BYTES = 12
_MAGIC = b"\x02"
_MAGIC_AT = 16
_SEARCH_BYTES = 64 << 20
_NO_LIMIT = (1 << 63) - 1


class FileStart(msgspec.Struct, frozen=True):
    """A file begins. `offset` is where a segment starts or a snapshot ends; -1 if the name tells nothing."""

    path: str
    kind: str
    offset: Offset = -1
    epoch: Epoch = -1


class Batch(msgspec.Struct, frozen=True):
    """A batch, whole as far as its own size goes. `fault` is why it is not valid, None if it is."""

    path: str
    position: int
    view: BatchView
    fault: str | None


class Entry(msgspec.Struct, frozen=True):
    """A record, decoded. `type`, `version` and `data` are Kafka's; `fault` says why there is no data."""

    batch: Batch
    record: RecordView
    type: str
    version: int
    data: object
    fault: str | None = None

    @property
    def offset(self) -> Offset:
        """Its place in the log; in a snapshot, its running number."""
        return self.batch.view.base_offset + self.record.offset_delta

    @property
    def timestamp_ms(self) -> int:
        """When it was written."""
        return self.batch.view.base_timestamp + self.record.timestamp_delta


class Fault(msgspec.Struct, frozen=True):
    """Bytes that cannot be trusted or read: where, how many, why. `torn`: the file only ends too early."""

    path: str
    position: int
    size_bytes: int
    offset: Offset
    reason: str
    torn: bool


Item: TypeAlias = FileStart | Batch | Entry | Fault


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

    def wants(self, entry: Entry) -> bool:
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
        CommandError: There is nothing of the kind.
    """
    if not path.is_dir():
        if not path.exists():
            raise CommandError(
                f"{path} does not exist; name a .log or .checkpoint file, or a node's directory"
            )
        return [path]
    inner = path / names.LOG_DIRECTORY
    directory = inner if inner.is_dir() else path
    segments = sorted(file for file in directory.iterdir() if _base_offset(file) >= 0)
    if not segments:
        raise CommandError(
            f"{path} holds no segment; name a directory with {names.LOG_DIRECTORY} or .log files"
        )
    return segments


def read_file(path: Path, selection: Selection) -> Iterator[Item]:
    """Everything wanted in one file, in order; faults are always told.

    Raises:
        CommandError: The file cannot be opened or read.
    """
    with _open(path) as file:
        yield _file_start(path)
        reader = _Reader(path, file)
        yield from reader.read(selection)
        if reader.torn:
            yield reader.torn


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
        with _open(current) as file:
            yield _file_start(current)
            reader = _Reader(current, file)
            successor: Path | None = None
            while successor is None:
                successor = _successor(current)  # looked up first: nothing is appended here once there is one
                yield from reader.read(selection)
                if successor is None:
                    pause()
                    reader.step_back()
            if reader.torn:
                yield reader.torn
        current = successor


class _Reader:
    """Reads one file from where it stopped last, up to where the file ends now."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path = str(path)
        self._file = file
        self._position = 0
        self._next_offset = max(_base_offset(path), 0)
        self.torn: Fault | None = None
        """The beginning of a batch at the end of the file, if there is one."""

    def read(self, selection: Selection) -> Iterator[Item]:
        end = self._file.seek(0, 2)
        self.torn = None
        while self._position < end:
            try:
                view = self._batch_at(self._position, end)
                fault = _fault_of(view)
            except CorruptBatchError as error:
                fault, view = error.reason, None
                if error.torn and self._next_good(end) is None:
                    self.torn = self._fault(fault, end, torn=True)
                    return
            if view is None or (fault and not self._begins_batch(self._position + view.size_bytes, end)):
                target = self._next_good(end) or end
                yield self._fault(fault or "", target, torn=False)
                self._position = target
                continue
            yield from _select(Batch(self._path, self._position, view, fault), selection)
            self._position += view.size_bytes
            self._next_offset = view.end_offset

    def step_back(self) -> None:
        """Follow the file where it was cut: a truncation ends at a batch's end."""
        self._position = min(self._position, self._file.seek(0, 2))

    def _batch_at(self, position: int, end: int) -> BatchView:
        self._file.seek(position)
        head = self._file.read(_OVERHEAD_BYTES)
        size = int.from_bytes(head[8:12], "big", signed=True) + _OVERHEAD_BYTES
        if len(head) < _OVERHEAD_BYTES:
            raise self._corrupt(f"{len(head)} bytes are left, fewer than a batch begins with", torn=True)
        if size < HEADER_BYTES:
            raise self._corrupt(f"the batch claims {size} bytes, fewer than its header")
        if size > end - position:
            raise self._corrupt(f"the batch claims {size} bytes, {end - position} are left", torn=True)
        return BatchView(head + self._file.read(size - _OVERHEAD_BYTES), path=self._path)

    def _corrupt(self, reason: str, *, torn: bool = False) -> CorruptBatchError:
        return CorruptBatchError(reason, position_bytes=self._position, path=self._path, torn=torn)

    def _begins_batch(self, position: int, end: int) -> bool:
        if position == end:
            return True
        try:
            self._batch_at(position, end).check()
        except CorruptBatchError:
            return False
        return True

    def _fault(self, reason: str, until: int, *, torn: bool) -> Fault:
        return Fault(self._path, self._position, until - self._position, self._next_offset, reason, torn)

    def _next_good(self, end: int) -> int | None:
        """Where the next whole batch with a good checksum begins, if there is one."""
        self._file.seek(self._position)
        rest = self._file.read(min(_SEARCH_BYTES, end - self._position))
        at = 0
        while (at := rest.find(_MAGIC, at + _MAGIC_AT + 1) - _MAGIC_AT) >= 0:
            try:
                BatchView(rest, at).check()
            except CorruptBatchError:
                continue
            return self._position + at
        return None


def _select(batch: Batch, selection: Selection) -> Iterator[Item]:
    """The batch with those of its records that are wanted; nothing if none is. A bad batch is always told."""
    if batch.fault is None and not selection.may_hold(batch.view):
        return
    try:
        entries = [
            _entry(batch, record, show_secrets=selection.show_secrets) for record in batch.view.records()
        ]
    except CorruptBatchError as error:
        reason = batch.fault or error.reason
        yield msgspec.structs.replace(batch, fault=reason)
        return
    wanted = [entry for entry in entries if selection.wants(entry)]
    if wanted or batch.fault is not None:
        yield batch
        yield from wanted


def _entry(batch: Batch, record: RecordView, *, show_secrets: bool) -> Entry:
    try:
        told = _told(record, is_control=batch.view.is_control, show_secrets=show_secrets)
    except MalformedError as error:
        return Entry(batch, record, "UNREADABLE", -1, None, str(error))
    return Entry(batch, record, told["type"], told["version"], told["data"])


def _told(record: RecordView, *, is_control: bool, show_secrets: bool) -> dict[str, Any]:
    if is_control:
        return control_to_json(decode_control(record.key, record.value))
    value = record.value or b""
    _, version, _ = read_frame(value)
    return (to_json if show_secrets else shown)(decode_record(value), version)


def _fault_of(view: BatchView) -> str | None:
    try:
        view.check()
    except CorruptBatchError as error:
        return error.reason
    return None


def _file_start(path: Path) -> FileStart:
    if path.name == names.BOOTSTRAP_CHECKPOINT:
        return FileStart(str(path), "bootstrap")
    snapshot = names.parse_snapshot_name(path.name)
    if snapshot is not None:
        return FileStart(str(path), "snapshot", snapshot.offset, snapshot.epoch)
    return FileStart(str(path), "segment", _base_offset(path))


def _base_offset(path: Path) -> Offset:
    segment = names.parse_segment_name(path.name)
    return segment.base_offset if segment and segment.suffix == "log" else -1


def _first_segment(path: Path, from_offset: Offset) -> Path:
    """Where following begins: the last segment that does not start after the offset wanted."""
    files = files_of(path)
    before = [file for file in files if _base_offset(file) <= from_offset]
    return before[-1] if before else files[0]


def _successor(path: Path) -> Path | None:
    """The segment after this one, once a node has begun it."""
    base = _base_offset(path)
    later = [file for file in path.parent.iterdir() if _base_offset(file) > base]
    return min(later) if later and base >= 0 else None


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise CommandError(f"{path} cannot be read: {error.strerror}") from error
