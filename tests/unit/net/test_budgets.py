"""What each class of peers may cost: served in turns, read no faster, closed when there is no room (D-38)."""

import asyncio
import struct
from typing import Any

import pytest

from kraftd.errors import ErrorCode
from kraftd.net import server
from kraftd.net.budgets import PeerClass
from kraftd.net.connection import CallbackError
from kraftd.net.server import InboundConnection
from kraftd.protocol import limits
from kraftd.protocol.codec import Buffer, Request
from kraftd.protocol.framing import FrameReader
from kraftd.protocol.messages import (
    ApiVersionsRequest,
    DescribeNodeRequest,
    DescribeNodeResponse,
    HandshakeRequest,
    ListConfigsRequest,
    ListConfigsResponse,
)
from kraftd.protocol.msgpack_codec import MSGPACK, MsgpackCodec
from kraftd.types import Endpoint
from tests.unit.net.test_network import CLUSTER, Client, Node, running

pytestmark = pytest.mark.covers("D-38")

DEEP = struct.pack(">I", 996) + b"\x95\x12\x04\x01" + b"\x91" * 990 + b"\xc0\xc0"
"""One frame with arrays in arrays, as deep as Python's stack."""


def request(message: Any, correlation_id: int = 9) -> bytes:
    return b"".join(MSGPACK.encode_request(message.MAX_VERSION, correlation_id, "x", message))


async def greeted(node: Node, node_id: int = -1) -> tuple[Client, InboundConnection]:
    """Somebody whose handshake is done: the connection at both ends."""
    before = set(node.server.connections)
    node.voter_ids = frozenset({2})
    client = await Client.connect(node.port)
    who = {"cluster_id": CLUSTER, "node_id": node_id} if node_id >= 0 else {}
    assert (await client.greet(**who)).error_code == ErrorCode.NONE
    (number,) = set(node.server.connections) - before
    connection = node.server.connections[number]
    if node_id in node.voter_ids:
        connection.confirm()
    return client, connection


def read(connection: InboundConnection, frame: bytes) -> None:
    """Let a connection read this, as the loop does."""
    memory = connection.get_buffer(-1)
    memory[: len(frame)] = frame
    connection.buffer_updated(len(frame))


class CountingCodec(MsgpackCodec):
    """Knows how many requests it decoded."""

    count = 0

    def decode_request(self, frame: Buffer) -> Request:
        CountingCodec.count += 1
        return super().decode_request(frame)


# The boundary.


async def test_a_frame_as_deep_as_the_stack_costs_one_connection() -> None:
    node = Node(1)
    async with running(node):
        for greets in (False, True):
            client = await Client.connect(node.port)
            if greets:
                await client.greet()
            client.writer.write(DEEP)
            assert await client.end() == b""
        assert node.server.tally.malformed == 2
        assert (await (await Client.connect(node.port)).greet()).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (FrameReader, "whole"),
        (FrameReader, "take"),
        (MsgpackCodec, "decode_request"),
        (server, "refusal_of"),
        (MsgpackCodec, "encode_response"),
    ],
    ids=["framing", "framing in pieces", "codec", "handshake", "encoding"],
)
@pytest.mark.parametrize("error", [RecursionError, KeyError, OSError, MemoryError])
async def test_whatever_is_raised_between_bytes_and_messages_costs_one_connection(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: type[Exception]
) -> None:
    node = Node(1)
    async with running(node):
        with monkeypatch.context() as patch:

            def explode(*_: object) -> None:
                raise error("boom")

            patch.setattr(owner, name, explode)
            client = await Client.connect(node.port)
            host, port = client.writer.get_extra_info("sockname")
            (connection,) = [
                each for each in node.server.connections.values() if each.address == f"{host}:{port}"
            ]
            frame = request(HandshakeRequest(software="test"))
            if name == "take":
                connection.received(frame)
            else:
                client.writer.write(frame)
            assert await client.end() == b""
        assert node.log.events() == ["connection_broken"]
        assert node.server.tally.broken == 1
        assert (await (await Client.connect(node.port)).greet()).error_code == ErrorCode.NONE


