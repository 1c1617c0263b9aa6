"""IncrementalAlterConfigs and AlterConfigs: the records that they write.

Named after Kafka's ConfigurationControlManager, where a reader looks for these rules, and not after its APIs.
What may be set for a type of resource is in `resource_rules`; what is here holds for all of them.

Each resource of a request succeeds or fails by itself; those that succeed are written together. The older
AlterConfigs says what a resource shall have: what it does not name is removed.

Where `min.insync.replicas` changes and eligible leader replicas are kept, they are cleared: a replica was
eligible because with fewer in sync nothing was acknowledged, and what "fewer" means has changed.

Follows: Kafka's rules for SET, DELETE, APPEND and SUBTRACT, for null values, duplicates and the names that
cannot be set dynamically, or not for all brokers at once. As in Kafka, setting a broker's config to the value
it has writes a record again, a topic's does not.
Differs: a value or name that cannot be set is INVALID_CONFIG, where Kafka's broker says INVALID_REQUEST
(KAFKA-13609); a name with a line break or another control character is refused, and can be deleted where it
is set. Items are appended to and subtracted from any list: Kafka does not know those of client metrics. Of
these one request sets so many characters and no more, since their patterns are read.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from kraftd.controller.configs.broker_rules import TEXT_BYTES_MAX, is_too_long
from kraftd.controller.configs.effective import BrokerConfigs
from kraftd.controller.configs.resource_rules import ResourceRules, rules_of
from kraftd.controller.configs.topic_rules import check_topic_configs
from kraftd.controller.context import Context
from kraftd.controller.operations import WriteOperation
from kraftd.controller.partitions.partition_rules import has_elr
from kraftd.controller.policy_checks import check_configs
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import OutcomeRoom, quoted
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import AclOperation, AclResource
from kraftd.metadata.config_schema import (
    MIN_IN_SYNC_REPLICAS,
    ConfigOperation,
    ResourceType,
    split_at_commas,
)
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.protocol.limits import OPERATION_RECORDS_MAX, SUBSCRIPTIONS_LENGTH_MAX
from kraftd.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
    CreateTopicsRequestCreatableTopicConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from kraftd.records.messages import ClearElrRecord, ConfigRecord

_TOPIC: Final[int] = ResourceType.TOPIC
_ALL_TOPICS: Final = ""
_NOTHING: Final[Mapping[str, None]] = {}
_WITH_A_VALUE: Final = (ConfigOperation.SET, ConfigOperation.APPEND, ConfigOperation.SUBTRACT)

_TOO_MANY_RESOURCES: Final = (
    "Not appended: one response cannot tell what became of so many resources. Split it."
)
_TOO_MANY_CONFIGS: Final = (
    f"Not appended: more than {OPERATION_RECORDS_MAX} configs in one request. Split it."
)
_TOO_LONG_SUBSCRIPTIONS: Final = (
    f"One request may set {SUBSCRIPTIONS_LENGTH_MAX} characters of the configs of client metrics. Split it."
)

_Request: TypeAlias = IncrementalAlterConfigsRequest | AlterConfigsRequest
_Records: TypeAlias = list[ConfigRecord | ClearElrRecord]


class _Shared:
    """What the resources of one request have in common. Mutable."""

    __slots__ = ("_brokers", "_context", "_subscriptions_left")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._brokers: BrokerConfigs | None = None
        self._subscriptions_left = SUBSCRIPTIONS_LENGTH_MAX

    @property
    def brokers(self) -> BrokerConfigs:
        """Brokers' configs; made when the first resource asks, since that takes an image."""
        if self._brokers is None:
            self._brokers = BrokerConfigs(self._context.image, self._context.settings)
        return self._brokers

    def take_subscription(self, values: Iterable[str | None]) -> None:
        """Count the configs of a subscription in.

        Raises:
            RefusedError: The request sets too much of them.
        """
        self._subscriptions_left -= sum(len(value) for value in values if value is not None)
        if self._subscriptions_left < 0:
            raise RefusedError(ErrorCode.POLICY_VIOLATION, _TOO_LONG_SUBSCRIPTIONS)


class CreationConfigs(msgspec.Struct, frozen=True):
    """The configs that a topic begins with: their records, and what they are."""

    records: _Records
    values: Mapping[str, str]


def incremental_alter_configs(
    context: Context, request: IncrementalAlterConfigsRequest
) -> tuple[_Records, IncrementalAlterConfigsResponse]:
    """The records that a request leads to, and its response for when they are committed."""
    return _decide(context, request, _changes, refuse_incremental, _incremental_response)


def alter_configs(context: Context, request: AlterConfigsRequest) -> tuple[_Records, AlterConfigsResponse]:
    """The same for a request that says all that each resource shall have."""
    return _decide(context, request, _replacement, refuse, _response)


