"""The changes of state of a raft node: the new state with its timers, and what must happen along with it.

Every part makes transitions through here, so that the same change is made the same way everywhere. What
leads to it is decided by the parts; whether it is allowed is the table's (`kraftd.raft.epoch_states`), which
`RaftState.transition_to` asks. That one is called from here only.
`election_to_rely_on`, `report_health` and `initial_state` say what the last process left behind, whether a
node counts with it, and in which state it begins.

Follows: VOTE-29, QS-01 to QS-12, the election timers of Kafka's states; D-07, D-08, D-13.
Differs: a stored vote for itself does not stop a node that is no voter any more (Q-14). A node that may not
vote waits or follows, whatever it was (D-06). The only voter does not stay resigned: no other node can lead.
"""

from kraftd.errors import ErrorCode
from kraftd.raft import snapshot_rpc
from kraftd.raft.effects import (
    AppendDone,
    AssignEpoch,
    ElectionEnded,
    ReadDone,
    RememberStateHealth,
    ResignDone,
)
from kraftd.raft.epoch_states import (
    Ballot,
    Candidate,
    EpochState,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
    state_name,
)
from kraftd.raft.leader_state import LeaderState
from kraftd.raft.rpc import LeaderAndEpoch
from kraftd.raft.state import RaftState
from kraftd.raft.timing import BEHIND_DELAY_MS
from kraftd.types import NEVER_MS, NO_NODE, Election, Epoch, HealthKind, NodeId, Now, ReplicaKey


