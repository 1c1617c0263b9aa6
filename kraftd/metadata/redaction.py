"""Which values must not be shown: those of configs that may be passwords, and what a part hides of a record.

A config whose type is not known may hold anything, so its value counts as a secret.

Not here: which fields of a record are secret, which the parts of the image declare; `secrets` asks them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kraftd.metadata.config_schema import (
    ConfigKey,
    ResourceType,
    broker_key,
    client_metrics_key,
    group_key,
    topic_key,
)

REDACTED: Final = "[redacted]"
"""What stands in the place of a secret."""


def redacted(body: Mapping[str, object], fields: Iterable[str]) -> dict[str, object]:
    """The body of a record with some fields hidden, by their names in JSON."""
    return {**body, **dict.fromkeys(fields, REDACTED)}


def is_secret_config(resource_type: int, name: str) -> bool:
    """Whether the value of a config must not be shown."""
    key = _KEYS.get(resource_type, _no_key)(name)
    return key is None or key.is_sensitive


def redacted_config_value(resource_type: int, name: str, value: str) -> str:
    """The value of a config, or what stands in its place where it must not be shown."""
    return REDACTED if is_secret_config(resource_type, name) else value


def _no_key(_name: str) -> ConfigKey | None:
    return None


_KEYS: Final[Mapping[int, Callable[[str], ConfigKey | None]]] = {
    ResourceType.TOPIC: topic_key,
    ResourceType.BROKER: broker_key,
    ResourceType.CLIENT_METRICS: client_metrics_key,
    ResourceType.GROUP: group_key,
}
"""What Kafka knows of a name, by the type of resource."""
