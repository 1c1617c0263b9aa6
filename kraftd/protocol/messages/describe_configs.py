"""The configs of resources, as of now. Generated from `proto/rpc/DescribeConfigs.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class DescribeConfigsRequestDescribeConfigsResource(Struct, frozen=True, gc=False):
    """In `DescribeConfigsRequest.resources`. One entry a resource, no resource twice."""

    resource_type: int = 0
    """4 is a broker or, with an empty name, all of them; 2 a topic. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    configuration_keys: tuple[str, ...] | None = ()
    """Names of the configs wanted; null for all. ([]string)"""
    unknown_tags: UnknownTags = ()


class DescribeConfigsRequest(Struct, frozen=True, gc=False):
    """The configs of resources, as of now. Asks for configs of some resources."""

    API_KEY: ClassVar[int] = 32
    NAME: ClassVar[str] = "DescribeConfigsRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 4

    resources: tuple[DescribeConfigsRequestDescribeConfigsResource, ...] = ()
    """One entry a resource, no resource twice. ([]DescribeConfigsRequestDescribeConfigsResource)"""
    include_synonyms: bool = False
    """Also list where else each value could come from. (bool)"""
    include_documentation: bool = False
    """Also say what each config does. (bool, since version 3)"""
    unknown_tags: UnknownTags = ()


class DescribeConfigsResponseDescribeConfigsSynonym(Struct, frozen=True, gc=False):
    """In `DescribeConfigsResponseDescribeConfigsResourceResult.synonyms`. Where the value could come
    from, in order of precedence.
    """

    name: str = ""
    """Name of the config. (string)"""
    value: str | None = ""
    """Its value; null if it has none or must not be shown. (string)"""
    source: int = 0
    """The kind of that place, as in the config source. (int8)"""
    unknown_tags: UnknownTags = ()


class DescribeConfigsResponseDescribeConfigsResourceResult(Struct, frozen=True, gc=False):
    """In `DescribeConfigsResponseDescribeConfigsResult.configs`. The configs of this resource."""

    name: str = ""
    """Name of the config. (string)"""
    value: str | None = ""
    """Its value; null if it has none or must not be shown. (string)"""
    read_only: bool = False
    """Whether it can only be changed with a restart. (bool)"""
    config_source: int = -1
    """Where the value comes from, in Kafka's numbers: 1 topic, 2 broker, 3 all brokers, 4 file, 5
    default. (int8)
    """
    is_sensitive: bool = False
    """Whether the value is a secret. (bool)"""
    synonyms: tuple[DescribeConfigsResponseDescribeConfigsSynonym, ...] = ()
    """Where the value could come from, in order of precedence.
    ([]DescribeConfigsResponseDescribeConfigsSynonym)
    """
    config_type: int = 0
    """The value's type, in Kafka's numbers: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7
    list, 8 class, 9 password. (int8, since version 3)
    """
    documentation: str | None = ""
    """What the config does. (string, since version 3)"""
    unknown_tags: UnknownTags = ()


class DescribeConfigsResponseDescribeConfigsResult(Struct, frozen=True, gc=False):
    """In `DescribeConfigsResponse.results`. One entry a resource, in the order asked."""

    error_code: int = 0
    """0, or why this resource cannot be described; POLICY_VIOLATION (44) where more was asked for than
    one response holds. (int16)
    """
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    resource_type: int = 0
    """4 is a broker or, with an empty name, all of them; 2 a topic. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    configs: tuple[DescribeConfigsResponseDescribeConfigsResourceResult, ...] = ()
    """The configs of this resource. ([]DescribeConfigsResponseDescribeConfigsResourceResult)"""
    unknown_tags: UnknownTags = ()


class DescribeConfigsResponse(Struct, frozen=True, gc=False):
    """The configs of each resource asked for."""

    API_KEY: ClassVar[int] = 32
    NAME: ClassVar[str] = "DescribeConfigsResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 4

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    results: tuple[DescribeConfigsResponseDescribeConfigsResult, ...] = ()
    """One entry a resource, in the order asked. ([]DescribeConfigsResponseDescribeConfigsResult)"""
    unknown_tags: UnknownTags = ()
