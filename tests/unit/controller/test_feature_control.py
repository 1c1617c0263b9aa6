"""Levels of features: who has to support them, what they depend on, and what is lost on the way down."""

import msgspec
import pytest
from contexts import controller_settings

from kraftd.controller.feature_control import UPDATE_FEATURES, update_features
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED,
    metadata_version_name,
)
from kraftd.metadata.parts.features import FEATURES
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesRequestFeatureUpdateKey
from kraftd.records.messages import (
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    RegisterBrokerRecordBrokerFeature,
    RegisterControllerRecord,
    RegisterControllerRecordControllerFeature,
)
from tests.unit.controller.cluster import Cluster

UPGRADE, SAFE, UNSAFE = 1, 2, 3
ALL = {each.name: (each.min_level, each.max_level) for each in SUPPORTED}
BROKER = 4
NO_DOWNGRADE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
    "downgrade."
)
NO_VOTER_CHANGES = (
    "It is for changes of the voters, which kraftd does not have yet; raise the other features by "
    "their names."
)
BEFORE_4_3 = {**ALL, METADATA_VERSION: (7, 29)}


def broker(broker_id, levels=ALL, **fields):
    features = tuple(RegisterBrokerRecordBrokerFeature(name, *levels[name]) for name in levels)
    return RegisterBrokerRecord(broker_id=broker_id, fenced=False, rack=None, features=features, **fields)


def controller(controller_id, levels=ALL):
    features = tuple(RegisterControllerRecordControllerFeature(name, *levels[name]) for name in levels)
    return RegisterControllerRecord(controller_id=controller_id, features=features)


def world(*records, level=30, voters=(1, 2, 3), controllers=(2, 3), **settings):
    cluster = Cluster(brokers=(), level=level)
    known = {"me": controller_settings(1).me, "voter_ids": frozenset(voters)} | settings
    cluster.settings = msgspec.structs.replace(cluster.settings, **known)
    cluster.apply(broker(11), *map(controller, controllers), *records)
    return cluster


def wanted(*updates, validate_only=False):
    return UpdateFeaturesRequest(
        feature_updates=tuple(
            UpdateFeaturesRequestFeatureUpdateKey(
                feature=name, max_version_level=level, upgrade_type=upgrade_type
            )
            for name, level, upgrade_type in updates
        ),
        validate_only=validate_only,
    )


def asked(cluster, *updates, validate_only=False):
    return update_features(cluster.context(2), wanted(*updates, validate_only=validate_only))


def refusal(cluster, *updates):
    """Why a request is refused, without what stands before each reason."""
    records, response = asked(cluster, *updates)
    assert (tuple(records), response.error_code) == ((), ErrorCode.INVALID_UPDATE_VERSION)
    before = "The update failed for all features since the following feature had an error: "
    assert response.error_message.startswith(before)
    return response.error_message.removeprefix(before)


# --- what is written


def test_levels_are_written_in_the_order_of_the_request():
    cluster = world(level=22)
    records, response = asked(cluster, ("group.version", 1, UPGRADE), (METADATA_VERSION, 30, UPGRADE))
    assert records == [FeatureLevelRecord("group.version", 1), FeatureLevelRecord(METADATA_VERSION, 30)]
    assert (response.error_code, response.error_message) == (0, None)
    cluster.apply(*records)
    assert (cluster.image.metadata_version, cluster.image[FEATURES].level("group.version")) == (30, 1)


def test_a_level_that_it_has_is_written_again():
    assert asked(world(), (METADATA_VERSION, 30, UPGRADE))[0] == [FeatureLevelRecord(METADATA_VERSION, 30)]


def test_nothing_is_written_where_it_is_only_checked():
    records, response = asked(world(level=22), (METADATA_VERSION, 30, UPGRADE), validate_only=True)
    assert (tuple(records), response.error_code) == ((), 0)


def test_one_that_fails_keeps_all_from_being_written():
    text = refusal(world(level=22), (METADATA_VERSION, 30, UPGRADE), ("group.version", 7, UPGRADE))
    assert text == (
        "Invalid update version 7 for feature group.version. Local controller 1 only supports versions 0-1"
    )


