"""An access rule is gone. Generated from `proto/records/RemoveAccessControlEntryRecord.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class RemoveAccessControlEntryRecord(Struct, frozen=True, gc=False):
    """An access rule is gone."""

    API_KEY: ClassVar[int] = 19
    NAME: ClassVar[str] = "RemoveAccessControlEntryRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    id: Uuid = ZERO_UUID
    """The rule. (uuid)"""
    unknown_tags: UnknownTags = ()
