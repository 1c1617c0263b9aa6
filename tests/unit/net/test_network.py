"""Server and links over real sockets: the handshake first, bounds kept, ends of connections told apart."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import msgpack
import pytest

from kraftd.controller import context
from kraftd.errors import ErrorCode
from kraftd.net import handshake
from kraftd.net.connection import Outbox
from kraftd.net.handshake import Identity
from kraftd.net.outbound import OutboundConnection
from kraftd.net.peer_connections import PeerConnections
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.net.server import InboundConnection, Server, connection_numbers
from kraftd.protocol import limits
from kraftd.protocol.apis import Api
from kraftd.protocol.codec import Request
from kraftd.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeNodeRequest,
    DescribeNodeResponse,
    HandshakeRequest,
    HandshakeResponse,
    ListConfigsRequest,
    ListConfigsResponse,
    ShowNonceRequest,
    ShowNonceResponse,
)
from kraftd.protocol.msgpack_codec import MSGPACK, MsgpackCodec
from kraftd.protocol.principal import ANONYMOUS
from kraftd.runtime.controller_server import LONG_RESPONSE_KEYS
from kraftd.types import Endpoint
from tests.conformance import covers

LOCAL = Endpoint("127.0.0.1", 0)
CLUSTER = "cluster-one"


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    info = error = warning

    def events(self) -> list[str]:
        return [event for event, _ in self.lines]


class Node:
    """A node without a core: remembers what came in, and answers when the test says so."""

    def __init__(self, node_id: int, *, cluster_id: str = CLUSTER) -> None:
        loop = asyncio.get_running_loop()
        self.log = Log()
        self.identity = Identity(cluster_id, "kraftd test", node_id, bytes([node_id]) * 16, 1, bytes(16))
        self.outbox = Outbox(lambda: loop.call_soon(self.outbox.flush))
        self.limited_logger = RateLimitedLogger(self.log, loop.time)
        self.numbers = connection_numbers()
        self.server = Server(
            self.identity,
            self,
            self,
            self.outbox,
            self.numbers,
            self.limited_logger,
            wake=self.clients_wait,
            long_response_keys=LONG_RESPONSE_KEYS,
        )
        self.requests: list[tuple[InboundConnection, Request]] = []
        self.responses: list[tuple[int, int, Any]] = []
        self.failures: list[tuple[int, int, str]] = []
        self.identified: list[tuple[int, int]] = []
        self.greetings: list[HandshakeRequest] = []
        self.shown: list[ShowNonceRequest] = []
        self.given: list[bytes] = []
        self.answered: list[OutboundConnection] = []
        self.starts: list[int] = []
        self.ended: list[str] = []
        self.lost: list[str] = []
        self.refuse: str | None = None
        self.on_request: Callable[[InboundConnection, Request], None] | None = None
        self.changed = asyncio.Event()
        self.port = 0
        self.voter_ids: frozenset[int] = frozenset()
        self.peer_connections: PeerConnections

    def must_prove(self, node_id: int) -> bool:
        return node_id in self.voter_ids

    def node_greeted(self, connection: InboundConnection, greeting: HandshakeRequest) -> None:
        if self.refuse:
            connection.refuse(ErrorCode.INVALID_VOTER_KEY, self.refuse)
        self.identified.append((connection.number, greeting.node_id))
        self.greetings.append(greeting)
        self.changed.set()

    def nonce_shown(self, connection: InboundConnection, shown: ShowNonceRequest) -> None:
        self.shown.append(shown)
        if shown.nonce in self.given:
            connection.confirm()
        else:
            connection.reject_nonce()
        self.changed.set()

    def request_received(self, connection: InboundConnection, request: Request) -> None:
        self.requests.append((connection, request))
        if self.on_request is not None:
            self.on_request(connection, request)
        self.changed.set()

    def connection_ended(self, connection: InboundConnection) -> None:
        self.ended.append(connection.end_reason)
        self.changed.set()

    def connection_closed(self, connection: InboundConnection) -> None:
        pass

    def clients_wait(self) -> None:
        asyncio.get_running_loop().call_soon(self.server.budgets.serve)

    def nonce_given(self, connection: OutboundConnection, nonce: bytes) -> None:
        self.given.append(nonce)

    def link_answered(self, connection: OutboundConnection) -> None:
        self.answered.append(connection)
        self.changed.set()

    def peer_identified(
        self, connection: OutboundConnection, response: HandshakeResponse, shown: ShowNonceResponse
    ) -> None:
        self.identified.append((connection.number, response.node_id))
        self.starts.append(shown.start_counter)
        self.changed.set()

    def response_received(self, peer: int, correlation_id: int, response: Any, records: Any) -> None:
        self.responses.append((peer, correlation_id, response))
        self.changed.set()

    def request_failed(self, peer: int, correlation_id: int, reason: str) -> None:
        self.failures.append((peer, correlation_id, reason))
        self.changed.set()

    def connection_lost(self, connection: OutboundConnection) -> None:
        self.lost.append(connection.end_reason)
        self.changed.set()

    def ask(self, peer: int, correlation_id: int, message: Any) -> None:
        self.peer_connections.send(peer, correlation_id, message)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def running(*nodes: Node) -> AsyncIterator[None]:
    Client.open.clear()
    async with asyncio.TaskGroup() as tasks:
        for node in nodes:
            node.port = node.server.bind(LOCAL)
            await node.server.start()
            node.peer_connections = PeerConnections(
                node.identity, node, node.outbox, node.numbers, tasks, node.limited_logger, logger=node.log
            )
        try:
            yield
        finally:
            for client in Client.open:
                client.writer.transport.abort()
            for node in nodes:
                node.peer_connections.stop()
            for node in nodes:
                await node.server.stop()
            await asyncio.sleep(0)


class Client:
    """A client with plain streams, so that the test sees each byte."""

    open: ClassVar[list["Client"]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> "Client":
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        cls.open.append(client)
        return client

    def send(self, correlation_id: int, message: Any) -> None:
        frame = MSGPACK.encode_request(message.MAX_VERSION, correlation_id, "test", message)
        self.writer.write(b"".join(frame))

    async def take(self, key: int) -> Any:
        async with asyncio.timeout(10):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            response = MSGPACK.read_response(await self.reader.readexactly(size))
            return response.decode((key, MSGPACK.apis[key].max_version))

    async def greet(self, **who: Any) -> HandshakeResponse:
        self.send(1, HandshakeRequest(software="test", **who))
        response: HandshakeResponse = await self.take(HandshakeRequest.API_KEY)
        return response

    async def end(self) -> bytes:
        """What is still read until the other end closes or resets."""
        async with asyncio.timeout(10):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


async def test_members_meet_and_responses_may_come_in_any_order() -> None:
    one, two = Node(1), Node(2)
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint("localhost", two.port))
        for correlation_id in (10, 11):
            one.ask(2, correlation_id, DescribeNodeRequest())
        await two.until(lambda: len(two.requests) == 2)
        for connection, request in reversed(two.requests):
            connection.reply(request.api_version, request.correlation_id, DescribeNodeResponse(node_id=2))
        await one.until(lambda: len(one.responses) == 2)
        assert [correlation_id for _, correlation_id, _ in one.responses] == [11, 10]
        assert [node_id for _, node_id in one.identified] == [2]
        assert [node_id for _, node_id in two.identified] == [1]
        assert one.peer_connections.statistics()[2][1]


async def test_every_message_that_is_written_is_counted_once() -> None:
    one, two = Node(1), Node(2)
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint("localhost", two.port))
        one.ask(2, 10, DescribeNodeRequest())
        await two.until(lambda: len(two.requests) == 1)
        before = one.outbox.messages_sent, two.outbox.messages_sent
        for correlation_id in (11, 12, 13):
            one.ask(2, correlation_id, DescribeNodeRequest())
        await two.until(lambda: len(two.requests) == 4)
        for connection, request in two.requests[:2]:
            connection.reply(request.api_version, request.correlation_id, DescribeNodeResponse(node_id=2))
        assert (one.outbox.messages_sent - before[0], two.outbox.messages_sent - before[1]) == (3, 2)


async def test_a_request_comes_from_the_session_of_its_connection() -> None:
    one, two = Node(1), Node(2)
    two.server.listener = "CONTROLLER"
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint("localhost", two.port))
        one.ask(2, 10, DescribeNodeRequest())
        await two.until(lambda: len(two.requests) == 1)
        session = two.requests[0][0].session
        assert session == context.Client(ANONYMOUS, None, session.host, "CONTROLLER", "PLAINTEXT")
        assert session.host in ("127.0.0.1", "::1")


@pytest.mark.covers("D-06")
async def test_a_machine_that_is_gone_without_a_word_is_noticed_at_both_ends() -> None:
    """Its old connection would keep out whoever comes back in its place."""
    one, two = Node(1), Node(2)
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint("127.0.0.1", two.port))
        one.ask(2, 5, DescribeNodeRequest())
        await two.until(lambda: two.requests)
        (outbound,) = [
            connection._connection
            for connection in one.peer_connections._connections.values()
            if connection._connection
        ]
        for connection in (outbound, two.requests[0][0]):
            channel = connection._transport.get_extra_info("socket")
            assert channel.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            idle_s, interval_s, count = (channel.getsockopt(socket.IPPROTO_TCP, each) for each in options)
            assert idle_s + interval_s * count <= 8


@pytest.mark.covers("D-08")
async def test_a_failed_connect_fails_the_request_and_is_no_closed_connection() -> None:
    one = Node(1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with running(one):
            one.peer_connections.learn(2, Endpoint("127.0.0.1", taken.getsockname()[1]))
            one.ask(2, 7, DescribeNodeRequest())
            await one.until(lambda: one.failures)
            peer, correlation_id, reason = one.failures[0]
            assert (peer, correlation_id) == (2, 7)
            assert "refused" in reason.lower()
            assert one.lost == []
            assert one.log.events().count("peer_unreachable") == 1


@pytest.mark.covers("D-08")
async def test_the_end_of_an_identified_connection_is_told_to_both_ends_and_fails_what_is_in_flight() -> None:
    one, two = Node(1), Node(2)
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint("127.0.0.1", two.port))
        one.ask(2, 5, DescribeNodeRequest())
        await two.until(lambda: two.requests)
        two.requests[0][0].abort("the test pulls the plug")
        await one.until(lambda: one.lost and one.failures)
        await two.until(lambda: two.ended)
        assert one.failures[0][:2] == (2, 5)


@pytest.mark.covers("D-14")
@pytest.mark.parametrize("host", ["x" * 70, "a..b", "no such host.invalid"])
async def test_an_address_that_is_none_is_trouble_of_that_link_only(host: str) -> None:
    one = Node(1)
    async with running(one):
        one.peer_connections.learn(2, Endpoint(host, 1))
        one.ask(2, 7, DescribeNodeRequest())
        await one.until(lambda: one.failures)
        assert one.failures[0][2].startswith("cannot connect to")


APART = "node 2 speaks Fetch in versions 13 to 16, node 1 in version 18: upgrade them one release at a time"


class OlderCodec(MsgpackCodec):
    """kraftd two releases before, which knew two APIs in older versions only."""

    def __init__(self) -> None:
        super().__init__()
        before = {1: Api(1, "Fetch", 13, 16), 52: Api(52, "Vote", 0, 1)}
        self.apis = {**self.apis, **before}


@covers("REQ-09", "D-14")
async def test_nodes_two_releases_apart_refuse_each_other_in_one_line_that_names_both_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else they would go on as two nodes of one quorum that cannot vote for each other."""
    one, two = Node(1), Node(2)
    async with running(one, two):
        with monkeypatch.context() as patch:
            patch.setattr(handshake, "MSGPACK", OlderCodec())
            old = two.server.identity.greeting()
        client = await Client.connect(one.port)
        client.send(1, old)
        response = await client.take(HandshakeRequest.API_KEY)
        assert (response.error_code, response.error_message) == (ErrorCode.UNSUPPORTED_VERSION, APART)
        assert await client.end() == b""
        assert one.log.events() == ["peer_refused"]
        assert one.log.lines[0][1]["reason"] == APART


