"""The state that all parts of a raft node share: the epoch state, the log, and the effects of this event.

`state_changes` builds the next epoch state and passes it to `transition_to`, which checks the transition
against the table, and makes sure that the election is durable before any effect that relies on it: the
effects of an event hold at most one `PersistElection`, at the place of the first transition and with the
content of the last. So a vote in a higher epoch is one write, not two (VOTE-17), and no message of a state
can overtake it (QS-15).

Here is what more than one part needs; what only one needs is with that part (`elections`, `leader`,
`replication`, `follower`, `resignation`).
"""

from collections.abc import Sequence

from msgspec.structs import replace

from kraftd.errors import ErrorCode
from kraftd.protocol.messages import QuorumRequest, QuorumResponse
from kraftd.raft import rpc
from kraftd.raft.effects import (
    AlarmCleared,
    Alarmed,
    Commit,
    DropSnapshot,
    Effect,
    LeaderChanged,
    LearnEndpoint,
    PersistElection,
    RememberStateHealth,
    Reply,
    Send,
    StateChanged,
    Warned,
)
from kraftd.raft.epoch_states import EpochState, Follower, Unattached, check_move, state_name
from kraftd.raft.events import Handle, Token
from kraftd.raft.follower_state import Download, FollowerState
from kraftd.raft.leader_state import LeaderState
from kraftd.raft.log_mirror import LogMirror
from kraftd.raft.peers import Peers
from kraftd.raft.rejoin import Rejoin, StateHealth
from kraftd.raft.request_manager import RequestKind, RequestManager
from kraftd.raft.rpc import FetchParams, LeaderAndEpoch
from kraftd.raft.suspicion import Suspicion
from kraftd.raft.timing import BEHIND_RECORDS, WRONG_SUSPICION_MS, RandomSource, Timing
from kraftd.raft.voters import Quorum, VoterSet
from kraftd.types import (
    FORGET_PEERS,
    NO_NODE,
    ZERO_UUID,
    Election,
    Endpoint,
    Epoch,
    HealthKind,
    NodeId,
    Now,
    Offset,
    OffsetAndEpoch,
    PeerIdentity,
    ReplicaKey,
    bootstrap_id,
)

_EPOCH_ALWAYS_PLAUSIBLE = (1 << 31) - (1 << 24)
"""The highest epoch that is always accepted; the rest lasts for half a year of an election a second."""

_EPOCH_RISE_MAX = 1 << 16
"""How far above our own an epoch may be beyond that."""


