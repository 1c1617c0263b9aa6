"""The page fits a terminal of 80 columns, whatever is on it."""

import io

import msgspec
import pytest
from rich.console import Console

from kraftd.logtools.commit import CommitStatus
from kraftd.logtools.finding import find_fleet
from kraftd.logtools.node_files import by_cluster
from kraftd.logtools.problem import Problem, ProblemKind
from kraftd.replay.cluster_scan import survey_clusters
from kraftd.replay.image.fold import FoldSummary
from kraftd.replay.image.fold_plan import plan_fold
from kraftd.replay.report.cluster_report import KindCount, Report, cluster_report, fold_report
from kraftd.replay.report.summary import render
from tests.fixtures import klog

IMAGE = FoldSummary(
    end_offset=1688,
    image_hash="0123456789abcdef" * 2,
    record_count=10,
    is_partial=True,
    unknown_kinds={"TopicRecord": 3, "PartitionRecord": 1234},
    features={"metadata.version": 25},
    config_count=7,
    controller_ids=(1, 2, 3),
    open_transaction_at=1600,
    stopped="the record at offset 1688 is impossible: a transaction ends that never began",
)


def at(report: Report, folder: str) -> Report:
    """Return `report` with its nodes in `folder`: how a page shows a path depends on its length."""
    (cluster,) = report.clusters
    nodes = [
        msgspec.structs.replace(node, directory=f"{folder}/node-{node.node_id}") for node in cluster.nodes
    ]
    moved = msgspec.structs.replace(cluster, nodes=tuple(nodes))
    return msgspec.structs.replace(report, clusters=(moved,))


@pytest.fixture
def report() -> Report:
    ((key, nodes),) = by_cluster(find_fleet([klog("generated-kafka-4.3-dynamic-voters")])[0]).items()
    survey = survey_clusters(key, nodes)[0]
    kinds = [
        KindCount("PartitionChangeRecord", 2, False, 900, 40_000),
        KindCount("LeaderChange", 0, True, 5, 170),
    ]
    fold = fold_report(plan_fold(survey, None), IMAGE)
    found = Report(
        out="/srv/tables",
        at=None,
        clusters=(cluster_report(survey, kinds, 8860, survey.problems, fold),),
        lost=(),
        tables={"records": 13929},
        elapsed_ms=1234,
        spark_version="4.3.0",
    )
    return at(found, "/srv/logs/cluster-a")


def page(report: Report, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(render(report))
    return console.file.getvalue()


def test_no_column_is_cut_at_80(report: Report) -> None:
    assert "…" not in page(report, 80)
    assert max(len(line) for line in page(report, 80).splitlines()) <= 80


def test_no_word_is_broken_at_80_and_the_beginning_of_a_long_path_is_left_out(report: Report) -> None:
    far = "/srv/backups/of/all/controllers/before/the/upgrade/of/november/2026/cluster-a"
    text = page(at(report, far), 80)
    assert "…/controllers/before/the/upgrade/of/november/2026/cluster-a/ " in text
    assert far not in text
    assert " in cluster-a " in text.splitlines()[0]


def test_the_same_problem_of_several_nodes_is_said_once(report: Report) -> None:
    text = "lists epoch 7 at 2,307, but the log ends at 2,305"
    problems = tuple(Problem(ProblemKind.INCOMPLETE, f"/x/node-{n}", text, "epochs") for n in (1, 2, 3))
    cluster = msgspec.structs.replace(report.clusters[0], problems=problems)
    shown = page(msgspec.structs.replace(report, clusters=(cluster,)), 120)
    assert shown.count(text) == 1
    assert f"incomplete node-1, node-2, node-3: epochs: {text}" in shown


def test_a_record_counts_once_however_many_nodes_hold_it(report: Report) -> None:
    assert report.record_count == report.clusters[0].end_offset
    assert sum(node.records for node in report.clusters[0].nodes) > 2 * report.record_count


def test_it_says_what_is_committed_unknown_and_uncommitted(report: Report) -> None:
    text = page(report, 160)
    assert "committed     0 to 1,687   every voter holds them" in text
    assert "unknown       1,688 to 1,689 on node 3" in text
    assert "uncommitted   1,690 on node 3" in text
    assert "log matching  agree" in text


def test_logs_of_which_nothing_was_compared_are_not_said_to_agree(report: Report) -> None:
    cluster = msgspec.structs.replace(report.clusters[0], compared_batches=0)
    text = page(msgspec.structs.replace(report, clusters=(cluster,)), 160)
    assert "log matching  unknown   no two logs hold a batch of the same offset" in text


def test_a_partial_image_an_open_transaction_and_an_early_end_are_said(report: Report) -> None:
    text = page(report, 160)
    assert "these kinds are not known and not folded: PartitionRecord 1,234, TopicRecord 3" in text
    assert "open since offset 1,600: the image is the one before it" in text
    assert "a transaction ends that never began" in text


def test_problems_are_counted_when_they_are_many(report: Report) -> None:
    problems = report.clusters[0].problems or survey_problems(40)
    cluster = msgspec.structs.replace(report.clusters[0], problems=problems)
    text = page(msgspec.structs.replace(report, clusters=(cluster,)), 100)
    assert text.count("checksum") == 12
    assert "… 28 more damaged: see the table of problems" in text


def survey_problems(count: int) -> tuple:
    return tuple(Problem(ProblemKind.DAMAGED, "/n", f"checksum {n}", "a.log", n, n) for n in range(count))


def test_the_report_survives_json(report: Report) -> None:
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report
    assert report.to_builtins()["clusters"][0]["fold"]["commit_status"] == CommitStatus.COMMITTED.value
    assert report.exit_code == 1, "the fold was stopped"
