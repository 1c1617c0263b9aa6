"""Hands leadership over, to one voter or to the best one. Generated from `proto/rpc/ResignLeader.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class ResignLeaderRequest(Struct, frozen=True, gc=False):
    """Hands leadership over, to one voter or to the best one. Asks the leader to resign."""

    API_KEY: ClassVar[int] = 20002
    NAME: ClassVar[str] = "ResignLeaderRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    to: int = -1
    """The voter that should lead; -1 lets the leader choose. (int32)"""
    timeout_ms: int = 0
    """How long to wait for it to catch up. (int32)"""
    unknown_tags: UnknownTags = ()


class ResignLeaderResponse(Struct, frozen=True, gc=False):
    """Where leadership went, or why it did not."""

    API_KEY: ClassVar[int] = 20002
    NAME: ClassVar[str] = "ResignLeaderResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    epoch: int = 0
    """The epoch that ended. (int32)"""
    leader_id: int = -1
    """Who led it, or who leads if the node asked does not. (int32)"""
    successor: int = -1
    """Who was asked to take over, or -1. (int32)"""
    unknown_tags: UnknownTags = ()