class RaftState:
    """The shared state of one raft node. Mutable, single-threaded; it reads no clock."""

    def __init__(
        self,
        *,
        me: ReplicaKey,
        cluster_id: str,
        voters: VoterSet,
        log: LogMirror,
        initial: EpochState,
        persisted: Election,
        timing: Timing,
        random_source: RandomSource,
        health: StateHealth,
        known_peers: Sequence[PeerIdentity],
        advertised: Endpoint,
        bootstrap: Sequence[Endpoint],
        uncommitted_bytes_max: int,
        snapshot_chunk_bytes: int,
    ) -> None:
        self.me = me
        self.cluster_id = cluster_id
        self.quorum = Quorum(me.id, voters)
        self.log = log
        self.timing = timing
        self.random_source = random_source
        self.advertised = advertised
        self.uncommitted_bytes_max = uncommitted_bytes_max
        self.snapshot_chunk_bytes = snapshot_chunk_bytes
        """The most bytes of a snapshot in one response."""
        self.state: EpochState = initial
        self.requests = RequestManager(
            timeout_ms=timing.request_timeout_ms, backoff_ms=timing.retry_backoff_ms
        )
        self.rejoin = Rejoin(health, self.quorum, self.requests.forget_who_we_are)
        self.peers = Peers(me, self.quorum, tuple(known_peers), self.rejoin)
        self.leader_state: LeaderState | None = None
        self.follower_state, self.suspicion = FollowerState(), Suspicion(timing.fetch_timeout_ms)
        self.high_watermark: Offset = -1
        """The highest offset known to be committed; survives every change of state (Q-09, D-14)."""
        self.applied_offset: Offset = 0
        self.download: Download | None = None
        """The snapshot that is downloaded; it outlives the state, so that it goes on at the next leader."""
        self.attempts = 0
        """The candidacies since a leader was last known."""
        self.refusals: dict[NodeId, str] = {}
        """Why each voter refused or was unreachable in the newest ballot; kept until the next one begins."""
        self.last_contact_at_ms = -1
        """Monotonic moment of the last good fetch; -1 before the first."""
        self.rejected_leader: tuple[Epoch, NodeId] = (-1, NO_NODE)
        """The leader of an epoch that is not followed any more (D-14), and `rejection` says why."""
        self.rejection = ""
        self.is_stopping = self.is_stuck = False  # the process; the state machine, which can apply nothing
        self.alarms: dict[str, str] = {}
        self.learned = {bootstrap_id(index): endpoint for index, endpoint in enumerate(bootstrap)}
        """Endpoints of nodes that are no voters: bootstrap servers, and leaders told to an observer."""
        self.out: list[Effect] = []
        self._persisted = persisted
        self._persist_at: int | None = None
        self._must_persist = False
        self._notified = (-1, NO_NODE)
        self._next_token = 0

    # --- the effects of one event -----------------------------------------------------------------------

    def finish(self) -> list[Effect]:
        """Return the effects of this event, with `PersistElection` at its place."""
        effects, self.out = self.out, []
        if self._persist_at is not None:
            election = self.state.election
            if election != self._persisted or self._must_persist:
                effects.insert(self._persist_at, PersistElection(election))
                self._persisted = election
            self._persist_at, self._must_persist = None, False
        return effects

    def transition_to(self, target: EpochState, why: str) -> None:
        """Change state or epoch, for `StateChanges`. Responses to requests of the former one are ignored from
        now on (VOTE-31).
        """
        source = self.state
        check_move(source, target, why)
        # The first change of an event decides the place, the last one the content. Node 2 follows epoch 3 and
        # is asked for its vote in epoch 4: it becomes unattached, then has voted. One write says both, before
        # the response leaves.
        if self._persist_at is None:
            self._persist_at = len(self.out)
        self.state = target
        self.out.append(StateChanged(state_name(source), state_name(target), target.epoch, why))
        # Node 3 looks for a leader in epoch 4, asks node 1, and gives node 2 its vote in epoch 4 meanwhile:
        # it goes on waiting, and what node 1 answers is still what it wants to know.
        same_wait = isinstance(source, Unattached) and isinstance(target, Unattached)
        if not (same_wait and source.epoch == target.epoch):
            self.requests.reset()
            self.follower_state = FollowerState()

    def update_state(self, state: EpochState) -> None:
        """Replace the state without a transition: by one of the same class, epoch and election, or, at a
        start, by what the last process left behind. Nothing is persisted.
        """
        self.state = state

    def persist_anyway(self) -> None:
        """Write the election file although nothing changed, because there may be none (QS-01)."""
        self._persist_at, self._must_persist = len(self.out), True

    # --- what the parts ask for -------------------------------------------------------------------------

    @property
    def epoch(self) -> Epoch:
        """The current epoch."""
        return self.state.epoch

    @property
    def leader_id(self) -> NodeId:
        """The leader of the current epoch; NO_NODE while unknown."""
        return self.state.leader_id

    @property
    def may_vote(self) -> bool:
        """Whether this node may vote, campaign and acknowledge: a voter that is whole (D-06)."""
        return self.quorum.is_voter and self.rejoin.is_whole

    def is_receiver(self, receiver: ReplicaKey) -> bool:
        """Whether a request names this node as its receiver, or names none (VOTE-20, VOTE-21)."""
        is_our_directory = receiver.directory_id in (ZERO_UUID, self.me.directory_id)
        return receiver.id == NO_NODE or (receiver.id == self.me.id and is_our_directory)

    @property
    def is_behind(self) -> bool:
        """Whether the state machine has so much left to apply that others should lead first (D-18), or can
        apply nothing (D-23).

        Such a node could win at once, but could not lead before it has applied it all.
        """
        return self.is_stuck or self.applied_offset + BEHIND_RECORDS < self.high_watermark

    @property
    def durable_position(self) -> OffsetAndEpoch:
        """The end of the durable part of the log, which a candidate or a fetch claims.

        A candidate claims no more: it could crash, lose the rest, and be granted the same vote again by a
        voter that remembers only having given it (VOTE-14).
        """
        flushed = self.log.flushed_offset
        if flushed == self.log.end_offset:
            return self.log.position
        return OffsetAndEpoch(flushed, self.log.epoch_before(flushed))

    @property
    def is_epoch_committed(self) -> bool:
        """Whether a record of the current epoch is known to be committed."""
        return self.log.epoch_before(max(0, self.high_watermark)) == self.epoch

    def is_plausible_epoch(self, epoch: Epoch) -> bool:
        """Whether a quorum can have reached this epoch. One wrong number must not raise all nodes to the
        largest epoch that fits into its field: no leader could be elected any more, not even after a restart
        (D-14).

        Any epoch of a voter below that bound is accepted in one step: a node whose epoch is far above those
        of the others raises theirs, and never lowers its own, since it may have voted in it (D-37).
        """
        return epoch <= _EPOCH_ALWAYS_PLAUSIBLE or epoch <= self.epoch + _EPOCH_RISE_MAX

    def leader_and_epoch(self, version: int, *, endpoints_since: int = rpc.ENDPOINTS_SINCE) -> LeaderAndEpoch:
        """Return the current leader and epoch for a response of this version; older ones have no room for
        endpoints.
        """
        leader_id = self.leader_id
        if version < endpoints_since or leader_id == NO_NODE:
            return LeaderAndEpoch(self.epoch, leader_id)
        endpoint = self.advertised if leader_id == self.me.id else self.endpoint(leader_id)
        return LeaderAndEpoch(self.epoch, leader_id, endpoint)

    def send(
        self, to: NodeId, kind: RequestKind, request: QuorumRequest, now_ms: int, *, round_: int = 0
    ) -> None:
        """Send a request and expect its response."""
        correlation_id = self.requests.send(to, kind, self.epoch, now_ms, round_=round_)
        self.out.append(Send(to, correlation_id, request))

    def send_fetch(self, to: NodeId, kind: RequestKind, now: Now, *, max_wait_ms: int) -> None:
        """Send a fetch from the durable end of the log, under this node's id if it may be counted, unless it
        is an introduction (D-06).
        """
        is_counted = self.rejoin.is_whole and kind is not RequestKind.INTRODUCTION
        params = FetchParams(
            ReplicaKey(self.me.id if is_counted else NO_NODE, self.me.directory_id),
            self.epoch,
            self.durable_position,
            self.high_watermark,
            max_wait_ms,
        )
        request = rpc.fetch_request(self.cluster_id, params, self.log.fetch_bytes_max)
        self.send(to, kind, request, now.mono_ms)

    def reply(self, handle: Handle, response: QuorumResponse) -> None:
        """Answer a request."""
        self.out.append(Reply(handle, response))

    def fetch_leader_and_epoch(self, version: int) -> LeaderAndEpoch:
        """Return the current leader and epoch for a fetch response of this version."""
        return self.leader_and_epoch(version, endpoints_since=rpc.FETCH_ENDPOINTS_SINCE)

    def refuse_fetch(self, handle: Handle, version: int, error: ErrorCode) -> None:
        """Answer a fetch with an error; the log start offset is given all the same (FREQ-23)."""
        leader_and_epoch, start_offset = self.fetch_leader_and_epoch(version), self.log.start_offset
        self.reply(handle, rpc.fetch_response(error, leader_and_epoch, log_start_offset=start_offset))

    def flush(self) -> None:
        """Emit a flush, unless one is running or nothing needs it."""
        flush = self.log.flush()
        if flush is not None:
            self.out.append(flush)

    def commit(self, high_watermark: Offset) -> None:
        """Raise the high watermark and emit `Commit`; a lower one is ignored."""
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            self.out.append(Commit(high_watermark))

    def drop_download(self) -> None:
        """Give up the download, if there is one."""
        if self.download is not None:
            self.out.append(DropSnapshot(self.download.id))
            self.download = None

    def notify_leader_change(self, leader_id: NodeId) -> None:
        """Tell the state machine who leads this epoch, once each time it changes (LSN-11)."""
        if self._notified != (self.epoch, leader_id):
            self._notified = (self.epoch, leader_id)
            self.out.append(LeaderChanged(self.epoch, leader_id))

    def learn(self, node_id: NodeId, endpoint: Endpoint | None) -> bool:
        """Record a leader's endpoint, if the configuration names no voters. Returns whether one is known.

        Voters keep their configured endpoints, and only they lead (D-37).
        """
        if endpoint is not None and not len(self.quorum.voters) and self.endpoint(node_id) != endpoint:
            self.learned[node_id] = endpoint
            self.out.append(LearnEndpoint(node_id, endpoint))
        return self.endpoint(node_id) is not None

    def endpoint(self, node_id: NodeId) -> Endpoint | None:
        """Return where a voter or a leader listens; None if that is unknown."""
        voter = self.quorum.voters.get(node_id)
        return voter.endpoint if voter is not None else self.learned.get(node_id)

    def new_token(self) -> Token:
        """Return a new token for what the node starts itself."""
        self._next_token += 1
        return self._next_token

    def hear_leader(self, now_ms: int, *, is_response: bool) -> None:
        """Record that the leader of this epoch was heard: a suspicion ends, and is told as wrong (D-40)."""
        state = self.state
        if isinstance(state, Follower) and state.ballot is not None:
            self.update_state(replace(state, ballot=None))
        silent_ms = self.suspicion.on_heard(self.epoch, self.leader_id, now_ms, is_response=is_response)
        if silent_ms:
            self.warn_suspicion_wrong(f"leader {self.leader_id} was heard after {silent_ms} ms of silence")

    def warn_suspicion_wrong(self, what: str) -> None:
        """Log that a suspected leader was alive (D-40)."""
        patience = f"for {WRONG_SUSPICION_MS // 60_000} minutes S is doubled"
        self.warn("suspicion_wrong", f"{what}: {patience}, and {self.suspicion.span_ms} ms now")

    def identify(self, connection: int, peer: PeerIdentity, *, outbound: bool) -> None:
        """Register the peer of a connection; a leader discards what a replaced disk acknowledged (D-06)."""
        self.out.extend(self.peers.identify(connection, peer, outbound=outbound))
        if self.leader_state is not None and self.peers.identity_conflict(peer):
            self.leader_state.reset_follower(peer.node_id)
        if peer.node_id in self.peers.conflicting_voters():
            self.warn(
                "doubtful_voter",
                f"{self.peers.identity_conflict(peer)}; it does not count, but {FORGET_PEERS}",
            )

    def mark_initialized(self) -> None:
        """Record that a vote was given or the log has records: a missing election file is an error from now
        on.
        """
        if self.rejoin.mark_initialized():
            self.out.append(RememberStateHealth(HealthKind.WHOLE))

    def warn(self, name: str, text: str) -> None:
        """Log a warning and go on (D-14)."""
        self.out.append(Warned(name, text))

    def alarm(self, name: str, text: str) -> None:
        """Raise an alarm, which is logged once and shown until it is cleared."""
        if self.alarms.get(name) != text:
            self.alarms[name] = text
            self.out.append(Alarmed(name, text))

    def clear_alarm(self, name: str) -> None:
        """End an alarm; emits `AlarmCleared` if it was raised."""
        if self.alarms.pop(name, None) is not None:
            self.out.append(AlarmCleared(name))
