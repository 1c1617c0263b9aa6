"""What a CreateTopics leads to, case by case. Thousands of random ones are compared with Kafka in interop."""

from collections import Counter

import pytest
from contexts import context_of, controller_settings

from kraftd.controller.context import ControllerSettings
from kraftd.controller.topics.creating import CREATE_TOPICS, create_topics
from kraftd.controller.topics.topic_ids import new_topic_id
from kraftd.controller.uuids import is_usable
from kraftd.errors import ErrorCode
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.partitions import MIGRATING, UNASSIGNED
from kraftd.metadata.record_versions import encode_allowed
from kraftd.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
)
from kraftd.records.messages import ClearElrRecord, ConfigRecord, PartitionRecord, TopicRecord
from kraftd.types import METADATA_TOPIC_ID, ZERO_UUID
from tests.unit.controller.topic_worlds import ELR, THREE, broker, cluster, directory


def topic(name="orders", partitions=-1, replicas=-1, by_hand=(), **configs):
    return CreateTopicsRequestCreatableTopic(
        name,
        partitions,
        replicas,
        tuple(CreateTopicsRequestCreatableReplicaAssignment(*each) for each in by_hand),
        tuple(
            CreateTopicsRequestCreatableTopicConfig(key.replace("_", "."), value)
            for key, value in configs.items()
        ),
    )


def create(*topics, image=None, validate_only=False, **context):
    asked = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    return create_topics(context_of(cluster(*THREE) if image is None else image, **context), asked)


def created(*topics, **context):
    """The records of topics that are all made."""
    records, response = create(*topics, **context)
    assert [ErrorCode(each.error_code) for each in response.topics] == [ErrorCode.NONE] * len(topics)
    return records


def refused(*topics, **context):
    """The error of topics none of which is made."""
    records, response = create(*topics, **context)
    assert records == []
    (error,) = {each.error_code for each in response.topics}
    assert all(each.error_message for each in response.topics)
    assert {each.topic_id for each in response.topics} == {ZERO_UUID}
    return ErrorCode(error)


def test_a_topic_is_written_before_its_configs_and_they_before_its_partitions():
    first, config, *partitions = created(topic(partitions=4, replicas=3, retention_ms="5"))
    assert type(first) is TopicRecord
    assert config == ConfigRecord(2, "orders", "retention.ms", "5")
    assert [each.partition_id for each in partitions] == [0, 1, 2, 3]
    assert {each.topic_id for each in partitions} == {first.topic_id}
    for each in partitions:
        assert sorted(each.replicas) == [1, 2, 3]
        assert each.isr == each.replicas
        assert (each.leader, each.leader_epoch, each.partition_epoch) == (each.replicas[0], 0, 0)


def test_what_was_decided_can_be_applied_and_written():
    for level in (7, 16, 17, 22, 30):
        image = cluster(*(broker(each, log_dirs=()) for each in (1, 2, 3)), level=level)
        records = created(topic(partitions=3, replicas=2, retention_ms="1"), image=image)
        assert all(encode_allowed(record, level) for record in records)
        made = apply_all(image, records, 0)[TOPICS]
        assert made.partition_count_of(made.id_of("orders")) == 3


def test_minus_one_is_what_the_file_says():
    settings = ControllerSettings(num_partitions=5, default_replication_factor=2)
    _, *partitions = created(topic(), settings=settings)
    assert [len(each.replicas) for each in partitions] == [2] * 5


def test_a_replica_is_in_the_only_directory_of_its_broker_or_in_one_that_it_tells_later():
    several = (directory(7), directory(8))
    image = cluster(broker(1), broker(2, log_dirs=several), broker(3, log_dirs=()))
    _, partition = created(topic(by_hand=[(0, (1, 2, 3))]), image=image)
    assert partition.directories == (directory(1), UNASSIGNED, MIGRATING)
    _, partition = created(topic(by_hand=[(0, (3,))]), image=cluster(broker(3, log_dirs=()), level=16))
    assert partition.directories == ()


