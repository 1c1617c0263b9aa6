"""Which configs a topic can have: names and values that Kafka defines, and that go together.

They are looked at as they will be, those that stay included: what an older release let in, and Kafka does not
know any more, must go before anything else can change.

Follows: Kafka's LogConfig.validate.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from kraftd.controller.configs.effective import BrokerConfigs, number
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import quoted
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import split_list, topic_key, trimmed

_REMOTE_STORAGE: Final = "remote.log.storage.system.enable"
"""The broker's config without which no topic can be kept elsewhere."""
_LIKE_RETENTION: Final = -2
_UNLIMITED: Final = -1
_THROTTLED: Final = re.compile(r"(?:[0-9]+:[0-9]+)?")


def check_topic_configs(brokers: BrokerConfigs, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Refuse the configs that a topic would have, by INVALID_CONFIG."""
    for name, value in new.items():
        key = topic_key(name)
        if key is None:
            raise _invalid(f"Topics have no config {quoted(name)}.")
        complaint = key.complaint(value)
        if complaint is None and name in _LISTS:
            complaint = _LISTS[name](value)
        if complaint is not None:
            raise _invalid(f"{name} {complaint}.")
    values = _Values(brokers, new)
    shortest, longest = values.number("min.compaction.lag.ms"), values.number("max.compaction.lag.ms")
    if shortest > longest:
        raise _invalid(f"min.compaction.lag.ms ({shortest}) is above max.compaction.lag.ms ({longest}).")
    if values.flag("remote.storage.enable"):
        _check_remote_storage(brokers, values)
    elif _is_true(old.get("remote.storage.enable", "")) and not values.flag("remote.log.delete.on.disable"):
        raise _invalid(
            "remote.storage.enable is switched off together with remote.log.delete.on.disable=true, which "
            "deletes what is stored remotely; remote.log.copy.disable=true keeps it, and stores no more."
        )


class _Values:
    """The values of a topic's configs that are in force."""

    def __init__(self, brokers: BrokerConfigs, own: Mapping[str, str]) -> None:
        self._brokers = brokers
        self._own = own

    def text(self, name: str) -> str:
        return self._brokers.topic_config(name, self._own).value or ""

    def number(self, name: str) -> int:
        return number(name, self.text(name))

    def flag(self, name: str) -> bool:
        return _is_true(self.text(name))


def _check_remote_storage(brokers: BrokerConfigs, values: _Values) -> None:
    if not _is_true(brokers.value(_REMOTE_STORAGE)):
        raise _invalid(f"remote.storage.enable needs {_REMOTE_STORAGE}=true in the files of all nodes.")
    if not {"delete"}.issuperset(split_list(values.text("cleanup.policy"))):
        raise _invalid("remote.storage.enable goes with cleanup.policy=delete only, or with none.")
    for unit in ("bytes", "ms"):
        name, local_name = f"retention.{unit}", f"local.retention.{unit}"
        whole, local = values.number(name), values.number(local_name)
        if local == _LIKE_RETENTION:
            continue
        if whole != _UNLIMITED and (local == _UNLIMITED or local > whole):
            raise _invalid(f"{local_name} ({local}) is above {name} ({whole}).")
        if values.flag("remote.log.copy.disable") and local != whole:
            raise _invalid(f"With remote.log.copy.disable, {local_name} ({local}) must be {name} ({whole}).")


def _no_empty_item(value: str) -> str | None:
    return "holds an empty item" if "" in split_list(value) else None


def _throttled_replicas(value: str) -> str | None:
    items = split_list(value)
    if "".join(items) == "*" or all(_THROTTLED.fullmatch(item) for item in items):
        return None
    return "must be '*', or a list of PARTITION:BROKER"


_LISTS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "cleanup.policy": _no_empty_item,
    "follower.replication.throttled.replicas": _throttled_replicas,
    "leader.replication.throttled.replicas": _throttled_replicas,
}
"""What else is wrong with a list."""


def _is_true(value: str) -> bool:
    return trimmed(value).lower() == "true"


def _invalid(text: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_CONFIG, text)
