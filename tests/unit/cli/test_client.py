"""The command line's connection to one node."""

import contextlib

import pytest

from kraftd.cli.client import Connection
from kraftd.cli.failures import RefusedError
from kraftd.net import handshake
from kraftd.net.handshake import Identity
from kraftd.protocol.apis import Api
from kraftd.protocol.messages import (
    DescribeNodeRequest,
    DescribeNodeResponse,
    ListConfigsRequest,
    ListConfigsResponse,
)
from kraftd.protocol.msgpack_codec import MsgpackCodec
from kraftd.types import Endpoint
from tests.unit.cli.scripted import ScriptedNode


class NewerCodec(MsgpackCodec):
    """A node two releases newer, which lists configs in other versions only, and knows no DescribeNode."""

    def __init__(self) -> None:
        super().__init__()
        apis = {**self.apis, 20_005: Api(20_005, "ListConfigs", 3, 4)}
        self.apis = {key: api for key, api in apis.items() if key != 20_001}


def test_an_api_without_a_common_version_is_refused_with_both(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(ScriptedNode(1)) as node:
        with monkeypatch.context() as patch:
            patch.setattr(handshake, "MSGPACK", NewerCodec())
            response = Identity("c", "scripted 1", node_id=1).response()
        monkeypatch.setattr(Identity, "response", lambda *_, **__: response)
        endpoint = Endpoint("127.0.0.1", node.port)
        with Connection(endpoint, 5_000) as connection, pytest.raises(RefusedError) as refused:
            connection.call(ListConfigsRequest(), ListConfigsResponse, 5_000)
        with Connection(endpoint, 5_000) as connection, pytest.raises(RefusedError) as unknown:
            connection.call(DescribeNodeRequest(), DescribeNodeResponse, 5_000)
    assert str(refused.value).endswith(
        "scripted 1 speaks ListConfigs in versions 3 to 4, this kraftctl in version 1: use one of its release"
    )
    assert str(unknown.value).endswith("scripted 1 does not know DescribeNode (API 20001)")
    assert node.seen == []
