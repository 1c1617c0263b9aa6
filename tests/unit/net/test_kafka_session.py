"""Connections of Kafka's wire: real sockets, plain streams at the other end."""

import asyncio
from typing import Any

import pytest

from kraftd.errors import ErrorCode
from kraftd.net.budgets import PeerClass
from kraftd.protocol import messages as m
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.types import METADATA_TOPIC_ID
from tests.unit.net.test_network import Client, Node, running

SERVED = frozenset({m.ApiVersionsRequest.API_KEY, m.FetchRequest.API_KEY})


class KafkaClient(Client):
    """A client of Kafka's wire."""

    def send(self, correlation_id: int, message: Any, version: int | None = None) -> None:
        version = KAFKA.apis[message.API_KEY].max_version if version is None else version
        self.writer.write(b"".join(KAFKA.encode_request(version, correlation_id, "test", message)))

    async def receive(self, key: int, version: int | None = None) -> tuple[int, Any]:
        async with asyncio.timeout(10):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            response = KAFKA.read_response(await self.reader.readexactly(size))
            version = KAFKA.apis[key].max_version if version is None else version
            return response.correlation_id, response.decode((key, version))


def fetch() -> m.FetchRequest:
    partition = m.FetchRequestFetchPartition(partition=0)
    return m.FetchRequest(
        topics=(m.FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),)
    )


def serving(node_id: int = 1) -> Node:
    node = Node(node_id)
    node.server.kafka_api_keys = SERVED
    return node


async def test_a_client_of_kafkas_wire_is_served_without_a_greeting() -> None:
    node = serving()
    async with running(node):
        client = await KafkaClient.connect(node.port)
        client.send(7, fetch())
        await node.until(lambda: node.requests)
        ((connection, request),) = node.requests
        assert (request.correlation_id, request.client_id) == (7, "test")
        assert connection.peer_class is PeerClass.CLIENT
        connection.reply(request.api_version, 7, m.FetchResponse(session_id=5))
        assert await client.receive(m.FetchRequest.API_KEY) == (7, m.FetchResponse(session_id=5))


@pytest.mark.covers("D-36")
async def test_requests_are_answered_one_at_a_time_in_their_order() -> None:
    """Kafka's clients close on a response of another order; a parked Fetch holds up what follows it."""
    node = serving()
    async with running(node):
        client, other = await KafkaClient.connect(node.port), await KafkaClient.connect(node.port)
        client.send(1, fetch())
        await node.until(lambda: node.requests)
        client.send(2, fetch())
        client.send(3, fetch())
        other.send(9, fetch())
        await node.until(lambda: len(node.requests) == 2)
        assert [request.correlation_id for _, request in node.requests] == [1, 9]
        for expected in (1, 2, 3):
            await node.until(lambda n=expected: any(r.correlation_id == n for _, r in node.requests))
            connection, request = next(each for each in node.requests if each[1].correlation_id == expected)
            connection.reply(request.api_version, expected, m.FetchResponse())
            assert (await client.receive(m.FetchRequest.API_KEY))[0] == expected


@pytest.mark.covers("D-14")
async def test_a_request_that_was_given_up_is_answered_once_whatever_its_handler_had_done() -> None:
    """It raised before it answered, and answers late; it raised behind its answer; it cannot be refused."""
    node = serving()
    version, told = KAFKA.apis[m.FetchRequest.API_KEY].max_version, m.FetchResponse(error_code=-1)

    def fail(connection: Any, request: Any) -> None:
        correlation_id = request.correlation_id
        if correlation_id == 2:
            connection.reply(version, correlation_id, m.FetchResponse(session_id=2))
        connection.give_up(version, correlation_id, told if correlation_id < 4 else None)

    node.on_request = fail
    async with running(node):
        client = await KafkaClient.connect(node.port)
        for correlation_id, expected in ((1, told), (2, m.FetchResponse(session_id=2)), (3, told)):
            client.send(correlation_id, fetch())
            assert await client.receive(m.FetchRequest.API_KEY) == (correlation_id, expected)
            if correlation_id == 1:
                node.requests[0][0].reply(version, 1, m.FetchResponse(session_id=1))
        client.send(4, fetch())
        assert await client.reader.read() == b""
        assert node.requests[0][0].end_reason == "a request that could not be answered"


