"""Discards everything since the transaction's begin. Generated from
`proto/records/AbortTransactionRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class AbortTransactionRecord(Struct, frozen=True, gc=False):
    """Discards everything since the transaction's begin."""

    API_KEY: ClassVar[int] = 25
    NAME: ClassVar[str] = "AbortTransactionRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    reason: str | None = None
    """Why it was given up, for a person to read. (string, tag 0)"""
    unknown_tags: UnknownTags = ()
