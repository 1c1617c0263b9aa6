"""Bugs of what operators are told of brokers and topics, and of what they change."""

from tests.sabotage.mutant import mutant

_TOPICS = "tests/unit/controller/test_topics_listing.py"
_BROKERS = "tests/unit/controller/test_brokers_listing.py"
_CLI = "tests/unit/cli/test_topics.py"
_PACKED = "tests/unit/metadata/test_packed.py"
_READERS = "tests/unit/controller/test_readers_and_statistics.py"
_LISTING = "kraftd.controller.topics.listing"
_CONDITIONS = "tests/unit/controller/test_partition_conditions.py"
_NEW = "tests/unit/controller/test_uncommitted_partitions.py"
_UNCOMMITTED = "kraftd.controller.uncommitted_partitions:UncommittedPartitions"
_STARTS = "tests/unit/controller/test_explained_starts.py"
_STATES = "tests/unit/controller/test_explained_states.py"
_IN_CONDITION = "kraftd.controller.partitions.conditions"
_EXPLAINING = "kraftd.controller.partitions.explaining"
_BUILDER = "kraftd.metadata.parts.topics.builder:TopicsBuilder"

LISTINGS = (
    mutant(
        "a-topic-page-of-any-length",
        "D-38",
        "A topic of a million partitions is counted in one page, while the loop stands.",
        "tests",
        (
            f"{_LISTING}:list_topics",
            "found = list(islice(topics.partitions(topic.topic_id, since), left + 1))",
            "found = list(topics.partitions(topic.topic_id, since))\n        left = max(left, len(found))",
        ),
        where=(f"{_TOPICS}::test_the_pages_of_a_list_add_up_to_the_image",),
    ),
    mutant(
        "a-topic-page-of-a-former-topic",
        "D-38",
        "A topic that was made anew is begun where its predecessor was left, and is told in part.",
        "tests",
        (
            f"{_LISTING}:list_topics",
            "is_begun = begin is not None and begin.topic_id == topic.topic_id",
            "is_begun = begin is not None and begin.name == topic.name",
        ),
        where=(f"{_TOPICS}::test_a_topic_made_anew_between_two_pages_is_counted_from_its_first_partition",),
    ),
    mutant(
        "a-full-page-loses-the-rest-of-its-topic",
        "D-38",
        "A page that ends within a topic goes on with the next one: partitions without leader are not told.",
        "tests",
        (
            f"{_IN_CONDITION}:list_partitions",
            "if page.next_cursor is not None:\n            break",
            "if page.next_cursor is not None and page.looks > 0:\n            break",
        ),
        where=(f"{_CONDITIONS}::test_pages_hold_what_one_large_page_holds",),
    ),
    mutant(
        "looks-at-a-whole-topic",
        "D-38",
        "A page in which nothing is found looks at all partitions of a topic, while the loop stands.",
        "tests",
        (f"{_IN_CONDITION}:_Page.add_topic", "if self.looks <= 0:", "if self.looks < -(1 << 40):"),
        where=(f"{_CONDITIONS}::test_a_look_costs_no_more_in_a_large_image",),
    ),
    mutant(
        "added-replicas-are-a-lack",
        "KIP-352",
        "Each partition that is being reassigned is called under-replicated.",
        "tests",
        (
            "kraftd.metadata.partition_conditions:is_under_replicated",
            "len(partition.replicas) - len(partition.adding_replicas)",
            "len(partition.replicas)",
        ),
        where=(f"{_CONDITIONS}::test_each_condition_finds_its_partitions",),
    ),
    mutant(
        "can-stop-forgets-eligible-replicas",
        "KIP-966",
        "A broker is said to take the leader with it although an eligible replica leads then.",
        "tests",
        (
            f"{_IN_CONDITION}:_Without.is_left_alone",
            "return change is not None and change.leader == NO_NODE",
            "return change is not None and not self._isr(partition)",
        ),
        where=(f"{_CONDITIONS}::test_a_broker_is_needed_where_its_shutdown_takes_the_leader_or_acks_all",),
    ),
    mutant(
        "can-stop-asks-for-the-leader-alone",
        "KIP-966",
        "A broker may stop although producers with acks=all cannot write without it.",
        "tests",
        (f"{_IN_CONDITION}:_Without.lacks", "len(self._isr(partition)) < min_isr or", ""),
        where=(f"{_CONDITIONS}::test_a_broker_is_needed_where_its_shutdown_takes_the_leader_or_acks_all",),
    ),
    mutant(
        "explains-who-is-up-instead-of-who-comes-back",
        "KIP-966",
        "A partition without leader is said to come back with a broker that may not lead it.",
        "tests",
        (
            f"{_EXPLAINING}:_Elections.leads_then",
            "elected = elect(self._kind, self._candidates(",
            "elected = elect(ElectionKind.UNCLEAN, self._candidates(",
        ),
        where=(f"{_CONDITIONS}::test_what_brings_a_partition_back_is_what_its_election_would_do",),
    ),
    mutant(
        "explains-a-directory-that-failed-as-stopped-in-order",
        "KIP-966",
        "A replica whose log directory failed is said to lead without loss once it is back, and is not eligible.",
        "tests",
        (
            f"{_EXPLAINING}:_Elections.leads_then",
            "self._after_unclean_start(broker_id) if must_start else self._partition",
            "self._partition",
        ),
        where=(f"{_STARTS}::test_what_is_told_of_such_a_start_is_what_it_does",),
    ),
    mutant(
        "explains-a-failed-directory-as-if-all-were-flushed",
        "KIP-966",
        "Where no ELR is kept, a replica whose log directory failed is said to lead, and nothing to be lost.",
        "tests",
        (f"{_EXPLAINING}:_Elections.leads_then", "elected.is_unclean or has_failed", "elected.is_unclean"),
        where=(f"{_STARTS}::test_without_elr_only_a_failed_directory_costs_what_was_not_flushed",),
    ),
    mutant(
        "explains-the-deletions-of-a-topic-of-the-same-name",
        "KIP-516",
        "A topic that was made anew is told with the replicas of the one that was deleted.",
        "tests",
        (
            f"{_EXPLAINING}:_explained",
            "one.topic_id == topic_id and index in one.partitions",
            "index in one.partitions",
        ),
        where=(f"{_STATES}::test_a_topic_that_was_made_anew_has_nothing_of_the_old_one",),
    ),
    mutant(
        "explains-a-replica-that-is-back-as-deleted",
        "KIP-455",
        "A broker that holds a replica again is told with the deletion of the one before.",
        "tests",
        (
            f"{_EXPLAINING}:_removed",
            "(broker_id not in replicas or is_old_copy(entry, context.image))",
            "True",
        ),
        where=(f"{_STATES}::test_of_each_broker_the_newest_removal_is_told",),
    ),
    mutant(
        "explains-no-old-copy",
        "KIP-858",
        "Where a broker has a replica again, nothing is told of the old copy in its failed directory.",
        "tests",
        (
            f"{_EXPLAINING}:_removed",
            "(broker_id not in replicas or is_old_copy(entry, context.image))",
            "broker_id not in replicas",
        ),
        where=("tests/unit/controller/test_offline_deletions.py",),
    ),
    mutant(
        "explains-the-oldest-removal",
        "KIP-455",
        "A replica that was moved to and fro is told with how its first removal ended.",
        "tests",
        (
            f"{_EXPLAINING}:_removed",
            "newest.pop(broker_id, None)",
            "if entry.removed.broker_id in newest:\n                continue",
        ),
        where=(f"{_STATES}::test_of_each_broker_the_newest_removal_is_told",),
    ),
    mutant(
        "explains-what-is-decided-as-missing",
        "KRaft",
        "A partition that is decided and not committed is told not to exist.",
        "tests",
        (f"{_EXPLAINING}:_absent", "newest[TOPICS].id_of(name)", "context.image[TOPICS].id_of('')"),
        where=(f"{_STATES}::test_what_is_decided_and_not_committed_is_new",),
    ),
    mutant(
        "a-new-topic-that-is-deleted-stays-new",
        "KIP-143",
        "Partitions that were decided and deleted before their commit are counted as New for good.",
        "tests",
        (f"{_UNCOMMITTED}.add", "self.count -= self._of_topic.pop(value[_REMOVED_AT], 0)", "pass"),
        where=(f"{_NEW}::test_a_topic_that_goes_before_it_is_committed_was_never_there",),
    ),
    mutant(
        "what-is-committed-stays-new",
        "KIP-143",
        "Committed partitions are counted as New until the leadership ends.",
        "tests",
        (f"{_UNCOMMITTED}.commit", "self.count -= left > 0", "pass"),
        where=(f"{_NEW}::test_the_count_is_that_of_the_two_images",),
    ),
    mutant(
        "what-is-refused-stays-new",
        "KIP-143",
        "Partitions whose records the log refused are counted twice.",
        "tests",
        (
            "kraftd.controller.uncommitted_writes:UncommittedWrites._rebuild",
            "self._new_partitions.clear()",
            "pass",
        ),
        where=(f"{_NEW}::test_what_is_refused_is_not_new",),
    ),
    mutant(
        "new-partitions-are-counted-when-asked",
        "D-35",
        "Each DescribeEvents looks at every write that waits, in the loop that decides.",
        "tests",
        (
            "kraftd.controller.uncommitted_writes:UncommittedWrites.new_partition_count",
            "return self._new_partitions.count",
            "return self._new_partitions.count + sum(0 * len(each.records) for each, _ in self._pending)",
        ),
        where=(f"{_NEW}::test_to_count_costs_the_same_whatever_waits",),
    ),
    mutant(
        "an-election-that-was-named-is-excused",
        "KIP-460",
        "A script that asked for one partition by name is told that all is well, and its leader is another.",
        "tests",
        (
            "kraftd.cli.elect:elect",
            "_CANNOT_NOW if preferred and of_all else _NO_ERROR",
            "_CANNOT_NOW",
        ),
        where=("tests/unit/cli/test_elect.py::test_what_was_asked_for_by_name_or_uncleanly_has_failed",),
    ),
    mutant(
        "a-move-to-a-fenced-broker-is-not-told",
        "KIP-455",
        "Replicas are moved to a broker that is down, and nobody says why that does not end.",
        "tests",
        (
            "kraftd.cli.reassign:inactive_text",
            'if row["state"] != "active"',
            'if row["state"] == "unknown"',
        ),
        where=("tests/unit/cli/test_reassign.py::test_who_cannot_take_what_moves_to_it_is_named",),
    ),
    mutant(
        "a-replica-in-a-failed-directory-is-a-copy",
        "KIP-858",
        "A plan keeps a replica whose log directory failed and gives up the last copy, without a word.",
        "tests",
        (
            "kraftd.cli.reassignment_progress:without_directory",
            "if one in kept",
            'if one not in now["replicas"]',
        ),
        where=("tests/unit/cli/test_reassign.py::test_plan_names_a_replica_in_a_log_directory_that_failed",),
    ),
    mutant(
        "a-session-of-another-start",
        "KAFKA-18138",
        "A new leader tells of heartbeats that it never had.",
        "tests",
        (
            "kraftd.controller.brokers.listing:_entry",
            "is_heard = session is not None and session.metadata_offset >= 0",
            "is_heard = session is not None",
        ),
        where=(_BROKERS,),
    ),
    mutant(
        "partitions-made-anew-are-counted-twice",
        "D-18",
        "A partition that is made anew counts as one more.",
        "tests",
        (
            f"{_BUILDER}.put_partition",
            "self._partition_count += old is None",
            "self._partition_count += 1",
        ),
        where=(f"{_PACKED}::test_in_bulk_or_one_by_one_makes_no_difference",),
    ),
    mutant(
        "moves-that-wait-are-not-counted",
        "D-18",
        "How many partitions a broker leads is what it was before the last moves.",
        "tests",
        (
            "kraftd.metadata.parts.topics.broker_index:_BrokerPartitions.counts",
            "counts[roles] += 1 if is_added else -1",
            "counts[roles] += 0",
        ),
        where=(f"{_PACKED}::test_moves_that_wait_are_seen_at_once",),
    ),
    mutant(
        "a-creation-is-repeated",
        "D-13",
        "A topic that may have been created is created once more, though somebody may have deleted it since.",
        "tests",
        (
            "kraftd.cli.topic_changes:_call",
            'raise unknown_outcome(f"{topics} was changed", str(error), _LOOK) from error',
            "raise",
        ),
        where=(
            f"{_CLI}::test_a_change_follows_the_controller_and_is_not_repeated_once_it_may_be_in_the_log",
        ),
    ),
    mutant(
        "a-stranger-is-told",
        "controller",
        "A description tells the value of a config that Kafka does not define: the secret of a plugin.",
        "tests",
        (
            "kraftd.controller.configs.describe_configs:_describe",
            "is_secret=is_secret_config(kind, config),",
            "is_secret=(key := key_of(config)) is not None and key.is_sensitive,",
        ),
        where=(
            f"{_READERS}::test_a_value_of_a_name_that_kafka_does_not_define_may_be_a_secret_and_is_not_told",
        ),
    ),
    mutant(
        "a-listing-takes-all-for-brokers",
        "controller",
        "A listing looks every name up among those of brokers: what a topic holds under one of them is told.",
        "tests",
        (
            "kraftd.controller.configs.listing:list_configs",
            "is_secret_config(config.resource_type, config.name)",
            "is_secret_config(4, config.name)",
        ),
        where=(f"{_READERS}::test_a_listing_tells_the_values_of_names_that_kafka_defines_for_their_type",),
    ),
    mutant(
        "a-table-shows-what-it-was-told",
        "cli",
        "The value of a config that Kafka does not define is shown, if an older node tells it.",
        "tests",
        ("kraftd.cli.configs:_row", "None if is_secret else value", "value"),
        where=(
            "tests/unit/cli/test_config_secrets.py::test_a_name_that_nobody_knows_is_shown_and_its_value_is_not",
        ),
    ),
    mutant(
        "a-full-node-does-not-answer",
        "cli",
        "A node that has no room for a connection is told as one that does not run.",
        "tests",
        ("kraftd.cli.survey:_failed", "isinstance(error, UnhealthyError)", "False"),
        where=("tests/unit/cli/test_quorum.py::test_a_node_without_room_is_neither_silent_nor_a_refusal",),
    ),
    mutant(
        "a-full-node-hides-a-refusal",
        "cli",
        "Who lacks the right is told to try again, if another node has no room for a connection.",
        "tests",
        ("kraftd.cli.survey:silence", "if refusals:", "if refusals and not busy:"),
        where=("tests/unit/cli/test_quorum.py::test_a_refusal_is_told_before_that_another_node_has_no_room",),
    ),
)
