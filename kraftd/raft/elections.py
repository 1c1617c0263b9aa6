"""Votes and pre-votes: asking for them, giving them, counting them.

A pre-vote asks "would you vote for me?" and promises nothing: it writes no election and resets no timer. Only
a majority of them lets a node open a new epoch, so that a node that was cut off does not depose a healthy
leader when it returns (Q-15). A node refuses it while it is in touch with its leader; from the moment it lost
the leader it does not, or two followers could tell each other for ever that the dead one leads (KAFKA-17642).
Who is not elected follows its leader again if that one refused, too, and so is alive.

A follower that has heard nothing of its leader for long enough to suspect it asks for pre-votes, too, and
stays a follower meanwhile (`suspicion`, D-40): whatever it hears of the leader ends that, and only a majority
that had not heard the leader either makes it a candidate. A grant says so of the moment when it was given, so
it counts for 450 ms from when it was asked for; then all are asked anew.

A vote is a promise, durable before it is answered. A response counts only for the kind, epoch and round that
it was asked in.

Follows: VOTE-*, D-06 to D-08, D-40, KIP-996.
Differs: a candidate that is no voter gets no vote and raises no epoch (VOTE-23, D-37). Once the fetch timeout
is over, a leader is followed again only if it answered; a voter of Kafka's follows it in any case, and one
that knows none fetches from any voter until it finds it.
"""

from msgspec.structs import replace

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import rpc
from kraftd.raft.effects import VoteAnswered
from kraftd.raft.epoch_states import (
    Ballot,
    BallotResult,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
    state_name,
)
from kraftd.raft.events import RequestReceived
from kraftd.raft.request_manager import RequestKind, Sent
from kraftd.raft.rpc import CommonResponse, LeaderAndEpoch, VoteParams
from kraftd.raft.state import RaftState
from kraftd.raft.state_changes import StateChanges
from kraftd.raft.timing import (
    BEHIND_DELAY_MS,
    LISTEN_AGAIN_MS,
    PRE_VOTE_ROUNDS_MAX,
    SUSPECT_MS,
    ask_again_ms,
    loss_delay_ms,
    reach_again_ms,
    suspect_again_ms,
)
from kraftd.types import NEVER_MS, NO_NODE, Now

_NOT_WHOLE = "this node is not whole"

TAKEN_FOR_ANOTHER = "it knows another directory, or a later start, under this id"
"""The reason of a refusal by a voter that knows another identity under our id; `status` looks for it."""


