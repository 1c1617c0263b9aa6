"""The topics and how many of their partitions are in trouble, a page at a time. A page looks at so many
partitions at most: the numbers of a topic of more are in several pages, to be added up. Each page is
linearizable; the pages are of different moments. Generated from `proto/rpc/ListTopics.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class ListTopicsRequestCursor(Struct, frozen=True, gc=False):
    """In `ListTopicsRequest.cursor`. Where to begin; null for the first page. It need not exist."""

    name: str = ""
    """Name of the topic to begin with. (string)"""
    topic_id: Uuid = ZERO_UUID
    """Its id; a topic of this name with another id is begun at its first partition. (uuid)"""
    partition_index: int = 0
    """Its partition to begin with. (int32)"""
    unknown_tags: UnknownTags = ()


class ListTopicsRequest(Struct, frozen=True, gc=False):
    """The topics and how many of their partitions are in trouble, a page at a time. A page looks at so
    many partitions at most: the numbers of a topic of more are in several pages, to be added up. Each page
    is linearizable; the pages are of different moments. Asks for a page.
    """

    API_KEY: ClassVar[int] = 20008
    NAME: ClassVar[str] = "ListTopicsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    cursor: ListTopicsRequestCursor | None = None
    """Where to begin; null for the first page. It need not exist. (ListTopicsRequestCursor)"""
    unknown_tags: UnknownTags = ()


class ListTopicsResponseTopic(Struct, frozen=True, gc=False):
    """In `ListTopicsResponse.topics`. One entry a topic; of those of its partitions that the page looked
    at.
    """

    name: str = ""
    """Its name. (string)"""
    topic_id: Uuid = ZERO_UUID
    """Its id. (uuid)"""
    partitions: int = 0
    """How many partitions. (int32)"""
    least_replicas: int = 0
    """Replicas of the partition with the fewest. (int32)"""
    most_replicas: int = 0
    """Replicas of the partition with the most. (int32)"""
    leaderless: int = 0
    """How many have no leader. (int32)"""
    under_replicated: int = 0
    """How many have a replica that is not in sync. (int32)"""
    unknown_tags: UnknownTags = ()


class ListTopicsResponseNextCursor(Struct, frozen=True, gc=False):
    """In `ListTopicsResponse.next_cursor`. Where the next page begins; null if there is no next page."""

    name: str = ""
    """Name of the topic to begin with. (string)"""
    topic_id: Uuid = ZERO_UUID
    """Its id. (uuid)"""
    partition_index: int = 0
    """Its partition to begin with. (int32)"""
    unknown_tags: UnknownTags = ()


class ListTopicsResponse(Struct, frozen=True, gc=False):
    """A page of topics, ordered by name."""

    API_KEY: ClassVar[int] = 20008
    NAME: ClassVar[str] = "ListTopicsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    applied_offset: int = 0
    """The image holds everything before it. (int64)"""
    topics: tuple[ListTopicsResponseTopic, ...] = ()
    """One entry a topic; of those of its partitions that the page looked at. ([]ListTopicsResponseTopic)"""
    next_cursor: ListTopicsResponseNextCursor | None = None
    """Where the next page begins; null if there is no next page. (ListTopicsResponseNextCursor)"""
    unknown_tags: UnknownTags = ()