async def test_a_node_two_releases_older_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = Node(1), Node(2)
    async with running(one, two):
        patch_response = two.server.identity.response
        with monkeypatch.context() as patch:
            patch.setattr(handshake, "MSGPACK", OlderCodec())
            old = patch_response()
        monkeypatch.setattr(Identity, "response", lambda *_, **__: old)
        one.peer_connections.learn(2, Endpoint("127.0.0.1", two.port))
        one.ask(2, 5, DescribeNodeRequest())
        await one.until(lambda: one.failures)
        assert one.failures == [(2, 5, f"refused: {APART}")]
        assert two.requests == []


async def test_another_version_of_the_greeting_is_refused_with_both_versions() -> None:
    node = Node(1)
    async with running(node):
        client = await Client.connect(node.port)
        body = msgpack.packb([HandshakeRequest.API_KEY, 0, 1, "test", [None, -1]])
        client.writer.write(struct.pack(">I", len(body)) + body)
        assert await client.end() == b""
        ((_, line),) = node.log.lines
        assert "API 20000 version 0 is not supported; Handshake is spoken here in version 1" in line["reason"]


async def test_a_request_to_an_unknown_peer_fails_at_once() -> None:
    one = Node(1)
    async with running(one):
        one.ask(9, 3, DescribeNodeRequest())
        assert one.failures == [(9, 3, "no address of node 9 is known")]


