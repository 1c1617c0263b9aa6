"""Sets and removes the SCRAM credentials of users. Generated from
`proto/rpc/AlterUserScramCredentials.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags, shown_without


class AlterUserScramCredentialsRequestScramCredentialDeletion(Struct, frozen=True, gc=False):
    """In `AlterUserScramCredentialsRequest.deletions`. The credentials to remove."""

    name: str = ""
    """The user. (string)"""
    mechanism: int = 0
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512. (int8)"""
    unknown_tags: UnknownTags = ()


class AlterUserScramCredentialsRequestScramCredentialUpsertion(Struct, frozen=True, gc=False):
    """In `AlterUserScramCredentialsRequest.upsertions`. The credentials to set."""

    name: str = ""
    """The user. (string)"""
    mechanism: int = 0
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512. (int8)"""
    iterations: int = 0
    """How often the password is hashed. (int32)"""
    salt: bytes = b""
    """What it is salted with. (bytes)"""
    salted_password: bytes = b""
    """The hash. (bytes)"""
    unknown_tags: UnknownTags = ()

    def __repr__(self) -> str:
        return shown_without(self, "salt", "salted_password")


class AlterUserScramCredentialsRequest(Struct, frozen=True, gc=False):
    """Sets and removes the SCRAM credentials of users. The credentials to remove and to set."""

    API_KEY: ClassVar[int] = 51
    NAME: ClassVar[str] = "AlterUserScramCredentialsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    deletions: tuple[AlterUserScramCredentialsRequestScramCredentialDeletion, ...] = ()
    """The credentials to remove. ([]AlterUserScramCredentialsRequestScramCredentialDeletion)"""
    upsertions: tuple[AlterUserScramCredentialsRequestScramCredentialUpsertion, ...] = ()
    """The credentials to set. ([]AlterUserScramCredentialsRequestScramCredentialUpsertion)"""
    unknown_tags: UnknownTags = ()


class AlterUserScramCredentialsResponseAlterUserScramCredentialsResult(Struct, frozen=True, gc=False):
    """In `AlterUserScramCredentialsResponse.results`. One entry a user."""

    user: str = ""
    """The user. (string)"""
    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    unknown_tags: UnknownTags = ()


class AlterUserScramCredentialsResponse(Struct, frozen=True, gc=False):
    """The outcome for each user."""

    API_KEY: ClassVar[int] = 51
    NAME: ClassVar[str] = "AlterUserScramCredentialsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    results: tuple[AlterUserScramCredentialsResponseAlterUserScramCredentialsResult, ...] = ()
    """One entry a user. ([]AlterUserScramCredentialsResponseAlterUserScramCredentialsResult)"""
    unknown_tags: UnknownTags = ()
