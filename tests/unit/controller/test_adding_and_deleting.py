"""What CreatePartitions and DeleteTopics lead to, case by case."""

from itertools import islice, product
from string import ascii_letters

import pytest
from contexts import context_of

from kraftd.controller.context import ControllerSettings
from kraftd.controller.topics.adding import CREATE_PARTITIONS, create_partitions
from kraftd.controller.topics.deleting import DELETE_TOPICS, delete_topics
from kraftd.errors import ErrorCode
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsAssignment,
    CreatePartitionsRequestCreatePartitionsTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
)
from kraftd.records.messages import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from kraftd.types import ZERO_UUID
from tests.unit.controller.topic_worlds import THREE, broker, cluster

A, B = b"a" * 16, b"b" * 16


def partition(topic_id, number, *replicas):
    return PartitionRecord(
        number,
        topic_id,
        replicas,
        replicas,
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=(ZERO_UUID,) * len(replicas),
    )


TOPICS_THERE = (
    TopicRecord("a", A),
    partition(A, 0, 1, 2),
    partition(A, 1, 2, 3),
    TopicRecord("b", B),
    partition(B, 0, 1),
)
IMAGE = cluster(*THREE, *TOPICS_THERE)


def more(name, count, *by_hand):
    assignments = tuple(map(CreatePartitionsRequestCreatePartitionsAssignment, by_hand)) if by_hand else None
    return CreatePartitionsRequestCreatePartitionsTopic(name, count, assignments)


def add(*topics, image=IMAGE, validate_only=False):
    asked = CreatePartitionsRequest(topics=topics, validate_only=validate_only)
    records, response = create_partitions(context_of(image), asked)
    return records, {each.name: ErrorCode(each.error_code) for each in response.results}


def test_a_topic_gets_as_many_as_are_missing_with_as_many_replicas_as_it_has():
    records, outcomes = add(more("a", 5))
    assert outcomes == {"a": ErrorCode.NONE}
    assert [(each.partition_id, each.topic_id, len(each.replicas)) for each in records] == [
        (2, A, 2),
        (3, A, 2),
        (4, A, 2),
    ]
    after = apply_all(IMAGE, records, 0)[TOPICS]
    assert after.partition_count_of(A) == 5