@pytest.mark.covers("D-06")
async def test_the_core_may_refuse_a_member_with_one_clear_line_at_both_ends() -> None:
    one, two = Node(1), Node(2)
    two.refuse = "node 1 was another directory before"
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint("127.0.0.1", two.port))
        one.ask(2, 5, DescribeNodeRequest())
        await two.until(lambda: two.identified)
        await one.until(lambda: one.failures)
        assert one.failures[0][2] == f"refused: {two.refuse}"
        assert one.lost == []
        await two.until(lambda: len(two.identified) >= 3)
        assert two.log.events().count("peer_refused") == 1, "repeats are not logged"
        assert one.log.events().count("peer_unreachable") == 1


@pytest.mark.parametrize(
    ("who", "error", "text"),
    [
        ({"cluster_id": "cluster-two"}, ErrorCode.INCONSISTENT_CLUSTER_ID, "not of cluster-two"),
        ({"cluster_id": CLUSTER, "node_id": 1}, ErrorCode.INVALID_VOTER_KEY, "node id 1 is taken"),
        ({"cluster_id": None, "node_id": 2}, ErrorCode.INVALID_REQUEST, "must say its cluster id"),
    ],
)
async def test_the_handshake_refuses_the_wrong_ones(who: dict[str, Any], error: ErrorCode, text: str) -> None:
    node = Node(1)
    async with running(node):
        client = await Client.connect(node.port)
        response = await client.greet(**who)
        assert response.error_code == error
        assert text in (response.error_message or "")
        assert await client.end() == b""