async def test_a_response_that_cannot_be_read_costs_its_link_one_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = Node(1), Node(2)
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint("127.0.0.1", two.port))
        one.ask(2, 5, DescribeNodeRequest())
        await two.until(lambda: two.requests)

        def explode(*_: object) -> None:
            raise RecursionError("boom")

        with monkeypatch.context() as patch:
            patch.setattr(MsgpackCodec, "read_response", explode)
            two.requests[0][0].reply(0, two.requests[0][1].correlation_id, DescribeNodeResponse())
            await one.until(lambda: one.failures)
        assert one.failures[0][:2] == (2, 5)
        assert one.outbox.tally.broken == 1
        assert "connection_broken" in one.log.events()


async def test_what_the_handler_raises_is_not_the_connections_affair() -> None:
    node = Node(1)
    async with running(node):
        _, connection = await greeted(node, 2)

        def explode(*_: object) -> None:
            raise RuntimeError("boom")

        node.on_request = explode
        with pytest.raises(RuntimeError, match="boom"):
            connection.received(request(DescribeNodeRequest()))


@pytest.mark.parametrize("arrives", [InboundConnection.received, read], ids=["in pieces", "whole"])
async def test_an_error_of_our_disk_is_not_taken_for_trouble_of_the_connection(arrives: Any) -> None:
    """Event loops close a connection on an `OSError` in its callback, and go on."""
    node = Node(1)
    async with running(node):
        _, connection = await greeted(node, 2)

        def explode(*_: object) -> None:
            raise OSError("the disk is gone")

        node.on_request = explode
        with pytest.raises(CallbackError, match="the disk is gone"):
            arrives(connection, request(DescribeNodeRequest()))


# Before the greeting.


async def test_a_second_api_versions_before_the_greeting_ends_the_connection() -> None:
    node = Node(1)
    async with running(node):
        client = await Client.connect(node.port)
        client.writer.write(request(ApiVersionsRequest()) * 1_000)
        await client.take(ApiVersionsRequest.API_KEY)
        assert await client.end() == b""
        assert node.server.tally.malformed == 1


async def test_a_stranger_may_send_64_kib_and_no_more() -> None:
    node = Node(1)
    async with running(node):
        client = await Client.connect(node.port)
        (connection,) = node.server.connections.values()
        client.writer.write(request(ApiVersionsRequest()))
        await client.take(ApiVersionsRequest.API_KEY)
        connection.received(
            struct.pack(">I", limits.HEAD_BYTES_MAX_BEFORE_HANDSHAKE) + b"\x95" + bytes(60_000)
        )
        assert connection.is_open
        connection.received(bytes(5_600))
        assert not connection.is_open


# Turns.


async def test_a_turn_serves_everybody_once_before_anybody_twice() -> None:
    node = Node(1)
    async with running(node):
        connections = [(await greeted(node))[1] for _ in range(3)]
        connections[0].received(b"".join(request(DescribeNodeRequest(), n) for n in range(20)))
        for connection in connections[1:]:
            connection.received(request(DescribeNodeRequest()))
        node.server.budgets.serve()
        assert [each for each, _ in node.requests[:3]] == connections


async def test_a_few_that_flood_do_not_make_a_turn_long() -> None:
    node = Node(1)
    async with running(node):
        _, connection = await greeted(node)
        node.on_request = lambda each, asked: each.reply(0, asked.correlation_id, DescribeNodeResponse())
        connection.received(request(DescribeNodeRequest()) * 1_000)
        node.server.budgets.serve()
        assert 10 < len(node.requests) <= limits.WORK_OF_MORE_ROUNDS // limits.WORK_PER_REQUEST + 1
        assert node.server.budgets.is_waiting


async def test_who_asked_for_much_sits_out_while_others_ask_for_little() -> None:
    node = Node(1)
    async with running(node):
        _, greedy = await greeted(node)
        _, modest = await greeted(node)
        greedy.received(request(HandshakeRequest(software="x" * 40_000)))  # no request, but as long as one
        node.server.budgets.serve()
        node.requests.clear()
        greedy.received(request(DescribeNodeRequest()))
        modest.received(request(DescribeNodeRequest()) * 5)
        node.server.budgets.serve()
        assert [each for each, _ in node.requests] == [modest] * 5 + [greedy]


