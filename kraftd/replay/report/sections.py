"""What is shown of a cluster, in which order and words: each section with its plot and its table.

Entered by `sections`; `page` makes HTML of them. The sentences are HTML already: nothing in them comes from
a log but numbers.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kraftd.metadata.election_reasons import Rule
from kraftd.replay.report import charts
from kraftd.replay.report.analysis_results import AnalysisResults
from kraftd.replay.report.cluster_report import ClusterReport


class Section(NamedTuple):
    """One question and its answer."""

    title: str
    said: str
    """The answer in a sentence."""
    plot: charts.Spec | None
    heads: Mapping[str, str]
    """The fields of the rows that are shown, by what stands above them."""
    rows: Sequence[Mapping[str, Any]]


def sections(cluster: ClusterReport, results: AnalysisResults) -> Iterator[Section]:
    """All of one cluster: who led, what its log holds, what became of partitions and brokers, who agrees."""
    for section in _SECTIONS:
        yield section(cluster, results)


def several(count: int, noun: str) -> str:
    """A number of things, as people say it."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _leaders(cluster: ClusterReport, results: AnalysisResults) -> Section:
    return Section(
        "Leaders of the quorum and time without one",
        _leaders_said(results.leaders),
        charts.leaders(results.leaders, _span(cluster)),
        {
            "epoch": "epoch",
            "leader": "leader_id",
            "from": "started_at",
            "last record": "last_record_at",
            "records": "records",
            "epochs nobody won": "epochs_nobody_won",
            "ms without a leader, at most": "without_leader_ms_at_most",
        },
        sorted(results.leaders, key=lambda row: -(row["without_leader_ms_at_most"] or 0)),
    )


def _kinds(cluster: ClusterReport, results: AnalysisResults) -> Section:
    records = several(sum(row["records"] for row in results.kinds), "record")
    return Section(
        "Records by kind over time",
        f"{records}, {cluster.noop_share:.0%} of them NoOp.",
        charts.kinds(results.kinds, results.step_s, _span(cluster)),
        {"time": "time", "kind": "type", "records": "records"},
        results.kinds,
    )


def _isr(cluster: ClusterReport, results: AnalysisResults) -> Section:
    return Section(
        "In-sync replicas: who left, who came back",
        _isr_said(results),
        charts.isr(results.isr, results.step_s, _span(cluster)),
        {"broker": "broker_id", "left": "shrinks", "came back": "expands"},
        results.isr_by_broker,
    )


def _isr_of_partitions(cluster: ClusterReport, results: AnalysisResults) -> Section:
    del cluster
    return Section(
        "Partitions whose ISR changed most",
        f"{several(len(results.isr_by_partition), 'partition')} changed at all.",
        None,
        {"topic": "topic", "partition": "partition_id", "shrank": "shrinks", "grew": "expands"},
        sorted(results.isr_by_partition, key=lambda row: -(row["shrinks"] + row["expands"]))[:10],
    )


def _churn(cluster: ClusterReport, results: AnalysisResults) -> Section:
    return Section(
        "Leaders of partitions: who took over",
        f"{several(sum(row['won'] for row in results.churn), 'change')} of a partition's leader.",
        charts.churn(results.churn, results.step_s, _span(cluster)),
        {"time": "time", "broker": "broker_id", "won": "won", "lost": "lost"},
        results.churn,
    )


def _elections(cluster: ClusterReport, results: AnalysisResults) -> Section:
    return Section(
        "Why leaders of partitions changed",
        _elections_said(results.election_reasons),
        charts.elections(results.elections, results.step_s, _span(cluster)),
        {
            "reason": "reason",
            "rule": "rule",
            "elections": "elections",
            "the first one is known by": "first_known_by",
        },
        sorted(results.election_reasons, key=lambda row: -row["elections"]),
    )


def _without_leader(cluster: ClusterReport, results: AnalysisResults) -> Section:
    del cluster
    return Section(
        "Topics without a leader longest",
        "All partitions of a topic added up; what has no leader at the end of the log counts up to there.",
        charts.without_leader(results.without_leader),
        {
            "topic": "topic",
            "ms without a leader": "without_leader_ms",
            "longest at once, ms": "longest_ms",
            "times": "times",
            "partitions": "partitions",
            "still at the end": "still",
        },
        results.without_leader,
    )


def _states(cluster: ClusterReport, results: AnalysisResults) -> Section:
    illegal = 0 if cluster.fold is None else cluster.fold.image.illegal_moves
    return Section(
        "States of partitions and replicas",
        "How many were in another state than Online. Whether a replica can be read stands in no log; that a "
        "deleted one is gone shows only when its broker was started again."
        + (f' <span class="bad">{several(illegal, "move")} that no table allows.</span>' if illegal else ""),
        charts.states(results.states, _span(cluster)),
        {"time": "time", "state": "state", "then in it": "count"},
        results.states,
    )


