"""IncrementalAlterConfigs: the records that it writes, and the rules of names and values of dynamic configs.

Named after Kafka's ConfigurationControlManager, where a reader looks for these rules, and not after its API:
`describe_configs` asks for some of them, too.

Each resource of a request succeeds or fails by itself; those that succeed are written together.

Follows: Kafka's rules for SET, DELETE, APPEND and SUBTRACT, for null values, duplicates and the names that
cannot be set dynamically, or not for all brokers at once. As in Kafka, setting a broker's config to the value
it has writes a record again, and a name that no table knows is accepted: plug-ins read their own.
Differs: a value or name that cannot be set is INVALID_CONFIG, where Kafka's broker says INVALID_REQUEST
(KAFKA-13609); a name with a line break or another control character is refused, and can be deleted where it
is set.
Not here yet: topics; there are none, and the response says so. A broker needs not be registered.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

from kraftd.controller.context import Context
from kraftd.controller.operations import WriteOperation
from kraftd.controller.response_room import OutcomeRoom, quoted
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import (
    CLUSTER_DEFAULT,
    MIN_IN_SYNC_REPLICAS,
    ConfigKey,
    ConfigOperation,
    ConfigType,
    ResourceType,
    Update,
    broker_key,
    needs_listener_prefix,
    split_list,
)
from kraftd.metadata.feature_levels import CORDONED_LOG_DIRS_SINCE, ELIGIBLE_LEADER_REPLICAS
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.features import FEATURES
from kraftd.protocol.brief import has_control_characters
from kraftd.protocol.limits import OPERATION_RECORDS_MAX
from kraftd.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from kraftd.records.messages import ConfigRecord

TEXT_BYTES_MAX = 32767
"""The longest name or value that a record can hold, as UTF-8."""

_WITH_A_VALUE = (ConfigOperation.SET, ConfigOperation.APPEND, ConfigOperation.SUBTRACT)

_TEXT_MAX = 400
"""Characters of a refusal: a value that was refused may be long."""

_TOO_MANY_RESOURCES = "Not appended: one response cannot tell what became of so many resources. Split it."

_TOO_MANY_CONFIGS = f"Not appended: more than {OPERATION_RECORDS_MAX} configs in one request. Split it."

CORDONED_LOG_DIRS = "cordoned.log.dirs"

_BROKER: int = ResourceType.BROKER
_BROKER_ID_MAX = (1 << 31) - 1
_BROKER_ID = re.compile(r"0|[1-9][0-9]{0,9}")


class _RefusedError(Exception):
    """Why one resource of a request fails."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…")
        self.code = code


def incremental_alter_configs(
    image: MetadataImage, request: IncrementalAlterConfigsRequest
) -> tuple[list[ConfigRecord], IncrementalAlterConfigsResponse]:
    """The records that a request leads to, and its response for when they are committed."""
    outcomes = OutcomeRoom([resource.resource_name for resource in request.resources])
    if not outcomes.holds_all:
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_RESOURCES)
    asked = 0
    records: list[ConfigRecord] = []
    responses = []
    repeated = _repeated_resources(request)
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        code, text = ErrorCode.NONE, None
        asked += len(resource.configs)
        if asked > OPERATION_RECORDS_MAX:
            return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_CONFIGS)
        try:
            if (kind, name) in repeated:
                raise _RefusedError(ErrorCode.INVALID_REQUEST, "Each resource may appear only once.")
            check_resource(kind, name)
            records += _changes(image, resource)
        except _RefusedError as refused:
            code, text = refused.code, outcomes.text(str(refused))
        responses.append(
            IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                error_code=code, error_message=text, resource_type=kind, resource_name=name
            )
        )
    return records, IncrementalAlterConfigsResponse(responses=tuple(responses))


def refuse(
    request: IncrementalAlterConfigsRequest, error: ErrorCode, text: str
) -> IncrementalAlterConfigsResponse:
    """The response to a change that did not happen, or may not have, with the error for each resource."""
    outcomes = OutcomeRoom([resource.resource_name for resource in request.resources])
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                error_code=error,
                error_message=outcomes.text(text),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources[: outcomes.count]
        )
    )


