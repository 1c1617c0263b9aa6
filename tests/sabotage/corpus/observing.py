"""Bugs of what operators are told in numbers: elections that are miscounted, shares of time, lags."""

from tests.sabotage.mutant import mutant

_ELECTIONS = "tests/unit/metadata/test_leader_elections.py"
_SEEN = "tests/unit/controller/test_election_counts.py"
_APPLIER = "tests/unit/runtime/test_applier.py"
_EVENTS = "tests/unit/runtime/test_event_status.py"
_STATUS = "tests/unit/runtime/test_node_status.py"
_COUNTS = "kraftd.controller.election_counts:SeenElections"

OBSERVING = (
    mutant(
        "unclean-elections-by-the-isr",
        "Kafka's TopicDelta",
        "An unclean election counts as one within the ISR, and nobody is alarmed that records may be lost.",
        "tests",
        (
            "kraftd.metadata.parts.topics.leader_elections:election_of",
            "if recovery == RECOVERING:",
            "if recovery == RECOVERING and leader not in after[1]:",
        ),
        where=(f"{_ELECTIONS}::test_an_election_is_counted_by_kind_and_reason",),
    ),
    mutant(
        "eligible-after-the-election",
        "Kafka's TopicDelta",
        "Whether a leader was eligible is looked up where it has ceased to be.",
        "tests",
        (
            "kraftd.metadata.parts.topics.leader_elections:election_of",
            "leader in before[3]",
            "leader in after[3]",
        ),
        where=(f"{_ELECTIONS}::test_an_election_is_counted_by_kind_and_reason",),
    ),
    mutant(
        "every-change-an-election",
        "Kafka's TopicDelta",
        "A change of the ISR alone counts as an election.",
        "tests",
        (
            "kraftd.metadata.parts.topics.builder:TopicsBuilder.change_partition",
            "were[2] != are[2]",
            "were != are",
        ),
        where=(f"{_ELECTIONS}::test_a_change_without_another_leader_is_no_election",),
    ),
    mutant(
        "elections-of-last-week",
        "D-23",
        "A node that restarts counts the elections that it reads again, and raises alarms about them.",
        "tests",
        (f"{_COUNTS}.counts", "- base.get(election, 0)", "- 0 * base.get(election, 0)"),
        where=(f"{_SEEN}::test_what_was_there_at_the_start_does_not_count",),
    ),
    mutant(
        "a-snapshot-forgets-elections",
        "D-23",
        "Who loads a snapshot forgets what it had counted.",
        "tests",
        (f"{_COUNTS}.replaced", "dict(self.counts(before))", "{}"),
        where=(f"{_SEEN}::test_a_snapshot_in_the_place_of_the_image_takes_no_count_back",),
    ),
    mutant(
        "caught-up-before-anything-is-known",
        "D-23",
        "A node takes itself for caught up while it does not know yet what is committed.",
        "tests",
        (
            "kraftd.runtime.applier:Applier._look_whether_caught_up",
            "0 < self._target <= self.applied_offset",
            "self._target <= self.applied_offset",
        ),
        where=(
            f"{_APPLIER}::test_a_node_has_caught_up_once_when_all_that_is_known_to_be_committed_is_applied",
        ),
    ),
    mutant(
        "idle-since-the-last-reader",
        "Kafka's TimeRatio",
        "Each reader of an idle ratio takes the time from the others: two that come at once tell of milliseconds.",
        "tests",
        (
            "kraftd.runtime.idle_ratio:IdleRatio.read",
            "since_ms, busy_since_ms = self._older",
            "since_ms, busy_since_ms = self._older\n    self._older = (now_ms, busy_ms)",
        ),
        where=(f"{_EVENTS}::test_the_share_of_idle_time_is_over_the_last_30_to_60_seconds",),
    ),
    mutant(
        "a-silent-replica-without-lag",
        "D-11",
        "A replica that never fetched is told to be as far behind as the log is long, or not at all.",
        "tests",
        (
            "kraftd.runtime.node_status:NodeStatus._quorum_samples",
            "if peer.fetch_offset >= 0 else -1",
            "if peer.fetch_offset >= -1 else -1",
        ),
        where=(f"{_STATUS}::test_the_leader_tells_how_far_behind_the_others_are_and_nobody_else_does",),
    ),
)
