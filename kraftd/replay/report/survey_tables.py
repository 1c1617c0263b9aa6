"""Small tables that come from the survey: leader epochs and problems.

One row an epoch of a cluster's most complete log, and one for each epoch that another node alone holds. An
epoch that no log holds was an election that nobody won, or whose leader never wrote: the report counts them.
"""

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from kraftd.logtools.problem import Problem
from kraftd.replay.cluster_scan import ClusterSurvey, EpochSpan, LeaderRecord, NodeSurvey
from kraftd.replay.source.spans import MAX_TIMESTAMP_MS
from kraftd.replay.table_parts import rows_batch
from kraftd.types import Epoch, NodeId, Offset


class LeaderEpoch(msgspec.Struct, frozen=True):
    """One epoch of a cluster, as the nodes' logs tell it."""

    cluster_id: str
    epoch: Epoch
    start_offset: Offset
    end_offset: Offset
    leader_id: NodeId | None
    voters: tuple[NodeId, ...]
    granted_by: tuple[NodeId, ...]
    held_by: tuple[NodeId, ...]
    started_at_ms: int
    last_record_at_ms: int
    commit_status: str


def leader_epochs(cluster: ClusterSurvey) -> Iterator[LeaderEpoch]:
    """The epochs of the most complete log, then those that only other nodes hold."""
    order = sorted(range(len(cluster.nodes)), key=lambda index: index != cluster.verdict.reference)
    seen: set[tuple[Epoch, Offset]] = set()
    for index in order:
        node = cluster.nodes[index]
        for span in node.epochs:
            if (span.epoch, span.start_offset) not in seen:
                seen.add((span.epoch, span.start_offset))
                yield _leader_epoch(cluster, index, node, span)


def _leader_epoch(cluster: ClusterSurvey, index: int, node: NodeSurvey, span: EpochSpan) -> LeaderEpoch:
    leader_record = _leader_record(node, span)
    holders = [
        other.node.node_id
        for other, match in zip(cluster.nodes, cluster.comparisons[index], strict=True)
        if match.common_end > span.start_offset
    ]
    return LeaderEpoch(
        cluster_id=cluster.cluster_id,
        epoch=span.epoch,
        start_offset=span.start_offset,
        end_offset=span.end_offset,
        leader_id=None if leader_record is None else leader_record.leader_id,
        voters=() if leader_record is None else leader_record.voters,
        granted_by=() if leader_record is None else leader_record.granted_by,
        held_by=tuple(holders),
        started_at_ms=span.started_at_ms,
        last_record_at_ms=span.last_record_at_ms,
        commit_status=cluster.verdict.bounds[index].status_of(span.start_offset).value,
    )


def _leader_record(node: NodeSurvey, span: EpochSpan) -> LeaderRecord | None:
    return next(
        (leader_record for leader_record in node.leader_records if leader_record.epoch == span.epoch), None
    )


def leader_epoch_rows(clusters: Sequence[ClusterSurvey]) -> Iterator[pa.RecordBatch]:
    """All clusters' epochs."""
    for cluster in clusters:
        rows = [
            {
                **msgspec.to_builtins(row),
                "started_at": _time(row.started_at_ms),
                "last_record_at": _time(row.last_record_at_ms),
            }
            for row in leader_epochs(cluster)
        ]
        yield rows_batch("leader_epochs", rows)


def problem_rows(problems: Sequence[tuple[str, Sequence[Problem]]]) -> Iterator[pa.RecordBatch]:
    """All problems; what does not apply is null."""
    for cluster_id, found in problems:
        rows = [
            {
                **msgspec.to_builtins(problem),
                "cluster_id": cluster_id,
                "text": problem.what,
                "position_bytes": None if problem.position_bytes < 0 else problem.position_bytes,
                "offset": None if problem.offset < 0 else problem.offset,
            }
            for problem in found
        ]
        yield rows_batch("problems", rows)


def _time(milliseconds: int) -> int | None:
    return milliseconds if 0 <= milliseconds <= MAX_TIMESTAMP_MS else None