def resource_complaint(kind: int, name: str) -> tuple[ErrorCode, str] | None:
    """Why a resource has no configs that could be read or set here, None if it has."""
    try:
        check_resource(kind, name)
    except _RefusedError as refused:
        return refused.code, str(refused)
    return None


def check_resource(kind: int, name: str) -> None:
    """Refuse a resource that has no configs here."""
    if kind == _BROKER:
        if name == CLUSTER_DEFAULT or (_BROKER_ID.fullmatch(name) and int(name) <= _BROKER_ID_MAX):
            return
        raise _RefusedError(ErrorCode.INVALID_REQUEST, f"{quoted(name)} is not a broker id.")
    if kind == ResourceType.TOPIC:
        raise _RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {quoted(name)}.")
    known = kind in ResourceType.__members__.values()
    label = f"{ResourceType(kind).name} ({kind})" if known else str(kind)
    raise _RefusedError(
        ErrorCode.INVALID_REQUEST, f"Configs of resource type {label} are not supported here."
    )


def _repeated_resources(request: IncrementalAlterConfigsRequest) -> set[tuple[int, str]]:
    if len(request.resources) < 2:
        return set()
    seen: set[tuple[int, str]] = set()
    repeated: set[tuple[int, str]] = set()
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        (repeated if key in seen else seen).add(key)
    return repeated


def _changes(
    image: MetadataImage, resource: IncrementalAlterConfigsRequestAlterConfigsResource
) -> list[ConfigRecord]:
    kind, resource_name = resource.resource_type, resource.resource_name
    records = []
    names = set()
    for change in resource.configs:
        name = change.name
        key, special, complaint = _rules_of(name)
        if not name or name in names:
            raise _RefusedError(
                ErrorCode.INVALID_REQUEST,
                f"Config {quoted(name)} appears more than once." if name else "A config has no name.",
            )
        if complaint is not None and not _removes(image, kind, resource_name, change):
            raise _RefusedError(*complaint)
        names.add(name)
        value = _new_value(image, resource_name, change, key)
        if value is not None:
            _check_value(resource_name, name, value, key)
        if special is not None:
            special(image, resource_name, value)
        records.append(ConfigRecord(kind, resource_name, name, value))
    return records


def _removes(
    image: MetadataImage, kind: int, resource_name: str, change: IncrementalAlterConfigsRequestAlterableConfig
) -> bool:
    """Whether a config goes that is there: under whatever name it came in, it can be deleted."""
    return (
        change.config_operation == ConfigOperation.DELETE
        and image[CONFIGS].get(kind, resource_name, change.name) is not None
    )


def _new_value(
    image: MetadataImage,
    resource_name: str,
    change: IncrementalAlterConfigsRequestAlterableConfig,
    key: ConfigKey | None,
) -> str | None:
    operation = change.config_operation
    if operation == ConfigOperation.DELETE:
        return None
    if operation not in _WITH_A_VALUE:
        raise _RefusedError(ErrorCode.INVALID_REQUEST, f"There is no config operation {operation}.")
    if change.value is None:
        raise _RefusedError(
            ErrorCode.INVALID_REQUEST, f"Config {change.name} needs a value; delete it to remove it."
        )
    if operation == ConfigOperation.SET:
        return change.value
    if key is None or not key.is_list:
        verb = "append to" if operation == ConfigOperation.APPEND else "subtract from"
        raise _RefusedError(
            ErrorCode.INVALID_CONFIG, f"Cannot {verb} config {change.name}: it is not a list."
        )
    current = image[CONFIGS].get(_BROKER, resource_name, change.name)
    items = split_list(current if current is not None else key.default or "")
    for item in split_list(change.value):
        if operation == ConfigOperation.APPEND and item not in items:
            items.append(item)
        elif operation == ConfigOperation.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _check_value(resource_name: str, name: str, value: str, key: ConfigKey | None) -> None:
    if _is_too_long(value):
        raise _RefusedError(
            ErrorCode.INVALID_CONFIG, f"The value of {name} is longer than {TEXT_BYTES_MAX} bytes."
        )
    if key is None:
        return
    if key.update is not Update.CLUSTER:
        _check_scope(resource_name, name, key)
    if key.type is not ConfigType.STRING or key.allowed:
        complaint = key.complaint(value)
        if complaint is not None:
            raise _RefusedError(ErrorCode.INVALID_CONFIG, f"{name} {complaint}.")


