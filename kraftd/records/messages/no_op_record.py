"""Says nothing. Written while idle, so that committed offsets keep moving. Generated from
`proto/records/NoOpRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class NoOpRecord(Struct, frozen=True, gc=False):
    """Says nothing. Written while idle, so that committed offsets keep moving."""

    API_KEY: ClassVar[int] = 20
    NAME: ClassVar[str] = "NoOpRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    unknown_tags: UnknownTags = ()
