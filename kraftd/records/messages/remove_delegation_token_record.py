"""A delegation token has ended. Generated from `proto/records/RemoveDelegationTokenRecord.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class RemoveDelegationTokenRecord(Struct, frozen=True, gc=False):
    """A delegation token has ended."""

    API_KEY: ClassVar[int] = 26
    NAME: ClassVar[str] = "RemoveDelegationTokenRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    token_id: str = ""
    """The token. (string)"""
    unknown_tags: UnknownTags = ()