async def test_a_link_to_the_wrong_node_is_not_used() -> None:
    one, three = Node(1), Node(3)
    async with running(one, three):
        one.peer_connections.learn(2, Endpoint("127.0.0.1", three.port))
        one.ask(2, 5, DescribeNodeRequest())
        await three.until(lambda: three.identified)
        await one.until(lambda: one.failures)
        assert one.failures[0][2] == "refused: node 3 answers there, not node 2"


async def test_nothing_but_a_greeting_or_api_versions_is_heard_before_the_handshake() -> None:
    node = Node(1)
    async with running(node):
        client = await Client.connect(node.port)
        client.send(4, ApiVersionsRequest())
        client.send(5, DescribeNodeRequest())
        assert (await client.take(ApiVersionsRequest.API_KEY)).error_code == ErrorCode.NONE
        assert await client.end() == b""
        assert node.requests == []
        assert node.log.events() == ["bad_frame"]


async def test_api_versions_is_answered_with_error_35_for_any_other_version() -> None:
    node = Node(1)
    async with running(node):
        client = await Client.connect(node.port)
        body = b"\x95\x12\x63\x2a\xa4test\x90"  # ApiVersions 18, version 99, correlation id 42
        client.writer.write(struct.pack(">I", len(body)) + body)
        response: ApiVersionsResponse = await client.take(ApiVersionsRequest.API_KEY)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert {1, 18, 52, 20_000} <= {api.api_key for api in response.api_keys}


@pytest.mark.parametrize(
    ("garbage", "event"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "bad_frame"),
        (struct.pack(">I", 1 << 31), "bad_frame"),
        (struct.pack(">IHH", 10, 3, 9) + bytes(6), "unserved_api"),
        (struct.pack(">I", 3) + b"\x92\xc1\xc1", "bad_frame"),
        (struct.pack(">I", limits.HEAD_BYTES_MAX_BEFORE_HANDSHAKE + 1) + b"\x95", "bad_frame"),
    ],
    ids=["http", "huge", "kafka", "nonsense", "too much before the handshake"],
)
async def test_garbage_ends_its_connection_and_nothing_else(garbage: bytes, event: str) -> None:
    node = Node(1)
    async with running(node):
        client = await Client.connect(node.port)
        client.writer.write(garbage + bytes(8))
        assert await client.end() == b""
        assert node.log.events() == [event]
        second = await Client.connect(node.port)
        assert (await second.greet()).error_code == ErrorCode.NONE


