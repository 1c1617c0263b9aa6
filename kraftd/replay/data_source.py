"""The Spark data source: `spark.read.format("kraft").load(dir)`, one row a record.

    spark.dataSource.register(KraftDataSource)
    spark.read.format("kraft").load("fleet/*/node-*")  # a directory, a folder of them, or a pattern
    spark.read.format("kraft").option("paths", json.dumps([…])).load()  # several
    spark.read.format("kraft").option("columns", "offset,type,value").load("export/")  # only what is needed

With the option `pushFilters` filters on `offset`, `timestamp`, `type` and `is_snapshot` are pushed down
(filter such a DataFrame once: Spark 4.3 keeps the filter when the same one is used again without any);
`register` switches that on in Spark, which has it off. Columns are not pushed down in Spark 4, so they are an
option: without `body` no record is decoded, and without `commit_status` nothing is surveyed. `showSecrets`
gives raw values and bodies as they are, `partitionBytes` is a task's share.

Planning surveys the clusters (headers and control records only), so that every row carries its commit status,
and cuts the files into pieces of whole batches (`pieces`). Reading yields Arrow record batches, which Spark
takes without a detour over Python objects. Files must be readable under the same path by the driver and the
workers, as on one machine or a shared mount.

Where the rows are only to be written, `write_rows` does it from within the tasks: what Spark writes itself it
first turns from columns to rows, in Java, which takes several times as long as decoding them.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.finding import find_fleet
from kraftd.logtools.node_files import by_cluster
from kraftd.replay.cluster_scan import survey_clusters
from kraftd.replay.errors import ReplayError
from kraftd.replay.source.columns import SCHEMA, chosen
from kraftd.replay.source.decode import Decoder
from kraftd.replay.source.filters import pushed
from kraftd.replay.source.pieces import EVERYTHING, PARTITION_BYTES, UNJUDGED, Piece, pack, plan_node, shares
from kraftd.replay.table_parts import write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT_STATUS = "commit_status"


class Pieces(InputPartition):
    """What one task reads."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.encoded = msgspec.msgpack.encode(pieces)

    @property
    def pieces(self) -> list[Piece]:
        """The pieces, decoded: plain bytes travel better than our classes."""
        return msgspec.msgpack.decode(self.encoded, type=list[Piece])


class KraftDataSource(DataSource):
    """Metadata logs and snapshots of Kafka and kraftd controllers, as rows."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "kraft"

    def schema(self) -> StructType:
        """The columns, or those of the option `columns`; `source.columns` says what each means."""
        named = self.options.get("columns")
        if named is None:
            return from_arrow_schema(SCHEMA)
        return from_arrow_schema(_chosen([name.strip() for name in named.split(",")]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the directories named by `load(path)` or by the option `paths`, a JSON list."""
        paths = json.loads(self.options["paths"]) if "paths" in self.options else []
        if "path" in self.options:
            paths.append(self.options["path"])
        if not paths:
            raise ReplayError('name a directory: spark.read.format("kraft").load("…")')
        filtered = self.options.get("pushFilters", "false").lower() == "true"
        return (FilteringReader if filtered else KraftReader)(
            paths,
            schema.names,
            partition_bytes=int(self.options.get("partitionBytes", PARTITION_BYTES)),
            show_secrets=self.options.get("showSecrets", "false").lower() == "true",
        )


class KraftReader(DataSourceReader):
    """Plans on the driver, reads in the tasks."""

    def __init__(
        self,
        paths: Sequence[str],
        columns: Sequence[str] = SCHEMA.names,
        *,
        partition_bytes: int = PARTITION_BYTES,
        show_secrets: bool = False,
    ) -> None:
        self.paths = list(paths)
        self.columns = list(columns)
        self.partition_bytes = partition_bytes
        self.show_secrets = show_secrets
        self.wanted = EVERYTHING

    def partitions(self) -> Sequence[InputPartition]:
        """Cut everything into tasks' shares."""
        return [Pieces(share) for share in pack(self.pieces(), self.partition_bytes)]

    def pieces(self) -> list[Piece]:
        """Everything, in the order of nodes, files and positions."""
        pieces: list[Piece] = []
        fleet, lost = find_fleet(self.paths)
        for problem in lost:
            raise UnanswerableError(problem)
        for key, nodes in by_cluster(fleet).items():
            if COMMIT_STATUS in self.columns:
                surveys = survey_clusters(key, nodes)
                judged = [(one.node, bounds) for survey in surveys for one, bounds in survey.judged]
            else:
                judged = [(node, UNJUDGED) for node in nodes]
            for node, bounds in judged:
                pieces += plan_node(node, bounds, self.partition_bytes, self.wanted)
        return pieces

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode one task's share."""
        if isinstance(partition, Pieces):
            decoder = Decoder(chosen(self.columns), self.wanted, show_secrets=self.show_secrets)
            yield from decoder.rows(partition.pieces)


class FilteringReader(KraftReader):
    """Leaves out what filters exclude. Spark 4.3 keeps this reader for later uses of the DataFrame."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take what can be decided here, exactly; Spark does the rest."""
        self.wanted, left = pushed(filters, self.wanted)
        return left


def write_rows(
    spark: "SparkSession",
    paths: Sequence[str],
    out: str | Path,
    *,
    columns: Sequence[str] = SCHEMA.names,
    show_secrets: bool = False,
) -> int:
    """Write the rows of the data source as Parquet, each task a file of its own.

    Args:
        spark: A session that `register` knows.
        paths: Directories, folders of them, patterns.
        out: A new or empty directory, on a path that driver and workers share.
        columns: Some of `kraftd.replay.source.columns`, in the order wanted.
        show_secrets: Write raw values and bodies as they are.

    Returns:
        How many rows were written.

    Raises:
        ReplayError: There is no such log, no such column, or `out` holds something already.
    """
    schema = _chosen(columns)
    context = spark.sparkContext
    pieces = KraftReader(paths, columns).pieces()
    tasks = [*enumerate(shares(pieces, context.defaultParallelism))]
    target = Path(out)
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise ReplayError(f"{target} is not empty; name a new or empty directory")
    except OSError as error:
        raise ReplayError(f"{target}: cannot be made a directory: {error.strerror}") from error
    write_file(target, "none", schema, ())  # no rows have columns, too

    def write(task: tuple[int, list[Piece]]) -> int:
        rows = Decoder(schema, show_secrets=show_secrets).rows(task[1])
        return write_file(target, f"{task[0]:06d}", schema, rows)

    return sum(context.parallelize(tasks, len(tasks)).map(write).collect()) if tasks else 0


def _chosen(columns: Sequence[str]) -> pa.Schema:
    try:
        return chosen(columns)
    except KeyError as error:
        listed = ", ".join(SCHEMA.names)
        raise ReplayError(f"there is no column {error.args[0]}; there are {listed}") from error
