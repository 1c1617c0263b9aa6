"""Sets, deletes, appends to or subtracts from single configs of resources. Generated from
`proto/rpc/IncrementalAlterConfigs.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags, shown_without


class IncrementalAlterConfigsRequestAlterableConfig(Struct, frozen=True, gc=False):
    """In `IncrementalAlterConfigsRequestAlterConfigsResource.configs`. The configs of this resource."""

    name: str = ""
    """Name of the config. (string)"""
    config_operation: int = 0
    """0 set, 1 delete, 2 append, 3 subtract. (int8)"""
    value: str | None = ""
    """The value; null when deleting. (string)"""
    unknown_tags: UnknownTags = ()

    def __repr__(self) -> str:
        return shown_without(self, "value")


class IncrementalAlterConfigsRequestAlterConfigsResource(Struct, frozen=True, gc=False):
    """In `IncrementalAlterConfigsRequest.resources`. One entry a resource, no resource twice."""

    resource_type: int = 0
    """4 is a broker or, with an empty name, all of them; 2 a topic. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    configs: tuple[IncrementalAlterConfigsRequestAlterableConfig, ...] = ()
    """The configs of this resource. ([]IncrementalAlterConfigsRequestAlterableConfig)"""
    unknown_tags: UnknownTags = ()


class IncrementalAlterConfigsRequest(Struct, frozen=True, gc=False):
    """Sets, deletes, appends to or subtracts from single configs of resources. The changes; those of one
    resource are applied together or not at all.
    """

    API_KEY: ClassVar[int] = 44
    NAME: ClassVar[str] = "IncrementalAlterConfigsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    resources: tuple[IncrementalAlterConfigsRequestAlterConfigsResource, ...] = ()
    """One entry a resource, no resource twice. ([]IncrementalAlterConfigsRequestAlterConfigsResource)"""
    validate_only: bool = False
    """Check everything, change nothing. (bool)"""
    unknown_tags: UnknownTags = ()


class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(Struct, frozen=True, gc=False):
    """In `IncrementalAlterConfigsResponse.responses`. One entry a resource, in the order asked."""

    error_code: int = 0
    """0, or why this resource was left as it was. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    resource_type: int = 0
    """4 is a broker or, with an empty name, all of them; 2 a topic. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    unknown_tags: UnknownTags = ()


class IncrementalAlterConfigsResponse(Struct, frozen=True, gc=False):
    """The outcome for each resource, once it is committed."""

    API_KEY: ClassVar[int] = 44
    NAME: ClassVar[str] = "IncrementalAlterConfigsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    responses: tuple[IncrementalAlterConfigsResponseAlterConfigsResourceResponse, ...] = ()
    """One entry a resource, in the order asked.
    ([]IncrementalAlterConfigsResponseAlterConfigsResourceResponse)
    """
    unknown_tags: UnknownTags = ()