def test_the_last_counts_of_a_feature_that_is_named_twice():
    records, _ = asked(world(), ("group.version", 0, UPGRADE), ("group.version", 1, UPGRADE))
    assert records == [FeatureLevelRecord("group.version", 1)]


def test_so_does_its_upgrade_type():
    text = refusal(world(), (METADATA_VERSION, 30, UPGRADE), (METADATA_VERSION, 29, SAFE))
    assert text.startswith("Unsupported metadata.version downgrade from 30 to 29. ")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_each_feature_has_its_outcome_until_version_one_if_all_succeed(version):
    request = wanted(
        ("group.version", 1, UPGRADE), ("share.version", 1, UPGRADE), ("group.version", 1, UPGRADE)
    )
    response = update_features(world().context(version), request)[1]
    told = [(each.feature, each.error_code, each.error_message) for each in response.results]
    names = ("group.version", "share.version", "group.version")
    assert told == [(name, ErrorCode.NONE, "NONE") for name in names]
    frame = b"".join(KAFKA.encode_response(version, 1, response))[4:]
    read = KAFKA.read_response(frame).decode((UPDATE_FEATURES.request.API_KEY, version))
    assert len(read.results) == (0 if version == 2 else 3), "version 2 has no place for them"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_refusal_tells_of_no_feature_alone(version):
    request = wanted(("group.version", 7, UPGRADE), ("share.version", 1, UPGRADE))
    response = update_features(world().context(version), request)[1]
    assert (response.error_code, response.results) == (ErrorCode.INVALID_UPDATE_VERSION, ())
    response = UPDATE_FEATURES.refuse(request, ErrorCode.NOT_CONTROLLER, "not here")
    assert (response.error_code, response.error_message) == (ErrorCode.NOT_CONTROLLER, "not here")
    assert response.results == ()


# --- what is refused


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (("group.version", 1, 0), "The controller does not support the given upgrade type."),
        (("group.version", 1, 4), "The controller does not support the given upgrade type."),
        (("group.version", -1, SAFE), "A feature version cannot be less than 0."),
        (("unknown", 1, UPGRADE), "Local controller 1 does not support this feature."),
        (("unknown", 0, UPGRADE), "Feature unknown not found."),
        ((METADATA_VERSION, 31, UPGRADE), "Local controller 1 only supports versions 7-30"),
        ((METADATA_VERSION, 0, SAFE), "Local controller 1 only supports versions 7-30"),
        (("transaction.version", 1, UPGRADE), NO_DOWNGRADE),
        (("group.version", 1, SAFE), "Can't downgrade to a newer version."),
        ((KRAFT_VERSION, 1, UPGRADE), NO_VOTER_CHANGES),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(update, text):
    cluster = world(FeatureLevelRecord("transaction.version", 2))
    assert refusal(cluster, update) == f"Invalid update version {update[1]} for feature {update[0]}. {text}"


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ((broker(12, {"group.version": (0, 1)}),), "Broker 12 does not support this feature."),
        ((broker(12, BEFORE_4_3),), "Broker 12 only supports versions 7-29"),
        ((controller(3, BEFORE_4_3),), "Controller 3 only supports versions 7-29"),
        ((broker(12, {**ALL, METADATA_VERSION: (22, 22)}),), "Broker 12 only supports versions 22"),
    ],
)
def test_every_node_must_support_a_level(records, text):
    refused = refusal(world(*records, level=22), (METADATA_VERSION, 30, UPGRADE))
    assert refused == f"Invalid update version 30 for feature metadata.version. {text}"


def test_a_node_that_lists_no_feature_supports_that_it_is_off():
    cluster = world(broker(12, {METADATA_VERSION: (7, 30)}), FeatureLevelRecord("group.version", 1))
    assert asked(cluster, ("group.version", 0, SAFE))[0] == [FeatureLevelRecord("group.version", 0)]


def test_a_controller_that_has_not_registered_may_not_support_a_level():
    refused = refusal(world(controllers=(2,)), ("group.version", 1, UPGRADE))
    assert refused.endswith("controller 3 has not registered, and may not support this feature")


def test_controllers_are_not_asked_before_they_register():
    """Before 3.7 controllers say nothing of themselves: nobody can know, as in Kafka."""
    cluster = world(level=14, controllers=())
    assert asked(cluster, (METADATA_VERSION, 30, UPGRADE))[0] == [FeatureLevelRecord(METADATA_VERSION, 30)]


