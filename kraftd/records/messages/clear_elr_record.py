"""Partitions forget their eligible and last known eligible leader replicas. Generated from
`proto/records/ClearElrRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class ClearElrRecord(Struct, frozen=True, gc=False):
    """Partitions forget their eligible and last known eligible leader replicas."""

    API_KEY: ClassVar[int] = 28
    NAME: ClassVar[str] = "ClearElrRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    topic_name: str = ""
    """Of which topic; empty is all of them. (string)"""
    unknown_tags: UnknownTags = ()
