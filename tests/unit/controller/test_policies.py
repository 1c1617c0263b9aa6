"""When an operator's policies are asked, what they are told, and what becomes of what they raise."""

import re
from pathlib import Path

import pytest
from contexts import context_of

from kraftd.controller.configs.configuration_control import alter_configs, incremental_alter_configs
from kraftd.controller.context import ControllerSettings
from kraftd.controller.policies import (
    AlterConfigMetadata,
    ConfigResource,
    CreateTopicMetadata,
    Policies,
    PolicyViolation,
)
from kraftd.controller.topics.creating import create_topics
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import ConfigOperation, ResourceType
from kraftd.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    CreateTopicsRequest,
    IncrementalAlterConfigsRequest,
)
from kraftd.records.messages import ConfigRecord, TopicRecord
from kraftd.types import Now
from tests.unit.controller.test_configuration_control import change, resource
from tests.unit.controller.test_creating_topics import topic
from tests.unit.controller.test_mutation_quotas import Leading, spent, topics
from tests.unit.controller.topic_worlds import THREE, cluster

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE, APPEND, _ = ConfigOperation
NONE, VIOLATION = ErrorCode.NONE, ErrorCode.POLICY_VIOLATION
DEFECT = ErrorCode.UNKNOWN_SERVER_ERROR

IMAGE = cluster(
    *THREE,
    TopicRecord("orders", b"o" * 16),
    ConfigRecord(TOPIC, "orders", "retention.ms", "5"),
    ConfigRecord(TOPIC, "orders", "cleanup.policy", "delete"),
)


class Asked:
    """A policy that remembers what it was told, and raises what it is given."""

    def __init__(self, raises=None):
        self.told = []
        self._raises = raises

    def __call__(self, metadata):
        self.told.append(metadata)
        if self._raises is not None:
            raise self._raises


def world(create_topic=None, alter_config=None, image=IMAGE, **context):
    policies = Policies(create_topic=create_topic, alter_config=alter_config)
    return context_of(
        image, settings=ControllerSettings(num_partitions=4, policies=policies), policy_failures=[], **context
    )


def create(context, *topics, validate_only=False):
    records, response = create_topics(
        context, CreateTopicsRequest(topics=topics, validate_only=validate_only)
    )
    return records, [(each.error_code, each.error_message) for each in response.topics]


def alter(context, *resources, validate_only=False):
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    records, response = incremental_alter_configs(context, request)
    return records, [(each.error_code, each.error_message) for each in response.responses]


def replace(context, name, kind=TOPIC, **configs):
    named = tuple(
        AlterConfigsRequestAlterableConfig(key.replace("_", "."), value) for key, value in configs.items()
    )
    request = AlterConfigsRequest(resources=(AlterConfigsRequestAlterConfigsResource(kind, name, named),))
    return alter_configs(context, request)[0]


def told_of_configs(policy):
    return [(each.resource, dict(each.configs)) for each in policy.told]


# -- topics


def test_a_topic_is_told_with_its_counts_and_the_defaults_put_in():
    policy = Asked()
    create(world(policy), topic("a", 2, 3, retention_ms="7"), topic("b"))
    assert policy.told == [
        CreateTopicMetadata(topic="a", num_partitions=2, replication_factor=3, configs={"retention.ms": "7"}),
        CreateTopicMetadata(topic="b", num_partitions=4, replication_factor=1, configs={}),
    ]


def test_a_topic_that_is_placed_by_hand_is_told_with_its_replicas():
    policy = Asked()
    create(world(policy), topic("a", by_hand=((1, (2, 3)), (0, (1, 2)))))
    (told,) = policy.told
    assert (told.num_partitions, told.replication_factor) == (None, None)
    assert told.replicas_assignments == {0: (1, 2), 1: (2, 3)}


def test_what_a_policy_refuses_is_not_made_and_the_others_are():
    def no_b(request):
        if request.topic == "b":
            raise PolicyViolation("b is for bees")

    records, outcomes = create(world(no_b), topic("a"), topic("b"), topic("c"))
    assert outcomes == [(NONE, None), (VIOLATION, "b is for bees"), (NONE, None)]
    assert [each.name for each in records if isinstance(each, TopicRecord)] == ["a", "c"]


def test_a_policy_that_fails_refuses_without_a_text():
    context = world(Asked(ZeroDivisionError("by nothing")))
    assert create(context, topic("a")) == ([], [(DEFECT, None)])
    (failure,) = context.policy_failures
    assert (failure.policy, failure.error) == (
        "create.topic.policy.class.name",
        "ZeroDivisionError: by nothing",
    )
    assert re.fullmatch(r".*test_policies\.py:\d+", failure.at)


