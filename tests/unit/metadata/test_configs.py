"""The tables of config names, and what values they take."""

import pytest

from kraftd.metadata import config_table
from kraftd.metadata.config_schema import (
    ConfigType,
    Update,
    broker_key,
    needs_listener_prefix,
    split_list,
    topic_key,
)
from kraftd.metadata.feature_levels import SUPPORTED, bootstrap_records, metadata_version_name


def test_the_tables_hold_what_kafka_defines():
    assert len(config_table.BROKER.splitlines()) == 363
    assert len(config_table.TOPIC.splitlines()) == 34
    key = broker_key("log.retention.bytes")
    assert (key.type, key.default, key.update) == (ConfigType.LONG, "-1", Update.CLUSTER)
    assert topic_key("cleanup.policy").is_list
    assert topic_key("log.retention.bytes") is None
    assert broker_key("nobody.knows.this") is None


def test_what_can_be_set_where_is_known():
    assert broker_key("node.id").update is Update.FIXED
    assert broker_key("listeners").update is Update.BROKER
    assert broker_key("num.io.threads").update is Update.CLUSTER


@pytest.mark.parametrize(
    ("key_of", "table"),
    [(broker_key, config_table.BROKER), (topic_key, config_table.TOPIC)],
    ids=["broker", "topic"],
)
def test_every_default_is_a_value_that_the_name_takes(key_of, table):
    case_blind = {"group.consumer.migration.policy"}
    for name in (line.split("|")[0] for line in table.splitlines()):
        key = key_of(name)
        if key.default is not None and name not in case_blind:
            assert key.complaint(key.default) is None, name


def test_a_listener_prefix_names_the_config_of_one_listener():
    assert broker_key("listener.name.internal.ssl.keystore.password").is_sensitive
    assert broker_key("listener.name.internal.scram-sha-512.sasl.jaas.config").type is ConfigType.PASSWORD
    assert broker_key("listener.name.internal.nobody.knows") is None
    assert broker_key("listener.name.") is None
    assert needs_listener_prefix("ssl.keystore.password")
    assert not needs_listener_prefix("sasl.jaas.config")


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("num.io.threads", "8", None),
        ("num.io.threads", " 8 ", None),
        ("num.io.threads", "+8", None),
        ("num.io.threads", "0", "at least 1"),
        ("num.io.threads", "x", "whole number"),
        ("num.io.threads", "", "whole number"),
        ("num.io.threads", "1_0", "whole number"),
        ("num.io.threads", "\u0663", None),
        ("num.io.threads", "\U0001d7db", "whole number"),
        ("num.io.threads", "2147483648", "32 bits"),
        ("log.retention.ms", "9223372036854775807", None),
        ("log.retention.ms", "9223372036854775808", "64 bits"),
        ("log.retention.ms", "9" * 5000, "whole number"),
        ("compression.zstd.level", "23", "at most 22"),
        ("compression.gzip.level", "0", "one of"),
        ("compression.gzip.level", "-1", None),
        ("compression.type", "zip", "one of"),
        ("log.cleanup.policy", "compact, delete", None),
        ("log.cleanup.policy", "compact,shred", "shred"),
        ("log.cleaner.min.cleanable.ratio", "0.25", None),
        ("log.cleaner.min.cleanable.ratio", "1e-2", None),
        ("log.cleaner.min.cleanable.ratio", "1.5", "at most 1"),
        ("log.cleaner.min.cleanable.ratio", "half", "a number"),
        ("log.cleaner.min.cleanable.ratio", "nan", "a number"),
        ("log.preallocate", "TRUE", None),
        ("log.preallocate", "yes", "true or false"),
        ("metric.reporters", "a.B,c.D", None),
    ],
)
def test_values_are_checked_by_type(name, value, complaint):
    found = broker_key(name).complaint(value)
    assert found is None if complaint is None else complaint in found


def test_large_bounds_are_printed_whole():
    assert "at least 1048576" in broker_key("log.segment.bytes").complaint("1")


def test_lists_are_split_as_people_write_them():
    assert split_list(" a, b ,c") == ["a", "b", "c"]
    assert split_list("  ") == []


def test_a_new_cluster_starts_at_the_newest_levels():
    assert [(record.name, record.feature_level) for record in bootstrap_records()] == [
        ("metadata.version", 30),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("share.version", 1),
        ("streams.version", 1),
        ("transaction.version", 2),
    ]
    assert {feature.name for feature in SUPPORTED} >= {record.name for record in bootstrap_records()}


def test_levels_of_metadata_version_have_names():
    assert metadata_version_name(30) == "4.3-IV0"
    assert metadata_version_name(7) == "3.3-IV3"
    assert metadata_version_name(99) == "99"
