"""DescribeConfigs: the configs of the resources that a request names, from a committed image.

A describe without names tells all configs of a topic, group or subscription of client metrics, and what is
set of a broker; one with names also tells the default of a name that is not set. Each config comes with the
value in force and, if asked for, with every place that sets it, under the name by which it is set there, the
one in force first. A broker's value is its own, else that of the cluster default, else Kafka's default; of
this controller itself, what its file sets is told, too. What is in other nodes' files is not known here.
Values of passwords are never told, nor those of names that Kafka does not define: they may hold anything.

No response grows with the image: a describe of more than one response holds is refused.

Follows: Kafka's ConfigHelper.
Differs: Kafka's controller describes no broker but itself, and of that all configs, loggers too; of the
cluster default it tells no config by name that is not set.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from typing import Final, NamedTuple, TypeAlias

from kraftd.controller.configs.effective import Source, broker_places, is_internal
from kraftd.controller.configs.resource_rules import check_resource
from kraftd.controller.context import ControllerSettings
from kraftd.controller.operations import SessionReadOperation
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import OutcomeRoom, PageRoom, entry_bytes
from kraftd.controller.rights import Rights
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import AclOperation
from kraftd.metadata.config_schema import (
    CLUSTER_DEFAULT,
    ConfigKey,
    ConfigType,
    ResourceType,
    Synonym,
    Update,
    broker_key,
    client_metrics_key,
    client_metrics_names,
    group_key,
    group_names,
    topic_key,
    topic_names,
    topic_synonyms,
)
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.redaction import is_secret_config
from kraftd.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseDescribeConfigsResourceResult,
    DescribeConfigsResponseDescribeConfigsResult,
    DescribeConfigsResponseDescribeConfigsSynonym,
)

_TOPIC: Final[int] = ResourceType.TOPIC
_BROKER: Final[int] = ResourceType.BROKER
_GROUP: Final[int] = ResourceType.GROUP
_CLIENT_METRICS: Final[int] = ResourceType.CLIENT_METRICS

_NO_FILE: Final = ControllerSettings()

_TOO_MUCH: Final = (
    "More than one response holds: describe fewer resources at a time, or fewer configs of one by name. "
    "`kraftctl configs list` shows all that is set."
)


class _Place(NamedTuple):
    """Where a config is set: under which name, to what, and in which kind of place."""

    name: str
    value: str | None
    source: Source
    in_force: str | None
    """What that means for the config itself, whose unit may be another one."""


class _View(NamedTuple):
    """What is described: the configs of one resource in an image."""

    image: MetadataImage
    settings: ControllerSettings
    kind: int
    resource: str

    def own(self, name: str) -> str | None:
        """What is set for the resource itself."""
        return self.image[CONFIGS].get(self.kind, self.resource, name)

    def by_brokers(self, synonyms: Iterable[Synonym]) -> Iterator[_Place]:
        """Where brokers set a config of a topic or group, the place in force first; at last, their defaults.

        As in Kafka, a default of another unit is told only beside a place of the usual one: `retention.ms`
        has none of its own, and 168 of `log.retention.hours` if brokers set `log.retention.ms`.
        """
        names = tuple(synonyms)
        is_usual = False
        for source, value_of in (*broker_places(self.image, self.settings), _DEFAULTS):
            for synonym in names:
                value = value_of(synonym.name)
                is_usual = is_usual or (value is not None and synonym is names[0])
                if value is not None and (is_usual or source is not Source.DEFAULT):
                    yield _Place(synonym.name, value, source, synonym.convert(value))


def describe_configs(
    image: MetadataImage,
    request: DescribeConfigsRequest,
    settings: ControllerSettings = _NO_FILE,
    rights: Rights | None = None,
) -> DescribeConfigsResponse:
    """The configs of the resources asked for, and which of these whoever asks may read.

    Where they are more than one response holds, the resource at which that shows and those after it are
    refused: Kafka's schema has no cursor, and no client of Kafka would see that something is missing.

    A type of resource that nobody knows makes the whole request one that cannot be read, as in Kafka.
    """
    for resource in request.resources:
        if resource.resource_type not in _KNOWN_TYPES:
            text = f"There is no resource type {resource.resource_type}."
            return refuse(request, ErrorCode.INVALID_REQUEST, text)
    outcomes = OutcomeRoom([resource.resource_name for resource in request.resources])
    room = PageRoom(is_full=not outcomes.holds_all)
    return DescribeConfigsResponse(
        results=tuple(
            _describe(
                image,
                settings,
                resource,
                outcomes,
                room,
                rights,
                with_synonyms=request.include_synonyms,
            )
            for resource in request.resources[: outcomes.count]
        )
    )


def _describe(
    image: MetadataImage,
    settings: ControllerSettings,
    resource: DescribeConfigsRequestDescribeConfigsResource,
    outcomes: OutcomeRoom,
    room: PageRoom,
    rights: Rights | None,
    *,
    with_synonyms: bool,
) -> DescribeConfigsResponseDescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    configs: list[DescribeConfigsResponseDescribeConfigsResourceResult] = []
    code, text = ErrorCode.NONE, None
    try:
        if room.is_full:
            raise RefusedError(ErrorCode.POLICY_VIOLATION, _TOO_MUCH)
        if rights is not None:
            rights.check_config(AclOperation.DESCRIBE_CONFIGS, kind, name)
        check_resource(image, kind, name)
        asked = resource.configuration_keys
        if asked and not room.count_names(len(asked)):
            raise RefusedError(ErrorCode.POLICY_VIOLATION, _TOO_MUCH)
        view, names, places, key_of = _View(image, settings, kind, name), *_TYPES[kind]
        for config in dict.fromkeys(asked) if asked else names(view):
            found = _describe_one(
                config,
                key_of(config),
                list(places(view, config)),
                is_secret=is_secret_config(kind, config),
                with_synonyms=with_synonyms,
            )
            if found is None:
                continue
            if not room.add(_bytes_of(found)):
                raise RefusedError(ErrorCode.POLICY_VIOLATION, _TOO_MUCH)
            configs.append(found)
    except RefusedError as refused:
        code, text = refused.code, outcomes.text(str(refused))
        configs = []
    return DescribeConfigsResponseDescribeConfigsResult(
        error_code=code, error_message=text, resource_type=kind, resource_name=name, configs=tuple(configs)
    )


def _bytes_of(config: DescribeConfigsResponseDescribeConfigsResourceResult) -> int:
    synonyms = sum(entry_bytes(synonym.name, synonym.value) for synonym in config.synonyms)
    return entry_bytes(config.name, config.value) + synonyms


# -- the types of resources


def _names_of_broker(view: _View) -> Iterator[str]:
    """The names that are set for a broker or for all of them, sorted; looked up lazily."""
    configs = view.image[CONFIGS]
    own = configs.of(_BROKER, view.resource) if view.resource != CLUSTER_DEFAULT else iter(())
    of_file = sorted(view.settings.static_configs.items()) if _is_self(view) else ()
    previous = None
    for name, _ in merge(configs.of(_BROKER, CLUSTER_DEFAULT), own, of_file):
        if name != previous:
            yield name
        previous = name


def _places_of_broker(view: _View, name: str) -> Iterator[_Place]:
    if view.resource != CLUSTER_DEFAULT and (own := view.own(name)) is not None:
        yield _at(name, own, Source.BROKER)
    if (of_all := view.image[CONFIGS].get(_BROKER, CLUSTER_DEFAULT, name)) is not None:
        yield _at(name, of_all, Source.CLUSTER)
    if _is_self(view) and (of_file := view.settings.static_configs.get(name)) is not None:
        yield _at(name, of_file, Source.FILE)
    if view.resource != CLUSTER_DEFAULT:
        yield from _own_default(name, broker_key(name))


def _is_self(view: _View) -> bool:
    return view.resource == str(view.settings.node_id)


def _names_of_topic(view: _View) -> Iterator[str]:
    return (name for name in topic_names() if not is_internal(name) or view.own(name) is not None)


def _places_of_topic(view: _View, name: str) -> Iterator[_Place]:
    if (own := view.own(name)) is not None:
        yield _at(name, own, Source.TOPIC)
    yield from view.by_brokers(topic_synonyms(name))


def _places_of_group(view: _View, name: str) -> Iterator[_Place]:
    if (own := view.own(name)) is not None:
        yield _at(name, own, Source.GROUP)
    synonym = f"group.{name}"
    yield from view.by_brokers((Synonym(synonym),))
    if broker_key(synonym) is None:
        yield from _own_default(name, group_key(name))


def _places_of_subscription(view: _View, name: str) -> Iterator[_Place]:
    if (own := view.own(name)) is not None:
        yield _at(name, own, Source.CLIENT_METRICS)


def _at(name: str, value: str | None, source: Source) -> _Place:
    return _Place(name, value, source, value)


def _own_default(name: str, key: ConfigKey | None) -> Iterator[_Place]:
    if key is not None and key.default is not None:
        yield _at(name, key.default, Source.DEFAULT)


def _default_of_broker(name: str) -> str | None:
    key = broker_key(name)
    return None if key is None else key.default


_DEFAULTS: Final = Source.DEFAULT, _default_of_broker
_KNOWN_TYPES: Final = frozenset(ResourceType)


_Type: TypeAlias = tuple[
    Callable[[_View], Iterator[str]],
    Callable[[_View, str], Iterator[_Place]],
    Callable[[str], ConfigKey | None],
]
"""Of a type of resource: which names are told unasked, where one is set, and what Kafka knows of it."""

_TYPES: Final[Mapping[int, _Type]] = {
    _TOPIC: (_names_of_topic, _places_of_topic, topic_key),
    _BROKER: (_names_of_broker, _places_of_broker, broker_key),
    _CLIENT_METRICS: (lambda _: client_metrics_names(), _places_of_subscription, client_metrics_key),
    _GROUP: (lambda _: group_names(), _places_of_group, group_key),
}


# -- one config


def _describe_one(
    name: str, key: ConfigKey | None, places: list[_Place], *, is_secret: bool, with_synonyms: bool
) -> DescribeConfigsResponseDescribeConfigsResourceResult | None:
    """A config with the value in force, None if there is none of that name."""
    if key is None and not places:
        return None
    is_default = not places or places[0].source is Source.DEFAULT
    default = None if key is None else key.default
    value = default if is_default else places[0].in_force
    visible = [place._replace(value=None) for place in places] if is_secret else places
    return DescribeConfigsResponseDescribeConfigsResourceResult(
        name=name,
        value=None if is_secret else value,
        read_only=key is not None and key.update is Update.FIXED,
        config_source=Source.DEFAULT if is_default else places[0].source,
        is_sensitive=is_secret,
        synonyms=_synonyms(visible) if with_synonyms else (),
        config_type=ConfigType.UNKNOWN if key is None else key.type,
        documentation=None,
    )


def _synonyms(places: list[_Place]) -> tuple[DescribeConfigsResponseDescribeConfigsSynonym, ...]:
    return tuple(
        DescribeConfigsResponseDescribeConfigsSynonym(place.name, place.value, place.source)
        for place in places
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


DESCRIBE_CONFIGS = SessionReadOperation(
    DescribeConfigsRequest,
    lambda context, request: describe_configs(context.image, request, context.settings, context.rights),
    refuse,
)
