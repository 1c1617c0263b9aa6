"""Which configs a broker can have, and all brokers at once: where each may be set, and the special ones.

A name that no table knows is accepted: plug-ins read their own. A broker needs not be registered: what it
shall have can be set before it starts for the first time.

Follows: Kafka's DynamicBrokerConfig, and the special cases in its ConfigurationControlManager.
Differs: Kafka's controller wants the broker, or a controller, of that id to be registered.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from kraftd.controller.context import Context
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import quoted, text_bytes
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import (
    CLUSTER_DEFAULT,
    MIN_IN_SYNC_REPLICAS,
    ConfigKey,
    ConfigType,
    ResourceType,
    Update,
    broker_key,
    needs_listener_prefix,
    split_list,
)
from kraftd.metadata.feature_levels import CORDONED_LOG_DIRS_SINCE, ELIGIBLE_LEADER_REPLICAS
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.features import FEATURES
from kraftd.protocol.brief import has_control_characters

CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"

TEXT_BYTES_MAX: Final = 32767
"""The longest name or value that a record can hold, as UTF-8."""

_BROKER: Final[int] = ResourceType.BROKER
_BROKER_ID_MAX: Final = (1 << 31) - 1
_BROKER_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def check_broker_name(name: str) -> None:
    """Refuse what is no broker's id, nor the default of all."""
    if name == CLUSTER_DEFAULT or (_BROKER_ID.fullmatch(name) and int(name) <= _BROKER_ID_MAX):
        return
    raise RefusedError(ErrorCode.INVALID_REQUEST, f"{quoted(name)} is not a broker id.")


def check_broker_change(context: Context, resource_name: str, name: str, value: str | None) -> None:
    """Refuse a change of one config of a broker, or of all of them; None removes it."""
    key, special, complaint = _rules_of(name)
    if complaint is not None and not _is_removed(context, resource_name, name, value):
        raise RefusedError(*complaint)
    if value is not None and key is not None:
        _check_value(resource_name, name, value, key)
    if special is not None:
        special(context, resource_name, value)


def _is_removed(context: Context, resource_name: str, name: str, value: str | None) -> bool:
    """Whether a config goes that is there: under whatever name it came in, it can be deleted."""
    return value is None and context.image[CONFIGS].get(_BROKER, resource_name, name) is not None


def _check_value(resource_name: str, name: str, value: str, key: ConfigKey) -> None:
    if key.update is not Update.CLUSTER:
        _check_scope(resource_name, name, key)
    if key.type is not ConfigType.STRING or key.allowed:
        complaint = key.complaint(value)
        if complaint is not None:
            raise _invalid(f"{name} {complaint}.")


def _check_scope(resource_name: str, name: str, key: ConfigKey) -> None:
    if key.update is Update.FIXED:
        raise _invalid(f"{name} cannot be set while a broker runs, only in its own file.")
    if resource_name == CLUSTER_DEFAULT:
        raise _invalid(f"{name} can be set for one broker, not for all of them at once.")
    if needs_listener_prefix(name):
        raise _invalid(f"{name} can be set only for one listener, as listener.name.LISTENER.{name}.")


def _check_min_in_sync_replicas(context: Context, resource_name: str, value: str | None) -> None:
    if not context.image[FEATURES].level(ELIGIBLE_LEADER_REPLICAS):
        return
    if resource_name != CLUSTER_DEFAULT:
        raise _invalid(f"With {ELIGIBLE_LEADER_REPLICAS} on, {MIN_IN_SYNC_REPLICAS} cannot differ by broker.")
    if value is None:
        raise _invalid(
            f"With {ELIGIBLE_LEADER_REPLICAS} on, the cluster's {MIN_IN_SYNC_REPLICAS} cannot be removed."
        )


def _check_cordoned_log_dirs(context: Context, resource_name: str, value: str | None) -> None:
    """A broker that forwards the request has checked that the directories are its own."""
    if value is None:
        return
    if context.image.metadata_version < CORDONED_LOG_DIRS_SINCE:
        raise _invalid(f"{CORDONED_LOG_DIRS} needs metadata.version 4.3-IV0 or newer.")
    if context.client.is_forwarded:
        return
    current = split_list(context.image[CONFIGS].get(_BROKER, resource_name, CORDONED_LOG_DIRS) or "")
    if not set(split_list(value)) <= set(current):
        raise _invalid(
            f"A controller does not know a broker's directories: here {CORDONED_LOG_DIRS} can only shrink."
        )


def is_too_long(text: str) -> bool:
    """Whether no record can hold a name or value."""
    return len(text) > TEXT_BYTES_MAX or text_bytes(text) > TEXT_BYTES_MAX


def _invalid(text: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_CONFIG, text)


_SpecialRule: TypeAlias = Callable[[Context, str, str | None], None]

_Rules: TypeAlias = tuple[ConfigKey | None, _SpecialRule | None, tuple[ErrorCode, str] | None]
"""What Kafka knows of a config, its special rule, and why no config may have this name."""

_USUAL_NAME_LENGTH: Final = 128

_SPECIAL_RULES: Final[Mapping[str, _SpecialRule]] = {
    MIN_IN_SYNC_REPLICAS: _check_min_in_sync_replicas,
    CORDONED_LOG_DIRS: _check_cordoned_log_dirs,
}


def _rules_of(name: str) -> _Rules:
    """The rules of a config, found once for each name of a usual length: clients choose the names."""
    return _usual_rules(name) if len(name) <= _USUAL_NAME_LENGTH else _find_rules(name)


def _find_rules(name: str) -> _Rules:
    return broker_key(name), _SPECIAL_RULES.get(name), _name_complaint(name)


def _name_complaint(name: str) -> tuple[ErrorCode, str] | None:
    if is_too_long(name):
        text = f"The name {quoted(name)} is longer than {TEXT_BYTES_MAX} bytes."
        return ErrorCode.INVALID_REQUEST, text
    if has_control_characters(name):
        return ErrorCode.INVALID_CONFIG, f"The name {quoted(name)} holds a line break or control character."
    return None


_usual_rules = lru_cache(maxsize=1024)(_find_rules)
