"""Grouping changes no answer, no byte and no order (D-39): one node appends what a turn wrote as one, its
twin appends each write by itself, and both get the same requests, commits, refusals and ends of leadership.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from kraftd.controller.activation import registration_of
from kraftd.controller.context import Client, ControllerSettings
from kraftd.controller.quorum_controller import QuorumController
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import bootstrap_records
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.protocol import messages as m
from kraftd.protocol.codec import Request
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    BrokerHeartbeatRequest,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ListConfigsRequest,
    ResignLeaderRequest,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.raft import accumulator, rpc
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft.rpc import LeaderAndEpoch
from kraftd.records.batch import scan
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import decode_record
from kraftd.records.messages import ConfigRecord, TopicRecord
from kraftd.runtime import append_group
from kraftd.runtime.controller_apis import ControllerApis
from kraftd.runtime.request_router import RequestRouter
from kraftd.types import Endpoint, Now
from tests.unit.controller.broker_world import registration
from tests.unit.raft.lone import Lone

BROKER, TOPIC = 4, 2
SET, DELETE, APPEND, SUBTRACT = range(4)
TIMEOUT_MS = 700
LIST = "config.providers"


class Connection:
    """Whoever asked, and what went back, in order, as bytes."""

    host, client = "10.0.0.9", None
    session = Client(host=host, listener="CONTROLLER")

    def __init__(self, number: int) -> None:
        self.number = number
        self.replies: list[tuple[int, bytes]] = []

    def reply(self, version: int, correlation_id: int, message: Any, _records: Any = ()) -> None:
        codec = MSGPACK if message.API_KEY in MSGPACK.apis else KAFKA
        frame = codec.encode_response(version, correlation_id, message)
        self.replies.append((correlation_id, b"".join(frame)))


class Node:
    """A leader of three, with its controller and its log; that of node 2 has what it is told to have."""

    def __init__(self, *, is_grouping: bool, uncommitted_bytes_max: int = 32 << 20) -> None:
        self.is_grouping = is_grouping
        self.lone = Lone(flushes=False, applies=False)
        self.raft_node = self.lone.raft_node
        self.raft_node._raft.uncommitted_bytes_max = uncommitted_bytes_max
        self.controller = QuorumController(
            me=registration_of(1, bytes(15) + b"\x01", [Endpoint("h", 1)]),
            bootstrap=[*bootstrap_records(), TopicRecord("topic", b"topic".ljust(16))],
            settings=ControllerSettings(cluster_id="c"),
        )
        self.apis = ControllerApis(
            self,  # type: ignore[arg-type]  # this is the driver
            self.controller,
            self,  # type: ignore[arg-type]  # and the raft node
            request_timeout_ms=TIMEOUT_MS,
            clock_ns=lambda: self.lone.now_ms * 1_000_000,
            on_shutdown_ready=lambda _: None,
        )
        self.router = RequestRouter()
        self.router.add(self.apis.handlers)
        self.connections = [Connection(number) for number in range(3)]
        self.appends: list[ev.AppendRequested] = []
        self.batches: list[bytes] = []
        self.applied = 0
        self.flushing: ev.LogFlushed | None = None
        self.announced: list[fx.Send] = []
        self.correlation_id = 0
        self.lone.become_leader()
        self._carry_out(self.lone.effects[:])
        self.settle()

    # What the apis need of a driver and of a raft node.

    def now(self) -> Now:
        return self.lone.now

    def append_room_bytes(self, epoch: int, *, is_urgent: bool) -> int:
        return self.raft_node.append_room_bytes(epoch, is_urgent=is_urgent)

    @property
    def leader_id(self) -> int:
        return self.raft_node.leader_id

    def deliver(self, event: ev.Event) -> None:
        if isinstance(event, ev.AppendRequested):
            self.appends.append(event)
        self._carry_out(self.raft_node.handle(event, self.now()))

    # What happens.

    def begin_turn(self) -> None:
        if self.is_grouping:
            self.apis.begin_group()

    def ask(self, connection: int, message: Any) -> None:
        self.correlation_id += 1
        request = Request(message.API_KEY, message.MAX_VERSION, self.correlation_id, "test", message)
        self.router.request_received(self.connections[connection], request)  # type: ignore[arg-type]  # a connection of this test

    def end_turn(self) -> None:
        self.apis.run(self.now())
        while effects := self.raft_node.poll(self.now()):
            self._carry_out(effects)

    def flush(self) -> None:
        """What was written is durable here."""
        event, self.flushing = self.flushing, None
        if event is not None:
            self.deliver(event)

    def replicate(self, back: int = 0) -> None:
        """Node 2 has all of the log, but for so many batches."""
        batches = [batch for data in self.batches for batch in scan(data)]
        if back < len(batches):
            newest, before = batches[-1 - back], len(self.lone.effects)
            self.lone.ask_fetch(newest.end_offset, newest.epoch)
            self._carry_out(self.lone.effects[before:])

    def acknowledge(self) -> None:
        """Node 2 answers what this node has announced to it."""
        announced, self.announced = self.announced, []
        for send in announced:
            response = rpc.begin_response(ErrorCode.NONE, LeaderAndEpoch(self.raft_node.epoch, 1))
            self.deliver(ev.ResponseReceived(2, send.correlation_id, response, b""))

    def overthrow(self) -> None:
        """Node 2 leads the next epoch."""
        before = len(self.lone.effects)
        self.lone.ask_begin(self.raft_node.epoch + 1, 2)
        self._carry_out(self.lone.effects[before:])

    def settle(self) -> None:
        """Everything that is on its way arrives."""
        for _ in range(6):
            self.end_turn()
            self.flush()
            self.replicate()
            self.acknowledge()
            self.lone.now_ms += 1

    def _carry_out(self, effects: list[fx.Effect]) -> None:
        for effect in effects:
            match effect:
                case fx.Append(batches=batches):
                    self.batches += batches
                case fx.Flush(generation=generation, end_offset=end_offset):
                    self.flushing = ev.LogFlushed(generation, end_offset)
                case fx.Send(to=2, request=m.BeginQuorumEpochRequest()):
                    self.announced.append(effect)
                case fx.AppendDone():
                    self.apis.append_done(effect)
                case fx.ReadDone():
                    self.apis.read_done(effect)
                case fx.ResignDone():
                    self.apis.resign_done(effect)
                case fx.LeaderChanged():
                    self.controller.leader_changed(
                        effect.epoch, effect.leader_id, is_self=effect.leader_id == 1
                    )
                case fx.Commit(high_watermark=high_watermark):
                    self._apply(high_watermark)
                case _:
                    pass

    def _apply(self, high_watermark: int) -> None:
        for batch in [batch for data in self.batches for batch in scan(data)]:
            if self.applied == batch.base_offset and batch.end_offset <= high_watermark:
                values = () if batch.is_control else tuple(batch.values())
                self.controller.apply(
                    CommittedBatch(batch.base_offset, batch.end_offset, batch.epoch, 0, values)
                )
                self.applied = batch.end_offset
        self._carry_out(self.raft_node.handle(ev.Applied(self.applied), self.now()))


# --- what is asked ------------------------------------------------------------------------------------------


def altered(
    *resources: tuple[int, str, list[tuple[str, int, str | None]]], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """A request by resource: type, name and (config, operation, value)."""
    return IncrementalAlterConfigsRequest(
        resources=tuple(
            IncrementalAlterConfigsRequestAlterConfigsResource(
                kind,
                name,
                tuple(IncrementalAlterConfigsRequestAlterableConfig(*change) for change in changes),
            )
            for kind, name, changes in resources
        ),
        validate_only=validate_only,
    )


def replaced(kind: int, name: str, values: dict[str, str]) -> AlterConfigsRequest:
    configs = tuple(AlterConfigsRequestAlterableConfig(*item) for item in values.items())
    return AlterConfigsRequest(resources=(AlterConfigsRequestAlterConfigsResource(kind, name, configs),))


def quota(user: str, value: float) -> AlterClientQuotasRequest:
    entity = (AlterClientQuotasRequestEntityData("user", user),)
    entry = AlterClientQuotasRequestEntryData(
        entity, (AlterClientQuotasRequestOpData("producer_byte_rate", value),)
    )
    return AlterClientQuotasRequest((entry,))


ASKED: dict[str, Callable[[Random], Any]] = {
    "valid": lambda r: altered((BROKER, str(r.randrange(3)), [("a", SET, f"{r.random()}")])),
    "valid again": lambda r: altered((BROKER, str(r.randrange(3)), [("b", SET, f"{r.random()}")])),
    "special": lambda r: altered((BROKER, "", [("min.insync.replicas", SET, str(r.randrange(1, 3)))])),
    "of a topic": lambda r: altered((TOPIC, "topic", [("retention.ms", SET, str(r.randrange(2)))])),
    "several": lambda r: altered(
        (BROKER, "1", [("a", SET, "x"), ("b", DELETE, None)]),
        (BROKER, "no id", [("a", SET, "x")]),
        (TOPIC, "topic", [("retention.ms", SET, str(r.randrange(2)))]),
    ),
    "unknown topic": lambda _: altered((TOPIC, "none", [("retention.ms", SET, "1")])),
    "unknown type": lambda _: altered((99, "1", [("a", SET, "1")])),
    "repeated resource": lambda _: altered((BROKER, "1", [("a", SET, "1")]), (BROKER, "1", [])),
    "repeated config": lambda _: altered((BROKER, "1", [("a", SET, "1"), ("a", SET, "2")])),
    "no value": lambda _: altered((BROKER, "1", [("a", SET, None)])),
    "bad value": lambda _: altered((BROKER, "1", [("num.io.threads", SET, "many")])),
    "validate only": lambda _: altered((BROKER, "1", [("a", SET, "y")]), validate_only=True),
    "too long": lambda _: altered((BROKER, "1", [("a", SET, "x" * 40_000)])),
    "long": lambda r: altered((BROKER, "2", [(f"l.{r.randrange(4)}", SET, "x" * r.randrange(2_000))])),
    "many": lambda r: altered((BROKER, "2", [(f"many.{n}", SET, "x") for n in range(r.randrange(12))])),
    "appended": lambda r: altered((BROKER, "1", [(LIST, APPEND, r.choice("pqr"))])),
    "subtracted": lambda r: altered((BROKER, "1", [(LIST, SUBTRACT, r.choice("pqr"))])),
    "deleted": lambda r: altered((BROKER, str(r.randrange(3)), [("a", DELETE, None)])),
    "replaced": lambda r: replaced(TOPIC, "topic", {"retention.ms": str(r.randrange(2))}),
    "quota": lambda r: quota(r.choice("uv"), float(r.randrange(3))),
    "read": lambda _: ListConfigsRequest(),
    "registration": lambda r: registration(r.randrange(5, 8)),
    "heartbeat": lambda r: BrokerHeartbeatRequest(broker_id=r.randrange(5, 8), broker_epoch=1),
    "resignation": lambda _: ResignLeaderRequest(to=2, timeout_ms=50),
}
USUAL = [name for name in ASKED if name != "resignation"]
FILLING = ["valid", "long", "long", "many", "many", "appended", "of a topic", "registration"]


def live(node: Node, seed: int, kinds: list[str]) -> Iterator[str]:
    """The same life for both: requests of three connections; a log that keeps up, or not; a lead lost."""
    random = Random(seed)
    for turn in range(14):
        node.begin_turn()
        for _ in range(random.randrange(12)):
            node.ask(random.randrange(3), ASKED[random.choice(kinds)](random))
        if seed % 5 == 0 and turn == 12:  # after the group was appended, and before it is written
            node.apis.run(node.now())
            node.overthrow()
        node.end_turn()
        node.lone.now_ms += random.choice((0, 1, 20))
        if seed % 5 == 1 and turn == 12:  # and here after it was written
            node.overthrow()
        if random.random() < 0.6:
            node.flush()
        if random.random() < 0.6:
            node.replicate(back=random.randrange(2))
        if random.random() < 0.2:
            node.lone.now_ms += TIMEOUT_MS
            node.end_turn()
        yield node.controller.image.hash()
    node.lone.now_ms += TIMEOUT_MS
    node.settle()


def told(node: Node) -> list[list[tuple[int, bytes]]]:
    return [connection.replies for connection in node.connections]


def twins(seed: int, kinds: list[str], uncommitted_bytes_max: int = 32 << 20) -> tuple[Node, Node]:
    """Two nodes after the same life, one that groups and one that does not, equal all the way."""
    one, other = (
        Node(is_grouping=is_grouping, uncommitted_bytes_max=uncommitted_bytes_max)
        for is_grouping in (True, False)
    )
    for mine, its in zip(live(one, seed, kinds), live(other, seed, kinds), strict=True):
        assert mine == its
        assert told(one) == told(other)
        assert one.batches == other.batches
        assert one.apis.statistics() == other.apis.statistics()
    assert told(one) == told(other)
    assert one.batches == other.batches
    assert one.controller.image == other.controller.image
    assert one.controller.image.hash() == other.controller.image.hash()
    assert one.controller.error_count == other.controller.error_count == 0
    return one, other


def data_batches(node: Node) -> list[list[bytes]]:
    """The values of each batch of records."""
    return [batch.values() for data in node.batches for batch in scan(data) if not batch.is_control]


@pytest.mark.covers("D-39", "D-13", "D-16")
@pytest.mark.parametrize("seed", range(40))
def test_grouping_changes_no_byte_no_answer_and_no_order(seed: int) -> None:
    one, other = twins(seed, list(ASKED) if seed % 3 == 0 else USUAL)
    assert len(one.appends) < len(other.appends)
    assert sum(len(asked) for asked in told(one)) == one.correlation_id
    if seed % 5 > 1:
        values = [value for batch in data_batches(one) for value in batch]
        assert one.controller.image.hash() == apply_all(EMPTY, map(decode_record, values), 0).hash()


@pytest.mark.covers("D-39")
@pytest.mark.parametrize("seed", range(100, 130))
def test_a_group_ends_where_a_batch_a_count_or_the_room_ends(seed: int, monkeypatch: Any) -> None:
    """Each limit so low that many turns reach it; what is too large for a batch is refused alone."""
    if seed % 3 == 0:
        monkeypatch.setattr(accumulator, "BATCH_BYTES_MAX", 1_500)
    elif seed % 3 == 1:
        monkeypatch.setattr(accumulator, "OPERATION_RECORDS_MAX", 12)
        monkeypatch.setattr(append_group, "OPERATION_RECORDS_MAX", 12)
    one, other = twins(seed, FILLING, uncommitted_bytes_max=3_000 if seed % 3 == 2 else 1 << 20)
    assert len(one.appends) < len(other.appends)
    answers = b"".join(frame for replies in told(one) for _, frame in replies)
    assert (b"more than the log takes" in answers) == (seed % 3 == 0)
    assert (b"too many changes are waiting" in answers) == (seed % 3 == 2)


# --- one rule each ------------------------------------------------------------------------------------------


def changed(value: str, broker: str = "1") -> IncrementalAlterConfigsRequest:
    return altered((BROKER, broker, [("a", SET, value)]))


def values_of(node: Node, turn: int = -1) -> list[str | None]:
    """The values that configs were set to in one append."""
    records = map(decode_record, node.appends[turn].records)
    return [record.value for record in records if isinstance(record, ConfigRecord)]


@pytest.fixture
def node() -> Node:
    return Node(is_grouping=True)


@pytest.mark.covers("D-39")
def test_what_a_turn_writes_is_one_append_and_one_image(node: Node) -> None:
    before = len(node.appends)
    node.begin_turn()
    for connection, value in enumerate("xyz"):
        node.ask(connection, changed(value))
    assert len(node.appends) == before
    assert node.apis.statistics()["appends"] == 3
    node.end_turn()
    assert len(node.appends) == before + 1
    assert values_of(node) == ["x", "y", "z"]
    active = node.controller._active
    assert active is not None
    assert [image is not None for _, image in active.uncommitted._pending] == [False, False, True]
    assert node.apis.statistics()["appends"] == 3
    node.settle()
    assert node.apis.statistics()["appends"] == 0


@pytest.mark.covers("D-39", "D-02")
def test_a_group_is_answered_once_a_majority_has_flushed_it(node: Node) -> None:
    node.begin_turn()
    for connection in range(3):
        node.ask(connection, changed("x"))
    node.end_turn()
    assert told(node) == [[], [], []]
    node.replicate()
    assert told(node) == [[], [], []]
    node.flush()
    assert [[number for number, _ in replies] for replies in told(node)] == [[1], [2], [3]]


@pytest.mark.covers("D-39")
def test_what_one_connection_writes_stands_and_is_answered_in_its_order(node: Node) -> None:
    node.begin_turn()
    for value in "abcd":
        node.ask(0, changed(value))
    node.settle()
    assert values_of(node) == list("abcd")
    assert [number for number, _ in node.connections[0].replies] == [1, 2, 3, 4]


@pytest.mark.covers("D-39")
def test_a_request_sees_what_those_before_it_in_its_group_wrote(node: Node) -> None:
    node.begin_turn()
    for item in "pq":
        node.ask(0, altered((BROKER, "1", [(LIST, APPEND, item)])))
    node.ask(0, altered((BROKER, "1", [(LIST, SUBTRACT, "p")])))
    node.end_turn()
    assert values_of(node) == ["p", "p,q", "q"]


@pytest.mark.covers("D-39")
def test_what_comes_outside_of_the_turn_of_clients_is_appended_at_once(node: Node) -> None:
    """A voter's request is handled as its socket is read, and others are read behind it."""
    node.settle()
    before = len(node.appends)
    node.ask(0, changed("x"))
    node.ask(1, changed("y"))
    assert len(node.appends) == before + 2


