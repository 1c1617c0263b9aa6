"""What an admin API is: a value that says how its request is decided or read, and how it is refused.

The module of an API declares one of these values and `admin_apis.OPERATIONS` lists it. The controller looks a
request up there by its type; so does whoever routes requests. Functions of an operation are pure: a context
or an image, and a request in; records and responses out.

Not here: when a request may be decided, and which errors there are (`quorum_controller`, `decisions`).
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from kraftd.controller.context import Context, ReadContext
from kraftd.controller.event_queue import EventClass
from kraftd.controller.plans import Plan
from kraftd.controller.sessions import BrokerSessions
from kraftd.errors import ErrorCode
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.part import Part
from kraftd.records.frame import AnyRecord
from kraftd.types import Offset

RequestT = TypeVar("RequestT")

Decided: TypeAlias = tuple[Sequence[AnyRecord], Any] | Plan
"""Records to append, all or none, and the response for when they are committed; or what is done in slices."""


class WriteOperation(msgspec.Struct, Generic[RequestT], frozen=True):
    """An API that writes records."""

    request: type[RequestT]
    """The type of its request message."""
    decide: Callable[[Context, RequestT], Decided]
    """Decides on the newest image. A response without records waits for the newest write that was appended
    before: it tells of an image that is not committed until that is. What people and tools are told of (those
    of `EventClass.WRITES`) waits, like a read, until a majority has confirmed the leader, too (D-12)."""
    refuse: Callable[[RequestT, ErrorCode, str], Any]
    """The response to a request that was not appended, or may not have been, with the reason."""
    arrived: Callable[[BrokerSessions, RequestT, int], None] | None = None
    """Notes in the sessions that a request came in, at this monotonic time, before anything delays it."""
    event_class: EventClass = EventClass.WRITES
    """Which share of the controller's time it has."""
    tells_of: Sequence[Part[Any, Any]] | None = None
    """The parts of the image that a response without records tells of: if they are committed, it waits for
    nothing. None for all of them."""
    has_timeout: bool = False
    """Whether a request says in `timeout_ms` how long its sender waits. Who does not wait at all is told that
    it is too late, and nothing is done, as in Kafka; whoever waits is answered within the controller's own
    limits."""
    is_empty: Callable[[RequestT], bool] = lambda _request: False
    """Whether a request is about nothing: then it is never too late. Only where a response could say so."""
    refuses_unread: bool = False
    """Whether a refusal is the same whatever was asked: who is not the active controller need not read
    a long request then."""
    strict_quota_since: int | None = None
    """The version since which it is refused beyond `controller_mutation_rate`; earlier ones are only told to
    wait. None for what has no such quota."""

    def is_too_late(self, request: Any) -> bool:
        """Whether the sender of a request does not wait for what would be done."""
        return self.has_timeout and request.timeout_ms <= 0 and not self.is_empty(request)


class ReadOperation(msgspec.Struct, Generic[RequestT], frozen=True):
    """An API that only reads. Its responses may be long."""

    request: type[RequestT]
    """The type of its request message."""
    read: Callable[[MetadataImage, Offset, RequestT], Any]
    """The response from the committed image, which stands for everything before the offset."""
    refuse: Callable[[RequestT, ErrorCode, str], Any]
    """The response to a request that could not be read, with the reason."""


class SessionReadOperation(msgspec.Struct, Generic[RequestT], frozen=True):
    """An API that reads what the active controller knows beside the image, of brokers and of its own file."""

    request: type[RequestT]
    """The type of its request message."""
    read: Callable[[ReadContext, RequestT], Any]
    """The response from the committed image, the sessions and the settings."""
    refuse: Callable[[RequestT, ErrorCode, str], Any]
    """The response to a request that could not be read, with the reason."""


Operation: TypeAlias = WriteOperation[Any] | ReadOperation[Any] | SessionReadOperation[Any]
