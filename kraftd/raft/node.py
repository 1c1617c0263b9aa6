"""One raft node, without a clock, sockets or files of its own.

The driver tells it what happened (`handle`) and that time has passed (`poll`), and carries out the effects
that come back, in order, before it calls again. Nothing here awaits, so what is true at the top of a method
is still true at the bottom. Nothing but `InvariantError` is raised: a fault of a peer comes back as an effect
or a response, like everything else (D-14).

`poll` is called in each turn of the loop, after everything that was ready has been handled, and again if that
brings new events: it drains the accumulator, sends what is due, and moves on from state to state where timers
demand it. After it, `wake_at_ms` lies in the future, always (D-01).

A stalled process: a turn that comes more than 200 ms after `wake_at_ms` shows that the process stood still.
Messages that came meanwhile may still lie in the sockets, so the timers of fetch, election and requests wait
for one more turn; check-quorum does not, because the others did not stand still (D-01).

The parts: `elections`, `leader`, `replication`, `snapshot_serving`, `follower`, `announcements`,
`resignation` and `claims` act; `state` is what they share; `state_changes` makes the changes of state;
`epoch_states` says what a state is, and what may follow it.

It is long because every event of the quorum passes here: who is called for which, and in which order.

Not here: the log on disk, names and sockets, the state machine (`kraftd.runtime`).
"""

from collections.abc import Sequence

from kraftd.errors import ErrorCode, InvariantError
from kraftd.protocol import messages as m
from kraftd.raft import events as e
from kraftd.raft import rpc, status
from kraftd.raft.announcements import Announcements
from kraftd.raft.claims import Claims
from kraftd.raft.effects import Effect, LearnEndpoint
from kraftd.raft.elections import Elections
from kraftd.raft.epoch_states import (
    Candidate,
    EpochState,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
    state_name,
)
from kraftd.raft.follower import FollowerRole
from kraftd.raft.leader import LeaderRole
from kraftd.raft.log_mirror import FETCH_BYTES_MAX, SNAPSHOT_CHUNK_BYTES, TAIL_BYTES_MAX, LogMirror, OpenedLog
from kraftd.raft.probing import Probing
from kraftd.raft.quorum_requests import QuorumRequests
from kraftd.raft.rejoin import StateHealth
from kraftd.raft.replication import Replication
from kraftd.raft.request_manager import RequestKind, Sent
from kraftd.raft.resignation import Resignation
from kraftd.raft.retention import LeasedSnapshots
from kraftd.raft.snapshot_serving import SnapshotServing
from kraftd.raft.snapshots import Snapshots
from kraftd.raft.state import RaftState
from kraftd.raft.state_changes import StateChanges, election_to_rely_on, initial_state, report_health
from kraftd.raft.timing import STALL_MS, RandomSource, Timing
from kraftd.raft.voters import VoterSet
from kraftd.types import (
    NEVER_MS,
    Election,
    Endpoint,
    Epoch,
    NodeId,
    Now,
    Offset,
    OffsetAndEpoch,
    PeerIdentity,
    ReplicaKey,
)

__all__ = ["OpenedLog", "RaftNode"]

_TRANSITIONS_A_TURN_MAX = 8


