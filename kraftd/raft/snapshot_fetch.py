"""The follower's side of FetchSnapshot: download a snapshot, and put it in the place of the log.

It begins when the leader answers a fetch with a snapshot's id, because the log there does not reach back to
where this node stands. One piece is asked for at a time, and the next one when it is written; meanwhile
nothing else is fetched, unless the leader has to be looked for. Behind the last piece the snapshot is proved,
and has its name (D-20); then it takes the place of the log (D-21), the state machine loads it, and the next
fetch asks for what follows. If no leader is followed just then, that is done at the next offer, though it be
of a newer one: the leader has the log behind it, maybe, and each brings this node further.

What is written stays when a connection breaks or a leader is lost. Whoever leads by the next fetch is asked
for the rest, though it offers a newer snapshot by now. On a network that fails every few seconds, with a new
snapshot every few seconds, who changed to the newest would begin anew for ever. The leader keeps what a voter
downloads, and the log behind it (`snapshot_leases`); what it has no more it says, and the newest is begun.

A leader that did not send the last piece, in this epoch, compares what is here with its own file: so a
snapshot is never made of two. It reads all of that before it answers. Where this outlasts the fetch timeout
twice, in one piece or in those that broken connections leave of it, the newest is begun, which needs no
comparison. Else it would be asked for again and again.

A piece that does not come in time is asked for again by half (KAFKA-19541), also of a newer snapshot then:
on a slow link a whole one would outlast the fetch timeout each time.

Entered by `FollowerRole`. Follows: FRSP-08 to FRSP-10, SF-08 to SF-15; D-14, D-20, D-21.
Differs: what a leader answers ends no process (SF-14, SF-15). Kafka begins anew after each loss of the leader
(SF-11), and with the newest snapshot.
"""

from crc32c import crc32c

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import snapshot_rpc
from kraftd.raft.effects import LoadSnapshot, RememberStateHealth, WriteSnapshot
from kraftd.raft.epoch_states import Follower, Unattached
from kraftd.raft.events import SnapshotReceived
from kraftd.raft.follower_state import Download
from kraftd.raft.request_manager import RequestKind, Sent
from kraftd.raft.snapshot_rpc import FetchSnapshotParams
from kraftd.raft.state import RaftState
from kraftd.raft.timing import LONG_BACKOFF_MS
from kraftd.raft.truncation import Truncation
from kraftd.types import NEVER_MS, NO_NODE, HealthKind, Now, OffsetAndEpoch, ReplicaKey

CHUNK_BYTES_MIN = 4 * 1024
"""The least that is asked for at once."""

_GROWS_AFTER = 16
"""After so many pieces in a row, twice as much is asked for again."""

_LATE_COMPARISONS_MAX = 2
"""After so many comparisons that outlasted the fetch timeout, the newest snapshot is begun."""

_ALARM = "snapshot_not_received"