async def test_api_versions_of_a_version_too_new_is_answered_in_version_0_and_the_connection_stays() -> None:
    node = serving()
    async with running(node):
        client = await KafkaClient.connect(node.port)
        header = b"\0\x12\0\x63\0\0\0\x05\xff\xff\0"
        client.writer.write(len(header).to_bytes(4, "big") + header)
        correlation_id, response = await client.receive(m.ApiVersionsRequest.API_KEY, 0)
        assert (correlation_id, response.error_code) == (5, 35)
        (only,) = response.api_keys
        assert (only.api_key, only.min_version, only.max_version) == (18, 0, 4)
        client.send(6, fetch())
        await node.until(lambda: node.requests)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"\0\x01\0\x63\0\0\0\x05\xff\xff\0", "API 1 version 99 is not supported; Fetch is spoken here in"),
        (b"\0\x01\0\x12\0\0\0\x05\xff\xff\0", "Fetch request version 18: byte"),
        (b"\0", "not a request"),
    ],
)
async def test_what_cannot_be_served_ends_its_connection_in_one_line(frame: bytes, reason: str) -> None:
    node = serving()
    async with running(node):
        client, other = await KafkaClient.connect(node.port), await KafkaClient.connect(node.port)
        client.writer.write(len(frame).to_bytes(4, "big") + frame)
        assert await client.end() == b""
        (line,) = [fields["reason"] for event, fields in node.log.lines if event == "bad_frame"]
        assert reason in line
        other.send(1, fetch())
        await node.until(lambda: node.requests)


@pytest.mark.parametrize(
    ("key", "name", "reason"),
    [
        (3, "Metadata", "and this is a controller"),
        (52, "Vote", "cannot be a node of this quorum"),
        (63, "BrokerHeartbeat", "not served yet"),
        (255, "API 255", "needs a broker there"),
    ],
)
@pytest.mark.parametrize(
    ("client_id", "called"),
    [(b"\0\x08producer", "producer"), (b"\xff\xff", None), (b"\0\x7f", None), (b"\0\x01\xff", None)],
)
async def test_an_api_that_is_not_served_ends_its_connection_and_its_sender_is_told(
    key: int, name: str, reason: str, client_id: bytes, called: str | None
) -> None:
    node = serving()
    async with running(node):
        client = await KafkaClient.connect(node.port)
        frame = bytes((0, key)) + b"\0\0\0\0\0\x05" + client_id
        client.writer.write(len(frame).to_bytes(4, "big") + frame)
        assert await client.end() == b""
        ((event, fields),) = node.log.lines
        assert (event, fields["api"], fields["client_id"]) == ("unserved_api", name, called)
        assert reason in fields["reason"]
        assert fields["address"].startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("client_id", "requests", "is_told"),
    [
        ("producer-1", [18], True),
        (None, [18], True),
        ("adminclient-1", [18, 18], False),
        ("producer-1", [18, 1], False),
        ("adminclient-1", [18, 1, 18], False),
        ("raft-client-11", [18], False),
        ("11", [18], False),
    ],
)
async def test_a_client_that_asks_what_is_served_and_then_nothing_is_told_of(
    client_id: str | None, requests: list[int], is_told: bool
) -> None:
    """A producer's library finds no Metadata among the APIs, and gives up without a word to us."""
    node = serving()
    messages = {18: versions_asked(), 1: fetch()}
    async with running(node):
        client = await KafkaClient.connect(node.port)
        for number, key in enumerate(requests):
            version = KAFKA.apis[key].max_version
            frame = KAFKA.encode_request(version, number, client_id, messages[key])
            client.writer.write(b"".join(frame))
            await node.until(lambda: len(node.requests) > number)  # noqa: B023 - awaited in the loop
            connection, request = node.requests[number]
            connection.reply(request.api_version, number, KAFKA.apis[key].response())
        client.writer.close()
        await node.until(lambda: not node.server.connections)
        lines = [fields for event, fields in node.log.lines if event == "no_request"]
        assert bool(lines) == is_told
        for fields in lines:
            assert (fields["client_id"], fields["software"]) == (client_id, "test")
            assert "need a broker there" in fields["reason"]


def versions_asked() -> m.ApiVersionsRequest:
    return m.ApiVersionsRequest(client_software_name="test", client_software_version="1")


def long_frame(size: int) -> bytes:
    """A whole frame of Fetch that is only long."""
    frame = b"\0\x01\0\x12\0\0\0\x05\xff\xff" + bytes(size)
    return len(frame).to_bytes(4, "big") + frame