class RaftNode:
    """A voter or an observer. See the module for how it is driven."""

    def __init__(
        self,
        *,
        me: ReplicaKey,
        cluster_id: str,
        voters: VoterSet,
        log: OpenedLog,
        election: Election,
        timing: Timing,
        random_source: RandomSource,
        health: StateHealth,
        known_peers: Sequence[PeerIdentity],
        advertised: Endpoint,
        bootstrap: Sequence[Endpoint] = (),
        uncommitted_bytes_max: int = 32 * 1024 * 1024,
        tail_bytes: int = TAIL_BYTES_MAX,
        fetch_bytes: int = FETCH_BYTES_MAX,
        snapshot_chunk_bytes: int = SNAPSHOT_CHUNK_BYTES,
    ) -> None:
        mirror = LogMirror(log, tail_bytes, fetch_bytes)
        self._committed_before = log.high_watermark
        self._raft = raft = RaftState(
            me=me,
            cluster_id=cluster_id,
            voters=voters,
            log=mirror,
            initial=Unattached(election.epoch, NEVER_MS, election.leader_id, election.voted),
            persisted=election,
            timing=timing,
            random_source=random_source,
            health=health,
            known_peers=known_peers,
            advertised=advertised,
            bootstrap=bootstrap,
            uncommitted_bytes_max=uncommitted_bytes_max,
            snapshot_chunk_bytes=min(snapshot_chunk_bytes, fetch_bytes),
        )
        self._claims = Claims(raft)
        self._changes = StateChanges(raft)
        self._elections = Elections(raft, self._changes)
        self._replication = Replication(raft)
        serving = SnapshotServing(raft, self._replication)
        self._leader = LeaderRole(raft, self._changes, self._replication)
        self._follower = FollowerRole(raft, self._changes)
        self._probing = Probing(raft)
        self._snapshots = Snapshots(raft, serving, self._follower)
        self._requests = QuorumRequests(raft, self._elections, Announcements(raft, self._changes), serving)
        self._resignation = Resignation(raft, self._changes)
        self._stored = election
        self._due_ms = NEVER_MS
        self._is_idle = False
        """Whether nothing is left to do before `_due_ms`: a poll until then returns at once."""
        self._not_before_ms = 0
        self._is_started = False

    # --- driving ----------------------------------------------------------------------------------------

    def start(self, now: Now) -> list[Effect]:
        """Begin from what the last process left behind (QS-01 to QS-12). Called once, first; returns its
        effects.
        """
        raft = self._raft
        if self._is_started:
            raise InvariantError("a node starts once")
        self._is_started = True
        for voter in raft.quorum.voters:
            if voter.id != raft.me.id:
                raft.out.append(LearnEndpoint(voter.id, voter.endpoint))
        for node_id, endpoint in raft.learned.items():
            raft.out.append(LearnEndpoint(node_id, endpoint))
        stored = election_to_rely_on(raft, self._stored)
        report_health(raft, stored)
        # First, so that the node knows how far behind it is: others may be fitter to lead (D-23).
        raft.commit(self._committed_before)
        raft.update_state(initial_state(raft, stored, now))
        if raft.rejoin.health.uninitialized or raft.epoch > self._stored.epoch:
            raft.persist_anyway()
        if isinstance(raft.state, Follower | Unattached):
            raft.notify_leader_change(status.known_leader(raft))
        if raft.may_vote and not raft.quorum.others and isinstance(raft.state, Unattached):
            self._changes.become_prospective(now, "the only voter")
        self._turn(now, timeouts_deferred=False)
        return raft.finish()

    def handle(self, event: e.Event, now: Now) -> list[Effect]:
        """Handle one event. Returns its effects, in order."""
        raft = self._raft
        match event:
            case e.AppendRequested():
                self._leader.on_append(event, now)
            case e.RequestReceived(request=m.FetchRequest() as request):
                self._on_fetch(event, request, now)
                return raft.finish()
            case e.LogFlushed():
                self._on_flushed(event, now)
                return raft.finish() if raft.out else []
            case e.Applied():
                raft.applied_offset, raft.is_stuck = max(raft.applied_offset, event.offset), False
                self._leader.on_applied()
                if not raft.out:  # no deadline comes of it, and nothing waits for it but reads
                    return []
            case _:
                self._handle_rare(event, now)
        self._is_idle = False
        return raft.finish() if raft.out else []

    def _handle_rare(self, event: e.Event, now: Now) -> None:
        raft = self._raft
        match event:
            case e.ResponseReceived():
                self._forgive_own_stall(event.sender, now)
                self._on_response(event, now)
            case e.RequestReceived():
                if event.peer is not None:
                    self._forgive_own_stall(event.peer.node_id, now)
                self._requests.on_request(event, now)
            case e.ReadRequested():
                self._leader.on_read(event)
            case e.RequestFailed():
                self._on_failed(event, now)
            case e.NonceGiven() | e.LinkAnswered() | e.PeerClaimed() | e.NonceShown() | e.PeerIdentified():
                self._claims.on_event(event, now)
            case e.ConnectionClosed():
                self._follower.on_connection_closed(event, now)
                raft.peers.close(event.connection)
                self._claims.on_closed(event.connection)
            case e.BatchesRead():
                if not self._replication.on_batches_read(event):
                    self._follower.on_batches_read(event, now)
            case (
                e.SnapshotRead()
                | e.SnapshotReceived()
                | e.SnapshotTaken()
                | e.SnapshotDamaged()
                | e.CutRequested()
            ):
                self._snapshots.on_event(event, now)
            case e.LogDamaged() | e.ApplyStuck() | e.ResignRequested() | e.ShutdownRequested():
                self._resignation.on_event(event, now)
            case unknown:
                raise InvariantError(f"no event of the quorum: {unknown}")

    def poll(self, now: Now) -> list[Effect]:
        """Do what is due by now, and what this turn's events left to do. Returns the effects, in order."""
        raft = self._raft
        late_ms = now.mono_ms - self._due_ms
        if self._is_idle and late_ms < 0:
            return []
        # The timers wait for one more turn only: if every turn is late, they must still fire.
        timeouts_deferred = late_ms > STALL_MS and not self._not_before_ms
        if timeouts_deferred:
            raft.warn("stall", f"this turn came {late_ms} ms late")
        self._turn(now, timeouts_deferred=timeouts_deferred)
        return raft.finish()

    def _turn(self, now: Now, *, timeouts_deferred: bool) -> None:
        raft = self._raft
        for sent in () if timeouts_deferred else raft.requests.expire(now.mono_ms):
            self._elections.on_vote_failed(sent, "no response in time", now)
        for _ in range(_TRANSITIONS_A_TURN_MAX):
            state = raft.state
            self._poll_state(state, now, timeouts_deferred=timeouts_deferred)
            if type(raft.state) is type(state) and raft.state.epoch == state.epoch:
                break
        else:
            raise InvariantError(f"{state_name(raft.state)} of epoch {raft.epoch} finds no rest")
        self._probing.poll(now)
        self._resignation.poll_stopping(now)
        if self._claims.waiting:
            self._claims.poll(now)
        self._not_before_ms = now.mono_ms + 1 if timeouts_deferred else 0
        self._is_idle = False
        self._due_ms = self.wake_at_ms
        self._is_idle = True
        if self._due_ms <= now.mono_ms:
            raise InvariantError(f"{raft.state} would be polled for ever: due at {self._due_ms}, {now}")

    def _poll_state(self, state: EpochState, now: Now, *, timeouts_deferred: bool) -> None:
        match state:
            case Leader():
                self._leader.poll(now)
                if leader_state := self._raft.leader_state:
                    self._snapshots.poll(leader_state, now)
                    self._resignation.poll_handover(leader_state, now)
            case Follower():
                self._follower.poll_follower(state, now, timeouts_deferred=timeouts_deferred)
                self._elections.poll_suspicion(now, timeouts_deferred=timeouts_deferred)
            case Prospective():
                self._elections.poll_prospective(state, now, timeouts_deferred=timeouts_deferred)
            case Candidate():
                self._elections.poll_candidate(state, now, timeouts_deferred=timeouts_deferred)
            case Unattached():
                self._elections.poll_unattached(state, now, timeouts_deferred=timeouts_deferred)
                self._follower.poll_unattached(now)
            case Resigned():
                self._resignation.poll_resigned(state, now, timeouts_deferred=timeouts_deferred)

    @property
    def is_idle(self) -> bool:
        """Whether `poll` has nothing to do before `wake_at_ms`; else it must be called in this turn."""
        return self._is_idle

    @property
    def wake_at_ms(self) -> int:
        """The monotonic time at which `poll` must be called next, unless an event comes before."""
        if self._is_idle:
            return self._due_ms
        raft = self._raft
        if raft.leader_state is not None:
            part_ms = self._leader.wake_at_ms(raft.leader_state)
        else:
            part_ms = min(self._elections.wake_at_ms(), self._follower.wake_at_ms())
        wake_at_ms = min(
            part_ms,
            self._resignation.wake_at_ms(),
            self._probing.wake_at_ms(),
            self._claims.wake_at_ms() if self._claims.waiting else NEVER_MS,
            raft.requests.next_timeout_ms(),
        )
        return max(self._not_before_ms, wake_at_ms)

    # --- events -----------------------------------------------------------------------------------------

    def _on_fetch(self, event: e.RequestReceived, request: m.FetchRequest, now: Now) -> None:
        """Serve a fetch. A leader that parks it has nothing else to do before the fetch's own deadlines."""
        raft = self._raft
        fetch = rpc.read_fetch(request, event.version, raft.cluster_id)
        if isinstance(fetch, ErrorCode):
            raft.reply(event.handle, rpc.refusal(request, fetch))
            return
        self._replication.on_fetch(event, fetch, now)
        self._stay_idle()

    def _stay_idle(self) -> None:
        """Leave a leader idle that was told what a replica, or its own disk, holds: it only may have to
        answer fetches sooner. A hand-over may be due by it, without a deadline; so may whatever else a node
        does that does not lead.
        """
        leader_state = self._raft.leader_state
        if leader_state is None or leader_state.handover is not None:
            self._is_idle = False
        else:
            self._due_ms = min(self._due_ms, leader_state.next_response_ms())

    def _forgive_own_stall(self, sender: NodeId, now: Now) -> None:
        """Before the leader is heard: if this turn is late itself, the leader was not silent for so long."""
        # Node 2 stood still for 700 ms. What leader 1 sent waited in the socket and is handled before the
        # poll finds this turn late: as a gap of leader 1 it would make S two seconds for a minute (D-40).
        if sender == self._raft.leader_id and now.mono_ms - self._due_ms > STALL_MS:
            self._raft.suspicion.on_stalled(now.mono_ms)

    def _on_response(self, event: e.ResponseReceived, now: Now) -> None:
        """Handle a response: check that it is expected, its shape, its error and its epoch, in this order,
        then pass it to the part that sent the request (REQ-02).
        """
        raft = self._raft
        sent = raft.requests.take(event.sender, event.correlation_id)
        # A vote for epoch 4 arrives when this node is a candidate of epoch 5. No response to that request is
        # expected any more: counted now, it could elect a leader of epoch 5 without a majority.
        if sent is None:
            return
        header = rpc.read_response(event.response)
        if header is None or not rpc.matches_request(sent.kind, event.response):
            self._reject(sent, "a response of the wrong shape", now)
            return
        if header.top_error:
            self._reject(sent, f"error {header.top_error}", now)
            return
        if not raft.is_plausible_epoch(header.leader_and_epoch.epoch):
            self._reject(sent, f"it speaks of epoch {header.leader_and_epoch.epoch}", now)
            return
        self._probing.on_response(sent, header)
        # A pre-vote opens no epoch at the voter (D-07): node 2, in epoch 4, grants node 3 one for epoch 5 and
        # may still name epoch 4. The ballot goes by epoch and round of the request.
        is_old = header.leader_and_epoch.epoch < raft.epoch and sent.kind is not RequestKind.PRE_VOTE
        if is_old or header.error == ErrorCode.UNKNOWN_LEADER_EPOCH:
            raft.requests.back_off(sent.to, sent.kind, now.mono_ms, self._follower.failure_backoff_ms(sent))
            return
        epoch = raft.epoch
        self._changes.observe_epoch(header.leader_and_epoch, now, f"told by {event.sender}")
        if raft.epoch != epoch:
            return
        match event.response:
            case m.FetchResponse() as response:
                self._follower.on_fetch_response(sent, header.error, response, event.records, now)
            case m.FetchSnapshotResponse() as response:
                self._follower.on_snapshot_response(sent, header.error, response, event.records, now)
            case m.VoteResponse() as response:
                self._elections.on_vote_response(sent, header, response, now)
            case m.BeginQuorumEpochResponse():
                self._leader.on_begin_response(sent, header.error)
            case m.EndQuorumEpochResponse():
                self._resignation.on_end_response(sent, header.error, now)

    def _reject(self, sent: Sent, what: str, now: Now) -> None:
        """Log an invalid response, and wait before the peer is asked again (D-14)."""
        raft = self._raft
        raft.warn("bad_response", f"{sent.kind.value} to {sent.to}: {what}")
        raft.requests.back_off(sent.to, sent.kind, now.mono_ms)
        self._elections.on_vote_failed(sent, what, now)

    def _on_failed(self, event: e.RequestFailed, now: Now) -> None:
        raft = self._raft
        sent = raft.requests.take(event.sender, event.correlation_id)
        if sent is not None:
            span_ms = self._follower.failure_backoff_ms(sent)
            raft.requests.back_off(sent.to, sent.kind, now.mono_ms, span_ms)
            self._elections.on_vote_failed(sent, event.reason, now)
            if sent.kind is RequestKind.FETCH_SNAPSHOT:
                self._follower.on_snapshot_failed(now)

    def _on_flushed(self, event: e.LogFlushed, now: Now) -> None:
        raft = self._raft
        if not raft.log.on_flushed(event.generation, event.end_offset):
            return
        raft.flush()
        if raft.leader_state is not None:
            self._replication.advance(raft.leader_state, now)
        else:
            self._follower.on_flushed(now)
        self._stay_idle()

    # --- read-only views --------------------------------------------------------------------------------

    @property
    def state(self) -> EpochState:
        """The state within the current epoch."""
        return self._raft.state

    @property
    def epoch(self) -> Epoch:
        """The current epoch."""
        return self._raft.epoch

    @property
    def leader_id(self) -> NodeId:
        """The id of the leader, as `status.known_leader` has it; NO_NODE if there is none."""
        return status.known_leader(self._raft)

    @property
    def voted(self) -> ReplicaKey | None:
        """The node that got this node's vote in the current epoch; None if it gave none."""
        return self._raft.state.election.voted

    @property
    def is_leader(self) -> bool:
        """Whether this node leads."""
        return self._raft.leader_state is not None

    @property
    def is_voter(self) -> bool:
        """Whether this node is in the voter set; it may not be counted nevertheless (D-06)."""
        return self._raft.quorum.is_voter

    @property
    def voters(self) -> VoterSet:
        """The voters, and where they listen."""
        return self._raft.quorum.voters

    def must_prove(self, node_id: NodeId) -> bool:
        """Whether a peer of this id must prove it, as we must to it: if both nodes are voters (D-37)."""
        return self._raft.quorum.is_voter and node_id in self._raft.quorum.others

    @property
    def is_whole(self) -> bool:
        """Whether this node has forgotten no promise and lost no record, so that it may be counted (D-06)."""
        return self._raft.rejoin.health.is_whole

    @property
    def damage(self) -> tuple[str, ...]:
        """The lost parts of the log, as far as they are known; one text each (D-06)."""
        return self._raft.rejoin.health.damage

    @property
    def high_watermark(self) -> Offset:
        """Everything before this offset is committed; -1 while unknown. Never decreases."""
        return self._raft.high_watermark

    @property
    def log(self) -> LogMirror:
        """The log's ends and epochs. Read only."""
        return self._raft.log

    @property
    def uncommitted_bytes(self) -> int:
        """Bytes of records that a leader accepted and that are not committed, written or still queued."""
        return led.uncommitted_bytes if (led := self._raft.leader_state) else 0

    def append_room_bytes(self, epoch: Epoch, *, is_urgent: bool) -> int:
        """How much, as `size_of` counts it, may be appended as one without a difference (D-39)."""
        return self._leader.append_room_bytes(epoch, is_urgent=is_urgent)

    def describe(self, now: Now) -> status.QuorumStatus:
        """Return this node's own view of the quorum; needs no leader."""
        return status.describe(self._raft, now)

    def committed_batches(self, from_offset: Offset, max_bytes: int) -> list[bytes] | None:
        """Whole committed batches from the one that holds `from_offset`; None if the disk must be read."""
        return self._raft.log.read(from_offset, max_bytes, max(0, self._raft.high_watermark))

    def leased_snapshots(self, now_ms: int) -> LeasedSnapshots:
        """The snapshots that replicas download from here: they, and the log behind them, must stay (D-22)."""
        return self._snapshots.leased(now_ms)

    @property
    def download(self) -> tuple[OffsetAndEpoch, int, int] | None:
        """The snapshot that is downloaded: its id, how many bytes are here, and of how many (-1: unknown)."""
        download = self._raft.download
        return None if download is None else (download.id, download.position, download.size_bytes)

    def take_values(self, base_offset: Offset) -> Sequence[bytes] | None:
        """Remove and return the record values of a batch of this log; None if they must be read out of it."""
        return self._raft.log.take_values(base_offset)
