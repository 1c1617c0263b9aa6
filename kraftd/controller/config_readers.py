"""What DescribeConfigs and ListConfigs answer, from a committed image.

A describe without names tells what is set; one with names also tells the default of a name that is not set.
A broker's value is its own, else that of the cluster default, else Kafka's default.
Values of passwords are never told. What a broker's own file says is not known here.
"""

from collections.abc import Iterable

from kraftd.controller.config_control import resource_complaint
from kraftd.errors import ErrorCode
from kraftd.metadata.configs import CLUSTER_DEFAULT, ConfigType, ResourceType, Update, broker_key, topic_key
from kraftd.metadata.image import MetadataImage
from kraftd.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseDescribeConfigsResourceResult,
    DescribeConfigsResponseDescribeConfigsResult,
    DescribeConfigsResponseDescribeConfigsSynonym,
    ListConfigsRequest,
    ListConfigsResponse,
    ListConfigsResponseEntry,
)
from kraftd.types import Offset

SOURCE_DYNAMIC_BROKER = 2
SOURCE_DYNAMIC_CLUSTER = 3
SOURCE_DEFAULT = 5
"""Kafka's codes of where a value comes from."""

_BROKER: int = ResourceType.BROKER


def describe_configs(image: MetadataImage, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """The configs of the resources asked for."""
    return DescribeConfigsResponse(
        results=tuple(
            _describe(image, resource, with_synonyms=request.include_synonyms)
            for resource in request.resources
        )
    )


def list_configs(
    image: MetadataImage, request: ListConfigsRequest, applied_offset: Offset
) -> ListConfigsResponse:
    """Every dynamic config of one type of resource, or of all for type 0."""
    return ListConfigsResponse(
        error_message=None,
        applied_offset=applied_offset,
        entries=tuple(
            ListConfigsResponseEntry(
                resource_type=entry.resource_type,
                resource_name=entry.resource_name,
                name=entry.name,
                value=None if is_sensitive(entry.resource_type, entry.name) else entry.value,
            )
            for entry in image.configs(request.resource_type or None)
        ),
    )


def is_sensitive(resource_type: int, name: str) -> bool:
    """Whether the value of a config must never be shown."""
    key = topic_key(name) if resource_type == ResourceType.TOPIC else broker_key(name)
    return key is not None and key.is_sensitive


def _describe(
    image: MetadataImage, resource: DescribeConfigsRequestDescribeConfigsResource, *, with_synonyms: bool
) -> DescribeConfigsResponseDescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    complaint = resource_complaint(kind, name)
    if complaint is not None:
        return DescribeConfigsResponseDescribeConfigsResult(
            error_code=complaint[0], error_message=complaint[1], resource_type=kind, resource_name=name
        )
    asked = resource.configuration_keys
    names: Iterable[str] = asked if asked is not None else _names_set(image, name)
    configs = (_describe_one(image, name, config, with_synonyms=with_synonyms) for config in names)
    return DescribeConfigsResponseDescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=kind,
        resource_name=name,
        configs=tuple(config for config in configs if config is not None),
    )


def _names_set(image: MetadataImage, broker: str) -> list[str]:
    names = {name for name, _ in image.configs_of(_BROKER, CLUSTER_DEFAULT)}
    names.update(name for name, _ in image.configs_of(_BROKER, broker))
    return sorted(names)


def _describe_one(
    image: MetadataImage, broker: str, name: str, *, with_synonyms: bool
) -> DescribeConfigsResponseDescribeConfigsResourceResult | None:
    key = broker_key(name)
    candidates = [
        (image.config(_BROKER, broker, name) if broker != CLUSTER_DEFAULT else None, SOURCE_DYNAMIC_BROKER),
        (image.config(_BROKER, CLUSTER_DEFAULT, name), SOURCE_DYNAMIC_CLUSTER),
    ]
    found = [candidate for candidate in candidates if candidate[0] is not None]
    default = None if key is None else key.default
    if key is not None and (default is not None or not found):
        found.append((default, SOURCE_DEFAULT))
    if not found:
        return None
    hidden = key is not None and key.is_sensitive
    shown = [(None if hidden else value, source) for value, source in found]
    value, source = shown[0]
    return DescribeConfigsResponseDescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=key is not None and key.update is Update.FIXED,
        config_source=source,
        is_sensitive=hidden,
        synonyms=_synonyms(name, shown) if with_synonyms else (),
        config_type=ConfigType.UNKNOWN if key is None else key.type,
        documentation=None,
    )


def _synonyms(
    name: str, shown: list[tuple[str | None, int]]
) -> tuple[DescribeConfigsResponseDescribeConfigsSynonym, ...]:
    return tuple(
        DescribeConfigsResponseDescribeConfigsSynonym(name=name, value=value, source=source)
        for value, source in shown
    )
