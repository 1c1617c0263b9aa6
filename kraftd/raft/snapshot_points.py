"""Where in the log snapshots are made, and which voter writes one when.

A point is the end of a committed batch. `SnapshotPoints` finds them as batches are applied, from nothing but
the log and the two bounds of the configuration: all nodes have theirs at the same offsets, across elections
and restarts (D-19). A node that has a snapshot goes on counting behind it.

One exception: node 2, whose snapshots all went bad, makes one of what it has applied, which is no point. It
goes on counting from the last point, but after a restart from this snapshot; and so does node 3 once it loads
it.

`write_delay_ms` spreads the writing without a message: the voters one after the other, the leader last.

It is a module of its own, short as it is, because all nodes have to come to the same points: what they follow
from stands here, and nothing else.

Not here: the image at a point, and the file (`kraftd.runtime.snapshotter`).
Follows: Kafka's SnapshotGenerator, for the bounds.
Differs: there the time since the last snapshot is the clock's, and each node counts from its own start, so
that every node has snapshots of its own.
"""

from collections.abc import Collection

import msgspec

from kraftd.records.committed import CommittedBatch
from kraftd.types import NodeId, OffsetAndEpoch

SHORTEST_TURN_MS = 1_000
"""How long a voter leaves the others alone at least, however short the last write was."""

_UNKNOWN_MS = -1


class SnapshotPoint(msgspec.Struct, frozen=True):
    """The end of a batch, at which the state is written down."""

    id: OffsetAndEpoch
    """The offset after the last record that the snapshot contains, and that record's epoch."""
    last_contained_timestamp_ms: int


class SnapshotPoints:
    """Counts what was applied since the last point."""

    def __init__(self, bytes_max: int, interval_ms: int, last: SnapshotPoint | None = None) -> None:
        """Begin behind the newest snapshot.

        Args:
            bytes_max: `metadata.log.max.record.bytes.between.snapshots`.
            interval_ms: `metadata.log.max.snapshot.interval.ms`, by the timestamps of batches; 0 for never.
            last: The newest snapshot, None if there is none.
        """
        self._bytes_max, self._interval_ms = bytes_max, interval_ms
        self._offset, self._since_ms, self._bytes = 0, _UNKNOWN_MS, 0
        if last is not None:
            self.skip_to(last)

    def skip_to(self, last: SnapshotPoint) -> None:
        """Count behind a snapshot that was loaded, unless the last point is behind it."""
        if last.id.offset > self._offset:
            self._offset, self._since_ms, self._bytes = last.id.offset, last.last_contained_timestamp_ms, 0

    @property
    def why_not_due(self) -> str:
        """How far the next point is, in words."""
        after = f", and less than {self._interval_ms} ms" if self._interval_ms else ""
        return f"{self._bytes} of {self._bytes_max} bytes of log{after}"

    def is_due(self, batch: CommittedBatch) -> bool:
        """Count a batch. Returns whether its end is to be a point, if a snapshot can be made there."""
        if batch.end_offset <= self._offset:
            return False
        self._bytes += batch.size_bytes
        if self._since_ms == _UNKNOWN_MS:
            self._since_ms = batch.timestamp_ms
        if self._bytes >= self._bytes_max:
            return True
        return 0 < self._interval_ms <= batch.timestamp_ms - self._since_ms

    def take(self, batch: CommittedBatch) -> SnapshotPoint:
        """Make the end of a batch a point, and count from there."""
        self._offset, self._since_ms, self._bytes = batch.end_offset, batch.timestamp_ms, 0
        return end_of(batch)


def end_of(batch: CommittedBatch) -> SnapshotPoint:
    """Where a snapshot of all up to this batch would be."""
    return SnapshotPoint(OffsetAndEpoch(batch.end_offset, batch.epoch), batch.timestamp_ms)


def write_delay_ms(me: NodeId, voter_ids: Collection[NodeId], last_write_ms: int, *, is_leader: bool) -> int:
    """How long after a point a node begins to write, by how long its last write took.

    Node 1 begins at once, node 2 when node 1 should have ended, node 3 after that; whoever leads comes after
    all of them, and so does an observer.
    """
    others_first = is_leader or me not in voter_ids
    place = len(voter_ids) if others_first else sorted(voter_ids).index(me)
    return place * max(last_write_ms, SHORTEST_TURN_MS)
