"""Adds a node to the voters of the quorum. Generated from `proto/rpc/AddRaftVoter.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class AddRaftVoterRequestListener(Struct, frozen=True, gc=False):
    """In `AddRaftVoterRequest.listeners`. Where it listens."""

    name: str = ""
    """Name of the listener. (string)"""
    host: str = ""
    """Host name or address. (string)"""
    port: int = 0
    """TCP port. (uint16)"""
    unknown_tags: UnknownTags = ()


class AddRaftVoterRequest(Struct, frozen=True, gc=False):
    """Adds a node to the voters of the quorum. Names the node and where it listens."""

    API_KEY: ClassVar[int] = 80
    NAME: ClassVar[str] = "AddRaftVoterRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    cluster_id: str | None = ""
    """The cluster's id; null skips the check. (string)"""
    timeout_ms: int = 0
    """How long the request may take. (int32)"""
    voter_id: int = 0
    """Which node. (int32)"""
    voter_directory_id: Uuid = ZERO_UUID
    """The node's metadata directory. (uuid)"""
    listeners: tuple[AddRaftVoterRequestListener, ...] = ()
    """Where it listens. ([]AddRaftVoterRequestListener)"""
    ack_when_committed: bool = True
    """Whether the response waits until the change is committed. (bool, since version 1)"""
    unknown_tags: UnknownTags = ()


class AddRaftVoterResponse(Struct, frozen=True, gc=False):
    """Whether it was added."""

    API_KEY: ClassVar[int] = 80
    NAME: ClassVar[str] = "AddRaftVoterResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    unknown_tags: UnknownTags = ()
