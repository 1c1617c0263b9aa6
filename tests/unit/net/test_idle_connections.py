"""What a connection keeps for as long as it is open, however much its other end has said."""

import gc
import tracemalloc
import weakref
from collections.abc import Awaitable, Callable

import pytest

from kraftd.protocol import limits
from kraftd.protocol import messages as m
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.msgpack_codec import MSGPACK
from tests.unit.net.test_kafka_session import KafkaClient, serving
from tests.unit.net.test_network import Client, Node, running

CONNECTIONS = 12
KEPT_BYTES_MAX = 48 << 10
"""Of both ends and their streams; the longest greeting is ten times as much once it is decoded."""

LONG_WORD = "\U0001f600" + "x" * 32_000
"""32 KB on the wire, four times as much in memory."""


async def greet_at_length(node: Node) -> None:
    apis = tuple(
        m.HandshakeRequestSupportedApi(api_key=1, min_version=0, max_version=0) for _ in range(12_500)
    )
    client = await Client.connect(node.port)
    await client.greet(api_keys=apis)
    assert {each.claimed_id for each in node.server.connections.values()} == {-1}


async def ask_at_length(node: Node) -> None:
    client = await KafkaClient.connect(node.port)
    asked = m.ApiVersionsRequest(client_software_name=LONG_WORD, client_software_version="1")
    client.writer.write(b"".join(KAFKA.encode_request(3, 1, LONG_WORD[:30_000], asked)))
    await node.until(lambda: node.requests)
    connection, request = node.requests.pop()
    connection.reply(request.api_version, 1, m.ApiVersionsResponse())
    await client.receive(18, 3)


@pytest.mark.covers("D-38")
@pytest.mark.parametrize("talk", [greet_at_length, ask_at_length])
async def test_an_idle_connection_keeps_little_of_what_was_said_on_it(
    talk: Callable[[Node], Awaitable[None]],
) -> None:
    node = serving()
    async with running(node):
        for _ in range(2):  # what is imported and cached with the first ones is not counted
            await talk(node)
        tracemalloc.start()
        try:
            for _ in range(CONNECTIONS):
                await talk(node)
            gc.collect()
            kept_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(node.server.connections) == CONNECTIONS + 2
        assert kept_bytes / CONNECTIONS < KEPT_BYTES_MAX


async def test_a_client_that_asked_nothing_else_is_told_of_by_the_beginning_of_its_long_names() -> None:
    node = serving()
    async with running(node):
        await ask_at_length(node)
        for connection in node.server.connections.values():
            connection.close("the test ends it")
        await node.until(lambda: not node.server.connections)
        (fields,) = [fields for event, fields in node.log.lines if event == "no_request"]
        for word in (fields["client_id"], fields["software"]):
            assert word.startswith("\U0001f600xxxx")
            assert len(word.encode()) <= limits.WORDS_BYTES_MAX


@pytest.mark.covers("D-38")
async def test_a_client_id_of_msgpack_is_a_name_and_not_a_book() -> None:
    """A request that waits is kept with the id that it came under."""
    node = Node(1)
    async with running(node):
        client = await Client.connect(node.port)
        await client.greet()
        for length in (limits.CLIENT_ID_MAX, limits.CLIENT_ID_MAX + 1):
            frame = MSGPACK.encode_request(0, 2, "c" * length, m.DescribeNodeRequest())
            client.writer.write(b"".join(frame))
        assert await client.end() != b""
        assert [len(request.client_id or "") for _, request in node.requests] == [limits.CLIENT_ID_MAX]
        (line,) = [fields for event, fields in node.log.lines if event == "bad_frame"]
        assert "client id" in line["reason"]


@pytest.mark.covers("D-38")
@pytest.mark.parametrize("talk", [greet_at_length, ask_at_length])
async def test_a_connection_that_ended_is_no_garbage(talk: Callable[[Node], Awaitable[None]]) -> None:
    """While a snapshot is loaded no garbage is collected, and a disk that hangs may make that long."""
    node = serving()
    async with running(node):
        await talk(node)
        gc.disable()
        try:
            (ended,) = map(weakref.ref, node.server.connections.values())
            ended().close("the test ends it")  # type: ignore[union-attr]
            await node.until(lambda: not node.server.connections)
            await node.until(lambda: ended() is None)
        finally:
            gc.enable()
