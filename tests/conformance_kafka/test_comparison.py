"""The comparison itself: what must be noticed is, and what the two sides may call by other names is not.

No Kafka is needed here: two sides answer from what a test wrote.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.records import messages as r
from tests.conformance_kafka import normal
from tests.conformance_kafka.account import Account
from tests.conformance_kafka.broker_requests import registration
from tests.conformance_kafka.comparing import IMAGES_EVERY, Comparison
from tests.conformance_kafka.drawing import BROKERS, Drawing
from tests.conformance_kafka.error_pairs import (
    HANDLERS,
    impossible,
    listed,
    missing,
    reachable,
    unreachable,
    unreached,
)
from tests.conformance_kafka.hmacs import hmac_of
from tests.conformance_kafka.intended import INTENDED, intended
from tests.conformance_kafka.normal import Difference
from tests.conformance_kafka.operations import (
    Operation,
    ScriptError,
    id_of,
    read_script,
    request_of,
    script_of,
)
from tests.conformance_kafka.run import ALL_REQUESTS
from tests.conformance_kafka.scenes import WORLDS
from tests.conformance_kafka.shrinking import shrink
from tests.conformance_kafka.sides import Appended

CREATE = Operation("CreateTopics", 7, {"topics": [{"name": "a"}, {"name": "b"}]})
HEARTBEAT = Operation("BrokerHeartbeat", 2, {"broker_id": 2, "broker_epoch": "@epoch:2"})
DELETE = Operation("DeleteTopics", 6, {"topics": [{"topic_id": "@topic:a"}, {"name": "b"}]})


class Side:
    """A controller that says what it was given to say."""

    def __init__(self, first_id: int, spoil: Callable[[Any], Any] = lambda said: said) -> None:
        self.name = "double"
        self.account = Account()
        self._first = first_id
        self._spoil = spoil
        self._new: list[Appended] = []

    def ask(self, operation: Operation) -> Any:
        answer, records = getattr(self, operation.api)(request_of(operation, self.account))
        for record in (spoilt for each in records if (spoilt := self._spoil(each)) is not None):
            offset = self.account.end_offset
            self.account.apply(record, offset)
            self.account.end_offset += 1
            self._new.append(Appended(offset, 0, record))
        return self._spoil(answer)

    def appended(self) -> list[Appended]:
        new, self._new = self._new, []
        return new

    def CreateTopics(self, request: m.CreateTopicsRequest) -> tuple[Any, Sequence[Any]]:  # noqa: N802
        ids = [self.topic_id(index) for index, _ in enumerate(request.topics)]
        records: list[Any] = []
        for topic, topic_id in zip(request.topics, ids, strict=True):
            records += [r.TopicRecord(topic.name, topic_id), self.partition(topic_id)]
        told = [
            m.CreateTopicsResponseCreatableTopicResult(name=topic.name, topic_id=topic_id)
            for topic, topic_id in zip(request.topics, ids, strict=True)
        ]
        return m.CreateTopicsResponse(topics=tuple(told)), records

    def BrokerHeartbeat(self, _request: object) -> tuple[Any, Sequence[Any]]:  # noqa: N802
        changes = [
            r.PartitionChangeRecord(0, topic_id, isr=(3,), leader=3)
            for topic_id in sorted(self.account.by_id)
        ]
        return m.BrokerHeartbeatResponse(), [r.NoOpRecord(), *changes]

    def DeleteTopics(self, request: m.DeleteTopicsRequest) -> tuple[Any, Sequence[Any]]:  # noqa: N802
        ids = [topic.topic_id if any(topic.topic_id) else self.account.ids["b"] for topic in request.topics]
        told = [m.DeleteTopicsResponseDeletableTopicResult(topic_id=each) for each in sorted(ids)]
        return m.DeleteTopicsResponse(responses=tuple(told)), [
            r.RemoveTopicRecord(each) for each in sorted(ids)
        ]

    def topic_id(self, index: int) -> bytes:
        """Ids that are in another order on the other side."""
        return bytes((self._first + (index if self._first < 128 else -index),)) * 16

    @staticmethod
    def partition(topic_id: bytes) -> r.PartitionRecord:
        return r.PartitionRecord(
            0, topic_id, replicas=(2, 3), isr=(2, 3), leader=2, leader_epoch=0, partition_epoch=0
        )


class Two(tuple[Side, Side]):
    """Both, always ready."""

    def before(self, index: int) -> None:
        pass


def compared(*operations: Operation, spoil: Callable[[Any], Any] = lambda said: said) -> Difference | None:
    pair: Any = Two((Side(1), Side(200, spoil)))
    return Comparison(pair, lambda _pair: "").run(operations)


def test_images_that_differ_are_noticed_at_the_end_and_now_and_then() -> None:
    pair: Any = Two((Side(1), Side(200)))
    found = Comparison(pair, lambda _pair: "why").run([CREATE])
    assert found is not None
    assert (found.index, found.part, found.kraftd, found.kind) == (0, "images", "why", ("images",))
    comparison = Comparison(pair, lambda _pair: "")
    assert comparison.run([HEARTBEAT] * (2 * IMAGES_EVERY)) is None
    assert comparison.reach.images == 3


def test_ids_of_each_sides_own_and_orders_that_depend_on_them_are_no_difference() -> None:
    assert compared(CREATE, HEARTBEAT, DELETE) is None


@pytest.mark.parametrize(
    ("operation", "kind", "changes"),
    [
        (HEARTBEAT, r.PartitionChangeRecord, {"leader": -1}),
        (HEARTBEAT, r.PartitionChangeRecord, {"isr": (2,)}),
        (HEARTBEAT, r.PartitionChangeRecord, {"removing_replicas": ()}),
        (CREATE, r.PartitionRecord, {"replicas": (3, 2)}),
        (CREATE, r.TopicRecord, {"name": "c"}),
    ],
)
def test_a_record_that_is_changed_on_the_way_is_noticed(
    operation: Operation, kind: type[Any], changes: dict[str, Any]
) -> None:
    found = compared(
        CREATE, operation, spoil=lambda said: replace(said, **changes) if type(said) is kind else said
    )
    assert found is not None
    assert found.kind[1] == "records"


def test_a_record_that_is_lost_on_the_way_is_noticed() -> None:
    found = compared(
        CREATE, HEARTBEAT, spoil=lambda said: None if type(said) is r.PartitionChangeRecord else said
    )
    assert found is not None
    assert (found.operation, found.part) == (HEARTBEAT, "records")


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (m.BrokerHeartbeatResponse, {"error_code": 77}),
        (m.BrokerHeartbeatResponse, {"is_fenced": False}),
        (m.BrokerHeartbeatResponse, {"throttle_time_ms": 1}),
    ],
)
def test_an_answer_that_is_changed_on_the_way_is_noticed(kind: type[Any], changes: dict[str, Any]) -> None:
    found = compared(
        CREATE, HEARTBEAT, spoil=lambda said: replace(said, **changes) if type(said) is kind else said
    )
    assert found is not None
    assert found.part == f"answer at {next(iter(changes))}"


def test_an_error_code_of_one_entry_that_is_changed_on_the_way_is_noticed() -> None:
    def spoil(said: Any) -> Any:
        if type(said) is not m.CreateTopicsResponse:
            return said
        first, *others = said.topics
        return replace(said, topics=(replace(first, error_code=36), *others))

    found = compared(CREATE, spoil=spoil)
    assert found is not None
    assert (found.part, found.kafka, found.kraftd) == ("answer at topics.0.error_code", 0, 36)


def test_texts_are_not_compared() -> None:
    def spoil(said: Any) -> Any:
        if type(said) is not m.DeleteTopicsResponse:
            return said
        return replace(said, responses=tuple(replace(one, error_message="so") for one in said.responses))

    assert compared(CREATE, DELETE, spoil=spoil) is None


def test_versions_of_records_are_compared() -> None:
    account = Account()
    record = r.NoOpRecord(), r.ConfigRecord(2, "a", "b", "c")
    first, second = (normal.records(HEARTBEAT, [(0, record[0]), (at, record[1])], account) for at in (0, 1))
    assert [*normal.differing(first, second)] == ["0.version"]


def test_only_configs_of_one_resource_change_places() -> None:
    ours = [r.ConfigRecord(2, "a", name, "1") for name in "xy"]
    there = r.ConfigRecord(2, "b", "x", "1")

    def values(*found: Any) -> Any:
        return normal.records(CREATE, [(0, each) for each in found], Account())

    assert values(*ours, there) == values(*reversed(ours), there)
    assert values(*ours, there) != values(ours[0], there, ours[1])


def test_what_a_script_names_is_looked_up_on_each_side() -> None:
    account = Account()
    account.apply(r.TopicRecord("t-1", b"i" * 16), 4)
    account.apply(Side.partition(b"i" * 16), 5)
    account.apply(r.PartitionChangeRecord(0, b"i" * 16, leader=3), 6)
    account.apply(r.RegisterBrokerRecord(broker_id=2, broker_epoch=70), 7)
    account.end_offset = 8
    body = {
        "broker_id": 2,
        "broker_epoch": "@epoch:2-1",
        "topics": [
            {
                "topic_id": "@topic:t-1",
                "partitions": [
                    {
                        "partition_index": -1,
                        "leader_epoch": "@leader-epoch:t-1/0",
                        "partition_epoch": "@partition-epoch:t-1/0+1",
                    },
                    {"leader_epoch": "@leader-epoch:t-1/-1", "partition_epoch": "@registered:2"},
                ],
            }
        ],
    }
    asked = request_of(Operation("AlterPartition", 3, body), account)
    (topic,) = asked.topics
    assert (asked.broker_epoch, topic.topic_id) == (69, b"i" * 16)
    assert [(each.leader_epoch, each.partition_epoch) for each in topic.partitions] == [(1, 2), (0, 7)]
    heartbeat = request_of(Operation("BrokerHeartbeat", 2, {"current_metadata_offset": "@end"}), account)
    assert heartbeat.current_metadata_offset == 7
    unknown = request_of(Operation("DeleteTopics", 6, {"topics": [{"topic_id": "@topic:x"}]}), account)
    assert unknown.topics[0].topic_id == id_of("topic x")


def test_a_script_can_be_written_and_read_again(tmp_path: Any) -> None:
    script = tmp_path / "script"
    script.write_text(script_of([CREATE, HEARTBEAT, DELETE], ["why"]), encoding="utf-8")
    assert read_script(script) == [CREATE, HEARTBEAT, DELETE]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"api": "NoSuchApi", "version": 0, "body": {}}',
        '{"api": "CreateTopics", "version": 99, "body": {}}',
        '{"api": "CreateTopics", "version": 7, "body": {"topics": 3}}',
        '{"api": "BrokerHeartbeat", "version": 1, "body": {"broker_epoch": "@nothing:1"}}',
    ],
)
def test_a_line_that_is_no_operation_is_told_with_its_number(tmp_path: Any, line: str) -> None:
    script = tmp_path / "script"
    script.write_text(f"# a remark\n{line}\n", encoding="utf-8")
    with pytest.raises(ScriptError, match="script:2: "):
        read_script(script)


def test_a_script_is_shrunk_to_what_the_difference_needs() -> None:
    operations = [Operation("DescribeAcls", 3, {"operation": number}) for number in range(40)]

    def attempt(script: Sequence[Operation]) -> Difference | None:
        for index, each in enumerate(script):
            before = {other.body["operation"] for other in script[:index]}
            if each.body["operation"] == 35 and {3, 20} <= before:
                return Difference(index, each, "answer", 0, 1)
            if each.body["operation"] == 36:
                return Difference(index, each, "records", 0, 1)
        return None

    found = attempt(operations)
    assert found is not None
    shortest, shown = shrink(operations[:36], found, attempt, 200)
    assert [each.body["operation"] for each in shortest] == [3, 20, 35]
    assert shown.index == 2
    assert len(shrink(operations[:36], found, attempt, 0)[0]) == 36


def test_tokens_are_called_by_their_order_and_an_hmac_has_to_be_what_the_secret_makes() -> None:
    def told(prefix: str, hmac: bytes = b"", later_ms: int = 0) -> tuple[Any, Any]:
        account, (one, two) = Account(), (f"{prefix}1", f"{prefix}2")
        tokens = [
            r.DelegationTokenRecord(token_id=each, issue_timestamp=1_000 + later_ms) for each in (one, two)
        ]
        for offset, each in enumerate(tokens):
            account.apply(each, offset)
        asked = request_of(Operation("RenewDelegationToken", 2, {"hmac": "@hmac:1"}), account)
        answer = m.CreateDelegationTokenResponse(token_id=two, hmac=hmac or asked.hmac)
        records = normal.records(CREATE, [(0, each) for each in tokens], account)
        return normal.answer(asked_for, answer, account), records

    asked_for = Operation("CreateDelegationToken", 3, {})
    (ours, records), (theirs, others) = told("x"), told("y", later_ms=3_000)
    assert [*normal.differing(ours, theirs)] == [*normal.differing(records, others)] == []
    assert [*normal.differing(ours, told("y", hmac=hmac_of("y1"))[0])] == ["hmac"]
    late = told("y", later_ms=normal.TOLERANCE_MS)[1]
    assert [*normal.differing(records, late)] == ["0.issue_timestamp", "1.issue_timestamp"]


def test_a_time_is_not_nearly_never() -> None:
    assert [*normal.differing({"max_timestamp_ms": -1}, {"max_timestamp_ms": 5})] == ["max_timestamp_ms"]
    assert [*normal.differing({"throttle_time_ms": 0}, {"throttle_time_ms": 1})] == ["throttle_time_ms"]
    assert [*normal.differing({"broker_epoch": 1}, {"broker_epoch": 2})] == ["broker_epoch"]


def test_worlds_and_scenes_have_names_of_their_own() -> None:
    scenes = [scene for world in WORLDS for scene in world.scenes]
    assert len({each.name for each in WORLDS}) == len(WORLDS)
    assert len({each.__name__ for each in scenes}) == len(scenes)
    assert all(next(scene(Account())).api in HANDLERS for scene in scenes)


def test_pairs_that_cannot_be_reached_and_those_that_are_not_are_in_the_list_once() -> None:
    known = {(api, name) for api, codes in listed().items() for name in codes}
    dead, left = (
        {(api, name) for api, reasons in each().items() for name in reasons}
        for each in (unreachable, unreached)
    )
    assert dead | left <= known
    assert not dead & left
    assert reachable() == known - dead
    assert missing(()) == sorted(known - dead)


def test_a_pair_that_is_reached_is_not_missing_and_one_that_cannot_be_is_told() -> None:
    reached = [("DeleteTopics", ErrorCode.INVALID_REQUEST), ("DeleteTopics", ErrorCode.POLICY_VIOLATION)]
    assert ("DeleteTopics", "INVALID_REQUEST") not in missing(reached)
    assert ("DeleteTopics", "UNKNOWN_TOPIC_ID") in missing(reached)
    assert impossible(reached) == [("DeleteTopics", "POLICY_VIOLATION")]
    assert impossible(reached[:1]) == []


def test_a_seed_repeats_and_draws_every_api() -> None:
    def drawn(seed: int) -> list[Operation]:
        draw = Drawing(Random(seed), Account(), ALL_REQUESTS)
        first = [draw.operation("BrokerRegistration", registration(draw, broker)) for broker in BROKERS]
        return [*first, *(draw.next() for _ in range(400))]

    assert drawn(1) == drawn(1) != drawn(2)
    assert {each.api for each in drawn(1)} == {*ALL_REQUESTS}


def test_only_the_differences_that_are_listed_are_intended() -> None:
    stop = Operation("BrokerHeartbeat", 2, {"broker_id": 2, "want_shut_down": True})
    fenced = {"record": "BrokerRegistrationChangeRecord", "fenced": 1}
    again = Difference(0, stop, "records", [fenced], [])
    assert (name := intended(again)) is not None
    assert name.name == "fenced-again"
    assert intended(again._replace(kafka=[fenced, {"record": "PartitionChangeRecord"}])) is None
    assert intended(again._replace(part="answer at is_fenced", kafka=False, kraftd=True)) is None
    assert len({each.name for each in INTENDED}) == len(INTENDED)