class SnapshotFetch:
    """Downloads and installs snapshots."""

    def __init__(self, raft: RaftState, truncation: Truncation) -> None:
        self.raft = raft
        self._truncation = truncation
        self._chunk_bytes = raft.snapshot_chunk_bytes
        """How much is asked for at once; halved each time that no response comes."""
        self._good_pieces = 0
        """How many came since the last one that did not."""

    # --- the download -----------------------------------------------------------------------------------

    def on_offered(self, sent: Sent, offered: OffsetAndEpoch, now: Now) -> bool:
        """Begin to download the snapshot that the leader offers, or go on.

        Returns:
            Whether the response is that of a good fetch: it feeds the fetch timer, and the caller fetches
            on. False if the offer makes no sense (FRSP-10): without a better one the leader is lost.
        """
        raft = self.raft
        if min(offered.offset, offered.epoch) < 0 or offered.epoch > raft.epoch:
            raft.warn("bad_response", f"leader {sent.to} offers a snapshot at {offered}")
            raft.requests.back_off(sent.to, RequestKind.FETCH, now.mono_ms)
            return False
        # Nodes 1 and 3 lost their disks, and one of them leads with a younger log and a snapshot of it: node
        # 2 would replace the last copy of what is committed.
        if offered.offset <= raft.high_watermark:
            self._truncation.reject_leader(
                f"it offers a snapshot that ends at {offered.offset}, but ours is committed up to "
                f"{raft.high_watermark}"
            )
            return True
        if (whole := self._whole(offered)) is not None:
            self._install(whole)
            return True
        download = raft.download
        if download is None or not self._goes_on(download, offered):
            self._begin(offered)
        elif not raft.follower_state.is_fetching_snapshot:
            download.compared_since_ms = -1  # the leader of before is not listened to any more
        raft.follower_state.is_fetching_snapshot = True
        return True

    def _begin(self, offered: OffsetAndEpoch) -> None:
        """Begin to download a snapshot, in the place of another one, whose piece is not expected any more."""
        # Over a link of 300 KB/s a piece of a mebibyte outlasts the fetch timeout, and a leader that takes
        # many writes has a newer snapshot by then: if each began with a whole piece, none would ever come.
        raft = self.raft
        if raft.download is not None and raft.download.is_unanswered:
            self._halve()
        raft.drop_download()
        raft.requests.forget(RequestKind.FETCH_SNAPSHOT)
        raft.download = Download(offered)

    def _halve(self) -> None:
        self._chunk_bytes, self._good_pieces = max(CHUNK_BYTES_MIN, self._chunk_bytes // 2), 0

    def _whole(self, offered: OffsetAndEpoch) -> OffsetAndEpoch | None:
        """Return the newest snapshot that is here, brings this node further and leads to what is offered; or
        None. It was proved and named while a leader was lost, and not installed then (FRSP-09).
        """
        log, high_watermark = self.raft.log, self.raft.high_watermark
        if offered in log.snapshots:
            return offered
        # What a snapshot holds is committed, so an older one begins what a newer one holds. But node 3 has
        # acknowledged records up to 150 since it got the one that ends at 100: with less in its log it would
        # vote for node 2, which has 120, and what nodes 1 and 3 had committed would be lost.
        usable = [
            each
            for each in log.snapshots
            if high_watermark < each.offset < offered.offset
            and log.position.log_order < each.log_order <= offered.log_order
        ]
        return usable[-1] if usable else None

    def _goes_on(self, download: Download, offered: OffsetAndEpoch) -> bool:
        """Return whether to go on with a download when the leader offers this snapshot."""
        if download.id == offered:
            return True
        is_older = download.id.offset < offered.offset and download.id.epoch <= offered.epoch
        return is_older and download.position > 0 and download.id.offset > self.raft.high_watermark

    def fetch(self, now: Now) -> None:
        """Ask for the next piece, unless one is on its way or is being written."""
        raft = self.raft
        download, leader_id = raft.download, raft.leader_id
        if (
            download is None
            or download.writing_to >= 0
            or not raft.requests.is_ready(leader_id, RequestKind.FETCH_SNAPSHOT, now.mono_ms)
        ):
            return
        if download.is_unanswered:
            self._halve()
        is_compared = download.position > 0 and download.came_from != (raft.epoch, leader_id)
        download.is_unanswered = not is_compared
        if is_compared and download.compared_since_ms < 0:
            download.compared_since_ms = now.mono_ms
        replica_id = raft.me.id if raft.rejoin.is_whole else NO_NODE
        params = FetchSnapshotParams(
            ReplicaKey(replica_id, raft.me.directory_id),
            raft.epoch,
            download.id,
            download.position,
            self._chunk_bytes,
            download.checksum if is_compared else -1,
        )
        request = snapshot_rpc.request_of(raft.cluster_id, params)
        raft.send(leader_id, RequestKind.FETCH_SNAPSHOT, request, now.mono_ms)

    def wake_at_ms(self) -> int:
        """Return when the next piece can be asked for; NEVER_MS while one is written or on its way."""
        raft = self.raft
        if raft.download is None or raft.download.writing_to >= 0:
            return NEVER_MS
        return raft.requests.next_ready_ms((raft.leader_id,), RequestKind.FETCH_SNAPSHOT)

    def on_response(
        self, sent: Sent, error: int, response: m.FetchSnapshotResponse, records: bytes, now: Now
    ) -> bool:
        """Write a piece that came. Returns whether the leader answered well, so that it is not lost."""
        raft = self.raft
        download = raft.download
        if download is None or not raft.follower_state.is_fetching_snapshot:
            return False
        download.is_unanswered, download.compared_since_ms = False, -1
        data = response.topics[0].partitions[0]
        told = OffsetAndEpoch(data.snapshot_id.end_offset, data.snapshot_id.epoch)
        if error == ErrorCode.SNAPSHOT_NOT_FOUND or (not error and min(told.offset, told.epoch) < 0):
            # Cleaned, or not the file that was begun (SF-10). The next fetch tells what there is.
            self._pause(drop=True)
            return True
        if error:
            raft.requests.back_off(sent.to, RequestKind.FETCH, now.mono_ms)
            self._pause(drop=error == ErrorCode.POSITION_OUT_OF_RANGE)
            return False
        if problem := _problem_with(download, told, data, len(records)):
            raft.warn("bad_response", f"leader {sent.to} sent no piece of the snapshot: {problem}")
            raft.requests.back_off(sent.to, RequestKind.FETCH, now.mono_ms)
            self._pause(drop=True)
            return False
        if not records:
            # The leader has no room for another download yet.
            raft.requests.back_off(sent.to, RequestKind.FETCH_SNAPSHOT, now.mono_ms)
            return True
        self._write(download, records, data.size)
        return True

    def _write(self, download: Download, records: bytes, size_bytes: int) -> None:
        download.size_bytes = size_bytes
        download.came_from = (self.raft.epoch, self.raft.leader_id)
        download.compared_ms = download.late_comparisons = 0
        download.checksum = crc32c(records, download.checksum)
        download.writing_to = download.position + len(records)
        self._good_pieces += 1
        if self._good_pieces % _GROWS_AFTER == 0:
            self._chunk_bytes = min(self.raft.snapshot_chunk_bytes, 2 * self._chunk_bytes)
        self.raft.out.append(WriteSnapshot(download.id, download.position, records, size_bytes))

    def on_failed(self, now: Now) -> None:
        """Go on with pieces of the same size: the connection broke.

        Where each one breaks before the leader has compared what is here, no comparison is late, and none
        ends. So those count together.
        """
        download = self.raft.download
        if download is None:
            return
        download.is_unanswered = False
        if download.compared_since_ms >= 0:
            download.compared_ms += now.mono_ms - download.compared_since_ms
            download.compared_since_ms = -1
            if download.compared_ms >= self.raft.timing.fetch_timeout_ms:
                self._record_late(download)

    def on_late(self, now: Now) -> None:
        """Note that nothing came for a fetch timeout. Where a comparison was waited for, for half of it at
        least, and not for the first time, give the download up: what the leader offers next is begun anew.
        """
        raft = self.raft
        download = raft.download
        if download is None or not raft.follower_state.is_fetching_snapshot or download.compared_since_ms < 0:
            return
        if 2 * (now.mono_ms - download.compared_since_ms) >= raft.timing.fetch_timeout_ms:
            download.compared_since_ms = -1
            self._record_late(download)

    def _record_late(self, download: Download) -> None:
        download.compared_ms = 0
        download.late_comparisons += 1
        if download.late_comparisons >= _LATE_COMPARISONS_MAX:
            self._pause(drop=True)

    def on_received(self, event: SnapshotReceived, now: Now) -> None:
        """Take note that a piece is written; behind the last one, install the snapshot."""
        raft = self.raft
        if event.is_whole:
            raft.log.add_snapshot(event.id)
        download = raft.download
        if download is None or download.id != event.id:
            return
        if event.problem:
            raft.download = None
            raft.follower_state.is_fetching_snapshot = False
            raft.alarm(_ALARM, f"snapshot {event.id.offset}-{event.id.epoch}: {event.problem}")
            raft.requests.back_off(raft.leader_id, RequestKind.FETCH, now.mono_ms, LONG_BACKOFF_MS)
        elif event.end_position == download.writing_to:
            download.position, download.writing_to = event.end_position, -1
            if event.is_whole:
                raft.download = None
                raft.follower_state.is_fetching_snapshot = False
                self._install(event.id)

    def abandon(self) -> None:
        """Give up the download: the leader's log serves this node after all."""
        if self.raft.download is not None:
            self._pause(drop=True)

    def _pause(self, *, drop: bool) -> None:
        """Fetch as usual, to be told what there is."""
        self.raft.follower_state.is_fetching_snapshot = False
        if drop:
            self.raft.drop_download()

    # --- in the place of the log ------------------------------------------------------------------------

    def _install(self, snapshot_id: OffsetAndEpoch) -> None:
        """Replace the log by a snapshot that has its name, and have it loaded (D-21)."""
        raft = self.raft
        # The last piece is written while node 2 campaigns: voters compared its old log with theirs, so it
        # keeps that. Once it follows again it is offered the same snapshot, and has it.
        if not isinstance(raft.state, Follower | Unattached) or snapshot_id.offset <= raft.high_watermark:
            return
        raft.follower_state.pending_truncation = None
        # A piece took longer than the fetch timeout, so observer 4 sent leader 1 a fetch, too. Its response
        # still offers this snapshot: for the new log that would mean that the leader lost records.
        raft.requests.forget(RequestKind.FETCH)
        raft.out.append(raft.log.install(snapshot_id))
        raft.mark_initialized()
        if raft.rejoin.record_log_replaced():
            raft.out.append(RememberStateHealth(HealthKind.AMNESIA, raft.rejoin.health.amnesia))
            # Node 2 got another disk, and connected while this one knew the former, and only its own log had
            # holes: it was doubted, and must be heard now. Who answers at a voter's address is that voter.
            raft.out.extend(raft.peers.accept_current_peers())
        raft.clear_alarm(_ALARM)
        raft.out.append(LoadSnapshot(snapshot_id))
        raft.commit(snapshot_id.offset)


def _problem_with(
    download: Download,
    told: OffsetAndEpoch,
    data: m.FetchSnapshotResponsePartitionSnapshot,
    length: int,
) -> str:
    """Return why a response is not about the piece that was asked for; empty if it is (SF-14)."""
    if (told, data.position) != (download.id, download.position):
        return f"position {data.position} of {told}, but {download.position} of {download.id} was asked for"
    if download.size_bytes not in (-1, data.size):
        return f"it has {data.size} bytes now, and had {download.size_bytes}"
    if data.position + length > data.size or data.position >= data.size:
        return f"{length} bytes at {data.position} are not within its {data.size}"
    return ""