async def test_a_request_that_does_not_follow_its_schema_is_answered_and_its_connection_closed() -> None:
    node = Node(1)
    async with running(node):
        client = await Client.connect(node.port)
        await client.greet()
        good = MSGPACK.encode_request(1, 77, "test", ListConfigsRequest(resource_type=4))[0]
        bad = bytearray(good[4:])
        assert bad[-3:] == b"\x04\xc0\x80"
        bad[-3:] = b"\xa1\x34\xc0\x80"  # a string where the number was
        client.writer.write(struct.pack(">I", len(bad)) + bad)
        response: ListConfigsResponse = await client.take(ListConfigsRequest.API_KEY)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert await client.end() == b""
        assert node.requests == []


@pytest.mark.covers("D-16")
async def test_nodes_are_heard_before_clients_in_each_turn() -> None:
    node = Node(1)
    async with running(node):
        client, voter = await Client.connect(node.port), await Client.connect(node.port)
        await client.greet()
        await voter.greet(cluster_id=CLUSTER, node_id=2)
        inbound = {c.claimed_id == 2: c for c in node.server.connections.values()}
        request = MSGPACK.encode_request(0, 9, "x", DescribeNodeRequest())[0]
        inbound[False].received(bytes(request))
        inbound[True].received(bytes(request))
        await node.until(lambda: len(node.requests) == 2)
        assert [connection.claimed_id == 2 for connection, _ in node.requests] == [True, False]


async def test_a_connection_with_too_many_requests_in_flight_is_not_read_until_some_are_answered() -> None:
    node = Node(1)
    async with running(node):
        client = await Client.connect(node.port)
        await client.greet()
        for number in range(limits.REQUESTS_IN_FLIGHT_MAX):
            client.send(number, DescribeNodeRequest())
        await node.until(lambda: len(node.requests) == limits.REQUESTS_IN_FLIGHT_MAX)
        client.send(1_000, DescribeNodeRequest())
        await asyncio.sleep(0.05)
        assert len(node.requests) == limits.REQUESTS_IN_FLIGHT_MAX
        for connection, request in node.requests:
            connection.reply(0, request.correlation_id, DescribeNodeResponse())
        await node.until(lambda: node.requests[-1][1].correlation_id == 1_000)


async def client_that_does_not_read(node: Node) -> Client:
    """It asks for something, which the node has to answer now."""
    client = await Client.connect(node.port)
    await client.greet()
    client.writer.transport.pause_reading()
    client.send(1, ListConfigsRequest())
    await node.until(lambda: node.requests)
    return client


async def test_a_client_that_does_not_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WRITE_STALL_TIMEOUT_MS", 100)
    node = Node(1)
    async with running(node):
        await client_that_does_not_read(node)
        connection = node.requests[0][0]
        for _ in range(24):
            connection.write([bytes(1 << 20)])
            connection.flush()
        await node.until(lambda: node.ended)
        assert node.log.events() == ["slow_connection_closed"]


async def test_a_server_that_stops_waits_until_its_responses_are_written() -> None:
    node = Node(1)
    async with running(node), asyncio.TaskGroup() as tasks:
        client = await client_that_does_not_read(node)
        node.requests[0][0].write([bytes(24 << 20)])
        stopping = tasks.create_task(node.server.stop())
        await asyncio.sleep(0.05)
        assert not stopping.done()
        client.writer.transport.resume_reading()
        assert len(await client.end()) == 24 << 20


@pytest.mark.parametrize(("stall_ms", "stop_ms"), [(100, 60_000), (60_000, 100)])
async def test_a_server_that_stops_does_not_wait_for_who_does_not_read(
    monkeypatch: pytest.MonkeyPatch, stall_ms: int, stop_ms: int
) -> None:
    """Each connection has its time, and all together have theirs."""
    monkeypatch.setattr(limits, "WRITE_STALL_TIMEOUT_MS", stall_ms)
    monkeypatch.setattr(limits, "STOP_TIMEOUT_MS", stop_ms)
    node = Node(1)
    async with running(node):
        await client_that_does_not_read(node)
        node.requests[0][0].write([bytes(24 << 20)])
        async with asyncio.timeout(5):
            await node.server.stop()
        assert not node.server.connections


