"""The page stands alone, says what the tables say, and its plots are ones that Vega-Lite takes."""

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from kraftd.logtools.finding import find_fleet
from kraftd.logtools.node_files import by_cluster
from kraftd.replay.cluster_scan import survey_clusters
from kraftd.replay.errors import ReplayError
from kraftd.replay.image.fold import FoldSummary
from kraftd.replay.image.fold_plan import plan_fold
from kraftd.replay.report import charts
from kraftd.replay.report.analysis_results import AnalysisResults, shown_in_full, step_of
from kraftd.replay.report.cluster_report import Report, cluster_report, fold_report
from kraftd.replay.report.page import render_page, require_page
from tests.fixtures import klog

vl_convert = pytest.importorskip("vl_convert")

LIBRARY = "const library = '<script>not closed here</script>';"
IMAGE = FoldSummary(1688, "0123456789abcdef" * 2, 10, False, {}, {}, 7, (1, 2, 3))
T0 = datetime(2026, 11, 21, 3, 56, 30, tzinfo=UTC)
T1 = datetime(2026, 11, 21, 3, 57, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def report() -> Report:
    ((key, nodes),) = by_cluster(find_fleet([klog("generated-kafka-4.3-dynamic-voters")])[0]).items()
    survey = survey_clusters(key, nodes)[0]
    fold = fold_report(plan_fold(survey, None), IMAGE)
    cluster = cluster_report(survey, [], 0, survey.problems, fold)
    return Report("/out", None, (cluster,), (), {"records": 1}, 1, "4.3.0")


@pytest.fixture(scope="module")
def results() -> AnalysisResults:
    return AnalysisResults(
        step_s=2,
        leaders=[
            leader(1, 1, None, 0),
            leader(4, 2, 3200, 2),
        ],
        kinds=[{"time": T0, "type": f"Kind{n}Record", "records": n + 1} for n in range(12)],
        isr=[{"time": T0, "shrinks": 3, "expands": 1}],
        isr_by_broker=[{"broker_id": 11, "shrinks": 3, "expands": 1}],
        isr_by_partition=[{"topic": "t", "partition_id": 0, "shrinks": 3, "expands": 1}],
        fencing=[
            {"broker_id": 11, "fenced_at": T0, "until": None, "fenced_ms": None, "event": "fenced"},
            {"broker_id": 12, "fenced_at": T0, "until": T1, "fenced_ms": 60_000, "event": "registered"},
        ],
        churn=[{"time": T0, "broker_id": -1, "won": 2, "lost": 0}],
        elections=[
            {"time": T0, "reason": "offline", "elections": 200},
            {"time": T1, "reason": "controlled_shutdown", "elections": 2},
        ],
        election_reasons=[
            {"reason": "controlled_shutdown", "rule": "in_sync", "elections": 2, "first_known_by": "so"},
            {"reason": "offline", "rule": "in_sync", "elections": 197, "first_known_by": "nobody led"},
            {"reason": "offline", "rule": "unclean", "elections": 3, "first_known_by": "nobody led"},
        ],
        states=[
            {"time": T0, "state": "Offline", "count": 7},
            {"time": T0, "state": "OfflineReplica", "count": 30},
            {"time": T0, "state": "NewReplica", "count": 1},
            {"time": T0, "state": "ReplicaDeletionStarted", "count": 2},
            {"time": T1, "state": "ReplicaDeletionIneligible", "count": 2},
            {"time": T1, "state": "Offline", "count": 0},
        ],
        without_leader=[
            {
                "topic": "<i>y",
                "without_leader_ms": 290_000,
                "longest_ms": 2_500,
                "times": 9,
                "partitions": 4,
                "still": 1,
                "rank": 1,
            },
        ],
        topics=[
            {"topic": "</script><b>x", "changes": 5, "leader_changes": 2, "shrinks": 3, "rank": 1},
        ],
        matching=[
            {
                "left_node_id": 1,
                "right_node_id": 2,
                "equal_batches": 4,
                "first_difference": 17,
                "left_epoch": 2,
                "right_epoch": 3,
            }
        ],
        snapshots=[
            {"node_id": 1, "directory": "/d", "snapshots_compared": 2, "problem": "/d/x.checkpoint: other"}
        ],
    )


def leader(epoch: int, node: int, gap_ms: int | None, lost: int) -> dict:
    return {
        "epoch": epoch,
        "leader_id": node,
        "started_at": T0,
        "last_record_at": T1,
        "records": 7,
        "epochs_nobody_won": lost,
        "without_leader_ms_at_most": gap_ms,
    }


@pytest.fixture(scope="module")
def page(report: Report, results: AnalysisResults) -> str:
    return render_page(report, {report.clusters[0].cluster_id: results}, LIBRARY)


def test_it_asks_no_other_machine_and_no_name_breaks_out(page: str) -> None:
    assert not re.search(r'(src|href)="(?!#)', page)
    assert "url(" not in page and "@import" not in page
    assert page.count("<script>") == 2 + LIBRARY.count("<script>")
    assert page.count("</script>") == 2
    assert "&lt;/script&gt;&lt;b&gt;x" in page


def test_it_says_in_words_what_the_plots_show(page: str) -> None:
    for words in (
        "2 leaders; 2 epochs that nobody won; without a leader at most 3.2 s in all",
        "Brokers left an ISR 3 times and came back 1 times.",
        "1 time a broker was lost",
        "1 broker still fenced at the end",
        "1 pair of nodes differ",
        "2 snapshots compared with the state that the log makes there, ",
        "<td>x.checkpoint: other</td>",
        "1 finding in snapshots and logs",
        "202 elections: 200 offline, 2 controlled shutdown.",
        '<span class="bad">3 leaders may lack records.</span>',
        "<td>&lt;i&gt;y</td>",
    ):
        assert words in page, words
    plots = re.findall(r'<div class="plot" id="plot-(\d+)" role="img" aria-label="[^"]+"></div>', page)
    assert [int(number) for number in plots] == list(range(9))


def test_the_overview_names_folders_and_counts_a_record_once(page: str, report: Report) -> None:
    cluster = report.clusters[0]
    assert f"{cluster.end_offset:,} records in logs, each counted once" in page
    assert "<td>generated-kafka-4.3-dynamic-voters</td>" in page
    assert f"Cluster {cluster.cluster_id} in generated-kafka-4.3-dynamic-voters</h2>" in page


@pytest.mark.parametrize("room", [800, 1600])
def test_plots_are_as_wide_as_the_page_and_no_wider(page: str, room: int) -> None:
    """As the page's own script does it: one width for a view, a smaller one for views below each other."""
    specs = msgspec.json.decode(re.search(r"const specs = (.*);\n", page)[1].replace("<\\/", "</"))
    for spec in specs:
        if "vconcat" in spec:
            for view in spec["vconcat"]:
                view["width"] = room - charts.MARGIN
        else:
            spec["width"] = room
        svg = vl_convert.vegalite_to_svg(spec)
        width = float(re.search(r'<svg[^>]* width="([\d.]+)"', svg)[1])
        assert room - 60 <= width <= room, spec


def test_every_plot_is_one_that_vega_lite_takes(page: str) -> None:
    found = re.search(r"const specs = (.*);\n", page)
    specs = msgspec.json.decode(found[1].replace("<\\/", "</"))
    assert len(specs) == 9
    for spec in specs:
        svg = vl_convert.vegalite_to_svg(spec)
        assert svg.count("<path") > 3
    kinds = {row["kind"] for row in specs[1]["data"]["values"]}
    assert len(kinds) == 8 and "other" in kinds


def test_a_cluster_without_results_is_in_the_overview_only(report: Report) -> None:
    text = render_page(report, {}, LIBRARY)
    assert report.clusters[0].cluster_id in text
    assert "1 cluster with fewer problems and leaders are not shown in full" in text
    assert "plot-0" not in text


def test_of_a_fleet_those_with_most_to_tell_are_shown(report: Report) -> None:
    calm = [msgspec.structs.replace(report.clusters[0], cluster_id=f"c{n}", epochs=()) for n in range(30)]
    fleet = msgspec.structs.replace(report, clusters=(*calm, report.clusters[0]))
    shown = shown_in_full(fleet)
    assert len(shown) == 12
    assert report.clusters[0] in shown
    assert step_of(report.clusters[0]) == 2, "78 s in at most 60 steps"


def test_what_cannot_be_written_is_said_before_anything_is_done(tmp_path: Path) -> None:
    require_page(tmp_path / "out.html")
    with pytest.raises(ReplayError, match="no such directory"):
        require_page(tmp_path / "nowhere" / "out.html")
    with pytest.raises(ReplayError, match="is a directory"):
        require_page(tmp_path)
