"""The partitions of the topics named, a page at a time. Each page is linearizable; the pages are of
different moments. Generated from `proto/rpc/DescribeTopics.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class DescribeTopicsRequest(Struct, frozen=True, gc=False):
    """The partitions of the topics named, a page at a time. Each page is linearizable; the pages are of
    different moments. Asks for the page that begins with the first of the topics named.
    """

    API_KEY: ClassVar[int] = 20009
    NAME: ClassVar[str] = "DescribeTopicsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    names: tuple[str, ...] = ()
    """The topics' names. For the next page, those from NextCursor on. ([]string)"""
    topic_id: Uuid = ZERO_UUID
    """The id of the first topic; one of this name with another id is begun at its first partition.
    (uuid)
    """
    partition_index: int = 0
    """The partition of the first topic to begin with. (int32)"""
    unknown_tags: UnknownTags = ()


class DescribeTopicsResponsePartition(Struct, frozen=True, gc=False):
    """In `DescribeTopicsResponseTopic.partitions`. Those of its partitions that are in this page."""

    partition_index: int = 0
    """Its index. (int32)"""
    leader_id: int = -1
    """The broker that leads it, or -1. (int32)"""
    leader_epoch: int = 0
    """How often its leader was set. (int32)"""
    partition_epoch: int = 0
    """How often it was changed. (int32)"""
    replicas: tuple[int, ...] = ()
    """The brokers that hold it, the preferred leader first. ([]int32)"""
    isr: tuple[int, ...] = ()
    """Those of them that are in sync. ([]int32)"""
    eligible_leader_replicas: tuple[int, ...] = ()
    """Those of the others that may lead without loss. ([]int32)"""
    last_known_elr: tuple[int, ...] = ()
    """Who led it last, while nobody may lead it without loss. ([]int32)"""
    adding_replicas: tuple[int, ...] = ()
    """Replicas that a reassignment adds. ([]int32)"""
    removing_replicas: tuple[int, ...] = ()
    """Replicas that it removes. ([]int32)"""
    directories: tuple[Uuid, ...] = ()
    """The log directory of each replica. ([]uuid)"""
    is_leader_recovering: bool = False
    """Whether its leader was elected uncleanly and has not recovered. (bool)"""
    unknown_tags: UnknownTags = ()


class DescribeTopicsResponseTopic(Struct, frozen=True, gc=False):
    """In `DescribeTopicsResponse.topics`. One entry a topic."""

    error_code: int = 0
    """0, or why it cannot be described. (int16)"""
    name: str = ""
    """Its name. (string)"""
    topic_id: Uuid = ZERO_UUID
    """Its id. (uuid)"""
    partitions: tuple[DescribeTopicsResponsePartition, ...] = ()
    """Those of its partitions that are in this page. ([]DescribeTopicsResponsePartition)"""
    unknown_tags: UnknownTags = ()


class DescribeTopicsResponseNextCursor(Struct, frozen=True, gc=False):
    """In `DescribeTopicsResponse.next_cursor`. Where the next page begins; null if there is no next
    page.
    """

    name: str = ""
    """Name of the topic to begin with, one of those asked for. (string)"""
    topic_id: Uuid = ZERO_UUID
    """Its id. (uuid)"""
    partition_index: int = 0
    """Its partition to begin with. (int32)"""
    unknown_tags: UnknownTags = ()


class DescribeTopicsResponse(Struct, frozen=True, gc=False):
    """A page of partitions, in the order of the names, each topic's by index."""

    API_KEY: ClassVar[int] = 20009
    NAME: ClassVar[str] = "DescribeTopicsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    applied_offset: int = 0
    """The image holds everything before it. (int64)"""
    topics: tuple[DescribeTopicsResponseTopic, ...] = ()
    """One entry a topic. ([]DescribeTopicsResponseTopic)"""
    next_cursor: DescribeTopicsResponseNextCursor | None = None
    """Where the next page begins; null if there is no next page. (DescribeTopicsResponseNextCursor)"""
    unknown_tags: UnknownTags = ()
