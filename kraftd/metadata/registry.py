"""The tables that are read off the parts at import, so that no record and no command loops to find its part.

`KINDS` is the flat table from a record's class to what is known of it. Two parts that claim the same kind of
record, table or subject are a mistake that ends the import.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

from kraftd.errors import InvariantError
from kraftd.metadata import parts
from kraftd.metadata.part import Builder, HistorySubject, ImageTable, Part, RecordKind
from kraftd.records.frame import AnyRecord, decode_record
from kraftd.records.messages import Record

K = TypeVar("K")
V = TypeVar("V")

PARTS: Final = parts.PARTS


def _flat(what: str, pairs: Iterable[tuple[K, V]]) -> Mapping[K, V]:
    found: dict[K, V] = {}
    for key, value in pairs:
        if key in found:
            raise InvariantError(f"two parts of the image claim the {what} {key}")
        found[key] = value
    return MappingProxyType(found)


def _kind_prefix(record: type[Record]) -> bytes:
    """How the value of a record begins, whatever its version: frame version and kind."""
    return bytes((1, record.API_KEY))


KIND_PREFIX_BYTES: Final = 2
"""The bytes of a value that tell its kind, if its frame is short, as that of all known kinds is."""

_ALL_KINDS: Final = [kind for part in PARTS for kind in part.kinds]

KINDS: Final[Mapping[type, RecordKind[Any]]] = _flat("record", ((kind.record, kind) for kind in _ALL_KINDS))

PART_OF: Final[Mapping[type, Part[Any, Any]]] = MappingProxyType(
    {kind.record: part for part in PARTS for kind in part.kinds}
)
"""The part that each kind of record belongs to."""

IN_SNAPSHOT: Final = tuple(sorted(PARTS, key=lambda part: part.snapshot_order))
"""The parts in the order of a snapshot of Kafka's."""

IN_OVERVIEW: Final = tuple(sorted(PARTS, key=lambda part: part.overview_order))
"""The parts in the order in which an overview counts their entities."""

_TABLES: Final[Mapping[str, ImageTable]] = _flat(
    "table",
    (
        (table.name, table)
        for table in sorted((one for part in PARTS for one in part.tables), key=lambda one: one.list_order)
    ),
)
TABLES: Final = tuple(_TABLES.values())
"""The tables for Spark, in the order in which they are listed."""

HISTORY_SUBJECTS: Final[Mapping[str, HistorySubject]] = _flat(
    "subject",
    (
        (subject.word, subject)
        for subject in sorted(
            (one for part in PARTS for one in part.history_subjects), key=lambda one: one.list_order
        )
    ),
)
"""What can be asked about the past, by its word."""

BULK: Final[Mapping[bytes, Callable[[Builder, Sequence[bytes], int], int]]] = MappingProxyType(
    {_kind_prefix(kind.record): kind.apply_values for kind in _ALL_KINDS if kind.apply_values is not None}
)
"""What applies many values of a kind at once, by their first `KIND_PREFIX_BYTES`."""

_READERS: Final = {_kind_prefix(kind.record): kind.read for kind in _ALL_KINDS if kind.read is not None}


def decode(value: bytes) -> AnyRecord:
    """The record of a framed value, as `decode_record` gives it, sooner where its kind has a faster way.

    Raises:
        MalformedError: It is no record.
    """
    read = _READERS.get(value[:KIND_PREFIX_BYTES])
    record = None if read is None else read(value)
    return decode_record(value) if record is None else record
