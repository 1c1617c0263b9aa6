"""Connections to peers whose names are slow to resolve or lead nowhere, or have an address that is dead."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager

import pytest

from kraftd.net import addresses, peer_connections
from kraftd.net.addresses import HOSTS_MAX, AddressBook
from kraftd.protocol.messages import DescribeNodeRequest
from kraftd.types import Endpoint
from tests.unit.net.test_network import Node, running

HOST = "two.example"


class Names:
    """What a name server says, and after how long, or only when a test answers a lookup."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: Sequence[str] = ("127.0.0.1",)
        self.takes_s = 0.0
        self.are_held = False
        self.lookups: list[asyncio.Future[Sequence[str]]] = []
        """Those that were held, in order."""
        self.asked = 0
        self.changed = asyncio.Event()
        monkeypatch.setattr(addresses, "look_up", self.look_up)

    async def look_up(self, _host: str) -> Sequence[str]:
        self.asked += 1
        self.changed.set()
        if self.are_held:
            self.lookups.append(asyncio.get_running_loop().create_future())
            return await self.lookups[-1]
        await asyncio.sleep(self.takes_s)
        if not self.found:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return self.found

    def answer(self, *found: str) -> None:
        """End the lookup that was begun first, if it is still under way."""
        if not self.lookups[0].done():
            self.lookups[0].set_result(found)

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(10):
            while self.asked < times:
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


@asynccontextmanager
async def knows_where_two_is(one: Node, two: Node, names: Names) -> AsyncIterator[None]:
    """Node 1 has been connected to node 2; the connection was lost, and the next lookup is held."""
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint(HOST, two.port))
        one.ask(2, 5, DescribeNodeRequest())
        await two.until(lambda: two.requests)
        names.are_held = True
        two.requests[0][0].abort("the test pulls the plug")
        await names.until_asked(2)
        yield


@asynccontextmanager
async def listening(node: Node, address: str, port: int) -> AsyncIterator[None]:
    """A node that greets nobody, at an address that became free."""
    node.server.bind(Endpoint(address, port))
    await node.server.start()
    try:
        yield
    finally:
        await node.server.stop()


async def test_a_name_may_take_longer_to_resolve_than_a_connect_may_take(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_connections, "CONNECT_MS", 100)
    names.takes_s = 0.3
    one, two = Node(1), Node(2)
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint(HOST, two.port))
        await two.until(lambda: two.greetings)
    assert names.asked == 1
    assert "peer_unreachable" not in one.log.events()


async def test_while_a_name_leads_nowhere_the_addresses_of_before_are_tried(names: Names) -> None:
    one, two = Node(1), Node(2)
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint(HOST, two.port))
        one.ask(2, 5, DescribeNodeRequest())
        await two.until(lambda: two.requests)
        names.found = ()
        two.requests[0][0].abort("the test pulls the plug")
        await two.until(lambda: len(two.greetings) == 2)


async def test_while_a_lookup_runs_the_addresses_of_before_are_tried_again_and_again(names: Names) -> None:
    one, two, restarted = Node(1), Node(2), Node(2)
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint(HOST, two.port))
        await two.until(lambda: two.greetings)
        names.are_held = True
        await two.server.stop()
        await one.until(lambda: one.lost)
        one.ask(2, 5, DescribeNodeRequest())
        await one.until(lambda: one.failures)
        assert "refused" in one.failures[0][2]
        async with listening(restarted, "127.0.0.1", two.port):
            await restarted.until(lambda: restarted.greetings)
    assert len(names.lookups) == 1


async def test_a_peer_that_moved_is_found_though_another_node_is_at_its_old_address(names: Names) -> None:
    one, two, three, moved = Node(1), Node(2), Node(3), Node(2)
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint(HOST, two.port))
        await two.until(lambda: two.greetings)
        names.are_held = True
        await two.server.stop()
        async with listening(three, "127.0.0.1", two.port), listening(moved, "127.0.0.2", two.port):
            await three.until(lambda: three.greetings)
            names.answer("127.0.0.2")
            await moved.until(lambda: moved.greetings)


