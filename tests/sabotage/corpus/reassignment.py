"""Bugs in moving replicas to other brokers."""

from tests.sabotage.mutant import Mutant, mutant

_TESTS = "tests/unit/controller/test_reassignment.py"
_PACKAGE = "kraftd.controller.partitions"


def _moving(name: str, source: str, text: str, test: str, *edits: tuple[str, str, str]) -> Mutant:
    """A mutant that one test is there for."""
    targets = tuple((f"{_PACKAGE}.{target}", old, new) for target, old, new in edits)
    return mutant(name, source, text, "tests", *targets, where=(f"{_TESTS}::{test}",))


REASSIGNMENT = (
    _moving(
        "cancel-loses-records",
        "cancelPartitionReassignment",
        "A move is called off although only what it has added is in sync: records are lost unasked.",
        "test_calling_off_is_refused_if_only_what_was_added_is_in_sync",
        (
            "reassignment:_Moves.change",
            "if is_unclean and not self._rules.of_topic(topic_id).is_unclean_allowed:",
            "if False:",
        ),
    ),
    _moving(
        "cancel-keeps-the-isr",
        "PartitionReassignmentRevert",
        "A replica that is taken out by calling a move off stays in the ISR.",
        "test_a_move_that_is_called_off_leaves_what_was_there",
        (
            "reassignment:called_off",
            "isr = tuple(one for one in partition.isr if one not in adding)",
            "isr = partition.isr",
        ),
    ),
    _moving(
        "cancel-goes-on",
        "PartitionReassignmentRevert",
        "A move that was called off goes on removing replicas.",
        "test_a_move_that_is_called_off_leaves_what_was_there",
        ("reassignment:called_off", "removing=(), adding=()", "adding=()"),
    ),
    _moving(
        "move-elects-uncleanly",
        "changePartitionReassignment",
        "A move elects a leader that may lack records, since the topic allows that.",
        "test_a_move_elects_nobody_who_may_lack_records",
        (
            "reassignment:_Moves.change",
            "self._rules.change(partition, moved_to(partition, wanted), ElectionKind.ONLINE)",
            "self._rules.change(partition, moved_to(partition, wanted))",
        ),
    ),
    _moving(
        "who-goes-leads-first",
        "PartitionReassignmentReplicas",
        "Replicas that are to go come first, so that one of them is the preferred leader.",
        "test_a_move_names_who_is_added_and_removed_and_puts_those_last_who_go",
        ("reassignment:moved_to", "(*wanted, *removing)", "(*removing, *wanted)"),
    ),
    _moving(
        "going-back-waits-for-ever",
        "changePartitionReassignment",
        "A move that goes back waits for what the first request added, as in Kafka.",
        "test_a_move_that_goes_back_is_over",
        (
            "reassignment:moved_to",
            "adding=adding)",
            "adding=adding or None)",
        ),
    ),
    _moving(
        "retry-forgets-what-is-added",
        "changePartitionReassignment",
        "Who asks for a move twice makes its partition forget what is added: calling it off keeps that.",
        "test_a_move_that_is_asked_for_twice_is_still_the_first_one",
        ("reassignment:moved_to", "before.difference(partition.adding_replicas)", "before"),
    ),
    _moving(
        "removed-against-the-request",
        "changePartitionReassignment",
        "A replica that the newest request wants is removed, since an earlier one did not, as in Kafka.",
        "test_who_was_to_go_and_is_wanted_after_all_stays",
        (
            "reassignment:moved_to",
            "removing=removing,",
            "removing=removing or None,",
        ),
    ),
    _moving(
        "factor-counts-who-goes",
        "validatePartitionReplicationFactorUnchanged",
        "A partition that is being moved counts replicas that are to go, and no move can be changed.",
        "test_of_a_partition_that_is_moved_those_count_that_it_shall_have",
        (
            "reassignment:_factor",
            ".difference(partition.removing_replicas)",
            "",
        ),
    ),
    _moving(
        "two-moves-of-one-partition",
        "alterPartitionReassignments",
        "A partition that a request names twice gets a mixture of both moves.",
        "test_a_partition_that_is_named_twice_stays",
        ("reassignment:alter_partition_reassignments", "times[topic.name, one.partition_index] > 1", "False"),
    ),
    _moving(
        "sick-replica-blocks",
        "KAFKA-19975",
        "A move waits for a replica that was out of sync before it began.",
        "test_another_sick_replica_does_not_hold_a_move_up",
        (
            "partition_change_builder:_with_reassignment_completed",
            "(*adding, *staying) if len(adding) < len(removing) else adding",
            "(*adding, *staying)",
        ),
    ),
    _moving(
        "fewer-than-were-asked-for",
        "KAFKA-15665",
        "A move to fewer replicas ends while one of those that stay has not caught up.",
        "test_a_move_to_fewer_replicas_waits_for_all_that_stay",
        (
            "partition_change_builder:_with_reassignment_completed",
            "(*adding, *staying) if len(adding) < len(removing) else adding",
            "adding",
        ),
    ),
)
