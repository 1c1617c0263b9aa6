"""Makes ACLs. Generated from `proto/rpc/CreateAcls.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class CreateAclsRequestAclCreation(Struct, frozen=True, gc=False):
    """In `CreateAclsRequest.creations`. One entry an ACL."""

    resource_type: int = 0
    """Kind of resource, in Kafka's numbers. (int8)"""
    resource_name: str = ""
    """Name of the resource. (string)"""
    resource_pattern_type: int = 3
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


class CreateAclsRequest(Struct, frozen=True, gc=False):
    """Makes ACLs. The ACLs to make."""

    API_KEY: ClassVar[int] = 30
    NAME: ClassVar[str] = "CreateAclsRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    creations: tuple[CreateAclsRequestAclCreation, ...] = ()
    """One entry an ACL. ([]CreateAclsRequestAclCreation)"""
    unknown_tags: UnknownTags = ()


class CreateAclsResponseAclCreationResult(Struct, frozen=True, gc=False):
    """In `CreateAclsResponse.results`. One entry an ACL."""

    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    unknown_tags: UnknownTags = ()


class CreateAclsResponse(Struct, frozen=True, gc=False):
    """The outcome for each ACL, in the order asked."""

    API_KEY: ClassVar[int] = 30
    NAME: ClassVar[str] = "CreateAclsResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    results: tuple[CreateAclsResponseAclCreationResult, ...] = ()
    """One entry an ACL. ([]CreateAclsResponseAclCreationResult)"""
    unknown_tags: UnknownTags = ()
