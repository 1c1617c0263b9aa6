"""The ACLs that match a filter. Generated from `proto/rpc/DescribeAcls.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class DescribeAclsRequest(Struct, frozen=True, gc=False):
    """The ACLs that match a filter. The filter."""

    API_KEY: ClassVar[int] = 29
    NAME: ClassVar[str] = "DescribeAclsRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

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


class DescribeAclsResponseAclDescription(Struct, frozen=True, gc=False):
    """In `DescribeAclsResponseDescribeAclsResource.acls`. The ACLs of this resource."""

    principal: str = ""
    """Whom it is about. (string)"""
    host: str = ""
    """From which address; `*` for all. (string)"""
    operation: int = 0
    """The operation, in Kafka's numbers; 2 is all. (int8)"""
    permission_type: int = 0
    """2 denies, 3 allows. (int8)"""
    unknown_tags: UnknownTags = ()


class DescribeAclsResponseDescribeAclsResource(Struct, frozen=True, gc=False):
    """In `DescribeAclsResponse.resources`. One entry a resource."""

    resource_type: int = 0
    """Kind of resource, in Kafka's numbers. (int8)"""
    resource_name: str = ""
    """Name of the resource. (string)"""
    pattern_type: int = 3
    """3 if the name is meant itself, 4 if it is a prefix. (int8)"""
    acls: tuple[DescribeAclsResponseAclDescription, ...] = ()
    """The ACLs of this resource. ([]DescribeAclsResponseAclDescription)"""
    unknown_tags: UnknownTags = ()


class DescribeAclsResponse(Struct, frozen=True, gc=False):
    """Every ACL that matches, by resource."""

    API_KEY: ClassVar[int] = 29
    NAME: ClassVar[str] = "DescribeAclsResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    resources: tuple[DescribeAclsResponseDescribeAclsResource, ...] = ()
    """One entry a resource. ([]DescribeAclsResponseDescribeAclsResource)"""
    unknown_tags: UnknownTags = ()