async def test_confirmed_voters_are_served_at_once_and_observers_at_the_end_of_the_turn() -> None:
    node = Node(1)
    async with running(node):
        _, voter = await greeted(node, 2)
        _, observer = await greeted(node, 9)
        assert [each.peer_class for each in (voter, observer)] == [PeerClass.VOTER, PeerClass.OBSERVER]
        observer.received(request(DescribeNodeRequest()))
        voter.received(request(DescribeNodeRequest()))
        assert [each for each, _ in node.requests] == [voter]
        node.server.budgets.serve()
        assert [each for each, _ in node.requests] == [voter, observer]


async def test_who_was_answered_much_sits_out_while_others_ask_for_little() -> None:
    node = Node(1)
    async with running(node):
        _, greedy = await greeted(node)
        _, modest = await greeted(node)
        greedy.received(request(DescribeNodeRequest()))
        node.server.budgets.serve()
        greedy.reply(0, 9, DescribeNodeResponse(), [bytes(100 * limits.KIB)])
        node.requests.clear()
        greedy.received(request(DescribeNodeRequest()))
        modest.received(request(DescribeNodeRequest()) * 5)
        node.server.budgets.serve()
        assert [each for each, _ in node.requests] == [modest] * 5 + [greedy]


async def test_a_voter_that_sends_much_at_once_is_served_in_parts() -> None:
    node = Node(1)
    async with running(node):
        _, voter = await greeted(node, 2)
        node.on_request = lambda each, asked: each.reply(0, asked.correlation_id, DescribeNodeResponse())
        voter.received(request(DescribeNodeRequest()) * 1_000)
        voter.received(request(DescribeNodeRequest()))
        assert len(node.requests) == limits.VOTER_FRAMES_AT_ONCE, "what comes later waits behind it"
        await node.until(lambda: len(node.requests) == 1_001)


async def test_of_those_who_wait_for_the_turn_voters_are_served_first() -> None:
    node = Node(1)
    async with running(node):
        _, voter = await greeted(node, 2)
        node.on_request = lambda each, asked: each.reply(0, asked.correlation_id, DescribeNodeResponse())
        others = [(await greeted(node, node_id))[1] for node_id in (9, -1)]
        for other in others:
            other.received(request(DescribeNodeRequest()))
        voter.received(request(DescribeNodeRequest()) * (limits.VOTER_FRAMES_AT_ONCE + 1))
        node.requests.clear()
        node.server.budgets.serve()
        assert [each for each, _ in node.requests] == [voter, *others]


async def test_what_a_voter_was_sent_in_all_its_days_delays_nothing() -> None:
    """A follower that fetched much, and is then read with more than one request at a time."""
    node = Node(1)
    async with running(node):
        client, voter = await greeted(node, 2)
        records = bytes(8 * limits.MIB)
        node.on_request = lambda each, asked: each.reply(
            0, asked.correlation_id, DescribeNodeResponse(), [records]
        )
        for _ in range(8):
            client.writer.write(request(DescribeNodeRequest()))
            await client.take(DescribeNodeRequest.API_KEY)
        node.on_request = lambda each, asked: each.reply(0, asked.correlation_id, DescribeNodeResponse())
        node.requests.clear()
        voter.received(request(DescribeNodeRequest()) * (limits.VOTER_FRAMES_AT_ONCE + 1))
        node.server.budgets.serve()
        assert len(node.requests) == limits.VOTER_FRAMES_AT_ONCE + 1


async def test_who_filled_its_read_is_not_read_until_it_was_served() -> None:
    node = Node(1)
    async with running(node):
        client, connection = await greeted(node)
        node.on_request = lambda each, asked: each.reply(0, asked.correlation_id, DescribeNodeResponse())
        frame = request(DescribeNodeRequest())
        count = 10 * limits.CLIENT_READ_BYTES // len(frame)
        most = 0

        def look(_: object, __: object) -> None:
            nonlocal most
            most = max(most, connection.waiting_bytes)

        response = node.on_request
        node.on_request = lambda each, asked: (look(each, asked), response(each, asked))[1]
        client.writer.write(frame * count)
        await node.until(lambda: len(node.requests) == count)
        assert 0 < most <= 2 * limits.CLIENT_READ_BYTES


