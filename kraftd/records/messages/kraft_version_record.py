"""The level of the quorum protocol itself; 1 allows voters to change. Generated from
`proto/control/KRaftVersionRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class KRaftVersionRecord(Struct, frozen=True, gc=False):
    """The level of the quorum protocol itself; 1 allows voters to change."""

    CONTROL_TYPE: ClassVar[int] = 5
    NAME: ClassVar[str] = "KRaftVersionRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0
    """The version of this body, once more; readers go by the record's own. (int16)"""
    kraft_version: int = 0
    """The level: 0 static voters, 1 dynamic ones. (int16)"""
    unknown_tags: UnknownTags = ()
