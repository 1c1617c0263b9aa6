"""What a raft node does about snapshots when something becomes of a file, and where its log may be cut.

Entered by `RaftNode` with the events of the workers, of the snapshotter and of the cleaner; the parts that
serve and load snapshots do the rest (`snapshot_serving`, `snapshot_fetch`). It is a module of its own, short
as it is, because both of these, and what a leader leases, meet here alone. D-21, D-22.
"""

from typing import TypeAlias

from kraftd.raft.events import CutRequested, SnapshotDamaged, SnapshotRead, SnapshotReceived, SnapshotTaken
from kraftd.raft.follower import FollowerRole
from kraftd.raft.leader_state import LeaderState
from kraftd.raft.retention import LeasedSnapshots
from kraftd.raft.snapshot_serving import SnapshotServing
from kraftd.raft.state import RaftState
from kraftd.types import Now

SnapshotEvent: TypeAlias = SnapshotRead | SnapshotReceived | SnapshotTaken | SnapshotDamaged | CutRequested


class Snapshots:
    """The snapshots of one node."""

    def __init__(self, raft: RaftState, serving: SnapshotServing, follower: FollowerRole) -> None:
        self.raft = raft
        self._serving = serving
        self._follower = follower

    def on_event(self, event: SnapshotEvent, now: Now) -> None:
        """Handle an event of a snapshot's file, or of the cleaner."""
        match event:
            case SnapshotRead():
                self._serving.on_read(event, now)
            case SnapshotReceived():
                self._follower.on_snapshot_received(event, now)
            case SnapshotTaken(id=snapshot_id):
                self.raft.log.add_snapshot(snapshot_id)
            case SnapshotDamaged(id=snapshot_id):
                self.raft.log.forget_snapshot(snapshot_id)
            case CutRequested():
                self._cut_log(event, now)

    def poll(self, leader_state: LeaderState, now: Now) -> None:
        """Go on with observers that wait until others have loaded theirs."""
        if leader_state.snapshot_slots.is_waiting:
            self._serving.poll(leader_state, now)

    def leased(self, now_ms: int) -> LeasedSnapshots:
        """Return the snapshots that replicas download from here."""
        leader_state = self.raft.leader_state
        return LeasedSnapshots() if leader_state is None else leader_state.leases.leased(now_ms)

    def _cut_log(self, event: CutRequested, now: Now) -> None:
        """Begin the log at a snapshot's end, if it is here and nobody needs what is before it (D-22)."""
        raft, log, start = self.raft, self.raft.log, event.start
        is_within = log.start_offset < start.offset <= min(log.flushed_offset, raft.applied_offset)
        if not is_within or start not in log.snapshots:
            return
        # Node 3 downloads the snapshot that ends at 100, and needs what is behind it next.
        leased = self.leased(now.mono_ms)
        needed = leased.voters if event.ends_observers_leases else leased.voters | leased.observers
        if any(snapshot_id.offset < start.offset for snapshot_id in needed):
            return
        raft.out.append(log.cut_front(start))
        if raft.leader_state is not None:
            raft.leader_state.leases.forget_before(start.offset)
