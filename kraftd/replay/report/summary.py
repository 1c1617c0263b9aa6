"""The report for a person: what is in the logs, what can be relied on, and what is wrong, in this order.

One block a cluster. Colours only repeat what the words say. Numbers that are not known are not printed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from os.path import commonpath, relpath

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from kraftd.logtools.commit import CommitStatus
from kraftd.logtools.problem import Problem, ProblemKind
from kraftd.replay.report.cluster_report import (
    ClusterReport,
    FoldReport,
    KindCount,
    NodeReport,
    Report,
    alike,
)
from kraftd.replay.report.survey_tables import LeaderEpoch
from kraftd.types import Offset

EPOCHS_SHOWN = 8
KINDS_SHOWN = 12
PROBLEMS_SHOWN = 12
LABEL_COLUMNS = 14
PATH_COLUMNS = 58
"""What is left of 80 columns beside a label, a slash and an ellipsis."""

STATUS_STYLE = {
    CommitStatus.COMMITTED: "green",
    CommitStatus.UNKNOWN: "yellow",
    CommitStatus.UNCOMMITTED: "yellow",
}
PROBLEM_STYLE = {
    ProblemKind.DAMAGED: "bold red",
    ProblemKind.DIVERGED: "bold red",
    ProblemKind.TORN: "bold yellow",
    ProblemKind.INCOMPLETE: "bold yellow",
    ProblemKind.NOTE: "cyan",
}


def render(report: Report) -> RenderableType:
    """The whole report, to be printed on a rich console."""
    blocks: list[RenderableType] = [_cluster(cluster) for cluster in report.clusters]
    if report.lost:
        lost: list[RenderableType] = [_heading("without a log"), _indented(_problems(report.lost)), Text()]
        blocks.append(Group(*lost))
    return Group(*blocks, _footer(report))


def _cluster(cluster: ClusterReport) -> RenderableType:
    sections: list[RenderableType] = [
        Rule(_title(cluster), align="left", style="dim"),
        _facts(_log_facts(cluster)),
        _indented(_nodes(cluster)),
    ]
    if cluster.epochs:
        sections += [_heading("leaders"), _indented(_leaders(cluster)), _indented(_epochs(cluster.epochs))]
    if cluster.kinds:
        sections += [_heading("record kinds"), _indented(_kinds(cluster.kinds))]
    if cluster.fold is not None:
        sections += [_heading("image"), _facts(_image_facts(cluster.fold))]
    sections += [_heading("problems"), _indented(_problems(cluster.problems)), Text()]
    return Group(*sections)


def _title(cluster: ClusterReport) -> Text:
    """Its id and its folder: ids are copied, and say nothing to a person."""
    if cluster.cluster_id in {node.directory for node in cluster.nodes}:
        return Text.assemble("without a cluster id, in ", (cluster.folder, "bold"))
    shared_id = cluster.cluster_id.partition(" in ")[
        0
    ]  # of two clusters under one id the folder is told anyway
    return Text.assemble("cluster ", (shared_id, "bold"), " in ", (cluster.folder, "bold"))


def _log_facts(cluster: ClusterReport) -> Iterator[tuple[str, str]]:
    yield "read from", _directories([node.directory for node in cluster.nodes])
    if cluster.end_offset > cluster.start_offset:
        yield (
            "offsets",
            (
                f"{cluster.start_offset:,} to {cluster.end_offset - 1:,}   "
                f"[dim]{_time(cluster.first_record_at_ms)} to {_time(cluster.last_record_at_ms)}[/]"
            ),
        )
        records = sum(kind.count for kind in cluster.kinds)
        snapshots = (
            f"   [dim]and {cluster.snapshot_records:,} in snapshots[/]" if cluster.snapshot_records else ""
        )
        yield "records", f"{records:,}, of them {cluster.noop_share:.1%} NoOp{snapshots}"
    yield "committed", _committed(cluster)
    for node in cluster.nodes:
        yield from _tails(cluster, node)
    if len(cluster.nodes) > 1:
        yield "log matching", _matching(cluster)


def _directories(paths: Sequence[str]) -> str:
    """The directories, what they share said once."""
    if len(paths) == 1:
        return escape(_short(paths[0]))
    parent = commonpath(paths)
    return escape(f"{_short(parent)}/ {', '.join(relpath(path, parent) for path in paths)}")


def _from_here(path: str) -> str:
    """A path as the user would type it, where he stands above it."""
    here = relpath(path)
    return path if here.startswith("..") else here


def _short(path: str) -> str:
    """A path that is no longer than a line; what is cut is its beginning."""
    shown = _from_here(path)
    parts = shown.split("/")
    while len("/".join(parts)) > PATH_COLUMNS and len(parts) > 1:
        parts = parts[1:]
    return shown if len(parts) == shown.count("/") + 1 else "/".join(["…", *parts])


def _committed(cluster: ClusterReport) -> str:
    if not cluster.committed_by:
        return "[yellow]unknown[/] [dim]nothing here proves that any record was committed[/]"
    text = f"[green]0 to {cluster.committed_end - 1:,}[/]   [dim]{escape(cluster.committed_because)}[/]"
    return text if cluster.commit_known else f"{text} [yellow](at least)[/]"


def _tails(cluster: ClusterReport, node: NodeReport) -> Iterator[tuple[str, str]]:
    """What of a node's log is unknown or uncommitted; equal tails of other nodes are said once."""
    reference = node.node_id == cluster.reference_node_id
    if node.committed_end < node.uncommitted_from and (reference or node.diverged):
        yield "unknown", _range(node, node.committed_end, node.uncommitted_from, node.why_unknown)
    if node.uncommitted_from < node.end_offset:
        yield "uncommitted", _range(node, node.uncommitted_from, node.end_offset, node.why_uncommitted)


