"""Lets a delegation token live longer. Generated from `proto/rpc/RenewDelegationToken.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags, shown_without


class RenewDelegationTokenRequest(Struct, frozen=True, gc=False):
    """Lets a delegation token live longer. Names the token by its HMAC."""

    API_KEY: ClassVar[int] = 39
    NAME: ClassVar[str] = "RenewDelegationTokenRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    hmac: bytes = b""
    """The token's HMAC. (bytes)"""
    renew_period_ms: int = 0
    """How long it shall live from now on; -1 for the default. (int64)"""
    unknown_tags: UnknownTags = ()

    def __repr__(self) -> str:
        return shown_without(self, "hmac")


class RenewDelegationTokenResponse(Struct, frozen=True, gc=False):
    """How long it lives now."""

    API_KEY: ClassVar[int] = 39
    NAME: ClassVar[str] = "RenewDelegationTokenResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    expiry_timestamp_ms: int = 0
    """When it ends unless it is renewed. (int64)"""
    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    unknown_tags: UnknownTags = ()
