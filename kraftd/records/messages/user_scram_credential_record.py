"""What proves that a user knows a password, for one SCRAM mechanism. A secret. Generated from
`proto/records/UserScramCredentialRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags, shown_without


class UserScramCredentialRecord(Struct, frozen=True, gc=False):
    """What proves that a user knows a password, for one SCRAM mechanism. A secret."""

    API_KEY: ClassVar[int] = 11
    NAME: ClassVar[str] = "UserScramCredentialRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    name: str = ""
    """The user. (string)"""
    mechanism: int = 0
    """1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512. (int8)"""
    salt: bytes = b""
    """What the password was salted with. (bytes)"""
    stored_key: bytes = b""
    """What the server checks the client by. (bytes)"""
    server_key: bytes = b""
    """What the client checks the server by. (bytes)"""
    iterations: int = 0
    """How often it was hashed. (int32)"""
    unknown_tags: UnknownTags = ()

    def __repr__(self) -> str:
        return shown_without(self, "salt", "stored_key", "server_key")