def set_at_creation(
    context: Context,
    brokers: BrokerConfigs,
    topic: str,
    configs: Sequence[CreateTopicsRequestCreatableTopicConfig],
) -> CreationConfigs:
    """The configs of a topic that is about to be made, beside those of brokers.

    Raises:
        RefusedError: INVALID_CONFIG, if it cannot have them.
    """
    values: dict[str, str] = {}
    for config in configs:
        if config.value is None:
            raise RefusedError(ErrorCode.INVALID_CONFIG, f"Config {quoted(config.name)} needs a value.")
        _check_length(config.name, config.value)
        values[config.name] = config.value
    if values:
        check_topic_configs(brokers, {}, values)
        check_configs(context, _TOPIC, topic, values)
    records = [ConfigRecord(_TOPIC, topic, name, value) for name, value in values.items()]
    return CreationConfigs([*records, *_cleared(context, records)], values)


def refuse_incremental(
    request: IncrementalAlterConfigsRequest, error: ErrorCode, text: str
) -> IncrementalAlterConfigsResponse:
    """The response to a change that did not happen, or may not have, with the error for each resource."""
    return _incremental_response(_refusals(request, error, text))


def refuse(request: AlterConfigsRequest, error: ErrorCode, text: str) -> AlterConfigsResponse:
    """The same for AlterConfigs."""
    return _response(_refusals(request, error, text))


# -- a request


_Outcome: TypeAlias = tuple[ErrorCode, str | None, int, str]
"""Error and text, type and name of a resource: the fields of a response in their order."""


def _decide(
    context: Context,
    request: Any,
    changes: Callable[[Context, _Shared, ResourceRules, Any], list[ConfigRecord]],
    refuse: Callable[[Any, ErrorCode, str], Any],
    respond: Callable[[Sequence[_Outcome]], Any],
) -> tuple[_Records, Any]:
    room = OutcomeRoom([resource.resource_name for resource in request.resources])
    if not room.holds_all:
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_RESOURCES)
    shared = _Shared(context)
    asked = 0
    written: list[ConfigRecord] = []
    outcomes: list[_Outcome] = []
    repeated = _repeated_resources(request)
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        try:
            if (kind, name) in repeated:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "Each resource may appear only once.")
            if kind == ResourceType.BROKER_LOGGER:
                _check_loggers_right(context, request)
            rules = rules_of(kind)
            context.rights.check_config(AclOperation.ALTER_CONFIGS, kind, name)
            if is_too_long(name):
                raise RefusedError(ErrorCode.INVALID_REQUEST, f"The name {quoted(name)} is too long.")
            asked += len(resource.configs)
            if asked > OPERATION_RECORDS_MAX:
                return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_CONFIGS)
            written += changes(context, shared, rules, resource)
        except RefusedError as refused:
            outcomes.append((refused.code, room.text(str(refused)), kind, name))
        else:
            outcomes.append((ErrorCode.NONE, None, kind, name))
    records: _Records = [*written, *_cleared(context, written)]
    if len(records) > OPERATION_RECORDS_MAX:
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_CONFIGS)
    if request.validate_only:
        records = []
    return records, respond(outcomes)


def _check_loggers_right(context: Context, request: _Request) -> None:
    """Refuse who may not change loggers; AlterConfigs refuses them whoever asks, as Kafka's does."""
    if isinstance(request, IncrementalAlterConfigsRequest):
        context.rights.check(AclOperation.ALTER_CONFIGS, AclResource.CLUSTER)


def _repeated_resources(request: _Request) -> set[tuple[int, str]]:
    if len(request.resources) < 2:
        return set()
    seen: set[tuple[int, str]] = set()
    repeated: set[tuple[int, str]] = set()
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        (repeated if key in seen else seen).add(key)
    return repeated


def _refusals(request: _Request, error: ErrorCode, text: str) -> list[_Outcome]:
    room = OutcomeRoom([resource.resource_name for resource in request.resources])
    return [
        (error, room.text(text), resource.resource_type, resource.resource_name)
        for resource in request.resources[: room.count]
    ]


def _incremental_response(outcomes: Sequence[_Outcome]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            IncrementalAlterConfigsResponseAlterConfigsResourceResponse(*outcome) for outcome in outcomes
        )
    )


def _response(outcomes: Sequence[_Outcome]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=tuple(AlterConfigsResponseAlterConfigsResourceResponse(*outcome) for outcome in outcomes)
    )


# -- a resource


def _changes(
    context: Context,
    shared: _Shared,
    rules: ResourceRules,
    resource: IncrementalAlterConfigsRequestAlterConfigsResource,
) -> list[ConfigRecord]:
    """What an IncrementalAlterConfigs writes of one resource."""
    kind, name = resource.resource_type, resource.resource_name
    asked: dict[str, str | None] = {}
    for change in resource.configs:
        _check_config_name(change.name, asked)
        asked[change.name] = _new_value(context, kind, name, change, rules)
    return _written(context, shared, rules, kind, name, asked)


