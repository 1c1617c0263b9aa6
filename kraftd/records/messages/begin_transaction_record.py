"""Opens a metadata transaction: what follows counts only once it ends. Generated from
`proto/records/BeginTransactionRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class BeginTransactionRecord(Struct, frozen=True, gc=False):
    """Opens a metadata transaction: what follows counts only once it ends."""

    API_KEY: ClassVar[int] = 23
    NAME: ClassVar[str] = "BeginTransactionRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    name: str | None = None
    """What the transaction is for, for a person to read. (string, tag 0)"""
    unknown_tags: UnknownTags = ()
