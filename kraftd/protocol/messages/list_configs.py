"""The dynamic configs that are set, a page at a time. Each page is linearizable, like DescribeConfigs;
the pages are of different moments. A config that is there all the while is in exactly one of them.
Generated from `proto/rpc/ListConfigs.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class ListConfigsRequestCursor(Struct, frozen=True, gc=False):
    """In `ListConfigsRequest.cursor`. After which config to begin; null for the first page. It need not
    exist.
    """

    resource_type: int = 0
    """The type of resource. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    name: str = ""
    """Name of the config; empty to begin with the resource's first. (string)"""
    unknown_tags: UnknownTags = ()


class ListConfigsRequest(Struct, frozen=True, gc=False):
    """The dynamic configs that are set, a page at a time. Each page is linearizable, like
    DescribeConfigs; the pages are of different moments. A config that is there all the while is in exactly
    one of them. Asks for the configs of one type of resource, or of all.
    """

    API_KEY: ClassVar[int] = 20005
    NAME: ClassVar[str] = "ListConfigsRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    resource_type: int = 0
    """4 brokers, 2 topics, 0 all. (int8)"""
    cursor: ListConfigsRequestCursor | None = None
    """After which config to begin; null for the first page. It need not exist.
    (ListConfigsRequestCursor)
    """
    unknown_tags: UnknownTags = ()


class ListConfigsResponseEntry(Struct, frozen=True, gc=False):
    """In `ListConfigsResponse.entries`. One entry a config."""

    resource_type: int = 0
    """The type of resource. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    name: str = ""
    """Name of the config. (string)"""
    value: str | None = ""
    """Its value. (string)"""
    unknown_tags: UnknownTags = ()


class ListConfigsResponseNextCursor(Struct, frozen=True, gc=False):
    """In `ListConfigsResponse.next_cursor`. After which config the next page begins: this page's last;
    null if there is no next page.
    """

    resource_type: int = 0
    """The type of resource. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    name: str = ""
    """Name of the config. (string)"""
    unknown_tags: UnknownTags = ()


class ListConfigsResponse(Struct, frozen=True, gc=False):
    """A page of configs, ordered by resource and name."""

    API_KEY: ClassVar[int] = 20005
    NAME: ClassVar[str] = "ListConfigsResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    applied_offset: int = 0
    """The image holds everything before it. (int64)"""
    entries: tuple[ListConfigsResponseEntry, ...] = ()
    """One entry a config. ([]ListConfigsResponseEntry)"""
    next_cursor: ListConfigsResponseNextCursor | None = None
    """After which config the next page begins: this page's last; null if there is no next page.
    (ListConfigsResponseNextCursor)
    """
    unknown_tags: UnknownTags = ()