async def test_what_was_read_of_a_connection_before_it_was_held_is_served_once_it_is_not() -> None:
    node = Node(1)
    async with running(node):
        _, connection = await greeted(node)
        connection.received(request(DescribeNodeRequest()) * (limits.REQUESTS_IN_FLIGHT_MAX + 5))
        await node.until(lambda: len(node.requests) == limits.REQUESTS_IN_FLIGHT_MAX)
        while node.server.budgets.is_waiting:
            node.server.budgets.serve()
        assert len(node.requests) == limits.REQUESTS_IN_FLIGHT_MAX
        for _ in range(limits.REQUESTS_IN_FLIGHT_MAX):
            connection.reply(0, 9, DescribeNodeResponse())
        await node.until(lambda: len(node.requests) == limits.REQUESTS_IN_FLIGHT_MAX + 5)


async def test_a_read_that_is_just_one_frame_counts_while_it_waits() -> None:
    node = Node(1)
    async with running(node):
        _, connection = await greeted(node)
        lane = node.server.budgets.lanes[PeerClass.CLIENT]
        frame = request(DescribeNodeRequest())
        read(connection, frame)
        assert lane.waiting_bytes == connection.waiting_bytes == len(frame)
        node.server.budgets.serve()
        assert lane.waiting_bytes == connection.waiting_bytes == 0


async def test_the_more_wait_the_less_is_read_of_each() -> None:
    node = Node(1)
    async with running(node):
        lane = node.server.budgets.lanes[PeerClass.CLIENT]
        connections = [(await greeted(node))[1] for _ in range(64)]
        assert len(lane.buffer) == limits.CLIENT_READ_BYTES
        for connection in connections:
            connection.received(request(DescribeNodeRequest()))
        assert len(lane.buffer) == limits.READ_AHEAD_BYTES // 64
        node.server.budgets.serve()
        assert len(lane.buffer) == limits.CLIENT_READ_BYTES


async def test_who_has_most_of_what_waits_is_closed_when_there_is_no_room() -> None:
    node = Node(1)
    async with running(node):
        lane = node.server.budgets.lanes[PeerClass.CLIENT]
        lane.waiting_bytes_max = 100_000
        _, small = await greeted(node)
        _, great = await greeted(node)
        small.received(struct.pack(">I", 900_000) + b"\x95" + bytes(30_000))
        great.received(struct.pack(">I", 900_000) + b"\x95" + bytes(60_000))
        small.received(bytes(20_000))
        assert (small.is_open, great.is_open) == (True, False)
        assert node.server.tally.over_budget == 1
        assert lane.waiting_bytes == small.waiting_bytes > 50_000
        small.abort("enough")
        await node.until(lambda: len(node.ended) == 2)
        assert lane.waiting_bytes == 0


# Answers.


async def test_one_long_response_at_a_time_and_the_next_after_it() -> None:
    node = Node(1)
    async with running(node):
        _, connection = await greeted(node)
        connection.received(request(ListConfigsRequest(), 1) + request(ListConfigsRequest(), 2))
        node.server.budgets.serve()
        assert [asked.correlation_id for _, asked in node.requests] == [1]
        connection.reply(1, 1, ListConfigsResponse())
        await node.until(lambda: len(node.requests) == 2)


async def test_a_request_that_waits_for_room_for_its_response_waits_as_it_came_and_counts() -> None:
    """Decoded, 1 MiB of names is some 40 MiB: what a thousand connections keep must not be that."""
    node = Node(1)
    async with running(node):
        node.server.codecs = dict.fromkeys(node.server.codecs, CountingCodec())
        _, connection = await greeted(node)
        lane = node.server.budgets.lanes[PeerClass.CLIENT]
        before = CountingCodec.count
        waits = request(ListConfigsRequest(), 2)
        connection.received(request(ListConfigsRequest(), 1) + waits)
        node.server.budgets.serve()
        node.server.budgets.serve()
        assert [asked.correlation_id for _, asked in node.requests] == [1]
        assert CountingCodec.count == before + 1
        assert lane.waiting_bytes == connection.waiting_bytes == len(waits)
        connection.reply(1, 1, ListConfigsResponse())
        await node.until(lambda: len(node.requests) == 2)
        assert lane.waiting_bytes == connection.waiting_bytes == 0
        connection.received(request(ListConfigsRequest(), 3))
        node.server.budgets.serve()
        assert lane.waiting_bytes == len(waits)
        connection.abort("gone while it waits")
        await node.until(lambda: lane.waiting_bytes == 0)


