"""Attempts to connect that are given up just as they connect: uvloop closes the socket and tells nobody."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from kraftd.net import outbound, peer_connections
from kraftd.net.addresses import connect
from kraftd.net.connection import FrameConnection, Outbox
from kraftd.net.outbound import OutboundConnection
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.protocol.messages import DescribeNodeRequest
from kraftd.types import Endpoint
from tests.unit.net.test_network import Log, Node, running

LOCAL = "127.0.0.1"
LIMIT_MS = 100


class Link(FrameConnection, asyncio.Protocol):
    """A connection that writes as soon as it is made, and then does what the test says."""

    def __init__(self, on_opened: Callable[[], object]) -> None:
        self.outbox = Outbox(lambda: None)
        super().__init__(self.outbox, RateLimitedLogger(Log(), time.monotonic))
        self.on_opened = on_opened
        self.ends: list[str] = []

    def opened(self) -> None:
        self.write([b"a greeting"])
        self.on_opened()

    def data_received(self, data: bytes) -> None:
        raise AssertionError(f"nobody answers here: {data!r}")

    def ended(self) -> None:
        self.ends.append(self.end_reason)


class Given(Node):
    """Node 1, which does what the test says at the first connection that it makes to voter 2."""

    def __init__(self, on_first: Callable[["Given"], object]) -> None:
        super().__init__(1)
        self.voter_ids = frozenset({2})
        self.on_first = on_first
        self.numbers_given: list[int] = []
        self.numbers_lost: list[int] = []

    def nonce_given(self, connection: OutboundConnection, nonce: bytes) -> None:
        super().nonce_given(connection, nonce)
        self.numbers_given.append(connection.number)
        if len(self.numbers_given) == 1:
            self.on_first(self)

    def connection_lost(self, connection: OutboundConnection) -> None:
        self.numbers_lost.append(connection.number)
        super().connection_lost(connection)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), LOCAL, 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def let_end(link: Link) -> None:
    """The end of a turn, and the callbacks that it leaves behind."""
    link.outbox.flush()
    for _ in range(3):
        await asyncio.sleep(0)


async def test_an_attempt_that_is_cancelled_as_it_connects_ends_the_connection_once(port: int) -> None:
    def cancel() -> None:
        attempt.cancel()

    link = Link(cancel)
    attempt = asyncio.create_task(connect(link, [LOCAL], port, 60_000))
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert not link.is_open
    await let_end(link)
    assert link.ends == ["the attempt to connect was given up"]


async def test_the_time_to_connect_may_run_out_in_the_turn_in_which_it_connects(port: int) -> None:
    """The process was stopped for a while. (On asyncio's own loop the timer comes too late.)"""
    link = Link(lambda: time.sleep(2 * LIMIT_MS / 1_000))
    try:
        await connect(link, [LOCAL, LOCAL], port, LIMIT_MS)
    except TimeoutError:
        assert not link.is_open
        await let_end(link)
        assert link.ends == ["the attempt to connect was given up"]
    else:
        assert link.is_open
        link.abort("the test is over")


async def test_a_connection_that_was_ended_as_it_was_made_is_told_so_once(port: int) -> None:
    """A challenge that is stopped: it is aborted, and its task is cancelled."""

    def stop() -> None:
        link.abort("stopped")
        attempt.cancel()

    link = Link(stop)
    attempt = asyncio.create_task(connect(link, [LOCAL], port, 60_000))
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await let_end(link)
    assert link.ends == ["stopped"]


async def test_who_was_told_of_a_connection_is_told_that_it_was_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Node 1 stands still as it connects to node 2, and connects again."""
    monkeypatch.setattr(peer_connections, "CONNECT_MS", LIMIT_MS)
    one, two = Given(lambda _: time.sleep(2 * LIMIT_MS / 1_000)), Node(2)
    two.voter_ids = frozenset({1})
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint(LOCAL, two.port))
        await one.until(lambda: one.answered and one.answered[-1].is_open)
        assert one.numbers_given[:-1] == one.numbers_lost
        assert one.answered[-1].number == one.numbers_given[-1]


async def test_an_attempt_may_be_ended_for_another_one_as_it_connects() -> None:
    """Its voter was confirmed, or has another address: no request fails."""

    def retry(one: Given) -> None:
        limit = one.peer_connections._connections[2]._limit
        assert limit is not None
        one.peer_connections._connections[2]._retry.set()
        limit.reschedule(0)  # a turn took longer than `retry_now` waits

    one, two = Given(retry), Node(2)
    two.voter_ids = frozenset({1})
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint(LOCAL, two.port))
        one.ask(2, 5, DescribeNodeRequest())
        await one.until(lambda: one.answered)
        assert one.numbers_given == [1, 2]
        assert one.numbers_lost == [1]
        assert one.failures == []


async def test_a_node_may_stop_as_it_connects() -> None:
    one, two = Given(lambda one: one.peer_connections.stop()), Node(2)
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint(LOCAL, two.port))
        await one.until(lambda: one.lost)
        assert one.numbers_given == one.numbers_lost


@pytest.mark.parametrize("ends_by", ["its time", "a confirmation"])
async def test_a_challenge_may_end_as_it_connects(ends_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound, "CHALLENGE_MS", LIMIT_MS)

    def end(one: Given) -> None:
        if ends_by == "its time":
            time.sleep(2 * LIMIT_MS / 1_000)
        else:
            one.peer_connections.confirmed(2)

    one, two = Given(end), Node(2)
    two.voter_ids = frozenset({1})
    async with running(one, two):
        one.voter_ids = frozenset()  # the link itself brings no nonce
        one.peer_connections.learn(2, Endpoint(LOCAL, two.port))
        await two.until(lambda: two.greetings)
        one.voter_ids = frozenset({2})
        one.peer_connections.challenge(2)
        await one.until(lambda: one.lost)
        assert one.numbers_lost == one.numbers_given
