"""Small tables that come from the survey: leader epochs and problems.

One row an epoch that any log holds. A log that begins above 0, behind a snapshot, mostly begins inside an
epoch: nothing in it says where that began, or who led it, so another log that holds the LeaderChange is asked
first, and then the nodes' election files. An epoch that no log holds was an election that nobody won, or
whose leader never wrote: the report counts them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from kraftd.logtools.problem import Problem
from kraftd.replay.cluster_scan import ClusterSurvey, EpochSpan, LeaderRecord, NodeSurvey
from kraftd.replay.source.spans import MAX_TIMESTAMP_MS
from kraftd.replay.table_parts import rows_batch
from kraftd.types import NO_NODE, Epoch, NodeId, Offset


class LeaderEpoch(msgspec.Struct, frozen=True):
    """One epoch of a cluster, as the nodes' logs tell it.

    Where every log begins inside it, `start_offset` and `started_at_ms` are those of the first record that
    one of them holds; what only its LeaderChange tells is empty then.
    """

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

    @property
    def may_begin_before(self) -> bool:
        """Whether nothing says that it began with the record at `start_offset`, and not before."""
        return self.start_offset > 0 and not self.voters


class _HeldEpoch(NamedTuple):
    """What one node's log holds of an epoch."""

    node_index: int
    """In the survey."""
    span: EpochSpan
    leader_record: LeaderRecord | None
    is_from_its_begin: bool
    """Whether the log holds its first record."""


def leader_epochs(cluster: ClusterSurvey) -> Iterator[LeaderEpoch]:
    """The epochs of all logs, in their order, each once; twice, where two logs have it begin at two offsets,
    as those of two leaders of one epoch do.
    """
    held: defaultdict[Epoch, list[_HeldEpoch]] = defaultdict(list)
    reference = cluster.verdict.reference
    for index in sorted(range(len(cluster.nodes)), key=lambda index: index != reference):
        for one in _held_epochs(index, cluster.nodes[index]):
            held[one.span.epoch].append(one)
    for _, of_one_epoch in sorted(held.items()):
        rows = [_leader_epoch(cluster, same) for same in _by_begin(of_one_epoch)]
        yield from sorted(rows, key=lambda row: row.start_offset)


def _held_epochs(index: int, node: NodeSurvey) -> Iterator[_HeldEpoch]:
    leader_records = {record.epoch: record for record in reversed(node.leader_records)}
    for number, span in enumerate(node.epochs):
        leader_record = leader_records.get(span.epoch)
        # Only the first epoch of a log can have begun before it: what is sound of a log has no gaps.
        is_whole = number > 0 or span.start_offset == 0 or leader_record is not None
        yield _HeldEpoch(index, span, leader_record, is_whole)


def _by_begin(held: Sequence[_HeldEpoch]) -> Iterable[list[_HeldEpoch]]:
    """What is held of one epoch number, together where it can be of the same epoch."""
    begins = {one.span.start_offset: None for one in held if one.is_from_its_begin}
    groups: defaultdict[Offset | None, list[_HeldEpoch]] = defaultdict(list)
    for one in held:
        start = one.span.start_offset
        known = start if one.is_from_its_begin else next((begin for begin in begins if begin <= start), None)
        groups[known].append(one)
    return groups.values()


def _leader_epoch(cluster: ClusterSurvey, held: Sequence[_HeldEpoch]) -> LeaderEpoch:
    """The row of an epoch from what the logs hold of it, that of the most complete log first."""
    first = min(held, key=lambda one: one.span.start_offset)
    last = max(held, key=lambda one: (one.node_index == cluster.verdict.reference, one.span.end_offset))
    start = first.span.start_offset
    record = first.leader_record
    holders = [
        other.node.node_id
        for other, match in zip(cluster.nodes, cluster.comparisons[first.node_index], strict=True)
        if match.common_end > start
    ]
    return LeaderEpoch(
        cluster_id=cluster.cluster_id,
        epoch=first.span.epoch,
        start_offset=start,
        end_offset=last.span.end_offset,
        leader_id=_elected(cluster, first.span.epoch) if record is None else record.leader_id,
        voters=() if record is None else record.voters,
        granted_by=() if record is None else record.granted_by,
        held_by=tuple(holders),
        started_at_ms=first.span.started_at_ms,
        last_record_at_ms=last.span.last_record_at_ms,
        commit_status=cluster.verdict.bounds[first.node_index].status_of(start).value,
    )


def _elected(cluster: ClusterSurvey, epoch: Epoch) -> NodeId | None:
    """Who led an epoch by the election files; None where they do not say, or not the same."""
    elections = [node.node.election for node in cluster.nodes]
    leaders = {one.leader_id for one in elections if one is not None and one.epoch == epoch} - {NO_NODE}
    return leaders.pop() if len(leaders) == 1 else None


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
