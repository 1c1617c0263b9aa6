"""Bugs of early suspicion: who is suspected, when, and who agrees (D-40)."""

from tests.sabotage.mutant import mutant

_TESTS = "tests/unit/raft/test_suspicion.py"
_ELECTIONS = "kraftd.raft.elections:Elections"
_SUSPICION = "kraftd.raft.suspicion:Suspicion"

SUSPECTING = (
    mutant(
        "suspects-for-all",
        "D-40",
        "Who suspects its leader campaigns, and asks nobody whether the leader was silent for others, too.",
        "sim",
        (
            f"{_ELECTIONS}._begin_suspicion",
            "ballot = Ballot(raft.quorum.voters.ids, frozenset({raft.me.id}), unreachable=silent)",
            "ballot = Ballot(raft.quorum.voters.ids, raft.quorum.voters.ids - silent, unreachable=silent)",
        ),
    ),
    mutant(
        "hears-and-grants",
        "D-40",
        "A follower that has just heard its leader grants a pre-vote to one that has not.",
        "sim",
        (
            f"{_ELECTIONS}._why_no_pre_vote",
            "if not self.raft.suspicion.is_known_silent(now.mono_ms):",
            "if self.raft.is_stopping:",
        ),
    ),
    mutant(
        "stale-grants-elect",
        "D-40",
        "A grant that was on its way for a second deposes a leader that was heard meanwhile by who gave it.",
        "sim",
        (f"{_ELECTIONS}.poll_suspicion", " or now.mono_ms - state.started_at_ms >= SUSPECT_MS", ""),
        (
            f"{_ELECTIONS}.wake_at_ms",
            "due_ms = min(ready_ms, state.started_at_ms + SUSPECT_MS)",
            "due_ms = ready_ms",
        ),
    ),
    mutant(
        "stale-rounds-are-awaited",
        "D-40",
        "A round of pre-votes that is too old to count goes on until something else wakes the node.",
        "tests",
        (
            f"{_ELECTIONS}.wake_at_ms",
            "due_ms = min(ready_ms, state.started_at_ms + SUSPECT_MS)",
            "due_ms = ready_ms",
        ),
        where=(_TESTS,),
    ),
    mutant(
        "suspects-within-a-gap",
        "D-40",
        "A leader is suspected after 450 ms, although it was silent for as long before, and was alive.",
        "tests",
        (f"{_SUSPICION}._find_span", "SUSPECT_AFTER_GAPS * longest_gap_ms", "longest_gap_ms // 3"),
        where=(_TESTS,),
    ),
    mutant(
        "s-above-the-fetch-timeout",
        "D-40",
        "After long gaps S grows beyond the fetch timeout.",
        "tests",
        (f"{_SUSPICION}._find_span", "min(span_ms, self._span_max_ms)", "span_ms"),
        where=(_TESTS,),
    ),
    mutant(
        "never-doubts-itself",
        "D-40",
        "A suspicion that was wrong does not double S.",
        "tests",
        (f"{_SUSPICION}._double", "self._doublings = 1 if is_over", "self._doublings = 0 if now_ms"),
        where=(_TESTS,),
    ),
    mutant(
        "doubts-for-ever",
        "D-40",
        "A suspicion that was wrong once doubles S for good.",
        "tests",
        (f"{_SUSPICION}._find_span", "if now_ms < self._doubled_until_ms else 0", "if now_ms >= 0 else 0"),
        where=(_TESTS,),
    ),
    mutant(
        "suspects-after-its-own-stall",
        "D-01",
        "A process that stood still takes the time for silence of its leader.",
        "tests",
        (
            "kraftd.raft.follower:FollowerRole.poll_follower",
            "raft.suspicion.on_stalled(now.mono_ms)",
            "raft.suspicion.silent_ms(now.mono_ms)",
        ),
        where=(_TESTS,),
    ),
    mutant(
        "grants-outlive-a-stall",
        "D-01",
        "A node that stood still after it had asked campaigns by grants from before the stall.",
        "tests",
        (
            "kraftd.raft.follower:FollowerRole.poll_follower",
            "raft.update_state(replace(state, ballot=None))",
            "pass",
        ),
        (
            f"{_ELECTIONS}.poll_suspicion",
            "if timeouts_deferred or not isinstance(state, Follower)",
            "if not isinstance(state, Follower)",
        ),
        where=(_TESTS,),
    ),
    mutant(
        "grants-after-its-own-stall",
        "D-01",
        "A voter that stood still after it had found its leader silent grants a pre-vote before it has listened.",
        "tests",
        (
            f"{_SUSPICION}.is_known_silent",
            "return self.is_silent and now_ms - self.silent_at_ms <= STALL_MS",
            "return self.is_silent and now_ms >= self.silent_at_ms",
        ),
        where=(_TESTS,),
    ),
    mutant(
        "heard-and-suspected-on",
        "D-40",
        "A heartbeat of the leader, or its refusal, does not end the suspicion.",
        "tests",
        (
            "kraftd.raft.state:RaftState.hear_leader",
            "if isinstance(state, Follower) and state.ballot is not None:",
            "if isinstance(state, Follower) and is_response:",
        ),
        where=(_TESTS,),
    ),
    mutant(
        "silent-while-it-flushes",
        "D-40",
        "A follower that flushes, and so has not asked for anything, takes its leader for silent.",
        "tests",
        (
            f"{_SUSPICION}.on_heard",
            "self._wait_anew(now_ms if still_waits else NEVER_MS, now_ms)",
            "self._wait_anew(now_ms if still_waits or is_response else NEVER_MS, now_ms)",
        ),
        where=(_TESTS,),
    ),
    mutant(
        "learns-nothing-from-deposing",
        "D-40",
        "That a suspected leader answers a request for its vote does not tell that it was alive.",
        "tests",
        (
            f"{_SUSPICION}.on_campaign",
            "self._deposed = (epoch, leader_id)",
            "self._deposed = (epoch - 1, leader_id)",
        ),
        where=(_TESTS,),
    ),
    mutant(
        "parked-until-the-observers-wait-ends",
        "D-40",
        "The end of the first observer's wait takes the place of that of a follower's, which is sooner.",
        "tests",
        (
            "kraftd.raft.purgatory:FetchPurgatory.take_expired",
            "left = chain(self._followers.values(), self._observers.values())",
            "left = self._observers.values() or self._followers.values()",
        ),
        where=(
            "tests/unit/raft/test_pieces.py",
            "tests/stories/test_replication.py",
        ),
    ),
    mutant(
        "its-own-stall-is-the-leaders-gap",
        "D-40",
        "What waited in the socket while a follower stood still is a gap of its leader: S grows by it.",
        "tests",
        (
            "kraftd.raft.node:RaftNode._forgive_own_stall",
            "sender == self._raft.leader_id",
            "sender == self._raft.me.id",
        ),
        where=(_TESTS,),
    ),
)