def test_a_policy_is_asked_last_but_before_the_quota():
    policy = Asked(PolicyViolation("no"))
    context = world(policy, mutation_quota=spent(IMAGE, left=-1).mutation_quota)
    _, outcomes = create(
        context, topic("orders"), topic("a", 1, 9), topic("b", by_hand=((0, (7,)),)), topic("c", bad="x")
    )
    assert [code for code, _ in outcomes] == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_CONFIG,
    ]
    assert policy.told == []
    assert create(context, topic("d"))[1] == [(VIOLATION, "no")]
    assert context.mutation_quota.throttle_ms == 0


def test_a_topic_that_is_only_validated_is_asked_about():
    policy = Asked(PolicyViolation("no"))
    assert create(world(policy), topic("a"), validate_only=True) == ([], [(VIOLATION, "no")])


def test_the_configs_of_a_new_topic_are_asked_about_as_well():
    policy = Asked(PolicyViolation("no"))
    _, outcomes = create(world(alter_config=policy), topic("a", retention_ms="7"), topic("b"))
    assert outcomes == [(VIOLATION, "no"), (NONE, None)]
    assert told_of_configs(policy) == [(ConfigResource(TOPIC, "a"), {"retention.ms": "7"})]


def test_a_policy_cannot_change_what_it_is_told():
    def meddle(request):
        request.configs["retention.ms"] = "1"

    context = world(meddle)
    assert create(context, topic("a", retention_ms="7"))[1] == [(DEFECT, None)]


# -- configs


def test_what_changes_is_told_and_what_stays_is_not():
    policy = Asked()
    asked = resource(
        change("retention.ms", "5"),
        change("cleanup.policy", "compact", APPEND),
        change("max.message.bytes", "9"),
        kind=TOPIC,
        name="orders",
    )
    alter(
        world(alter_config=policy),
        asked,
        resource(change("retention.ms", None, DELETE), kind=TOPIC, name="orders"),
    )
    assert policy.told == []  # named twice
    alter(world(alter_config=policy), asked)
    alter(
        world(alter_config=policy), resource(change("retention.ms", None, DELETE), kind=TOPIC, name="orders")
    )
    alter(world(alter_config=policy), resource(change("retention.ms", "5"), kind=TOPIC, name="orders"))
    assert told_of_configs(policy) == [
        (ConfigResource(TOPIC, "orders"), {"cleanup.policy": "delete,compact", "max.message.bytes": "9"}),
        (ConfigResource(TOPIC, "orders"), {"retention.ms": None}),
        (ConfigResource(TOPIC, "orders"), {}),
    ]


def test_a_brokers_config_that_keeps_its_value_is_told():
    policy = Asked()
    image = cluster(*THREE, ConfigRecord(BROKER, "", "log.retention.ms", "5"))
    alter(world(alter_config=policy, image=image), resource(change("log.retention.ms", "5")))
    assert told_of_configs(policy) == [(ConfigResource(BROKER, ""), {"log.retention.ms": "5"})]


def test_what_goes_because_it_was_not_named_is_not_told():
    policy = Asked()
    records = replace(world(alter_config=policy), "orders", max_message_bytes="9", retention_ms="5")
    assert told_of_configs(policy) == [(ConfigResource(TOPIC, "orders"), {"max.message.bytes": "9"})]
    assert [(each.name, each.value) for each in records] == [
        ("max.message.bytes", "9"),
        ("cleanup.policy", None),
    ]


def test_a_refusal_or_a_failure_costs_its_resource_alone():
    def not_orders(request):
        if request.resource.name == "orders":
            raise PolicyViolation("not those")
        if request.resource.name == "1":
            raise KeyError("x")

    context = world(alter_config=not_orders)
    records, outcomes = alter(
        context,
        resource(change("retention.ms", "7"), kind=TOPIC, name="orders"),
        resource(change("log.retention.ms", "7"), name="1"),
        resource(change("log.retention.ms", "7"), name="2"),
    )
    assert outcomes == [(VIOLATION, "not those"), (DEFECT, None), (NONE, None)]
    assert [each.resource_name for each in records] == ["2"]
    assert [each.policy for each in context.policy_failures] == ["alter.config.policy.class.name"]


