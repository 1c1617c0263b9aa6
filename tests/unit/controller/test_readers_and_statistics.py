"""What the readers of configs tell, and how events are measured."""

import pytest

from kraftd.controller.configs.describe_configs import describe_configs
from kraftd.controller.configs.listing import list_configs
from kraftd.controller.statistics import EventStatistics
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import ConfigType
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    ListConfigsRequest,
)
from kraftd.records.messages import ConfigRecord

JAAS = "listener.name.internal.plain.sasl.jaas.config"
IMAGE = apply_all(
    EMPTY,
    [
        ConfigRecord(4, "", "log.retention.ms", "100"),
        ConfigRecord(4, "", "my.plugin", "x"),
        ConfigRecord(4, "1", "log.retention.ms", "200"),
        ConfigRecord(4, "1", JAAS, "secret"),
        ConfigRecord(2, "t", "retention.ms", "1"),
    ],
    0,
)


def described(broker, *names, kind=4, synonyms=False):
    resource = DescribeConfigsRequestDescribeConfigsResource(kind, broker, tuple(names) or None)
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=synonyms)
    (result,) = describe_configs(IMAGE, request).results
    return result


def values(result):
    return [(config.name, config.value, config.config_source) for config in result.configs]


def test_without_names_what_is_set_is_told():
    assert values(described("")) == [("log.retention.ms", "100", 3), ("my.plugin", None, 3)]
    assert values(described("2")) == values(described(""))


def test_a_brokers_own_value_wins():
    assert values(described("1")) == [
        (JAAS, None, 2),
        ("log.retention.ms", "200", 2),
        ("my.plugin", None, 3),
    ]


def test_with_names_defaults_are_told_too_and_unknown_names_left_out():
    found = described("1", "num.io.threads", "log.retention.hours", "nobody.knows")
    assert values(found) == [("num.io.threads", "8", 5), ("log.retention.hours", "168", 5)]
    assert [config.read_only for config in found.configs] == [False, True]
    assert [config.config_type for config in found.configs] == [ConfigType.INT, ConfigType.INT]


def test_synonyms_list_where_a_value_could_come_from():
    (config,) = described("1", "log.retention.ms", synonyms=True).configs
    assert [(s.value, s.source) for s in config.synonyms] == [("200", 2), ("100", 3)]
    (config,) = described("1", "log.retention.ms").configs
    assert config.synonyms == ()


def test_secrets_are_never_told():
    (config,) = described("1", JAAS, synonyms=True).configs
    assert config.is_sensitive
    assert config.value is None
    assert [s.value for s in config.synonyms] == [None]
    listing = list_configs(IMAGE, ListConfigsRequest(), 5)
    assert [entry.value for entry in listing.entries if entry.name == JAAS] == [None]


def test_a_value_of_a_name_that_kafka_does_not_define_may_be_a_secret_and_is_not_told():
    (config,) = described("1", "my.plugin", synonyms=True).configs
    assert (config.name, config.value, config.config_source) == ("my.plugin", None, 3)
    assert config.is_sensitive
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [("my.plugin", None, 3)]


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (2, "retention.ms", "1"),
        (2, "log.retention.ms", None),
        (4, "log.retention.ms", "1"),
        (4, "my.plugin", None),
        (16, "match", "1"),
        (16, "log.retention.ms", None),
        (32, "consumer.session.timeout.ms", "1"),
        (32, "log.retention.ms", None),
        (64, "log.retention.ms", None),
    ],
)
def test_a_listing_tells_the_values_of_names_that_kafka_defines_for_their_type(kind, name, value):
    image = apply_all(EMPTY, [ConfigRecord(kind, "1", name, "1")], 0)
    (entry,) = list_configs(image, ListConfigsRequest(), 5).entries
    assert (entry.resource_type, entry.name, entry.value) == (kind, name, value)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (2, "t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (4, "x", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_has_no_configs_here_is_refused(kind, name, error):
    result = described(name, kind=kind)
    assert (result.error_code, result.configs) == (error, ())
    assert result.error_message


def test_a_listing_can_be_of_one_type():
    assert [e.resource_name for e in list_configs(IMAGE, ListConfigsRequest(2), 5).entries] == ["t"]


def test_events_are_measured_by_kind():
    statistics = EventStatistics()
    for queue_us in range(100):
        statistics.observe("NoOp", queue_us, 2 * queue_us, 7)
    statistics.observe("Apply", 0, 1_000_000, 8)
    apply, no_op = statistics.statistics()
    assert (apply.kind, apply.count) == ("Apply", 1)
    assert (apply.queue.max_us, apply.processing.p50_us) == (0, 1_000_000)
    assert (no_op.count, no_op.queue.total_us, no_op.processing.max_us) == (100, 4950, 198)
    assert 49 <= no_op.queue.p50_us <= 98
    assert 98 <= no_op.queue.p99_us <= 99
    assert statistics.count == 101


def test_the_slowest_single_events_are_remembered_and_when_they_were():
    statistics = EventStatistics()
    for number in range(50):
        statistics.observe("NoOp", number, number, number)
    statistics.observe("Apply", 0, 95, 77)
    statistics.observe("Apply", 0, 1, 78)
    slowest = [(each.kind, each.queue_us, each.processing_us, each.at_ms) for each in statistics.slowest]
    noops = [("NoOp", number, number, number) for number in (49, 48, 47, 46, 45, 44, 43, 42, 41)]
    assert slowest == [*noops[:2], ("Apply", 0, 95, 77), *noops[2:]]


def test_a_time_beyond_every_bucket_is_still_counted():
    statistics = EventStatistics()
    statistics.observe("NoOp", 1 << 60, 0, 0)
    assert statistics.statistics()[0].queue.max_us == 1 << 60
