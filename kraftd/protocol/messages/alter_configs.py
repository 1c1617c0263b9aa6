"""Replaces all configs of resources; IncrementalAlterConfigs is its successor. Generated from
`proto/rpc/AlterConfigs.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags, shown_without


class AlterConfigsRequestAlterableConfig(Struct, frozen=True, gc=False):
    """In `AlterConfigsRequestAlterConfigsResource.configs`. The configs that are set."""

    name: str = ""
    """Name of the config. (string)"""
    value: str | None = ""
    """The value; null for none. (string)"""
    unknown_tags: UnknownTags = ()

    def __repr__(self) -> str:
        return shown_without(self, "value")


class AlterConfigsRequestAlterConfigsResource(Struct, frozen=True, gc=False):
    """In `AlterConfigsRequest.resources`. One entry a resource, no resource twice."""

    resource_type: int = 0
    """4 is a broker or, with an empty name, all of them; 2 a topic. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    configs: tuple[AlterConfigsRequestAlterableConfig, ...] = ()
    """The configs that are set. ([]AlterConfigsRequestAlterableConfig)"""
    unknown_tags: UnknownTags = ()


class AlterConfigsRequest(Struct, frozen=True, gc=False):
    """Replaces all configs of resources; IncrementalAlterConfigs is its successor. The configs that each
    resource shall have, and no others.
    """

    API_KEY: ClassVar[int] = 33
    NAME: ClassVar[str] = "AlterConfigsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    resources: tuple[AlterConfigsRequestAlterConfigsResource, ...] = ()
    """One entry a resource, no resource twice. ([]AlterConfigsRequestAlterConfigsResource)"""
    validate_only: bool = False
    """Check everything, change nothing. (bool)"""
    unknown_tags: UnknownTags = ()


class AlterConfigsResponseAlterConfigsResourceResponse(Struct, frozen=True, gc=False):
    """In `AlterConfigsResponse.responses`. One entry a resource, in the order asked."""

    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    resource_type: int = 0
    """4 is a broker or, with an empty name, all of them; 2 a topic. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    unknown_tags: UnknownTags = ()


class AlterConfigsResponse(Struct, frozen=True, gc=False):
    """The outcome for each resource, once it is committed."""

    API_KEY: ClassVar[int] = 33
    NAME: ClassVar[str] = "AlterConfigsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    responses: tuple[AlterConfigsResponseAlterConfigsResourceResponse, ...] = ()
    """One entry a resource, in the order asked. ([]AlterConfigsResponseAlterConfigsResourceResponse)"""
    unknown_tags: UnknownTags = ()
