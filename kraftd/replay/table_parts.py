"""Writing the tables: each task writes its own Parquet files, named by what it worked on.

A task that Spark runs again writes the same file again; a file is there whole or not at all. So no row
travels from a task through Spark only to be written, and no table depends on the order of the tasks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from kraftd.replay.schemas import TABLES

COMPRESSION = "zstd"
ROWS_PER_GROUP = 250_000
UNREPEATED = frozenset({"body", "key", "value", "problem", "text"})
"""Columns of text or bytes where a dictionary would hold as much as the column."""


def make_directories(out: Path) -> None:
    """Make a directory for every table, with a part without rows: one that stays empty has columns, too."""
    for name in TABLES:
        (out / name).mkdir(parents=True, exist_ok=True)
        write_part(out, name, "none", ())


def write_part(out: Path, table: str, part: str, batches: Iterable[pa.RecordBatch]) -> int:
    """Write a part of a table. Returns how many rows it has."""
    return write_file(out / table, part, TABLES[table].schema, batches)


def write_file(directory: Path, part: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write a part of what has this schema. Returns how many rows it has."""
    with _file_writer(directory, part, schema) as writer:
        for batch in batches:
            writer.add(batch)
    return writer.rows


def part_writer(out: Path, table: str, part: str) -> AbstractContextManager["PartWriter"]:
    """Open a part of a table, to be written batch by batch; it is there once that has ended well."""
    return _file_writer(out / table, part, TABLES[table].schema)


class PartWriter:
    """Writes a part of a table, in row groups of some size. Mutable."""

    def __init__(self, writer: ParquetWriter, schema: pa.Schema) -> None:
        self.rows = 0
        """How many there are so far."""
        self._writer = writer
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows, these or later."""
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._waiting_rows >= ROWS_PER_GROUP:
            self.flush()

    def flush(self) -> None:
        """Write what waits as a row group."""
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self._waiting_rows = [], 0


@contextmanager
def _file_writer(directory: Path, part: str, schema: pa.Schema) -> Iterator[PartWriter]:
    path = directory / f"part-{part}.parquet"
    unfinished = path.with_name(f".{path.name}.tmp")
    with ParquetWriter(
        unfinished,
        schema,
        compression=COMPRESSION,
        use_dictionary=[
            field.name for field in schema if not _counts(field) and field.name not in UNREPEATED
        ],
        column_encoding={field.name: "DELTA_BINARY_PACKED" for field in schema if _counts(field)},
    ) as writer:
        rows = PartWriter(writer, schema)
        yield rows
        rows.flush()
    unfinished.replace(path)


def _counts(field: pa.Field) -> bool:
    """Whether a column holds offsets, positions or times: neighbours differ by little, and seldom repeat."""
    return bool(pa.types.is_int64(field.type) or pa.types.is_timestamp(field.type))


def rows_batch(table: str, rows: Sequence[Mapping[str, object]]) -> pa.RecordBatch:
    """Rows given as dicts, with the table's columns."""
    return pa.RecordBatch.from_pylist(rows, schema=TABLES[table].schema)


def tuples_batch(table: str, rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    """Rows given as tuples of all of the table's columns in their order, which costs half; at least one."""
    schema = TABLES[table].schema
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.record_batch(columns, schema=schema)
