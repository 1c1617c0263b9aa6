"""Where a follower's log leaves its leader's, and truncating it there.

Entered by `FollowerRole`, which fetches again afterwards. What would truncate committed records is not done:
the leader that asks for it is not followed any more (D-14). It is a module of its own, short as it is,
because nothing else truncates a log.

Follows: FRSP-05, D-14, D-15.
"""

from kraftd.raft.effects import ColdRead
from kraftd.raft.epoch_states import Follower
from kraftd.raft.events import BatchesRead
from kraftd.raft.request_manager import RequestKind
from kraftd.raft.state import RaftState
from kraftd.raft.timing import LONG_BACKOFF_MS
from kraftd.records.batch import BatchView
from kraftd.types import Now, Offset, OffsetAndEpoch


class Truncation:
    """Truncates the log of a follower."""

    def __init__(self, raft: RaftState) -> None:
        self.raft = raft

    def on_diverging(self, theirs: OffsetAndEpoch, now: Now) -> bool:
        """Find where the logs diverge and truncate there (FRSP-05), never below what is committed (D-14).
        Returns whether the log was truncated.
        """
        raft = self.raft
        log = raft.log
        ours = log.end_of(theirs.epoch)
        # Node 2 holds epoch 1 up to 10 and epoch 2 up to 15, and asks at offset 15 after epoch 2. The leader
        # holds epoch 1 up to 12, then epoch 3: it answers that epoch 1 ends at 12, the latest epoch that it
        # holds up to 2. Our epoch 1 ends at 10, before that, so the logs are alike up to 10, and the next
        # fetch asks at offset 10 after epoch 1. Had ours ended at 14, we would truncate to 12. Epoch 0 is
        # that of no record. A leader names it if its log has no epoch to compare, and ours has no end of that
        # epoch either: the offset alone counts.
        if theirs.epoch == 0:
            target = min(theirs.offset, log.end_offset)
        else:
            target = min(ours.offset, theirs.offset) if ours.epoch == theirs.epoch else ours.offset
        # Raft never asks for this, but lost disks do. Nodes 1 and 3 lost theirs, and one of them leads with
        # an empty log: to follow it, node 2 would delete the last copy of the committed records.
        if target < raft.high_watermark or log.start_offset == log.end_offset > 0:
            # With nothing behind the snapshot that a log begins with, it is the snapshot that differs.
            self.reject_leader(
                f"its log leaves ours at {target}, but ours is committed up to {raft.high_watermark}"
            )
            return False
        boundary = log.boundary_at_most(target)
        if boundary is None:
            # The boundary is no longer in memory: batches of 5 records end at 10, 15 and 20, and the logs
            # part at 12. Only the disk knows that the batch with record 11 begins at 10: truncate to there.
            token = raft.new_token()
            raft.follower_state.pending_truncation = (token, target)
            raft.out.append(ColdRead(token, log.generation, target - 1, 1))
            return False
        return self._truncate(boundary, now)

    def on_batches_read(self, event: BatchesRead, now: Now) -> bool:
        """Truncate at the boundary that a cold read found, unless log or state changed meanwhile (D-15).
        Returns whether the log was truncated.
        """
        raft = self.raft
        pending_truncation = raft.follower_state.pending_truncation
        if pending_truncation is None or pending_truncation[0] != event.token:
            return False
        raft.follower_state.pending_truncation = None
        if event.generation != raft.log.generation or not isinstance(raft.state, Follower):
            return False
        if not event.records:
            raft.requests.back_off(raft.leader_id, RequestKind.FETCH, now.mono_ms, LONG_BACKOFF_MS)
            return False
        batch = BatchView(event.records)
        whole = batch.end_offset <= pending_truncation[1]
        return self._truncate(batch.end_offset if whole else batch.base_offset, now)

    def _truncate(self, end_offset: Offset, now: Now) -> bool:
        raft = self.raft
        if end_offset == raft.log.end_offset and not raft.log.epochs.begins_at(end_offset):
            # Nothing would go: the next response would be this one, at the speed of the network.
            raft.warn(
                "bad_response", f"leader {raft.leader_id} says that our log leaves its own where it ends"
            )
            raft.requests.back_off(raft.leader_id, RequestKind.FETCH, now.mono_ms)
            return False
        if end_offset < raft.high_watermark:
            self.reject_leader(
                f"it truncates ours to {end_offset}, but ours is committed up to {raft.high_watermark}"
            )
            return False
        raft.out.append(raft.log.truncate(end_offset))
        raft.flush()
        return True

    def reject_leader(self, why: str) -> None:
        """Stop following this leader in this epoch, and raise an alarm (D-14)."""
        raft = self.raft
        raft.rejected_leader = (raft.epoch, raft.leader_id)
        raft.rejection = why
        raft.alarm("diverged_below_high_watermark", f"leader {raft.leader_id} of epoch {raft.epoch}: {why}")
