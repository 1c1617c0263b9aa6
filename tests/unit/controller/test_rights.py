"""Who may do what with topics and configs: each is decided where the topics or configs are."""

import pytest
from contexts import context_of
from msgspec.structs import replace

from kraftd.controller.access import ACCESS
from kraftd.controller.authorizer import Authorizer
from kraftd.controller.configs.configuration_control import alter_configs, incremental_alter_configs
from kraftd.controller.configs.describe_configs import DESCRIBE_CONFIGS
from kraftd.controller.context import Client, ControllerSettings, ReadContext
from kraftd.controller.topics.adding import create_partitions
from kraftd.controller.topics.creating import create_topics
from kraftd.controller.topics.deleting import delete_topics
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import AclOperation, AclResource
from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.image_builder import apply_all
from kraftd.protocol import messages as m
from kraftd.protocol.principal import Principal
from kraftd.records.messages import RemoveTopicRecord
from kraftd.types import ZERO_UUID, Now
from tests.unit.controller.acl_worlds import CLUSTER, GROUP, TOPIC, acl
from tests.unit.controller.test_adding_and_deleting import IMAGE, A, B, more

ALICE = Client(Principal("User", "alice"), host="10.0.0.1", is_forwarded=True)
OK, NO_TOPIC, NO_GROUP, NO_CLUSTER = (
    ErrorCode.NONE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)
TOO_MANY = ErrorCode.POLICY_VIOLATION
NAMED_IN_THE_REQUEST = {
    "AlterConfigs",
    "CreateDelegationToken",
    "CreatePartitions",
    "CreateTopics",
    "DeleteTopics",
    "DescribeConfigs",
    "IncrementalAlterConfigs",
}
"""The APIs that the gate passes, since what they need depends on what they name: each has its test here,
but for tokens (`test_delegation_token_control`)."""


def test_every_other_api_that_is_served_is_asked_about_the_cluster():
    named = {name for name, access in ACCESS.items() if access and access.resources != {AclResource.CLUSTER}}
    assert named == NAMED_IN_THE_REQUEST


def world(*acls, client=ALICE, authorizer=Authorizer()):  # noqa: B008 - immutable
    settings = ControllerSettings(authorizer=authorizer)
    return context_of(apply_all(IMAGE, acls, 0), settings=settings, client=client)


def may_do(*operations, **other):
    acls = [on("kafka-cluster", one, CLUSTER, number) for number, one in enumerate(operations)]
    return world(*acls, **other).rights.on_the_cluster()


def test_what_may_be_done_to_the_cluster_is_told_as_bits():
    """Kafka's Utils.to32BitField of the operations that AclEntry lists for a cluster."""
    assert may_do(authorizer=None) == 8096
    assert may_do() == 0
    assert may_do(AclOperation.ALL) == 8096
    assert may_do(AclOperation.ALTER) == 1 << 7 | 1 << 8, "it is a right to describe as well"
    assert may_do(AclOperation.ALTER_CONFIGS) == 0, "that is none to describe the cluster"


def on(name, operation, kind=TOPIC, number=1):
    return acl(number, name, kind=kind, operation=operation)


def on_cluster(operation):
    return on("kafka-cluster", operation, CLUSTER, 9)


def codes(results):
    return [ErrorCode(each.error_code) for each in results]


def create(context, *names):
    topics = tuple(m.CreateTopicsRequestCreatableTopic(name, 1, 1) for name in names)
    records, response = create_topics(context, m.CreateTopicsRequest(topics))
    return {record.name for record in records if hasattr(record, "name")}, response.topics


def test_topics_are_created_by_who_may_create_them_or_all():
    made, told = create(world(on("mine", AclOperation.CREATE)), "mine", "yours", "mine2")
    assert made == {"mine"}
    assert codes(told) == [OK, NO_TOPIC, NO_TOPIC]
    assert "'User:alice' may not CREATE topic 'yours'" in told[1].error_message
    made, told = create(world(on_cluster(AclOperation.CREATE)), "mine", "yours")
    assert (made, codes(told)) == ({"mine", "yours"}, [OK, OK])


def test_a_topic_that_is_there_is_not_told_to_who_may_not_create_it():
    assert codes(create(world(), "a")[1]) == [NO_TOPIC]


