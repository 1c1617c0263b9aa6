"""Bugs in what the controller decides about replicas, leaders and ISRs."""

from tests.sabotage.mutant import mutant

_EVENTS = "tests/unit/controller/test_broker_changes.py"
_ISRS = "tests/unit/controller/test_in_sync.py"
_BUILDER = "tests/unit/controller/test_partition_change_builder.py"
_LEFT_OUT = "tests/unit/controller/test_left_out.py"
_LISTS = "tests/unit/metadata/test_packed.py"
_PARTITIONS = "kraftd.controller.partitions"

PARTITIONS = (
    mutant(
        "fenced-in-isr",
        "KAFKA-13916",
        "A fenced broker is taken into an ISR, and can be elected.",
        "tests",
        (
            f"{_PARTITIONS}.partition_rules:is_active",
            "return not (broker.fenced or broker.in_controlled_shutdown)",
            "return not broker.in_controlled_shutdown",
        ),
        where=(_ISRS, _EVENTS),
    ),
    mutant(
        "stopping-in-isr",
        "KAFKA-13916",
        "A broker that is shutting down is taken back into the ISR that it has just left.",
        "tests",
        (
            f"{_PARTITIONS}.partition_rules:is_active",
            "return not (broker.fenced or broker.in_controlled_shutdown)",
            "return not broker.fenced",
        ),
        where=(_ISRS, _EVENTS),
    ),
    mutant(
        "reboot-isr-race",
        "KAFKA-14617",
        "A broker that was started anew without the end of its log enters an ISR by what its old start had.",
        "tests",
        (
            f"{_PARTITIONS}.in_sync:_are_eligible",
            "broker_id in active and epoch in (_NO_EPOCH, active[broker_id])",
            "broker_id in active",
        ),
        where=(f"{_ISRS}::test_another_incarnation_than_the_one_that_caught_up_does_not_enter_an_isr",),
    ),
    mutant(
        "stale-leader-proposes",
        "KAFKA-14617",
        "An earlier start of a broker, which was registered anew meanwhile, changes ISRs.",
        "tests",
        (
            f"{_PARTITIONS}.in_sync:is_current",
            "return broker is not None and broker.broker_epoch == broker_epoch",
            "return broker is not None",
        ),
        where=(_ISRS,),
    ),
    mutant(
        "elect-fenced-lkl",
        "KAFKA-19522",
        "The last known leader is elected while it is still fenced.",
        "tests",
        (
            f"{_PARTITIONS}.election:_the_last_known",
            "return last if candidates.is_acceptable(last) else NO_NODE",
            "return last",
        ),
        where=(f"{_EVENTS}::test_the_last_known_leader_leads_again_once_it_is_back_and_not_before",),
    ),
    mutant(
        "last-replica-standing",
        "KAFKA-15583",
        "A broker that stopped uncleanly stays eligible, and leads without what it lost.",
        "tests",
        (
            f"{_PARTITIONS}.partition_change_builder:_eligible",
            ".difference(after.isr, unclean)",
            ".difference(after.isr)",
        ),
        where=(_EVENTS,),
    ),
    mutant(
        "removed-and-still-eligible",
        "KIP-966",
        "A broker whose replica a reassignment removed stays eligible, and leads empty when it is added again.",
        "tests",
        (
            f"{_PARTITIONS}.partition_change_builder:_eligible",
            ".intersection(after.replicas)",
            "",
        ),
        where=(_BUILDER,),
    ),
    mutant(
        "eligible-with-a-large-isr",
        "KIP-966",
        "A broker stays eligible while others go on acknowledging without it.",
        "tests",
        (
            f"{_PARTITIONS}.partition_change_builder:_eligible",
            "if len(after.isr) >= rules.min_isr:",
            "if len(after.isr) > rules.min_isr:",
        ),
        where=(_EVENTS, _BUILDER),
    ),
    mutant(
        "unregistered-and-still-eligible",
        "KIP-966",
        "A broker that was unregistered stays eligible, and whoever gets its id next leads without records.",
        "tests",
        (f"{_PARTITIONS}.broker_changes:unregistered", "_lost(broker_id)", "_leaving(broker_id)"),
        where=(_EVENTS,),
    ),
    mutant(
        "reassign-two-sided",
        "KAFKA-15665",
        "A reassignment to fewer replicas ends before all that stay are in sync.",
        "tests",
        (
            f"{_PARTITIONS}.partition_change_builder:_with_reassignment_completed",
            "needed = (*adding, *staying) if len(adding) < len(removing) else adding",
            "needed = adding",
        ),
        where=(_BUILDER,),
    ),
    mutant(
        "reassign-held-up",
        "KAFKA-19975",
        "A sick replica that has nothing to do with a reassignment keeps it from ending.",
        "tests",
        (
            f"{_PARTITIONS}.partition_change_builder:_with_reassignment_completed",
            "needed = (*adding, *staying) if len(adding) < len(removing) else adding",
            "needed = (*adding, *staying)",
        ),
        where=(_BUILDER,),
    ),
    mutant(
        "shrunk-to-nobody",
        "KIP-966",
        "Without eligible leader replicas the last in sync leaves its ISR, and nobody is known to have everything.",
        "tests",
        (
            f"{_PARTITIONS}.partition_change_builder:_leadership",
            "is_new = isr != partition.isr and (isr or has_elr)",
            "is_new = isr != partition.isr",
        ),
        where=(_EVENTS,),
    ),
    mutant(
        "lossy-and-not-recovering",
        "KIP-704",
        "Whoever leads after an unclean election is not told that it has to recover.",
        "tests",
        (
            f"{_PARTITIONS}.partition_change_builder:_leadership",
            "if partition.leader_recovery_state != RECOVERING:",
            "if partition.leader_recovery_state == RECOVERING:",
        ),
        where=(_EVENTS,),
    ),
    mutant(
        "unclean-everywhere",
        "unclean.leader.election.enable",
        "Whoever is left leads, though the topic does not allow that records are lost.",
        "tests",
        (
            f"{_PARTITIONS}.partition_rules:TopicRules.election",
            "return ElectionKind.UNCLEAN if self.is_unclean_allowed else ElectionKind.ONLINE",
            "return ElectionKind.UNCLEAN",
        ),
        where=(_EVENTS,),
    ),
    mutant(
        "led-from-a-lost-directory",
        "KIP-858",
        "A broker is elected whose replica was in a directory that it does not have any more.",
        "tests",
        (
            "kraftd.metadata.replica_states:has_online_directory",
            "return directory != LOST and (not broker.log_dirs or directory in broker.log_dirs)",
            "return directory != LOST",
        ),
        where=(_EVENTS,),
    ),
    mutant(
        "new-leader-untold",
        "AlterPartition",
        "A leader whose proposal ended its leadership is told that it still leads.",
        "tests",
        (
            f"{_PARTITIONS}.in_sync:_Decision.of",
            "if change.leader not in (_NO_LEADER_CHANGE, self._sender):",
            "if change.leader == self._sender:",
        ),
        where=(_ISRS,),
    ),
    mutant(
        "about-nothing-in-another-epoch",
        "AlterPartition",
        "Who proposes nothing is asked for its epoch; Kafka answers before it looks.",
        "tests",
        (f"{_PARTITIONS}.in_sync:alter_partition", "if request.topics else", "if True else"),
        where=(_ISRS,),
    ),
    mutant(
        "about-nothing-too-late",
        "ControllerRequestContext",
        "Who asks about nothing and does not wait is told that it is too late; Kafka answers before it looks.",
        "tests",
        (
            "kraftd.controller.operations:WriteOperation.is_too_late",
            "and not self.is_empty(request)",
            "",
        ),
        where=("tests/unit/controller/test_controller.py::test_who_asks_about_nothing_is_never_too_late",),
    ),
    mutant(
        "gone-through-once",
        "slices",
        "Who was taken back into an ISR while it was being fenced is in it when it is fenced.",
        "tests",
        (
            f"{_PARTITIONS}.broker_changes:PartitionChanges._passes",
            "if is_whole_pass and not has_found:",
            "if not self._topics:",
        ),
        where=(_EVENTS,),
    ),
    mutant(
        "one-partition-ends-all",
        "D-35",
        "A partition that no decision can be made about keeps all others of its broker without a leader.",
        "tests",
        (
            f"{_PARTITIONS}.broker_changes:PartitionChanges._change",
            "except Exception as error:",
            "except OSError as error:",
        ),
        where=(_EVENTS,),
    ),
    mutant(
        "one-partition-ends-its-request",
        "D-14",
        "A partition that no decision can be made about takes a whole AlterPartition request with it.",
        "tests",
        (
            f"{_PARTITIONS}.request_plan:RequestPlan._outcome",
            "except Exception as error:",
            "except OSError as error:",
        ),
        where=(_LEFT_OUT,),
    ),
    mutant(
        "repeated-by-what-the-broker-is-now",
        "D-35",
        "What was left out when a directory was lost is never done: its broker is as it was.",
        "tests",
        (
            f"{_PARTITIONS}.broker_changes:PartitionChanges.of_left_out",
            "(*self._events, _Event(_leaderless, _as_it_is))",
            "(_Event(_leaderless, _as_it_is),)",
        ),
        where=(_LEFT_OUT,),
    ),
    mutant(
        "leaderless-of-a-snapshot",
        "unfence",
        "A partition that had no leader in a snapshot gets none when its broker comes back.",
        "tests",
        (
            "kraftd.metadata.parts.topics.builder:TopicsBuilder.put_values",
            "if leader != replicas[0]:",
            "if leader not in (replicas[0], _NO_LEADER):",
        ),
        where=(_LISTS,),
    ),
    mutant(
        "recovery-told-again",
        "Kafka 4.3.1",
        "An unclean election of a partition that recovers already writes that once more.",
        "tests",
        (
            f"{_PARTITIONS}.partition_change_builder:_leadership",
            "if partition.leader_recovery_state != RECOVERING:",
            "if True:",
        ),
        where=(_BUILDER,),
    ),
    mutant(
        "a-lost-directory-is-an-unclean-stop",
        "Kafka 4.3.1",
        "Who says that a replica is in a directory which is not online is not eligible any more.",
        "tests",
        (
            f"{_PARTITIONS}.directory_assignment:AssignReplicasToDirsPlan.decision",
            "Target(isr=without_broker(partition.isr, me))",
            "Target(isr=without_broker(partition.isr, me), unclean=(me,))",
        ),
        where=("tests/unit/controller/test_directory_assignment.py",),
    ),
    mutant(
        "another-order-of-refusals",
        "Kafka 4.3.1",
        "Who does not lead, and is behind, is told to ask again with a newer partition epoch.",
        "tests",
        (
            f"{_PARTITIONS}.in_sync:_Decision.of",
            "for is_wrong, error in CHECKS:",
            "for is_wrong, error in (*CHECKS[:3], CHECKS[4], CHECKS[3], *CHECKS[5:]):",
        ),
        where=(_ISRS,),
    ),
    mutant(
        "blanks-permit-unclean-elections",
        "Kafka 4.3.1",
        "A topic with unclean.leader.election.enable = ' true' has records thrown away; Kafka's waits.",
        "tests",
        (
            f"{_PARTITIONS}.partition_rules:PartitionRules._topic_rules",
            "unclean.lower()",
            "unclean.strip().lower()",
        ),
        where=(_EVENTS,),
    ),
)