class Elections:
    """The elections of one raft node: asks for votes, counts the responses, and answers vote requests."""

    def __init__(self, raft: RaftState, changes: StateChanges) -> None:
        self.raft = raft
        self.changes = changes

    # --- asking -----------------------------------------------------------------------------------------

    def poll_unattached(self, state: Unattached, now: Now, *, timeouts_deferred: bool) -> None:
        """Begin a pre-vote once the election timeout is over."""
        raft = self.raft
        if (
            raft.may_vote
            and not raft.is_stopping
            and not timeouts_deferred
            and now.mono_ms >= state.deadline_ms
        ):
            self.changes.become_prospective(now, "election timeout")

    def poll_prospective(self, state: Prospective, now: Now, *, timeouts_deferred: bool = False) -> None:
        """Send up to three pre-vote rounds, then return to Follower or Unattached."""
        raft = self.raft
        result = state.ballot.result
        if result is BallotResult.WON:
            self.changes.end_election(now, won=True)
            self.changes.become_candidate(now, "a majority would elect it")
        elif now.mono_ms >= state.deadline_ms and not timeouts_deferred:
            self._end_pre_votes(state, now, "pre-vote timed out")
        elif result is BallotResult.OPEN:
            self._ask(state.ballot, RequestKind.PRE_VOTE, now, round_=state.round)
        elif not state.ask_at_ms:
            self.changes.end_election(now, won=False)
            if state.round >= PRE_VOTE_ROUNDS_MAX:
                self._follow_again(state, now)
            else:
                raft.update_state(replace(state, ask_at_ms=now.mono_ms + ask_again_ms(raft.random_source)))
        elif now.mono_ms >= state.ask_at_ms:
            raft.requests.forget(RequestKind.PRE_VOTE)
            raft.refusals.clear()
            again = Ballot(state.ballot.voters, frozenset({raft.me.id}), unreachable=state.ballot.unreachable)
            raft.update_state(replace(state, ballot=again, round=state.round + 1, ask_at_ms=0))
            self._ask(again, RequestKind.PRE_VOTE, now, round_=state.round + 1)

    def _follow_again(self, state: Prospective, now: Now) -> None:
        """End the pre-votes; unless somebody refused, ask anew before the fetch timeout (D-08)."""
        if state.ballot.refused:
            self._end_pre_votes(state, now, "no majority would elect it")
            return
        # Node 1 was killed and is being started again, which takes half a second, when node 2, which led
        # since, is killed too. Node 3 finds nobody, and would wait for its fetch timeout although node 1
        # would elect it long before. If node 2 lives after all, its next response ends this.
        again_at_ms = now.mono_ms + reach_again_ms(self.raft.random_source)
        self._end_pre_votes(state, now, "no majority could be reached", campaign_at_ms=again_at_ms)

    def _end_pre_votes(
        self, state: Prospective, now: Now, why: str, *, campaign_at_ms: int = NEVER_MS
    ) -> None:
        """Follow the former leader again while its fetch timeout lasts, or if it answered; else become
        unattached (D-08).
        """
        deadline_ms = state.fetch_deadline_ms if state.fetch_deadline_ms > now.mono_ms else 0
        if not deadline_ms and state.leader_lives:
            # The disk of node 3 stood still for 3 s, so it did not fetch. Leader 1 cannot connect to it: no
            # heartbeat comes, but it refuses a pre-vote, as node 2 does. If node 3 waited for a heartbeat, it
            # would lack all records for as long as that lasts. It waits no longer for a good response than it
            # would have waited without a leader: the one that refuses may have resigned.
            deadline_ms = now.mono_ms + self.raft.timing.election_ms(self.raft.random_source)
        if state.leader_id != NO_NODE and deadline_ms:
            self.changes.become_follower(
                state.epoch,
                state.leader_id,
                now,
                why,
                fetch_deadline_ms=deadline_ms,
                campaign_at_ms=campaign_at_ms,
            )
        else:
            self.changes.become_unattached(state.epoch, now, why)

    def poll_candidate(self, state: Candidate, now: Now, *, timeouts_deferred: bool = False) -> None:
        """Ask for votes; after a lost election wait for a random backoff, then begin a pre-vote."""
        raft = self.raft
        if state.retry_at_ms != NEVER_MS:
            if now.mono_ms >= state.retry_at_ms and not raft.is_stopping:
                self.changes.become_prospective(now, "no majority")
            return
        result = state.ballot.result
        if result is BallotResult.WON:
            self.changes.end_election(now, won=True)
            self.changes.become_leader(state, now)
        elif result is BallotResult.LOST or (now.mono_ms >= state.deadline_ms and not timeouts_deferred):
            self.changes.end_election(now, won=False)
            raft.requests.forget(RequestKind.VOTE)
            wait_ms = raft.timing.backoff_ms(state.attempt, raft.random_source)
            raft.update_state(replace(state, retry_at_ms=now.mono_ms + max(1, wait_ms)))
        else:
            self._ask(state.ballot, RequestKind.VOTE, now)

    def poll_suspicion(self, now: Now, *, timeouts_deferred: bool) -> None:
        """Ask for pre-votes while the leader is silent, and go on following it (D-40). Their result counts
        here only, at the end of a turn: what had arrived of the leader was heard before.
        """
        raft = self.raft
        state, suspicion = raft.state, raft.suspicion
        if not suspicion.is_silent and now.mono_ms < suspicion.look_at_ms:
            return  # nearly always
        if timeouts_deferred or not isinstance(state, Follower) or not self._may_suspect(state):
            return
        if not suspicion.is_silent:
            delay_ms = max(1, loss_delay_ms(raft.random_source))
            delay_ms += BEHIND_DELAY_MS if raft.is_behind else 0
            suspicion.on_silent(now.mono_ms, now.mono_ms + delay_ms)
            return
        suspicion.silent_at_ms = now.mono_ms
        ballot = state.ballot
        if ballot is None:
            if now.mono_ms >= suspicion.ask_at_ms:
                self._begin_suspicion(state, now)
        elif ballot.result is BallotResult.LOST or now.mono_ms - state.started_at_ms >= SUSPECT_MS:
            # Leader 3 stood still for half a second, and node 2 granted node 1 a pre-vote meanwhile. Node 2
            # has heard node 3 ever since. Its grant was on its way for a second, and what node 3 tells node 1
            # still is: by that grant node 1 would depose a leader that works.
            suspicion.on_silent(now.mono_ms, now.mono_ms + suspect_again_ms(raft.random_source))
            raft.update_state(replace(state, ballot=None))
        elif ballot.result is BallotResult.WON:
            suspicion.on_campaign(state.leader_id, state.epoch + 1, now.mono_ms)
            self.changes.become_prospective_elected(state, ballot, now, "a majority does not hear the leader")
        else:
            self._ask(ballot, RequestKind.PRE_VOTE, now, round_=state.round)

    def _may_suspect(self, state: Follower) -> bool:
        return state.in_touch and self.raft.may_vote and not self.raft.is_stopping

    def _begin_suspicion(self, state: Follower, now: Now) -> None:
        """Begin a round of pre-votes. The leader is asked, too: it refuses if it is alive, which ends the
        suspicion.
        """
        raft = self.raft
        suspicion = raft.suspicion
        if not suspicion.has_asked:
            silent_ms = suspicion.silent_ms(now.mono_ms)
            text = (
                f"leader {state.leader_id} was silent for {silent_ms} ms, and {suspicion.span_ms} are allowed"
            )
            raft.warn("leader_suspected", f"{text}: asking the voters whether they hear it")
        raft.requests.forget(RequestKind.PRE_VOTE)
        raft.refusals.clear()
        silent = frozenset({state.leader_id}) & raft.quorum.voters.ids
        ballot = Ballot(raft.quorum.voters.ids, frozenset({raft.me.id}), unreachable=silent)
        round_ = suspicion.begin_round()
        raft.update_state(replace(state, ballot=ballot, round=round_, started_at_ms=now.mono_ms))
        self._ask(ballot, RequestKind.PRE_VOTE, now, round_=round_)

    def _ask(self, ballot: Ballot, kind: RequestKind, now: Now, *, round_: int = 0) -> None:
        raft = self.raft
        for voter in sorted(ballot.outstanding):
            if raft.requests.is_ready(voter, kind, now.mono_ms):
                receiver = raft.quorum.voters.get(voter)
                params = VoteParams(
                    raft.epoch,
                    raft.me,
                    raft.durable_position,
                    rpc.NO_REPLICA if receiver is None else receiver.key,
                    pre_vote=kind is RequestKind.PRE_VOTE,
                )
                request = rpc.vote_request(raft.cluster_id, params)
                raft.send(voter, kind, request, now.mono_ms, round_=round_)

    def wake_at_ms(self) -> int:
        """Return the monotonic time at which this part must act next."""
        raft = self.raft
        match raft.state:
            case Unattached() as state:
                return NEVER_MS if raft.is_stopping or not raft.may_vote else state.deadline_ms
            case Prospective() as state:
                if state.ask_at_ms:
                    return min(state.deadline_ms, state.ask_at_ms)
                ready_ms = raft.requests.next_ready_ms(state.ballot.outstanding, RequestKind.PRE_VOTE)
                return min(state.deadline_ms, ready_ms)
            case Follower() as state if self._may_suspect(state):
                suspicion = raft.suspicion
                if not suspicion.is_silent:
                    return suspicion.look_at_ms
                due_ms = suspicion.ask_at_ms
                if state.ballot is not None:
                    ready_ms = raft.requests.next_ready_ms(state.ballot.outstanding, RequestKind.PRE_VOTE)
                    due_ms = min(ready_ms, state.started_at_ms + SUSPECT_MS)
                return min(due_ms, suspicion.silent_at_ms + LISTEN_AGAIN_MS)
            case Candidate() as state:
                if state.retry_at_ms != NEVER_MS:
                    return NEVER_MS if raft.is_stopping else state.retry_at_ms
                ready_ms = raft.requests.next_ready_ms(state.ballot.outstanding, RequestKind.VOTE)
                return min(state.deadline_ms, ready_ms)
            case _:
                return NEVER_MS

    # --- counting ---------------------------------------------------------------------------------------

    def on_vote_response(
        self, sent: Sent, header: CommonResponse, response: m.VoteResponse, now: Now
    ) -> None:
        """Count a response if it belongs to the current ballot."""
        granted = header.error == ErrorCode.NONE and response.topics[0].partitions[0].vote_granted
        raft = self.raft
        if raft.suspicion.on_vote_response(sent.to, sent.epoch, now.mono_ms):
            raft.warn_suspicion_wrong(f"suspected leader {sent.to} answers a request for its vote")
        elif isinstance(raft.state, Follower) and sent.to == raft.leader_id and not granted:
            raft.hear_leader(now.mono_ms, is_response=False)
        if not granted and self._is_leaders_word(sent, header):
            raft.update_state(replace(raft.state, leader_lives=True))
        why = "" if granted else self._refusal(header)
        self._count(sent, granted=granted, why=why)
        self._act_on_result(now)

    def _is_leaders_word(self, sent: Sent, header: CommonResponse) -> bool:
        """Whether a response tells a prospective node that its leader leads on: it comes from that leader
        itself, the node that is known under its id (D-37), and speaks of this epoch.
        """
        raft = self.raft
        state, told = raft.state, header.leader_and_epoch
        return (
            isinstance(state, Prospective)
            and self._ballot_of(sent) is not None
            and header.error == ErrorCode.NONE
            and (told.epoch, told.leader_id) == (state.epoch, sent.to)
            and state.leader_id == sent.to
            and raft.peers.is_trusted(raft.peers.outbound_identity(sent.to))
        )

    def on_vote_failed(self, sent: Sent, reason: str, now: Now) -> None:
        """Stop waiting for a voter that could not be asked; it is asked again all the same (D-08)."""
        ballot = self._ballot_of(sent)
        if ballot is not None:
            self.raft.refusals[sent.to] = reason
            self.raft.update_state(replace(self.raft.state, ballot=ballot.mark_unreachable(sent.to)))
            self._act_on_result(now)

    def _count(self, sent: Sent, *, granted: bool, why: str) -> None:
        raft = self.raft
        state, ballot = raft.state, self._ballot_of(sent)
        if ballot is None:
            return
        if granted:
            barriers = raft.peers.verify_identity(raft.peers.outbound_identity(sent.to))
            if barriers is None:
                # Node 3 votes, and answers from another directory than the one remembered: it was wiped, and
                # may have voted for node 2 in this epoch before. With its second vote two nodes could lead
                # one epoch (D-06).
                granted, why = False, "it is not the voter known under that id"
            else:
                raft.out.extend(barriers)
        if not granted:
            raft.refusals[sent.to] = why
        ballot = ballot.count(sent.to, granted=granted)
        if isinstance(state, Prospective) and ballot.result is not BallotResult.LOST:
            # The round was lost because node 2 could not be reached, and the next one waits for `ask_at_ms`.
            # Now node 2 grants this one after all: it is not lost any more, and there is nothing to wait for.
            raft.update_state(replace(state, ballot=ballot, ask_at_ms=0))
        else:
            raft.update_state(replace(state, ballot=ballot))

    def _ballot_of(self, sent: Sent) -> Ballot | None:
        """Return the ballot that the response to a request counts for; None if that is over."""
        match self.raft.state:
            case Prospective() | Follower() as state:
                this_round = (state.epoch, state.round)
                is_current = sent.kind is RequestKind.PRE_VOTE and (sent.epoch, sent.round) == this_round
            case Candidate() as state:
                is_current = (
                    sent.kind is RequestKind.VOTE
                    and sent.epoch == state.epoch
                    and state.retry_at_ms == NEVER_MS
                )
            case _:
                return None
        return state.ballot if is_current else None

    def _act_on_result(self, now: Now) -> None:
        """Act on a decided ballot in the same turn (VOTE-02)."""
        while isinstance(state := self.raft.state, Prospective | Candidate):
            if isinstance(state, Prospective) and not state.ask_at_ms:
                if state.ballot.result is BallotResult.OPEN:
                    return
                self.poll_prospective(state, now)
            elif isinstance(state, Candidate) and state.retry_at_ms == NEVER_MS:
                if state.ballot.result is BallotResult.OPEN:
                    return
                self.poll_candidate(state, now)
            else:
                return

    def _refusal(self, header: CommonResponse) -> str:
        if header.error == ErrorCode.INVALID_VOTER_KEY:
            return TAKEN_FOR_ANOTHER
        if header.error != ErrorCode.NONE:
            return f"error {header.error}"
        leader_id = header.leader_and_epoch.leader_id
        return "refused" if leader_id == NO_NODE else f"it follows {leader_id}"

    # --- giving -----------------------------------------------------------------------------------------

    def on_vote_request(self, event: RequestReceived, params: VoteParams, now: Now) -> None:
        """Answer a request for a vote or pre-vote; a vote that is granted is durable before the response."""
        raft = self.raft
        error, granted, why = self._consider(event, params, now)
        if error in (ErrorCode.NONE, ErrorCode.INVALID_VOTER_KEY):
            raft.out.append(VoteAnswered(params.candidate.id, params.epoch, params.pre_vote, granted, why))
        if params.pre_vote and params.epoch > raft.epoch:
            # The epoch that was asked for, or the other node could not use the response.
            leader_and_epoch = LeaderAndEpoch(params.epoch, NO_NODE)
        else:
            leader_and_epoch = raft.leader_and_epoch(event.version)
        raft.reply(event.handle, rpc.vote_response(error, leader_and_epoch, granted=granted))

    def _consider(self, event: RequestReceived, params: VoteParams, now: Now) -> tuple[ErrorCode, bool, str]:
        """Decide about a vote or pre-vote, open its epoch if that is newer, and record a vote that is given.
        Returns the error, whether it is granted, and why or why not.
        """
        raft = self.raft
        highest = params.epoch if params.pre_vote else params.epoch - 1
        if params.position.offset < 0 or not 0 <= params.position.epoch <= highest:
            return ErrorCode.INVALID_REQUEST, False, "impossible position"
        if not raft.is_plausible_epoch(params.epoch):
            return ErrorCode.INVALID_REQUEST, False, "impossible epoch"
        if params.epoch < raft.epoch:
            # An old copy of node 3 campaigns in epoch 28 while all others are in 53. It counts who answers as
            # a voter that knows it (`Rejoin.unheard`): it must hear from each whether that is so.
            if event.peer is not None and raft.peers.refuses(event.peer):
                return ErrorCode.INVALID_VOTER_KEY, False, raft.peers.identity_conflict(event.peer)
            return ErrorCode.FENCED_LEADER_EPOCH, False, "older epoch"
        if params.candidate.id < 0 or event.peer is None or event.peer.node_id != params.candidate.id:
            return ErrorCode.INVALID_REQUEST, False, "not the candidate itself"
        if not raft.quorum.is_voter:
            return ErrorCode.INVALID_REQUEST, False, "not asked of a voter"
        if params.candidate.id not in raft.quorum.voters:
            # Node 99 asks for votes of epoch 6. If it were refused but its epoch accepted, the leader of
            # epoch 5 would step down for a node that cannot be elected, and for its next request again
            # (D-37).
            return ErrorCode.INVALID_REQUEST, False, "no voter"
        barriers = raft.peers.verify_identity(event.peer)
        if barriers is None and not raft.peers.refuses(event.peer):
            return ErrorCode.NONE, False, _NOT_WHOLE
        if barriers is None:
            return ErrorCode.INVALID_VOTER_KEY, False, raft.peers.identity_conflict(event.peer)
        raft.out.extend(barriers)
        # The epoch moves even if the vote is refused. Node 1 leads epoch 4 and hears node 3 ask for votes of
        # epoch 6: a candidate of 6 never follows epoch 4 again, so node 1 steps down, and the node with the
        # better log asks in epoch 7.
        if not params.pre_vote and params.epoch > raft.epoch:
            self.changes.become_unattached(params.epoch, now, f"{params.candidate.id} asks for votes in it")
        if not raft.is_receiver(params.receiver):
            return ErrorCode.INVALID_VOTER_KEY, False, "meant for another voter"
        refusal = self._why_no_pre_vote(params, now) if params.pre_vote else self._why_no_vote(params)
        if not refusal and not params.pre_vote:
            raft.mark_initialized()
            if raft.state.election.voted is None:
                # A vote is recorded in the state, and only an unattached node gives one: it stays unattached,
                # or becomes it, with `voted` set. That is persisted before the response leaves.
                why = f"vote for {params.candidate.id}"
                self.changes.become_unattached(params.epoch, now, why, voted=params.candidate)
        return ErrorCode.NONE, not refusal, refusal or "its log is as complete as ours"

    def _why_no_pre_vote(self, params: VoteParams, now: Now) -> str:
        """Return why a pre-vote is refused; empty if it is granted."""
        match self.raft.state:
            case Leader():
                return "this node leads"
            # Node 3 was cut off and asks for pre-votes. Node 1 leads, node 2 is in touch with it, and both
            # refuse: with a new epoch node 3 would depose node 1. If node 1 dies, node 2 loses touch and
            # grants: otherwise nodes 2 and 3 would tell each other for ever that node 1 leads.
            # Whoever has heard nothing of it for so long that it asks for pre-votes itself grants them, too:
            # it does not know that its leader lives (D-40).
            case Follower(in_touch=True) as state if not self.raft.suspicion.is_known_silent(now.mono_ms):
                return f"in touch with leader {state.leader_id}"
            case Follower() | Unattached() | Prospective() | Candidate() | Resigned():
                return self._why_not_electable(params)

    def _why_no_vote(self, params: VoteParams) -> str:
        """Return why a vote in the current epoch is refused; empty if it is granted."""
        state = self.raft.state
        match state:
            case Unattached() | Prospective():
                # Node 3 voted for node 1 in epoch 4. If node 2 got its vote, too, both could lead epoch 4.
                if state.voted is not None and not state.voted.matches(params.candidate):
                    return f"voted for {state.voted.id}"
                # Node 1 asks again, because the response was lost: the promise stands, and is repeated. A
                # node with amnesia cannot know whether it is the one that it gave.
                if state.voted is not None:
                    return "" if self.raft.rejoin.is_whole else _NOT_WHOLE
                if state.leader_id != NO_NODE:
                    return f"{state.leader_id} leads this epoch"
                return self._why_not_electable(params)
            case Candidate() | Follower() | Leader() | Resigned():
                return f"{state_name(state)} in this epoch"

    def _why_not_electable(self, params: VoteParams) -> str:
        """Return why this node would not elect the candidate in any epoch: it cannot judge (D-06), or its own
        log is more complete; empty if it would.
        """
        raft = self.raft
        if not raft.rejoin.is_whole:
            return _NOT_WHOLE
        # Records 0 to 9 are committed on nodes 2 and 3. Node 3 is wiped and starts as if it were new; node 1,
        # whose log ends at 5, asks it. With its vote node 1 would lead without records 5 to 9. If no log
        # holds a record, the cluster is new, and one node must be elected.
        if raft.rejoin.health.uninitialized and params.position.offset > 0:
            return "this node has neither records nor promises: it cannot judge a log with records"
        # Records 0 to 9 are committed on nodes 1 and 2. Node 3 holds 0 to 7 and asks node 2, which holds what
        # node 3 lacks and refuses: each majority has a node that does. Our whole log is compared, the part
        # that is not flushed too: that only refuses more candidates.
        if params.position.log_order < raft.log.position.log_order:
            return f"its log ends before ours, at {raft.log.end_offset} in epoch {raft.log.last_epoch}"
        return ""