class StateChanges:
    """The changes of state of one raft node."""

    def __init__(self, raft: RaftState) -> None:
        self.raft = raft

    def become_unattached(self, epoch: Epoch, now: Now, why: str, *, voted: ReplicaKey | None = None) -> None:
        """Become unattached in `epoch`, with `voted` as the vote given in it."""
        raft = self.raft
        state = raft.state
        if epoch == state.epoch:
            leader_id, voted = state.election.leader_id, voted or state.election.voted
        else:
            leader_id = NO_NODE
        deadline_ms = now.mono_ms + raft.timing.election_ms(raft.random_source)
        if not raft.may_vote:
            deadline_ms = NEVER_MS
        elif (
            isinstance(state, Unattached | Candidate | Prospective) and epoch > state.epoch and voted is None
        ) and now.mono_ms < state.deadline_ms < NEVER_MS:
            # Node 2 lost node 1 and waits for 900 ms more. If each new epoch of node 3, which cannot win,
            # made it wait anew, node 2 would never campaign (QS-23).
            deadline_ms = state.deadline_ms
        raft.transition_to(Unattached(epoch, deadline_ms, leader_id, voted), why)
        self._end_leadership()
        # Node 4 led epoch 4 before it was restarted, does not count since its log is damaged, and finds more
        # damage. It knows itself as the leader of the epoch, and leads it no more.
        raft.notify_leader_change(leader_id if leader_id != raft.me.id else NO_NODE)

    def become_follower(
        self,
        epoch: Epoch,
        leader_id: NodeId,
        now: Now,
        why: str,
        *,
        fetch_deadline_ms: int = 0,
        campaign_at_ms: int = NEVER_MS,
    ) -> None:
        """Follow a leader. `fetch_deadline_ms` keeps a deadline that is still running (D-08), and at
        `campaign_at_ms` pre-votes are asked for unless the leader answers before.
        """
        raft = self.raft
        voted = raft.state.election.voted if epoch == raft.epoch else None
        deadline_ms = fetch_deadline_ms or now.mono_ms + raft.timing.fetch_timeout_ms
        raft.attempts = 0
        follower = Follower(epoch, leader_id, deadline_ms, voted, campaign_at_ms=campaign_at_ms)
        raft.transition_to(follower, why)
        self._end_leadership()
        raft.notify_leader_change(leader_id)

    def become_prospective(self, now: Now, why: str) -> None:
        """Ask for pre-votes. The ballot does not wait for a leader that was just lost (D-08)."""
        raft = self.raft
        state = raft.state
        election = state.election
        lost = (
            frozenset({election.leader_id}) & raft.quorum.voters.ids
            if isinstance(state, Follower)
            else frozenset()
        )
        prospective = Prospective(
            epoch=state.epoch,
            ballot=Ballot(raft.quorum.voters.ids, frozenset({raft.me.id}), unreachable=lost - {raft.me.id}),
            started_at_ms=now.mono_ms,
            deadline_ms=now.mono_ms + raft.timing.election_ms(raft.random_source),
            fetch_deadline_ms=state.fetch_deadline_ms if isinstance(state, Follower) else 0,
            leader_id=election.leader_id,
            voted=election.voted,
        )
        raft.refusals.clear()
        raft.transition_to(prospective, why)

    def become_prospective_elected(self, state: Follower, ballot: Ballot, now: Now, why: str) -> None:
        """Be one whom a majority would elect already, by what a suspicious follower asked it (D-40)."""
        prospective = Prospective(
            epoch=state.epoch,
            ballot=ballot,
            started_at_ms=state.started_at_ms,
            deadline_ms=now.mono_ms + self.raft.timing.election_timeout_ms,
            fetch_deadline_ms=state.fetch_deadline_ms,
            leader_id=state.leader_id,
            voted=state.voted,
        )
        self.raft.transition_to(prospective, why)

    def become_candidate(self, now: Now, why: str) -> None:
        """Vote for itself in the next epoch, and ask for the votes of the others."""
        raft = self.raft
        state = raft.state
        unreachable = state.ballot.unreachable if isinstance(state, Prospective) else frozenset()
        raft.attempts += 1
        candidate = Candidate(
            epoch=state.epoch + 1,
            me=raft.me,
            ballot=Ballot(raft.quorum.voters.ids, frozenset({raft.me.id}), unreachable=unreachable),
            started_at_ms=now.mono_ms,
            deadline_ms=now.mono_ms + raft.timing.election_ms(raft.random_source),
            attempt=raft.attempts,
        )
        raft.refusals.clear()
        raft.transition_to(candidate, why)
        raft.mark_initialized()
        raft.notify_leader_change(NO_NODE)

    def become_leader(self, candidate: Candidate, now: Now) -> None:
        """Lead the epoch, which begins where the log ends (VOTE-29)."""
        raft = self.raft
        start_offset = raft.log.end_offset
        granted = candidate.ballot.granted
        raft.transition_to(Leader(candidate.epoch, raft.me, start_offset, granted), "majority granted")
        raft.attempts = 0
        raft.drop_download()
        raft.log.epochs.assign(candidate.epoch, start_offset)
        raft.out.append(AssignEpoch(candidate.epoch, start_offset))
        raft.leader_state = LeaderState(
            epoch=candidate.epoch,
            epoch_start_offset=start_offset,
            quorum=raft.quorum,
            timing=raft.timing,
            now_ms=now.mono_ms,
        )

    def become_resigned(self, now: Now, why: str, successors: tuple[ReplicaKey, ...]) -> None:
        """Stop leading; the epoch's leader stays recorded (QS-07)."""
        raft = self.raft
        # The state machine is not told (LSN-14): nobody else leads this epoch. Node 1 resigns in epoch 4, and
        # its controller stays active until it hears of epoch 5. What it decides meanwhile is refused by
        # `LeaderRole.on_append` with NOT_CONTROLLER, as not appended, and its client asks the next leader.
        deadline_ms = now.mono_ms + raft.timing.election_ms(raft.random_source)
        voted = raft.state.election.voted
        raft.transition_to(Resigned(raft.epoch, raft.me, deadline_ms, voted, successors), why)
        self._end_leadership()

    def observe_epoch(
        self, leader_and_epoch: LeaderAndEpoch, now: Now, why: str, *, from_leader: bool = False
    ) -> None:
        """Act on a leader and epoch that a peer told: a higher epoch, or a leader that was unknown ("maybe
        transition" in Kafka).

        Nothing that a peer says here is fatal: what cannot be true is logged and ignored (D-14).
        """
        raft = self.raft
        epoch, leader_id = leader_and_epoch.epoch, leader_and_epoch.leader_id
        if epoch < raft.epoch:
            return
        if not raft.is_plausible_epoch(epoch):
            raft.warn("impossible_epoch", f"told of epoch {epoch}, from epoch {raft.epoch}: not believed")
            return
        if leader_id == raft.me.id:
            if epoch > raft.epoch:
                raft.warn("inconsistent_leader", f"told to lead epoch {epoch}, which this node never led")
                self.become_unattached(epoch, now, why)
            return
        followable = leader_id != NO_NODE and raft.learn(leader_id, leader_and_epoch.endpoint)
        if epoch > raft.epoch:
            if followable:
                self.become_follower(epoch, leader_id, now, why)
            else:
                self.become_unattached(epoch, now, why)
            return
        known = raft.leader_id
        if known not in (NO_NODE, leader_id) and leader_id != NO_NODE:
            raft.warn("inconsistent_leader", f"{leader_id} is said to lead epoch {epoch}, but {known} does")
        elif followable and (known == NO_NODE or (from_leader and not isinstance(raft.state, Follower))):
            self.become_follower(epoch, leader_id, now, why)

    def end_election(self, now: Now, *, won: bool) -> None:
        """Emit `ElectionEnded` for the ballot of the current state."""
        state = self.raft.state
        if not isinstance(state, Prospective | Candidate):
            return
        ballot = state.ballot
        self.raft.out.append(
            ElectionEnded(
                epoch=state.epoch,
                pre_vote=isinstance(state, Prospective),
                won=won,
                granted=sorted(ballot.granted),
                refused=[(voter, self.raft.refusals.get(voter, "")) for voter in sorted(ballot.refused)],
                outstanding=sorted(ballot.outstanding),
                took_ms=now.mono_ms - state.started_at_ms,
            )
        )

    def _end_leadership(self) -> None:
        """Answer all callers and fetches that wait on a leadership that is over (D-13)."""
        raft = self.raft
        leader_state = raft.leader_state
        if leader_state is None:
            return
        raft.leader_state = None
        for batch in leader_state.accumulator.drain():
            for append in batch.appends:
                raft.out.append(AppendDone(append.token, ErrorCode.NOT_CONTROLLER))
        for pending in leader_state.pending_appends.take_all():
            raft.out.append(AppendDone(pending.token, ErrorCode.REQUEST_TIMED_OUT))
        for token in leader_state.reads.take_all():
            raft.out.append(ReadDone(token, ErrorCode.NOT_CONTROLLER))
        for fetch in (*leader_state.purgatory.take_all(), *leader_state.cold_reads.values()):
            raft.refuse_fetch(fetch.handle, fetch.version, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for piece in (*leader_state.snapshot_fetches.values(), *leader_state.snapshot_slots.take_waiting()):
            leader_and_epoch = raft.leader_and_epoch(piece.version)
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            raft.reply(piece.handle, snapshot_rpc.response_of(error, leader_and_epoch))
        for handover in (leader_state.handover, leader_state.requested_handover):
            if handover is not None and handover.token is not None:
                why = (
                    f"lost the leadership while handing over: {state_name(raft.state)} in epoch {raft.epoch}"
                )
                error = ErrorCode.NOT_CONTROLLER
                raft.out.append(ResignDone(handover.token, error, raft.epoch, raft.leader_id, why))


def election_to_rely_on(raft: RaftState, stored: Election) -> Election:
    """Return the stored election; if the log has a later epoch, that epoch alone, and amnesia (QS-09).

    A daemon never gets that far: opening its directory judges the election file by the log as well
    (`NodeDirectory`), and gives the epoch of the log. Who drives a node on other files relies on this.
    """
    if raft.log.last_epoch <= stored.epoch:
        return stored
    # The election file is lost, or an old copy of it came back: it says epoch 3, and the log has records of
    # epoch 5. In epoch 4 or 5 this node may have voted for node 1. If it voted again, two nodes could lead
    # one epoch.
    text = f"the election file knows epoch {stored.epoch}, but the log has epoch {raft.log.last_epoch}"
    raft.warn("stored_epoch_behind_log", text)
    if raft.quorum.is_voter:
        raft.rejoin.record_amnesia(f"{text}: a vote may be forgotten")
    return Election(raft.log.last_epoch)


def report_health(raft: RaftState, stored: Election) -> None:
    """Tell whether this node counts at this start, by what was found of its disk and what it holds (D-06)."""
    health = raft.rejoin.health
    if not health.is_whole:
        if health.amnesia:
            raft.out.append(RememberStateHealth(HealthKind.AMNESIA, health.amnesia))
        raft.alarm("not_whole", raft.rejoin.text)
    elif stored.voted is not None or raft.log.end_offset > 0:
        # Node 1 is new and votes for itself; it is killed when its vote is durable, and the sidecar is not
        # yet. It asks again, leads epoch 1 and writes. If it still called itself new, it would refuse node 3,
        # whose log has a record more, for having records, while node 2 is away: nobody could lead.
        raft.mark_initialized()
    elif health.uninitialized:
        raft.out.append(RememberStateHealth(HealthKind.UNINITIALIZED))


def initial_state(raft: RaftState, stored: Election, now: Now) -> EpochState:
    """Return the state to begin with, after this election (QS-02 to QS-08). Persists nothing."""
    election_ms = NEVER_MS
    if raft.may_vote:
        election_ms = now.mono_ms + raft.timing.election_ms(raft.random_source)
        election_ms += BEHIND_DELAY_MS if raft.is_behind else 0
    leader_id, voted = stored.leader_id, stored.voted
    if leader_id == raft.me.id:
        if raft.may_vote and raft.quorum.others:
            # Node 1 led epoch 4, sent record 9 to node 2 and lost its power before its own flush. If it led
            # epoch 4 on, it would write another record 9 of the same epoch, and no epoch would tell the two
            # logs apart.
            return Resigned(stored.epoch, raft.me, election_ms, voted)
        return Unattached(stored.epoch, election_ms, leader_id, voted)
    if leader_id != NO_NODE and raft.endpoint(leader_id) is not None:
        deadline_ms = now.mono_ms + max(1, raft.timing.fetch_timeout_ms)
        return Follower(stored.epoch, leader_id, deadline_ms, voted)
    if voted is not None and voted.matches(raft.me) and raft.may_vote and leader_id == NO_NODE:
        # Node 1 voted for itself in epoch 4, asked for votes and lost its power. Who granted it one gives it
        # to nobody else in epoch 4, so it goes on asking in the same epoch: a new one would be no better
        # (QS-06).
        ballot = Ballot(raft.quorum.voters.ids, frozenset({raft.me.id}))
        raft.attempts = 1
        return Candidate(stored.epoch, raft.me, ballot, now.mono_ms, election_ms)
    return Unattached(stored.epoch, election_ms, leader_id, voted)