async def told_of(node: Node, data: bytes, first: Any) -> str:
    """What the log tells of a client whose first request is answered, and who then sends this."""
    async with running(node):
        client = await KafkaClient.connect(node.port)
        client.send(1, first)
        await node.until(lambda: node.requests)
        connection, request = node.requests[0]
        connection.reply(request.api_version, 1, KAFKA.apis[first.API_KEY].response())
        await client.receive(first.API_KEY)
        client.writer.write(data)
        await client.end()
        return next(fields["reason"] for event, fields in node.log.lines if event == "bad_frame")


async def test_long_requests_are_for_those_who_asked_what_is_served() -> None:
    assert "Fetch request" in await told_of(serving(), long_frame(2 << 20), versions_asked())
    assert "1 to 65536 are accepted" in await told_of(serving(), long_frame(2 << 20), fetch())


@pytest.mark.covers("D-36", "D-38")
async def test_a_long_request_that_is_refused_whatever_it_holds_is_answered_unread_and_in_its_order() -> None:
    """A broker speaks of all its partitions to a controller that does not lead any more."""
    node, key = serving(), m.AlterPartitionRequest.API_KEY
    node.server.kafka_api_keys |= {key}
    told = m.AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
    refused: list[int] = []
    node.server.refusal_unread = lambda api_key: (
        refused.append(api_key) or (told if len(refused) < 2 else None)
    )
    topic = m.AlterPartitionRequestTopicData(partitions=(m.AlterPartitionRequestPartitionData(),) * 5_000)
    async with running(node):
        client = await KafkaClient.connect(node.port)
        client.send(1, versions_asked())
        client.send(2, m.AlterPartitionRequest(topics=(topic,)), 2)
        client.send(3, m.AlterPartitionRequest(topics=(topic,)))
        client.send(4, m.AlterPartitionRequest())
        await node.until(lambda: node.requests)
        connection, request = node.requests[0]
        connection.reply(request.api_version, 1, m.ApiVersionsResponse())
        await client.receive(m.ApiVersionsRequest.API_KEY)
        assert await client.receive(key, 2) == (2, told)
        await node.until(lambda: len(node.requests) == 2)
        connection, request = node.requests[1]
        assert (request.correlation_id, len(request.message.topics[0].partitions)) == (3, 5_000)
        connection.reply(request.api_version, 3, told)
        await node.until(lambda: len(node.requests) == 3)
        assert node.requests[2][1].message == m.AlterPartitionRequest()
        assert refused == [key, key]  # who is short is read
    assert not [fields for event, fields in node.log.lines if event == "no_request"]


@pytest.mark.parametrize(("limit", "size"), [(100_000, 100_000), (4 << 20, 4 << 20)])
async def test_no_request_is_longer_than_the_configuration_allows(limit: int, size: int) -> None:
    node = serving()
    node.server.kafka_request_bytes_max = limit
    assert f"1 to {limit} are accepted" in await told_of(node, long_frame(size), versions_asked())


@pytest.mark.covers("D-36")
async def test_a_connection_keeps_the_encoding_of_its_first_frame() -> None:
    node = serving()
    async with running(node):
        client = await KafkaClient.connect(node.port)
        client.send(1, fetch())
        await node.until(lambda: node.requests)
        node.requests[0][0].reply(18, 1, m.FetchResponse())
        await client.receive(m.FetchRequest.API_KEY)
        client.writer.write(b"\0\0\0\x03\x93\x01\x02")
        assert await client.end() == b""
        (line,) = [fields["reason"] for event, fields in node.log.lines if event == "bad_frame"]
        assert "the first one chose another encoding" in line


@pytest.mark.parametrize(
    ("opening", "what"),
    [(b"\x16\x03\x01\x02\x00\x01\x00", "TLS"), (b"GET / HTTP/1.1\r\n", "HTTP")],
)
async def test_another_protocol_is_named(opening: bytes, what: str) -> None:
    node = serving()
    async with running(node):
        client = await KafkaClient.connect(node.port)
        client.writer.write(opening)
        assert await client.end() == b""
        (line,) = [fields["reason"] for event, fields in node.log.lines if event == "bad_frame"]
        assert line == f"this is {what}, which is not spoken here"


async def test_clients_of_kafkas_wire_leave_the_last_slots_to_voters() -> None:
    node = serving()
    node.server.connections_max = 1
    async with running(node):
        first = await KafkaClient.connect(node.port)
        first.send(1, fetch())
        await node.until(lambda: node.requests)
        second = await KafkaClient.connect(node.port)
        second.send(1, fetch())
        assert await second.end() == b""
        assert [fields["reason"] for event, fields in node.log.lines if event == "peer_refused"] == [
            "too many connections; the last slots are for voters"
        ]
