"""Writing the tables: each task writes its own Parquet files, named by what it worked on.

A task that Spark runs again writes the same file again; a file is there whole or not at all. So no row
travels from a task through Spark only to be written, and no table depends on the order of the tasks.
"""

from collections.abc import Iterable, Mapping, Sequence
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
    path = directory / f"part-{part}.parquet"
    unfinished = path.with_name(f".{path.name}.tmp")
    rows = 0
    waiting: list[pa.RecordBatch] = []
    with ParquetWriter(
        unfinished,
        schema,
        compression=COMPRESSION,
        use_dictionary=[
            field.name for field in schema if not _counts(field) and field.name not in UNREPEATED
        ],
        column_encoding={field.name: "DELTA_BINARY_PACKED" for field in schema if _counts(field)},
    ) as writer:
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            if sum(one.num_rows for one in waiting) >= ROWS_PER_GROUP:
                writer.write_table(pa.Table.from_batches(waiting, schema))
                waiting = []
        writer.write_table(pa.Table.from_batches(waiting, schema))
    unfinished.replace(path)
    return rows


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
