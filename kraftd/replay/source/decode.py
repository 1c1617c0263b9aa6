"""Batches to rows: one row a record, as Arrow columns, with the envelope and the decoded body.

numpy finds the records and repeats what belongs to their batch. Bodies are decoded only if asked for: those
of partitions, which are most, are put together by Arrow from their number, their topic and an ending that
many share; any other by itself (`contents`). Values are cut out of the bytes in one step for all.

A batch that fails its check is one row with `crc_ok` false, its bytes unparsed, and a `problem`: its records
cannot be trusted. A record whose body cannot be decoded says why in `problem`; one of a kind that this
program does not know has a name and a version, but no body.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraftd.logtools.commit import CommitStatus
from kraftd.records.batch_header import CONTROL, TRANSACTIONAL
from kraftd.records.frame import RECORD_NAMES
from kraftd.replay.source import contents
from kraftd.replay.source.columns import SCHEMA, TIME
from kraftd.replay.source.contents import Bodies
from kraftd.replay.source.filters import RecordFilter
from kraftd.replay.source.headers import (
    Headers,
    cut_out,
    mapped,
    read_headers,
)
from kraftd.replay.source.lockstep import PADDING, Flags, Longs
from kraftd.replay.source.pieces import EVERYTHING, Piece
from kraftd.replay.source.spans import KINDS_MAX, KindTotals, Records, is_time

ROWS_PER_BATCH = 16_384
"""A few MB of rows: large enough for Arrow, small enough for a worker's memory."""

NAMES: Final = pa.array([RECORD_NAMES.get(kind) for kind in range(KINDS_MAX)], pa.string())


