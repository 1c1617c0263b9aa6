"""Up to where to fold: the committed end by default, or what `--at` asks for.

`--at OFFSET` means the state that the records below OFFSET make, as in a snapshot's name. `--at TIME` means
everything up to the last batch before the first whose timestamp exceeds TIME. Batches are never cut: an
offset inside one steps back to its start, and says so.

By default nothing is folded that may not be committed. Where the input cannot tell (one directory of a larger
quorum without a manifest), the whole log is folded except what is known to be uncommitted, and the plan says
how much of it is unknown.
"""

import msgspec
import numpy as np

from kraftd.logtools.commit import CommitStatus
from kraftd.logtools.node_files import LogFile
from kraftd.logtools.points import Point
from kraftd.logtools.state import is_of_snapshot, snapshot_time_ms
from kraftd.replay.cluster_scan import ClusterSurvey, NodeSurvey
from kraftd.replay.errors import ReplayError
from kraftd.types import Offset


class FoldPlan(msgspec.Struct, frozen=True):
    """What to fold, from which node, and how sure it is.

    `snapshot` is the base when the log does not start at 0. `last_record_at_ms` is the time at `end_offset`.
    """

    node: NodeSurvey
    snapshot: LogFile | None
    start_offset: Offset
    end_offset: Offset
    status: CommitStatus
    last_record_at_ms: int
    notes: tuple[str, ...] = ()

    @property
    def without_headers(self) -> "FoldPlan":
        """What a task and the report need of it."""
        return msgspec.structs.replace(self, node=self.node.without_headers)


def plan_fold(cluster: ClusterSurvey, at: Point | None) -> FoldPlan:
    """Choose the end, then the log: the first that is sound up to there, the most complete one preferred.

    Raises:
        ReplayError: `at` lies before the start or beyond the end of every log, or there is no log.
    """
    reference = cluster.reference
    if not reference.node.segments and not reference.node.snapshots:
        raise ReplayError(f"{reference.node.directory}: there is no log, so there is no image")
    notes: list[str] = []
    end = _default_end(cluster) if at is None else _end_at(reference, at, notes)
    node = _node_sound_to(cluster, end)
    if node.end_offset < end:
        notes.append(f"no log is sound beyond offset {node.end_offset:,}; folded up to there")
        end = node.end_offset
    snapshot = _base(node, end)
    start = snapshot.offset if snapshot is not None else node.start_offset
    if node.start_offset > 0 and snapshot is None:
        raise ReplayError(
            f"{node.node.directory}: the log starts at {node.start_offset:,} and no snapshot at or below "
            f"{end:,} reaches it: the state there cannot be known"
        )
    bounds = cluster.verdict.bounds[cluster.nodes.index(node)]
    if end <= bounds.committed_end:
        status = CommitStatus.COMMITTED
    else:
        status = CommitStatus.UNCOMMITTED if end > bounds.uncommitted_from else CommitStatus.UNKNOWN
        why = bounds.why_uncommitted if status is CommitStatus.UNCOMMITTED else bounds.why_unknown
        notes.append(
            f"offsets {bounds.committed_end:,} to {end - 1:,} are folded in, but may not be committed: {why}"
        )
    folded = node.sound[node.sound["end_offset"] <= end]
    if len(folded):
        last_ms = int(folded["max_timestamp_ms"][-1])
    else:
        last_ms = -1 if snapshot is None else snapshot_time_ms(snapshot)
    return FoldPlan(node, snapshot, start, end, status, last_ms, tuple(notes))


def _default_end(cluster: ClusterSurvey) -> Offset:
    verdict = cluster.verdict
    if verdict.known:
        return verdict.committed_end
    return min(cluster.reference.end_offset, verdict.bounds[verdict.reference].uncommitted_from)


def _end_at(node: NodeSurvey, at: Point, notes: list[str]) -> Offset:
    """Translate the user's point into the end of a batch of the most complete log."""
    log = node.sound
    if at.time_ms is not None:
        return _end_at_time(node, at.text, at.time_ms, notes)
    if at.offset is not None:
        if any(snapshot.offset == at.offset < node.start_offset for snapshot in node.node.snapshots):
            return at.offset  # the log begins later, but this very state is known
        if not node.start_offset <= at.offset <= node.end_offset:
            holds = (
                f"holds offsets {node.start_offset:,} to {node.end_offset - 1:,}"
                if node.end_offset > node.start_offset
                else f"is empty, and begins at offset {node.start_offset:,}"
            )
            raise ReplayError(f"--at {at.text}: node {node.node.node_id}'s log {holds}")
        index = int(np.searchsorted(log["end_offset"], at.offset, side="right"))
        end = int(log["end_offset"][index - 1]) if index else node.start_offset
        if end != at.offset:
            notes.append(f"offset {at.offset:,} lies inside a batch; folded up to its start, {end:,}")
        return end
    return node.end_offset


def _end_at_time(node: NodeSurvey, text: str, time_ms: int, notes: list[str]) -> Offset:
    """Where the first batch begins that is newer; before a log above 0 only a snapshot tells a state."""
    log = node.sound
    later = np.flatnonzero(log["max_timestamp_ms"] > time_ms)
    end = int(log["base_offset"][later[0]]) if len(later) else node.end_offset
    older = int((log["max_timestamp_ms"][later[0] :] <= time_ms).sum()) if len(later) else 0
    if older:
        notes.append(f"{older:,} later batches carry a time at or before {text}: clocks went back")
    if end == node.start_offset > 0 and not is_of_snapshot(node.node, end, time_ms):
        raise ReplayError(f"--at {text}: node {node.node.node_id}'s log begins at {end:,}, after that time")
    return end


def _node_sound_to(cluster: ClusterSurvey, end: Offset) -> NodeSurvey:
    """The log to fold: it must agree with the most complete one up to `end`."""
    found = [cluster.reference]
    for node, match in zip(cluster.nodes, cluster.comparisons[cluster.verdict.reference], strict=True):
        if match.common_end >= end and node.end_offset >= end:
            found.append(node)
    return next((node for node in found if node.end_offset >= end), cluster.reference)


def _base(node: NodeSurvey, end: Offset) -> LogFile | None:
    """The snapshot to start from when the log's beginning is gone: the oldest one that reaches the log.

    Before the log only a snapshot's own offset can be asked for; then it is that one.
    """
    if node.start_offset == 0:
        return None
    first = min(node.start_offset, end)
    fitting = [snapshot for snapshot in node.node.snapshots if first <= snapshot.offset <= end]
    return fitting[0] if fitting else None
