"""The judge of the brokers' part: each way to lose something is seen, and an honest end is not accused."""

import pytest

from kraftd.protocol.messages import ListBrokersResponseBroker
from tests.brokers.clients import Partition
from tests.brokers.complaints import DEFECTS
from tests.chaos.broker_load import Existence, Made
from tests.chaos.broker_verdict import (
    Topics,
    defects,
    denied_topics,
    denied_values,
    not_back,
    not_taken,
    not_whole,
)

WHOLE: Topics = {"first": {0: Partition(11, [11, 12], [12, 11])}}


def made(name: str, existence: Existence = "there", config: str | None = None) -> Made:
    return Made(name, existence, made_at_s=0.0, config=config)


def test_a_fenced_a_stopping_and_a_missing_broker_are_not_back() -> None:
    found = [
        ListBrokersResponseBroker(11),
        ListBrokersResponseBroker(12, is_fenced=True),
        ListBrokersResponseBroker(13, in_controlled_shutdown=True),
    ]
    assert list(not_back([11], found)) == []
    assert list(not_back([11, 12, 13, 14], found)) == [
        "broker 12 is fenced",
        "broker 13 is shutting down",
        "broker 14 is not registered",
    ]


@pytest.mark.parametrize(
    "partition", [Partition(-1, [11, 12], [11, 12]), Partition(11, [11, 12], [11])], ids=["no leader", "ISR"]
)
def test_a_partition_that_not_all_lead_and_follow_is_seen_at_the_broker_that_tells_it(
    partition: Partition,
) -> None:
    (complaint,) = not_whole({11: WHOLE, 12: {**WHOLE, "second": {3: partition}}})
    assert complaint.startswith("not led by all, says broker 12: second-3 (leader ")


def test_values_may_be_there_that_nobody_was_told_of() -> None:
    assert list(denied_values("first", 3, ["0", "2"], ["1", "0", "2"])) == []


def test_a_lost_a_doubled_and_a_strange_value_are_found() -> None:
    assert list(denied_values("first", 3, ["0", "1", "2"], ["0", "2", "2", "3"])) == [
        "acknowledged and lost in first: 1",
        "in first twice: 2",
        "in first, and nobody sent it: 3",
    ]


def test_what_is_in_doubt_may_be_there_or_not() -> None:
    told = [made("a", "in doubt"), made("b", "gone"), made("c", config="1"), made("d")]
    there: Topics = {"c": {}, "d": {}}
    assert list(denied_topics(told, {11: there, 12: {**there, "a": {}}}, {"c": "1", "d": "7"})) == []


def test_a_missing_a_surviving_and_an_unaltered_topic_are_found() -> None:
    told = [made("a"), made("b", "gone"), made("c", config="1")]
    assert list(denied_topics(told, {11: {"a": {}, "c": {}}, 12: {"b": {}, "c": {}}}, {"c": "7"})) == [
        "created, and not there, says broker 12: a",
        "deleted, and there, says broker 12: b",
        "altered, and not so: c: 7 in place of 1",
    ]


def test_a_group_that_stands_still_is_found() -> None:
    assert list(not_taken("group", {"first": set()})) == []
    (complaint,) = not_taken("group", {"first": {"10", "9"}})
    assert complaint == "group was not given of first: 9; 10"


@pytest.mark.parametrize("event", DEFECTS)
def test_each_defect_of_a_controller_is_found(event: str) -> None:
    assert list(defects(1, [{"event": event}, {"event": "broker_fenced"}])) == [
        f"node 1 says {{'event': '{event}'}}"
    ]


def test_a_stranger_may_ask_for_what_is_not_served_and_a_broker_must_not() -> None:
    def asked(client_id: str | None) -> list[str]:
        return list(defects(1, [{"event": "unserved_api", "client_id": client_id}]))

    assert asked("stranger") == asked(None) == []
    assert len(asked("11")) == len(asked("raft-client-11")) == 1
