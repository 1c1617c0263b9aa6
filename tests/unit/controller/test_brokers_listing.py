"""What is told of brokers: what is registered, their sessions, and the numbers of their partitions."""

import pytest

from kraftd.controller import response_room
from kraftd.controller.brokers.listing import list_brokers
from kraftd.controller.sessions import BrokerSessions
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.protocol.messages import ListBrokersRequest
from kraftd.records.messages import (
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterBrokerRecordBrokerEndpoint,
    TopicRecord,
)

TOPIC = b"t" * 16


def broker(broker_id, **fields):
    known = {"broker_epoch": 100 + broker_id, "incarnation_id": bytes([broker_id]) * 16, "fenced": False}
    return RegisterBrokerRecord(broker_id=broker_id, **(known | fields))


def image_of(*records):
    return apply_all(EMPTY, records, 0)


def sessions_of(image, now_ms=1_000):
    sessions = BrokerSessions(9_000)
    sessions.begin(image, 50, now_ms)
    return sessions


def listed(image, sessions, now_ms, **request):
    return list_brokers(image, ListBrokersRequest(**request), 77, sessions, now_ms)


def test_a_broker_is_told_with_its_registration_its_session_and_its_partitions():
    end = RegisterBrokerRecordBrokerEndpoint(name="PLAINTEXT", host="b1", port=9_092)
    one = broker(
        1, rack="r", end_points=(end,), log_dirs=(b"a" * 16, b"b" * 16), cordoned_log_dirs=(b"b" * 16,)
    )
    partitions = [
        PartitionRecord(0, TOPIC, (1, 2), (1, 2), leader=1, directories=(b"a" * 16,) * 2),
        PartitionRecord(1, TOPIC, (2, 1), (2,), leader=2, directories=(b"a" * 16,) * 2),
    ]
    image = image_of(one, broker(2, fenced=True), TopicRecord("t", TOPIC), *partitions)
    sessions = sessions_of(image)
    sessions.heard(1, 101, 70, 1_500)
    response = listed(image, sessions, 1_800)
    assert (response.applied_offset, response.session_timeout_ms, response.next_after_broker_id) == (
        77,
        9_000,
        -1,
    )
    first, second = response.brokers
    assert (first.broker_id, first.broker_epoch, first.rack) == (1, 101, "r")
    assert [(at.name, at.host, at.port) for at in first.listeners] == [("PLAINTEXT", "b1", 9_092)]
    assert (first.log_dirs, first.cordoned_log_dirs) == (one.log_dirs, one.cordoned_log_dirs)
    assert (first.last_contact_ms, first.metadata_offset) == (300, 70)
    assert (first.leader_count, first.in_sync_count, first.replica_count) == (1, 1, 2)
    assert (first.is_fenced, second.is_fenced) == (False, True)
    assert (second.last_contact_ms, second.metadata_offset) == (-1, -1), "not heard of by this leader"
    assert (second.leader_count, second.in_sync_count, second.replica_count) == (1, 2, 2)


def test_a_session_that_is_over_or_of_another_start_is_none():
    image = image_of(broker(1), broker(2))
    sessions = sessions_of(image)
    sessions.over(1, 101)
    sessions.registered(2, 999, 60)
    sessions.heard(2, 999, -1, 1_200)
    assert [each.last_contact_ms for each in listed(image, sessions, 2_000).brokers] == [-1, -1]


def test_a_new_leader_tells_of_no_heartbeat_that_it_never_had():
    """It counts the time from its own beginning for those who are not fenced; that is no contact."""
    image = image_of(broker(1))
    sessions = sessions_of(image)
    assert sessions.get(1, 101) is not None
    (entry,) = listed(image, sessions, 2_000).brokers
    assert (entry.last_contact_ms, entry.metadata_offset) == (-1, -1)


def test_a_heartbeat_after_the_request_came_in_is_no_time_ago():
    image = image_of(broker(1))
    sessions = sessions_of(image)
    sessions.heard(1, 101, 3, 5_000)
    (entry,) = listed(image, sessions, 4_990).brokers
    assert entry.last_contact_ms == 0


@pytest.mark.parametrize("entries_max", [1, 2, 3, 1_024])
def test_the_pages_of_a_list_are_all_brokers_by_id(monkeypatch, entries_max):
    monkeypatch.setattr(response_room, "PAGE_ENTRIES_MAX", entries_max)
    image = image_of(*(broker(broker_id) for broker_id in (7, 0, 3, 12, 5)))
    sessions = sessions_of(image)
    for ids, wanted in ((None, [0, 3, 5, 7, 12]), ((12, 4, 0, 0, 7), [0, 7, 12]), ((), [])):
        after, found = -1, []
        while True:
            response = listed(image, sessions, 0, broker_ids=ids, after_broker_id=after)
            found += [each.broker_id for each in response.brokers]
            after = response.next_after_broker_id
            if after < 0:
                break
        assert found == wanted
