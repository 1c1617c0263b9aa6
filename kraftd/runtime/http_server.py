"""The HTTP port for probes and Prometheus: `/livez`, `/readyz` and `/metrics`.

Entered through `HttpServer.start`; imported only when `kraftd.http.listener` is set, because aiohttp costs
memory that a node without it need not spend. `/readyz/NAME` answers for one check, `?exclude=NAME` leaves
one out; the status is 200 or 503 and the body a JSON object with every check.

Any client of the port costs the node no more than this (D-38): a connection is accepted every 10 ms, the
others wait in the system; it serves one request, of 8 KiB and 64 headers at most, and is closed after 5 s.
Of more than `HTTP_CONNECTIONS_MAX` connections the oldest is closed: a probe, which sends its request at
once, is served although others hold connections on which they send nothing. The page of metrics is made at
most ten times a second.

Not here: what the checks mean (`health_checks`) and what the numbers are (`node_status`).
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kraftd.errors import InvariantError
from kraftd.runtime.file_limits import HTTP_CONNECTIONS_MAX
from kraftd.runtime.health_checks import Check
from kraftd.runtime.http_connection import HttpConnection
from kraftd.runtime.observability import Logger
from kraftd.runtime.sample import Sample
from kraftd.types import Endpoint

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

ACCEPT_INTERVAL_S = 0.01
"""How far apart connections are accepted."""
CONNECTION_S = 5.0
"""How long a connection may last, from the first byte of its request to the last of the response."""
PAGE_AGE_S = 0.1
"""How old the page of metrics may be."""
_LINE_BYTES_MAX = 2_048
_HEADERS_MAX = 64
_HEADER_BYTES_MAX = 2_048
_BACKLOG = 128


class HttpServer:
    """The HTTP server of one node."""

    def __init__(
        self,
        livez: Callable[[], Sequence[Check]],
        readyz: Callable[[], Sequence[Check]],
        samples: Callable[[], Iterable[Sample]],
        logger: Logger,
    ) -> None:
        self._livez = livez
        self._readyz = readyz
        self._logger = logger
        self._registry = CollectorRegistry()
        self._registry.register(_Samples(samples))
        self._page, self._page_until = b"", 0.0
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        app = web.Application(middlewares=[self._serve_once])
        app.router.add_get("/livez", self._serve_livez)
        app.router.add_get("/livez/{check}", self._serve_livez)
        app.router.add_get("/readyz", self._serve_readyz)
        app.router.add_get("/readyz/{check}", self._serve_readyz)
        app.router.add_get("/metrics", self._serve_metrics)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=0.1,
            logger=_silent_logger(),
            max_line_size=_LINE_BYTES_MAX,
            max_headers=_HEADERS_MAX,
            max_field_size=_HEADER_BYTES_MAX,
            lingering_time=0.0,
            read_bufsize=16_384,
        )

    async def start(self, bind: Endpoint, tasks: asyncio.TaskGroup) -> int:
        """Listen, and return the port.

        Raises:
            OSError: The address cannot be bound.
        """
        await self._runner.setup()
        family = socket.AF_INET6 if ":" in bind.host else socket.AF_INET
        self._socket = listening = socket.create_server(
            (bind.host, bind.port), family=family, backlog=_BACKLOG
        )
        listening.setblocking(False)  # noqa: FBT003 - the signature of the standard library
        self._accepting = tasks.create_task(self._accept(listening), name="http")
        port: int = listening.getsockname()[1]
        return port

    async def stop(self) -> None:
        """Close everything."""
        if self._accepting is not None:
            self._accepting.cancel()
        if self._socket is not None:
            self._socket.close()
        await self._runner.cleanup()

    async def _accept(self, listening: socket.socket) -> None:
        """Accept one connection every `ACCEPT_INTERVAL_S`: a flood waits in the backlog."""
        loop = asyncio.get_running_loop()
        server = self._runner.server
        if server is None:
            raise InvariantError("the pages are set up before they are served")
        waiting: list[HttpConnection] = []
        while True:
            await asyncio.sleep(ACCEPT_INTERVAL_S)
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:
                continue  # closed meanwhile, or too many files are open: try again after the interval
            waiting = [connection for connection in waiting if not connection.is_over]
            if len(waiting) >= HTTP_CONNECTIONS_MAX:
                waiting[0].end()
            try:
                _, connection = await loop.connect_accepted_socket(
                    lambda: HttpConnection(server(), CONNECTION_S), accepted
                )
            except OSError:
                accepted.close()
                continue
            waiting.append(connection)

    @web.middleware
    async def _serve_once(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer, and close the connection. An exception of a page is one line in the log, and a 500."""
        try:
            response = await handler(request)
        except web.HTTPException as known:
            known.force_close()
            raise
        except Exception as error:  # noqa: BLE001 - a probe must not end the process
            self._logger.error("http_failed", path=request.path, reason=repr(error))
            response = web.Response(status=500)
        response.force_close()
        return response

    async def _serve_livez(self, request: web.Request) -> web.Response:
        return _verdict(self._livez(), request)

    async def _serve_readyz(self, request: web.Request) -> web.Response:
        return _verdict(self._readyz(), request)

    async def _serve_metrics(self, _request: web.Request) -> web.Response:
        now = asyncio.get_running_loop().time()
        if now >= self._page_until:
            self._page, self._page_until = generate_latest(self._registry), now + PAGE_AGE_S
        return web.Response(body=self._page, headers={"Content-Type": _PROMETHEUS})


def _silent_logger() -> logging.Logger:
    """Drops what aiohttp logs of malformed requests: a trace for each."""
    logger = logging.getLogger("kraftd.http")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    return logger


class _Samples(Collector):
    """Gives our samples to Prometheus, as families by name."""

    def __init__(self, samples: Callable[[], Iterable[Sample]]) -> None:
        self._samples = samples

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for sample in self._samples():
            family = families.get(sample.name)
            if family is None:
                kind = CounterMetricFamily if sample.is_counter else GaugeMetricFamily
                family = families[sample.name] = kind(sample.name, sample.meaning, labels=list(sample.labels))
            family.add_metric(list(sample.labels.values()), sample.value)  # type: ignore[attr-defined]  # both kinds have it
        return families.values()


def _verdict(checks: Sequence[Check], request: web.Request) -> web.Response:
    """The response for all checks, one of them, or all but the excluded ones."""
    wanted = request.match_info.get("check")
    excluded = {name for text in request.query.getall("exclude", []) for name in text.split(",")}
    names = {check.name for check in checks}
    if wanted is not None and wanted not in names:
        return web.json_response({"status": "unknown", "checks": sorted(names)}, status=404)
    judged = [
        check
        for check in checks
        if (check.name == wanted if wanted is not None else check.name not in excluded)
    ]
    ok = all(check.ok for check in judged)
    body = {
        "status": "ok" if ok else "unavailable",
        "checks": [msgspec.to_builtins(check) for check in judged],
        "excluded": sorted(excluded & names),
        "unknown_excluded": sorted(excluded - names),
    }
    return web.Response(
        body=msgspec.json.encode(body), status=200 if ok else 503, content_type="application/json"
    )
