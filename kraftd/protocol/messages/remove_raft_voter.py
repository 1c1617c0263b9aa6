"""Takes a node out of the voters of the quorum. Generated from `proto/rpc/RemoveRaftVoter.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class RemoveRaftVoterRequest(Struct, frozen=True, gc=False):
    """Takes a node out of the voters of the quorum. Names the node."""

    API_KEY: ClassVar[int] = 81
    NAME: ClassVar[str] = "RemoveRaftVoterRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    cluster_id: str | None = ""
    """The cluster's id; null skips the check. (string)"""
    voter_id: int = 0
    """Which node. (int32)"""
    voter_directory_id: Uuid = ZERO_UUID
    """The node's metadata directory. (uuid)"""
    unknown_tags: UnknownTags = ()


class RemoveRaftVoterResponse(Struct, frozen=True, gc=False):
    """Whether it was taken out."""

    API_KEY: ClassVar[int] = 81
    NAME: ClassVar[str] = "RemoveRaftVoterResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    unknown_tags: UnknownTags = ()
