"""Bugs of what operators are told of brokers and topics, and of what they change."""

from tests.sabotage.mutant import mutant

_TOPICS = "tests/unit/controller/test_topics_listing.py"
_BROKERS = "tests/unit/controller/test_brokers_listing.py"
_CLI = "tests/unit/cli/test_topics.py"
_PACKED = "tests/unit/metadata/test_packed.py"
_LISTING = "kraftd.controller.topics.listing"
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
        "a-session-of-another-start",
        "KAFKA-18138",
        "A new leader tells of heartbeats that it never had.",
        "tests",
        (
            "kraftd.controller.brokers.listing:_entry",
            "is_heard = session is not None and session.metadata_offset >= 0",
            "is_heard = session is not None",
        ),
        where=(f"{_BROKERS}::test_a_broker_is_told_with_its_registration_its_session_and_its_partitions",),
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
            'raise UnknownOutcomeError(_unknown(" and ".join(map(_topic_text, names)), str(error))) from error',
            "raise",
        ),
        where=(
            f"{_CLI}::test_a_change_follows_the_controller_and_is_not_repeated_once_it_may_be_in_the_log",
        ),
    ),
)
