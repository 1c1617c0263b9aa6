"""The pages: what whoever reaches their port may cost, and that a probe is served all the same."""

import asyncio
import gc
import itertools
import weakref
from collections.abc import AsyncIterator

import pytest

from kraftd.runtime import http_server
from kraftd.runtime.file_limits import HTTP_CONNECTIONS_MAX
from kraftd.runtime.health_checks import Check
from kraftd.runtime.http_connection import HttpConnection
from kraftd.runtime.http_server import HttpServer
from kraftd.runtime.sample import Sample
from kraftd.types import Endpoint

PROBE = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"


class ListLogger:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, **fields: object) -> None:
        self.lines.append((event, fields))

    warning = error = critical = info


class Site:
    """Pages on a port of their own."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.log = ListLogger()
        self.port = 0
        self.broken = False

    def livez(self) -> list[Check]:
        if self.broken:
            raise RuntimeError("boom")
        return [Check(name="loop", ok=True)]

    def samples(self) -> list[Sample]:
        return [Sample(name="made", value=float(next(self.numbers)), meaning="How often.", labels={})]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, request: bytes) -> bytes:
        """Send, and read until the other end closes."""
        reader, writer = await self.connect()
        writer.write(request)
        try:
            async with asyncio.timeout(20):
                return await reader.read()
        finally:
            writer.close()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    async with asyncio.TaskGroup() as tasks:
        pages = HttpServer(site.livez, site.livez, site.samples, site.log)
        site.port = await pages.start(Endpoint("127.0.0.1", 0), tasks)
        yield site
        await pages.stop()


async def test_a_request_is_answered_and_its_connection_closed(site: Site) -> None:
    response = await site.ask(PROBE)
    assert response.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Connection: close" in response
    assert response.endswith(b'"unknown_excluded":[]}')
    assert (await site.ask(PROBE.replace(b"livez", b"nowhere"))).startswith(b"HTTP/1.1 404")


async def ended(reader: asyncio.StreamReader) -> None:
    """Wait until the other end has closed, without a byte."""
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await reader.readexactly(1)


async def test_half_requests_keep_no_probe_out_the_oldest_make_room(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "CONNECTION_S", 3_600.0)
    silent = [await site.connect() for _ in range(HTTP_CONNECTIONS_MAX + 10)]
    for _, writer in silent:
        writer.write(PROBE[:10])
    assert (await site.ask(PROBE)).startswith(b"HTTP/1.1 200 OK\r\n")
    async with asyncio.timeout(20):
        for reader, _ in silent[:11]:
            await ended(reader)
    assert not silent[-1][0].at_eof()
    for _, writer in silent:
        writer.close()


async def test_a_half_request_is_not_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTION_S", 0.2)
    reader, writer = await site.connect()
    writer.write(PROBE[:10])
    async with asyncio.timeout(20):
        await ended(reader)
    writer.close()


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /" + b"x" * 20_000,
        b"GET /livez HTTP/1.1\r\nA: " + b"x" * 20_000,
        b"GET /livez HTTP/1.1\r\n" + b"".join(b"A%d: b\r\n" % number for number in range(200)) + b"\r\n",
        b"GET /" + b"x" * 4_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        PROBE[:-2] + b"A: " + b"x" * 4_000 + b"\r\n\r\n",
        PROBE[:-2] + b"".join(b"A%d: b\r\n" % number for number in range(100)) + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"\r\n\r\n",
    ],
    ids=["line", "field", "fields", "whole line", "whole field", "all fields", "tls", "empty"],
)
async def test_what_is_no_small_request_is_refused_without_a_trace(
    site: Site, request_: bytes, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "CONNECTION_S", 1.0)
    try:
        response = await site.ask(request_)
    except ConnectionResetError:
        response = b""
    assert response[:12] in (b"HTTP/1.1 400", b"HTTP/1.0 400", b"")
    assert capfd.readouterr().err == ""
    assert (await site.ask(PROBE)).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_a_visit_that_sends_too_much_is_not_read_to_its_end(site: Site) -> None:
    _reader, writer = await site.connect()
    writer.write(b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n")
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        async with asyncio.timeout(20):
            while True:
                writer.write(bytes(4_096))
                await writer.drain()
    assert (await site.ask(PROBE)).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_nothing_is_kept_of_a_visit_that_has_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTION_S", 3_600.0)
    made: list[weakref.ref[asyncio.BaseProtocol]] = []

    class Noted(HttpConnection):
        def __init__(self, inner: asyncio.Protocol, seconds: float) -> None:
            super().__init__(inner, seconds)
            made.append(weakref.ref(self))

    monkeypatch.setattr(http_server, "HttpConnection", Noted)
    for _ in range(3):
        await site.ask(PROBE)
    async with asyncio.timeout(20):
        while made[0]() is not None:
            await site.ask(PROBE)
            gc.collect()


async def test_the_page_of_metrics_is_made_once_for_all_who_ask_at_the_same_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "PAGE_AGE_S", 3_600.0)
    monkeypatch.setattr(http_server, "ACCEPT_INTERVAL_S", 0.0)
    responses = [await site.ask(PROBE.replace(b"livez", b"metrics")) for _ in range(3)]
    assert [response.count(b"\nmade 0.0") for response in responses] == [1, 1, 1]


async def test_a_page_that_fails_is_one_line_and_no_end(site: Site) -> None:
    site.broken = True
    assert (await site.ask(PROBE)).startswith(b"HTTP/1.1 500")
    assert site.log.lines == [("http_failed", {"path": "/livez", "reason": "RuntimeError('boom')"})]
    site.broken = False
    assert (await site.ask(PROBE)).startswith(b"HTTP/1.1 200")
