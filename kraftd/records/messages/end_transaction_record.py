"""Makes everything since the transaction's begin count. Generated from
`proto/records/EndTransactionRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class EndTransactionRecord(Struct, frozen=True, gc=False):
    """Makes everything since the transaction's begin count."""

    API_KEY: ClassVar[int] = 24
    NAME: ClassVar[str] = "EndTransactionRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    unknown_tags: UnknownTags = ()