async def test_a_voter_that_asks_for_long_responses_at_once_gets_each_of_them() -> None:
    node = Node(1)
    async with running(node):
        _, voter = await greeted(node, 2)
        voter.received(b"".join(request(ListConfigsRequest(), n) for n in range(3)))
        assert [asked.correlation_id for _, asked in node.requests] == [0, 1, 2]
        for correlation_id in range(3):
            voter.reply(1, correlation_id, ListConfigsResponse())
        assert node.server.budgets.lanes[PeerClass.VOTER].long_responses == 0


async def test_long_responses_of_all_clients_are_bounded_and_their_short_requests_are_not() -> None:
    node = Node(1)
    async with running(node):
        asking = [(await greeted(node))[1] for _ in range(limits.LONG_RESPONSES_MAX + 2)]
        for connection in asking:
            connection.received(request(ListConfigsRequest()))
        _, other = await greeted(node)
        other.received(request(DescribeNodeRequest()))
        await node.until(
            lambda: (other, "DescribeNodeRequest") in [(c, r.message.NAME) for c, r in node.requests]
        )
        assert len(node.requests) == limits.LONG_RESPONSES_MAX + 1
        asking[0].abort("gone without waiting for its response")
        await node.until(lambda: len(node.requests) == limits.LONG_RESPONSES_MAX + 2)
        asking[1].reply(1, 9, ListConfigsResponse())
        await node.until(lambda: len(node.requests) == limits.LONG_RESPONSES_MAX + 3)


async def test_who_takes_least_of_its_responses_is_closed_when_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "UNSENT_BYTES_MAX", 8 << 20)
    node = Node(1)
    async with running(node):
        (slow, slow_end), (slower, slower_end) = await greeted(node), await greeted(node)
        for client in (slow, slower):
            client.writer.transport.pause_reading()
        for end, count in ((slow_end, 10), (slower_end, 14)):
            for _ in range(count):
                end.write([bytes(1 << 20)])
                end.flush()
        assert node.server.budgets.unsent_bytes <= limits.UNSENT_BYTES_MAX
        assert not slower_end.is_open
        assert node.log.events() == ["over_budget"]
        slow_end.abort("enough")
        await node.until(lambda: len(node.ended) == 2)
        assert node.server.budgets.unsent_bytes == 0


# Slots and idleness.


async def test_observers_take_no_slot_of_a_voter() -> None:
    node = Node(1)
    node.server.connections_max = 2
    async with running(node):
        for node_id in (77, 78):
            observer, _ = await greeted(node, node_id)
            observer.send(5, DescribeNodeRequest())
        await node.until(lambda: len(node.requests) == 2)
        fake = await Client.connect(node.port)
        response = await fake.greet(cluster_id=CLUSTER, node_id=79)
        assert response.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        await greeted(node, 2)
        assert node.server.statistics()[PeerClass.VOTER] == 1


async def test_silent_strangers_make_room_for_whoever_comes() -> None:
    node = Node(1)
    node.server.connections_max = 3
    async with running(node):
        silent = [await Client.connect(node.port) for _ in range(3)]
        await greeted(node)
        await greeted(node, 2)
        assert await silent[0].end() == b""
        assert node.server.tally.refused >= 1


async def test_who_names_a_voters_id_takes_a_slot_as_others_do_and_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "NEWCOMERS_RESERVED", 1)
    node = Node(1)
    node.server.connections_max = 1
    node.voter_ids = frozenset({2})
    async with running(node):
        for _ in range(2):
            claimant = await Client.connect(node.port)
            assert (await claimant.greet(cluster_id=CLUSTER, node_id=2)).error_code == ErrorCode.NONE
        refused = await Client.connect(node.port)
        assert await refused.end() == b""
        assert node.server.tally.refused == 1
        assert [each.is_open for each in node.server.connections.values()] == [True, True]


async def test_idle_clients_and_observers_are_closed_and_voters_and_waiting_ones_are_not() -> None:
    node = Node(1)
    node.server.max_idle_ms = 200
    async with running(node):
        _, voter = await greeted(node, 2)
        waiting, waiting_end = await greeted(node)
        waiting.send(5, DescribeNodeRequest())
        await node.until(lambda: node.requests)
        idle, _ = await greeted(node)
        observer, _ = await greeted(node, 9)
        assert await idle.end() == b""
        assert await observer.end() == b""
        assert node.server.tally.idle == 2
        assert voter.is_open
        assert waiting_end.is_open
        waiting_end.reply(0, 5, DescribeNodeResponse())
        assert await waiting.end() != b"", "answered, and then idle"


