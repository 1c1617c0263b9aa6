"""A user's credential for one SCRAM mechanism is gone. Generated from
`proto/records/RemoveUserScramCredentialRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class RemoveUserScramCredentialRecord(Struct, frozen=True, gc=False):
    """A user's credential for one SCRAM mechanism is gone."""

    API_KEY: ClassVar[int] = 22
    NAME: ClassVar[str] = "RemoveUserScramCredentialRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    name: str = ""
    """The user. (string)"""
    mechanism: int = 0
    """1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512. (int8)"""
    unknown_tags: UnknownTags = ()
