"""What an IncrementalAlterConfigs leads to, case by case."""

import pytest
from contexts import context_of

from kraftd.controller.configs.configuration_control import incremental_alter_configs
from kraftd.controller.context import Client
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import ConfigOperation
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kraftd.records.frame import decode_record, encode_record
from kraftd.records.messages import ClearElrRecord, ConfigRecord, FeatureLevelRecord

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
BROKER, TOPIC, CLIENT_METRICS = 4, 2, 16


def change(name, value, operation=SET):
    return IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=operation, value=value)


def resource(*changes, kind=BROKER, name=""):
    return IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=changes
    )


def alter(*resources, image=EMPTY):
    return incremental_alter_configs(context_of(image), IncrementalAlterConfigsRequest(resources=resources))


def outcome(*changes, image=EMPTY, kind=BROKER, name=""):
    """The error of a request about one resource, or the values it writes by name."""
    records, response = alter(resource(*changes, kind=kind, name=name), image=image)
    (result,) = response.responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    if result.error_code != ErrorCode.NONE:
        assert records == []
        assert result.error_message
        return ErrorCode(result.error_code)
    assert result.error_message is None
    return {record.name: record.value for record in records}


def holding(**configs):
    return apply_all(
        EMPTY, [ConfigRecord(BROKER, "", name.replace("_", "."), value) for name, value in configs.items()], 0
    )


def test_set_and_delete_write_one_record_each_in_the_order_asked():
    records, _ = alter(resource(change("log.retention.ms", "5"), change("k", None, DELETE), name="3"))
    assert records == [
        ConfigRecord(BROKER, "3", "log.retention.ms", "5"),
        ConfigRecord(BROKER, "3", "k", None),
    ]


def test_a_value_that_is_already_there_is_written_again():
    assert outcome(change("k", "1"), image=holding(k="1")) == {"k": "1"}
    assert outcome(change("never.set", None, DELETE)) == {"never.set": None}


@pytest.mark.parametrize(
    ("operation", "value", "there", "then"),
    [
        (APPEND, "b", "a", "a,b"),
        (APPEND, "a", "a", "a"),
        (APPEND, "b, c", "a", "a,b, c"),
        (APPEND, "b", "a, b", "a, b,b"),
        (APPEND, "b,", "a,,", "a,b"),
        (APPEND, ",", "a", "a"),
        (APPEND, "", "a", "a,"),
        (APPEND, "", ",", ""),
        (APPEND, "a", "", "a"),
        (APPEND, "a", None, "org.apache.kafka.common.metrics.JmxReporter,a"),
        (SUBTRACT, "a", "a,b", "b"),
        (SUBTRACT, "x", "a,b", "a,b"),
        (SUBTRACT, "a,b", "a, b", " b"),
        (SUBTRACT, "a", "a, b", " b"),
        (SUBTRACT, "b", "a, b", "a, b"),
        (SUBTRACT, " b,", "a, b", "a"),
        (SUBTRACT, "", "a,,b", "a,b"),
    ],
)
def test_lists_grow_and_shrink_by_items_with_their_blanks(operation, value, there, then):
    image = holding(metric_reporters=there) if there is not None else EMPTY
    assert outcome(change("metric.reporters", value, operation), image=image) == {"metric.reporters": then}


