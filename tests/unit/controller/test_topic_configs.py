"""What topics, groups and subscriptions of client metrics can be configured to, and what is in force."""

import time

import pytest
from contexts import context_of, controller_settings

from kraftd.controller.configs.client_metrics_rules import check_client_metrics_configs
from kraftd.controller.configs.configuration_control import (
    ALTER_CONFIGS,
    alter_configs,
    incremental_alter_configs,
)
from kraftd.controller.configs.describe_configs import DESCRIBE_CONFIGS
from kraftd.controller.configs.effective import BrokerConfigs, Source
from kraftd.controller.context import ControllerSettings, ReadContext
from kraftd.controller.refused import RefusedError
from kraftd.controller.sessions import BrokerSessions
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import ConfigOperation, broker_key, topic_key, topic_names, topic_synonyms
from kraftd.metadata.image_builder import apply_all
from kraftd.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kraftd.records.messages import ClearElrRecord, ConfigRecord, TopicRecord
from kraftd.types import Now
from tests.unit.controller.topic_worlds import ELR, cluster

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
THERE = TopicRecord("t", b"t" * 16)


def alter(kind, name, *changes, image=None, **context):
    """The records of a request about one resource, and its error."""
    configs = tuple(
        IncrementalAlterConfigsRequestAlterableConfig(config, operation, value)
        for config, operation, value in changes
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(kind, name, configs)
    context = context_of(cluster(THERE) if image is None else image, **context)
    records, response = incremental_alter_configs(context, IncrementalAlterConfigsRequest((resource,)))
    return records, ErrorCode(response.responses[0].error_code)


@pytest.mark.parametrize("name", ["", "..", "gone"])
def test_appending_to_what_is_no_list_is_told_before_what_is_wrong_with_the_topic(name):
    assert alter(TOPIC, name, ("min.insync.replicas", APPEND, "1"))[1] is ErrorCode.INVALID_CONFIG


def test_what_cannot_be_set_for_one_broker_is_told_before_what_is_wrong_with_its_id():
    image = cluster(THERE, ELR)
    outcome = alter(BROKER, "-1", ("min.insync.replicas", SET, "2"), image=image)[1]
    assert outcome is ErrorCode.INVALID_CONFIG


def set_one(kind, name, config, value, **context):
    return alter(kind, name, (config, SET, value), **context)[1]


def replace_all(kind, name, image, **configs):
    resource = AlterConfigsRequestAlterConfigsResource(
        kind,
        name,
        tuple(
            AlterConfigsRequestAlterableConfig(config.replace("_", "."), value)
            for config, value in configs.items()
        ),
    )
    records, response = alter_configs(context_of(image), AlterConfigsRequest((resource,)))
    return records, ErrorCode(response.responses[0].error_code)


@pytest.mark.parametrize(
    ("config", "value", "error"),
    [
        ("retention.ms", "-1", ErrorCode.NONE),
        ("retention.ms", "-2", ErrorCode.INVALID_CONFIG),
        ("retention.ms", "soon", ErrorCode.INVALID_CONFIG),
        ("no.such.config", "1", ErrorCode.INVALID_CONFIG),
        ("cleanup.policy", "compact,delete", ErrorCode.NONE),
        ("cleanup.policy", "", ErrorCode.NONE),
        ("cleanup.policy", "compact,,delete", ErrorCode.INVALID_CONFIG),
        ("cleanup.policy", "shred", ErrorCode.INVALID_CONFIG),
        ("leader.replication.throttled.replicas", "*", ErrorCode.NONE),
        ("leader.replication.throttled.replicas", "0:1,1:2", ErrorCode.NONE),
        ("leader.replication.throttled.replicas", "0-1", ErrorCode.INVALID_CONFIG),
        ("remote.storage.enable", "true", ErrorCode.INVALID_CONFIG),
        ("compression.type", "x" * 40_000, ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_topic_takes_what_kafka_defines(config, value, error):
    assert set_one(TOPIC, "t", config, value) is error


@pytest.mark.parametrize(
    ("config", "value", "error"),
    [
        ("compression.gzip.level", "+1", ErrorCode.NONE),
        ("compression.gzip.level", "09", ErrorCode.NONE),
        ("compression.gzip.level", "-01", ErrorCode.NONE),
        ("compression.gzip.level", "0", ErrorCode.INVALID_CONFIG),
        ("compression.gzip.level", "10", ErrorCode.INVALID_CONFIG),
        ("retention.ms", "0" * 5_000 + "7", ErrorCode.NONE),
        ("retention.ms", "\u0661\u0662", ErrorCode.NONE),
        ("retention.ms", "\U0001d7d9", ErrorCode.INVALID_CONFIG),
        ("retention.ms", "9223372036854775807", ErrorCode.NONE),
        ("retention.ms", "9223372036854775808", ErrorCode.INVALID_CONFIG),
        ("retention.ms", "1" * 5_000, ErrorCode.INVALID_CONFIG),
        ("retention.ms", "1_000", ErrorCode.INVALID_CONFIG),
        ("retention.ms", "+", ErrorCode.INVALID_CONFIG),
        ("retention.ms", "", ErrorCode.INVALID_CONFIG),
        ("min.cleanable.dirty.ratio", "NaN", ErrorCode.NONE),
        ("min.cleanable.dirty.ratio", "1d", ErrorCode.NONE),
        ("min.cleanable.dirty.ratio", "0.5f", ErrorCode.NONE),
        ("min.cleanable.dirty.ratio", "1.D", ErrorCode.NONE),
        ("min.cleanable.dirty.ratio", "0x1p-1", ErrorCode.NONE),
        ("min.cleanable.dirty.ratio", "0X.8P0F", ErrorCode.NONE),
        ("min.cleanable.dirty.ratio", "1e-99999", ErrorCode.NONE),
        ("min.cleanable.dirty.ratio", "-0.0", ErrorCode.NONE),
        ("min.cleanable.dirty.ratio", "0x1p1", ErrorCode.INVALID_CONFIG),
        ("min.cleanable.dirty.ratio", "-0x1p-1", ErrorCode.INVALID_CONFIG),
        ("min.cleanable.dirty.ratio", "0x1p99999", ErrorCode.INVALID_CONFIG),
        ("min.cleanable.dirty.ratio", "Infinity", ErrorCode.INVALID_CONFIG),
        ("min.cleanable.dirty.ratio", "-Infinity", ErrorCode.INVALID_CONFIG),
        ("min.cleanable.dirty.ratio", "nan", ErrorCode.INVALID_CONFIG),
        ("min.cleanable.dirty.ratio", "NaNd", ErrorCode.INVALID_CONFIG),
        ("min.cleanable.dirty.ratio", "0x1", ErrorCode.INVALID_CONFIG),
        ("min.cleanable.dirty.ratio", "\u0660.5", ErrorCode.INVALID_CONFIG),
        ("min.cleanable.dirty.ratio", ".", ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_number_is_what_java_reads(config, value, error):
    """Each as Kafka's controller answers."""
    assert set_one(TOPIC, "t", config, value) is error


@pytest.mark.covers("D-16")
@pytest.mark.parametrize(
    ("kind", "config", "value"),
    [
        (TOPIC, "min.cleanable.dirty.ratio", "1" * 32_000 + "x"),
        (TOPIC, "min.cleanable.dirty.ratio", "1" * 16_000 + "." + "1" * 16_000 + "x"),
        (TOPIC, "min.cleanable.dirty.ratio", "0x" + "1" * 32_000 + "x"),
        (TOPIC, "min.cleanable.dirty.ratio", "1e" + "1" * 32_000 + "x"),
        (TOPIC, "retention.ms", "0" * 32_000 + "x"),
        (GROUP, "share.auto.offset.reset", "by_duration:PT" + "0" * 32_000),
        (GROUP, "share.auto.offset.reset", "by_duration:P" + "0" * 16_000 + "DT" + "0" * 16_000),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_long_number_that_is_none_is_refused_at_once(kind, config, value):
    """The first of them took the lead from a controller, which stood still for half a minute."""
    began = time.perf_counter()
    assert set_one(kind, "t", config, value) is ErrorCode.INVALID_CONFIG
    assert time.perf_counter() - began < 0.1


@pytest.mark.parametrize(
    ("config", "value"),
    [
        ("retention.ms", "\u00a01000"),
        ("segment.bytes", "\u30001048576"),
        ("min.insync.replicas", "1\u2003"),
        ("min.cleanable.dirty.ratio", "\u00a00.5"),
        ("cleanup.policy", "compact\u00a0"),
        ("cleanup.policy", "compact,\u00a0delete"),
        ("compression.type", "gzip\u2028"),
        ("unclean.leader.election.enable", "\x85true"),
        ("message.timestamp.type", "CreateTime\u00a0"),
    ],
)
def test_a_topics_value_has_the_blanks_that_brokers_take_away_and_no_others(config, value):
    """A broker whose Java refuses a topic's config does not start any more."""
    assert set_one(TOPIC, "t", config, value) is ErrorCode.INVALID_CONFIG
    plain = value.strip("\u00a0\u3000\u2003\u2028\x85").replace("\u00a0", "")
    assert set_one(TOPIC, "t", config, f"\x00 \t{plain}\x1f") is ErrorCode.NONE


@pytest.mark.parametrize(
    ("kind", "name", "config"),
    [
        (GROUP, "g", "consumer.session.timeout.ms"),
        (CLIENT_METRICS, "s", "interval.ms"),
        (BROKER, "", "log.retention.ms"),
    ],
)
def test_so_has_that_of_groups_subscriptions_and_brokers(kind, name, config):
    assert set_one(kind, name, config, "\u00a045000") is ErrorCode.INVALID_CONFIG
    assert set_one(kind, name, config, "\x0045000\x01") is ErrorCode.NONE


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        ("by_duration:PT1H30M", True),
        ("by_duration:P106751991167300D", True),
        ("by_duration:P106751991167301D", False),
        ("by_duration:PT9223372036854775807S", True),
        ("by_duration:PT9223372036854775808S", False),
        ("by_duration:PT1M9223372036854775807S", False),
        ("by_duration:P" + "0" * 30 + "1D", True),
        ("by_duration:P" + "9" * 5_000 + "D", False),
    ],
)
def test_a_duration_is_one_that_brokers_can_read(value, is_one):
    expected = ErrorCode.NONE if is_one else ErrorCode.INVALID_CONFIG
    assert set_one(GROUP, "g", "share.auto.offset.reset", value) is expected


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", ErrorCode.INVALID_REQUEST),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_only_a_topic_that_is_there_has_configs(name, error):
    assert set_one(TOPIC, name, "retention.ms", "1") is error


def test_a_topics_config_is_not_written_again():
    image = cluster(THERE, ConfigRecord(TOPIC, "t", "retention.ms", "5"))
    assert alter(TOPIC, "t", ("retention.ms", SET, "5"), image=image) == ([], ErrorCode.NONE)
    assert alter(TOPIC, "t", ("flush.ms", DELETE, None), image=image) == ([], ErrorCode.NONE)
    assert alter(TOPIC, "t", ("retention.ms", DELETE, None), image=image)[0] == [
        ConfigRecord(TOPIC, "t", "retention.ms", None)
    ]


def test_a_topics_list_grows_from_its_own_default():
    assert alter(TOPIC, "t", ("cleanup.policy", APPEND, "compact"))[0] == [
        ConfigRecord(TOPIC, "t", "cleanup.policy", "delete,compact")
    ]
    assert alter(TOPIC, "t", ("retention.ms", APPEND, "1"))[1] is ErrorCode.INVALID_CONFIG


def test_the_shortest_lag_is_not_above_the_longest_wherever_they_are_set():
    shortest, longest = "min.compaction.lag.ms", "max.compaction.lag.ms"
    assert alter(TOPIC, "t", (shortest, SET, "9"), (longest, SET, "8"))[1] is ErrorCode.INVALID_CONFIG
    by_brokers = cluster(THERE, ConfigRecord(BROKER, "", "log.cleaner.max.compaction.lag.ms", "8"))
    assert set_one(TOPIC, "t", shortest, "9", image=by_brokers) is ErrorCode.INVALID_CONFIG
    assert alter(TOPIC, "t", (shortest, SET, "9"), (longest, SET, "9"), image=by_brokers)[1] is ErrorCode.NONE
    by_file = ControllerSettings(static_configs={"log.cleaner.min.compaction.lag.ms": "9"})
    assert set_one(TOPIC, "t", longest, "8", settings=by_file) is ErrorCode.INVALID_CONFIG


def test_what_kafka_does_not_know_any_more_goes_first():
    image = cluster(THERE, ConfigRecord(TOPIC, "t", "message.format.version", "2.0"))
    assert set_one(TOPIC, "t", "retention.ms", "1", image=image) is ErrorCode.INVALID_CONFIG
    gone = ("message.format.version", DELETE, None)
    assert alter(TOPIC, "t", gone, ("retention.ms", SET, "1"), image=image)[1] is ErrorCode.NONE


class TestRemoteStorage:
    on = ControllerSettings(static_configs={"remote.log.storage.system.enable": "true"})
    enabled = cluster(THERE, ConfigRecord(TOPIC, "t", "remote.storage.enable", "true"))

    def test_it_goes_with_deletion_only(self):
        assert set_one(TOPIC, "t", "remote.storage.enable", "true", settings=self.on) is ErrorCode.NONE
        policy = ("cleanup.policy", SET, "compact")
        enable = ("remote.storage.enable", SET, "true")
        assert alter(TOPIC, "t", enable, policy, settings=self.on)[1] is ErrorCode.INVALID_CONFIG

    @pytest.mark.parametrize(
        ("local", "error"),
        [
            ("-2", ErrorCode.NONE),
            ("5", ErrorCode.NONE),
            ("6", ErrorCode.INVALID_CONFIG),
            ("-1", ErrorCode.INVALID_CONFIG),
        ],
    )
    @pytest.mark.parametrize("unit", ["ms", "bytes"])
    def test_no_more_is_kept_locally_than_at_all(self, unit, local, error):
        changes = (f"retention.{unit}", SET, "5"), (f"local.retention.{unit}", SET, local)
        assert alter(TOPIC, "t", *changes, image=self.enabled, settings=self.on)[1] is error

    def test_without_more_copies_everything_kept_is_local(self):
        changes = (
            ("retention.ms", SET, "5"),
            ("local.retention.ms", SET, "4"),
            ("remote.log.copy.disable", SET, "true"),
        )
        assert (
            alter(TOPIC, "t", *changes, image=self.enabled, settings=self.on)[1] is ErrorCode.INVALID_CONFIG
        )

    def test_it_is_switched_off_only_with_what_it_keeps(self):
        off = ("remote.storage.enable", SET, "false")
        assert alter(TOPIC, "t", off, image=self.enabled, settings=self.on)[1] is ErrorCode.INVALID_CONFIG
        both = (off, ("remote.log.delete.on.disable", SET, "true"))
        assert alter(TOPIC, "t", *both, image=self.enabled, settings=self.on)[1] is ErrorCode.NONE


def test_another_minimum_in_sync_clears_who_was_eligible_of_the_topic():
    image = cluster(THERE, ELR)
    records, _ = alter(TOPIC, "t", ("min.insync.replicas", SET, "2"), image=image)
    assert records == [ConfigRecord(TOPIC, "t", "min.insync.replicas", "2"), ClearElrRecord("t")]
    apply_all(image, records, 0)
    assert len(alter(TOPIC, "t", ("min.insync.replicas", SET, "2"))[0]) == 1


@pytest.mark.parametrize(
    ("config", "value", "error"),
    [
        ("consumer.session.timeout.ms", "45000", ErrorCode.NONE),
        ("consumer.session.timeout.ms", "44999", ErrorCode.INVALID_CONFIG),
        ("consumer.session.timeout.ms", "60001", ErrorCode.INVALID_CONFIG),
        ("consumer.session.timeout.ms", "x", ErrorCode.INVALID_CONFIG),
        ("streams.num.standby.replicas", "3", ErrorCode.INVALID_CONFIG),
        ("share.auto.offset.reset", "by_duration:P1DT2H", ErrorCode.NONE),
        ("share.auto.offset.reset", "by_duration:P", ErrorCode.INVALID_CONFIG),
        ("share.auto.offset.reset", "by_duration:-PT1H", ErrorCode.INVALID_CONFIG),
        ("share.auto.offset.reset", "never", ErrorCode.INVALID_CONFIG),
        ("no.such.config", "1", ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_group_stays_within_the_brokers_bounds(config, value, error):
    assert set_one(GROUP, "g", config, value) is error


def test_the_brokers_bounds_of_groups_can_be_set():
    wide = ControllerSettings(static_configs={"group.consumer.min.session.timeout.ms": "20000"})
    assert set_one(GROUP, "g", "consumer.session.timeout.ms", "20000", settings=wide) is ErrorCode.NONE
    close = ControllerSettings(static_configs={"group.consumer.min.session.timeout.ms": "5000"})
    session = ("consumer.session.timeout.ms", SET, "15000")
    heartbeat = ("consumer.heartbeat.interval.ms", SET, "15000")
    assert alter(GROUP, "g", session, heartbeat, settings=close)[1] is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("config", "value", "error"),
    [
        ("interval.ms", "100", ErrorCode.NONE),
        ("interval.ms", "99", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "3600001", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "x", ErrorCode.INVALID_CONFIG),
        ("metrics", "org.apache.kafka.,*", ErrorCode.NONE),
        ("match", "client_id=a.*,client_source_port=1", ErrorCode.NONE),
        ("match", "client_id=[", ErrorCode.INVALID_CONFIG),
        ("match", "who=a", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=" + "(" * 20_000, ErrorCode.INVALID_CONFIG),
        ("match", "client_id=(?i)" + "[a-\uffff]" * 4_000, ErrorCode.NONE),
        ("match", "client_id=a{" + "9" * 5_000 + "}", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=[[a]", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=[[a]]", ErrorCode.NONE),
        ("match", "client_id=(?<n>\\p{L}++)\\h\\Q..\\E[a&&b]", ErrorCode.NONE),
        ("match", "client_id=(?P<n>x)", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=\\\u3000", ErrorCode.NONE),
        ("match", "\u3000client_id=a", ErrorCode.INVALID_CONFIG),
        ("no.such.config", "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_subscription_of_client_metrics_takes_what_kafka_defines(config, value, error):
    assert set_one(CLIENT_METRICS, "s", config, value) is error


@pytest.mark.parametrize(
    ("match", "text"),
    [
        ("client_id", "'client_id': there must be one = in it, between two texts."),
        ("who=a", "'who=a': WHAT is one of client_id, client_instance_id, client_software_name,"),
        ("client_id=a**", "'client_id=a**': the pattern, which brokers read as Java does, has a ?, * or +"),
    ],
)
def test_a_match_that_is_refused_is_told_why(match, text):
    with pytest.raises(RefusedError) as refused:
        check_client_metrics_configs({}, {}, {"match": match})
    assert text in str(refused.value)


def test_the_first_thing_that_is_wrong_with_a_subscription_is_told_in_kafkas_order():
    strange, empty = ("no.such", SET, "1"), ("metrics", SET, "a,,b")
    short, pattern = ("interval.ms", SET, "99"), ("match", SET, "client_id=[")
    assert alter(CLIENT_METRICS, "s", empty, strange)[1] is ErrorCode.INVALID_REQUEST
    assert alter(CLIENT_METRICS, "s", short, empty)[1] is ErrorCode.INVALID_CONFIG
    assert alter(CLIENT_METRICS, "s", pattern, short)[1] is ErrorCode.INVALID_REQUEST


def test_groups_and_subscriptions_have_names():
    assert set_one(GROUP, "", "consumer.session.timeout.ms", "45000") is ErrorCode.INVALID_REQUEST
    assert set_one(CLIENT_METRICS, "", "interval.ms", "100") is ErrorCode.INVALID_REQUEST
    assert set_one(GROUP, "g" * 40_000, "consumer.session.timeout.ms", "45000") is ErrorCode.INVALID_REQUEST


def test_alter_configs_removes_what_it_does_not_name():
    image = cluster(
        THERE, *(ConfigRecord(TOPIC, "t", name, "1") for name in ("retention.ms", "flush.ms", "segment.ms"))
    )
    records, error = replace_all(TOPIC, "t", image, flush_ms="2", segment_ms="1")
    assert error is ErrorCode.NONE
    assert records == [
        ConfigRecord(TOPIC, "t", "flush.ms", "2"),
        ConfigRecord(TOPIC, "t", "retention.ms", None),
    ]
    assert replace_all(TOPIC, "t", image, flush_ms="x") == ([], ErrorCode.INVALID_CONFIG)
    assert replace_all(TOPIC, "t", image, flush_ms=None) == ([], ErrorCode.INVALID_REQUEST)


def test_alter_configs_removes_no_more_than_may_be_removed():
    image = cluster(THERE, ELR, ConfigRecord(BROKER, "", "min.insync.replicas", "2"))
    assert replace_all(BROKER, "", image, log_retention_ms="5") == ([], ErrorCode.INVALID_CONFIG)
    records, _ = replace_all(BROKER, "", image, min_insync_replicas="2")
    assert records == [ConfigRecord(BROKER, "", "min.insync.replicas", "2"), ClearElrRecord("")]


def test_a_refusal_of_alter_configs_names_each_resource():
    asked = AlterConfigsRequest((AlterConfigsRequestAlterConfigsResource(TOPIC, "t"),))
    (told,) = ALTER_CONFIGS.refuse(asked, ErrorCode.NOT_CONTROLLER, "not here").responses
    assert (told.error_code, told.resource_type, told.resource_name) == (41, TOPIC, "t")


def test_a_value_comes_from_the_first_place_that_sets_it_under_any_of_its_names():
    image = cluster(
        ConfigRecord(BROKER, "7", "log.retention.minutes", "2"),
        ConfigRecord(BROKER, "", "log.retention.ms", "3"),
    )
    file = {"log.retention.hours": "1", "log.roll.hours": " 2 ", "log.roll.jitter.hours": "some"}
    brokers = BrokerConfigs(image, controller_settings(7, static_configs=file))

    def found(name, **own):
        config = brokers.topic_config(name, own)
        return config.value, config.source

    assert found("retention.ms", **{"retention.ms": "4"}) == ("4", Source.TOPIC)
    assert found("retention.ms") == ("120000", Source.BROKER)
    assert BrokerConfigs(image, controller_settings(8)).topic_config("retention.ms", {}).value == "3"
    assert found("segment.ms") == ("7200000", Source.FILE)
    assert found("segment.jitter.ms") == ("0", Source.FILE)
    assert found("min.insync.replicas") == ("1", Source.DEFAULT)


def described(kind, name, *keys, image, settings, with_synonyms=False):
    resource = DescribeConfigsRequestDescribeConfigsResource(kind, name, keys or None)
    request = DescribeConfigsRequest((resource,), include_synonyms=with_synonyms)
    context = ReadContext(image, 0, BrokerSessions(9_000), Now(0, 0), settings)
    (result,) = DESCRIBE_CONFIGS.read(context, request).results
    assert result.error_code == 0, result.error_message
    return {each.name: each for each in result.configs}


def test_a_topic_is_described_with_all_its_configs_and_where_they_could_come_from():
    image = cluster(
        THERE,
        ConfigRecord(TOPIC, "t", "retention.ms", "4"),
        ConfigRecord(BROKER, "", "log.retention.ms", "3"),
    )
    file = controller_settings(7, static_configs={"log.retention.hours": "1"})
    told = described(TOPIC, "t", image=image, settings=file, with_synonyms=True)
    assert len(told) == 33
    assert [(each.name, each.value, each.source) for each in told["retention.ms"].synonyms] == [
        ("retention.ms", "4", 1),
        ("log.retention.ms", "3", 3),
        ("log.retention.hours", "1", 4),
        ("log.retention.hours", "168", 5),
    ]
    names = {name: [(each.name, each.value) for each in config.synonyms] for name, config in told.items()}
    assert names["cleanup.policy"] == [("log.cleanup.policy", "delete")]
    assert names["segment.ms"] == [], "it has a default in hours only"
    assert names["remote.storage.enable"] == [], "brokers have no such config"


def test_the_default_of_a_topics_config_is_that_of_the_brokers_config_which_stands_in_for_it():
    for name in topic_names():
        defaults = [
            synonym.convert(key.default)
            for synonym in topic_synonyms(name)
            if (key := broker_key(synonym.name)) is not None and key.default is not None
        ]
        assert defaults[:1] in ([topic_key(name).default], [])


def test_of_the_cluster_default_no_defaults_are_told_beside_what_is_set():
    image = cluster(ConfigRecord(BROKER, "", "background.threads", "9"))
    asked = "background.threads", "log.cleaner.threads"
    told = described(BROKER, "", *asked, image=image, settings=ControllerSettings(), with_synonyms=True)
    assert [(name, each.value, len(each.synonyms)) for name, each in told.items()] == [
        ("background.threads", "9", 1),
        ("log.cleaner.threads", "1", 0),
    ]


def test_a_value_in_another_unit_is_told_in_both():
    file = controller_settings(7, static_configs={"log.retention.hours": "2"})
    retention = described(TOPIC, "t", image=cluster(THERE), settings=file, with_synonyms=True)["retention.ms"]
    assert (retention.value, retention.config_source) == ("7200000", 4)
    assert [(each.name, each.value) for each in retention.synonyms] == [("log.retention.hours", "2")]


def test_who_names_an_empty_list_of_configs_is_told_all():
    resource = DescribeConfigsRequestDescribeConfigsResource(TOPIC, "t", ())
    context = ReadContext(cluster(THERE), 0, BrokerSessions(9_000), Now(0, 0), ControllerSettings())
    (result,) = DESCRIBE_CONFIGS.read(context, DescribeConfigsRequest((resource,))).results
    assert len(result.configs) == 33


@pytest.mark.parametrize("kind", [0, 1, 99])
def test_a_type_of_resource_that_nobody_knows_refuses_the_whole_request(kind):
    resources = [DescribeConfigsRequestDescribeConfigsResource(one, "t", None) for one in (TOPIC, kind)]
    context = ReadContext(cluster(THERE), 0, BrokerSessions(9_000), Now(0, 0), ControllerSettings())
    results = DESCRIBE_CONFIGS.read(context, DescribeConfigsRequest(tuple(resources))).results
    assert [each.error_code for each in results] == [ErrorCode.INVALID_REQUEST] * 2


def test_of_this_controller_what_its_file_sets_is_told():
    image = cluster(ConfigRecord(BROKER, "7", "log.roll.ms", "2"))
    file = controller_settings(7, static_configs={"node.id": "7", "ssl.key.password": "secret"})
    told = described(BROKER, "7", image=image, settings=file)
    assert {name: (each.value, each.config_source) for name, each in told.items()} == {
        "log.roll.ms": ("2", 2),
        "node.id": ("7", 4),
        "ssl.key.password": (None, 4),
    }
    assert list(described(BROKER, "8", image=image, settings=file)) == []


def test_a_group_and_a_subscription_are_described():
    image = cluster(
        ConfigRecord(GROUP, "g", "consumer.session.timeout.ms", "46000"),
        ConfigRecord(CLIENT_METRICS, "s", "interval.ms", "200"),
    )
    group = described(GROUP, "g", image=image, settings=ControllerSettings())
    assert (
        group["consumer.session.timeout.ms"].value,
        group["consumer.session.timeout.ms"].config_source,
    ) == (
        "46000",
        8,
    )
    assert (group["share.isolation.level"].value, group["share.isolation.level"].config_source) == (
        "read_uncommitted",
        5,
    )
    told = described(CLIENT_METRICS, "s", image=image, settings=ControllerSettings())
    assert {name: (each.value, each.config_source) for name, each in told.items()} == {
        "interval.ms": ("200", 7),
        "match": ("", 5),
        "metrics": ("", 5),
    }
    group = described(GROUP, "g", image=image, settings=ControllerSettings(), with_synonyms=True)
    names = {name: [(each.name, each.value) for each in config.synonyms] for name, config in group.items()}
    assert names["consumer.session.timeout.ms"] == [
        ("consumer.session.timeout.ms", "46000"),
        ("group.consumer.session.timeout.ms", "45000"),
    ]
    assert names["share.isolation.level"] == [("share.isolation.level", "read_uncommitted")]