def _range(node: NodeReport, start: Offset, end: Offset, why: str) -> str:
    offsets = f"{start:,}" if end == start + 1 else f"{start:,} to {end - 1:,}"
    return f"[yellow]{offsets}[/] on node {node.node_id}   [dim]{escape(why)}[/]"


def _matching(cluster: ClusterReport) -> str:
    diverged = [node for node in cluster.nodes if node.diverged]
    if not diverged and not cluster.compared_batches:
        return "[yellow]unknown[/]   [dim]no two logs hold a batch of the same offset[/]"
    if not diverged:
        others = _several(sum(node.equal_batches > 0 for node in cluster.nodes) - 1, "other node")
        return (
            f"[green]agree[/]   [dim]{cluster.compared_batches:,} batches of {others} equal "
            f"node {cluster.reference_node_id}'s[/]"
        )
    return ", ".join(f"[bold red]node {node.node_id} diverges at {node.agrees_to:,}[/]" for node in diverged)


def _nodes(cluster: ClusterReport) -> Table:
    table = _table("node", ">log end", ">epoch", "election file", ">segments", ">snapshots", ">records")
    for node in cluster.nodes:
        name = str(node.node_id) if node.node_id >= 0 else "?"
        if cluster.voters and not node.is_voter:
            name += " observer"
        if node.node_id == cluster.reference_node_id and len(cluster.nodes) > 1:
            name += " [green]*[/]"
        table.add_row(
            name,
            f"{node.end_offset:,}",
            str(node.last_epoch),
            _election(node),
            str(node.segments),
            str(node.snapshots),
            f"{node.records:,}",
        )
    return table


def _election(node: NodeReport) -> str:
    if node.election_epoch < 0:
        return "[yellow]missing[/]"
    leader = f"leader {node.election_leader_id}" if node.election_leader_id >= 0 else "no leader"
    vote = f", voted {node.election_voted_id}" if node.election_voted_id >= 0 else ""
    return f"{node.election_epoch}: {leader}{vote}"


def _leaders(cluster: ClusterReport) -> Text:
    led = Counter(epoch.leader_id for epoch in cluster.epochs if epoch.leader_id is not None)
    shares = ", ".join(f"node {leader} {count}x" for leader, count in led.most_common())
    gone = cluster.epochs_without_records
    first, last = cluster.epochs[0].epoch, cluster.epochs[-1].epoch
    where = f"in epoch {first}" if first == last else f"in epochs {first} to {last}"
    text = f"{_several(led.total(), 'leader')} {where}: {shares}" if led else f"no leader is known {where}"
    return Text(text + (f"; {_several(gone, 'epoch')} between left no record" if gone else ""))


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _epochs(epochs: Sequence[LeaderEpoch]) -> Table:
    table = _table(">epoch", ">leader", ">start", ">length", "since (UTC)", "votes", "held", "status")
    hidden = max(0, len(epochs) - EPOCHS_SHOWN)
    if hidden:
        table.add_row("…", "", "", "", f"[dim]{hidden} earlier[/]")
    for epoch in epochs[hidden:]:
        before, at_least = ("≤", "≥") if epoch.may_begin_before else ("", "")
        table.add_row(
            str(epoch.epoch),
            "?" if epoch.leader_id is None else str(epoch.leader_id),
            f"{before}{epoch.start_offset:,}",
            f"{at_least}{epoch.end_offset - epoch.start_offset:,}",
            f"{before}{_time(epoch.started_at_ms)}",
            " ".join(map(str, epoch.granted_by)),
            " ".join(map(str, epoch.held_by)),
            f"[{STATUS_STYLE[CommitStatus(epoch.commit_status)]}]{epoch.commit_status}[/]",
        )
    return table


