"""How a member takes on each role: the state with its timers, and what must happen along with the move.

Every part moves through here, so that the same move is made the same way everywhere. What leads to a move is
decided by the parts; whether it is allowed is the table's (`kraftd.raft.transitions`).

Follows: "Timer on entry" of section 1.2, VOTE-29, D-07, D-08, D-13.
"""

from kraftd.errors import ErrorCode
from kraftd.raft.core import Core
from kraftd.raft.effects import AppendDone, AssignEpoch, ElectionEnded, ReadDone, ResignDone
from kraftd.raft.leadership import Leadership
from kraftd.raft.states import (
    Ballot,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
    state_name,
)
from kraftd.raft.timing import NEVER_MS
from kraftd.raft.wire import Standing
from kraftd.types import NO_NODE, Epoch, NodeId, Now, ReplicaKey


class Roles:
    """The moves of one member."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.refusals: dict[NodeId, str] = {}
        """Why voters refused in the ballot at hand."""

    def become_unattached(self, epoch: Epoch, now: Now, why: str, *, voted: ReplicaKey | None = None) -> None:
        """Wait in an epoch, perhaps with a vote given in it."""
        core = self.core
        state = core.state
        if epoch == state.epoch:
            leader_id, voted = state.election.leader_id, voted or state.election.voted
        else:
            leader_id = NO_NODE
        deadline_ms = now.mono_ms + core.timing.election_ms(core.dice)
        if not core.counts:
            deadline_ms = NEVER_MS
        elif (
            isinstance(state, Unattached | Candidate | Prospective) and epoch > state.epoch and voted is None
        ) and now.mono_ms < state.deadline_ms < NEVER_MS:
            deadline_ms = state.deadline_ms  # epoch bumps reset no timer (QS-23)
        core.become(Unattached(epoch, deadline_ms, leader_id, voted), why)
        self._leave()
        core.announce(leader_id)

    def become_follower(
        self, epoch: Epoch, leader_id: NodeId, now: Now, why: str, *, fetch_deadline_ms: int = 0
    ) -> None:
        """Follow a leader. A deadline that is still running stays (D-08)."""
        core = self.core
        voted = core.state.election.voted if epoch == core.epoch else None
        deadline_ms = fetch_deadline_ms or now.mono_ms + core.timing.fetch_timeout_ms
        core.attempts = 0
        core.become(Follower(epoch, leader_id, deadline_ms, voted), why)
        self._leave()
        core.announce(leader_id)

    def become_prospective(self, now: Now, why: str) -> None:
        """Ask for pre-votes. A leader that was just lost is not waited for (D-08)."""
        core = self.core
        state = core.state
        election = state.election
        lost = (
            frozenset({election.leader_id}) & core.voters.ids if isinstance(state, Follower) else frozenset()
        )
        prospective = Prospective(
            epoch=state.epoch,
            ballot=Ballot(core.voters.ids, frozenset({core.me.id}), silent=lost - {core.me.id}),
            started_at_ms=now.mono_ms,
            deadline_ms=now.mono_ms + core.timing.election_ms(core.dice),
            fetch_deadline_ms=state.fetch_deadline_ms if isinstance(state, Follower) else 0,
            leader_id=election.leader_id,
            voted=election.voted,
        )
        self.refusals.clear()
        core.become(prospective, why)

    def become_candidate(self, now: Now, why: str) -> None:
        """Ask for votes in the next epoch, having voted for itself."""
        core = self.core
        state = core.state
        silent = state.ballot.silent if isinstance(state, Prospective) else frozenset()
        core.attempts += 1
        candidate = Candidate(
            epoch=state.epoch + 1,
            me=core.me,
            ballot=Ballot(core.voters.ids, frozenset({core.me.id}), silent=silent),
            started_at_ms=now.mono_ms,
            deadline_ms=now.mono_ms + core.timing.election_ms(core.dice),
            attempt=core.attempts,
        )
        self.refusals.clear()
        core.become(candidate, why)
        core.settle()
        core.announce(NO_NODE)

    def become_leader(self, candidate: Candidate, now: Now) -> None:
        """Lead; the epoch begins where the log ends (VOTE-29)."""
        core = self.core
        start_offset = core.log.end_offset
        granted = candidate.ballot.granted
        core.become(Leader(candidate.epoch, core.me, start_offset, granted, now.mono_ms), "majority granted")
        core.attempts = 0
        core.log.epochs.assign(candidate.epoch, start_offset)
        core.out.append(AssignEpoch(candidate.epoch, start_offset))
        core.leadership = Leadership(
            epoch=candidate.epoch,
            epoch_start_offset=start_offset,
            me=core.me.id,
            voters=core.voters,
            timing=core.timing,
            now_ms=now.mono_ms,
        )

    def become_resigned(self, now: Now, why: str, successors: tuple[ReplicaKey, ...]) -> None:
        """Lead no longer, but remember having led (QS-07)."""
        core = self.core
        deadline_ms = now.mono_ms + core.timing.election_ms(core.dice)
        voted = core.state.election.voted
        core.become(Resigned(core.epoch, core.me, deadline_ms, voted, successors), why)
        self._leave()

    def adopt(self, standing: Standing, now: Now, why: str, *, from_leader: bool = False) -> None:
        """Take in what somebody says about the epoch, as far as it is news ("maybe transition", 1.6).

        Nothing that a peer says here is fatal: what cannot be true is logged and ignored (D-14).
        """
        core = self.core
        epoch, leader_id = standing.epoch, standing.leader_id
        if epoch < core.epoch:
            return
        if not core.believes(epoch):
            core.warn("impossible_epoch", f"told of epoch {epoch}, from epoch {core.epoch}: not believed")
            return
        if leader_id == core.me.id:
            if epoch > core.epoch:
                core.warn("inconsistent_leader", f"told to lead epoch {epoch}, which this member never led")
                self.become_unattached(epoch, now, why)
            return
        followable = leader_id != NO_NODE and core.learn(leader_id, standing.endpoint)
        if epoch > core.epoch:
            if followable:
                self.become_follower(epoch, leader_id, now, why)
            else:
                self.become_unattached(epoch, now, why)
            return
        known = core.leader_id
        if known not in (NO_NODE, leader_id) and leader_id != NO_NODE:
            core.warn("inconsistent_leader", f"{leader_id} is said to lead epoch {epoch}, but {known} does")
        elif followable and (known == NO_NODE or (from_leader and not isinstance(core.state, Follower))):
            self.become_follower(epoch, leader_id, now, why)

    def end_election(self, now: Now, *, won: bool) -> None:
        """Say how the ballot of the current state ended."""
        state = self.core.state
        if not isinstance(state, Prospective | Candidate):
            return
        ballot = state.ballot
        unheard = ballot.voters - ballot.granted - ballot.refused
        self.core.out.append(
            ElectionEnded(
                epoch=state.epoch,
                pre_vote=isinstance(state, Prospective),
                won=won,
                granted=sorted(ballot.granted),
                refused=[(voter, self.refusals.get(voter, "")) for voter in sorted(ballot.refused)],
                silent=sorted(unheard),
                took_ms=now.mono_ms - state.started_at_ms,
            )
        )

    def _leave(self) -> None:
        """Answer everyone who waits on a leadership that is over (D-13)."""
        core = self.core
        led = core.leadership
        if led is None:
            return
        core.leadership = None
        for group in led.accumulator.drain():
            for append in group.appends:
                core.out.append(AppendDone(append.token, ErrorCode.NOT_CONTROLLER))
        for waiter in led.waiters.drop():
            core.out.append(AppendDone(waiter.token, ErrorCode.REQUEST_TIMED_OUT))
        for token in led.reads.take_all():
            core.out.append(ReadDone(token, ErrorCode.NOT_CONTROLLER))
        for fetch in (*led.parked.take_all(), *led.cold.values()):
            core.refuse_fetch(fetch.handle, fetch.version, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for handover in (led.handover, led.asked_to_leave):
            if handover is not None and handover.token is not None:
                why = (
                    f"lost the leadership while handing over: {state_name(core.state)} in epoch {core.epoch}"
                )
                error = ErrorCode.NOT_CONTROLLER
                core.out.append(ResignDone(handover.token, error, core.epoch, core.leader_id, why))
