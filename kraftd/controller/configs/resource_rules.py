"""What may be set for each type of resource: its rules, by the number of the type.

Follows: Kafka's ControllerConfigurationValidator, and the existence checks of its QuorumController.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kraftd.controller.configs.broker_rules import check_broker_change, check_broker_name
from kraftd.controller.configs.client_metrics_rules import (
    check_client_metrics_configs,
    check_subscription_name,
)
from kraftd.controller.configs.effective import BrokerConfigs
from kraftd.controller.configs.group_rules import check_group_configs, check_group_name
from kraftd.controller.configs.topic_rules import check_topic_configs
from kraftd.controller.context import Context
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import quoted
from kraftd.controller.topics.names import check_name
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import (
    ConfigKey,
    ResourceType,
    broker_key,
    client_metrics_key,
    group_key,
    topic_key,
)
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.topics import TOPICS


class ResourceRules(msgspec.Struct, frozen=True):
    """The rules of one type of resource. Each refuses by a `RefusedError`."""

    key: Callable[[str], ConfigKey | None]
    """What Kafka knows of a config."""
    check_name: Callable[[str], None]
    """What cannot be the name of such a resource is refused."""
    check_exists: Callable[[MetadataImage, str], None] | None = None
    """A resource that is not there is refused; None if it needs not be there."""
    check_change: Callable[[Context, str, str, str | None], None] | None = None
    """A change of one config is refused, by the names of the resource and of the config; None removes it."""
    check_configs: Callable[[BrokerConfigs, Mapping[str, str], Mapping[str, str]], None] | None = None
    """All configs of a resource, as they are and as they would be, are refused."""
    writes_what_is_there: bool = False
    """A config is written even if it has the value already."""


def rules_of(kind: int) -> ResourceRules:
    """The rules of a type of resource.

    Raises:
        RefusedError: There are no configs of that type here.
    """
    rules = _RULES.get(kind)
    if rules is not None:
        return rules
    if kind in ResourceType.__members__.values():
        text = f"Configs of resource type {ResourceType(kind).name} ({kind}) are not supported here."
        raise RefusedError(ErrorCode.INVALID_REQUEST, text)
    raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, f"There is no resource type {kind}.")


def check_resource(image: MetadataImage, kind: int, name: str) -> None:
    """Refuse a resource that has no configs to be read. A topic without a name is, to Kafka, a wrong name
    here, and a wrong request where configs are to be set.
    """
    rules = rules_of(kind)
    (check_name if kind == ResourceType.TOPIC else rules.check_name)(name)
    if rules.check_exists is not None:
        rules.check_exists(image, name)


def check_topic_exists(image: MetadataImage, name: str) -> None:
    """Refuse a topic that is not there."""
    if image[TOPICS].id_of(name) is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {quoted(name)}.")


def _check_topic_name(name: str) -> None:
    if not name:
        text = "A topic has a name; what holds for all topics is set for all brokers."
        raise RefusedError(ErrorCode.INVALID_REQUEST, text)
    check_name(name)


_RULES: Final[Mapping[int, ResourceRules]] = {
    ResourceType.TOPIC: ResourceRules(
        topic_key, _check_topic_name, check_topic_exists, check_configs=check_topic_configs
    ),
    ResourceType.BROKER: ResourceRules(
        # Also where nothing changes: it makes a broker read its key and trust stores again.
        broker_key,
        check_broker_name,
        check_change=check_broker_change,
        writes_what_is_there=True,
    ),
    ResourceType.CLIENT_METRICS: ResourceRules(
        client_metrics_key, check_subscription_name, check_configs=check_client_metrics_configs
    ),
    ResourceType.GROUP: ResourceRules(group_key, check_group_name, check_configs=check_group_configs),
}
