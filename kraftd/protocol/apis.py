"""What an API is: its key, its messages, and their versions in one encoding."""

from collections.abc import Mapping
from typing import Any

import msgspec

from kraftd.protocol import messages
from kraftd.serde.generated import CodecModule


class Api(msgspec.Struct, frozen=True):
    """One API, in the versions of one encoding."""

    key: int
    name: str
    min_version: int
    max_version: int

    @property
    def request(self) -> type[Any]:
        """The class of its requests."""
        found: type[Any] = getattr(messages, f"{self.name}Request")
        return found

    @property
    def response(self) -> type[Any]:
        """The class of its responses."""
        found: type[Any] = getattr(messages, f"{self.name}Response")
        return found

    @property
    def versions(self) -> str:
        """Its versions, in words."""
        return versions_text(self.min_version, self.max_version)

    def common_version(self, peer_min: int, peer_max: int) -> int | None:
        """The highest version that a peer speaks too, if there is one."""
        version = min(self.max_version, peer_max)
        return version if version >= max(self.min_version, peer_min) else None


def versions_text(low: int, high: int) -> str:
    """A range of versions, in words."""
    return f"version {low}" if low == high else f"versions {low} to {high}"


def api_table(modules: Mapping[int, CodecModule]) -> Mapping[int, Api]:
    """The APIs of one encoding, by key."""
    return {
        key: Api(key, module.name, module.min_version, module.max_version) for key, module in modules.items()
    }
