"""Connections that mean no good, or mean nothing: they may cost a node its patience, never its life.

Entered by `pester`, which lets each kind of stranger at one node. A stranger sends what it has and stays
for a while; that the node closes on it is what should happen, and no error here.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec

from kraftd.net.handshake import Identity
from kraftd.protocol.messages import (
    DescribeNodeRequest,
    FetchRequest,
    ListConfigsRequest,
    VoteRequest,
)
from kraftd.protocol.msgpack_codec import MSGPACK

SILENT = 40
"""How many connections say nothing at all."""

UNREAD = 30
"""How many answers a client asks for that it never reads."""


def noise(rng: random.Random) -> list[bytes]:
    return [rng.randbytes(rng.randint(1, 65_536))]


def noise_in_frames(rng: random.Random) -> list[bytes]:
    return [framed(rng.randbytes(rng.randint(1, 2_000))) for _ in range(20)]


def endless_frame(rng: random.Random) -> list[bytes]:
    return [b"\x7f\xff\xff\xff", rng.randbytes(70_000)]


def empty_frames(_: random.Random) -> list[bytes]:
    return [bytes(4)] * 1_000


def cut_greeting(rng: random.Random) -> list[bytes]:
    data = greeting()
    return [data[: rng.randrange(1, len(data))]]


def dripping_greeting(_: random.Random) -> list[bytes]:
    return [bytes([byte]) for byte in greeting()]


def other_cluster(_: random.Random) -> list[bytes]:
    return [request(Identity("of-another-cluster-22ch", "stranger", node_id=2).greeting())]


def request_before_greeting(_: random.Random) -> list[bytes]:
    return [request(DescribeNodeRequest())]


def greeting_twice(_: random.Random) -> list[bytes]:
    return [greeting(), greeting()]


def client_that_votes(_: random.Random) -> list[bytes]:
    return [greeting(), request(VoteRequest()), request(FetchRequest())]


def unknown_requests(rng: random.Random) -> list[bytes]:
    strange = [(rng.randint(-9, 32_000), rng.randint(-1, 99), rng.randint(-9, 1 << 31)) for _ in range(20)]
    return [greeting(), *(framed(msgspec.msgpack.encode([*head, "stranger", []])) for head in strange)]


def flipped_requests(rng: random.Random) -> list[bytes]:
    """What a client would say, with a byte changed in each."""
    sound = bytearray(request(ListConfigsRequest()))
    sound[rng.randrange(4, len(sound))] ^= rng.randrange(1, 256)
    return [greeting(), bytes(sound)]


def deaf_client(_: random.Random) -> list[bytes]:
    return [greeting(), *[request(ListConfigsRequest())] * UNREAD]


def silence(_: random.Random) -> list[bytes]:
    return []


STRANGERS: Mapping[Callable[[random.Random], list[bytes]], int] = {
    noise: 1,
    noise_in_frames: 1,
    endless_frame: 1,
    empty_frames: 1,
    cut_greeting: 1,
    dripping_greeting: 1,
    other_cluster: 1,
    request_before_greeting: 1,
    greeting_twice: 1,
    client_that_votes: 1,
    unknown_requests: 1,
    flipped_requests: 4,
    deaf_client: 1,
    silence: SILENT,
}
"""Each kind of stranger, and how many of it come at once."""


async def pester(port: int, rng: random.Random, stay_s: float) -> int:
    """Let every stranger in at once; how many there were."""
    async with contextlib.AsyncExitStack() as stack:
        count = 0
        for stranger, number in STRANGERS.items():
            for _ in range(number):
                await stack.enter_async_context(visit(port, stranger(rng)))
                count += 1
        await asyncio.sleep(stay_s)
    return count


@contextlib.asynccontextmanager
async def visit(port: int, pieces: list[bytes]) -> AsyncIterator[None]:
    """Send some pieces and never read; the connection closes at the end."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
    except OSError:
        yield  # the node is down: nobody to pester
        return
    try:
        for piece in pieces:
            if writer.transport.is_closing():
                break
            writer.write(piece)
            await asyncio.sleep(0)
        yield
    finally:
        writer.transport.abort()


def greeting() -> bytes:
    return request(Identity(None, "stranger").greeting())


def request(message: Any) -> bytes:
    return b"".join(MSGPACK.encode_request(message.MAX_VERSION, 1, "stranger", message))


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body
