"""Which configs a subscription of client metrics can have.

A subscription is its configs: it comes to be with the first, and is gone with the last.

Follows: Kafka's ClientMetricsConfigs.validate, with its error codes.
Differs: the pattern of a match is only read, as far as `java_patterns` does.
"""

from collections.abc import Mapping
from typing import Final

from kraftd.controller.configs.effective import BrokerConfigs
from kraftd.controller.configs.java_patterns import pattern_complaint
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import quoted
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import client_metrics_key, split_list, trimmed, whole_number

_INTERVAL: Final = "interval.ms"
_MATCH: Final = "match"
_INTERVAL_MS_MIN: Final = 100
_INTERVAL_MS_MAX: Final = 3_600_000
_MATCHED: Final = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def check_subscription_name(name: str) -> None:
    """Refuse a subscription without a name."""
    if not name:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "A subscription of client metrics has a name.")


def check_client_metrics_configs(
    _brokers: BrokerConfigs, old: Mapping[str, str], new: Mapping[str, str]
) -> None:
    """Refuse the configs that a subscription would have, by INVALID_REQUEST or INVALID_CONFIG."""
    for name in new:
        if client_metrics_key(name) is None:
            text = f"Subscriptions of client metrics have no config {quoted(name)}."
            raise RefusedError(ErrorCode.INVALID_REQUEST, text)
    for name, value in new.items():
        if complaint := _value_complaint(name, value):
            raise RefusedError(ErrorCode.INVALID_CONFIG, f"{name} {complaint}.")
    interval_ms = whole_number(new[_INTERVAL]) if _INTERVAL in new else _INTERVAL_MS_MIN
    if not _INTERVAL_MS_MIN <= interval_ms <= _INTERVAL_MS_MAX:
        text = f"{_INTERVAL} must be from {_INTERVAL_MS_MIN} to {_INTERVAL_MS_MAX}, not {interval_ms}."
        raise RefusedError(ErrorCode.INVALID_REQUEST, text)
    match = new.get(_MATCH, "")
    if match == old.get(_MATCH):
        return  # many subscriptions may be changed at once, and their patterns be long
    for item in split_list(match):
        if complaint := _match_complaint(item):
            text = f"{_MATCH} must be a list of WHAT=PATTERN, not {quoted(item)}: {complaint}."
            raise RefusedError(ErrorCode.INVALID_CONFIG, text)


def _value_complaint(name: str, value: str) -> str | None:
    key = client_metrics_key(name)
    if key is None or not key.is_list:
        return None if key is None else key.complaint(value)
    return "holds an empty item" if "" in split_list(value) else None


def _match_complaint(item: str) -> str | None:
    """What is wrong with an item that should be a pattern of something that clients tell of themselves."""
    parts = item.rstrip("=").split("=")  # as Java splits: empty parts at the end are none
    if len(parts) != 2:
        return "there must be one = in it, between two texts"
    what, pattern = (trimmed(part) for part in parts)
    if what not in _MATCHED:
        return f"WHAT is one of {', '.join(sorted(_MATCHED))}"
    complaint = pattern_complaint(pattern)
    return complaint and f"the pattern, which brokers read as Java does, {complaint}"
