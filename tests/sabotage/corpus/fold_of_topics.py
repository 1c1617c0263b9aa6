"""Bugs of the fold of topics and partitions (see `fold`)."""

from tests.sabotage.mutant import Mutant, mutant

_TESTS = "tests/unit/metadata/"


def of_fold(name: str, text: str, test: str, *edits: tuple[str, str, str]) -> Mutant:
    """A mutant of `kraftd.metadata`, which one unit test catches."""
    full = [(f"kraftd.metadata.{target}", old, new) for target, old, new in edits]
    return mutant(name, "D-18", text, "tests", *full, where=(_TESTS + test,))


FOLD_OF_TOPICS = (
    # --- topics ---
    of_fold(
        "two-topics-of-a-name",
        "A topic of a name that is taken replaces the other by name only.",
        "test_topics.py::test_a_record_that_cannot_follow_is_one_error_and_changes_nothing",
        ("parts.topics.builder:TopicsBuilder.add_topic", "if name in self._ids:", "if name in ():"),
    ),
    of_fold(
        "two-topics-of-an-id",
        "A topic of an id that is taken replaces the other and its partitions.",
        "test_topics.py::test_a_record_that_cannot_follow_is_one_error_and_changes_nothing",
        (
            "parts.topics.builder:TopicsBuilder.add_topic",
            "if topic_id in self._topics:",
            "if topic_id in ():",
        ),
    ),
    of_fold(
        "removed-topics-name-is-taken",
        "No topic can have the name of one that was removed.",
        "test_fold_rules.py::test_the_name_of_a_removed_topic_is_free",
        (
            "parts.topics.builder:TopicsBuilder.remove_topic",
            "self._ids.delete(topic.record.name)",
            "self._ids",
        ),
    ),
    of_fold(
        "configs-outlive-their-topic",
        "A removed topic leaves its configs behind.",
        "test_topics.py::test_a_removed_topic_takes_its_partitions_and_configs_along",
        ("parts.topics.part:_remove_topic", "builder.builder_of(CONFIGS).remove((_TOPIC, name))", "pass"),
    ),
    of_fold(
        "removed-topic-is-still-counted",
        "The hashes of a removed topic's partitions stay in the image's: it differs from that of a snapshot.",
        "test_packed.py::test_a_large_topic_is_removed_without_a_look_at_its_partitions",
        (
            "parts.topics.builder:TopicsBuilder.remove_topic",
            "self._sum -= topic.sum + hash_of_record(topic.record)",
            "self._sum -= hash_of_record(topic.record)",
        ),
    ),
    of_fold(
        "removed-topic-stays-with-brokers",
        "A large topic that is removed stays in the lists of its brokers.",
        "test_packed.py::test_a_large_topic_is_removed_without_a_look_at_its_partitions",
        ("parts.topics.broker_index:BrokerIndexBuilder.remove_topic", "self._gone[number] = rows", "pass"),
    ),
    of_fold(
        "removed-topic-waits",
        "What waits beside the sets of a broker outlives the topic that it is of.",
        "test_packed.py::test_topics_that_are_removed_leave_nothing_and_the_others_as_they_are",
        (
            "parts.topics.broker_index:_BrokerPartitions.without",
            "if move[0] >> ID_BITS not in topics",
            "if move[0] >> ID_BITS >= 0",
        ),
    ),
    of_fold(
        "removal-looks-at-every-partition",
        "A topic of 100,000 partitions is removed one by one in one turn: the leader stands for half a second.",
        "test_packed.py::test_a_large_topic_is_removed_without_a_look_at_its_partitions",
        (
            "parts.topics.broker_index:BrokerIndexBuilder._drop",
            "if self._gone_count <= max(",
            "if self._gone_count <= (1 << 40) + max(",
        ),
    ),
    of_fold(
        "removals-are-looked-at-one-by-one",
        "Small topics that are removed together are moved away one by one, however many partitions they have.",
        "test_packed.py::test_small_topics_that_are_removed_together_are_not_looked_at_either",
        (
            "parts.topics.broker_index:BrokerIndexBuilder.remove_topic",
            "self._gone_count += count",
            "self._gone_count = count",
        ),
    ),
    of_fold(
        "removals-look-at-all-between",
        "Of two topics that are removed one is old and one new: all partitions of the cluster are looked at.",
        "test_packed.py::test_what_lies_between_the_numbers_that_go_is_not_looked_at",
        (
            "parts.topics.packed_int_set:PackedIntSet.without",
            "index = max(bisect_right(firsts, prefix << low_bits, index) - 1, index)",
            "pass",
        ),
    ),
    of_fold(
        "removal-ends-with-a-block",
        "Of a removed topic whose partitions begin behind others in a block those in the next block stay.",
        "test_packed.py::test_a_set_of_numbers_loses_all_that_begin_alike",
        (
            "parts.topics.packed_int_set:PackedIntSet.without",
            "at = end - (in_order[end - 1] == last)",
            "at = end",
        ),
    ),
    of_fold(
        "merged-for-each-topic",
        "Moves that wait are merged anew for each topic whose eligible replicas are cleared.",
        "test_packed.py::test_what_waits_is_merged_once_however_many_topics_lose_their_eligible_replicas",
        (
            "parts.topics.broker_index:BrokerIndexBuilder.partitions_in",
            "self._brokers = self._brokers.set(_STATES, partitions)",
            "pass",
        ),
    ),
    of_fold(
        "removal-is-settled-by-half",
        "Who stops after a step of settling a removal leaves the other brokers what the topic had.",
        "test_packed.py::test_who_begins_to_settle_a_removal_and_stops_leaves_nothing_either",
        (
            "parts.topics.broker_index:BrokerIndexBuilder._drop",
            "in_order = sorted(gone)",
            "gone, self._gone = {**self._gone}, {}; in_order = sorted(gone)",
        ),
    ),
    of_fold(
        "last-known-is-not-found",
        "Partitions that have last known leader replicas alone are not cleared.",
        "test_packed.py::test_topics_that_are_removed_leave_nothing_and_the_others_as_they_are",
        (
            "parts.topics.assignments:assignment_of",
            "WITH_ELR if partitions.has_elr(partition) else 0",
            "WITH_ELR if partition.eligible_leader_replicas else 0",
        ),
    ),
    of_fold(
        "clear-elr-of-one-clears-all",
        "ClearElr of one topic clears those of all.",
        "test_fold_rules.py::test_clearing_one_topic_leaves_the_others",
        (
            "parts.topics.builder:TopicsBuilder.clear_elr",
            "self._each_with_elr(topic_id,",
            "self._each_with_elr(None,",
        ),
    ),
    of_fold(
        "clear-elr-of-all-clears-none",
        "ClearElr without a topic clears nothing.",
        "test_fold_rules.py::test_clearing_one_topic_leaves_the_others",
        (
            "parts.topics.builder:TopicsBuilder.clear_elr",
            "self._each_with_elr(None, partitions.cleared, offset)",
            "pass",
        ),
    ),
    of_fold(
        "clear-elr-is-no-change",
        "ClearElr leaves the epochs of partitions as they are.",
        "test_topics.py::test_clearing_the_elr_is_a_change_of_each_partition_that_had_one",
        ("parts.topics.partitions:cleared", "partition.partition_epoch + 1", "partition.partition_epoch"),
    ),
    of_fold(
        "clear-elr-leaves-last-known",
        "Clearing eligible leader replicas leaves the last known ones.",
        "test_topics.py::test_clearing_the_elr_is_a_change_of_each_partition_that_had_one",
        (
            "parts.topics.partitions:without_elr",
            "last_known_elr=None",
            "last_known_elr=partition.last_known_elr",
        ),
    ),
    of_fold(
        "last-known-elr-is-not-cleared-alone",
        "A partition with last known, but no eligible leader replicas is passed over when they are cleared.",
        "test_fold_rules.py::test_the_last_known_elr_is_cleared_where_nobody_else_is_eligible",
        ("parts.topics.partitions:has_elr", " or partition.last_known_elr is not None", ""),
    ),
    of_fold(
        "clear-elr-raises-other-epochs",
        "Clearing eligible leader replicas is a change of partitions that recover, too.",
        "test_fold_rules.py::test_clearing_changes_no_partition_where_nobody_was_eligible",
        (
            "parts.topics.assignments:assignment_of",
            "if partitions.has_elr(partition) else 0",
            "if partitions.has_elr(partition) or partition.leader_recovery_state else 0",
        ),
    ),
    # --- partitions ---
    of_fold(
        "directories-unassigned-at-first",
        "A partition that names no directories is in unassigned ones, not in migrating ones.",
        "test_topics.py::test_without_directories_a_replica_is_migrating_and_written_so_where_directories_have_names",
        ("parts.topics.partitions:made", "(MIGRATING,) *", '(bytes(15) + b"\\x01",) *'),
    ),
    of_fold(
        "nobody-eligible-is-a-list",
        "A partition where nobody is eligible differs from one that does not speak of it.",
        "test_fold_rules.py::test_nobody_eligible_is_said_in_one_way_only",
        (
            "parts.topics.partitions:made",
            "record.eligible_leader_replicas or None",
            "record.eligible_leader_replicas",
        ),
        ("parts.topics.partitions:made", "and record.eligible_leader_replicas != ()", "and True"),
    ),
    of_fold(
        "nobody-last-known-is-a-list",
        "A partition where nobody was last known to be eligible differs from one that does not speak of it.",
        "test_fold_rules.py::test_nobody_eligible_is_said_in_one_way_only",
        ("parts.topics.partitions:made", "record.last_known_elr or None", "record.last_known_elr"),
        ("parts.topics.partitions:made", "and record.last_known_elr != ()", "and True"),
    ),
    of_fold(
        "isr-stays",
        "A change of the ISR is not taken.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        (
            "parts.topics.partitions:changed",
            "isr=_new(change.isr, before.isr)",
            "isr=_new(before.isr, change.isr)",
        ),
    ),
    of_fold(
        "replicas-stay",
        "A change of the replicas is not taken.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        ("parts.topics.partitions:changed", "_new(change.replicas, before.replicas)", "before.replicas"),
    ),
    of_fold(
        "empty-is-absent",
        "A list that becomes empty stays what it was.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        ("parts.topics.partitions:_new", "before if after is None else after", "after or before"),
    ),
    of_fold(
        "removing-forgotten",
        "A change that does not name the replicas to be removed forgets them.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        (
            "parts.topics.partitions:changed",
            "_new(change.removing_replicas, before.removing_replicas)",
            "change.removing_replicas or ()",
        ),
    ),
    of_fold(
        "adding-forgotten",
        "A change that does not name the replicas to be added forgets them.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        (
            "parts.topics.partitions:changed",
            "_new(change.adding_replicas, before.adding_replicas)",
            "change.adding_replicas or ()",
        ),
    ),
    of_fold(
        "leader-lost",
        "A change that names no leader leaves none.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        ("parts.topics.partitions:changed", "before.leader if is_same_leader", "-1 if is_same_leader"),
    ),
    of_fold(
        "leader-epoch-always",
        "Every change of a partition raises the epoch of its leader.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        ("parts.topics.partitions:changed", "before.leader_epoch if is_same_leader else", ""),
    ),
    of_fold(
        "leader-epoch-only-for-another",
        "A leader that is elected again gets no new epoch.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        (
            "parts.topics.partitions:changed",
            "before.leader_epoch if is_same_leader else",
            "before.leader_epoch if is_same_leader or change.leader == before.leader else",
        ),
    ),
    of_fold(
        "partition-epoch-stays",
        "A change of a partition leaves its epoch.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        ("parts.topics.partitions:changed", "before.partition_epoch + 1", "before.partition_epoch"),
    ),
    of_fold(
        "recovered-by-any-change",
        "A change that does not speak of it ends the recovery of a leader.",
        "test_fold_rules.py::test_a_leader_recovers_until_a_record_says_that_it_has",
        (
            "parts.topics.partitions:changed",
            "before.leader_recovery_state if recovery == _NO_RECOVERY_CHANGE else recovery",
            "0 if recovery == _NO_RECOVERY_CHANGE else recovery",
        ),
    ),
    of_fold(
        "recovery-stays",
        "The recovery state of a leader never changes.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        (
            "parts.topics.partitions:changed",
            "before.leader_recovery_state if recovery == _NO_RECOVERY_CHANGE else recovery",
            "before.leader_recovery_state",
        ),
    ),
    of_fold(
        "impossible-recovery",
        "A partition may be in a recovery state that means nothing.",
        "test_topics.py::test_a_record_that_cannot_follow_is_one_error_and_changes_nothing",
        ("parts.topics.partitions:_check_recovery", "not in states", "not in range(-9, 9)"),
    ),
    of_fold(
        "eligible-forgotten",
        "A change that does not speak of them forgets the eligible leader replicas.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        (
            "parts.topics.partitions:changed",
            "_elr(change.eligible_leader_replicas, before.eligible_leader_replicas)",
            "change.eligible_leader_replicas or None",
        ),
    ),
    of_fold(
        "last-known-forgotten",
        "A change that does not speak of them forgets the last known eligible leader replicas.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        (
            "parts.topics.partitions:changed",
            "_elr(change.last_known_elr, before.last_known_elr)",
            "change.last_known_elr or None",
        ),
    ),
    of_fold(
        "eligible-for-ever",
        "Eligible leader replicas that become none stay what they were.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        ("parts.topics.partitions:_elr", "(after or None)", "(after or before)"),
    ),
    of_fold(
        "directories-stay",
        "A change of the directories is not taken.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        (
            "parts.topics.partitions:changed",
            "before.directories if change.directories is None else change.directories",
            "before.directories if len(before.directories) == len(replicas) else change.directories",
        ),
    ),
    of_fold(
        "too-few-migrating",
        "Migrating replicas that become more have the directories of those that were.",
        "test_topics.py::test_a_change_changes_what_it_names_and_raises_the_epoch",
        ("parts.topics.partitions:_directories", "(MIGRATING,) * len(replicas)", "listed"),
    ),
    of_fold(
        "any-number-of-directories",
        "A partition may have another number of directories than of replicas.",
        "test_topics.py::test_a_record_that_cannot_follow_is_one_error_and_changes_nothing",
        (
            "parts.topics.partitions:_check_directories",
            "len(directories) != len(replicas)",
            "len(directories) < 0",
        ),
    ),
    of_fold(
        "migrating-is-never-listed",
        "Directories that all are migrating are not written at levels that name directories.",
        "test_topics.py::test_without_directories_a_replica_is_migrating_and_written_so_where_directories_have_names",
        ("parts.topics.partitions:for_level", "if has_directories or any(", "if any("),
    ),
    of_fold(
        "tags-of-a-partition-lost",
        "A change of a partition loses the tags of a newer version that it was made with.",
        "test_topics.py::test_tags_of_a_partition_stay_and_those_of_a_change_make_the_image_partial",
        ("parts.topics.partitions:changed", "unknown_tags=before.unknown_tags", "unknown_tags=()"),
    ),
    # --- changes made in the bytes ---
    of_fold(
        "isr-stays-in-the-bytes",
        "A usual change of the ISR is not taken.",
        "test_change_fast_codec.py::test_a_change_made_in_the_bytes_is_the_change",
        (
            "parts.topics.change_fast_codec:changed",
            "isr = old_isr if change.isr is None else change.isr",
            "isr = old_isr",
        ),
    ),
    of_fold(
        "leader-epoch-stays-in-the-bytes",
        "A usual change of the leader leaves its epoch.",
        "test_change_fast_codec.py::test_a_change_made_in_the_bytes_is_the_change",
        ("parts.topics.change_fast_codec:changed", "leader_epoch + (not is_same_leader)", "leader_epoch"),
    ),
    of_fold(
        "partition-epoch-stays-in-the-bytes",
        "A usual change of a partition leaves its epoch.",
        "test_change_fast_codec.py::test_a_change_made_in_the_bytes_is_the_change",
        ("parts.topics.change_fast_codec:changed", "partition_epoch + 1", "partition_epoch"),
    ),
    of_fold(
        "brokers-stay-in-the-bytes",
        "The partitions of a broker are not those that name it after a usual change.",
        "test_change_fast_codec.py::test_a_change_made_in_the_bytes_is_the_change",
        (
            "parts.topics.change_fast_codec:changed",
            "brokers, (replicas, isr, leader, elr, is_reassigning)",
            "brokers, brokers",
        ),
    ),
    of_fold(
        "recovery-is-usual",
        "A change that begins to recover is taken for a usual one.",
        "test_change_fast_codec.py::test_a_change_of_more_is_not_made_in_the_bytes",
        ("parts.topics.change_fast_codec:changed", "change.leader_recovery_state not in", "() in"),
    ),
)
