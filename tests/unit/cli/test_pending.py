"""`brokers pending`: what a broker has not read, counted out of the committed log."""

from typing import Any

import pytest

from kraftd.cli.pending import CONTROL, PendingRecords
from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.records.batch import encode_batch, encode_control_batch, scan
from kraftd.records.frame import AnyRecord, encode_record
from kraftd.records.messages import (
    ConfigRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kraftd.types import uuid_text
from tests.unit.cli.kraftctl import Kraftctl, Outcome
from tests.unit.cli.scripted import ScriptedQuorum

OLD, NEW, GONE, LOST = b"o" * 16, b"n" * 16, b"g" * 16, b"l" * 16


def batch(offset: int, *records: AnyRecord) -> bytes:
    return encode_batch(offset, 1, 1_000, [encode_record(one) for one in records])


LOG = (
    batch(
        10,
        NoOpRecord(),
        NoOpRecord(),
        TopicRecord("new", NEW),
        PartitionRecord(0, NEW),
        PartitionRecord(1, NEW),
    ),
    batch(15, PartitionChangeRecord(0, OLD), PartitionChangeRecord(0, OLD), PartitionChangeRecord(3, OLD)),
    batch(18, PartitionChangeRecord(0, GONE), RemoveTopicRecord(GONE), RemoveTopicRecord(LOST)),
    batch(21, TopicRecord("brief", b"b" * 16), RemoveTopicRecord(b"b" * 16), ConfigRecord()),
)
END = 24


class Fetches:
    """A log of these batches, one a fetch; it begins at `start`."""

    def __init__(self, start: int = 10) -> None:
        self.start = start
        self.offsets: list[int] = []

    def __call__(self, request: m.FetchCommittedRequest) -> Any:
        self.offsets.append(request.offset)
        head = m.FetchCommittedResponse(high_watermark=END, start_offset=self.start)
        if request.offset < self.start:
            return m.FetchCommittedResponse(
                error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=END, start_offset=self.start
            )
        views = ((data, next(iter(scan(data)))) for data in LOG)
        return head, next((data for data, view in views if view.end_offset > request.offset), b"")


HEAD = (
    "Broker 11 (fenced) had read the log up to offset 17 as of its last heartbeat; "
    "6 records are behind that, from 18 on."
)


def ask(
    kraftctl: Kraftctl,
    quorum: ScriptedQuorum,
    reported: int,
    *more: object,
    start: int = 10,
    last_contact_ms: int = -1,
) -> Outcome:
    leader = quorum.nodes[2].responses
    leader[m.ListBrokersRequest] = lambda _: m.ListBrokersResponse(
        applied_offset=END,
        brokers=(
            m.ListBrokersResponseBroker(
                broker_id=11,
                is_fenced=last_contact_ms < 0,
                last_contact_ms=last_contact_ms,
                metadata_offset=reported,
                incarnation_id=b"i" * 16,
            ),
        ),
    )
    leader[m.FetchCommittedRequest] = Fetches(start)
    leader[m.ListTopicsRequest] = lambda _: m.ListTopicsResponse(
        topics=(m.ListTopicsResponseTopic(name="old", topic_id=OLD),)
    )
    leader[m.ListDeletionsRequest] = lambda _: m.ListDeletionsResponse(
        removals=(m.ListDeletionsResponseRemoval(offset=19, broker_id=11, name="gone", topic_id=GONE),)
    )
    return kraftctl("--bootstrap-controller", quorum.bootstrap, "brokers", "pending", "11", *more)


def test_records_behind_the_reported_offset_are_counted_and_the_newest_of_a_topic_is_told(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    data = ask(kraftctl, quorum, 10, "-o", "json").data
    assert data == {
        "broker_id": 11,
        "state": "fenced",
        "last_contact_ms": -1,
        "metadata_offset": 10,
        "begin_offset": 11,
        "counted_to_offset": END,
        "end_offset": END,
        "is_complete": True,
        "records": {
            "ConfigRecord": 1,
            "NoOpRecord": 1,
            "PartitionChangeRecord": 4,
            "PartitionRecord": 2,
            "RemoveTopicRecord": 3,
            "TopicRecord": 2,
        },
        "topics": [
            {"topic": None, "topic_id": uuid_text(LOST), "change": "deleted", "partitions": 0},
            {"topic": "brief", "topic_id": uuid_text(b"b" * 16), "change": "deleted", "partitions": 0},
            {"topic": "gone", "topic_id": uuid_text(GONE), "change": "deleted", "partitions": 0},
            {"topic": "new", "topic_id": uuid_text(NEW), "change": "created", "partitions": 2},
            {"topic": "old", "topic_id": uuid_text(OLD), "change": "changed", "partitions": 2},
        ],
    }


def test_the_table_says_how_much_it_is(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    assert ask(kraftctl, quorum, 17).out.splitlines() == [
        HEAD,
        "",
        "Kind                   Records",
        "ConfigRecord           1",
        "PartitionChangeRecord  1",
        "RemoveTopicRecord      3",
        "TopicRecord            1",
        "",
        "Change   Partitions  Topic",
        f"deleted  0           ({uuid_text(LOST)})",
        "deleted  0           brief",
        "deleted  0           gone",
    ]


def test_what_came_since_the_heartbeat_is_not_said_to_be_missing(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    """Nobody knows what a broker has read since: the controller writes on, and it reads on."""
    head = ask(kraftctl, quorum, END - 2, last_contact_ms=812).out.splitlines()[0]
    assert head == (
        f"Broker 11 (active) had read the log up to offset {END - 2} as of its heartbeat 812 ms ago; "
        f"1 record is behind that, from {END - 1} on."
    )


def test_who_has_read_all_is_told_so(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    outcome = ask(kraftctl, quorum, END - 1)
    assert outcome.out == "Broker 11 (fenced) has read all of the log, up to offset 23.\n"


def test_a_log_that_does_not_reach_back_is_counted_from_its_begin(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    data = ask(kraftctl, quorum, 4, "-o", "json").data
    assert (data["begin_offset"], data["is_complete"], sum(data["records"].values())) == (10, False, 14)
    assert "at least 14 records are behind that, from 10 on." in ask(kraftctl, quorum, 4).out


@pytest.mark.parametrize(("limit", "to"), [(1, 11), (4, 14), (5, 15), (6, 16), (13, 23)])
def test_no_more_is_counted_than_allowed_also_within_a_batch(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, limit: int, to: int
) -> None:
    data = ask(kraftctl, quorum, 9, "--limit", limit, "-o", "json").data
    assert (sum(data["records"].values()), data["counted_to_offset"], data["end_offset"]) == (limit, to, END)
    assert not data["is_complete"]


def test_a_limit_that_is_just_enough_counts_all(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    data = ask(kraftctl, quorum, 9, "--limit", 14, "-o", "json").data
    assert (sum(data["records"].values()), data["counted_to_offset"], data["is_complete"]) == (14, END, True)


@pytest.mark.parametrize(("begin", "most", "end"), [(0, 9, 13), (11, 9, 13), (10, 2, 12), (12, 0, 12)])
def test_records_of_the_quorum_itself_are_counted_as_one_kind(begin: int, most: int, end: int) -> None:
    (control,) = scan(encode_control_batch(10, 1, 1_000, [(2, b"a"), (2, b"b"), (2, b"c")]))
    pending = PendingRecords()
    assert pending.add(control, begin, most) == end
    assert pending.kinds == {CONTROL: end - max(begin, 10)}


def test_one_record_and_no_more_is_told_as_at_least_one(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    assert "; at least 1 record is behind that, from 10 on." in ask(kraftctl, quorum, 9, "--limit", 1).out


def test_of_a_broker_that_reported_nothing_nothing_is_known(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    outcome = ask(kraftctl, quorum, -1)
    assert (outcome.code, outcome.out) == (4, "")
    assert "broker 11 (fenced) has reported no offset to this active controller" in outcome.err


def test_a_log_that_cannot_be_read_is_said_to_be(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    def broken(_: Any) -> Any:
        return m.FetchCommittedResponse(high_watermark=END, start_offset=10), LOG[0][:-1] + b"\xff"

    ask(kraftctl, quorum, 9)
    quorum.nodes[2].responses[m.FetchCommittedRequest] = broken
    outcome = kraftctl("--bootstrap-controller", quorum.bootstrap, "brokers", "pending", "11")
    assert outcome.code == 1
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_limit_is_positive(kraftctl: Kraftctl, quorum: ScriptedQuorum, limit: str) -> None:
    assert ask(kraftctl, quorum, 9, "--limit", limit).code == 64
