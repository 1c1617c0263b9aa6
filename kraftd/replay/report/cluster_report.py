"""What a replay found, as plain values: `summary` prints it, `-o json` dumps it, scripts read `summary.json`.

The names of the fields are the schema and stay stable. Offsets named `end` are exclusive; -1 is unknown.
"""

from collections.abc import Iterator, Mapping, Sequence
from os.path import commonpath
from pathlib import PurePath
from typing import Any

import msgspec

from kraftd.logtools.commit import CommitStatus
from kraftd.logtools.problem import Problem
from kraftd.replay.cluster_scan import ClusterSurvey, NodeSurvey
from kraftd.replay.image.fold import FoldSummary
from kraftd.replay.image.fold_plan import FoldPlan
from kraftd.replay.report.survey_tables import LeaderEpoch, leader_epochs
from kraftd.types import NO_NODE, Epoch, NodeId, Offset

NO_OP = "NoOpRecord"


class KindCount(msgspec.Struct, frozen=True):
    """How many records of one kind and version a log holds."""

    type: str
    version: int | None
    is_control: bool
    count: int
    value_bytes: int


class NodeReport(msgspec.Struct, frozen=True):
    """One directory."""

    node_id: NodeId
    directory: str
    directory_id: str
    is_voter: bool
    segments: int
    snapshots: int
    start_offset: Offset
    end_offset: Offset
    last_epoch: Epoch
    batches: int
    records: int
    size_bytes: int
    election_epoch: Epoch
    election_leader_id: NodeId
    election_voted_id: NodeId
    manifest_high_watermark: Offset
    agrees_to: Offset
    equal_batches: int
    diverged: bool
    committed_end: Offset
    uncommitted_from: Offset
    why_unknown: str
    why_uncommitted: str


class FoldReport(msgspec.Struct, frozen=True):
    """The image: from which node's log, up to where, how sure, and what it is."""

    node_id: NodeId
    directory: str
    start_offset: Offset
    end_offset: Offset
    last_record_at_ms: int
    commit_status: str
    from_snapshot: str | None
    notes: tuple[str, ...]
    image: FoldSummary


class ClusterReport(msgspec.Struct, frozen=True):
    """One cluster; offsets, epochs and kinds are those of its most complete log."""

    cluster_id: str
    voters: tuple[NodeId, ...]
    nodes: tuple[NodeReport, ...]
    reference_node_id: NodeId
    start_offset: Offset
    end_offset: Offset
    first_record_at_ms: int
    last_record_at_ms: int
    epochs: tuple[LeaderEpoch, ...]
    epochs_without_records: int
    kinds: tuple[KindCount, ...]
    snapshot_records: int
    noop_share: float
    committed_end: Offset
    committed_by: str
    committed_because: str
    commit_known: bool
    compared_batches: int
    problems: tuple[Problem, ...]
    fold: FoldReport | None

    @property
    def folder(self) -> str:
        """The folder that its directories lie in, or the only directory, by their last names."""
        paths = [PurePath(node.directory) for node in self.nodes]
        if len(paths) > 1:
            return PurePath(commonpath(paths)).name
        return "/".join(paths[0].parts[-2:]).lstrip("/")


