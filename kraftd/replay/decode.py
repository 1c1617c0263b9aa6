"""Batches to rows: one row a record, as Arrow columns, with the envelope and the decoded body.

Plain Python decodes a record; numpy repeats what belongs to its batch. The same few values make up most of a
metadata log (nine records in ten are the same NoOp), so what was made of a short value is remembered.

A batch that fails its check is one row with `crc_ok` false, its bytes unparsed, and a `problem`: its records
cannot be trusted. A record whose body cannot be decoded keeps its raw bytes and says why in `problem`; one of
a kind that this program does not know has a name and a version, but no body.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from kraftd.errors import CorruptBatchError, MalformedError
from kraftd.records.batch import BatchView, RecordView
from kraftd.records.control import RawControl, control_name, control_to_json, decode_control
from kraftd.records.frame import RawRecord, decode_record, read_frame, record_name, to_json
from kraftd.replay.commit import Bounds, Status
from kraftd.replay.headers import mapped
from kraftd.types import NodeId, Offset

ROWS_PER_BATCH = 16_384
"""A few MB of rows: large enough for Arrow, small enough for a worker's memory."""

REMEMBERED_VALUES = 4096
REMEMBERED_BYTES = 64

MAX_TIMESTAMP_MS = 253_402_300_799_999
"""The end of the year 9999, the last that Spark can show; what is beyond it, or negative, is null."""

_TIME = pa.timestamp("us", tz="UTC")

SCHEMA = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("node_id", pa.int32()),
        ("directory", pa.string()),
        ("file", pa.string()),
        ("is_snapshot", pa.bool_()),
        ("segment_base_offset", pa.int64()),
        ("batch_base_offset", pa.int64()),
        ("batch_last_offset", pa.int64()),
        ("batch_position", pa.int64()),
        ("batch_size_bytes", pa.int64()),
        ("batch_timestamp", _TIME),
        ("batch_max_timestamp", _TIME),
        ("epoch", pa.int32()),
        ("crc_ok", pa.bool_()),
        ("is_control", pa.bool_()),
        ("is_transactional", pa.bool_()),
        ("offset", pa.int64()),
        ("timestamp", _TIME),
        ("type", pa.string()),
        ("api_key", pa.int32()),
        ("version", pa.int32()),
        ("body", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("commit_status", pa.string()),
        ("problem", pa.string()),
    ]
)
"""The columns of a record.

`segment_base_offset` is a snapshot's end offset; offsets inside a snapshot are its own running count.
`api_key` of a control record is its control type. `body` is JSON with Kafka's field names, null for kinds
that are not known. `key` and `value` are the raw bytes, the value with its frame. `node_id` is -1 where the
directory does not say. `commit_status` is one of `kraftd.replay.commit.Status`.
"""


class Slice(msgspec.Struct, frozen=True):
    """A part of one file, whole batches from `start` to `end`, and what is known about its origin."""

    cluster_id: str
    node_id: NodeId
    directory: str
    path: str
    file: str
    is_snapshot: bool
    segment_base_offset: Offset
    start: int
    end: int
    bounds: Bounds


class Content(NamedTuple):
    """What a record's key and value say."""

    type: str | None
    api_key: int | None
    version: int | None
    body: str | None
    problem: str | None


BatchRow: TypeAlias = tuple[Offset, Offset, int, int, int, int, int, bool, bool, bool]
"""Base and last offset, position, size, timestamps, epoch, checksum good, control, transactional."""


def rows(slices: Sequence[Slice]) -> Iterator[pa.RecordBatch]:
    """Decode slices into Arrow record batches of bounded size."""
    for piece in slices:
        with mapped(piece.path) as data:
            part = bytes(data[piece.start : piece.end])
        rows_of_slice = _Rows(piece)
        for batch in _batches(piece, part):
            rows_of_slice.add(batch)
            if rows_of_slice.count >= ROWS_PER_BATCH:
                yield rows_of_slice.take()
        if rows_of_slice.count:
            yield rows_of_slice.take()


def _batches(piece: Slice, data: bytes) -> Iterator[BatchView]:
    """The batches of a slice up to the first whose length cannot be right; the survey reports the rest."""
    position = 0
    view = memoryview(data)
    while position < len(data):
        try:
            batch = BatchView(view, position, path=piece.file)
        except CorruptBatchError:
            return
        yield batch
        position += batch.size_bytes


@lru_cache(maxsize=REMEMBERED_VALUES)
def _short_content(value: bytes) -> Content:
    return _data_content(value)


def _data_content(value: bytes) -> Content:
    """Decode a metadata record."""
    try:
        api_key, version, _ = read_frame(value)
    except MalformedError as error:
        return Content(None, None, None, None, str(error))
    name = record_name(api_key)
    try:
        record = decode_record(value)
    except MalformedError as error:
        return Content(name, api_key, version, None, str(error))
    if isinstance(record, RawRecord):
        return Content(name, api_key, version, None, None)
    return Content(name, api_key, version, _json(to_json(record, version)), None)


def _control_content(record: RecordView) -> Content:
    """Decode a control record."""
    try:
        control = decode_control(record.key, record.value)
    except MalformedError as error:
        return Content(None, None, None, None, str(error))
    if isinstance(control, RawControl):
        return Content(control_name(control.type), control.type, control.version, None, None)
    kind = control.CONTROL_TYPE
    return Content(control_name(kind), kind, control.version, _json(control_to_json(control)), None)


