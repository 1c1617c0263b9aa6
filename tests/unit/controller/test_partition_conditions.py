"""Partitions in a condition come in pages, whole and in order; one is explained by its elections."""

import random
from itertools import pairwise

import pytest
from msgspec.structs import replace

from kraftd.controller.context import ControllerSettings, Leaving, ReadContext
from kraftd.controller.partitions import conditions
from kraftd.controller.partitions.conditions import list_partitions
from kraftd.controller.partitions.explaining import explain_partition
from kraftd.controller.sessions import BrokerSessions
from kraftd.errors import ErrorCode
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.partition_conditions import BrokerState, DirectoryState, LeadsThen, PartitionCondition
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.partitions import LOST, UNASSIGNED
from kraftd.protocol.messages import (
    ExplainPartitionRequest,
    ListPartitionsRequest,
    ListPartitionsRequestCursor,
)
from kraftd.records.messages import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from kraftd.types import Now
from tests.unit.controller.topic_worlds import ELR, THREE, broker, cluster, directory

T = b"t" * 16


def partition(index=0, *, topic_id=T, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, **fields):
    directories = fields.pop("directories", tuple(map(directory, replicas)))
    return PartitionRecord(index, topic_id, replicas, isr, leader=leader, directories=directories, **fields)


NOTHING = Leaving()


def context_of(*records, brokers=THREE, leaving=NOTHING, **settings):
    image = cluster(*brokers, TopicRecord("t", T), *records)
    return reading(image, leaving, **settings)


def reading(image, leaving=NOTHING, **settings):
    settings = ControllerSettings(**({"min_insync_replicas": 2} | settings))
    return ReadContext(image, 7, BrokerSessions(9_000), Now(0, 0), settings, leaving)


def min_isr(value, topic="t"):
    return ConfigRecord(2, topic, "min.insync.replicas", str(value))


def listed(context, condition, broker_id=-1):
    """All pages: how many, and each partition found, with what is told of it."""
    pages, found, cursor = 0, [], None
    while True:
        response = list_partitions(context, ListPartitionsRequest(condition, broker_id, cursor))
        assert (response.error_code, response.applied_offset) == (0, 7)
        pages += 1
        found += [
            (replace(topic, partitions=()), each) for topic in response.topics for each in topic.partitions
        ]
        if response.next_cursor is None:
            return pages, found
        at = response.next_cursor
        following = ListPartitionsRequestCursor(at.name, at.topic_id, at.partition_index)
        assert following != cursor, "each page is a step forward"
        cursor = following


def indexes(context, condition, broker_id=-1):
    return [each.partition_index for _, each in listed(context, condition, broker_id)[1]]


# --- which partitions are in which condition

SAMPLES = (
    partition(0),
    partition(1, isr=(1, 2)),
    partition(2, isr=(2,), leader=2),
    partition(3, isr=(), leader=-1, eligible_leader_replicas=(1,)),
    partition(4, replicas=(1, 2, 3), isr=(1, 2), adding_replicas=(3,)),
    partition(5, replicas=(1, 2, 3), isr=(1, 2, 3), leader=3, removing_replicas=(2,)),
)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (PartitionCondition.OFFLINE, [3]),
        (PartitionCondition.UNDER_REPLICATED, [1, 2, 3]),
        (PartitionCondition.UNDER_MIN_ISR, [2, 3]),
        (PartitionCondition.AT_MIN_ISR, [1, 4]),
        (PartitionCondition.NOT_PREFERRED, [2, 5]),
        (PartitionCondition.REASSIGNING, [4, 5]),
    ],
)
def test_each_condition_finds_its_partitions(condition, expected):
    context = context_of(min_isr(2), *SAMPLES)
    assert indexes(context, condition) == expected


def test_what_is_told_of_a_partition_is_as_the_image_has_it():
    context = context_of(min_isr(2), SAMPLES[4])
    [(topic, found)] = listed(context, PartitionCondition.REASSIGNING)[1]
    assert (topic.name, topic.topic_id, topic.min_isr) == ("t", T, 2)
    assert (found.leader_id, found.replicas, found.isr, found.adding_replicas) == (1, (1, 2, 3), (1, 2), (3,))


def test_no_more_must_be_in_sync_than_there_are_replicas():
    context = context_of(min_isr(3), partition(0, replicas=(1, 2), isr=(1, 2)))
    assert indexes(context, PartitionCondition.UNDER_MIN_ISR) == []
    assert indexes(context, PartitionCondition.AT_MIN_ISR) == [0]


def test_a_condition_that_nobody_knows_is_refused():
    response = list_partitions(context_of(), ListPartitionsRequest(99))
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message == "there is no condition 99; kraftd of another version may know it"