async def test_who_has_read_some_of_what_is_left_at_a_stop_has_no_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "WRITE_STALL_TIMEOUT_MS", 100)
    monkeypatch.setattr(limits, "STOP_TIMEOUT_MS", 60_000)
    node = Node(1)
    async with running(node), asyncio.TaskGroup() as tasks:
        await client_that_does_not_read(node)
        connection = node.requests[0][0]
        connection.write([bytes(24 << 20)])
        stopping = tasks.create_task(node.server.stop())
        await asyncio.sleep(0)
        assert node.server.connections
        connection.resume_writing()  # as when all but a little is read
        async with asyncio.timeout(5):
            await stopping


async def test_a_connection_that_is_closed_has_its_whole_time_to_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long the other end had not read before."""
    monkeypatch.setattr(limits, "WRITE_STALL_TIMEOUT_MS", 200)
    node = Node(1)
    async with running(node):
        client = await client_that_does_not_read(node)
        connection = node.requests[0][0]
        connection.write([bytes(24 << 20)])
        connection.flush()  # it does not read from now on
        monkeypatch.setattr(limits, "WRITE_STALL_TIMEOUT_MS", 60_000)
        connection.close("a test")
        await asyncio.sleep(0.4)
        client.writer.transport.resume_reading()
        assert len(await client.end()) == 24 << 20


async def test_clients_leave_the_last_slots_to_voters() -> None:
    node = Node(1)
    node.server.connections_max = 1
    node.voter_ids = frozenset({2})
    async with running(node):
        first = await Client.connect(node.port)
        assert (await first.greet()).error_code == ErrorCode.NONE
        first.send(5, DescribeNodeRequest())
        await node.until(lambda: node.requests)
        for who in ({}, {"cluster_id": CLUSTER, "node_id": 9}):
            other = await Client.connect(node.port)
            assert (await other.greet(**who)).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert await other.end() == b""
        voter = await Client.connect(node.port)
        assert (await voter.greet(cluster_id=CLUSTER, node_id=2)).error_code == ErrorCode.NONE


async def test_one_address_cannot_take_every_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS_PER_ADDRESS_MAX", 2)
    monkeypatch.setattr(limits, "NEWCOMERS_RESERVED", 0)
    node = Node(1)
    async with running(node):
        for _ in range(2):
            assert (await (await Client.connect(node.port)).greet()).error_code == ErrorCode.NONE
        third = await Client.connect(node.port)
        assert await third.end() == b""
        assert node.log.events() == ["connection_refused"]


async def test_clients_of_an_address_do_not_keep_the_voter_out_that_lives_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On one machine, or behind one gateway, a crowd of clients must not cost the quorum a voter."""
    monkeypatch.setattr(limits, "CONNECTIONS_PER_ADDRESS_MAX", 1)
    monkeypatch.setattr(limits, "NEWCOMERS_RESERVED", 1)
    node = Node(1)
    node.voter_ids = frozenset({2})
    async with running(node):
        first = await Client.connect(node.port)
        assert (await first.greet()).error_code == ErrorCode.NONE
        first.send(5, DescribeNodeRequest())
        await node.until(lambda: node.requests)
        silent = await Client.connect(node.port)
        second = await Client.connect(node.port)
        assert await silent.end() == b"", "who has not said anything makes room"
        assert (await second.greet()).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert await second.end() == b""
        voter = await Client.connect(node.port)
        assert (await voter.greet(cluster_id=CLUSTER, node_id=2)).error_code == ErrorCode.NONE


async def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HANDSHAKE_TIMEOUT_MS", 50)
    node = Node(1)
    async with running(node):
        client = await Client.connect(node.port)
        assert await client.end() == b""


async def test_the_link_comes_back_when_the_peer_does() -> None:
    one, two = Node(1), Node(2)
    async with running(one):
        with socket.socket() as reserved:
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
        one.peer_connections.learn(2, Endpoint("127.0.0.1", port))
        one.ask(2, 5, DescribeNodeRequest())
        await one.until(lambda: one.failures)
        two.server.bind(Endpoint("127.0.0.1", port))
        await two.server.start()
        one.ask(2, 6, DescribeNodeRequest())
        two.on_request = lambda connection, request: connection.reply(
            0, request.correlation_id, DescribeNodeResponse()
        )
        await one.until(lambda: one.responses)
        assert one.responses[0][1] == 6
        await two.server.stop()
