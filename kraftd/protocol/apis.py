"""Every API that kraftd speaks: its key, its messages and their versions."""

from collections.abc import Iterable
from typing import Any

import msgspec

from kraftd.protocol import messages
from kraftd.protocol.bodies import REQUEST_CODECS

OWN_KEYS_FROM = 20_000
"""API keys from here on are kraftd's; below, they are Kafka's."""


class Api(msgspec.Struct, frozen=True):
    """One API."""

    key: int
    name: str
    request: type[Any]
    response: type[Any]
    min_version: int
    max_version: int

    def common_version(self, peer_min: int, peer_max: int) -> int | None:
        """The highest version that a peer speaks too, if there is one."""
        version = min(self.max_version, peer_max)
        return version if version >= max(self.min_version, peer_min) else None


def _table(names: Iterable[str]) -> dict[int, Api]:
    apis = {}
    for name in names:
        request: type[Any] = getattr(messages, f"{name}Request")
        response: type[Any] = getattr(messages, f"{name}Response")
        key = request.API_KEY
        apis[key] = Api(key, name, request, response, request.MIN_VERSION, request.MAX_VERSION)
    return apis


APIS = _table(
    (
        "Fetch",
        "ApiVersions",
        "DescribeConfigs",
        "IncrementalAlterConfigs",
        "Vote",
        "BeginQuorumEpoch",
        "EndQuorumEpoch",
        "DescribeQuorum",
        "Handshake",
        "DescribeNode",
        "ResignLeader",
        "ExportManifest",
        "ExportChunk",
        "ListConfigs",
        "ShowNonce",
    )
)
"""By key."""


def is_supported(api_key: int, version: int) -> bool:
    """Whether a request of this API and version can be read."""
    return (api_key, version) in REQUEST_CODECS