# --- who needs a broker


@pytest.mark.parametrize(
    ("record", "broker_id", "expected"),
    [
        pytest.param(partition(), 1, None, id="two others are in sync"),
        pytest.param(partition(isr=(1, 2)), 1, False, id="one other is in sync, and two must be"),
        pytest.param(partition(isr=(1, 2)), 3, None, id="a replica that is not in sync is not needed"),
        pytest.param(partition(isr=(1,)), 1, True, id="nobody else is in sync"),
        pytest.param(
            partition(isr=(1,), eligible_leader_replicas=(2,)), 1, False, id="an eligible one leads then"
        ),
        pytest.param(partition(replicas=(1,), isr=(1,)), 1, True, id="the only replica"),
    ],
)
def test_a_broker_is_needed_where_its_shutdown_takes_the_leader_or_acks_all(record, broker_id, expected):
    context = context_of(ELR, min_isr(2), record)
    found = listed(context, PartitionCondition.NEEDS_BROKER, broker_id)[1]
    assert [each.is_left_alone for _, each in found] == ([] if expected is None else [expected])


def test_who_is_being_taken_out_of_all_it_leads_does_not_take_over():
    """Broker 2 is being fenced, though the image calls it active until the last slice."""
    context = context_of(min_isr(1), partition(isr=(1, 2)), leaving=Leaving(frozenset({2})))
    [(_, found)] = listed(context, PartitionCondition.NEEDS_BROKER, 1)[1]
    assert found.is_left_alone


# --- pages


@pytest.mark.parametrize("condition", list(PartitionCondition))
def test_pages_hold_what_one_large_page_holds(condition, monkeypatch):
    rng = random.Random(condition)
    records = []
    for number in range(12):
        topic_id = bytes([number]) * 16
        records.append(TopicRecord(f"t{number:02d}", topic_id))
        for index in range(rng.randrange(9)):
            replicas = tuple(rng.sample((1, 2, 3), 3))
            isr = replicas[: rng.randrange(4)]
            adding = replicas[2:] if rng.random() < 0.3 else ()
            leader = rng.choice(isr) if isr else -1
            made = partition(
                index, topic_id=topic_id, replicas=replicas, isr=isr, leader=leader, adding_replicas=adding
            )
            records.append(made)
    context = reading(cluster(*THREE, *records))
    pages, whole = listed(context, condition, 2)
    assert pages == 1
    assert whole, "or the test means nothing"
    for looks in (1, 2, 3, 7):
        monkeypatch.setattr(conditions, "LOOKS_PER_PAGE", looks + 1)
        pages, found = listed(context, condition, 2)
        assert found == whole
        assert pages > 1


def test_a_page_ends_where_there_is_no_more_room(monkeypatch):
    monkeypatch.setattr("kraftd.controller.response_room.PAGE_ENTRIES_MAX", 2)
    context = context_of(*(partition(index, isr=(1,)) for index in range(5)))
    pages, found = listed(context, PartitionCondition.UNDER_REPLICATED)
    assert (pages, [each.partition_index for _, each in found]) == (3, [0, 1, 2, 3, 4])


def test_a_topic_that_was_made_anew_between_two_pages_is_begun_again():
    context = context_of(*(partition(index, isr=(1,)) for index in range(3)))
    anew = b"n" * 16
    image = apply_all(
        context.image,
        [RemoveTopicRecord(T), TopicRecord("t", anew), partition(0, topic_id=anew, isr=(1,))],
        0,
    )
    request = ListPartitionsRequest(
        PartitionCondition.UNDER_REPLICATED, -1, ListPartitionsRequestCursor("t", T, 2)
    )
    [topic] = list_partitions(reading(image), request).topics
    assert (topic.topic_id, [each.partition_index for each in topic.partitions]) == (anew, [0])


def test_a_look_costs_no_more_in_a_large_image(monkeypatch):
    """Of a topic with many partitions a page without findings looks at no more than it may."""
    monkeypatch.setattr(conditions, "LOOKS_PER_PAGE", 10)
    context = context_of(*(partition(index) for index in range(95)))
    ends, cursor = [0], None
    while True:
        response = list_partitions(context, ListPartitionsRequest(2, -1, cursor))
        assert response.topics == ()
        if response.next_cursor is None:
            break
        ends.append(response.next_cursor.partition_index)
        cursor = ListPartitionsRequestCursor("t", T, ends[-1])
    assert len(ends) > 9
    assert all(after - before < 10 for before, after in pairwise(ends))
    assert context.image[TOPICS].partition_count == 95


# --- explained


def explained(*records, brokers=THREE, index=0, **settings):
    context = context_of(*records, brokers=brokers, **settings)
    response = explain_partition(context, ExplainPartitionRequest("t", index))
    assert (response.error_code, response.applied_offset) == (0, 7)
    return response


