"""Connections to peers whose names are slow to resolve or lead nowhere, or have an address that is dead."""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from kraftd.net import addresses, peer_connections
from kraftd.protocol.messages import DescribeNodeRequest
from kraftd.types import Endpoint
from tests.unit.net.test_network import Node, running

HOST = "two.example"


class Names:
    """What a name server says of `HOST`, and after how long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: Sequence[str] = ("127.0.0.1",)
        self.takes_s = 0.0
        self.asked = 0
        monkeypatch.setattr(addresses, "look_up", self.look_up)

    async def look_up(self, _host: str) -> Sequence[str]:
        self.asked += 1
        await asyncio.sleep(self.takes_s)
        if not self.found:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return self.found


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


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


@pytest.mark.parametrize("takes_s", [0.0, 3_600.0])
async def test_while_a_name_leads_nowhere_the_addresses_of_before_are_tried(
    names: Names, monkeypatch: pytest.MonkeyPatch, takes_s: float
) -> None:
    monkeypatch.setattr(addresses, "TRUSTED_LOOKUP_MS", 50)
    one, two = Node(1), Node(2)
    async with running(one, two):
        one.peer_connections.learn(2, Endpoint(HOST, two.port))
        one.ask(2, 5, DescribeNodeRequest())
        await two.until(lambda: two.requests)
        names.takes_s, names.found = takes_s, ()
        two.requests[0][0].abort("the test pulls the plug")
        await two.until(lambda: len(two.greetings) == 2)


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
    names.takes_s = 3_600.0
    one = Node(1)
    async with running(one):
        one.peer_connections.learn(2, Endpoint(HOST, 9093))
        one.ask(2, 5, DescribeNodeRequest())
        await one.until(lambda: one.failures)
        assert one.failures[0][2] == f"{HOST}:9093: no address was found within 50 ms"
