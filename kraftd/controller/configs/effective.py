"""Which value of a config is in force, where it may be set in several places.

A topic's config is its own; else that of this controller as a broker, of all brokers, or of the controller's
file, each by whichever of its synonyms is set (`log.retention.hours` for `retention.ms`); else Kafka's
default. A broker's config has the same places without the first.

Follows: resolveEffectiveTopicConfig of Kafka's KafkaConfigSchema, and the order of its
ServerTopicConfigSynonyms.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Final, TypeAlias

import msgspec

from kraftd.controller.context import ControllerSettings
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import quoted
from kraftd.errors import ErrorCode, InvariantError
from kraftd.metadata.config_schema import (
    CLUSTER_DEFAULT,
    ConfigKey,
    ResourceType,
    Synonym,
    broker_key,
    topic_key,
    topic_names,
    topic_synonyms,
    whole_number,
)
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.configs import CONFIGS

_INTERNAL: Final = "internal."


class Source(IntEnum):
    """Where a value comes from: Kafka's codes in DescribeConfigs."""

    TOPIC = 1
    BROKER = 2
    CLUSTER = 3
    FILE = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class EffectiveConfig(msgspec.Struct, frozen=True):
    """A config with the value that is in force; None if nothing sets it."""

    name: str
    value: str | None
    source: Source
    is_sensitive: bool


BrokerPlaces: TypeAlias = Sequence[tuple[Source, Callable[[str], str | None]]]
"""Where brokers' configs are set, the place in force first, each with what looks one up."""


def broker_places(image: MetadataImage, settings: ControllerSettings) -> BrokerPlaces:
    """The places that the configs of topics and groups fall back to."""
    configs = image[CONFIGS]
    return (
        (Source.BROKER, partial(configs.get, ResourceType.BROKER, str(settings.node_id))),
        (Source.CLUSTER, partial(configs.get, ResourceType.BROKER, CLUSTER_DEFAULT)),
        (Source.FILE, settings.static_configs.get),
    )


class BrokerConfigs:
    """The configs that brokers' topics fall back to: of this controller, of all brokers, of the file.

    One decision asks for the same ones for each of its topics or groups: what was found is kept.
    """

    def __init__(self, image: MetadataImage, settings: ControllerSettings) -> None:
        self._places = broker_places(image, settings)
        self._of_topics: dict[str, EffectiveConfig] = {}
        self._numbers: dict[str, int] = {}

    def topic_configs(self, own: Mapping[str, str]) -> list[EffectiveConfig]:
        """Every config of a topic that has `own`, by name."""
        return [
            self.topic_config(name, own) for name in topic_names() if name in own or not is_internal(name)
        ]

    def topic_config(self, name: str, own: Mapping[str, str]) -> EffectiveConfig:
        """One config of a topic that has `own`."""
        key = topic_key(name)
        if key is None:
            raise InvariantError(f"Kafka defines no config {name} of topics")
        if name in own:
            return EffectiveConfig(name, own[name], Source.TOPIC, key.is_sensitive)
        found = self._of_topics.get(name)
        if found is None:
            found = self._of_topics[name] = self._of_no_topic(key)
        return found

    def value(self, name: str) -> str:
        """A broker's config that has a default."""
        for value, _ in self._set((Synonym(name),)):
            return value
        key = broker_key(name)
        if key is None or key.default is None:
            raise InvariantError(f"Kafka defines no default of {name}")
        return key.default

    def number(self, name: str) -> int:
        """A broker's config that is a number and has a default."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = number(name, self.value(name))
        return found

    def _of_no_topic(self, key: ConfigKey) -> EffectiveConfig:
        for value, source in self._set(topic_synonyms(key.name)):
            return EffectiveConfig(key.name, value, source, key.is_sensitive)
        return EffectiveConfig(key.name, key.default, Source.DEFAULT, key.is_sensitive)

    def _set(self, synonyms: Sequence[Synonym]) -> Iterator[tuple[str, Source]]:
        """The values that are set under one of these names, the one in force first."""
        for source, value_of in self._places:
            for synonym in synonyms:
                value = value_of(synonym.name)
                if value is not None:
                    yield synonym.convert(value), source


def is_internal(name: str) -> bool:
    """Whether nobody is told of a config unless it is set."""
    return name.startswith(_INTERNAL)


def number(name: str, value: str | None) -> int:
    """The value in force of a config that is a number.

    Raises:
        RefusedError: It is none: a file or an old log holds what could not be set now.
    """
    try:
        return whole_number(value or "")
    except ValueError:
        text = f"The value of {name} that is in force, {quoted(value or '')}, is no whole number."
        raise RefusedError(ErrorCode.INVALID_CONFIG, text) from None
