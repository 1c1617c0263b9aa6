"""Batches to rows: one row a record, as Arrow columns, with the envelope and the decoded body.

numpy finds the records and repeats what belongs to their batch; Python decodes a record's body. The same few
values make up most of a metadata log (nine records in ten are the same NoOp), so what was made of a short
value is remembered.

A batch that fails its check is one row with `crc_ok` false, its bytes unparsed, and a `problem`: its records
cannot be trusted. A record whose body cannot be decoded keeps its raw bytes and says why in `problem`; one of
a kind that this program does not know has a name and a version, but no body.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftd.errors import CorruptBatchError, MalformedError
from kraftd.metadata.secrets import shown
from kraftd.records.batch import BatchView, RecordView
from kraftd.records.control import RawControl, control_name, control_to_json, decode_control
from kraftd.records.frame import RawRecord, decode_record, read_frame, record_name
from kraftd.replay.commit import Bounds, Status
from kraftd.replay.headers import CONTROL_BIT, TRANSACTIONAL_BIT, mapped, read_headers
from kraftd.replay.lockstep import PADDING, Longs, find_values
from kraftd.replay.model import Headers
from kraftd.types import NodeId, Offset

ROWS_PER_BATCH = 16_384
"""A few MB of rows: large enough for Arrow, small enough for a worker's memory."""

LOCKSTEP_RECORDS_MAX = 16
"""Batches of more records are read one by one: reading in step pays while hundreds of batches take part."""

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
`api_key` of a control record is its control type. `body` is JSON with Kafka's field names, without secrets,
null for kinds that are not known. `key` and `value` are the raw bytes, secrets included, the value with its
frame. `node_id` is -1 where the directory does not say. `commit_status` is one of
`kraftd.replay.commit.Status`.
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


def rows(slices: Sequence[Slice]) -> Iterator[pa.RecordBatch]:
    """Decode slices into Arrow record batches of bounded size."""
    for piece in slices:
        with mapped(piece.path) as data:
            part = bytes(data[piece.start : piece.end]) + PADDING
        headers, _ = read_headers(
            part, end=piece.end - piece.start
        )  # where the chain ends, the survey reports the rest
        for group in _groups(headers):
            yield _record_batch(piece, part, group)


def _groups(headers: Headers) -> Iterator[Headers]:
    """Neighbouring batches, together of about `ROWS_PER_BATCH` records."""
    counts = np.where(headers["whole"], headers["record_count"], 1).astype(np.int64)
    numbers = np.cumsum(counts) // ROWS_PER_BATCH
    yield from np.split(headers, np.flatnonzero(np.diff(numbers)) + 1) if len(headers) else ()


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
    return Content(name, api_key, version, _json(shown(record, version)), None)


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
    return _value_content(record.value)


def _value_content(value: bytes | None) -> Content:
    if value is None:
        return Content(None, None, None, None, "a metadata record without a value")
    return _short_content(value) if len(value) <= REMEMBERED_BYTES else _data_content(value)


class _Records(NamedTuple):
    """The records of a group of batches, one entry a row but `counts`, which is one a batch."""

    counts: Longs
    offsets: Longs
    timestamps_ms: Longs
    contents: list[Content]
    keys: list[bytes | None]
    values: list[bytes | None]


def _records(piece: Slice, data: bytes, batches: Headers) -> _Records:
    """Read the records of batches: small regular ones all at once, then each of the others by itself."""
    small = batches["whole"] & (batches["attributes"] & CONTROL_BIT == 0)
    small &= batches["record_count"] <= LOCKSTEP_RECORDS_MAX
    found = find_values(data, batches[small])
    at_once = np.zeros(len(batches), dtype=np.bool_)
    at_once[np.flatnonzero(small)[found.regular]] = True
    counts = np.where(at_once, batches["record_count"], 1).astype(np.int64)
    others = {}
    for index in np.flatnonzero(~at_once).tolist():
        others[index] = _alone(piece, data, int(batches["position"][index]))
        counts[index] = len(others[index].values)
    starts = np.cumsum(counts) - counts
    offsets = np.repeat(batches["base_offset"] - starts, counts) + np.arange(int(counts.sum()))
    timestamps = np.repeat(batches["base_timestamp_ms"], counts)
    values: list[bytes | None] = [
        data[start:end] for start, end in zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    ]
    contents = [_value_content(value) for value in values]
    keys: list[bytes | None] = [None] * len(values)
    for index, batch in others.items():
        at = int(starts[index])
        rows_of_batch = slice(at, at + len(batch.values))
        offsets[rows_of_batch] += batch.offsets_moved
        timestamps[rows_of_batch] += batch.timestamp_deltas
        contents[at:at] = batch.contents
        keys[at:at] = batch.keys
        values[at:at] = batch.values
    return _Records(counts, offsets, timestamps, contents, keys, values)


