"""Pages of a listing, asked for one after the other until the last, through elections and lost connections.

A request that is sent again, to the next leader perhaps, goes on behind the last page that came.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from kraftd.cli.active_controller import ask_kraftd
from kraftd.cli.client import Connection, raise_for
from kraftd.cli.failures import RefusedError
from kraftd.cli.waiting import answered
from kraftd.types import Endpoint

REQUEST_TIMEOUT_MS = 5_000

Response = TypeVar("Response", bound=msgspec.Struct)


class Listing(msgspec.Struct, Generic[Response], frozen=True):
    """What is asked for page by page."""

    what: str
    """In a few words, for people."""
    expect: type[Response]
    take: Callable[[Any, Response], Any]
    """Takes in the response to a request. Returns the request for the next page, None after the last."""
    comes_after: Callable[[Any, Any], bool]
    """Whether a request for a page (the first argument) comes after another: a node must not send us round
    in a circle."""


def ask_pages(
    bootstrap: Sequence[Endpoint],
    first: Any,
    listing: Listing[Response],
    timeout_ms: int,
    *,
    changes: bool = False,
) -> None:
    """Ask the leader for every page; `changes` as `ask_kraftd` has it.

    Raises:
        RefusedError: The node does not want to tell, or its pages lead nowhere.
    """
    request = first

    def go_on(leader: Connection) -> None:
        nonlocal request
        while request is not None:
            response: Any = leader.call(request, listing.expect, min(timeout_ms, REQUEST_TIMEOUT_MS))
            raise_for(response.error_code, response.error_message, f"{listing.what} cannot be read")
            answered()
            following = listing.take(request, response)
            if following is not None and not listing.comes_after(following, request):
                raise RefusedError(
                    f"{leader.endpoint}: {listing.what}: the next page does not come after the last"
                )
            request = following

    ask_kraftd(bootstrap, go_on, timeout_ms, listing.what, changes=changes)


def is_later_cursor(request: Any, before: Any) -> bool:
    """Whether a request for a page of topics or partitions comes after another, by their cursors.

    A topic that was made anew between two pages is begun again.
    """
    at, was = request.cursor, before.cursor
    if at is None or was is None:
        return at is not None
    is_anew = at.name == was.name and at.topic_id != was.topic_id
    return is_anew or (at.name, at.partition_index) > (was.name, was.partition_index)
