"""Batches of one file, good or bad, in the order of the bytes.

Files are only read, with no lock, so a live node's directory can be looked at. Batches are read one at a
time: a segment of 1 GiB costs no more memory than its largest batch. Damage does not end the reading: it
goes on at the next byte where a whole batch with a good checksum begins, however far that is, and says how
many bytes it had to leave out. Of a snapshot, which is whole or of no use, nothing is looked for behind it.

`BatchReader` reads a file, also on while it grows; `read_batches` reads one to its end. Which files make up a
log is in `node_files`. The replay reads the headers of whole files at once (`kraftd.replay.source.headers`),
by the same rules.

Differs: Kafka's DumpLogSegments trusts every size field, and ends at the first wrong one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from kraftd.errors import CorruptBatchError, MalformedError
from kraftd.logtools.errors import FileGoneError, UnanswerableError
from kraftd.logtools.problem import Problem, ProblemKind, in_file
from kraftd.logtools.torn import begins_batch
from kraftd.records import names
from kraftd.records.batch import BatchView
from kraftd.records.batch_header import BATCH_BYTES_MAX, HEADER_BYTES, LENGTH_AT, OVERHEAD_BYTES, layout
from kraftd.records.batch_search import plausible_headers
from kraftd.regular_file import open_to_read
from kraftd.types import Epoch, Offset

_PLACE = layout("base_offset", "length", "last_offset_delta")


class Batch(msgspec.Struct, frozen=True):
    """A batch, whole as far as its own size goes. `problem` is why it is not valid, None if it is."""

    path: str
    position: int
    view: BatchView
    problem: Problem | None

    def as_problem(self, text: str, offset: Offset = -1) -> Problem:
        """What is wrong with this batch, or with the record in it that has this offset."""
        at = offset if offset >= 0 else self.view.base_offset
        size_bytes = self.view.size_bytes
        return in_file(self.path, text, position_bytes=self.position, offset=at, size_bytes=size_bytes)


def read_batches(
    path: Path, from_offset: Offset = 0, *, with_records: bool = True, with_rest: bool = True
) -> Iterator[Batch | Problem]:
    """Everything in one file. A `TORN` problem is the last item, if there is one.

    Args:
        path: A segment or a snapshot.
        from_offset: Batches that end at or before it are passed over, unchecked.
        with_records: Look whether the records fill their batch; whoever reads them finds out anyway.
        with_rest: Look for batches behind bytes that are none.

    Raises:
        UnanswerableError: The file cannot be opened or read.
    """
    with open_file(path) as file:
        reader = BatchReader(path, file, with_rest=with_rest)
        for item in reader.read(from_offset):
            yield _with_records_checked(item) if with_records and isinstance(item, Batch) else item
        if reader.torn:
            yield reader.torn


def _with_records_checked(batch: Batch) -> Batch:
    """A batch whose checksum is good may still hold records that do not fill it."""
    if batch.problem is not None:
        return batch
    try:
        if batch.view.values():  # nearly every batch, and quicker
            return batch
    except CorruptBatchError:
        pass  # records of any other form may fill it as well
    try:
        batch.view.records()
    except CorruptBatchError as error:
        return msgspec.structs.replace(batch, problem=batch.as_problem(error.reason))
    return batch


class BatchReader:
    """Reads one file from where it stopped last, up to where the file ends now."""

    def __init__(self, path: Path, file: IO[bytes], *, with_rest: bool = True) -> None:
        self._path = str(path)
        self._file = file
        self._with_rest = with_rest
        self._position = 0
        self._next_offset = max(base_offset_of(path), 0)
        self._epoch: Epoch = 0
        self.torn: Problem | None = None
        """The beginning of a batch at the end of the file, if there is one."""

    def read(self, from_offset: Offset = 0) -> Iterator[Batch | Problem]:
        """Whatever the file has gained."""
        end = self._file.seek(0, 2)
        self.torn = None
        while self._position < end:
            if self._next_offset < from_offset and self._pass_over(from_offset, end):
                continue
            try:
                view = self._batch_at(self._position, end)
                reason = invalid_because(view)
            except CorruptBatchError as error:
                reason, view = error.reason, None
                if error.torn and self._is_torn(end):
                    self.torn = self._problem(reason, end, ProblemKind.TORN)
                    return
            if view is not None and (not reason or self._begins_batch(self._position + view.size_bytes, end)):
                yield self._batch(view, reason)
                self._position += view.size_bytes
                self._next_offset, self._epoch = view.end_offset, max(view.epoch, self._epoch)
            else:
                resumed = self._next_good(end) or end
                yield self._problem(reason, resumed, ProblemKind.DAMAGED)
                self._position = resumed

    def step_back(self) -> None:
        """Follow the file where it was cut: a truncation ends at a batch's end."""
        self._position = min(self._position, self._file.seek(0, 2))

    def _pass_over(self, from_offset: Offset, end: int) -> bool:
        """Step over a batch that nobody wants, by its header alone; false if it is wanted or looks wrong."""
        self._file.seek(self._position)
        header = self._file.read(HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            return False
        base, length, last_delta = _PLACE.unpack_from(header)
        size, end_offset = length + OVERHEAD_BYTES, base + last_delta + 1
        if not HEADER_BYTES <= size <= end - self._position:
            return False
        if base != self._next_offset or not base < end_offset <= from_offset:
            return False
        self._position += size
        self._next_offset = end_offset
        return True

    def _batch_at(self, position: int, end: int) -> BatchView:
        size = declared_size(self._bytes_at(HEADER_BYTES, position), position, end)
        return BatchView(self._bytes_at(size, position), path=self._path)

    def _is_torn(self, end: int) -> bool:
        """Whether the rest of the file is the beginning of the batch that must come next."""
        left = min(end - self._position, BATCH_BYTES_MAX)
        return begins_batch(self._bytes_at(left, self._position), self._next_offset, self._epoch)

    def _begins_batch(self, position: int, end: int) -> bool:
        if position == end:
            return True
        try:
            self._batch_at(position, end).check()
        except CorruptBatchError:
            return False
        return True

    def _batch(self, view: BatchView, reason: str) -> Batch:
        batch = Batch(self._path, self._position, view, None)
        return msgspec.structs.replace(batch, problem=batch.as_problem(reason)) if reason else batch

    def _problem(self, reason: str, until: int, kind: ProblemKind) -> Problem:
        return in_file(
            self._path,
            reason,
            kind=kind,
            position_bytes=self._position,
            offset=self._next_offset,
            size_bytes=until - self._position,
        )

    def _next_good(self, end: int) -> int | None:
        """Where the next whole batch with a good checksum begins, if there is one that is wanted."""
        if not self._with_rest:
            return None
        for position, _ in plausible_headers(self._bytes_at, self._position + 1, end):
            if self._begins_batch(position, end):
                return position
        return None

    def _bytes_at(self, size_bytes: int, position: int) -> bytes:
        self._file.seek(position)
        return self._file.read(size_bytes)


def problem_of(item: Batch | Problem) -> Problem | None:
    """What is wrong with what a reader gave; None for a batch that is valid."""
    return item.problem if isinstance(item, Batch) else item


def declared_size(head: bytes, position: int, end: int) -> int:
    """How long the batch is that begins with these bytes, by its own word; all of it is in the file.

    Args:
        head: The first bytes, as many as a header has, or fewer at the end of the file.
        position: Where in the file they are.
        end: Where the file ends.

    Raises:
        CorruptBatchError: It is no batch, or (`torn`) the file ends inside it.
    """
    left = end - position
    size = int.from_bytes(head[LENGTH_AT:OVERHEAD_BYTES], "big", signed=True) + OVERHEAD_BYTES
    if left < OVERHEAD_BYTES:
        reason, torn = f"{left} bytes are left, fewer than a batch begins with", True
    elif not any(head):
        reason, torn = "zeros, where a batch must begin", False
    elif size < HEADER_BYTES:
        reason, torn = f"the batch claims {size} bytes, fewer than its header", False
    elif size > BATCH_BYTES_MAX:
        reason, torn = f"the batch claims {size} bytes, more than one can have", size > left
    elif size > left:
        reason, torn = f"the batch claims {size} bytes, {left} are left", True
    else:
        return size
    raise CorruptBatchError(reason, position_bytes=position, torn=torn)


def reason_of(error: MalformedError) -> str:
    """What is wrong with a batch or a record, without the place: who reads the file knows it better."""
    return error.reason if isinstance(error, CorruptBatchError) else str(error)


def invalid_because(view: BatchView) -> str:
    """Why a batch is not valid; empty if it is."""
    try:
        view.check()
    except CorruptBatchError as error:
        return error.reason
    return ""


def base_offset_of(path: Path) -> Offset:
    """Where a segment begins, by its name; -1 if it is no segment's."""
    try:
        segment = names.parse_segment_name(path.name)
    except MalformedError:
        return -1
    return segment.base_offset if segment and segment.suffix == "log" else -1


@contextmanager
def open_file(path: Path) -> Iterator[IO[bytes]]:
    """A file for reading.

    Raises:
        FileGoneError: It is not there.
        UnanswerableError: It cannot be opened or read.
    """
    try:
        with open_to_read(path) as file:
            yield file
    except FileNotFoundError:
        raise FileGoneError(path) from None
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise UnanswerableError(f"{path} cannot be read: {error.strerror}") from error