def _json(dump: dict[str, object]) -> str:
    return msgspec.json.encode(dump["data"]).decode()


def _content(batch: BatchView, record: RecordView) -> Content:
    if batch.is_control:
        return _control_content(record)
    if record.value is None:
        return Content(None, None, None, None, "a metadata record without a value")
    if len(record.value) <= REMEMBERED_BYTES:
        return _short_content(record.value)
    return _data_content(record.value)


class _Rows:
    """Columns that grow; `take` turns them into a record batch and starts anew."""

    def __init__(self, piece: Slice) -> None:
        self._piece = piece
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self._batches: list[BatchRow] = []
        self._counts: list[int] = []
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._contents: list[Content] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []

    def add(self, batch: BatchView) -> None:
        """Add a row for each record of a batch, or one for a batch that cannot be trusted."""
        try:
            batch.check()
            if not batch.is_control and self._add_values(batch):
                return
            records = batch.records()
        except CorruptBatchError as error:
            self._add_batch(batch, 1, crc_ok=False)
            content = Content(None, None, None, None, f"byte {self._position(batch)}: {error.reason}")
            self._add_record(batch.base_offset, batch.base_timestamp, content, None, None)
            return
        self._add_batch(batch, len(records), crc_ok=True)
        for record in records:
            self._add_record(
                batch.base_offset + record.offset_delta,
                batch.base_timestamp + record.timestamp_delta,
                _content(batch, record),
                record.key,
                record.value,
            )

    def _add_values(self, batch: BatchView) -> bool:
        """Add the rows of a batch as controllers write them: no keys, no headers, one timestamp."""
        try:
            values = batch.values()
        except CorruptBatchError:
            return False
        count = len(values)
        self._add_batch(batch, count, crc_ok=True)
        self.count += count
        self._offsets += range(batch.base_offset, batch.end_offset)
        self._timestamps += [batch.base_timestamp] * count
        self._contents += [
            _short_content(value) if len(value) <= REMEMBERED_BYTES else _data_content(value)
            for value in values
        ]
        self._keys += [None] * count
        self._values += values
        return True

    def _position(self, batch: BatchView) -> int:
        return self._piece.start + batch.position

    def _add_batch(self, batch: BatchView, count: int, *, crc_ok: bool) -> None:
        self._counts.append(count)
        self._batches.append(
            (
                batch.base_offset,
                batch.last_offset,
                self._position(batch),
                batch.size_bytes,
                batch.base_timestamp,
                batch.max_timestamp,
                batch.epoch,
                crc_ok,
                batch.is_control,
                batch.is_transactional,
            )
        )

    def _add_record(
        self, offset: Offset, timestamp_ms: int, content: Content, key: bytes | None, value: bytes | None
    ) -> None:
        self.count += 1
        self._offsets.append(offset)
        self._timestamps.append(timestamp_ms)
        self._contents.append(content)
        self._keys.append(key)
        self._values.append(value)

    def take(self) -> pa.RecordBatch:
        """Hand over what has grown."""
        piece, count = self._piece, self.count
        repeats = np.array(self._counts)
        base, last, position, size, time, max_time, epoch, crc_ok, control, transactional = (
            np.repeat(np.array(column), repeats) for column in zip(*self._batches, strict=True)
        )
        offsets = np.array(self._offsets, dtype=np.int64)
        types, api_keys, versions, bodies, problems = zip(*self._contents, strict=True)
        columns = [
            pa.repeat(piece.cluster_id, count),
            pa.repeat(pa.scalar(piece.node_id, pa.int32()), count),
            pa.repeat(piece.directory, count),
            pa.repeat(piece.file, count),
            pa.repeat(pa.scalar(piece.is_snapshot), count),
            pa.repeat(pa.scalar(piece.segment_base_offset, pa.int64()), count),
            pa.array(base, pa.int64()),
            pa.array(last, pa.int64()),
            pa.array(position, pa.int64()),
            pa.array(size, pa.int64()),
            _times(time),
            _times(max_time),
            pa.array(epoch, pa.int32()),
            pa.array(crc_ok),
            pa.array(control),
            pa.array(transactional),
            pa.array(offsets),
            _times(np.array(self._timestamps, dtype=np.int64)),
            pa.array(types, pa.string()),
            pa.array(api_keys, pa.int32()),
            pa.array(versions, pa.int32()),
            pa.array(bodies, pa.string()),
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            pa.array(_statuses(offsets, piece.bounds), pa.string()),
            pa.array(problems, pa.string()),
        ]
        self._clear()
        return pa.record_batch(columns, schema=SCHEMA)


def _times(milliseconds: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> pa.Array:
    """Milliseconds as timestamps; what is no time is null."""
    unusable = (milliseconds < 0) | (milliseconds > MAX_TIMESTAMP_MS)
    return pa.array(np.where(unusable, 0, milliseconds) * 1000, mask=unusable).cast(_TIME)


def _statuses(offsets: "np.ndarray[tuple[int], np.dtype[np.int64]]", bounds: Bounds) -> list[str]:
    names = np.array([Status.COMMITTED.value, Status.UNKNOWN.value, Status.UNCOMMITTED.value], dtype=object)
    at = (offsets >= bounds.committed_end).astype(np.int8) + (offsets >= bounds.uncommitted_from)
    return names[at].tolist()  # type: ignore[no-any-return]