@pytest.mark.covers("D-39", "D-09")
def test_what_came_before_a_resignation_is_appended_and_what_comes_after_is_refused(node: Node) -> None:
    for _ in range(12):  # it must have led for a while to hand over
        node.lone.now_ms += 100
        node.settle()
    node.begin_turn()
    node.ask(0, changed("before"))
    node.ask(1, ResignLeaderRequest(to=2, timeout_ms=500))
    node.ask(2, changed("after"))
    assert values_of(node, -2) == ["before"]
    ((number, refusal),) = node.connections[2].replies
    assert number == 3
    assert b"Not appended, safe to repeat" in refusal
    node.end_turn()
    assert not node.connections[0].replies
    node.flush()
    node.replicate()
    ((number, accepted),) = node.connections[0].replies
    assert number == 1
    assert b"ppended" not in accepted


@pytest.mark.covers("D-39", "D-13")
@pytest.mark.parametrize(
    ("is_written", "text"), [(False, b"Not appended, safe to repeat"), (True, b"outcome unknown")]
)
def test_every_waiter_of_a_group_ends_with_its_epoch(node: Node, is_written: bool, text: bytes) -> None:
    node.begin_turn()
    for connection in range(3):
        node.ask(connection, changed("x"))
    node.apis.run(node.now())
    if is_written:
        node.end_turn()
    node.overthrow()
    for connection in node.connections:
        ((_, answer),) = connection.replies
        assert text in answer
    assert node.apis.statistics()["appends"] == 0
    assert node.controller.in_flight == 0


