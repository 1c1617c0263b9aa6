"""Bugs in how an election becomes durable, and in what a leader that stops does before it closes its files."""

from tests.sabotage.mutant import mutant

_LEAVING = "tests/unit/raft/test_behaviours_leaving.py"
_ANNOUNCEMENTS = "tests/unit/raft/test_behaviours_announcements.py"

SLOTS = (
    mutant(
        "log-closed-before-the-hand-over",
        "D-09",
        "A leader that stops closes its files as soon as it has voted, while its successor needs the disk.",
        "tests",
        (
            "kraftd.raft.resignation:Resignation._awaits_successor",
            "if not self._was_handed_over or raft.is_epoch_committed:",
            "if True:",
        ),
        where=(
            f"{_LEAVING}::test_a_leader_that_stops_votes_for_its_successor_and_follows_it_up_to_its_first_commit",
        ),
    ),
    mutant(
        "successor-awaited-for-ever",
        "D-09",
        "A leader that stops waits for a successor that never commits anything up to its own deadline.",
        "tests",
        (
            "kraftd.raft.resignation:Resignation._awaits_successor",
            "return now.mono_ms < self._follows_until_ms",
            "return True",
        ),
        where=(
            f"{_LEAVING}::test_a_leader_that_stops_waits_for_its_successor_no_longer_than_a_fetch_timeout_or_its_deadline",
        ),
    ),
    mutant(
        "epoch-told-before-its-vote-is-asked-for",
        "D-09",
        "The successor answers EndQuorumEpoch with its new epoch, and the old leader writes that and its vote one by one.",
        "tests",
        (
            "kraftd.raft.announcements:Announcements.on_end_request",
            "raft.reply(event.handle, rpc.end_response(error, raft.leader_and_epoch(event.version)))\n    if error is ErrorCode.NONE and isinstance(raft.state, Follower):\n        self._campaign_as_successor(raft.state, params, now)",
            "if error is ErrorCode.NONE and isinstance(raft.state, Follower):\n        self._campaign_as_successor(raft.state, params, now)\n    raft.reply(event.handle, rpc.end_response(error, raft.leader_and_epoch(event.version)))",
        ),
        where=(f"{_ANNOUNCEMENTS}::test_the_old_leader_is_answered_before_the_next_epoch_begins",),
    ),
)
