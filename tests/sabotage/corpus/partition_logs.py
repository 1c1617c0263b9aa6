"""Bugs of the controller that cost messages of partitions, or do what is denied, caught in simulated clusters."""

from tests.sabotage.mutant import Mutant, mutant

_STORIES = "tests/sim/test_partition_scenarios.py"
_CONTROLLER = "kraftd.controller"


def _told(name: str, source: str, text: str, story: str, *edits: tuple[str, str, str]) -> Mutant:
    """A mutant that breaks one story of a small cluster, or that a judge sees in it."""
    full = [(f"{_CONTROLLER}.{target}", old, new) for target, old, new in edits]
    return mutant(name, source, text, "tests", *full, where=(f"{_STORIES}::test_{story}",))


_LAST_STANDING = "the_last_replica_standing_takes_nothing_along"
_LAST_KNOWN = "the_last_known_leader_leads_once_it_is_unfenced"
_SHUTS_DOWN = "who_shuts_down_enters_no_isr_and_holds_nobody_up"
_SICK = "a_sick_replica_does_not_hold_a_move_up"
_DENIED = "what_is_denied_is_not_done_whoever_leads"
_BUILDER = "partitions.partition_change_builder"

PARTITION_LOGS = (
    # --- who leads ---
    _told(
        "nobody-is-eligible",
        "KIP-966",
        "Whoever left in order with everything is forgotten, and the last one takes the messages along.",
        _LAST_STANDING,
        (f"{_BUILDER}:_eligible", "if len(after.isr) >= rules.min_isr:", "if after.replicas:"),
    ),
    _told(
        "elected-and-not-in-sync",
        "KIP-966",
        "An eligible replica that leads is in no ISR.",
        _LAST_STANDING,
        (
            f"{_BUILDER}:_leadership",
            "isr, elr = (leader,), tuple(one for one in elr if one != leader)",
            "elr = tuple(one for one in elr if one != leader)",
        ),
    ),
    _told(
        "elected-while-it-goes",
        "KAFKA-13916",
        "A broker that is being fenced is elected where it is the last one.",
        _LAST_STANDING,
        ("partitions.broker_changes:_leaving", "without=(broker_id,),", "without=(),"),
    ),
    _told(
        "eligible-without-its-tail",
        "KAFKA-18106",
        "A broker that was killed while it stopped stays eligible, and leads without what it lost.",
        "who_was_killed_while_it_stopped_is_not_trusted",
        (
            "partitions.broker_changes:restarted",
            "_leaving(broker_id) if clean else _lost(broker_id)",
            "_leaving(broker_id)",
        ),
    ),
    _told(
        "led-where-it-is-being-lost",
        "slices",
        "A search for leaders elects a broker in a directory that it is losing, as often as it is taken away.",
        "a_directory_that_fails_is_not_given_back_by_who_looks_for_leaders",
        (
            "partitions.partition_rules:PartitionRules.accepts",
            "self._leaving.has_online_directory(broker, directory)",
            "Leaving().has_online_directory(broker, directory)",
        ),
    ),
    _told(
        "stops-halfway",
        "slices",
        "A hand-over that fails cuts off a controlled shutdown, and the broker is never told to stop.",
        "what_a_hand_over_that_fails_cuts_off_is_done_by_who_leads_on",
        ("timers:finish", "if broker is None or state_of(broker) is not _STOPPING:", "if True:"),
        ("brokers.heartbeats:heartbeat", " or _stops_adrift(context, broker, request):", ":"),
    ),
    _told(
        "lossy-and-nobody-says-so",
        "KIP-704",
        "An unclean election is recorded as if nothing could be lost.",
        "nobody_leads_uncleanly_where_that_is_off",
        ("partitions.election:elect", "Elected(leader, is_unclean, _", "Elected(leader, False, _"),
    ),
    _told(
        "unclean-whatever-the-topic-says",
        "unclean.leader.election.enable",
        "Every change of a partition may elect uncleanly.",
        "nobody_leads_uncleanly_where_that_is_off",
        (
            "partitions.partition_rules:PartitionRules.change",
            "election or topic.election",
            "ElectionKind.UNCLEAN",
        ),
    ),
    _told(
        "last-leader-forgotten",
        "KIP-966",
        "Nobody notes who led last: a partition that lost all who are in sync never has a leader again.",
        _LAST_KNOWN,
        (
            f"{_BUILDER}:_last_known_elr",
            "return None if partition.last_known_elr else (partition.leader,)",
            "return None",
        ),
    ),
    _told(
        "last-leader-remembered-too-long",
        "KIP-966",
        "Who led last is noted still when somebody leads, and is elected another time.",
        _LAST_KNOWN,
        (
            f"{_BUILDER}:_last_known_elr",
            "return () if leader >= 0 and partition.last_known_elr else None",
            "return None",
        ),
    ),
    _told(
        "registered-unfenced",
        "KAFKA-19522",
        "A new start may lead before it has read the log.",
        _LAST_KNOWN,
        ("brokers.registration:record_of", "fenced=True,", "fenced=False,"),
    ),
    _told(
        "unfenced-and-forgotten",
        "KAFKA-12670",
        "A broker comes back, and nobody looks for what it could lead.",
        _LAST_KNOWN,
        ("brokers.heartbeats:_unfencing", "first=(record,), changes=changes", "first=(record,)"),
    ),
    _told(
        "unfenced-one-slice-too-late",
        "slices",
        "Who is being unfenced is not accepted before that is in the image, and its partitions are settled.",
        _LAST_KNOWN,
        ("partitions.broker_changes:unfenced", ", also=(broker_id,)", ""),
    ),
    _told(
        "preferred-and-behind",
        "ElectLeaders",
        "The preferred replica leads, in sync or not.",
        "a_preferred_replica_leads_only_if_it_has_everything",
        (
            "partitions.election:_the_preferred",
            "return first if candidates.is_valid(first) else NO_NODE",
            "return first",
        ),
    ),
    # --- who is in sync ---
    _told(
        "stops-and-stays-in-sync",
        "KAFKA-15109",
        "A broker in controlled shutdown stays in its ISRs, and producers wait for it.",
        _SHUTS_DOWN,
        ("brokers.heartbeats:shutdown_stage", "changes=shutting_down(broker.broker_id),", "changes=None,"),
    ),
    _told(
        "epoch-of-every-shrink",
        "KAFKA-15021",
        "The leader's epoch rises whenever an ISR shrinks, and clients look for another leader.",
        _SHUTS_DOWN,
        (
            f"{_BUILDER}:_needs_new_epoch",
            "rules.metadata_version < NO_EPOCH_RISE_ON_SHRINK_SINCE",
            "rules.metadata_version > 0",
        ),
    ),
    _told(
        "stops-before-anybody-knows",
        "KAFKA-14292",
        "A broker may stop while others have not read that it leads nothing any more.",
        "who_stops_waits_until_the_others_have_read_of_it",
        (
            "brokers.heartbeats:_is_through",
            "0 <= session.shutdown_offset <= lowest_active_offset(context)",
            "session.shutdown_offset >= 0",
        ),
    ),
    _told(
        "epochs-of-members-unread",
        "KIP-903",
        "The broker epochs of a proposal are not looked at.",
        "a_reboot_without_the_tail_is_another_start",
        (
            "partitions.in_sync:_Decision._proposal",
            "(one.broker_id, one.broker_epoch)",
            "(one.broker_id, _NO_EPOCH)",
        ),
    ),
    _told(
        "registers-again-and-is-fenced",
        "KAFKA-16757",
        "A start that registers again is fenced by it.",
        "a_start_that_registers_again_stays_unfenced",
        ("brokers.registration:_amendment", "fenced=known.fenced,", "fenced=True,"),
    ),
    _told(
        "duplicate-of-who-stopped",
        "KAFKA-15375",
        "The session of a broker that was let go lasts on, and its next start is refused for it.",
        "who_stopped_in_order_is_taken_back_at_once",
        (
            "brokers.heartbeats:_when_appended",
            "return lambda sessions, _end_offset, _now_ms: sessions.over(broker_id, epoch)",
            "return None",
        ),
    ),
    _told(
        "directory-lost-and-led",
        "KIP-858",
        "The log says that a directory is lost, and its partitions are led from it.",
        "a_directory_that_fails_is_left",
        (
            "brokers.heartbeats:_lost_directories",
            "changes=directories_lost(broker.broker_id, lost),",
            "changes=None,",
        ),
    ),
    # --- where replicas are ---
    _told(
        "moved-before-it-arrived",
        "KAFKA-15665",
        "A move ends as soon as its new replicas are named.",
        "a_move_to_fewer_waits_for_all_that_stay",
        (
            f"{_BUILDER}:_with_reassignment_completed",
            "if not set(needed).issubset(in_sync):",
            "if not set(needed).issubset(replicas):",
        ),
    ),
    _told(
        "moved-away-and-in-sync",
        "PartitionReassignmentReplicas",
        "A replica that a move has removed stays in the ISR.",
        _SICK,
        (
            f"{_BUILDER}:_with_reassignment_completed",
            "return _Assignment(staying, in_sync, (), ())",
            "return _Assignment(staying, isr, (), ())",
        ),
    ),
    _told(
        "moved-at-once",
        "AlterPartitionReassignments",
        "The replicas that are to go are gone before the others have anything.",
        _SICK,
        ("partitions.reassignment:moved_to", "replicas=(*wanted, *removing)", "replicas=wanted"),
    ),
    _told(
        "directories-of-before",
        "KIP-858",
        "A move names the directories of the replicas that were there before.",
        _SICK,
        (f"{_BUILDER}:_directories", "for one in replicas)", "for one in partition.replicas)"),
    ),
    _told(
        "move-that-no-leader-hears-of",
        "PartitionChangeBuilder",
        "A replica is gone, and its leader in the same epoch as before.",
        "a_replica_that_comes_back_has_to_catch_up",
        (
            f"{_BUILDER}:_needs_new_epoch",
            "if replicas != partition.replicas and not set(partition.replicas).issubset(replicas):",
            "if False:",
        ),
    ),
    # --- what is undone, and what is denied ---
    _told(
        "decided-on-what-is-committed",
        "D-13",
        "What is appended and not committed yet is not looked at: two topics get one name.",
        "two_topics_of_one_name_are_not_made_at_once",
        (
            "active_controller:ActiveController._context",
            "Context(\n        uncommitted,",
            "Context(\n        UncommittedWrites(uncommitted.committed),",
        ),
    ),
    _told(
        "grown-without-a-right",
        "StandardAuthorizer",
        "Whoever may not alter a topic adds partitions to it.",
        _DENIED,
        (
            "topics.adding:create_partitions",
            "context.rights.check(AclOperation.ALTER, AclResource.TOPIC, topic.name)",
            "pass",
        ),
    ),
    _told(
        "only-all-is-denied",
        "StandardAuthorizer",
        "An entry that denies one operation denies nothing.",
        _DENIED,
        (
            "authorizer:Authorizer.allows",
            "elif acl.operation in (asked, _ALL):",
            "elif acl.operation == _ALL:",
        ),
    ),
    _told(
        "denied-from-one-host-only",
        "StandardAuthorizer",
        "An entry about a principal on every host counts for nobody.",
        _DENIED,
        (
            "authorizer:Authorizer.allows",
            "keys += [(who, WILDCARD), (who, from_host)]",
            "keys += [(who, from_host)]",
        ),
    ),
    _told(
        "other-rules-go-with-it",
        "DeleteAcls",
        "Who takes one rule back takes those about other operations along.",
        "a_rule_that_is_taken_back_leaves_those_of_others",
        (
            "acls.filters:_matches",
            "and wanted.operation in (_ANY_OPERATION, acl.operation)",
            "",
        ),
    ),
    mutant(
        "gate-of-who-asks-directly",
        "StandardAuthorizer",
        "A request about the cluster that comes in an envelope is let through.",
        "tests",
        (
            "kraftd.runtime.request_gate:RequestGate.refusal",
            "if rights.has(access.operation, AclResource.CLUSTER):",
            "if client.is_forwarded or rights.has(access.operation, AclResource.CLUSTER):",
        ),
        where=(f"{_STORIES}::test_an_operator_who_may_not_alter_the_cluster_changes_nothing",),
    ),
)
