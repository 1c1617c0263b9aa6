"""How much of its past a node keeps: at which snapshot its log is to begin.

Pure: `choose_start` is told what there is and what must stay, and says where to cut. Log and snapshots
together are bounded by `metadata.max.retention.bytes`, the age of a snapshot by `metadata.max.retention.ms`;
the newest snapshot always stays, and so does what is behind it.

Entered once a minute (`kraftd.runtime.cleaner`). Not here: the cut (`kraftd.storage`, D-22).
Follows: Kafka's KafkaMetadataLog.maybeClean (CLN-02 to CLN-05).
Differs: Kafka takes its snapshots away one by one, each with a cut of its own, and whoever downloads one
begins anew. Here there is one cut, and what is leased is not cut.
"""

from collections.abc import Collection, Sequence

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


def choose_start(
    snapshots: Sequence[KeptSnapshot],
    segments: Sequence[tuple[Offset, int]],
    retention: Retention,
    now_ms: int,
    *,
    safe_offset: Offset,
    leased: Collection[OffsetAndEpoch] = (),
) -> OffsetAndEpoch | None:
    """Choose the snapshot at whose end the log is to begin.

    Args:
        snapshots: Oldest first.
        segments: Base offset and size in bytes of each segment, oldest first.
        retention: The bounds.
        now_ms: The wall clock.
        safe_offset: Up to where the log is both flushed and applied.
        leased: What replicas download now: it stays, and the log behind it.

    Returns:
        Its id; None if nothing is to go.
    """
    cut_at_most = min([safe_offset, *(snapshot_id.offset for snapshot_id in leased)])
    chosen = None
    for number in range(len(snapshots) - 1):
        oldest, following = snapshots[number], snapshots[number + 1]
        start_offset = oldest.id.offset if chosen is not None else 0
        size_bytes = sum(each.size_bytes for each in snapshots[number:]) + _kept_bytes(segments, start_offset)
        age_ms = now_ms - oldest.last_contained_timestamp_ms
        if not retention.is_exceeded_by(size_bytes, age_ms) or following.id.offset > cut_at_most:
            break
        chosen = following.id
    return chosen


def _kept_bytes(segments: Sequence[tuple[Offset, int]], start_offset: Offset) -> int:
    """How much of the log stays: only whole segments go, and the last one never does (CLN-07)."""
    bases = [base_offset for base_offset, _ in segments]
    ends = [*bases[1:], start_offset + 1]
    return sum(size_bytes for end, (_, size_bytes) in zip(ends, segments, strict=True) if end > start_offset)
