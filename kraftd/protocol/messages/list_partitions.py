"""The partitions in a condition that an operator looks for, a page at a time. A page looks at so many
topics and partitions at most, so that one that is not the last may be empty. Each page is linearizable; the
pages are of different moments. Generated from `proto/rpc/ListPartitions.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class ListPartitionsRequestCursor(Struct, frozen=True, gc=False):
    """In `ListPartitionsRequest.cursor`. Where to begin; null for the first page. It need not exist."""

    name: str = ""
    """Name of the topic to begin with. (string)"""
    topic_id: Uuid = ZERO_UUID
    """Its id; a topic of this name with another id is begun at its first partition. (uuid)"""
    partition_index: int = 0
    """Its partition to begin with. (int32)"""
    unknown_tags: UnknownTags = ()


class ListPartitionsRequest(Struct, frozen=True, gc=False):
    """The partitions in a condition that an operator looks for, a page at a time. A page looks at so
    many topics and partitions at most, so that one that is not the last may be empty. Each page is
    linearizable; the pages are of different moments. Asks for a page.
    """

    API_KEY: ClassVar[int] = 20013
    NAME: ClassVar[str] = "ListPartitionsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    condition: int = 0
    """1 no leader, 2 under-replicated, 3 fewer in sync than acks=all needs, 4 as many as that, 5 not led
    by the preferred replica, 6 being reassigned, 7 in need of the broker: without it nobody leads, or too
    few are in sync. (int8)
    """
    broker_id: int = -1
    """With condition 7, the broker. (int32)"""
    cursor: ListPartitionsRequestCursor | None = None
    """Where to begin; null for the first page. It need not exist. (ListPartitionsRequestCursor)"""
    unknown_tags: UnknownTags = ()


class ListPartitionsResponsePartition(Struct, frozen=True, gc=False):
    """In `ListPartitionsResponseTopic.partitions`. Its partitions in that condition."""

    partition_index: int = 0
    """Its index. (int32)"""
    leader_id: int = -1
    """The broker that leads it, or -1. (int32)"""
    replicas: tuple[int, ...] = ()
    """The brokers that hold it, the preferred leader first. ([]int32)"""
    isr: tuple[int, ...] = ()
    """Those of them that are in sync. ([]int32)"""
    eligible_leader_replicas: tuple[int, ...] = ()
    """Those of the others that may lead without loss. ([]int32)"""
    adding_replicas: tuple[int, ...] = ()
    """Replicas that a reassignment adds. ([]int32)"""
    removing_replicas: tuple[int, ...] = ()
    """Replicas that it removes. ([]int32)"""
    is_left_alone: bool = False
    """With condition 7, whether nobody leads it without the broker. (bool)"""
    unknown_tags: UnknownTags = ()


class ListPartitionsResponseTopic(Struct, frozen=True, gc=False):
    """In `ListPartitionsResponse.topics`. One entry a topic that has such partitions."""

    name: str = ""
    """Its name. (string)"""
    topic_id: Uuid = ZERO_UUID
    """Its id. (uuid)"""
    min_isr: int = 0
    """How many replicas must be in sync for acks=all. (int32)"""
    partitions: tuple[ListPartitionsResponsePartition, ...] = ()
    """Its partitions in that condition. ([]ListPartitionsResponsePartition)"""
    unknown_tags: UnknownTags = ()


class ListPartitionsResponseNextCursor(Struct, frozen=True, gc=False):
    """In `ListPartitionsResponse.next_cursor`. Where the next page begins; null if there is no next
    page.
    """

    name: str = ""
    """Name of the topic to begin with. (string)"""
    topic_id: Uuid = ZERO_UUID
    """Its id. (uuid)"""
    partition_index: int = 0
    """Its partition to begin with. (int32)"""
    unknown_tags: UnknownTags = ()


class ListPartitionsResponse(Struct, frozen=True, gc=False):
    """A page of partitions, ordered by the topics' names and by index."""

    API_KEY: ClassVar[int] = 20013
    NAME: ClassVar[str] = "ListPartitionsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    applied_offset: int = 0
    """The image holds everything before it. (int64)"""
    topics: tuple[ListPartitionsResponseTopic, ...] = ()
    """One entry a topic that has such partitions. ([]ListPartitionsResponseTopic)"""
    next_cursor: ListPartitionsResponseNextCursor | None = None
    """Where the next page begins; null if there is no next page. (ListPartitionsResponseNextCursor)"""
    unknown_tags: UnknownTags = ()
