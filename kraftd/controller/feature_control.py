"""UpdateFeatures: the levels that the whole cluster runs at are raised or lowered, all or none.

A level is written if this controller, every registered broker and every other controller of the quorum can
run at it, and if what it depends on is at its level too, as things will be after the request.
`metadata.version` goes down only past levels that brought no records of their own: nothing that is in the log
would be lost. Where eligible leader replicas are turned on, the cluster gets a `min.insync.replicas` of its
own and brokers lose theirs, in the same append: elections depend on its being one value.

Follows: updateFeatures of Kafka's FeatureControlManager and ConfigurationControlManager, with its texts, and
KIP-1022 for dependencies. Each feature that is named is written, also at the level that it has. The downgrade
flag of version 0 has no meaning, as in Kafka since 4.0.
Differs: `kraft.version` cannot be raised, for voters do not change yet. Features are checked and written in
the order of the request; in Kafka it is that of a hash map.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeAlias

from kraftd.controller.context import Context
from kraftd.controller.operations import Decided, WriteOperation
from kraftd.controller.refused import RefusedError
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import CLUSTER_DEFAULT, MIN_IN_SYNC_REPLICAS, ResourceType
from kraftd.metadata.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS,
    KRAFT_VERSION,
    LEVELS_WITH_NEW_METADATA,
    METADATA_VERSION,
    REGISTER_CONTROLLER_SINCE,
    REQUIRED_METADATA_VERSION,
    SUPPORTED,
)
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.controllers import CONTROLLERS
from kraftd.metadata.parts.features import FEATURES
from kraftd.protocol.messages import (
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdateKey,
    UpdateFeaturesResponse,
    UpdateFeaturesResponseUpdatableFeatureResult,
)
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import ConfigRecord, FeatureLevelRecord, NoOpRecord
from kraftd.types import NodeId

Levels: TypeAlias = Mapping[str, int]
Range: TypeAlias = tuple[int, int]
"""The lowest and the highest level of a feature that a node can run at."""


class UpgradeType(IntEnum):
    """What a change of a level may be; Kafka's numbers."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


_NOT_SUPPORTED: Final[Range] = (0, 0)
_MINE: Final = MappingProxyType({each.name: (each.min_level, each.max_level) for each in SUPPORTED})
_BROKER: Final = int(ResourceType.BROKER)

_NO_VOTER_CHANGES: Final = (
    "It is for changes of the voters, which kraftd does not have yet; raise the other features by "
    "their names."
)
_TEXT_OF_ALL: Final = "The update failed for all features since the following feature had an error: "
_TEXT_OF_EACH: Final = "NONE"
"""What is told of each feature up to version 1: what Kafka calls its having no error."""


def update_features(context: Context, request: UpdateFeaturesRequest) -> Decided:
    """The records of the levels wanted, and the response."""
    updates = _by_feature(request)
    wanted = {name: update.max_version_level for name, update in updates.items()}
    after = {**dict(context.image[FEATURES].items()), **wanted}
    try:
        records = [each for update in updates.values() for each in _records(context, update, after)]
    except RefusedError as error:
        return (), refuse(request, error.code, f"{_TEXT_OF_ALL}{error}")
    response = UpdateFeaturesResponse(error_message=None, results=_results(request))
    if request.validate_only:
        return (), response
    if wanted.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0:
        records = [*_one_min_isr(context), *records]
    return records, response


def refuse(_request: UpdateFeaturesRequest, error: ErrorCode, text: str) -> UpdateFeaturesResponse:
    """The response to a request of which nothing was done, or may not have been: of no feature alone."""
    return UpdateFeaturesResponse(error_code=error, error_message=text)


def _by_feature(request: UpdateFeaturesRequest) -> Mapping[str, UpdateFeaturesRequestFeatureUpdateKey]:
    """What is wanted of each feature; the last counts of one that is named twice."""
    return {update.feature: update for update in request.feature_updates}


def _results(request: UpdateFeaturesRequest) -> tuple[UpdateFeaturesResponseUpdatableFeatureResult, ...]:
    """What is told of each feature, up to version 1, if all have the level that was wanted: as often as it is
    named.
    """
    return tuple(
        UpdateFeaturesResponseUpdatableFeatureResult(feature=update.feature, error_message=_TEXT_OF_EACH)
        for update in request.feature_updates
    )


