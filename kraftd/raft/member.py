"""One member of the quorum, with no clock, no socket and no file in reach.

The driver tells it what happened (`handle`) and that time has passed (`poll`), and carries out the effects
that come back, in order, before it calls again. Nothing here awaits, so what is true at the top of a method
is still true at the bottom. Nothing but `InvariantError` is raised: a fault of a peer comes back as an effect
or an answer, like everything else (D-14).

`poll` is called once a turn of the loop, after everything that was ready has been handled: it drains the
accumulator, sends what is due, and moves on from state to state where timers demand it. After it,
`wake_at_ms` lies in the future, always (D-01).

Time that went missing: a turn that comes more than 200 ms after `wake_at_ms` finds out by itself that the
process stood still. The sockets may hold what was missed meanwhile, so the timers of fetch, election and
requests wait for one more turn; check-quorum does not, because the others did not stand still (D-01).

The parts: `elections`, `leading`, `replication`, `following`, `resigning`, `claims` act; `core` is the desk
they share; `roles` are the moves; `states` and `transitions` say what is true and what may follow.

Not here: the log on disk, names and sockets, the state machine (`kraftd.runtime`).
"""

from collections.abc import Sequence
from typing import TypeAlias

from kraftd.errors import ErrorCode, InvariantError
from kraftd.protocol import messages as m
from kraftd.raft import events as e
from kraftd.raft import view, wire
from kraftd.raft.claims import Claims
from kraftd.raft.core import Core
from kraftd.raft.effects import Effect, LearnEndpoint, RememberWholeness
from kraftd.raft.elections import Elections
from kraftd.raft.following import Following
from kraftd.raft.identity import StartIdentity, Wholeness
from kraftd.raft.leading import Leading
from kraftd.raft.replication import Replication
from kraftd.raft.requests import Kind, Sent
from kraftd.raft.resigning import Resigning
from kraftd.raft.roles import Roles
from kraftd.raft.starting import initial_state
from kraftd.raft.states import (
    Candidate,
    EpochState,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
    state_name,
)
from kraftd.raft.tail import FETCH_BYTES_MAX, TAIL_BYTES_MAX, LogStart, LogTail
from kraftd.raft.timing import NEVER_MS, STALL_MS, Dice, Timing
from kraftd.raft.voters import VoterSet
from kraftd.types import Election, Endpoint, Epoch, NodeId, Now, Offset, ReplicaKey

__all__ = ["NEVER_MS", "LogStart", "Member"]

_MOVES_A_TURN = 8
_Meeting: TypeAlias = e.NonceGiven | e.LinkAnswered | e.PeerClaimed | e.NonceShown | e.PeerIdentified