def test_what_this_controller_registered_of_itself_does_not_count():
    """It is newer than its registration: what it can do is what this program can do."""
    cluster = world(controller(1, BEFORE_4_3), level=22)
    assert asked(cluster, (METADATA_VERSION, 30, UPGRADE))[0]


# --- metadata.version, down


@pytest.mark.parametrize(
    ("current", "level", "is_lost"),
    [
        (29, 23, False),
        (30, 29, True),
        (23, 22, True),
        (22, 17, False),
        (17, 16, True),
        (13, 12, True),
        (10, 8, False),
    ],
)
def test_metadata_version_goes_down_only_where_nothing_is_lost(current, level, is_lost):
    cluster = world(level=current)
    if not is_lost:
        assert asked(cluster, (METADATA_VERSION, level, SAFE))[0] == [
            FeatureLevelRecord(METADATA_VERSION, level)
        ]
        return
    before = f"Unsupported metadata.version downgrade from {current} to {level}."
    assert refusal(cluster, (METADATA_VERSION, level, SAFE)) == (
        f"{before} Refusing to perform the requested downgrade because it might delete metadata information."
    )
    assert refusal(cluster, (METADATA_VERSION, level, UNSAFE)) == (
        f"{before} Unsafe metadata downgrade is not supported in this version."
    )


# --- eligible leader replicas


def test_eligible_leader_replicas_need_their_metadata_version():
    update = (ELIGIBLE_LEADER_REPLICAS, 1, UPGRADE)
    assert metadata_version_name(23) == "4.0-IV1"
    refused = refusal(world(level=22), update)
    assert refused == (
        f"Invalid update version 1 for feature {ELIGIBLE_LEADER_REPLICAS}. {ELIGIBLE_LEADER_REPLICAS} could "
        "not be set to 1 because it depends on metadata.version level 23"
    )
    records, _ = asked(world(level=22), update, (METADATA_VERSION, 23, UPGRADE))
    assert records[-2:] == [
        FeatureLevelRecord(ELIGIBLE_LEADER_REPLICAS, 1),
        FeatureLevelRecord(METADATA_VERSION, 23),
    ]


def test_with_eligible_leader_replicas_the_minimum_in_sync_is_one_value():
    cluster = world(
        ConfigRecord(BROKER, "12", "min.insync.replicas", "3"),
        ConfigRecord(BROKER, "11", "min.insync.replicas", "2"),
        ConfigRecord(BROKER, "13", "log.retention.ms", "1"),
        min_insync_replicas=2,
    )
    records, _ = asked(cluster, (ELIGIBLE_LEADER_REPLICAS, 1, UPGRADE))
    assert records == [
        ConfigRecord(BROKER, "", "min.insync.replicas", "2"),
        ConfigRecord(BROKER, "11", "min.insync.replicas", None),
        ConfigRecord(BROKER, "12", "min.insync.replicas", None),
        FeatureLevelRecord(ELIGIBLE_LEADER_REPLICAS, 1),
    ]


def test_the_clusters_own_minimum_in_sync_stays():
    cluster = world(ConfigRecord(BROKER, "", "min.insync.replicas", "3"))
    records, _ = asked(cluster, (ELIGIBLE_LEADER_REPLICAS, 1, UPGRADE))
    assert records == [FeatureLevelRecord(ELIGIBLE_LEADER_REPLICAS, 1)]


def test_turning_them_off_changes_no_config():
    cluster = world(FeatureLevelRecord(ELIGIBLE_LEADER_REPLICAS, 1))
    assert asked(cluster, (ELIGIBLE_LEADER_REPLICAS, 0, SAFE))[0] == [
        FeatureLevelRecord(ELIGIBLE_LEADER_REPLICAS, 0)
    ]


# --- kraft.version


def test_kraft_version_may_be_asked_for_at_the_level_that_it_has():
    assert asked(world(), (KRAFT_VERSION, 0, UPGRADE))[0] == [NoOpRecord()]
    assert asked(world(), (KRAFT_VERSION, 0, SAFE))[0] == []
