"""A snapshot file: a header batch, the records that make the state, a footer batch.

`encode_snapshot` writes one, a piece at a time; `SnapshotDecoder` reads one, in pieces of any size, and
proves it: every checksum, no gap, one epoch, a header first and a footer last. `SnapshotCheck` is that rule
alone, for readers that go on behind damage. `bootstrap.checkpoint` has the same form.

Offsets count the snapshot's own records from 0, control records too, and have nothing to do with those of the
log. What it stands for is in its name (`names.snapshot_name`).

Not here: which records make a state (`kraftd.metadata.snapshot`), and the file on a disk.
Follows: Kafka's RecordsSnapshotWriter and RecordsSnapshotReader (SNAP-09, SNAP-16, SNAP-17).
Differs: Kafka reads a file without its footer, so that one that was cut between two batches passes for a
shorter snapshot (Q-21). Its batches carry the wall clock; here the timestamp is the caller's, so that two
nodes write the same bytes for the same state.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from kraftd.errors import CorruptBatchError, MalformedError
from kraftd.records.batch import BatchBuilder, BatchView, encode_control_batch
from kraftd.records.batch_header import BATCH_BYTES_MAX
from kraftd.records.control import AnyControl, decode_control, encode_control
from kraftd.records.messages import SnapshotFooterRecord, SnapshotHeaderRecord
from kraftd.types import Epoch, Offset

BATCH_RECORDS_MAX: Final = 1_024

_GATHERED: Final = 128
"""How many records are taken before the caller may stop: some 0.1 ms."""
_VALUES_BYTES_MAX: Final = BATCH_BYTES_MAX // 2
"""Where large values end a batch sooner: the other half is room for one more, and for what is around them."""


def encode_snapshot(
    values: Iterable[bytes],
    epoch: Epoch,
    timestamp_ms: int,
    *,
    last_contained_timestamp_ms: int,
    quorum: Sequence[AnyControl] = (),
) -> Iterator[bytes]:
    """The bytes of a snapshot, batch after batch.

    A piece is empty where records were gathered and their batch is not full yet: whoever has other things to
    do can stop after each.

    Args:
        values: Framed records, in the order of a snapshot.
        epoch: That of the snapshot's id.
        timestamp_ms: What every batch carries.
        last_contained_timestamp_ms: That of the last batch of the log that the snapshot stands for.
        quorum: The KRaftVersion and the KRaftVoters in force there, where there are any.
    """
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_timestamp_ms)
    controls = [encode_control(record) for record in (header, *quorum)]
    yield encode_control_batch(0, epoch, timestamp_ms, controls)
    end, batch, remaining = len(controls), BatchBuilder(), iter(values)
    while gathered := list(islice(remaining, min(_GATHERED, BATCH_RECORDS_MAX - batch.count))):
        for fitting in _fitting(gathered):
            if batch.count and batch.values_bytes + sum(map(len, fitting)) > _VALUES_BYTES_MAX:
                yield batch.finish(end, epoch, timestamp_ms)
                end, batch = end + batch.count, BatchBuilder()
            batch.add(fitting)
        yield b""
        if batch.count == BATCH_RECORDS_MAX:
            yield batch.finish(end, epoch, timestamp_ms)
            end, batch = end + batch.count, BatchBuilder()
    if batch.count:
        yield batch.finish(end, epoch, timestamp_ms)
        end += batch.count
    yield encode_control_batch(end, epoch, timestamp_ms, [encode_control(SnapshotFooterRecord(version=0))])


def _fitting(values: list[bytes]) -> Iterator[list[bytes]]:
    """The values as they are, or one by one where some are so large that they may not fit into one batch."""
    if max(map(len, values)) * len(values) <= _VALUES_BYTES_MAX:
        yield values
    else:
        yield from ([value] for value in values)


class SnapshotCheck:
    """Whether batches make a whole snapshot, as far as they were shown."""

    def __init__(self, epoch: Epoch | None = None) -> None:
        """Begin before the first batch; `epoch` is what the file's name says, None if it says none."""
        self.end: Offset = 0
        """The end of the last batch."""
        self.header: SnapshotHeaderRecord | None = None
        """What it begins with."""
        self.is_complete = False
        """Whether it begins with a header, and the last batch holds the footer."""
        self._epoch = epoch
        self._is_after_damage = False

    def problem_with(self, view: BatchView) -> str:
        """Why a batch cannot be the next one, empty if it can. What follows is looked for behind it."""
        gap = self._gap(view)
        self._is_after_damage = False
        if not self.end:
            first = _controls(view)[:1]
            self.header = next((one for one in first if isinstance(one, SnapshotHeaderRecord)), None)
        self.end = view.end_offset
        footer = any(isinstance(one, SnapshotFooterRecord) for one in _controls(view))
        self.is_complete = footer and self.header is not None
        return gap or self._other_epoch(view)

    def pass_over(self) -> None:
        """Take note of damage that was told already: what follows may begin anywhere."""
        self._is_after_damage = True

    def missing(self) -> str:
        """What lacks after the last batch, empty if it is all there."""
        if self.is_complete:
            return ""
        if not self.end:
            return "is empty, so it is no snapshot"
        lacks = "header, so it is no snapshot" if self.header is None else "footer, so it was cut short"
        return f"has no {lacks}"

    def _gap(self, view: BatchView) -> str:
        if self._is_after_damage or view.base_offset == self.end:
            return ""
        return f"record {view.base_offset} of the snapshot comes where record {self.end} must"

    def _other_epoch(self, view: BatchView) -> str:
        """Why a batch is not of the epoch that the name says; said once of a file."""
        named, self._epoch = self._epoch, None
        if named is None or view.epoch == named:
            self._epoch = named
            return ""
        return f"is a snapshot of epoch {view.epoch}, its name says {named}"


