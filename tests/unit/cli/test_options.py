"""Where the nodes to ask come from."""

import pytest

from kraftd.cli.failures import UsageError
from kraftd.cli.options import parse_endpoints, parse_node
from kraftd.types import Endpoint


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("localhost:9093", "localhost", 9093), ("10.0.0.1:1", "10.0.0.1", 1), ("[::1]:65535", "::1", 65535)],
)
def test_an_endpoint_is_host_and_port(text: str, host: str, port: int) -> None:
    assert parse_node(text) == Endpoint(host, port)
    assert str(parse_node(text)) == text


@pytest.mark.parametrize(
    "text", ["", "h", "h:", ":1", "h:x", "h:-1", "h:0", "h:65536", "::1:9", "h:1:2", "[]:1", "h:²", "[::1]"]
)
def test_anything_else_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="host:port"):
        parse_node(text)


def test_repeats_are_asked_once_and_order_is_kept() -> None:
    assert parse_endpoints("b:2, a:1,b:2,") == (Endpoint("b", 2), Endpoint("a", 1))