async def test_one_lookup_of_a_host_at_a_time_serves_all_who_want_it_whenever_it_ends(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "LOOKUP_MS", 20)
    names.are_held = True
    one, two = Node(1), Node(2)
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint(HOST, two.port))
        for attempt in range(3):
            one.ask(2, attempt, DescribeNodeRequest())
            one.peer_connections.challenge(2)
            await one.until(lambda attempt=attempt: len(one.failures) > attempt)
        assert names.asked == 1
        names.answer("127.0.0.1")
        await two.until(lambda: two.greetings)


async def test_a_voter_that_proves_itself_while_it_is_looked_up_is_connected_to_at_once(names: Names) -> None:
    one, two = Node(1), Node(2)
    async with knows_where_two_is(one, two, names):
        one.ask(2, 6, DescribeNodeRequest())
        one.failures.clear()
        one.peer_connections.confirmed(2)
        await two.until(lambda: len(two.requests) == 2)
        assert two.requests[1][1].correlation_id == 6
        assert one.failures == []
    assert "peer_unreachable" not in one.log.events()


async def test_an_address_that_does_not_answer_does_not_hide_the_next_one(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_connections, "CONNECT_MS", 100)
    names.found = ("127.0.0.2", "127.0.0.3", "127.0.0.1")  # silent, refused, right
    one, two = Node(1), Node(2)
    async with running(one, two):
        with ExitStack() as stack:
            full = stack.enter_context(socket.create_server(("127.0.0.2", two.port), backlog=0))
            for _ in range(8):  # the system answers no more of them until somebody accepts these
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(full.getsockname())
            one.peer_connections.learn(2, Endpoint(HOST, two.port))
            await two.until(lambda: two.greetings)
    assert "peer_unreachable" not in one.log.events()


async def test_a_name_that_is_not_resolved_in_time_is_told_as_that(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "LOOKUP_MS", 50)
    names.are_held = True
    one = Node(1)
    async with running(one):
        one.peer_connections.learn(2, Endpoint(HOST, 9093))
        one.ask(2, 5, DescribeNodeRequest())
        await one.until(lambda: one.failures)
        assert one.failures[0][2] == f"{HOST}:9093: no address was found within 50 ms"


async def test_a_lookup_goes_on_when_those_who_wait_for_it_are_gone(names: Names) -> None:
    names.are_held = True
    async with asyncio.TaskGroup() as tasks:
        book = AddressBook(tasks)
        first, second = (tasks.create_task(book.of(HOST, 60_000)) for _ in range(2))
        await names.until_asked(1)
        first.cancel()
        with pytest.raises(TimeoutError):
            await book.of(HOST, 0)
        names.answer("127.0.0.7")
        assert await second == ("127.0.0.7",)
        assert names.asked == 1
        assert await book.of("::1", 0) == ("::1",)
        assert names.asked == 1, "an address is not looked up"
        assert await book.of(HOST, 0) == ("127.0.0.7",)
        book.stop()


async def test_what_a_newer_lookup_finds_takes_the_place_of_what_was_known(names: Names) -> None:
    async with asyncio.TaskGroup() as tasks:
        book = AddressBook(tasks)
        for address in ("127.0.0.7", "127.0.0.8"):
            names.found = (address,)
            assert await book.of(HOST, 60_000) == (address,)


async def test_as_many_hosts_are_remembered_as_a_quorum_has_and_the_newest(names: Names) -> None:
    async with asyncio.TaskGroup() as tasks:
        book = AddressBook(tasks)
        for number in range(HOSTS_MAX):
            await book.of(f"host-{number}.example", 60_000)
        await book.of("host-0.example", 60_000)
        await book.of("one-more.example", 60_000)
        names.found = ()
        assert await book.of("host-0.example", 60_000) == ("127.0.0.1",)
        with pytest.raises(OSError, match="name resolution"):
            await book.of("host-1.example", 60_000)
