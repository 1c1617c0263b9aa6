"""Batches of one file, good or bad, in the order of the bytes.

Files are only read, with no lock, so a live node's directory can be looked at. Batches are read one at a
time: a segment of 1 GiB costs no more memory than its largest batch. A fault does not end the reading: it
goes on at the next byte where a whole batch with a good checksum begins, and says how many bytes it had to
leave out.

`BatchReader` reads a file, also on while it grows; `read_batches` reads one to its end. Which files make up a
log is in `files`.

Differs: Kafka's DumpLogSegments trusts every size field, and ends at the first wrong one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from kraftd.errors import CorruptBatchError, MalformedError
from kraftd.forensics.errors import UnanswerableError
from kraftd.records import names
from kraftd.records.batch import HEADER_BYTES, BatchView
from kraftd.types import Offset

_OVERHEAD_BYTES = 12
_MAGIC = b"\x02"
_MAGIC_AT = 16
_SEARCH_BYTES = 64 << 20


class Batch(msgspec.Struct, frozen=True):
    """A batch, whole as far as its own size goes. `fault` is why it is not valid, None if it is."""

    path: str
    position: int
    view: BatchView
    fault: str | None


class Fault(msgspec.Struct, frozen=True):
    """Bytes that cannot be trusted or read: where, how many, why. `torn`: the file only ends too early."""

    path: str
    position: int
    size_bytes: int
    offset: Offset
    reason: str
    torn: bool

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position} (offset {self.offset}): {self.reason}"


def read_batches(
    path: Path, from_offset: Offset = 0, *, with_records: bool = True
) -> Iterator[Batch | Fault]:
    """Everything in one file.

    Args:
        path: A segment or a snapshot.
        from_offset: Batches that end at or before it are passed over, unchecked.
        with_records: Look whether the records fill their batch; whoever reads them finds out anyway.

    Raises:
        UnanswerableError: The file cannot be opened or read.
    """
    with open_file(path) as file:
        reader = BatchReader(path, file)
        for item in reader.read(from_offset):
            yield _with_records_checked(item) if with_records and isinstance(item, Batch) else item
        if reader.torn:
            yield reader.torn


def _with_records_checked(batch: Batch) -> Batch:
    """A batch whose checksum is good may still hold records that do not fill it."""
    if batch.fault is not None:
        return batch
    try:
        if batch.view.values():  # nearly every batch, and quicker
            return batch
    except CorruptBatchError:
        pass  # records of any other form may fill it as well
    try:
        batch.view.records()
    except CorruptBatchError as error:
        return msgspec.structs.replace(batch, fault=error.reason)
    return batch


class BatchReader:
    """Reads one file from where it stopped last, up to where the file ends now."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path = str(path)
        self._file = file
        self._position = 0
        self._next_offset = max(base_offset_of(path), 0)
        self.torn: Fault | None = None
        """The beginning of a batch at the end of the file, if there is one."""

    def read(self, from_offset: Offset = 0) -> Iterator[Batch | Fault]:
        """Whatever the file has gained."""
        end = self._file.seek(0, 2)
        self.torn = None
        while self._position < end:
            if self._next_offset < from_offset and self._pass_over(from_offset, end):
                continue
            try:
                view = self._batch_at(self._position, end)
                fault = fault_of(view)
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
            yield Batch(self._path, self._position, view, fault)
            self._position += view.size_bytes
            self._next_offset = view.end_offset

    def step_back(self) -> None:
        """Follow the file where it was cut: a truncation ends at a batch's end."""
        self._position = min(self._position, self._file.seek(0, 2))

    def _pass_over(self, from_offset: Offset, end: int) -> bool:
        """Step over a batch that nobody wants, by its header alone; false if it is wanted or looks wrong."""
        self._file.seek(self._position)
        header = self._file.read(HEADER_BYTES)
        size = int.from_bytes(header[8:12], "big", signed=True) + _OVERHEAD_BYTES
        if len(header) < HEADER_BYTES or not HEADER_BYTES <= size <= end - self._position:
            return False
        base = int.from_bytes(header[:8], "big", signed=True)
        end_offset = base + int.from_bytes(header[23:27], "big", signed=True) + 1
        if base != self._next_offset or not base < end_offset <= from_offset:
            return False
        self._position += size
        self._next_offset = end_offset
        return True

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


def fault_of(view: BatchView) -> str | None:
    """Why a batch is not valid, None if it is."""
    try:
        view.check()
    except CorruptBatchError as error:
        return error.reason
    return None


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
        UnanswerableError: It cannot be opened or read.
    """
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise UnanswerableError(f"{path} cannot be read: {error.strerror}") from error