class SnapshotDecoder:
    """Reads and proves a snapshot whose bytes come in pieces.

    What it raises is `MalformedError`, with the place where that is known, and then nothing more may be fed.
    """

    def __init__(self, path: str = "", epoch: Epoch | None = None) -> None:
        """Begin before the first byte.

        Args:
            path: The file, for errors.
            epoch: What the file's name says; None if it says none.
        """
        self.batch_position = 0
        """Where in the file the newest batch begins, in bytes."""
        self._path = path
        self._check = SnapshotCheck(epoch)
        self._position = 0
        """How many bytes were whole batches."""
        self._rest = b""

    @property
    def header(self) -> SnapshotHeaderRecord | None:
        """What the snapshot begins with, once it was read."""
        return self._check.header

    def feed(self, piece: bytes) -> Iterator[BatchView]:
        """Every batch that is whole now, each proved.

        Raises:
            CorruptBatchError: A batch is none, or cannot be the next one.
        """
        data, at = self._rest + piece, 0
        self._rest = b""
        try:
            while at < len(data):
                view = BatchView(data, at, self._path)
                view.check()
                if problem := self._check.problem_with(view):
                    raise CorruptBatchError(problem, position_bytes=at)
                self.batch_position = self._position + at
                yield view
                at += view.size_bytes
        except CorruptBatchError as error:
            if not error.torn or len(data) - at > BATCH_BYTES_MAX:
                raise self._corrupt(error.reason, at) from error
        self._rest = data[at:]
        self._position += at

    def finish(self) -> None:
        """Prove that the snapshot ends here.

        Raises:
            MalformedError: It does not.
        """
        if self._rest:
            raise self._corrupt(f"the file ends {len(self._rest)} bytes into a batch", 0)
        if problem := self._check.missing():
            position = 0 if self.header is None else self._position
            raise CorruptBatchError(problem, position_bytes=position, path=self._path)

    def _corrupt(self, reason: str, at: int) -> CorruptBatchError:
        return CorruptBatchError(reason, position_bytes=self._position + at, path=self._path)


def _controls(view: BatchView) -> list[AnyControl]:
    """The control records of a batch, none if they cannot be read."""
    if not view.is_control:
        return []
    try:
        return [decode_control(record.key, record.value) for record in view.records()]
    except MalformedError:
        return []
