"""The images of many logs at their points, folded with Spark: all but the partitions, then these by topic.

One task a cluster folds the state without partitions (`shards`) and writes its tables. The
records of partitions go to their topics' shards over a Spark shuffle, which sorts them by offset (on disk, if
it must); a task holds the partitions of some topics and a batch of rows. Back come a few numbers: the parts
of the hash.

A record that is impossible ends the fold of its cluster before its batch, whoever found it: that cluster is
folded again up to there.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from kraftd.metadata.broker_moments import Moment
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.part import ImageView
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.controllers import CONTROLLERS
from kraftd.metadata.parts.features import FEATURES
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.registry import TABLES as IMAGE_TABLES
from kraftd.records.frame import record_name
from kraftd.records.messages import NoOpRecord
from kraftd.replay.image.entity_history import FoldRow
from kraftd.replay.image.fold_plan import FoldPlan
from kraftd.replay.image.shards import (
    CrossShardRecord,
    NonPartitionState,
    Shard,
    Stopped,
    fold_non_partition,
    hash_of,
    is_of_partition,
    partitions_sum,
    shard_of,
    topic_of,
    topic_of_non_partition,
)
from kraftd.replay.source.columns import chosen
from kraftd.replay.source.decode import Decoder
from kraftd.replay.source.filters import RecordFilter
from kraftd.replay.source.pieces import PARTITION_BYTES, UNJUDGED, Piece, pack, plan_node
from kraftd.replay.table_parts import part_writer, rows_batch, tuples_batch, write_part
from kraftd.types import Offset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RowT = TypeVar("RowT")

RECORDS_PER_SHARD: Final = 500_000
SHARDS_MAX: Final = 64
"""Of one cluster."""
TASKS_MAX: Final = 400
ROWS_PER_WRITE: Final = 16_384
BEFORE_THE_LOG: Final = -(2**62)
"""Added to a base snapshot's own offsets, so that they sort before the log's."""

_COLUMNS: Final = chosen(
    ["batch_base_offset", "offset", "epoch", "timestamp", "is_control", "api_key", "value"]
)
_ROWS_DDL: Final = (
    "fold int, shard int, batch_base_offset bigint, offset bigint, epoch int, timestamp_ms bigint, "
    "value binary"
)
_ROWS: Final = pa.schema(
    [
        ("fold", pa.int32()),
        ("shard", pa.int32()),
        ("batch_base_offset", pa.int64()),
        ("offset", pa.int64()),
        ("epoch", pa.int32()),
        ("timestamp_ms", pa.int64()),
        ("value", pa.binary()),
    ]
)
_HISTORY_TABLES: Final = ("partition_changes", "partition_states", "replica_states", "elections")
"""What a shard writes while it folds, in the order of `ShardRows`."""
_RESULT: Final = pa.schema([("result", pa.binary())])


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
    broker_count: int = 0
    topic_count: int = 0
    partition_count: int = 0
    last_record_at_ms: int = -1
    illegal_moves: int = 0
    """Moves of partitions and replicas, from state to state, that no table allows."""


class FoldTask(msgspec.Struct, frozen=True):
    """What to fold of one cluster. `index` names its parts of the tables."""

    index: int
    cluster_id: str
    start_offset: Offset
    end_offset: Offset
    log: tuple[Piece, ...]
    base: tuple[Piece, ...]
    shards: int


class NonPartitionResult(msgspec.Struct, frozen=True):
    """What the task that folds all but the partitions gives back."""

    summary: FoldSummary
    cross_shard: tuple[CrossShardRecord, ...]
    moments: tuple[Moment, ...]
    stopped: Stopped | None


class ShardResult(msgspec.Struct, frozen=True):
    """What the task of a shard gives back."""

    fold: int
    partitions_sum: str
    record_count: int
    partition_count: int
    unknown_kinds: dict[str, int]
    stopped: Stopped | None
    illegal_moves: int


class Context(msgspec.Struct, frozen=True):
    """What the tasks of shards know of every cluster, by its index."""

    out: str
    cluster_ids: dict[int, str]
    shards: dict[int, int]
    cross_shard: dict[int, tuple[CrossShardRecord, ...]]
    moments: dict[int, tuple[Moment, ...]]
    ends: dict[int, Offset]


def fold_task(index: int, cluster_id: str, plan: FoldPlan) -> FoldTask:
    """Say which parts of which files are to be folded."""
    wanted = RecordFilter(from_offset=plan.start_offset, to_offset=plan.end_offset, is_snapshot=False)
    # The offsets in a snapshot are its own: those of the log must leave nothing of it out.
    snapshots = plan_node(plan.node.node, UNJUDGED, PARTITION_BYTES, RecordFilter(is_snapshot=True))
    base = "" if plan.snapshot is None else plan.snapshot.name
    records = plan.end_offset - plan.start_offset
    return FoldTask(
        index=index,
        cluster_id=cluster_id,
        start_offset=plan.start_offset,
        end_offset=plan.end_offset,
        log=tuple(plan_node(plan.node.node, UNJUDGED, PARTITION_BYTES, wanted)),
        base=tuple(piece for piece in snapshots if piece.file == base),
        shards=min(SHARDS_MAX, 1 + records // RECORDS_PER_SHARD),
    )


def fold_all(
    spark: "SparkSession", tasks: Sequence[FoldTask], out: Path, *, show_secrets: bool
) -> dict[int, FoldSummary]:
    """Fold every cluster and write the tables of its image and of its history."""
    done: dict[int, FoldSummary] = {}
    why: dict[int, str] = {}
    left = list(tasks)
    while left:
        results = _non_partition_results(spark, left, out, show_secrets=show_secrets)
        shards = _shards(spark, left, results, out)
        again = []
        for task in left:
            others, parts = results[task.index], [one for one in shards if one.fold == task.index]
            stops = [stop for stop in (others.stopped, *(one.stopped for one in parts)) if stop is not None]
            if stops:
                first = min(stops, key=lambda stop: stop.offset)
                why[task.index] = first.reason
                again.append(_before(task, first))
            else:
                done[task.index] = _together(others.summary, parts, why.get(task.index))
        left = again
        _forget_parts(out, left)
    return done


def _before(task: FoldTask, stop: Stopped) -> FoldTask:
    """The fold that ends before what stopped it; before a bad base snapshot there is nothing."""
    if stop.offset < 0:
        return msgspec.structs.replace(task, base=(), log=(), end_offset=task.start_offset)
    return msgspec.structs.replace(task, end_offset=stop.batch_base_offset)


def _together(summary: FoldSummary, parts: Sequence[ShardResult], stopped: str | None) -> FoldSummary:
    unknown = dict(summary.unknown_kinds)
    for part in parts:
        for name, count in part.unknown_kinds.items():
            unknown[name] = unknown.get(name, 0) + count
    sums = [int(part.partitions_sum, 16) for part in parts]
    return msgspec.structs.replace(
        summary,
        image_hash=hash_of(summary.image_hash, sums),
        record_count=summary.record_count + sum(part.record_count for part in parts),
        partition_count=sum(part.partition_count for part in parts),
        unknown_kinds=unknown,
        is_partial=bool(unknown),
        stopped=stopped,
        illegal_moves=sum(part.illegal_moves for part in parts),
    )


def _forget_parts(out: Path, tasks: Sequence[FoldTask]) -> None:
    """Remove what the shards of a fold that is done again have written."""
    for task in tasks:
        for table in ("partitions", *_HISTORY_TABLES):
            for path in (out / table).glob(f"part-{task.index}-*.parquet"):
                path.unlink()


# -- results: one task a cluster


def _non_partition_results(
    spark: "SparkSession", tasks: Sequence[FoldTask], out: Path, *, show_secrets: bool
) -> dict[int, NonPartitionResult]:
    work = partial(_run_non_partition, out=str(out), show_secrets=show_secrets)
    found = spark.sparkContext.parallelize(list(map(msgspec.msgpack.encode, tasks)), len(tasks)).map(work)
    decode = partial(msgspec.msgpack.decode, type=NonPartitionResult)
    return {index: decode(encoded) for index, encoded in found.collect()}


def _run_non_partition(encoded: bytes, *, out: str, show_secrets: bool) -> tuple[int, bytes]:
    task = msgspec.msgpack.decode(encoded, type=FoldTask)
    state = fold_non_partition(_non_partition_rows(task), task.cluster_id)
    if state.stopped is None:
        _write_non_partition(Path(out), task, state, show_secrets=show_secrets)
    summary = _summary(state, task.end_offset)
    result = NonPartitionResult(summary, state.cross_shard, state.moments, state.stopped)
    return task.index, msgspec.msgpack.encode(result)


def _write_non_partition(out: Path, task: FoldTask, state: NonPartitionState, *, show_secrets: bool) -> None:
    part = str(task.index)
    view = ImageView(state.image, show_secrets)
    of_image = {"cluster_id": task.cluster_id, "end_offset": task.end_offset}
    for table in IMAGE_TABLES:
        if not table.is_of_partitions:
            full = ({**of_image, **row} for row in table.rows(view))
            write_part(out, table.name, part, (rows_batch(table.name, chunk) for chunk in _chunks(full)))
    changes = state.registrations
    write_part(out, "registrations", part, [tuples_batch("registrations", changes)] if changes else ())


def _summary(state: NonPartitionState, end_offset: Offset) -> FoldSummary:
    image = state.image
    transaction = image.transaction
    return FoldSummary(
        end_offset=end_offset,
        image_hash=image.hash(),
        record_count=state.record_count,
        is_partial=image.is_partial,
        unknown_kinds=_unknown(image),
        features=dict(image[FEATURES].items()),
        config_count=sum(1 for _ in image[CONFIGS].entries()),
        controller_ids=tuple(registration.id for registration in image[CONTROLLERS].values()),
        open_transaction_at=None if transaction is None else transaction.begin_offset,
        broker_count=len(image[BROKERS]),
        topic_count=len(image[TOPICS]),
        last_record_at_ms=state.last_timestamp_ms,
    )


def _unknown(image: MetadataImage) -> dict[str, int]:
    return {record_name(kind): count for kind, count in image.unknown_kinds()}


def _non_partition_rows(task: FoldTask) -> Iterator[FoldRow]:
    for batch in _batches(task.base, task.log, task.start_offset, task.end_offset):
        for row in _fold_rows(batch):
            if not is_of_partition(row.value):
                yield row


# -- shards: a shuffle by cluster and topic, then the fold


def _shards(
    spark: "SparkSession", tasks: Sequence[FoldTask], results: dict[int, NonPartitionResult], out: Path
) -> list[ShardResult]:
    good = [task for task in tasks if results[task.index].stopped is None]
    shares = [
        msgspec.msgpack.encode(msgspec.structs.replace(task, log=tuple(log), base=tuple(base)))
        for task in good
        for log, base in [
            *(((), share) for share in _shares(task.base)),
            *((s, ()) for s in _shares(task.log)),
        ]
    ]
    if not shares:
        return []
    context = msgspec.msgpack.encode(
        Context(
            out=str(out),
            cluster_ids={task.index: task.cluster_id for task in good},
            shards={task.index: task.shards for task in good},
            cross_shard={task.index: results[task.index].cross_shard for task in good},
            moments={task.index: results[task.index].moments for task in good},
            ends={task.index: task.end_offset for task in good},
        )
    )
    count = min(TASKS_MAX, sum(task.shards for task in good))
    rows = spark.sparkContext.parallelize([(share,) for share in shares], len(shares)).toDF("share binary")
    folded = (
        rows.mapInArrow(_rows_of_shares, _ROWS_DDL)
        .repartition(count, "fold", "shard")
        .sortWithinPartitions("fold", "shard", "offset")
        .mapInArrow(partial(_fold_shards, context=context), "result binary")
    )
    return [msgspec.msgpack.decode(bytes(row.result), type=ShardResult) for row in folded.collect()]


def _shares(pieces: Sequence[Piece]) -> list[list[Piece]]:
    return list(pack(pieces, PARTITION_BYTES))


def _rows_of_shares(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of partitions and topics in some pieces, each with its shard: a task of Spark."""
    for encoded in (value for batch in batches for value in batch.column(0).to_pylist()):
        task = msgspec.msgpack.decode(encoded, type=FoldTask)
        for batch in _batches(task.base, task.log, task.start_offset, task.end_offset):
            shards = pa.array([_shard(value, task.shards) for value in batch.column("value").to_pylist()])
            shards = shards.cast(pa.int32())
            columns = [batch.column(name) for name in _ROWS.names if name in batch.schema.names]
            fold = pa.repeat(pa.scalar(task.index, pa.int32()), batch.num_rows)
            found = pa.record_batch([fold, shards, *columns], schema=_ROWS)
            if (found := found.filter(pc.is_valid(shards))).num_rows:
                yield found