def test_configs_are_asked_about_last_and_when_only_validated():
    policy = Asked(PolicyViolation("no"))
    context = world(alter_config=policy)
    _, outcomes = alter(
        context,
        resource(change("retention.ms", "soon"), kind=TOPIC, name="orders"),
        resource(change("retention.ms", "7"), kind=TOPIC, name="nobody"),
    )
    assert [code for code, _ in outcomes] == [
        ErrorCode.INVALID_CONFIG,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert policy.told == []
    asked = resource(change("retention.ms", "7"), kind=TOPIC, name="orders")
    assert alter(context, asked, validate_only=True) == ([], [(VIOLATION, "no")])


# -- the active controller


@pytest.mark.covers("D-14")
def test_a_policy_that_fails_is_a_line_and_no_defect_of_this_program():
    policies = Policies(create_topic=Asked(OSError("gone")))
    leading = Leading(ControllerSettings(policies=policies))
    assert [each.error_code for each in leading.create(7, 1).topics] == [DEFECT]
    (line,) = leading.controller.lines
    assert (line.name, line.fields["policy"], line.fields["error"], line.is_warning) == (
        "policy_failed",
        "create.topic.policy.class.name",
        "OSError: gone",
        True,
    )
    assert line.key == ("create.topic.policy.class.name", line.fields["at"])
    assert leading.controller.error_count == 0
    leading.create(7, 1, now_ms=Now(2_000, 0).mono_ms)
    assert len(leading.controller.lines) == 2


class MuteError(Exception):
    """An exception that cannot say what it is about."""

    def __str__(self):
        raise LookupError("no words")


class MuteViolation(PolicyViolation):
    __str__ = MuteError.__str__


RAISED = {
    "an end of the process": (SystemExit(7), DEFECT, "SystemExit: 7"),
    "an interrupt": (KeyboardInterrupt(), DEFECT, "KeyboardInterrupt: "),
    "a group of both": (BaseExceptionGroup("two", [SystemExit(1)]), DEFECT, "two (1 sub-exception)"),
    "one without a text": (MuteError(), DEFECT, "MuteError: it has no text"),
    "a refusal without a text": (MuteViolation(), VIOLATION, None),
    "a refusal that is no UTF-8": (PolicyViolation("caf\udce9"), VIOLATION, None),
}


@pytest.mark.covers("D-14")
@pytest.mark.parametrize(("raised", "error", "line"), RAISED.values(), ids=RAISED)
def test_whatever_a_policy_raises_costs_the_one_topic(raised, error, line):
    def policy(metadata):
        if metadata.topic == topics(1, 1)[1].name:
            raise raised

    leading = Leading(ControllerSettings(policies=Policies(create_topic=policy)))
    other, refused = leading.create(7, 1, 1).topics
    assert (other.error_code, refused.error_code) == (NONE, error)
    assert [each.fields["error"].endswith(line) for each in leading.controller.lines] == [True] * bool(line)
    assert leading.controller.error_count == 0


PASSWORD = "listener.name.external.ssl.keystore.password"


def test_a_password_that_a_policy_fails_on_is_in_no_line():
    def policy(metadata):
        for value in metadata.configs.values():
            int(value)

    context = world(alter_config=policy)
    alter(context, resource(change(PASSWORD, "hunter2"), name="1"))
    alter(context, resource(change("retention.ms", "-1"), kind=TOPIC, name="orders"))
    (failure,) = context.policy_failures
    assert failure.error == "ValueError: its text may hold a secret config"


def test_metadata_show_no_password():
    configs = {PASSWORD: "hunter2", "log.retention.ms": "7", "log.segment.bytes": None}
    shown = repr(AlterConfigMetadata(resource=ConfigResource(BROKER, "1"), configs=configs))
    assert "hunter2" not in shown
    assert "'log.retention.ms': '7', 'log.segment.bytes': None" in shown


# -- the page about them


def test_the_example_of_the_page_does_what_it_says():
    page = Path(__file__).parents[3] / "docs" / "operations.md"
    section = page.read_text(encoding="utf-8").partition("### Rules of your own")[2]
    found: dict = {}
    exec(section.partition("```python\n")[2].partition("```")[0], found)
    check_topic, check_configs = found["check_topic"], found["check_configs"]
    check_topic(CreateTopicMetadata(topic="a", num_partitions=1, replication_factor=2, configs={}))
    check_topic(CreateTopicMetadata(topic="scratch.a", num_partitions=1, replication_factor=1, configs={}))
    with pytest.raises(PolicyViolation, match="a needs 2 replicas"):
        check_topic(CreateTopicMetadata(topic="a", replicas_assignments={0: (1,)}, configs={}))
    orders, brokers = ConfigResource(TOPIC, "orders"), ConfigResource(BROKER, "")
    for_ever = {"retention.ms": "-1"}
    check_configs(AlterConfigMetadata(resource=brokers, configs=for_ever))
    check_configs(AlterConfigMetadata(resource=orders, configs={"retention.ms": None}))
    with pytest.raises(PolicyViolation, match="orders must not be kept for ever"):
        check_configs(AlterConfigMetadata(resource=orders, configs=for_ever))