def _replacement(
    context: Context,
    shared: _Shared,
    rules: ResourceRules,
    resource: AlterConfigsRequestAlterConfigsResource,
) -> list[ConfigRecord]:
    """What an AlterConfigs writes of one resource: what it names, and then what it does not name is gone."""
    kind, name = resource.resource_type, resource.resource_name
    asked: dict[str, str | None] = {}
    for config in resource.configs:
        _check_config_name(config.name, asked)
        asked[config.name] = _needed(config.name, config.value)
    not_named = {there: None for there, _ in context.image[CONFIGS].of(kind, name) if there not in asked}
    return _written(context, shared, rules, kind, name, asked, not_named)


def _written(
    context: Context,
    shared: _Shared,
    rules: ResourceRules,
    kind: int,
    resource_name: str,
    asked: Mapping[str, str | None],
    not_named: Mapping[str, None] = _NOTHING,
) -> list[ConfigRecord]:
    """The records of the configs that shall have other values; None is "not set". A policy is not asked about
    what goes because it was `not_named`.
    """
    if kind == ResourceType.CLIENT_METRICS:
        shared.take_subscription(asked.values())
    records = []
    changes = {**asked, **not_named} if not_named else asked
    for name, value in changes.items():
        if value is not None:
            _check_length(name, value)
        if rules.check_change is not None:
            rules.check_change(context, resource_name, name, value)
        # Whoever looks at the image has one made, of what the requests of this turn came to so far (D-39).
        if rules.writes_what_is_there or value != context.image[CONFIGS].get(kind, resource_name, name):
            records.append(ConfigRecord(kind, resource_name, name, value))
    rules.check_name(resource_name)
    if rules.check_configs is not None:
        old = dict(context.image[CONFIGS].of(kind, resource_name))
        new = {name: value for name, value in {**old, **changes}.items() if value is not None}
        rules.check_configs(shared.brokers, old, new)
    if rules.check_exists is not None:
        rules.check_exists(context.image, resource_name)
    altered = {record.name: record.value for record in records if record.name not in not_named}
    check_configs(context, kind, resource_name, altered)
    return records


def _cleared(context: Context, records: Sequence[ConfigRecord]) -> list[ClearElrRecord]:
    """What of eligible leader replicas must go because of what is written."""
    changed = [record for record in records if record.name == MIN_IN_SYNC_REPLICAS]
    if not changed or not has_elr(context.image):
        return []
    return [
        ClearElrRecord(record.resource_name if record.resource_type == _TOPIC else _ALL_TOPICS)
        for record in changed
    ]


# -- a config


def _check_config_name(name: str, before: Mapping[str, str | None]) -> None:
    if not name:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "A config has no name.")
    if name in before:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"Config {quoted(name)} appears more than once.")


def _new_value(
    context: Context,
    kind: int,
    resource_name: str,
    change: IncrementalAlterConfigsRequestAlterableConfig,
    rules: ResourceRules,
) -> str | None:
    operation = change.config_operation
    if operation == ConfigOperation.DELETE:
        return None
    if operation not in _WITH_A_VALUE:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"There is no config operation {operation}.")
    value = _needed(change.name, change.value)
    if operation == ConfigOperation.SET:
        return value
    key = rules.key(change.name)
    if key is None or not key.is_list:
        verb = "append to" if operation == ConfigOperation.APPEND else "subtract from"
        text = f"Cannot {verb} config {quoted(change.name)}: it is not a list."
        raise RefusedError(ErrorCode.INVALID_CONFIG, text)
    current = context.image[CONFIGS].get(kind, resource_name, change.name)
    items = [item for item in split_at_commas(current if current is not None else key.default or "") if item]
    change_items = _appended if operation == ConfigOperation.APPEND else _subtracted
    return ",".join(change_items(items, split_at_commas(value)))


def _appended(items: Sequence[str], others: Sequence[str]) -> list[str]:
    """Some items, and those others that are not there yet."""
    known = set(items)
    return [*items, *(item for item in dict.fromkeys(others) if item not in known)]


def _subtracted(items: Sequence[str], others: Sequence[str]) -> list[str]:
    """Some items without the others: of equal ones the first goes, and one more for each time it is named."""
    left = Counter(others)
    kept = []
    for item in items:
        if left[item]:
            left[item] -= 1
        else:
            kept.append(item)
    return kept


def _needed(name: str, value: str | None) -> str:
    if value is None:
        text = f"Config {quoted(name)} needs a value; delete it to remove it."
        raise RefusedError(ErrorCode.INVALID_REQUEST, text)
    return value


def _check_length(name: str, value: str) -> None:
    if is_too_long(value):
        raise RefusedError(
            ErrorCode.INVALID_CONFIG, f"The value of {quoted(name)} is longer than {TEXT_BYTES_MAX} bytes."
        )


INCREMENTAL_ALTER_CONFIGS: Final = WriteOperation(
    IncrementalAlterConfigsRequest, incremental_alter_configs, refuse_incremental
)
ALTER_CONFIGS: Final = WriteOperation(AlterConfigsRequest, alter_configs, refuse)
