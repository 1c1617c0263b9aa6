"""A broker keeps its session with the active controller, and asks to be unfenced, fenced or stopped.
Generated from `proto/rpc/BrokerHeartbeat.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import Uuid


class BrokerHeartbeatRequest(Struct, frozen=True, gc=False):
    """A broker keeps its session with the active controller, and asks to be unfenced, fenced or stopped.
    Says that the broker lives, how far it has read the metadata log, and what it wants.
    """

    API_KEY: ClassVar[int] = 63
    NAME: ClassVar[str] = "BrokerHeartbeatRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    broker_id: int = 0
    """Which broker this is. (int32)"""
    broker_epoch: int = -1
    """The epoch of its registration; -1 if it has none yet. (int64)"""
    current_metadata_offset: int = 0
    """The last offset of the metadata log that the broker has applied. (int64)"""
    want_fence: bool = False
    """Whether it wants to be, or to stay, fenced. (bool)"""
    want_shut_down: bool = False
    """Whether it wants to stop in order. (bool)"""
    offline_log_dirs: tuple[Uuid, ...] = ()
    """Ids of its log directories that have failed. ([]uuid, tag 0, since version 1)"""
    cordoned_log_dirs: tuple[Uuid, ...] | None = None
    """Ids of its log directories that take no new replicas; null if nothing is said of them. ([]uuid,
    tag 1, since version 2)
    """
    unknown_tags: UnknownTags = ()


class BrokerHeartbeatResponse(Struct, frozen=True, gc=False):
    """What the controller decided about the broker."""

    API_KEY: ClassVar[int] = 63
    NAME: ClassVar[str] = "BrokerHeartbeatResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or why the session was not kept. (int16)"""
    is_caught_up: bool = False
    """Whether the broker has applied the record of its own registration. (bool)"""
    is_fenced: bool = True
    """Whether it is fenced now. (bool)"""
    should_shut_down: bool = False
    """Whether it may stop now. (bool)"""
    unknown_tags: UnknownTags = ()