def _shard(value: bytes, shards: int) -> int | None:
    topic_id = topic_of(value) if is_of_partition(value) else topic_of_non_partition(value)
    return None if topic_id is None else shard_of(topic_id, shards)


def _fold_shards(batches: Iterable[pa.RecordBatch], context: bytes) -> Iterator[pa.RecordBatch]:
    """Fold the sorted rows of some shards: a task of Spark."""
    known = msgspec.msgpack.decode(context, type=Context)
    rows = (
        row
        for batch in batches
        for row in zip(*(batch.column(name).to_pylist() for name in _ROWS.names), strict=True)
    )
    for (fold, number), group in groupby(rows, key=lambda row: (row[0], row[1])):
        result = _fold_shard(known, fold, number, (FoldRow(*row[2:]) for row in group))
        yield pa.record_batch([pa.array([msgspec.msgpack.encode(result)], pa.binary())], schema=_RESULT)


def _fold_shard(known: Context, fold: int, number: int, rows: Iterator[FoldRow]) -> ShardResult:
    out, cluster_id, part = Path(known.out), known.cluster_ids[fold], f"{fold}-{number}"
    shard = Shard(cluster_id, number, known.shards[fold], known.cross_shard[fold], known.moments[fold])
    with ExitStack() as opened:
        tables = {name: opened.enter_context(part_writer(out, name, part)) for name in _HISTORY_TABLES}
        for changes, states in shard.history(rows, ROWS_PER_WRITE):
            rows_of: tuple[Sequence[tuple[object, ...]], ...] = (changes, *states)
            for name, found in zip(_HISTORY_TABLES, rows_of, strict=True):
                for chunk in _chunks(found):
                    tables[name].add(tuples_batch(name, chunk))
    image = shard.image()
    of_image = {"cluster_id": cluster_id, "end_offset": known.ends[fold]}
    count = 0
    for table in IMAGE_TABLES:
        if table.is_of_partitions:
            full = ({**of_image, **row} for row in table.rows(ImageView(image)))
            count += write_part(out, table.name, part, (rows_batch(table.name, c) for c in _chunks(full)))
    total = f"{partitions_sum(image):032x}"
    return ShardResult(
        fold,
        total,
        shard.record_count,
        count,
        _unknown(image),
        shard.stopped,
        shard.illegal_moves,
    )