def _is_too_long(text: str) -> bool:
    if text.isascii() or len(text) > TEXT_BYTES_MAX:
        return len(text) > TEXT_BYTES_MAX
    return len(text.encode()) > TEXT_BYTES_MAX


def _check_scope(resource_name: str, name: str, key: ConfigKey) -> None:
    if key.update is Update.FIXED:
        raise _RefusedError(
            ErrorCode.INVALID_CONFIG, f"{name} cannot be set while a broker runs, only in its own file."
        )
    if resource_name == CLUSTER_DEFAULT:
        raise _RefusedError(
            ErrorCode.INVALID_CONFIG, f"{name} can be set for one broker, not for all of them at once."
        )
    if needs_listener_prefix(name):
        raise _RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"{name} can be set only for one listener, as listener.name.LISTENER.{name}.",
        )


def _check_min_in_sync_replicas(image: MetadataImage, resource_name: str, value: str | None) -> None:
    if not image[FEATURES].level(ELIGIBLE_LEADER_REPLICAS):
        return
    if resource_name != CLUSTER_DEFAULT:
        raise _RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"With {ELIGIBLE_LEADER_REPLICAS} on, {MIN_IN_SYNC_REPLICAS} cannot differ by broker.",
        )
    if value is None:
        raise _RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"With {ELIGIBLE_LEADER_REPLICAS} on, the cluster's {MIN_IN_SYNC_REPLICAS} cannot be removed.",
        )


def _check_cordoned_log_dirs(image: MetadataImage, resource_name: str, value: str | None) -> None:
    if value is None:
        return
    if image.metadata_version < CORDONED_LOG_DIRS_SINCE:
        raise _RefusedError(
            ErrorCode.INVALID_CONFIG, f"{CORDONED_LOG_DIRS} needs metadata.version 4.3-IV0 or newer."
        )
    current = split_list(image[CONFIGS].get(_BROKER, resource_name, CORDONED_LOG_DIRS) or "")
    if not set(split_list(value)) <= set(current):
        raise _RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"A controller does not know a broker's directories: here {CORDONED_LOG_DIRS} can only shrink.",
        )


_SpecialRule: TypeAlias = Callable[[MetadataImage, str, str | None], None]

_Rules: TypeAlias = tuple[ConfigKey | None, _SpecialRule | None, tuple[ErrorCode, str] | None]
"""What Kafka knows of a config, its special rule, and why no config may have this name."""

_USUAL_NAME_LENGTH = 128

_SPECIAL_RULES: dict[str, _SpecialRule] = {
    MIN_IN_SYNC_REPLICAS: _check_min_in_sync_replicas,
    CORDONED_LOG_DIRS: _check_cordoned_log_dirs,
}


def _rules_of(name: str) -> _Rules:
    """The rules of a config, found once for each name of a usual length: clients choose the names."""
    return _usual_rules(name) if len(name) <= _USUAL_NAME_LENGTH else _find_rules(name)


def _find_rules(name: str) -> _Rules:
    return broker_key(name), _SPECIAL_RULES.get(name), _name_complaint(name)


def _name_complaint(name: str) -> tuple[ErrorCode, str] | None:
    if _is_too_long(name):
        text = f"The name {quoted(name)} is longer than {TEXT_BYTES_MAX} bytes."
        return ErrorCode.INVALID_REQUEST, text
    if has_control_characters(name):
        return ErrorCode.INVALID_CONFIG, f"The name {quoted(name)} holds a line break or control character."
    return None


_usual_rules = lru_cache(maxsize=1024)(_find_rules)


def _unless_validated_only(
    context: Context, request: IncrementalAlterConfigsRequest
) -> tuple[Sequence[ConfigRecord], IncrementalAlterConfigsResponse]:
    records, response = incremental_alter_configs(context.image, request)
    return ((), response) if request.validate_only else (records, response)


INCREMENTAL_ALTER_CONFIGS = WriteOperation(IncrementalAlterConfigsRequest, _unless_validated_only, refuse)