async def test_a_full_house_closes_the_client_that_asked_nothing_for_longest() -> None:
    node = Node(1)
    node.server.connections_max = 2
    async with running(node):
        quiet, quiet_end = await greeted(node)
        _, other = await greeted(node)
        quiet_end.quiet_sweeps, other.quiet_sweeps = 2, 1
        await greeted(node)
        assert await quiet.end() == b""
        assert other.is_open


async def test_a_full_house_that_no_sweep_has_seen_closes_the_oldest_that_never_asked() -> None:
    """Four thousand idle connections are made within the five seconds between two sweeps."""
    node = Node(1)
    node.server.connections_max = 3
    async with running(node):
        asking, asking_end = await greeted(node)
        asking.send(5, DescribeNodeRequest())
        await node.until(lambda: node.requests)
        silent, _ = await greeted(node)
        _, other = await greeted(node, 9)
        await greeted(node)
        assert await silent.end() == b""
        assert other.is_open
        assert asking_end.is_open


async def test_who_asks_something_is_not_quiet_any_more() -> None:
    node = Node(1)
    node.server.connections_max = 2
    async with running(node):
        asking, asking_end = await greeted(node)
        quiet, quiet_end = await greeted(node)
        asking_end.quiet_sweeps, quiet_end.quiet_sweeps = 2, 1
        asking.send(5, DescribeNodeRequest())
        await node.until(lambda: node.requests)
        await greeted(node)
        assert await quiet.end() == b""
        assert asking_end.is_open


async def test_lines_that_strangers_cause_are_few_however_many_addresses_they_have() -> None:
    node = Node(1)
    async with running(node):
        for number in range(3 * limits.LOG_LINES_PER_EVENT_MAX):
            node.limited_logger.warning("bad_frame", key=f"10.0.0.{number}", reason="x" * 100_000)
        assert node.log.events() == ["bad_frame"] * limits.LOG_LINES_PER_EVENT_MAX
        assert len(node.log.lines[0][1]["reason"]) <= limits.LOG_TEXT_MAX + 1
        await asyncio.sleep(0)


# What is counted is counted out.


async def test_what_came_with_the_greeting_is_counted_in_the_class_that_serves_it() -> None:
    node = Node(1)
    async with running(node):
        node.on_request = lambda each, asked: each.reply(0, asked.correlation_id, DescribeNodeResponse())
        greeting = b"".join(MSGPACK.encode_request(HandshakeRequest.MAX_VERSION, 1, "x", HandshakeRequest()))
        client = await Client.connect(node.port)
        client.writer.write(greeting + request(DescribeNodeRequest()) * 3)
        await node.until(lambda: len(node.requests) == 3)
        assert {lane.waiting_bytes for lane in node.server.budgets.lanes.values()} == {0}


async def test_a_confirmed_voter_takes_nothing_of_the_share_of_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS_PER_ADDRESS_MAX", 1)
    node = Node(1)
    async with running(node):
        for count in (1, 2):  # neither while it stands nor after its end
            voter, connection = await greeted(node, 2)
            assert connection.peer_class is PeerClass.VOTER
            client, _ = await greeted(node)
            for each in (client, voter):
                each.writer.close()
            await node.until(lambda count=count: len(node.ended) == 2 * count)  # type: ignore[misc]


async def test_a_client_that_reads_late_is_answered_all_that_it_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Node(1)
    async with running(node):
        client, connection = await greeted(node)
        is_slow = asyncio.Event()

        def pause() -> None:
            InboundConnection.pause_writing(connection)
            is_slow.set()

        monkeypatch.setattr(connection, "pause_writing", pause)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        records = bytes(200 * 1024)
        node.on_request = lambda each, asked: each.reply(
            0, asked.correlation_id, DescribeNodeResponse(), [records]
        )
        client.writer.write(request(DescribeNodeRequest()) * 60)
        async with asyncio.timeout(10):
            await is_slow.wait()
        assert len(node.requests) < 60
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(60):
            await client.take(DescribeNodeRequest.API_KEY)
