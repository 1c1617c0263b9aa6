"""No key, no password and nothing that may be one is shown."""

import pytest

from kraftd.metadata.redaction import REDACTED, redacted_config_value
from kraftd.metadata.secrets import redacted_json
from kraftd.protocol.messages import (
    AlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterableConfig,
)
from kraftd.records.frame import RawRecord, to_json
from kraftd.records.messages import ConfigRecord, NoOpRecord, PartitionRecord, UserScramCredentialRecord

BROKER, TOPIC, CLIENT_METRICS, GROUP = 4, 2, 16, 32


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (BROKER, "ssl.key.password"),
        (BROKER, "listener.name.external.ssl.keystore.password"),
        (BROKER, "listener.name.external.scram-sha-256.sasl.jaas.config"),
        (BROKER, "plugin.of.somebody"),
        (BROKER, "retention.ms"),
        (TOPIC, "ssl.key.password"),
        (TOPIC, "log.retention.ms"),
        (GROUP, "retention.ms"),
        (99, "retention.ms"),
    ],
)
def test_values_that_are_passwords_or_may_be_are_not_shown(kind, name):
    record = ConfigRecord(kind, "r", name, "hunter2")
    assert redacted_json(record)["data"] == {
        "resourceType": kind,
        "resourceName": "r",
        "name": name,
        "value": REDACTED,
    }
    assert redacted_config_value(kind, name, "hunter2") == REDACTED
    assert redacted_json(ConfigRecord(kind, "r", name, None))["data"]["value"] is None


@pytest.mark.parametrize(
    "record",
    [
        ConfigRecord(BROKER, "", "log.retention.ms", "5"),
        ConfigRecord(BROKER, "1", "listener.name.external.ssl.keystore.location", "/x"),
        ConfigRecord(TOPIC, "t", "retention.ms", "5"),
        ConfigRecord(GROUP, "g", "share.isolation.level", "read_committed"),
        ConfigRecord(CLIENT_METRICS, "m", "interval.ms", "5"),
        NoOpRecord(),
    ],
)
def test_everything_else_is_shown_as_kafka_prints_it(record):
    assert redacted_json(record) == to_json(record)


def test_a_credential_keeps_its_user_and_its_cost():
    record = UserScramCredentialRecord("alice", 2, b"salt", b"stored", b"server", 4096)
    assert redacted_json(record)["data"] == {
        "name": "alice",
        "mechanism": 2,
        "salt": REDACTED,
        "storedKey": REDACTED,
        "serverKey": REDACTED,
        "iterations": 4096,
    }
    shown = (
        "UserScramCredentialRecord(name='alice', mechanism=2, salt=[redacted], stored_key=[redacted], "
        "server_key=[redacted], iterations=4096, unknown_tags=())"
    )
    assert repr(record) == shown


def test_what_cannot_be_read_may_be_a_secret():
    assert redacted_json(RawRecord(11, 1, b"key"))["data"] == {"raw": REDACTED}
    assert redacted_json(PartitionRecord(), 1)["version"] == 1


@pytest.mark.parametrize(
    "change",
    [
        IncrementalAlterConfigsRequestAlterableConfig("ssl.key.password", 0, "hunter2"),
        AlterConfigsRequestAlterableConfig("ssl.key.password", "hunter2"),
    ],
)
def test_a_request_shows_the_names_of_configs_and_no_values(change):
    assert "name='ssl.key.password'" in repr(change)
    assert "value=[redacted]" in repr(change)
