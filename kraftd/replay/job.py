"""Replay metadata logs with Spark: from directories to Parquet tables and a report.

`run` is the whole of it; `kraftctl replay` and `spark-submit` both call it. First the clusters are surveyed
on the driver (headers and control records), then Spark decodes every record into the table of records, in
parallel over segments and batch ranges; counts and problems come from that table, and so does the fold of the
image, in one ordered task a cluster.

Written below `out`: records, leader_epochs, configs and problems, each a Parquet table, and summary.json. A
directory that holds anything but an earlier replay is never written over.
"""

import json
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyarrow.dataset import dataset
from pyarrow.parquet import write_table

from kraftd.replay.discover import clusters as by_cluster
from kraftd.replay.discover import discover
from kraftd.replay.errors import ReplayError
from kraftd.replay.fold import CONFIGS, SUMMARY, FoldSummary, arrow_fold
from kraftd.replay.model import Problem, ProblemKind
from kraftd.replay.points import FoldPlan, parse_at, plan_fold
from kraftd.replay.progress import Steps
from kraftd.replay.report import (
    NO_OP,
    ClusterReport,
    FoldReport,
    KindCount,
    Report,
    cluster_report,
    fold_report,
)
from kraftd.replay.session import require_spark, session
from kraftd.replay.survey import ClusterSurvey, survey_cluster
from kraftd.replay.tables import leader_epochs_table, problems_table
from kraftd.types import Offset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from rich.console import Console

TABLES = ("records", "leader_epochs", "configs", "problems")
SUMMARY_FILE = "summary.json"

CONFIG_DDL = "resource_type string, resource_name string, name string, value string"
FOLD_DDL = "section string, json string"

ERROR_LINE = re.compile(r"(Caused by: )?[\w.]+(Error|Exception): ")
"""How Python and Java begin the line that names an error."""
BEFORE_THE_LOG = -(2**62)
"""Added to a base snapshot's own offsets, so that they sort before the log's."""
PROBLEMS_MAX = 1000
"""So many undecodable records are named; the table of records has them all."""


