"""The replicas that a deletion or a reassignment took away, a page at a time, as far as the active
controller knows. Each page is linearizable; the pages are of different moments. Generated from
`proto/rpc/ListDeletions.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class ListDeletionsRequest(Struct, frozen=True, gc=False):
    """The replicas that a deletion or a reassignment took away, a page at a time, as far as the active
    controller knows. Each page is linearizable; the pages are of different moments. Asks for a page.
    """

    API_KEY: ClassVar[int] = 20015
    NAME: ClassVar[str] = "ListDeletionsRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    is_all: bool = False
    """Whether those are told, too, whose deletion is over. (bool)"""
    after_offset: int = -1
    """After which record to begin, with AfterBrokerId; -1 for the first page. It need not exist. (int64)"""
    after_broker_id: int = -1
    """After which broker of it. (int32)"""
    unknown_tags: UnknownTags = ()


class ListDeletionsResponseRemoval(Struct, frozen=True, gc=False):
    """In `ListDeletionsResponse.removals`. One entry for each record and broker, or several if they
    differ by directory.
    """

    offset: int = 0
    """The record that took them away. (int64)"""
    broker_id: int = 0
    """The broker that held them. (int32)"""
    name: str = ""
    """The topic's name, as it was. (string)"""
    topic_id: Uuid = ZERO_UUID
    """The topic's id. (uuid)"""
    partitions: tuple[int, ...] = ()
    """Which of its partitions. ([]int32)"""
    reason: int = 0
    """0 the topic was deleted, 1 a reassignment. (int8)"""
    state: int = 0
    """0 non-existent: it is over, 3 offline: assigned to the broker again, 4 started: the broker is up
    and has not read the record, 5 successful: it has, 6 ineligible: it is down and has not, or the log
    directory is offline. (int8)
    """
    is_set_aside: bool = False
    """Whether the broker was down and started anew meanwhile, so that the data lies in a directory that
    ends in -stray, which nobody removes; or the log directory failed and may come back with it. Where
    IsDirectoryOffline holds, too: whether the replica is the broker's again, in another directory, so that
    this is an old copy, with which the broker would not start. (bool)
    """
    is_heard: bool = False
    """Whether the active controller has heard all that the broker reported since. If not, a broker that
    is down may have read the record all the same. What it reports while the log directory is offline does
    not count; but this is false, too, once the broker was started anew without that directory: it may have
    been replaced. (bool)
    """
    is_directory_offline: bool = False
    """Whether it is ineligible because the log directory is offline, whatever the broker has read; until
    a start of the broker that has it again. (bool)
    """
    removed_ms: int = 0
    """When the record was written, in ms since 1970. (int64)"""
    since_ms: int = 0
    """Since when it is in its state. (int64)"""
    unknown_tags: UnknownTags = ()


class ListDeletionsResponseNextCursor(Struct, frozen=True, gc=False):
    """In `ListDeletionsResponse.next_cursor`. After what the next page begins; null if there is no next
    page.
    """

    offset: int = 0
    """A record. (int64)"""
    broker_id: int = 0
    """A broker. (int32)"""
    unknown_tags: UnknownTags = ()


class ListDeletionsResponse(Struct, frozen=True, gc=False):
    """A page of replicas that were taken away, in the order of the log and then by broker."""

    API_KEY: ClassVar[int] = 20015
    NAME: ClassVar[str] = "ListDeletionsResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    applied_offset: int = 0
    """Every record before it was looked at. (int64)"""
    begin_offset: int = -1
    """Of what was taken away before it nothing is known: a snapshot stands for that. (int64)"""
    dropped_count: int = 0
    """How many replicas at least are not kept, because newer ones were. (int64)"""
    removals: tuple[ListDeletionsResponseRemoval, ...] = ()
    """One entry for each record and broker, or several if they differ by directory.
    ([]ListDeletionsResponseRemoval)
    """
    next_cursor: ListDeletionsResponseNextCursor | None = None
    """After what the next page begins; null if there is no next page. (ListDeletionsResponseNextCursor)"""
    unknown_tags: UnknownTags = ()
