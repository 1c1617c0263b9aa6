"""A topic comes to be; its partitions follow. Generated from `proto/records/TopicRecord.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class TopicRecord(Struct, frozen=True, gc=False):
    """A topic comes to be; its partitions follow."""

    API_KEY: ClassVar[int] = 2
    NAME: ClassVar[str] = "TopicRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    name: str = ""
    """Its name. (string)"""
    topic_id: Uuid = ZERO_UUID
    """Its id, which no other topic ever gets. (uuid)"""
    unknown_tags: UnknownTags = ()
