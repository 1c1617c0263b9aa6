"""Bugs in what becomes of elections that somebody asks for."""

from tests.sabotage.mutant import Mutant, mutant

_TESTS = "tests/unit/controller/test_electing.py"


def of_elections(name: str, text: str, test: str, *edits: tuple[str, str, str]) -> Mutant:
    """A mutant of ElectLeaders, which one of its unit tests catches."""
    full = [(f"kraftd.controller.partitions.electing:{target}", old, new) for target, old, new in edits]
    return mutant(name, "D-14", text, "tests", *full, where=(f"{_TESTS}::{test}",))


ELECTING = (
    of_elections(
        "elected-by-hand-as-the-topic-allows",
        "An election that is asked for is of the kind that the topic's config says: unclean ones do nothing.",
        "test_an_unclean_election_is_held_whatever_the_config_says",
        ("ElectLeadersPlan.decision", "Target(), election.kind", "Target()"),
    ),
    of_elections(
        "needless-election-called-impossible",
        "A partition that has its leader is told that no leader is available, and Kafka's tool fails.",
        "test_who_leads_already_needs_no_election",
        ("ElectLeadersPlan.decision", "if not election.is_needed(partition):", "if False:"),
    ),
    of_elections(
        "needless-election-and-impossible-one-sound-alike",
        "Of a partition whose only replica is in a log directory that failed it is said that it has a leader.",
        "test_what_is_said_is_true_of_an_active_broker_whose_log_directory_failed",
        ("ElectLeadersPlan.decision", "election.error, election.text", "election.error, election.not_needed"),
    ),
    of_elections(
        "elected-for-nobody",
        "A request about all partitions is taken for one that names none, and nothing happens.",
        "test_of_all_partitions_those_are_told_that_needed_an_election",
        ("_is_empty", "return request.topic_partitions is not None and not", "return not"),
    ),
    of_elections(
        "any-number-of-elections",
        "One request may name any number of partitions.",
        "test_more_than_ten_thousand_in_one_request_are_refused",
        ("elect_leaders", "_is_too_long(request) or ", ""),
    ),
    of_elections(
        "all-partitions-at-once",
        "A request about all partitions may lead to any number of changes.",
        "test_of_all_partitions_no_more_than_ten_thousand_may_need_an_election",
        ("elect_leaders", " or sum(map(len, listed)) > OPERATION_RECORDS_MAX", ""),
    ),
    of_elections(
        "needless-elections-told",
        "A response about all partitions tells of some that needed no election.",
        "test_of_all_partitions_one_that_is_led_or_gone_by_its_turn_is_not_told",
        ("ElectLeadersPlan.response", "if self._is_about_all:", "if False:"),
    ),
    of_elections(
        "refused-in-part",
        "A refusal is told of the partitions and not of the response: one about all partitions succeeds.",
        "test_an_unknown_type_is_refused_for_each_partition",
        ("refuse", "error_code=error, ", ""),
    ),
    of_elections(
        "outcomes-of-another-topic",
        "Each topic is told the outcomes of the first ones of the request.",
        "test_each_partition_has_an_outcome_of_its_own_in_the_order_of_the_request",
        ("ElectLeadersPlan.response", "islice(told,", "islice(self.told,"),
    ),
)
