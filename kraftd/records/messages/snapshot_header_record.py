"""Opens a snapshot. Generated from `proto/control/SnapshotHeaderRecord.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class SnapshotHeaderRecord(Struct, frozen=True, gc=False):
    """Opens a snapshot."""

    CONTROL_TYPE: ClassVar[int] = 3
    NAME: ClassVar[str] = "SnapshotHeaderRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0
    """The version of this body, once more; readers go by the record's own. (int16)"""
    last_contained_log_timestamp: int = 0
    """When the last record in the snapshot was appended to the log. (int64)"""
    unknown_tags: UnknownTags = ()
