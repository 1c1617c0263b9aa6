"""The columns of a record, as the data source and the table of records have them.

Plain data: what each means is said here once, and `docs/replay.md` shows it.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

TIME: Final = pa.timestamp("us", tz="UTC")

SCHEMA: Final = pa.schema(
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
        ("batch_timestamp", TIME),
        ("batch_max_timestamp", TIME),
        ("epoch", pa.int32()),
        ("crc_ok", pa.bool_()),
        ("is_control", pa.bool_()),
        ("is_transactional", pa.bool_()),
        ("offset", pa.int64()),
        ("timestamp", TIME),
        ("type", pa.string()),
        ("api_key", pa.int32()),
        ("version", pa.int32()),
        ("topic_id", pa.string()),
        ("body", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("is_redacted", pa.bool_()),
        ("commit_status", pa.string()),
        ("problem", pa.string()),
    ]
)
"""The columns of a record.

`segment_base_offset` is a snapshot's end offset; offsets inside a snapshot are its own running count.
`api_key` of a control record is its control type. `topic_id` is that of a topic, of a partition and of their
changes, in Kafka's text. `body` is JSON with Kafka's field names, without secrets, null for kinds that are
not known. `key` and `value` are the raw bytes, the value with its frame; where they hold a secret, or are of
a kind that is not known and may, `value` is null and `is_redacted` true, unless secrets are asked for.
`node_id` is -1 where the directory does not say. `commit_status` is a `kraftd.logtools.commit.CommitStatus`.
`problem` says why a record could not be decoded; a body that is not asked for is not tried.
"""

RAW: Final = (
    "cluster_id",
    "node_id",
    "offset",
    "timestamp",
    "epoch",
    "crc_ok",
    "is_control",
    "is_transactional",
    "type",
    "api_key",
    "version",
    "value",
)
"""Envelope, type, version and raw value: what is known without a record's body and without other nodes."""


def chosen(names: Iterable[str]) -> pa.Schema:
    """The part of the schema with these columns, in the order given.

    Raises:
        KeyError: There is no such column; it is the error's argument.
    """
    fields = []
    for name in names:
        if name not in SCHEMA.names:
            raise KeyError(name)
        fields.append(SCHEMA.field(name))
    return pa.schema(fields)
