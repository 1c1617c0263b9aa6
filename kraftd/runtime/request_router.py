"""Gives each request to the handler of its API and topic.

Entered by the server, with every request but those of msgpack that it handles itself (greetings, ApiVersions)
or gives to a handler of their own (ShowNonce). The handlers are tables that the parts of a node offer;
`ControllerServer` adds them before the server accepts connections. A new API is an entry in one of them.
A Fetch goes to the handler of its topic, if there is one, else to that of any topic; no topic but the
metadata log has one yet (`ControllerServer`).

What leaves a handler costs that request alone, with few exceptions (`request_failures`).

Not here: what a handler does (`network` for the quorum, `controller_apis`, `log_export`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from kraftd.controller.context import Client
from kraftd.errors import InvariantError
from kraftd.net.budgeted import RequestHandler
from kraftd.net.server import InboundConnection
from kraftd.protocol.codec import Buffer, Request
from kraftd.protocol.messages import FetchRequest
from kraftd.types import Uuid


class Requester(Protocol):
    """Who sent a request, as a handler sees it: a connection, or a client whose request a broker forwarded
    by one.
    """

    client: Client | None
    """A cache: the sender of the last request, which most often sends the next one; None before the first,
    and if that called itself at length.
    """

    @property
    def number(self) -> int:
        """The number of the connection."""

    @property
    def host(self) -> str:
        """The address of the client itself, without its port."""

    @property
    def session(self) -> Client:
        """Who its requests are from; each says its client id itself."""

    def reply(
        self, api_version: int, correlation_id: int, message: Any, records: Sequence[Buffer] = ()
    ) -> None:
        """Answer one request."""

    def give_up(self, api_version: int, correlation_id: int, response: Any) -> None:
        """Answer a request whose handler raised, unless that had answered it; what it still answers is
        dropped. Without a response (None) the connection ends.
        """


ApiHandler: TypeAlias = Callable[[Requester, Request], None]
"""Answers a request with `requester.reply`, now or later."""

Gate: TypeAlias = Callable[[Requester, Request], Any]
"""The response to a request that its sender has no right to; None for any other."""

FailureHandler: TypeAlias = Callable[[Requester, Request, Exception], None]
"""Settles a request whose handler raised, or raises it again."""


def raise_again(_requester: Requester, _request: Request, error: Exception) -> None:
    """For those who settle nothing: what is raised ends the process."""
    raise error


def _fetched_topic(request: FetchRequest) -> Uuid | None:
    return request.topics[0].topic_id if len(request.topics) == 1 else None


_TOPIC_OF: Mapping[type[Any], Callable[[Any], Uuid | None]] = {FetchRequest: _fetched_topic}
"""Finds the topic of a request, for the APIs that are served by topic; None if it is not of just one."""


class RequestRouter(RequestHandler):
    """Finds the handler of a request by its type and topic."""

    def __init__(self) -> None:
        self.failed: FailureHandler = raise_again
        """What settles the requests whose handlers raise. Set before the server accepts connections."""
        self.gate: Gate | None = None
        """What refuses requests that their sender has no right to. Set as early."""
        self._handlers: dict[tuple[type[Any], Uuid | None], ApiHandler] = {}
        """By type of request and topic; the topic is None for any."""
        self._when_closed: list[Callable[[InboundConnection], None]] = []

    def add(self, handlers: Mapping[type[Any], ApiHandler], *, topic_id: Uuid | None = None) -> None:
        """Add handlers by type of request: for one topic, or for any that has no handler of its own."""
        self._handlers.update({(request, topic_id): handler for request, handler in handlers.items()})

    @property
    def api_keys(self) -> frozenset[int]:
        """The keys of the APIs that have a handler."""
        return frozenset(request.API_KEY for request, _ in self._handlers)

    def add_when_closed(self, forget: Callable[[InboundConnection], None]) -> None:
        """Call `forget` with each connection that is closed after its handshake."""
        self._when_closed.append(forget)

    def request_received(self, connection: InboundConnection, request: Request) -> None:
        """Call the handler of a request, or reject a request without one."""
        handler = self._handler_of(request.message)
        if handler is None:
            connection.reject(f"{request.message.NAME} after the handshake")
        else:
            self._handle(handler, connection, request)

    def request_forwarded(self, client: Requester, request: Request) -> None:
        """Call the handler of a request that was inside an Envelope, and whose API is among `api_keys`."""
        handler = self._handler_of(request.message)
        if handler is None:
            raise InvariantError(f"{request.message.NAME} has no handler")
        self._handle(handler, client, request)

    def _handle(self, handler: ApiHandler, requester: Requester, request: Request) -> None:
        """Call a handler, unless the sender has no right to the request."""
        try:
            if self.gate is not None and (refusal := self.gate(requester, request)) is not None:
                requester.reply(request.api_version, request.correlation_id, refusal)
                return
            handler(requester, request)
        except Exception as error:  # noqa: BLE001 - the one boundary of all handlers (D-14)
            self.failed(requester, request, error)

    def _handler_of(self, message: Any) -> ApiHandler | None:
        handlers, api = self._handlers, type(message)
        topic_of = _TOPIC_OF.get(api)
        handler = handlers.get((api, topic_of(message))) if topic_of is not None else None
        return handler or handlers.get((api, None))

    def connection_closed(self, connection: InboundConnection) -> None:
        """Tell the handlers that keep something for a connection."""
        for forget in self._when_closed:
            forget(connection)