def test_a_list_that_is_not_set_grows_from_its_default():
    assert outcome(change("log.cleanup.policy", "compact", APPEND)) == {
        "log.cleanup.policy": "delete,compact"
    }


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([change("num.io.threads", "0")], ErrorCode.INVALID_CONFIG),
        ([change("num.io.threads", "many")], ErrorCode.INVALID_CONFIG),
        ([change("num.io.threads", "1", APPEND)], ErrorCode.INVALID_CONFIG),
        ([change("unknown.name", "1", SUBTRACT)], ErrorCode.INVALID_CONFIG),
        ([change("log.cleanup.policy", "shred", APPEND)], ErrorCode.INVALID_CONFIG),
        ([change("log.cleanup.policy", "", APPEND)], ErrorCode.INVALID_CONFIG),
        ([change("node.id", "1")], ErrorCode.INVALID_CONFIG),
        ([change("sasl.jaas.config", "x")], ErrorCode.INVALID_CONFIG),
        ([change("k", "v" * 32768)], ErrorCode.INVALID_CONFIG),
        ([change("k", "ж" * 16384)], ErrorCode.INVALID_CONFIG),
        ([change("n" * 32768, "1")], ErrorCode.INVALID_REQUEST),
        ([change("ж" * 16384, "1")], ErrorCode.INVALID_REQUEST),
        ([change("k", None)], ErrorCode.INVALID_REQUEST),
        ([change("metric.reporters", None, APPEND)], ErrorCode.INVALID_REQUEST),
        ([change("k", "1"), change("k", "2")], ErrorCode.INVALID_REQUEST),
        ([change("", "1")], ErrorCode.INVALID_REQUEST),
        ([change("k", "1", 4)], ErrorCode.INVALID_REQUEST),
        ([change("k", "1", -1)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_is_refused(changes, error):
    assert outcome(*changes) is error


def test_the_longest_value_is_accepted():
    for value in ("v" * 32767, "ж" * 16383):
        records, _ = alter(resource(change("k", value)))
        assert decode_record(encode_record(records[0])).value == value


def test_a_name_that_kafka_does_not_define_is_accepted():
    assert outcome(change("my.plugin.level", "anything")) == {"my.plugin.level": "anything"}


def test_what_cannot_be_set_any_more_can_still_be_removed():
    assert outcome(change("node.id", None, DELETE)) == {"node.id": None}


def test_a_broker_takes_what_the_cluster_default_does_not():
    jaas = "listener.name.internal.scram-sha-256.sasl.jaas.config"
    assert outcome(change(jaas, "x"), name="1") == {jaas: "x"}
    assert outcome(change(jaas, "x")) is ErrorCode.INVALID_CONFIG
    assert outcome(change("ssl.keystore.location", "/k"), name="1") is ErrorCode.INVALID_CONFIG
    per_listener = "listener.name.internal.ssl.keystore.location"
    assert outcome(change(per_listener, "/k"), name="1") == {per_listener: "/k"}


@pytest.mark.parametrize("name", ["one", "-1", "01", "1 ", "2147483648", "\u0661"])
def test_a_broker_has_an_id(name):
    assert outcome(change("k", "1"), name=name) is ErrorCode.INVALID_REQUEST


def test_a_topic_that_is_not_there_has_no_configs():
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outcome(change("retention.ms", "1"), kind=TOPIC, name="t") is unknown


@pytest.mark.parametrize("kind", [0, 1, 99])
def test_there_are_no_other_types_of_resources(kind):
    assert outcome(change("k", "1"), kind=kind, name="x") is ErrorCode.UNSUPPORTED_VERSION


def test_the_levels_of_loggers_are_not_kept():
    assert outcome(change("k", "INFO"), kind=8, name="1") is ErrorCode.INVALID_REQUEST


def test_resources_succeed_and_fail_by_themselves():
    records, response = alter(
        resource(change("k", "1"), name="1"),
        resource(change("k", "1"), change("num.io.threads", "0"), name="2"),
        resource(change("k", "1"), name="3"),
    )
    assert [record.resource_name for record in records] == ["1", "3"]
    assert [result.error_code for result in response.responses] == [0, ErrorCode.INVALID_CONFIG, 0]


def test_a_resource_that_appears_twice_fails_both_times():
    records, response = alter(
        resource(change("k", "1"), name="1"),
        resource(change("k", "2"), name="1"),
        resource(change("k", "3"), name="2"),
    )
    assert [record.value for record in records] == ["3"]
    invalid = ErrorCode.INVALID_REQUEST
    assert [result.error_code for result in response.responses] == [invalid, invalid, 0]


def test_two_appends_to_one_list_under_one_resource_named_twice_are_both_refused():
    """Each is decided on the image before the request: were both written, the second would undo the first."""
    reporters = [resource(change("metric.reporters", name, APPEND), name="1") for name in ("a", "b")]
    records, response = alter(*reporters)
    assert records == []
    assert [result.error_code for result in response.responses] == [ErrorCode.INVALID_REQUEST] * 2


def test_a_request_sets_so_much_of_subscriptions_and_no_more():
    """Reading thirty lists of hostile patterns would cost the lead."""
    long = ",".join(["client_id=" + "[a-z]" * 500] * 12)

    def subscription(name):
        return resource(change("match", long), kind=CLIENT_METRICS, name=name)

    records, response = alter(*map(subscription, "abc"))
    assert [record.resource_name for record in records] == ["a", "b"]
    assert [each.error_code for each in response.responses] == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert "Split it" in response.responses[2].error_message


def test_items_are_appended_once_and_subtracted_one_by_one():
    there = holding(metric_reporters="a,b,a,c")
    appended = outcome(change("metric.reporters", "c,d,d", APPEND), image=there)
    assert appended == {"metric.reporters": "a,b,a,c,d"}
    subtracted = outcome(change("metric.reporters", "a,x,c", SUBTRACT), image=there)
    assert subtracted == {"metric.reporters": "b,a"}


def test_eligible_leader_replicas_guards_the_minimum():
    elr = apply_all(EMPTY, [FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)], 0)
    minimum = "min.insync.replicas"
    records, _ = alter(resource(change(minimum, "2")), image=elr)
    assert records == [ConfigRecord(BROKER, "", minimum, "2"), ClearElrRecord("")]
    assert outcome(change(minimum, None, DELETE), image=elr) is ErrorCode.INVALID_CONFIG
    assert outcome(change(minimum, "2"), image=elr, name="1") is ErrorCode.INVALID_CONFIG
    assert outcome(change(minimum, None, DELETE)) == {minimum: None}
    assert outcome(change(minimum, "2"), name="1") == {minimum: "2"}


def test_cordoned_directories_can_only_shrink_here():
    name = "cordoned.log.dirs"
    new = FeatureLevelRecord(name="metadata.version", feature_level=30)
    there = apply_all(EMPTY, [new, ConfigRecord(BROKER, "1", name, "/a,/b")], 0)
    assert outcome(change(name, "/a"), image=there, name="1") == {name: "/a"}
    assert outcome(change(name, "/c"), image=there, name="1") is ErrorCode.INVALID_CONFIG
    assert outcome(change(name, None, DELETE), image=there, name="1") == {name: None}
    assert outcome(change(name, "/a"), name="1") is ErrorCode.INVALID_CONFIG


def test_a_broker_that_forwards_knows_its_directories():
    image = apply_all(EMPTY, [FeatureLevelRecord(name="metadata.version", feature_level=30)], 0)
    asked = IncrementalAlterConfigsRequest(
        resources=(resource(change("cordoned.log.dirs", "/new"), name="1"),)
    )
    records, _ = incremental_alter_configs(context_of(image, client=Client(is_forwarded=True)), asked)
    assert records == [ConfigRecord(BROKER, "1", "cordoned.log.dirs", "/new")]


def test_deciding_changes_nothing():
    image = holding(k="1")
    before = image.hash()
    alter(resource(change("k", "2")), image=image)
    assert image.hash() == before
    assert image[CONFIGS].get(BROKER, "", "k") == "1"


@pytest.mark.parametrize(
    "name", ["a\nb", "a\rb", "\tlog.retention.ms", "a\x7f", "a\x1b[2J", "a\x85b", "a\u2028b"]
)
@pytest.mark.parametrize("operation", ConfigOperation)
def test_a_name_that_would_break_a_line_does_not_get_in(name, operation):
    assert outcome(change(name, "x", operation)) is ErrorCode.INVALID_CONFIG


def test_a_name_that_breaks_a_line_and_got_in_can_be_deleted():
    image = apply_all(EMPTY, [ConfigRecord(BROKER, "", "a\nb", "x")], 0)
    assert outcome(change("a\nb", "y"), image=image) is ErrorCode.INVALID_CONFIG
    assert outcome(change("a\nb", None, DELETE), image=image) == {"a\nb": None}


def test_a_value_may_have_lines():
    assert outcome(change("plugin.jaas", "a\nb")) == {"plugin.jaas": "a\nb"}
