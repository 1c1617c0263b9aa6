"""A request goes to the handler of its API, and a Fetch to the handler of its topic."""

from typing import Any

import pytest

from kraftd.protocol.codec import Request
from kraftd.protocol.messages import (
    DescribeNodeRequest,
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    HandshakeRequest,
    ListConfigsRequest,
)
from kraftd.runtime.request_router import RequestRouter
from kraftd.types import METADATA_TOPIC_ID

ORDERS = b"orders".rjust(16, b".")


class Calls:
    """Handlers by name, and what each was given."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.rejected: list[str] = []

    def handler(self, name: str) -> Any:
        return lambda _connection, request: self.seen.append(f"{name} {request.message.NAME}")

    def reject(self, reason: str) -> None:
        self.rejected.append(reason)


def request(message: Any) -> Request:
    return Request(message.API_KEY, 17, 5, "test", message)


def fetch(*topic_ids: bytes) -> FetchRequest:
    partitions = (FetchRequestFetchPartition(),)
    return FetchRequest(
        topics=tuple(FetchRequestFetchTopic(topic_id=each, partitions=partitions) for each in topic_ids)
    )


def test_a_request_goes_to_the_handler_of_its_type() -> None:
    calls, router = Calls(), RequestRouter()
    router.add({DescribeNodeRequest: calls.handler("node")})
    router.add({ListConfigsRequest: calls.handler("controller")})
    for message in (ListConfigsRequest(), DescribeNodeRequest(), HandshakeRequest()):
        router.request_received(calls, request(message))  # type: ignore[arg-type]
    assert calls.seen == ["controller ListConfigsRequest", "node DescribeNodeRequest"]
    assert calls.rejected == ["HandshakeRequest after the handshake"]


@pytest.mark.parametrize(
    ("topic_ids", "handler"),
    [
        ((METADATA_TOPIC_ID,), "quorum"),
        ((ORDERS,), "orders"),
        ((b"unknown".rjust(16, b"."),), "fallback"),
        ((), "fallback"),
        ((ORDERS, METADATA_TOPIC_ID), "fallback"),
    ],
)
def test_a_fetch_goes_to_the_handler_of_its_topic(topic_ids: tuple[bytes, ...], handler: str) -> None:
    calls, router = Calls(), RequestRouter()
    router.add({FetchRequest: calls.handler("fallback")})
    router.add({FetchRequest: calls.handler("quorum")}, topic_id=METADATA_TOPIC_ID)
    router.add({FetchRequest: calls.handler("orders")}, topic_id=ORDERS)
    router.request_received(calls, request(fetch(*topic_ids)))  # type: ignore[arg-type]
    assert calls.seen == [f"{handler} FetchRequest"]


def test_a_closed_connection_is_forgotten_by_all_that_keep_something_for_it() -> None:
    router, closed = RequestRouter(), []
    router.add_when_closed(lambda connection: closed.append(("exports", connection)))
    router.add_when_closed(lambda connection: closed.append(("sessions", connection)))
    connection: Any = Calls()
    router.connection_closed(connection)
    assert closed == [("exports", connection), ("sessions", connection)]
