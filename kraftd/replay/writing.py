"""The task that decodes: pieces of logs in, parts of the tables of records and batches out, and what was
counted.

Runs inside Spark, one call a task. It needs nothing but the pieces and the directory of the tables.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from kraftd.logtools.problem import Problem, ProblemKind
from kraftd.records.batch_header import CONTROL
from kraftd.replay.schemas import TABLES
from kraftd.replay.source.columns import TIME
from kraftd.replay.source.decode import Decoder
from kraftd.replay.source.headers import Headers, mapped, read_headers
from kraftd.replay.source.lockstep import PADDING
from kraftd.replay.source.pieces import Piece
from kraftd.replay.source.spans import is_time
from kraftd.replay.table_parts import write_part

PROBLEMS_MAX = 1000
"""So many undecodable records are named a task; the table of records has them all."""


class Share(msgspec.Struct, frozen=True):
    """What one task decodes, and the name of its parts."""

    part: str
    pieces: tuple[Piece, ...]


class KindTotal(msgspec.Struct, frozen=True):
    """How many records of a kind and version a directory's log or snapshots hold, as far as a task saw."""

    directory: str
    is_snapshot: bool
    is_control: bool
    type: str
    version: int | None
    records: int
    value_bytes: int


class Written(msgspec.Struct, frozen=True):
    """What a task did."""

    records: int
    batches: int
    kinds: tuple[KindTotal, ...]
    problems: tuple[Problem, ...]


def write_share(share: Share, out: Path, *, show_secrets: bool) -> Written:
    """Decode pieces into parts of `records` and `batches`."""
    task = _Task(show_secrets=show_secrets)
    records = write_part(out, "records", share.part, task.records(share.pieces))
    batches = write_part(out, "batches", share.part, iter(task.batches))
    return Written(records, batches, tuple(task.kinds()), tuple(task.problems))


class _Task:
    def __init__(self, *, show_secrets: bool) -> None:
        self._decoder = Decoder(show_secrets=show_secrets)
        self._counts: Counter[tuple[str, bool, bool, str, int | None]] = Counter()
        self._bytes: Counter[tuple[str, bool, bool, str, int | None]] = Counter()
        self.batches: list[pa.RecordBatch] = []
        self.problems: list[Problem] = []

    def records(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """The rows of the pieces, looked at on their way."""
        for piece in pieces:
            with mapped(piece.path) as data:
                part = bytes(data[piece.start : piece.end]) + PADDING
            headers, _ = read_headers(part, end=piece.end - piece.start)
            if len(headers):
                self.batches.append(_batch_rows(piece, headers))
            for rows in self._decoder.batches(piece, part, headers):
                self._record_problems(piece, rows)
                yield rows
            for kind, count, size in self._decoder.totals():
                key = (piece.directory, piece.is_snapshot, *kind)
                self._counts[key] += count
                self._bytes[key] += size

    def kinds(self) -> Iterator[KindTotal]:
        """What was counted."""
        for key, count in self._counts.items():
            yield KindTotal(*key, count, self._bytes[key])

    def _record_problems(self, piece: Piece, rows: pa.RecordBatch) -> None:
        texts = rows.column("problem")
        if texts.null_count == len(texts):
            return
        for row in rows.filter(texts.is_valid()).to_pylist():
            if row["crc_ok"] and len(self.problems) < PROBLEMS_MAX:
                self.problems.append(
                    Problem(
                        ProblemKind.DAMAGED,
                        piece.directory,
                        row["problem"],
                        file=piece.file,
                        position_bytes=row["batch_position"],
                        offset=row["offset"],
                    )
                )


def _batch_rows(piece: Piece, headers: Headers) -> pa.RecordBatch:
    """Headers as rows of the table of batches."""
    count = len(headers)
    times = headers["base_timestamp_ms"]
    columns = {
        "cluster_id": pa.repeat(piece.cluster_id, count),
        "node_id": pa.repeat(pa.scalar(piece.node_id, pa.int32()), count),
        "directory": pa.repeat(piece.directory, count),
        "file": pa.repeat(piece.file, count),
        "is_snapshot": pa.repeat(pa.scalar(piece.is_snapshot), count),
        "position": pa.array(headers["position"] + piece.start),
        "size_bytes": pa.array(headers["size_bytes"]),
        "base_offset": pa.array(headers["base_offset"]),
        "last_offset": pa.array(headers["end_offset"] - 1),
        "epoch": pa.array(headers["epoch"]),
        "timestamp": pa.array(np.where(is_time(times), times, 0) * 1000, mask=~is_time(times)).cast(TIME),
        "records": pa.array(headers["record_count"]),
        "is_control": pa.array(headers["attributes"] & CONTROL != 0),
        "crc": pa.array(headers["crc"].astype(np.int64)),
        "crc_ok": pa.array(headers["whole"]),
    }
    return pa.record_batch(columns, schema=TABLES["batches"].schema)