def _topics(cluster: ClusterReport, results: AnalysisResults) -> Section:
    del cluster
    return Section(
        "Topics that change most",
        "Changes of leader, ISR or replicas of their partitions.",
        charts.topics(results.topics),
        {"topic": "topic", "changes": "changes", "of the leader": "leader_changes", "ISR shrank": "shrinks"},
        results.topics,
    )


def _fencing(cluster: ClusterReport, results: AnalysisResults) -> Section:
    return Section(
        "Fenced brokers",
        _fencing_said(results.fencing),
        charts.fencing(results.fencing, _span(cluster)),
        {"broker": "broker_id", "since": "fenced_at", "until": "until", "ms": "fenced_ms", "after": "event"},
        results.fencing,
    )


def _matching(cluster: ClusterReport, results: AnalysisResults) -> Section:
    del cluster
    differ = sum(row["first_difference"] is not None for row in results.matching)
    return Section(
        "Do the nodes hold the same log?",
        f'<span class="bad">{several(differ, "pair")} of nodes differ.</span>'
        if differ
        else f"{several(len(results.matching), 'pair')} of nodes compared, none differs.",
        None,
        {
            "node": "left_node_id",
            "and node": "right_node_id",
            "equal batches": "equal_batches",
            "first difference": "first_difference",
            "epoch": "left_epoch",
            "against": "right_epoch",
        },
        results.matching,
    )


def _snapshots(cluster: ClusterReport, results: AnalysisResults) -> Section:
    del cluster
    wrong = sum(row["problem"] is not None for row in results.snapshots)
    compared = sum({row["directory"]: row["snapshots_compared"] for row in results.snapshots}.values())
    return Section(
        "Snapshots against the log",
        f"{several(compared, 'snapshot')} compared with the state that the log makes there, "
        + (f'<span class="bad">{several(wrong, "finding")}.</span>' if wrong else "no finding."),
        None,
        {"node": "node_id", "snapshots": "snapshots_compared", "finding": "problem"},
        [{**row, "problem": _without(row["problem"], row["directory"])} for row in results.snapshots],
    )


_SECTIONS: Final[tuple[Callable[[ClusterReport, AnalysisResults], Section], ...]] = (
    _leaders,
    _kinds,
    _isr,
    _isr_of_partitions,
    _churn,
    _elections,
    _without_leader,
    _states,
    _topics,
    _fencing,
    _matching,
    _snapshots,
)


def _span(cluster: ClusterReport) -> charts.Span:
    return cluster.first_record_at_ms, cluster.last_record_at_ms


def _without(text: str | None, directory: str) -> str:
    """A finding without the directory that the row names already."""
    return (text or "none").replace(f"{directory}/", "")


def _leaders_said(rows: Sequence[Mapping[str, Any]]) -> str:
    gaps = [row["without_leader_ms_at_most"] or 0 for row in rows]
    lost = sum(row["epochs_nobody_won"] or 0 for row in rows)
    text = f"{several(len(rows), 'leader')}; "
    text += f"{several(lost, 'epoch')} that nobody won; " if lost else ""
    return text + (
        f"without a leader at most {sum(gaps) / 1000:,.1f} s in all, {max(gaps, default=0) / 1000:,.1f} s "
        "at once (a leader that wrote nothing counts as none)."
    )


def _isr_said(results: AnalysisResults) -> str:
    left = sum(row["shrinks"] for row in results.isr_by_broker)
    back = sum(row["expands"] for row in results.isr_by_broker)
    return f"Brokers left an ISR {left:,} times and came back {back:,} times."


def _elections_said(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many elections for which reason; those that may have lost records, and those without a reason."""
    by_reason: Counter[str] = Counter()
    for row in rows:
        by_reason[row["reason"]] += row["elections"]
    told = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in by_reason.most_common())
    text = f"{several(by_reason.total(), 'election')}" + (f": {told}." if told else ".")
    unclean = sum(row["elections"] for row in rows if row["rule"] in _MAY_LACK_RECORDS)
    if unclean:
        text += f' <span class="bad">{several(unclean, "leader")} may lack records.</span>'
    return text


_MAY_LACK_RECORDS: Final = (Rule.UNCLEAN, Rule.LAST_KNOWN_LEADER)


def _fencing_said(rows: Sequence[Mapping[str, Any]]) -> str:
    lost = [row for row in rows if row["event"] == "fenced"]
    text = f"{several(len(lost), 'time')} a broker was lost; it is fenced also from its registration on."
    still = sum(row["until"] is None for row in rows)
    return text + (f" {several(still, 'broker')} still fenced at the end." if still else "")
