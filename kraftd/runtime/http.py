"""What do probes and Prometheus see? `/livez`, `/readyz` and `/metrics`, on a port of their own.

Entered through `Pages.start`; imported only when `kraftd.http.listener` is set, because the HTTP server
costs memory that a node without it need not spend. `/readyz/NAME` answers for one check, `?exclude=NAME`
leaves one out; the status is 200 or 503 and the body a JSON object with every check.

Not here: what the checks mean (`health`) and what the numbers are (`status`).
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kraftd.runtime.health import Check
from kraftd.runtime.status import Sample
from kraftd.types import Endpoint

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Pages:
    """The HTTP server of one node."""

    def __init__(
        self,
        livez: Callable[[], Sequence[Check]],
        readyz: Callable[[], Sequence[Check]],
        samples: Callable[[], Iterable[Sample]],
    ) -> None:
        self._livez = livez
        self._readyz = readyz
        self._registry = CollectorRegistry()
        self._registry.register(_Samples(samples))
        app = web.Application()
        app.router.add_get("/livez", self._serve_livez)
        app.router.add_get("/livez/{check}", self._serve_livez)
        app.router.add_get("/readyz", self._serve_readyz)
        app.router.add_get("/readyz/{check}", self._serve_readyz)
        app.router.add_get("/metrics", self._serve_metrics)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)

    async def start(self, bind: Endpoint) -> int:
        """Listen, and return the port.

        Raises:
            OSError: The address cannot be bound.
        """
        await self._runner.setup()
        site = web.TCPSite(self._runner, bind.host or None, bind.port)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Close everything."""
        await self._runner.cleanup()

    async def _serve_livez(self, request: web.Request) -> web.Response:
        return _verdict(self._livez(), request)

    async def _serve_readyz(self, request: web.Request) -> web.Response:
        return _verdict(self._readyz(), request)

    async def _serve_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": _PROMETHEUS})


class _Samples(Collector):
    """Shows our samples as Prometheus families; nothing is counted twice."""

    def __init__(self, samples: Callable[[], Iterable[Sample]]) -> None:
        self._samples = samples

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for sample in self._samples():
            family = families.get(sample.name)
            if family is None:
                kind = CounterMetricFamily if sample.is_counter else GaugeMetricFamily
                family = families[sample.name] = kind(sample.name, sample.meaning, labels=list(sample.labels))
            family.add_metric(list(sample.labels.values()), sample.value)  # type: ignore[attr-defined]
        return families.values()


def _verdict(checks: Sequence[Check], request: web.Request) -> web.Response:
    """All checks, one of them, or all but some, as a status and a body."""
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