class Member:
    """A voter or an observer. See the module for how it is driven."""

    def __init__(
        self,
        *,
        me: ReplicaKey,
        cluster_id: str,
        voters: VoterSet,
        log: LogStart,
        election: Election,
        timing: Timing,
        dice: Dice,
        wholeness: Wholeness,
        start: StartIdentity,
        known_peers: Sequence[e.PeerIdentity],
        advertised: Endpoint,
        bootstrap: Sequence[Endpoint] = (),
        accumulator_bytes: int = 32 * 1024 * 1024,
        tail_bytes: int = TAIL_BYTES_MAX,
        fetch_bytes: int = FETCH_BYTES_MAX,
    ) -> None:
        tail = LogTail(log, tail_bytes, fetch_bytes)
        self._core = core = Core(
            me=me,
            cluster_id=cluster_id,
            voters=voters,
            log=tail,
            initial=Unattached(election.epoch, NEVER_MS, election.leader_id, election.voted),
            persisted=election,
            timing=timing,
            dice=dice,
            wholeness=wholeness,
            start=start,
            known_peers=known_peers,
            advertised=advertised,
            bootstrap=bootstrap,
            accumulator_bytes=accumulator_bytes,
        )
        self._claims = Claims(core)
        self._roles = Roles(core)
        self._elections = Elections(core, self._roles)
        self._replication = Replication(core)
        self._leading = Leading(core, self._roles, self._replication)
        self._following = Following(core, self._roles)
        self._resigning = Resigning(core, self._roles)
        self._stored = election
        self._due_ms = NEVER_MS
        self._is_settled = False
        """Nothing is left to do before `_due_ms`: a poll until then is free."""
        self._not_before_ms = 0
        self._is_started = False

    # --- driving ----------------------------------------------------------------------------------------

    def start(self, now: Now) -> list[Effect]:
        """Take up where the last process left off (QS-01 to QS-12); called once, before anything else."""
        core = self._core
        if self._is_started:
            raise InvariantError("a member starts once")
        self._is_started = True
        for node_id, endpoint in core.endpoints.items():
            if node_id != core.me.id:
                core.out.append(LearnEndpoint(node_id, endpoint))
        if core.log.last_epoch > self._stored.epoch and core.is_voter:
            epochs = f"epoch {self._stored.epoch}, but the log holds epoch {core.log.last_epoch}"
            core.mending.lose(f"the election file knows {epochs}: votes may have been forgotten")
        wholeness = core.mending.wholeness
        if not wholeness.is_whole:
            if wholeness.amnesia:
                core.out.append(RememberWholeness("amnesia", wholeness.amnesia))
            core.alarm("not_whole", core.mending.text)
        elif wholeness.blank:
            core.out.append(RememberWholeness("blank"))
        core.revise(initial_state(core, core.state.election, now))
        if wholeness.blank or core.epoch > self._stored.epoch:
            core.persist_anyway()
        if isinstance(core.state, Follower | Unattached):
            core.announce(view.known_leader(core))
        if core.counts and not core.others and isinstance(core.state, Unattached):
            self._roles.become_prospective(now, "the only voter")
        self._turn(now, graced=False)
        return core.finish()

    def handle(self, event: e.Event, now: Now) -> list[Effect]:
        """Take in one event and return what must follow from it, in order."""
        core = self._core
        match event:
            case e.AppendRequested():
                self._leading.on_append(event, now)
            case e.RequestReceived(request=m.FetchRequest() as request):
                self._on_fetch(event, request, now)
                return core.finish()
            case e.LogFlushed():
                self._on_flushed(event, now)
            case e.Applied():
                core.applied_offset = max(core.applied_offset, event.offset)
                self._leading.on_applied()
            case _:
                self._handle_rare(event, now)
        self._is_settled = False
        return core.finish() if core.out else []

    def _handle_rare(self, event: e.Event, now: Now) -> None:
        core = self._core
        match event:
            case e.ResponseReceived():
                self._on_response(event, now)
            case e.RequestReceived():
                self._on_other_request(event, now)
            case e.ReadRequested():
                self._leading.on_read(event)
            case e.RequestFailed():
                self._on_failed(event, now)
            case e.NonceGiven() | e.LinkAnswered() | e.PeerClaimed() | e.NonceShown() | e.PeerIdentified():
                self._on_meeting(event, now)
            case e.ConnectionClosed():
                self._following.on_connection_closed(event, now)
                core.peers.close(event.connection)
                self._claims.on_closed(event.connection)
            case e.BatchesRead():
                if not self._replication.on_batches_read(event):
                    self._following.on_batches_read(event, now)
            case e.LogDamaged():
                self._resigning.on_damaged(event, now)
            case e.ResignRequested():
                self._resigning.on_resign(event, now)
            case e.ShutdownRequested():
                self._resigning.on_shutdown(event, now)
            case unknown:
                raise InvariantError(f"no event of the quorum: {unknown}")

    def poll(self, now: Now) -> list[Effect]:
        """Do what the passing of time demands, and what this turn's events left to be done."""
        core = self._core
        late_ms = now.mono_ms - self._due_ms
        if self._is_settled and late_ms < 0:
            return []
        graced = late_ms > STALL_MS and not self._not_before_ms  # one more turn, not one after another
        if graced:
            core.warn("stall", f"this turn came {late_ms} ms late")
        self._turn(now, graced=graced)
        return core.finish()

    def _turn(self, now: Now, *, graced: bool) -> None:
        core = self._core
        for sent in () if graced else core.requests.expire(now.mono_ms):
            self._elections.on_vote_failed(sent, "no answer in time", now)
        for _ in range(_MOVES_A_TURN):
            state = core.state
            self._poll_state(state, now, graced=graced)
            if type(core.state) is type(state) and core.state.epoch == state.epoch:
                break
        else:
            raise InvariantError(f"{state_name(core.state)} of epoch {core.epoch} finds no rest")
        self._following.poll_probes(now)
        self._resigning.poll_stopping(now)
        if self._claims.waiting:
            self._claims.poll(now)
        self._not_before_ms = now.mono_ms + 1 if graced else 0
        self._is_settled = False
        self._due_ms = self.wake_at_ms
        self._is_settled = True
        if self._due_ms <= now.mono_ms:
            raise InvariantError(f"{core.state} would be polled for ever: due at {self._due_ms}, {now}")

    def _poll_state(self, state: EpochState, now: Now, *, graced: bool) -> None:
        match state:
            case Leader():
                self._leading.poll(now)
                if led := self._core.leadership:
                    self._resigning.poll_handover(led, now)
            case Follower():
                self._following.poll_follower(state, now, graced=graced)
            case Prospective():
                self._elections.poll_prospective(state, now, graced=graced)
            case Candidate():
                self._elections.poll_candidate(state, now, graced=graced)
            case Unattached():
                self._elections.poll_unattached(state, now, graced=graced)
                self._following.poll_unattached(now)
            case Resigned():
                self._resigning.poll_resigned(state, now, graced=graced)

    @property
    def wake_at_ms(self) -> int:
        """When `poll` must be called next, on the monotonic clock, unless something happens before."""
        if self._is_settled:
            return self._due_ms
        core = self._core
        if core.leadership is not None:
            part_ms = self._leading.wake_at_ms(core.leadership)
        elif isinstance(core.state, Follower):
            part_ms = self._following.wake_at_ms()
        else:
            part_ms = min(self._elections.wake_at_ms(), self._following.wake_at_ms())
        wake_at_ms = min(
            part_ms,
            self._resigning.wake_at_ms(),
            self._claims.wake_at_ms() if self._claims.waiting else NEVER_MS,
            core.requests.next_timeout_ms(),
        )
        return max(self._not_before_ms, wake_at_ms)

    # --- events -----------------------------------------------------------------------------------------

    def _on_meeting(self, event: _Meeting, now: Now) -> None:
        """Somebody connected, or proved who it is (D-37)."""
        match event:
            case e.NonceGiven():
                self._claims.on_given(event)
            case e.LinkAnswered():
                self._claims.on_answered(event)
            case e.PeerClaimed():
                self._claims.on_claimed(event, now)
            case e.NonceShown():
                self._claims.on_shown(event)
            case e.PeerIdentified(connection=connection, peer=peer, outbound=outbound):
                if outbound:
                    self._claims.on_link_confirmed(peer.node_id, connection)
                self._core.identify(connection, peer, outbound=outbound)

    def _on_fetch(self, event: e.RequestReceived, request: m.FetchRequest, now: Now) -> None:
        """Serve a fetch. For a leader that only waits it leaves nothing to do but its own end."""
        core = self._core
        fetch = wire.read_fetch(request, event.version, core.cluster_id)
        if isinstance(fetch, ErrorCode):
            core.reply(event.handle, wire.refusal(request, fetch))
            return
        self._replication.on_fetch(event, fetch, now)
        led = core.leadership
        if led is None or led.handover is not None:
            self._is_settled = False
        else:
            self._due_ms = min(self._due_ms, led.parked.next_deadline_ms, led.news_at_ms)

    def _on_other_request(self, event: e.RequestReceived, now: Now) -> None:
        """Everything but fetches. Only members elect (section 1.4)."""
        core = self._core
        request = event.request
        if event.peer is None and not isinstance(request, m.DescribeQuorumRequest):
            core.reply(event.handle, wire.refusal(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            return
        match request:
            case m.VoteRequest():
                vote = wire.read_vote(request, core.cluster_id)
                if isinstance(vote, ErrorCode):
                    core.reply(event.handle, wire.refusal(request, vote))
                else:
                    self._elections.on_vote_request(event, vote, now)
            case m.BeginQuorumEpochRequest():
                begin = wire.read_begin(request, core.cluster_id)
                if isinstance(begin, ErrorCode):
                    core.reply(event.handle, wire.refusal(request, begin))
                else:
                    self._resigning.on_begin_request(event, begin, now)
            case m.EndQuorumEpochRequest():
                end = wire.read_end(request, core.cluster_id)
                if isinstance(end, ErrorCode):
                    core.reply(event.handle, wire.refusal(request, end))
                else:
                    self._resigning.on_end_request(event, end, now)
            case m.DescribeQuorumRequest():
                core.reply(event.handle, view.describe_quorum(core, request, now))

    def _on_response(self, event: e.ResponseReceived, now: Now) -> None:
        """Take in an answer in the order of section 1.6; what is not expected any more is dropped."""
        core = self._core
        sent = core.requests.take(event.sender, event.correlation_id)
        if sent is None:
            return
        answer = wire.read_answer(event.response)
        if answer is None or not wire.answers(sent.kind.value, event.response):
            self._reject(sent, "an answer of the wrong shape", now)
            return
        if answer.top_error:
            self._reject(sent, f"error {answer.top_error}", now)
            return
        if not core.believes(answer.standing.epoch):
            self._reject(sent, f"it speaks of epoch {answer.standing.epoch}", now)
            return
        if (
            event.sender in core.mending.silent
            and answer.error != ErrorCode.INVALID_VOTER_KEY
            and core.peers.is_trusted(core.peers.answers(event.sender))
        ):
            core.mending.hear(event.sender, max(core.epoch, answer.standing.epoch))
        is_old = answer.standing.epoch < core.epoch and sent.kind is not Kind.PRE_VOTE
        if is_old or answer.error == ErrorCode.UNKNOWN_LEADER_EPOCH:
            core.requests.rest(sent.to, sent.kind, now.mono_ms, self._following.failure_rest_ms(sent))
            return
        epoch = core.epoch
        self._roles.adopt(answer.standing, now, f"told by {event.sender}")
        if core.epoch != epoch:
            return
        match event.response:
            case m.FetchResponse() as response:
                self._following.on_fetch_response(sent, answer.error, response, event.records, now)
            case m.VoteResponse() as response:
                self._elections.on_vote_response(sent, answer, response, now)
            case m.BeginQuorumEpochResponse():
                self._leading.on_begin_response(sent, answer.error)
            case m.EndQuorumEpochResponse():
                self._resigning.on_end_response(sent, answer.error, now)
            case m.DescribeQuorumResponse():
                pass

    def _reject(self, sent: Sent, what: str, now: Now) -> None:
        """A peer answered what makes no sense to us: say so, and leave it alone for a while (D-14)."""
        core = self._core
        core.warn("bad_response", f"{sent.kind.value} to {sent.to}: {what}")
        core.requests.rest(sent.to, sent.kind, now.mono_ms)
        self._elections.on_vote_failed(sent, what, now)

    def _on_failed(self, event: e.RequestFailed, now: Now) -> None:
        core = self._core
        sent = core.requests.take(event.sender, event.correlation_id)
        if sent is not None:
            span_ms = self._following.failure_rest_ms(sent)
            core.requests.rest(sent.to, sent.kind, now.mono_ms, span_ms)
            self._elections.on_vote_failed(sent, event.reason, now)

    def _on_flushed(self, event: e.LogFlushed, now: Now) -> None:
        core = self._core
        if not core.log.on_flushed(event.generation, event.end_offset):
            return
        core.flush()
        if core.leadership is not None:
            self._replication.advance(core.leadership, now)
        else:
            self._following.on_flushed(now)

    # --- what others may look at ------------------------------------------------------------------------

    @property
    def state(self) -> EpochState:
        """Where this member stands in its epoch."""
        return self._core.state

    @property
    def epoch(self) -> Epoch:
        """The current epoch."""
        return self._core.epoch

    @property
    def leader_id(self) -> NodeId:
        """Who leads, as far as known; NO_NODE once it has resigned."""
        return view.known_leader(self._core)

    @property
    def voted(self) -> ReplicaKey | None:
        """Who got this member's vote in the current epoch."""
        return self._core.state.election.voted

    @property
    def is_leader(self) -> bool:
        """Whether this member leads."""
        return self._core.leadership is not None

    @property
    def is_voter(self) -> bool:
        """Whether this member is in the voter set; it may not be counted all the same (D-06)."""
        return self._core.is_voter

    @property
    def is_whole(self) -> bool:
        """Whether this member's promises hold, so that it may be counted (D-06)."""
        return self._core.mending.is_whole

    @property
    def damage(self) -> tuple[str, ...]:
        """Which parts of the log are gone, as far as it was found out (D-06)."""
        return self._core.mending.wholeness.damage

    @property
    def high_watermark(self) -> Offset:
        """Everything before this offset is committed; -1 while unknown. Never goes back."""
        return self._core.high_watermark

    @property
    def log(self) -> LogTail:
        """The log's ends and epochs. Read only."""
        return self._core.log

    @property
    def accumulator_bytes(self) -> int:
        """Bytes of records that are taken but not committed yet."""
        led = self._core.leadership
        return led.pending_bytes if led else 0

    def describe(self, now: Now) -> view.QuorumView:
        """This member's own view of the quorum; needs no leader."""
        return view.describe(self._core, self._roles, self._following, now)

    def committed_batches(self, from_offset: Offset, max_bytes: int) -> list[bytes] | None:
        """Whole committed batches from the one that holds `from_offset`; None if the disk must be read."""
        return self._core.log.read(from_offset, max_bytes, max(0, self._core.high_watermark))

    def take_values(self, base_offset: Offset) -> Sequence[bytes] | None:
        """The record values of a batch of this log, as far as they are at hand, and only once."""
        return self._core.log.take_values(base_offset)