def _kinds(kinds: Sequence[KindCount]) -> Table:
    table = _table("kind", ">version", ">records", ">share", ">bytes")
    total = sum(kind.count for kind in kinds)
    for kind in kinds[:KINDS_SHOWN]:
        table.add_row(
            f"[dim]{kind.type}[/]" if kind.is_control else kind.type,
            "" if kind.version is None else str(kind.version),
            f"{kind.count:,}",
            f"{kind.count / total:.1%}",
            f"{kind.value_bytes:,}",
        )
    if len(kinds) > KINDS_SHOWN:
        rest = kinds[KINDS_SHOWN:]
        count = sum(kind.count for kind in rest)
        table.add_row(f"[dim]… {len(rest)} more[/]", "", f"{count:,}", f"{count / total:.1%}")
    return table


def _image_facts(fold: FoldReport) -> Iterator[tuple[str, str]]:
    image = fold.image
    style = STATUS_STYLE[CommitStatus(fold.commit_status)]
    base = f", from snapshot {fold.from_snapshot}" if fold.from_snapshot else ""
    yield (
        "at offset",
        (
            f"[bold]{fold.end_offset:,}[/]   [dim]{_time(fold.last_record_at_ms)}, "
            f"folded from node {fold.node_id}{base}[/]   [{style}]{fold.commit_status}[/]"
        ),
    )
    yield "hash", f"[bold]{image.image_hash}[/]"
    features = ", ".join(f"{name}={level}" for name, level in image.features.items())
    yield "features", escape(features) or "[dim]none[/]"
    topics, partitions = _several(image.topic_count, "topic"), _several(image.partition_count, "partition")
    brokers, configs = _several(image.broker_count, "broker"), _several(image.config_count, "config")
    yield "holds", f"{brokers}, {topics}, {partitions}, {configs}"
    if image.controller_ids:
        yield "controllers", " ".join(map(str, image.controller_ids))
    if image.is_partial:
        unknown = sorted(image.unknown_kinds.items(), key=lambda item: -item[1])
        kinds = ", ".join(f"{name} {count:,}" for name, count in unknown)
        yield "partial", f"[yellow]these kinds are not known and not folded:[/] [dim]{kinds}[/]"
    if image.open_transaction_at is not None:
        yield (
            "transaction",
            (f"[yellow]open since offset {image.open_transaction_at:,}[/]: the image is the one before it"),
        )
    if image.stopped is not None:
        yield "stopped", f"[bold red]{escape(image.stopped)}[/]"
    for note in fold.notes:
        yield "note", f"[yellow]{escape(note)}[/]"


def _problems(problems: Sequence[Problem]) -> RenderableType:
    if not problems:
        return Text("none", style="green")
    groups = alike(problems)
    lines = [_problem(group) for group in groups[:PROBLEMS_SHOWN]]
    hidden = Counter(group[0].kind for group in groups[PROBLEMS_SHOWN:])
    for kind, count in sorted(hidden.items()):
        lines.append(Text(f"… {count} more {kind.value}: see the table of problems", style="dim"))
    return Group(*lines)


def _problem(group: Sequence[Problem]) -> RenderableType:
    """A problem, said once of all directories that have it, its lines below each other."""
    first = group[0]
    names = ", ".join(one.directory.rstrip("/").rsplit("/", 1)[-1] for one in group)
    where = ": ".join(part for part in (names, first.file) if part)
    if first.position_bytes >= 0:
        where += f" byte {first.position_bytes:,}"
    line = Table.grid(padding=(0, 1))
    line.add_column(width=LABEL_COLUMNS - 4, no_wrap=True)
    line.add_column()
    text = f"{where}: {first.what}" if where else first.what
    line.add_row(Text(first.kind.value, PROBLEM_STYLE[first.kind]), Text(text))
    return line


def _footer(report: Report) -> RenderableType:
    counts = ", ".join(f"{name} {count:,}" for name, count in report.tables.items())
    facts = [
        ("tables", escape(_from_here(report.out))),
        ("with rows", counts),
        ("took", f"{report.elapsed_ms / 1000:.1f} s with Spark {report.spark_version}"),
    ]
    return Group(Rule(style="dim"), _facts(iter(facts)))


def _heading(text: str) -> Text:
    return Text(text, style="bold")


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2))


def _facts(facts: Iterator[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=LABEL_COLUMNS, no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in facts:
        table.add_row(f"  {label}", text)
    return table


def _table(*columns: str) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0)
    )
    for column in columns:
        right = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if right else "left", no_wrap=True)
    return table


def _time(ms: int) -> str:
    return "?" if ms < 0 else f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
