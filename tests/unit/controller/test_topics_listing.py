"""Pages of topics and of their partitions: together they are the image, and none grows with it."""

import random

import msgspec
import pytest

from kraftd.controller import response_room
from kraftd.controller.topics import listing as topics_listing
from kraftd.controller.topics.listing import describe_topics, list_topics
from kraftd.errors import ErrorCode
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol import limits
from kraftd.protocol.messages import (
    DescribeTopicsRequest,
    ListTopicsRequest,
    ListTopicsRequestCursor,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.records.messages import PartitionRecord, RemoveTopicRecord, TopicRecord
from kraftd.types import ZERO_UUID


def topic_id(name):
    return name.encode().ljust(16, b"-")[:16]


def partition(name, index, replicas=(1, 2), isr=(1, 2), leader=1):
    return PartitionRecord(
        index, topic_id(name), replicas, isr, leader=leader, directories=(b"d" * 16,) * len(replicas)
    )


def image_of(sizes, rng=None):
    rng = rng or random.Random(1)
    records = []
    for name, size in sizes.items():
        records.append(TopicRecord(name, topic_id(name)))
        for index in range(size):
            replicas = tuple(rng.sample(range(9), rng.randint(1, 4)))
            isr = replicas[: rng.randint(0, len(replicas))]
            records.append(partition(name, index, replicas, isr, isr[0] if isr else -1))
    return apply_all(EMPTY, records, 0)


def listed(image, *, cursor=None):
    """All pages: their number, and what is told of each topic, added up."""
    pages, found = 0, {}
    while True:
        response = list_topics(image, ListTopicsRequest(cursor), 7)
        assert (response.error_code, response.applied_offset) == (0, 7)
        pages += 1
        for entry in response.topics:
            before = found.get(entry.name, (0, 0, 0))
            numbers = (entry.partitions, entry.leaderless, entry.under_replicated)
            found[entry.name] = tuple(map(sum, zip(before, numbers, strict=True)))
        if response.next_cursor is None:
            return pages, found
        assert response.topics, "each page is a step forward"
        at = response.next_cursor
        cursor = ListTopicsRequestCursor(at.name, at.topic_id, at.partition_index)


def described(image, names):
    pages, found = 0, {}
    request = DescribeTopicsRequest(tuple(names))
    while True:
        response = describe_topics(image, request, 7)
        pages += 1
        for entry in response.topics:
            assert entry.error_code == 0
            found.setdefault(entry.name, []).extend(each.partition_index for each in entry.partitions)
        at = response.next_cursor
        if at is None:
            return pages, found
        assert response.topics
        names = names[names.index(at.name) :]
        request = DescribeTopicsRequest(tuple(names), at.topic_id, at.partition_index)


SIZES = {"a": 3, "b": 0, "c.d": 70, "c_e": 1, "z": 40}


@pytest.mark.parametrize("partitions_max", [1, 7, 64, 2_048])
def test_the_pages_of_a_list_add_up_to_the_image(monkeypatch, partitions_max):
    monkeypatch.setattr(topics_listing, "PARTITIONS_PER_PAGE", partitions_max)
    image = image_of(SIZES)
    pages, found = listed(image)
    every = {name: list(image[TOPICS].partitions(topic_id(name))) for name in SIZES}
    assert found == {
        name: (
            len(partitions),
            sum(each.leader < 0 for each in partitions),
            sum(len(each.isr) < len(each.replicas) for each in partitions),
        )
        for name, partitions in every.items()
    }
    assert pages >= sum(SIZES.values()) / partitions_max


def test_a_list_tells_the_fewest_and_the_most_replicas():
    records = [TopicRecord("t", topic_id("t")), partition("t", 0, (1,), (1,)), partition("t", 1, (1, 2, 3))]
    (entry,) = list_topics(apply_all(EMPTY, records, 0), ListTopicsRequest(), 3).topics
    assert (entry.least_replicas, entry.most_replicas) == (1, 3)
    assert list_topics(EMPTY, ListTopicsRequest(), 3).topics == ()


def test_a_topic_made_anew_between_two_pages_is_counted_from_its_first_partition(monkeypatch):
    monkeypatch.setattr(topics_listing, "PARTITIONS_PER_PAGE", 10)
    image = image_of({"t": 30})
    at = list_topics(image, ListTopicsRequest(), 1).next_cursor
    assert (at.name, at.partition_index) == ("t", 10)
    anew = [RemoveTopicRecord(topic_id("t")), TopicRecord("t", b"n" * 16)]
    anew += [msgspec.structs.replace(partition("t", index), topic_id=b"n" * 16) for index in range(12)]
    image = apply_all(image, anew, 50)
    cursor = ListTopicsRequestCursor(at.name, at.topic_id, at.partition_index)
    assert listed(image, cursor=cursor)[1] == {"t": (12, 0, 0)}
    request = DescribeTopicsRequest(("t",), at.topic_id, at.partition_index)
    (entry,) = describe_topics(image, request, 1).topics
    assert [each.partition_index for each in entry.partitions] == list(range(12))


@pytest.mark.parametrize("entries_max", [1, 2, 33, 1_024])
def test_the_pages_of_a_describe_are_the_topics_named(monkeypatch, entries_max):
    monkeypatch.setattr(response_room, "PAGE_ENTRIES_MAX", entries_max)
    image = image_of(SIZES)
    names = ["z", "b", "c.d", "a"]
    pages, found = described(image, names)
    assert list(found) == names
    assert found == {name: list(range(SIZES[name])) for name in names}
    assert pages >= sum(SIZES[name] for name in names) / entries_max


def test_a_describe_tells_all_of_a_partition():
    record = PartitionRecord(
        partition_id=4,
        topic_id=topic_id("t"),
        replicas=(1, 2, 3),
        isr=(2,),
        removing_replicas=(3,),
        adding_replicas=(1,),
        leader=2,
        leader_epoch=5,
        partition_epoch=6,
        leader_recovery_state=1,
        directories=(b"1" * 16, b"2" * 16, b"3" * 16),
        eligible_leader_replicas=(1,),
        last_known_elr=(3,),
    )
    image = apply_all(EMPTY, [TopicRecord("t", topic_id("t")), record], 0)
    (topic,) = describe_topics(image, DescribeTopicsRequest(("t",)), 9).topics
    (told,) = topic.partitions
    assert (topic.topic_id, told.partition_index, told.leader_id) == (topic_id("t"), 4, 2)
    assert (told.leader_epoch, told.partition_epoch, told.is_leader_recovering) == (5, 6, True)
    assert (told.replicas, told.isr, told.adding_replicas, told.removing_replicas) == (
        (1, 2, 3),
        (2,),
        (1,),
        (3,),
    )
    assert (told.eligible_leader_replicas, told.last_known_elr) == ((1,), (3,))
    assert told.directories == record.directories


def test_a_topic_that_is_not_there_has_an_error_of_its_own():
    response = describe_topics(image_of({"a": 1}), DescribeTopicsRequest(("no", "a")), 9)
    assert [(each.name, each.error_code) for each in response.topics] == [
        ("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", ErrorCode.NONE),
    ]
    assert response.topics[0].topic_id == ZERO_UUID


def test_a_page_of_either_is_bounded_in_bytes():
    long_name, brokers = "n" * 249, tuple(range(1_000_000, 1_000_400))
    sizes = {f"{long_name[:-5]}{number:05d}": 0 for number in range(2_000)}
    topics = [TopicRecord(name, number.to_bytes(16, "big")) for number, name in enumerate(sizes, 1)]
    wide = [
        PartitionRecord(
            index, topics[0].topic_id, brokers, brokers, leader=brokers[0], directories=(b"d" * 16,) * 400
        )
        for index in range(100)
    ]
    image = apply_all(EMPTY, [*topics, *wide], 0)
    for response in (
        list_topics(image, ListTopicsRequest(), 1),
        describe_topics(image, DescribeTopicsRequest(tuple(sizes)), 1),
    ):
        assert response.next_cursor is not None
        frame = b"".join(MSGPACK.encode_response(0, 1, response))
        assert len(frame) <= limits.PAGE_BYTES_MAX + 1_024
        assert len(frame) > limits.PAGE_BYTES_MAX / 4
