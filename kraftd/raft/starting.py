"""The state in which a member begins, by what the last process left behind.

Follows: QS-01 to QS-12.
Differs: a stored vote for itself does not stop a member that is no voter any more (Q-14). A member that is
not whole waits or follows, whatever it was (D-06). The only voter does not stay resigned: nobody else leads.
"""

from kraftd.raft.core import Core
from kraftd.raft.states import Ballot, Candidate, EpochState, Follower, Resigned, Unattached
from kraftd.raft.timing import NEVER_MS
from kraftd.types import NO_NODE, Election, Now


def initial_state(core: Core, stored: Election, now: Now) -> EpochState:
    """Where to begin. Nothing is persisted anew except an epoch that the log is ahead of (QS-09)."""
    election_ms = now.mono_ms + core.timing.election_ms(core.dice) if core.counts else NEVER_MS
    if core.log.last_epoch > stored.epoch:
        text = f"the election file knows epoch {stored.epoch}, but the log has epoch {core.log.last_epoch}"
        core.warn("stored_epoch_behind_log", text)
        return Unattached(core.log.last_epoch, election_ms)
    leader_id, voted = stored.leader_id, stored.voted
    if leader_id == core.me.id:
        if core.counts and core.others:
            return Resigned(stored.epoch, core.me, election_ms, voted)
        return Unattached(stored.epoch, election_ms, leader_id, voted)
    if leader_id != NO_NODE and leader_id in core.endpoints:
        deadline_ms = now.mono_ms + max(1, core.timing.fetch_timeout_ms)
        return Follower(stored.epoch, leader_id, deadline_ms, voted)
    if voted is not None and voted.matches(core.me) and core.counts and leader_id == NO_NODE:
        ballot = Ballot(core.voters.ids, frozenset({core.me.id}))
        core.attempts = 1
        return Candidate(stored.epoch, core.me, ballot, now.mono_ms, election_ms)
    return Unattached(stored.epoch, election_ms, leader_id, voted)