def test_who_may_not_read_the_configs_of_a_new_topic_is_not_told_them():
    (told,) = create(world(on("mine", AclOperation.CREATE)), "mine")[1]
    assert (told.topic_config_error_code, told.configs) == (NO_TOPIC, ())
    assert (told.num_partitions, told.replication_factor) == (-1, -1)
    may = [on("mine", AclOperation.CREATE), on("mine", AclOperation.DESCRIBE_CONFIGS, number=2)]
    (told,) = create(world(*may), "mine")[1]
    assert (told.topic_config_error_code, told.num_partitions) == (OK, 1)
    assert told.configs


def test_partitions_are_added_by_who_may_alter_the_topic():
    context = world(on("a", AclOperation.ALTER))
    request = m.CreatePartitionsRequest((more("a", 3), more("b", 2), more("nothing", 2)))
    records, response = create_partitions(context, request)
    assert codes(response.results) == [OK, NO_TOPIC, NO_TOPIC]
    assert {record.topic_id for record in records} == {A}


def delete(context, *named):
    asked = m.DeleteTopicsRequest(tuple(m.DeleteTopicsRequestDeleteTopicState(*each) for each in named))
    records, response = delete_topics(context, asked)
    return records, {(each.name, each.topic_id): ErrorCode(each.error_code) for each in response.responses}


def test_topics_are_deleted_by_who_may_delete_them_or_all():
    by_name, by_id = ("a", ZERO_UUID), (None, A)
    for named in (by_name, by_id):
        assert delete(world(on("a", AclOperation.DELETE)), named) == ([RemoveTopicRecord(A)], {("a", A): OK})
        assert delete(world(on_cluster(AclOperation.DELETE)), named)[0] == [RemoveTopicRecord(A)]
        assert delete(world(on("a", AclOperation.DESCRIBE)), named)[0] == []
        assert delete(world(on("b", AclOperation.DELETE)), named)[0] == []


def test_the_name_of_a_topic_is_told_to_who_may_describe_it():
    context = world(on("a", AclOperation.DESCRIBE))
    assert delete(context, (None, A), (None, B)) == ([], {("a", A): NO_TOPIC, (None, B): NO_TOPIC})
    assert delete(context, ("a", ZERO_UUID), ("b", ZERO_UUID)) == (
        [],
        {("a", ZERO_UUID): NO_TOPIC, ("b", ZERO_UUID): NO_TOPIC},
    )


def test_whose_name_and_id_belong_together_is_not_told_to_who_may_not_delete_it():
    """One outcome for both would say which id the name has."""
    both = [(None, A), ("a", ZERO_UUID)]
    assert delete(world(), *both) == ([], {(None, A): NO_TOPIC, ("a", ZERO_UUID): NO_TOPIC})
    describing = world(on("a", AclOperation.DESCRIBE))
    assert delete(describing, *both) == ([], {("a", A): NO_TOPIC, ("a", ZERO_UUID): NO_TOPIC})
    deleting = world(on("a", AclOperation.DELETE))
    assert delete(deleting, *both) == ([], {("a", A): ErrorCode.INVALID_REQUEST})


def test_that_a_topic_is_not_there_is_told_to_who_might_describe_it():
    nothing, unknown = ("nothing", ZERO_UUID), (None, b"?" * 16)
    assert delete(world(), nothing, unknown)[1] == {nothing: NO_TOPIC, unknown: ErrorCode.UNKNOWN_TOPIC_ID}
    (code,) = delete(world(on("nothing", AclOperation.DESCRIBE)), nothing)[1].values()
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_is_asked_in_a_wrong_way_is_told_first():
    both, twice = ("a", A), ("b", ZERO_UUID)
    outcomes = delete(world(), both, twice, twice)[1]
    assert outcomes == {both: ErrorCode.INVALID_REQUEST, twice: ErrorCode.INVALID_REQUEST}


RESOURCES = (
    (ResourceType.TOPIC, "a", NO_TOPIC, on("a", AclOperation.ALTER_CONFIGS)),
    (ResourceType.GROUP, "g", NO_GROUP, on("g", AclOperation.ALTER_CONFIGS, GROUP)),
    (ResourceType.BROKER, "1", NO_CLUSTER, on_cluster(AclOperation.ALTER_CONFIGS)),
    (ResourceType.CLIENT_METRICS, "s", NO_CLUSTER, on_cluster(AclOperation.ALTER_CONFIGS)),
)
VALUES = {
    ResourceType.TOPIC: ("retention.ms", "7"),
    ResourceType.GROUP: ("consumer.session.timeout.ms", "50000"),
    ResourceType.BROKER: ("log.retention.ms", "7"),
    ResourceType.CLIENT_METRICS: ("interval.ms", "1000"),
}


