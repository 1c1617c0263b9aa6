"""Removes the ACLs that match filters. Generated from `proto/rpc/DeleteAcls.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class DeleteAclsRequestDeleteAclsFilter(Struct, frozen=True, gc=False):
    """In `DeleteAclsRequest.filters`. One entry a filter."""

    resource_type_filter: int = 0
    """Kind of resource, in Kafka's numbers; 1 for any. (int8)"""
    resource_name_filter: str | None = ""
    """Name of the resource; null for any. (string)"""
    pattern_type_filter: int = 3
    """1 any, 2 what would match, 3 the name itself, 4 a prefix. (int8)"""
    principal_filter: str | None = ""
    """Principal; null for any. (string)"""
    host_filter: str | None = ""
    """Address; null for any. (string)"""
    operation: int = 0
    """The operation, in Kafka's numbers; 2 is all. (int8)"""
    permission_type: int = 0
    """2 denies, 3 allows. (int8)"""
    unknown_tags: UnknownTags = ()


class DeleteAclsRequest(Struct, frozen=True, gc=False):
    """Removes the ACLs that match filters. The filters."""

    API_KEY: ClassVar[int] = 31
    NAME: ClassVar[str] = "DeleteAclsRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    filters: tuple[DeleteAclsRequestDeleteAclsFilter, ...] = ()
    """One entry a filter. ([]DeleteAclsRequestDeleteAclsFilter)"""
    unknown_tags: UnknownTags = ()


class DeleteAclsResponseDeleteAclsMatchingAcl(Struct, frozen=True, gc=False):
    """In `DeleteAclsResponseDeleteAclsFilterResult.matching_acls`. The ACLs that matched."""

    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    resource_type: int = 0
    """Kind of resource, in Kafka's numbers. (int8)"""
    resource_name: str = ""
    """Name of the resource. (string)"""
    pattern_type: int = 3
    """3 if the name is meant itself, 4 if it is a prefix. (int8)"""
    principal: str = ""
    """Whom it is about. (string)"""
    host: str = ""
    """From which address; `*` for all. (string)"""
    operation: int = 0
    """The operation, in Kafka's numbers; 2 is all. (int8)"""
    permission_type: int = 0
    """2 denies, 3 allows. (int8)"""
    unknown_tags: UnknownTags = ()


class DeleteAclsResponseDeleteAclsFilterResult(Struct, frozen=True, gc=False):
    """In `DeleteAclsResponse.filter_results`. One entry a filter."""

    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    matching_acls: tuple[DeleteAclsResponseDeleteAclsMatchingAcl, ...] = ()
    """The ACLs that matched. ([]DeleteAclsResponseDeleteAclsMatchingAcl)"""
    unknown_tags: UnknownTags = ()


class DeleteAclsResponse(Struct, frozen=True, gc=False):
    """What was removed by each filter, in the order asked."""

    API_KEY: ClassVar[int] = 31
    NAME: ClassVar[str] = "DeleteAclsResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    filter_results: tuple[DeleteAclsResponseDeleteAclsFilterResult, ...] = ()
    """One entry a filter. ([]DeleteAclsResponseDeleteAclsFilterResult)"""
    unknown_tags: UnknownTags = ()
