"""Gives each request to the handler of its API, and a Fetch to the handler of its topic.

Entered by the server, with every request after a handshake. The handlers are tables that the parts of a node
offer; `ControllerServer` adds them before the server accepts connections. A new API is an entry in one of
them; another topic that is fetched is one `add_topic`.

Not here: what a handler does (`network` for the quorum, `controller_apis`, `log_export`).
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kraftd.net.budgeted import RequestHandler
from kraftd.net.server import InboundConnection
from kraftd.protocol.codec import Request
from kraftd.protocol.messages import FetchRequest
from kraftd.types import Uuid

ApiHandler: TypeAlias = Callable[[InboundConnection, Request], None]
"""Answers a request with `connection.reply`, now or later."""


class RequestRouter(RequestHandler):
    """Finds the handler of a request by its type and topic."""

    def __init__(self) -> None:
        self._handlers: dict[type[Any], ApiHandler] = {}
        self._topics: dict[Uuid, ApiHandler] = {}
        self._when_closed: list[Callable[[InboundConnection], None]] = []

    def add(self, handlers: Mapping[type[Any], ApiHandler]) -> None:
        """Add handlers by type of request; the one of `FetchRequest` gets topics that have no handler."""
        self._handlers.update(handlers)

    def add_topic(self, topic_id: Uuid, fetch: ApiHandler) -> None:
        """Add the handler of fetches of one topic."""
        self._topics[topic_id] = fetch

    def add_when_closed(self, forget: Callable[[InboundConnection], None]) -> None:
        """Call `forget` with each connection that is closed after its handshake."""
        self._when_closed.append(forget)

    def request_received(self, connection: InboundConnection, request: Request) -> None:
        """Call the handler of a request, or reject a request without one."""
        message = request.message
        handler = self._handlers.get(type(message))
        if type(message) is FetchRequest and len(message.topics) == 1:
            handler = self._topics.get(message.topics[0].topic_id, handler)
        if handler is None:
            connection.reject(f"{message.NAME} after the handshake")
            return
        handler(connection, request)

    def connection_closed(self, connection: InboundConnection) -> None:
        """Tell the handlers that keep something for a connection."""
        for forget in self._when_closed:
            forget(connection)