@pytest.mark.parametrize(("kind", "name", "refusal", "right"), RESOURCES)
def test_configs_are_altered_and_read_by_who_may(kind, name, refusal, right):
    key, value = VALUES[kind]
    change = m.IncrementalAlterConfigsRequestAlterableConfig(key, 0, value)
    resource = m.IncrementalAlterConfigsRequestAlterConfigsResource(int(kind), name, (change,))
    whole = m.AlterConfigsRequestAlterConfigsResource(
        int(kind), name, (m.AlterConfigsRequestAlterableConfig(key, value),)
    )
    wanted = m.DescribeConfigsRequest(
        (m.DescribeConfigsRequestDescribeConfigsResource(int(kind), name, None),)
    )
    for context, expected in ((world(), refusal), (world(right), OK)):
        records, response = incremental_alter_configs(context, m.IncrementalAlterConfigsRequest((resource,)))
        assert (codes(response.responses), bool(records)) == ([expected], expected is OK)
        records, response = alter_configs(context, m.AlterConfigsRequest((whole,)))
        assert (codes(response.responses), bool(records)) == ([expected], expected is OK)
        read = ReadContext(
            context.image, 1, context.sessions, Now(0, 0), context.settings, client=context.client
        )
        assert codes(DESCRIBE_CONFIGS.read(read, wanted).results) == [expected]


def test_who_may_not_change_configs_is_told_so_however_many_they_are() -> None:
    many = tuple(m.IncrementalAlterConfigsRequestAlterableConfig(f"x{n}", 0, "1") for n in range(10_001))
    resource = m.IncrementalAlterConfigsRequestAlterConfigsResource(4, "1", many)
    for rights, error in (((), NO_CLUSTER), ((on_cluster(AclOperation.ALTER_CONFIGS),), TOO_MANY)):
        _, response = incremental_alter_configs(world(*rights), m.IncrementalAlterConfigsRequest((resource,)))
        assert response.responses[0].error_code == error


def test_loggers_are_refused_like_kafka_refuses_them() -> None:
    change = m.IncrementalAlterConfigsRequestAlterableConfig("a", 0, "INFO")
    resource = m.IncrementalAlterConfigsRequestAlterConfigsResource(8, "1", (change,))
    whole = m.AlterConfigsRequestAlterConfigsResource(8, "1")
    allowed = on_cluster(AclOperation.ALTER_CONFIGS)
    for rights, error in (((), NO_CLUSTER), ((allowed,), ErrorCode.INVALID_REQUEST)):
        _, response = incremental_alter_configs(world(*rights), m.IncrementalAlterConfigsRequest((resource,)))
        assert response.responses[0].error_code == error
        _, legacy = alter_configs(world(*rights), m.AlterConfigsRequest((whole,)))
        assert legacy.responses[0].error_code == ErrorCode.INVALID_REQUEST


def test_one_resource_without_a_right_costs_no_other():
    change = (m.IncrementalAlterConfigsRequestAlterableConfig("retention.ms", 0, "7"),)
    resources = tuple(
        m.IncrementalAlterConfigsRequestAlterConfigsResource(2, name, change) for name in ("b", "a")
    )
    context = world(on("a", AclOperation.ALTER_CONFIGS))
    records, response = incremental_alter_configs(context, m.IncrementalAlterConfigsRequest(resources))
    assert codes(response.responses) == [NO_TOPIC, OK]
    assert [record.resource_name for record in records] == ["a"]


def test_the_host_of_the_client_counts_and_without_an_authorizer_nobody_is_refused():
    here = acl(1, "mine", operation=AclOperation.CREATE, host="10.0.0.1")
    assert create(world(here), "mine")[0] == {"mine"}
    assert create(world(here, client=replace(ALICE, host="10.0.0.2")), "mine")[0] == set()
    assert create(world(authorizer=None), "mine")[0] == {"mine"}
    assert create(world(authorizer=Authorizer(frozenset({"User:alice"}))), "mine")[0] == {"mine"}