# -- rows


def _batches(
    base: Sequence[Piece], log: Sequence[Piece], start_offset: Offset, end_offset: Offset
) -> Iterator[pa.RecordBatch]:
    """The data records of a fold but NoOps: the base snapshot's, moved before the log, then the log's."""
    for batch in Decoder(_COLUMNS, show_secrets=True).rows(base):
        yield from _data(batch, moved=BEFORE_THE_LOG)
    wanted = RecordFilter(from_offset=start_offset, to_offset=end_offset)
    for batch in Decoder(_COLUMNS, wanted, show_secrets=True).rows(log):
        yield from _data(batch, moved=0)


def _data(batch: pa.RecordBatch, *, moved: int) -> Iterator[pa.RecordBatch]:
    no_op = pc.equal(pc.fill_null(batch.column("api_key"), -1), NoOpRecord.API_KEY)
    kept = batch.filter(pc.invert(pc.or_(batch.column("is_control"), no_op)))
    if not kept.num_rows:
        return
    milliseconds = pc.divide(pc.fill_null(pc.cast(kept.column("timestamp"), pa.int64()), -1000), 1000)
    moved_by = pa.scalar(moved, pa.int64())
    yield pa.record_batch(
        {
            "batch_base_offset": pc.add(kept.column("batch_base_offset"), moved_by),
            "offset": pc.add(kept.column("offset"), moved_by),
            "epoch": kept.column("epoch"),
            "timestamp_ms": milliseconds,
            "value": pc.fill_null(kept.column("value"), b""),
        }
    )


def _fold_rows(batch: pa.RecordBatch) -> Iterator[FoldRow]:
    return (FoldRow(*row) for row in zip(*(batch.column(i).to_pylist() for i in range(5)), strict=True))


def _chunks(rows: Iterable[RowT]) -> Iterator[list[RowT]]:
    chunk: list[RowT] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == ROWS_PER_WRITE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
