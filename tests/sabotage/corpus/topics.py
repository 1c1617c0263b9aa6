"""Bugs of the decisions about topics and their configs."""

from tests.sabotage.mutant import Mutant, mutant

_TESTS = "tests/unit/controller/"


def of_topics(name: str, text: str, test: str, *edits: tuple[str, str, str]) -> Mutant:
    """A mutant of `kraftd.controller`, which unit tests of one module catch."""
    full = [(f"kraftd.controller.{target}", old, new) for target, old, new in edits]
    return mutant(name, "D-14", text, "tests", *full, where=(_TESTS + test,))


TOPICS = (
    of_topics(
        "fenced-replica-in-sync",
        "A new partition has fenced brokers in its ISR: acks=all waits for who is not there.",
        "test_creating_topics.py::test_who_is_fenced_or_shutting_down_is_not_in_sync",
        ("topics.new_partitions:NewPartitions.in_sync", "if broker_id in self._active", ""),
    ),
    of_topics(
        "first-replica-leads",
        "The first replica leads a new partition although its broker is fenced.",
        "test_creating_topics.py::test_who_is_fenced_or_shutting_down_is_not_in_sync",
        ("topics.new_partitions:NewPartitions.record", "leader=isr[0],", "leader=replicas[0],"),
    ),
    of_topics(
        "any-directory-will-do",
        "A new replica is said to be in the first of several directories; its broker may choose another.",
        "test_creating_topics.py::test_a_replica_is_in_the_only_directory_of_its_broker_or_in_one_that_it_tells_later",
        (
            "partitions.partition_rules:default_directory",
            "if len(directories) == 1 else",
            "if len(directories) >= 1 else",
        ),
    ),
    of_topics(
        "placed-on-who-leaves",
        "New replicas go to a broker that is shutting down.",
        "test_placement.py::test_who_is_shutting_down_or_has_nowhere_to_put_a_replica_gets_none",
        (
            "topics.placement:_is_shutting_down",
            "return broker.in_controlled_shutdown and",
            "return False and",
        ),
    ),
    of_topics(
        "stopped-in-order-and-forgotten",
        "A broker that stopped in order counts as shutting down for ever: with it away, topics are not made.",
        "test_placement.py::test_who_is_shutting_down_or_has_nowhere_to_put_a_replica_gets_none",
        ("topics.placement:_is_shutting_down", " and not broker.fenced", ""),
    ),
    of_topics(
        "placed-in-a-cordoned-directory",
        "New replicas go to a broker all of whose directories are cordoned.",
        "test_placement.py::test_who_is_shutting_down_or_has_nowhere_to_put_a_replica_gets_none",
        (
            "topics.placement:_has_uncordoned_directory",
            "return not set(broker.log_dirs) <= set(broker.cordoned_log_dirs)",
            "return True",
        ),
    ),
    of_topics(
        "fenced-broker-first",
        "A fenced broker is the first replica of a placed partition.",
        "test_placement.py::test_no_broker_has_a_partition_twice_and_none_that_is_fenced_is_first",
        (
            "topics.placement:_Rack.next_unfenced",
            "return self.unfenced.next(round_)",
            "return self.next(round_)",
        ),
    ),
    of_topics(
        "two-replicas-in-the-leaders-rack",
        "The rack of the leader is not passed over: it gets a second replica before another has one.",
        "test_placement.py::test_no_rack_has_a_second_replica_before_each_has_one",
        ("topics.placement:StripedReplicaPlacer.place", "if at == leads and", "if False and"),
    ),
    of_topics(
        "neighbouring-seeds",
        "The seeds of decisions are used as they are: topics of one partition go to the same few brokers.",
        "test_creating_topics.py::test_small_topics_of_one_decision_after_the_other_are_spread_over_the_brokers",
        (
            "topics.new_partitions:placement_seed",
            'return int.from_bytes(blake2b(str(context.seed).encode(), digest_size=6).digest(), "big")',
            "return context.seed",
        ),
    ),
    of_topics(
        "one-id-for-two-topics",
        "The topics of one request get the same id.",
        "test_creating_topics.py::test_placement_and_ids_come_from_the_seed_alone",
        ("topics.topic_ids:new_topic_id", " {name}", ""),
        ("topics.topic_ids:new_topic_id", " and topic_id not in taken", ""),
    ),
    of_topics(
        "id-that-is-in-use",
        "A new topic gets the id of one that is there.",
        "test_creating_topics.py::test_an_id_that_is_in_use_is_not_given_again",
        ("topics.topic_ids:new_topic_id", "topics.get(topic_id) is None", "True"),
    ),
    of_topics(
        "reserved-id",
        "A topic may get the id of the metadata log.",
        "test_creating_topics.py::test_ids_are_random_uuids_and_no_reserved_ones",
        ("uuids:is_usable", "uuid not in _RESERVED and", ""),
    ),
    of_topics(
        "metadata-log-as-a-topic",
        "A client can create __cluster_metadata.",
        "test_creating_topics.py::test_what_cannot_be_is_refused",
        ("topics.creating:_Creation.create", "if topic.name == METADATA_TOPIC:", "if False:"),
    ),
    of_topics(
        "partitions-counted-by-topic",
        "Each topic of a request may get 10,000 partitions: one operation is more than the log takes.",
        "test_adding_and_deleting.py::test_ten_thousand_partitions_are_added_at_once_and_not_one_more",
        (
            "topics.adding:create_partitions",
            "if len(records) + missing > OPERATION_RECORDS_MAX:",
            "if missing > OPERATION_RECORDS_MAX:",
        ),
    ),
    of_topics(
        "more-topics-than-an-operation-decides",
        "Of more than 10,000 topics that shall get partitions each is told its own error.",
        "test_adding_and_deleting.py::test_of_more_than_ten_thousand_topics_none_is_decided",
        ("topics.adding:create_partitions", "if decided > OPERATION_RECORDS_MAX:", "if False:"),
    ),
    of_topics(
        "deletes-more-topics-than-an-operation-has-records",
        "However many topics a request names, all that are there are deleted.",
        "test_adding_and_deleting.py::test_no_more_topics_are_deleted_at_once_than_one_operation_has_records",
        ("topics.deleting:delete_topics", "if len(records) == OPERATION_RECORDS_MAX:", "if False:"),
    ),
    of_topics(
        "one-outcome-for-a-name-and-its-id",
        "Who may not delete a topic, and names it both ways, is told one outcome: that the two belong together.",
        "test_rights.py::test_whose_name_and_id_belong_together_is_not_told_to_who_may_not_delete_it",
        (
            "topics.deleting:delete_topics",
            "        denied = None if",
            "        if _is_told_by_its_name(topics, each, named):\n            continue\n        denied = None if",
        ),
    ),
    of_topics(
        "unknown-topics-count",
        "Of more than 10,000 topics that shall be deleted none is, whether or not they are there.",
        "test_adding_and_deleting.py::test_each_unknown_name_is_told_to_be_unknown_however_many_they_are",
        (
            "topics.deleting:delete_topics",
            "if not outcomes.holds_all:",
            "if len(named) > OPERATION_RECORDS_MAX or not outcomes.holds_all:",
        ),
    ),
    of_topics(
        "deleted-whatever-the-file-says",
        "Topics are deleted though delete.topic.enable is false.",
        "test_adding_and_deleting.py::test_nothing_is_deleted_where_the_file_says_so",
        ("topics.deleting:delete_topics", "if not context.settings.delete_topic:", "if False:"),
    ),
    mutant(
        "delete-topic-enable-is-not-read",
        "D-14",
        "Whatever the file says of delete.topic.enable, topics can be deleted.",
        "tests",
        (
            "kraftd.runtime.config:_read_settings",
            'reader.parse("delete.topic.enable", parse_boolean, default=True)',
            "True",
        ),
        where=(
            "tests/unit/runtime/test_config.py::test_topics_can_be_deleted_unless_the_file_says_otherwise",
        ),
    ),
    of_topics(
        "an-error-that-old-clients-do-not-know",
        "A client of an old version is told TOPIC_DELETION_DISABLED, which it cannot name.",
        "test_adding_and_deleting.py::test_nothing_is_deleted_where_the_file_says_so",
        ("topics.deleting:_disabled", "if version >= _DISABLED_SINCE else ErrorCode.INVALID_REQUEST", ""),
    ),
    of_topics(
        "gap-in-the-partitions",
        "Partitions that are placed by hand may leave out a number.",
        "test_creating_topics.py::test_what_cannot_be_is_refused",
        ("topics.creating:_Creation._by_hand", "if found.keys() != set(range(len(found))):", "if not found:"),
    ),
    of_topics(
        "replica-twice",
        "A partition has two replicas on one broker.",
        "test_creating_topics.py::test_what_cannot_be_is_refused",
        ("partitions.by_hand:check_by_hand", "if broker_id == before:", "if False:"),
    ),
    of_topics(
        "validated-and-written",
        "A request that only validates makes its topics.",
        "test_creating_topics.py::test_who_only_validates_gets_the_outcome_and_writes_nothing",
        (
            "topics.creating:create_topics",
            "[] if request.validate_only else creation.records",
            "creation.records",
        ),
    ),
    of_topics(
        "named-twice-and-deleted",
        "A topic that is named by its name and by its id is deleted.",
        "test_adding_and_deleting.py::test_what_is_not_named_once_and_in_one_way_stays",
        ("topics.deleting:_find", "if (None, found.topic_id) in named:", "if False:"),
    ),
    of_topics(
        "eligible-by-another-minimum",
        "Replicas stay eligible to lead after the minimum in sync has changed, with which they became so.",
        "test_topic_configs.py::test_another_minimum_in_sync_clears_who_was_eligible_of_the_topic",
        ("configs.configuration_control:_cleared", "if not changed or", "if changed or"),
    ),
    of_topics(
        "hours-are-milliseconds",
        "log.retention.hours=24 is taken for 24 ms.",
        "test_topic_configs.py::test_a_value_comes_from_the_first_place_that_sets_it_under_any_of_its_names",
        (
            "configs.effective:BrokerConfigs._set",
            "yield synonym.convert(value), source",
            "yield value, source",
        ),
    ),
    of_topics(
        "cluster-before-broker",
        "What is set for all brokers wins over what is set for one.",
        "test_topic_configs.py::test_a_value_comes_from_the_first_place_that_sets_it_under_any_of_its_names",
        (
            "configs.effective:BrokerConfigs._set",
            "for source, value_of in self._places:",
            "for source, value_of in sorted(self._places, key=lambda place: place[0] == Source.BROKER):",
        ),
    ),
    of_topics(
        "replaced-without-the-rules",
        "AlterConfigs removes what may not be removed, by not naming it.",
        "test_topic_configs.py::test_alter_configs_removes_no_more_than_may_be_removed",
        (
            "configs.configuration_control:_written",
            "if rules.check_change is not None:",
            "if rules.check_change is not None and value is not None:",
        ),
    ),
    of_topics(
        "broker-is-trusted-unasked",
        "A client of the controllers cordons directories that it only believes a broker has.",
        "test_configuration_control.py::test_cordoned_directories_can_only_shrink_here",
        ("configs.broker_rules:_check_cordoned_log_dirs", "if context.client.is_forwarded:", "if True:"),
    ),
    mutant(
        "removed-name-stays-alike",
        "D-18",
        "The name of a removed topic keeps others from being made.",
        "tests",
        (
            "kraftd.metadata.parts.topics.builder:TopicsBuilder.remove_topic",
            "self._forget_form(topic.record.name)",
            "pass",
        ),
        where=(
            "tests/unit/metadata/test_topics.py::test_names_that_an_old_log_holds_in_two_spellings_are_forgotten_one_by_one",
        ),
    ),
)
