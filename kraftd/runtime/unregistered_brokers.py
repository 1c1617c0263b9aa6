"""Brokers that follow the metadata log and never ask to be registered: one line says who, and what to do.

A Kafka broker takes the controllers' addresses from `controller.quorum.voters`, or from voters in the log.
Say that broker 14 has `controller.quorum.bootstrap.servers` alone, and that the log holds no voters: it finds
a node to fetch from, learns that node 2 leads, has no address for node 2, and so registers nowhere. Its own
log does not say why it ends after a minute; ours does, before that.

Entered by `network` with each fetch that was served on Kafka's wire, and by the request router with each
registration, whatever becomes of that: who is refused is named by `broker_refused`.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.protocol.codec import Request
from kraftd.runtime.request_router import ApiHandler, Requester
from kraftd.types import NodeId, Now

PATIENCE_MS: Final = 30_000
"""How long a broker may follow without asking: one that can, asks with its first request or two."""

PAUSE_MS_MAX: Final = 10_000
"""Who fetched nothing for so long follows anew; brokers fetch twice a second."""

BROKERS_MAX: Final = 1_000
"""How many are remembered: ids are a stranger's to choose, and the one that came first makes room."""

ADVICE: Final = (
    "it follows the log and does not ask to be registered: a broker needs controller.quorum.voters, and with "
    "controller.quorum.bootstrap.servers alone finds no controller"
)


class _Broker(msgspec.Struct):
    """A broker that is not registered. Mutable; times are monotonic."""

    since_ms: int
    """When it began to follow, or last asked to be registered."""
    fetched_ms: int


class UnregisteredBrokers:
    """Who follows the log of this leader, and since when. Mutable."""

    def __init__(self, image: Callable[[], MetadataImage], now: Callable[[], Now]) -> None:
        self._image = image
        self._now = now
        self._brokers: dict[NodeId, _Broker] = {}

    def fetched(self, node_id: NodeId) -> bool:
        """Note a fetch of an observer that was served; whether it has waited too long to be registered."""
        if self._image()[BROKERS].get(node_id) is not None:
            if self._brokers:
                self._brokers.pop(node_id, None)
            return False
        now_ms = self._now().mono_ms
        known = self._brokers.get(node_id)
        if known is None or now_ms - known.fetched_ms > PAUSE_MS_MAX:
            self._begin(node_id, now_ms)
            return False
        known.fetched_ms = now_ms
        return now_ms - known.since_ms >= PATIENCE_MS

    def noting(self, register: ApiHandler) -> ApiHandler:
        """The handler of registrations, with a note of who asked."""

        def note(connection: Requester, request: Request) -> None:
            self._begin(request.message.broker_id, self._now().mono_ms)
            register(connection, request)

        return note

    def _begin(self, node_id: NodeId, now_ms: int) -> None:
        brokers = self._brokers
        if node_id not in brokers and len(brokers) >= BROKERS_MAX:
            del brokers[next(iter(brokers))]
        brokers[node_id] = _Broker(now_ms, now_ms)
