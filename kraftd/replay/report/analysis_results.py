"""What the report shows of each cluster: the results of `analyses`, brought to the driver in bounded size.

Of a large fleet the clusters with most to tell are shown in full, and all of them in the overview.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kraftd.replay.report import analyses
from kraftd.replay.report.analyses import Tables
from kraftd.replay.report.cluster_report import ClusterReport, Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLUSTERS_MAX: Final = 12
"""So many clusters are shown in full."""
STEPS_MAX: Final = 60
"""How many steps of time a plot has."""
NICE_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)
ROWS_MAX: Final = 5000
"""Of one result about one cluster."""


class AnalysisResults(msgspec.Struct, frozen=True):
    """The rows of each analysis, by cluster."""

    step_s: int
    leaders: list[dict[str, Any]]
    kinds: list[dict[str, Any]]
    isr: list[dict[str, Any]]
    isr_by_broker: list[dict[str, Any]]
    isr_by_partition: list[dict[str, Any]]
    fencing: list[dict[str, Any]]
    churn: list[dict[str, Any]]
    elections: list[dict[str, Any]]
    election_reasons: list[dict[str, Any]]
    states: list[dict[str, Any]]
    without_leader: list[dict[str, Any]]
    topics: list[dict[str, Any]]
    matching: list[dict[str, Any]]
    snapshots: list[dict[str, Any]]


def shown_in_full(report: Report) -> list[ClusterReport]:
    """The clusters with most problems, then with most epochs; in the order of the report."""
    ranked = sorted(report.clusters, key=lambda one: (-len(one.problems), -len(one.epochs), one.cluster_id))
    chosen = {id(one) for one in ranked[:CLUSTERS_MAX]}
    return [one for one in report.clusters if id(one) in chosen]


def run_analyses(tables: Tables, clusters: Sequence[ClusterReport]) -> dict[str, AnalysisResults]:
    """Ask every question about these clusters."""
    from pyspark.sql import functions as f

    ids = [cluster.cluster_id for cluster in clusters]
    steps = {cluster.cluster_id: step_of(cluster) for cluster in clusters}

    def rows(frame: "DataFrame", *order: str) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {key: [] for key in ids}
        for row in frame.where(f.col("cluster_id").isin(ids)).orderBy("cluster_id", *order).toLocalIterator():
            mine = found[row.cluster_id]
            if len(mine) < ROWS_MAX:
                mine.append(row.asDict(recursive=True))
        return found

    logs = [
        (cluster.cluster_id, node.node_id, node.directory) for cluster in clusters for node in cluster.nodes
    ]
    found = {
        "leaders": rows(analyses.leader_timeline(tables), "started_at", "epoch"),
        "kinds": rows(analyses.kinds_over_time(tables, steps), "time", "type"),
        "isr": rows(analyses.isr_over_time(tables, steps), "time"),
        "isr_by_broker": rows(analyses.isr_by_broker(tables), "broker_id"),
        "isr_by_partition": rows(
            analyses.isr_by_partition(tables).orderBy(f.desc("shrinks")).limit(ROWS_MAX), "topic"
        ),
        "fencing": rows(analyses.broker_fencing(tables), "offset"),
        "churn": rows(analyses.leadership_churn(tables, steps), "time", "broker_id"),
        "elections": rows(analyses.elections_over_time(tables, steps), "time", "reason"),
        "election_reasons": rows(analyses.elections_by_reason(tables), "reason", "rule"),
        "states": rows(analyses.states_over_time(tables, steps), "time", "state"),
        "without_leader": rows(analyses.without_leader_by_topic(tables), "rank"),
        "topics": rows(analyses.hot_topics(tables), "rank"),
        "matching": rows(analyses.log_matching(tables), "left_directory", "right_directory"),
        "snapshots": rows(analyses.snapshots_against_replay(tables.spark, logs), "directory"),
    }
    return {key: AnalysisResults(steps[key], **{name: by[key] for name, by in found.items()}) for key in ids}


def step_of(cluster: ClusterReport) -> int:
    """How many seconds a step of a cluster's plots is: a round number, few enough steps."""
    span_s = max(0, cluster.last_record_at_ms - cluster.first_record_at_ms) / 1000
    return next((step for step in NICE_STEPS_S if span_s / step <= STEPS_MAX), NICE_STEPS_S[-1] * 7)
