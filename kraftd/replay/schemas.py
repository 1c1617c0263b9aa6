"""The tables that a replay writes, each a directory of Parquet files: what they hold and of what type.

The names of tables and columns are a promise; `docs/replay.md` lists them, and a test compares the two.
Offsets named `end` are exclusive. Times are UTC. Ids of topics, directories and incarnations are Kafka's
text.
"""

from typing import Final, NamedTuple

import pyarrow as pa

from kraftd.metadata.part import ImageTable
from kraftd.metadata.registry import TABLES as IMAGE_TABLES
from kraftd.metadata.views import ColumnType
from kraftd.replay.source.columns import SCHEMA, TIME

_MS: Final = pa.timestamp("ms", tz="UTC")
_NODES: Final = pa.list_(pa.int32())
_TEXT: Final = pa.string()

_OF_IMAGE: Final = [("cluster_id", _TEXT), ("end_offset", pa.int64())]
_OF_CHANGE: Final = [
    ("cluster_id", _TEXT),
    ("offset", pa.int64()),
    ("epoch", pa.int32()),
    ("timestamp", TIME),
]


_OF_PARTITION: Final = [
    ("cluster_id", _TEXT),
    ("topic_id", _TEXT),
    ("topic", _TEXT),
    ("partition_id", pa.int32()),
]
_OF_SPAN: Final = [
    ("from_offset", pa.int64()),
    ("from_time", TIME),
    ("to_offset", pa.int64()),
    ("to_time", TIME),
]


class TableSchema(NamedTuple):
    """What one row is, and the columns."""

    row: str
    schema: pa.Schema


_TYPES: Final = {
    ColumnType.BOOL: pa.bool_(),
    ColumnType.INT32: pa.int32(),
    ColumnType.INT64: pa.int64(),
    ColumnType.FLOAT64: pa.float64(),
    ColumnType.TEXT: _TEXT,
    ColumnType.TEXTS: pa.list_(_TEXT),
    ColumnType.NODES: _NODES,
    ColumnType.TIME_MS: _MS,
}


def _schema(table: ImageTable) -> pa.Schema:
    """The columns of a table of the image, which the part of the image declares."""
    return pa.schema([*_OF_IMAGE, *((name, _TYPES[kind]) for name, kind in table.columns)])


TABLES: Final[dict[str, TableSchema]] = {
    "records": TableSchema("a record of a log or snapshot of any node", SCHEMA),
    "batches": TableSchema(
        "a batch of a log or snapshot of any node; `last_offset` is inclusive",
        pa.schema(
            [
                ("cluster_id", _TEXT),
                ("node_id", pa.int32()),
                ("directory", _TEXT),
                ("file", _TEXT),
                ("is_snapshot", pa.bool_()),
                ("position", pa.int64()),
                ("size_bytes", pa.int64()),
                ("base_offset", pa.int64()),
                ("last_offset", pa.int64()),
                ("epoch", pa.int32()),
                ("timestamp", TIME),
                ("records", pa.int32()),
                ("is_control", pa.bool_()),
                ("crc", pa.int64()),
                ("crc_ok", pa.bool_()),
            ]
        ),
    ),
    "leader_epochs": TableSchema(
        "an epoch of the quorum, whose first record is its LeaderChange; where every log begins after that, "
        "`start_offset` and `started_at` are those of the first record that one of them holds, `voters` and "
        "`granted_by` are empty, and `leader_id` is that of a `quorum-state` of this epoch, null if there "
        "is none; `commit_status` is that of the record at `start_offset`",
        pa.schema(
            [
                ("cluster_id", _TEXT),
                ("epoch", pa.int32()),
                ("start_offset", pa.int64()),
                ("end_offset", pa.int64()),
                ("leader_id", pa.int32()),
                ("voters", _NODES),
                ("granted_by", _NODES),
                ("held_by", _NODES),
                ("started_at", _MS),
                ("last_record_at", _MS),
                ("commit_status", _TEXT),
            ]
        ),
    ),
    "registrations": TableSchema(
        "a change of a broker's registration: `event` is registered, unregistered, fenced, unfenced or "
        "changed",
        pa.schema(
            [
                *_OF_CHANGE,
                ("broker_id", pa.int32()),
                ("broker_epoch", pa.int64()),
                ("event", _TEXT),
                ("fenced", pa.bool_()),
                ("in_controlled_shutdown", pa.bool_()),
                ("rack", _TEXT),
                ("incarnation_id", _TEXT),
            ]
        ),
    ),
    "partition_changes": TableSchema(
        "a partition that came (`created`), changed its leader, ISR or replicas (`changed`) or went "
        "(`removed`); `leader` -1 is none, `_before` is null for what came",
        pa.schema(
            [
                *_OF_CHANGE,
                ("topic_id", _TEXT),
                ("topic", _TEXT),
                ("partition_id", pa.int32()),
                ("event", _TEXT),
                ("leader_before", pa.int32()),
                ("leader", pa.int32()),
                ("isr_before", _NODES),
                ("isr", _NODES),
                ("isr_removed", _NODES),
                ("isr_added", _NODES),
                ("replicas", _NODES),
            ]
        ),
    ),
    "partition_states": TableSchema(
        "a state that a partition was in, Online or Offline; `from_` is null where that began before the log "
        "does, `to_` where it holds at the end",
        pa.schema([*_OF_PARTITION, ("state", _TEXT), *_OF_SPAN]),
    ),
    "replica_states": TableSchema(
        "a state that a replica was in, as far as a log alone tells: `known_by` is registration (of its "
        "broker: whether the replica can be read stands in no record), removal (it was taken away, and "
        "whether its broker has read that is not known, or its log directory is offline) or restart (its "
        "broker came back after that, with the directory, so it has read it)",
        pa.schema(
            [*_OF_PARTITION, ("broker_id", pa.int32()), ("state", _TEXT), ("known_by", _TEXT), *_OF_SPAN]
        ),
    ),
    "elections": TableSchema(
        "a change of the leader of a partition; `leader` -1 is none, `reason` and `rule` are the words of "
        "`kraftctl events`, `why` is what the reason is known by, or why it is unknown, `without_leader_ms` "
        "how long nobody led before, 0 if somebody did, null where nobody leads or that is not known",
        pa.schema(
            [
                *_OF_CHANGE,
                ("topic_id", _TEXT),
                ("topic", _TEXT),
                ("partition_id", pa.int32()),
                ("leader_before", pa.int32()),
                ("leader", pa.int32()),
                ("reason", _TEXT),
                ("rule", _TEXT),
                ("why", _TEXT),
                ("without_leader_ms", pa.int64()),
            ]
        ),
    ),
    **{table.name: TableSchema(table.row, _schema(table)) for table in IMAGE_TABLES},
    "problems": TableSchema(
        "something wrong with the input, by kind: damaged, torn, incomplete, diverged or note; what does not "
        "apply is null",
        pa.schema(
            [
                ("cluster_id", _TEXT),
                ("kind", _TEXT),
                ("directory", _TEXT),
                ("file", _TEXT),
                ("position_bytes", pa.int64()),
                ("offset", pa.int64()),
                ("text", _TEXT),
            ]
        ),
    ),
}
