"""What must not be shown of a record: keys of SCRAM credentials, and values of configs that may be passwords.

Every output that tells what is in a log goes through `shown`, unless whoever asks says that secrets may be
seen. A config whose type is not known may hold anything, so its value counts as a secret; and so does the
body of a record that cannot be read here. The HMACs of delegation tokens are in no record.

Follows: Kafka's metadata shell, which leaves out the same.
Differs: Kafka's dump of a log leaves nothing out.
"""

from collections.abc import Callable, Mapping
from typing import Final

from kraftd.metadata.config_schema import (
    ConfigKey,
    ResourceType,
    broker_key,
    client_metrics_key,
    group_key,
    topic_key,
)
from kraftd.records.frame import AnyRecord, RawRecord, to_json
from kraftd.records.messages import ConfigRecord, UserScramCredentialRecord

REDACTED: Final = "[redacted]"
"""What stands in the place of a secret."""


def shown(record: AnyRecord, version: int | None = None) -> dict[str, object]:
    """A record as Kafka's dump prints it, without its secrets."""
    dump = to_json(record, version)
    hidden = _secrets_of(record)
    return dump if not hidden else dump | {"data": _data(dump) | dict.fromkeys(hidden, REDACTED)}


def holds_secret(record: AnyRecord) -> bool:
    """Whether a record's bytes must not be shown."""
    return bool(_secrets_of(record))


def is_secret_config(resource_type: int, name: str) -> bool:
    """Whether the value of a config must not be shown."""
    key = _KEYS.get(resource_type, _no_key)(name)
    return key is None or key.is_sensitive


def shown_config(resource_type: int, name: str, value: str) -> str:
    """The value of a config as it may be shown."""
    return REDACTED if is_secret_config(resource_type, name) else value


def _secrets_of(record: AnyRecord) -> tuple[str, ...]:
    """The fields of a record that are secret, by their names in JSON."""
    match record:
        case ConfigRecord(resource_type=kind, name=name, value=str()) if is_secret_config(kind, name):
            return ("value",)
        case UserScramCredentialRecord():
            return ("salt", "storedKey", "serverKey")
        case RawRecord():
            return ("raw",)
        case _:
            return ()


def _data(dump: dict[str, object]) -> dict[str, object]:
    data = dump["data"]
    return data if isinstance(data, dict) else {}


def _no_key(_name: str) -> ConfigKey | None:
    return None


_KEYS: Final[Mapping[int, Callable[[str], ConfigKey | None]]] = {
    ResourceType.TOPIC: topic_key,
    ResourceType.BROKER: broker_key,
    ResourceType.CLIENT_METRICS: client_metrics_key,
    ResourceType.GROUP: group_key,
}
"""What Kafka knows of a name, by the type of resource."""
