"""The Spark data source: `spark.read.format("kraft").load(dir)`, one row a record.

    spark.dataSource.register(KraftDataSource)
    spark.read.format("kraft").load("export/")                       # one directory, or a folder of them
    spark.read.format("kraft").option("paths", json.dumps([…])).load()   # several

Planning surveys the clusters (headers and control records only), so that every row carries its commit status,
and cuts the files into slices of whole batches. Small files share a partition, large ones are cut. Reading
yields Arrow record batches, which Spark takes without a detour over Python objects.

Files must be readable under the same path by the driver and the workers, as on one machine or a shared mount.
"""

import json
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kraftd.replay.commit import NEVER_ENDS, Bounds
from kraftd.replay.decode import SCHEMA, Slice, rows
from kraftd.replay.discover import clusters, discover
from kraftd.replay.errors import ReplayError
from kraftd.replay.headers import mapped, walk
from kraftd.replay.model import FileKind, LogFile, NodeDirectory
from kraftd.replay.survey import survey_cluster

PARTITION_BYTES = 8 << 20
"""A task's share: about a second of decoding, so that two cores share a log of a few ten MB evenly."""

ALWAYS_COMMITTED = Bounds(committed_end=NEVER_ENDS, uncommitted_from=NEVER_ENDS)
"""Snapshots are made of committed records only."""


class Slices(InputPartition):
    """What one task reads."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        super().__init__(None)
        self.encoded = msgspec.msgpack.encode(slices)

    @property
    def slices(self) -> list[Slice]:
        """The slices, decoded: plain bytes travel better than our classes."""
        return msgspec.msgpack.decode(self.encoded, type=list[Slice])


class KraftDataSource(DataSource):
    """Metadata logs and snapshots of Kafka and kraftd controllers, as rows."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "kraft"

    def schema(self) -> StructType:
        """The columns; `kraftd.replay.decode.SCHEMA` says what each means."""
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Read the directories named by `load(path)` or by the option `paths`, a JSON list."""
        paths = json.loads(self.options["paths"]) if "paths" in self.options else []
        if "path" in self.options:
            paths.append(self.options["path"])
        if not paths:
            raise ReplayError('name a directory: spark.read.format("kraft").load("…")')
        return KraftReader(paths, int(self.options.get("partitionBytes", PARTITION_BYTES)))


class KraftReader(DataSourceReader):
    """Plans on the driver, reads in the tasks."""

    def __init__(self, paths: Sequence[str], partition_bytes: int) -> None:
        self.paths = list(paths)
        self.partition_bytes = partition_bytes

    def partitions(self) -> Sequence[InputPartition]:
        """Cut everything into tasks' shares, in the order of nodes, files and positions."""
        slices: list[Slice] = []
        for key, nodes in clusters(discover(self.paths)).items():
            survey = survey_cluster(key, nodes)
            for node, bounds in zip(survey.nodes, survey.verdict.bounds, strict=True):
                slices += plan_node(node.node, bounds, self.partition_bytes)
        return [Slices(share) for share in pack(slices, self.partition_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode one task's share."""
        if isinstance(partition, Slices):
            yield from rows(partition.slices)


def plan_node(node: NodeDirectory, bounds: Bounds, slice_bytes: int) -> Iterator[Slice]:
    """Cut a node's files into slices of about `slice_bytes`, each of whole batches."""
    for file in node.files:
        for start, end in cuts(file, slice_bytes):
            yield Slice(
                cluster_id=node.cluster_id,
                node_id=node.node_id,
                directory=node.directory,
                path=file.path,
                file=file.name,
                is_snapshot=file.is_snapshot,
                segment_base_offset=file.base_offset,
                start=start,
                end=end,
                bounds=bounds if file.kind is FileKind.LOG else ALWAYS_COMMITTED,
            )


def cuts(file: LogFile, slice_bytes: int) -> Iterator[tuple[int, int]]:
    """Where to cut a file: always before a batch. Bytes after the last whole batch go with the last slice."""
    if file.size_bytes <= slice_bytes:
        yield 0, file.size_bytes
        return
    with mapped(file.path) as data:
        positions, _ = walk(data)
    start = 0
    for position in positions.tolist():
        if position - start >= slice_bytes:
            yield start, position
            start = position
    yield start, file.size_bytes


def pack(slices: Sequence[Slice], share_bytes: int) -> Iterator[list[Slice]]:
    """Put neighbours together until a share is full: a task costs more than a small file."""
    share: list[Slice] = []
    filled = 0
    for piece in slices:
        if share and filled + piece.end - piece.start > share_bytes:
            yield share
            share, filled = [], 0
        share.append(piece)
        filled += piece.end - piece.start
    if share:
        yield share