class Report(msgspec.Struct, frozen=True):
    """The whole run."""

    out: str
    at: str | None
    clusters: tuple[ClusterReport, ...]
    lost: tuple[Problem, ...]
    """What was named as input and holds no log."""
    tables: Mapping[str, int]
    elapsed_ms: int
    spark_version: str

    @property
    def record_count(self) -> int:
        """The records of all clusters, each once, however many nodes hold it."""
        return sum(cluster.end_offset - cluster.start_offset for cluster in self.clusters)

    @property
    def problems(self) -> Iterator[Problem]:
        """Everything that is wrong, over all clusters."""
        yield from self.lost
        yield from (problem for cluster in self.clusters for problem in cluster.problems)

    @property
    def exit_code(self) -> int:
        """1 if the input is damaged, incomplete or diverged, or a fold was stopped; else 0."""
        stopped = any(cluster.fold is None or cluster.fold.image.stopped for cluster in self.clusters)
        return int(stopped or any(problem.is_fault for problem in self.problems))

    def to_builtins(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and text, for JSON and YAML."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return plain


def alike(problems: Sequence[Problem]) -> list[list[Problem]]:
    """Problems, those together that say the same of several directories, in the order of the first."""
    groups: dict[tuple[object, ...], list[Problem]] = {}
    for problem in problems:
        key = (problem.kind, problem.file, problem.position_bytes, problem.offset, problem.what)
        groups.setdefault(key, []).append(problem)
    return list(groups.values())


def cluster_report(
    cluster: ClusterSurvey,
    kinds: Sequence[KindCount],
    snapshot_records: int,
    problems: Sequence[Problem],
    fold: FoldReport | None,
) -> ClusterReport:
    """Put together what the survey, Spark and the fold found."""
    reference, verdict = cluster.reference, cluster.verdict
    epochs = tuple(leader_epochs(cluster))
    held = {epoch.epoch for epoch in epochs}
    total = sum(kind.count for kind in kinds)
    noops = sum(kind.count for kind in kinds if kind.type == NO_OP and not kind.is_control)
    return ClusterReport(
        cluster_id=cluster.cluster_id,
        voters=tuple(sorted(cluster.voters)),
        nodes=tuple(_node_report(cluster, index) for index in range(len(cluster.nodes))),
        reference_node_id=reference.node.node_id,
        start_offset=reference.start_offset,
        end_offset=reference.end_offset,
        first_record_at_ms=reference.first_record_at_ms,
        last_record_at_ms=reference.last_record_at_ms,
        epochs=epochs,
        epochs_without_records=max(held) - min(held) + 1 - len(held) if held else 0,
        kinds=tuple(kinds),
        snapshot_records=snapshot_records,
        noop_share=noops / total if total else 0.0,
        committed_end=verdict.committed_end,
        committed_by=verdict.proof.rule.value if verdict.proof is not None else "",
        committed_because=verdict.proof.text if verdict.proof is not None else "",
        commit_known=verdict.known,
        compared_batches=cluster.compared_batches,
        problems=tuple(problems),
        fold=fold,
    )


def fold_report(plan: FoldPlan, image: FoldSummary) -> FoldReport:
    """Describe a fold; its last record's time tells an operator more than an offset."""
    whole = image.end_offset == plan.end_offset
    return FoldReport(
        node_id=plan.node.node.node_id,
        directory=plan.node.node.directory,
        start_offset=plan.start_offset,
        end_offset=image.end_offset,
        last_record_at_ms=plan.last_record_at_ms if whole else image.last_record_at_ms,
        commit_status=plan.status.value if whole else CommitStatus.UNKNOWN.value,
        from_snapshot=None if plan.snapshot is None else plan.snapshot.name,
        notes=plan.notes,
        image=image,
    )


def _node_report(cluster: ClusterSurvey, index: int) -> NodeReport:
    survey: NodeSurvey = cluster.nodes[index]
    node, election = survey.node, survey.node.election
    match = cluster.comparisons[cluster.verdict.reference][index]
    bounds = cluster.verdict.bounds[index]
    return NodeReport(
        node_id=node.node_id,
        directory=node.directory,
        directory_id=node.directory_id,
        is_voter=node.node_id in cluster.voters,
        segments=len(node.segments),
        snapshots=len(node.snapshots),
        start_offset=survey.start_offset,
        end_offset=survey.end_offset,
        last_epoch=survey.epochs[-1].epoch if survey.epochs else -1,
        batches=survey.batch_count,
        records=survey.record_count,
        size_bytes=sum(file.size_bytes for file in node.files),
        election_epoch=-1 if election is None else election.epoch,
        election_leader_id=NO_NODE if election is None else election.leader_id,
        election_voted_id=NO_NODE if election is None or election.voted is None else election.voted.id,
        manifest_high_watermark=-1 if node.manifest is None else node.manifest.high_watermark,
        agrees_to=match.common_end,
        equal_batches=match.equal_batches,
        diverged=match.is_parted,
        committed_end=min(bounds.committed_end, survey.end_offset),
        uncommitted_from=min(bounds.uncommitted_from, survey.end_offset),
        why_unknown=bounds.why_unknown,
        why_uncommitted=bounds.why_uncommitted,
    )
