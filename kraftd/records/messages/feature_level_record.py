"""The finalized level of one feature; the first of a log sets `metadata.version`. Generated from
`proto/records/FeatureLevelRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class FeatureLevelRecord(Struct, frozen=True, gc=False):
    """The finalized level of one feature; the first of a log sets `metadata.version`."""

    API_KEY: ClassVar[int] = 12
    NAME: ClassVar[str] = "FeatureLevelRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    name: str = ""
    """The feature. (string)"""
    feature_level: int = 0
    """Its level from here on; 0 removes the feature. (int16)"""
    unknown_tags: UnknownTags = ()
