"""The proxy between the nodes does what it says: cuts, delays and resets, and loses nothing by itself."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator

import pytest

from tests.chaos.links import Network

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
QUIET_S = 0.05
"""How long nothing must come: what would come, comes in a hundredth of it."""


class Pair:
    """Nodes 1 and 2, a connection from 1 to 2 through the link, and its end at node 2."""

    def __init__(
        self, network: Network, near: Streams, far: Streams, accepted: "asyncio.Queue[Streams]"
    ) -> None:
        self.network, self.near, self.far = network, near, far
        self.accepted = accepted
        """What else node 2 accepts."""
        self.there, self.back = network.ways[1, 2], network.ways[2, 1]


@contextlib.asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    accepted: asyncio.Queue[Streams] = asyncio.Queue()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await accepted.put((reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with asyncio.TaskGroup() as tasks:
        network = Network({1: port, 2: port}, random.Random(1))
        await network.open(tasks)
        link = dict(entry.split("@") for entry in network.voters(1).split(","))["2"]
        near = await asyncio.open_connection("127.0.0.1", int(link.partition(":")[2]))
        far = await accepted.get()
        try:
            yield Pair(network, near, far, accepted)
        finally:
            for _, writer in (near, far):
                writer.transport.abort()
            network.close()
            server.close()


async def hears_nothing(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(QUIET_S):
            await reader.read(1)
    except TimeoutError:
        return True
    return False


async def test_bytes_go_both_ways_and_so_does_the_end() -> None:
    async with pair() as both:
        both.near[1].write(b"question")
        assert await both.far[0].readexactly(8) == b"question"
        both.far[1].write(b"answer")
        assert await both.near[0].readexactly(6) == b"answer"
        both.far[1].close()
        assert await both.near[0].read() == b""


async def test_a_cut_holds_one_direction_back_and_the_end_with_it() -> None:
    async with pair() as both:
        both.there.cut()
        both.near[1].write(b"held")
        both.far[1].write(b"heard")
        assert await both.near[0].readexactly(5) == b"heard"
        assert await hears_nothing(both.far[0])
        both.near[1].close()
        assert await hears_nothing(both.far[0])
        both.there.mend()
        assert await both.far[0].read() == b"held"


async def test_a_way_that_two_have_cut_is_mended_by_both() -> None:
    async with pair() as both:
        both.there.cut()
        both.there.cut()
        both.near[1].write(b"held")
        both.there.mend()
        assert await hears_nothing(both.far[0])
        both.there.mend()
        assert await both.far[0].readexactly(4) == b"held"


async def test_a_connection_begun_in_a_partition_stands_when_it_is_over() -> None:
    async with pair() as both:
        both.there.cut()
        both.back.cut()
        reader, writer = await asyncio.open_connection(*both.near[1].get_extra_info("peername"))
        writer.write(b"anybody?")
        second_reader, second_writer = await both.accepted.get()
        second_writer.write(b"somebody!")
        assert await hears_nothing(reader)
        both.there.mend()
        both.back.mend()
        assert await second_reader.readexactly(8) == b"anybody?"
        assert await reader.readexactly(9) == b"somebody!"
        assert len(both.network.connections([(1, 2)])) == 2
        for each in (writer, second_writer):
            each.transport.abort()


async def test_what_is_slow_arrives_in_order() -> None:
    async with pair() as both:
        slowness = both.there.slow(0.05, 0.1)
        began_s = time.monotonic()
        both.near[1].write(b"first ")
        await asyncio.sleep(0.001)
        both.there.hasten(slowness)
        both.near[1].write(b"second")
        assert await both.far[0].readexactly(12) == b"first second"
        assert time.monotonic() - began_s >= 0.05


@pytest.mark.parametrize("gently", [True, False])
async def test_a_reset_ends_both_ends_and_what_was_held_is_lost(gently: bool) -> None:
    async with pair() as both:
        both.there.cut()
        both.near[1].write(b"lost")
        assert await hears_nothing(both.far[0])
        for pipe in both.network.connections([(1, 2)]):
            pipe.reset(gently=gently)
        both.there.mend()
        for reader, _ in (both.near, both.far):
            if gently:
                assert await reader.read() == b""
            else:
                with pytest.raises(ConnectionResetError):
                    await reader.read()


async def test_a_node_that_is_down_is_a_connection_that_ends() -> None:
    async with asyncio.TaskGroup() as tasks:
        with contextlib.closing(Network({1: 1, 2: 1}, random.Random(1))) as network:
            await network.open(tasks)
            port = int(network.voters(1).rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.transport.abort()


async def test_who_connects_once_a_run_ends_is_refused() -> None:
    """A node that is still up knocks while the run's tasks are being cancelled: nobody could own its pipe."""
    async with pair() as both:
        proxy = both.near[1].get_extra_info("peername")
        both.network.stop_listening()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*proxy)
        both.near[1].write(b"still open")
        assert await both.far[0].readexactly(len(b"still open")) == b"still open"