class Decoder:
    """Decodes pieces of files into Arrow batches with the columns and rows that are wanted."""

    def __init__(
        self, schema: pa.Schema = SCHEMA, wanted: RecordFilter = EVERYTHING, *, show_secrets: bool = False
    ) -> None:
        self.schema = schema
        self.wanted = wanted
        self.show_secrets = show_secrets
        self.bodies = Bodies(show_secrets=show_secrets)
        self._totals: list[KindTotals] = []

    def rows(self, pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
        """Decode pieces into Arrow record batches of bounded size."""
        for piece in pieces:
            with mapped(piece.path) as data:
                part = bytes(data[piece.start : piece.end]) + PADDING
            headers, _ = read_headers(part, end=piece.end - piece.start)  # the survey reports the rest
            yield from self.batches(piece, part, headers)

    def totals(self) -> list[KindTotals]:
        """Records by kind since the last time, whether wanted or not; without those of damaged batches."""
        totals, self._totals = self._totals, []
        return totals

    def batches(self, piece: Piece, part: bytes, headers: Headers) -> Iterator[pa.RecordBatch]:
        """Decode the batches with these headers, whose positions are inside `part`."""
        if not self.wanted.every_row:
            headers = headers[self.wanted.batches(headers)]
        if not len(headers):
            return
        records = Records(part, headers, piece.start)
        self._totals += records.totals()
        for start in range(0, records.count, ROWS_PER_BATCH):
            rows = np.arange(start, min(start + ROWS_PER_BATCH, records.count))
            if not self.wanted.every_row:
                rows = rows[records.passing(self.wanted, rows)]
            if len(rows):
                columns = Columns(piece, records, rows, self.bodies, show_secrets=self.show_secrets)
                arrays = [_BUILDERS[name](columns) for name in self.schema.names]
                yield pa.record_batch(arrays, schema=self.schema)


class Columns:
    """Makes the columns of some rows of a piece, each when it is asked for."""

    def __init__(
        self, piece: Piece, records: Records, rows: Longs, bodies: Bodies, *, show_secrets: bool
    ) -> None:
        self.piece = piece
        self.records = records
        self.rows = rows
        self.count = len(rows)
        self.show_secrets = show_secrets
        self._bodies = bodies
        self.odd = {at: records.odd[int(rows[at])] for at in np.flatnonzero(records.is_odd[rows]).tolist()}
        """What was read by itself among these rows, by place."""

    def same(self, value: object, kind: pa.DataType) -> pa.Array:
        """One value for every row."""
        return pa.repeat(pa.scalar(value, kind), self.count)

    def of_batch(self, name: str) -> npt.NDArray[Any]:
        """A field of each record's batch."""
        field: npt.NDArray[Any] = self.records.headers[name][self._batch]
        return field

    def types(self) -> pa.Array:
        """The names of the kinds."""
        return self._patched(NAMES, self.kinds, [one.content.type for one in self.odd.values()])

    def numbers(self, found: npt.NDArray[np.uint8], field: str) -> pa.Array:
        """Kinds or versions, null where an odd record has none."""
        numbers = found.astype(np.int32)
        mask = np.zeros(self.count, dtype=np.bool_)
        for at, one in self.odd.items():
            number = getattr(one.content, field)
            mask[at] = number is None
            numbers[at] = number or 0
        return pa.array(numbers, mask=mask)

    def values(self) -> pa.Array:
        """The raw values, null where they hold a secret that must not be seen."""
        starts = np.maximum.accumulate(self._starts)
        everything = _spans(self.records.part, starts, np.where(self._ends > 0, self._ends, starts))
        odd = [None if self._hides(one.content.is_secret) else one.value for one in self.odd.values()]
        indexes = np.arange(self.count)
        mask = self._hidden if not self.show_secrets else None
        return self._patched(everything, indexes, odd, mask)

    def keys(self) -> pa.Array:
        """The raw keys: only control records have them."""
        if not self.odd:
            return pa.nulls(self.count, pa.binary())
        keys: list[bytes | None] = [None] * self.count
        for at, one in self.odd.items():
            keys[at] = None if self._hides(one.content.is_secret) else one.key
        return pa.array(keys, pa.binary())

    def redacted(self) -> pa.Array:
        """Which records hold a secret that is not shown."""
        if self.show_secrets:
            return self.same(value=False, kind=pa.bool_())
        hidden = self._hidden.copy()
        for at, one in self.odd.items():
            hidden[at] = one.content.is_secret
        return pa.array(hidden)

    def topic_ids(self) -> pa.Array:
        """The topics that records are about."""
        texts: list[str | None] = [None] * self.count
        for place in np.flatnonzero(np.isin(self.kinds, contents.TOPIC_KINDS) & ~self.is_odd).tolist():
            texts[place] = contents.topic_id_of(self._value(place))
        return _replaced(pa.array(texts, pa.string()), self._of_partitions, self._topics)

    def times(self, milliseconds: Longs) -> pa.Array:
        """Milliseconds as timestamps; what is no time is null."""
        unusable = ~is_time(milliseconds)
        return pa.array(np.where(unusable, 0, milliseconds) * 1000, mask=unusable).cast(TIME)

    def statuses(self) -> pa.Array:
        """What is known of each record's commitment."""
        offsets, bounds = self.records.offsets[self.rows], self.piece.bounds
        names = pa.array(
            [CommitStatus.COMMITTED.value, CommitStatus.UNKNOWN.value, CommitStatus.UNCOMMITTED.value]
        )
        at = (offsets >= bounds.committed_end).astype(np.int8) + (offsets >= bounds.uncommitted_from)
        return names.take(pa.array(at))

    @cached_property
    def kinds(self) -> npt.NDArray[np.uint8]:
        """Kinds of regular records, 0 for the odd."""
        return self.records.kinds[self.rows]

    @cached_property
    def versions(self) -> npt.NDArray[np.uint8]:
        """Versions of regular records, 0 for the odd."""
        return self.records.versions[self.rows]

    @cached_property
    def is_odd(self) -> Flags:
        """Which rows were read by themselves."""
        return self.records.is_odd[self.rows]

    @cached_property
    def _batch(self) -> Longs:
        return self.records.batch[self.rows]

    @cached_property
    def _starts(self) -> Longs:
        return self.records.starts[self.rows]

    @cached_property
    def _ends(self) -> Longs:
        return self.records.ends[self.rows]

    def _value(self, at: int) -> bytes:
        return self.records.part[int(self._starts[at]) : int(self._ends[at])]

    @cached_property
    def decoded(self) -> tuple[pa.Array, pa.Array]:
        """Bodies as JSON, and why there is none, of all rows."""
        body_of = self._bodies.body
        bodies: list[str | None] = [None] * self.count
        problems: list[str | None] = [None] * self.count
        joined = self._joined
        is_left = ~self.is_odd
        is_left[self._of_partitions[joined.is_valid().to_numpy(zero_copy_only=False)]] = False
        for at in np.flatnonzero(is_left).tolist():
            bodies[at], problems[at] = body_of(self._value(at))
        for at, one in self.odd.items():
            bodies[at], problems[at] = one.content.body, one.content.problem
            if one.content.is_known and one.value is not None:
                bodies[at], problems[at] = body_of(one.value)
        texts = _replaced(pa.array(bodies, pa.string()), self._of_partitions, joined)
        return texts, pa.array(problems, pa.string())

    @cached_property
    def _of_partitions(self) -> Longs:
        """Which rows are regular records about a partition."""
        rows = np.flatnonzero(np.isin(self.kinds, contents.PARTITION_KINDS) & ~self.is_odd)
        return rows[self._ends[rows] - self._starts[rows] >= contents.ENDING_AT]

    @cached_property
    def _topics(self) -> pa.Array:
        """The texts of the topics of `_of_partitions`."""
        ids = pa.py_buffer(self._cut(contents.TOPIC_ID_AT, "V16"))
        coded = pa.Array.from_buffers(
            pa.binary(16), len(self._of_partitions), [None, ids]
        ).dictionary_encode()
        texts = [contents.topic_text(topic_id) for topic_id in coded.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(coded.indices)

    @cached_property
    def _joined(self) -> pa.Array:
        """The bodies of `_of_partitions`, null where one has to be read by itself."""
        rows = self._of_partitions
        starts, ends = self._starts[rows], self._ends[rows]
        coded = _spans(self.records.part, starts + contents.ENDING_AT, ends).dictionary_encode()
        codes = coded.indices.to_numpy().astype(np.int64) * KINDS_MAX + self.kinds[rows]
        _, firsts, at = np.unique(
            codes * KINDS_MAX + self.versions[rows], return_index=True, return_inverse=True
        )
        endings = pa.array(map(self._ending, starts[firsts].tolist(), ends[firsts].tolist()), pa.string())
        numbers = pa.array(self._cut(contents.FRAME_BYTES, ">i4").astype(np.int32)).cast(pa.string())
        head, middle = contents.PARTITION_HEAD, contents.PARTITION_MIDDLE
        parts = (head, numbers, middle, self._topics, endings.take(pa.array(at)))
        return pc.binary_join_element_wise(*parts, "")

    def _ending(self, start: int, end: int) -> str | None:
        part = self.records.part
        return self._bodies.ending(
            part[start : start + contents.FRAME_BYTES], part[start + contents.ENDING_AT : end]
        )

    def _cut(self, at: int, kind: str) -> npt.NDArray[Any]:
        """A field of `_of_partitions`, so many bytes after each begins."""
        places = self._starts[self._of_partitions] + at
        return cut_out(self.records.part, places, np.dtype(kind).itemsize).view(kind)

    @cached_property
    def _hidden(self) -> Flags:
        """Which regular records hold a secret."""
        hidden = np.zeros(self.count, dtype=np.bool_)
        for at in np.flatnonzero(np.isin(self.kinds, contents.SECRET_KINDS) & ~self.is_odd).tolist():
            hidden[at] = contents.is_secret(self._value(at))
        return hidden

    def _hides(self, is_secret: bool) -> bool:  # noqa: FBT001 - the one thing it is about
        return is_secret and not self.show_secrets

    def _patched(
        self,
        table: pa.Array,
        indexes: npt.NDArray[Any],
        odd: list[Any],
        mask: Flags | None = None,
    ) -> pa.Array:
        """Entries of a table, and for the odd rows what they have themselves."""
        if odd:
            indexes = indexes.astype(np.int64)
            indexes[list(self.odd)] = len(table) + np.arange(len(odd))
            table = pa.concat_arrays([table, pa.array(odd, table.type)])
            mask = None if mask is None else mask & ~self.is_odd
        elif mask is None and len(table) == self.count:
            return table
        return table.take(pa.array(indexes, mask=mask))


def _spans(data: bytes, starts: Longs, ends: Longs) -> pa.Array:
    """Pieces of some bytes, cut out at once. None begins before the one before it ends."""
    bounds = np.stack((starts, ends), axis=1).ravel().astype(np.int32)
    if not len(bounds):
        return pa.array([], pa.binary())
    between = pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return between.take(pa.array(np.arange(0, len(bounds), 2)))


def _replaced(column: pa.Array, rows: Longs, others: pa.Array) -> pa.Array:
    """A column with other entries in some rows; where those are null, it keeps its own."""
    valid = others.is_valid().to_numpy(zero_copy_only=False)
    indexes = np.arange(len(column))
    indexes[rows[valid]] = len(column) + np.flatnonzero(valid)
    return pa.concat_arrays([column, others]).take(pa.array(indexes))


_BUILDERS: Final[Mapping[str, Callable[[Columns], pa.Array]]] = {
    "cluster_id": lambda c: c.same(c.piece.cluster_id, pa.string()),
    "node_id": lambda c: c.same(c.piece.node_id, pa.int32()),
    "directory": lambda c: c.same(c.piece.directory, pa.string()),
    "file": lambda c: c.same(c.piece.file, pa.string()),
    "is_snapshot": lambda c: c.same(c.piece.is_snapshot, pa.bool_()),
    "segment_base_offset": lambda c: c.same(c.piece.segment_base_offset, pa.int64()),
    "batch_base_offset": lambda c: pa.array(c.of_batch("base_offset")),
    "batch_last_offset": lambda c: pa.array(c.of_batch("end_offset") - 1),
    "batch_position": lambda c: pa.array(c.of_batch("position") + c.piece.start),
    "batch_size_bytes": lambda c: pa.array(c.of_batch("size_bytes")),
    "batch_timestamp": lambda c: c.times(c.of_batch("base_timestamp_ms")),
    "batch_max_timestamp": lambda c: c.times(c.of_batch("max_timestamp_ms")),
    "epoch": lambda c: pa.array(c.of_batch("epoch")),
    "crc_ok": lambda c: pa.array(c.of_batch("whole")),
    "is_control": lambda c: pa.array(c.of_batch("attributes") & CONTROL != 0),
    "is_transactional": lambda c: pa.array(c.of_batch("attributes") & TRANSACTIONAL != 0),
    "offset": lambda c: pa.array(c.records.offsets[c.rows]),
    "timestamp": lambda c: c.times(c.records.timestamps[c.rows]),
    "type": Columns.types,
    "api_key": lambda c: c.numbers(c.kinds, "api_key"),
    "version": lambda c: c.numbers(c.versions, "version"),
    "topic_id": Columns.topic_ids,
    "body": lambda c: c.decoded[0],
    "key": Columns.keys,
    "value": Columns.values,
    "is_redacted": Columns.redacted,
    "commit_status": Columns.statuses,
    "problem": lambda c: c.decoded[1],
}