class _Alone(NamedTuple):
    """The records of a batch that was read by itself.

    `offsets_moved` is how far each offset is from its place: zero, unless something foreign wrote the batch.
    """

    contents: list[Content]
    keys: list[bytes | None]
    values: list[bytes | None]
    offsets_moved: list[int] | int = 0
    timestamp_deltas: list[int] | int = 0


def _alone(piece: Slice, data: bytes, position: int) -> _Alone:
    """The records of a batch, or the one row that says why there are none."""
    batch = BatchView(data, position)
    try:
        batch.check()
        if not batch.is_control and (values := _plain_values(batch)):
            return _Alone([_value_content(value) for value in values], [None] * len(values), values)
        records = batch.records()
    except CorruptBatchError as error:
        content = Content(None, None, None, None, f"byte {piece.start + position}: {error.reason}")
        return _Alone([content], [None], [None])
    return _Alone(
        contents=[_content(batch, record) for record in records],
        keys=[record.key for record in records],
        values=[record.value for record in records],
        offsets_moved=[record.offset_delta - index for index, record in enumerate(records)],
        timestamp_deltas=[record.timestamp_delta for record in records],
    )


def _plain_values(batch: BatchView) -> list[bytes | None]:
    """The values of a batch as controllers write them; none if it is anything else."""
    try:
        return [*batch.values()]
    except CorruptBatchError:
        return []


def _record_batch(piece: Slice, data: bytes, batches: Headers) -> pa.RecordBatch:
    """Decode whole batches into one Arrow record batch."""
    records = _records(piece, data, batches)
    count = len(records.values)
    types, api_keys, versions, bodies, problems = zip(*records.contents, strict=True)

    def of_batch(column: npt.NDArray[Any], kind: pa.DataType | None = None) -> pa.Array:
        return pa.array(np.repeat(column, records.counts), kind)

    columns = [
        pa.repeat(piece.cluster_id, count),
        pa.repeat(pa.scalar(piece.node_id, pa.int32()), count),
        pa.repeat(piece.directory, count),
        pa.repeat(piece.file, count),
        pa.repeat(pa.scalar(piece.is_snapshot), count),
        pa.repeat(pa.scalar(piece.segment_base_offset, pa.int64()), count),
        of_batch(batches["base_offset"]),
        of_batch(batches["end_offset"] - 1),
        of_batch(batches["position"] + piece.start),
        of_batch(batches["size_bytes"]),
        _times(np.repeat(batches["base_timestamp_ms"], records.counts)),
        _times(np.repeat(batches["max_timestamp_ms"], records.counts)),
        of_batch(batches["epoch"], pa.int32()),
        of_batch(batches["whole"]),
        of_batch(batches["attributes"] & CONTROL_BIT != 0),
        of_batch(batches["attributes"] & TRANSACTIONAL_BIT != 0),
        pa.array(records.offsets),
        _times(records.timestamps_ms),
        pa.array(types, pa.string()),
        pa.array(api_keys, pa.int32()),
        pa.array(versions, pa.int32()),
        pa.array(bodies, pa.string()),
        pa.array(records.keys, pa.binary()),
        pa.array(records.values, pa.binary()),
        _statuses(records.offsets, piece.bounds),
        pa.array(problems, pa.string()),
    ]
    return pa.record_batch(columns, schema=SCHEMA)


def _times(milliseconds: Longs) -> pa.Array:
    """Milliseconds as timestamps; what is no time is null."""
    unusable = (milliseconds < 0) | (milliseconds > MAX_TIMESTAMP_MS)
    return pa.array(np.where(unusable, 0, milliseconds) * 1000, mask=unusable).cast(_TIME)


def _statuses(offsets: Longs, bounds: Bounds) -> pa.Array:
    names = pa.array([Status.COMMITTED.value, Status.UNKNOWN.value, Status.UNCOMMITTED.value])
    at = (offsets >= bounds.committed_end).astype(np.int8) + (offsets >= bounds.uncommitted_from)
    return names.take(pa.array(at))