@pytest.mark.covers("D-39")
def test_a_group_of_an_epoch_that_has_ended_is_refused(node: Node) -> None:
    node.begin_turn()
    node.ask(0, changed("x"))
    node.ask(1, changed("y"))
    node.overthrow()
    assert told(node) == [[], [], []]
    node.end_turn()
    for connection in node.connections[:2]:
        ((_, answer),) = connection.replies
        assert b"Not appended, safe to repeat" in answer


@pytest.mark.covers("D-39")
def test_a_response_without_records_waits_for_the_group_before_it(node: Node) -> None:
    node.begin_turn()
    node.ask(0, altered((TOPIC, "topic", [("retention.ms", SET, "1")])))
    node.ask(1, altered((TOPIC, "topic", [("retention.ms", SET, "1")])))
    node.end_turn()
    assert not node.connections[1].replies
    node.settle()
    assert [number for number, _ in node.connections[1].replies] == [2]


@pytest.mark.covers("D-39", "D-16")
def test_brokers_keep_their_room_beside_a_flood(node: Node) -> None:
    """What is urgent has a group of its own: people's changes take none of its room."""
    node.raft_node._raft.uncommitted_bytes_max = 500
    node.begin_turn()
    node.ask(0, changed("x" * 400))
    node.end_turn()
    node.begin_turn()
    node.ask(1, registration(5))
    node.ask(2, changed("y" * 100))
    node.end_turn()
    ((_, refusal),) = node.connections[2].replies
    assert b"too many changes are waiting" in refusal
    assert [append.is_urgent for append in node.appends[-3:]] == [False, True, False]
    node.settle()
    assert [len(replies) for replies in told(node)] == [1, 1, 1]