@pytest.mark.parametrize(
    ("name", "index", "text"),
    [("u", 0, "there is no such topic"), ("t", 1, "the topic has no such partition")],
)
def test_what_is_not_there_is_not_explained(name, index, text):
    response = explain_partition(context_of(partition()), ExplainPartitionRequest(name, index))
    assert (response.error_code, response.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)


def test_a_replica_is_as_its_broker_and_its_directory_are():
    brokers = (
        broker(1),
        broker(2, fenced=True),
        broker(3, in_controlled_shutdown=True),
        broker(4, log_dirs=(directory(4), directory(5))),
        broker(5, log_dirs=(directory(6),)),
    )
    replicas = (1, 2, 3, 4, 5, 9)
    record = partition(
        replicas=replicas,
        isr=(1,),
        directories=(directory(1), directory(2), directory(3), UNASSIGNED, LOST, directory(9)),
        adding_replicas=(4,),
        removing_replicas=(2,),
        eligible_leader_replicas=(3,),
    )
    response = explained(record, brokers=brokers)
    active, fenced = BrokerState.ACTIVE, BrokerState.FENCED
    online, gone = DirectoryState.ONLINE, DirectoryState.GONE
    assert [(one.broker_id, one.broker_state, one.directory_state) for one in response.replicas] == [
        (1, active, online),
        (2, fenced, online),
        (3, BrokerState.SHUTTING_DOWN, online),
        (4, active, DirectoryState.NOT_TOLD),
        (5, active, gone),
        (9, BrokerState.UNREGISTERED, online),
    ]
    assert [one.broker_id for one in response.replicas if one.is_in_sync] == [1]
    assert [one.broker_id for one in response.replicas if one.is_eligible] == [3]
    assert [one.broker_id for one in response.replicas if one.is_adding] == [4]
    assert [one.broker_id for one in response.replicas if one.is_removing] == [2]
    assert {one.leads for one in response.replicas} == {LeadsThen.NOTHING}, "it has a leader"
    assert response.unclean_leader_id == -1


NOTHING, CLEAN, LOSSY = LeadsThen.NOTHING, LeadsThen.WITHOUT_LOSS, LeadsThen.MAY_LACK_RECORDS
IF_WHOLE = LeadsThen.UNLESS_IT_CRASHED
TWO_FENCED = (broker(1, fenced=True), broker(2, fenced=True), broker(3))


@pytest.mark.parametrize(
    ("record", "unclean", "leads", "unclean_leader"),
    [
        pytest.param(partition(isr=(1,), leader=-1), False, [IF_WHOLE, NOTHING, NOTHING], 3, id="in sync"),
        pytest.param(
            partition(isr=(), leader=-1, eligible_leader_replicas=(1, 2)),
            False,
            [IF_WHOLE, IF_WHOLE, NOTHING],
            3,
            id="eligible",
        ),
        pytest.param(
            partition(isr=(), leader=-1, last_known_elr=(2,)),
            False,
            [NOTHING, LOSSY, NOTHING],
            3,
            id="the last leader stopped uncleanly",
        ),
        pytest.param(
            partition(isr=(1,), leader=-1),
            True,
            [IF_WHOLE, LOSSY, LOSSY],
            3,
            id="unclean elections are allowed",
        ),
        pytest.param(
            partition(replicas=(1, 2), isr=(1,), leader=-1), False, [IF_WHOLE, NOTHING], -1, id="nobody is up"
        ),
    ],
)
def test_what_brings_a_partition_back_is_what_its_election_would_do(record, unclean, leads, unclean_leader):
    allowed = {"unclean.leader.election.enable": str(unclean).lower()}
    response = explained(ELR, record, brokers=TWO_FENCED, static_configs=allowed)
    assert [one.leads for one in response.replicas] == leads
    assert response.unclean_leader_id == unclean_leader
    assert (response.leader_id, response.is_unclean_allowed) == (-1, unclean)


def test_without_elr_a_crash_takes_nobody_out_of_the_isr():
    response = explained(partition(isr=(1,), leader=-1), brokers=TWO_FENCED)
    assert [one.leads for one in response.replicas] == [CLEAN, NOTHING, NOTHING]


def test_the_numbers_of_a_partition_are_told():
    response = explained(
        min_isr(2), partition(isr=(1, 2), leader_epoch=4, partition_epoch=9, leader_recovery_state=1)
    )
    assert (response.leader_id, response.leader_epoch, response.partition_epoch) == (1, 4, 9)
    assert (response.min_isr, response.is_leader_recovering, response.topic_id) == (2, True, T)
