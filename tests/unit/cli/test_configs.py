"""`configs`: written at the leader, through elections, and read as of now."""

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResponseDescribeConfigsResourceResult,
    DescribeConfigsResponseDescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
    ListConfigsRequest,
    ListConfigsResponse,
    ListConfigsResponseEntry,
)
from kraftd.types import NO_NODE
from tests.unit.cli.kraftctl import Kraftctl, Outcome
from tests.unit.cli.scripted import ScriptedQuorum


def altered(error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> IncrementalAlterConfigsResponse:
    outcome = IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
        error_code=error, error_message=message, resource_type=4
    )
    return IncrementalAlterConfigsResponse(responses=(outcome,))


def configs(kraftctl: Kraftctl, quorum: ScriptedQuorum, *more: object) -> Outcome:
    return kraftctl("--bootstrap-controller", quorum.bootstrap, "configs", *more)


def changes(quorum: ScriptedQuorum, node_id: int = 2) -> list[tuple[str, str, int, str | None]]:
    return [
        (resource.resource_name, config.name, config.config_operation, config.value)
        for request in quorum.nodes[node_id].seen
        if isinstance(request, IncrementalAlterConfigsRequest)
        for resource in request.resources
        for config in resource.configs
    ]


def test_set_is_one_request_to_the_leader(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].answers[IncrementalAlterConfigsRequest] = lambda _: altered()
    outcome = configs(kraftctl, quorum, "set", "log.retention.ms=1000", "compression.type=a=b")
    assert outcome.code == 0
    assert outcome.out == "Completed updating default config for brokers in the cluster.\n"
    assert changes(quorum) == [("", "log.retention.ms", 0, "1000"), ("", "compression.type", 0, "a=b")]


def test_delete_of_one_brokers_config(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].answers[IncrementalAlterConfigsRequest] = lambda _: altered()
    outcome = configs(kraftctl, quorum, "delete", "log.retention.ms", "--broker", 11)
    assert outcome.out == "Completed updating config for broker 11.\n"
    assert changes(quorum) == [("11", "log.retention.ms", 1, None)]


def test_a_name_that_kafka_does_not_define_needs_force(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].answers[IncrementalAlterConfigsRequest] = lambda _: altered()
    outcome = configs(kraftctl, quorum, "set", "log.retenton.ms=1")
    assert outcome.code == 64
    assert "did you mean log.retention.ms?" in outcome.err
    assert changes(quorum) == []
    assert configs(kraftctl, quorum, "set", "log.retenton.ms=1", "--force").code == 0
    assert changes(quorum) == [("", "log.retenton.ms", 0, "1")]


def test_a_value_the_controller_refuses_is_4(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].answers[IncrementalAlterConfigsRequest] = lambda _: altered(
        ErrorCode.INVALID_CONFIG, "log.retention.ms must be a number"
    )
    outcome = configs(kraftctl, quorum, "set", "log.retention.ms=x")
    assert outcome.code == 4
    assert outcome.err == "kraftctl: cluster is left as it was: log.retention.ms must be a number\n"


@pytest.mark.parametrize(
    "fault",
    [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.THROTTLING_QUOTA_EXCEEDED, None],
)
def test_a_change_follows_the_leader_through_an_election(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, fault: ErrorCode | None
) -> None:
    """None: the old leader dies with the request in its hands."""

    def lose(_: object) -> object:
        quorum.lead(3, epoch=8)
        return None if fault is None else altered(fault)

    quorum.nodes[2].answers[IncrementalAlterConfigsRequest] = lose
    quorum.nodes[3].answers[IncrementalAlterConfigsRequest] = lambda _: altered()
    assert configs(kraftctl, quorum, "set", "log.retention.ms=1").code == 0
    assert changes(quorum, 3) == [("", "log.retention.ms", 0, "1")]


@pytest.mark.usefixtures("patient")
def test_a_paused_follower_does_not_delay_a_change(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[3].silent = True
    quorum.nodes[2].answers[IncrementalAlterConfigsRequest] = lambda _: altered()
    assert configs(kraftctl, quorum, "set", "log.retention.ms=1").code == 0


def test_an_unknown_outcome_is_said_to_be_unknown(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].answers[IncrementalAlterConfigsRequest] = lambda _: None
    outcome = configs(kraftctl, quorum, "set", "log.retention.ms=1", "--timeout-ms", 200)
    assert outcome.code == 5
    assert "whether the change was made is unknown, repeating it does no harm" in outcome.err


def test_without_a_leader_a_change_ends_with_5(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.lead(NO_NODE)
    outcome = configs(kraftctl, quorum, "set", "log.retention.ms=1", "--timeout-ms", 200)
    assert outcome.code == 5
    assert outcome.err.startswith("kraftctl: no leader: ")


def test_get_tells_values_and_where_they_come_from(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    def describe(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        [resource] = request.resources
        assert (resource.resource_type, resource.resource_name) == (4, "7")
        found = (
            DescribeConfigsResponseDescribeConfigsResourceResult(
                name="log.retention.ms", value="1000", config_source=3
            ),
            DescribeConfigsResponseDescribeConfigsResourceResult(
                name="ssl.key.password", value=None, is_sensitive=True, config_source=2
            ),
        )
        result = DescribeConfigsResponseDescribeConfigsResult(
            resource_type=4, resource_name="7", configs=found
        )
        return DescribeConfigsResponse(results=(result,))

    quorum.nodes[2].answers[DescribeConfigsRequest] = describe
    names = ("ssl.key.password", "log.retention.ms", "log.retention.bytes")
    outcome = configs(kraftctl, quorum, "get", "--broker", 7, *names)
    assert [line.split() for line in outcome.out.splitlines()] == [
        ["Entity", "Name", "Value", "Source"],
        ["broker", "7", "ssl.key.password", "(secret)", "DYNAMIC_BROKER_CONFIG"],
        ["broker", "7", "log.retention.ms", "1000", "DYNAMIC_DEFAULT_BROKER_CONFIG"],
        ["broker", "7", "log.retention.bytes", "(none)", "-"],
    ]


def test_list_begins_with_the_cluster_and_hides_secrets(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    entries = tuple(
        ListConfigsResponseEntry(resource_type=4, resource_name=resource, name=name, value=value)
        for resource, name, value in [
            ("10", "log.retention.ms", "1"),
            ("9", "ssl.key.password", "tell nobody"),
            ("", "min.insync.replicas", "2"),
        ]
    )
    quorum.nodes[2].answers[ListConfigsRequest] = lambda _: ListConfigsResponse(entries=entries)
    outcome = configs(kraftctl, quorum, "list", "-o", "json")
    assert [(row["entity"], row["value"]) for row in outcome.data] == [
        ("cluster", "2"),
        ("broker 9", None),
        ("broker 10", "1"),
    ]
    only = configs(kraftctl, quorum, "list", "--broker", 10, "-o", "json")
    assert [row["entity"] for row in only.data] == ["broker 10"]
