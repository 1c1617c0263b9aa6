"""A topic is gone, with its partitions and its configs. Generated from
`proto/records/RemoveTopicRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class RemoveTopicRecord(Struct, frozen=True, gc=False):
    """A topic is gone, with its partitions and its configs."""

    API_KEY: ClassVar[int] = 9
    NAME: ClassVar[str] = "RemoveTopicRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    topic_id: Uuid = ZERO_UUID
    """The topic. (uuid)"""
    unknown_tags: UnknownTags = ()