def run(
    dirs: Sequence[str | Path],
    out: str | Path,
    *,
    at: str | None = None,
    console: "Console | None" = None,
) -> Report:
    """Replay the logs of all controllers' directories at or below `dirs`.

    Args:
        dirs: Nodes' directories, exports, or folders of them; several clusters at once are fine.
        out: A directory for the tables; made if missing, and may hold an earlier replay.
        at: Fold up to this offset or time only; by default to the committed end.
        console: Where to draw progress, if it is a terminal.

    Raises:
        ReplayError: The replay cannot be done; what is wrong with the input's bytes is in the report instead.
    """
    started = time.monotonic()
    point = None if at is None else parse_at(at)
    require_spark()
    nodes = discover(dirs)
    target = _prepared(Path(out))
    with Steps(console) as steps:
        with steps.bytes("surveying", sum(file.size_bytes for node in nodes for file in node.files)) as done:
            groups = by_cluster(nodes).items()
            surveys = [survey_cluster(cluster_id, group, on_file=done) for cluster_id, group in groups]
        plans = [plan_fold(survey, point) for survey in surveys]
        with spark_errors(), ExitStack() as opened:
            with steps.waiting("starting Spark"):
                spark = opened.enter_context(session())
            reports = _Replay(spark, target, steps).run(surveys, plans)
            version = spark.version
    report = Report(
        out=str(target),
        at=at,
        clusters=tuple(reports),
        tables={name: dataset(target / name, format="parquet").count_rows() for name in TABLES},
        elapsed_ms=round((time.monotonic() - started) * 1000),
        spark_version=version,
    )
    (target / SUMMARY_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    return report


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn what Spark raises into one line; its own stack traces say nothing to an operator."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise ReplayError(f"Spark failed: {_cause(str(error)) or type(error).__name__}") from error


def _cause(text: str) -> str:
    """The line of an error of Spark that says what happened: a task's own error, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if ERROR_LINE.match(line)]
    return (named or lines or [""])[-1 if named else 0]


def _prepared(out: Path) -> Path:
    """Make the directory for the tables, or clear an earlier replay out of it."""
    if out.is_dir():
        ours = {*TABLES, SUMMARY_FILE}
        foreign = sorted(entry.name for entry in out.iterdir() if entry.name not in ours)
        if foreign:
            raise ReplayError(
                f"{out} holds {foreign[0]}, which no replay wrote; name a new or empty directory"
            )
        for entry in out.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReplayError(f"{out}: cannot be made a directory: {error.strerror}") from error
    return out.resolve()


class _Replay:
    """The Spark side of one run."""

    def __init__(self, spark: "SparkSession", out: Path, steps: Steps) -> None:
        self._spark = spark
        self._out = out
        self._steps = steps

    def run(self, surveys: Sequence[ClusterSurvey], plans: Sequence[FoldPlan]) -> list[ClusterReport]:
        """Write every table and report on every cluster."""
        directories = [node.node.directory for survey in surveys for node in survey.nodes]
        with self._steps.spark("decoding records", self._spark):
            rows = self._spark.read.format("kraft").option("paths", json.dumps(directories)).load()
            rows.write.parquet(self._path("records"))
        records = self._spark.read.parquet(self._path("records"))
        with self._steps.spark("counting kinds", self._spark):
            counts = _Counts(records)
        folds = [self._fold(records, survey, plan) for survey, plan in zip(surveys, plans, strict=True)]
        problems = {survey.cluster_id: self._problems(survey, counts) for survey in surveys}
        self._write(leader_epochs_table(surveys), "leader_epochs")
        self._write(problems_table(list(problems.items())), "problems")
        return [
            cluster_report(
                survey,
                counts.kinds(survey.reference.node.directory),
                sum(counts.snapshot_records(node.node.directory) for node in survey.nodes),
                problems[survey.cluster_id],
                fold,
            )
            for survey, fold in zip(surveys, folds, strict=True)
        ]

    def _fold(self, records: "DataFrame", survey: ClusterSurvey, plan: FoldPlan) -> FoldReport:
        """Fold one cluster in one task, add its configs to their table, and report the image."""
        with self._steps.spark(f"folding {survey.cluster_id}", self._spark):
            end_offset = plan.end_offset
            folded = (
                _rows_to_fold(records, plan)
                .mapInArrow(lambda batches: arrow_fold(batches, end_offset), FOLD_DDL)
                .persist()
            )
            summary = next(row.json for row in folded.where(folded.section == SUMMARY).toLocalIterator())
            image = msgspec.json.decode(summary, type=FoldSummary)
            self._write_configs(folded, survey.cluster_id, image.end_offset)
            folded.unpersist()
        return fold_report(plan, image)

    def _write_configs(self, folded: "DataFrame", cluster_id: str, end_offset: Offset) -> None:
        from pyspark.sql import functions as f

        configs = folded.where(folded.section == CONFIGS).select(f.from_json("json", CONFIG_DDL).alias("row"))
        configs.select(
            f.lit(cluster_id).alias("cluster_id"), f.lit(end_offset).alias("end_offset"), "row.*"
        ).write.mode("append").parquet(self._path(CONFIGS))

    def _problems(self, survey: ClusterSurvey, counts: "_Counts") -> list[Problem]:
        """What the survey found, and what only decoding could find."""
        found = list(survey.problems)
        for node in survey.nodes:
            found += counts.problems(node.node.directory)
        return found

    def _write(self, table: pa.Table, name: str) -> None:
        """Write a table that is small by nature without the detour over Spark."""
        (self._out / name).mkdir()
        write_table(table, self._out / name / "part-0.parquet")

    def _path(self, name: str) -> str:
        return str(self._out / name)


def _rows_to_fold(records: "DataFrame", plan: FoldPlan) -> "DataFrame":
    """The data records of one log in one partition, in order: the base snapshot's first, then the log's.

    NoOps are left out. A snapshot's batches get negative numbers, which keeps them apart from the log's.
    """
    from pyspark.sql import functions as f

    own = records.where(
        (records.directory == plan.node.node.directory)
        & ~records.is_control
        & ~records.type.eqNullSafe(NO_OP)
    )
    log = own.where(
        ~own.is_snapshot & f.col("offset").between(plan.start_offset, plan.end_offset - 1)
    ).select("batch_base_offset", "offset", "value")
    if plan.snapshot is None:
        return log.coalesce(1).sortWithinPartitions("offset")
    base = own.where(own.file == plan.snapshot.name).select(
        (own.batch_base_offset + f.lit(BEFORE_THE_LOG)).alias("batch_base_offset"),
        (f.col("offset") + f.lit(BEFORE_THE_LOG)).alias("offset"),
        "value",
    )
    return base.unionAll(log).coalesce(1).sortWithinPartitions("offset")


class _Counts:
    """What Spark counted over the table of records: small, whatever the table's size."""

    def __init__(self, records: "DataFrame") -> None:
        from pyspark.sql import functions as f

        keys = ("directory", "is_snapshot", "is_control", "type", "api_key", "version")
        grouped = records.where("crc_ok").groupBy(*keys)
        self._kinds = grouped.agg(
            f.count("*").alias("records"), f.coalesce(f.sum(f.length("value")), f.lit(0)).alias("bytes")
        ).collect()
        self._problems = (
            records.where("crc_ok and problem is not null")
            .select("directory", "file", "batch_position", "offset", "is_snapshot", "problem")
            .limit(PROBLEMS_MAX)
            .collect()
        )

    def kinds(self, directory: str) -> list[KindCount]:
        """The records of a directory's log by kind, the most frequent first."""
        found = [
            KindCount(row.type or "undecodable", row.version, row.is_control, row.records, row.bytes)
            for row in self._kinds
            if row.directory == directory and not row.is_snapshot
        ]
        return sorted(found, key=lambda kind: (-kind.count, kind.type, kind.version or 0))

    def snapshot_records(self, directory: str) -> int:
        """How many records the directory's snapshots hold."""
        return sum(row.records for row in self._kinds if row.directory == directory and row.is_snapshot)

    def problems(self, directory: str) -> list[Problem]:
        """The records of a directory that could not be decoded though their checksum is right."""
        return [
            Problem(
                ProblemKind.DAMAGED,
                directory,
                row.problem,
                file=row.file,
                position_bytes=row.batch_position,
                offset=row.offset,
            )
            for row in self._problems
            if row.directory == directory
        ]
