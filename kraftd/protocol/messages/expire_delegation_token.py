"""Ends a delegation token, at once or later. Generated from `proto/rpc/ExpireDelegationToken.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags, shown_without


class ExpireDelegationTokenRequest(Struct, frozen=True, gc=False):
    """Ends a delegation token, at once or later. Names the token by its HMAC."""

    API_KEY: ClassVar[int] = 40
    NAME: ClassVar[str] = "ExpireDelegationTokenRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    hmac: bytes = b""
    """The token's HMAC. (bytes)"""
    expiry_time_period_ms: int = 0
    """In how long it shall end; below 0, at once. (int64)"""
    unknown_tags: UnknownTags = ()

    def __repr__(self) -> str:
        return shown_without(self, "hmac")


class ExpireDelegationTokenResponse(Struct, frozen=True, gc=False):
    """When it ends."""

    API_KEY: ClassVar[int] = 40
    NAME: ClassVar[str] = "ExpireDelegationTokenResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    expiry_timestamp_ms: int = 0
    """When it ends unless it is renewed. (int64)"""
    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    unknown_tags: UnknownTags = ()