def _records(
    context: Context, update: UpdateFeaturesRequestFeatureUpdateKey, after: Levels
) -> Sequence[AnyRecord]:
    """What is written for one feature.

    Raises:
        RefusedError: It cannot have that level.
    """
    name, level, upgrade_type = update.feature, update.max_version_level, update.upgrade_type
    complaint = _complaint(context, name, level, upgrade_type)
    if complaint is None and name == KRAFT_VERSION:
        # Its level is no record of the image: in Kafka the response waits for a NoOp behind it.
        if level == 0:
            return [NoOpRecord()] if upgrade_type == UpgradeType.UPGRADE else ()
        complaint = _NO_VOTER_CHANGES
    elif complaint is None and name == METADATA_VERSION:
        _check_metadata_version(context.image.metadata_version, level, upgrade_type)
    elif complaint is None:
        complaint = _lacking(name, level, after)
    if complaint is not None:
        text = f"Invalid update version {level} for feature {name}. {complaint}"
        raise RefusedError(ErrorCode.INVALID_UPDATE_VERSION, text)
    return [FeatureLevelRecord(name=name, feature_level=level)]


def _complaint(context: Context, name: str, level: int, upgrade_type: int) -> str | None:
    """Why a feature cannot go to a level from the one that it has, whatever the feature is."""
    if upgrade_type not in UpgradeType.__members__.values():
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    reason = _reason_not_supported(context, name, level)
    if reason is not None:
        return reason
    current = context.image[FEATURES].level(name)
    if level < current and upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if level > current and upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _reason_not_supported(context: Context, name: str, level: int) -> str | None:
    """Which node cannot run at a level, or may not be able to; None if all can."""
    reasons = (_not_supported(who, level, levels) for who, levels in _nodes(context, name))
    unknown = (
        f"controller {node_id} has not registered, and may not support this feature"
        for node_id in sorted(_unregistered(context))
    )
    return next((reason for reason in chain(reasons, unknown) if reason is not None), None)


def _nodes(context: Context, name: str) -> Iterator[tuple[str, Range]]:
    """Every node that is known, with the levels of a feature that it can run at."""
    me, image = context.settings.node_id, context.image
    yield f"Local controller {me}", _MINE.get(name, _NOT_SUPPORTED)
    for broker in image[BROKERS].values():
        ranges = {
            each.name: (each.min_supported_version, each.max_supported_version) for each in broker.features
        }
        yield f"Broker {broker.broker_id}", ranges.get(name, _NOT_SUPPORTED)
    if image.metadata_version < REGISTER_CONTROLLER_SINCE:
        return
    for controller in image[CONTROLLERS].values():
        if controller.id != me:
            ranges = {feature: (lowest, highest) for feature, lowest, highest in controller.features}
            yield f"Controller {controller.id}", ranges.get(name, _NOT_SUPPORTED)


def _unregistered(context: Context) -> frozenset[NodeId]:
    """The other controllers of the quorum that have not said what they can run at, and could have."""
    if context.image.metadata_version < REGISTER_CONTROLLER_SINCE:
        return frozenset()
    known = {controller.id for controller in context.image[CONTROLLERS].values()}
    return context.settings.voter_ids - known - {context.settings.node_id}


def _not_supported(who: str, level: int, levels: Range) -> str | None:
    lowest, highest = levels
    if lowest <= level <= highest:
        return None
    if highest == 0:
        return f"{who} does not support this feature."
    return f"{who} only supports versions {lowest if lowest == highest else f'{lowest}-{highest}'}"


def _check_metadata_version(current: int, level: int, upgrade_type: int) -> None:
    """Raise `RefusedError` where records would be lost."""
    if not any(level < each <= current for each in LEVELS_WITH_NEW_METADATA):
        return
    why = (
        "Unsafe metadata downgrade is not supported in this version."
        if upgrade_type == UpgradeType.UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    text = f"Unsupported metadata.version downgrade from {current} to {level}. {why}"
    raise RefusedError(ErrorCode.INVALID_UPDATE_VERSION, text)


def _lacking(name: str, level: int, after: Levels) -> str | None:
    """What a level depends on and does not find."""
    if name not in _MINE:
        return f"Feature {name} not found."
    needed = REQUIRED_METADATA_VERSION.get(name, 0) if level else 0
    if after.get(METADATA_VERSION, 0) < needed:
        return f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {needed}"
    return None


def _one_min_isr(context: Context) -> Sequence[ConfigRecord]:
    """What makes `min.insync.replicas` one value, of the cluster."""
    configs = context.image[CONFIGS]
    records = []
    if configs.get(_BROKER, CLUSTER_DEFAULT, MIN_IN_SYNC_REPLICAS) is None:
        value = str(context.settings.min_insync_replicas)
        records.append(ConfigRecord(_BROKER, CLUSTER_DEFAULT, MIN_IN_SYNC_REPLICAS, value))
    for resource in configs.resources(_BROKER):
        name = resource[1]
        if name != CLUSTER_DEFAULT and configs.get(_BROKER, name, MIN_IN_SYNC_REPLICAS) is not None:
            records.append(ConfigRecord(_BROKER, name, MIN_IN_SYNC_REPLICAS, None))
    return records


UPDATE_FEATURES = WriteOperation(UpdateFeaturesRequest, update_features, refuse)
