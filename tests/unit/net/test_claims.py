"""Connections between voters over real sockets: what is sent before somebody is confirmed waits (D-37)."""

import asyncio
import socket
from contextlib import ExitStack

import pytest

from kraftd.errors import ErrorCode
from kraftd.net import peer_connections
from kraftd.net.outbound import CHALLENGE_MS, OutboundConnection
from kraftd.protocol import limits
from kraftd.protocol.messages import (
    DescribeNodeRequest,
    HandshakeRequest,
    ShowNonceRequest,
    ShowNonceResponse,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.types import ZERO_UUID, Endpoint
from tests.unit.net.test_network import CLUSTER, Client, Node, running

pytestmark = pytest.mark.covers("D-37")

NONCE = b"a nonce of node 1"[:16]


def voters() -> tuple[Node, Node]:
    """Nodes 1 and 2, which take each other for voters."""
    one, two = Node(1), Node(2)
    return one, two


def introduce(one: Node, two: Node) -> None:
    for node, other in ((one, two), (two, one)):
        node.voter_ids = frozenset({other.identity.node_id})


async def claim(node: Node, **more: object) -> Client:
    """Somebody greets node 1 as node 2."""
    client = await Client.connect(node.port)
    response = await client.greet(cluster_id=CLUSTER, node_id=2, directory_id=b"2" * 16, **more)
    assert response.error_code == ErrorCode.NONE
    return client


async def test_voters_that_show_each_others_nonces_are_told_which_start_the_other_is() -> None:
    one, two = voters()
    async with running(one, two):
        introduce(one, two)
        one.peer_connections.learn(2, Endpoint("127.0.0.1", two.port))
        two.peer_connections.learn(1, Endpoint("127.0.0.1", one.port))
        one.ask(2, 10, DescribeNodeRequest())
        await one.until(lambda: one.answered and one.greetings)
        await two.until(lambda: two.answered and two.greetings)
        assert one.starts == two.starts == []
        assert two.requests == [], "nothing is asked before that"
        for node in (one, two):
            node.answered[0].show(node.greetings[0].nonce)
        await one.until(lambda: one.starts)
        await two.until(lambda: two.starts and two.requests)
        assert (one.starts, two.starts) == ([1], [1])


async def test_what_an_unconfirmed_voter_asks_waits_in_order() -> None:
    one, _ = voters()
    async with running(one):
        introduce_to_two(one)
        client = await claim(one)
        for correlation_id in (5, 6):
            client.send(correlation_id, DescribeNodeRequest())
        client.send(7, ShowNonceRequest(b"wrong" + bytes(11), 3, b"s" * 16))
        refused = await client.take(ShowNonceRequest.API_KEY)
        assert refused == ShowNonceResponse(ErrorCode.INVALID_VOTER_KEY, 0, ZERO_UUID)
        assert one.requests == []
        one.given.append(NONCE)
        client.send(8, ShowNonceRequest(NONCE, 3, b"s" * 16))
        confirmed = await client.take(ShowNonceRequest.API_KEY)
        assert (confirmed.error_code, confirmed.start_counter) == (ErrorCode.NONE, 1)
        await one.until(lambda: len(one.requests) == 2)
        assert [request.correlation_id for _, request in one.requests] == [5, 6]
        client.send(9, DescribeNodeRequest())
        await one.until(lambda: len(one.requests) == 3)


def introduce_to_two(one: Node) -> None:
    one.voter_ids = frozenset({2})


async def test_as_many_wait_as_may_be_in_flight_and_all_of_them_are_served_in_the_end() -> None:
    one, _ = voters()
    async with running(one):
        introduce_to_two(one)
        one.given.append(NONCE)
        client = await claim(one)
        for correlation_id in range(limits.REQUESTS_IN_FLIGHT_MAX):
            client.send(correlation_id, DescribeNodeRequest())
        client.send(100, ShowNonceRequest(NONCE, 3, b"s" * 16))
        await one.until(lambda: len(one.requests) == limits.REQUESTS_IN_FLIGHT_MAX)


async def test_who_asks_for_more_before_it_is_confirmed_is_refused() -> None:
    one, _ = voters()
    async with running(one):
        introduce_to_two(one)
        client = await claim(one)
        for correlation_id in range(limits.REQUESTS_IN_FLIGHT_MAX + 1):
            client.send(correlation_id, DescribeNodeRequest())
        await client.end()
        assert one.requests == []
        assert one.log.events() == ["bad_frame"]


async def test_what_waits_for_a_confirmation_is_64_kib_at_most_however_it_was_cut() -> None:
    one, _ = voters()
    async with running(one):
        introduce_to_two(one)
        client = await claim(one)
        (connection,) = one.server.connections.values()
        frame = b"".join(MSGPACK.encode_request(1, 9, "x", HandshakeRequest(software="x" * 3_000)))
        sent = 0
        while connection.is_open:
            memory = connection.get_buffer(-1)
            memory[: len(frame)] = frame  # a read that is just one frame
            connection.buffer_updated(len(frame))
            one.server.budgets.serve()
            sent += len(frame)
        assert sent <= limits.HANDSHAKE_BYTES_MAX + 2 * len(frame)
        await client.end()


@pytest.mark.parametrize("who", [{"node_id": -1}, {"node_id": 7, "cluster_id": CLUSTER}])
async def test_clients_and_observers_need_no_nonce_and_prove_nothing_with_one(who: dict[str, object]) -> None:
    one, _ = voters()
    async with running(one):
        introduce_to_two(one)
        client = await Client.connect(one.port)
        response = await client.greet(**who)
        assert not response.must_show
        client.send(5, DescribeNodeRequest())
        await one.until(lambda: one.requests)


async def test_a_greeting_is_told_no_start() -> None:
    """Neither counter nor id are in it any more: they are told with a nonce only."""
    assert not {"start_counter", "start_id"} & set(HandshakeRequest.__struct_fields__)


async def test_a_challenge_brings_a_nonce_and_is_no_claim() -> None:
    one, _ = voters()
    async with running(one):
        introduce_to_two(one)
        client = await Client.connect(one.port)
        response = await client.greet(cluster_id=CLUSTER, node_id=2, nonce=NONCE, challenge=True)
        assert not response.must_show
        assert one.greetings[0].challenge
        client.send(5, DescribeNodeRequest())
        client.send(6, ShowNonceRequest(b"wrong" + bytes(11), 3, b"s" * 16))
        await client.take(ShowNonceRequest.API_KEY)
        assert one.requests == []


async def test_who_is_no_voter_brings_no_nonce() -> None:
    one, _ = voters()
    async with running(one):
        introduce_to_two(one)
        client = await Client.connect(one.port)
        response = await client.greet(cluster_id=CLUSTER, node_id=7, nonce=NONCE, challenge=True)
        assert response.error_code == ErrorCode.INVALID_VOTER_KEY
        assert "no voter" in response.error_message
        await client.end()


async def test_a_link_that_stands_is_left_alone_while_another_connection_brings_the_nonce() -> None:
    """Machine 2 lost its power: the link looks open, and only a new connection reaches it."""
    one, two = voters()
    async with running(one, two):
        introduce(one, two)
        one.peer_connections.learn(2, Endpoint("127.0.0.1", two.port))
        await two.until(lambda: two.greetings)
        await one.until(lambda: one.answered)
        one.peer_connections.challenge(2)
        await two.until(lambda: len(two.greetings) == 2)
        assert two.greetings[1].challenge
        assert one.given == [greeting.nonce for greeting in two.greetings]
        assert one.answered[0].is_open
        one.peer_connections.confirmed(2)
        await one.until(lambda: one.lost)
        assert one.answered[0].is_open, "only the challenge is over"


async def let_rest(one: Node, two: Node) -> None:
    """One's link to two rests for a minute or so, since two was not there; now it is."""
    introduce(one, two)
    one.peer_connections.jitter = lambda low, high: 1_000.0
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = Endpoint("127.0.0.1", deaf.getsockname()[1])
    one.peer_connections.learn(2, address)
    one.ask(2, 5, DescribeNodeRequest())
    await one.until(lambda: one.failures)
    one.peer_connections._connections[2].endpoint = Endpoint("127.0.0.1", two.port)


async def test_a_link_that_rests_connects_at_once_when_it_is_to_challenge() -> None:
    one, two = voters()
    async with running(one, two):
        await let_rest(one, two)
        one.peer_connections.challenge(2)
        await two.until(lambda: two.greetings)
        assert not two.greetings[0].challenge, "it is the link itself that brings the nonce"


async def test_a_challenge_ends_soon_and_does_not_stand_in_the_way_of_the_next_one() -> None:
    """A forged greeting had node 2 challenged while it was well; then its machine lost its power."""
    one, two = voters()
    async with running(one, two):
        introduce(one, two)
        one.peer_connections.learn(2, Endpoint("127.0.0.1", two.port))
        await one.until(lambda: one.answered)
        for count in (1, 2):
            one.peer_connections.challenge(2)
            await two.until(lambda count=count: len(two.greetings) == 1 + count)  # type: ignore[misc]
            await one.until(lambda count=count: len(one.lost) == count)  # type: ignore[misc]
        assert one.lost == [f"no response to the handshake within {CHALLENGE_MS} ms"] * 2
        assert one.answered[0].is_open


async def test_of_one_voter_there_is_one_challenge_at_a_time() -> None:
    one, two = voters()
    async with running(one, two):
        introduce(one, two)
        one.peer_connections.learn(2, Endpoint("127.0.0.1", two.port))
        await one.until(lambda: one.answered)
        for _ in range(5):
            one.peer_connections.challenge(2)
        await one.until(lambda: one.lost)
        assert [greeting.challenge for greeting in two.greetings] == [False, True]


async def test_who_takes_a_challenge_does_not_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sender may be gone without a word, or somebody else who never ends it."""
    monkeypatch.setattr(limits, "HANDSHAKE_TIMEOUT_MS", 100)
    one, _ = voters()
    async with running(one):
        introduce_to_two(one)
        client = await Client.connect(one.port)
        await client.greet(cluster_id=CLUSTER, node_id=2, nonce=NONCE, challenge=True)
        assert await client.end() == b""


async def test_a_link_waits_for_its_confirmation_as_long_as_the_other_end_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other voter was just cut off from this one, and cannot bring a nonce yet."""
    monkeypatch.setattr(OutboundConnection, "HANDSHAKE_MS", CHALLENGE_MS // 2)
    one, two = voters()
    async with running(one, two):
        introduce(one, two)
        one.peer_connections.learn(2, Endpoint("127.0.0.1", two.port))
        await one.until(lambda: one.answered)
        one.peer_connections.challenge(2)
        await one.until(lambda: one.lost)
        assert one.lost == [f"no response to the handshake within {CHALLENGE_MS} ms"]
        assert one.answered[0].is_open


async def test_a_link_that_rests_connects_at_once_to_a_voter_that_was_confirmed() -> None:
    """Node 2 is back, and was confirmed: until we connect to it, it is not told a nonce of ours."""
    one, two = voters()
    async with running(one, two):
        await let_rest(one, two)
        one.peer_connections.confirmed(2)
        await two.until(lambda: two.greetings)


async def test_a_connect_that_nobody_answers_does_not_delay_the_one_to_where_the_voter_is_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_connections, "CONNECT_MS", 3_600_000)
    one, two = voters()
    async with running(one, two):
        with ExitStack() as stack:
            full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            for _ in range(8):  # the system answers no more of them until somebody accepts these
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(full.getsockname())
            one.peer_connections.learn(2, Endpoint("127.0.0.1", full.getsockname()[1]))
            await asyncio.sleep(0)
            assert one.peer_connections._connections[2]._limit is not None, "it connects"
            one.peer_connections.learn(2, Endpoint("127.0.0.1", two.port))
            await two.until(lambda: two.greetings)


async def test_a_voter_may_be_confirmed_just_when_the_time_to_connect_to_it_is_up() -> None:
    """The attempt has ended, but not been seen to: it must not be given another end."""
    one, _ = voters()
    async with running(one):
        one.peer_connections.jitter = lambda low, high: 1_000.0
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            address = Endpoint("127.0.0.1", deaf.getsockname()[1])
        one.peer_connections.learn(2, address)
        one.ask(2, 5, DescribeNodeRequest())
        await one.until(lambda: one.failures)
        connection = one.peer_connections._connections[2]
        connection._is_resting = False
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0) as connection._limit:
                try:
                    await asyncio.Event().wait()
                finally:
                    one.peer_connections.confirmed(2)
        connection._limit = None
