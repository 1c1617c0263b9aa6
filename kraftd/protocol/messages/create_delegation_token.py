"""Makes a delegation token. Generated from `proto/rpc/CreateDelegationToken.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags, shown_without


class CreateDelegationTokenRequestCreatableRenewers(Struct, frozen=True, gc=False):
    """In `CreateDelegationTokenRequest.renewers`. Who else may renew it."""

    principal_type: str = ""
    """Type of the principal. (string)"""
    principal_name: str = ""
    """Name of the principal. (string)"""
    unknown_tags: UnknownTags = ()


class CreateDelegationTokenRequest(Struct, frozen=True, gc=False):
    """Makes a delegation token. Who may use and renew it, and for how long."""

    API_KEY: ClassVar[int] = 38
    NAME: ClassVar[str] = "CreateDelegationTokenRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    owner_principal_type: str | None = ""
    """Type of the principal that the token is for; null for the one that asks. (string, since version 3)"""
    owner_principal_name: str | None = ""
    """Name of the principal that the token is for; null for the one that asks. (string, since version 3)"""
    renewers: tuple[CreateDelegationTokenRequestCreatableRenewers, ...] = ()
    """Who else may renew it. ([]CreateDelegationTokenRequestCreatableRenewers)"""
    max_lifetime_ms: int = 0
    """How long the token may live at most; -1 for the default. (int64)"""
    unknown_tags: UnknownTags = ()


class CreateDelegationTokenResponse(Struct, frozen=True, gc=False):
    """The token."""

    API_KEY: ClassVar[int] = 38
    NAME: ClassVar[str] = "CreateDelegationTokenResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    principal_type: str = ""
    """Type of the principal. (string)"""
    principal_name: str = ""
    """Name of the principal. (string)"""
    token_requester_principal_type: str = ""
    """Type of the principal that asked. (string, since version 3)"""
    token_requester_principal_name: str = ""
    """Name of the principal that asked. (string, since version 3)"""
    issue_timestamp_ms: int = 0
    """When the token was made. (int64)"""
    expiry_timestamp_ms: int = 0
    """When it ends unless it is renewed. (int64)"""
    max_timestamp_ms: int = 0
    """When it ends in any case. (int64)"""
    token_id: str = ""
    """The token's id. (string)"""
    hmac: bytes = b""
    """The token's HMAC. (bytes)"""
    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    unknown_tags: UnknownTags = ()

    def __repr__(self) -> str:
        return shown_without(self, "hmac")
