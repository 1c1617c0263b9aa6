"""Forgets a broker that will not come back. Generated from `proto/rpc/UnregisterBroker.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class UnregisterBrokerRequest(Struct, frozen=True, gc=False):
    """Forgets a broker that will not come back. Names the broker."""

    API_KEY: ClassVar[int] = 64
    NAME: ClassVar[str] = "UnregisterBrokerRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    broker_id: int = 0
    """Which broker this is. (int32)"""
    unknown_tags: UnknownTags = ()


class UnregisterBrokerResponse(Struct, frozen=True, gc=False):
    """Whether it was forgotten."""

    API_KEY: ClassVar[int] = 64
    NAME: ClassVar[str] = "UnregisterBrokerResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    unknown_tags: UnknownTags = ()
