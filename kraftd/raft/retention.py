"""How much of its past a node keeps: at which snapshot its log is to begin.

Pure: `choose_start` is told what there is and what must stay, and says where to cut. Log and snapshots
together are bounded by `metadata.max.retention.bytes`, the age of a snapshot by `metadata.max.retention.ms`;
the newest snapshot always stays, and so does what is behind it.

Entered at each snapshot and once a minute (`kraftd.runtime.log_cleaner`). Not here: the cut
(`kraftd.storage`, D-22). It is apart from `snapshot_points`, short as both are: points are the same on all
nodes, what is kept is each one's own.
Follows: Kafka's KafkaMetadataLog.maybeClean (CLN-02 to CLN-05).
Differs: Kafka takes its snapshots away one by one, each with a cut of its own, and whoever downloads one
begins anew. Here there is one cut, and what is leased is not cut: by voters never, by observers as long as
what stays for them is no more than is kept anyway.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from kraftd.types import Offset, OffsetAndEpoch


class KeptSnapshot(msgspec.Struct, frozen=True):
    """A whole snapshot that is here."""

    id: OffsetAndEpoch
    size_bytes: int
    last_contained_timestamp_ms: int


class Retention(msgspec.Struct, frozen=True):
    """The bounds; negative for none."""

    size_bytes: int
    age_ms: int

    def is_exceeded_by(self, size_bytes: int, age_ms: int) -> bool:
        """Whether the oldest snapshot has to go: for the size of everything, or for its age."""
        return 0 <= self.size_bytes < size_bytes or 0 <= self.age_ms < age_ms


class LeasedSnapshots(msgspec.Struct, frozen=True):
    """The snapshots that are downloaded; each stays, and so does the log behind it."""

    voters: frozenset[OffsetAndEpoch] = frozenset()
    observers: frozenset[OffsetAndEpoch] = frozenset()
    """These stay only as long as they hold no more than they may (`choose_start`)."""


def choose_start(
    snapshots: Sequence[KeptSnapshot],
    segments: Sequence[tuple[Offset, int]],
    retention: Retention,
    now_ms: int,
    *,
    safe_offset: Offset,
    leased: LeasedSnapshots,
) -> OffsetAndEpoch | None:
    """Choose the snapshot at whose end the log is to begin.

    Args:
        snapshots: Oldest first.
        segments: Base offset and size in bytes of each segment, oldest first.
        retention: The bounds.
        now_ms: The wall clock.
        safe_offset: Up to where the log is both flushed and applied.
        leased: What replicas download now: it stays, and the log behind it; but what stays for observers
            alone is no more than `retention.size_bytes`, else the oldest of it goes (D-24).

    Returns:
        Its id; None if nothing is to go.
    """
    cut_at_most = min([safe_offset, *(snapshot_id.offset for snapshot_id in leased.voters)])
    start = _choose(snapshots, segments, retention, now_ms, cut_at_most)
    needed_bytes = _bytes_from(start, snapshots, segments)
    for oldest in sorted(snapshot_id.offset for snapshot_id in leased.observers):
        earlier = _choose(snapshots, segments, retention, now_ms, min(cut_at_most, oldest))
        held_bytes = _bytes_from(earlier, snapshots, segments) - needed_bytes
        if retention.size_bytes < 0 or held_bytes <= retention.size_bytes:
            return earlier
    return start


def _choose(
    snapshots: Sequence[KeptSnapshot],
    segments: Sequence[tuple[Offset, int]],
    retention: Retention,
    now_ms: int,
    cut_at_most: Offset,
) -> OffsetAndEpoch | None:
    chosen = None
    for oldest, following in pairwise(snapshots):
        size_bytes = _bytes_from(chosen, snapshots, segments)
        age_ms = now_ms - oldest.last_contained_timestamp_ms
        if not retention.is_exceeded_by(size_bytes, age_ms) or following.id.offset > cut_at_most:
            break
        chosen = following.id
    return chosen


def _bytes_from(
    start: OffsetAndEpoch | None,
    snapshots: Sequence[KeptSnapshot],
    segments: Sequence[tuple[Offset, int]],
) -> int:
    """How much log and snapshots hold if the log begins there; None: where it begins now."""
    offset = 0 if start is None else start.offset
    return sum(each.size_bytes for each in snapshots if each.id.offset >= offset) + _kept_bytes(
        segments, offset
    )


def _kept_bytes(segments: Sequence[tuple[Offset, int]], start_offset: Offset) -> int:
    """How much of the log stays: only whole segments go, and the last one never does (CLN-07)."""
    bases = [base_offset for base_offset, _ in segments]
    ends = [*bases[1:], start_offset + 1]
    return sum(size_bytes for end, (_, size_bytes) in zip(ends, segments, strict=True) if end > start_offset)
