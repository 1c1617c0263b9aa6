"""Replay metadata logs with Spark: from directories to Parquet tables and a report.

`run` is the whole of it; `kraftctl replay` and `spark-submit` both call it. Each step is one Spark stage or
two: clusters are surveyed, one task each (`cluster_scan`: headers, control records, what is committed, up
to where to fold); records are decoded into tables, one task a share of bytes (`writing`); images are folded
(`fold`). Tasks write their own Parquet files; what comes back to the driver is small, whatever the size of
the logs.

Written below `out`: the tables of `schemas`, and summary.json. A directory that holds anything but an earlier
replay is never written over.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from pyarrow.dataset import dataset

from kraftd.logtools.finding import find_fleet
from kraftd.logtools.node_files import NodeFiles, by_cluster
from kraftd.logtools.points import NotAPointError, Point, parse_point
from kraftd.logtools.problem import Problem, ProblemKind
from kraftd.replay.cluster_scan import ClusterSurvey, survey_clusters
from kraftd.replay.errors import ReplayError
from kraftd.replay.image.fold import FoldSummary, fold_all, fold_task
from kraftd.replay.image.fold_plan import FoldPlan, plan_fold
from kraftd.replay.progress import Steps
from kraftd.replay.report.analyses import Tables
from kraftd.replay.report.analysis_results import run_analyses, shown_in_full
from kraftd.replay.report.cluster_report import ClusterReport, KindCount, Report, cluster_report, fold_report
from kraftd.replay.report.page import require_page, write_page
from kraftd.replay.report.survey_tables import leader_epoch_rows, problem_rows
from kraftd.replay.schemas import TABLES
from kraftd.replay.session import require_spark, session
from kraftd.replay.source.pieces import PARTITION_BYTES, Piece, plan_node, shares
from kraftd.replay.table_parts import make_directories, write_part
from kraftd.replay.writing import KindTotal, Share, Written, write_share

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

SUMMARY_FILE = "summary.json"

Item = TypeVar("Item")
Result = TypeVar("Result")

ERROR_LINE = re.compile(r"(Caused by: )?[\w.]+(Error|Exception): ")
"""How Python and Java begin the line that names an error."""


def run(
    dirs: Sequence[str | Path],
    out: str | Path,
    *,
    at: str | None = None,
    show_secrets: bool = False,
    page: str | Path | None = None,
    console: "Console | None" = None,
) -> Report:
    """Replay the logs of all controllers' directories at or below `dirs`.

    Args:
        dirs: Nodes' directories, exports, folders of them, or patterns; several clusters at once are fine.
        out: A directory for the tables; made if missing, and may hold an earlier replay.
        at: Fold up to this offset or time only; by default to the committed end.
        show_secrets: Write keys, passwords and raw values that may hold them, too.
        page: Where to write the report as a page of HTML, if at all.
        console: Where to draw progress, if it is a terminal.

    Raises:
        ReplayError: The replay cannot be done; what is wrong with the input's bytes is in the report instead.
    """
    started = time.monotonic()
    try:
        point = None if at is None else parse_point(at)
    except NotAPointError as error:
        raise ReplayError(f"--at {error}") from None
    require_spark()
    if page is not None:
        require_page(Path(page))
    nodes, lost = find_fleet(dirs)
    target = _prepared(Path(out))
    with Steps(console) as steps, spark_errors(), ExitStack() as opened:
        with steps.waiting("starting Spark"):
            spark = opened.enter_context(session())
        replay = _Replay(spark, target, steps, show_secrets=show_secrets)
        reports = replay.run(by_cluster(nodes), point, lost)
        report = Report(
            out=str(target),
            at=at,
            clusters=tuple(reports),
            lost=tuple(lost),
            tables={name: dataset(target / name, format="parquet").count_rows() for name in TABLES},
            elapsed_ms=round((time.monotonic() - started) * 1000),
            spark_version=spark.version,
        )
        (target / SUMMARY_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(report)))
        if page is not None:
            replay.write_page(Path(page), report)
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


class _Surveyed(msgspec.Struct, frozen=True):
    """What is known of a cluster before its records are read: without headers, so small."""

    survey: ClusterSurvey
    plan: FoldPlan | None
    pieces: tuple[Piece, ...]
    problems: tuple[Problem, ...]


def _survey(group: tuple[str, list[NodeFiles]], at: Point | None) -> list[_Surveyed]:
    """Survey the cluster, or the clusters, under one id: the body of a Spark task."""
    return [_planned(survey, at) for survey in survey_clusters(*group)]


def _planned(survey: ClusterSurvey, at: Point | None) -> _Surveyed:
    """Plan what is decoded and folded of a cluster."""
    problems: tuple[Problem, ...] = ()
    plan = None
    try:
        plan = plan_fold(survey, at).without_headers
    except ReplayError as error:
        node = survey.reference.node
        text = str(error).removeprefix(f"{node.directory}: ")
        is_told = not node.segments and not node.snapshots  # that nothing is there
        kind = ProblemKind.NOTE if is_told else ProblemKind.INCOMPLETE
        problems = (Problem(kind, node.directory, text),)
    pieces = [
        piece for node, bounds in survey.judged for piece in plan_node(node.node, bounds, PARTITION_BYTES)
    ]
    return _Surveyed(survey.without_headers, plan, tuple(pieces), problems)


class _Replay:
    """The Spark side of one run."""

    def __init__(self, spark: "SparkSession", out: Path, steps: Steps, *, show_secrets: bool) -> None:
        self._spark = spark
        self._out = out
        self._steps = steps
        self._show_secrets = show_secrets

    def run(
        self, clusters: dict[str, list[NodeFiles]], at: Point | None, lost: Sequence[Problem]
    ) -> list[ClusterReport]:
        """Write every table and report on every cluster."""
        make_directories(self._out)
        groups = list(clusters.items())
        with self._steps.spark("surveying", self._spark):
            found = [one for several in self._map(groups, partial(_survey, at=at)) for one in several]
        if at is not None and all(one.plan is None for one in found):
            raise ReplayError(found[0].problems[0].text)
        written = self._decode([piece for one in found for piece in one.pieces])
        folds = self._fold(found)
        totals = _Totals(written)
        problems = [
            (one.survey.cluster_id, [*one.survey.problems, *one.problems, *totals.problems(one.survey)])
            for one in found
        ]
        surveys = [one.survey for one in found]
        write_part(self._out, "leader_epochs", "0", leader_epoch_rows(surveys))
        write_part(self._out, "problems", "0", problem_rows([*problems, ("", lost)]))
        return [
            cluster_report(
                one.survey,
                totals.kinds(one.survey.reference.node.directory),
                totals.snapshot_records(one.survey),
                said,
                None if one.plan is None else fold_report(one.plan, folds[index]),
            )
            for index, (one, (_, said)) in enumerate(zip(found, problems, strict=True))
        ]

    def write_page(self, path: Path, report: Report) -> None:
        """Ask the tables what the report shows, and write it."""
        with self._steps.spark("asking the tables", self._spark):
            results = run_analyses(Tables(self._spark, self._out), shown_in_full(report))
        write_page(path, report, results)

    def _decode(self, pieces: Sequence[Piece]) -> list[Written]:
        divided = shares(pieces, self._spark.sparkContext.defaultParallelism)
        tasks = [Share(f"{number:06d}", tuple(share)) for number, share in enumerate(divided)]
        with self._steps.spark("decoding records", self._spark):
            work = partial(write_share, out=self._out, show_secrets=self._show_secrets)
            return self._map(tasks, work)

    def _fold(self, found: Sequence[_Surveyed]) -> dict[int, FoldSummary]:
        tasks = [
            fold_task(index, one.survey.cluster_id, one.plan)
            for index, one in enumerate(found)
            if one.plan is not None
        ]
        with self._steps.spark("folding images", self._spark):
            return fold_all(self._spark, tasks, self._out, show_secrets=self._show_secrets)

    def _map(self, items: Sequence[Item], work: Callable[[Item], Result]) -> list[Result]:
        """Do one thing with each item, a task each."""
        if not items:
            return []
        found: list[Result] = self._spark.sparkContext.parallelize(items, len(items)).map(work).collect()
        return found


class _Totals:
    """What the tasks that decode have counted, added up."""

    def __init__(self, written: Sequence[Written]) -> None:
        self._kinds = [kind for one in written for kind in one.kinds]
        self._problems = [problem for one in written for problem in one.problems]

    def kinds(self, directory: str) -> list[KindCount]:
        """The records of a directory's log by kind, the most frequent first."""
        counts: dict[tuple[str, int | None, bool], list[KindTotal]] = {}
        for kind in self._kinds:
            if kind.directory == directory and not kind.is_snapshot:
                counts.setdefault((kind.type, kind.version, kind.is_control), []).append(kind)
        found = [
            KindCount(*key, sum(one.records for one in same), sum(one.value_bytes for one in same))
            for key, same in counts.items()
        ]
        return sorted(found, key=lambda kind: (-kind.count, kind.type, kind.version or 0))

    def snapshot_records(self, survey: ClusterSurvey) -> int:
        """How many records a cluster's snapshots hold."""
        directories = {node.node.directory for node in survey.nodes}
        return sum(kind.records for kind in self._kinds if kind.is_snapshot and kind.directory in directories)

    def problems(self, survey: ClusterSurvey) -> list[Problem]:
        """The records of a cluster that could not be decoded though their checksum is right."""
        directories = {node.node.directory for node in survey.nodes}
        return [problem for problem in self._problems if problem.directory in directories]
