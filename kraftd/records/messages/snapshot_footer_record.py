"""Closes a snapshot; without it, the snapshot was cut short. Generated from
`proto/control/SnapshotFooterRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class SnapshotFooterRecord(Struct, frozen=True, gc=False):
    """Closes a snapshot; without it, the snapshot was cut short."""

    CONTROL_TYPE: ClassVar[int] = 4
    NAME: ClassVar[str] = "SnapshotFooterRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0
    """The version of this body, once more; readers go by the record's own. (int16)"""
    unknown_tags: UnknownTags = ()
