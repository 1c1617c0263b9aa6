"""The image at a point of the log, folded by the daemon's own rules out of Spark's rows.

The fold must be ordered, so it runs in one task: Spark sorts the rows of one node by offset (on disk, if it
must) and hands them over as Arrow batches; memory holds the image and one batch. Out come a few rows: the
summary and each table's entities as JSON, ready to be a DataFrame.

Whole batches only: a batch with an impossible record ends the fold before it, and the summary says why.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

import msgspec
import pyarrow as pa

from kraftd.errors import InvariantError, MalformedError
from kraftd.metadata.configs import ResourceType
from kraftd.metadata.fold import Fold
from kraftd.metadata.image import EMPTY, ConfigEntry, MetadataImage
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.secrets import shown_config
from kraftd.records.frame import decode_record, record_name
from kraftd.types import Offset

OUTPUT = pa.schema([("section", pa.string()), ("json", pa.string())])
INPUT_COLUMNS = ("batch_base_offset", "offset", "value")
CHUNK_ROWS = 4096

SUMMARY = "summary"
CONFIGS = "configs"


class Row(NamedTuple):
    """What the fold needs of a record."""

    batch_base_offset: Offset
    offset: Offset
    value: bytes


class FoldSummary(msgspec.Struct, frozen=True):
    """The image in a few words. `end_offset` is what was really folded."""

    end_offset: Offset
    image_hash: str
    record_count: int
    is_partial: bool
    unknown_kinds: dict[str, int]
    features: dict[str, int]
    config_count: int
    controller_ids: tuple[int, ...]
    open_transaction_at: Offset | None = None
    stopped: str | None = None


class ConfigRow(msgspec.Struct, frozen=True):
    """One row of the table of configs."""

    resource_type: str
    resource_name: str
    name: str
    value: str


class Folded(NamedTuple):
    """How far a fold came. `stopped` says why it ended early, if it did."""

    image: MetadataImage
    end_offset: Offset
    record_count: int
    stopped: str | None = None


def fold_rows(rows: Iterable[Row], end_offset: Offset, image: MetadataImage = EMPTY) -> Folded:
    """Fold rows in the order of their offsets.

    Args:
        rows: The data records of whole batches; those of NoOp may be left out.
        end_offset: Where the rows end if nothing stops them.
        image: What to start from.
    """
    count = 0
    for chunk in _chunks(rows):
        try:
            image = _folded(image, chunk)
        except (ImpossibleRecordError, MalformedError):
            return _fold_to_the_bad_batch(image, chunk, count)
        count += len(chunk)
    return Folded(image, end_offset, count)


def summarize(folded: Folded) -> FoldSummary:
    """Say in a few words what was folded."""
    image = folded.image
    transaction = image.transaction
    return FoldSummary(
        end_offset=folded.end_offset,
        image_hash=image.hash(),
        record_count=folded.record_count,
        is_partial=image.is_partial,
        unknown_kinds={record_name(kind): count for kind, count in image.unknown_kinds()},
        features=dict(image.features()),
        config_count=sum(1 for _ in image.configs()),
        controller_ids=tuple(registration.id for registration in image.controllers()),
        open_transaction_at=None if transaction is None else transaction.begin_offset,
        stopped=folded.stopped,
    )


def config_row(entry: ConfigEntry) -> ConfigRow:
    """A config as it may be shown; a type of resource that has no name keeps its number."""
    try:
        kind = ResourceType(entry.resource_type).name.lower()
    except ValueError:
        kind = str(entry.resource_type)
    value = shown_config(entry.resource_type, entry.name, entry.value)
    return ConfigRow(kind, entry.resource_name, entry.name, value)


def arrow_fold(batches: Iterable[pa.RecordBatch], end_offset: Offset) -> Iterator[pa.RecordBatch]:
    """Fold Arrow batches with the columns of `INPUT_COLUMNS`; this is the body of the Spark task."""
    rows = (
        Row(base, offset, value)
        for batch in batches
        for base, offset, value in zip(
            *(batch.column(name).to_pylist() for name in INPUT_COLUMNS), strict=True
        )
    )
    folded = fold_rows(rows, end_offset)
    yield _output(SUMMARY, [summarize(folded)])
    for entries in _slices(folded.image.configs(), CHUNK_ROWS):
        yield _output(CONFIGS, [config_row(entry) for entry in entries])


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Group rows into chunks of whole batches."""
    chunk: list[Row] = []
    for row in rows:
        if len(chunk) >= CHUNK_ROWS and row.batch_base_offset != chunk[-1].batch_base_offset:
            yield chunk
            chunk = []
        chunk.append(row)
    if chunk:
        yield chunk


def _folded(image: MetadataImage, rows: Iterable[Row]) -> MetadataImage:
    fold = Fold(image)
    for row in rows:
        fold.add(decode_record(row.value), row.offset)
    return fold.image()


def _fold_to_the_bad_batch(image: MetadataImage, chunk: list[Row], count: int) -> Folded:
    """Fold a chunk again, one batch at a time: the first attempt left nothing to keep."""
    for base_offset, group in groupby(chunk, key=attrgetter("batch_base_offset")):
        batch = list(group)
        try:
            image = _folded(image, batch)
        except (ImpossibleRecordError, MalformedError) as error:
            return Folded(image, base_offset, count, str(error))
        count += len(batch)
    raise InvariantError("a chunk that could not be folded could be, one batch at a time")


def _slices(entries: Iterator[ConfigEntry], size: int) -> Iterator[list[ConfigEntry]]:
    while batch := list(islice(entries, size)):
        yield batch


def _output(section: str, entities: Sequence[msgspec.Struct]) -> pa.RecordBatch:
    texts = [msgspec.json.encode(entity).decode() for entity in entities]
    return pa.record_batch([pa.repeat(section, len(texts)), pa.array(texts, pa.string())], schema=OUTPUT)
