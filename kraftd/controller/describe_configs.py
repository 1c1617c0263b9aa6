"""DescribeConfigs: the configs of the resources that a request names, from a committed image.

A describe without names tells what is set; one with names also tells the default of a name that is not set.
A broker's value is its own, else that of the cluster default, else Kafka's default. Values of passwords are
never told. The configs in a broker's own file are not known here.

No response grows with the image: a describe of more than one response holds is refused.
"""

from collections.abc import Iterator
from heapq import merge

from kraftd.controller.configuration_control import resource_complaint
from kraftd.controller.operations import ReadOperation
from kraftd.controller.response_room import OutcomeRoom, PageRoom, entry_bytes
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import (
    CLUSTER_DEFAULT,
    ConfigType,
    ResourceType,
    Update,
    broker_key,
)
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseDescribeConfigsResourceResult,
    DescribeConfigsResponseDescribeConfigsResult,
    DescribeConfigsResponseDescribeConfigsSynonym,
)

SOURCE_DYNAMIC_BROKER = 2
SOURCE_DYNAMIC_CLUSTER = 3
SOURCE_DEFAULT = 5
"""Kafka's codes of where a value comes from."""

_BROKER: int = ResourceType.BROKER

_TOO_MUCH = (
    "More than one response holds: describe fewer resources at a time, or fewer configs of one by name. "
    "`kraftctl configs list` shows all that is set."
)


def describe_configs(image: MetadataImage, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """The configs of the resources asked for.

    Where they are more than one response holds, the resource at which that shows and those after it are
    refused: Kafka's schema has no cursor, and no client of Kafka would see that something is missing.
    """
    outcomes = OutcomeRoom([resource.resource_name for resource in request.resources])
    room = PageRoom(is_full=not outcomes.holds_all)
    return DescribeConfigsResponse(
        results=tuple(
            _describe(image, resource, outcomes, room, with_synonyms=request.include_synonyms)
            for resource in request.resources[: outcomes.count]
        )
    )


def _describe(
    image: MetadataImage,
    resource: DescribeConfigsRequestDescribeConfigsResource,
    outcomes: OutcomeRoom,
    room: PageRoom,
    *,
    with_synonyms: bool,
) -> DescribeConfigsResponseDescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    complaint = (ErrorCode.POLICY_VIOLATION, _TOO_MUCH) if room.is_full else resource_complaint(kind, name)
    configs: list[DescribeConfigsResponseDescribeConfigsResourceResult] = []
    asked = resource.configuration_keys
    if complaint is None and asked is not None and not room.count_names(len(asked)):
        complaint = (ErrorCode.POLICY_VIOLATION, _TOO_MUCH)
    if complaint is None:
        names = dict.fromkeys(asked) if asked is not None else _names_set(image, name)
        for config in names:
            found = _describe_one(image, name, config, with_synonyms=with_synonyms)
            if found is None:
                continue
            if not room.add(_bytes_of(found)):
                complaint = (ErrorCode.POLICY_VIOLATION, _TOO_MUCH)
                break
            configs.append(found)
    if complaint is not None:
        return DescribeConfigsResponseDescribeConfigsResult(
            error_code=complaint[0],
            error_message=outcomes.text(complaint[1]),
            resource_type=kind,
            resource_name=name,
        )
    return DescribeConfigsResponseDescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=kind,
        resource_name=name,
        configs=tuple(configs),
    )


def _bytes_of(config: DescribeConfigsResponseDescribeConfigsResourceResult) -> int:
    synonyms = sum(entry_bytes(synonym.name, synonym.value) for synonym in config.synonyms)
    return entry_bytes(config.name, config.value) + synonyms


def _names_set(image: MetadataImage, broker: str) -> Iterator[str]:
    """The names that are set for a broker or for all of them, sorted; looked up lazily."""
    own = image[CONFIGS].of(_BROKER, broker) if broker != CLUSTER_DEFAULT else iter(())
    previous = None
    for name, _ in merge(image[CONFIGS].of(_BROKER, CLUSTER_DEFAULT), own):
        if name != previous:
            yield name
        previous = name


def _describe_one(
    image: MetadataImage, broker: str, name: str, *, with_synonyms: bool
) -> DescribeConfigsResponseDescribeConfigsResourceResult | None:
    key = broker_key(name)
    candidates = [
        (
            image[CONFIGS].get(_BROKER, broker, name) if broker != CLUSTER_DEFAULT else None,
            SOURCE_DYNAMIC_BROKER,
        ),
        (image[CONFIGS].get(_BROKER, CLUSTER_DEFAULT, name), SOURCE_DYNAMIC_CLUSTER),
    ]
    found = [candidate for candidate in candidates if candidate[0] is not None]
    default = None if key is None else key.default
    if key is not None and (default is not None or not found):
        found.append((default, SOURCE_DEFAULT))
    if not found:
        return None
    hidden = key is not None and key.is_sensitive
    visible = [(None if hidden else value, source) for value, source in found]
    value, source = visible[0]
    return DescribeConfigsResponseDescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=key is not None and key.update is Update.FIXED,
        config_source=source,
        is_sensitive=hidden,
        synonyms=_synonyms(name, visible) if with_synonyms else (),
        config_type=ConfigType.UNKNOWN if key is None else key.type,
        documentation=None,
    )


def _synonyms(
    name: str, visible: list[tuple[str | None, int]]
) -> tuple[DescribeConfigsResponseDescribeConfigsSynonym, ...]:
    return tuple(
        DescribeConfigsResponseDescribeConfigsSynonym(name=name, value=value, source=source)
        for value, source in visible
    )


def refuse(request: DescribeConfigsRequest, error: ErrorCode, text: str) -> DescribeConfigsResponse:
    """The response to a describe that could not be read, with the error for each of its resources."""
    outcomes = OutcomeRoom([resource.resource_name for resource in request.resources])
    return DescribeConfigsResponse(
        results=tuple(
            DescribeConfigsResponseDescribeConfigsResult(
                error_code=error,
                error_message=outcomes.text(text),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources[: outcomes.count]
        )
    )


DESCRIBE_CONFIGS = ReadOperation(
    DescribeConfigsRequest, lambda image, _, request: describe_configs(image, request), refuse
)