def test_replicas_can_be_chosen():
    image = cluster(broker(1), broker(2, fenced=True), broker(3), *TOPICS_THERE)
    records, _ = add(more("a", 4, (2, 3), (3, 1)), image=image)
    assert [(each.replicas, each.isr, each.leader) for each in records] == [
        ((2, 3), (3,), 3),
        ((3, 1), (3, 1), 3),
    ]


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (more("nothing", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (more("a", 2), ErrorCode.INVALID_PARTITIONS),
        (more("a", 1), ErrorCode.INVALID_PARTITIONS),
        (more("a", 0), ErrorCode.INVALID_PARTITIONS),
        (more("a", -1), ErrorCode.INVALID_PARTITIONS),
        (more("a", 100_001), ErrorCode.POLICY_VIOLATION),
        (more("a", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (more("a", 4, (1, 2)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("a", 3, (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("a", 3, (1, 1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("a", 3, (1, 9)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_cannot_be_added_is_refused(topic, error):
    assert add(topic) == ([], {topic.name: error})


def test_nobody_could_lead_them():
    image = cluster(broker(1, fenced=True), broker(2, fenced=True), broker(3, fenced=True), *TOPICS_THERE)
    assert add(more("a", 3), image=image)[1] == {"a": ErrorCode.INVALID_REPLICATION_FACTOR}
    assert add(more("a", 3, (1, 2)), image=image)[1] == {"a": ErrorCode.INVALID_REPLICA_ASSIGNMENT}


def test_topics_grow_by_themselves_and_one_named_twice_does_not():
    records, outcomes = add(more("a", 3), more("b", 2), more("a", 4), more("nothing", 1))
    assert {each.topic_id for each in records} == {B}
    assert outcomes == {
        "a": ErrorCode.INVALID_REQUEST,
        "b": ErrorCode.NONE,
        "nothing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_ten_thousand_partitions_are_added_at_once_and_not_one_more():
    assert len(add(more("a", 10_002))[0]) == 10_000
    assert add(more("a", 10_002), more("b", 2)) == (
        [],
        {"a": ErrorCode.POLICY_VIOLATION, "b": ErrorCode.POLICY_VIOLATION},
    )


def test_of_more_than_ten_thousand_topics_none_is_decided():
    names = ["".join(each) for each in islice(product(ascii_letters, repeat=3), 10_001)]
    most = [more(name, 3) for name in names[:-1]]
    assert {*add(*most)[1].values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert {*add(*most, most[0])[1].values()} == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
    }
    _, outcomes = add(*most, more(names[-1], 3))
    assert (len(outcomes), {*outcomes.values()}) == (10_001, {ErrorCode.POLICY_VIOLATION})


def test_who_only_validates_adds_nothing():
    assert add(more("a", 3), validate_only=True) == ([], {"a": ErrorCode.NONE})


def delete(*named, names=(), image=IMAGE):
    asked = DeleteTopicsRequest(
        topics=tuple(DeleteTopicsRequestDeleteTopicState(*each) for each in named), topic_names=names
    )
    records, response = delete_topics(context_of(image), asked)
    return records, {(each.name, each.topic_id): ErrorCode(each.error_code) for each in response.responses}


def test_a_topic_is_deleted_by_its_name_or_by_its_id():
    expected = ([RemoveTopicRecord(A)], {("a", A): ErrorCode.NONE})
    assert delete(("a", ZERO_UUID)) == delete((None, A)) == delete(names=("a",)) == expected


def test_what_is_deleted_is_gone_with_its_configs_and_a_new_topic_of_its_name_has_none():
    image = apply_all(IMAGE, [ConfigRecord(2, "a", "retention.ms", "1")], 0)
    records, _ = delete(names=("a", "b"), image=image)
    assert apply_all(image, records, 0).hash() == cluster(*THREE).hash()


@pytest.mark.parametrize(
    ("named", "outcomes"),
    [
        ([("nothing", ZERO_UUID)], {("nothing", ZERO_UUID): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
        ([(None, b"n" * 16)], {(None, b"n" * 16): ErrorCode.UNKNOWN_TOPIC_ID}),
        ([(None, ZERO_UUID)], {(None, ZERO_UUID): ErrorCode.INVALID_REQUEST}),
        ([("a", A)], {("a", A): ErrorCode.INVALID_REQUEST}),
        ([("a", ZERO_UUID)] * 2, {("a", ZERO_UUID): ErrorCode.INVALID_REQUEST}),
        ([(None, A)] * 3, {(None, A): ErrorCode.INVALID_REQUEST}),
        ([(None, A), ("a", ZERO_UUID)], {("a", A): ErrorCode.INVALID_REQUEST}),
        (
            [(None, A), (None, A), ("a", ZERO_UUID)],
            {(None, A): ErrorCode.INVALID_REQUEST, ("a", A): ErrorCode.INVALID_REQUEST},
        ),
    ],
)
def test_what_is_not_named_once_and_in_one_way_stays(named, outcomes):
    assert delete(*named) == ([], outcomes)


@pytest.mark.parametrize("named", [(None, ZERO_UUID), ("a", A)])
def test_what_names_no_topic_or_one_in_both_ways_is_told_as_often_as_it_comes(named):
    named_as = DeleteTopicsRequestDeleteTopicState(*named)
    request = DeleteTopicsRequest(topics=(named_as, named_as))
    records, response = delete_topics(context_of(IMAGE), request)
    assert records == []
    told = [(each.name, each.topic_id, each.error_code) for each in response.responses]
    assert told == [(*named, ErrorCode.INVALID_REQUEST)] * 2


def test_a_name_that_comes_twice_is_looked_up_for_nobody():
    """And so the id beside it is named once: as in Kafka, that topic goes."""
    records, outcomes = delete((None, A), ("a", ZERO_UUID), ("a", ZERO_UUID))
    assert records == [RemoveTopicRecord(A)]
    assert outcomes == {("a", A): ErrorCode.NONE, ("a", ZERO_UUID): ErrorCode.INVALID_REQUEST}


def test_topics_go_and_stay_by_themselves():
    records, outcomes = delete(("a", ZERO_UUID), ("nothing", ZERO_UUID), (None, B))
    assert records == [RemoveTopicRecord(A), RemoveTopicRecord(B)]
    assert outcomes[("a", A)] is outcomes[("b", B)] is ErrorCode.NONE


def test_no_more_topics_are_deleted_at_once_than_one_operation_has_records():
    ids = [number.to_bytes(16, "big") for number in range(7, 10_008)]
    image = apply_all(IMAGE, [TopicRecord(f"t{number}", each) for number, each in enumerate(ids)], 0)
    records, outcomes = delete(*((None, each) for each in ids), image=image)
    assert records == []
    assert len(outcomes) == 10_001
    assert set(outcomes.values()) == {ErrorCode.POLICY_VIOLATION}
    most = [(None, each) for each in ids[1:]]
    records, outcomes = delete(*most, (None, b"n" * 16), image=image)
    assert records == [RemoveTopicRecord(each) for each in ids[1:]], "what is unknown makes no record"
    assert outcomes[None, b"n" * 16] is ErrorCode.UNKNOWN_TOPIC_ID


def test_each_unknown_name_is_told_to_be_unknown_however_many_they_are():
    names = tuple("".join(each) for each in islice(product(ascii_letters, repeat=3), 10_200))
    records, outcomes = delete(names=(*names, "a"))
    assert records == [RemoveTopicRecord(A)]
    assert outcomes.pop(("a", A)) is ErrorCode.NONE
    assert outcomes == dict.fromkeys(
        [(name, ZERO_UUID) for name in names], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_no_more_names_are_decided_than_one_response_tells_of():
    records, outcomes = delete(names=("a", *(f"topic {number}" for number in range(9_500))))
    assert records == []
    assert 8_000 < len(outcomes) < 9_500
    assert set(outcomes.values()) == {ErrorCode.POLICY_VIOLATION}


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (1, ErrorCode.INVALID_REQUEST),
        (2, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.TOPIC_DELETION_DISABLED),
        (6, ErrorCode.TOPIC_DELETION_DISABLED),
    ],
)
def test_nothing_is_deleted_where_the_file_says_so(version, error):
    context = context_of(IMAGE, settings=ControllerSettings(delete_topic=False), version=version)
    records, response = delete_topics(context, DeleteTopicsRequest(topic_names=("a", "nothing")))
    assert records == []
    assert [(each.name, each.error_code) for each in response.responses] == [("a", error), ("nothing", error)]


def test_refusals_name_each_topic():
    asked = CreatePartitionsRequest(topics=(more("a", 3), more("b", 3)))
    told = CREATE_PARTITIONS.refuse(asked, ErrorCode.NOT_CONTROLLER, "not here").results
    assert [(each.name, each.error_code) for each in told] == [("a", 41), ("b", 41)]
    asked = DeleteTopicsRequest(topics=(DeleteTopicsRequestDeleteTopicState(None, A),), topic_names=("b",))
    told = DELETE_TOPICS.refuse(asked, ErrorCode.NOT_CONTROLLER, "not here").responses
    assert [(each.name, each.topic_id, each.error_code) for each in told] == [
        ("b", ZERO_UUID, 41),
        (None, A, 41),
    ]