def test_who_is_fenced_or_shutting_down_is_not_in_sync():
    image = cluster(broker(1, fenced=True), broker(2, in_controlled_shutdown=True), broker(3), broker(4))
    _, partition = created(topic(by_hand=[(0, (1, 2, 4, 3))]), image=image)
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2, 4, 3), (4, 3), 4)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (topic(partitions=0, replicas=1), ErrorCode.INVALID_PARTITIONS),
        (topic(partitions=-2, replicas=1), ErrorCode.INVALID_PARTITIONS),
        (topic(partitions=1, replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(partitions=1, replicas=-2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(partitions=1, replicas=4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(partitions=100_001, replicas=1), ErrorCode.POLICY_VIOLATION),
        (topic(partitions=2**31 - 1, replicas=3), ErrorCode.POLICY_VIOLATION),
        (topic(partitions=10_000, replicas=1), ErrorCode.POLICY_VIOLATION),
        (topic(partitions=1, by_hand=[(0, (1,))]), ErrorCode.INVALID_REQUEST),
        (topic(replicas=1, by_hand=[(0, (1,))]), ErrorCode.INVALID_REQUEST),
        (topic(by_hand=[(0, (1, 1))]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(by_hand=[(0, (1, 9))]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(by_hand=[(0, ())]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(by_hand=[(0, (1,)), (0, (2,))]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(by_hand=[(0, (1,)), (2, (2,))]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(by_hand=[(1, (1,))]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(by_hand=[(-1, (1,))]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(by_hand=[(0, (1, 2)), (1, (2,))]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("..", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a" * 250, 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a\n", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("\u0661", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("__cluster_metadata", 1, 1), ErrorCode.INVALID_REQUEST),
        (topic(partitions=1, replicas=1, retention_ms="x"), ErrorCode.INVALID_CONFIG),
        (topic(partitions=1, replicas=1, no_such="x"), ErrorCode.INVALID_CONFIG),
        (topic(partitions=1, replicas=1, retention_ms=None), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_is_refused(asked, error):
    assert refused(asked) is error


def test_ten_thousand_records_are_written_at_once_and_not_one_more():
    assert len(created(topic(partitions=9_999, replicas=1))) == 10_000
    two = topic("a", 4_999, 1), topic("b", 4_999, 1)
    assert len(created(*two)) == 10_000
    assert refused(*two, topic("c", 1, 1)) is ErrorCode.POLICY_VIOLATION
    assert refused(topic(partitions=9_999, replicas=1, retention_ms="1")) is ErrorCode.POLICY_VIOLATION


def test_what_is_refused_anyway_does_not_count_for_what_one_request_may_make():
    _, response = create(topic("__cluster_metadata", 10_001, 1), topic("b", 1, 1))
    assert [each.error_code for each in response.topics] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]


def test_a_name_is_taken_or_too_much_like_one_that_is():
    image = cluster(*THREE, TopicRecord("a.b", b"t" * 16), TopicRecord("plain", b"u" * 16))
    assert refused(topic("a.b", 1, 1), image=image) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert refused(topic("a_b", 1, 1), image=image) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert created(topic("a-b", 1, 1), image=image)


def test_topics_succeed_and_fail_by_themselves():
    records, response = create(topic("good", 1, 1), topic("bad", 0, 1), topic("fine", 1, 1))
    assert [record.name for record in records if type(record) is TopicRecord] == ["good", "fine"]
    assert [each.error_code for each in response.topics] == [0, ErrorCode.INVALID_PARTITIONS, 0]


def test_a_topic_that_is_named_twice_is_not_made():
    records, response = create(topic("twice", 1, 1), topic("once", 1, 1), topic("twice", 2, 2))
    assert [record.name for record in records if type(record) is TopicRecord] == ["once"]
    assert {each.name: each.error_code for each in response.topics} == {"twice": 42, "once": 0}


def test_nobody_is_there_to_lead():
    image = cluster(broker(1, fenced=True), broker(2, in_controlled_shutdown=True))
    assert refused(topic(partitions=1, replicas=1), image=image) is ErrorCode.INVALID_REPLICATION_FACTOR
    by_hand = topic(by_hand=[(0, (1, 2))])
    assert refused(by_hand, image=image) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_who_only_validates_gets_the_outcome_and_writes_nothing():
    records, response = create(topic(partitions=2, replicas=3), topic("bad", 0, 1), validate_only=True)
    assert records == []
    good, bad = response.topics
    assert (good.error_code, good.num_partitions, good.replication_factor) == (0, 2, 3)
    assert bad.error_code == ErrorCode.INVALID_PARTITIONS


def test_the_result_tells_the_configs_in_force_and_where_they_come_from():
    image = cluster(
        *THREE, ConfigRecord(4, "", "log.retention.ms", "7"), ConfigRecord(4, "9", "log.roll.ms", "8")
    )
    settings = controller_settings(
        9, static_configs={"log.retention.hours": "1", "log.flush.interval.ms": "3"}
    )
    _, response = create(
        topic(partitions=1, replicas=1, segment_bytes="1048576"), image=image, settings=settings
    )
    (result,) = response.topics
    told = {each.name: (each.value, each.config_source) for each in result.configs}
    assert list(told) == sorted(told)
    assert told["segment.bytes"] == ("1048576", 1)
    assert told["segment.ms"] == ("8", 2)
    assert told["retention.ms"] == ("7", 3)
    assert told["flush.ms"] == ("3", 4)
    assert told["cleanup.policy"] == ("delete", 5)
    assert "internal.segment.bytes" not in told
    assert result.topic_config_error_code == 0


def test_topics_beyond_the_room_of_a_response_are_made_without_telling_their_configs():
    topics = [topic(f"t{number}", 1, 1) for number in range(200)]
    records, response = create(*topics)
    assert len(records) == 400
    told = [each for each in response.topics if each.configs is not None]
    untold = [each for each in response.topics if each.configs is None]
    assert told
    assert untold
    assert {each.topic_config_error_code for each in untold} == {ErrorCode.POLICY_VIOLATION}
    assert {each.error_code for each in response.topics} == {0}


def test_a_minimum_of_replicas_in_sync_clears_who_was_eligible():
    image = cluster(*THREE, ELR)
    records = created(topic(partitions=1, replicas=1, min_insync_replicas="2"), image=image)
    assert list(map(type, records)) == [TopicRecord, ConfigRecord, ClearElrRecord, PartitionRecord]
    assert records[2] == ClearElrRecord("orders")
    apply_all(image, records, 0)


def test_placement_and_ids_come_from_the_seed_alone():
    asked = topic("a", 9, 2), topic("b", 9, 2)
    assert created(*asked, seed=5) == created(*asked, seed=5)
    assert created(*asked, seed=5) != created(*asked, seed=6)
    one, other = (record.topic_id for record in created(*asked) if type(record) is TopicRecord)
    assert one != other


def test_small_topics_of_one_decision_after_the_other_are_spread_over_the_brokers():
    """Of as many brokers as a power of two: there Java takes the high bits, which hardly differ."""
    image = cluster(*THREE, broker(4))
    one = topic(partitions=1, replicas=1)
    leaders = Counter(created(one, image=image, seed=seed)[1].leader for seed in range(300))
    assert set(leaders) == {1, 2, 3, 4}
    assert min(leaders.values()) > 40


def test_an_id_that_is_in_use_is_not_given_again():
    context = context_of(cluster(*THREE), seed=5)
    first = new_topic_id(context, "a")
    image = apply_all(context.image, [TopicRecord("b", first)], 0)
    assert new_topic_id(context_of(image, seed=5), "a") != first
    assert new_topic_id(context, "a", {first}) != first


def test_ids_are_random_uuids_and_no_reserved_ones():
    assert not is_usable(ZERO_UUID)
    assert not is_usable(METADATA_TOPIC_ID)
    assert not is_usable(b"\xf8" + bytes(15)), "its text would begin with -"
    ids = {new_topic_id(context_of(seed=seed), "a") for seed in range(300)}
    assert len(ids) == 300
    assert {(each[6] >> 4, each[8] >> 6) for each in ids} == {(4, 2)}
    assert all(map(is_usable, ids))


def test_a_refusal_names_each_topic_once():
    asked = CreateTopicsRequest(topics=(topic("a"), topic("b"), topic("a")))
    response = CREATE_TOPICS.refuse(asked, ErrorCode.NOT_CONTROLLER, "not here")
    assert [(each.name, each.error_code, each.error_message) for each in response.topics] == [
        ("a", 41, "not here"),
        ("b", 41, "not here"),
    ]
