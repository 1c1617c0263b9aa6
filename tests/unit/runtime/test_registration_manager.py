"""How a controller asks to be registered: what fails is told, and ends nothing."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from kraftd.controller.activation import registration_of
from kraftd.net import addresses
from kraftd.net.addresses import AddressBook
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.messages import ControllerRegistrationRequest, ControllerRegistrationResponse
from kraftd.runtime import registration_manager
from kraftd.runtime.registration_manager import RegistrationManager
from kraftd.types import Endpoint

HOST = "active.example"
TIMEOUT_S = 0.3


@asynccontextmanager
async def managing() -> AsyncIterator[RegistrationManager]:
    nobody: Any = SimpleNamespace()
    me = registration_of(1, bytes(16), [Endpoint("h", 1)])
    async with asyncio.TaskGroup() as tasks:
        book = AddressBook(tasks)
        yield RegistrationManager(me, nobody, nobody, book, nobody, jitter=lambda low, _: low)
        book.stop()


def resolve(monkeypatch: pytest.MonkeyPatch, takes_s: float, *found: str) -> None:
    """Have every name lead to these addresses after a time."""

    async def look_up(_host: str) -> Sequence[str]:
        await asyncio.sleep(takes_s)
        return found

    monkeypatch.setattr(addresses, "look_up", look_up)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Register whoever asks, as the active controller does."""
    size = int.from_bytes(await reader.readexactly(4), "big")
    request = KAFKA.decode_request(await reader.readexactly(size))
    assert isinstance(request.message, ControllerRegistrationRequest)
    response = ControllerRegistrationResponse()
    writer.writelines(KAFKA.encode_response(request.api_version, request.correlation_id, response))
    writer.close()


async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()  # until the other end gives up
    writer.close()


@pytest.mark.covers("D-14")
@pytest.mark.parametrize("host", ["a..b", "x" * 70, "no such host.invalid"])
async def test_an_address_that_is_none_is_told_and_ends_nothing(host: str) -> None:
    async with managing() as manager:
        why = await manager._ask(Endpoint(host, 9093))
    assert why is not None
    assert why.startswith(f"{host}:9093: ")


@pytest.mark.covers("D-14")
async def test_a_lookup_takes_nothing_of_the_requests_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration_manager, "REQUEST_S", TIMEOUT_S)
    resolve(monkeypatch, 1.5 * TIMEOUT_S, "127.0.0.1")
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, managing() as manager:
        assert await manager._ask(Endpoint(HOST, server.sockets[0].getsockname()[1])) is None


@pytest.mark.covers("D-14")
async def test_an_address_that_is_silent_does_not_hide_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration_manager, "REQUEST_S", TIMEOUT_S)
    resolve(monkeypatch, 0, "127.0.0.3", "127.0.0.2", "127.0.0.1")  # refused, silent, right
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, managing() as manager:
        port = server.sockets[0].getsockname()[1]
        async with await asyncio.start_server(never_answer, "127.0.0.2", port):
            assert await manager._ask(Endpoint(HOST, port)) is None


@pytest.mark.covers("D-14")
async def test_a_name_that_is_not_resolved_is_no_controller_that_did_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(addresses, "LOOKUP_MS", 50)
    resolve(monkeypatch, 3_600, "127.0.0.1")
    async with managing() as manager:
        assert await manager._ask(Endpoint(HOST, 1)) == f"{HOST}:1: no address was found within 50 ms"
